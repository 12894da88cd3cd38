"""Iterations that stop when they are good enough: roots, linear systems, series, and differential equations."""

from __future__ import annotations

import numpy as np

from tests.whole.control.program import draws, program


@program((2.0,), (9.0,), (1e4,), (0.01,), (2.1,))
def newton(a):
    x = a
    while abs(x * x - a) > 1e-13 * a:
        x = 0.5 * (x + a / x)
    return x


@program((0.5, 1.0), (2.0, 3.0), (0.1, 0.2), (3.0, 0.5))
def secant(a, b):
    f = lambda x: np.exp(a * x) - b - 1.0
    x0, x1 = 0.0, 1.0
    f0, f1 = f(x0), f(x1)
    for _ in range(60):
        if abs(f1) < 1e-13 or f1 == f0:
            break
        x0, x1, f0 = x1, x1 - f1 * (x1 - x0) / (f1 - f0), f1
        f1 = f(x1)
    return x1


@program((0.0, 2.0, 0.5), (-1.0, 1.0, 0.3), (0.0, 8.0, 1.0), (0.5, 0.7, 2.0), apart=(0, 1, 2, 3))
def bisection(low, high, target):
    f = lambda x: x**3 + x - target
    if f(low) * f(high) > 0:
        raise ValueError(f"no change of sign between {low:.2f} and {high:.2f}")
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        if f(middle) > 0:
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)


@program((1.0, 3.0), (0.5, 1.0), (2.0, 8.0), (1.5, 4.0))
def brent(scale, target):
    """Inverse quadratic interpolation where it helps, else halving."""
    f = lambda x: np.tanh(scale * x) * 4.0 + x - target
    a, b = -1.0, 9.0
    fa, fb = f(a), f(b)
    if abs(fa) < abs(fb):
        a, b, fa, fb = b, a, fb, fa
    c, fc, d, halved = a, fa, a, True
    while fb != 0 and abs(b - a) > 1e-12:
        if fa != fc and fb != fc:
            s = a * fb * fc / ((fa - fb) * (fa - fc)) + b * fa * fc / ((fb - fa) * (fb - fc))
            s = s + c * fa * fb / ((fc - fa) * (fc - fb))
        else:
            s = b - fb * (b - a) / (fb - fa)
        between = min((3 * a + b) / 4, b) < s < max((3 * a + b) / 4, b)
        step = abs(b - c) if halved else abs(c - d)
        if not between or abs(s - b) >= 0.5 * step or step < 1e-13:
            s, halved = 0.5 * (a + b), True
        else:
            halved = False
        fs = f(s)
        d, c, fc = c, b, fb
        if fa * fs < 0:
            b, fb = s, fs
        else:
            a, fa = s, fs
        if abs(fa) < abs(fb):
            a, b, fa, fb = b, a, fb, fa
    return b - fb / (4.0 * scale / np.cosh(scale * b) ** 2 + 1.0)


@program((0.5,), (0.9,), (0.1,), (-0.7,))
def fixed_point(k):
    x, turns = 0.3, 0
    while True:
        new = np.cos(k * x) * 0.8
        turns += 1
        if abs(new - x) < 1e-10 or turns == 200:
            return new, turns
        x = new


_SYSTEMS = [(draws(i, 4, 4) + (3.0 + 2.0 * i) * np.eye(4), draws(i + 10, 4)) for i in range(3)]


