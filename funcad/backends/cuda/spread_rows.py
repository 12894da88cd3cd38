"""Few rows that are very long: each is spread over many blocks, one launch for each phase of the plan.

Idea: a phase that reduces leaves a part of each block; the next one begins by combining them, in a fixed order, in every block.
So there are as many launches as phases, and no block waits for another. The last phase has no reductions: it knows all values
of a row, whose first block writes what is to be written of them. Sums over rows have one part for each row.

Arguments of `stage<number>`: those of `kernel` in cuda_rows.py, with the parts of reductions and their number before the rows.
"""

from __future__ import annotations

from typing import Any

from funcad.backends.cuda.cuda_rows import RowText
from funcad.backends.cuda.cuda_text import combined, identity
from funcad.backends.cuda.elements import c_type
from funcad.backends.cuda.row_ways import WARP
from funcad.backends.plans.row_plan import kind_of

__all__ = ["SpreadText"]


class SpreadText(RowText):
    """The text of one group whose rows are spread over blocks."""

    def __init__(self, jaxpr: Any, shape: tuple[int, int]):
        super().__init__(jaxpr, shape)
        plan = self.plan
        self.reductions = [[s for s in phase.sinks if s.kind == "reduction"] for phase in plan.phases]
        every = [s for found in self.reductions for s in found]
        self.places = {s.var: i for i, s in enumerate(every)}  # of reductions
        self.dtypes = [s.var.aval.dtype for s in every]
        last = len(plan.phases) - 1
        ends = plan.scalars or self.left or any([plan.kind[plan.results[k]] == "row" for k in self.written])
        working = [number for number in range(last + 1) if self.sinks(number)]
        self.stages = [*working, last] if ends and last not in working else working

    def kernel(self) -> None:
        for number in self.stages:
            self.stage(number)

    def loop(self) -> str:
        team = self.way.team
        return f"for (long long c = q * {team} + t; c < {self.n}; c += parts * {team}) {{"

    def stage(self, number: int) -> None:
        """One phase, behind what combines the parts of those before it."""
        plan, put, ends = self.plan, self.put, number == len(self.plan.phases) - 1
        own = [s for s in self.sums if not s.column]
        extra = [f"{c_type(d)}* __restrict__ reduced{i}" for i, d in enumerate(self.dtypes)]
        self.head(f"stage{number}", self.way.team, own, "", [*extra, "const long long parts"])
        self.shared = {v: f"held{i}" for v, i in self.places.items()}
        for v, name in self.shared.items():
            put(f"__shared__ {c_type(v.aval.dtype)} {name}[{self.way.team // WARP}];")
        put("const int t = threadIdx.x;")
        put("const long long r = blockIdx.x / parts, q = blockIdx.x % parts;")
        env = self.numbers()
        self.row_inputs(env)
        for before in range(number + 1):
            for equation in plan.phases[before].rows:
                env[equation.outputs[0]] = self.computed(equation, env)
            for s in self.reductions[before] if before < number else ():
                i, kind, dtype = self.places[s.var], str(kind_of(s.equation)), s.var.aval.dtype
                step = combined(kind, dtype, f"all{i}", f"reduced{i}[r * parts + k]")
                put(f"{c_type(dtype)} all{i} = {identity(kind, dtype).text};")
                put(f"for (long long k = t; k < parts; k += {self.way.team}) all{i} = {step};")
                env[s.var] = self.e.put(dtype, f"{self.function('team', kind, dtype)}(all{i}, {self.shared[s.var]})")
        self.held = {}
        self.phase(number, [], env)
        for s in self.reductions[number]:
            put(f"if (t == 0) reduced{self.places[s.var]}[blockIdx.x] = {env[s.var].text};")
        if ends:
            put("if (t == 0 && q == 0) {")
            for v, what in self.row_results():
                put(f"{what}[r] = {env[v].text};")
            for i, equation, kind, dtype, _ in own:
                put(f"{c_type(dtype)} sum{i} = {identity(kind, dtype).text};")
                put(self.added(equation, env, f"sum{i}"))
                put(f"part{i}[r] = sum{i};")
            put("}")
        put("}")
