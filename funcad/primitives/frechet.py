"""Functions of matrices: expm, logm, sqrtm, the Sylvester equation, the unitary polar factor.

Idea: the derivative of f at A along E is the upper right block of f([[A, E], [0, A]]) (the Fréchet derivative), which is right
and finite whether or not eigenvalues coincide. It is a primitive of its own, `expm_linear` and `logm_linear`, linear in E;
its transpose is L(A, .)^T = L(A^T, .), and its own derivative in A is the same primitive on [[A, E], [0, A]], so every order
exists. The derivative of sqrtm solves the Sylvester equation X L + L X = E. All take stacks of square matrices.

Traps: E is scaled to the size of A first, otherwise a large E costs digits of A's function. A real matrix whose square root or
logarithm is complex raises: the dtype of a result must not depend on values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, shape_of
from funcad.ir.primitive import Primitive, is_linear, not_linear
from funcad.primitives.arithmetic import add, neg, sub
from funcad.primitives.basic_indexing import static_slice
from funcad.primitives.contraction import matmul
from funcad.primitives.families import avals_text, native_order, sum_tangents
from funcad.primitives.linear_systems import mH, mT, of_finite, solve, square_aval, stacked
from funcad.primitives.matrices import each, finite_only, linalg_of, placed

__all__ = [
    "expm",
    "expm_linear",
    "logm",
    "logm_linear",
    "sqrtm",
    "sylvester",
    "polar_unitary",
]


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
    value_p = stacked(name, value, _square(name), lambda tangents, out, a: linear_p(a, tangents[0]))
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
    "sqrtm", _root_value("sqrtm"), _square("sqrtm"), lambda tangents, out, a: sylvester(out, out, tangents[0])
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
