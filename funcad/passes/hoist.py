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
  * products that only ys read (`h_t @ W`) are computed after the loop, for all steps together; so are elementary
    functions of small values, if what they need of all steps takes no more memory than what they gave.

Memory rule: what the loop newly reads or writes per step is at most MEMORY times what it read and wrote before.
Invariants: bodies with effects are left alone; results differ by the order of sums only, as for any reduction. A loop without
steps stays, since what is hoisted might raise. Traps: a sum over steps starts at 0.0, so an initial -0.0 to which only -0.0
is added becomes 0.0; checkpoints stay inside, their point is to be computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from funcad.ir.aval import Aval, StackAval
from funcad.ir.interpret import walk
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, split
from funcad.ir.trace import trace_function
from funcad.passes.lower import split_up
from funcad.passes.rewrite import uses_of
from funcad.passes.roll import compiles_numbers
from funcad.passes.subprograms import kind_of
from funcad.primitives.arithmetic import add, neg, sub
from funcad.primitives.atoms import ELEMENTARY, atoms_of, is_elementary
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


# -- work moves out of loops


MEMORY = 4
LITTLE = 40
SMALL = 4096  # bytes up to which a value's operations cost more to start than to run


def bytes_of(aval: Any) -> int:
    return aval.size * aval.dtype.itemsize


class OpenLoop:
    """A scan while it is taken apart: the body's variables and, outside, what they stand for."""

    def __init__(self, equation: Equation):
        loop: Loop = equation.params["loop"]
        body = loop.body
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
        self.changed = False
        self.budget = MEMORY * sum([bytes_of(v.aval) for v in (*self.xs, *self.ys)])

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
        self.hoist_xs()
        Accumulations(self).run()
        self.body = _live(self.body, (*self.new_carry, *self.ys))
        self.sink_ys()
        self.leave_xs_out()

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
            if varying and (follows or e.primitive is dot_general_p or not any([self.cost(a) for a in varying])):
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
        out, batched = equation.primitive.batch(length, operands, [a in flagged for a in equation.inputs], **equation.params)
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
        if any([v in live for v in e.outputs]):
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
    equations: list[Equation] = []
    changed = False
    for equation in jaxpr.equations:
        equation = _renamed(equation, names)
        if _suits(equation):
            loop = OpenLoop(equation)
            loop.run()
            if loop.changed:
                changed = True
                equations += loop.equations()
                names.update({v: names.get(a, a) if type(a) is Var else a for v, a in loop.names.items()})
                continue
        equations.append(equation)
    if not changed:
        return jaxpr
    return Jaxpr(jaxpr.inputs, tuple(equations), tuple([names.get(o, o) if type(o) is Var else o for o in jaxpr.outputs]))


# -- what a loop keeps for the loop of its derivative, and what that one computes again
#
# Idea: reverse mode collects, turn by turn, every value that a linear rule reads. Many of them are a few operations away from
# others: of a step of `exp(-h * h)` it is enough to keep h and the exponential. A value that one scan collects and that only
# another one of the same length reads is computed again there, if the arithmetic per element is cheap (CHEAP) and starts from
# what is there anyway: other values that are kept, constants, what both loops read. The carry as it came in is collected for
# this purpose where that makes what is kept smaller in total. A loop that keeps a carry as it came in and as it goes out keeps
# one array twice, shifted by a turn: the loop that goes back carries what it read a turn before. Arithmetic that stands between
# the loops, on the rows of all turns, is done in the reader.
#
# Invariants: the same equations on the same values, so the same bits; only where what is kept leaves the caches (LARGE) and
# turns work on whole arrays (FEW_ELEMENTS), or on single numbers, or are machine code: for a few elements another call costs
# more than memory. Trap: this undoes what `hoist` does, so it runs after it, and last.


CHEAP = 6  # operations of arithmetic per element
NUMBERS = 2  # the same, of a number: to collect and to read one costs as much
SLOW = frozenset(["div", "reciprocal", "sqrt", "mod", "floor_divide", "fmod", "integer_pow"])  # count as CHEAP - 1
FEW_ELEMENTS = 512  # elements
LARGE = 256 * 1024  # bytes of all turns together


