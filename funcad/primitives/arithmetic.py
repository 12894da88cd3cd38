"""Arithmetic: neg, add, sub, mul, div, pow and their relatives.

Operands have equal shapes and dtypes (literals excepted). The implementations are Python's operators, which NumPy and CuPy
arrays overload and which are several times quicker than ufuncs on scalars; where Python's own scalars behave unlike NumPy's
(division by zero, overflow) the operation is redone by NumPy.
"""

from __future__ import annotations

import operator
from typing import Any, Callable

import numpy as np

from funcad.ir.aval import Aval, aval_of, dtype_of
from funcad.ir.primitive import is_linear
from funcad.ir.tracer import Tracer
from funcad.primitives import families
from funcad.primitives.families import REAL, elementwise

_PYTHON = (int, float, complex, bool)


def _operator(python: Callable[..., Any], ufunc: np.ufunc) -> Callable[..., Any]:
    def impl(xp: Any, *args: Any) -> Any:
        try:
            result = python(*args)
        except (ZeroDivisionError, OverflowError, ValueError, TypeError):
            return ufunc(*args) if xp is np else getattr(xp, ufunc.__name__)(*args)
        return result

    return impl


neg_p = elementwise(
    "neg",
    _operator(operator.neg, np.negative),
    [lambda t, out, x: neg(t)],
    transpose=lambda ct, x: [neg(ct)],
    emit=lambda e, x: e.neg(x),
    weak=True,
)
add_p = elementwise(
    "add",
    _operator(operator.add, np.add),
    [lambda t, out, x, y: t, lambda t, out, x, y: t],
    transpose=lambda ct, x, y: [ct if is_linear(x) else None, ct if is_linear(y) else None],
    emit=lambda e, x, y: e.add(x, y),
    weak=True,
)
sub_p = elementwise(
    "sub",
    _operator(operator.sub, np.subtract),
    [lambda t, out, x, y: t, lambda t, out, x, y: neg(t)],
    transpose=lambda ct, x, y: [ct if is_linear(x) else None, neg(ct) if is_linear(y) else None],
    emit=lambda e, x, y: e.sub(x, y),
    weak=True,
)
mul_p = elementwise(
    "mul",
    _operator(operator.mul, np.multiply),
    [lambda t, out, x, y: mul(t, y), lambda t, out, x, y: mul(x, t)],
    transpose=lambda ct, x, y: [mul(ct, y) if is_linear(x) else None, mul(x, ct) if is_linear(y) else None],
    emit=lambda e, x, y: e.mul(x, y),
    weak=True,
)


def _true_dtype(dtype: np.dtype) -> np.dtype:
    return dtype if dtype.kind in "fc" else np.dtype(np.float64)


div_p = elementwise(
    "div",
    _operator(operator.truediv, np.true_divide),
    [lambda t, out, x, y: div(t, y), lambda t, out, x, y: neg(mul(div(out, y), t))],
    transpose=lambda ct, x, y: [div(ct, y), None],
    emit=lambda e, x, y: e.div(x, y),
    dtype=_true_dtype,
    weak=True,
)
for _p, _u in ((neg_p, np.negative), (add_p, np.add), (sub_p, np.subtract), (mul_p, np.multiply), (div_p, np.true_divide)):
    _p.ufunc = _p.inplace = _u


def neg(x: Any) -> Any:
    return neg_p(x)


def add(x: Any, y: Any) -> Any:
    return add_p(x, y)


def sub(x: Any, y: Any) -> Any:
    return sub_p(x, y)


def mul(x: Any, y: Any) -> Any:
    return mul_p(x, y)


def div(x: Any, y: Any) -> Any:
    return div_p(x, y)


families._ADD[0] = add
