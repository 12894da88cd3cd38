"""funcad.autograd: HIPS autograd's names with autograd's conventions, its primitives, its modules."""

from __future__ import annotations

from typing import Any

import numpy as onp
import pytest

import funcad
import funcad.autograd as ag
import funcad.autograd.numpy as np
import funcad.autograd.numpy.linalg as npla
import funcad.autograd.numpy.random as npr
from funcad import tree
from funcad.autograd.extend import (
    def_linear,
    defjvp,
    defjvp_argnum,
    defjvp_argnums,
    defvjp,
    defvjp_argnum,
    defvjp_argnums,
    notrace_primitive,
    primitive,
)
from funcad.autograd.misc.fixed_points import fixed_point
from funcad.autograd.misc.flatten import flatten, flatten_func
from funcad.autograd.misc.optimizers import adam, rmsprop, sgd, unflatten_optimizer
from funcad.autograd.test_util import check_equivalent, check_grads, check_jvp, check_vjp, combo_check
from funcad.autograd.tracer import getval, isbox
from funcad.errors import MissingRuleError, NonDifferentiableInputError, NonScalarOutputError
from tests.forked import in_a_process

X, Y, V = onp.array([0.3, -1.2, 2.0]), onp.array([1.0, 0.5, -0.7]), onp.array([1.0, -2.0, 0.5])
M = onp.arange(6.0).reshape(2, 3) / 3


def scalar(x: Any, y: Any) -> Any:
    return np.sum(np.sin(x) * y**2)


def vector(x: Any, y: Any) -> Any:
    return np.dot(M, x * y) ** 2


BY_X, BY_Y = onp.cos(X) * Y**2, 2 * onp.sin(X) * Y
JACOBIAN = 2 * (M @ (X * Y))[:, None] * M  # of vector, towards x * y


# -- differential operators


def test_argnum() -> None:
    onp.testing.assert_allclose(ag.grad(scalar)(X, Y), BY_X)
    onp.testing.assert_allclose(ag.grad(scalar, argnum=1)(X, Y), BY_Y)
    onp.testing.assert_allclose(ag.grad(scalar, -1)(X, Y), BY_Y)
    for argnum in ((1, 0), [1, 0]):
        found = ag.grad(scalar, argnum)(X, Y)
        assert type(found) is tuple
        onp.testing.assert_allclose(found, [BY_Y, BY_X])
    with pytest.raises(TypeError, match="argnum=2"):
        ag.grad(scalar, 2)(X, Y)
    with pytest.raises(TypeError, match="grad_named"):
        ag.grad(scalar, "y")
    with pytest.raises(TypeError, match="function"):
        ag.grad(scalar(X, Y))


def test_outputs_of_one_element() -> None:
    value, gradient = ag.value_and_grad(lambda x: (x[:1] ** 2).reshape(1, 1))(X)
    assert value.shape == (1, 1)
    onp.testing.assert_allclose(gradient, [0.6, 0.0, 0.0])
    with pytest.raises(NonScalarOutputError, match="elementwise_grad"):
        ag.grad(np.sin)(X)
    with pytest.raises(NonScalarOutputError, match="holomorphic_grad"):
        ag.grad(lambda z: z**2)(1j)


def test_integers_are_refused() -> None:
    for operator in (ag.grad, ag.elementwise_grad, ag.deriv, ag.make_vjp, ag.jacobian):
        with pytest.raises(NonDifferentiableInputError):
            operator(lambda x: x**2)(3)


def test_elementwise_grad_and_deriv() -> None:
    onp.testing.assert_allclose(ag.elementwise_grad(np.tanh)(X), 1 - onp.tanh(X) ** 2)
    onp.testing.assert_allclose(ag.elementwise_grad(vector, 1)(X, Y), JACOBIAN.sum(0) * X)
    onp.testing.assert_allclose(ag.deriv(np.sin)(X), onp.cos(X))
    onp.testing.assert_allclose(ag.elementwise_grad(ag.elementwise_grad(np.sin))(X), -onp.sin(X))
    with pytest.raises(NonDifferentiableInputError, match="complex"):
        ag.elementwise_grad(lambda x: x * 1j)(X)


def test_jacobian_and_hessian() -> None:
    onp.testing.assert_allclose(ag.jacobian(vector)(X, Y), JACOBIAN * Y)
    onp.testing.assert_allclose(ag.jacobian(vector, 1)(X, Y), JACOBIAN * X)
    assert ag.jacobian(lambda x: np.outer(x, x))(X).shape == (3, 3, 3)
    onp.testing.assert_allclose(ag.hessian(scalar)(X, Y), onp.diag(-onp.sin(X) * Y**2))
    onp.testing.assert_allclose(ag.hessian(lambda x: x**3)(2.0), 12.0)


