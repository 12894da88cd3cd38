"""Reverse mode of a `while_loop` with a memory budget: some states are kept, though nobody knows how many turns there will be.

Idea: on the way forward a state is kept in front of every block of turns, until the slots are full; then each other one is
given up, and from there on states are kept half as often. On the way back the last block is run again, now with its residuals,
and then in reverse. Where the nearest state is further back than a block, the turns between run again and leave states in the
slots that are free, at the distances of a binomial schedule (reversal_schedules.py), which are found while the program runs,
from a small table. All of this is loops in the IR, so it is the same un-jitted and jitted, on all engines.

Invariants: position -1 is a free slot; the state in front of the first turn is in slot 0 all the time; there is a slot beyond
the others, for states that nobody keeps. The reversed body is the one of a loop without a budget, with its sums and masks as
carry, so gradients are the same to the last bit. Trap: as in budgeted_scan.py, the linear equation keeps its schedule as long
as nothing but its transpose is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import comb
from typing import Any, NamedTuple

import numpy as np

from funcad.control.body import LinearBody, linear_body
from funcad.control.budgeted_scan import first_row, quiet_body, row_of, run_again, size_in_bytes, with_row
from funcad.control.call import call_p, compact, memoised, scatter, strip_literal
from funcad.control.reversal_schedules import blocks_of
from funcad.control.scan_rules import filled_tangents, scan_p, transpose_linear
from funcad.control.while_loop import run_while, while_p
from funcad.ir.aval import Aval, aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, split
from funcad.ir.primitive import is_linear
from funcad.ir.trace import trace_function
from funcad.masks.masked_rules import cleaned
from funcad.primitives.arithmetic import add, floor_divide, maximum, minimum, mod, mul, sub
from funcad.primitives.comparison import and_, eq, ge, gt, lt, select
from funcad.primitives.conversion import convert
from funcad.primitives.families import reduce_sum
from funcad.primitives.loop import Loop, WhileLoop
from funcad.primitives.placement import on_device_of
from funcad.primitives.reduction import argmax, argmin, reduce_max, reduce_min
from funcad.primitives.shape import broadcast_leading

EXPECTED = 1_000_000  # turns, for which the sizes of blocks and slots are a compromise
MOST, TIMES = 32, 40  # slots, and how often a block is advanced at most, in the table; beyond it, halves
INT = np.dtype(np.int64)
ZERO, ONE, FREE = np.int64(0), np.int64(1), np.int64(-1)


class _WhilePlan(NamedTuple):
    """So many turns to a block, so many slots, and which of the operands after the condition's have tangents."""

    loop: WhileLoop
    size: int
    slots: int
    nonzero: tuple[bool, ...]


class _WhileResidual(NamedTuple):
    """Stands for what the turns keep, which is computed again block by block."""

    i: int


def _plan(loop: WhileLoop, nonzero: tuple[bool, ...], body: LinearBody) -> _WhilePlan | None:
    """None if there is nothing to keep."""
    kept = size_in_bytes([o.aval for o in body.forward.outputs[loop.n_carry :]])
    if not kept:
        return None
    state = size_in_bytes([strip_literal(a) for a in loop.steps.carried(loop.body.in_avals)]) + INT.itemsize
    budget = loop.budget or 0
    found = blocks_of(EXPECTED, state, kept, budget)
    if found is None:
        raise ValueError(
            f"while_loop: a memory budget of {budget:,} bytes is too small to run this loop backwards: one state of its carry "
            f"takes {state:,.0f} bytes, and what one turn keeps {kept:,.0f}.\nGive it {2 * state + kept:,.0f} bytes at least."
        )
    return _WhilePlan(loop, *found, nonzero)


# ---------------------------------------------------------------- positions


def _where(pos: Any, test: Any, value: Any, otherwise: Any) -> Any:
    """Element by element of the positions; scalars as they are."""
    spread = lambda x: x if aval_of(x).shape else broadcast_leading(x, aval_of(pos).shape[0])
    return select(spread(test), spread(value), spread(otherwise))


