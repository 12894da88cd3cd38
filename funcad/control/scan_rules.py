"""The primitive behind `scan`: one body, run over the leading axis of its inputs, and all its rules.

`scan_p(consts, carry, xs) -> (carry, ys)`; with `length=None` it is the loop of unknown length: a leading operand counts the
iterations, and xs and ys are stacks (see primitives/stack.py). That is the linear half of `while_loop`, so these rules give
while loops reverse mode of every order. Derived bodies are memoised on the body. Traps: loop-invariant residuals are passed,
not stacked; an instantiated zero tangent is a known value in a linear position: its cotangent is dropped; a finished lane (of a
batched count) keeps its carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from funcad.backends.engines import loop_program
from funcad.control.backward_bodies import MixedBody, backward_body, linear_loop, linear_operands, mixed_body
from funcad.control.body import jvp_body, linear_body
from funcad.control.call import present, spread
from funcad.control.masked_forward import masked_forward
from funcad.control.masked_loops import loop_needs, masked_backward, masks_itself
from funcad.control.rewire import grow, memoised, near, plain, split, stacked, zeros_near
from funcad.control.scan_run import scan_in_python
from funcad.ir.aval import Aval, StackAval, aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.primitive import Primitive, is_linear
from funcad.ir.trace import trace_function
from funcad.masks.masks import begins_within, clean
from funcad.primitives.arithmetic import add
from funcad.primitives.comparison import lt
from funcad.primitives.lanes import pick_lanes, select_lanes
from funcad.primitives.reduction import reduce_max
from funcad.primitives.shape import broadcast_leading, transpose
from funcad.primitives.stack import lead
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.transpose import known_jaxpr, linear_outputs

__all__ = ["scan_p"]

# ---------------------------------------------------------------- running


def _impl(
    xp: Any, *args: Any, jaxpr: Jaxpr, n_consts: int, n_carry: int, length: int | None, reverse: bool, unroll: int
) -> list:
    if length is not None and xp is np:
        params = {
            "jaxpr": jaxpr, "n_consts": n_consts, "n_carry": n_carry, "length": length, "reverse": reverse, "unroll": unroll
        }  # fmt: skip
        compiled = loop_program(scan_p, args, params, jaxpr, length)
        if compiled is not None:
            return compiled(list(args))
    return scan_in_python(xp, args, jaxpr, n_consts, n_carry, length, reverse, unroll)


def _abstract(
    *avals: Any, jaxpr: Jaxpr, n_consts: int, n_carry: int, length: int | None, reverse: bool, unroll: int
) -> list:
    outs = jaxpr.out_avals
    return [*map(plain, outs[:n_carry]), *[stacked(a, length) for a in outs[n_carry:]]]


# ---------------------------------------------------------------- forward mode and linearization


def _counted(args: Sequence[Any], length: int | None) -> tuple[list[Any], Sequence[Any]]:
    """The count in front of the operands of a loop of unknown length, and the other operands."""
    return ([], args) if length is not None else ([args[0]], args[1:])


def _run(count: list, options: dict, body: Jaxpr, consts: list[Any], carry: list[Any], xs: list[Any]) -> list[Any]:
    return scan_p(*count, *consts, *carry, *xs, jaxpr=body, n_consts=len(consts), n_carry=len(carry), **options)


def filled_tangents(tangents: Sequence[Any], wanted: Sequence[bool], jaxpr: Jaxpr, n_consts: int, near_to: Any) -> list:
    """The carry's tangents where wanted, zeros included."""
    avals = jaxpr.in_avals[n_consts:]
    zeros = zeros_near([Aval(a.shape, a.dtype) if isinstance(a, Aval) else a for a in avals[: len(tangents)]], near_to)
    return [z if t is None else t for t, w, z in zip(tangents, wanted, zeros) if w]


