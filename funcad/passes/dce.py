"""Dead code: what nobody needs is removed, through sub-programs and around loops.

Idea: mark what is live, starting from the outputs and the effects, then keep only that. An equation that holds programs has
live and dead results of its own: the rule of its kind cuts its programs down to the live results and says which operands these
still need. In a loop a carry is live if its final value is, or if a live value of the body reads it: marking follows the carry
around the loop, so it ends at the smallest set. Residuals that the backward loop does not read thus disappear from the forward
loop, with all that computes them.

Invariants: effects stay, in their order; the program's own inputs stay. Trap: the rule of a nested equation is asked again when
another of its results turns out to be live, so it answers from scratch; to ask rarely, plain equations are marked first.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, equation_has_effects
from funcad.passes.subprograms import kind_of, split
from funcad.primitives.loop import Loop, WhileLoop

__all__ = ["dce"]


def dce(jaxpr: Jaxpr) -> Jaxpr:
    """The program without what neither its outputs nor its effects need.

    >>> import numpy as np, funcad
    >>> from funcad.passes.dce import dce
    >>> loop = lambda x: funcad.scan(lambda c, v: ((c[0] + v, c[1] * v), c[1]), (0.0, 1.0), x)[0][0]
    >>> print(dce(funcad.make_jaxpr(loop)(np.ones(3)).jaxpr).equations[0].params["loop"].body)
    { lambda a:f64[] b:f64[] . let
        c:f64[] = add a b
      in (c,) }
    """
    return _Cutter().cut(jaxpr, [o for o in jaxpr.outputs if type(o) is Var], {}).program(jaxpr, jaxpr.inputs, jaxpr.outputs)


class _Cut(NamedTuple):
    """What is live in a program: variables, and the equations, cut down, that are left (None: all, as they are)."""

    live: set[Any]
    equations: tuple[Equation, ...] | None

    def program(self, jaxpr: Jaxpr, inputs: Sequence[Any], outputs: Sequence[Any]) -> Jaxpr:
        """The program with these inputs and outputs; the same object if nothing is different."""
        if self.equations is None and len(inputs) == len(jaxpr.inputs) and len(outputs) == len(jaxpr.outputs):
            return jaxpr
        equations = jaxpr.equations if self.equations is None else self.equations
        return Jaxpr(tuple(inputs), equations, tuple(outputs))

    def alive(self, variables: Sequence[Any]) -> list[bool]:
        return [v in self.live for v in variables]


class _Cutter:
    """The rules, and what they found: the same body cut in the same way is one object."""

    def __init__(self) -> None:
        self.cuts: dict[Any, Any] = {}

    # ------------------------------------------------------------ marking

    def cut(self, jaxpr: Jaxpr, roots: Sequence[Var], around: dict[Var, Any]) -> _Cut:
        """Mark from `roots` and the effects; a live input in `around` makes the atom there live (the way around a loop)."""
        equations = jaxpr.equations
        live: set[Any] = set()
        stack: list[Any] = list(roots)
        makers: dict[Var, int] = {}
        nested: dict[int, str] = {}
        seen = bytearray(len(equations))
        for i, equation in enumerate(equations):
            primitive = equation.primitive
            for v in equation.outputs:
                makers[v] = i
            if primitive.multiple:
                kind = kind_of(equation)
                if kind is not None and kind in _RULES:
                    nested[i] = kind
                if equation_has_effects(equation):
                    seen[i] = 1
                    if i not in nested:
                        stack += equation.inputs
            elif primitive.effect:
                seen[i] = 1
                stack += equation.inputs
        pending = [-i for i in nested if seen[i]]  # a heap, the last equation first
        heapify(pending)
        asked = set(pending)
        smaller: dict[int, tuple[Equation, list[bool]]] = {}
        while True:
            while stack:
                v = stack.pop()
                if v in live or type(v) is Literal:
                    continue
                live.add(v)
                i = makers.get(v, -1)
                if i < 0:
                    if v in around:
                        stack.append(around[v])
                elif i in nested:
                    seen[i] = 1
                    if -i not in asked:
                        asked.add(-i)
                        heappush(pending, -i)
                elif not seen[i]:
                    seen[i] = 1
                    stack += equations[i].inputs
            if not pending:
                break
            i = -heappop(pending)  # the last one: whoever reads its results has been asked before
            asked.discard(-i)
            equation = equations[i]
            flags = tuple([v in live for v in equation.outputs])
            found, needed = smaller[i] = _RULES[nested[i]](self, equation, flags)
            stack += [a for a, n in zip(equation.inputs, needed) if n]
        if all(seen) and all([found is equations[i] for i, (found, _) in smaller.items()]):
            return _Cut(live, None)
        kept = [smaller[i][0] if i in smaller else e for i, e in enumerate(equations) if seen[i]]
        return _Cut(live, tuple(kept))

    # ------------------------------------------------------------ the kinds of equations

    def call(self, equation: Equation, flags: tuple[bool, ...]) -> tuple[Equation, list[bool]]:
        jaxpr = equation.params["jaxpr"]

        def make() -> tuple[Jaxpr, list[bool]]:
            outputs = _chosen(jaxpr.outputs, flags)
            cut = self.cut(jaxpr, outputs, {})
            needed = cut.alive(jaxpr.inputs)
            return cut.program(jaxpr, _chosen(jaxpr.inputs, needed), outputs), needed

        program, needed = self.once(("call", jaxpr, flags), make)
        return _smaller(equation, needed, flags, {"jaxpr": program}), needed

    def cond(self, equation: Equation, flags: tuple[bool, ...]) -> tuple[Equation, list[bool]]:
        branches = equation.params["branches"]

        def make() -> tuple[tuple[Jaxpr, ...], list[bool]]:
            cuts = [self.cut(b, _chosen(b.outputs, flags), {}) for b in branches]
            needed = [any(column) for column in zip(*[c.alive(b.inputs) for c, b in zip(cuts, branches)])]
            programs = [c.program(b, _chosen(b.inputs, needed), _chosen(b.outputs, flags)) for c, b in zip(cuts, branches)]
            return tuple(programs), needed

        programs, operands = self.once(("cond", *branches, flags), make)
        needed = [True, *operands]
        return _smaller(equation, needed, flags, {"branches": programs}), needed

    def scan(self, equation: Equation, flags: tuple[bool, ...]) -> tuple[Equation, list[bool]]:
        loop: Loop = equation.params["loop"]
        jaxpr, n_carry = loop.body, loop.n_carry

        def make() -> tuple[Jaxpr, list[bool], list[bool]]:
            consts, carry, xs = loop.split(jaxpr.inputs)
            cut = self.cut(jaxpr, _chosen(jaxpr.outputs, flags), dict(zip(carry, jaxpr.outputs)))
            carried = [a or f for a, f in zip(cut.alive(carry), flags)]
            needed = [*cut.alive(consts), *carried, *cut.alive(xs)]
            kept = [*carried, *flags[n_carry:]]
            return cut.program(jaxpr, _chosen(jaxpr.inputs, needed), _chosen(jaxpr.outputs, kept)), needed, kept

        program, needed, kept = self.once(("scan", jaxpr, loop.n_consts, n_carry, flags), make)
        smaller = loop.with_body(program, sum(needed[: loop.n_consts]), sum(kept[:n_carry]))
        if loop.length is None:
            needed = [True, *needed]
        return _smaller(equation, needed, kept, {"loop": smaller}), needed

    def loop(self, equation: Equation, flags: tuple[bool, ...]) -> tuple[Equation, list[bool]]:
        loop: WhileLoop = equation.params["loop"]
        cond, body, n_cond, n_consts, budget = loop

        def make() -> tuple[Jaxpr, Jaxpr, list[bool], list[bool], list[bool]]:
            consts, carry = split(body.inputs, n_consts)
            n_carry = len(carry)
            test = self.cut(cond, _chosen(cond.outputs, (True,)), {})
            read = test.alive(cond.inputs)
            wanted = [*[f or r for f, r in zip(flags[1:], read[n_cond:])], *flags[1 + n_carry :]]
            cut = self.cut(body, _chosen(body.outputs, wanted), dict(zip(carry, body.outputs)))
            carried = [a or w for a, w in zip(cut.alive(carry), wanted)]
            mine = [*cut.alive(consts), *carried]
            kept = [*carried, *wanted[n_carry:]]
            test_inputs = [*read[:n_cond], *carried]
            new_cond = test.program(cond, _chosen(cond.inputs, test_inputs), cond.outputs)
            new_body = cut.program(body, _chosen(body.inputs, mine), _chosen(body.outputs, kept))
            return new_cond, new_body, read[:n_cond], mine, kept

        new_cond, new_body, read, mine, kept = self.once((loop, flags), make)
        smaller = WhileLoop(new_cond, new_body, sum(read), sum(mine[:n_consts]), budget)
        needed = [*read, *mine]
        return _smaller(equation, needed, [True, *kept], {"loop": smaller}), needed

    def once(self, key: tuple, make: Any) -> Any:
        found = self.cuts.get(key)
        if found is None:
            found = self.cuts[key] = make()
        return found


_RULES = {"call": _Cutter.call, "cond": _Cutter.cond, "scan": _Cutter.scan, "while": _Cutter.loop}


def _chosen(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [v for v, f in zip(values, flags) if f]


def _smaller(equation: Equation, needed: Sequence[bool], kept: Sequence[bool], params: dict[str, Any]) -> Equation:
    """The equation with these operands, results and parameters; the same object if nothing is different."""
    old = equation.params
    if all(needed) and all(kept) and all([old[k] == v for k, v in params.items()]):
        return equation
    inputs, outputs = tuple(_chosen(equation.inputs, needed)), tuple(_chosen(equation.outputs, kept))
    return Equation(equation.primitive, inputs, {**old, **params}, outputs, equation.source)
