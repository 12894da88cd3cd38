"""Warm calls of jitted functions take a short way: it must not be seen, except by a clock."""

from __future__ import annotations

import gc
import itertools
import pickle
import threading
import weakref
from collections import OrderedDict, namedtuple
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad.backends import interpreter
from funcad.host.where import open_traces
from funcad.jitted import jit as jit_module
from funcad.jitted import jit_cache, jit_call
from tests.unseen import Noted

Pair = namedtuple("Pair", "left right")


def warm(f: Any, *args: Any, **kwargs: Any) -> Any:
    """f after so many calls that this signature has the short way."""
    for _ in range(6):
        f(*args, **kwargs)
    return f


def is_short(f: Any) -> bool:
    return type(f.__call__) is FunctionType


def same(a: Any, b: Any) -> None:
    """Equal trees, types and dtypes included."""
    leaves_a, tree_a = fc.tree.flatten(a)
    leaves_b, tree_b = fc.tree.flatten(b)
    assert tree_a == tree_b
    for x, y in zip(leaves_a, leaves_b):
        assert type(x) is type(y) and getattr(x, "dtype", None) == getattr(y, "dtype", None), (x, y)
        np.testing.assert_array_equal(x, y)


ARRAY = np.arange(6.0).reshape(2, 3)
ARGUMENTS: list[tuple[Any, ...]] = [
    (2.0,),
    (3,),
    (True,),
    (1 + 2j,),
    (np.float32(2.0),),
    (np.int8(3),),
    (np.array(2.0),),
    (ARRAY,),
    (ARRAY[::-1, ::2],),
    (np.zeros((0, 3)),),
    (ARRAY.astype(np.float32), 2.0, np.float64(1.0)),
    ((ARRAY, [1.0, {"b": ARRAY, "a": 2}]), None),
    (Pair(ARRAY, (1.0,)), []),
    ({"z": 1.0, "a": ARRAY},),
    ({},),
]


@pytest.mark.parametrize("args", ARGUMENTS, ids=str)
def test_warm_calls_give_what_the_first_gave(args: Any) -> None:
    def f(*xs: Any) -> Any:
        return fc.tree.map(lambda x: x * 2, xs), [np.sum(x) for x in fc.tree.leaves(xs)], {"n": None, "m": fc.tree.leaves(xs)}

    g = fc.jit(f)
    first = g(*args)
    warm(g, *args)
    assert is_short(g)
    for _ in range(4):
        same(g(*args), first)


def test_every_signature_has_its_own_answer_whatever_the_order() -> None:
    f = fc.jit(lambda x, y=1.0: (x * y, np.shape(x)))
    calls: list[Any] = [
        ((2.0,), {}),
        ((2,), {}),
        ((np.float64(2.0),), {}),
        ((np.float32(2.0),), {}),
        ((True,), {}),
        ((np.ones(3),), {}),
        ((np.ones(4),), {}),
        ((np.ones(3, np.float32),), {}),
        ((np.ones((3, 1)),), {}),
        ((2.0, 3.0), {}),
        ((2.0,), {"y": 3.0}),
        ((2.0,), {"y": 3}),
        ((), {"x": 2.0, "y": np.ones(2)}),
        (([1.0],), {}),
        (((1.0,),), {}),
    ]
    expected = []
    for args, kwargs in calls:
        try:
            expected.append(fc.jit(lambda x, y=1.0: (x * y, np.shape(x)))(*args, **kwargs))
        except TypeError as error:
            expected.append(type(error))
    order = np.random.default_rng(0).integers(0, len(calls), 400)
    for i in [*range(len(calls)), *order]:
        args, kwargs = calls[i]
        if isinstance(expected[i], type):
            with pytest.raises(expected[i]):
                f(*args, **kwargs)
        else:
            same(f(*args, **kwargs), expected[i])


