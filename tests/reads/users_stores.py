"""Programs as users write them that change what they found by other ways than `x.a = v`; classes that change meanwhile."""

from __future__ import annotations

import bisect
import collections
import contextlib
import contextvars
import copy
import dataclasses
import heapq
import operator
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

import funcad
from tests.reads.users_programs import Program, program

# -- lists, mappings and sets that are rearranged


def _held(container: Any) -> Any:
    """What it holds now."""
    return dict(container) if isinstance(container, dict) else list(container)


def _of(jit: Any, container: Any, f: Any, change: Any) -> Program:
    made = jit(f)
    return lambda x: (made(x), _held(container)), change


@program
def popped_and_appended(jit: Any) -> Program:
    queue = [1.0, 2.0, 3.0]

    def f(x: Any) -> Any:
        queue.append(7.0)
        return x * queue.pop(0)

    return _of(jit, queue, f, lambda i: operator.setitem(queue, 1, 20.0 + i))


@program
def sorted_in_place(jit: Any) -> Program:
    found = [3.0, 1.0, 2.0]

    def f(x: Any) -> Any:
        found.sort()
        return x * found[0] + found[-1]

    return _of(jit, found, f, lambda i: found.insert(0, 9.0 - 5 * i))


@program
def deleted_from_a_list(jit: Any) -> Program:
    found = [float(i) for i in range(9)]

    def f(x: Any) -> Any:
        first = found[0]
        del found[0]
        return x * first * found[0]

    return _of(jit, found, f, lambda i: None)


@program
def objects_in_turn(jit: Any) -> Program:
    turns = [types.SimpleNamespace(k=float(i)) for i in range(9)]

    def f(x: Any) -> Any:
        first = turns.pop(0)
        turns.append(first)
        return x * first.k

    made = jit(f)
    return lambda x: (made(x), [o.k for o in turns]), lambda i: setattr(turns[0], "k", 50.0 + i)


@program
def stack_that_is_empty_again(jit: Any) -> Program:
    stack = [1.0]

    def f(x: Any) -> Any:
        stack.append(2.0)
        stack.append(3.0)
        y = x * stack[-1] * stack[0]
        return y + stack.pop() * stack.pop()

    return _of(jit, stack, f, lambda i: operator.setitem(stack, 0, 5.0 + i))


@program
def popped_by_key(jit: Any) -> Program:
    held = {"tmp": 1.0, "k": 2.0}

    def f(x: Any) -> Any:
        return x * held.pop("tmp", 0.5) * held["k"] + held.setdefault("z", 3.0)

    return _of(jit, held, f, lambda i: held.update(tmp=3.0 + i) if i % 2 else None)


@program
def updated_from_another(jit: Any) -> Program:
    held, given = {"a": 1.0, "b": 2.0}, {"a": 3.0}

    def f(x: Any) -> Any:
        held.update(given, c=given["a"])
        return x * held["a"] + held["b"]

    return _of(jit, held, f, lambda i: given.update(a=5.0 + i))


@program
def cleared_and_filled(jit: Any) -> Program:
    held = {"a": 1.0, "b": 2.0}

    def f(x: Any) -> Any:
        total = sum(held.values())
        held.clear()
        held["a"] = 3.0
        return x * total * held.get("b", 0.5) * held["a"]

    return _of(jit, held, f, lambda i: held.update(b=5.0 + i))


@program
def counted(jit: Any) -> Program:
    counts: collections.Counter[str] = collections.Counter()

    def f(x: Any) -> Any:
        counts["a"] += 1
        counts.update(["b"])
        return x * 2.0

    return _of(jit, counts, f, lambda i: None)


@program
def set_that_grows(jit: Any) -> Program:
    seen = {1}

    def f(x: Any) -> Any:
        seen.add(2)
        return x * (3.0 if 1 in seen else 4.0)

    return _of(jit, seen, f, lambda i: seen.discard([1, 2, 1, 2][i]))


@program
def changed_by_a_library(jit: Any) -> Program:
    heap, ordered = [3.0, 5.0, 4.0], [1.0, 2.0]

    def f(x: Any) -> Any:
        least = heapq.heappop(heap)
        heapq.heappush(heap, least + 2.5)
        bisect.insort(ordered, 1.5)
        return x * least + ordered[1]

    made = jit(f)
    return lambda x: (made(x), sorted(heap), list(ordered)), lambda i: None


