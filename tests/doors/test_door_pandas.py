"""Series and DataFrames beside traced values, in users' programs."""

from __future__ import annotations

import re

import numpy as np
import pytest

import funcad

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(5, 3)), columns=list("abc"), index=list("vwxyz"))
S = FRAME["a"]
COUNTS = pd.Series([1, 2, 3, 4, 5])
POSITIVE = S > 0
X = np.arange(1.0, 6.0)


def updated(x):
    y = x * 1.0
    y += S
    return (y**2).sum()


PROGRAMS = {
    "frame @ x": lambda x: ((FRAME @ x[:3]) ** 2).sum(),
    "frame.dot": lambda x: (FRAME.dot(x[:3]) ** 2).sum(),
    "x @ frame": lambda x: ((x @ FRAME) ** 2).sum(),
    "series @ x": lambda x: S @ x,
    "x @ series": lambda x: x @ S,
    "series.dot": lambda x: S.dot(x) ** 2,
    "np.dot": lambda x: (np.dot(FRAME, x[:3]) ** 2).sum() + np.dot(S, x),
    "np.matmul": lambda x: (np.matmul(FRAME, x[:3]) ** 2).sum(),
    "np.einsum": lambda x: np.einsum("ij,j->", FRAME, x[:3]),
    "*": lambda x: (S * x).sum() + (x * S).prod(),
    "-": lambda x: ((x - S) ** 2).sum() + ((S - x) ** 3).sum(),
    "/": lambda x: (S / x).sum() + (x / (S + 9.0)).sum(),
    "**": lambda x: (np.abs(S) ** x).sum(),
    "a number": lambda x: (x[0] * S).sum() + (S * x[1] ** 2).sum(),
    "integers": lambda x: (COUNTS * x).sum(),
    "a frame": lambda x: np.sum(FRAME * x[:3] ** 2) + np.sum(x[:3] * FRAME) + np.sum(FRAME * x[0]),
    "an index": lambda x: np.sum(x * pd.Index([1, 2, 3, 4, 5])),
    "ufuncs": lambda x: np.multiply(S, x).sum() + np.maximum(x, S).sum() + np.hypot(S, x).sum(),
    "where": lambda x: np.where(POSITIVE, x, S).sum(),
    "a mask": lambda x: (x[POSITIVE] ** 2).sum(),
    "positions": lambda x: x[pd.Series([0, 2])].prod(),
    "+=": updated,
    "least squares": lambda x: ((FRAME["b"] - (x[0] + x[1] * FRAME["a"])) ** 2).mean(),
    "logistic": lambda x: np.mean(np.log1p(np.exp(-(FRAME @ x[:3]) * np.sign(S)))),
    "groups": lambda x: sum((group["a"] * x[0] * group["b"]).sum() for _, group in FRAME.groupby(COUNTS.to_numpy() % 2)),
    "rows": lambda x: sum((row * x[:3]).sum() for _, row in FRAME.iterrows()),
    "array of a series": lambda x: (np.array(S) * x).sum() + np.concatenate([S, x]).sum(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    f = PROGRAMS[name]
    slopes = np.array([(f(X + 1e-6 * e) - f(X - 1e-6 * e)) / 2e-6 for e in np.eye(5)])
    for g in (funcad.value_and_grad(f), funcad.jit(funcad.value_and_grad(f)), funcad.value_and_grad(funcad.jit(f))):
        value, gradient = g(X)
        np.testing.assert_allclose(value, f(X), rtol=1e-10)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(funcad.vmap(f)(np.stack([X, X + 1.0])), [f(X), f(X + 1.0)], rtol=1e-10)


def test_comparisons_with_values():
    np.testing.assert_allclose(funcad.grad(lambda x: x[x > S].sum() + (x[S < x] ** 2).sum())(X), 1.0 + 2 * X)


def test_other_orders_of_labels_raise():
    reversed_labels = S[::-1]
    with pytest.raises(ValueError, match="reindex"):
        funcad.grad(lambda x: (reversed_labels - S * x[0]).sum())(X)
    with pytest.raises(ValueError, match="reindex"):
        funcad.jit(lambda x: (x * S * reversed_labels).sum())(X)
    f = funcad.grad(lambda x: (reversed_labels.reindex(S.index) - S * x[0]).sum())
    np.testing.assert_allclose(f(X)[0], -S.sum())
    np.testing.assert_allclose(funcad.grad(lambda x: (S * x).sum())(X), S)
    np.testing.assert_allclose(funcad.grad(lambda x: (reversed_labels * x).sum())(X), reversed_labels)


def test_what_has_no_numbers_raises():
    with pytest.raises(TypeError, match="dtype"):
        funcad.grad(lambda x: (pd.Series(list("abcde")) * x).sum())(X)


@pytest.mark.parametrize(
    ("f", "remedy", "instead"),
    [
        (
            lambda x: (pd.Series(x).rolling(2).mean() ** 2).sum(),
            "sliding_window_view",
            lambda x: (np.lib.stride_tricks.sliding_window_view(x, 2).mean(-1) ** 2).sum(),
        ),
        (lambda x: (pd.Series(x).diff() ** 2).sum(), r"np\.diff", lambda x: (np.diff(x) ** 2).sum()),
        (lambda x: pd.Series(x).interpolate().sum(), "pure_callback", None),
    ],
    ids=["rolling", "diff", "interpolate"],
)
def test_what_pandas_does_in_compiled_code_says_what_to_write(f, remedy, instead):
    with pytest.raises(Exception) as raised:
        funcad.grad(f)(X)
    assert [note for note in raised.value.__notes__ if note.startswith("Remedy: ") and re.search(remedy, note)]
    if instead is not None:
        np.testing.assert_allclose(instead(X), f(X))
        slopes = [(f(X + 1e-6 * e) - f(X - 1e-6 * e)) / 2e-6 for e in np.eye(5)]
        np.testing.assert_allclose(funcad.grad(instead)(X), slopes, rtol=1e-6)


def test_pandas_is_as_before():
    funcad.grad(lambda x: (S * x).sum())(X)
    assert isinstance(S * X, pd.Series) and isinstance(FRAME @ X[:3], pd.Series) and isinstance(X @ FRAME, pd.Series)
    assert (FRAME.dot(X[:3]).index == FRAME.index).all()
    inside = []
    funcad.grad(lambda x: inside.append(FRAME @ np.ones(3)) or x[0])(X)
    assert isinstance(inside[0], pd.Series)
