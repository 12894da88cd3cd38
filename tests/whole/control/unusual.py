"""Programs of kinds that users have and tests seldom: schedulers, interpreters, trees of dicts, texts, recursion on values."""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict, deque

import numpy as np

from tests.whole.control.program import program


@program((np.array([3.0, 1.0, 2.0]),), (np.array([1.0, 2.0, 3.0]),), (np.array([0.5, 0.4, 5.0]),))
def scheduler(durations):
    """Tasks that wake up by a heap of times, ties by number; each sleeps for its duration, thrice."""
    heap = [(d, i, 1) for i, d in enumerate(durations)]
    heapq.heapify(heap)
    cost = 0.0
    while heap:
        now, i, n = heapq.heappop(heap)
        cost = cost + now * (i + 1)
        if n < 3 and now < 6.0:
            heapq.heappush(heap, (now + durations[i], i, n + 1))
    return cost


LEFT = {"at": 1, "low": 1.0, "high": 2.0}
TREE = {"at": 0, "low": LEFT, "high": {"at": 2, "low": {"at": 0, "low": 3.0, "high": 4.0}, "high": 5.0}}


@program((np.array([0.2, 0.7, 0.1]),), (np.array([0.8, 0.1, 0.2]),), (np.array([0.9, 0.5, 0.9]),), (np.array([0.6, 0.5, 0.2]),))
def tree_of_dicts(x):
    node, way = TREE, []
    while isinstance(node, dict):
        side = "low" if x[node["at"]] < 0.65 else "high"
        way.append(side)
        node = node[side]
    return node * x[0] ** len(way) + way.count("low")


@program((4.0, 1.0), (7.0, 2.0), (0.5, 3.0))
def texts_of_values(x, y):
    parts = []
    while x > 1:
        parts.append("a" if x > 5 else "b")
        x = x - y
    word = "".join(parts) or "none"
    return x * len(word) + y * word.count("b") + (1.0 if word.startswith("a") else 0.0)


class Refused(Exception):
    def __init__(self, amount, reason):
        super().__init__(f"{reason}: {amount:.2f}")
        self.amount, self.reason = amount, reason


class TooMuch(Refused):
    pass


@program((5.0, 2.0), (5.0, 9.0), (5.0, -1.0), (50.0, 45.0))
def errors_that_hold_values(balance, amount):
    def withdraw(b, a):
        if a < 0:
            raise Refused(a, "negative")
        if a > b:
            raise TooMuch(a - b, "short of")
        return b - a

    try:
        left = withdraw(balance, amount)
        return withdraw(left, amount / 2.0)
    except TooMuch as error:
        return -error.amount * 3.0
    except Refused as error:
        return error.amount * error.amount


@program((6.0,), (2.5,), (0.3,), (11.0,))
def recursion_on_values(x):
    def walk(v, depth):
        if v < 1 or depth == 6:
            return v * depth
        return walk(v - 1.0, depth + 1) + walk(v / 3.0, depth + 2)

    return walk(x, 0)


@program((np.array([2, 0, 1, 3]), 3.0), (np.array([0, 1, 2, 2]), 2.0), (np.array([3, 3, 4, 1]), 0.5))
def stack_machine(code, x):
    stack = [x]
    for instruction in code:
        if instruction == 0:
            stack.append(stack[-1])
        elif instruction == 1:
            stack.append(stack.pop() * 2.0)
        elif instruction == 2:
            stack[-1] = stack[-1] + x
        elif len(stack) > 1:
            stack.append(stack.pop() * stack.pop())
        else:
            stack[-1] = np.sin(stack[-1])
    return sum(stack)


@program((np.array([1.0, 5.0, 2.0, 8.0]),), (np.array([9.0, 8.0, 1.0, 0.5]),), (np.array([1.0, 1.0, 1.0, 1.0]),))
def groups_in_dicts(x):
    groups = defaultdict(list)
    for v in x:
        groups["large" if v > 4 else "small"].append(v)
    s = 0.0
    for k, (name, values) in enumerate(sorted(groups.items())):
        s = s + (k + 1) * len(name) * sum(values) / len(values)
    return s


@program((np.array([1.0, 3.0, -2.0, 4.0, -1.0]),), (np.array([-1.0, -3.0, 2.0, 0.5, 6.0]),), (np.ones(5),))
def largest_in_windows(x):
    kept, best = deque(), 0.0
    for i, v in enumerate(x):
        while kept and x[kept[-1]] <= v:
            kept.pop()
        kept.append(i)
        if kept[0] <= i - 3:
            kept.popleft()
        best = best + x[kept[0]] * (i + 1)
    return best


@program((np.array([1.0, 2.0, 4.0]), 5.0), (np.array([1.0, 2.0, 4.0]), 6.5), (np.array([3.0, 3.0, 3.0]), 9.0))
def subset_by_search(x, target):
    best, chosen = None, ()
    for n in range(4):
        for items in itertools.combinations(range(3), n):
            distance = abs(sum([x[i] for i in items], 0.0) - target)
            if best is None or distance < best:
                best, chosen = distance, items
    return best**2 + len(chosen) * x[0]


class State:
    """A machine that remembers in its attributes."""

    def __init__(self, level):
        self.level, self.mode, self.history = level, "idle", []

    @property
    def full(self):
        return self.level > 4.0

    def step(self, inflow):
        self.history.append(self.mode)
        handler = getattr(self, "when_" + self.mode)
        handler(inflow)
        return self

    def when_idle(self, inflow):
        self.level = self.level + inflow
        if self.full:
            self.mode = "drain"

    def when_drain(self, inflow):
        self.level = self.level * 0.5 + inflow * 0.1
        if not self.full and self.level < 2.0:
            self.mode = "idle"


@program((1.0, 2.0), (3.5, 0.2), (0.0, 4.5))
def machine_with_modes(level, inflow):
    state = State(level)
    for _ in range(6):
        state.step(inflow)
    return state.level * (1.0 + state.history.count("drain"))
