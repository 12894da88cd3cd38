"""What a jitted function stores in what was there before it, and reads of it."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import os
import threading
import time
import types
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import funcad
from funcad import grad, jit
from funcad.errors import UnexpectedTracerError
from funcad.jitted import first_calls

X = np.array([1.0, 2.0, 3.0])


class State:
    def __init__(self) -> None:
        self.n, self.w, self.layers = 0, np.ones(3), [np.ones(3), np.full(3, 2.0)]
        self.table: dict[str, Any] = {"a": np.ones(3), "n": 0}
        self.pair: Any = (np.zeros(3), 0.0)
        self.name, self.log, self.seen = "", [], set()  # type: ignore[var-annotated]


def layers(s: State, x: Any) -> Any:
    total = x
    for w in s.layers:
        total = total * w
    s.layers = [w + 0.5 for w in s.layers]
    return total


def items(s: State, x: Any) -> Any:
    s.layers[0] = s.layers[0] * 0.5 + x
    s.table["a"] = s.table["a"] + s.layers[0]
    return sum([v for v in s.table.values() if v is not None])


def pairs(s: State, x: Any) -> Any:
    m, c = s.pair
    s.pair = (m * 0.5 + x, c + 1.0)
    return m * c + x


def deleted(s: State, x: Any) -> Any:
    if hasattr(s, "extra"):
        del s.extra
    else:
        s.extra = x
    return x * (2.0 if hasattr(s, "extra") else 3.0)


def renamed(s: State, x: Any) -> Any:
    s.name = "second" if s.name == "first" else "first"
    return x * len(s.name)


def in_a_helper(s: State, x: Any) -> Any:
    def more(k: float) -> None:
        s.n += 1
        s.log.append(("n", x[0] * k))

    more(1.0), more(2.0)
    return x


def in_a_gradient(s: State, x: Any) -> Any:
    def loss(y: Any) -> Any:
        s.n += 1
        return np.sum(y * y) * s.n

    return grad(loss)(x)


def swapped(s: State, x: Any) -> Any:
    s.w, s.layers[0] = s.layers[0] * 2.0, s.w + x
    return s.w + s.layers[0]


def grown_in_place(s: State, x: Any) -> Any:
    s.log += [np.sum(x), 2.0]
    return x


def added_to_a_set(s: State, x: Any) -> Any:
    s.seen.add("a")
    return x


def written_in_place(s: State, x: Any) -> Any:
    s.w += 1.0
    return x * s.w


def written_by_out(s: State, x: Any) -> Any:
    np.add(s.w, 1.0, out=s.w)
    return x * s.w


def written_by_at(s: State, x: Any) -> Any:
    np.add.at(s.w, [0, 0], 1.0)
    np.copyto(s.layers[0], 3.0)
    return x * s.w + s.layers[0]


COMPILED: list[Callable[[State, Any], Any]] = [layers, items, pairs, deleted, renamed, in_a_helper, in_a_gradient, swapped]
COMPILED += [grown_in_place]
UN_JITTED = [added_to_a_set, written_in_place, written_by_out, written_by_at]


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b), (a, b)
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        a, b = list(a.values()), list(b.values())
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    elif isinstance(a, (np.ndarray, np.generic, float)):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    else:
        assert a == b


@pytest.mark.parametrize("f", [*COMPILED, *UN_JITTED], ids=lambda f: f.__name__)
def test_the_state_is_that_of_plain_python(f: Callable[[State, Any], Any]) -> None:
    jitted, plain = State(), State()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        program = jit(lambda x: f(jitted, x))
        for i in range(8):
            same(program(X + i), f(plain, X + i))
            same(vars(jitted), vars(plain))
            if i == 4:  # somebody else changes it
                for s in (jitted, plain):
                    s.n, s.w, s.layers[1], s.table["a"] = 7, np.full(3, 5.0), np.full(3, 4.0), np.full(3, 0.5)
    assert bool(said) == (f in UN_JITTED), [str(w.message) for w in said]
    assert f in UN_JITTED or program.cache_info().misses <= 4 + (f in (deleted, renamed)), program.cache_info()


def test_an_error_leaves_what_plain_python_leaves() -> None:
    def f(s: State, x: Any) -> Any:
        s.n += 1
        s.w = x * 2.0
        y = np.linalg.cholesky(x * np.eye(3))
        s.log.append(1)
        return y

    jitted, plain = State(), State()
    program = jit(lambda x: f(jitted, x))
    for x in (X, X, -X, X, -X, X):
        found = []
        for g in (program, lambda x: f(plain, x)):
            try:
                found.append(g(x))
            except np.linalg.LinAlgError as error:
                found.append(str(error))
        same(*found)
        same(vars(jitted), vars(plain))


def test_a_stored_array_is_its_own() -> None:
    o = types.SimpleNamespace(w=None)

    def f(x: Any) -> Any:
        o.w = x
        return x * 1.0

    program, kept = jit(f), []
    for i in range(4):
        x = X + i
        y = program(x)
        kept.append(o.w)
        y[:] = -1.0
        np.testing.assert_array_equal(o.w, X + i)
    np.testing.assert_array_equal(kept, [X + i for i in range(4)])


def test_a_derivative_is_not_stored() -> None:
    o = types.SimpleNamespace(w=None, n=0)

    def f(x: Any) -> Any:
        o.w = x * 2.0
        return np.sum(x)

    def g(x: Any) -> Any:
        o.n += 1
        return np.sum(x)

    program = jit(f)
    program(X)
    with pytest.raises(UnexpectedTracerError, match=r"o\.w"):
        funcad.vmap(lambda x: program(x))(np.stack([X, X]))
    counted = jit(g)
    for i in range(5):
        grad(counted)(X)
        assert o.n == i + 1


def test_threads_lose_no_count() -> None:
    o = types.SimpleNamespace(n=0)

    def f(x: Any) -> Any:
        o.n += 1
        return x * 2.0

    program = jit(f)
    threads = [threading.Thread(target=lambda: [program(1.0) for _ in range(300)]) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert o.n == 2400


def test_a_jitted_function_inside_another() -> None:
    def make(jit: Any) -> Any:
        o = types.SimpleNamespace(t=0, k=1.0)

        @jit
        def inner(x: Any) -> Any:
            o.t += 1
            return x * o.t * o.k

        return o, jit(lambda x: inner(x) + inner(x) * 0.5)

    (a, f), (b, g) = make(jit), make(lambda f: f)
    for i in range(8):
        np.testing.assert_allclose(f(X), g(X), rtol=1e-14)
        assert a.t == b.t
        a.k = b.k = 1.0 + i // 2


def test_readings_of_the_world_are_read_again() -> None:
    os.environ["FUNCAD_STORE"] = "2"
    f = jit(lambda x: x * float(os.getenv("FUNCAD_STORE", "1")))
    np.testing.assert_array_equal(f(X), X * 2.0)
    os.environ["FUNCAD_STORE"] = "3"
    np.testing.assert_array_equal(f(X), X * 3.0)
    del os.environ["FUNCAD_STORE"]
    np.testing.assert_array_equal(f(X), X)
    with pytest.warns(funcad.NotCompiledWarning, match="reads a clock"):
        jit(lambda x: x * datetime.datetime.now().year)(X)
    for clock in (time.strftime, time.asctime):  # a text of now
        with pytest.raises(funcad.NotCompiledWarning, match=f"time.{clock.__name__} reads a clock"):
            jit(lambda x, clock=clock: x * len(clock(*["%H"] * (clock is time.strftime))), not_compiled="raise")(X)


def test_a_jitted_method_is_copied_with_its_state() -> None:
    class Model:
        def __init__(self) -> None:
            self.t = 0

        def step(self, x: Any) -> Any:
            self.t += 1
            return x * self.t

    model = Model()
    program = jit(model.step)
    for i in range(4):
        np.testing.assert_array_equal(program(X), X * (i + 1))
    other = copy.deepcopy(model)
    np.testing.assert_array_equal(jit(other.step)(X), X * 5)
    np.testing.assert_array_equal(program(X), X * 5)
    assert (model.t, other.t) == (5, 5)


def test_callable_objects_under_transforms_advance_at_each_call() -> None:
    class Counted:
        def __init__(self) -> None:
            self.n = 0

        def __call__(self, x: Any) -> Any:
            self.n += 1
            return np.sum(x * self.n)

    for make in (lambda c: grad(jit(c)), lambda c: jit(grad(c)), lambda c: jit(lambda x: grad(c)(x)), lambda c: jit(c)):
        c, plain = Counted(), Counted()
        f = make(c)
        for i in range(5):
            found, value = f(X), plain(X)
            np.testing.assert_allclose(np.sum(found * X) if np.ndim(found) else found, value, rtol=1e-14)
            assert c.n == plain.n == i + 1


def test_what_a_library_calls_and_stores_stops_it() -> None:
    class Key:
        calls = 0

        def __init__(self, v: Any):
            self.v = v

        def __lt__(self, other: Any) -> bool:
            Key.calls += 1
            return bool(self.v < other.v)

    def f(x: Any) -> Any:
        return x * sorted([Key(3), Key(1), Key(2)])[0].v

    with pytest.warns(funcad.NotCompiledWarning, match="__lt__, which is called by a library, stores something"):
        program = jit(f)
        before = Key.calls
        for _ in range(4):
            np.testing.assert_array_equal(program(X), X)
    assert Key.calls >= before + 8


# -- what is stored is the array that Python would store


def _argument(s: State, x: Any) -> None:
    s.w = x


def _appended(s: State, x: Any) -> None:
    s.log.append(x)
    s.table["last"] = (x, 2.0)


def _twice(s: State, x: Any) -> None:
    s.w = x * 2.0
    s.table["w"] = s.w
    s.layers[0] = s.w


def _copied(s: State, x: Any) -> None:
    s.w, s.layers[0] = x.copy(), np.array(x)


@pytest.mark.parametrize("stores", [_argument, _appended, _twice, _copied])
@pytest.mark.parametrize("nested", [False, True])
def test_a_stored_array_is_the_argument_and_one_that_is_stored_twice_is_one(
    stores: Callable[[State, Any], None], nested: bool
) -> None:
    def run(way: Callable[[Any], Any]) -> list[Any]:
        s, seen = State(), []

        def f(x: Any) -> Any:
            stores(s, x)
            return np.sum(x)

        inner = way(f)
        g = way(lambda x: inner(x) * 2.0) if nested else inner
        for k in range(5):
            x = X * (k + 1.0)
            value = g(x)
            x[0] = -1.0
            if stores is _twice:
                s.w[1] = -2.0
            held = [s.w, s.layers[0], *s.log, *(np.asarray(v).tolist() for v in s.table.get("last", ()))]
            same = [s.w is s.table.get("w"), s.w is s.layers[0], s.w is x, bool(s.log) and s.log[-1] is x]
            seen.append((value, [np.array(h).tolist() for h in held], same))
        return seen

    assert run(jit) == run(lambda f: f)


def test_a_donated_argument_is_stored_as_a_copy() -> None:
    s = State()

    def f(x: Any) -> Any:
        s.w = x
        return x * 2.0

    g = jit(f, donate_argnums=0)
    for k in range(5):
        g(X * k)
        assert s.w.tolist() == (X * k).tolist()


# -- stores of what is there already, and methods that change a container


def _stores(make: Callable[[], tuple[Any, Callable[[Any], Any]]], changes: list[Callable[[Any], Any]]) -> None:
    """Calls, between which somebody else changes the state: it is what plain Python makes of it."""
    (state, f), (wanted, g) = make(), make()
    jitted = jit(f)
    for change in [lambda s: None, *changes, *changes]:
        change(state), change(wanted)
        for call in (1.0, 2.0):
            assert jitted(call) == g(call)
            assert repr(state) == repr(wanted)


class _Item:
    def __init__(self) -> None:
        self.flag, self.items = True, {"a": 1}

    def __repr__(self) -> str:
        return repr(self.__dict__)


def _of(state: Any, body: Callable[[Any, Any], Any]) -> Callable[[], tuple[Any, Callable[[Any], Any]]]:
    def make() -> tuple[Any, Callable[[Any], Any]]:
        own = copy.deepcopy(state)
        return own, lambda x: body(own, x) or x * 2.0

    return make


def _same_item(s: Any, x: Any) -> None:
    s["n"] = 5


def _same_attribute(s: Any, x: Any) -> None:
    s.flag = True


def _updates(s: Any, x: Any) -> None:
    s.update({"n": 5}, k=3)


def _ior(s: Any, x: Any) -> None:
    s |= {"n": 5}


def _default(s: Any, x: Any) -> Any:
    return x * s.setdefault("n", 5)


def _popped(s: Any, x: Any) -> Any:
    return x * s.pop("n", 7)


def _deleted(s: Any, x: Any) -> None:
    if "n" in s:
        del s["n"]


def _set_dict(value: Any) -> Callable[[Any], Any]:
    return lambda s: s.__setitem__("n", value)


@pytest.mark.parametrize("body", [_same_item, _updates, _ior, _default, _popped, _deleted], ids=lambda f: f.__name__)
@pytest.mark.parametrize("state", [{"n": 5}, {"a": 1.0}, {}], ids=str)
@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_dicts_end_as_in_plain_python(body: Callable[[Any, Any], Any], state: dict[str, Any]) -> None:
    _stores(_of(state, body), [_set_dict(0), _set_dict(5), lambda s: s.clear(), _set_dict(2.5), lambda s: s.update(k=9)])


def test_an_attribute_that_has_the_value_already() -> None:
    _stores(_of(_Item(), _same_attribute), [lambda s: setattr(s, "flag", False), lambda s: setattr(s, "flag", None)])


def _list(change: Callable[[Any, Any], Any]) -> Callable[[Any, Any], None]:
    def body(s: Any, x: Any) -> None:
        change(s, x)

    return body


LISTS: dict[str, Callable[[Any, Any], Any]] = {
    "sort": lambda s, x: s.sort(),
    "reverse": lambda s, x: s.reverse(),
    "pop": lambda s, x: s and s.pop(),
    "insert": lambda s, x: s.insert(0, 4.0),
    "clear": lambda s, x: s.clear(),
    "remove": lambda s, x: s.remove(3.0) if 3.0 in s else None,
    "delete": lambda s, x: s.__delitem__(0) if s else None,
    "extend": lambda s, x: s.extend([1.0, 2.0]),
    "item": lambda s, x: s.__setitem__(0, 3.0) if s else None,
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_lists_end_as_in_plain_python(name: str) -> None:
    changes = [lambda s: s.extend([3.0, 1.0, 2.0]), lambda s: s.sort(), lambda s: s.reverse(), lambda s: s.clear()]
    for state in ([1.0, 2.0, 3.0], [3.0, 1.0], []):
        _stores(_of(state, _list(LISTS[name])), changes)


@pytest.mark.parametrize("change", ["add", "discard"])
@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_sets_end_as_in_plain_python(change: str) -> None:
    body = _list(lambda s, x: getattr(s, change)(5))
    for state in ({5}, {1, 2}, set()):
        _stores(_of(state, body), [lambda s: s.add(5), lambda s: s.discard(5)])


def test_a_mutable_default_of_a_jitted_function_in_another() -> None:
    def make() -> Any:
        def f(x: Any, seen: Any = []) -> Any:  # noqa: B006 the subject
            seen.append(1.0)
            return x * sum(seen)

        return f

    inner = jit(make(), not_compiled="ignore")
    outer = jit(lambda x: inner(x) + 0.0, not_compiled="ignore")
    assert [outer(1.0) for _ in range(5)] == [1.0, 2.0, 3.0, 4.0, 5.0]


# -- what was found at one place and is stored at another is what stands there at the call


class Record(NamedTuple):
    value: Any
    twice: Any


@dataclasses.dataclass
class Point:
    value: Any


class Moving:
    def __init__(self) -> None:
        self.previous: Any = None
        self.current: Any = None
        self.log: list[Any] = []
        self.ring: Any = [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)]
        self.table: dict[str, Any] = {"a": [0.0], "b": [1.0]}
        self.p, self.q = Point(1.0), Point(2.0)
        self.w, self.v = np.zeros(2), np.ones(2)


def _described(x: Any, found: dict[int, int]) -> Any:
    """A value in which each container, object and array has a number: the same one where it is the same object."""
    if isinstance(x, (float, int, str, type(None), np.generic)):
        return x if isinstance(x, (str, type(None))) else float(x)
    number = -1 if isinstance(x, tuple) else found.setdefault(id(x), len(found))
    items = vars(x) if isinstance(x, (Moving, Point)) else x
    if isinstance(items, dict):
        return type(x).__name__, number, [(k, _described(v, found)) for k, v in items.items()]
    return type(x).__name__, number, [_described(v, found) for v in items]


def _last_two(s: Moving, x: Any) -> None:
    s.previous, s.current = s.current, (x, 2.0 * x)


def _last_two_records(s: Moving, x: Any) -> None:
    s.previous, s.current = s.current, Record(x, 1.0)


def _last_two_lists(s: Moving, x: Any) -> None:
    s.previous = s.current
    s.current = [x, {"x": x}]


def _rolled(s: Moving, x: Any) -> None:
    s.log = s.log[-3:]
    s.log.append((x, x))


def _rolled_by_deletion(s: Moving, x: Any) -> None:
    s.log.append([x, x])
    del s.log[:-3]


def _around(s: Moving, x: Any) -> None:
    s.ring[0], s.ring[1], s.ring[2] = s.ring[1], s.ring[2], (x, 1.0)


def _around_at_once(s: Moving, x: Any) -> None:
    s.ring = [s.ring[1], s.ring[2], (x, 1.0)]


def _exchanged(s: Moving, x: Any) -> None:
    s.ring = [s.ring[1], s.ring[0]]


def _items_moved(s: Moving, x: Any) -> None:
    s.table["a"] = s.table["b"]
    s.table["b"] = [x]


def _object_moved(s: Moving, x: Any) -> None:
    s.p.value = s.p.value + x
    s.p = s.q


def _objects_exchanged(s: Moving, x: Any) -> None:
    s.p.value = s.p.value + x
    s.p, s.q = s.q, s.p


def _constant_stored(s: Moving, x: Any) -> None:
    s.previous = s.current
    s.current = () if x > 3.0 else (0.0, 1.0)


def _array_moved(s: Moving, x: Any) -> None:
    s.previous = s.w


def _array_appended(s: Moving, x: Any) -> None:
    s.log.append((s.w, x))


def _arrays_exchanged(s: Moving, x: Any) -> None:
    s.w, s.v = s.v, s.w


def _arrays_advanced(s: Moving, x: Any) -> None:
    s.v, s.w = s.w, s.w * 0.5 + x


MOVED = [_last_two, _last_two_records, _last_two_lists, _rolled, _rolled_by_deletion, _around, _around_at_once, _exchanged]
MOVED += [_items_moved, _object_moved, _objects_exchanged, _constant_stored]
MOVED += [_array_moved, _array_appended, _arrays_exchanged, _arrays_advanced]


# -- what the function makes and stores twice is one object


def _made_and_appended(s: Moving, x: Any) -> None:
    s.p = Point(x)
    s.log.append(s.p)


def _made_and_in_another(s: Moving, x: Any) -> None:
    s.current = [x]
    s.table["c"] = {"current": s.current, "x": x}


def _empty_twice(s: Moving, x: Any) -> None:
    s.previous = s.current = []


MOVED += [_made_and_appended, _made_and_in_another, _empty_twice]

WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "alone": lambda jit, f: jit(f),
    "twice": lambda jit, f: jit(lambda x: f(x) + f(x * 0.5)),
    "nested": lambda jit, f: (lambda g: jit(lambda x: g(x) + 1.0))(jit(f)),
    "nested twice": lambda jit, f: (lambda g: jit(lambda x: g(x) + g(x * 0.5)))(jit(f)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("body", MOVED, ids=lambda f: f.__name__)
def test_what_is_moved_is_what_stands_there_at_the_call(body: Callable[[Moving, Any], None], way: str) -> None:
    def run(wrap: Any) -> list[Any]:
        s, seen = Moving(), []

        def f(x: Any) -> Any:
            body(s, x)
            return x * 2.0

        g = WAYS[way](wrap, f)
        for i in range(10):
            seen.append((g(float(i)), _described(s, {})))
            s.w[:] += 1.0
            if i == 5:  # somebody else changes it
                s.q, s.current, s.ring, s.table["b"] = Point(7.0), (9.0, 9.0), [(8.0, 8.0), *s.ring[:2]], [7.0]
                s.v = np.full(2, 7.0)
        return seen

    with warnings.catch_warnings():
        if body is _constant_stored:  # it is one constant or the other: such a function may run un-jitted
            warnings.simplefilter("ignore", funcad.NotCompiledWarning)
        assert run(jit) == run(lambda f: f)


def test_an_empty_tuple_is_not_what_stands_where_one_was_found() -> None:
    s = Moving()

    def f(x: Any) -> Any:
        s.log.append(s.current)
        s.previous = tuple(s.table.get("c", []))  # Python has one empty tuple
        return x

    g, s.current = jit(f), ()
    for i in range(6):
        g(1.0)
        assert s.log[-1] == s.current and s.previous == ()
        s.current = (float(i),) if i > 2 else ()


def test_a_constant_is_not_what_stands_where_it_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    """After an error the function's twin has run and stored a constant of its own code, which the next trace finds."""
    s = Moving()

    def f(x: Any) -> Any:
        s.previous, s.current = s.current, (0.5, 1.5)
        print("called")
        return np.linalg.cholesky(x * np.eye(len(x)))

    g = jit(f)
    for x in (X, X, X, -X, X[:2], X[:2], X[:2]):
        try:
            g(x)
        except np.linalg.LinAlgError:
            pass
        assert s.current == (0.5, 1.5)
    for i in range(4):
        s.current = (float(i), 0.0)
        g(X[:2])
        assert (s.previous, s.current) == ((float(i), 0.0), (0.5, 1.5))


