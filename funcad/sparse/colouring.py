"""Which columns of a sparse matrix are found by one derivative, and how its elements are read from what comes out.

Idea: columns that share no row are found together, as the sum of them; that is a colouring of the columns. A row with many
elements would need as many colours, so heavy rows are found apart, one by reverse mode each, and the others are coloured. Of a
symmetric matrix each element need only be found once, as element (i, j) or (j, i): that is a star colouring (neighbours differ
in colour, and so do the ends of every path of four vertices or its middles), by the algorithm of Gebremedhin, Tarafdar, Manne
and Pothen (2007), which keeps the stars of two colours. A heavy vertex gets a colour of its own, which is in no such path.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

WORK = 2**26  # steps of a colouring that are worth it; of denser patterns, columns have colours of their own
COST = 2.0  # of a row by reverse mode, in columns by forward mode

Matrix = Any


class Compression(NamedTuple):
    """The seeds, and where the elements of the matrix (in CSR order) stand in what they give.

    `columns` are colours (-1: none) of the inputs, the seeds of forward mode; `rows` of the outputs, those of reverse mode.
    `positions` point into the results of all forward seeds, (n_columns, outputs), followed by those of the others,
    (n_rows, inputs).
    """

    columns: np.ndarray
    rows: np.ndarray
    positions: np.ndarray

    @property
    def n_columns(self) -> int:
        return int(self.columns.max(initial=-1)) + 1

    @property
    def n_rows(self) -> int:
        return int(self.rows.max(initial=-1)) + 1


def heavy(counts: np.ndarray, cost: float) -> np.ndarray:
    """Which rows are to be found apart, so that (those rows) * cost + (the most elements of another row) is least."""
    order = np.argsort(-counts, kind="stable")
    rest = np.append(counts[order], 0)
    best = int(np.argmin(np.arange(len(rest)) * cost + rest))
    flags = np.zeros(len(counts), bool)
    flags[order[:best]] = True
    return flags


def _work(matrix: Matrix) -> int:
    counts = np.diff(matrix.indptr).astype(float)
    return int(counts @ counts)


def _without(matrix: Matrix, rows: np.ndarray) -> Matrix:
    """The matrix with these rows empty."""
    counts = np.where(rows, 0, np.diff(matrix.indptr))
    kept = np.repeat(~rows, np.diff(matrix.indptr))
    parts = (matrix.data[kept], matrix.indices[kept], np.concatenate([[0], np.cumsum(counts)]))
    return type(matrix)(parts, shape=matrix.shape)


def greedy(matrix: Matrix) -> np.ndarray:
    """Colours of the columns, such that columns that share a row differ; -1 for empty ones."""
    n = matrix.shape[1]
    if _work(matrix) > WORK:
        return _each(matrix)
    graph = (matrix.T.tocsr() @ matrix).tocsr()
    pointers, indices = graph.indptr.tolist(), graph.indices.tolist()
    colours = [-1] * n
    for j in range(n):
        near = indices[pointers[j] : pointers[j + 1]]
        if near:
            taken = {colours[k] for k in near}
            c = 0
            while c in taken:
                c += 1
            colours[j] = c
    return np.array(colours, np.intp)


def _places(matrix: Matrix) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices.astype(np.intp)


def _numbered(flags: np.ndarray) -> np.ndarray:
    return np.where(flags, np.cumsum(flags) - 1, -1)


def _each(matrix: Matrix) -> np.ndarray:
    """A colour of its own for each column that is not empty."""
    return _numbered(np.bincount(matrix.indices, minlength=matrix.shape[1]) > 0)


def _one_sided(matrix: Matrix, cost: float) -> tuple[np.ndarray, np.ndarray]:
    """Colours of the columns and numbers of the rows found apart; none where colours of its own for each column cost less."""
    apart = heavy(np.diff(matrix.indptr), cost)
    colours, alone = greedy(_without(matrix, apart)), _each(matrix)
    if alone.max(initial=-1) < colours.max(initial=-1) + cost * int(apart.sum()):
        return alone, _numbered(np.zeros_like(apart))
    return colours, _numbered(apart)


def compression_of(matrix: Matrix) -> Compression:
    """By columns with heavy rows apart, or by rows with heavy columns apart, whatever needs less."""
    m, n = matrix.shape
    transposed = matrix.T.tocsr()
    bounds = []
    for one, cost, other in ((matrix, 1.0, COST), (transposed, COST, 1.0)):  # what it takes at least
        counts = np.diff(one.indptr)
        apart = heavy(counts, other / cost)
        bounds.append(cost * int(counts[~apart].max(initial=0)) + other * int(apart.sum()))
    if bounds[0] <= bounds[1]:
        columns, rows = _one_sided(matrix, COST)
    else:
        rows, columns = _one_sided(transposed, 1 / COST)
    i, j = _places(matrix)
    n_columns = int(columns.max(initial=-1)) + 1
    by_row = (rows[i] >= 0) if bounds[0] <= bounds[1] else (columns[j] < 0)
    return Compression(columns, rows, np.where(by_row, n_columns * m + rows[i] * n + j, columns[j] * m + i))


# -- symmetric


def _star(matrix: Matrix) -> np.ndarray:
    """A star colouring of the vertices of a symmetric pattern."""
    n = matrix.shape[0]
    pointers, indices = matrix.indptr.tolist(), matrix.indices.tolist()
    near = [[w for w in indices[pointers[v] : pointers[v + 1]] if w != v] for v in range(n)]
    colours = [-1] * n
    star: dict[tuple[int, int], int] = {}  # of an edge, smaller end first: the number of its star
    hub: list[int] = []  # of a star: its middle, -1 while it is one edge

    for v in range(n):
        forbidden: set[int] = set()
        first: dict[int, int] = {}  # a neighbour of each colour
        treated: set[int] = set()

        def treat(w: int, v: int = v, forbidden: set[int] = forbidden, treated: set[int] = treated) -> None:
            forbidden.update([colours[x] for x in near[w] if x != v])
            treated.add(w)

        for w in near[v]:
            c = colours[w]
            if c < 0:
                continue
            forbidden.add(c)
            q = first.get(c)
            if q is not None:
                if q not in treated:
                    treat(q)
                treat(w)
                continue
            first[c] = w
            for x in near[w]:
                if x != v and colours[x] >= 0 and hub[star[(w, x) if w < x else (x, w)]] == x:
                    forbidden.add(colours[x])
        c = 0
        while c in forbidden:
            c += 1
        colours[v] = c
        for w in near[v]:
            if colours[w] < 0:
                continue
            edge = (v, w) if v < w else (w, v)
            for x in near[w]:
                if x != v and colours[x] == c:  # w is the middle of a star with v and x
                    number = star[edge] = star[(w, x) if w < x else (x, w)]
                    hub[number] = w
                    break
            else:
                q = first[colours[w]]
                if q != w:  # v is the middle of a star with w and q
                    number = star[edge] = star[(v, q) if v < q else (q, v)]
                    hub[number] = v
                else:
                    star[edge] = len(hub)
                    hub.append(-1)
    return np.array(colours, np.intp)


def symmetric_compression(matrix: Matrix) -> Compression:
    """Of a symmetric matrix, by forward seeds; vertices with empty rows have no colour."""
    n = matrix.shape[0]
    apart = heavy(np.diff(matrix.indptr), 1.0)
    rest = _without(matrix, apart)
    rest = _without(rest.T.tocsr(), apart)
    rest.sort_indices()
    colours = _star(rest) if _work(rest) < WORK // 16 else greedy(rest)
    empty = np.diff(matrix.indptr) == 0
    colours = np.where(apart, colours[~apart & ~empty].max(initial=-1) + 1 + _numbered(apart), np.where(empty, -1, colours))
    i, j = _places(matrix)
    n_colours = int(colours.max(initial=-1)) + 1
    # element (i, j) is read from the sum of the columns of j's colour, if no other of these has an element in row i
    counted = np.bincount(i * n_colours + colours[j], minlength=1) if n * n_colours < 2**27 else None
    if counted is None:
        keys, inverse, counts = np.unique(i * n_colours + colours[j], return_inverse=True, return_counts=True)
        alone = counts[inverse] == 1
    else:
        alone = counted[i * n_colours + colours[j]] == 1
    row, column = np.where(alone, i, j), np.where(alone, j, i)
    return Compression(colours, np.full(n, -1), colours[column] * n + row)
