"""The kernels of loop_kernels.py as users of JAX rewrite them: `fori_loop`, masks in place of triangles, `at[...].set`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as np
from jax.lax import conv_general_dilated, dynamic_index_in_dim, fori_loop, scan

__all__ = ["KERNELS"]


def _till(n: int, i: Any) -> Any:
    """Which of n elements stand before i?"""
    return np.arange(n) < i


def _triangle(c: Any, beta: Any, row: Any) -> Any:
    """The lower triangle, scaled, with a row added to each of its rows."""
    n = c.shape[0]
    at = lambda i, c: c.at[i].set(np.where(_till(n, i + 1), c[i] * beta + row(i), c[i]))
    return fori_loop(0, n, at, c)


def trmm(alpha: float, a: Any, b: Any) -> Any:
    n = b.shape[0]
    at = lambda i, b: b.at[i].add(np.where(_till(n, i + 1), 0.0, a[:, i]) @ b)
    return fori_loop(0, n, at, b) * alpha


def symm(alpha: float, beta: float, c: Any, a: Any, b: Any) -> Any:
    n = c.shape[0]

    def at(i: Any, c: Any) -> Any:
        row = np.where(_till(n, i), a[i], 0.0)
        c = c + alpha * np.outer(row, b[i])
        return c.at[i].add(alpha * b[i] * a[i, i] + alpha * (row @ b))

    return fori_loop(0, n, at, c * beta)


def syrk(alpha: float, beta: float, c: Any, a: Any) -> Any:
    return _triangle(c, beta, lambda i: alpha * (a @ a[i]))


def syr2k(alpha: float, beta: float, c: Any, a: Any, b: Any) -> Any:
    return _triangle(c, beta, lambda i: alpha * (a @ b[i] + b @ a[i]))


def trisolv(lower: Any, x: Any, b: Any) -> Any:
    n = x.shape[0]
    at = lambda i, x: x.at[i].set((b[i] - np.where(_till(n, i), lower[i], 0.0) @ x) / lower[i, i])
    return fori_loop(0, n, at, x)


def cholesky(a: Any) -> Any:
    n = a.shape[0]

    def of_row(i: Any, a: Any) -> Any:
        def at(j: Any, a: Any) -> Any:
            found = (a[i, j] - np.where(_till(n, j), a[i], 0.0) @ a[j]) / a[j, j]
            return a.at[i, j].set(found)

        a = fori_loop(0, n, lambda j, a: jax.lax.cond(j < i, lambda a: at(j, a), lambda a: a, a), a)
        left = np.where(_till(n, i), a[i], 0.0)
        return a.at[i, i].set(np.sqrt(a[i, i] - left @ left))

    return np.tril(fori_loop(0, n, of_row, a))


def lu(a: Any) -> Any:
    n = a.shape[0]

    def of_row(i: Any, a: Any) -> Any:
        def at(j: Any, a: Any) -> Any:
            below = np.minimum(i, j)
            found = a[i, j] - np.where(_till(n, below), a[i], 0.0) @ a[:, j]
            return a.at[i, j].set(np.where(j < i, found / a[j, j], found))

        return fori_loop(0, n, at, a)

    return fori_loop(0, n, of_row, a)


def ludcmp(a: Any, b: Any) -> Any:
    n = a.shape[0]
    a = lu(a)
    y = fori_loop(0, n, lambda i, y: y.at[i].set(b[i] - np.where(_till(n, i), a[i], 0.0) @ y), np.zeros_like(b))

    def back(k: Any, x: Any) -> Any:
        i = n - 1 - k
        return x.at[i].set((y[i] - np.where(_till(n, i + 1), 0.0, a[i]) @ x) / a[i, i])

    return fori_loop(0, n, back, np.zeros_like(b)), y


def gramschmidt(a: Any) -> Any:
    n = a.shape[1]

    def at(k: Any, state: Any) -> Any:
        a, q, r = state
        norm = np.sqrt(a[:, k] @ a[:, k])
        column = a[:, k] / norm
        row = np.where(_till(n, k + 1), 0.0, column @ a)
        return a - np.outer(column, row), q.at[:, k].set(column), r.at[k].set(row.at[k].set(norm))

    return fori_loop(0, n, at, (a, np.zeros_like(a), np.zeros((n, n))))[1:]


def durbin(r: Any) -> Any:
    n = r.shape[0]

    def at(k: Any, state: Any) -> Any:
        y, alpha, beta = state
        beta = beta * (1.0 - alpha * alpha)
        back = np.where(_till(n, k), np.roll(np.flip(r), k), 0.0)
        alpha = -(r[k] + back @ y) / beta
        y = y + alpha * np.where(_till(n, k), np.roll(np.flip(y), k), 0.0)
        return y.at[k].set(alpha), alpha, beta

    return fori_loop(1, n, at, (np.zeros_like(r).at[0].set(-r[0]), -r[0], 1.0))[0]


def _products(data: Any, start: Any, over: float, first: int) -> Any:
    m = data.shape[1]

    def at(i: Any, c: Any) -> Any:
        here = _till(m, i + first)
        row = data[:, i] @ data / over
        c = c.at[:, i].set(np.where(here, c[:, i], row))
        return c.at[i].set(np.where(here, c[i], row))

    return fori_loop(0, m + 1 - max(1, first + 1), at, start)


def covariance(n: float, data: Any) -> Any:
    m = data.shape[1]
    return _products(data - np.mean(data, axis=0), np.zeros((m, m)), n - 1.0, 0)


def correlation(data: Any) -> Any:
    std = np.std(data, axis=0)
    std = np.where(std <= 0.1, 1.0, std)
    return _products((data - np.mean(data, axis=0)) / (np.sqrt(data.shape[0]) * std), np.eye(data.shape[1]), 1.0, 1)


def spmv(rows: Any, columns: Any, values: Any, x: Any) -> Any:
    import numpy

    owners = numpy.repeat(numpy.arange(len(rows) - 1), numpy.diff(rows))
    return jax.ops.segment_sum(values * x[columns], owners, len(rows) - 1)


def azimint_naive(data: Any, radius: Any, npt: int) -> Any:
    rmax = radius.max()

    def at(_: Any, i: Any) -> Any:
        mask = (rmax * i / npt <= radius) & (radius < rmax * (i + 1) / npt)
        return None, np.sum(np.where(mask, data, 0.0)) / np.maximum(np.sum(mask), 1)

    return scan(at, None, np.arange(npt))[1]


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def jacobi_1d(steps: int, a: Any, b: Any) -> Any:
    mean = lambda x: 0.33333 * (x[:-2] + x[1:-1] + x[2:])

    def at(_: Any, state: Any) -> Any:
        a, b = state
        b = b.at[1:-1].set(mean(a))
        return a.at[1:-1].set(mean(b)), b

    return fori_loop(1, steps, at, (a, b))


def jacobi_2d(steps: int, a: Any, b: Any) -> Any:
    mean = lambda x: 0.2 * (x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1])

    def at(_: Any, state: Any) -> Any:
        a, b = state
        b = b.at[1:-1, 1:-1].set(mean(a))
        return a.at[1:-1, 1:-1].set(mean(b)), b

    return fori_loop(1, steps, at, (a, b))


def seidel_2d(steps: int, n: int, a: Any) -> Any:
    def of_row(i: Any, a: Any) -> Any:
        over, row, under = a[i - 1], a[i], a[i + 1]
        row = row.at[1:-1].add(over[:-2] + over[1:-1] + over[2:] + row[2:] + under[:-2] + under[1:-1])
        each = lambda left, x: ((left + x) / 9.0,) * 2
        return a.at[i, 1:-1].set(scan(each, row[0], row[1:-1])[1])

    return fori_loop(0, steps - 1, lambda _, a: fori_loop(1, n - 1, of_row, a), a)


def heat_3d(steps: int, a: Any, b: Any) -> Any:
    def step(x: Any) -> Any:
        c = x[1:-1, 1:-1, 1:-1]
        return (
            0.125 * (x[2:, 1:-1, 1:-1] - 2.0 * c + x[:-2, 1:-1, 1:-1])
            + 0.125 * (x[1:-1, 2:, 1:-1] - 2.0 * c + x[1:-1, :-2, 1:-1])
            + 0.125 * (x[1:-1, 1:-1, 2:] - 2.0 * c + x[1:-1, 1:-1, :-2])
            + c
        )

    def at(_: Any, state: Any) -> Any:
        a, b = state
        b = b.at[1:-1, 1:-1, 1:-1].set(step(a))
        return a.at[1:-1, 1:-1, 1:-1].set(step(b)), b

    return fori_loop(1, steps, at, (a, b))


def fdtd_2d(steps: int, ex: Any, ey: Any, hz: Any, given: Any) -> Any:
    def at(t: Any, state: Any) -> Any:
        ex, ey, hz = state
        ey = ey.at[0].set(given[t]).at[1:].add(-0.5 * (hz[1:] - hz[:-1]))
        ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
        return ex, ey, hz.at[:-1, :-1].add(-0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]))

    return fori_loop(0, steps, at, (ex, ey, hz))


def hdiff(field: Any, out: Any, coeff: Any) -> Any:
    n, m, _ = out.shape
    lap = 4.0 * field[1 : n + 3, 1 : m + 3] - (
        field[2 : n + 4, 1 : m + 3] + field[: n + 2, 1 : m + 3] + field[1 : n + 3, 2 : m + 4] + field[1 : n + 3, : m + 2]
    )
    res = lap[1:, 1 : m + 1] - lap[:-1, 1 : m + 1]
    flx = np.where(res * (field[2 : n + 3, 2 : m + 2] - field[1 : n + 2, 2 : m + 2]) > 0, 0, res)
    res = lap[1 : n + 1, 1:] - lap[1 : n + 1, :-1]
    fly = np.where(res * (field[2 : n + 2, 2 : m + 3] - field[2 : n + 2, 1 : m + 2]) > 0, 0, res)
    return field[2 : n + 2, 2 : m + 2] - coeff * (flx[1:] - flx[:-1] + fly[:, 1:] - fly[:, :-1])


def adi(steps: int, n: int, u: Any) -> Any:
    dx, dt = 1.0 / n, 1.0 / steps
    mul1, mul2 = 2.0 * dt / dx**2 / 10, dt / dx**2 / 10
    a = c = -mul1 / 2.0
    b, e = 1.0 + mul1, 1.0 + mul2
    d = f = -mul2 / 2.0

    def swept(right: Any, lower: float, middle: float, upper: float) -> Any:
        """The rows of the solution, first to last."""

        def down(state: Any, row: Any) -> Any:
            p, q = state
            under = lower * p + middle
            state = -upper / under, (row - lower * q) / under
            return state, state

        one = np.ones(right.shape[1])
        _, (p, q) = scan(down, (0 * one, one), right)
        up = lambda row, pq: (pq[0] * row + pq[1],) * 2
        return np.vstack([one, scan(up, one, (p, q), reverse=True)[1], one])

    def at(_: Any, u: Any) -> Any:
        right = (-d * u[:, :-2] + (1.0 + 2.0 * d) * u[:, 1:-1] - f * u[:, 2:])[1:-1]
        v = swept(right, a, b, c)  # of columns 1 to n - 1
        v = np.pad(v, ((0, 0), (1, 1)))
        right = (-a * v[:-2] + (1.0 + 2.0 * a) * v[1:-1] - c * v[2:])[:, 1:-1]
        return u.at[1:-1].set(swept(right.T, d, e, f).T)

    return fori_loop(1, steps + 1, at, u)


def _source(rho: Any, dt: float, u: Any, v: Any, dx: float, dy: float) -> Any:
    ux, uy = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * dx), (u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * dy)
    vx, vy = (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * dx), (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * dy)
    return rho * (1 / dt * (ux + vy) - ux**2 - 2 * (uy * vx) - vy**2)


def cavity_flow(
    nx: int, ny: int, nt: int, nit: int, u: Any, v: Any, dt: float, dx: float, dy: float, p: Any, rho: float, nu: float
) -> Any:
    inner = (slice(1, -1),) * 2

    def at(_: Any, state: Any) -> Any:
        un, vn, p = state
        b = _source(rho, dt, un, vn, dx, dy)

        def pressure(_: Any, p: Any) -> Any:
            found = ((p[1:-1, 2:] + p[1:-1, :-2]) * dy**2 + (p[2:, 1:-1] + p[:-2, 1:-1]) * dx**2) / (
                2 * (dx**2 + dy**2)
            ) - dx**2 * dy**2 / (2 * (dx**2 + dy**2)) * b
            p = p.at[inner].set(found)
            p = p.at[:, -1].set(p[:, -2])
            p = p.at[0].set(p[1])
            return p.at[:, 0].set(p[:, 1]).at[-1].set(0)

        p = fori_loop(0, nit, pressure, p)
        uc, vc = un[inner], vn[inner]
        u = (
            uc
            - uc * dt / dx * (uc - un[1:-1, :-2])
            - vc * dt / dy * (uc - un[:-2, 1:-1])
            - dt / (2 * rho * dx) * (p[1:-1, 2:] - p[1:-1, :-2])
            + nu * dt * (un[1:-1, 2:] - 4 * uc + un[1:-1, :-2] + un[2:, 1:-1] + un[:-2, 1:-1])
        )
        v = vc - uc * dt / dx * (vc - vn[1:-1, :-2]) - dt / (2 * rho * dy) * (p[2:, 1:-1] - p[:-2, 1:-1])
        u = un.at[inner].set(u).at[0].set(0).at[:, 0].set(0).at[:, -1].set(0).at[-1].set(1)
        return u, vn.at[inner].set(v).at[-1].set(0).at[0].set(0), p

    return fori_loop(0, nt, at, (u, v, p))


def vadv(utens_stage: Any, wcon: Any, u: Any, u_pos: Any, utens: Any, dtr: float) -> Any:
    last = u.shape[2] - 1
    first = lambda x: np.moveaxis(x, 2, 0)
    w = 0.25 * first(wcon[1:] + wcon[:-1])
    u, u_pos, tens = first(u), first(u_pos), first(utens + utens_stage)
    rest = dtr * u_pos + tens
    cs = w[1] * 0.5
    divided = 1.0 / (dtr - cs + 3.0)
    start = cs * divided, (rest[0] - cs * (u[1] - u[0])) * divided

    def down(state: Any, x: Any) -> Any:
        ccol, dcol = state
        w0, w1, before, here, after, rest = x
        acol, cs = -0.5 * w0, 0.5 * w1
        divided = 1.0 / (dtr - acol - cs + 3.0 - ccol * acol)
        found = rest - acol * (before - here) - cs * (after - here)
        state = cs * divided, (found - dcol * acol) * divided
        return state, state

    xs = w[1:last], w[2 : last + 1], u[: last - 1], u[1:last], u[2:], rest[1:last]
    end, (ccol, dcol) = scan(down, start, xs)
    ccol = np.concatenate([start[0][None], ccol])
    dcol = np.concatenate([start[1][None], dcol])
    up = lambda below, cd: (cd[1] - cd[0] * below,) * 2
    data = scan(up, dcol[-1], (ccol[:last], dcol[:last]), reverse=True)[1]
    return np.moveaxis(dtr * (np.concatenate([data, dcol[-1:]]) - u_pos), 0, 2)


def deriche(alpha: float, image: Any) -> Any:
    e = np.exp(-alpha)
    k = (1.0 - e) * (1.0 - e) / (1.0 + alpha * e - np.exp(2.0 * alpha))
    a1, a2, a3, a4 = k, k * e * (alpha - 1.0), k * e * (alpha + 1.0), -k * np.exp(-2.0 * alpha)
    b1, b2 = 2.0 ** (-alpha), -np.exp(-2.0 * alpha)

    def both(x: Any) -> Any:  # along the rows
        def swept(state: Any, x: Any) -> Any:
            one, two = state
            found = x + b1 * one + b2 * two
            return (found, one), found

        nothing = np.zeros(x.shape[1])
        right = a1 * x + a2 * np.vstack([nothing, x[:-1]])
        y1 = scan(swept, (nothing, nothing), right)[1]
        left = a3 * np.vstack([x[1:], nothing]) + a4 * np.vstack([x[2:], nothing, nothing])
        return y1 + scan(swept, (nothing, nothing), left, reverse=True)[1]

    return both(both(image.T).T)


def floyd_warshall(path: Any) -> Any:
    return fori_loop(0, path.shape[0], lambda k, p: np.minimum(p, p[:, k][:, None] + p[k, :]), path)


def go_fast(a: Any) -> Any:
    return a + np.sum(np.tanh(np.diagonal(a)))


def nbody(mass: Any, pos: Any, vel: Any, steps: int, dt: float, g: float, softening: float) -> Any:
    def apart(pos: Any) -> Any:
        return pos.T[:, None, :] - pos.T[:, :, None]

    def acceleration(pos: Any) -> Any:
        d = apart(pos)
        return ((g * d * (np.sum(d**2, axis=0) + softening**2) ** -1.5) @ mass).T

    def energy(pos: Any, vel: Any) -> Any:
        square = np.sum(apart(pos) ** 2, axis=0)
        there = square > 0
        inverse = np.where(there, 1.0 / np.sqrt(np.where(there, square, 1.0)), 0.0)
        return 0.5 * np.sum(mass[:, None] * vel**2), g * np.sum(np.triu(-np.outer(mass, mass) * inverse, 1))

    def step(state: Any, _: Any) -> Any:
        pos, vel, acc = state
        vel = vel + acc * dt / 2.0
        pos = pos + vel * dt
        acc = acceleration(pos)
        vel = vel + acc * dt / 2.0
        return (pos, vel, acc), energy(pos, vel)

    vel = vel - np.mean(mass[:, None] * vel, axis=0) / np.mean(mass)
    first = energy(pos, vel)
    _, rest = scan(step, (pos, vel, acceleration(pos)), None, length=steps)
    return tuple([np.concatenate([a[None], b]) for a, b in zip(first, rest)])


def _conv2d(x: Any, weights: Any) -> Any:
    return conv_general_dilated(x, weights, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def conv2d_bias(x: Any, weights: Any, bias: Any) -> Any:
    return _conv2d(x, weights) + bias


def _maxpool2d(x: Any) -> Any:
    n, h, w, c = x.shape
    return np.max(x[:, : h // 2 * 2, : w // 2 * 2].reshape(n, h // 2, 2, w // 2, 2, c), axis=(2, 4))


def lenet(x: Any, conv1: Any, bias1: Any, conv2: Any, bias2: Any, fc: Any, bias: Any, n: int, c: int) -> Any:
    x = _maxpool2d(jax.nn.relu(_conv2d(x, conv1) + bias1))
    x = _maxpool2d(jax.nn.relu(_conv2d(x, conv2) + bias2))
    return jax.nn.relu(x.reshape(n, c) @ fc + bias)


def mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return softmax(jax.nn.relu(x @ w1 + b1) @ w2 + b2)


def resnet(x: Any, conv1: Any, conv2: Any, conv3: Any) -> Any:
    normal = lambda x: (x - np.mean(x, axis=0, keepdims=True)) / np.sqrt(np.std(x, axis=0, keepdims=True) + 1e-5)
    y = jax.nn.relu(normal(np.pad(_conv2d(x, conv1), ((0, 0), (1, 1), (1, 1), (0, 0)))))
    return jax.nn.relu(normal(_conv2d(jax.nn.relu(normal(_conv2d(y, conv2))), conv3)) + x)


def scattering_self_energies(g: Any, dh: Any, neighbours: Any, d: Any, sigma: Any) -> Any:
    near = g[:, :, neighbours]  # k, E, a, b, orbital

    def of_energy(e: Any, sigma: Any) -> Any:
        def of_phonon(q: Any, sigma: Any) -> Any:
            here = dynamic_index_in_dim(near, np.maximum(e - q, 0), 1, False)
            found = np.sum(here * dh * d[q, :, :, 0, None], axis=2)
            return sigma.at[:, e % 2].add(np.where(e >= q, found, 0.0))

        return fori_loop(0, d.shape[0], of_phonon, sigma)

    return fori_loop(0, g.shape[1], of_energy, sigma)


KERNELS = {name: f for name, f in list(globals().items()) if callable(f) and getattr(f, "__module__", "") == __name__}
