"""Work moves out of loops: before the loop what does not depend on the carry, after it what is only added up.

For each `scan` of known length, in this order:
  * a carry that the body returns as it got it is a constant of the loop;
  * equations of constants alone are computed once, before the loop;
  * of a composition (t * (1 - y * y), a * b + c * d) the factor or product that xs and constants alone give is split off;
  * equations of xs and constants alone (products, element operations, changes of shape) are computed for all steps together
    before the loop, by their batch rules: `x_t @ W` for all t is one product. Their results are xs of the loop;
  * a carry that is only added to (`acc + f(...)`, and nothing else reads acc) is taken out: the loop returns what is summed, or
    the operands of the product that makes it, for each step, and one sum or product over all steps follows;
  * products that only ys read (`h_t @ W`) are computed after the loop, for all steps together; so are elementary
    functions of small values, if what they need of all steps takes no more memory than what they gave.

Memory rule: what the loop newly reads or writes per step is at most MEMORY times what it read and wrote before.
Invariants: bodies with effects are left alone; results differ by the order of sums only, as for any reduction. A loop without
steps stays, since what is hoisted might raise. Traps: a sum over steps starts at 0.0, so an initial -0.0 to which only -0.0
is added becomes 0.0; checkpoints stay inside, their point is to be computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funcad.ir.aval import Aval, StackAval
from funcad.ir.interpret import walk
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.ir.trace import trace_function
from funcad.passes.accumulate import Accumulations
from funcad.passes.split_up import split_up
from funcad.passes.subprograms import kind_of, split
from funcad.primitives.atoms import is_elementary
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.loop import Loop

__all__ = ["hoist"]

MEMORY = 4
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
    if kind_of(equation) != "scan" or not equation.params["loop"].length:
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
