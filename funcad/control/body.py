"""Bodies of loops: tracing one, and deriving its tangent and linear bodies. Shared by scan and while_loop.

A body is a program `(consts, carry, xs) -> (carry, ys)`; a while loop's has no xs, and its ys are what it emits on stacks.
Idea of `LinearBody`: linearize one iteration; the forward loop computes the carry and stacks the residuals, the linear loop
reads them back. A residual that *is* a const, or depends on consts alone, is passed as a const, not stacked; one that is an x
or a y is stacked already. Traps: nonzero carry tangents need a fixpoint, from the given ones up; a carry whose tangent starts
at zero is a known value in a linear position, which transposition must accept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad import tree
from funcad.api.border import check_leaves, flat_values
from funcad.host.real_types import ordinary
from funcad.ir.aval import Aval, StackAval, said, strip_literal
from funcad.ir.jaxpr import Jaxpr, Literal, Var, split
from funcad.ir.trace import trace_function
from funcad.primitives.conversion import convert
from funcad.primitives.loop import Loop
from funcad.transforms.jvp import jvp_jaxpr
from funcad.transforms.partial import linearize_jaxpr

from funcad.control.call import (  # isort: skip
    call, coerce, fill_zeros, fixpoint, interned, invariant_part, memoised_on_body, rewire, scatter,
)

_PYTHON = {"b": False, "i": 0, "f": 0.0, "c": 0j}


# ---------------------------------------------------------------- tracing the user's function


def leaf_path(structure: Any, i: int) -> str:
    return tree.keystr(structure.paths()[i])


def check_functions(what: str, how: str, *given: Any) -> None:
    """Raise where something else stands in the place of a function."""
    for f in given:
        if not callable(f):
            raise TypeError(f"{what} takes functions, got {said(f)}.\nRemedy: {how}.")


def check_structure(what: str, found: Any, expected: Any, found_name: str, expected_name: str) -> None:
    if found != expected:
        raise TypeError(
            f"{what}: {found_name} must have the structure of {expected_name}.\n"
            + tree.describe_difference(found, expected, found_name, expected_name)
            + ("\nRemedy: return the new value." if found == tree.structure(None) else "")
        )


def unified(a: Any, b: Any) -> Any:
    """The aval that both can be converted to (weak values adapt, as in NumPy), or None."""
    if a.shape != b.shape:
        return None
    if a.weak and b.weak:
        return Aval(a.shape, np.result_type(a.dtype, b.dtype), True)
    if not a.weak and not b.weak:
        return Aval(a.shape, a.dtype) if a.dtype == b.dtype else None
    strong, weak = (b, a) if a.weak else (a, b)
    return Aval(a.shape, np.result_type(strong.dtype, _PYTHON.get(weak.dtype.kind, 0)))


def to_agree(a: Any, b: Any) -> str:
    """What brings the outputs of two branches together."""
    if a.shape == b.shape:
        return f".astype(np.{np.result_type(a.dtype, b.dtype)}) in both"
    try:
        return f"np.broadcast_to(..., {np.broadcast_shapes(a.shape, b.shape)}) in the branch that returns less"
    except ValueError:
        return "pad the smaller one, as with np.pad"


def _next_carry(what: str, came: Any, went: Any, structure: Any, i: int) -> Any:
    """The aval that the carry must have, given what came in and what went out."""
    result = unified(came, went)
    if result is None or (not came.weak and result.dtype != came.dtype):
        name = "carry" + leaf_path(structure, i)
        if came.shape != went.shape:
            remedy = "Remedy: a carry keeps its shape: start from the final shape, or stack what grows (scan's second output)."
        else:
            remedy = f"Remedy: a carry keeps its dtype: start from {went.dtype}, or return {name}.astype(np.{came.dtype})."
        raise TypeError(f"{what}: {name} comes in as {came:a} but goes out as {went:a}.\n{remedy}")
    return result


def trace_carry(
    what: str,
    f: Callable[..., list],
    carry: Sequence[Any],
    rest: Sequence[Any],
    structure: Any,
    staging: bool,
    inputs: Sequence[Any],
) -> tuple[Jaxpr, list[Any], list[Any]]:
    """Trace `f(*carry, *rest) -> [*carry, *others]` with a carry that keeps its avals: (program, captured, carry avals).

    A weak carry (a Python scalar) that goes out strong is made strong and the function traced again.
    """
    avals = list(map(strip_literal, carry))
    n = len(avals)
    while True:
        name = f"the body of {what}"
        jaxpr, consts = trace_function(f, [*avals, *rest], name=name, staging=staging, errstate="refused", beside=inputs)
        found = [
            _next_carry(what, a, o.aval, structure, i)
            for i, (a, o) in enumerate(zip(avals, jaxpr.outputs))
        ]
        if found == avals:
            outputs = [*avals, *[strip_literal(o.aval) for o in jaxpr.outputs[n:]]]
            return interned(coerce(jaxpr, outputs)), consts, avals
        avals = found


def prepare(what: str, value: Any, name: str) -> tuple[list[Any], Any]:
    """The leaves and the structure of an operand, checked."""
    leaves, structure = flat_values(value)
    check_leaves(leaves, f"{what}: {name}", value)
    return ordinary(leaves), structure


def strengthened(values: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Initial values in the dtypes that the carry settled on."""
    result = []
    for x, aval in zip(values, avals):
        if aval.weak and type(x) in (bool, int, float, complex):
            x = {"b": bool, "i": int, "f": float, "c": complex}[aval.dtype.kind](x)
        elif not aval.weak:
            x = convert(x, aval.dtype)
        result.append(x)
    return result


