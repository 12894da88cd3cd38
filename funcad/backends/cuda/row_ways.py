"""How the rows of a group are given to the threads of a GPU: `planned(jaxpr, shape)` gives the phases and a `Way`.

Idea: a row of up to 1,024 elements is a warp's, a short one that of a part of a warp, so that each thread has a few elements; a
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
LEAST = 4  # elements of a thread, where there are rows enough: so many reads are on their way at once
LINES = 2000  # instructions of all of them, about: beyond, compilation takes seconds
BUSY = 1 << 15  # threads that keep a GPU busy


class Way(NamedTuple):
    """How rows are given to threads."""

    team: int  # threads of a row
    held: bool  # do elements stay in registers between phases?
    spread: bool = False  # is a row given to several blocks?

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
    if n > LONGEST_TEAM * ITEMS and rows * LONGEST_TEAM < BUSY:
        return RowPlan(jaxpr, shape, keeps=False), Way(THREADS, False, True)
    plan = RowPlan(jaxpr, shape)
    size = _held(plan)
    weight = sum([plan.weight(number) for number in range(len(plan.phases))])
    team = 1
    while 2 * team * LEAST <= n and team < WARP:
        team *= 2
    while team < LONGEST_TEAM and 2 * team * (LEAST if team >= WARP else 1) <= n and (team * rows < BUSY or team * ITEMS < n):
        team *= 2  # few rows, or long ones
    if not size:
        return plan, Way(team, False)
    while team <= LONGEST_TEAM:
        items = -(-n // team)
        if items == 1 and size <= REGISTERS or items <= ITEMS and items * size <= REGISTERS and items * weight <= LINES:
            return plan, Way(team, True)
        team *= 2
    return RowPlan(jaxpr, shape, keeps=False), Way(min(team, LONGEST_TEAM), False)


def _held(plan: RowPlan) -> int:
    """Bytes of the values of one column that are held at a time, at most: from one phase to the next, and sums over rows."""
    phases: dict[Var, list[int]] = {}  # that make, load or read a value that may be held
    for number, phase in enumerate(plan.phases):
        for v in plan.needed(phase, number):
            if is_input(plan, v) or v in plan.kept:
                phases.setdefault(v, []).append(number)
    between = [
        sum([v.aval.dtype.itemsize for v, seen in phases.items() if seen[0] <= number < seen[-1]])
        for number in range(len(plan.phases))
    ]
    return max(between) + sum([q.outputs[0].aval.dtype.itemsize for q in plan.columns])


def is_input(plan: RowPlan, v: Var) -> bool:
    """Is it an array of full shape that the group reads?"""
    return plan.kind[v] == "full" and v not in plan.maker
