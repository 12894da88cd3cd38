"""Running a loop, a step at a time in Python: the reference, and what engines fall back on.

Traps: rows of stacks that a later write of the user's could reach are copied; with `unroll` the remainder runs step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.backends.engines import program_of, turns_left
from funcad.backends.interpreter import apart, moved, program_of_turns
from funcad.control.call import memoised_on_body
from funcad.host import progress
from funcad.host.locks import root_of
from funcad.ir.aval import Stack, StackAval
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, subjaxprs
from funcad.ir.trace import trace_function
from funcad.passes.together import APART, joined
from funcad.primitives.loop import Loop, stacked, zero_entry


@memoised_on_body
def unrolled(loop: Loop, times: int) -> Jaxpr:
    """The body `times` times in a row, as one program: (consts, carry, times xs) -> (carry, times ys)."""
    avals, xs_avals = loop.body.in_avals, loop.split(loop.body.in_avals)[2]
    body = joined(loop.body)

    def program(*values: Any) -> list[Any]:
        consts, carry, xs = loop.split(values)
        n_xs = len(xs_avals)
        ys: list[Any] = []
        for i in range(times):
            outs = eval_jaxpr(body, [*consts, *carry, *xs[i * n_xs : (i + 1) * n_xs]])
            carry = outs[: loop.n_carry]
            ys += outs[loop.n_carry :]
        return [*carry, *ys]

    many, captured = trace_function(program, [*avals, *xs_avals * (times - 1)], name=loop.name, abstract=True)
    assert not captured, "a body captures nothing"
    many.memo[APART] = True  # as in a loop that is not unrolled
    return many


def own_entry(x: Any, roots: set) -> Any:
    """An entry for a stack that no later write of the user's can reach."""
    return x.copy("K") if type(x) is np.ndarray and id(root_of(x)) in roots else x


def roots_of(values: Sequence[Any]) -> set:
    return {id(root_of(v)) for v in values if type(v) is np.ndarray}


def _read(xp: Any, x: Any, i: int) -> Any:
    if type(x) is Stack:
        return x[i] if x else zero_entry(xp, x.aval.element)
    return x[i]


def in_python(xp: Any, args: Any, loop: Loop, compiled: Callable[[list[Any]], Any]) -> list:
    """The loop, a turn at a time; what rules have captured for it is moved to a device once."""
    if xp is np or any([j.moves for j in subjaxprs({"loop": loop})]):
        return _turns(xp, args, loop, compiled)
    there = [moved(xp, a) if type(a) is np.ndarray else a for a in args]
    lent = [v for v, a in zip(there, args) if v is not a]
    return apart(xp, _turns(xp, there, loop, compiled), lent)


def _turns(xp: Any, args: Any, loop: Loop, compiled: Callable[[list[Any]], Any]) -> list:
    """The body is compiled once turns have taken about what that takes; a loop with a condition goes on from there."""
    body, n_carry, length, cond = loop.body, loop.n_carry, loop.length, loop.cond
    whole, left = program_of(body), turns_left(loop)
    counts, consts, carry, xs = map(list, loop.parts(args))
    count = length if length is not None else 0 if cond is not None else int(counts[0])
    ys: list[Any] = []
    for o in body.outputs[n_carry:]:
        together = stacked(o.aval, length)
        if type(together) is StackAval:
            ys.append(Stack([None] * count, together))
        else:
            ys.append(xp.empty(together.shape, together.dtype))
    roots = roots_of(args) if any(type(y) is Stack for y in ys) else set()
    order = range(count - 1, -1, -1) if loop.reverse else range(count)
    step = min(loop.unroll, count)
    start = 0
    if step > 1:
        many = program_of(unrolled(loop, step))
        many.turns += 1
        name = lambda: f"{loop.name}{many.where()}"
        with many.repeated(xp, count // step) as turn, progress.counted(turn, name, count // step) as run:
            for start in range(0, count - step + 1, step):
                chunk = order[start : start + step]
                outs = run([*consts, *carry, *[_read(xp, x, i) for i in chunk for x in xs]])
                carry = outs[:n_carry]
                for k, i in enumerate(chunk):
                    _write(ys, outs[n_carry + k * len(ys) : n_carry + (k + 1) * len(ys)], i, roots)
        start += step
    program = program_of_turns(loop, carry) or whole
    name = lambda: f"{loop.name}{program.where()}"
    if cond is not None:
        test, most = program_of(cond), max(left, 1)
        test.turns += 1
        with progress.counted(program.run, name) as run:
            while test.run([*counts, *carry])[0]:
                outs = run([*consts, *carry])
                carry = outs[:n_carry]
                count += 1
                whole.turns += 1
                for y, value in zip(ys, outs[n_carry:]):
                    y.append(own_entry(value, roots))
                if count == most and (rest := compiled([*counts, *consts, *carry])) is not None:
                    more, *carry = rest
                    for y, others in zip(ys, carry[n_carry:]):
                        y.extend(others)
                    return [np.int64(count + more), *carry[:n_carry], *ys]
        return [np.int64(count), *carry, *ys]
    whole.turns += count
    with program.repeated(xp, count - start) as turn, progress.counted(turn, name, count - start) as run:
        for i in order[start:]:
            outs = run([*consts, *carry, *[_read(xp, x, i) for x in xs]])
            carry = outs[:n_carry]
            if ys:
                _write(ys, outs[n_carry:], i, roots)
    return [*carry, *ys]


def _write(ys: list, values: Sequence[Any], i: int, roots: set) -> None:
    for y, value in zip(ys, values):
        y[i] = own_entry(value, roots) if type(y) is Stack else value
