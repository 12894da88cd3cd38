"""Stencils, filters and fluids on small grids."""

from __future__ import annotations

import numpy as np

from tests.whole.writes.program import normal, program, uniform


@program(3, uniform(8), uniform(8))
def jacobi_1d(steps, a, b):
    for _ in range(1, steps):
        b[1:-1] = 0.33333 * (a[:-2] + a[1:-1] + a[2:])
        a[1:-1] = 0.33333 * (b[:-2] + b[1:-1] + b[2:])


@program(3, uniform(5, 5), uniform(5, 5))
def jacobi_2d(steps, a, b):
    for _ in range(1, steps):
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1])


@program(2, uniform(5, 5))
def seidel_2d(steps, a):
    n = len(a)
    for _ in range(steps):
        for i in range(1, n - 1):
            a[i, 1:-1] += a[i - 1, :-2] + a[i - 1, 1:-1] + a[i - 1, 2:] + a[i, 2:]
            a[i, 1:-1] += a[i + 1, :-2] + a[i + 1, 1:-1] + a[i + 1, 2:]
            for j in range(1, n - 1):
                a[i, j] += a[i, j - 1]
                a[i, j] /= 9.0


@program(2, uniform(4, 5, 4))
def heat_3d(steps, a):
    def sweep(old, new):
        inner = old[1:-1, 1:-1, 1:-1]
        new[1:-1, 1:-1, 1:-1] = (
            0.125 * (old[2:, 1:-1, 1:-1] - 2.0 * inner + old[:-2, 1:-1, 1:-1])
            + 0.125 * (old[1:-1, 2:, 1:-1] - 2.0 * inner + old[1:-1, :-2, 1:-1])
            + 0.125 * (old[1:-1, 1:-1, 2:] - 2.0 * inner + old[1:-1, 1:-1, :-2])
            + inner
        )

    b = a.copy()
    for _ in range(steps):
        sweep(a, b)
        sweep(b, a)


