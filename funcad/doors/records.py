"""Structured arrays that a traced function made and writes: an array that can be written for each field.

Idea: NumPy's structured dtypes have no traced values, but each field alone is an array of numbers (plain.py). `s["p"]` is that
array, `s[i]` the same elements of each: a view of it, or a copy where NumPy copies, for a list, an array or a mask.
Arithmetic of whole records there is none, in NumPy neither. They are sorted by NumPy itself, which is asked at the values for
the positions. Any other function of NumPy's that needs an array is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from funcad.api.border import to_close_up
from funcad.host.real_types import is_a
from funcad.ir.trace import plain_values
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.indexing import is_basic
from funcad.scipy.spatial import structures
from funcad.writes.plain import buffer


class Records:
    """A structured array, or a part of one."""

    __slots__ = ("dtype", "_fields", "_index", "_by_attribute")

    def __init__(
        self,
        dtype: np.dtype,
        fields: dict[str, Any],
        index: Any = None,
        by_attribute: bool = False,
    ):
        for name, value in zip(Records.__slots__, (dtype, fields, index, by_attribute)):
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, array: np.ndarray) -> Any:
        """Of a new structured array; the array itself where a field is none of numbers or of records of these."""
        fields = {}
        for name in array.dtype.names or ():
            part = array[name].copy()
            fields[name] = cls.of(part) if part.dtype.names else buffer(part)
            if type(fields[name]) not in (Tracer, Records):
                return array
        return cls(array.dtype, fields)

    def __getitem__(self, index: Any) -> Any:
        if type(index) is list and index and all([type(name) is str for name in index]):
            names = {name: self._fields[name] for name in index}
            return Records(
                np.dtype([(n, self.dtype[n]) for n in index]),
                names,
                self._index,
                self._by_attribute,
            )
        if type(index) is not str:
            fields = self._fields if self._index is None else {name: self[name] for name in self._fields}
            if not is_basic(index):
                fields, index = {name: field[index] for name, field in fields.items()}, None
            return Records(self.dtype, fields, index, self._by_attribute)
        if index not in self._fields:
            raise ValueError(f"no field of name {index}")
        field = self._fields[index]
        return field if self._index is None else field[self._index]

    def __setitem__(self, index: Any, value: Any) -> None:
        if type(index) is str:
            self._fields[index][... if self._index is None else self._index] = value
            return
        if type(value) is not Records and not (
            is_a(value, (tuple, np.ndarray, np.void)) and len(value) == len(self._fields)
        ):
            value = (value,) * len(self._fields)  # a number for each field
        for i, name in enumerate(self._fields):
            self[name][index] = (
                value[name]
                if getattr(value, "dtype", None) is not None and value.dtype.names
                else value[i]
            )

    def __getattr__(self, name: str) -> Any:
        if name in self._fields and self._by_attribute:
            return self[name]
        raise AttributeError(
            f"a structured array with traced values has no {name!r}.\nRemedy: its fields, s[name], are arrays.",
            name=name,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if not self._by_attribute or name not in self._fields:
            raise AttributeError(f"cannot set {name!r} of a structured array", name=name)
        self[name] = value

    def view(self, kind: Any) -> Records:
        if kind is not np.recarray:
            raise TypeError(
                f"a structured array with traced values is no {kind}.\nRemedy: take its fields, s[name]."
            )
        return Records(self.dtype, self._fields, self._index, True)

    def copy(self) -> Records:
        return Records(
            self.dtype,
            {name: self[name].copy() for name in self._fields},
            None,
            self._by_attribute,
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise TypeError("a structured array with traced values is no array of NumPy's.\nRemedy: take its fields, s[name].")

    def __array_function__(self, function: Any, types: Iterable[type], args: tuple, kwargs: dict) -> Any:
        found = {"sort": _sorted, "argsort": _argsorted}.get(function.__name__)
        if found is None and {*types} != {Records}:
            return NotImplemented
        return (found or function._implementation)(*args, **kwargs)

    def argsort(self, axis: Any = -1, kind: Any = None, order: Any = None, **options: Any) -> Any:
        """As NumPy says of the values: no derivative goes through the positions."""
        n = self.ndim

        def find(*values: np.ndarray) -> tuple[np.ndarray, ...]:
            whole = np.zeros(values[0].shape[:n], self.dtype)
            _fill(whole, iter(values))
            return (np.argsort(whole, axis, kind, order, **options),)

        np.argsort(np.zeros((1,) * n, self.dtype), axis, kind, order, **options)  # NumPy's errors
        shape = self.shape if axis is not None else (self.size,)
        return structures.structure(find, [(int, shape)], *_leaves(self))[0]

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, **options: Any) -> None:
        n, places = self.ndim, self.argsort(axis, kind, order, **options)
        wide = lambda x: np.expand_dims(places, tuple(range(n, x.ndim)))
        self[...] = self._mapped(lambda x: np.take_along_axis(x, wide(x), axis % n))

    def _mapped(self, f: Any) -> Records:
        """Of each array of numbers in it, in records in it too, what f makes of that."""
        parts = {name: self[name] for name in self._fields}
        made = {name: x._mapped(f) if type(x) is Records else f(x) for name, x in parts.items()}
        return Records(self.dtype, made, None, self._by_attribute)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __len__(self) -> int:
        return len(self._fields) if not self.shape else self.shape[0]

    @property
    def shape(self) -> tuple[int, ...]:
        name = next(iter(self._fields))
        whole: tuple[int, ...] = np.shape(self[name])
        return whole[: len(whole) - len(self.dtype[name].shape)]

    size = property(lambda self: int(np.prod(self.shape, dtype=int)))
    ndim = property(lambda self: len(self.shape))

    def closed_up(self) -> Any:
        """NumPy's array, if nothing traced is in it."""
        out = np.zeros(self.shape, self.dtype)
        for name in self._fields:
            field = self[name]
            (value,) = plain_values([field.closed_up() if type(field) is Records else field])
            if type(concrete_value(value)) is Tracer or type(value) is Tracer:
                raise TypeError(
                    "a structured array with traced values cannot be given.\nRemedy: give its fields, s[name]."
                )
            out[name] = value
        return out


def _argsorted(a: Records, *args: Any, **kwargs: Any) -> Any:
    return a.argsort(*args, **kwargs)


def _sorted(a: Records, axis: Any = -1, *args: Any, **kwargs: Any) -> Records:
    n = a.ndim
    made = a.copy() if axis is not None else a._mapped(lambda x: x.reshape((-1, *x.shape[n:])).copy())
    made.sort(-1 if axis is None else axis, *args, **kwargs)
    return made


def _leaves(records: Records) -> list[Any]:
    parts = [records[name] for name in records._fields]
    return [x for part in parts for x in (_leaves(part) if type(part) is Records else [part])]


def _fill(array: np.ndarray, values: Iterator[np.ndarray]) -> None:
    """Write what `_leaves` gave into a structured array."""
    for name in array.dtype.names or ():
        if array[name].dtype.names:
            _fill(array[name], values)
        else:
            array[name][...] = next(values)


to_close_up.add(Records)
