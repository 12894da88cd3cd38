"""Making arrays: array, asarray, zeros, full, arange, linspace, meshgrid and their relatives.

Without `like=`, `device=`, `default_device` or an array argument that says otherwise, arrays are NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from funcad.configuration import mirrors, named_after
from funcad.errors import WriteError
from funcad.host.conversions import given
from funcad.host.devices import device_in_use, namespace_of
from funcad.host.real_types import is_a
from funcad.host.where import user_source, written_for_others
from funcad.ir.aval import aval_of, said, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.dispatch import TABLE, anew, implements, is_traced, laid_out, order_of, where_am_i
from funcad.primitives.conversion import convert
from funcad.primitives.shape import broadcast_to, reshape
from funcad.unjitted.element_rows import array_of_numbers
from funcad.unjitted.remembered import remembered
from funcad.unjitted.strides import layout_of, lies_like
from funcad.writes.boxes import ViewStep, linked

from funcad.numpy.promote import (  # isort: skip
    aliased, array_of, as_array, as_array_of_rank_0, cast, expand, fresh, library, promote_dtype, result_dtype, shape_argument,
)


_WEAK = aval_of(1j)
_MANY = 64  # as many operands are remembered by their kinds; of more the tape looks at numbers once


def _flat(x: Any) -> list[Any]:
    """What stands in nested lists and tuples."""
    return [w for v in x for w in _flat(v)] if isinstance(x, (list, tuple)) else [x]


def _nested(x: Any) -> Any:
    """The array of nested lists that hold traced values somewhere."""
    if type(x) is not Tracer and isinstance(x, (list, tuple)):
        tape = next((v.owner.tape for v in x if type(v) is Tracer), None) if len(x) > _MANY else None
        whole = None if tape is None else array_of_numbers(tape, x, user_source())
        if whole is not None:
            return whole
        items = [array_of(_nested(v)) for v in x]
        items = promote_dtype(items, result_dtype(items)[0])
        try:
            return import_module("funcad.numpy.joining").stack(items)
        except ValueError:
            shapes = [shape_of(v) for v in items]
            raise ValueError(
                f"setting an array element with a sequence: the elements have the different shapes {shapes}"
            ) from None
    return x


def objects_of(x: Any) -> Any:
    """NumPy's array of objects: of traced numbers, or, where the parts of a list have different shapes, of these."""
    if type(x) is Tracer and x.shape:
        out = np.ndarray(x.shape, object)
        for i in np.ndindex(x.shape):
            out[i] = x[i]
        return out
    if not isinstance(x, (list, tuple)):
        return x
    parts = [objects_of(v) for v in x]
    shapes = {np.shape(v) for v in parts}
    alike = shapes.pop() if len(shapes) == 1 else None
    out = np.ndarray((len(x), *(alike or ())), object)
    for i, (whole, part) in enumerate(zip(x, parts)):
        out[i] = whole if alike is None else part
    return out


class _Doubtful(ViewStep):
    """From an array to what NumPy gives in another memory order: itself if it lies so, which is not known."""

    __slots__ = ()

    def shares(self, base: Any) -> bool:
        raise WriteError(
            f"a write into {said(base)}, or into what np.asarray(x, order=...), np.ascontiguousarray(x), "
            f"np.asfortranarray(x) or x.astype(..., copy=False) gave{where_am_i()}: whether NumPy copies there depends on the "
            "memory order, which is not known here.\n"
            "Remedy: x.copy(order=...), which always copies."
        )


_array_of_lists = remembered(lambda object: array_of(_nested(object)))


