"""Calls of functions that go by their own code: what is compared with the library's values and with differences.

`CALLS`: module -> calls, a line each, of the samples below. Functions of the table `CERTIFIED` (funcad/lifting) stand here, and
no others.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

_draws = np.random.default_rng(0)
_x, _y = _draws.normal(size=12), _draws.normal(size=12)
_square = _draws.normal(size=(3, 3))
SAMPLES: dict[str, Any] = {
    "np": np,
    "x": _x,
    "y": _y,
    "p": np.exp(_x),
    "u": 1 / (1 + np.exp(_x)),
    "t": np.linspace(0, 1, 12),
    "i": np.arange(12) % 3,
    "sq": _square,
    "m": _draws.normal(size=(4, 3)),
    "big": _draws.normal(size=40),
    "v": _draws.normal(size=4),
    "w": _draws.normal(size=4),
    "b": np.array([1.0, 0.5, 0.2]),
    "a": np.array([1.0, -0.3, 0.1]),
    "cube": _draws.normal(size=(2, 2, 2)),
}

# Whose shapes depend on values, so that lanes cannot be mapped together
NOT_MAPPED = {"bilinear", "lagrange", "approximate_taylor_polynomial"}
# ... and programs have none
NOT_COMPILED = {*NOT_MAPPED, "residue", "pade", "wilcoxon"}  # the last one: a traced count is the key of a dict
NOT_COMPILED |= {"kmeans"}  # it draws, so what calls it by its name runs un-jitted; here nobody sees the name

CALLS: dict[str, str] = {
    "scipy.stats": """
        linregress(x, y)
        entropy(p)
        gmean(p)
        hmean(p)
        pmean(p, 3)
        skew(x)
        kurtosis(x)
        spearmanr(x, y)
        pearsonr(x, y)
        ttest_1samp(x, 0.1)
        ttest_ind(x, y)
        ttest_rel(x, y)
        ttest_ind_from_stats(1.0, 2.0, 10, 1.5, 2.5, 12)
        iqr(x)
        trim_mean(x, 0.1)
        zscore(x)
        zmap(x, y)
        gzscore(p)
        gstd(p)
        moment(x, 3)
        variation(p)
        tmean(x)
        tvar(x)
        tstd(x)
        tsem(x)
        tmin(x)
        tmax(x)
        skewtest(x)
        kurtosistest(big)
        normaltest(big)
        jarque_bera(x)
        circmean(x)
        circvar(x)
        circstd(x)
        f_oneway(x, y)
        levene(x, y)
        bartlett(x, y)
        mannwhitneyu(x, y)
        wilcoxon(x, y)
        kruskal(x, y)
        friedmanchisquare(x, y, p)
        chisquare(p)
        power_divergence(p)
        obrientransform(x, y)
        boxcox(p, 0.3)
        boxcox_llf(0.3, p)
        yeojohnson(x, 0.3)
        yeojohnson_llf(0.3, x)
        median_abs_deviation(x)
        trimboth(x, 0.1)
        trim1(x, 0.1)
        scoreatpercentile(x, 30.0)
        wasserstein_distance(x, y)
        energy_distance(x, y)
        theilslopes(x, y)
        differential_entropy(x)
        kstat(x, 2)
        kstatvar(x, 2)
        ansari(x, y)
        mood(x, y)
        fligner(x, y)
        brunnermunzel(x, y)
        ranksums(x, y)
        ks_2samp(x, y)
        cramervonmises_2samp(x, y)
        epps_singleton_2samp(x, y)
        expectile(x, 0.3)
        alexandergovern(x, y)
        combine_pvalues(u)
        pointbiserialr(i, y)
        probplot(x)
        quantile(x, 0.3)
        lmoment(big)
        directional_stats(m)
        sigmaclip(x)
        false_discovery_control(u)
        describe(x)
    """,
    "scipy.signal": """
        wiener(x, 3)
        decimate(big, 2)
        freqs(b, a)
        bilinear(b, a)
        tf2zpk(b, a)
        zpk2tf(v, w, 2.0)
        tf2sos(b, a)
        tf2ss(b, a)
        lsim((b, a), x, t)
        deconvolve(x, b)
        coherence(x, y, 1.0, "hann", 6)
        periodogram(x)
        welch(x, 1.0, "hann", 6)
        chirp(t, 1.0, 1.0, 6.0)
        sawtooth(x)
        gausspulse(t)
        sweep_poly(t, b)
        czt(x)
        zoom_fft(x, 0.5)
        hilbert2(m)
        residue(b, a)
        vectorstrength(p, 0.7)
        cspline1d(x)
        qspline1d(x)
        freqz_zpk(v, w, 2.0)
        normalize(b, a)
        lp2lp(b, a)
        lp2hp(b, a)
        freqz(b, a, 8)
        firwin(9, u[:1] * 0.5)
        butter(3, u[0] * 0.5)
        cheby1(3, p[0], 0.3)
        iirpeak(0.3, p[0] * 10)
        iirnotch(0.3, p[0] * 10)
        square(x, 0.3)
    """,
    "scipy.signal.windows": """
        gaussian(9, p[0] * 3)
        general_gaussian(9, 1.5, p[0] * 3)
        kaiser(9, p[0] * 3)
        exponential(9, None, p[0] * 3)
        tukey(9, u[0])
    """,
    "scipy.integrate": """
        romb(big[:17])
    """,
    "scipy.spatial": """
        distance_matrix(m, m[:2] + 1)
    """,
    "scipy.linalg": """
        fiedler(v)
        cdf2rdf(v.astype(complex), np.eye(4))
        subspace_angles(m, m + 1)
        expm_cond(sq)
        matmul_toeplitz(v, w)
        diagsvd(v, 4, 4)
    """,
    "scipy.special": """
        diric(x, 5)
        assoc_laguerre(x, 2, 1)
    """,
    "scipy.interpolate": """
        lagrange(v, w)
        pade(x, 2)
        barycentric_interpolate(v, w, 0.3)
        krogh_interpolate(v, w, 0.3)
        pchip_interpolate(t, x, 0.3)
        approximate_taylor_polynomial(np.exp, 0.1, 2, 1.0)
    """,
    "scipy.optimize": """
        rosen(x)
        rosen_der(x)
        rosen_hess(x)
        rosen_hess_prod(x, y)
    """,
    "scipy.ndimage": """
        center_of_mass(m)
        mean(x, i, [0, 1])
        variance(x, i, [0, 1])
        standard_deviation(x, i, [0, 1])
        sum_labels(x, i, [0, 1])
        maximum(x, i, [0, 1])
        median(x, i, [0, 1])
    """,
    "scipy.cluster.vq": """
        kmeans(m, m[:2])
        kmeans2(m, m[:2], 4, 1e-5, "matrix")
        whiten(m)
    """,
    "scipy.fft": """
        fht(x, 0.1, 0.3)
    """,
    "numpy.lib.stride_tricks": """
        sliding_window_view(x, 3)
        as_strided(x, (4, 3), (8, 8))
    """,
    "numpy.polynomial.polyutils": """
        trimcoef(v)
        mapdomain(x, [0.0, 1.0], [0.0, 2.0])
        getdomain(x)
        as_series(sq)
        mapparms(p[:2], [0.0, 2.0])
    """,
    "numpy.polynomial.polynomial": """
        polyval(0.3, v)
        polyval2d(0.3, 0.2, sq)
        polyval3d(0.3, 0.2, 0.1, cube)
        polygrid2d(v, w, sq)
        polyadd(v, w)
        polysub(v, w)
        polymul(v, w)
        polymulx(v)
        polydiv(x[:5], v)
        polypow(v, 3)
        polyder(v)
        polyint(v)
        polyfit(t, x, 2)
        polyfromroots(v)
        polyroots(v)
        polycompanion(v)
        polyvander(x, 2)
        polyvander2d(v, w, [1, 1])
        polyvalfromroots(0.3, v)
        polyline(0.3, 2.0)
    """,
    "numpy.polynomial.chebyshev": """
        chebval(0.3, v)
        chebadd(v, w)
        chebmul(v, w)
        chebmulx(v)
        chebdiv(x[:5], v)
        chebpow(v, 2)
        chebder(v)
        chebint(v)
        chebfit(t, x, 2)
        chebfromroots(v)
        chebroots(v)
        chebvander(x, 2)
        cheb2poly(v)
        poly2cheb(v)
        chebcompanion(v)
        chebval2d(0.3, 0.2, sq)
        chebgrid2d(v, w, sq)
        chebweight(u)
        chebsub(v, w)
        chebline(0.3, 2.0)
    """,
    "numpy.polynomial.legendre": """
        legval(0.3, v)
        legadd(v, w)
        legmul(v, w)
        legder(v)
        legint(v)
        legfit(t, x, 2)
        legfromroots(v)
        legroots(v)
        legvander(x, 2)
        leg2poly(v)
        poly2leg(v)
        legmulx(v)
        legsub(v, w)
        legdiv(x[:5], v)
        legpow(v, 2)
        legline(0.3, 2.0)
    """,
    "numpy.polynomial.hermite": """
        hermval(0.3, v)
        hermmul(v, w)
        hermder(v)
        hermint(v)
        hermfit(t, x, 2)
        hermroots(v)
        hermvander(x, 2)
        herm2poly(v)
        poly2herm(v)
        hermweight(x)
        hermadd(v, w)
        hermsub(v, w)
        hermdiv(x[:5], v)
        hermpow(v, 2)
        hermfromroots(v)
        hermline(0.3, 2.0)
    """,
    "numpy.polynomial.hermite_e": """
        hermeval(0.3, v)
        hermemul(v, w)
        hermeder(v)
        hermeint(v)
        hermefit(t, x, 2)
        hermeroots(v)
        herme2poly(v)
        poly2herme(v)
        hermeweight(x)
        hermeadd(v, w)
        hermesub(v, w)
        hermediv(x[:5], v)
        hermepow(v, 2)
        hermefromroots(v)
        hermevander(x, 2)
        hermeline(0.3, 2.0)
    """,
    "numpy.polynomial.laguerre": """
        lagval(0.3, v)
        lagmul(v, w)
        lagder(v)
        lagint(v)
        lagfit(t, x, 2)
        lagroots(v)
        lag2poly(v)
        poly2lag(v)
        lagweight(x)
        lagadd(v, w)
        lagsub(v, w)
        lagdiv(x[:5], v)
        lagpow(v, 2)
        lagfromroots(v)
        lagvander(x, 2)
        lagline(0.3, 2.0)
    """,
}


class Call(NamedTuple):
    """A call of a library's function, and the place of the argument that is differentiated."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    at: int

    def of(self, value: Any) -> Any:
        args = list(self.args)
        args[self.at] = value
        return total(self.function(*args))

    @property
    def value(self) -> Any:
        return self.args[self.at]


