"""Kernels of numerical Python as benchmarks collect them, in the forms in which people write them.

Those of NPBench by name, written anew from what they compute: in-place writes, slices with loop counters, `np.empty`, masks,
reductions. A kernel takes its arrays, writes into some of them, and gives its results; `KERNELS` says with which arguments it
is called, and whether its results have a derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Kernel(NamedTuple):
    f: Callable[..., Any]
    arguments: tuple[Any, ...]
    differentiable: bool = True


KERNELS: dict[str, Kernel] = {}
_rng = np.random.default_rng(54)


def kernel(*arguments: Any, differentiable: bool = True) -> Callable[[Any], Any]:
    """A function of a benchmark, with example arguments."""

    def note(f: Any) -> Any:
        KERNELS[f.__name__] = Kernel(f, arguments, differentiable)
        return f

    return note


def some(*shape: int) -> np.ndarray:
    return _rng.uniform(0.2, 1.2, shape)


def positive_definite(n: int) -> np.ndarray:
    a = some(n, n)
    return a @ a.T + n * np.eye(n)


def complex_of(*shape: int) -> np.ndarray:
    return some(*shape) + 1j * some(*shape)


# -- linear algebra


@kernel(1.5, 1.2, some(4, 5), some(4, 3), some(3, 5))
def gemm(alpha, beta, C, A, B):
    C[:] = alpha * A @ B + beta * C
    return C


@kernel(1.5, 1.2, some(3, 4), some(4, 2), some(2, 5), some(3, 5))
def k2mm(alpha, beta, A, B, C, D):
    D[:] = alpha * A @ B @ C + beta * D
    return D


@kernel(some(3, 4), some(4, 2), some(2, 5), some(5, 3))
def k3mm(A, B, C, D):
    return A @ B @ C @ D


@kernel(some(4, 3), some(3))
def atax(A, x):
    return (A @ x) @ A


@kernel(some(4, 3), some(3), some(4))
def bicg(A, p, r):
    return r @ A, A @ p


@kernel(1.5, 1.2, some(4, 4), some(4), some(4), some(4), some(4), some(4), some(4), some(4), some(4))
def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    A += np.multiply.outer(u1, v1) + np.multiply.outer(u2, v2)
    x += beta * y @ A + z
    w += alpha * A @ x
    return A, x, w


@kernel(1.5, 1.2, some(4, 4), some(4, 4), some(4))
def gesummv(alpha, beta, A, B, x):
    return alpha * A @ x + beta * B @ x


@kernel(some(4), some(4), some(4), some(4), some(4, 4))
def mvt(x1, x2, y1, y2, A):
    x1 += A @ y1
    x2 += y2 @ A
    return x1, x2


@kernel(1.5, 1.2, some(3, 4), some(3, 3), some(3, 4))
def symm(alpha, beta, C, A, B):
    temp2 = np.empty((C.shape[1],), dtype=C.dtype)
    C *= beta
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[:i, j] += alpha * B[i, j] * A[i, :i]
            temp2[j] = B[:i, j] @ A[i, :i]
        C[i, :] += alpha * B[i, :] * A[i, i] + alpha * temp2
    return C


@kernel(1.5, 1.2, some(4, 4), some(4, 3), some(4, 3))
def syr2k(alpha, beta, C, A, B):
    for i in range(A.shape[0]):
        C[i, : i + 1] *= beta
        for k in range(A.shape[1]):
            C[i, : i + 1] += A[: i + 1, k] * alpha * B[i, k] + B[: i + 1, k] * alpha * A[i, k]
    return C


@kernel(1.5, 1.2, some(4, 4), some(4, 3))
def syrk(alpha, beta, C, A):
    for i in range(A.shape[0]):
        C[i, : i + 1] *= beta
        for k in range(A.shape[1]):
            C[i, : i + 1] += alpha * A[i, k] * A[: i + 1, k]
    return C


@kernel(1.5, some(4, 4), some(4, 3))
def trmm(alpha, A, B):
    for i in range(B.shape[0]):
        for j in range(B.shape[1]):
            B[i, j] += np.dot(A[i + 1 :, i], B[i + 1 :, j])
    B *= alpha
    return B


@kernel(some(4, 4) + 2 * np.eye(4), some(4), some(4))
def trisolv(L, x, b):
    for i in range(x.shape[0]):
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]
    return x


@kernel(positive_definite(5))
def cholesky(A):
    A[0, 0] = np.sqrt(A[0, 0])
    for i in range(1, A.shape[0]):
        for j in range(i):
            A[i, j] -= np.dot(A[i, :j], A[j, :j])
            A[i, j] /= A[j, j]
        A[i, i] -= np.dot(A[i, :i], A[i, :i])
        A[i, i] = np.sqrt(A[i, i])
    return np.tril(A)


@kernel(positive_definite(5))
def cholesky2(A):
    A[:] = np.linalg.cholesky(A) + np.triu(A, k=1)
    return A


@kernel(positive_definite(5))
def lu(A):
    for i in range(A.shape[0]):
        for j in range(i):
            A[i, j] -= A[i, :j] @ A[:j, j]
            A[i, j] /= A[j, j]
        for j in range(i, A.shape[0]):
            A[i, j] -= A[i, :i] @ A[:i, j]
    return A


@kernel(positive_definite(5), some(5))
def ludcmp(A, b):
    x = np.zeros_like(b)
    y = np.zeros_like(b)
    for i in range(A.shape[0]):
        for j in range(i):
            A[i, j] -= A[i, :j] @ A[:j, j]
            A[i, j] /= A[j, j]
        for j in range(i, A.shape[0]):
            A[i, j] -= A[i, :i] @ A[:i, j]
    for i in range(A.shape[0]):
        y[i] = b[i] - A[i, :i] @ y[:i]
    for i in range(A.shape[0] - 1, -1, -1):
        x[i] = (y[i] - A[i, i + 1 :] @ x[i + 1 :]) / A[i, i]
    return x, y


@kernel(some(5, 3))
def gramschmidt(A):
    Q = np.zeros_like(A)
    R = np.zeros((A.shape[1], A.shape[1]), dtype=A.dtype)
    for k in range(A.shape[1]):
        nrm = np.dot(A[:, k], A[:, k])
        R[k, k] = np.sqrt(nrm)
        Q[:, k] = A[:, k] / R[k, k]
        for j in range(k + 1, A.shape[1]):
            R[k, j] = np.dot(Q[:, k], A[:, j])
            A[:, j] -= Q[:, k] * R[k, j]
    return Q, R


@kernel(3, 4, 5, some(3, 4, 5), some(5, 5))
def doitgen(NR, NQ, NP, A, C4):
    A[:] = np.reshape(np.reshape(A, (NR, NQ, 1, NP)) @ C4, (NR, NQ, NP))
    return A


@kernel(0.4 * some(6))
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


@kernel(np.array([0, 2, 3, 5]), np.array([0, 2, 1, 0, 2]), some(5), some(3))
def spmv(A_row, A_col, A_val, x):
    y = np.empty(A_row.size - 1, A_val.dtype)
    for i in range(A_row.size - 1):
        cols = A_col[A_row[i] : A_row[i + 1]]
        vals = A_val[A_row[i] : A_row[i + 1]]
        y[i] = vals @ x[cols]
    return y


# -- statistics


@kernel(some(6, 3))
def correlation(data):
    mean = np.mean(data, axis=0)
    stddev = np.std(data, axis=0)
    stddev[stddev <= 0.1] = 1.0
    data -= mean
    data /= np.sqrt(data.shape[0]) * stddev
    corr = np.eye(data.shape[1], dtype=data.dtype)
    for i in range(data.shape[1] - 1):
        corr[i + 1 : data.shape[1], i] = corr[i, i + 1 : data.shape[1]] = data[:, i] @ data[:, i + 1 : data.shape[1]]
    return corr


@kernel(6.0, some(6, 3))
def covariance(float_n, data):
    mean = np.mean(data, axis=0)
    data -= mean
    cov = np.zeros((data.shape[1], data.shape[1]), dtype=data.dtype)
    for i in range(data.shape[1]):
        cov[i : data.shape[1], i] = cov[i, i : data.shape[1]] = data[:, i] @ data[:, i : data.shape[1]] / (float_n - 1.0)
    return cov


@kernel(some(6, 3))
def covariance2(data):
    return np.cov(np.transpose(data))


@kernel(some(3, 4, 5))
def softmax(x):
    tmp_max = np.max(x, axis=-1, keepdims=True)
    tmp_out = np.exp(x - tmp_max)
    tmp_sum = np.sum(tmp_out, axis=-1, keepdims=True)
    return tmp_out / tmp_sum


@kernel(some(40), some(40), 5)
def azimint_naive(data, radius, npt):
    rmax = radius.max()
    res = np.zeros(npt, dtype=np.float64)
    for i in range(npt):
        r1 = rmax * i / npt
        r2 = rmax * (i + 1) / npt
        mask_r12 = np.logical_and((r1 <= radius), (radius < r2))
        values_r12 = data[mask_r12]
        res[i] = values_r12.mean() if values_r12.size else 0.0
    return res


@kernel(some(40), some(40), 5)
def azimint_hist(data, radius, npt):
    histu = np.histogram(radius, npt)[0]
    histw = np.histogram(radius, npt, weights=data)[0]
    return histw / histu


# -- stencils and time steps


@kernel(4, some(8), some(8))
def jacobi_1d(TSTEPS, A, B):
    for _ in range(1, TSTEPS):
        B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
        A[1:-1] = 0.33333 * (B[:-2] + B[1:-1] + B[2:])
    return A, B


@kernel(3, some(5, 5), some(5, 5))
def jacobi_2d(TSTEPS, A, B):
    for _ in range(1, TSTEPS):
        B[1:-1, 1:-1] = 0.2 * (A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1])
        A[1:-1, 1:-1] = 0.2 * (B[1:-1, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:] + B[2:, 1:-1] + B[:-2, 1:-1])
    return A, B


@kernel(3, 5, some(5, 5))
def seidel_2d(TSTEPS, N, A):
    for _ in range(TSTEPS - 1):
        for i in range(1, N - 1):
            A[i, 1:-1] += A[i - 1, :-2] + A[i - 1, 1:-1] + A[i - 1, 2:] + A[i, 2:] + A[i + 1, :-2] + A[i + 1, 1:-1]
            for j in range(1, N - 1):
                A[i, j] += A[i, j - 1]
                A[i, j] /= 9.0
    return A


@kernel(3, some(4, 4, 4), some(4, 4, 4))
def heat_3d(TSTEPS, A, B):
    def step(X):
        c = X[1:-1, 1:-1, 1:-1]
        return (
            0.125 * (X[2:, 1:-1, 1:-1] - 2.0 * c + X[:-2, 1:-1, 1:-1])
            + 0.125 * (X[1:-1, 2:, 1:-1] - 2.0 * c + X[1:-1, :-2, 1:-1])
            + 0.125 * (X[1:-1, 1:-1, 2:] - 2.0 * c + X[1:-1, 1:-1, 0:-2])
            + c
        )

    for _ in range(1, TSTEPS):
        B[1:-1, 1:-1, 1:-1] = step(A)
        A[1:-1, 1:-1, 1:-1] = step(B)
    return A, B


@kernel(3, some(4, 5), some(4, 5), some(4, 5), some(3))
def fdtd_2d(TMAX, ex, ey, hz, fict):
    for t in range(TMAX):
        ey[0, :] = fict[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return ex, ey, hz


@kernel(some(7, 8, 2), np.empty((3, 4, 2)), some(3, 4, 2))
def hdiff(in_field, out_field, coeff):
    I, J, K = out_field.shape
    lap_field = 4.0 * in_field[1 : I + 3, 1 : J + 3, :] - (
        in_field[2 : I + 4, 1 : J + 3, :]
        + in_field[0 : I + 2, 1 : J + 3, :]
        + in_field[1 : I + 3, 2 : J + 4, :]
        + in_field[1 : I + 3, 0 : J + 2, :]
    )
    res = lap_field[1:, 1 : J + 1, :] - lap_field[:-1, 1 : J + 1, :]
    flx_field = np.where(
        (res * (in_field[2 : I + 3, 2 : J + 2, :] - in_field[1 : I + 2, 2 : J + 2, :])) > 0,
        0,
        res,
    )
    res = lap_field[1 : I + 1, 1:, :] - lap_field[1 : I + 1, :-1, :]
    fly_field = np.where(
        (res * (in_field[2 : I + 2, 2 : J + 3, :] - in_field[2 : I + 2, 1 : J + 2, :])) > 0,
        0,
        res,
    )
    out_field[:, :, :] = in_field[2 : I + 2, 2 : J + 2, :] - coeff[:, :, :] * (
        flx_field[1:, :, :] - flx_field[:-1, :, :] + fly_field[:, 1:, :] - fly_field[:, :-1, :]
    )
    return out_field


@kernel(3, 5, some(5, 5))
def adi(TSTEPS, N, u):
    v = np.empty(u.shape, dtype=u.dtype)
    p = np.empty(u.shape, dtype=u.dtype)
    q = np.empty(u.shape, dtype=u.dtype)
    DX = 1.0 / N
    DT = 1.0 / TSTEPS
    mul1 = 2.0 * DT / DX**2 / 10
    mul2 = DT / DX**2 / 10
    a = -mul1 / 2.0
    b = 1.0 + mul1
    c = a
    d = -mul2 / 2.0
    e = 1.0 + mul2
    f = d
    for _ in range(1, TSTEPS + 1):
        v[0, 1 : N - 1] = 1.0
        p[1 : N - 1, 0] = 0.0
        q[1 : N - 1, 0] = v[0, 1 : N - 1]
        for j in range(1, N - 1):
            p[1 : N - 1, j] = -c / (a * p[1 : N - 1, j - 1] + b)
            q[1 : N - 1, j] = (
                -d * u[j, 0 : N - 2] + (1.0 + 2.0 * d) * u[j, 1 : N - 1] - f * u[j, 2:N] - a * q[1 : N - 1, j - 1]
            ) / (a * p[1 : N - 1, j - 1] + b)
        v[N - 1, 1 : N - 1] = 1.0
        for j in range(N - 2, 0, -1):
            v[j, 1 : N - 1] = p[1 : N - 1, j] * v[j + 1, 1 : N - 1] + q[1 : N - 1, j]
        u[1 : N - 1, 0] = 1.0
        p[1 : N - 1, 0] = 0.0
        q[1 : N - 1, 0] = u[1 : N - 1, 0]
        for j in range(1, N - 1):
            p[1 : N - 1, j] = -f / (d * p[1 : N - 1, j - 1] + e)
            q[1 : N - 1, j] = (
                -a * v[0 : N - 2, j] + (1.0 + 2.0 * a) * v[1 : N - 1, j] - c * v[2:N, j] - d * q[1 : N - 1, j - 1]
            ) / (d * p[1 : N - 1, j - 1] + e)
        u[1 : N - 1, N - 1] = 1.0
        for j in range(N - 2, 0, -1):
            u[1 : N - 1, j] = p[1 : N - 1, j] * u[1 : N - 1, j + 1] + q[1 : N - 1, j]
    return u


def _build_up_b(b, rho, dt, u, v, dx, dy):
    b[1:-1, 1:-1] = rho * (
        1 / dt * ((u[1:-1, 2:] - u[1:-1, 0:-2]) / (2 * dx) + (v[2:, 1:-1] - v[0:-2, 1:-1]) / (2 * dy))
        - ((u[1:-1, 2:] - u[1:-1, 0:-2]) / (2 * dx)) ** 2
        - 2 * ((u[2:, 1:-1] - u[0:-2, 1:-1]) / (2 * dy) * (v[1:-1, 2:] - v[1:-1, 0:-2]) / (2 * dx))
        - ((v[2:, 1:-1] - v[0:-2, 1:-1]) / (2 * dy)) ** 2
    )


def _pressure_poisson(nit, p, dx, dy, b):
    pn = np.empty_like(p)
    pn[:] = p.copy()
    for _ in range(nit):
        pn[:] = p.copy()
        p[1:-1, 1:-1] = ((pn[1:-1, 2:] + pn[1:-1, 0:-2]) * dy**2 + (pn[2:, 1:-1] + pn[0:-2, 1:-1]) * dx**2) / (
            2 * (dx**2 + dy**2)
        ) - dx**2 * dy**2 / (2 * (dx**2 + dy**2)) * b[1:-1, 1:-1]
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0


@kernel(5, 5, 3, 2, some(5, 5), some(5, 5), 0.01, 0.5, 0.5, some(5, 5), 1.0, 0.1)
def cavity_flow(nx, ny, nt, nit, u, v, dt, dx, dy, p, rho, nu):
    un = np.empty_like(u)
    vn = np.empty_like(v)
    b = np.zeros((ny, nx))
    for _ in range(nt):
        un[:] = u.copy()
        vn[:] = v.copy()
        _build_up_b(b, rho, dt, u, v, dx, dy)
        _pressure_poisson(nit, p, dx, dy, b)
        u[1:-1, 1:-1] = (
            un[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / dx * (un[1:-1, 1:-1] - un[1:-1, 0:-2])
            - vn[1:-1, 1:-1] * dt / dy * (un[1:-1, 1:-1] - un[0:-2, 1:-1])
            - dt / (2 * rho * dx) * (p[1:-1, 2:] - p[1:-1, 0:-2])
            + nu * dt * (un[1:-1, 2:] - 4 * un[1:-1, 1:-1] + un[1:-1, 0:-2] + un[2:, 1:-1] + un[0:-2, 1:-1])
        )
        v[1:-1, 1:-1] = (
            vn[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / dx * (vn[1:-1, 1:-1] - vn[1:-1, 0:-2])
            - dt / (2 * rho * dy) * (p[2:, 1:-1] - p[0:-2, 1:-1])
        )
        u[0, :] = 0
        u[:, 0] = 0
        u[:, -1] = 0
        u[-1, :] = 1
        v[0, :] = v[-1, :] = 0
    return u, v, p


@kernel(some(5, 5), some(5, 5), 0.01, 0.5, 0.5, some(5, 5), 1.0, 0.1, 1.0, 2)
def channel_flow(u, v, dt, dx, dy, p, rho, nu, F, nit):
    b = np.zeros((u.shape[1], u.shape[0]))
    udiff = 1.0
    stepcount = 0
    while udiff > 0.1 and stepcount < 20:
        un = u.copy()
        vn = v.copy()
        _build_up_b(b, rho, dt, u, v, dx, dy)
        b[1:-1, -1] = rho * (1 / dt * (u[1:-1, 0] - u[1:-1, -2]) / (2 * dx))
        for _ in range(nit):
            pn = p.copy()
            p[1:-1, 1:-1] = (pn[1:-1, 2:] + pn[1:-1, 0:-2] + pn[2:, 1:-1] + pn[0:-2, 1:-1]) / 4 - dx**2 * b[1:-1, 1:-1]
            p[1:-1, -1] = (pn[1:-1, 0] + pn[1:-1, -2]) / 2
            p[-1, :] = p[-2, :]
            p[0, :] = p[1, :]
        u[1:-1, 1:-1] = (
            un[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / dx * (un[1:-1, 1:-1] - un[1:-1, 0:-2])
            - dt / (2 * rho * dx) * (p[1:-1, 2:] - p[1:-1, 0:-2])
            + F * dt
        )
        v[1:-1, 1:-1] = vn[1:-1, 1:-1] - dt / (2 * rho * dy) * (p[2:, 1:-1] - p[0:-2, 1:-1]) * nu
        u[0, :] = u[-1, :] = 0
        udiff = (np.sum(u) - np.sum(un)) / np.sum(u)
        stepcount += 1
    return u, v, p


@kernel(some(4, 5, 4), some(5, 5, 4), some(4, 5, 4), some(4, 5, 4), some(4, 5, 4), 3.0 / 20.0)
def vadv(utens_stage, wcon, u_stage, u_pos, utens, dtr_stage):
    I, J, K = utens_stage.shape
    ccol = np.ndarray((I, J, K), dtype=utens_stage.dtype)
    dcol = np.ndarray((I, J, K), dtype=utens_stage.dtype)
    data_col = np.ndarray((I, J), dtype=utens_stage.dtype)
    for k in range(1):
        gcv = 0.25 * (wcon[1:, :, k + 1] + wcon[:-1, :, k + 1])
        cs = gcv * 0.5
        ccol[:, :, k] = gcv * 0.5
        bcol = dtr_stage - ccol[:, :, k]
        correction_term = -cs * (u_stage[:, :, k + 1] - u_stage[:, :, k])
        dcol[:, :, k] = dtr_stage * u_pos[:, :, k] + utens[:, :, k] + utens_stage[:, :, k] + correction_term
        divided = 1.0 / (bcol + 3.0)
        ccol[:, :, k] = ccol[:, :, k] * divided
        dcol[:, :, k] = dcol[:, :, k] * divided
    for k in range(1, K - 1):
        gav = -0.25 * (wcon[1:, :, k] + wcon[:-1, :, k])
        gcv = 0.25 * (wcon[1:, :, k + 1] + wcon[:-1, :, k + 1])
        as_ = gav * 0.5
        cs = gcv * 0.5
        acol = gav * 0.5
        ccol[:, :, k] = gcv * 0.5
        bcol = dtr_stage - acol - ccol[:, :, k] + 3.0
        correction_term = -as_ * (u_stage[:, :, k - 1] - u_stage[:, :, k]) - cs * (u_stage[:, :, k + 1] - u_stage[:, :, k])
        dcol[:, :, k] = dtr_stage * u_pos[:, :, k] + utens[:, :, k] + utens_stage[:, :, k] + correction_term
        divided = 1.0 / (bcol - ccol[:, :, k - 1] * acol)
        ccol[:, :, k] = ccol[:, :, k] * divided
        dcol[:, :, k] = (dcol[:, :, k] - (dcol[:, :, k - 1]) * acol) * divided
    for k in range(K - 1, K - 2, -1):
        datacol = dcol[:, :, k - 1]
        data_col[:] = datacol
        utens_stage[:, :, k] = dtr_stage * (datacol - u_pos[:, :, k])
    for k in range(K - 2, -1, -1):
        datacol = dcol[:, :, k] - ccol[:, :, k] * data_col[:, :]
        data_col[:] = datacol
        utens_stage[:, :, k] = dtr_stage * (datacol - u_pos[:, :, k])
    return utens_stage


# -- images and signals


@kernel(0.25, some(5, 6))
def deriche(alpha, imgIn):
    k = (1.0 - np.exp(-alpha)) * (1.0 - np.exp(-alpha)) / (1.0 + alpha * np.exp(-alpha) - np.exp(2.0 * alpha))
    a1 = a5 = k
    a2 = a6 = k * np.exp(-alpha) * (alpha - 1.0)
    a3 = a7 = k * np.exp(-alpha) * (alpha + 1.0)
    a4 = a8 = -k * np.exp(-2.0 * alpha)
    b1 = 2.0 ** (-alpha)
    b2 = -np.exp(-2.0 * alpha)
    c1 = c2 = 1
    y1 = np.empty_like(imgIn)
    y1[:, 0] = a1 * imgIn[:, 0]
    y1[:, 1] = a1 * imgIn[:, 1] + a2 * imgIn[:, 0] + b1 * y1[:, 0]
    for j in range(2, imgIn.shape[1]):
        y1[:, j] = a1 * imgIn[:, j] + a2 * imgIn[:, j - 1] + b1 * y1[:, j - 1] + b2 * y1[:, j - 2]
    y2 = np.empty_like(imgIn)
    y2[:, -1] = 0.0
    y2[:, -2] = a3 * imgIn[:, -1]
    for j in range(imgIn.shape[1] - 3, -1, -1):
        y2[:, j] = a3 * imgIn[:, j + 1] + a4 * imgIn[:, j + 2] + b1 * y2[:, j + 1] + b2 * y2[:, j + 2]
    imgOut = c1 * (y1 + y2)
    y1[0, :] = a5 * imgOut[0, :]
    y1[1, :] = a5 * imgOut[1, :] + a6 * imgOut[0, :] + b1 * y1[0, :]
    for i in range(2, imgIn.shape[0]):
        y1[i, :] = a5 * imgOut[i, :] + a6 * imgOut[i - 1, :] + b1 * y1[i - 1, :] + b2 * y1[i - 2, :]
    y2[-1, :] = 0.0
    y2[-2, :] = a7 * imgOut[-1, :]
    for i in range(imgIn.shape[0] - 3, -1, -1):
        y2[i, :] = a7 * imgOut[i + 1, :] + a8 * imgOut[i + 2, :] + b1 * y2[i + 1, :] + b2 * y2[i + 2, :]
    imgOut[:] = c2 * (y1 + y2)
    return imgOut


def _conv2d(input, weights):
    K = weights.shape[0]
    N = input.shape[0]
    H_out = input.shape[1] - K + 1
    W_out = input.shape[2] - K + 1
    output = np.empty((N, H_out, W_out, weights.shape[3]), dtype=input.dtype)
    for i in range(H_out):
        for j in range(W_out):
            output[:, i, j, :] = np.sum(
                input[:, i : i + K, j : j + K, :, np.newaxis] * weights[np.newaxis, :, :, :], axis=(1, 2, 3)
            )
    return output


@kernel(some(2, 5, 5, 2), some(3, 3, 2, 3), some(3))
def conv2d_bias(input, weights, bias):
    return _conv2d(input, weights) + bias


def _relu(x):
    return np.maximum(x, 0)


def _maxpool2d(x):
    output = np.empty([x.shape[0], x.shape[1] // 2, x.shape[2] // 2, x.shape[3]], dtype=x.dtype)
    for i in range(x.shape[1] // 2):
        for j in range(x.shape[2] // 2):
            output[:, i, j, :] = np.max(x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, :], axis=(1, 2))
    return output


@kernel(some(2, 8, 8, 1), some(3, 3, 1, 2), some(2), some(2, 2, 2, 3), some(3), some(3, 4), some(4), 2, 3)
def lenet(input, conv1, conv1bias, conv2, conv2bias, fc1w, fc1b, N, C):
    x = _relu(_conv2d(input, conv1) + conv1bias)
    x = _maxpool2d(x)
    x = _relu(_conv2d(x, conv2) + conv2bias)
    x = _maxpool2d(x)
    x = np.reshape(x, (N, C))
    return _relu(x @ fc1w + fc1b)


@kernel(some(3, 4), some(4, 5), some(5), some(5, 2), some(2))
def mlp(input, w1, b1, w2, b2):
    x = _relu(input @ w1 + b1)
    x = x @ w2 + b2
    x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return x / np.sum(x, axis=-1, keepdims=True)


def _batchnorm2d(x, eps=1e-5):
    mean = np.mean(x, axis=0, keepdims=True)
    std = np.std(x, axis=0, keepdims=True)
    return (x - mean) / np.sqrt(std + eps)


@kernel(some(3, 4, 4, 2), some(1, 1, 2, 2), some(3, 3, 2, 2), some(1, 1, 2, 2))
def resnet(input, conv1, conv2, conv3):
    padded = np.zeros((input.shape[0], input.shape[1] + 2, input.shape[2] + 2, conv1.shape[3]))
    padded[:, 1:-1, 1:-1, :] = _conv2d(input, conv1)
    x = _relu(_batchnorm2d(padded))
    x = _relu(_batchnorm2d(_conv2d(x, conv2)))
    x = _batchnorm2d(_conv2d(x, conv3))
    return _relu(x + input)


@kernel(2, 3, some(8) + 1j * some(8), np.zeros(8, complex))
def stockham_fft(R, K, x, y):
    N = R**K
    i_coord, j_coord = np.mgrid[0:R, 0:R]
    dft_mat = np.exp(-2.0j * np.pi * i_coord * j_coord / R)
    y[:] = x[:]
    ii_coord, jj_coord = np.mgrid[0:R, 0 : R**K]
    for i in range(K):
        yv = np.reshape(y, (R**i, R, R ** (K - i - 1)))
        tmp_perm = np.transpose(yv, axes=(1, 0, 2))
        D = np.empty((R, R**i, R ** (K - i - 1)), dtype=np.complex128)
        tmp = np.exp(-2.0j * np.pi * ii_coord[:, : R**i] * jj_coord[:, : R**i] / R ** (i + 1))
        D[:] = np.repeat(np.reshape(tmp, (R, R**i, 1)), R ** (K - i - 1), axis=2)
        tmp_twid = np.reshape(tmp_perm, (N,)) * np.reshape(D, (N,))
        y[:] = np.reshape(dft_mat @ np.reshape(tmp_twid, (R, R ** (K - 1))), (N,))
    return y


# -- physics


@kernel(some(4), some(4), some(4), some(4))
def arc_distance(theta_1, phi_1, theta_2, phi_2):
    temp = np.sin((theta_2 - theta_1) / 2) ** 2 + np.cos(theta_1) * np.cos(theta_2) * np.sin((phi_2 - phi_1) / 2) ** 2
    return 2 * (np.arctan2(np.sqrt(temp), np.sqrt(1 - temp)))


@kernel(some(4, 4))
def go_fast(a):
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace


@kernel(
    some(5),
    some(5, 3),
    some(5, 3),
    4,
    0.01,
    1.0,
    0.1,
)
def nbody(mass, pos, vel, Nt, dt, G, softening):
    def acceleration(pos, mass):
        x, y, z = pos[:, 0:1], pos[:, 1:2], pos[:, 2:3]
        dx, dy, dz = x.T - x, y.T - y, z.T - z
        inv_r3 = dx**2 + dy**2 + dz**2 + softening**2
        inv_r3[inv_r3 > 0] = inv_r3[inv_r3 > 0] ** (-1.5)
        ax = G * (dx * inv_r3) @ mass
        ay = G * (dy * inv_r3) @ mass
        az = G * (dz * inv_r3) @ mass
        return np.vstack((ax, ay, az)).T

    def energy(pos, vel, mass):
        KE = 0.5 * np.sum(np.reshape(mass, (len(mass), 1)) * vel**2)
        x, y, z = pos[:, 0:1], pos[:, 1:2], pos[:, 2:3]
        inv_r = np.sqrt((x.T - x) ** 2 + (y.T - y) ** 2 + (z.T - z) ** 2)
        inv_r[inv_r > 0] = 1.0 / inv_r[inv_r > 0]
        PE = G * np.sum(np.triu(-(np.outer(mass, mass)) * inv_r, 1))
        return KE, PE

    vel -= np.mean(np.reshape(mass, (len(mass), 1)) * vel, axis=0) / np.mean(mass)
    acc = acceleration(pos, mass)
    KE = np.ndarray(Nt + 1, dtype=np.float64)
    PE = np.ndarray(Nt + 1, dtype=np.float64)
    KE[0], PE[0] = energy(pos, vel, mass)
    for i in range(Nt):
        vel += acc * dt / 2.0
        pos += vel * dt
        acc[:] = acceleration(pos, mass)
        vel += acc * dt / 2.0
        KE[i + 1], PE[i + 1] = energy(pos, vel, mass)
    return KE, PE


@kernel(3, 2, some(2, 3, 4, 4) + 0j, some(4, 4) + 0j, some(4, 4) + 0j)
def contour_integral(NR, slab_per_bc, Ham, int_pts, Y):
    P0 = np.zeros((4, 3), dtype=np.complex128)
    P1 = np.zeros((4, 3), dtype=np.complex128)
    for idx in range(4):
        z = int_pts[0, idx] + 2.0 + 0.5j
        Tz = np.zeros((4, 4), dtype=np.complex128)
        for n in range(slab_per_bc):
            zz = np.power(z, slab_per_bc / 2 - n)
            Tz += zz * Ham[n, 0]
        X = np.linalg.inv(Tz + 5 * np.eye(4)) if NR == 4 else np.linalg.solve(Tz + 5 * np.eye(4), Y)[:, :3]
        if abs(z) < 1.0:
            X[:] = -X
        P0 += X
        P1 += z * X
    return P0, P1


@kernel(some(2, 3, 2), some(2, 2, 2), np.array([[0, 1], [1, 0]]), some(2, 2, 2, 2) + 0j, some(2, 2, 2, 2) + 0j)
def scattering_self_energies(G, dH, neigh_idx, D, Sigma):
    for k in range(G.shape[0]):
        for E in range(G.shape[1]):
            for q in range(D.shape[0]):
                for a in range(neigh_idx.shape[0]):
                    for b in range(neigh_idx.shape[1]):
                        if E - q >= 0:
                            dHG = G[k, E - q, neigh_idx[a, b]] * dH[a, b]
                            dHD = dHG * D[q, a, b, 0]
                            Sigma[k, E % 2, a] += dHD
    return Sigma


@kernel(some(4, 4) * 100, some(4, 4) * 100, 4.0, 3.0, 9.0)
def compute(array_1, array_2, a, b, c):
    return np.clip(array_1, 20, 80) * a + array_2 * b + c


@kernel(np.abs(some(5, 5)))
def floyd_warshall(path):
    for k in range(path.shape[0]):
        path[:] = np.minimum(path[:], np.add.outer(path[:, k], path[k, :]))
    return path


@kernel(np.array([0, 1, 2, 3, 1, 0]), 6, differentiable=False)
def nussinov(seq, N):
    table = np.zeros((N, N), np.int64)
    for i in range(N - 1, -1, -1):
        for j in range(i + 1, N):
            if j - 1 >= 0:
                table[i, j] = max(table[i, j], table[i, j - 1])
            if i + 1 < N:
                table[i, j] = max(table[i, j], table[i + 1, j])
            if j - 1 >= 0 and i + 1 < N:
                if i < j - 1:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1] + (seq[i] + seq[j] == 3))
                else:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1])
            for k in range(i + 1, j):
                table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])
    return table


@kernel(np.array([1, 200, 3, 77, 255], np.uint8), differentiable=False)
def crc16(data):
    crc = 0xFFFF
    for b in data:
        cur_byte = 0xFF & b
        for _ in range(0, 8):
            if (crc & 0x0001) ^ (cur_byte & 0x0001):
                crc = (crc >> 1) ^ 0x8408
            else:
                crc >>= 1
            cur_byte >>= 1
    crc = ~crc & 0xFFFF
    crc = (crc << 8) | ((crc >> 8) & 0xFF)
    return crc & 0xFFFF


@kernel(-1.75, 0.25, -1.0, 1.0, 5, 4, 8, 2.0, differentiable=False)
def mandelbrot1(xmin, xmax, ymin, ymax, xn, yn, maxiter, horizon):
    X = np.linspace(xmin, xmax, xn, dtype=np.float64)
    Y = np.linspace(ymin, ymax, yn, dtype=np.float64)
    C = X + Y[:, None] * 1j
    N = np.zeros(C.shape, dtype=np.int64)
    Z = np.zeros(C.shape, dtype=np.complex128)
    for n in range(maxiter):
        keep = np.less(abs(Z), horizon)
        N[keep] = n
        Z[keep] = Z[keep] ** 2 + C[keep]
    N[N == maxiter - 1] = 0
    return Z, N


@kernel(-1.75, 0.25, -1.0, 1.0, 5, 4, 8, 2.0, differentiable=False)
def mandelbrot2(xmin, xmax, ymin, ymax, xn, yn, itermax, horizon):
    Xi, Yi = np.mgrid[0:xn, 0:yn]
    X = np.linspace(xmin, xmax, xn, dtype=np.float64)[Xi]
    Y = np.linspace(ymin, ymax, yn, dtype=np.float64)[Yi]
    C = X + Y * 1j
    N_ = np.zeros(C.shape, dtype=np.int64)
    Z_ = np.zeros(C.shape, dtype=np.complex128)
    Xi.shape = Yi.shape = C.shape = xn * yn
    Z = np.zeros(C.shape, np.complex128)
    for i in range(itermax):
        if not len(Z):
            break
        np.multiply(Z, Z, Z)
        np.add(Z, C, Z)
        out = abs(Z) > horizon
        N_[Xi[out], Yi[out]] = i + 1
        Z_[Xi[out], Yi[out]] = Z[out]
        keep = ~out
        Z = Z[keep]
        Xi, Yi = Xi[keep], Yi[keep]
        C = C[keep]
    return Z_.T, N_.T
