"""Transcendental functions: exp, log, trigonometric and hyperbolic functions and their inverses, sqrt and cbrt."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.primitive import is_linear
from funcad.primitives.arithmetic import add, div, mul, neg, sub
from funcad.primitives.families import elementwise

sin_p = elementwise("sin", np.sin, [lambda t, out, x: mul(t, cos(x))], emit=lambda e, x: e.sin(x))
cos_p = elementwise("cos", np.cos, [lambda t, out, x: neg(mul(t, sin(x)))], emit=lambda e, x: e.cos(x))
exp_p = elementwise("exp", np.exp, [lambda t, out, x: mul(t, out)], emit=lambda e, x: e.exp(x))
log_p = elementwise("log", np.log, [lambda t, out, x: div(t, x)], emit=lambda e, x: e.log(x))
tanh_p = elementwise("tanh", np.tanh, [lambda t, out, x: tanh_linear(t, out)], emit=lambda e, x: e.tanh(x))


def _tanh_linear_impl(xp: Any, t: Any, y: Any) -> Any:
    factor = y * y
    factor = xp.subtract(1.0, factor, out=factor) if getattr(factor, "ndim", 0) else 1.0 - factor
    return xp.multiply(t, factor, out=factor) if getattr(factor, "ndim", 0) and t.dtype == factor.dtype else t * factor


# t * (1 - y * y): tanh's output is its only residual, so a chain of tanh keeps one array per layer
tanh_linear_p = elementwise(
    "tanh_linear",
    _tanh_linear_impl,
    [lambda u, out, t, y: tanh_linear(u, y), lambda u, out, t, y: mul(mul(mul(-2.0, y), t), u)],
    transpose=lambda ct, t, y: [tanh_linear(ct, y) if is_linear(t) else None, None],
    emit=lambda e, t, y: e.mul(t, e.sub(e.const(1.0), e.mul(y, y))),
)


def sin(x: Any) -> Any:
    return sin_p(x)


def cos(x: Any) -> Any:
    return cos_p(x)


def exp(x: Any) -> Any:
    return exp_p(x)


def log(x: Any) -> Any:
    return log_p(x)


def tanh(x: Any) -> Any:
    return tanh_p(x)


def tanh_linear(t: Any, y: Any) -> Any:
    return tanh_linear_p(t, y)
