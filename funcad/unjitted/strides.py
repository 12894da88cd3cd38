"""Where the numbers of a traced value would lie in memory: what order="K" and order="A" ask for.

Idea: NumPy's answer is derived, never guessed. Inside jit and vmap from the equations: a primitive says how NumPy lays out its
result (host/real_types.py), down to the arguments, whose strides become a part of the program's signature once they were asked
for. Outside, a value has an array behind it; its strides are NumPy's if all operations on the way are of that kind, for the
others compute in an order of their own. They are found in the recording: the tape, or the tangent program; in forward mode,
which records nothing, the trace notes the tracers that others had a part in. None means: not known, and whoever asked raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.host.real_types import contiguous, memory_axes, of_copy, strided
from funcad.host.where import state
from funcad.ir.aval import Aval, aval_of
from funcad.ir.jaxpr import Equation, Literal, Var
from funcad.ir.trace import AbstractTrace
from funcad.ir.tracer import Tracer, concrete_value, snapshot, tangent_of
from funcad.unjitted.following import FollowingTrace
from funcad.unjitted.tape import Tape

partial_eval = OnDemand("funcad.transforms.partial")

_UNKNOWN: tuple = None, {}  # also of what was made so long ago that its equation is gone (api/lane_trace.py)
_made_like: dict[int, tuple[np.ndarray, Any]] = {}  # by id: arrays made like a value without an array, and that value


class Given:
    """The values that the inputs of a trace stand for (of `lanes`: the rows of values), and whose layout was asked for."""

    __slots__ = ("values", "lanes", "asked", "commits", "orders")

    def __init__(self, values: Sequence[Any], lanes: Sequence[bool] | None = None):
        self.values = values
        self.lanes = lanes or [False] * len(values)
        self.asked: set[int] = set()
        self.commits = False  # are writes into the inputs looked after by whoever runs the program?
        self.orders: tuple[Any, ...] = ()  # of the program's results, see `orders_of`

    def stand_behind(self, trace: AbstractTrace, inputs: Sequence[Tracer]) -> None:
        """Tell a trace what its inputs stand for."""
        trace.given = self
        for tracer, x, lane in zip(inputs, self.values, self.lanes):
            if not tracer.atom.aval.shape:
                trace.stands_for[tracer.atom] = None if lane else x  # a lane of an array is a number

    def layout(self, i: int, ask: bool) -> np.ndarray | None:
        if ask:
            self.asked.add(i)
        found = layout_of(self.values[i], ask)
        if found is None or not self.lanes[i]:
            return found
        return found[0] if len(found) else contiguous(found.shape[1:], found.dtype)


def layout_of(x: Any, ask: bool = True) -> np.ndarray | None:
    """An array with the strides that x has, or would have in plain NumPy, not to be read; None if that is not known.

    With `ask` a program that is being traced depends on the answer from now on.
    """
    if type(x) is Tracer and x.box is not None:
        base = None if x.box.base is None else layout_of(x.box.base, ask)
        if base is not None and x.box.step.shares(x.box.base):  # of a copy, the layout would be read
            return x.box.step.lies(base)
        x = x if x.box.first is None else x.box.first
    value = concrete_value(x)
    if type(value) is Tracer:
        return _derived(value, ask)
    x = snapshot(x) if type(x) is Tracer and x.owner.level and x.owner.settle is not None else x
    if not _as_numpy_has_it(x):
        return None
    if type(value) is np.ndarray:
        like = made_like(value)
        layout = value if like is None else layout_of(like, ask)
        return layout if like is None or layout is None else contiguous(value.shape, value.dtype, memory_axes([layout]))
    aval = aval_of(value)
    if not isinstance(aval, Aval):
        return None
    strides = getattr(value, "strides", None)  # of a device array
    layout = contiguous(aval.shape, aval.dtype)
    return layout if strides is None else strided(layout, aval.shape, strides)


def orders_of(outs: Sequence[Any], asked: set[int]) -> tuple[Any, ...]:
    """(i, axes from the outermost in memory to the innermost) of the results of the open trace that are to lie so.

    They are those whose layout does not depend on the strides of arguments, but of those that were asked for: what the
    function laid out itself, and what follows it. Nothing is asked for here: most programs take their arguments as they lie.
    """
    if state.running.layouts is None:  # nobody has said anything of memory
        return ()
    found = []
    for i, x in enumerate(outs):
        layout, sources = _known(x)
        if layout is not None and len([n for n in layout.shape if n > 1]) > 1 and layout.size:
            axes = memory_axes([layout])
            whole = layout.transpose(axes).flags.c_contiguous  # of a view that skips elements an engine makes what it likes
            if whole and all([place == "own" or place in asked for place in sources]):
                found.append((i, tuple(axes)))
    return tuple(found)


def _known(x: Any) -> tuple:
    """`layout_of` a result, without asking, and what it depends on."""
    if type(x) is Tracer and x.box is not None:
        base, sources = _UNKNOWN if x.box.base is None else _known(x.box.base)
        if base is not None and x.box.step.shares(x.box.base):
            return x.box.step.lies(base), sources
        x = x if x.box.first is None else x.box.first
    value: Any = concrete_value(x)
    if type(value) is Tracer:
        return _entry(value) if value.owner is state.running else _UNKNOWN
    like = made_like(value) if type(value) is np.ndarray else None
    layout, sources = _UNKNOWN if like is None else _known(like)
    return (None, {}) if layout is None else (contiguous(value.shape, value.dtype, memory_axes([layout])), sources)


def supposed_layout(x: Tracer) -> np.ndarray:
    """`layout_of`; where that is not known, x, or what it is a view of, is taken for a C-array, as nearly all arrays are."""
    layout = layout_of(x)
    if layout is not None:
        return layout
    if x.box is not None and x.box.base is not None and x.box.step.shares(x.box.base):
        return x.box.step.lies(supposed_layout(x.box.base))
    aval = aval_of(x)
    return contiguous(aval.shape, aval.dtype)


def doubt(x: Any) -> Any:
    """x, a result made of operations that lie in memory as NumPy's do, but not together: from now on nothing is known of it.

    It is no view, whatever its last operation was.
    """
    inner = x = snapshot(x) if type(x) is Tracer and x.box is not None and x.box.base is not None else x
    while type(inner) is Tracer:
        trace = inner.owner
        if inner.atom is not None:
            layouts_of(trace)[inner.atom] = None, {}
            break
        if not trace.level:  # a buffer
            inner.box.doubtful = True
            break
        trace.doubtful = (*trace.doubtful, inner.tangent) if trace.linear else {*trace.doubtful, id(inner)}
        inner = inner.primal
    return x


def lies_like(made: Any, x: Tracer) -> Any:
    """The array, which was made like x while x had no value: known as long as x is being traced."""
    value: Any = concrete_value(x)
    array: Any = concrete_value(made)
    if isinstance(value.owner, AbstractTrace):
        _made_like[id(array)] = array, value
        layouts_of(value.owner).made.append(id(array))
    return made


def made_like(array: Any) -> Any:
    """The value without an array that this one was made like, or None."""
    return _made_like.get(id(array), (None, None))[1]


def stand_in(array: np.ndarray) -> np.ndarray:
    """Of the same strides and next to no memory, for questions for the memory order alone."""
    made, like = strided(np.empty((), array.dtype), array.shape, array.strides), made_like(array)
    return made if like is None else lies_like(made, like)


# -- values of abstract traces


class _Layouts(dict[Var, Any]):
    """variable -> (layout or None, what it depends on: {place of an input: None, id: captured value}), of an open trace."""

    __slots__ = ("made",)

    def __init__(self) -> None:
        super().__init__()
        self.made: list[int] = []  # keys in `_made_like` that belong to the trace's variables

    def close(self) -> None:
        for key in self.made:
            _made_like.pop(key, None)


def layouts_of(trace: AbstractTrace) -> _Layouts:
    if trace.layouts is None:
        trace.layouts = _Layouts()
    return trace.layouts


def _entry(x: Tracer) -> tuple:
    """The layout of a variable and what it depends on."""
    trace = x.owner
    known = layouts_of(trace)
    if x.atom not in known:
        _derive(trace, x.atom, known)
    return known.get(x.atom, _UNKNOWN)


def _derived(x: Tracer, ask: bool) -> np.ndarray | None:
    trace = x.owner
    layout, sources = _entry(x)
    if ask and layout is not None:
        for place, value in sources.items():
            if type(place) is int:
                trace.given.layout(place, True)
            else:
                layout_of(value, True)
    return layout


def _derive(trace: Any, wanted: Var, known: dict[Var, Any]) -> None:
    if trace.inputs and trace.inputs[-1] not in known:  # `doubt` may have come before
        for i, v in enumerate(trace.inputs):
            known[v] = (trace.given.layout(i, False) if trace.given is not None else None), {i: None}
    for v, value in reversed(trace.captured.values()):
        if v in known:
            break  # as are those that were captured before
        like = _made_like.get(id(value), (None, value))[1]
        if like is not value and like.owner is trace:
            known[v] = like.atom  # see `_resolved`
        else:
            layout = layout_of(like, False)
            known[v] = layout if like is value or layout is None else of_copy(layout), {f"{id(value)}": like}
    missing, needed = ({wanted} if wanted not in known else set()), []
    for equation in reversed(trace.equations):
        if not missing:
            break
        if not missing.isdisjoint(equation.outputs):
            missing.difference_update(equation.outputs)
            for a in equation.inputs:
                if type(a) is not Literal:
                    entry = known.get(a)
                    missing.update([a] if entry is None else [entry] if type(entry) is Var and entry not in known else [])
            needed.append(equation)
    for equation in reversed(needed):
        found = _of_equation(equation, known)
        known.update([(v, found) for v in equation.outputs])


def _resolved(v: Var, known: dict[Var, Any]) -> tuple:
    """What is known of a variable: of an array that was made like another variable, that it lies like a copy of it."""
    entry = known.get(v, _UNKNOWN)
    if type(entry) is Var:
        layout, sources = known.get(entry, _UNKNOWN)
        entry = known[v] = None if layout is None else of_copy(layout), sources
    return entry


def _of_equation(equation: Equation, known: dict[Var, Any]) -> tuple:
    primitive = equation.primitive
    operands = [None if type(a) is Literal else _resolved(a, known) for a in equation.inputs]
    if primitive.layout is None or any([o is not None and o[0] is None for o in operands]):
        return None, {}
    layout = primitive.layout(*[None if o is None else o[0] for o in operands], **equation.params)
    aval = equation.outputs[0].aval
    if layout is None:
        layout = contiguous(aval.shape, aval.dtype)
    elif layout.dtype != aval.dtype:
        layout = contiguous(aval.shape, aval.dtype, memory_axes([layout]))
    sources: dict = {}
    for o in operands:
        sources |= o[1] if o is not None else {}
    return layout, sources


# -- values with an array behind them


def _as_numpy_has_it(x: Any) -> bool:
    """Did only operations whose layout is NumPy's make the array behind x?"""
    while type(x) is Tracer:
        if not _made_plainly(x):
            return False
        x = x.primal
    return True


