"""Programs whose jitted calls once gave another number than plain Python, without a word: now they agree at every call.

Each probe makes a function and what happens between two calls of it; it is made twice, once jitted and once plain, and the two
are called side by side. Whether the calls are compiled is said by `UNCOMPILED`: those of the others must not warn.
"""

from __future__ import annotations

import array
import collections
import contextvars
import dataclasses
import functools
import io
import itertools
import math
import operator
import os
import random as rnd
import threading
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import jit

X = np.array([1.0, 2.0, 3.0])
Probe = tuple[Callable[..., Any], Callable[[int], None]]
PROBES: dict[str, Callable[[Callable[..., Any]], Probe]] = {}
UNCOMPILED: set[str] = set()


def probe(make: Any = None, *, compiled: bool = True) -> Any:
    if make is None:
        return functools.partial(probe, compiled=compiled)
    name = make.__name__.strip("_")
    PROBES[name] = make
    if not compiled:
        UNCOMPILED.add(name)
    return make


def nothing(i: int) -> None:
    """Between the calls."""


# -- W1: a number that keeps changing, of a static argument


@probe
def _static_self(jit: Any) -> Probe:
    class Model:
        def __init__(self) -> None:
            self.lr = 0.5

        @functools.partial(jit, static_argnums=0)
        def step(self, x: Any) -> Any:
            return x - self.lr * x

    model = Model()
    return model.step, lambda i: setattr(model, "lr", model.lr * 0.5 + 0.1)


@probe
def _static_class(jit: Any) -> Probe:
    class Options:
        rate = 1.0

    f = jit(lambda o, x: x * o.rate, static_argnums=0)
    return functools.partial(f, Options), lambda i: setattr(Options, "rate", 1.5 + i)


@probe
def _partial_over_a_dict(jit: Any) -> Probe:
    config = {"lr": 1.0}
    return jit(functools.partial(lambda c, x: x * c["lr"], config)), lambda i: config.update(lr=2.5 + i)


# -- W2: one container that is stored into does not hide another


@probe
def _two_dicts(jit: Any) -> Probe:
    config = {"lr": 1.0}

    def f(x: Any) -> Any:
        out = {}
        out["lr"] = x * config["lr"]
        return out["lr"]

    return jit(f), lambda i: config.update(lr=2.5 + i)


# -- W3: identity of flags


@probe
def _flag_is_false(jit: Any) -> Probe:
    o = types.SimpleNamespace(flag=False, k=1.0)

    def f(x: Any) -> Any:
        return x * o.k if o.flag is False else x + o.k

    def change(i: int) -> None:
        o.k, o.flag = 1.5 + i, i % 3 == 2

    return jit(f), change


@probe
def _flag_without_guards(jit: Any) -> Probe:
    o = types.SimpleNamespace(flag=False, k=1.0)
    f = lambda x: x * o.k if o.flag is False else x + o.k
    made = funcad.jit(f, guards=False) if jit is funcad.jit else f
    return made, lambda i: vars(o).update(k=1.5 + i, flag=i % 2 == 0)


# -- W4: f runs on its own objects


@probe
def _registry_by_identity(jit: Any) -> Probe:
    class Thing:
        k = 1.0

    thing = Thing()
    registry, seen, ref = {thing: 2.0}, {thing}, weakref.ref(thing)

    def f(x: Any) -> Any:
        here = registry.get(thing, -1.0) if thing in seen else -2.0
        return x * thing.k * here if ref() is thing else x

    return jit(f), lambda i: setattr(thing, "k", 1.5 + i)


@probe
def _table_of_functions(jit: Any) -> Probe:
    o = types.SimpleNamespace(k=1.0)

    def act(x: Any) -> Any:
        return x * o.k

    table = {act: 3.0}
    return jit(lambda x: act(x) * table.get(act, 0.0)), lambda i: setattr(o, "k", 1.5 + i)


# -- W7: what NumPy and Python read of a captured array