@program(3, uniform(4, 5), uniform(4, 5), uniform(4, 5), uniform(3))
def fdtd_2d(steps, ex, ey, hz, source):
    for t in range(steps):
        ey[0, :] = source[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


@program(2, uniform(5, 5))
def adi(steps, u):
    n = len(u)
    v, p, q = np.zeros_like(u), np.zeros_like(u), np.zeros_like(u)
    a, b, c, d, e, f = -0.4, 1.8, -0.4, -0.3, 1.6, -0.3
    for _ in range(steps):
        v[0, 1 : n - 1] = 1.0
        p[1 : n - 1, 0] = 0.0
        q[1 : n - 1, 0] = v[0, 1 : n - 1]
        for j in range(1, n - 1):
            p[1 : n - 1, j] = -c / (a * p[1 : n - 1, j - 1] + b)
            q[1 : n - 1, j] = (
                -d * u[j, : n - 2] + (1.0 + 2.0 * d) * u[j, 1 : n - 1] - f * u[j, 2:] - a * q[1 : n - 1, j - 1]
            ) / (a * p[1 : n - 1, j - 1] + b)
        v[n - 1, 1 : n - 1] = 1.0
        for j in range(n - 2, 0, -1):
            v[j, 1 : n - 1] = p[1 : n - 1, j] * v[j + 1, 1 : n - 1] + q[1 : n - 1, j]
        u[1 : n - 1, 0] = 1.0
        p[1 : n - 1, 0] = 0.0
        q[1 : n - 1, 0] = u[1 : n - 1, 0]
        for j in range(1, n - 1):
            p[1 : n - 1, j] = -f / (d * p[1 : n - 1, j - 1] + e)
            q[1 : n - 1, j] = (
                -a * v[: n - 2, j] + (1.0 + 2.0 * a) * v[1 : n - 1, j] - c * v[2:, j] - d * q[1 : n - 1, j - 1]
            ) / (d * p[1 : n - 1, j - 1] + e)
        u[1 : n - 1, n - 1] = 1.0
        for j in range(n - 2, 0, -1):
            u[1 : n - 1, j] = p[1 : n - 1, j] * u[1 : n - 1, j + 1] + q[1 : n - 1, j]


@program(normal(8, 8, 2), np.zeros((4, 4, 2)), uniform(4, 4, 2), smooth=False)
def hdiff(field, out, coefficient):
    """Horizontal diffusion with flux limiters."""
    n = out.shape[0]
    lap = 4.0 * field[1:-1, 1:-1] - (field[2:, 1:-1] + field[:-2, 1:-1] + field[1:-1, 2:] + field[1:-1, :-2])
    flx = lap[1:, 1:-1] - lap[:-1, 1:-1]
    flx[:] = np.where(flx * (field[2 : n + 3, 2:-2] - field[1 : n + 2, 2:-2]) > 0, 0, flx)
    fly = lap[1:-1, 1:] - lap[1:-1, :-1]
    fly[fly * (field[2:-2, 2 : n + 3] - field[2:-2, 1 : n + 2]) > 0] = 0
    out[:, :, :] = field[2:-2, 2:-2] - coefficient * (flx[1:] - flx[:-1] + fly[:, 1:] - fly[:, :-1])


@program(uniform(2, 3, 4), uniform(3, 3, 4), uniform(2, 3, 4), uniform(2, 3, 4), uniform(2, 3, 4))
def vadv(stage, con, u, position, tendency):
    """Vertical advection: a tridiagonal system per column, level by level."""
    levels = u.shape[-1]
    c, d = np.empty(u.shape), np.empty(u.shape)
    column = np.empty(u.shape[:2])
    for k in range(levels - 1):
        flow = 0.25 * (con[1:, :, k + 1] + con[:-1, :, k + 1])
        upper = flow * 0.5
        lower = -0.25 * (con[1:, :, k] + con[:-1, :, k]) * 0.5 if k else np.zeros(u.shape[:2])
        diagonal = 3.0 - lower - upper
        correction = -lower * (u[:, :, k - 1] - u[:, :, k]) - upper * (u[:, :, k + 1] - u[:, :, k])
        d[:, :, k] = 3.0 * position[:, :, k] + tendency[:, :, k] + stage[:, :, k] + correction
        if k:
            divided = 1.0 / (diagonal - c[:, :, k - 1] * lower)
            c[:, :, k] = upper * divided
            d[:, :, k] = (d[:, :, k] - d[:, :, k - 1] * lower) * divided
        else:
            c[:, :, 0] = upper / diagonal
            d[:, :, 0] = d[:, :, 0] / diagonal
    d[:, :, levels - 1] = (position[:, :, levels - 1] - 0.3 * d[:, :, levels - 2]) / (2.0 - 0.3 * c[:, :, levels - 2])
    for k in range(levels - 1, -1, -1):
        if k == levels - 1:
            column[:] = d[:, :, k]
        else:
            column[:] = d[:, :, k] - c[:, :, k] * column
        tendency[:, :, k] = 2.0 * (column - position[:, :, k])


@program(0.25, uniform(4, 5))
def deriche(alpha, image):
    k = (1.0 - np.exp(-alpha)) ** 2 / (1.0 + 2.0 * alpha * np.exp(-alpha) - np.exp(2.0 * alpha))
    a1, a2 = k, k * np.exp(-alpha) * (alpha - 1.0)
    a3, a4 = k * np.exp(-alpha) * (alpha + 1.0), -k * np.exp(-2.0 * alpha)
    b1, b2 = 2.0**-alpha, -np.exp(-2.0 * alpha)
    y1 = np.empty_like(image)
    y1[:, 0] = a1 * image[:, 0]
    y1[:, 1] = a1 * image[:, 1] + a2 * image[:, 0] + b1 * y1[:, 0]
    for j in range(2, image.shape[1]):
        y1[:, j] = a1 * image[:, j] + a2 * image[:, j - 1] + b1 * y1[:, j - 1] + b2 * y1[:, j - 2]
    y2 = np.empty_like(image)
    y2[:, -1] = 0.0
    y2[:, -2] = a3 * image[:, -1]
    for j in range(image.shape[1] - 3, -1, -1):
        y2[:, j] = a3 * image[:, j + 1] + a4 * image[:, j + 2] + b1 * y2[:, j + 1] + b2 * y2[:, j + 2]
    return y1 + y2


def _pressure(p, dx, dy, b, rounds):
    pn = np.empty_like(p)
    for _ in range(rounds):
        pn[:] = p.copy()
        p[1:-1, 1:-1] = ((pn[1:-1, 2:] + pn[1:-1, :-2]) * dy**2 + (pn[2:, 1:-1] + pn[:-2, 1:-1]) * dx**2) / (
            2 * (dx**2 + dy**2)
        ) - dx**2 * dy**2 / (2 * (dx**2 + dy**2)) * b[1:-1, 1:-1]
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0


def _source(b, rho, dt, u, v, dx, dy):
    ux, vy = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * dx), (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * dy)
    uy, vx = (u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * dy), (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * dx)
    b[1:-1, 1:-1] = rho * ((ux + vy) / dt - ux**2 - 2 * uy * vx - vy**2)


