"""Operations whose rule runs at once: calls of jitted functions, loops, custom rules are rows among others."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad import grad, jacfwd, value_and_grad
from funcad.control.scan import scan
from tests.unjitted.by_rules import by_rules

X = np.linspace(0.3, 1.4, 5)


inner = fc.jit(lambda x: (np.tanh(x) * x, np.sum(x)))


@fc.custom_vjp
def doubled(x: Any) -> Any:
    return x * 2.0


doubled.defvjp(lambda x: (x * 2.0, x), lambda x, ct: (ct * 3.0 * np.cos(x),))


@fc.custom_jvp
def bent(x: Any) -> Any:
    return x * np.abs(x)


bent.defjvp(lambda primals, tangents: (primals[0] * np.abs(primals[0]), 2.0 * np.abs(primals[0]) * tangents[0]))


def around(x: Any, operation: Any) -> Any:
    h = np.sin(x) * 2.0
    h = operation(h)
    for _ in range(3):
        h = np.cos(h) * 0.5 + x * h
    z = h - np.max(h)
    return np.log(np.sum(np.exp(z))) + h[0] * x[1]


def both(h: Any) -> Any:
    y, s = inner(h)
    return y * s + h


OPERATIONS: dict[str, Any] = {
    "jit": both,
    "unused": lambda h: inner(h)[0],
    "custom_vjp": doubled,
    "custom_jvp": bent,
    "scan": lambda h: scan(lambda c, t: (np.tanh(c * t + h), c[0]), h, np.arange(1.0, 4.0))[0],
    "checkpoint": fc.checkpoint(lambda h: np.tanh(h) * h),
    "while": lambda h: fc.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, np.sin(c[1]) * c[1]), (0, h))[1],
    "twice": lambda h: doubled(doubled(h) * 0.5),
    "in a loop": lambda h: [h := np.tanh(doubled(h)) + 0.1 for _ in range(5)][-1],
    "twice the same": lambda h: fc.jit(lambda a, b: a * b + np.sin(a))(h, h),
    "dropped": lambda h: (doubled(h * 1.0), h)[1],
    "constants": lambda h: fc.jit(lambda a, b: a * b)(h, np.arange(5.0)),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", OPERATIONS)
def test_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f = lambda x: around(x, OPERATIONS[name])
    expected = by_rules(monkeypatch, value_and_grad(f), X)
    for x in (X, X, X, X, X):
        value, gradient = value_and_grad(f)(x)
        assert value == expected[0]
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-13)
    other = X[::-1] * 0.7
    np.testing.assert_allclose(grad(f)(other), by_rules(monkeypatch, grad(f), other), rtol=1e-13)
    for g in (jacfwd(f), lambda x: fc.vjp(f, x)[1](1.0)[0], fc.jacrev(f)):
        np.testing.assert_allclose(g(X), by_rules(monkeypatch, g, X), rtol=1e-13)
    v = np.ones(5)
    np.testing.assert_allclose(fc.hvp(f, (X,), (v,)), by_rules(monkeypatch, lambda x: fc.hvp(f, (x,), (v,)), X), rtol=1e-12)


def test_shapes_that_the_operation_alone_knows() -> None:
    """The rows after it look alike, whatever shape it gave."""

    @fc.custom_vjp
    def ends(x: Any, n: Any) -> Any:
        return x[: len(n)]

    ends.defvjp(lambda x, n: (x[: len(n)], len(n)), lambda n, ct: (np.concatenate([ct, np.zeros(5 - n)]), None))
    for _ in range(3):
        for n in (2, 3, 2, 5, 3):
            found = grad(lambda x: np.sum(np.sin(ends(x * 2.0, np.ones(n))) ** 2))(X)  # noqa: B023 called at once
            expected = np.where(np.arange(5) < n, 2.0 * np.sin(4.0 * X), 0.0)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_rules_of_users_run_at_each_call_and_may_change() -> None:
    calls: list[int] = []

    @fc.custom_vjp
    def f(x: Any) -> Any:
        return x * 2.0

    def backward(residuals: Any, ct: Any) -> Any:
        calls.append(1)
        return (ct * len(calls),)

    f.defvjp(lambda x: (f(x), None), backward)
    assert [float(grad(lambda x: np.sin(f(np.cos(x) * 0.0)) * 3.0 + f(x))(1.0)) for _ in range(3)] == [1.0, 3.0, 5.0]


@pytest.mark.parametrize("n", [5, 20_000])
def test_what_the_user_overwrites_later(n: int) -> None:
    @fc.custom_vjp
    def times(x: Any, a: Any) -> Any:
        return x * a

    times.defvjp(lambda x, a: (x * a, (x, a)), lambda kept, ct: (ct * kept[1], None))
    a = np.full(n, 3.0)

    def f(x: Any) -> Any:
        y = np.sum(np.sin(times(x, a)))
        try:
            a[:] = 7.0
        except ValueError:  # it is large, so it is locked
            assert n > 5
        return y

    for _ in range(3):
        a[:] = 3.0
        np.testing.assert_allclose(grad(f)(np.ones(n)), np.full(n, 3.0 * np.cos(3.0)), rtol=1e-12)


def test_a_tangent_that_no_row_can_tell_of() -> None:
    """It has run, once; the tape is given up for it."""
    ran = []

    @fc.custom_jvp
    def constant(x: Any) -> Any:
        ran.append(1)
        return x * 1.0

    constant.defjvp(lambda primals, tangents: (constant(primals[0]), np.zeros(5)))

    def f(x: Any) -> Any:
        y = np.sin(x) * x
        return np.sum(y * 2.0 + np.cos(y) * constant(y))

    y, dy = np.sin(X) * X, np.cos(X) * X + np.sin(X)
    for n in range(1, 4):
        np.testing.assert_allclose(grad(f)(X), (2.0 - np.sin(y) * y) * dy, rtol=1e-12)
        assert len(ran) == n


def test_errors_and_warnings_are_at_the_users_line() -> None:
    @fc.custom_jvp
    def broken(x: Any) -> Any:
        return x

    broken.defjvp(lambda primals, tangents: 1 / 0)

    def f(x: Any) -> Any:
        y = np.sin(x) * x
        try:
            y = broken(y)
        except ZeroDivisionError:
            y = y * 3.0
        return np.sum(y)

    for _ in range(4):
        np.testing.assert_allclose(grad(f)(X), 3.0 * (np.cos(X) * X + np.sin(X)), rtol=1e-12)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        grad(lambda x: np.sum(np.log(inner(x)[0] * 0.0)))(X)
    assert {w.filename for w in caught if "log" in str(w.message)} == {__file__}


def test_several_gradients_in_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    f = lambda x: around(x, both)
    g = lambda x: np.sum(grad(f)(x) ** 2) + f(x)
    expected = by_rules(monkeypatch, grad(g), X)
    for _ in range(4):
        np.testing.assert_allclose(grad(g)(X), expected, rtol=1e-11)
    np.testing.assert_allclose(fc.jit(grad(g))(X), expected, rtol=1e-10)
    batch = np.stack([X, X + 0.1])
    np.testing.assert_allclose(fc.vmap(grad(f))(batch), np.stack([grad(f)(x) for x in batch]), rtol=1e-11)


def test_long_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        y = x
        for i in range(400):
            y = np.sin(y) * 0.9 + x
            if i % 150 == 149:
                y = doubled(y * 0.1)
        return np.sum(y)

    expected = by_rules(monkeypatch, grad(f), X)
    for _ in range(3):
        np.testing.assert_allclose(grad(f)(X), expected, rtol=1e-12)
