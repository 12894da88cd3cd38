"""Groups of kind "elementwise" as loop nests: a loop for each axis, of which the last goes in vectors.

Idea: what does not depend on the inner axes is computed outside of them. Vectors step through a row, and the last one goes
back from where the row ends: It computes some elements again, which changes nothing, since results do not overlap operands.
Where they do (`over`), the rest of a row is done one by one. Sums are exact: Every RUN steps the vectors abreast are added to
a second level, with what that loses.

An *access* is one way in which the group reads an input: as it is, or by one `broadcast_in_dim`. The loops need not be the
group's axes, which may be reordered and taken together, since an access is nothing but strides. Arrays are ("in", k) for access
k, and ("out", k), which is contiguous in the order of the loops. Amounts are `begin` and `end` of the outermost axis, "e1" the
extent of axis 1, "s2.1" the stride of access 2 along axis 1, in elements. No extent is 0; the last holds the vectors abreast.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from funcad.backends.loops.nest import BACK, ONES, VECTORS, Ask, At, Constant, Fold, For, Load, Put, Total, element, nested
from funcad.backends.plans.element_plan import Group
from funcad.ir.jaxpr import Literal, Var

AHEAD = 2048  # bytes: large polynomials take 10 to 20 per cent less time with 1 to 2 KiB than without
RUN = 64  # steps of one accumulator before it is added to the second level


def element_loops(
    group: Group,
    modes: Sequence[str],
    ndim: int,
    unroll: int,
    past: Collection[int] = (),
    ahead: bool = False,
    over: bool = False,
) -> list[Any]:
    """The loops over `begin` .. `end` of the outermost axis.

    `modes`: for each access a letter per axis: "0" the same element along it, "1" adjacent elements, "s" a stride. `past`:
    results that bypass the caches. With `ahead` operands are asked for before they are needed. `over`: results may be written
    over what is read, element by element, so each is computed once; of one axis, without sums.
    """
    names = [f"i{axis}" for axis in range(ndim)]
    level: dict[Var, int] = {}  # how many of the loops, from outside, a value depends on
    bodies: list[list[Any]] = [[] for _ in range(ndim + 1)]

    def access(k: int, size: int) -> At:
        steps = [(names[a], size if m == "1" else (f"s{k}.{a}", size)) for a, m in enumerate(modes[k]) if m != "0"]
        return At(("in", k), tuple(steps))

    for v, k in group.reads.items():
        level[v] = 1 + max([axis for axis, mode in enumerate(modes[k]) if mode != "0"], default=-1)
        at = access(k, v.aval.dtype.itemsize)
        if ahead and not over and modes[k][-1] == "1":
            bodies[ndim].append(Ask(at, v.aval.dtype.itemsize, AHEAD))
        bodies[level[v]].append(Load(v, v.aval.dtype, at))
    for equation in group.equations:
        (out,) = equation.outputs
        level[out] = max([level[a] for a in equation.inputs if type(a) is not Literal], default=0)
        bodies[level[out]].append(element(equation))
    for k, v in enumerate(group.jaxpr.outputs):
        if v not in group.sums:
            size = v.aval.dtype.itemsize
            steps = [(name, (*[f"e{a}" for a in range(axis + 1, ndim)], size)) for axis, name in enumerate(names[:-1])]
            at = At(("out", k), (*steps, (names[-1], size)))
            bodies[ndim].append(Put(at, v, v.aval.dtype, k in past and not over))
    totals = [Total(v, v.aval.dtype, kind, exact=kind == "add") for v, (kind, _) in group.sums.items()]
    bodies[ndim] += [Fold(v, Constant(a.value, v.aval.dtype) if type(a) is Literal else a) for v, (_, a) in group.sums.items()]
    ends, rest = ["end", *[f"e{axis}" for axis in range(1, ndim)]], ONES if over else BACK
    loops = [For(name, 0, end, ONES, (), totals=totals) for name, end in zip(names[:-1], ends)]
    loops.append(For(names[-1], 0, ends[-1], VECTORS, (), unroll, totals, rest=rest, run=RUN if group.counted else 0))
    loops[0] = loops[0]._replace(begin="begin")
    sums = [Put(At(("out", k)), v, v.aval.dtype) for k, v in enumerate(group.jaxpr.outputs) if v in group.sums]
    return nested(loops, bodies, [sums])