def _jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    jaxpr: Jaxpr,
    n_consts: int,
    n_carry: int,
    length: int | None,
    reverse: bool,
    unroll: int,
) -> tuple[list, list]:
    count, args = _counted(primals, length)
    ts = _counted(tangents, length)[1]

    run = partial(_run, count, {"length": length, "reverse": reverse, "unroll": unroll})
    found = masked_forward(args, ts, jaxpr, n_consts, n_carry, run)
    if found is not None:
        return found
    body = jvp_body(jaxpr, n_consts, n_carry, tuple([t is not None for t in ts]))
    consts, carry, xs = split(args, n_consts, n_carry)
    tconsts, tcarry, txs = split(ts, n_consts, n_carry)
    wanted = body.nonzero[n_consts : n_consts + n_carry]
    t_given = present(tconsts)[0]
    t_start = filled_tangents(tcarry, wanted, jaxpr, n_consts, args)
    outs = scan_p(
        *count, *near(body.captured, args), *consts, *t_given, *carry, *t_start, *xs, *present(txs)[0],
        jaxpr=body.jaxpr, n_consts=len(body.captured) + n_consts + len(t_given), n_carry=n_carry + len(t_start),
        length=length, reverse=reverse, unroll=unroll,
    )  # fmt: skip
    n_ys = len(jaxpr.outputs) - n_carry
    carry_out, tcarry_out, ys, tys = split(outs, n_carry, len(t_start), n_ys)
    return [*carry_out, *ys], [*spread(tcarry_out, wanted), *spread(tys, body.ys_nonzero)]


def _linearize(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    jaxpr: Jaxpr,
    n_consts: int,
    n_carry: int,
    length: int | None,
    reverse: bool,
    unroll: int,
) -> tuple[list, list]:
    count, args = _counted(primals, length)
    ts = _counted(tangents, length)[1]
    body = linear_body(jaxpr, n_consts, n_carry, tuple([t is not None for t in ts]))
    consts, carry, xs = split(args, n_consts, n_carry)
    captured = near(body.captured, args)
    outs = scan_p(
        *count, *captured, *consts, *carry, *xs,
        jaxpr=body.forward, n_consts=len(captured) + n_consts, n_carry=n_carry, length=length, reverse=reverse, unroll=unroll,
    )  # fmt: skip
    n_ys = len(jaxpr.outputs) - n_carry
    carry_out, ys, residuals = split(outs, n_carry, n_ys)
    touts = run_linear(body, count, captured, args, ts, n_consts, n_carry, jaxpr, ys, residuals, length, reverse, unroll)
    return [*carry_out, *ys], touts


def run_linear(
    body: Any,
    count: list[Any],
    captured: list[Any],
    args: Sequence[Any],
    ts: Sequence[Any],
    n_consts: int,
    n_carry: int,
    jaxpr: Jaxpr,
    ys: Sequence[Any],
    residuals: Sequence[Any],
    length: int | None,
    reverse: bool,
    unroll: int,
) -> list[Any]:
    """The linear loop: tangents of the carry and of the ys (None: zero)."""
    wanted = body.nonzero[n_consts : n_consts + n_carry]
    if not any(wanted) and not any(body.ys_nonzero):
        return [None] * (n_carry + len(ys))
    consts, _, xs = split(args, n_consts, n_carry)
    tconsts, tcarry, txs = split(ts, n_consts, n_carry)
    given = [*body.const_residuals(captured, consts), *present(tconsts)[0]]
    t_start = filled_tangents(tcarry, wanted, jaxpr, n_consts, args)
    where = {"x": xs, "y": ys}
    read = [*[where[kind][i] for kind, i in body.xs_sources], *residuals, *present(txs)[0]]
    outs = scan_p(
        *count, *given, *t_start, *read,
        jaxpr=body.linear, n_consts=len(given), n_carry=len(t_start), length=length, reverse=reverse, unroll=unroll,
    )  # fmt: skip
    return [*spread(outs[: len(t_start)], wanted), *spread(outs[len(t_start) :], body.ys_nonzero)]


