"""Users' programs with unchanged imports: `import math, numpy as np, scipy.special ...`, and not a word of funcad inside.

Each is a function of one array with a scalar result. Its value is NumPy's; its gradient, un-jitted, jitted and forward, is
that of differences and that of the same program in funcad's spelling, where there is one.
"""

from __future__ import annotations

import functools
import math
from math import sqrt as by_name_sqrt  # noqa: F401 not to be reached: see test_door_messages.py

import numpy as np
import pytest
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.sparse
import scipy.sparse.linalg
import scipy.special
import scipy.stats
from scipy.linalg import expm, solve
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import norm

import funcad
import funcad.numpy as fnp
from funcad import scipy as fs
from funcad.host import conversions

X = np.array([0.3, 1.2, 0.7])
NODES = np.linspace(0.0, 3.0, 7)
SPLINE = scipy.interpolate.CubicSpline(NODES, np.sin(NODES))  # made before any trace
B_SPLINE = scipy.interpolate.make_interp_spline(NODES, np.stack([np.sin(NODES), np.cos(NODES)], axis=1))
LINEAR = scipy.interpolate.interp1d(NODES, np.sin(NODES), kind="cubic", bounds_error=False)
GRID = scipy.interpolate.RegularGridInterpolator((NODES, NODES), np.outer(np.sin(NODES), np.cos(NODES)), bounds_error=False)
FROZEN = norm(0.5, 2.0)
A = scipy.sparse.random(4, 3, 0.6, random_state=0, format="csr")
B = scipy.sparse.coo_matrix(([1.0, 2.0, 3.0, 4.0], ([0, 1, 1, 2], [0, 1, 1, 2])), shape=(3, 3))  # an entry twice
OPERATOR = scipy.sparse.linalg.aslinearoperator(B)
K = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.0]])


def rotation(x):
    c, s = math.cos(x[0]), math.sin(x[0])
    return (np.array([[c, -s], [s, c]]) @ x[:2]).sum() + x[2]


def haversine(x):
    h = math.sin(x[0] / 2) ** 2 + math.cos(x[1]) * math.cos(x[2]) * math.sin(x[1] / 2) ** 2
    return 2 * math.asin(math.sqrt(h)) + math.atan2(x[0], x[1]) + math.hypot(*x)


def black_scholes(x):
    s, k, t = x + 1.0
    d = (math.log(s / k) + (0.05 + 0.02) * t) / (0.2 * math.sqrt(t))
    return s * 0.5 * (1 + math.erf(d / math.sqrt(2))) - k * math.exp(-0.05 * t)


def collected(x):
    rows = []
    for v in x:
        rows.append([v, v * v, 1.0])
    return np.linalg.det(np.array(rows) + np.eye(3)) + np.asarray(rows)[:, 1].sum()


def library(x):
    """As libraries begin: whatever comes in becomes an array."""
    x = np.asarray(x, dtype=float)
    x = np.atleast_1d(np.ascontiguousarray(x))
    return np.dot(x, np.asfortranarray(x)) + np.asanyarray(x)[0]


def elementwise(x):
    return np.vectorize(lambda v: v * v + 1.0)(x).sum()


def elementwise_if(x):
    return np.vectorize(lambda v: v * v if v > 0.5 else 3 * v)(x).sum()


def with_two(x):
    return np.vectorize(lambda v, w=2.0: v * w, excluded=["w"])(x, w=3.0).sum()


def importing(x):
    from scipy.special import softmax

    return (softmax(x) * np.arange(3.0)).sum()


def oscillator(x):
    solution = scipy.integrate.solve_ivp(
        lambda t, y: [y[1], -x[0] * y[0]], (0.0, 1.0), [1.0, 0.0], t_eval=[1.0], rtol=1e-9, atol=1e-9
    )
    return solution.y[0, -1]


