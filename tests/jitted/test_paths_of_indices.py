"""Plain arrays at traced places: NumPy asks for the places' values, which are guards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit, vmap
from funcad.errors import TracerArrayConversionError

TABLE = np.arange(10.0, 16.0)
MATRIX = np.arange(24.0).reshape(6, 4)
NAMES, LENGTHS = "abcdef", [3, 1, 2, 5, 4, 0]
X = np.array([1.0, -1.0, 2.0, -3.0, 4.0, 5.0])


def filled(x: Any) -> Any:
    kept = np.array(TABLE)
    kept[x > 0] = x[x > 0]
    kept[np.argsort(x)[:2]] = 0.0
    return np.sum(kept * x)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "mask": lambda x: np.sum(TABLE[x > 0] * x[x > 0] ** 2),
    "mask of rows": lambda x: np.sum(MATRIX[x > 0]) * x[0],
    "mask and number": lambda x: np.sum(MATRIX[x > 0, 1]) * x[0],
    "inverted mask": lambda x: np.mean(TABLE[~(x > 0)]) * x[0],
    "order": lambda x: np.sum(TABLE[np.argsort(x)] * x),
    "columns": lambda x: np.sum(MATRIX[:, np.argsort(x)[:2] % 4] * x[0]),
    "take": lambda x: np.sum(np.take(TABLE, np.argsort(x)) * x),
    "method": lambda x: np.sum(TABLE.take(np.argsort(x)[:3]) * x[:3]),
    "nonzero": lambda x: np.sum(TABLE[np.nonzero(x > 0)]) * x[0],
    "largest": lambda x: TABLE[np.argmax(x)] * x[0] + LENGTHS[np.argmin(x)] * x[1],
    "text": lambda x: x[0] * (2.0 if NAMES[np.argmax(x)] == "f" else 3.0),
    "deleted": lambda x: np.sum(np.delete(TABLE, np.argmax(x)) * x[1:]),
    "inserted": lambda x: np.sum(np.insert(TABLE, np.argsort(x)[:2], 1.0)) * x[0],
    "nothing": lambda x: np.sum(TABLE[x > 100]) + x[0],
    "stored": filled,
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "jit": jit,
    "jit(grad)": lambda f: jit(grad(f)),
    "grad(jit)": lambda f: grad(jit(f)),
    "around jit": lambda f: (lambda j: grad(lambda x: j(x) * 1.0))(jit(f)),
    "guards of vmap": lambda f: lambda x: vmap(f)(np.stack([x, -x, x]))[0],
}


@pytest.mark.share(3)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_places_are_what_python_sees(name: str, way: str) -> None:
    f = PROGRAMS[name]
    there, here = WAYS[way](f), f if way in ("jit", "guards of vmap") else grad(f)
    for x in (X, X, -X, X[::-1].copy(), 2 * X, -X, X):
        np.testing.assert_allclose(there(x), here(x), rtol=1e-12)


def test_a_gradient_that_was_started_again_in_its_first_run() -> None:
    f = lambda x: np.sum(np.insert(TABLE, np.argsort(x)[:2], 1.0)) * x[0]
    there, here = jit(grad(f)), grad(f)
    for x in (X, X, -X, X[::-1].copy(), 2 * X, -X, X):  # what is recorded later has what was recorded first only once
        np.testing.assert_allclose(there(x), here(x), rtol=1e-12)


def test_each_value_of_the_places_is_a_path_of_its_own() -> None:
    j = jit(lambda x: np.sum(MATRIX[x > 0]) * x[0])
    for x in (X, X, -X, X):
        j(x)
    shown = j.explain(X)
    assert {p.conditions[0].answer for p in shown.paths} == {str(X > 0), str(X < 0)} and shown.recorded == 2


def test_many_places_run_interpreted() -> None:
    j, rng = jit(PROGRAMS["order"]), np.random.default_rng(0)
    for _ in range(40):
        x = rng.normal(size=6)
        np.testing.assert_allclose(j(x), PROGRAMS["order"](x))


def test_an_array_from_outside_is_written_un_jitted() -> None:
    counts = np.zeros(6, int)

    def into_theirs(i: Any) -> Any:
        counts[:3] = i
        return i * 1.0

    with pytest.warns(funcad.NotCompiledWarning, match="counts is written in place"):
        jit(into_theirs)(np.array([2, 0, 1]))
    np.testing.assert_array_equal(counts, [2, 0, 1, 0, 0, 0])


def test_what_is_refused() -> None:
    with pytest.raises(TracerArrayConversionError):
        jit(lambda i: TABLE[i], guards=False)(np.array([2, 0, 1]))
    with pytest.raises(TracerArrayConversionError):
        funcad.scan(lambda c, i: (c + np.sum(TABLE[i]), None), 0.0, np.array([[0, 1], [2, 3]]))
