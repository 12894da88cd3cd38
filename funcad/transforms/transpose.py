"""Reverse mode's second half: run a linear program backwards.

Idea: reverse mode is derived. jvp gives a linear program; here every linear equation, last first, hands the cotangent of its
output to its primitive's `transpose`. Equations without a linear input are run forwards first, by `partial_eval` (they occur
inside bodies of checkpoint and of custom rules). A missing transpose raises, naming the primitive.

Invariant: a residual is dropped as soon as the last equation that reads it (the first in program order) has been transposed;
what is written in place is in cotangents.py. Convention for complex numbers: transposition is real-linear and does not
conjugate, as in JAX: the cotangent of z under `mul(z, c)` is `ct * c`. So for f: C -> R, `grad(f)(z)` is df/dx - i df/dy;
descend along its conjugate.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import numpy as np

from funcad.errors import MissingRuleError
from funcad.host.devices import restore_warnings, suppress_warnings
from funcad.host.where import note_source, state
from funcad.ir.aval import AnyAval, Atom, Aval, Cotangent, StackAval, Value
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, prune
from funcad.ir.primitive import is_linear
from funcad.ir.trace import trace_function
from funcad.primitives.loop import bools_aval, zero_value
from funcad.transforms.cotangents import Cotangents
from funcad.transforms.partial import partial_eval

from funcad.masks.masks import (  # isort: skip
    CALM, EVERY, WHOLE, Mask, begins, clean, constant, handed_on, is_followed, kinds_of, mask_of, needed, transposed,
)


def _first_uses(equations: Sequence[Equation], variables: Container[object]) -> list[list[Atom]]:
    """For each equation, the given variables that no earlier equation reads."""
    seen: set[Atom] = set()
    result: list[list[Atom]] = []
    for equation in equations:
        result.append([a for a in dict.fromkeys(equation.inputs) if a in variables and a not in seen])
        seen.update(result[-1])
    return result


def transpose_eval(
    jaxpr: Jaxpr,
    linear: Sequence[bool],
    values: list[Any],
    cotangents: Sequence[Cotangent],
    all_linear: bool = False,
    given_masks: Sequence[Mask | None] = (),
    wanted: Sequence[int] = (),
) -> list[Any]:
    """Cotangents of the linear inputs (None: zero), given the other inputs' values and the outputs' cotangents.

    `values` has an entry per input (ignored where linear). The list is emptied, so that residuals can die early. `all_linear`
    promises that every equation has a linear input (a recorded tangent program). `given_masks` are those of the outputs'
    cotangents; if any are `wanted`, pairs of the inputs' cotangents and masks come back.
    """
    known: dict[Any, Value] = {v: x for v, x, is_lin in zip(jaxpr.inputs, values, linear) if not is_lin}
    values.clear()
    inputs = [v for v, is_lin in zip(jaxpr.inputs, linear) if is_lin]
    if all_linear:
        backward: Sequence[Equation] = jaxpr.equations
    else:
        backward = partial_eval(jaxpr, known, set(inputs))
    cts = Cotangents()
    deaths: Iterable[Iterable[Atom]] = reversed(_first_uses(backward, known)) if known else itertools.repeat(())
    saved = state.source
    token = suppress_warnings()
    try:
        need = None
        if wanted or given_masks or begins(backward, known):
            need = needed(backward, set(inputs), {v: n for v, n in zip(inputs, wanted) if n}, any(given_masks))
        at_once = need is not None and any(map(is_followed, known.values()))  # or tangents would be selected, too
        masks = cts.masks
        for atom, seed, mask in itertools.zip_longest(jaxpr.outputs, cotangents, given_masks):
            if seed is not None and type(atom) is not Literal:
                if mask is not None:
                    seed, mask = handed_on(atom, seed, mask, need or {})
                cts.accumulate(atom, seed, mask)
        for equation, dead in zip(reversed(backward), deaths):
            primitive, atoms, params, outputs, source = equation
            state.source = source or saved
            mine = False
            if primitive.multiple:
                ct: Any = [cts.pop(v) for v in outputs]
                ct = None if all([c is None for c in ct]) else ct
            else:
                ct, mine = cts.take(outputs[0]) if primitive.transpose_over is not None else (cts.pop(outputs[0]), False)
            if ct is not None:
                if primitive.transpose is None:
                    raise _missing(equation)
                operands: Any = [a.value if type(a) is Literal else known.get(a, a) for a in atoms]
                given = [masks.pop(v, None) for v in outputs] if masks else ()
                mask = given[0] if given else None
                reads: int | None = None
                if primitive.transpose_over is not None and cts.write(equation, operands, ct, mine, mask, need or {}):
                    pass
                elif primitive.adds is not None and (reads := cts.read(equation, operands, ct, mask)) is None:
                    pass
                elif need is not None and (any(given) or primitive.reach not in CALM or primitive.masked is not None):
                    given = given or [None] * len(outputs)
                    for atom, x, (c, m) in zip(atoms, operands, transposed(equation, operands, ct, given, need, at_once)):
                        if type(x) is Var and c is not None:
                            cts.accumulate(atom, c, m)
                else:
                    for atom, x, c in zip(atoms, operands, primitive.transpose(ct, *operands, **params)):
                        if type(x) is Var and c is not None:
                            cts.accumulate(atom, c)
                if reads is not None:
                    cts.was_read(operands[0], reads)
            for v in dead:
                del known[v]
            operands = ct = x = c = None  # or the residual and the cotangent would live through the next equation
        if wanted:
            return [(cts.values.get(v), masks.get(v)) for v in inputs]
        return [clean(cts.values.get(v), masks.get(v)) for v in inputs] if masks else [cts.values.get(v) for v in inputs]
    except Exception as error:
        note_source(error, state.source)
        raise
    finally:
        state.source = saved
        restore_warnings(token)


def _missing(equation: Equation) -> MissingRuleError:
    return MissingRuleError(
        f"primitive {equation.primitive.name} has no transpose rule (operands: "
        f"{', '.join(f'{a.aval:a}' for a in equation.inputs)}), so reverse mode cannot pass through it.\n"
        "Remedy: wrap the operation in funcad.custom_vjp, or use forward mode (jvp, jacfwd)."
    )


def transpose_jaxpr(jaxpr: Jaxpr, linear: tuple[bool, ...], nonzero: tuple[bool, ...]) -> tuple[Jaxpr, list[Value], list[bool]]:
    """`(program, consts, in_nonzero)`: (consts, known inputs, nonzero cotangents) -> nonzero cotangents of linear inputs."""
    key = ("transpose", linear, nonzero)
    found = jaxpr.memo.get(key)
    if found is None:
        known = [v.aval for v, is_lin in zip(jaxpr.inputs, linear) if not is_lin]
        in_nonzero: list[bool] = []

        def program(*values: Value) -> list[Value]:
            given, cts = iter(values[: len(known)]), iter(values[len(known) :])
            full = [None if is_lin else next(given) for is_lin in linear]
            result = transpose_eval(jaxpr, linear, full, [next(cts) if z else None for z in nonzero])
            in_nonzero[:] = [c is not None for c in result]
            return [c for c in result if c is not None]

        avals = [*known, *[o.aval for o, z in zip(jaxpr.outputs, nonzero) if z]]
        derived, consts = trace_function(program, avals, name="transpose")
        found = jaxpr.memo.setdefault(key, (derived, consts, in_nonzero))
    return found


def masked_transpose(
    jaxpr: Jaxpr,
    cts: Sequence[Cotangent],
    masks: Sequence[Mask | None],
    wanted: Sequence[int],
    inputs: Sequence[Value | Var],
    run: Callable[[Jaxpr, list[Value]], list[Value]],
) -> list[tuple[Cotangent, Mask | None]]:
    """`Primitive.masked` of a program that is called once: `run(program, args)` calls the transposed one."""
    linear = tuple([is_linear(x) for x in inputs])
    kinds, bools = kinds_of(cts, masks)
    derived, consts, results = masked_transpose_jaxpr(jaxpr, linear, kinds, tuple([n for n, x in zip(wanted, linear) if x]))
    args = [*consts, *[x for x, lin in zip(inputs, linear) if not lin], *[c for c in cts if c is not None], *bools]
    outs = iter(run(derived, args))
    found = [None if r is None else next(outs) for r in results]
    pairs = iter([(c, mask_of(next(outs), r == WHOLE) if r else None) for c, r in zip(found, results)])
    return [next(pairs) if lin else (None, None) for lin in linear]


def masked_transpose_jaxpr(
    jaxpr: Jaxpr, linear: tuple[bool, ...], kinds: tuple[int | None, ...], wanted: tuple[int, ...], every: bool = False
) -> tuple[Jaxpr, list[Value], list[int | None]]:
    """`(program, consts, results)`: (consts, known inputs, nonzero cotangents, bools) -> nonzero cotangents and their bools.

    `kinds` says which cotangents and bools are given, `wanted` which bools the linear inputs' cotangents need, and `results`
    which come, as `kinds_of` does. `every`: all that are wanted come, with the shape of the cotangent, which comes too.
    """
    key = ("masked_transpose", linear, kinds, wanted, every)
    found = jaxpr.memo.get(key)
    if found is None:
        results: list[int | None] = []  # of each linear input: None without a cotangent; 0 without a mask; WHOLE or EVERY
        avals = [v.aval for v, lin in zip(jaxpr.inputs, linear) if not lin]
        n_known = len(avals)
        avals += [o.aval for o, k in zip(jaxpr.outputs, kinds) if k is not None]
        avals += [bools_aval(o.aval) if k == EVERY else Aval((), np.dtype(bool)) for o, k in zip(jaxpr.outputs, kinds) if k]

        def program(*args: Value) -> list[Value]:
            known, rest = iter(args[:n_known]), iter(args[n_known:])
            values = [None if lin else next(known) for lin in linear]
            given = [None if k is None else next(rest) for k in kinds]
            bools = [mask_of(next(rest), k == WHOLE) if k else None for k in kinds]
            pairs = transpose_eval(jaxpr, linear, values, given, False, bools, wanted)
            if every:
                inputs = [v.aval for v, lin in zip(jaxpr.inputs, linear) if lin]
                pairs = [_in_full(c, m, n, aval) for (c, m), n, aval in zip(pairs, wanted, inputs)]
            results[:], masks = kinds_of(*zip(*pairs))
            return [*[c for c, _ in pairs if c is not None], *masks]

        derived, consts = trace_function(program, avals, name="transpose")
        found = jaxpr.memo.setdefault(key, (prune(derived), consts, results))
    return found


def _in_full(ct: Cotangent, mask: Mask | None, wanted: int, aval: AnyAval) -> tuple[Cotangent, Mask | None]:
    """A cotangent with bools of its shape, if they are wanted; how many a stack without a mask has is not known."""
    if not wanted or type(aval) is StackAval and mask is None:
        return clean(ct, mask), None
    bools = constant(ct is not None, aval.shape) if mask is None else mask.bools.get(aval.shape)
    return zero_value(Aval(aval.shape, aval.dtype)) if ct is None else ct, mask_of(bools, False)


def needs_of(jaxpr: Jaxpr, linear: tuple[bool, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """`Primitive.needs` of a program that is called."""
    key = ("needs", linear, wanted)
    found = jaxpr.memo.get(key)
    if found is None:
        inputs = {v for v, lin in zip(jaxpr.inputs, linear) if lin}
        need: Any = needed(jaxpr.equations, inputs, {v: n for v, n in zip(jaxpr.inputs, wanted) if n}, True)
        found = jaxpr.memo.setdefault(key, tuple([need.get(o, 0) for o in jaxpr.outputs]))
    return found
