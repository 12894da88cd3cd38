"""Estimates of what a program costs: floating-point operations, transcendental calls, bytes moved.

They count the program as written (no fusion): an elementwise equation costs one operation per element, a contraction two per
multiply-add, a scan its body times its length, a cond its dearest branch, a while loop one trip (its count is unknown).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Jaxpr, subjaxprs
from funcad.primitives.atoms import ATOMS, ELEMENTARY, atoms_of, is_elementary
from funcad.primitives.basic_indexing import INDEXED

NUMPY_NS = {atom: 4.0 if atom in ELEMENTARY else 0.4 for atom in ATOMS}  # of NumPy's loops, per element
NUMPY_NS.update(sin=10.0, cos=10.0, tan=12.0, pow=15.0, integer_pow=15.0, sqrt=1.0, div=0.8)


class Extent:
    """How many equations give numbers, and how many arrays, of so many bytes together."""

    __slots__ = ("python", "numbers", "arrays", "n_bytes")

    def __init__(self, equations: Iterable[Any], inside: bool = False):
        """`inside`: with those of the programs in their parameters."""
        self.python = self.numbers = self.arrays = self.n_bytes = 0  # `python`: of the numbers, those of Python's
        for e in equations:
            shaped = False
            for v in e.outputs:
                if isinstance(v.aval, Aval) and v.aval.shape:
                    shaped = True
                    self.n_bytes += v.aval.size * v.aval.dtype.itemsize
            if shaped:
                self.arrays += 1
            else:
                self.numbers += 1
                self.python += len(e.outputs) == 1 and getattr(e.outputs[0].aval, "weak", False)
            for part in subjaxprs(e.params) if inside and e.params else ():
                more = Extent(part.equations, True)
                self.numbers, self.arrays = self.numbers + more.numbers, self.arrays + more.arrays


def cost_of(jaxpr: Jaxpr) -> dict[str, float]:
    """{"flops", "transcendentals", "bytes accessed"} of one run; memoised, since programs share the programs inside."""
    total: dict[str, float] | None = jaxpr.memo.get("cost")
    if total is None:
        total = {"flops": 0.0, "transcendentals": 0.0, "bytes accessed": 0.0}
        known: dict[Any, Any] = {}  # operations on the same avals cost the same; parameters, where they count, by identity
        for equation in jaxpr.equations:
            primitive, inputs, params, outputs, _ = equation
            counted = id(params) if params and not primitive.silent and primitive not in INDEXED else 0
            key = primitive, counted, *[id(a.aval) for a in outputs], *[id(a.aval) for a in inputs]
            found = known.get(key)
            if found is None:
                found = known[key] = _equation_cost(equation)
            flops, transcendentals, moved = found
            total["flops"] += flops
            total["transcendentals"] += transcendentals
            total["bytes accessed"] += moved
        total = jaxpr.memo.setdefault("cost", total)
    return dict(total)


def _equation_cost(equation: Any) -> tuple[float, float, float]:
    inner = [tuple(cost_of(j).values()) for j in subjaxprs(equation.params)] if equation.params else ()
    if inner:
        length = getattr(equation.params.get("loop"), "length", 1)
        times = 1 if length is None else length  # a loop of unknown length counts as one trip
        if equation.primitive.name == "cond":
            return max([c[0] for c in inner]), max([c[1] for c in inner]), max([c[2] for c in inner])
        return times * sum([c[0] for c in inner]), times * sum([c[1] for c in inner]), times * sum([c[2] for c in inner])
    primitive = equation.primitive
    out = largest = moved = transcendentals = 0.0
    for atom in equation.outputs:
        size = float(prod(atom.aval.shape))
        out, moved = out + size, moved + size * atom.aval.dtype.itemsize
    largest = out
    for atom in equation.inputs:
        size = float(prod(atom.aval.shape))
        largest, moved = max(largest, size), moved + size * atom.aval.dtype.itemsize
    if primitive.name == "dot_general":
        (lhs, _), _ = equation.params["dimension_numbers"]
        depth = 1
        for axis in lhs:
            depth *= equation.inputs[0].aval.shape[axis]
        flops = 2.0 * out * depth
    elif primitive.emit is not None:
        atoms = [atom for atom in atoms_of(equation) if atom != "convert"]
        elementary = sum([atom in ELEMENTARY for atom in atoms])
        flops, transcendentals = out * (len(atoms) - elementary), out * elementary
    elif is_elementary(equation):
        flops, transcendentals = 0.0, out
    else:
        flops = 0.0 if primitive.silent or primitive.may_share else largest
    return flops, transcendentals, moved


def numpy_ns(equation: Any) -> tuple[float, float]:
    """Nanoseconds of an element in NumPy's loops: of elementary functions, and of all else."""
    atoms = atoms_of(equation) or (("exp",) if is_elementary(equation) else ("add",))
    heavy = sum([NUMPY_NS[atom] for atom in atoms if atom in ELEMENTARY])
    return heavy, sum([NUMPY_NS[atom] for atom in atoms if atom not in ELEMENTARY])
