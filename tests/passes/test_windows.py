"""Windows that a turn writes: read from what was written, written once, and not a bit changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, Literal, Var
from funcad.passes.redundancy import inline
from funcad.passes.roll import roll
from funcad.passes.windows import settled
from funcad.primitives.basic_indexing import basic_index_p, basic_update_p
from funcad.primitives.computed_slices import dynamic_slice_p, dynamic_update_slice_p

RNG = np.random.default_rng(31)
X = RNG.normal(size=(5, 40))


def counts(jaxpr: Jaxpr) -> dict[str, int]:
    """How many of each operation its largest loop has."""
    loops = [e.params["loop"].body for e in roll(jaxpr).equations if e.primitive.name == "loop"]
    body = max(loops, key=lambda j: len(j.equations))
    names = [e.primitive.name for e in body.equations]
    return {name: names.count(name) for name in set(names)}


def program(f: Callable[..., Any], *args: Any) -> tuple[Jaxpr, list[Any]]:
    closed = funcad.make_jaxpr(f)(*args)
    return inline(closed.jaxpr), [*closed.consts, *args]


def twice(x: Any) -> Any:
    x = x.copy()
    for k in range(1, 39):
        x[:, k] = x[:, k] * 0.5
        x[:, k] = x[:, k] + np.sin(x[:, k - 1])
        x[:, k] *= 2.0
    return x


def apart(x: Any) -> Any:
    x = x.copy()
    for k in range(1, 39):
        x[:, k] = 3.0
        x[:, k - 1] += x[:, k + 1]
        x[:, k] = np.cos(x[:, k - 1])
    return x


def seen(x: Any) -> Any:
    x = x.copy()
    for k in range(1, 39):
        x[:, k] = np.exp(-x[:, k])
        x[2, k] = x[1, k] + 1.0
        x[:, k] = x[:, k] + np.sum(x[2:4, k - 1])
    return x


@pytest.mark.parametrize("f", [twice, apart, seen])
def test_the_same_bits(f: Callable[..., Any]) -> None:
    for g in (f, funcad.grad(lambda x: np.sum(np.sin(f(x)))), funcad.grad(lambda x: np.sum(f(x)))):
        before, values = program(g, X)
        for one, other in zip(eval_jaxpr(before, values), eval_jaxpr(roll(before), values), strict=True):
            assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_each_window_is_read_and_written_once() -> None:
    found = counts(program(twice, X)[0])
    assert (found["dynamic_slice"], found["dynamic_update_slice"]) == (2, 1)
    found = counts(program(apart, X)[0])
    assert found["dynamic_update_slice"] == 1


def test_what_is_read_in_between_stays() -> None:
    assert counts(program(seen, X)[0])["dynamic_update_slice"] == 3


@pytest.mark.parametrize("f", [twice, apart, seen])
def test_compiled(f: Callable[..., Any]) -> None:
    with funcad.config.set(jit_patience=0):
        for g in (f, funcad.grad(lambda x: np.sum(np.sin(f(x))))):
            jitted = funcad.jit(g)
            for _ in range(3):
                np.testing.assert_allclose(jitted(X), g(X), rtol=1e-12)


def test_nothing_is_said_of_starts_that_may_be_clamped() -> None:
    """i and i + 1 are one window where both are beyond the end: only slices of known indices are told apart."""

    def body(x: Any, i: Any) -> Any:
        lax = funcad.lax
        x = lax.dynamic_update_slice(x, np.full(1, 7.0), (i,))
        x = lax.dynamic_update_slice(x, np.full(1, 8.0), (i + 1,))
        return lax.dynamic_slice(x, (i,), (1,))

    jaxpr = inline(funcad.make_jaxpr(body)(np.zeros(4), 9).jaxpr)
    within: set[Var] = set()
    assert settled(jaxpr, within) is jaxpr
    assert {e.primitive for e in jaxpr.equations} >= {dynamic_slice_p, dynamic_update_slice_p}


def test_a_literal_that_was_written_is_read_from_the_array() -> None:
    def body(x: Any) -> Any:
        x = funcad.numpy.at(x)[1].set(2.0)
        return x, x[1] * 3.0

    jaxpr = inline(funcad.make_jaxpr(body)(np.zeros(3)).jaxpr)
    update = next(e for e in jaxpr.equations if e.primitive is basic_update_p)
    found = settled(jaxpr, ())
    reads = [e for e in found.equations if e.primitive is basic_index_p]
    assert len(reads) == (type(update.inputs[1]) is Literal)
