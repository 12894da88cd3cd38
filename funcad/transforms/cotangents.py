"""Cotangents while a linear program is run backwards: by variable, with what is known of their memory.

Idea: an array's cotangent is added up in one buffer. What a read of a part of it gives is added there, and a write of a part is
transposed by clearing that part, so both are work of the size of the part: a loop that writes an array element by element has a
backward pass of the same order. Of values that are being recorded the same becomes `basic_add` and its like, whose first
operand dies there, so that the engines write in place, too. Masks (masks/masks.py) are kept up in the same way.

Invariants: cotangents are written only in a buffer that was allocated here, never in one that a rule returned (it may be an
alias); a buffer or the bools of a mask that leave are no longer owned. Reads of large parts stay sums of placements, which the
compiler joins in one loop (passes/scatters.py), and so do those of small arrays.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from funcad.host.devices import on_device
from funcad.host.real_types import COMPUTED
from funcad.ir.aval import Atom, Aval, Cotangent, StackAval, Value, dtype_of, shape_of
from funcad.ir.jaxpr import Equation, Var
from funcad.ir.tracer import Tracer
from funcad.masks.masks import EVERY, LazyBools, Mask, bools_of, clean, either, handed_on, reach_of, together
from funcad.primitives.basic_indexing import known_aval
from funcad.primitives.loop import add_values
from funcad.primitives.shape import constant_beside

BOOL = np.dtype(bool)
FEW = 64  # elements of a small array: to pass over all of it costs less than another operation
PARTS = 32  # the most reads that the compiler joins, and the smallest part of an array that is a large one


class Cotangents:
    """Cotangents by variable; knows which buffers are its own, and their masks, if they have any."""

    __slots__ = ("values", "own", "masks", "own_masks", "reads")

    def __init__(self) -> None:
        self.values: dict[Atom, Value] = {}
        self.own: set[Atom] = set()
        self.masks: dict[Atom, Mask] = {}
        self.own_masks: set[Atom] = set()  # whose bools nobody else holds
        self.reads: dict[Atom, int] = {}  # how many reads of large parts a cotangent is the sum of, if of nothing else

    def accumulate(self, atom: Atom, ct: Value, mask: Mask | None = None) -> None:
        old = self.values.get(atom)
        if old is None:
            self.values[atom] = ct
            if mask is not None:
                self.masks[atom] = mask
            return
        if self.reads:
            self.reads.pop(atom, None)
        if mask is not None or atom in self.masks:
            own = self.masks.pop(atom, None)
            self.own_masks.discard(atom)
            cleaned = clean(old, own)
            if cleaned is not old:
                old = cleaned
                self.own.discard(atom)
            ct, mask = clean(ct, mask), either(own, mask, shape_of(ct))
            if mask is not None:
                self.masks[atom] = mask
        if atom in self.own and type(old) is np.ndarray and type(ct) is np.ndarray and old.dtype == ct.dtype:
            np.add(old, ct, out=old)
        else:
            total = self.values[atom] = add_values(old, ct)
            if type(total) is np.ndarray and total.ndim:
                self.own.add(atom)

    def pop(self, atom: Atom) -> Cotangent:
        if self.own:
            self.own.discard(atom)
        return self.values.pop(atom, None)

    def take(self, atom: Atom) -> tuple[Cotangent, bool]:
        """The same, and whether nobody else holds it."""
        mine = atom in self.own
        return self.pop(atom), mine

    def read(self, equation: Equation, operands: list[Any], ct: Value, mask: Mask | None) -> int | None:
        """Add the cotangent of what was read of an array where it was read: None.

        Otherwise it is to be transposed and added, and then the array's is the sum of so many reads of large parts.
        """
        adds, atom = equation.primitive.adds, operands[0]
        old, aval = self.values.get(atom), atom.aval
        if type(aval) is StackAval or aval.size <= FEW:
            return 0
        reads, large = self.reads.get(atom, 0), PARTS * prod(shape_of(ct)) >= aval.size
        if old is None or reads and large and reads < PARTS:
            return reads + large
        assert adds is not None
        add, (_, *rest), where = adds(ct, *operands, **equation.params)
        over = add.over
        assert over is not None
        own = self.masks.get(atom)
        if own is not None:
            bools = _bools(own, aval.shape, atom in self.own_masks)
            if own.dirty or bools is None:
                return 0
            shape = shape_of(ct)
            small = bools_of(mask, shape) if mask is not None else constant_beside([bools, *rest], Aval(shape, BOOL), 1)
            fixed = own.bools.fixed and (mask is None or mask.bools.fixed)
            if any([type(x) is Tracer for x in (bools, small, *rest)]):
                self.masks[atom] = _mask(add(*together(bools, small), *rest, **where), False)  # of bools this is "or"
                self.own_masks.discard(atom)
            else:
                self.masks[atom] = _mask(over(np, bools, small, *rest, **where), fixed)
                self.own_masks.add(atom)
        ct = clean(ct, mask)
        self.reads.pop(atom, None)
        if atom in self.own and type(old) is np.ndarray and type(ct) in COMPUTED and old.dtype == dtype_of(ct):
            over(np, old, ct, *rest, **where)
        else:
            total = self.values[atom] = add(old, ct, *rest, **where)
            if type(total) is np.ndarray:
                self.own.add(atom)
        return None

    def was_read(self, atom: Atom, reads: int) -> None:
        """The transposed read has been added; it is an array of its own."""
        if reads:
            self.reads[atom] = reads
        if type(self.values[atom]) is np.ndarray:
            self.own.add(atom)

    def write(
        self, equation: Equation, operands: list[Any], ct: Value, mine: bool, mask: Mask | None, need: dict[Var, int]
    ) -> bool:
        """Transpose a write in its cotangent, which is `mine`, and in its mask; False: it is to be transposed as others are."""
        primitive, params = equation.primitive, equation.params
        transpose, transpose_over = primitive.transpose, primitive.transpose_over
        assert transpose is not None and transpose_over is not None
        x, u, *rest = operands
        shape = shape_of(ct)
        own_mask = equation.outputs[0] in self.own_masks
        self.own_masks.discard(equation.outputs[0])
        if type(x) is not Var or not shape:
            return False
        mask_x = mask_u = None
        if mask is not None or need.get(x, 0) == EVERY:
            bools = np.ones(shape, bool) if mask is None else _bools(mask, shape, own_mask)
            recorded = type(bools) is Tracer
            if bools is None or on_device(rest) or reach_of(primitive, params) != "picks":
                return False
            if not recorded and any([type(i) is Tracer for i in rest]):
                return False
            cleaned = clean(ct, mask)
            ct, mine = cleaned, mine and cleaned is ct
            fixed = not recorded and (mask is None or mask.bools.fixed)
            if recorded:
                like = [Var(Aval(n, BOOL)) for n in (shape, known_aval(u).shape)]
                bools, small, *_ = transpose(bools, *like, *rest, **params)
            else:
                bools, small, *_ = transpose_over(bools, x, u, *rest, **params)
                small = None if small is None else np.asarray(small, bool)  # where a place is written twice it was multiplied
            mask_x = _mask(bools, fixed) if need.get(x, 0) == EVERY else None
            mask_u = None if mask is None or small is None else _mask(small, fixed)
        in_place = mine and type(ct) is np.ndarray
        ct_x, ct_u, *_ = (transpose_over if in_place else transpose)(ct, *operands, **params)
        self.accumulate(x, ct_x, mask_x)
        if self.values[x] is ct_x and (in_place or type(ct_x) is np.ndarray and ct_x is not ct):
            self.own.add(x)
        if mask_x is not None and self.masks.get(x) is mask_x and type(mask_x.bools.get()) is np.ndarray:
            self.own_masks.add(x)
        if ct_u is not None:
            self.accumulate(u, *handed_on(u, ct_u, mask_u, need))
        return True


def _bools(mask: Mask, shape: tuple[int, ...], own: bool) -> Any:
    """The mask's bools, recorded or as an array to write in; None if they are on a device, or of the whole value."""
    bools = None if mask.whole else mask.bools.get(shape)
    if type(bools) is Tracer:
        return bools
    return None if type(bools) is not np.ndarray else bools if own else np.array(bools)


def _mask(bools: Value, fixed: bool) -> Mask:
    found = LazyBools(lambda: bools, fixed=fixed)
    found.get()
    return Mask(found, False, 0)
