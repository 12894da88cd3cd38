"""Formulas and methods: long formulas, options, Newton, least squares, Fourier, small solves, contractions, Python loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.jitted.program import Library, Program, draws


def state_equation(lib: Library) -> Callable[..., Any]:
    """A long formula of temperature, pressure and composition, element by element, and its sum."""
    np = lib.np

    def total(t: Any, p: Any, s: Any) -> Any:
        density = 999.842594 + t * (6.793952e-2 + t * (-9.095290e-3 + t * (1.001685e-4 + t * (-1.120083e-6 + t * 6.536332e-9))))
        density = density + s * (0.824493 + t * (-4.0899e-3 + t * (7.6438e-5 + t * (-8.2467e-7 + t * 5.3875e-9))))
        root = np.sqrt(s)
        density = density + s * root * (-5.72466e-3 + t * (1.0227e-4 - t * 1.6546e-6)) + 4.8314e-4 * s * s
        bulk = 19652.21 + t * (148.4206 + t * (-2.327105 + t * (1.360477e-2 - t * 5.155288e-5)))
        bulk = bulk + s * (54.6746 + t * (-0.603459 + t * (1.09987e-2 - t * 6.1670e-5)))
        bulk = bulk + s * root * (7.944e-2 + t * (1.6483e-2 - t * 5.3009e-4))
        bulk = bulk + p * (3.239908 + t * (1.43713e-3 + t * (1.16092e-4 - t * 5.77905e-7)))
        bulk = bulk + p * s * (2.2838e-3 + t * (-1.0981e-5 - t * 1.6078e-6)) + p * s * root * 1.91075e-4
        bulk = bulk + p * p * (8.50935e-5 + t * (-6.12293e-6 + t * 5.2787e-8))
        return np.sum(density / (1.0 - p / bulk))

    return total


def state_equation_data(dtype: Any) -> tuple:
    random = numpy.random.default_rng(31)
    return tuple(random.uniform(low, high, 100_000).astype(dtype) for low, high in ((0.0, 30.0), (0.0, 500.0), (30.0, 40.0)))


def options(lib: Library) -> Callable[..., Any]:
    """Black and Scholes: prices by erf; the gradient holds every option's delta."""
    np, erf = lib.np, lib.special.erf

    def total(spot: Any, strike: Any, time: Any, rate: Any, deviation: Any) -> Any:
        root = deviation * np.sqrt(time)
        d = (np.log(spot / strike) + (rate + 0.5 * deviation * deviation) * time) / root
        normal = lambda x: 0.5 * (1.0 + erf(x * 0.7071067811865476))
        return np.sum(spot * normal(d) - strike * np.exp(-rate * time) * normal(d - root))

    return total


def options_data(dtype: Any) -> tuple:
    random = numpy.random.default_rng(32)
    draw = lambda low, high: random.uniform(low, high, 100_000).astype(dtype)
    return draw(50.0, 150.0), draw(50.0, 150.0), draw(0.1, 2.0), dtype(0.02), draw(0.1, 0.5)


def paths(lib: Library) -> Callable[..., Any]:
    """An Asian option by Monte Carlo with given draws; the gradient holds the Greeks."""
    np = lib.np

    def price(params: Any, normals: Any) -> Any:
        spot, rate, deviation = params[0], params[1], params[2]
        steps = 0.02 * (rate - 0.5 * deviation * deviation) + 0.1414213562 * deviation * normals
        means = np.mean(spot * np.exp(np.cumsum(steps, axis=1)), axis=1)
        return np.exp(-rate) * np.mean(np.maximum(means - 100.0, 0.0))

    return price


def paths_data(dtype: Any) -> tuple:
    return numpy.array([100.0, 0.03, 0.2], dtype), draws(33, dtype)(5000, 50)


def newton(lib: Library) -> Callable[..., Any]:
    """Five steps of Newton's method with the Hessian of a logistic regression."""
    np = lib.np

    def minimum(w: Any, x: Any, y: Any) -> Any:
        loss = lambda w: np.sum(np.logaddexp(0.0, -y * (x @ w))) + 0.5 * np.sum(w * w)
        for _ in range(5):
            w = w - np.linalg.solve(lib.transforms.hessian(loss)(w), lib.transforms.grad(loss)(w))
        return w

    return minimum


def newton_data(dtype: Any) -> tuple:
    draw = draws(34, dtype)
    return numpy.zeros(8, dtype), draw(300, 8), numpy.sign(draw(300))


def least_squares(lib: Library) -> Callable[..., Any]:
    """Levenberg and Marquardt: ten steps with the Jacobian of a sum of exponentials."""
    np = lib.np

    def fit(p: Any, t: Any, y: Any) -> Any:
        residual = lambda p: p[0] * np.exp(-p[1] * t) + p[2] * np.exp(-p[3] * t) + p[4] - y

        def step(_: Any, p: Any) -> Any:
            j, r = lib.transforms.jacfwd(residual)(p), residual(p)
            normal = j.T @ j
            return p - np.linalg.solve(normal + 0.01 * np.diag(np.diagonal(normal)), j.T @ r)

        return lib.lax.fori_loop(0, 10, step, p)

    return fit


