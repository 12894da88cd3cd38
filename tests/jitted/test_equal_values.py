"""Values that `==` calls equal have programs of their own, and dicts keep the order that the caller gave them."""

from __future__ import annotations

import collections
import dataclasses
import enum
import pickle
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import funcad as fc
from funcad import tree

ALIKE: list[Any] = [
    0, False, 1, True, 1.0, 0.0, -0.0, np.float64(1), np.float64(-0.0), np.float32(0), np.int64(0), np.bool_(True),
]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Options:
    v: Any
    rest: Any = ()


class ByValue:
    def __init__(self, v: Any):
        self.v = v

    def __eq__(self, other: Any) -> bool:
        return self.v == other.v

    def __hash__(self) -> int:
        return hash(self.v)


class Pair(NamedTuple):
    v: Any


class Tagged:
    def __init__(self, x: Any, tag: Any):
        self.x, self.tag = x, tag


tree.register_pytree_node(Tagged, lambda t: ((t.x,), t.tag), lambda tag, xs: Tagged(xs[0], tag))


@dataclasses.dataclass
class Marked:
    x: Any
    tag: Any = tree.static(default=None)


def told(v: Any) -> float:
    """A number for each of ALIKE."""
    kinds = [bool, int, float, np.float64, np.float32, np.int64, np.bool_]
    return 100.0 * kinds.index(type(v)) + 10.0 * float(v) + float(np.copysign(1.0, v))


def found(x: Any) -> str:
    if isinstance(x, (Tagged, Marked)):
        return f"{type(x).__name__}({found(x.x)}, {x.tag!r})"
    if isinstance(x, tuple):
        return str([type(x), *map(found, x)])
    if isinstance(x, dict):
        return str([type(x), *[(k, type(k), found(v)) for k, v in x.items()]])
    return repr(x)


def as_plain(f: Callable[..., Any], calls: list[tuple], rounds: int = 4, **options: Any) -> None:
    """The jitted f answers as f does: at first, from its cache and by its written calls."""
    jitted = fc.jit(f, **options)
    for call in [*calls * rounds, *calls[::-1]]:
        assert found(jitted(*call)) == found(f(*call)), call


assert len(set(map(told, ALIKE))) == len(ALIKE)


@pytest.mark.share(3)
@pytest.mark.parametrize("wrap, of", [
    (lambda v: v, lambda s: s),
    (lambda v: (v,), lambda s: s[0]),
    (Pair, lambda s: s.v),
    (Options, lambda s: s.v),
    (lambda v: Options("a", (v, "b")), lambda s: s.rest[0]),
    (ByValue, lambda s: s.v),
    (lambda v: ByValue(Options(v)), lambda s: s.v.v),
    (lambda v: ByValue((v, (v,))), lambda s: s.v[1][0]),
    (lambda v: frozenset([v]), lambda s: next(iter(s))),
    (lambda v: frozenset([(v, 2)]), lambda s: next(iter(s))[0]),
    (lambda v: (Options(frozenset([Pair(v)])),), lambda s: next(iter(s[0].v)).v),
], ids=range(11))  # fmt: skip
def test_static_arguments(wrap: Any, of: Any):
    as_plain(lambda x, s: x + told(of(s)), [(1.0, wrap(v)) for v in ALIKE], static_argnums=1)


def test_enums_are_no_numbers():
    class Level(enum.IntEnum):
        LOW = 0

    class Other(enum.IntEnum):
        LOW = 0

    f = fc.jit(lambda x, s: x + {Level: 1, Other: 2, int: 3, bool: 4}[type(s)], static_argnums=1)
    for _ in range(3):
        assert [float(f(0.0, s)) for s in (Level.LOW, Other.LOW, 0, False)] == [1, 2, 3, 4]


def test_static_nan_is_one():
    f = fc.jit(lambda x, s: x * 2.0, static_argnums=1)
    for s in (float("nan"), float("nan"), np.float64("nan"), Options(float("nan")), Options(float("nan"))):
        f(1.0, s)
    assert f.cache_info().currsize == 3


