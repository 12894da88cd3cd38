"""Programs as scientists write them, in plain NumPy where NumPy has the function: differentiated, batched and compiled."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import funcad
import funcad.numpy as fnp
from funcad import grad, hessian, hvp, jit, random, value_and_grad, vmap
from funcad.scipy import integrate, linalg, optimize, special, stats
from funcad.testing import check_grads

pytestmark = pytest.mark.share(4)  # of its tables of cases

RNG = np.random.default_rng(7)
TIMES = np.linspace(0.0, 3.0, 12)
SIGNAL = np.sin(2.0 * TIMES) + 0.1 * RNG.normal(size=12)


def gaussian_process(log_parameters):
    """Negative log marginal likelihood of a Gaussian process with a squared exponential kernel."""
    scale, length, noise = np.exp(log_parameters)
    kernel = scale * np.exp(-0.5 * ((TIMES[:, None] - TIMES[None, :]) / length) ** 2) + noise * np.eye(12)
    factor = np.linalg.cholesky(kernel)
    weights = np.linalg.solve(factor.T, np.linalg.solve(factor, SIGNAL))
    return 0.5 * SIGNAL @ weights + np.sum(np.log(np.diag(factor))) + 6.0 * np.log(2 * np.pi)


def kalman_filter(parameters):
    """Log likelihood of a damped oscillator seen through noise: a Python loop over small matrices."""
    decay, frequency, noise = parameters
    c, s = np.cos(frequency), np.sin(frequency)
    transition = decay * np.stack([np.stack([c, -s]), np.stack([s, c])])
    observe = np.array([[1.0, 0.0]])
    mean, covariance, total = np.zeros(2), np.eye(2), 0.0
    for y in SIGNAL:
        mean, covariance = transition @ mean, transition @ covariance @ transition.T + 0.05 * np.eye(2)
        spread = observe @ covariance @ observe.T + noise**2 * np.eye(1)
        gain = covariance @ observe.T @ np.linalg.inv(spread)
        error = y - observe @ mean
        total = total - 0.5 * (np.linalg.slogdet(spread)[1] + error @ np.linalg.solve(spread, error))
        mean, covariance = mean + gain @ error, covariance - gain @ observe @ covariance
    return total


def principal_components(data):
    """How much of the variance the first component explains."""
    values = np.linalg.svd(data - data.mean(axis=0), compute_uv=False) ** 2
    return values[0] / values.sum()


def band_power(x):
    """The power between two frequencies, of a windowed signal."""
    spectrum = np.fft.rfft(x * np.hanning(len(x)))
    return np.sum(np.abs(spectrum[2:5]) ** 2) / np.sum(np.abs(spectrum) ** 2)


def counts_model(weights):
    """Negative log likelihood of negative binomial counts."""
    design, counts = np.stack([np.ones(12), TIMES], axis=1), np.arange(12) % 5
    rate, r = np.exp(design @ weights[:2]), np.exp(weights[2])
    choose = scipy.special.gammaln(counts + r) - scipy.special.gammaln(r) - scipy.special.gammaln(counts + 1.0)
    return -np.sum(choose + r * np.log(r / (r + rate)) + counts * np.log(rate / (r + rate)))


def robust_regression(parameters):
    """Student's t: location, scale and degrees of freedom together."""
    return -np.sum(
        stats.t.logpdf(SIGNAL, 2.0 + np.exp(parameters[0]), parameters[1] * np.sin(2.0 * TIMES), np.exp(parameters[2]))
    )


def pendulum(parameters):
    """The squared distance of a damped pendulum from the signal."""
    length, friction = parameters
    path = integrate.odeint(
        lambda y, t: np.stack([y[1], -9.81 / length * np.sin(y[0]) - friction * y[1]]), np.array([0.3, 0.0]), TIMES
    )
    return np.sum((path[:, 0] - SIGNAL) ** 2)


def matrix_flow(generator):
    """A Markov chain in continuous time: the probability of the states after a while."""
    rates = np.abs(generator) * (1.0 - np.eye(3))
    rates = rates - np.diag(rates.sum(axis=1))
    return np.log(linalg.expm(0.7 * rates)[0, 2])


def calibrated_curve(points):
    """A fitted polynomial's slope where it crosses a level, by implicit differentiation of the root."""
    coefficients = np.polyfit(np.linspace(-1.0, 1.0, 7), points, 3)
    crossing = optimize.root(lambda x, c: np.polyval(c, x) - 0.1, np.zeros(1), args=(coefficients,)).x[0]
    return crossing * np.polyval(np.polyder(coefficients), crossing)


def mixture(parameters):
    means, spreads, weights = parameters[:3], np.exp(parameters[3:6]), parameters[6:]
    each = stats.norm.logpdf(SIGNAL[:, None], means, spreads) + weights - special.logsumexp(weights)
    return -np.sum(special.logsumexp(each, axis=1))


