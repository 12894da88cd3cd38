"""`np.ma` on traced values: data and a mask, with the functions and methods of NumPy's masked arrays.

Idea: a masked array of traced data is an object with the data and with a mask that has no derivative. Elementwise functions run
on all data, and on 1 where the mask holds, so that an element that is masked reaches no derivative; reductions are those of
NumPy with `where=`. Arithmetic masks what either operand masks, and, as NumPy's, what lies outside a function's domain.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.api.border import to_close_up
from funcad.host.real_types import is_a
from funcad.ir.tracer import Tracer

_OUTSIDE: dict[Any, Callable[..., Any]] = {  # ufunc: where NumPy masks its result
    np.log: lambda x: x <= 0,
    np.log2: lambda x: x <= 0,
    np.log10: lambda x: x <= 0,
    np.sqrt: lambda x: x < 0,
    np.arcsin: lambda x: np.abs(x) > 1,
    np.arccos: lambda x: np.abs(x) > 1,
    np.arccosh: lambda x: x < 1,
    np.arctanh: lambda x: np.abs(x) > 1 - 1e-15,
    np.divide: lambda x, y: y == 0,
    np.floor_divide: lambda x, y: y == 0,
    np.remainder: lambda x, y: y == 0,
    np.fmod: lambda x, y: y == 0,
}


class MaskedValues:
    """A masked array whose data is traced; `mask` is True where an element is not there."""

    __array_priority__ = 1e6
    fill_value = 1e20

    def __init__(self, data: Any, mask: Any = False, fill_value: Any = None):
        self.data = data_of(data)
        mask = np.logical_or(data_of(mask), mask_of(data))
        self.mask = np.broadcast_to(mask, np.shape(self.data))
        if fill_value is not None:
            self.fill_value = fill_value

    # -- as an array

    shape = property(lambda self: np.shape(self.data))
    ndim = property(lambda self: np.ndim(self.data))
    size = property(lambda self: np.size(self.data))
    dtype = property(lambda self: self.data.dtype)
    T = property(lambda self: MaskedValues(self.data.T, self.mask.T))

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: Any) -> Any:
        data, mask = self.data[index], self.mask[index]
        if np.ndim(data) or type(mask) is Tracer:
            return MaskedValues(data, mask, self.fill_value)
        return np.ma.masked if mask else data

    def __setitem__(self, index: Any, value: Any) -> None:
        data, mask = np.array(self.data), np.array(self.mask)
        if value is np.ma.masked:
            mask[index] = True
        else:
            data[index], mask[index] = data_of(value), mask_of(value)
        self.data, self.mask = data, mask

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def _moved(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return MaskedValues(
            getattr(self.data, name)(*args, **kwargs), getattr(self.mask, name)(*args, **kwargs)
        )

    # -- elementwise

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "reduce":
            return _reduced(ufunc, inputs[0], **kwargs)
        return (
            NotImplemented
            if method != "__call__" or "out" in kwargs
            else of_ufunc(ufunc, *inputs, **kwargs)
        )

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = function.__name__
        if args[0] is not self or name not in _METHODS and name not in _FUNCTIONS:
            return NotImplemented
        return function_of(name)(*args, **kwargs)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Nobody takes it for an array of the objects that it consists of."""
        raise TypeError(
            "a masked array of traced values is no plain array.\nRemedy: x.filled(value), or np.where on x.mask and x.data."
        )

    as_operand = __array__

    # -- what is left of it

    def filled(self, fill_value: Any = None) -> Any:
        if fill_value is None:
            fill_value = self.fill_value
            if fill_value is MaskedValues.fill_value and self.dtype.kind in "iub":
                fill_value = np.ma.default_fill_value(self.dtype)
        return np.where(self.mask, data_of(fill_value).astype(self.dtype), self.data)

    closed_up = filled

    def compressed(self) -> Any:
        return np.ravel(self.data)[~np.ravel(self.mask)]

    def count(self, axis: Any = None, keepdims: bool = False) -> Any:
        return np.sum(~self.mask, axis=axis, keepdims=keepdims)

    def sum(self, axis: Any = None, keepdims: bool = False) -> Any:
        return self._of_there(np.sum, axis, keepdims, 0)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Any:
        return self._of_there(np.prod, axis, keepdims, 1)

    def max(self, axis: Any = None, keepdims: bool = False) -> Any:
        return self._of_there(np.max, axis, keepdims, _extreme(self.data, False))

    def min(self, axis: Any = None, keepdims: bool = False) -> Any:
        return self._of_there(np.min, axis, keepdims, _extreme(self.data, True))

    def _of_there(self, function: Any, axis: Any, keepdims: bool, neutral: Any) -> Any:
        if type(self.mask) is not Tracer and axis is None and np.all(self.mask):
            return np.ma.masked
        out = function(np.where(self.mask, neutral, self.data), axis=axis, keepdims=keepdims)
        return (
            out
            if np.ndim(out) == 0
            else MaskedValues(out, np.all(self.mask, axis=axis, keepdims=keepdims))
        )

    def mean(self, axis: Any = None, keepdims: bool = False) -> Any:
        return self.sum(axis, keepdims) / self.count(axis, keepdims)

    def var(self, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
        apart = self - data_of(self.mean(axis, True))
        return (apart * apart).sum(axis, keepdims) / (self.count(axis, keepdims) - ddof)

    def std(self, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
        return np.sqrt(self.var(axis, ddof, keepdims))

    def anom(self, axis: Any = None) -> Any:
        return self - data_of(self.mean(axis, True))

    def ptp(self, axis: Any = None, keepdims: bool = False) -> Any:
        return self.max(axis, keepdims) - self.min(axis, keepdims)

    def median(self, axis: Any = None, keepdims: bool = False) -> Any:
        """The mean of the two in the middle, of those that are there: the others are sorted to the end."""
        x = self if axis is not None else self.ravel()
        along = 0 if axis is None else axis % self.ndim
        n = np.expand_dims(x.count(along), along)
        row = np.sort(np.where(x.mask, np.inf, x.data), axis=along)
        middle = [np.take_along_axis(row, np.maximum(i, 0), along) for i in ((n - 1) // 2, n // 2)]
        middle, empty = [np.squeeze(v, along) for v in (sum(middle) / 2, n == 0)]
        if not np.ndim(middle) and type(empty) is not Tracer:
            if empty:
                return np.ma.masked
            return np.reshape(middle, [1] * self.ndim) if keepdims else middle
        found = MaskedValues(middle, empty)
        if not keepdims:
            return found
        shape = [1] * self.ndim if axis is None else middle.shape[:along] + (1,) + middle.shape[along:]
        return found.reshape(shape)

    def average(self, axis: Any = None, weights: Any = None) -> Any:
        if weights is None:
            return self.mean(axis)
        if np.ndim(weights) != self.ndim and type(axis) is int:  # one for each place along the axis
            weights = np.expand_dims(weights, [i for i in range(self.ndim) if i != axis % self.ndim])
        return (self * weights).sum(axis) / MaskedValues(
            np.broadcast_to(weights, self.shape), self.mask
        ).sum(axis)

    def dot(self, other: Any) -> Any:
        return np.dot(self.filled(0), MaskedValues(other).filled(0))

    def copy(self) -> MaskedValues:
        return MaskedValues(self.data.copy(), self.mask.copy(), self.fill_value)

    def astype(self, dtype: Any) -> MaskedValues:
        return MaskedValues(self.data.astype(dtype), self.mask)

    def reshape(self, *shape: Any) -> Any:
        return self._moved("reshape", *shape)

    def ravel(self) -> Any:
        return self._moved("ravel")

    def transpose(self, *axes: Any) -> Any:
        return self._moved("transpose", *axes)

    def cumsum(self, axis: Any = None) -> Any:
        data = np.cumsum(np.where(self.mask, 0, self.data), axis=axis)
        return MaskedValues(data, np.reshape(self.mask, np.shape(data)))

    def __repr__(self) -> str:
        return f"masked_array(data={self.data!r}, mask={self.mask!r})"

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__" or not hasattr(np.ma.MaskedArray, name):
            raise AttributeError(name)
        raise AttributeError(
            f"a masked array of traced values has no {name!r}.\nRemedy: x.filled(value), or np.where on x.mask and x.data.",
            name=name,
        )


def _reduced(ufunc: Any, x: MaskedValues, axis: Any = 0, keepdims: bool = False, **options: Any) -> Any:
    names = {np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min"}
    if ufunc not in names or any(v is not None for v in options.values()):
        return NotImplemented
    return getattr(x, names[ufunc])(axis, keepdims)


def _extreme(x: Any, largest: bool) -> Any:
    """What no element is larger than, or smaller, in x's dtype."""
    dtype = np.result_type(x)
    if dtype.kind not in "iub":
        return np.inf if largest else -np.inf
    return dtype.type((np.ma.minimum_fill_value if largest else np.ma.maximum_fill_value)(dtype))


def of_ufunc(ufunc: Any, *inputs: Any, outside: Any = None, **kwargs: Any) -> Any:
    """A ufunc of masked arrays of either kind, and of traced values."""
    if ufunc.signature is not None:
        raise TypeError(
            f"{ufunc.__name__} of a masked array and a traced one.\nRemedy: np.ma.dot, without what is masked."
        )
    data, mask = [data_of(x) for x in inputs], False
    for x in inputs:
        mask = np.logical_or(mask, mask_of(x))
    outside = outside or _OUTSIDE.get(ufunc)
    if outside is not None:
        mask = np.logical_or(mask, outside(*data))
    out = ufunc(*[np.where(mask, 1, x) if np.ndim(x) else x for x in data], **kwargs)
    masked = [
        x
        for x in inputs
        if type(x) is MaskedValues or is_a(x, np.ma.MaskedArray) and x is not np.ma.masked
    ]
    fill = masked[0].fill_value if masked else None
    if isinstance(out, tuple):
        return tuple([MaskedValues(o, mask, fill) for o in out])
    return MaskedValues(
        np.where(mask, data[0], out) if out.dtype.kind in "fc" else out, mask, fill
    )  # beneath it, as NumPy's


def _power(x: Any, y: Any, third: Any = None) -> Any:
    """`np.ma.power` and `**`, which mask what is not finite, as the ufunc does not."""
    if third is not None:
        np.ma.power(1.0, 1.0, third)  # NumPy's error
    return of_ufunc(np.power, x, y, outside=_infinite_power)


def _infinite_power(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        return ~np.isfinite(np.power(x, y))


_SYMBOLS = {"sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide, "mod": np.remainder,
            "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
            "ne": np.not_equal, "add": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}  # fmt: skip
_OPERATORS: dict[str, Callable[..., Any]] = {
    "__neg__": lambda x: of_ufunc(np.negative, x),
    "__abs__": lambda x: of_ufunc(np.absolute, x),
    "__invert__": lambda x: of_ufunc(np.invert, x),
    "__pow__": _power,
    "__rpow__": lambda x, y: _power(y, x),
}
for _name, _ufunc in _SYMBOLS.items():
    _OPERATORS[f"__{_name}__"] = lambda x, y, ufunc=_ufunc: of_ufunc(ufunc, x, y)
    if hasattr(operator, f"i{_name}"):
        _OPERATORS[f"__r{_name}__"] = lambda x, y, ufunc=_ufunc: of_ufunc(ufunc, y, x)
for _name, _run in _OPERATORS.items():
    setattr(MaskedValues, _name, _run)
MaskedValues.__hash__ = None  # type: ignore[assignment]
to_close_up.add(MaskedValues)


def data_of(x: Any) -> Any:
    """The data, of masked arrays of either kind."""
    if type(x) is MaskedValues:
        return x.data
    return x if type(x) is Tracer else np.ma.getdata(x) if is_a(x, np.ma.MaskedArray) else _array(x)


def mask_of(x: Any) -> Any:
    """Where it is masked; False for what has no mask."""
    if type(x) is MaskedValues:
        return x.mask
    return np.ma.getmaskarray(x) if is_a(x, np.ma.MaskedArray) else np.False_


def _array(x: Any) -> Any:
    return Tracer.namespace.numpy.array(x) if isinstance(x, (list, tuple)) else np.asarray(x)


def holds_masked(values: Any) -> bool:
    """Is one of them a masked array of traced data?"""
    return any(
        [type(v) is MaskedValues or type(v) in (list, tuple) and holds_masked(v) for v in values]
    )


# -- the functions of np.ma


def masked_array(
    data: Any,
    dtype: Any = None,
    copy: bool = False,
    order: Any = None,
    mask: Any = False,
    fill_value: Any = None,
    **_: Any,
) -> MaskedValues:
    data = data if dtype is None else data.astype(dtype)
    return MaskedValues(data, False if mask is np.ma.nomask else mask, fill_value)


def _where(ufunc: Any) -> Callable[..., MaskedValues]:
    return lambda x, value, copy=True: MaskedValues(x, ufunc(data_of(x), value))


def _masks(x: Any) -> Any:
    return (
        [_masks(v) for v in x]
        if type(x) in (list, tuple)
        else np.broadcast_to(mask_of(x), np.shape(data_of(x)))
    )


def _data(x: Any) -> Any:
    return [_data(v) for v in x] if type(x) in (list, tuple) else data_of(x)


def _moving(function: Callable[..., Any]) -> Callable[..., MaskedValues]:
    """What moves elements moves their masks alike."""
    return lambda x, *args, **kwargs: MaskedValues(
        function(_data(x), *args, **kwargs), function(_masks(x), *args, **kwargs)
    )


def _ordering(name: str, largest: bool = True) -> Callable[..., Any]:
    """What looks for elements by their order finds the masked ones last."""

    def found(x: Any, axis: Any = -1) -> Any:
        return getattr(np, name)(np.where(mask_of(x), _extreme(data_of(x), largest), data_of(x)), axis=axis)

    return found


def _sort(x: Any, axis: Any = -1) -> MaskedValues:
    order = np.argsort(np.where(mask_of(x), _extreme(data_of(x), True), data_of(x)), axis=axis, kind="stable")
    return _moving(lambda v: np.take_along_axis(v, order, axis))(x)


def _chosen(condition: Any, x: Any, y: Any) -> MaskedValues:
    """`np.ma.where`, in which `np.ma.masked` has the other one's dtype."""
    (a, b), masks = map(data_of, (x, y)), np.where(data_of(condition), mask_of(x), mask_of(y))
    a, b = [v.astype(o.dtype) if w is np.ma.masked else v for v, o, w in ((a, b, x), (b, a, y))]
    return MaskedValues(np.where(data_of(condition), a, b), np.logical_or(masks, mask_of(condition)))


def _diff(x: Any, n: int = 1, axis: int = -1) -> Any:
    for _ in range(n):
        later, earlier = [
            _moving(lambda v, s=s: np.moveaxis(np.moveaxis(v, axis, 0)[s], 0, axis))(x) for s in _SIDES
        ]
        x = of_ufunc(np.subtract, later, earlier)
    return x


_SIDES = slice(1, None), slice(None, -1)
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **_OPERATORS,
    "power": _power,
    "array": masked_array,
    "masked_array": lambda data, mask=False, dtype=None, copy=False, **options: masked_array(
        data, dtype, copy, None, mask, **options
    ),
    "asarray": MaskedValues,
    "asanyarray": MaskedValues,
    "masked_where": lambda condition, a, copy=True: MaskedValues(a, condition),
    "masked_invalid": lambda a, copy=True: MaskedValues(a, ~np.isfinite(data_of(a))),
    "masked_inside": lambda x, v1, v2, copy=True: MaskedValues(
        x, (data_of(x) >= min(v1, v2)) & (data_of(x) <= max(v1, v2))
    ),
    "masked_outside": lambda x, v1, v2, copy=True: MaskedValues(
        x, (data_of(x) < min(v1, v2)) | (data_of(x) > max(v1, v2))
    ),
    "masked_values": lambda x, value, rtol=1e-5, atol=1e-8, copy=True, shrink=True: MaskedValues(
        x, np.isclose(data_of(x), value, rtol, atol), value
    ),
    "masked_equal": lambda x, value, copy=True: MaskedValues(x, data_of(x) == value, value),
    "masked_not_equal": _where(np.not_equal),
    "masked_greater": _where(np.greater),
    "masked_greater_equal": _where(np.greater_equal),
    "masked_less": _where(np.less),
    "masked_less_equal": _where(np.less_equal),
    "getdata": lambda a, subok=True: data_of(a),
    "getmask": mask_of,
    "getmaskarray": _masks,
    "filled": lambda a, fill_value=None: a.filled(fill_value) if type(a) is MaskedValues else a,
    "fix_invalid": lambda a, mask=False, copy=True, fill_value=None: MaskedValues(
        a, ~np.isfinite(data_of(a)) | mask
    ),
    "where": _chosen,
    "clip": lambda a, a_min=None, a_max=None: MaskedValues(
        np.clip(data_of(a), a_min, a_max), mask_of(a)
    ),
    "outer": lambda a, b: of_ufunc(
        np.multiply, _moving(np.reshape)(a, (-1, 1)), _moving(np.reshape)(b, (1, -1))
    ),
    "diff": _diff,
    "sort": _sort,
    "argsort": _ordering("argsort"),
    "argmin": lambda x, axis=None: _ordering("argmin")(x, axis),
    "argmax": lambda x, axis=None: _ordering("argmax", False)(x, axis),
}
_MOVING = "concatenate stack vstack hstack dstack column_stack squeeze swapaxes expand_dims repeat take diagonal"
_FUNCTIONS |= {name: _moving(getattr(np, name)) for name in _MOVING.split()}
_METHODS = frozenset(
    "sum prod max min mean median var std ptp average dot compressed count anom cumsum reshape ravel transpose".split()
)


def function_of(name: str) -> Callable[..., Any]:
    """np.ma's function, or operator, of that name."""
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if name in _METHODS:
        return lambda a, *args, **kwargs: getattr(
            a if type(a) is MaskedValues else MaskedValues(a), name
        )(*args, **kwargs)
    return lambda *args, **kwargs: of_ufunc(getattr(np, name), *args, **kwargs)
