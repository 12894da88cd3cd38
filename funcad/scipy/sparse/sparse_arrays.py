"""Sparse arrays whose elements may be traced: the places are known, the numbers are not.

SciPy's arrays cannot hold traced values, so `csr_array((data, indices, indptr))` with traced data gives a `SparseArray`: the
traced elements beside a `Places`, the rows and columns that they have. It does what is linear algebra (products, sums);
everything else is to be done with its `data`. With known data the functions are SciPy's own. A SparseArray is a pytree with
one leaf, so it goes through jit, grad and vmap.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad import tree
from funcad.api.border import api
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.primitives.conversion import convert


def _scipy_sparse() -> Any:
    """The one door to scipy.sparse."""
    return importlib.import_module("scipy.sparse")


class Places:
    """Where the elements of a sparse array are; compared by content."""

    __slots__ = ("row", "col", "shape", "digest")

    def __init__(self, row: Any, col: Any, shape: tuple[int, ...]):
        self.row, self.col = np.asarray(row, np.intp), np.asarray(col, np.intp)
        self.shape = (int(shape[0]), int(shape[1]))
        self.digest = hashlib.blake2b(self.row.tobytes() + self.col.tobytes() + str(self.shape).encode()).digest()
        for index, n, name in ((self.row, self.shape[0], "row"), (self.col, self.shape[1], "column")):
            if index.size and (index.min() < 0 or index.max() >= n):
                raise ValueError(f"{name} index exceeds matrix dimensions")

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return type(other) is Places and self.digest == other.digest


def sums(values: Any, index: np.ndarray, n: int) -> Any:
    """n rows, each the sum of those values that have its number."""
    return fnp.at(fnp.zeros((n, *shape_of(values)[1:]), dtype_of(values)))[index].add(values)


def product(row: np.ndarray, col: np.ndarray, data: Any, rows: int, x: Any) -> Any:
    """The sparse array with these entries times a vector or a matrix."""
    weights = data if len(shape_of(x)) == 1 else data[:, None]
    return sums(weights * x[col], row, rows)


class SparseArray:
    """A sparse array of two dimensions with traced elements: `data`, at the places `row` and `col`.

    It is what `csr_array`, `csc_array` and `coo_array` give for traced data. Elements at one place add up, as in SciPy. It has
    `shape`, `dtype`, `nnz`, `T`, `@` with arrays, `+`, `-`, products with numbers and (by `multiply`) with dense arrays,
    `sum`, `diagonal`, `toarray`, and goes into the functions of funcad.scipy.sparse.linalg.
    """

    __array_ufunc__ = None  # so that arrays leave `x @ A` and `2 * A` to it
    __slots__ = ("data", "places")

    def __init__(self, data: Any, places: Places):
        self.data = data
        self.places = places

    @classmethod
    def of(cls, a: Any) -> SparseArray:
        """One with the elements of a sparse or dense array, traced or not."""
        row, col, data, shape = entries(a)
        return cls(data, Places(row, col, shape))

    @property
    def shape(self) -> tuple[int, int]:
        return self.places.shape

    @property
    def row(self) -> np.ndarray:
        return self.places.row

    @property
    def col(self) -> np.ndarray:
        return self.places.col

    @property
    def dtype(self) -> np.dtype:
        return dtype_of(self.data)

    @property
    def nnz(self) -> int:
        return len(self.places.row)

    ndim = 2

    @property
    def T(self) -> SparseArray:
        return SparseArray(self.data, Places(self.col, self.row, self.shape[::-1]))

    def __repr__(self) -> str:
        return f"<SparseArray {self.shape} with {self.nnz} elements, {self.data!r}>"

    def transpose(self) -> SparseArray:
        return self.T

    def conj(self) -> SparseArray:
        return SparseArray(np.conj(self.data), self.places)

    def tocoo(self) -> SparseArray:
        return self

    tocsr = tocsc = tocoo

    def toarray(self) -> Any:
        """The dense array."""
        m, n = self.shape
        return fnp.reshape(sums(self.data, self.row * n + self.col, m * n), (m, n))

    todense = toarray

    def diagonal(self) -> Any:
        on = self.row == self.col
        return sums(self.data[np.flatnonzero(on)], self.row[on], min(self.shape))

    def sum(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
        if dtype is not None or out is not None:
            raise TypeError("sum of a sparse array with traced elements takes no dtype and no out")
        if axis is None:
            return fnp.sum(self.data)
        along = self.col if axis % 2 == 0 else self.row
        return sums(self.data, along, self.shape[1 - axis % 2])

    def multiply(self, other: Any) -> SparseArray:
        """The product element by element with a number or a dense array, broadcast to its shape."""
        if is_sparse(other):
            raise TypeError("multiply: beside a traced sparse array the other must be dense.\nRemedy: A.multiply(B.toarray()).")
        shape = shape_of(other)
        factor = other if not shape else fnp.broadcast_to(other, self.shape)[self.row, self.col]
        return SparseArray(self.data * factor, self.places)

    def dot(self, x: Any) -> Any:
        return self @ x

    def __matmul__(self, x: Any) -> Any:
        if is_sparse(x):
            raise TypeError(
                "the product of two sparse arrays has other places than these.\nRemedy: A @ (B @ x), or A @ B.toarray()."
            )
        x = fnp.asarray(x)
        if not 1 <= len(shape_of(x)) <= 2 or shape_of(x)[0] != self.shape[1]:
            raise ValueError(f"matmul: a sparse array of shape {self.shape} and an array of shape {shape_of(x)} do not fit")
        return product(self.row, self.col, self.data, self.shape[0], x)

    def __rmatmul__(self, x: Any) -> Any:
        return (self.T @ fnp.asarray(x).T).T

    def __mul__(self, other: Any) -> Any:
        if shape_of(other):
            return self.multiply(other)
        return SparseArray(self.data * other, self.places)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> SparseArray:
        return self.multiply(1 / other)

    def __neg__(self) -> SparseArray:
        return SparseArray(-self.data, self.places)

    def __add__(self, other: Any) -> Any:
        if not is_sparse(other):
            return self.toarray() + other
        row, col, data, shape = entries(other)
        if shape != self.shape:
            raise ValueError(f"inconsistent shapes: {self.shape} and {shape}")
        places = Places(np.concatenate([self.row, row]), np.concatenate([self.col, col]), shape)
        return SparseArray(fnp.concatenate([self.data, data]), places)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other


tree.register_pytree_node(SparseArray, lambda a: ((a.data,), a.places), lambda places, data: SparseArray(data[0], places))


def is_sparse(a: Any) -> bool:
    """One of SciPy's sparse arrays or matrices, or one with traced elements."""
    return type(a) is SparseArray or hasattr(a, "tocoo") and hasattr(a, "nnz")


