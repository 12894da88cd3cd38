"""Estimates of what a program costs: floating-point operations, transcendental calls, bytes moved.

They count the program as written (no fusion): an elementwise equation costs one operation per element, a contraction two per
multiply-add, a scan its body times its length, a cond its dearest branch, a while loop one trip (its count is unknown).
"""

from __future__ import annotations

from typing import Any

from funcad.ir.jaxpr import Jaxpr, subjaxprs
from funcad.primitives.atoms import ATOMS, ELEMENTARY, atoms_of, is_elementary

NUMPY_NS = {atom: 4.0 if atom in ELEMENTARY else 0.4 for atom in ATOMS}  # of NumPy's loops, per element
NUMPY_NS.update(sin=10.0, cos=10.0, tan=12.0, pow=15.0, integer_pow=15.0, sqrt=1.0, div=0.8)


def cost_of(jaxpr: Jaxpr) -> dict[str, float]:
    """{"flops", "transcendentals", "bytes accessed"} of one run; memoised, since programs share the programs inside."""
    total: dict[str, float] | None = jaxpr.memo.get("cost")
    if total is None:
        total = {"flops": 0.0, "transcendentals": 0.0, "bytes accessed": 0.0}
        for equation in jaxpr.equations:
            for key, value in _equation_cost(equation).items():
                total[key] += value
        total = jaxpr.memo.setdefault("cost", total)
    return dict(total)


def _bytes(atom: Any) -> float:
    return float(atom.aval.size or 0) * atom.aval.dtype.itemsize


def _equation_cost(equation: Any) -> dict[str, float]:
    inner = [cost_of(j) for j in subjaxprs(equation.params)]
    if inner:
        length = getattr(equation.params.get("loop"), "length", 1)
        times = 1 if length is None else length  # a loop of unknown length counts as one trip
        if equation.primitive.name == "cond":
            return {k: max(c[k] for c in inner) for k in inner[0]}
        return {k: times * sum(c[k] for c in inner) for k in inner[0]}
    primitive = equation.primitive
    out = float(sum(o.aval.size or 0 for o in equation.outputs))
    largest = max([out, *[float(a.aval.size or 0) for a in equation.inputs]])
    moved = sum(map(_bytes, (*equation.inputs, *equation.outputs)))
    transcendentals = 0.0
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
    return {"flops": flops, "transcendentals": transcendentals, "bytes accessed": moved}


def numpy_ns(equation: Any) -> tuple[float, float]:
    """Nanoseconds of an element in NumPy's loops: of elementary functions, and of all else."""
    atoms = atoms_of(equation) or (("exp",) if is_elementary(equation) else ("add",))
    heavy = sum([NUMPY_NS[atom] for atom in atoms if atom in ELEMENTARY])
    return heavy, sum([NUMPY_NS[atom] for atom in atoms if atom not in ELEMENTARY])