def test_products() -> None:
    pullback, value = ag.make_vjp(vector)(X, Y)
    onp.testing.assert_allclose(value, vector(X, Y))
    onp.testing.assert_allclose(pullback(onp.array([1.0, 2.0])), onp.array([1.0, 2.0]) @ JACOBIAN * Y)
    both, _ = ag.make_vjp(vector, (0, 1))(X, Y)
    onp.testing.assert_allclose(both(onp.ones(2)), [JACOBIAN.sum(0) * Y, JACOBIAN.sum(0) * X])
    value, tangent = ag.make_jvp(vector)(X, Y)(V)
    onp.testing.assert_allclose(tangent, JACOBIAN @ (Y * V))
    onp.testing.assert_allclose(ag.make_jvp(vector, (0, 1))(X, Y)((V, X))[1], JACOBIAN @ (Y * V + X * X))
    onp.testing.assert_allclose(ag.make_jvp_reversemode(vector)(X, Y)(V), tangent)
    hvp, gradient = ag.make_hvp(scalar)(X, Y)
    onp.testing.assert_allclose(gradient, BY_X)
    onp.testing.assert_allclose(hvp(V), -onp.sin(X) * Y**2 * V)
    for f in (ag.hessian_tensor_product, ag.hessian_vector_product):
        onp.testing.assert_allclose(f(scalar, 1)(X, Y, V), 2 * onp.sin(X) * V)
    for f in (ag.tensor_jacobian_product, ag.vector_jacobian_product):
        onp.testing.assert_allclose(f(vector, 1)(X, Y, onp.ones(2)), JACOBIAN.sum(0) * X)
    j = JACOBIAN * Y
    onp.testing.assert_allclose(ag.make_ggnvp(vector)(X, Y)(V), j.T @ j @ V)
    curved = ag.make_ggnvp(vector, lambda out: np.sum(np.exp(out / 9)), f_argnum=0)(X, Y)(V)
    onp.testing.assert_allclose(curved, j.T @ (onp.exp(vector(X, Y) / 9) / 81 * (j @ V)))


def test_pullbacks_take_numbers() -> None:
    pullback, _ = ag.make_vjp(lambda x: x**2)(onp.float32(3.0))
    assert pullback(1).dtype == onp.float32
    assert ag.make_vjp(np.sin)(X)[0](1.0).shape == (3,)


def test_aux_names_and_dictionaries() -> None:
    gradient, aux = ag.grad_and_aux(lambda x: (np.sum(x**2), {"three": 3 * x, "text": "kept"}))(X)
    onp.testing.assert_allclose(gradient, 2 * X)
    onp.testing.assert_allclose(aux["three"], 3 * X)
    assert aux["text"] == "kept"
    onp.testing.assert_allclose(ag.grad_named(scalar, "y")(X, Y), BY_Y)
    found = ag.multigrad_dict(lambda x, *rest, k=2.0, **more: x * rest[0] * k * more["z"])(2.0, 3.0, z=5.0)
    assert list(found) == ["x", "rest", "k", "more"]
    assert (float(found["x"]), float(found["rest"][0]), float(found["k"]), float(found["more"]["z"])) == (30, 20, 30, 12)


def _stored(x: Any) -> Any:
    a, b, c = V.copy(), np.array(M), np.zeros(2)
    a += x
    b[1] = a * x
    c[0] = a[0]
    return np.sum(b**2) + np.sum(a * x) + c[0] ** 2


def _not_stored(x: Any) -> Any:
    a = V + x
    return np.sum(M[0] ** 2) + np.sum((a * x) ** 2) + np.sum(a * x) + a[0] ** 2


