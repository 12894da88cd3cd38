"""Fused groups as loops in C: element operations, and rows in phases.

Idea: a group of elements is one sweep, whose totals are variables beside it. A group of rows is `RowPlan`'s: for each row its
phases in order, each a loop over the columns that computes what it needs again unless that was kept, with the totals of the row
as variables. Trap: a value of the row must have been loaded before the loop over its columns begins, so that its name is known
to later phases, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funcad.backends.export.c_elements import CValue, literal
from funcad.backends.export.c_program import CArray, CProgram, rule
from funcad.backends.plans.element_plan import Unsupported, analyse
from funcad.backends.plans.element_writer import identity_of
from funcad.backends.plans.row_plan import RowPlan, kind_of
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.primitives.shape import broadcast_in_dim


@rule("fused")
def _fused(p: CProgram, equation: Equation, values: list[Any], *, jaxpr: Jaxpr, kind: str, shape: tuple[int, ...]) -> list[Any]:
    """A group as one loop, where its kind has one; else equation by equation."""
    if kind == "elementwise":
        return _group(p, equation, jaxpr, shape, values)
    if kind == "rows" and 0 not in shape:
        try:
            plan = RowPlan(jaxpr, shape)
        except Unsupported:
            plan = None
        if plan is not None:
            return _rows(p, equation, plan, values)
    return p.program(jaxpr, values, [p.wanted.get(v) for v in equation.outputs])


# -- element operations
#
# What is broadcast in the group is read with strides of 0, so the loops run over the fewest axes that all arrays agree on.
# Totals begin with what changes nothing: a sum over no elements is right, and so is one that a loop around it asks for again.


def _group(p: CProgram, equation: Equation, jaxpr: Jaxpr, shape: tuple[int, ...], values: list[Any]) -> list[Any]:
    """Element operations in one loop, and totals."""
    plan = analyse(jaxpr)
    reads = []
    for i, axes in plan.accesses:
        x = values[i]
        if type(x) is CArray and axes is not None:
            strides = [0] * len(shape)
            for axis, n, s in zip(axes, x.shape, x.strides):
                strides[axis] = s if n == shape[axis] else 0
            x = x._replace(shape=shape, strides=tuple(strides))
        reads.append(x)
    made = {o: None for o in jaxpr.outputs if o not in plan.sums}
    targets = {o: p.new(v) for o, v in zip(jaxpr.outputs, equation.outputs) if o in made}
    totals = {v: p.total(kind, v.aval.dtype) for v, (kind, _) in plan.sums.items()}

    def body(lanes: list[CValue]) -> list[CValue]:
        env: dict[Any, Any] = {v: lanes[i] for v, i in plan.reads.items()}
        for e in plan.equations:
            operands = [p.read(env, a) for a in e.inputs]
            literals = e.primitive is broadcast_in_dim
            env[e.outputs[0]] = p.e.convert(operands[0], e.outputs[0].aval.dtype) if literals else p.e.apply(e, operands)
        for v, (kind, atom) in plan.sums.items():
            p.folded(kind, totals[v], p.read(env, atom))
        return [env[o] for o in targets]

    p.sweep(shape, reads, list(targets.values()), body, list(totals.values()))
    return [totals[o] if o in totals else targets[o] for o in jaxpr.outputs]


# -- rows
#
# One row after the other, so that its elements are read again while the cache still has them. A result that is a row value is
# written when it is known; sums over the rows add up in the result itself, which is filled first.


def _rows(p: CProgram, equation: Equation, plan: RowPlan, values: list[Any]) -> list[Any]:
    """Row by row, phase by phase, as `RowPlan` says."""
    n, m = plan.shape
    order = dict(zip(equation.params["jaxpr"].inputs, values))
    given = {v: order[v] for v in plan.jaxpr.inputs}
    results: list[Any] = [None] * len(equation.outputs)
    totals: dict[Var, Any] = {}
    outs: dict[Var, list[CArray]] = {}
    for o, places in plan.outputs.items():
        for i in places:
            v = equation.outputs[i]
            kind = kind_of(plan.maker[o]) if o in plan.maker else None
            if not v.aval.shape:
                results[i] = totals[o] = totals.get(o) or p.total(str(kind), v.aval.dtype)
                continue
            results[i] = p.new(v)
            outs.setdefault(o, []).append(results[i])
            if plan.kind[o] == "column" and kind is not None:
                p.fill(results[i], identity_of(kind, v.aval.dtype))
    buffers = {v: p.array(v.aval.dtype, (m,)) for v in plan.kept}
    (row,) = [p.fresh("r")]
    with p.block(f"for (int64_t {row} = 0; {row} < {n}; {row}++)"):
        env: dict[Any, Any] = {}

        def number(a: Any) -> Any:
            """A row value or a scalar."""
            if type(a) is Literal:
                return literal(a.value, a.aval.dtype)
            if a not in env:
                x = given[a]
                env[a] = p.e.load(x.dtype, x.at([row])) if plan.kind[a] == "row" else x
            return env[a]

        for i, phase in enumerate(plan.phases):
            for e in phase.rows:
                (v,) = e.outputs
                operands = [number(a) for a in e.inputs]
                env[v] = operands[0] if e.primitive is broadcast_in_dim else p.e.apply(e, operands)
                for target in outs.get(v, ()):
                    p.line(f"{target.at([row])} = {env[v].text};")
            for e in phase.scalars:
                p.folded(str(kind_of(e)), totals[e.outputs[0]], number(e.inputs[0]))
            _phase(p, plan, i, row, number, given, buffers, outs, env)
        for o, targets in outs.items():
            if plan.kind[o] == "row" and kind_of(plan.maker[o]) is not None:
                for target in targets:
                    p.line(f"{target.at([row])} = {env[o].text};")
    for x in buffers.values():
        p.release(x)
    return results


def _phase(
    p: CProgram,
    plan: RowPlan,
    i: int,
    row: str,
    number: Callable[[Any], Any],
    given: dict,
    buffers: dict,
    outs: dict,
    env: dict,
) -> None:
    phase, m = plan.phases[i], plan.shape[1]
    if not phase.sinks:
        return
    for v in plan.row_operands(i):
        number(v)
    needed = plan.needed(phase, i)
    for v in needed:  # scalars that are spread: read before the loop
        if v in plan.maker and not plan.loaded(v, i):
            for a in plan.maker[v].inputs:
                if type(a) is Literal or plan.kind[a] in ("row", "scalar"):
                    number(a)
    totals = {s.var: p.total(str(kind_of(s.equation)), s.var.aval.dtype) for s in phase.sinks if s.kind == "reduction"}
    env.update(totals)

    def column_of(column: str) -> None:
        inside: dict[Any, Any] = {}

        def element(a: Any) -> Any:
            return inside[a] if a in inside else number(a)

        for v in needed:
            if v not in plan.maker:
                x = given[v]
                place = x.at([row, column]) if plan.kind[v] == "full" else x.at([column])
                inside[v] = p.e.load(x.dtype, place)
            elif plan.loaded(v, i):
                inside[v] = p.e.load(v.aval.dtype, buffers[v].at([column]))
            else:
                e = plan.maker[v]
                operands = [element(a) for a in e.inputs]
                spread = e.primitive is broadcast_in_dim
                inside[v] = p.e.convert(operands[0], v.aval.dtype) if spread else p.e.apply(e, operands)
        for sink in phase.sinks:
            if sink.kind == "output":
                for target in outs[sink.var]:
                    p.line(f"{target.at([row, column])} = {element(sink.var).text};")
                continue
            if sink.kind == "keep":
                p.line(f"{buffers[sink.var].at([column])} = {element(sink.var).text};")
                continue
            x, *others = [element(a) for a in sink.equation.inputs]
            dtype = sink.var.aval.dtype
            x = p.e.mul(x, others[0]) if others else x
            if sink.kind == "reduction":
                p.folded(str(kind_of(sink.equation)), totals[sink.var], x)
                continue
            for target in outs[sink.var]:
                place = target.at([column])
                now = p.e.load(dtype, place)
                p.line(f"{place} = {p.e.combine(str(kind_of(sink.equation)), now, p.e.convert(x, dtype)).text};")

    p.chained(m, list(totals.values()), column_of)
