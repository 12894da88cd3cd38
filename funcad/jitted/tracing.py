"""How the program of a call is traced, when the cache has none.

Idea: f runs on traced values, by its twin, and a recorder waits for what Python asks of them (path_recording.py): then the
program has paths. Numbers that have moved are inputs, unless Python needs their values; numbers that advance at each call are
further arguments of a function with paths.

Invariant: what a trace cannot do, and plain Python could, is a reason to run un-jitted, no error; what is raised is raised at
the user's line, with no other error around it. Trap: a recording that was given up has done nothing, and f itself runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any, NoReturn

from funcad.api.border import name_of
from funcad.backends.interpreter import counters
from funcad.errors import BufferNeeded, RandomStateError
from funcad.host.progress import many_objects
from funcad.host.where import setting, state
from funcad.ir.aval import aval_of
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.trace import trace_function
from funcad.jitted.attempts import Attempt, Attempts, has_twin, run_again
from funcad.jitted.captured_arrays import gathered
from funcad.jitted.jit_cache import Entry, storing
from funcad.jitted.path_entries import entry_with_paths
from funcad.jitted.path_recording import OF_TRACES, Recorder
from funcad.reads.places import Place, path_of, value_at
from funcad.reads.refusals import InLane, Raised, Refusal, Unplaced


class Tracing:
    """One call of a function that has no program for it. `result`: where the result goes, if tracing may need values."""

    def __init__(
        self,
        core: Any,
        args: tuple,
        kwargs: dict,
        in_tree: Any,
        avals: list,
        leaves: list,
        result: list | None = None,
        most: int | None = None,
    ):
        self.core, self.call, self.in_tree = core, (args, kwargs), in_tree
        self.avals, self.leaves = avals, leaves
        self.result = result
        self.most = most  # equations, after which a recording is given up

    def entry(self, ran: bool = False) -> Entry:
        """A program of f. `ran`: f has run on values of the signature, or may: what a trace cannot do is no error of f's."""
        with storing.taken(), many_objects(), nullcontext() if state.lane is None else setting(lane=self._as_lane()):
            return self._entry(ran)

    def _as_lane(self) -> Any:
        """Who is told of rules for batches; nobody, where no call is traced."""
        return None if self.result is None else self

    def meets_rule(self, name: str, has_values: bool) -> NoReturn:
        """A call in a lane: f itself is to run."""
        raise InLane(f"{name} has a rule for batches", "")

    def _entry(self, ran: bool) -> Entry:
        core, result = self.core, self.result
        takes = core.guards and result is not None and state.observer is None and has_twin(core.f)
        while (numbers := core.cache.inputs()) and has_twin(core.f):
            if takes and (given := core.cache.given(core.f)):
                return self._taking(given)
            try:
                return self._traced_with(numbers)
            except Unplaced as error:  # Python needs the value of this one
                core.cache.refuse({error.label} & numbers or numbers)
            except Exception:  # of one of them, or the function fails in any case
                core.cache.refuse(numbers)
        recorder = None
        if core.guards and result is not None:
            recorder = Recorder(self.leaves, most=self.most, mixes=core.cache.mixes, instead=ran)
        try:
            if takes and (given := core.cache.given(core.f)):
                return self._taking(given)
            return self._traced_with(set(), recorder)
        except OF_TRACES as error:  # of who takes numbers
            happened = recorder is None or recorder.had_effects
            if ran and not happened:
                raise Raised(error) from error
            raise

    def _taking(self, given: tuple) -> Entry:
        """Paths that take the numbers at these places as further arguments; a program, if Python asks for no value of them."""
        core, result = self.core, self.result
        n, happened = len(result), []  # type: ignore[arg-type]
        avals, leaves = self.avals, self.leaves
        further = [value_at(place, core.f) for place in given]
        recorder = Recorder([*leaves, *further], instead=True)
        self.avals, self.leaves = [*avals, *map(aval_of, further)], recorder.leaves  # type: ignore[assignment]
        try:
            with setting(happened=(happened, [])):
                entry = self._traced_with(set(), recorder, given)
        except Exception as error:
            stored_before(core, *self.call, happened, error)
            if happened:
                raise
            raise Raised(error) from error  # f itself tells whether it is one of f's
        finally:
            self.avals, self.leaves = avals, leaves
        if not recorder.started:
            labels = {place.label for place in given}
            try:
                return self._traced_with(labels)
            except Unplaced as error:
                raise _advances(error.label or given[0].label, given) from None
            except Exception as error:
                raise Raised(error) from error
        entry.given = given
        places = set(map(path_of, given))
        if len(result) > n and entry.watched is not None:  # type: ignore[arg-type]
            compared = [w for w in entry.watched.places if w.check == "scalar"]
            if any([path_of(w) in places for w in compared]):
                label = given[0].label
                core.refused(Refusal(f"{label} advances, and code that has no source reads it", ""))
        return entry

    def _traced_with(self, numbers: set[str], recorder: Recorder | None = None, given: tuple = ()) -> Entry:
        core, leaves, (args, kwargs) = self.core, self.leaves, self.call
        result = self.result if recorder is not None else None
        counters["traces"] += 1
        attempt = Attempts(core, args, kwargs, self.in_tree, numbers, given)
        first = attempt.of(core.f, leaves)
        failed: Exception | None = None
        try:
            jaxpr, consts = self._run_of(first, recorder)
        except Unplaced:
            raise
        except RandomStateError as error:
            raise Refusal(str(error).partition("\n")[0].rstrip("."), "") from None
        except Exception as error:
            if first.run is None or recorder is not None and recorder.started or numbers:
                raise
            failed = error
        finally:
            if recorder is not None:
                recorder.ends(core)
        if failed is not None:  # here, so that what is raised now has no other error around it than the user's
            try:
                self._as_it_is(attempt, Recorder(leaves) if recorder is not None else None, failed)
            finally:
                failed = None  # its traceback holds this frame
        if recorder is not None and recorder.started:
            donated = core.donated_ids(args, kwargs)
            entry = entry_with_paths(core, attempt, first, recorder, (jaxpr, consts), donated, result)
        else:
            if core.fast_math:
                jaxpr.memo["fast_math"] = True  # read by the passes
            entry = Entry(jaxpr, consts, self.in_tree, first.store.tree, first.given, first.writes)
        entry.code = getattr(core.f, "__code__", None)
        entry.ordered = first.sees_orders(jaxpr) or core.ordered and len(kwargs) > 1 or core.cache.ordered
        entry.watched = first.settle(core.f, core.cache.moved, jaxpr)
        if first.run is not None:
            entry.stores = tuple(first.run.stores)
            label = core.cache.advance(first.run.advancing, first.run.guards, bool(given))
            if label is not None:
                guards = first.run.guards
                refusal = _advances(label, guards.places if guards is not None else [])
                if not result:
                    raise refusal
                core.refused(refusal)  # this call is done, and what it stored is written
        core.cache.proven |= numbers
        if entry.paths is None:
            read = entry.watched.inputs if entry.watched is not None else 0
            entry.jaxpr, entry.consts = gathered(entry.jaxpr, entry.consts, read)
            entry.let_go()
        return entry

    def _as_it_is(self, attempt: Attempts, recorder: Recorder | None, failed: Exception) -> NoReturn:
        """Run f without its twin, whose run has failed, so that the error is that of the user's line."""
        attempt.twinned, again = False, None
        try:
            again = attempt.of(self.core.f, self.leaves)
        except Refusal:  # it cannot be run as it is
            pass
        if again is None:
            raise failed
        lacks = False
        try:
            self._run_of(again, recorder)
        except (TypeError, ValueError) as error:
            lacks = any([isinstance(e, BufferNeeded) for e in (error, error.__cause__)])
            if not lacks:
                raise
        if lacks:  # what was lent to the twin
            raise failed
        raise Refusal(f"it fails while jit looks at what it reads, {type(failed).__name__}: {failed}", "") from failed

    def _run_of(self, attempt: Attempt, recorder: Recorder | None) -> tuple[Jaxpr, list]:
        flat = attempt.flat if recorder is None else recorder.watching(attempt.flat, attempt.changes)
        with attempt.looked_after():
            return trace_function(flat, self.avals, name=f"jit({name_of(self.core.f)})", given=attempt.given)


def _advances(label: str, places: Iterable[Place]) -> Refusal:
    """What is read and stored at each call is read where no input can stand for it; `places` know the line."""
    line = next((str(w.source) for w in places if w.label == label and w.source is not None), "")
    return Refusal(f"{label} advances, and Python needs its value", line)


def stored_before(core: Any, args: tuple, kwargs: dict, happened: list, error: Exception) -> None:
    """A call has raised after effects: f itself runs once more, which stores what it stores before that, and raises it."""
    if happened and not state.checked and state.abstract is None:
        run_again(core.f, core.static_values(args, kwargs), args, kwargs, happened, error)