def _put(pos: Any, slot: Any, value: Any) -> Any:
    """The positions with another one in a slot; nothing changes in the slot beyond them."""
    n = aval_of(pos).shape[0]
    return _where(pos, eq(np.arange(n), broadcast_leading(slot, n)), value, pos)


def _last(pos: Any) -> tuple[Any, Any]:
    """The slot of the last state, and where that is."""
    return argmax(pos, axis=0), reduce_max(pos, axes=(0,))


def _table(slots: int) -> np.ndarray:
    """How many blocks can be reversed with so many slots if none is advanced more than -2, -1, 0, ... times."""
    reach = [[0, 0, *[min(comb(s + r, s), 2**60) for r in range(TIMES)]] for s in range(slots + 1)]
    return np.array(reach, np.int64)


def _middle(table: Any, blocks: Any, slots: Any) -> Any:
    """How many of two or more blocks are advanced before a state is kept, with two or more slots."""
    most, columns = [np.int64(n - 1) for n in aval_of(table).shape]
    slots = minimum(slots, most)
    row, less = row_of(table, slots), row_of(table, sub(slots, ONE))
    count = reduce_sum(convert(lt(row, broadcast_leading(blocks, int(columns) + 1)), INT), axes=(0,))
    inside = minimum(count, columns)
    found = maximum(row_of(row, sub(inside, np.int64(2))), sub(blocks, row_of(less, inside)))
    found = minimum(maximum(found, ONE), sub(blocks, ONE))
    return select(gt(count, columns), floor_divide(blocks, np.int64(2)), found)


# ---------------------------------------------------------------- forward


def linearize(primals: Sequence[Any], tangents: Sequence[Any], loop: WhileLoop) -> tuple[list, list] | None:
    """(outputs, tangents) of a loop with a budget; None if it needs none."""
    nonzero = tuple([t is not None for t in tangents[loop.n_cond :]])
    body = linear_body(loop.steps, nonzero)
    plan = _plan(loop, nonzero, body)
    if plan is None:
        return None
    cond_consts, consts, carry = loop.split(primals)
    count, pos, slots, carry = _forward(plan, cond_consts, consts, carry)
    out_nonzero = [False, *loop.steps.carried(body.nonzero)]
    if not any(out_nonzero):
        return [count, *carry], [None] * len(out_nonzero)
    known = [*cond_consts, *consts, count, pos, *slots]
    ts = list(map(cleaned, compact(tangents)[0]))
    program, captured = _program(plan, [aval_of(v) for v in known], [aval_of(t) for t in ts])
    touts = rerun_p(*on_device_of(captured, primals), *known, *ts, jaxpr=program, plan=plan)
    return [count, *carry], scatter(touts, out_nonzero)


def _forward(plan: _WhilePlan, cond_consts: list, consts: list, carry: list) -> tuple[Any, Any, list, list]:
    """(how many turns, positions, slots, the last carry)."""
    loop, n = plan.loop, plan.slots
    goes_on = lambda carry: eval_jaxpr(loop.cond, [*cond_consts, *carry])[0]

    def turn(value: Any) -> Any:
        count, limit, carry = value
        return add(count, ONE), limit, eval_jaxpr(loop.body, [*consts, *carry])

    def block(value: Any) -> Any:
        count, every, pos, slots, carry = value
        every = select(ge(reduce_min(pos, axes=(0,)), ZERO), mul(every, np.int64(2)), every)
        kept = eq(mod(pos, broadcast_leading(every, n)), np.zeros(n, np.int64))
        pos = _where(pos, kept, pos, FREE)
        room = and_(lt(reduce_min(pos, axes=(0,)), ZERO), eq(mod(count, every), ZERO))
        slot = select(and_(room, gt(count, ZERO)), argmin(pos, axis=0), np.int64(n))
        slots = [with_row(s, slot, c) for s, c in zip(slots, carry)]
        limit = mul(add(floor_divide(count, every), ONE), every)
        more = lambda value: and_(lt(value[0], value[1]), goes_on(value[2]))
        after, _, carry = run_while("while_loop", more, turn, (count, limit, carry), ("carry", "carry"))
        return after, every, _put(pos, slot, count), slots, carry

    pos = np.full(n, FREE)
    pos[0] = 0
    start = (ZERO, np.int64(plan.size), pos, [broadcast_leading(c, n + 1) for c in carry], list(carry))
    found = run_while("while_loop", lambda value: goes_on(value[4]), block, start, ("carry", "carry"))
    return found[0], found[2], found[3], found[4]


