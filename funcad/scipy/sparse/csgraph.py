"""`scipy.sparse.csgraph` of graphs with traced weights: which edges a path or a tree takes is asked of SciPy at the values.

Idea: distances are sums of the weights along paths, so their derivatives are known as soon as the edges are; `structure` of
funcad.scipy.spatial asks for them in every transformation. Invariant: an element that is 0 is no edge, in a sparse array too,
whose places are all those that a traced array has. Trap: where another path becomes the shorter one, the derivative is that of
the path which is taken at the values.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad.api.border import api
from funcad.configuration import public_names as _public_names
from funcad.ir.aval import dtype_of
from funcad.scipy.door import absent
from funcad.scipy.sparse.sparse_arrays import SparseArray, is_traced, sums
from funcad.scipy.spatial.structures import structure

__all__ = [
    *(
        "bellman_ford",
        "breadth_first_order",
        "breadth_first_tree",
        "connected_components",
        "depth_first_order",
    ),
    *(
        "depth_first_tree",
        "dijkstra",
        "floyd_warshall",
        "johnson",
        "maximum_bipartite_matching",
    ),
    *(
        "min_weight_full_bipartite_matching",
        "minimum_spanning_tree",
        "reverse_cuthill_mckee",
        "shortest_path",
    ),
    "structural_rank",
]

__dir__ = _public_names(globals())


def _theirs(name: str) -> Any:
    return getattr(importlib.import_module("scipy.sparse.csgraph"), name)


def _public(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """SciPy's own function of known graphs, and this one of graphs with traced weights."""

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(body)
        def function(csgraph: Any, *args: Any, **kwargs: Any) -> Any:
            return (body if is_traced(csgraph) else _theirs(name))(
                csgraph, *args, **kwargs
            )

        return api(function)

    return decorate


class _Weights:
    """The elements of a sparse or dense graph; `scipy(values)` is SciPy's array of those that are edges."""

    def __init__(self, csgraph: Any):
        self.array = SparseArray.of(csgraph).canonical()
        self.shape, self.data = self.array.shape, self.array.elements

    def scipy(self, values: np.ndarray) -> Any:
        found = np.flatnonzero(np.isfinite(values) & (values != 0))
        parts = (
            values[found],
            (
                self.array.row[found].astype(np.int32),
                self.array.col[found].astype(np.int32),
            ),
        )
        return importlib.import_module("scipy.sparse").csr_array(
            parts, shape=self.shape
        )

    def edges(
        self, values: np.ndarray, start: np.ndarray, end: np.ndarray, directed: bool
    ) -> np.ndarray:
        """The numbers of the elements that are the edges from `start` to `end`; backwards, too, if that is the lighter one."""
        n = self.shape[1]
        keys = self.array.row * n + self.array.col
        forward, back = [
            np.searchsorted(keys, k) for k in (start * n + end, end * n + start)
        ]
        if directed:
            return forward
        there, other = [
            np.take(keys, at, mode="clip") == k
            for at, k in ((forward, start * n + end), (back, end * n + start))
        ]
        weight = [
            np.where(is_, np.take(values, at, mode="clip"), 0)
            for is_, at in ((there, forward), (other, back))
        ]
        weight = [np.where(w == 0, np.inf, w) for w in weight]
        return np.where(weight[0] <= weight[1], forward, back)

    def asked(
        self, find: Callable[[np.ndarray], tuple[Any, ...]], like: list[Any]
    ) -> tuple[Any, ...]:
        return structure(
            lambda values: tuple(map(np.asarray, find(values))), like, self.data
        )

    def part(self, chosen: Callable[[np.ndarray], np.ndarray]) -> SparseArray:
        """The graph without the elements that are not chosen: they are 0."""
        (mask,) = self.asked(
            lambda values: (chosen(values),), [(bool, (len(self.array.row),))]
        )
        weights = fnp.where(mask, self.data, dtype_of(self.data).type(0))
        return self.array._with(weights, kind="csr_array")


