"""Linear propagation of uncertainties."""

from __future__ import annotations

import numpy as np
import pytest

from funcad import stats
from funcad.errors import TreeMismatchError


def test_a_product_of_powers():
    """Relative errors add in squares, weighted by the exponents."""
    values, errors = {"m": 2.0, "v": np.array([3.0, 5.0])}, {"m": 0.1, "v": np.array([0.2, 0.3])}
    found = stats.propagate(lambda p: p["m"] * p["v"] ** 2, values, errors)
    relative = np.sqrt((0.1 / 2) ** 2 + (2 * errors["v"] / values["v"]) ** 2)
    np.testing.assert_allclose(found.standard_errors / found.value, relative)
    np.testing.assert_allclose(found.covariance[0, 1], 9 * 25 * 0.1**2)  # by the mass they share


@pytest.mark.parametrize("n", [2, 7])  # the Jacobian forward, and in reverse
def test_a_linear_function_is_exact(n):
    rng = np.random.default_rng(0)
    root, A = rng.normal(size=(5, 5)), rng.normal(size=(n, 5))
    found = stats.propagate(lambda x: {"y": A @ x, "first": x[0]}, np.ones(5), root @ root.T)
    whole = np.vstack([np.eye(5)[:1], A])
    np.testing.assert_allclose(found.covariance, whole @ root @ root.T @ whole.T)
    np.testing.assert_allclose(found.standard_errors["y"], np.sqrt(np.diag(found.covariance))[1:])


def test_what_is_no_covariance_is_refused():
    f = lambda x: x
    for errors, error in [
        (np.ones(3), TreeMismatchError),
        (-np.ones(2), ValueError),
        (np.array([np.nan, 1.0]), ValueError),
        (np.array([[1.0, 2.0], [0.0, 1.0]]), ValueError),
        (np.diag([1.0, -1.0]), ValueError),
        ({"a": 1.0}, TreeMismatchError),
    ]:
        with pytest.raises(error, match="propagate"):
            stats.propagate(f, np.ones(2), errors)
    with pytest.raises(TypeError, match="real"):
        stats.propagate(lambda x: x * 1j, np.ones(2), np.ones(2))
