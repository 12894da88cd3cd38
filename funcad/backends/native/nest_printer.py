"""Loop nests (loops/nest.py) as LLVM text: `NestPrinter(function, host, lanes, memory, names).write(nest)`.

Idea: a value has one `Lane` for each combination of steps abreast that it depends on (`combos`), a scalar where it does not
depend on the index whose steps are lanes. What a loop needs of the loops around it, addresses and scalars on all lanes, is
written in front of it. A total has a register for each vector abreast; they are added up where its loop ends, or after a run of
steps, and then, if it is exact, with what was lost. So sums depend on extents and on the width of vectors only.

Traps: lanes beyond the end hold zeros or, of padded memory, anything, and the vector that goes back from the end holds elements
that were counted, so neither may reach a total. A sum begins with +0.0, as NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.native import ir, squares
from funcad.backends.native.emitter import Emitter
from funcad.backends.native.exact_sums import across, added
from funcad.backends.native.lane_memory import gather, scatter
from funcad.backends.native.lane_types import Lane
from funcad.backends.native.target import Host
from funcad.primitives.atoms import UFUNCS, idempotent

from funcad.backends.loops.nest import (  # isort: skip
    BACK, MASKED, ONES, WRITTEN, Ask, At, Blocks, Constant, Count, Fold, For, Into, Let, Load, Put, Same, Steps, Total,
)

BOOL, INT64 = np.dtype(bool), np.dtype(np.int64)
LINE = 64  # bytes of a line of the caches
Combo = tuple[tuple[str, int], ...]  # of open loops, outermost first: which of the steps abreast
Masks = Callable[[int], str | None]  # by the vector abreast: its lanes; None: all


class Memory(NamedTuple):
    """Where an array is; `padded` to whole vectors, or are the lanes beyond an end somebody else's?"""

    pointer: str
    padded: bool = False
    offset: int = 0  # bytes, added last: views of one array share what is added to its pointer


