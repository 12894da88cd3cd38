"""Optimisers that look at what they have found: line searches, early stopping, active sets, simplex steps."""

from __future__ import annotations

import numpy as np

from tests.whole.control.program import draws, program


@program(*[(draws(i, 3, low=-1.0), 0.05 + 0.2 * i) for i in range(4)])
def descent_with_early_stopping(x, rate):
    """Stops after three turns without progress, or when the slope is small."""
    best, waited, turns = np.inf, 0, 0
    while waited < 3 and turns < 60:
        slope = 2.0 * x + 0.3 * np.cos(x)
        if np.linalg.norm(slope) < 1e-3:
            break
        x = x - rate * slope
        value = np.sum(x * x + 0.3 * np.sin(x))
        if value < best - 1e-6:
            best, waited = value, 0
        else:
            waited += 1
        turns += 1
    return x, turns


@program(
    (np.array([1.0, 1.0]), 1.0),
    (np.array([-1.0, 2.0]), 8.0),
    (np.array([0.1, 0.1]), 0.2),
    (np.array([3.0, 0.5]), 50.0),
    apart=(0,),
)
def armijo(x, step):
    """Backtracking along the steepest descent of a banana."""
    f = lambda x: (1.0 - x[0]) ** 2 + 5.0 * (x[1] - x[0] ** 2) ** 2
    for _ in range(3):
        outer = x[1] - x[0] ** 2
        g = np.stack([-2.0 * (1.0 - x[0]) - 20.0 * x[0] * outer, 10.0 * outer])
        t = step
        here, gg = f(x), g @ g
        if gg < 1e-12:
            return x
        while f(x - t * g) > here - 0.3 * t * gg:
            t = 0.5 * t
        x = x - t * g
    return x


@program((0.0, 1.0, 0.3), (-1.0, 4.0, 2.0), (0.2, 0.9, -1.0))
def golden_section(a, b, c):
    ratio = (5**0.5 - 1) / 2
    f = lambda x: (x - c) ** 2 + 0.1 * x**4
    p, q = b - ratio * (b - a), a + ratio * (b - a)
    fp, fq = f(p), f(q)
    while b - a > 1e-3:
        if fp < fq:
            b, q, fq = q, p, fp
            p = b - ratio * (b - a)
            fp = f(p)
        else:
            a, p, fp = p, q, fq
            q = a + ratio * (b - a)
            fq = f(q)
    return 0.5 * (a + b)


_TARGETS = [np.array([1.0, 2.0, 3.0, 1.0]), np.array([-1.0, 2.0, 0.5, 0.1]), np.array([-1.0, -2.0, -3.0, -1.0]), draws(5, 4)]


@program(*[(draws(3, 4, 3, low=0.1), b) for b in _TARGETS])
def nonnegative_least_squares(a, b):
    """An active set: columns come in by their slope, and go out where they would be negative."""
    n = a.shape[1]
    free = [False] * n
    x = np.zeros(n)
    for _ in range(3 * n):
        slope = a.T @ (b - a @ x)
        waiting = [j for j in range(n) if not free[j] and slope[j] > 1e-9]
        if not waiting:
            break
        free[max(waiting, key=lambda j: slope[j])] = True
        while True:
            columns = [j for j in range(n) if free[j]]
            part = a[:, columns]
            s = np.linalg.solve(part.T @ part, part.T @ b)
            if np.all(s > 0):
                break
            ratios = [x[j] / (x[j] - s[k]) for k, j in enumerate(columns) if s[k] <= 0]
            t = min(ratios)
            moved = [x[j] + t * (s[k] - x[j]) for k, j in enumerate(columns)]
            x = np.zeros(n)
            for v, j in zip(moved, columns):
                if v > 1e-12:
                    x[j] = v
                else:
                    free[j] = False
        x = np.zeros(n)
        x[columns] = s
    return x


