"""Un-jitted loops that read `x[i]`: their turns are alike but for the number, so they share the programs of their chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad.unjitted import chunks, structural

RNG = np.random.default_rng(11)
N = 200


def chain(x: Any) -> Any:
    s = 0.1
    for i in range(1, N):
        s = np.sin(s) * 0.9 + x[i] * s * 0.1 - x[i - 1]
    return s


def backwards(x: Any) -> Any:
    s = 0.1
    for i in range(1, N):
        s = np.sin(s) * 0.9 + x[-i] * s * 0.1 + x[np.int64(i)]
    return s


def repeated(x: Any) -> Any:
    s = 0.1
    for i in range(N):
        s = np.sin(s) * 0.9 + x[i % 3] ** 2 * 0.1
    return s


def of_rows(x: Any) -> Any:
    s = np.zeros(2)
    for i in range(N // 2):
        s = np.tanh(s * 0.9 + x.reshape(-1, 2)[i] * 0.3)
    return np.sum(s)


def squared(x: Any) -> Any:
    """Of absolute values, the squares are known exactly."""
    y, s = np.abs(x), 0.1
    for i in range(N):
        s = s * 0.9 + y[i] ** 2
    return s


@pytest.mark.share(4)
@pytest.mark.parametrize("f", [chain, backwards, repeated, of_rows, squared])
def test_gradients(f: Any) -> None:
    x = RNG.normal(size=N)
    x[::7] = 0.0
    expected = funcad.jit(funcad.grad(f))(x)
    structural.forget()
    for _ in range(4):
        np.testing.assert_allclose(funcad.grad(f)(x), expected, rtol=1e-11, atol=1e-12)
    assert len(structural._table) < 16, "turns of one loop have programs of their own"
    v = RNG.normal(size=N)
    np.testing.assert_allclose(funcad.vjp(f, x)[1](2.0)[0], 2.0 * expected, rtol=1e-11, atol=1e-12)
    if f is not squared:
        product = funcad.jit(lambda x: funcad.hvp(f, (x,), (v,)))(x)
        np.testing.assert_allclose(funcad.hvp(f, (x,), (v,)), product, rtol=1e-8, atol=1e-10)


def test_bounds_are_numpys() -> None:
    caught = []

    def f(x: Any) -> Any:
        s = 0.1
        for i in range(N + 2):
            try:
                s = np.sin(s) * 0.9 + x[i]
            except IndexError as error:
                caught.append(str(error))
        return s

    funcad.grad(f)(RNG.normal(size=N))
    with pytest.raises(IndexError) as numpys:
        np.zeros(N)[N]
    assert len(caught) == 2 and caught[0] == str(numpys.value)


def test_large_arrays() -> None:
    x = RNG.normal(size=20_000)
    expected = np.zeros(20_000)
    expected[:N] = 2.0 * x[:N] + np.cos(x[:N])

    def f(x: Any) -> Any:
        s = 0.0
        for i in range(N):
            s = s + x[i] * x[i] + np.sin(x[i])
        return s

    structural.forget()
    for _ in range(3):
        np.testing.assert_allclose(funcad.grad(f)(x), expected, rtol=1e-12)
    assert len(structural._table) < 16


def by_turns(p: Any) -> Any:
    """A state of two numbers, which each turn takes apart, as it does the parameters."""
    z, total = np.ones(2), 0.0
    for i in range(60):
        a, b = p
        x, y = z
        z = np.array([np.sin(a * x) - b * y, x * y * 0.1 + p[i % 2]])
        total = total + z[0] * z[1]
    return total


def names(kind: str) -> set:
    """The operations of the programs of a kind."""
    programs = [entry[0] for key, entry in structural._table.items() if key[0] == kind and type(entry) is tuple]
    assert programs
    programs = [getattr(run, "run", run) for run in programs]
    return {e.primitive.name for run in programs for e in run.program.jaxpr.equations}


@pytest.mark.slow
def test_the_numbers_of_few_elements_are_known_to_the_programs() -> None:
    """Otherwise each element that is not read has a mask, which is computed: twice the time."""
    p, v = np.array([0.3, 0.2]), np.array([1.0, -1.0])
    structural.forget()
    expected = funcad.jit(funcad.grad(by_turns))(p)
    for _ in range(2 + chunks.SIGHTS):
        np.testing.assert_allclose(funcad.grad(by_turns)(p), expected, rtol=1e-10)
    assert not names("rows") & {"scatter", "gather", "ne", "or"}
    product = funcad.jit(lambda p: funcad.hvp(by_turns, (p,), (v,)))(p)
    for _ in range(5):
        np.testing.assert_allclose(funcad.hvp(by_turns, (p,), (v,)), product, rtol=1e-8)
    assert not names("jvp") & {"scatter", "gather", "ne", "or"}


@pytest.mark.slow
def test_where_a_recording_is_not_cut_all_numbers_are_known() -> None:
    x, v = RNG.normal(size=N), RNG.normal(size=N)
    product = funcad.jit(lambda x: funcad.hvp(chain, (x,), (v,)))(x)
    structural.forget()
    for _ in range(5):
        np.testing.assert_allclose(funcad.hvp(chain, (x,), (v,)), product, rtol=1e-8, atol=1e-10)
    assert not names("jvp") & {"scatter", "gather", "ne", "or"}
