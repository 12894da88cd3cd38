"""Equations of a whole program as code: one `Region` writes one jaxpr, in the order of its schedule.

`run` gives the values of the outputs, each with a user of its memory. `targets` says where certain variables are to be computed
(a result's memory, a row of a loop's output), which spares a copy. What has no entry in `RULES`, and no code for one element,
is Unsupported. Arrays in pieces (program_pieces.py) are read as they lie by loops over elements; other operations get a copy.
Traps: a target must not be memory that the region still reads; pieces of an array that is written later are a copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.backends.memory import handed_through, writes_elements, writes_of
from funcad.backends.native.emitter import Emitter
from funcad.backends.native.lane_types import Lane
from funcad.backends.native.program_build import MAX_LINES, Build, too_long
from funcad.backends.native.program_pieces import fitting, index_of, regular, rolled
from funcad.backends.native.program_schedule import COMPLEX_PARTS, ScheduleStep, is_elementwise, schedule
from funcad.backends.native.program_values import Pieces, View, part, reshaped
from funcad.backends.plans.element_plan import Unsupported, operand_dtypes
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, params_key
from funcad.ir.primitive import may_share
from funcad.primitives.loop import loop_p
from funcad.tree.same import same_key

_AIMED = {"concatenate", "basic_update", "basic_add"}  # may be computed in a part of a target, besides elementwise ones
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
        self.written_there: set[Var] = set()  # results with elements written, whose array was computed in their place
        plan = writes_of(jaxpr.inputs, jaxpr.equations, jaxpr.outputs, None) if writes_elements(jaxpr.equations) else None
        self.copied = plan.copied if plan is not None else frozenset()
        self.fixed: frozenset[Var] = frozenset()  # pieces that are made of memory that is written later
        if plan is not None:
            self.fixed = _looking_into_written(jaxpr)
        if self.targets:
            self._aim(plan.over if plan is not None else frozenset())
        for v, value in zip(jaxpr.inputs, values, strict=True):
            if type(value) is View and not value.shape:
                value = build.lane(value)  # read once, here: this place comes before every use
            self.env[v] = build.hold(value)

    def _aim(self, over: frozenset[int]) -> None:
        """What is reshaped, joined, rolled or has elements written, with its result in a target, is computed there."""
        makers = {e.outputs[0]: e for e in self.jaxpr.equations if len(e.outputs) == 1}
        looped = {e.outputs[i] for e in self.jaxpr.equations if e.primitive is loop_p for i in handed_through(e)}

        def offer(a: Any, place: Any) -> None:
            maker, in_pieces = makers.get(a), type(place) is Pieces
            if a in looped and not in_pieces:
                self.targets.setdefault(a, place)
            if maker is None or not a.aval.shape or not a.aval.size:
                return
            if is_elementwise(maker) and (not in_pieces or regular(place)):
                self.targets.setdefault(a, place)
            elif maker.primitive.name in _AIMED and not in_pieces or maker.primitive.name == "roll":
                self.targets.setdefault(a, place)

        for i in range(len(self.jaxpr.equations) - 1, -1, -1):
            equation = self.jaxpr.equations[i]
            target: Any = self.targets.get(equation.outputs[0]) if len(equation.outputs) == 1 else None
            name, x = equation.primitive.name, equation.inputs[0] if equation.inputs else None
            if target is None:
                continue
            if name == "reshape" and type(target) is View and target.contiguous and type(x) is Var:
                if x.aval.shape and x not in self.jaxpr.inputs:
                    self.targets.setdefault(x, reshaped(target, x.aval.shape))
            elif name == "roll":
                offer(x, rolled(target, -equation.params["shift"], equation.params["axis"]))
            elif name == "concatenate":
                start, axis = 0, equation.params["axis"]
                for a in equation.inputs:
                    n = a.aval.shape[axis]
                    box = [(start, start + n) if k == axis else (0, m) for k, m in enumerate(a.aval.shape)]
                    offer(a, part(target, index_of(tuple(box))))
                    start += n
            elif i in over and equation.primitive.over is not None and type(target) is View:
                offer(x, target)
                if self.targets.get(x) is target:
                    self.written_there.add(equation.outputs[0])

    def hand_back(self) -> None:
        """What a loop goes on to write in a target is computed there, if nobody else reads it; nobody reads targets yet."""
        uses = Counter([a for e in self.jaxpr.equations for a in e.inputs if type(a) is Var])
        uses.update([o for o in (*self.jaxpr.inputs, *self.jaxpr.outputs) if type(o) is Var])
        for equation in reversed(self.jaxpr.equations):
            if equation.primitive is loop_p:
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

    def target(self, v: Var) -> Any:
        """Where the elements of a variable are to be computed: a view, or pieces of a target."""
        found = self.targets.get(v)
        return self.build.new(v.aval.dtype, v.aval.shape) if found is None else self.build.hold(found)

    def writable(self, equation: Equation, value: Any, place: int = 0) -> bool:
        """May this operand's memory be written? Nobody else lies in it, and nobody reads it after this equation."""
        x = equation.inputs[place]
        if type(value) is not View or not value.buffers or not value.contiguous:
            return False
        last = x in self.dying and equation.inputs.count(x) == 1
        return last and all([buffer.users == 1 for buffer in value.buffers])

    def settle(self, a: Any) -> None:
        """An operand in pieces becomes an array in one place."""
        value = self.env.get(a) if type(a) is Var else None
        if type(value) is Pieces:
            self.env[a] = self.build.in_order(value)
            self.build.drop(value)

    def in_pieces(self, equation: Equation, value: Any) -> list[Any]:
        """The result of an operation that moves elements: as it lies if that can be read so, else in one place."""
        (v,) = equation.outputs
        short = len(self.build.f.lines) < MAX_LINES // 4  # a long program is better native with copies than not at all
        if v not in self.targets and v not in self.fixed and (type(value) is not Pieces or short and regular(value)):
            return [self.build.hold(value)]
        place = self.target(v)
        self.build.copy(value, place)
        return [place]

    # -- elementwise
    def _group(self, step: ScheduleStep) -> None:
        build = self.build
        ins = [v for v in dict.fromkeys(a for e in step.equations for a in e.inputs if type(a) is Var) if v in step.reads]
        outs = [v for e in step.equations for v in e.outputs if v not in step.dead]
        places = [self.target(v) for v in outs]
        shape = step.shape or ()
        while not fitting(shape, [*[self.env[v] for v in ins], *places]):  # the most cut one is put in one place
            cut = [v for v in ins if type(self.env[v]) is Pieces]
            if cut:
                self.settle(max(cut, key=lambda v: len(self.env[v].cells)))
            else:
                places = [build.new(x.dtype, x.shape) if type(x) is Pieces else x for x in places]

        def body(e: Emitter, lanes: list[Lane]) -> list[Lane]:
            own = dict(zip(ins, lanes))
            for equation in step.equations:
                own[equation.outputs[0]] = element(e, equation, own)
            return [own[v] for v in outs]

        key = build.sharing and _key_of(step.equations, ins, outs)
        build.nest(shape, [self.env[v] for v in ins], places, body, key=key)
        self.env.update(zip(outs, places))
        for v in (v for e in step.equations for v in e.outputs if v not in self.env):
            self.env[v] = None  # it lived in registers only

    def _one(self, equation: Equation) -> None:
        name = equation.primitive.name
        rule = RULES.get(name if equation.primitive.reduction is None else "reduction")
        if name not in IN_PIECES:
            for a in equation.inputs:
                self.settle(a)
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
            outs = [self.build.in_order(view, self.targets.get(equation.outputs[0]))]
            self.build.drop(view)
        self.env.update(zip(equation.outputs, outs, strict=True))