def total(result: Any) -> Any:
    """A number that depends on all that was computed."""
    if hasattr(result, "statistic"):
        result = (result.statistic, getattr(result, "pvalue", 0.0))
    if hasattr(result, "slope"):
        result = (result.slope, result.intercept)
    if isinstance(result, (tuple, list)):
        return sum(map(total, result))
    if isinstance(result, np.poly1d):
        result = result.coeffs
    kind = getattr(result, "dtype", np.dtype(type(result) if isinstance(result, (int, float, complex)) else bool)).kind
    if kind == "c":
        return np.sum(np.cos(np.real(result))) + np.sum(np.sin(np.imag(result)))
    return np.sum(np.cos(result) * 1.0) if kind == "f" else 0.0


def is_float(x: Any) -> bool:
    return isinstance(x, float) or isinstance(x, np.ndarray) and x.dtype.kind == "f"


def all_calls() -> list[Call]:
    found = []
    for module, lines in CALLS.items():
        for line in lines.split("\n"):
            name, bracket, rest = line.strip().partition("(")
            function = getattr(importlib.import_module(module), name, None)
            if bracket and function is not None:  # this version of the library may not have it
                args = eval(f"({rest[:-1]},)", dict(SAMPLES))
                at = next((k for k, x in enumerate(args) if is_float(x)), None)
                assert at is not None, line
                found.append(Call(f"{module}.{name}", function, args, at))
    return found
