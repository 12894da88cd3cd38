"""Bodies of loops run backwards: pure derivations, program to program, for scan's and while_loop's transposes.

`backward_body` is the transposed body of a loop whose carry is linear: cotangents of linear consts become a carry that sums
them, cotangents of linear xs become ys. `mixed_body` takes a body apart whose carry is partly known (a counter, a primal).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from funcad.control.call import spread
from funcad.control.rewire import grow, memoised, plain, split
from funcad.ir.aval import aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, Var
from funcad.ir.trace import trace_function
from funcad.primitives.stack import add_values, zero_value
from funcad.transforms.transpose import transpose_jaxpr

__all__ = ["BackwardBody", "backward_body", "MixedBody", "mixed_body"]


class BackwardBody(NamedTuple):
    """(captured, known consts | sums for linear consts, carry cotangents | known xs, y cotangents) -> (carry | x cotangents).

    The masks say which cotangents of linear consts, of the carry and of linear xs are nonzero.
    """

    jaxpr: Jaxpr
    captured: list[Any]
    consts: list[bool]
    carry: list[bool]
    xs: list[bool]


def backward_body(
    jaxpr: Jaxpr, n_consts: int, n_carry: int, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
) -> BackwardBody:
    const_flags, _, xs_flags = split(linear, n_consts, n_carry)
    flags = (*const_flags, *[True] * n_carry, *xs_flags)
    n_linear = sum(const_flags)
    nonzero = grow(nonzero, 0, n_carry, lambda m: transpose_jaxpr(jaxpr, flags, m)[2][n_linear : n_linear + n_carry])
    derived, captured, found = transpose_jaxpr(jaxpr, flags, nonzero)
    const_found, carry_found, xs_found = split(found, n_linear, n_carry)
    in_avals = [plain(a) for a in jaxpr.in_avals]
    const_avals, _, xs_avals = split(in_avals, n_consts, n_carry)
    known_consts = [a for a, f in zip(const_avals, const_flags) if not f]
    known_xs = [a for a, f in zip(xs_avals, xs_flags) if not f]
    linear_consts = [a for a, f in zip(const_avals, const_flags) if f]
    sums = [a for a, f in zip(linear_consts, const_found) if f]
    out_avals = [plain(o.aval) for o in jaxpr.outputs]
    carry_used = list(nonzero[:n_carry])
    carry = [a for a, f in zip(out_avals, carry_used) if f]
    ys = [a for a, f in zip(out_avals[n_carry:], nonzero[n_carry:]) if f]
    groups = [list(map(aval_of, captured)), known_consts, sums, carry, known_xs, ys]

    def program(*values: Any) -> list[Any]:
        mine, consts, totals, carry_cts, xs, ys_cts = split(values, *map(len, groups))[:-1]
        outs = eval_jaxpr(derived, [*mine, *consts, *xs, *carry_cts, *ys_cts])
        by_const, by_carry, by_xs = split(outs, sum(const_found), sum(carry_found))
        totals = [add_values(total, ct) for total, ct in zip(totals, by_const)]
        full = spread(by_carry, carry_found)
        carry_out = [zero_value(a) if ct is None else ct for ct, a, used in zip(full, out_avals, carry_used) if used]
        return [*totals, *carry_out, *by_xs]

    body, more = trace_function(program, [a for group in groups for a in group], name="transpose", abstract=False)
    return BackwardBody(body, [*more, *captured], const_found, carry_used, xs_found)


class MixedBody(NamedTuple):
    """A body taken apart: `known` computes what depends on no linear input, `linear` the rest.

    `known`: (consts | known carry | xs) -> (known carry | residuals), with the linear inputs left out; `linear`: (consts |
    linear carry | xs, residuals) -> (linear carry | linear ys).
    """

    known: Jaxpr
    linear: Jaxpr
    ys: list[bool]  # which ys are linear


def mixed_body(jaxpr: Jaxpr, n_consts: int, n_carry: int, flags: tuple[bool, ...]) -> MixedBody:
    return memoised(
        jaxpr, ("mixed_body", n_consts, n_carry, flags), lambda: _make_mixed_body(jaxpr, n_consts, n_carry, flags)
    )


def _make_mixed_body(jaxpr: Jaxpr, n_consts: int, n_carry: int, flags: tuple[bool, ...]) -> MixedBody:
    reached = {v for v, flag in zip(jaxpr.inputs, flags) if flag}
    linear_equations, known_equations = [], []
    for equation in jaxpr.equations:
        if any(type(a) is Var and a in reached for a in equation.inputs):
            reached.update(equation.outputs)
            linear_equations.append(equation)
        else:
            known_equations.append(equation)
    consts, carry, xs = split(jaxpr.inputs, n_consts, n_carry)
    const_flags, carry_flags, xs_flags = split(flags, n_consts, n_carry)
    everywhere = {*consts, *xs}
    read = dict.fromkeys(
        a
        for equation in linear_equations
        for a in equation.inputs
        if type(a) is Var and a not in reached and a not in everywhere
    )
    outputs = list(zip(jaxpr.outputs, [*carry_flags, *[type(o) is Var and o in reached for o in jaxpr.outputs[n_carry:]]]))
    known = Jaxpr(
        tuple(v for v, f in zip(jaxpr.inputs, flags) if not f),
        tuple(known_equations),
        (*[o for o, f in outputs[:n_carry] if not f], *read),
    )
    linear = Jaxpr(
        (*consts, *[v for v, f in zip(carry, carry_flags) if f], *xs, *read),
        tuple(linear_equations),
        tuple(o for o, f in outputs if f),
    )
    return MixedBody(known, linear, [f for _, f in outputs[n_carry:]])