@probe
def _contents(jit: Any) -> Probe:
    A = np.arange(3.0)

    def f(x: Any) -> Any:
        return x * np.exp(A) + A * 2 + A[0] + A[[0, 1]].sum() + A.copy() + np.array(A) + A.sum() + float(A[0]) + sum(A.tolist())

    return jit(f), lambda i: operator.setitem(A, i % 3, i + 0.5)


@probe
def _captured_mask(jit: Any) -> Probe:
    keep = np.array([True, False, True])
    return jit(lambda x: x[keep].sum()), lambda i: operator.setitem(keep, i % 3, not keep[i % 3])


@probe
def _lengths_from_contents(jit: Any) -> Probe:
    n = np.array([1, 2])

    def f(x: Any) -> Any:
        for _ in range(n[0]):
            x = x * 1.5
        return x + len(set(n.tolist()))

    return jit(f), lambda i: operator.setitem(n, i % 2, i)


@probe
def _counts_of_repeats(jit: Any) -> Probe:
    counts = np.array([1, 2, 0])
    return jit(lambda x: np.repeat(x, counts)), lambda i: operator.setitem(counts, i % 3, 1 + i % 2)


@probe
def _a_view_of_it(jit: Any) -> Probe:
    A = np.arange(6.0).reshape(2, 3)
    row = A[1]
    return jit(lambda x: x * np.sqrt(row) + A.T[0].sum()), lambda i: operator.setitem(A, (i % 2, 0), i + 1.0)


@probe
def _objects_in_an_array(jit: Any) -> Probe:
    things = np.array([1.0, "a", None], dtype=object)
    return jit(lambda x: x * things[0]), lambda i: operator.setitem(things, 0, i + 2.0)


# -- W8: no silent limits


@probe
def _long_list(jit: Any) -> Probe:
    numbers = [1.0] * 300
    return jit(lambda x: x * sum(numbers)), lambda i: operator.setitem(numbers, 290 - i, i + 2.0)


@probe
def _one_of_many(jit: Any) -> Probe:
    numbers = [1.0] * 1000
    return jit(lambda x: x * numbers[777]), lambda i: operator.setitem(numbers, 777, i + 2.0)


@probe
def _long_dict(jit: Any) -> Probe:
    table = {f"k{i}": 1.0 for i in range(500)}
    return jit(lambda x: x * table["k400"]), lambda i: table.update(k400=i + 2.0)


@probe
def _many_objects(jit: Any) -> Probe:
    things = [types.SimpleNamespace(k=float(i)) for i in range(2100)]
    return jit(lambda x: x * things[2050].k), lambda i: setattr(things[2050], "k", i + 0.5)


# -- W9: reads that were never seen


@probe
def _attribute_of_a_function(jit: Any) -> Probe:
    def f(x: Any) -> Any:
        return x * f.rate  # type: ignore[attr-defined]

    f.rate = 1.0  # type: ignore[attr-defined]
    return jit(f), lambda i: setattr(f, "rate", i + 2.0)


@probe
def _descriptor(jit: Any) -> Probe:
    class Scaled:
        factor = 1.0

        def __get__(self, thing: Any, kind: Any) -> float:
            return self.factor * thing.k

    class Thing:
        k = 2.0
        value = Scaled()

    thing = Thing()

    def change(i: int) -> None:
        if i % 2:
            thing.k = i + 0.5
        else:
            vars(Thing)["value"].factor = i + 1.5

    return jit(lambda x: x * thing.value), change


@probe
def _computed_names(jit: Any) -> Probe:
    o = types.SimpleNamespace(a=1.0, b=2.0)
    name = ["a"]

    def change(i: int) -> None:
        name[0] = "ab"[i % 2]
        setattr(o, name[0], i + 3.0)

    return jit(lambda x: x * getattr(o, name[0]) * operator.attrgetter("a")(o)), change


@probe
def _globals_by_key(jit: Any) -> Probe:
    globals()["_KEY"] = 1.0
    return jit(lambda x: x * globals()["_KEY"]), lambda i: globals().update(_KEY=1.0 + i % 4)


@probe
def _thread_local(jit: Any) -> Probe:
    local = threading.local()
    local.k = 1.0
    return jit(lambda x: x * local.k), lambda i: setattr(local, "k", i + 2.0)


