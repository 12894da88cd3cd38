"""Pullbacks of custom_gradient: they run as they are, if what they close over is all that they may read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad import grad, hessian, jacrev, jit, jvp, vmap
from funcad.custom import custom_vjp

FACTOR = 2.0
X = np.array([1.0, 2.0])


def steady(x: Any) -> Any:
    return np.cos(x)


def of_factor(x: Any) -> Any:
    return FACTOR * x


def by_cells(i: int) -> Any:
    several = i, None
    return lambda x: (x * i, lambda ct: ct * steady(x) * several[0])


def by_default(i: int) -> Any:
    return lambda x: (x * i, lambda ct, i=i: ct * np.cos(x) * i)


def by_list(i: int) -> Any:
    box = [i]
    return lambda x: (x * i, lambda ct: ct * np.cos(x) * box[0])


def by_helper(i: int) -> Any:
    def times(ct: Any) -> Any:
        return ct * i

    return lambda x: (x * i, lambda ct: times(ct * np.cos(x)))


def by_inner(i: int) -> Any:
    return lambda x: (x * i, lambda ct: next(c * np.cos(x) * i for c in (ct,)))


def by_count(i: int) -> Any:
    def pair(x: Any) -> Any:
        def pull(ct: Any) -> Any:
            nonlocal i
            i += 1
            return ct * np.cos(x) * (i - 1)

        return x * i, pull

    return pair


def by_global(i: int) -> Any:
    return lambda x: (x * i, lambda ct: ct * np.cos(x) * i * of_factor(0.5))


def by_object(i: int) -> Any:
    return lambda x: (x * i, functools.partial(np.multiply, np.cos(x) * i))


def held(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The cotangents that come to pullbacks which run as they are."""
    found: list[Any] = []
    call = custom_vjp._HeldPullback.__call__
    noted = lambda self, arrays, ct: found.append(ct) or call(self, arrays, ct)
    monkeypatch.setattr(custom_vjp._HeldPullback, "__call__", noted)
    return found


MADE = [by_cells, by_default, by_list, by_helper, by_inner, by_count, by_global, by_object]


@pytest.mark.parametrize("made", MADE)
def test_they_know_what_was_there_at_the_call(made: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    found = held(monkeypatch)

    def loss(x: Any) -> Any:
        global FACTOR
        for i in (2, 3):
            x = fc.custom_gradient(made(i))(x)
            FACTOR += 1.0
        FACTOR = 2.0
        return np.sum(x)

    slopes = np.cos(X) * 2 * np.cos(2 * X) * 3
    np.testing.assert_allclose(grad(loss)(X), slopes * 1.5 if made is by_global else slopes, rtol=1e-14)
    assert len(found) == (2 if made is by_cells else 0) and not any([type(ct) is not np.ndarray for ct in found])


def test_all_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    found = held(monkeypatch)
    f = fc.custom_gradient(lambda x, y: ((np.sin(x) * y, x), lambda cts: (cts[0] * np.cos(x) * y + cts[1], cts[0] * np.sin(x))))
    both = lambda f: lambda x: np.sum(f(x * x, x)[0] * f(X, x)[1])
    ours, plain = both(f), both(lambda x, y: (np.sin(x) * y, x))
    for transform in (grad, hessian, lambda g: jit(grad(g)), lambda g: lambda x: vmap(grad(g))(np.stack([x, x + 1.0]))):
        np.testing.assert_allclose(transform(ours)(X), transform(plain)(X), rtol=1e-13)
    for g in (ours, lambda x: f(x, x)[0] * x):
        np.testing.assert_allclose(jvp(g, (X,), (X,))[1], jacrev(g)(X) @ X, rtol=1e-13)
    assert found


def test_arrays_are_as_they_were_at_the_call() -> None:
    buffer, x, y = np.empty(2), X.copy(), np.array([3.0, 4.0])

    @fc.custom_gradient
    def f(x: Any, y: Any) -> Any:
        np.multiply(x, y, out=buffer)
        return buffer.copy(), lambda ct: (ct * y if np.all(ct > 0) else 100.0 * ct, ct * buffer)

    def loss(y: Any) -> Any:
        first = f(x, y)
        x[:] = 7.0
        return np.sum(first + f(x, y))

    np.testing.assert_allclose(grad(loss)(y), [3.0 + 21.0, 8.0 + 28.0])
    np.testing.assert_allclose(grad(lambda x: -np.sum(f(x, y)))(x), [-100.0, -100.0])


def test_errors_name_the_line_of_the_call() -> None:
    f = fc.custom_gradient(lambda x: (x * 2.0, lambda ct: ct.reshape(7)))
    with pytest.raises(ValueError, match="reshape") as found:
        grad(lambda x: np.sum(f(x)))(np.ones(3))
    assert "test_pullbacks.py" in str(getattr(found.value, "__notes__", ""))
    with pytest.raises(TypeError, match="one cotangent"):
        grad(lambda x: fc.custom_gradient(lambda x, y: (x * y, lambda ct: (ct,)))(x, x))(2.0)
    integers = fc.custom_gradient(lambda x, n: ((x * n, n), lambda cts: (cts[0] * n, None)))
    assert grad(lambda x: integers(x, 3)[0])(2.0) == 3.0
