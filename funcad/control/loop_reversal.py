"""Reverse mode of a loop with a memory budget: some states are kept, the turns between them are run again.

Idea: the turns go in blocks. On the way forward some states in front of blocks are kept in slots: those of a binomial schedule
(reversal_schedules.py) where the length is known; where it is not, one in front of each block until the slots are full, then
each other one is given up, and from there on states are kept half as often. On the way back each block is run again from its
state, now with its residuals, and then in reverse. Where the nearest state is further back, the turns between run again and
leave states in the slots that are free, at the distances of the schedule, which are found in a small table while the program
runs. All of this is loops in the IR, so it is the same un-jitted and jitted, on all engines. The linear equation of the loop is
`recomputed`, whose program computes tangents from the start, and whose transpose goes back as said.

Invariants: the slots in use are a stack, in the order of the positions of their states; slot 0 holds the state in front of the
first turn all the time; there is a slot beyond the others, for states that nobody keeps. The reversed body is the one of a loop
without a budget, with its sums and masks as carry, so gradients are the same to the last bit. Trap: the linear equation keeps
its schedule as long as nothing but its transpose is asked for; mapped or differentiated itself it is the program that it
stands for. What is here is below the primitive of loops, so that is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from funcad.api.border import flat_values
from funcad.backends.engines import run_jaxpr
from funcad.control.backward_bodies import filled_tangents, transpose_linear
from funcad.control.body import LinearBody, linear_body, strengthened, trace_carry
from funcad.control.call import call_p, compact, interned, memoised, rewire, scatter
from funcad.control.checkpoint import without_effects
from funcad.control.reversal_schedules import blocks_of, kept_ahead, most_times, reach_table
from funcad.ir.aval import Aval, aval_of, strip_literal
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, split
from funcad.ir.primitive import Primitive, is_linear
from funcad.ir.trace import trace_function
from funcad.masks.masked_rules import cleaned
from funcad.primitives.arithmetic import add, floor_divide, maximum, minimum, mod, mul, sub
from funcad.primitives.comparison import and_, eq, ge, gt, lt, select
from funcad.primitives.computed_slices import dynamic_slice, dynamic_update_slice
from funcad.primitives.conversion import convert
from funcad.primitives.families import reduce_sum
from funcad.primitives.loop import Loop, loop_p
from funcad.primitives.placement import on_device_of
from funcad.primitives.reduction import argmin, reduce_min
from funcad.primitives.shape import broadcast_leading, concatenate, reshape, static_slice

EXPECTED = 1_000_000  # turns of a loop of unknown length, for which the sizes of blocks and slots are a compromise
MOST, TIMES = 32, 40  # slots, and how often a block is advanced at most, in its table; beyond it, halves
INT = np.dtype(np.int64)
ZERO, ONE, FREE = np.int64(0), np.int64(1), np.int64(-1)


class Plan(NamedTuple):
    """How a loop is run backwards: so many turns to a block, so many slots, and which operands of the body have tangents."""

    loop: Loop
    size: int
    slots: int
    nonzero: tuple[bool, ...]

    @property
    def blocks(self) -> int:
        return (self.loop.length or 0) // self.size

    @property
    def rest(self) -> int:
        """The turns after the blocks, if the length is known."""
        return (self.loop.length or 0) % self.size

    def turns(self, body: Jaxpr, n_consts: int, n_carry: int, length: int | None, back: bool = False) -> Loop:
        return Loop(body, n_consts, n_carry, length, self.loop.reverse != back)

    def parts(self, x: Any) -> tuple[Any, Any]:
        """What belongs to the blocks, one entry for each, and what to the rest, which is done last."""
        n, shape = self.blocks * self.size, aval_of(x).shape
        start = self.rest if self.loop.reverse else 0
        blocks = reshape(static_slice(x, start, start + n), shape=(self.blocks, self.size, *shape[1:]))
        return blocks, static_slice(x, *((0, start) if self.loop.reverse else (n, shape[0])))

    def joined(self, blocks: Any, rest: Any) -> Any:
        x = reshape(blocks, shape=(self.blocks * self.size, *aval_of(blocks).shape[2:]))
        if not self.rest:
            return x
        return concatenate([rest, x] if self.loop.reverse else [x, rest], axis=0)

    def ordered(self, blocks: Any) -> Any:
        """An array with an entry for each block in the order in which they run: in the order of the xs, or the other way."""
        return blocks[::-1] if self.loop.reverse else blocks

    def table(self) -> np.ndarray:
        if self.loop.length is None:
            return np.array(reach_table(min(self.slots, MOST), TIMES), INT)
        return np.array(reach_table(self.slots, 1 + most_times(max(self.blocks, 1), self.slots)), INT)

    def kept(self) -> list[int]:
        """In front of which blocks the states are, if that is known ahead, that in slot 0 first."""
        return kept_ahead(self.blocks, self.slots)

    def where(self) -> list[np.ndarray]:
        """Slots, those in use first, positions of their states, and how many are in use, after the way forward."""
        kept, last = self.kept(), self.blocks - 1
        slots = list(range(self.slots))
        slots.insert(len(kept), self.slots)  # with the state in front of the last block, if that is nowhere else
        found = kept if kept[-1] >= last else [*kept, last]
        order, positions = np.array(slots, INT), np.zeros(self.slots + 1, INT)
        positions[: len(found)] = found
        return [order, positions, INT.type(len(found))]


def size_in_bytes(avals: Sequence[Any]) -> float:
    return float(sum([a.size * a.dtype.itemsize for a in avals]))


def _residuals(loop: Loop, body: LinearBody) -> Sequence[Any]:
    return body.forward.outputs[len(loop.body.outputs) :]


def _plan(loop: Loop, nonzero: tuple[bool, ...], body: LinearBody) -> Plan | None:
    """None if there is nothing to keep, or the residuals of all turns fit."""
    n, budget = loop.length, loop.budget or 0
    kept = size_in_bytes([o.aval for o in _residuals(loop, body)])
    if not kept or n is not None and n * kept <= budget:
        return None
    state = size_in_bytes(loop.carried([strip_literal(a) for a in loop.body.in_avals])) + (INT.itemsize if n is None else 0)
    each = kept + size_in_bytes([o.aval for o in loop.body.outputs[loop.n_carry :]])
    found = blocks_of(EXPECTED if n is None else n, state, each, budget)
    if found is None:
        raise ValueError(
            f"{loop.name}: a memory budget of {budget:,} bytes is too small to run this loop backwards: one state of its "
            f"carry takes {state:,.0f} bytes, and what one turn keeps {each:,.0f}.\n"
            f"Remedy: give it {2 * state + each:,.0f} bytes at least"
            + ("." if n is None else f"; from {n * kept:,.0f} on nothing is computed again.")
        )
    return Plan(loop, *found, nonzero)


def quiet_body(jaxpr: Jaxpr, what: str) -> Jaxpr:
    """A program that has run before: what it prints was printed."""
    quiet = without_effects(jaxpr)
    if quiet.has_effects:
        raise NotImplementedError(
            f"{what}: the body uses results of an io_callback or of a collective between processes, so it cannot be run "
            "again for a memory budget.\nRemedy: leave the policy out, or call them outside of the loop; "
            "debug.print and debug.callback are allowed."
        )
    return quiet


# ---------------------------------------------------------------- loops and rows


def _looped(
    f: Callable[..., Any],
    carry: Any,
    rows: Any = None,
    length: int | None = None,
    reverse: bool = False,
    test: Callable[[Any], Any] | None = None,
) -> tuple[Any, list[Any]]:
    """`(carry, ys)` of the loop of `f(carry, row) -> (carry, ys)` over rows, or as long as `test(carry)` holds."""
    leaves, structure = flat_values(carry)
    items, of_items = flat_values(rows)
    what, n = "scan" if test is None else "while_loop", len(leaves)

    def body(*values: Any) -> list[Any]:
        out, ys = f(structure.unflatten(values[:n]), of_items.unflatten(values[n:]))
        return [*flat_values(out)[0], *ys]

    row_avals = [Aval(a.shape[1:], a.dtype) for a in map(aval_of, items)]
    given = [*leaves, *items]
    jaxpr, consts, avals = trace_carry(what, body, list(map(aval_of, leaves)), row_avals, structure, test is not None, given)
    cond, count = None, []
    if test is not None:
        asks = lambda *values: [test(structure.unflatten(values))]
        cond, count = trace_function(asks, avals, name=f"the condition of {what}", staging=True, beside=leaves)
    loop = Loop(jaxpr, len(consts), n, length, reverse, cond=cond and interned(cond))
    outs = loop_p(*count, *consts, *strengthened(leaves, avals), *items, loop=loop)[loop.first :]
    return structure.unflatten(outs[:n]), outs[n:]


def _while(test: Callable[[Any], Any], f: Callable[[Any], Any], carry: Any) -> Any:
    return _looped(lambda value, _: (f(value), []), carry, test=test)[0]


def row_of(x: Any, i: Any) -> Any:
    shape = aval_of(x).shape
    return reshape(dynamic_slice(x, (i, *[np.int64(0)] * (len(shape) - 1)), (1, *shape[1:])), shape=shape[1:])


def with_row(x: Any, i: Any, row: Any) -> Any:
    shape = aval_of(x).shape
    return dynamic_update_slice(x, reshape(row, shape=(1, *shape[1:])), (i, *[np.int64(0)] * (len(shape) - 1)))


def _first_row(x: Any) -> Any:
    return reshape(static_slice(x, 0, 1), shape=aval_of(x).shape[1:])


# ---------------------------------------------------------------- forward


def linearize(primals: Sequence[Any], tangents: Sequence[Any], loop: Loop) -> tuple[list, list] | None:
    """(outputs, tangents) of a loop with a budget; None if it needs none."""
    tangents = loop.counted(tangents)[1]
    nonzero = tuple([t is not None for t in tangents])
    body = linear_body(loop, nonzero)
    plan = _plan(loop, nonzero, body)
    if plan is None:
        return None
    count, consts, carry, xs = loop.parts(primals)
    forward = _forward if loop.cond is None else _forward_while
    outs, kept = forward(plan, count, consts, carry, xs)
    out_nonzero = [*[False] * loop.first, *loop.carried(body.nonzero), *body.ys_nonzero]
    if not any(out_nonzero):
        return outs, [None] * len(out_nonzero)
    known = [*count, *consts, *kept, *xs, *outs[loop.first + loop.n_carry :]]
    ts = list(map(cleaned, compact(tangents)[0]))
    program, captured = _program(plan, [aval_of(v) for v in known], [aval_of(t) for t in ts])
    touts = recomputed_p(*captured, *known, *ts, jaxpr=program, plan=plan)
    return outs, scatter(touts, out_nonzero)


def _forward(plan: Plan, count: list, consts: list, carry: list, xs: list) -> tuple[list, list]:
    """Of a loop of known length: the outputs; the slots, and the state in front of the rest, if there is one."""
    loop, n_carry, k = plan.loop, plan.loop.n_carry, len(consts)
    parts = [plan.parts(x) for x in xs]
    turns = plan.turns(loop.body, k, n_carry, plan.size)

    def step(state: Any, row: Any) -> Any:
        slots, carry = state
        slots = [with_row(s, row[0], c) for s, c in zip(slots, carry)]
        outs = loop_p(*consts, *carry, *row[1], loop=turns)
        return (slots, outs[:n_carry]), outs[n_carry:]

    kept = np.full(plan.blocks, plan.slots, INT)
    for slot, block in enumerate(plan.kept()):
        kept[block] = slot
    rows = (plan.ordered(kept), [blocks for blocks, _ in parts])
    state = [broadcast_leading(c, plan.slots + 1) for c in carry], carry
    (slots, carry), ys = _looped(step, state, rows, plan.blocks, loop.reverse)
    if not plan.rest:
        return [*carry, *[plan.joined(y, None) for y in ys]], list(slots)
    turns = plan.turns(loop.body, k, n_carry, plan.rest)
    outs = loop_p(*consts, *carry, *[r for _, r in parts], loop=turns)
    return [*outs[:n_carry], *[plan.joined(y, r) for y, r in zip(ys, outs[n_carry:])]], [*slots, *carry]


def _forward_while(plan: Plan, count: list, consts: list, carry: list, xs: list) -> tuple[list, list]:
    """Of a loop with a condition: the outputs; how many turns, where the states are, and the slots."""
    loop, n = plan.loop, plan.slots
    goes_on = lambda carry: eval_jaxpr(loop.cond, [*count, *carry])[0]

    def turn(value: Any) -> Any:
        done, limit, carry = value
        return add(done, ONE), limit, eval_jaxpr(loop.body, [*consts, *carry])

    def block(value: Any) -> Any:
        done, every, pos, slots, carry = value
        every = select(ge(reduce_min(pos, axes=(0,)), ZERO), mul(every, np.int64(2)), every)
        kept = eq(mod(pos, broadcast_leading(every, n)), np.zeros(n, np.int64))
        pos = select(kept, pos, np.full(n, FREE))
        room = and_(lt(reduce_min(pos, axes=(0,)), ZERO), eq(mod(done, every), ZERO))
        slot = select(and_(room, gt(done, ZERO)), argmin(pos, axis=0), np.int64(n))
        slots = [with_row(s, slot, c) for s, c in zip(slots, carry)]
        limit = mul(add(floor_divide(done, every), ONE), every)
        more = lambda value: and_(lt(value[0], value[1]), goes_on(value[2]))
        after, _, carry = _while(more, turn, (done, limit, carry))
        pos = select(eq(np.arange(n), broadcast_leading(slot, n)), broadcast_leading(done, n), pos)
        return after, every, pos, slots, carry

    pos = np.full(n, FREE)
    pos[0] = 0
    start = (ZERO, np.int64(plan.size), pos, [broadcast_leading(c, n + 1) for c in carry], list(carry))
    done, every, pos, slots, carry = _while(lambda value: goes_on(value[4]), block, start)

    def placed(value: Any, row: Any) -> Any:  # the states are in front of turns 0, every, 2 every, ...
        order, free = value
        slot, turn = row
        is_free = lt(turn, ZERO)
        order = with_row(order, select(is_free, free, floor_divide(turn, every)), slot)
        return (order, add(free, convert(is_free, INT))), [mul(slot, apart)]

    used = reduce_sum(convert(ge(pos, broadcast_leading(ZERO, n)), INT), axes=(0,))
    apart = floor_divide(every, np.int64(plan.size))
    (order, _), (blocks,) = _looped(placed, (np.full(n + 1, n), used), (np.arange(n), pos), n)
    return [done, *carry], [done, order, concatenate([blocks, broadcast_leading(ZERO, 1)], axis=0), used, *slots]


def _known_parts(plan: Plan, values: Sequence[Any]) -> list[list[Any]]:
    """(captured), what counts, consts, [count, slots, positions, how many], slots, state before the rest, xs, ys, tangents."""
    loop = plan.loop
    rest, where, xs = loop.n_carry if plan.rest else 0, 4 * loop.first, len(plan.nonzero) - loop.n_consts - loop.n_carry
    sizes = [loop.n_counts, loop.n_consts, where, loop.n_carry, rest, xs, loop.n_ys]
    return split(values, len(values) - sum(sizes) - sum(plan.nonzero), *sizes)


def _program(plan: Plan, known: Sequence[Any], ts: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
    """What `recomputed` stands for: tangents, from the start."""
    loop = plan.loop

    def tangents(*values: Any) -> list[Any]:
        _, count, consts, _, slots, _, xs, _, ts = _known_parts(plan, values)
        given = iter(ts)
        full = [*[None] * len(count), *[next(given) if z else None for z in plan.nonzero]]
        plain = loop._replace(body=quiet_body(loop.body, loop.name), budget=loop.budget if loop.cond is None else None)
        primals = [*count, *consts, *map(_first_row, slots), *xs]
        return [cleaned(t) for t in loop_p.primal_and_jvp(primals, full, loop=plain)[1] if t is not None]

    key = ("recomputed", plan, tuple(known), tuple(ts))
    avals = [*map(strip_literal, known), *[Aval(a.shape, a.dtype) for a in ts]]
    return memoised(loop.body, key, lambda: trace_function(tangents, avals, name=loop.name, abstract=False))


# ---------------------------------------------------------------- backward


class _Residual(NamedTuple):
    """Stands for what the turns keep, which is computed again block by block."""

    i: int


def _transpose(cts: Sequence[Any], *inputs: Any, jaxpr: Jaxpr, plan: Plan) -> list[Any]:
    loop = plan.loop
    captured, count, consts, where, slots, before, xs, ys, ts = _known_parts(plan, inputs)
    if not all(map(is_linear, ts)) or any(map(is_linear, inputs[: len(inputs) - len(ts)])):
        return call_p.transpose(cts, *inputs, jaxpr=jaxpr, name=loop.name)
    body = linear_body(loop, plan.nonzero)
    given = iter(ts)
    tconsts, tcarry, txs = loop.split([next(given) if z else None for z in plan.nonzero])
    wanted = loop.carried(body.nonzero)
    start = filled_tangents(loop, tcarry, wanted)
    consts_given = [*body.const_residuals(consts), *compact(tconsts)[0]]
    residuals = [_Residual(i) for i in range(len(_residuals(loop, body)))]
    read = {"x": xs, "y": ys}
    items = [*[read[kind][i] for kind, i in body.xs_sources], *residuals, *compact(txs)[0]]
    operands = [*consts_given, *start, *items]
    linear = Loop(body.linear, len(consts_given), len(start), loop.length, loop.reverse)
    every, full = (*wanted, *body.ys_nonzero), iter(cts)
    mine = [ct for ct, z in zip([next(full) if z else None for z in every], every) if z]
    states = _States(plan, consts, where, slots, [plan.parts(x)[0] for x in xs])
    run = partial(_backwards, states, body, [*body.captured, *consts], before, xs)
    found = transpose_linear(linear, mine, operands, tuple(map(is_linear, operands)), run)
    return [*[None] * (len(inputs) - len(ts)), *[ct for o, ct in zip(operands, found) if is_linear(o)]]  # in the order of ts


class _States:
    """The states that are kept, as a stack: `start` is `(positions, how many, slots)`."""

    def __init__(self, plan: Plan, consts: list[Any], where: list[Any], slots: list[Any], blocks: list[Any]):
        self.plan, self.consts, self.blocks = plan, consts, blocks
        near = [*consts, *slots]
        self.count, self.order, positions, used = where or [None, *on_device_of(plan.where(), near)]
        self.start = positions, used, slots
        self.table = plan.table()
        body, n = quiet_body(plan.loop.body, plan.loop.name), plan.loop.n_carry
        self.advancing = memoised(body, ("carry", n), lambda: rewire(body, body.inputs, body.outputs[:n]))

    def advanced(self, state: list[Any], block: Any, end: Any) -> list[Any]:
        """The state in front of block `end`, from the one in front of another."""
        turns = self.plan.turns(self.advancing, len(self.consts), len(state), self.plan.size)
        last = np.int64(self.plan.blocks - 1)

        def one(value: Any) -> Any:
            i, end, state = value
            row = sub(last, i) if self.plan.loop.reverse else i
            state = loop_p(*self.consts, *state, *[row_of(b, row) for b in self.blocks], loop=turns)
            return add(i, ONE), end, state

        return _while(lambda v: lt(v[0], v[1]), one, (block, end, state))[2]  # type: ignore[no-any-return]

    def nearest(self, value: Any) -> tuple[Any, list[Any]]:
        """Where the last state is, and the state."""
        positions, used, slots = value
        i = sub(used, ONE)
        return row_of(positions, i), [row_of(s, row_of(self.order, i)) for s in slots]

    def reached(self, target: Any, value: Any) -> tuple[Any, list[Any]]:
        """The stack without what is behind that block, with states on the way to it, and the state in front of it."""
        positions, used, slots = value
        used = sub(used, convert(gt(self.nearest(value)[0], target), INT))

        def nearer(value: Any) -> Any:
            target, (positions, used, slots) = value
            place, state = self.nearest((positions, used, slots))
            room = sub(np.int64(self.plan.slots + 1), used)
            end = add(place, _middle(self.table, add(sub(target, place), ONE), room))
            slot = row_of(self.order, used)
            slots = [with_row(s, slot, c) for s, c in zip(slots, self.advanced(state, place, end))]
            return target, (with_row(positions, used, end), add(used, ONE), slots)

        def more(value: Any) -> Any:
            target, (positions, used, slots) = value
            return and_(lt(row_of(positions, sub(used, ONE)), target), lt(used, np.int64(self.plan.slots)))

        _, value = _while(more, nearer, (target, (positions, used, slots)))
        return value, self.advanced(self.nearest(value)[1], self.nearest(value)[0], target)


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


def _backwards(
    states: _States,
    body: LinearBody,
    given: list[Any],
    before: list[Any],
    xs: list[Any],
    reversed_body: Jaxpr,
    reversed_consts: list[Any],
    carry: list[Any],
    items: Sequence[Any],
) -> list[Any]:
    """The reversed loop, whose residuals come block by block."""
    plan, loop, n = states.plan, states.plan.loop, len(carry)
    quiet, n_outputs = quiet_body(body.forward, loop.name), len(loop.body.outputs)

    def make() -> Jaxpr:  # without the results that are known
        return rewire(quiet, quiet.inputs, [*quiet.outputs[: loop.n_carry], *quiet.outputs[n_outputs:]])

    keeping = memoised(quiet, ("residuals", loop.n_carry, n_outputs), make)
    parts = [plan.parts(x) for x in items if type(x) is not _Residual]
    x_parts = [plan.parts(x) for x in xs]

    def reverse(state: list, x: list, others: list, carry: list, length: int | None, *count: Any) -> list[Any]:
        turns = plan.turns(keeping, len(given), loop.n_carry, length)
        residuals = loop_p(*count, *given, *state, *x, loop=turns)[loop.n_carry :]
        rest = iter(others)
        mine = [residuals[item.i] if type(item) is _Residual else next(rest) for item in items]
        turns = plan.turns(reversed_body, len(reversed_consts), n, length, back=True)
        return loop_p(*count, *reversed_consts, *carry, *mine, loop=turns)

    def step(value: Any, row: Any) -> Any:
        kept, carry = value
        block, x, others = row
        kept, state = states.reached(block, kept)
        outs = reverse(state, x, others, carry, plan.size)
        return (kept, outs[:n]), outs[n:]

    kept, last = states.start, []
    if loop.length is not None:
        if plan.rest:
            outs = reverse(before, [r for _, r in x_parts], [r for _, r in parts], carry, plan.rest)
            carry, last = outs[:n], outs[n:]
        rows = plan.ordered(np.arange(plan.blocks)), [b for b, _ in x_parts], [b for b, _ in parts]
        (_, carry), ys = _looped(step, (kept, carry), rows, plan.blocks, not loop.reverse)
        return [*carry, *[plan.joined(y, r) for y, r in zip(ys, last or [None] * len(ys))]]
    size = np.int64(plan.size)
    end = maximum(floor_divide(sub(states.count, ONE), size), ZERO)  # the last block, which may have fewer turns
    kept, state = states.reached(end, kept)
    carry = reverse(state, [], [], carry, None, sub(states.count, mul(end, size)))

    def one(value: Any) -> Any:
        end, kept, carry = value
        end = sub(end, ONE)
        (kept, carry), _ = step((kept, carry), (end, [], []))
        return end, kept, carry

    return list(_while(lambda value: gt(value[0], ZERO), one, (end, kept, carry))[2])


def _as_call(rule: Any) -> Callable[..., Any]:
    return lambda *args, jaxpr, plan: rule(*args, jaxpr=jaxpr, name=plan.loop.name)


# stands for the call of a program of tangents, whose transpose runs the loop again in pieces
recomputed_p = Primitive(
    "recomputed",
    lambda xp, *args, jaxpr, plan: run_jaxpr(jaxpr, args),
    lambda *avals, jaxpr, plan: jaxpr.out_avals,
    primal_and_jvp=_as_call(call_p.primal_and_jvp),
    linearize=_as_call(call_p.linearize),
    partial_eval=_as_call(call_p.partial_eval),
    transpose=_transpose,
    batch=_as_call(call_p.batch),
    multiple=True,
    may_share=True,
)
