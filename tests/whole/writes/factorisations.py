"""Factorisations and solvers, most of them in place."""

from __future__ import annotations

import numpy as np

from tests.whole.writes.program import normal, program, symmetric, uniform, well_conditioned


@program(well_conditioned(5))
def lu(a):
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, a.shape[0]):
            a[i, j] -= a[i, :i] @ a[:i, j]


@program(well_conditioned(5), uniform(5))
def ludcmp(a, b):
    n = a.shape[0]
    x = np.zeros_like(b)
    y = np.zeros_like(b)
    for i in range(n):
        for j in range(i):
            w = a[i, j]
            for k in range(j):
                w -= a[i, k] * a[k, j]
            a[i, j] = w / a[j, j]
        for j in range(i, n):
            w = a[i, j]
            for k in range(i):
                w -= a[i, k] * a[k, j]
            a[i, j] = w
    for i in range(n):
        y[i] = b[i] - a[i, :i] @ y[:i]
    for i in range(n - 1, -1, -1):
        x[i] = (y[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return x, y


@program(symmetric(4))
def cholesky(a):
    a[0, 0] = np.sqrt(a[0, 0])
    for i in range(1, a.shape[0]):
        for j in range(i):
            a[i, j] -= np.dot(a[i, :j], a[j, :j])
            a[i, j] /= a[j, j]
        a[i, i] -= np.dot(a[i, :i], a[i, :i])
        a[i, i] = np.sqrt(a[i, i])


@program(symmetric(4))
def cholesky2(a):
    a[:] = np.linalg.cholesky(0.5 * (a + a.T)) + np.triu(a, k=1)


@program(uniform(5, low=-0.3, high=0.3))
def durbin(r):
    y = np.empty_like(r)
    alpha = -r[0]
    beta = 1.0
    y[0] = -r[0]
    for k in range(1, r.shape[0]):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return y


@program(uniform(5), uniform(6) + 3.0, uniform(5), uniform(6))
def thomas(lower, diagonal, upper, b):
    """A tridiagonal system; the solution replaces b, the diagonal is spent."""
    for i in range(1, len(b)):
        w = lower[i - 1] / diagonal[i - 1]
        diagonal[i] -= w * upper[i - 1]
        b[i] -= w * b[i - 1]
    b[-1] /= diagonal[-1]
    for i in range(len(b) - 2, -1, -1):
        b[i] = (b[i] - upper[i] * b[i + 1]) / diagonal[i]


@program(normal(5, 3))
def householder(a):
    """R over the reflectors, all in the memory of A; their factors are returned."""
    m, n = a.shape
    tau = np.zeros(n)
    for k in range(n):
        x = a[k:, k]
        norm = np.sqrt(np.sum(x * x))
        top = x[0] + np.sign(x[0]) * norm
        tau[k] = top / (np.sign(x[0]) * norm)
        head = -np.sign(x[0]) * norm
        x[1:] /= top
        v = np.concatenate([np.ones(1), x[1:]])
        rest = a[k:, k + 1 :]
        rest -= tau[k] * np.outer(v, v @ rest)
        x[0] = head
    return tau


@program(well_conditioned(4))
def gauss_jordan(a):
    n = a.shape[0]
    both = np.hstack([a, np.eye(n)])
    for i in range(n):
        both[i] /= both[i, i]
        for j in range(n):
            if j != i:
                both[j] -= both[j, i] * both[i]
    a[...] = both[:, n:]
    return a


@program(symmetric(4))
def ldl(a):
    n = len(a)
    lower, d = np.eye(n), np.zeros(n)
    for j in range(n):
        d[j] = a[j, j] - np.sum(lower[j, :j] ** 2 * d[:j])
        for i in range(j + 1, n):
            lower[i, j] = (a[i, j] - np.sum(lower[i, :j] * lower[j, :j] * d[:j])) / d[j]
    return lower, d


@program(normal(4, 3))
def givens(a):
    m, n = a.shape
    q = np.eye(m)
    for j in range(n):
        for i in range(m - 1, j, -1):
            r = np.hypot(a[i - 1, j], a[i, j])
            c, s = a[i - 1, j] / r, a[i, j] / r
            turn = np.empty((2, 2))
            turn[0, 0] = turn[1, 1] = c
            turn[0, 1], turn[1, 0] = s, -s
            a[i - 1 : i + 1] = turn @ a[i - 1 : i + 1]
            q[i - 1 : i + 1] = turn @ q[i - 1 : i + 1]
    return q


@program(symmetric(4), 6)
def power_iteration(a, steps):
    v = np.ones(len(a))
    w = np.empty_like(v)
    for _ in range(steps):
        np.dot(a, v, out=w)
        w /= np.sqrt(np.sum(w * w))
        v, w = w, v
    return v @ a @ v


@program(symmetric(4), uniform(4), 3)
def conjugate_gradients(a, b, steps):
    x = np.zeros_like(b)
    r = b.copy()
    p = r.copy()
    rr = r @ r
    for _ in range(steps):
        ap = a @ p
        step = rr / (p @ ap)
        x += step * p
        r -= step * ap
        new = r @ r
        p *= new / rr
        p += r
        rr = new
    return x


@program(well_conditioned(4), uniform(4), np.zeros(4), 3)
def gauss_seidel(a, b, x, sweeps):
    for _ in range(sweeps):
        for i in range(len(b)):
            x[i] = (b[i] - a[i, :i] @ x[:i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]


@program(well_conditioned(4), uniform(4), 1.2)
def relaxation(a, b, omega):
    """Successive over-relaxation, with a residual that is kept up to date."""
    x = np.zeros(len(b))
    residual = b.copy()
    for i in [0, 1, 2, 3, 0, 1, 2, 3]:
        step = omega * residual[i] / a[i, i]
        x[i] += step
        residual -= step * a[:, i]
    return x, residual


def _forward_substitution(lower, b):
    for i in range(len(b)):
        b[i] -= lower[i, :i] @ b[:i]
        b[i] /= lower[i, i]


def _backward_substitution(upper, b):
    for i in reversed(range(len(b))):
        b[i] -= upper[i, i + 1 :] @ b[i + 1 :]
        b[i] /= upper[i, i]


@program(symmetric(4), uniform(4, 2))
def solve_with_helpers(a, rhs):
    """Helpers write into views of their caller's arrays."""
    factor = np.linalg.cholesky(0.5 * (a + a.T))
    for j in range(rhs.shape[1]):
        _forward_substitution(factor, rhs[:, j])
        _backward_substitution(factor.T, rhs[:, j])


@program(well_conditioned(4)[::-1].copy(), uniform(4), asks=True)
def partial_pivots(a, b):
    n = len(b)
    for k in range(n):
        pivot = k + int(np.argmax(np.abs(a[k:, k])))
        if pivot != k:
            a[[k, pivot]] = a[[pivot, k]]
            b[[k, pivot]] = b[[pivot, k]]
        for i in range(k + 1, n):
            factor = a[i, k] / a[k, k]
            a[i, k:] -= factor * a[k, k:]
            b[i] -= factor * b[k]
    _backward_substitution(a, b)
    return b


@program(symmetric(3), 2)
def jacobi_eigenvalues(a, sweeps):
    n = len(a)
    vectors = np.eye(n)
    for _ in range(sweeps):
        for p in range(n - 1):
            for q in range(p + 1, n):
                angle = 0.5 * np.arctan2(2 * a[p, q], a[q, q] - a[p, p])
                turn = np.eye(n)
                turn[p, p] = turn[q, q] = np.cos(angle)
                turn[p, q] = np.sin(angle)
                turn[q, p] = -turn[p, q]
                a[:] = turn.T @ a @ turn
                vectors[:] = vectors @ turn
    return vectors


@program(symmetric(5), uniform(5), 2)
def lanczos(a, start, steps):
    basis = np.zeros((steps + 1, len(start)))
    alpha, beta = np.zeros(steps), np.zeros(steps + 1)
    basis[0] = start / np.linalg.norm(start)
    for j in range(steps):
        w = a @ basis[j]
        if j > 0:
            w -= beta[j] * basis[j - 1]
        alpha[j] = w @ basis[j]
        w -= alpha[j] * basis[j]
        beta[j + 1] = np.linalg.norm(w)
        basis[j + 1] = w / beta[j + 1]
    return alpha, beta, basis


@program(uniform(4), uniform(4))
def newtons_differences(x, y):
    """Divided differences, over the values."""
    x += np.arange(4.0)
    for k in range(1, len(y)):
        y[k:] = (y[k:] - y[k - 1 : -1]) / (x[k:] - x[:-k])
    result = np.zeros(())
    for k in range(len(y) - 1, -1, -1):
        result *= 0.37 - x[k]
        result += y[k]
    return result


@program(uniform(4), uniform(4))
def polynomial_product(p, q):
    out = np.zeros(len(p) + len(q) - 1)
    for i, c in enumerate(p):
        out[i : i + len(q)] += c * q
    return out
