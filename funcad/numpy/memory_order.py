"""`order=`: reading a traced value as it lies in memory, and giving it another memory order.

Values do not depend on memory order, except through order="K" and order="A", which read elements as they lie in memory; what
these would find in plain NumPy is known (unjitted/strides.py) or refused, never guessed. A copy in another order has the same
values: outside jit and vmap the array behind it is laid out anew; inside, the trace notes how NumPy would lay it out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.host.devices import device_in_use
from funcad.host.layout import contiguous, memory_axes, of_copy
from funcad.ir.aval import aval_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.dispatch import where_am_i
from funcad.primitives.shape import reshape
from funcad.unjitted.nested import with_value
from funcad.unjitted.strides import doubt, layout_of, layouts_of

__all__ = ["anew", "in_order", "is_fortran", "laid_out", "order_of"]


def order_of(order: Any, allowed: str, default: str) -> str:
    """An argument `order`, checked in NumPy's words."""
    if order is None:
        return default
    if isinstance(order, str) and order.upper() in allowed and len(order) == 1:
        return order.upper()
    names = ", ".join([repr(c) for c in allowed])
    raise ValueError(f"order must be one of {names} (got {order!r})")


def _known_layout(x: Any, what: str, order: str) -> np.ndarray:
    layout = layout_of(x)
    if layout is None:
        raise TypeError(
            f"{what} with order={order!r}{where_am_i()} reads a traced {aval_of(x)} as it lies in memory, and how NumPy would "
            "lay it out is not known here: only of arguments, captured arrays, their views, and what was computed from them "
            "element by element or by sums.\nRemedy: order='C' or order='F', which say in which order the elements are read."
        )
    return layout


def is_fortran(x: Any, what: str) -> bool:
    """What order="A" asks: does x lie in Fortran's order, and not in C's?"""
    shape = aval_of(x).shape
    if len([n for n in shape if n != 1]) < 2 or 0 in shape:
        return False
    flags = _known_layout(x, what, "A").flags
    return flags.f_contiguous and not flags.c_contiguous


def in_order(x: Any, what: str) -> list[int]:
    """The axes of x from the outermost in memory to the innermost: what order="K" asks."""
    shape = aval_of(x).shape
    if len([n for n in shape if n != 1]) < 2 or 0 in shape:
        return list(range(len(shape)))
    return memory_axes([_known_layout(x, what, "K")])


def laid_out(x: Any, order: str) -> Any:
    """A traced x as a copy in this order would lie in memory; with "K" and "A" as it is, where nothing is known of it."""
    if type(x) is not Tracer:
        return x
    aval = aval_of(x)
    long = len([n for n in aval.shape if n != 1])
    if not long or 0 in aval.shape:
        return x
    if long == 1:  # all orders are one; but x may lie in steps, or backwards
        order = "C"
    value = concrete_value(x)
    if type(value) is np.ndarray:
        if _lies_in(value, order) or order in "KA" and layout_of(x, ask=False) is None:
            return x
        return with_value(x, np.array(value, order=order, copy=True))
    if type(value) is not Tracer:
        return x
    own = layout_of(x)  # asked for: what is recorded depends on it, and calls with other strides have a program of their own
    if order in "KA" if own is None else _lies_in(own, order):
        return x
    made = reshape(x, shape=aval.shape)
    inner = concrete_value(made)
    layouts_of(inner.owner)[inner.atom] = _copied(aval, own, order), {"own": value} if order in "KA" else {}
    return made


def anew(x: Any) -> Any:
    """A result that NumPy makes in memory of its own, one element after the other; of its program nothing is known.

    A number that is broadcast may lie in steps of 0, and is taken for a number beside a device's arrays: it stays so there.
    """
    value = concrete_value(x)
    if type(x) is Tracer and type(value) is np.ndarray and not (value.flags.c_contiguous or device_in_use()):
        x = with_value(x, np.ascontiguousarray(value))
    return doubt(x)


def _lies_in(layout: np.ndarray, order: str) -> bool:
    """Would a copy in this order have the same strides?"""
    flags = layout.flags
    return flags.c_contiguous if order == "C" else flags.f_contiguous if order == "F" else flags.forc


def _copied(aval: Any, own: Any, order: str) -> np.ndarray:
    if order == "K":
        return of_copy(own)
    if order == "C" or order == "A" and not own.flags.f_contiguous:
        return contiguous(aval.shape, aval.dtype)
    return contiguous(aval.shape, aval.dtype, range(len(aval.shape))[::-1])