@pytest.mark.parametrize("make", [
    lambda v: {v: 1.0},
    lambda v: [{(v,): 1.0}],
    lambda v: {"a": {v: 1.0, "b": 2.0}},
    lambda v: {Options(v): 1.0},
    lambda v: {frozenset([v]): 1.0},
    lambda v: collections.OrderedDict({v: 1.0}),
    lambda v: collections.defaultdict(float, {v: 1.0}),
    lambda v: Tagged(1.0, v),
    lambda v: Tagged(1.0, (v, Options(v))),
    lambda v: Tagged(1.0, ByValue((v,)).v),
    lambda v: Marked(1.0, v),
    lambda v: Marked(1.0, [v, {v: v}]),
    lambda v: Marked(1.0, {v}),
], ids=range(13))  # fmt: skip
def test_keys_and_static_data_of_arguments(make: Any):
    as_plain(lambda d: (tree.map(lambda x: 2.0 * x, d), d), [(make(v),) for v in ALIKE])


@pytest.mark.parametrize("make", [lambda v: {v: 1}, lambda v: {v}, lambda v: [v], lambda v: (v,), lambda v: {"k": v}])
def test_captured_values(make: Any):
    read: Any = None

    def f(x: Any) -> Any:
        return x + told(next(iter(read.values() if "k" in read else read)))

    jitted = fc.jit(f)
    for v in [*ALIKE, *ALIKE]:
        read = make(v)
        assert jitted(1.0) == f(1.0)


def test_strings_of_another_class_are_other_keys():
    as_plain(lambda d: d, [({"a": 1.0},), ({np.str_("a"): 1.0},)])
    assert [*map(type, tree.map(lambda x: x, {np.str_("a"): 1.0}))] == [np.str_]


# -- the order of dicts


ORDERS = [{"b": 1.0, "a": 2.0, "c": 5.0}, {"a": 2.0, "b": 1.0, "c": 5.0}, {"c": 5.0, "b": 1.0, "a": 2.0}]


def weighed(d: dict) -> Any:
    return sum([10.0**i * v**2 for i, v in enumerate(d.values())])


@pytest.mark.parametrize("f", [
    weighed,
    lambda d: d,
    lambda d: {k: 2.0 * v for k, v in d.items()},
    lambda d: {"z": d["a"], "y": d["b"], "x": {"q": d["c"], "p": 1.0}},
    lambda d: next(iter(d.values())),
    lambda d: {**d}.popitem()[1],
    lambda d: (list(d).index("a") * d["a"], dict(reversed(d.items()))),
    lambda d: collections.defaultdict(int, d),
], ids=range(8))  # fmt: skip
def test_f_sees_the_callers_order(f: Any):
    jitted = fc.jit(f)
    for d in ORDERS * 5:
        assert found(jitted(dict(d))) == found(f(dict(d)))


def by_key(d: dict) -> Any:
    return d["b"] - d["a"] if d["a"] > 1.0 else d["a"] * d["b"] + d["c"]


def late(d: dict) -> Any:
    """One path of three sees the order."""
    return weighed(d) if d["a"] > 2.0 else by_key(d)


def dicts_of(a: float) -> list[dict]:
    return [{k: {"a": a, "b": 3.0, "c": 5.0}[k] for k in d} for d in ORDERS]


def test_paths_that_see_no_order_are_of_all_orders():
    jitted = fc.jit(by_key)
    for a in (0.5, 1.5, 0.2, 1.1) * 3:
        for d in dicts_of(a):
            assert jitted(d) == by_key(d)
    assert jitted.cache_info().misses == jitted.cache_info().currsize == 1


@pytest.mark.parametrize("f", [
    late,
    lambda d: {k: 2.0 * v for k, v in d.items()} if d["a"] > 2.0 else by_key(d),
    lambda d: d if d["a"] > 2.0 else by_key(d),
    lambda d: weighed({"q": d}["q"]) if d["a"] > 2.0 and d["b"] < 4.0 else float(d["a"]) * d["b"],
], ids=range(4))  # fmt: skip
@pytest.mark.parametrize("values", [(0.5, 1.5, 2.5, 0.2, 3.5), (2.5, 0.5, 3.5, 1.5), (1.5, 1.2, 0.4, 7.0)], ids=range(3))
def test_a_later_path_that_sees_the_order(f: Any, values: tuple):
    jitted, slope = fc.jit(f), fc.jit(fc.grad(lambda d: late(d) * 2.0))
    before = jitted.cache_info().misses  # the programs of a function are shared with what jitted it before
    for i in range(4):
        for a in values:
            for d in dicts_of(a)[:: 1 - 2 * (i % 2)]:
                assert found(jitted(dict(d))) == found(f(dict(d)))
                assert found(slope(d)) == found(fc.grad(lambda d: late(d) * 2.0)(d))
    info = jitted.cache_info()
    assert info.misses - before <= 2 * len(ORDERS) and info.currsize <= len(ORDERS)


