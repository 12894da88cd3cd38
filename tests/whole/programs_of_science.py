"""Programs over SciPy as people write them: a function of one array, and where it is called (test_programs_of_science.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.fft as sf
import scipy.integrate as sq
import scipy.interpolate as si
import scipy.linalg as sl
import scipy.ndimage as nd
import scipy.optimize as so
import scipy.signal as sg
import scipy.sparse as sp
import scipy.sparse.linalg as spl
import scipy.spatial as sps
import scipy.special as ss
import scipy.stats as st
from scipy.spatial.distance import cdist, pdist, squareform
from scipy.spatial.transform import Rotation, Slerp

rng = np.random.default_rng(0)
A = rng.normal(size=(6, 6))
S = A @ A.T + 6 * np.eye(6)
V = rng.normal(size=6)
P = rng.uniform(0.2, 0.9, size=6)
PTS = rng.normal(size=(12, 2))
PT3 = rng.normal(size=(9, 3))
PROGRAMS: dict[str, tuple[Any, np.ndarray]] = {}


def at(x: Any) -> Any:
    def kept(f: Any) -> Any:
        PROGRAMS[f.__name__] = f, np.asarray(x, float)
        return f

    return kept


@at(P)
def beta_nll(x: Any) -> Any:
    return -np.sum(st.beta.logpdf(x, a=2 + x[0], b=3.0))


@at(P)
def gamma_fit_moments(x: Any) -> Any:
    m = np.mean(x)
    v = np.var(x)
    return np.sum(st.gamma.logpdf(x, a=m * m / v, scale=v / m))


@at(P)
def t_sf(x: Any) -> Any:
    return np.sum(st.t.sf(x, df=3 + x[0], loc=x[1]))


@at(P)
def norm_ppf(x: Any) -> Any:
    return np.sum(st.norm.ppf(x, loc=x[0], scale=1 + x[1]))


@at(P)
def frozen_dist(x: Any) -> Any:
    d = st.norm(x[0], x[1])
    return d.cdf(0.3) + d.logpdf(x[2]) + d.ppf(0.7) + d.mean() + d.var() + d.entropy()


@at(P)
def expon_interval(x: Any) -> Any:
    lo, hi = st.expon.interval(0.9, scale=x[0])
    return hi - lo


@at(P)
def mvn(x: Any) -> Any:
    return st.multivariate_normal.logpdf(np.zeros(2) + x[:2], mean=x[2:4], cov=np.diag(x[4:6]) + 0.1)


@at(P)
def dirichlet(x: Any) -> Any:
    q = x[:3] / np.sum(x[:3])
    return st.dirichlet.logpdf(q, 1 + x[3:6])


@at(P)
def kde(x: Any) -> Any:
    k = st.gaussian_kde(np.linspace(-1, 1, 8))
    return np.sum(k(x))


@at(P)
def poisson_reg(x: Any) -> Any:
    mu = np.exp(x)
    return -np.sum(st.poisson.logpmf(np.array([1, 0, 2, 3, 1, 0]), mu))


@at(P)
def binom(x: Any) -> Any:
    return np.sum(st.binom.logpmf(np.array([1, 2, 3, 0, 1, 2]), 5, x))


@at(P)
def nbinom(x: Any) -> Any:
    return np.sum(st.nbinom.logpmf(np.arange(6), 3 + x[0], x))


@at(P)
def weibull(x: Any) -> Any:
    return np.sum(st.weibull_min.logpdf(x, 1.5 + x[0], scale=x[1]))


@at(P)
def vonmises(x: Any) -> Any:
    return np.sum(st.vonmises.logpdf(x, 2 + x[0]))


@at(P)
def skewnorm(x: Any) -> Any:
    return np.sum(st.skewnorm.logpdf(x, x[0]))


@at(P)
def ttest(x: Any) -> Any:
    return st.ttest_ind(x, np.linspace(0, 1, 7)).statistic


@at(P)
def pearson(x: Any) -> Any:
    return st.pearsonr(x, V).statistic


@at(P)
def spearman(x: Any) -> Any:
    return np.sum(x) * st.spearmanr(x, V).statistic


@at(P)
def zscored(x: Any) -> Any:
    return np.sum(st.zscore(x) ** 3)


@at(P)
def describe(x: Any) -> Any:
    d = st.describe(x)
    return d.mean + d.variance + d.skewness + d.kurtosis


@at(P)
def trim(x: Any) -> Any:
    return st.trim_mean(x, 0.2) + st.iqr(x) + st.gmean(x) + st.hmean(x) + st.sem(x)


@at(P)
def wasserstein(x: Any) -> Any:
    return st.wasserstein_distance(x, V)


@at(P)
def entropy(x: Any) -> Any:
    return st.entropy(x / np.sum(x), np.ones(6) / 6)


@at(P)
def boxcox_llf(x: Any) -> Any:
    return st.boxcox_llf(x[0], x)


@at(P)
def yeo(x: Any) -> Any:
    return np.sum(st.yeojohnson(x, 0.5))


@at(P)
def linreg(x: Any) -> Any:
    r = st.linregress(np.arange(6.0), x)
    return r.slope + r.rvalue + r.stderr


@at(P)
def theil(x: Any) -> Any:
    return st.theilslopes(x)[0]


@at(PTS)
def cd(x: Any) -> Any:
    return np.sum(np.exp(-cdist(x, PTS[:5] + 0.1)))


@at(PTS)
def pd_(x: Any) -> Any:
    return np.sum(1 / (1 + squareform(pdist(x))))


@at(PTS)
def cd_named(x: Any) -> Any:
    return (
        np.sum(cdist(x, PTS[:4] + 0.2, "cityblock"))
        + np.sum(cdist(x, PTS[:4] + 0.15, "mahalanobis", VI=np.eye(2)))
        + np.sum(cdist(x, PTS[:3] + 0.3, "cosine"))
    )


@at(PT3)
def rots(x: Any) -> Any:
    return np.sum(Rotation.from_rotvec(x).as_matrix() ** 3)


@at(PT3)
def rot_apply(x: Any) -> Any:
    return np.sum(Rotation.from_euler("xyz", x[0]).apply(x[1:]) ** 3)


@at(PT3)
def rot_comp(x: Any) -> Any:
    r = Rotation.from_rotvec(x[0]) * Rotation.from_rotvec(x[1]).inv()
    return np.sum(r.as_quat() ** 3) + r.magnitude()


@at(PT3)
def slerp(x: Any) -> Any:
    s = Slerp([0, 1, 2], Rotation.from_rotvec(x[:3]))
    return np.sum(s(np.array([0.3, 1.4])).as_matrix() ** 3)


@at(PTS)
def knn(x: Any) -> Any:
    t = sps.cKDTree(x)
    d, i = t.query(x, k=3)
    return np.sum(d[:, 1:] ** 2)


@at(PTS)
def pairs(x: Any) -> Any:
    t = sps.cKDTree(x)
    e = 0.0
    for i, j in sorted(t.query_pairs(1.0)):
        r = np.linalg.norm(x[i] - x[j])
        e = e + (r - 1) ** 2
    return e


@at(PTS)
def hull(x: Any) -> Any:
    h = sps.ConvexHull(x)
    return h.volume + h.area


@at(PTS)
def delaunay(x: Any) -> Any:
    t = sps.Delaunay(x)
    a = x[t.simplices]
    u = a[:, 1] - a[:, 0]
    w = a[:, 2] - a[:, 0]
    return np.sum((u[:, 0] * w[:, 1] - u[:, 1] * w[:, 0]) ** 2)


@at(PTS)
def interp_nd(x: Any) -> Any:
    return si.LinearNDInterpolator(PTS, np.arange(12.0))(0.3 * x[0, 0], 0.2 * x[1, 1]) * 1.0 + 0


@at(PTS[:, 0])
def interp_vals(x: Any) -> Any:
    return np.sum(si.LinearNDInterpolator(PTS, x)(np.array([[0.0, 0.0], [0.1, 0.1]])))


@at(V)
def coo_solve(x: Any) -> Any:
    i = np.arange(6)
    K = sp.coo_matrix(
        (
            np.concatenate([4 + x**2, -np.ones(5), -np.ones(5)]),
            (np.concatenate([i, i[1:], i[:-1]]), np.concatenate([i, i[:-1], i[1:]])),
        )
    ).tocsc()
    return np.sum(spl.spsolve(K, x) ** 2)


@at(V)
def diags_cg(x: Any) -> Any:
    K = sp.diags([4 + x**2, -np.ones(5), -np.ones(5)], [0, 1, -1], format="csr")
    u, info = spl.cg(K, np.ones(6), rtol=1e-12)
    return np.sum(u**3)


@at(V)
def lil_assembly(x: Any) -> Any:
    K = sp.lil_matrix((7, 7))
    for e in range(6):
        k = np.array([[1, -1], [-1, 1]]) * (2 + x[e] ** 2)
        for a in range(2):
            for b in range(2):
                K[e + a, e + b] += k[a, b]
    K = K.tocsr()
    free = np.arange(1, 7)
    u = spl.spsolve(K[free][:, free], np.ones(6))
    return u[-1]


@at(V)
def splu_solve(x: Any) -> Any:
    K = sp.csc_matrix(S + np.diag(x**2))
    lu = spl.splu(K)
    return np.sum(lu.solve(x) ** 2)


@at(V)
def kron_eye(x: Any) -> Any:
    K = sp.kron(sp.eye(2), sp.diags(x)) + sp.eye(12)
    return np.sum((K @ np.arange(12.0)) ** 2)


@at(V)
def block(x: Any) -> Any:
    K = sp.bmat([[sp.diags(x), None], [None, sp.csr_matrix(S)]])
    return np.sum(K.toarray() ** 2)


@at(V)
def sparse_eig(x: Any) -> Any:
    K = sp.csr_matrix(S) + sp.diags(x**2)
    w = spl.eigsh(K, k=2, return_eigenvectors=False)
    return np.sum(w)


@at(V)
def linop(x: Any) -> Any:
    L = spl.LinearOperator((6, 6), matvec=lambda v: S @ v + x**2 * v)
    u, _ = spl.gmres(L, np.ones(6), rtol=1e-12)
    return np.sum(u**2)


@at(V)
def copy_write(x: Any) -> Any:
    B = S.copy()
    B[0, :] = x
    B[:, 1] += x
    return np.linalg.det(B)


@at(V)
def zeros_like_write(x: Any) -> Any:
    o = np.zeros_like(S)
    for i in range(6):
        o[i, i] = x[i] ** 2
    return np.trace(o @ S)


@at(V)
def empty_shape(x: Any) -> Any:
    o = np.ndarray(6)
    o[:3] = x[3:]
    o[3:] = x[:3] ** 2
    o.shape = (2, 3)
    return np.sum(o @ o.T)


@at(V)
def fancy_made(x: Any) -> Any:
    o = S[[0, 1, 2]]
    o[1] = x
    o[:, 2] *= x[0]
    return np.sum(o**2)


@at(V)
def deep(x: Any) -> Any:
    import copy

    o = copy.deepcopy(S)
    o[2] = x
    return np.sum(np.sin(o))


@at(V)
def rngwrite(x: Any) -> Any:
    o = np.random.default_rng(1).normal(size=6)
    o[2] = x[1]
    return np.sum(o * x)


@at(V)
def seed_in(x: Any) -> Any:
    np.random.seed(3)
    return np.sum(np.random.rand(6) * x)


@at(V)
def butter(x: Any) -> Any:
    b, a = sg.butter(3, 0.2)
    return np.sum(sg.lfilter(b, a, x) ** 2) + np.sum(sg.filtfilt(b, a, np.tile(x, 4)) ** 2)


@at(V)
def sos(x: Any) -> Any:
    return np.sum(sg.sosfilt(sg.butter(4, 0.3, output="sos"), x) ** 2)


@at(V)
def savgol(x: Any) -> Any:
    return np.sum(sg.savgol_filter(x, 5, 2) ** 2) + np.sum(sg.detrend(x) ** 2) + np.sum(np.abs(sg.hilbert(x)))


@at(np.tile(V, 6))
def welch(x: Any) -> Any:
    f, p = sg.welch(x, nperseg=16)
    return np.sum(np.log(p[1:]))


@at(np.tile(V, 6))
def stft(x: Any) -> Any:
    f, t, Z = sg.stft(x, nperseg=8)
    return np.sum(np.abs(Z) ** 2)


@at(V)
def conv(x: Any) -> Any:
    return np.sum(sg.fftconvolve(x, V, "same") ** 2) + np.sum(sg.correlate(x, V) ** 2) + np.sum(sg.resample(x, 9) ** 2)


@at(V)
def spline(x: Any) -> Any:
    return (
        si.CubicSpline(np.arange(6.0), x)(2.3)
        + si.PchipInterpolator(np.arange(6.0), x)(1.7)
        + si.Akima1DInterpolator(np.arange(6.0), x)(3.3)
    )


@at(V)
def bspline(x: Any) -> Any:
    return si.make_interp_spline(np.arange(6.0), x, k=3)(2.2) + si.BSpline(np.arange(10.0), x, 3)(4.5)


@at(V)
def interp1(x: Any) -> Any:
    return si.interp1d(np.arange(6.0), x, kind="cubic")(2.4) + si.interp1d(np.arange(6.0), x)(2.4)


@at(V)
def rgi(x: Any) -> Any:
    return np.sum(si.RegularGridInterpolator((np.arange(2.0), np.arange(3.0)), x.reshape(2, 3))([[0.3, 1.2], [0.5, 0.5]]))


@at(V)
def rbf(x: Any) -> Any:
    return np.sum(si.RBFInterpolator(PTS[:6], x)(PTS[6:]))


@at(V)
def lagr(x: Any) -> Any:
    return si.lagrange(np.arange(6.0), x)(2.5)


@at(V)
def quad(x: Any) -> Any:
    return (
        sq.quad(lambda t: np.exp(-t * t * x[0] ** 2) * x[1], 0, 1)[0]
        + sq.simpson(x)
        + sq.trapezoid(x)
        + sq.cumulative_trapezoid(x)[-1]
    )


@at(V)
def ivp(x: Any) -> Any:
    return sq.solve_ivp(lambda t, y: np.array([y[1], -(x[0] ** 2) * y[0]]), (0, 1), x[1:3], rtol=1e-10, atol=1e-10).y[0, -1]


@at(V)
def odeint(x: Any) -> Any:
    return np.sum(sq.odeint(lambda y, t: -(x[0] ** 2) * y, x[1:3], np.linspace(0, 1, 5), rtol=1e-10, atol=1e-10))


@at(V)
def rootb(x: Any) -> Any:
    return (
        so.brentq(lambda t: t**3 + t - x[0] - x[1] ** 2, -5, 5)
        + so.root(lambda z: z**3 + z - x[:3], np.zeros(3), tol=1e-12).x.sum()
        + so.newton(lambda t: t**3 + t - x[3], 0.5)
    )


@at(V)
def minim(x: Any) -> Any:
    return so.minimize(lambda z: np.sum((z - x[:2]) ** 4 + (z - x[2:4]) ** 2), np.zeros(2), tol=1e-12).x.sum()


@at(V)
def lsq(x: Any) -> Any:
    return so.least_squares(lambda z: z**2 + z - x[:2] ** 2 - 1, np.ones(2), xtol=1e-14, ftol=1e-14, gtol=1e-14).x.sum()


@at(V)
def curve(x: Any) -> Any:
    return so.curve_fit(lambda t, a, b: a * np.exp(-b * t), np.arange(6.0), np.exp(-0.3 * np.arange(6.0)) + 0.01 * x)[0].sum()


@at(V)
def nnls_(x: Any) -> Any:
    return so.nnls(np.abs(S), np.abs(x) + 1)[0].sum()


@at(V)
def lin(x: Any) -> Any:
    B = S + np.diag(x**2)
    return (
        sl.det(B) ** 0.1
        + sl.inv(B).sum()
        + sl.expm(0.1 * B)[0, 0]
        + sl.sqrtm(B).sum()
        + sl.logm(B).sum()
        + np.sum(sl.eigvalsh(B))
    )


@at(V)
def lin2(x: Any) -> Any:
    B = S + np.diag(x**2)
    c = sl.cho_factor(B)
    l = sl.lu_factor(B)
    q, r = sl.qr(B)
    return (
        np.sum(sl.cho_solve(c, x)) + np.sum(sl.lu_solve(l, x)) + np.sum(np.abs(np.diag(r))) + sl.norm(B) + np.sum(sl.svdvals(B))
    )


@at(V)
def lyap(x: Any) -> Any:
    B = S + np.diag(x**2)
    return (
        np.sum(sl.solve_continuous_lyapunov(B, np.eye(6)))
        + np.sum(sl.solve_sylvester(B, np.eye(6), np.outer(x, x)))
        + np.sum(sl.solve_discrete_lyapunov(B / 100, np.eye(6)))
    )


@at(V)
def care(x: Any) -> Any:
    B = np.diag(x) + A / 5
    return np.sum(sl.solve_continuous_are(B, np.eye(6), np.eye(6), np.eye(6)))


@at(V)
def toep(x: Any) -> Any:
    return (
        np.sum(sl.toeplitz(x) @ V)
        + np.sum(sl.hankel(x) @ V)
        + np.sum(sl.circulant(x) @ V)
        + np.sum(sl.solve_toeplitz(np.r_[9.0, x[1:]], V))
        + np.sum(sl.block_diag(x[:2], x[2:]))
    )


@at(S)
def ndim(x: Any) -> Any:
    return (
        np.sum(nd.gaussian_filter(x, 1.0) ** 2)
        + np.sum(nd.sobel(x) ** 2)
        + np.sum(nd.map_coordinates(x, [[1.2, 2.3], [0.5, 3.1]], order=1))
        + np.sum(nd.zoom(x, 1.5, order=1))
        + np.sum(nd.rotate(x, 30, order=1, reshape=False))
    )


@at(A)
def ndim2(x: Any) -> Any:
    return (
        np.sum(nd.uniform_filter(x, 3) ** 2)
        + np.sum(nd.median_filter(x, 3))
        + np.sum(nd.laplace(x) ** 2)
        + np.sum(nd.convolve(x, A[:3, :3]) ** 2)
        + np.sum(nd.shift(x, 0.4, order=3))
        + np.sum(nd.maximum_filter(x, 3))
    )


@at(S)
def ndim3(x: Any) -> Any:
    l = np.arange(36).reshape(6, 6) % 3
    return (
        np.sum(nd.sum_labels(x, l, [0, 1, 2]) ** 2)
        + np.sum(nd.mean(x, l, [0, 1, 2]) ** 2)
        + np.sum(np.array(nd.center_of_mass(x)))
    )


@at(V)
def ffts(x: Any) -> Any:
    return (
        np.sum(sf.dct(x) ** 2 * V)
        + np.sum(np.abs(sf.rfft(x)) ** 3)
        + np.sum(sf.dst(x, type=3) ** 3)
        + np.sum(np.abs(sf.fft2(x.reshape(2, 3))) ** 3)
    )


@at(P)
def spec(x: Any) -> Any:
    return np.sum(
        ss.gammainc(2.0, x)
        + ss.betainc(2.0, 3.0, x)
        + ss.erfinv(x * 0.9)
        + ss.jv(1, x)
        + ss.i0e(x)
        + ss.kv(1.5, x)
        + ss.zeta(2 + x)
        + ss.polygamma(1, x + 1)
        + ss.expi(x)
        + ss.hyp2f1(1, 2, 3, x * 0.5)
        + ss.ellipk(x)
        + ss.lambertw(x).real
        + ss.airy(x)[0]
        + ss.struve(1, x)
        + ss.voigt_profile(x, 1.0, 0.5)
    )


@at(P)
def spec2(x: Any) -> Any:
    return np.sum(
        ss.softmax(x) ** 2
        + ss.log_softmax(x)
        + ss.logit(x)
        + ss.xlogy(x, x)
        + ss.entr(x)
        + ss.rel_entr(x, 0.5)
        + ss.huber(0.5, x)
        + ss.eval_legendre(3, x)
        + ss.sph_harm_y(1, 0, x, 0.3).real
        + ss.comb(5.5, x)
        + ss.factorial(x)
        + ss.binom(5, x)
        + ss.wofz(x).real
        + ss.dawsn(x)
        + ss.fresnel(x)[0]
        + ss.sici(x)[0]
    )


@at(V)
def poly(x: Any) -> Any:
    p = np.polynomial.Polynomial(x)
    return (
        p(0.3)
        + p.deriv()(0.2)
        + p.integ()(0.4)
        + np.polyval(x, 0.5)
        + np.sum(np.polyfit(np.arange(6.0), x, 2))
        + np.polynomial.chebyshev.chebval(0.2, x)
    )


@at(V)
def masked(x: Any) -> Any:
    m = np.ma.masked_where(V > 0.5, x)
    return m.mean() + m.sum() + m.std() + np.ma.median(m)


@at(V)
def stru(x: Any) -> Any:
    t = np.zeros(6, dtype=[("a", float), ("b", float)])
    t["a"] = x
    t["b"] = x**2
    return np.sum(t["a"] * t["b"])


@at(V)
def objarr(x: Any) -> Any:
    o = np.array([x[0], x[1] ** 2, x[2] * x[3]], dtype=object)
    return np.sum(o**2) + o.dot(np.array([1.0, 2.0, 3.0]))


@at(V)
def vect(x: Any) -> Any:
    f = np.vectorize(lambda a, b: a * b if a > 0 else a - b)
    return np.sum(f(x, V)) + np.sum(np.apply_along_axis(lambda r: r * np.sum(r), 0, x.reshape(2, 3)))


@at(V)
def windows(x: Any) -> Any:
    w = np.lib.stride_tricks.sliding_window_view(x, 3)
    return np.sum(np.max(w, axis=1) * np.mean(w, axis=-1))


@at(V)
def ufuncs(x: Any) -> Any:
    return (
        np.sum(np.add.accumulate(x) * np.multiply.reduceat(x, [0, 2, 4])[0])
        + np.sum(np.subtract.outer(x, x) ** 3 * V)
        + np.logaddexp.reduce(x)
        + np.maximum.accumulate(x).sum()
    )


@at(V)
def kmeans(x: Any) -> Any:
    from scipy.cluster.vq import vq, whiten

    c, d = vq(np.stack([x, x**2], 1), np.array([[0.0, 0.0], [1.0, 1.0]]))
    return np.sum(d**2) + np.sum(whiten(np.stack([x, x**2], 1)))
