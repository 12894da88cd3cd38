"""Tables, histograms, transforms, fractals, graphs: what is left of the numerical world."""

from __future__ import annotations

import numpy as np

from tests.whole.writes.program import normal, program, uniform, well_conditioned

_rng = np.random.default_rng(5)


def _cells(x, low, high, bins):
    """Which bin each number falls into, by a loop."""
    edges = np.linspace(low, high, bins + 1)
    return np.clip(np.searchsorted(edges, x, side="right") - 1, 0, bins - 1)


@program(uniform(12), np.linspace(0.05, 1.0, 12)[::-1] ** 1.1, 4)
def azimint_naive(data, radius, bins):
    largest = radius.max()
    out = np.zeros(bins)
    for i in range(bins):
        inside = np.logical_and(radius >= largest * i / bins, radius <= largest * (i + 1) / bins)
        out[i] = data[inside].mean()
    return out


@program(uniform(12), uniform(12), 4, smooth=False)
def azimint_hist(data, radius, bins):
    cells = _cells(radius, 0.0, 1.0, bins)
    counts, sums = np.zeros(bins), np.zeros(bins)
    for i, cell in enumerate(cells):
        counts[cell] += 1
        sums[cell] += data[i]
    return sums / np.maximum(counts, 1.0)


@program(uniform(10), 4)
def histogram_by_loop(x, bins):
    counts = np.zeros(bins, dtype=int)
    for cell in _cells(x, 0.2, 1.0, bins):
        counts[cell] += 1
    return counts


@program(normal(7), np.array([2, 0, 1, 2, 2, 0, 1]))
def grouped_moments(x, group):
    total, squares, count = np.zeros(3), np.zeros(3), np.zeros(3, dtype=int)
    np.add.at(total, group, x)
    np.add.at(squares, group, x**2)
    np.add.at(count, group, 1)
    largest = np.full(3, -np.inf)
    np.maximum.at(largest, group, x)
    mean = total / count
    return mean, squares / count - mean**2, largest


@program(_rng.integers(0, 256, 6, dtype=np.uint8), 0x8408, asks=True)
def crc16(data, poly):
    crc = 0xFFFF
    for b in data:
        current = 0xFF & int(b)
        for _ in range(8):
            if (crc & 1) ^ (current & 1):
                crc = (crc >> 1) ^ poly
            else:
                crc >>= 1
            current >>= 1
    crc = ~crc & 0xFFFF
    return (crc << 8) | ((crc >> 8) & 0xFF)


@program(_rng.integers(0, 256, 6).astype(np.uint32))
def crc32_with_a_table(data):
    table = np.zeros(256, dtype=np.uint32)
    for n in range(256):
        c = n
        for _ in range(8):
            c = (c >> 1) ^ 0xEDB88320 if c & 1 else c >> 1
        table[n] = c
    crc = np.full(1, 0xFFFFFFFF, dtype=np.uint32)
    for b in data:
        place = (crc ^ b) & np.uint32(0xFF)
        crc >>= np.uint32(8)
        crc ^= table[place]
    return crc ^ np.uint32(0xFFFFFFFF)


@program(uniform(5, 5, low=0.1, high=5.0), smooth=False)
def floyd_warshall(path):
    for k in range(len(path)):
        path[:] = np.minimum(path, np.add.outer(path[:, k], path[k, :]))


@program(_rng.integers(0, 4, 6), smooth=False)
def nussinov(sequence):
    n = len(sequence)
    table = np.zeros((n, n), sequence.dtype)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            table[i, j] = np.maximum(table[i, j], table[i, j - 1])
            if i + 1 < n:
                table[i, j] = np.maximum(table[i, j], table[i + 1, j])
                pairs = sequence[i] + sequence[j] == 3 if i < j - 1 else 0
                table[i, j] = np.maximum(table[i, j], table[i + 1, j - 1] + pairs)
            for k in range(i + 1, j):
                table[i, j] = np.maximum(table[i, j], table[i, k] + table[k + 1, j])
    return table


@program(normal(4), normal(5), 1.5)
def time_warping(a, b, gamma):
    """A soft alignment cost; every cell of the table from its three neighbours."""
    cost = np.full((len(a) + 1, len(b) + 1), np.inf)
    cost[0, 0] = 0.0
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            before = np.array([cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1]])
            least = before.min()
            soft = least - gamma * np.log(np.sum(np.exp(-(before - least) / gamma)))
            cost[i, j] = (a[i - 1] - b[j - 1]) ** 2 + soft
    return cost[-1, -1]


