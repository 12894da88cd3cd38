"""getitem and at() against NumPy: any index, values, derivatives, batches, jitted programs, refusals."""

from __future__ import annotations

import functools
import itertools

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import funcad
from funcad.errors import (
    FuncadError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)
from funcad.numpy.indexing import at, getitem, setitem
from funcad.primitives.reduction import reduce_sum
from tests.standin import DeviceArray, registered, to_device, to_host

quick = settings(max_examples=80, deadline=None)
SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)


def total(x):
    return reduce_sum(x, axes=tuple(range(len(x.shape))))


def ramp(shape, dtype=float):
    return (np.arange(np.prod(shape, dtype=int)) + 1).reshape(shape).astype(dtype)


@st.composite
def index_arrays(draw, n, shape):
    return draw(hnp.arrays(st.sampled_from([np.int64, np.int32, np.uint8]), shape, elements=st.integers(0, n - 1)))


@st.composite
def arrays_and_indices(draw):
    """An array shape and an index that mixes ints, slices, None, Ellipsis, integer and bool arrays, lists, 0-d arrays."""
    shape = draw(SHAPES)
    common = draw(hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=3))
    entries, axis, has_mask = [], 0, False
    while axis < len(shape) and draw(st.integers(0, 5)):
        n = shape[axis]
        kind = draw(st.sampled_from(["int", "slice", "array", "list", "mask", "none", "zero_d", "truth", "numpy_int"]))
        if n == 0 and kind in ("int", "array", "list", "zero_d", "numpy_int"):
            kind = "slice"
        if kind == "int":
            entries.append(draw(st.integers(-n, n - 1)))
        elif kind == "numpy_int":
            entries.append(np.int32(draw(st.integers(-n, n - 1))))
        elif kind == "zero_d":
            entries.append(np.array(draw(st.integers(-n, n - 1))))
        elif kind == "slice":
            entries.append(draw(st.slices(n)))
        elif kind == "none":
            entries.append(None)
            continue
        elif kind == "truth":
            if has_mask:
                continue
            entries.append(draw(st.sampled_from([True, np.True_, np.array(True), False])))
            has_mask = True
            continue
        elif kind in ("array", "list"):
            part = draw(st.sampled_from([common, common[-1:], (1,) * len(common)]))
            array = draw(hnp.arrays(np.int64, part, elements=st.integers(-n, n - 1)))
            entries.append(array.tolist() if kind == "list" else array)
        else:
            if has_mask:
                continue
            covered = draw(st.integers(1, min(2, len(shape) - axis)))
            entries.append(draw(hnp.arrays(bool, shape[axis : axis + covered])))
            has_mask = True
            axis += covered
            continue
        axis += 1
    if draw(st.booleans()):
        entries.insert(draw(st.integers(0, len(entries))), Ellipsis)
    return shape, entries[0] if len(entries) == 1 and draw(st.booleans()) else tuple(entries)


def expected(x, index):
    """NumPy's answer, or its error."""
    try:
        return x[index], None
    except (IndexError, DeprecationWarning) as error:  # the latter of older NumPy, where the result is empty
        return None, error


@settings(max_examples=120, deadline=None)
@given(arrays_and_indices())
def test_getitem_matches_numpy(case):
    check_getitem(*case)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(arrays_and_indices())
def test_getitem_matches_numpy_often(case):
    check_getitem(*case)


def check_getitem(shape, index):
    x = ramp(shape)
    want, error = expected(x, index)
    if error is not None:
        with pytest.raises(IndexError):
            funcad.jit(lambda x: getitem(x, index))(x)
        return
    got = funcad.jit(lambda x: getitem(x, index))(x)
    assert np.shape(got) == np.shape(want)
    np.testing.assert_array_equal(got, want)
    followed, tangent = funcad.jvp(lambda x: getitem(x, index), (x,), (2 * x,))
    np.testing.assert_array_equal(followed, want)
    np.testing.assert_array_equal(tangent, 2 * want)


