"""A twin does what its function does: results, exceptions, the lines of tracebacks, and what functions show of themselves."""

from __future__ import annotations

import copy
import inspect
import linecache
import os
import pickle
import sys
import types
from typing import Any

import cloudpickle
import pytest

from funcad.twin import twins
from funcad.twin.hooks import Hooks
from funcad.twin.twins import Twins, is_twin, plain
from tests.twin import constructs


class Nothing(Hooks):
    """Hooks written in Python that do what Python does: their frames stand between the user's."""

    twins: Twins

    def load_attribute(self, owner: Any, name: str) -> Any:
        return getattr(owner, name)

    def load_item(self, owner: Any, key: Any) -> Any:
        return owner[key]

    def store_attribute(self, owner: Any, name: str, value: Any) -> None:
        setattr(owner, name, value)

    def call(self, function: Any) -> Any:
        return self.twins.of(function) if type(function) is types.FunctionType and twinnable(function) else function

    def compare(self, op: Any, a: Any, b: Any) -> Any:
        return op(a, b)

    def binary(self, op: Any, a: Any, b: Any) -> Any:
        return op(a, b)

    def iterate(self, value: Any, depth: int) -> Any:
        return iter(value) if hasattr(value, "__iter__") else value


def twinnable(f: types.FunctionType) -> bool:
    return f.__code__.co_filename in (constructs.__file__, __file__) or f.__code__.co_filename.startswith("<twin")


def twin(f: Any, kind: type[Hooks], makes: bool = False) -> Any:
    Nothing.twins = Twins(kind, makes)
    return Nothing.twins.of(f)


def lines(error: BaseException | None) -> Any:
    if error is None:
        return None
    found, traceback, hooks = [], error.__traceback__, os.path.dirname(twins.__file__)
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith((__file__, hooks)):
            code = traceback.tb_frame.f_code
            found.append((code.co_filename, code.co_name, code.co_qualname, traceback.tb_lineno))
        traceback = traceback.tb_next
    if isinstance(error, RecursionError):  # how deep, and what was called there, is the interpreter's
        return type(error), found[:3]
    return type(error), str(error), found, lines(error.__cause__), lines(error.__context__)


def outcome(f: Any) -> Any:
    try:
        return "value", repr(f())
    except Exception as error:
        return "raises", lines(error)


@pytest.mark.parametrize("makes", [False, True])
@pytest.mark.parametrize("kind", [Hooks, Nothing])
@pytest.mark.parametrize("make", constructs.MAKERS, ids=lambda make: make.__name__)
def test_a_twin_does_what_its_function_does(make: Any, kind: type[Hooks], makes: bool) -> None:
    expected = outcome(make())
    assert expected[0] == ("raises" if make.__name__.startswith("raises") else "value"), expected
    assert outcome(twin(make(), kind, makes)) == expected


NEW = """
def with_parameters():
    def f():
        def g[T: int, *Ts, **P](x: T, y=LIMIT) -> T:
            return x, T.__name__, y

        class A[S](dict[str, S]):
            kind = S

            def m(self, z: S):
                return S.__name__, self.kind.__name__

        type Pair[U] = tuple[U, LIMIT]
        return g(1), A().m(2), Pair.__name__, g.__type_params__[0].__name__, [[T for T in "ab"] for _ in "x"]

    return f


def inlined():
    n = 5

    def f():
        class A:
            n = 7
            inside = [n for n in range(2)]
            other = [LIMIT for _ in range(2)]

        return A.inside, A.other, [n for n in range(n)], n, [lambda: n for n in range(2)][0](), f"{n!r:{'>' + "4"}}"

    return f
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is that of Python 3.12")
@pytest.mark.parametrize("name", ["with_parameters", "inlined"])
def test_a_twin_of_newer_syntax(name: str) -> None:
    space = from_text(NEW, LIMIT=3)
    assert outcome(space[name]())[0] == "value"
    for kind in (Hooks, Nothing):
        assert outcome(twin(space[name](), kind)) == outcome(twin(space[name](), kind, True)) == outcome(space[name]())


def from_text(text: str, **names: Any) -> dict[str, Any]:
    """The namespace of a module that has no file, but source: as a cell of a notebook."""
    filename = f"<twin {hash(text)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    space = {"__name__": "cell", **names}
    exec(compile(text, filename, "exec", dont_inherit=True), space)
    return space


def make_pair() -> tuple[Any, Any]:
    def outer(a: int, b: float = 2.0, *, c: str = "c") -> Any:
        """Of outer."""
        return lambda x: (a, b, c, x)

    return outer, Twins().of(outer)


def test_a_twin_looks_like_its_function() -> None:
    f, t = make_pair()
    assert t is not f and is_twin(t.__code__) and not is_twin(f.__code__)
    for name in (
        "__name__",
        "__qualname__",
        "__module__",
        "__doc__",
        "__defaults__",
        "__kwdefaults__",
        "__annotations__",
        "__dict__",
    ):
        assert getattr(t, name) == getattr(f, name)
    assert t.__globals__ is f.__globals__ and t.__dict__ is f.__dict__
    assert inspect.signature(t) == inspect.signature(f)
    assert inspect.getsource(t) == inspect.getsource(f)
    inner, plain_inner = t(1), f(1)
    assert is_twin(inner.__code__) and inner(4) == (1, 2.0, "c", 4)
    assert inspect.getsource(inner) == inspect.getsource(plain_inner)
    assert (inner.__code__.co_firstlineno, inner.__code__.co_filename) == (plain_inner.__code__.co_firstlineno, __file__)
    assert inner.__code__.co_varnames == plain_inner.__code__.co_varnames


def test_what_escapes_can_be_made_plain_and_pickled() -> None:
    f, t = make_pair()
    inner = t(1)
    assert plain(inner).__code__ is f(1).__code__ and plain(inner)(4) == inner(4)
    assert plain(f) is f and plain(t).__code__ is f.__code__
    for escaped in (inner, t):
        again = pickle.loads(cloudpickle.dumps(escaped))
        assert not is_twin(again.__code__)
        assert (again(4) if escaped is inner else again(1)(4)) == (1, 2.0, "c", 4)
    assert copy.deepcopy(inner) is inner


def test_a_function_of_another_trace_is_made_anew() -> None:
    class Adds(Hooks):
        def __init__(self, function: types.FunctionType) -> None:
            super().__init__(function)
            self.seen: list[str] = []
            made.append(self)

        def load_free(self, name: str, value: Any) -> Any:
            self.seen.append(name)
            return value

    made: list[Adds] = []
    f, _ = make_pair()
    first = Twins(Adds)
    inner = first.of(f)(1)
    assert first.of(inner) is inner
    inner(4)
    assert [h.seen for h in made] == [[]]  # they are variables of f's own call
    again = Twins(Adds).of(inner)
    assert again is not inner and again(4) == inner(4)
    assert made[1].seen == ["a", "b", "c"]
