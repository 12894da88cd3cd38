"""JAX's versions of the programs of benchmarks/control_flow.py: `where`, `while_loop` and `scan` instead of Python's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.harness import peer

_rng = numpy.random.default_rng(5)
_SQUARE = _rng.normal(size=(20, 20))
MATRIX = _SQUARE @ _SQUARE.T / 20.0 + numpy.eye(20)
SHOCKS = _rng.normal(size=40).tolist()


def versions(name: str) -> tuple[Callable[..., Any] | None, ...]:
    """(value, gradient, values of lanes, gradients of lanes), jitted; None where there is no JAX or no gradient."""
    jax = peer("jax")
    if jax is None:
        return (None,) * 4
    f, differentiate = _functions(jax)[name]
    gradient = None if differentiate is None else differentiate(f)
    kinds = [f, gradient, jax.vmap(f), None if gradient is None else jax.vmap(gradient)]
    return tuple([None if g is None else jax.jit(g) for g in kinds])


def _functions(jax: Any) -> dict[str, tuple[Callable[..., Any], Callable | None]]:
    """The function, and how its users differentiate it."""
    np, lax = jax.numpy, jax.lax

    def leaky(x):
        return np.where(x > 0, x, 0.1 * x)

    def tax(income):
        starts, rates = np.array([0.0, 1.0, 4.0, 9.0]), np.array([0.0, 0.1, 0.25, 0.4])
        ends = np.array([1.0, 4.0, 9.0, np.inf])
        return np.sum(rates * np.clip(income - starts, 0.0, ends - starts))

    def newton(a):
        return lax.while_loop(lambda x: abs(x * x - a) > 1e-12 * a, lambda x: 0.5 * (x + a / x), a)

    def bisection(target):
        def turn(ends):
            low, high = ends
            middle = 0.5 * (low + high)
            above = middle**3 + middle > target
            return np.where(above, low, middle), np.where(above, middle, high)

        low, high = lax.while_loop(lambda ends: ends[1] - ends[0] > 1e-9, turn, (np.array(0.0), np.array(8.0)))
        return 0.5 * (low + high)

    def heun(k):
        f = lambda t, y: np.sin(t) - k * y

        def turn(state):
            t, y, h = state
            h = np.where(t + h > 2.0, 2.0 - t, h)
            a = f(t, y)
            b = f(t + h, y + h * a)
            error = abs(0.5 * h * (b - a))
            good = error < 1e-3
            new = np.where(good, np.where(error < 1e-4, 2.0 * h, h), 0.5 * h)
            return np.where(good, t + h, t), np.where(good, y + 0.5 * h * (a + b), y), new

        zero = 0.0 * k
        return lax.while_loop(lambda state: state[0] < 2.0, turn, (zero, zero + 1.0, zero + 0.1))[1]

    def huber(errors):
        size = abs(errors)
        return np.sum(np.where(size <= 0.5, 0.5 * errors * errors, 0.5 * (size - 0.25)))

    def early_stopping(x):
        def turn(state, _):
            x, going = state
            slope = 2.0 * x + 0.3 * np.cos(x)
            going = going & (slope @ slope >= 1e-8)
            return (np.where(going, x - 0.2 * slope, x), going), None

        x = lax.scan(turn, (x, True), None, length=60)[0][0]
        return x @ x

    def armijo(x):
        f = lambda x: (1.0 - x[0]) ** 2 + 5.0 * (x[1] - x[0] ** 2) ** 2

        def turn(x, _):
            outer = x[1] - x[0] ** 2
            g = np.stack([-2.0 * (1.0 - x[0]) - 20.0 * x[0] * outer, 10.0 * outer])
            here, gg = f(x), g @ g
            t = lax.while_loop(lambda t: f(x - t * g) > here - 0.3 * t * gg, lambda t: 0.5 * t, np.array(1.0))
            return x - t * g, None

        return f(lax.scan(turn, x, None, length=5)[0])

    def conjugate_gradients(b):
        matrix = np.asarray(MATRIX)

        def turn(state):
            x, r, p, rr = state
            ap = matrix @ p
            alpha = rr / (p @ ap)
            x, r = x + alpha * p, r - alpha * ap
            new = r @ r
            return x, r, r + (new / rr) * p, new

        x = lax.while_loop(lambda state: state[3] > 1e-20, turn, (0.0 * b, b, b, b @ b))[0]
        return x @ x

    def knock_out(spot):
        def turn(state, shock):
            s, out = state
            s = np.where(out, s, s * np.exp(0.05 * shock))
            return (s, out | (s < 0.7)), None

        s, out = lax.scan(turn, (spot, False), np.array(SHOCKS))[0]
        return np.where(out, 0.0, s)

    def kalman(ys):
        def turn(state, y):
            mean, variance, likelihood = state
            variance = variance + 0.1
            seen = ~np.isnan(y)
            safe = np.where(seen, y, mean)
            s = variance + 0.2
            gain = np.where(seen, variance / s, 0.0)
            term = np.where(seen, 0.5 * (np.log(2.0 * np.pi * s) + (safe - mean) ** 2 / s), 0.0)
            return (mean + gain * (safe - mean), (1.0 - gain) * variance, likelihood - term), None

        return lax.scan(turn, (0.0, 1.0, 0.0), ys)[0][2]

    def tree(x):
        features, thresholds = np.array([2, 0, 3, 0, 3, 1, 0]), np.array([0.45, 0.3, 0.7, 0.0, 0.75, 0.5, 0.0])
        scales, which = np.array([0.5, 0.5, 1.5, 2.0, 1.5, 2.0, 3.0, 3.0]), np.array([0, 0, 1, 2, 1, 2, 3, 3])
        node = 0
        for _ in range(3):  # a heap; a leaf above the last level has itself below
            node = 2 * node + 1 + (x[features[node]] >= thresholds[node])
        leaf = node - 7
        return scales[leaf] * x[which[leaf]] + x[0]

    def mandelbrot(c):
        def turn(state):
            z, n = state
            return np.stack([z[0] * z[0] - z[1] * z[1], 2.0 * z[0] * z[1]]) + c, n + 1

        going = lambda state: (state[1] < 50) & (state[0] @ state[0] <= 4.0)
        return lax.while_loop(going, turn, (0.0 * c, 0))[1]

    def collatz(n):
        turn = lambda state: (np.where(state[0] % 2 == 0, state[0] // 2, 3 * state[0] + 1), state[1] + 1)
        return lax.while_loop(lambda state: state[0] > 1, turn, (n, 0))[1]

    reverse, forward = jax.grad, jax.jacfwd
    return {
        "leaky": (leaky, reverse),
        "tax": (tax, reverse),
        "newton": (newton, forward),
        "bisection": (bisection, None),
        "heun": (heun, forward),
        "huber": (huber, reverse),
        "early_stopping": (early_stopping, reverse),
        "armijo": (armijo, forward),
        "conjugate_gradients": (conjugate_gradients, forward),
        "knock_out": (knock_out, reverse),
        "kalman": (kalman, reverse),
        "tree": (tree, reverse),
        "mandelbrot": (mandelbrot, None),
        "collatz": (collatz, None),
    }
