"""The one loop back over the rows of a tape; and the same rows as a linear program, where masks are needed.

Idea: cotangents go from the last row to the first, each row's pull adding to those of its operands, and what a row keeps dies
with it. Structural zeros: where a row begins a mask (masks/masks.py), as a selection does, the rows are kept until the end.
If there is a NaN in the results then, a zero may have met an infinite slope, and the rows go back again by their linear parts,
with masks. If there is none, no mask would have changed anything.

A gradient within another one is asked in the same way. As the outer derivative may meet NaN where the inner one had none, its
results are one more row there (`_Unmasked`): the pull hands cotangents on to the rows that were recorded without masks, and the
linear part goes back by the inner rows again.

Invariant: both ways make the same calls, in the same order, but for the masks. Trap: where other traces have a part in the
values nobody can ask for NaN, and forward mode hands masks on to what follows, so there rows that begin masks go by their
linear parts at once, unless nothing follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.host.devices import restore_warnings, suppress_warnings
from funcad.host.real_types import without_nan
from funcad.host.where import Source, note_source, open_traces, state, unseen
from funcad.ir.aval import Aval, shape_of
from funcad.ir.jaxpr import Jaxpr, prune
from funcad.ir.tracer import Tracer, concrete_value
from funcad.unjitted.kinds import RowCotangents

fused = OnDemand("funcad.primitives.fused")
following = OnDemand("funcad.unjitted.following")
linearizing = OnDemand("funcad.unjitted.linearizing")
masks = OnDemand("funcad.masks.masks")
partial_eval = OnDemand("funcad.transforms.partial")


class Rows:
    """What a pullback has of a tape whose function has returned; the values that the rows keep are apart from it, in one list.

    So other values of the same kinds may stand in their places, as those of outer traces do.
    """

    lanes = None
    __slots__ = (
        *("pulls", "numbers", "sources", "first", "ends", "avals", "begins", "outer", "name"),
        *("counts", "rest", "kept"),
    )

    def __init__(self, tape: Any):
        self.pulls, self.numbers, self.sources = tape.pulls, tape.numbers, tape.sources
        self.first, self.ends, self.avals = tape.first, tape.ends, tape.avals
        self.begins, self.outer, self.name = tape.begins, tape.outer, tape.name
        # of each row: how many values it keeps, and what it keeps beside (indices, shapes)
        self.counts = [len(k) if p is None else p.n_kept for k, p in zip(tape.kept, tape.pulls)]
        self.rest = [k[n:] for k, n in zip(tape.kept, self.counts)]
        self.kept: Any = []

    def on(self, values: Sequence[Any], outer: bool) -> Rows:
        """A tape again: rows with values."""
        found: Any = object.__new__(Rows)
        found.pulls, found.numbers, found.sources = self.pulls, self.numbers, self.sources
        found.first, found.ends, found.avals = self.first, self.ends, self.avals
        found.begins, found.name, found.counts, found.rest = self.begins, self.name, self.counts, self.rest
        start, found.outer, kept = 0, outer, []
        for n, rest in zip(self.counts, self.rest):
            kept.append((*values[start : start + n], *rest) if n else rest)
            start += n
        found.kept = kept
        return found

    def forget(self) -> None:
        self.kept = []

    def pull(self, values: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """RowCotangents of the inputs (None: zero) for those of the results; `values` are what the rows keep."""
        return pull(self.on(values, self.outer or Tracer in map(type, values)), cotangents)

    def linear(self, values: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
        """The tangent program of the results, and its residuals."""
        return linear_of(self.on(values, self.outer))


def rows_of(tape: Any) -> tuple[Rows, list[Any]]:
    """The rows of a tape, and the values that they keep; the tape is gone."""
    rows = Rows(tape)
    values = [x for k, n in zip(tape.kept, rows.counts) for x in k[:n]]
    tape.forget()
    return rows, values


def pull(
    tape: Any,
    cotangents: Sequence[Any],
    keep: bool = False,
    rows: list[Any] | None = None,
    size: int | None = None,
    ends: bool = False,
) -> Any:
    """Cotangents of the inputs (None: zero) for those of the results; unless they are to `keep`, the rows are gone.

    `size`: for as many cotangents at once, along axis 0, of what `rows` keep; None if masks are needed. `ends`: nothing is
    computed of what comes out, if forward mode alone is around.
    """
    outer = size is None and (tape.outer or Tracer in map(type, cotangents))
    seeds, lanes = cotangents, None
    if outer and not keep and tape.lanes is not None:
        mapped = _of_lanes(tape, cotangents)
        if mapped is not None:
            lanes, outer = tape.lanes, False
            rows, seeds, size = mapped
    unmasked: Any = None
    if tape.begins and (outer or state.checked) and size is None:
        unmasked = _Unmasked.of(tape, cotangents)
        if unmasked is None and not (ends and _pushed_alone()):  # nobody can ask whether there is a NaN
            return _masked(tape, cotangents, keep)
    first, pulls, numbers = tape.first, tape.pulls, tape.numbers
    kept = tape.kept if rows is None else rows
    cts = RowCotangents([None] * (first + len(pulls)))
    own = cts.own = set()
    for n, c in zip(tape.ends, seeds):
        if cts[n] is None:
            cts[n] = c
        else:
            cts.add(n, c)
    # the caller may hold these
    own.clear()
    if rows is None and (keep or tape.begins):
        kept = list(kept)
    n = first + len(pulls)
    plain = not outer and size is None
    saved, token = state.source if outer else None, suppress_warnings() if pulls else None
    try:
        for pulling, to in zip(reversed(pulls), reversed(numbers)):
            n -= 1
            ct, values = cts.pop(), kept.pop()
            # of several results the last one has the pull
            if pulling is None:
                continue
            if pulling.many:
                ct = cts.several(ct, len(pulling.there))
            if ct is None:
                continue
            if plain and pulling.direct is not None:  # this is `WrittenPull.run`, without a call
                n_read = pulling.n_read
                found = pulling.direct(np, ct, values[0]) if n_read == 1 else pulling.direct(np, ct, *values[:n_read])
                if len(to) == 1 and cts[to[0]] is None:
                    cts[to[0]] = found
                else:
                    for number, c in zip(to, (found,) if len(to) == 1 else found):
                        if cts[number] is None:
                            cts[number] = c
                        elif c is not None:
                            cts.add(number, c)
                ct = values = found = c = None
                continue
            cts.at = n
            if plain:
                pulling.run(cts, ct, to, values)
            elif outer:  # what is recorded in outer traces has the line of the operation
                source = tape.sources[n - first]
                state.source = source and Source(*source)
                pulling.traced(cts, ct if pulling.many else (ct,), to, values)
            elif type(values) is _Lanes:
                values.pull(pulling, cts, ct if pulling.many else (ct,), to, size or 0, tape.sources[n - first])
            elif pulling.over is not None:
                pulling.over(cts, ct, to, values)
            else:
                pulling.columns(cts, ct if pulling.many else (ct,), to, values, size)
            ct = values = None
    except Exception as error:
        source = tape.sources[n - first]
        note_source(error, source and Source(*source))
        raise
    finally:
        if outer:
            state.source = saved
        if pulls:
            restore_warnings(token)
    found = list(cts[:first])
    if unmasked is not None:
        found = unmasked.written(found)
    elif tape.begins and not all([c is None or without_nan(c) or masks.has_no_nan(c) for c in found]):
        found = None
    if found is None:
        return _masked(tape, cotangents, keep) if size is None or lanes is not None else None
    if lanes is not None:
        for i, c in enumerate(found):
            found[i] = c if c is None else lanes.of_values(c, tape.inputs[i])
    if not keep:
        tape.forget()
    return found


def _pushed_alone() -> bool:
    """Is one forward mode, which runs beside the user's code, all that is around? It has its tangents at hand."""
    trace = state.running
    if open_traces or state.checked:
        return False
    return type(trace) is following.FollowingTrace and trace.outer is None


