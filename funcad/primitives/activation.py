"""Activations and normalisations whose derivative has a closed form, stabler or quicker than the chain rule's.

The linear part of each jvp is a primitive of its own, with its own transpose, batch rule and jvp, so derivatives of
every order stay closed forms; its residuals are outputs. Rows are shifted by their maximum. A row whose maximum is
infinite is a tie: softmax is then uniform over the elements that reach it, so a row of -inf is finite in value and
derivative. Trap: log_softmax's Jacobian I - 1 p^T is not symmetric, so its jvp and its transpose are two primitives,
each the other's transpose. `axis` and `axes` are non-negative (the caller normalises them); `layer_norm` has two
outputs, the second without the axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, shape_of
from funcad.ir.primitive import Primitive, is_linear
from funcad.primitives.arithmetic import add, div, mul, neg, rsqrt, sub
from funcad.primitives.comparison import eq, gt, select
from funcad.primitives.families import elementwise
from funcad.primitives.reduction import count_over, reduce_max, reduce_sum, reduced_aval, spread_over
from funcad.primitives.shape import batched_with, next_axes, next_axis
from funcad.primitives.transcendental import exp, log, logistic, tanh

_LN2 = math.log(2.0)

# -- element by element


def _softplus(e: Any, x: Any) -> Any:
    return e.add(e.maximum(x, e.const(0.0)), e.log1p(e.exp(e.neg(e.abs(x)))))


def _log_cosh(e: Any, x: Any) -> Any:
    a = e.abs(x)
    s = e.sinh(e.minimum(a, e.const(1.0)))
    near = e.div(e.log1p(e.mul(s, s)), e.const(2.0))  # without the cancellation of the other form near 0
    far = e.sub(e.add(a, e.log1p(e.exp(e.mul(e.const(-2.0), a)))), e.const(_LN2))
    return e.select(e.lt(a, e.const(1.0)), near, far)


# max(x, 0): the derivative at 0 is 0, NaN stays NaN.
relu = elementwise(
    "relu",
    None,
    [lambda t, out, x: select(gt(out, 0.0), t, 0.0)],
    emit=lambda e, x: e.maximum(x, e.const(0)),
)
# log(1 + exp(x)), without overflow.
softplus = elementwise(
    "softplus",
    None,
    [lambda t, out, x: mul(logistic(x), t)],
    emit=_softplus,
)
safe_log_p = elementwise(  # log(softplus(x) + eps)
    "safe_log",
    None,
    [lambda t, out, x, *, eps: mul(div(logistic(x), exp(out)), t)],
    emit=lambda e, x, *, eps: e.log(e.add(_softplus(e, x), e.const(eps))),
)
# log(cosh(x)), without overflow, accurate near 0.
log_cosh = elementwise("log_cosh", None, [lambda t, out, x: mul(tanh(x), t)], emit=_log_cosh)


# -- along one axis


def _over_axis(
    name: str,
    impl: Callable[..., Any],
    jvp: Callable[..., Any],
    lowering: Callable[..., Any],
    transpose: Callable[..., Any] | None = None,
    abstract_eval: Callable[..., Any] = lambda x, *rest, axis: Aval(x.shape, x.dtype),
) -> Primitive:
    """A primitive over the axis `axis` of operands of equal shapes."""

    batch = batched_with(lambda: primitive, axis=next_axis)
    primitive: Primitive = Primitive(name, impl, abstract_eval, jvp=jvp, transpose=transpose, batch=batch, lowering=lowering)
    return primitive


def _total(x: Any, axis: int) -> Any:
    """The sum along the axis, in every position of it."""
    return spread_over(reduce_sum(x, axes=(axis,)), shape_of(x), (axis,))


def _sum_terms(*terms: Any) -> Any:
    found = [t for t in terms if t is not None]
    return found[0] if len(found) == 1 else add(*found)


def _shifted(xp: Any, x: Any, axis: int) -> tuple[Any, Any]:
    """x - max, where infinities that reach the maximum count as equal, and the maximum."""
    if not x.shape[axis]:
        return x, xp.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)
    top = xp.max(x, axis=axis, keepdims=True)
    if xp is np and np.isfinite(top).all():
        return x - top, top
    with np.errstate(invalid="ignore"):
        return xp.where(x == top, x.dtype.type(0), x - top), top


def _softmax_impl(xp: Any, x: Any, *, axis: int) -> Any:
    e = xp.exp(_shifted(xp, x, axis)[0])
    e /= e.sum(axis=axis, keepdims=True)
    return e


def _log_softmax_impl(xp: Any, x: Any, *, axis: int) -> Any:
    x = _shifted(xp, x, axis)[0]
    if x.size:  # a new array; another would cost as much memory again, and more time than the subtraction
        x -= xp.log(xp.exp(x).sum(axis=axis, keepdims=True))
    return x


def _logsumexp_impl(xp: Any, x: Any, *, axis: int) -> Any:
    if not x.shape[axis]:
        shape = reduced_aval(x, (axis,)).shape
        return xp.full(shape, -np.inf, x.dtype)[() if xp is np else ...]
    x, top = _shifted(xp, x, axis)
    return xp.log(xp.exp(x).sum(axis=axis)) + xp.squeeze(top, axis)[() if xp is np else ...]


def _softmax_linear_impl(xp: Any, t: Any, y: Any, *, axis: int) -> Any:
    product = t * y
    product -= y * product.sum(axis=axis, keepdims=True)
    return product


# -- the same in operations that fuse


def _real(*xs: Any) -> bool:
    return all([x.dtype.kind == "f" and x.dtype == xs[0].dtype for x in xs]) and xs[0].size > 0


def _less_maximum(x: Any, axis: int) -> tuple[Any, Any]:
    """x - max, where infinities that reach the maximum count as equal, and the maximum."""
    top = reduce_max(x, axes=(axis,))
    full = spread_over(top, shape_of(x), (axis,))
    return select(eq(x, full), 0.0, sub(x, full)), top


def _softmax_lowering(x: Any, *, axis: int) -> Any:
    if not _real(x):
        return None
    e = exp(_less_maximum(x, axis)[0])
    return div(e, _total(e, axis))


def _log_softmax_lowering(x: Any, *, axis: int) -> Any:
    if not _real(x):
        return None
    shifted = _less_maximum(x, axis)[0]
    total = log(reduce_sum(exp(shifted), axes=(axis,)))
    return sub(shifted, spread_over(total, shape_of(x), (axis,)))


def _logsumexp_lowering(x: Any, *, axis: int) -> Any:
    if not _real(x):
        return None
    shifted, top = _less_maximum(x, axis)
    return add(log(reduce_sum(exp(shifted), axes=(axis,))), top)


def _softmax_linear_lowering(t: Any, y: Any, *, axis: int) -> Any:
    if not _real(t, y):
        return None
    product = mul(t, y)
    return sub(product, mul(y, _total(product, axis)))


def _log_softmax_linear_lowering(t: Any, y: Any, *, axis: int) -> Any:
    if not _real(t, y):
        return None
    return sub(t, _total(mul(exp(y), t), axis))


def _log_softmax_transposed_lowering(t: Any, y: Any, *, axis: int) -> Any:
    if not _real(t, y):
        return None
    return sub(t, mul(exp(y), _total(t, axis)))


def _softmax_linear_jvp(tangents: Sequence[Any], out: Any, t: Any, y: Any, *, axis: int) -> Any:
    u, v = tangents
    by_y = None
    if v is not None:  # d (y t - y sum(y t)) = v (t - sum(y t)) - y sum(v t)
        by_y = sub(mul(sub(t, _total(mul(y, t), axis)), v), mul(y, _total(mul(t, v), axis)))
    return _sum_terms(None if u is None else softmax_linear(u, y, axis=axis), by_y)


softmax_linear = _over_axis(  # y * (t - sum(y * t)), symmetric
    "softmax_linear",
    _softmax_linear_impl,
    _softmax_linear_jvp,
    _softmax_linear_lowering,
    lambda ct, t, y, *, axis: [softmax_linear(ct, y, axis=axis) if is_linear(t) else None, None],
)
softmax = _over_axis(
    "softmax",
    _softmax_impl,
    lambda tangents, out, x, *, axis: softmax_linear(tangents[0], out, axis=axis),
    _softmax_lowering,
)


def _log_softmax_linear_jvp(tangents: Sequence[Any], out: Any, t: Any, y: Any, *, axis: int) -> Any:
    u, v = tangents
    by_y = None if v is None else neg(_total(mul(mul(exp(y), t), v), axis))
    return _sum_terms(None if u is None else log_softmax_linear(u, y, axis=axis), by_y)


def _log_softmax_transposed_jvp(tangents: Sequence[Any], out: Any, t: Any, y: Any, *, axis: int) -> Any:
    u, v = tangents
    by_y = None if v is None else neg(mul(mul(exp(y), _total(t, axis)), v))
    return _sum_terms(None if u is None else log_softmax_transposed(u, y, axis=axis), by_y)


def _log_softmax_linear_impl(xp: Any, t: Any, y: Any, *, axis: int) -> Any:
    product = xp.exp(y)
    product *= t
    return t - product.sum(axis=axis, keepdims=True)


def _log_softmax_transposed_impl(xp: Any, t: Any, y: Any, *, axis: int) -> Any:
    product = xp.exp(y)
    product *= t.sum(axis=axis, keepdims=True)
    return xp.subtract(t, product, out=product)


log_softmax_linear = _over_axis(  # t - sum(exp(y) * t)
    "log_softmax_linear",
    _log_softmax_linear_impl,
    _log_softmax_linear_jvp,
    _log_softmax_linear_lowering,
    lambda ct, t, y, *, axis: [log_softmax_transposed(ct, y, axis=axis) if is_linear(t) else None, None],
)
log_softmax_transposed = _over_axis(  # t - exp(y) * sum(t)
    "log_softmax_transposed",
    _log_softmax_transposed_impl,
    _log_softmax_transposed_jvp,
    _log_softmax_transposed_lowering,
    lambda ct, t, y, *, axis: [log_softmax_linear(ct, y, axis=axis) if is_linear(t) else None, None],
)
log_softmax = _over_axis(
    "log_softmax",
    _log_softmax_impl,
    lambda tangents, out, x, *, axis: log_softmax_linear(tangents[0], out, axis=axis),
    _log_softmax_lowering,
)
# log(sum(exp(x))) along one axis, which is dropped.
logsumexp = _over_axis(
    "logsumexp",
    _logsumexp_impl,
    lambda tangents, out, x, *, axis: reduce_sum(mul(softmax(x, axis=axis), tangents[0]), axes=(axis,)),
    _logsumexp_lowering,
    abstract_eval=lambda x, *, axis: reduced_aval(x, (axis,)),
)


# -- normalisation over several axes


def _layer_norm_impl(xp: Any, x: Any, *, axes: tuple, eps: float) -> list[Any]:
    centred = x - x.mean(axis=axes, keepdims=True, dtype=x.dtype.type)
    variance = (centred * centred).mean(axis=axes, keepdims=True, dtype=x.dtype.type)
    r = 1.0 / xp.sqrt(variance + x.dtype.type(eps))
    kept = xp.squeeze(r, axes)
    return [centred * r, kept[()] if xp is np and not kept.ndim else kept]


def _layer_norm_jvp(tangents: Sequence[Any], out: Sequence[Any], x: Any, *, axes: tuple, eps: float) -> list[Any]:
    (t,), (y, r) = tangents, out
    # r = (var + eps)**(-1/2) and d var = 2 mean(y t) / r
    by_variance = neg(mul(mul(r, r), _mean(mul(y, t), axes)))
    return [layer_norm_linear(t, y, r, axes=axes), by_variance]


def _mean(x: Any, axes: tuple) -> Any:
    return mul(reduce_sum(x, axes=axes), 1.0 / max(1, count_over(shape_of(x), axes)))


def _averaged(axes: tuple, *xs: Any) -> bool:
    """Does the dtype hold the count, so that dividing by it is dividing by the integer?"""
    return _real(*xs) and len(axes) > 0 and count_over(xs[0].shape, axes) <= 2 ** np.finfo(xs[0].dtype).nmant


def _quotient(x: Any, axes: tuple) -> Any:
    return div(reduce_sum(x, axes=axes), float(count_over(shape_of(x), axes)))


def _layer_norm_lowering(x: Any, *, axes: tuple, eps: float) -> Any:
    if not _averaged(axes, x):
        return None
    shape, axes = shape_of(x), tuple(sorted(axes))
    centred = sub(x, spread_over(_quotient(x, axes), shape, axes))
    variance = _quotient(mul(centred, centred), axes)
    r = rsqrt(add(variance, x.dtype.type(eps)))
    return [mul(centred, spread_over(r, shape, axes)), r]


def _layer_norm_linear_lowering(t: Any, y: Any, r: Any, *, axes: tuple) -> Any:
    if not _averaged(axes, t, y, r):
        return None
    shape, axes = shape_of(t), tuple(sorted(axes))
    along = spread_over(_quotient(mul(t, y), axes), shape, axes)
    centred = sub(sub(t, spread_over(_quotient(t, axes), shape, axes)), mul(y, along))
    return mul(centred, spread_over(r, shape, axes))


layer_norm_p = Primitive(
    "layer_norm",
    _layer_norm_impl,
    lambda x, *, axes, eps: [Aval(x.shape, x.dtype), reduced_aval(x, axes)],
    jvp=_layer_norm_jvp,
    batch=batched_with(lambda: layer_norm_p, axes=next_axes),
    lowering=_layer_norm_lowering,
    multiple=True,
)


def _layer_norm_linear_impl(xp: Any, t: Any, y: Any, r: Any, *, axes: tuple) -> Any:
    along = (t * y).mean(axis=axes, keepdims=True, dtype=t.dtype.type)
    return (t - t.mean(axis=axes, keepdims=True, dtype=t.dtype.type) - y * along) * xp.expand_dims(r, axes)


def _layer_norm_linear_jvp(tangents: Sequence[Any], out: Any, t: Any, y: Any, r: Any, *, axes: tuple) -> Any:
    u, v, w = tangents
    terms = []
    if u is not None:
        terms.append(layer_norm_linear(u, y, r, axes=axes))
    if v is not None:  # d of - r y mean(t y) by y
        shape = shape_of(t)
        first = mul(v, spread_over(_mean(mul(t, y), axes), shape, axes))
        second = mul(y, spread_over(_mean(mul(t, v), axes), shape, axes))
        terms.append(neg(mul(spread_over(r, shape, axes), add(first, second))))
    if w is not None:
        terms.append(layer_norm_linear(t, y, w, axes=axes))
    total = terms[0]
    for term in terms[1:]:
        total = add(total, term)
    return total


def _layer_norm_linear_transpose(ct: Any, t: Any, y: Any, r: Any, *, axes: tuple) -> list:
    if is_linear(t):
        return [layer_norm_linear(ct, y, r, axes=axes), None, None]
    along = mul(y, spread_over(_mean(mul(t, y), axes), shape_of(t), axes))
    centred = sub(sub(t, spread_over(_mean(t, axes), shape_of(t), axes)), along)
    return [None, None, reduce_sum(mul(ct, centred), axes=axes)]


layer_norm_linear = Primitive(  # r * (t - mean(t) - y * mean(t * y)), symmetric in t and linear in r
    "layer_norm_linear",
    _layer_norm_linear_impl,
    lambda t, y, r, *, axes: Aval(t.shape, t.dtype),
    jvp=_layer_norm_linear_jvp,
    transpose=_layer_norm_linear_transpose,
    batch=batched_with(lambda: layer_norm_linear, axes=next_axes),
    lowering=_layer_norm_linear_lowering,
)


def safe_log(x: Any, *, eps: float) -> Any:
    """log(softplus(x) + eps), finite for every finite x."""
    return safe_log_p(x, eps=float(eps))


def layer_norm(x: Any, *, axes: tuple, eps: float) -> list[Any]:
    """[(x - mean) * r, r] with r = 1 / sqrt(population variance + eps) over the axes."""
    return layer_norm_p(x, axes=axes, eps=float(eps))
