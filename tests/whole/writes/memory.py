"""What is the same memory and what is not: views of views, swaps, buffers, `out=`, and every way to write."""

from __future__ import annotations

import numpy as np

from tests.whole.writes.program import normal, program, uniform

WEIGHTS = np.arange(1.0, 13.0)


@program(normal(4))
def every_name_sees_it(x):
    y = x
    y += 1.0
    z = y[:2]
    z *= 10.0
    w = z[::-1]
    w[0] = 7.0 * x[3]
    return np.sum(x * x), y[1]


@program(normal(3, 4))
def rows_of_a_loop(a):
    for row in a:
        row /= 1.0 + np.sum(row * row)
    for column in a.T:
        column[0] = column[1] * column[2]


def _increase(x, by):
    x += by


@program(normal(5), normal(5))
def helpers_that_write(x, y):
    _increase(x[1:], y[:-1])
    _increase(y, x)
    _increase(x, x)
    _increase(x[::-1], x)


@program(normal(4), 3)
def swapped_buffers(x, steps):
    a, b = x, np.zeros_like(x)
    for _ in range(steps):
        b[1:] = a[:-1] * a[1:]
        b[0] = a[-1]
        a, b = b, a
    return a, b


@program(normal(3, 3))
def swapped_rows(a):
    a[[0, 2]] = a[[2, 0]]
    a[:, 0], a[:, 1] = a[:, 1].copy(), a[:, 0].copy()
    first = a[0].copy()
    a[0] = a[1]
    a[1] = first * 2.0


@program(normal(5))
def loss_in_a_0d_array(x):
    loss = np.array(0.0)
    terms = loss
    for v in x:
        loss += v**2
        loss *= 1.1
    count = np.zeros((), dtype=int)
    count += 3
    return loss, terms * count


@program(normal(6))
def results_given_as_out(x):
    a, b = np.empty(6), np.empty(6)
    np.multiply(x, x, out=a)
    np.add(a, 1.0, b)
    np.log(b, out=b)
    np.sqrt(np.abs(x), out=a, where=np.array([True, False, True, True, False, False]))
    total = np.zeros(())
    np.sum(b, out=total)
    pair = np.zeros((2, 2))
    np.dot(x[:4].reshape(2, 2), b[:4].reshape(2, 2), out=pair)
    np.clip(x, -0.5, 0.5, out=x)
    return a, b, total, pair


@program(normal(2, 3))
def reductions_given_as_out(x):
    rows, columns = np.zeros(2), np.zeros((1, 3))
    np.mean(x, axis=1, out=rows)
    np.add.reduce(x, axis=0, keepdims=True, out=columns)
    x -= rows[:, None]
    np.prod(x, axis=0, out=columns[0])
    x.cumsum(axis=1, out=x)
    np.einsum("ij,kj->ik", x, x, out=(square := np.empty((2, 2))))
    return rows, columns, square


@program(normal(7))
def sorted_in_place(x):
    x[::2].sort()
    y = x.copy()
    y.sort()
    x[:3] -= y[-3:]
    y.fill(x[0])
    return y


@program(normal(3, 3), normal(3))
def many_ways_to_put(a, v):
    np.fill_diagonal(a, v)
    np.put(a, [1, 5], v[:2])
    np.copyto(a[2], v, where=np.array([True, False, True]))
    np.put_along_axis(a, np.array([[0], [2], [1]]), v[:, None] * 2.0, axis=1)
    np.putmask(a, np.eye(3, dtype=bool), a * 3.0)
    a.put([7], v[0] * v[1])
    np.place(a, np.arange(9).reshape(3, 3) == 3, [5.0])


@program(normal(4), normal(4))
def repeated_indices(x, v):
    i = np.array([0, 2, 0, 0])
    a = x.copy()
    a[i] += v
    b = x.copy()
    np.add.at(b, i, v)
    c = x.copy()
    np.multiply.at(c, i, v)
    c[i] = v
    return a, b, c


@program(normal(5))
def reads_of_what_is_written(x):
    x[1:] += x[:-1]
    x[:-1] *= x[1:]
    x[::-1] = x
    x[:] = x[[4, 2, 0, 1, 3]]
    x[1:4] = x[:3] + x[2:]
    return x


@program(normal(3, 4))
def views_of_many_kinds(x):
    x.reshape(4, 3)[1] = 0.5
    x.T[2, 1:] += 3.0
    np.transpose(x)[0] *= x[:, 1]
    np.ravel(x)[5] = x[0, 0] * 2.0
    x.flat[3] = x[1, 1]
    np.diagonal(x[:, :3]).copy()[0] = 99.0
    np.einsum("ii->i", x[:, 1:])[...] -= 1.0
    x[None, ..., ::2][0, 1] = x[2, ::2]
    np.swapaxes(x, 0, 1)[-1, 0] = 4.0
    np.squeeze(x[:1])[1:3] *= 2.0
    np.split(x, 2, axis=1)[1][0] += x[2, 2:]
    np.moveaxis(x, 0, 1)[0, 0] = x.sum()
    np.expand_dims(x, 1)[2, 0, 3] **= 2


