"""Rolling: a stretch of equations that repeats itself becomes a loop.

A Python loop leaves as many equations as it has turns, and so does its derivative, forward and backward. Here each such stretch
(periods.py finds them, turns.py says what operands are) becomes a `scan`: what the turns hand on is its carry, what is the same
in all is its constant, what differs from turn to turn is an x, in this order of preference: rows of an array, results of a loop
before it (in the same or the opposite order), numbers in a table, values put together. What later equations read is a y, or the
carry at the end. Bounds of indices that follow the turn are computed from it. A placement that is only added to a sum, as the
derivative of `x[t]` is, leaves the loop as a y, and one placement of all follows. Loops that are found are looked at again, as
equations of loops around them.

Invariants: not a bit changes; effects are never inside; the first and last turns stay as they are where a loop without them has
simpler operands. Traps: a stretch in which two layers alternate looks as if its period were half of what it is, so multiples
are tried; a sum to which zeros are added has no -0.0, which one placement must not have either; putting values together copies
them, which must not cost more than the loop's own work; a y holds the values of all turns, so where a large value is read in a
few turns only, the loop ends there and another begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

from funcad.configuration import config
from funcad.host.state import state
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.passes.periods import LEAST, TURNS, looks, stretches
from funcad.passes.rolled import Rolled, TurnValue
from funcad.passes.turns import SLOTS, Known, Made, Turns, consistent
from funcad.primitives.basic_indexing import basic_add_p, basic_index_p, basic_place_p, basic_update_p
from funcad.primitives.shape import concatenate_p, reshape, transpose

__all__ = ["compiles_numbers", "roll"]

SMALLEST = 256  # equations of a program that is looked at: shorter ones are quicker written out
NUMBERS = 4000  # equations of a program that Python runs, up to which single numbers are not looped over
GAIN = 32  # equations by which the program must become shorter
DEEP = 4  # loops in loops
LAGS = 4  # turns that a value is handed on
MULTIPLES = (1, 2, 3, 4, 6, 8)
TRIMMED = 4  # turns that may stay as they are for the sake of simpler operands
TRIES = 4  # until no large value is read in few turns only
PIECES = 4  # of arrays of which an operand may be put together
APART = 4  # equations of a turn for each operand that is put together of more: each piece is an equation
SMALL = 1024  # bytes for each turn that are copied in any case
COPIED = 8  # bytes that the turns work on for one that is copied


def of_numbers(turns: Turns) -> bool:
    """Does most of a turn work on single numbers? Python does that quicker written out than in a loop over arrays."""
    found = 0
    for q in range(turns.period):
        equation = turns.equation(q)
        written = equation.inputs[1].aval.shape if equation.primitive in (basic_update_p, basic_add_p) else None
        found += written == () or not any([v.aval.shape for v in equation.outputs])
    return 2 * found > turns.period


def compiles_numbers() -> bool:
    """Is the engine one that runs loops over numbers as machine code?"""
    return (state.engine or config.engine) != "numpy" and _llvm()


@cache
def _llvm() -> bool:
    return find_spec("llvmlite") is not None


def roll(jaxpr: Jaxpr) -> Jaxpr:
    """The program with its repetitions as loops.

    >>> import numpy as np, funcad
    >>> from funcad.passes.roll import roll
    >>> def f(x):
    ...     for _ in range(200):
    ...         x = np.sin(x) * 0.5
    ...     return x
    >>> program = roll(funcad.make_jaxpr(f)(np.ones(3)).jaxpr)
    >>> [(e.primitive.name, e.params["loop"].length) for e in program.equations]
    [('rolled', 200)]
    """
    if len(jaxpr.equations) < SMALLEST:
        return jaxpr
    programs: dict[Any, int] = {}
    bodies: dict[Any, Jaxpr] = {}
    for _ in range(DEEP):
        found = _Roller(jaxpr, programs, bodies).run()
        if found is None or len(found.equations) > len(jaxpr.equations) - GAIN:
            break
        jaxpr = found
    return jaxpr


class _Roller:
    """One program: its loops, and the program with them."""

    def __init__(self, jaxpr: Jaxpr, programs: dict[Any, int], bodies: dict[Any, Jaxpr]):
        self.jaxpr = jaxpr
        self.programs = programs
        self.bodies = bodies
        self.numbers_stay = not compiles_numbers() and len(jaxpr.equations) < NUMBERS
        self.cuts: frozenset[int] = frozenset()  # where a loop ends, since what it computes there is read later

    def run(self) -> Jaxpr | None:
        found = stretches(looks(self.jaxpr.equations))
        for _ in range(TRIES if found else 0):
            self.known = Known(self.jaxpr, self.programs)
            self.loops: list[Rolled] = []
            self.starts: dict[int, Rolled] = {}
            self.owners: list[Rolled | None] = [None] * len(self.jaxpr.equations)
            for start, period, end in found:
                self.accept(start, period, end)
            self.find_readers()
            cuts = {cut for loop in self.loops for cut in loop.rarely_read()}
            if not cuts:
                return self.program() if self.loops else None
            self.cuts |= cuts
        return None

    # -- which loops

    def accept(self, start: int, period: int, end: int) -> None:
        """The loops of one stretch, by the smallest period that does."""
        best: list[Turns] = []
        covered = 0
        for multiple in MULTIPLES:
            step = period * multiple
            if end - start < TURNS * step or 2 * covered >= end - start:
                break
            found, refused = [], 0
            for first, last, distances in consistent(self.known, start, step, end, self.cuts):
                if last - first >= max(TURNS * step, LEAST):
                    turns = Turns(self.known, first, step, last, distances)
                    verdict = self.settled(turns)
                    if verdict:
                        found.append(turns)
                    refused += (last - first) * (verdict is False)
            if 2 * refused >= end - start:
                break
            size = sum([t.end - t.start for t in found])
            if size > covered:
                best, covered = found, size
        for turns in best:
            loop = Rolled(turns, self)
            for q in loop.constant:
                for t in range(1, turns.count):
                    self.known.alias.update(zip(turns.equation(q, t).outputs, turns.equation(q).outputs))
            self.loops.append(loop)
            self.starts[turns.start] = loop
            self.owners[turns.start : turns.end] = [loop] * (turns.end - turns.start)

    def settled(self, turns: Turns) -> bool | None:
        """Trim what makes operands difficult; can it be a loop, and does it pay? None: a longer period might."""
        if turns.count < TURNS or not turns.plain() or self.numbers_stay and of_numbers(turns):
            return False
        turns.classify()
        if any([type(o) is Made and o.lag > LAGS for row in turns.operands for o in row]):
            return None
        for _ in range(TRIMMED):
            front = back = 0
            for operand, _ in turns.outside():
                if type(operand.atoms[0]) is not Literal:
                    pieces = self.pieces(operand.atoms)
                    if len(pieces) <= PIECES:
                        main = max(pieces, key=lambda p: p.count)
                        front = max(front, main.turn)
                        back = max(back, turns.count - main.turn - main.count)
            if not 0 < front + back <= TRIMMED or turns.count - front - back < TURNS:
                break
            turns.trimmed(front, back)
        if (turns.count - 1) * turns.period < LEAST // 2:
            return False
        work = sum([_bytes(v.aval) for q in range(turns.period) for v in turns.equation(q).outputs])
        copied = apart = 0
        for operand, aval in turns.outside():
            if type(operand.atoms[0]) is Literal:
                continue
            pieces = self.pieces(operand.atoms)
            if len(pieces) > 1:
                alone = [p.atom for p in pieces if p.loop is None]
                if len(set(alone)) < len(alone):
                    return None  # they come again: the period is longer than it looks
                if len(pieces) > PIECES:
                    apart += 1
                copied += _bytes(aval)
        if apart * APART > turns.period:
            return False
        return copied <= max(SMALL, work // COPIED) and Rolled(turns, self).possible()

    # -- where values are

    def row(self, atom: Any) -> TurnValue | None:
        """The place of a value that a loop makes."""
        made = self.known.makers.get(atom, -1) if type(atom) is Var else -1
        if made < 0:
            return None
        i, k = made >> SLOTS, made & (1 << SLOTS) - 1
        loop = self.owners[i]
        if loop is None:
            return None
        turn, q = divmod(i - loop.turns.start, loop.turns.period)
        return TurnValue(loop, q, k, turn)

    def pieces(self, atoms: Sequence[Any]) -> list[Piece]:
        """What an operand that differs from turn to turn is put together of."""
        found: list[Piece] = []
        for turn, atom in enumerate(atoms):
            row = self.row(atom)
            if row is None:
                found.append(Piece(turn, 1, atom))
                continue
            last = found[-1] if found else None
            if last is not None and last.follows(row):
                if last.count == 1:
                    last.step = row.turn - last.start
                last.count += 1
            else:
                found.append(Piece(turn, 1, atom, row))
        return found

    def find_readers(self) -> None:
        """Tell the loops which of their values are read outside."""
        for i, equation in enumerate(self.jaxpr.equations):
            own = self.owners[i]
            for a in equation.inputs:
                row = self.row(a)
                if row is not None and row.loop is not own:
                    row.loop.read.setdefault((row.slot, row.k), set()).add(row.turn)
        for o in self.jaxpr.outputs:
            row = self.row(o)
            if row is not None:
                row.loop.read.setdefault((row.slot, row.k), set()).add(row.turn)

    # -- the program

    def program(self) -> Jaxpr:
        self.equations: list[Equation] = []
        self.names: dict[Var, Any] = {}
        i, n = 0, len(self.jaxpr.equations)
        while i < n:
            loop = self.starts.get(i)
            if loop is not None:
                loop.write()
                i = loop.turns.end
                continue
            equation = self.jaxpr.equations[i]
            inputs = self.joined(equation) or tuple(map(self.value, equation.inputs))
            if any([a is not b for a, b in zip(inputs, equation.inputs)]):
                equation = equation._replace(inputs=inputs)
            self.equations.append(equation)
            i += 1
        outputs = tuple(map(self.value, self.jaxpr.outputs))  # first, since it may add equations
        return Jaxpr(self.jaxpr.inputs, tuple(self.equations), outputs)

    def value(self, atom: Any) -> Any:
        """What stands for a value of the old program."""
        atom = self.known.alias.get(atom, atom) if self.known.alias and type(atom) is Var else atom
        row = self.row(atom)
        if row is None:
            return atom
        found = self.names.get(atom)
        if found is None:
            found = self.names[atom] = row.loop.value(row)
        return found

    def joined(self, equation: Equation) -> tuple[Any, ...] | None:
        """The operands of a concatenation of many results of loops, joined before."""
        atoms = equation.inputs
        if equation.primitive is not concatenate_p or len(atoms) < TURNS or len({a.aval for a in atoms}) > 1:
            return None
        axis, shape = equation.params["axis"], atoms[0].aval.shape
        found: list[Any] = []
        rows = [self.before_reshape(a) for a in atoms]
        for piece in self.pieces(rows if len({a.aval for a in rows}) == 1 else atoms):
            mine = rows[piece.turn : piece.turn + piece.count]
            if piece.count == 1:
                found.append(self.value(atoms[piece.turn]))
                continue
            for value in self.parts(mine, equation.source):
                count = value.aval.shape[0]
                if value.aval.shape[1:] != shape:
                    value = self.add(reshape, [value], equation.source, shape=(count, *shape))
                if axis:
                    perm = (*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1))
                    value = self.add(transpose, [value], equation.source, perm=perm)
                joined = (*shape[:axis], count * shape[axis], *shape[axis + 1 :])
                value = self.add(reshape, [value], equation.source, shape=joined)
                if axis:  # in memory in the order of its axes, by which sums go
                    whole = tuple([(0, n, 1) for n in joined])
                    value = self.add(basic_place_p, [value], equation.source, index=whole, shape=joined)
                found.append(value)
        return tuple(found)

    def before_reshape(self, atom: Any) -> Any:
        """What was reshaped into this value outside of the loops, else the value."""
        made = self.known.makers.get(atom, -1) if type(atom) is Var else -1
        equation = self.jaxpr.equations[made >> SLOTS] if made >= 0 and self.owners[made >> SLOTS] is None else None
        return equation.inputs[0] if equation is not None and equation.primitive is reshape else atom

    def parts(self, atoms: Sequence[Any], source: Any) -> list[Var]:
        """Arrays whose rows, one after the other, are these values."""
        found: list[Var] = []
        for piece in self.pieces(atoms):
            loop = piece.loop
            array = loop.ys.get(piece.slot) if piece.count > 1 else None
            if array is None:
                for atom in atoms[piece.turn : piece.turn + piece.count]:
                    value = self.value(atom)
                    found.append(self.add(reshape, [value], source, shape=(1, *value.aval.shape)))
                continue
            start, step = piece.start, piece.step
            if loop.reverse:
                start, step = loop.turns.count - 1 - start, -step
            if (start, piece.count, step) != (0, loop.turns.count, 1):
                index = ((start, piece.count, step), *[(0, n, 1) for n in array.aval.shape[1:]])
                array = self.add(basic_index_p, [array], source, index=index)
            found.append(array)
        return found

    def add(self, primitive: Any, inputs: Sequence[Any], source: Any, **params: Any) -> Var:
        output = Var(primitive.abstract_eval(*[a.aval for a in inputs], **params))
        self.equations.append(Equation(primitive, tuple(inputs), params, (output,), source))
        return output


class Piece:
    """Turns in which an operand is the rows of one loop at equal steps, or one turn with any value."""

    __slots__ = ("turn", "count", "atom", "loop", "slot", "start", "step")

    def __init__(self, turn: int, count: int, atom: Any, row: TurnValue | None = None):
        self.turn = turn
        self.count = count
        self.atom = atom
        self.loop = None if row is None else row.loop
        self.slot = None if row is None else (row.slot, row.k)
        self.start = 0 if row is None else row.turn
        self.step = 1

    def follows(self, row: TurnValue) -> bool:
        """Is this row the next one?"""
        if self.loop is not row.loop or self.slot != (row.slot, row.k):
            return False
        return row.turn != self.start if self.count == 1 else row.turn == self.start + self.count * self.step


def _bytes(aval: Any) -> int:
    return aval.size * aval.dtype.itemsize  # type: ignore[no-any-return]