def test_wrong_calls_are_refused_when_warm_too() -> None:
    f = warm(fc.jit(lambda x, *, scale: x * scale), 2.0, scale=3.0)
    assert is_short(f)
    with pytest.raises(TypeError, match="missing"):
        f(scale=3.0)
    with pytest.raises(TypeError, match="missing"):
        f(2.0)
    with pytest.raises(TypeError, match="positional"):
        f(2.0, 3.0, scale=3.0)
    with pytest.raises(TypeError, match="unexpected"):
        f(2.0, scale=3.0, other=1.0)
    with pytest.raises(TypeError, match="jit of <lambda>: argument"):
        f("text", scale=3.0)
    assert f(2.0, scale=3.0) == 6.0


def test_keywords_with_the_names_of_builtins() -> None:
    f = fc.jit(lambda x, *, type, len=1.0, input=0.0, lambda_=0.0: x * type + len + input + lambda_)
    for _ in range(5):
        assert f(2.0, type=3.0) == 7.0
        assert f(2.0, type=3.0, len=2.0) == 8.0
        assert f(2.0, input=3.0, type=1.0) == 6.0
        assert f(2.0, lambda_=3.0, type=1.0) == 6.0
    g = fc.jit(lambda **kwargs: kwargs)
    for _ in range(5):
        assert g(**{"not a name": 1.0, "class": 2.0, "_kw": 3.0, "self": 4.0}) == {
            "_kw": 3.0,
            "class": 2.0,
            "not a name": 1.0,
            "self": 4.0,
        }


def test_statics_on_the_short_way() -> None:
    g = fc.jit(lambda x, n, **k: (x, str(n)) and x * len(str(n)), static_argnums=1, static_argnames=("mode", "shape"))
    for _ in range(7):
        for n in (1, True, 12, None, "1", (1, 2), (1.0, 2.0), (True, (2, "long")), int, is_short):
            assert g(2.0, n) == 2.0 * len(str(n))
            assert g(2.0, n, mode="b") == 2.0 * len(str(n))
    assert is_short(g)


def test_integers_beyond_int64_are_refused_when_warm_too() -> None:
    f = warm(fc.jit(lambda n: n + 1), 1)
    assert is_short(f) and f(2**62) == 2**62 + 1
    with pytest.raises(OverflowError, match="does not fit int64"):
        f(2**63)


def test_other_layouts_and_classes_take_the_general_way() -> None:
    f = fc.jit(lambda x: x * 2.0)
    x = np.arange(3.0)
    warm(f, x)
    swapped = x.astype(">f8")
    same(f(swapped), f(x))

    class Sub(np.ndarray):
        pass

    np.testing.assert_array_equal(f(x.view(Sub)), x * 2.0)
    restored = pickle.loads(pickle.dumps(x))  # its dtype is equal to float64's, and another object
    before = f.cache_info().misses
    same(f(restored), x * 2.0)
    assert f.cache_info().misses == before
    with pytest.raises(TypeError, match="dtype"):
        f(np.array(["a", "b", "c"]))
    g = fc.jit(lambda x, t: x * 2.0)
    for _ in range(4):
        same(g(x, np.zeros(3, fc.float0)), x * 2.0)


def test_tracers_are_recorded_when_warm() -> None:
    f = warm(fc.jit(lambda x: np.sin(x) * x), 2.0)
    assert is_short(f)
    assert fc.grad(f)(2.0) == pytest.approx(np.cos(2.0) * 2 + np.sin(2.0), rel=1e-15)
    assert "call" in str(fc.make_jaxpr(lambda x: f(x) + 1.0)(2.0))
    np.testing.assert_array_equal(fc.vmap(f)(np.arange(3.0)), np.sin(np.arange(3.0)) * np.arange(3.0))
    assert fc.jit(fc.grad(f))(2.0) == fc.grad(f)(2.0)