def _plane(x, y, dtype):
    return x + y[:, None] * dtype(1j)


@program(np.linspace(-2.0, 0.5, 5), np.linspace(-1.2, 1.2, 4), 6)
def mandelbrot1(x, y, most):
    c = _plane(x, y, np.complex128)
    counts = np.zeros(c.shape, dtype=np.int64)
    z = np.zeros(c.shape, dtype=np.complex128)
    for n in range(most):
        inside = np.less(abs(z), 2.0)
        counts[inside] = n
        z[inside] = z[inside] ** 2 + c[inside]
    counts[counts == most - 1] = 0
    return z, counts


@program(np.linspace(-2.1, 0.5, 4), np.linspace(-1.24, 1.24, 4), 4, asks=True)
def mandelbrot2(x, y, most):
    """Points that have left are taken out of the arrays."""
    c = _plane(x, y, np.complex128).reshape(-1)
    where = np.arange(c.size)
    counts = np.zeros(c.size, dtype=np.int64)
    result = np.zeros(c.shape, dtype=np.complex128)
    z = np.zeros(c.shape, dtype=np.complex128)
    for n in range(most):
        if not len(z):
            break
        np.multiply(z, z, z)
        np.add(z, c, z)
        left = abs(z) > 2.0
        counts[where[left]] = n + 1
        result[where[left]] = z[left]
        np.logical_not(left, left)
        z = z[left]
        where, c = where[left], c[left]
    return result, counts


@program(normal(4, 4))
def go_fast(a):
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace


@program(np.array([0, 2, 3, 5]), np.array([0, 2, 1, 0, 3]), uniform(5), uniform(4))
def spmv(rows, columns, values, x):
    y = np.empty(3, values.dtype)
    starts = [0, 2, 3, 5]
    for i in range(3):
        cols = columns[starts[i] : starts[i + 1]]
        y[i] = values[starts[i] : starts[i + 1]] @ x[cols]
    return y


@program(np.array([0, 2, 3, 5]), np.array([0, 2, 1, 0, 3]), uniform(5), uniform(4), asks=True)
def spmv_by_pointers(rows, columns, values, x):
    y = np.empty(rows.size - 1, values.dtype)
    for i in range(rows.size - 1):
        cols = columns[rows[i] : rows[i + 1]]
        y[i] = values[rows[i] : rows[i + 1]] @ x[cols]
    return y


@program(_rng.integers(0, 50, (3, 4)), _rng.integers(0, 50, (3, 4)), 4, 3, 9)
def compute(x, y, a, b, c):
    return np.clip(x, 2, 10) * a + y * b + c


@program(uniform(4), uniform(4), uniform(4), uniform(4))
def arc_distance(theta1, phi1, theta2, phi2):
    h = np.sin((theta2 - theta1) / 2) ** 2 + np.cos(theta1) * np.cos(theta2) * np.sin((phi2 - phi1) / 2) ** 2
    return 2 * np.arctan2(np.sqrt(h), np.sqrt(1 - h))


@program(
    (normal(3, 2, 2) + 1j * normal(3, 2, 2)) * 0.1, np.exp(2j * np.pi * np.arange(3) / 3) * 2, normal(2, 2) + 1j * normal(2, 2)
)
def contour_integral(ham, points, y):
    p0, p1 = np.zeros((2, 2), dtype=np.complex128), np.zeros((2, 2), dtype=np.complex128)
    for z in points:
        system = np.zeros((2, 2), dtype=np.complex128)
        for n in range(3):
            system += z ** (1.0 - n) * ham[n]
        system[np.arange(2), np.arange(2)] += 1.0
        x = np.linalg.solve(system, y)
        p0 += x
        p1 += z * x
    return p0, p1


@program(uniform(1, 2, 2, 2, 2), uniform(2, 2, 2, 2, 2), uniform(2, 2, 2, 2, 2), np.array([[0, 1], [1, 0]]))
def scattering_self_energies(sigma, g, d, neighbours):
    """Nested loops of small products that are added up: sigma += dH G dH D."""
    small = 0.1 * np.ones((2, 2))
    for k in range(1):
        for e in range(2):
            for q in range(2):
                for a in range(2):
                    for b in range(2):
                        if e - q >= 0:
                            left = g[k, e - q, neighbours[a, b]] @ small
                            right = small * d[q, e, a, b, 0]
                            sigma[k, e, a] += left @ right


@program(4, normal(4) + 1j * normal(4))
def discrete_fourier(n, x):
    out = np.zeros(n, dtype=np.complex128)
    for k in range(n):
        for j in range(n):
            out[k] += x[j] * np.exp(-2j * np.pi * j * k / n)
    return out