class _Choice(NamedTuple):
    """Which values are computed again, and which are newly collected."""

    dropped: list[Var]
    carried: list[Var]
    bytes: int  # that are kept per turn


def recompute(jaxpr: Jaxpr) -> Jaxpr:
    """The program with less kept between its loops."""
    equations, changed = list(jaxpr.equations), False
    if compiles_numbers():
        equations = _read_as_made(equations, jaxpr.outputs)
        changed = len(equations) < len(jaxpr.equations)
    made = {v: i for i, e in enumerate(equations) if _is_scan(e) for v in e.outputs}
    for j, reader in enumerate(equations):
        if not _is_scan(reader):
            continue
        loop: Loop = reader.params["loop"]
        for i in dict.fromkeys([made[x] for x in loop.split(reader.inputs)[2] if x in made]):
            if equations[i].params["loop"].length == loop.length:
                for less in (_between, _kept_once):
                    found = less(equations[i], equations[j], uses_of(Jaxpr((), tuple(equations), jaxpr.outputs)))
                    if found is not None:
                        equations[i], equations[j] = found
                        changed = True
    return Jaxpr(jaxpr.inputs, tuple(equations), jaxpr.outputs) if changed else jaxpr


def _is_scan(equation: Equation) -> bool:
    return equation.primitive.name == "loop" and equation.params["loop"].length is not None


def _bytes(v: Any) -> int:
    return int(v.aval.size * v.aval.dtype.itemsize)


def _cost(equation: Equation) -> float:
    """Operations per element; infinite for what is not arithmetic or a change of shape."""
    primitive = equation.primitive
    if primitive is broadcast_in_dim or primitive.reach == "moves":
        return 1.0
    if primitive.emit is None and primitive.name != "convert" or primitive.effect:
        return float("inf")
    atoms = atoms_of(equation)
    return sum([float("inf") if a in ELEMENTARY else CHEAP - 1.0 if a in SLOW else 1.0 for a in atoms]) or 1.0


def _between(maker: Equation, reader: Equation, uses: Any) -> tuple[Equation, Equation] | None:
    """Both loops, if something need not be kept between them."""
    first, second = maker.params["loop"], reader.params["loop"]
    body: Jaxpr = first.body
    consts, carry, xs = first.split(body.inputs)
    _, _, outer_xs = first.split(maker.inputs)
    read = second.split(reader.inputs)[2]
    kept = dict(zip(maker.outputs[first.n_carry :], body.outputs[first.n_carry :]))  # outside -> in the body
    between = [v for v in kept if v in read]
    alone = [v for v in between if uses[v] == 1 and type(kept[v]) is Var]
    large = [v for v in alone if kept[v].aval.size >= FEW_ELEMENTS or kept[v].aval.shape and compiles_numbers()]
    if first.length * sum([_bytes(kept[v]) for v in large]) < LARGE:
        large = []
    alone = [v for v in alone if not kept[v].aval.shape or v in large]
    if not alone or body.has_effects:
        return None
    there = {*consts, *[x for x, o in zip(xs, outer_xs) if o in read], *[kept[v] for v in between if v not in alone]}
    definitions = {v: e for e in body.equations for v in e.outputs}
    place = {v: k for k, e in enumerate(body.equations) for v in e.outputs}
    candidates = sorted(dict.fromkeys([kept[v] for v in alone]), key=lambda v: place.get(v, -1))
    free = [v for v in carry if type(v.aval) is Aval and v not in there and v not in candidates]
    choices = [_chosen(candidates, there, more, definitions) for more in (set(), set(free))]
    choice = min(choices, key=lambda c: c.bytes)
    if not choice.dropped:
        return None
    return _rewritten(maker, reader, choice, {kept[v]: v for v in between}, there, definitions)


def _chosen(candidates: Sequence[Var], there: set, free: set, definitions: dict[Var, Equation]) -> _Choice:
    """In the order in which they are computed, what cannot be had from those before is kept."""
    known, dropped, carried = set(there), [], []
    total = 0
    for v in candidates:
        chain = _chain(v, known | free, definitions)
        if v in definitions and chain is not None:
            dropped.append(v)
            for c in dict.fromkeys([a for e in chain for a in e.inputs if a in free and a not in known]):
                known.add(c)
                carried.append(c)
                total += _bytes(c)
        else:
            known.add(v)
            total += _bytes(v)
    return _Choice(dropped, carried, total)


