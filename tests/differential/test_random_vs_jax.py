"""funcad.random and its initializers beside JAX's, with other seeds than the stored ones, and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from funcad import grad, jvp, nn, random, vmap
from tests.random.test_random import assert_like_jax
from tests.vectors.random_calls import CALLS, INITIALIZERS

jax = pytest.importorskip("jax")

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def partitionable() -> Any:
    before = jax.config.jax_threefry_partitionable
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_threefry_partitionable", True)
    yield
    jax.config.update("jax_threefry_partitionable", before)


ILL_CONDITIONED = 50  # how much further than with the stored seed rounding may go


@pytest.mark.parametrize("seed", [2**33 + 7])
@pytest.mark.parametrize("name", CALLS)
def test_draws(name: str, seed: int) -> None:
    call, tolerance = CALLS[name]
    expected = np.asarray(call(jax.random, jax.random.PRNGKey(seed)))
    if name == "categorical-without":
        expected = expected.astype(np.int64)
    found = call(random, random.PRNGKey(seed))
    if name.endswith("float16") and tolerance:
        tolerance *= 4
    elif tolerance:
        tolerance *= ILL_CONDITIONED
    assert_like_jax(found, expected, tolerance)


@pytest.mark.parametrize("name", INITIALIZERS)
def test_initializers(name: str) -> None:
    call, tolerance = INITIALIZERS[name]
    expected = np.asarray(call(jax.nn.initializers, jax.random.PRNGKey(5)))
    assert_like_jax(call(nn.initializers, random.PRNGKey(5)), expected, tolerance * ILL_CONDITIONED)


def test_bits_in_bulk() -> None:
    for shape in ((100_003,), (7, 40_000)):
        for dtype in ("uint8", "uint32", "uint64"):
            np.testing.assert_array_equal(
                random.bits(random.key(9), shape, dtype), jax.random.bits(jax.random.PRNGKey(9), shape, np.dtype(dtype))
            )
    keys = random.split(random.key(9), 33)
    expected = jax.vmap(lambda k: jax.random.uniform(k, (50,)))(jax.random.split(jax.random.PRNGKey(9), 33))
    np.testing.assert_array_equal(vmap(lambda k: random.uniform(k, (50,)))(keys), expected)


def test_normal_numbers_in_bulk() -> None:
    found, expected = random.normal(random.key(4), (500_000,)), np.asarray(jax.random.normal(jax.random.PRNGKey(4), (500_000,)))
    ulps = np.abs(found - expected) / np.spacing(np.abs(expected))
    assert np.mean(ulps == 0) > 0.8 and np.mean(ulps > 2) < 0.05 and ulps.max() < 100


def test_counts_in_bulk() -> None:
    for call in (
        lambda r, k: r.poisson(k, np.array([3.0, 14.0, 700.0]), (30_000, 3)),
        lambda r, k: r.binomial(k, 90, np.array([0.05, 0.3, 0.8]), (10_000, 3)),
        lambda r, k: r.permutation(k, 40_000),
    ):
        found, expected = call(random, random.key(6)), np.asarray(call(jax.random, jax.random.PRNGKey(6)))
        assert np.mean(found == expected) > 0.9999


A = np.array([0.05, 0.7, 1.0, 3.0, 25.0])
DERIVATIVES = {
    "gamma": lambda r, k, a: r.gamma(k, a),
    "loggamma": lambda r, k, a: r.loggamma(k, a),
    "beta": lambda r, k, a: r.beta(k, a, 2.0 + a),
    "dirichlet": lambda r, k, a: r.dirichlet(k, a + 0.5),
    "chisquare": lambda r, k, a: r.chisquare(k, a),
    "t": lambda r, k, a: r.t(k, a),
    "f": lambda r, k, a: r.f(k, a, 3.0 + a),
    "pareto": lambda r, k, a: r.pareto(k, a + 1.0),
    "rayleigh": lambda r, k, a: r.rayleigh(k, a),
    "wald": lambda r, k, a: r.wald(k, a),
    "triangular": lambda r, k, a: r.triangular(k, -a, a, 2 * a),
    "lognormal": lambda r, k, a: r.lognormal(k, a / 10),
    "truncated_normal": lambda r, k, a: r.truncated_normal(k, -a, a / 2),
    "uniform": lambda r, k, a: r.uniform(k, a.shape, None, -a, a),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name: str) -> None:
    call = DERIVATIVES[name]
    t = np.linspace(1.0, 2.0, 5)
    found = jvp(lambda a: call(random, random.key(8), a), (A,), (t,))[1]
    expected = jax.jvp(lambda a: call(jax.random, jax.random.PRNGKey(8), a), (A,), (t,))[1]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-10)
    g = grad(lambda a: (call(random, random.key(8), a) * t).sum())(A)
    h = jax.grad(lambda a: (call(jax.random, jax.random.PRNGKey(8), a) * t).sum())(A)
    np.testing.assert_allclose(g, h, rtol=1e-6, atol=1e-10)
