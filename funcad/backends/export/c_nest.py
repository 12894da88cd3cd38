"""Loop nests (loops/nest.py) as C: `CNest(program, memory, names).write(nest)`.

Idea: one element at a time, since compilers make vectors and unroll. What a nest says of steps abreast, vectors and caches is
not for C; where a value is computed and which loop a total belongs to is. A block of rows is one row, so that a loop over the
rows of a block is its body, and what a block keeps in slots are variables. Of loops that are written out each step is text.

A long sum of floats is added up in independent chains, side by side, which are combined in pairs. An array says how far apart
its elements are along each index; so bytes, which a nest counts in, are not asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from funcad.backends.export.c_elements import CValue, c_type, lane_type, literal

from funcad.backends.loops.nest import (  # isort: skip
    VECTORS, WRITTEN, Ask, At, Blocks, Constant, Count, Fold, For, Into, Let, Load, Put, Same, Steps, Total,
)

if TYPE_CHECKING:
    from funcad.backends.export.c_program import CProgram

CHAINS = 8  # of a long sum
LONG_SUM = 16  # elements from which on a sum is long


class CMemory(NamedTuple):
    """Elements that lie so many apart for a step of each index."""

    base: str
    strides: dict[str, int]
    offset: int


class CNest:
    """Writes nests into a program; `memory` has numbers and variables, too, and `names` the amounts that loops go to."""

    def __init__(self, p: CProgram, memory: dict[Any, CMemory | CValue], names: dict[str, int]):
        self.p, self.memory, self.names = p, memory, dict(names)
        self.places: dict[str, str] = {}  # the values of the indices
        self.now: tuple[tuple[str, int], ...] = ()  # the steps of the loops that are being written out
        self.values: dict[tuple[Any, tuple[tuple[str, int], ...]], CValue] = {}  # by their names and such steps
        self.same: dict[Any, Any] = {}  # other names
        self.totals: dict[Any, tuple[Total, CValue]] = {}  # those that are open
        self.chains: dict[Any, str] = {}  # of a total, in the loop that is written: the chain that is added to

    def write(self, body: Iterable[Any]) -> None:
        for statement in body:
            _WRITERS[type(statement)](self, statement)

    def get(self, a: Any) -> CValue:
        while a in self.same:
            a = self.same[a]
        if type(a) is Constant:
            return literal(a.value, a.dtype)
        return self.values[a, self.now if (a, self.now) in self.values else ()]

    def place(self, at: At) -> str:
        memory: Any = self.memory[at.array]
        if type(memory) is CValue:
            return memory.text
        terms, offset = [], memory.offset
        for index, _ in at.steps:
            computed = index not in self.places and (index, self.now) in self.values
            place = self.get(index).text if computed else self.places.get(index, "0")
            stride = memory.strides.get(index, 0)
            if place.isdigit():
                offset += int(place) * stride
            elif stride:
                terms.append(place if stride == 1 else f"{place} * {stride}")
        terms += [str(offset)] if offset or not terms else []
        return f"{memory.base}[{' + '.join(terms)}]"

    # -- statements

    def load(self, s: Load) -> None:
        memory = self.memory[s.at.array]
        self.values[s.value, self.now] = memory if type(memory) is CValue else self.p.e.load(s.dtype, self.place(s.at))

    def let(self, s: Let) -> None:
        for v, lane in zip(s.values, s.write(self.p.e, list(map(self.get, s.operands))), strict=True):
            self.values[v, self.now] = lane

    def count(self, s: Count) -> None:
        self.values[s.value, self.now] = CValue(np.dtype(np.int64), self.places[s.index])

    def renamed(self, s: Same) -> None:
        self.same[s.value] = s.operand

    def steps(self, s: Steps) -> None:
        apart = (s.value, ((s.index, 0),)) in self.values
        for way, v in enumerate(s.each):
            key = s.value, ((s.index, way),)
            if apart:
                self.values[v, ()] = self.values[key]
            else:
                self.values[key] = self.get(v)

    def put(self, s: Put) -> None:
        self.p.line(f"{self.place(s.at)} = {self.get(s.value).text};")

    def ask(self, s: Ask) -> None:
        """Compilers and processors fetch ahead by themselves."""

    def term(self, s: Fold | Into, dtype: np.dtype) -> CValue:
        x, *times = [self.p.e.convert(self.get(a), dtype) for a in (s.value, s.times) if a is not None]
        return self.p.e.mul(x, *times) if times else x

    def fold(self, s: Fold) -> None:
        t, variable = self.totals[s.total]
        self.p.folded(t.kind, CValue(t.dtype, self.chains.get(s.total, variable.text)), self.term(s, t.dtype))

    def into(self, s: Into) -> None:
        place, e = self.place(s.at), self.p.e
        found = e.combine(s.kind, e.load(s.dtype, place), self.term(s, s.dtype))
        self.p.line(f"{place} = {found.text};")

    # -- loops

    def loop(self, s: For) -> None:
        if s.how == WRITTEN:
            for way in range(s.ways):
                self.now = (*self.now, (s.index, way))
                self.step(s, str(way))
                self.now = self.now[:-1]
            return
        opened = [t for t in s.totals if t.value not in self.totals]
        for t in opened:
            self.totals[t.value] = t, self.p.total(t.kind, t.dtype)
        if s.carry is not None:
            first = self.get(s.carry.first)
            self.values[s.carry.value, self.now] = carried = CValue(first.dtype, self.p.fresh("t"))
            self.p.line(f"{lane_type(first.dtype)} {carried.text} = {first.text};")
        begin, end = [x if type(x) is int else self.names[x] for x in (s.begin, s.end)]
        sums = [t for t in s.totals if t.kind == "add" and t.dtype.kind == "f"] if s.how == VECTORS else []
        rest = begin
        if sums and end - begin >= LONG_SUM:
            rest = end - (end - begin) % CHAINS
            self.chained(s, sums, begin, rest)
        if end - rest == 1:
            self.step(s, str(rest))
        elif end > rest:
            index = self.p.fresh("i")
            with self.p.block(f"for (int64_t {index} = {rest}; {index} < {end}; {index}++)"):
                self.step(s, index)
        for t in opened:
            self.values[t.value, self.now] = self.totals.pop(t.value)[1]

    def step(self, s: For, place: str) -> None:
        self.places[s.index] = place
        self.write(s.body)
        if s.carry is not None:
            self.p.line(f"{self.get(s.carry.value).text} = {self.get(s.carry.following).text};")
        del self.places[s.index]

    def chained(self, s: For, sums: list[Total], begin: int, end: int) -> None:
        p = self.p
        names = {t.value: p.fresh("t") for t in sums}
        for t in sums:
            p.line(f"{c_type(t.dtype)} {names[t.value]}[{CHAINS}] = {{{', '.join(['0'] * CHAINS)}}};")
        start, k, index = [p.fresh("i") for _ in range(3)]
        with p.block(f"for (int64_t {start} = {begin}; {start} < {end}; {start} += {CHAINS})"):
            with p.block(f"for (int64_t {k} = 0; {k} < {CHAINS}; {k}++)"):
                p.line(f"const int64_t {index} = {start} + {k};")
                self.chains |= {v: f"{name}[{k}]" for v, name in names.items()}
                self.step(s, index)
        for v, name in names.items():
            del self.chains[v]
            terms = [f"{name}[{i}]" for i in range(CHAINS)]
            while len(terms) > 1:
                terms = [f"({a} + {b})" for a, b in zip(terms[::2], terms[1::2])]
            p.line(f"{self.totals[v][1].text} += {terms[0]};")

    def blocks(self, s: Blocks) -> None:
        index, begin, end = self.p.fresh("i"), self.names[s.begin], self.names[s.end]
        self.places[s.index], self.names[s.left] = index, 1
        with self.p.block(f"for (int64_t {index} = {begin}; {index} < {end}; {index}++)"):
            self.write(s.body)
        del self.places[s.index], self.names[s.left]


_WRITERS: dict[type, Callable[[CNest, Any], None]] = {
    Load: CNest.load,
    Let: CNest.let,
    Count: CNest.count,
    Same: CNest.renamed,
    Steps: CNest.steps,
    Put: CNest.put,
    Ask: CNest.ask,
    Fold: CNest.fold,
    Into: CNest.into,
    For: CNest.loop,
    Blocks: CNest.blocks,
}
