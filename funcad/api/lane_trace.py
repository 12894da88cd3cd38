"""The trace of un-jitted vmap that has values: each operation runs at once, on the lanes that have agreed so far.

Idea: a tracer stands for one lane, as while a program is recorded, and holds the values of all lanes (`_Values`), which the
batching rules compute at the user's line. When Python asks for a value (`if`, `while`, `int()`, an index, a size), the lanes
that agree on the answer go on, and the others are left to the work list (split_batch.py), which runs the function anew for
them. What was computed before holds the values of more lanes and is cut when it is used again.

Invariants: whatever raises is asked lane by lane who raises, and is one more thing that lanes can disagree on; what happens
outside of the program (prints, callbacks) never happens here. Traps: values of outer traces stand behind those of this one,
so operations on them run as if this one was not there; after `left` nothing runs here, whatever the user's code catches.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from funcad.errors import FuncadError, LanesError, TracerArrayConversionError
from funcad.host.conversions import is_looking_up, no_array, no_hash, no_integer, no_truth
from funcad.host.devices import namespace_of
from funcad.host.where import is_stored, open_traces, state
from funcad.ir.aval import SCALAR_AVALS, Aval, LiteralAval, Stack, Value, aval_of
from funcad.ir.jaxpr import Equation, Var, equation_axis_names, equation_has_effects
from funcad.ir.trace import AbstractTrace
from funcad.ir.tracer import Tracer, concrete_value, leaked, snapshot
from funcad.primitives.basic_indexing import gather
from funcad.primitives.families import keeps_operands
from funcad.primitives.loop import map_entries
from funcad.primitives.placement import on_device_of
from funcad.transforms.batch import batch_step
from funcad.unjitted.strides import layouts_of

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


# -- what Python reads of traced values: truth, numbers, indices, arrays and text
#
# Idea: Python's control flow reads the value behind a tracer, where there is one; a conversion that would cut the derivative
# raises (host/conversions.py has the words). Where there is none, the trace may have a recorder, which runs what was recorded
# and answers (jitted/path_recording.py, api/lane_trace.py): `asked` is the one question. The functions at the end are methods
# of `Tracer` (METHODS of numpy/methods.py).


def carries_derivative(x: Value) -> bool:
    """Does one lead to x, of a function that still runs, or ran inside one that still runs?"""
    while type(x) is Tracer and x.atom is None:
        if x.tangent is not None and not (x.owner.closed and state.running is None):
            return True
        x = x.primal
    return False


def _told(x: Tracer, how: str) -> Value:
    """`concrete_value`, for Python's control flow: the traces that wish to know are told what asked for it."""
    value: Value = x
    while type(value) is Tracer and value.atom is None:
        if value.owner.reads is not None:
            value.owner.reads(value, how)
        value = value.primal
    return value


def as_truth(x: Any) -> Any:
    """x, but Python's own True or False for one of them whose recorder can tell which."""
    value = concrete_value(x)
    if type(value) is not Tracer or value.owner.recorder is None:
        return x
    aval = value.aval
    return bool(x) if aval.weak and aval.dtype.kind == "b" and not aval.shape else x


def plain_value(x: Tracer, how: str) -> Any:
    """The value, if nothing is lost by leaving the trace."""
    value = concrete_value(x)
    if type(value) is Tracer and not carries_derivative(x):
        if how == "array" and not x.aval.shape and x.aval.dtype.kind in "biu":  # of NumPy's functions that need a number
            value = asked(value, "item")
        elif how not in ("array", "tolist"):
            value = asked(value, how)
    if carries_derivative(x):
        reason = "it carries a derivative, which would silently be lost"
    elif type(value) is Tracer:
        if value.owner.closed:
            raise leaked(x)
        reason = f"inside {value.owner.name} it has no value"
    else:
        return value
    error = no_array(how, x.aval, reason, type(value) is not Tracer, _offers)
    if how == "array" and x.aval.dtype.kind in "biu" and type(value) is Tracer and type(error) is TracerArrayConversionError:
        if not error.learned:  # of whoever takes plain arrays only, as `plain[mask]`; nothing of a derivative is lost
            found = asked(value, "indices")
            if type(found) is not Tracer:
                return found
    raise error


