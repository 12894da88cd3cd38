"""The trace of un-jitted vmap that has values: each operation runs at once, on the lanes that have agreed so far.

Idea: a tracer stands for one lane, as while a program is recorded, and holds the values of all lanes (`_Values`), which the
batching rules compute at the user's line. When Python asks for a value (`if`, `while`, `int()`, an index, a size), the lanes
that agree on the answer go on, and the others are left to the work list (split_batch.py), which runs the function anew for
them. What was computed before holds the values of more lanes and is cut when it is used again.

A gradient writes its rows of these values: `at_once` computes, without a rule, what the gradient's tape has short ways for.

Invariants: whatever raises is asked lane by lane who raises, and is one more thing that lanes can disagree on; what happens
outside of the program (prints, callbacks) never happens here. Traps: values of outer traces stand behind those of this one,
so operations on them run as if this one was not there; after `left` nothing runs here, whatever the user's code catches.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from funcad.api.value_reads import asked
from funcad.errors import FuncadError, LanesError
from funcad.host.devices import deliver, enter, error_mode, namespace_of, pending, restore_warnings
from funcad.host.locks import NO_LOCKS, Locks
from funcad.host.real_types import dtype_kind, strided
from funcad.host.where import is_stored, open_traces, state, user_source
from funcad.ir.aval import SCALAR_AVALS, Aval, Stack, aval_of, strip_literal
from funcad.ir.jaxpr import Equation, Var, equation_axis_names, equation_has_effects, has_batch_rule
from funcad.ir.trace import AbstractTrace, next_level
from funcad.ir.tracer import Tracer, concrete_value, snapshot
from funcad.memo import remembers
from funcad.primitives.basic_indexing import gather
from funcad.primitives.families import keeps_operands
from funcad.primitives.loop import map_entries
from funcad.primitives.placement import on_device_of
from funcad.transforms.batch import batch_step
from funcad.unjitted.strides import Given, layouts_of

_OPERATION = 20.0  # microseconds, see `LaneTrace._count`
_new: Any = object.__new__
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

    __slots__ = (
        *("work", "lanes", "kept", "left", "values", "mapped", "axis_name", "log", "logged", "spent", "alone"),
        *("tape", "short", "turned", "outside_of"),
    )
    of_lanes = True

    def __init__(self, work: Any, lanes: np.ndarray, values: Sequence[Any], mapped: Sequence[bool], log: Sequence[tuple] = ()):
        # as `AbstractTrace.__init__` does, which costs calls
        self.level, self.name, self.closed = next_level(), "vmap", False
        self.modes = self.mode = self.layouts = self.tries = self.around = None
        self.filters = warnings.filters
        self.array = np.ndarray if state.abstract is None else state.abstract.array
        self.equations, self.inputs, self.hoisted = [], [], []
        self.stands_for, self.captured, self.makers, self.results = {}, {}, {}, {}
        self.asked = self.seeded = False
        self.n_makers = self.looks = 0
        self.locks, self.given = NO_LOCKS, _new(Given)
        self.given.values, self.given.lanes, self.given.asked, self.given.commits = values, mapped, set(), False
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
        self.outside_of = state.abstract, state.staging, state.axis_env  # how it is outside
        self.recorder = self
        self.short = self.tape = None  # of the gradient whose function runs
        self.turned = False

    def protect(self, x: Any) -> Any:
        """A captured array, as well locked as can be until the trace closes."""
        if self.locks is NO_LOCKS:
            self.locks = Locks()
        return self.locks.guard(x)

    def new_inputs(self, avals: Sequence[Any]) -> list[Tracer]:
        source, tracers = user_source(), []
        for x, mapped in zip(self.values, self.mapped):
            variable = _new(Var)
            if type(x) is np.ndarray and x.dtype.isbuiltin == 1:
                aval = Aval(x.shape[1:] if mapped else x.shape, x.dtype)
            else:
                aval = strip_literal(aval_of(x).unbatched() if mapped else aval_of(x))  # type: ignore[assignment]
            variable.aval = aval
            self.inputs.append(variable)
            if not aval.shape:
                self.stands_for[variable] = None if mapped else x  # a lane of an array is a number
            found, tracer = _new(_Values), _new(Tracer)
            found.value, found.step, found.made = x, 0 if mapped else None, None
            tracer.owner, tracer.atom, tracer.tangent, tracer.source = self, variable, found, source
            tracer.primal = tracer.box = None
            tracer.aval = variable.aval
            tracers.append(tracer)
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
        variable = Var(strip_literal(aval))
        # of a value of an outer trace that is not asked
        lies = _layout(x.shape, x.strides, aval.dtype) if type(x) is np.ndarray else None
        layouts_of(self)[variable] = lies, {}
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
        if primitive.multiple and has_batch_rule(equation):
            self.work.alone = False
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
            keeps = primitive.square is not None and keeps_operands(primitive, args, params, i)
            self.turned = self.turned or keeps
            made = (primitive, [self.protect(snapshot(a)) for a in args], params, i) if keeps else None
            result.tangent = _Values(out, step if b else None, made)
            self._count(result.atom.aval)
        return traced

    def at_once(self, tape: Any, primitive: Any, operation: Any, operands: tuple, aval: Aval, params: Any, source: Any) -> Any:
        """The result, of this aval, of a ufunc of lanes, arrays and numbers of one float dtype, or of a reduction of lanes.

        None: lanes raise, or there are values of outer traces, so a rule is to say. What is made here is made without a call.
        """
        if self.left:
            raise Leave(self)
        values, atoms, step = [], [], None
        now, rank = len(self.kept), len(aval.shape)
        for x in operands:
            if type(x) is not Tracer:
                values.append(x)
                atoms.append(self.atom(x))
                continue
            if x.owner is not self:
                return None
            held = x.tangent
            value = held.value
            if held.step is not None:
                if held.step != now:
                    value, _ = self.held(x)
                if type(value) is not np.ndarray:
                    return None
                step = now
                # a lane of lower rank lines up with the others from its last axis
                if value.ndim <= rank:
                    value = value.reshape(len(value), *[1] * (rank + 1 - value.ndim), *value.shape[1:])
            elif type(value) is Tracer:
                return None
            values.append(value)
            atoms.append(x.atom)
        mode = error_mode()
        token = enter(tape.user_line_mode) if mode is tape.mode and tape.user_line_mode is not None else tape._enter()
        try:
            out = operation(*values)
        # the user's errstate asks for it: the rule finds the lanes that raise
        except FloatingPointError:
            return None
        finally:
            if token is not None:
                restore_warnings(token)
                if pending:
                    deliver(primitive, operands)
        output, found, result = _new(Var), _new(_Values), _new(Tracer)
        output.aval = aval
        self.equations.append(tuple.__new__(Equation, (primitive, tuple(atoms), params, (output,), source)))
        found.value, found.step, found.made = out, step, None
        if primitive.turns:
            self.turned = True
        if self.turned and keeps_operands(primitive, operands, params):
            found.made = primitive, operands, params, 0
        self.spent += _OPERATION + out.size / 1000
        # it is differentiated
        self.alone += _OPERATION / 6
        result.owner, result.atom, result.tangent, result.source = self, output, found, source
        result.primal = result.box = None
        result.aval = aval
        return result

    def of_values(self, value: np.ndarray, like: Any = None) -> Tracer:
        """An array of one value for each lane, as one of this trace's; `like`: what may have its aval."""
        variable, held, result = _new(Var), _new(_Values), _new(Tracer)
        own = type(like) is Tracer and like.owner is self and like.atom.aval.dtype is value.dtype
        variable.aval = like.atom.aval if own else Aval(value.shape[1:], value.dtype)
        held.value, held.step, held.made = value, len(self.kept), None
        result.owner, result.atom, result.tangent = self, variable, held
        result.primal = result.source = result.box = None
        result.aval = variable.aval
        return result

    def decide(self, condition: Tracer) -> bool:
        """Does it hold everywhere, in all lanes? False where nobody can say."""
        value, _ = self.held(condition)
        return type(value) is not Tracer and bool(np.all(value))

    def _count(self, aval: Any) -> None:
        """What an operation costs here, and in plain Python on one lane, in about a microsecond."""
        elements = prod(aval.shape) / 1000
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
            # a rule of the user's for whole batches is not asked lane by lane
            if not any(mapped) or len(self.lanes) == 1 or has_batch_rule(equation):
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
        primitive, params = equation.primitive, equation.params
        outs, batched = self.outside(batch_step, primitive, len(self.lanes), operands, mapped, params, True)
        self.log.append((name, self.lanes, outs, tuple(batched)))
        self.logged += 1
        return outs, batched

    def outside(self, f: Any, *args: Any) -> Any:
        """`f(*args)` as if this trace was not open."""
        saved = state.abstract, state.staging, state.axis_env, state.batching
        state.abstract, state.staging, state.axis_env = self.outside_of
        if self.axis_name is not None:
            state.batching = self.axis_name  # the user's rules may have collectives, too
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

    def part(self) -> None:
        """Lanes run one by one from here on, as at an effect, but with a named axis, which keeps them together."""
        if self.axis_name is None:
            self.work.meets_effect()

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


@remembers(256, lambda a, b: (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype))  # its memory is not there
def _layout(shape: tuple, strides: tuple, dtype: np.dtype) -> np.ndarray:
    """An array that lies in memory as one from outside does, and takes none."""
    return strided(np.empty((), dtype), shape, strides)


def _comparable(rows: np.ndarray, how: str, shape: tuple) -> np.ndarray:
    """What Python makes of each lane, for the lanes to agree on."""
    if how == "bool()" and rows.dtype.kind != "b" and (not shape or set(shape) == {1}):
        return rows.astype(bool).reshape(-1)
    if dtype_kind(rows.dtype) not in "fc":
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
