"""The reference backend: a program as a list of calls over numbered slots.

Idea: everything that can be decided once per program is (slots, literals, last uses); a run is a loop of `impl` calls with no
tracer in sight. Invariants: jitted programs never warn; a slot is cleared after its last use; with a device array among its
arguments a program runs on the device as a whole: NumPy arrays, which only capturing can have brought in, are moved at the
entry. In a program that moves arrays itself (`device_put`) each operation runs where its operands are. A donated slot may be
written once its value is dead: only then is `out=` used, and only where the result has the operand's shape and dtype. An array
that the program made itself and that dies at a write of some of its elements is written in place.
"""

from __future__ import annotations

import functools
import importlib
from _thread import RLock
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from funcad.backends.memory import carries_of, writes_elements, writes_of
from funcad.host.devices import namespace_of, on_device, on_numpy, resident, restore_warnings, suppress_warnings
from funcad.host.locks import held_over_forks
from funcad.host.progress import many_objects
from funcad.host.real_types import impl_of, is_a
from funcad.host.where import GENERATED, note_source, state
from funcad.ir.aval import Aval, LiteralAval, aval_of
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.memo import compared_by
from funcad.primitives.conversion import convert_p
from funcad.primitives.shape import broadcast_in_dim

# -- A program as one Python function: straight-line code, a line per equation, nothing looked up while it runs
#
# Idea: the loop over steps of `Program` costs more than many a NumPy call on small arrays. Written out, a step is one line, `v7
# = c3(v1, v2)`, whose callees and literals are globals of the function. Invariants: the same calls in the same order as the
# loop's; a value is dropped after its last use; an error is traced to its equation by the line that raised it. Trap: compiling
# text costs some ten microseconds a line, so only programs that run again are written out.


FIRST_STEP = 4  # the line of the first equation


def straight_line(calls: Sequence[tuple], n_inputs: int, template: Sequence[Any], outputs: Sequence[int]) -> Callable[..., Any]:
    """`run(values) -> outputs`, which empties the list of values; arguments as `Program` holds them."""
    scope: dict[str, Any] = {}
    written = set(range(n_inputs))

    def read(slot: int) -> str:
        if slot in written:
            return f"v{slot}"
        scope[f"k{slot}"] = template[slot]  # a literal
        return f"k{slot}"

    inputs = ", ".join([f"v{i}" for i in range(n_inputs)])
    lines = ["def run(values):", f"    [{inputs}] = values", "    values.clear()"]
    for i, (_, call, ins, out, multiple, dead) in enumerate(calls):
        scope[f"c{i}"] = call
        arguments = ", ".join([read(j) for j in ins])
        slots = out if multiple else (out,)
        written.update(slots)
        targets = ", ".join([f"v{j}" for j in slots])
        line = f"    [{targets}] = c{i}({arguments})" if multiple else f"    {targets} = c{i}({arguments})"
        lines.append(line + "".join([f"; v{j} = None" for j in dead]))
    lines.append(f"    return [{', '.join([read(j) for j in outputs])}]")
    exec(compile("\n".join(lines), GENERATED, "exec"), scope)
    function: Callable[..., Any] = scope["run"]
    return function


def step_of(error: BaseException, function: Any) -> int | None:
    """The index of the equation in which a straight-line function raised."""
    entry = error.__traceback__
    while entry is not None:
        if entry.tb_frame.f_code is function.__code__:
            index = entry.tb_lineno - FIRST_STEP
            return index if index >= 0 else None
        entry = entry.tb_next
    return None


# -- the reference backend


compiling = RLock()  # one program at a time, on every engine: threads that start together compile once
held_over_forks(compiling)
counters = {"programs": 0, "traces": 0}  # how often a program was compiled, a function traced: read by the tests


WARM = 3  # the run for which a program is written out as straight-line Python
MANY = 10  # runs in one loop, from which on it is at once
LONG = 1000  # equations, beyond which it is not


