"""funcad.random: JAX's numbers (stored), the laws themselves, derivatives, transforms, placement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import funcad
import funcad.numpy as fnp
from funcad import grad, jit, jvp, random, vmap
from funcad.errors import MissingRuleError, PlacementError
from funcad.primitives.random_bits import TILE, draw
from tests import standin
from tests.vectors.random_calls import CALLS, SEED

KEY = random.key(SEED)
STORED = np.load(Path(__file__).parents[1] / "vectors" / "random_draws.npz")


def assert_like_jax(found: Any, expected: np.ndarray, tolerance: float) -> None:
    found = np.asarray(found)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if not tolerance:
        np.testing.assert_array_equal(found, expected)
        return
    scale = np.maximum(np.abs(expected), 1e-3 * np.abs(expected).max()).astype(float)
    np.testing.assert_array_less(np.abs(found.astype(complex) - expected.astype(complex)) / scale, tolerance)


# -- the numbers


@pytest.mark.parametrize("name", CALLS)
def test_draws_are_those_of_jax(name: str) -> None:
    call, tolerance = CALLS[name]
    expected = STORED[name]
    if name == "categorical-without":
        expected = expected.astype(np.int64)  # JAX's top_k counts in int32
    assert_like_jax(call(random, random.PRNGKey(SEED)), expected, tolerance)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", CALLS)
def test_draws_are_the_same_under_jit(name: str) -> None:
    call, tolerance = CALLS[name]
    expected = call(random, KEY)
    found = jit(lambda key: call(random, key))(KEY)
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(found, expected, rtol=max(4 * np.finfo(expected.dtype).eps, tolerance / 100) if tolerance else 0)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", [n for n in CALLS if not n.startswith("PRNGKey")])
def test_vmap_over_keys_is_a_loop(name: str) -> None:
    call, tolerance = CALLS[name]
    keys = random.split(KEY, 3)
    expected = np.stack([call(random, k) for k in keys])
    found = vmap(lambda key: call(random, key))(keys)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=max(4 * np.finfo(expected.dtype).eps, tolerance / 100) if tolerance else 0)


class OnDevice:
    """funcad.random, its array arguments moved to the device first."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: getattr(random, name)(
            *[standin.to_device(a) for a in args], **{k: standin.to_device(v) for k, v in kwargs.items()}
        )


@pytest.mark.share(3)
@pytest.mark.parametrize("name", [n for n in CALLS if not n.startswith("PRNGKey")])
def test_draws_are_the_same_on_a_device(name: str) -> None:
    call, tolerance = CALLS[name]
    expected = np.asarray(call(random, KEY))
    with standin.registered():
        found = call(OnDevice(), KEY)
        assert type(found) is standin.DeviceArray
    found = found.get()
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(
        found, expected, rtol=2e-3 if found.dtype == np.float16 else 1e-5 if tolerance > 1e-10 else 1e-12
    )


