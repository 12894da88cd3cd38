"""Sparse arrays whose elements may be traced: the places are known, the numbers are not.

SciPy's arrays cannot hold traced values, so `csr_array((data, indices, indptr))` with traced data gives a `SparseArray`: the
traced elements beside a `Places`, the rows and columns that they have. It does what is linear algebra (products, sums);
everything else is to be done with its `data`. With known data the functions are SciPy's own. A SparseArray is a pytree with
one leaf, so it goes through jit, grad and vmap.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad import tree
from funcad.api.border import api
from funcad.host.real_types import is_a
from funcad.host.where import user_source
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.primitives.conversion import convert


def _where() -> str:
    source = user_source()
    return f" at {source}" if source is not None else ""


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
        for index, n, name in (
            (self.row, self.shape[0], "row"),
            (self.col, self.shape[1], "column"),
        ):
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

    It is what the arrays and matrices of SciPy's are for traced elements, of any format; `kind` says which ("csr_matrix").
    Elements at one place add up, as in SciPy. It has what they have where the places of the result are known: conversions,
    indices and slices, `T`, `@` with arrays and sparse arrays, `+`, `-`, products and powers by elements, sums, `diagonal`,
    `toarray`; and it goes into the functions of funcad.scipy.sparse and of its linalg. `A[i, j] = v` and `A[i, j] += v`
    write it: what is written waits in a table until something else is asked for; loops over elements take a step each.
    """

    __array_ufunc__ = None  # so that arrays leave `x @ A` and `2 * A` to it
    __array_priority__ = 10.1  # as SciPy's: and to what stands in for it
    __slots__ = ("_data", "_places", "kind", "_numbers", "_written", "_added", "_shown", "__weakref__")

    def __init__(self, data: Any, places: Places, kind: str = "coo_array"):
        self._data = data
        self._places = places
        self.kind = kind
        self._numbers: dict[tuple[int, int], int] | None = None  # of one that is being written: where each element is
        self._written: dict[tuple[int, int], Any] = {}  # what waits: a number, an array and the place in it, or `_Sum`
        self._added: list[Any] = []  # sums, and what was added to each, one after the other
        self._shown: Any = None  # the elements in the order of this format, which were handed out, and how they were then

    @property
    def elements(self) -> Any:
        """The elements, in the order of `row` and `col`."""
        self._settle()
        return self._data

    @property
    def data(self) -> Any:
        """The elements as SciPy's array of this format has them: who writes them writes the array."""
        return self.shown("data")

    @data.setter
    def data(self, value: Any) -> None:
        now = self.shown("data")
        if shape_of(value) != shape_of(now):
            raise ValueError(f"{self.kind}.data: {shape_of(value)} elements in the place of {shape_of(now)}")
        if self._shown is not None:
            self._shown = fnp.asarray(value), None
        else:
            self._data = fnp.asarray(value)

    @property
    def places(self) -> Places:
        self._settle()
        return self._places

    @classmethod
    def of(cls, a: Any, kind: str | None = None) -> SparseArray:
        """One with the elements of a sparse or dense array, traced or not."""
        if type(a) is SparseArray:
            if kind is None or kind[:3] == a.format:
                return a if kind is None else cls(a.elements, a.places, kind)
            return cls(fnp.array(a.elements), a.places, kind)
        row, col, data, shape = entries(a)
        own = f"{a.format}_{'matrix' if _is_matrix(a) else 'array'}" if is_sparse(a) else "coo_array"
        return cls(data, Places(row, col, shape), kind or own)

    @property
    def shape(self) -> tuple[int, int]:
        return self._places.shape

    @property
    def row(self) -> np.ndarray:
        return self.places.row

    @property
    def col(self) -> np.ndarray:
        return self.places.col

    @property
    def dtype(self) -> np.dtype:
        return dtype_of(self.elements)

    @property
    def nnz(self) -> int:
        return len(self.places.row)

    @property
    def format(self) -> str:
        return self.kind[:3]

    ndim = 2

    @property
    def size(self) -> int:
        return self.nnz

    def getnnz(self, axis: int | None = None) -> Any:
        return self.nnz if axis is None else self.numbered().getnnz(axis)

    @property
    def T(self) -> SparseArray:
        kind = _TRANSPOSED.get(self.format, self.format) + self.kind[3:]
        return self._with(self.elements, Places(self.col, self.row, self.shape[::-1]), kind)

    def __repr__(self) -> str:
        return f"<SparseArray {self.shape} with {self.nnz} elements, {self.elements!r}>"

    def _with(self, data: Any, places: Places | None = None, kind: str | None = None) -> SparseArray:
        return SparseArray(data, places or self.places, kind or self.kind)

    # -- structure: SciPy's own, of the numbers of the elements

    def canonical(self) -> SparseArray:
        """With one element at each place, row by row."""
        keys = self.row * self.shape[1] + self.col
        if (np.diff(keys) > 0).all():
            return self
        found, where = np.unique(keys, return_inverse=True)
        places = Places(found // max(self.shape[1], 1), found % max(self.shape[1], 1), self.shape)
        return self._with(sums(self.elements, where.ravel(), len(found)), places)

    def numbered(self, first: int = 0) -> Any:
        """SciPy's array of this kind, whose elements are `first` + 1, + 2 ...: each is known wherever it comes to stand."""
        ids = np.arange(first + 1, first + self.nnz + 1, dtype=np.int64)
        coo = _scipy_sparse().coo_array((ids, (self.row, self.col)), shape=self.shape)
        return getattr(_scipy_sparse(), self.kind)(coo)

    def _moved(self, move: Callable[[Any], Any]) -> Any:
        """What SciPy's array gives for something that only moves its elements."""
        mine = self.canonical()
        return moved(move(mine.numbered()), mine.elements)

    def __getitem__(self, index: Any) -> Any:
        if self._numbers is not None:
            at = self._pair(index)
            if at is not None:
                found = self._written.get(at)
                return found if type(found) is Tracer else self._waiting(at)
            row, col = self._grid(index)
            if row.ndim == 2 and row.size <= max(len(self._written), _SMALL_PART):
                return self._part(row, col)
        return self._moved(lambda ids: ids[index])

    def _waiting(self, at: tuple[int, int]) -> Any:
        """One element of an array that is being written."""
        found = self._written.get(at)
        if type(found) is _Sum:
            found = self._written[at] = found.upto(len(found))
        if found is None:
            k = self._numbers.get(at) if self._numbers is not None else None
            return self._data.dtype.type(0) if k is None else self._data[k]
        return found[0][found[1]] if type(found) is tuple else found

    def _part(self, row: np.ndarray, col: np.ndarray) -> SparseArray:
        """Elements of an array that is being written."""
        numbers, written, kept = self._numbers or {}, self._written, fnp.asarray(self._data)
        found, there = [], []
        for k, at in enumerate(zip(row.ravel().tolist(), col.ravel().tolist())):
            value = written.get(at)
            value = self._waiting(at) if type(value) is _Sum else value
            value = (kept, numbers[at]) if value is None and at in numbers else value
            if value is not None:
                found.append(value)
                there.append(k)
        data = _together(found) if found else kept[:0]
        return self._with(data, Places(*np.divmod(np.array(there, int), row.shape[1]), row.shape))

    def _pair(self, index: Any) -> tuple[int, int] | None:
        """The row and the column of one element; None of all other indices."""
        if type(index) is not tuple or len(index) != 2:
            return None
        i, j = index
        if not _INTEGERS.issuperset(map(type, index)) and not (is_a(i, (int, np.integer)) and is_a(j, (int, np.integer))):
            return None
        n, m = self._places.shape
        i, j = int(i), int(j)
        if not (-n <= i < n and -m <= j < m):
            raise IndexError(f"index ({i}, {j}) out of range")
        return i % n, j % m

    def _settle(self) -> None:
        """What was written is among the elements from now on."""
        if self._shown is not None and (self._shown[1] is None or self._shown[1] != _state(self._shown[0])):
            self._taken_back(self._shown[0])
        if not self._written:
            return
        written, added, self._written, self._added = self._written, self._added, {}, []
        numbers, shape = self._numbers or {}, self._places.shape
        old = [(k, v) for at, v in written.items() if (k := numbers.get(at)) is not None]
        new = [(at, v) for at, v in written.items() if at not in numbers]
        data = self._data
        values = _added_up([v for _, v in [*old, *new]], added)
        dtype = np.result_type(dtype_of(data), dtype_of(values)) if not len(self._places.row) else dtype_of(data)
        data, values = convert(fnp.asarray(data), dtype), convert(values, dtype)
        if old:
            data = fnp.at(data)[np.array([k for k, _ in old])].set(values[: len(old)])
        if new:
            data = fnp.concatenate([data, values[len(old) :]])
        places = np.array([at for at, _ in new], int).reshape(len(new), 2)
        row, col = [np.concatenate([a, places[:, i]]) for i, a in enumerate((self._places.row, self._places.col))]
        self._data, self._places, self._numbers = data, Places(row, col, shape), None

    def _taken_back(self, data: Any) -> None:
        """The elements that were shown may have been written."""
        ids = SparseArray(self._data, self._places, self.kind).canonical().numbered()
        if self.format == "dia":
            mine = by_diagonals(data, ids.offsets, self.shape, self.kind)
        elif self.format == "bsr":
            mine = _blocks(data, ids.indices, ids.indptr, self.shape, self.kind)
        else:
            mine = SparseArray(data, _compressed(False)((data, ids.indices, ids.indptr), self.shape), self.kind).canonical()
        self._data, self._places, self._shown = mine.elements, mine.places, (data, _state(data))

    def __setitem__(self, index: Any, value: Any) -> None:
        if self._numbers is None:
            mine = self.canonical()
            self._shown = None
            self._data, self._places = mine.elements, mine.places
            self._numbers = {at: k for k, at in enumerate(zip(self._places.row.tolist(), self._places.col.tolist()))}
        at = self._pair(index)
        if at is not None:
            number = type(value) is Tracer and type(value.primal) is np.float64 or not np.ndim(value)
            self._written[at] = value if number else fnp.reshape(value, ())
            return
        row, col = self._grid(index)
        value = value.toarray() if is_sparse(value) or type(value) is SparseArray else fnp.asarray(value)
        if np.ndim(value) == 2 and len(row.shape) == 1 and np.size(value) == row.size:  # SciPy takes a column, too
            value = np.reshape(value, row.shape)
        flat = fnp.reshape(fnp.array(fnp.broadcast_to(value, row.shape)), -1)
        places = zip(row.ravel().tolist(), col.ravel().tolist())
        self._written.update([(at, (flat, k)) for k, at in enumerate(places)])

    def adding(self) -> _Adding:
        return _Adding(self)

    def added_to(self, index: Any) -> tuple[tuple[int, int], Any] | None:
        """The place of one element that a loop adds to, and what waits there: a number or a sum, from 0; None of others."""
        if self._numbers is None or type(index) is not tuple or not _INTEGERS.issuperset(map(type, index)):
            return None
        at: Any = tuple(map(int, index))  # numbers of NumPy's are compared slowly
        found = self._written.get(at)
        if type(found) is _Sum or type(found) is Tracer and type(found.primal) is np.float64:
            return at, found
        if found is None and self._data.dtype == np.float64 and self._pair(at) == at and at not in self._numbers:
            return at, _Sum([np.float64(0)])
        return None

    def _grid(self, index: Any) -> tuple[np.ndarray, np.ndarray]:
        """The rows and columns of the elements at an index."""
        n, m = self._places.shape
        index = index if type(index) is tuple else (index, slice(None))
        row, col = [np.arange(k)[i] for k, i in zip((n, m), index)]
        if any([type(i) is slice for i in index]):
            row, col = np.meshgrid(row, col, indexing="ij")
            row, col = [a[0] if np.ndim(index[0]) == 0 and type(index[0]) is not slice else a for a in (row, col)]
            if np.ndim(index[1]) == 0 and type(index[1]) is not slice:
                row, col = row[:, 0], col[:, 0]
        return np.broadcast_arrays(row, col)  # type: ignore[return-value]

    def transpose(self, axes: Any = None, copy: bool = False) -> SparseArray:
        return self.T

    def asformat(self, format: str | None, copy: bool = False) -> SparseArray:
        if format is None or format == self.format:
            return self.copy() if copy else self
        if format not in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil"):
            raise ValueError(f"Format {format} is unknown.")
        mine = self if format == "coo" else self.canonical()  # other formats have one element at each place
        shares = format == "coo" and self.format == "csr" and not copy
        return mine._with(mine.elements if shares else fnp.array(mine.elements), kind=format + self.kind[3:])

    def tocoo(self, copy: bool = False) -> SparseArray:
        return self.asformat("coo", copy)

    def tocsr(self, copy: bool = False) -> SparseArray:
        return self.asformat("csr", copy)

    def tocsc(self, copy: bool = False) -> SparseArray:
        return self.asformat("csc", copy)

    def tolil(self, copy: bool = False) -> SparseArray:
        return self.asformat("lil", copy)

    def todia(self, copy: bool = False) -> SparseArray:
        return self.asformat("dia", copy)

    def tobsr(self, blocksize: Any = None, copy: bool = False) -> SparseArray:
        return self.asformat("bsr", copy)

    def todok(self, copy: bool = False) -> SparseArray:
        return self.asformat("dok", copy)

    def copy(self) -> SparseArray:
        return self._with(fnp.array(self.elements))

    def sum_duplicates(self) -> None:
        """Elements at one place become one."""
        mine = self.canonical()
        self._data, self._places, self._numbers = mine.elements, mine.places, None

    def sort_indices(self) -> None:
        """There is no order that shows."""

    eliminate_zeros = prune = sort_indices

    has_sorted_indices = has_canonical_format = True

    def sorted_indices(self) -> SparseArray:
        return self.canonical()

    def setdiag(self, values: Any, k: int = 0) -> None:
        n = min(self.shape[0] + min(k, 0), self.shape[1] - max(k, 0))
        n = min(n, len(values)) if np.ndim(values) else n
        self[np.arange(n) + max(-k, 0), np.arange(n) + max(k, 0)] = values[:n] if np.ndim(values) else values

    def resize(self, *shape: Any) -> None:
        ids = self.canonical().numbered()
        ids.resize(*shape)
        mine = self._moved(lambda _: ids)
        self._data, self._places, self._numbers = mine.elements, mine.places, None

    def shown(self, name: str) -> Any:
        """The attributes of one format: `data` in its order, `indices`, `indptr`, `offsets`, `blocksize`, `coords`."""
        if self.format == "csr" and name == "data":
            self.sum_duplicates()
        if self.format in ("coo", "csr") and name == "data":
            return self.elements
        if self.format == "coo":
            return {"data": self.elements, "coords": (self.row, self.col)}[name]
        if name == "data" and self.format in ("lil", "dok"):
            raise TypeError(f"{name} of a {self.kind} with traced elements{_where()}.\nRemedy: A.tocsr().data.")
        self._settle()
        if name == "data" and self._shown is not None:
            return self._shown[0]
        mine = self.canonical()
        found = getattr(mine.numbered(), name)
        if name == "data":
            found = moved(found, mine.elements)
            self._shown = found, _state(found)
        return found

    def __getattr__(self, name: str) -> Any:
        if name in _SHOWN and (self.format in ("csr", "csc", "bsr", "dia") or name == "coords"):
            return self.shown(name)
        if self.format == "dok" and name in ("items", "keys", "values"):
            return getattr(dict(zip(zip(self.row.tolist(), self.col.tolist()), self.elements)), name)
        if name in _ZERO_AT_ZERO:
            mine = self.canonical()
            return lambda: mine._with(getattr(np, name)(mine.elements))
        if name in _OF_DENSE:
            return lambda axis=None, out=None, explicit=False: getattr(np, name)(self.toarray(), axis=axis)
        raise AttributeError(
            f"{self.kind}.{name} is not there for traced elements{_where()}.\n"
            f"Remedy: A.toarray() for NumPy's functions, or A.tocoo(), whose data, row and col are arrays.",
            name=name,
            obj=self,
        )

    def reshape(self, *shape: Any, **options: Any) -> Any:
        return self._moved(lambda ids: ids.reshape(*shape, **options))

    def getrow(self, i: int) -> Any:
        return self._moved(lambda ids: ids.getrow(i) if hasattr(ids, "getrow") else ids[[i], :])

    def getcol(self, j: int) -> Any:
        return self._moved(lambda ids: ids.getcol(j) if hasattr(ids, "getcol") else ids[:, [j]])

    def diagonal(self, k: int = 0) -> Any:
        return self._moved(lambda ids: ids.diagonal(k))

    def nonzero(self) -> tuple[np.ndarray, np.ndarray]:
        """The places of all elements, those that are 0 included."""
        mine = self.canonical()
        return mine.row, mine.col

    def toarray(self, order: str | None = None, out: None = None) -> Any:
        """The dense array."""
        m, n = self.shape
        return fnp.reshape(sums(self.elements, self.row * n + self.col, m * n), (m, n))

    todense = toarray

    # -- element by element

    def astype(self, dtype: Any, casting: str = "unsafe", copy: bool = True) -> SparseArray:
        return self._with(fnp.astype(self.elements, dtype))

    def conj(self, copy: bool = True) -> SparseArray:
        return self._with(np.conj(self.elements))

    conjugate = conj

    @property
    def real(self) -> SparseArray:
        return self._with(fnp.real(self.elements))

    @property
    def imag(self) -> SparseArray:
        return self._with(fnp.imag(self.elements))

    def power(self, n: Any, dtype: Any = None) -> SparseArray:
        """Each element to the power n, which is positive: what is not there stays 0."""
        mine = self.canonical()
        return mine._with(mine.elements**n)

    def __abs__(self) -> SparseArray:
        mine = self.canonical()
        return mine._with(abs(mine.elements))

    def __neg__(self) -> SparseArray:
        return self._with(-self.elements)

    def _beside(self, other: Any, ufunc: Any) -> SparseArray:
        """A ufunc, which gives 0 of two zeros, of the elements at the places of both."""
        theirs = SparseArray.of(other if is_sparse(other) or shape_of(other) else np.full(self.shape, other))
        both, n = (self + theirs).canonical(), max(self.shape[1], 1)
        keys = both.row * n + both.col
        values = [sums(a.elements, np.searchsorted(keys, a.row * n + a.col), len(keys)) for a in (self, theirs)]
        return both._with(ufunc(*values))

    def maximum(self, other: Any) -> SparseArray:
        return self._beside(other, np.maximum)

    def minimum(self, other: Any) -> SparseArray:
        return self._beside(other, np.minimum)

    def _comparison(self, other: Any, compare: Any) -> SparseArray:
        theirs = other.toarray() if is_sparse(other) else other
        return SparseArray.of(compare(self.toarray(), theirs), self.kind.replace("coo", "csr"))

    def __eq__(self, other: object) -> Any:
        return self._comparison(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._comparison(other, operator.ne)

    def __lt__(self, other: Any) -> SparseArray:
        return self._comparison(other, operator.lt)

    def __le__(self, other: Any) -> SparseArray:
        return self._comparison(other, operator.le)

    def __gt__(self, other: Any) -> SparseArray:
        return self._comparison(other, operator.gt)

    def __ge__(self, other: Any) -> SparseArray:
        return self._comparison(other, operator.ge)

    __hash__ = object.__hash__

    def multiply(self, other: Any) -> SparseArray:
        """The product element by element with a number, a dense array, broadcast to its shape, or a sparse array."""
        if is_sparse(other):
            mine, theirs = self.canonical(), SparseArray.of(other).canonical()
            if mine.shape != theirs.shape:
                raise ValueError(f"inconsistent shapes: {mine.shape} and {theirs.shape}")
            n = mine.shape[1]
            _, i, j = np.intersect1d(mine.row * n + mine.col, theirs.row * n + theirs.col, True, return_indices=True)
            return self._with(mine.elements[i] * theirs.elements[j], Places(mine.row[i], mine.col[i], mine.shape))
        shape = shape_of(other)
        factor = other if not shape else fnp.broadcast_to(other, self.shape)[self.row, self.col]
        return self._with(self.elements * factor)

    # -- linear algebra

    def sum(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
        if dtype is not None or out is not None:
            raise TypeError(
                "sum of a sparse array with traced elements takes no dtype and no out.\nRemedy: A.astype(dtype).sum()."
            )
        if axis is None:
            return fnp.sum(self.elements)
        down = axis % 2 == 0
        found = sums(self.elements, self.col if down else self.row, self.shape[1 - axis % 2])
        if not _is_matrix(self):
            return found
        return found[None, :] if down else found[:, None]  # as SciPy's matrices, which have two dimensions for ever

    def mean(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
        n = self.shape[0] * self.shape[1] if axis is None else self.shape[axis % 2]
        return self.sum(axis, dtype, out) / n

    def trace(self, offset: int = 0) -> Any:
        return fnp.sum(self.diagonal(offset))

    def dot(self, x: Any) -> Any:
        return self @ x if is_sparse(x) or shape_of(x) else self * x

    def __matmul__(self, x: Any) -> Any:
        if is_sparse(x):
            return _product_of_two(self, SparseArray.of(x))
        x = fnp.asarray(x)
        if not 1 <= len(shape_of(x)) <= 2 or shape_of(x)[0] != self.shape[1]:
            raise ValueError(f"matmul: a sparse array of shape {self.shape} and an array of shape {shape_of(x)} do not fit")
        return product(self.row, self.col, self.elements, self.shape[0], x)

    def __rmatmul__(self, x: Any) -> Any:
        if is_sparse(x):
            return SparseArray.of(x) @ self
        return (self.T @ fnp.asarray(x).T).T

    def __mul__(self, other: Any) -> Any:
        if is_sparse(other) or shape_of(other):
            return self @ other if _is_matrix(self) else self.multiply(other)
        return self._with(self.elements * other)

    def __rmul__(self, other: Any) -> Any:
        if is_sparse(other) or shape_of(other):
            return self.__rmatmul__(other) if _is_matrix(self) else self.multiply(other)
        return self._with(self.elements * other)

    def __truediv__(self, other: Any) -> SparseArray:
        return self.multiply(1 / other)

    def __pow__(self, n: Any) -> SparseArray:
        """By elements; of a matrix, the product with itself n times, as SciPy's."""
        if not _is_matrix(self):
            return self.power(n)
        if type(n) is not int or n < 1 or self.shape[0] != self.shape[1]:
            raise ValueError("a power of a sparse matrix needs a square one, and a positive whole number")
        out = self
        for _ in range(n - 1):
            out = out @ self
        return out

    def __add__(self, other: Any) -> Any:
        if not is_sparse(other):
            if not shape_of(other) and type(other) is not Tracer and other == 0:
                return self  # as SciPy's, so that sum() of a list goes
            return self.toarray() + other
        row, col, data, shape = entries(other)
        if shape != self.shape:
            raise ValueError(f"inconsistent shapes: {self.shape} and {shape}")
        places = Places(np.concatenate([self.row, row]), np.concatenate([self.col, col]), shape)
        kind = self.kind.replace("coo", "csr")  # as SciPy's
        return self._with(fnp.concatenate([self.elements, data]), places, kind).canonical()

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other


class _Sum(list):
    """What a loop has added to an element, one after the other."""

    __slots__ = ()

    def upto(self, n: int) -> Any:
        return functools.reduce(operator.add, self[:n])


class _Adding:
    """Stands for A in `A[i, j] += value`: what is added to an element waits, and all elements are added up at once.

    Invariant: a sum is that of the elements when they were read, also if what computes the value writes A meanwhile.
    """

    __slots__ = ("a", "at", "found", "n")

    def __init__(self, a: SparseArray):
        self.a = a

    def __getitem__(self, index: Any) -> Any:
        there = self.a.added_to(index)
        if there is None:
            return self.a[index]
        self.at, self.found = there
        self.n = len(self.found) if type(self.found) is _Sum else 1
        return self

    def __iadd__(self, value: Any) -> Any:
        found, n, written = self.found, self.n, self.a._written
        summed, now = type(found) is _Sum, written.get(self.at)
        as_read = now is found or now is None and summed and n == 1  # a sum that begins here
        if not as_read or summed and len(found) != n or type(value) is not Tracer or type(value.primal) is not np.float64:
            return (found.upto(n) if summed else found) + value
        found = found if summed else _Sum([found])
        if now is not found:
            written[self.at] = found
        found.append(value)
        self.a._added += found, value
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        if value is not self:
            self.a[index] = value


def _added_up(values: list[Any], added: list[Any]) -> Any:
    """`_together`, of sums too: each from its first number on, in the order in which was added."""
    first = _together([v[0] if type(v) is _Sum else v for v in values])
    places = {id(v): k for k, v in enumerate(values) if type(v) is _Sum}
    more = [(k, u) for v, u in zip(added[::2], added[1::2]) if (k := places.get(id(v))) is not None]
    return fnp.at(first)[np.array([k for k, _ in more])].add(_together([u for _, u in more])) if more else first


def _together(values: list[Any]) -> Any:
    """One array of numbers, and of elements of arrays: (the array, the place in it)."""
    blocks = {id(v[0]): v[0] for v in values if type(v) is tuple}
    numbers = [v for v in values if type(v) is not tuple]
    if not blocks:
        return fnp.array(numbers)
    parts = [*blocks.values(), *([fnp.array(numbers)] if numbers else [])]
    starts = dict(zip([*blocks, None], np.cumsum([0, *[shape_of(part)[0] for part in parts]]).tolist()))
    count = iter(range(len(numbers)))
    places = [starts[id(v[0])] + v[1] if type(v) is tuple else starts[None] + next(count) for v in values]
    return fnp.concatenate(parts)[np.array(places)]


def _state(x: Any) -> Any:
    """It differs from an earlier one where x was written since then; None: nobody knows."""
    if type(x) is not Tracer or not x.owner.level:
        return None
    return x.tangent if type(x.tangent) is int else x.atom


_TRANSPOSED = {"csr": "csc", "csc": "csr"}
_INTEGERS = frozenset([int, np.int64])
_SMALL_PART = 256  # elements, which are looked up one by one while an array is being written
_SHOWN = ("indices", "indptr", "offsets", "blocksize", "coords")
_ZERO_AT_ZERO = frozenset(
    "arcsin arcsinh arctan arctanh ceil deg2rad expm1 floor log1p rad2deg rint sign sin sinh sqrt tan tanh trunc".split()
)
_OF_DENSE = frozenset("argmax argmin count_nonzero max min nanmax nanmin".split())


def _is_matrix(a: Any) -> bool:
    """Is it one of SciPy's matrices, of which `*` is the product of matrices?"""
    return a.kind.endswith("matrix") if type(a) is SparseArray else isinstance(a, _scipy_sparse().spmatrix)


def moved(ids: Any, data: Any) -> Any:
    """A number, an array or a sparse array of the elements that have these numbers, counted from 1; 0 is no element."""
    if is_sparse(ids):
        if ids.ndim > 2:
            raise TypeError(
                f"a sparse array of {ids.ndim} dimensions cannot have traced elements{_where()}.\nRemedy: NumPy's functions of "
                "A.toarray()."
            )
        kind = f"{ids.format}_{'matrix' if _is_matrix(ids) else 'array'}"
        coo = ids.tocoo()
        if coo.ndim == 1:  # of an array: dense, as one dimension is no matrix
            return moved(coo.toarray(), data)
        there = coo.data > 0
        return SparseArray(data[coo.data[there] - 1], Places(coo.row[there], coo.col[there], coo.shape), kind)
    ids = np.asarray(ids)
    nothing = fnp.zeros(ids.shape, dtype_of(data))
    return fnp.where(ids > 0, data[np.maximum(ids - 1, 0)], nothing) if shape_of(data)[0] else nothing


def _product_of_two(a: SparseArray, b: SparseArray) -> SparseArray:
    """Each element of a meets the elements of b in the row of its column."""
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"matmul: dimension mismatch, {a.shape} and {b.shape}")
    b = b.canonical()
    begins = np.searchsorted(b.row, np.arange(b.shape[0] + 1))
    counts = np.diff(begins)[a.col]
    left = np.repeat(np.arange(a.nnz), counts)
    right = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts) + begins[a.col[left]]
    places = Places(a.row[left], b.col[right], (a.shape[0], b.shape[1]))
    return a._with(a.elements[left] * b.elements[right], places).canonical()


tree.register_pytree_node(
    SparseArray,
    lambda a: ((a.elements,), (a.places, a.kind)),
    lambda meta, data: SparseArray(data[0], *meta),
)


def is_sparse(a: Any) -> bool:
    """One of SciPy's sparse arrays or matrices, or one with traced elements."""
    return type(a) is SparseArray or hasattr(a, "tocoo") and hasattr(a, "nnz")


def is_traced(*values: Any) -> bool:
    return any([type(v) is Tracer or type(v) is SparseArray for v in values])


def entries(a: Any) -> tuple[np.ndarray, np.ndarray, Any, tuple[int, int]]:
    """(rows, columns, elements, shape) of a sparse array, or of a dense one, all of whose elements count."""
    if type(a) is SparseArray:
        return a.row, a.col, a.elements, a.shape
    if is_sparse(a):
        coo = a.tocoo()
        return np.asarray(coo.row, np.intp), np.asarray(coo.col, np.intp), coo.data, coo.shape
    shape = shape_of(a)
    if len(shape) != 2:
        raise ValueError(f"expected a matrix, got the shape {shape}")
    row, col = np.indices(shape).reshape(2, -1)
    return row, col, fnp.reshape(a, -1), shape


def _blocks(data: Any, indices: Any, pointers: Any, shape: Any, kind: str) -> SparseArray:
    """Of blocks (n, r, c), each at a row and a column of blocks."""
    count, r, c = shape_of(data)
    ids = _scipy_sparse().bsr_array((np.arange(1, count * r * c + 1).reshape(count, r, c), indices, pointers), shape=shape)
    return moved(getattr(_scipy_sparse(), kind)(ids), fnp.ravel(data))  # type: ignore[no-any-return]


def made(name: str, arg: Any, shape: Any = None, dtype: Any = None, copy: bool = False, **options: Any) -> Any:
    """The sparse array or matrix of that name, of elements that may be traced."""
    given = arg[0] if isinstance(arg, tuple) and len(arg) in (2, 3) else None
    format = name[:3]
    if format in ("csr", "csc", "coo", "dia") and holds_traced(given):
        data = fnp.asarray(given)
        data = data if dtype is None or dtype_of(data) == np.dtype(dtype) else convert(data, np.dtype(dtype))
        if format == "dia":
            return by_diagonals(data, arg[1], shape, name)
        found = _by_coordinates(arg, shape) if format == "coo" else _compressed(format == "csr")(arg, shape)
        if shape_of(data) != found.row.shape or found.row.shape != found.col.shape:
            raise ValueError(f"{name}: {shape_of(data)} elements at {len(found.row)} rows and {len(found.col)} columns")
        mine = SparseArray(data, found, name)
        return mine.canonical() if len(arg) == 2 and format != "coo" else mine
    if format == "bsr" and holds_traced(given):
        return _blocks(fnp.asarray(given), *arg[1:], shape, name)
    if type(arg) is SparseArray:
        return SparseArray.of(arg, name)
    if holds_traced(arg):
        return SparseArray.of(fnp.asarray(arg), name)
    return getattr(_scipy_sparse(), name)(arg, shape=shape, dtype=dtype, copy=copy, **options)


def holds_traced(x: Any) -> bool:
    """Is it traced, or a list in which something is?"""
    if type(x) is not list and type(x) is not tuple:
        return type(x) is Tracer
    return Tracer in map(type, x) or any([holds_traced(v) for v in x if type(v) is list or type(v) is tuple])


def by_diagonals(data: Any, offsets: Any, shape: Any, kind: str) -> SparseArray:
    """Of rows of data, each on its diagonal: element j of a row stands in column j."""
    data, offsets = fnp.atleast_2d(data), np.atleast_1d(offsets)
    if shape is None or shape_of(data)[0] != len(offsets):
        raise ValueError(f"{kind}: expected a shape, and as many offsets as rows of data, {shape_of(data)[0]}")
    row = np.arange(shape_of(data)[1]) - offsets[:, None]
    k, col = np.nonzero((row >= 0) & (row < shape[0]) & (np.arange(shape_of(data)[1]) < shape[1]))
    return SparseArray(data[k, col], Places(row[k, col], col, shape), kind)


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
    return made("csr_array", arg1, shape, dtype, copy)


@api
def csc_array(arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False) -> Any:
    """SciPy's csc_array, of elements that may be traced: `csc_array((data, indices, indptr), shape)`.

    Arguments, results and errors as of `csr_array`; the indices are those of rows.

    >>> import numpy as np, funcad
    >>> f = lambda d: np.sum(funcad.scipy.sparse.csc_array((d, [0, 1], [0, 1, 2])) @ np.array([3.0, 4.0]))
    >>> funcad.grad(f)(np.ones(2))
    array([3., 4.])
    """
    return made("csc_array", arg1, shape, dtype, copy)


@api
def coo_array(arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False) -> Any:
    """SciPy's coo_array, of elements that may be traced: `coo_array((data, (row, col)), shape)`.

    Arguments, results and errors as of `csr_array`.

    >>> import numpy as np, funcad
    >>> f = lambda d: np.sum(funcad.scipy.sparse.coo_array((d, ([0, 1], [1, 0]))) @ np.array([3.0, 4.0]))
    >>> funcad.grad(f)(np.ones(2))
    array([4., 3.])
    """
    return made("coo_array", arg1, shape, dtype, copy)


def _maker(name: str) -> Callable[..., Any]:
    def function(arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False) -> Any:
        return made(name, arg1, shape, dtype, copy)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""SciPy's {name}, of elements that may be traced; arguments, results and errors as of `csr_array`.

    >>> import numpy as np, funcad
    >>> from funcad.scipy.sparse import {name}
    >>> funcad.grad(lambda x: {name}(x).sum())(np.ones((1, 2)))
    array([[1., 1.]])
    """
    return api(function)


coo_matrix = _maker("coo_matrix")
csc_matrix = _maker("csc_matrix")
csr_matrix = _maker("csr_matrix")
dia_array = _maker("dia_array")
dia_matrix = _maker("dia_matrix")
