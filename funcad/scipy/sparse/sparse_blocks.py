"""Sparse arrays made of sparse arrays: stacks, blocks, diagonals, products of Kronecker.

Idea: SciPy's own function is called on arrays whose elements are numbers, 1, 2, 3 ... over all operands; where each comes to
stand, the traced element of that number comes to stand. So whatever only moves elements is SciPy's own, in all its options.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad.api.border import api
from funcad.configuration import mirrors
from funcad.host.real_types import is_a
from funcad.ir.aval import shape_of
from funcad.ir.tracer import Tracer
from funcad.scipy.sparse.sparse_arrays import Places, SparseArray, by_diagonals, holds_traced, is_sparse, moved


def _theirs(name: str) -> Any:
    return getattr(importlib.import_module("scipy.sparse"), name)


def _any_traced(x: Any) -> bool:
    return type(x) in (Tracer, SparseArray) or type(x) in (list, tuple) and any([_any_traced(v) for v in x])


def _joined(name: str, blocks: Any, *args: Any, **kwargs: Any) -> Any:
    """SciPy's function of that name, of blocks of which some are traced."""
    if not _any_traced(blocks) and not (is_a(blocks, np.ndarray) and any([_any_traced(b) for b in blocks.flat])):
        return _theirs(name)(blocks, *args, **kwargs)
    parts: list[Any] = []
    count = 0

    def numbered(block: Any) -> Any:
        nonlocal count
        if isinstance(block, (list, tuple)):
            return [numbered(b) for b in block]
        if block is None:
            return None
        mine = SparseArray.of(block if is_sparse(block) else fnp.atleast_2d(fnp.asarray(block))).canonical()
        ids = mine.numbered(count)
        count += mine.nnz
        parts.append(mine.elements)
        return ids

    kwargs.pop("dtype", None)
    rows = blocks.tolist() if is_a(blocks, np.ndarray) else list(blocks)
    found = _theirs(name)([numbered(b) for b in rows], *args, **kwargs)
    return moved(found, fnp.concatenate(parts))


