"""The loops of a fused group of kind "elementwise", written into a function.

    group = analysed(jaxpr)  # what the group reads and gives, without extents
    emit_elementwise(function, group, host, lanes, unroll, modes, inputs, outputs, extents, strides)

* `inputs`: one pointer per access, `outputs`: one per output of the group (SSA names). An *access* is one way in which the
  group reads an input: as it is, or by one `broadcast_in_dim`; `group.accesses` lists them as (number of the input, axes or
  None).
* `extents`: the iteration space, outermost axis first, as SSA names or numbers; none is 0 and the last is at least `lanes *
  unroll`. It need not be the group's shape: axes may be reordered and collapsed, since an access is nothing but strides.
* `modes`: for each access a string with one letter per axis: "0" the same element along it, "1" adjacent elements (last axis
  only), "s" a stride known at run time; `strides[access][axis]` in elements is needed for "s" only.
* Outputs of full shape are written contiguously in the order of the iteration. An accumulation writes one element, at
  `outputs[k]`; a sum over `parts` calls is the caller's to add up.
* `lo` and `hi` restrict the outermost axis; `nontemporal` lists outputs that bypass the caches: for one axis, lo a multiple of
  `lanes * unroll`, and memory aligned to two vectors.
* With `ahead` the operands are not in the nearer caches, and the code asks for them AHEAD of their use.

Idea: the code of the elements is written once. Vectors step through a row, and the last one is moved back so that it ends
where the row ends: it computes some elements again, which changes nothing, since outputs do not overlap inputs (where they do,
`over`, the rest of the row is done one by one). Only sums must not count them twice, and select. An operation is written for
all `unroll` vectors of a step before the next one, so that a chain of operations waits for itself less often. What does not
depend on the inner axes is computed outside of them. Sums run in several vector accumulators; every BLOCK steps these are
added, with Neumaier's compensation, to a second level, so the error does not grow with the number of elements. Invariant: sums
depend on lo, hi, the layout and the vector width only. Traps: NumPy's sums begin with +0.0, so one of -0.0 alone is 0.0; an
infinity must not meet its own compensation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.backends.native import ir
from funcad.backends.native.emitter import Emitter
from funcad.backends.native.lane_types import Lane
from funcad.backends.plans.element_plan import Group, Unsupported, analyse, operand_dtypes
from funcad.ir.jaxpr import Jaxpr, Literal, Var
from funcad.primitives.atoms import UFUNCS, idempotent

AHEAD = 2048  # bytes: large polynomials take 10 to 20 per cent less time with 1 to 2 KiB than without
BLOCK = 64  # steps of one accumulator before it is added to the second level


def analysed(jaxpr: Jaxpr) -> Group:
    """`analyse`; raises Unsupported for dtypes without native code."""
    group = analyse(jaxpr)
    for dtype in group.dtypes:
        if dtype.kind not in "biufc" or dtype.itemsize > 16 or dtype.kind == "f" and dtype.itemsize not in (4, 8):
            raise Unsupported(f"{dtype} has no native code")
        if dtype.kind == "c" and dtype.itemsize not in (8, 16):
            raise Unsupported(f"{dtype} has no native code")
    return group


def emit_elementwise(
    function: ir.Function,
    group: Group,
    host: Any,
    lanes: int,
    unroll: int,
    modes: Sequence[str],
    inputs: Sequence[str],
    outputs: Sequence[str],
    extents: Sequence[str | int],
    strides: Sequence[Sequence[str | int]],
    lo: str | int = 0,
    hi: str | int | None = None,
    nontemporal: Sequence[int] = (),
    ahead: bool = False,
    over: bool = False,
) -> None:
    """Write the loops of a group; the module's text has the meaning of the arguments.

    `over`: results may be written over what is read, element by element, so each is computed once; of one axis, without sums.
    """
    hi = extents[0] if hi is None else hi
    writer = _ElementsWriter(function, group, host, lanes, unroll, modes, inputs, extents, strides)
    writer.outputs = list(outputs)
    writer.nontemporal = frozenset(nontemporal)
    writer.ahead = ahead
    if not over:
        writer.run(lo, hi)
        return
    rest = function.put(f"urem i64 {function.put(f'sub i64 {hi}, {lo}')}, {writer.width}")
    middle = function.put(f"sub i64 {hi}, {rest}")
    writer.run(lo, middle)
    single = _ElementsWriter(function, group, host, 1, 1, modes, inputs, extents, strides)
    single.outputs, single.nontemporal, single.ahead = writer.outputs, writer.nontemporal, False
    single.run(middle, hi)


class _ElementsWriter:
    """One use of emit_elementwise."""

    outputs: list[str]
    nontemporal: frozenset[int]
    ahead: bool

    def __init__(
        self,
        function: ir.Function,
        group: Group,
        host: Any,
        lanes: int,
        unroll: int,
        modes: Sequence[str],
        inputs: Sequence[str],
        extents: Sequence[str | int],
        strides: Sequence[Sequence[str | int]],
    ):
        self.f = function
        self.group = group
        self.emitter = Emitter(function, lanes, host)
        self.one = Emitter(function, 1, host)
        self.lanes, self.unroll, self.width = lanes, unroll, lanes * unroll
        self.modes, self.inputs, self.extents, self.strides = modes, inputs, extents, strides
        self.ndim = len(extents)
        self.levels = self._levels()
        sums = list(group.sums.items())
        added = [(v, atom) for v, (kind, atom) in sums if kind == "add"]
        self.sum_parts = [(v, atom, p) for v, atom in added for p in range(1 + (v.aval.dtype.kind == "c"))]
        self.folded = [(v, kind, atom) for v, (kind, atom) in sums if kind != "add"]  # extremes, products ...
        self.starts = [self.emitter.identity(kind, v.aval.dtype) for v, kind, _ in self.folded]

    # -- what is computed where

    def _levels(self) -> dict[Var, int]:
        """How many of the loops, from outside, a variable depends on."""
        levels: dict[Var, int] = {}
        for var, k in self.group.reads.items():
            levels[var] = 1 + max([i for i, mode in enumerate(self.modes[k]) if mode != "0"], default=-1)
        for equation in self.group.equations:
            used = [levels[a] for a in equation.inputs if type(a) is not Literal]
            levels[equation.outputs[0]] = max(used, default=0)
        return levels

    def _value(self, values: dict[Var, Lane], atom: Any, dtype: Any) -> Lane:
        return self.emitter.literal(atom.value, dtype) if type(atom) is Literal else values[atom]

    def _apply(self, several: Sequence[dict[Var, Lane]], level: int) -> None:
        """The element operations of one level, each for all of the vectors: a chain of them does not wait for itself."""
        for equation in self.group.equations:
            out = equation.outputs[0]
            if self.levels[out] != level:
                continue
            for values in several:
                if equation.primitive.name == "broadcast_in_dim":  # of a literal
                    values[out] = self.emitter.literal(equation.inputs[0].value, out.aval.dtype)
                    continue
                dtypes = operand_dtypes(equation)
                operands = [self._value(values, a, d) for a, d in zip(equation.inputs, dtypes)]
                values[out] = self.emitter.apply(equation, operands)

    def _read(self, values: dict[Var, Lane], level: int, offsets: list[str]) -> None:
        """Loads of what the loops so far determine; `offsets` of each access up to here."""
        for var, k in self.group.reads.items():
            if self.levels[var] == level:
                values[var] = self.emitter.load(var.aval.dtype, self.inputs[k], offsets[k], stride=0)

    # -- loops

    def run(self, lo: Any, hi: Any) -> None:
        values: dict[Var, Lane] = {}
        zeros = ["0"] * len(self.inputs)
        self._read(values, 0, zeros)
        self._apply([values], 0)
        state = self._initial()
        final = self._rows(0, values, zeros, "0", lo, hi, state)
        self._finish(final)

    def _initial(self) -> list[tuple[str, str]]:
        """(type, value) of what the loops carry: sum and compensation of each part of each sum, then other folds."""
        carried = []
        for var, _, _ in self.sum_parts:
            kind = self.emitter.register(var.aval.dtype)
            first = self.emitter.literal(0, self.emitter.part(var.aval.dtype)).parts[0]
            carried.append((kind, first))
            if var.aval.dtype.kind in "fc":
                carried.append((kind, first))
        carried += [(self.emitter.register(self.emitter.part(lane.dtype)), p) for lane in self.starts for p in lane.parts]
        return carried

    def _folds(self, names: Sequence[str]) -> list[Lane]:
        """What the loops carry of the folds, as lanes."""
        return [Lane(lane.dtype, tuple([next(rest) for _ in lane.parts])) for rest in [iter(names)] for lane in self.starts]

    def _offset(self, k: int, axis: int, before: str, index: str) -> str:
        """The offset of access k after one more axis."""
        mode = self.modes[k][axis]
        if mode == "0":
            return before
        step = index if mode == "1" else self.f.put(f"mul i64 {index}, {self.strides[k][axis]}")
        return step if before == "0" else self.f.put(f"add i64 {before}, {step}")

    def _rows(
        self, axis: int, values: dict[Var, Lane], offsets: list[str], place: str, lo: Any, hi: Any, state: list[tuple[str, str]]
    ) -> list[str]:
        """The loop over an axis and those within it; gives what `state` has become."""
        if axis == self.ndim - 1:
            return self._row(values, offsets, place, lo, hi, state)
        f = self.f
        inner = self.extents[axis + 1]
        with f.loop(lo, hi, carried=state) as loop:
            here = dict(values)
            now = [self._offset(k, axis, before, loop.index) for k, before in enumerate(offsets)]
            base = loop.index if place == "0" else f.put(f"add i64 {place}, {loop.index}")
            self._read(here, axis + 1, now)
            self._apply([here], axis + 1)
            kinds = [kind for kind, _ in state]
            after = self._rows(axis + 1, here, now, f.put(f"mul i64 {base}, {inner}"), 0, inner, list(zip(kinds, loop.values)))
            loop.next(*after)
        return loop.results

    def _row(
        self, values: dict[Var, Lane], offsets: list[str], place: str, lo: Any, hi: Any, state: list[tuple[str, str]]
    ) -> list[str]:
        """The innermost axis, from lo to hi."""
        f, width = self.f, self.width
        n = f.put(f"sub i64 {hi}, {lo}")
        last = f.put(f"sub i64 {hi}, {width}")  # where the last vector begins
        whole = f.put(f"udiv i64 {n}, {width}")
        rest = f.put(f"urem i64 {n}, {width}")
        some = f.put(f"icmp ne i64 {rest}, 0")
        steps = f.put(f"add i64 {whole}, {f.put(f'zext i1 {some} to i64')}")
        if not self.group.counted:
            with f.loop(0, steps, carried=state) as loop:
                after = self._step(values, offsets, place, self._begin(loop.index, lo, last), [], loop.values, None)
                loop.next(*after[1])
            return loop.results
        # blocks of full steps, then one block of a single step for the rest
        blocks = f.put(f"udiv i64 {f.put(f'add i64 {whole}, {BLOCK - 1}')}, {BLOCK}")
        blocks = f.put(f"add i64 {blocks}, {f.put(f'zext i1 {some} to i64')}")
        count = len(self.sum_parts)
        with f.loop(0, blocks, carried=state) as block:
            first = self._smaller(f.put(f"mul i64 {block.index}, {BLOCK}"), whole)
            at_end = f.put(f"icmp eq i64 {first}, {whole}")
            stop = self._smaller(f.put(f"add i64 {first}, {BLOCK}"), whole)
            stop = f.put(f"select i1 {at_end}, i64 {steps}, i64 {stop}")
            done = f.put(f"sub i64 {width}, {rest}")  # lanes that were counted before
            done = f.put(f"select i1 {at_end}, i64 {done}, i64 0")
            masks = [self._from(done, u * self.lanes) for u in range(self.unroll)]
            carried = []
            for var, _, _ in self.sum_parts:
                lane = self.emitter.literal(0, self.emitter.part(var.aval.dtype)).parts[0]
                carried += [(self.emitter.register(var.aval.dtype), lane)] * self.unroll
            own = len(state) - sum([len(lane.parts) for lane in self.starts])
            folds = [(kind, value) for (kind, _), value in zip(state[own:], block.values[own:])]
            with f.loop(first, stop, carried=[*carried, *folds]) as loop:
                sums, others = loop.values[: count * self.unroll], loop.values[count * self.unroll :]
                start = self._begin(loop.index, lo, last)
                added, others = self._step(values, offsets, place, start, sums, others, masks)
                loop.next(*added, *others)
            totals = self._second_level(block.values, loop.results[: count * self.unroll])
            block.next(*totals, *loop.results[count * self.unroll :])
        return block.results

    def _smaller(self, a: Any, b: Any) -> str:
        less = self.f.put(f"icmp slt i64 {a}, {b}")
        return self.f.put(f"select i1 {less}, i64 {a}, i64 {b}")

    def _begin(self, step: str, lo: Any, last: str) -> str:
        start = self.f.put(f"mul i64 {step}, {self.width}")
        if str(lo) != "0":
            start = self.f.put(f"add i64 {start}, {lo}")
        return self._smaller(start, last)

    def _from(self, first: str, offset: int) -> str:
        """The mask of the lanes whose number, counted from `offset`, is at least `first`."""
        if self.lanes == 1:
            return self.f.put(f"icmp sle i64 {first}, {offset}")
        numbers = ", ".join([f"i32 {offset + i}" for i in range(self.lanes)])
        limit = self.emitter.broadcast("i32", self.f.put(f"trunc i64 {first} to i32"))
        return self.f.put(f"icmp sge <{self.lanes} x i32> <{numbers}>, {limit}")

    # -- one step

    def _step(
        self,
        values: dict[Var, Lane],
        offsets: list[str],
        place: str,
        start: str,
        sums: Sequence[str],
        others: Sequence[str],
        masks: Any,
    ) -> tuple[list[str], list[str]]:
        """`unroll` vectors from `start` on; gives the accumulators after them: of sums, unroll for each, and of other folds."""
        f, e, axis = self.f, self.emitter, self.ndim - 1
        added, folds = list(sums), self._folds(others)
        indices = [start, *[f.put(f"add i64 {start}, {u * self.lanes}") for u in range(1, self.unroll)]]
        here = [dict(values) for _ in indices]
        for var, k in self.group.reads.items():
            if self.levels[var] == self.ndim:
                stride = 1 if self.modes[k][axis] == "1" else self.strides[k][axis]
                if stride == 1 and self.ahead:
                    self._ask(var.aval.dtype, self.inputs[k], self._offset(k, axis, offsets[k], start))
                for known, index in zip(here, indices):
                    known[var] = e.load(var.aval.dtype, self.inputs[k], self._offset(k, axis, offsets[k], index), stride=stride)
        self._apply(here, self.ndim)
        self._write(here, start, indices if place == "0" else [f.put(f"add i64 {place}, {i}") for i in indices])
        for j, (var, atom, part) in enumerate(self.sum_parts):
            for u, known in enumerate(here):
                lane, k = self._value(known, atom, var.aval.dtype), j * self.unroll + u
                added[k] = self._add_to(lane, part, added[k], masks[u])
        for j, (var, kind, atom) in enumerate(self.folded):
            for u, known in enumerate(here):
                lane = self._value(known, atom, var.aval.dtype)
                if not idempotent(UFUNCS[kind]):
                    lane = e.select(Lane(np.dtype(bool), (masks[u],)), lane, self.starts[j])
                folds[j] = e.combine(kind, folds[j], lane)
        return added, [p for lane in folds for p in lane.parts]

    def _ask(self, dtype: Any, pointer: str, offset: str) -> None:
        """Ask for as many lines of the cache as this step reads, AHEAD of it."""
        f, size = self.f, dtype.itemsize
        target = f.module.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
        here = f.put(f"getelementptr [{size} x i8], ptr {pointer}, i64 {offset}")
        for line in range(0, self.width * size, 64):
            f.do(f"call void {target}(ptr {f.put(f'getelementptr i8, ptr {here}, i64 {AHEAD + line}')}, i32 0, i32 3, i32 1)")

    def _write(self, here: list[dict[Var, Lane]], start: str, spots: list[str]) -> None:
        """The full results of a step."""
        f, e = self.f, self.emitter
        full = [(k, v) for k, v in enumerate(self.group.jaxpr.outputs) if v not in self.group.sums]
        for k, v in full:
            if k not in self.nontemporal:
                for known, spot in zip(here, spots):
                    e.store(known[v], self.outputs[k], spot)
        past = [(k, v) for k, v in full if k in self.nontemporal]
        if not past:
            return
        moved = f.put(f"icmp ne i64 {f.put(f'urem i64 {start}, {self.width}')}, 0")  # the last: not aligned
        for condition, nontemporal in ((moved, False), (f.put(f"xor i1 {moved}, true"), True)):
            with f.when(condition):
                for k, v in past:
                    for known, spot in zip(here, spots):
                        e.store(known[v], self.outputs[k], spot, nontemporal=nontemporal)

    def _add_to(self, lane: Lane, part: int, total: str, mask: str) -> str:
        e, f = self.emitter, self.f
        dtype = e.part(lane.dtype)
        register = e.register(dtype)
        nothing = e.literal(0, dtype).parts[0]
        picked = f.put(f"select {e.vector('i1')} {mask}, {register} {lane.parts[part]}, {register} {nothing}")
        return _plus(e, dtype, total, picked)

    # -- the second level

    def _second_level(self, before: Sequence[str], accumulators: Sequence[str]) -> list[str]:
        """Add the accumulators of a block to the running sums: sum and compensation of floats, the sum of integers."""
        e = self.emitter
        after: list[str] = []
        position = 0
        for j, (var, _, _) in enumerate(self.sum_parts):
            dtype = e.part(var.aval.dtype)
            mine = list(accumulators[j * self.unroll : (j + 1) * self.unroll])
            while len(mine) > 1:
                mine = [_plus(e, dtype, a, b) for a, b in zip(mine[::2], mine[1::2])]
            if dtype.kind == "f":
                total, error = _two_sum(e, dtype, before[position], mine[0])
                after += [total, _plus(e, dtype, before[position + 1], error)]
                position += 2
            else:
                after.append(_plus(e, dtype, before[position], mine[0]))
                position += 1
        return after

    # -- the end

    def _finish(self, final: Sequence[str]) -> None:
        """Combine the lanes and write each accumulation to its place."""
        e, one = self.emitter, self.one
        results: dict[Var, list[str]] = {}
        position = 0
        for var, _, _ in self.sum_parts:
            dtype = e.part(var.aval.dtype)
            if dtype.kind == "f":
                results.setdefault(var, []).append(self._across(dtype, final[position], final[position + 1]))
                position += 2
            else:
                results.setdefault(var, []).append(self._across(dtype, final[position], None))
                position += 1
        for (var, kind, _), lane in zip(self.folded, self._folds(final[position:])):
            results[var] = list(e.horizontal(kind, lane).parts)
        for var, pointer in zip(self.group.jaxpr.outputs, self.outputs):
            if var in results:
                one.store(Lane(var.aval.dtype, tuple(results[var])), pointer, "0")

    def _halves(self, e: Emitter, dtype: np.dtype, value: str) -> tuple[str, str]:
        """The lower and the upper half of a vector; scalars, if it has two lanes."""
        kind, width = e.register(dtype), e.lanes // 2
        if width == 1:
            return self.f.put(f"extractelement {kind} {value}, i64 0"), self.f.put(f"extractelement {kind} {value}, i64 1")
        orders = [", ".join([f"i32 {first + i}" for i in range(width)]) for first in (0, width)]
        low, high = [self.f.put(f"shufflevector {kind} {value}, {kind} poison, <{width} x i32> <{o}>") for o in orders]
        return low, high

    def _across(self, dtype: np.dtype, total: str, lost: str | None) -> str:
        """The sum of all lanes and, of floats, of what they lost."""
        e = self.emitter
        while e.lanes > 1:
            half = Emitter(self.f, e.lanes // 2, e.host)
            pair = self._halves(e, dtype, total)
            if lost is None:
                total = _plus(half, dtype, *pair)
            else:
                low = _plus(half, dtype, *self._halves(e, dtype, lost))
                total, error = _two_sum(half, dtype, *pair)
                lost = _plus(half, dtype, low, error)
            e = half
        return total if lost is None else _settled(e, dtype, total, lost)


# -- sums


def _plus(e: Emitter, dtype: np.dtype, a: str, b: str) -> str:
    operation = {"f": "fadd", "b": "or"}.get(dtype.kind, "add")  # NumPy's sum of bools, in bool, is `or`
    return e.put(f"{operation} {e.register(dtype)} {a}, {b}")


def _two_sum(e: Emitter, dtype: np.dtype, a: str, b: str) -> tuple[str, str]:
    """a + b, and what it lost to rounding, exactly (Knuth)."""
    kind = e.register(dtype)
    total = _plus(e, dtype, a, b)
    back = e.put(f"fsub {kind} {total}, {a}")
    left = e.put(f"fsub {kind} {a}, {e.put(f'fsub {kind} {total}, {back}')}")
    right = e.put(f"fsub {kind} {b}, {back}")
    return total, e.put(f"fadd {kind} {left}, {right}")


def _settled(one: Emitter, dtype: np.dtype, total: str, lost: str) -> str:
    """total + lost; but an infinity, and what became of one, stays what it is."""
    kind = one.register(dtype)
    finite = one.put(f"fcmp oeq {kind} {one.put(f'fsub {kind} {lost}, {lost}')}, {one.literal(0, dtype).name}")
    return one.put(f"select i1 {finite}, {kind} {_plus(one, dtype, total, lost)}, {kind} {total}")


def emit_total(function: ir.Function, host: Any, kind: str, dtype: np.dtype, pointer: str, count: str, stride: Any) -> Lane:
    """One accumulation from those of `count` parts, which are `stride` elements apart; in order, compensated."""
    one = Emitter(function, 1, host)
    part = one.part(dtype)
    first = one.load(dtype, pointer, "0")
    compensated = kind == "add" and part.kind == "f"
    lost = [one.literal(0, part).name] * len(first.parts) if compensated else []
    carried = [(one.register(dtype), v) for v in (*first.parts, *lost)]
    with function.loop(1, count, carried=carried) as loop:
        term = one.load(dtype, pointer, function.put(f"mul i64 {loop.index}, {stride}"))
        before, low = loop.values[: len(first.parts)], loop.values[len(first.parts) :]
        if compensated:
            pairs = [_two_sum(one, part, a, b) for a, b in zip(before, term.parts)]
            loop.next(*[t for t, _ in pairs], *[_plus(one, part, c, error) for c, (_, error) in zip(low, pairs)])
        elif kind == "add":
            loop.next(*[_plus(one, part, a, b) for a, b in zip(before, term.parts)])
        else:
            loop.next(*one.combine(kind, Lane(dtype, tuple(before)), term).parts)
    parts, low = loop.results[: len(first.parts)], loop.results[len(first.parts) :]
    if compensated:
        parts = [_settled(one, part, t, c) for t, c in zip(parts, low)]
    return Lane(dtype, tuple(parts))
