"""LAPACK's solvers of band systems, as programs call them, and stacks of band systems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from scipy.linalg import get_lapack_funcs, lapack
from scipy.linalg.lapack import dgtsv

import funcad as fc
from funcad.testing import check_grads

RNG = np.random.default_rng(0)
N = 6
BELOW, ABOVE, RIGHT = 0.4 * RNG.normal(size=(3, N))
ON = RNG.uniform(2.0, 3.0, N)


def by_module(below: Any, on: Any, above: Any, right: Any) -> Any:
    return lapack.dgtsv(below[1:], on, above[:-1], right.copy(), overwrite_b=True)[3]


def by_name(below: Any, on: Any, above: Any, right: Any) -> Any:
    _, _, _, x, info = dgtsv(below[1:], on, above[:-1], right)
    if info != 0:
        raise ValueError("singular")
    return x


def by_kind(below: Any, on: Any, above: Any, right: Any) -> Any:
    gtsv, larfg = get_lapack_funcs(("gtsv", "larfg"), (right,))
    assert larfg(3, 1.0, np.ones(2))[2] > 0
    return gtsv(below[1:], on, above[:-1], right[:, None])[3][:, 0]


def symmetric(below: Any, on: Any, above: Any, right: Any) -> Any:
    return lapack.dptsv(on, below[1:], right)[2] + 0.0 * above


def banded(below: Any, on: Any, above: Any, right: Any) -> Any:
    ab = np.stack([np.zeros(N), np.concatenate([np.zeros(1), above[:-1]]), on, np.concatenate([below[1:], np.zeros(1)])])
    return get_lapack_funcs("gbsv", (ab, right))(1, 1, ab, right)[2]


def positive(below: Any, on: Any, above: Any, right: Any) -> Any:
    ab = np.stack([on, np.concatenate([below[1:], np.zeros(1)])])
    return lapack.dpbsv(ab, right, lower=1)[1] + 0.0 * above


def kinetic_energy(below: Any, on: Any, above: Any, right: Any) -> Any:
    """As the model of the ocean does: one system for all columns of water, whose couplings are written zero."""
    a, b, c, d = (np.stack([x, 1.1 * x]) for x in (below, on, above, right))
    a[..., 0] = c[..., -1] = 0
    found = lapack.dgtsv(a.flatten()[1:], b.flatten(), c.flatten()[:-1], d.flatten())[3]
    return found.reshape(d.shape)[1]


CALLERS = [by_module, by_name, by_kind, symmetric, banded, positive, kinetic_energy]


@pytest.mark.parametrize("f", CALLERS)
def test_solvers_in_every_transformation(f: Any) -> None:
    args = BELOW, ON, ABOVE, RIGHT
    expected = f(*args)
    jitted = fc.jit(f, not_compiled="raise")
    for _ in range(3):
        np.testing.assert_allclose(jitted(*args), expected, rtol=1e-12)
    check_grads(f, args, 2)
    gradient = fc.grad(lambda *x: np.sum(f(*x) ** 3), (0, 1, 2, 3))
    for found, wanted in zip(fc.jit(gradient, not_compiled="raise")(*args), gradient(*args)):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    lanes = [np.stack([x, 1.2 * x]) for x in args]
    expected = np.stack([f(*[x[k] for x in lanes]) for k in range(2)])
    np.testing.assert_allclose(fc.vmap(f)(*lanes), expected, rtol=1e-12)


def test_factors_are_refused_and_singular_matrices_raise() -> None:
    with pytest.raises(TypeError, match=r"dgtsv gave no factors.*\n.*lu, cholesky"):
        fc.grad(lambda d: np.sum(2.0 * lapack.dgtsv(BELOW[1:], d, ABOVE[1:], RIGHT)[1]))(ON)
    with pytest.raises(np.linalg.LinAlgError):
        fc.grad(lambda d: np.sum(lapack.dgtsv(0 * BELOW[1:], 0 * d, 0 * ABOVE[1:], RIGHT)[3]))(ON)


@pytest.mark.parametrize(("low", "up"), [(1, 1), (2, 1), (0, 2), (2, 0), (3, 3)])
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_a_stack_is_solved_at_once_and_its_parts_know_nothing_of_each_other(low: int, up: int, n: int) -> None:
    """Neither corners, which lie outside the matrices, nor a part that is not finite reach the others."""
    ab, b = RNG.normal(size=(5, low + up + 1, n)), RNG.normal(size=(5, n))
    ab[:, up] += 5.0
    clean = ab.copy()
    for r in range(low + up + 1):
        outside = [j for j in range(n) if not 0 <= j + r - up < n]
        ab[:, r, outside], clean[:, r, outside] = np.nan, 0.0
    solve = fc.jit(fc.vmap(lambda ab, b: scipy.linalg.solve_banded((low, up), ab, b, check_finite=False)))
    expected = np.stack([scipy.linalg.solve_banded((low, up), *pair) for pair in zip(clean, b)])
    np.testing.assert_allclose(solve(ab, b), expected, rtol=1e-12)
    ab[1, up] = np.nan
    found = solve(ab, b)
    np.testing.assert_allclose(found[[0, 2, 3, 4]], expected[[0, 2, 3, 4]], rtol=1e-12)
    assert np.isnan(found[1]).any()