def _key_of(equations: Sequence[Equation], ins: Sequence[Var], outs: Sequence[Var]) -> Any:
    """Equal for groups that compute the same of each element; None if that cannot be said quickly."""
    numbers, rows = {v: i for i, v in enumerate(ins)}, []
    for e in equations:
        key = params_key(e.params) if e.params else ()
        if key is None:
            return None
        operands = [(same_key(a.value), a.aval.dtype, a.aval.weak) if type(a) is Literal else numbers[a] for a in e.inputs]
        rows.append((e.primitive, key, e.outputs[0].aval.dtype, *operands))
        numbers[e.outputs[0]] = len(numbers)
    return (*rows, *[numbers[v] for v in outs])


def _looking_into_written(jaxpr: Jaxpr) -> frozenset[Var]:
    """The results of moves that lie, or whose operands may lie, in memory of which elements are written in this program."""
    own: dict[Any, set[Any]] = {}  # whose memory a view looks into; a move that is written has memory of its own
    all_of: dict[Any, set[Any]] = {}  # whose memory a view or a move may look into
    written: set[Any] = set()
    for equation in jaxpr.equations:
        primitive, atoms = equation.primitive, [a for a in equation.inputs if type(a) is Var]
        pairs = [(0, 0)] if primitive.over is not None else handed_through(equation).items() if primitive.multiple else ()
        for k, j in pairs:
            written |= {*own.get(equation.inputs[j], {equation.inputs[j]}), equation.outputs[k]}
        moves = primitive.name in MOVES
        if not pairs and len(equation.outputs) == 1 and not primitive.multiple and (moves or may_share(equation)):
            (v,) = equation.outputs
            own[v] = {v} if moves else set().union(*[own.get(a, {a}) for a in atoms])
            all_of[v] = {v}.union(*[all_of.get(a, {a}) for a in atoms])
    return frozenset([v for v, sources in all_of.items() if sources & written])


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
IN_PIECES: set[str] = set()  # the operations whose code takes operands in pieces
MOVES: set[str] = set()  # those whose results may be pieces of their operands


def rule(*names: str, views: bool = False, moves: bool = False) -> Callable[[Any], Any]:
    """Register the code of operations that are not elementwise; program_rules.py and loops.py do.

    `views`: it hands on operands in pieces as they lie; `moves`: it makes pieces of its operands.
    """

    def add(f: Any) -> Any:
        for name in names:
            RULES[name] = f
        IN_PIECES.update(names if views or moves else ())
        MOVES.update(names if moves else ())
        return f

    return add
