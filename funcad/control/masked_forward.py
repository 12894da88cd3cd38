"""Loops and branches in forward mode with masks (see masks/masks.py): bools beside the tangents, as masked_loops.py has
them beside the cotangents.

Idea: a body is derived with masks of those consts, xs and parts of the carry that come with one. A part of the carry that the
body gives a mask carries bools from the start, all True; one that the body mixes with unmasked tangents carries none. Where no
mask comes and none goes, there is nothing to do here: `None` says so, and the loop takes its tangents alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from funcad.control.call import compact
from funcad.control.rewire import memoised_on_body, split
from funcad.ir.aval import Aval, StackAval, aval_of
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.trace import trace_function
from funcad.masks.masked_rules import Masked, cleaned
from funcad.masks.masks import CALM, EVERY, constant, mask_of
from funcad.primitives.loop import Loop
from funcad.primitives.placement import on_device_of
from funcad.primitives.stack import bools_aval, zero_value
from funcad.transforms.jvp import jvp_eval

__all__ = ["joined_tangents", "kinds_of_tangents", "masked_branch", "masked_forward", "parts_of"]


def kinds_of_tangents(tangents: Sequence[Any]) -> tuple:
    """Of each tangent: None for zero, EVERY for one with a mask, 0 for others."""
    return tuple([None if t is None else EVERY if type(t) is Masked else 0 for t in tangents])


def parts_of(kinds: Sequence[Any], tangents: Sequence[Any], avals: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The tangents and the bools that these kinds ask for."""
    values, bools = [], []
    for k, t, aval in zip(kinds, tangents, avals):
        if k is None:
            continue
        if t is None:
            values.append(zero_value(Aval(aval.shape, aval.dtype) if type(aval) is Aval else aval))
        else:
            values.append(t.value if k and type(t) is Masked else cleaned(t))
        if k:
            bools.append(_bools_of(t, aval))
    return values, bools


def _bools_of(t: Any, aval: Any) -> Any:
    if type(t) is Masked:
        return t.mask.bools.get(aval.shape)
    return zero_value(bools_aval(aval)) if t is None else constant(True, aval.shape)


def joined_tangents(kinds: Sequence[Any], values: Iterator[Any]) -> list[Any]:
    """Tangents again, from all values and then all bools."""
    tangents = [None if k is None else next(values) for k in kinds]
    return [Masked(t, mask_of(next(values), False)) if k else t for t, k in zip(tangents, kinds)]


def _avals_of(kinds: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Those of `parts_of`."""
    values = [Aval(a.shape, a.dtype) if type(a) is not StackAval else a for a, k in zip(avals, kinds) if k is not None]
    return [*values, *[bools_aval(a) for a, k in zip(avals, kinds) if k]]


class _ForwardBody(NamedTuple):
    """(captured, consts, tangents, bools | carry, tangents, bools | xs, tangents, bools) -> (carry, ... | ys, ...)."""

    jaxpr: Jaxpr
    captured: list[Any]
    kinds: tuple  # of the inputs
    ys: tuple


@memoised_on_body
def _body(loop: Loop, given: tuple) -> list[_ForwardBody]:
    """The body, if masks take part."""
    jaxpr, n_consts, n_carry = loop.body, loop.n_consts, loop.n_carry
    kinds = list(given)
    ended: set[int] = set()  # parts of the carry whose masks end in the body
    avals = loop.split(jaxpr.in_avals)
    ys: tuple = ()
    while True:
        groups = loop.split(kinds)
        again: list[bool] = []

        def program(*args: Any, groups: Any = groups, again: list[bool] = again) -> list[Any]:
            nonlocal ys
            values = iter(args)
            primals, tangents = [], []
            for part, ks in zip(avals, groups):
                primals += [next(values) for _ in part]
                tangents += joined_tangents(ks, values)
            outs, touts = jvp_eval(jaxpr, primals, tangents, masked=True)
            found = kinds_of_tangents(touts)
            for i, (old, new) in enumerate(zip(groups[1], found)):
                if old is None and new is not None or old == 0 and new == EVERY and i not in ended:
                    kinds[n_consts + i] = new
                    again.append(True)
                elif old == EVERY and new == 0:
                    kinds[n_consts + i] = 0
                    ended.add(i)
                    again.append(True)
            if again:
                return []
            ys = found[n_carry:]
            results: list[Any] = []
            parts = [split(x, n_carry) for x in (outs, touts, (*groups[1], *ys), jaxpr.out_avals)]
            for os, ts, ks, of in zip(*parts):
                new, bools = parts_of(ks, ts, of)
                results += [*os, *new, *bools]
            return results

        in_avals = [a for part, ks in zip(avals, groups) for a in (*part, *_avals_of(ks, part))]
        derived, captured = trace_function(program, in_avals, name="jvp")
        if not again:
            break
    if EVERY not in given and EVERY not in kinds and EVERY not in ys:
        return []
    return [_ForwardBody(derived, captured, tuple(kinds), ys)]


def _calm(jaxpr: Jaxpr) -> bool:
    """Is it known that no mask begins in this program?"""
    return all([e.primitive.passive or e.primitive.calm and e.primitive.reach in (*CALM, "reads") for e in jaxpr.equations])


def masked_forward(
    loop: Loop, args: Sequence[Any], tangents: Sequence[Any], run: Callable[..., list[Any]]
) -> tuple[list[Any], list[Any]] | None:
    """`(outs, tangents)` of a loop, if masks take part; `run(body, consts, carry, xs)` runs the derived loop."""
    n_consts, n_carry = loop.n_consts, loop.n_carry
    given = kinds_of_tangents(tangents)
    if EVERY not in given and _calm(loop.body):
        return None
    bodies = _body(loop, given)
    if not bodies:
        return None
    (body,) = bodies
    operands = []
    avals = [*loop.body.in_avals[: n_consts + n_carry], *map(aval_of, args[n_consts + n_carry :])]
    for values, ts, ks, of in zip(*[loop.split(x) for x in (args, tangents, body.kinds, avals)]):
        new, bools = parts_of(ks, ts, of)
        operands.append([*values, *on_device_of([*new, *bools], args)])
    outs = run(body.jaxpr, [*on_device_of(body.captured, args), *operands[0]], operands[1], operands[2])
    ks = loop.carried(body.kinds)
    carry, rest = split(outs, n_carry + len(compact(ks)[0]) + ks.count(EVERY))
    n_ys = len(body.ys)
    touts = [*joined_tangents(ks, iter(carry[n_carry:])), *joined_tangents(body.ys, iter(rest[n_ys:]))]
    return [*carry[:n_carry], *rest[:n_ys]], touts


def masked_branch(jaxpr: Jaxpr, kinds: tuple, wanted: tuple | None) -> tuple[Any, Any, tuple]:
    """(program, captured, kinds of the tangents): (operands, tangents, bools) -> (outputs, tangents, bools), as `wanted`."""
    found: list[Any] = []

    def program(*args: Any) -> list[Any]:
        n = len(jaxpr.in_avals)
        outs, touts = jvp_eval(jaxpr, args[:n], joined_tangents(kinds, iter(args[n:])), masked=True)
        found[:] = kinds_of_tangents(touts)
        values, bools = parts_of(found if wanted is None else wanted, touts, jaxpr.out_avals)
        return [*outs, *values, *bools]

    derived, captured = trace_function(program, [*jaxpr.in_avals, *_avals_of(kinds, jaxpr.in_avals)], name="jvp")
    return derived, captured, tuple(found)
