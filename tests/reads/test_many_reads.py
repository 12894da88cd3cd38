"""What a jitted function reads beside its arguments is what the plain function reads, in a hundred ways and between changes."""

from __future__ import annotations

import collections
import copy
import functools
import json
import os
import pprint
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from funcad import grad, jit, tree
from funcad.errors import NotCompiledWarning
from funcad.jitted import first_calls
from tests.reads.many_reads import CASES, X


@pytest.fixture
def settings_of_the_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.setattr(os, "environ", copy.copy(os.environ))
    recursion, name = sys.getrecursionlimit(), threading.current_thread().name
    with np.printoptions(), np.errstate():
        yield
    sys.modules.pop("odd_mod", None)
    threading.current_thread().name = name
    sys.setrecursionlimit(recursion)


def answer(f: Callable[[Any], Any]) -> Any:
    try:
        return f(X)
    except Exception as error:
        return type(error)


class Layer:
    """An object that the function makes, of an array that was there."""

    def __init__(self, w: Any):
        self.w = w

    def __call__(self, x: Any) -> Any:
        return self.w @ x


TABLE = np.arange(9.0).reshape(3, 3)


def appended(x: Any) -> Any:
    layers: list[Any] = []
    layers.append(Layer(TABLE))
    return layers[0](x)


def entered(x: Any) -> Any:
    layers: dict[str, Any] = {}
    layers.setdefault("a", Layer(TABLE))
    layers.update(b=Layer(TABLE))
    return layers["a"](layers["b"](x))


def in_a_deque(x: Any) -> Any:
    layers = collections.deque([Layer(TABLE)])
    layers.appendleft(Layer(TABLE))
    return layers.pop()(x)


def asked(x: Any) -> Any:
    layer = Layer(TABLE)
    return layer(x) if isinstance(layer, Layer) and callable(layer) and hasattr(layer, "w") else x


@pytest.mark.parametrize("f", [appended, entered, in_a_deque, asked], ids=lambda f: f.__name__)
def test_the_arrays_of_objects_that_it_keeps_are_not_compared(f: Callable[[Any], Any]) -> None:
    jitted = jit(f)
    for _ in range(3):
        np.testing.assert_allclose(jitted(X[:3]), f(X[:3]), rtol=1e-15)
    checks = {w.check for entry in jitted._core.cache.entries.values() for w in entry.watched.places}
    assert "array" in checks and "bytes" not in checks
    TABLE[0, 0] += 1.0
    np.testing.assert_allclose(jitted(X[:3]), f(X[:3]), rtol=1e-15)


@pytest.mark.share(3)
@pytest.mark.parametrize("way", ["jit", "jit(grad)"])
@pytest.mark.parametrize("name", CASES)
def test_it_is_what_the_plain_function_reads(name: str, way: str, settings_of_the_process: None) -> None:
    f, change = CASES[name]()
    plain = f if way == "jit" else grad(lambda x: np.sum(f(x)))
    jitted = jit(plain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCompiledWarning)
        warnings.filterwarnings("ignore", message=".*does not depend on the argument")
        for i in range(5):
            for _ in range(3):
                wanted, found = answer(plain), answer(jitted)
                if isinstance(wanted, type):
                    assert found is wanted
                else:
                    np.testing.assert_allclose(found, wanted, rtol=1e-14)
            change(i)


CHANGES: dict[str, Callable[[dict, int], Any]] = {
    "inside": lambda s, i: s["numbers"].__setitem__(4, 1.5 * i),
    "outside": lambda s, i: s["numbers"].__setitem__(8, 1.5 * i),
    "longer": lambda s, i: s["numbers"].append(2.0),
    "moved": lambda s, i: s["numbers"].insert(0, 1.0 * i),
    "another": lambda s, i: s.__setitem__("numbers", [1.0 * i] * 9),
    "deep": lambda s, i: s["rows"][4]["more"][1].append(i),
    "reversed": lambda s, i: s["rows"].reverse(),
}
SLICES: dict[str, Callable[[Any, dict], Any]] = {
    "numbers": lambda x, s: x * sum(s["numbers"][2:6]),
    "backwards": lambda x, s: x * sum([k * v for k, v in enumerate(s["numbers"][::-2])]),
    "the last": lambda x, s: x * sum(s["numbers"][-3:]),
    "empty": lambda x, s: x * len(s["numbers"][5:2]),
    "of a tuple": lambda x, s: x * sum(s["rows"][4]["more"][:1]),
    "an array": lambda x, s: np.sum(x * np.array(s["numbers"][1:4])),
    "of a slice": lambda x, s: x * s["numbers"][2:8][1:3][0],
    "records": lambda x, s: x * sum([sum(r["more"][1]) for r in s["rows"][3:6]]),
    "identity": lambda x, s: x * (s["rows"][3:6][1] is s["rows"][4]),
    "a text": lambda x, s: x * len(str(s["rows"][3:6])),
    "written": lambda x, s: [s["rows"][2:4][0].update(a=7.0), x * s["rows"][2]["a"]][1],
    "appended": lambda x, s: [s["numbers"].append(1.0), x * sum(s["numbers"][:3])][1],
}


@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", SLICES)
def test_slices_of_lists(name: str, change: str) -> None:
    rows = [{"a": 1.0 * i, "more": (i, [i])} for i in range(10)]
    first: dict[str, Any] = {"rows": rows, "numbers": [1.0 * i for i in range(10)]}
    second = copy.deepcopy(first)
    plain, jitted = (lambda x: SLICES[name](x, first)), jit(lambda x: SLICES[name](x, second))
    for i in range(4):
        for _ in range(2):
            np.testing.assert_allclose(jitted(X), plain(X), rtol=1e-14)
            assert first == second
        CHANGES[change](first, i)
        CHANGES[change](second, i)