def test_tiles_do_not_show() -> None:
    n = 2 * TILE + 77
    whole = random.normal(KEY, (n,))
    for start in (0, TILE - 3, TILE, n - 5):
        again = _elements(start, 5)
        np.testing.assert_array_equal(whole[start : start + 5], again[: n - start])
    np.testing.assert_array_equal(random.bits(KEY, (n,))[:3], random.bits(KEY, (3,)))
    for lanes, size in ((5, 1), (7, 100), (3, TILE // 8 + 1), (TILE, 3)):
        keys = random.split(KEY, lanes)
        drawn = draw(keys, "normal", np.dtype(float), (size,))
        np.testing.assert_array_equal(drawn[-1], random.normal(keys[-1], (size,)))


def _elements(start: int, count: int) -> np.ndarray:
    """Elements of a draw, from their hashes alone."""
    words = [random.fold_in(KEY, i) for i in range(start, start + count)]
    bits = np.array([int(a) << 32 | int(b) for a, b in words], np.uint64)
    u = ((bits >> np.uint64(12)) | np.uint64(0x3FF0000000000000)).view(float) - 1.0
    from_units = 2 * u + np.nextafter(-1.0, 0.0)
    from funcad.primitives.random_bits import erf_inverse

    return np.sqrt(2.0) * erf_inverse(from_units)


def test_hashes_of_the_paper() -> None:
    """The known answers that come with the reference implementation, of Threefry-2x32 with 20 rounds."""
    from funcad.primitives.random_bits import threefry

    for (a, b), (k0, k1), expected in (
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ):
        for n in (1, 50):
            k = [np.full(n, x, np.uint32) for x in (k0, k1, b)]
            found = threefry(np, *k, a)
            assert all(int(x) == e for got, e in zip(found, expected) for x in got)


# -- keys


@pytest.mark.parametrize("name", ["normal", "uniform", "bits", "split", "exponential", "cauchy"])
def test_a_key_has_shape_two(name: str) -> None:
    with pytest.raises(ValueError, match="vmap"):
        getattr(random, name)(random.split(KEY))
    for wrong in (np.zeros(2), np.zeros(3, np.uint32), np.zeros((), np.uint32)):
        with pytest.raises(TypeError, match="uint32"):
            getattr(random, name)(wrong)


def test_keys_of_seeds() -> None:
    assert random.key(7).dtype == np.uint32
    np.testing.assert_array_equal(jit(random.key)(np.int64(-3)), random.key(-3))
    np.testing.assert_array_equal(jit(random.key)(np.int32(-3)), random.key(np.int32(-3)))
    np.testing.assert_array_equal(vmap(random.key)(np.arange(3)), np.stack([random.key(i) for i in range(3)]))
    np.testing.assert_array_equal(
        vmap(random.fold_in, (None, 0))(KEY, np.arange(3)), [random.fold_in(KEY, i) for i in range(3)]
    )
    with pytest.raises(TypeError, match="integer"):
        random.key(1.5)
    with pytest.raises(TypeError, match="vmap"):
        random.key(np.arange(2))
    with pytest.raises(OverflowError):
        random.key(2**64)
    with pytest.raises(TypeError, match="integer"):
        random.fold_in(KEY, 0.5)
    with pytest.raises(ValueError, match="threefry2x32"):
        random.key(0, impl="rbg")
    assert random.key_impl(KEY) == "threefry2x32"
    assert random.key_dtype() == np.uint32
    for f in (random.clone, random.key_data, random.wrap_key_data):
        np.testing.assert_array_equal(f(KEY), KEY)
        with pytest.raises(TypeError, match="uint32"):
            f(np.zeros(2))


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        random.gamma(KEY, np.ones(3), (2,))
    with pytest.raises(ValueError, match="float"):
        random.normal(KEY, (2,), int)
    with pytest.raises(ValueError, match="unsigned"):
        random.bits(KEY, (2,), int)
    with pytest.raises(TypeError, match="integer"):
        random.randint(KEY, (2,), 0.5, 3)
    with pytest.raises(TypeError, match="float"):
        random.bernoulli(KEY, 1)
    with pytest.raises(ValueError, match="replacement"):
        random.choice(KEY, 3, (4,), replace=False)
    with pytest.raises(ValueError, match="probability"):
        random.choice(KEY, 3, (2,), p=np.ones(4) / 4)
    with pytest.raises(ValueError, match="replacement"):
        random.categorical(KEY, np.zeros(3), shape=(4,), replace=False)
    with pytest.raises(ValueError, match="method"):
        random.multivariate_normal(KEY, np.zeros(2), np.eye(2), method="lu")
    with pytest.raises(ValueError, match="mode"):
        random.gumbel(KEY, (2,), mode="middle")
    with pytest.raises(ValueError, match="mode"):
        random.bernoulli(KEY, 0.5, mode="middle")
    with pytest.raises(TypeError, match="integer"):
        random.permutation(KEY, 1.5)


def test_nothing_to_draw() -> None:
    assert random.normal(KEY, (0, 3)).shape == (0, 3)
    assert random.gamma(KEY, np.ones((0, 2))).shape == (0, 2)
    assert random.poisson(KEY, 20.0, (0,)).shape == (0,)
    assert random.binomial(KEY, 100, 0.5, (0,)).shape == (0,)
    assert random.permutation(KEY, 0).shape == (0,)
    assert random.choice(KEY, 5, (0,)).shape == (0,)
    assert random.split(KEY, 0).shape == (0, 2)
    assert vmap(lambda k: random.normal(k, (2,)))(random.split(KEY, 1)).shape == (1, 2)


# -- the laws: Kolmogorov and Smirnov's test, with a fixed seed

N = 20000
LAWS: dict[str, tuple[Any, Any]] = {
    "uniform": (lambda k: random.uniform(k, (N,), minval=-1.0, maxval=3.0), st.uniform(-1, 4)),
    "normal": (lambda k: random.normal(k, (N,)), st.norm()),
    "normal32": (lambda k: random.normal(k, (N,), np.float32), st.norm()),
    "truncated_normal": (lambda k: random.truncated_normal(k, -1.0, 2.5, (N,)), st.truncnorm(-1, 2.5)),
    "exponential": (lambda k: random.exponential(k, (N,)), st.expon()),
    "gumbel": (lambda k: random.gumbel(k, (N,)), st.gumbel_r()),
    "gumbel-high": (lambda k: random.gumbel(k, (N,), mode="high"), st.gumbel_r()),
    "gumbel-highest": (lambda k: random.gumbel(k, (N,), np.float32, mode="highest"), st.gumbel_r()),
    "laplace": (lambda k: random.laplace(k, (N,)), st.laplace()),
    "logistic": (lambda k: random.logistic(k, (N,)), st.logistic()),
    "cauchy": (lambda k: random.cauchy(k, (N,)), st.cauchy()),
    "pareto": (lambda k: random.pareto(k, 2.5, (N,)), st.pareto(2.5)),
    "weibull_min": (lambda k: random.weibull_min(k, 2.0, 1.5, (N,)), st.weibull_min(1.5, scale=2.0)),
    "rayleigh": (lambda k: random.rayleigh(k, 2.0, (N,)), st.rayleigh(scale=2.0)),
    "triangular": (lambda k: random.triangular(k, 0.0, 1.0, 4.0, (N,)), st.triang(0.25, scale=4.0)),
    "lognormal": (lambda k: random.lognormal(k, 0.7, (N,)), st.lognorm(0.7)),
    "maxwell": (lambda k: random.maxwell(k, (N,)), st.maxwell()),
    "double_sided_maxwell": (lambda k: np.abs(random.double_sided_maxwell(k, 0.0, 1.0, (N,))), st.maxwell()),
    "wald": (lambda k: random.wald(k, 1.5, (N,)), st.invgauss(1.5)),
    "gamma": (lambda k: random.gamma(k, 2.5, (N,)), st.gamma(2.5)),
    "gamma-small": (lambda k: random.gamma(k, 0.3, (N,)), st.gamma(0.3)),
    "loggamma": (lambda k: random.loggamma(k, 0.3, (N,)), st.loggamma(0.3)),
    "beta": (lambda k: random.beta(k, 0.7, 2.0, (N,)), st.beta(0.7, 2.0)),
    "dirichlet": (lambda k: random.dirichlet(k, np.array([1.0, 2.0, 3.0]), (N,))[:, 0], st.beta(1.0, 5.0)),
    "chisquare": (lambda k: random.chisquare(k, 3.0, (N,)), st.chi2(3.0)),
    "f": (lambda k: random.f(k, 3.0, 7.0, (N,)), st.f(3.0, 7.0)),
    "t": (lambda k: random.t(k, 4.0, (N,)), st.t(4.0)),
    "generalized_normal": (lambda k: random.generalized_normal(k, 3.0, (N,)), st.gennorm(3.0)),
    "ball": (lambda k: np.sum(random.ball(k, 3, 2.0, (N,)) ** 2, -1) ** 1.5, st.uniform()),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", LAWS)
def test_continuous_laws(name: str) -> None:
    draws, law = LAWS[name]
    assert st.kstest(draws(random.key(11)), law.cdf).pvalue > 1e-3


COUNTS: dict[str, tuple[Any, Any]] = {
    "randint": (lambda k: random.randint(k, (N,), 2, 9), st.randint(2, 9)),
    "poisson": (lambda k: random.poisson(k, 3.0, (N,)), st.poisson(3.0)),
    "poisson-large": (lambda k: random.poisson(k, 30.0, (N,)), st.poisson(30.0)),
    "binomial": (lambda k: random.binomial(k, 12, 0.3, (N,)), st.binom(12, 0.3)),
    "binomial-large": (lambda k: random.binomial(k, 100, 0.7, (N,)), st.binom(100, 0.7)),
    "geometric": (lambda k: random.geometric(k, 0.2, (N,)), st.geom(0.2)),
    "bernoulli": (lambda k: random.bernoulli(k, 0.2, (N,)), st.bernoulli(0.2)),
    "rademacher": (lambda k: (random.rademacher(k, (N,)) + 1) // 2, st.bernoulli(0.5)),
    "multinomial": (
        lambda k: random.multinomial(k, np.full(N, 10.0), np.tile([0.2, 0.5, 0.3], (N, 1)))[:, 1],
        st.binom(10, 0.5),
    ),
    "categorical": (lambda k: random.categorical(k, np.log([0.7, 0.3]), shape=(N,)), st.bernoulli(0.3)),
    "choice": (lambda k: random.choice(k, 2, (N,), p=np.array([0.6, 0.4])), st.bernoulli(0.4)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_discrete_laws(name: str) -> None:
    draws, law = COUNTS[name]
    drawn = np.asarray(draws(random.key(5)), int)
    low, high = int(law.ppf(0.005)), int(law.ppf(0.995))
    values = np.arange(low, high + 1)
    observed = np.array([np.sum(drawn == v) for v in values])
    expected = law.pmf(values) * N
    rest = N - expected.sum()
    if rest > 5:
        observed, expected = np.append(observed, N - observed.sum()), np.append(expected, rest)
    keep = expected > 5
    assert st.chisquare(observed[keep], expected[keep] * observed[keep].sum() / expected[keep].sum()).pvalue > 1e-3


def test_permutations() -> None:
    x = random.permutation(KEY, 1000)
    np.testing.assert_array_equal(np.sort(x), np.arange(1000))
    assert np.sum(x == np.arange(1000)) < 10
    y = random.permutation(KEY, np.tile(np.arange(5), (200, 1)), axis=1, independent=True)
    assert st.chisquare(np.bincount(y[:, 0])).pvalue > 1e-3
    g = grad(lambda x: (np.arange(4.0) * random.permutation(KEY, x)).sum())(np.zeros(4))
    np.testing.assert_array_equal(np.sort(g), np.arange(4.0))


def test_normal_vectors() -> None:
    mean, cov = np.array([1.0, -1.0]), np.array([[2.0, 0.6], [0.6, 1.0]])
    for method in ("cholesky", "eigh", "svd"):
        x = random.multivariate_normal(KEY, mean, cov, (N,), method=method)
        np.testing.assert_allclose(x.mean(0), mean, atol=0.05)
        np.testing.assert_allclose(np.cov(x.T), cov, atol=0.06)
    q = random.orthogonal(KEY, 5, (3,))
    np.testing.assert_allclose(q @ np.swapaxes(q, 1, 2), np.tile(np.eye(5), (3, 1, 1)), atol=1e-12)


# -- derivatives


def quantile_derivative(law: Any, a: float, x: np.ndarray) -> np.ndarray:
    """dx/da at a fixed value of the distribution function, by differences of the quantile function."""
    q, s, h = law(a).cdf(x), law(a).sf(x), 1e-5 * a
    upper = q > 0.5
    high, low = (np.where(upper, law(a + e).isf(s), law(a + e).ppf(q)) for e in (h, -h))
    return (high - low) / (2 * h)


@pytest.mark.parametrize("a", [0.2, 0.9, 1.0, 3.5, 200.0])
def test_gamma_samples_move_with_their_shape(a: float) -> None:
    draw_gamma = lambda a: random.gamma(KEY, a, (50,))
    x, dx = jvp(draw_gamma, (a,), (1.0,))
    np.testing.assert_allclose(dx, quantile_derivative(st.gamma, a, x), rtol=2e-5, atol=1e-12)
    _, dlog = jvp(lambda a: random.loggamma(KEY, a, (50,)), (a,), (1.0,))
    log_x = random.loggamma(KEY, a, (50,))
    same = np.exp(log_x) > 1e-12
    np.testing.assert_allclose(dlog[same], (quantile_derivative(st.gamma, a, np.exp(log_x)) / np.exp(log_x))[same], rtol=2e-5)


def test_log_gamma_samples_of_tiny_shapes() -> None:
    """x = (u gamma(a + 1)) ** (1 / a) where x is tiny."""
    for a in (1e-4, 0.01, 0.02):
        x, dx = jvp(lambda a: random.loggamma(KEY, a, (40,)), (a,), (1.0,))
        tiny = x < -30
        expected = (funcad.scipy.special.digamma(a + 1) - x) / a
        assert tiny.any() and np.isfinite(dx).all()
        np.testing.assert_allclose(dx[tiny], expected[tiny], rtol=1e-8)


def test_pathwise_gradients_of_expectations() -> None:
    """The mean of the derivatives is the derivative of the mean."""
    n = 40000
    for f, at, expected in (
        (lambda a: random.gamma(KEY, a, (n,)), 1.7, 1.0),
        (lambda a: random.beta(KEY, a, 3.0, (n,)), 2.0, 3 / 25),
        (lambda b: random.beta(KEY, 2.0, b, (n,)), 3.0, -2 / 25),
        (lambda d: random.chisquare(KEY, d, (n,)), 5.0, 1.0),
        (lambda d: random.t(KEY, d, (n,)) ** 2, 12.0, 1 / 10 - 12 / 100),
        (lambda d: random.f(KEY, 3.0, d, (n,)), 12.0, 1 / 10 - 12 / 100),
        (lambda d: random.dirichlet(KEY, np.stack([d, fnp.array(2.0)]), (n,))[:, 0], 2.0, 2 / 16),
        (lambda s: random.lognormal(KEY, s, (n,)), 0.5, 0.5 * np.exp(0.125)),
        (lambda m: random.wald(KEY, m, (n,)), 1.0, None),
        (lambda s: random.rayleigh(KEY, s, (n,)), 2.0, np.sqrt(np.pi / 2)),
        (lambda b: random.uniform(KEY, (n,), None, 0.0, b), 2.0, 0.5),
    ):
        g = grad(lambda x, f=f: f(x).mean())(at)
        assert np.isfinite(g)
        if expected is not None:
            assert abs(g - expected) < 0.03 * max(1.0, abs(expected)), (g, expected)


def test_truncated_normal_moves_with_its_bounds() -> None:
    f = lambda low, high: random.truncated_normal(KEY, low, high, (30,))
    for tangent in ((1.0, 0.0), (0.0, 1.0)):
        _, dx = jvp(f, (-1.0, 2.0), tangent)
        h = 1e-6
        step = [h * t for t in tangent]
        numeric = (f(-1.0 + step[0], 2.0 + step[1]) - f(-1.0 - step[0], 2.0 - step[1])) / (2 * h)
        np.testing.assert_allclose(dx, numeric, rtol=1e-6, atol=1e-8)


def test_counts_have_no_derivative() -> None:
    with pytest.raises(MissingRuleError, match="stop_gradient"):
        grad(lambda p: random.binomial(KEY, 10, p))(0.3)
    assert grad(lambda p: np.where(random.bernoulli(KEY, p, (5,)), 2.0, 1.0).sum() + p)(0.3) == 1.0
    assert grad(lambda m: random.poisson(KEY, m, (5,)).sum() * 1.0 + m)(0.3) == 1.0
    assert grad(lambda x: random.categorical(KEY, x).astype(float) + x[0])(np.zeros(3))[0] == 1.0


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("p", [0.0, 1e-300, np.nan])
@pytest.mark.parametrize("way", [lambda f: f, jit, lambda f: lambda p: vmap(f)(np.array([p]))[0]])
def test_geometric_counts_without_an_end_are_the_largest(way: Any, p: float, dtype: Any) -> None:
    """And 0 for a probability that is NaN, as JAX's."""
    f = way(lambda p: random.geometric(KEY, p, (3,), dtype))
    for _ in range(3):
        np.testing.assert_array_equal(f(p), 0 if np.isnan(p) else np.iinfo(dtype).max)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mean", [1e8, 1e15])
def test_wald_numbers_of_large_means_are_those_of_a_levy_law(mean: float, dtype: Any) -> None:
    f = lambda m: random.wald(KEY, m, (400,), dtype)
    x, dx = jvp(f, (mean,), (1.0,))
    assert (x > 0).all() and np.isfinite(dx).all()
    assert st.kstest(x, st.levy.cdf).pvalue > 1e-3
    jitted = jit(f)
    for found in (jitted(mean), jitted(mean), jitted(mean), vmap(f)(np.array([mean]))[0]):
        np.testing.assert_allclose(found, x, rtol=1e-5)


def test_wald_numbers_of_moderate_means_solve_the_equation_of_their_squares() -> None:
    """mean * y * x = (x - mean)**2, of the normal number whose square is y."""
    for mean in (1e-3, 1.0, 50.0, 1e6):
        x = random.wald(KEY, mean, (100,))
        y = random.normal(random.split(KEY)[0], (100,)) ** 2
        np.testing.assert_allclose((x / mean - 1) ** 2, y * x, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64])
@pytest.mark.parametrize("rate", [1e20, 1e30])
@pytest.mark.parametrize("way", [lambda f: f, jit, lambda f: lambda rate: vmap(f)(np.array([rate]))[0]])
def test_poisson_counts_end_at_the_largest_integer(way: Any, rate: float, dtype: Any) -> None:
    """As JAX's."""
    f = way(lambda rate: random.poisson(KEY, rate, (3,), dtype))
    for _ in range(3):
        np.testing.assert_array_equal(f(rate), np.iinfo(dtype).max)


# -- keys through the transforms


def test_keys_are_leaves_without_derivative() -> None:
    f = lambda args: (random.normal(args["key"], (3,)) * args["x"]).sum()
    g = grad(f, allow_int=True)({"key": KEY, "x": np.ones(3)})
    np.testing.assert_array_equal(g["x"], random.normal(KEY, (3,)))
    assert g["key"].dtype == funcad.float0
    value, tangent = jvp(lambda k, x: random.normal(k) * x, (KEY, 2.0), (np.zeros(2, funcad.float0), 1.0))
    assert tangent == random.normal(KEY) and value == 2 * tangent
    hessian = funcad.hessian(lambda x: (random.uniform(KEY, (2,)) * x**2).sum())(np.ones(2))
    np.testing.assert_allclose(hessian, np.diag(2 * random.uniform(KEY, (2,))))


def test_keys_are_data_of_scan_and_cond() -> None:
    def step(key: Any, x: Any) -> Any:
        key, sub = random.split(key)
        return key, x * random.normal(sub)

    last, ys = funcad.scan(step, KEY, np.ones(4))
    key, expected = KEY, []
    for _ in range(4):
        key, sub = random.split(key)
        expected.append(random.normal(sub))
    np.testing.assert_array_equal(ys, expected)
    np.testing.assert_array_equal(last, key)
    g = grad(lambda x: funcad.scan(step, KEY, x)[1].sum())(np.ones(4))
    np.testing.assert_array_equal(g, expected)
    choose = jit(lambda p, key: funcad.cond(p, lambda k: random.normal(k), lambda k: random.uniform(k), key))
    assert choose(True, KEY) == random.normal(KEY) and choose(False, KEY) == random.uniform(KEY)
    loop = funcad.fori_loop(0, 3, lambda i, key: random.fold_in(key, i), KEY)
    np.testing.assert_array_equal(loop, random.fold_in(random.fold_in(random.fold_in(KEY, 0), 1), 2))


def test_draws_under_jit_are_drawn_at_every_call() -> None:
    f = jit(lambda key: random.normal(key, (3,)))
    keys = random.split(KEY)
    assert not np.array_equal(f(keys[0]), f(keys[1]))
    np.testing.assert_array_equal(f(keys[1]), random.normal(keys[1], (3,)))
    p = np.array([0.1, 0.9])
    g = jit(lambda key: random.bernoulli(key, p, (50, 2)).mean(0))
    first = g(KEY)
    p[:] = [0.9, 0.1]  # read by reference, as every captured array
    assert first[0] < 0.5 < g(KEY)[0]


def test_vmap_over_parameters() -> None:
    a = np.array([0.5, 2.0, 9.0])
    found = vmap(lambda a: random.gamma(KEY, a, (4,)))(a)
    np.testing.assert_allclose(found, [random.gamma(KEY, x, (4,)) for x in a], rtol=1e-14)
    g = vmap(grad(lambda a: random.gamma(KEY, a)))(a)
    np.testing.assert_allclose(g, [grad(lambda a: random.gamma(KEY, a))(x) for x in a], rtol=1e-12)
    keys = random.split(KEY, 3)
    both = vmap(lambda k, m: random.poisson(k, m, (6,)))(keys, np.array([1.0, 12.0, 300.0]))
    np.testing.assert_array_equal(both, [random.poisson(k, m, (6,)) for k, m in zip(keys, (1.0, 12.0, 300.0))])


# -- placement


def test_a_key_on_the_device_draws_there() -> None:
    with standin.registered():
        key = standin.to_device(KEY)
        for f in (random.split, random.normal, lambda k: random.gamma(k, 2.0, (3,)), lambda k: random.poisson(k, 20.0, (3,))):
            assert type(f(key)) is standin.DeviceArray
        shape_parameter = standin.to_device(np.array([0.5, 3.0]))
        found = random.gamma(key, shape_parameter)
        np.testing.assert_allclose(standin.to_host(found), random.gamma(KEY, np.array([0.5, 3.0])), rtol=1e-12)
        x = standin.to_device(np.arange(5.0))
        np.testing.assert_array_equal(standin.to_host(random.permutation(key, x)), random.permutation(KEY, np.arange(5.0)))
        with pytest.raises(PlacementError):
            random.gamma(key, np.array([0.5, 3.0]))