@pytest.mark.parametrize(
    "way",
    [
        lambda f: ag.grad(f)(X),
        lambda f: ag.grad(lambda p: f(p["x"]))({"x": X})["x"],
        lambda f: ag.elementwise_grad(lambda k, x: f(k * x), 1)(2.0, X),
        lambda f: ag.value_and_grad(f)(X)[1],
        lambda f: ag.jacobian(f)(X),
        lambda f: ag.hessian(f)(X),
        lambda f: ag.hessian_vector_product(f)(X, V),
        lambda f: ag.make_vjp(f)(X)[0](1.0),
        lambda f: ag.make_jvp(f)(X)(V)[1],
        lambda f: ag.multigrad_dict(lambda x, k: f(x) * k)(X, 2.0)["x"],
        lambda f: ag.tensor_jacobian_product(lambda x: np.array([f(x), f(2 * x)]))(X, onp.ones(2)),
    ],
    ids="grad dict elementwise value jacobian hessian hvp vjp jvp multigrad tjp".split(),
)
def test_arrays_that_the_function_makes_take_what_it_writes(way: Any) -> None:
    """In autograd they do not."""
    onp.testing.assert_allclose(way(_stored), way(_not_stored), rtol=1e-12)


def test_methods_of_ndarray_are_functions() -> None:
    onp.testing.assert_array_equal(np.ndarray.flatten(M), M.flatten())
    onp.testing.assert_allclose(ag.grad(lambda m: np.sum(np.ndarray.flatten(m) ** 2))(M), 2 * M)
    onp.testing.assert_allclose(ag.grad(lambda m: np.sum(np.ndarray.sum(m, axis=0) ** 2))(M), 2 * M.sum(0) + 0 * M)
    assert not hasattr(np.ndarray, "shape") and not hasattr(np.ndarray, "no_such_method")
    with pytest.raises(TypeError, match="doesn't apply to a 'Tracer'") as refused:
        ag.grad(lambda m: np.sum(onp.ndarray.flatten(m)))(M)
    assert "x.flatten()" in refused.value.__notes__[0]


def test_complex_numbers() -> None:
    onp.testing.assert_allclose(ag.grad(lambda z: np.abs(z) ** 2)(1 + 2j), 2 - 4j)
    onp.testing.assert_allclose(ag.holomorphic_grad(lambda z: z**2)(1 + 2j), 2 + 4j)
    with pytest.warns(UserWarning, match="not complex"):
        ag.holomorphic_grad(lambda z: z**2)(1.0)


def test_the_result_is_an_ordinary_function() -> None:
    onp.testing.assert_allclose(funcad.jit(ag.grad(scalar))(X, Y), BY_X)
    onp.testing.assert_allclose(funcad.vmap(ag.grad(lambda x: x**3))(X), 3 * X**2)
    onp.testing.assert_allclose(ag.grad(ag.checkpoint(scalar))(X, Y), BY_X)
    assert ag.grad(scalar).__name__ == "scalar"
    onp.testing.assert_allclose(ag.grad(lambda x, *, k: np.sum(x**k))(X, k=3), 3 * X**2)


# -- primitives


def cubed(rules: str) -> Any:
    """(sin(x) * y)**n, computed where no trace can see it."""

    @primitive
    def f(x, y, n):
        return onp.asarray([float(v) ** n for v in onp.sin(x) * y])

    by_base = lambda x, y, n: n * (np.sin(x) * y) ** (n - 1)
    if "r" in rules:
        defvjp(
            f,
            lambda ans, x, y, n: lambda g: g * by_base(x, y, n) * np.cos(x) * y,
            lambda ans, x, y, n: lambda g: g * by_base(x, y, n) * np.sin(x),
            None,
        )
    if "f" in rules:
        defjvp(
            f,
            lambda g, ans, x, y, n: g * by_base(x, y, n) * np.cos(x) * y,
            lambda g, ans, x, y, n: g * by_base(x, y, n) * np.sin(x),
            None,
        )
    return f


@pytest.mark.parametrize("rules", ["r", "f", "rf"])
def test_primitive_with_foreign_code(rules: str) -> None:
    f = cubed(rules)
    plain = lambda x, y: (np.sin(x) * y) ** 3
    onp.testing.assert_allclose(f(X, Y, 3), plain(X, Y))
    sums = lambda h: lambda x, y: np.sum(h(x, y) * x)
    ours, theirs = sums(lambda x, y: f(x, y, 3)), sums(plain)
    onp.testing.assert_allclose(ag.grad(ours, (0, 1))(X, Y), ag.grad(theirs, (0, 1))(X, Y))
    onp.testing.assert_allclose(ag.grad(ours, 1)(X, Y), ag.grad(theirs, 1)(X, Y))
    tangents = ag.make_jvp(ours, (0, 1))(X, Y)((V, X)), ag.make_jvp(theirs, (0, 1))(X, Y)((V, X))
    onp.testing.assert_allclose(*tangents)
    if rules != "f":
        onp.testing.assert_allclose(ag.hessian(ours)(X, Y), ag.hessian(theirs)(X, Y), atol=1e-14)


