"""A group of equations in the normal form of `fused`: broadcasts copied in, axes collapsed to rows and columns.

Trap: variables of the group are new ones, since those of a group of rows have other shapes than outside; reshapes around the
group, which cost nothing for contiguous arrays, translate.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.primitives.fused import fused_p
from funcad.primitives.shape import broadcast_in_dim, reshape

__all__ = ["Member", "build_group"]


class Member(NamedTuple):
    """An equation of a group: its index in the program, and element, total (reduced to a scalar), row or column."""

    index: int
    role: str


class _Builder:
    """The group under construction."""

    def __init__(self, shape: tuple, split: int | None):
        self.shape = shape
        self.split = split  # None: any shape, else rows and columns
        self.inside: dict[Any, Var] = {}  # variables outside (and broadcasts of them) -> inside
        self.inputs: list[tuple[Var, Var]] = []  # (outside, inside)
        self.equations: list[Equation] = []

    def collapsed(self, shape: tuple) -> tuple:
        """The shape that a value of this shape has inside."""
        if self.split is None or not shape:
            return shape
        rows, columns = self.shape[: self.split], self.shape[self.split :]
        if shape == self.shape:
            return math.prod(rows), math.prod(columns)
        return (math.prod(shape),)

    def input(self, v: Var, column: bool = False) -> Var:
        """The variable that stands for v; in a square group a vector may be one as rows and another as columns."""
        found = self.inside.get(v)
        if found is not None and not column:
            return found
        key = (v, column) if column else v
        found = self.inside.get(key)
        if found is None:
            found = self.inside[key] = Var(Aval(self.collapsed(v.aval.shape), v.aval.dtype))
            self.inputs.append((v, found))
        return found

    def add(self, equation: Equation, inputs: list[Any], params: dict, shape: tuple) -> Var:
        out = Var(Aval(shape, equation.outputs[0].aval.dtype))
        self.equations.append(Equation(equation.primitive, tuple(inputs), params, (out,), equation.source))
        return out

    def view(self, equation: Equation) -> Var:
        """The group's own copy of a broadcast; what rows and columns cannot say is an input, broadcast outside."""
        v, source, axes = equation.outputs[0], equation.inputs[0], equation.params["axes"]
        found = self.inside.get(v)
        if found is not None:
            return found
        shape = equation.params["shape"]
        target = self.collapsed(shape)
        if self.split is None:
            params = {"shape": shape, "axes": axes}
        elif not axes:
            params = {"shape": target, "axes": ()}
        elif shape == self.shape and axes == tuple(range(self.split)) and source.aval.shape == shape[: self.split]:
            params = {"shape": target, "axes": (0,)}
        elif shape == self.shape and axes == tuple(range(self.split, len(shape))) and source.aval.shape == shape[self.split :]:
            params = {"shape": target, "axes": (1,)}
        else:
            return self.input(v)
        inner = self.input(source, params["axes"] == (1,))
        out = Var(Aval(target, v.aval.dtype))
        self.equations.append(Equation(broadcast_in_dim, (inner,), params, (out,), equation.source))
        self.inside[v] = out
        return out


def build_group(
    jaxpr: Jaxpr, part: list[Member], shape: tuple, split: int | None, views: dict[Var, Equation], readers: dict[Var, list[int]]
) -> list[Equation]:
    """The equations that replace the members: reshapes of inputs, one `fused`, reshapes of outputs."""
    shape, split = _kind(jaxpr, part, shape, split)
    builder = _Builder(shape, split)
    indices = {m.index for m in part}
    outputs = []
    for m in part:
        equation = jaxpr.equations[m.index]
        inputs = []
        if "dimension_numbers" not in equation.params:
            read = lambda a: a if type(a) is Literal else builder.view(views[a]) if a in views else builder.input(a)
            inputs = [read(a) for a in equation.inputs]
        out = equation.outputs[0]
        inner = _member(builder, m.role, equation, inputs)
        builder.inside[out] = inner
        if any([r not in indices for r in readers.get(out, ())]):
            outputs.append((out, inner))
    inside = Jaxpr(tuple([v for _, v in builder.inputs]), tuple(builder.equations), tuple([v for _, v in outputs]))
    around: list[Equation] = []
    operands = []
    for v, inner in builder.inputs:
        operands.append(v)
        if v.aval.shape != inner.aval.shape:
            operands[-1] = Var(inner.aval)
            around.append(Equation(reshape, (v,), {"shape": inner.aval.shape}, (operands[-1],)))
    after = []
    results = []
    for v, inner in outputs:
        results.append(v)
        if v.aval.shape != inner.aval.shape:
            results[-1] = Var(inner.aval)
            after.append(Equation(reshape, (results[-1],), {"shape": v.aval.shape}, (v,)))
    kind = "elementwise" if split is None else "rows"
    params = {"jaxpr": inside, "kind": kind, "shape": builder.collapsed(shape)}
    source = jaxpr.equations[part[0].index].source
    return [*around, Equation(fused_p, tuple(operands), params, tuple(results), source), *after]


def _kind(jaxpr: Jaxpr, part: list[Member], shape: tuple, split: int | None) -> tuple[tuple, int | None]:
    """Shape and split of a part of a group: without anything that needs rows, it is element by element."""
    if split is None:
        return shape, None
    if all([m.role in ("element", "total") for m in part]):
        shapes = {
            (e.outputs[0] if m.role == "element" else e.inputs[0]).aval.shape for m in part for e in [jaxpr.equations[m.index]]
        }
        if len(shapes) == 1:
            return shapes.pop(), None
    return shape, split


def _member(builder: _Builder, role: str, equation: Equation, inputs: list[Any]) -> Var:
    """The member's equation inside the group."""
    if role == "element":
        return builder.add(equation, inputs, equation.params, builder.collapsed(equation.outputs[0].aval.shape))
    if builder.split is None:
        return builder.add(equation, inputs, equation.params, ())
    if "dimension_numbers" in equation.params:
        inputs = [builder.input(a, column=role == "row" and len(a.aval.shape) == 1) for a in equation.inputs]
        x, v = inputs if len(inputs[0].aval.shape) == 2 else inputs[::-1]
        numbers = (((1,), (0,)), ((), ())) if role == "row" else (((0,), (0,)), ((), ()))
        shape = x.aval.shape[:1] if role == "row" else x.aval.shape[1:]
        return builder.add(equation, [x, v], {"dimension_numbers": numbers}, shape)
    (x,) = inputs
    if len(x.aval.shape) == 1:  # rows are summed up
        return builder.add(equation, inputs, {"axes": (0,)}, ())
    if role == "column":
        return builder.add(equation, inputs, {"axes": (0,)}, x.aval.shape[1:])
    row = builder.add(equation, inputs, {"axes": (1,)}, x.aval.shape[:1])
    return row if role == "row" else builder.add(equation, [row], {"axes": (0,)}, ())
