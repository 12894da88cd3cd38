"""Rules and callbacks get arrays that they may read: what they write into would be a residual or an array of the caller's."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import debug
from funcad.autograd import extend
from tests.unseen import unseen

X = np.array([1.0, 2.0, 3.0])


def rule_of_vjp(fwd: Any, bwd: Any) -> Any:
    f = funcad.custom_vjp(lambda x: 2.0 * x)
    f.defvjp(fwd, bwd)
    return f


def rule_of_jvp(rule: Any) -> Any:
    f = funcad.custom_jvp(lambda x: 2.0 * x)
    f.defjvp(rule)
    return f


def scaled(x: np.ndarray) -> np.ndarray:
    x *= 10.0
    return x


def in_fwd(x: np.ndarray, ct: np.ndarray) -> Any:
    return funcad.vjp(rule_of_vjp(lambda a: (scaled(a), None), lambda r, c: (c,)), x)[1](ct)


def in_residual(x: np.ndarray, ct: np.ndarray) -> Any:
    pullback = funcad.vjp(rule_of_vjp(lambda a: (2.0 * a, a), lambda r, c: (scaled(r) * c,)), x)[1]
    return pullback(ct)


def in_cotangent(x: np.ndarray, ct: np.ndarray) -> Any:
    return funcad.vjp(rule_of_vjp(lambda a: (2.0 * a, None), lambda r, c: (scaled(c),)), x)[1](ct)


def in_primal_of_jvp(x: np.ndarray, ct: np.ndarray) -> Any:
    return funcad.jvp(rule_of_jvp(lambda p, t: (scaled(p[0]), t[0])), (x,), (ct,))


def in_tangent_of_jvp(x: np.ndarray, ct: np.ndarray) -> Any:
    return funcad.jvp(rule_of_jvp(lambda p, t: (p[0], scaled(t[0]))), (x,), (ct,))


def in_primal_under_grad(x: np.ndarray, ct: np.ndarray) -> Any:
    return funcad.vjp(rule_of_jvp(lambda p, t: (scaled(p[0]), t[0])), x)[1](ct)


def in_custom_gradient(x: np.ndarray, ct: np.ndarray) -> Any:
    return funcad.vjp(funcad.custom_gradient(lambda a: (scaled(a), lambda c: (c,))), x)[1](ct)


def in_vjp_of_autograd(x: np.ndarray, ct: np.ndarray) -> Any:
    f = extend.primitive(lambda a: 2.0 * a)
    extend.defvjp(f, lambda ans, a: lambda g: scaled(g))
    return funcad.vjp(f, x)[1](ct)


def in_answer_of_autograd(x: np.ndarray, ct: np.ndarray) -> Any:
    f = extend.primitive(lambda a: 2.0 * a)
    extend.defvjp(f, lambda ans, a: lambda g: scaled(ans) * g)
    return funcad.vjp(f, x)[1](ct)


def in_jvp_of_autograd(x: np.ndarray, ct: np.ndarray) -> Any:
    f = extend.primitive(lambda a: 2.0 * a)
    extend.defjvp(f, lambda g, ans, a: scaled(g))
    return funcad.jvp(f, (x,), (ct,))


def in_pure_callback(x: np.ndarray, ct: np.ndarray) -> Any:
    return funcad.pure_callback(scaled, x, x)


def in_io_callback(x: np.ndarray, ct: np.ndarray) -> Any:
    return funcad.io_callback(scaled, x, x)


def in_debug_callback(x: np.ndarray, ct: np.ndarray) -> Any:
    return debug.callback(scaled, x)


def in_callback_of_a_program(x: np.ndarray, ct: np.ndarray) -> Any:
    return funcad.jit(lambda a: debug.callback(scaled, a))(x)


def in_captured_array_of_a_callback(x: np.ndarray, ct: np.ndarray) -> Any:
    return funcad.jit(lambda a: debug.callback(lambda v, w: scaled(w), a, x))(ct)


def in_vmap_rule(x: np.ndarray, ct: np.ndarray) -> Any:
    f = funcad.custom_vmap(lambda a: 2.0 * a)
    f.def_vmap(lambda size, batched, a: (scaled(a), batched[0]))
    return funcad.vmap(f)(x)


WRITERS: list[Callable[..., Any]] = [
    in_fwd,
    in_residual,
    in_cotangent,
    in_primal_of_jvp,
    in_tangent_of_jvp,
    in_primal_under_grad,
    in_custom_gradient,
    in_vjp_of_autograd,
    in_answer_of_autograd,
    in_jvp_of_autograd,
    in_pure_callback,
    in_io_callback,
    in_debug_callback,
    in_callback_of_a_program,
    in_captured_array_of_a_callback,
    in_vmap_rule,
]


@pytest.mark.parametrize("write", WRITERS, ids=lambda f: f.__name__)
def test_writing_into_what_was_lent_raises_and_changes_nothing(write: Callable[..., Any]) -> None:
    x, ct = X.copy(), np.ones(3)
    with pytest.raises(ValueError, match="read-only") as caught:
        write(x, ct)
    assert "Remedy: r = r * 2 instead of r *= 2; or write into a copy, r = r.copy()." in caught.value.__notes__[0]
    assert np.array_equal(x, X) and np.array_equal(ct, np.ones(3))
    assert x.flags.writeable and ct.flags.writeable


def test_copies_may_be_written_and_views_returned() -> None:
    def bwd(r: np.ndarray, ct: np.ndarray) -> tuple:
        r = r.copy()
        r *= ct
        return (r,)

    f = rule_of_vjp(lambda a: (2.0 * a, 3.0 * a), bwd)
    _, pullback = funcad.vjp(f, X)
    for _ in range(2):
        (found,) = pullback(np.ones(3))
        assert np.array_equal(found, 3.0 * X) and found.flags.writeable
    same = rule_of_vjp(lambda a: (a, a), lambda r, ct: (r,))
    out, pullback = funcad.vjp(same, X)
    (found,) = pullback(np.ones(3))
    found += 1.0
    out += 1.0
    assert np.array_equal(pullback(np.ones(3))[0], X) and out.flags.writeable


@pytest.mark.parametrize("n", [10, 20_000])
def test_what_fwd_keeps_of_an_array_that_it_refers_to_stays(n: int) -> None:
    """It is neither an operand nor an argument, yet the user has it."""
    w = np.ones(n)
    f = rule_of_vjp(lambda x: (2.0 * x, w), lambda r, ct: (r * ct,))
    _, pullback = funcad.vjp(f, np.zeros(n))
    if n > 10:
        with pytest.raises(ValueError, match="read-only"):
            w[:] = 5.0
    else:
        w[:] = 5.0
    assert np.array_equal(pullback(np.ones(n))[0], np.ones(n))
    del pullback
    w[:] = 5.0


def in_place(r: Any, ct: Any) -> tuple:
    r *= 2.0
    return (r * ct,)


TWICE: dict[str, Callable[[Any, np.ndarray], list[Any]]] = {
    "jit of grad": lambda f, x: [funcad.jit(funcad.grad(lambda y: f(y).sum()))(x) for _ in range(2)],
    "grad of jit": lambda f, x: [funcad.grad(funcad.jit(lambda y: f(y).sum()))(x) for _ in range(2)],
    "one jitted gradient": lambda f, x: [g(x) for g in [funcad.jit(funcad.grad(lambda y: f(y).sum()))] for _ in range(2)],
    "pullbacks under jit": lambda f, x: funcad.jit(lambda y: [p(np.ones(3))[0] for p in [funcad.vjp(f, y)[1]] * 2])(x),
    "pullback of jit": lambda f, x: [p(np.ones(3))[0] for p in [funcad.vjp(funcad.jit(f), x)[1]] * 2],
    "lanes": lambda f, x: list(funcad.vmap(funcad.grad(lambda y: f(y).sum()))(np.stack([x, x]))),
    "pullbacks in a loop": lambda f, x: list(funcad.scan(lambda c, _: (c, funcad.vjp(f, c)[1](np.ones(3))[0]), x, None, 2)[1]),
}


@pytest.mark.parametrize("how", TWICE)
def test_a_bwd_that_writes_means_the_same_each_time(how: str) -> None:
    """Traced residuals have no memory that lasts from one call to the next."""
    x = X.copy()
    for found in TWICE[how](rule_of_vjp(lambda a: (2.0 * a, a), in_place), x):
        assert np.array_equal(found, 2.0 * X)
    assert np.array_equal(x, X)


def test_a_pullback_that_raised_can_be_called_again() -> None:
    writes = [True, False]

    def bwd(r: np.ndarray, ct: np.ndarray) -> tuple:
        return in_place(r, ct) if writes.pop(0) else (2.0 * r * ct,)

    _, pullback = funcad.vjp(rule_of_vjp(lambda a: (2.0 * a, 3.0 * a), bwd), X)
    with pytest.raises(ValueError, match="read-only"):
        pullback(np.ones(3))
    assert np.array_equal(pullback(np.ones(3))[0], 6.0 * X)


def test_rules_get_traced_values_under_names_of_their_own() -> None:
    """What they write is then neither the caller's value nor what is kept for the next call."""
    held: collections.deque[Any] = collections.deque()  # of a list, which jit looks at, it would say that it keeps them
    keep = unseen(lambda values: held.extend(values))

    def fwd(x: Any) -> tuple:
        keep([x])
        kept = 1.0 * x
        keep([kept])
        return 2.0 * x, kept

    def bwd(r: Any, ct: Any) -> tuple:
        keep((r, ct))
        return (r * ct,)

    def jvp(primals: tuple, tangents: tuple) -> tuple:
        keep((*primals, *tangents))
        return 2.0 * primals[0], 2.0 * tangents[0]

    def f(x: Any) -> Any:
        ct, pullback = 1.0 * x, funcad.vjp(rule_of_vjp(fwd, bwd), x)[1]
        funcad.jvp(rule_of_jvp(jvp), (x,), (ct,))
        keep((x, ct))
        return pullback(ct)[0] + pullback(ct)[0]

    assert np.array_equal(funcad.jit(f)(X), 2.0 * X * X)
    assert len(held) == 10 and len(set(map(id, held))) == 10


def test_a_name_may_stand_for_another_function_by_now() -> None:
    counted: list[int] = []

    def twice(x: Any) -> Any:
        return np.sum(x * 2.0)

    def fills(x: Any) -> Any:
        counted.append(1)  # it is not started again
        out = np.zeros(3)
        out[0] = 3.0 * x[0]
        return np.sum(out)

    scope: dict[str, Any] = {"helper": twice}
    exec("def loss(x):\n    return helper(x)", scope)
    x = np.arange(1.0, 4.0)
    assert list(funcad.grad(scope["loss"])(x)) == [2.0, 2.0, 2.0]
    scope["helper"] = fills
    assert list(funcad.grad(scope["loss"])(x)) == [3.0, 0.0, 0.0] and len(counted) == 1
    scope["helper"] = twice
    assert list(funcad.grad(scope["loss"])(x)) == [2.0, 2.0, 2.0]
