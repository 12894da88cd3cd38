"""Composite operations written out in operations that can be fused.

softmax, layer_norm, the shares of a tie and their like are one equation with one NumPy implementation: right for the reference
backend, opaque to fusion. Here each is replaced by its `lowering`, the same formula in element operations, reductions along
axes and broadcasts, so that it joins the loop of its neighbours; traced once per signature. A reduction of more than the
elements themselves is that formula and the plain reduction. Invariant: the lowering is the implementation's formula, operation
by operation, so results agree, special values included. Traps: an empty axis has no maximum, and a mean whose count the dtype
cannot hold divides in another dtype: such an equation stays as it is. einsum becomes the steps that its implementation takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, without_sources
from funcad.ir.primitive import Primitive, Reduction
from funcad.ir.trace import trace_function
from funcad.memo import remembers
from funcad.primitives import arithmetic, comparison, reduction, transcendental
from funcad.primitives.arithmetic import root
from funcad.primitives.atoms import UFUNCS, Formula, formula, formula_of
from funcad.primitives.comparison import select
from funcad.tree.same import same_key

# -- compositions taken apart: one equation for each atom of the formula of an element
#
# `t * (1 - y * y)` is one equation, for tanh's derivative. In a loop where t changes with the carry and y is an x, the factor
# is the same work in every turn that could be done once for all of them: hoist.py moves it. And in a program that NumPy runs,
# its temporaries take part in the memory plan. Idea: `emit` is the formula, and each atom has a primitive whose own formula is
# that atom alone. Invariant: the parts compute what the composition's implementation computes, operation by operation.


_OF_ANY_NUMBERS = frozenset(["neg", "add", "sub", "mul", "div", "const"])  # complex ones have no order


@remembers()
def _atoms() -> dict[str, Primitive]:
    """The primitive of each atom."""
    found: dict[str, Primitive] = {"select": select}
    by_ufunc = {ufunc: name for name, ufunc in UFUNCS.items()}
    for module in (arithmetic, comparison, transcendental):
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


# -- lower


class _Stays(Exception):
    """There is no lowering for these operands."""


def is_written_out(primitive: Any) -> bool:
    """Has it a lowering, for some operands at least?"""
    return primitive.lowering is not None or primitive.reduction is not None and primitive.reduction.element is not None


@remembers(128, same=None)
def _plain(fact: Reduction) -> Primitive:
    """The reduction of elements as they are."""
    own = [p for p in vars(reduction).values() if isinstance(p, Primitive) and p.reduction == fact]
    return own[0] if own else reduction.reduction(f"reduce_{fact.ufunc.__name__}", fact)


def _folded(primitive: Any, x: Any, *, axes: tuple) -> Any:
    """What is combined, then the reduction that combines it."""
    elements = computed(formula(primitive.reduction.element, 1, ()), (x,))
    return None if elements is None else _plain(primitive.reduction._replace(element=None))(elements, axes=axes)


@remembers(512)
def _lowered(primitive: Any, avals: tuple, params: tuple, key: Any) -> Jaxpr | None:
    """The program that replaces the operation for these operands; None: it stays. `key` tells equal parameters apart."""

    def program(*values: Any) -> list[Any]:
        keywords = dict(params)
        out = primitive.lowering(*values, **keywords) if primitive.lowering else _folded(primitive, *values, **keywords)
        if out is None:
            raise _Stays
        return out if primitive.multiple else [out]  # type: ignore[no-any-return]

    try:
        found = trace_function(program, avals, name=primitive.name, abstract=False)[0]
    except _Stays:
        return None
    return without_sources(lower(found))  # einsum's steps may be products


def lower(jaxpr: Jaxpr) -> Jaxpr:
    """The program with composite operations written out."""
    if not any([is_written_out(e.primitive) for e in jaxpr.equations]):
        return jaxpr
    equations: list[Equation] = []
    replaced: dict[Var, Any] = {}
    for equation in jaxpr.equations:
        if replaced and any([a in replaced for a in equation.inputs if type(a) is Var]):
            inputs = tuple([replaced.get(a, a) if type(a) is Var else a for a in equation.inputs])
            equation = equation._replace(inputs=inputs)
        body = None
        if is_written_out(equation.primitive) and not any([type(a) is Literal for a in equation.inputs]):
            avals = tuple([Aval(a.aval.shape, a.aval.dtype) for a in equation.inputs])
            params = tuple(sorted(equation.params.items()))
            body = _lowered(equation.primitive, avals, params, same_key(params))
        if body is None:
            equations.append(equation)
            continue
        _inline(body, equation, equations, replaced)
    if not replaced and len(equations) == len(jaxpr.equations):
        if all([a is b for a, b in zip(equations, jaxpr.equations)]):
            return jaxpr
    outputs = tuple([replaced.get(o, o) if type(o) is Var else o for o in jaxpr.outputs])
    return Jaxpr(jaxpr.inputs, tuple(equations), outputs)


def _inline(body: Jaxpr, call: Equation, equations: list[Equation], replaced: dict[Var, Any]) -> None:
    """The body's equations in the place of the call, under the call's source and with its variables as outputs."""
    names: dict[Var, Any] = dict(zip(body.inputs, call.inputs))
    for inner, outer in zip(body.outputs, call.outputs):
        if type(inner) is Literal or inner in names:
            replaced[outer] = inner if type(inner) is Literal else names[inner]
        else:
            names[inner] = outer
    for e in body.equations:
        inputs = tuple([names[a] if type(a) is Var else a for a in e.inputs])
        outputs = tuple([names.setdefault(v, Var(v.aval)) for v in e.outputs])
        equations.append(Equation(e.primitive, inputs, e.params, outputs, call.source))
