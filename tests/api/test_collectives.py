"""Collectives over vmap's named axes: values, derivatives, several axes, control flow, errors."""

import numpy as np
import pytest

import funcad as fc
from funcad import lax
from funcad.errors import UnboundAxisNameError

N = 4
RNG = np.random.default_rng(0)
XS = RNG.normal(size=(N, N, 2 * N))
W = RNG.normal(size=(N, 2 * N))
PERM = [1, 3, 0, 2]
PARTIAL = [(0, 1), (1, 3), (3, 0)]


def partially(x):
    out = np.zeros_like(x)
    for s, d in PARTIAL:
        out[d] = x[s]
    return out


# name -> (per lane, the same on the whole array, whose axis 0 is the mapped one)
OPERATIONS = {
    "psum": (lambda x: lax.psum(x, "i"), lambda x: np.stack([x.sum(0)] * N)),
    "pmean": (lambda x: lax.pmean(x, "i"), lambda x: np.stack([x.mean(0)] * N)),
    "pmax": (lambda x: lax.pmax(x, "i"), lambda x: np.stack([x.max(0)] * N)),
    "pmin": (lambda x: lax.pmin(x, "i"), lambda x: np.stack([x.min(0)] * N)),
    "all_gather": (lambda x: lax.all_gather(x, "i"), lambda x: np.stack([x] * N)),
    "all_gather axis": (lambda x: lax.all_gather(x, "i", axis=-1), lambda x: np.stack([np.moveaxis(x, 0, -1)] * N)),
    "all_gather tiled": (
        lambda x: lax.all_gather(x, "i", axis=1, tiled=True),
        lambda x: np.stack([np.concatenate(list(x), axis=1)] * N),
    ),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i"), lambda x: x.sum(0)),
    "psum_scatter tiled": (
        lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True),
        lambda x: np.stack(np.split(x.sum(0), N, axis=1)),
    ),
    "ppermute": (lambda x: lax.ppermute(x, "i", [(s, d) for d, s in enumerate(PERM)]), lambda x: x[PERM]),
    "ppermute partial": (lambda x: lax.ppermute(x, "i", PARTIAL), partially),
    "pshuffle": (lambda x: lax.pshuffle(x, "i", PERM), lambda x: x[PERM]),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 0), lambda x: np.swapaxes(x, 0, 1)),
    "all_to_all axes": (lambda x: lax.all_to_all(x, "i", 0, 1), lambda x: np.moveaxis(np.swapaxes(x, 0, 1), 1, 2)),
    "all_to_all tiled": (
        lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True),
        lambda x: np.stack([np.concatenate([np.split(lane, N, axis=1)[i] for lane in x]) for i in range(N)]),
    ),
    "axis_index": (lambda x: x * lax.axis_index("i"), lambda x: x * np.arange(N)[:, None, None]),
    "axis_size": (lambda x: x * lax.axis_size("i"), lambda x: x * N),
}

each = pytest.mark.parametrize("name", OPERATIONS)


def lanes(f):
    return fc.vmap(f, axis_name="i")


@each
def test_values(name):
    f, whole = OPERATIONS[name]
    for g in (lanes(f), fc.jit(lanes(f)), lanes(fc.jit(f)), fc.jit(lanes(fc.jit(f)))):
        np.testing.assert_allclose(g(XS), whole(XS), rtol=1e-12)


@each
def test_an_unmapped_value_is_so_many_equal_copies(name):
    f, whole = OPERATIONS[name]
    expected = whole(np.stack([W] * N))
    np.testing.assert_allclose(lanes(lambda x: x[0, 0] * 0.0 + f(W))(XS), expected, rtol=1e-12)
    for g in (f, fc.jit(f)):  # W belongs to the outer trace: the collective must not
        value, tangent = fc.jvp(lambda w, g=g: lanes(lambda x: x[0, 0] * 0.0 + g(w))(XS), (W,), (2 * W,))
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        np.testing.assert_allclose(tangent, 2 * expected, rtol=1e-12)


@each
def test_other_axes(name):
    f, whole = OPERATIONS[name]
    pair = np.stack([XS, 2 * XS])
    expected = np.stack([whole(XS), whole(2 * XS)])
    np.testing.assert_allclose(fc.vmap(lanes(f))(pair), expected, rtol=1e-12)
    np.testing.assert_allclose(fc.vmap(lanes(f), axis_name="j")(pair), expected, rtol=1e-12)
    inner = lanes(fc.vmap(f))(np.stack([XS, 2 * XS], axis=1))
    np.testing.assert_allclose(np.moveaxis(inner, 1, 0), expected, rtol=1e-12)
    inner = lanes(fc.vmap(f, axis_name="j"))(np.stack([XS, 2 * XS], axis=1))
    np.testing.assert_allclose(np.moveaxis(inner, 1, 0), expected, rtol=1e-12)


