"""Functions that read something beside their arguments, and what changes it: (jitted, plain, change)."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import linecache
import types
from collections.abc import Callable
from typing import Any

import numpy as np

import funcad
from funcad import jit, vmap

X = np.array([1.0, 2.0, 3.0])


def module(text: str, source: bool = True, **names: Any) -> Any:
    """A module of the user's with that text; `source`: can it be read again?"""
    made = types.ModuleType("users_module")
    made.__dict__.update(np=np, funcad=funcad, **names)
    filename = f"{__file__}.{next(_numbers)}.py"
    if source:
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec", dont_inherit=True), made.__dict__)
    return made


_numbers = itertools.count()


def check(f: Any, plain: Callable[..., Any], *args: Any) -> None:
    """Called until calls are written out, and then again."""
    for _ in range(5):
        np.testing.assert_array_equal(f(*args), plain(*args))


class Options:
    rate = 0.5

    def __init__(self, scale: float):
        self.scale = scale


@dataclasses.dataclass
class Record:
    scale: float = 2.0
    other: int = 1


class Slots:
    __slots__ = ("scale",)

    def __init__(self, scale: float):
        self.scale = scale


Pair = collections.namedtuple("Pair", "scale shift")


class Attributes(dict):
    """A dict that is read by attributes, as many configurations are."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


class Lazy:
    """One whose attributes are made by code."""

    def __init__(self) -> None:
        self.kept = {"scale": 2.0}

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["kept"][name]


def replaced(holder: Any, name: str, values: list[Any]) -> Callable[[], None]:
    it = iter(values)
    return lambda: setattr(holder, name, next(it))


def of_global(text: str, values: list[Any], **names: Any) -> tuple[Any, Any, Callable[[], None]]:
    made = module(text, k=values[0], **names)
    return jit(made.f), made.f, replaced(made, "k", values[1:])


def of_closure(values: list[Any]) -> tuple[Any, Any, Callable[[], None]]:
    k = values[0]
    it = iter(values[1:])

    def f(x: Any) -> Any:
        return x * k

    def change() -> None:
        nonlocal k
        k = next(it)

    return jit(f), f, change


def of_object(thing: Any, change: Callable[[], Any]) -> tuple[Any, Any, Callable[[], Any]]:
    def f(x: Any) -> Any:
        return x * thing.scale

    return jit(f), f, change


def of_container(thing: Any, read: Callable[[Any], Any], change: Callable[[], Any]) -> tuple[Any, Any, Callable[[], Any]]:
    def f(x: Any) -> Any:
        return x * read(thing)

    return jit(f), f, change


def _default() -> tuple[Any, Any, Callable[[], None]]:
    def f(x: Any, k: float = 2.0) -> Any:
        return x * k

    return jit(f), f, lambda: setattr(f, "__defaults__", (f.__defaults__[0] + 1,))  # type: ignore[index]


def _keyword_default() -> tuple[Any, Any, Callable[[], None]]:
    options = {"scale": 2.0}

    def f(x: Any, *, given: dict = options) -> Any:
        return x * given["scale"]

    return jit(f), f, lambda: options.update(scale=options["scale"] + 1)


def _class_attribute() -> tuple[Any, Any, Callable[[], None]]:
    class Own:
        scale = 2.0

    return of_object(Own, lambda: setattr(Own, "scale", Own.scale + 1))


def _inherited() -> tuple[Any, Any, Callable[[], None]]:
    class Base:
        scale = 2.0

    class Own(Base):
        pass

    thing = Own()
    return of_object(thing, lambda: setattr(Base, "scale", Base.scale + 1))


def _hidden_by_instance() -> tuple[Any, Any, Callable[[], None]]:
    thing = Options(1.0)

    def f(x: Any) -> Any:
        return x * thing.rate

    return jit(f), f, lambda: setattr(thing, "rate", thing.rate + 1)


def _property() -> tuple[Any, Any, Callable[[], None]]:
    class Own:
        def __init__(self) -> None:
            self._scale = 2.0
            self.called = 0

        @property
        def scale(self) -> float:
            self.called += 1
            return self._scale

    thing = Own()

    def change() -> None:
        before = thing.called
        program(X), program(X)
        assert thing.called == before + 2  # once for each call, and the check calls no property
        thing._scale += 1

    program, f, _ = of_object(thing, change)
    return program, f, change


def _method_through_super() -> tuple[Any, Any, Callable[[], None]]:
    class Base:
        def __init__(self) -> None:
            self.k = 2.0

        def apply(self, x: Any) -> Any:
            return x * self.k

    class Own(Base):
        def apply(self, x: Any) -> Any:
            return super().apply(x) + 1

    thing = Own()
    return jit(thing.apply), thing.apply, lambda: setattr(thing, "k", thing.k + 1)


def _callable_object() -> tuple[Any, Any, Callable[[], None]]:
    class Own:
        k = 2.0

        def __call__(self, x: Any) -> Any:
            return x * self.k

    thing = Own()
    return jit(thing), thing, lambda: setattr(thing, "k", thing.k + 1)


def _partial() -> tuple[Any, Any, Callable[[], None]]:
    options = [2.0]

    def f(options: list, x: Any) -> Any:
        return x * options[0]

    given = functools.partial(f, options)
    return jit(given), given, lambda: options.__setitem__(0, options[0] + 1)


def _lambda_in_a_loop() -> tuple[Any, Any, Callable[[], None]]:
    made = module("k = 2.0\ndef f(x):\n    return sum([(lambda v: v * k)(x) for _ in range(3)])")
    return jit(made.f), made.f, lambda: setattr(made, "k", made.k + 1)


def _generator() -> tuple[Any, Any, Callable[[], None]]:
    made = module("k = 2.0\ndef parts(x):\n    for i in range(3):\n        yield x * k\ndef f(x):\n    return sum(parts(x))")
    return jit(made.f), made.f, lambda: setattr(made, "k", made.k + 1)


def _recursion() -> tuple[Any, Any, Callable[[], None]]:
    made = module("k = 2.0\ndef f(x, n=3):\n    return x if n == 0 else k * f(x, n - 1)")
    return jit(lambda x: made.f(x)), made.f, lambda: setattr(made, "k", made.k + 1)


def _helper_replaced() -> tuple[Any, Any, Callable[[], None]]:
    made = module("def g(x):\n    return x * 2\ndef f(x):\n    return g(x)")
    return jit(made.f), made.f, lambda: exec("def g(x):\n    return x * 5", made.__dict__)


def _inner_transforms() -> tuple[Any, Any, Callable[[], None]]:
    made = module("k = 2.0\ndef h(x):\n    return np.sum(x ** 2 * k)\nf = funcad.grad(funcad.jit(h))")
    return jit(made.f), made.f, lambda: setattr(made, "k", made.k + 1)


def _mapped() -> tuple[Any, Any, Callable[[], None]]:
    made = module("k = 2.0\ndef h(x):\n    return x * k\n")
    return jit(vmap(made.h)), made.h, lambda: setattr(made, "k", made.k + 1)


def _import_inside(monkeypatch: Any = None) -> tuple[Any, Any, Callable[[], None]]:
    def f(x: Any) -> Any:
        import tests.jitted.state_of_tests as state

        return x * state.scale

    import tests.jitted.state_of_tests as state

    return jit(f), f, lambda: setattr(state, "scale", state.scale + 1)


def _strange_equality() -> tuple[Any, Any, Callable[[], None]]:
    class Strange:
        def __init__(self, scale: float):
            self.scale = scale

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("the user's __eq__")

        __hash__ = None  # type: ignore[assignment]

    holder = types.SimpleNamespace(thing=Strange(2.0))
    return of_container(holder, lambda h: h.thing.scale, lambda: setattr(holder, "thing", Strange(holder.thing.scale + 1)))


def _own_getattribute() -> tuple[Any, Any, Callable[[], None]]:
    class Guarded:
        called = 0

        def __init__(self) -> None:
            self.scale = 2.0

        def __getattribute__(self, name: str) -> Any:
            Guarded.called += 1
            return object.__getattribute__(self, name)

    thing = Guarded()
    return of_object(thing, lambda: setattr(thing, "scale", 3.0))


_RECORD, _SLOTS, _LAZY, _ATTRIBUTES = Record(), Slots(2.0), Lazy(), Attributes(scale=2.0)
_NESTED: dict[str, Any] = {"a": [1.0, {"b": (2.0, 3.0)}]}
_ARRAYS = [np.ones(3), np.ones(3)]
_FUNCTIONS: dict[str, Any] = {"act": np.sin}
_SPACE = types.SimpleNamespace(scale=2.0, other=1)
_MEMBERS = {1.0, 2.0}

CASES: dict[str, Callable[[], tuple[Any, Any, Callable[[], Any]]]] = {
    "global": lambda: of_global("def f(x):\n    return x * k", [2.0, 3.0]),
    "global of a nested function": lambda: of_global("def f(x):\n    return (lambda v: v * k)(x)", [2.0, 3.0]),
    "global function": lambda: of_global("def f(x):\n    return k(x)", [np.sin, np.cos]),
    "global array": lambda: of_global("def f(x):\n    return x * k", [np.ones(3), np.zeros(3)]),
    "global text": lambda: of_global("def f(x):\n    return x * len(k)", ["ab", "abc"]),
    "global and its type": lambda: of_global("def f(x):\n    return x * (2 if type(k) is int else 3)", [1, True]),
    "sign of zero": lambda: of_global("def f(x):\n    return x * np.copysign(1.0, k)", [0.0, -0.0]),
    "0-d array": lambda: of_global("def f(x):\n    return x * k", [np.array(2.0), np.array(3.0)]),
    "numpy scalar": lambda: of_global("def f(x):\n    return x * k", [np.float64(2.0), np.float64(3.0)]),
    "named tuple": lambda: of_global("def f(x):\n    return x * k.scale", [Pair(2.0, 1), Pair(3.0, 1)]),
    "enumerated": lambda: of_global("def f(x):\n    return x * int(k)", [np.dtype("f4").itemsize, np.dtype("f8").itemsize]),
    "closure": lambda: of_closure([2.0, 3.0]),
    "array in a closure": lambda: of_closure([np.ones(3), np.zeros(3)]),
    "default": _default,
    "keyword default": _keyword_default,
    "attribute": lambda: of_object(thing := Options(2.0), lambda: setattr(thing, "scale", 3.0)),
    "class attribute": _class_attribute,
    "inherited attribute": _inherited,
    "attribute hidden by the instance's": _hidden_by_instance,
    "dataclass": lambda: of_object(_RECORD, lambda: setattr(_RECORD, "scale", 3.0)),
    "slots": lambda: of_object(_SLOTS, lambda: setattr(_SLOTS, "scale", 3.0)),
    "namespace": lambda: of_object(_SPACE, lambda: setattr(_SPACE, "scale", 3.0)),
    "__getattr__": lambda: of_object(_LAZY, lambda: _LAZY.kept.update(scale=3.0)),
    "dict with attributes": lambda: of_object(_ATTRIBUTES, lambda: _ATTRIBUTES.update(scale=3.0)),
    "__getattribute__": _own_getattribute,
    "property": _property,
    "super": _method_through_super,
    "callable object": _callable_object,
    "partial": _partial,
    "nested containers": lambda: of_container(
        _NESTED, lambda d: d["a"][1]["b"][0], lambda: _NESTED["a"][1].update(b=(5.0, 3.0))
    ),
    "new key": lambda: of_container(found := {"a": 1.0}, lambda d: sum(d.values()), lambda: found.update(b=2.0)),
    "appended": lambda: of_container(grown := [1.0], sum, lambda: grown.append(2.0)),
    "queue": lambda: of_container(queue := collections.deque([1.0]), sum, lambda: queue.append(2.0)),
    "set": lambda: of_container(_MEMBERS, len, lambda: _MEMBERS.add(9.0)),
    "long list appended": lambda: of_container(long := [1.0] * 300, len, lambda: long.append(2.0)),
    "arrays in a list": lambda: of_container(_ARRAYS, lambda a: a[0] + len(a), lambda: _ARRAYS.append(np.ones(3))),
    "array in a list replaced": lambda: of_container(two := [np.ones(3)], lambda a: a[0], lambda: two.__setitem__(0, X)),
    "function in a dict": lambda: of_container(_FUNCTIONS, lambda d: d["act"](X), lambda: _FUNCTIONS.update(act=np.cos)),
    "lambda in a loop": _lambda_in_a_loop,
    "generator": _generator,
    "recursion": _recursion,
    "helper": _helper_replaced,
    "inside transforms": _inner_transforms,
    "under vmap": _mapped,
    "import inside": _import_inside,
    "strange equality": _strange_equality,
}