def test_primitive_under_transforms() -> None:
    f = primitive(lambda x, y: np.sin(x) * y)
    defvjp(f, lambda ans, x, y: lambda g: 10 * g * np.cos(x) * y, lambda ans, x, y: lambda g: 10 * g * np.sin(x))
    slope = ag.grad(lambda x: np.sum(f(x, Y)))
    onp.testing.assert_allclose(slope(X), 10 * onp.cos(X) * Y)
    onp.testing.assert_allclose(funcad.jit(slope)(X), 10 * onp.cos(X) * Y)
    onp.testing.assert_allclose(ag.grad(funcad.jit(lambda x: np.sum(f(x, Y))))(X), 10 * onp.cos(X) * Y)
    onp.testing.assert_allclose(funcad.vmap(ag.grad(f))(X, Y), 10 * onp.cos(X) * Y)
    onp.testing.assert_allclose(ag.elementwise_grad(slope)(X), -10 * onp.sin(X) * Y)
    assert slope(X.astype(onp.float32)).dtype == onp.float32


def test_rules_by_argnum() -> None:
    product = lambda *a, scale: onp.prod(a, axis=0) * scale
    expected = [2 * Y * X * 2, 2 * X * X]
    one = primitive(product)
    defvjp_argnum(one, lambda i, ans, args, kwargs: lambda g: g * ans / args[i])
    defjvp_argnum(one, lambda i, g, ans, args, kwargs: g * ans / args[i])
    every = primitive(product)
    defvjp_argnums(every, lambda argnums, ans, args, kwargs: lambda g: [g * ans / args[i] for i in argnums])
    defjvp_argnums(every, lambda argnums, gs, ans, args, kwargs: sum(g * ans / args[i] for i, g in zip(argnums, gs)))
    for f in (one, every):
        h = lambda x, y, f=f: f(x, y, x, scale=2.0)
        onp.testing.assert_allclose(ag.grad(lambda x, y: np.sum(h(x, y)), (0, 1))(X, Y), expected)  # noqa: B023
        onp.testing.assert_allclose(ag.make_jvp(h, (0, 1))(X, Y)((V, V))[1], (expected[0] + expected[1]) * V)


def test_linear_primitives() -> None:
    f = primitive(lambda x, y: x * y)
    def_linear(f)
    onp.testing.assert_allclose(ag.grad(lambda x: np.sum(f(x, Y) ** 2))(X), 2 * X * Y**2)
    g = primitive(lambda x, y: x * np.exp(y))
    defjvp(g, "same", lambda t, ans, x, y: t * ans)
    onp.testing.assert_allclose(ag.make_jvp(g, (0, 1))(X, Y)((V, V))[1], (V + V * X) * onp.exp(Y))


def test_containers_as_arguments() -> None:
    f = primitive(lambda pair, name: pair["a"] * pair["b"][0])
    defvjp(f, lambda ans, pair, name: lambda g: {"a": 5 * g * pair["b"][0], "b": [g * pair["a"]]})
    found = ag.grad(lambda pair: np.sum(f(pair, "any object")))({"a": X, "b": [Y]})
    onp.testing.assert_allclose(found["a"], 5 * Y)
    onp.testing.assert_allclose(found["b"][0], X)


def test_missing_rules_are_named() -> None:
    f = primitive(lambda x, y: x * y)
    with pytest.raises(MissingRuleError, match="argument 0"):
        ag.grad(f)(1.0, 2.0)
    defvjp(f, lambda ans, x, y: lambda g: g * y, argnums=(0,))
    assert ag.grad(f)(1.0, 2.0) == 2.0
    assert ag.grad(lambda x: funcad.jit(f)(x, 3.0))(1.0) == 3.0  # y is traced by jit, but not differentiated
    for derivative in (ag.grad(f, 1), ag.grad(funcad.jit(f), 1), lambda x, y: funcad.jvp(f, (x, y), (1.0, 1.0))):
        with pytest.raises(MissingRuleError, match="argument 1"):
            derivative(1.0, 2.0)
    defvjp(f, lambda ans, x, y: lambda g: g * y, None)
    assert ag.grad(lambda y: f(1.0, y) + 0.0 * y)(2.0) == 0.0


def test_what_primitives_refuse() -> None:
    f = primitive(lambda x, scale=1.0: x * scale)
    defvjp(f, lambda ans, x, scale: lambda g: g)
    with pytest.raises(TypeError, match="keyword argument 'scale'"):
        ag.grad(lambda s: f(1.0, scale=s))(2.0)
    with pytest.raises(TypeError, match="bad vjp"):
        defvjp(f, "same")


