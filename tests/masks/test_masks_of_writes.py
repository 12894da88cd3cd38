"""Masks of arrays that are written and read element by element, row by row: recorded they say what they say un-jitted.

Each function writes into an array with NumPy and reads it, in a random order, and selects of the result at the end, so that a
mask goes backwards through all reads and writes. Factors are zero and infinite where nothing is selected, and elsewhere too.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import funcad

PLACES = ["i", "i, j", "k, k", "i, :j", ":j, i", "i:, j", "k, 2:7", "[1, j, 4]", "j - 1:j + 1", "i, ::2", "p", "p, j"]
VALUES = ["A[P] / w[P]", "A[P] * w[P]", "np.log(A[P] * 0.0)", "np.sqrt(abs(A[P]) * w[P])", "w[P]", "2.5"]
VALUES.append("A[P] - A[0, 0] * w[P]")
ENDS = ["np.tril(A)", "np.where(w > 0.0, A, 0.0)", "np.maximum(A, w)", "np.triu(A, 2)[1:]", "np.where(A > 0.3, w, A)"]


def source(seed: int) -> str:
    r = random.Random(seed)
    text = "def f(A, w, p):\n    A, k = A.copy(), 3\n    for i in range(2, 8):\n        j = 9 - i\n"
    for _ in range(r.randint(1, 3)):
        place, value = r.choice(PLACES), r.choice(VALUES)
        text += f"        A[{place}] {r.choice(['=', '+=', '-=', '*='])} {value.replace('P', place)}\n"
    return f"{text}    B = {r.choice(ENDS)}\n    return (B * B).sum()\n"


def given(seed: int, dtype: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    A, w = rng.uniform(0.1, 1.0, (2, 10, 10)).astype(dtype)
    w[rng.random(w.shape) < 0.15] = rng.choice([0.0, np.inf, np.nan, -0.0])
    A[rng.random(A.shape) < 0.05] = rng.choice([0.0, np.inf])
    return A, w, rng.permutation(10)[:3]


@pytest.mark.share(8)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(160))
def test_recorded_masks_say_what_plain_ones_say(seed: int, dtype: Any) -> None:
    names: dict[str, Any] = {"np": np}
    exec(source(seed), names)
    A, w, p = given(seed, dtype)
    with np.errstate(all="ignore"):
        expected = funcad.grad(names["f"])(A, w, p)
        found = funcad.jit(funcad.grad(names["f"]), guards=False)(A, w, p)
        second = funcad.jit(lambda A: funcad.vjp(lambda A: funcad.grad(names["f"])(A, w, p), A)[1](np.ones_like(A)))(A)
        plain = funcad.vjp(lambda A: funcad.grad(names["f"])(A, w, p), A)[1](np.ones_like(A))
    tolerance = 1e-10 if dtype is np.float64 else 2e-4
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=source(seed))
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(second, plain, rtol=10 * tolerance, atol=10 * tolerance, err_msg=source(seed))


def test_a_factor_in_a_triangle() -> None:
    """The forward run divides by zero above the diagonal, which is not selected; the loops of the gradient are found."""

    def f(A):
        A = A.copy()
        for i in range(12):
            for j in range(12):
                if i != j:
                    A[i, j] /= A[j, j] if j < i else 0.0 * A[i, i]
        return np.tril(A, -1).sum()

    A = np.random.default_rng(3).uniform(0.5, 1.0, (12, 12))
    with np.errstate(all="ignore"):
        expected = funcad.grad(f)(A)
    assert np.isfinite(expected).all() and expected.any()
    np.testing.assert_allclose(funcad.jit(funcad.grad(f))(A), expected, rtol=1e-12)
    program = funcad.make_jaxpr(funcad.grad(f))(A).jaxpr
    of_bools = [e for e in program.equations if e.outputs and e.outputs[0].aval.dtype == bool]
    assert not [e for e in of_bools if e.primitive.name == "basic_place"]
    assert len([v for v in program.inputs if v.aval.dtype == bool]) == 1, "the triangle; what is known of masks is recorded"