# ---------------------------------------------------------------- forward mode


class JvpBody(NamedTuple):
    """`jaxpr`: (captured, consts, tangents | carry, tangents | xs, tangents) -> (carry, tangents | ys, tangents)."""

    jaxpr: Jaxpr
    captured: list[Any]
    nonzero: tuple[bool, ...]  # of the inputs, after the fixpoint
    ys_nonzero: list[bool]


@memoised_on_body
def jvp_body(loop: Loop, nonzero: tuple[bool, ...]) -> JvpBody:
    jaxpr, n_carry = loop.body, loop.n_carry
    nonzero = fixpoint(nonzero, loop.n_consts, n_carry, lambda flags: jvp_jaxpr(jaxpr, flags)[2])
    derived, captured, out_nonzero = jvp_jaxpr(jaxpr, nonzero)
    captured_vars, primals, tangents = split(derived.inputs, len(captured), len(jaxpr.inputs))
    outs, touts = split(derived.outputs, len(jaxpr.outputs))[:2]
    consts, carry, xs = loop.split(primals)
    t_flags = loop.split(nonzero)
    tconsts, tcarry, txs = split(tangents, sum(t_flags[0]), sum(t_flags[1]))
    full = scatter(touts, out_nonzero)
    wanted = t_flags[1]
    carry_touts, zeros = fill_zeros(
        [t for t, w in zip(full, wanted) if w], [o.aval for o, w in zip(jaxpr.outputs, wanted) if w]
    )
    ys_nonzero = list(out_nonzero[n_carry:])
    program = rewire(
        derived,
        [*captured_vars, *consts, *tconsts, *carry, *tcarry, *xs, *txs],
        [*outs[:n_carry], *carry_touts, *outs[n_carry:], *[t for t in full[n_carry:] if t is not None]],
        zeros,
    )
    return JvpBody(program, captured, nonzero, ys_nonzero)


# ---------------------------------------------------------------- linearization