@quick
@given(arrays_and_indices())
def test_gradient_and_batch(case):
    shape, index = case
    x = ramp(shape)
    want, error = expected(x, index)
    if error is not None:
        return
    weights = ramp(np.shape(want))
    counted = np.zeros(x.size)
    np.add.at(counted, np.arange(x.size).reshape(shape)[index].ravel(), weights.ravel())
    gradient = funcad.grad(lambda x: total(getitem(x, index) * weights))
    np.testing.assert_array_equal(gradient(x), counted.reshape(shape))
    xs = np.stack([x, -x])
    np.testing.assert_array_equal(funcad.vmap(lambda x: getitem(x, index))(xs), np.stack([want, -want]))
    np.testing.assert_array_equal(funcad.vmap(gradient)(xs), np.stack([counted.reshape(shape)] * 2))


@settings(max_examples=80, deadline=None)
@given(arrays_and_indices(), st.data())
def test_at_matches_numpy(case, data):
    check_at(*case, data)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(arrays_and_indices(), st.data())
def test_at_matches_numpy_often(case, data):
    check_at(*case, data)


def check_at(shape, index, data):
    x = ramp(shape)
    want, error = expected(x, index)
    if error is not None:
        with pytest.raises(IndexError):
            at(x)[index].set(0.0)
        return
    value_shape = np.shape(want)[data.draw(st.integers(0, np.ndim(want))) :]
    values = ramp(value_shape) * 0.5
    before = x.copy()
    result = x.copy()
    result[index] = values
    np.testing.assert_array_equal(at(x)[index].set(values), result)
    np.testing.assert_array_equal(funcad.jit(lambda x, v: at(x)[index].set(v))(x, values), result)
    for name, ufunc in (
        ("add", np.add),
        ("multiply", np.multiply),
        ("min", np.minimum),
        ("max", np.maximum),
        ("subtract", np.subtract),
        ("divide", np.divide),
    ):
        result = x.ravel().copy()
        # flat, because NumPy 2.4 reads out of bounds where ufunc.at has to broadcast its values
        ufunc.at(result, np.ravel(np.arange(x.size).reshape(shape)[index]), np.broadcast_to(values, np.shape(want)).ravel())
        got = getattr(at(x)[index], name)(values)
        np.testing.assert_allclose(got, result.reshape(shape), rtol=1e-14)
    np.testing.assert_array_equal(at(x)[index].get(), want)
    np.testing.assert_array_equal(x, before)  # never written


@quick
@given(arrays_and_indices())
def test_at_derivatives(case):
    """set: the last value written gets the cotangent, what was overwritten none."""
    shape, index = case
    x = ramp(shape)
    want, error = expected(x, index)
    if error is not None:
        return
    weights = ramp(shape)
    winner = np.full(x.size, -1)
    winner.reshape(shape)[index] = np.arange(np.size(want)).reshape(np.shape(want))
    ct_x, ct_v = funcad.grad(lambda x, v: total(at(x)[index].set(v) * weights), argnums=(0, 1))(x, 1.0 * want)
    np.testing.assert_array_equal(ct_x, np.where(winner.reshape(shape) >= 0, 0, weights))
    expected_v = np.zeros(np.size(want))
    expected_v[winner[winner >= 0]] = weights.ravel()[winner >= 0]
    np.testing.assert_array_equal(ct_v, expected_v.reshape(np.shape(want)))


def difference(f, x, epsilon=1e-6):
    out = np.asarray(f(x))
    jacobian = np.zeros(out.shape + x.shape)
    for i in np.ndindex(x.shape):
        d = np.zeros_like(x)
        d[i] = epsilon
        jacobian[(..., *i)] = (np.asarray(f(x + d)) - np.asarray(f(x - d))) / (2 * epsilon)
    return jacobian


OPERATIONS = ["set", "add", "subtract", "multiply", "divide", "power", "min", "max"]
INDICES = {
    "repeated": np.array([0, 2, 2, -1]),
    "pair": (np.array([0, 2, 2, 1]), np.array([1, 1, 1, 0])),
    "separated": (np.array([0, 2, 2]), None, np.array([1, 1, 0])),
    "slice": slice(None, None, -2),
    "int": -1,
    "mask": np.arange(12).reshape(4, 3) % 2 == 0,
    "mixed": (slice(1, 3), [0, 0, 2]),
}