class Program:
    """A jaxpr made ready to run."""

    __slots__ = ("jaxpr", "owned", "n_inputs", "runs", "turns", "function", "moving", "_prepared")

    def __init__(self, jaxpr: Jaxpr, owned: frozenset[Var] = frozenset()):
        """`owned`: inputs that each run may write over."""
        counters["programs"] += 1
        self.jaxpr = jaxpr
        self.owned = owned
        self.n_inputs = len(jaxpr.inputs)
        self.runs = 0
        self.turns = 0  # un-jitted runs
        self.moving = "cuda" in jaxpr.moves  # may leave the host whatever it is given: no engine knows where its arrays are
        self.function: Any = None  # the same as straight-line Python, once the program has run a few times
        self._prepared: tuple[list[Any], list[Any], tuple[int, ...]] | None = None

    @property
    def steps(self) -> tuple[list[Any], list[Any], tuple[int, ...]]:
        """(calls, slots with the literals, slots of the outputs), made when asked for: what is compiled at once needs none.

        A call is (equation, the call on NumPy, input slots, output slot or slots, several?, slots that die).
        """
        found = self._prepared
        if found is None:
            with many_objects():
                found = self._prepared = self._prepare()
        return found

    def _prepare(self) -> tuple[list[Any], list[Any], tuple[int, ...]]:
        jaxpr = self.jaxpr
        slots: dict[Var, int] = {v: i for i, v in enumerate(jaxpr.inputs)}
        template: list[Any] = [None] * self.n_inputs

        def slot(atom: Any) -> int:
            if type(atom) is Literal:
                template.append(atom.value)
                return len(template) - 1
            at = slots.get(atom)
            if at is None:
                at = slots[atom] = len(template)
                template.append(None)
            return at

        calls: list[Any] = []
        writes = None
        if writes_elements(jaxpr.equations):
            writes = writes_of(jaxpr.inputs, jaxpr.equations, jaxpr.outputs, self.owned, inside=False)
        for i, (equation, dead) in enumerate(zip(jaxpr.equations, jaxpr.last_uses)):
            ins = tuple([slot(a) for a in equation.inputs])
            outs = tuple([slot(v) for v in equation.outputs])
            multiple = equation.primitive.multiple
            gone = tuple([slots[v] for v in dead])
            if writes is not None and i in writes.over:
                call = over_on(np, equation)
            else:
                call = on(np, equation)
            if writes is not None and not multiple and equation.outputs[0] in writes.copied:
                call = _Copied(call)
            calls.append((equation, call, ins, outs if multiple else outs[0], multiple, gone))
        return calls, template, tuple([slot(o) for o in jaxpr.outputs])

    def run(self, args: Sequence[Any], donated: frozenset[int] = frozenset()) -> list[Any]:
        """The outputs; `donated` holds the ids of argument buffers that results may be written into."""
        if not (donated or state.checked or on_device(args) or self.moving):
            values = list(args)
            del args
            return self.consume(values)
        xp: Any = namespace_of(args)
        moving = self.moving or xp is not np and bool(self.jaxpr.moves)
        values = list(args) if xp is np or moving else [moved(xp, a) for a in args]
        lent = [v for v, a in zip(values, args) if v is not a]
        del args
        donated = donated if xp is np else frozenset()
        viewed = self._viewed() if donated else set()

        def execute(equation: Any, call: Any, ins: tuple, dead: tuple, operands: list) -> Any:
            primitive, params = equation.primitive, equation.params
            if donated and primitive.inplace is not None and not params:
                return _in_place(primitive, operands, ins, set(dead) - viewed, equation, donated)
            here = namespace_of(operands) if moving else xp
            if here is np and not state.checked:
                return call(*operands)
            return _call_anywhere(here, primitive, operands, params)

        outputs = self._step_by_step(values, execute)
        return outputs if xp is np or moving else apart(xp, [moved(xp, x) for x in outputs], lent)

    def _viewed(self) -> set[int]:
        """What operations read that may give views, and what they give, which may be what they read: never written into."""
        others = [call for call in self.steps[0] if call[0].params or call[0].primitive.inplace is None]
        return {i for _, _, ins, outs, multiple, _ in others for i in (*ins, *(outs if multiple else (outs,)))}

    def consume(self, values: list[Any]) -> list[Any]:
        """The outputs; the list of inputs is emptied, so that each dies after its last use."""
        function = self.function
        if function is None:
            if self.moving:
                return self.run(values)
            self.runs += 1
            if self.runs < WARM or len(self.jaxpr.equations) > LONG:
                return self._step_by_step(values)
            function = self.written_out()
        token = suppress_warnings()
        try:
            return function(values)  # type: ignore[no-any-return]
        except Exception as error:
            self.note(error)
            raise
        finally:
            restore_warnings(token)

    @contextmanager
    def repeated(self, xp: Any, times: int) -> Iterator[Callable[[list[Any]], list[Any]]]:
        """`with program.repeated(xp, n) as run`: for loops, `run(values) -> outputs` with little around it.

        `xp` is where the loop's operands are; `values` is emptied.
        """
        short = self.function is None and (times < MANY or self.rents())
        if short or xp is not np or self.moving or state.checked or len(self.jaxpr.equations) > LONG:
            yield self.run
            return
        function = self.written_out()
        token = suppress_warnings()
        try:
            yield function
        except Exception as error:
            self.note(error)
            raise
        finally:
            restore_warnings(token)

    def rents(self) -> bool:
        """Is it to run equation by equation, as writing it out is not repaid yet?"""
        return False

    def where(self) -> str:
        """Where the user's program has its first line, for texts: " at model.py:12 (loss)"."""
        source = next((e.source for e in self.jaxpr.equations if e.source is not None), None)
        return f" at {source.short()}" if source is not None else ""

    def written_out(self) -> Any:
        """`function(values) -> outputs`, made at the first request; it does not silence warnings, nor note sources."""
        if self.function is None:
            calls, template, outputs = self.steps
            self.function = straight_line(calls, self.n_inputs, template, outputs)
        return self.function

    def note(self, error: Exception) -> None:
        """Name the user's line in an error that `function` raised."""
        step = step_of(error, self.function)
        if step is not None:
            note_source(error, self.steps[0][step][0].source)

    def waits(self) -> bool:
        """Is it to be compiled later? An engine's may be."""
        return False

    def _step_by_step(self, values: list[Any], execute: Callable[..., Any] | None = None) -> list[Any]:
        """The outputs, one call after the other; `execute(equation, call, ins, dead, operands)` makes the calls if given."""
        calls, template, outputs = self.steps
        slots = template.copy()
        slots[: self.n_inputs] = values
        values.clear()
        equation = None
        token = suppress_warnings()
        try:
            for step in calls:
                equation, call, ins, out, multiple, dead = step
                operands = [slots[i] for i in ins]
                result = call(*operands) if execute is None else execute(equation, call, ins, dead, operands)
                if multiple:
                    for i, r in zip(out, result):
                        slots[i] = r
                else:
                    slots[out] = result
                operands = result = r = None
                for i in dead:
                    slots[i] = None
        except Exception as error:
            note_source(error, equation and equation.source)
            raise
        finally:
            restore_warnings(token)
        return [slots[i] for i in outputs]


