"""Statements and built-in functions of Python's on values, several in each program."""

from __future__ import annotations

import contextlib

import numpy as np

from tests.whole.control.program import program

THREE = ((np.array([1.0, -2.0, 3.0]),), (np.array([-1.0, -2.0, -3.0]),), (np.array([3.0, 2.0, 0.5]),))


@program(*THREE)
def sums_and_products(x):
    total = sum(x) + sum([v * v for v in x], 2.0)
    return total * sum(v for v in x if v > 0) if total > 5.0 else total


@program(*THREE)
def sorted_elements(x):
    up, down = sorted(x), sorted(x, reverse=True)
    by_size = sorted(x, key=abs)
    return up[0] + 10.0 * down[0] + 100.0 * by_size[0] + 1000.0 * x[-1]


@program((2.0, 3.0), (3.0, 2.0), (-1.0, -4.0))
def largest_of_two(a, b):
    return max(a, b) ** 2 + 3.0 * min(a, b, 1.0) + max([a * b, a + b], default=0.0)


@program(*THREE)
def any_and_all_of_generators(x):
    if any(v > 2.5 for v in x):
        return x[0] * 2.0
    if all(v < 0 for v in x):
        return x[1] * 3.0
    return x[2]


@program(*THREE)
def zipped_and_counted(x):
    s = 0.0
    for i, (a, b) in enumerate(zip(x, reversed(x))):
        s = s + (a * b if a > b else i * a)
    return s + sum(map(abs, filter(lambda v: v < 0, x)))


@program((1.0, 2.0), (4.0, 2.0), (9.0, 0.5), (0.0, 1.0), (-3.0, 2.0))
def matched_sequences(x, y):
    match (x, [y, x]):
        case (a, [b, _]) if a > 0 and a > b:
            return a * b
        case (a, [1.0, *_]):
            return a - 1.0
        case (a, _) if a > 0:
            return a + y
        case [a, [b, *rest]] if a < -1:
            return a * a * b + 2.0 * rest[0]
    return -x


@program(({"kind": 0, "at": 2.0},), ({"kind": 1, "at": 2.0},), ({"kind": 3, "at": -2.0},))
def matched_mappings(event):
    match event:
        case {"kind": 0, "at": at}:
            return at
        case {"kind": 1 | 2, "at": at}:
            return at * at
        case {"at": at, **rest}:
            return at * rest["kind"]


@program((5.0,), (0.4,), (40.0,))
def walrus_in_loops(x):
    n = 0
    while (y := x / 2.0) > 1.0 and (n := n + 1) < 4:
        x = y
    return x + n if (z := x * x) < 2.0 else z


SQUARE = np.array([[1.0, 2.0], [3.0, 4.0]])


@program((SQUARE, 2.5), (SQUARE, 9.0), (np.array([[5.0, 0.0], [1.0, 7.0]]), 6.0))
def return_out_of_nested_loops(table, limit):
    s = 0.0
    for row in table:
        for v in row:
            s = s + v
            if s > limit:
                return s * v
            if v == 0:
                continue
            for k in range(3):
                if v * k > limit:
                    return s - v * k
    else:
        s = s * 0.5
    return s


def halvings(x):
    while x > 1.0:
        x = x / 2.0
        got = yield x
        if got is not None:
            x = x + got
    return x * 10.0


@program((20.0,), (3.0,), (0.5,))
def generators_that_are_sent_values(x):
    steps, seen = halvings(x), []

    def all_of_them():
        last = yield from halvings(x)
        seen.append(last)

    s = sum(all_of_them())
    with contextlib.suppress(StopIteration):
        v = next(steps)
        s = s + steps.send(v * 0.25)
    return s + seen[0]


class Ledger:
    def __init__(self):
        self.open, self.lines, self.failed = 0, [], 0

    def __enter__(self):
        self.open += 1
        return self

    def __exit__(self, kind, error, traceback):
        self.open -= 1
        self.failed += kind is not None
        return kind is ValueError


@contextlib.contextmanager
def scaled(lines, factor):
    lines.append(factor)
    try:
        yield factor * 2.0
    finally:
        lines.append(-factor * 0.25)


@program((2.0,), (-1.0,), (7.0,))
def context_managers(x):
    ledger = Ledger()
    with ledger as book, scaled(book.lines, x) as twice:
        if x < 0:
            raise ValueError("swallowed")
        book.lines.append(twice if x > 3 else x)
    with ledger, contextlib.suppress(KeyError):
        if x > 5:
            raise KeyError("suppressed")
        ledger.lines.append(x * x)
    return sum(ledger.lines) + 10.0 * ledger.failed + ledger.open


@program((2.0,), (-2.0,), (0.0,), (9.0,))
def finally_after_all(x):
    notes = []

    def tried(v):
        try:
            if v < 0:
                raise ValueError("negative")
            if v == 0:
                return 1.0
            notes.append(v)
        except ValueError:
            notes.append(-v)
            return 2.0 * v
        else:
            notes.append(v * v)
            if v > 5:
                return v
        finally:
            notes.append(0.5)
        return v * v

    return tried(x) + sum(notes) + 0.1 * len(notes)


@program((2.0,), (-2.0,), (9.0,))
def finally_decides(x):
    for _ in range(3):
        try:
            x = x * 2.0
            if x > 10:
                break
        finally:
            if x < -10:
                break  # noqa: B012 that is what is tried
            x = x + 1.0
    return x


@program((3.0,), (-1.0,), (12.0,), (60.0,))
def errors_in_chains(x):
    try:
        try:
            if x < 0:
                raise KeyError("low")
            if x > 50:
                raise ZeroDivisionError("much too high")
            if x > 10:
                raise LookupError("high")
        except KeyError as error:
            raise ValueError(f"{x} is low") from error
    except (ValueError, LookupError) as error:
        return x * (2.0 if error.__cause__ is not None else 3.0)
    return x
