"""The loop that a stretch becomes: its body, its operands, its results; see roll.py.

Invariant: `write` adds equations whose results are, bit for bit, the values that the stretch computes; `value` finds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.passes.program_keys import program_key
from funcad.passes.turns import Made, OutsideOperand, Turns, index_of
from funcad.primitives.arithmetic import add, mul
from funcad.primitives.basic_indexing import basic_add_p, basic_index_p, basic_place_p, basic_update_p
from funcad.primitives.computed_slices import dynamic_add_p, dynamic_slice_p, dynamic_update_slice_p
from funcad.primitives.loop import Loop, rolled_p
from funcad.primitives.shape import broadcast_in_dim, concatenate_p, reshape, slice_p, transpose
from funcad.primitives.table import table_p

if TYPE_CHECKING:
    from funcad.passes.roll import _Roller

__all__ = ["Rolled", "TurnValue"]

INT = np.dtype(np.int64)
LARGE = 1 << 20  # bytes of the values of all turns
RARELY = 4  # times as many turns are there as those in which a value is read
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
            if q in self.bounds and self.affine(q) is None or q in self.constant:
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
            elif len(moves) == len(places) and len({(m[0], m[2]) for m in moves if m is not None}) == 1:
                order = sorted(range(len(places)), key=lambda i: -moves[i][1] / moves[i][2])  # type: ignore[index]
                found.append(PlacedSum(q, (first, j), [places[i] for i in order], gone, False))
        return found

    # -- writing

    def write(self) -> None:
        """Add the loop to the program."""
        turns, roller = self.turns, self.roller
        self.source = turns.equation(0).source
        self.sum_list = self.sums()
        gone = {q for s in self.sum_list for q in s.slots}
        self.reverse = self._backwards(gone)
        self.consts: dict[Any, Var] = {}
        self.carry: dict[Any, tuple[Var, Any]] = {}  # -> inside, and its first value outside
        self.following: dict[Any, Any] = {}
        self.xs: dict[Any, tuple[Any, Var]] = {}
        self.pending: list[tuple[Any, Slot, tuple]] = []  # carries, with what they hold in the next turns
        self.counter: Var | None = None
        self.body: list[Equation] = []
        self.inside = {
            (q, k): Var(v.aval) for q in range(turns.period) for k, v in enumerate(turns.equation(q).outputs)
        }
        for q in range(turns.period):
            if q in self.constant:
                equation = turns.equation(q)
                roller.equations.append(equation._replace(inputs=tuple(map(roller.value, equation.inputs))))
                for k, v in enumerate(equation.outputs):
                    roller.names[v] = v
                    self.inside[(q, k)] = self._const(v)
            elif q not in gone:
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
        body = self._shared(Jaxpr(inputs, tuple(self.body), outputs))
        loop = Loop(body, len(self.consts), len(carry), turns.count, self.reverse)
        results = [Var(v.aval) for _, v, _ in carry]
        operands = (*self.consts, *[a for _, _, a in carry], *[a for a, _ in self.xs.values()])
        roller.equations.append(Equation(rolled_p, operands, {"loop": loop}, (*results, *y_outs), self.source))
        last = {key: result for (key, _, _), result in zip(carry, results)}
        for place, key in wanted:
            self.final[place] = last[key]
        for s, values in zip(self.sum_list, placed):
            self._placed(s, last[values] if s.fixed else values)

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
        return output

    def _equation(self, q: int) -> None:
        equation = self.turns.equation(q)
        primitive, _, params, outputs, source = equation
        outs = tuple([self.inside[(q, k)] for k in range(len(outputs))])
        if q not in self.bounds:
            inputs = [self._operand(q, j) for j in range(len(equation.inputs))]
            self.body.append(Equation(primitive, tuple(inputs), params, outs, source))
            return
        move = self.row_of_constant(q)
        if move is not None:
            self.inside[(q, 0)], self.ys[(q, 0)] = self._row(equation, *move)
            return
        entries = index_of(equation)
        starts: list[Any] = []
        sizes = []
        for n, entry in enumerate(entries):
            if entry is not None:
                first, count = (entry, 1) if type(entry) is int else entry[:2]
                moving = self.bounds[q].get(n)
                starts.append(Literal(np.int64(first)) if moving is None else self._start(moving))
                sizes.append(count)
        shape = tuple(sizes)
        if primitive is basic_index_p or primitive is slice_p:
            found = self._put(dynamic_slice_p, [self._operand(q, 0), *starts], sizes=shape)
            wanted = outputs[0].aval.shape
            if wanted != shape:
                found = self._put(reshape, [found], shape=wanted)
        else:
            if primitive is basic_place_p:
                aval = outputs[0].aval
                zero = Literal(aval.dtype.type(0))
                target = self._put(broadcast_in_dim, [zero], shape=aval.shape, axes=())
                value = self._operand(q, 0)
            else:
                target, value = [self._operand(q, j) for j in range(2)]
            if value.aval.shape != shape:
                value = self._put(reshape, [value], shape=shape)
            write = dynamic_add_p if primitive is basic_add_p else dynamic_update_slice_p
            found = self._put(write, [target, value, *starts])
        self.inside[(q, 0)] = found

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

        key = ("row", array, index, shape)
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
            self.carry[key] = Var(self.inside[slot].aval), self.roller.value(first[0])
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