def test_notrace_primitive_and_getval() -> None:
    assert ag.grad(lambda x: x * notrace_primitive(onp.floor)(x))(2.5) == 2.0
    assert ag.grad(lambda x: x * getval(x))(3.0) == 3.0
    seen = []
    ag.grad(lambda x: seen.append((isbox(x), isbox(getval(x)))) or x)(3.0)
    assert seen == [(True, False)]


# -- misc


def test_flatten() -> None:
    value = {"b": [X, (2.0,)], "a": M}
    flat, unflatten = flatten(value)
    onp.testing.assert_array_equal(flat, [*M.ravel(), *X, 2.0])
    check_equivalent(unflatten(flat), value)
    found = ag.grad(lambda v: np.sum(flatten(v)[0] ** 3))(value)
    onp.testing.assert_allclose(found["b"][1][0], 12.0)
    onp.testing.assert_allclose(ag.jacobian(lambda v: unflatten(v)["a"])(flat).reshape(6, 10)[:, :6], onp.eye(6))
    f, _, x = flatten_func(lambda v: {"b": v["a"], "a": v["b"][0]}, value)
    onp.testing.assert_array_equal(f(x), [*X, *M.ravel()])
    assert flatten([])[0].size == 0


def test_an_optimizer_of_ones_own_takes_trees() -> None:
    seen: list[Any] = []

    @unflatten_optimizer
    def descent(grad: Any, x: Any, callback: Any = None, n: int = 3, step: float = 0.25) -> Any:
        """Steps down the slope."""
        for i in range(n):
            g = grad(x, i)
            assert x.shape == g.shape == (5,)
            if callback:
                callback(x, i, g)
            x = x - step * g
        return x

    start = {"b": [np.ones(2), 2.0], "a": np.zeros((1, 2))}
    slopes = lambda p, i: tree.map(lambda v: 2.0 * v, p)
    found = descent(slopes, start, lambda p, i, g: seen.append((p["b"][1], i, g["b"][1])), step=0.125)
    assert found["b"][1] == 2.0 * 0.75**3 and found["a"].shape == (1, 2)
    assert seen == [(2.0, 0, 4.0), (1.5, 1, 3.0), (1.125, 2, 2.25)]
    assert descent(slopes, start, n=1)["b"][0].tolist() == [0.5, 0.5]
    assert descent.__doc__ == "Steps down the slope."


@pytest.mark.parametrize("optimizer,options", [(sgd, {}), (adam, {"step_size": 0.1}), (rmsprop, {"step_size": 0.05})])
def test_optimizers(optimizer: Any, options: dict) -> None:
    seen = []
    loss = lambda p, i: np.sum((p["a"] - 3.0) ** 2) + p["b"][0] ** 2
    start = {"a": X, "b": [2.0]}
    end = optimizer(ag.grad(loss), start, lambda x, i, g: seen.append(i), num_iters=300, **options)
    assert seen == list(range(300))
    onp.testing.assert_allclose(end["a"], 3.0, atol=0.1)
    f = lambda step: np.sum(optimizer(lambda x, i: 2 * x, X, num_iters=4, step_size=step) ** 2)
    onp.testing.assert_allclose(ag.grad(f)(0.1), (f(0.1 + 1e-6) - f(0.1 - 1e-6)) / 2e-6, rtol=1e-6)


def test_fixed_point() -> None:
    newton = lambda a: lambda x: 0.5 * (x + a / x)
    root = lambda a: fixed_point(newton, a, onp.ones(3), lambda x, y: np.max(np.abs(x - y)), 1e-13)
    a = onp.array([2.0, 3.0, 4.0])
    onp.testing.assert_allclose(root(a), onp.sqrt(a))
    onp.testing.assert_allclose(ag.grad(lambda a: np.sum(root(a)))(a), 0.5 / onp.sqrt(a))
    onp.testing.assert_allclose(funcad.jit(ag.grad(lambda a: np.sum(root(a))))(a), 0.5 / onp.sqrt(a))
    onp.testing.assert_allclose(ag.elementwise_grad(ag.elementwise_grad(root))(a), -0.25 * a**-1.5)


