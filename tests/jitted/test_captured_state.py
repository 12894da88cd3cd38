"""What a jitted function reads beside its arguments is as fresh as in the plain function."""

from __future__ import annotations

import functools
import gc
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, hvp, jit
from funcad.jitted import watched
from funcad.jitted.jit import Core
from tests.jitted.captured_cases import CASES, Options, Slots, X, check, module


@pytest.mark.share(3)
@pytest.mark.parametrize("name", CASES)
def test_what_changed_is_seen(name: str) -> None:
    program, f, change = CASES[name]()
    check(program, f, X)
    more = name in ("property", "__getattribute__")  # these count: what they advance becomes an input
    assert program.cache_info().misses == 1 + more
    change()
    check(program, f, X)
    assert program.cache_info().misses == 2 + more


def test_the_program_of_an_earlier_value_is_found_again() -> None:
    made = module("k = 1\ndef f(x):\n    return x * k if k < 3 else x + k")
    program = jit(made.f)
    for k in [1, 2, 3] * 5:
        made.k = k
        np.testing.assert_array_equal(program(X), made.f(X))
    assert program.cache_info().misses <= 4


def test_states_are_bounded() -> None:
    made = module("k = 'a'\ndef f(x):\n    return x * len(k)")
    program = jit(made.f)
    for n in range(50):
        made.k = "a" * n
        check(program, made.f, X)
    assert program.cache_info().currsize <= 17


def test_what_nobody_reads_is_not_watched() -> None:
    made = module("k, unread = 2.0, 1.0\ndef f(x):\n    return np.sin(x)\ndef g(x):\n    return x * k")
    f, g = jit(made.f), jit(made.g)
    f(X), g(X)
    assert [e.watched.listed() for e in f._core.cache.entries.values()] == [[]]
    made.k, made.unread = 3.0, 2.0
    f(X), g(X)
    made.unread = 3.0
    check(g, made.g, X)
    assert (f.cache_info().misses, g.cache_info().misses) == (1, 2)


def test_names_that_the_function_stores_advance_at_each_call() -> None:
    made = module(
        "n, seen, counts = 0, [], {'a': 0}\n"
        "def f(x):\n    global n\n    n += 1\n    seen.append(n)\n    counts['a'] += 1\n    return x * 2"
    )
    program = jit(made.f)
    for _ in range(4):
        program(X)
    assert (made.n, made.seen, made.counts, program.cache_info().misses) == (4, [1, 2, 3, 4], {"a": 4}, 2)
    made.n, made.seen = 7, []
    program(X)
    assert (made.n, made.seen, made.counts) == (8, [8], {"a": 5})
    assert program.cache_info().misses == 2


def test_an_attribute_that_is_made_by_the_function_itself() -> None:
    class Own:
        def __init__(self) -> None:
            self.made: Any = None
            self.count = 0

        def apply(self, x: Any) -> Any:
            self.count += 1
            if self.made is None:
                self.made = np.arange(3.0)
            return x * self.made

    thing = Own()
    program = jit(thing.apply)
    for _ in range(4):
        np.testing.assert_array_equal(program(X), X * np.arange(3.0))
    assert thing.count == 4


def test_what_another_changes_meanwhile_is_seen_at_the_next_call() -> None:
    made = module("k = 1.0\ndef f(x):\n    y = x * k\n    other()\n    return y")

    def change() -> None:
        if made.k == 1.0:
            made.__dict__["k"] = 2.0

    made.other = np.vectorize(change, otypes=[])  # code that is not the user's calls it
    made.other = types.SimpleNamespace(go=change).go
    program = jit(made.f)
    program(X)
    np.testing.assert_array_equal(program(X), X * 2.0)


def test_a_deleted_name_is_pythons_error() -> None:
    made = module("k = 1.0\ndef f(x):\n    return x * k")
    program = jit(made.f)
    check(program, made.f, X)
    del made.k
    with pytest.raises(NameError, match="'k' is not defined"):
        program(X)
    made.k = 1.0
    check(program, made.f, X)
    assert program.cache_info().misses == 2  # of which one raised


def test_a_name_that_appears() -> None:
    text = "def f(x):\n    try:\n        return x * k\n    except NameError:\n        return x\n"
    made = module(text + "def g(x):\n    return x * getattr(o, 'scale', 1.0)", o=Slots(1.0))
    program = jit(made.f)
    check(program, made.f, X)
    made.k = 2.0
    check(program, made.f, X)

    class Own:
        pass

    made.o = Own()
    program = jit(made.g)
    check(program, made.g, X)
    made.o.scale = 3.0
    check(program, made.g, X)


def test_static_objects_are_watched() -> None:
    thing = Options(2.0)
    f = jit(lambda x, o: x * o.scale, static_argnums=1)
    check(f, lambda x, o: x * o.scale, X, thing)
    thing.scale = 3.0
    check(f, lambda x, o: x * o.scale, X, thing)

    class Model:
        def __init__(self) -> None:
            self.k = 2.0

        @functools.partial(jit, static_argnums=0)
        def apply(self, x: Any) -> Any:
            return x * self.k

    model = Model()
    check(model.apply, lambda x: x * model.k, X)
    model.k = 3.0
    check(model.apply, lambda x: x * model.k, X)


def test_functions_made_anew_are_one_if_they_are_alike() -> None:
    def times(factor: int) -> Any:
        return lambda v: v * factor

    made = module("def f(x):\n    return act(x)", act=times(2))
    program = jit(made.f)
    for factor in (2, 2, 3, 3, 2):
        made.act = times(factor)
        np.testing.assert_array_equal(program(X), X * factor)