def _chain(v: Var, known: set, definitions: dict[Var, Equation]) -> list[Equation] | None:
    """The equations that compute a value from known ones, in order; None if that is not cheap."""
    limit = CHEAP * v.aval.size if v.aval.shape else NUMBERS
    found: dict[Var, Equation] = {}
    spent = 0.0

    def visit(a: Any) -> bool:
        nonlocal spent
        if type(a) is Literal or a in known:
            return True
        equation = definitions.get(a)
        if equation is None or len(equation.outputs) != 1:
            return False
        if a in found:
            return True
        spent += _cost(equation) * a.aval.size
        if spent > limit or not all([visit(x) for x in equation.inputs]):
            return False
        found[a] = equation
        return True

    return list(found.values()) if visit(v) else None


def _rewritten(
    maker: Equation, reader: Equation, choice: _Choice, between: dict[Any, Var], there: set, definitions: dict[Var, Equation]
) -> tuple[Equation, Equation]:
    first, second = maker.params["loop"], reader.params["loop"]
    body, target = first.body, second.body
    dropped = set(choice.dropped)
    gone = {between[o] for o in dropped}
    pairs = [(v, o) for v, o in zip(maker.outputs, body.outputs) if v not in gone]
    news = {c: Var(Aval((first.length, *c.aval.shape), c.aval.dtype)) for c in choice.carried}
    pairs += [(news[c], c) for c in choice.carried]
    slim = Jaxpr(body.inputs, body.equations, tuple([o for _, o in pairs]))
    maker = maker._replace(params={"loop": first._replace(body=slim)}, outputs=tuple([v for v, _ in pairs]))
    # in the other body: what stands for values of the first one
    consts, carry, xs = second.split(target.inputs)
    outer_consts, outer_carry, outer_xs = second.split(reader.inputs)
    outer_of_x = dict(zip(first.split(body.inputs)[2], first.split(maker.inputs)[2]))
    outer_of_const = dict(zip(first.split(body.inputs)[0], first.split(maker.inputs)[0]))
    by_outer = dict(zip(outer_xs, xs))
    names: dict[Any, Any] = {o: by_outer[v] for o, v in between.items() if o not in dropped}
    names |= {x: by_outer[o] for x, o in outer_of_x.items() if x in there and o in by_outer}
    for c, v in news.items():
        names[c] = Var(Aval(c.aval.shape, c.aval.dtype))
        xs.append(names[c])
        outer_xs.append(v)
    known = {*names, *outer_of_const}
    equations: list[Equation] = []
    for v in choice.dropped:
        for e in _chain(v, known, definitions) or ():
            for a in e.inputs:
                if a in outer_of_const and a not in names:
                    names[a] = Var(a.aval)
                    consts.append(names[a])
                    outer_consts.append(outer_of_const[a])
            (o,) = e.outputs
            known.add(o)
            name = by_outer[between[o]] if o in dropped else Var(o.aval)
            inputs = tuple([a if type(a) is Literal else names[a] for a in e.inputs])
            names[o] = name
            equations.append(Equation(e.primitive, inputs, e.params, (name,), e.source))
    left = [(x, o) for x, o in zip(xs, outer_xs) if o not in gone]
    inputs = (*consts, *carry, *[x for x, _ in left])
    whole = Jaxpr(inputs, (*equations, *target.equations), target.outputs)
    loop = second.with_body(whole, len(consts), len(carry))
    return maker, reader._replace(params={"loop": loop}, inputs=(*outer_consts, *outer_carry, *[o for _, o in left]))