# ---------------------------------------------------------------- transposition


def _transpose(
    cts: Sequence[Any],
    *inputs: Any,
    jaxpr: Jaxpr,
    n_consts: int,
    n_carry: int,
    length: int | None,
    reverse: bool,
    unroll: int,
) -> list[Any]:
    count, args = _counted(inputs, length)
    linear = tuple([is_linear(a) for a in args])
    options: dict[str, Any] = {"length": length, "reverse": reverse, "unroll": unroll}
    flags = linear_operands(jaxpr, linear, n_consts, n_carry)
    if all(flags[n_consts : n_consts + n_carry]):
        found = _transpose_linear(cts, count, args, linear, jaxpr, n_consts, n_carry, **options)
    else:
        found = _transpose_mixed(cts, count, args, flags, jaxpr, n_consts, n_carry, options)
    return [*[None] * len(count), *[ct if is_lin else None for ct, is_lin in zip(found, linear)]]


def _needs(linear: tuple, wanted: tuple, *, jaxpr: Jaxpr, n_consts: int, n_carry: int, length: Any, **_: Any) -> tuple:
    flags, wanted = [tuple(_counted(x, length)[1]) for x in (linear, wanted)]
    return loop_needs(jaxpr, linear_operands(jaxpr, flags, n_consts, n_carry), wanted, n_consts, n_carry)


def _masked(cts: Any, masks: Any, wanted: Any, *inputs: Any, jaxpr: Jaxpr, n_consts: int, n_carry: int, **options: Any) -> list:
    count, args = _counted(inputs, options["length"])
    linear, none = tuple([is_linear(a) for a in args]), not any(masks) and not begins_within(jaxpr)
    if none or not all(linear_operands(jaxpr, linear, n_consts, n_carry)[n_consts : n_consts + n_carry]):  # masks end here
        cts = [clean(ct, m) for ct, m in zip(cts, masks)]
        return [(ct, None) for ct in _transpose(cts, *inputs, jaxpr=jaxpr, n_consts=n_consts, n_carry=n_carry, **options)]
    run = partial(_run, count, {**options, "reverse": not options["reverse"]})
    pairs = masked_backward(cts, masks, wanted[len(count) :], args, linear, jaxpr, n_consts, n_carry, run)
    return [*[(None, None)] * len(count), *[p if is_lin else (None, None) for p, is_lin in zip(pairs, linear)]]


def _known(
    linear: tuple[bool, ...], *, jaxpr: Jaxpr, n_consts: int, n_carry: int, length: int | None, reverse: bool, unroll: int
) -> tuple:
    """What the loop computes without its linear operands: counters, and ys made of them."""
    flags = linear_operands(jaxpr, tuple(_counted(linear, length)[1]), n_consts, n_carry)
    out_linear = (*flags[n_consts : n_consts + n_carry], *linear_outputs(jaxpr, flags)[n_carry:])

    def run(args: Sequence[Any]) -> list[Any]:
        count, args = _counted(args, length)
        derived, captured, _ = known_jaxpr(jaxpr, flags, out_linear)
        options = {"length": length, "reverse": reverse, "unroll": unroll}
        outs = _run_known(count, args, flags, derived, captured, n_consts, n_carry, options)
        return spread(outs, [not f for f in out_linear])

    return out_linear, run


def _apart(
    linear: tuple[bool, ...],
    args: Sequence[Any],
    *,
    jaxpr: Jaxpr,
    n_consts: int,
    n_carry: int,
    length: int | None,
    reverse: bool,
    unroll: int,
) -> list[Any]:
    count, args = _counted(args, length)
    flags = linear_operands(jaxpr, tuple(_counted(linear, length)[1]), n_consts, n_carry)
    options: dict[str, Any] = {"length": length, "reverse": reverse, "unroll": unroll}
    body = mixed_body(jaxpr, n_consts, n_carry, flags, True)
    outs = _run_known(count, args, flags, body.known, body.captured, n_consts, n_carry, options)
    return run_apart(count, args, flags, body, outs, n_consts, n_carry, options)


