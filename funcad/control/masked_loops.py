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
from funcad.control.call import present, spread
from funcad.control.rewire import memoised_on_body, plain, split
from funcad.ir.aval import Aval, aval_of, shape_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.place import near
from funcad.ir.trace import trace_function
from funcad.masks.masks import EVERY, Mask, constant, mask_of
from funcad.primitives.comparison import or_
from funcad.primitives.loop import Loop
from funcad.primitives.stack import add_values, zero_value
from funcad.transforms.transpose import masked_transpose_jaxpr, needs_of

__all__ = ["loop_needs", "masked_backward"]


def loop_needs(loop: Loop, linear: tuple[bool, ...], wanted: tuple[int, ...]) -> tuple:
    """What is needed of the masks of a loop's results, given what is wanted of its operands'."""
    consts, carry, xs = loop.split(wanted)
    while True:
        found = needs_of(loop.body, linear, (*consts, *carry, *xs))
        grown = [max(a, b) for a, b in zip(carry, found)]
        if grown == list(carry):
            return found
        carry = grown


class _Body(NamedTuple):
    """(captured, known consts | sums, masks, carry, masks | known xs, y cotangents, masks) -> (carry | xs, masks).

    The results say of each linear const, carry and x which come, as `masked_transpose_jaxpr` does.
    """

    jaxpr: Jaxpr
    captured: list[Any]
    used: list[bool]
    consts: list[Any]
    xs: list[Any]


@memoised_on_body
def _body(loop: Loop, linear: tuple[bool, ...], nonzero: tuple, masked: tuple, wanted: tuple) -> _Body:
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
    in_avals, out_avals = [plain(a) for a in jaxpr.in_avals], [plain(o.aval) for o in jaxpr.outputs]
    const_avals, _, xs_avals = loop.split(in_avals)
    linear_consts = [a for a, f in zip(const_avals, const_flags) if f]
    carry = [a for a, u in zip(out_avals, used) if u]
    groups = [
        list(map(aval_of, captured)),
        [a for a, f in zip(const_avals, const_flags) if not f],
        [a for a, r in zip(linear_consts, by_const) if r is not None],
        [_bools(a) for a, r in zip(linear_consts, by_const) if r],
        carry,
        [_bools(a) for a in carry],
        [a for a, f in zip(xs_avals, xs_flags) if not f],
        [a for a, z in zip(out_avals[n_carry:], nonzero[n_carry:]) if z],
        [_bools(a) for a, k in zip(out_avals[n_carry:], kinds[n_carry:]) if k],
    ]

    def program(*values: Any) -> list[Any]:
        mine, consts, sums, sum_masks, cts, bools, xs, ys, y_bools = split(values, *map(len, groups))[:-1]
        outs = eval_jaxpr(derived, [*mine, *consts, *xs, *cts, *ys, *bools, *y_bools])
        n = sum([r is not None for r in results])
        new = split(spread(outs[:n], [r is not None for r in results]), n_linear, n_carry)
        new_masks = split(spread(outs[n:], list(map(bool, results))), n_linear, n_carry)
        sums = [add_values(s, c) for s, c in zip(sums, present(new[0])[0])]
        sum_masks = [or_(s, m) for s, m in zip(sum_masks, present(new_masks[0])[0])]
        carried = [[c for c, u in zip(part[1], used) if u] for part in (new, new_masks)]
        return [*sums, *sum_masks, *carried[0], *carried[1], *present(new[2])[0], *present(new_masks[2])[0]]

    body, more = trace_function(program, [a for group in groups for a in group], name="transpose", abstract=False)
    return _Body(body, [*more, *captured], used, by_const, by_x)


def _bools(aval: Any) -> Aval:
    return Aval(aval.shape, np.dtype(bool))


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
    sum_masks = [constant(False, a.shape) for a, r in zip(linear_consts, body.consts) if r]
    start, start_masks = [], []
    for ct, m, used, out in zip(cts, masks, body.used, loop.body.outputs):
        if used:
            aval = plain(out.aval)
            start.append(zero_value(aval) if ct is None else ct)
            start_masks.append(constant(ct is not None, aval.shape) if m is None else m.bools.get(aval.shape))
    ys = [ct for ct in cts[n_carry:] if ct is not None]
    y_masks = [m.bools.get(shape_of(ct)) for ct, m in zip(cts[n_carry:], masks[n_carry:]) if ct is not None and m is not None]
    carry = near([*sums, *sum_masks, *start, *start_masks], values)
    outs = run(body.jaxpr, [*near(body.captured, values), *known_consts], carry, [*known_xs, *ys, *near(y_masks, values)])
    sums, sum_masks, carry_cts, carry_masks, rest = split(outs, len(sums), len(sum_masks), len(start), len(start))
    n = sum([r is not None for r in body.xs])
    by_const = _pairs(sums, sum_masks, body.consts, const_flags)
    by_carry = _pairs(carry_cts, carry_masks, [EVERY if u else None for u in body.used], [True] * n_carry)
    return [*by_const, *by_carry, *_pairs(rest[:n], rest[n:], body.xs, xs_flags)]


def _pairs(cts: Sequence[Any], bools: Sequence[Any], results: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    found, masks = iter(cts), iter(bools)
    pairs = iter([(None if r is None else next(found), mask_of(next(masks), False) if r else None) for r in results])
    return [next(pairs) if f else (None, None) for f in flags]
