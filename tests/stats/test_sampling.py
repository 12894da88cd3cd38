"""NUTS and HMC on distributions that are known; tolerances are six standard errors of what the draws are worth, and more."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from funcad import random, stats
from funcad.stats.sampling import StepSizes, _level, inverse_mass_of, windows

X = np.random.default_rng(5).normal(size=(40, 3))
Y = X @ np.array([1.0, -2.0, 0.5]) + np.random.default_rng(6).normal(size=40)
METHODS = {"nuts": {}, "nuts, dense": {"dense": True}, "hmc": {"method": "hmc", "length": 12}}


@pytest.mark.share(4)
@pytest.mark.parametrize("options", METHODS.values(), ids=METHODS)
def test_a_linear_regression_with_known_noise(options):
    """Its posterior is normal."""
    log_density = lambda p: -0.5 * np.sum((Y - X @ p["beta"]) ** 2) - 0.5 * np.sum(p["beta"] ** 2) / 4
    found = stats.sample(log_density, {"beta": np.zeros(3)}, random.key(1), warmup=400, **options)
    covariance = np.linalg.inv(X.T @ X + np.eye(3) / 4)
    draws = found.draws["beta"]
    assert draws.shape == (4, 1000, 3)
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(draws.mean((0, 1)), covariance @ X.T @ Y, atol=0.2 * sd.max())
    np.testing.assert_allclose(np.cov(draws.reshape(-1, 3).T), covariance, atol=0.2 * sd.max() ** 2)
    np.testing.assert_allclose(draws.mean(1), np.tile(covariance @ X.T @ Y, (4, 1)), atol=0.5 * sd.max())  # each chain


def test_a_rate_whose_posterior_is_a_gamma_distribution():
    counts = np.array([3, 5, 2, 7, 4])
    found = stats.sample(
        lambda z: np.sum(counts * z - np.exp(z)) + 2 * z - np.exp(z), 0.0, random.key(2), warmup=400, draws=2000
    )
    rate = np.exp(found.draws)  # of Gamma(2, 1), to Gamma(2 + sum, 1 + n)
    assert abs(rate.mean() - 23 / 6) < 0.1 and abs(rate.std() - np.sqrt(23) / 6) < 0.1


@pytest.mark.slow
def test_a_proportion_whose_posterior_is_a_beta_distribution():
    found = stats.sample(
        lambda z, k, n: -(k + 1) * np.logaddexp(0, -z) - (n - k + 1) * np.logaddexp(0, z),
        0.0,
        random.key(3),
        (np.array(7), np.array(10)),
        warmup=400,
        draws=2000,
    )
    p = 1 / (1 + np.exp(-found.draws))
    assert abs(p.mean() - 8 / 12) < 0.02 and abs(p.std() - np.sqrt(8 * 4 / (144 * 13))) < 0.02


@pytest.mark.slow
def test_correlated_numbers_of_different_sizes():
    scales = np.array([0.01, 1.0, 100.0])
    precision = np.linalg.inv(np.array([[1, 0.9, 0.0], [0.9, 1, 0.0], [0.0, 0.0, 1]]))
    density = lambda x: -0.5 * (x / scales) @ precision @ (x / scales)
    found = stats.sample(density, np.zeros(3), random.key(4), dense=True, spread=0.1)
    draws = (found.draws / scales).reshape(-1, 3)
    np.testing.assert_allclose(np.cov(draws.T), np.linalg.inv(precision), atol=0.2)
    assert found.inverse_mass.shape == (4, 3, 3) and found.statistics["n_steps"].mean() < 20
    np.testing.assert_allclose(found.statistics["acceptance_rate"].mean(), 0.85, atol=0.13)


@pytest.mark.slow
def test_the_same_key_gives_the_same_draws():
    run = lambda key: stats.sample(lambda x: -0.5 * np.sum(x**2), np.zeros(2), key, draws=20, warmup=60).draws
    np.testing.assert_array_equal(run(random.key(0)), run(random.key(0)))
    assert not np.array_equal(run(random.key(0)), run(random.key(1)))


def test_statistics_are_of_the_draws():
    found = stats.sample(lambda x: -0.5 * np.sum(x**2), np.zeros(2), random.key(7), draws=30, warmup=100)
    np.testing.assert_allclose(found.statistics["lp"], -0.5 * np.sum(found.draws**2, axis=-1))
    assert np.all(found.statistics["n_steps"] >= 1) and found.statistics["diverging"].dtype == bool
    assert np.all(found.statistics["acceptance_rate"] <= 1) and {f"x[{i}]" in repr(found) for i in range(2)} == {True}


@pytest.mark.slow
def test_a_narrow_place_diverges_and_says_so():
    density = lambda p: -0.5 * (p["v"] / 3) ** 2 - 0.5 * np.sum(p["x"] ** 2) * np.exp(-p["v"]) - 4.5 * p["v"]
    with pytest.warns(RuntimeWarning, match="trajectories diverged"):
        found = stats.sample(density, {"v": 0.0, "x": np.zeros(9)}, random.key(2), warmup=300)
    assert "divergent" in repr(found) and found.statistics["diverging"].any()


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "options",
    [{"warmup": 0, "chains": 1}, {"warmup": 3}, {"warmup": 40}, {"deepest": 1, "warmup": 50}, {"method": "hmc", "length": 1}],
)
def test_short_runs(options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of divergences: they have learned too little
        found = stats.sample(lambda x: -0.5 * np.sum(x**2), np.zeros(2), random.key(0), draws=3, **{"warmup": 20, **options})
    assert found.draws.shape[1:] == (3, 2) and np.all(np.isfinite(found.draws))


def test_what_cannot_be_sampled_is_refused():
    f = lambda x: -0.5 * np.sum(x**2)
    key = random.key(0)
    for call, error in [
        (lambda: stats.sample(lambda x: np.log(x), -5.0, key), ValueError),
        (lambda: stats.sample(f, 1j, key), TypeError),
        (lambda: stats.sample(f, 0.0, key, draws=0), ValueError),
        (lambda: stats.sample(f, 0.0, key, chains=1.5), ValueError),
        (lambda: stats.sample(f, 0.0, key, method="gibbs"), ValueError),
        (lambda: stats.sample(f, 0.0, key, acceptance=1.0), ValueError),
        (lambda: stats.sample(f, 0.0, 3), TypeError),
        (lambda: stats.sample(f, [], key), TypeError),
    ]:
        with pytest.raises(error), np.errstate(all="ignore"):
            call()


def test_arviz_takes_the_draws():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("arviz")
        found = stats.sample(lambda p: -0.5 * np.sum(p["w"] ** 2), {"w": np.zeros(2)}, random.key(0), draws=200, warmup=200)
        summary = found.summary()["w"]
    assert np.all(abs(summary["r_hat"] - 1) < 0.1) and np.all(summary["ess"] > 50)


def test_a_leaf_ends_the_subtrees_that_its_trailing_ones_say():
    for leaf in range(64):
        level, ended = map(int, _level(np.asarray(leaf), 6))
        bits = bin(leaf)[2:]
        assert ended == len(bits) - len(bits.rstrip("1")) and level == bin(leaf >> 1).count("1")


def test_windows_cover_the_middle_of_the_warm_up():
    for warmup in range(0, 3000, 7):
        begin, ends = windows(warmup)
        last = warmup - max(10, round(0.05 * warmup))  # step sizes begin anew behind it
        assert ends == sorted(set(ends)) and (not ends or begin < ends[0] and ends[-1] == last)
    assert windows(1000) == (75, [100, 150, 250, 450, 950]) and windows(30) == (30, []) and windows(50) == (4, [40])


@pytest.mark.parametrize("warmup", [20, 30, 50])
def test_a_short_warm_up_leaves_step_sizes_that_fit(warmup):
    """With three steps behind the last window, nine hundred of two thousand trajectories diverged."""
    found = stats.sample(lambda x: -0.5 * x**2, 0.0, random.key(3), draws=100, warmup=warmup)
    assert found.statistics["diverging"].sum() < 20 and np.all(found.step_size < 2.5)


def test_step_sizes_are_led_to_the_acceptance_that_is_wanted():
    steps = StepSizes(np.array([0.01, 10.0]), 0.8)
    for _ in range(400):
        steps.learn(np.exp(-steps.sizes))  # an acceptance of .8 at -log(.8)
    np.testing.assert_allclose(steps.settled(), -np.log(0.8), rtol=0.1)


def test_masses_are_covariances():
    draws = np.random.default_rng(0).normal(size=(5000, 2, 3)) * np.array([0.5, 1.0, 2.0])
    np.testing.assert_allclose(inverse_mass_of(draws, False), np.tile([0.25, 1.0, 4.0], (2, 1)), rtol=0.1)
    np.testing.assert_allclose(inverse_mass_of(draws, True)[1], np.diag([0.25, 1.0, 4.0]), atol=0.2)