@program(2, uniform(5, 5), uniform(5, 5), uniform(5, 5), 0.01, 0.5, 0.5, 1.0, 0.1)
def cavity_flow(steps, u, v, p, dt, dx, dy, rho, nu):
    un, vn, b = np.empty_like(u), np.empty_like(v), np.zeros(u.shape)
    for _ in range(steps):
        un[:] = u.copy()
        vn[:] = v.copy()
        _source(b, rho, dt, u, v, dx, dy)
        _pressure(p, dx, dy, b, 2)
        for new, old, slope in ((u, un, (p[1:-1, 2:] - p[1:-1, :-2]) / dx), (v, vn, (p[2:, 1:-1] - p[:-2, 1:-1]) / dy)):
            inner = old[1:-1, 1:-1]
            new[1:-1, 1:-1] = (
                inner
                - un[1:-1, 1:-1] * dt / dx * (inner - old[1:-1, :-2])
                - vn[1:-1, 1:-1] * dt / dy * (inner - old[:-2, 1:-1])
                - dt / (2 * rho) * slope
                + nu * dt * (old[1:-1, 2:] + old[1:-1, :-2] + old[2:, 1:-1] + old[:-2, 1:-1] - 4 * inner)
            )
        u[0, :] = u[:, 0] = u[:, -1] = 0
        u[-1, :] = 1
        v[0, :] = v[-1, :] = v[:, 0] = v[:, -1] = 0


@program(uniform(4, 5), uniform(4, 5), 0.01, 0.3, asks=True)
def channel_flow(u, p, dt, force):
    """Runs until the flow is steady; a periodic channel with walls."""
    difference, steps = 1.0, 0
    while difference > 0.02:
        un = u.copy()
        u[1:-1, 1:-1] = un[1:-1, 1:-1] + dt * (force + un[1:-1, 2:] + un[1:-1, :-2] - 2 * un[1:-1, 1:-1] - p[1:-1, 1:-1])
        u[1:-1, -1] = un[1:-1, -1] + dt * (force + un[1:-1, 0] + un[1:-1, -2] - 2 * un[1:-1, -1])
        u[1:-1, 0] = un[1:-1, 0] + dt * (force + un[1:-1, 1] + un[1:-1, -1] - 2 * un[1:-1, 0])
        u[0, :] = 0
        u[-1, :] = 0
        difference = abs(np.sum(u) - np.sum(un)) / np.sum(u)
        steps += 1
        if steps > 20:
            break
    return steps


