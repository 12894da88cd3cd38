"""Recording: a trace that runs while Python waits for a value.

Idea: a trace of jit's stays a trace until Python asks one of its values for a truth, an integer or a number. That is a
*guard*: what was recorded since the last one runs now, the answer is read off and noted, and Python goes on. So the path is
the right one from the start, effects happen once and in order, and what the user's own code raises is raised from values.

What has run in this call before Python started (compiled segments up to an answer that nobody knew) is handed over as a `chain`
of guards with their answers, and the values in `env`: Python repeats the chain, nothing of it runs again, and what it records
there must be what was recorded before. Values of the chain that were not kept are computed when somebody reads them; what has
effects is always kept.

Invariants: variables of one path are *canonical*, those of the first recording that came by; `names` leads from the variables
of this trace to them. `env` is keyed by canonical variables. Values may be arrays or the tracers of traces around the call:
then an operation runs by being recorded there, and a guard asks the outer value, which knows what a guard means to it. Trap:
operations run as if the trace were not open, so `state` is put back for them.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

import numpy as np

from funcad.api.value_reads import plain_value
from funcad.errors import BufferNeeded, FuncadError, PathError
from funcad.host.devices import (
    compute,
    device_in_use,
    error_mode,
    is_device,
    restore_warnings,
    suppress_warnings,
    user_line_mode,
)
from funcad.host.real_types import is_a
from funcad.host.where import is_internal, is_stored, note_source, state, unseen, user_source
from funcad.ir.aval import Params, aval_of
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, equation_has_effects
from funcad.ir.primitive import Primitive
from funcad.ir.trace import bind
from funcad.ir.tracer import Tracer, concrete_value
from funcad.jitted.account import COSTS, Abandoned, Equations, most_bytes
from funcad.jitted.handlers import inside_try, keep, keeping
from funcad.jitted.path_segments import Leaf, Node
from funcad.primitives.host import HostCall, debug_callback_p, host_read_p
from funcad.primitives.placement import on_device_of, put
from funcad.primitives.python_numbers import NotTheSame, kept
from funcad.reads.refusals import Raised, Refusal, Unplaced
from funcad.reads.selections import narrow
from funcad.tree.same import same_key


def _here(value: Any) -> Any:
    """A value that a device has, as NumPy has it: Python waits for it."""
    return put(value, "cpu", None) if device_in_use() and is_device(type(value)) else value


def _index(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:  # CuPy's arrays answer to int() only
        return operator.index(_here(value))


def _number(how: str) -> Callable[[Any], Any]:
    def number(value: Any) -> Any:
        value = _here(value)
        if type(value) is Tracer:
            value = plain_value(value, how)
        return np.asarray(value).item() if np.size(value) != 1 else value[()] if type(value) is np.ndarray else value

    return number


def _bits(value: Any) -> Any:
    value = _here(value)
    return same_key(value.reshape(())[()] if type(value) is np.ndarray else value)


# how Python asks -> (the answer of a value, the key of an answer among the children of a node)
ANSWERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bool()": (bool, bool),
    "int()": (int, int),
    "an index": (_index, _index),
    "float": (_number("float"), _bits),
    "complex": (_number("complex"), _bits),
    "item": (_number("item"), _bits),
    "text": (lambda value: _number("text")(concrete_value(_here(value))), lambda value: _bits(concrete_value(value))),
    # whole arrays of integers or bools
    "indices": (lambda value: np.array(_here(value)), lambda value: np.asarray(_here(value)).tobytes()),
    "reached": (lambda value: True, lambda value: True),  # an operation inside a `try`, which may fail
    "success": (lambda value: True, lambda value: True),  # of that; the key of an error is its type and what it says
}
OF_TRACES = (FuncadError, TypeError, AttributeError, NotImplementedError)  # what may be raised for a trace alone
REFUSALS = (ArithmeticError, ValueError, LookupError)  # by which operations refuse their operands, LinAlgError among them


_NUMBERS = frozenset([float, int, bool, np.float64, np.bool_, np.int64])


class _Escaped(BaseException):
    """An operation that stood in no `try` has failed: leaves those which Python has come to meanwhile."""


class Differs(BaseException):
    """Leaves a recording that is not like earlier ones with the same answers: nothing has happened, and f itself runs."""


class _AtOnce:
    """A `with` block in which operations run, where the function's trace would record them.

    No generator: one that Ctrl-C leaves behind would end, and put things back, when all else is over.
    """

    __slots__ = ("outside", "saved", "token", "unseen")

    def __init__(self, outside: tuple):
        self.outside = outside

    def __enter__(self) -> None:
        self.saved = state.abstract, state.staging, state.running, state.source, state.observer
        state.abstract, state.staging, state.running = self.outside
        state.observer = None  # what a callback does is done at each call
        user_line_mode(error_mode())  # noted, so that it is found again after Ctrl-C
        self.token, self.unseen = suppress_warnings(), unseen()
        self.unseen.__enter__()

    def __exit__(self, *error: object) -> None:
        state.abstract, state.staging, state.running, state.source, state.observer = self.saved
        restore_warnings(self.token)
        self.unseen.__exit__()


class Recorder:
    """One run of the user's function with values behind its trace."""

    def __init__(
        self,
        leaves: Sequence[Any],
        inputs: Sequence[Var] | None = None,
        root: Node | None = None,
        chain: Sequence[tuple[Node, Any, Any]] = (),
        env: dict[Var, Any] | None = None,
        most: int | None = None,
        mixes: bool = True,
        instead: bool = False,
    ):
        self.leaves = leaves
        self.instead = instead  # may f itself run, where an error may be one of the trace alone?
        self.most = most  # equations, after which it is given up if nothing has happened
        self.mixes = mixes  # may one of Python's numbers and NumPy's be selected?
        self.mixed: set[np.dtype] = set()  # of which dtypes such were
        self.met: set[np.dtype] = set()  # those of NumPy's numbers that were converted, see reads/selections.py
        self.open: Any = None  # the last condition of a choice between numbers
        self.tries = False  # does the next of them go both ways, so that it is tried whether it can be one?
        self.never = False  # could the first of them be no selection?
        self.chooses = False  # was it seen to go both ways? Then such choices are to be selections
        self.ways: dict[Any, list[int]] = {}  # how often the condition of each choice was false, and true
        self.n_bytes, self.most_bytes = 0, most_bytes()  # of the values that are kept while it lasts
        self.reached: Sequence[Equation] = ()  # what was recorded in the end
        self.inputs = inputs  # canonical variables of the leaves; of the first recording they are the trace's own
        self.chain = list(chain)  # (node, key, answer) of the guards that have been answered
        self.env: dict[Var, Any] = env or {}
        self.root = root
        self.started = False  # did Python ask for a value?
        self.whole = True  # can the path be told by its guards alone? Not if the user caught what an operation raised
        self.anew = False  # was the function started again, so that older paths are not like this one?
        self.leaf: Node | None = None
        self.outs: list[Any] = []
        self.failed: dict[Var, Exception] = {}
        self.changes: Callable[[], bool] = lambda: False
        self._escaped: Exception | None = None
        self.differs: PathError | None = None  # what is to be said where it was not like earlier ones
        self._inside = False  # does the user's function run?
        self._at_end = False  # does it, inside a `try`, run now, after what was recorded before?
        self._outside = (state.abstract, state.staging, state.running)
        self._trace: Any = None
        acting = [e for node, _, _ in chain if node.has_effects for e in node.equations if equation_has_effects(e)]
        self.had_effects = bool(acting)
        self._happened = [_effect(e, [self.env[v] for v in e.outputs]) for e in acting]
        self._later: list[partial[Any]] = []  # what is said when the function has returned
        self._rewound: list[Callable[[], Any]] = []  # what puts the generators back that were moved
        self._begin()

    def _begin(self) -> None:
        self._names: dict[Var, Var] = {}
        self._place = 0  # how many guards Python has come to
        self._node = self.root  # the known segment that is being recorded, if it is known
        self._start = self._done = self._ran = 0  # equations: where the segment starts, compared, run
        self._consts_start = self._consts = 0

    @property
    def complete(self) -> bool:
        """Has Python come to all the guards that were answered before?"""
        return self._place == len(self.chain)

    # -- while Python runs

    def watching(self, flat: Callable[..., list], changes: Callable[[], bool] = lambda: False) -> Callable[..., list]:
        """The flat function, whose trace asks here for values; `changes`: has it stored something, or written an argument?"""
        self.changes = changes

        def run(*tracers: Any) -> list:
            trace = state.running
            if self._trace is not None:
                self._start_again(trace)
            elif self.most is not None:
                trace.equations = Equations(self.most, self._may_stop)
            self._trace = trace
            self.reached = trace.equations
            self._entered = sys._getframe().f_code
            trace.recorder, trace.tries = self, self.record
            failed: BaseException | None = None
            self._inside = True
            try:
                outs = flat(*tracers)
                if self.differs is not None:
                    raise Differs  # the user's `except:` has taken the first one
                most = -1 if self.chooses else self.most
                if most is not None and len(trace.equations) > most and self._may_stop():
                    raise Abandoned
            except (Abandoned, Differs):
                self._inside = False
                self._take_back()
                raise
            except Refusal as refusal:
                if self.had_effects and self._stands(refusal.error):  # it cannot be run again
                    self._inside = False
                    with self._said():
                        if self.started:
                            self._catch_up()
                    raise refusal.error from None  # type: ignore[misc]
                raise self._refused(refusal)  # noqa: B904 the same one
            except (_Escaped, Exception) as error:
                self._inside, failed = False, error
            if failed is not None:  # here, so that what is raised has no other error around it than in plain Python
                try:
                    self._ends_with(failed)
                finally:
                    failed = None  # its traceback holds this frame
            self._inside = False
            values = [*[x for _, x in trace.captured.values()], *self.leaves]
            if self.mixed and narrow(self.mixed, self.met, trace.equations, values):
                self._take_back()
                self.mixes = False
                if self.most is not None and self._may_stop():
                    raise Abandoned
                reason = "max or min of a number of Python's and one of NumPy's, beside others of fewer bits"
                raise self._refused(Refusal(reason, ""))
            if self.started:
                with self._said():
                    try:
                        self._finish(outs)
                    except REFUSALS as error:
                        self._runs_again(error)
                        raise
            elif self.root is not None:
                raise self._other()
            alone = sum(map(sum, self.ways.values())) == 1  # no other choice comes, at which it could be tried
            self.chooses = self.chooses or self.tries and alone
            return outs

        return run

    def _ends_with(self, error: BaseException) -> NoReturn:
        """The user's function ends with an error; what is raised for a trace alone begins another one, or a plain run."""
        if self._escaped is not None:
            self._runs_again(self._escaped)
            self._say()
            raise self._escaped from None
        again = isinstance(error, BufferNeeded) or isinstance(error.__cause__, BufferNeeded)
        if not again and (self.started or not isinstance(error, (FuncadError, Unplaced))):
            self._begin_guards()
            if not self._stands(error):
                raise self._refused(Raised(error)) from error  # type: ignore[arg-type]
            with self._said():
                self._catch_up()  # what comes before the error happens before it
        raise error

    def _stands(self, error: BaseException | None) -> bool:
        """Is there an error that is raised? Where it may be one of the trace alone, f itself runs, which tells."""
        return error is not None and not (self.instead and isinstance(error, OF_TRACES))

    def _runs_again(self, error: Exception) -> None:
        """An operation has raised: where f changes something before that, and nothing has happened, f runs as plain Python."""
        if self.changes() and not self.had_effects:
            self._take_back()
            raise Raised(error) from error

    def _may_stop(self) -> bool:
        """May the recording be given up? Not after an effect, which would happen again."""
        return not self.had_effects

    def ends(self, core: Any) -> None:
        """The recording has ended, in one way or another: the account of the function hears of it."""
        equations = self.reached
        code = getattr(core.f, "__code__", getattr(type(core.f).__call__, "__code__", None))
        derivative = is_internal(getattr(code, "co_filename", __file__))
        whole = self.most is None or len(equations) <= self.most
        if self.never:
            if core.cache.chooses:
                core.cache.account.size /= COSTS["both sides"]
            core.cache.chooses = None
        core.cache.account.recorded(equations, derivative, whole, len(self.chain))
        core.cache.mixes = core.cache.mixes and self.mixes
        if self.chooses:
            core.cache.chooses = True
            core.cache.account.recorded_anew(COSTS["both sides"])
        if type(equations) is Equations:
            equations.stops = bool
        self.reached = ()  # its trace and what it captured are free at once

    def _say(self) -> None:
        self.had_effects = self.had_effects or bool(self._later) or bool(self._rewound)
        if self._later:
            with _AtOnce(self._outside):
                while self._later:
                    said = self._later.pop(0)
                    self._happened.append((said.keywords["call"].name, said()))

    @contextmanager
    def _said(self) -> Iterator[None]:
        """A `with` block after which what came before its end, or its error, has been said."""
        try:
            yield
        finally:
            self._say()

    def _take_back(self) -> None:
        """Nothing has happened: the function is run again."""
        self._later.clear()
        while self._rewound:
            self._rewound.pop()()

    def _refused(self, refusal: Refusal) -> Refusal:
        """The function is run again; what has happened and cannot be taken back is not to happen again."""
        self._take_back()
        refusal.happened = self._happened
        if state.happened is not None:
            state.happened[0].clear()  # who runs it is told by the refusal
        return refusal

    def _start_again(self, trace: Any) -> None:
        """The function was started again because it needs buffers; what it records is another program from now on."""
        if self.had_effects:
            raise PathError(
                "a function was to be started again, with buffers that can be written, after it had effects.\n"
                "Remedy: call it again."
            )
        self._take_back()
        self.chain, self.env, self.root, self.started, self.anew = [], {}, None, False, True
        self._begin()
        self._start = self._done = self._ran = len(trace.equations)  # what it captured stays captured

    def answer(self, x: Tracer, how: str) -> Any:
        """What Python asked of a value of the trace: a guard."""
        if is_stored(how):
            return x
        if self.chooses:
            raise Abandoned
        self._begin_guards()
        source, whole = state.source or user_source(3), self.whole
        node, error = self._node, None
        self._at_end = how == "success"
        try:
            node = self._catch_up()
        except REFUSALS as found:  # of the operation inside a `try` that has just been recorded
            self.whole, error = whole, found
        finally:
            self._at_end = False
        guard = self._name(x.atom)
        if self._place < len(self.chain):
            node, key, answer = self.chain[self._place]
            if node.kind != how and error is None:
                ANSWERS[how][0](self._value(guard))  # NumPy asks for an index, is refused, and asks for a whole array
            self._check_end(node, guard, how)
            error = None if how != "success" or key is True else key[0](*key[1])
        else:
            answer = error is None and ANSWERS[how][0](self._value(guard))
            key = ANSWERS[how][1](answer) if error is None else (type(error), error.args)
            if node is not None:
                self._check_end(node, guard, how)
            else:
                node = self._new_node()
                node.guard, node.kind, node.source = guard, how, source
            self.chain.append((node, key, answer))
        self._place += 1
        self._node = node.children.get(key)
        if x is self.open and self.most is not None and self._both_ways(node, source, key) and self._may_stop():
            self.tries = True
        if self._node is not None and self._node.leaf is not None and self._node.leaf.raises:
            self._node = None
        self._start = self._done
        self._consts_start = self._consts
        if error is not None:
            raise error
        return answer

    def begins_choosing(self) -> None:
        """The recording is given up, and the next one has selections."""
        self.chooses = True
        if type(self._trace.equations) is Equations:
            self._trace.equations.most = -1  # the user's `except:` may take it: then the next operation ends it
        raise Abandoned

    def _both_ways(self, node: Node, source: Any, key: Any) -> bool:
        """At a choice that could be a selection: is it seen to go one way and the other, in this call or since another?"""
        ways = self.ways.setdefault(source, [0, 0])
        ways[key is True] += 1
        asked, seldom = sum(map(sum, self.ways.values())), min(ways)
        if COSTS["choices"] * (self._place - asked) > asked:  # other questions make paths in any case
            return False
        return self._node is None and bool(node.children) or seldom > 1 and seldom * COSTS["seldom"] > sum(ways)

    def record(self, trace: Any, primitive: Primitive, args: Sequence[Any], params: Params) -> Any:
        """Record an operation that may fail: inside a `try` it is a segment of its own, whose end says whether it did."""
        if trace is not self._trace:
            return keep(trace, primitive, args, params, self._entered)
        trace.tries = None
        try:
            tried = inside_try(self._entered)
            read = next((a for a in args if type(a) is Tracer and a.owner is trace), None)
            if tried:
                self.answer(read, "reached")
            out = trace.record(primitive, args, keeping(params) if tried and primitive.multiple else params)
            outs = [kept(x) for x in out] if tried and primitive.multiple else [out]
            if tried:
                self.answer(outs[0] if outs else read, "success")
            return out
        finally:
            trace.tries = self.record

    def shown(self, x: Tracer, text: bool) -> Any:
        """The value behind x: for a text it is asked for, for who only looks (`repr`) it is no guard."""
        if text and not x.aval.shape:
            value = self.answer(x, "text")
            return value if x.aval.weak or type(value) is Tracer else x.aval.dtype.type(value)
        if text or not self.started:
            return x
        self._catch_up()
        return self._value(self._name(x.atom))

    def _begin_guards(self) -> None:
        if self.started:
            return
        self.started = True
        trace = self._trace
        if self.inputs is None:
            self.inputs = tuple(trace.inputs)
        else:
            self._names.update(zip(trace.inputs, self.inputs))
        self.env.update(zip(self.inputs, self.leaves))
        for node, _, _ in self.chain:
            self.env.update(self._placed(node.consts))

    def _placed(self, consts: Sequence[tuple[Var, Any]]) -> list[tuple[Var, Any]]:
        """Captured arrays where the arguments are, as a program that runs as a whole has them."""
        return list(zip([v for v, _ in consts], on_device_of([x for _, x in consts], self.leaves)))

    # -- segments

    def _catch_up(self) -> Node | None:
        """Compare what was recorded with the known segment, if there is one, and run it, if it has not run; gives that."""
        known = self.chain[self._place][0] if self._place < len(self.chain) else self._node
        trace = self._trace
        if known is not None:
            self._compare(known)
        else:
            self.env.update(self._placed(list(trace.captured.values())[self._consts :]))
            self._consts = len(trace.captured)
            self._done = len(trace.equations)
        if self._place < len(self.chain):
            self._ran = self._done
        else:
            self._run_to(self._done)
        return known

    def _run_to(self, end: int) -> None:
        equations, names = self._trace.equations, self._names
        with _AtOnce(self._outside):
            plain = not (device_in_use() or state.checked or state.axis_env)
            while self._ran < end:
                equation = equations[self._ran]
                self._ran += 1  # whatever comes: it is never run twice
                if plain and not self.failed and self._runs_plainly(equation):
                    continue
                outputs = [names.get(v, v) for v in equation.outputs] if names else equation.outputs
                lost = [a for a in equation.inputs if type(a) is Var and self._name(a) in self.failed] if self.failed else ()
                if lost:  # recorded before it was known that there is no such value
                    self.failed.update([(v, self.failed[self._name(lost[0])]) for v in outputs])
                    continue
                try:
                    self._run(equation, outputs)
                except Exception as error:
                    self.whole, self._node = False, None  # what follows, if the user catches it, is no known segment
                    self.failed.update([(v, error) for v in outputs])
                    last = all([e.primitive is kept for e in equations[self._ran : end]])
                    caught = self._at_end and last and not isinstance(error, NotTheSame)
                    if isinstance(error, REFUSALS) and self._inside and not caught:
                        self._escaped = error
                        raise _Escaped from None
                    raise

    def _runs_plainly(self, equation: Equation) -> bool:
        """Run what does nothing but give one number of numbers, in few steps; False: it is not of this kind, or has failed."""
        primitive, atoms, params, outputs, _ = equation
        if primitive.multiple or primitive.effect or primitive.fails:
            return False
        names, env, operands = self._names, self.env, []
        for a in atoms:
            if type(a) is Literal:
                operands.append(a.value)
                continue
            x = env.get(names.get(a, a))
            if type(x) not in _NUMBERS:
                return False
            operands.append(x)
        try:
            out = primitive.impl(np, *operands, **params)
        except Exception:  # once more, the general way
            return False
        if type(out) not in _NUMBERS:
            return False
        env[names.get(outputs[0], outputs[0])] = out
        return True

    def _run(self, equation: Equation, outputs: Sequence[Var]) -> None:
        primitive, atoms, params, _, source = equation
        names, env, operands = self._names, self.env, []
        for a in atoms:
            v = names.get(a, a)
            operands.append(env[v] if v in env else a.value if type(a) is Literal else self._value(v))
        state.source, watching, acts = source, (), equation_has_effects(equation)
        if acts:
            call = params.get("call")
            if primitive is debug_callback_p:  # nobody reads what it gives
                self._later.append(partial(bind, primitive, *operands, **params))
                return
            if type(call) is HostCall and call.rewind is not None:
                self._rewound.append(call.rewind())
                watching = state.drawing
            elif primitive is not host_read_p:
                self._say()
                self.had_effects = True
        for generators in watching:
            generators.look()
        try:
            if acts or Tracer in map(type, operands) or state.axis_env:
                out = bind(primitive, *operands, **params)
            else:
                out = compute(primitive, operands, params)
        except Exception as error:
            note_source(error, source)
            raise
        for generators in watching:
            generators.note()
        results = out if primitive.multiple else (out,)
        if acts and not watching and primitive is not host_read_p:
            self._happened.append(_effect(equation, results))
        for v, x in zip(outputs, results):
            env[v] = x
            self.n_bytes += getattr(x, "nbytes", 0)
        if self.n_bytes > self.most_bytes and self.most is not None and self._may_stop():
            raise Abandoned

    def _name(self, v: Var) -> Var:
        return self._names.get(v, v)

    def _value(self, v: Var) -> Any:
        """The value of a canonical variable; what ran compiled and was not kept is computed now."""
        if v not in self.env:
            if v in self.failed:
                raise self.failed[v]
            makers = {o: e for node, _, _ in self.chain for e in node.equations for o in e.outputs}
            todo = [v]
            while todo:
                equation = makers[todo[-1]]
                missing = [a for a in equation.inputs if type(a) is Var and a not in self.env]
                if missing:
                    todo += missing
                    continue
                todo.pop()
                saved = state.source
                try:
                    self._run(equation, equation.outputs)
                finally:
                    state.source = saved
        return self.env[v]

    def _canonical(self, atom: Any) -> Any:
        return atom if type(atom) is Literal else self._names.get(atom, atom)

    def _new_node(self) -> Node:
        trace = self._trace
        names = self._names
        equations = trace.equations[self._start : self._done]
        if names:
            equations = [
                e._replace(inputs=tuple([a if type(a) is Literal else names.get(a, a) for a in e.inputs])) for e in equations
            ]
        consts = list(trace.captured.values())[self._consts_start : self._consts]
        return Node(equations, consts)

    def _finish(self, outs: Sequence[Any]) -> None:
        """The function has returned."""
        atoms = [self._trace.atom(o) for o in outs]
        node = self._catch_up()
        if not self.complete or node is not None and (node.leaf is None or self._done - self._start != len(node.equations)):
            raise self._other()
        atoms = [self._canonical(a) for a in atoms]
        self.outs = [a.value if type(a) is Literal else self._value(a) for a in atoms]
        if node is None:
            node = self._new_node()
            node.leaf = Leaf(atoms)
        self.leaf = node

    # -- is it what was recorded before?

    def _compare(self, node: Node) -> None:
        trace = self._trace
        found = list(trace.captured.values())
        while self._consts < len(found):
            i = self._consts - self._consts_start
            v, value = found[self._consts]
            if i >= len(node.consts) or not _same_array(value, node.consts[i][1]):
                raise self._other()
            self._names[v] = node.consts[i][0]
            self.env.setdefault(*self._placed(node.consts[i : i + 1])[0])
            self._consts += 1
        equations = trace.equations
        while self._done < len(equations):
            i = self._done - self._start
            if i >= len(node.equations) or not self._equal(equations[self._done], node.equations[i]):
                raise self._other(equations[self._done])
            self._names.update(zip(equations[self._done].outputs, node.equations[i].outputs))
            self._done += 1

    def _check_end(self, node: Node, guard: Var, how: str) -> None:
        if self._done - self._start != len(node.equations) or node.guard is not guard or node.kind != how:
            raise self._other()

    def _equal(self, new: Equation, old: Equation) -> bool:
        return (
            new.primitive is old.primitive
            and len(new.inputs) == len(old.inputs)
            and all([self._equal_atoms(a, b) for a, b in zip(new.inputs, old.inputs)])
            and [v.aval for v in new.outputs] == [v.aval for v in old.outputs]
            and new.params.keys() == old.params.keys()
            and all([_equal_params(v, old.params[k]) for k, v in new.params.items()])
        )

    def _equal_atoms(self, new: Any, old: Any) -> bool:
        if type(new) is Literal:
            return type(old) is Literal and same_key(new.value) == same_key(old.value)
        return self._names.get(new) is old

    def _other(self, equation: Equation | None = None) -> PathError | Differs:
        source = equation.source if equation is not None else user_source()
        where = f" at {source}" if source is not None else ""
        error = PathError(
            f"a jitted function did something else than in an earlier call{where}, though all values that it asked for were "
            "the same: it depends on something that is no argument (random numbers, a counter, the time, a list that grows).\n"
            "Remedy: pass it as an argument, or call jit(..., guards=False) and use np.where, funcad.cond or funcad.while_loop."
        )
        if self.had_effects:
            return error
        self._take_back()
        self.differs = self.differs or error
        return Differs()


