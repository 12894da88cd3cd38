"""Entries of jit's cache that hold paths in the place of one program.

Idea: such an entry is found as any other. What a program asked of its arguments while it was traced (strides, which numbers are
arrays) is a part of its signature; of paths it is what any of them asked. So when a path asks more, the entry gets a successor
which asks that too, with paths of its own: a thread that has found the older entry goes on with paths that hold for its call.
"""

from __future__ import annotations

from typing import Any

from funcad.api.border import name_of
from funcad.ir.jaxpr import Jaxpr, Literal
from funcad.ir.tracer import Tracer
from funcad.jitted.attempts import Attempt
from funcad.jitted.jit_cache import Entry, Signature
from funcad.jitted.path_recording import Recorder
from funcad.jitted.paths import Paths
from funcad.unjitted.strides import Given

__all__ = ["entry_with_paths", "successors"]


def _without_program(numbers: bool) -> Jaxpr:
    """What stands in an entry for the program that a function with guards has not."""
    jaxpr = Jaxpr((), (), (Literal(0),))
    if numbers:
        jaxpr.memo["asked"] = True
    return jaxpr


def entry_with_paths(
    core: Any,
    attempt: Any,
    first: Attempt,
    recorder: Recorder,
    traced: tuple[Jaxpr, list],
    donated: frozenset[int],
    result: list,
) -> Entry:
    """The entry of a function that asked for values in its first call, whose result is put into `result`."""
    jaxpr, consts = traced
    numbers = "asked" in jaxpr.memo
    paths = Paths(name_of(core.f), core.f, attempt, first.given, numbers, core.fast_math)
    kept = [x for x in consts if type(x) is Tracer]  # then it is not kept: they belong to this call
    entry = Entry(_without_program(numbers), kept, first.in_tree, None, first.given)
    entry.paths = paths
    result.append(paths.take(recorder, first, consts, numbers, donated, True))
    return entry


def successors(core: Any, key: Signature, entry: Entry) -> None:
    """Let an entry that is in the cache have successors."""
    paths = entry.paths
    if paths is None:
        return

    def outgrown(given: Given, numbers: bool) -> None:
        given.asked |= paths.asked
        numbers = numbers or paths.numbers
        successor = Entry(_without_program(numbers), [], entry.in_tree, None, given)
        successor.paths = Paths(paths.name, core.f, paths.attempt, given, numbers, core.fast_math)
        successor.watched = entry.watched
        core.cache.put(key, successor)
        successors(core, key, successor)
        core.upgrade(entry)

    paths.outgrown = outgrown