class _Unmasked:
    """The row of what a gradient gave without masks, on a tape: the identity, whose linear part goes back with masks.

    It keeps what the gradient's rows keep, and its cotangents. `numbers`: of what the results are without it, then of what is
    kept and traced, which is at `places`.
    """

    __slots__ = ("rows", "which", "kept", "n_kept", "places", "tape", "there", "many")
    rows: Rows
    which: list[int]  # of each value that the rows keep, and of each cotangent: its place in `kept`
    kept: Sequence[Any]
    n_kept: int
    places: list[int]
    tape: Any
    there: tuple[int, ...]
    many: bool
    sources = ()
    free = stacks = wide = False
    begins = plain = True
    part = direct = over = None

    @classmethod
    def of(cls, tape: Any, cotangents: Sequence[Any]) -> Any:
        """None, if anything but one tape, which runs beside the user's code, is around this one."""
        trace, found = state.running, cls()
        if type(trace) is not linearizing.LinearizingTrace or trace.outer is not None:
            return None
        if open_traces or state.checked or trace.tape is None or trace.tape.notes is not None:
            return None
        found.rows = rows = Rows(tape)
        values = [x for k, n in zip(tape.kept, rows.counts) for x in k[:n]]
        once: dict[int, int] = {}  # a value that several rows keep is one
        given: list[Any] = []
        for x in (*values, *cotangents):
            if once.setdefault(id(x), len(given)) == len(given):
                given.append(x)
            if type(x) is Tracer and x.owner is not trace:
                return None
        found.which = [once[id(x)] for x in (*values, *cotangents)]
        found.tape, found.kept, found.n_kept = trace.tape, given, len(given)
        found.places = [i for i, x in enumerate(given) if type(x) is Tracer]
        return found

    def written(self, results: list[Any]) -> list[Any] | None:
        """The results as the user gets them; None if there is a NaN among them, or if a rule ended the tape."""
        tape, given = self.tape, self.kept
        if tape.trace.tape is not tape or not all([c is None or without_nan(concrete_value(c)) for c in results]):
            return None
        there = [i for i, c in enumerate(results) if type(c) is Tracer]
        self.there, self.many = tuple(there), len(there) > 1
        rest = [x.primal if type(x) is Tracer else x for x in given]
        rest = [tape.safe(p, x) if type(p) is np.ndarray else p for p, x in zip(rest, given)]
        numbers = (
            *[results[i].tangent for i in there],
            *[given[i].tangent for i in self.places],
        )
        self.tape, self.kept = None, ()
        results = list(results)
        for i in there:
            c, last = results[i], i == there[-1]
            operation: Any = fused.optimization_barrier, (c,), {}, None, None
            row: Any = (self, numbers, tuple(rest)) if last else (None, (), ())
            results[i] = tape.row(*row, operation, c.primal, tape.own[c.tangent], c.source)
            if c.tangent in tape.made:
                tape.made[results[i].tangent] = tape.made[c.tangent]
        return results

    def run(self, cts: RowCotangents, ct: Any, numbers: Sequence[int], kept: Sequence[Any]) -> None:
        self.traced(cts, ct if self.many else (ct,), numbers, kept)

    def traced(self, cts: RowCotangents, given: Sequence[Any], numbers: Sequence[int], kept: Sequence[Any]) -> None:
        for n, c in zip(numbers, given):
            if c is not None:
                cts.add(n, c)

    def columns(self, cts: RowCotangents, given: Any, numbers: Sequence[int], kept: Sequence[Any], size: int) -> None:
        self.traced(cts, given, numbers, kept)

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """Those of the results with masks, recorded where `ts` are."""
        primals = [kept[i] for i in self.places]
        trace = linearizing.LinearizingTrace(self.rows.name)
        recording = trace.recording = ts[0].owner
        trace.protector = linearizing.Protector(primals)
        m = sum(self.rows.counts)

        def again(*traced: Any) -> list[Any]:
            values = list(kept)
            for i, x in zip(self.places, traced):
                values[i] = x
            values = [values[i] for i in self.which]
            found = transposed(*linear_of(self.rows.on(values[:m], True)), values[m:])
            return [found[i] for i in self.there]

        n = len(self.there)
        _, found = following.run_following(trace, again, primals, ts[n:], state.source)
        for i, t in enumerate(found):
            if t is None:  # nothing leads there
                zeros = recording.atom(np.zeros(ts[i].aval.shape, ts[i].aval.dtype))
                found[i] = Tracer(recording, zeros, None, None)
        return found


