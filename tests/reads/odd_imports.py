# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, import-not-found"
"""Modules that a function imports when it is called: (the function, what changes between the calls)."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

CASES: dict[str, Callable[[], Any]] = {}


def module(name: str, k: float) -> types.ModuleType:
    found = types.ModuleType(name)
    found.k = k
    return found


class Changes:
    """sys.modules gets others for `odd_given` and `odd_given.part`: some have no k, and at last there are none."""

    def __init__(self):
        self.lives: list[Any] = []
        self(-1)

    def __call__(self, i):
        self.lives += [sys.modules.get("odd_given"), sys.modules.get("odd_given.part")]
        if i == 3:
            del sys.modules["odd_given"], sys.modules["odd_given.part"]
            return
        package, part = module("odd_given", 2.0 + i), module("odd_given.part", 3.0 * i)
        package.__path__, package.part = [], part
        if i == 1:
            del package.k
        if i == 2:
            del part.k
        sys.modules["odd_given"], sys.modules["odd_given.part"] = package, part


def case(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    CASES[f.__name__] = lambda: (f, Changes())
    return f


@case
def imported(x):
    import odd_given

    return x * odd_given.k


@case
def imported_if_it_is_there(x):
    try:
        import odd_given
    except ImportError:
        return x
    return x * getattr(odd_given, "k", 7.0)


@case
def imported_if_it_has_it(x):
    try:
        from odd_given import k
    except ImportError:
        return x
    return x * k


@case
def imported_by_another_name(x):
    from odd_given import k as other

    return x * other


@case
def part_of_a_package(x):
    import odd_given.part

    return x * odd_given.part.k


@case
def part_by_another_name(x):
    import odd_given.part as p

    return x * p.k


@case
def part_from_a_package(x):
    from odd_given import part

    return x * part.k


@case
def from_a_part(x):
    from odd_given.part import k

    return x * k


@case
def by_a_function(x):
    return x * importlib.import_module("odd_given").k


@case
def part_by_a_function(x):
    return x * importlib.import_module("odd_given.part").k


@case
def relative_by_a_function(x):
    return x * importlib.import_module(".part", "odd_given").k


@case
def as_python_does(x):
    return x * __import__("odd_given").k


@case
def as_python_does_with_names(x):
    return x * __import__("odd_given", fromlist=["k"]).k


@case
def two_of_them(x):
    import odd_given as a, odd_given.part as b  # noqa: E401, I001

    return x * a.k + b.k


@case
def in_a_function_inside(x):
    def inner():
        from odd_given import k

        return k

    return x * inner()


@case
def in_the_body_of_a_class(x):
    class Inner:
        from odd_given import k

    return x * Inner.k


def relative(x):
    from . import part
    from .part import k

    return x * part.k + k


relative = types.FunctionType(relative.__code__, {**globals(), "__package__": "odd_given", "__name__": "odd_given.other"})
case(relative)


class Table(types.SimpleNamespace):
    pass


@lambda make: CASES.update(no_module=make)
def no_module():
    held = []

    def f(x):
        from odd_table import k

        return x * k

    def change(i):
        held.append(sys.modules.get("odd_table"))
        sys.modules["odd_table"] = Table(k=2.0 + i)
        if i == 2:
            sys.modules["odd_table"] = None

    change(-1)
    return f, change


@lambda make: CASES.update(a_library=make)
def a_library():
    def f(x):
        import colorsys

        return x * colorsys.ONE_THIRD

    def change(i):
        sys.modules.pop("colorsys", None)
        if i % 2 == 0:
            sys.modules["colorsys"] = types.SimpleNamespace(ONE_THIRD=2.0 + i)

    change(1)
    return f, change


@lambda make: CASES.update(two_names=make)
def two_names():
    held = types.SimpleNamespace(a=module("odd_a", 1.0))
    held.b = held.a

    def change(i):
        setattr(held, "ba"[i % 2], module("odd_a", 2.0 + i))

    return (lambda x: x * held.a.k + held.b.k), change
