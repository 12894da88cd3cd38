"""The primitive behind `scan`: one body, run over the leading axis of its inputs, and all its rules.

`scan_p(consts, carry, xs) -> (carry, ys)`; with `length=None` it is the loop of unknown length: a leading operand counts the
iterations, and xs and ys are stacks (see primitives/loop.py). That is the linear half of `while_loop`, so these rules give
while loops reverse mode of every order. Derived bodies are memoised on the body. Traps: loop-invariant residuals are passed,
not stacked; an instantiated zero tangent is a known value in a linear position: its cotangent is dropped; a finished lane (of a
batched count) keeps its carry.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from funcad.backends.engines import loop_program
from funcad.control.backward_bodies import (
    SplitBody,
    backward_body,
    linear_operands,
    loop_needs,
    masked_backward,
    masked_forward,
    masks_itself,
    read_operands,
    split_body,
    unmasked,
)
from funcad.control.body import LinearBody, jvp_body, linear_body
from funcad.control.call import compact, fixpoint, memoised, scatter, stacked, strip_literal, zeros_near
from funcad.control.scan_run import scan_in_python
from funcad.ir.aval import Aval, StackAval, aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, split
from funcad.ir.primitive import Primitive, is_linear
from funcad.ir.trace import trace_function
from funcad.masks.masks import begins_within, clean
from funcad.primitives.arithmetic import add
from funcad.primitives.comparison import lt
from funcad.primitives.lanes import pick_lanes, select_lanes
from funcad.primitives.loop import Loop, lead
from funcad.primitives.placement import on_device_of
from funcad.primitives.reduction import reduce_max
from funcad.primitives.shape import broadcast_leading, transpose
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.partial import partial_jaxpr, unknown_outputs

# ---------------------------------------------------------------- running


def _impl(xp: Any, *args: Any, loop: Loop) -> list:
    if xp is np:
        compiled = loop_program(scan_p, args, loop)
        if compiled is not None:
            return compiled(list(args))
    return scan_in_python(xp, args, loop)


def _in_python(xp: Any, *args: Any, loop: Loop) -> list:
    return scan_in_python(xp, args, loop)


def _abstract(*avals: Any, loop: Loop) -> list:
    outs = loop.body.out_avals
    return [*map(strip_literal, outs[: loop.n_carry]), *[stacked(a, loop.length) for a in outs[loop.n_carry :]]]


def _run(loop: Loop, count: Sequence[Any], body: Jaxpr, consts: list[Any], carry: list[Any], xs: list[Any]) -> list[Any]:
    """As many turns of a body that was derived from that of the loop."""
    return scan_p(*count, *consts, *carry, *xs, loop=loop.with_body(body, len(consts), len(carry)))


# ---------------------------------------------------------------- forward mode and linearization


def filled_tangents(loop: Loop, tangents: Sequence[Any], wanted: Sequence[bool], near_to: Any) -> list:
    """The carry's tangents where wanted, zeros included."""
    avals = loop.carried(loop.body.in_avals)
    zeros = zeros_near([Aval(a.shape, a.dtype) if isinstance(a, Aval) else a for a in avals], near_to)
    return [z if t is None else t for t, w, z in zip(tangents, wanted, zeros) if w]


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
    t_start = filled_tangents(loop, tcarry, wanted, args)
    given = [*on_device_of(body.captured, args), *consts, *compact(tconsts)[0]]
    outs = _run(loop, count, body.jaxpr, given, [*carry, *t_start], [*xs, *compact(txs)[0]])
    carry_out, tcarry_out, ys, tys = split(outs, loop.n_carry, len(t_start), loop.n_ys)
    return [*carry_out, *ys], [*scatter(tcarry_out, wanted), *scatter(tys, body.ys_nonzero)]


def _linearize(primals: Sequence[Any], tangents: Sequence[Any], *, loop: Loop) -> tuple[list, list]:
    if loop.budget is not None and loop.length:
        written_with_loops = importlib.import_module("funcad.control.budgeted_scan")
        found: tuple[list, list] | None = written_with_loops.linearize(primals, tangents, loop)
        if found is not None:
            return found
    count, args = loop.counted(primals)
    ts = loop.counted(tangents)[1]
    body = linear_body(loop, tuple([t is not None for t in ts]))
    consts, carry, xs = loop.split(args)
    captured = on_device_of(body.captured, args)
    outs = _run(loop, count, body.forward, [*captured, *consts], carry, xs)
    carry_out, ys, residuals = split(outs, loop.n_carry, loop.n_ys)
    return [*carry_out, *ys], run_linear(loop, body, count, captured, args, ts, ys, residuals)


