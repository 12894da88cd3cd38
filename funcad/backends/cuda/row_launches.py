"""Calling the kernels of a group of rows: `RowLaunches(jaxpr, shape, xp)(*arrays) -> list of arrays`.

Idea: as for elementwise groups, a text for each way in which the elements of a row lie, with the distances between rows as
arguments. A group without sums over rows is one launch; sums take one more for all of them together, if there was more than
one block, and the columns of long rows a third; few long rows take one for each phase. Invariant: the number of blocks follows
from the shape alone, and with it the order of all sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.backends.cuda.by_layout import ByLayout
from funcad.backends.cuda.cuda_rows import RowText
from funcad.backends.cuda.prelude import THREADS
from funcad.backends.cuda.row_ways import planned
from funcad.backends.cuda.spread_rows import SpreadText

__all__ = ["RowLaunches", "text_of"]

BLOCKS = 1 << 16  # of a launch that adds up nothing
PARTS = 1024  # at most, of a sum
DEEP = 16  # rows of a part of a sum, at least: parts are written and read, which costs an eighth of reading the rows


def text_of(jaxpr: Any, shape: tuple[int, int]) -> RowText:
    """The writer of the kernels of a group."""
    return (SpreadText if planned(jaxpr, shape)[1].spread else RowText)(jaxpr, shape)


class RowLaunches(ByLayout):
    """The kernels of one group and shape; `make(text)` gives the module of a text."""

    def __init__(self, jaxpr: Any, shape: tuple[int, int], xp: Any, make: Any):
        self.xp, self.make, self.shape = xp, make, shape
        self.text = text = text_of(jaxpr, shape)
        self.avals = jaxpr.in_avals
        plan, way, (rows, n) = text.plan, text.way, shape
        self.results = [(v.aval.shape, v.aval.dtype) for v in plan.results]
        across = -(-n // THREADS)
        self.spread = max(min(-(-n // (way.team * DEEP)), PARTS // rows), 1) if way.spread else 0  # blocks of a row
        here = -(-rows // way.rows)
        adds = bool(text.sums) and not (text.apart and not plan.scalars)
        self.blocks = rows if way.spread else min(-(-rows // max(way.rows, DEEP)), PARTS) if adds else min(here, BLOCKS)
        self.deep = min(-(-rows // DEEP), max(PARTS // across, 1)) if text.apart else 0
        self.across = across
        self.parts = [self.deep if text.apart and s.column else self.blocks for s in text.sums]
        self.single = max(self.parts, default=1) == 1
        self.counts = [text.finished(s.column) for s in text.sums]
        self.ends = [plan.outputs[s.equation.outputs[0]][0] for s in text.sums]
        self.finishing = sum([-(-count // width) for count, width in self.counts])
        self.variants: dict[Any, _RowVariant] = {}
        self.text.text(["1"] * len(self.avals))  # may be Unsupported

    def made(self, given: Sequence[Any]) -> _RowVariant:
        return _RowVariant(self, given)

    def __call__(self, *arrays: Any) -> list[Any]:
        given = self.given(arrays)
        return self.variant_for(given).run(given)  # type: ignore[no-any-return]


class _RowVariant:
    """The kernels for one layout."""

    def __init__(self, owner: RowLaunches, arrays: Sequence[Any]):
        self.owner = owner
        kinds = [owner.text.plan.kind[v] for v in owner.text.inputs]
        self.modes, numbers = [], [owner.shape[0]]
        for a, kind in zip(arrays, kinds):
            *outer, inner = [s // a.itemsize for s in a.strides] or [1]
            along = kind in ("full", "column")
            self.modes.append("s" if along and inner != 1 and a.shape[-1] != 1 else "1")
            numbers += [outer[0] if outer else inner] * (kind in ("full", "row"))
            numbers += [inner] * (self.modes[-1] == "s")
        self.numbers = [np.int64(x) for x in numbers]
        self.functions: dict[str, Any] | None = None

    def found(self) -> dict[str, Any]:
        """The kernels, by their names."""
        if self.functions is None:
            text = self.owner.text
            module = self.owner.make(text.text(self.modes))
            stages = [f"stage{number}" for number in text.stages] if isinstance(text, SpreadText) else ["kernel"]
            names = stages * text.first + ["columns"] * text.apart + ["finish"] * bool(text.sums)
            self.functions = {name: module.get_function(name) for name in names}
        return self.functions

    def run(self, arrays: list[Any]) -> list[Any]:
        owner, functions = self.owner, self.functions or self.found()
        xp, text = owner.xp, owner.text
        results = [xp.empty(*r) for r in owner.results]
        left = [xp.empty(owner.shape[:1], v.aval.dtype) for v in text.left]
        parts = []
        for end, count, (n, _) in zip(owner.ends, owner.parts, owner.counts):
            parts.append(results[end] if owner.single else xp.empty((count, n), results[end].dtype))
        if text.first:
            own = [part for part, s in zip(parts, text.sums) if not (s.column and text.apart)]
            written = [results[k] for k in text.written]
            given = [*arrays, *written, *left, *own]
            blocks = owner.blocks
            if isinstance(text, SpreadText):
                blocks *= owner.spread
                given += [*[xp.empty((blocks,), d) for d in text.dtypes], np.int64(owner.spread)]
            for name in functions:
                if name not in ("columns", "finish"):
                    functions[name]((blocks,), (text.way.block,), (*given, *self.numbers))
        if text.apart:
            passed = [*left, *[results[int(what[3:])] for v, what in text.passed("columns")[len(left) :]]]
            own = [part for part, s in zip(parts, text.sums) if s.column]
            blocks = owner.deep * owner.across
            functions["columns"]((blocks,), (THREADS,), (*arrays, *passed, *own, *self.numbers))
        if not owner.single:
            ends = [x for end, part, n in zip(owner.ends, parts, owner.parts) for x in (part, results[end], np.int64(n))]
            functions["finish"]((owner.finishing,), (THREADS,), tuple(ends))
        return results
