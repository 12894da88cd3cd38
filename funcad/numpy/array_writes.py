"""NumPy's rare ways to write into an array, for traced ones: `np.copyto`, `x.sort()`, `x.real = v`, `x.shape = s` ...

Idea: each computes the array's new value by what funcad has for values, cast to the array's dtype as NumPy casts, and `assign`s
it (boxes.py). What is computed before the write is computed from the old values, so overlapping reads and writes are as NumPy
buffers them. `x[i] = v` is in indexing.py, `x += v` in methods.py. Trap: a plain NumPy array made out of funcad's sight cannot
take a traced value, and says what to write.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.host.real_types import is_a, of_reshape
from funcad.host.where import written_for_others
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer, snapshot
from funcad.numpy.dispatch import implements
from funcad.numpy.indexing import cycled
from funcad.numpy.promote import array_of
from funcad.numpy.views import Reshaped, destination, fitted
from funcad.primitives.comparison import select
from funcad.primitives.conversion import imag, make_complex, real
from funcad.primitives.shape import reshape
from funcad.writes.boxes import ViewStep, assign, is_array, linked

strides, ufuncs = OnDemand("funcad.unjitted.strides"), OnDemand("funcad.numpy.ufuncs")


# -- functions


@implements("copyto", always=True)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """numpy.copyto; dst is an array that the function has made, or a traced one, which takes the values here alone."""
    if not any([type(a) is Tracer for a in (dst, src, where)]):
        return np.copyto(dst, src, casting=casting, where=where)  # type: ignore[arg-type]
    x = destination(dst, "np.copyto")
    value = fitted(x, src, casting)
    assign(x, value if where is True else np.where(where, value, snapshot(x)))


@implements("putmask", always=True)
def putmask(a: Any, mask: Any, values: Any) -> None:
    """numpy.putmask, into an array that the function has made, or a traced one."""
    if not any([type(x) is Tracer for x in (a, mask, values)]):
        return np.putmask(a, mask, values)
    x, values = destination(a, "np.putmask"), array_of(values)
    aval, size = aval_of(x), aval_of(values).size
    if not size:
        return
    values = reshape(values, shape=(size,))
    values = reshape(values[np.arange(aval.size) % size], shape=aval.shape)
    held = reshape(array_of(mask), shape=aval.shape)
    assign(x, select(held if aval_of(held).dtype.kind == "b" else held != 0, fitted(x, values), snapshot(x)))


def fill(x: Any, value: Any) -> None:
    x = destination(x, "x.fill")
    if shape_of(array_of(value)):
        raise ValueError("Input object to FillWithScalar is not a scalar")
    assign(x, fitted(x, value))


def sort(x: Any, axis: int = -1, kind: Any = None, order: Any = None, **options: Any) -> Any:
    if written_for_others():  # where arrays do not change, and sorting gives another one
        return np.sort(x, axis, kind, order, **options)
    x = destination(x, "x.sort")
    assign(x, np.sort(snapshot(x), axis, kind, order, **options))


def partition(x: Any, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
    x = destination(x, "x.partition")
    assign(x, np.partition(snapshot(x), kth, axis, kind, order))


# -- attributes


class _RealPart(ViewStep):
    """The real part of a complex array."""

    __slots__ = ()

    def look(self, base: Any) -> Any:
        return real(base)

    def lies(self, layout: np.ndarray) -> np.ndarray:
        return layout.real

    def put(self, base: Any, value: Any) -> Any:
        return make_complex(value, imag(base))


class _ImaginaryPart(ViewStep):
    """The imaginary part of a complex array."""

    __slots__ = ()

    def look(self, base: Any) -> Any:
        return imag(base)

    def lies(self, layout: np.ndarray) -> np.ndarray:
        return layout.imag

    def put(self, base: Any, value: Any) -> Any:
        return make_complex(real(base), value)


class _Same(ViewStep):
    """An array of another shape, or none, in the same memory."""

    __slots__ = ("copied", "shape")

    def __init__(self, shape: Any, copied: bool = False):
        self.shape, self.copied = shape, copied

    def look(self, base: Any) -> Any:
        return reshape(base, shape=self.shape)

    def lies(self, layout: np.ndarray) -> np.ndarray:
        return of_reshape(layout, shape=self.shape)

    def put(self, base: Any, value: Any) -> Any:
        return reshape(value, shape=shape_of(base))


class _NoPart(ViewStep):
    """The imaginary part of an array of real numbers."""

    __slots__ = ()

    def look(self, base: Any) -> Any:
        return ufuncs.imag(base)

    def put(self, base: Any, value: Any) -> Any:
        raise ValueError("assignment destination is read-only")


def real_of(x: Any) -> Any:
    """`x.real`, a view; of Python's truths an int."""
    if x.dtype.kind != "c":
        return +x if type(x) is Tracer and x.aval.weak else x
    out = real(x)
    return linked(out, x, _RealPart()) if is_array(x) else out


