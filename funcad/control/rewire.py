"""Rewiring programs: permute inputs, choose outputs, fill in zeros, without tracing again.

Control flow derives bodies from bodies; most of it is a matter of which variable is an input and which an output. A rewired
program shares its variables and equations with the original, but is a Jaxpr of its own (with its own memo).
`interned` gives back the Jaxpr of an earlier trace that is equal to a new one, so that everything derived from it, and its
compiled program, is found again: un-jitted control flow traces its functions at every call, but derives and compiles once.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from funcad.backends.interpreter import compiling
from funcad.host.forks import held_over_forks
from funcad.ir.aval import Aval, LiteralAval, StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, equation_has_effects, split
from funcad.passes.program_keys import program_key
from funcad.primitives.conversion import convert_p
from funcad.primitives.loop import Loop
from funcad.primitives.placement import on_device_of
from funcad.primitives.shape import broadcast_in_dim
from funcad.primitives.stack import stack_empty_p, zero_value

__all__ = ["split", "rewire", "fill_zeros", "coerce", "invariant_part", "interned", "zeros_near", "strip_literal", "stacked"]


def strip_literal(aval: Any) -> Any:
    """The aval of a variable (never a LiteralAval)."""
    return Aval(aval.shape, aval.dtype, aval.weak) if type(aval) is LiteralAval else aval


def stacked(aval: Any, length: int | None) -> Any:
    """What `length` values of one aval become together: an array, or a stack where the length is unknown."""
    if length is None or type(aval) is StackAval:
        return StackAval(strip_literal(aval))
    return Aval((length, *aval.shape), aval.dtype)


def rewire(jaxpr: Jaxpr, inputs: Sequence[Var], outputs: Sequence[Any], equations: Sequence[Equation] = ()) -> Jaxpr:
    """The program with other inputs and outputs, without the equations that are now dead; `equations` come last."""
    every = (*jaxpr.equations, *equations)
    live = {o for o in outputs if type(o) is Var}
    kept = []
    for equation in reversed(every):
        if any(o in live for o in equation.outputs) or equation_has_effects(equation):
            kept.append(equation)
            live.update(a for a in equation.inputs if type(a) is Var)
    return Jaxpr(tuple(inputs), tuple(reversed(kept)), tuple(outputs))


def zero_atom(aval: Any) -> tuple[Any, list[Equation]]:
    """A zero inside a program (no array is captured for it)."""
    if type(aval) is StackAval:
        v = Var(aval)
        return v, [Equation(stack_empty_p, (), {"aval": aval}, (v,))]
    zero = Literal(aval.dtype.type(0))
    if not aval.shape:
        return zero, []
    v = Var(Aval(aval.shape, aval.dtype))
    return v, [Equation(broadcast_in_dim, (zero,), {"shape": aval.shape, "axes": ()}, (v,))]


def fill_zeros(atoms: Sequence[Any], avals: Sequence[Any]) -> tuple[list[Any], list[Equation]]:
    """The atoms with a zero in place of each None, and the equations that make the zeros."""
    filled, equations = [], []
    for atom, aval in zip(atoms, avals):
        if atom is None:
            atom, made = zero_atom(aval)
            equations += made
        filled.append(atom)
    return filled, equations


def coerce(jaxpr: Jaxpr, avals: Sequence[Any]) -> Jaxpr:
    """The program with its outputs converted to these avals (which have the right shapes)."""
    outputs, equations = [], []
    for atom, aval in zip(jaxpr.outputs, avals):
        found = atom.aval
        if type(found) is not StackAval and (found.dtype != aval.dtype or (found.weak and not aval.weak)):
            if type(atom) is Literal:
                atom = Literal(aval.dtype.type(atom.value))
            else:
                v = Var(Aval(aval.shape, aval.dtype))
                equations.append(Equation(convert_p, (atom,), {"dtype": aval.dtype}, (v,)))
                atom = v
        outputs.append(atom)
    if not equations and all(a is b for a, b in zip(outputs, jaxpr.outputs)):
        return jaxpr
    return Jaxpr(jaxpr.inputs, (*jaxpr.equations, *equations), tuple(outputs))


def invariant_part(jaxpr: Jaxpr, inputs: Sequence[Var]) -> tuple[set, list[Equation]]:
    """The variables that depend on these inputs alone, and the equations that compute them."""
    known: set = set(inputs)
    equations = []
    for equation in jaxpr.equations:
        if all(type(a) is Literal or a in known for a in equation.inputs) and not equation_has_effects(equation):
            known.update(equation.outputs)
            equations.append(equation)
    return known, equations


def fixpoint(flags: tuple, n_consts: int, n_carry: int, step: Callable[[tuple], Sequence[bool]]) -> tuple:
    """The smallest set of flagged inputs, from the given one up, that a loop's body maps into itself.

    `step(flags)` tells which outputs of the body are flagged, the carry first.
    """
    while True:
        out = step(flags)
        carry = flags[n_consts : n_consts + n_carry]
        grown = tuple([a or b for a, b in zip(carry, out[:n_carry])])
        if grown == carry:
            return flags
        flags = (*flags[:n_consts], *grown, *flags[n_consts + n_carry :])


# ---------------------------------------------------------------- placement of what a derived program captured


def zeros_near(avals: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    return on_device_of([zero_value(a) for a in avals], args)


# ---------------------------------------------------------------- interning

MOST_INTERNED = 512
_interned: OrderedDict[Any, Jaxpr] = OrderedDict()
_guard = threading.RLock()  # re-entrant: the collector may run anything meanwhile
held_over_forks(compiling, _guard)


def interned(jaxpr: Jaxpr) -> Jaxpr:
    """An equal program that was seen before (same operations at the same places of the source), else this one."""
    try:
        key = program_key(jaxpr, lambda inner: inner, sources=True)
        with _guard:
            found = _interned.setdefault(key, jaxpr)
            _interned.move_to_end(key)
            if len(_interned) > MOST_INTERNED:
                _interned.popitem(last=False)
    except TypeError:  # a parameter that cannot be compared
        return jaxpr
    return found


def forget_interned() -> None:
    """Drop every program that `interned` keeps."""
    with _guard:
        _interned.clear()


def memoised(jaxpr: Jaxpr, key: Any, make: Callable[[], Any]) -> Any:
    """What was derived from a program under this key, made at first use."""
    found = jaxpr.memo.get(key)
    if found is None:
        found = jaxpr.memo.setdefault(key, make())
    return found


def memoised_on_body(make: Callable[..., Any]) -> Callable[..., Any]:
    """For what is derived from a loop's body, the sizes of its consts and its carry and further arguments: made at first use.

    `make(loop, *args)` reads nothing else of the loop: neither how long it is nor in which direction it runs.
    """

    @functools.wraps(make)
    def derived(loop: Loop, *args: Any) -> Any:
        return memoised(loop.body, (make, loop.n_consts, loop.n_carry, *args), lambda: make(loop, *args))

    return derived