@aliased("same")
def array(
    object: Any, dtype: Any = None, *, copy: Any = True, order: str = "K", subok: bool = False, ndmin: int = 0,
    device: Any = None, like: Any = None,
) -> Any:  # fmt: skip
    """`numpy.array`; lists may hold traced values, at any depth.

    `np.array` itself takes such lists too while something is traced, unless `funcad.config.doors` is off. `device` ("cpu",
    "cuda") and `like` say whose array is made.

    >>> import funcad
    >>> float(funcad.grad(lambda x: funcad.numpy.array([x, 2.0 * x]).sum())(1.0))
    3.0
    """
    if type(copy) is np._CopyMode:  # array_api_compat, which SciPy and scikit-learn carry with them, says it so
        copy = None if copy is np._CopyMode.IF_NEEDED else bool(copy)
    if not is_traced((object,)):
        xp = library(device, like)
        if xp is np and device_in_use():
            xp = namespace_of(_flat((object,)))
        if xp is np:
            make: Any = np.array
            return make(object, dtype=dtype, copy=copy, order=order, subok=subok, ndmin=ndmin)
        made = xp.array(object, dtype=dtype) if copy else xp.asarray(object, dtype=dtype)
        return made.reshape((1,) * (ndmin - made.ndim) + made.shape) if ndmin > made.ndim else made
    if dtype is not None and np.dtype(dtype).kind == "O":
        return objects_of(object)
    x = _array_of_lists(object)
    if dtype is not None:
        dtype = np.dtype(dtype)
        if dtype.kind in "fiu" and aval_of(x).dtype.kind == "c" and any([aval_of(v) == _WEAK for v in _flat((object,))]):
            np.array(1j, dtype)  # NumPy's TypeError: it makes no real number of Python's complex ones
        x = cast(x, dtype)
    order = order_of(order, "CFAK", "K")
    if x is not object and order != "F":  # NumPy makes no other order of lists
        order = "C"
    if copy is False and (own := layout_of(x) if x is object else [0]) is not None:
        np.array(own, order=order, copy=False)  # type: ignore[call-overload]  # NumPy's error where it copies
    if (copy or order in "CF") and (x is object or len(shape_of(x)) > 1):
        made = laid_out(x, order)
        if not copy and x is object:
            own = layout_of(x)
            base = x.box and x.box.base
            if own is None and base is not None and len(base.shape) == 1:
                steps = x.box.step.lies(np.empty(base.shape))
                own = None if steps.flags.c_contiguous else steps  # wherever the base lies
            if own is None and (made is not x or base is not None):
                made = linked(made, x, _Doubtful())
            elif own is not None and made is x and not (own.flags.c_contiguous if order == "C" else own.flags.f_contiguous):
                made = fresh(x)  # one axis, but in steps
        x = made
    missing = ndmin - len(shape_of(x))
    if missing > 0:
        return expand(x, range(missing))
    return as_array_of_rank_0(fresh(x) if copy and x is object else x)


@aliased("same")
def asarray(a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None) -> Any:
    """`numpy.asarray`; a traced value is returned as it is (plain `np.asarray` refuses it).

    >>> import funcad
    >>> funcad.numpy.asarray([1, 2])
    array([1, 2])
    """
    if not is_traced((a,)):
        xp = library(device, like)
        if xp is np and device_in_use():
            xp = namespace_of(_flat((a,)))
        if xp is np:
            return np.asarray(a, dtype=dtype, order=order, copy=copy)
        return xp.array(a, dtype=dtype) if copy else xp.asarray(a, dtype=dtype)
    return array(a, dtype, copy=copy, order=order)


@aliased("same")
def asanyarray(a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None) -> Any:
    """`numpy.asanyarray`; a traced value is returned as it is.

    >>> import funcad
    >>> funcad.numpy.asanyarray([1, 2])
    array([1, 2])
    """
    if is_a(a, np.ndarray) and device is None and like is None:
        return np.asanyarray(a, dtype=dtype, order=order, copy=copy)
    return asarray(a, dtype, order, device=device, copy=copy, like=like)


@aliased("same")
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """`numpy.ascontiguousarray`; a traced value is returned as it is, with rank 1 at least.

    >>> import funcad
    >>> funcad.numpy.ascontiguousarray(2.0)
    array([2.])
    """
    return np.atleast_1d(asarray(a, dtype, "C", like=like))


@aliased("same")
def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """`numpy.asfortranarray`; a traced value is returned as it is, with rank 1 at least.

    >>> import funcad
    >>> funcad.numpy.asfortranarray([1, 2])
    array([1, 2])
    """
    return np.atleast_1d(asarray(a, dtype, "F", like=like))


