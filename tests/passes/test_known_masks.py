"""Masks that settle: loops know them, and not a bit of a result changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import config, grad, jit, lax
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr
from funcad.jitted.captured_arrays import gathered
from funcad.passes.known_masks import LEAST, MOST, known_masks
from funcad.passes.pipeline import optimize
from funcad.passes.redundancy import inline

RNG = np.random.default_rng(7)
X = RNG.normal(size=(12, 4))
X[3, 1], X[5, 2], X[9, 0] = np.inf, np.nan, -0.0


def chosen(c: Any, x: Any) -> Any:
    """A value is read where its mask is set, which the first turns set."""
    value, early, late = c
    new = np.where(late, value * x, -0.0) + np.where(early, x, 1.0)
    return (new, early | True, late | early), None


def alternating(c: Any, x: Any) -> Any:
    value, mask, _ = c
    return (np.where(mask, value, x), ~mask, mask), None


def by_value(c: Any, x: Any) -> Any:
    value, mask, other = c
    return (np.where(mask, x, value), mask | (x > 0.0), other), None


def uneven(c: Any, x: Any) -> Any:
    """One mask comes to rest with some elements set."""
    value, part, whole = c
    part = np.concatenate([part[:1] | True, part[1:2] | part[:1], part[2:]])
    return (np.where(part, x, value) + np.where(whole, x, 0.0), part, whole | True), None


def known(c: Any, x: Any) -> Any:
    value, mask, other = c
    return (value + np.where(mask, x, 0.5), mask, other), np.where(other, x, value)


TURNS: dict[
    str, tuple[Callable[..., Any], int | None]
] = {  # the function, and how many turns are written out
    "chosen": (chosen, 2),
    "alternating": (alternating, None),
    "by value": (by_value, 0),
    "uneven": (uneven, 2),
    "known": (known, 0),
}


def program(turn: Callable[..., Any], reverse: bool) -> tuple[Jaxpr, list[Any]]:
    """As jit makes it, which knows captured broadcasts."""
    masks = [np.broadcast_to(False, (4,)) for _ in range(2)]
    closed = funcad.make_jaxpr(lambda x: lax.scan(turn, (x[0], *masks), x, reverse=reverse))(X)
    jaxpr, consts = gathered(closed.jaxpr, list(closed.consts), 0)
    return inline(jaxpr), [*consts, X]


def loop_of(jaxpr: Jaxpr) -> Any:
    (loop,) = [e.params["loop"] for e in jaxpr.equations if e.primitive.name == "loop"]
    return loop


def bits(values: list[Any]) -> list[tuple]:
    return [(np.asarray(v).dtype, np.asarray(v).shape, np.asarray(v).tobytes()) for v in values]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", TURNS)
def test_not_a_bit_changes(name: str, reverse: bool) -> None:
    turn, turns = TURNS[name]
    jaxpr, args = program(turn, reverse)
    found = known_masks(jaxpr)
    assert loop_of(found).length == len(X) - (turns or 0)
    assert (found is jaxpr) == (turns is None)
    with np.errstate(all="ignore"):
        assert bits(eval_jaxpr(found, args)) == bits(eval_jaxpr(jaxpr, args))


def test_what_keeps_masks_up_is_gone() -> None:
    jaxpr, _ = program(chosen, False)
    names = {e.primitive.name for e in loop_of(jaxpr).body.equations}
    assert {"or", "select"} <= names
    rest = {e.primitive.name for e in loop_of(optimize(jaxpr)).body.equations}
    assert not rest & {"or", "select"}, rest


def test_short_loops_and_slow_masks_stay() -> None:
    def f(x: Any, turns: int, late: int) -> Any:
        def turn(c: Any, _: Any) -> Any:
            value, *masks = c
            return (value + np.where(masks[-1], x, 0.0), np.True_ | masks[0], *masks[:-1]), None

        return lax.scan(turn, (x, *[np.False_] * late), length=turns)[0][0]

    for turns, late, written_out in ((LEAST, MOST, MOST), (LEAST, MOST + 1, 0), (LEAST - 1, 1, 0)):
        jaxpr = inline(
            funcad.make_jaxpr(lambda x, turns=turns, late=late: f(x, turns, late))(1.5).jaxpr
        )
        found = known_masks(jaxpr)
        assert loop_of(found).length == turns - written_out
        assert eval_jaxpr(found, [1.5]) == eval_jaxpr(jaxpr, [1.5])


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_the_derivative_of_a_solver_has_no_masks(engine: str) -> None:
    """Conjugate gradients: of the carry only the solution has a cotangent in the last turn."""

    def loss(b: Any) -> Any:
        def turn(c: Any, _: Any) -> Any:
            x, r, p, rho = c
            q = 4.0 * p - np.roll(p, 1) - np.roll(p, -1)
            step = rho / np.sum(p * q)
            x, r = x + step * p, r - step * q
            new = np.sum(r * r)
            return (x, r, r + new / rho * p, new), None

        return np.sum(lax.scan(turn, (0.0 * b, b, b, np.sum(b * b)), length=LEAST + 1)[0][0] ** 2)

    b = RNG.normal(size=30)
    with config.set(engine="interpreter"):
        expected = grad(loss)(b)
    with config.set(engine=engine):
        f = jit(grad(loss))
        np.testing.assert_allclose(f(b), expected, rtol=1e-9)
        loops = [e.params["loop"] for e in optimize(f.lower(b).jaxpr).equations if "loop" in e.params]
    assert [loop.length for loop in loops] == [LEAST + 1, LEAST - 1]
    assert not [e for loop in loops for e in loop.body.equations if e.outputs[0].aval.dtype == bool]


def test_no_function_of_the_users_is_asked_while_a_program_is_compiled():
    """A mask that a callback gives is no mask that is known: it was called at compile time, and never again."""
    calls = []

    def answer(mask):
        calls.append(bool(mask))
        return np.asarray(True)

    def f(x):
        def turn(carry, _):
            y, mask = carry
            return (np.where(mask, y * x, y + 1.0), funcad.pure_callback(answer, np.True_, mask)), None

        return funcad.scan(turn, (x, np.False_), length=9)[0][0]

    expected = f(1.5)
    with funcad.config.set(jit_patience=0):
        g = funcad.jit(f)
        for _ in range(2):
            calls.clear()
            assert g(1.5) == expected
            assert calls == [False] + [True] * 8