def test_a_branch_records_warm_calls_of_outer_values() -> None:
    """An effect inside a traced branch belongs to the branch, though its operands are known: it runs only if that is taken."""
    ran = []

    def count(x: Any) -> Any:
        ran.append(1)
        return x

    effect = warm(fc.jit(lambda x: fc.io_callback(count, fc.ShapeDtypeStruct((), np.float64), x)), 2.0)
    ran.clear()
    f = fc.jit(lambda p: fc.cond(p, lambda: effect(2.0), lambda: 0.0))
    for _ in range(4):
        assert f(False) == 0.0 and not ran
    assert f(True) == 2.0 and ran


def test_contexts_are_heeded_when_warm() -> None:
    f = warm(fc.jit(lambda x: np.log(x)), -1.0)
    assert is_short(f) and np.isnan(f(-1.0))
    with fc.debug_nans(), pytest.raises(fc.errors.NanError, match="log"):
        f(-1.0)
    assert not open_traces
    seen = Noted()
    g = fc.jit(lambda x: seen.note(type(x)) or x * 2.0)
    warm(g, 1.0)
    with fc.disable_jit():
        assert g(1.0) == 2.0
    assert seen[-1] is float
    assert not open_traces
    with pytest.raises(RuntimeError), fc.disable_jit():
        raise RuntimeError
    assert not open_traces


def test_named_axes_are_heeded_when_warm() -> None:
    inside = []
    f = warm(fc.jit(lambda x: x * fc.axis_size("i") if inside else x), 1.0)
    assert is_short(f)
    inside.append(1)
    for n in (3, 4, 3):
        np.testing.assert_array_equal(fc.vmap(lambda x: x + f(1.0), axis_name="i")(np.ones(n)), [n + 1.0] * n)
    inside.clear()
    assert f(1.0) == 1.0


def test_warnings_and_errstate_do_not_matter() -> None:
    f = warm(fc.jit(lambda x: np.log(x) / 0.0), -1.0)
    with np.errstate(all="raise"):
        assert np.isnan(f(-1.0))
        assert np.geterr()["invalid"] == "raise"


def test_errors_name_the_users_line_when_warm() -> None:
    def check(x: Any) -> Any:
        if x > 2.0:
            raise ArithmeticError("too large")
        return x

    def user(x: Any) -> Any:
        return fc.pure_callback(check, fc.ShapeDtypeStruct((), np.float64), x) * 2.0  # the line

    f = warm(fc.jit(user), 1.0)
    assert is_short(f)
    with pytest.raises(ArithmeticError, match="too large") as info:
        f(3.0)
    assert "user" in [entry.name for entry in info.traceback]
    files = {str(entry.path).rpartition("/")[2] for entry in info.traceback}
    assert "interpreter.py" not in files
    assert f(1.0) == 2.0


def test_captured_arrays_are_read_at_every_warm_call() -> None:
    w = np.ones(2)
    f = warm(fc.jit(lambda x: x * w), np.ones(2))
    w[:] = 5.0
    np.testing.assert_array_equal(f(np.ones(2)), [5.0, 5.0])


def test_captured_tracers_are_not_kept() -> None:
    def outer(y: Any) -> Any:
        f = fc.jit(lambda x: x * y)
        return [f(2.0) for _ in range(5)][-1]

    for y in (1.0, 3.0):
        value, slope = fc.value_and_grad(outer)(y)
        assert (value, slope) == (2.0 * y, 2.0)


def test_results_never_alias_when_warm() -> None:
    w = np.ones(3)
    f = fc.jit(lambda x, y: (x, y, x, w, np.reshape(x, (3, 1)), x[::-1], x * 1.0, np.broadcast_to(1.0, (3,))))
    x = np.arange(3.0)
    warm(f, x, x)
    assert is_short(f)
    outs = f(x, x)
    for a, b in itertools.combinations([x, w, *outs], 2):
        assert not np.shares_memory(a, b)
    assert all(o.flags.writeable for o in outs)
    again = f(x, x)
    for a, b in zip(outs, again):
        assert not np.shares_memory(a, b)


