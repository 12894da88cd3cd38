"""Random loops over slices that grow, shrink, move and stay: padded and rolled they give what they give written out."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.ir.interpret import eval_jaxpr
from funcad.passes.ragged import pad
from funcad.passes.roll import roll
from tests.passes.test_ragged import program

SLICES = ["i:", ":i", ":i+1", "i+1:", ":n-i", "n-i:", "i//2:i+1", "max(0,i-3):i+2", ":", "i:i+1"]
VALUES = ["x[S]", "A[i,S]", "A[S,i]", "y[S]", "A[S].sum(1)", "A[:,S].T@x", "np.sin(x[S])", "x[S][::-1]"]
VALUES.append("np.maximum(x[S],A[i,S])")
FURTHER = ["2.5", "s", "x[i]", "acc"]
STATEMENTS = [
    "y[S] = E * .1",
    "y[S] += E * .1",
    "y[S] -= E * .1",
    "A[i,S] = E * .1",
    "A[i,S] += E * .1",
    "A[S,i] = E * .1",
    "acc = acc + .1 * np.sum(E)",
    "acc = acc * .5 + .01 * np.dot(E, V)",
]
BEGIN = "def f(A, x, s):\n    n, A, y, acc = len(x), A.copy(), np.zeros(len(x)), x[0] * 0.0\n"
RANGES = ["n", "1, n", "n - 1, -1, -1", "2, n - 1"]


def source(seed: int) -> tuple[int, str]:
    """A size, and a function with one loop."""
    r = random.Random(seed)
    text = f"{BEGIN}    for i in range({r.choice(RANGES)}):\n"
    for _ in range(r.randint(1, 3)):
        where = r.choice(SLICES)
        value = r.choice(VALUES)
        for _ in range(r.randint(0, 2)):
            value = f"({value} {r.choice('+-*')} {r.choice([r.choice(VALUES), *FURTHER])})"
        statement = r.choice(STATEMENTS).replace("E", value).replace("V", r.choice(VALUES))
        text += f"        {statement.replace('S', where)}\n"
    return r.choice([12, 17, 24]), text + "    return np.sum(y * y) + np.sum(A * A) * .1 + acc\n"


@pytest.mark.share(12)
@pytest.mark.parametrize("seed", range(240))
def test_random_loops(seed: int) -> None:
    n, text = source(seed)
    names: dict[str, Any] = {"np": np}
    exec(text, names)
    rng = np.random.default_rng(seed)
    args = rng.uniform(0.2, 1, (n, n)), rng.uniform(0.2, 1, n), np.float64(1.3)
    try:
        names["f"](*args)
    except ValueError:  # slices of several lengths
        return
    for f in (names["f"], funcad.grad(names["f"], (0, 1))):
        plain, values = program(f, *args)
        padded, rolled = eval_jaxpr(pad(plain), values), eval_jaxpr(roll(plain), values)
        for one, other, last in zip(eval_jaxpr(plain, values), padded, rolled):
            np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-11, err_msg=text)
            np.testing.assert_allclose(last, one, rtol=1e-9, atol=1e-11, err_msg=text)


def test_rows_and_columns_of_one_array() -> None:
    """Both are rows that the turns get: one of it as it lies, one of its transpose."""

    def f(a: Any, x: Any) -> Any:
        total, n = 0.0 * x[0], len(x)
        for i in range(n - 1, -1, -1):
            total = total + 0.1 * np.sum(np.maximum(x[:i], a[i, :i]) + total)
            total = total * 0.5 + 0.01 * np.dot(x[n - i :], a[n - i :, i])
            total = total + 0.1 * np.sum(a[i : i + 1, i] * x[i] - a[i : i + 1, i])
        return total

    rng = np.random.default_rng(92)
    args = rng.uniform(0.2, 1, (17, 17)), rng.uniform(0.2, 1, 17)
    plain, values = program(f, *args)
    rolled = roll(plain)
    assert len(rolled.equations) < 0.3 * len(plain.equations)
    np.testing.assert_allclose(eval_jaxpr(rolled, values), eval_jaxpr(plain, values), rtol=1e-10)