def linear_map(g, x):
    """g as a matrix, by its values on the basis."""
    columns = [g(e.reshape(x.shape)).ravel() for e in np.eye(x.size)]
    return np.stack(columns, axis=1)


@each
def test_derivatives_are_those_of_the_whole_map(name):
    f, whole = OPERATIONS[name]
    x = XS[:, :, :N]
    if "tiled" in name:
        x = XS
    weights = RNG.normal(size=whole(x).shape)
    # outside: the gradient of a sum over all lanes
    found = fc.grad(lambda x: np.sum(weights * lanes(f)(x)))(x)
    step = 1e-6
    direction = RNG.normal(size=x.shape)
    slope = np.sum(weights * (whole(x + step * direction) - whole(x - step * direction))) / (2 * step)
    np.testing.assert_allclose(np.sum(found * direction), slope, rtol=1e-6)
    # inside: every lane pulls back, and the transposes exchange the cotangents
    inside = lanes(lambda x, w: fc.vjp(f, x)[1](w)[0])(x, weights)
    np.testing.assert_allclose(inside, found, rtol=1e-10)
    for g in (fc.jit(f), lambda x: fc.checkpoint(f)(x)):
        np.testing.assert_allclose(lanes(lambda x, w, g=g: fc.vjp(g, x)[1](w)[0])(x, weights), found, rtol=1e-10)
    tangent = lanes(lambda x, t: fc.jvp(f, (x,), (t,))[1])(x, direction)
    np.testing.assert_allclose(np.sum(tangent * weights), np.sum(found * direction), rtol=1e-10)


def test_psum_is_its_own_transpose():
    g = lanes(fc.grad(lambda x: lax.psum(x**2, "i")))
    np.testing.assert_array_equal(g(np.arange(3.0)), [0.0, 6.0, 12.0])
    np.testing.assert_array_equal(fc.jit(g)(np.arange(3.0)), [0.0, 6.0, 12.0])
    np.testing.assert_array_equal(lanes(fc.grad(fc.grad(lambda x: lax.psum(x**2, "i"))))(np.arange(3.0)), [6.0] * 3)


def test_ties_share_the_derivative():
    x = np.array([1.0, 3.0, 3.0])
    np.testing.assert_array_equal(fc.grad(lambda x: lanes(lambda x: lax.pmax(x, "i"))(x)[0])(x), [0.0, 0.5, 0.5])
    np.testing.assert_array_equal(fc.grad(lambda x: lanes(lambda x: lax.pmin(-x, "i"))(x)[0])(x), [0.0, -0.5, -0.5])
    pull = lanes(lambda x: fc.vjp(lambda x: lax.pmax(x, "i"), x)[1](1.0)[0])
    np.testing.assert_array_equal(pull(x), [0.0, 1.5, 1.5])  # three lanes pull


def test_constants_are_static():
    assert lanes(lambda x: (lambda n: x * n if type(n) is int else None)(lax.psum(1, "i")))(np.ones(3)).tolist() == [3.0] * 3
    np.testing.assert_array_equal(lanes(lambda x: x + lax.psum(np.ones(2), "i"))(np.zeros((3, 2))), np.full((3, 2), 3.0))
    np.testing.assert_array_equal(lanes(lambda x: lax.pmean(2.0, "i") + lax.pmax(1.0, "i") + x)(np.zeros(2)), [3.0, 3.0])
    np.testing.assert_array_equal(lanes(lambda x: x + lax.psum_scatter(np.arange(3.0), "i"))(np.zeros(3)), [0.0, 3.0, 6.0])


def test_integers_and_bools():
    np.testing.assert_array_equal(lanes(lambda x: lax.psum(x > 0, "i"))(np.array([1, -1, 2])), [2, 2, 2])
    mean = lanes(lambda x: lax.pmean(x, "i"))(np.array([1, 2]))
    assert mean.dtype == np.float64 and mean.tolist() == [1.5, 1.5]
    shifted = lanes(lambda x: lax.ppermute(x, "i", [(0, 1)]))(np.array([5, 6]))
    assert shifted.dtype == int and shifted.tolist() == [0, 5]


def test_pytrees():
    out = lanes(lambda x: lax.psum({"a": x, "b": (x, 1)}, "i"))(np.arange(3.0))
    assert out["a"].tolist() == [3.0] * 3 and out["b"][1].tolist() == [3] * 3


