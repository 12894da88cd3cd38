"""Forward mode: every value travels with its tangent.

Idea: `jvp_step` computes the primal once and asks the primitive's rule for the tangent of that result. The same step serves
three drivers: `jvp_eval` loops over a jaxpr, the following trace (following.py) calls it as operations are recorded, and
linearization calls it with tangents that are tracers, so that tangent work is recorded and primal work is not: partial
evaluation (partial.py) is left with what one equation mixes. Invariants: `None` is a zero tangent, everywhere inside; the value
of an integer or bool never has another; tangent work never warns. Complex numbers: tangents of complex values are complex and
rules are complex-linear wherever the operation is holomorphic; real, imag, conj and abs are real-linear.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funcad.configuration import OnDemand
from funcad.errors import MissingRuleError
from funcad.host.devices import restore_warnings, suppress_warnings
from funcad.ir.aval import AnyAval, Aval, Params, Tangent, Value, aval_of, is_inexact
from funcad.ir.interpret import walk
from funcad.ir.jaxpr import Equation, Jaxpr
from funcad.ir.primitive import Primitive
from funcad.ir.trace import bind, stage_constants, trace_function
from funcad.primitives.shape import rule_of

masked_rules = OnDemand("funcad.masks.masked_rules")  # of tangents in forward mode: those that are recorded have no masks


def no_rule(primitive: Primitive, primals: Sequence[Value]) -> MissingRuleError:
    """The error of an operation that gives numbers, but no derivative of them."""
    return MissingRuleError(
        f"primitive {primitive.name} has no derivative rule "
        f"(operands: {', '.join(f'{aval_of(p):a}' for p in primals)}).\n"
        "Remedy: call it in a funcad.custom_jvp function, which says the derivative; or on funcad.stop_gradient(x)."
    )


def jvp_step(
    primitive: Primitive, primals: Sequence[Value], tangents: Sequence[Tangent], params: Params, linear: bool
) -> tuple[list[Value], list[Any]]:
    """Outputs and their tangents of one operation; `linear` means that the tangents are being recorded."""
    if all([t is None for t in tangents]):
        out = bind(primitive, *primals, **params)
        return (out, [None] * len(out)) if primitive.multiple else ([out], [None])
    rule = (linear and primitive.linearize) or primitive.primal_and_jvp
    if rule:
        if linear or primitive.takes_masks:
            return rule(primals, tangents, **params)
        whole = masked_rules.whole_mask_of(tangents)
        outs, touts = rule(primals, [masked_rules.cleaned(t) for t in tangents], **params)
        return outs, [masked_rules.with_whole(t, whole) for t in touts]
    out = bind(primitive, *primals, **params)
    if primitive.jvp is None:
        outs = out if primitive.multiple else [out]
        if any(is_inexact(aval_of(o)) for o in outs):
            raise no_rule(primitive, primals)
        return outs, [None] * len(outs)
    token = suppress_warnings()
    try:
        tangent = (rule_of if linear else masked_rules.masked_rule)(primitive, primals, tangents, out, params)
    finally:
        restore_warnings(token)
    return (out, tangent) if primitive.multiple else ([out], [tangent])


def jvp_eval(
    jaxpr: Jaxpr, primals: Sequence[Value], tangents: Sequence[Tangent], linear: bool = False, masked: bool = False
) -> tuple[list[Value], list[Tangent]]:
    """Outputs and output tangents of a program (tangents may be None, meaning zero; `Masked` come out only if `masked`)."""
    stage, values = stage_constants(primals), list(primals)
    given: dict[Any, Any] = {v: t for v, t in zip(jaxpr.inputs, tangents) if t is not None}
    del primals, tangents

    def step(equation: Equation, operands: list[Any]) -> list[Any]:
        primitive, atoms, params, variables, _ = equation
        outs, touts = jvp_step(primitive, operands, [given.get(a) for a in atoms], params, linear)
        for v, t in zip(variables, touts):
            if t is not None:
                given[v] = t
        return outs

    outs = walk(jaxpr, values, step, stage, given)
    touts = [given.get(o) for o in jaxpr.outputs]
    return outs, touts if masked or linear else [masked_rules.cleaned(t) for t in touts]


def _strong(aval: AnyAval) -> AnyAval:
    """The aval of a tangent: also that of a Python scalar is NumPy's."""
    return aval.update() if type(aval) is Aval else aval


def jvp_jaxpr(jaxpr: Jaxpr, nonzero: tuple[bool, ...]) -> tuple[Jaxpr, list[Value], list[bool]]:
    """`(program, consts, out_nonzero)`: (consts, primals, nonzero tangents) -> (outputs, nonzero output tangents)."""
    key = ("jvp", nonzero)
    found = jaxpr.memo.get(key)
    if found is None:
        n = len(jaxpr.inputs)
        out_nonzero: list[bool] = []

        def program(*values: Value) -> list[Value]:
            ts = iter(values[n:])
            outs, tangents = jvp_eval(jaxpr, values[:n], [next(ts) if z else None for z in nonzero])
            out_nonzero[:] = [t is not None for t in tangents]
            return [*outs, *[t for t in tangents if t is not None]]

        avals = [*jaxpr.in_avals, *[_strong(v.aval) for v, z in zip(jaxpr.inputs, nonzero) if z]]
        derived, consts = trace_function(program, avals, name="jvp")
        found = jaxpr.memo.setdefault(key, (derived, consts, out_nonzero))
    return found


def masked_jvp(
    jaxpr: Jaxpr, primals: Sequence[Value], tangents: Sequence[Tangent], run: Callable[[Jaxpr, list[Value]], list[Value]]
) -> tuple[list[Value], list[Tangent]]:
    """`primal_and_jvp` of a program that is called once, with masks: `run(program, args)` calls the derived one."""
    kinds, given = masked_rules.apart_of(tangents)
    key = ("masked_jvp", kinds)
    found = jaxpr.memo.get(key)
    n, m = len(jaxpr.inputs), len(jaxpr.outputs)
    if found is None:
        box: list[Any] = []

        def program(*values: Value) -> list[Value]:
            outs, touts = jvp_eval(jaxpr, values[:n], masked_rules.joined(kinds, values[n:]), masked=True)
            box[:], results = masked_rules.apart_of(touts)
            return [*outs, *results]

        derived, consts = trace_function(program, [*jaxpr.in_avals, *map(_strong, map(aval_of, given))], name="jvp")
        found = jaxpr.memo.setdefault(key, (derived, consts, tuple(box)))
    derived, consts, results = found
    outs = run(derived, [*consts, *primals, *given])
    return outs[:m], masked_rules.joined(results, outs[m:])
