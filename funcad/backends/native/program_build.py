"""What writes a whole program's code: the function, its memory, and loops over the elements of strided arrays.

`nest` is the one loop over elements: axes are merged where all arrays allow it, the last one runs over vectors. Idea for its
end: the last vector is moved back so that it ends with the row (some elements are computed twice), which needs no masks and no
second copy of the code. Hence the invariant that a result never lies in the memory of an operand of the same loop, except where
each element is computed once (`exact`), with a second loop for the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from funcad.backends.loops.nest import BACK, ONES, VECTORS, Count, For, Let, Put, loaded, nested, strided
from funcad.backends.loops.ordered_loops import Walk
from funcad.backends.native import program_pieces
from funcad.backends.native.emitter import Emitter
from funcad.backends.native.lane_types import Lane
from funcad.backends.native.nest_printer import Memory, NestPrinter
from funcad.backends.native.program_values import Along, Arena, Buffer, Pieces, Splat, View, part, same_place
from funcad.backends.native.target import lanes_of
from funcad.backends.plans.element_plan import Unsupported, contiguous_strides, merged_axes

MAX_LINES = 20_000  # of code in one program: about a second of compilation, once for all processes (cache.py)
PER_EQUATION = 3  # lines, at least, of most
WRITTEN_OUT = 8  # elements: so few are written out sooner than a function is called


class TooLong(Unsupported):
    """As one function: program_parts.py makes several."""


def too_long() -> TooLong:
    return TooLong(f"the program would take more than {MAX_LINES} lines of code")


class Build:
    """The state of one program under construction."""

    def __init__(self, function: Any, host: Any):
        self.f = function
        self.host = host
        self.arena = Arena()
        self.one = Emitter(function, 1, host)
        self._emitters = {1: self.one}
        self.helpers: dict[tuple[str, np.dtype], int] = {}  # functions that are called, and their places in the plan's table
        self.heap: list[bool] = []  # words of the table of memory that grows (growing.py): which are addresses
        self.sharing = False  # are loops functions that are called? In a long program
        self.functions: dict[Any, str] = {}  # those functions: see `shared`
        self.packed: dict[tuple, View] = {}  # operands of products that were brought into order before a loop

    def helper(self, name: str, dtype: np.dtype) -> str:
        """The address of a function that programs share (see gemm.py)."""
        place = self.helper_place(name, dtype)
        return self.f.load(f"load ptr, ptr {self.f.put(f'getelementptr ptr, ptr %helpers, i64 {place}')}")

    def helper_place(self, name: str, dtype: np.dtype) -> int:
        return self.helpers.setdefault((name, dtype), len(self.helpers))

    def heap_word(self, address: bool = True) -> str:
        """A new word of the table of memory that grows."""
        self.heap.append(address)
        return self.f.put(f"getelementptr ptr, ptr %heap, i64 {len(self.heap) - 1}")

    def emitter(self, lanes: int) -> Emitter:
        if lanes not in self._emitters:
            self._emitters[lanes] = Emitter(self.f, lanes, self.host)
        return self._emitters[lanes]

    # -- memory
    def new(self, dtype: np.dtype, shape: tuple[int, ...]) -> View:
        """Fresh working memory for an array, with one user."""
        buffer = self.arena.take(prod(shape) * dtype.itemsize)
        buffer.users = 1
        pointer = self.f.put(f"getelementptr i8, ptr %arena, i64 {buffer.offset}")
        return View(pointer, dtype, tuple(shape), contiguous_strides(shape), 0, (buffer,))

    def hold(self, value: Any) -> Any:
        """Another user of the memory that a value lies in."""
        if type(value) in (View, Pieces):
            for buffer in value.buffers:
                buffer.users += 1
        return value

    def drop(self, value: Any) -> None:
        if type(value) in (View, Pieces):
            for buffer in value.buffers:
                buffer.users -= 1
                if buffer.users == 0:
                    self.arena.give(buffer)

    def lent(self, view: View) -> View:
        """The same memory for a value that may be written over when it is its last user."""
        return view._replace(buffers=(Buffer(0, 0),))

    # -- values
    def pointer(self, view: View) -> str:
        """The address of the first element."""
        if view.offset == 0:
            return view.pointer
        return self.f.put(f"getelementptr i8, ptr {view.pointer}, i64 {view.offset * view.dtype.itemsize}")

    def moved(self, view: View, steps: Sequence[tuple[str, int]]) -> View:
        """The view shifted by a sum of products (an i64 name, elements), computed at run time."""
        offset = "0"
        for name, factor in steps:
            if factor and name.isdigit():
                name, factor = str(int(name) * factor), 1
            if factor and name != "0":
                term = name if factor == 1 else self.f.put(f"mul i64 {name}, {factor}")
                offset = term if offset == "0" else self.f.put(f"add i64 {offset}, {term}")
        if offset == "0":
            return view
        size = self.f.put(f"mul i64 {offset}, {view.dtype.itemsize}")
        return view._replace(pointer=self.f.put(f"getelementptr i8, ptr {view.pointer}, i64 {size}"))

    def lane(self, value: Any) -> Lane:
        """A rank-0 value in registers; a load if it is in memory."""
        if type(value) is Splat:
            return value.lane
        if type(value) is View:
            return self.one.load(value.dtype, self.pointer(value), "0")
        return value

    def in_memory(self, value: Any) -> View:
        """The value as a view, with a user more than before."""
        if type(value) is View:
            return self.hold(value)
        if type(value) is Lane:
            view = self.new(value.dtype, ())
            self.one.store(value, view.pointer, "0")
            return view
        view = self.new(value.dtype, value.shape)
        self.copy(value, view)
        return view

    def ordered(self, value: Any) -> View:
        """The value as a C-contiguous view, with a user more than before."""
        if type(value) is View and value.contiguous:
            return self.hold(value)
        return self.in_order(value)

    def in_order(self, value: Any, place: Any = None) -> View:
        """A contiguous copy, or one in a place of its own."""
        if type(value) is Lane:
            return self.in_memory(value)
        view = self.hold(place) if type(place) is View else self.new(value.dtype, value.shape)
        self.copy(value, view)
        return view

    def copy(self, value: Any, target: View | Pieces) -> None:
        """Write a value into memory of its shape, piece by piece, but for what lies there."""
        if type(value) is Lane:
            self.one.store(value, self.pointer(target), "0")
            return
        if same_place(value, target):
            return
        if type(value) is Pieces:
            for box, x in value.cells:
                self.copy(x, part(target, program_pieces.index_of(box)))
            return
        if type(target) is Pieces:
            for box, place in target.cells:
                self.copy(part(value, program_pieces.index_of(box)), place)
            return
        self.nest(target.shape, [value], [target], lambda e, lanes: lanes, key="copy")

    # -- loops
    def nest(
        self,
        shape: tuple,
        inputs: Sequence[Any],
        outputs: Sequence[View],
        body: Callable[[Emitter, list], Sequence[Lane]],
        exact: bool = False,
        key: Any = None,
    ) -> None:
        """For all elements: body(emitter, lanes of the inputs) gives the lanes of the outputs; `exact`: each once.

        Bodies with equal keys, if they have any, compute the same (see `shared`).
        """
        if 0 in shape:
            return
        if any([type(v) is Pieces for v in (*inputs, *outputs)]):
            program_pieces.nest(self, shape, inputs, outputs, body, key)
            return
        views = [v for v in (*inputs, *outputs) if type(v) is View]
        axes = merged_axes(shape, [v.strides for v in views]) or [(1, (0,) * len(views))]
        places = [(v, [steps[k] for _, steps in axes]) for k, v in enumerate(views)]
        self.sweep([n for n, _ in axes], inputs, places, outputs, body, exact, key)

    def sweep(
        self,
        extents: Sequence[int],
        inputs: Sequence[Any],
        places: Sequence[tuple[Any, Sequence[int]]],
        outputs: Sequence[Any],
        body: Callable[[Emitter, list], Sequence[Lane]],
        exact: bool = False,
        key: Any = None,
    ) -> None:
        """The loops of `nest`; `places`: view or pointer, and strides, of the inputs that are no constants, and of outputs."""
        lanes = self.lanes_of(extents[-1], [v.dtype for v in (*inputs, *outputs)])

        def write(build: Build, sizes: Sequence[Any], inputs: Sequence[Any], places: Sequence[tuple[Any, Any]]) -> None:
            *rows, n = sizes
            loops = [For(f"i{k}", 0, m, ONES, ()) for k, m in enumerate(rows)]
            loops.append(For("c", 0, n, VECTORS, (), rest=ONES if exact else BACK, extent=n if type(n) is int else None))
            printer, bodies, operands = build.loads(lanes, loops, inputs, places)
            results = [("out", k) for k in range(len(outputs))]
            bodies[-1].append(Let(tuple(results), operands, body))
            for key, v, (place, strides) in zip(results, outputs, places[len(places) - len(outputs) :]):
                printer.memory[key] = memory_of(place)
                bodies[-1].append(Put(strided(key, loops, v.dtype, strides), key, v.dtype))
            printer.write(nested(loops, bodies))

        self.shared(key and ("sweep", key, exact, lanes), extents, inputs, places, write)

    def walk(self, walk: Walk) -> None:
        """An operation of loops/ordered_loops.py."""
        if walk.nest:
            extent, dtype = walk.side
            memory = {name: memory_of(x) for name, x in walk.arrays.items()}
            NestPrinter(self.f, self.host, self.lanes_of(extent, [dtype]), memory, {}).write(walk.nest)

    def shared(
        self,
        key: Any,
        extents: Sequence[int],
        inputs: Sequence[Any],
        places: Sequence[tuple[Any, Sequence[int]]],
        write: Callable[..., Lane | None],
        result: np.dtype | None = None,
    ) -> Lane | None:
        """What `write(build, extents, inputs, places)` writes, in a long program a call of a function for all equal keys.

        The function has extents, addresses and single values as arguments, and gives a number, if there is a `result`. So
        loops that differ in their lengths are compiled once. What is inside a loop runs often, and knows its lengths.
        """
        few = prod(extents) <= WRITTEN_OUT or result is not None and result.kind == "c"
        if key is None or few or not self.sharing or not self.f.once:
            return write(self, extents, inputs, places)
        values = [(self.one.register(self.one.part(v.dtype)), p) for v in inputs if type(v) is Splat for p in v.lane.parts]
        key = (*key, len(extents), *[(type(v), v.dtype) for v in inputs], *[tuple(strides) for _, strides in places])
        kind = "void" if result is None else self.one.register(result)
        given = [("i64", n) for n in extents] + [("ptr", self.pointer(p) if type(p) is View else p) for p, _ in places]
        given += values
        name = self.functions.get(key)
        if name is None:
            name = self.functions[key] = f"loops{len(self.functions)}"
            own = [(k, f"%x{i}") for i, (k, _) in enumerate(given)]
            build, names = Build(self.f.beside(name, own, kind), self.host), iter([n for _, n in own])
            sizes, at = [next(names) for _ in extents], [(next(names), strides) for _, strides in places]
            lane = lambda x: Lane(x.dtype, tuple([next(names) for _ in x.parts]))
            found = write(build, sizes, [v._replace(lane=lane(v.lane)) if type(v) is Splat else v for v in inputs], at)
            build.f.do("ret void" if found is None else f"ret {kind} {found.name}")
            self.f.module.add(build.f)
        call = f"call {kind} @{name}({', '.join([f'{k} {x}' for k, x in given])})"
        if result is not None:
            return Lane(result, (self.f.load(call),))
        self.f.do(call)
        return None

    def lanes_of(self, extent: int, dtypes: Sequence[np.dtype]) -> int:
        """The greatest vectors that fit."""
        return 1 << (min(extent, lanes_of(self.host, dtypes)).bit_length() - 1)

    def loads(
        self, lanes: int, loops: Sequence[For], inputs: Sequence[Any], places: Sequence[tuple[Any, Sequence[int]]]
    ) -> tuple[NestPrinter, list[list[Any]], tuple[Any, ...]]:
        """A printer, what is loaded in how many of the loops, and the names of the inputs."""
        printer, reads = NestPrinter(self.f, self.host, lanes, {}, {}), []
        names, there = tuple([("in", k) for k in range(len(inputs))]), iter(places)
        counts = []
        for name, v in zip(names, inputs):
            if type(v) is Splat:
                printer.given(name, v.lane)
            elif type(v) is Along:
                counts.append(Count(name, v.index))
            else:
                place, strides = next(there)
                printer.memory[name] = memory_of(place)
                reads.append((name, v.dtype, strides))
        bodies = loaded(loops, reads)
        bodies[-1] += counts
        return printer, bodies, names

    def least(self, index: str, limit: Any) -> str:
        return self.f.put(f"select i1 {self.f.put(f'icmp slt i64 {index}, {limit}')}, i64 {index}, i64 {limit}")

    @contextmanager
    def over(self, axes: Sequence[tuple[int, Any]]) -> Any:
        """Nested loops over these extents; gives the names of the indices."""
        if not axes:
            yield []
            return
        with self.f.loop(0, axes[0][0]) as loop:
            with self.over(axes[1:]) as inner:
                yield [loop.index, *inner]
            loop.next()

    # -- leaving the program
    def leave_if(self, condition: str, status: int) -> None:
        with self.f.when(condition):
            self.f.do(f"ret i32 {status}")
            self.f.open(self.f.label("after"))

    def ask(self) -> None:
        """Let signal handlers run; leave if one raised."""
        target = self.f.load("load ptr, ptr %asking")
        answer = self.f.load(f"call i32 {target}(ptr %context)")
        self.leave_if(self.f.put(f"icmp ne i32 {answer}, 0"), 2)


def memory_of(place: Any) -> Any:
    """Of a view, or of what begins at a pointer; a number is what it is."""
    if type(place) in (Lane, Splat):
        return place.lane if type(place) is Splat else place
    return Memory(place.pointer, offset=place.offset * place.dtype.itemsize) if type(place) is View else Memory(place)
