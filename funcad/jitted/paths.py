"""Paths: how a jitted function is called whose Python decides by values.

Idea: the paths of one signature are a trie of segments (path_trie.py). A call goes along it: a segment's compiled program runs,
its guard is read, the answer leads to the next segment. At an answer that was never met Python starts again from the top,
recording (path_recording.py), with what has run handed over, and the new path joins the trie. Under derivatives that follow the
call outside jit, the path is found on the primals, and then runs as one program.

Invariant: nothing of a call runs twice, because it may have effects. Traps: a path that raises is recorded at each visit, so
that the user's message is made of values; what an operation raises is raised by recording too, inside the user's `try`. What is
not kept, because there are too many paths, runs by recording, which is slow; so if most calls do, the function itself is called
for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np

from funcad.api.border import name_of, own_memory, unaliased
from funcad.backends.interpreter import counters
from funcad.configuration import config
from funcad.control.call import call_of
from funcad.errors import SharedMemoryError
from funcad.host.devices import device_in_use, restore_warnings, suppress_warnings
from funcad.host.where import state
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.jaxpr import Var
from funcad.ir.trace import any_tracer, trace_function
from funcad.ir.tracer import concrete_value
from funcad.jitted.attempts import Attempt, Attempts
from funcad.jitted.jit_writes import commit, may_commit
from funcad.jitted.path_recording import ANSWERS, REFUSALS, Recorder
from funcad.jitted.path_segments import Leaf, Node
from funcad.jitted.path_trie import PathStep, Trie
from funcad.primitives.python_numbers import NotTheSame
from funcad.reads.places import Guards
from funcad.reads.refusals import Refusal
from funcad.reads.stores import write_back
from funcad.unjitted.strides import Given

UNKNOWN = 12  # calls along unknown paths, nearly all of the last ones: from then on the function itself is called for a while,
NONE_KNOWN = 5  # so many, if no other call came between them,
REST = 8  # so many times as long as it took to record these, and twice as many each time that no path has come again,
LONGEST = 10  # but so often only;
PROBES = 3  # then so many calls look whether one does
DEAR = 30  # that is, if a recording takes so many times as long as a call of the function itself; else as many look as at first
MEASURED = 3  # calls of the function itself, of which the shortest counts
HELD_HERE = 2  # references to an array that nobody keeps but who asks: its own and that of the count
_Missed = tuple  # (the last step, its values, did its segment run?)


class Paths:
    """The paths of one signature."""

    __slots__ = ("name", "attempt", "trie", "asked", "numbers", "outgrown", "depends")
    __slots__ += ("hits", "unknown", "rest_until", "at_rest", "_rests", "_since")
    __slots__ += ("_begun", "_spent", "_shortest", "_plain", "_measured")

    def __init__(self, core: Any, attempt: Attempts, given: Given, numbers: bool):
        """`attempt(function, leaves)`: one run of the flat function that jit traces."""
        self.name = name_of(core.f)
        self.attempt = attempt
        self.trie = Trie(core.fast_math)
        self.asked = set(given.asked)  # leaves whose strides some path depends on
        self.numbers = numbers  # does one depend on which leaves are arrays of rank 0?
        self.outgrown: Callable[[Any, Given, bool], None] = lambda core, given, numbers: None  # makes room for more
        self.hits = self.unknown = 0  # calls along known paths, along others
        self.rest_until = 0.0  # by the clock, the function itself is called
        self.depends: Callable[[Any, Guards], None] = lambda core, guards: None  # is told what a recording read
        self.at_rest: Callable[[Any], None] = lambda core: None  # is told when a rest begins
        self._rests = 0  # since a path has come again
        self._since = (0, 0)
        self._begun = self._spent = 0.0  # when the last recording began, the time that those of unknown paths took,
        self._shortest = np.inf  # and the shortest of them: others compiled, too, or loaded the compiler
        self._plain, self._measured = 0.0, 0  # the time of a call of the function itself, of how many

    # -- calls

    def program(self, core: Any) -> Any:
        """What a written call runs, see jit_call.py. The paths, which are in the function's cache, must not hold that."""
        trie, run, nothing = self.trie, self.run, frozenset[int]()

        def consume(leaves: list[Any]) -> list[Any]:
            """Its one output is the function's result."""
            if self.rest_until or trie.written:
                return [self.call(core, leaves, *self.attempt.arguments(leaves))]
            return [run(core, leaves, nothing, trie.on_device)]  # a written call is not taken under debug_nans

        return SimpleNamespace(consume=consume, fast=None)

    def call(self, core: Any, leaves: Sequence[Any], args: tuple, kwargs: dict, donated: frozenset[int] = frozenset()) -> Any:
        """The function's result for a call of its signature."""
        if any_tracer(leaves) or state.abstract is not None and self.trie.has_effects:
            return self._under_traces(core, leaves, donated)
        if self.rest_until:
            if perf_counter() < self.rest_until and not self.trie.written:
                return self.plainly(core, args, kwargs)
            self.rest_until = 0.0
        if self.trie.written and not may_commit(self.trie, leaves):  # type: ignore[arg-type]
            return core.f(*args, **kwargs)
        return self.run(core, leaves, donated, bool(state.checked) or device_in_use())

    def plainly(self, core: Any, args: tuple, kwargs: dict) -> Any:
        """The function itself, un-jitted."""
        token = suppress_warnings()
        try:
            if self._measured == MEASURED:
                result = core.f(*args, **kwargs)
            else:
                begun = perf_counter()
                result = core.f(*args, **kwargs)
                self._plain = min(self._plain or np.inf, perf_counter() - begun)
                self._measured += 1
        finally:
            restore_warnings(token)
        if type(result) is np.ndarray and getrefcount(result) <= HELD_HERE and _is_own(result, (result,)):
            return result
        return unaliased(result, [*args, *kwargs.values()], core.f)

    def run(self, core: Any, leaves: Sequence[Any], donated: frozenset[int], careful: bool) -> Any:
        """The same where no leaf is traced and none of the written ones shares memory; `careful`: programs look at operands."""
        trie = self.trie
        step = trie.first
        if step is None or trie.engine is not config.engine:
            step = trie.prepare()
        values = [*leaves, *step.consts] if step is not None else []
        end = self._go(step, values, careful)
        if type(end) is not PathStep:
            return self.record(core, leaves, *_taken_over(end, values), donated=donated)
        leaf: Any = end.leaf
        leaf.visits += 1
        self.hits += 1
        if end.alone >= 0:
            out = values[end.alone]
            if type(out) is not np.ndarray or _is_own(out, values):
                return out
        return self._result(core, leaf, [x if i < 0 else values[i] for i, x in end.outputs], leaves, donated)

    def _result(self, core: Any, leaf: Leaf, outs: list[Any], leaves: Sequence[Any], donated: frozenset[int]) -> Any:
        inputs = [*leaf.consts, *leaves]
        if leaf.stores:
            outs = own_memory(outs, inputs)
            n = len(outs) - sum([store.count for store in leaf.stores])
            result = self._result(core, leaf.without_stores(), outs[:n], leaves, donated)
            write_back(leaf.stores, core.f, outs[n:], state.observer, self.name)
            return result
        if leaf.written:
            outs = commit(leaf, leaves, inputs, outs, donated, self.name)  # type: ignore[arg-type]
        else:
            outs = own_memory(outs, inputs)
        return leaf.out_tree.unflatten(outs)

    def _go(self, step: Any, values: list[Any], careful: bool) -> PathStep | _Missed:
        """Along known segments to the last step; or where it came to something unknown: (that step, did its segment run?)."""
        if step is None:
            return None, False
        while True:
            program = step.program
            if program is not None:
                try:
                    fast = step.native.fast
                    if careful:
                        values += program.run([*step.take(values), *step.extra])
                    else:
                        out = fast(*step.take(values), *step.extra) if fast is not None else NotImplemented
                        if out is NotImplemented:
                            values += program.consume([*step.take(values), *step.extra])
                        elif step.single:
                            values.append(out)
                        else:
                            values += out
                except Exception as error:
                    nothing = state.happened is not None and not state.happened[0]  # of what it says or draws
                    if step.node.has_effects and not nothing or isinstance(error, NotTheSame):
                        raise
                    failed = step.node.kind == "success" and isinstance(error, REFUSALS)
                    following = self.trie.branch(step, (type(error), error.args)) if failed else None
                    if following is not None:
                        values += [None] * step.size
                        step = following
                        continue
                    return step, False  # Python, recording, meets the error where it may be caught
            if step.leaf is not None:
                return step  # type: ignore[no-any-return]
            try:
                following = step.next[step.key(values[step.at])]
            except Exception:  # an answer that is not there yet, or what asked raises
                following = self.trie.following(step, values)
                if following is None:
                    return step, True
            step = following

    # -- calls with traced values

    def _under_traces(self, core: Any, leaves: Sequence[Any], donated: frozenset[int]) -> Any:
        """In a program that is being traced the function is recorded there; under derivatives its path is one program."""
        ends = [concrete_value(x) for x in leaves]
        known = not any_tracer(ends) and all([shape_of(a) == shape_of(x) for a, x in zip(ends, leaves)])
        trie = self.trie
        if not known or trie.has_effects or trie.cuts or trie.written or trie.stores or state.abstract is not None:
            return self.record(core, leaves, donated=donated, keep=known)
        end = self.known_end(ends)
        if end is None:
            return self.record(core, leaves, donated=donated)
        leaf: Any = end.leaf
        leaf.visits += 1
        self.hits += 1
        program, consts = trie.whole(end.node)
        outs = call_of(program, [*consts, *leaves], self.name)
        return leaf.out_tree.unflatten(own_memory(outs, [*consts, *leaves]))

    def known_end(self, leaves: Sequence[Any]) -> PathStep | None:
        """Where the path of these arguments ends, if it is known."""
        first = self.trie.prepare()
        if first is None:
            return None
        end = self._go(first, [*leaves, *first.consts], bool(state.checked) or device_in_use())
        return end if type(end) is PathStep else None

    # -- recording

    def record(
        self,
        core: Any,
        leaves: Sequence[Any],
        chain: Sequence[Any] = (),
        env: dict[Var, Any] | None = None,
        donated: frozenset[int] = frozenset(),
        keep: bool = True,
    ) -> Any:
        """Run Python on a trace of these values, after what is handed over, and keep the path."""
        counters["traces"] += 1
        self._begun = perf_counter()
        attempt = self.attempt(core.f, leaves)
        recorder = Recorder(leaves, self.trie.inputs or None, self.trie.root, chain, env)
        try:
            with attempt.looked_after():
                flat, avals = recorder.watching(attempt.flat, attempt.changes), [aval_of(x) for x in leaves]
                jaxpr, consts = trace_function(flat, avals, name=f"jit({self.name})", given=attempt.given)
        except Refusal as refusal:
            return core.runs_un_jitted(refusal, *self.attempt.arguments(leaves))
        except Exception as error:
            if keep and recorder.started:
                self._count(core, self._keep_raised(recorder, error))
            raise
        self._depends_on(core, attempt)
        if not recorder.started:  # started again with buffers, it asks for nothing
            outs = call_of(jaxpr, [*consts, *leaves], self.name)
            return self._result(core, attempt.leaf(jaxpr.outputs, consts), outs, leaves, donated)
        return self.take(core, recorder, attempt, consts, "asked" in jaxpr.memo, donated, keep)

    def _depends_on(self, core: Any, attempt: Attempt) -> None:
        """What a recording read is compared from now on; where it is a part of a program that is traced, there too."""
        guards = attempt.run.guards if attempt.run is not None else None
        if guards is not None:
            self.depends(core, guards)
            if state.observer is not None:
                state.observer.also(guards, core.f)

    def take(
        self,
        core: Any,
        recorder: Recorder,
        attempt: Attempt,
        consts: list[Any],
        numbers: bool,
        donated: frozenset[int],
        keep: bool,
    ) -> Any:
        """The result of a recording that has ended, whose path is kept."""
        node: Any = recorder.leaf
        leaf = attempt.leaf(node.leaf.outputs, consts)
        leaves = recorder.leaves
        if leaf.written and not may_commit(leaf, leaves):  # type: ignore[arg-type]
            if recorder.had_effects:
                raise SharedMemoryError(
                    f"jit of {self.name} writes into an argument that cannot be written, or that shares memory with another "
                    "argument or a captured array, and it has had effects.\n"
                    "Remedy: pass a copy, or call the function without jit."
                )
            args, kwargs = self.attempt.arguments(leaves)
            return core.f(*args, **kwargs)
        if keep and recorder.whole and not any_tracer(consts):
            if not attempt.given.asked <= self.asked or numbers > self.numbers:
                self.outgrown(core, attempt.given, numbers)
            else:
                known = node.leaf.out_tree is not None
                if not known:
                    node.leaf = leaf
                self._count(core, known or self.trie.keep(recorder, node))
        elif keep:
            self._count(core, False)
        return self._result(core, leaf, list(recorder.outs), leaves, donated)

    def _keep_raised(self, recorder: Recorder, error: Exception) -> bool:
        if not recorder.whole or not recorder.chain or not recorder.complete:
            return False
        node, key, _ = recorder.chain[-1]
        known = node.children.get(key)
        if known is not None:
            if known.leaf is not None and known.leaf.raises:
                known.leaf.visits += 1
                return True
            return False
        return self.trie.keep(recorder, Node((), (), Leaf((), type(error).__name__)))

    def _count(self, core: Any, known: bool) -> None:
        """After a call that was recorded: is it worth while to go on?"""
        if known:
            self.hits += 1
            return
        self.unknown += 1
        now = perf_counter()
        self._spent += now - self._begun
        self._shortest = min(self._shortest, now - self._begun)
        hits, unknown = self.hits - self._since[0], self.unknown - self._since[1]
        dear = self._shortest > DEAR * self._plain
        if hits > unknown // 3:
            self._since, self._rests = (self.hits, self.unknown), 0
        elif unknown >= (PROBES if self._rests and dear else UNKNOWN if self._rests or hits else NONE_KNOWN):
            self._since = self.hits, self.unknown
            spent = 2 ** min(self._rests, LONGEST) * self._spent if dear and self._rests else unknown * self._shortest
            self.rest_until = now + REST * spent
            self._spent = 0.0
            self._rests += 1
            self.at_rest(core)


def _is_own(x: np.ndarray, values: Sequence[Any]) -> bool:
    """May the caller have this array, which is the result?"""
    return x.base is None and x.flags.writeable and x.ndim > 0 and sum([v is x for v in values]) == 1


def _taken_over(missed: _Missed, values: list[Any]) -> tuple[list, dict]:
    """The guards that have been answered, and the values that are there."""
    step, ran = missed
    chain: list[Any] = []
    env: dict[Var, Any] = {}
    key: Any = None
    if step is not None:
        try:
            key = step.key(values[step.at]) if ran else None
        except Exception:  # the guard itself raises, as Python will see
            ran = False
        if not ran:
            key, step = step.via, step.parent
    while step is not None:
        failed = step.node.kind == "success" and key is not True
        chain.append((step.node, key, False if failed else ANSWERS[step.node.kind][0](values[step.at])))
        env.update(zip(step.outs, values[step.start : step.start + step.size]))
        key, step = step.via, step.parent
    chain.reverse()
    return chain, env
