"""Inlining: calls of programs are spliced into the program that calls them.

What is run exactly once is spliced: jit's calls, functions with custom rules, the solver of an implicit solve, the chosen
branch of a `cond` whose index is a literal; in the bodies of loops and branches too. A primitive with `barrier=True`
(checkpoint) stays a call. Traps: the same body may come in twice, so its variables are renamed; bodies that call each other
repeatedly would grow exponentially, so a LARGE body that is called from several places stays a call; an operand may be a Python
scalar where the body was traced for a NumPy one.
"""

from __future__ import annotations

from typing import Any

from funcad.ir.jaxpr import Equation, Jaxpr, Var
from funcad.passes.rewrite import Work, fits, recast, rewrite
from funcad.passes.subprograms import called, with_subprograms

__all__ = ["inline"]

LARGE = 1000  # equations of a body (its own calls spliced) beyond which it is spliced at one place only


def inline(jaxpr: Jaxpr) -> Jaxpr:
    """The program with its calls spliced in.

    >>> import numpy as np, funcad
    >>> from funcad.passes.inline import inline
    >>> f = funcad.jit(lambda x: funcad.jit(np.sin)(x))
    >>> print(inline(f.lower(np.ones(2)).jaxpr))
    { lambda a:f64[2] . let
        b:f64[2] = sin a
      in (b,) }
    """
    return _Inliner().run(jaxpr)


class _Inliner:
    def __init__(self) -> None:
        self.flat: dict[int, tuple[Jaxpr, Jaxpr]] = {}  # id of a body -> itself (kept alive) and the same with calls spliced
        self.calls: dict[int, int] = {}  # how often a body has been spliced

    def run(self, jaxpr: Jaxpr) -> Jaxpr:
        for equation in jaxpr.equations:
            if equation.primitive.multiple or equation.primitive.name == "name":
                return rewrite(jaxpr, self.step)
        return jaxpr

    def step(self, work: Work, equation: Equation) -> list[Any] | None:
        primitive = equation.primitive
        if not primitive.multiple:
            if primitive.name == "name" and equation.params.keys() == {"name"}:  # checkpoint_name: the identity
                (x,) = equation.inputs
                return [x] if fits(x.aval, equation.outputs[0].aval) else None
            return None
        found = None if primitive.barrier else called(equation)
        if found is None:
            return self.inside(work, equation)
        body, operands = self.flattened(found[0]), found[1]
        if len(body.equations) > LARGE:
            times = self.calls[id(body)] = self.calls.get(id(body), 0) + 1
            if times > 1:
                return None
        return splice(work, body, operands, equation) or self.inside(work, equation)

    def flattened(self, body: Jaxpr) -> Jaxpr:
        known = self.flat.get(id(body))
        if known is None:
            known = self.flat[id(body)] = body, self.run(body)
        return known[1]

    def inside(self, work: Work, equation: Equation) -> list[Any] | None:
        """The equation stays, with the calls in its programs spliced."""
        found = with_subprograms(equation, self.flattened)
        if found is equation:
            return None
        work.keep(found)
        return list(found.outputs)


def splice(work: Work, body: Jaxpr, operands: Any, equation: Equation) -> list[Any] | None:
    """Add the body's equations under new names; the atoms of its outputs, or None if something does not fit or comes out."""
    names: dict[Any, Any] = {}
    for v, atom in zip(body.inputs, operands):
        names[v] = recast(atom, v.aval)
        if names[v] is None:
            return None
    for o, v in zip(body.outputs, equation.outputs):
        if recast(names.get(o, o), v.aval) is None:
            return None
    read, keep = names.get, work.keep
    for primitive, inputs, params, outs, source in body.equations:
        mine = tuple([Var(v.aval) for v in outs])
        keep(Equation(primitive, tuple([read(a, a) for a in inputs]), params, mine, source or equation.source))
        names.update(zip(outs, mine))
    return [recast(read(o, o), v.aval) for o, v in zip(body.outputs, equation.outputs)]
