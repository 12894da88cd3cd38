"""What the hooks of a twin are told, construct by construct, and what they may answer."""

from __future__ import annotations

import ast
import linecache
import operator
import types
from typing import Any

import pytest

from funcad.twin.hooks import Hooks, contains, lacks
from funcad.twin.twins import Twins

A_GLOBAL: Any = 3
STORED: Any = 0


NAMED = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType)


def shown(x: Any) -> str:
    if isinstance(x, types.CodeType):
        return f"code of {x.co_name}"
    return x.__name__ if isinstance(x, NAMED) else repr(x)


class Events(Hooks):
    """Writes down what it is told, and answers as Python does."""

    events: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name.startswith("_") or name in ("function", "globals", "cells"):
            return found

        def told(*args: Any) -> Any:
            Events.events.append(" ".join([name, *map(shown, args)]))
            return found(*args)

        return told


class Thing:
    def __init__(self) -> None:
        self.a, self.__b = 1, 2

    def __repr__(self) -> str:
        return "thing"

    def private(self) -> Any:
        return self.__b

    def __enter__(self) -> Any:
        return 1, 2

    def __exit__(self, *error: object) -> None: ...


thing = Thing()


def closing(free: Any, items: list[Any]) -> dict[str, Any]:
    """Functions of these two variables."""

    def reads() -> Any:
        return free

    def inner() -> Any:
        own = 1

        def g() -> Any:
            return own, free

        return g()

    def comprehends() -> Any:
        k = 1
        return [k + i + free for i in items]

    def shadows() -> Any:
        return [free for free in (1,) if free], free

    def stores() -> Any:
        nonlocal free

        def g() -> None:
            nonlocal free
            free = 7

        free += 1

    return locals()