def is_traced(*values: Any) -> bool:
    return any([type(v) is Tracer or type(v) is SparseArray for v in values])


def entries(a: Any) -> tuple[np.ndarray, np.ndarray, Any, tuple[int, int]]:
    """(rows, columns, elements, shape) of a sparse array, or of a dense one, all of whose elements count."""
    if type(a) is SparseArray:
        return a.row, a.col, a.data, a.shape
    if is_sparse(a):
        coo = a.tocoo()
        return np.asarray(coo.row, np.intp), np.asarray(coo.col, np.intp), coo.data, coo.shape
    shape = shape_of(a)
    if len(shape) != 2:
        raise ValueError(f"expected a matrix, got the shape {shape}")
    row, col = np.indices(shape).reshape(2, -1)
    return row, col, fnp.reshape(a, -1), shape


def _made(name: str, arg: Any, shape: Any, dtype: Any, copy: bool, places: Callable[..., Places]) -> Any:
    given = arg[0] if isinstance(arg, tuple) and len(arg) in (2, 3) else None
    if type(given) is Tracer:
        data = given if dtype is None or dtype_of(given) == np.dtype(dtype) else convert(given, np.dtype(dtype))
        found = places(arg, shape)
        if shape_of(data) != found.row.shape or found.row.shape != found.col.shape:
            raise ValueError(f"{name}: {shape_of(data)} elements at {len(found.row)} rows and {len(found.col)} columns")
        return SparseArray(data, found)
    if type(arg) is SparseArray:
        return arg
    if type(arg) is Tracer:
        return SparseArray.of(arg)
    return getattr(_scipy_sparse(), name)(arg, shape=shape, dtype=dtype, copy=copy)


