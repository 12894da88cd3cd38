"""Estimates of what a program costs: floating-point operations, transcendental calls, bytes moved.

They count the program as written (no fusion): an elementwise equation costs one operation per element, a contraction two per
multiply-add, a scan its body times its length, a cond its dearest branch, a while loop one trip (its count is unknown).
"""

from __future__ import annotations

from typing import Any

from funcad.ir.jaxpr import Jaxpr, subjaxprs

__all__ = ["cost_of"]

_TRANSCENDENTAL = frozenset(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh arccosh arctanh "
    "logistic logaddexp logaddexp2 pow erf erfc erfinv lgamma digamma softplus safe_log".split()
)
_MOVES = frozenset(
    "reshape transpose broadcast_in_dim concatenate slice pad rev gather scatter convert stop_gradient dynamic_slice "
    "dynamic_update_slice".split()
)


def cost_of(jaxpr: Jaxpr) -> dict[str, float]:
    """{"flops", "transcendentals", "bytes accessed"} of one run; memoised, since programs share the programs inside."""
    total: dict[str, float] | None = jaxpr.memo.get("cost")
    if total is None:
        total = {"flops": 0.0, "transcendentals": 0.0, "bytes accessed": 0.0}
        for equation in jaxpr.equations:
            for key, value in _equation_cost(equation).items():
                total[key] += value
        jaxpr.memo["cost"] = total
    return dict(total)


def _bytes(atom: Any) -> float:
    return float(atom.aval.size or 0) * atom.aval.dtype.itemsize


def _equation_cost(equation: Any) -> dict[str, float]:
    inner = [cost_of(j) for j in subjaxprs(equation.params)]
    if inner:
        length = equation.params.get("length", 1)
        times = 1 if length is None else length  # a loop of unknown length counts as one trip
        if equation.primitive.name == "cond":
            return {k: max(c[k] for c in inner) for k in inner[0]}
        return {k: times * sum(c[k] for c in inner) for k in inner[0]}
    name = equation.primitive.name
    out = float(sum(o.aval.size or 0 for o in equation.outputs))
    largest = max([out, *[float(a.aval.size or 0) for a in equation.inputs]])
    moved = sum(map(_bytes, (*equation.inputs, *equation.outputs)))
    if name == "dot_general":
        (lhs, _), _ = equation.params["dimension_numbers"]
        depth = 1
        for axis in lhs:
            depth *= equation.inputs[0].aval.shape[axis]
        flops = 2.0 * out * depth
    else:
        flops = 0.0 if name in _MOVES or name in _TRANSCENDENTAL else largest
    return {"flops": flops, "transcendentals": out if name in _TRANSCENDENTAL else 0.0, "bytes accessed": moved}