def _effect(equation: Equation, results: Sequence[Any]) -> tuple[str, Any]:
    """An effect that has happened; one of a loop has no name, and nobody finds it again."""
    call = equation.params.get("call")
    return (call.name if type(call) is HostCall else "", list(results))


def _same_array(new: Any, old: Any) -> bool:
    if new is old or type(new) is Tracer or type(old) is Tracer:
        return new is old
    if aval_of(new) != aval_of(old):
        return False
    return bool(np.array_equal(new, old) or np.asarray(new).tobytes() == np.asarray(old).tobytes())


def _equal_params(new: Any, old: Any) -> bool:
    """Parameters of two recordings; callables are made anew at each."""
    if new is old:
        return True
    if type(new) is not type(old):
        return False
    if type(new) is Jaxpr:
        return _same_program(new, old)
    if isinstance(new, tuple):
        return len(new) == len(old) and all(map(_equal_params, new, old))
    if is_a(new, (bool, int, float, complex, str, np.generic, np.dtype)):
        return same_key(new) == same_key(old) if is_a(new, (float, complex, np.generic)) else bool(new == old)
    return True


def _same_program(new: Jaxpr, old: Jaxpr) -> bool:
    if len(new.equations) != len(old.equations) or new.in_avals != old.in_avals:
        return False
    names = dict(zip(new.inputs, old.inputs))

    def same(a: Any, b: Any) -> bool:
        if type(a) is Literal:
            return type(b) is Literal and same_key(a.value) == same_key(b.value)
        return names.get(a) is b

    for e, known in zip(new.equations, old.equations):
        if e.primitive is not known.primitive or len(e.inputs) != len(known.inputs) or e.params.keys() != known.params.keys():
            return False
        if [v.aval for v in e.outputs] != [v.aval for v in known.outputs] or not all(map(same, e.inputs, known.inputs)):
            return False
        if not all([_equal_params(v, known.params[k]) for k, v in e.params.items()]):
            return False
        names.update(zip(e.outputs, known.outputs))
    return len(new.outputs) == len(old.outputs) and all(map(same, new.outputs, old.outputs))
