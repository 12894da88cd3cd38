"""Cases of funcad.scipy.ndimage."""

import numpy as np

from tests.surface import case

RNG = np.random.default_rng(5)
X = RNG.normal(size=(4, 5))
K, W = RNG.normal(size=(2, 3)), RNG.normal(size=3)
INNER = np.array([[0.3, 2.6, 1.45], [1.2, 3.7, 0.15]])
OUTER = np.array([[-1.3, 2.6, 4.45], [1.2, -0.7, 5.85]])
I = np.array([[3, -4, 7], [2, 5, 1]])
MODES = ("reflect", "grid-mirror", "constant", "grid-constant", "nearest", "mirror", "grid-wrap", "wrap")
GPU = {"cupy": "orders from 2 on need SciPy's spline filter"}

CASES = [
    case("scipy.ndimage.label", X),
    case("scipy.ndimage.rank_filter", X, 2, kwargs=dict(size=3)),
    case("scipy.ndimage.percentile_filter", X, 30, kwargs=dict(size=3)),
    *[
        case(
            "scipy.ndimage.map_coordinates",
            X,
            c,
            kwargs=dict(order=order, mode=mode, cval=0.5),
            missing=GPU if order > 1 else {},
        )
        for order, c, modes in (
            (1, OUTER, MODES),
            (3, OUTER, MODES),
            (0, INNER, MODES[:2]),
            (2, INNER, MODES[:1]),
            (5, INNER, MODES[4:5]),
        )
        for mode in modes
    ],
    case("scipy.ndimage.map_coordinates", X + 1j * X[::-1], INNER, kwargs=dict(order=1)),
    case(
        "scipy.ndimage.map_coordinates",
        I,
        np.array([[0.4, 0.8], [1.3, 0.6]]),
        kwargs=dict(order=1),
        order=0,
        missing={"jvp": "integers"},
    ),
    case("scipy.ndimage.spline_filter", X, missing=dict(GPU, dtype="SciPy's default output is float64")),
    case("scipy.ndimage.spline_filter1d", X, 3, 0, missing=dict(GPU, dtype="SciPy's default output is float64")),
    *[
        case(f"scipy.ndimage.{n}", X, W, kwargs=dict(mode=mode))
        for n in ("correlate1d", "convolve1d")
        for mode in ("reflect", "constant", "wrap")
    ],
    *[
        case(f"scipy.ndimage.{n}", X, K, kwargs=dict(mode=mode))
        for n in ("correlate", "convolve")
        for mode in ("mirror", "nearest")
    ],
    *[case(f"scipy.ndimage.{n}", X, kwargs=dict(sigma=0.7)) for n in ("gaussian_filter", "gaussian_filter1d")],
    case("scipy.ndimage.gaussian_filter1d", X, 0.8, kwargs=dict(radius=2, order=1)),
    case("scipy.ndimage.gaussian_filter", X, 0.8, kwargs=dict(radius=2)),
    *[case(f"scipy.ndimage.{n}", X, kwargs=dict(size=3)) for n in ("uniform_filter", "uniform_filter1d")],
    *[case(f"scipy.ndimage.{n}", X) for n in ("sobel", "prewitt", "laplace")],
    *[case(f"scipy.ndimage.{n}", I) for n in ("sobel", "laplace")],
]
for c in CASES:
    c.agreement = 1e-12
MOVED = np.random.default_rng(21).normal(size=(5, 6))
BY_SPLINES = {"cupy": "splines of order 2 and more are computed on the CPU"}
CASES += [
    case("scipy.ndimage.shift", MOVED, np.array([0.4, -1.3]), agreement=1e-11, missing=BY_SPLINES),
    case("scipy.ndimage.zoom", MOVED, kwargs={"zoom": 1.6}, agreement=1e-11, missing=BY_SPLINES),
    case("scipy.ndimage.rotate", MOVED, 31.0, kwargs={"reshape": False}, agreement=1e-11, missing=BY_SPLINES),
    case("scipy.ndimage.affine_transform", MOVED, np.array([[0.9, 0.2], [-0.1, 1.1]]), kwargs={"mode": "mirror"},
         agreement=1e-11, missing=BY_SPLINES),
    case("scipy.ndimage.gaussian_laplace", MOVED, kwargs={"sigma": 1.2}, agreement=1e-11),
    case("scipy.ndimage.gaussian_gradient_magnitude", MOVED, kwargs={"sigma": 1.2}, agreement=1e-11),
    *[case(f"scipy.ndimage.{n}_filter", MOVED, kwargs={"size": 3}) for n in ("median", "maximum", "minimum")],
]  # fmt: skip