def _mover(name: str, doc: str, example: str) -> Callable[..., Any]:
    def function(blocks: Any, *args: Any, **kwargs: Any) -> Any:
        return _joined(name, blocks, *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{doc} Blocks may be traced, sparse or dense; options are SciPy's, but for a dtype.

    >>> import numpy as np, funcad
    >>> from funcad.scipy.sparse import {name}
    >>> funcad.grad(lambda x: np.sum({example}.toarray() * 2.0))(np.ones((1, 2)))
    array([[2., 2.]])
    """
    return api(function)


hstack = _mover("hstack", "Sparse arrays side by side.", "hstack([x, np.eye(1)])")
vstack = _mover("vstack", "Sparse arrays below each other.", "vstack([x, np.eye(2)])")
bmat = _mover(
    "bmat",
    "A sparse array of rows of blocks; None is one of zeros.",
    "bmat([[x, None], [None, np.eye(2)]])",
)
block_array = _mover("block_array", "As `bmat`, always an array.", "block_array([[x, None], [None, np.eye(2)]])")
block_diag = _mover("block_diag", "Blocks along the diagonal.", "block_diag([x, np.eye(2)])")


def _part(name: str) -> Callable[..., Any]:
    def function(A: Any, k: int = 0, format: str | None = None) -> Any:
        if not _any_traced(A):
            return _theirs(name)(A, k, format)
        mine = SparseArray.of(A).canonical()
        return moved(_theirs(name)(mine.numbered(), k, format), mine.elements)

    side = "below" if name == "tril" else "above"
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The elements on diagonal k and {side}, of a sparse or dense array that may be traced.

    >>> import numpy as np, funcad
    >>> from funcad.scipy.sparse import {name}
    >>> funcad.grad(lambda x: {name}(x).sum())(np.ones((1, 1)))
    array([[1.]])
    """
    return api(function)


tril, triu = _part("tril"), _part("triu")


def _turned(name: str, doc: str, example: str) -> Callable[..., Any]:
    def function(A: Any, *args: Any, **kwargs: Any) -> Any:
        if not _any_traced(A):
            return _theirs(name)(A, *args, **kwargs)
        mine = SparseArray.of(A).canonical()
        return moved(_theirs(name)(mine.numbered(), *args, **kwargs), mine.elements)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{doc} Arguments are SciPy's; TypeError where a traced one would have three dimensions.

    >>> import numpy as np, funcad
    >>> from funcad.scipy.sparse import coo_array, {name}
    >>> funcad.grad(lambda x: {example}.sum())(np.ones((1, 2)))
    array([[1., 1.]])
    """
    return api(function)


permute_dims = _turned("permute_dims", "The axes of a sparse array in another order.", "permute_dims(coo_array(x), (1, 0))")
swapaxes = _turned("swapaxes", "A sparse array with two axes exchanged.", "swapaxes(coo_array(x), 0, 1)")


@api
def kron(A: Any, B: Any, format: str | None = None) -> Any:
    """The Kronecker product of two sparse or dense arrays, of which one may be traced or both.

    >>> import numpy as np, funcad
    >>> from funcad.scipy.sparse import kron
    >>> funcad.grad(lambda x: kron(np.eye(2), x).sum())(np.ones((1, 2)))
    array([[2., 2.]])
    """
    if not _any_traced([A, B]):
        return _theirs("kron")(A, B, format)
    a = SparseArray.of(A)
    b = SparseArray.of(B)
    m, n = a.shape
    p, q = b.shape
    row = (a.row[:, None] * p + b.row).ravel()
    col = (a.col[:, None] * q + b.col).ravel()
    found = SparseArray(fnp.ravel(a.elements[:, None] * b.elements), Places(row, col, (m * p, n * q)), f"coo{a.kind[3:]}")
    return found.asformat(format)


@api
def kronsum(A: Any, B: Any, format: str | None = None) -> Any:
    """kron(I, A) + kron(B, I), of square sparse or dense arrays, of which one may be traced or both.

    >>> import numpy as np, funcad
    >>> from funcad.scipy.sparse import kronsum
    >>> funcad.grad(lambda x: kronsum(np.eye(2), x).sum())(np.ones((1, 1)))
    array([[2.]])
    """
    if not _any_traced([A, B]):
        return _theirs("kronsum")(A, B, format)
    eye = _theirs("eye_array")
    m = shape_of(A)[0]
    n = shape_of(B)[0]
    found = kron(eye(n), A)
    found = found + kron(B, eye(m))
    return found.asformat(format)


def _of_diagonals(kind: str, diagonals: Any, offsets: Any, shape: Any, format: str | None) -> Any:
    if is_number(offsets):
        traced = [diagonals if len(shape_of(diagonals)) == 1 else diagonals[0]]
        offsets = [offsets]
    else:
        traced, offsets = list(diagonals), list(offsets)
    if len(traced) != len(offsets):
        raise ValueError("Different number of diagonals and offsets.")
    if shape is None:
        n = shape_of(traced[0])[0] + abs(int(offsets[0]))
        shape = (n, n)
    rows, cols, data = [], [], []
    for diagonal, k in zip(traced, map(int, offsets)):
        n = min(shape[0] + min(k, 0), shape[1] - max(k, 0))
        own = fnp.atleast_1d(fnp.asarray(diagonal))
        if n <= 0 or shape_of(own)[0] not in (1, n):
            raise ValueError(f"Diagonal of length {shape_of(own)[0]} at offset {k} does not fit the shape {tuple(shape)}.")
        data.append(fnp.broadcast_to(own, (n,)))
        rows.append(np.arange(n) - min(k, 0))
        cols.append(np.arange(n) + max(k, 0))
    places = Places(np.concatenate(rows), np.concatenate(cols), shape)
    return SparseArray(fnp.concatenate(data), places, kind).asformat(format)


def is_number(x: Any) -> bool:
    return type(x) is not Tracer and np.ndim(x) == 0


def _diagonals(name: str, kind: str) -> Callable[..., Any]:
    def function(
        diagonals: Any,
        offsets: Any = 0,
        shape: Any = None,
        format: str | None = None,
        dtype: Any = None,
    ) -> Any:
        known = _theirs(name)
        if not holds_traced(diagonals):
            return known(
                diagonals,
                offsets=offsets,
                shape=shape,
                format=format,
                **({} if dtype is None else {"dtype": dtype}),
            )
        found = _of_diagonals(kind, diagonals, offsets, shape, format)
        return found if dtype is None else found.astype(dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""SciPy's {name}: a sparse array with these diagonals, which may be traced; a single number fills one.

    >>> import numpy as np, funcad
    >>> from funcad.scipy.sparse import {name}
    >>> funcad.grad(lambda x: {name}([x, 1.0], offsets=[0, 1], shape=(2, 2)).sum())(np.ones(2))
    array([1., 1.])
    """
    return api(function)


diags, diags_array = _diagonals("diags", "dia_matrix"), _diagonals("diags_array", "dia_array")


@api
def spdiags(data: Any, diags: Any, m: Any = None, n: Any = None, format: str | None = None) -> Any:
    """SciPy's spdiags: rows of data, which may be traced, on these diagonals; element j of a row stands in column j.

    >>> import numpy as np, funcad
    >>> from funcad.scipy.sparse import spdiags
    >>> funcad.grad(lambda x: spdiags(x, [0, 1], 2, 2).sum())(np.ones((2, 2)))
    array([[1., 1.],
           [0., 1.]])
    """
    if not holds_traced(data):
        return _theirs("spdiags")(data, diags, m, n, format)
    from_data = fnp.atleast_2d(fnp.asarray(data))
    shape = m if n is None and m is not None and not is_number(m) else (m, n)
    shape = (shape_of(from_data)[1],) * 2 if shape == (None, None) else shape
    return by_diagonals(from_data, diags, shape, "dia_matrix").asformat(format)


@api
def find(A: Any) -> tuple[Any, Any, Any]:
    """Rows, columns and values of all elements; of a traced one, of those that are 0 as well.

    >>> import numpy as np
    >>> from funcad.scipy.sparse import find
    >>> [v.tolist() for v in find(np.eye(2))]
    [[0, 1], [0, 1], [1.0, 1.0]]
    """
    if not _any_traced(A):
        return _theirs("find")(A)  # type: ignore[no-any-return]
    mine = SparseArray.of(A).canonical()
    return mine.row, mine.col, mine.elements


mirrors([hstack, vstack, bmat, block_array, block_diag, permute_dims, swapaxes, tril, triu], "scipy.sparse")
mirrors([kron, kronsum, diags, diags_array, spdiags, find], "scipy.sparse")