class Noting:
    def __init__(self) -> None:
        self.n, self.log, self.last, self.said = 0, [], None, ""  # type: ignore[var-annotated]

    def step(self, x: Any) -> Any:
        self.log.append(self.n)
        if x[0] > 1.0:
            self.said = "large"
        self.last = x * 2.0
        x[1] = 7.0
        y = np.linalg.inv(np.diag(x))
        self.n += 1
        print("inverted")
        return y


@pytest.mark.parametrize("observes", [True, False])
def test_what_is_stored_before_an_operation_raises(
    observes: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether it raises when the path is found, or when that has been compiled; a print behind it is not said."""
    monkeypatch.setattr(first_calls, "OBSERVES", observes)
    found = []
    for wrap in (lambda f: f, jit):
        noting, states = Noting(), []
        f = wrap(noting.step)
        for first, third in [(2.0, 0.0), (2.0, 1.0), (2.0, 0.0), (2.0, 1.0), (2.0, 0.0), (0.5, 0.0), (0.5, 1.0), (0.5, 0.0)]:
            x = np.array([first, 1.0, third])
            try:
                result = f(x).tolist()
            except np.linalg.LinAlgError as error:
                result = str(error)
            last = None if noting.last is None else noting.last.tolist()
            states.append((result, x.tolist(), noting.n, [*noting.log], last, noting.said))
        found.append((states, capsys.readouterr().out))
    assert found[1] == found[0]


def test_a_try_that_catches_what_is_raised_for_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    """Where a number is an input there is nobody who could tell a value: the function is traced once more, without inputs."""

    class Counter:
        n = 0

    def made(wrap: Any) -> Any:
        c = Counter()

        def f(x: Any) -> Any:
            c.n += 1
            try:
                return x * c.n if x > 1.0 else x + c.n
            except Exception as error:
                print(type(error).__name__)
                return x

        return wrap(f)

    jitted, plain = made(jit), made(lambda f: f)
    assert [jitted(v) for v in (2.0, 0.5, 2.0, 2.0, 0.5)] == [plain(v) for v in (2.0, 0.5, 2.0, 2.0, 0.5)]
    assert capsys.readouterr().out == ""
