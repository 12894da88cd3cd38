"""Operations whose elements go in order, as loop nests (nest.py): gathers, scatters, running sums, lanes taken for others.

Idea: where a computed index leads is a number of the nest, ("at", k), and an element lies so many bytes further for each step
of it as for a step of a loop. An index is loaded and looked at in the loops in which it changes, outside of the others. The
elements behind an index are a loop of vectors; all else goes one by one, so that of repeated indices the last one counts, and
sums are added up as NumPy does. Axes along which all arrays go on in step are one loop.

`ORDERED` has for each operation what makes its `Walk`: of the equation, the array of the result, the operands, and the target's
`look(emitter, lane, size)`, which gives an index as an int64 in the bounds, and leaves the program if it is not. Scatters write
over their first operand, whose array is that of the result; `is_last` has an array of numbers of places as its first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.plans.element_plan import merged_axes, seen
from funcad.ir.jaxpr import Equation
from funcad.primitives.atoms import RUNNING

from funcad.backends.loops.nest import (  # isort: skip
    BACK, ONES, VECTORS, At, Carry, Count, Fold, For, Into, Let, Load, Put, Total, loaded, nested,
)

INT64 = np.dtype(np.int64)
_FOLDS = {"add": "add", "mul": "mul", "min": "minimum", "max": "maximum"}  # the atoms of a scatter's modes
Look = Callable[[Any, Any, int], Any]
Steps = dict[Any, dict[Any, int]]  # how many elements further an array is for a step of a loop or of a computed number


class Walk(NamedTuple):
    """A nest on arrays, and numbers, by their names in it."""

    nest: list[Any]
    arrays: dict[Any, Any]
    steps: Steps
    side: tuple[int, np.dtype]  # how many elements may be computed side by side, and of which dtype
    writes: tuple[str, ...] = ("row",)


class Indexed:
    """Loops over the elements of a row, for each of which indices say where it is in another array, the place.

    The first `rank` axes of the row are those of the indices, and the first `lanes` of these are the place's, too.
    """

    def __init__(
        self, place: Any, row: Any, indices: Sequence[Any], shape: tuple, rank: int, lanes: int, look: Look, rest: str = BACK
    ):
        self.arrays: dict[Any, Any] = {"place": place, "row": row}
        self.arrays |= {("index", k): x for k, x in enumerate(indices)}
        behind = lanes + len(indices)
        own = [(*place.strides[:lanes], *[0] * (rank - lanes), *place.strides[behind:])]
        for x in (row, *indices):
            strides = getattr(x, "strides", ())
            own.append((*strides, *[0] * (len(shape) - len(strides))))
        outer = merged_axes(shape[:rank], [s[:rank] for s in own])
        inner = merged_axes(shape[rank:], [s[rank:] for s in own])
        self.loops = [*_loops("i", outer), *_loops("c", inner, rest)]
        self.steps = _steps(self.arrays, self.loops, [*outer, *inner])
        rows = {name: [*steps.values()] for name, steps in self.steps.items()}
        self.bodies = loaded(self.loops, [(("index", k), x.dtype, rows["index", k]) for k, x in enumerate(indices)])
        known: list[dict[Any, int]] = [{} for _ in self.bodies]  # in how many of the loops, of what leads to the place
        for level, (name, step) in enumerate(self.steps["place"].items(), 1):
            known[level][name] = step
        for k, n in enumerate(place.shape[lanes:behind]):
            level = max([i + 1 for i, s in enumerate(rows["index", k]) if s], default=0)
            self.bodies[level].append(Let((("at", k),), (("index", k),), _looking(look, n)))
            known[level]["at", k] = place.strides[lanes + k]
        self.steps["place"] = {name: s for some in known for name, s in some.items()}
        self.place = _at("place", place.dtype, self.steps)
        self.onto = _at("place", place.dtype, self.steps, written=True)
        self.row = _at("row", row.dtype, self.steps)
        self.side = (inner[-1][0] if inner else 1), place.dtype
        self.empty = 0 in shape

    def walk(self, *insides: Sequence[Any], writes: tuple[str, ...] = ("row",)) -> Walk:
        """The same loops as often as there is something to do in them."""
        nest: list[Any] = []
        for inside in insides if not self.empty else ():
            nest += nested(self.loops, [*self.bodies[:-1], [*self.bodies[-1], *inside]])
        return Walk(nest, self.arrays, self.steps, self.side, writes)


def _looking(look: Look, size: int) -> Callable[[Any, list[Any]], list[Any]]:
    return lambda e, xs: [look(e, xs[0], size)]


def _loops(letter: str, axes: Sequence[tuple[int, Any]], rest: str | None = None) -> list[For]:
    """One by one, or, if it is said what becomes of the rest, the last one by vectors."""
    loops = [For(f"{letter}{k}", 0, n, ONES, ()) for k, (n, _) in enumerate(axes)]
    if loops and rest:
        loops[-1] = loops[-1]._replace(how=VECTORS, rest=rest, extent=loops[-1].end)
    return loops


def _steps(names: Iterable[Any], loops: Sequence[For], axes: Sequence[tuple[int, Sequence[int]]]) -> Steps:
    return {name: {loop.index: s[k] for loop, (_, s) in zip(loops, axes)} for k, name in enumerate(names)}


def _at(name: Any, dtype: np.dtype, steps: Steps, written: bool = False) -> At:
    """An element as it is read, in the loops in which it changes; `written`: in all of them."""
    return At(name, tuple([(index, s * dtype.itemsize) for index, s in steps[name].items() if s or written]))


# -- computed indices


def _gathered(equation: Equation, out: Any, xs: Sequence[Any], look: Look) -> Walk:
    place, *indices = xs
    shape, rank = equation.outputs[0].aval.shape, len(equation.inputs[1].aval.shape)
    p = Indexed(place, out, indices, shape, rank, equation.params["batch_dims"], look)
    return p.walk([Load("element", place.dtype, p.place), Put(p.row, "element", out.dtype)])


def _scattered(equation: Equation, out: Any, xs: Sequence[Any], look: Look) -> Walk:
    """Updates are written, or added to what is there, or multiply it ..."""
    _, u, *indices = xs
    shape = equation.inputs[1].aval.shape
    rank = len(equation.inputs[2].aval.shape)
    fold = _FOLDS.get(equation.params["mode"])
    p = Indexed(out, u, indices, shape, rank, equation.params["batch_dims"], look, ONES if fold else BACK)
    if fold:
        done: Any = Into(p.onto, out.dtype, fold, "update")
    else:
        done = Put(p.onto, "update", out.dtype)
    return p.walk([Load("update", u.dtype, p.row), done], writes=("place",))


def _looked_at(equation: Equation, out: Any, xs: Sequence[Any], look: Look) -> Walk:
    """An index as it is once it has been looked at."""
    shape, size = equation.params["shape"], equation.params["size"]
    index = seen(xs[0], lambda a: a.reshape(shape, copy=False))
    place = index._replace(shape=(size,), strides=(0,))  # nobody reads there
    p = Indexed(place, out, [index], shape, len(shape), 0, look)
    found = Let(("found",), (("at", 0),), lambda e, xs: [e.convert(xs[0], out.dtype)])
    return p.walk([found, Put(p.row, "found", out.dtype)])


def _last_ones(equation: Equation, out: Any, xs: Sequence[Any], look: Look) -> Walk:
    """Is this the last of the updates that go to the same element? Each puts its number there, then looks whose it is."""
    (place, *indices), shape = xs, equation.outputs[0].aval.shape
    p = Indexed(place, out, indices, shape, len(shape), len(place.shape) - len(indices), look)
    counts = [Count(("count", loop.index), loop.index) for loop in p.loops]

    def number(e: Any, xs: list[Any]) -> list[Any]:
        found = e.literal(0, INT64)
        for loop, x in zip(p.loops, xs):
            found = e.add(e.mul(found, e.literal(loop.end, INT64)), x)
        return [found]

    own = [*counts, Let(("number",), tuple([count.value for count in counts]), number)]
    same = Let(("last",), ("winner", "number"), lambda e, xs: [e.eq(*xs)])
    looks = [Load("winner", INT64, p.place), same, Put(p.row, "last", out.dtype)]
    return p.walk([*own, Put(p.onto, "number", INT64)], [*own, *looks], writes=("place", "row"))


# -- along an axis


def _running(equation: Equation, out: Any, xs: Sequence[Any], look: Look) -> Walk:
    """out[k] = step(out[k - 1], operands at k) along an axis; out[0] is the first operand's.

    What is so far is a number if that axis is the last one, else it is read where it was written, a vector at a time.
    """
    axis, dtype, atom = equation.params["axis"], out.dtype, RUNNING.get(equation.primitive.name)

    def step(e: Any, xs: list[Any]) -> list[Any]:
        if atom is not None:
            return [e.atom(atom, *xs)]
        total, more, factor = xs
        return [e.add(e.mul(factor, total), more)]

    turned = [out, *xs]
    if equation.params["reverse"]:
        turned = [seen(x, lambda a: np.flip(a, axis)) for x in turned]
    from_one = (*[slice(None)] * axis, slice(1, None))
    later = [seen(x, lambda a: a[from_one])._replace(strides=x.strides) for x in turned]
    names = [("in", k) for k in range(len(xs))]
    arrays: dict[Any, Any] = {"start": turned[0], "before": turned[0], "first": turned[1], "out": later[0]}
    arrays |= zip(names, later[1:])
    merged = lambda part: merged_axes(out.shape[part], [x.strides[part] for x in arrays.values()])
    outer, inner = merged(slice(axis)), merged(slice(axis + 1, None))
    along = out.shape[axis] - 1, [x.strides[axis] for x in arrays.values()]
    outside, (loop,), inside = _loops("i", outer), _loops("k", [along]), _loops("c", inner, BACK)
    steps = _steps(arrays, [*outside, loop, *inside], [*outer, along, *inner])
    load = lambda name: Load(name, dtype, _at(name, dtype, steps))
    first = [load("first"), Put(_at("start", dtype, steps), "first", dtype)]
    done: list[Any] = [*map(load, names)]
    done.append(Let(("next",), ("before", *names), step))
    done.append(Put(_at("out", dtype, steps), "next", dtype))
    body: list[Any]
    if inside:
        around: list[list[Any]] = [[] for _ in inside]
        done = nested(inside, [*around, [load("before"), *done]])
        body = [*nested(inside, [*around, first]), loop._replace(body=done)]
    else:
        carry = Carry("before", "first", "next")
        body = [*first, loop._replace(body=done, carry=carry)]
    nest = nested(outside, [*[[] for _ in outside], body]) if 0 not in out.shape else []
    return Walk(nest, arrays, steps, (inner[-1][0] if inner else 1, dtype), ("start", "before", "out"))


# -- lanes of batched loops and branches


def _taken(equation: Equation, out: Any, xs: Sequence[Any], look: Look) -> Walk:
    """Lanes where the mask does not hold are the first one where it does; as they are, if there is none."""
    x, mask = xs
    dtype, n = x.dtype, prod(mask.shape)
    size = prod(x.shape) // max(n, 1)
    lanes = lambda a, size: seen(a, lambda a: a.reshape((n, size), copy=False))
    arrays = {"place": lanes(x, size), "row": lanes(out, size), "mask": lanes(mask, 1)}
    steps: Steps = {"place": {"at": size, "c0": 1}, "row": {"n": size, "c0": 1}, "mask": {"n": 1}}
    own = [Load("holds", mask.dtype, At("mask", (("n", 1),))), Count("lane", "n")]

    def candidate(e: Any, xs: list[Any]) -> list[Any]:
        return [e.select(*xs, e.literal(n, INT64))]

    def source(e: Any, xs: list[Any]) -> list[Any]:
        holds, lane, first = xs
        return [e.select(e.or_(holds, e.eq(first, e.literal(n, INT64))), lane, first)]

    found = [*own, Let(("candidate",), ("holds", "lane"), candidate), Fold("first", "candidate")]
    total = Total("first", INT64, "minimum")
    find = For("n", 0, n, VECTORS, found, totals=[total], extent=n)
    (elements,) = _loops("c", [(size, ())], BACK)
    copy = [Load("x", dtype, _at("place", dtype, steps)), Put(_at("row", dtype, steps), "x", dtype)]
    at = Let(("at",), ("holds", "lane", "first"), source)
    move = For("n", 0, n, ONES, [*own, at, elements._replace(body=copy)])
    return Walk([find, move] if 0 not in x.shape else [], arrays, steps, (size, dtype))


ORDERED = {
    "gather": _gathered,
    "scatter": _scattered,
    "checked_index": _looked_at,
    "is_last": _last_ones,
    "pick_lanes": _taken,
    **dict.fromkeys([*RUNNING, "linear_recurrence"], _running),
}
CONTIGUOUS = frozenset(["checked_index", "pick_lanes"])  # those that need their operands so