@probe
def _context_variable(jit: Any) -> Probe:
    var: contextvars.ContextVar[float] = contextvars.ContextVar("k", default=1.0)
    return jit(lambda x: x * var.get()), lambda i: var.set(i + 2.0) and None  # type: ignore[func-returns-value]


@probe
def _defaultdict(jit: Any) -> Probe:
    table: Any = collections.defaultdict(lambda: 1.0)
    return jit(lambda x: x * table["k"]), lambda i: table.update(k=i + 2.0)


@probe
def _mapping_proxy(jit: Any) -> Probe:
    inside = {"k": 1.0}
    proxy = types.MappingProxyType(inside)
    return jit(lambda x: x * proxy["k"]), lambda i: inside.update(k=i + 2.0)


@probe
def _weak_reference(jit: Any) -> Probe:
    o = Number()
    ref = weakref.ref(o)
    return jit(lambda x: x * ref().c), lambda i: setattr(o, "c", i + 2.0)  # type: ignore[union-attr]


@probe
def _array_module(jit: Any) -> Probe:
    numbers = array.array("d", [1.0, 2.0])
    return jit(lambda x: x * numbers[0]), lambda i: operator.setitem(numbers, 0, i + 2.0)


@probe
def _bytearray(jit: Any) -> Probe:
    data = bytearray(b"\x01\x02")
    return jit(lambda x: x * data[0]), lambda i: operator.setitem(data, 0, i + 2)


@probe
def _environment(jit: Any) -> Probe:
    os.environ["FUNCAD_PROBE"] = "1.0"
    f = lambda x: x * float(os.environ["FUNCAD_PROBE"]) * float(os.environ.get("FUNCAD_PROBE_2", "1"))
    return jit(f), lambda i: os.environ.update(FUNCAD_PROBE=str(i % 4 + 2.0))


@probe
def _users_cache(jit: Any) -> Probe:
    o = types.SimpleNamespace(k=1.0)

    @functools.lru_cache
    def rate(n: int) -> float:
        return o.k * n

    def change(i: int) -> None:
        o.k = i + 2.0
        rate.cache_clear()

    return jit(lambda x: x * rate(2)), change


@probe
def _its_own_code(jit: Any) -> Probe:
    def f(x: Any) -> Any:
        return x * 2.0

    codes = [(lambda x: x * 3.0).__code__, (lambda x: x * 4.0).__code__]
    return jit(f), lambda i: setattr(f, "__code__", codes[i % 2])


@probe
def _method_that_is_captured(jit: Any) -> Probe:
    grown: list[float] = []
    append = grown.append

    def f(x: Any) -> Any:
        append(1.0)
        return x

    def g(x: Any) -> Any:
        f(x)
        return x * 2.0

    made = jit(g)
    return lambda x: made(x) * len(grown), nothing


# -- state that f advances


@probe
def _counter_in_self(jit: Any) -> Probe:
    class SGD:
        def __init__(self) -> None:
            self.t, self.m, self.losses = 0, np.zeros(3), []  # type: ignore[var-annotated]

        def step(self, x: Any) -> Any:
            self.t += 1
            self.m = 0.9 * self.m + x
            self.losses.append(np.sum(x * x))
            return x - 0.1 / self.t * self.m

    sgd = SGD()
    made = jit(sgd.step)

    def f(x: Any) -> Any:
        out = made(x)
        return out, sgd.t, sgd.m, list(sgd.losses), type(sgd.t)

    return f, nothing


@probe
def _adam(jit: Any) -> Probe:
    class Adam:
        def __init__(self) -> None:
            self.t, self.m, self.v = 0, np.zeros(3), np.zeros(3)

        def step(self, x: Any) -> Any:
            g = 2.0 * x
            self.t += 1
            self.m = 0.9 * self.m + 0.1 * g
            self.v = 0.999 * self.v + 0.001 * g * g
            return x - 0.01 * (self.m / (1 - 0.9**self.t)) / (np.sqrt(self.v / (1 - 0.999**self.t)) + 1e-8)

    return jit(Adam().step), nothing


