"""Algorithms on whole numbers and arrays of them, and dense ones that choose rows: loops as textbooks write them."""

from __future__ import annotations

import numpy as np

from tests.whole.control.program import draws, program


@program((6,), (7,), (1,), (27,), (8,))
def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
        if steps > 30:
            return -1
    return steps


@program((48, 36), (17, 5), (0, 9), (270, 192))
def greatest_common_divisor(a, b):
    while b:
        a, b = b, a % b
    return a


@program((0x31,), (0xFF,), (0,), (0x80,))
def crc8(byte):
    crc = byte ^ 0x5A
    for _ in range(8):
        if crc & 0x80:
            crc = ((crc << 1) ^ 0x07) & 0xFF
        else:
            crc = (crc << 1) & 0xFF
    return crc


@program((-0.5, 0.5), (1.0, 1.0), (0.0, 0.0), (-2.0, 0.1), (0.3, 0.5))
def mandelbrot(x, y):
    """How soon it escapes, with the smooth count in the slope."""
    c = x + 1j * y
    z = c
    for n in range(20):
        size = z.real * z.real + z.imag * z.imag
        if size > 16.0:
            return n + 1.0 - np.log2(np.log(size))
        z = z * z + c
    return 20.0


@program((np.array([3.0, 1.0, 2.0]),), (np.array([1.0, 2.0, 3.0]),), (np.array([3.0, 2.0, 1.0]),), (np.array([2.0, 2.0, 1.0]),))
def insertion_sort(a):
    """In place, and how many moves it took."""
    moves = 0
    for i in range(1, len(a)):
        key = a[i]
        j = i - 1
        while j >= 0 and a[j] > key:
            a[j + 1] = a[j]
            j -= 1
            moves += 1
        a[j + 1] = key
    return np.sum(a * np.arange(1.0, len(a) + 1.0)), moves


@program((np.array([3.0, 1.0, 2.0, 0.5]),), (np.array([1.0, 2.0, 3.0, 4.0]),), (np.array([2.0, 2.0, 1.0, 9.0]),))
def quicksort(a):
    """With lists made by comprehensions."""

    def run(values):
        if len(values) < 2:
            return values
        first, *rest = values
        return run([v for v in rest if v < first]) + [first] + run([v for v in rest if v >= first])

    return np.stack(run(list(a)))


@program(
    *[(draws(i, 3, 3) - (0.5 if i else 0.0),) for i in range(4)], (np.array([[2.0, 4.0, 6.0], [1.0, 2.0, 3.0], [0, 0, 1]]),)
)
def pivoting_determinant(a):
    a = a.copy()
    n, sign = len(a), 1.0
    for k in range(n):
        p = k + int(np.argmax(np.abs(a[k:, k])))
        if a[p, k] == 0:
            raise ZeroDivisionError(f"column {k} has no pivot")
        if p != k:
            a[[k, p]] = a[[p, k]]
            sign = -sign
        for i in range(k + 1, n):
            a[i, k:] -= a[i, k] / a[k, k] * a[k, k:]
    return sign * np.prod(np.diag(a))


@program(*[(np.array(a), np.array(b)) for a, b in (([1, 2, 3], [1, 3, 3, 2]), ([1, 1, 1], [1] * 4), ([5, 4, 3], [3, 4, 5, 5]))])
def edit_distance(a, b):
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    table[:, 0] = np.arange(len(a) + 1)
    table[0] = np.arange(len(b) + 1)
    for i in range(len(a)):
        for j in range(len(b)):
            if a[i] == b[j]:
                table[i + 1, j + 1] = table[i, j]
            else:
                table[i + 1, j + 1] = 1 + min(table[i, j], table[i, j + 1], table[i + 1, j])
    return table[-1, -1]


_TEXTS = (([1, 2, 1, 2, 3], [1, 2, 3]), ([1, 1, 1, 1, 1], [1, 1, 1]), ([3, 2, 1, 0, 1], [1, 2, 2]))


@program(*[(np.array(text), np.array(word)) for text, word in _TEXTS])
def string_matching(text, word):
    """Where the word begins, or -1; the table of its own beginnings first."""
    back, k = [0], 0
    for i in range(1, len(word)):
        while k and word[k] != word[i]:
            k = back[k - 1]
        if word[k] == word[i]:
            k += 1
        back.append(k)
    k = 0
    for i, letter in enumerate(text):
        while k and word[k] != letter:
            k = back[k - 1]
        if word[k] == letter:
            k += 1
        if k == len(word):
            return i - k + 1
    return -1