def _kept_once(maker: Equation, reader: Equation, uses: Any) -> tuple[Equation, Equation] | None:
    """Both loops, if the first keeps a carry before and after each turn and the second goes back over the turns."""
    first, second = maker.params["loop"], reader.params["loop"]
    if first.reverse == second.reverse:
        return None
    consts, carry, xs = second.split(reader.inputs)
    own_consts, own_carry, own_xs = second.split(second.body.inputs)
    new_carry, ys = split(second.body.outputs, second.n_carry)
    kept = {o: v for v, o in zip(maker.outputs[first.n_carry :], first.body.outputs[first.n_carry :]) if type(o) is Var}
    gone = set()
    results, rest = split(reader.outputs, second.n_carry)
    for last, old, new in zip(maker.outputs, first.carried(first.body.inputs), first.body.outputs):
        if old is new or old not in kept or kept.get(new) not in xs or uses[kept[new]] != 1 or last.aval != new.aval:
            continue
        gone.add(kept[new])
        if kept[old] not in xs:
            xs.append(kept[old])
            own_xs.append(Var(new.aval))
        k = xs.index(kept[new])
        carry.append(last)
        own_carry.append(own_xs[k])
        new_carry.append(own_xs[xs.index(kept[old])])
        results.append(Var(new.aval))
        del xs[k], own_xs[k]
    if not gone:
        return None
    pairs = [(v, o) for v, o in zip(maker.outputs, first.body.outputs) if v not in gone]
    slim = first._replace(body=Jaxpr(first.body.inputs, first.body.equations, tuple([o for _, o in pairs])))
    body = Jaxpr((*own_consts, *own_carry, *own_xs), second.body.equations, (*new_carry, *ys))
    loop = second.with_body(body, len(consts), len(carry))
    reader = reader._replace(params={"loop": loop}, inputs=(*consts, *carry, *xs), outputs=(*results, *rest))
    return maker._replace(params={"loop": slim}, outputs=tuple([v for v, _ in pairs])), reader


def _read_as_made(equations: list[Equation], outputs: Sequence[Any]) -> list[Equation]:
    """The program whose loops do arithmetic on the rows of large arrays themselves, where nobody else reads what it gives."""
    makers = {e.outputs[0]: e for e in equations if len(e.outputs) == 1}
    uses = uses_of(Jaxpr((), tuple(equations), tuple(outputs)))
    taken: set[int] = set()
    found = []
    for reader in reversed(equations):
        if id(reader) in taken:
            continue
        if _is_scan(reader):
            loop = reader.params["loop"]
            consts, carry, xs = loop.split(reader.inputs)
            own_consts, own_carry, own_xs = loop.split(loop.body.inputs)
            inside: list[Equation] = []
            k = 0
            while k < len(xs):
                e = makers.get(xs[k])
                if e is None or uses[xs[k]] != 1 or not _is_row_arithmetic(e, xs):
                    k += 1
                    continue
                taken.add(id(e))
                row = own_xs.pop(k)
                del xs[k]
                for a in dict.fromkeys(e.inputs):
                    if type(a) is Var and a not in xs:
                        xs.append(a)
                        own_xs.append(Var(Aval(a.aval.shape[1:], a.aval.dtype)))
                operands = tuple([own_xs[xs.index(a)] if type(a) is Var else a for a in e.inputs])
                inside.append(e._replace(inputs=operands, outputs=(row,)))
            if inside:
                inputs = (*own_consts, *own_carry, *own_xs)
                body = Jaxpr(inputs, (*inside[::-1], *loop.body.equations), loop.body.outputs)
                loop = loop.with_body(body, len(consts), len(carry))
                reader = reader._replace(params={"loop": loop}, inputs=(*consts, *carry, *xs))
        found.append(reader)
    return found[::-1]


def _is_row_arithmetic(e: Equation, xs: Sequence[Any]) -> bool:
    """Can a loop over the rows do this in its turns, without more to read or to keep?"""
    aval = e.outputs[0].aval
    if type(aval) is not Aval or len(aval.shape) < 2 or _bytes(e.outputs[0]) < LARGE or e.primitive.emit is None:
        return False
    operands = {a for a in e.inputs if type(a) is Var}
    alike = all([type(a.aval) is Aval and a.aval.shape == aval.shape and not a.aval.weak for a in operands])
    news = [a for a in operands if a not in xs]
    return bool(operands) and alike and sum(map(_bytes, news)) <= _bytes(e.outputs[0])