@probe
def _nonlocal(jit: Any) -> Probe:
    n = 0

    def f(x: Any) -> Any:
        nonlocal n
        n += 1
        return x * n

    return jit(f), nothing


@probe
def _global_item(jit: Any) -> Probe:
    table = {"n": 0, "k": 2.0}

    def f(x: Any) -> Any:
        table["n"] += 1
        return x * table["n"] * table["k"]

    return jit(f), lambda i: table.update(k=i + 1.0)


@probe
def _class_counter(jit: Any) -> Probe:
    class Thing:
        made = 0

    def f(x: Any) -> Any:
        Thing.made += 1
        return x * Thing.made

    return jit(f), nothing


@probe(compiled=False)
def _length_of_what_grew(jit: Any) -> Probe:
    history: list[Any] = []

    def f(x: Any) -> Any:
        history.append(1)
        return x * len(history)

    return jit(f), nothing


@probe(compiled=False)
def _iterator(jit: Any) -> Probe:
    it = itertools.count()
    return jit(lambda x: x * next(it)), nothing


@probe(compiled=False)
def _loop_over_an_iterator(jit: Any) -> Probe:
    it = iter(range(100))

    def f(x: Any) -> Any:
        for k in it:
            return x * k

    return jit(f), nothing


@probe(compiled=False)
def _mutable_default(jit: Any) -> Probe:
    def f(x: Any, seen: Any = []) -> Any:  # noqa: B006 the subject
        seen.append(1)
        return x * len(seen)

    return jit(f), nothing


@probe(compiled=False)
def _written_buffer(jit: Any) -> Probe:
    buf = np.zeros(2)

    def f(x: Any) -> Any:
        buf[0] += 1
        return x * buf[0]

    return jit(f), nothing