class LinearBody(NamedTuple):
    """The two loops of a linearized loop; see the module's text.

    `forward`: (captured, consts | carry | xs) -> (carry | ys, residuals to stack). `linear`: (const residuals, const tangents
    | carry tangents | xs residuals, stacked residuals, x tangents) -> (carry tangents | y tangents). `const_sources` and
    `xs_sources` say where the residuals come from: ("const", i), ("captured", i), ("invariant", i), ("x", i), ("y", i).
    """

    forward: Jaxpr
    captured: list[Any]
    invariant: Jaxpr  # (captured, consts) -> residuals that depend on them alone
    linear: Jaxpr
    const_sources: list[tuple[str, Any]]
    xs_sources: list[tuple[str, int]]
    nonzero: tuple[bool, ...]
    ys_nonzero: list[bool]

    def const_residuals(self, consts: Sequence[Any]) -> list[Any]:
        """The residuals that every iteration shares."""
        found: list[Any] = []
        if self.invariant.outputs:
            found = call(self.invariant, *self.captured, *consts, name="loop_invariant")
        where = {"const": consts, "invariant": found}
        return [s if kind == "value" else where[kind][s] for kind, s in self.const_sources]


@memoised_on_body
def linear_body(loop: Loop, nonzero: tuple[bool, ...]) -> LinearBody:
    jaxpr, n_consts, n_carry = loop.body, loop.n_consts, loop.n_carry
    nonzero = fixpoint(nonzero, n_consts, n_carry, lambda flags: linearize_jaxpr(jaxpr, flags).out_nonzero)
    lin = linearize_jaxpr(jaxpr, nonzero)
    forward, n_captured, n_outputs = lin.forward, len(lin.consts), len(jaxpr.outputs)
    body_inputs = forward.inputs[n_captured:]
    fixed, equations = invariant_part(forward, forward.inputs[: n_captured + n_consts])

    const_vars: list[Var] = []
    const_sources: list[tuple[str, Any]] = []
    xs_vars: list[Var] = []
    xs_sources: list[tuple[str, int]] = []
    stack_vars: list[Var] = []
    invariants: list[Any] = []
    to_stack: list[Any] = []

    def place(v: Var, kind: str, source: Any) -> None:
        if kind == "const":  # an array that the derivation itself made
            const_vars.append(v)
            const_sources.append(("value", source))
        elif kind == "in" and source < n_consts:
            const_vars.append(v)
            const_sources.append(("const", source))
        elif kind == "in" and source >= n_consts + n_carry:
            xs_vars.append(v)
            xs_sources.append(("x", source - n_consts - n_carry))
        elif kind == "out" and source >= n_carry:
            xs_vars.append(v)
            xs_sources.append(("y", source - n_carry))
        else:
            atom = body_inputs[source] if kind == "in" else forward.outputs[source + (n_outputs if kind == "new" else 0)]
            if (type(atom) is Literal or atom in fixed) and type(atom.aval) is not StackAval:
                const_vars.append(v)
                const_sources.append(("invariant", len(invariants)))
                invariants.append(atom)
            else:
                stack_vars.append(v)
                to_stack.append(atom)

    residual_vars, tangents = split(lin.linear.inputs, len(lin.residuals))
    for v, (kind, source) in zip(residual_vars, lin.residuals):
        place(v, kind, source)

    flags = loop.split(nonzero)
    tconsts, tcarry, txs = split(tangents, sum(flags[0]), sum(flags[1]))
    full = scatter(lin.linear.outputs, lin.out_nonzero)
    carry_touts, zeros = fill_zeros(
        [t for t, w in zip(full, flags[1]) if w], [o.aval for o, w in zip(jaxpr.outputs, flags[1]) if w]
    )
    ys_touts = [t for t in full[n_carry:] if t is not None]
    linear = rewire(
        lin.linear,
        [*const_vars, *tconsts, *tcarry, *xs_vars, *stack_vars, *txs],
        [*carry_touts, *ys_touts],
        zeros,
    )
    return LinearBody(
        rewire(forward, forward.inputs, [*forward.outputs[:n_outputs], *to_stack]),
        lin.consts,
        rewire(Jaxpr((), tuple(equations), ()), forward.inputs[: n_captured + n_consts], invariants),
        linear,
        const_sources,
        xs_sources,
        nonzero,
        list(lin.out_nonzero[n_carry:]),
    )