@program(
    (np.array([3.0, 2.0]), np.array([[1.0, 1.0], [1.0, 3.0]]), np.array([4.0, 6.0])),
    (np.array([1.0, 5.0]), np.array([[1.0, 1.0], [1.0, 3.0]]), np.array([4.0, 6.0])),
    (np.array([-1.0, -1.0]), np.array([[1.0, 1.0], [1.0, 3.0]]), np.array([4.0, 6.0])),
    (np.array([1.0, 1.0]), np.array([[-1.0, 1.0], [-1.0, 0.5]]), np.array([4.0, 6.0])),
)
def simplex(c, a, b):
    m, n = a.shape
    table = np.zeros((m + 1, n + m + 1))
    table[:m, :n] = a
    table[:m, n : n + m] = np.eye(m)
    table[:m, -1] = b
    table[m, :n] = -c
    while np.any(table[m, :-1] < -1e-9):
        j = int(np.argmin(table[m, :-1]))
        rows = [i for i in range(m) if table[i, j] > 1e-9]
        if not rows:
            raise ArithmeticError(f"unbounded in column {j}")
        i = min(rows, key=lambda i: table[i, -1] / table[i, j])
        table[i] = table[i] / table[i, j]
        for k in range(m + 1):
            if k != i:
                table[k] = table[k] - table[k, j] * table[i]
    return table[m, -1]


@program((np.array([1.5, -0.5]), 0.1), (np.array([0.2, 2.0]), 0.8), (np.array([0.05, 0.02]), 0.3), (np.zeros(2), 0.3))
def lasso_by_coordinates(b, weight):
    gram = np.array([[1.0, 0.3], [0.3, 1.0]])
    x = np.zeros(2)
    for _ in range(200):
        before = x.copy()
        for j in range(2):
            r = b[j] - gram[j] @ x + gram[j, j] * x[j]
            if r > weight:
                x[j] = r - weight
            elif r < -weight:
                x[j] = r + weight
            else:
                x[j] = 0.0
        if abs(x - before).max() < 1e-14:
            break
    return x


@program((np.array([2.0, 1.0]),), (np.array([-3.0, 0.2]),), (np.array([0.1, 0.1]),), apart=(0, 1, 2))
def trust_region(x):
    radius, turns = 1.0, 0
    f = lambda x: np.log1p(x @ x) + 0.1 * x[0]
    while turns < 25:
        g = 2.0 * x / (1.0 + x @ x) + np.array([0.1, 0.0])
        size = np.sqrt(g @ g)
        if size < 1e-6:
            break
        step = -g if size < radius else -g * (radius / size)
        predicted, actual = -(g @ step), f(x) - f(x + step)
        ratio = actual / predicted
        if ratio > 0.1:
            x = x + step
        if ratio > 0.75:
            radius = min(2.0 * radius, 4.0)
        elif ratio < 0.25:
            radius = 0.25 * radius
        turns += 1
    return x


@program(*[(draws(i, 3, 2, low=-2.0, high=2.0),) for i in range(3)], apart=(0, 1, 2))
def nelder_mead(simplex):
    """Some turns of it, points kept in a list that is sorted by value."""
    f = lambda p: (p[0] - 0.3) ** 2 + 2.0 * (p[1] + 0.1) ** 2 + 0.1 * p[0] * p[1]
    points = [simplex[i] for i in range(3)]
    for _ in range(8):
        points.sort(key=f)
        middle = 0.5 * (points[0] + points[1])
        mirrored = 2.0 * middle - points[2]
        if f(mirrored) < f(points[0]):
            further = 3.0 * middle - 2.0 * points[2]
            points[2] = further if f(further) < f(mirrored) else mirrored
        elif f(mirrored) < f(points[1]):
            points[2] = mirrored
        else:
            inner = 0.5 * (middle + points[2])
            if f(inner) < f(points[2]):
                points[2] = inner
            else:
                points = [points[0], *[0.5 * (points[0] + p) for p in points[1:]]]
    return points[0]


@program((np.array([0.5, 1.0, 1.5]), 0.4), (np.array([0.1, 0.1, 9.0]), 2.0), (np.array([-1.0, 0.2, 0.3]), 1.0))
def projection_onto_simplex(v, total):
    """Values in falling order, until the threshold is above the next."""
    order = np.sort(v)[::-1]
    running = 0.0
    threshold = 0.0
    for k, u in enumerate(order):
        running = running + u
        candidate = (running - total) / (k + 1)
        if u > candidate:
            threshold = candidate
        else:
            break
    return np.maximum(v - threshold, 0.0)


@program((2.0, 0.5), (0.3, 1.0), (5.0, 2.0), (1.0, 0.01))
def water_filling(power, noise):
    """Channels are closed one by one until none has negative power."""
    levels = [noise * (k + 1.0) for k in range(4)]
    while True:
        level = (power + sum(levels)) / len(levels)
        if level > levels[-1] or len(levels) == 1:
            return sum([np.log(level / n) for n in levels]), len(levels)
        levels.pop()
