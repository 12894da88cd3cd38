"""Methods of plain arrays that are given traced values: `A.dot(x)` gives what `np.dot(A, x)` gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import grad, jit, jvp, vmap
from funcad.errors import TracerArrayConversionError
from tests.forked import in_a_process

A = np.array([[0.1, 0.9], [0.3, 0.2]])
V = np.array([0.1, 0.5, 0.9])
PLACES = np.array([0, 1, 0])


class Model:
    def __init__(self) -> None:
        self.a = A
        self.calls = 0

    def loss(self, x: Any) -> Any:
        self.calls += 1
        return np.sum(self.a.dot(A * x))


def over_lines(x: Any) -> Any:
    return np.sum(
        A.dot(
            A * x,
        )
    )


def filled(x: Any) -> Any:
    b = A.copy()
    b.fill(x)
    return np.sum(b)


def put(x: Any) -> Any:
    b = A.copy()
    b.put([0, 2], x)
    return np.sum(b)


def clipped_in_place(x: Any) -> Any:
    b = A.copy()
    b.clip(x, 0.5, out=b)
    return np.sum(b)


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {  # and the same by NumPy's functions
    "dot": (lambda x: np.sum(A.dot(A * x)), lambda x: np.sum(A @ A) * x),
    "dot_of_row": (lambda x: A[0].dot(A[1] * x), lambda x: A[0] @ A[1] * x),
    "dot_of_result": (lambda x: np.sum(np.eye(2).dot(A * x)), lambda x: np.sum(A) * x),
    "dot_over_lines": (over_lines, lambda x: np.sum(A @ A) * x),
    "clip": (lambda x: np.sum(A.clip(0.25, x)), lambda x: np.sum(np.minimum(np.maximum(A, 0.25), x))),
    "clip_in_place": (clipped_in_place, lambda x: np.sum(np.minimum(np.maximum(A, x), 0.5))),
    "sum": (lambda x: A.sum(initial=x) * x, lambda x: (np.sum(A) + x) * x),
    "prod": (lambda x: A.prod(initial=x) * x, lambda x: np.prod(A) * x * x),
    "max": (lambda x: A.max(initial=x + 1.0), lambda x: x + 1.0),
    "min": (lambda x: A.min(initial=x - 1.0), lambda x: x - 1.0),
    "searchsorted": (lambda x: V.searchsorted(x) * x, lambda x: 1.0 * x),
    "choose": (lambda x: np.sum(PLACES.choose([x, 2.0 * x])), lambda x: 4.0 * x),
    "take": (lambda x: V.take(np.searchsorted(V, x)) * x, lambda x: 0.5 * x),
    "fill": (filled, lambda x: 4.0 * x),
    "put": (put, lambda x: np.sum(A) - A[0, 0] - A[1, 0] + 2.0 * x),
}
WAYS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "plain": lambda f: f(0.35),
    "grad": lambda f: grad(f)(0.35),
    "jvp": lambda f: jvp(f, (0.35,), (2.0,))[1],
    "vmap": lambda f: vmap(f)(np.array([0.35, 0.4])),
    "jit": lambda f: jit(f)(0.35),
    "third": lambda f: [j(0.35) for j in [jit(grad(f))] for _ in range(3)][2],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_the_same_as_the_function(case: str, way: str) -> None:
    by_method, by_function = CASES[case]
    np.testing.assert_allclose(WAYS[way](by_method), WAYS[way](by_function), rtol=1e-12)


def test_a_method_that_counts_runs_once() -> None:
    model = Model()
    np.testing.assert_allclose(grad(model.loss)(0.35), np.sum(A @ A), rtol=1e-12)
    assert model.calls == 1


def test_what_has_no_traced_form_names_the_function() -> None:
    with pytest.raises(TracerArrayConversionError, match=r"write np\.argpartition\(V\[1:\], x\) instead of V\[1:\]\.argp"):
        grad(lambda x: V[1:].argpartition(x)[0] * x)(1.0)


def test_functions_of_numpy_are_told_from_methods_of_arrays() -> None:
    """Whether a function acts, which is asked where such a method may be called, is not asked for `np.dot`."""
    in_a_process(
        "import sys, numpy as np, funcad\n"
        "X, V = np.ones((4, 3)), np.ones(4)\n"
        "print(funcad.grad(lambda w: np.sum(np.dot(np.dot(X, w), V) * np.take(w, 0)))(np.ones(3)))\n"
        "assert 'funcad.host.acting' not in sys.modules\n"
    )