def asked(x: Value, how: str) -> Value:
    """The value that Python's control flow asks for, if the trace can tell (jitted/path_recording.py); else x itself."""
    if type(x) is not Tracer:
        return x
    if x.owner.recorder is not None:
        return x.owner.recorder.answer(x, how)  # type: ignore[no-any-return]
    observer = state.observer
    if observer is not None and observer.inputs and x.owner is observer.trace and how in ("bool()", "int()", "float"):
        observer.not_placed()  # the function is traced once more without inputs, also if it catches the error that comes
    return x


def shown_value(x: Value, text: bool = True) -> Value:
    """`concrete_value`, for a text that the program makes, or for who only looks (`repr`)."""
    value = concrete_value(x)
    if type(value) is not Tracer:
        return value
    recorder, observer = value.owner.recorder, state.observer
    shown: Value = value if recorder is None else recorder.shown(value, text)
    if shown is value and text and observer is not None and value.owner is observer.trace:
        if observer.inputs:  # a number is one that was to be an input
            raise observer.not_placed()
        observer.refuse("the text of a traced array is made" if value.aval.shape else "the text of a traced value is made")
    return value if shown is value else shown_value(shown, text)


def _offers(name: str) -> bool:
    """Does funcad have that, "numpy.take" or "scipy.optimize.brentq"?"""
    found = Tracer.namespace
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is not None and not hasattr(found, "by_own_code")


def bool_(x: Tracer) -> bool:
    value = _told(x, "bool()")
    if type(value) is Tracer:
        value = asked(value, "bool()")
    if type(value) is Tracer:
        raise no_truth(value.aval, value.owner.name, _offers)
    return bool(value)


def int_(x: Tracer) -> int:
    return int(_integer(x, "int()"))


def index_(x: Tracer) -> int:
    return operator.index(_integer(x, "an index"))


def _integer(x: Tracer, how: str) -> Any:
    value = _told(x, how)
    if type(value) is Tracer:
        value = asked(value, how)
    if type(value) is Tracer:
        raise no_integer(how, value.aval, value.owner.name, _offers)
    return value


def float_(x: Tracer) -> float:
    return float(plain_value(x, "float"))


def complex_(x: Tracer) -> complex:
    return complex(plain_value(x, "complex"))


