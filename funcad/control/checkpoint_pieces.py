"""What `checkpoint` makes of a body before it plans: calls expanded, effects taken out, loops with results of effects apart.

Idea: what happens once must not run again, so a loop, a branch or a rule in the body that holds a collective or an io_callback
is not part of what does. The body is cut there into pieces: what lies between is a checkpoint each; the loop is linearized as
it stands, but each of its turns is a checkpoint that keeps what the effects gave.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funcad.control.call import call_p
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, equation_has_effects, subjaxprs
from funcad.passes.subprograms import with_programs

__all__ = ["in_pieces", "inlined", "quiet_params", "without_effects"]


def inlined(jaxpr: Jaxpr) -> Jaxpr:
    """The program with jit's calls expanded, so that a policy sees the equations in them."""
    if not any(e.primitive is call_p for e in jaxpr.equations):
        return jaxpr
    equations: list[Equation] = []
    atoms: dict[Var, Any] = {}

    def expand(program: Jaxpr, names: dict[Var, Any]) -> list[Any]:
        def read(atom: Any) -> Any:
            return atom if type(atom) is Literal else names[atom]

        for e in program.equations:
            inputs = tuple([read(a) for a in e.inputs])
            if e.primitive is call_p:
                inner = e.params["jaxpr"]
                names.update(zip(e.outputs, expand(inner, dict(zip(inner.inputs, inputs)))))
                continue
            outputs = tuple([Var(v.aval) for v in e.outputs])
            names.update(zip(e.outputs, outputs))
            equations.append(Equation(e.primitive, inputs, e.params, outputs, e.source))
        return [read(o) for o in program.outputs]

    atoms.update((v, v) for v in jaxpr.inputs)
    outputs = expand(jaxpr, atoms)
    return Jaxpr(jaxpr.inputs, tuple(equations), tuple(outputs))


def quiet_params(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters with the effects of their programs taken out."""
    return {key: with_programs(value, without_effects) for key, value in params.items()}


def without_effects(jaxpr: Jaxpr) -> Jaxpr:
    """The program without the effects that return nothing."""
    if not jaxpr.has_effects:
        return jaxpr
    kept = [
        Equation(e.primitive, e.inputs, quiet_params(e.params) if e.primitive.multiple else e.params, e.outputs, e.source)
        for e in jaxpr.equations
        if not (e.primitive.effect and not e.outputs)
    ]
    return Jaxpr(jaxpr.inputs, tuple(kept), jaxpr.outputs)


def _must_stay(equation: Equation) -> bool:
    """Does a program that it runs hold an effect whose results are used?"""
    if equation.primitive.effect or not equation_has_effects(equation):
        return False
    return any([j.has_effects for j in subjaxprs(quiet_params(equation.params))])


def in_pieces(jaxpr: Jaxpr, piece: Callable[[Jaxpr, int], Equation]) -> Jaxpr | None:
    """The program with each stretch between such equations as `piece(program, how many there are)`; None if it has none."""
    if not jaxpr.has_effects:
        return None
    body = inlined(jaxpr)
    cuts = [i for i, e in enumerate(body.equations) if _must_stay(e)]
    if not cuts:
        return None
    n, start = len(cuts) + 1, 0
    equations: list[Equation] = []
    for stop in (*cuts, len(body.equations)):
        part = body.equations[start:stop]
        if part:
            equations.append(piece(_stretch(part, body, stop), n))
        if stop < len(body.equations):
            equations.append(_turn_by_turn(body.equations[stop], lambda j: piece(j, n)))
        start = stop + 1
    return Jaxpr(body.inputs, tuple(equations), body.outputs)


def _stretch(part: tuple[Equation, ...], body: Jaxpr, stop: int) -> Jaxpr:
    made = {v: None for e in part for v in e.outputs}
    read = {a: None for e in part for a in e.inputs if type(a) is not Literal and a not in made}
    later = {a for e in body.equations[stop:] for a in e.inputs if type(a) is not Literal}
    later.update([o for o in body.outputs if type(o) is not Literal])
    return Jaxpr(tuple(read), part, tuple([v for v in made if v in later]))


def _turn_by_turn(equation: Equation, piece: Callable[[Jaxpr], Equation]) -> Equation:
    """A loop or a choice of programs, each of which is one piece; a rule of the user's as it is."""

    def alone(program: Jaxpr) -> Jaxpr:
        if not program.has_effects:
            return program
        made = piece(program)
        outputs = tuple([Var(a) for a in program.out_avals])
        return Jaxpr(program.inputs, (made._replace(inputs=program.inputs, outputs=outputs),), outputs)

    params = equation.params
    changed = {key: with_programs(params[key], alone) for key in ("loop", "branches") if key in params}
    return equation._replace(params={**params, **changed})
