"""Cases of funcad.scipy.stats. SciPy's distributions compute in float64; ours keep float32, so the references are rounded."""

import importlib

import numpy as np

from funcad import random
from funcad.scipy import stats
from tests.surface import case

METHODS = ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf")
X = np.array([0.37, 0.9, 1.8])
Q = np.array([0.07, 0.42, 0.93])
K = np.array([1, 2, 4])

CONTINUOUS = {  # name -> (x, parameters)
    "cauchy": (X - 1.0, ()),
    "expon": (X, ()),
    "gennorm": (X - 1.0, (1.6,)),
    "gumbel_l": (X - 1.0, ()),
    "gumbel_r": (X - 1.0, ()),
    "halfnorm": (X, ()),
    "laplace": (X - 1.0, ()),
    "logistic": (X - 1.0, ()),
    "lognorm": (X, (0.7,)),
    "norm": (X - 1.0, ()),
    "pareto": (X + 1.1, (2.3,)),
    "rayleigh": (X, ()),
    "skewnorm": (X - 1.0, (1.7,)),
    "truncnorm": (X - 1.0, (-1.1, 1.9)),
    "uniform": (X / 2.0, ()),
    "weibull_min": (X, (1.6,)),
    "beta": (X / 2.0, (2.1, 0.7)),
    "chi2": (X, (3.3,)),
    "f": (X, (3.2, 5.5)),
    "gamma": (X, (2.2,)),
    "invgamma": (X, (2.4,)),
    "t": (X - 1.0, (3.7,)),
    "vonmises": (X - 1.0, (2.2,)),
    "wrapcauchy": (X, (0.4,)),
}
DISCRETE = {
    "bernoulli": ((), 0.3),
    "betabinom": ((6,), 1.3, 2.2),
    "binom": ((7,), 0.3),
    "geom": ((), 0.3),
    "nbinom": ((), 3.5, 0.4),
    "poisson": ((), 2.7),
}
HOST = "SciPy's own values, computed on the CPU"