@pytest.mark.share(8)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES.keys())
def test_update_derivatives_of_both_orders(operation, index):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 2, (4, 3))
    v = rng.uniform(0.5, 2, x[index].shape)

    def f(z):
        changed = getattr(at(z["x"])[index], operation)(z["v"])
        return total(changed * changed)

    def by(name, g):
        return lambda y: g({**{"x": x, "v": v}, name: y})

    for name, y in (("x", x), ("v", v)):
        gradient = funcad.grad(by(name, f))
        np.testing.assert_allclose(gradient(y), difference(by(name, f), y), atol=1e-7)
        np.testing.assert_allclose(funcad.jit(gradient)(y), gradient(y), rtol=1e-12)
        np.testing.assert_allclose(funcad.jacfwd(gradient)(y), difference(gradient, y), atol=1e-6)
        np.testing.assert_allclose(funcad.jacrev(gradient)(y), funcad.jacfwd(gradient)(y), atol=1e-12)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_batches_of_every_subset(operation):
    rng = np.random.default_rng(1)
    x, v = rng.uniform(0.5, 2, (3, 4, 2)), rng.uniform(0.5, 2, (3, 4, 2))
    index = rng.integers(-4, 4, (3, 4))

    def gradient(x, v, i):
        return funcad.grad(lambda x, v: total(np.sin(getattr(at(x)[i], operation)(v))), argnums=(0, 1))(x, v)

    for batched in itertools.product((True, False), repeat=3):
        if not any(batched):
            continue
        args = [a if b else a[0] for a, b in zip((x, v, index), batched)]
        axes = tuple([0 if b else None for b in batched])
        got = funcad.vmap(gradient, in_axes=axes)(*args)
        for k in range(3):
            want = gradient(*[a[k] if b else a for a, b in zip(args, batched)])
            np.testing.assert_allclose(got[0][k], want[0], rtol=1e-12)
            np.testing.assert_allclose(got[1][k], want[1], rtol=1e-12)


def test_product_is_exact_at_zeros():
    x, index = np.array([2.0, 3.0, 5.0]), np.array([1, 1, 0, 1])

    def f(v):
        return total(at(x)[index].multiply(v))

    v = np.array([0.0, 7.0, 0.0, 1.0])
    np.testing.assert_array_equal(funcad.grad(f)(v), [21.0, 0.0, 2.0, 0.0])
    hessian = np.zeros((4, 4))
    hessian[0, 1] = hessian[1, 0] = 3.0
    hessian[0, 3] = hessian[3, 0] = 21.0
    np.testing.assert_array_equal(funcad.hessian(f)(v), hessian)


def test_ties_of_min_and_max_share():
    x, index = np.array([1.0, 4.0]), np.array([0, 0, 1])
    for name in ("min", "max"):
        v = np.array([1.0, 1.0, 4.0])
        ct_x, ct_v = funcad.grad(lambda x, v, f=name: total(getattr(at(x)[index], f)(v)), argnums=(0, 1))(x, v)
        np.testing.assert_allclose(ct_x, [1 / 3, 1 / 2])
        np.testing.assert_allclose(ct_v, [1 / 3, 1 / 3, 1 / 2])


def test_traced_indices():
    x = ramp((4, 3))
    take = funcad.jit(lambda x, i: getitem(x, i))
    for i in (2, -1, np.int32(0), np.array([[0, -1], [3, 3]]), np.uint64(1), np.array([], int)):
        np.testing.assert_array_equal(take(x, i), x[i])
    mixed = funcad.jit(lambda x, i, j: getitem(x, (i, slice(None), j)))
    y = ramp((2, 4, 3))
    np.testing.assert_array_equal(mixed(y, 1, 2), y[1, :, 2])
    np.testing.assert_array_equal(mixed(y, np.array([0, 1]), 2), y[np.array([0, 1]), :, 2])
    np.testing.assert_array_equal(mixed(y, 1, np.array([0, 1])), y[1, :, np.array([0, 1])])
    static = funcad.jit(lambda y, i: getitem(y, (0, slice(None), i)))
    np.testing.assert_array_equal(static(y, np.array([0, 1])), y[0, :, np.array([0, 1])])
    np.testing.assert_array_equal(funcad.jit(lambda i: getitem(x, i))(np.array([1, 0])), x[[1, 0]])
    lanes = funcad.vmap(lambda x, i: getitem(x, (i, 1)), in_axes=(None, 0))(x, np.array([0, 3, -1]))
    np.testing.assert_array_equal(lanes, x[[0, 3, -1], 1])