class _Copied:
    """A call whose result is copied."""

    __slots__ = ("call",)

    def __init__(self, call: Any):
        self.call = call

    def __call__(self, *operands: Any) -> Any:
        return np.array(self.call(*operands))


def over_on(xp: Any, equation: Any) -> Any:
    """What writes elements of its first operand, as a function that does so in that array of this library's."""
    return functools.partial(equation.primitive.over, xp, **equation.params)


def on(xp: Any, equation: Any) -> Any:
    """The operation as a function of arrays of this library's."""
    if xp is np:
        return on_numpy(equation.primitive, [a.aval for a in equation.inputs], equation.params)
    return functools.partial(equation.primitive.impl, xp, **equation.params)


def _call_anywhere(xp: Any, primitive: Any, values: list, params: dict) -> Any:
    if xp is not np:
        values = [xp.asarray(v) if type(v) is np.ndarray else v for v in values]
    if state.checked:
        return state.checked(primitive, xp, values, params)
    return impl_of(primitive, values, params)(xp, *values, **params)


def apart(xp: Any, outputs: list[Any], lent: Sequence[Any]) -> list[Any]:
    """Results on a device that share no memory with what captured arrays have lent there, for others read that, too."""
    lent = [x for x in lent if x.ndim]
    shares = lambda x: getattr(x, "size", 0) and any([xp.may_share_memory(x, y) for y in lent])
    return [x.copy() if shares(x) else x for x in outputs] if lent else outputs


