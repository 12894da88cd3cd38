"""Carries that are only added to become sums over all steps, after the loop.

`acc = acc + v` in a loop, where nothing else reads acc, is `init + sum over t of v_t`. If v is a product of two values that
change from step to step, the sum over steps joins the product's own sum: a thousand small products and additions become one
large product, of the operands of all steps. So do sums inside v, additions (each term is summed by itself), and changes of
shape (done once, after). Without a product this is done only if the values of all steps are there anyway. Used by hoist.py,
whose text has the memory rule.
"""

from __future__ import annotations

from typing import Any

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Var
from funcad.primitives.arithmetic import add, neg, sub
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.reduction import reduce_sum_p
from funcad.primitives.shape import reshape, transpose

__all__ = ["Accumulations"]


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

    def is_product(self) -> bool:
        if self.operands:
            return any([t.is_product() for t in self.operands])
        return self.equation is not None and self.equation.primitive is dot_general_p


class Accumulations:
    """The part of hoisting that comes after the loop."""

    def __init__(self, loop: Any):
        self.loop = loop
        self.makers: dict[Var, Equation] = {v: e for e in loop.body for v in e.outputs}
        self.uses: dict[Any, int] = {}
        self.readers: dict[Any, Equation] = {}
        for e in loop.body:
            for a in e.inputs:
                self.count(a)
                self.readers[a] = e
        for o in (*loop.new_carry, *loop.ys):
            self.count(o)

    def count(self, atom: Any) -> None:
        if type(atom) is Var:
            self.uses[atom] = self.uses.get(atom, 0) + 1

    def run(self, products_only: bool = False) -> None:
        loop = self.loop
        plans = []
        for v, out in zip(loop.carry, loop.new_carry):
            if v.aval.dtype.kind in "iufc" and not v.aval.weak:
                terms = self.terms(v, out)
                if terms:
                    plans.append((v, terms))
        budget = loop.budget
        plans.sort(key=lambda plan: not any([t.is_product() for _, t in plan[1]]))  # they may make others free
        maybe = []
        for v, terms in plans:
            cost = sum([loop.cost(a) for a in self.needed(terms)])
            product = any([t.is_product() for _, t in terms])
            if not product and products_only:
                continue
            if cost <= budget if product else not cost:
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
            if e is None or self.uses[atom] != 1 or e.primitive not in (add, sub):
                return None
            x, y = e.inputs
            if e.primitive is sub and y is atom:
                return None
            found = self.term(y if x is atom else x)
            if found is None:
                return None
            terms.append((e.primitive is sub, found))
            atom = e.outputs[0]
        return terms if self.uses[atom] == 1 else None

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
            result = self.add(sub if negative else add, [result, self.total(term)], {})
        loop.drop_carry(k, result)

    def add(self, primitive: Any, inputs: list[Any], params: dict, source: Any = None) -> Any:
        aval = primitive.abstract_eval(*[a.aval for a in inputs], **params)
        out = Var(Aval(aval.shape, aval.dtype))
        self.loop.totals.append(Equation(primitive, tuple(inputs), params, (out,), source or self.loop.equation.source))
        return out

    def total(self, term: _Term) -> Any:
        """The sum over steps, outside."""
        loop, e = self.loop, term.equation
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
