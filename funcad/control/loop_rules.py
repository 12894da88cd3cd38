"""The rules of the primitive behind `scan` and `while_loop`: one body, run again and again. Importing this says them.

`loop_p(consts, carry, xs) -> (carry, ys)` runs over the leading axis of its inputs; with `length=None` it is a loop of unknown
length, whose xs and ys are stacks: a leading operand counts the turns, or those of a condition stand there, and how often it
held stands in front of the results (see primitives/loop.py). A rule says what it does to the body; `_run` runs as many turns of
the new one. Linearized, a loop with a condition says how many turns it has made and leaves its residuals on stacks; its
tangents are a loop of as many turns, so both have all orders.

Derived bodies are memoised on the body. Traps: loop-invariant residuals are passed, not stacked; an instantiated zero tangent
is a known value in a linear position: its cotangent is dropped. Under vmap lanes may turn differently often: the loop runs
until all have stopped; one that has keeps its carry, its tangents are the identity, and its share of the work is done on the
inputs of a lane that still runs (see primitives/lanes.py), so it neither fails nor loops for ever. A loop with effects is then
run lane by lane instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from funcad.backends.engines import loop_program
from funcad.control import loop_reversal
from funcad.control.body import LinearBody, jvp_body, linear_body
from funcad.control.call import compact, fixpoint, interned, memoised, rewire, scatter
from funcad.control.loop_run import in_python
from funcad.errors import MissingRuleError
from funcad.host.where import state
from funcad.ir.aval import Aval, StackAval, aval_of, strip_literal
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, Var, split
from funcad.ir.primitive import is_linear
from funcad.ir.trace import trace_function
from funcad.masks.masks import WHOLE, begins_within, clean
from funcad.primitives.arithmetic import add
from funcad.primitives.comparison import and_, lt
from funcad.primitives.conversion import convert
from funcad.primitives.lanes import any_lane, pick_lanes, select_lanes
from funcad.primitives.loop import COUNT, Loop, lead, loop_p
from funcad.primitives.placement import on_device_of
from funcad.primitives.reduction import reduce_max
from funcad.primitives.shape import broadcast_leading, transpose
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.partial import partial_jaxpr, unknown_outputs

from funcad.control.backward_bodies import (  # isort: skip
    SplitBody, filled_tangents, linear_operands, loop_needs, masked_backward, masked_forward, read_operands, split_body,
    transpose_linear, unmasked,
)

# ---------------------------------------------------------------- running


def _impl(xp: Any, *args: Any, loop: Loop) -> list:
    if xp is np:
        compiled = loop_program(args, loop)
        if compiled is not None:
            return compiled(list(args))
    return _in_python(xp, *args, loop=loop)


def _in_python(xp: Any, *args: Any, loop: Loop) -> list:
    return in_python(xp, args, loop, partial(_compiled, loop))


def _compiled(loop: Loop, values: list[Any]) -> Any:
    """The results of the loop by its program, or None; it has turned so often that it is compiled."""
    run = loop_program(values, loop)
    return None if run is None else run(values)


def _run(
    loop: Loop, count: Sequence[Any], body: Jaxpr, consts: list[Any], carry: list[Any], xs: Sequence[Any] = (), cond: Any = None
) -> list[Any]:
    """As many turns of a body that was derived from that of the loop; `cond`: where more changes than what is carried."""
    if loop.cond is not None and cond is None:
        cond = _with_more_carry(loop.cond, [v.aval for v in body.inputs[len(consts) + loop.n_carry :]])
    new = loop.with_body(body, len(consts), len(carry), cond)
    return loop_p(*count, *consts, *carry, *xs, loop=new)


def _with_more_carry(cond: Jaxpr, avals: Sequence[Any]) -> Jaxpr:
    """The condition of a loop that carries more values, which it does not read."""
    if not avals:
        return cond
    key = ("more_carry", tuple(avals))
    return memoised(cond, key, lambda: rewire(cond, [*cond.inputs, *[Var(a) for a in avals]], cond.outputs))


# ---------------------------------------------------------------- forward mode and linearization


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, loop: Loop) -> tuple[list, list]:
    count, args = loop.counted(primals)
    ts = loop.counted(tangents)[1]
    found = masked_forward(loop, args, ts, partial(_run, loop, count))
    if found is not None:
        return found
    body = jvp_body(loop, tuple([t is not None for t in ts]))
    consts, carry, xs = loop.split(args)
    tconsts, tcarry, txs = loop.split(ts)
    wanted = loop.carried(body.nonzero)
    t_start = filled_tangents(loop, tcarry, wanted)
    given = [*body.captured, *consts, *compact(tconsts)[0]]
    outs = _run(loop, count, body.jaxpr, given, [*carry, *t_start], [*xs, *compact(txs)[0]])
    turns, carry_out, tcarry_out, ys, tys = split(outs, loop.first, loop.n_carry, len(t_start), loop.n_ys)
    touts = [*[None] * loop.first, *scatter(tcarry_out, wanted), *scatter(tys, body.ys_nonzero)]
    return [*turns, *carry_out, *ys], touts


def _linearize(primals: Sequence[Any], tangents: Sequence[Any], *, loop: Loop) -> tuple[list, list]:
    if loop.budget is not None and loop.keeps:
        found = loop_reversal.linearize(primals, tangents, loop)
        if found is not None:
            return found
    count, args = loop.counted(primals)
    ts = loop.counted(tangents)[1]
    body = linear_body(loop, tuple([t is not None for t in ts]))
    consts, carry, xs = loop.split(args)
    outs = _run(loop, count, body.forward, [*body.captured, *consts], carry, xs)
    turns, carry_out, ys, residuals = split(outs, loop.first, loop.n_carry, loop.n_ys)
    again, count = loop.over(primals, outs)
    touts = run_linear(again, body, count, args, ts, ys, residuals)
    return [*turns, *carry_out, *ys], [*[None] * loop.first, *touts]


def run_linear(
    loop: Loop,
    body: LinearBody,
    count: Sequence[Any],
    args: Sequence[Any],
    ts: Sequence[Any],
    ys: Sequence[Any],
    residuals: Sequence[Any],
) -> list[Any]:
    """The linear loop: tangents of the carry and of the ys (None: zero)."""
    wanted = loop.carried(body.nonzero)
    if not any(wanted) and not any(body.ys_nonzero):
        return [None] * (loop.n_carry + len(ys))
    consts, _, xs = loop.split(args)
    tconsts, tcarry, txs = loop.split(ts)
    given = [*body.const_residuals(consts), *compact(tconsts)[0]]
    t_start = filled_tangents(loop, tcarry, wanted)
    where = {"x": xs, "y": ys}
    read = [*[where[kind][i] for kind, i in body.xs_sources], *residuals, *compact(txs)[0]]
    outs = _run(loop, count, body.linear, given, t_start, read)
    return [*scatter(outs[: len(t_start)], wanted), *scatter(outs[len(t_start) :], body.ys_nonzero)]


# ---------------------------------------------------------------- transposition


def _transpose(cts: Sequence[Any], *inputs: Any, loop: Loop) -> list[Any]:
    """A loop whose carry is linear runs backwards; of another the known part runs first, which decides when to stop."""
    count, args = loop.counted(inputs)
    linear = tuple([is_linear(a) for a in args])
    flags, reads = _linear_parts(loop, tuple(map(is_linear, inputs)))
    if reads:
        raise MissingRuleError(
            "the condition of a while_loop reads a value in which the loop should be linear, so the loop has no transpose.\n"
            "Differentiate the loop (grad, vjp) instead of transposing it."
        )
    if loop.cond is None and all(loop.carried(flags)):
        found = transpose_linear(loop, cts, args, linear, partial(_run, loop._replace(reverse=not loop.reverse), count))
    else:
        found = _transpose_mixed(loop, cts, inputs, flags)
    return [*[None] * len(count), *[ct if is_lin else None for ct, is_lin in zip(found, linear)]]


def _linear_parts(loop: Loop, linear: tuple[bool, ...]) -> tuple[tuple[bool, ...], bool]:
    """Which operands of the body are linear in the course of the loop, and whether its condition reads such a value."""
    of_cond, of_body = loop.counted(linear)
    flags = linear_operands(loop, tuple(of_body))
    return flags, loop.cond is not None and unknown_outputs(loop.cond, (*of_cond, *loop.carried(flags)))[0]


def _needs(linear: tuple, wanted: tuple, *, loop: Loop) -> tuple:
    if loop.cond is not None:  # masks end here
        return (WHOLE,) * (1 + len(loop.body.outputs))
    flags, wanted = [tuple(loop.counted(x)[1]) for x in (linear, wanted)]
    return loop_needs(loop, linear_operands(loop, flags), wanted)


def _masked(cts: Any, masks: Any, wanted: Any, *inputs: Any, loop: Loop) -> list:
    count, args = loop.counted(inputs)
    linear = tuple([is_linear(a) for a in args])
    wanted = tuple(wanted[len(count) :])
    all_linear = loop.cond is None and all(loop.carried(linear_operands(loop, linear)))
    none = not any(masks) and not begins_within(loop.body)
    if all_linear and not none and not any(masks):
        none = unmasked(loop, linear, tuple([ct is not None for ct in cts]), wanted)
    if none or not all_linear:  # masks end here
        cts = [clean(ct, m) for ct, m in zip(cts, masks)]
        return [(ct, None) for ct in _transpose(cts, *inputs, loop=loop)]
    back = loop._replace(reverse=not loop.reverse)
    pairs = masked_backward(loop, cts, masks, wanted, args, linear, partial(_run, back, count))
    return [*[(None, None)] * len(count), *[p if is_lin else (None, None) for p, is_lin in zip(pairs, linear)]]


def _partial_eval(linear: tuple[bool, ...], *, loop: Loop) -> tuple:
    """What the loop computes without its linear operands: counters, and ys made of them."""
    flags, reads = _linear_parts(loop, linear)
    if reads:
        return (True,) * (loop.first + len(loop.body.outputs)), None
    out_linear = (*loop.carried(flags), *unknown_outputs(loop.body, flags)[loop.n_carry :])

    def run(args: Sequence[Any]) -> list[Any]:
        derived, captured, _ = partial_jaxpr(loop.body, flags, out_linear)
        count, outs = split(_run_known(loop, args, flags, derived, captured), loop.first)
        return [*count, *scatter(outs, [not f for f in out_linear])]

    return (*[False] * loop.first, *out_linear), run


def _split(linear: tuple[bool, ...], args: Sequence[Any], *, loop: Loop) -> list[Any]:
    flags, _ = _linear_parts(loop, linear)
    body = split_body(loop, flags, True)
    outs = _run_known(loop, args, flags, body.known, body.captured)
    again, count = loop.over(args, outs)
    return [*outs[: loop.first], *run_rest(again, count, loop.counted(args)[1], flags, body, outs[loop.first :])]


def run_rest(
    loop: Loop, count: Sequence[Any], args: Sequence[Any], flags: tuple[bool, ...], body: SplitBody, outs: Sequence[Any]
) -> list[Any]:
    """The linear part of a loop whose known part, with its ys, has given `outs`: the outputs of both."""
    carry_flags = loop.carried(flags)
    consts, carry, xs = loop.split(args)
    carry = [c for c, f in zip(carry, carry_flags) if f]
    values, residuals = split(outs, loop.n_carry - len(carry) + body.ys.count(False))
    consts = [*body.shared, *consts]
    program, used = read_operands(loop.with_body(body.linear, len(consts), len(carry)))
    groups = split(used, len(consts), len(carry))
    given, items = [[v for v, u in zip(*pair) if u] for pair in ((consts, groups[0]), ([*xs, *residuals], groups[2]))]
    return body.outputs(values, _run(loop, count, program, given, carry, items), carry_flags)


def _transpose_mixed(loop: Loop, cts: Sequence[Any], inputs: Sequence[Any], flags: tuple[bool, ...]) -> list[Any]:
    """Some of the carry is known (a counter, a primal): run that part first, keep what the linear part reads."""
    body = split_body(loop, flags, False)
    outs = _run_known(loop, inputs, flags, body.known, body.captured)
    residuals = outs[loop.first + loop.carried(flags).count(False) :]
    again, count = loop.over(inputs, outs)
    return transpose_with_residuals(again, cts[loop.first :], count, loop.counted(inputs)[1], flags, body, residuals)


def _run_known(
    loop: Loop, inputs: Sequence[Any], flags: tuple[bool, ...], known: Jaxpr, captured: Sequence[Any]
) -> list[Any]:
    """The part without the linear operands."""
    count, args = loop.counted(inputs)
    carry_flags, cond = loop.carried(flags), loop.cond

    def make() -> Jaxpr:
        of_cond, carried = loop.counted(cond.inputs)
        return rewire(cond, [*of_cond, *[v for v, f in zip(carried, carry_flags) if not f]], cond.outputs)

    test = None if cond is None else memoised(cond, ("known_carry", len(count), carry_flags), make)
    consts, carry, xs = [[x for x, f in zip(*pair) if not f] for pair in zip(loop.split(args), loop.split(flags))]
    return _run(loop, count, known, [*captured, *consts], carry, xs, test)


def transpose_with_residuals(
    loop: Loop,
    cts: Sequence[Any],
    count: Sequence[Any],
    args: Sequence[Any],
    flags: tuple[bool, ...],
    body: SplitBody,
    residuals: Sequence[Any],
) -> list[Any]:
    """Cotangents of all operands (None for known ones), given the residuals of the known part."""
    carry_flags = loop.carried(flags)
    consts, carry, xs = loop.split(args)
    carry = [c for c, f in zip(carry, carry_flags) if f]
    operands = [*body.shared, *consts, *carry, *xs, *residuals]
    wanted = [*[c for c, f in zip(cts, carry_flags) if f], *[c for c, f in zip(cts[loop.n_carry :], body.ys) if f]]
    if all(ct is None for ct in wanted):
        return [None] * len(args)
    linear = loop.with_body(body.linear, len(body.shared) + len(consts), len(carry))
    run = partial(_run, linear._replace(reverse=not linear.reverse), count)
    found = transpose_linear(linear, wanted, operands, tuple([is_linear(x) for x in operands]), run)
    by_const, by_carry, by_xs = linear.split(found)
    return [*by_const[len(body.shared) :], *scatter(by_carry, carry_flags), *by_xs[: len(xs)]]


# ---------------------------------------------------------------- batching


def _swap(x: Any) -> Any:
    """Exchange the batch axis and the scanned axis; entries of stacks have the batch axis in front already."""
    aval = aval_of(x)
    if type(aval) is StackAval:
        return x
    return transpose(x, perm=(1, 0, *range(2, len(aval.shape))))


def _batch(size: int, args: Sequence[Any], batched: Sequence[bool], *, loop: Loop) -> tuple[list, list]:
    count, operands = loop.counted(args)
    counted, flags = loop.counted(tuple(batched))
    test, tested = None, count
    if loop.cond is not None:
        full = _batched_flags(loop, size, tuple(flags))
        test, captured, on_lanes = batch_jaxpr(loop.cond, size, (*counted, *loop.carried(full)))
        if on_lanes[0]:
            apart = loop.cond.has_effects or loop.body.has_effects
            return (_batch_by_lane if apart else _batch_lanes)(loop, size, args, tuple(batched))
        tested = [*captured, *count]
    elif any(counted):
        return _batch_counts(loop, size, count[0], operands, tuple(flags))
    derived, captured, out_batched = batched_body(loop, size, tuple(flags))
    consts, carry, xs = loop.split(operands)
    _, carry_flags, xs_flags = loop.split(flags)
    carry = [lead(c, size) if o and not b else c for c, b, o in zip(carry, carry_flags, out_batched)]
    xs = [_swap(x) if b else x for x, b in zip(xs, xs_flags)]
    outs = _run(loop, tested, derived, [*captured, *consts], carry, xs, test)
    turns, carry, ys = split(outs, loop.first, loop.n_carry)
    ys = [_swap(y) if b else y for y, b in zip(ys, out_batched[loop.n_carry :])]
    return [*turns, *carry, *ys], [*[False] * loop.first, *out_batched]


def batched_body(loop: Loop, size: int, flags: tuple[bool, ...]) -> tuple[Jaxpr, list[Any], list[bool]]:
    """The body for `size` examples at once; a carry that becomes batched is batched from the start."""

    flags = _batched_flags(loop, size, flags)
    return batch_jaxpr(loop.body, size, flags, _forced(loop, flags))


def _forced(loop: Loop, flags: tuple[bool, ...]) -> tuple[bool, ...]:
    return (*loop.carried(flags), *[False] * loop.n_ys)


def _batched_flags(loop: Loop, size: int, flags: tuple[bool, ...]) -> tuple[bool, ...]:
    return fixpoint(flags, loop.n_consts, loop.n_carry, lambda f: batch_jaxpr(loop.body, size, f, _forced(loop, f))[2])


def _batch_counts(loop: Loop, size: int, count: Any, args: Sequence[Any], flags: tuple[bool, ...]) -> tuple[list, list]:
    """Lanes of different lengths: run the longest. A lane that is not in the loop keeps its carry and borrows its inputs, like
    in the loop that filled the stacks (on its own inputs and borrowed residuals it could divide by zero)."""
    n_consts, n_carry = loop.n_consts, loop.n_carry
    consts, carry, xs = loop.split(args)
    const_flags, carry_flags, xs_flags = loop.split(flags)
    carry = [c if b else lead(c, size) for c, b in zip(carry, carry_flags)]
    flags = (*const_flags, *[True] * n_carry, *xs_flags)
    derived, captured, out_batched = batch_jaxpr(loop.body, size, flags, (*[True] * n_carry, *[False] * loop.n_ys))
    longest = reduce_max(count, axes=(0,))
    step = -1 if loop.reverse else 1

    def make() -> tuple[Jaxpr, list[Any]]:
        def program(*values: Any) -> list[Any]:
            mine, (lengths,), cs, (i,), old, items = split(values, len(captured), 1, n_consts, 1, n_carry)
            running = lt(broadcast_leading(i, size), lengths)
            inputs = [pick_lanes(x, running) if b else x for x, b in zip([*cs, *old, *items], flags)]
            outs = eval_jaxpr(derived, [*mine, *inputs])
            new = [select_lanes(running, o, c) for o, c in zip(outs, old)]
            return [add(i, step), *new, *outs[n_carry:]]

        m = len(captured)
        avals = [strip_literal(a) for a in derived.in_avals]
        index = Aval((), np.dtype(np.int64))
        inputs = [*avals[:m], Aval((size,), index.dtype), *avals[m : m + n_consts], index, *avals[m + n_consts :]]
        return trace_function(program, inputs, name="vmap", abstract=False)

    body, more = memoised(derived, ("batched_counts", n_consts, n_carry, step), make)
    first = add(longest, -1) if loop.reverse else np.int64(0)
    outs = _run(loop, [longest], body, [*more, *captured, count, *consts], [first, *carry], xs)
    return outs[1:], [True] * n_carry + out_batched[n_carry:]


def _batch_lanes(loop: Loop, size: int, args: Sequence[Any], flags: tuple[bool, ...]) -> tuple[list, list]:
    """Lanes that stop at different times: carry which of them run, and how many iterations each has made."""
    n_cond, n_consts, n_carry = loop.n_counts, loop.n_consts, loop.n_carry
    cond_consts, consts, carry, _ = loop.parts(args)
    of_cond, of_consts, of_carry, _ = loop.parts(flags)
    carry = [c if b else lead(c, size) for c, b in zip(carry, of_carry)]
    cond_flags = (*of_cond, *[True] * n_carry)
    body_flags = (*of_consts, *[True] * n_carry)
    test, test_captured, _ = batch_jaxpr(loop.cond, size, cond_flags, (True,))
    step, captured, out_batched = batch_jaxpr(loop.body, size, body_flags, (*[True] * n_carry, *[False] * loop.n_ys))
    borrow = state.batching is None or state.batching not in loop.body.axis_names

    def make() -> tuple[Jaxpr, list[Any]]:
        m = len(test_captured)

        def program(*values: Any) -> list[Any]:
            test_consts, mine, cs, (running, trips), old = split(values, m + n_cond, len(captured), n_consts, 2)
            inputs = [*cs, *old]
            if borrow:
                inputs = [pick_lanes(x, running) if b else x for x, b in zip(inputs, body_flags)]
            outs = eval_jaxpr(step, [*mine, *inputs])
            new = [select_lanes(running, o, c) for o, c in zip(outs, old)]
            trips = add(trips, convert(running, COUNT.dtype))
            (again,) = eval_jaxpr(test, [*test_consts, *new])
            return [and_(running, again), trips, *new, *outs[n_carry:]]

        avals = [strip_literal(a) for a in step.in_avals]
        k = len(captured)
        mask, counts = Aval((size,), np.dtype(bool)), Aval((size,), COUNT.dtype)
        test_avals = [strip_literal(a) for a in test.in_avals[: m + n_cond]]
        inputs = [*test_avals, *avals[: k + n_consts], mask, counts, *avals[k + n_consts :]]
        return trace_function(program, inputs, name="vmap", abstract=False)

    key = ("lanes", test, n_cond, n_consts, cond_flags, borrow)
    whole, more = memoised(step, key, make)
    running = eval_jaxpr(test, [*on_device_of(test_captured, args), *cond_consts, *carry])[0]
    consts = [*more, *test_captured, *cond_consts, *captured, *consts]
    first = [running, np.zeros(size, np.int64), *carry]
    outs = _run(loop, [], whole, consts, first, cond=_any_running(whole, len(consts), n_carry))
    return outs[2:], [True, *[True] * n_carry, *out_batched[n_carry:]]


def _any_running(whole: Jaxpr, n_consts: int, n_carry: int) -> Jaxpr:
    """The condition of a loop whose first carry says which lanes run."""

    def make() -> Jaxpr:
        avals = [v.aval for v in whole.inputs[n_consts:]]
        return trace_function(lambda running, *rest: [any_lane(running)], avals, name="vmap", abstract=False)[0]

    return memoised(whole, ("any_running", n_consts, n_carry), make)


def _batch_by_lane(loop: Loop, size: int, args: Sequence[Any], flags: tuple[bool, ...]) -> tuple[list, list]:
    """A loop with effects: one lane after the other, so that a lane has only the effects of its own iterations."""
    if loop.n_ys:
        raise MissingRuleError(
            "vmap of the derivative of a while_loop whose body has effects, with a condition that differs between examples: "
            "the effects cannot be kept apart.\n"
            "Remedy: take the derivative outside (grad of a sum of vmap), or remove the effect."
        )
    outs = lane_by_lane(size, args, flags, loop_p, {"loop": loop})
    return outs, [True] * len(outs)


def lane_by_lane(size: int, args: Sequence[Any], flags: Sequence[bool], primitive: Any, params: dict) -> list[Any]:
    """Apply a primitive to one example after the other, as a scan."""
    shared = [a for a, b in zip(args, flags) if not b]
    items = [a for a, b in zip(args, flags) if b]

    def program(*values: Any) -> list[Any]:
        given, mine = iter(values[: len(shared)]), iter(values[len(shared) :])
        return primitive(*[next(mine) if b else next(given) for b in flags], **params)

    avals = [*map(aval_of, shared), *[aval_of(x).unbatched() for x in items]]
    jaxpr, captured = trace_function(program, list(map(strip_literal, avals)), name="vmap", abstract=True)
    consts = [*captured, *shared]
    return loop_p(*consts, *items, loop=Loop(interned(jaxpr), len(consts), 0, size))


loop_p.says(
    _impl,
    primal_and_jvp=_jvp,
    linearize=_linearize,
    partial_eval=_partial_eval,
    split=_split,
    transpose=_transpose,
    needs=_needs,
    masked=_masked,
    takes_masks=True,
    batch=_batch,
    multiple=True,
    may_share=True,
    ready=lambda *avals, loop: partial(_in_python if loop.keeps or loop.first else _impl, np, loop=loop),
)
