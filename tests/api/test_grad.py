"""grad, value_and_grad, jvp, vjp, linearize, linear_transpose, Jacobians: options, structures, borders."""

import warnings

import numpy as np
import pytest

import funcad as fc
from funcad import float0


def test_argnums():
    f = lambda x, y: x * y + y
    assert fc.grad(f)(2.0, 3.0) == 3.0
    assert fc.grad(f, argnums=1)(2.0, 3.0) == 3.0
    assert fc.grad(f, argnums=(1, 0))(2.0, 3.0) == (3.0, 3.0)
    assert fc.grad(f, argnums=[0])(2.0, 3.0) == (3.0,)
    assert fc.grad(f, argnums=-1)(2.0, 3.0) == 3.0


def test_argnames_of_bound_methods():
    class Model:
        def product(self, a, b):
            return a * b

    f = Model().product
    assert fc.grad(f, argnames="a")(2.0, 5.0) == 5.0
    assert fc.grad(f, argnames="b")(2.0, 5.0) == 2.0
    assert fc.autograd.grad_named(f, "b")(2.0, 5.0) == 2.0
    assert fc.jit(f, static_argnames="a")._core.static_nums == (0,)
    assert fc.checkpoint(f, static_argnames="a")(2.0, 5.0) == 10.0


def test_argnames():
    f = lambda x, y, *, z: x * y * z
    assert fc.grad(f, argnames="z")(2.0, 3.0, z=5.0) == 6.0
    assert fc.grad(f, argnames=("z", "y"))(2.0, 3.0, z=5.0) == {"z": 6.0, "y": 10.0}
    assert fc.grad(f, argnames="y")(2.0, y=3.0, z=5.0) == 10.0
    assert fc.grad(f, argnums=0, argnames=["z"])(2.0, 3.0, z=5.0) == (15.0, {"z": 6.0})
    assert fc.value_and_grad(f, argnames="z")(2.0, 3.0, z=5.0) == (30.0, 6.0)
    with pytest.raises(ValueError, match="names 'q'"):
        fc.grad(f, argnames="q")(2.0, 3.0, z=5.0)
    with pytest.raises(ValueError, match="named by both"):
        fc.grad(f, argnums=1, argnames="y")(2.0, 3.0, z=5.0)


def test_a_pair_with_aux_may_be_a_list():
    """As in JAX: a function that computes both in a comprehension gives one."""
    f = lambda x: [x**2, 3 * x]
    assert fc.grad(f, has_aux=True)(2.0) == (4.0, 6.0) and fc.value_and_grad(f, has_aux=True)(2.0) == ((4.0, 6.0), 4.0)
    assert fc.jvp(f, (2.0,), (1.0,), has_aux=True) == (4.0, 4.0, 6.0) and fc.vjp(f, 2.0, has_aux=True)[2] == 6.0
    for g in (fc.jacfwd(f, has_aux=True), fc.jacrev(f, has_aux=True), fc.jit(fc.grad(f, has_aux=True))):
        assert g(2.0) == (4.0, 6.0)
    assert fc.hessian(f, has_aux=True)(2.0) == (2.0, 6.0)
    solve = lambda f, x: [x / 2, 7.0]
    assert fc.custom_root(lambda y: 2 * y - 4.0, 4.0, solve, lambda g, y: y / g(1.0), has_aux=True) == (2.0, 7.0)


@pytest.mark.parametrize("argnums, text", [(2, "out of range"), ((0, 0), "twice"), ("x", "int or a sequence")])
def test_bad_argnums(argnums, text):
    with pytest.raises((ValueError, TypeError), match=text):
        fc.grad(lambda x, y: x * y, argnums=argnums)(1.0, 2.0)


def test_has_aux_keeps_values_of_any_type():
    def f(x):
        return np.sum(x**2), {"y": x * 2.0, "name": "run", "n": 3}

    g, aux = fc.grad(f, has_aux=True)(np.arange(3.0))
    np.testing.assert_array_equal(g, [0.0, 2.0, 4.0])
    np.testing.assert_array_equal(aux["y"], [0.0, 2.0, 4.0])
    assert aux["name"] == "run" and aux["n"] == 3
    (value, aux), g = fc.value_and_grad(f, has_aux=True)(np.arange(3.0))
    assert value == 5.0 and type(aux["y"]) is np.ndarray
    with pytest.raises(TypeError, match="must return a pair"):
        fc.grad(lambda x: x, has_aux=True)(1.0)
    value, tangent, aux = fc.jvp(f, (np.arange(3.0),), (np.ones(3),), has_aux=True)
    assert tangent == 6.0 and aux["n"] == 3
    value, pullback, aux = fc.vjp(f, np.arange(3.0), has_aux=True)
    np.testing.assert_array_equal(pullback(1.0)[0], g)
    value, push, aux = fc.linearize(f, np.arange(3.0), has_aux=True)
    assert push(np.ones(3)) == 6.0 and aux["name"] == "run"
    jac, aux = fc.jacrev(lambda x: (x * x, x), has_aux=True)(np.ones(2))
    np.testing.assert_array_equal(jac, 2 * np.eye(2))
    jac, aux = fc.jacfwd(lambda x: (x * x, x), has_aux=True)(np.ones(2))
    np.testing.assert_array_equal(jac, 2 * np.eye(2))


