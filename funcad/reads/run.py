"""A run of a function under an observer: its twin in its place, and a net under it.

Idea: the twin tells what the function's own code does; the net tells which code of the user's ran that is no twin (the rule of a
custom derivative, a key function, a `__eq__`). Where there is none, the twins have seen all; where there is some, or no net can
be had, the static walk looks at that function as well (jitted/watched.py).

Invariant: the user's objects hold again what they held when the run ends, however it ends (stores.py).
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from funcad.host.where import is_internal, setting
from funcad.reads.attributes import is_users_function, twin_of
from funcad.reads.calls import called
from funcad.reads.code_reads import is_library
from funcad.reads.hooks import Seen
from funcad.reads.observer import Observer, here
from funcad.reads.stores import Stores
from funcad.twin.net import Net
from funcad.twin.twins import Twins, Untwinnable


def users_function(f: Any) -> Any:
    """The function of the user's that is called first when f is called, if that is told by f alone."""
    while True:
        if type(f) is types.MethodType:
            f = f.__func__
        elif hasattr(f, "func") and hasattr(f, "keywords") and type(f).__name__ == "partial":
            f = f.func
        else:
            return f if is_users_function(f) else None


def begin(f: Any, statics: list[tuple[str, Any]], inputs: set[str]) -> Observer | None:
    """An observer of f; None if f has no twin."""
    twins = Twins(Seen)
    first = users_function(f)
    if first is not None:
        try:
            twins.of(first)
        except Untwinnable:
            return None
    observer = Observer(f, statics, inputs)
    observer.twins = twins
    observer.stores = Stores(observer)
    return observer


def _is_users(code: types.CodeType, names: dict[str, Any]) -> bool:
    """Is it code that the user wrote, rather than a library's, or what Python makes for a dataclass or a named tuple?"""
    if is_internal(code.co_filename) or code.co_filename[:1] == "<" and not code.co_filename.startswith(("<stdin", "<ipython")):
        return False
    return not is_library(types.FunctionType(code, names, closure=tuple([types.CellType() for _ in code.co_freevars])))


def _runs_as(f: Any) -> Any:
    """What funcad calls in the place of a function that it was given: the twin of one of the user's."""
    if is_users_function(f):
        return twin_of(f)
    if type(f) is types.MethodType and is_users_function(f.__func__):
        return types.MethodType(twin_of(f.__func__), f.__self__)
    return f


@contextmanager
def under(observer: Observer) -> Iterator[Callable[[Any], Any]]:
    """A `with` block in which f runs; gives what is called in the place of a function."""
    before = here.observer
    try:
        with Net(_is_users) as net, setting(twin=_runs_as):
            here.observer = observer
            yield lambda f: called(observer, f, None)
    finally:
        here.observer = before
        observer.untwinned.update(net.seen)
        observer.netted = net.why is None