def decay(x):
    return scipy.integrate.odeint(lambda y, t: -x[0] * y, x[1], np.array([0.0, 0.5, 1.0]), rtol=1e-9, atol=1e-9)[-1, 0]


def fitted(x):
    return scipy.interpolate.CubicSpline(np.arange(3.0), x)(1.3)


def spread(x):
    return scipy.stats.multivariate_normal(np.zeros(3), np.diag(x)).logpdf(np.ones(3))


def log_likelihood(x):
    data = np.array([0.1, 0.9, 2.3])
    return norm.logpdf(data, loc=x[0], scale=x[1]).sum() + scipy.stats.gamma.logpdf(data, x[2]).sum()


def nearest(x):
    return scipy.optimize.minimize(lambda v: np.sum((v - x) ** 2), np.zeros(3), tol=1e-10).x @ np.arange(3.0)


# name, the program, the same in funcad's spelling or None
PROGRAMS = [
    ("array", lambda x: np.array([x[0], 2.0 * x[1], 1.0]).prod(), lambda x: fnp.array([x[0], 2.0 * x[1], 1.0]).prod()),
    ("array of arrays", lambda x: (np.array([x, x * x]) ** 2).sum(), lambda x: (fnp.array([x, x * x]) ** 2).sum()),
    ("array of a tuple", lambda x: np.array((x[0], 3)).sum() * x[1], None),
    ("array with options", lambda x: np.array(x, dtype=float, copy=True, ndmin=2)[0, 1], None),
    ("rotation", rotation, None),
    ("haversine", haversine, None),
    ("black_scholes", black_scholes, None),
    ("collected", collected, None),
    ("library", library, None),
    ("full", lambda x: np.full((2, 2), x[0]).sum() * x[1], lambda x: fnp.full((2, 2), x[0]).sum() * x[1]),
    ("r_", lambda x: (np.r_[x, 1.0, x[0]] ** 2).sum(), lambda x: (fnp.r_[x, 1.0, x[0]] ** 2).sum()),
    ("c_", lambda x: (np.c_[x, x * x] @ np.ones(2)).prod(), lambda x: (fnp.c_[x, x * x] @ np.ones(2)).prod()),
    ("fromiter", lambda x: np.fromiter((v * v for v in x), dtype=float, count=3).sum(), None),
    ("vectorize", elementwise, None),
    ("vectorize with excluded", with_two, None),
    ("logsumexp by name", lambda x: logsumexp(x), fs.special.logsumexp),
    ("logsumexp", lambda x: scipy.special.logsumexp(x, b=np.ones(3)), None),
    ("softmax imported inside", importing, lambda x: (fs.special.softmax(x) * np.arange(3.0)).sum()),
    ("log_softmax", lambda x: scipy.special.log_softmax(x)[1], lambda x: fs.special.log_softmax(x)[1]),
    ("polygamma", lambda x: scipy.special.polygamma(1, x).sum(), lambda x: fs.special.polygamma(1, x).sum()),
    ("multigammaln", lambda x: scipy.special.multigammaln(x[1] + 2.0, 2), None),
    ("zeta", lambda x: scipy.special.zeta(x + 2.0).sum(), None),
    ("expm by name", lambda x: expm(np.diag(x) + 0.1).sum(), lambda x: fs.linalg.expm(np.diag(x) + 0.1).sum()),
    ("expm of a list", lambda x: scipy.linalg.expm([[x[0], x[1]], [0.0, x[2]]])[0, 1], None),
    ("solve by name", lambda x: solve(K, x).sum(), lambda x: fs.linalg.solve(K, x).sum()),
    ("solve a traced matrix", lambda x: scipy.linalg.solve(K + np.diag(x), np.ones(3), assume_a="pos").sum(), None),
    ("cholesky", lambda x: np.log(np.diag(scipy.linalg.cholesky(K + np.diag(x), lower=True))).sum(), None),
    ("cho_solve", lambda x: scipy.linalg.cho_solve(scipy.linalg.cho_factor(K + np.diag(x)), x).sum(), None),
    ("lu_factor", lambda x: scipy.linalg.lu_solve(scipy.linalg.lu_factor(K + np.diag(x)), x).sum(), None),
    ("sqrtm", lambda x: scipy.linalg.sqrtm(K + np.diag(x)).sum(), None),
    ("logm", lambda x: np.real(scipy.linalg.logm(K + np.diag(x)).sum()), None),
    ("eigvalsh", lambda x: scipy.linalg.eigvalsh(K + np.diag(x))[0], None),
    ("toeplitz", lambda x: (scipy.linalg.toeplitz(x) @ np.arange(3.0)).sum(), None),
    ("block_diag", lambda x: scipy.linalg.block_diag(x[:2], x[2]).sum() ** 2, None),
    ("solve_triangular", lambda x: scipy.linalg.solve_triangular(np.tril(K + np.diag(x)), x, lower=True).sum(), None),
    ("log_likelihood", log_likelihood, None),
    ("logpdf", lambda x: scipy.stats.t.logpdf(x, 3.0).sum(), lambda x: fs.stats.t.logpdf(x, 3.0).sum()),
    ("pdf", lambda x: scipy.stats.beta.pdf(x / 2, 2.0, 3.0).sum(), None),
    ("cdf", lambda x: norm.cdf(x, 0.2, 1.5).sum(), lambda x: fs.stats.norm.cdf(x, 0.2, 1.5).sum()),
    ("ppf", lambda x: norm.ppf(x / 2).sum(), lambda x: fs.stats.norm.ppf(x / 2).sum()),
    ("pmf", lambda x: scipy.stats.poisson.logpmf(3, x).sum(), lambda x: fs.stats.poisson.logpmf(3, x).sum()),
    ("frozen outside", lambda x: FROZEN.logpdf(x).sum() + FROZEN.cdf(x).sum(), None),
    ("frozen inside", lambda x: norm(x[0], x[1]).logpdf(x[2]), lambda x: fs.stats.norm(x[0], x[1]).logpdf(x[2])),
    ("multivariate_normal", lambda x: scipy.stats.multivariate_normal.logpdf(x, np.zeros(3), K), None),
    ("multivariate_normal frozen", spread, None),
    ("dirichlet", lambda x: scipy.stats.dirichlet.logpdf(np.array([0.2, 0.3, 0.5]), x), None),
    ("rfft", lambda x: (np.abs(scipy.fft.rfft(x)) ** 2).sum(), lambda x: (np.abs(fs.fft.rfft(x)) ** 2).sum()),
    ("dct", lambda x: (scipy.fft.dct(x, norm="ortho") * np.arange(3.0)).sum(), None),
    ("fftshift", lambda x: scipy.fft.fftshift(x)[0] ** 2, None),
    ("fftconvolve", lambda x: scipy.signal.fftconvolve(x, np.arange(4.0))[2], None),
    ("lfilter", lambda x: scipy.signal.lfilter([1.0, x[0]], [1.0, 0.5], x).sum(), None),
    ("savgol_filter", lambda x: scipy.signal.savgol_filter(np.r_[x, x, x], 5, 2)[4], None),
    ("gaussian_filter", lambda x: scipy.ndimage.gaussian_filter(x, 1.0)[0], lambda x: fs.ndimage.gaussian_filter(x, 1.0)[0]),
    ("map_coordinates", lambda x: scipy.ndimage.map_coordinates(np.outer(X, X), [x[:2], x[1:]], order=1).sum(), None),
    ("spline outside", lambda x: SPLINE(x).sum() + SPLINE(x, 1).sum() + SPLINE.integrate(0.1, x[0]), None),
    ("derivative of a spline", lambda x: SPLINE.derivative()(x).sum(), None),
    ("spline inside", fitted, lambda x: fs.interpolate.CubicSpline(np.arange(3.0), x)(1.3)),
    ("pchip inside", lambda x: scipy.interpolate.PchipInterpolator(np.arange(3.0), x)([0.4, 1.3]).sum(), None),
    ("b-spline outside", lambda x: B_SPLINE(x).sum(), None),
    ("interp1d outside", lambda x: LINEAR(x).sum(), None),
    ("interp1d inside", lambda x: scipy.interpolate.interp1d(np.arange(3.0), x)(1.3), None),
    ("grid outside", lambda x: GRID(np.stack([x, x[::-1]], axis=-1)).sum(), None),
    ("trapezoid", lambda x: scipy.integrate.trapezoid(x * x, dx=0.5), None),
    ("simpson", lambda x: scipy.integrate.simpson(x * x, dx=0.5), None),
    ("quad of a closure", lambda x: scipy.integrate.quad(lambda t: np.exp(-x[0] * t), 0.0, 1.0)[0] * x[1], None),
    ("quad with args", lambda x: scipy.integrate.quad(lambda t, a: a * t, 0.0, x[1], args=(x[0],))[0], None),
    ("solve_ivp", oscillator, None),
    ("odeint", decay, None),
    ("brentq by name", lambda x: brentq(lambda v: v**3 - x[0] - 1.0, 0.0, 3.0), None),
    ("newton", lambda x: scipy.optimize.newton(lambda v: v * v - x[1], 1.0), None),
    ("root", lambda x: scipy.optimize.root(lambda v: v**3 + v - x, np.ones(3), tol=1e-12).x.sum(), None),
    ("minimize", nearest, None),
    ("sparse @", lambda x: ((A @ x) ** 2).sum(), lambda x: ((A.toarray() @ x) ** 2).sum()),
    ("sparse dot", lambda x: (B.dot(x) ** 2).sum() + (B * x).sum(), None),
    ("@ sparse", lambda x: ((x @ B) ** 2).sum(), lambda x: ((x @ B.toarray()) ** 2).sum()),
    ("sparse @ matrix", lambda x: ((A @ np.outer(x, x)) ** 2).sum(), None),
    ("number * sparse", lambda x: ((x[0] * B + B * x[1] + B / x[2]) @ x).sum(), None),
    ("sparse.multiply", lambda x: ((B.multiply(x) @ x) ** 2).sum() + (B.tocsr().multiply(np.outer(x, x)) @ x).sum(), None),
    ("sparse.linalg.cg", lambda x: scipy.sparse.linalg.cg(B.tocsr(), x, rtol=1e-12)[0].sum(), None),
    ("cg of an operator", lambda x: scipy.sparse.linalg.cg(OPERATOR, x, rtol=1e-12)[0].sum(), None),
    ("cg of a closure", lambda x: scipy.sparse.linalg.cg(
        scipy.sparse.linalg.LinearOperator((3, 3), lambda v: K @ v * x[0], dtype=float), np.ones(3), rtol=1e-12)[0].sum(),
     None),
    ("operator @", lambda x: (OPERATOR.matvec(x) * OPERATOR.rmatvec(x)).sum(), None),
    ("minres", lambda x: scipy.sparse.linalg.minres(K, x, rtol=1e-12)[0].sum(), None),
    ("spsolve", lambda x: (scipy.sparse.linalg.spsolve(B.tocsc(), x) ** 2).sum(), None),
    ("lsqr", lambda x: (scipy.sparse.linalg.lsqr(A.T, x, atol=1e-12, btol=1e-12)[0] ** 2).sum(), None),
    ("lsmr", lambda x: (scipy.sparse.linalg.lsmr(B.tocsr(), x, atol=1e-12, btol=1e-12)[0] ** 2).sum(), None),
    ("eigsh", lambda x: scipy.sparse.linalg.eigsh(K * x.sum() + np.diag(x), 1)[0].sum(), None),
    ("svds", lambda x: scipy.sparse.linalg.svds(K + np.outer(x, x), 1)[1].sum(), None),
    ("expm_multiply", lambda x: scipy.sparse.linalg.expm_multiply(B.tocsr(), x).sum(), None),
]  # fmt: skip


