"""What a rule records is learned: within a program that is being traced, the same operation leaves the same equations.

Idea: a loop of Python's does the same operations at each turn, and a rule that records its equations one by one costs ten times
what they cost to write down. So the second time, what the operation has left in the program and in the tangent program is kept,
as equations over places; when one of the same kind comes (primitive, avals, which operands have tangents, which of these are
one, numbers), these are written down for its operands, and at its place in an array: of a basic index the kind has lengths and
steps only. Invariants: rules look at no values, only at avals and at Python's
numbers, which are part of the kind; zeros and NaN are not, nor is an operation that may fail, captures something, or asks what
has made its operands (families.py). What was learned belongs to one derivative within one trace, and dies with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from funcad.host.where import state, user_source
from funcad.ir.aval import AnyAval, Aval
from funcad.ir.jaxpr import Equation, Literal, Var
from funcad.ir.trace import AbstractTrace
from funcad.ir.tracer import Tracer
from funcad.primitives.basic_indexing import INDEXED

_NUMBERS = frozenset([float, int])
MOST = 256  # kinds
_new_tuple = tuple.__new__
_Steps = Sequence[tuple[Any, Callable[[list], tuple], Any, AnyAval]]


class LearnedStep:
    """What an operation leaves, over places: those of its operands' variables and literals, then those of its equations."""

    __slots__ = ("literals", "primal", "out", "read", "tangent", "tangent_out")

    def __init__(self, literals: list, primal: _Steps, out: int, read: list[int], tangent: _Steps, tangent_out: int):
        self.literals, self.primal, self.out = literals, primal, out
        self.read = read  # places in the program whose values the tangent program reads
        self.tangent, self.tangent_out = tangent, tangent_out  # -1: it has none


class Learned:
    """The kinds of operations that a derivative has met in the trace of a program."""

    __slots__ = ("trace", "steps")

    def __init__(self, trace: AbstractTrace):
        self.trace = trace
        self.steps: dict[tuple, LearnedStep | None] = {}

    def record(self, of: Any, primitive: Any, args: Sequence[Any], params: dict, shape: tuple | None) -> Any:
        """What `of.by_rule` gives, `of` being the trace of the derivative."""
        trace, recording = self.trace, of.recording
        variables: list[Any] = []
        tangents: list[Any] = []
        kind: list[Any] = [primitive, shape]
        for a in args:
            if type(a) is Tracer:
                x, first = a, -1
                if a.owner is of:
                    x, t = a.primal, a.tangent
                    if type(t) is not Tracer or t.owner is not recording:
                        return of.by_rule(primitive, args, params, shape, None)
                    tangents.append(t.atom)
                    first = tangents.index(t.atom)  # 0 + x has the tangent of x
                if type(x) is not Tracer or x.owner is not trace or x.box is not None or type(x.atom.aval) is not Aval:
                    return of.by_rule(primitive, args, params, shape, None)
                variable = x.atom
                aval = variable.aval
                again = variables.index(variable) if variable in variables else -1
                variables.append(variable)
                kind += (aval.shape, aval.dtype, aval.weak, first, again)
            elif type(a) in _NUMBERS and a and a == a:
                kind += (type(a), a)
            else:
                return of.by_rule(primitive, args, params, shape, None)
        index = params.get("index") if params and primitive in INDEXED else None
        if index is not None:
            kind += [e if e is None else type(e) is tuple and e[1:] for e in index]
            kind += [v for name, v in params.items() if name != "index"]
        elif params:
            kind += params.items()
        key = tuple(kind)
        try:
            step = self.steps.get(key, _NEW)
        except TypeError:  # a parameter that cannot be hashed
            step = None
        around = state.staging
        if step is None or state.abstract is not trace or around is not None and around.level > trace.level or state.axis_env:
            return of.by_rule(primitive, args, params, shape, None)
        if step is _NEW:  # most programs have it once
            if len(self.steps) < MOST:
                self.steps[key] = _SEEN
            return of.by_rule(primitive, args, params, shape, None)
        if step is _SEEN:
            return self._learn(key, of, primitive, args, params, shape, variables, tangents)
        source = state.source or user_source()
        here = params if index is None or len(params) == 1 else {"index": index}
        variables += step.literals
        equations = trace.equations
        for done, places, given, aval in step.primal:
            v = Var(aval)
            equations.append(_new_tuple(Equation, (done, places(variables), here if given is _HERE else given, (v,), source)))
            variables.append(v)
        if step.tangent_out < 0:
            return Tracer(trace, variables[step.out], None, None, source)
        captured, tangents = recording.captured, [*tangents, *step.literals]
        for place in step.read:
            v = variables[place]
            entry = captured.get((id(v),))
            if entry is None:
                entry = captured[(id(v),)] = Var(v.aval), Tracer(trace, v)
            tangents.append(entry[0])
        equations = recording.equations
        for done, places, given, aval in step.tangent:
            v = Var(aval)
            equations.append(_new_tuple(Equation, (done, places(tangents), here if given is _HERE else given, (v,), source)))
            tangents.append(v)
        out, found = Tracer(trace, variables[step.out]), Tracer(recording, tangents[step.tangent_out])
        out.source = found.source = source
        return of._traced(primitive, args, params, 0, shape, out, found, source)

    def _learn(
        self, key: Any, of: Any, primitive: Any, args: Any, params: dict, shape: Any, variables: list, tangents: list
    ) -> Any:  # fmt: skip
        trace, recording = self.trace, of.recording
        n, m, captured, looks = len(trace.equations), len(recording.equations), len(trace.captured), trace.looks
        result = of.by_rule(primitive, args, params, shape, None)
        self.steps[key] = None
        if len(trace.captured) != captured or trace.looks != looks:
            return result
        if primitive.multiple or primitive.fails or type(result) is not Tracer:
            return result
        out, found = result, None
        if result.owner is of:
            out, found = result.primal, result.tangent[0] if type(result.tangent) is list else result.tangent
            if type(found) is not Tracer or found.owner is not recording:
                return result
        if type(out) is Tracer and out.owner is trace and out.box is None:
            end = None if found is None else found.atom
            index = params.get("index") if primitive in INDEXED else None
            self.steps[key] = _step(trace.equations[n:], recording, m, variables, tangents, out.atom, end, index)
        return result


