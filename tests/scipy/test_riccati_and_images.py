"""Riccati's equations, bases of spaces, images moved and ranked: SciPy's values, derivatives against differences of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.signal
from scipy import ndimage

import funcad.scipy as ours
from funcad import grad, jacfwd, jacrev, jit, jvp, vmap
from funcad.testing import check_grads

RNG = np.random.default_rng(11)
A, B = RNG.normal(size=(3, 3)), RNG.normal(size=(3, 2))
Q, R, E, S = np.diag([1.0, 2.0, 0.5]), np.array([[1.0, 0.2], [0.2, 2.0]]), np.eye(3) + 0.1 * RNG.normal(size=(3, 3)), 0.1 * B
IMAGE, LINE = RNG.normal(size=(7, 9)), RNG.normal(size=12)
LOW = RNG.normal(size=(4, 2)) @ RNG.normal(size=(2, 5))

CASES = {  # of SciPy's or our package
    "care": (lambda o, a, b, q, r: o.linalg.solve_continuous_are(a, b, q, r), (A, B, Q, R)),
    "care e s": (lambda o, a, b, e, s: o.linalg.solve_continuous_are(a, b, Q, R, e, s), (A, B, E, S)),
    "dare": (lambda o, a, b, q, r: o.linalg.solve_discrete_are(a, b, q, r), (A, B, Q, R)),
    "dare e s": (lambda o, a, b, e, s: o.linalg.solve_discrete_are(a, b, Q, R, e, s), (A, B, E, S)),
    "lyapunov": (lambda o, a, q: o.linalg.solve_continuous_lyapunov(a, q), (A, Q)),
    "orth": (lambda o, a: o.linalg.orth(a), (A[:, :2],)),
    "shift": (lambda o, x, by: o.ndimage.shift(x, by), (IMAGE, np.array([0.4, -1.3]))),
    "shift nearest": (lambda o, x, by: o.ndimage.shift(x, by, order=2, mode="nearest"), (IMAGE, 0.37)),
    "zoom": (lambda o, x: o.ndimage.zoom(x, (1.6, 0.7)), (IMAGE,)),
    "zoom of a grid": (lambda o, x: o.ndimage.zoom(x, 1.7, order=1, mode="reflect", grid_mode=True), (IMAGE,)),
    "rotate": (lambda o, x, angle: o.ndimage.rotate(x, angle, mode="mirror"), (IMAGE, 31.0)),
    "rotate in place": (lambda o, x, angle: o.ndimage.rotate(x, angle, reshape=False), (IMAGE, 31.0)),
    "affine": (lambda o, x, m, c: o.ndimage.affine_transform(x, m, c, mode="grid-wrap"), (IMAGE, R - 0.3, np.full(2, 0.3))),
    "affine diagonal": (lambda o, x, m: o.ndimage.affine_transform(x, m, 0.2, (5, 6)), (IMAGE, np.array([0.9, 1.1]))),
    "laplace": (lambda o, x: o.ndimage.gaussian_laplace(x, 1.2), (IMAGE,)),
    "gradient": (lambda o, x: o.ndimage.gaussian_gradient_magnitude(x, (0.8, 1.1), mode="wrap"), (IMAGE,)),
    "median": (lambda o, x: o.ndimage.median_filter(x, (3, 4), mode="nearest", origin=(0, 1)), (IMAGE,)),
    "maximum": (lambda o, x: o.ndimage.maximum_filter(x, footprint=[[0, 1, 0], [1, 1, 1]]), (IMAGE,)),
    "minimum": (lambda o, x: o.ndimage.minimum_filter(x, 2, mode="mirror"), (IMAGE,)),
    "medfilt": (lambda o, x: o.signal.medfilt(x, 5), (LINE,)),
    "medfilt2d": (lambda o, x: o.signal.medfilt2d(x, (3, 5)), (IMAGE,)),
    "filtfilt": (lambda o, x: o.signal.filtfilt([0.2, 0.3], [1.0, -0.4], x), (LINE,)),
    "sosfilt": (
        lambda o, poles, x: o.signal.sosfilt(np.concatenate([np.array([0.2, 0.3, 0.1, 1.0]), poles])[None], x),
        (np.array([-0.4, 0.1]), LINE),
    ),
}


@pytest.mark.share(4)
@pytest.mark.parametrize("o", [ours, scipy], ids=["funcad", "scipy"])
@pytest.mark.parametrize("name", CASES)
def test_derivatives_of_scipys_results(name, o):
    f, args = CASES[name]
    g, h = (lambda *args: f(o, *args)), 1e-5
    directions = [RNG.normal(size=np.shape(x)) for x in args]
    directions = [d + d.T if x is Q or x is R else d for d, x in zip(directions, args)]  # these stay symmetric
    moved = lambda e: f(scipy, *[x + e * d for x, d in zip(args, directions)])
    value, slope = jvp(g, args, tuple(directions))
    np.testing.assert_allclose(value, f(scipy, *args), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(slope, (moved(h) - moved(-h)) / (2 * h), rtol=1e-5, atol=1e-6)
    backward = jacrev(g, tuple(range(len(args))))(*args)
    together = sum(np.tensordot(j, d, np.ndim(d)) for j, d in zip(backward, directions))
    np.testing.assert_allclose(together, slope, rtol=1e-8, atol=1e-9)
    if name != "rotate":  # the shape of the result depends on the angle
        np.testing.assert_allclose(jit(jacfwd(g))(*args), backward[0], rtol=1e-8, atol=1e-9)
        stacked = [np.stack([x, x + 0.01 * d]) for x, d in zip(args, directions)]
        np.testing.assert_allclose(vmap(g)(*stacked)[1], moved(0.01), rtol=1e-8, atol=1e-10)
    if o is ours and name in ("care", "dare e s", "orth", "shift", "affine", "rotate in place", "gradient", "sosfilt"):
        check_grads(lambda e: g(*[x + e * d for x, d in zip(args, directions)]), (0.0,), order=2, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("o", [ours, scipy], ids=["funcad", "scipy"])
def test_null_spaces_move_without_turning(o):
    line = lambda a: o.linalg.null_space(a)
    projector = lambda a: line(a) @ line(a).T
    for a in (A[:2], A[:1], LOW):
        d = RNG.normal(size=a.shape) if a is not LOW else LOW @ RNG.normal(size=(5, 5))
        n, dn = jvp(line, (a,), (d,))
        np.testing.assert_allclose(n, scipy.linalg.null_space(a), atol=1e-14)
        np.testing.assert_allclose(n.T @ dn, np.zeros((n.shape[1],) * 2), atol=1e-12)
        moved = (projector(a + 1e-6 * d) - projector(a - 1e-6 * d)) / 2e-6
        np.testing.assert_allclose(jvp(projector, (a,), (d,))[1], moved, atol=1e-6)
    check_grads(projector, (A[:2],), order=2, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(jit(jacfwd(line))(A[:2]), jacrev(line)(A[:2]), atol=1e-12)
    slope = jacrev(projector)
    for a in (LOW, LOW.T @ LOW, A):  # the rank is asked for
        np.testing.assert_allclose(jit(slope)(a), slope(a), atol=1e-12)
        np.testing.assert_allclose(vmap(slope)(np.stack([a, 2 * a]))[1], slope(2 * a), atol=1e-12)


def test_an_image_of_more_dimensions_turns_plane_by_plane():
    x = RNG.normal(size=(3, 6, 5, 2))
    for axes in ((1, 2), (0, 3)):
        turn = lambda x, angle, axes=axes: ours.ndimage.rotate(x, angle, axes)
        np.testing.assert_allclose(jvp(turn, (x, 25.0), (x, 0.0))[1], scipy.ndimage.rotate(x, 25.0, axes), atol=1e-10)
    with pytest.raises(TypeError, match="reshape=False"):
        jit(lambda angle: ours.ndimage.rotate(IMAGE, angle))(3.0)


def test_features_are_counted_at_the_values():
    def f(x):
        labels, count = scipy.ndimage.label(x > 0.0)
        return sum([x[labels == k].mean() ** 2 for k in range(1, count + 1)])

    images = RNG.normal(size=(3, 5, 5))
    expected = [f(image) for image in images]
    np.testing.assert_allclose(vmap(f)(images), expected, rtol=1e-12)
    compiled = jit(f)
    np.testing.assert_allclose([compiled(image) for image in images], expected, rtol=1e-12)
    check_grads(f, (images[0],), order=2)
    assert jit(lambda x: scipy.ndimage.label(x > 0.0, output=np.int64)[0] * x)(images[0]).dtype == float
    with pytest.raises(TypeError, match=r"(?s)label does not support output=.*leave the argument out"):
        vmap(lambda x: scipy.ndimage.label(x > 0.0, output=np.zeros((5, 5), int)))(images)


def test_other_interpolators_after_interp1d():
    nodes = np.array([0.1, 0.4, 0.5, 0.8])
    jvp(lambda y: scipy.interpolate.interp1d(nodes, y)(0.45), (nodes,), (nodes,))
    for function in (scipy.interpolate.krogh_interpolate, scipy.interpolate.barycentric_interpolate):
        check_grads(lambda x, function=function: function(x, nodes**2, nodes + 0.05).sum(), (nodes,), order=1)


def test_several_conditions_in_one_array():
    x = np.array([0.5, -1.0, 2.0])
    f = lambda x: np.piecewise(x, np.stack([x < 0.0, x > 1.0]), [lambda x: x**2, lambda x: 3.0 * x, 7.0])
    np.testing.assert_array_equal(jvp(f, (x,), (np.ones(3),)), [f(x), [0.0, -2.0, 3.0]])


WHOLE: dict[str, Any] = {
    "uniform": lambda x: ndimage.uniform_filter(x, 3),
    "correlate": lambda x: ndimage.correlate(x, np.full((3, 3), 1 / 9)),
    "correlate1d": lambda x: ndimage.correlate1d(x, [1 / 3, 1 / 3, 1 / 3]),
    "gaussian": lambda x: ndimage.gaussian_filter(x, 1.0),
    "magnitude": lambda x: ndimage.gaussian_gradient_magnitude(x, 1.0),
    "sobel": lambda x: ndimage.sobel(x),
    "zoom": lambda x: ndimage.zoom(x, 1.7),
    "rotate": lambda x: ndimage.rotate(x, 30),
    "affine": lambda x: ndimage.affine_transform(x, [[0.9, 0.1], [0.0, 1.1]]),
    "output": lambda x: ndimage.shift(x * 1.0, 0.4, output=np.uint8) + ndimage.shift(x, 0.4, np.uint8),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.int64, bool])
@pytest.mark.parametrize("name", WHOLE)
def test_images_of_whole_numbers_are_scipys(name: str, dtype: type) -> None:
    """They are cut off, and end at 0 and 255: by SciPy itself, since a sum in another order may be cut off otherwise."""
    f, rng = WHOLE[name], np.random.default_rng(3)
    for top in (5, 256):
        x = rng.choice([0, 1, top // 2, top - 1], size=(6, 7)).astype(dtype)
        expected = f(x)
        jitted = jit(f)
        for found in (jitted(x), jitted(x), jitted(x), vmap(f)(np.stack([x, x]))[1]):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
    assert grad(lambda s: np.sum(ndimage.shift(x, s)) * s)(0.4) == np.sum(ndimage.shift(x, 0.4))


@pytest.mark.share(2)
@pytest.mark.parametrize("dtype", ["d", "f"])
@pytest.mark.parametrize("name", [
    "gaussian_filter(x, 1.0)", "gaussian_filter1d(x, 1.0, axis=0)", "uniform_filter1d(x, 3)", "uniform_filter(x, 3)",
    "sobel(x)", "prewitt(x, 0)", "laplace(x)", "convolve1d(x, [1.0, 2.0, 3.0], axis=0)", "correlate1d(x, [1.0, 2.0])",
    "convolve(x, np.ones((2, 3)))", "median_filter(x, 3)", "maximum_filter(x, 2)", "percentile_filter(x, 30, 3)",
    "gaussian_laplace(x, 1.0)", "gaussian_gradient_magnitude(x, 1.0)", "gaussian_filter(x, 0.0)", "zoom(x, 1.5)",
    "gaussian_filter(x.T, 1.0) * 2.0",
])  # fmt: skip
def test_results_of_filters_are_arrays_in_scipys_order_at_each_call(name, dtype):
    f = eval(f"lambda x: ndimage.{name}", {"ndimage": ndimage, "np": np})
    x = IMAGE.astype(dtype)
    jitted, expected = jit(f), f(x)
    for _ in range(5):
        found = jitted(x)
        assert found.strides == expected.strides and found.dtype == expected.dtype and found.flags.c_contiguous
        assert found.base is None or found.base.nbytes == found.nbytes
        np.testing.assert_allclose(found, expected, atol=1e-5)
