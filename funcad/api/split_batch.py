"""Un-jitted vmap of functions whose control flow depends on values: the batch is split where its lanes disagree.

Idea: the function runs on all lanes at once (lane_trace.py) until Python asks for a value on which they differ. The largest
group goes on; the others come on a work list and run the function from its start, each as a batch of its own: what they do
there is what they did before. So there are as many runs as there are different ways through the function. A lane that is
alone, or has so few companions that a loop is faster, runs as plain Python, and so does the first lane of a run that raised,
for the exception and its message to be those of the lane. Where a lane meets a rule of the user's for batches (custom_vmap),
it is a batch, too, also alone. As soon as an effect is met (a print, a
callback), all lanes run one after the other from their start, as in a loop: nothing has happened before.

Invariants: operations that run again are pure; what is not (collectives, which need the lanes that have left) is taken over.
Traps: Python's own side effects in the function happen once for each run; the results of a run are those of its lanes alone,
so their last bits may be others than in a larger batch.
"""

from __future__ import annotations

import heapq
import itertools
import sys
import warnings
from _thread import get_ident
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import OutTree, check_leaves, flat_values, name_of, runs
from funcad.api.lane_trace import LaneTrace, Leave, at_lanes
from funcad.configuration import config
from funcad.errors import FuncadError, LanesError, TreeMismatchError
from funcad.host.conversions import marks_of, needs_buffers
from funcad.host.devices import namespace_of, on_device
from funcad.host.locks import read_only
from funcad.host.where import is_stored, setting, state
from funcad.ir.aval import SCALAR_AVALS, aval_of, shape_of
from funcad.ir.jaxpr import Equation, Jaxpr
from funcad.ir.trace import abstract_trace_of, run_in
from funcad.ir.tracer import Tracer, concrete_value, snapshot
from funcad.memo import table
from funcad.primitives.basic_indexing import basic_index, gather
from funcad.primitives.conversion import convert
from funcad.primitives.shape import broadcast_leading, concatenate
from funcad.unjitted.following import with_value
from funcad.writes.plain import lent

FEW = 64  # lanes that may run in a loop at once
MANY_RUNS = 16
CALLS = 15  # in which few lanes that all went their own way are a loop at once, before they are asked again
LOSS = 0.03  # of what a loop over all lanes costs: what batches may cost without finishing lanes

_NUMBER = tree.structure(0.0)
_arange = np.arange
_new: Any = object.__new__
asking = table("api.asking", "a function's code: it has asked for a value, and is not traced without values again", 4096, None)
_apart = table("api.apart", "few lanes that all went their own way: in how many calls they will be a loop", 1024, None)


class Asked(BaseException):
    """Ends that a function is traced without values, as `trial`."""

    def __init__(self, trial: Trial):
        self.trial = trial


class Trial:
    """The attempt to trace a function without values; `repeatable`: it has ended, and may be made again with values."""

    __slots__ = ("asked", "repeatable")
    of_lanes = True  # its values are lanes of an un-jitted vmap

    def __init__(self) -> None:
        self.asked = False
        self.repeatable = False

    def shown(self, x: Tracer, text: bool) -> Any:
        return self.answer(x, "text") if text else x

    def answer(self, x: Tracer, how: str) -> Any:
        if not is_stored(how):
            self.part()
        return x

    def part(self) -> None:
        self.asked = True
        raise Asked(self)

    def ends(self, jaxpr: Jaxpr) -> None:
        """The program has been traced, and will run."""
        if self.asked:  # and the function caught what was raised
            raise Asked(self)
        self.repeatable = not jaxpr.has_effects


