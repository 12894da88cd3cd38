"""Bodies of loops and branches derived for their derivatives: run backwards, and with masks.

`backward_body` is the transposed body of a loop whose carry is linear: cotangents of linear consts become a carry that sums
them, cotangents of linear xs become ys. `split_body` splits a body whose carry is partly known (a counter, a primal).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.control.call import compact, fill_zeros, fixpoint, memoised_on_body, rewire, scatter
from funcad.ir.aval import Aval, StackAval, aval_of, shape_of, strip_literal
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, Literal, Var, prune, split, subjaxprs, used_inputs
from funcad.ir.primitive import CALM
from funcad.ir.trace import trace_function
from funcad.masks.masked_rules import cleaned
from funcad.masks.masks import EVERY, Mask, Masked, begins_within, clean, constant, either_bools, mask_of, reach_of
from funcad.primitives.loop import Loop, add_values, bools_aval, zero_value
from funcad.transforms.jvp import jvp_eval
from funcad.transforms.partial import split_jaxpr, unknown_outputs
from funcad.transforms.transpose import masked_transpose_jaxpr, needs_of, transpose_jaxpr


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


def filled_tangents(loop: Loop, tangents: Sequence[Any], wanted: Sequence[bool]) -> list:
    """The carry's tangents where wanted, zeros included."""
    avals = map(strip_literal, loop.carried(loop.body.in_avals))
    return [zero_value(a) if t is None else t for t, w, a in zip(tangents, wanted, avals) if w]


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


# -- loops run backwards with masks (see masks/masks.py): the mask of the carry's cotangent is carried beside it
#
# Idea: as `backward_body`, with bools beside the cotangents of the carry, of those ys that come with a mask, and of those
# consts and xs whose masks are wanted. The mask of a const is the *or* over the iterations, so it is carried beside the sum.
# Only loops whose carry is all linear are run so; masks end at the others.


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
def _backward_body(loop: Loop, linear: tuple[bool, ...], nonzero: tuple, masked: tuple, wanted: tuple) -> _BackwardBody:
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


def _apart(loop: Loop, args: Sequence[Any], linear: tuple[bool, ...]) -> tuple[Any, ...]:
    """(which consts and xs are linear, avals of linear consts, known consts, known xs)."""
    const_flags, _, xs_flags = loop.split(linear)
    consts, _, xs = loop.split(args)
    known_consts = [c for c, f in zip(consts, const_flags) if not f]
    known_xs = [x for x, f in zip(xs, xs_flags) if not f]
    avals = [c.aval for c, f in zip(consts, const_flags) if f]
    return const_flags, xs_flags, avals, known_consts, known_xs


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
    body, n_carry = _backward_body(loop, linear, nonzero, masked, wanted), loop.n_carry
    const_flags, xs_flags, linear_consts, known_consts, known_xs = _apart(loop, args, linear)
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
    carry = [*sums, *sum_masks, *start, *start_masks]
    given, items = [*body.captured, *known_consts], [*known_xs, *ys, *y_masks]
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


def transpose_linear(
    loop: Loop, cts: Sequence[Any], args: Sequence[Any], linear: tuple[bool, ...], run: Callable[..., list[Any]]
) -> list[Any]:
    """Cotangents of all operands; every carry is linear (a known initial value is an instantiated zero).

    `run(body, consts, carry, xs)` is the loop in the other direction.
    """
    if masks_itself(loop, cts, linear):
        return [clean(*p) for p in masked_backward(loop, cts, [None] * len(cts), [0] * len(args), args, linear, run)]
    body = backward_body(loop, linear, tuple([ct is not None for ct in cts]))
    const_flags, xs_flags, linear_consts, known_consts, known_xs = _apart(loop, args, linear)
    sums = [zero_value(a) for a, z in zip(linear_consts, body.consts) if z]
    avals = [strip_literal(o.aval) for o in loop.body.outputs[: loop.n_carry]]
    start = [zero_value(a) if ct is None else ct for ct, a, used in zip(cts, avals, body.carry) if used]
    given, items = [*body.captured, *known_consts], [*known_xs, *compact(cts[loop.n_carry :])[0]]
    outs = run(body.jaxpr, given, [*sums, *start], items)
    sums, carry_cts, xs_cts = split(outs, len(sums), len(start))
    return [
        *scatter(scatter(sums, body.consts), const_flags),
        *scatter(carry_cts, body.carry),
        *scatter(scatter(xs_cts, body.xs), xs_flags),
    ]


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


# -- loops and branches in forward mode with masks (see masks/masks.py)
#
# Loops and branches in forward mode with masks (see masks/masks.py): bools beside the tangents, as backward_bodies.py has them
# beside the cotangents.
#
# Idea: a body is derived with masks of those consts, xs and parts of the carry that come with one. A part of the carry that the
# body gives a mask carries bools from the start, all True; one that the body mixes with unmasked tangents carries none. Where
# no mask comes and none goes, there is nothing to do here: `None` says so, and the loop takes its tangents alone.


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
def _forward_body(loop: Loop, given: tuple) -> list[_ForwardBody]:
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
    return [_ForwardBody(prune(derived), captured, tuple(kinds), ys)]


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
    bodies = _forward_body(loop, given)
    if not bodies:
        return None
    (body,) = bodies
    operands = []
    avals = [*loop.body.in_avals[: n_consts + n_carry], *map(aval_of, args[n_consts + n_carry :])]
    for values, ts, ks, of in zip(*[loop.split(x) for x in (args, tangents, body.kinds, avals)]):
        new, bools = parts_of(ks, ts, of)
        operands.append([*values, *new, *bools])
    outs = run(body.jaxpr, [*body.captured, *operands[0]], operands[1], operands[2])
    count, outs = split(outs, loop.first)
    ks = loop.carried(body.kinds)
    carry, rest = split(outs, n_carry + len(compact(ks)[0]) + ks.count(EVERY))
    n_ys = len(body.ys)
    touts = [*joined_tangents(ks, iter(carry[n_carry:])), *joined_tangents(body.ys, iter(rest[n_ys:]))]
    return [*count, *carry[:n_carry], *rest[:n_ys]], [*[None] * loop.first, *touts]


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
