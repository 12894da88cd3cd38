"""Equations of a whole program as code: one `Region` writes one jaxpr, in the order of its schedule.

`run` gives the values of the outputs, each with a user of its memory. `targets` says where certain variables are to be computed
(a result's memory, a row of a loop's output), which spares a copy. What has no entry in `RULES`, and no code for one element,
is Unsupported. Trap: a target must not be memory that the region still reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.backends.memory import handed_through, writes_elements, writes_of
from funcad.backends.native.emitter import Emitter, Lane, operand_dtypes
from funcad.backends.native.program_build import MAX_LINES, Build, too_long
from funcad.backends.native.program_schedule import COMPLEX_PARTS, Step, is_elementwise, schedule
from funcad.backends.native.program_values import View, reshaped
from funcad.backends.native.unsupported import Unsupported
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.primitives.loop import LOOPS

__all__ = ["Region", "RULES", "rule", "element"]

_CHECKED = {"add": "sadd", "sub": "ssub", "mul": "smul"}  # of Python integers
_EXACT = {"convert", "stop_gradient", "select", "real", "imag", "maximum", "minimum", "and", "or", "xor", "not"}
_MAY_RAISE = {"div", "pow", "mod", "floor_divide", "fmod", "integer_pow", "reciprocal"}  # of Python floats: NumPy gives inf


class Region:
    """One jaxpr under construction; `values` are its inputs."""

    def __init__(self, build: Build, jaxpr: Jaxpr, values: Sequence[Any], targets: dict[Var, View] | None = None):
        self.build = build
        self.jaxpr = jaxpr
        self.env: dict[Var, Any] = {}
        self.targets = dict(targets or {})
        self.dying: Sequence[Var] = ()  # with the equation that is being written
        writes = writes_elements(jaxpr.equations)
        self.copied = writes_of(jaxpr.inputs, jaxpr.equations, jaxpr.outputs, None).copied if writes else frozenset()
        for equation in reversed(jaxpr.equations):  # what is reshaped into a target is computed there
            target = self.targets.get(equation.outputs[0]) if len(equation.outputs) == 1 else None
            if target is not None and equation.primitive.name == "reshape" and target.contiguous:
                shape = equation.inputs[0].aval.shape
                if shape and equation.inputs[0] not in jaxpr.inputs:
                    self.targets.setdefault(equation.inputs[0], reshaped(target, shape))
        for v, value in zip(jaxpr.inputs, values, strict=True):
            if type(value) is View and not value.shape:
                value = build.lane(value)  # read once, here: this place comes before every use
            self.env[v] = build.hold(value)

    def hand_back(self) -> None:
        """What a loop goes on to write in a target is computed there, if nobody else reads it; nobody reads targets yet."""
        uses = Counter([a for e in self.jaxpr.equations for a in e.inputs if type(a) is Var])
        uses.update([o for o in (*self.jaxpr.inputs, *self.jaxpr.outputs) if type(o) is Var])
        for equation in reversed(self.jaxpr.equations):
            if equation.primitive.name in LOOPS:
                for i, j in handed_through(equation).items():
                    v, x = equation.outputs[i], equation.inputs[j]
                    if v in self.targets and type(x) is Var and uses[x] == 1 and x.aval == v.aval and x not in self.targets:
                        self.targets[x] = self.targets[v]

    def run(self) -> list[Any]:
        build = self.build
        for step in schedule(self.jaxpr):
            self.dying = step.dead
            if step.shape is None:
                self._one(step.equations[0])
            else:
                self._group(step)
            for v in step.dead:
                build.drop(self.env.pop(v))
            if len(build.f.lines) > MAX_LINES:
                raise too_long()
        outputs = [build.hold(self.read(o)) for o in self.jaxpr.outputs]
        for value in self.env.values():
            build.drop(value)
        return outputs

    def read(self, atom: Any) -> Any:
        """The value of an operand; literals in their own dtype."""
        if type(atom) is Literal:
            return self.build.one.literal(atom.value, atom.aval.dtype)
        return self.env[atom]

    def target(self, v: Var) -> View:
        """Where the elements of a variable are to be computed."""
        found = self.targets.get(v)
        return self.build.new(v.aval.dtype, v.aval.shape) if found is None else self.build.hold(found)

    def writable(self, equation: Equation, value: Any, place: int = 0) -> bool:
        """May this operand's memory be written? Nobody else lies in it, and nobody reads it after this equation."""
        x = equation.inputs[place]
        if type(value) is not View or not value.buffers or not value.contiguous:
            return False
        last = x in self.dying and equation.inputs.count(x) == 1
        return last and all([buffer.users == 1 for buffer in value.buffers])

    # -- elementwise
    def _group(self, step: Step) -> None:
        build = self.build
        ins = [v for v in dict.fromkeys(a for e in step.equations for a in e.inputs if type(a) is Var) if v in step.reads]
        outs = [v for e in step.equations for v in e.outputs if v not in step.dead]
        places = [self.target(v) for v in outs]

        def body(e: Emitter, lanes: list[Lane]) -> list[Lane]:
            own = dict(zip(ins, lanes))
            for equation in step.equations:
                own[equation.outputs[0]] = element(e, equation, own)
            return [own[v] for v in outs]

        build.nest(step.shape or (), [self.env[v] for v in ins], places, body)
        self.env.update(zip(outs, places))
        for v in (v for e in step.equations for v in e.outputs if v not in self.env):
            self.env[v] = None  # it lived in registers only

    def _one(self, equation: Equation) -> None:
        name = equation.primitive.name
        rule = RULES.get(name if equation.primitive.reduction is None else "reduction")
        if rule is not None:
            outs = rule(self, equation, [self.read(a) for a in equation.inputs], **equation.params)
        elif is_elementwise(equation):
            own = {a: self.env[a] for a in equation.inputs if type(a) is Var}
            weak = equation.outputs[0].aval.weak
            outs = [python_number(self.build, equation, own) if weak else element(self.build.one, equation, own)]
        else:
            raise Unsupported(f"{name} has no native code")
        if self.copied and equation.outputs[0] in self.copied and type(outs[0]) is View:
            view = outs[0]
            outs = [self.build.in_order(view)]
            self.build.drop(view)
        self.env.update(zip(equation.outputs, outs, strict=True))