@probe(compiled=False)
def _file(jit: Any) -> Probe:
    file = io.StringIO("1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    return jit(lambda x: x * float(file.readline())), nothing


@probe
def _pythons_random(jit: Any) -> Probe:
    rnd.seed(3)
    return jit(lambda x: x * rnd.gauss(0, 1)), nothing


@probe
def _generator(jit: Any) -> Probe:
    rng = np.random.default_rng(3)
    return jit(lambda x: x * rng.normal()), nothing


@probe
def _cache_in_self(jit: Any) -> Probe:
    class Lazy:
        def __init__(self) -> None:
            self.cache: dict[str, Any] = {}

        def weight(self, k: str) -> Any:
            if k not in self.cache:
                self.cache[k] = np.arange(3.0)
            return self.cache[k]

        def f(self, x: Any) -> Any:
            return x * self.weight("a") + self.weight("b")

    return jit(Lazy().f), nothing


@probe
def _stored_in_a_branch(jit: Any) -> Probe:
    log: list[Any] = []

    def f(x: Any) -> Any:
        log.append(("sum", np.sum(x)))
        return x if x[0] > 2.0 else x * 2.0

    made = jit(f)
    return lambda x: (made(x), list(log)), nothing


# -- W16: a number that keeps changing has Python's arithmetic


@dataclasses.dataclass
class Number:
    c: float = 2.0


def _arithmetic(f: Callable[[Any, Any], Any], values: list[Any]) -> Callable[[Any], Probe]:
    def make(jit: Any) -> Probe:
        n = Number()

        def g(x: Any) -> Any:
            try:
                return x * f(n.c, n)
            except (ValueError, ZeroDivisionError, OverflowError) as error:
                return x - len(type(error).__name__)

        return jit(g), lambda i: setattr(n, "c", values[i % len(values)])

    return make


PROBES["power"] = _arithmetic(lambda c, n: (-c) ** 0.5, [3.0, 4.0, 5.0])
PROBES["quotient"] = _arithmetic(lambda c, n: 1 / n.c, [3.0, 4.0, 5.0, 0.0, 2.0])
PROBES["exponential"] = _arithmetic(lambda c, n: math.exp(n.c), [3.0, 4.0, 5.0, 1000.0])
PROBES["floor"] = _arithmetic(lambda c, n: 5 // n.c, [3, 4, 5, 0, 2])
PROBES["remainder"] = _arithmetic(lambda c, n: 7 % (n.c - 1), [3, 4, 5, 1, 2])
PROBES["root"] = _arithmetic(lambda c, n: math.sqrt(n.c), [3.0, 4.0, -1.0, 2.0])


# -- more of each kind, found when all of them were tried again


@probe
def _missing_of_a_thread_local(jit: Any) -> Probe:
    local = threading.local()

    def change(i: int) -> None:
        if i % 2:
            local.k = i + 0.5
        elif hasattr(local, "k"):
            del local.k

    return jit(lambda x: x * getattr(local, "k", 5.0)), change


@probe
def _missing_slot(jit: Any) -> Probe:
    class Thing:
        __slots__ = ("k",)

    thing = Thing()

    def change(i: int) -> None:
        if i % 2:
            thing.k = i + 0.5
        elif hasattr(thing, "k"):
            del thing.k

    return jit(lambda x: x * getattr(thing, "k", 5.0)), change


@probe
def _factory_of_a_defaultdict(jit: Any) -> Probe:
    o = types.SimpleNamespace(k=1.0)
    table: Any = collections.defaultdict(lambda: o.k)

    def change(i: int) -> None:
        o.k = i + 2.0
        table.pop("k", None)

    return jit(lambda x: x * table["k"]), change


@probe
def _global_that_gets_what_it_holds(jit: Any) -> Probe:
    """A name that is an input is bound to the very object that it held when the function was traced."""
    k = 3.0

    def begin(v: float) -> None:
        nonlocal k
        k = v

    def f(x: Any) -> Any:
        begin(3.0)
        return x + k

    def change(i: int) -> None:
        nonlocal k
        k = [1.0, 3.0, 1.0, 2.0][i % 4]

    return jit(f), change


@probe
def _integer_past_64_bits(jit: Any) -> Probe:
    o = types.SimpleNamespace(n=2**62)

    def f(x: Any) -> Any:
        o.n = o.n + 2**60
        return x + (1.0 if o.n > 2**63 else 0.0)

    made = jit(f)
    return lambda x: (made(x), o.n), nothing


@probe(compiled=False)
def _looked_for_in_an_iterator(jit: Any) -> Probe:
    it = iter([1.0, 2.0, 3.0, 4.0, 3.0, 9.0])
    return jit(lambda x: x * (3.0 in it)), nothing


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b) or isinstance(a, (float, np.ndarray)), (a, b)
    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    elif isinstance(a, (np.ndarray, float, complex, np.generic)):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    else:
        assert a == b


@pytest.mark.parametrize("name", PROBES)
def test_jit_gives_what_plain_python_gives(name: str) -> None:
    plain, change = PROBES[name](lambda f, **options: f)
    wanted = []
    for i in range(8):
        wanted.append(plain(X))
        change(i)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        jitted, change = PROBES[name](jit)
        for i in range(8):
            same(jitted(X), wanted[i])
            change(i)
    said = [w for w in said if issubclass(w.category, funcad.NotCompiledWarning)]
    assert len(said) == (name in UNCOMPILED), [str(w.message) for w in said]
    assert all([w.filename == __file__ for w in said])


def _held_by(transform: Callable[[Any], Any]) -> Callable[[Any], Probe]:
    def make(jit: Any) -> Probe:
        class Model:
            def __init__(self) -> None:
                self.k, self.w = 1.0, np.ones(3)

            def loss(self, x: Any) -> Any:
                return np.sum(np.sin(x) * self.k * self.w)

        model = Model()
        return jit(transform(model.loss)), lambda i: vars(model).update(k=1.5 + i, w=np.full(3, 2.0 + i))

    return make


PROBES["gradient of a method"] = _held_by(funcad.grad)
PROBES["a gradient that was made before"] = _held_by(lambda f: (lambda g: lambda x: g(x) * 2.0)(funcad.grad(f)))
PROBES["vmap of a partial of a method"] = _held_by(lambda f: funcad.vmap(functools.partial(f)))
