"""What engines decide of a fused group before they write it: kinds of operands, traffic, and what is refused.

Idea: an engine writes code for a group without knowing extents; `layout_of` says in how few axes a call's arrays can be walked
over, and which of them are adjacent, broadcast or strided along each, so that equal groups share code whatever their sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.ir.jaxpr import Jaxpr, Literal, Var
from funcad.primitives.atoms import ATOMS, ELEMENTARY, atoms_of, fold_of, idempotent

# -- the one exception of the engines that write code: what they cannot compile exactly as NumPy computes it stays with NumPy
#
# Every layer raises it while it *emits* code, never while compiled code runs; whoever asked for a kernel catches it and takes
# the lines of NumPy (of CuPy, on a device) for that group. The reason is a sentence for the user, shown by explanations of what
# was compiled.


class Unsupported(Exception):
    """This cannot be compiled here, for the reason given; NumPy (on a device CuPy) runs it.

    >>> from funcad.backends.plans.element_plan import Unsupported
    >>> str(Unsupported("float16 has no vector arithmetic"))
    'float16 has no vector arithmetic'
    """


# -- how many bytes a group moves: what each of its accesses reads, and what it writes
#
# The one place that says so.
#
# An access is an input as equations read it; one that is read element by element and broadcast, too, is two. An array that is
# broadcast is read once, since it stays in the caches. Trap: strided elements move whole sectors of memory, which is not
# counted.


def bytes_moved(jaxpr: Jaxpr) -> int:
    """Bytes read and written by one run of a group.

    >>> import numpy as np, funcad
    >>> bytes_moved(funcad.jit(lambda x, row: np.exp(x) * row).lower(np.ones((10, 5)), np.ones(5)).jaxpr)
    840
    """
    inputs, accesses = set(jaxpr.inputs), {}
    for equation in jaxpr.equations:
        way = equation.params["axes"] if equation.primitive.name == "broadcast_in_dim" else None
        for a in equation.inputs:
            if type(a) is Var and a in inputs:
                accesses[a, way] = _bytes(a)
    return sum(accesses.values()) + sum([_bytes(v) for v in dict.fromkeys(jaxpr.outputs)])


def _bytes(atom: Any) -> int:
    return int(atom.aval.size or 0) * atom.aval.dtype.itemsize


# -- A fused group of kind "elementwise": what it reads, computes and gives, and how the arrays of a call lie in memory


_BOOL = np.dtype(bool)
INSTRUCTIONS = {atom: 25 if atom in ELEMENTARY else 1 for atom in ATOMS}  # of arithmetic, per vector
INSTRUCTIONS.update(dict.fromkeys(("div", "sqrt", "mod", "floor_divide", "reciprocal", "fmod", "integer_pow"), 5))
_OWN_DTYPE = {"convert", "stop_gradient"}  # operands keep their dtype


class Group(NamedTuple):
    """What an elementwise group reads, computes and gives, independent of extents."""

    jaxpr: Jaxpr
    accesses: tuple[tuple[int, tuple[int, ...] | None], ...]  # (input, the axes of the space that its axes are, or None)
    reads: dict[Var, int]  # a variable that is an access -> which
    equations: tuple[Any, ...]  # the element operations, in order
    sums: dict[Var, tuple[str, Any]]  # a variable of rank 0 -> (kind of the accumulation, the atom that it accumulates)
    counted: bool  # may one of these take no element twice?
    dtypes: frozenset[np.dtype]


def analyse(jaxpr: Jaxpr) -> Group:
    """Sort the equations of a group."""
    accesses: list[tuple[int, tuple[int, ...] | None]] = []
    reads: dict[Var, int] = {}
    numbers = {v: i for i, v in enumerate(jaxpr.inputs)}

    def access(which: tuple[int, tuple[int, ...] | None], var: Var) -> None:
        if which not in accesses:
            accesses.append(which)
        reads[var] = accesses.index(which)

    equations, sums, counted = [], {}, False
    for equation in jaxpr.equations:
        name = equation.primitive.name
        for atom in equation.inputs:
            if type(atom) is not Literal and atom in numbers and name != "broadcast_in_dim":
                access((numbers[atom], None), atom)
        if name == "broadcast_in_dim" and type(equation.inputs[0]) is not Literal:
            access((numbers[equation.inputs[0]], tuple(equation.params["axes"])), equation.outputs[0])
        elif equation.primitive.reduction is not None:
            sums[equation.outputs[0]] = (fold_of(equation.primitive), equation.inputs[0])
            counted |= not idempotent(equation.primitive.reduction.ufunc)
        else:
            equations.append(equation)
    avals = [a.aval for e in jaxpr.equations for a in (*e.inputs, *e.outputs) if type(a) is not Literal]
    dtypes = frozenset(a.dtype for a in (*avals, *jaxpr.in_avals))
    return Group(jaxpr, tuple(accesses), reads, tuple(equations), sums, counted, dtypes)


class Layout(NamedTuple):
    """How the arrays of a call lie: the order of the axes, the collapsed extents, and the strides of each access."""

    order: tuple[int, ...]
    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def modes(self) -> tuple[str, ...]:
        last = len(self.extents) - 1
        letters = [["0" if s == 0 else "1" if s == 1 and i == last else "s" for i, s in enumerate(row)] for row in self.strides]
        return tuple(["".join(row) for row in letters])


def layout_of(shape: tuple[int, ...], accesses: Sequence[tuple[int, Any]], strides: Sequence[Any], shapes: Any) -> Layout:
    """The layout of a call; `strides` (in elements) and `shapes` are those of the inputs."""
    rows = []
    for i, axes in accesses:
        row = [0] * len(shape)
        for place, axis in enumerate(range(len(shape)) if axes is None else axes):
            if shapes[i][place] != 1:
                row[axis] = strides[i][place]
        rows.append(row)
    order = [axis for axis, n in enumerate(shape) if n != 1]
    full = [row for row in rows if all(row[axis] for axis in order)]
    order.sort(key=lambda axis: tuple([-abs(row[axis]) for row in full]))  # stable: as they are, if nothing is full
    there = [[row[axis] for axis in order] for row in rows]
    axes = merged_axes([shape[axis] for axis in order], there)
    axes = axes or [(1, (0,) * len(rows))]
    extents, steps = zip(*axes)
    return Layout(tuple(order), extents, tuple(zip(*steps)))


def merged_axes(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> list[tuple[int, tuple[int, ...]]]:
    """(extent, stride of each array) of the axes of a loop nest: no axis of size 1, neighbours merged where all allow it."""
    axes: list[tuple[int, tuple[int, ...]]] = []
    for i, n in enumerate(shape):
        if n == 1:
            continue
        own = tuple([s[i] for s in strides])
        if axes and all(outer == inner * n for outer, inner in zip(axes[-1][1], own)):
            axes[-1] = (axes[-1][0] * n, own)
        else:
            axes.append((n, own))
    return axes


def instructions(equation: Any) -> int:
    """About how many instructions of arithmetic an equation is, per vector; 1 for what has no formula of an element."""
    return 1 if equation.primitive.emit is None else sum([INSTRUCTIONS[atom] for atom in atoms_of(equation)])


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([math.prod(shape[i + 1 :]) for i in range(len(shape))])


RECORD = np.dtype([("byte", np.int8)])


def seen(x: Any, look: Callable[[np.ndarray], Any]) -> Any:
    """x, elements at an offset and strides, as `look` sees it, which takes views of arrays; None if it makes a copy.

    NumPy does so on an array that nobody reads: what it gives says where each element is. Its elements are records, since a
    number that is taken out of an array would be a copy.
    """
    empty, before, size = 0 in x.shape, 0, 1
    for n, s in zip(x.shape, x.strides):
        size += 0 if empty else abs(s) * (n - 1)
        before += -s * (n - 1) if s < 0 and not empty else 0
    memory = np.empty(size, RECORD)
    array = np.ndarray(x.shape, RECORD, memory, before, x.strides)
    found = look(array)
    if not empty and found.size and not np.may_share_memory(found, memory):
        return None
    strides = contiguous_strides(found.shape) if found.flags.c_contiguous else tuple(found.strides)
    starts = [a.__array_interface__["data"][0] for a in (array, found)]
    offset = x.offset + (starts[1] - starts[0] if found.size else 0)
    return x._replace(shape=found.shape, strides=strides, offset=offset)


def operand_dtypes(equation: Any) -> list[np.dtype]:
    """The dtype in which an elementwise equation computes, for each operand: weak operands adopt that of strong ones.

    >>> import numpy as np, funcad
    >>> equation = funcad.jit(lambda x: 2.0 * x).lower(np.ones(3, np.float32)).jaxpr.equations[0]
    >>> operand_dtypes(equation)
    [dtype('float32'), dtype('float32')]
    """
    avals = [a.aval for a in equation.inputs]
    name = equation.primitive.name
    if name in _OWN_DTYPE:
        return [a.dtype for a in avals]
    first = 1 if name == "select" else 0
    rest = avals[first:]
    strong = [a.dtype for a in rest if not a.weak]
    dtype = strong[0] if strong else np.result_type(*[a.dtype for a in rest])
    return [_BOOL] * first + [dtype] * len(rest)