def python_number(build: Build, equation: Equation, own: dict[Any, Lane]) -> Lane:
    """Arithmetic of Python numbers, where it differs from NumPy's: integers have no bounds, some infinities of floats raise.

    In either case the program leaves, and the reference computes what Python does.
    """
    name, kind, f = equation.primitive.name, equation.outputs[0].aval.dtype.kind, build.f
    if kind == "i" and name in _CHECKED:
        x, y = [build.one.convert(v, np.int64).name for v in _operands(build.one, equation, own)]
        both = f.intrinsic(f"llvm.{_CHECKED[name]}.with.overflow.i64", "{i64, i1}", ("i64", x), ("i64", y))
        build.leave_if(f.put(f"extractvalue {{i64, i1}} {both}, 1"), 1)
        return Lane(np.dtype(np.int64), (f.put(f"extractvalue {{i64, i1}} {both}, 0"),))
    if kind in "iuc" and name not in _EXACT:
        raise Unsupported(f"{name} of Python {'complex numbers' if kind == 'c' else 'integers'} is left to Python")
    lane = element(build.one, equation, own)
    if kind == "f" and name in _MAY_RAISE:
        build.leave_if(f.put(f"xor i1 {build.one.isfinite(lane).name}, true"), 1)
    return lane


def _operands(e: Emitter, equation: Equation, own: dict[Any, Lane]) -> list[Lane]:
    """The lanes of an equation's operands; literals in the dtype in which it computes."""
    dtypes = operand_dtypes(equation)
    return [e.literal(a.value, d) if type(a) is Literal else own[a] for a, d in zip(equation.inputs, dtypes)]


def element(e: Emitter, equation: Equation, own: dict[Any, Lane]) -> Lane:
    """The code of one elementwise equation."""
    lanes = _operands(e, equation, own)
    name = equation.primitive.name
    if name not in COMPLEX_PARTS or equation.primitive.emit is not None:
        return e.apply(equation, lanes)
    dtype = equation.outputs[0].aval.dtype
    if name == "make_complex":
        re, im = [e.convert(x, e.part(dtype)) for x in lanes]
        return Lane(dtype, (re.name, im.name))
    (x,) = lanes
    if x.dtype.kind != "c":
        return e.literal(0, dtype) if name == "imag" else x
    if name == "conj":
        return Lane(dtype, (x.parts[0], e.neg(Lane(e.part(dtype), x.parts[1:])).name))
    return Lane(dtype, (x.parts[name == "imag"],))


# (region, equation, values, **params) -> values of the results, each with a user of its memory
RULES: dict[str, Callable[..., list[Any]]] = {}


def rule(*names: str) -> Callable[[Any], Any]:
    """Register the code of operations that are not elementwise; program_rules.py and loops.py do."""

    def add(f: Any) -> Any:
        for name in names:
            RULES[name] = f
        return f

    return add