def test_numeric_checks() -> None:
    check_grads(lambda x: np.sum(np.sin(x)), modes=["fwd", "rev"], order=2)(X)
    check_vjp(np.sin, X)
    check_jvp(np.sin, X)
    combo_check(np.sum)([X.reshape(3, 1)], axis=[None, 0], keepdims=[False, True])
    wrong = primitive(np.sin)
    defvjp(wrong, lambda ans, x: lambda g: g)
    with pytest.raises(AssertionError):
        check_vjp(wrong, X)


# -- modules


def test_a_program_ports_by_its_imports() -> None:
    program = """
import autograd.numpy as np
import autograd.numpy.random as npr
import autograd.numpy.linalg as npla
import autograd.scipy.linalg
import autograd.scipy.signal
from autograd import grad, elementwise_grad as egrad, hessian, primitive
from autograd.builtins import tuple, list, dict, isinstance, type
from autograd.extend import primitive, defvjp, defjvp
from autograd.misc.flatten import flatten
from autograd.misc.optimizers import adam, sgd
from autograd.test_util import check_grads
from autograd.differential_operators import make_hvp

rs = npr.RandomState(0)
inputs, targets = rs.randn(20, 3), rs.randn(20)

def loss(params, i=0):
    w, b = params
    return np.mean((np.tanh(np.dot(inputs, w)) + b - targets) ** 2)

start = [np.zeros(3), 0.0]
end = adam(grad(loss), start, num_iters=50, step_size=0.1)
assert loss(end) < loss(start)
assert npla.norm(np.array([3.0, 4.0])) == 5.0
"""
    in_a_process(program.replace("autograd", "funcad.autograd"), strict=True)


def test_mirrors() -> None:
    assert np.sin is funcad.numpy.sin
    assert np.load is onp.load and npr.RandomState is onp.random.RandomState
    assert {"sin", "load", "linalg"} <= set(dir(np)) and "sin" in np.__all__
    assert npla.norm is funcad.numpy.linalg.norm
    with pytest.raises(AttributeError, match="funcad.numpy and numpy"):
        np.no_such_function  # noqa: B018
    onp.testing.assert_allclose(ag.grad(lambda x: np.sum(np.full((2,), x) * np.array([x, 1.0])))(3.0), 7.0)


def test_helpers_of_linalg() -> None:
    stack = onp.arange(12.0).reshape(2, 3, 2)
    onp.testing.assert_allclose(npla._dot(npla.T(stack), stack), onp.swapaxes(stack, 1, 2) @ stack)
    check_grads(lambda x: npla._dot(npla.T(x), x))(stack)


def test_names_without_another_meaning_are_at_the_top() -> None:
    names = [n for n in ag.differential_operators.__all__ if hasattr(funcad, n)]
    own = {"grad", "value_and_grad", "jacobian", "hessian", "checkpoint", "make_jvp_reversemode"}
    assert set(ag.differential_operators.__all__) - set(names) <= {"make_jvp_reversemode"}
    for name in set(names) - own:
        assert getattr(funcad, name) is getattr(ag, name)
    assert funcad.primitive is primitive and funcad.defvjp is defvjp


def test_submodules_that_programs_import_by_name() -> None:
    assert (
        in_a_process("""
import funcad.autograd
funcad.autograd.install()
import numpy as onp, autograd.misc.tracers, autograd.numpy.numpy_wrapper as wrapper
from autograd import grad
from autograd.builtins import DictVSpace, ListVSpace, SequenceVSpace, TupleVSpace, container_take, make_sequence
from autograd.extend import vspace
from autograd.misc.tracers import const_graph
from autograd.numpy.numpy_vspaces import ArrayVSpace, ComplexArrayVSpace
names = {}
wrapper.wrap_namespace(vars(onp), names)
assert grad(names["sin"])(0.0) == 1.0 and wrapper.tanh(0.0) == 0.0 and const_graph(lambda x: x * x)(3.0) == 9.0
assert grad(lambda x: container_take(make_sequence(tuple, x, 2 * x), 1))(1.0) == 2.0
values = [1.0, 1j, [1.0], (1.0,), {"a": 1.0}]
classes = [ArrayVSpace, ComplexArrayVSpace, SequenceVSpace, ListVSpace, TupleVSpace, DictVSpace]
for value in values:
    print("".join(str(int(isinstance(vspace(value), kind))) for kind in classes), end=" ")
class Mine(ArrayVSpace):
    def __init__(self, value):
        self.length = 3
assert ArrayVSpace(onp.ones(2)) == vspace(onp.ones(2)) and isinstance(Mine(1.0), Mine) and Mine(1.0).length == 3
""")
        == "100000 110000 001100 001010 000001"
    )
