"""A jitted function follows the rules of what it calls, also where they are defined again after its first calls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import custom_gradient, custom_jvp, custom_vjp, grad, jit, jvp, vmap
from funcad.autograd import extend
from funcad.custom.custom_vmap import custom_vmap

FACTOR = 0.0


def identity(x: Any) -> Any:
    return x * 1.0


def typed(k: float) -> Any:
    """A rule whose source cannot be read."""
    return eval(f"lambda primals, tangents: (primals[0] * 1.0, tangents[0] * {k})")


def by_jvp(q: Any, k: float) -> None:
    q.defjvp(lambda primals, tangents: (q(primals[0]), tangents[0] * k))


def by_vjp(q: Any, k: float) -> None:
    q.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (ct * k,))


def without_derivative(q: Any, k: float) -> None:
    if k == 2.0:
        extend.register_notrace(extend.VJPNode, q)
    else:
        extend.defvjp_argnum(q, lambda i, ans, args, kwargs: lambda g: g * k)


def linear(q: Any, k: float) -> None:
    if k == 2.0:
        extend.def_linear(q)
    else:
        extend.defjvp_argnums(q, lambda i, gs, ans, args, kwargs: gs[0] * k)


def global_factor(_: Any, k: float) -> None:
    global FACTOR
    FACTOR = k


def reading(define: Callable[[Any], Any], make: Callable[..., Any]) -> Callable[[], Any]:
    """A function whose rule is defined once, and reads a global."""

    def made() -> Any:
        q = make(identity)
        define(q)
        return q

    return made


# what makes a function of number x -> x, and what gives it the derivative k
DEFINED: dict[str, tuple[Callable[[], Any], Callable[[Any, float], Any]]] = {
    "custom_jvp": (lambda: custom_jvp(identity), by_jvp),
    "custom_jvp, other code": (lambda: custom_jvp(identity), lambda q, k: q.defjvp(typed(k))),
    "custom_jvp, a partial": (
        lambda: custom_jvp(identity), lambda q, k: q.defjvp(functools.partial(lambda k, p, t: (p[0] * 1.0, t[0] * k), k))
    ),
    "custom_jvp, one by one": (lambda: custom_jvp(identity), lambda q, k: q.defjvps(lambda t, ans, x: t * k)),
    "custom_vjp": (lambda: custom_vjp(identity), by_vjp),
    "custom_gradient": (lambda: custom_gradient(lambda x: (x * 1.0, lambda ct: 9.0 * ct)), by_vjp),
    "primitive": (lambda: extend.primitive(identity), lambda q, k: extend.defvjp(q, lambda ans, x: lambda g: g * k)),
    "primitive, forward": (lambda: extend.primitive(identity), lambda q, k: extend.defjvp(q, lambda g, ans, x: g * k)),
    "primitive, without": (lambda: extend.primitive(np.abs), without_derivative),
    "primitive, linear": (lambda: extend.primitive(identity), linear),
    "what custom_jvp reads": (
        reading(lambda q: q.defjvps(lambda t, ans, x: t * FACTOR), custom_jvp), global_factor
    ),
    "what a primitive reads": (
        reading(lambda q: extend.defvjp(q, lambda ans, x: lambda g: g * FACTOR), extend.primitive), global_factor
    ),
    "what a primitive reads, forward": (
        reading(lambda q: extend.defjvp(q, lambda g, ans, x: g * FACTOR), extend.primitive), global_factor
    ),
}  # fmt: skip

WAYS: dict[str, Callable[[Any], tuple[Callable[..., Any], Callable[..., Any]]]] = {  # plain, and jitted
    "grad": lambda q: (grad(q), jit(grad(q))),
    "a function that calls it": lambda q: (grad(lambda x: q(x)), jit(grad(lambda x: q(x)))),
    "jvp": lambda q: (lambda x: jvp(q, (x,), (1.0,))[1], jit(lambda x: jvp(q, (x,), (1.0,))[1])),
    "vmap": lambda q: (lambda x: vmap(grad(q))(x * np.ones(2)), jit(lambda x: vmap(grad(q))(x * np.ones(2)))),
    "grad of jit": lambda q: (grad(lambda x: q(x)), grad(jit(lambda x: q(x)))),
    "jit in jit": lambda q: (grad(q), (lambda inner: jit(lambda x: inner(x)))(jit(grad(q)))),
    "a container": lambda q: (grad(q), (lambda held: jit(lambda x: grad(held["q"][0])(x)))({"q": [q]})),
}


def result(f: Callable[..., Any]) -> Any:
    try:
        return np.asarray(f(1.0)).tolist()
    except (NotImplementedError, TypeError) as error:  # no rule yet
        return type(error)


@pytest.mark.share(3)
@pytest.mark.filterwarnings("ignore:grad. the output of")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", DEFINED)
def test_rules_are_followed(name: str, way: str) -> None:
    make, define = DEFINED[name]
    q = make()
    plain, jitted = WAYS[way](q)
    for k in (0.0, 2.0, 3.0, 2.0):  # before the first one there is none
        if k:
            define(q, k)
        expected = result(plain)
        assert [result(jitted) for _ in range(3)] == [expected] * 3
    if hasattr(jitted, "cache_info"):
        misses = jitted.cache_info().misses
        assert [result(jitted) for _ in range(3)] == [expected] * 3
        assert jitted.cache_info().misses == misses


def test_the_forward_rule_beside_a_reverse_one() -> None:
    q = custom_vjp(identity)
    by_vjp(q, 7.0)
    tangent = jit(lambda x: jvp(q, (x,), (1.0,))[1])
    assert [tangent(1.0) for _ in range(3)] == [7.0] * 3
    by_jvp(q, 2.0)
    assert [tangent(1.0) for _ in range(3)] == [2.0] * 3
    assert [grad(jit(q))(1.0) for _ in range(3)] == [7.0] * 3


def test_batching_rules_are_followed() -> None:
    q = custom_vmap(identity)
    mapped, inside = jit(vmap(q)), jit(lambda x: vmap(jit(lambda x: q(x)))(x))
    for k in (2.0, 3.0):
        q.def_vmap(lambda size, batched, x, k=k: (x * k, batched[0]))
        for f in (mapped, inside):
            assert [f(np.ones(2)).tolist() for _ in range(3)] == [[k, k]] * 3


def test_a_function_whose_source_cannot_be_read() -> None:
    q = custom_jvp(identity)
    by_jvp(q, 2.0)
    f = jit(eval("lambda x: grad(q)(x)", {"grad": grad, "q": q}))
    assert [f(1.0) for _ in range(3)] == [2.0] * 3
    q.defjvp(typed(3.0))
    assert [f(1.0) for _ in range(3)] == [3.0] * 3