@program(*_SYSTEMS)
def gauss_seidel(a, b):
    x = np.zeros(4)
    change = 1.0
    while change > 1e-13:
        change = 0.0
        for i in range(4):
            new = (b[i] - a[i, :i] @ x[:i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
            change = max(change, abs(new - x[i]))
            x[i] = new
    return x


@program(*_SYSTEMS)
def jacobi(a, b):
    d = np.diag(a)
    x = b / d
    for _ in range(500):
        new = x + (b - a @ x) / d
        if np.all(np.abs(new - x) < 1e-14):
            break
        x = new
    else:
        raise ArithmeticError("no convergence")
    return new


@program(
    *[(m @ m.T + np.eye(4), b) for m, b in _SYSTEMS[:2]], (np.eye(4) * 2.0, np.ones(4)), (np.eye(4), np.zeros(4)), apart=(2, 3)
)
def conjugate_gradients(a, b):
    a = 0.5 * (a + a.T)
    x = np.zeros(4)
    r = b.copy()
    p, rr = r, r @ r
    while rr > 1e-26:
        ap = a @ p
        alpha = rr / (p @ ap)
        x = x + alpha * p
        r = r - alpha * ap
        rr, old = r @ r, rr
        p = r + (rr / old) * p
    return x


@program(*[(draws(k, 3, 3) + np.diag([6.0 - k, 1.0, 0.1]),) for k in range(3)])
def power_iteration(a):
    v = np.ones(3)
    value, last = 0.0, 1.0
    while abs(value - last) > 1e-11 * abs(last):
        w = a @ v
        last, value = value, v @ w / (v @ v)
        v = w / np.sqrt(w @ w)
    return value


@program((np.array([1.0, 0.5]),), (np.array([2.0, 1.5]),), (np.array([0.3, 0.9]),))
def newton_in_the_plane(p):
    x = np.array([1.0, 1.0])
    for turn in range(40):
        f = np.stack([x[0] ** 2 + x[1] - p[0] - 1.0, x[0] + np.exp(x[1]) - p[1] - 2.0])
        if np.linalg.norm(f) < 1e-13:
            return x, turn
        jacobian = np.array([[2.0 * x[0], 1.0], [1.0, np.exp(x[1])]])
        x = x - np.linalg.solve(jacobian, f)
    raise ArithmeticError(f"no convergence from {p}")


@program((1.0, 0.1), (2.5, 0.8), (0.2, 0.5), (3.0, 0.0), (1.0, 1.5))
def kepler(mean, eccentricity):
    if not 0 <= eccentricity < 1:
        raise ValueError(f"an ellipse has an eccentricity below 1, got {eccentricity}")
    e = mean if eccentricity < 0.7 else 3.1 + 0.0 * mean
    for _ in range(50):
        delta = (e - eccentricity * np.sin(e) - mean) / (1.0 - eccentricity * np.cos(e))
        e = e - delta
        if abs(delta) < 1e-14:
            break
    return e


@program((1.0, 2.0), (1.0, 1000.0), (3.0, 3.0), (0.5, 0.1), apart=(2,))
def arithmetic_geometric_mean(a, b):
    while abs(a - b) > 1e-15 * a:
        a, b = 0.5 * (a + b), np.sqrt(a * b)
    return a


@program((0.1,), (2.0,), (-3.0,), (0.0,))
def exponential_series(x):
    term = total = 1.0 + 0.0 * x
    n = 1
    while abs(term) > 1e-17:
        term = term * x / n
        total = total + term
        n += 1
    return total


@program((1.0, 2.0), (0.1, 0.3), (5.0, 1.5), (2.0, 0.01), apart=(0, 1, 2, 3))
def heun_with_adaptive_steps(end, k):
    t, y, h, taken = 0.0, 1.0, 0.1, 0
    f = lambda t, y: np.sin(t) - k * y
    while t < end:
        if t + h > end:
            h = end - t
        a = f(t, y)
        b = f(t + h, y + h * a)
        error = abs(0.5 * h * (b - a))
        if error < 1e-3:
            t, y = t + h, y + 0.5 * h * (a + b)
            taken += 1
            if error < 1e-4:
                h = 2.0 * h
        else:
            h = 0.5 * h
    return y, taken


_STAGES = ((0.2,), (3 / 40, 9 / 40), (0.3, -0.9, 1.2), (-11 / 54, 2.5, -70 / 27, 35 / 27))
_STAGES += ((1631 / 55296, 175 / 512, 575 / 13824, 44275 / 110592, 253 / 4096),)
_FIFTH = np.array([37 / 378, 0.0, 250 / 621, 125 / 594, 0.0, 512 / 1771])
_FOURTH = np.array([2825 / 27648, 0.0, 18575 / 48384, 13525 / 55296, 277 / 14336, 0.25])


@program((np.array([1.0, 0.0]), 0.5), (np.array([2.0, 0.0]), 1.5), (np.array([0.1, 0.0]), 0.0), apart=(0, 1, 2))
def runge_kutta_45(y, mu):
    """Van der Pol's oscillator; steps grow and shrink with the error that was found."""

    def f(y):
        return np.stack([y[1], mu * (1.0 - y[0] ** 2) * y[1] - y[0]])

    t, h, end = 0.0, 0.2, 1.5
    while t < end - 1e-12:
        h = min(h, end - t)
        stages = [f(y)]
        for row in _STAGES:
            stages.append(f(y + h * sum([c * k for c, k in zip(row, stages)])))
        k = np.stack(stages)
        error = np.max(np.abs(h * ((_FIFTH - _FOURTH) @ k)))
        if error <= 1e-5:
            t, y = t + h, y + h * (_FIFTH @ k)
        if error > 0:
            h = h * min(4.0, max(0.2, 0.9 * (1e-5 / error) ** 0.2))
    return y


@program((0.0, 1.0), (0.0, 6.0), (-2.0, 0.5), (1.0, 1.01))
def adaptive_simpson(a, b):
    """A recursion that ends where the halves agree."""

    def f(x):
        return np.sin(x * x) + 0.3 * x

    def simpson(a, b):
        return (b - a) / 6.0 * (f(a) + 4.0 * f(0.5 * (a + b)) + f(b))

    def area(a, b, whole, tolerance):
        m = 0.5 * (a + b)
        left, right = simpson(a, m), simpson(m, b)
        if abs(left + right - whole) < 15.0 * tolerance:
            return left + right + (left + right - whole) / 15.0
        return area(a, m, left, tolerance / 2) + area(m, b, right, tolerance / 2)

    return area(a, b, simpson(a, b), 1e-4)


@program((0.5, 1.5), (0.8, 4.0), (0.1, 0.2), (0.99, 12.0))
def continued_fraction(a, x):
    """The incomplete gamma function: a series on one side, Lentz's fraction on the other."""
    if x < a + 1.0:
        term = total = 1.0 / a
        n = a
        while abs(term) > abs(total) * 1e-16:
            n = n + 1.0
            term = term * x / n
            total = total + term
        return total * np.exp(-x + a * np.log(x))
    b = x + 1.0 - a
    c, d = 1e30, 1.0 / b
    h = d
    i = 1
    while True:
        an = -i * (i - a)
        b = b + 2.0
        d = 1.0 / (an * d + b)
        c = b + an / c
        h, i = h * d * c, i + 1
        if abs(d * c - 1.0) < 1e-15:
            return 1.0 - np.exp(-x + a * np.log(x)) * h
