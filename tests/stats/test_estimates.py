"""Maximum likelihood, profile likelihoods and Laplace's approximation, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import scipy.stats

import funcad
from funcad import stats

rng = np.random.default_rng(3)
X = rng.normal(size=(60, 3))
BETA = np.array([1.0, -2.0, 0.5])
Y = X @ BETA + 0.7 * rng.normal(size=60)
COUNTS = np.array([3, 5, 2, 7, 4, 4, 6, 1])


def linear(p):
    return -0.5 * ((Y - X @ p["beta"]) / np.exp(p["log_sigma"])) ** 2 - p["log_sigma"] - 0.5 * np.log(2 * np.pi)


START = {"beta": np.zeros(3), "log_sigma": 0.0}


def test_linear_regression():
    fit = stats.maximum_likelihood(linear, START)
    beta, (residual,), _, _ = np.linalg.lstsq(X, Y, rcond=None)
    variance = residual / len(Y)
    np.testing.assert_allclose(fit.params["beta"], beta, rtol=1e-10)
    np.testing.assert_allclose(fit.params["log_sigma"], 0.5 * np.log(variance), rtol=1e-10)
    np.testing.assert_allclose(fit.covariance[:3, :3], variance * np.linalg.inv(X.T @ X), rtol=1e-8)
    np.testing.assert_allclose(fit.standard_errors["log_sigma"], np.sqrt(0.5 / len(Y)), rtol=1e-8)
    np.testing.assert_allclose(fit.log_likelihood, np.sum(linear(fit.params)), rtol=1e-12)
    assert fit.converged
    low, high = fit.interval(0.9)
    np.testing.assert_allclose((high["beta"] - low["beta"]) / fit.standard_errors["beta"], 2 * 1.6448536269514722)
    assert "beta[2]" in repr(fit) and "log_sigma" in fit._repr_html_()


def test_sandwich_of_a_linear_regression():
    fit = stats.maximum_likelihood(linear, START).robust()
    r = Y - X @ fit.params["beta"]
    bread = np.linalg.inv(X.T @ X)
    np.testing.assert_allclose(fit.covariance[:3, :3], bread @ (X.T * r**2) @ X @ bread, rtol=0.2)  # without log_sigma's part
    scores = np.column_stack([X * r[:, None], r**2 / np.mean(r**2) - 1])
    scores[:, :3] /= np.mean(r**2)
    inverse = np.linalg.inv(fit.information)
    np.testing.assert_allclose(fit.covariance, inverse @ scores.T @ scores @ inverse, rtol=1e-7, atol=1e-12)
    with pytest.raises(TypeError, match="each observation"):
        stats.maximum_likelihood(lambda p: -((p - 3.0) ** 2), 0.0).robust()


def test_poisson_and_the_delta_method():
    fit = stats.maximum_likelihood(lambda z, counts: counts * z - np.exp(z), 0.0, (COUNTS,))
    np.testing.assert_allclose(fit.params, np.log(COUNTS.mean()), rtol=1e-12)
    rate = fit.propagate(np.exp)
    np.testing.assert_allclose(rate.value, COUNTS.mean())
    np.testing.assert_allclose(rate.standard_errors, np.sqrt(COUNTS.mean() / len(COUNTS)), rtol=1e-10)


def test_profile_of_a_mean_is_students():
    """Of normal data the profile likelihood of the mean depends on t alone."""
    data = np.array([1.0, 2.0, 4.0, 5.5, 3.0])
    n = len(data)
    fit = stats.maximum_likelihood(lambda p: -0.5 * ((data - p[0]) / np.exp(p[1])) ** 2 - p[1], np.array([1.0, 0.0]))
    found = stats.profile_likelihood(fit, lambda p: p[0])
    half = data.std() * np.sqrt(np.exp(scipy.stats.chi2.ppf(0.95, 1) / n) - 1)
    np.testing.assert_allclose([found.low, found.value, found.high], data.mean() + half * np.array([-1, 0, 1]), rtol=1e-8)
    np.testing.assert_allclose(found.at_high[0], found.high)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_profile_of_a_proportion(level):
    log_likelihood = lambda p: 7 * np.log(p) + 3 * np.log1p(-p)
    fit = stats.maximum_likelihood(log_likelihood, 0.5)
    found = stats.profile_likelihood(fit, lambda p: p, level)
    drop = 0.5 * scipy.stats.chi2.ppf(level, 1)
    for end in (found.low, found.high):
        np.testing.assert_allclose(log_likelihood(fit.params) - log_likelihood(end), drop, rtol=1e-8)
    assert 0 < found.low < 0.7 < found.high < 1
    odds = stats.profile_likelihood(
        fit, lambda p: p / (1 - p), level
    )  # a monotone function's ends are the function of the ends
    np.testing.assert_allclose([odds.low, odds.high], [e / (1 - e) for e in (found.low, found.high)], rtol=1e-7)


def test_profile_far_from_a_parabola():
    fit = stats.maximum_likelihood(linear, START)
    found = stats.profile_likelihood(fit, lambda p: p["beta"][1] / p["beta"][2], 0.99)
    assert found.low < found.value < found.high < 0 and found.value - found.low > 1.5 * (found.high - found.value)
    for end in (found.at_low, found.at_high):
        np.testing.assert_allclose(fit.log_likelihood - np.sum(linear(end)), 0.5 * scipy.stats.chi2.ppf(0.99, 1), rtol=1e-7)


def test_a_profile_without_end_says_so():
    fit = stats.maximum_likelihood(lambda p: -np.sum(np.tanh(p) ** 2), np.array([0.3]))
    with pytest.raises(RuntimeError, match="end was not found"):
        stats.profile_likelihood(fit, lambda p: p[0], 0.99)
    with pytest.raises(ValueError, match="level"):
        stats.profile_likelihood(fit, lambda p: p[0], 1.0)


def test_what_is_no_maximum_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match=r"-0.71 a \+0.71 b|\+0.71 a -0.71 b"):
        stats.maximum_likelihood(lambda p: -((p["a"] + p["b"] - 1) ** 2), {"a": 0.0, "b": 0.0})
    with pytest.raises(ValueError, match="at the start"):
        stats.maximum_likelihood(lambda p: np.sqrt(p), -1.0)
    with pytest.raises(TypeError, match="real numbers"):
        stats.maximum_likelihood(lambda p: -(abs(p) ** 2), 1j)
    with pytest.warns(RuntimeWarning, match="did not converge"), pytest.raises(np.linalg.LinAlgError):
        stats.maximum_likelihood(lambda p: p**2, 1.0)


def test_laplace_of_a_normal_density_is_exact():
    precision = np.array([[2.0, 0.6], [0.6, 1.0]])
    mean = np.array([1.0, -2.0])
    found = stats.laplace(
        lambda p: -0.5 * (np.stack([p["a"], p["b"]]) - mean) @ precision @ (np.stack([p["a"], p["b"]]) - mean),
        {"a": 0.0, "b": 0.0},
    )
    np.testing.assert_allclose(found.covariance, np.linalg.inv(precision), rtol=1e-10)
    np.testing.assert_allclose(found.log_evidence, np.log(2 * np.pi) - 0.5 * np.log(np.linalg.det(precision)), rtol=1e-10)
    draws = found.sample(funcad.random.key(0), 4000)
    assert draws["a"].shape == (4000,) and abs(draws["a"].mean() - 1) < 0.1 and "a" in repr(found)
    np.testing.assert_allclose(np.cov(draws["a"], draws["b"]), found.covariance, atol=0.1)


def test_laplace_evidence_of_a_beta_integral():
    """In the logit, the approximation of log B(a, b) gets better as a and b grow."""
    errors = []
    for n in (5, 50, 500):
        found = stats.laplace(lambda z, n=n: -n * np.logaddexp(0, -z) - n * np.logaddexp(0, z), 0.1)
        errors.append(abs(found.log_evidence - scipy.special.betaln(n, n)))
    assert errors[0] < 0.1 and errors[2] < errors[1] / 5 < errors[0] / 25
