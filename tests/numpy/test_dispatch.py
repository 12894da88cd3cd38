"""Plain NumPy calls on traced values, and public functions on plain ones: one table for both."""

import warnings

import numpy as np
import pytest
import scipy.special

import funcad
import funcad.numpy as fnp
from funcad.errors import TracerBoolConversionError, TracerIntegerConversionError
from funcad.numpy.dispatch import TABLE

PUBLIC = {name: f for name, f in vars(fnp).items() if hasattr(f, "numpy_function")}


def test_the_table_and_the_public_names_cannot_drift():
    for name, f in PUBLIC.items():
        if f.numpy_function is not None:
            assert f.numpy_function in TABLE, name
            if hasattr(np, name):
                assert TABLE[f.numpy_function] is TABLE[getattr(np, name)], name


def test_public_names_have_docstrings():
    for name, f in vars(fnp).items():
        if callable(f) and not name.startswith("_") and getattr(f, "__module__", "").startswith("funcad"):
            assert f.__doc__, name


def test_untraced_calls_are_numpys():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert type(fnp.sum(x)) is np.float64 and type(fnp.sin(1.0)) is np.float64
    assert type(fnp.ones(2)) is np.ndarray and fnp.linspace(0, 1, 3).tolist() == [0.0, 0.5, 1.0]
    out = np.empty(2)
    assert fnp.sum(x, axis=0, out=out) is out and fnp.add(x[0], 1.0, out=out) is out
    assert isinstance(fnp.broadcast_arrays(x, 1.0), type(np.broadcast_arrays(x, 1.0)))
    with pytest.raises(ValueError) as ours:
        fnp.reshape(x, (3,))
    with pytest.raises(ValueError) as theirs:
        np.reshape(x, (3,))
    assert str(ours.value) == str(theirs.value)
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in log"):
        fnp.log(0.0)
    assert fnp.maximum.accumulate([1, 3, 2]).tolist() == [1, 3, 3] and fnp.add.reduce([1, 2]) == 3
    a = np.zeros(2)
    fnp.add.at(a, [0, 0], 1.0)
    assert a.tolist() == [2.0, 0.0]


def test_functions_without_an_implementation_say_so():
    for f, name in [
        (lambda x: np.may_share_memory(x, x), "np.may_share_memory"),
        (lambda x: np.isnat(x), "np.isnat"),
        (lambda x: np.busday_count(x, x), "np.busday_count"),
    ]:
        with pytest.raises(TypeError) as caught:
            funcad.grad(f)(1.5)
        assert name in str(caught.value) and "Remedy: " in str(caught.value) and __file__ in str(caught.value)


def test_unsupported_arguments_are_named():
    for f, argument in [
        (lambda x: np.add(x, 1.0, casting="no"), "casting='no'"),
        (lambda x: np.pad(x, 1, mode="edge", stat_length=1), "stat_length="),
        (lambda x: np.sort(x, order="a"), "order='a'"),
        (lambda x: np.einsum("i->", x, casting="no"), "casting='no'"),
        (lambda x: np.take(x, [0], out=np.zeros(1), mode="clip") + np.nanquantile(x, 0.5, weights=[1.0, 2.0]), "weights="),
    ]:
        with pytest.raises(TypeError) as caught:
            funcad.jit(f)(np.array([1.0, 2.0]))
        assert argument in str(caught.value)


def test_ufunc_dtype_argument():
    value = funcad.value_and_grad(lambda x: np.add(x, 1, dtype=np.float32))(1.5)[0]
    assert type(value) is np.float32
    assert funcad.jit(lambda x: np.multiply(x, 2, dtype=float))(np.arange(3)).dtype == np.float64


def test_scipy_special():
    for name, args in [
        ("erf", (0.3,)),
        ("gammaln", (1.7,)),
        ("expit", (0.3,)),
        ("psi", (1.7,)),
        ("xlogy", (0.4, 2.0)),
        ("betainc", (1.0, 2.0, 0.3)),
        ("ndtri", (0.4,)),
        ("i0e", (0.4,)),
    ]:
        f = getattr(scipy.special, name)
        x = np.array([args[-1], args[-1] * 0.9])
        fixed = args[:-1]
        value, tangent = funcad.jvp(lambda x, f=f, fixed=fixed: f(*fixed, x), (x,), (np.ones(2),))
        np.testing.assert_allclose(value, f(*fixed, x), rtol=1e-13)
        np.testing.assert_allclose(tangent, (f(*fixed, x + 1e-6) - f(*fixed, x - 1e-6)) / 2e-6, rtol=1e-6)
        np.testing.assert_allclose(funcad.jit(lambda x, f=f, fixed=fixed: f(*fixed, x))(x), f(*fixed, x), rtol=1e-13)
    with pytest.raises(TypeError, match="scipy.special.elliprf of complex arguments was called with traced values"):
        funcad.grad(lambda x: scipy.special.elliprf(1.0, x, 1j).real)(1.0)


