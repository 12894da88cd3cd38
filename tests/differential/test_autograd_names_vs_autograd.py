"""funcad.autograd beside HIPS autograd: the same program with the one set of modules and with the other."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as onp
import pytest

from funcad import tree

autograd = pytest.importorskip("autograd", reason="HIPS autograd is not installed")

pytestmark = pytest.mark.slow

X, Y, V = onp.array([0.3, -1.2, 2.0]), onp.array([1.0, 0.5, -0.7]), onp.array([1.0, -2.0, 0.5])
M = onp.arange(6.0).reshape(2, 3) / 3
PARAMS = {"b": [X, (2.0,)], "a": M}


def library(name: str) -> Any:
    module = lambda path: importlib.import_module(f"{name}.{path}" if path else name)
    flatten = module("misc.flatten").flatten  # before misc's attribute of that name is its function
    return SimpleNamespace(
        ag=module(""), np=module("numpy"), op=module("differential_operators"), extend=module("extend"),
        optimizers=module("misc.optimizers"), flatten=flatten, fixed_point=module("misc.fixed_points").fixed_point,
    )  # fmt: skip


def scalar(m: Any) -> Callable[..., Any]:
    return lambda x, y: m.np.sum(m.np.sin(x) * y**2) + m.np.prod(x)


def descent(grad: Any, x: Any, callback: Any, step: float) -> Any:
    for i in range(10):
        x = x - step * grad(x, i)
    return x


def vector(m: Any) -> Callable[..., Any]:
    return lambda x, y: m.np.dot(M, x * y) ** 2


def power(m: Any) -> Any:
    """(sin(x) * y)**n as a primitive with rules in both modes."""
    f = m.extend.primitive(lambda x, y, n: (onp.sin(x) * y) ** n)
    inner = lambda x, y, n: n * (m.np.sin(x) * y) ** (n - 1)
    m.extend.defvjp(
        f,
        lambda ans, x, y, n: lambda g: g * inner(x, y, n) * m.np.cos(x) * y,
        lambda ans, x, y, n: lambda g: g * inner(x, y, n) * m.np.sin(x),
        None,
    )
    m.extend.defjvp(
        f,
        lambda g, ans, x, y, n: g * inner(x, y, n) * m.np.cos(x) * y,
        lambda g, ans, x, y, n: g * inner(x, y, n) * m.np.sin(x),
        None,
    )
    return f


def loss(m: Any) -> Callable[..., Any]:
    return lambda p, i=0: m.np.sum((p["a"] - 3.0) ** 2) + m.np.sum(p["b"][0] ** 4) + p["b"][1][0] ** 2


def root(m: Any) -> Callable[..., Any]:
    newton = lambda a: lambda x: 0.5 * (x + a / x)
    return lambda a: m.fixed_point(newton, a, onp.ones(3), lambda p, q: m.np.max(m.np.abs(p - q)), 1e-12)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda m: m.ag.grad(scalar(m))(X, Y),
    "grad, argnum": lambda m: m.ag.grad(scalar(m), 1)(X, Y),
    "grad, argnums": lambda m: m.ag.grad(scalar(m), (1, 0))(X, Y),
    "grad, keywords": lambda m: m.ag.grad(lambda x, *, k: m.np.sum(x**k))(X, k=3),
    "grad of containers": lambda m: m.ag.grad(loss(m))(PARAMS),
    "grad of grad": lambda m: m.ag.grad(lambda x: m.np.sum(m.ag.grad(scalar(m))(x, Y) ** 2))(X),
    "value_and_grad": lambda m: m.ag.value_and_grad(lambda x: (x[:1] ** 2).reshape(1, 1))(X),
    "grad_and_aux": lambda m: m.ag.grad_and_aux(lambda x: (m.np.sum(x**2), 3 * x))(X),
    "grad_named": lambda m: m.ag.grad_named(scalar(m), "y")(X, Y),
    "complex": lambda m: m.ag.grad(lambda z: m.np.real(m.np.exp(z) * (1 + 2j)))(0.3 + 0.4j),
    "holomorphic_grad": lambda m: m.ag.holomorphic_grad(lambda z: m.np.exp(z) * z)(0.3 + 0.4j),
    "elementwise_grad": lambda m: m.ag.elementwise_grad(vector(m), 1)(X, Y),
    "deriv": lambda m: m.ag.deriv(lambda x: m.np.sin(x) * m.np.dot(M, x)[0])(X),
    "jacobian": lambda m: m.ag.jacobian(lambda x: m.np.outer(x, x))(X),
    "hessian": lambda m: m.ag.hessian(scalar(m))(X, Y),
    "hessian of a vector": lambda m: m.ag.hessian(vector(m))(X, Y),
    "make_vjp": lambda m: m.ag.make_vjp(vector(m), (0, 1))(X, Y)[0](onp.array([1.0, 2.0])),
    "make_jvp": lambda m: m.ag.make_jvp(vector(m), (0, 1))(X, Y)((V, X)),
    "make_jvp_reversemode": lambda m: m.op.make_jvp_reversemode(vector(m))(X, Y)(V),
    "make_hvp": lambda m: [r(V) if callable(r) else r for r in m.op.make_hvp(scalar(m))(X, Y)],
    "hessian_tensor_product": lambda m: m.ag.hessian_tensor_product(scalar(m), 1)(X, Y, V),
    "tensor_jacobian_product": lambda m: m.ag.tensor_jacobian_product(lambda x: m.np.outer(x, x))(X, onp.ones((3, 3))),
    "make_ggnvp": lambda m: m.ag.make_ggnvp(vector(m), lambda out: m.np.sum(m.np.exp(out / 9)))(X, Y)(V),
    "checkpoint": lambda m: m.ag.grad(m.ag.checkpoint(scalar(m)))(X, Y),
    "primitive, reverse": lambda m: m.ag.grad(lambda x, y: m.np.sum(power(m)(x, y, 3) * x), (0, 1))(X, Y),
    "primitive, forward": lambda m: m.ag.make_jvp(lambda x, y: power(m)(x, y, 3) * x, (0, 1))(X, Y)((V, X)),
    "primitive, second": lambda m: m.ag.hessian(lambda x: m.np.sum(power(m)(x, Y, 3) * x))(X),
    "primitive, third": lambda m: m.ag.jacobian(m.ag.hessian(lambda x: m.np.sum(power(m)(x, Y, 3))))(X),
    "sgd": lambda m: m.optimizers.sgd(m.ag.grad(loss(m)), PARAMS, num_iters=20, step_size=0.01),
    "adam": lambda m: m.optimizers.adam(m.ag.grad(loss(m)), PARAMS, num_iters=20, step_size=0.1),
    "rmsprop": lambda m: m.optimizers.rmsprop(m.ag.grad(loss(m)), PARAMS, num_iters=20),
    "an optimizer of one's own": lambda m: m.optimizers.unflatten_optimizer(descent)(m.ag.grad(loss(m)), PARAMS, None, 0.01),
    "learning the step": lambda m: m.ag.grad(
        lambda step: m.np.sum(m.optimizers.sgd(lambda p, i: 2 * p, X, num_iters=5, step_size=step) ** 2)
    )(0.1),
    "flatten": lambda m: [m.flatten(PARAMS)[0], m.flatten(PARAMS)[1](onp.arange(10.0))],
    "grad of flatten": lambda m: m.ag.grad(lambda p: m.np.sum(m.flatten(p)[0] ** 3))(PARAMS),
    "fixed_point": lambda m: m.ag.grad(lambda a: m.np.sum(root(m)(a) ** 3))(abs(X)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = tree.leaves(PROGRAMS[name](library("autograd")))
    found = tree.leaves(PROGRAMS[name](library("funcad.autograd")))
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert onp.shape(a) == onp.shape(b)
        onp.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