def _known_parts(plan: _WhilePlan, values: Sequence[Any]) -> list[list[Any]]:
    """(captured), the condition's consts, consts, [count, positions], slots, tangents."""
    loop = plan.loop
    n = loop.n_cond + loop.n_consts + 2 + loop.n_carry + sum(plan.nonzero)
    return split(values, len(values) - n, loop.n_cond, loop.n_consts, 2, loop.n_carry)


def _program(plan: _WhilePlan, known: Sequence[Any], ts: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
    """What `rerun` stands for: tangents, from the start."""
    loop = plan.loop

    def tangents(*values: Any) -> list[Any]:
        _, cond_consts, consts, _, slots, ts = _known_parts(plan, values)
        given = iter(ts)
        full = [*[None] * loop.n_cond, *[next(given) if z else None for z in plan.nonzero]]
        plain = loop._replace(body=quiet_body(loop.body, "while_loop"), budget=None)
        primals = [*cond_consts, *consts, *map(first_row, slots)]
        return [cleaned(t) for t in while_p.primal_and_jvp(primals, full, loop=plain)[1] if t is not None]

    key = ("rerun", plan, tuple(known), tuple(ts))
    avals = [*map(strip_literal, known), *[Aval(a.shape, a.dtype) for a in ts]]
    return memoised(loop.body, key, lambda: trace_function(tangents, avals, name="while_loop", abstract=False))


# ---------------------------------------------------------------- backward


def _transpose(cts: Sequence[Any], *inputs: Any, jaxpr: Jaxpr, plan: _WhilePlan) -> list[Any]:
    loop = plan.loop
    captured, cond_consts, consts, where, slots, ts = _known_parts(plan, inputs)
    if not all(map(is_linear, ts)) or any(map(is_linear, [*captured, *cond_consts, *consts, *where, *slots])):
        return call_p.transpose(cts, *inputs, jaxpr=jaxpr, name="while_loop")
    body = linear_body(loop.steps, plan.nonzero)
    shared = on_device_of(body.captured, inputs)
    given = iter(ts)
    tconsts, tcarry = split([next(given) if z else None for z in plan.nonzero], loop.n_consts)
    wanted = loop.steps.carried(body.nonzero)
    start = filled_tangents(loop.steps, tcarry, wanted, inputs)
    residuals = [_WhileResidual(i) for i in range(len(body.forward.outputs) - loop.n_carry)]
    consts_given = [*body.const_residuals(shared, consts), *compact(tconsts)[0]]
    operands = [*consts_given, *start, *residuals]
    linear = loop.steps._replace(body=body.linear, n_consts=len(consts_given), n_carry=len(start))
    full = iter(cts)
    every = [next(full) for z in wanted if z]
    run = partial(_backwards, plan, body, [*shared, *consts], consts, where, slots)
    found = transpose_linear(linear, every, operands, tuple(map(is_linear, operands)), run)
    return [*[None] * (len(inputs) - len(ts)), *[ct for o, ct in zip(operands, found) if is_linear(o)]]  # in the order of ts


def _backwards(
    plan: _WhilePlan,
    body: LinearBody,
    given: list[Any],
    consts: list[Any],
    where: list[Any],
    slots: list[Any],
    reversed_body: Jaxpr,
    reversed_consts: list[Any],
    carry: list[Any],
    items: Sequence[_WhileResidual],
) -> list[Any]:
    """The reversed loop, whose residuals come block by block."""
    loop, size, n = plan.loop, np.int64(plan.size), len(carry)
    keeping, advancing = quiet_body(body.forward, "while_loop"), quiet_body(loop.body, "while_loop")
    count, pos = where
    table = _table(min(plan.slots, MOST))
    names = ("carry", "carry")

    def advanced(state: list[Any], turns: Any) -> list[Any]:
        step = lambda value: (add(value[0], ONE), value[1], eval_jaxpr(advancing, [*consts, *value[2]]))
        start = (ZERO, turns, state)
        return run_while("while_loop", lambda value: lt(value[0], value[1]), step, start, names)[2]  # type: ignore[no-any-return]

    def nearer(value: Any) -> Any:
        """One more state between the last one and where we want to be."""
        target, pos, slots = value
        slot, place = _last(pos)
        free = reduce_sum(convert(lt(pos, np.zeros(plan.slots, np.int64)), INT), axes=(0,))
        blocks = add(floor_divide(sub(target, place), size), ONE)
        turns = mul(_middle(table, blocks, add(free, ONE)), size)
        state = advanced([row_of(s, slot) for s in slots], turns)
        slot = argmin(pos, axis=0)
        return target, _put(pos, slot, add(place, turns)), [with_row(s, slot, c) for s, c in zip(slots, state)]

    def reached(target: Any, pos: Any, slots: list[Any]) -> tuple[Any, list[Any], list[Any]]:
        """Positions, slots, and the state in front of that turn."""
        pos = _where(pos, gt(pos, broadcast_leading(target, plan.slots)), FREE, pos)
        more = lambda v: and_(lt(reduce_max(v[1], axes=(0,)), v[0]), lt(reduce_min(v[1], axes=(0,)), ZERO))
        _, pos, slots = run_while("while_loop", more, nearer, (target, pos, slots), names)
        slot, place = _last(pos)
        return pos, slots, advanced([row_of(s, slot) for s in slots], sub(target, place))

    def reverse(length: int | None, count: list[Any], carry: list[Any], residuals: Sequence[Any]) -> list[Any]:
        turns = Loop(reversed_body, len(reversed_consts), n, length, True)
        return scan_p(*count, *reversed_consts, *carry, *[residuals[item.i] for item in items], loop=turns)

    def step(value: Any) -> Any:
        end, pos, slots, carry = value
        begin = sub(end, size)
        pos, slots, state = reached(begin, pos, slots)
        outs = scan_p(*given, *state, loop=Loop(keeping, len(given), loop.n_carry, plan.size))
        return begin, pos, slots, reverse(plan.size, [], carry, outs[loop.n_carry :])

    begin = maximum(mul(floor_divide(sub(count, ONE), size), size), ZERO)  # of the last block, which may have fewer turns
    pos, slots, state = reached(begin, pos, slots)
    turns, *outs = while_p(sub(count, begin), *given, ZERO, *state, loop=_counting(keeping, len(given)))
    carry = reverse(None, [turns], carry, outs[1 + loop.n_carry :])
    start = (begin, pos, slots, carry)
    return list(run_while("while_loop", lambda value: gt(value[0], ZERO), step, start, names)[3])


def _counting(body: Jaxpr, n_consts: int) -> WhileLoop:
    """A loop of so many turns of a body as its first operand says; it carries, before the body's carry, the number of turns."""

    def make() -> WhileLoop:
        integer = Aval((), INT)
        consts, carry = split([strip_literal(a) for a in body.in_avals], n_consts)

        def turn(*values: Any) -> list[Any]:
            consts, (i,), carry = split(values, n_consts, 1)
            return [add(i, ONE), *eval_jaxpr(body, [*consts, *carry])]

        trace = partial(trace_function, name="while_loop", abstract=False)
        cond, _ = trace(lambda limit, i, *_: [lt(i, limit)], [integer, integer, *carry])
        return WhileLoop(cond, trace(turn, [*consts, integer, *carry])[0], 1, n_consts)

    return memoised(body, ("counting", n_consts), make)


rerun_p = run_again("rerun", "while_loop", _transpose)
