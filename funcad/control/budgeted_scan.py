"""Reverse mode of a `scan` with a memory budget: some states are kept, the turns between them are run again.

Idea: the turns go in blocks. On the way forward the states that the schedule names (reversal_schedules.py) are kept; on the
way back each block is run again from its state, now with its residuals, and then in reverse. The linear equation of the loop
is `recomputed`, whose program computes tangents from the start, and whose transpose walks the schedule. That is one loop over
the blocks, its tables among the xs, and in it a loop over the blocks that are advanced before; so all engines run it.

Invariant: the reversed body is the one of an ordinary scan, with its sums and masks as carry; only how its residuals come about
differs, so gradients are the same to the last bit. Trap: the linear equation keeps its schedule as long as nothing but its
transpose is asked for; mapped or differentiated itself it is the program that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.engines import run_jaxpr
from funcad.control.body import LinearBody, linear_body
from funcad.control.call import call_p, compact, memoised, rewire, scatter, strip_literal
from funcad.control.checkpoint import without_effects
from funcad.control.reversal_schedules import Schedule, blocks_of, schedule
from funcad.control.scan import run_scan
from funcad.control.scan_rules import filled_tangents, scan_p, transpose_linear
from funcad.control.while_loop import run_while
from funcad.ir.aval import Aval, aval_of
from funcad.ir.jaxpr import Jaxpr, split
from funcad.ir.primitive import Primitive, is_linear
from funcad.ir.trace import trace_function
from funcad.masks.masked_rules import cleaned
from funcad.primitives.arithmetic import add
from funcad.primitives.basic_indexing import static_slice
from funcad.primitives.comparison import lt
from funcad.primitives.computed_slices import dynamic_slice, dynamic_update_slice
from funcad.primitives.loop import Loop
from funcad.primitives.placement import on_device_of
from funcad.primitives.shape import broadcast_leading, concatenate, reshape


class _ScanPlan(NamedTuple):
    """How a loop is run backwards: so many turns to a block, so many slots, and which inputs have tangents."""

    loop: Loop
    size: int
    slots: int
    nonzero: tuple[bool, ...]  # of the operands, as given

    @property
    def blocks(self) -> int:
        return (self.loop.length or 0) // self.size

    @property
    def rest(self) -> int:
        """The turns after the blocks."""
        return (self.loop.length or 0) % self.size

    def turns(self, body: Jaxpr, n_consts: int, n_carry: int, length: int) -> Loop:
        return Loop(body, n_consts, n_carry, length, self.loop.reverse)

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

    def schedule(self) -> Schedule:
        """With numbers of blocks, and tables by blocks, in the order of the xs."""
        found = schedule(self.blocks, self.slots)
        if not self.loop.reverse:
            return found
        by_block = {name: getattr(found, name)[::-1] for name in ("kept", "first", "last", "start")}
        return found._replace(block=[self.blocks - 1 - i for i in found.block], **by_block)


def size_in_bytes(avals: Sequence[Any]) -> float:
    return float(sum([a.size * a.dtype.itemsize for a in avals]))


def _residuals(loop: Loop, body: LinearBody) -> Sequence[Any]:
    return body.forward.outputs[len(loop.body.outputs) :]


def _plan(loop: Loop, nonzero: tuple[bool, ...], body: LinearBody) -> _ScanPlan | None:
    """None if the residuals of all turns fit."""
    n, budget = loop.length or 0, loop.budget or 0
    kept = size_in_bytes([o.aval for o in _residuals(loop, body)])
    if n * kept <= budget:
        return None
    state = size_in_bytes(loop.carried([strip_literal(a) for a in loop.body.in_avals]))
    results = size_in_bytes([o.aval for o in loop.body.outputs[loop.n_carry :]])
    found = blocks_of(n, state, kept + results, budget)
    if found is None:
        least = 2 * state + kept + results
        raise ValueError(
            f"scan: a memory budget of {budget:,} bytes is too small to run this loop backwards: one state of its carry takes "
            f"{state:,.0f} bytes, and what one turn keeps {kept + results:,.0f}.\n"
            f"Remedy: give it {least:,.0f} bytes at least; from "
            f"{n * kept:,.0f} on nothing is computed again."
        )
    return _ScanPlan(loop, *found, nonzero)


def row_of(x: Any, i: Any) -> Any:
    shape = aval_of(x).shape
    return reshape(dynamic_slice(x, (i, *[np.int64(0)] * (len(shape) - 1)), (1, *shape[1:])), shape=shape[1:])


def with_row(x: Any, i: Any, row: Any) -> Any:
    shape = aval_of(x).shape
    return dynamic_update_slice(x, reshape(row, shape=(1, *shape[1:])), (i, *[np.int64(0)] * (len(shape) - 1)))


def _table(*columns: list[int]) -> list[Any]:
    return [np.array(column, np.int64) for column in columns]


def quiet_body(jaxpr: Jaxpr, what: str = "scan") -> Jaxpr:
    """A program that has run before: what it prints was printed."""
    quiet = without_effects(jaxpr)
    if quiet.has_effects:
        raise NotImplementedError(
            f"{what}: the body uses results of an io_callback or of a collective between processes, so it cannot be run "
            "again for a memory budget.\nRemedy: leave the policy out, or call them outside of the loop; "
            "debug.print and debug.callback are allowed."
        )
    return quiet


# ---------------------------------------------------------------- forward


def linearize(primals: Sequence[Any], tangents: Sequence[Any], loop: Loop) -> tuple[list, list] | None:
    """(outputs, tangents) of a loop with a budget; None if it needs none."""
    nonzero = tuple([t is not None for t in tangents])
    body = linear_body(loop, nonzero)
    plan = _plan(loop, nonzero, body)
    if plan is None:
        return None
    consts, carry, xs = loop.split(primals)
    n_carry, k = loop.n_carry, len(consts)
    parts = [plan.parts(x) for x in xs]
    turns = plan.turns(loop.body, k, n_carry, plan.size)

    def step(state: Any, row: Any) -> Any:
        slots, carry = state
        slots = [with_row(s, row[0], c) for s, c in zip(slots, carry)]
        outs = scan_p(*consts, *carry, *row[1], loop=turns)
        return (slots, outs[:n_carry]), outs[n_carry:]

    slots = [broadcast_leading(c, plan.slots + 1) for c in carry]
    (kept,) = _table(plan.schedule().kept)
    rows = (kept, [blocks for blocks, _ in parts])
    (slots, carry), ys = run_scan("scan", step, (slots, carry), rows, None, loop.reverse, 1, staging=False)
    before = carry
    if plan.rest:
        rest = [r for _, r in parts]
        outs = scan_p(*consts, *carry, *rest, loop=plan.turns(loop.body, k, n_carry, plan.rest))
        carry, last = outs[:n_carry], outs[n_carry:]
        ys = [plan.joined(y, r) for y, r in zip(ys, last)]
    else:
        ys = [plan.joined(y, None) for y in ys]
    out_nonzero = [*loop.carried(body.nonzero), *body.ys_nonzero]
    if not any(out_nonzero):
        return [*carry, *ys], [None] * len(out_nonzero)
    known = [*consts, *slots, *(before if plan.rest else []), *xs, *ys]
    ts = list(map(cleaned, compact(tangents)[0]))
    program, captured = _program(plan, [aval_of(v) for v in known], [aval_of(t) for t in ts])
    touts = recomputed_p(*on_device_of(captured, primals), *known, *ts, jaxpr=program, plan=plan)
    return [*carry, *ys], scatter(touts, out_nonzero)


def _known_parts(plan: _ScanPlan, values: Sequence[Any]) -> list[list[Any]]:
    """(captured), consts, slots, state before the rest, xs, ys, tangents."""
    loop = plan.loop
    k, m, xs = loop.n_consts, loop.n_carry, len(loop.body.inputs) - loop.n_consts - loop.n_carry
    n = k + m + (m if plan.rest else 0) + xs + loop.n_ys + sum(plan.nonzero)
    return split(values, len(values) - n, k, m, m if plan.rest else 0, xs, loop.n_ys)


def _program(plan: _ScanPlan, known: Sequence[Any], ts: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
    """What `recomputed` stands for: tangents, from the start."""
    loop = plan.loop

    def tangents(*values: Any) -> list[Any]:
        _, consts, slots, _, xs, _, ts = _known_parts(plan, values)
        given = iter(ts)
        full = [next(given) if z else None for z in plan.nonzero]
        quiet = loop._replace(body=quiet_body(loop.body))
        primals = [*consts, *[first_row(s) for s in slots], *xs]
        return [cleaned(t) for t in scan_p.primal_and_jvp(primals, full, loop=quiet)[1] if t is not None]

    key = ("recomputed", plan, tuple(known), tuple(ts))
    avals = [*map(strip_literal, known), *[Aval(a.shape, a.dtype) for a in ts]]
    return memoised(loop.body, key, lambda: trace_function(tangents, avals, name="scan", abstract=False))


def first_row(slots: Any) -> Any:
    """The first state."""
    return reshape(static_slice(slots, 0, 1), shape=aval_of(slots).shape[1:])


# ---------------------------------------------------------------- backward


class _ScanResidual(NamedTuple):
    """Stands for what the turns keep, which is computed again block by block."""

    i: int


def _transpose(cts: Sequence[Any], *inputs: Any, jaxpr: Jaxpr, plan: _ScanPlan) -> list[Any]:
    loop = plan.loop
    captured, consts, slots, before, xs, ys, ts = _known_parts(plan, inputs)
    if not all(map(is_linear, ts)) or any(map(is_linear, [*captured, *consts, *slots, *before, *xs, *ys])):
        return call_p.transpose(cts, *inputs, jaxpr=jaxpr, name="scan")
    body = linear_body(loop, plan.nonzero)
    shared = on_device_of(body.captured, inputs)
    given = iter(ts)
    tconsts, tcarry, txs = loop.split([next(given) if z else None for z in plan.nonzero])
    wanted = loop.carried(body.nonzero)
    start = filled_tangents(loop, tcarry, wanted, inputs)
    invariant = body.const_residuals(shared, consts)
    residuals = [_ScanResidual(i) for i in range(len(_residuals(loop, body)))]
    where = {"x": xs, "y": ys}
    read = [*[where[kind][i] for kind, i in body.xs_sources], *residuals, *compact(txs)[0]]
    operands = [*invariant, *compact(tconsts)[0], *start, *read]
    linear = loop._replace(body=body.linear, n_consts=len(operands) - len(start) - len(read), n_carry=len(start), budget=None)
    full = iter(cts)
    every = [next(full) if z else None for z in (*wanted, *body.ys_nonzero)]
    mine = [ct for ct, z in zip(every, (*wanted, *body.ys_nonzero)) if z]
    run = partial(_backwards, plan, body, [*shared, *consts], consts, slots, before, xs)
    found = transpose_linear(linear, mine, operands, tuple(map(is_linear, operands)), run)
    return [*[None] * (len(inputs) - len(ts)), *[ct for o, ct in zip(operands, found) if is_linear(o)]]  # in the order of ts


def _backwards(
    plan: _ScanPlan,
    body: LinearBody,
    given: list[Any],
    consts: list[Any],
    slots: list[Any],
    before: list[Any],
    xs: list[Any],
    reversed_body: Jaxpr,
    reversed_consts: list[Any],
    carry: list[Any],
    items: Sequence[Any],
) -> list[Any]:
    """The reversed loop, whose residuals come block by block."""
    loop, n_carry = plan.loop, plan.loop.n_carry
    n_outputs, n = len(loop.body.outputs), len(carry)
    keeping = memoised(body.forward, ("residuals", n_carry, n_outputs), lambda: _without(body.forward, n_carry, n_outputs))
    advancing = memoised(loop.body, ("residuals", n_carry, n_outputs), lambda: _without(loop.body, n_carry, n_outputs))
    arrays = [x for x in items if type(x) is not _ScanResidual]
    parts, x_parts = [plan.parts(x) for x in arrays], [plan.parts(x) for x in xs]
    blocks = [b for b, _ in x_parts]

    def reverse(state: list[Any], x: list[Any], others: list[Any], carry: list[Any], length: int) -> list[Any]:
        residuals = scan_p(*given, *state, *x, loop=plan.turns(keeping, len(given), n_carry, length))[n_carry:]
        rest = iter(others)
        mine = [residuals[item.i] if type(item) is _ScanResidual else next(rest) for item in items]
        turns = plan.turns(reversed_body, len(reversed_consts), n, length)
        return scan_p(*reversed_consts, *carry, *mine, loop=turns._replace(reverse=not loop.reverse))

    last: list[Any] = []
    if plan.rest:
        outs = reverse(before, [r for _, r in x_parts], [r for _, r in parts], carry, plan.rest)
        carry, last = outs[:n], outs[n:]
    moves = plan.schedule()
    first, stop, start = _table(moves.first, moves.last, moves.start)
    source, block, target = _table(moves.source, moves.block, moves.target)
    turns = plan.turns(advancing, len(consts), n_carry, plan.size)

    def advance(value: Any) -> Any:
        j, slots, stop = value
        state = [row_of(s, row_of(source, j)) for s in slots]
        state = scan_p(*consts, *state, *[row_of(b, row_of(block, j)) for b in blocks], loop=turns)
        return add(j, np.int64(1)), [with_row(s, row_of(target, j), c) for s, c in zip(slots, state)], stop

    def step(value: Any, row: Any) -> Any:
        slots, carry = value
        (first, stop, start), x, others = row
        if len(moves.source):
            goes_on: Callable[[Any], Any] = lambda value: lt(value[0], value[2])
            _, slots, _ = run_while("scan", goes_on, advance, (first, slots, stop), ("carry", "carry"))
        outs = reverse([row_of(s, start) for s in slots], x, others, carry, plan.size)
        return (slots, outs[:n]), outs[n:]

    rows = ((first, stop, start), blocks, [b for b, _ in parts])
    (_, carry), ys = run_scan("scan", step, (slots, carry), rows, plan.blocks, not loop.reverse, 1, staging=False)
    return [*carry, *[plan.joined(y, r) for y, r in zip(ys, last or [None] * len(ys))]]


def _without(jaxpr: Jaxpr, start: int, stop: int) -> Jaxpr:
    """A body run again, without the results that are known."""
    quiet = quiet_body(jaxpr)
    return rewire(quiet, quiet.inputs, [*quiet.outputs[:start], *quiet.outputs[stop:]])


def run_again(name: str, loop: str, transpose: Any) -> Primitive:
    """A primitive that stands for a program's call, whose transpose runs it again in pieces; `loop`: what users call it."""
    return Primitive(
        name,
        lambda xp, *args, jaxpr, plan: run_jaxpr(jaxpr, args),
        lambda *avals, jaxpr, plan: jaxpr.out_avals,
        primal_and_jvp=lambda ps, ts, *, jaxpr, plan: call_p.primal_and_jvp(ps, ts, jaxpr=jaxpr, name=loop),
        linearize=lambda ps, ts, *, jaxpr, plan: call_p.linearize(ps, ts, jaxpr=jaxpr, name=loop),
        partial_eval=lambda linear, *, jaxpr, plan: call_p.partial_eval(linear, jaxpr=jaxpr, name=loop),
        transpose=transpose,
        batch=lambda size, args, batched, *, jaxpr, plan: call_p.batch(size, args, batched, jaxpr=jaxpr, name=loop),
        multiple=True,
        may_share=True,
    )


recomputed_p = run_again("recomputed", "scan", _transpose)
