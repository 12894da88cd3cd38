"""Second derivatives of arrays above 64 KiB: programs found by key and kind, as of small ones, unless they held too much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import grad, hessian, hvp, jacfwd, jit, jvp
from tests.unjitted.by_rules import by_rules
from tests.unjitted.test_large_peaks import exp, maximum, peak, relu, where

N = 9000  # 72 kB
RNG = np.random.default_rng(5)
A, Y = RNG.normal(size=(N, 4)), RNG.random(N)
W, V = np.array([0.3, -0.2, 0.1, 0.4]), np.array([1.0, -2.0, 0.5, 0.3])
X, T = np.linspace(-1.0, 2.0, N), RNG.normal(size=N)


def logistic(w: Any) -> Any:
    z = A @ w + w[0] * w[1]
    return np.sum(np.logaddexp(0.0, z) - Y * z) + 0.1 * np.dot(w, w)


def counts(w: Any) -> Any:
    z = np.tanh(A @ (w * w))
    mean = np.exp(z)
    return np.mean(mean - Y * z + np.log1p(mean) * np.sqrt(1.0 + mean)) + np.max(z)


def chosen(w: Any) -> Any:
    """Of what is not chosen the derivative is no number."""
    z = A @ w
    return np.sum(np.where(z > 0.1, np.sqrt(np.where(z > 0.1, z, 0.0)), z**2) * np.maximum(z, 0.2)) + np.sum(np.abs(z) ** 3)


def taken(w: Any) -> Any:
    z = np.concatenate([A @ w, A[:, 0] * w[2]])
    return np.sum(np.reshape(z, (2, N))[0] ** 2 * z[::2]) + np.sum(z[10:20])


def large(x: Any) -> Any:
    y = np.sin(x) * x + x[0]
    return np.sum(y**2 * np.exp(-x)) / N + np.prod(y[:3])


def same(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10 * np.max(np.abs(b)))


SECOND: dict[str, Callable[[Any, Any, Any], Any]] = {
    "hvp": lambda f, x, v: hvp(f, (x,), (v,)),
    "jvp of grad": lambda f, x, v: jvp(grad(f), (x,), (v,))[1],
    "grad of grad": lambda f, x, v: grad(lambda x: np.sum(grad(f)(x) * v))(x),
    "hessian": lambda f, x, v: hessian(f)(x),
    "jacfwd": lambda f, x, v: jacfwd(grad(f))(x),
}


@pytest.mark.share(4)
@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize("f", [logistic, counts, chosen, taken, large], ids=lambda f: f.__name__)
def test_as_by_the_rules(f: Any, second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if f is large and second in ("hessian", "jacfwd"):
        pytest.skip("648 MB")
    x, v = (X, T) if f is large else (W, V)
    g = lambda x: SECOND[second](f, x, v)
    expected, other = by_rules(monkeypatch, g, x), by_rules(monkeypatch, g, x * 0.9)
    for _ in range(5):
        same(g(x), expected)
    same(g(x * 0.9), other)
    same(jit(g)(x), expected)


@pytest.mark.share(3)
@pytest.mark.parametrize(("f", "activations"), [(relu, 32.0), (where, 12.0), (maximum, 30.0), (exp, 44.0)])
def test_peaks_of_chains(f: Any, activations: float) -> None:
    x = np.linspace(-1.0, 1.0, 20_000)
    v = np.ones_like(x)
    assert peak(lambda: hvp(lambda x: f(x, 1.01), (x,), (v,))) / x.nbytes <= activations


def test_an_array_that_the_user_overwrites() -> None:
    a = np.linspace(0.0, 1.0, N)

    def f(w: Any) -> Any:
        y = np.sum(np.sin(w * a))
        with pytest.raises(ValueError):
            a[:] = 0.0
        return y

    for _ in range(4):
        found = hvp(f, (0.5,), (2.0,))
        same(found, -2.0 * np.sum(np.sin(0.5 * a) * a**2))
    a[:] = 0.0


def test_an_outer_value_that_the_inner_function_closes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tape of the inner gradient learns of the outer trace only when it meets a large array of that."""

    def g(x: Any) -> Any:
        big = np.sin(x)
        return grad(lambda w: np.sum(np.tanh(A @ w * big) * big) + np.sum(big * w[0]))(W)

    h = lambda: jvp(g, (X,), (T,))[1]
    expected = by_rules(monkeypatch, h)
    for _ in range(5):
        same(h(), expected)
