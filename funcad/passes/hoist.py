"""Work moves out of loops: before the loop what does not depend on the carry, after it what is only added up.

For each `scan` of known length, in this order:
  * a carry that the body returns as it got it is a constant of the loop;
  * equations of constants alone are computed once, before the loop;
  * of a composition (t * (1 - y * y), a * b + c * d) the factor or product that xs and constants alone give is split off;
  * equations of xs and constants alone (products, element operations, changes of shape) are computed for all steps together
    before the loop, by their batch rules: `x_t @ W` for all t is one product. Their results are xs of the loop;
  * a carry that is only added to (`acc + f(...)`, and nothing else reads acc) is taken out: the loop returns what is summed, or
    the operands of the product that makes it, for each step, and one sum or product over all steps follows (machine code does
    small products, of LITTLE multiplications, in the turn: as fast, and nothing is kept for them);
  * the same if a mask says which terms of outer products are added, as turns over a triangle do (masked_products.py), and if
    others are added at places that follow the turn, which remains as a loop of additions;
  * products that only ys read (`h_t @ W`) are computed after the loop, for all steps together; so are elementary
    functions of small values, if what they need of all steps takes no more memory than what they gave.

Memory rule: what the loop newly reads or writes per step is at most MEMORY times what it read and wrote before; or, where each
operation is a call, CACHED bytes in all turns. There squares are sums of products, too.
Invariants: bodies with effects are left alone; results differ by the order of sums only, as for any reduction. A loop without
steps stays, since what is hoisted might raise. Traps: a sum over steps starts at 0.0, so an initial -0.0 to which only -0.0
is added becomes 0.0; checkpoints stay inside, their point is to be computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, StackAval
from funcad.ir.interpret import walk
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, split, stays
from funcad.ir.trace import trace_function
from funcad.passes.lower import split_up
from funcad.passes.masked_products import cleared, masked_product, outer, spread, worth, written
from funcad.passes.redundancy import cse
from funcad.passes.rewrite import uses_of
from funcad.passes.roll import compiles_numbers
from funcad.passes.subprograms import kind_of
from funcad.primitives.arithmetic import add, mul, neg, sub
from funcad.primitives.atoms import is_elementary
from funcad.primitives.basic_indexing import basic_index_p
from funcad.primitives.comparison import isnan, select
from funcad.primitives.computed_slices import dynamic_add_p
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.loop import Loop
from funcad.primitives.reduction import reduce_sum_p
from funcad.primitives.shape import broadcast_in_dim, reshape, transpose

# -- carries that are only added to become sums over all steps, after the loop
#
# `acc = acc + v` in a loop, where nothing else reads acc, is `init + sum over t of v_t`. If v is a product of two values that
# change from step to step, the sum over steps joins the product's own sum: a thousand small products and additions become one
# large product, of the operands of all steps. So do sums inside v, additions (each term is summed by itself), and changes of
# shape (done once, after). Without a product this is done only if the values of all steps are there anyway. Used below,
# whose text has the memory rule.


class _Term:
    """A summand: an equation of the body that is redone after the loop, or a value that is summed as it is."""

    __slots__ = ("variable", "equation", "operands")

    def __init__(self, variable: Any, equation: Equation | None, operands: list[_Term]):
        self.variable = variable
        self.equation = equation
        self.operands = operands

    def needed(self) -> list[Any]:
        """The variables of the body whose values in all steps are read."""
        if self.operands:
            return [v for t in self.operands for v in t.needed()]
        return [self.variable] if self.equation is None else list(self.equation.inputs)

    def work(self) -> int:
        """Multiplications of its products, in a turn."""
        e = self.equation
        if self.operands or e is None or e.primitive is not dot_general_p:
            return sum([t.work() for t in self.operands])
        (contracted, _), _ = e.params["dimension_numbers"]
        return self.variable.aval.size * prod([e.inputs[0].aval.shape[a] for a in contracted])


class _Masked(_Term):
    """An outer product of which a mask along one axis says what is added; `flipped`: along the first one."""

    __slots__ = ("given", "flipped")

    def __init__(self, variable: Any, operands: list[Any], flipped: bool):
        super().__init__(variable, None, [])
        self.given, self.flipped = operands, flipped

    def needed(self) -> list[Any]:
        return self.given

    def work(self) -> int:
        return int(self.variable.aval.size)


class _Placed(_Term):
    """A summand that is added at a place which the number of the turn says; `starts` computes it."""

    __slots__ = ("starts",)

    def __init__(self, equation: Equation, starts: list[Equation]):
        super().__init__(equation.inputs[1], equation, [])
        self.starts = starts

    def needed(self) -> list[Any]:
        return [self.variable]

    def work(self) -> int:
        return 0


class Accumulations:
    """The part of hoisting that comes after the loop."""

    def __init__(self, loop: Any):
        self.loop = loop
        self.makers: dict[Var, Equation] = {v: e for e in loop.body for v in e.outputs}
        self.readers: dict[Any, Equation] = {a: e for e in loop.body for a in e.inputs if type(a) is Var}
        self.uses = uses_of(Jaxpr((), tuple(loop.body), (*loop.new_carry, *loop.ys)))

    def run(self, products_only: bool = False) -> None:
        loop = self.loop
        plans = []
        for v, out in zip(loop.carry, loop.new_carry):
            if v.aval.dtype.kind in "iufc" and not v.aval.weak:
                terms = self.terms(v, out)
                if terms:
                    plans.append((v, terms))
        budget = loop.budget
        plans.sort(key=lambda plan: not any([t.work() for _, t in plan[1]]))  # they may make others free
        maybe = []
        for v, terms in plans:
            cost = sum([loop.cost(a) for a in self.needed(terms)])
            work = sum([t.work() for _, t in terms])
            if not work and products_only:
                continue
            if cost <= budget if work > (LITTLE if compiles_numbers() else 0) else not cost:
                budget -= cost
                self.take_out(loop.carry.index(v), terms)
            else:
                maybe.append((v, terms))
        if maybe and not products_only:  # taken out if what is added can be computed after the loop, too
            finals = frozenset([loop.new_carry[loop.carry.index(v)] for v, _ in maybe])
            after = {e.outputs[0] for e in loop.sinkable(finals)}
            for v, terms in maybe:
                if all([a in after or not loop.cost(a) for a in self.needed(terms)]):
                    self.take_out(loop.carry.index(v), terms)

    def needed(self, terms: list[tuple[bool, _Term]]) -> set[Any]:
        return {a for _, t in terms for a in t.needed()}

    def terms(self, carry: Var, out: Any) -> list[tuple[bool, _Term]] | None:
        """What is added to the carry on its way to its next value, with signs; None if anything else happens to it."""
        atom, terms = carry, []
        while atom is not out:
            e = self.readers.get(atom)
            if e is None:
                return None
            found: _Term | None = None
            if e.primitive is select:
                found = self.masked(e, atom)
            elif self.uses[atom] == 1 and e.primitive is dynamic_add_p and e.inputs[0] is atom:
                found = self.placed(e)
            elif self.uses[atom] == 1 and (e.primitive is add or e.primitive is sub and e.inputs[0] is atom):
                found = self.term(e.inputs[1] if e.inputs[0] is atom else e.inputs[0])
            if found is None:
                return None
            terms.append((e.primitive is sub, found))
            atom = e.outputs[0]
        return terms if self.uses[atom] == 1 else None

    def masked(self, e: Equation, atom: Var) -> _Masked | None:
        """The term of `select(mask, atom + term, atom)`: an outer product, with the mask of one of its rows or columns."""
        operands: Sequence[Any] = e.inputs
        mask, changed, kept = operands
        made = self.makers.get(changed)
        if kept is not atom or self.uses[atom] != 2 or made is None or made.primitive is not add or self.uses[changed] != 1:
            return None
        if atom not in made.inputs or not worth(atom.aval.dtype, self.loop.length, *atom.aval.shape):
            return None
        term: Any = made.inputs[1] if made.inputs[0] is atom else made.inputs[0]
        vectors, along = outer(self.makers.get(term), self.makers.get), spread(mask, self.makers.get)
        if vectors is None or along is None or not all(map(self.varies, (*vectors, along[1]))):
            return None
        return _Masked(atom, [*(vectors if along[0] else vectors[::-1]), along[1]], not along[0])

    def placed(self, e: Equation) -> _Placed | None:
        """The term that is added at a place, if numbers that only count turns say where."""
        known: set[Any] = {v for v in self.loop.carry if not v.aval.shape and v.aval.dtype.kind == "i"}
        counted = [b for b in self.loop.body if not b.outputs[0].aval.shape and b.inputs and b.primitive.emit is not None]
        starts = []
        for b in counted:
            if all([type(a) is Literal or a in known for a in b.inputs]):
                known.update(b.outputs)
                starts.append(b)
        following = [o for v, o in zip(self.loop.carry, self.loop.new_carry) if v in known]
        if not all([type(a) is Literal or a in known for a in (*e.inputs[2:], *following)]) or not self.varies(e.inputs[1]):
            return None
        return _Placed(e, starts)

    def varies(self, atom: Any) -> bool:
        return type(atom) is Var and atom not in self.loop.consts

    def term(self, atom: Any) -> _Term | None:
        """How the sum over steps of this value is computed; None: not here (it does not change, or is a literal)."""
        if not self.varies(atom):
            return None
        e = self.makers.get(atom)
        if e is not None and self.uses[atom] == 1:
            if e.primitive in (add, sub, neg, transpose, reshape) and all([type(a) is Var for a in e.inputs]):
                operands = [self.term(a) for a in e.inputs]
                found = [t for t in operands if t is not None]
                if len(found) == len(operands):
                    return _Term(atom, e, found)
            if e.primitive is dot_general_p and all([self.varies(a) for a in e.inputs]):
                return _Term(atom, e, [])
            if e.primitive is reduce_sum_p and self.varies(e.inputs[0]):
                return _Term(atom, e, [])
        return _Term(atom, None, [])

    # -- after the loop

    def take_out(self, k: int, terms: list[tuple[bool, _Term]]) -> None:
        loop = self.loop
        result = loop.init[k]
        for negative, term in terms:
            if type(term) is not _Placed:
                result = self.add(sub if negative else add, [result, self.total(term)], {})
        placed = [term for _, term in terms if type(term) is _Placed]
        loop.drop_carry(k, self.added(placed, result) if placed else result)

    def add(self, primitive: Any, inputs: list[Any], params: dict, source: Any = None) -> Any:
        aval = primitive.abstract_eval(*[a.aval for a in inputs], **params)
        out = Var(Aval(aval.shape, aval.dtype))
        self.loop.totals.append(Equation(primitive, tuple(inputs), params, (out,), source or self.loop.equation.source))
        return out

    def added(self, terms: list[_Placed], start: Any) -> Any:
        """What is placed turn by turn is added to a value, outside, by a loop of its own."""
        loop = self.loop
        total, last = Var(start.aval), Var(start.aval)
        counters = [v for v in loop.carry if not v.aval.shape and v.aval.dtype.kind == "i"]
        equations, at = list(terms[0].starts), total
        for term in terms:
            assert term.equation is not None
            out = last if term is terms[-1] else Var(start.aval)
            equations.append(term.equation._replace(inputs=(at, *term.equation.inputs[1:]), outputs=(out,)))
            at = out
        xs = list(dict.fromkeys([t.variable for t in terms]))
        following = [loop.new_carry[loop.carry.index(v)] for v in counters]
        body = Jaxpr((*counters, total, *xs), tuple(equations), (*following, last))
        inputs = (*[loop.init[loop.carry.index(v)] for v in counters], start, *map(loop.everywhere, xs))
        results = tuple([Var(v.aval) for v in (*counters, total)])
        params = {"loop": loop.loop.with_body(body, 0, len(counters) + 1)}
        loop.totals.append(Equation(loop.equation.primitive, inputs, params, results, loop.equation.source))
        return results[-1]

    def total(self, term: _Term) -> Any:
        """The sum over steps, outside."""
        loop, e = self.loop, term.equation
        if type(term) is _Masked:
            found = written(masked_product, list(map(loop.everywhere, term.given)), loop.totals)
            return self.add(transpose, [found], {"perm": (1, 0)}) if term.flipped else found
        if e is None:
            return self.add(reduce_sum_p, [loop.everywhere(term.variable)], {"axes": (0,)})
        if term.operands:
            return self.add(e.primitive, [self.total(t) for t in term.operands], e.params, e.source)
        operands = [loop.everywhere(a) for a in e.inputs]
        if e.primitive is reduce_sum_p:
            return self.add(reduce_sum_p, operands, {"axes": (0, *[a + 1 for a in e.params["axes"]])}, e.source)
        (cx, cy), (bx, by) = e.params["dimension_numbers"]
        moved = [tuple([a + 1 for a in axes]) for axes in (cx, cy, bx, by)]
        numbers = (((0, *moved[0]), (0, *moved[1])), (moved[2], moved[3]))
        return self.add(dot_general_p, operands, {"dimension_numbers": numbers}, e.source)


# -- work moves out of loops


MEMORY = 4
LITTLE = 40
CACHED = 1 << 20  # bytes of all turns that are kept to spare calls, whatever a turn reads
SMALL = 4096  # bytes up to which a value's operations cost more to start than to run


def bytes_of(aval: Any) -> int:
    return aval.size * aval.dtype.itemsize


class OpenLoop:
    """A scan while it is taken apart: the body's variables and, outside, what they stand for."""

    def __init__(self, equation: Equation):
        loop: Loop = equation.params["loop"]
        body = cse(loop.body) if loop.rolled else loop.body  # turns ask for their masks anew
        self.equation = equation
        self.loop = loop
        self.length: Any = loop.length  # a number, see `_suits`
        inputs = [_strong(a, v.aval) for a, v in zip(equation.inputs, body.inputs)]
        self.consts, self.carry, self.xs = loop.split(body.inputs)
        self.outer_consts, self.init, self.outer_xs = loop.split(inputs)
        self.new_carry, self.ys = split(body.outputs, loop.n_carry)
        self.carry_out, self.outer_ys = split(equation.outputs, loop.n_carry)
        self.body = list(body.equations)
        self.before: list[Equation] = []
        self.after: list[Equation] = []  # of all steps together
        self.totals: list[Equation] = []  # sums over steps
        self.names: dict[Var, Any] = {}  # results of the scan that are something else now
        self.chosen: dict[Var, Equation] = {}  # what masks choose in all steps, outside
        self.changed = False
        self.calls = not compiles_numbers()  # is each operation of a turn a call?
        self.budget = MEMORY * sum([bytes_of(v.aval) for v in (*self.xs, *self.ys)])
        self.budget = max(self.budget, CACHED // self.length) if self.calls else self.budget

    # -- what others ask for

    def drop_carry(self, k: int, result: Any) -> None:
        """The carry is gone; its final value is `result`, outside."""
        self.names[self.carry_out[k]] = result
        for values in (self.carry, self.init, self.new_carry, self.carry_out):
            del values[k]
        self.changed = True

    def everywhere(self, v: Any) -> Any:
        """Outside, the values of a variable of the body in all steps, together."""
        if v in self.xs:
            return self.outer_xs[self.xs.index(v)]
        if v in self.ys:
            return self.outer_ys[self.ys.index(v)]
        out = Var(Aval((self.length, *v.aval.shape), v.aval.dtype))
        self.ys.append(v)
        self.outer_ys.append(out)
        return out

    def cost(self, v: Any) -> int:
        """Bytes per step that `everywhere` adds."""
        return 0 if v in self.xs or v in self.ys else bytes_of(v.aval)

    # -- the steps

    def run(self) -> None:
        self.keep_constants_out()
        self.hoist_constants()
        self.body = split_up(self.body, {*self.xs, *self.consts})
        Accumulations(self).run(products_only=True)  # before their factors meet outside
        self.sink_masked()
        self.hoist_xs()
        Accumulations(self).run()
        self.body = _live(self.body, (*self.new_carry, *self.ys))
        self.sink_ys()
        self.keep_less()
        self.leave_xs_out()

    def keep_less(self) -> None:
        """What is broadcast, or chosen by masks, for a y is kept instead, if that is less; the y is made of it outside."""
        makers: dict[Any, Equation] = {v: e for e in self.body for v in e.outputs}
        y: Any
        for y in list(self.ys):
            chain: dict[Var, Equation] = {}
            inputs = self.chosen_from(y, makers, chain)
            if not chain or not inputs or 2 * sum(map(self.cost, inputs)) > bytes_of(y.aval) or y in inputs:
                continue
            k = self.ys.index(y)
            made: list[Equation] = []
            (self.names[self.outer_ys[k]],) = self.together(list(chain.values()), inputs, [y], made)
            self.after[:0] = made  # what is there may read it
            self.chosen.update({v: e for e in made if e.primitive is select for v in e.outputs})
            del self.ys[k], self.outer_ys[k]
            self.changed = True

    def chosen_from(self, v: Any, makers: dict[Any, Equation], chain: dict[Var, Equation]) -> list[Var]:
        """The values of which broadcasts and choices make this one, by the equations of `chain`."""
        e = makers.get(v)
        if type(v) is not Var or v in self.consts or v in chain:
            return []
        if e is None or e.primitive is not broadcast_in_dim and e.primitive is not select:
            return [v]
        if e.primitive is select:
            mask, a, b = e.inputs
            asked = makers.get(mask)
            if asked is not None and asked.primitive is isnan and asked.inputs[0] is a:
                e = e._replace(inputs=(mask, Literal(a.aval.dtype.type(np.nan)), b))  # no other value is chosen
        found = [x for a in e.inputs for x in self.chosen_from(a, makers, chain)]
        chain[v] = e
        return list(dict.fromkeys(found))

    def leave_xs_out(self) -> None:
        """ys that are xs need no copying."""
        for k in range(len(self.ys) - 1, -1, -1):
            if self.ys[k] in self.xs:
                self.names[self.outer_ys[k]] = self.everywhere(self.ys[k])
                del self.ys[k], self.outer_ys[k]
                self.changed = True

    def keep_constants_out(self) -> None:
        """A carry that does not change is a constant."""
        for k in range(len(self.carry) - 1, -1, -1):
            v, start = self.carry[k], self.init[k]
            if self.new_carry[k] is v and start.aval.weak == v.aval.weak and not _is_stack(v):
                self.consts.append(v)
                self.outer_consts.append(start)
                self.drop_carry(k, start)

    def hoist_constants(self) -> None:
        known = set(self.consts)
        found: list[Equation] = []
        for e in self.body:
            if not e.primitive.barrier and e.inputs and all([type(a) is Literal or a in known for a in e.inputs]):
                if any([type(a) is Var for a in e.inputs]) and not any([_is_stack(v) for v in e.outputs]):
                    found.append(e)
                    known.update(e.outputs)
        found = self.without_last_views(found)
        if not found:
            return
        inside = dict(zip(self.consts, self.outer_consts))
        for e in found:
            for v in e.outputs:
                inside[v] = Var(v.aval)
            inputs = tuple([inside[a] if type(a) is Var else a for a in e.inputs])
            self.before.append(Equation(e.primitive, inputs, e.params, tuple([inside[v] for v in e.outputs]), e.source))
        self.taken_out(found)
        for v in self.read_of(found):
            self.consts.append(v)
            self.outer_consts.append(inside[v])

    def hoist_xs(self) -> None:
        found = self.without_last_views(self.of_xs(elements=True))
        if not found or not self.affordable(found):
            found = self.without_last_views(self.of_xs(elements=False))
            if not found or not self.affordable(found):
                return
        results = self.read_of(found)
        outer = self.together(found, list(self.xs), results, self.before)
        self.taken_out(found)
        self.xs += results
        self.outer_xs += outer

    def sink_masked(self) -> None:
        """Products of a matrix with parts of vectors, which a mask names, and that ys are, come after the loop."""
        makers: dict[Any, Equation] = {v: e for e in self.body for v in e.outputs}
        for k in range(len(self.ys) - 1, -1, -1):
            e = makers.get(self.ys[k])
            while e is not None and e.primitive is reshape:
                e = makers.get(e.inputs[0])
            found = None if e is None or e.primitive is not dot_general_p else self.masked_dot(e, makers)
            if found is None:
                continue
            mask, row, matrix, axis = found
            rows = [self.everywhere(v) for v in (row, mask)]
            operands = [self.outer_consts[self.consts.index(matrix)], *rows]

            def product(a: Any, y: Any, mask: Any, axis: int = axis, shape: Any = self.outer_ys[k].aval.shape) -> Any:
                a = transpose(a, perm=(1, 0)) if axis else a
                return reshape(
                    transpose(masked_product(a, *[transpose(x, perm=(1, 0)) for x in (y, mask)]), perm=(1, 0)), shape=shape
                )

            self.names[self.outer_ys[k]] = written(product, operands, self.after)
            del self.ys[k], self.outer_ys[k]
            self.changed = True
        self.body = _live(self.body, (*self.new_carry, *self.ys))

    def masked_dot(self, e: Equation, makers: dict[Any, Equation]) -> tuple[Any, Any, Any, int] | None:
        """(mask, vector, matrix that is constant, axis that is summed), if the equation is their product where the mask is."""
        ((cx, cy), (bx, _)) = e.params["dimension_numbers"]
        sides = sorted(zip(e.inputs, (cx, cy)), key=lambda side: len(side[0].aval.shape))
        if bx or len(cx) != 1 or [len(a.aval.shape) for a, _ in sides] != [1, 2]:
            return None
        one, other = [cleared(a, makers.get) for a, _ in sides]
        if one is None or other is None:
            return None
        (mask, row), (masks, matrix) = one, other
        along = spread(masks, makers.get)
        axis = sides[1][1][0]
        if along is None or along[0] != axis or along[1] is not mask or matrix not in self.consts:
            return None
        if not worth(row.aval.dtype, self.length, *matrix.aval.shape) or self.cost(row) + self.cost(mask) > self.budget:
            return None
        return mask, row, matrix, axis

    def sink_ys(self) -> None:
        """Products that only ys read, and what is made of them, are computed after the loop; so is what ys and xs give."""
        constants = set(self.consts)
        found = [e for e in self.read_by_ys(frozenset()) if any([type(a) is Var and a not in constants for a in e.inputs])]
        inputs = self.read_by(found)
        if not self.spares_memory(found, inputs):
            found = self.sinkable()
            inputs = self.read_by(found)
        if not found or sum([self.cost(a) for a in inputs]) > self.budget:
            return
        after = {e.outputs[0] for e in found}
        for v in inputs:
            self.everywhere(v)
        results = [v for v in after if v in self.ys]
        outer = dict(zip(results, self.together(found, inputs, results, self.after)))
        for k in range(len(self.ys) - 1, -1, -1):
            if self.ys[k] in outer:
                self.names[self.outer_ys[k]] = outer[self.ys[k]]
                del self.ys[k], self.outer_ys[k]
        self.taken_out(found)

    def spares_memory(self, found: list[Equation], inputs: list[Var]) -> bool:
        """Do the values that these equations start from take no more memory than those of their results that are ys?

        Cheap operations by themselves stay in the loop, where a compiled loop does them on the way.
        """
        if not any(map(is_elementary, found)):
            return False
        ys = [e.outputs[0] for e in found if e.outputs[0] in self.ys]
        costs = [self.cost(a) for a in inputs]
        return max(costs, default=0) <= SMALL and sum(costs) <= sum([bytes_of(v.aval) for v in ys])

    def read_by(self, found: list[Equation]) -> list[Var]:
        """What changes from step to step and enters these equations from outside of them."""
        known = {*self.consts, *[e.outputs[0] for e in found]}
        return list(dict.fromkeys([a for e in found for a in e.inputs if type(a) is Var and a not in known]))

    def sinkable(self, without: frozenset = frozenset()) -> list[Equation]:
        """What could be computed after the loop; `without` has final values of carries that are taken as ys."""
        constants = set(self.consts)
        found: list[Equation] = []
        after: set[Any] = set()
        for e in self.read_by_ys(without):
            varying = [a for a in e.inputs if type(a) is Var and a not in constants]
            follows = any([a in after for a in varying])
            product = e.primitive is dot_general_p
            if self.calls and e.primitive is mul and e.inputs[0] is e.inputs[1]:
                product = self.cost(e.inputs[0]) <= self.budget
            if varying and (follows or product or not any([self.cost(a) for a in varying])):
                found.append(e)
                after.add(e.outputs[0])
        return found

    def read_by_ys(self, without: frozenset) -> list[Equation]:
        """Equations that could be computed for all steps together, and that only ys and each other read."""
        read = {o for o in self.new_carry if type(o) is Var and o not in without}
        found = []
        for e in reversed(self.body):
            v = e.outputs[0]
            if self.can_be_together(e, elements=True) and v not in read:
                found.append(e)
            else:
                read.update([a for a in e.inputs if type(a) is Var])
        return found[::-1]

    # -- helpers

    def can_be_together(self, e: Equation, elements: bool) -> bool:
        """May it be computed for all steps at once? Views and products may, with `elements` also what works on elements."""
        primitive, aval = e.primitive, e.outputs[0].aval
        if primitive.multiple or primitive.batch is None or type(aval) is not Aval or aval.weak:
            return False
        if primitive.free or primitive is dot_general_p:
            return True
        return elements and (primitive.emit is not None or primitive.reduction is not None)

    def together(self, found: list[Equation], inputs: list[Var], results: list[Var], place: list[Equation]) -> list[Any]:
        """The results of these equations in all steps, computed by equations that are added at this place outside."""
        program = _together(found, self.consts, inputs, results, self.length)
        names: dict[Var, Any] = dict(zip(program.inputs, [*self.outer_consts, *map(self.everywhere, inputs)]))
        for e in program.equations:
            for v in e.outputs:
                names[v] = Var(v.aval)
            atoms = tuple([names[a] if type(a) is Var else a for a in e.inputs])
            place.append(Equation(e.primitive, atoms, e.params, tuple([names[v] for v in e.outputs]), e.source))
        return [names[o] for o in program.outputs]

    def of_xs(self, elements: bool) -> list[Equation]:
        """Equations of xs and constants alone that may be computed for all steps together."""
        of_xs, known = set(self.xs), {*self.xs, *self.consts}
        found = []
        for e in self.body:
            if not self.can_be_together(e, elements):
                continue
            variables = [a for a in e.inputs if type(a) is Var]
            if all([a in known for a in variables]) and any([a in of_xs for a in variables]):
                out = e.outputs[0]
                if bytes_of(out.aval) <= self.budget:
                    found.append(e)
                    of_xs.add(out)
                    known.add(out)
        return found

    def without_last_views(self, found: list[Equation]) -> list[Equation]:
        """Views that nothing else hoisted reads stay in the loop, where they cost nothing."""
        read: set[Any] = set()
        kept = []
        for e in reversed(found):
            if not e.primitive.free or any([v in read for v in e.outputs]):
                kept.append(e)
                read.update([a for a in e.inputs if type(a) is Var])
        return kept[::-1]

    def read_of(self, found: Sequence[Equation]) -> list[Var]:
        """Results of these equations that the rest of the body, or who comes after, reads."""
        taken = {id(e) for e in found}
        read = {a for e in self.body if id(e) not in taken for a in e.inputs if type(a) is Var}
        read.update([o for o in (*self.new_carry, *self.ys) if type(o) is Var])
        return [v for e in found for v in e.outputs if v in read]

    def affordable(self, found: list[Equation]) -> bool:
        return sum([bytes_of(v.aval) for v in self.read_of(found)]) <= self.budget

    def taken_out(self, found: Sequence[Equation]) -> None:
        taken = {id(e) for e in found}
        self.body = [e for e in self.body if id(e) not in taken]
        self.changed = True

    def equations(self) -> list[Equation]:
        """What stands in the place of the scan."""
        outputs = (*self.new_carry, *self.ys)
        body = Jaxpr((*self.consts, *self.carry, *self.xs), tuple(_live(self.body, outputs)), outputs)
        params = {"loop": self.loop.with_body(body, len(self.consts), len(self.carry))}
        inputs = (*self.outer_consts, *self.init, *self.outer_xs)
        results = (*self.carry_out, *self.outer_ys)
        scan = Equation(self.equation.primitive, inputs, params, results, self.equation.source)
        late = [_renamed(e, self.names) for e in (*self.after, *self.totals)]
        return [*self.before, scan, *late]


def _together(found: Sequence[Equation], consts: list[Var], xs: list[Var], results: list[Var], length: int) -> Jaxpr:
    """The program of these equations for all steps: inputs (consts, stacked xs), outputs the results, stacked."""
    one = Jaxpr((*consts, *xs), tuple(found), tuple(results))

    flagged = dict.fromkeys(xs, True)

    def step(equation: Equation, operands: list[Any]) -> list[Any]:
        flags = [a in flagged for a in equation.inputs]
        if not any(flags):  # of constants alone, the same in all steps
            return [equation.primitive(*operands, **equation.params)]
        out, batched = equation.primitive.batch(length, operands, flags, **equation.params)
        if batched:
            flagged[equation.outputs[0]] = True
        return [out]

    avals = [*[v.aval for v in consts], *[Aval((length, *v.aval.shape), v.aval.dtype) for v in xs]]
    traced, captured = trace_function(lambda *xs: walk(one, list(xs), step, None, flagged), avals, name="scan", abstract=False)
    assert not captured, "batch rules of these operations capture nothing"
    return traced


def _live(equations: Sequence[Equation], outputs: Sequence[Any]) -> list[Equation]:
    live = {o for o in outputs if type(o) is Var}
    kept = []
    for e in reversed(equations):
        if any([v in live for v in e.outputs]) or stays(e):
            kept.append(e)
            live.update([a for a in e.inputs if type(a) is Var])
    return kept[::-1]


def _renamed(equation: Equation, names: dict[Var, Any]) -> Equation:
    if not names or not any([a in names for a in equation.inputs if type(a) is Var]):
        return equation
    return equation._replace(inputs=tuple([names.get(a, a) if type(a) is Var else a for a in equation.inputs]))


def _strong(atom: Any, aval: Any) -> Any:
    """A weak literal as what the body takes it for."""
    return Literal(aval.dtype.type(atom.value)) if type(atom) is Literal and atom.aval.weak and not aval.weak else atom


def _is_stack(v: Any) -> bool:
    return type(v.aval) is StackAval


def _suits(equation: Equation) -> bool:
    """Is this a loop that may be taken apart?"""
    if kind_of(equation) != "loop" or not equation.params["loop"].length:
        return False
    body = equation.params["loop"].body
    return not body.has_effects and not any([_is_stack(v) for v in (*body.inputs, *body.outputs)])


def hoist(jaxpr: Jaxpr) -> Jaxpr:
    """The program with work moved out of its loops; see the module's text. Loops in sub-programs are not looked at."""
    if not any([_suits(e) for e in jaxpr.equations]):
        return jaxpr
    names: dict[Var, Any] = {}
    chosen: dict[Var, Equation] = {}
    equations: list[Equation] = []
    changed = False
    for equation in jaxpr.equations:
        equation = _renamed(equation, names)
        if equation.primitive is basic_index_p and equation.inputs[0] in chosen:
            names[equation.outputs[0]] = _part(equation.inputs[0], equation, chosen, equations)
            continue
        if _suits(equation):
            loop = OpenLoop(equation)
            loop.run()
            if loop.changed:
                changed = True
                equations += loop.equations()
                chosen.update({v: _renamed(e, loop.names) for v, e in loop.chosen.items()})
                names.update({v: names.get(a, a) if type(a) is Var else a for v, a in loop.names.items()})
                continue
        equations.append(equation)
    if not changed:
        return jaxpr
    return Jaxpr(jaxpr.inputs, tuple(equations), tuple([names.get(o, o) if type(o) is Var else o for o in jaxpr.outputs]))


def _part(v: Any, picked: Equation, chosen: dict[Var, Equation], place: list[Equation]) -> Any:
    """What this equation picks of v, which is chosen by masks: it is chosen of what is picked of them."""
    if type(v) is Literal:
        return v
    out = Var(Aval(picked.outputs[0].aval.shape, v.aval.dtype))
    if v in chosen:
        e = chosen[v]
        place.append(e._replace(inputs=tuple([_part(a, picked, chosen, place) for a in e.inputs]), outputs=(out,)))
    else:
        place.append(picked._replace(inputs=(v,), outputs=(out,)))
    return out
