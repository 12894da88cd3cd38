"""Functions of matrices: of Hermitian ones by divided differences, of others by SciPy's algorithms.

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
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, dtype_of, shape_of
from funcad.ir.primitive import Primitive, is_linear, not_linear
from funcad.memo import remembers
from funcad.primitives.arithmetic import abs_, add, div, mul, neg, sub
from funcad.primitives.comparison import eq, gt, lt, or_, select
from funcad.primitives.contraction import matmul
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.eigen import eigh
from funcad.primitives.families import REAL, avals_text, native_order, sum_tangents
from funcad.primitives.shape import broadcast_in_dim, static_slice

from funcad.primitives.linear_systems import (  # isort: skip
    each, finite_only, hermitian_part, linalg_of, mH, mT, of_finite, placed, solve, square_aval, stacked,
)

_POINTS = {1: (8, 7), 2: (5, 4)}  # Gauss points per axis of the simplex, and those of the rule that estimates the error


@remembers(32)
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


# -- functions of matrices: expm, logm, sqrtm, the Sylvester equation, the unitary polar factor
#
# Idea: the derivative of f at A along E is the upper right block of f([[A, E], [0, A]]) (the Fréchet derivative), which is
# right and finite whether or not eigenvalues coincide. It is a primitive of its own, `expm_linear` and `logm_linear`, linear in
# E; its transpose is L(A, .)^T = L(A^T, .), and its own derivative in A is the same primitive on [[A, E], [0, A]], so every
# order exists. The derivative of sqrtm solves the Sylvester equation X L + L X = E. All take stacks of square matrices.
#
# Traps: E is scaled to the size of A first, otherwise a large E costs digits of A's function. A real matrix whose square root
# or logarithm is complex raises, though nobody reads it (`.imag` of a real one is 0): no result's dtype depends on values.


def _square(name: str) -> Callable[..., Aval]:
    def abstract_eval(*avals: Aval) -> Aval:
        first = avals[0]
        square_aval(name, first)
        if any(a.shape != first.shape or a.dtype != first.dtype for a in avals):
            raise ValueError(f"{name}: operands must have equal shapes and dtypes, got {avals_text(avals)}")
        return Aval(first.shape, first.dtype)

    return abstract_eval


def _as_real(name: str, out: Any, dtype: np.dtype) -> Any:
    """What SciPy returned, in the operand's kind of dtype."""
    if dtype.kind == "c" or out.dtype.kind != "c":
        return out
    size, excess = np.abs(out).max(), np.abs(out.imag).max()
    if excess > 1e3 * np.finfo(dtype).eps * max(size, 1.0):
        raise ValueError(
            f"{name}: the real matrix has an eigenvalue that is not positive, so the result is complex.\n"
            f"Remedy: pass a complex matrix, {name}(a.astype(complex)); the dtype of a traced result must be known before."
        )
    return out.real


def _expm_value(xp: Any, a: Any) -> Any:
    return each(xp, finite_only(xp, linalg_of(xp, "expm"), a.shape[-2:]), (native_order(a),), a.shape[-2:], a.dtype)


def _root_value(name: str) -> Callable[[Any, Any], Any]:
    def value(xp: Any, a: Any) -> Any:
        f = linalg_of(xp, name)
        wide = np.result_type(a.dtype, np.float64)  # SciPy's logm measures its error by double precision
        one = finite_only(xp, lambda m: _as_real(name, f(m.astype(wide)), a.dtype), a.shape[-2:])
        return each(xp, one, (a,), a.shape[-2:], a.dtype)

    return value


# ---- functions with a Fréchet derivative by blocks