def _by_coordinates(arg: Any, shape: Any) -> Places:
    row, col = [np.asarray(v) for v in arg[1]]
    if shape is None:
        shape = (int(row.max(initial=-1)) + 1, int(col.max(initial=-1)) + 1)
    return Places(row, col, shape)


def _compressed(by_row: bool) -> Callable[[Any, Any], Places]:
    def places(arg: Any, shape: Any) -> Places:
        if len(arg) == 2:
            return _by_coordinates(arg, shape)
        inner, pointers = np.asarray(arg[1]), np.asarray(arg[2])
        if pointers[0] != 0 or pointers[-1] != len(inner) or (np.diff(pointers) < 0).any():
            raise ValueError("indptr must begin with 0, end with the number of elements, and not decrease")
        outer = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
        if shape is None:
            other = int(inner.max(initial=-1)) + 1
            shape = (len(pointers) - 1, other) if by_row else (other, len(pointers) - 1)
        elif len(pointers) - 1 != shape[0 if by_row else 1]:
            raise ValueError(f"indptr has {len(pointers)} elements, which does not fit the shape {tuple(shape)}")
        return Places(outer, inner, shape) if by_row else Places(inner, outer, shape)

    return places


@api
def csr_array(arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False) -> Any:
    """SciPy's csr_array, of elements that may be traced: `csr_array((data, indices, indptr), shape)`.

    With known elements it is SciPy's own, whatever `arg1` is. With traced `data`, in `(data, indices, indptr)` or
    `(data, (row, col))`, or of a traced dense array, it is a `SparseArray` of that `shape` and `dtype` (`copy` makes no
    difference). ValueError if the parts do not fit.

    >>> import numpy as np, funcad
    >>> f = lambda d: np.sum(funcad.scipy.sparse.csr_array((d, [0, 1], [0, 1, 2])) @ np.array([3.0, 4.0]))
    >>> funcad.grad(f)(np.ones(2))
    array([3., 4.])
    """
    return _made("csr_array", arg1, shape, dtype, copy, _compressed(True))


@api
def csc_array(arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False) -> Any:
    """SciPy's csc_array, of elements that may be traced: `csc_array((data, indices, indptr), shape)`.

    Arguments, results and errors as of `csr_array`; the indices are those of rows.

    >>> import numpy as np, funcad
    >>> f = lambda d: np.sum(funcad.scipy.sparse.csc_array((d, [0, 1], [0, 1, 2])) @ np.array([3.0, 4.0]))
    >>> funcad.grad(f)(np.ones(2))
    array([3., 4.])
    """
    return _made("csc_array", arg1, shape, dtype, copy, _compressed(False))


@api
def coo_array(arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False) -> Any:
    """SciPy's coo_array, of elements that may be traced: `coo_array((data, (row, col)), shape)`.

    Arguments, results and errors as of `csr_array`.

    >>> import numpy as np, funcad
    >>> f = lambda d: np.sum(funcad.scipy.sparse.coo_array((d, ([0, 1], [1, 0]))) @ np.array([3.0, 4.0]))
    >>> funcad.grad(f)(np.ones(2))
    array([4., 3.])
    """
    return _made("coo_array", arg1, shape, dtype, copy, _by_coordinates)