def imag_of(x: Any) -> Any:
    """`x.imag`, a view; of real numbers zeros that nobody can write."""
    if type(x) is Tracer and x.aval.weak and x.dtype.kind != "c":
        return 0.0 if x.dtype.kind == "f" else 0
    out = imag(x) if x.dtype.kind == "c" else ufuncs.imag(x)
    if x.dtype.kind != "c" and type(out) is not Tracer:
        out = np.asarray(out) if is_array(x) and is_a(out, np.generic) else out  # of an array of rank 0, one, too
        if type(out) is np.ndarray:
            out.flags.writeable = False
    elif is_array(x):
        out = linked(out, x, _ImaginaryPart() if x.dtype.kind == "c" else _NoPart())
    return out


def set_real(x: Any, value: Any) -> None:
    part = real_of(x)
    assign(destination(part, "x.real = ..."), fitted(part, value))


def set_imag(x: Any, value: Any) -> None:
    if x.dtype.kind != "c":
        raise TypeError("array does not have imaginary part to set")
    part = imag_of(x)
    assign(destination(part, "x.imag = ..."), fitted(part, value))


def flat_of(x: Any) -> Any:
    """`x.flat`: all elements in C's order, by which x is written too; NumPy copies what is read of them."""
    return linked(reshape(snapshot(x), shape=(aval_of(x).size,)), x, _Same((aval_of(x).size,), True))


def set_flat(x: Any, value: Any) -> None:
    values = cycled(value, aval_of(x).size)
    assign(destination(x, "x.flat = ..."), reshape(fitted(flat_of(x), values), shape=shape_of(x)))


def set_shape(x: Any, shape: Any) -> None:
    """`x.shape = s`: the same memory by another shape; AttributeError where NumPy would have to copy."""
    target = np.empty(aval_of(x).shape, bool).reshape(shape).shape
    step = Reshaped(np.reshape, np.reshape, (None, target), {}, 0, None)
    box = x.box
    alone = box is None or box.base is None and not any([ref() is not None for ref in box.views])
    if not (alone and strides.layout_of(x) is None) and not step.shares(x):  # alone: its elements in order
        raise AttributeError(
            "Incompatible shape for in-place modification. Use `.reshape()` to make a copy with the desired shape."
        )
    base, views = snapshot(x), x.box
    base.box = views
    for ref in views.views if views is not None else ():
        view = ref()
        if view is not None:
            view.box.base = base
    if views is not None and views.base is not None:
        views.base.box.views.append(weakref.ref(base))
    x.box = None
    shaped = linked(reshape(base, shape=target), base, _Same(target))
    x.owner, x.atom, x.primal, x.tangent = shaped.owner, shaped.atom, shaped.primal, shaped.tangent
    x.aval, x.box = shaped.aval, shaped.box
    base.box.views[-1] = weakref.ref(x)
