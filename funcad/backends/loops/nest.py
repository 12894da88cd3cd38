"""A loop nest as data: loops over indices, and in them statements about values.

    [For("r", 0, "rows", ONES, [Load("g", F64, At("gain", (("r", 8),))),
                                For("c", 0, 100, VECTORS, [Load("x", F64, At("x", (("r", 800), ("c", 8)))),
                                                           Let(("y",), ("x", "g"), lambda e, xs: [e.mul(*xs)]),
                                                           Put(At("y", (("r", 800), ("c", 8))), "y")])])]

Idea: what is computed is one thing, and how it is looped over another. A statement names the values that it reads and the
places in memory; a loop says how its index goes: step by step, vector by vector, some of them abreast, or written out.
**A statement is written once for each combination of the open loops' steps abreast that its indices name.** So what does not
depend on a loop is computed once, where it stands; a value that several rows share is loaded once for all of them; and a loop
that is written out keeps each of its values apart. No statement says any of that.

Whoever lowers a group or an operation (`*_loops.py` beside this, `native/program_reduce.py`) decides the order of the
loops, what is kept where, and how many steps are abreast. Whoever prints (`native/nest_printer.py` LLVM, `export/c_nest.py` C)
knows instructions and masks. A value is whatever may be a key. Extents and distances are amounts: a number, a name that the
printer knows, or a tuple, which is their product.

Invariants: a value is computed before it is read, in the same loop or in one around it. A total belongs to the loop that opens
it and can be read after it; loops inside carry it on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.plans.element_plan import operand_dtypes
from funcad.ir.jaxpr import Literal

ONES, VECTORS, WRITTEN = "one by one", "vector by vector", "written out"  # how a loop goes
MASKED, BACK = "masked", "back from the end"  # what becomes of less than a vector; or it is done ONES


class At(NamedTuple):
    """An element of an array: how many bytes it lies further for each step of an index, or of a computed number."""

    array: Any  # what the printer knows by this name
    steps: tuple[tuple[Any, Any], ...] = ()  # (index, amount)


class Constant(NamedTuple):
    value: Any
    dtype: np.dtype


class Load(NamedTuple):
    value: Any
    dtype: np.dtype
    at: At


class Let(NamedTuple):
    """Values that are computed element by element: `write(emitter, lanes of the operands)` gives their lanes."""

    values: tuple[Any, ...]
    operands: tuple[Any, ...]
    write: Callable[[Any, list[Any]], Sequence[Any]]


class Count(NamedTuple):
    """The number of a loop's step, as int64."""

    value: Any
    index: str


class Same(NamedTuple):
    """Another name of a value: a broadcast."""

    value: Any
    operand: Any


class Steps(NamedTuple):
    """A value of a loop that is written out is, step by step, these: they are names of what is known, or it is made of them."""

    value: Any
    index: str
    each: tuple[Any, ...]


class Put(NamedTuple):
    at: At
    value: Any
    dtype: np.dtype
    past: bool = False  # past the caches: whole vectors, aligned to them


class Fold(NamedTuple):
    """One more value for a total of an open loop, perhaps times another one."""

    total: Any
    value: Any
    times: Any = None


class Into(NamedTuple):
    """One more value for a total in memory: of a loop further out than those whose steps are abreast here."""

    at: At
    dtype: np.dtype
    kind: str
    value: Any
    times: Any = None


class Ask(NamedTuple):
    """The caches should fetch what lies so many bytes from an element."""

    at: At
    size: int
    ahead: Any  # amount


class Total(NamedTuple):
    """What a loop accumulates, by an atom."""

    value: Any
    dtype: np.dtype
    kind: str
    over: tuple[tuple[str, int], ...] = ()  # there is one for each step of these loops further in, which are written out
    exact: bool = False  # keeps what a sum loses to rounding (Neumaier)
    chain: bool = False  # one value after the other, not as many as are abreast


class Carry(NamedTuple):
    """A value that a loop hands on from step to step: what it is in the first one, and what in the next."""

    value: Any
    first: Any
    following: Any


class For(NamedTuple):
    """The statements of `body` for each step of an index."""

    index: str
    begin: Any
    end: Any
    how: str
    body: Sequence[Any]
    ways: int = 1  # steps abreast; of a loop that is written out, all
    totals: Sequence[Total] = ()  # those that it carries
    extent: int | None = None  # how many steps there are, from 0 on, if that is known
    rest: str = MASKED  # of a loop of vectors
    run: int = 0  # after so many steps the parts of the totals are added to those before; 0: never
    carry: Carry | None = None  # of a loop that goes one by one


class Blocks(NamedTuple):
    """For each so many steps of an index; `left` is the name of how many there are of them."""

    index: str
    begin: Any
    end: Any
    size: Any
    left: str
    body: Sequence[Any]


def element(equation: Any) -> Let | Same:
    """The value of an equation of elements."""
    (out,), atoms = equation.outputs, equation.inputs
    given = [Constant(a.value, dtype) if type(a) is Literal else a for a, dtype in zip(atoms, _dtypes(equation))]
    if equation.primitive.name == "broadcast_in_dim":
        return Same(out, given[0])
    return Let((out,), tuple(given), lambda e, lanes: [e.apply(equation, lanes)])


def _dtypes(equation: Any) -> Sequence[np.dtype]:
    if equation.primitive.name == "broadcast_in_dim":
        return [equation.outputs[0].aval.dtype]
    return operand_dtypes(equation)


def nested(loops: Sequence[For], bodies: Sequence[Sequence[Any]], after: Sequence[Sequence[Any]] = ()) -> list[Any]:
    """Loops inside one another: `bodies[k]` is what stands in k of them, in front of the next one, `after[k]` behind it."""
    inside: list[Any] = []
    behind = [*after, *[()] * (len(loops) + 1 - len(after))]
    for k in reversed(range(len(loops))):
        inside = [loops[k]._replace(body=[*bodies[k + 1], *inside, *behind[k + 1]])]
    return [*bodies[0], *inside, *behind[0]]


def strided(array: Any, loops: Sequence[For], dtype: np.dtype, strides: Sequence[int]) -> At:
    """Where an array is in loops, of which the first ones have these strides, in elements."""
    return At(array, tuple([(loop.index, s * dtype.itemsize) for loop, s in zip(loops, strides) if s]))


def loaded(loops: Sequence[For], reads: Iterable[tuple[Any, np.dtype, Sequence[int]]]) -> list[list[Any]]:
    """What is loaded in how many of the loops, of arrays with these strides; a value has the name of its array."""
    bodies: list[list[Any]] = [[] for _ in range(len(loops) + 1)]
    for name, dtype, strides in reads:
        level = max([k + 1 for k, s in enumerate(strides) if s], default=0)
        bodies[level].append(Load(name, dtype, strided(name, loops, dtype, strides)))
    return bodies