@pytest.mark.parametrize("index", [4, -5, np.array([0, 4]), (0, 3), (slice(None), -4), np.array([-5])])
def test_out_of_bounds_raises_as_numpy(index):
    x = ramp((4, 3))
    with pytest.raises(IndexError) as numpy_error:
        x[index]
    runs = [
        lambda: funcad.jit(lambda x: getitem(x, index))(x),
        lambda: funcad.grad(lambda x: total(getitem(x, index)))(x),
        lambda: at(x)[index].set(0.0),
        lambda: at(x)[index].add(1.0),
    ]
    if isinstance(index, np.ndarray):
        runs.append(lambda: funcad.jit(lambda x, i: getitem(x, i))(x, index))
        runs.append(lambda: funcad.jit(lambda x, i: at(x)[i].add(1.0))(x, index))
    for run in runs:
        with pytest.raises(IndexError) as ours:
            run()
        assert str(ours.value) == str(numpy_error.value)


REFUSED = [1.0, "a", (0, 1.5), np.array([0.5]), (0, 0, 0), (..., ...), np.zeros(3, bool), object()]
REFUSED.append((np.zeros(3, int), np.zeros(2, int)))


@pytest.mark.parametrize("index", REFUSED, ids=lambda i: str(i)[:12])
def test_what_numpy_refuses_is_refused(index):
    x = ramp((4, 3))
    with pytest.raises(IndexError):
        funcad.jit(lambda x: getitem(x, index))(x)
    with pytest.raises(IndexError):
        at(x)[index]


def test_traced_masks():
    x = ramp((4,))
    with pytest.raises(TracerBoolConversionError, match="np.where"):
        funcad.jit(lambda x, m: getitem(x, m), guards=False)(x, x > 2)
    np.testing.assert_array_equal(funcad.jit(lambda x, m: getitem(x, m))(x, x > 2), x[x > 2])
    assert issubclass(TracerBoolConversionError, (FuncadError, TypeError))
    np.testing.assert_array_equal(funcad.grad(lambda x: total(getitem(x, np.arange(4) > 1)))(x), [0, 0, 1, 1])


def test_values_are_cast_as_in_assignment():
    x = np.arange(4)
    assert at(x)[0].set(2.7).tolist() == [2, 1, 2, 3] and at(x)[0].set(2.7).dtype == x.dtype
    assert at(np.zeros(2, np.float32))[:].set(np.float64(0.1)).dtype == np.float32
    with pytest.raises(OverflowError):
        at(np.zeros(2, np.uint8))[0].set(300)
    for value in (1j, np.complex64(1), np.ones(1, complex)):
        with pytest.raises(TypeError):
            at(np.zeros(2))[0:1].set(value)
    with pytest.raises(ValueError, match="could not be broadcast to indexing result"):
        at(np.zeros((2, 3)))[0].set(np.zeros(2))
    np.testing.assert_array_equal(at(np.zeros((2, 3)))[0].set(np.ones((1, 1, 3))), [[1, 1, 1], [0, 0, 0]])
    with pytest.raises(TypeError, match="convert x first"):
        at(x)[0].divide(2)
    assert at(x)[1:].power(2).tolist() == [0, 1, 4, 9]
    assert at([1.0, 2.0])[1].apply(np.exp).tolist() == [1.0, np.exp(2.0)]
    assert at(3.0)[...].set(1.0) == 1.0


def test_assignment_to_a_number_is_refused():
    with pytest.raises(TypeError, match="does not support item assignment"):
        funcad.jit(lambda x: setitem(x[0], 0, 1.0))(np.ones(2))


def test_common_indices_are_one_equation():
    for index in (0, slice(1, 2), (0, 1), (slice(None), 0), (None, Ellipsis, slice(None, None, -1))):
        text = str(funcad.jit(functools.partial(getitem, index=index)).lower(np.ones((3, 2))).jaxpr)
        assert text.count("basic_index") == 1 and "reshape" not in text


