"""Which of NumPy's functions was given a list of traced values is told in a twin, too, however the list was filled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import grad, jit, jvp, vmap
from funcad.doors import modules

X = np.array([1.0, 2.0])


@pytest.fixture
def nothing_learned(no_doors: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(modules._originals, id(np.square), raising=False)


def add_to(out: list, e: Any) -> None:
    out.append(e)


class Writer:
    def __init__(self) -> None:
        self.out: list[Any] = []

    def put(self, e: Any) -> None:
        self.out.append(e)


def by_helper(k: Any) -> Any:
    o = list()
    add_to(o, k[0])
    add_to(o, k[1])
    return np.sum(np.square(o))


def by_method(k: Any) -> Any:
    w = Writer()
    w.put(k[0])
    w.put(k[1])
    return np.sum(np.square(w.out))


def of_list(k: Any) -> Any:
    o = list()
    o.append(k[0])
    o.append(k[1])
    return np.sum(np.square(o))


def inline(k: Any) -> Any:
    o = []
    o.append(k[0])
    o.append(k[1])
    return np.sum(np.square(o))


WAYS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: [grad(f)(X) for _ in range(3)],
    "jvp": lambda f: [jvp(f, (X,), (np.ones(2),))[1] / 3.0 * X for _ in range(3)],
    "vmap": lambda f: vmap(grad(f))(np.stack([X, X, X])),
    "jit": lambda f: [j(X) * 0.4 * X for j in [jit(f)] for _ in range(3)],
    "jit_grad": lambda f: [j(X) for j in [jit(grad(f))] for _ in range(3)],
}


@pytest.mark.filterwarnings("error::funcad.errors.NotCompiledWarning")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", [by_helper, by_method, of_list, inline], ids=lambda f: f.__name__)
def test_a_list_that_somebody_fills(nothing_learned: None, f: Callable[[Any], Any], way: str) -> None:
    """And jit compiles it."""
    np.testing.assert_allclose(WAYS[way](f), [2.0 * X] * 3, rtol=1e-12)
