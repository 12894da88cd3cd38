"""Paths: how a jitted function is called whose Python decides by values.

Idea: the paths of one signature are a trie of segments (path_trie.py). A path that comes again becomes one program, which runs
past its questions and counts the answers that are as before (path_programs.py); at the first that is not, the call starts from
the top, on the other path. Else a call goes along the trie: a segment's compiled program runs, its guard is read, the answer
leads to the next segment. At an answer that was never met Python starts again from the top, recording (path_recording.py), with
what has run handed over, and the new path joins the trie. Whether there is to be a recording or a program, the account
says (account.py); if not, the function itself is called. Under derivatives that follow the call outside jit, the path is found
on the primals, and then runs as one program.

Invariant: nothing that has effects runs twice in a call. Traps: a path that raises is recorded at each visit, so that its
message is made of values; what an operation raises is raised by recording too, inside the user's `try`. Where a recording is
not like the paths, f itself runs, and they are forgotten. A function with long paths, whose segments would be too many
programs, rests when nothing is repaid: it is called itself so many times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from types import SimpleNamespace
from typing import Any

import numpy as np

from funcad.api.border import name_of, own_memory, unaliased
from funcad.backends.engines import EngineProgram, program_of
from funcad.backends.interpreter import counters
from funcad.configuration import OnDemand, config
from funcad.control.call import call_of
from funcad.errors import SharedMemoryError, TracerArrayConversionError, TracerIntegerConversionError
from funcad.host.conversions import needs_buffers
from funcad.host.devices import device_in_use, restore_warnings, suppress_warnings
from funcad.host.progress import many_objects
from funcad.host.where import open_traces, state
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.jaxpr import Jaxpr, Var
from funcad.ir.trace import any_tracer, trace_function
from funcad.ir.tracer import concrete_value
from funcad.jitted.account import COSTS, Abandoned, Account, compile_cost
from funcad.jitted.attempts import Attempt, Attempts
from funcad.jitted.jit_cache import storing
from funcad.jitted.jit_writes import commit, may_commit
from funcad.jitted.path_programs import PathProgram, nodes_to, path_program, runs_past
from funcad.jitted.path_recording import ANSWERS, OF_TRACES, REFUSALS, Differs, Recorder
from funcad.jitted.path_segments import Leaf, Node
from funcad.jitted.path_trie import PathStep, Trie
from funcad.primitives.python_numbers import NotTheSame
from funcad.reads.places import Guards
from funcad.reads.refusals import Raised, Refusal
from funcad.reads.stores import write_back
from funcad.unjitted.strides import Given

acting = OnDemand("funcad.host.acting")

MOST_PROGRAMS = 16  # paths that are one program, of one signature
MOST_SKIPPED = 6  # doublings of the calls in which no such program is tried, because it was another path each time:
PATIENT = 8  # so many times in a row first, if it is native code, which costs little beside the steps of a path
MOST_ANEW = 2  # recordings that are not like the paths, after which the function is not compiled
LONGEST = 1 << 16  # calls of a rest
SHORT = 1 << 10  # calls of a rest of what is faster without a program
_ndarray = np.ndarray  # whose name may be a door, which costs a call
HELD_HERE = 2  # references to an array that nobody keeps but who asks: its own and that of the count
_Missed = tuple  # (the last step, its values, did its segment run?)


class Paths:
    """The paths of one signature."""

    __slots__ = ("name", "attempt", "trie", "asked", "numbers", "outgrown", "depends", "hits", "unknown", "at_rest", "rest")
    __slots__ += ("programs", "candidate", "waiting", "past", "tiny", "rested", "missed", "tried", "ordered", "anew")
    __slots__ += ("by_steps", "strange", "rounded", "fresh")

    def __init__(self, core: Any, attempt: Attempts, given: Given, numbers: bool, ordered: bool):
        """`attempts.of(function, leaves)`: one run of the flat function that jit traces."""
        self.name = name_of(core.f)
        self.attempt = attempt
        self.trie = Trie(core.fast_math, core.cache.account)
        self.asked = set(given.asked)  # leaves whose strides some path depends on
        self.numbers = numbers  # does one depend on which leaves are arrays of rank 0?
        self.ordered = ordered or attempt.in_tree.orders is None  # may one depend on the order of the keys of dicts?
        self.outgrown: Callable[[Any, Attempt, bool, bool], None] = lambda *asked: None  # makes room for more
        self.hits = self.unknown = 0  # calls along known paths, along others
        self.depends: Callable[[Any, Guards], None] = lambda core, guards: None  # is told what a recording read
        self.at_rest: Callable[[Any], None] = lambda core: None  # is told when a rest begins
        self.rest = 0  # calls of the function itself that come next
        self.programs: tuple[PathProgram, ...] = ()  # of whole paths, the one that was right last comes first
        self.candidate: Node | None = None  # where the path ends that is to be the next of them
        self.waiting: PathProgram | None = None  # the next of them, when its compilation is not repaid yet
        self.past: bool | None = None  # may all paths so far run past their questions?
        self.by_steps = False  # do paths run equation by equation until they are compiled? un-jitted derivatives take longer
        self.strange = 0  # calls in a row along paths that are not known
        self.fresh = 0  # equations of the path that joined last, if no call has gone along it
        self.rounded = False  # has a program another answer than NumPy, whose numbers it rounds otherwise?
        self.anew = 0  # times that the paths were forgotten, as a recording was not like them
        self.tiny = 0  # recordings in a row of calls that take less than one of a program
        self.rested = False  # has it rested for that reason?
        self.missed = self.tried = 0  # calls in a row that no such program was right for; calls since the last one was tried

    # -- calls

    def program(self, core: Any, in_tree: Any) -> Any:
        """What a written call runs, see jit_call.py. The paths, which are in the function's cache, must not hold that."""
        trie, run, nothing, attempt = self.trie, self.run, frozenset[int](), self.attempt.ordered_as(in_tree)
        plain = attempt.are_leaves

        def consume(leaves: list[Any]) -> list[Any]:
            """Its one output is the function's result."""
            if not trie.written and core.cache.runs_itself(self):
                given = (leaves, {}) if plain else attempt.arguments(leaves)
                return [plainly(core, *given, trie.stores)]
            if state.lane is not None and trie.has_batch_rules:
                args, kwargs = attempt.arguments(leaves)
                return [core.f(*args, **kwargs)]
            if trie.written:
                return [self.call(core, leaves, *attempt.arguments(leaves), nothing, in_tree)]
            return [run(core, leaves, nothing, trie.on_device, attempt)]  # a written call is not taken under debug_nans

        return SimpleNamespace(consume=consume, fast=None)

    def call(
        self, core: Any, leaves: Sequence[Any], args: tuple, kwargs: dict, donated: frozenset[int], in_tree: Any
    ) -> Any:
        """The function's result for a call of its signature."""
        attempt = self.attempt.ordered_as(in_tree)
        if any_tracer(leaves) or state.abstract is not None and self.trie.has_effects:
            return self._under_traces(core, leaves, donated, attempt)
        if not open_traces and core.cache.runs_itself(self) and not self.trie.written:
            return plainly(core, args, kwargs, self.trie.stores)
        if self.trie.written and not may_commit(self.trie, leaves):  # type: ignore[arg-type]
            return core.f(*args, **kwargs)
        return self.run(core, leaves, donated, bool(state.checked) or device_in_use(), attempt)

    def run(
        self,
        core: Any,
        leaves: Sequence[Any],
        donated: frozenset[int],
        careful: bool,
        attempt: Attempts,
    ) -> Any:
        """The same where no leaf is traced and none of the written ones shares memory; `careful`: programs look at operands."""
        trie, account = self.trie, core.cache.account
        account.called()
        free = not (careful or donated or trie.has_effects or open_traces) and core.cache.runs_itself()
        if free and self.tiny and config.jit_patience and not trie.written and not trie.full:
            return self._tiny_call(core, leaves, attempt)
        if free and not trie.on_device:
            found = self._as_whole(account, leaves)
            if found is not None:
                return self._result(core, found[0], found[1], leaves, donated)
        together = self.past and not self.rounded and not self.by_steps  # no step is taken alone
        trie.segments.whole = free and self.by_steps
        if free and (trie.full or together):
            return self._recorded_or_plain(core, leaves, (), None, attempt)
        step = trie.first
        if step is None or trie.engine is not config.engine:
            step = trie.prepare()
        values = [*leaves, *step.consts] if step is not None else []
        if not self.fresh:
            end = self._go(step, values, careful)
        elif free and not account.makes_ready(self.fresh):
            return self._itself(core, leaves, attempt)
        else:
            self.fresh = 0
            with many_objects():
                end = self._go(step, values, careful)
        if type(end) is not PathStep:
            if free:
                return self._recorded_or_plain(core, leaves, *_taken_over(end, values), attempt)
            return self.record(core, leaves, attempt, *_taken_over(end, values), donated=donated)
        account.comes_again()
        self.strange = 0
        leaf: Any = end.leaf
        leaf.visits += 1
        if self.tried and any([p.leaf is leaf for p in self.programs]):  # it would have been right
            self.missed = 0
        if free and len(self.programs) < MOST_PROGRAMS:
            if self.candidate is None or leaf.visits > self.candidate.leaf.visits:  # type: ignore[union-attr]
                self._proposes(end.node)
        self.hits += 1
        if end.alone >= 0:
            out = values[end.alone]
            if type(out) is not _ndarray or _is_own(out, values):
                return out
        return self._result(core, leaf, [x if i < 0 else values[i] for i, x in end.outputs], leaves, donated)

    def _as_whole(self, account: Account, leaves: Sequence[Any]) -> tuple[Leaf, list[Any]] | None:
        """The path and its results, if it is one of those that are one program; None: it is another one, as far as is known."""
        candidate = self.candidate
        if self.waiting is not None or candidate is not None and self._repaid(account, candidate):
            self._compile(account)
        programs = self.programs
        if not programs:
            return None
        if self.missed:
            self.tried += 1
            patient = PATIENT if self.by_steps and programs[0].is_native() else 1
            if self.tried < 1 << min(max(self.missed - patient, 0), MOST_SKIPPED):
                return None
            self.tried = 0
        program, others = programs[0], list(programs[1:])
        while True:
            try:
                *outs, right = program.run(leaves)
            except Exception:  # what it computed past a wrong answer cannot be computed; or Python will raise the same
                break
            if right == len(program.keys):
                program.leaf.visits += 1
                self.hits += 1
                self.missed = 0
                account.comes_again()
                self._first(program)
                return program.leaf, outs
            following = program.after(int(right), others)
            if following is None:
                break
            program = following
            others.remove(program)
        self.missed += 1
        return None

    def _repaid(self, account: Account, node: Node) -> bool:
        """Is the path that ends here to be one program now?"""
        cost = self._dearness(node)
        if not self.by_steps:
            return account.affords(cost)
        price, leaf = cost + compile_cost(self.trie.extent(node)[0], 0), node.leaf
        if leaf.visits == 1 or not account.affords(cost):  # type: ignore[union-attr]
            return False
        return len(self.programs) < COSTS["at once"] or leaf.visits * self._steps(node) >= price  # type: ignore[union-attr]

    def _steps(self, node: Node) -> float:
        """Seconds of a call that goes along this path equation by equation."""
        n, questions = self.trie.extent(node)
        return n * COSTS["step"] + questions * COSTS["hop"]

    def _dearness(self, node: Node) -> float:
        n, questions = self.trie.extent(node)
        return (n + COSTS["of a question"] * questions) * COSTS["passed"]

    def _compile(self, account: Account) -> None:
        """Let the path that ends in the candidate be one program, when all of it is repaid."""
        with self.trie.lock, many_objects():
            if self.waiting is None and self.candidate is not None:
                self.waiting = path_program(self.candidate, self.trie.inputs, self.trie.segments.memo)
                self.candidate = None
            waiting = self.waiting
            if waiting is None:  # another thread was here
                return
            program = program_of(waiting.jaxpr)
            if not isinstance(program, EngineProgram) or program.may_compile(account, COSTS["waits"] if self.by_steps else 1.0):
                self.programs, self.waiting = (waiting, *self.programs[: MOST_PROGRAMS - 1]), None
                self.missed = 0

    def _recorded_or_plain(
        self,
        core: Any,
        leaves: Sequence[Any],
        chain: Sequence[Any],
        env: Any,
        attempt: Attempts,
    ) -> Any:
        """A call along an unknown path: recorded, if that is repaid; else of the function itself."""
        account = core.cache.account
        candidate, waiting = self.candidate, self.waiting
        if self.by_steps:
            candidate = waiting = None
        if candidate is not None:  # another recording would only tell that it comes again
            cost = self._dearness(candidate)
        elif waiting is not None:
            cost = compile_cost(*program_of(waiting.jaxpr).extent)  # type: ignore[attr-defined]
        else:
            cost = account.size
            if account.affords(cost) and not self.trie.full:
                return self.record(core, leaves, attempt, chain, env, most=account.longest())
        self.strange += 1
        if self.by_steps and self.strange <= COSTS["strange"]:
            return self._itself(core, leaves, attempt)
        if not self.programs or self.missed:
            calls = min(account.until(cost), LONGEST)
            if calls and self.past and not self.trie.written:
                self._rests(core, calls)
        return self._itself(core, leaves, attempt)

    def _tiny_call(self, core: Any, leaves: Sequence[Any], attempt: Attempts) -> Any:
        """A call of what is faster without a program; once in a while it is looked whether it still is."""
        if self.rested and core.cache.account.affords_recording():
            self.rested = False
            return self.record(core, leaves, attempt, most=core.cache.account.longest())
        self.rested = True
        self._rests(core, SHORT << min(self.tiny, MOST_SKIPPED))
        return self._itself(core, leaves, attempt)

    def _rests(self, core: Any, calls: int) -> None:
        self.rest = calls
        self.at_rest(core)

    def _itself(self, core: Any, leaves: Sequence[Any], attempt: Attempts) -> Any:
        """A call of the function itself; what it has written and returns is the caller's own."""
        args, kwargs = attempt.arguments(leaves)
        if not self.trie.written:
            return plainly(core, args, kwargs, self.trie.stores)
        try:
            return core.f(*args, **kwargs)
        except GIVEN_TO_PLAIN:
            core.cache.at_once = True
            raise

    def _result(
        self,
        core: Any,
        leaf: Leaf,
        outs: list[Any],
        leaves: Sequence[Any],
        donated: frozenset[int],
    ) -> Any:
        inputs = [*leaf.consts, *leaves]
        if leaf.stores:
            outs = own_memory(outs, inputs, leaf.orders)
            n = len(outs) - sum([store.count for store in leaf.stores])
            result = self._result(core, leaf.without_stores(), outs[:n], leaves, donated)
            write_back(leaf.stores, core.f, outs[n:], () if donated else leaves, state.observer, self.name)
            return result
        if leaf.written:
            outs = commit(leaf, leaves, inputs, outs, donated, self.name)  # type: ignore[arg-type]
        else:
            outs = own_memory(outs, inputs, leaf.orders)
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

    def _under_traces(
        self,
        core: Any,
        leaves: Sequence[Any],
        donated: frozenset[int],
        attempt: Attempts,
    ) -> Any:
        """In a program that is being traced the function is recorded there; under derivatives its path is one program."""
        ends = [concrete_value(x) for x in leaves]
        known = not any_tracer(ends) and all([shape_of(a) == shape_of(x) for a, x in zip(ends, leaves)])
        trie = self.trie
        if not known or trie.has_effects or trie.cuts or trie.written or trie.stores or state.abstract is not None:
            return self.record(core, leaves, attempt, donated=donated, keep=known)
        end = self.known_end(ends)
        if end is None:
            return self.record(core, leaves, attempt, donated=donated)
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
        attempts: Attempts,
        chain: Sequence[Any] = (),
        env: dict[Var, Any] | None = None,
        donated: frozenset[int] = frozenset(),
        keep: bool = True,
        most: int | None = None,
    ) -> Any:
        """Run Python on a trace of these values, after what is handed over, and keep the path."""
        with storing.taken():
            recorder, attempt, traced, refusal = self._trace(core, leaves, attempts, chain, env, keep, most)
            if recorder.chooses and refusal is None:
                core.cache.drop_paths(self)
            if traced is not None:
                self.depends_on(core, attempt)
                if recorder.started:
                    return self.take(core, recorder, attempt, traced, donated, keep)
                jaxpr, consts = traced  # started again with buffers, it asks for nothing
                outs = call_of(jaxpr, [*consts, *leaves], self.name)
                return self._result(core, attempt.leaf(jaxpr.outputs, consts), outs, leaves, donated)
        if refusal is not None:
            try:  # here, so that what f raises has no other error around it than in plain Python
                return core.runs_un_jitted(refusal, *attempts.arguments(leaves))
            finally:
                del refusal  # its traceback holds this frame
        if recorder.differs is not None and self.begins_anew() > MOST_ANEW:
            reason = str(recorder.differs).partition("\n")[0].removeprefix("a jitted function ").partition(":")[0]
            return core.runs_un_jitted(Refusal(f"it {reason}", ""), *attempts.arguments(leaves))
        return self._itself(core, leaves, attempts)

    def _trace(
        self,
        core: Any,
        leaves: Sequence[Any],
        attempts: Attempts,
        chain: Sequence[Any],
        env: dict[Var, Any] | None,
        keep: bool,
        most: int | None,
    ) -> tuple[Recorder, Attempt, tuple[Jaxpr, list] | None, Refusal | None]:
        """A recording, its program and what that captured; None: it was given up, or a reason why f itself is to run."""
        counters["traces"] += 1
        attempt = attempts.of(core.f, leaves)
        known = self.trie.inputs or None, self.trie.root, chain, env
        recorder = Recorder(leaves, *known, most, core.cache.mixes, instead=not any_tracer(leaves))
        try:
            with attempt.looked_after(), many_objects():
                flat, avals = recorder.watching(attempt.flat, attempt.changes), [aval_of(x) for x in leaves]
                traced = trace_function(flat, avals, name=f"jit({self.name})", given=attempt.given)
        except (Abandoned, Differs):
            recorder.most = -1  # the account hears that it is no whole recording
            return recorder, attempt, None, None
        except Refusal as refusal:
            return recorder, attempt, None, refusal
        except Exception as error:
            if not isinstance(error, OF_TRACES) or recorder.had_effects or any_tracer(leaves):
                if keep and recorder.started:
                    self._count(core, self._keep_raised(recorder, error), None)
                raise
            refused = Raised(error)  # f itself tells whether it is one of f's
            refused.__cause__ = error
            return recorder, attempt, None, refused
        finally:
            recorder.ends(core)
        return recorder, attempt, traced, None

    def begins_anew(self) -> int:
        """All paths are forgotten, as a recording was not like them; gives how often that has happened."""
        with self.trie.lock:
            self.trie.forget()
            self.programs, self.candidate, self.waiting = (), None, None
            self.anew += 1
        return self.anew

    def depends_on(self, core: Any, attempt: Attempt) -> None:
        """What a recording read is compared from now on; where it is a part of a program that is traced, there too."""
        guards = attempt.run.guards if attempt.run is not None else None
        if guards is not None:
            self.depends(core, guards)
            if state.observer is not None and state.observer.also(guards, core.f) is None:
                raise Refusal(f"what {self.name} reads is gone", "")

    def take(
        self, core: Any, recorder: Recorder, attempt: Attempt, traced: tuple, donated: frozenset[int], keep: bool
    ) -> Any:
        """The result of a recording that has ended, whose path is kept."""
        jaxpr, consts = traced
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
            args, kwargs = attempt.of.arguments(leaves)
            return core.f(*args, **kwargs)
        if keep and recorder.whole and not any_tracer(consts):
            numbers, ordered = "asked" in jaxpr.memo, self.ordered or attempt.sees_orders(jaxpr)
            if not attempt.given.asked <= self.asked or numbers > self.numbers or ordered > self.ordered:
                self.outgrown(core, attempt, numbers, ordered)
            else:
                known = node.leaf.out_tree is not None
                if not known:
                    node.leaf = leaf
                self._count(core, known or self.trie.keep(recorder, node), node)
        elif keep:
            self._count(core, False, None)
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

    def _count(self, core: Any, known: bool, node: Node | None) -> None:
        """After a call that was recorded; `node`: the end of its path, if that is kept."""
        account = core.cache.account
        if known:
            self.hits += 1
            account.comes_again()
        else:
            self.unknown += 1
            account.unused()
        if self.trie.full:
            account.decided("no room for more recordings: those of this signature take as much memory as they may")
        elif node is not None:
            self.tiny = self.tiny + 1 if account.latest < COSTS["stored" if self.trie.stores else "call"] else 0
            mine = node is self.trie.root or node.parent is not None  # else another thread has come by
            if mine:
                self.fresh = 0 if known else self.trie.extent(node)[0]
                self._proposes(node)

    def _proposes(self, node: Node) -> None:
        """The path that ends here is to be one program, if it may run past its questions."""
        if node.past is None:
            node.past = runs_past(nodes_to(node))
            account = self.trie.segments.account
            most = max(COSTS["from below"] * account.latest, COSTS["little"])
            fast = account.derivative and self._steps(node) <= most
            self.by_steps = node.past and fast and (self.by_steps or self.past is None)
            self.past = node.past and self.past is not False
        if not node.past or self.waiting is not None and self.waiting.node is node:
            return
        known = next((p for p in self.programs if p.node is node), None)
        if known is None:
            self.candidate = node
        else:
            if self.missed and not self.tried:  # that program has just said that this is another path
                self.rounded = True
            self._first(known)
            self.missed = 0

    def _first(self, program: PathProgram) -> None:
        """It is tried first from now on."""
        if program is not self.programs[0]:
            self.programs = (program, *[p for p in self.programs if p is not program])


GIVEN_TO_PLAIN = (TracerArrayConversionError, TracerIntegerConversionError)  # of a traced index of a plain array, say


def plainly(core: Any, args: Any, kwargs: dict, keeps: bool) -> Any:
    """The function itself, un-jitted; `keeps`: it may keep what it gives.

    Where it gives a traced value to a plain array, as in the body of a loop, and can do nothing before that, it is traced.
    """
    token, failed = suppress_warnings(), False
    try:
        result = core.f(*args, **kwargs)
    except GIVEN_TO_PLAIN:
        known, core.cache.at_once, failed = core.cache.at_once, True, True
        if known or acting.acts(core.f) or needs_buffers(core.f):
            raise
    finally:
        restore_warnings(token)
    if failed:
        return core.enter(*args, **kwargs)
    if type(result) is _ndarray and getrefcount(result) <= HELD_HERE and _is_own(result, (result,)):
        return result
    if keeps and type(result) is _ndarray and result.ndim:
        return result.copy("K")
    return unaliased(result, [*([result] if keeps else ()), *args, *kwargs.values()], core.f)


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