def test_many_outputs_and_inputs() -> None:
    xs = [np.full(2, float(i)) for i in range(20)]
    f = fc.jit(lambda *xs: [xs[-1], *xs[:-1], xs[0] * 2.0])
    warm(f, *xs)
    assert is_short(f)
    outs = f(*xs)
    same(outs, [xs[-1], *xs[:-1], xs[0] * 2.0])
    assert not any(np.shares_memory(a, b) for a in outs for b in xs)
    same(f(*[xs[0]] * 20), [xs[0]] * 20 + [xs[0] * 2.0])


def test_structures_without_a_short_way() -> None:
    f = fc.jit(lambda d: OrderedDict((k, v * 2.0) for k, v in d.items()))
    d = OrderedDict(b=1.0, a=2.0)
    warm(f, d)
    assert f(d) == OrderedDict(b=2.0, a=4.0) and type(f(d)) is OrderedDict


def test_signatures_of_many_leaves_have_a_short_way_when_it_repays() -> None:
    xs = [{"a": np.full(2, float(i)), "b": [float(i)]} for i in range(jit_cache.FEW_LEAVES)]
    f = fc.jit(lambda xs: [xs[-1], *fc.tree.map(lambda x: x * 2.0, xs[:-1])])
    for run in range(jit_cache.REPAID + 3):
        assert is_short(f) == (run >= jit_cache.REPAID)
        same(f(xs), [xs[-1], *fc.tree.map(lambda x: x * 2.0, xs[:-1])])
    assert not np.shares_memory(f(xs)[0]["a"], xs[-1]["a"])
    fewer = [*xs[:-1], {"a": np.zeros(3), "b": [1]}]  # of other shapes and types
    same(f(fewer), [fewer[-1], *fc.tree.map(lambda x: x * 2.0, fewer[:-1])])


def test_dicts_are_told_apart_by_their_keys() -> None:
    f = fc.jit(lambda d: {k: v * 2.0 for k, v in d.items()})
    for _ in range(4):
        assert f({"a": 1.0, "b": 2.0}) == {"a": 2.0, "b": 4.0}
        assert f({"b": 1.0, "a": 2.0}) == {"a": 4.0, "b": 2.0}
        assert f({"a": 1.0, "c": 2.0}) == {"a": 2.0, "c": 4.0}
        assert f({"a": 1.0}) == {"a": 2.0}
        assert f({1: 1.0}) == {1: 2.0}


def test_donation_when_warm() -> None:
    """Donated buffers may be written, whenever; others never are."""
    f = fc.jit(lambda x, y: (x + y, x * y), donate_argnums=0)
    y = np.ones(3)
    for i in range(8):
        a, b = f(np.full(3, float(i)), y)
        np.testing.assert_array_equal(a, [i + 1.0] * 3)
        np.testing.assert_array_equal(b, [float(i)] * 3)
        np.testing.assert_array_equal(y, [1.0] * 3)


def test_hits_are_counted_on_the_short_way() -> None:
    f = fc.jit(lambda x: x)
    for _ in range(10):
        f(1.0)
    assert is_short(f)
    assert f.cache_info() == (9, 1, 256, 1, 0)
    assert f.cache_info() == (9, 1, 256, 1, 0)


def test_clearing_ends_the_short_way() -> None:
    calls = Noted()
    f = fc.jit(lambda x: calls.note() or x * 2.0)
    warm(f, 1.0)
    for clear in (f.clear_cache, fc.clear_caches):
        assert is_short(f)
        clear()
        assert not is_short(f)
        n = len(calls)
        warm(f, 1.0)
        assert len(calls) == n + 1


