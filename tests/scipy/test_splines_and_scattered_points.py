"""Interpolators: SciPy's values, derivatives in the data and in the points, to second order, through plain scipy too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.interpolate
import scipy.signal
import scipy.sparse.linalg

import funcad.scipy.interpolate as ours
from funcad import grad, jacfwd, jacrev, jit, jvp, vjp, vmap
from funcad.testing import check_grads

pytestmark = pytest.mark.share(2)  # of its tables of cases

RNG = np.random.default_rng(4)
X = np.array([0.0, 0.4, 1.1, 1.5, 2.2, 3.0, 3.3])
Y = RNG.normal(size=7)
AT = np.array([0.13, 1.27, 2.95])
KNOTS = np.array([0.0, 0.0, 0.0, 0.0, 1.2, 2.4, 3.3, 3.3, 3.3, 3.3])
PLANE = RNG.uniform(-1, 1, size=(12, 2))
HEIGHT = np.cos(PLANE[:, 0]) * PLANE[:, 1]
INNER = np.array([[0.1, -0.05], [-0.2, 0.15]])
GRID = (np.array([0.0, 0.5, 1.2, 2.0, 2.5, 3.1]), np.array([0.0, 1.0, 1.7, 2.2, 3.5, 4.0]))
TABLE = RNG.normal(size=(6, 6, 2))
PLACES = np.array([[0.7, 1.9], [2.2, 3.1]])


def radial(kernel, **options):
    return lambda o, d, x: o.RBFInterpolator(PLANE, d, kernel=kernel, **options)(x)


def on_grid(method):
    exact = {"solver": scipy.sparse.linalg.spsolve} if method in ("cubic", "quintic") else {}  # SciPy's default iterates
    return lambda o, d, x: o.RegularGridInterpolator(GRID, d, method, **exact)(x)


CASES = {  # of a module, the data and the points of evaluation
    "BSpline": (lambda o, c, x: o.BSpline(KNOTS, c, 3)(x), Y[:6], AT),
    "BSpline's derivative": (lambda o, c, x: o.BSpline(KNOTS, c, 3).derivative()(x), Y[:6], AT),
    "splrep": (lambda o, y, x: o.splev(x, o.splrep(X, y)), Y, AT),
    "splrep with knots": (lambda o, y, x: o.splev(x, o.splrep(X, y, t=[1.2, 2.0], k=2), 1), Y, AT),
    "splint": (lambda o, y, x: o.splint(x[0], x[1], o.splrep(X, y)), Y, AT),
    "UnivariateSpline": (lambda o, y, x: o.UnivariateSpline(X, y, s=0)(x), Y, AT),
    "UnivariateSpline's slope": (lambda o, y, x: o.UnivariateSpline(X, y, s=0, k=4).derivative()(x), Y, AT),
    "its integral": (lambda o, y, x: o.UnivariateSpline(X, y, s=0).integral(x[0], x[2]), Y, AT),
    "kept outside": (lambda o, y, x: o.UnivariateSpline(X, y, s=0, ext=3)(x - 1.0), Y, AT),
    "Interpolated": (lambda o, y, x: o.InterpolatedUnivariateSpline(X, y, k=2)(x), Y, AT),
    "LSQ": (lambda o, y, x: o.LSQUnivariateSpline(X, y, [1.3, 2.5], k=2)(x, 1), Y, AT),
    "make_lsq_spline": (lambda o, y, x: o.make_lsq_spline(X, y, KNOTS[1:5].tolist() + [2.4, 3.3, 3.3, 3.3], 2)(x), Y, AT),
    "make_interp_spline": (lambda o, y, x: o.make_interp_spline(X, y, 5)(x), Y, AT),
    "Pchip": (lambda o, y, x: o.PchipInterpolator(X, y)(x), Y, AT),
    "Akima": (lambda o, y, x: o.Akima1DInterpolator(X, y)(x), Y, AT),
    "makima": (lambda o, y, x: o.Akima1DInterpolator(X, y, method="makima")(x), Y, AT),
    **{kernel: (radial(kernel), HEIGHT, INNER) for kernel in ("linear", "thin_plate_spline", "cubic", "quintic")},
    **{k: (radial(k, epsilon=1.3), HEIGHT, INNER) for k in ("multiquadric", "inverse_quadratic", "gaussian")},
    "inverse_multiquadric": (radial("inverse_multiquadric", epsilon=0.9, degree=1, smoothing=0.1), HEIGHT, INNER),
    **{f"grid {m}": (on_grid(m), TABLE, PLACES) for m in ("linear", "slinear", "cubic", "quintic", "pchip")},
    "griddata": (lambda o, d, x: o.griddata(PLANE, d, x), HEIGHT, INNER),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("o", [ours, scipy.interpolate], ids=["funcad", "scipy"])
@pytest.mark.parametrize("name", CASES)
def test_in_the_data_and_in_the_points(name, o):
    f, data, at = CASES[name]
    theirs = f(scipy.interpolate, data, at)
    g = lambda d, x: f(o, d, x)
    np.testing.assert_allclose(g(data, at), theirs, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(jit(g)(data, at) if "grid " not in name else g(data, at), theirs, rtol=1e-9, atol=1e-10)
    v, w, h = RNG.normal(size=data.shape), RNG.normal(size=at.shape), 1e-5
    for i, (x, d) in enumerate(((data, v), (at, w))):
        moved = lambda e, i=i, x=x, d=d: f(scipy.interpolate, *[x + e * d if k == i else a for k, a in enumerate((data, at))])
        expected = (moved(h) - moved(-h)) / (2 * h)
        for jacobian in (jacfwd, jacrev):
            j = jacobian(g, i)(data, at)
            np.testing.assert_allclose(np.tensordot(j, d, x.ndim), expected, rtol=1e-5, atol=1e-6, err_msg=f"{name} {i}")
    if o is ours and name not in ("griddata", "linear", "splint"):
        check_grads(g, (data, at), order=2, rtol=1e-4, atol=1e-4)
    batch = np.stack([data, 0.5 * data])
    np.testing.assert_allclose(vmap(lambda d: g(d, at))(batch)[0], theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["UnivariateSpline", "gaussian", "grid cubic", "BSpline", "Akima"])
def test_objects_of_known_values_meet_traced_points(name):
    objects = {
        "UnivariateSpline": scipy.interpolate.UnivariateSpline(X, Y, s=0.3),
        "gaussian": scipy.interpolate.RBFInterpolator(PLANE, HEIGHT, kernel="gaussian", epsilon=1.3),
        "grid cubic": scipy.interpolate.RegularGridInterpolator(GRID, TABLE, "cubic", solver=scipy.sparse.linalg.spsolve),
        "BSpline": scipy.interpolate.BSpline(KNOTS, Y[:6], 3),
        "Akima": scipy.interpolate.Akima1DInterpolator(X, Y),
    }
    f, at = objects[name], CASES[name][2]
    direction = RNG.normal(size=at.shape)
    expected = (f(at + 1e-5 * direction) - f(at - 1e-5 * direction)) / 2e-5
    np.testing.assert_allclose(np.tensordot(jacfwd(f)(at), direction, at.ndim), expected, rtol=1e-5, atol=1e-7)


def test_places_of_samples_may_move():
    for name in ("Akima1DInterpolator", "PchipInterpolator"):
        check_grads(lambda x, name=name: getattr(ours, name)(x, Y)(AT), (X,), order=2, rtol=1e-4, atol=1e-4)
    bell = lambda p, e: ours.RBFInterpolator(p, HEIGHT, kernel="gaussian", epsilon=e)(INNER)
    check_grads(bell, (PLANE, 1.5), order=1, rtol=1e-4)
    check_grads(lambda p: ours.griddata(p, HEIGHT, INNER), (PLANE,), order=2, rtol=1e-4, atol=1e-4)


def test_griddata_outside_nearest_and_on_a_line():
    far = np.array([[5.0, 5.0], [0.1, -0.05]])
    for method in ("nearest", "linear"):
        f = lambda v, o, method=method: o.griddata(PLANE, v, (far[:, 0], far[:, 1]), method, fill_value=7.0)
        np.testing.assert_allclose(jit(f, static_argnums=1)(HEIGHT, ours), f(HEIGHT, scipy.interpolate), rtol=1e-12)
        filled = np.array([7.0 * (method == "linear"), 0.0])
        np.testing.assert_allclose(jacrev(f)(HEIGHT, ours) @ HEIGHT + filled, f(HEIGHT, scipy.interpolate))
    line = lambda y: ours.griddata(X, y, AT)
    np.testing.assert_allclose(jacfwd(line)(Y) @ Y, scipy.interpolate.griddata(X, Y, AT))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_places_on_a_grid_give_the_shapes_of_scipy(rank):
    """A vector is as many points as fit, a tuple has an array for each axis."""
    points, values = [np.arange(4.0)] * rank, RNG.normal(size=(4,) * rank + (2,))
    places = [[0.3] * rank, [0.3] * (2 * rank), [[0.5] * rank], RNG.uniform(0, 3, (2, 3, rank))]
    places += [tuple(RNG.uniform(0, 3, (rank, 5))), *[tuple([0.5] * rank)] * (rank > 1)]
    for at in places:
        for f in (
            lambda v, at=at: scipy.interpolate.RegularGridInterpolator(points, v)(at),
            lambda v, at=at: scipy.interpolate.interpn(points, v, at),
        ):
            found = vjp(f, values)[0]
            assert found.shape == f(values).shape
            np.testing.assert_allclose(found, f(values), rtol=1e-12)


def test_what_jumps_is_refused():
    with pytest.raises(NotImplementedError, match="s=0"):
        grad(lambda y: ours.UnivariateSpline(X, y)(1.0))(Y)
    with pytest.raises(NotImplementedError, match="known knots"):
        grad(lambda y: scipy.interpolate.splrep(X, y, s=0.1)[1][0])(Y)
    with pytest.raises(TypeError, match="neighbors"):
        grad(lambda d: ours.RBFInterpolator(PLANE, d, neighbors=4)(INNER)[0])(HEIGHT)
    with pytest.raises(NotImplementedError, match="RBFInterpolator"):
        grad(lambda d: ours.griddata(PLANE, d, INNER, "cubic")[0])(HEIGHT)


@pytest.mark.parametrize("extrapolate", [None, False, True, "periodic"])
@pytest.mark.parametrize("periodic", [{"bc_type": "periodic"}, {"extrapolate": "periodic"}], ids=["spline", "extrapolated"])
def test_roots_of_periodic_splines(periodic, extrapolate):
    """SciPy finds those of the first and the last polynomial, outside of the interval, too."""
    x = np.linspace(0, 6, 7)
    y, t = [np.concatenate([z[:-1], z[:1]]) for z in (np.sin(2.1 * x) + 0.3, np.cos(x))]
    f = lambda y: scipy.interpolate.CubicSpline(x, y, **periodic).solve(0.1, extrapolate=extrapolate)
    slope = (f(y + 1e-6 * t) - f(y - 1e-6 * t)) / 2e-6
    for way in (lambda f: f, jit):
        value, found = way(lambda y: jvp(f, (y,), (t,)))(y)
        np.testing.assert_allclose(value, f(y), rtol=1e-12)
        np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("ends", [(1, 2), (2, 1), ("clamped", 1), ("not-a-knot", 2)], ids=str)
def test_cubic_splines_are_differentiable_in_what_their_ends_have(ends: Any) -> None:
    x, rows = np.linspace(0.0, 3.0, 7), np.stack([np.sin(np.arange(7.0)), np.cos(np.arange(7.0))], axis=1)

    def f(s: Any) -> Any:
        values = (s, 0.3 * s * s)
        bc_type = tuple([end if isinstance(end, str) else (end, v) for end, v in zip(ends, values)])
        pair = tuple([end if isinstance(end, str) else (end, v * np.array([1.0, -2.0])) for end, v in zip(ends, values)])
        make = scipy.interpolate.CubicSpline
        return make(x, rows[:, 0], bc_type=bc_type)(1.1) + np.sum(make(x, rows, bc_type=pair)([0.2, 2.5], 1))

    h = 1e-6
    slope = (f(0.4 + h) - f(0.4 - h)) / (2 * h)
    assert grad(f)(0.4) == pytest.approx(slope, rel=1e-6)
    assert jit(grad(f))(0.4) == pytest.approx(slope, rel=1e-6)
    np.testing.assert_allclose(vmap(f)(np.array([0.4, 0.7])), [f(0.4), f(0.7)], rtol=1e-12)


SERIES = np.cos(np.arange(50.0))
BESIDE_WRITES: dict[str, Any] = {  # what SciPy makes is lent, as all that a function makes that writes
    "sections": lambda y: np.sum(scipy.signal.sosfiltfilt(scipy.signal.butter(4, 0.3, output="sos"), y)),
    "windows": lambda y: np.sum(np.abs(scipy.signal.ShortTimeFFT(np.ones(16), hop=4, fs=1.0).stft(y))),
    "knots": lambda y: scipy.interpolate.BSpline(np.r_[[0.0] * 4, [1, 2], [3.0] * 4].astype(float), y[:6], 3).derivative()(1.2),
}


@pytest.mark.parametrize("name", BESIDE_WRITES)
def test_constants_of_scipy_in_a_function_that_writes(name: str) -> None:
    def f(v: Any) -> Any:
        y = SERIES.copy()
        y[0] = v
        return BESIDE_WRITES[name](y)

    h = 1e-6
    slope = (f(1.0 + h) - f(1.0 - h)) / (2 * h)
    for g in (grad(f), jit(grad(f)), grad(jit(f)), lambda v: jvp(f, (v,), (1.0,))[1]):
        assert g(1.0) == pytest.approx(slope, rel=1e-5, abs=1e-7)
    np.testing.assert_allclose(vmap(f)(np.array([1.0, 1.5])), [f(1.0), f(1.5)], rtol=1e-10)
    jitted = jit(f)
    np.testing.assert_allclose([jitted(v) for v in (1.0, 1.5, 0.5)], [f(1.0), f(1.5), f(0.5)], rtol=1e-6)


@pytest.mark.parametrize("der", [0, 1])
def test_monotone_cubics_by_scipys_function_at_traced_places(der):
    """SciPy's code makes an object of plain samples, and asks it for what is traced."""
    x, y, q = np.arange(6.0), np.sin(np.arange(6.0)), np.array([0.3, 2.2])
    f = lambda q: scipy.interpolate.pchip_interpolate(x, y, q, der=der)
    slope = scipy.interpolate.pchip_interpolate(x, y, q, der=der + 1)
    np.testing.assert_allclose(grad(lambda q: np.sum(f(q)))(q), slope, rtol=1e-10)
    np.testing.assert_allclose(jvp(f, (q,), (np.ones(2),))[1], slope, rtol=1e-10)
    np.testing.assert_allclose(vmap(f)(q), f(q), rtol=1e-12)
    np.testing.assert_allclose(jit(f)(q), f(q), rtol=1e-12)