def test_questions_about_shape_and_dtype():
    def f(x):
        y = x * np.ones((2, 3), np.float32)
        assert np.shape(y) == (2, 3) and np.ndim(y) == 2 and np.size(y) == 6 and np.size(y, 1) == 3
        assert not np.iscomplexobj(y) and np.isrealobj(y) and np.iscomplexobj(y * 1j)
        assert np.result_type(x, np.float32) == np.float32 and np.result_type(y, np.float64) == np.float64
        assert np.can_cast(y.dtype, np.float64) and np.can_cast(y, np.float64) and not np.can_cast(y, np.int8)
        assert fnp.isscalar(x) and not fnp.isscalar(y) and np.common_type(y, np.float16(1)) == np.float32
        return x

    assert funcad.grad(f)(1.5) == 1.0 and funcad.jit(f)(1.5) == 1.5


def test_shapes_that_depend_on_values():
    x = np.array([2.0, -1.0, 3.0, -4.0, 2.0])
    grad = funcad.grad
    np.testing.assert_array_equal(grad(lambda x: (x[np.nonzero(x > 0)] ** 2).sum())(x), [4, 0, 6, 0, 4])
    np.testing.assert_array_equal(grad(lambda x: (x[x > 0] ** 2).sum())(x), [4, 0, 6, 0, 4])
    np.testing.assert_array_equal(grad(lambda x: x[np.flatnonzero(x < 0)].sum())(x), [0, 1, 0, 1, 0])
    np.testing.assert_array_equal(grad(lambda x: np.unique(x).sum())(x), [1, 1, 1, 1, 0])
    np.testing.assert_array_equal(grad(lambda x: np.intersect1d(x, [2.0, 3.0]).sum())(x), [1, 0, 1, 0, 0])
    counts = []
    grad(lambda x: counts.append(np.unique(x, return_counts=True)[1]) or x.sum())(x)
    assert counts[0].tolist() == [1, 1, 2, 1]
    for f in (np.nonzero, np.flatnonzero, np.argwhere, np.unique, np.where, lambda x: np.bincount(x.astype(int))):
        with pytest.raises(TracerIntegerConversionError, match="Remedy: "):
            funcad.jit(f, guards=False)(x)
    with pytest.raises(TracerBoolConversionError):
        funcad.jit(lambda x: x[x > 0], guards=False)(x)


def test_bincount_of_a_known_length():
    positions, weights = np.array([0, 2, 2, 7]), np.array([1.0, 2.0, 3.0, 4.0])
    assert fnp.bincount(positions).tolist() == np.bincount(positions).tolist()
    assert funcad.jit(lambda x: fnp.bincount(x, length=4))(positions).tolist() == [1, 0, 2, 0]
    counted = funcad.jit(lambda x, w: fnp.bincount(x, w, length=4))
    assert counted(positions, weights).tolist() == [1.0, 0.0, 5.0, 0.0]
    gradient = funcad.grad(lambda w: (np.arange(8.0) * np.bincount(positions, w)).sum())(weights)
    assert gradient.tolist() == [0.0, 2.0, 2.0, 7.0]
    assert funcad.grad(lambda w: counted(positions, w)[2])(weights).tolist() == [0.0, 1.0, 1.0, 0.0]


def test_creation_with_traced_values():
    def f(x):
        a = fnp.array([x, 2.0 * x, 3])
        b = fnp.array([[x, 1], [a[0], a[1]]], dtype=np.float32)
        assert a.shape == (3,) and b.shape == (2, 2) and b.dtype == np.float32
        assert fnp.array(x, ndmin=2).shape == (1, 1) and fnp.asarray(a) is a
        return a.sum() + b.sum() + fnp.full((2,), x).sum() + fnp.arange(x, x + 3).sum() + fnp.linspace(x, 1.0, 2).sum()

    np.testing.assert_allclose(funcad.grad(f)(1.0), 3 + 4 + 2 + 3 + 1)
    with pytest.raises(ValueError, match="different shapes"):
        funcad.grad(lambda x: fnp.array([[x], [x, x]]).sum())(1.0)
    with pytest.raises(TypeError, match="static_argnums"):
        funcad.jit(lambda n: fnp.arange(n))(3)
    assert funcad.jit(lambda x: fnp.zeros(x.shape, x.dtype) + x)(np.ones(2)).tolist() == [1.0, 1.0]
    assert fnp.zeros((2,), device="cpu").tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="unknown device"):
        fnp.zeros(2, device="quantum")


def test_ndarray_is_for_isinstance():
    assert isinstance(np.ones(1), fnp.ndarray) and not isinstance(1.0, fnp.ndarray) and not isinstance([1], fnp.ndarray)
    with pytest.raises(TypeError):
        fnp.ndarray((2,))


def test_array_namespace():
    xp = funcad.jit(lambda x: [x, *[None for xp in [x.__array_namespace__()] if xp is fnp.array_api]])(1.0)
    assert xp[1] is None and fnp.__array_api_version__ >= "2022.12"
    for (
        name
    ) in "abs acos add all any arange argmax asarray astype broadcast_to concat conj cumulative_sum e expand_dims".split():
        assert hasattr(fnp, name)