def moved(xp: Any, x: Any, lent: bool = False) -> Any:
    """x on the device; scalars too, since rank-0 results are arrays there."""
    if type(x) is np.ndarray and x.ndim:
        return resident(xp, x, lent)
    return xp.asarray(x) if is_a(x, (np.ndarray, np.generic)) else x


def _in_place(primitive: Any, values: list, ins: tuple, dead: set, equation: Any, donated: frozenset[int]) -> Any:
    aval = equation.outputs[0].aval
    for value, i in zip(values, ins):
        if i in dead and type(value) is np.ndarray and id(value) in donated:
            if value.shape == aval.shape and value.dtype == aval.dtype and aval.shape:
                return primitive.inplace(*values, out=value)
    return impl_of(primitive, values, {})(np, *values)


compared_by[Program] = lambda program: program.jaxpr


def program_of(jaxpr: Jaxpr) -> Program:
    """The compiled program, memoised on the jaxpr; threads that start together compile it once."""
    program = jaxpr.memo.get("program")
    if program is None:
        with compiling:
            program = jaxpr.memo.get("program")
            if program is None:
                program = jaxpr.memo.setdefault("program", Program(between_processes(jaxpr)))
    return program


def between_processes(jaxpr: Jaxpr) -> Jaxpr:
    """The program as it is sent: on every engine, from the first run on."""
    if not jaxpr.has_effects:
        return jaxpr
    found: Jaxpr = importlib.import_module("funcad.passes.together").together(jaxpr)
    return found


def program_of_turns(loop: Any, carry: list[Any]) -> Program | None:
    """A program for the body of a loop that writes carries in place, if it can; the first of these are replaced by copies."""
    places = [i for i, kind in enumerate(carries_of(loop)) if kind == "place"]
    if not places or not all([type(carry[i]) is np.ndarray for i in places]):
        return None
    body, key = between_processes(loop.body), ("turns", loop.n_consts)
    program: Program | None = body.memo.get(key)
    if program is None:
        with compiling:
            program = body.memo.setdefault(key, Program(body, frozenset([body.inputs[loop.n_consts + i] for i in places])))
    for i in places:
        carry[i] = np.array(carry[i], order="C")
    return program


def strong(value: Any, aval: Any) -> Any:
    """A Python scalar as the NumPy scalar that its aval promises."""
    return value if aval.weak or type(value) not in (int, float, complex, bool) else aval_of(value).dtype.type(value)


def broadcast_scalars(jaxpr: Jaxpr) -> Jaxpr:
    """The program with the scalars among its inputs converted and broadcast to what they stand beside."""
    new = {v: Var(Aval((), v.aval.dtype, v.aval.weak)) for v in jaxpr.inputs if type(v.aval) is LiteralAval}
    if not new:
        return jaxpr
    equations: list[Equation] = []  # of these inputs, and those of the program

    def record(primitive: Any, x: Any, aval: Aval, **params: Any) -> Any:
        output = Var(aval)
        equations.append(Equation(primitive, (x,), params, (output,)))
        return output

    def beside(x: Any, others: list[Any]) -> Any:
        """The scalar x in the shape of the others, and in their dtype."""
        shape = next((a.shape for a in others if a.shape), ())
        dtype = next((a.dtype for a in others if not a.weak and a.dtype.kind != "b"), x.aval.dtype)
        if shape and (x.aval.weak or x.aval.dtype != dtype):
            x = record(convert_p, x, Aval((), dtype), dtype=dtype)
        return record(broadcast_in_dim, x, Aval(shape, dtype), shape=shape, axes=()) if shape else x

    for equation in jaxpr.equations:
        if equation.primitive.emit is not None and any([a in new for a in equation.inputs if type(a) is Var]):
            others = [a.aval for a in equation.inputs if type(a) is not Literal and a not in new]
            inputs = [beside(new[a], others) if type(a) is Var and a in new else a for a in equation.inputs]
        else:
            inputs = [new.get(a, a) if type(a) is Var else a for a in equation.inputs]
        equations.append(equation._replace(inputs=tuple(inputs)))
    outputs = tuple([new.get(o, o) if type(o) is Var else o for o in jaxpr.outputs])
    return Jaxpr(tuple([new.get(v, v) for v in jaxpr.inputs]), tuple(equations), outputs)