STEPS = {"minimize": 1e-2}  # SciPy's minimum is not better known


def differences(f, x, h=1e-5):
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(len(x))])


@functools.cache
def expected(name):
    f = next(p[1] for p in PROGRAMS if p[0] == name)
    return f(X), differences(f, X, STEPS.get(name, 1e-5))


ids = [p[0] for p in PROGRAMS]


@pytest.mark.share(4)
@pytest.mark.parametrize(("name", "f", "spelled"), PROGRAMS, ids=ids)
def test_values_and_gradients(name, f, spelled):
    value, slope = expected(name)
    found, gradient = funcad.value_and_grad(f)(X)
    np.testing.assert_allclose(found, value, rtol=1e-7)
    np.testing.assert_allclose(gradient, slope, rtol=1e-4, atol=1e-6)
    if spelled is not None:
        np.testing.assert_allclose(gradient, funcad.grad(spelled)(X), rtol=1e-10, atol=1e-12)


@pytest.mark.share(4)
@pytest.mark.parametrize(("name", "f", "spelled"), PROGRAMS, ids=ids)
def test_under_jit(name, f, spelled):
    value, slope = expected(name)
    found, gradient = funcad.jit(funcad.value_and_grad(f))(X)
    np.testing.assert_allclose(found, value, rtol=1e-7)
    np.testing.assert_allclose(gradient, slope, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(funcad.jit(f)(X), value, rtol=1e-8)


@pytest.mark.share(4)
@pytest.mark.parametrize(("name", "f", "spelled"), PROGRAMS, ids=ids)
def test_forward_and_mapped(name, f, spelled):
    value, slope = expected(name)
    found, tangent = funcad.jvp(f, (X,), (np.arange(1.0, 4.0),))
    np.testing.assert_allclose(tangent, slope @ np.arange(1.0, 4.0), rtol=1e-4, atol=1e-6)
    both = funcad.vmap(f)(np.stack([X, X[::-1]]))
    np.testing.assert_allclose(both, [value, f(X[::-1])], rtol=1e-7)


def test_there_are_sixty_programs():
    assert len(PROGRAMS) >= 60 and len(set(ids)) == len(ids)


def test_vectorized_functions_may_ask_for_values():
    np.testing.assert_allclose(funcad.grad(elementwise_if)(X), [3.0, 2.4, 1.4])


def test_buffers_are_asked_for_once_a_trace(monkeypatch):
    """Whether a function needs them is looked up at the first array that it makes, and again when one was learned to write."""
    asked = []
    needs_buffers = conversions.needs_buffers
    monkeypatch.setattr(conversions, "needs_buffers", lambda *args, **more: asked.append(args) or needs_buffers(*args, **more))

    def made(x):
        return np.sum(x * np.eye(3) + np.ones(3) + np.zeros((3, 3)) + np.full((3, 3), 2.0))

    x = np.arange(9.0).reshape(3, 3)
    np.testing.assert_array_equal(funcad.grad(made)(x), np.eye(3))
    asked.clear()  # before a function runs for the first time it is looked at, too
    np.testing.assert_array_equal(funcad.grad(made)(x), np.eye(3))
    assert len(asked) == 1

    def written(x):
        k = np.zeros(3)
        k[1] = x[0, 1]
        return np.sum(k * np.ones(3)) * x[0, 0]

    np.testing.assert_array_equal(funcad.grad(written)(x + 1.0)[0], [2.0, 1.0, 0.0])


def test_functions_behind_derivatives():
    f = lambda x: np.sum(x)
    outer = funcad.grad(f)
    assert conversions.functions_behind(f) == [f]
    assert conversions.contents(lambda: (f, outer)) == {"f": f, "outer": outer}
