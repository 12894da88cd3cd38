"""Linear algebra by loops over rows and columns: results are written into buffers or into the arguments."""

from __future__ import annotations

import numpy as np

from tests.whole.writes.program import normal, program, uniform


@program(1.5, 0.7, uniform(3, 4), uniform(4, 5), uniform(3, 5))
def gemm(alpha, beta, a, b, c):
    c[:] = alpha * a @ b + beta * c


@program(1.5, 1.2, *[uniform(4, 4)], *[uniform(4) for _ in range(8)])
def gemver(alpha, beta, a, u1, v1, u2, v2, w, x, y, z):
    a += np.outer(u1, v1) + np.outer(u2, v2)
    x += beta * y @ a + z
    w += alpha * a @ x


@program(1.5, 1.2, uniform(4, 4), uniform(4, 4), uniform(4))
def gesummv(alpha, beta, a, b, x):
    tmp = np.empty_like(x)
    out = np.empty_like(x)
    for i in range(len(x)):
        tmp[i] = a[i] @ x
        out[i] = alpha * tmp[i] + beta * (b[i] @ x)
    return out


@program(1.5, 1.2, uniform(3, 4), uniform(4, 2), uniform(2, 5), uniform(3, 5))
def k2mm(alpha, beta, a, b, c, d):
    d[:] = alpha * a @ b @ c + beta * d


@program(uniform(3, 2), uniform(2, 4), uniform(4, 3), uniform(3, 2))
def k3mm(a, b, c, d):
    e = np.zeros((3, 4))
    for i in range(3):
        for j in range(4):
            for k in range(2):
                e[i, j] += a[i, k] * b[k, j]
    return e @ (c @ d)


@program(uniform(4, 3), uniform(3))
def atax(a, x):
    y = np.zeros(a.shape[1], dtype=a.dtype)
    for i in range(a.shape[0]):
        tmp = np.dot(a[i, :], x)
        y += a[i, :] * tmp
    return y


@program(uniform(4, 3), uniform(3), uniform(4))
def bicg(a, p, r):
    s = np.zeros(a.shape[1])
    q = np.zeros(a.shape[0])
    for i in range(a.shape[0]):
        s[:] += r[i] * a[i, :]
        q[i] = a[i, :] @ p
    return s, q


@program(uniform(4), uniform(4), uniform(4), uniform(4), uniform(4, 4))
def mvt(x1, x2, y1, y2, a):
    x1 += a @ y1
    x2 += y2 @ a


@program(1.5, 1.2, uniform(4, 3), uniform(4, 4), uniform(4, 3))
def symm(alpha, beta, c, a, b):
    temp = np.empty((c.shape[1],), dtype=c.dtype)
    c *= beta
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            c[:i, j] += alpha * b[i, j] * a[i, :i]
            temp[j] = b[:i, j] @ a[i, :i]
        c[i, :] += alpha * b[i, :] * a[i, i] + alpha * temp


@program(1.5, 1.2, uniform(4, 4), uniform(4, 3))
def syrk(alpha, beta, c, a):
    for i in range(a.shape[0]):
        c[i, : i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, : i + 1] += alpha * a[i, k] * a[: i + 1, k]


@program(1.5, 1.2, uniform(4, 4), uniform(4, 3), uniform(4, 3))
def syr2k(alpha, beta, c, a, b):
    for i in range(a.shape[0]):
        c[i, : i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, : i + 1] += a[: i + 1, k] * alpha * b[i, k] + b[: i + 1, k] * alpha * a[i, k]


@program(1.5, uniform(4, 4), uniform(4, 3))
def trmm(alpha, a, b):
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            b[i, j] += np.dot(a[i + 1 :, i], b[i + 1 :, j])
    b *= alpha


@program(uniform(5, 5) + 2 * np.eye(5), uniform(5), uniform(5))
def trisolv(lower, x, b):
    for i in range(x.shape[0]):
        x[i] = (b[i] - lower[i, :i] @ x[:i]) / lower[i, i]


@program(uniform(2, 3, 4), uniform(4, 4))
def doitgen(a, c4):
    nr, nq, npp = a.shape
    for r in range(nr):
        for q in range(nq):
            total = np.zeros(npp)
            for p in range(npp):
                total[p] = a[r, q] @ c4[:, p]
            a[r, q, :] = total


@program(4, normal(6, 4))
def covariance(m, data):
    mean = np.mean(data, axis=0)
    data -= mean
    cov = np.zeros((m, m), dtype=data.dtype)
    for i in range(m):
        cov[i:m, i] = cov[i, i:m] = data[:, i] @ data[:, i:m] / (data.shape[0] - 1.0)
    return cov


@program(4, normal(6, 4))
def correlation(m, data):
    mean = np.mean(data, axis=0)
    stddev = np.std(data, axis=0)
    stddev[stddev <= 0.1] = 1.0
    data -= mean
    data /= np.sqrt(float(data.shape[0])) * stddev
    corr = np.eye(m, dtype=data.dtype)
    for i in range(m - 1):
        corr[i + 1 : m, i] = corr[i, i + 1 : m] = data[:, i] @ data[:, i + 1 : m]
    return corr


@program(normal(5, 3))
def gramschmidt(a):
    q = np.zeros_like(a)
    r = np.zeros((a.shape[1], a.shape[1]), dtype=a.dtype)
    for k in range(a.shape[1]):
        nrm = np.dot(a[:, k], a[:, k])
        r[k, k] = np.sqrt(nrm)
        q[:, k] = a[:, k] / r[k, k]
        for j in range(k + 1, a.shape[1]):
            r[k, j] = np.dot(q[:, k], a[:, j])
            a[:, j] -= q[:, k] * r[k, j]
    return q, r


@program(uniform(3, 4), uniform(4, 2))
def matmul_by_columns(a, b):
    """Column by column into a Fortran-ordered buffer."""
    c = np.empty((a.shape[0], b.shape[1]), order="F")
    for j in range(b.shape[1]):
        column = c[:, j]
        column[:] = 0.0
        for k in range(a.shape[1]):
            column += a[:, k] * b[k, j]
    return c.T


@program(uniform(2, 3), uniform(3, 2))
def kronecker_blocks(a, b):
    m, n = b.shape
    out = np.zeros((a.shape[0] * m, a.shape[1] * n))
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i * m : (i + 1) * m, j * n : (j + 1) * n] = a[i, j] * b
    return out


@program(uniform(4, 4), 3)
def matrix_power_in_place(a, n):
    result = np.identity(a.shape[0])
    work = np.empty_like(a)
    for _ in range(n):
        np.matmul(result, a, out=work)
        result, work = work, result
    return result