PROGRAMS = [
    (gaussian_process, np.array([0.1, -0.3, -2.0])),
    (kalman_filter, np.array([0.95, 0.5, 0.3])),
    (principal_components, RNG.normal(size=(6, 3))),
    (band_power, SIGNAL),
    (counts_model, np.array([0.2, 0.1, 0.4])),
    (robust_regression, np.array([0.5, 0.9, -1.0])),
    (pendulum, np.array([1.3, 0.4])),
    (matrix_flow, RNG.normal(size=(3, 3))),
    (calibrated_curve, np.linspace(-1.0, 1.0, 7) + 0.1 * RNG.normal(size=7)),
    (mixture, RNG.normal(size=9)),
]
programs = pytest.mark.parametrize("f, x", PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])


@programs
def test_gradient(f, x):
    order = 1 if f in (pendulum, calibrated_curve) else 2
    check_grads(f, (x,), order=order, rtol=3e-5, atol=3e-5)


@programs
def test_compiled(f, x):
    value, slope = value_and_grad(f)(x)
    for compiled in (jit(value_and_grad(f)), value_and_grad(jit(f))):
        for _ in range(2):
            np.testing.assert_allclose(compiled(x)[0], value, rtol=1e-9)
            np.testing.assert_allclose(compiled(x)[1], slope, rtol=1e-6, atol=1e-9)


@programs
def test_batched(f, x):
    xs = np.stack([x, 1.02 * x, 0.98 * x])
    np.testing.assert_allclose(vmap(f)(xs), [f(x) for x in xs], rtol=1e-8)
    np.testing.assert_allclose(vmap(grad(f))(xs), np.stack([grad(f)(x) for x in xs]), rtol=1e-5, atol=1e-7)


@programs
def test_hessian_vector_product(f, x):
    v = np.cos(np.arange(x.size)).reshape(x.shape)
    step = 1e-5
    expected = (grad(f)(x + step * v) - grad(f)(x - step * v)) / (2 * step)
    np.testing.assert_allclose(hvp(f, (x,), (v,)), expected, rtol=2e-3, atol=1e-4)


def test_newtons_method_on_a_likelihood():
    x = np.array([0.2, 0.1, 0.4])
    for _ in range(12):
        x = x - np.linalg.solve(hessian(counts_model)(x) + 1e-3 * np.eye(3), grad(counts_model)(x))
    assert np.linalg.norm(grad(counts_model)(x)) < 1e-6


def test_a_hyperparameter_through_the_solution_of_an_inner_problem():
    """Ridge regression fitted by SciPy, and the derivative of the validation error in its penalty."""
    design, target = np.stack([np.ones(12), TIMES, TIMES**2], axis=1), SIGNAL

    def inner(w, log_penalty):
        return np.sum((design[::2] @ w - target[::2]) ** 2) + np.exp(log_penalty) * np.sum(w**2)

    def outer(log_penalty):
        w = optimize.minimize(inner, np.zeros(3), args=(log_penalty,), method="BFGS").x
        return np.sum((design[1::2] @ w - target[1::2]) ** 2)

    def closed_form(log_penalty):
        a = design[::2].T @ design[::2] + np.exp(log_penalty) * np.eye(3)
        return np.sum((design[1::2] @ np.linalg.solve(a, design[::2].T @ target[::2]) - target[1::2]) ** 2)

    np.testing.assert_allclose(grad(outer)(0.3), grad(closed_form)(0.3), rtol=1e-4)


def test_a_reparameterised_expectation():
    """The derivative of E[x] = a b of a gamma variable in both parameters, through the samples."""
    key = random.key(3)
    mean = lambda a, b: np.mean(random.gamma(key, a, (20_000,)) * b)
    found = grad(mean, argnums=(0, 1))(2.5, 1.5)
    np.testing.assert_allclose(found, [1.5, 2.5], rtol=0.05)
    compiled = jit(grad(lambda key, a: np.mean(random.gamma(key, a, (200,))), argnums=1))
    np.testing.assert_allclose(compiled(key, 2.5), grad(lambda a: np.mean(random.gamma(key, a, (200,))))(2.5), rtol=1e-9)


def test_stochastic_gradient_descent_inside_a_scan():
    """Keys travel through scan as data; the whole training run is one program, and is differentiated in its step size."""
    design = np.stack([np.ones(12), TIMES], axis=1)

    def train(rate):
        def step(state, _):
            w, key = state
            key, draw = random.split(key)
            rows = random.choice(draw, 12, (4,))
            loss = lambda w: np.mean((fnp.take(design, rows, axis=0) @ w - fnp.take(SIGNAL, rows)) ** 2)
            return (w - rate * grad(loss)(w), key), None

        (w, _), _ = funcad.scan(step, (np.zeros(2), random.key(0)), None, length=20)
        return np.sum((design @ w - SIGNAL) ** 2)

    assert train(0.05) < train(0.0)
    step = 1e-6
    np.testing.assert_allclose(grad(train)(0.05), (train(0.05 + step) - train(0.05 - step)) / (2 * step), rtol=1e-5)
    np.testing.assert_allclose(jit(grad(train))(0.05), grad(train)(0.05), rtol=1e-10)
