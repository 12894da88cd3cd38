"""SciPy's functions where arguments are not finite, at the edge of their domain, of another dtype, or known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.cluster.hierarchy
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.spatial
import scipy.special
import scipy.stats
from scipy.spatial import distance

from funcad import disable_jit, grad, jit, jvp, random, vmap
from funcad.jitted import first_calls
from funcad.scipy import interpolate, linalg, ndimage, special, stats
from funcad.scipy.door import since_1_18
from funcad.scipy.sparse.linalg import bicgstab, cg, gmres

A = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])
B = np.array([1.0, 2.0, 3.0])


def put(a, value):
    a = a.copy()
    a.flat[0] = value
    return a


# -- iterative solvers


@pytest.mark.parametrize("solver", [cg, bicgstab, gmres])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_has_no_solution(solver, bad):
    with np.errstate(all="ignore"):
        for a, b in [(A, put(B, bad)), (put(A, bad), B)]:
            x, info = jit(solver)(a, b)
            assert np.isnan(x).all() and info != 0
        x, info = vmap(solver, in_axes=(None, 0))(A, np.stack([B, put(B, bad)]))
    assert info[0] == 0 and info[1] != 0
    np.testing.assert_allclose(x[0], np.linalg.solve(A, B), rtol=1e-4)


@pytest.mark.parametrize("solver", [cg, bicgstab, gmres])
def test_a_complex_matrix_has_a_complex_solution_of_a_real_right_hand_side(solver):
    a = np.array([[4.0, 1j], [-1j, 3.0]])
    np.testing.assert_allclose(solver(a, B[:2], tol=1e-12)[0], np.linalg.solve(a, B[:2]))
    assert solver(A, B.astype(np.float32))[0].dtype == np.float64
    with pytest.raises(TypeError, match=r"complex.*real.*\s.*b \+ 0j"):
        solver(lambda x: a @ x, B[:2])


# -- special functions and distributions


def test_orders_and_parameters_of_any_size_have_derivatives_in_no_time():
    with np.errstate(all="ignore"):
        assert not grad(special.iv)(1e300, 1e300) < np.inf
        assert grad(special.ive)(0.5, 1e300) == 0.0
        assert np.isnan(grad(special.hyp1f1)(1e300, 1.5, 0.5))
    for v, x in [(1e3, 2e5), (500.0, 1.1e5)]:  # beyond 1e5 by an expansion
        h = 1e-3 * v
        slope = (scipy.special.ive(v + h, x) - scipy.special.ive(v - h, x)) / (2 * h)
        np.testing.assert_allclose(grad(special.ive)(v, x), slope, rtol=2e-5)


def test_choices_with_repetition_of_nothing():
    n, k = np.array([0.0, 3.0, np.nan]), np.array([0.0, 0.0, 2.0])  # SciPy 1.16 gave 0, 1, 0
    np.testing.assert_array_equal(jit(lambda n: special.comb(n, k, repetition=True))(n), [1.0, 1.0, np.nan])


@pytest.mark.parametrize(
    "n, d, x, below, above",  # SciPy's own function is that exact since 1.17
    [
        (0.0, 2.0, 1.0, np.nan, np.nan),
        (2.0, np.inf, 1.0, np.nan, np.nan),
        (1e300, 2.0, 1.0, 0.36787944117144233, 0.6321205588285577),
        (2.0, 3.0, np.inf, 1.0, 0.0),
        (1e6, 7.0, 2.0, 0.8352252045741528, 0.16477479542584714),
    ],
)
def test_fishers_law_at_its_ends(n, d, x, below, above):
    for name, expected in (("fdtr", below), ("fdtrc", above)):
        np.testing.assert_allclose(jit(getattr(special, name))(n, d, x), expected, rtol=1e-12)
    np.testing.assert_allclose(stats.f.cdf(x, n, d), below, rtol=1e-12)


@pytest.mark.parametrize("law", [stats.weibull_min, stats.gennorm], ids=str)
def test_bad_shapes_are_nan_where_nan_to_the_power_0_is_1(law):
    with np.errstate(all="ignore"):
        for method in (law.cdf, law.sf, law.logpdf):
            assert np.isnan(method(0.5, 0.0))
        slopes = grad(lambda c: np.sum(law.cdf(0.5, c)))(np.array([0.0, 1.0]))
        assert np.isnan(slopes[0]) and slopes[1] == grad(lambda c: law.cdf(0.5, c))(1.0)


def test_a_proportion_that_is_nan():
    x, alpha = np.array([np.nan, 0.5]), np.array([2.0, 3.0])
    assert np.isnan(jit(stats.dirichlet.pdf)(x, alpha)) and np.isnan(stats.dirichlet.pdf(x, alpha))
    assert jit(stats.dirichlet.pdf)(np.array([0.7, 0.5]), alpha) == 0.0


def test_no_trials_succeed_with_a_negative_zero():
    assert random.binomial(random.key(0), 10.0, -0.0) == 0.0
    assert random.multinomial(random.key(0), 10.0, np.array([-0.0, 1.0])).tolist() == [0.0, 10.0]


# -- images and interpolation


@pytest.mark.parametrize("order", [0, 1, 3])
def test_coordinates_that_are_nan_are_outside(order):
    image = np.arange(12.0).reshape(3, 4)
    places = np.array([[0.5, 0.5, 1.0], [0.5, np.nan, 1.2]])
    found = jit(lambda p: ndimage.map_coordinates(image, p, order=order, cval=-1.0))(places)
    np.testing.assert_allclose(found, scipy.ndimage.map_coordinates(image, places, order=order, cval=-1.0), rtol=1e-12)
    with pytest.raises(RuntimeError):
        jit(lambda p: ndimage.map_coordinates(image, p))(1.0)


def test_images_of_bools_and_coordinates_of_float32():
    image, places = np.arange(12).reshape(3, 4) > 4, np.array([[0.5, 0.9, 1.2], [0.5, 1.0, 2.2]], np.float32)
    for x in (image, image.astype(np.float64)):
        found = jit(lambda x: ndimage.map_coordinates(x, places, order=1))(x)
        np.testing.assert_allclose(found, scipy.ndimage.map_coordinates(x, places, order=1), rtol=1e-14)


def test_complex_weights_make_complex_images():
    w = np.array([1j, 1.0, 0.5 - 2j])
    names, images = ["correlate1d", "convolve1d", "correlate", "convolve"], [np.arange(5.0), 1j ** np.arange(5)]
    for name, x in itertools.product(names, images):
        expected = getattr(scipy.ndimage, name)(x, w)
        np.testing.assert_allclose(jit(getattr(ndimage, name))(x, w), expected, rtol=1e-13, atol=1e-13)


def test_a_gaussian_of_no_width_changes_nothing():
    x = np.array([1.0, 2.0, 4.0, 3.0])
    smooth = lambda s: ndimage.gaussian_filter(x, s, radius=2)
    np.testing.assert_array_equal(jit(smooth)(0.0), x)
    assert grad(lambda s: np.sum(smooth(s)))(0.0) == 0.0


def test_interpolation_of_known_samples_at_traced_places():
    x, y, q = np.arange(4.0), np.array([1.0, 2.0, 4.0, 3.0]), np.array([0.5, 1.5, 2.5])
    f = lambda x: interpolate.interp1d(x, y, bounds_error=False)(q)
    np.testing.assert_allclose(jit(f)(x), [1.5, 3.0, 3.5])
    np.testing.assert_allclose(grad(lambda x: np.sum(f(x)))(x), [-0.5, -1.5, -0.5, 0.5])


# -- matrices that are not finite


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_singular_values_of_a_matrix_that_is_not_finite_leave_the_others_alone(bad):
    functions = [
        lambda a: np.sum(np.linalg.svd(a, compute_uv=False)),
        lambda a: np.sum(np.linalg.svd(a)[0][0] ** 2),
        lambda a: np.linalg.norm(a, "nuc"),
        lambda a: linalg.polar(a)[0][0, 1],
        lambda a: np.linalg.pinv(a)[0, 1],
        lambda a: np.linalg.lstsq(a, B, rcond=None)[0][0],
    ]
    stack = np.stack([A, put(A, bad)])
    with np.errstate(all="ignore"):
        for i, f in enumerate(functions):
            if i == 5 or np.isnan(bad) and i != 3:  # as NumPy's functions of a stack
                with pytest.raises(np.linalg.LinAlgError):
                    jit(vmap(grad(f)))(stack)
                continue
            found = jit(vmap(grad(f)))(stack)
            np.testing.assert_allclose(found[0], grad(f)(A), rtol=1e-9, atol=1e-12)
            assert np.isnan(found[1]).any()


# -- what needs real arrays: a jitted function that calls it runs un-jitted

ONE = np.ones(2)
POINTS = np.random.default_rng(0).normal(size=(9, 2))
PLACES = np.arange(7.0)


def looks_up(v):
    return scipy.interpolate.interp1d(PLACES, v, kind="cubic")(0.1 * v[:2] + 1.0)


def finds_neighbours(v):
    return scipy.spatial.KDTree(POINTS).query(v[:2], k=2)[0]


def counts_pairs(v):
    return scipy.stats.kendalltau(v, v[::-1] * v[0])[0] + v.sum()


def writes_first(f):
    def writing(v):
        z = ONE.copy()
        z[0] = v[0]
        return f(v) * z[0]

    return writing


@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning", "ignore::funcad.errors.UncertifiedDerivativeWarning")
@pytest.mark.parametrize("calls", [0, 3])
@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("f", [looks_up, finds_neighbours, counts_pairs])
def test_a_function_that_needs_real_arrays_runs_unjitted_under_transforms_too(f, writes, calls, monkeypatch):
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    g = writes_first(f) if writes else f
    v, t = np.cos(PLACES), np.sin(PLACES)
    total = lambda g: lambda v: np.sum(g(v))
    ways = [lambda g: grad(total(g))(v), lambda g: jvp(g, (v,), (t,))[1], lambda g: jvp(total(g), (v,), (t,))[1]]
    if f is not looks_up:  # which checks bounds, of no lane alone
        ways.append(lambda g: vmap(g)(np.stack([v, v + 0.1])))
    for way in ways:
        j = jit(g)
        for _ in range(calls):
            np.testing.assert_array_equal(j(v), g(v))
        np.testing.assert_allclose(way(j), way(g), rtol=1e-12)


@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_where_jit_is_disabled_what_a_function_makes_is_lent_to_it_too():
    j = jit(writes_first(np.sum))
    with disable_jit():
        np.testing.assert_array_equal(grad(lambda v: j(v))(PLACES), grad(writes_first(np.sum))(PLACES))


@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_an_array_is_written_before_what_needs_a_real_one(monkeypatch):
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    f = lambda v: scipy.cluster.hierarchy.linkage(v.reshape(-1, 2))[0, 2]
    j, v = jit(writes_first(f)), np.arange(8.0) ** 2 + 1.0
    assert [j(v + i) for i in range(4)] == [writes_first(f)(v + i) for i in range(4)]


# -- of which type numbers are

SAMPLES = np.arange(4.0)
NUMBERS = {
    **{
        f.__name__: lambda x, f=f: f(lambda t: t - x[0], 0.0, 9.0)
        for f in (scipy.optimize.bisect, scipy.optimize.brenth, scipy.optimize.brentq, scipy.optimize.ridder)
    },
    "brentq of a traced end": lambda x: scipy.optimize.brentq(lambda t: t - x[0], x[0] - 1, 9.0),
    "root_scalar": lambda x: scipy.optimize.root_scalar(lambda t: t - x[0], bracket=(0.0, 9.0)).root,
    "nnls": lambda x: scipy.optimize.nnls(A[:, :2], x)[1],
    "quad": lambda x: scipy.integrate.quad(lambda t: t * x[0], 0.0, x[1])[0],
    "dblquad": lambda x: scipy.integrate.dblquad(lambda s, t: s * t * x[0], 0.0, 1.0, 0.0, 1.0)[0],
    "norm": lambda x: scipy.linalg.norm(x),
    "norm of a matrix": lambda x: scipy.linalg.norm(x[:, None] * x, 1),
    "another norm": lambda x: scipy.linalg.norm(x, 3),
    "euclidean": lambda x: distance.euclidean(x, 2 * x),
    "euclidean with weights": lambda x: distance.euclidean(x, 2 * x, B),
    "minkowski": lambda x: distance.minkowski(x, 2 * x),
    "another minkowski": lambda x: distance.minkowski(x, 2 * x, 3),
    "seuclidean": lambda x: distance.seuclidean(x, 2 * x, B),
    "splint": lambda x: scipy.interpolate.splint(0.0, 1.0, scipy.interpolate.splrep(SAMPLES, x[0] * SAMPLES)),
    "integral": lambda x: scipy.interpolate.InterpolatedUnivariateSpline(SAMPLES, x[0] * SAMPLES).integral(0.0, 1.0),
}


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, np.float32])
@pytest.mark.parametrize("w", [None, np.array([1.0, 0.0, 2.0])])
@pytest.mark.parametrize("f", [distance.cityblock, distance.chebyshev])
def test_distances_of_integers_are_integers(f, w, dtype):
    x, y = np.array([1, 2, 4], dtype), np.array([0, 5, 1], dtype)
    j = jit(lambda x, y: f(x, y, w))
    for _ in range(3):
        assert j(x, y) == f(x, y, w) and type(j(x, y)) is type(f(x, y, w))


@pytest.mark.share(3)
@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")  # of half precision
@pytest.mark.filterwarnings("ignore:Calling norm with:DeprecationWarning")  # too, since SciPy 1.18
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_of_scipys_types(name, dtype):
    """Python's numbers adapt to the dtype of what they meet, so programs in single precision stay in it."""
    f, x = NUMBERS[name], np.array([1, 2, 4], dtype)
    j = jit(f)
    both = jit(lambda x: f(x) * np.ones(1, np.float32))
    for _ in range(3):
        assert type(j(x)) is type(f(x))
        assert both(x).dtype == (f(x) * np.ones(1, np.float32)).dtype
        np.testing.assert_allclose(j(x), f(x), rtol=2e-3)
    rows = np.stack([x, x + 1])
    if dtype is np.float32:
        assert vmap(lambda x: x * f(x))(rows).dtype == np.result_type(*[r * f(r) for r in rows])
        assert jvp(lambda x: x * f(x), (x,), (x,))[1].dtype == (x * f(x)).dtype


@pytest.mark.parametrize("w", [None, np.array([1.0, 0.5, 2.0])])
@pytest.mark.parametrize("f", [distance.euclidean, distance.sqeuclidean, distance.minkowski])
def test_distances_of_stacks_are_those_of_the_scipy_that_is_installed(f, w):
    x, y = np.arange(6.0).reshape(2, 3) ** 2, np.array([0.5, 1.5, -2.0])
    call = lambda x: f(x, y, w=w)
    expected = np.array([call(row) for row in x])
    np.testing.assert_allclose(vmap(call)(x), expected, rtol=1e-14)
    for way in (jit(call), lambda x: jvp(call, (x,), (x,))[0]):
        if since_1_18():
            np.testing.assert_allclose(way(x), expected, rtol=1e-14)
        else:
            with pytest.raises(ValueError, match="1-D"):
                way(x)
