"""What Python's own arithmetic refuses: 1 / 0.0, 1e200**2, math.log(0.0), where NumPy would give an infinity or NaN.

Idea: Python's functions of its numbers are computed by NumPy's, and `checked` stands behind each in the program: it hands the
result on, and where that is no finite number it asks Python's function itself, which raises or does not. So a program raises
what the function would, at the user's line; inside a `try` jit makes it a branch, and vmap finds the lanes that raise.

Invariant: only what the user wrote is checked. Derivatives are of NumPy's kind: where a slope is infinite, nothing raises.
Trap: where Python's answer is of another kind (a root of a negative number is complex, 2 ** -1 a float), no program can give
it: `NotTheSame` is raised, and whoever runs the program runs Python in its place.
"""

from __future__ import annotations

import math
import operator
from importlib import import_module
from typing import Any

import numpy as np

from funcad.host.devices import namespace_of
from funcad.ir.aval import Aval
from funcad.ir.primitive import Primitive
from funcad.primitives.families import broadcast_in_dim, elementwise, exact_square, structural
from funcad.primitives.shape import batched_with


class NotTheSame(ArithmeticError):
    """Python's answer for numbers of the program is of another kind than the program's."""


_FITS = 2.0**63  # floats below have whole parts of 64 bits
_KINDS = {"b": int, "i": int, "u": int, "f": float, "c": complex}
OPERATORS = {"/": operator.truediv, "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "round": round}


def _named(function: str) -> Any:
    """Python's function of this name: an operator, or "math.log", or "cmath.log"."""
    module = import_module("cmath") if function.startswith("cmath.") else math
    return OPERATORS[function] if function in OPERATORS else getattr(module, function.rpartition(".")[2])


def _checked_impl(xp: Any, x: Any, *numbers: Any, function: str) -> Any:
    if type(x) is float or type(x) is np.float64:
        if math.isfinite(x):
            return x
    kind = int if type(x) is int else _KINDS[np.result_type(x).kind]
    if kind is int:
        last = xp.asarray(numbers[-1])
        fits = xp.abs(last) < _FITS if last.dtype.kind == "f" else last > 0  # a float that is rounded, or an exponent
    else:
        fits = xp.isfinite(x)
    if xp.all(fits):
        return x
    host = [np.ravel(v if namespace_of((v,)) is np else v.get()) for v in numbers]
    for values in zip(*np.broadcast_arrays(*host)):
        answer = _named(function)(*[v.item() for v in values])
        if type(answer) is not kind or kind is int and not -(2**63) <= answer < 2**63:
            said = ", ".join([repr(v.item()) for v in values])
            text = f"{function} of {said} is {answer!r} in Python"
            raise NotTheSame(f"{text}, which is no {kind.__name__}{' of 64 bits' if type(answer) is int else ''}")
    return x


# x, the result of Python's function of this name for the numbers, which raises where that does
checked = Primitive(
    "python_checked",
    _checked_impl,
    lambda x, *numbers, function: Aval(x.shape, x.dtype, x.weak),
    jvp=lambda tangents, out, *operands, function: tangents[0],
    transpose=lambda ct, x, *numbers, function: [ct, *[None] * len(numbers)],
    batch=batched_with(lambda: checked),
    square=lambda x, *numbers, function: exact_square(x),
    asserts=True,
    may_share=True,
)

# behind an operation in a `try`: that may fail, so it is not removed
kept = Primitive(
    "kept",
    lambda xp, x: x,
    lambda x: Aval(x.shape, x.dtype, x.weak),
    jvp=lambda tangents, out, x: tangents[0],
    transpose=lambda ct, x: [ct],
    batch=batched_with(lambda: kept),
    square=exact_square,
    asserts=True,
    may_share=True,
    silent=True,
)


def _round_impl(xp: Any, x: Any, *, digits: int) -> Any:
    if type(x) is float:
        return round(x, digits)
    host = x if xp is np else x.get()
    return xp.asarray([round(v, digits) for v in host.ravel().tolist()], x.dtype).reshape(x.shape)[()]


# Python's `round(x, digits)`, the float nearest to the decimal number, where np.round multiplies, rounds and divides
round_p = elementwise("python_round", _round_impl, [None], weak=True)


def _fsum_impl(xp: Any, x: Any) -> Any:
    host = x if xp is np else x.get()
    rows = host.reshape(-1, host.shape[-1]).tolist()
    return xp.asarray([math.fsum(row) for row in rows], x.dtype).reshape(x.shape[:-1])[()]


# `math.fsum` along the last axis: the double nearest to the exact sum, where np.sum rounds each of its sums
fsum_p = structural(
    "python_fsum",
    _fsum_impl,
    lambda x: Aval(x.shape[:-1], x.dtype),
    lambda ct, x: broadcast_in_dim(ct, shape=x.shape, axes=tuple(range(len(x.shape) - 1))),
    lambda size, x: fsum_p(x),
)
