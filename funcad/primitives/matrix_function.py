"""Functions of Hermitian matrices, f(a) = v f(w) v^H, whose derivatives are divided differences.

The derivative of order k is a sum, over the orders of its k directions, of products of these directions in the basis v,
weighted by the divided differences f[w_0, ..., w_k], which are finite wherever f is smooth: equal eigenvalues are no
special case. One primitive serves all orders: `spectral(directions, a, weights, w, v)`. Its value does not depend on
`a`, which stands there to be differentiated: the rule appends the tangent of `a` to the directions. Invariant: w, v and
weights come from `stop_gradient(a)`, so they carry no tangents of their own.

Divided differences of far points are quotients; those of near ones are integrals of a derivative over a simplex, by
Gauss's rule. Each element takes the one whose estimated error is smaller.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, dtype_of, shape_of
from funcad.ir.primitive import is_linear
from funcad.primitives.arithmetic import abs_, add, div, mul, sub
from funcad.primitives.comparison import eq, gt, lt, or_, select
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.eigen import eigh
from funcad.primitives.families import REAL, sum_tangents
from funcad.primitives.linear_systems import hermitian_part, mT, stacked
from funcad.primitives.shape import broadcast_in_dim

__all__ = ["spectral_p", "symmetric_function", "divided_differences"]

_POINTS = {1: (8, 7), 2: (5, 4)}  # Gauss points per axis of the simplex, and those of the rule that estimates the error


@lru_cache(maxsize=32)
def _simplex_rule(order: int, points: int) -> tuple[tuple[tuple[float, ...], float], ...]:
    """Barycentric nodes and weights of an integral over the simplex of `order` dimensions, whose volume is 1 / order!."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    nodes, weights = (nodes + 1) / 2, weights / 2
    rule = []
    for chosen in itertools.product(range(points), repeat=order):
        u, weight = 1.0, 1.0
        heights = []
        for axis, i in enumerate(chosen):
            weight *= weights[i] * nodes[i] ** (order - 1 - axis)
            u *= nodes[i]
            heights.append(u)
        barycentric = [a - b for a, b in zip([1.0, *heights], [*heights, 0.0])]
        rule.append((tuple([float(b) for b in barycentric]), float(weight)))
    return tuple(rule)


def divided_differences(function: Callable[[int, Any], Any], order: int, w: Any) -> Any:
    """f[w_i, ..., w_l] for all tuples of `order` + 1 of the numbers w (last axis); function(m, x) is f's m-th derivative."""
    if not order:
        return function(0, w)
    shape = shape_of(w)
    n, lead = shape[-1], len(shape) - 1
    full = (*shape[:-1], *[n] * (order + 1))
    leading = tuple(range(lead))
    points = [broadcast_in_dim(w, shape=full, axes=(*leading, lead + i)) for i in range(order + 1)]
    lower = divided_differences(function, order - 1, w)

    def without(i: int) -> Any:
        axes = (*leading, *[lead + k for k in range(order + 1) if k != i])
        return broadcast_in_dim(lower, shape=full, axes=axes)

    faces = [without(i) for i in range(order + 1)]
    gap = upper = below = None
    for i, j in itertools.combinations(range(order + 1), 2):  # the widest gap is the best
        distance = sub(points[j], points[i])
        if gap is None:
            gap, upper, below = distance, faces[i], faces[j]
        else:
            wider = gt(abs_(distance), abs_(gap))
            gap, upper, below = [select(wider, x, y) for x, y in zip((distance, faces[i], faces[j]), (gap, upper, below))]
    closed = eq(gap, 0.0)
    safe = select(closed, 1.0, gap)
    dtype = dtype_of(lower)
    quotient = div(sub(upper, below), convert(safe, dtype))
    rounding = div(mul(float(np.finfo(dtype).eps), add(abs_(upper), abs_(below))), abs_(safe))
    fine, coarse = [_integral(function, order, points, count) for count in _POINTS.get(order, (4, 3))]
    return select(or_(closed, lt(abs_(sub(fine, coarse)), rounding)), fine, quotient)


def _integral(function: Callable[[int, Any], Any], order: int, points: list[Any], count: int) -> Any:
    total = None
    for barycentric, weight in _simplex_rule(order, count):
        x = sum_tangents([mul(b, p) for b, p in zip(barycentric, points)], add)
        term = mul(weight, function(order, x))
        total = term if total is None else add(total, term)
    return total


_LETTERS = "abcdefghij"


def _spectral_impl(xp: Any, *args: Any, function: Any) -> Any:
    *directions, _, weights, _, v = args
    dagger = xp.conj(xp.swapaxes(v, -1, -2))
    if not directions:
        return (v * weights[..., None, :]) @ dagger
    inside = [dagger @ t @ v for t in directions]
    if len(inside) == 1:
        return v @ (weights * inside[0]) @ dagger
    k = len(inside)
    letters = _LETTERS[: k + 1]
    terms = ",".join([f"...{letters[i]}{letters[i + 1]}" for i in range(k)])
    total = None
    for order in itertools.permutations(inside):
        product = xp.einsum(f"{terms},...{letters}->...{letters[0]}{letters[-1]}", *order, weights)
        total = product if total is None else total + product
    return v @ total @ dagger


def _spectral_abstract(*avals: Aval, function: Any) -> Aval:
    *_, a, weights, _, v = avals
    return Aval(a.shape, np.promote_types(weights.dtype, v.dtype))


def _spectral_jvp(tangents: Any, out: Any, *args: Any, function: Any) -> Any:
    *directions, a, weights, w, v = args
    terms = []
    for i, t in enumerate(tangents[: len(directions)]):
        if t is not None:
            changed = [*directions[:i], t, *directions[i + 1 :]]
            terms.append(spectral_p(*changed, a, weights, w, v, function=function))
    t = tangents[len(directions)]
    if t is not None:
        higher = convert(divided_differences(function, len(directions) + 1, w), dtype_of(weights))
        t = convert(hermitian_part(t), dtype_of(out))
        terms.append(spectral_p(*directions, t, a, higher, w, v, function=function))
    return sum_tangents(terms, add)


def _spectral_transpose(ct: Any, *args: Any, function: Any) -> list:
    (i,) = [k for k, x in enumerate(args) if is_linear(x)]
    return [None if k != i else mT(spectral_p(*args[:i], mT(ct), *args[i + 1 :], function=function)) for k in range(len(args))]


spectral_p = stacked("spectral", _spectral_impl, _spectral_abstract, _spectral_jvp, transpose=_spectral_transpose)


def symmetric_function(a: Any, function: Callable[[int, Any], Any]) -> Any:
    """f(a) of Hermitian a, shape (..., n, n), of which the lower triangle is read.

    `function(m, x)` is the m-th derivative of f at x, element by element; it must not depend on values being traced.
    """
    w, v = eigh(stop_gradient(a))
    weights = function(0, w)
    dtype = np.promote_types(dtype_of(weights), dtype_of(v))
    if dtype.kind == "c" and dtype_of(v).kind != "c":  # a complex function of a real matrix
        v, weights = convert(v, dtype), convert(weights, dtype)
    elif dtype_of(weights) != REAL(dtype) and dtype_of(weights) != dtype:
        weights = convert(weights, REAL(dtype))
    return spectral_p(a, weights, w, v, function=function)
