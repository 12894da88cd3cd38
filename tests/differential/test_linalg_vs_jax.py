"""funcad.numpy.linalg beside jax.numpy.linalg (x64): values, tangents and cotangents, real and complex.

Vectors are compared up to their phases. What JAX does not differentiate (eigenvectors of `eig`, full matrices of `svd` and
`qr` of rectangular matrices) is checked against differences in tests/surface.
"""

from __future__ import annotations

import numpy as np
import pytest

import funcad
import funcad.numpy as fnp

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

RNG = np.random.default_rng(3)


def matrix(*shape, complex_=False):
    x = RNG.normal(size=shape) + 2 * np.eye(*shape[-2:])
    return x + 1j * RNG.normal(size=shape) if complex_ else x


def columns(m, v):
    return v * m.conj(v[..., :1, :])


def eigh(m):
    def f(a):
        w, v = m.linalg.eigh(a)
        return [w, columns(m, v)]

    return f


def svd(m):
    def f(a):
        u, s, vh = m.linalg.svd(a, full_matrices=False)
        return [columns(m, u), s, m.swapaxes(m.conj(vh), -1, -2) * m.conj(u[..., :1, :])]

    return f


def hermitian(x):
    return x @ np.conj(np.swapaxes(x, -1, -2)) / 2 + np.eye(x.shape[-1])


CASES = []
for kind in (False, True):
    A, STACK, TALL = matrix(3, 3, complex_=kind), matrix(2, 3, 3, complex_=kind), matrix(4, 2, complex_=kind)
    WIDE, B, V = matrix(2, 4, complex_=kind), matrix(3, 2, complex_=kind), RNG.normal(size=3) + (1j if kind else 0)
    H, HS, BATCH = hermitian(A), hermitian(STACK), matrix(2, 3, 2, complex_=kind)
    new = [
        ("solve", lambda m: m.linalg.solve, (A, B)),
        ("solve-vector", lambda m: m.linalg.solve, (A, V)),
        ("solve-stack", lambda m: m.linalg.solve, (STACK, BATCH)),
        ("inv", lambda m: m.linalg.inv, (STACK,)),
        ("det", lambda m: m.linalg.det, (STACK,)),
        ("slogdet", lambda m: lambda a: list(m.linalg.slogdet(a)), (STACK,)),
        ("cholesky", lambda m: m.linalg.cholesky, (HS,)),
        ("cholesky-upper", lambda m: lambda a: m.linalg.cholesky(a, upper=True), (H,)),
        ("logdet", lambda m: lambda a: m.sum(m.log(m.real(m.diagonal(m.linalg.cholesky(a))))), (H,)),
        ("qr", lambda m: lambda a: list(m.linalg.qr(a)), (TALL,)),
        ("qr-r", lambda m: lambda a: m.linalg.qr(a, mode="r"), (STACK,)),
        ("eigh", eigh, (HS,)),
        ("eigvalsh", lambda m: m.linalg.eigvalsh, (HS,)),
        ("svd", svd, (STACK,)),
        ("svd-tall", svd, (TALL,)),
        ("svd-wide", svd, (WIDE,)),
        ("svdvals", lambda m: lambda a: m.linalg.svd(a, compute_uv=False), (WIDE,)),
        ("pinv-tall", lambda m: m.linalg.pinv, (TALL,)),
        ("pinv-wide", lambda m: m.linalg.pinv, (WIDE,)),
        ("lstsq", lambda m: lambda a, b: m.linalg.lstsq(a, b)[0], (TALL, TALL[:, :1] * 0.3)),
        ("matrix_power", lambda m: lambda a: m.linalg.matrix_power(a, -3), (A,)),
        ("cond", lambda m: m.linalg.cond, (A,)),
        ("cond-1", lambda m: lambda a: m.linalg.cond(a, 1), (A,)),
        ("multi_dot", lambda m: lambda a, b: m.linalg.multi_dot([a, b, a[:2]]), (A, B)),
        ("eigvals", lambda m: lambda a: m.real(m.sum(m.linalg.eigvals(a) ** 3)), (A,)),
        ("norm-vector", lambda m: m.linalg.norm, (V,)),
    ]
    new += [(f"norm-{p}", lambda m, p=p: lambda a: m.linalg.norm(a, p), (A,)) for p in ("fro", "nuc", 1, -1, 2, -2, np.inf)]
    new += [(f"vector-{p}", lambda m, p=p: lambda a: m.linalg.norm(a, p), (V,)) for p in (1, 3, 2.5, np.inf, -np.inf)]
    CASES += [(f"{name}{'-complex' if kind else ''}", build, args) for name, build, args in new]
CASES += [
    ("tensorinv", lambda m: lambda a: m.linalg.tensorinv(a, 1), (matrix(6, 6).reshape(6, 3, 2),)),
    ("tensorsolve", lambda m: m.linalg.tensorsolve, (matrix(6, 6).reshape(2, 3, 6), matrix(2, 3))),
    ("polyfit", lambda m: lambda x, y: m.polyfit(x, y, 2), (RNG.normal(size=6), RNG.normal(size=6))),
    ("roots", lambda m: lambda p: m.real(m.sum(m.roots(p) ** 3)), (RNG.normal(size=4),)),
    ("poly", lambda m: m.poly, (RNG.normal(size=4),)),
]


def flat(out):
    return list(out) if isinstance(out, (list, tuple)) else [out]


@pytest.mark.parametrize("build, args", [pytest.param(build, args, id=name) for name, build, args in CASES])
def test_value_and_derivatives(build, args):
    mine, theirs = build(fnp), build(jax.numpy)
    rng = np.random.default_rng(1)

    def draw(x):
        x = np.asarray(x)
        t = rng.normal(size=x.shape) + (1j * rng.normal(size=x.shape) if x.dtype.kind == "c" else 0)
        return np.asarray(t, x.dtype)

    ts = tuple(draw(x) for x in args)
    out, tangents = funcad.jvp(lambda *xs: flat(mine(*xs)), args, ts)
    jout, jtangents = jax.jvp(lambda *xs: flat(theirs(*xs)), tuple(map(jax.numpy.asarray, args)), ts)
    cts = [draw(o) for o in jout]
    found = funcad.vjp(lambda *xs: flat(mine(*xs)), *args)[1]([c if np.ndim(o) else c[()] for c, o in zip(cts, out)])
    expected = jax.vjp(lambda *xs: flat(theirs(*xs)), *args)[1]([jax.numpy.asarray(c) for c in cts])
    for a, b in zip([*out, *tangents, *found], [*jout, *jtangents, *expected]):
        b = np.asarray(b)
        assert np.shape(a) == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8 * max(1.0, np.abs(b).max(initial=0)))