def _chains(
    graph: _Weights, values: np.ndarray, before: np.ndarray, directed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Of the paths that a table of predecessors tells: the number of a path for each edge, and the edge."""
    rows, now = [a.ravel() for a in np.indices(before.shape)]
    paths, edges, which = [], [], np.arange(before.size)
    while len(now):
        start = before[rows, now]
        on = start >= 0
        rows, now, which, start = rows[on], now[on], which[on], start[on]
        paths.append(which)
        edges.append(graph.edges(values, start, now, directed))
        now = start
    return np.concatenate(paths), np.concatenate(edges)


def _distances(
    csgraph: Any,
    call: Callable[[Any], tuple[Any, ...]],
    rows: tuple[int, ...],
    directed: bool,
    predecessors: bool,
    more: int = 0,
) -> Any:
    """Distances along the paths that `call(graph)`, SciPy's function, finds, and what else it gives."""
    graph = _Weights(csgraph)
    shape = (*rows, graph.shape[0])

    def find(values: np.ndarray) -> tuple[Any, ...]:
        lengths, *rest = call(graph.scipy(values))
        before = np.reshape(rest[0], (-1, graph.shape[0]))
        return (
            np.isfinite(lengths),
            *_chains(graph, values, before, directed),
            *rest,
        )

    like: list[Any] = [
        (bool, shape),
        (np.int64, (None,)),
        (np.int64, (None,)),
        *[(np.int32, shape)] * (1 + more),
    ]
    reached, paths, edges, *rest = graph.asked(find, like)
    total = fnp.reshape(
        sums(fnp.asarray(graph.data)[edges] * 1.0, paths, int(np.prod(shape))),
        shape,
    )
    lengths = fnp.where(reached, total, np.inf)
    if more and predecessors:
        return (lengths, *rest)
    return (lengths, rest[0]) if predecessors else lengths


def _rows(indices: Any, n: int) -> tuple[int, ...]:
    return (n,) if indices is None else np.shape(indices)


def _unweighted(csgraph: Any, unweighted: bool) -> Any:
    """Of a graph whose edges all count 1: the weights have no derivative."""
    graph = SparseArray.of(csgraph)
    return (
        graph._with(fnp.where(graph.elements != 0, 1.0, 0.0))
        if unweighted
        else graph
    )


@_public("shortest_path")
def shortest_path(
    csgraph: Any,
    method: str = "auto",
    directed: bool = True,
    return_predecessors: bool = False,
    unweighted: bool = False,
    overwrite: bool = False,
    indices: Any = None,
) -> Any:
    """The lengths of the shortest paths of a graph, differentiable in its weights.

    >>> import numpy as np, funcad
    >>> f = lambda w: funcad.scipy.sparse.csgraph.shortest_path(np.array([[0, w, 9.0], [0, 0, w], [0, 0, 0]]))[0, 2]
    >>> funcad.grad(f)(2.0)
    np.float64(2.0)
    """
    graph = _unweighted(csgraph, unweighted)
    call = lambda g: _theirs("shortest_path")(
        g, method, directed, True, False, False, indices
    )
    return _distances(
        graph, call, _rows(indices, graph.shape[0]), directed, return_predecessors
    )


@_public("floyd_warshall")
def floyd_warshall(
    csgraph: Any,
    directed: bool = True,
    return_predecessors: bool = False,
    unweighted: bool = False,
    overwrite: bool = False,
) -> Any:
    """`shortest_path` by the method of Floyd and Warshall."""
    return shortest_path(csgraph, "FW", directed, return_predecessors, unweighted)


@_public("bellman_ford")
def bellman_ford(
    csgraph: Any,
    directed: bool = True,
    indices: Any = None,
    return_predecessors: bool = False,
    unweighted: bool = False,
) -> Any:
    """`shortest_path` by the method of Bellman and Ford: weights may be negative."""
    return shortest_path(
        csgraph, "BF", directed, return_predecessors, unweighted, False, indices
    )


@_public("johnson")
def johnson(
    csgraph: Any,
    directed: bool = True,
    indices: Any = None,
    return_predecessors: bool = False,
    unweighted: bool = False,
) -> Any:
    """`shortest_path` by Johnson's method: weights may be negative."""
    return shortest_path(
        csgraph, "J", directed, return_predecessors, unweighted, False, indices
    )


@_public("dijkstra")
def dijkstra(
    csgraph: Any,
    directed: bool = True,
    indices: Any = None,
    return_predecessors: bool = False,
    unweighted: bool = False,
    limit: Any = np.inf,
    min_only: bool = False,
) -> Any:
    """`shortest_path` by Dijkstra's method, up to a limit, which is known; from any of the nodes `indices` if `min_only`."""
    graph = _unweighted(csgraph, unweighted)
    call = lambda g: _theirs("dijkstra")(
        g, directed, indices, True, False, limit, min_only
    )
    rows = () if min_only else _rows(indices, graph.shape[0])
    return _distances(
        graph, call, rows, directed, return_predecessors, int(min_only)
    )


@_public("minimum_spanning_tree")
def minimum_spanning_tree(csgraph: Any, overwrite: bool = False) -> SparseArray:
    """The graph of the edges of a minimum spanning tree; traced, the other edges are elements that are 0.

    >>> import numpy as np, funcad
    >>> w = np.array([[0.0, 1.0, 3.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    >>> funcad.grad(lambda w: funcad.scipy.sparse.csgraph.minimum_spanning_tree(w).sum())(w)[0]
    array([0., 1., 0.])
    """
    graph = _Weights(csgraph)
    return graph.part(
        lambda values: _among(
            graph, _theirs("minimum_spanning_tree")(graph.scipy(values)).tocoo()
        )
    )


def _among(graph: _Weights, found: Any) -> np.ndarray:
    n = graph.shape[1]
    return np.isin(
        graph.array.row * n + graph.array.col,
        np.asarray(found.row, np.int64) * n + found.col,
    )


def _tree(name: str) -> Callable[..., Any]:
    def function(csgraph: Any, i_start: int, directed: bool = True) -> SparseArray:
        graph = _Weights(csgraph)
        return graph.part(
            lambda values: _among(
                graph, _theirs(name)(graph.scipy(values), i_start, directed).tocoo()
            )
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "The tree of a search, of the graph's edges; traced, the other edges are elements that are 0."
    return _public(name)(function)


breadth_first_tree, depth_first_tree = (
    _tree("breadth_first_tree"),
    _tree("depth_first_tree"),
)


def _order(name: str) -> Callable[..., Any]:
    def function(
        csgraph: Any,
        i_start: int,
        directed: bool = True,
        return_predecessors: bool = True,
    ) -> Any:
        graph = _Weights(csgraph)
        find = lambda values: _theirs(name)(
            graph.scipy(values), i_start, directed, True
        )
        found = graph.asked(
            find, [(np.int32, (None,)), (np.int32, (graph.shape[0],))]
        )
        return found if return_predecessors else found[0]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "The nodes in the order of a search, and what comes before each: whole numbers without derivative."
    return _public(name)(function)


breadth_first_order, depth_first_order = (
    _order("breadth_first_order"),
    _order("depth_first_order"),
)


@_public("connected_components")
def connected_components(
    csgraph: Any,
    directed: bool = True,
    connection: str = "weak",
    return_labels: bool = True,
) -> Any:
    """How many components there are, and that of each node: whole numbers without derivative."""
    graph = _Weights(csgraph)
    find = lambda values: _theirs("connected_components")(
        graph.scipy(values), directed, connection, True
    )
    count, labels = graph.asked(
        find, [(np.int64, ()), (np.int32, (graph.shape[0],))]
    )
    count = int(count) if type(count) is np.ndarray else count
    return (count, labels) if return_labels else count


def _numbers(
    name: str, *lengths: Callable[[_Weights], tuple[int | None, ...]]
) -> Callable[..., Any]:
    def function(csgraph: Any, *args: Any, **kwargs: Any) -> Any:
        graph = _Weights(csgraph)

        def find(values: np.ndarray) -> tuple[Any, ...]:
            found = _theirs(name)(graph.scipy(values), *args, **kwargs)
            return found if type(found) is tuple else (found,)

        found = graph.asked(find, [(np.int32, length(graph)) for length in lengths])
        return found if len(lengths) > 1 else found[0]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"SciPy's {name} at the values: whole numbers without derivative."
    )
    return _public(name)(function)


reverse_cuthill_mckee = _numbers(
    "reverse_cuthill_mckee", lambda graph: (graph.shape[0],)
)
structural_rank = _numbers("structural_rank", lambda graph: ())
maximum_bipartite_matching = _numbers(
    "maximum_bipartite_matching", lambda graph: (graph.shape[0],)
)
min_weight_full_bipartite_matching = _numbers(
    "min_weight_full_bipartite_matching", *[lambda graph: (min(graph.shape),)] * 2
)

__getattr__ = absent("funcad.scipy.sparse.csgraph")