@program(uniform(1, 5, 5, 2), uniform(2, 2, 2, 3), uniform(3))
def conv2d_bias(images, weights, bias):
    size = weights.shape[0]
    n, h, w = images.shape[0], images.shape[1] - size + 1, images.shape[2] - size + 1
    out = np.empty((n, h, w, weights.shape[3]))
    for i in range(h):
        for j in range(w):
            patch = images[:, i : i + size, j : j + size, :, np.newaxis]
            out[:, i, j, :] = np.sum(patch * weights[np.newaxis], axis=(1, 2, 3))
    out += bias
    return out


@program(uniform(8), uniform(8), 0.3, 3)
def wave_equation(old, now, courant, steps):
    """Leapfrog with three buffers that change places."""
    new = np.zeros_like(now)
    for _ in range(steps):
        new[1:-1] = 2 * now[1:-1] - old[1:-1] + courant**2 * (now[2:] - 2 * now[1:-1] + now[:-2])
        new[0] = new[-1] = 0.0
        old, now, new = now, new, old
    return now, old


@program(normal(7), 0.1, 3, smooth=False)
def upwind(u, dt, steps):
    for _ in range(steps):
        flux = np.zeros(len(u) + 1)
        flux[1:-1] = np.where(u[:-1] + u[1:] > 0, u[:-1] ** 2, u[1:] ** 2) / 2
        flux[0], flux[-1] = flux[-2], flux[1]
        u -= dt * np.diff(flux)


@program(uniform(6), 2)
def periodic_advection(u, steps):
    for _ in range(steps):
        half = 0.5 * (u + np.roll(u, -1)) - 0.2 * (np.roll(u, -1) ** 2 - u**2)
        u[:] = u - 0.4 * (half**2 - np.roll(half, 1) ** 2)


@program(uniform(4, 4), normal(3, 3))
def filter_with_borders(image, kernel):
    """A border of copies around the picture, written side by side and corner by corner."""
    h, w = image.shape
    padded = np.empty((h + 2, w + 2))
    padded[1:-1, 1:-1] = image
    padded[0, 1:-1], padded[-1, 1:-1] = image[0], image[-1]
    padded[:, 0], padded[:, -1] = padded[:, 1], padded[:, -2]
    out = np.zeros_like(image)
    for di in range(3):
        for dj in range(3):
            out += kernel[di, dj] * padded[di : di + h, dj : dj + w]
    return out


@program(uniform(6, 6), 2)
def red_black(u, sweeps):
    """Points of a chessboard, one colour after the other, by strided slices."""
    for _ in range(sweeps):
        for start in (1, 2):
            for i in range(1, 5):
                j = 1 + (i + start) % 2
                row = u[i, j:-1:2]
                row[...] = 0.25 * (u[i - 1, j:-1:2] + u[i + 1, j:-1:2] + u[i, j - 1 : -2 : 2] + u[i, j + 1 :: 2])


@program(uniform(9), 2)
def multigrid(b, cycles):
    """A correction from every other point, interpolated back."""
    u = np.zeros_like(b)
    for _ in range(cycles):
        residual = np.zeros_like(u)
        residual[1:-1] = b[1:-1] - (2 * u[1:-1] - u[:-2] - u[2:])
        coarse = residual[::2].copy()
        coarse[1:-1] *= 0.5
        fine = np.zeros_like(u)
        fine[::2] = coarse
        fine[1::2] = 0.5 * (coarse[:-1] + coarse[1:])
        u += fine
    return u


@program(uniform(5, 4), 2, smooth=False)
def erosion(terrain, steps):
    """Material slides to the lower neighbour."""
    for _ in range(steps):
        step = terrain[1:] - terrain[:-1]
        moved = np.zeros_like(terrain)
        slide = 0.2 * np.maximum(step - 0.1, 0.0)
        moved[1:] -= slide
        moved[:-1] += slide
        np.add(terrain, moved, out=terrain)
