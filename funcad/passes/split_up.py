"""Compositions taken apart: one equation for each atom of the formula of an element.

`t * (1 - y * y)` is one equation, for tanh's derivative. In a loop where t changes with the carry and y is an x, the factor is
the same work in every turn that could be done once for all of them: hoist.py moves it. And in a program that NumPy runs, its
temporaries take part in the memory plan. Idea: `emit` is the formula, and each atom has a primitive whose own formula is that
atom alone. Invariant: the parts compute what the composition's implementation computes, operation by operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Literal, Var
from funcad.ir.primitive import Primitive
from funcad.primitives import arithmetic, comparison, extrema, rounding, transcendental
from funcad.primitives.arithmetic import root
from funcad.primitives.atoms import UFUNCS, Formula, formula_of
from funcad.primitives.comparison import select

__all__ = ["computed", "parts_of", "split_up"]

_OF_ANY_NUMBERS = frozenset(["neg", "add", "sub", "mul", "div", "const"])  # complex ones have no order


@cache
def _atoms() -> dict[str, Primitive]:
    """The primitive of each atom."""
    found: dict[str, Primitive] = {"select": select}
    by_ufunc = {ufunc: name for name, ufunc in UFUNCS.items()}
    for module in (arithmetic, comparison, extrema, rounding, transcendental):
        for value in vars(module).values():
            if isinstance(value, Primitive) and value.ufunc in by_ufunc and value.emit is not None and value is not root:
                found[by_ufunc[value.ufunc]] = value
    return found


def parts_of(equation: Equation) -> list[Equation] | None:
    """The equations that compute an equation atom by atom; None if it is one atom, or its operands are not alike."""
    primitive, out = equation.primitive, equation.outputs[0].aval
    if primitive.emit is None or primitive.ufunc is not None or type(out) is not Aval or out.weak:
        return None
    dtype = next((a.aval.dtype for a in equation.inputs if not a.aval.weak), out.dtype)
    if not all([_alike(a, out.shape, dtype) for a in equation.inputs]):
        return None
    formula = formula_of(equation)
    if formula.result < 0:
        return None
    if dtype.kind not in "iuf" and not all([call.name in _OF_ANY_NUMBERS for call in formula.calls]):
        return None
    atoms: dict[int, Any] = dict(enumerate(equation.inputs, -len(equation.inputs)))
    parts: list[Equation] = []
    for i, call in enumerate(formula.calls):
        if call.name == "const":
            atoms[i] = Literal(call.told[0])
            continue
        part, inputs = _atoms().get(call.name, primitive), tuple([atoms[a] for a in call.reads])
        if part is primitive or all([type(a) is Literal for a in inputs]):
            return None
        atoms[i] = equation.outputs[0] if i == formula.result else Var(part.abstract_eval(*[a.aval for a in inputs]))
        parts.append(Equation(part, inputs, {}, (atoms[i],), equation.source))
    return parts


def computed(formula: Formula, operands: Sequence[Any]) -> Any:
    """A formula of values: each atom bound. None if an atom has no primitive."""
    values: dict[int, Any] = dict(enumerate(operands, -len(operands)))
    for i, call in enumerate(formula.calls):
        if call.name != "const" and call.name not in _atoms():
            return None
        values[i] = call.told[0] if call.name == "const" else _atoms()[call.name](*[values[a] for a in call.reads])
    return values[formula.result]


def _alike(atom: Any, shape: tuple, dtype: Any) -> bool:
    """Has an operand the result's shape and the dtype of the others, apart from weak literals?"""
    aval = atom.aval
    return aval.weak if type(atom) is Literal else aval.shape == shape and aval.dtype == dtype and not aval.weak


def split_up(body: Sequence[Equation], start: set[Any]) -> list[Equation]:
    """The equations; a composition in parts if a part of it, but not the whole, depends on `start` alone."""
    names = set(start)
    result: list[Equation] = []

    def known(equation: Equation) -> bool:
        variables = [a for a in equation.inputs if type(a) is Var]
        return bool(variables) and all([a in names for a in variables])

    for equation in body:
        if known(equation):
            names.update(equation.outputs)
            result.append(equation)
            continue
        parts = parts_of(equation) or ()
        before = set(names)
        for part in parts:
            if known(part):
                names.update(part.outputs)
        result += parts if names != before else [equation]
    return result
