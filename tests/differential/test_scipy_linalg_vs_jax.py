"""funcad.scipy.linalg and sparse.linalg against jax.scipy: values and vjp. One line per case, run by both.

Matrices of which one triangle is read are made Hermitian first: the two libraries spread their gradients differently.
"""

from __future__ import annotations

import numpy as np
import pytest

import funcad
import funcad.scipy.linalg
import funcad.scipy.optimize
import funcad.scipy.sparse.linalg
from funcad import tree

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")
jnp = jax.numpy
import jax.scipy.linalg  # noqa: E402
import jax.scipy.optimize  # noqa: E402
import jax.scipy.sparse.linalg  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

rng = np.random.default_rng(0)
A = rng.normal(size=(4, 4)) + 4 * np.eye(4)
C = A + 1j * rng.normal(size=(4, 4))
B = rng.normal(size=(4, 2))
CB = B + 1j * rng.normal(size=(4, 2))
V = rng.normal(size=4)
S = A @ A.T + np.eye(4)
H = C @ C.conj().T + np.eye(4)


def hermitian(x):
    return (x + x.conj().T) / 2


CASES = {}
for label, a, b, h in (("real", A, B, S), ("complex", C, CB, H)):
    for name, f, args in [
        ("expm", lambda m, x: m.expm(x), (a / 4,)),
        ("inv", lambda m, x: m.inv(x), (a,)),
        ("det", lambda m, x: m.det(x), (a,)),
        ("solve", lambda m, x, y: m.solve(x, y), (a, b)),
        ("solve pos", lambda m, x, y: m.solve(hermitian(x), y, assume_a="pos"), (h, b)),
        ("lu", lambda m, x: m.lu(x)[1:], (a,)),
        ("lu permuted", lambda m, x: m.lu(x, permute_l=True), (a,)),
        ("cholesky", lambda m, x: m.cholesky(hermitian(x)), (h,)),
        ("cholesky lower", lambda m, x: m.cholesky(hermitian(x), lower=True), (h,)),
        ("cho_solve", lambda m, x, y: m.cho_solve(m.cho_factor(hermitian(x)), y), (h, b)),
        ("eigh", lambda m, x: m.eigh(hermitian(x))[0], (h,)),
        ("svd", lambda m, x: m.svd(x, compute_uv=False), (a,)),
        ("qr", lambda m, x: tuple(m.qr(x)), (a,)),
        ("block_diag", lambda m, x, y: m.block_diag(x, y), (a, b)),
        ("toeplitz", lambda m, x: m.toeplitz(x[0]), (a,)),
        ("toeplitz both", lambda m, x: m.toeplitz(x[0], x[1, :2]), (a,)),
    ]:
        CASES[f"{name} {label}"] = (f, args)
    for trans in (0, 1, 2):
        CASES[f"lu_solve {trans} {label}"] = (lambda m, x, y, t=trans: m.lu_solve(m.lu_factor(x), y, trans=t), (a, b))
        for lower in (False, True):
            for unit in (False, True):
                f = lambda m, x, y, o={"trans": trans, "lower": lower, "unit_diagonal": unit}: m.solve_triangular(x, y, **o)
                CASES[f"solve_triangular {trans} {lower} {unit} {label}"] = (f, (a, b))
del CASES["solve pos complex"]  # jax 0.10's gradient contradicts its own for assume_a="gen", and central differences
CASES["polar"] = (lambda m, x: tuple(m.polar(x, **({"method": "svd"} if m is jax.scipy.linalg else {}))), (A,))
CASES["expm_frechet"] = (lambda m, x, e: tuple(m.expm_frechet(x, e)), (A / 4, A))
CASES["hankel"] = (lambda m, x: m.hankel(x), (V,))
CASES["circulant"] = (lambda m, x: m.circulant(x), (V,))
CASES["companion"] = (lambda m, x: m.companion(x), (V,))
CASES["leslie"] = (lambda m, x, s: m.leslie(x, s), (V, V[:3]))
CASES["fiedler"] = (lambda m, x: m.fiedler(x), (V,))
CASES["convolution_matrix"] = (lambda m, x: m.convolution_matrix(x, 3, "same"), (V,))

SOLVERS = {
    name: (lambda m, x, y, name=name: getattr(m, name)(x, y, tol=1e-13)[0], (S if name == "cg" else A, V))
    for name in ("cg", "bicgstab", "gmres")
}


def compare(f, own, theirs, args, rtol):
    out, pull = funcad.vjp(lambda *xs: f(own, *xs), *args)
    expected, jax_pull = jax.vjp(lambda *xs: f(theirs, *xs), *args)
    for x, y in zip(tree.leaves(out), jax.tree.leaves(expected), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)
    cts = []
    for y in jax.tree.leaves(expected):
        ct = rng.normal(size=y.shape)
        cts.append(np.asarray(ct + 1j * rng.normal(size=y.shape) if y.dtype.kind == "c" else ct, y.dtype)[()])
    found = pull(tree.structure(out).unflatten(cts))
    wanted = jax_pull(jax.tree.unflatten(jax.tree.structure(expected), [jnp.asarray(c) for c in cts]))
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * (1 + float(np.abs(y).max())))


@pytest.mark.parametrize("name", CASES)
def test_linalg(name):
    f, args = CASES[name]
    compare(f, funcad.scipy.linalg, jax.scipy.linalg, args, 1e-9)


@pytest.mark.parametrize("name", SOLVERS)
def test_sparse_linalg(name):
    f, args = SOLVERS[name]
    compare(f, funcad.scipy.sparse.linalg, jax.scipy.sparse.linalg, args, 1e-7)


def test_minimize_finds_the_same_minimum():
    f = lambda x: ((x - 1.5) ** 2).sum() + (x**4).sum() + x[0] * x[1]
    own = funcad.scipy.optimize.minimize(f, np.zeros(2), method="BFGS")
    theirs = jax.scipy.optimize.minimize(f, jnp.zeros(2), method="BFGS")
    np.testing.assert_allclose(own.x, theirs.x, rtol=1e-4)


def test_eigenvectors_of_degenerate_pairs_are_nan_as_jaxs():
    a = np.diag([1.0, 1.0, 2.0])
    used = lambda m: lambda x: (m.eigh(x)[1][:, 0] * np.arange(3.0)).sum()
    own, theirs = funcad.grad(used(funcad.scipy.linalg))(a), jax.grad(used(jax.scipy.linalg))(a)
    assert np.isnan(own).any() and np.isnan(theirs).any()