def test_pytrees_everywhere():
    params = {"w": np.ones((2, 3)), "layers": [(np.ones(3), 2.0), None]}
    f = lambda p, x: np.sum(x @ p["w"] * p["layers"][0][0]) * p["layers"][0][1]
    g = fc.grad(f)(params, np.ones(2))
    assert g["w"].shape == (2, 3) and g["layers"][1] is None
    np.testing.assert_array_equal(g["layers"][0][0], [4.0, 4.0, 4.0])
    assert g["layers"][0][1] == 6.0


def test_gradients_have_their_arguments_dtype_and_type():
    for dtype in (np.float16, np.float32, np.float64, np.longdouble):
        g = fc.grad(lambda x: np.sum(x * x))(np.ones(3, dtype))
        assert g.dtype == dtype and type(g) is np.ndarray
        g = fc.grad(lambda x: x * x)(dtype(3))
        assert g.dtype == dtype and isinstance(g, np.generic)
    assert type(fc.grad(lambda x: x * x)(3.0)) is np.float64
    assert type(fc.grad(lambda x: x * x)(np.array(3.0))) is np.float64
    g = fc.grad(lambda x: np.sum(x.astype(np.float64)))(np.ones(2, np.float32))
    assert g.dtype == np.float32


def test_allow_int():
    with pytest.raises(fc.errors.NonDifferentiableInputError):
        fc.grad(lambda x, n: x * n, argnums=1)(1.0, 3)
    g = fc.grad(lambda p: p["x"] * p["n"], allow_int=True)({"x": 2.0, "n": np.arange(3)[1]})
    assert g["x"] == 1.0 and g["n"].dtype == float0 and g["n"].shape == ()


def test_jvp_with_integer_arguments():
    out, tangent = fc.jvp(lambda x, n: (x * n, n + 1), (2.0, 3), (1.0, np.zeros((), float0)))
    assert out == (6.0, 4) and tangent[0] == 3.0 and tangent[1].dtype == float0


def test_holomorphic():
    assert fc.grad(np.sin, holomorphic=True)(1 + 2j) == pytest.approx(np.cos(1 + 2j))
    with pytest.raises(fc.errors.NonDifferentiableInputError, match="holomorphic=True"):
        fc.grad(np.sin)(1 + 2j)
    with pytest.raises(fc.errors.NonDifferentiableInputError, match="needs complex arguments"):
        fc.grad(np.sin, holomorphic=True)(1.0)
    # real-valued functions of complex arguments: df/dx - i df/dy, as JAX
    assert fc.grad(lambda z: np.real(z * np.conj(z)))(1 + 2j) == 2 - 4j


def test_pullbacks_are_reusable_and_differentiable():
    y, pullback = fc.vjp(lambda x: x * x * x, 2.0)
    assert pullback(1.0) == (12.0,) and pullback(2.0) == (24.0,)
    assert fc.grad(lambda x: fc.vjp(lambda y: y * y * y, x)[1](1.0)[0])(2.0) == 12.0
    assert fc.jvp(lambda ct: pullback(ct)[0], (1.0,), (1.0,))[1] == 12.0
    np.testing.assert_array_equal(fc.vmap(lambda ct: pullback(ct)[0])(np.arange(3.0)), [0.0, 12.0, 24.0])


def test_linearize_is_reusable_and_mappable():
    y, push = fc.linearize(lambda x, y: (x * y, x), 2.0, 3.0)
    assert y == (6.0, 2.0)
    assert push(1.0, 0.0) == (3.0, 1.0) and push(0.0, 1.0) == (2.0, 0.0)
    np.testing.assert_array_equal(fc.vmap(push)(np.arange(2.0), np.zeros(2))[0], [0.0, 3.0])


def test_linear_transpose():
    matrix = np.arange(6.0).reshape(2, 3)
    transposed = fc.linear_transpose(lambda x: matrix @ x, np.ones(3))
    np.testing.assert_array_equal(transposed(np.ones(2))[0], matrix.sum(0))
    with pytest.raises(fc.errors.MissingRuleError):
        fc.linear_transpose(np.sin, 1.0)(1.0)