@program
def subclasses_of_containers(jit: Any) -> Program:
    class Doubled(dict):  # type: ignore[type-arg]
        stores = 0

        def __setitem__(self, key: str, value: Any) -> None:
            super().__setitem__(key, value * 2.0)
            self.stores += 1

        def __getitem__(self, key: str) -> Any:
            return super().__getitem__(key) + 1.0

    held = Doubled()
    dict.__setitem__(held, "a", 1.0)

    def f(x: Any) -> Any:
        held["a"] = held["a"] + 1.0
        return x * held["a"]

    made = jit(f)
    return lambda x: (made(x), dict(held), held.stores), lambda i: None


# -- attributes


@program
def validated_attributes(jit: Any) -> Program:
    class Checked:
        def __init__(self) -> None:
            self.a = 1.0

        def __setattr__(self, name: str, value: Any) -> None:
            if isinstance(value, str):
                raise TypeError(name)
            super().__setattr__(name, value)

    o = Checked()

    def f(x: Any) -> Any:
        o.a = o.a * 2.0
        return x * o.a

    made = jit(f)
    return lambda x: (made(x), o.a), lambda i: None


@program
def attributes_by_name(jit: Any) -> Program:
    o = types.SimpleNamespace(a=1.0, b=1.0, c=1.0)

    def f(x: Any) -> Any:
        for name in ("a", "b"):
            setattr(o, name, getattr(o, name) * 2.0)
        if hasattr(o, "c"):
            delattr(o, "c")
        return x * o.a

    made = jit(f)
    return lambda x: (made(x), vars(o).copy()), lambda i: setattr(o, "c", 1.0)


@program
def cache_in_a_frozen_record(jit: Any) -> Program:
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        k: float

        def value(self) -> float:
            if not hasattr(self, "_value"):
                object.__setattr__(self, "_value", self.k * 2.0)
            return self._value  # type: ignore[attr-defined, no-any-return]

    held = [Frozen(1.0)]
    made = jit(lambda x: x * held[0].value())
    return lambda x: (made(x), vars(held[0]).copy()), lambda i: operator.setitem(held, 0, Frozen(2.0 + i)) if i % 2 else None


@program
def descriptor_that_stores(jit: Any) -> Program:
    class Shifted:
        def __get__(self, o: Any, kind: Any = None) -> Any:
            return o._k

        def __set__(self, o: Any, value: Any) -> None:
            o._k = value + 1.0

    class Thing:
        k = Shifted()

        def __init__(self) -> None:
            self.k = 1.0

    o = Thing()

    def f(x: Any) -> Any:
        o.k = o.k * 2.0
        return x * o.k

    made = jit(f)
    return lambda x: (made(x), o.k), lambda i: None


@program
def count_on_the_function(jit: Any) -> Program:
    def f(x: Any) -> Any:
        f.calls += 1  # type: ignore[attr-defined]
        return x * 2.0

    f.calls = 0  # type: ignore[attr-defined]
    made = jit(f)
    return lambda x: (made(x), f.calls), lambda i: None  # type: ignore[attr-defined]


@program
def stores_before_an_error(jit: Any) -> Program:
    o = types.SimpleNamespace(n=0, sign=1.0)

    def f(x: Any) -> Any:
        o.n += 1
        if np.sum(x) * o.sign < 0:
            raise ValueError("negative")
        return x * o.n

    made = jit(f)

    def call(x: Any) -> Any:
        try:
            return made(x), o.n
        except ValueError as error:
            return str(error), o.n

    return call, lambda i: setattr(o, "sign", -o.sign)


@program
def stores_of_a_manager(jit: Any) -> Program:
    o = types.SimpleNamespace(depth=0, k=1.0)

    @contextlib.contextmanager
    def deeper() -> Iterator[int]:
        o.depth += 1
        try:
            yield o.depth
        finally:
            o.depth -= 1

    def f(x: Any) -> Any:
        with deeper() as a, deeper() as b:
            return x * a * b * o.k

    made = jit(f)
    return lambda x: (made(x), o.depth), lambda i: setattr(o, "k", 2.0 + i)


@program
def stores_of_what_a_library_calls(jit: Any) -> Program:
    class Copied:
        k, copies = 1.0, 0

        def __deepcopy__(self, memo: Any) -> Copied:
            self.copies += 1
            made = Copied()
            made.k = self.k
            return made

    o = Copied()
    made = jit(lambda x: x * copy.deepcopy(o).k)
    return lambda x: (made(x), o.copies), lambda i: setattr(o, "k", 2.0 + i)


