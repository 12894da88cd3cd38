"""How the primitives are written as calls of CuPy's, where all arrays are a device's.

Idea: the texts are those for NumPy (text_rules.py) wherever the primitive's implementation calls the namesake in CuPy, too,
with the same arguments; what has a way of its own on devices keeps it, so a program computes what its operations compute one
by one. Invariant: no text asks a device for a value. Traps: a value without axes is an array there, or a number of the host,
which has no methods and which CuPy's functions of whole arrays refuse; one that a text takes out of an array is a view of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funcad.backends.memory import Value
from funcad.backends.text import Writer, dtype_text, shape_text
from funcad.backends.text_rules import Expression, TextCall, text_of, ufunc_name
from funcad.ir.jaxpr import Equation, Literal
from funcad.primitives.basic_indexing import basic_index_p
from funcad.primitives.comparison import select
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.scatter import gather_p
from funcad.primitives.shape import broadcast_in_dim, reshape

__all__ = ["text_on_device"]

_COMPARED = frozenset(["eq", "ne", "lt", "le", "gt", "ge"])
_TAKE_NUMBERS = frozenset([basic_index_p, select, gather_p, broadcast_in_dim])  # their texts do, as operands or indices


def text_on_device(w: Writer, equation: Equation, operands: list[Value]) -> TextCall | Expression | None:
    """How to write this equation for a device, or None: then its implementation is called."""
    primitive = equation.primitive
    if primitive.multiple:
        return None
    if ufunc_name(primitive) is not None and not equation.params:
        found = text_of(w, equation, operands) if getattr(primitive.impl, "namesake", False) else None
        scalar = type(equation.inputs[0]) is Literal and not equation.inputs[0].aval.weak
        if type(found) is TextCall and (scalar or primitive.name in _COMPARED):
            found.operator = ""  # a scalar of NumPy's would be asked first, and compares as an array, which CuPy refuses
        return found
    if primitive is reshape and not operands[0].aval.shape:
        return _reshaped_number(w, equation, operands[0])
    if primitive is broadcast_in_dim and type(equation.inputs[0]) is Literal and not equation.inputs[0].aval.weak:
        return _filled(w, equation, operands[0])
    if primitive is dot_general_p and operands[0].aval.dtype.kind == "b":
        return None
    if primitive is select and not operands[0].shape and _may_be_host(operands[:1]):
        return None
    if primitive not in _TAKE_NUMBERS and _may_be_host(operands):
        return None
    return text_of(w, equation, operands)


def _filled(w: Writer, equation: Equation, x: Value) -> Expression:
    """A number everywhere: it goes with the call that fills, where an array of it would be copied to the device."""
    shape, dtype = equation.params["shape"], dtype_text(w, x.aval.dtype)
    return Expression(f"{w.np}.broadcast_to({w.np}.full((), {x.text}, {dtype}), {shape_text(shape)})", [], whole=False)


def _may_be_host(operands: Sequence[Value]) -> bool:
    """Is there a value without axes, which may be a number of the host?"""
    return any([not v.aval.shape for v in operands])


def _reshaped_number(w: Writer, equation: Equation, x: Value) -> Expression | None:
    shape: Any = equation.params["shape"]
    if x.aval.weak:
        return None
    text = f"{w.np}.asarray({x.text}, {dtype_text(w, x.aval.dtype)})"
    return Expression(f"{text}.reshape({shape_text(shape)})" if shape else text, [x], whole=False)
