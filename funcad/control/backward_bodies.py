"""Bodies of loops run backwards: pure derivations, program to program, for scan's and while_loop's transposes.

`backward_body` is the transposed body of a loop whose carry is linear: cotangents of linear consts become a carry that sums
them, cotangents of linear xs become ys. `split_body` splits a body whose carry is partly known (a counter, a primal).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from funcad.control.call import scatter
from funcad.control.rewire import fixpoint, memoised_on_body, rewire, split, strip_literal
from funcad.ir.aval import aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, Var
from funcad.ir.prune import used_inputs
from funcad.ir.trace import trace_function
from funcad.primitives.loop import Loop
from funcad.primitives.stack import add_values, zero_value
from funcad.transforms.partial import split_jaxpr, unknown_outputs
from funcad.transforms.transpose import transpose_jaxpr

__all__ = ["BackwardBody", "backward_body", "SplitBody", "split_body", "backward_flags", "linear_operands", "read_operands"]


class BackwardBody(NamedTuple):
    """(captured, known consts | sums for linear consts, carry cotangents | known xs, y cotangents) -> (carry | x cotangents).

    The masks say which cotangents of linear consts, of the carry and of linear xs are nonzero.
    """

    jaxpr: Jaxpr
    captured: list[Any]
    consts: list[bool]
    carry: list[bool]
    xs: list[bool]


def backward_flags(loop: Loop, linear: Sequence[bool], nonzero: tuple[bool, ...]) -> tuple[tuple, tuple[bool, ...]]:
    """Which operands of a body are linear where every carry is, and which cotangents of its results are nonzero in the end."""
    const_flags, _, xs_flags = loop.split(linear)
    flags = (*const_flags, *[True] * loop.n_carry, *xs_flags)
    n_linear = sum(const_flags)

    def came(mask: tuple[bool, ...]) -> Sequence[bool]:
        return transpose_jaxpr(loop.body, flags, mask)[2][n_linear : n_linear + loop.n_carry]

    return flags, fixpoint(nonzero, 0, loop.n_carry, came)


@memoised_on_body
def backward_body(loop: Loop, linear: tuple[bool, ...], nonzero: tuple[bool, ...]) -> BackwardBody:
    jaxpr, n_carry = loop.body, loop.n_carry
    flags, nonzero = backward_flags(loop, linear, nonzero)
    const_flags, _, xs_flags = loop.split(flags)
    derived, captured, found = transpose_jaxpr(jaxpr, flags, nonzero)
    const_found, carry_found, xs_found = split(found, sum(const_flags), n_carry)
    const_avals, _, xs_avals = loop.split([strip_literal(a) for a in jaxpr.in_avals])
    known_consts = [a for a, f in zip(const_avals, const_flags) if not f]
    known_xs = [a for a, f in zip(xs_avals, xs_flags) if not f]
    linear_consts = [a for a, f in zip(const_avals, const_flags) if f]
    sums = [a for a, f in zip(linear_consts, const_found) if f]
    out_avals = [strip_literal(o.aval) for o in jaxpr.outputs]
    carry_used = list(nonzero[:n_carry])
    carry = [a for a, f in zip(out_avals, carry_used) if f]
    ys = [a for a, f in zip(out_avals[n_carry:], nonzero[n_carry:]) if f]
    groups = [list(map(aval_of, captured)), known_consts, sums, carry, known_xs, ys]

    def program(*values: Any) -> list[Any]:
        mine, consts, totals, carry_cts, xs, ys_cts = split(values, *map(len, groups))[:-1]
        outs = eval_jaxpr(derived, [*mine, *consts, *xs, *carry_cts, *ys_cts])
        by_const, by_carry, by_xs = split(outs, sum(const_found), sum(carry_found))
        totals = [add_values(total, ct) for total, ct in zip(totals, by_const)]
        full = scatter(by_carry, carry_found)
        carry_out = [zero_value(a) if ct is None else ct for ct, a, used in zip(full, out_avals, carry_used) if used]
        return [*totals, *carry_out, *by_xs]

    body, more = trace_function(program, [a for group in groups for a in group], name="transpose", abstract=False)
    return BackwardBody(body, [*more, *captured], const_found, carry_used, xs_found)


def linear_operands(loop: Loop, linear: tuple[bool, ...]) -> tuple[bool, ...]:
    """`linear`, and what of the carry becomes linear in the course of the loop."""
    return fixpoint(linear, loop.n_consts, loop.n_carry, lambda f: unknown_outputs(loop.body, f))


class SplitBody(NamedTuple):
    """A body split in two: `known` computes what depends on no linear input, `linear` the rest.

    `known`: (captured, consts | known carry | xs) -> (known carry | known ys if wanted, residuals), with the linear inputs left
    out; `linear`: (shared, consts | linear carry | xs, residuals) -> (linear carry | linear ys).
    """

    captured: list[Any]
    known: Jaxpr
    shared: list[Any]  # arrays that every iteration of the linear part reads
    linear: Jaxpr
    ys: list[bool]  # which ys are linear

    def outputs(self, known: Sequence[Any], linear: Sequence[Any], carry_flags: Sequence[bool]) -> list[Any]:
        """All outputs of the body's loop, of those of its two loops."""
        values, found = iter(known), iter(linear)
        return [next(found) if f else next(values) for f in (*carry_flags, *self.ys)]