_NEW: Any = object()
_SEEN: Any = object()  # once
_HERE: Any = object()  # the place that the operation is given


def _step(
    equations: Sequence[Any], recording: Any, m: int, variables: list, tangents: list, out: Any, found: Any, index: tuple | None
) -> LearnedStep | None:
    """What was left, over places; None if it is not made of the operands alone."""
    after = recording.equations[m:]
    literals = [a for e in (*equations, *after) for a in e.inputs if type(a) is Literal]
    places = [*variables, *literals]
    primal = _over(equations, places, index)
    before = {entry[0]: i for i, v in enumerate(places) if (entry := recording.captured.get((id(v),))) is not None}
    read = list(dict.fromkeys([a for e in after for a in e.inputs if a in before]))
    others = [*tangents, *literals, *read]
    tangent = _over(after, others, index)
    if primal is None or tangent is None or out not in places or found is not None and found not in others:
        return None
    if not before.keys().isdisjoint(tangents):  # is it read as a tangent, or as a value?
        return None
    end = -1 if found is None else others.index(found)
    return LearnedStep(literals, primal, places.index(out), [before[a] for a in read], tangent, end)


def _over(equations: Sequence[Any], places: list, index: tuple | None) -> _Steps | None:
    """Equations over places, to which the results are added; `index`: the place in an array that the operation was given."""
    steps = []
    for primitive, inputs, params, outputs, _ in equations:
        if len(outputs) != 1 or primitive.multiple or primitive.fails or primitive.effect or not {*inputs} <= {*places}:
            return None
        if index is not None and "index" in params:
            if len(params) > 1 or params["index"] is not index:
                return None
            params = _HERE
        at = [places.index(a) for a in inputs]
        steps.append((primitive, _taking(at), params, outputs[0].aval))
        places.append(outputs[0])
    return steps


def _taking(at: list[int]) -> Callable[[list], tuple]:
    if len(at) == 1:
        (i,) = at
        return lambda values: (values[i],)
    return itemgetter(*at)
