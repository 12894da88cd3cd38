"""Composite operations written out in operations that can be fused.

softmax, layer_norm, the shares of a tie and their like are one equation with one NumPy implementation: right for the reference
backend, opaque to fusion. Here each is replaced by its `lowering`, the same formula in element operations, reductions along
axes and broadcasts, so that it joins the loop of its neighbours; traced once per signature. A reduction of more than the
elements themselves is that formula and the plain reduction. Invariant: the lowering is the implementation's formula, operation
by operation, so results agree, special values included. Traps: an empty axis has no maximum, and a mean whose count the dtype
cannot hold divides in another dtype: such an equation stays as it is. einsum becomes the steps that its implementation takes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.ir.primitive import Primitive, Reduction
from funcad.ir.trace import trace_function
from funcad.passes.split_up import computed
from funcad.primitives import reduction
from funcad.primitives.atoms import formula

__all__ = ["is_written_out", "lower"]


class _Stays(Exception):
    """There is no lowering for these operands."""


def is_written_out(primitive: Any) -> bool:
    """Has it a lowering, for some operands at least?"""
    return primitive.lowering is not None or primitive.reduction is not None and primitive.reduction.element is not None


@lru_cache
def _plain(fact: Reduction) -> Primitive:
    """The reduction of elements as they are."""
    own = [p for p in vars(reduction).values() if isinstance(p, Primitive) and p.reduction == fact]
    return own[0] if own else reduction.reduction(f"reduce_{fact.ufunc.__name__}", fact)


def _folded(primitive: Any, x: Any, *, axes: tuple) -> Any:
    """What is combined, then the reduction that combines it."""
    elements = computed(formula(primitive.reduction.element, 1, ()), (x,))
    return None if elements is None else _plain(primitive.reduction._replace(element=None))(elements, axes=axes)


@lru_cache(maxsize=512)
def _lowered(primitive: Any, avals: tuple, params: tuple) -> Jaxpr | None:
    """The program that replaces the operation for these operands; None: it stays."""

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
    return lower(found)  # einsum's steps may be products


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
            body = _lowered(equation.primitive, avals, tuple(sorted(equation.params.items())))
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