def test_rank_zero():
    for index in ((), ..., None, (None, ...), True, np.array(False)):
        np.testing.assert_array_equal(funcad.jit(lambda x, i=index: getitem(x, i))(2.0), np.float64(2.0)[index])
        _, tangent = funcad.jvp(lambda x, i=index: getitem(x, i), (2.0,), (3.0,))
        np.testing.assert_array_equal(tangent, np.float64(3.0)[index])
    assert type(at(2.0)[...].set(3.0)) is np.float64
    assert funcad.grad(lambda x: at(x)[()].multiply(3.0))(2.0) == 3.0


def test_the_axis_in_the_error_is_numpys():
    x = ramp((4, 3))
    for run in (lambda x: getitem(x, (slice(None), [0, 3])), lambda x: at(x)[:, [0, 3]].set(1.0)):
        with pytest.raises(IndexError, match="index 3 is out of bounds for axis 1 with size 3"):
            funcad.jvp(run, (x,), (x,))


@pytest.mark.share(3)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_updates_by_a_traced_mask(operation):
    x = np.array([[0.0, -2.0], [3.0, 4.0], [5.0, 6.0]])
    for mask in (x > 2, np.array([False, True, True])):
        for v in (2.0, np.array([2.0, 0.5]))[: 3 - mask.ndim]:
            known = getattr(at(x)[mask], operation)(v)
            np.testing.assert_allclose(funcad.jit(lambda x, m, v=v: getattr(at(x)[m], operation)(v))(x, mask), known)
            gradient = funcad.grad(lambda x, m, v=v: total(getattr(at(x)[m], operation)(v)))
            np.testing.assert_allclose(funcad.jit(gradient)(x, mask), gradient(x, mask))
    per_element = funcad.jit(lambda x, m: at(x)[m].set(np.arange(4.0)), guards=False)
    with pytest.raises(TracerBoolConversionError, match=r"np.where\(mask, v, x\)"):
        per_element(x, x > 2)
    applied = funcad.jit(lambda x, m: at(x)[m].apply(np.exp))(x, x > 2)
    np.testing.assert_allclose(applied, at(x)[x > 2].apply(np.exp))
    with pytest.raises(IndexError):
        funcad.jit(lambda x, m: at(x)[m].set(0.0))(x, np.array([True]))


def test_traced_slice_bounds_are_refused():
    with pytest.raises(TracerIntegerConversionError, match="dynamic_slice"):
        funcad.jit(lambda x, i: getitem(x, slice(i, None)), guards=False)(np.ones(3), 1)


@pytest.mark.parametrize("index", [0, [0, 2, 2], (slice(None), [0, 1]), np.arange(4) > 1, (slice(1, 3), 0)], ids=str)
def test_arrays_on_a_device(index):
    """Index arrays and scalar values go to where x is."""
    host = ramp((4, 3))
    with registered():
        x = to_device(host)
        for operation in OPERATIONS:
            changed = getattr(at(x)[index], operation)(2.0)
            assert type(changed) is DeviceArray
            np.testing.assert_allclose(to_host(changed), getattr(at(host)[index], operation)(2.0))
            gradient = funcad.grad(lambda x, f=operation: total(getattr(at(x)[index], f)(2.0)))
            np.testing.assert_allclose(to_host(gradient(x)), gradient(host))
        gradient = funcad.jit(funcad.grad(lambda x: total(np.sin(getitem(x, index)))))
        np.testing.assert_allclose(to_host(gradient(x)), gradient(host))


@pytest.mark.parametrize("index", [([0, 2], [1, 1]), (np.arange(2), [1, 0]), ([0, 1], 2), ([], []), ([[0], [1]], [0, 1])])
def test_lists_among_the_entries(index):
    x = ramp((3, 4))
    np.testing.assert_array_equal(getitem(x, index), x[index])
    expected = np.zeros((3, 4))
    np.add.at(expected, index, 2 * x[index])
    for transformed in (funcad.grad, lambda f: funcad.jit(funcad.grad(f))):
        np.testing.assert_allclose(transformed(lambda x: total(getitem(x, index) ** 2))(x), expected)


def test_lists_out_of_bounds():
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 1 with size 4"):
        funcad.grad(lambda x: total(getitem(x, ([0, 1], [0, 4]))))(ramp((3, 4)))
