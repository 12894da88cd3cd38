"""What a program would cost as native code, roughly: the rule of which programs are compiled as a whole.

Nanoseconds of one core of a machine of today; good to a factor of three, which is all that the rule and the distance between
two questions for Ctrl-C need.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from funcad.backends.plans.element_plan import instructions
from funcad.ir.jaxpr import Jaxpr, subjaxprs
from funcad.primitives.atoms import fold_of
from funcad.primitives.basic_indexing import basic_place_p
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.loop import Loop

PER_ELEMENT = 0.25  # that is read or written; an instruction per element takes as long
PER_PRODUCT = 0.1  # one multiplication and addition of a contraction
PER_PLACE = 1.0  # one element that an index array names: its place is looked at, and is anywhere
WHILE_TRIPS = 10  # nobody knows
FACTORS = {  # multiplications that make them of matrices of n rows, per n**3
    **dict.fromkeys(("det", "slogdet", "log_abs_det", "lu"), 1 / 3),
    **dict.fromkeys(("cholesky", "triangular_inverse"), 1 / 6),
    **{"inv": 1.0, "solve": 1 / 3, "triangular_solve": 0.0, "factored_solve": 0.0},
}
PLACED = frozenset(["gather", "scatter", "is_last"])
LEAST = 1e6  # nanoseconds outside loops from which on kernels of groups may serve a program better,
SHARED = 5e4  # unless no operation takes so long that several cores would share its group
SHARE = 8.0  # times the sums of placements that a program may take outside loops: groups leave these to NumPy, term by term
APART = PLACED | FACTORS.keys()  # what no kernel of a group serves


def may_contract(jaxpr: Jaxpr) -> bool:
    """May products and sums of this program be rounded together? engines.py says so of each part of a fast_math program."""
    return bool(jaxpr.memo.get("fast_math"))


class ProgramCost(NamedTuple):
    """Time in total, the part of it that is not in loops; of that, sums of placements and the longest; how many equations."""

    nanoseconds: float
    outside: float
    placing: float
    longest: float
    equations: int

    @property
    def for_groups(self) -> bool:
        """Is there more than LEAST to do outside loops, for kernels of groups, which take all cores?"""
        most = max(LEAST, self.nanoseconds - self.outside, SHARE * self.placing)
        return self.outside > most and self.longest > SHARED


def work_of(jaxpr: Jaxpr) -> ProgramCost:
    """The work of one run."""
    found = jaxpr.memo.get("native_work")
    if found is None:
        total = outside = placing = longest = 0.0
        count = 0
        for equation in jaxpr.equations:
            primitive = equation.primitive
            inner = [work_of(j) for j in subjaxprs(equation.params)]
            if inner:
                loop: Loop | None = equation.params.get("loop")
                trips = 1 if loop is None else WHILE_TRIPS if loop.length is None else max(loop.length, 1)
                total += trips * sum(w.nanoseconds for w in inner)
                if loop is None:
                    outside += sum(w.outside for w in inner)
                    longest = max([longest, *[w.longest for w in inner]])
                count += sum(w.equations for w in inner)
                continue
            own = _of(equation)
            total, count = total + own, count + 1
            if primitive.name not in APART:
                outside += own
                in_groups = primitive.emit is not None or fold_of(primitive) is not None or primitive is dot_general_p
                longest = max(longest, own) if in_groups else longest
            placing += own if primitive is basic_place_p else 0.0
        found = jaxpr.memo.setdefault("native_work", ProgramCost(total, outside, placing, longest, count))
    return found


def _of(equation: Any) -> float:
    primitive = equation.primitive
    size = sum(prod(v.aval.shape) for v in equation.outputs)
    if primitive.may_share and not primitive.multiple:
        return 1.0
    if primitive is dot_general_p:
        (cx, _), _ = equation.params["dimension_numbers"]
        return 10.0 + PER_PRODUCT * size * prod([equation.inputs[0].aval.shape[i] for i in cx])
    if primitive.name in FACTORS:
        shape = equation.inputs[0].aval.shape
        solved = size * shape[-1] if "solve" in primitive.name else 0
        return 10.0 + PER_PRODUCT * (FACTORS[primitive.name] * prod(shape) * shape[-1] + solved)
    if primitive.name in PLACED:
        moved = equation.inputs[1] if primitive.name == "scatter" else equation.outputs[0]
        return 1.0 + PER_PLACE * prod(equation.inputs[-1].aval.shape) + PER_ELEMENT * (prod(moved.aval.shape) + size)
    read = sum(prod(a.aval.shape) for a in equation.inputs)
    return 1.0 + PER_ELEMENT * (max(size, read) + size * max(instructions(equation) - 1, 0))
