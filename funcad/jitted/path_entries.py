"""Entries of jit's cache that hold paths in the place of one program.

Idea: such an entry is found as any other. What a program asked of its arguments while it was traced (strides, which numbers are
arrays) is a part of its signature; of paths it is what any of them asked. So when a path asks more, the entry gets a successor
which asks that too, with paths of its own: a thread that has found the older entry goes on with paths that hold for its call.
So it is with the order in which the keys of dicts come: an entry is for all orders as long as no path has seen one.
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from funcad.configuration import config
from funcad.host.where import for_user, interrupted, open_traces
from funcad.ir.jaxpr import Jaxpr, Literal
from funcad.ir.tracer import Tracer
from funcad.jitted.attempts import Attempt, Attempts
from funcad.jitted.jit_cache import Cache, Entry, Signature
from funcad.jitted.path_recording import Recorder
from funcad.jitted.paths import Paths, plainly
from funcad.reads.places import Guards


def _without_program(numbers: bool) -> Jaxpr:
    """What stands in an entry for the program that a function with guards has not."""
    jaxpr = Jaxpr((), (), (Literal(0),))
    if numbers:
        jaxpr.memo["asked"] = True
    return jaxpr


def entry_with_paths(
    core: Any,
    attempt: Attempts,
    first: Attempt,
    recorder: Recorder,
    traced: tuple[Jaxpr, list],
    donated: frozenset[int],
    result: list,
) -> Entry:
    """The entry of a function that asked for values in its first call, whose result is put into `result`."""
    jaxpr, consts = traced
    numbers = "asked" in jaxpr.memo
    paths = Paths(core, attempt, first.given, numbers, first.sees_orders(jaxpr) or core.cache.ordered)
    kept = [x for x in consts if type(x) is Tracer]  # then it is not kept: they belong to this call
    entry = Entry(_without_program(numbers), kept, attempt.in_tree, None, first.given)
    entry.paths = paths
    paths.depends_on(core, first)
    result.append(paths.take(core, recorder, first, traced, donated, True))
    return entry


def successors(cache: Cache, key: Signature, entry: Entry) -> None:
    """Let an entry that is in the cache have successors."""
    paths = entry.paths
    if paths is None:
        return

    def outgrown(core: Any, attempt: Attempt, numbers: bool, ordered: bool) -> None:
        given, of = attempt.given, attempt.of if ordered else paths.attempt
        given.asked |= paths.asked
        numbers = numbers or paths.numbers
        successor = Entry(_without_program(numbers), [], of.in_tree, None, given)
        successor.paths = Paths(core, of, given, numbers, ordered)
        successor.watched, successor.code, successor.given = entry.watched, entry.code, entry.given
        successor.ordered = ordered
        place = key
        if ordered > entry.ordered:
            place = cache.in_order(entry, key._replace(in_tree=of.in_tree), of.in_tree.orders, given.values, core.f)
        cache.put(place, successor)
        successors(cache, place, successor)
        core.upgrade(entry)

    def depends(core: Any, guards: Guards) -> None:
        joined = guards if entry.watched is None else entry.watched.joined(guards)
        if joined is not entry.watched:
            entry.watched = joined
            core.upgrade(entry)

    paths.outgrown, paths.depends = outgrown, depends
    paths.at_rest = lambda core: Resting(core, paths, entry).begin()


LARGE = 1 << 20  # bytes of an array, from which a run costs more than a trace


class Resting:
    """Calls of the function itself, as long as its paths or signatures do not repeat, or a recording is too dear.

    Nothing is flattened. Signatures that have written calls are not at rest: these come first.
    """

    __slots__ = ("core", "of", "entry", "kinds", "patience")

    def __init__(self, core: Any, of: Any, entry: Entry | None = None):
        self.core = core
        self.of = of  # what has a `rest`: calls that come next
        self.entry = entry  # which the paths are in
        self.kinds: tuple | None = None  # of its arguments
        self.patience = config.jit_patience

    def begin(self) -> None:
        cache = self.core.cache
        # of one signature, whatever f reads beside its arguments: else others would rest, too
        if self.entry is None or len({key._replace(answers=()) for key in cache.entries}) == 1:
            with cache.lock:
                cache.users.add(self.core)
                self.core.drop(self.entry, self.call)

    def call(self, /, *args: Any, **kwargs: Any) -> Any:
        of, given = self.of, (*args, *kwargs.values()) if kwargs else args
        kinds = tuple(map(type, given))
        self.kinds = self.kinds or kinds
        if open_traces or kinds != self.kinds or any([type(x) is ndarray and x.nbytes > LARGE for x in given]):
            return self.core.enter(*args, **kwargs)
        if config.jit_patience != self.patience or not self.core.cache.runs_itself(of):
            self.core.drop(None) if self.entry is None else self.core.upgrade(self.entry)
            return self.core.enter(*args, **kwargs)
        try:
            return plainly(self.core, args, kwargs, self.entry is None or of.trie.stores)
        except Exception as error:
            raise for_user(error)  # noqa: B904 the same error
        except BaseException as stop:
            raise interrupted(stop)  # noqa: B904 the same error