def test_what_a_function_captured_dies_with_it_at_once() -> None:
    def make() -> tuple[Any, Any]:
        w = np.ones(3)
        return warm(fc.jit(lambda x: x * w), 2.0), weakref.ref(w)

    gc.disable()
    try:
        f, ref = make()
        assert is_short(f) and ref() is not None
        del f
        assert ref() is None
    finally:
        gc.enable()


def test_the_call_outlives_its_object() -> None:
    call = warm(fc.jit(lambda x: x * 2.0), 1.0).__call__
    assert call(2.0) == 4.0 and call(np.ones(2)).tolist() == [2.0, 2.0]
    first = fc.jit(lambda x: x * 2.0).__call__
    assert [first(2.0) for _ in range(5)] == [4.0] * 5


def test_calls_inside_calls() -> None:
    depth = []

    def again(x: Any) -> Any:
        if len(depth) < 3:
            depth.append(1)
            return np.float64(f(x + 1.0))
        return x

    f = fc.jit(lambda x: fc.pure_callback(again, fc.ShapeDtypeStruct((), np.float64), x) * 2.0)
    for _ in range(5):
        depth.clear()
        assert f(1.0) == 4.0 * 2**4


def test_switching_the_engine_takes_effect_at_the_next_call() -> None:
    f = warm(fc.jit(lambda x: x * 2.0), 1.0)
    assert is_short(f)
    with fc.config.set(engine="interpreter"):
        assert f(1.0) == 2.0
    assert f(1.0) == 2.0


# -- programs with a native call


class _Program(interpreter.Program):
    """A program that gets a `fast` after a while, as compiled ones do."""

    __slots__ = ("fast",)

    def __init__(self, jaxpr: Any):
        super().__init__(jaxpr)
        self.fast: Any = None


def _with_fast(monkeypatch: pytest.MonkeyPatch, make: Any) -> list:
    programs = []

    def program_of(jaxpr: Any) -> Any:
        if "with fast" not in jaxpr.memo:
            jaxpr.memo["with fast"] = _Program(jaxpr)
            programs.append(jaxpr.memo["with fast"])
        return jaxpr.memo["with fast"]

    monkeypatch.setattr(jit_module, "program_of", program_of)
    return programs


