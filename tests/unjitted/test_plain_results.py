"""What un-jitted operations hand back as plain arrays (masks, positions, whole parts) may be written after it was used."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.host import locks
from funcad.host.locks import SMALL

pytestmark = pytest.mark.share(2)  # of its tables of cases


def masked(x: Any, after: Callable[[Any], None]) -> Any:
    m = x > 0.0
    y = np.where(m, x * x, 0.0)
    after(m)
    return np.sum(y * x)


def negated(x: Any, after: Callable[[Any], None]) -> Any:
    m = np.isnan(x)
    y = np.sum(x * x, where=~m)
    after(m)
    return y


def placed(x: Any, after: Callable[[Any], None]) -> Any:
    i = np.argsort(x)
    y = x[i] * np.arange(float(x.size)) + np.take(x, i) + np.take_along_axis(x, i, 0)
    after(i)
    return np.sum(y * y)


def scattered(x: Any, after: Callable[[Any], None]) -> Any:
    i = np.argsort(x)
    y = funcad.numpy.at(x)[i].add(x * x)
    after(i)
    return np.sum(y * x)


def chosen(x: Any, after: Callable[[Any], None]) -> Any:
    c = np.searchsorted(np.array([0.0, 1.0]), x)
    y = np.choose(c, [x, x * x, x * x * x])
    after(c)
    return np.sum(y)


def factor(make: Callable[[Any], Any]) -> Callable[..., Any]:
    def f(x: Any, after: Callable[[Any], None]) -> Any:
        c = make(x)
        view = c[:]
        y = np.dot(x, c) + np.sum(np.sin(x) * view) + np.sum(np.stack([x, c]) ** 2)
        after(c)
        return y

    f.__name__ = getattr(make, "__name__", "factor")
    return f


def floor_of_half(x: Any) -> Any:
    return x // 0.5


def rounded(x: Any) -> Any:
    return x.round(1)


def as_truths(x: Any) -> Any:
    return np.heaviside(x, 0.5)


def many_uses(x: Any, after: Callable[[Any], None]) -> Any:
    """The masks, positions and parts of one program, each written between its uses."""
    m = x > 0.0
    y = np.where(m, x * x, 0.0)
    after(m)
    i = np.argsort(x)
    z = x[i] * np.arange(float(x.size))
    after(i)
    c = np.floor(x)
    w = x * c
    after(c)
    return np.sum(y) + np.sum(z) + np.sum(w)


PROGRAMS = [masked, negated, placed, scattered, chosen, many_uses]
PROGRAMS += [factor(make) for make in (np.floor, np.rint, np.sign, floor_of_half, rounded, as_truths, np.zeros_like, np.imag)]
WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, x: funcad.grad(f)(x),
    "once more": lambda f, x: [funcad.grad(f)(x) for _ in range(3)][-1],
    "second pullback": lambda f, x: (lambda pullback: [pullback(1.0)[0] for _ in range(2)][-1])(funcad.vjp(f, x)[1]),
    "jvp": lambda f, x: funcad.jvp(f, (x,), (np.cos(x),))[1],
    "linearize": lambda f, x: funcad.linearize(f, x)[1](np.cos(x)),
    "forward over reverse": lambda f, x: funcad.jvp(funcad.grad(f), (x,), (np.cos(x),))[1],
    "reverse over reverse": lambda f, x: funcad.grad(lambda y: np.sum(funcad.grad(f)(y) * np.cos(x)))(x),
    "reverse over forward": lambda f, x: funcad.grad(lambda y: funcad.jvp(f, (y,), (np.cos(x),))[1])(x),
}


def overwritten(array: Any) -> None:
    assert type(array) is np.ndarray and array.flags.writeable
    array[...] = 1 - array.astype(bool)


SIZES = 4, 300, 20_000  # copied at each use, copied once, and once locked


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "program, how, n",
    [
        pytest.param(f, how, n, marks=[pytest.mark.slow] * ((i + j + k) % 3 > 0), id=f"{f.__name__}-{how}-{n}")
        for i, f in enumerate(PROGRAMS)
        for j, how in enumerate(WAYS)
        for k, n in enumerate(SIZES)
    ],
)
def test_writing_it_later_changes_no_derivative(program: Any, how: str, n: int) -> None:
    x = np.random.default_rng(n).normal(size=n) * 2.0
    given = x.copy()
    left, written = [WAYS[how](lambda y: program(y, after), x) for after in (lambda a: None, overwritten)]  # noqa: B023
    np.testing.assert_allclose(written, left, rtol=1e-10)  # the second time by a program, in another order
    assert np.array_equal(x, given) and x.flags.writeable


def test_the_note_of_a_large_one_dies_with_it() -> None:
    x = np.random.default_rng(0).normal(size=2 * SMALL)
    gc.collect()
    before = len(locks._handed)

    def f(y: Any) -> Any:
        m = y > 0.0
        assert len(locks._handed) > before and locks.was_handed(m[::2])
        return np.sum(np.where(m, y, 0.0))

    assert np.array_equal(funcad.grad(f)(x), x > 0.0)
    gc.collect()
    assert len(locks._handed) == before


def test_an_array_of_the_callers_is_locked_as_before() -> None:
    w, x = np.ones(SMALL), np.ones(SMALL)
    _, pullback = funcad.vjp(lambda y: np.sum(y * w), x)
    with pytest.raises(ValueError, match="read-only"):
        w[0] = 2.0
    del pullback
    w[0] = 2.0