def test_several_names():
    x = np.arange(6.0).reshape(2, 3)

    def f(x):
        names = ("i", "j")
        return lax.psum(x, names), lax.pmax(x, names), lax.all_gather(x, names), lax.axis_index(names), lax.axis_size(names)

    total, largest, everything, index, size = lanes(fc.vmap(f, axis_name="j"))(x)
    assert (total == 15.0).all() and (largest == 5.0).all() and (size == 6).all()
    np.testing.assert_array_equal(index, np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(everything, np.broadcast_to(np.arange(6.0), (2, 3, 6)))
    np.testing.assert_array_equal(lanes(fc.vmap(lambda x: lax.psum(x, "i"), axis_name="j"))(x), np.stack([x.sum(0)] * 2))
    g = fc.grad(lambda x: np.sum(lanes(fc.vmap(lambda x: lax.psum(x * x, ("i", "j")), axis_name="j"))(x)))
    np.testing.assert_array_equal(g(x), 12.0 * x)


def test_an_inner_axis_hides_an_outer_one_of_the_same_name():
    f = lanes(lambda x: fc.vmap(lambda y: lax.psum(y, "i"), axis_name="i")(x) * lax.psum(1, "i"))
    np.testing.assert_array_equal(f(np.ones((2, 3))), np.full((2, 3), 6.0))


def test_in_control_flow():
    x = np.array([1.0, 2.0, 3.0])
    scanned = lambda x: fc.scan(lambda c, a: (lax.psum(c, "i") * a, lax.axis_index("i")), x, np.array([1.0, 0.5]))
    carry, index = lanes(scanned)(x)
    np.testing.assert_array_equal(carry, [9.0] * 3)
    np.testing.assert_array_equal(index, [[0, 0], [1, 1], [2, 2]])
    chosen = lambda x: fc.cond(lax.axis_size("i") > 2, lambda x: lax.pmean(x, "i"), lambda x: x, x)
    np.testing.assert_array_equal(lanes(chosen)(x), [2.0] * 3)
    switched = lambda p, x: fc.cond(p, lambda x: lax.psum(x, "i"), lambda x: x, x)
    np.testing.assert_array_equal(fc.vmap(switched, in_axes=(None, 0), axis_name="i")(True, x), [6.0] * 3)
    looped = lambda x: fc.fori_loop(0, 2, lambda i, c: lax.psum(c, "i") / 3, x)
    np.testing.assert_allclose(lanes(looped)(x), [2.0] * 3)
    np.testing.assert_allclose(lanes(fc.grad(lambda x: scanned(x)[0]))(x), [4.5] * 3)


def test_one_jitted_function_under_axes_of_two_sizes():
    f = fc.jit(lambda x: lax.psum(x, "i") / lax.psum(1, "i") + lax.axis_index("i") * lax.pmean(x, "i"))
    np.testing.assert_array_equal(lanes(f)(np.ones(2)), [1.0, 2.0])
    np.testing.assert_array_equal(lanes(f)(np.ones(3)), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(lanes(f)(np.ones(2)), [1.0, 2.0])


def test_errors():
    with pytest.raises(UnboundAxisNameError, match=r"psum: the axis name 'k' is not bound; bound names here: 'i', 'j'"):
        lanes(fc.vmap(lambda x: lax.psum(x, "k"), axis_name="j"))(np.ones((2, 2)))
    with pytest.raises(NameError, match="bound names here: none"):
        lax.axis_index("i")
    with pytest.raises(UnboundAxisNameError, match="all_gather"):
        fc.jit(lambda x: lax.all_gather(x, "i"))(1.0)
    with pytest.raises(ValueError, match="must name each of the 2 lanes once"):
        lanes(lambda x: lax.psum(x, "i", axis_index_groups=[[0], [0]]))(np.ones(2))
    with pytest.raises(ValueError, match="every destination must be one of the 2 lanes"):
        lanes(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 1)]))(np.ones(2))
    with pytest.raises(ValueError, match="permutation of the 2 lanes"):
        lanes(lambda x: lax.pshuffle(x, "i", [0, 0]))(np.ones(2))
    with pytest.raises(ValueError, match="must have the size 2"):
        lanes(lambda x: lax.psum_scatter(x, "i"))(np.ones((2, 3)))
    with pytest.raises(ValueError, match="must have the size 2"):
        lanes(lambda x: lax.all_to_all(x, "i", 0, 0))(np.ones((2, 3)))
    with pytest.raises(ValueError, match="not divisible"):
        lanes(lambda x: lax.psum_scatter(x, "i", tiled=True))(np.ones((2, 3)))
    with pytest.raises(ValueError, match="out of bounds"):
        lanes(lambda x: lax.all_gather(x, "i", axis=3))(np.ones((2, 3)))
    with pytest.raises(ValueError, match="names an axis twice"):
        lanes(lambda x: lax.psum(x, ("i", "i")))(np.ones(2))
    with pytest.raises(NotImplementedError, match="takes one axis name"):
        lanes(fc.vmap(lambda x: lax.pshuffle(x, ("i", "j"), [0, 1]), axis_name="j"))(np.ones((2, 2)))


def test_size_zero_and_one():
    assert lanes(lambda x: lax.psum(x, "i"))(np.zeros((0, 2))).shape == (0, 2)
    np.testing.assert_array_equal(lanes(lambda x: lax.pmax(x, "i"))(np.ones((1, 2))), np.ones((1, 2)))