@memoised_on_body
def read_operands(loop: Loop) -> tuple[Jaxpr, list[bool]]:
    """The body without the consts and xs that it does not read, which a loop would keep; which inputs are left."""
    carry = range(loop.n_consts, loop.n_consts + loop.n_carry)
    used = [u or i in carry for i, u in enumerate(used_inputs(loop.body))]
    return rewire(loop.body, [v for v, u in zip(loop.body.inputs, used) if u], loop.body.outputs), used


@memoised_on_body
def split_body(loop: Loop, flags: tuple[bool, ...], known_ys: bool) -> SplitBody:
    """The body taken apart where `flags` says which operands are linear; with `known_ys`, the known ys come out, too."""
    jaxpr, n_consts, n_carry = loop.body, loop.n_consts, loop.n_carry
    carry_flags = loop.carried(flags)
    ys = unknown_outputs(jaxpr, flags)[n_carry:]
    halves = split_jaxpr(jaxpr, flags, (*carry_flags, *ys))
    forward = halves.forward
    known_inputs = forward.inputs[len(halves.consts) :]
    places = [i for i, f in enumerate(flags) if not f]
    residual_vars, tangents = split(halves.linear.inputs, len(halves.residuals))
    given = iter(tangents)
    inputs = [next(given) if f else Var(strip_literal(v.aval)) for v, f in zip(jaxpr.inputs, flags)]
    shared: list[tuple[Var, Any]] = []
    stacked: list[tuple[Var, Any]] = []
    for v, (kind, source) in zip(residual_vars, halves.residuals):
        if kind == "const":
            shared.append((v, source))
        elif kind == "in" and not n_consts <= places[source] < n_consts + n_carry:
            inputs[places[source]] = v
        elif kind == "in":
            stacked.append((v, known_inputs[source]))
        else:
            stacked.append((v, forward.outputs[source + (halves.n_outputs if kind == "new" else 0)]))
    consts, carry, xs = loop.split(inputs)
    kept = forward.outputs[: halves.n_outputs if known_ys else carry_flags.count(False)]
    return SplitBody(
        halves.consts,
        rewire(forward, forward.inputs, [*kept, *[atom for _, atom in stacked]]),
        [value for _, value in shared],
        rewire(
            halves.linear,
            [*[v for v, _ in shared], *consts, *[v for v, f in zip(carry, carry_flags) if f], *xs, *[v for v, _ in stacked]],
            halves.linear.outputs,
        ),
        list(ys),
    )