def _made_plainly(x: Tracer) -> bool:
    tangent = tangent_of(x)
    if type(tangent) is int and x.owner.tape is not None:
        return _in_tape(x.owner.tape, tangent)
    if type(tangent) is Tracer and type(tangent.owner) is partial_eval.TangentTrace:
        doubts, settled = x.owner.doubtful, x.owner.settled
        if settled is None and int in map(type, doubts):  # of rows that are not written down yet
            return False
        doubts = [settled[d] if type(d) is int else d for d in doubts]
        return _in_recording(tangent.owner, doubts, tangent.atom)
    if not x.owner.level:  # a buffer
        return x.box is None or not x.box.doubtful
    return type(x.owner) is FollowingTrace and id(x) not in x.owner.doubtful


def _in_tape(tape: Tape, number: int) -> bool:
    if tape.notes is not None:
        tape.notes["looked"] = True
    todo, seen = [number], set()
    doubts = set(tape.trace.doubtful)
    while todo:
        number = todo.pop()
        if number < tape.first or number in seen or number in getattr(tape, "starts", ()):
            continue
        seen.add(number)
        pull = tape.pulls[number - tape.first]
        if number in doubts or pull is None or not pull.plain:
            return False
        todo += tape.numbers[number - tape.first]
    return True


def _in_recording(trace: Any, doubts: Sequence[Any], wanted: Var) -> bool:
    missing = {wanted}
    for equation in reversed(trace.equations):
        if not missing.isdisjoint(equation.outputs):
            if equation.primitive.layout is None:
                return False
            missing.update([a for a in equation.inputs if type(a) is Var])
    if not missing.isdisjoint([(d[0] if type(d) is list else d).atom for d in doubts]):
        return False
    return all([_as_numpy_has_it(value) for v, value in trace.captured.values() if v in missing])
