"""Fifteen programs in which every line tells one easy rule about writes from NumPy's."""

from __future__ import annotations

import numpy as np

from tests.whole.writes.program import program

FOUR = np.array([1.0, 2.0, 3.0, 4.0])
SIX = np.arange(1.0, 7.0).reshape(2, 3)


@program(FOUR)
def alias_and_copies(x):
    """What is the same memory and what is not."""
    y = x
    a, b, c, d = x.copy(), +x, np.concatenate([x]), x.astype(float)
    y += 1.0
    return np.sum(x * x) + np.sum(a * b) + np.sum(c * d)


@program(SIX)
def layout_c(x):
    y = x.reshape(-1)
    y *= 2.0
    return np.sum(x * x)


@program(np.asfortranarray(SIX))
def layout_f(x):
    """The reshape is a copy: x stays."""
    y = x.reshape(-1)
    y *= 2.0
    return np.sum(x * x)


@program(SIX)
def layout_intermediate(x):
    """A ufunc's result has its operand's order."""
    w = x.T * 2.0
    v = w.reshape(-1)
    v[...] = 0.0
    u = w.ravel(order="K")
    u[0] = 5.0
    return np.sum(w * w)


@program(FOUR)
def zero_d(x):
    """0-d arrays are written, NumPy's scalars are not."""
    s = np.zeros(())
    t = s
    s += x[0] * x[1]
    q = x[0]
    r = q
    q += 1.0
    v = x[1, ...]
    v *= 3.0
    w = np.squeeze(x[2:3])
    w += q
    return t * 2.0 + r + np.sum(x * x)


@program(FOUR)
def repeated(x):
    """x[i] += v counts a repeated index once, the last wins; ufunc.at each."""
    b = x.copy()
    b[[0, 0, 1]] += x[1:]
    c = x.copy()
    np.add.at(c, [0, 0, 1], x[1:])
    b[[2, 2]] = x[:2]
    return np.sum(b * b) + np.sum(c * c)


@program(FOUR)
def overlap(x):
    """NumPy buffers what overlaps."""
    x[1:] += x[:-1]
    v = x[::-2]
    v[...] = v[::-1] * 2.0
    x[:] = x[::-1]
    np.add(x[:-1], x[1:], out=x[1:])
    return np.sum(x * np.arange(1.0, 5.0))


@program(np.arange(1.0, 5.0).reshape(2, 2))
def views_of_views(x):
    d = np.einsum("ii->i", x)
    d += 1.0
    x.T[0, 1] = d[0] * 7.0
    x.reshape(-1)[3] = x[0, 0] * d[1]
    x.ravel()[0] = 9.0
    x.flatten()[1] = 99.0
    r = x[::-1].T[1:]
    r *= 2.0
    return np.sum(x * np.array([[1.0, 2.0], [3.0, 4.0]]))


@program(np.array([1.0, 1.9, 3.0, 4.0]), single=True)
def out_and_casts(x):
    y = np.empty(4, np.float32)
    r = np.add(x, 1.0, out=y)
    np.multiply(y, 2.0, y)
    np.sqrt(x, out=y, where=x > 2)
    i = np.zeros(4, int)
    try:
        i += x
    except TypeError:
        y[0] += 100.0
    return np.sum(r.astype(float) * x)


@program(np.array([0.5, 8.0, 1.0, 2.0, 0.25]))
def ping_pong(x):
    a, b = x.copy(), x.copy()
    for _ in range(3):
        b[1:-1] = (a[:-2] * a[1:-1] + a[2:]) / 2
        a, b = b, a
    return np.sum(a * b)


@program(np.array([1.5, -2.5, 3.5, -0.5]))
def masks_after_use(x):
    """Masks, orders and whole parts are written after they have been used."""
    m = x > 0
    y = np.where(m, x * x, 0.0)
    m[...] = True
    i = np.argsort(x)
    z = x[i] * np.arange(4.0)
    i[:] = 0
    c = np.floor(x)
    w = x * c
    c[0] = x[1]
    return np.sum(y) + np.sum(z) + np.sum(w) + np.sum(x[m]) + np.sum(c * x)


@program(np.array([3.0, 1.0]))
def from_constants(x):
    """An array that was made inside from plain ones."""
    k = np.array(np.outer(np.arange(2.0), np.arange(2.0)) + 1.0)
    k[np.diag_indices(2)] += x[0]
    k[0, 1] = x[1]
    return np.linalg.det(k)


@program(np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]]))
def lu_in_place(a):
    for i in range(3):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, 3):
            a[i, j] -= a[i, :i] @ a[:i, j]
    return np.sum(np.log(np.diag(a)))


@program(FOUR)
def two_arguments_one_memory(x):
    """f(x, x) and f(x[:3], x[1:]) are not f(x, copy)."""

    def f(a, b):
        a += b
        b *= 2.0

    y = x.copy()
    f(y, y)
    z = x.copy()
    f(z[:3], z[1:])
    return np.sum(y * z)


@program(FOUR, asks=True)
def try_and_lanes(x):
    """A lane that raises must not change the others."""
    try:
        if x[0] > 2.0:
            raise ValueError("large")
        s = np.linalg.inv(x.reshape(2, 2) * (x[3] != 8.0))[0, 0]
    except (ValueError, np.linalg.LinAlgError):
        s = -x[1]
    return s