def test_two_threads_with_two_orders():
    jitted, wrong = fc.jit(late), []

    def calls(which: int) -> None:
        for a in (0.5, 1.5, 0.7, 2.5, 3.5, 0.1) * 8:
            d = dicts_of(a)[which]
            if jitted(d) != late(d):
                wrong.append((a, which, jitted(d), late(d)))

    threads = [threading.Thread(target=calls, args=(i,)) for i in (0, 1, 2, 0)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not wrong


def test_nested_dicts_keep_their_order():
    f = lambda d: [{k: weighed(v) for k, v in d["q"].items()}, d]
    calls = [({"q": {"y": dict(d), "x": dict(e)}, "p": 1.0},) for d in ORDERS for e in ORDERS]
    jitted = fc.jit(f)
    for call in calls * 3:
        assert str(jitted(*call)) == str(f(*call))


def test_transforms_see_it_too():
    for d in ORDERS:
        slopes = {k: 10.0**i * 2 * v for i, (k, v) in enumerate(d.items())}
        for transformed in (fc.grad(weighed), fc.jit(fc.grad(weighed)), fc.grad(fc.jit(weighed))):
            assert list(transformed(d).items()) == list(slopes.items())
        many = {k: np.array([v, v]) for k, v in d.items()}
        assert [*fc.vmap(weighed)(many)] == [weighed(d)] * 2 == [*fc.vmap(fc.jit(weighed))(many)]
        assert list(fc.vmap(lambda d: {k: 2 * v for k, v in d.items()})(many)) == list(d)
        value, tangent = fc.jvp(weighed, (d,), (dict.fromkeys(sorted(d), 1.0),))
        assert value == weighed(d) and np.isclose(tangent, sum(slopes.values()))
        assert list(fc.vjp(weighed, d)[1](1.0)[0]) == list(d)


def test_keyword_arguments_keep_their_order():
    f = lambda **given: {k: 2.0 * v for k, v in given.items()}
    jitted = fc.jit(f)
    for d in ORDERS * 4:
        assert list(jitted(**d).items()) == list(f(**d).items())
    g = fc.jit(lambda x, a, b: x * a + b)
    for _ in range(4):
        assert g(1.0, a=2.0, b=3.0) == g(1.0, b=3.0, a=2.0) == 5.0
    assert g.cache_info().misses == 1, "g cannot tell in which order they came"
    h = fc.jit(lambda x, **given: x * list(given).index("n") + given["a"], static_argnames="n")
    for _ in range(4):
        assert h(2.0, n=1, a=3.0) == 3.0 and h(2.0, a=3.0, n=1) == 5.0


def test_leaves_are_sorted_and_dicts_match_whatever_their_order():
    first, second = {"b": 1.0, "a": 2.0}, {"a": 20.0, "b": 10.0}
    assert tree.leaves(first) == [2.0, 1.0] and [str(*p) for p in tree.structure(first).paths()] == ["['a']", "['b']"]
    assert tree.structure(first) == tree.structure(second) and hash(tree.structure(first)) == hash(tree.structure(second))
    assert list(tree.map(lambda x, y: x + y, first, second).items()) == [("b", 11.0), ("a", 22.0)]
    assert fc.flatten_util.ravel_pytree(first)[0].tolist() == [2.0, 1.0]
    assert list(fc.flatten_util.ravel_pytree(first)[1](np.ones(2))) == ["b", "a"]
    assert fc.vmap(lambda d: d["a"], in_axes=({"a": 0, "b": None},))({"b": 1.0, "a": np.ones(2)}).shape == (2,)
    again = pickle.loads(pickle.dumps(tree.structure({"b": 1.0, "a": [1.0]})))
    assert list(again.unflatten([1.0, 2.0])) == ["b", "a"]
    assert tree.map(lambda x, y: x + y, {"b": 1, 2: 3}, {2: 30, "b": 10}) == {"b": 11, 2: 33}, "keys that have no order"


def test_a_compiled_program_is_of_one_order():
    compiled = fc.jit(weighed).lower(ORDERS[0]).compile()
    assert compiled(ORDERS[0]) == weighed(ORDERS[0])
    with pytest.raises(TypeError, match="lowered for dicts whose keys come in another order"):
        compiled(ORDERS[1])


def test_a_miss_says_that_the_order_is_new():
    texts: list[str] = []
    f = fc.jit(lambda d: weighed(d))
    with fc.explain_cache_misses(texts.append):
        f(ORDERS[0]), f(ORDERS[1])
    assert texts[1].endswith("  the keys of a dict come in another order, which the function can see")
