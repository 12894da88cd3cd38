"""Cases of funcad.numpy's reductions and statistics."""

import numpy as np

from tests.surface import case

X = np.array([[-1.3, 0.4, 2.1], [0.7, -0.2, 1.6]])
W = np.array([[0.6, 1.7, 0.9], [1.2, 2.3, 0.5]])
V = np.array([0.5, -1.5, 2.5, 0.9, 1.1])
C = np.array([[0.5 + 0.3j, -1.2 + 0.8j], [0.9 - 0.4j, 1.5 + 0.0j]])
N = np.array([[-1.3, np.nan, 2.1], [0.7, -0.2, 1.6]])
I = np.array([[3, -4, 7], [1, 2, -6]])
M = np.array([[True, False, True], [False, True, True]])
EMPTY = np.zeros((0, 3))

HIST = "the counts do not depend smoothly on the data"

CASES = [
    *[
        case(f"numpy.{n}", X)
        for n in "sum mean prod max min amax amin std var ptp median any all argmax argmin count_nonzero".split()
    ],
    *[case(f"numpy.{n}", X, 1) for n in "sum mean prod max min std var ptp median any all argmax argmin count_nonzero".split()],
    *[case(f"numpy.{n}", X, kwargs={"axis": (0, 1), "keepdims": True}) for n in "sum mean prod max min std var median".split()],
    *[case(f"numpy.{n}", X, kwargs={"axis": 0, "where": M}) for n in "sum mean prod std var".split()],
    *[
        case(f"numpy.{n}", X, kwargs={"axis": 0, "where": M, "initial": v})
        for n, v in (("max", -5.0), ("min", 5.0), ("sum", 2.0))
    ],
    *[case(f"numpy.{n}", C, 0) for n in "sum mean prod std var cumsum cumprod".split()],
    *[case(f"numpy.{n}", I, 0) for n in "sum mean prod max min std var cumsum cumprod argmax".split()],
    *[case(f"numpy.{n}", EMPTY, 0) for n in "sum prod any all".split()],
    *[case(f"numpy.{n}", X, kwargs={"ddof": 1}) for n in "std var".split()],
    case("numpy.sum", X, kwargs={"dtype": np.complex128}),
    *[case(f"numpy.{n}", X) for n in "cumsum cumprod nancumsum nancumprod".split()],
    *[case(f"numpy.{n}", X, 1) for n in "cumsum cumprod nancumsum nancumprod".split()],
    *[case(f"numpy.{n}", X, kwargs={"axis": 1, "include_initial": True}) for n in "cumulative_sum cumulative_prod".split()],
    *[
        case(f"numpy.{n}", X)
        for n in "nansum nanmean nanprod nanmax nanmin nanstd nanvar nanmedian nanargmax nanargmin".split()
    ],
    *[
        case(f"numpy.{n}", X, 1)
        for n in "nansum nanmean nanprod nanmax nanmin nanstd nanvar nanmedian nanargmax nanargmin".split()
    ],
    *[
        case(f"numpy.{n}", N, 1, nondiff=(0,))
        for n in "nansum nanmean nanprod nanmax nanmin nanstd nanvar nanmedian nanargmax".split()
    ],
    case("numpy.average", X),
    case("numpy.average", X, 0, W),
    case("numpy.average", X, kwargs={"axis": 1, "weights": W[0], "returned": True}),
    *[case(f"numpy.{n}", X, 30.0, nondiff=(1,)) for n in "percentile nanpercentile".split()],
    *[case(f"numpy.{n}", X, 0.3) for n in "quantile nanquantile".split()],
    *[case(f"numpy.{n}", V, np.array([0.2, 0.6])) for n in "quantile nanquantile".split()],
    *[
        case("numpy.quantile", V, 0.3, kwargs={"method": m}, nondiff=(1,))
        for m in (
            "lower",
            "higher",
            "midpoint",
            "nearest",
            "hazen",
            "weibull",
            "median_unbiased",
            "inverted_cdf",
            "averaged_inverted_cdf",
            "closest_observation",
        )
    ],
    case("numpy.percentile", X, [20.0, 70.0], kwargs={"axis": 1, "keepdims": True}, nondiff=(1,)),
    case("numpy.cov", X),
    case("numpy.cov", X, W, kwargs={"rowvar": False}),
    case("numpy.cov", X, kwargs={"aweights": np.array([1.0, 2.0, 0.5]), "bias": True}),
    case("numpy.corrcoef", X),
    case("numpy.corrcoef", X, kwargs={"rowvar": True}),
    case("numpy.histogram", V, 4),
    case("numpy.histogram", V, 4, kwargs={"range": (-2.1, 3.0), "weights": np.ones(5)}),
    case("numpy.histogram", V, np.array([-2.0, 0.0, 1.0, 3.0]), kwargs={"density": True}),
    case("numpy.histogram_bin_edges", V, 4),
    case("numpy.histogram2d", V, V[::-1].copy(), 3),
    case("numpy.histogram2d", V, V[::-1].copy(), [np.array([-2.0, 0.0, 3.0]), np.array([-2.0, 0.2, 3.0])], nondiff=(2,)),
    case("numpy.histogramdd", np.stack([V, V[::-1]], 1), 3),
    case(
        "numpy.bincount",
        np.array([0, 2, 1, 2]),
        V[:4],
    ),
    case(
        "numpy.bincount",
        np.array([0, 2, 1, 2]),
        V[:4],
        kwargs={"length": 4},
        reference=lambda x, w, length: np.bincount(x, w, length),
        missing={"plain": "length= is JAX's argument, not NumPy's"},
    ),
    case("numpy.digitize", V, np.array([-1.0, 0.7, 2.0])),
    case("numpy.digitize", V, np.array([2.0, 0.7, -1.0]), nondiff=(1,), static=(1,)),
    case("numpy.apply_over_axes", np.sum, X, [0, 1]),
    case("numpy.apply_along_axis", lambda row: row[0] * row.sum(), 1, X),
    case("numpy.apply_along_axis", lambda row: np.outer(row, row), 0, X),
]
