"""The programs of `never_slower`: how people write, most of them with Python's own control flow.

Idea: a program is a function, the transformation that is jitted, and the arguments of its k-th call. What a program does with
its paths is part of its name: `same` repeats its path, `seldom` comes back to few, `never` has a new one at each call, `sizes`
has arguments of new shapes. Traps: arguments are made outside the time that counts; the k-th call has the same arguments in
every run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.integrate
import scipy.linalg
import scipy.special

import funcad


class Case(NamedTuple):
    """One program: how it is transformed, its function, and the arguments of call k."""

    name: str
    transform: Callable[[Any], Any]
    function: Callable[..., Any]
    arguments: Callable[[int], tuple]


CASES: dict[str, Case] = {}


def case(name: str, arguments: Callable[[int], tuple], *transforms: Any) -> Callable[[Any], Any]:
    def add(f: Any) -> Any:
        for transform in transforms or (None,):
            label = name if transform is None else f"{transform.__name__} {name}"
            CASES[label] = Case(label, transform or (lambda g: g), f, arguments)
        return f

    return add


def _random(k: int, *shape: int) -> Any:
    return np.random.default_rng(k).normal(size=shape)


def _same(*values: Any) -> Callable[[int], tuple]:
    return lambda k: values


grad, vmap, hessian, value_and_grad = funcad.grad, funcad.vmap, funcad.hessian, funcad.value_and_grad

# -- the seven of the review


def _grid() -> Any:
    return np.linspace(0.1, 10.0, 40)


@case("value iteration, same", _same(0.95), grad)
def value_iteration(beta: Any) -> Any:
    grid = _grid()
    choices = np.linspace(0.1, 0.9, 5)
    v, diff, turns = np.zeros(40), 1.0, 0
    while diff > 1e-2 and turns < 170:
        values = [np.log(grid * (1 - c)) + beta * np.interp(1.05 * grid * c, grid, v) for c in choices]
        new = np.max(np.stack(values), axis=0)
        diff, v, turns = np.max(np.abs(new - v)), new, turns + 1
    return np.sum(v)


def soft_dtw(a: Any, b: Any) -> Any:
    n, m = len(a), len(b)
    r = [[np.inf] * (m + 1) for _ in range(n + 1)]
    r[0][0] = 0.0
    for i in range(n):
        for j in range(m):
            x, y, z = -r[i][j], -r[i][j + 1], -r[i + 1][j]
            most = max(x, y, z)
            soft = most + np.log(np.exp(x - most) + np.exp(y - most) + np.exp(z - most))
            r[i + 1][j + 1] = (a[i] - b[j]) ** 2 - soft
    return r[n][m]


case("soft-DTW 15x15, never", lambda k: (_random(k, 15), _random(k + 1000, 15)), grad)(soft_dtw)
case("soft-DTW 40x40, same", _same(_random(0, 40), _random(1, 40)), grad)(soft_dtw)


def ctc(labels: Any, steps: int) -> Callable[[Any], Any]:
    extended = [0]
    for label in labels:
        extended += [label, 0]

    def loss(logits: Any) -> Any:
        p = np.exp(logits - np.max(logits, axis=1, keepdims=True))
        p = p / np.sum(p, axis=1, keepdims=True)
        s = len(extended)
        alpha = [p[0, extended[i]] if i < 2 else 0.0 for i in range(s)]
        for t in range(1, steps):
            new = []
            for i in range(s):
                total = alpha[i]
                if i > 0:
                    total = total + alpha[i - 1]
                if i > 1 and extended[i] != 0 and extended[i] != extended[i - 2]:
                    total = total + alpha[i - 2]
                new.append(total * p[t, extended[i]])
            alpha = new
        likelihood = alpha[-1] + alpha[-2]
        return -np.log(likelihood) if likelihood > 0 else 1e3

    return loss


case("CTC 50x15, same path", lambda k: (_random(k, 50, 6),), grad)(ctc([1, 2, 3, 4, 5, 1, 2], 50))


def ball(x: Any, v: Any) -> Any:
    for _ in range(500):
        v = v - 0.0981
        x = x + v * 0.01
        if x < 0:
            x, v = -x, -0.8 * v
    return x


case("bouncing ball 500, same", _same(1.0, 0.0), grad)(ball)
case("bouncing ball 500, never", lambda k: (1.0 + 0.01 * k, 0.0), grad)(ball)


def garch(p: Any, r: Any) -> Any:
    s, total = p[0], 0.0
    for x in r:
        s = p[0] + p[1] * x**2 + p[2] * s
        if s < 1e-8:
            s = 1e-8
        total = total + np.log(s) + x**2 / s
    return total


case("GARCH 2000, same path", lambda k: (np.array([0.1, 0.1, 0.8]) + 1e-3 * k, _random(0, 2000)), grad)(garch)


@case("scalar loop 10,000, same path", lambda k: (1.0 + 1e-3 * k,), grad)
def scalar_loop(a: Any) -> Any:
    s = a
    for _ in range(10_000):
        s = s * 0.99 + 0.01 * a
        if s > 100.0:
            s = 100.0
    return s


@case("Heston by quad, same", _same(0.04, 1.5), grad)
def heston(v0: Any, kappa: Any) -> Any:
    theta, sigma, rho, s0, strike, t = 0.04, 0.3, -0.7, 100.0, 100.0, 1.0

    def phi(u: Any) -> Any:
        iu = 1j * u
        d = np.sqrt((rho * sigma * iu - kappa) ** 2 + sigma**2 * (iu + u * u))
        g = (kappa - rho * sigma * iu - d) / (kappa - rho * sigma * iu + d)
        e = np.exp(-d * t)
        c = kappa * theta / sigma**2 * ((kappa - rho * sigma * iu - d) * t - 2 * np.log((1 - g * e) / (1 - g)))
        return np.exp(c + v0 / sigma**2 * (kappa - rho * sigma * iu - d) * (1 - e) / (1 - g * e))

    def integrand(u: Any) -> Any:
        return np.real(np.exp(-1j * u * np.log(strike / s0)) * phi(u - 0.5j)) / (u * u + 0.25)

    return s0 - np.sqrt(s0 * strike) / np.pi * scipy.integrate.quad(integrand, 0, 50)[0]


# -- paths that come again


@case("Newton, same path", lambda k: (2.0 + 1e-3 * k,), None, grad)
def newton(a: Any) -> Any:
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = (x + a / x) / 2
    return x


@case("Gauss-Seidel 12x12, same path", lambda k: (_random(k, 12, 12),), grad)
def gauss_seidel(b: Any) -> Any:
    u, n = np.zeros((12, 12)), 12
    for _ in range(5):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - b[i, j])
    return np.sum(u**2)


@case("ten ifs on data, seldom", lambda k: (np.sign(_random(k % 4, 10)) * 0.5,), None, grad)
def ten_ifs(x: Any) -> Any:
    total = 0.0
    for i in range(10):
        total = total + (x[i] ** 2 if x[i] > 0 else -x[i])
    return total


@case("relu of a number, seldom", lambda k: (float((-1) ** k),), None, grad)
def relu(x: Any) -> Any:
    return x * 3.0 if x > 0 else x * 0.1


@case("clip by max and min, never", lambda k: (_random(k, 20),), None, grad)
def clipped(x: Any) -> Any:
    total = 0.0
    for i in range(20):
        total = total + max(min(x[i], 1.0), -1.0) ** 2
    return total


@case("line search, seldom", lambda k: (_random(k % 3, 30),), None, grad)
def line_search(x: Any) -> Any:
    def f(z: Any) -> Any:
        return np.sum(z**4) + np.sum(z**2)

    g, step = 4 * x**3 + 2 * x, 1.0
    while f(x - step * g) > f(x) - 0.5 * step * np.sum(g * g):
        step = step / 2
    return f(x - step * g)


@case("bisection, same path", _same(3.0), None, grad)
def bisection(a: Any) -> Any:
    low, high = 0.0 * a, a
    for _ in range(40):
        mid = 0.5 * (low + high)
        if mid * mid < a:
            low = mid
        else:
            high = mid
    return low + (a - low * low) / (2 * low)


@case("adaptive step, seldom", lambda k: (1.0 + 0.5 * (k % 3),), None, grad)
def adaptive(y0: Any) -> Any:
    t, y, h = 0.0, y0, 0.1
    while t < 1.0:
        k1 = -y * y
        k2 = -((y + h * k1) ** 2)
        error = abs(h * (k2 - k1) / 2)
        if error < 1e-3:
            t, y = t + h, y + h * (k1 + k2) / 2
            h = h * 1.5
        else:
            h = h / 2
    return y


@case("option tree, american, never", lambda k: (100.0 + k, 0.2), grad)
def american(s0: Any, sigma: Any) -> Any:
    n, r, dt, strike = 20, 0.05, 0.05, 100.0
    u = np.exp(sigma * math.sqrt(dt))
    p = (math.exp(r * dt) - 1 / u) / (u - 1 / u)
    values = [max(strike - s0 * u ** (2 * i - n), 0.0) for i in range(n + 1)]
    for m in range(n - 1, -1, -1):
        values = [
            max(math.exp(-r * dt) * (p * values[i + 1] + (1 - p) * values[i]), strike - s0 * u ** (2 * i - m))
            for i in range(m + 1)
        ]
    return values[0]


@case("Viterbi 20x4, never", lambda k: (_random(k, 20, 4), _random(7, 4, 4)), grad)
def viterbi(scores: Any, trans: Any) -> Any:
    best = [scores[0, j] for j in range(4)]
    for t in range(1, 20):
        best = [max(best[i] + trans[i, j] for i in range(4)) + scores[t, j] for j in range(4)]
    return max(best)


@case("edit distance 12x12, never", lambda k: (_random(k, 12), _random(k + 99, 12)), grad)
def edit_distance(a: Any, b: Any) -> Any:
    row = [1.0 * j for j in range(13)]
    for i in range(12):
        new = [1.0 * (i + 1)]
        for j in range(12):
            new.append(min(row[j + 1] + 1, new[j] + 1, row[j] + abs(a[i] - b[j])))
        row = new
    return row[-1]


@case("random walk of signs, never", lambda k: (_random(k, 200),), None, grad)
def walk(x: Any) -> Any:
    s = 0.0
    for i in range(200):
        s = s + x[i] if s < 1.0 else 0.9 * s - abs(x[i])
    return s


@case("collatz of an int, never", lambda k: (27 + k, 1.5))
def collatz(n: Any, x: Any) -> Any:
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        x = x * 1.001
    return x


@case("Cholesky by hand 8, same path", lambda k: (_random(k, 8, 8),), grad)
def cholesky(m: Any) -> Any:
    a, n = m @ m.T + 8 * np.eye(8), 8
    low = np.zeros((8, 8))
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j] - np.dot(low[i, :j], low[j, :j])
            if i == j:
                if s <= 0:
                    raise ValueError("not positive definite")
                low[i, i] = np.sqrt(s)
            else:
                low[i, j] = s / low[j, j]
    return np.sum(np.log(np.diag(low)))


@case("LU with pivots 8, seldom", lambda k: (_random(k % 3, 8, 8),), grad)
def pivoted(m: Any) -> Any:
    a, n, det = m.copy(), 8, 1.0
    for k in range(n):
        p = int(np.argmax(np.abs(a[k:, k]))) + k
        if p != k:
            a[[k, p]] = a[[p, k]]
            det = -det
        det = det * a[k, k]
        a[k + 1 :, k:] = a[k + 1 :, k:] - np.outer(a[k + 1 :, k] / a[k, k], a[k, k:])
    return np.log(abs(det))


@case("Kepler by Newton, seldom", lambda k: (0.3 + 0.1 * (k % 5), 0.5), None, grad)
def kepler(mean: Any, e: Any) -> Any:
    x = mean
    for _ in range(50):
        d = (x - e * np.sin(x) - mean) / (1 - e * np.cos(x))
        x = x - d
        if abs(d) < 1e-12:
            break
    return x


@case("Huber by a mask, never", lambda k: (_random(k, 50),), None, grad)
def huber(x: Any) -> Any:
    near = np.abs(x) < 1.0
    return np.sum(x[near] ** 2) + np.sum(2 * np.abs(x[~near]) - 1)


# -- no path at all


@case("MLP of 3 layers, same", lambda k: (_random(0, 10, 10), _random(k, 32, 10)), None, value_and_grad)
def mlp(w: Any, x: Any) -> Any:
    h = np.tanh(x @ w)
    h = np.tanh(h @ w)
    return np.mean((h @ w) ** 2)


def _network(k: int, rows: int) -> tuple:
    return _random(0, 10, 10), _random(k, rows, 10)


case("MLP, sizes", lambda k: _network(k, 10 + k), value_and_grad)(lambda w, x: mlp(w, x))
case("MLP, sizes seldom", lambda k: _network(k, 10 + k % 3), value_and_grad)(lambda w, x: mlp(w, x) * 2.0)


@case("logistic regression, same", lambda k: (_random(k, 20), _random(1, 200, 20)), value_and_grad, hessian)
def logistic(w: Any, x: Any) -> Any:
    return np.sum(np.logaddexp(0.0, x @ w))


@case("rosenbrock 100, same", lambda k: (_random(k, 100),), None, grad)
def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@case("straight line 1,500 equations, same", lambda k: (_random(k, 3),), grad)
def straight(x: Any) -> Any:
    a, b, c = x[0], x[1], x[2]
    for i in range(250):
        a, b, c = np.sin(a) + 0.01 * (i % 7) * b, np.tanh(b * c) + 0.5 * a, 0.9 * c - 0.1 * a
    return a + b + c


@case("Gaussian process 60, same", lambda k: (np.array([0.1, 0.2]) + 1e-3 * k, _random(0, 60)), value_and_grad)
def gaussian_process(p: Any, y: Any) -> Any:
    t = np.linspace(0, 1, 60)
    cov = np.exp(p[0]) * np.exp(-((t[:, None] - t[None, :]) ** 2) / np.exp(2 * p[1])) + 0.1 * np.eye(60)
    low = np.linalg.cholesky(cov)
    z = scipy.linalg.solve_triangular(low, y, lower=True)
    return 0.5 * np.sum(z * z) + np.sum(np.log(np.diag(low)))


@case("called few times, large", lambda k: (_random(k, 300, 300),), grad)
def large(x: Any) -> Any:
    return np.sum(np.tanh(x @ x) ** 2)


@case("Lorenz, 300 steps, same", lambda k: (_random(k, 3),), None, grad)
def lorenz(s: Any) -> Any:
    for _ in range(300):
        x, y, z = s[0], s[1], s[2]
        s = s + 0.01 * np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])
    return np.sum(s)


@case("Kalman filter 100, same path", lambda k: (np.array([0.1, 0.2]) + 1e-3 * k, _random(0, 100)), grad)
def kalman(p: Any, z: Any) -> Any:
    x, v, total = 0.0, 1.0, 0.0
    for y in z:
        v = v + p[0] ** 2
        if v > 1e6:
            v = 1e6
        gain = v / (v + p[1] ** 2)
        total = total + np.log(v + p[1] ** 2) + (y - x) ** 2 / (v + p[1] ** 2)
        x, v = x + gain * (y - x), (1 - gain) * v
    return total


@case("vmap of a branch, same", lambda k: (_random(k, 100),), vmap)
def leaky(x: Any) -> Any:
    return x if x > 0 else 0.1 * x


@case("a new closure constant, seldom", lambda k: (_random(k, 8), float(k % 2)), grad)
def penalised(x: Any, weight: Any) -> Any:
    return np.sum(x**2) + weight * np.sum(np.abs(x)) if weight else np.sum(x**2)


@case("simulated annealing of numbers, never", lambda k: (1.0 + 0.01 * k, _random(k, 100)), grad)
def annealed(x: Any, noise: Any) -> Any:
    best = x * x
    for i in range(100):
        y = x + 0.1 * noise[i]
        if y * y < best or noise[i] > 2.0:
            x, best = y, y * y
    return best + x


@case("sorted few, never", lambda k: tuple(_random(k, 4)), None, grad)
def trimmed(a: Any, b: Any, c: Any, d: Any) -> Any:
    x = sorted([a, b, c, d])
    return x[1] * x[2]


@case("piecewise utility, never", lambda k: (_random(k, 30),), None, grad)
def utility(x: Any) -> Any:
    total = 0.0
    for i in range(30):
        if x[i] > 1:
            total = total + math.log(x[i])
        elif x[i] > 0:
            total = total + x[i] - 1
        else:
            total = total + 2 * x[i] - 1
    return total


@case("pendulum by Runge-Kutta, same", lambda k: (0.5 + 1e-3 * k, 0.0), None, grad)
def pendulum(q: Any, p: Any) -> Any:
    h = 0.01
    for _ in range(200):
        a1, b1 = p, -np.sin(q)
        a2, b2 = p + h / 2 * b1, -np.sin(q + h / 2 * a1)
        q, p = q + h * a2, p + h * b2
    return q


@case("while_loop of funcad, same", lambda k: (1.0 + 1e-3 * k,), None)
def looped(x: Any) -> Any:
    return funcad.while_loop(lambda s: s[0] < 5_000, lambda s: (s[0] + 1, s[1] * 0.999 + x), (0, x))[1]


@case("power method, same path", lambda k: (_random(k % 2, 15, 15),), None, grad)
def power(m: Any) -> Any:
    a, v, before = m @ m.T, np.ones(15), 0.0
    for _ in range(30):
        w = a @ v
        norm = np.sqrt(np.sum(w * w))
        v = w / norm
        if abs(norm - before) < 1e-14:
            break
        before = norm
    return norm


@case("trapezoid of a function with a jump, same path", lambda k: (0.5 + 1e-4 * k,), None, grad)
def trapezoid(c: Any) -> Any:
    def f(t: float) -> Any:
        return np.exp(-c * t) if t < 0.5 else c * t

    return sum(0.5 * (f(i / 100) + f((i + 1) / 100)) / 100 for i in range(100))
