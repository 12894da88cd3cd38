"""Rows that are long enough to be taken vector by vector: loops over blocks of rows, phase by phase.

Idea: a block of rows small enough for the cache passes through the phases of the plan, so that its elements come from memory
once. In a full phase several rows run abreast if they share column values or sums over rows, several vectors of a row if they
share nothing; that hides latency and splits sums. Rows that run abreast are a part of the block apart, since the processor
fetches several streams from memory sooner than one. Row values of a block lie in scratch memory, and a row phase takes them a
vector of rows at a time. Invariant: buffers of the block are padded to whole vectors, so only memory of the arguments needs
masks.
"""

from __future__ import annotations

from typing import Any

from funcad.backends.native import ir
from funcad.backends.native.emitter import Emitter
from funcad.backends.native.lane_types import Lane
from funcad.backends.native.rows_base import SLOT, Base, OperandPlaces, block_rows, is_product
from funcad.backends.native.target import Host
from funcad.backends.plans.row_plan import RowPlan, Sink, kind_of
from funcad.ir.jaxpr import Equation, Literal, Var

TILE = 4096  # elements of a row that are summed before the sum is added to others
BUSY = 20  # the weight of a phase that computes rather than waits for memory: it asks for the rows of the next block


class WideRows(Base):
    """The loops over rows that are long enough to be taken vector by vector."""

    def __init__(self, function: ir.Function, plan: RowPlan, host: Host, places: OperandPlaces):
        super().__init__(function, plan, host, places)
        self.host = host
        self.slots = {v: self.at(places.scratch, SLOT * i) for v, i in plan.slots.items()}
        kept, before = sorted(plan.kept, key=lambda v: plan.level[v]), 0
        self.kept: dict[Var, str] = {}
        for v in kept:
            first = self.times(self.times(self.padded, places.block), before)
            self.kept[v] = self.at(places.scratch, self.add(SLOT * len(plan.slots), first))
            before += v.aval.dtype.itemsize
        self.places_of_columns = [self.column_place(places.partials, i) for i in range(len(plan.columns))]
        self.number = 0  # of the phase that is being written
        self.vector = 0  # of those of a row that are abreast, the one that is being written
        self.again: list[set[Var]] = []  # for each busy phase, the inputs that it is the second to read
        read: dict[Var, int] = {}
        for number, phase in enumerate(plan.phases):
            inputs = [v for v in plan.needed(phase, number) if plan.kind[v] == "full" and v not in plan.maker]
            for v in inputs:
                read[v] = read.get(v, 0) + 1
            busy = plan.weight(number) > BUSY
            self.again.append({v for v in inputs if busy and read[v] == 2})
        self.group: dict[Any, Any] = {}  # what is known in this group of rows: pointers, values that are alike along the row
        self.here: dict[Any, Lane] = {}  # values of this vector of columns

    def run(self) -> None:
        f, places = self.f, self.places
        self.clear()
        with f.loop(places.begin, places.end, places.block) as loop:
            left = f.put(f"sub i64 {places.end}, {loop.index}")
            rows = self.least(left, places.block)
            for number in range(len(self.plan.phases)):
                self.row_phase(number, loop.index, rows)
                self.full_phase(number, loop.index, rows)

    # -- row values

    def row_phase(self, number: int, base: str, rows: str) -> None:
        plan, phase, e = self.plan, self.plan.phases[number], self.e
        outputs = [v for v in plan.outputs if plan.kind[v] == "row" and plan.level[v] == number]
        if not (phase.rows or phase.scalars or outputs):
            return
        starts = [self.start(kind_of(q), q.outputs[0].aval.dtype) for q in phase.scalars]
        with self.f.loop(0, rows, self.lanes, self.carried(starts)) as loop:
            i = loop.index
            known: dict[Any, Lane] = {}

            def mask() -> str:  # written where it is asked for, at the first time
                return e.mask(self.f.put(f"sub i64 {rows}, {i}"))

            def value(v: Any) -> Lane:
                if v not in known:
                    if plan.kind[v] == "scalar":
                        known[v] = self.scalar_values[v]
                    elif v in self.slots:
                        known[v] = e.load(v.aval.dtype, self.slots[v], i)
                    else:
                        known[v] = e.load(v.aval.dtype, self.pointers[v][0], self.add(base, i), mask=mask())
                return known[v]

            for equation in phase.rows:
                (out,) = equation.outputs
                operands = [None if type(a) is Literal else value(a) for a in equation.inputs]
                known[out] = self.broadcast(equation, operands)
                if out in self.slots:
                    e.store(known[out], self.slots[out], i)
            for v in outputs:
                for k in plan.outputs[v]:
                    e.store(value(v), self.places.outputs[k][0], self.add(base, i), mask=mask())
            totals = []
            for equation, total in zip(phase.scalars, self.rebuilt(starts, loop.values)):
                kind = kind_of(equation)
                totals.append(e.combine(kind, total, self.only(mask(), value(equation.inputs[0]), kind)))
            loop.next(*[p for lane in totals for p in lane.parts])
        for equation, total in zip(phase.scalars, self.rebuilt(starts, loop.results)):
            place = self.scalar_place(self.places.partials, plan.scalars.index(equation))
            e.store(e.combine(kind_of(equation), e.load(total.dtype, place, "0"), total), place, "0")

    # -- full values

    def shape(self, number: int) -> tuple[int, int]:
        """How many rows, and how many vectors of a row, are abreast in a full phase."""
        plan, weight = self.plan, self.plan.weight(number)
        r, n = plan.shape
        shared = any(s.kind == "column" for s in plan.phases[number].sinks) or any(
            plan.by_column[v] and not plan.by_row[v] for v in plan.needed(plan.phases[number], number)
        )
        if weight <= 9:
            rows, vectors = (4, 2) if shared else (1, 4)
        elif weight <= 18:
            rows, vectors = (2, 2) if shared else (1, 2)
        else:
            rows, vectors = (2, 1) if shared and weight <= 36 else (1, 1)
        while rows > min(r, block_rows(plan), self.lanes):
            rows //= 2
        whole = n // self.lanes
        if self.places.nontemporal and any(s.kind == "output" for s in plan.phases[number].sinks):
            return 1, max(1, 64 // min(v.aval.dtype.itemsize * self.lanes for v in plan.outputs if plan.kind[v] == "full"))
        if vectors > 1 and whole % vectors:  # rather another number of vectors than a loop for what is left over
            fit = [v for v in (3, 5, 7) if not whole % v and v <= 2 * vectors]
            if fit:
                rows, vectors = max(1, rows // 2 if fit[0] > vectors and rows * fit[0] > 10 else rows), fit[0]
        return rows, max(min(vectors, whole), 1)

    def full_phase(self, number: int, base: str, rows: str) -> None:
        if not self.plan.phases[number].sinks:
            return
        self.number = number
        abreast, vectors = self.shape(number)
        first = "0"
        if abreast > 1:  # from as many places of the block: memory is read faster by several streams than by one
            apart = self.f.put(f"udiv i64 {rows}, {abreast}")
            first = self.times(apart, abreast)
            with self.f.loop(0, apart, 1) as loop:
                own = [self.add(self.times(apart, u), loop.index) for u in range(abreast)]
                self.rows_abreast(number, base, own, vectors)
        if abreast == 1 or self.plan.shape[0] % abreast:
            with self.f.loop(first, rows, 1) as loop:
                self.rows_abreast(number, base, [loop.index], vectors)

    def rows_abreast(self, number: int, base: str, own: list[str], vectors: int) -> None:
        """One full phase of some rows: `own` are their places in the block, which begins at row `base`."""
        count = len(own)
        f, e, plan, n, lanes = self.f, self.e, self.plan, self.plan.shape[1], self.lanes
        self.group = {("row", u): (self.add(place, base), place) for u, place in enumerate(own)}
        self.find_rows(number, count)
        for v in plan.row_operands(number):
            for u in range(count):
                where, index = (self.slots[v], 1) if v in self.slots else (self.pointers[v][0], 0)
                self.group[v, u] = e.load(v.aval.dtype, where, self.group["row", u][index], stride=0)
        for v in plan.needed(plan.phases[number], number):
            if not plan.by_column[v]:
                for u in range(count):
                    self.group[v, u] = self.computed(v, u)
        reductions = [s for s in plan.phases[number].sinks if s.kind == "reduction"]
        starts = [self.start(kind_of(s.equation), s.var.aval.dtype) for s in reductions for _ in range(count)]
        step, long = vectors * lanes, n > TILE
        whole = self.places.columns
        if n % step:  # not a power of two, perhaps
            whole = f.put(f"mul i64 {f.put(f'udiv i64 {whole}, {step}')}, {step}")
        if long:
            with f.loop(0, whole, TILE // step * step, self.carried(starts)) as tile:
                stop = f.put(f"add i64 {tile.index}, {TILE // step * step}")
                stop = self.least(stop, whole)
                sums = self.strip(number, tile.index, stop, vectors, count, starts)
                totals = [
                    e.combine(kind_of(s.equation), a, b)
                    for s, a, b in zip(
                        [s for s in reductions for _ in range(count)], self.rebuilt(starts, tile.values), sums
                    )
                ]
                tile.next(*[p for lane in totals for p in lane.parts])
            totals = self.rebuilt(starts, tile.results)
        elif n >= step:
            totals = self.strip(number, "0", whole, vectors, count, starts)
        else:
            totals = starts
        if n % step:
            if n // lanes % vectors:  # more than one vector is left, perhaps
                totals = self.strip(number, whole, self.places.columns, 1, count, totals, masked=n % lanes > 0)
            else:
                totals = self.step(number, whole, 1, count, totals, self.tail())
        for s in reductions:
            total = self.horizontal(kind_of(s.equation), totals[:count])
            totals = totals[count:]
            side_by_side = Emitter(f, count, self.host)
            for u, place in enumerate(own):
                self.one.store(side_by_side.extract(total, u), self.slots[s.var], place)

    def tail(self) -> str:
        """The mask of what is left of a row after whole vectors."""
        whole = self.f.put(f"and i64 {self.places.columns}, {-self.lanes}")
        return self.e.mask(self.f.put(f"sub i64 {self.places.columns}, {whole}"))

    def horizontal(self, kind: str, lanes: list[Lane]) -> Lane:
        """The lanes of each of several rows combined: a vector with one element per row.

        Rows lie side by side in one vector, as soon as there is room, and are halved together.
        """
        count, size = len(lanes), self.lanes
        while size > 1:
            several = len(lanes) > 1
            inputs = [lanes[i : i + 2] for i in range(0, len(lanes), 2)] if several else [[lanes[0], lanes[0]]]
            groups = (2 * self.lanes // size) if several else count
            n = groups * size // 2  # lanes of the result
            picked = [[g * size + half + i for g in range(groups) for i in range(size // 2)] for half in (0, size // 2)]
            e, found = Emitter(self.f, n, self.host), []
            width = self.lanes if several else groups * size
            for a, b in inputs:
                halves = [[self.shuffled(a.dtype, p, q, width, order) for p, q in zip(a.parts, b.parts)] for order in picked]
                found.append(e.combine(kind, *[Lane(a.dtype, tuple(parts)) for parts in halves]))
            lanes, size = found, size // 2
        return lanes[0]

    def shuffled(self, dtype: Any, a: str, b: str, width: int, order: list[int]) -> str:
        element = self.e.element(dtype)
        if len(order) == 1:
            return self.f.put(f"extractelement <{width} x {element}> {a}, i64 {order[0]}")
        vector, places = f"<{width} x {element}>", ", ".join([f"i32 {i}" for i in order])
        return self.f.put(f"shufflevector {vector} {a}, {vector} {b}, <{len(order)} x i32> <{places}>")

    def find_rows(self, number: int, count: int) -> None:
        """Pointers to the rows that this phase reads and writes."""
        plan, sinks = self.plan, self.plan.phases[number].sinks
        known = self.group
        for u in range(count):
            row, own = known["row", u]
            for v in plan.needed(plan.phases[number], number):
                if plan.kind[v] == "full" and v not in plan.maker:
                    pointer, stride = self.pointers[v]
                    known["at", v, u] = self.at(pointer, self.times(row, stride))
                    if v in self.again[number]:
                        known["next", v, u] = self.at(known["at", v, u], self.times(stride, self.places.block))
                elif plan.loaded(v, number):
                    known["at", v, u] = self.kept_row(v, own)
            for s in sinks:
                if s.kind == "keep":
                    known["at", s.var, u] = self.kept_row(s.var, own)
                elif s.kind == "output":
                    for k in plan.outputs[s.var]:
                        pointer, stride = self.places.outputs[k]
                        known["at", k, u] = self.at(pointer, self.times(row, stride))

    def kept_row(self, v: Var, own: str) -> str:
        return self.at(self.kept[v], self.times(self.times(self.padded, v.aval.dtype.itemsize), own))

    def strip(
        self, number: int, start: Any, stop: Any, vectors: int, count: int, totals: list[Lane], masked: bool = False
    ) -> list[Lane]:
        """A loop over columns; gives one total per reduction and row."""
        sinks = [s for s in self.plan.phases[number].sinks if s.kind == "reduction" for _ in range(count)]
        first = [
            lane if c == 0 else self.start(kind_of(s.equation), lane.dtype)
            for s, lane in zip(sinks, totals)
            for c in range(vectors)
        ]
        with self.f.loop(start, stop, vectors * self.lanes, self.carried(first)) as loop:
            mask = self.e.mask(self.f.put(f"sub i64 {stop}, {loop.index}")) if masked else None
            after = self.step(number, loop.index, vectors, count, self.rebuilt(first, loop.values), mask)
            loop.next(*[p for lane in after for p in lane.parts])
        found = self.rebuilt(first, loop.results)
        return [self.tree(kind_of(s.equation), found[i * vectors : (i + 1) * vectors]) for i, s in enumerate(sinks)]

    def step(self, number: int, index: str, vectors: int, count: int, totals: list[Lane], mask: str | None) -> list[Lane]:
        """The work on `vectors` vectors of each of `count` rows."""
        totals = list(totals)
        stores: list[tuple[int, int, int, Lane]] = []
        for c in range(vectors):
            self.here, self.vector = {}, c
            at = self.add(c * self.lanes, index)
            position = c
            for sink in self.plan.phases[number].sinks:
                if sink.kind == "column":
                    self.column(sink, at, count, mask)
                    continue
                for u in range(count):
                    x = self.value(sink.var if sink.kind != "reduction" else sink.equation.inputs[0], u, at, mask)
                    if sink.kind == "reduction":
                        totals[position] = self.reduce(sink.equation, x, u, at, mask, totals[position])
                        position += vectors
                    elif sink.kind == "keep":
                        self.e.store(x, self.group["at", sink.var, u], at)
                    else:
                        stores += [(k, u, c, x) for k in self.plan.outputs[sink.var]]
        for k, u, c, x in sorted(stores, key=lambda s: s[:3]):  # lines of the cache are written as a whole
            at = self.add(c * self.lanes, index)
            self.e.store(x, self.group["at", k, u], at, mask=mask, nontemporal=self.places.nontemporal)
        return totals

    def reduce(self, equation: Equation, x: Lane, u: int, at: str, mask: str | None, total: Lane) -> Lane:
        kind = kind_of(equation)
        if is_product(equation):
            return self.multiply_add(self.only(mask, x, kind), self.value(equation.inputs[1], u, at, mask), total)
        return self.e.combine(kind, total, self.only(mask, x, kind))

    def column(self, sink: Sink, at: str, count: int, mask: str | None) -> None:
        """Add the rows abreast to a sum over rows; what lies in the padding does not matter."""
        equation = sink.equation
        kind, place = kind_of(equation), self.places_of_columns[self.plan.columns.index(equation)]
        total = self.e.load(sink.var.aval.dtype, place, at)
        lanes = [self.value(equation.inputs[0], u, at, mask) for u in range(count)]
        if is_product(equation):
            for u, lane in enumerate(lanes):
                total = self.multiply_add(lane, self.group[equation.inputs[1], u], total)
        else:
            total = self.e.combine(kind, total, self.tree(kind, lanes))
        self.e.store(total, place, at)

    def value(self, v: Any, u: int, at: str, mask: str | None) -> Lane:
        """A full or column value at this place."""
        if not self.plan.by_column[v]:
            return self.group[v, u]
        plan, here = self.plan, self.here
        key = lambda a: (a, u if plan.by_row[a] else 0)
        waiting = [] if key(v) in here else [v]  # a list of our own: chains of operations may be longer than Python's stack
        while waiting:
            x = waiting[-1]
            maker = None if plan.loaded(x, self.number) else plan.maker.get(x)
            atoms = [a for a in maker.inputs if type(a) is Var and plan.kind[a] not in ("scalar", "row")] if maker else []
            before = [a for a in atoms if plan.by_column[a] and key(a) not in here]
            if not before:
                here[key(x)] = self.computed(x, u, at, mask)
                waiting.pop()
            waiting += reversed(before)
        return here[key(v)]

    def computed(self, v: Var, u: int, at: str = "0", mask: str | None = None) -> Lane:
        plan, dtype = self.plan, v.aval.dtype
        if plan.loaded(v, self.number):
            return self.e.load(dtype, self.group["at", v, u], at)
        equation = plan.maker.get(v)
        if equation is None:
            pointer = self.pointers[v][0] if plan.kind[v] == "column" else self.group["at", v, u]
            self.prefetch(v, u, at)
            return self.e.load(dtype, pointer, at, mask=mask)
        operands = [None if type(a) is Literal else self.operand(a, u, at, mask) for a in equation.inputs]
        return self.broadcast(equation, operands)

    def prefetch(self, v: Var, u: int, at: str) -> None:
        """Ask for the element that this phase reads in the next block, once per line of the cache."""
        row, size = self.group.get(("next", v, u)), v.aval.dtype.itemsize
        if row is not None and self.vector * self.lanes * size % 64 == 0:
            address = self.at(row, self.times(at, size))
            target = self.f.module.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
            self.f.do(f"call void {target}(ptr {address}, i32 0, i32 2, i32 1)")

    def operand(self, a: Var, u: int, at: str, mask: str | None) -> Lane:
        kind = self.plan.kind[a]
        if kind == "scalar":
            return self.scalar_values[a]
        return self.group[a, u] if kind == "row" else self.value(a, u, at, mask)