@program((np.array([1, 1, 2, 2, 2, 1]),), (np.array([4, 4, 4, 4, 4, 4]),), (np.array([1, 2, 3, 4, 5, 6]),), ragged=True)
def run_lengths(x):
    values, counts = [x[0]], [1]
    for v in x[1:]:
        if v == values[-1]:
            counts[-1] += 1
        else:
            values.append(v)
            counts.append(1)
    return np.stack(values), np.array(counts)


@program((5.0,), (1.0,), (9.5,), (0.0,), (4.0,))
def binary_search(x):
    table = [1.0, 2.0, 4.0, 8.0, 9.0]
    low, high = 0, len(table)
    while low < high:
        middle = (low + high) // 2
        if table[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


@program((10, 2), (255, 16), (7, 3), (0, 5))
def digits(n, base):
    if n == 0:
        return 0, 1
    total = count = 0
    while n > 0:
        n, digit = divmod(n, base)
        total += digit
        count += 1
    return total, count


@program((7,), (9,), (2,), (1,), (25,))
def is_prime(n):
    if n < 2:
        return False
    d = 2
    while d * d <= n:
        if n % d == 0:
            return False
        d += 1
    return True


@program((3, 5, 7), (2, 0, 9), (10, 6, 11))
def power_modulo(base, exponent, modulus):
    result = 1
    while exponent > 0:
        if exponent & 1:
            result = result * base % modulus
        base = base * base % modulus
        exponent >>= 1
    return result


@program((7,), (1,), (4,))
def fibonacci(n):
    """Recursion with a memory of what was worked out."""
    known = {}

    def run(k):
        if k < 2:
            return k
        if int(k) not in known:
            known[int(k)] = run(k - 1) + run(k - 2)
        return known[int(k)]

    return run(n)


@program((6, 2), (5, 3), (1, 1))
def josephus(n, k):
    circle, at = list(range(int(n))), 0
    while len(circle) > 1:
        at = (at + int(k) - 1) % len(circle)
        circle.pop(at)
    return circle[0]


_ROADS = [draws(i, 4, 4, low=0.2, high=1.0 + i) for i in range(3)]


@program(*[(roads,) for roads in _ROADS])
def shortest_ways(roads):
    """From place 0: the nearest open place is closed next."""
    n = len(roads)
    distance = [np.inf] * n
    distance[0] = 0.0
    waiting = set(range(n))
    while waiting:
        i = min(sorted(waiting), key=lambda k: distance[k])
        waiting.remove(i)
        for j in waiting:
            through = distance[i] + roads[i, j]
            if through < distance[j]:
                distance[j] = through
    return sum(distance)


_LOADS = (([2, 3, 1], [3.0, 4.0, 2.0]), ([1, 1, 1], [0.5, 2.0, 1.0]), ([5, 4, 6], [1.0, 1.0, 1.0]))


@program(*[(np.array(weights), np.array(values)) for weights, values in _LOADS])
def knapsack(weights, values):
    """Sizes are indices."""
    best = np.zeros(5)
    for w, v in zip(weights, values):
        for room in range(4, int(w) - 1, -1):
            if best[room - int(w)] + v > best[room]:
                best[room] = best[room - int(w)] + v
    return best[-1]


_BLINKER, _BLOCK = [[0, 1, 0], [0, 1, 0], [0, 1, 0]], [[1, 1, 0], [1, 1, 0], [0, 0, 0]]


@program(*[(np.array(rows),) for rows in (_BLINKER, _BLOCK, np.eye(3, dtype=int))])
def life_until_still(cells):
    for turn in range(4):
        wide = np.pad(cells, 1)
        around = sum([wide[i : i + 3, j : j + 3] for i in range(3) for j in range(3)]) - cells
        new = np.where(cells == 1, (around == 2) | (around == 3), around == 3).astype(cells.dtype)
        if np.array_equal(new, cells):
            return cells, turn
        cells = new
    return cells, -1


@program((np.array([3, 0, 1, 2]),), (np.array([0, 1, 2, 3]),), (np.array([1, 0, 3, 2]),))
def cycles(permutation):
    """Follows indices that are values."""
    seen = [False] * len(permutation)
    count = 0
    for i in range(len(permutation)):
        if seen[i]:
            continue
        count += 1
        while not seen[i]:
            seen[i] = True
            i = int(permutation[i])
    return count


@program((np.array([0.3, 1.2, 2.9, 2.1]),), (np.array([0.1, 0.2, 0.3, 0.4]),), (np.array([-1.0, 2.5, 5.0, 1.0]),))
def histogram_by_hand(x):
    counts = [0, 0, 0]
    outside = 0
    for v in x:
        if 0 <= v < 3:
            counts[int(v)] += 1
        else:
            outside += 1
    return np.array(counts), outside
