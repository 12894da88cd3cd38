"""Cases of funcad.scipy.interpolate: the interpolators are made and called."""

import numpy as np

from tests.surface import case

RNG = np.random.default_rng(7)
X = np.array([-1.0, -0.2, 0.5, 1.1, 2.0, 2.4])
Y, SLOPES = RNG.normal(size=(6, 2)), RNG.normal(size=(6, 2))
RISING = np.cumsum(np.abs(Y), axis=0)
Q = np.array([[-0.7, 0.1], [1.3, 2.25]])
CPU = {"cupy": "x is for SciPy: it stays on the CPU"}
GRID, VALUES = (np.array([0.0, 0.7, 1.5]), np.array([2.0, 1.1, 0.3, -0.4])), RNG.normal(size=(3, 4, 2))
PLACES = np.array([[0.2, 0.5], [1.05, -0.1], [0.9, 1.7]])


def of(*settings, **options):
    """Make the interpolator and call it with the last argument."""

    def call(make, *args):
        return make(*args[:-1], *settings, **options)(args[-1])

    return call


def on_grid(**options):
    return lambda make, a, b, values, xi: make((a, b), values, **options)(xi)


CASES = [
    *[
        case("scipy.interpolate.CubicSpline", X, Y, Q, static=(0,), missing=CPU, call=of(bc_type=b))
        for b in ("not-a-knot", "natural", "clamped")
    ],
    case("scipy.interpolate.CubicSpline", X, Y[:, 0], Q, static=(0,), missing=CPU, call=of(bc_type=((1, 0.5), (2, -0.3)))),
    case("scipy.interpolate.CubicSpline", X, Y, Q, static=(0,), missing=CPU, call=lambda make, x, y, q: make(x, y)(q, 1)),
    *[case("scipy.interpolate.make_interp_spline", X, Y, Q, static=(0,), missing=CPU, call=of(k)) for k in (1, 2, 3)],
    case("scipy.interpolate.PchipInterpolator", X, RISING, Q, call=of()),
    case("scipy.interpolate.CubicHermiteSpline", X, Y, SLOPES, Q, call=of()),
    *[
        case("scipy.interpolate.interp1d", X, Y, Q, call=of(kind, axis=0, assume_sorted=True, bounds_error=False))
        for kind in ("linear", "nearest", "previous", "next")
    ],
    case("scipy.interpolate.interp1d", X, Y, Q, static=(0,), missing=CPU, call=of("cubic", axis=0, bounds_error=False)),
    case("scipy.interpolate.interp1d", X, Y, Q + 0.93, call=of("linear", axis=0, fill_value="extrapolate")),
    *[
        case("scipy.interpolate.RegularGridInterpolator", *GRID, VALUES, PLACES, call=on_grid(bounds_error=False, **o))
        for o in (dict(), dict(method="nearest"), dict(fill_value=None))
    ],
    case(
        "scipy.interpolate.interpn",
        *GRID,
        VALUES,
        PLACES,
        call=lambda f, a, b, v, xi: f((a, b), v, xi, bounds_error=False, fill_value=0.0),
    ),
]
for c in CASES:
    c.agreement = 1e-11
KNOTS, COEFFICIENTS = np.array([0.0, 0.0, 0.0, 1.1, 2.9, 2.9, 2.9]), np.array([0.4, -1.2, 0.9, 0.3])
SCATTER = np.array([[0.0, 0.0], [1.0, 0.1], [0.2, 1.1], [1.2, 0.9], [0.5, 0.4]])
NEW = [
    case("scipy.interpolate.Akima1DInterpolator", X, RISING, Q, call=of()),
    case("scipy.interpolate.BSpline", KNOTS, COEFFICIENTS, Q, static=(0,), call=lambda f, t, c, x: f(t, c, 2)(x), missing=CPU),
    case("scipy.interpolate.splev", Q, KNOTS, COEFFICIENTS, static=(1,), call=lambda f, x, t, c: f(x, (t, c, 2)), missing=CPU),
    case("scipy.interpolate.splint", 0.3, 1.9, KNOTS, COEFFICIENTS, static=(2,), missing=CPU,
         call=lambda f, a, b, t, c: f(a, b, (t, c, 2))),
    case("scipy.interpolate.splrep", X, Y[:, 0], static=(0,), missing=CPU, call=lambda f, x, y: f(x, y)[1]),
    *[case(f"scipy.interpolate.{n}", X, Y[:, 0], Q, static=(0,), missing=CPU, call=lambda f, x, y, q, o=o: f(x, y, **o)(q))
      for n, o in (("UnivariateSpline", {"s": 0}), ("InterpolatedUnivariateSpline", {}),
                   ("LSQUnivariateSpline", {"t": [1.37], "k": 2}))],
    case("scipy.interpolate.make_lsq_spline", X, Y, Q, static=(0,), missing=CPU,
         call=lambda f, x, y, q: f(x, y, np.r_[(x[0],) * 3, 1.37, (x[-1],) * 3], 2)(q)),
    case("scipy.interpolate.RBFInterpolator", SCATTER, SCATTER[:, 0] ** 2, SCATTER[:2] + 0.15, missing=CPU,
         call=lambda f, y, d, x: f(y, d, kernel="cubic")(x)),
    case("scipy.interpolate.griddata", SCATTER, SCATTER[:, 0] ** 2, 0.5 * SCATTER[1:3] + 0.2, missing=CPU),
]  # fmt: skip
for c in NEW:
    c.agreement = 1e-9
CASES += NEW