def run_apart(
    count: list[Any],
    args: Sequence[Any],
    flags: tuple[bool, ...],
    body: MixedBody,
    outs: Sequence[Any],
    n_consts: int,
    n_carry: int,
    options: dict[str, Any],
) -> list[Any]:
    """The linear part of a loop whose known part, with its ys, has given `outs`: the outputs of both."""
    carry_flags = flags[n_consts : n_consts + n_carry]
    consts, carry, xs = split(args, n_consts, n_carry)
    carry = [c for c, f in zip(carry, carry_flags) if f]
    values, residuals = split(outs, n_carry - len(carry) + body.ys.count(False))
    shared = near(body.shared, args)
    n_consts += len(shared)
    program, used = linear_loop(body, n_consts, len(carry))
    operands = [x for x, u in zip([*shared, *consts, *carry, *xs, *residuals], used) if u]
    touts = scan_p(*count, *operands, jaxpr=program, n_consts=sum(used[:n_consts]), n_carry=len(carry), **options)
    return body.outputs(values, touts, carry_flags)


def _transpose_linear(
    cts: Sequence[Any],
    count: list[Any],
    args: Sequence[Any],
    linear: tuple[bool, ...],
    jaxpr: Jaxpr,
    n_consts: int,
    n_carry: int,
    *,
    length: int | None,
    reverse: bool,
    unroll: int,
) -> list[Any]:
    """Cotangents of all operands; every carry is linear (a known initial value is an instantiated zero)."""
    if masks_itself(cts, jaxpr, linear, n_consts, n_carry):
        run, none = partial(_run, count, {"length": length, "reverse": not reverse, "unroll": unroll}), [None] * len(cts)
        return [clean(*p) for p in masked_backward(cts, none, [0] * len(args), args, linear, jaxpr, n_consts, n_carry, run)]
    nonzero = tuple([ct is not None for ct in cts])
    body = memoised(
        jaxpr,
        ("backward_body", n_consts, n_carry, linear, nonzero),
        lambda: backward_body(jaxpr, n_consts, n_carry, linear, nonzero),
    )
    const_flags, _, xs_flags = split(linear, n_consts, n_carry)
    consts, carry, xs = split(args, n_consts, n_carry)
    known_consts = [c for c, f in zip(consts, const_flags) if not f]
    known_xs = [x for x, f in zip(xs, xs_flags) if not f]
    values = [*known_consts, *known_xs, *[ct for ct in cts if ct is not None]]
    linear_consts = [c.aval for c, f in zip(consts, const_flags) if f]
    sums = zeros_near([a for a, z in zip(linear_consts, body.consts) if z], values)
    carry_zeros = zeros_near([plain(o.aval) for o in jaxpr.outputs[:n_carry]], values)
    start = [z if ct is None else ct for ct, z, used in zip(cts, carry_zeros, body.carry) if used]
    captured = near(body.captured, values)
    outs = scan_p(
        *count, *captured, *known_consts, *sums, *start, *known_xs, *present(cts[n_carry:])[0],
        jaxpr=body.jaxpr, n_consts=len(captured) + len(known_consts), n_carry=len(sums) + len(start),
        length=length, reverse=not reverse, unroll=unroll,
    )  # fmt: skip
    sums, carry_cts, xs_cts = split(outs, len(sums), len(start))
    return [
        *spread(spread(sums, body.consts), const_flags),
        *spread(carry_cts, body.carry),
        *spread(spread(xs_cts, body.xs), xs_flags),
    ]