def test_fast_is_used_as_soon_as_it_is_there_and_may_decline(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = _with_fast(monkeypatch, None)
    w = np.ones(2)
    f = fc.jit(lambda d, y: (d["a"] * w, d["b"] + y))
    args = {"b": 1.0, "a": np.ones(2)}, 2.0
    expected = f(*args)
    warm(f, *args)
    seen = []

    def fast(*inputs: Any) -> Any:
        seen.append(inputs)
        captured, a, b, y = inputs
        if type(y) is not float:
            return NotImplemented
        assert captured is w
        return a * captured, b + y

    programs[0].fast = fast
    for _ in range(3):
        same(f(*args), expected)
    assert len(seen) >= 1
    n = len(seen)
    same(f({"a": np.ones(2), "b": 1.0}, 2), fc.jit(lambda d, y: (d["a"] * w, d["b"] + y))({"a": np.ones(2), "b": 1.0}, 2))
    same(f(*args), expected)
    assert len(seen) >= n + 1
    same(f({"a": np.ones(2), "b": 1.0, "c": 3.0}, 2.0), expected)
    assert f.cache_info().misses == 3


def test_an_error_in_fast_is_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = _with_fast(monkeypatch, None)
    f = warm(fc.jit(lambda x: x * 2.0), 1.0)
    raised = []

    def fast(x: Any) -> Any:
        raised.append(x)
        raise ZeroDivisionError("mine")

    programs[0].fast = fast
    f(1.0)
    f(1.0) if not is_short(f) else None
    assert [f(1.0) for _ in range(3)] == [2.0, 2.0, 2.0] and raised


def test_many_signatures_have_short_ways_by_what_their_arguments_look_like() -> None:
    seen: list[Any] = []

    def plain(x: Any, k: Any = 1.0, *, p: Any = None) -> Any:
        return {"s": np.sum(np.sin(x) * k), "p": None if p is None else p["w"] * 2.0}

    f = fc.jit(plain)
    calls: list[tuple[tuple, dict]] = [((np.arange(n) * 0.5,), {}) for n in range(1, 12)]
    calls += [((np.arange(3).astype(t),), {}) for t in (np.float32, np.int64, np.complex128, np.int32, np.int8)]
    calls += [((np.arange(3.0), 2), {}), ((np.arange(3.0), 2.0), {}), ((np.arange(3.0), np.ones(3)), {})]
    calls += [((np.arange(n) * 0.5,), {"p": {"w": np.ones(n)}}) for n in range(1, 8)]
    calls += [((), {"x": np.arange(n) * 0.5}) for n in (2, 3)]
    for _ in range(9):
        for args, kwargs in calls:
            same(f(*args, **kwargs), plain(*args, **kwargs))
    assert is_short(f) and f.cache_info().misses == len(calls)
    table = f.__call__.table
    assert len(table) >= 13 and table[((3,),)].__globals__["_next_call"] is not f._core.enter
    # those that are dropped leave the others
    key, entry = next((k, e) for k, e in f._core.cache.entries.items() if k.avals[0][0] == (5,) and len(k.avals) == 1)
    with f._core.cache.lock:
        del f._core.cache.entries[key]
        f._core.drop(entry)
    assert ((5,),) not in f.__call__.table or f.__call__.table[((5,),)].__globals__["_entry"] is not entry
    for args, kwargs in calls:
        same(f(*args, **kwargs), plain(*args, **kwargs))
    seen.append(weakref.ref(f))
    del f, table, entry, key
    gc.collect()
    assert seen[0]() is None


def test_the_table_of_short_ways_has_a_bound() -> None:
    calls = [(FunctionType(compile("None", "call", "exec"), {"_entry": i}), ((i,),)) for i in range(2 * jit_cache.MAX_PROGRAMS)]
    found = jit_call.linked(calls, len)
    assert [call for call, _ in calls[: jit_cache.MAX_PROGRAMS]] == list(found.table.values())
    assert found([1, 2]) == 2  # what looks like none of them goes the general way


class Steps:
    def __init__(self) -> None:
        self.w, self.n, self.last = np.ones(3), 0, None

    def step(self, x: Any) -> Any:
        self.w, self.n, self.last = self.w - 0.1 * x, self.n + 1, x
        return np.sum(self.w)

    def counted(self, x: Any) -> Any:
        self.n += 1
        root = np.linalg.cholesky(x)
        self.last = x
        return root[0, 0] * self.n


def test_what_stores_has_the_short_way() -> None:
    plain, s = Steps(), Steps()
    step = warm(fc.jit(s.step), np.ones(3))
    assert is_short(step)
    for _ in range(6):
        plain.step(np.ones(3))
    for k in range(12):
        x = np.full(3, float(k))
        if k == 5:  # as somebody else has set it
            s.w, plain.w = np.zeros(3), np.zeros(3)
        if k == 8:  # another program
            s.w, plain.w = np.ones((2, 3)), np.ones((2, 3))
        same(step(x), plain.step(x))
        same((s.w, s.n), (plain.w, plain.n))
        assert s.last is x


def test_the_short_way_stores_what_python_stores_before_an_error() -> None:
    s = Steps()
    counted = warm(fc.jit(s.counted), np.eye(2))
    assert is_short(counted)
    wrong = -np.eye(2)
    with pytest.raises(np.linalg.LinAlgError):
        counted(wrong)
    assert s.n == 7 and s.last is not wrong
    assert counted(np.eye(2)) == 8.0


def test_threads_lose_no_store_on_the_short_way() -> None:
    s = Steps()
    step = warm(fc.jit(s.step), np.ones(3))
    before = s.n
    threads = [threading.Thread(target=lambda: [step(np.ones(3)) for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert s.n == before + 800