@program(3, normal(8) + 1j * normal(8), np.zeros(8, dtype=complex))
def stockham_fft(levels, x, y):
    y[:] = x
    for i in range(levels):
        half = 2 ** (levels - i - 1)
        blocks = np.reshape(y, (2, half, 2**i))
        twiddle = np.exp(-1j * np.pi * np.arange(2**i) / 2**i)
        top, bottom = blocks[0], blocks[1] * twiddle
        new = np.empty((half, 2, 2**i), dtype=complex)
        new[:, 0, :] = top + bottom
        new[:, 1, :] = top - bottom
        y[:] = new.reshape(-1)


@program(normal(8) + 1j * normal(8))
def butterflies_in_place(x):
    n = len(x)
    order = [int(f"{i:03b}"[::-1], 2) for i in range(n)]
    x[:] = x[order]
    size = 2
    while size <= n:
        turn = np.exp(-2j * np.pi * np.arange(size // 2) / size)
        for start in range(0, n, size):
            even = x[start : start + size // 2].copy()
            odd = x[start + size // 2 : start + size] * turn
            x[start : start + size // 2] = even + odd
            x[start + size // 2 : start + size] = even - odd
        size *= 2


@program(normal(4), normal(4))
def haar_wavelet(a, b):
    x = np.concatenate([a, b])
    n = len(x)
    while n > 1:
        head = x[:n].copy()
        x[: n // 2] = (head[0::2] + head[1::2]) / np.sqrt(2)
        x[n // 2 : n] = (head[0::2] - head[1::2]) / np.sqrt(2)
        n //= 2
    return x


@program(normal(7))
def prefix_sums(x):
    for i in range(1, len(x)):
        x[i] += x[i - 1]
    total = np.zeros(3)
    np.cumsum(x[::3], out=total)
    return total


@program(uniform(6), np.array([3, 2, 4, 1, 2, 3]), smooth=False)
def knapsack(values, weights):
    best = np.zeros(7)
    for v, w in zip(values, [3, 2, 4, 1, 2, 3]):
        best[w:] = np.maximum(best[w:], best[:-w] + v)
    return best


@program(normal(5), smooth=False)
def bubble_sort(x):
    for i in range(len(x)):
        for j in range(len(x) - 1 - i):
            low, high = np.minimum(x[j], x[j + 1]), np.maximum(x[j], x[j + 1])
            x[j], x[j + 1] = low, high


@program(uniform(5), asks=True)
def insertion_sort(x):
    for i in range(1, len(x)):
        j = i
        while j > 0 and x[j - 1] > x[j]:
            x[j - 1], x[j] = x[j], x[j - 1]
            j -= 1


@program(_rng.integers(0, 2, (5, 5)))
def game_of_life(board):
    n = np.zeros_like(board)
    for di in (-1, 0, 1):
        for dj in (-1, 0, 1):
            if di or dj:
                n += np.roll(np.roll(board, di, 0), dj, 1)
    dies = (n < 2) | (n > 3)
    born = n == 3
    board[dies] = 0
    board[born] = 1


@program(well_conditioned(3), 4)
def determinant_of_products(a, n):
    """Minors by elimination without dividing by what becomes small (Bareiss)."""
    previous = 1.0
    for k in range(2):
        for i in range(k + 1, 3):
            for j in range(k + 1, 3):
                a[i, j] = (a[i, j] * a[k, k] - a[i, k] * a[k, j]) / previous
        previous = a[k, k]
    return a[2, 2] ** (1.0 / n)


@program(uniform(6), uniform(3, low=0.1, high=0.3))
def cubic_spline(y, ends):
    """Second derivatives at the knots, by a sweep forth and one back."""
    n = len(y)
    second, u = np.zeros(n), np.zeros(n)
    second[0], u[0] = -0.5, 3.0 * (y[1] - y[0] - ends[0])
    for i in range(1, n - 1):
        p = 0.5 * second[i - 1] + 2.0
        second[i] = -0.5 / p
        u[i] = y[i + 1] - 2 * y[i] + y[i - 1]
        u[i] = (3.0 * u[i] - 0.5 * u[i - 1]) / p
    second[-1] = (3.0 * (ends[1] - y[-1] + y[-2]) - 0.5 * u[-2]) / (0.5 * second[-2] + 1.0)
    for k in range(n - 2, -1, -1):
        second[k] *= second[k + 1]
        second[k] += u[k]
    return second * ends[2]