def test_warnings_are_numpys_unjitted_and_none_jitted():
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        funcad.grad(lambda x: np.sum(np.log(x * 0.0)))(np.ones(2))
    with pytest.warns(RuntimeWarning, match="invalid value"):
        funcad.grad(lambda x: np.sum(np.sqrt(x)))(-np.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(all="ignore"):
            funcad.grad(lambda x: np.sum(np.log(x * 0.0)))(np.ones(2))
        funcad.grad(lambda x: np.sum(np.sqrt(x)))(np.zeros(2))  # the value is fine, the derivative infinite: tangent work
        funcad.jit(funcad.grad(lambda x: np.sum(np.log(x * 0.0))))(np.ones(2))
        funcad.grad(lambda x: np.std(x))(np.ones(3))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        funcad.grad(lambda x: np.sum(1.0 / (x - x)))(np.ones(2))


def test_kinks():
    ones = np.ones(3)
    np.testing.assert_array_equal(funcad.grad(np.std)(ones), 0.0)
    assert np.isnan(funcad.hessian(np.std)(ones)).all()  # where the slope turns
    np.testing.assert_allclose(funcad.hessian(np.var)(ones), 2 / 3 * (np.eye(3) - 1 / 3))
    np.testing.assert_array_equal(
        funcad.grad(lambda x: np.clip(x, 0.0, 1.0).sum())(np.array([0.0, 0.5, 1.0, 2.0])), [0.5, 1, 0.5, 0]
    )
    np.testing.assert_array_equal(funcad.grad(np.max)(ones), ones / 3)
    np.testing.assert_array_equal(funcad.grad(np.prod)(np.array([0.0, 0.0, 2.0])), 0.0)
    np.testing.assert_array_equal(funcad.grad(np.median)(np.array([3.0, 1.0, 2.0])), [0, 0, 1])
    assert funcad.grad(np.abs)(0.0) == 0.0
    assert np.clip(0.5, 2.0, 1.0) == funcad.jit(lambda x: np.clip(x, 2.0, 1.0))(0.5)


def test_empty_and_rank_zero():
    empty = np.zeros((0, 3))
    for f in (
        np.sum,
        np.prod,
        np.cumsum,
        lambda x: np.sort(x, axis=0),
        lambda x: np.concatenate([x, x]),
        lambda x: np.diff(x, axis=0),
    ):
        np.testing.assert_array_equal(funcad.jit(f)(empty), f(empty))
    with pytest.raises(ValueError, match="zero-size array"):
        funcad.jit(np.max)(empty)
    assert funcad.jit(lambda x: np.max(x, initial=-1.0))(empty) == -1.0
    assert type(funcad.jit(np.sum)(np.float64(2.0))) is np.float64
    assert funcad.jit(lambda x: np.mean(x, axis=()))(np.ones(2)).tolist() == [1.0, 1.0]


def test_numpys_errors():
    x = np.ones((2, 3))
    for f in (
        lambda x: np.sum(x, axis=2),
        lambda x: np.transpose(x, (0, 0)),
        lambda x: np.reshape(x, (4,)),
        lambda x: np.reshape(x, (-1, -1)),
        lambda x: np.concatenate([x, x.T]),
        lambda x: np.stack([x, x[0]]),
        lambda x: np.split(x, 2, axis=1),
        lambda x: np.broadcast_to(x, (3, 3)),
        lambda x: np.squeeze(x, axis=0),
        lambda x: np.dot(x, x),
        lambda x: np.einsum("ij,jk", x, x),
        lambda x: np.expand_dims(x, 5),
        lambda x: x + np.ones(4),
        lambda x: np.take(x, 7),
    ):
        with pytest.raises((ValueError, IndexError)) as theirs:
            f(x)
        for run in (funcad.jit(f), lambda x, f=f: funcad.jvp(f, (x,), (x,))):
            with pytest.raises(type(theirs.value).__mro__[0] if theirs.type in (ValueError, IndexError) else ValueError):
                run(x)


def test_traced_shifts_and_positions():
    x = np.arange(5.0)
    for s in (0, 2, -1, 7):
        np.testing.assert_array_equal(funcad.jit(np.roll)(x, s), np.roll(x, s))
    for f in (lambda i: fnp.take(x, i), lambda i: np.unravel_index(i, (2, 3))[1]):
        assert funcad.jit(f)(3) == f(3)
    assert funcad.jit(lambda i, j: np.ravel_multi_index((i, j), (2, 3)))(1, 2) == 5


def test_creation_like_a_traced_value():
    makers = [
        lambda x: np.asarray([1.0, 2.0], like=x),
        lambda x: np.array([1.0, x[0]], like=x),
        lambda x: np.zeros(2, like=x) + np.ones(2, like=x),
        lambda x: np.arange(2.0, like=x),
        lambda x: np.full(2, 3.0, like=x),
    ]
    for make, expected in zip(makers, [[1, 2], [2, 1], [1, 1], [0, 1], [3, 3]]):
        for transform in (funcad.grad, lambda f: funcad.jit(funcad.grad(f))):
            np.testing.assert_array_equal(transform(lambda x, make=make: np.sum(make(x) * x))(np.ones(2)), expected)