def _frechet_impl(value: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def impl(xp: Any, a: Any, e: Any) -> Any:
        n = a.shape[-1]
        if not a.size:
            return xp.zeros(a.shape, a.dtype)
        sizes = [xp.abs(x).max(axis=(-2, -1), keepdims=True) for x in (a, e)]
        ratio = sizes[1] / xp.where(sizes[0] > 0, sizes[0], 1)
        ratio = xp.where((ratio > 0) & xp.isfinite(ratio), ratio, 1)
        scale = xp.exp2(xp.rint(xp.log2(ratio)))
        blocks = xp.zeros((*a.shape[:-2], 2 * n, 2 * n), a.dtype)
        blocks[..., :n, :n] = blocks[..., n:, n:] = a
        blocks[..., :n, n:] = e / scale
        return (value(xp, blocks)[..., :n, n:] * scale).astype(a.dtype, copy=False)

    return impl


def _with_frechet(name: str, value: Callable[[Any, Any], Any]) -> tuple[Primitive, Primitive]:
    """The primitive of a matrix function, and that of its derivative along a direction."""

    def linear_jvp(tangents: Sequence[Any], out: Any, a: Any, e: Any) -> Any:
        ta, te = tangents
        along = None
        if ta is not None:
            n = shape_of(a)[-1]
            whole = (2 * n, 2 * n)
            point = add(add(placed(a, whole, 0, 0), placed(a, whole, n, n)), placed(e, whole, 0, n))
            direction = add(placed(ta, whole, 0, 0), placed(ta, whole, n, n))
            along = linear_p(point, direction)
            lead = len(shape_of(along)) - 2
            along = static_slice(static_slice(along, 0, n, lead), n, 2 * n, lead + 1)
        return sum_tangents([along, None if te is None else linear_p(a, te)], add)

    def linear_transpose(ct: Any, a: Any, e: Any) -> list[Any]:
        if is_linear(a):
            raise not_linear(f"{name}_linear")
        return [None, linear_p(mT(a), ct)]

    linear = f"{name}_linear"
    linear_p = stacked(linear, _frechet_impl(value), _square(linear), linear_jvp, transpose=linear_transpose)
    rule = lambda tangents, out, a: linear_p(a, tangents[0])
    value_p = stacked(name, value, _square(name), rule, asserts=name == "logm")
    return value_p, linear_p


# expm: the exponential of matrices (..., n, n).
# expm_linear: the derivative of expm at a along e.
expm, expm_linear = _with_frechet("expm", _expm_value)
# logm: the principal logarithm of matrices (..., n, n).
# logm_linear: the derivative of logm at a along e.
logm, logm_linear = _with_frechet("logm", _root_value("logm"))


# ---- the Sylvester equation, and functions whose derivative solves one


def _sylvester_abstract(a: Aval, b: Aval, q: Aval) -> Aval:
    n, m = q.shape[-2:] if q.ndim > 1 else (0, 0)
    lead = q.shape[:-2]
    if q.ndim < 2 or a.shape != (*lead, n, n) or b.shape != (*lead, m, m):
        raise ValueError(f"sylvester: expected matrices a, b and q that fit, got {avals_text([a, b, q])}")
    if not a.dtype == b.dtype == q.dtype:
        raise TypeError(f"sylvester: operands must have equal dtypes, got {avals_text([a, b, q])}")
    return Aval(q.shape, q.dtype)


def _sylvester_impl(xp: Any, a: Any, b: Any, q: Any) -> Any:
    core = q.shape[-2:]
    return each(xp, finite_only(xp, linalg_of(xp, "solve_sylvester"), core), (a, b, q), core, q.dtype)


def _sylvester_jvp(tangents: Sequence[Any], out: Any, a: Any, b: Any, q: Any) -> Any:
    ta, tb, tq = tangents
    moved = sum_tangents([None if ta is None else matmul(ta, out), None if tb is None else matmul(out, tb)], add)
    if moved is not None:
        tq = neg(moved) if tq is None else sub(tq, moved)
    return sylvester(a, b, tq)


def _sylvester_transpose(ct: Any, a: Any, b: Any, q: Any) -> list[Any]:
    if is_linear(a) or is_linear(b):
        raise not_linear("sylvester")
    return [None, None, sylvester(mT(a), mT(b), ct)]


# x with a x + x b = q, for stacks (..., n, n), (..., m, m), (..., n, m).
sylvester = stacked(
    "sylvester", _sylvester_impl, _sylvester_abstract, _sylvester_jvp, transpose=_sylvester_transpose
)
# The principal square root of matrices (..., n, n).
sqrtm = stacked(
    "sqrtm",
    _root_value("sqrtm"),
    _square("sqrtm"),
    lambda tangents, out, a: sylvester(out, out, tangents[0]),
    asserts=True,
)


def _polar_abstract(a: Aval) -> Aval:
    if a.ndim < 2 or a.shape[-2] < a.shape[-1]:
        raise ValueError(f"polar_unitary: expected matrices with at least as many rows as columns, got {a}")
    return Aval(a.shape, a.dtype)


def _polar_impl(xp: Any, a: Any) -> Any:
    if not a.size:
        return a
    u, _, vh = of_finite(xp, lambda a: xp.linalg.svd(a, full_matrices=False), a)
    return xp.matmul(u, vh)


def _polar_jvp(tangents: Sequence[Any], u: Any, a: Any) -> Any:
    """With a = u p: du = u w + (1 - u u^H) t p^-1, where p w + w p = u^H t - t^H u; simple even where singular values meet."""
    (t,) = tangents
    p, within = matmul(mH(u), a), matmul(mH(u), t)
    turned = matmul(u, sylvester(p, p, sub(within, mH(within))))
    if shape_of(a)[-2] == shape_of(a)[-1]:
        return turned
    outside = sub(t, matmul(u, within))
    return add(turned, mT(solve(mT(p), mT(outside))))


# The factor u with orthonormal columns of a = u p, p = (a^H a)^(1/2), for a of full column rank.
polar_unitary = stacked("polar_unitary", _polar_impl, _polar_abstract, _polar_jvp)
