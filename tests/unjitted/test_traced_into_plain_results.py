"""What operations without a derivative hand back (masks, positions, whole parts) takes traced values, as any array does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit, jvp, stop_gradient, value_and_grad, vmap
from funcad.errors import BufferNeeded

X = np.array([1.3, -2.6, 3.7, -0.4])
NUMBERS = np.array([2.0, 3.0])
EARLIER = np.zeros_like  # found by this name, it has no door

MAKERS: dict[str, Callable[[Any], Any]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "sign": np.sign,
    "round": np.round,
    "method_round": lambda x: x.round(),
    "floor_divide": lambda x: x // 2.0,
    "heaviside": lambda x: np.heaviside(x, 0.5),
    "compared": lambda x: x > 0.0,
    "isnan": np.isnan,
    "masks": lambda x: (x > 0.0) & ~(x > 3.0),
    "argsort": np.argsort,
    "argmax": lambda x: np.argmax(x.reshape(2, 2), axis=0),
    "astype": lambda x: x.astype(int),
    "stop_gradient": stop_gradient,
    "lax_stop_gradient": funcad.lax.stop_gradient,
    "searchsorted": lambda x: np.searchsorted(np.array([-1.0, 0.0, 2.0]), x),
    "computed_from": lambda x: 2.0 * np.floor(x)[::-1] + 1.0,
    "sorted": lambda x: np.sort(np.floor(x)),
    "a_view": lambda x: np.floor(x).reshape(2, 2).T[0],
    "imported_before": EARLIER,
    "nonzero": lambda x: np.nonzero(x)[0],
    "flatnonzero": np.flatnonzero,
    "argwhere": lambda x: np.argwhere(x)[:, 0],
}
ASKING = {"nonzero", "flatnonzero", "argwhere"}  # for values, which there are none of in jit and vmap

TRANSFORMATIONS: dict[str, Callable[[Callable], Callable]] = {
    "grad": lambda f: lambda x: value_and_grad(f)(x),
    "jvp": lambda f: lambda x: (f_x := jvp(f, (x,), (X,)))[:1] + (f_x[1],),
    "grad_of_grad": lambda f: lambda x: jvp(value_and_grad(f), (x,), (X,))[0],
    "jit": lambda f: lambda x: (jit(f)(x.copy()), None),
    "jit_grad": lambda f: jit(value_and_grad(f)),
    "grad_jit": lambda f: value_and_grad(jit(f)),
    "vmap": lambda f: lambda x: (vmap(f)(x[None])[0], None),
    "vmap_grad": lambda f: lambda x: tuple([y[0] for y in vmap(value_and_grad(f))(x[None])]),
}


def written(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of its own for each maker: what is learned about one says nothing about another."""

    def f(x: Any) -> Any:
        c = make(x)
        before = np.sum(c * x[: len(c)])
        c[0] = x[1]
        c[-1:] = x[1:2]
        return before + np.sum(c * c * x[2]) + np.sum(x * x)

    return f


@pytest.mark.share(3)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("name", MAKERS)
def test_a_traced_value_is_written(name: str, transformation: str) -> None:
    if name in ASKING and ("jit" in transformation or "vmap" in transformation):
        pytest.skip("its shape depends on values")
    f = written(MAKERS[name])
    x = X.copy()
    found = TRANSFORMATIONS[transformation](f)(x)
    np.testing.assert_allclose(found[0], f(X.copy()), rtol=1e-12)
    np.testing.assert_array_equal(x, X)
    if transformation != "jvp" and found[1] is not None and name not in ("stop_gradient", "lax_stop_gradient"):
        h, slope = 1e-6, np.zeros(4)
        for i in range(4):
            up, down = X.copy(), X.copy()
            up[i] += h
            down[i] -= h
            slope[i] = (f(up) - f(down)) / (2 * h)
        expected = np.sum(slope) if found[1].ndim == 0 else slope
        np.testing.assert_allclose(found[1], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("sample", [np.array(2.0), X, np.linspace(1.0, 2.0, 20_000)], ids=["rank_0", "small", "large"])
@pytest.mark.parametrize("transformation", ["grad", "jit_grad", "grad_jit"])
def test_a_stopped_argument_is_a_copy(sample: np.ndarray, transformation: str) -> None:
    def f(x: Any) -> Any:
        c = stop_gradient(x)
        c += 1.0
        return np.sum(x * c)

    x = sample.copy()
    value, slope = TRANSFORMATIONS[transformation](f)(x)
    np.testing.assert_allclose(value, np.sum(sample * (sample + 1.0)))
    np.testing.assert_allclose(slope, sample + 1.0)
    np.testing.assert_array_equal(x, sample)
    np.testing.assert_allclose(f(x), value)
    np.testing.assert_array_equal(x, sample)


@pytest.mark.parametrize("transformation", ["grad", "jvp", "jit_grad", "jit"])
def test_whoever_catches_errors_gets_what_numpy_gives(transformation: str) -> None:
    """A first write that fails raises inside the function, where `except` may wait for other errors."""

    def f(x: Any) -> Any:
        c = np.floor(x)
        try:
            c += x
        except TypeError:
            return np.sum(x) * 100.0
        return np.sum(c * x)

    found = TRANSFORMATIONS[transformation](f)(X.copy())
    np.testing.assert_allclose(found[0], f(X.copy()))


def test_what_cannot_be_written_raises_though_it_was_caught() -> None:
    def f(x: Any) -> Any:
        try:
            NUMBERS[0] = x[0]
        except (TypeError, ValueError):
            return np.sum(x) * 100.0
        return np.sum(NUMBERS * x[:2])

    for transformation in ("grad", "jvp", "jit_grad"):
        with pytest.raises(BufferNeeded, match="K = np.array"):
            TRANSFORMATIONS[transformation](f)(X.copy())


def test_a_locked_array_is_learned_too() -> None:
    """A program that has read an array locks it, and NumPy says so before it asks for the value."""

    def f(x: Any) -> Any:
        c = EARLIER(x)
        total = np.sum(x * c)
        c[0] = x[1]
        return total + np.sum(c)

    np.testing.assert_allclose(jit(f)(X.copy()), X[1])
    np.testing.assert_allclose(grad(jit(f))(X.copy()), [0.0, 1.0, 0.0, 0.0])


def test_numpy_s_own_words_come_with_a_remedy() -> None:
    def f(x: Any) -> Any:
        c = np.add.outer(np.ones(2), np.ones(2))[0]
        total = np.sum(x[:2] * c)
        c[0] = 5.0
        return total + np.sum(c * x[:2])

    constant = np.ones(2)
    constant.flags.writeable = False

    def g(x: Any) -> Any:
        constant[0] = 3.0
        return x

    np.testing.assert_allclose(grad(f)(X.copy())[:2], [7.0, 4.0])
    for wrong in (jit(g), grad(g)):
        with pytest.raises(ValueError, match="read-only") as caught:
            wrong(X)
        assert any("K = np.array(K)" in note for note in caught.value.__notes__)
