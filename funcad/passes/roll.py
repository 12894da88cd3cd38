"""Rolling: a stretch of equations that repeats itself becomes a loop.

A Python loop leaves as many equations as it has turns, and so does its derivative, forward and backward. Here each such stretch
(turns.py finds them, turns.py says what operands are) becomes a `scan`: what the turns hand on is its carry, what is the same
in all is its constant, what differs from turn to turn is an x, in this order of preference: rows of an array, results of a loop
before it (in the same or the opposite order), numbers in a table, values put together. What later equations read is a y, or the
carry at the end. Bounds of indices that follow the turn are computed from it. A placement that is only added to a sum, as the
derivative of `x[t]` is, leaves the loop as a y, and one placement of all follows; windows that are not rows in order are added
at their places, turn by turn. Loops that are found are looked at again, as equations of loops around them.

Invariants: not a bit changes; effects are never inside; the first and last turns stay as they are where a loop without them has
simpler operands. Traps: a stretch in which two layers alternate looks as if its period were half of what it is, so multiples
are tried; a sum to which zeros are added has no -0.0, which one placement must not have either; putting values together copies
them, which must not cost more than the loop's own work; a y holds the values of all turns, so where a large value is read in a
few turns only, the loop ends there and another begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from funcad.configuration import config
from funcad.host.where import state
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.memo import remembers
from funcad.passes.ragged import pad
from funcad.passes.subprograms import program_key
from funcad.passes.turns import LEAST, SLOTS, TURNS, Known, Made, OutsideOperand, Turns, consistent, index_of, looks, stretches
from funcad.passes.windows import settled
from funcad.primitives.arithmetic import add, mul
from funcad.primitives.basic_indexing import basic_add_p, basic_index_p, basic_place_p, basic_update_p
from funcad.primitives.computed_slices import dynamic_add_p, dynamic_slice_p, dynamic_update_slice_p
from funcad.primitives.loop import Loop, loop_p, table_p
from funcad.primitives.shape import broadcast_in_dim, concatenate_p, reshape, slice_p, transpose

# -- the loop that a stretch becomes: its body, its operands, its results
#
# Invariant: `write` adds equations whose results are, bit for bit, the values that the stretch computes; `value` finds them.


INT = np.dtype(np.int64)
LARGE = 1 << 20  # bytes of the values of all turns
RARELY = 4  # times as many turns are there as those in which a value is read
WINDOWS = frozenset([dynamic_slice_p, dynamic_update_slice_p, dynamic_add_p])
Slot = tuple[int, int]  # an equation of the turn, and which of its results


class TurnValue(NamedTuple):
    """The value that a turn of a loop has in a slot."""

    loop: Rolled
    slot: int
    k: int
    turn: int


class PlacedSum(NamedTuple):
    """A carry to which placements are added, in the order in which an element gets them; `first` has the initial value.

    Either each turn has places of its own, or all have the same, `fixed`.
    """

    last: int  # the slot of the sum at the end of a turn
    first: tuple[int, int]  # the operand that the turn before makes
    places: list[int]  # slots of the placements
    slots: list[int]  # of all that leaves the body
    fixed: bool


class Rolled:
    def __init__(self, turns: Turns, roller: _Roller):
        self.turns = turns
        self.roller = roller
        self.read: dict[Slot, set[int]] = {}  # turns in which a value is read outside
        self.bounds = {q: found for q in range(turns.period) if (found := turns.bounds(q))}
        self.constant = turns.constant()
        self.ys: dict[Slot, Var] = {}
        self.final: dict[tuple[int, int, int], Any] = {}  # a value, so many turns before the end
        self.reverse = False

    def possible(self) -> bool:
        """Can the indices that differ from turn to turn be computed?"""
        return all([self.row_of_constant(q) is not None or _window(self.turns.equation(q)) for q in self.bounds])

    def rarely_read(self) -> list[int]:
        """The equations with which turns begin that follow those few in which a large value is read outside."""
        turns, lags = self.turns, dict[Slot, int]()
        for row in turns.operands:
            for operand in row:
                if type(operand) is Made:
                    lags[operand[:2]] = max(lags.get(operand[:2], 0), operand.lag)
        found = []
        for slot, when in self.read.items():
            aval = turns.equation(slot[0]).outputs[slot[1]].aval
            carried = lags.get(slot, 0) if len(when) > 1 else 1
            large = turns.count * aval.size * aval.dtype.itemsize > LARGE
            if large and len(when) * RARELY < turns.count and turns.count - min(when) > carried:
                if slot[0] not in self.constant and self.row_of_constant(slot[0]) is None:
                    found += [turns.start + (t + 1) * turns.period for t in when]
        return found

    # -- indices

    def affine(self, q: int) -> tuple[int, int, int] | None:
        """The one entry that differs, an integer or a slice of one element, with its start and its step."""
        if len(self.bounds[q]) != 1:
            return None
        ((n, starts),) = self.bounds[q].items()
        entry = index_of(self.turns.equation(q))[n]
        if type(entry) is tuple and entry[1] != 1:
            return None
        step = starts[1] - starts[0]
        if not step or starts != list(range(starts[0], starts[0] + step * len(starts), step)):
            return None
        return n, starts[0], step

    def row_of_constant(self, q: int) -> tuple[int, int, int] | None:
        """The same for rows of an array that does not change."""
        operand = self.turns.operands[q][0]
        read = self.turns.equation(q).primitive in (basic_index_p, slice_p)
        if not read or type(operand) is not OutsideOperand or not operand.same:
            return None
        return self.affine(q)

    def strided(self, index: tuple, n: int, start: int, step: int) -> tuple[tuple, int]:
        """The index of all turns together, and which axis of the result they are."""
        count = self.turns.count
        if self.reverse:
            start, step = start + step * (count - 1), -step
        axis = len([e for e in index[:n] if type(e) is not int])
        return (*index[:n], (start, count, step), *index[n + 1 :]), axis

    # -- sums of placements

    def sums(self) -> list[PlacedSum]:
        """Carries that are only added to, by placements that differ in one integer, or do not differ."""
        turns = self.turns
        readers: dict[Slot, list[tuple[int, int, int]]] = {}
        for q, row in enumerate(turns.operands):
            for j, operand in enumerate(row):
                if type(operand) is Made:
                    readers.setdefault(operand[:2], []).append((q, j, operand.lag))
        adds: dict[int, tuple[int, int]] = {}  # an addition -> which operand is the sum, and the slot that says the place
        for q in range(turns.period):
            primitive = turns.equation(q).primitive
            if primitive is not basic_add_p and (primitive is not basic_place_p or (q, 0) in self.read):
                continue
            if q in self.constant:
                continue
            if primitive is basic_add_p:
                adds[q] = (0, q)
            elif primitive is basic_place_p:
                mine = readers.get((q, 0), [])
                if len(mine) == 1 and mine[0][2] == 0 and turns.equation(mine[0][0]).primitive is add:
                    reader, j, _ = mine[0]
                    adds.setdefault(reader, (1 - j, q))
        found = []
        for first, (j, _) in adds.items():
            operand = turns.operands[first][j]
            if type(operand) is not Made or operand.lag != 1:
                continue
            chain, q = [first], first
            while q != operand.slot:
                mine = readers.get((q, 0), [])
                if len(mine) != 1 or mine[0][2] or mine[0][0] not in adds or (q, 0) in self.read:
                    break
                if mine[0][1] != adds[mine[0][0]][0]:
                    break
                q = mine[0][0]
                chain.append(q)
            if q != operand.slot or readers.get((q, 0), []) != [(first, j, 1)]:
                continue
            if self.read.get((q, 0), set()) - {turns.count - 1}:
                continue
            places = [adds[c][1] for c in chain]
            moves = [self.affine(p) for p in places if p in self.bounds]
            gone = [*chain, *places]
            if not moves:
                if len({turns.equation(p).params["index"] for p in places}) == 1:
                    found.append(PlacedSum(q, (first, j), places, gone, True))
            elif len(moves) == len(places) and None not in moves and len({(m[0], m[2]) for m in moves if m is not None}) == 1:
                order = sorted(range(len(places)), key=lambda i: -moves[i][1] / moves[i][2])  # type: ignore[index]
                found.append(PlacedSum(q, (first, j), [places[i] for i in order], gone, False))
            else:
                more = {
                    c: adds[c]
                    for c in chain
                    if turns.equation(c).primitive is add
                }
                places = [p for _, p in more.values()]
                windows = [turns.equation(p) for p in places]
                apart = any(map(self._apart, places))
                if apart and all(map(_window, windows)):
                    self.added |= more
                    self.from_zero.add((q, 0))
        return found

    def _apart(self, q: int) -> bool:
        """Have two turns no element of their windows in common?"""
        sizes = [e[1] if type(e) is tuple else 1 for e in index_of(self.turns.equation(q))]
        return any([max(starts) - min(starts) >= sizes[n] for n, starts in self.bounds.get(q, {}).items()])

    # -- writing

    def write(self) -> None:
        """Add the loop to the program."""
        turns, roller = self.turns, self.roller
        self.source = turns.equation(0).source
        self.added: dict[int, tuple[int, int]] = {}  # done in place
        self.from_zero: set[Slot] = set()  # carries without -0.0
        self.sum_list = self.sums()
        gone = {q for s in self.sum_list for q in s.slots}
        placed_there = {p for _, p in self.added.values()}
        self.reverse = self._backwards(gone)
        self.consts: dict[Any, Var] = {}
        self.carry: dict[Any, tuple[Var, Any]] = {}  # -> inside, and its first value outside
        self.following: dict[Any, Any] = {}
        self.xs: dict[Any, tuple[Any, Var]] = {}
        self.pending: list[tuple[Any, Slot, tuple]] = []  # carries, with what they hold in the next turns
        self.counter: Var | None = None
        self.body: list[Equation] = []
        self.within: set[Var] = set()  # what is written here: slices have the starts of known indices
        self.inside = {
            (q, k): Var(v.aval) for q in range(turns.period) for k, v in enumerate(turns.equation(q).outputs)
        }
        for q in range(turns.period):
            equation = turns.equation(q)
            if equation.primitive is broadcast_in_dim and type(equation.inputs[0]) is Literal and compiles_numbers():
                self.body.append(equation._replace(outputs=(self.inside[(q, 0)],)))  # a number, where it is read
            elif q in self.constant:
                roller.equations.append(equation._replace(inputs=tuple(map(roller.value, equation.inputs))))
                for k, v in enumerate(equation.outputs):
                    roller.names[v] = v
                    self.inside[(q, k)] = self._const(v)
            elif q not in gone and q not in placed_there:
                self._equation(q)
        y_atoms: list[Any] = []
        y_outs: list[Var] = []

        def stacked(atom: Any) -> Var:
            y_atoms.append(atom)
            y_outs.append(Var(Aval((turns.count, *atom.aval.shape), atom.aval.dtype)))
            return y_outs[-1]

        placed: list[Any] = []
        for s in self.sum_list:
            values = [self._operand(q, len(turns.operands[q]) - 1) for q in s.places]
            placed.append(self._added(s, values) if s.fixed else list(map(stacked, values)))
        for key, slot, first in self.pending:  # which grows
            self.following[key] = self._made(slot, first)
        registers: dict[tuple[int, int, int], Any] = {}
        for key in self.carry:
            if len(key) == 3:
                registers.setdefault((key[0], key[1], len(key[2])), key)
        wanted: list[tuple[tuple[int, int, int], Any]] = []
        for slot, when in sorted(self.read.items()):
            if slot[0] in gone or slot[0] in self.constant or slot in self.ys:
                continue  # a sum, see below, or computed outside
            back = [turns.count - t for t in when]
            if all([(*slot, b) in registers for b in back]):
                wanted += [((*slot, b), registers[(*slot, b)]) for b in back]
            elif back == [1]:
                wanted.append(((*slot, 1), self._last(slot)))
            else:
                self.ys[slot] = stacked(self.inside[slot])
        for key, (v, _) in list(self.carry.items()):
            if key == "counter":
                self.following[key] = self._put(add, [v, Literal(np.int64(1))])
        carry = [(key, *pair) for key, pair in self.carry.items()]
        inputs = (*self.consts.values(), *[v for _, v, _ in carry], *[v for _, v in self.xs.values()])
        outputs = (*[self.following[key] for key, _, _ in carry], *y_atoms)
        body, places = self._with_places(settled(Jaxpr(inputs, tuple(self.body), outputs), self.within))
        loop = Loop(self._shared(body), len(places) + len(self.consts), len(carry), turns.count, self.reverse, rolled=True)
        results = [Var(v.aval) for _, v, _ in carry]
        operands = (*places, *self.consts, *[a for _, _, a in carry], *[a for a, _ in self.xs.values()])
        roller.equations.append(Equation(loop_p, operands, {"loop": loop}, (*results, *y_outs), self.source))
        last = {key: result for (key, _, _), result in zip(carry, results)}
        for place, key in wanted:
            self.final[place] = last[key]
        for s, values in zip(self.sum_list, placed):
            self._placed(s, last[values] if s.fixed else values)

    def _with_places(self, body: Jaxpr) -> tuple[Jaxpr, list[Literal]]:
        """Where windows begin on axes along which they do not move, is a constant: a loop around this one may move them."""
        bases: dict[int, tuple[Var, int]] = {}  # by axis: the first such place, from which others are counted
        equations: list[Equation] = []
        for equation in body.equations:
            if equation.primitive in WINDOWS and equation.outputs[0] in self.within:
                first = 1 if equation.primitive is dynamic_slice_p else 2
                sizes = equation.params["sizes"] if first == 1 else equation.inputs[1].aval.shape
                inputs = list(equation.inputs)
                for n, (size, whole) in enumerate(zip(sizes, inputs[0].aval.shape)):
                    a = inputs[first + n]
                    if type(a) is Literal and size != whole:
                        base, place = bases.setdefault(n, (Var(Aval((), INT)), int(a.value)))
                        inputs[first + n] = base
                        if a.value != place:
                            found = Var(Aval((), INT))
                            apart = Literal(np.int64(a.value - place))
                            equations.append(Equation(add, (base, apart), {}, (found,), equation.source))
                            inputs[first + n] = found
                equation = equation._replace(inputs=tuple(inputs))
            equations.append(equation)
        if not bases:
            return body, []
        found = Jaxpr((*[v for v, _ in bases.values()], *body.inputs), tuple(equations), body.outputs)
        return found, [Literal(np.int64(place)) for _, place in bases.values()]

    def _shared(self, body: Jaxpr) -> Jaxpr:
        """The body, or an equal one, so that loops around this one find their turns alike."""
        try:
            return self.roller.bodies.setdefault(program_key(body, id), body)
        except TypeError:
            return body

    def _added(self, s: PlacedSum, values: list[Any]) -> Any:
        """The elements at a fixed place are a carry, to which these values are added; its key."""
        q, j = s.first
        equation = self.turns.equation(s.places[0])
        start = self.roller.value(self.turns.equation(q).inputs[j])
        start = self.roller.add(basic_index_p, [start], equation.source, index=equation.params["index"])
        key = ("sum", s.last)
        total: Any = Var(start.aval)
        self.carry[key] = total, start
        for value in values:
            total = self._put(add, [total, value])
        self.following[key] = total
        return key

    def _placed(self, s: PlacedSum, values: Any) -> None:
        """The sum after the loop: its elements at a fixed place are known, or what each turn adds to it."""
        roller, turns = self.roller, self.turns
        q, j = s.first
        total = roller.value(turns.equation(q).inputs[j])
        if total.aval.dtype.kind in "fc" and any([turns.equation(p).primitive is basic_place_p for p in s.places]):
            # the other turns add zeros, which leave no -0.0
            total = roller.add(add, [total, Literal(0.0)], self.source)
        if s.fixed:
            index = turns.equation(s.places[0]).params["index"]
            self.final[(s.last, 0, 1)] = roller.add(basic_update_p, [total, values], self.source, index=index)
            return
        for slot, value in zip(s.places, values):
            equation = turns.equation(slot)
            n, start, step = self.affine(slot)  # type: ignore[misc]
            index, axis = self.strided(equation.params["index"], n, start, step)
            if type(equation.params["index"][n]) is tuple:  # of one element
                shape = value.aval.shape
                value = roller.add(reshape, [value], equation.source, shape=(*shape[: axis + 1], *shape[axis + 2 :]))
            if axis:
                rest = range(1, len(value.aval.shape))
                perm = (*rest[:axis], 0, *rest[axis:])
                value = roller.add(transpose, [value], equation.source, perm=perm)
            total = roller.add(basic_add_p, [total, value], equation.source, index=index)
        self.final[(s.last, 0, 1)] = total

    def _backwards(self, gone: set[int]) -> bool:
        """Do more operands come from the end to the start than the other way?"""
        votes = 0
        for q in self.bounds:
            move = self.row_of_constant(q) or (self.affine(q) if q in gone else None)
            if move is not None:
                votes += 1 if move[2] > 0 else -1
        for operand, _ in self.turns.outside():
            for piece in self.roller.pieces(operand.atoms):
                if piece.count > 1:
                    forward = piece.step > 0
                    votes += 1 if forward != piece.loop.reverse else -1
        return votes < 0

    def _last(self, slot: Slot) -> Any:
        """A carry that nothing in the loop reads: the value of the last turn."""
        aval = self.inside[slot].aval
        key = (*slot, ("last",))
        zero = Literal(aval.dtype.type(0))
        start: Any = zero
        if aval.shape:
            start = self.roller.add(broadcast_in_dim, [zero], self.source, shape=aval.shape, axes=())
        self.carry[key] = Var(aval), start
        self.following[key] = self.inside[slot]
        return key

    # -- the body

    def _put(self, primitive: Any, inputs: list[Any], **params: Any) -> Var:
        output = Var(primitive.abstract_eval(*[a.aval for a in inputs], **params))
        self.body.append(Equation(primitive, tuple(inputs), params, (output,), self.source))
        self.within.add(output)
        return output

    def _equation(self, q: int) -> None:
        equation = self.turns.equation(q)
        primitive, _, params, outputs, source = equation
        outs = tuple([self.inside[(q, k)] for k in range(len(outputs))])
        if q in self.added:
            j, place = self.added[q]
            starts, shape = self._place(place)
            total = self._operand(q, j)
            value = self._operand(place, 0)
            found = self._written(dynamic_add_p, total, value, starts, shape)
            self.inside[(q, 0)] = found
            return
        if q not in self.bounds:
            inputs = [self._operand(q, j) for j in range(len(equation.inputs))]
            self.body.append(Equation(primitive, tuple(inputs), params, outs, source))
            return
        move = self.row_of_constant(q)
        if move is not None:
            self.inside[(q, 0)], self.ys[(q, 0)] = self._row(equation, *move)
            return
        starts, shape = self._place(q)
        if primitive is basic_index_p or primitive is slice_p:
            found = self._put(dynamic_slice_p, [self._operand(q, 0), *starts], sizes=shape)
            wanted = outputs[0].aval.shape
            if wanted != shape:
                found = self._put(reshape, [found], shape=wanted)
        elif primitive is basic_place_p:
            aval = outputs[0].aval
            target = self._put(broadcast_in_dim, [Literal(aval.dtype.type(0))], shape=aval.shape, axes=())
            found = self._written(dynamic_update_slice_p, target, self._operand(q, 0), starts, shape)
        else:
            write = dynamic_add_p if primitive is basic_add_p else dynamic_update_slice_p
            found = self._written(write, self._operand(q, 0), self._operand(q, 1), starts, shape)
        self.inside[(q, 0)] = found

    def _place(self, q: int) -> tuple[list[Any], tuple[int, ...]]:
        """The starts and sizes of an index in each turn."""
        starts: list[Any] = []
        sizes = []
        for n, entry in enumerate(index_of(self.turns.equation(q))):
            if entry is not None:
                first, count = (entry, 1) if type(entry) is int else entry[:2]
                moving = self.bounds.get(q, {}).get(n)
                starts.append(Literal(np.int64(first)) if moving is None else self._start(moving))
                sizes.append(count)
        return starts, tuple(sizes)

    def _written(self, primitive: Any, target: Any, value: Any, starts: list[Any], shape: tuple[int, ...]) -> Var:
        if value.aval.shape != shape:
            value = self._put(reshape, [value], shape=shape)
        return self._put(primitive, [target, value, *starts])

    def _start(self, starts: list[int]) -> Any:
        """The start of an index, in each turn."""
        step = starts[1] - starts[0]
        if starts != list(range(starts[0], starts[0] + step * len(starts), step or 1)):
            return self._x(("starts", tuple(starts)), lambda: self._table([np.int64(s) for s in starts], INT))
        if self.counter is None:
            self.counter = Var(Aval((), INT))
            self.carry["counter"] = self.counter, Literal(np.int64(0))
        found: Any = self.counter
        if step != 1:
            found = self._put(mul, [found, Literal(np.int64(step))])
        return self._put(add, [found, Literal(np.int64(starts[0]))]) if starts[0] else found

    def _row(self, equation: Equation, n: int, start: int, step: int) -> tuple[Var, Any]:
        """Rows of an array that is the same in all turns, and outside all of them."""
        index, axis = self.strided(index_of(equation), n, start, step)
        array, shape = equation.inputs[0], (self.turns.count, *equation.outputs[0].aval.shape)

        def outer() -> Any:
            found = self.roller.value(array)
            if index != tuple([(0, m, 1) for m in array.aval.shape]):
                found = self.roller.add(basic_index_p, [found], equation.source, index=index)
            if axis:
                rest = [i for i in range(len(found.aval.shape)) if i != axis]
                found = self.roller.add(transpose, [found], equation.source, perm=(axis, *rest))
            return found if found.aval.shape == shape else self.roller.add(reshape, [found], equation.source, shape=shape)

        key = ("row", array, index, axis, shape)
        row = self._x(key, outer)
        return row, self.xs[key][0]

    def _x(self, key: Any, outer: Any) -> Var:
        """What differs from turn to turn, as an x; `outer` makes all of it."""
        found = self.xs.get(key)
        if found is None:
            atom = outer()
            found = self.xs[key] = atom, Var(Aval(atom.aval.shape[1:], atom.aval.dtype))
        return found[1]

    def _operand(self, q: int, j: int) -> Any:
        operand = self.turns.operands[q][j]
        if type(operand) is Made:
            return self._made(operand[:2], tuple(self.turns.initial(q, j)))
        equation = self.turns.equation(q)
        atom = operand.atoms[0]
        if operand.same:
            return atom if type(atom) is Literal else self._const(self.roller.value(atom))
        if type(atom) is not Literal:
            key = ("values", tuple(operand.atoms))
            return self._x(key, lambda: self._together(operand.atoms))
        beside = next(a.aval for a in equation.inputs if type(a) is Var)
        if equation.primitive is loop_p:
            beside = Aval((), atom.aval.dtype)
        values = [beside.dtype.type(a.value) for a in operand.atoms]
        data = np.array(values, beside.dtype).tobytes()
        found = self._x(("table", data, beside.dtype), lambda: self._table(values, beside.dtype))
        if beside.shape:
            found = self._put(broadcast_in_dim, [found], shape=beside.shape, axes=())
        return found

    def _table(self, values: list[Any], dtype: np.dtype) -> Var:
        data = np.array(values[::-1] if self.reverse else values, dtype).tobytes()
        return self.roller.add(table_p, [], self.source, data=data, dtype=dtype)

    def _const(self, atom: Any) -> Any:
        if type(atom) is Literal:
            return atom
        found = self.consts.get(atom)
        if found is None:
            found = self.consts[atom] = Var(atom.aval)
        return found

    def _made(self, slot: Slot, first: tuple) -> Any:
        """A value of this turn, or of one before: in the first turns, what `first` says."""
        if not first:
            return self.inside[slot]
        key = (*slot, first)
        if key not in self.carry:
            start = self.roller.value(first[0])
            if slot in self.from_zero and start.aval.dtype.kind in "fc":
                start = self.roller.add(add, [start, Literal(0.0)], self.source)
            self.carry[key] = Var(self.inside[slot].aval), start
            self.pending.append((key, slot, first[1:]))
        return self.carry[key][0]

    def _together(self, atoms: list[Any]) -> Var:
        """The values of an operand in all turns, in the order of the loop."""
        parts = self.roller.parts(atoms[::-1] if self.reverse else atoms, self.source)
        return parts[0] if len(parts) == 1 else self.roller.add(concatenate_p, parts, self.source, axis=0)

    # -- results

    def value(self, row: TurnValue) -> Any:
        """The value of one turn, after the loop."""
        found = self.final.get((row.slot, row.k, self.turns.count - row.turn))
        if found is not None:
            return found
        array = self.ys[(row.slot, row.k)]
        turn = self.turns.count - 1 - row.turn if self.reverse else row.turn
        index = (turn, *[(0, n, 1) for n in array.aval.shape[1:]])
        return self.roller.add(basic_index_p, [array], self.source, index=index)


def _window(equation: Equation) -> bool:
    """Is the index one window, without steps?"""
    return all([type(e) is not tuple or e[2] == 1 for e in index_of(equation)])


# -- rolling


SMALLEST = 256  # equations of a program that is looked at: shorter ones are quicker written out
NUMBERS = 4000  # equations of a program that Python runs, up to which single numbers are not looped over
GAIN = 32  # equations by which the program must become shorter
DEEP = 4  # loops in loops
LAGS = 4  # turns that a value is handed on
MULTIPLES = (1, 2, 3, 4, 6, 8)
TRIMMED = 4  # turns that may stay as they are for the sake of simpler operands
TRIES = 4  # until no large value is read in few turns only
PIECES = 4  # of arrays of which an operand may be put together
PADDED = 4  # times shorter must the program become by padding for no other form to be tried
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


@remembers()
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
    [('loop', 200)]
    """
    if len(jaxpr.equations) < SMALLEST:
        return jaxpr
    padded = pad(jaxpr)
    found = _rolled(padded)
    if padded is not jaxpr and len(found.equations) > len(jaxpr.equations) // PADDED:
        return min(found, _rolled(jaxpr), key=lambda j: len(j.equations))
    return found


def _rolled(jaxpr: Jaxpr) -> Jaxpr:
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
                program = self.program() if self.loops else None
                self.loops.clear()  # or Python would have to look for the circle, with all of the old program in it
                self.starts.clear()
                self.owners.clear()
                return program
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
        makers, owners = self.known.makers, self.owners
        for own, equation in zip(owners, self.jaxpr.equations):
            for a in equation.inputs:
                made = makers.get(a, -1) if type(a) is Var else -1
                if made >= 0 and owners[made >> SLOTS] is not own and (row := self.row(a)) is not None:
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
