"""Where a program repeats itself, and whether the turns of a stretch are those of a loop.

Idea: the stretch is gone through once. An equation must be like the one a period before: the same primitive, the same avals and
parameters, but for the bounds of indices and the values of literals. An operand that is made in the stretch is always made at
the same distance; one that comes from outside is always the same, or another one in each turn; in the first turns it may be
what a later turn gets from the one before it. Where this fails the stretch is cut, and another begins. Which equation a turn
begins with is then free: the one before which the fewest bytes are handed on is chosen. Invariant: what is said of an operand
holds in every turn; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, equation_has_effects, params_key
from funcad.passes.subprograms import program_key
from funcad.primitives import basic_indexing
from funcad.primitives.loop import loop_p
from funcad.primitives.shape import slice_p
from funcad.tree.same import same_key

# -- where a program repeats itself: stretches of equations that look like those one period before
#
# Idea: an equation looks like another if it applies the same primitive and its result has the same shape. The last place where
# the next few equations looked as they do here suggests a period, and the stretch is followed in both directions as far as it
# goes. Shorter periods are met first, so inner loops come before the loops around them. Invariants: stretches do not overlap,
# and time is linear in the length of the program: a period that has failed is not tried again where it was followed, and the
# work is bounded. Trap: looking alike is not being alike; turns.py compares all else, in these stretches only.


TURNS = 8  # a loop has at least so many
LEAST = 64  # equations of a stretch
FEW = 6  # equations that suggest a period
STEPS = 40  # comparisons for each equation, after which the search ends

Stretch = tuple[int, int, int]  # start, period, end


def looks(equations: Sequence[Equation]) -> list[int]:
    """A number for each equation, equal for those that look alike; what has effects looks like nothing else."""
    known: dict[object, int] = {}
    found = []
    for i, equation in enumerate(equations):
        primitive, outputs = equation.primitive, equation.outputs
        key: object = (primitive, outputs[0].aval.shape) if outputs else i
        if primitive.effect or primitive.multiple and equation_has_effects(equation):
            key = i
        found.append(known.setdefault(key, len(known)))
    return found


def stretches(words: Sequence[int]) -> list[Stretch]:
    """The stretches of at least TURNS equal periods, in order."""
    found: list[Stretch] = []
    last: dict[tuple[int, ...], int] = {}
    failed: dict[int, int] = {}  # period -> where it ended
    floor, i, n = 0, 0, len(words)
    steps = STEPS * n
    while i + FEW <= n and steps > 0:
        few = tuple(words[i : i + FEW])
        j = last.get(few)
        last[few] = i
        if j is not None and failed.get(i - j, 0) <= i:
            period, start, end = i - j, j, i + FEW
            while end < n and words[end] == words[end - period]:
                end += 1
            while start > floor and words[start - 1] == words[start - 1 + period]:
                start -= 1
            steps -= end - start
            if end - start >= max(TURNS * period, LEAST):
                found.append((start, period, end))
                floor = i = end
                last.clear()
                failed.clear()
                continue
            failed[period] = end
        i += 1
    return found


# -- whether the turns of a stretch are those of a loop, and what each operand is in it


INDEXED = basic_indexing.INDEXED | {slice_p}  # bounds may differ from turn to turn
_PLAIN = frozenset([np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum])
_PLAIN |= {np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal}
SLOTS = 16  # bits of the number of a result of an equation


class Made(NamedTuple):
    """An operand that the equation `slot` of the turn makes as its result `k`, `lag` turns before."""

    slot: int
    k: int
    lag: int


class OutsideOperand(NamedTuple):
    """An operand that comes from outside: one atom for each turn, or one for all."""

    atoms: list[Any]
    same: bool


class Known:
    """A program, where its variables are made, and keys of parameters."""

    def __init__(self, jaxpr: Jaxpr, programs: dict[Any, int]):
        self.jaxpr = jaxpr
        self.equations = jaxpr.equations
        self.makers: dict[Var, int] = {  # the number of the equation, and of the result
            v: i << SLOTS | k for i, equation in enumerate(self.equations) for k, v in enumerate(equation.outputs)
        }
        self.alias: dict[Var, Var] = {}  # values that are the same in all turns of a loop -> that of the first
        self.programs = programs  # keys of programs -> numbers
        self.numbers: dict[int, int] = {}  # by id of a program
        self.keys: dict[int, Any] = {}  # by id of parameters

    def number(self, jaxpr: Jaxpr) -> int:
        """Equal for equal programs."""
        found = self.numbers.get(id(jaxpr))
        if found is None:
            try:
                key: Any = program_key(jaxpr, self.number)
                hash(key)
            except TypeError:
                key = id(jaxpr)
            found = self.numbers[id(jaxpr)] = self.programs.setdefault(key, len(self.programs))
        return found

    def key(self, equation: Equation) -> Any:
        """Of the parameters, without the bounds of indices."""
        params = equation.params
        if not params:
            return None
        found = self.keys.get(id(params))
        if found is None:
            if equation.primitive in INDEXED:
                found = [None if e is None else type(e) is tuple and e[1:] for e in index_of(equation)], params.get("shape")
            else:
                found = params_key(params)
                if found is None:
                    found = params_key(params, self.number)
            self.keys[id(params)] = found
        return found

    def alike(self, one: Equation, other: Equation) -> bool:
        """May they be the same equation in two turns? Then their results have the same avals."""
        if one.primitive is not other.primitive or len(one.inputs) != len(other.inputs):
            return False
        for a, b in zip(one.inputs, other.inputs):
            if a is not b:
                x, y = a.aval, b.aval
                if x is not y and (x.shape != y.shape or x.dtype != y.dtype or x.weak != y.weak or type(x) is not type(y)):
                    return False
                if type(a) is Literal and not _same(a.value, b.value):  # type: ignore[union-attr]
                    place = one.primitive is loop_p and type(a.value) is np.int64
                    if not place and not (_may_vary(one) and _may_vary(other)):
                        return False
        if one.params is other.params:
            return True
        if one.primitive in INDEXED and one.primitive is not slice_p:
            return _as_long(one.params["index"], other.params["index"]) and one.params.get("shape") == other.params.get("shape")
        return bool(self.key(one) == self.key(other))


def _as_long(index: tuple, other: tuple) -> bool:
    """Are two indices the same, but for where they begin?"""
    if len(index) != len(other):
        return False
    for e, o in zip(index, other):
        if type(e) is not type(o) or type(e) is tuple and e[1:] != o[1:]:
            return False
    return True


def _same(x: Any, y: Any) -> bool:
    """Are two numbers the same, type and bits?"""
    if x is y or type(x) is type(y) and bool(x == y != 0):
        return True
    return type(x) is type(y) is float and x == y and str(x) == str(y) or same_key(x) == same_key(y)


def _may_vary(equation: Equation) -> bool:
    """May a literal of this operation become an array of the dtype of the other operand, and not a bit of the result change?"""
    if equation.primitive.ufunc not in _PLAIN:
        return False
    for a, b in zip(equation.inputs, equation.inputs[::-1]):
        if type(a) is Literal:
            own, other = a.aval, b.aval
            if type(b) is Literal or other.weak:
                return False
            if own.dtype != other.dtype:
                kinds = own.dtype.kind + other.dtype.kind
                if not own.weak or kinds not in ("ff", "if", "ii", "iu"):
                    return False
                if kinds[1] != "f" and not np.iinfo(other.dtype).min <= a.value <= np.iinfo(other.dtype).max:
                    return False
    return True


def index_of(equation: Equation) -> tuple:
    """The canonical index (see primitives/basic_indexing.py), that of a slice too."""
    params = equation.params
    if equation.primitive is not slice_p:
        return params["index"]  # type: ignore[no-any-return]
    steps = params["strides"] or (1,) * len(params["start"])
    return tuple(zip(params["start"], equation.outputs[0].aval.shape, steps))


Distances = list[list[int]]  # of each operand of each equation of a turn: 0 if it comes from outside


def consistent(
    known: Known, start: int, period: int, end: int, cuts: frozenset[int] = frozenset()
) -> Iterator[tuple[int, int, Distances]]:
    """Parts of the stretch, none across `cuts`, in which equations are alike and operands made alike, with the distances."""
    equations, makers, alias = known.equations, known.makers, known.alias
    first, i, q = start, start, 0
    distances: Distances = []
    varies: dict[tuple[int, int], bool] = {}  # what comes from outside: does it differ from turn to turn?
    while i < end:
        inputs, shift, least = equations[i].inputs, i << SLOTS, first << SLOTS
        if len(distances) < period:  # the first turn
            fits = i not in cuts or i == first
            if fits:
                made = [makers.get(a, -1) if type(a) is Var else -1 for a in inputs]
                distances.append([shift - m if m >= least else 0 for m in made])
        elif fits := i not in cuts and known.alike(before := equations[i - period], equations[i]):
            row = found = distances[q]
            for j, a in enumerate(inputs):
                m = makers.get(a, -1) if type(a) is Var else -1
                distance = shift - m if m >= least else 0
                if distance != row[j]:
                    if row[j] or i - period - _back(distance) >= first:
                        fits = False
                        break
                    found = found if found is not row else row.copy()
                    found[j] = distance
                if not distance and type(a) is Var:
                    b: Any = before.inputs[j]
                    other = a is not b and alias.get(a, a) is not alias.get(b, b)
                    if varies.setdefault((q, j), other) != other:
                        fits = False
                        break
            if fits:
                distances[q] = found
        if not fits:
            if i > first:
                yield first, i, distances
            first, q, distances, varies = i, 0, [], {}
            if end - i < TURNS * period:
                return
            continue
        i += 1
        q = q + 1 if q < period - 1 else 0
    yield first, end, distances


def _back(distance: int) -> int:
    """How many equations before."""
    return -(-distance >> SLOTS)


def _result(distance: int) -> int:
    return -distance & (1 << SLOTS) - 1


def rotation(known: Known, start: int, end: int, period: int, distances: Distances) -> int:
    """The equation of the period before which the fewest bytes are handed on to later ones."""
    lasting: dict[tuple[int, int], int] = {}
    for q, row in enumerate(distances):
        for distance in row:
            if distance:
                back = _back(distance)
                maker = (q - back) % period, _result(distance)
                lasting[maker] = max(lasting.get(maker, 0), back)
    change = [0] * (2 * period + 1)
    for (q, k), back in lasting.items():
        aval = known.equations[start + q].outputs[k].aval
        size = aval.size * aval.dtype.itemsize
        rest = back % period  # whole turns cost the same wherever a turn begins
        change[q + 1] += size
        change[q + 1 + rest] -= size
    spare = (end - start) % period
    costs = [0] * period
    total = 0
    for x in range(2 * period):
        total += change[x]
        costs[x % period] += total
    return min(range(period), key=lambda r: (costs[r], r > spare, r))


class Turns:
    """A stretch as a loop: `count` turns of `period` equations from `start` on."""

    def __init__(self, known: Known, start: int, period: int, end: int, distances: Distances):
        shift = rotation(known, start, end, period, distances)
        self.known = known
        self.period = period
        self.start = start + shift
        self.count = (end - self.start) // period
        self.distances = [*distances[shift:], *distances[:shift]]
        self.operands: list[list[Made | OutsideOperand]] = []
        self._bounds: dict[int, dict[int, list[int]]] = {}  # of the equations that were asked for

    @property
    def end(self) -> int:
        return self.start + self.count * self.period

    def equation(self, q: int, turn: int = 0) -> Equation:
        return self.known.equations[self.start + turn * self.period + q]

    def trimmed(self, front: int, back: int) -> None:
        """Without so many of its first and last turns."""
        self.start += front * self.period
        self.count -= front + back
        self.classify()

    def classify(self) -> None:
        """What each operand is."""
        equations, step, alias = self.known.equations, self.period, self.known.alias
        self.operands = []
        self._bounds.clear()
        for q, row in enumerate(self.distances):
            found: list[Made | OutsideOperand] = []
            for j, distance in enumerate(row):
                if distance:
                    slot = q - _back(distance)
                    found.append(Made(slot % step, _result(distance), -(slot // step)))
                    continue
                atoms = [e.inputs[j] for e in equations[self.start + q : self.end : step]]
                first = atoms[0]
                if type(first) is Literal:
                    key = same_key(first.value)
                    same = all([same_key(a.value) == key for a in atoms])
                else:
                    if alias:
                        atoms = [alias.get(a, a) for a in atoms]
                        first = atoms[0]
                    same = all([a is first for a in atoms])
                found.append(OutsideOperand(atoms, same))
            self.operands.append(found)

    def outside(self) -> Iterator[tuple[OutsideOperand, Any]]:
        """The operands that differ from turn to turn, with their avals."""
        for q, row in enumerate(self.operands):
            for j, operand in enumerate(row):
                if type(operand) is OutsideOperand and not operand.same:
                    yield operand, self.equation(q).inputs[j].aval

    def initial(self, q: int, j: int) -> list[Any]:
        """What an operand that earlier turns make is in the first turns."""
        operand = self.operands[q][j]
        assert type(operand) is Made
        return [self.equation(q, t).inputs[j] for t in range(operand.lag)]

    def constant(self) -> set[int]:
        """The equations that compute the same in all turns."""
        found: set[int] = set()
        for q, row in enumerate(self.operands):
            primitive = self.equation(q).primitive
            if row and not primitive.barrier and not self.bounds(q):
                if all([o.same if type(o) is OutsideOperand else o.lag == 0 and o.slot in found for o in row]):
                    found.add(q)
        return found

    def bounds(self, q: int) -> dict[int, list[int]]:
        """The entries of an index that differ from turn to turn, with their starts."""
        found = self._bounds.get(q)
        if found is None:
            found = self._bounds[q] = {}
            if self.equation(q).primitive in INDEXED:
                indices = list(map(index_of, self.known.equations[self.start + q : self.end : self.period]))
                for n, entry in enumerate(indices[0]):
                    if entry is not None:
                        starts = [i[n][0] for i in indices] if type(entry) is tuple else [i[n] for i in indices]
                        if starts.count(starts[0]) != len(starts):
                            found[n] = starts
        return found

    def plain(self) -> bool:
        """Are all values that it makes arrays, and no Python numbers or lists of unknown length?"""
        for q in range(self.period):
            equation = self.equation(q)
            for a in (*equation.inputs, *equation.outputs):
                if type(a) is Var and (type(a.aval) is not Aval or a.aval.weak):
                    return False
        return True