def _transpose_mixed(
    cts: Sequence[Any],
    count: list[Any],
    args: Sequence[Any],
    flags: tuple[bool, ...],
    jaxpr: Jaxpr,
    n_consts: int,
    n_carry: int,
    options: dict[str, Any],
) -> list[Any]:
    """Some of the carry is known (a counter, a primal): run that part first, keep what the linear part reads."""
    body = mixed_body(jaxpr, n_consts, n_carry, flags)
    outs = _run_known(count, args, flags, body.known, body.captured, n_consts, n_carry, options)
    residuals = outs[flags[n_consts : n_consts + n_carry].count(False) :]
    return transpose_with_residuals(cts, count, args, flags, body, residuals, n_consts, n_carry, options)


def _run_known(
    count: list[Any],
    args: Sequence[Any],
    flags: tuple[bool, ...],
    known: Jaxpr,
    captured: Sequence[Any],
    n_consts: int,
    n_carry: int,
    options: dict[str, Any],
) -> list[Any]:
    """The part without the linear operands."""
    n_consts, n_carry = flags[:n_consts].count(False), flags[n_consts : n_consts + n_carry].count(False)
    values = [x for x, f in zip(args, flags) if not f]
    captured = near(captured, values)
    return scan_p(
        *count, *captured, *values, jaxpr=known, n_consts=len(captured) + n_consts, n_carry=n_carry, **options
    )


def transpose_with_residuals(
    cts: Sequence[Any],
    count: list[Any],
    args: Sequence[Any],
    flags: tuple[bool, ...],
    body: MixedBody,
    residuals: Sequence[Any],
    n_consts: int,
    n_carry: int,
    options: dict[str, Any],
) -> list[Any]:
    """Cotangents of all operands (None for known ones), given the residuals of the known part."""
    carry_flags = flags[n_consts : n_consts + n_carry]
    consts, carry, xs = split(args, n_consts, n_carry)
    linear_carry = [c for c, f in zip(carry, carry_flags) if f]
    shared = near(body.shared, [*cts, *residuals])
    operands = [*shared, *consts, *linear_carry, *xs, *residuals]
    wanted = [*[c for c, f in zip(cts, carry_flags) if f], *[c for c, f in zip(cts[n_carry:], body.ys) if f]]
    if all(ct is None for ct in wanted):
        return [None] * len(args)
    linear = tuple([is_linear(x) for x in operands])
    found = _transpose_linear(
        wanted, count, operands, linear, body.linear, len(shared) + n_consts, len(linear_carry), **options
    )
    _, by_const, by_carry, by_xs = split(found, len(shared), n_consts, len(linear_carry))
    return [*by_const, *spread(by_carry, carry_flags), *by_xs[: len(xs)]]


# ---------------------------------------------------------------- batching


def _swap(x: Any) -> Any:
    """Exchange the batch axis and the scanned axis; entries of stacks have the batch axis in front already."""
    aval = aval_of(x)
    if type(aval) is StackAval:
        return x
    return transpose(x, perm=(1, 0, *range(2, len(aval.shape))))


def _batch(
    size: int,
    args: Sequence[Any],
    batched: Sequence[bool],
    *,
    jaxpr: Jaxpr,
    n_consts: int,
    n_carry: int,
    length: int | None,
    reverse: bool,
    unroll: int,
) -> tuple[list, list]:
    count, args = _counted(args, length)
    counted, flags = _counted(batched, length)
    flags = tuple(flags)
    if counted and counted[0]:
        return _batch_counts(size, count[0], args, flags, jaxpr, n_consts, n_carry, reverse, unroll)
    derived, captured, out_batched = batched_body(jaxpr, size, n_consts, n_carry, flags)
    consts, carry, xs = split(args, n_consts, n_carry)
    carry = [lead(c, size) if o and not b else c for c, b, o in zip(carry, flags[n_consts:], out_batched)]
    xs = [_swap(x) if b else x for x, b in zip(xs, flags[n_consts + n_carry :])]
    outs = scan_p(
        *count, *near(captured, args), *consts, *carry, *xs,
        jaxpr=derived, n_consts=len(captured) + n_consts, n_carry=n_carry, length=length, reverse=reverse, unroll=unroll,
    )  # fmt: skip
    ys = [_swap(y) if b else y for y, b in zip(outs[n_carry:], out_batched[n_carry:])]
    return [*outs[:n_carry], *ys], out_batched