class HeldOutput:
    """`with HeldOutput() as held`: what the thread writes to sys.stdout is told at the end, if the run `stands`.

    What runs again says it again. Who flushes, as a debugger does, is heard at once.
    """

    def __enter__(self) -> HeldOutput:
        self.stream: Any = sys.stdout
        self.thread, self.stands = get_ident(), True
        self.texts: list[str] = []
        theirs = type(self.stream) is HeldOutput and self.stream.thread != self.thread
        if not theirs and self.stream is not None and state.observer is None:
            sys.stdout = self
        return self

    def __exit__(self, *exception: object) -> None:
        if sys.stdout is self:
            sys.stdout = self.stream
        if self.stands and self.texts:
            self._tell()
        self.thread = 0  # whoever has kept it writes through

    def write(self, text: str) -> int:
        if get_ident() != self.thread:
            return int(self.stream.write(text))
        self.texts.append(text)
        return len(text)

    def flush(self) -> None:
        if get_ident() == self.thread:
            self._tell()
        self.stream.flush()

    def _tell(self) -> None:
        texts, self.texts = self.texts, []
        if texts:
            self.stream.write("".join(texts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def outer_trial(leaves: Sequence[Any]) -> Trial | None:
    """Of values that have none yet: the attempt that they belong to, if they are those of an un-jitted vmap around this one."""
    trace = abstract_trace_of(leaves)
    found = None if trace is None else trace.recorder
    return found if type(found) is Trial else None


def may_split(leaves: Sequence[Any]) -> bool:
    """Are there values behind the arguments, in the end?"""
    if Tracer not in map(type, leaves):
        return True
    trace = abstract_trace_of(leaves)
    return trace is None or type(trace) is LaneTrace


def asks(f: Any) -> bool:
    """Is f to run with values at once? What runs inside of such a function does as well: it must do the same each time."""
    return type(state.abstract) is LaneTrace or bool(asking) and not asking.keys().isdisjoint(marks_of(f))


def learn(f: Any) -> None:
    for mark in marks_of(f):
        asking.put(mark, True)


def run_split(
    f: Any,
    in_tree: Any,
    flat: Callable[..., list] | None,
    store: OutTree,
    leaves: Sequence[Any],
    mapped: Sequence[bool],
    size: int,
    axis_name: Any,
    first: bool = False,
) -> Any:
    """What `flat` gives for all lanes, and which of its results have one row for each lane.

    `flat` is None where the leaves, which are arrays, are f's arguments. `first`: it has not asked for a value yet. Then the
    result is None if it has an effect before lanes part.
    """
    work = _Work(f, flat, store, leaves, mapped, size, axis_name, in_tree)
    try:
        work.run()
    except _OneByOne as found:
        if found.work is not work:
            raise
        # nothing has happened yet, and no lane went another way
        if first and work.runs < 2 and not work.todo:
            return None
        work.run_one_by_one()
    part = work.parts[0]
    store.tree = part.tree
    if len(work.parts) == 1 and type(part.lanes) is np.ndarray and len(part.lanes) == size:
        return part.outs, part.mapped
    return work.joined()


class _OneByOne(BaseException):
    """An effect was met: it may only happen in the order of the lanes."""

    def __init__(self, work: _Work):
        self.work = work


class _MetRule(BaseException):
    """A lane that runs as plain Python has met a rule for batches, which it runs again as."""

    def __init__(self, work: _Work):
        self.work = work


class _LanesPart:
    """What some lanes gave: `lanes` are their numbers, or the number of a lane that ran alone."""

    __slots__ = ("lanes", "outs", "mapped", "tree")

    def __init__(self, lanes: Any, outs: list[Any], mapped: list[bool], tree: Any):
        self.lanes = lanes
        self.outs = outs
        self.mapped = mapped
        self.tree = tree


class _Work:
    """The lanes of one call, which run in parts."""

    __slots__ = (
        *("f", "flat", "store", "leaves", "mapped", "size", "axis_name"),
        *("todo", "parts", "failed", "runs", "plain", "alone", "writes", "direct", "lost", "longest", "met", "in_tree"),
        *("outer", "in_order", "filters"),
    )

    def __init__(
        self, f: Any, flat: Any, store: OutTree, leaves: Sequence[Any], mapped: Sequence[bool], size: int, axis_name: Any,
        in_tree: Any,
    ):  # fmt: skip
        self.f = f
        self.flat = flat
        self.store = store
        self.leaves = leaves
        self.mapped = mapped
        self.size = size
        self.axis_name = axis_name
        self.todo: list[tuple[int, int, np.ndarray, Sequence[tuple], float]] = []  # a heap
        self.parts: list[_LanesPart] = []
        self.failed: tuple[int, Exception] | None = None  # the first lane that raised
        # plain Python knows no names of axes, checks no numbers for NaN, and leaves a device's arrays to their library
        self.alone = axis_name is None and not state.checked and (flat is None or not on_device(leaves))
        self.outer = state.before_effect  # of the lanes around these, which are told first: they may be traced without values
        self.met = False  # has it met an effect, which the lanes have one after the other?
        self.in_order = False  # do they run so now?
        self.filters = warnings.filters  # the user's `catch_warnings` puts others there
        self.in_tree = in_tree
        self.direct: bool | None = flat is None or None  # are the leaves the arguments? None: not looked yet
        self.writes: bool | None = None  # does f write into arrays? None: not looked yet
        self.runs = 0  # of batches
        self.lost = self.longest = 0.0  # see `_settle`
        self.plain = Tracer not in map(type, leaves)

    # -- what a run tells

    def add(self, lanes: np.ndarray, trace: LaneTrace) -> None:
        """Larger groups run earlier: they show whether batches are worth it."""
        heapq.heappush(self.todo, (-len(lanes), int(lanes[0]), lanes, list(trace.log), _gain(trace)))

    def runs_plainly(self, n: int, trace: LaneTrace) -> bool:
        """Do the lanes that a run goes on with leave it, to run one by one?"""
        return self._loops(n, _gain(trace))

    def _loops(self, n: int, gain: float) -> bool:
        """Is a loop over n lanes faster than a batch, whose operations cost as much as those of `gain` lanes?

        A few more runs cost next to nothing, so many lanes are a loop only where there are many ways through the function, or
        where the batches until now have cost more than a loop over the lanes that they finished (`_settle`).
        """
        if not self.alone:
            return False
        most = FEW if self.size <= FEW else 2 * self.runs * max(1, self.runs // MANY_RUNS)
        return n == 1 or self.plain and (n <= most and n < gain or self.lost > LOSS * self.size * self.longest)

    def _settle(self, trace: LaneTrace, finished: int) -> None:
        """After a run: what was it worth?"""
        self.longest = max(self.longest, trace.alone)
        self.lost += trace.spent - finished * trace.alone

    def meets_effect(self, equation: Equation | None = None, warns: bool = False) -> None:
        """`warns`: it is a warning, which is one where the function itself asks for it, as it is told of one lane's then."""
        if not self.size:
            return
        if self.outer is not None:
            self.outer(equation, warns)
        if warns and (warnings.filters is self.filters or self.axis_name is not None):
            return
        if self.axis_name is not None:
            name = equation.primitive.name if equation is not None else "a callback"
            raise LanesError(
                f"vmap of {name_of(self.f)}: {name} happens for one lane after the other, but the function's control flow "
                f"depends on values and the axis {self.axis_name!r} keeps the lanes together.\nRemedy: leave the effect or the "
                "axis name out, or choose with np.where or funcad.cond instead of Python's if."
            )
        self.met = True
        raise _OneByOne(self)

    def meets_rule(self, name: str, has_values: bool) -> None:
        """A lane that runs as plain Python calls a function with a rule for batches; it returns where that is to run here."""
        if not self.in_order:  # nothing has happened
            self.alone = False
            raise _MetRule(self)
        if not has_values:
            raise LanesError(
                f"vmap of {name_of(self.f)}: an effect (a print, a callback) happens for one lane after the other, and {name}, "
                "which has a vmap rule, is called where it is traced (in grad, or in the body of scan).\nRemedy: leave the "
                "effect out, or choose with np.where or funcad.cond instead of Python's if."
            )

    # -- running

    def _kind(self) -> tuple:
        """What is known again when the function is mapped over such lanes again."""
        return frozenset(marks_of(self.f)), self.size, *map(shape_of, self.leaves)

    def run(self) -> None:
        every = _arange(self.size)
        alone = []  # in the end, in their order
        few = self.size <= FEW and self.alone and self.plain
        if few and _apart and (left := _apart.pop(key := self._kind(), 0)):
            alone.append(every)
            if left > 1:
                _apart.put(key, left - 1)
        else:
            self.todo = [(0, 0, every, (), 0.0)]
        saved, state.before_effect = state.before_effect, self.meets_effect
        try:
            while self.todo or alone:
                if self.todo:
                    _, _, lanes, log, gain = heapq.heappop(self.todo)
                    if self.failed is not None:
                        lanes = lanes[lanes < self.failed[0]]
                    # the first batch is of all lanes
                    if len(lanes) and (self.runs or self.size == 1) and self._loops(len(lanes), gain):
                        alone.append(lanes)
                    elif len(lanes) or not self.size:
                        self._run_together(lanes, log)
                    continue
                if self.runs and not self.parts and few and self.alone:
                    _apart.put(self._kind(), CALLS)
                rest = self._run_alone(np.sort(np.concatenate(alone)).tolist())
                alone = []
                if rest:
                    self.todo = [(0, 0, np.array(rest), (), 0.0)]
        finally:
            state.before_effect = saved
        if self.failed is not None:
            raise self.failed[1]

    def run_one_by_one(self) -> None:
        self.parts, self.failed, self.met, self.in_order = [], None, False, True
        self._run_alone(range(self.size))
        if self.failed is not None:
            raise self.failed[1]

    def _run_alone(self, lanes: Sequence[int]) -> Sequence[int]:
        """As a loop calls the function; from the first lane on that meets a rule for batches, they are given back."""
        found: list[tuple[list[Any], Any]] = []
        rest: Sequence[int] = ()
        for i, (lane, leaves) in enumerate(zip(lanes, self._lanes(lanes))):
            if self.failed is not None and self.failed[0] < lane:
                break
            try:
                one = self._call_alone(leaves)
            except Exception as error:
                if self.met:
                    raise _OneByOne(self) from None
                if self.alone or self.in_order:
                    self.failed = lane, error
                    return ()
            if not (self.alone or self.in_order):  # whatever the user's code has caught
                rest = lanes[i:]
                break
            found.append(one)
        kinds = {type(outs[0]) if structure is _NUMBER else None for outs, structure in found}
        if len(kinds) == 1 and issubclass(next(iter(kinds)) or object, np.generic):
            column = np.array([outs[0] for outs, _ in found])
            self.parts.append(_LanesPart(np.array(lanes[: len(found)]), [column], [True], _NUMBER))
        else:
            self.parts += [_LanesPart(lane, outs, [False] * len(outs), t) for lane, (outs, t) in zip(lanes, found)]
        return rest

    def _call_alone(self, leaves: Sequence[Any]) -> Any:
        """`_call` of one lane; None where it has met a rule for batches, whereupon no lane is to be `alone`."""
        outer, state.lane = state.lane, self
        try:
            return self._call(leaves)
        except _MetRule as met:
            if met.work is not self:
                raise
            return None
        finally:
            state.lane = outer

    def _run_together(self, lanes: np.ndarray, log: Sequence[tuple]) -> None:
        self.runs += 1
        values: list[Any] = [*self.leaves]
        mapped = [*self.mapped]
        if len(lanes) < self.size:
            values = [at_lanes(x, lanes) if m else x for x, m in zip(values, mapped)]
        if self.axis_name is not None:  # the index within the axis is a hidden argument
            values, mapped = [lanes, *values], [True, *mapped]
        trace = LaneTrace(self, lanes, values, mapped, log)

        def finish(outs: Any) -> None:
            if trace.left:  # and somebody caught that
                return
            if self.flat is None and type(outs) is Tracer and outs.owner is trace and outs.box is None:
                held = outs.tangent
                if held.step is not None and held.step == len(trace.kept):
                    part = _new(_LanesPart)
                    part.lanes, part.outs, part.mapped, part.tree = trace.lanes, [held.value], [True], _NUMBER
                    self.parts.append(part)
                    return
            outs, structure = self._flattened(outs) if self.flat is None else (outs, self.store.tree)
            part = _LanesPart(trace.lanes, [], [], structure)
            for x in outs:
                value, lane = trace.held(x)
                part.outs.append(value)
                part.mapped.append(lane)
            self.parts.append(part)

        failed: Exception | None = None
        with HeldOutput() as held:
            try:
                run_in(trace, self.f if self.flat is None else self._named, (), finish)
            except Leave as leave:
                if leave.trace is not trace:
                    raise
            except _OneByOne:
                held.stands = False
                raise
            except Exception as error:
                if self.met:
                    held.stands = False
                    raise _OneByOne(self) from None
                if not trace.left:  # else a `finally` of the user's raised in a run that had ended
                    if isinstance(error, FuncadError):
                        raise
                    failed = error
            held.stands = not trace.left and (failed is None or not self.alone)
        if failed is not None:
            self._fail(int(trace.lanes[0]), failed)
        if self.todo:
            self._settle(trace, 0 if trace.left else len(trace.lanes))

    def _fail(self, lane: int, error: Exception) -> None:
        """A run raised: so does its first lane, if plain Python raises there, in its own words (an error of a batching rule
        has no other)."""
        if self.failed is not None and self.failed[0] <= lane:
            return
        if self.alone:
            try:
                self._call_alone(next(self._lanes([lane])))
            except Exception as found:
                error = found
        self.failed = lane, error

    @property
    def _named(self) -> Callable[..., list]:
        """The function, with the axis's name bound."""
        if self.axis_name is None:
            return self.flat
        outer = state.axis_env

        def with_index(i: Any, *leaves: Any) -> list[Any]:
            with setting(axis_env=(*outer, (self.axis_name, self.size, i))):
                return self.flat(*leaves)

        return with_index

    def _lanes(self, lanes: Sequence[int]) -> Iterator[tuple]:
        """The arguments of each of these lanes, in memory of its own if it may be written."""
        if self.writes is None:
            self.writes = needs_buffers(self.f)
        if not self.leaves:
            return itertools.repeat((), len(lanes))
        return zip(*[self._column_in(x, m, lanes) for x, m in zip(self.leaves, self.mapped)])

    def _column_in(self, x: Any, mapped: bool, lanes: Sequence[int]) -> Iterator[Any]:
        writes = bool(self.writes)
        if mapped and type(x) is np.ndarray and x.ndim == 1:
            return iter(x[np.array(lanes, int)])  # NumPy's numbers
        if mapped:
            return (_one(x, lane, writes) for lane in lanes)
        if type(x) is np.ndarray:
            return (x.copy("K") for _ in lanes) if writes else itertools.repeat(read_only(x), len(lanes))
        if type(x) is Tracer and writes:
            return (_own(x) for _ in lanes)  # what is written here is not the caller's
        return itertools.repeat(x, len(lanes))

    def _call(self, leaves: Sequence[Any]) -> tuple[list[Any], Any]:
        """The function called on one lane, as Python calls it: its results and their structure."""
        if self.writes and state.running is not None and config.doors:
            leaves = list(map(lent, leaves))
        if self.direct is None:
            self.direct = self.in_tree == tree.structure(((0,) * len(self.leaves), {}))
        if not self.direct:
            return self.flat(*leaves), self.store.tree
        result = runs(self.f)(*leaves)
        if type(result) in SCALAR_AVALS:  # the common case, at a glance
            return [result], _NUMBER
        return self._flattened(result)

    def _flattened(self, result: Any) -> tuple[list[Any], Any]:
        flat = flat_values(result)
        check_leaves(flat[0], f"vmap of {name_of(self.f)}: output", result)
        return flat

    # -- results

    def joined(self) -> tuple[list[Any], list[bool]]:
        first = self.parts[0]
        for part in self.parts:
            if part.tree != first.tree:
                one, other = _lane_name(first), _lane_name(part)
                raise TreeMismatchError(
                    f"vmap of {name_of(self.f)}: its lanes returned different structures.\n"
                    + tree.describe_difference(first.tree, part.tree, f"the output of lane {one}", f"that of lane {other}")
                )
        columns = range(len(first.outs))
        return [self._column(i) for i in columns], [True for _ in columns]

    def _column(self, i: int) -> Any:
        parts = [(p.lanes, p.outs[i], p.mapped[i]) for p in self.parts]
        shapes = [shape_of(x)[1:] if m else shape_of(x) for _, x, m in parts]
        for part, shape in zip(self.parts, shapes):
            if shape != shapes[0]:
                first = self.parts[0]
                path = tree.keystr(tree.flatten_with_path(first.tree.unflatten(range(len(first.outs))))[0][i][0])
                raise LanesError(
                    f"vmap of {name_of(self.f)}: its lanes returned arrays of different shapes{' at ' + path if path else ''}: "
                    f"{shapes[0]} in lane {_lane_name(first)}, {shape} in lane {_lane_name(part)}.\n"
                    "Remedy: return arrays of one shape, padded to the longest."
                )
        dtype = _common_dtype([x for _, x, _ in parts])
        if any([type(x) is Tracer for _, x, _ in parts]):
            return self._concatenated(parts, dtype)
        xp: Any = namespace_of([x for _, x, _ in parts])
        out = xp.empty((self.size, *shapes[0]), dtype)
        for lanes, x, _ in parts:
            out[lanes] = x
        return out

    def _concatenated(self, parts: Sequence[tuple], dtype: np.dtype) -> Any:
        """Traced results: the rows one behind the other, then in the order of the lanes."""
        rows = []
        for lanes, x, mapped in parts:
            n = len(lanes) if type(lanes) is np.ndarray else 1
            x = convert(x, dtype) if aval_of(x).dtype != dtype or aval_of(x).weak else x
            rows.append(x if mapped else broadcast_leading(x, n))
        order = np.argsort(np.concatenate([np.atleast_1d(lanes) for lanes, _, _ in parts]))
        found = rows[0] if len(rows) == 1 else concatenate(rows, axis=0)
        return found if (order[:-1] < order[1:]).all() else gather(found, order, unique=True)


def _gain(trace: LaneTrace) -> float:
    return trace.spent / max(trace.alone, 1e-9)


def _own(x: Tracer) -> Tracer:
    """A traced array in memory of its own, as a write looks at it."""
    array = concrete_value(x)
    return with_value(x, array.copy(order="K")) if type(array) is np.ndarray else snapshot(x)


def _one(x: Any, lane: int, writes: bool) -> Any:
    """One lane of x; it is in memory of its own if it may be written."""
    if type(x) is Tracer:
        found = basic_index(x, (lane, *[(0, n, 1) for n in shape_of(x)[1:]]))
        return _own(found) if writes and type(found) is Tracer else found
    found = x[lane]
    return found.copy("K") if type(found) is np.ndarray else found


def _lane_name(part: _LanesPart) -> int:
    return int(part.lanes if type(part.lanes) is int else part.lanes[0])


def _common_dtype(values: Sequence[Any]) -> np.dtype:
    """Of the results of all lanes; Python's numbers adapt."""
    avals = [aval_of(x) for x in values]
    strong = {a.dtype for a in avals if not a.weak}
    weak: set[Any] = {{"b": False, "i": 0, "f": 0.0, "c": 0j}[a.dtype.kind] for a in avals if a.weak}
    return np.result_type(*strong, *weak) if strong else np.result_type(*[np.asarray(x) for x in weak])
