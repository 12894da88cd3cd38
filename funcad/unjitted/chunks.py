"""Chunks: the rows of a long recording go backwards piece by piece, each piece by a program that is found by its own key.

Idea: a program of all rows is found again only if all is the same, and takes long to derive. So a recording of many rows is
cut (see chunk_cuts.py), and a chunk is a small tape: what it takes of earlier rows are its inputs, numbered in the order of
their first use, so that the turns of a loop have one key, wherever they stand. Of cotangents of its rows its program makes
those of its inputs. An input whose cotangent later chunks have begun is a result too, so that sums are added in the order in
which one program would add them. A chunk that comes for the first time, or has no program, goes by the rules of its rows.

Invariants: a key says which cotangents are there, and what their masks are: a mask crosses the border as it is, its bools as
one more input, or in the key where shapes and parameters alone decide them. So there is no NaN that one program would not give.
Limits: a recording within another transform (nested.py), or for the columns of a Jacobian, is one program or none. Trap: what
is remembered of chunks by the numbers that their rows have goes when a program leaves the table, or it would keep it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from funcad.host.devices import restore_warnings, suppress_warnings
from funcad.host.where import Source, state
from funcad.ir.aval import Aval, aval_of, shape_of
from funcad.ir.jaxpr import prune
from funcad.ir.trace import AbstractTrace
from funcad.ir.tracer import Tracer
from funcad.masks.masked_rules import rule_of
from funcad.masks.masks import EVERY, LazyBools, Mask, has_no_nan
from funcad.transforms.transpose import transpose_eval
from funcad.unjitted.chunk_cuts import cuts, line_of
from funcad.unjitted.row_by_row import RowByRow, one_by_one, reads_parts
from funcad.unjitted.structural import UNSEEN, cached, forgetting
from funcad.unjitted.tape_program import LinearTrace, derive, linear_program, ready, results_by
from funcad.unjitted.tape_steps import READ, RESULT, SPLIT, STEP, Recorded, in_step, operands_of, steps_of, wiring

_LARGE = 1 << 20  # bytes
SIGHTS = 16  # by rows, which together cost less than deriving a program does
CHUNKED = 256  # rows, from which on a recording is cut
_MANY = 2 * SIGHTS  # chunks, among which turns that are alike have been seen
_SELDOM = 8
_MOST_ROOTS = 1000
_MOST_KNOWN = 120_000  # rows of chunks that are known by their numbers: 250 bytes each


class Kind(NamedTuple):
    """Of the mask of a cotangent that crosses a border: as in `Mask`, and the bools where they are known."""

    whole: bool
    dirty: int
    bools: bytes | None


class Chunk:
    """Some rows, as numbered in a recording, and where in it are the values that they need."""

    __slots__ = (
        *("steps", "start", "stop", "place", "end", "names", "places", "owners", "kinds", "known", "plain", "next"),
        *("by_rows", "parts", "apart", "reads", "bases"),
    )

    def __init__(self, tape: Any, start: int, stop: int, place: int, ends: Sequence[int], apart: bool):
        self.steps = tape.steps[STEP * start : STEP * stop]
        self.start = start
        self.stop = stop
        self.place = place  # of the first of its values
        self.end = _end(tape, stop - 1)
        first = tape.first
        names: dict[int, None] = {}
        for _, _, _, *operands, _ in steps_of(self.steps):
            for a in operands_of(*operands):
                n = a[0] if type(a) is tuple else a
                if type(n) is int and n < first + start:
                    names[n] = None
        self.names = list(names)  # the numbers of its inputs
        inner = [tape.places[n] for n in names]
        self.places = inner
        self.owners = [bisect_right(ends, n - first) if n >= first else -1 for n in names]  # the chunks that made them
        self.kinds = []
        for n, i in zip(names, inner):
            value = tape.values[i]
            self.kinds.append((n < first, _kind(value)))
        self.by_rows = one_by_one(self.steps)
        large = {n for n, v in zip(names, map(tape.values.__getitem__, inner)) if type(v) is np.ndarray and v.nbytes > _LARGE}
        self.parts, self.bases, self.reads = False, set[int](), dict[int, Any]()
        if self.by_rows and large:
            self._look_for_reads(tape, large)
        self.plain: tuple = (None, None)  # the same without masks: which cotangents were there; the program
        self.known: tuple = (None, None, ())  # which cotangents were there, and of what masks; the program; what it makes
        self.next: tuple[Chunk, ...] = ()
        self.apart = apart  # an operation that no program may be kept of

    def _look_for_reads(self, tape: Any, large: set[int]) -> None:
        """Of a large array that is only read in parts, its `bases`, a program would make a whole cotangent: it makes those of
        the `reads`, rows whose values are of these kinds. `parts`: there are reads of others."""
        readers, others = dict[int, list[int]](), set[Any]()
        for n, step in enumerate(steps_of(self.steps), tape.first + self.start):
            named = [a[0] if type(a) is tuple else a for a in operands_of(*step[3:5])]
            plain = step[0] is not SPLIT and len(named) < 3 and not any([type(m) is int for m in named[1:]])
            if reads_parts(step) and named[0] in large and plain:
                readers.setdefault(named[0], []).append(n)
            else:
                self.parts = self.parts or reads_parts(step)
                others.update(named)
        self.bases = readers.keys() - others
        self.parts = self.parts or len(self.bases) < len(readers)
        for n in [] if self.parts else sorted([n for base in self.bases for n in readers[base]]):
            self.reads[n] = _kind(tape.values[tape.places[n]])

    def values(self, of_all: list[Any]) -> list[Any]:
        """Of its inputs, and its own."""
        return [*[of_all[place] for place in self.places], *of_all[self.place : self.end]]

    def numbers(self, first: int) -> dict[int, int]:
        """Its inputs and rows numbered from 0 on."""
        return {n: i for i, n in enumerate([*self.names, *range(first + self.start, first + self.stop)])}

    def made(self, kinds: Sequence[Any]) -> list[tuple]:
        """Of each cotangent that a program makes: its row, whose chunk, and what its mask is."""
        return [(n, owner, kind) for n, owner, kind in zip(self.names, self.owners, kinds) if kind is not None]

    def local(self, first: int, reads: bool = False) -> list[Any]:
        """Its steps, in these numbers; `reads`: those which are told apart as such."""
        number, found = self.numbers(first), list[Any]()
        for n, (primitive, bits, shape, *operands, kind) in enumerate(steps_of(self.steps), first + self.start):
            if reads and n in self.reads:
                primitive, bits = READ, self.reads[n]
            new: list[Any] = []
            for a in operands_of(*operands):
                if type(a) is int:
                    new.append(number[a])
                elif type(a) is tuple and a[0] is not None:
                    new.append((number[a[0]], *a[1:]))
                else:
                    new.append(a)
            found += (primitive, bits, shape, *in_step(new), kind)
        return found


class Chunks(NamedTuple):
    """A recording that was cut, and the rows whose cotangents are given."""

    chunks: list[Chunk] | None  # None: not cut, all goes row by row
    ends: list[int]
    root: Root


class Root:
    """What is known of recordings whose inputs are of some kinds."""

    __slots__ = ("last", "began", "masks", "calls", "unlike")

    def __init__(self) -> None:
        self.last: list[Chunk] = []  # what was found last
        self.began: tuple[Chunk, ...] = ()
        self.masks = False  # were masks asked for?
        self.calls = 0
        self.unlike = 0  # of how many rows a recording was of whose chunks none had a program: no turn is like another


def _kind(x: Any) -> Any:
    return (x.shape, x.dtype.char) if type(x) is np.ndarray else type(x)


_roots: dict[tuple, Root] = {}  # by the kinds of the inputs
_known = [0]  # rows in `_roots`


def _forget() -> None:
    if len(_roots) > _MOST_ROOTS:
        _roots.clear()
    for root in list(_roots.values()):
        root.last, root.began, root.masks = [], (), False
    _known[0] = 0


forgetting(_forget)


def chunks_of(tape: Any, ends: Sequence[Any]) -> Chunks:
    """The recording, cut if there may be programs for pieces: where there were none, that is tried again at times."""
    root = _roots.setdefault((tape.first, *tape.key), Root())
    root.calls += 1
    n = len(tape.steps) // STEP
    if root.calls % _SELDOM and root.unlike == n and not (root.masks or tape.apart) and one_by_one(tape.steps):
        return Chunks(None, list(ends), root)
    return Chunks(_cut(tape, root, tape.apart), list(ends), root)


def _cut(tape: Any, root: Root, apart: Any) -> list[Chunk]:
    steps = tape.steps
    n = len(steps) // STEP
    last = root.last  # once: other threads put theirs there
    if last and last[-1].stop == n and all([steps[STEP * c.start : STEP * c.stop] == c.steps for c in last]):
        return last
    found: list[Chunk] = []
    stops: list[int] = []
    children = root.began
    start, place = 0, tape.first
    for stop in _cuts(tape.sources, apart):
        while stop < n and steps[STEP * stop] is RESULT:
            stop += 1
        if stop <= start:
            continue
        here = steps[STEP * start : STEP * stop]
        chunk = next((c for c in children if c.stop == stop and c.steps == here), None)
        if chunk is None:
            chunk = Chunk(tape, start, stop, place, stops, start in apart)
            if _known[0] + stop - start > _MOST_KNOWN:
                _forget()
            _known[0] += stop - start
            if found:
                found[-1].next = (chunk, *children[:3])
            else:
                root.began = (chunk, *children[:3])
        found.append(chunk)
        children, start = chunk.next, stop
        stops.append(stop)
        place = chunk.end
    root.last = found
    return found


def _cuts(sources: Sequence[Any], apart: Any) -> Iterator[int]:
    """Where chunks end: before and after an operation apart, and within long parts."""
    start = 0
    for i in (*apart, len(sources)):
        if i - start >= CHUNKED or not apart:
            yield from [start + stop for stop in cuts(list(map(line_of, sources[start:i])))]
        yield i
        if i < len(sources):
            yield i + 1
        start = i + 1


def _end(tape: Any, i: int) -> int:
    """Where the values of the operation of this row end."""
    while tape.steps[STEP * i] is RESULT:
        i -= 1
    kind, place = tape.steps[STEP * i + STEP - 1], tape.places[tape.first + i]
    return place + 1 if type(kind) is not tuple else place - kind[1][0] + len(kind[0])


def pull(tape: Any, given: Sequence[Any]) -> list[Any]:
    """Cotangents of the inputs (None: zero), for those `given` of the ends."""
    found, rows = tape.found, Recorded(tape.first, tape.places, tape.sources, tape.params, tape.steps, tape.values)
    tape.forget()
    if not found.root.masks and not state.checked and Tracer not in map(type, given):
        cts = _without_masks(found, RowByRow(rows), given)
        if all([c is None or has_no_nan(c) for c in cts]):  # no mask would have changed it
            return cts
        found.root.masks = True
    return _with_masks(found.chunks or _cut(rows, found.root, ()), found.ends, rows, given)


def _without_masks(found: Chunks, by_row: RowByRow, given: Sequence[Any]) -> list[Any]:
    """`pull`, as if no cotangent were zero where no path leads."""
    chunks, numbers, root = found
    rows, cts = by_row.rows, by_row.cts
    if chunks is None:
        for n, ct in zip(numbers, given):
            by_row.add(n, ct)
        token = suppress_warnings()
        try:
            by_row.pull(range(rows.first + len(rows.sources) - 1, rows.first - 1, -1))
        finally:
            restore_warnings(token)
        return [cts.get(n) for n in range(rows.first)]
    first, values = rows.first, rows.values
    pending: list[Any] = [set() for _ in chunks]  # of each chunk, the rows that have cotangents
    pending.append(set())  # of the inputs, which belong to chunk -1
    stops = [c.stop for c in chunks]
    for n, ct in zip(numbers, given):
        pending[bisect_right(stops, n - first) if n >= first else -1].add(n)
        by_row.add(n, ct)
    token, unlike = suppress_warnings(), len(chunks) > _MANY
    try:
        for i in reversed(range(len(chunks))):
            chunk, mine = chunks[i], sorted(pending[i])
            if not mine or not chunk.names:
                continue
            there = [*mine, *[n for n in chunk.names if n in cts and n not in chunk.bases]]
            plain = chunk.plain  # once: threads share it
            if (plain[0] != there or not plain[1]) and not chunk.parts:
                plain = chunk.plain = there, _program_of(chunk, rows, there)
            unlike = unlike and chunk.by_rows and not plain[1]
            if not plain[1] and chunk.by_rows:
                by_row.pull(range(first + chunk.stop - 1, first + chunk.start - 1, -1))
            else:
                here = chunk.values(values)
                if plain[1]:
                    run, nonzero = plain[1]
                    results = run([*here, *[cts[n] for n in there]])
                    made = [n for n, z in zip([*chunk.names, *chunk.reads], nonzero) if z]
                else:
                    number, small = chunk.numbers(first), _Small(chunk, rows, here)
                    small.wanted = [0] * len(small.wanted)
                    ends, given = [(number[n], 0) for n in there], [cts[n] for n in there]
                    kinds, results = _by_rules(small, ends, given, [None] * len(there))
                    made = [n for n, kind in zip(chunk.names, kinds) if kind is not None]
                for n in mine:
                    del cts[n]
                by_row.own.difference_update(mine, made)
                cts.update(zip(made, results))
                by_row.pull(reversed(chunk.reads))
            for n, owner in zip(chunk.names, chunk.owners):
                if n in cts:
                    pending[owner].add(n)
        root.unlike = stops[-1] if unlike else 0
    finally:
        restore_warnings(token)
    return [cts.get(n) for n in range(first)]


def _program_of(chunk: Chunk, rows: Recorded, there: Sequence[int]) -> Any:
    """(run, which of its inputs get a cotangent) of a chunk, without masks; None if there is no program (yet)."""
    if chunk.apart:
        return None
    number = chunk.numbers(rows.first)
    local = [number[n] for n in there]
    key = "rows", len(chunk.names), *chunk.kinds, *chunk.local(rows.first, True), *local
    found = cached(key, lambda: derive(_Small(chunk, rows, chunk.values(rows.values), True), local), SIGHTS)
    return None if found is UNSEEN or not found else found


def _with_masks(chunks: list[Chunk], numbers: Sequence[int], rows: Recorded, given: Sequence[Any]) -> list[Any]:
    first, values = rows.first, rows.values
    cts: dict[int, Any] = {}  # by the numbers of the rows
    kinds: dict[int, Kind] = {}  # of those that have masks
    bools: dict[int, Any] = {}  # of those whose kinds do not say them
    pending: list[Any] = [[] for _ in chunks]  # of each chunk, the rows that have cotangents
    pending.append([])  # of the inputs, which belong to chunk -1
    stops = [c.stop for c in chunks]
    for n, ct in zip(numbers, given):
        pending[bisect_right(stops, n - first) if n >= first else -1].append(n)
        cts[n] = ct
    for chunk in reversed(chunks):
        mine = sorted(pending.pop(-2))
        here = chunk.values(values)
        del values[chunk.place :]
        if not mine or not chunk.names:  # nothing leads there, or on
            continue
        there = [*mine, *[n for n in chunk.names if n in cts]]  # later chunks have begun the latter
        marks = [kinds.get(n, 0) for n in there] if kinds else None
        local: list[tuple[int, Any]]
        pattern, run, made = chunk.known
        if chunk.apart:
            number = chunk.numbers(first)
            local = [(number[n], 0) for n in there]
        elif pattern != (there, marks):
            number = chunk.numbers(first)
            local = [(number[n], mark) for n, mark in zip(there, marks or [0] * len(there))]
            key = "chunk", len(chunk.names), *chunk.kinds, *chunk.local(first), *local
            found = cached(key, partial(_derived, chunk, rows, here, local))
            run = None
            if found is not UNSEEN and found:
                run, made = found[0], chunk.made(found[1])
                chunk.known = (there, marks), run, made
        if run is None:
            small = _Small(chunk, rows, here)
            masks = [_mask(kinds.get(n, 0), shape_of(cts[n]), bools.get(n)) for n in there]
            of_each, results = _by_rules(small, local, [cts[n] for n in there], masks)
            made = chunk.made(of_each)
        else:
            here += [cts[n] for n in there]
            if bools:
                here += [bools[n] for n in there if n in bools]
            results = run(here)
        for n in mine:
            del cts[n]
        if kinds:
            for n in there:
                kinds.pop(n, None)
                bools.pop(n, None)
        for (n, owner, kind), ct in zip(made, results):
            if n not in cts:
                pending[owner].append(n)
            cts[n] = ct
            if kind:
                kinds[n] = kind
        if len(results) > len(made):
            bools.update(zip([n for n, _, kind in made if kind and kind.bools is None], results[len(made) :]))
    return [cts.get(n) for n in range(first)]


class _Small:
    """A chunk as a tape of its own; `values` are those of its inputs, and its own."""

    __slots__ = (*Recorded._fields, "wanted")

    def __init__(self, chunk: Chunk, rows: Recorded, values: list[Any], reads: bool = False):
        n = self.first = len(chunk.names)
        here = range(rows.first + chunk.start, rows.first + chunk.stop)
        self.places = [*range(n), *[rows.places[i] - chunk.place + n for i in here]]
        self.sources = rows.sources[chunk.start : chunk.stop]
        self.params = {n + i - here.start: rows.params[i] for i in here if i in rows.params}
        self.steps = chunk.local(rows.first, reads)
        self.values = values
        self.wanted = [0 if k[0] else EVERY for k in chunk.kinds]  # of the recording's inputs nobody needs a mask


def _derived(chunk: Chunk, rows: Recorded, values: list[Any], pattern: Sequence[tuple]) -> Any:
    """(run, of each input: None without a cotangent, else as `kinds` in the pattern).

    Inputs of the program: the values, the cotangents in the pattern, bools of their masks.
    """
    tape = _Small(chunk, rows, values)
    outer = AbstractTrace("the backward pass")
    try:
        linear, residuals = linear_program(tape, [n for n, _ in pattern], outer)
        seeds = [outer.new_input(o.aval) for o in linear.outputs]
        masks: list[Mask | None] = []
        for (_, kind), o in zip(pattern, linear.outputs):
            bools = None
            if kind and kind.bools is None:
                bools = outer.new_input(Aval(() if kind.whole else o.aval.shape, np.dtype(bool)))
            masks.append(_mask(kind, o.aval.shape, bools))
        kinds, outs = _transposed(tape, linear, residuals, seeds, masks)
        derived, consts = outer.jaxpr(outs)
        return ready(tape, prune(derived), consts), kinds
    finally:
        outer.close()


def _by_rules(
    tape: _Small, pattern: Sequence[tuple], cts: Sequence[Any], masks: Sequence[Mask | None]
) -> tuple[list[Any], list[Any]]:
    """What a program would give: of each input what there is, and all that there is."""
    inner = LinearTrace("linearize")
    values, several = tape.values, []
    saved, token = state.source, suppress_warnings()
    try:
        tangents: list[Any] = [inner.new_input(aval_of(v).update()) for v in values[: tape.first]]
        for source, step in zip(tape.sources, wiring(tape)):
            state.source = source and Source(*source)
            if step.primitive is not RESULT:
                several = results_by(step, values, [None if n is None else tangents[n] for _, n in step.operands], rule_of)
            tangents.append(several[step.result - step.first])
        there = [i for i, (n, _) in enumerate(pattern) if tangents[n] is not None]
        linear, residuals = inner.jaxpr([tangents[pattern[i][0]] for i in there])
        return _transposed(tape, linear, residuals, [cts[i] for i in there], [masks[i] for i in there])
    finally:
        inner.close()
        state.source = saved
        restore_warnings(token)


def _transposed(
    tape: _Small, linear: Any, residuals: list[Any], cts: Sequence[Any], masks: Sequence[Mask | None]
) -> tuple[list[Any], list[Any]]:
    """Of each input what there is of its cotangent; then all that there is."""
    n = len(tape.wanted)
    flags = [False] * len(residuals) + [True] * n
    pairs = transpose_eval(linear, flags, [*residuals, *[None] * n], cts, True, masks, tape.wanted)
    kinds: list[Any] = []
    found: list[Any] = []
    for ct, mask in pairs:
        kind: Any = None if ct is None else 0
        if ct is not None and mask is not None:
            bools = mask.bools.get(() if mask.whole else shape_of(ct))
            fixed = mask.bools.fixed and (type(bools) is np.ndarray or type(bools) is np.bool_)
            if not (fixed and bools.all()):
                kind = Kind(mask.whole, mask.dirty, bools.tobytes() if fixed else None)
                if not fixed:
                    found.append(bools)
        kinds.append(kind)
    return kinds, [*[ct for ct, _ in pairs if ct is not None], *found]


def _mask(kind: Any, shape: tuple, bools: Any) -> Mask | None:
    if not kind:
        return None
    if kind.bools is not None:
        bools = np.frombuffer(kind.bools, np.bool_).reshape(() if kind.whole else shape)
    return Mask(LazyBools(lambda: bools, fixed=kind.bools is not None), kind.whole, kind.dirty)