def array_(x: Tracer, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
    own = (not x.owner.level or x.owner.closed) and copy is None  # a buffer that will be written, or a residual
    return np.array(plain_value(x, "array"), dtype=dtype, copy=True if own else copy)


def trunc_(x: Tracer) -> int:
    return int_(x)


def format_(x: Tracer, spec: str) -> str:
    value = shown_value(x)
    if type(value) is Tracer and spec:  # whoever asks for digits uses them
        value = complex_(x) if x.dtype.kind == "c" else int_(x) if x.dtype.kind in "iu" else float_(x)
    return format(value, spec) if type(value) is not Tracer else repr(value)


def str_(x: Tracer) -> str:
    value = shown_value(x)
    return str(value) if type(value) is not Tracer else repr(value)


def repr_(x: Tracer) -> str:
    value = shown_value(x, False)
    if state.unread and type(value) is Tracer and value.atom in state.unread:
        raise no_array("str", value.aval, "it stands for a number", False, _offers)
    inner = f", value={value!r}" if type(value) is not Tracer else ""
    return f"Tracer<{x.aval.short} in {x.owner.name}{inner}>"


def hash_(x: Tracer) -> int:
    if not x.shape and x.dtype.kind in "biu" and is_looking_up(sys._getframe(1)):  # who stores it would keep it too long
        value = _told(x, "int()")
        value = asked(value, "int()") if type(value) is Tracer else value
        if type(value) is not Tracer:
            return hash(operator.index(np.asarray(value).item()))
    raise no_hash(x.aval)


CONVERSIONS = {
    f"__{function.__name__.rstrip('_')}__": function
    for function in (bool_, int_, index_, float_, complex_, array_, trunc_, hash_, format_, str_, repr_)
}


# -- the trace of un-jitted vmap that has values


_OPERATION = 20.0  # microseconds, see `LaneTrace._count`
_MANY = 4096  # equations that are remembered, for who asks how a value lies in memory


class Leave(BaseException):
    """Ends a run of the user's function, all of whose lanes are on the work list."""

    def __init__(self, trace: LaneTrace):
        self.trace = trace


class _Values:
    """What a tracer stands for: the values of the lanes that there were after `step` splits; None: the same for all lanes."""

    __slots__ = ("value", "step", "made")

    def __init__(self, value: Any, step: int | None, made: tuple | None = None):
        self.value = value
        self.step = step
        self.made = made  # what made it, for `made_by`


def at_lanes(x: Any, lanes: np.ndarray) -> Any:
    """The rows of x, an array of lanes, at these places."""
    if type(x) is Stack:
        return map_entries(lambda entry: at_lanes(entry, lanes), x.aval, x)
    if type(x) is np.ndarray:
        return x[lanes]
    return gather(x, *on_device_of([lanes], [x]), unique=True)


class LaneTrace(AbstractTrace):
    """One run of the function, on the lanes numbered `lanes`; `work` is told what it leaves."""

    __slots__ = ("work", "lanes", "kept", "left", "values", "mapped", "axis_name", "log", "logged", "around", "spent", "alone")
    arrays = True  # a number may be asked for as an array of rank 0, by np.arange(n)

    def __init__(self, work: Any, lanes: np.ndarray, values: Sequence[Any], mapped: Sequence[bool], log: Sequence[tuple] = ()):
        super().__init__("vmap")
        self.work = work
        self.lanes = lanes
        self.kept: list[np.ndarray] = []  # of each split, which of the lanes before it went on
        self.left = False
        self.values = values  # of the inputs
        self.mapped = mapped
        self.axis_name: Any = work.axis_name
        self.log = list(log)  # (lanes, results) of each collective before the split that these lanes come from
        self.logged = 0
        self.spent = self.alone = 0.0
        self.around = state.abstract, state.staging, state.axis_env  # how it is outside
        self.recorder = self

    def new_inputs(self, avals: Sequence[Any]) -> list[Tracer]:
        tracers = super().new_inputs(avals)
        for tracer, x, mapped in zip(tracers, self.values, self.mapped):
            tracer.tangent = _Values(x, 0 if mapped else None)
        return tracers

    def same_inputs(self) -> list[Tracer]:
        tracers = super().same_inputs()
        for tracer, x, mapped in zip(tracers, self.values, self.mapped):
            tracer.tangent = _Values(x, 0 if mapped else None)
        return tracers

    def atom(self, x: Any) -> Any:
        """What comes from outside is not captured: its value is used at once."""
        if type(x) in SCALAR_AVALS or type(x) is Tracer and (x.owner is self or not x.owner.level or x.owner.closed):
            return super().atom(x)
        aval = aval_of(x)
        variable = Var(Aval(aval.shape, aval.dtype, aval.weak) if type(aval) is LiteralAval else aval)
        layouts_of(self)[variable] = _layout(x, aval), {}
        return variable

    def capture(self, x: Any) -> Tracer:
        tracer = super().capture(x)
        tracer.tangent = _Values(self.protect(x), None)  # derivatives may keep it
        return tracer

    # -- operations

    def held(self, x: Any) -> tuple[Any, bool]:
        """The value of an operand, and whether it has one row for each lane."""
        if type(x) is not Tracer or x.owner is not self:
            return x, False
        held: _Values = x.tangent
        if held.step is None:
            return held.value, False
        if held.step < len(self.kept):
            rows, *later = self.kept[held.step :]
            for step in later:
                rows = rows[step]
            self.spent += _OPERATION / 4
            held.value, held.step = self.outside(at_lanes, held.value, rows), len(self.kept)
        return held.value, True

    def record(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if self.left:
            raise Leave(self)
        traced = super().record(primitive, args, params)  # what has the wrong shape raises here, as for one lane
        results = traced if primitive.multiple else [traced]
        equation: Equation = self.equations[-1]
        if len(self.equations) > _MANY:
            del self.equations[: _MANY // 2]
        if primitive.effect or primitive.multiple and equation_has_effects(equation):
            self.work.meets_effect(equation)
        saved = state.source
        if saved is None:
            state.source = equation.source
        try:
            outs, batched = self._outs(equation, args)
        finally:
            state.source = saved
        step = len(self.kept)
        captured = [a for a in args if type(a) is np.ndarray]
        for i, (result, out, b) in enumerate(zip(results, outs, batched)):
            if captured and type(out) is np.ndarray and any([np.may_share_memory(a, out) for a in captured]):
                out = out.copy(order="K")  # the user may write into what was captured
            made = None
            if primitive.square is not None and keeps_operands(primitive, args, params, i):
                made = primitive, [self.protect(snapshot(a)) for a in args], params, i
            result.tangent = _Values(out, step if b else None, made)
            self._count(result.atom.aval)
        return traced

    def _count(self, aval: Any) -> None:
        """What an operation costs here, and in plain Python on one lane, in about a microsecond."""
        elements = aval.size / 1000
        self.spent += _OPERATION + elements * len(self.lanes)
        if state.running is not self:  # it is differentiated
            self.alone += _OPERATION / 6
        else:
            self.alone += elements + (1.0 if aval.shape else 0.2)

    def _outs(self, equation: Equation, args: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        if self.axis_name is not None and self.axis_name in equation_axis_names(equation):
            return self._collective(equation, args)
        operands, mapped = zip(*map(self.held, args)) if args else ((), ())
        try:
            return self.outside(batch_step, equation.primitive, len(self.lanes), operands, mapped, equation.params, False)
        except FuncadError:
            raise
        except Exception as error:
            of_rule = equation.primitive.name == "custom_vmap_call"  # a rule of the user's for whole batches
            if not any(mapped) or len(self.lanes) == 1 or of_rule:
                raise
            self._split_by_error(equation, operands, mapped, error)
        operands, mapped = zip(*map(self.held, args))
        return self.outside(batch_step, equation.primitive, len(self.lanes), operands, mapped, equation.params, False)

    def _collective(self, equation: Equation, args: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        """Of all lanes of the named axis: what they gave before these lanes split off is taken over."""
        name = equation.primitive.name
        if self.logged < len(self.log):
            before, lanes, outs, mapped = self.log[self.logged]
            if before != name:
                raise LanesError(f"vmap: {name} was called where {before} was called when the same lanes ran before: {_AGAIN}")
            self.logged += 1
            rows = np.searchsorted(lanes, self.lanes)
            return [self.outside(at_lanes, x, rows) if m else x for x, m in zip(outs, mapped)], list(mapped)
        if len(self.lanes) < self.work.size:
            raise LanesError(
                f"{name} over the axis {self.axis_name!r} of vmap was reached by {len(self.lanes)} of {self.work.size} lanes "
                "only: Python's control flow took the others elsewhere, so there is no value for all of them.\nRemedy: call "
                "the collective before the lanes part, or choose between the values with np.where or funcad.cond."
            )
        operands, mapped = zip(*map(self.held, args)) if args else ((), ())
        outs, batched = self.outside(
            batch_step, equation.primitive, len(self.lanes), operands, mapped, equation.params, True, named=self.axis_name
        )
        self.log.append((name, self.lanes, outs, tuple(batched)))
        self.logged += 1
        return outs, batched

    def outside(self, f: Any, *args: Any, named: Any = None) -> Any:
        """`f(*args)` as if this trace was not open."""
        saved = state.abstract, state.staging, state.axis_env, state.batching
        state.abstract, state.staging, state.axis_env = self.around
        if named is not None:
            state.batching = named
        open_traces.discard(self.level)
        try:
            return f(*args)
        finally:
            state.abstract, state.staging, state.axis_env, state.batching = saved
            open_traces.add(self.level)

    def made_by(self, x: Tracer, look: bool = False) -> tuple[Any, Sequence[Any], dict, int] | None:
        return None if self.closed else x.tangent.made

    # -- where lanes part

    def shown(self, x: Tracer, text: bool) -> Any:
        """The value of x for a text, which may decide anything: lanes part. Who only looks makes none part."""
        if text:
            return self.answer(x, "text")
        value, mapped = self.held(x)
        rows = self._rows(value) if mapped else None
        if rows is None:
            return x if mapped else value
        return rows[0] if len(rows) and not _groups(_comparable(rows, "text", x.aval.shape)) else x

    def answer(self, x: Tracer, how: str) -> Any:
        """The value of x for Python's control flow, once all lanes that are here agree on it."""
        if is_stored(how):
            return x
        if self.left:
            raise Leave(self)
        value, mapped = self.held(x)
        if not mapped:
            value = concrete_value(value)
            return asked(value, how) if type(value) is Tracer and how != "text" else value
        rows = self._rows(value)
        if rows is None or not len(rows):
            return x  # there is no value, as nobody knows it
        groups = _groups(_comparable(rows, how, x.aval.shape))
        self.spent += _OPERATION / 4
        if groups:
            self._split(groups)
            rows = rows[self.kept[-1]]
        elif self.work.runs_plainly(len(rows), self):
            self._leave()
        return rows[0]

    def _rows(self, value: Any) -> np.ndarray | None:
        """An array of lanes as NumPy's, if it is known; lanes of outer vmaps that have other rows part."""
        value = concrete_value(value)
        if type(value) is Tracer:
            value = asked(value, "rows")
            if type(value) is Tracer:
                return None
        return np.asarray(value) if namespace_of([value]) is np else value.get()

    def _split(self, groups: list[np.ndarray]) -> None:
        """The largest group goes on, if it is worth its while; the others are run later."""
        stay = max(range(len(groups)), key=lambda i: (len(groups[i]), -groups[i][0]))
        for i, group in enumerate(groups):
            if i != stay:
                self.work.add(self.lanes[group], self)
        self.lanes = self.lanes[groups[stay]]
        self.kept.append(groups[stay])
        if self.work.runs_plainly(len(self.lanes), self):
            self._leave()

    def _leave(self) -> None:
        self.work.add(self.lanes, self)
        self.left = True
        raise Leave(self)

    def _split_by_error(self, equation: Equation, operands: Sequence[Any], mapped: Sequence[bool], error: Exception) -> None:
        """An operation raised: the lanes that do go one way, the others another; it returns where it does not raise."""
        raised: dict[int, Exception] = {}
        todo = [np.arange(len(self.lanes))]
        while todo:
            rows = todo.pop()
            part = [self.outside(at_lanes, x, rows) if m else x for x, m in zip(operands, mapped)]
            try:
                self.outside(batch_step, equation.primitive, len(rows), part, mapped, equation.params, False)
            except FuncadError:
                raise
            except Exception as found:
                if len(rows) == 1:
                    raised[int(rows[0])] = found
                else:
                    todo += [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
        if not raised:
            raise error
        kinds: dict[tuple, list[int]] = {}
        for i in range(len(self.lanes)):
            kinds.setdefault((type(raised[i]), str(raised[i])) if i in raised else (), []).append(i)
        groups = [np.array(rows) for rows in kinds.values()]
        if len(groups) > 1:
            self._split(groups)
            stays = int(self.kept[-1][0])
        else:
            stays = 0
        if stays in raised:
            raise raised[stays]


_AGAIN = "the function does not do the same when it is run again, so its lanes cannot be told apart."


def _layout(x: Any, aval: Any) -> Any:
    """How a value from outside lies in memory; of one of an outer trace that is not asked."""
    if type(x) is np.ndarray:
        return np.lib.stride_tricks.as_strided(np.empty((), aval.dtype), x.shape, x.strides) if x.ndim else x
    return None


def _comparable(rows: np.ndarray, how: str, shape: tuple) -> np.ndarray:
    """What Python makes of each lane, for the lanes to agree on."""
    if how == "bool()" and rows.dtype.kind != "b" and (not shape or set(shape) == {1}):
        return rows.astype(bool).reshape(-1)
    if rows.dtype.kind not in "fc":
        return rows
    if how == "int()":
        return np.trunc(rows)
    return np.ascontiguousarray(rows).reshape(len(rows), -1).view(np.uint8)  # 0.0 and -0.0 are two


def _groups(rows: np.ndarray) -> list[np.ndarray]:
    """The places of equal rows; none if all are equal."""
    if rows.ndim == 1 and rows.dtype.kind == "b":
        n = np.count_nonzero(rows)
        return [np.flatnonzero(rows), np.flatnonzero(~rows)] if 0 < n < len(rows) else []
    flat = np.ascontiguousarray(rows).reshape(len(rows), -1)
    if not flat.shape[1] or (flat == flat[0]).all():
        return []
    keys = flat[:, 0] if flat.shape[1] == 1 else flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1])))[:, 0]
    _, kinds = np.unique(keys, return_inverse=True)
    order = np.argsort(kinds, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(kinds[order])) + 1)
    return groups if len(groups) > 1 else []
