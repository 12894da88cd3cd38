"""Objects of SciPy's classes, and functions around them, whose own code runs on traced values: value, derivative, jit, lanes.

Each line was found by a probe that called every public function of scipy.signal, stats, spatial, special, sparse, ndimage,
interpolate and optimize as its documentation does. The first name is what is traced.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy
import scipy.linalg as la
from scipy import integrate, interpolate, ndimage, optimize, signal, sparse, spatial, special, stats
from scipy.sparse import csgraph
from scipy.sparse import linalg as sparse_linalg

import funcad
from funcad import grad, jit, vmap

_draws = np.random.default_rng(0)
_b, _a = signal.butter(3, 0.3)
_square = _draws.normal(size=(3, 3))
SPACE: dict[str, Any] = {
    **{"np": np, "signal": signal, "stats": stats, "special": special, "spatial": spatial, "ndimage": ndimage},
    **{"sparse": sparse, "sl": sparse_linalg, "csgraph": csgraph},
    **{"x": _draws.normal(size=40), "b": _b, "a": _a, "m": _draws.normal(size=(12, 3)), "y": _draws.normal(size=15) + 0.3},
    **{"num": np.array([1.0, 2.0, 3.0]), "den": np.array([1.0, 0.4, 0.05]), "f": np.array([0.1, 0.5, 1.0]), "mu": 0.3},
    **{"t": np.linspace(0, 1, 40), "A": np.array([[-1.0, 0.5], [0.2, -2.0]]), "B": np.array([[1.0], [0.5]])},
    **{"w": np.array([0.2, 0.5]), "s": 1.4},
    **{"C": np.array([[1.0, 0.3]]), "D": np.array([[0.1]]), "p": np.exp(_draws.normal(size=15)), "u": _draws.random(15)},
    **{"pr": np.array([0.2, 0.3, 0.5]), "mean": np.array([0.1, 0.2, 0.3]), "var": np.array([1.2, 2.0, 0.8])},
    **{"d": np.array([4.0, -1.0, -1.5, 5.0, -0.7, 0.3, 3.0]), "at": ([0, 0, 1, 1, 1, 2, 2], [0, 1, 0, 1, 2, 1, 2])},
    **{"h": np.sin(np.arange(12.0) ** 1.4) + 0.1 * _draws.normal(size=12), "k": np.linspace(0, 1, 12)},
    **{"img": _draws.normal(size=(6, 6)), "interpolate": interpolate, "optimize": optimize, "integrate": integrate, "la": la},
    **{"v": np.array([0.4, -1.2, 0.9]), "cov": _square @ _square.T + np.eye(3), "T": _draws.normal(size=3)},
    "G": np.array([[0, 1.0, 2, 0, 0], [0, 0, 0.5, 3, 0], [0, 0, 0, 1.2, 4.0], [0, 0, 0, 0, 1.5], [0.7, 0, 0, 0, 0]]),
}  # fmt: skip
K = "sparse.csr_array((d, at), shape=(3, 3))"
CALLS = f"""
num: signal.lti(num, den).output(x, t)[1]
den: signal.lti(num, den).step(T=t)[1]
A: signal.lti(A, B, C, D).impulse(T=t)[1]
f: signal.lti(num, den).bode(f)[1]
A: (signal.StateSpace(A, B, C, D) * signal.StateSpace(A, B, C, D)).A
D: (signal.StateSpace(A, B, C, D) + 2.0).D
a: signal.dlti(b, a).step(n=10)[1][0]
f: signal.dlti(b, a).freqresp(f)[1]
x: signal.CZT(40, 10)(x)
x: signal.ZoomFFT(40, [0.1, 0.5], 10)(x)
w: signal.zoom_fft(x, w, 8)
x: signal.ShortTimeFFT(np.hanning(16), 8, 1.0).stft(x)
x: signal.ShortTimeFFT.from_window("hann", 1.0, 16, 8).spectrogram(x)
s: signal.iircomb(0.25, 30 * s)
x: signal.cspline1d_eval(signal.cspline1d(x), f * 20)
x: signal.decimate(x, 2, ftype="fir")
x: signal.resample_poly(x, 3, 2)
y: signal.upfirdn(y, x, 3, 2)
x: signal.resample(x, 20, t=t)
x: signal.order_filter(x, np.ones(3), 1)
x: ndimage.rank_filter(x, 1, 3)
x: ndimage.percentile_filter(x, 30, 4)
mu: signal.gammatone(mu * 1000, "iir", fs=8000)
den: signal.residue(num, den)[0]
x: stats.ks_1samp(x, stats.norm.cdf).statistic
x: stats.kstest(x, "norm").statistic
x: stats.pearsonr(x, t).confidence_interval()
x: stats.norm.fit(x)
p: stats.gamma.fit(p, floc=0)
x: stats.gumbel_r.fit(x)
m: stats.multivariate_normal.fit(m)
x: stats.rv_histogram(np.histogram(x, bins=4)).cdf(0.3)
mu: stats.rv_histogram(np.histogram(x, bins=4)).cdf(mu)
pr: stats.rv_discrete(values=([0, 1, 2], pr / np.sum(pr))).mean()
m: stats.multivariate_normal.logpdf(m, mean, stats.Covariance.from_diagonal(var))
var: stats.multivariate_normal.logpdf(m, mean, stats.Covariance.from_diagonal(var))
v: stats.Covariance.from_cholesky(np.linalg.cholesky(cov)).colorize(v)
mu: stats.ecdf(x).cdf.evaluate(mu)
x: stats.Logistic().logpdf(x)
mu: stats.Binomial(n=5, p=mu).logpmf(2)
s: stats.Uniform(a=0.0, b=s).logpdf(u)
mu: stats.Mixture([stats.Normal(mu=mu), stats.Normal(mu=1.0, sigma=s)], weights=[0.3, 0.7]).logpdf(x)
s: stats.exp(stats.Normal(mu=mu, sigma=s)).logpdf(p)
p: spatial.distance.minkowski(p[:3], v, 2.5)
s: spatial.distance.minkowski(p[:3], v, s, pr)
s: special.kn(s, p)
s: special.yn(s, p)
u: special.legendre_p(2, u)
u: special.assoc_legendre_p(2, 1, u)
d: {K}.sin().toarray()
d: abs({K}).sqrt().toarray()
d: {K}.maximum({K}.T).toarray()
d: ({K} > 0).toarray()
d: {K}.min(axis=0) if not hasattr({K}.min(axis=0), "toarray") else {K}.min(axis=0).toarray()
d: {K}.tocsc().data
d: {K}.todia().data
d: {K}.argmax()
s: (lambda k: (k.setdiag(v * s), k)[1])({K}.tolil()).toarray()
v: (lambda k: (k.__setitem__((slice(None), 0), v), k)[1])(sparse.lil_array((3, 3))).toarray()
T: sparse.bsr_array((np.stack([T, T * T]).reshape(2, 1, 3), [0, 0], [0, 1, 2])).toarray()
d: sparse.permute_dims({K}.tocoo(), (1, 0)).toarray()
d: sl.spsolve_triangular(sparse.tril({K}).tocsr(), v)
d: sl.expm({K}.tocsc()).toarray()
d: sl.norm({K})
v: sl.factorized({K}.tocsc())(v)
v: sl.splu({K}.tocsc()).solve(v, "T")
v: sl.LinearOperator((3, 3), matvec=lambda y: cov @ y) @ v
cov: sl.LinearOperator((3, 3), matvec=lambda y: cov @ y) @ v
v: (sl.aslinearoperator(cov) * 2) @ v
cov: sl.aslinearoperator(cov).rmatvec(v)
G: np.where(np.isfinite(csgraph.shortest_path(G)), csgraph.shortest_path(G), 0.0)
G: csgraph.dijkstra(sparse.csr_array(G), indices=[0, 1], min_only=True)
G: csgraph.johnson(G, directed=False)
G: csgraph.minimum_spanning_tree(sparse.csr_array(G)).sum()
G: csgraph.connected_components(sparse.csr_array(G))[1] * 1.0
G: csgraph.breadth_first_order(sparse.csr_array(G), 0)[1] * 1.0
G: csgraph.breadth_first_tree(sparse.csr_array(G), 0).toarray()
G: csgraph.reverse_cuthill_mckee(sparse.csr_array(G)) * 1.0
h: h[signal.find_peaks(h)[0]]
h: signal.find_peaks(h, height=0)[1]["peak_heights"]
h: signal.find_peaks(h, prominence=0)[1]["prominences"]
h: signal.find_peaks(h, width=0)[1]["widths"]
h: h[signal.find_peaks(h, distance=3)[0]]
h: signal.find_peaks(h, threshold=0.1)[1]["left_thresholds"]
h: signal.peak_prominences(h, signal.find_peaks(h)[0])[0]
h: signal.peak_widths(h, signal.find_peaks(h)[0], rel_height=0.3)
h: optimize.isotonic_regression(h).x
h: optimize.isotonic_regression(h, weights=np.exp(h), increasing=False).x
img: ndimage.grey_dilation(img, 3)
img: ndimage.grey_erosion(img, footprint=[[0, 1, 0], [1, 1, 1], [0, 0, 0]])
img: ndimage.grey_opening(img, structure=np.array([[0.1, 0.2, 0.0], [0.0, 0.3, 0.1], [0.2, 0.0, 0.1]]))
img: ndimage.white_tophat(img, 3)
img: ndimage.morphological_gradient(img, 3, mode="nearest")
img: ndimage.morphological_laplace(img, 3)
img: ndimage.maximum_filter1d(img, 3, origin=1)
img: ndimage.minimum_filter1d(img, 4, axis=0, mode="constant", cval=0.3)
img: ndimage.fourier_gaussian(img, 1.0)
s: ndimage.fourier_gaussian(np.ones((3, 4)), s)
s: ndimage.fourier_uniform(np.ones((3, 4)), [s, 2 * s], n=6)
img: ndimage.fourier_ellipsoid(img, 1.2)
s: ndimage.fourier_shift(np.ones((3, 4)) + 0j, s)
img: ndimage.generic_filter(img, lambda q: q[4] * q[3], 3)
img: ndimage.generic_gradient_magnitude(img, ndimage.sobel)
img: ndimage.generic_laplace(img, lambda i, a, o, m, c: ndimage.correlate1d(i, [1, -2, 1], a, o, m, c))
num: interpolate.KroghInterpolator([0.0, 1, 2], num)(0.4)
mu: interpolate.KroghInterpolator([0.0, 1, 2], [1.0, 3, 2]).derivative(mu)
num: interpolate.BarycentricInterpolator([0.0, 1, 2], num)(0.4)
mu: interpolate.FloaterHormannInterpolator([0.0, 1, 2], [1.0, 3, 2], d=2)(mu)
num: interpolate.BPoly(num[:, None], [0, 2])([0.4, 1.1])
mu: interpolate.BPoly([[1.0], [2.0], [3.0]], [0, 2])(mu, 1)
num: interpolate.BPoly.from_derivatives([0.0, 1, 2], [[num[0], 1.0], [num[1], 2], [num[2], 0.3]])(0.4)
num: interpolate.PPoly(num[:, None], [0, 1])([0.4, 1.2], 1)
num: interpolate.PPoly(num[:, None], [0, 1]).antiderivative().integrate(0, 0.4)
num: interpolate.PPoly(np.r_[num[:2], -num[2:]][:, None], [0, 1.5]).roots()
num: interpolate.PPoly.from_spline(([0, 0, 0, 1, 1, 1.0], num, 2))(0.4)
mu: interpolate.RectBivariateSpline(np.arange(6), np.arange(6), img)(mu + 1, [2.3, 2.9], dx=1)
mu: interpolate.RectBivariateSpline(np.arange(6), np.arange(6), img).ev(mu + 1, 2.3)
img: interpolate.RectBivariateSpline(np.arange(6), np.arange(6), img, ky=2)([1.2, 1.9], 2.3)
img: interpolate.RectBivariateSpline(np.arange(6), np.arange(6), img).integral(1.2, 2.3, 1, 2)
h: interpolate.spalde(0.4, interpolate.splrep(k, h))
mu: interpolate.spalde(mu, interpolate.splrep(k, h))
h: interpolate.sproot(interpolate.splrep(k, h))
h: interpolate.CubicSpline(k, h).c
h: interpolate.CubicSpline(k, h).solve(0.1, extrapolate=False)
h: interpolate.PchipInterpolator(k, h).roots()
h: interpolate.CubicSpline(k, np.r_[h[:-1], h[0]], bc_type="periodic").integrate(-0.3, 2.6)
h: interpolate.BSpline(*interpolate.splrep(k, h)).tck[1]
h: interpolate.make_interp_spline(k, h).c
h: interpolate.make_interp_spline(k, h, bc_type=([(1, h[0])], [(2, 0.3)]))(0.42)
h: interpolate.UnivariateSpline(k, h, s=0).get_coeffs()
h: interpolate.UnivariateSpline(k, h, s=0).derivatives(0.3)
h: interpolate.UnivariateSpline(k, h, s=0).roots()
h: interpolate.interp1d(k, h).y
mu: interpolate.Rbf(k, h)(mu)
mu: interpolate.BarycentricInterpolator([0.0, 0.3, 1.0], [1.0, 3.0, 2.0])(mu)
mu: interpolate.FloaterHormannInterpolator([0.0, 0.3, 1.0], [1.0, 3.0, 2.0], d=1)([mu, 0.7])
h: interpolate.FloaterHormannInterpolator(k, h)([k[3], 0.4])
img: interpolate.RectBivariateSpline(np.arange(6), np.arange(6), img).partial_derivative(1, 2)(1.3, 2.2)
h: interpolate.BSpline(np.arange(16.0), h, 3).antiderivative()(7.3)
h: interpolate.BSpline(np.arange(16.0), np.stack([h, h * h]), 3, axis=1).antiderivative(2)([4.3, 7.3])
h: interpolate.BSpline(np.arange(16.0), h, 3).insert_knot(4.4, 2).c
h: interpolate.make_interp_spline(k, h).derivative(2).antiderivative()(0.3)
h: interpolate.UnivariateSpline(k, h, s=0, ext=1).derivative()([0.3, 1.3])
h: interpolate.UnivariateSpline(k, h, s=0, k=4).derivative().roots()
h: interpolate.CubicSpline(k, h, bc_type="clamped")([0.1, 1.3], extrapolate=False)[:1]
h: interpolate.PPoly(np.reshape(h, (3, 4)), np.arange(5.0)).solve(0.2)
img: ndimage.maximum_filter(img, size=3, axes=(1,))
img: ndimage.minimum_filter(img, footprint=[[1, 0], [1, 1], [0, 1]], axes=(1, 0))
img: ndimage.correlate(img, [0.2, 0.5, -0.1], axes=(0,))
img: ndimage.convolve(np.reshape(img, (2, 3, 6)), [[0.2, 0.5], [0.1, -0.3]], axes=(2, 0))
x: signal.resample(x, 13, window="hann")
x: signal.resample(x + 1j * x**2, 26, window=("kaiser", 3.0)).real
img: np.ma.average(np.ma.array(img, mask=np.eye(6) > 0), axis=0, weights=np.arange(1.0, 7.0)).filled(0.0)
img: np.quantile(img, [0.2, 0.7], axis=1, weights=np.arange(6.0), method="inverted_cdf", keepdims=True)
y: np.percentile(y, 30, weights=y**2, method="inverted_cdf")
s: integrate.quad(lambda z: abs(z - 0.3) * s**z, 0, 1, points=[0.3])[0]
s: integrate.quad(lambda z: np.exp(-s * z), 0, s, weight="cos", wvar=3.0)[0]
s: integrate.quad(lambda z: np.exp(-s * z), 0, np.inf, weight="sin", wvar=2.0)[0]
s: integrate.quad(lambda z: np.exp(-s * z), -1, s, weight="cauchy", wvar=0.2)[0]
s: integrate.quad(lambda z: np.exp(-s * z), 0, 1, weight="alg", wvar=(0.2, 0.3))[0]
cov: la.qr(cov[:2], mode="economic", pivoting=True)[:2]
cov: la.qr(cov, mode="r", pivoting=True)[0]
cov: la.fractional_matrix_power(cov, 0.3)
s: la.fractional_matrix_power(cov, s)
mu: special.spherical_jn(2, mu)
mu: special.spherical_yn(np.arange(3), mu, derivative=True)
mu: special.spherical_in(1, mu)
mu: special.spherical_kn(1, mu, derivative=True)
s: special.gegenbauer(3, s)(0.7)
y: stats.obrientransform(y, h[:7])[0]
pr: stats.multinomial.logpmf([1, 2, 1], 4, pr / pr.sum())
A: signal.StateSpace(A, B, C, D).to_tf().num
mu: np.sum(np.array([[mu, 1.0], [2.0, mu]], dtype=object) @ np.array([mu, 1.0], dtype=object))
h: np.sum(np.array([h, h[:3]], dtype=object)[1])
"""
OLD = np.lib.NumpyVersion(scipy.__version__) < "1.17.0"
NEWER = ("permute_dims", "spsolve_triangular(sparse.tril")  # what raises in SciPy 1.16 itself
LINES = [line for line in CALLS.strip().split("\n") if not (OLD and any([name in line for name in NEWER]))]
NOT_TOGETHER = ("rv_histogram", "residue", "ecdf")  # whose code asks for values, or for whole numbers


def leaves(out: Any) -> list[Any]:
    if isinstance(out, (tuple, list)):
        return [v for o in out for v in leaves(o)]
    out = out if hasattr(out, "dtype") else np.asarray(out)
    return [np.real(out), np.imag(out)] if out.dtype.kind == "c" else [out]


def of(line: str, value: Any) -> Any:
    name, _, text = line.partition(": ")
    total = 0.0
    for k, out in enumerate(leaves(eval(text, {**SPACE, name: value}))):
        weights = np.cos(1.3 * np.arange(out.size) + k + 0.3).reshape(out.shape)
        total = total + np.sum(out * weights)
    return total


@pytest.fixture(autouse=True)
def _calm() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.share(2)
@pytest.mark.parametrize("line", LINES)
def test_value_derivative_jit_and_lanes(line: str) -> None:
    x = SPACE[line.partition(":")[0]]
    f = lambda v: of(line, v)
    step = np.random.default_rng(5).normal(size=np.shape(x)) * 1e-6
    step = step * (x != 0) if line[0] == "G" else step
    expected = (f(x + step) - f(x - step)) / 2
    value, slope = funcad.value_and_grad(f)(x)
    assert value == pytest.approx(f(x), rel=1e-10, abs=1e-12)
    assert np.sum(slope * step) == pytest.approx(expected, rel=2e-5, abs=1e-12 * max(1.0, abs(value)))
    compiled = jit(f)
    for _ in range(2):
        assert compiled(x) == pytest.approx(f(x), rel=1e-9, abs=1e-10)
    assert np.allclose(jit(grad(f))(x), slope, rtol=1e-7, atol=1e-9)
    if not any([name in line for name in NOT_TOGETHER]):
        assert np.allclose(vmap(f)(np.stack([x, x * 1.01])), [f(x), f(x * 1.01)], rtol=1e-8, atol=1e-10)


def test_a_view_that_values_find_is_written() -> None:
    def f(x: Any) -> Any:
        c = np.array([0.0, 0.0, 1.0, 2.0, 0.0]) * x
        part = np.trim_zeros(c)
        part *= x
        return np.sum(c * c)

    assert grad(f)(1.5) == pytest.approx(20 * 1.5**3)


def test_objects_keep_their_class_and_attributes() -> None:
    kept: list[Any] = []
    grad(lambda n: kept.append(signal.lti(n, SPACE["den"])) or np.sum(kept[-1].num))(SPACE["num"])
    assert type(kept[0]) is type(signal.lti(SPACE["num"], SPACE["den"]))


@pytest.mark.parametrize("name", ["eval_legendre", "eval_chebyt", "eval_laguerre"])
def test_polynomials_of_complex_arguments_are_refused(name: str) -> None:
    """A whole degree had made the argument real."""
    f = getattr(special, name)
    with pytest.raises(TypeError, match="complex arguments"):
        grad(lambda y: np.real(f(2, 0.3 + 1j * y)))(0.2)


def signs(f: Any, *args: Any) -> None:
    known, traced = f(*args), jit(lambda *a: f(*a))(*args)
    primal = funcad.jvp(f, args, tuple(map(np.ones_like, args)))[0]
    for one, two, three in zip(known, traced, primal):
        assert np.allclose(one, two) and np.allclose(one, three)


@pytest.mark.parametrize("seed", range(3))
def test_signs_of_vectors_are_those_of_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, band = rng.normal(size=(5, 5)), np.stack([rng.normal(size=5) + 4, rng.normal(size=5), rng.normal(size=5) * 0.4])
    s, c = a + a.T, a + 1j * rng.normal(size=(5, 5))
    signs(la.rq, a)
    signs(lambda a: la.rq(a, mode="economic"), a[:, :3])
    signs(la.rq, c[:3])
    signs(la.eigh, s)
    signs(la.eigh, c + c.conj().T)
    signs(lambda s: la.eigh(s, driver="ev"), s)
    signs(lambda s: la.eigh(s, subset_by_index=[1, 2]), s)
    signs(lambda s, p: la.eigh(s, p, subset_by_index=[0, 1]), s, a @ a.T + np.eye(5))
    signs(lambda x: la.eig_banded(x, lower=True), band)
    signs(lambda x: la.eig_banded(x, select="i", select_range=(0, 2)), band)
    signs(la.eigh_tridiagonal, band[0], band[1, :4])
    signs(lambda d, e: la.eigh_tridiagonal(d, e, select="i", select_range=(1, 3)), band[0], band[1, :4])


def test_numbers_as_matrices_of_one_element() -> None:
    for f in (la.expm, la.cholesky):
        known = f(np.array(2.0))
        assert np.allclose(jit(lambda x, f=f: f(x))(np.array(2.0)), known) and known.shape == (1, 1)
        assert np.isfinite(grad(lambda x, f=f: np.sum(f(x * np.ones(()))))(2.0))
    for f in (la.svdvals, la.pinv, la.polar, la.null_space, la.lu):
        with pytest.raises(ValueError, match="expected a matrix"):
            jit(lambda x, f=f: f(x))(np.array(2.0))


def test_memory_of_traced_arrays() -> None:
    assert np.array_equal(grad(lambda x: np.frombuffer(x, count=2, offset=8).sum())(np.ones(4)), [0.0, 1.0, 1.0, 0.0])


_v, _x, _apart = np.array([0.5, -1.0, 0.3]), SPACE["T"], SPACE["m"][:3]
DENSITIES_OF_MATRICES = {
    "rows": lambda M: stats.matrix_normal.logpdf(_apart, np.zeros((3, 3)), M, np.eye(3)),
    "columns": lambda M: stats.matrix_normal(np.zeros((3, 3)), np.eye(3), M).logpdf(_apart),
    "matrix_t": lambda M: stats.matrix_t.logpdf(_apart, np.zeros((3, 3)), M, np.eye(3), 3.0),
    "t": lambda M: stats.multivariate_t.logpdf(_x, np.zeros(3), M, 3.0),
    "normal": lambda M: np.sum(stats.multivariate_t.logpdf(_x, np.zeros(3), M, np.inf)),
    "pdf": lambda M: stats.multivariate_t(np.zeros(3), M, 3.0).pdf(_x),
    "singular": lambda M: stats.multivariate_normal(np.zeros(3), M, allow_singular=True).logpdf(_x),
}


@pytest.mark.parametrize("name", [n for n in DENSITIES_OF_MATRICES if not (OLD and n in ("matrix_t", "normal"))])
def test_densities_of_matrices_whose_eigenvalues_coincide(name: str) -> None:
    density = DENSITIES_OF_MATRICES[name]
    for f in (lambda v: density(np.eye(3) + np.outer(v, v)), lambda v: density(np.eye(3) * (1.0 + v[0] ** 2))):
        funcad.testing.check_grads(f, (_v,), order=2)
        slope, compiled = grad(f)(_v), jit(grad(f))
        assert funcad.value_and_grad(f)(_v)[0] == pytest.approx(f(_v), rel=1e-14)
        assert all(np.allclose(compiled(_v), slope, rtol=1e-12) for _ in range(3))
        assert np.allclose(vmap(grad(f))(np.stack([_v, 2 * _v]))[0], slope, rtol=1e-12)


def test_the_density_of_a_singular_shape_has_its_derivative_along_the_support() -> None:
    shape, x = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]), np.array([1.0, 2.0, 0.0])
    f = lambda c: stats.multivariate_t.logpdf(x, np.zeros(3), c * shape, 3.0)
    assert grad(f)(1.3) == pytest.approx((f(1.3 + 1e-6) - f(1.3 - 1e-6)) / 2e-6, rel=1e-6)
