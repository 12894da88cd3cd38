"""Composite operations written out in operations that can be fused.

softmax, layer_norm, the shares of a tie and their like are one equation with one NumPy implementation: right for the reference
backend, opaque to fusion. Here each is replaced by the same formula in element operations, reductions along axes and
broadcasts, so that it joins the loop of its neighbours. A lowering is an ordinary function of the operation's operands, traced
once per signature. Invariant: the formula is the implementation's, operation by operation, so results agree, special values
included. Traps: an empty axis has no maximum, and a mean whose count the dtype cannot hold divides in another dtype: such an
equation stays as it is. einsum becomes the steps that its implementation takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, shape_of
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.ir.trace import trace_function
from funcad.primitives import activation
from funcad.primitives.arithmetic import add, div, exact_pow_p, integer_pow, mul, root_p, rsqrt, sqrt, sub
from funcad.primitives.comparison import eq, isnan, lt, or_, select
from funcad.primitives.contraction import dot_general, dot_general_p, einsum_p, einsum_steps, permute
from funcad.primitives.conversion import convert
from funcad.primitives.extrema import maximum
from funcad.primitives.families import REAL
from funcad.primitives.norms import norm_p, scales, squares
from funcad.primitives.reduction import kept_axes, reduce_max, reduce_sum, tied_mean_p, tied_spread_p
from funcad.primitives.shape import broadcast_in_dim
from funcad.primitives.transcendental import exp, log, over_root, over_root_p

__all__ = ["lower"]


def _spread(x: Any, shape: tuple, axes: tuple) -> Any:
    """A reduction over axes, in every position of them."""
    return broadcast_in_dim(x, shape=shape, axes=kept_axes(len(shape), axes))


def _total(x: Any, axes: tuple) -> Any:
    return _spread(reduce_sum(x, axes=axes), shape_of(x), axes)


def _mean(x: Any, axes: tuple) -> Any:
    return div(reduce_sum(x, axes=axes), float(_count(shape_of(x), axes)))


def _count(shape: tuple, axes: tuple) -> int:
    return math.prod([shape[a] for a in axes])


# ---------------------------------------------------------------- over one axis


def _shifted(x: Any, axis: int) -> tuple[Any, Any]:
    """x - max, where infinities that reach the maximum count as equal, and the maximum."""
    top = reduce_max(x, axes=(axis,))
    full = _spread(top, shape_of(x), (axis,))
    return select(eq(x, full), 0.0, sub(x, full)), top


def _softmax(x: Any, *, axis: int) -> Any:
    e = exp(_shifted(x, axis)[0])
    return div(e, _total(e, (axis,)))


def _log_softmax(x: Any, *, axis: int) -> Any:
    shifted = _shifted(x, axis)[0]
    total = log(reduce_sum(exp(shifted), axes=(axis,)))
    return sub(shifted, _spread(total, shape_of(x), (axis,)))


def _logsumexp(x: Any, *, axis: int) -> Any:
    shifted, top = _shifted(x, axis)
    return add(log(reduce_sum(exp(shifted), axes=(axis,))), top)


def _softmax_linear(t: Any, y: Any, *, axis: int) -> Any:
    product = mul(t, y)
    return sub(product, mul(y, _total(product, (axis,))))


def _log_softmax_linear(t: Any, y: Any, *, axis: int) -> Any:
    return sub(t, _total(mul(exp(y), t), (axis,)))


def _log_softmax_transposed(t: Any, y: Any, *, axis: int) -> Any:
    return sub(t, mul(exp(y), _total(t, (axis,))))


# ---------------------------------------------------------------- over several axes


def _layer_norm(x: Any, *, axes: tuple, eps: float) -> list[Any]:
    shape, axes = shape_of(x), tuple(sorted(axes))
    centred = sub(x, _spread(_mean(x, axes), shape, axes))
    variance = _mean(mul(centred, centred), axes)
    r = rsqrt(add(variance, x.dtype.type(eps)))
    return [mul(centred, _spread(r, shape, axes)), r]


def _layer_norm_linear(t: Any, y: Any, r: Any, *, axes: tuple) -> Any:
    shape, axes = shape_of(t), tuple(sorted(axes))
    along = _spread(_mean(mul(t, y), axes), shape, axes)
    centred = sub(sub(t, _spread(_mean(t, axes), shape, axes)), mul(y, along))
    return mul(centred, _spread(r, shape, axes))


def _tied(x: Any, out: Any, axes: tuple) -> tuple[Any, Any]:
    """Where x attains its extremum `out`, and how often along each line: NaN attains it, for then the extremum is NaN too."""
    mask = or_(eq(x, _spread(out, shape_of(x), axes)), isnan(x))
    return mask, reduce_sum(convert(mask, x.dtype), axes=axes)


def _tied_mean(t: Any, x: Any, out: Any, *, axes: tuple) -> Any:
    mask, count = _tied(x, out, axes)
    return div(reduce_sum(select(mask, t, 0.0), axes=axes), maximum(count, 1.0))


def _tied_spread(t: Any, x: Any, out: Any, *, axes: tuple) -> Any:
    mask, count = _tied(x, out, axes)  # where the count is zero, nothing is selected
    return select(mask, _spread(div(t, count), shape_of(x), axes), 0.0)


# ---------------------------------------------------------------- norms and their powers


def _norm(x: Any, *, axes: tuple) -> Any:
    up, down, low = scales(REAL(x.dtype))
    small, large = (reduce_sum(squares(mul(x, x.dtype.type(by))), axes=axes) for by in (up, down))
    return select(lt(large, low), mul(sqrt(small), 1 / up), mul(sqrt(large), 1 / down))


def _exact_pow(r: Any, s: Any, *, n: int) -> Any:
    return integer_pow(r, n)


# ---------------------------------------------------------------- contractions


def _outer(x: Any, y: Any, *, dimension_numbers: Any) -> Any:
    """A product in which nothing is summed: an element operation."""
    _, (bx, by) = dimension_numbers
    sx, sy = shape_of(x), shape_of(y)
    fx, fy = kept_axes(len(sx), bx), kept_axes(len(sy), by)
    n, m = len(bx), len(fx)
    shape = (*[sx[i] for i in (*bx, *fx)], *[sy[i] for i in fy])
    x, y = permute(x, (*bx, *fx)), permute(y, (*by, *fy))
    if fy:
        x = broadcast_in_dim(x, shape=shape, axes=tuple(range(n + m)))
    if fx:
        y = broadcast_in_dim(y, shape=shape, axes=(*range(n), *range(n + m, len(shape))))
    return mul(x, y)


def _einsum(*xs: Any, subscripts: str) -> Any:
    steps, drop, perm = einsum_steps(subscripts, tuple([shape_of(x) for x in xs]))
    left = list(xs)
    for i, j, sum_a, sum_b, numbers in steps:
        b, a = left.pop(j), left.pop(i)
        a, b = reduce_sum(a, axes=sum_a), reduce_sum(b, axes=sum_b)
        left.append(dot_general(a, b, dimension_numbers=numbers))
    (out,) = left
    out = reduce_sum(out, axes=drop)
    return out if perm is None else permute(out, perm)


# ---------------------------------------------------------------- which, and when


def _real(*avals: Aval, **params: Any) -> bool:
    return all([a.dtype.kind == "f" and a.dtype == avals[0].dtype for a in avals])


def _along(*avals: Aval, **params: Any) -> bool:
    return _real(*avals) and avals[0].size > 0


def _averaged(*avals: Aval, axes: tuple, **params: Any) -> bool:
    """Does the dtype hold the count, so that dividing by it is dividing by the integer?"""
    return _along(*avals) and len(axes) > 0 and _count(avals[0].shape, axes) <= 2 ** np.finfo(avals[0].dtype).nmant


def _tie(t: Aval, x: Aval, out: Aval, *, axes: tuple) -> bool:
    return _averaged(x, t, out, axes=axes)


def _unsummed(x: Aval, y: Aval, *, dimension_numbers: Any) -> bool:
    return not dimension_numbers[0][0] and x.ndim > 0 and y.ndim > 0


LOWERINGS: dict[Any, tuple[Callable[..., Any], Callable[..., bool]]] = {
    activation.softmax_p: (_softmax, _along),
    activation.softmax_linear_p: (_softmax_linear, _along),
    activation.log_softmax_p: (_log_softmax, _along),
    activation.log_softmax_linear_p: (_log_softmax_linear, _along),
    activation.log_softmax_transposed_p: (_log_softmax_transposed, _along),
    activation.logsumexp_p: (_logsumexp, _along),
    activation.layer_norm_p: (_layer_norm, _averaged),
    activation.layer_norm_linear_p: (_layer_norm_linear, _averaged),
    norm_p: (_norm, lambda x, *, axes: True),
    root_p: (sqrt, lambda x: True),
    over_root_p: (over_root, lambda x, *, a, b: True),
    exact_pow_p: (_exact_pow, lambda *avals, n: True),
    tied_mean_p: (_tied_mean, _tie),
    tied_spread_p: (_tied_spread, _tie),
    dot_general_p: (_outer, _unsummed),
    einsum_p: (_einsum, lambda *avals, subscripts: True),
}


@lru_cache(maxsize=512)
def _lowered(primitive: Any, avals: tuple, params: tuple) -> Jaxpr | None:
    """The program that replaces the operation for these operands; None: it stays."""
    function, applies = LOWERINGS[primitive]
    keywords = dict(params)
    if not applies(*avals, **keywords):
        return None

    def program(*values: Any) -> list[Any]:
        out = function(*values, **keywords)
        return out if primitive.multiple else [out]

    return lower(trace_function(program, avals, name=primitive.name, abstract=False)[0])  # einsum's steps may be products


def lower(jaxpr: Jaxpr) -> Jaxpr:
    """The program with composite operations written out."""
    if not any([e.primitive in LOWERINGS for e in jaxpr.equations]):
        return jaxpr
    equations: list[Equation] = []
    replaced: dict[Var, Any] = {}
    for equation in jaxpr.equations:
        if replaced and any([a in replaced for a in equation.inputs if type(a) is Var]):
            inputs = tuple([replaced.get(a, a) if type(a) is Var else a for a in equation.inputs])
            equation = equation._replace(inputs=inputs)
        body = None
        if equation.primitive in LOWERINGS and not any([type(a) is Literal for a in equation.inputs]):
            avals = tuple([Aval(a.aval.shape, a.aval.dtype) for a in equation.inputs])
            body = _lowered(equation.primitive, avals, tuple(sorted(equation.params.items())))
        if body is None:
            equations.append(equation)
            continue
        _inline(body, equation, equations, replaced)
    if not replaced and len(equations) == len(jaxpr.equations):
        if all([a is b for a, b in zip(equations, jaxpr.equations)]):
            return jaxpr
    outputs = tuple([replaced.get(o, o) if type(o) is Var else o for o in jaxpr.outputs])
    return Jaxpr(jaxpr.inputs, tuple(equations), outputs)


def _inline(body: Jaxpr, call: Equation, equations: list[Equation], replaced: dict[Var, Any]) -> None:
    """The body's equations in the place of the call, under the call's source and with its variables as outputs."""
    names: dict[Var, Any] = dict(zip(body.inputs, call.inputs))
    for inner, outer in zip(body.outputs, call.outputs):
        if type(inner) is Literal or inner in names:
            replaced[outer] = inner if type(inner) is Literal else names[inner]
        else:
            names[inner] = outer
    for e in body.equations:
        inputs = tuple([names[a] if type(a) is Var else a for a in e.inputs])
        outputs = tuple([names.setdefault(v, Var(v.aval)) for v in e.outputs])
        equations.append(Equation(e.primitive, inputs, e.params, outputs, call.source))
