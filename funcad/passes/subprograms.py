"""Which programs an equation holds, which of its operands and results are theirs, and keys of programs.

Higher-order primitives are declared above this level (control/), so they are known here by name together with the names of
their parameters; an equation that does not look exactly as expected is `None` and passes leave it alone. At this point nothing
differentiates or maps a program any more, hence what has a custom rule is a plain call, and of `linear_solve` and `root` only
`solve` is ever run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funcad.ir.aval import StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, params_key, split
from funcad.tree.same import same_key

_PARAMS: dict[str, tuple[str, frozenset[str]]] = {
    "call": ("call", frozenset(["jaxpr", "name"])),
    "checkpoint": ("call", frozenset(["jaxpr", "policy"])),
    "custom_jvp_call": ("custom", frozenset(["jaxpr", "rule", "n_consts"])),
    "custom_vjp_call": ("custom", frozenset(["jaxpr", "rules", "n_consts"])),
    "custom_vmap_call": ("custom", frozenset(["jaxpr", "rule", "n_consts"])),
    "linear_solve": ("solve", frozenset(["matvec", "solve", "transpose_solve", "n_consts"])),
    "root": ("solve", frozenset(["f", "solve", "tangent_solve", "n_consts"])),
    "loop": ("loop", frozenset(["loop"])),
    "cond": ("cond", frozenset(["branches"])),
}


def kind_of(equation: Equation) -> str | None:
    """ "call", "custom", "solve", "loop", "cond", or None for an equation whose programs (if any) are not known."""
    primitive = equation.primitive
    if not primitive.multiple:
        return None
    found = _PARAMS.get(primitive.name)
    return found[0] if found is not None and equation.params.keys() == found[1] else None


def called(equation: Equation) -> tuple[Jaxpr, tuple[Any, ...]] | None:
    """The program that the equation runs exactly once, and its operands; None if it is not such an equation."""
    kind, params = kind_of(equation), equation.params
    if kind == "call" or kind == "custom":
        return params["jaxpr"], equation.inputs
    if kind == "solve":
        _, mine, _, last = split(equation.inputs, *params["n_consts"])
        return params["solve"], (*mine, *last)
    if kind == "cond" and type(equation.inputs[0]) is Literal:
        branches = params["branches"]
        return branches[min(max(int(equation.inputs[0].value), 0), len(branches) - 1)], equation.inputs[1:]
    return None


_RUN = {
    "call": ("jaxpr",),
    "custom": ("jaxpr",),
    "solve": ("solve",),
    "loop": ("loop",),
    "cond": ("branches",),
}


def with_programs(value: Any, change: Callable[[Jaxpr], Jaxpr]) -> Any:
    """A parameter with `change` applied to each program in it, as `ir.jaxpr.subjaxprs` finds them; itself if none changed."""
    if isinstance(value, Jaxpr):
        return change(value)
    if not isinstance(value, tuple):
        return value
    found = [change(item) if isinstance(item, Jaxpr) else item for item in value]
    if all([a is b for a, b in zip(found, value)]):
        return value
    return tuple(found) if type(value) is tuple else type(value)(*found)  # branches, or a loop


def with_subprograms(equation: Equation, change: Callable[[Jaxpr], Jaxpr]) -> Equation:
    """The equation with `change` applied to each program that it runs; the same object if none changed."""
    kind = kind_of(equation)
    if kind is None:
        return equation
    params = equation.params
    new: dict[str, Any] = {}
    for key in _RUN[kind]:
        found = with_programs(params[key], change)
        if found is not params[key]:
            new[key] = found
    if not new:
        return equation
    return Equation(equation.primitive, equation.inputs, {**params, **new}, equation.outputs, equation.source)


# -- keys of parameters and of programs, for whoever looks up whether an equal one was met before
#
# Numbers count by type and bits (tree/same.py). Programs are equal if they apply the same primitives, with equal parameters,
# wired alike, to inputs of equal avals.


def program_key(
    jaxpr: Jaxpr,
    program: Callable[[Jaxpr], Any] | None = None,
    literal: Callable[[Any], Any] = same_key,
    sources: bool = False,
) -> tuple:
    """The key of a program; TypeError if it has none, now or when it is looked up.

    `program` is for those among the parameters, as in `params_key`; `literal(value)` is what counts of a number in it; with
    `sources` it matters where in the user's program the operations stand.
    """
    numbers: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.inputs)}
    parts: list[Any] = []
    add = parts.append
    for v in jaxpr.inputs:
        aval = v.aval
        add(aval if type(aval) is StackAval else (aval.shape, aval.dtype, aval.weak))
    for primitive, atoms, params, outputs, source in jaxpr.equations:
        add(primitive)
        for a in atoms:
            add(literal(a.value) if type(a) is Literal else numbers[a])
        if params:
            key = params_key(params, program)
            if key is None:
                raise TypeError(f"{primitive.name} has parameters without a key")
            add(key)
        if sources and source is not None:
            add((id(source.code), source.offset, source.scope))
        for v in outputs:
            numbers[v] = len(numbers)
    for o in jaxpr.outputs:
        add(literal(o.value) if type(o) is Literal else numbers[o])
    return tuple(parts)