class NestPrinter:
    """Writes nests into a function; `memory` has scalars, too; `names` are those of amounts: LLVM values or numbers."""

    def __init__(self, function: ir.Function, host: Host, lanes: int, memory: dict[Any, Any], names: dict[str, Any]):
        self.f, self.lanes, self.memory, self.names = function, lanes, memory, dict(names)
        self.one, self.wide = Emitter(function, 1, host), Emitter(function, lanes, host)
        self.ways: dict[str, int] = {}  # of the open loops, outermost first
        self.places: dict[tuple[str, int], str] = {}  # the value of an index
        self.in_full: set[str] = set()  # those that are written out
        self.vector = ""  # the index whose steps are lanes
        self.on: Masks = lambda way: None  # the lanes inside
        self.fresh: Masks = self.on  # those that totals have not met
        self.moved: str | None = None  # whether these vectors do not begin at a multiple of what is abreast
        self.depends: dict[Any, frozenset[str]] = {}  # of the values that can be read: on which loops
        self.scopes: list[list[Any]] = [[]]  # what was computed in each open loop
        self.same: dict[Any, Any] = {}  # other names
        self.values: dict[tuple[Any, Combo], Lane] = {}
        self.totals: dict[Any, Total] = {}  # those that are open
        self.spread: dict[Any, frozenset[str]] = {}  # the loops for each of whose steps there is a total
        self.states: dict[tuple[Any, Combo, bool], Lane] = {}  # a total so far, and (True) what it lost
        self.across: set[Any] = set()  # those that are summed over lanes, too
        self.scalars: set[Any] = set()  # what loops hand on that is no vector
        self.again = False  # may vectors meet elements twice?
        self.registers: dict[tuple[Any, Combo], Lane] = {}  # the parts of totals

    def write(self, body: Iterable[Any]) -> None:
        for statement in body:
            _WRITERS[type(statement)](self, statement)

    # -- values

    def combos(self, indices: Iterable[str]) -> list[Combo]:
        """The combinations of steps abreast of the open loops among these."""
        named = set(indices)
        return list(product(*[[(i, w) for w in range(n)] for i, n in self.ways.items() if i in named]))

    def defined(self, v: Any, indices: Iterable[str]) -> list[Combo]:
        """A value that depends on these loops: the combinations for which it is to be computed."""
        self.depends[v] = frozenset(indices)
        self.scopes[-1].append(v)
        return self.combos(indices)

    def given(self, v: Any, lane: Lane) -> None:
        """A scalar that is known before the nest."""
        self.depends[v], self.values[v, ()] = frozenset(), lane

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What a loop computes is not known after it."""
        self.scopes.append([])
        yield
        for v in self.scopes.pop():
            self.depends.pop(v, None)

    def emitter(self, indices: Iterable[str]) -> Emitter:
        return self.wide if self.vector in indices else self.one

    def known(self, a: Any) -> Any:
        """A value or a constant, of which this may be another name."""
        while a in self.same:
            a = self.same[a]
        return a

    def indices(self, *operands: Any) -> frozenset[str]:
        """The loops on which these depend."""
        return frozenset().union(*[self.depends[a] for a in map(self.known, operands) if type(a) is not Constant])

    def get(self, a: Any, combo: Combo, e: Emitter) -> Lane:
        a = self.known(a)
        if type(a) is Constant:
            return e.literal(a.value, a.dtype)
        lane = self.values[a, cut(combo, self.depends[a])]
        return lane if e.lanes == 1 or self.vector in self.depends[a] else e.splat(lane)

    # -- amounts and addresses

    def amount(self, x: Any) -> Any:
        """A number, or the LLVM value of a name or of a product."""
        if type(x) is not tuple:
            return self.names.get(x, x)
        found: Any = 1
        for factor in x:
            found = self.times(found, self.amount(factor))
        return found

    def times(self, a: Any, b: Any) -> Any:
        if type(a) is int and type(b) is int:
            return a * b
        a, b = (b, a) if type(a) is int else (a, b)
        return a if b == 1 else 0 if b == 0 or a == "0" else self.f.put(f"mul i64 {a}, {b}")

    def add(self, a: Any, b: Any) -> str:
        return str(a) if b in (0, "0") else str(b) if a in (0, "0") else self.f.put(f"add i64 {b}, {a}")

    def less(self, a: Any, b: Any) -> str:
        """a - b"""
        return str(a) if b in (0, "0") else self.f.put(f"sub i64 {a}, {b}")

    def least(self, a: Any, b: Any) -> str:
        return self.f.intrinsic("llvm.smin.i64", "i64", ("i64", str(a)), ("i64", str(b)))

    def down(self, a: Any, step: int) -> Any:
        """The greatest multiple of a step that is not greater."""
        return a // step * step if type(a) is int else self.times(self.f.put(f"udiv i64 {a}, {step}"), step)

    def further(self, pointer: str, offset: Any) -> str:
        return pointer if offset in (0, "0") else self.f.put(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def address(self, at: At, combo: Combo, size: int) -> tuple[str, str, Any]:
        """The pointer, the index of the first lane from there on, and the bytes between lanes (of a scalar its size)."""
        memory = self.memory[at.array]
        pointer, ways, index, step = memory.pointer, dict(combo), "0", size
        for i, amount in at.steps:
            if (i, ways.get(i, 0)) in self.places:
                place, by = self.places[i, ways.get(i, 0)], self.amount(amount)
                if i == self.vector:
                    step = by
                if i == self.vector and by == size:
                    index = place
                else:
                    pointer = self.further(pointer, self.times(place, by))
            elif i in self.depends:
                pointer = self.further(pointer, self.times(self.get(i, combo, self.one).name, self.amount(amount)))
        return self.further(pointer, memory.offset), index, step

    def named(self, at: At) -> frozenset[str]:
        """The open loops on which a place depends."""
        found = [i for i, _ in at.steps if i in self.ways]
        for i, _ in at.steps:
            found += self.depends[i] if i not in self.ways and i in self.depends else ()
        return frozenset(found)

    def before(self, loop: For) -> None:
        """In front of a loop: where the rows of its arrays begin, and scalars on all lanes."""
        for s in loop.body:
            for at in [x for x in s if type(x) is At and type(self.memory[x.array]) is Memory]:
                outer = At(at.array, tuple([step for step in at.steps if step[0] != loop.index]))
                for combo in self.combos(self.named(outer)):
                    self.address(outer, combo, 0)
            for a in map(self.known, s.operands if type(s) is Let and loop.how != ONES else ()):
                if a in self.depends:
                    for combo in self.combos(self.depends[a]):
                        self.wide.splat(self.values[a, combo])

    # -- statements

    def load(self, s: Load) -> None:
        v, dtype, memory = s.value, s.dtype, self.memory[s.at.array]
        if type(memory) is Lane:
            self.given(v, memory)
            return
        e = self.emitter(named := self.named(s.at))
        combos = self.defined(v, named)
        if self.square(s.at, dtype):
            pointer, _, step = self.address(s.at, combos[0], dtype.itemsize)
            self.values.update({(v, c): x for c, x in zip(combos, squares.read(e, dtype, pointer, step, len(combos)))})
            return
        for combo in combos:
            pointer, index, step = self.address(s.at, combo, dtype.itemsize)
            self.values[v, combo] = read(e, dtype, pointer, index, step, self.mask(s.at, combo))

    def square(self, at: At, dtype: np.dtype) -> bool:
        """Adjacent elements of the rows that are lanes, in a loop that is written out?"""
        steps = dict(at.steps)
        rows = steps.get(self.vector, dtype.itemsize) != dtype.itemsize and self.ways[self.vector] == 1 and dtype.kind != "c"
        return rows and [step for i, step in steps.items() if i in self.in_full] == [dtype.itemsize]

    def mask(self, at: At, combo: Combo) -> str | None:
        """The lanes that are the array's own."""
        way = dict(combo).get(self.vector)
        return None if way is None or self.memory[at.array].padded else self.on(way)

    def let(self, s: Let) -> None:
        named = self.indices(*s.operands) & self.ways.keys()
        e = self.emitter(named)
        for combo in self.combos(named):
            lanes = s.write(e, [self.get(a, combo, e) for a in s.operands])
            self.values.update({(v, combo): lane for v, lane in zip(s.values, lanes)})
        for v in s.values:
            self.defined(v, named)

    def count(self, s: Count) -> None:
        for combo in self.defined(s.value, {s.index}):
            place = self.places[s.index, dict(combo)[s.index]]
            if s.index == self.vector and self.lanes > 1:
                steps = ", ".join([f"i64 {i}" for i in range(self.lanes)])
                place = self.f.put(f"add {self.wide.vector('i64')} {self.wide.broadcast('i64', place)}, <{steps}>")
            self.values[s.value, combo] = Lane(INT64, (place,))

    def renamed(self, s: Same) -> None:
        self.same[s.value] = s.operand

    def steps(self, s: Steps) -> None:
        if s.value in self.depends:
            for way, v in enumerate(s.each):
                for combo in self.defined(v, self.depends[s.value] - {s.index}):
                    self.values[v, combo] = self.values[s.value, (*combo, (s.index, way))]
            return
        for combo in self.defined(s.value, self.ways):
            lanes = [self.get(v, combo, self.emitter(self.ways)) for v in s.each]
            self.values.update({(s.value, (*combo, (s.index, way))): lane for way, lane in enumerate(lanes)})
        self.depends[s.value] |= {s.index}

    def put(self, s: Put) -> None:
        if not s.past or self.moved is None:
            self.stored(s, s.past)
            return
        for condition, past in ((self.moved, False), (self.f.put(f"xor i1 {self.moved}, true"), True)):
            with self.f.when(condition):
                self.stored(s, past)

    def stored(self, s: Put, past: bool) -> None:
        dtype, named = s.dtype, self.named(s.at)
        e = self.emitter(named)
        if self.square(s.at, dtype):
            combos = self.combos(named)
            pointer, _, step = self.address(s.at, combos[0], dtype.itemsize)
            squares.write(e, [self.get(s.value, combo, e) for combo in combos], pointer, step)
            return
        for combo in self.combos(named):
            pointer, index, step = self.address(s.at, combo, dtype.itemsize)
            write(e, self.get(s.value, combo, e), pointer, index, step, self.mask(s.at, combo), past)

    def ask(self, s: Ask) -> None:
        size, ahead = s.size, self.amount(s.ahead)
        target = self.f.module.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
        for combo in self.combos(self.named(s.at)):
            if dict(combo)[self.vector] * self.lanes * size % LINE == 0:
                pointer, index, _ = self.address(s.at, combo, size)
                place = self.further(self.further(pointer, ahead), self.times(index, size))
                self.f.do(f"call void {target}(ptr {place}, i32 0, i32 {3 if type(ahead) is int else 2}, i32 1)")

    # -- totals

    def fold(self, s: Fold) -> None:
        """A step of a total; both factors of a product lose the lanes outside, where one may be infinite."""
        total, e = self.totals[s.total], self.emitter(self.ways)
        masked = s.total in self.across and not (self.again and idempotent(UFUNCS[total.kind]))
        for combo in self.combos(self.ways):
            key = s.total, cut(combo, self.spread[s.total])
            lanes = [self.get(a, combo, e) for a in (s.value, s.times) if a is not None]
            mask = self.fresh(dict(combo)[self.vector]) if masked and self.vector else None
            if mask is not None:
                nothing = e.identity(total.kind, total.dtype)
                lanes = [e.select(Lane(BOOL, (mask,)), x, nothing) for x in lanes]
            before = self.registers.get(key)
            if s.times is not None:
                self.registers[key] = e.multiply_add(*lanes, before or e.identity("add", total.dtype))
            else:
                self.registers[key] = lanes[0] if before is None else e.combine(total.kind, before, lanes[0])

    def into(self, s: Into) -> None:
        """The steps abreast that do not name the place are added up first."""
        named = self.named(s.at)
        e, operands = self.emitter(named), [a for a in (s.value, s.times) if a is not None]
        for combo in self.combos(named):
            pointer, index, step = self.address(s.at, combo, s.dtype.itemsize)
            total, terms = read(e, s.dtype, pointer, index, step), list[Lane]()
            for whole in self.combos(self.indices(*operands) | named):
                if set(combo) <= set(whole):
                    lanes = [self.get(a, whole, e) for a in operands]
                    if s.times is None:
                        terms += lanes
                    else:
                        total = e.multiply_add(*lanes, total)
            if terms:
                total = e.combine(s.kind, total, tree(e, s.kind, terms))
            write(e, total, pointer, index, step)

    # -- loops

    def loop(self, s: For) -> None:
        if s.how == WRITTEN:
            self.written(s)
            return
        opened = [t for t in s.totals if t.value not in self.totals]
        for t in opened:
            self.open(t)
        self.before(s)
        (self.ones if s.how == ONES else self.vectors)(s)
        for t in opened:
            self.close(t)

    def open(self, t: Total) -> None:
        """A total begins with nothing; it is one for each lane, if the loop is within one of vectors."""
        self.totals[t.value], self.spread[t.value] = t, frozenset([*self.ways, *[i for i, _ in t.over]])
        if not self.vector:
            self.across.add(t.value)
        for combo in self.combos(self.ways):
            for inner in product(*[[(i, w) for w in range(n)] for i, n in t.over]):
                self.states[t.value, combo + inner, False] = self.wide.identity(t.kind, t.dtype)
                if self.exact(t):
                    self.states[t.value, combo + inner, True] = self.wide.literal(0, t.dtype)

    @staticmethod
    def exact(t: Total) -> bool:
        return t.exact and t.dtype.kind in "fc"

    def close(self, t: Total) -> None:
        """A total becomes a value: the sum of the lanes."""
        v, e = t.value, self.wide
        found = {combo: lane for (u, combo, lost), lane in self.states.items() if u == v and not lost}
        if self.exact(t):
            lanes = [across(e, lane, self.states[v, combo, True]) for combo, lane in found.items()]
        else:
            lanes = side_by_side(e, t.kind, list(found.values())) if v in self.across else list(found.values())
        self.values.update({(v, combo): lane for combo, lane in zip(found, lanes)})
        self.defined(v, self.spread.pop(v))
        for key in [key for key in self.states if key[0] == v]:
            del self.states[key]
        del self.totals[v]
        self.across.discard(v)

    def written(self, s: For) -> None:
        """All steps; a total has a lane for each of them, or is added up one after the other."""
        for t in s.totals:
            self.totals[t.value], self.spread[t.value] = t, frozenset(self.ways if t.chain else [*self.ways, s.index])
        self.in_full.add(s.index)
        with self.opened(s.index, [str(w) for w in range(s.ways)]):
            self.write(s.body)
        self.in_full.discard(s.index)
        e = self.emitter(self.ways)
        for t in s.totals:
            for combo in self.defined(t.value, self.ways):
                keys = [combo] if t.chain else [(*combo, (s.index, w)) for w in range(s.ways)]
                lane = tree(e, t.kind, [self.registers.pop((t.value, key)) for key in keys])
                if t.kind == "add" and not t.chain:
                    lane = e.combine("add", e.identity("add", t.dtype), lane)
                self.values[t.value, combo] = lane
            del self.totals[t.value], self.spread[t.value]

    def ones(self, s: For) -> None:
        """Step by step; those abreast begin in as many places: memory is read faster by several streams than by one."""
        begin, end = self.amount(s.begin), self.amount(s.end)
        first = begin
        if s.ways > 1:
            apart = self.f.put(f"udiv i64 {self.less(end, begin)}, {s.ways}")
            starts = [self.add(begin, self.times(apart, w)) for w in range(s.ways + 1)]
            first = starts.pop()
            with self.carried(0, apart, 1, self.states) as i:
                with self.opened(s.index, [self.add(b, i) for b in starts]):
                    self.write(s.body)
        if s.ways == 1 or s.extent is None or s.extent % s.ways:
            self.single(s, first, end)

    def single(self, s: For, first: Any, end: Any) -> None:
        """One step after the other; what is added up here is the total itself."""
        own = [x.total for x in s.body if type(x) is Fold]
        v, before, following = s.carry or (None, None, None)
        combos, e = self.combos(self.ways) if s.carry is not None else [], self.emitter(self.ways)
        if e is self.one:
            self.scalars.add(v)
        for combo in combos:
            self.states[v, combo, False] = self.get(before, combo, e)
        with self.carried(first, end, 1, self.states) as i, self.opened(s.index, [i]):
            mine = {key: lane for key, lane in self.states.items() if key[0] in own}
            self.registers.update({key[:2]: lane for key, lane in mine.items()})
            for combo in combos:
                self.defined(v, [index for index, _ in combo])
                self.values[v, combo] = self.states[v, combo, False]
            self.write(s.body)
            self.states.update({key: self.registers.pop(key[:2]) for key in mine})
            for combo in combos:
                self.states[v, combo, False] = self.get(following, (*combo, (s.index, 0)), e)
        for combo in combos:
            del self.states[v, combo, False]

    def blocks(self, s: Blocks) -> None:
        begin, end, size = self.amount(s.begin), self.amount(s.end), self.amount(s.size)
        with self.f.loop(begin, end, size) as loop, self.scope():
            self.places[s.index, 0] = loop.index
            self.names[s.left] = self.least(self.less(end, loop.index), size)
            self.write(s.body)
            loop.next()
        del self.places[s.index, 0], self.names[s.left]

    @contextmanager
    def opened(self, index: str, places: Sequence[str]) -> Iterator[None]:
        """Where a loop's steps abreast are."""
        self.ways[index] = len(places)
        self.places.update({(index, w): place for w, place in enumerate(places)})
        yield
        del self.ways[index]
        for w in range(len(places)):
            del self.places[index, w]

    @contextmanager
    def carried(self, begin: Any, end: Any, step: int, lanes: dict[Any, Lane], e: Emitter | None = None) -> Iterator[str]:
        """A loop whose steps change these lanes, written by `e` if it is said."""
        kinds: list[str] = []
        for key, lane in lanes.items():
            own = e or (self.one if key[0] in self.scalars else self.wide)
            kinds += [own.register(own.part(lane.dtype)) for _ in lane.parts]

        def renew(names: Sequence[str]) -> None:
            rest = iter(names)
            for key, lane in lanes.items():
                lanes[key] = Lane(lane.dtype, tuple([next(rest) for _ in lane.parts]))

        parts = lambda: [p for lane in lanes.values() for p in lane.parts]
        with self.f.loop(begin, end, step, list(zip(kinds, parts()))) as loop, self.scope():
            renew(loop.values)
            yield loop.index
            loop.next(*parts())
        renew(loop.results)

    # -- vectors

    def vectors(self, s: For) -> None:
        """Whole vectors, several abreast; then what is left."""
        begin, end = self.amount(s.begin), self.amount(s.end)
        self.again, self.moved = s.rest == BACK, None
        inside: Masks = lambda way: self.wide.mask(self.less(end, self.places[s.index, way]))
        if s.extent is not None:
            self.counted(s, end, s.extent, inside)
        elif s.rest == MASKED:
            self.turns(s, begin, end, 1, inside)
        elif s.rest == BACK and not s.run and {t.value for t in s.totals} & self.across:
            self.summed(s, end)
        elif s.rest == BACK:
            self.back(s, begin, end)
        else:
            middle = self.less(end, self.f.put(f"urem i64 {self.less(end, begin)}, {self.lanes * s.ways}"))
            self.turns(s, begin, middle, s.ways)
            self.single(s, middle, end)

    def counted(self, s: For, end: Any, n: int, inside: Masks) -> None:
        """Of n steps; the code depends on whether they are whole vectors, and is as short as it can be."""
        lanes, step = self.lanes, self.lanes * s.ways
        adds = bool({t.value for t in s.totals} & self.across)
        back = s.rest == BACK and not adds
        if back and -(-n // lanes) <= s.ways:
            self.turn(s, [str(min(i, n - lanes)) for i in range(0, n, lanes)])
            return
        whole = end if n % step == 0 else self.down(end, step)
        if n >= step and s.run and n > s.run * step:
            with self.carried(0, whole, s.run * step, self.states) as first:
                self.turns(s, first, self.least(self.add(s.run * step, first), whole), s.ways, apart=True)
        elif n >= step and not back:
            self.turns(s, 0, whole, s.ways)
        if back:
            first = whole if s.ways > 1 else 0
            self.turns(s, 0, first, s.ways)
            self.turns(s, first, end, 1, place=(lambda i: self.least(i, n - lanes)) if n % lanes else None)
        elif s.rest == MASKED and n % step:
            self.turns(s, whole, end if n % step > lanes else None, 1, inside if n % lanes else None)
        elif n % step:
            vectors = self.down(end, lanes)
            if n % step >= lanes:
                self.turns(s, whole, vectors if n % step >= 2 * lanes else None, 1)
            if n % lanes and s.rest == BACK:
                met = self.beyond(str(lanes - n % lanes), 0)
                self.turns(s, n - lanes, None, 1, fresh=lambda way: met)
            elif n % lanes:
                self.single(s, vectors, end)

    def summed(self, s: For, end: str) -> None:
        """Totals of so many steps, in the order in which `counted` adds them; there is a vector at least."""
        whole, vectors = self.down(end, self.lanes * s.ways), self.down(end, self.lanes)
        self.turns(s, 0, whole, s.ways)
        if s.ways > 1:
            self.turns(s, whole, vectors, 1)
        if self.lanes > 1:
            met = self.beyond(self.less(self.lanes, self.less(end, vectors)), 0)
            self.turns(s, self.less(end, self.lanes), None, 1, fresh=lambda way: met)

    def back(self, s: For, begin: Any, end: Any) -> None:
        """Steps of whole vectors, the last of which goes back from the end."""
        f, width = self.f, self.lanes * s.ways
        n, last = self.less(end, begin), self.less(end, width)
        whole, rest = f.put(f"udiv i64 {n}, {width}"), f.put(f"urem i64 {n}, {width}")
        more = f.put(f"zext i1 {f.put(f'icmp ne i64 {rest}, 0')} to i64")
        steps = self.add(whole, more)
        place = lambda i: self.least(i, last)
        at = lambda step: self.add(begin, self.times(step, width))
        if not s.run:
            self.turns(s, begin, at(steps), s.ways, place=place)
            return
        runs = self.add(f.put(f"udiv i64 {self.add(s.run - 1, whole)}, {s.run}"), more)
        with self.carried(0, runs, 1, self.states) as run:  # of whole steps; the last has what is left
            first = self.least(self.times(run, s.run), whole)
            at_end = f.put(f"icmp eq i64 {first}, {whole}")
            stop = f.put(f"select i1 {at_end}, i64 {steps}, i64 {self.least(self.add(s.run, first), whole)}")
            met = f.put(f"select i1 {at_end}, i64 {self.less(width, rest)}, i64 0")
            masks = [self.beyond(met, w * self.lanes) for w in range(s.ways)]
            self.turns(s, at(first), at(stop), s.ways, fresh=masks.__getitem__, place=place, apart=True)

    def beyond(self, first: str, offset: int) -> str:
        """The mask of the lanes whose number, counted from `offset`, is at least `first`."""
        if self.lanes == 1:
            return self.f.put(f"icmp sle i64 {first}, {offset}")
        numbers = ", ".join([f"i32 {offset + i}" for i in range(self.lanes)])
        limit = self.wide.broadcast("i32", self.f.put(f"trunc i64 {first} to i32"))
        return self.f.put(f"icmp sge <{self.lanes} x i32> <{numbers}>, {limit}")

    def turns(
        self,
        s: For,
        begin: Any,
        end: Any,
        ways: int,
        on: Masks | None = None,
        fresh: Masks | None = None,
        place: Callable[[str], str] | None = None,
        apart: bool = False,
    ) -> None:
        """A loop over steps of so many vectors, without an end one step; `place` says where a step is, if not at its index."""
        step = self.lanes * ways
        places = lambda first: [self.add(w * self.lanes, first) for w in range(ways)]
        if type(begin) is type(end) is int and begin == end:
            return
        self.started(s, ways, apart)
        if end is None or type(begin) is type(end) is int and end - begin == step:
            self.turn(s, places(str(begin)), on, fresh)
        else:
            with self.carried(begin, end, step, self.registers) as i:
                self.turn(s, places(place(i) if place else i), on, fresh)
        self.settled(s, ways, apart)

    def turn(self, s: For, places: Sequence[str], on: Masks | None = None, fresh: Masks | None = None) -> None:
        every: Masks = lambda way: None
        self.vector, self.on, self.fresh = s.index, on or every, fresh or on or every
        past = self.again and any([type(x) is Put and x.past for x in s.body])
        width = self.lanes * len(places)
        self.moved = self.f.put(f"icmp ne i64 {self.f.put(f'urem i64 {places[0]}, {width}')}, 0") if past else None
        with self.scope(), self.opened(s.index, places):
            self.write(s.body)
        self.vector, self.on, self.fresh = "", every, every

    def parts(self, s: For, ways: int) -> Iterator[tuple[Total, Combo, list[Combo]]]:
        """The totals that a loop carries, and the combinations of their registers."""
        carried = {t.value for t in s.totals}
        for v, combo, lost in list(self.states):
            if v in carried and not lost:
                inner = {i for i, _ in self.totals[v].over}
                outer = tuple([p for p in combo if p[0] not in inner])
                yield self.totals[v], combo, [(*outer, (s.index, w), *combo[len(outer) :]) for w in range(ways)]

    def started(self, s: For, ways: int, apart: bool) -> None:
        """The registers begin with the totals so far or, `apart`, with nothing."""
        for t, combo, keys in self.parts(s, ways):
            for w, key in enumerate(keys):
                nothing = self.wide.identity(t.kind, t.dtype)
                self.registers[t.value, key] = nothing if w or apart else self.states[t.value, combo, False]
            self.spread[t.value] |= {s.index}

    def settled(self, s: For, ways: int, apart: bool) -> None:
        """The registers are added up: to the totals, or they are the totals."""
        e = self.wide
        for t, combo, keys in self.parts(s, ways):
            v, key = t.value, (t.value, combo, False)
            lane = tree(e, t.kind, [self.registers.pop((v, k)) for k in keys])
            if not apart:
                self.states[key] = lane
            elif self.exact(t):
                self.states[key], self.states[v, combo, True] = added(e, self.states[key], self.states[v, combo, True], lane)
            else:
                self.states[key] = e.combine(t.kind, self.states[key], lane)
            self.spread[v] -= {s.index}


def read(e: Emitter, dtype: np.dtype, pointer: str, index: str, step: Any, mask: str | None = None) -> Lane:
    """Lanes that lie so many bytes apart; masked if side by side."""
    return e.load(dtype, pointer, index, mask=mask) if step == dtype.itemsize else gather(e, dtype, pointer, step)


def write(e: Emitter, lane: Lane, pointer: str, index: str, step: Any, mask: str | None = None, past: bool = False) -> None:
    if step == lane.dtype.itemsize:
        e.store(lane, pointer, index, mask=mask, nontemporal=past)
    else:
        scatter(e, lane, pointer, step)


def cut(combo: Combo, indices: Iterable[str]) -> Combo:
    return tuple([p for p in combo if p[0] in indices])


def tree(e: Emitter, kind: str, lanes: list[Lane]) -> Lane:
    """The lanes combined in pairs."""
    while len(lanes) > 1:
        pairs = [e.combine(kind, a, b) for a, b in zip(lanes[::2], lanes[1::2])]
        lanes = pairs + lanes[2 * len(pairs) :]
    return lanes[0]


def side_by_side(e: Emitter, kind: str, lanes: list[Lane]) -> list[Lane]:
    """The elements of each of these vectors combined, as scalars.

    Vectors lie side by side in one, as soon as there is room, and are halved together.
    """
    count, size, f = len(lanes), e.lanes, e.function

    def shuffled(dtype: Any, a: str, b: str, width: int, order: list[int]) -> str:
        vector = f"<{width} x {e.element(dtype)}>"
        if len(order) == 1:
            return f.put(f"extractelement {vector} {a}, i64 {order[0]}")
        places = ", ".join([f"i32 {i}" for i in order])
        return f.put(f"shufflevector {vector} {a}, {vector} {b}, <{len(order)} x i32> <{places}>")

    if count & (count - 1) or count > e.lanes:
        return [e.horizontal(kind, lane) for lane in lanes]
    while size > 1:
        several = len(lanes) > 1
        inputs = [lanes[i : i + 2] for i in range(0, len(lanes), 2)] if several else [[lanes[0], lanes[0]]]
        groups = (2 * e.lanes // size) if several else count
        picked = [[g * size + half + i for g in range(groups) for i in range(size // 2)] for half in (0, size // 2)]
        wide, width, found = Emitter(f, groups * size // 2, e.host), e.lanes if several else groups * size, []
        for a, b in inputs:
            halves = [[shuffled(a.dtype, p, q, width, order) for p, q in zip(a.parts, b.parts)] for order in picked]
            found.append(wide.combine(kind, *[Lane(a.dtype, tuple(parts)) for parts in halves]))
        lanes, size = found, size // 2
    together = Emitter(f, count, e.host)
    return [together.extract(lanes[0], i) for i in range(count)]


_WRITERS: dict[type, Callable[[NestPrinter, Any], None]] = {
    Load: NestPrinter.load,
    Let: NestPrinter.let,
    Count: NestPrinter.count,
    Same: NestPrinter.renamed,
    Steps: NestPrinter.steps,
    Put: NestPrinter.put,
    Ask: NestPrinter.ask,
    Fold: NestPrinter.fold,
    Into: NestPrinter.into,
    For: NestPrinter.loop,
    Blocks: NestPrinter.blocks,
}