def batched_body(
    jaxpr: Jaxpr, size: int, n_consts: int, n_carry: int, flags: tuple[bool, ...]
) -> tuple[Jaxpr, list[Any], list[bool]]:
    """The body for `size` examples at once; a carry that becomes batched is batched from the start."""
    n_ys = len(jaxpr.outputs) - n_carry

    def force(f: tuple) -> tuple:
        return (*f[n_consts : n_consts + n_carry], *[False] * n_ys)

    flags = grow(flags, n_consts, n_carry, lambda f: batch_jaxpr(jaxpr, size, f, force(f))[2])
    return batch_jaxpr(jaxpr, size, flags, force(flags))


def _batch_counts(
    size: int,
    count: Any,
    args: Sequence[Any],
    flags: tuple[bool, ...],
    jaxpr: Jaxpr,
    n_consts: int,
    n_carry: int,
    reverse: bool,
    unroll: int,
) -> tuple[list, list]:
    """Lanes of different lengths: run the longest. A lane that is not in the loop keeps its carry and borrows its inputs, like
    in the loop that filled the stacks (on its own inputs and borrowed residuals it could divide by zero)."""
    n_ys = len(jaxpr.outputs) - n_carry
    consts, carry, xs = split(args, n_consts, n_carry)
    carry = [c if b else lead(c, size) for c, b in zip(carry, flags[n_consts:])]
    flags = (*flags[:n_consts], *[True] * n_carry, *flags[n_consts + n_carry :])
    derived, captured, out_batched = batch_jaxpr(jaxpr, size, flags, (*[True] * n_carry, *[False] * n_ys))
    longest = reduce_max(count, axes=(0,))

    def make() -> tuple[Jaxpr, list[Any]]:
        def program(*values: Any) -> list[Any]:
            mine, (lengths,), cs, (i,), old, items = split(values, len(captured), 1, n_consts, 1, n_carry)
            running = lt(broadcast_leading(i, size), lengths)
            inputs = [pick_lanes(x, running) if b else x for x, b in zip([*cs, *old, *items], flags)]
            outs = eval_jaxpr(derived, [*mine, *inputs])
            new = [select_lanes(running, o, c) for o, c in zip(outs, old)]
            return [add(i, -1 if reverse else 1), *new, *outs[n_carry:]]

        m = len(captured)
        avals = [plain(a) for a in derived.in_avals]
        index = Aval((), np.dtype(np.int64))
        inputs = [*avals[:m], Aval((size,), index.dtype), *avals[m : m + n_consts], index, *avals[m + n_consts :]]
        return trace_function(program, inputs, name="vmap", abstract=False)

    body, more = memoised(derived, ("batched_counts", n_consts, n_carry, reverse), make)
    first = add(longest, -1) if reverse else np.int64(0)
    outs = scan_p(
        longest, *near([*more, *captured], args), count, *consts, first, *carry, *xs,
        jaxpr=body, n_consts=len(more) + len(captured) + 1 + n_consts, n_carry=1 + n_carry,
        length=None, reverse=reverse, unroll=unroll,
    )  # fmt: skip
    return outs[1:], [True] * n_carry + out_batched[n_carry:]


scan_p = Primitive(
    "scan",
    _impl,
    _abstract,
    primal_and_jvp=_jvp,
    linearize=_linearize,
    known=_known,
    apart=_apart,
    transpose=_transpose,
    needs=_needs,
    masked=_masked,
    takes_masks=True,
    batch=_batch,
    multiple=True,
    ready=lambda *avals, **params: lambda *args: scan_in_python(np, args, **params),
    may_share=True,
)
