"""Warnings of un-jitted derivatives: what NumPy and SciPy say, once for each line of the user's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.signal

import funcad as fc

X = np.sin(np.arange(40.0))
POINTS = np.array([[1.0, 2.0, 4.0], [0.0, 1.0, 5.0]])


def lines_of(run: Callable[[], Any]) -> tuple[Any, list[tuple[str, str, int]]]:
    """What it gives, and of each warning the text, the file and the line."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = run()
    return result, [(str(w.message), w.filename, w.lineno) for w in told]


def derivatives(f: Any, x: Any) -> list[Callable[[], Any]]:
    return [lambda: fc.grad(f)(x), lambda: fc.jvp(f, (x,), (np.ones_like(x),)), lambda: fc.vjp(f, x)]


@pytest.mark.parametrize(
    ("f", "x", "text"),
    [
        (lambda x: np.sum(np.polyfit(np.ones(4), x, 2)), X[:4], "Polyfit may be poorly conditioned"),
        (lambda x: np.sum(scipy.signal.welch(x, nperseg=256)[1]), X, "nperseg = 256 is greater than input length"),
        (lambda x: np.sum(np.abs(scipy.signal.stft(x, nperseg=256)[2])), X, "nperseg = 256 is greater than input length"),
        (lambda x: scipy.optimize.fsolve(lambda p: p**2 + 1.0 + x[0] ** 2, 0.1).sum(), X, "root did not converge"),
        (lambda x: np.sum(np.cov(x[:2], ddof=5)[:0]) + np.sum(x), POINTS, "Degrees of freedom <= 0 for slice"),
        (lambda x: np.sum(x**-2), np.zeros(3), "divide by zero encountered in power"),
        (np.nanmax, np.full(2, np.nan), "All-NaN slice encountered"),
        (lambda x: np.sum(np.nanmin(x, axis=1)), np.where(POINTS, np.nan, 1.0), "All-NaN slice encountered"),
        (np.nanmedian, np.full(2, np.nan), "All-NaN slice encountered"),
        (lambda x: np.sum(np.nanquantile(x, [0.2, 0.3], axis=1)), POINTS * np.nan, "All-NaN slice encountered"),
        (lambda x: np.sum(np.nanvar(x, axis=1, ddof=3)), POINTS, "Degrees of freedom <= 0 for slice."),
    ],
)
def test_they_name_the_line_of_the_user(f: Any, x: Any, text: str) -> None:
    for run in derivatives(f, x):
        _, told = lines_of(run)
        assert told
        assert any([message.startswith(text) for message, _, _ in told]), told
        code = f.__code__ if f.__module__ == __name__ else run.__code__
        assert {(file, line) for _, file, line in told} == {(__file__, code.co_firstlineno)}


LOSING: dict[str, Callable[[Any], Any]] = {
    "astype": lambda z: z.astype(np.float32),
    "np.astype": lambda z: np.astype(z, np.float64),
    "array": lambda z: np.array(z, dtype=float),
    "asarray": lambda z: np.asarray(z, float),
    "full": lambda z: np.full(2, z[0], dtype=float),
    "full_like": lambda z: np.full_like(z, z[0], dtype=float),
    "copyto": lambda z: _copied(z),
    "out": lambda z: np.add(z, z, out=np.zeros(2), casting="unsafe"),
}


def _copied(z: Any) -> Any:
    out = np.zeros(len(z))
    np.copyto(out, z, casting="unsafe")
    return out


@pytest.mark.parametrize("name", LOSING)
def test_an_imaginary_part_that_is_lost_is_told_at_each_call(name: str) -> None:
    """As NumPy does; of a whole batch once; real parts, truths and complex numbers lose nothing."""

    def f(x: Any) -> Any:
        return np.sum(LOSING[name](x * (1 + 1j)))

    (_, plain), x = lines_of(lambda: f(X[:2])), X[:2]
    assert [text for text, _, _ in plain] == ["Casting complex values to real discards the imaginary part"]
    if plain[0][1] != __file__:  # NumPy's own line, of functions in Python
        plain = [(plain[0][0], __file__, LOSING[name].__code__.co_firstlineno)]
    for run in (*derivatives(f, x), lambda: fc.hessian(f)(x), lambda: fc.vmap(f)(np.stack([x, x]))):
        for _ in range(4):
            assert lines_of(run)[1] == plain
    for quiet in (lambda x: np.sum((x * 1j).astype(bool)), lambda x: np.sum(np.real((x * 1j).astype(complex)))):
        assert not [text for text, _, _ in lines_of(lambda: fc.jvp(quiet, (x,), (x,)))[1] if "Casting" in text]  # noqa: B023


@pytest.mark.parametrize(
    "options",
    [
        {"ddof": 5},
        {"fweights": np.array([1, 1, 1]), "ddof": 5},
        {"aweights": np.array([0.1, 0.2, 0.1]), "ddof": 3},
        {"aweights": np.array([0.1, 0.2, 0.1]), "ddof": 0},
        {"fweights": np.array([1, 2, 1]), "aweights": np.array([0.1, 0.2, 0.1])},
    ],
)
def test_covariances_without_degrees_of_freedom_are_numpys(options: dict[str, Any]) -> None:
    expected, theirs = lines_of(lambda: np.cov(POINTS, **options))
    (found, _), ours = lines_of(lambda: fc.jvp(lambda x: np.cov(x, **options), (POINTS,), (POINTS,)))
    assert np.array_equal(np.isfinite(found), np.isfinite(expected)) and np.allclose(found, expected)
    assert len(ours) == any(["Degrees" in text for text, _, _ in theirs])
    jitted, _ = lines_of(lambda: fc.jit(lambda x: np.cov(x, **options))(POINTS))
    assert np.allclose(jitted, expected)


def test_covariances_by_weights_that_are_traced() -> None:
    def f(w: Any, ddof: int) -> Any:
        return np.cov(POINTS, aweights=w, ddof=ddof)

    w = np.array([0.1, 0.2, 0.1])
    for ddof in (0, 1, 3):
        expected, _ = lines_of(lambda: f(w, ddof))  # noqa: B023
        for run in (fc.jit(lambda w: f(w, ddof)), lambda w: fc.jvp(lambda w: f(w, ddof), (w,), (w,))[0]):  # noqa: B023
            found, _ = lines_of(lambda: run(w))  # noqa: B023
            assert np.allclose(found, expected)
    fc.testing.check_grads(lambda w: f(w, 1), (w,))