def rounded(path):
    """SciPy's function, its result in the dtype of the float arguments."""

    def reference(*args, **kwargs):
        name, method = path.split(".")
        out = getattr(getattr(importlib.import_module("scipy.stats"), name), method)(*args, **kwargs)
        given = [np.asarray(a).dtype for a in args if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
        return np.asarray(out).astype(np.result_type(*given) if given else np.float64)[()]

    return reference


def continuous(name, method, x, *parameters, **options):
    path = f"{name}.{method}"
    return case(f"scipy.stats.{path}", x, *parameters, reference=rounded(path), quiet=True, agreement=1e-9, **options)


def on_host(name, method):
    if name == "skewnorm" and "pdf" not in method or name == "vonmises" and method in ("ppf", "isf"):
        return {"cupy": HOST}
    if name == "truncnorm" and method in ("ppf", "isf") or (name, method) == ("beta", "isf"):
        return {"cupy": "cupyx.scipy.special has no ndtri_exp and betainccinv"}
    return {}


def of(name, x, parameters):
    scaled = x * 1.7 + 0.2
    place = (0.2, 1.7)
    for method in METHODS:
        yield continuous(name, method, scaled, *parameters, *place, missing=on_host(name, method))
    for method in ("ppf", "isf"):
        yield continuous(name, method, Q, *parameters, *place, tolerance=1e-5, missing=on_host(name, method))
    if parameters:
        column = [np.array([[p], [1.25 * p]]) for p in parameters]
        yield continuous(name, "logpdf", x, *column, id=f"scipy.stats.{name}.logpdf-broadcast")


def counts(name, fixed, *parameters):
    for method in ("logpmf", "pmf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"):
        first = Q if method in ("ppf", "isf") else K * 0 + (method == "pmf") if name == "bernoulli" else K
        if method in ("ppf", "isf"):
            yield case(
                f"scipy.stats.{name}.{method}",
                first,
                *fixed,
                *parameters,
                nondiff=tuple(range(1 + len(fixed) + len(parameters))),
                reference=rounded(f"{name}.{method}"),
                missing={"cupy": HOST},
            )
        else:
            yield case(
                f"scipy.stats.{name}.{method}",
                first,
                *fixed,
                *map(np.asarray, parameters),
                reference=rounded(f"{name}.{method}"),
                agreement=1e-9,
                quiet=True,
            )


MEAN, COV = np.array([0.3, -0.7]), np.array([[1.3, 0.4], [0.4, 0.9]])
V = np.array([[0.1, 0.5], [1.2, -0.4], [0.0, 2.0]])
P = np.array([[0.2, 0.5], [0.3, 0.1]])  # all but the last of each column
DATA, POINTS = np.array([[0.1, 1.3, -0.7, 2.2], [0.4, -0.2, 1.1, 0.9]]), np.array([[0.0, 0.8], [0.3, -0.5]])
LINE, WEIGHTS = np.array([0.1, 1.3, -0.7, 2.2]), np.array([0.2, 0.4, 0.3, 0.1])
TIED = np.array([[3.0, 1.0, 3.0, 2.0], [0.5, 0.5, 0.1, 0.5]])


def kde(method, *args, data=DATA, **options):
    """A case of a method of gaussian_kde(data), for data and the method's arguments."""

    def reference(data, *args):
        found = getattr(importlib.import_module("scipy.stats").gaussian_kde(data), method)(*args)
        return np.asarray(found, dtype=np.result_type(data))[()]

    return case(
        f"scipy.stats.gaussian_kde.{method}",
        data,
        *args,
        reference=reference,
        agreement=1e-9,
        **{"call": lambda function, data, *args: function(stats.gaussian_kde(data), *args), **options},
    )


def symmetric(cov):
    return 0.5 * (cov + cov.T) if getattr(cov, "ndim", 0) == 2 else cov


def factor(which):
    """The factor of SciPy's estimate, in the dtype of the data."""

    def reference(x, weights):
        estimate = importlib.import_module("scipy.stats").gaussian_kde(x, weights=weights)
        return getattr(estimate, f"{which}_factor")().astype(x.dtype)

    return reference


CASES = [
    *[c for name, (x, parameters) in CONTINUOUS.items() for c in of(name, x, parameters)],
    *[c for name, (fixed, *parameters) in DISCRETE.items() for c in counts(name, fixed, *parameters)],
    *[
        case(
            f"scipy.stats.multivariate_normal.{m}",
            *args,
            call=lambda f, x, mean, cov: f(x, mean, symmetric(cov)),
            reference=rounded(f"multivariate_normal.{m}"),
            agreement=1e-9,
        )
        for m in ("logpdf", "pdf")
        for args in ((V, MEAN, COV), (V[0], MEAN, COV), (V, MEAN, 1.7), (V, MEAN, np.array([1.7, 0.6])), (V[:, 0], 0.4, 1.7))
    ],
    *[
        case(f"scipy.stats.dirichlet.{m}", x, np.array([2.1, 0.8, 1.6]), reference=rounded(f"dirichlet.{m}"), agreement=1e-9)
        for m in ("logpdf", "pdf")
        for x in (P, P[:, 0])
    ],
    *[
        case(
            f"scipy.stats.multinomial.{m}",
            np.array([[1, 2, 3], [0, 6, 0]]),
            6,
            np.array([0.2, 0.3, 0.5]),
            reference=lambda x, n, p, m=m: getattr(stats.multinomial, m)(x, n, p),  # SciPy replaces the last probability
        )
        for m in ("logpmf", "pmf")
    ],
    kde("evaluate", POINTS),
    kde("pdf", np.array([0.2, 1.9]), data=LINE),
    kde("logpdf", POINTS),
    kde("integrate_gaussian", MEAN, COV, call=lambda f, data, mean, cov: f(stats.gaussian_kde(data), mean, symmetric(cov))),
    case(
        "scipy.stats.gaussian_kde.resample",
        DATA,
        random.key(3),
        call=lambda f, data, key: f(stats.gaussian_kde(data), key, (3,)),
        reference=False,
    ),
    kde("integrate_box_1d", -0.4, 1.3, data=LINE),
    case(
        "scipy.stats.gaussian_kde.integrate_kde",
        DATA,
        POINTS[:, :1] + DATA,
        call=lambda f, a, b: f(stats.gaussian_kde(a), stats.gaussian_kde(b, "silverman")),
        reference=False,
    ),
    case(
        "scipy.stats.gaussian_kde.scotts_factor",
        LINE,
        WEIGHTS,
        call=lambda f, x, w: f(stats.gaussian_kde(x, weights=w)),
        reference=lambda x, w: (
            importlib.import_module("scipy.stats").gaussian_kde(x, weights=w).scotts_factor().astype(x.dtype)
        ),
    ),
    case(
        "scipy.stats.gaussian_kde.silverman_factor",
        LINE,
        WEIGHTS,
        call=lambda f, x, w: f(stats.gaussian_kde(x, "silverman", weights=w)),
        reference=lambda x, w: (
            importlib.import_module("scipy.stats").gaussian_kde(x, weights=w).silverman_factor().astype(x.dtype)
        ),
    ),
    *[
        case("scipy.stats.rankdata", TIED, order=0, nondiff=(0,), kwargs=dict(method=method, axis=axis), missing={})
        for method in ("average", "min", "max", "dense", "ordinal")
        for axis in (None, 0, -1)
    ],
    *[
        case("scipy.stats.mode", TIED, order=0, nondiff=(0,), kwargs=dict(axis=axis, keepdims=keepdims), gauge=list)
        for axis, keepdims in ((0, False), (1, False), (None, False), (1, True))
    ],
    *[case("scipy.stats.sem", TIED, kwargs=dict(axis=axis, ddof=ddof)) for axis, ddof in ((0, 1), (1, 0), (None, 1))],
]
