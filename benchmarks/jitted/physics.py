"""Particles and grids: Lorenz, n-body, molecules, heat, waves, FDTD, lattice Boltzmann, shallow water, conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.jitted.program import Library, Program, draws


def lorenz(lib: Library) -> Callable[..., Any]:
    """A thousand Euler steps of three numbers."""

    def path(params: Any) -> Any:
        a, b, c = params[0], params[1], params[2]

        def step(_: Any, state: Any) -> Any:
            x, y, z = state
            return x + 0.005 * a * (y - x), y + 0.005 * (x * (b - z) - y), z + 0.005 * (x * y - c * z)

        one = 0.0 * a + 1.0
        x, y, z = lib.lax.fori_loop(0, 1000, step, (one, one, one))
        return x * x + y * y + z * z

    return path


def lorenz_data(dtype: Any) -> tuple:
    return (numpy.array([10.0, 14.0, 2.7], dtype),)


def bodies(lib: Library) -> Callable[..., Any]:
    """Forty steps of 48 bodies."""
    np = lib.np

    def energy(places: Any, speeds: Any, masses: Any) -> Any:
        def pull(x: Any) -> Any:
            away = x[None, :, :] - x[:, None, :]
            cubes = (np.sum(away * away, axis=2) + 0.01) ** -1.5
            return np.sum(away * (cubes * masses[None, :])[:, :, None], axis=1)

        def step(state: Any, _: Any) -> Any:
            x, v = state
            v = v + 0.01 * pull(x)
            return (x + 0.01 * v, v), None

        x, v = lib.lax.scan(step, (places, speeds), None, length=40)[0]
        return np.sum(masses[:, None] * v * v) + np.sum(x * x)

    return energy


def bodies_data(dtype: Any) -> tuple:
    draw = draws(21, dtype)
    return draw(48, 3), draw(48, 3, scale=0.1), numpy.abs(draw(48))


def molecules(lib: Library) -> Callable[..., Any]:
    """The Lennard-Jones energy of pairs from a list of neighbours in a periodic box."""
    np = lib.np

    def energy(places: Any, left: Any, right: Any) -> Any:
        away = places[left] - places[right]
        away = away - 10.0 * np.round(away / 10.0)
        squares = np.sum(away * away, axis=1) + 0.3
        sixth = 1.0 / (squares * squares * squares)
        return np.sum(np.where(squares < 9.0, 4.0 * (sixth * sixth - sixth), 0.0))

    return energy


def molecules_data(dtype: Any) -> tuple:
    random = numpy.random.default_rng(22)
    left, right = random.integers(0, 500, (2, 10_000))
    apart = left != right
    return random.uniform(0.0, 10.0, (500, 3)).astype(dtype), left[apart], right[apart]


def heat(lib: Library) -> Callable[..., Any]:
    """Fifty steps on a grid, the inside written by slices."""
    np = lib.np

    def spread(u: Any) -> Any:
        def step(_: Any, u: Any) -> Any:
            inside = u[1:-1, 1:-1]
            change = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * inside
            return u.at[1:-1, 1:-1].set(inside + 0.2 * change)

        u = lib.lax.fori_loop(0, 50, step, u)
        return np.sum(u * u)

    return spread


def wave(lib: Library) -> Callable[..., Any]:
    """Two hundred steps on a ring, by rolls."""
    np = lib.np

    def spread(u: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            old, u = state
            return u, 2.0 * u - old + 0.25 * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1))

        u = lib.lax.fori_loop(0, 200, step, (u, u))[1]
        return np.sum(u * u)

    return spread


def fields(lib: Library) -> Callable[..., Any]:
    """FDTD in two dimensions, a source as the parameter: 60 steps."""
    np = lib.np

    def power(source: Any, permittivity: Any) -> Any:
        zero = 0.0 * permittivity

        def step(state: Any, s: Any) -> Any:
            e, hx, hy = state
            hx = hx - 0.5 * (np.roll(e, -1, axis=1) - e)
            hy = hy + 0.5 * (np.roll(e, -1, axis=0) - e)
            curl = hy - np.roll(hy, 1, axis=0) - hx + np.roll(hx, 1, axis=1)
            e = (e + 0.5 * curl / permittivity).at[20, 20].add(s)
            return (e, hx, hy), e[40, 40] ** 2

        return np.sum(lib.lax.scan(step, (zero, zero, zero), source)[1])

    return power


def boltzmann(lib: Library) -> Callable[..., Any]:
    """The lattice method with nine speeds: twenty collisions and streamings."""
    np = lib.np
    moves = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
    weights = [4 / 9, *[1 / 9] * 4, *[1 / 36] * 4]

    def flow(density: Any) -> Any:
        def step(_: Any, f: Any) -> Any:
            rho = np.sum(f, axis=0)
            ux = (f[1] - f[3] + f[5] - f[6] - f[7] + f[8]) / rho
            uy = (f[2] - f[4] + f[5] + f[6] - f[7] - f[8]) / rho
            square = 1.5 * (ux * ux + uy * uy)
            parts = []
            for i, ((x, y), w) in enumerate(zip(moves, weights)):
                along = 3.0 * (x * ux + y * uy)
                equal = w * rho * (1.0 + along + 0.5 * along * along - square)
                parts.append(np.roll(f[i] - 0.6 * (f[i] - equal), (x, y), axis=(0, 1)))
            return np.stack(parts)

        start = np.stack([w * density for w in weights])
        rho = np.sum(lib.lax.fori_loop(0, 20, step, start), axis=0)
        return np.sum(rho * rho)

    return flow


def shallow(lib: Library) -> Callable[..., Any]:
    """Forty steps of shallow water in conservation form on a torus."""
    np = lib.np

    def energy(depth: Any) -> Any:
        slope = lambda a, axis: 0.5 * (np.roll(a, -1, axis=axis) - np.roll(a, 1, axis=axis))
        near = lambda a: 0.25 * (np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1))

        def step(_: Any, state: Any) -> Any:
            h, p, q = state
            u, v = p / h, q / h
            change_h = slope(p, 0) + slope(q, 1)
            change_p = slope(p * u + 0.5 * h * h, 0) + slope(p * v, 1)
            change_q = slope(q * u, 0) + slope(q * v + 0.5 * h * h, 1)
            return near(h) - 0.1 * change_h, near(p) - 0.1 * change_p, near(q) - 0.1 * change_q

        h, p, q = lib.lax.fori_loop(0, 40, step, (depth, 0.0 * depth, 0.0 * depth))
        return np.sum((p * p + q * q) / h)

    return energy


def gradients(lib: Library) -> Callable[..., Any]:
    """Poisson's equation by sixty conjugate gradients, the matrix as a stencil by pads."""
    np = lib.np

    def solution(b: Any) -> Any:
        def product(x: Any) -> Any:
            y = np.pad(x, 1)
            return 4.0 * x - y[2:, 1:-1] - y[:-2, 1:-1] - y[1:-1, 2:] - y[1:-1, :-2]

        def step(_: Any, state: Any) -> Any:
            x, r, p, square = state
            q = product(p)
            alpha = square / np.sum(p * q)
            r = r - alpha * q
            new = np.sum(r * r)
            return x + alpha * p, r, r + new / square * p, new

        x = lib.lax.fori_loop(0, 60, step, (0.0 * b, b, b, np.sum(b * b)))[0]
        return np.sum(x * x)

    return solution


