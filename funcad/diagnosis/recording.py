"""What the doctor writes down: every operation of one run, with its values and with a variable for each cotangent.

Idea: `ReportingTrace` is the trace that `grad` follows with, so the derivative is grad's own, structural zeros included. Around
each operation it (1) notes operands, results, line and turn of the loop; (2) adds to the tangent of every operand a variable of
its own, whose cotangent the backward pass then gives: the cotangent of that *use*. Bodies of jit, scan, while_loop, cond and
checkpoint are interpreted equation by equation on the values of the run, so loops are seen turn by turn.

Invariants: the function runs once, and so do its effects; what has no derivative is handed back plain, exactly as `grad` does,
hence nothing is followed beyond a cut. Traps: everything is kept until the report is written; values from outside are copied,
since the user may write into them later.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.interpreter import strong
from funcad.host.real_types import is_a
from funcad.host.where import Source, is_internal, setting, state, tracing, user_source
from funcad.ir.aval import AnyAval, Aval, StackAval, aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, subjaxprs
from funcad.ir.tracer import Tracer, tangent_of
from funcad.passes.subprograms import kind_of
from funcad.primitives.arithmetic import add
from funcad.primitives.loop import Loop, in_turns
from funcad.transforms.partial import TangentTrace
from funcad.unjitted.backward import transposed
from funcad.unjitted.linearizing import LinearizingTrace
from funcad.unjitted.outside import Protector


class Use(NamedTuple):
    """An operand: its value then, the number of that value in the run (-1: from outside), the variable of its cotangent."""

    value: Any
    node: int
    variable: Var | None


class RecordedOperation(NamedTuple):
    """One operation of the run. `results` are values; `nodes` their numbers, -1 where the result carries no derivative."""

    primitive: Any
    params: dict[str, Any]
    uses: list[Use]
    results: list[Any]
    nodes: list[int]
    reached: list[frozenset[int]]  # for each result, the positions of the operands whose tangents it depends on
    slopes: list[Any]  # what its derivative rule computed from values and keeps for the backward pass
    source: Source | None
    inside: tuple[str, ...]
    call: int  # operations that one call of the user's made, as `np.interp(...)`, have the same number


class Read(NamedTuple):
    """Python asked for a value that carries a derivative: `bool()`, `int()`, `an index`."""

    node: int
    how: str
    source: Source | None
    inside: tuple[str, ...]


class Recording:
    """One run: its operations in order, what Python read, and the values of leaves and results by number."""

    def __init__(self) -> None:
        self.entries: list[RecordedOperation] = []
        self.reads: list[Read] = []
        self.maker: dict[int, tuple[int, int]] = {}  # number of a value -> its operation, and which result of it
        self.users: dict[int, list[tuple[int, int]]] = {}  # number of a value -> operations that use it, and as what operand
        self.values: dict[int, Any] = {}  # of the leaves, by number
        self.leaves: list[int] = []  # numbers of the differentiated leaves; -1 for the others
        self.outputs: list[tuple[Any, int]] = []  # (value, number or -1) of each leaf of the result
        self.cotangents: dict[Var, Any] = {}
        self.gradients: list[Any] = []  # of the leaves; None: symbolically zero
        self.seeds: dict[int, Any] = {}  # number of a value that is a result -> the cotangent that it starts with

    def cotangent(self, use: Use) -> Any:
        return None if use.variable is None else self.cotangents.get(use.variable)


class ReportingTrace(LinearizingTrace):
    """Follows as `grad` does, and writes down each operation."""

    __slots__ = ("run", "numbers", "tangents", "held", "inside", "copies", "calls", "place")

    def __init__(self, run: Recording, protector: Protector):
        super().__init__("doctor")
        self.protector = protector
        self.run = run
        self.numbers: dict[int, int] = {}  # id of a tracer -> number of its value
        self.tangents: dict[Var, int] = {}  # the variable of its tangent -> the same
        self.held: list[Tracer] = []  # so that no id is used twice
        self.inside: tuple[str, ...] = ()
        self.calls = 0
        self.place: Any = None  # of the last operation: the frame that the user called, or where it was written
        self.copies: dict[int, tuple[Any, Any]] = {}

    def number(self, tracer: Tracer) -> int:
        """The number of a value; tracers of one tangent are one value (a scalar that was made strong, say)."""
        found = self.numbers.get(id(tracer))
        if found is None:
            tangent = tangent_of(tracer)
            variable = tangent.atom if type(tangent) is Tracer else None
            found = self.tangents.get(variable, len(self.held)) if variable is not None else len(self.held)
            self.numbers[id(tracer)] = found
            if variable is not None:
                self.tangents.setdefault(variable, found)
            self.held.append(tracer)
        return found

    def reads(self, tracer: Tracer, how: str) -> None:
        if tangent_of(tracer) is not None and not self.closed:
            self.run.reads.append(Read(self.number(tracer), how, state.source or user_source(), self.inside))

    def record(self, primitive: Any, args: Sequence[Any], params: dict[str, Any], shape: tuple | None = None) -> Any:
        if self.closed:
            return super().record(primitive, args, params, shape)
        walk = self._walk(primitive, args, params)
        if walk is not None:
            return walk()
        recording = self.open_recording()
        source = state.source or user_source()
        marked, uses = self._marked(args, recording, source)
        start, known = len(recording.equations), len(recording.captured)
        out = super().record(primitive, marked, params, shape)
        results = list(out) if primitive.multiple else [out]
        slopes = [value for _, value in list(recording.captured.values())[known:]]
        number, call = len(self.run.entries), self._call()
        nodes, values = [], []
        for i, r in enumerate(results):
            traced = type(r) is Tracer and r.owner is self
            nodes.append(self.number(r) if traced else -1)
            values.append(r.primal if traced else self._kept(r))
            if traced:
                self.run.maker[nodes[-1]] = (number, i)
        for i, use in enumerate(uses):
            if use.node >= 0:
                self.run.users.setdefault(use.node, []).append((number, i))
        reached = _reached(recording.equations[start:], marked, results, self)
        self.run.entries.append(
            RecordedOperation(primitive, params, uses, values, nodes, reached, slopes, source, self.inside, call)
        )
        return out

    def _call(self) -> int:
        """The number of the user's call that this operation belongs to."""
        place: Any = state.source
        if place is None:
            frame: Any = sys._getframe(2)
            while frame is not None and is_internal(frame.f_code.co_filename):
                place, frame = frame, frame.f_back
            same = place is self.place
        else:
            same = place == self.place
        self.calls += not same
        self.place = place
        return self.calls

    def _marked(self, args: Sequence[Any], recording: TangentTrace, source: Any) -> tuple[list[Any], list[Use]]:
        """The operands with a variable added to each tangent."""
        marked: list[Any] = []
        uses: list[Use] = []
        seen: dict[int, tuple[Tracer, Var]] = {}  # rules look whether two operands are one: `x * x`
        for a in args:
            t = tangent_of(a) if type(a) is Tracer and a.owner is self else None
            if type(t) is not Tracer:
                own = type(a) is Tracer and a.owner is self
                marked.append(a)
                uses.append(Use(a.primal if own else self._kept(a), self.number(a) if own else -1, None))
                continue
            if id(a) not in seen:
                aval = t.aval if type(t.aval) is StackAval else Aval(t.aval.shape, t.aval.dtype)
                extra = recording.new_input(aval, source)
                tangent = recording.append(add, (recording.atom(t), extra.atom), {}, aval, source)
                seen[id(a)] = Tracer(self, None, a.primal, tangent, a.source), extra.atom
            tracer, variable = seen[id(a)]
            marked.append(tracer)
            uses.append(Use(a.primal, self.number(a), variable))
        return marked, uses

    def _kept(self, x: Any) -> Any:
        """A value from outside, as it is now."""
        if type(x) is not np.ndarray or not x.size:
            return x
        found = self.copies.get(id(x))
        if found is None or found[1].shape != x.shape or not same_bits(found[1], x):
            found = self.copies[id(x)] = (x, x.copy())
        return found[1]

    # -- programs inside

    def _walk(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Callable[[], list[Any]] | None:
        """How to run the programs of an operation one equation after the other; None if it is an operation as any other."""
        if not primitive.multiple:
            return None
        kind = kind_of(Equation(primitive, tuple(args), params, ()))
        if kind is None or kind in ("custom", "solve"):
            return None
        plain = kind != "loop" or params["loop"].keeps  # reverse mode's own loops use stacks; they are as any other operation
        avals = [a.aval for j in subjaxprs(params) for a in (*j.inputs, *j.outputs)]
        if not plain or any([type(a) is StackAval for a in avals]):
            return None
        return lambda: getattr(self, f"_walk_{kind}")(primitive, list(args), params)

    @contextmanager
    def _in(self, label: str) -> Iterator[None]:
        saved = self.inside
        self.inside = (*saved, label)
        try:
            yield
        finally:
            self.inside = saved

    def _walk_call(self, primitive: Any, args: list[Any], params: dict[str, Any]) -> list[Any]:
        with self._in(str(params.get("name", primitive.name))):
            return eval_jaxpr(params["jaxpr"], args)

    def _walk_cond(self, primitive: Any, args: list[Any], params: dict[str, Any]) -> list[Any]:
        branches = params["branches"]
        i = min(max(int(args[0]), 0), len(branches) - 1)
        with self._in(f"{primitive.name}, branch {i}"):
            return eval_jaxpr(branches[i], args[1:])

    def _walk_loop(self, primitive: Any, args: list[Any], params: dict[str, Any]) -> list[Any]:
        loop: Loop = params["loop"]

        def run(turn: int, program: Jaxpr, values: list[Any]) -> list[Any]:
            with self._in(f"{loop.name}, turn {turn}"):
                return eval_jaxpr(program, values)

        return in_turns(loop, args, run, _stacked)


def _stacked(rows: list[Any], atom: Var | Literal) -> Any:
    """The results of a loop's turns as one array."""
    aval: Any = atom.aval
    if not rows:
        return np.empty((0, *aval.shape), aval.dtype)
    given = [x if type(x) is Tracer else np.asarray(strong(x, aval), aval.dtype) for x in rows]
    return np.stack(given)


def _reached(equations: Sequence[Equation], marked: Sequence[Any], results: Sequence[Any], trace: Any) -> list[frozenset[int]]:
    """For each result, the positions of the operands on whose tangents its tangent depends, by the equations of the rule."""
    found: dict[Any, frozenset[int]] = {}
    for i, a in enumerate(marked):
        t = tangent_of(a) if type(a) is Tracer and a.owner is trace else None
        if type(t) is Tracer:
            found[t.atom] = found.get(t.atom, frozenset()) | {i}
    for equation in equations:
        depends = frozenset().union(*[found[a] for a in equation.inputs if type(a) is Var and a in found])
        if depends:
            found.update(dict.fromkeys(equation.outputs, depends))
    reached = []
    for r in results:
        t = tangent_of(r) if type(r) is Tracer and r.owner is trace else None
        reached.append(found.get(t.atom, frozenset()) if type(t) is Tracer else frozenset())
    return reached


def array(x: Any) -> np.ndarray:
    """The value as an array; of reverse mode's stacks, which are no arrays, an empty one."""
    return np.asarray(x) if hasattr(x, "dtype") or is_a(x, (bool, int, float, complex)) else np.empty(0, object)


def same_bits(x: Any, y: Any) -> bool:
    """Equal in dtype, shape and every bit: NaN equals NaN, 0.0 is not -0.0."""
    x, y = array(x), array(y)
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def follow(run: Recording, f: Callable[..., Sequence[Any]], leaves: Sequence[Any], differentiated: Sequence[bool]) -> None:
    """Run `f(*leaves) -> list of arrays` once, and its derivative backwards once with ones as cotangents; `run` is filled."""
    protector = Protector(leaves)
    trace = ReportingTrace(run, protector)
    recording = trace.open_recording()
    source = user_source(1)
    inputs: list[Any] = []
    variables: list[Any] = []
    for x, d in zip(leaves, differentiated):
        node, variable = -1, None
        if d:
            aval = aval_of(x)
            tangent = recording.new_input(Aval(aval.shape, aval.dtype), source)
            value, x = x, Tracer(trace, None, x, tangent, source)
            node, variable = trace.number(x), tangent.atom
            run.values[node] = trace._kept(value)
        run.leaves.append(node)
        variables.append(variable)
        inputs.append(x)
    run.gradients = [None] * len(inputs)
    try:
        tangents, seeds = [], []
        trace.function, trace.outer, trace.writes_outside, trace.lends, trace.missed = f, state.running, False, None, None
        trace.users, trace.late = None, False
        with tracing.here(), setting(running=trace):
            outs = f(*inputs)
        for o in outs:
            own = type(o) is Tracer and o.owner is trace
            run.outputs.append((o.primal, trace.number(o)) if own else (o, -1))
            t = tangent_of(o) if own else None
            if type(t) is Tracer:
                aval = aval_of(o)
                run.seeds[run.outputs[-1][1]] = np.ones(aval.shape, aval.dtype)[()]
                tangents.append(t)
                seeds.append(run.seeds[run.outputs[-1][1]])
        trace.closed = True
        if tangents:
            jaxpr, residuals = recording.jaxpr(tangents)
            recording.closed = True
            names = jaxpr.inputs[len(residuals) :]
            run.cotangents = dict(zip(names, transposed(jaxpr, residuals, seeds)))
            run.gradients = [None if v is None else run.cotangents.get(v) for v in variables]
    finally:
        trace.closed = recording.closed = True
        trace.place = None
        protector.locks.release()


# -- `check_jaxpr`: the IR's specification as a program, run after every pass in the tests
#
# Checked: every variable is defined once before it is used; the outputs of an equation have the avals that its primitive's
# `abstract_eval` gives for its inputs; only literals stand at rank 0 beside shaped operands of elementwise primitives (their
# `abstract_eval` rejects variables); sub-programs too.


class JaxprError(AssertionError):
    """A program violates the IR's rules: a bug of funcad's, never of the user's."""


def _same(a: AnyAval, b: AnyAval) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Raise JaxprError at the first equation that breaks the rules."""
    defined = set()
    for v in jaxpr.inputs:
        if v in defined:
            raise JaxprError(f"input {v} appears twice in\n{jaxpr}")
        defined.add(v)
    for equation in jaxpr.equations:
        for atom in equation.inputs:
            if not isinstance(atom, Literal) and atom not in defined:
                raise JaxprError(f"{atom} is used before it is defined, in\n{equation}\nof\n{jaxpr}")
        avals = equation.primitive.abstract_eval(*[a.aval for a in equation.inputs], **equation.params)
        if not equation.primitive.multiple:
            avals = [avals]
        if len(avals) != len(equation.outputs) or not all(_same(a, o.aval) for a, o in zip(avals, equation.outputs)):
            raise JaxprError(f"{equation}\nshould give {avals}, in\n{jaxpr}")
        for v in equation.outputs:
            if v in defined:
                raise JaxprError(f"{v} is defined twice, in\n{jaxpr}")
            defined.add(v)
        for sub in subjaxprs(equation.params):
            check_jaxpr(sub)
    for atom in jaxpr.outputs:
        if not isinstance(atom, Literal) and atom not in defined:
            raise JaxprError(f"output {atom} is not defined in\n{jaxpr}")
