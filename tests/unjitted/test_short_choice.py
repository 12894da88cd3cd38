"""`np.where` of a mask by the short way of a tape: the numbers of the general way, for every kind of operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad

MASK = np.array([True, False, True, True])
PLAIN = np.array([1.5, -2.0, 0.25, 3.0])

CHOICES: dict[str, Callable[[Any], Any]] = {
    "array and number": lambda x: np.where(MASK, x, 0.5),
    "number and array": lambda x: np.where(MASK, np.float64(2.0), x),
    "two traced": lambda x: np.where(MASK, x * 2.0, np.sin(x)),
    "one array twice": lambda x: np.where(MASK, x, x),
    "traced and plain": lambda x: np.where(MASK, PLAIN, x),
    "traced, and the array behind it": lambda x: np.where(MASK, np.exp(x), funcad.stop_gradient(np.exp(x))),
    "an input that is also captured": lambda x: np.where(MASK, x, PLAIN) * np.where(MASK, PLAIN, x),
    "view": lambda x: np.where(MASK, x[::-1], 1.0),
    "asked of a value": lambda x: np.where(x > 0.1, x, -x),
    "broadcast": lambda x: np.where(MASK[:, None], x, 0.0),
    "a number for a mask": lambda x: np.where(True, x, 0.0),
    "integers": lambda x: np.where(MASK, x, 2),
    "a traced number": lambda x: np.where(MASK, x[0], x),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_numbers(name: str, dtype: Any) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.real(CHOICES[name](x) * np.arange(1.0, 5.0)))

    if dtype is np.complex128 and name == "asked of a value":
        pytest.skip("complex numbers are not ordered")
    jitted = funcad.jit(funcad.grad(f))
    for seed in range(4):  # the later calls find the program of the first ones
        x = np.random.default_rng(seed).uniform(-1.0, 1.0, 4).astype(dtype)
        found = funcad.grad(f)(x)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, jitted(x), rtol=1e-6)


def test_an_input_that_is_the_other_branch_too() -> None:
    """One array, traced and plain: two operands, of which only one moves."""
    for _ in range(3):
        np.testing.assert_array_equal(funcad.grad(lambda x: np.sum(np.where(MASK, x, PLAIN)))(PLAIN), MASK.astype(float))
        np.testing.assert_array_equal(funcad.grad(lambda x: np.sum(np.where(MASK, PLAIN, x)))(PLAIN), 1.0 - MASK)


def test_the_mask_and_plain_branches_may_be_written_later() -> None:
    for _ in range(3):
        mask, plain = MASK.copy(), PLAIN.copy()

        def f(x: Any, mask: Any = mask, plain: Any = plain) -> Any:
            first = np.where(mask, x, plain)
            mask[:] = ~mask
            plain[:] = 0.0
            return np.sum(first**2)

        np.testing.assert_array_equal(funcad.grad(f)(PLAIN), np.where(MASK, 2.0 * PLAIN, 0.0))


def test_a_result_is_not_its_operand() -> None:
    """What a choice gave can be kept while its operands change."""

    def f(x: Any) -> Any:
        y = np.where(MASK, x, 0.0)
        return np.sum(y * y), y

    x = PLAIN.copy()
    found, kept = funcad.grad(f, has_aux=True)(x)
    x[:] = 9.0
    np.testing.assert_array_equal(kept, np.where(MASK, PLAIN, 0.0))
    np.testing.assert_array_equal(found, np.where(MASK, 2.0 * PLAIN, 0.0))


def test_second_derivatives_and_batches() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.where(MASK, x**3, 0.0) * np.where(MASK, 1.0, x))

    expected = np.diag(np.where(MASK, 6.0 * PLAIN, 0.0))
    for _ in range(3):
        np.testing.assert_allclose(funcad.hessian(f)(PLAIN), expected)
        np.testing.assert_allclose(funcad.jacrev(funcad.grad(f))(PLAIN), expected)
        np.testing.assert_allclose(funcad.vmap(funcad.grad(f))(np.stack([PLAIN, 2 * PLAIN]))[1], funcad.grad(f)(2 * PLAIN))


def test_a_mask_that_does_not_fit_raises() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        funcad.grad(lambda x: np.sum(np.where(MASK[:3], x, 0.0)))(PLAIN)


def test_within_a_remembered_function() -> None:
    """What watches a call notes this row too."""
    for seed in range(18):
        x = np.random.default_rng(seed).uniform(0.5, 1.5, 6)
        found = funcad.grad(lambda x: np.sum(funcad.numpy.tril(np.reshape(x, (2, 3))) ** 2))(x)
        np.testing.assert_allclose(found, 2.0 * np.tril(x.reshape(2, 3)).ravel())
