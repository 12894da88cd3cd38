"""Linear algebra by jax.numpy.linalg and lax.linalg, on stacks of matrices. What LAPACK reports is NaN here.

Eigenvectors, singular vectors and orthogonal factors are those of XLA's libraries: on a CPU LAPACK's, as NumPy's, elsewhere
with other signs or phases. `eig` and the Schur form exist on CPUs alone, as in JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.backends.export.xla_program import NUMPY, Cell, as_dtype, jax, jnp, lax, linalg, rule
from funcad.backends.plans.element_plan import Unsupported
from funcad.ir.jaxpr import Equation
from funcad.primitives.linear_systems import products_but


def each(f: Callable[..., Any], *stacks: Any) -> Any:
    """f of each matrix of the stacks, whose leading axes are equal."""
    for _ in range(stacks[0].ndim - 2):
        f = jax.vmap(f)
    return f(*stacks)


def _adjoint(x: Any) -> Any:
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def _or_nan(x: Any) -> Any:
    """x, NaN in all of a matrix that is not finite."""
    return jnp.where(jnp.isfinite(x).all((-2, -1), keepdims=True), x, np.nan)


def _triangular(a: Any, b: Any, *, lower: bool, transposed: bool = False, unit_diagonal: bool = False) -> Any:
    return lax.linalg.triangular_solve(
        a, b, left_side=True, lower=lower, transpose_a=transposed, unit_diagonal=unit_diagonal
    )


@rule("triangular_solve")
def _triangular_solve(equation: Equation, values: list, **params: Any) -> Any:
    return _triangular(*values, **params) if values[1].size else values[1]


@rule("triangular_inverse")
def _triangular_inverse(equation: Equation, values: list, *, lower: bool) -> Any:
    (a,) = values
    if not a.size:
        return a
    found = _or_nan(_triangular(a, jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape), lower=lower))
    return jnp.tril(found) if lower else jnp.triu(found)


@rule("solve")
def _solve(equation: Equation, values: list) -> Any:
    return jnp.linalg.solve(*values) if values[1].size else values[1]


@rule("inv")
def _inv(equation: Equation, values: list, *, strict: bool) -> Any:
    return _or_nan(jnp.linalg.inv(values[0])) if values[0].size else values[0]


@rule("lu")
def _lu(equation: Equation, values: list) -> Any:
    return lax.linalg.lu(values[0])


@rule("pivot_permutation")
def _pivot_permutation(equation: Equation, values: list) -> Any:
    return lax.linalg.lu_pivots_to_permutation(values[0].astype(np.int32), values[0].shape[-1])


@rule("factored_solve")
def _factored_solve(equation: Equation, values: list, *, transposed: bool) -> Any:
    a, b, factors, pivots = values
    if not b.size:
        return b
    order = lax.linalg.lu_pivots_to_permutation(pivots, a.shape[-1])
    if not transposed:
        b = jnp.take_along_axis(b, order[..., None], -2)
        x = _triangular(factors, b, lower=True, unit_diagonal=True)
        return _triangular(factors, x, lower=False)
    x = _triangular(factors, b, lower=False, transposed=True)
    x = _triangular(factors, x, lower=True, transposed=True, unit_diagonal=True)
    return jnp.take_along_axis(x, jnp.argsort(order, -1)[..., None], -2)


@rule("det")
def _det(equation: Equation, values: list) -> Any:
    return jnp.linalg.det(values[0])


@rule("slogdet")
def _slogdet(equation: Equation, values: list) -> Any:
    return jnp.linalg.slogdet(values[0])


@rule("log_abs_det")
def _log_abs_det(equation: Equation, values: list) -> Any:
    return jnp.linalg.slogdet(values[0])[1]


# The adjugate and its derivative by singular values, which divide by nothing, so that they hold for singular matrices too.


def _parts(a: Any) -> tuple[Any, Any, Any, list[Any]]:
    u, s, vh = jnp.linalg.svd(a)
    sign = (jnp.linalg.det(u) * jnp.linalg.det(vh))[..., None, None]
    return sign, u, vh, [x.value for x in products_but(NUMPY, Cell(s))]


@rule("adjugate")
def _adjugate(equation: Equation, values: list) -> Any:
    (a,) = values
    if not a.size:
        return a
    sign, u, vh, (single, _) = _parts(a)
    return (sign * _adjoint(vh) * single[..., None, :]) @ _adjoint(u)


@rule("adjugate_linear")
def _adjugate_linear(equation: Equation, values: list) -> Any:
    t, a = values
    if not a.size:
        return a
    sign, u, vh, (_, pairs) = _parts(a)
    m = _adjoint(u) @ t @ _adjoint(vh)
    on = (pairs @ jnp.diagonal(m, 0, -2, -1)[..., None])[..., 0]
    out = jnp.where(jnp.eye(a.shape[-1], dtype=bool), on[..., None, :], -pairs * m)
    return sign * (_adjoint(vh) @ out @ _adjoint(u))


@rule("cholesky")
def _cholesky(equation: Equation, values: list) -> Any:
    return jnp.tril(lax.linalg.cholesky(values[0], symmetrize_input=False)) if values[0].size else values[0]


@rule("qr")
def _qr(equation: Equation, values: list, *, full: bool) -> Any:
    return jnp.linalg.qr(values[0], "complete" if full else "reduced")


@rule("qr_raw")
def _qr_raw(equation: Equation, values: list) -> Any:
    return jnp.linalg.qr(values[0], "raw")


@rule("svd")
def _svd(equation: Equation, values: list, *, full_matrices: bool) -> Any:
    return jnp.linalg.svd(values[0], full_matrices=full_matrices)


@rule("svdvals")
def _svdvals(equation: Equation, values: list) -> Any:
    return jnp.linalg.svd(values[0], compute_uv=False)


@rule("nuclear_norm")
def _nuclear_norm(equation: Equation, values: list) -> Any:
    return jnp.linalg.svd(values[0], compute_uv=False).sum(-1)


@rule("polar", "polar_unitary")
def _polar(equation: Equation, values: list) -> Any:
    (a,) = values
    if not a.size:
        return a
    u, s, vh = jnp.linalg.svd(a, full_matrices=False)
    return (u * (s > 0)[..., None, :] if equation.primitive.name == "polar" else u) @ vh


@rule("pinv")
def _pinv(equation: Equation, values: list, *, hermitian: bool, truncates: bool) -> Any:
    a, cut = values
    if not a.size:
        return jnp.zeros(equation.outputs[0].aval.shape, a.dtype)
    return jnp.linalg.pinv(a, jnp.broadcast_to(cut, a.shape[:-2]), hermitian=hermitian)


@rule("stein")
def _stein(equation: Equation, values: list) -> Any:
    f, g, r = values
    if not r.size:
        return r
    (w, u), (z, v) = jnp.linalg.eigh(f), jnp.linalg.eigh(g)
    return u @ (_adjoint(u) @ r @ v / (1 - w[..., :, None] * z[..., None, :])) @ _adjoint(v)


@rule("lstsq")
def _lstsq(equation: Equation, values: list, *, rcond: float) -> Any:
    a, b = values
    if not (a.size and b.size):
        return jnp.zeros(equation.outputs[0].aval.shape, a.dtype)
    u, s, vh = jnp.linalg.svd(a, full_matrices=False)
    limit = (np.finfo(a.dtype).eps * max(a.shape[-2:]) if rcond is None else rcond) * s[..., :1]
    inverse = jnp.where(s > limit, 1 / jnp.where(s > limit, s, 1), 0)
    return _adjoint(vh) @ (inverse[..., None] * (_adjoint(u) @ b))


@rule("eigh")
def _eigh(equation: Equation, values: list, *, lower: bool, by: tuple) -> Any:
    return jnp.linalg.eigh(values[0], "L" if lower else "U", symmetrize_input=False)


@rule("eigvalsh")
def _eigvalsh(equation: Equation, values: list, *, lower: bool) -> Any:
    return jnp.linalg.eigh(values[0], "L" if lower else "U", symmetrize_input=False)[0]


@rule("eig")
def _eig(equation: Equation, values: list) -> Any:
    return jnp.linalg.eig(values[0])


@rule("schur")
def _schur(equation: Equation, values: list) -> Any:
    (a,) = values
    return each(lambda a: linalg.schur(a, output="complex" if a.dtype.kind == "c" else "real"), a) if a.size else [a, a]


@rule("triangular_only")
def _triangular_only(equation: Equation, values: list) -> Any:
    """A real Schur form with blocks has no derivative: NaN."""
    (t,) = values
    if t.dtype.kind == "c":
        return t
    blocks = (jnp.diagonal(t, -1, -2, -1) != 0).any(-1)[..., None, None]
    return jnp.where(blocks, np.nan, t)


# -- functions of matrices


@rule("expm")
def _expm(equation: Equation, values: list) -> Any:
    return each(linalg.expm, values[0]) if values[0].size else values[0]


@rule("expm_linear")
def _expm_linear(equation: Equation, values: list) -> Any:
    a, e = values
    return each(lambda a, e: jax.jvp(linalg.expm, (a,), (e,))[1], a, e) if a.size else a


@rule("sqrtm")
def _sqrtm(equation: Equation, values: list) -> Any:
    """NaN where the root of a real matrix is complex."""
    (a,) = values
    if not a.size:
        return a
    found = each(linalg.sqrtm, a)
    if a.dtype.kind == "c" or found.dtype.kind != "c":
        return found
    bound = 1e3 * np.finfo(a.dtype).eps * jnp.maximum(jnp.abs(found).max((-2, -1), keepdims=True), 1)
    return jnp.where(jnp.abs(found.imag).max((-2, -1), keepdims=True) > bound, np.nan, found.real)


@rule("sylvester")
def _sylvester(equation: Equation, values: list) -> Any:
    dtype = values[2].dtype
    return as_dtype(each(linalg.solve_sylvester, *values), dtype) if values[2].size else values[2]


# -- band matrices: of three diagonals by XLA's solver; of more as whole matrices, which costs n^2 numbers


@rule("banded_solve")
def _banded_solve(equation: Equation, values: list, *, lower: int, upper: int, positive: bool) -> Any:
    ab, b = values
    n = ab.shape[-1]
    if not b.size:
        return b
    if n > _WIDEST:
        raise Unsupported(f"a band matrix of {n} columns: as a whole matrix it would be too large")
    whole = jnp.zeros((*ab.shape[:-2], n, n), ab.dtype)
    for row, k in enumerate(range(-upper, lower + 1)):
        count = n - abs(k)
        if count > 0:
            i, j = np.arange(count) + max(k, 0), np.arange(count) + max(-k, 0)
            whole = whole.at[..., i, j].set(ab[..., row, max(-k, 0) : max(-k, 0) + count])
    return jnp.linalg.solve(whole, b)


_WIDEST = 4096