@program(normal(3, 4))
def copies_of_many_kinds(x):
    """None of these writes reaches x."""
    for y in (
        x.copy(),
        +x,
        np.array(x),
        x.flatten(),
        x.astype(float),
        np.concatenate([x]),
        x[[0, 1, 2]],
        x * 1.0,
        np.take(x, [0, 2]),
    ):
        y[0] = 5.0
        y *= y
    x += np.sin(x)


@program(normal(6))
def a_shape_that_is_set(x):
    y = x.copy()
    y.shape = (2, 3)
    y[1] = y[0] * 2.0
    z = y.T
    z[0] = 0.0
    return y


@program(normal(3) + 1j * normal(3), normal(3))
def parts_of_complex_numbers(z, r):
    z.real = r
    z.imag *= 2.0
    z.imag[1:] += z.real[:-1]
    z *= z.conj()
    z[0] += 1j * r[2]
    return np.abs(z)


@program(normal(2, 3))
def broadcast_values(x):
    x[...] = x[:1]
    y = np.zeros((2, 2, 3))
    y[:] = x
    y[:, 1] = 2.0
    y[..., 0] += x[:, 0]
    y[0, :, 1:] = np.arange(2.0)
    return y


@program(normal(5), smooth=False)
def masks_that_are_written_by(x):
    x[x < 0] *= -2.0
    inside = (x > 0.1) & (x < 1.0)
    y = np.zeros_like(x)
    y[inside] = 1.0
    x[~inside] = 3.0
    inside |= x > 2.0
    inside[0] = False
    x[inside] -= 1.0
    return y, inside


@program(normal(4))
def powers_and_remainders(x):
    x **= 2
    x += 1.0
    x %= 0.7
    x /= 3.0
    x -= x[1]
    y = np.arange(4)
    y <<= 1
    y |= 1
    y ^= 3
    y //= 2
    return x * y


@program(normal(3, 3), normal(3, 3))
def matrix_products_in_place(a, b):
    a @= b
    b[:2] = a[:2] @ b
    b[:, 1] = a @ b[:, 0]
    return a


class _Grid:
    """Fields by name; `interior` is a view of the memory that `values` has."""

    def __init__(self, values):
        self.values = values
        self.interior = values[1:-1, 1:-1]
        self.history = []

    def relax(self):
        v = self.values
        self.interior += 0.1 * (v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4.0 * self.interior)
        self.history.append(self.interior.sum())


@program(uniform(4, 4), 2)
def object_with_a_view(values, steps):
    grid = _Grid(values)
    for _ in range(steps):
        grid.relax()
    values[0] = grid.interior[0, 0]
    return grid.interior, grid.history[-1]


@program(normal(2, 2), normal(2, 2))
def lists_and_dictionaries_of_arrays(a, b):
    blocks = [[a, b], [b.copy(), np.zeros((2, 2))]]
    blocks[1][1] += blocks[0][0] @ blocks[0][1]
    blocks[1][0][0] = blocks[0][0][1]
    named = {"a": a, "all": np.block(blocks)}
    named["a"] -= 1.0
    return named["all"]


@program(uniform(4))
def conditions_on_known_numbers(x):
    """The bounds of loops and branches are Python's; only the arrays are traced."""
    work = np.ones_like(x)
    for i in range(x.shape[0]):
        for j in range(i):
            if (i + j) % 2:
                work[i] *= x[j]
            else:
                work[i] += x[j] ** 2
    return work


@program(normal(4, 2))
def zeros_that_are_filled(x):
    out = np.zeros((2, 4), order="F")
    for i, (a, b) in enumerate(x):
        out[0, i] = a * b
        out[1, i] = a - b
    window = np.stack([x[:-1, 0], x[1:, 0]], axis=1)
    window[:, 1] *= out[0, :3]
    return out, window


@program(normal(4))
def exceptions_that_are_caught(x):
    """What raises has not written."""
    try:
        x[[1, 7]] = 5.0
    except IndexError:
        x[1] = 2.0 * x[0]
    try:
        x[:2] = np.ones(3)
    except ValueError:
        x[3] *= 3.0
    try:
        x += np.ones(5)
    except ValueError:
        x -= x[2]


@program(normal(3))
def vectors_with_columns(x):
    a = np.vander(x, 3)
    a[:, 1] = np.cos(a[:, 1])
    b = np.stack([x, x * 2.0])
    b[1, 1:] -= b[0, :2]
    c = np.outer(x, x)
    c[np.tril_indices(3, -1)] = 0.0
    d = np.tile(x, 2)
    d[3:] += 1.0
    e = np.pad(x, 1)
    e[0] = e[-1] = e[1]
    return a, b, c, d, e


@program(uniform(6), single=True)
def single_precision_buffers(x):
    y = np.zeros(6, dtype=np.float32)
    y[:3] = x[:3]
    y += np.float32(0.5)
    np.multiply(y, 2.0, out=y)
    return y.astype(float) * x
