"""A program holds for every order of the keys of dicts, if the function could not see the order."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import itertools
import operator
from typing import Any

import numpy as np
import pytest

from funcad import custom_jvp, explain_cache_misses, grad, jit, tree, vmap
from funcad.jitted import first_calls

pytestmark = pytest.mark.usefixtures("patient")

KEYS = ("b", "a", "c")
VALUES = {"a": 2.0, "b": 3.0, "c": 5.0}
ORDERS = [dict(zip(keys, [VALUES[k] for k in keys])) for keys in itertools.permutations(KEYS)]


class Model:
    def __init__(self, d: Any) -> None:
        self.d = d

    def total(self) -> Any:
        return self.d["a"] * self.d["b"] - self.d["c"]


@dataclasses.dataclass
class Pair:
    d: Any
    n: Any


class Mine(dict):
    pass


def by_get(d: Any) -> Any:
    return d.get("a", 1.0) * d["b"] if "c" in d and len(d) == 3 and d else d["c"]


def in_an_object(d: Any) -> Any:
    return Model(d).total()


def made_here(d: Any) -> Any:
    found = {"y": d["a"], "x": d["b"] * 2.0}
    return {k: v * 2.0 for k, v in found.items()}


def matched(d: Any) -> Any:
    helper = lambda e: e["a"] - e["b"]
    return helper(d) if isinstance(d, dict) else 0.0


@pytest.mark.parametrize("f", [by_get, in_an_object, made_here, matched, lambda d: d["a"] - d["b"] ** 2])
def test_who_asks_by_key_has_one_program(f: Any) -> None:
    jitted = jit(f)
    for d in ORDERS * 3:
        assert jitted(dict(d)) == f(d)
    assert jitted.cache_info().misses == 1


def first_of(d: Any) -> Any:
    for v in d.values():
        return v * 10.0


def matched_rest(d: Any) -> Any:
    match d:
        case {"a": a, **rest}:
            return a * next(iter(rest.values()))


def printed(d: Any) -> Any:
    return d["a"] * len(f"{list(d)}".partition("a")[0])


def unpacked(d: Any) -> Any:
    first, *_ = d
    return d[first] * 2.0


def by_two(d: Any) -> Any:
    return [k for (k, *_), _ in [(d, 1)]][0] == "a", d["a"]


def of_keywords(d: Any) -> Any:
    return (lambda **given: 2.0 * next(iter(given.values())))(**d)


def in_a_model(d: Any) -> Any:
    return next(iter(vars(Model(d))["d"].values()))


SEEN = {
    "values": first_of,
    "returned": lambda d: d,
    "returned in a list": lambda d: [d["a"], (d,)],
    "in a dataclass that is returned": lambda d: Pair(d, d["a"]),
    "list": lambda d: d[list(d)[0]] * 2.0,
    "unpacked": unpacked,
    "by two": by_two,
    "opened": lambda d: {**d, "z": d["a"]},
    "keywords": of_keywords,
    "joined": lambda d: d | {"z": 1.0},
    "a copy": lambda d: d.copy(),
    "copy": lambda d: copy.copy(d),
    "dict": lambda d: dict(d),
    "its class": lambda d: next(iter(Mine(d).values())) * 2.0,
    "match": matched_rest,
    "text": printed,
    "popitem": lambda d: {**d}.popitem()[1] * 2.0,
    "map": lambda d: next(map(d.__getitem__, d)) * 2.0,
    "a method": lambda d: next(iter(d.keys().__iter__())) == "a",
    "of the class": lambda d: next(iter(dict.values(d))) * 2.0,
    "tree": lambda d: tree.map(lambda x: x * 2.0, d),
    "grad": lambda d: grad(lambda e: e["a"] * e["b"] * e["c"])(d),
    "reduce": lambda d: functools.reduce(lambda x, k: 10.0 * x + d[k], d, 0.0),
    "getter": lambda d: operator.attrgetter("d")(Model(d)),
    "asdict": lambda d: dataclasses.asdict(Pair(d, 1.0))["d"],
    "in a model": in_a_model,
    "a default": lambda d: collections.defaultdict(float, d),
}


def shown(x: Any) -> str:
    x = {"d": x.d} if type(x) in (Model, Pair) else x
    return repr(tree.map(lambda v: v if type(v) in (bool, str) else float(v), x))


@pytest.mark.parametrize("name", SEEN)
def test_who_may_see_the_order_has_a_program_for_each(name: str) -> None:
    f = SEEN[name]
    jitted = jit(f)
    for d in [*ORDERS, *reversed(ORDERS), *ORDERS, *ORDERS]:
        assert shown(jitted(dict(d))) == shown(f(dict(d)))


def test_stores_are_seen() -> None:
    kept: dict[str, Any] = {}

    def f(d: Any) -> Any:
        kept["d"] = d
        return d["a"] * 2.0

    jitted = jit(f)
    for d in ORDERS * 3:
        assert jitted(dict(d)) == 4.0 and list(kept["d"]) == list(d)


def test_nested_dicts_and_dicts_in_objects() -> None:
    f = lambda m: (m.d["q"]["a"] - m.d["p"] * m.n, [*m.d["q"]] if m.n is None else 0)
    jitted = jit(f)
    for d in ORDERS * 2:
        for outer in (("q", "p"), ("p", "q")):
            made = {"q": dict(d), "p": 2.0}
            assert jitted(Pair({k: made[k] for k in outer}, 3.0)) == (-4.0, 0)
    assert jitted.cache_info().misses == 1
    g = jit(lambda m: next(iter(m.d["q"].values())) * 1.0)
    for d in ORDERS * 4:
        assert g(Pair({"q": dict(d), "p": 2.0}, 3.0)) == next(iter(d.values()))


def test_rules_and_derivatives() -> None:
    @custom_jvp
    def rule(d: Any) -> Any:
        return next(iter(d.values())) * 2.0

    rule.defjvp(lambda primals, tangents: (rule(primals[0]), 2.0 * next(iter(tangents[0].values()))))
    jitted, slope = jit(lambda d: rule(d)), grad(jit(lambda d: d["a"] * d["b"] ** 2))
    for d in ORDERS * 3:
        assert jitted(dict(d)) == 2.0 * next(iter(d.values()))
        assert list(slope(dict(d)).items()) == [(k, {"a": 9.0, "b": 12.0, "c": 0.0}[k]) for k in d]
        many = {k: np.array([v, 2.0 * v]) for k, v in d.items()}
        assert vmap(jit(lambda d: d["a"] - d["b"]))(many).tolist() == [-1.0, -2.0]


def test_numbers_that_keep_changing_become_inputs_whatever_the_order() -> None:
    rate = 0.0
    f = jit(lambda d: d["a"] * rate - d["b"])
    for i, d in enumerate(ORDERS * 5):
        rate = float(i)
        assert f(dict(d)) == 2.0 * i - 3.0
    assert f.cache_info().misses <= 4


def test_a_state_that_decides_whether_the_order_is_seen() -> None:
    mode = "key"
    f = jit(lambda d: d["a"] * 2.0 if mode == "key" else next(iter(d.values())) * 2.0)
    for mode, d in [(m, d) for _ in range(3) for d in ORDERS for m in ("key", "first")]:
        assert f(dict(d)) == (4.0 if mode == "key" else 2.0 * next(iter(d.values())))


def test_a_program_for_every_order_is_lowered_for_every_order() -> None:
    compiled = jit(by_get).lower(ORDERS[0]).compile()
    assert [compiled(d) for d in ORDERS] == [6.0] * 6


def test_other_keys_are_other_structures() -> None:
    f = jit(lambda d: d[1] * 2.0 + len(d))
    for d in [{1: 1.0, 2: 2.0}, {2: 2.0, 1: 1.0}] * 3 + [{True: 1.0, 2: 2.0}, {1.0: 1.0, 2: 2.0}, {1: 1.0, 2: 2.0, 3: 1.0}]:
        assert f(dict(d)) == 2.0 + len(d)
    assert f.cache_info().misses == 4


def test_a_miss_does_not_blame_an_order_that_nobody_sees() -> None:
    texts: list[str] = []
    f = jit(lambda d: d["a"] * d["b"])
    f(ORDERS[0]), f(ORDERS[0])
    with explain_cache_misses(texts.append):
        f({**ORDERS[1], "a": np.ones(3)}), f({**ORDERS[1], "a": np.ones(3)})
    assert texts and not any(["come in another order" in text for text in texts])


def test_the_first_call_is_that_of_every_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    f = jit(lambda d: d["a"] * d["b"])
    assert [f(d) for d in ORDERS] == [6.0] * 6
    assert (f.cache_info().observed, f.cache_info().misses) == (1, 1)


def test_paths_have_programs_of_their_own_for_each_order() -> None:
    f = lambda d: next(iter(d.values())) * 2.0 if d["a"] > 0.0 else d["b"]
    jitted = jit(f)
    for d in [{**order, "a": a} for _ in range(3) for order in ORDERS for a in (2.0, -2.0)]:
        assert jitted(dict(d)) == f(d)
