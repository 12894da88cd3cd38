"""`while_loop`: a loop of unknown length, differentiable in both modes.

`while_p(cond consts, consts, carry) -> (count, carry, stacks)`: the body may return, after the carry, values that the loop
puts on stacks, one entry per iteration. Reverse mode rests on that: linearized, the loop emits its residuals on stacks and
the tangents are a `scan` over the stacks, whose own rules give all orders. Under vmap with a batched predicate the loop runs
until every lane has stopped; a stopped lane keeps its carry, its tangents are the identity, and its share of the work is done
on the inputs of a lane that still runs (see primitives/lanes.py), so it neither fails nor loops for ever. A loop with effects
is then run lane by lane instead.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.api.border import api, call_as, name_of, own_memory
from funcad.backends.engines import COLD, LONG_LOOP, loop_program, program_of
from funcad.backends.interpreter import program_of_turns
from funcad.control.backward_bodies import linear_operands, masked_forward, split_body
from funcad.control.body import check_functions, check_structure, jvp_body, linear_body, prepare, strengthened, trace_carry
from funcad.control.call import coerce, compact, fixpoint, interned, memoised, rewire, scatter, stacked, strip_literal
from funcad.control.checkpoint import kept_by
from funcad.control.scan_rules import (
    batched_body,
    filled_tangents,
    run_linear,
    run_rest,
    scan_p,
    transpose_with_residuals,
)
from funcad.control.scan_run import own_entry, roots_of
from funcad.errors import MissingRuleError
from funcad.host.progress import counted
from funcad.host.where import state
from funcad.ir.aval import Aval, Stack, StackAval, aval_of, said
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, Var, split
from funcad.ir.primitive import Primitive, is_linear
from funcad.ir.trace import trace_function
from funcad.primitives.arithmetic import add
from funcad.primitives.comparison import and_
from funcad.primitives.conversion import convert
from funcad.primitives.lanes import any_lane, pick_lanes, select_lanes
from funcad.primitives.loop import Loop, WhileLoop, lead
from funcad.primitives.placement import on_device_of
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.partial import partial_jaxpr, unknown_outputs

_COUNT = Aval((), np.dtype(np.int64))


def _impl(xp: Any, *args: Any, loop: WhileLoop) -> list:
    if xp is np:
        compiled = loop_program(while_p, args, loop)
        if compiled is not None:
            return compiled(list(args))
    return _in_python(loop, args)


def _in_python(loop: WhileLoop, args: Sequence[Any]) -> list:
    """The loop, a step at a time; after some turns it is long enough for a program, which goes on from there."""
    most = LONG_LOOP // (1 + len(loop.body.equations) + len(loop.cond.equations))
    cond_consts, consts, carry = map(list, loop.split(args))
    test, step = program_of(loop.cond), program_of_turns(loop, carry) or program_of(loop.body)
    n_carry = len(carry)
    stacks = [Stack([], StackAval(strip_literal(o.aval))) for o in loop.body.outputs[n_carry:]]
    roots = roots_of(args) if stacks else set()
    count = 0
    with counted(step.run, lambda: f"while_loop{step.where()}") as run:
        while test.run([*cond_consts, *carry])[0]:
            outs = run([*consts, *carry])
            carry = outs[:n_carry]
            count += 1
            for stack, value in zip(stacks, outs[n_carry:]):
                stack.append(own_entry(value, roots))
            if count == most:
                compiled = _compiled(loop, [*cond_consts, *consts, *carry])
                if compiled is not None:
                    more, *carry = compiled
                    for stack, others in zip(stacks, carry[n_carry:]):
                        stack.extend(others)
                    return [np.int64(count + more), *carry[:n_carry], *stacks]
    return [np.int64(count), *carry, *stacks]


def _compiled(loop: WhileLoop, values: list[Any]) -> Any:
    """The results of the loop by its program, or None; it has turned so often that it is compiled at first sight."""
    for _ in range(1 + COLD):
        run = loop_program(while_p, values, loop)
        if run is not None:
            return run(values)
    return None


def _abstract(*avals: Any, loop: WhileLoop) -> list:
    n_carry, outs = loop.n_carry, loop.body.out_avals
    return [_COUNT, *map(strip_literal, outs[:n_carry]), *[stacked(a, None) for a in outs[n_carry:]]]


# ---------------------------------------------------------------- derivatives


def _run(
    cond: Jaxpr, body: Jaxpr, cond_consts: Sequence[Any], consts: Sequence[Any], carry: Sequence[Any], budget: Any = None
) -> list[Any]:
    return while_p(*cond_consts, *consts, *carry, loop=WhileLoop(cond, body, len(cond_consts), len(consts), budget))


def _with_more_carry(cond: Jaxpr, avals: Sequence[Any]) -> Jaxpr:
    """The condition of a loop that carries more values, which it does not read."""
    key = ("more_carry", tuple(avals))
    return memoised(cond, key, lambda: rewire(cond, [*cond.inputs, *[Var(a) for a in avals]], cond.outputs))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, loop: WhileLoop) -> tuple[list, list]:
    cond_consts, args = split(primals, loop.n_cond)
    ts, steps = tangents[loop.n_cond :], loop.steps
    n_carry = loop.n_carry

    def run(body: Jaxpr, consts: list[Any], carry: list[Any], xs: Sequence[Any] = ()) -> list[Any]:
        test = _with_more_carry(loop.cond, [v.aval for v in body.inputs[len(consts) + n_carry :]])
        count[:], outs = split(_run(test, body, cond_consts, consts, carry, loop.budget), 1)
        return outs

    count: list[Any] = []
    found = masked_forward(steps, args, ts, run)
    if found is not None:
        return [*count, *found[0]], [None, *found[1]]
    derived = jvp_body(steps, tuple([t is not None for t in ts]))
    consts, carry = split(args, loop.n_consts)
    tconsts, tcarry = split(ts, loop.n_consts)
    wanted = steps.carried(derived.nonzero)
    t_start = filled_tangents(steps, tcarry, wanted, args)
    outs = run(derived.jaxpr, [*on_device_of(derived.captured, args), *consts, *compact(tconsts)[0]], [*carry, *t_start])
    carry_out, tcarry_out, stacks, tstacks = split(outs, n_carry, len(t_start), loop.n_emitted)
    touts = [None, *scatter(tcarry_out, wanted), *scatter(tstacks, derived.ys_nonzero)]
    return [*count, *carry_out, *stacks], touts


def _linearize(primals: Sequence[Any], tangents: Sequence[Any], *, loop: WhileLoop) -> tuple[list, list]:
    if loop.budget is not None and not loop.n_emitted:
        written_with_loops = importlib.import_module("funcad.control.budgeted_while")
        found: tuple[list, list] | None = written_with_loops.linearize(primals, tangents, loop)
        if found is not None:
            return found
    cond_consts, consts, carry = loop.split(primals)
    args, ts = primals[loop.n_cond :], tangents[loop.n_cond :]
    derived = linear_body(loop.steps, tuple([t is not None for t in ts]))
    captured = on_device_of(derived.captured, args)
    outs = _run(loop.cond, derived.forward, cond_consts, [*captured, *consts], carry)
    count, carry_out, stacks, residuals = split(outs, 1, loop.n_carry, loop.n_emitted)
    touts = run_linear(loop.steps, derived, count, captured, args, ts, stacks, residuals)
    return [*count, *carry_out, *stacks], [None, *touts]


def _transpose(cts: Sequence[Any], *inputs: Any, loop: WhileLoop) -> list[Any]:
    """A loop with a linear carry: run the known part, then the linear part backwards."""
    args = inputs[loop.n_cond :]
    flags, reads = _linear_parts(loop, tuple(map(is_linear, inputs)))
    if reads:
        raise MissingRuleError(
            "the condition of a while_loop reads a value in which the loop should be linear, so the loop has no transpose.\n"
            "Differentiate the loop (grad, vjp) instead of transposing it."
        )
    mixed = split_body(loop.steps, flags, False)
    outs = _run_known(loop, inputs, flags, mixed.known, mixed.captured)
    residuals = outs[1 + loop.steps.carried(flags).count(False) :]
    found = transpose_with_residuals(loop.steps, cts[1:], outs[:1], args, flags, mixed, residuals)
    linear = [is_linear(a) for a in args]
    return [*[None] * loop.n_cond, *[ct if is_lin else None for ct, is_lin in zip(found, linear)]]


def _linear_parts(loop: WhileLoop, linear: tuple[bool, ...]) -> tuple[tuple[bool, ...], bool]:
    """Which consts and carries are linear in the course of the loop, and whether its condition reads such a value."""
    cond_flags, body_flags = split(linear, loop.n_cond)
    flags = linear_operands(loop.steps, tuple(body_flags))
    return flags, unknown_outputs(loop.cond, (*cond_flags, *flags[loop.n_consts :]))[0]


def _run_known(
    loop: WhileLoop, args: Sequence[Any], flags: tuple[bool, ...], known: Jaxpr, captured: Sequence[Any]
) -> list[Any]:
    """The part without the linear consts and carries, which decides when to stop."""
    cond, n_cond, carry_flags = loop.cond, loop.n_cond, flags[loop.n_consts :]

    def make() -> Jaxpr:
        kept = [v for v, f in zip(cond.inputs[n_cond:], carry_flags) if not f]
        return rewire(cond, [*cond.inputs[:n_cond], *kept], cond.outputs)

    cond_consts, *groups = loop.split(args)
    consts, carry = [[x for x, f in zip(*pair) if not f] for pair in zip(groups, split(flags, loop.n_consts))]
    test = memoised(cond, ("known_carry", n_cond, carry_flags), make)
    return _run(test, known, cond_consts, [*on_device_of(captured, [*consts, *carry]), *consts], carry)


def _partial_eval(linear: tuple[bool, ...], *, loop: WhileLoop) -> tuple:
    flags, reads = _linear_parts(loop, linear)
    if reads:
        return (True,) * (1 + len(loop.body.outputs)), None
    out_linear = (*flags[loop.n_consts :], *unknown_outputs(loop.body, flags)[loop.n_carry :])

    def run(args: Sequence[Any]) -> list[Any]:
        derived, captured, _ = partial_jaxpr(loop.body, flags, out_linear)
        count, *outs = _run_known(loop, args, flags, derived, captured)
        return [count, *scatter(outs, [not f for f in out_linear])]

    return (False, *out_linear), run


def _split(linear: tuple[bool, ...], args: Sequence[Any], *, loop: WhileLoop) -> list[Any]:
    flags, _ = _linear_parts(loop, linear)
    mixed = split_body(loop.steps, flags, True)
    count, *outs = _run_known(loop, args, flags, mixed.known, mixed.captured)
    return [count, *run_rest(loop.steps, [count], args[loop.n_cond :], flags, mixed, outs)]


# ---------------------------------------------------------------- batching


def _batch(size: int, args: Sequence[Any], batched: Sequence[bool], *, loop: WhileLoop) -> tuple[list, list]:
    flags = tuple(batched)
    cond_flags, body_flags = flags[: loop.n_cond], flags[loop.n_cond :]

    def carried(f: tuple) -> list[bool]:
        return batch_jaxpr(loop.body, size, f, (*f[loop.n_consts :], *[False] * loop.n_emitted))[2]

    full = fixpoint(body_flags, loop.n_consts, loop.n_carry, carried)
    test, test_captured, test_batched = batch_jaxpr(loop.cond, size, (*cond_flags, *full[loop.n_consts :]))
    if test_batched[0]:
        if loop.cond.has_effects or loop.body.has_effects:
            return _batch_by_lane(loop, size, args, flags)
        return _batch_lanes(loop, size, args, flags)
    derived, captured, out_batched = batched_body(loop.steps, size, body_flags)
    cond_consts, consts, carry = loop.split(args)
    carry = [lead(c, size) if o and not b else c for c, b, o in zip(carry, body_flags[loop.n_consts :], out_batched)]
    tested, given = [*on_device_of(test_captured, args), *cond_consts], [*on_device_of(captured, args), *consts]
    return _run(test, derived, tested, given, carry, loop.budget), [False, *out_batched]


def _batch_lanes(loop: WhileLoop, size: int, args: Sequence[Any], flags: tuple[bool, ...]) -> tuple[list, list]:
    """Lanes that stop at different times: carry which of them run, and how many iterations each has made."""
    n_cond, n_consts, n_carry = loop.n_cond, loop.n_consts, loop.n_carry
    cond_consts, consts, carry = loop.split(args)
    of_cond, of_consts, of_carry = loop.split(flags)
    carry = [c if b else lead(c, size) for c, b in zip(carry, of_carry)]
    cond_flags = (*of_cond, *[True] * n_carry)
    body_flags = (*of_consts, *[True] * n_carry)
    test, test_captured, _ = batch_jaxpr(loop.cond, size, cond_flags, (True,))
    step, captured, out_batched = batch_jaxpr(loop.body, size, body_flags, (*[True] * n_carry, *[False] * loop.n_emitted))
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
            trips = add(trips, convert(running, _COUNT.dtype))
            (again,) = eval_jaxpr(test, [*test_consts, *new])
            return [and_(running, again), trips, *new, *outs[n_carry:]]

        avals = [strip_literal(a) for a in step.in_avals]
        k = len(captured)
        mask, counts = Aval((size,), np.dtype(bool)), Aval((size,), _COUNT.dtype)
        test_avals = [strip_literal(a) for a in test.in_avals[: m + n_cond]]
        inputs = [*test_avals, *avals[: k + n_consts], mask, counts, *avals[k + n_consts :]]
        return trace_function(program, inputs, name="vmap", abstract=False)

    key = ("lanes", test, n_cond, n_consts, cond_flags, borrow)
    whole, more = memoised(step, key, make)
    running = eval_jaxpr(test, [*on_device_of(test_captured, args), *cond_consts, *carry])[0]
    mine = on_device_of([*more, *test_captured], args)
    consts = [*mine, *cond_consts, *on_device_of(captured, args), *consts]
    first = [running, *on_device_of([np.zeros(size, np.int64)], args), *carry]
    outs = _run(_any_running(whole, len(consts), n_carry), whole, [], consts, first, loop.budget)
    return outs[2:], [True, *[True] * n_carry, *out_batched[n_carry:]]


def _any_running(whole: Jaxpr, n_consts: int, n_carry: int) -> Jaxpr:
    """The condition of a loop whose first carry says which lanes run."""

    def make() -> Jaxpr:
        avals = [v.aval for v in whole.inputs[n_consts:]]
        return trace_function(lambda running, *rest: [any_lane(running)], avals, name="vmap", abstract=False)[0]

    return memoised(whole, ("any_running", n_consts, n_carry), make)


def _batch_by_lane(loop: WhileLoop, size: int, args: Sequence[Any], flags: tuple[bool, ...]) -> tuple[list, list]:
    """A loop with effects: one lane after the other, so that a lane has only the effects of its own iterations."""
    if loop.n_emitted:
        raise MissingRuleError(
            "vmap of the derivative of a while_loop whose body has effects, with a condition that differs between examples: "
            "the effects cannot be kept apart.\n"
            "Remedy: take the derivative outside (grad of a sum of vmap), or remove the effect."
        )
    outs = lane_by_lane(size, args, flags, while_p, {"loop": loop})
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
    return scan_p(*consts, *items, loop=Loop(interned(jaxpr), len(consts), 0, size))


while_p = Primitive(
    "while_loop",
    _impl,
    _abstract,
    primal_and_jvp=_jvp,
    takes_masks=True,
    linearize=_linearize,
    partial_eval=_partial_eval,
    split=_split,
    transpose=_transpose,
    batch=_batch,
    multiple=True,
    ready=lambda *avals, loop: lambda *args: _in_python(loop, args),
    may_share=True,
)


# ---------------------------------------------------------------- the user's function


@api
def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any, *, policy: Any = None) -> Any:
    """`while cond_fun(val): val = body_fun(val)`, for a condition that is known only when the program runs.

    Parameters
    ----------
    cond_fun : callable
        It takes the value and returns one bool.
    body_fun : callable
        It takes the value and returns the next, with the same structure, shapes and dtypes.
    init_val : array, number or container of them
        The first value. Python scalars take the dtype that body_fun returns.
    policy : checkpoint policy, optional
        What reverse mode keeps, as for `scan`.

    Returns
    -------
    like init_val
        The value for which the condition is false.

    Raises
    ------
    TypeError
        The value changes its structure, shapes or dtypes (the message names the path), or cond_fun does not return one
        bool.
    TracerBoolConversionError
        A function asks for a value: both are traced, with abstract values.

    Notes
    -----
    Reverse mode works (JAX's does not). It keeps residuals for each turn, or what `policy` says: with a
    `funcad.checkpoint_policies.memory_budget` states of the loop that lie ever further apart, and turns run again.
    Under `vmap` the loop runs until every example has stopped.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> newton = lambda a: funcad.while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: (x + a / x) / 2, a)
    >>> round(float(newton(2.0)), 6), round(float(funcad.grad(newton)(2.0)), 6)
    (1.414214, 0.353553)
    >>> halvings = lambda x: funcad.while_loop(lambda v: v[0] > 1.0, lambda v: (v[0] / 2, v[1] + 1), (x, 0))[1]
    >>> funcad.vmap(halvings)(np.array([1.0, 8.0, 100.0]))
    array([0, 3, 7])

    See also
    --------
    fori_loop, scan, cond
    """
    return run_while(
        "while_loop", cond_fun, body_fun, init_val, ("init_val", "the value returned by " + name_of(body_fun)), policy
    )


def run_while(what: str, cond_fun: Any, body_fun: Any, init: Any, names: tuple[str, str], policy: Any = None) -> Any:
    check_functions(what, "while_loop(cond_fun, body_fun, init_val)", cond_fun, body_fun)
    budget, body_fun = kept_by(policy, body_fun)
    carry, structure = prepare(what, init, names[0])

    def body(*values: Any) -> list[Any]:
        leaves, found = prepare(what, call_as(f"{what} calls body_fun(carry)", body_fun, structure.unflatten(values)), names[1])
        check_structure(what, found, structure, names[1], names[0])
        return leaves

    jaxpr, consts, avals = trace_carry(what, body, [aval_of(c) for c in carry], [], structure, True, carry)

    def test(*values: Any) -> list[Any]:
        out = call_as(f"{what} calls cond_fun(carry)", cond_fun, structure.unflatten(values))
        leaves, _ = prepare(what, out, f"the value returned by {name_of(cond_fun)}")
        if len(leaves) != 1 or leaves[0] is not out or aval_of(out).shape != () or aval_of(out).dtype.kind != "b":
            raise TypeError(
                f"{what}: {name_of(cond_fun)} must return one bool of shape (), got {said(out)}.\n"
                "Remedy: compare it (x > 0); reduce an array of bools with np.all or np.any."
            )
        return leaves

    cond, cond_consts = trace_function(test, avals, name=f"the condition of {what}", staging=True, beside=carry)
    cond = interned(coerce(cond, [Aval((), np.dtype(bool))]))
    inputs = [*cond_consts, *consts, *strengthened(carry, avals)]
    outs = while_p(*inputs, loop=WhileLoop(cond, jaxpr, len(cond_consts), len(consts), budget))
    return structure.unflatten(own_memory(outs[1 : 1 + len(carry)], inputs))
