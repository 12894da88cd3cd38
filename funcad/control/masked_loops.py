"""Loops run backwards with masks (see masks/masks.py): the mask of the carry's cotangent is carried beside it.

Idea: as `backward_body`, with bools beside the cotangents of the carry, of those ys that come with a mask, and of those consts
and xs whose masks are wanted. The mask of a const is the *or* over the iterations, so it is carried beside the sum. Only loops
whose carry is all linear are run so; masks end at the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.control.backward_bodies import backward_flags
from funcad.control.call import compact, scatter
from funcad.control.rewire import fill_zeros, memoised_on_body, rewire, split, strip_literal
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, Literal, subjaxprs
from funcad.ir.trace import trace_function
from funcad.masks.masks import EVERY, Mask, begins_within, constant, either_bools, mask_of, reach_of
from funcad.primitives.loop import Loop
from funcad.primitives.placement import on_device_of
from funcad.primitives.stack import add_values, bools_aval, zero_value
from funcad.transforms.transpose import masked_transpose_jaxpr, needs_of

__all__ = ["loop_needs", "masked_backward", "masked_branches", "masks_itself", "unmasked"]


def loop_needs(loop: Loop, linear: tuple[bool, ...], wanted: tuple[int, ...]) -> tuple:
    """What is needed of the masks of a loop's results, given what is wanted of its operands'."""
    consts, carry, xs = loop.split(wanted)
    while True:
        found = needs_of(loop.body, linear, (*consts, *carry, *xs))
        grown = [max(a, b) for a, b in zip(carry, found)]
        if grown == list(carry):
            return found
        carry = grown


def masks_itself(loop: Loop, cts: Sequence[Any], linear: tuple[bool, ...]) -> bool:
    """Does a turn of the loop mask what comes out of the turn before, which has factors that could be infinite?

    If so, its masks are carried, even where none come from outside. Masks that are all True whatever the data are need not be;
    those of a loop that reads or writes at computed indices are not, because a turn would look at all elements for one of them.
    """
    return _masks_itself(loop, (*[0] * loop.n_carry, *[None if ct is None else 0 for ct in cts[loop.n_carry :]]), linear)


@memoised_on_body
def _masks_itself(loop: Loop, kinds: tuple, linear: tuple[bool, ...]) -> bool:
    jaxpr, n_carry = loop.body, loop.n_carry
    if not begins_within(jaxpr) or _computes_indices(jaxpr):
        return False
    const_flags, _, xs_flags = loop.split(linear)
    flags = (*const_flags, *[True] * n_carry, *xs_flags)
    needs = loop_needs(loop, flags, (0,) * len(jaxpr.inputs))[:n_carry]
    if not any(needs):
        return False
    wanted = (*[0] * sum(const_flags), *[EVERY if n else 0 for n in needs], *[0] * sum(xs_flags))
    found = zip(wanted, _given_masks(jaxpr, flags, kinds, wanted))
    return any([w and begun is not False for w, begun in found])


def _given_masks(jaxpr: Jaxpr, linear: tuple[bool, ...], kinds: tuple, wanted: tuple[int, ...]) -> list[bool | None]:
    """Of each linear operand: does its cotangent come with a mask that is perhaps not all True? None: no cotangent comes."""
    derived, consts, results = masked_transpose_jaxpr(jaxpr, linear, kinds, wanted)
    known = dict(zip(derived.inputs, consts))
    masks = iter(derived.outputs[sum([r is not None for r in results]) :])
    bools = [next(masks) if r else None for r in results]
    values = [b.value if type(b) is Literal else known.get(b) for b in bools]
    return [None if r is None else r > 0 and not np.all(v) for r, v in zip(results, values)]


@memoised_on_body
def unmasked(loop: Loop, linear: tuple[bool, ...], nonzero: tuple[bool, ...], wanted: tuple[int, ...]) -> bool:
    """Would all the masks that are carried be True, whatever the data are?

    They are if the cotangents of the carry that come at all are there from the first turn on, and no turn masks anything that
    is looked at, now or in a later turn. `nonzero`: which cotangents of the results are there.
    """
    jaxpr, n_carry = loop.body, loop.n_carry
    const_flags, _, xs_flags = loop.split(linear)
    flags = (*const_flags, *[True] * n_carry, *xs_flags)
    needs = loop_needs(loop, flags, wanted)[:n_carry]
    levels = [*wanted[: loop.n_consts], *map(max, loop.carried(wanted), needs), *wanted[loop.n_consts + n_carry :]]
    every = tuple([EVERY if w else 0 for w, f in zip(levels, flags) if f])
    begun = _given_masks(jaxpr, flags, tuple([0 if z else None for z in nonzero]), every)
    carried = begun[sum(const_flags) :][:n_carry]
    return not any(begun) and [b is not None for b in carried] == list(nonzero[:n_carry])


def _computes_indices(jaxpr: Jaxpr) -> bool:
    for e in jaxpr.equations:
        if len(e.inputs) > 1 and not e.primitive.multiple and reach_of(e.primitive, e.params) in ("reads", "picks"):
            return True
    return any([_computes_indices(program) for e in jaxpr.equations for program in subjaxprs(e.params)])


class _BackwardBody(NamedTuple):
    """(captured, known consts | sums, masks, carry, masks | known xs, y cotangents, masks) -> (carry | xs, masks).

    The results say of each linear const, carry and x which come, as `masked_transpose_jaxpr` does.
    """

    jaxpr: Jaxpr
    captured: list[Any]
    used: list[bool]
    consts: list[Any]
    xs: list[Any]


@memoised_on_body
def _body(loop: Loop, linear: tuple[bool, ...], nonzero: tuple, masked: tuple, wanted: tuple) -> _BackwardBody:
    jaxpr, n_consts, n_carry = loop.body, loop.n_consts, loop.n_carry
    flags, nonzero = backward_flags(loop, linear, nonzero)
    const_flags, _, xs_flags = loop.split(flags)
    n_linear = sum(const_flags)
    used = list(nonzero[:n_carry])
    kinds = tuple([(EVERY if i < n_carry or m else 0) if z else None for i, (z, m) in enumerate(zip(nonzero, masked))])
    levels = [EVERY if n_consts <= i < n_consts + n_carry or w else 0 for i, w in enumerate(wanted)]
    of_linear = tuple([w for w, f in zip(levels, flags) if f])
    derived, captured, results = masked_transpose_jaxpr(jaxpr, flags, kinds, of_linear, every=True)
    by_const, _, by_x = split(results, n_linear, n_carry)
    in_avals, out_avals = [strip_literal(a) for a in jaxpr.in_avals], [strip_literal(o.aval) for o in jaxpr.outputs]
    const_avals, _, xs_avals = loop.split(in_avals)
    linear_consts = [a for a, f in zip(const_avals, const_flags) if f]
    carry = [a for a, u in zip(out_avals, used) if u]
    groups = [
        list(map(aval_of, captured)),
        [a for a, f in zip(const_avals, const_flags) if not f],
        [a for a, r in zip(linear_consts, by_const) if r is not None],
        [bools_aval(a) for a, r in zip(linear_consts, by_const) if r],
        carry,
        [bools_aval(a) for a in carry],
        [a for a, f in zip(xs_avals, xs_flags) if not f],
        [a for a, z in zip(out_avals[n_carry:], nonzero[n_carry:]) if z],
        [bools_aval(a) for a, k in zip(out_avals[n_carry:], kinds[n_carry:]) if k],
    ]

    def program(*values: Any) -> list[Any]:
        mine, consts, sums, sum_masks, cts, bools, xs, ys, y_bools = split(values, *map(len, groups))[:-1]
        outs = eval_jaxpr(derived, [*mine, *consts, *xs, *cts, *ys, *bools, *y_bools])
        n = sum([r is not None for r in results])
        new = split(scatter(outs[:n], [r is not None for r in results]), n_linear, n_carry)
        new_masks = split(scatter(outs[n:], list(map(bool, results))), n_linear, n_carry)
        sums = [add_values(s, c) for s, c in zip(sums, compact(new[0])[0])]
        sum_masks = [either_bools(s, m) for s, m in zip(sum_masks, compact(new_masks[0])[0])]
        carried = [[c for c, u in zip(part[1], used) if u] for part in (new, new_masks)]
        return [*sums, *sum_masks, *carried[0], *carried[1], *compact(new[2])[0], *compact(new_masks[2])[0]]

    body, more = trace_function(program, [a for group in groups for a in group], name="transpose", abstract=False)
    return _BackwardBody(body, [*more, *captured], used, by_const, by_x)


def masked_backward(
    loop: Loop,
    cts: Sequence[Any],
    masks: Sequence[Mask | None],
    wanted: Sequence[int],
    args: Sequence[Any],
    linear: tuple[bool, ...],
    run: Callable[..., list[Any]],
) -> list[tuple[Any, Mask | None]]:
    """Cotangents of all operands, with masks; `run(body, consts, carry, xs)` is the loop in the other direction."""
    nonzero = tuple([ct is not None for ct in cts])
    masked = tuple([m is not None for m in masks])
    wanted = tuple([int(w > 0) for w in wanted])
    body, n_carry = _body(loop, linear, nonzero, masked, wanted), loop.n_carry
    const_flags, _, xs_flags = loop.split(linear)
    consts, _, xs = loop.split(args)
    known_consts = [c for c, f in zip(consts, const_flags) if not f]
    known_xs = [x for x, f in zip(xs, xs_flags) if not f]
    values = [*known_consts, *known_xs, *[ct for ct in cts if ct is not None]]
    linear_consts = [c.aval for c, f in zip(consts, const_flags) if f]
    sums = [zero_value(a) for a, r in zip(linear_consts, body.consts) if r is not None]
    sum_masks = [zero_value(bools_aval(a)) for a, r in zip(linear_consts, body.consts) if r]
    start, start_masks = [], []
    for ct, m, used, out in zip(cts, masks, body.used, loop.body.outputs):
        if used:
            aval = strip_literal(out.aval)
            start.append(zero_value(aval) if ct is None else ct)
            start_masks.append(constant(ct is not None, aval.shape) if m is None else m.bools.get(aval.shape))
    ys = [ct for ct in cts[n_carry:] if ct is not None]
    y_masks = [m.bools.get(shape_of(ct)) for ct, m in zip(cts[n_carry:], masks[n_carry:]) if ct is not None and m is not None]
    carry = on_device_of([*sums, *sum_masks, *start, *start_masks], values)
    given, items = [*on_device_of(body.captured, values), *known_consts], [*known_xs, *ys, *on_device_of(y_masks, values)]
    outs = run(body.jaxpr, given, carry, items)
    sums, sum_masks, carry_cts, carry_masks, rest = split(outs, len(sums), len(sum_masks), len(start), len(start))
    n = sum([r is not None for r in body.xs])
    by_const = _pairs(sums, sum_masks, body.consts, const_flags)
    by_carry = _pairs(carry_cts, carry_masks, [EVERY if u else None for u in body.used], [True] * n_carry)
    return [*by_const, *by_carry, *_pairs(rest[:n], rest[n:], body.xs, xs_flags)]


def _pairs(cts: Sequence[Any], bools: Sequence[Any], results: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    found, masks = iter(cts), iter(bools)
    pairs = iter([(None if r is None else next(found), mask_of(next(masks), False) if r else None) for r in results])
    return [next(pairs) if f else (None, None) for f in flags]


def masked_branches(
    branches: Sequence[Jaxpr], linear: tuple[bool, ...], kinds: tuple, wanted: tuple[int, ...]
) -> tuple[list[tuple[Jaxpr, list[Any]]], list[bool], list[bool]]:
    """Branches transposed with masks, and which cotangents and bools of the linear operands they all give."""
    derived = [masked_transpose_jaxpr(b, linear, kinds, wanted, every=True) for b in branches]
    by_input = list(zip(*[results for _, _, results in derived]))
    masked = [any(column) for column in by_input]
    ends = [m and 0 in column for m, column in zip(masked, by_input)]  # of a stack that some branch gives without a mask
    if any(ends):
        return masked_branches(branches, linear, kinds, tuple([0 if e else n for e, n in zip(ends, wanted)]))
    found = [any([r is not None for r in column]) for column in by_input]
    avals = [a for a, lin in zip(branches[0].in_avals, linear) if lin]
    needed = [*[a for a, f in zip(avals, found) if f], *[bools_aval(a) for a, m in zip(avals, masked) if m]]
    filled = []
    for jaxpr, consts, results in derived:
        outs = iter(jaxpr.outputs)
        cts = [None if r is None else next(outs) for r in results]
        bools = [next(outs) if r else None for r in results]
        atoms = [*[c for c, f in zip(cts, found) if f], *[b for b, m in zip(bools, masked) if m]]
        zeros, equations = fill_zeros(atoms, needed)  # False where a branch leads to none of a stack's elements
        filled.append((rewire(jaxpr, jaxpr.inputs, zeros, equations), consts))
    return filled, found, masked