# Python 3.12 parses an empty text behind the last value of a format
REST = " ''" if "Constant" in ast.dump(ast.parse("f'{n:{n}}'")) else ""
# fmt: off
TABLE: list[tuple[str, list[str]]] = [
    ("A_GLOBAL", ["load_global 'A_GLOBAL' 3"]),
    ("len", ["load_global 'len' len"]),
    ("x", []),
    ("x.a", ["load_attribute thing 'a'"]),
    ("x.private()", ["load_attribute thing 'private'", "call private"]),
    ("y[0]", ["load_item [1, 2] 0"]),
    ("y[:1]", ["load_item [1, 2] slice(None, 1, None)"]),
    ("d[1, ...]", ["load_item {(1, Ellipsis): 0} (1, Ellipsis)"]),
    ("f(0)", ["call f"]),
    ("f(*y[:1])", ["call f", "load_item [1, 2] slice(None, 1, None)", "iterate [1] 1"]),
    ("f(**{'a': 0})", ["call f", "spread {'a': 0}"]),
    ("[*y]", ["iterate [1, 2] 1"]),
    ("{**d}", ["spread {(1, Ellipsis): 0}"]),
    ("1 + 2", []),
    ("n + 2", ["binary add 3 2"]),
    ("n @ d if 0 else n ** 2", ["binary pow 3 2"]),
    ("-n", ["unary neg 3"]),
    ("~n", ["unary invert 3"]),
    ("n < 2", ["compare lt 3 2"]),
    ("n is None", ["compare is_ 3 None"]),
    ("n is not x", ["compare is_not 3 thing"]),
    ("n in y", ["compare contains 3 [1, 2]"]),
    ("n not in y", ["compare lacks 3 [1, 2]"]),
    ("1 < n < 2", ["chained lt 1", "chained lt 3", "chained lt 3", "chained lt 2"]),
    ("n and y", ["test 3 True"]),
    ("n or y", ["test 3 True"]),
    ("not n", ["test 3 False"]),
    ("1 if n or y else 2", ["either 3", "asked", "test 3 False"]),
    ("1 if not n else 2", ["test 3 False", "either False", "asked", "test False False"]),
    ("(n and 0) or y", ["test 3 True"]),
    ("[i for i in y if i]", ["iterate [1, 2] 1", "test 1 False", "test 2 False"]),
    ("[i for i, (j, k) in [(1, (2, 3))]]", ["iterate [(1, (2, 3))] 3"]),
    ("list(i for i in y)", ["load_global 'list' list", "call list", "iterate [1, 2] 1"]),
    ("f'{n} {n!r}'", ["formatted 3 -1 None", "formatted 3 114 None", "joined '3' ' ' '3'"]),
    ("f'{n:{n}}'", ["formatted 3 -1 None", f"joined '3'{REST}", "formatted 3 -1 '3'", "joined '  3'"]),
    ("(lambda a: a + n)(1)", ["call <lambda>", "binary add 1 3"]),
    ("f.__code__.co_name", ["load_attribute f '__code__'", "load_attribute code of f 'co_name'"]),
]
STATEMENTS: list[tuple[str, list[str]]] = [
    ("if n: pass", ["test 3 False"]),
    ("while n: break", ["test 3 False"]),
    ("assert n", ["test 3 False"]),
    ("for i in y: pass", ["iterate [1, 2] 1"]),
    ("for i, j in [y]: pass", ["iterate [[1, 2]] 2"]),
    ("a, b = y", ["iterate [1, 2] 1"]),
    ("a, (b, *c) = 1, y", ["iterate (1, [1, 2]) 2"]),
    ("a = b, c = y", ["iterate [1, 2] 1"]),
    ("x.a = n", ["store_attribute thing 'a' 3"]),
    ("x.a, y[0] = 1, n", ["iterate (1, 3) 1", "store_attribute thing 'a' 1", "store_item [1, 2] 0 3"]),
    ("y[:] = [n]", ["store_item [1, 2] slice(None, None, None) [3]"]),
    ("x.a += n", ["load_attribute thing 'a'", "binary iadd 1 3", "store_attribute thing 'a' 4"]),
    ("y[0] *= n", ["load_item [1, 2] 0", "binary imul 1 3", "store_item [1, 2] 0 3"]),
    ("n -= 1", ["binary isub 3 1"]),
    ("for x.a in y: pass", ["iterate [1, 2] 1", "store_attribute thing 'a' 1", "store_attribute thing 'a' 2"]),
    ("with x: pass", ["enter thing 0"]),
    ("with x as (a, b): pass", ["enter thing 1"]),
    ("with x as x.a: pass", ["enter thing 0", "store_attribute thing 'a' (1, 2)"]),
    ("del x.a", ["delete_attribute thing 'a'"]),
    ("del y[0]", ["delete_item [1, 2] 0"]),
    ("global A_GLOBAL; A_GLOBAL", ["load_global 'A_GLOBAL' 3"]),
    ("global STORED; STORED = 1", ["will_store_global 'STORED'"]),
    ("global STORED; STORED += 1", ["will_store_global 'STORED'", "load_global 'STORED' 0", "binary iadd 0 1"]),
    ("global STORED\nfor STORED in (): pass", ["will_store_global 'STORED'", "iterate () 1"]),
    ("global STORED\ndef STORED(): pass", ["will_store_global 'STORED'"]),
    ("global STORED\n[STORED := 1 for i in y]", ["will_store_global 'STORED'", "iterate [1, 2] 1"]),
    ("from tests.twin.constructs import LIMIT",
     ["will_import 0 'tests.twin.constructs' 'LIMIT'", "load_attribute tests.twin.constructs 'LIMIT'"]),
    ("from .constructs import LIMIT as b",
     ["will_import 1 'constructs' 'LIMIT'", "load_attribute tests.twin.constructs 'LIMIT'"]),
    ("import os.path, json as j", ["will_import 0 'os.path'", "will_import 0 'json'"]),
    ("@f\ndef g(a): pass", ["call f"]),
    ("@f\nclass C: pass", ["call f"]),
    ("class C:\n b = A_GLOBAL\n c = b", ["load_global 'A_GLOBAL' 3"]),
    ("class C:\n A_GLOBAL = A_GLOBAL", ["load_global 'A_GLOBAL' 3"]),
    ("class C(Thing):\n def m(self): return self.a\nC().m()",
     ["load_global 'Thing' Thing", "call C", "load_attribute thing 'm'", "call m", "load_attribute thing 'a'"]),
    ("match n:\n case 3: pass", ["match 3"]),
    ("match n:\n case Thing(): pass", ["load_global 'Thing' Thing", "match 3"]),
    ("match n:\n case x.a: pass\n case f.a: pass", ["match 3", "load_attribute thing 'a'", "load_attribute f 'a'"]),
    ("match n:\n case 3 if y: pass", ["match 3", "test [1, 2] False"]),
]
# fmt: on


