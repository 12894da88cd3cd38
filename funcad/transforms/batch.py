"""Batching: a program on one example becomes a program on `size` of them.

Idea: the batch axis is always axis 0 inside; `in_axes` and `out_axes` are moved at the border of `vmap`. An equation with no
batched input runs once, unbatched; the others ask their primitive's `batch` rule. Named axes: while `vmap(axis_name=n)` traces
and interprets, `state.axis_env` holds (n, size, index tracer) and `state.batching` the axis that is being removed; an equation
that mentions that axis (a collective, or a program that contains one) is batched even if its operands are not: a collective
on an unbatched value acts on `size` equal copies.
"""

from __future__ import annotations

from collections.abc import Sequence

from funcad.errors import MissingRuleError
from funcad.host.devices import enter, restore_warnings
from funcad.host.where import state
from funcad.ir.aval import Params, Value, aval_of
from funcad.ir.interpret import walk
from funcad.ir.jaxpr import Equation, Jaxpr, equation_axis_names
from funcad.ir.primitive import Primitive
from funcad.ir.trace import bind, stage_constants, trace_function
from funcad.primitives.host import refuse_fresh
from funcad.primitives.loop import lead


def batch_step(
    primitive: Primitive, size: int, args: Sequence[Value], batched: Sequence[bool], params: Params, named: bool
) -> tuple[list[Value], list[bool]]:
    """Outputs of one operation on batched arguments, and which are batched. `named`: it mentions the axis that is removed."""
    if named and primitive.collective is not None:
        return primitive.collective(size, args, batched, **params)
    if not named and not any(batched):
        if primitive.effect or primitive.multiple:
            refuse_fresh(primitive, size, params)
        out = bind(primitive, *args, **params)
        return (out, [False] * len(out)) if primitive.multiple else ([out], [False])
    if primitive.batch is None:
        raise MissingRuleError(
            f"primitive {primitive.name} has no batching rule (operands: {', '.join(f'{aval_of(a):a}' for a in args)}), "
            "so vmap cannot map over it.\n"
            "Remedy: give the function that uses it a rule with funcad.custom_vmap, or loop over axis 0 "
            "with funcad.map."
        )
    out, out_batched = primitive.batch(size, args, batched, **params)
    return (out, out_batched) if primitive.multiple else ([out], [out_batched])


def batch_eval(jaxpr: Jaxpr, size: int, args: Sequence[Value], batched: Sequence[bool]) -> tuple[list[Value], list[bool]]:
    """Outputs of a program for batched inputs (axis 0), and which outputs are batched."""
    stage, values = stage_constants(args), list(args)
    flagged = {v: True for v, b in zip(jaxpr.inputs, batched) if b}
    del args
    name = state.batching
    names = jaxpr.axis_names if name is not None else frozenset()
    modes = {id(jaxpr.equations[i]): mode for i, mode in jaxpr.modes.items()}

    def step(equation: Equation, operands: list[Value]) -> list[Value]:
        named = name in names and name in equation_axis_names(equation)
        flags = [a in flagged for a in equation.inputs]
        outs, out_batched = batch_step(equation.primitive, size, operands, flags, equation.params, named)
        for v, b in zip(equation.outputs, out_batched):
            if b:
                flagged[v] = True
        return outs

    def step_in_mode(equation: Equation, operands: list[Value]) -> list[Value]:
        token = enter(modes[id(equation)]) if id(equation) in modes else None
        try:
            return step(equation, operands)
        finally:
            if token is not None:
                restore_warnings(token)

    outs = walk(jaxpr, values, step_in_mode if modes else step, stage, flagged)
    return outs, [o in flagged for o in jaxpr.outputs]


def batch_jaxpr(
    jaxpr: Jaxpr, size: int, batched: tuple[bool, ...], force: tuple[bool, ...] | None = None
) -> tuple[Jaxpr, list[Value], list[bool]]:
    """`(program, consts, out_batched)` for `size` examples at once; outputs flagged in `force` are always batched."""
    key = ("batch", size, batched, force, state.batching)
    found = jaxpr.memo.get(key)
    if found is None:
        out_batched: list[bool] = []

        def program(*values: Value) -> list[Value]:
            outs, flags = batch_eval(jaxpr, size, values, batched)
            if force is not None:
                outs = [lead(o, size) if f and not b else o for o, b, f in zip(outs, flags, force)]
                flags = [b or f for b, f in zip(flags, force)]
            out_batched[:] = flags
            return outs

        avals = [v.aval.batched(size) if b else v.aval for v, b in zip(jaxpr.inputs, batched)]
        derived, consts = trace_function(program, avals, name="vmap")
        found = jaxpr.memo.setdefault(key, (derived, consts, out_batched))
    return found