@program
def ring_buffer(jit: Any) -> Program:
    class Ring:
        def __init__(self) -> None:
            self.last, self.at = np.zeros(3), 0

        def push(self, x: Any) -> Any:
            self.last[self.at % 3] = x[0]
            self.at += 1
            return self.last.sum() * x

    ring = Ring()
    made = jit(ring.push)
    return lambda x: (made(x), ring.last.copy(), ring.at), lambda i: None


# -- classes and modules that change


@program
def name_in_a_class_in_between(jit: Any) -> Program:
    class Base:
        k = 1.0

        def act(self, x: Any) -> Any:
            return x

    class Model(Base):
        pass

    o = Model()

    def change(i: int) -> None:
        if i % 2:
            Model.act = lambda self, x: x * (2.0 + i)  # type: ignore[method-assign]
        else:
            Model.k = 3.0 + i

    return jit(lambda x: o.act(x) * o.k), change


@program
def name_that_a_class_gets(jit: Any) -> Program:
    class Options:
        pass

    o, module = Options(), types.ModuleType("settings_of_somebody")

    def f(x: Any) -> Any:
        try:
            k = o.k  # type: ignore[attr-defined]
        except AttributeError:
            k = -1.0
        return x * k + getattr(module, "shift", 0.5) if hasattr(o, "k") else x * k

    def change(i: int) -> None:
        if i % 2:
            module.shift = 1.0 + i  # type: ignore[attr-defined]
        else:
            Options.k = 3.0 + i  # type: ignore[attr-defined]

    return jit(f), change


@program
def objects_as_keys_and_elements(jit: Any) -> Program:
    class Layer:
        def __init__(self, k: float) -> None:
            self.k = k

    a, b = Layer(1.0), Layer(2.0)
    rates, pairs, found, weak = {a: 0.5, b: 2.0}, {(1, 2)}, {a}, weakref.WeakSet([b])

    def f(x: Any) -> Any:
        for layer, rate in rates.items():
            x = x * layer.k * rate
        total = sum(layer.k for layer in found) + sum(layer.k for layer in weak)
        return x + sum(m * n for m, n in pairs) + total

    def change(i: int) -> None:
        a.k, b.k = 2.0 + i, 7.0 - i
        pairs.add((3, i))

    return jit(f), change


@program
def index_of_a_table(jit: Any) -> Program:
    """A plain array at a traced place: NumPy reads it."""
    table = np.arange(9.0).reshape(3, 3)

    def f(x: Any) -> Any:
        at = np.argsort(x)
        return table[at][:, 1] + table[np.argmax(x)] * x + table[:, np.argmin(x)]

    return jit(f), lambda i: operator.setitem(table, (slice(None), i % 3), 7.0 + i)


@program
def context_variable_that_is_set(jit: Any) -> Program:
    depth: contextvars.ContextVar[float] = contextvars.ContextVar("depth", default=1.0)

    def f(x: Any) -> Any:
        before = depth.set(depth.get() * 2.0)
        y = x * depth.get()
        depth.reset(before)
        return y

    made = jit(f)
    return lambda x: (made(x), depth.get()), lambda i: depth.set(2.0 + i) and None  # type: ignore[func-returns-value]


@program
def arrays_read_by_what_a_library_calls(jit: Any) -> Program:
    ranks = np.array([1.0, 2.0, 3.0])

    class Ranked:
        def __init__(self, at: int) -> None:
            self.at = at

        def __lt__(self, other: Ranked) -> bool:
            return bool(ranks[self.at] < ranks[other.at])

        def rank(self, k: float) -> Any:
            return ranks[self.at] * k

    found = [Ranked(0), Ranked(1), Ranked(2)]
    f = jit(lambda x: x * sorted(found)[0].at + operator.methodcaller("rank", 2.0)(min(found)))
    return f, lambda i: operator.setitem(ranks, i % 3, -7.0 - i)


@program
def body_of_a_checkpoint(jit: Any) -> Program:
    table = np.arange(1.0, 4.0)
    body = funcad.checkpoint(lambda v: np.sin(v) * table.sum() * table)
    return jit(lambda x: np.sum(body(x))), lambda i: operator.setitem(table, i % 3, 4.0 + i)
