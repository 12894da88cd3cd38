"""Calls of programs in un-jitted reverse mode: one row each, whose pull is found once for a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad import checkpoint, grad, hessian, jacrev, jit, vjp, vmap
from funcad.unjitted import tape
from tests.agreement import same_bits
from tests.unjitted.by_rules import by_rules

X = np.array([0.3, -0.7, 1.2])
WRAPS = pytest.mark.parametrize("wrap", [jit, checkpoint])


def several(x: Any, y: Any) -> Any:
    return {"a": np.sin(x) * y, "n": np.argmax(x)}, np.cumsum(y)[:2], x


def turns(x: Any, y: Any) -> Any:
    last, every = fc.scan(lambda c, _: (np.sin(c) * y, c * c), x, None, length=4)
    return {"a": last, "n": 3}, np.sum(every), np.where(x > 0, np.sqrt(np.abs(x)), y)


def uses(f: Callable[..., Any]) -> Callable[[Any], Any]:
    def loss(x: Any) -> Any:
        first, total, same = f(x * x, 2.0 * x)
        second, _, _ = f(x, X)
        return np.sum(first["a"] * same) + np.sum(total) * (1.0 + first["n"]) + np.sum(second["a"])

    return loss


@WRAPS
def test_calls_of_one_program_share_a_pull(wrap: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    f, pulls, asked = wrap(lambda x: np.sin(np.sin(x))), [], []
    grad(lambda x: np.sum(f(x)))(X)
    row, by_rule = tape.Tape.row, tape.ByRule.__init__
    monkeypatch.setattr(tape.Tape, "row", lambda self, pull, *rest: pulls.append(pull) or row(self, pull, *rest))
    monkeypatch.setattr(tape.ByRule, "__init__", lambda self, *args: asked.append(args) or by_rule(self, *args))
    grad(lambda x: np.sum(f(f(f(x)))))(X)
    assert len(pulls) == 4 and len(set(map(id, pulls[:3]))) == 1 and not asked
    hessian(lambda x: np.sum(f(f(x))))(X)
    assert not asked


@WRAPS
@pytest.mark.parametrize("f", [several, turns])
def test_derivatives_are_those_of_the_rules(wrap: Any, f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, loss = uses(f), uses(wrap(f))
    same_bits(grad(loss)(X), by_rules(monkeypatch, grad(loss), X))
    for transform in (grad, hessian, jacrev, lambda g: lambda x: vmap(grad(g))(np.stack([x, x + 1.0]))):
        np.testing.assert_allclose(transform(loss)(X), transform(plain)(X), rtol=1e-13)


@WRAPS
def test_cotangents_that_do_not_come(wrap: Any) -> None:
    f = wrap(lambda x: (np.sin(x), x[0] * x, x > 0))
    np.testing.assert_allclose(grad(lambda x: np.sum(f(x)[1]))(X), [X.sum() + X[0], X[0], X[0]])
    _, pull = vjp(lambda x: f(x)[:2], X)
    for _ in range(2):
        np.testing.assert_allclose(pull((np.ones(3), np.zeros(3)))[0], np.cos(X))
    assert all([not np.any(g) for g in jacrev(lambda x: np.floor(f(x)[0]))(X)])


@WRAPS
def test_what_a_row_keeps_is_safe_from_writes(wrap: Any) -> None:
    f = wrap(lambda x, w: (np.sin(x) * w, x, x.reshape(3, 1)))
    w = np.array([2.0, 3.0, 4.0])

    def loss(x: Any) -> Any:
        y, same, view = f(x, w)
        w[:] = 7.0
        same[0] = view[1] = 5.0
        return np.sum(y)

    np.testing.assert_allclose(grad(loss)(X), np.cos(X) * [2.0, 3.0, 4.0])


@WRAPS
def test_collectives_know_their_axis(wrap: Any) -> None:
    f = fc.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (fc.psum(ct, "i"),))
    np.testing.assert_allclose(vmap(lambda y: y * grad(wrap(f))(3.0), axis_name="i")(np.ones(2)), [2.0, 2.0])


@WRAPS
def test_an_infinite_slope_behind_a_selection(wrap: Any) -> None:
    f, x = wrap(np.sqrt), np.array([-1.0, 0.0, 4.0])
    with np.errstate(all="ignore"):
        for one in (grad(lambda x: np.sum(np.where(x > 0, f(x), 0.0))), vmap(grad(lambda x: np.where(x > 0, f(x), 0.0)))):
            np.testing.assert_array_equal(one(x), [0.0, 0.0, 0.25])
