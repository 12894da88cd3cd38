"""A batch along the last axis becomes the first axis.

Idea: `vmap` with `in_axes=1` begins with a transpose, and push.py moves it behind all element operations, where it costs less
in general. A loop over examples (batch.py) wants it in front, where it costs nothing: numbers of a batch along the last axis
are read as they lie. So a transpose that brings the last axis to the front is moved back through what made its operand.
Invariant: nothing is computed twice; where somebody else reads what was made, the program stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.primitives.shape import transpose

__all__ = ["lifted", "turns"]


def turns(equation: Equation) -> bool:
    """Does a transpose bring the last axis to the front, and nothing else?"""
    perm = equation.params["perm"]
    last = len(perm) - 1
    return bool(last > 0 and perm == (last, *range(last)))


def lifted(jaxpr: Jaxpr, pays: Callable[[Any], bool]) -> Jaxpr:
    """The program with such transposes as early as they can be, where their results are what `pays` asks for."""
    wanted: dict[Var, Any] = {}  # what is needed with the last axis in front -> what stands for it
    for equation in reversed(jaxpr.equations):
        if equation.primitive is transpose and turns(equation):
            if type(equation.inputs[0]) is Var and pays(equation.outputs[0].aval):
                wanted[equation.inputs[0]] = None
        elif len(equation.outputs) == 1 and equation.outputs[0] in wanted and _movable(equation):
            wanted.update({a: None for a in equation.inputs if type(a) is Var and a.aval.shape})
    if not any([e.outputs[0] in wanted and _movable(e) for e in jaxpr.equations if len(e.outputs) == 1]):
        return jaxpr
    equations: list[Equation] = []
    names: dict[Any, Any] = {}
    gone: set[Var] = set()

    def front(a: Any, source: Any) -> Any:
        if type(a) is Literal or not a.aval.shape:
            return names.get(a, a)
        if wanted[a] is None:
            n = len(a.aval.shape)
            wanted[a] = _turned(a)
            equations.append(Equation(transpose, (names.get(a, a),), {"perm": (n - 1, *range(n - 1))}, (wanted[a],), source))
        return wanted[a]

    for equation in jaxpr.equations:
        out = equation.outputs[0] if len(equation.outputs) == 1 else None
        if equation.primitive is transpose and turns(equation) and equation.inputs[0] in wanted:
            names[out] = front(equation.inputs[0], equation.source)
        elif out in wanted and _movable(equation):
            inputs = tuple([front(a, equation.source) for a in equation.inputs])
            wanted[out] = _turned(out)
            gone.add(out)
            equations.append(Equation(equation.primitive, inputs, _params(equation), (wanted[out],), equation.source))
        else:
            inputs = tuple([names.get(a, a) for a in equation.inputs])
            equations.append(equation._replace(inputs=inputs))
    outputs = tuple([names.get(o, o) for o in jaxpr.outputs])
    if any([a in gone for e in equations for a in e.inputs]) or any([o in gone for o in outputs]):
        return jaxpr
    return Jaxpr(jaxpr.inputs, tuple(equations), outputs)


def _movable(equation: Equation) -> bool:
    """Can the transpose go in front of it?"""
    shape, name, params = equation.outputs[0].aval.shape, equation.primitive.name, equation.params
    if any([type(v.aval) is not Aval or v.aval.weak for v in equation.outputs]) or len(shape) < 2 or equation.primitive.effect:
        return False
    if equation.primitive.emit is not None:
        return all([type(a) is Literal and not a.aval.shape or a.aval.shape == shape for a in equation.inputs])
    whole = (0, shape[-1], 1)
    if name in ("basic_index", "basic_place"):
        return bool(params["index"][-1] == whole and len(equation.inputs[0].aval.shape) > 1) and type(equation.inputs[0]) is Var
    if name == "place_sum":
        return all([i[-1] == whole for i in params["indices"]]) and all([len(a.aval.shape) > 1 for a in equation.inputs])
    return False


def _params(equation: Equation) -> dict[str, Any]:
    """The parameters for a batch along the first axis."""
    params, turn = dict(equation.params), lambda items: (items[-1], *items[:-1])
    if "index" in params:
        params["index"] = turn(params["index"])
    if "indices" in params:
        params["indices"] = tuple([turn(i) for i in params["indices"]])
    if "shape" in params and equation.primitive.emit is None:
        params["shape"] = turn(params["shape"])
    return params


def _turned(v: Any) -> Var:
    shape = v.aval.shape
    return Var(Aval((shape[-1], *shape[:-1]), v.aval.dtype))