def columns(tape: Any, values: Sequence[Any], size: int, seeds: Sequence[Any]) -> list[Any] | None:
    """RowCotangents of the inputs for `size` cotangents of the results at once, along axis 0: a Jacobian in one pass.

    None where that cannot be: outer traces have a part in the values, a row is of no kind, or a mask is needed.
    """
    if tape.outer or state.checked or any([getattr(p, "alone", False) for p in tape.pulls]):
        return None
    try:
        return pull(tape, seeds, True, tape.on(values, False).kept, size)
    except Exception:  # a rule that needs values; what is truly wrong is raised by the other way
        return None


def _of_lanes(tape: Any, cotangents: Sequence[Any]) -> tuple[list[Any], list[Any], int] | None:
    """(what rows keep, cotangents, how many) for `pull` of all lanes of an un-jitted vmap at once, as columns.

    None where that cannot be: outer traces have a part in the values, there are stacks of loops, or a mask is needed.
    """
    trace, size = tape.lanes, len(tape.lanes.lanes)
    # what a row keeps dies with it, unless a mask may be needed
    rows = list(tape.kept) if tape.begins else tape.kept
    if state.axis_env:  # collectives know the axis by its trace
        return None
    seeds = []
    # each lane has the same cotangent, in an array of its own
    for c in cotangents:
        if type(c) is Tracer or c.shape:
            return None
        seeds.append(np.ndarray(size, c.dtype))
        seeds[-1].fill(c)
    # what is known of all rows before the first goes: a way that ends in the middle would have to begin anew
    known: dict[int, Any] = {}
    now = len(trace.kept)
    for i, (kept, pulling) in enumerate(zip(rows, tape.pulls)):
        # of one row: nobody keeps what it is for columns
        alone = getattr(pulling, "alone", False)
        if not alone and Tracer not in map(type, kept):
            continue
        values, lanes = [], False
        for x in kept:
            if type(x) is Tracer:
                mapped = x.owner is trace and x.tangent.step is not None
                x = x.tangent.value if mapped and x.tangent.step == now else trace.held(x)[0]
                if type(x) is Tracer:
                    return None
                if mapped:
                    lanes = True
                    # element by element the axes of a lane line up with the others' from the last one
                    if pulling.wide and pulling.free and x.ndim <= len(kept[pulling.n_kept]):
                        x = x.reshape(size, *[1] * (len(kept[pulling.n_kept]) + 1 - x.ndim), *x.shape[1:])
            values.append(x)
        if alone and pulling.stacks:
            return None
        known[i] = _Lanes(kept, trace) if alone or lanes and not pulling.free else tuple(values)
    for i, values in known.items():
        rows[i] = values
    known.clear()
    return rows, seeds, size


