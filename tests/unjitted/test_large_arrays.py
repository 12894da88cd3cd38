"""Un-jitted derivatives of large arrays: rows keep what the linear part of a rule reads, and no operands."""

from __future__ import annotations

import gc
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.host import locks

N = 20_000  # above 64 KiB, of float32 too
RNG = np.random.default_rng(7)
W = RNG.uniform(0.5, 1.5, N)
BIG = RNG.normal(size=(N, 3))

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "elementary": lambda x: np.sum(np.tanh(x) * x + np.exp(-x * x) / (1.5 + np.cos(x))),
    "powers": lambda x: np.sum((x * x + 1.0) ** 1.5 + x**3 + 2.0**x) + np.mean(x**0.0 * x),
    "with arrays": lambda x: np.sum(W * x / (W + x * x)) + np.sum(np.arctan2(x, W)),
    "alike": lambda x: np.sum(x * x) + np.sum(np.maximum(x, x)) + np.sum(x[::-1] * x),
    "relu": lambda x: np.sum(np.maximum(x * 1.5, 0.0) ** 2 + np.minimum(x, W) + np.fmax(x, -W)),
    "where": lambda x: np.sum(np.where(x > 0.0, x * W, np.sin(x)) + np.where(W > 1.0, 0.0, x) + np.clip(x, -0.5, 0.5)),
    "extrema": lambda x: np.max(x) * np.min(x) + np.log(np.sum(np.exp(x - np.max(x)))),
    "broadcast": lambda x: np.sum(x[:, None] * BIG) + np.sum((x[:60, None] - x[None, :150]) ** 2),
    "moved": lambda x: np.sum(x.reshape(200, 100).T @ W[:200] * np.concatenate([x[5:60], x[:45]])) + x[3] * x[-1],
    "taken": lambda x: np.sum(x[np.arange(N)[::-1] // 2] * W) + np.sum(np.sort(x) * W) + np.sum(np.cumsum(x)),
    "statistics": lambda x: np.var(x) / np.std(x) + np.mean((x - np.mean(x)) ** 2) + np.linalg.norm(x),
    "squares": lambda x: np.linalg.norm(x) ** 2 + np.sum(np.abs(x) ** 2) + np.sum(np.abs(x).reshape(50, -1) ** 2),
    "scalar to large": lambda x: np.sum(np.sin(x[0] * W) * np.full(N, x[1]) * 2.0 + x[2]),
    "several results": lambda x: np.sum(np.linalg.qr(x[:19800].reshape(660, 30))[1] ** 3) + np.sum(np.split(x * x, 2)[1]),
    "complex": lambda x: np.real(np.sum(np.exp(1j * x) * x)) + np.abs(np.sum(np.fft.fft(x)[:5])),
    "written": lambda x: _written(x),
}


def _written(x: Any) -> Any:
    y = np.zeros(N) + x
    y[5:50] = x[:45] * 2.0
    y[3] = x[0]
    y *= W
    return np.sum(y * x)


def relative(found: Any, expected: Any) -> float:
    assert type(found) is np.ndarray and found.shape == expected.shape and found.dtype == expected.dtype
    return float(np.abs(found - expected).max() / (1.0 + np.abs(expected).max()))


@pytest.mark.share(4)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_derivatives_are_those_of_programs(name: str, dtype: Any) -> None:
    f = FUNCTIONS[name]
    x = RNG.normal(size=N).astype(dtype)
    expected = funcad.jit(funcad.grad(f))(x)
    close = 1e-12 if dtype is np.float64 else 2e-4
    for _ in range(4):  # by the rules, derived, by the program, on an engine
        assert relative(funcad.grad(f)(x), expected) < close
        y, pullback = funcad.vjp(f, x)
        for _ in range(2):
            assert relative(pullback(np.ones_like(y))[0], expected) < close
    t = RNG.normal(size=N).astype(dtype)
    slope = float(np.sum(expected.astype(float) * t))
    _, push = funcad.linearize(f, x)
    assert abs(float(push(t)) - slope) < 100 * close * (1.0 + np.abs(expected * t).sum())


@pytest.mark.share(3)
@pytest.mark.parametrize("name", "elementary,with arrays,alike,where,moved,statistics,scalar to large,written".split(","))
def test_nested(name: str) -> None:
    f = FUNCTIONS[name]
    x, v = RNG.normal(size=N), RNG.normal(size=N)
    expected = funcad.jit(lambda x: funcad.jvp(funcad.grad(f), (x,), (v,))[1])(x)
    for _ in range(3):
        assert relative(funcad.hvp(f, (x,), (v,)), expected) < 1e-11
        assert relative(funcad.grad(lambda y: np.sum(funcad.grad(f)(y) * v))(x), expected) < 1e-11
        assert relative(funcad.grad(lambda y: funcad.jvp(f, (y,), (v,))[1])(x), expected) < 1e-11
        _, pullback = funcad.vjp(funcad.grad(f), x)
        assert relative(pullback(v)[0], expected) < 1e-11
    a, b = x[:3], np.zeros(3)
    g: Any = lambda p: f(np.concatenate([p, x[3:]]) * 1.0)
    assert np.abs(funcad.hessian(g)(a) - funcad.jit(funcad.hessian(g))(a)).max() < 1e-10
    assert np.abs(funcad.jacrev(lambda p: g(p) * p + b)(a) - funcad.jit(funcad.jacfwd(lambda p: g(p) * p + b))(a)).max() < 1e-9


def test_the_first_hessian_of_several_writes() -> None:
    """By the rules, as nothing is known yet: a tracer that was written into again and again is told once what is behind it."""
    x = RNG.normal(size=N)
    g: Any = lambda p: _written(np.concatenate([p, x[3:]]) * 1.0)
    expected = funcad.jit(funcad.hessian(g))(x[:3])
    for _ in range(3):
        assert np.abs(funcad.hessian(g)(x[:3]) - expected).max() < 1e-10


@pytest.mark.parametrize("extremum", [np.maximum, np.minimum, np.fmax, np.fmin])
def test_rules_that_ask_for_values(extremum: Any) -> None:
    """Ties, NaN and neither of them, in any order: each answer has a part of its own."""
    plain, other = RNG.normal(size=N), RNG.normal(size=N)
    tied, undefined = plain.copy(), plain.copy()
    tied[::3] = other[::3]
    undefined[::4] = np.nan
    both = tied.copy()
    both[1::5] = np.nan
    f: Any = lambda x, y: np.sum(extremum(x, y) * W)
    g = funcad.grad(f, argnums=(0, 1))
    expected = funcad.jit(g)
    for x in [plain, tied, plain, undefined, both, tied, undefined, plain, both, plain]:
        for a, b in zip(g(x, other), expected(x, other)):
            np.testing.assert_array_equal(a, b)


def test_f_runs_once_and_warns_at_its_line() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return np.sum(np.log(x))  # this line

    x = np.ones(N)
    x[7] = 0.0
    for _ in range(4):
        calls.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            funcad.grad(f)(x)
        assert len(calls) == 1
        (w,) = [c for c in caught if issubclass(c.category, RuntimeWarning)]
        assert w.filename == __file__ and w.lineno == f.__code__.co_firstlineno + 2
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            funcad.grad(f)(x)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            assert funcad.grad(f)(x)[7] == np.inf


def test_arrays_of_the_callers_are_locked_and_released() -> None:
    w = W.copy()

    def f(x: Any) -> Any:
        y = x * w
        with pytest.raises(ValueError, match="read-only"):
            w[0] = 1.0
        return np.sum(y * w)

    for _ in range(3):
        np.testing.assert_allclose(funcad.grad(f)(np.ones(N)), w * w)
        assert w.flags.writeable
        _, pullback = funcad.vjp(f, np.ones(N))
        assert not w.flags.writeable
        del pullback
        gc.collect()
        assert w.flags.writeable and not locks._records


def test_masks_of_the_users_are_copied() -> None:
    def f(x: Any) -> Any:
        mask = x > 0.0
        y = np.where(mask, x * x, 0.0)
        mask[:] = False
        return np.sum(y)

    x = RNG.normal(size=200_000)
    for _ in range(3):
        np.testing.assert_allclose(funcad.grad(f)(x), np.where(x > 0.0, 2.0 * x, 0.0))


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # since NumPy 2.5
def test_the_shape_of_what_is_kept_is_that_of_its_use() -> None:
    w = W.copy()

    def f(x: Any) -> Any:
        y = np.sum(w * x)
        w.shape = (2, N // 2)
        y = y + np.sum(w * x[: N // 2])
        w.shape = (N, 1)
        return y

    expected = W.copy()
    expected[: N // 2] += W[: N // 2] + W[N // 2 :]
    for _ in range(3):
        w.shape = (N,)
        np.testing.assert_allclose(funcad.grad(f)(np.ones(N)), expected)


def test_an_error_in_the_middle_leaves_nothing() -> None:
    w = W.copy()

    def f(x: Any) -> Any:
        y = np.exp(x * w)
        raise KeyError(y.shape)

    for _ in range(3):
        with pytest.raises(KeyError):
            funcad.grad(f)(np.ones(N))
        assert w.flags.writeable
        np.testing.assert_allclose(funcad.grad(lambda x: np.sum(x * w))(np.ones(N)), w)


def test_operations_whose_rule_runs_at_once() -> None:
    @funcad.custom_vjp
    def doubled(x: Any) -> Any:
        return x * 2.0

    doubled.defvjp(lambda x: (x * 2.0, x), lambda x, ct: (ct * 3.0,))
    inner = funcad.jit(lambda x: np.sin(x) * x)
    f: Any = lambda x: np.sum(np.exp(inner(doubled(np.tanh(x) * W)) * 0.1) * x)
    x = RNG.normal(size=N)
    expected = funcad.jit(funcad.grad(f))(x)
    for _ in range(3):
        assert relative(funcad.grad(f)(x), expected) < 1e-12


def peak(call: Callable[[], Any]) -> int:
    found = []
    for _ in range(5):
        tracemalloc.start()
        call()
        found.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return max(found)


@pytest.mark.slow
def test_a_long_loop_keeps_one_array_a_turn() -> None:
    """At every call."""

    def f(x: Any) -> Any:
        for _ in range(120):
            x = np.sin(x) * 1.01 + 0.1
        return np.sum(x)

    x = RNG.normal(size=2 * N)
    assert peak(lambda: funcad.grad(f)(x)) / x.nbytes < 130


def test_vjp_keeps_what_grad_keeps() -> None:
    def f(x: Any) -> Any:
        for _ in range(20):
            x = np.where(x > 0.0, x * 1.01, 0.0)
        return np.sum(x)

    x = RNG.normal(size=2 * N)
    assert peak(lambda: funcad.vjp(f, x)) / x.nbytes < 7