def test_jacobians_of_pytrees():
    f = lambda p, x: {"a": p["w"] * x, "b": np.sum(p["w"])}
    p, x = {"w": np.array([1.0, 2.0])}, np.array([3.0, 4.0])
    for jac in (fc.jacfwd, fc.jacrev):
        J = jac(f, argnums=(0, 1))(p, x)
        np.testing.assert_array_equal(J["a"][0]["w"], np.diag([3.0, 4.0]))
        np.testing.assert_array_equal(J["a"][1], np.diag([1.0, 2.0]))
        np.testing.assert_array_equal(J["b"][0]["w"], [1.0, 1.0])
        np.testing.assert_array_equal(J["b"][1], [0.0, 0.0])


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 100])
def test_jacobian_chunks(chunk_size):
    f = lambda x: np.sin(x) * np.sum(x)
    x = np.arange(5.0)
    expected = fc.jacrev(f)(x)
    np.testing.assert_allclose(fc.jacrev(f, chunk_size=chunk_size)(x), expected)
    np.testing.assert_allclose(fc.jacfwd(f, chunk_size=chunk_size)(x), expected)
    h = lambda x: np.sum(np.sin(x) * x)
    np.testing.assert_allclose(fc.hessian(h, chunk_size=chunk_size)(x), fc.hessian(h)(x))


def test_hvp_and_gnvp():
    f = lambda x, y: np.sum(x**3 * y)
    x, y, v, w = np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([1.0, -1.0]), np.array([0.5, 2.0])
    hx, hy = fc.hvp(f, (x, y), (v, w))
    np.testing.assert_allclose(hx, 6 * x * y * v + 3 * x**2 * w)
    np.testing.assert_allclose(hy, 3 * x**2 * v)
    r = lambda x: x**2 - 1.0
    J = fc.jacfwd(r)(x)
    np.testing.assert_allclose(fc.gnvp(r, (x,), (v,)), J.T @ J @ v)
    loss = lambda u: np.sum(u**4)
    np.testing.assert_allclose(fc.gnvp(r, (x,), (v,), outer=loss), J.T @ fc.hessian(loss)(r(x)) @ J @ v)
    with pytest.raises(TypeError, match="write hvp"):
        fc.hvp(f, x, v)


def test_independent_output_warns_once_and_names_the_argument():
    g = fc.grad(lambda x, y: y * 2.0, argnums=(0, 1))
    with pytest.warns(UserWarning, match="does not depend on the argument argnums=0"):
        assert g(1.0, 2.0) == (0.0, 2.0)
    assert g(1.0, 2.0) == (0.0, 2.0)


def test_callers_arrays_are_never_aliased_or_changed():
    x = np.ones(3)
    value, pullback = fc.vjp(lambda x: x, x)
    ct = np.ones(3)
    (g,) = pullback(ct)
    assert not np.shares_memory(g, ct) and not np.shares_memory(value, x)
    a, b = fc.grad(lambda x, y: np.sum(x + y), argnums=(0, 1))(x, x)
    assert not np.shares_memory(a, b)
    a[0] = 5.0
    assert b[0] == 1.0 and x.tolist() == [1.0, 1.0, 1.0]
    x[0] = 2.0  # no lock survives


def test_empty_and_size_one():
    assert fc.grad(np.sum)(np.zeros((0, 3))).shape == (0, 3)
    assert fc.jacrev(lambda x: x * 2.0)(np.zeros(0)).shape == (0, 0)
    np.testing.assert_array_equal(fc.hessian(lambda x: np.sum(x * x))(np.ones((1, 1))), np.full((1, 1, 1, 1), 2.0))


def test_gradients_of_methods_and_decorated_functions():
    class Model:
        def __init__(self):
            self.w = 3.0

        @fc.grad
        def slope(self_x):
            return self_x * self_x

        def loss(self, x):
            return self.w * x * x

    assert fc.grad(Model().loss)(2.0) == 12.0
    assert Model.slope(2.0) == 4.0
    with pytest.raises(TypeError, match="Remedy: grad\\(f\\)\\(x\\)"):
        fc.grad(3.0)


def test_perturbation_confusion():
    assert fc.grad(lambda x: x * fc.grad(lambda y: x + y)(1.0))(2.0) == 1.0
    assert fc.grad(lambda x: x * fc.jvp(lambda y: x, (1.0,), (1.0,))[1])(3.0) == 0.0
    assert fc.jvp(lambda x: fc.jvp(lambda y: x * y, (2.0,), (1.0,))[1], (3.0,), (1.0,))[1] == 1.0


@pytest.mark.parametrize("transform", [fc.hessian, fc.jacfwd, fc.jacrev])
def test_rows_of_jacobians_never_warn(transform):
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        transform(lambda x: np.sum(np.sqrt(x)))(np.array([0.0, 1.0]))


@pytest.mark.parametrize("jacobian", [fc.jacfwd, fc.jacrev, fc.hessian])
def test_jacobians_of_no_argument_are_empty(jacobian):
    assert jacobian(np.sin, argnums=())(1.0) == ()
    assert jacobian(lambda x: ([x, x], 3), argnums=(), has_aux=True)(1.0)[0] == [(), ()]