def function(body: str) -> Any:
    """A function of the usual variables, with source."""
    text = "def program(x, y, d, n, f):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    filename = f"<table {hash(text)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    space = {"A_GLOBAL": 3, "STORED": 0, "Thing": Thing, "__name__": "cell", "__package__": "tests.twin"}
    exec(compile(text, filename, "exec"), space)
    return space["program"]


def run(program: Any) -> list[str]:
    def f(a: Any) -> Any:
        return a

    f.a = 4  # type: ignore[attr-defined]
    Events.events = []
    Twins(Events).of(program)(Thing(), [1, 2], {(1, ...): 0}, 3, f)
    return Events.events


@pytest.mark.parametrize(("text", "expected"), TABLE, ids=[text for text, _ in TABLE])
def test_expressions(text: str, expected: list[str]) -> None:
    assert run(function(f"return {text}")) == expected


@pytest.mark.parametrize(("text", "expected"), STATEMENTS, ids=[text for text, _ in STATEMENTS])
def test_statements(text: str, expected: list[str]) -> None:
    assert run(function(text)) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reads", ["load_free 'free' 5"]),
        ("inner", ["call g", "load_free 'free' 5"]),  # `own` is a variable of this call
        ("comprehends", ["load_free 'items' [1]", "iterate [1] 1", "binary add 1 1", "load_free 'free' 5", "binary add 2 5"]),
        ("shadows", ["iterate (1,) 1", "test 1 False", "load_free 'free' 5"]),
        ("stores", ["will_store_free 'free'", "load_free 'free' 5", "binary iadd 5 1"]),
    ],
)
def test_variables_of_the_closure(name: str, expected: list[str]) -> None:
    f = closing(5, [1])[name]
    Events.events = []
    Twins(Events).of(f)()
    assert Events.events == expected


def test_an_inner_function_tells_what_it_will_store() -> None:
    f = closing(5, [1])["stores"]

    class Told(Hooks):
        names: list[str] = []

        def will_store_free(self, name: str) -> None:
            self.names.append(name)
            assert self.cells[name].cell_contents in (5, 6)

    Twins(Told).of(f)()
    assert Told.names == ["free"] and Told(f).cells["free"].cell_contents == 6


def test_answers_take_the_place_of_values() -> None:
    class Answers(Hooks):
        def load_global(self, name: str, value: Any) -> Any:
            return 10 if name == "A_GLOBAL" else value

        def load_attribute(self, owner: Any, name: str) -> Any:
            return name.upper()

        def load_item(self, owner: Any, key: Any) -> Any:
            return -1

        def call(self, function: Any) -> Any:
            return (lambda *args: args) if function == "F" else function

        def binary(self, op: Any, a: Any, b: Any) -> Any:
            return op.__name__, a, b

        def compare(self, op: Any, a: Any, b: Any) -> Any:
            return op

        def iterate(self, value: Any, depth: int) -> Any:
            return reversed(value)

        def test(self, value: Any, kept: bool) -> Any:
            return value if kept else not value

        def formatted(self, value: Any, conversion: int, spec: Any) -> Any:
            return "?"

    def f(x: Any) -> Any:
        a: Any = 1
        b: Any = 2
        c, _ = 1, 2
        chosen = "yes" if x else "no"
        kept = x or 3
        return A_GLOBAL, x.name, x[0], x.f(1), a + b, a < b, a in b, a not in b, [i for i in (1, 2)], chosen, f"{x}", c, kept  # noqa: C416

    assert Twins(Answers).of(f)(0) == (
        10, "NAME", -1, (1,), ("add", 1, 2), operator.lt, contains, lacks, [2, 1], "yes", "?", 2, 3,
    )  # fmt: skip


def test_stores_reach_the_hooks_wherever_they_stand() -> None:
    class Keeps(Hooks):
        kept: list[Any] = []

        def store_attribute(self, owner: Any, name: str, value: Any) -> None:
            self.kept.append((name, value))

        def store_item(self, owner: Any, key: Any, value: Any) -> None:
            self.kept.append((key, value))

        def delete_attribute(self, owner: Any, name: str) -> None:
            self.kept.append(name)

        def delete_item(self, owner: Any, key: Any) -> None:
            self.kept.append(key)

    def f(x: Any) -> None:
        x.a = 1
        x["b"] = 2
        x.c, (x["d"], *x.e) = 3, (4, 5)
        x.f = 6
        for x["g"] in (7,):
            pass
        with thing as x.h:
            pass
        del x.i, x[1:2]

    Twins(Keeps).of(f)(None)
    expected = [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", [5]), ("f", 6), ("g", 7), ("h", (1, 2)), "i", slice(1, 2)]
    assert Keeps.kept == expected