def grid(n: int, seed: int, lift: float = 0.0) -> Callable[[Any], tuple]:
    return lambda dtype: (lift + draws(seed, dtype)(n, n, scale=0.1),)


def fields_data(dtype: Any) -> tuple:
    return numpy.sin(0.3 * numpy.arange(60)).astype(dtype), 1.0 + numpy.abs(draws(24, dtype)(64, 64, scale=0.3))


PROGRAMS = [
    Program("Lorenz, 1,000 steps", lorenz, lorenz_data, tolerance=1e-5),
    Program("n-body, 48 x 40 steps", bodies, bodies_data),
    Program("molecules, neighbour list", molecules, molecules_data),
    Program("heat 256 x 256, slices, 50 steps", heat, grid(256, 25)),
    Program("wave of 2,000, rolls, 200 steps", wave, lambda dtype: (draws(26, dtype)(2000),)),
    Program("FDTD 64 x 64, 60 steps", fields, fields_data),
    Program("lattice Boltzmann 64 x 64, 20 steps", boltzmann, grid(64, 27, 1.0)),
    Program("shallow water 64 x 64, 40 steps", shallow, grid(64, 28, 1.0)),
    Program("conjugate gradients 64 x 64, 60", gradients, grid(64, 29), tolerance=1e-5),
]