class _Lanes:
    """What a row keeps, if a part of it are lanes, and the pull is not element by element."""

    __slots__ = ("kept", "trace")

    def __init__(self, kept: Sequence[Any], trace: Any):
        self.kept = kept
        self.trace = trace

    def pull(
        self, pulling: Any, cts: RowCotangents, given: Sequence[Any], numbers: Sequence[int], size: int, source: Any
    ) -> None:
        """What `Pull.columns` does: recorded, so that the batching rules say what the pull does to lanes, as going forward."""
        found = RowCotangents([None] * len(numbers))
        found.own, found.at = set(), -1
        cotangents = [None if c is None else self.trace.of_values(c) for c in given]
        saved, state.source = state.source, source and Source(*source)
        try:
            pulling.traced(found, cotangents, range(len(numbers)), self.kept)
        finally:
            state.source = saved
        for n, c in zip(numbers, found):
            if c is not None:
                value, mapped = self.trace.held(c)
                cts.add(n, value if mapped else np.broadcast_to(value, (size, *shape_of(value))))


def linear_program(tape: Any, recording: Any = None) -> tuple[list[Any], Any]:
    """(the tangents of all numbers, the trace they are recorded in) by the linear parts of the rows."""
    if recording is None:
        recording = partial_eval.TangentTrace(tape.name, protect=lambda x: x)
    tangents: list[Any] = [recording.new_input(Aval(a.shape, a.dtype)) for a in tape.avals]
    saved, token = state.source, suppress_warnings()
    try:
        for i, pulling in enumerate(tape.pulls):
            tangents.append(None)
            if pulling is None:
                continue
            source = tape.sources[i]
            state.source = source and Source(*source)
            m = len(pulling.there)
            tangents[len(tangents) - m :] = pulling.tangents(tape.kept[i], [tangents[n] for n in tape.numbers[i]])
    finally:
        state.source = saved
        restore_warnings(token)
    return tangents, recording


def linear_of(tape: Any, keep: bool = False) -> tuple[Jaxpr, list[Any]]:
    """The tangent program of the results, and its residuals; unless they are to `keep`, the rows are gone."""
    tangents, recording = linear_program(tape)
    try:
        jaxpr, residuals = recording.jaxpr([tangents[n] for n in tape.ends])
    finally:
        recording.closed = True
    if not keep:
        tape.forget()
    return partial_eval.drop_unused_residuals(prune(jaxpr), residuals)


def _masked(tape: Any, cotangents: Sequence[Any], keep: bool) -> list[Any]:
    return transposed(*linear_of(tape, keep), cotangents)


def transposed(jaxpr: Jaxpr, residuals: list[Any], cotangents: Sequence[Any]) -> list[Any]:
    """RowCotangents of the linear inputs of a recorded tangent program; `residuals`, its leading inputs, are emptied."""
    n = len(jaxpr.inputs) - len(residuals)
    flags = [False] * len(residuals) + [True] * n
    values = residuals + [None] * n
    residuals.clear()
    transpose: Any = import_module("funcad.transforms.transpose")
    users = any([e.primitive.multiple for e in jaxpr.equations])  # such as custom rules
    with nullcontext() if users else unseen():
        return transpose.transpose_eval(jaxpr, flags, values, cotangents, all_linear=True)