def _size(n: Any) -> Any:
    """A traced size as the number that it is; one without a value raises."""
    return n.__index__() if type(n) is Tracer and n.dtype.kind in "iub" else n


def zeros(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
    """`numpy.zeros`, with device= and like= (an array) to make it elsewhere.

    >>> import funcad
    >>> funcad.numpy.zeros((1, 2))
    array([[0., 0.]])
    """
    return library(device, like).zeros(_size(shape), dtype, order)


def ones(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
    """`numpy.ones`, with device= and like= (an array) to make it elsewhere.

    >>> import funcad
    >>> funcad.numpy.ones(2, dtype="f4")
    array([1., 1.], dtype=float32)
    """
    return library(device, like).ones(_size(shape), dtype, order)


def empty(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
    """`numpy.empty`, with device= and like= (an array) to make it elsewhere.

    >>> import funcad
    >>> funcad.numpy.empty((2, 0)).shape
    (2, 0)
    """
    return library(device, like).empty(_size(shape), dtype, order)


def eye(
    N: Any,
    M: Any = None,
    k: Any = 0,
    dtype: Any = None,
    order: str = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Any:
    """`numpy.eye`, with device= and like= (an array) to make it elsewhere.

    >>> import funcad
    >>> funcad.numpy.eye(2, k=1)
    array([[0., 1.],
           [0., 0.]])
    """
    return library(device, like).eye(_size(N), _size(M), _size(k), dtype, order)


def identity(n: Any, dtype: Any = None, *, device: Any = None, like: Any = None) -> Any:
    """`numpy.identity`, with device= and like= (an array) to make it elsewhere.

    >>> import funcad
    >>> funcad.numpy.identity(1)
    array([[1.]])
    """
    return library(device, like).identity(_size(n), dtype)


def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = None, *, device: Any = None, like: Any = None) -> Any:
    """`numpy.tri`, with device= and like= (an array) to make it elsewhere.

    >>> import funcad
    >>> funcad.numpy.tri(2)
    array([[1., 0.],
           [1., 1.]])
    """
    return library(device, like).tri(_size(N), _size(M), _size(k), dtype)


def indices(dimensions: Any, dtype: Any = int, sparse: bool = False, *, device: Any = None, like: Any = None) -> Any:
    """`numpy.indices`, with device= and like= (an array) to make it elsewhere.

    >>> import funcad
    >>> funcad.numpy.indices((2, 1), sparse=True)[0]
    array([[0],
           [1]])
    """
    return library(device, like).indices(dimensions, dtype, **({"sparse": sparse} if sparse else {}))


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
    """`numpy.full`; the value may be traced.

    >>> import funcad
    >>> float(funcad.grad(lambda x: funcad.numpy.full(3, x).sum())(1.0))
    3.0
    """
    if is_traced((fill_value,)):
        x = array_of(fill_value)
        return anew(fresh(broadcast_to(x if dtype is None else cast(x, np.dtype(dtype)), shape_argument(shape))))
    xp = library(device, like)
    if xp is np and device_in_use():
        xp = namespace_of((fill_value,))
    return xp.full(shape, fill_value, dtype=dtype)


def _like(name: str, value: int) -> Callable[..., Any]:
    def make(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Any:
        x = array_of(a)
        target = shape_of(x) if shape is None else shape_argument(shape)
        xp = library(device, x if device is None else None)
        return _filled(xp, x, target, value, aval_of(x).dtype if dtype is None else dtype, order)

    make.__name__ = name
    return implements(name)(make)


zeros_like = _like("zeros_like", 0)
ones_like = _like("ones_like", 1)
empty_like = _like("empty_like", 0)


@implements("full_like", lift=True)
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Any:
    x = array_of(a)
    target = shape_of(x) if shape is None else shape_argument(shape)
    dtype = aval_of(x).dtype if dtype is None else np.dtype(dtype)
    if is_traced((fill_value,)):
        return anew(fresh(broadcast_to(cast(array_of(fill_value), dtype), target)))
    return _filled(library(device, x if device is None else None), x, target, fill_value, dtype, order)


def _filled(xp: Any, x: Any, shape: tuple, value: Any, dtype: Any, order: Any) -> Any:
    """A new array that lies in memory as NumPy's `*_like` functions make it: like x, if there is an array behind x."""
    order = order_of(order, "CFAK", "K")
    like = concrete_value(x)
    if xp is np and order in "KA" and type(like) is np.ndarray and not like.flags.c_contiguous and shape == like.shape:
        return given(np.full_like(like, value, dtype=dtype, order=order))
    made = given(xp.full(shape, value, dtype=dtype, order="F" if order == "F" else "C"))
    return lies_like(made, x) if xp is np and order in "KA" and type(like) is Tracer and len(shape) > 1 else made


@implements("copy")
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    return as_array_of_rank_0(fresh(laid_out(array_of(a), order_of(order, "CFAK", "K"))))


@implements("astype", alias="same")
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    result = cast(array_of(x), np.dtype(dtype))
    return fresh(result) if copy and result is x else result


def arange(
    start: Any = None, stop: Any = None, step: Any = None, dtype: Any = None, *, device: Any = None, like: Any = None
) -> Any:
    """`numpy.arange`; the ends and the step must have values, for the size depends on them. One bound is the end.

    >>> import funcad
    >>> funcad.numpy.arange(3)
    array([0, 1, 2])
    """
    if start is None or stop is None:
        start, stop = None, stop if start is None else start
    bounds = (stop,) if start is None and step is None else (0 if start is None else start, stop)
    bounds = bounds if step is None else (*bounds, step)
    if is_traced(bounds):
        start, stop, step = 0 if start is None else start, stop, 1 if step is None else step
        plain = [concrete_value(v) for v in (start, stop, step)]
        if any(type(v) is Tracer for v in plain):
            raise TypeError(
                f"arange with a traced bound{where_am_i()}: its size depends on a value that does not exist yet.\n"
                "Remedy: pass the bound as static (jit(..., static_argnums=...)), or use start + step * funcad.numpy.arange(n)."
            )
        n = len(np.arange(*plain))
        result = start + step * np.arange(n)
        return result if dtype is None else convert(result, np.dtype(dtype))
    return library(device, like).arange(*bounds, dtype=dtype)


def _ends(start: Any, stop: Any) -> list[Any]:
    """Both ends as floats of one dtype; Python numbers adapt."""
    ends = [as_array(v) for v in (start, stop)]
    target = result_dtype([*ends, 0.0], False)[0]
    return [convert(v, target) for v in ends]


@implements("linspace")
def _linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0, *,
    device: Any = None,
) -> Any:  # fmt: skip
    n = num.__index__()
    if n < 0:
        raise ValueError(f"Number of samples, {n}, must be non-negative.")
    start, stop = _ends(start, stop)
    target = aval_of(start).dtype
    shape = np.broadcast_shapes(shape_of(start), shape_of(stop))
    start, stop = broadcast_to(start, shape), broadcast_to(stop, shape)
    parts = n - 1 if endpoint else n
    step = np.divide(stop - start, float(parts)) if parts > 0 else (stop - start) * np.nan
    ramp = reshape(np.arange(n, dtype=target), shape=(n, *[1] * len(shape)))
    result = ramp * step + start if parts > 0 else np.broadcast_to(start, (n, *shape))
    if endpoint and n > 1:
        result = np.concatenate([result[:-1], expand(stop, (0,))])
    if dtype is not None:
        target = np.dtype(dtype)
        result = convert(np.floor(result) if target.kind in "iu" else result, target)
    result = np.moveaxis(result, 0, axis) if axis != 0 else result
    return (result, step) if retstep else result


def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0, *,
    device: Any = None, like: Any = None,
) -> Any:  # fmt: skip
    """`numpy.linspace`, with device= and like=; the ends may be traced.

    >>> import funcad
    >>> float(funcad.grad(lambda x: funcad.numpy.linspace(0.0, x, 3).sum())(1.0))
    1.5
    """
    if is_traced((start, stop, num)):
        return _linspace(start, stop, num, endpoint, retstep, dtype, axis)
    return library(device, like).linspace(start, stop, num, endpoint, retstep, dtype, axis)


@implements("logspace")
def logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Any:
    if not is_a(base, (float, int)) and np.ndim(base):
        ndim = max([np.ndim(a) for a in (start, stop, base)])
        start, stop, base = [array(a, copy=None, ndmin=ndim) for a in (start, stop, base)]
        base = np.expand_dims(base, axis)
    result = np.power(base, linspace(start, stop, num=num, endpoint=endpoint, axis=axis))
    return result if dtype is None else convert(result, np.dtype(dtype))


@implements("geomspace")
def geomspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    start, stop = array_of(start), array_of(stop)
    dtypes = [aval_of(v).dtype for v in (start, stop)]
    dtypes += [] if written_for_others() else [np.dtype(dtype)]  # which is double where none is given
    start, stop = [convert(v, np.result_type(*dtypes, 0.0)) for v in (start, stop)]
    for value in (concrete_value(start), concrete_value(stop)):
        if type(value) is not Tracer and np.any(np.equal(value, 0)):
            raise ValueError("Geometric sequence cannot include zero")
    sign = np.sign(start)
    first, last = np.divide(start, sign), np.divide(stop, sign)
    result = np.power(10.0, linspace(np.log10(first), np.log10(last), num=num, endpoint=endpoint))
    n = shape_of(result)[0]
    if n:  # the ends are exact
        shape = shape_of(result)[1:]
        tail = [np.broadcast_to(last, shape)[None]] if endpoint and n > 1 else []
        result = np.concatenate([np.broadcast_to(first, shape)[None], result[1 : n - len(tail)], *tail])
    result = np.multiply(result, sign)
    result = np.moveaxis(result, 0, axis) if axis != 0 else result
    return result if dtype is None else convert(result, np.dtype(dtype))


@implements("meshgrid", alias="view")
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    places = list(range(len(xi)))
    if indexing == "xy" and len(xi) > 1:
        places[:2] = [1, 0]
    xs: Any = [np.reshape(array_of(x), tuple([-1 if i == p else 1 for i in range(len(xi))])) for x, p in zip(xi, places)]
    if not sparse:
        xs = np.broadcast_arrays(*xs)
    return tuple([x.copy() for x in xs] if copy else xs)


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """`numpy.fromfunction`: the function is called once, with the arrays of the coordinates."""
    return function(*np.indices(shape_argument(shape), dtype=dtype), **kwargs)


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, **options: Any) -> Any:
    """Refused: a Python function per element cannot be traced; use `funcad.numpy.vectorize` or vmap.

    `func`, `nin` and `nout` are those of `numpy.frompyfunc`. Raises TypeError, always.

    >>> from funcad import numpy as fnp
    >>> fnp.vectorize(lambda x: max(x, 0.0))([-1.0, 2.0])
    array([0., 2.])
    """
    raise TypeError(
        "funcad.numpy.frompyfunc: object ufuncs cannot be traced. Remedy: funcad.numpy.vectorize(func) or funcad.vmap."
    )


@aliased("view")
def ix_(*args: Any) -> tuple:
    """`numpy.ix_`; the positions may be traced."""
    n = len(args)
    result = []
    for i, a in enumerate(args):
        x = array_of(a)
        if len(shape_of(x)) != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if aval_of(x).dtype.kind == "b":
            x = np.flatnonzero(x)
        result.append(np.reshape(x, tuple([-1 if k == i else 1 for k in range(n)])))
    return tuple(result)


TABLE[np.ix_] = ix_


# np.zeros(3, like=x) of a traced x arrives here without its `like`
TABLE.update({np.array: array, np.asarray: asarray, np.zeros: zeros, np.ones: ones, np.empty: empty, np.full: full})
TABLE[np.arange] = arange


mirrors(named_after(globals(), "numpy"), "numpy")