def run_linear(
    loop: Loop,
    body: LinearBody,
    count: Sequence[Any],
    captured: list[Any],
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
    given = [*body.const_residuals(captured, consts), *compact(tconsts)[0]]
    t_start = filled_tangents(loop, tcarry, wanted, args)
    where = {"x": xs, "y": ys}
    read = [*[where[kind][i] for kind, i in body.xs_sources], *residuals, *compact(txs)[0]]
    outs = _run(loop, count, body.linear, given, t_start, read)
    return [*scatter(outs[: len(t_start)], wanted), *scatter(outs[len(t_start) :], body.ys_nonzero)]


# ---------------------------------------------------------------- transposition


def _transpose(cts: Sequence[Any], *inputs: Any, loop: Loop) -> list[Any]:
    count, args = loop.counted(inputs)
    linear = tuple([is_linear(a) for a in args])
    flags = linear_operands(loop, linear)
    if all(loop.carried(flags)):
        found = transpose_linear(loop, cts, args, linear, partial(_run, loop._replace(reverse=not loop.reverse), count))
    else:
        found = _transpose_mixed(loop, cts, count, args, flags)
    return [*[None] * len(count), *[ct if is_lin else None for ct, is_lin in zip(found, linear)]]


def _needs(linear: tuple, wanted: tuple, *, loop: Loop) -> tuple:
    flags, wanted = [tuple(loop.counted(x)[1]) for x in (linear, wanted)]
    return loop_needs(loop, linear_operands(loop, flags), wanted)


def _masked(cts: Any, masks: Any, wanted: Any, *inputs: Any, loop: Loop) -> list:
    count, args = loop.counted(inputs)
    linear = tuple([is_linear(a) for a in args])
    wanted = tuple(wanted[len(count) :])
    all_linear = all(loop.carried(linear_operands(loop, linear)))
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
    flags = linear_operands(loop, tuple(loop.counted(linear)[1]))
    out_linear = (*loop.carried(flags), *unknown_outputs(loop.body, flags)[loop.n_carry :])

    def run(args: Sequence[Any]) -> list[Any]:
        count, args = loop.counted(args)
        derived, captured, _ = partial_jaxpr(loop.body, flags, out_linear)
        return scatter(_run_known(loop, count, args, flags, derived, captured), [not f for f in out_linear])

    return out_linear, run


def _split(linear: tuple[bool, ...], args: Sequence[Any], *, loop: Loop) -> list[Any]:
    count, args = loop.counted(args)
    flags = linear_operands(loop, tuple(loop.counted(linear)[1]))
    body = split_body(loop, flags, True)
    outs = _run_known(loop, count, args, flags, body.known, body.captured)
    return run_rest(loop, count, args, flags, body, outs)


def run_rest(
    loop: Loop, count: Sequence[Any], args: Sequence[Any], flags: tuple[bool, ...], body: SplitBody, outs: Sequence[Any]
) -> list[Any]:
    """The linear part of a loop whose known part, with its ys, has given `outs`: the outputs of both."""
    carry_flags = loop.carried(flags)
    consts, carry, xs = loop.split(args)
    carry = [c for c, f in zip(carry, carry_flags) if f]
    values, residuals = split(outs, loop.n_carry - len(carry) + body.ys.count(False))
    consts = [*on_device_of(body.shared, args), *consts]
    program, used = read_operands(loop.with_body(body.linear, len(consts), len(carry)))
    groups = split(used, len(consts), len(carry))
    given, items = [[v for v, u in zip(*pair) if u] for pair in ((consts, groups[0]), ([*xs, *residuals], groups[2]))]
    return body.outputs(values, _run(loop, count, program, given, carry, items), carry_flags)


def transpose_linear(
    loop: Loop, cts: Sequence[Any], args: Sequence[Any], linear: tuple[bool, ...], run: Callable[..., list[Any]]
) -> list[Any]:
    """Cotangents of all operands; every carry is linear (a known initial value is an instantiated zero).

    `run(body, consts, carry, xs)` is the loop in the other direction.
    """
    if masks_itself(loop, cts, linear):
        return [clean(*p) for p in masked_backward(loop, cts, [None] * len(cts), [0] * len(args), args, linear, run)]
    body = backward_body(loop, linear, tuple([ct is not None for ct in cts]))
    const_flags, _, xs_flags = loop.split(linear)
    consts, _, xs = loop.split(args)
    known_consts = [c for c, f in zip(consts, const_flags) if not f]
    known_xs = [x for x, f in zip(xs, xs_flags) if not f]
    values = [*known_consts, *known_xs, *[ct for ct in cts if ct is not None]]
    linear_consts = [c.aval for c, f in zip(consts, const_flags) if f]
    sums = zeros_near([a for a, z in zip(linear_consts, body.consts) if z], values)
    carry_zeros = zeros_near([strip_literal(o.aval) for o in loop.body.outputs[: loop.n_carry]], values)
    start = [z if ct is None else ct for ct, z, used in zip(cts, carry_zeros, body.carry) if used]
    given, items = [*on_device_of(body.captured, values), *known_consts], [*known_xs, *compact(cts[loop.n_carry :])[0]]
    outs = run(body.jaxpr, given, [*sums, *start], items)
    sums, carry_cts, xs_cts = split(outs, len(sums), len(start))
    return [
        *scatter(scatter(sums, body.consts), const_flags),
        *scatter(carry_cts, body.carry),
        *scatter(scatter(xs_cts, body.xs), xs_flags),
    ]


def _transpose_mixed(
    loop: Loop, cts: Sequence[Any], count: Sequence[Any], args: Sequence[Any], flags: tuple[bool, ...]
) -> list[Any]:
    """Some of the carry is known (a counter, a primal): run that part first, keep what the linear part reads."""
    body = split_body(loop, flags, False)
    outs = _run_known(loop, count, args, flags, body.known, body.captured)
    return transpose_with_residuals(loop, cts, count, args, flags, body, outs[loop.carried(flags).count(False) :])


def _run_known(
    loop: Loop, count: Sequence[Any], args: Sequence[Any], flags: tuple[bool, ...], known: Jaxpr, captured: Sequence[Any]
) -> list[Any]:
    """The part without the linear operands."""
    values = [x for x, f in zip(args, flags) if not f]
    consts, carry, xs = [[x for x, f in zip(*pair) if not f] for pair in zip(loop.split(args), loop.split(flags))]
    return _run(loop, count, known, [*on_device_of(captured, values), *consts], carry, xs)


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
    shared = on_device_of(body.shared, [*cts, *residuals])
    operands = [*shared, *consts, *carry, *xs, *residuals]
    wanted = [*[c for c, f in zip(cts, carry_flags) if f], *[c for c, f in zip(cts[loop.n_carry :], body.ys) if f]]
    if all(ct is None for ct in wanted):
        return [None] * len(args)
    linear = loop.with_body(body.linear, len(shared) + len(consts), len(carry))
    run = partial(_run, linear._replace(reverse=not linear.reverse), count)
    found = transpose_linear(linear, wanted, operands, tuple([is_linear(x) for x in operands]), run)
    by_const, by_carry, by_xs = linear.split(found)
    return [*by_const[len(shared) :], *scatter(by_carry, carry_flags), *by_xs[: len(xs)]]


# ---------------------------------------------------------------- batching


def _swap(x: Any) -> Any:
    """Exchange the batch axis and the scanned axis; entries of stacks have the batch axis in front already."""
    aval = aval_of(x)
    if type(aval) is StackAval:
        return x
    return transpose(x, perm=(1, 0, *range(2, len(aval.shape))))


def _batch(size: int, args: Sequence[Any], batched: Sequence[bool], *, loop: Loop) -> tuple[list, list]:
    count, args = loop.counted(args)
    counted, flags = loop.counted(tuple(batched))
    if any(counted):
        return _batch_counts(loop, size, count[0], args, tuple(flags))
    derived, captured, out_batched = batched_body(loop, size, tuple(flags))
    consts, carry, xs = loop.split(args)
    _, carry_flags, xs_flags = loop.split(flags)
    carry = [lead(c, size) if o and not b else c for c, b, o in zip(carry, carry_flags, out_batched)]
    xs = [_swap(x) if b else x for x, b in zip(xs, xs_flags)]
    outs = _run(loop, count, derived, [*on_device_of(captured, args), *consts], carry, xs)
    ys = [_swap(y) if b else y for y, b in zip(outs[loop.n_carry :], out_batched[loop.n_carry :])]
    return [*outs[: loop.n_carry], *ys], out_batched


def batched_body(loop: Loop, size: int, flags: tuple[bool, ...]) -> tuple[Jaxpr, list[Any], list[bool]]:
    """The body for `size` examples at once; a carry that becomes batched is batched from the start."""

    def force(f: tuple) -> tuple:
        return (*loop.carried(f), *[False] * loop.n_ys)

    flags = fixpoint(flags, loop.n_consts, loop.n_carry, lambda f: batch_jaxpr(loop.body, size, f, force(f))[2])
    return batch_jaxpr(loop.body, size, flags, force(flags))


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
    outs = _run(loop, [longest], body, [*on_device_of([*more, *captured], args), count, *consts], [first, *carry], xs)
    return outs[1:], [True] * n_carry + out_batched[n_carry:]


scan_p = Primitive(
    "scan",
    _impl,
    _abstract,
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
    ready=lambda *avals, loop: partial(_impl if loop.length is None else _in_python, np, loop=loop),
    may_share=True,
)