@pytest.mark.parametrize("transform", [grad, lambda f: lambda x: hvp(f, (x,), (x,)), lambda f: funcad.hessian(f)])
def test_transforms_of_a_jitted_function(transform: Callable[..., Any]) -> None:
    made = module("k = 2.0\ndef f(x):\n    return np.sum(x ** 3 * k)")
    inner, outer = transform(jit(made.f)), jit(transform(made.f))
    for k in (2.0, 3.0, 2.0, 4.0):
        made.k = k
        for _ in range(3):
            for found, other, expected in zip(*[np.atleast_1d(t(X)) for t in (inner, outer, transform(made.f))]):
                np.testing.assert_allclose(found, expected)
                np.testing.assert_allclose(other, expected)


def test_loops_and_branches() -> None:
    made = module(
        "k = 2.0\ndef body(c, x):\n    return c * k, x + k\n"
        "def f(x):\n    c, ys = funcad.lax.scan(body, 1.0, x)\n"
        "    return funcad.lax.cond(c > 0, lambda v: v * k, lambda v: v, ys) + funcad.checkpoint(lambda v: v * k)(x)"
    )
    program = jit(made.f)
    for k in (2.0, 3.0, -1.0):
        made.k = k
        for _ in range(3):
            np.testing.assert_allclose(program(X), made.f(X))


def test_the_variable_is_named() -> None:
    said: list[str] = []
    made = module("k, o = 2.0, {'a': [1, 2]}\ndef f(x):\n    return x * k * o['a'][1]")
    program = jit(made.f)
    with funcad.explain_cache_misses(said.append):
        program(X)
        made.k = 3.0
        program(X)
        made.o["a"][1] = 5
        program(X)
        made.k = 2.0
        program(X)
    assert "global k: 3.0, before 2.0" in said[1]
    assert "global o['a'][1]: 5, before 2" in said[2]
    assert len(said) == 4 and "global k: 2.0, before" in said[3]


def test_functions_and_what_they_read_are_freed() -> None:
    class Big:
        pass

    def make() -> tuple[Any, Any, Any]:
        big: Any = Big()
        big.scale = 2.0

        def f(x: Any) -> Any:
            return x * big.scale + (0 * f.__code__.co_argcount)

        program = jit(f)
        for _ in range(5):
            program(X)
        return weakref.ref(big), weakref.ref(f), weakref.ref(program)

    found = make()
    gc.collect()
    assert [ref() for ref in found] == [None] * 3


def test_a_replaced_object_is_freed() -> None:
    made = module("def f(x):\n    return x * o.scale", o=Options(2.0))
    program = jit(made.f)
    program(X)
    old = weakref.ref(made.o)
    made.o = Options(3.0)
    check(program, made.f, X)
    gc.collect()
    assert old() is None


def test_threads_see_changes() -> None:
    made = module("k = 1.0\ndef f(x):\n    return x * k")
    program = jit(made.f)
    wrong: list[Any] = []

    def work() -> None:
        for _ in range(200):
            out = float(program(1.0))
            if out not in (1.0, 2.0, 3.0):
                wrong.append(out)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for i in range(100):
        made.k = 1.0 + i % 3
    for t in threads:
        t.join()
    assert not wrong
    made.k = 2.0
    assert float(program(1.0)) == 2.0


def test_an_error_while_tracing_leaves_nothing_behind() -> None:
    made = module("k = 0\ndef f(x):\n    return x / k if isinstance(k, float) else undefined")
    program = jit(made.f)
    with pytest.raises(NameError):
        program(X)
    made.k = 2.0
    check(program, made.f, X)


def test_what_others_change_at_each_look_is_named(monkeypatch: Any) -> None:
    found = module("k = 'a'\ndef f(x):\n    return x * len(k)")
    f = jit(found.f)

    def captured(self: Any, entry: Any) -> None:
        found.k += "a"  # as another thread does

    monkeypatch.setattr(Core, "_captured", captured)
    with pytest.warns(funcad.NotCompiledWarning, match=r"global k changes while it is called, at .*:3 \(f\)"):
        assert f(1.0) == len(found.k)


def test_no_more_than_a_bounded_number_is_watched() -> None:
    class Node:
        def __init__(self, next: Any, scale: float):
            self.next, self.scale = next, scale

    chain = None
    for i in range(5000):
        chain = Node(chain, float(i))
    found = watched.look(lambda x: x * chain.next.scale, ())  # type: ignore[union-attr]
    assert len(found.watches) <= watched.MOST_WATCHES + 10


class Hostile:
    """Whatever one asks of it raises."""

    def _raise(self, *args: Any) -> Any:
        raise RuntimeError("the user's")

    __getattr__ = __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __getitem__ = _raise  # type: ignore[assignment]


class HostileList(list):
    __len__ = __iter__ = __eq__ = __getitem__ = Hostile._raise  # type: ignore[assignment]


class HostileDict(dict):
    __len__ = __iter__ = __eq__ = __getitem__ = keys = values = items = Hostile._raise  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [Hostile, HostileList, HostileDict])
def test_nothing_of_the_users_is_called(kind: type) -> None:
    made = module("def f(x):\n    thing\n    return x * 2", thing=kind())
    program = jit(made.f)
    check(program, made.f, X)
    made.thing = kind()
    check(program, made.f, X)
    assert program.cache_info().misses == 1


def test_a_container_that_the_function_changes_is_watched_where_it_does_not() -> None:
    made = module("t = {'k': 1.0, 'n': 0}\ndef f(x):\n    t['n'] += 1\n    t['new'] = 1\n    return x * t['k']")
    program = jit(made.f)
    check(program, made.f, X)
    made.t["k"] = 2.0
    check(program, made.f, X)