def least_squares_data(dtype: Any) -> tuple:
    t = numpy.linspace(0.0, 5.0, 200).astype(dtype)
    y = 2.0 * numpy.exp(-0.5 * t) + numpy.exp(-3.0 * t) + 0.1 + draws(35, dtype)(200, scale=0.01)
    return numpy.array([1.5, 0.4, 0.8, 2.5, 0.0], dtype), t, y.astype(dtype)


def components(lib: Library) -> Callable[..., Any]:
    """PCA: the variance that three components explain."""
    np = lib.np

    def explained(x: Any) -> Any:
        away = x - np.mean(x, axis=0)
        values = np.linalg.eigh(away.T @ away / x.shape[0])[0]
        return np.sum(values[-3:]) / np.sum(values)

    return explained


def fourier(lib: Library) -> Callable[..., Any]:
    """A convolution by FFT, and its squared distance from a signal."""
    np = lib.np

    def distance(kernel: Any, x: Any, y: Any) -> Any:
        n = x.shape[0] + kernel.shape[0] - 1
        z = np.fft.irfft(np.fft.rfft(x, n) * np.fft.rfft(kernel, n), n)[: x.shape[0]]
        return np.mean((z - y) ** 2)

    return distance


def fourier_data(dtype: Any) -> tuple:
    draw = draws(36, dtype)
    return draw(256), draw(8192), draw(8192)


def small_solves(lib: Library) -> Callable[..., Any]:
    """A thousand systems of six equations, by Cholesky's factor and by solve."""
    np = lib.np

    def total(a: Any, b: Any) -> Any:
        matrices = a @ np.transpose(a, (0, 2, 1)) + np.eye(6, dtype=a.dtype)
        factor = np.linalg.cholesky(matrices)
        x = np.linalg.solve(matrices, b[:, :, None])[:, :, 0]
        return np.sum(x * b) + np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)))

    return total


def small_solves_data(dtype: Any) -> tuple:
    draw = draws(37, dtype)
    return draw(1000, 6, 6), draw(1000, 6)


def contraction(lib: Library) -> Callable[..., Any]:
    """Four operands at once."""
    np = lib.np
    return lambda a, b, c, d: np.sum(np.einsum("ij,jkl,klm,mi->i", a, b, c, d) ** 2)


def contraction_data(dtype: Any) -> tuple:
    draw = draws(38, dtype)
    return draw(20, 16), draw(16, 12, 10), draw(12, 10, 14), draw(14, 20)


def orbit(lib: Library) -> Callable[..., Any]:
    """Long scalar code: Kepler's equation by ten steps of Newton's method, and the place in space."""
    np = lib.np

    def place(elements: Any) -> Any:
        a, e, i, node, argument, mean = [elements[k] for k in range(6)]
        x = mean
        for _ in range(10):
            x = x - (x - e * np.sin(x) - mean) / (1.0 - e * np.cos(x))
        p, q = a * (np.cos(x) - e), a * np.sqrt(1.0 - e * e) * np.sin(x)
        u, v = p * np.cos(argument) - q * np.sin(argument), p * np.sin(argument) + q * np.cos(argument)
        px = u * np.cos(node) - v * np.sin(node) * np.cos(i)
        py = u * np.sin(node) + v * np.cos(node) * np.cos(i)
        return px * px + 2.0 * py * py + 3.0 * (v * np.sin(i)) ** 2

    return place


def python_loop(lib: Library) -> Callable[..., Any]:
    """A recurrent network written with `for`, 100 steps."""
    np = lib.np

    def loss(params: Any, xs: Any) -> Any:
        recurrent, given, bias = params
        h, total = np.zeros(16, xs.dtype), 0.0
        for t in range(100):
            h = np.tanh(recurrent @ h + given @ xs[t] + bias)
            total = total + np.sum(h * h)
        return total

    return loss


def python_loop_data(dtype: Any) -> tuple:
    draw = draws(39, dtype)
    return (draw(16, 16, scale=0.2), draw(16, 4), draw(16)), draw(100, 4)


def burgers(lib: Library) -> Callable[..., Any]:
    """Twenty steps of a stencil written with `for`, slices and concatenations."""
    np = lib.np

    def final(u: Any) -> Any:
        for _ in range(20):
            left, right = np.concatenate([u[-1:], u[:-1]]), np.concatenate([u[1:], u[:1]])
            u = u - 0.1 * u * (right - left) + 0.05 * (right - 2.0 * u + left)
        return np.sum(u * u)

    return final


PROGRAMS = [
    Program("equation of state, 100,000", state_equation, state_equation_data),
    Program("Black-Scholes, 100,000", options, options_data),
    Program("Asian option, 5,000 x 50", paths, paths_data),
    Program("Newton with Hessians", newton, newton_data, gradient=False),
    Program("Levenberg-Marquardt", least_squares, least_squares_data, gradient=False, tolerance=1e-5),
    Program("PCA", components, lambda dtype: (draws(40, dtype)(1000, 20),)),
    Program("FFT convolution", fourier, fourier_data),
    Program("1,000 small solves", small_solves, small_solves_data),
    Program("einsum of four", contraction, contraction_data),
    Program("Kepler's orbit, scalars", orbit, lambda dtype: (numpy.array([1.2, 0.3, 0.5, 0.7, 1.1, 2.0], dtype),)),
    Program("RNN with for, 100 steps", python_loop, python_loop_data),
    Program("Burgers with for, 20 steps", burgers, lambda dtype: (draws(41, dtype)(1000, scale=0.3),)),
]