def test_of_a_long_list_the_slice_alone_is_read() -> None:
    rows = [{"a": 1.0 * i, "more": (i, [i])} for i in range(5000)]
    f = jit(lambda x: x * sum([r["a"] for r in rows[:5]]))
    for _ in range(5):
        f(X)
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        found = f(X)
    finally:
        sys.setprofile(None)
    np.testing.assert_allclose(found, X * 10.0)
    assert calls < 100
    rows[4]["a"] = 0.0
    np.testing.assert_allclose(f(X), X * 6.0)


class Branch:
    def __init__(self, value: Any, *parts: Any) -> None:
        self.value, self.parts = value, list(parts)

    def __repr__(self) -> str:
        return f"Branch({self.value!r}, {self.parts!r})"


def nested(leaf: Any, depth: int, around: Callable[[Any], Any]) -> Any:
    for _ in range(depth):
        leaf = around(leaf)
    return leaf


DEEP: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "text": (lambda part: [part], lambda x, s: x * len(str(s))),
    "json": (lambda part: {"a": part}, lambda x, s: x * len(json.dumps(s))),
    "copy": (lambda part: [part], lambda x, s: x * len(str(copy.deepcopy({"k": s})))),
    "objects": (lambda part: Branch(1, part), lambda x, s: x * len(repr(s))),
    "records": (lambda part: types.SimpleNamespace(a=(part,)), lambda x, s: x * len(f"{s}")),
    "circle": (lambda part: [part], lambda x, s: x * len(str([s, s.append(s) if len(s) < 2 else None]))),
    "tree": (lambda part: [part], lambda x, s: x * sum(tree.leaves(tree.map(lambda v: v * x[0], s)))),
}


@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
@pytest.mark.parametrize("depth", [1, 3, 7, 12, 40])
@pytest.mark.parametrize("name", DEEP)
def test_what_goes_where_nobody_sees_is_told_however_deep(name: str, depth: int) -> None:
    around, f = DEEP[name]
    leaf = [1.5]
    s = nested(leaf, depth, around)
    jitted = jit(lambda x: f(x, s))
    for i in range(3):
        for _ in range(3):
            np.testing.assert_allclose(jitted(X), f(X, s), rtol=1e-14)
        leaf[0] = 10.0**i + 0.25


def test_a_long_chain_of_objects_is_told_without_recursion() -> None:
    chain = last = Chained(0)
    for i in range(1500):
        last.next = last = Chained(i)
    f = jit(lambda x: x * bool(str(chain)))
    for _ in range(4):
        np.testing.assert_allclose(f(X), X)


class Chained:
    def __init__(self, n: int) -> None:
        self.n, self.next = n, None


def test_arrays_in_a_dictionary_that_goes_into_a_library() -> None:
    table = np.array([1.0, 2.0, 3.0])
    f = jit(lambda x: x * np.sum(copy.copy({"x": x, "table": table})["table"]) + np.sum(x))
    g = jit(lambda x: x * len(pprint.pformat({"more": {"table": [table.tolist()]}})))
    for i in range(4):
        table[1] = 10.0**i
        for _ in range(3):
            np.testing.assert_allclose(f(X), X * np.sum(table) + np.sum(X), rtol=1e-14)
            np.testing.assert_allclose(g(X), X * len(pprint.pformat({"more": {"table": [table.tolist()]}})))


WHOLE: dict[str, Callable[[Any, dict], Any]] = {
    **{f.__name__: (lambda x, d, f=f: x * f(d["a"])) for f in (np.sum, np.mean, np.max, np.linalg.norm, np.sort, sum)},
    "dot": lambda x, d: x * np.dot(d["a"], d["b"]),
    "einsum": lambda x, d: x * np.einsum("i,i->", d["a"], d["b"]),
    "stack": lambda x, d: x * np.stack([d["a"], d["b"]])[0],
    "concatenate": lambda x, d: x * np.concatenate([d["a"], d["b"]])[1],
    "take": lambda x, d: x * np.take(d["a"], 1),
    "map": lambda x, d: x * sum(map(np.sum, [d["a"], d["b"]])),
    "map of values": lambda x, d: x * sum(map(np.mean, d.values())),
    "sum of values": lambda x, d: x * sum(d.values()),
    "sum of a generator": lambda x, d: x * sum(v for _, v in d.items()),
    "reduce": lambda x, d: x * functools.reduce(np.add, d.values()),
    "reduce a generator": lambda x, d: x * functools.reduce(np.multiply, (v for v in d.values())),
    "beside the argument": lambda x, d: np.sum(x * d["a"]) + np.dot(x, d["a"]) + np.sum(np.stack([x, d["a"]])),
}


@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
@pytest.mark.parametrize("name", WHOLE)
def test_arrays_that_were_there_before_are_looked_at_again(name: str) -> None:
    """Whatever function of NumPy's has computed with them alone, before a traced value had a part in it."""
    d = {"a": np.array([1.0, 2.0, 3.0]), "b": np.array([4.0, 5.0, 6.0])}
    f = jit(lambda x: WHOLE[name](x, d))
    for i in range(4):
        for _ in range(3):
            np.testing.assert_allclose(f(X), WHOLE[name](X, d), rtol=1e-14)
        d["a"][1] = 10.0**i
