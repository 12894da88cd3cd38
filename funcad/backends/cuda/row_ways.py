"""How the rows of a group are given to the threads of a GPU: `planned(jaxpr, shape)` gives the phases and a `Way`.

Idea: a row of up to 1,024 elements is a warp's, a shorter one that of a part of a warp, so that narrow rows waste no threads; a
longer one is a block's, and where rows are few each gets more threads. Elements that two phases read stay in registers if those
are enough for all of them without spilling: `REGISTERS` bytes a thread, beside what the arithmetic takes.
"""

from __future__ import annotations

from typing import NamedTuple

from funcad.backends.cuda.prelude import THREADS
from funcad.backends.plans.row_plan import RowPlan
from funcad.ir.jaxpr import Jaxpr, Var

__all__ = ["WARP", "Way", "is_input", "planned"]

WARP = 32
LONGEST_TEAM = 512  # threads, which leaves each of them 128 registers
REGISTERS = 192  # bytes that a thread may hold of its elements
ITEMS = 32  # elements of a thread, at most: they are written out
LINES = 2000  # instructions of all of them, about: beyond, compilation takes seconds
BUSY = 1 << 15  # threads that keep a GPU busy


class Way(NamedTuple):
    """How rows are given to threads."""

    team: int  # threads of a row
    held: bool  # do elements stay in registers between phases?

    @property
    def block(self) -> int:
        return max(self.team, THREADS) if self.team <= WARP else self.team

    @property
    def rows(self) -> int:
        """Rows of a block at a time."""
        return self.block // self.team


def planned(jaxpr: Jaxpr, shape: tuple[int, int]) -> tuple[RowPlan, Way]:
    """The phases of a group, and how they run."""
    rows, n = shape
    plan = RowPlan(jaxpr, shape)
    read = [v for number, phase in enumerate(plan.phases) for v in plan.needed(phase, number) if is_input(plan, v)]
    held = [*plan.kept, *{v for v in read if read.count(v) > 1}, *[q.outputs[0] for q in plan.columns]]
    size = sum([v.aval.dtype.itemsize for v in held])
    weight = sum([plan.weight(number) for number in range(len(plan.phases))])
    team = 1
    while team < min(n, WARP):
        team *= 2
    while 2 * team <= LONGEST_TEAM and (team * rows < BUSY or team * ITEMS < n) and 8 * team <= n:
        team *= 2  # few rows, or long ones
    if not size:
        return plan, Way(team, False)
    while team <= LONGEST_TEAM:
        items = -(-n // team)
        if items == 1 and size <= REGISTERS or items <= ITEMS and items * size <= REGISTERS and items * weight <= LINES:
            return plan, Way(team, True)
        team *= 2
    return RowPlan(jaxpr, shape, keeps=False), Way(min(team, LONGEST_TEAM), False)


def is_input(plan: RowPlan, v: Var) -> bool:
    """Is it an array of full shape that the group reads?"""
    return plan.kind[v] == "full" and v not in plan.maker
