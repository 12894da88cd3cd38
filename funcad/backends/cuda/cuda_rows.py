"""Fused groups of kind "rows" as CUDA C++.

Idea: a row belongs to a *team* of threads, a power of two: up to a warp, eight rows and more share a block, beyond a block is
the team. The phases are those of plans/row_plan.py: an element loop with its sinks, then the team combines its reductions, so
that every row value is in a register of each of its threads. What two phases read stays in registers, a few elements a
thread; where a row is too long for that (below) each phase reads and computes it again. Sums over rows are registers of
who owns the column; teams, then blocks, are combined by trees and in order, so the bits are the same at every run. Without
registers for them, the columns have a kernel of their own, which reads the row values that the first one leaves in memory.

Invariants: all threads of a block take part in every exchange: a team without a row computes the last one again, and writes and
adds nothing. The lower thread's part is the left operand everywhere, so that row values have equal bits in all threads, the
sign of a zero too. Trap: what a block shares is written again in the next row, so there must be a barrier after it was read.

Arguments of `kernel` and `columns`: inputs, full and row results, row values for `columns`, parts of sums, the number of rows,
strides (`modes`). Of `finish`: for each sum its parts, its result and the number of parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.cuda.cuda_text import combined, identity
from funcad.backends.cuda.elements import PRELUDE, THREADS, Elements, ElementValue, c_type, literal
from funcad.backends.plans.element_plan import Unsupported
from funcad.backends.plans.row_plan import RowPlan, Sink, kind_of, variables
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var

# -- how the rows of a group are given to the threads of a GPU: `planned(jaxpr, shape)` gives the phases and a `Way`
#
# Idea: a row of up to 1,024 elements is a warp's, a short one that of a part of a warp, so that each thread has a few elements;
# a longer one is a block's, and where rows are few each gets more threads. Elements that two phases read stay in registers if
# those are enough for all of them without spilling: `REGISTERS` bytes a thread, beside what the arithmetic takes.


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


# -- how parts of a sum are combined: within a team of threads, over the teams of a block, and over all blocks
#
# Idea: each is a function of the module, written once for each atom and dtype. `fc_team_...` exchanges registers within a warp,
# and beyond it one word of shared memory for each warp; every thread gets the result. `fc_fold_...` is a tree over the teams of
# a block, `fc_finish_...` sums the parts of all blocks in a fixed order. Invariant: of two equal parts that differ in their
# bits (0.0 and -0.0, two NaNs) every thread takes the same one, that of the lower thread.


class TeamSums:
    """The functions that one module needs, in `made`: `sums("team", "add", dtype)` is the name of one of them."""

    def __init__(self, team: int):
        self.team = team
        self.functions: set[tuple[str, str, str]] = set()
        self.made: list[str] = []

    def __call__(self, what: str, kind: str, dtype: np.dtype) -> str:
        """The name of a function that combines parts of a sum: of a `team`, of the teams of a block (`fold`), of all blocks."""
        key, t = (what, kind, dtype.str), c_type(dtype)
        name = f"fc_{what}_{kind}_{dtype.name}"
        if key in self.functions:
            return name
        self.functions.add(key)
        pair = combined(kind, dtype, "v", "w")
        if kind not in ("add", "mul") or dtype.kind == "b":  # of two equal values the left one: 0.0 and -0.0, NaNs
            pair = f"threadIdx.x & o ? {combined(kind, dtype, 'w', 'v')} : {pair}"

        def exchange(size: int) -> list[str]:
            loop = f"  for (int o = {size // 2}; o > 0; o >>= 1) {{ const {t} w = fc_shuffle(v, o); v = {pair}; }}"
            return ["#pragma unroll", loop] if size > 1 else []

        if what == "team":
            team = self.team
            self.made += [f"FC {t} {name}({t} v{f', {t}* held' if team > WARP else ''}) {{", *exchange(min(team, WARP))]
            if team > WARP:
                self.made += [
                    f"  if (threadIdx.x % {WARP} == 0) held[threadIdx.x / {WARP}] = v;",
                    "  __syncthreads();",
                    f"  v = held[threadIdx.x % {team // WARP}];",
                    *exchange(team // WARP),
                ]
            self.made += ["  return v;", "}"]
        elif what == "fold":
            joined = combined(kind, dtype, "fold[threadIdx.x]", "fold[threadIdx.x + o * width]")
            self.made += [
                f"FC {t} {name}({t} v, {t}* fold, const int teams, const int width) {{",
                "  fold[threadIdx.x] = v;",
                "  __syncthreads();",
                "  for (int o = teams / 2; o > 0; o >>= 1) {",
                f"    if (threadIdx.x < o * width) fold[threadIdx.x] = {joined};",
                "    __syncthreads();",
                "  }",
                "  v = fold[threadIdx.x % width];",
                "  __syncthreads();",
                "  return v;",
                "}",
            ]
        else:
            fold, step = self("fold", kind, dtype), combined(kind, dtype, "v", "part[p * columns + c]")
            self.made += [
                f"FC void {name}(const {t}* part, {t}* out, const long long n, const long long block, {t}* fold,"
                " const long long columns, const int width) {",
                "  const long long c = block * width + threadIdx.x % width;",
                f"  {t} v = {identity(kind, dtype).text};",
                f"  if (c < columns) for (long long p = threadIdx.x / width; p < n; p += {THREADS} / width) v = {step};",
                f"  v = {fold}(v, fold, {THREADS} / width, width);",
                "  if (threadIdx.x < width && c < columns) out[c] = v;",
                "}",
            ]
        return name


# -- cuda rows


class RowSum(NamedTuple):
    """A sum over rows: of a full value, one for each column, or of a row value."""

    number: int
    equation: Equation
    kind: str
    dtype: np.dtype
    column: bool


class RowText:
    """The text of one group: `text(modes)`.

    `modes` has a letter for each input: how far apart the elements of a row are: "1" adjacent, "s" an argument says it. Further
    arguments are the distances between rows of full and row values.

    >>> import funcad
    >>> from funcad.passes.fuse import fuse
    >>> from funcad.passes.pipeline import optimize
    >>> f = lambda x: x / np.sum(x, axis=1, keepdims=True)
    >>> group = fuse(optimize(funcad.jit(f).lower(np.ones((4000, 64), np.float32)).jaxpr)).equations[0]
    >>> text = RowText(group.params["jaxpr"], group.params["shape"])
    >>> text.way.team, text.items
    (16, 4)
    """

    def __init__(self, jaxpr: Jaxpr, shape: tuple[int, int]):
        self.plan, self.way = planned(jaxpr, shape)
        plan, way = self.plan, self.way
        self.n = shape[1]
        self.items = -(-self.n // way.team) if way.held else 0
        self.inputs = plan.jaxpr.inputs
        equations = [*plan.columns, *plan.scalars]
        kinds = [(str(kind_of(q)), q.outputs[0].aval.dtype, q.outputs[0].aval.ndim == 1) for q in equations]
        self.sums = [RowSum(i, q, *what) for i, (q, what) in enumerate(zip(equations, kinds))]
        self.number = {s.equation.outputs[0]: s.number for s in self.sums}
        self.apart = bool(plan.columns) and not way.held  # do the columns have a kernel of their own?
        self.written = [k for k, v in enumerate(plan.results) if plan.kind[v] in ("full", "row")]
        self.left: list[Var] = self._left() if self.apart else []
        first = any([p.scalars or p.sinks and {s.kind for s in p.sinks} != {"column"} for p in plan.phases])
        self.first = first or bool(self.written) or not self.apart  # is there a `kernel`?
        if any([len(places) > 1 for v, places in plan.outputs.items() if plan.kind[v] in ("column", "scalar")]):
            raise Unsupported("a sum that is two results")

    def _left(self) -> list[Var]:
        """The row values that `columns` reads and `kernel` computes, but for results."""
        plan, found = self.plan, dict[Var, None]()
        for equation in plan.columns:
            for v in self._needed(equation):
                if v in plan.maker:
                    found.update({a: None for a in variables(plan.maker[v]) if plan.kind[a] == "row"})
            found.update({a: None for a in variables(equation) if plan.kind[a] == "row"})
        return [v for v in found if v in plan.maker and v not in plan.outputs]

    def _needed(self, equation: Equation) -> list[Var]:
        """The full and column values of a sum over rows, operands first."""
        found: list[Var] = []
        seen: set[Var] = set()
        for a in variables(equation):
            if self.plan.kind[a] != "row":
                self.plan.walk(a, 0, seen, found)
        return found

    # -- parts of a text

    def begin(self, modes: Sequence[str]) -> None:
        self.modes, self.e = modes, Elements()
        self.put = self.e.lines.append
        self.function = TeamSums(self.way.team)

    def head(self, name: str, block: int, sums: Sequence[RowSum], left: str, extra: Sequence[str] = ()) -> None:
        """`kernel` or `columns`, which give these sums."""
        plan, parameters = self.plan, []
        for i, v in enumerate(self.inputs):
            parameters.append(f"const {c_type(v.aval.dtype)}* __restrict__ in{i}")
        if name != "columns":
            parameters += [f"{c_type(plan.results[k].aval.dtype)}* __restrict__ out{k}" for k in self.written]
        for v, what in self.passed(name):
            parameters.append(f"{left}{c_type(v.aval.dtype)}* __restrict__ {what}")
        parameters += [f"{c_type(s.dtype)}* __restrict__ part{s.number}" for s in sums]
        parameters += [*extra, "const long long rows"]
        for i, v in enumerate(self.inputs):
            parameters += [f"const long long s{i}"] * (plan.kind[v] in ("full", "row"))
            parameters += [f"const long long z{i}"] * (self.modes[i] == "s")
        self.put(f'extern "C" __global__ void __launch_bounds__({block}, {512 // block}) {name}({", ".join(parameters)}) {{')

    def passed(self, name: str) -> list[tuple[Var, str]]:
        """Row values that `kernel` gives to `columns`, with the names of their arrays."""
        own = [(v, f"left{i}") for i, v in enumerate(self.left)]
        if name == "columns":
            return own + [(v, f"out{places[0]}") for v, places in self.plan.outputs.items() if self.plan.kind[v] == "row"]
        return own

    def numbers(self) -> dict[Var, ElementValue]:
        """The scalars, which are read before all rows."""
        found = {}
        for i, v in enumerate(self.inputs):
            if self.plan.kind[v] == "scalar":
                found[v] = self.e.put(v.aval.dtype, f"in{i}[0]")
        return found

    def row_inputs(self, env: dict[Var, ElementValue]) -> None:
        """What is known of row r, and where its elements are."""
        for i, v in enumerate(self.inputs):
            if self.plan.kind[v] == "row":
                env[v] = self.e.put(v.aval.dtype, f"in{i}[r * s{i}]")
            elif self.plan.kind[v] == "full":
                self.put(f"const {c_type(v.aval.dtype)}* row{i} = in{i} + r * s{i};")

    def read(self, v: Var) -> str:
        """The element of an input at column c."""
        i = self.inputs.index(v)
        start = f"row{i}" if self.plan.kind[v] == "full" else f"in{i}"
        return f"{start}[c * z{i}]" if self.modes[i] == "s" else f"{start}[c]"

    def computed(self, equation: Equation, env: dict[Var, ElementValue]) -> ElementValue:
        lanes = [literal(a.value, a.aval.dtype) if type(a) is Literal else env[a] for a in equation.inputs]
        if equation.primitive.name != "broadcast_in_dim":
            return self.e.apply(equation, lanes)
        return lanes[0]

    def element(self, v: Var, env: dict[Var, ElementValue]) -> ElementValue:
        """A full or column value at column c, from its operands."""
        if v in self.plan.maker:
            return self.computed(self.plan.maker[v], env)
        return self.e.put(v.aval.dtype, self.read(v))

    def added(self, equation: Equation, env: dict[Var, ElementValue], total: str) -> str:
        """The statement that adds an element, or a product of two, to a sum."""
        lanes = [env[a] for a in variables(equation)]
        kind, dtype = kind_of(equation), equation.outputs[0].aval.dtype
        x = lanes[0] if len(lanes) == 1 else self.e.atom("mul", *lanes)
        if kind is None or x.dtype != dtype:
            raise Unsupported(f"{equation.primitive.name} of {x.dtype} gives {dtype}")
        return f"{total} = {combined(kind, dtype, total, x.text)};"

    # -- kernels

    def kernel(self) -> None:
        """All but the sums over rows of long rows."""
        plan, way, put = self.plan, self.way, self.put
        sums = [s for s in self.sums if not (s.column and self.apart)]
        self.head("kernel", way.block, sums, "")
        team = way.team
        reductions = [s for p in plan.phases for s in p.sinks if s.kind == "reduction"]
        self.shared = {s.var: f"held{i}" for i, s in enumerate(reductions)} if team > WARP else {}
        for s in reductions:
            if s.var in self.shared:
                put(f"__shared__ {c_type(s.var.aval.dtype)} {self.shared[s.var]}[{team // WARP}];")
        put(f"const int t = threadIdx.x % {team};" if way.rows > 1 else "const int t = threadIdx.x;")
        env = self.numbers()
        for i, _, kind, dtype, column in sums:
            start = identity(kind, dtype).text
            if column:
                self.e.lines += [f"{c_type(dtype)} sum{i}[{self.items}];", "#pragma unroll"]
                put(f"for (int k = 0; k < {self.items}; k++) sum{i}[k] = {start};")
            else:
                put(f"{c_type(dtype)} sum{i} = {start};")
        step = f"gridDim.x * {way.rows}ll"
        put(f"for (long long base = blockIdx.x * {way.rows}ll; base < rows; base += {step}) {{")
        if way.rows > 1:
            put(f"const bool live = base + threadIdx.x / {team} < rows;")
            put(f"const long long r = live ? base + threadIdx.x / {team} : rows - 1;")
        else:
            put("const long long r = base;")
        self.one_row(dict(env))
        put("}")
        self.fold(sums)
        put("}")

    def one_row(self, env: dict[Var, ElementValue]) -> None:
        plan, way, put = self.plan, self.way, self.put
        first = "t == 0 && live" if way.rows > 1 else "t == 0"
        self.row_inputs(env)
        self.held: dict[Var, str] = {}
        wanted = [set(plan.needed(phase, number)) for number, phase in enumerate(plan.phases)]
        fresh: list[list[Var]] = [[] for _ in plan.phases]  # inputs that are held from this phase on
        if way.held:
            for i, v in enumerate(self.inputs):
                numbers = [number for number, found in enumerate(wanted) if v in found]
                if len(numbers) > 1 and plan.kind[v] == "full":
                    fresh[numbers[0]].append(v)
                    self.held[v] = f"x{i}"
            self.held.update({v: f"kept{i}" for i, v in enumerate(sorted(plan.kept, key=list(plan.kind).index))})
        for v, name in self.held.items():
            put(f"{c_type(v.aval.dtype)} {name}[{self.items}];")
        for number, phase in enumerate(plan.phases):
            for q in phase.rows:
                env[q.outputs[0]] = self.computed(q, env)
            for q in phase.scalars:
                put(f"if ({first}) {self.added(q, env, f'sum{self.number[q.outputs[0]]}')}")
            self.phase(number, fresh[number], env)
        self.e.lines += [f"if ({first}) {what}[r] = {env[v].text};" for v, what in self.row_results()]
        if len(self.shared) == 1:  # of several, the others' barriers are between
            put("__syncthreads();")

    def row_results(self) -> list[tuple[Var, str]]:
        """Row values that are written, with the names of their arrays."""
        results = [(self.plan.results[k], f"out{k}") for k in self.written if self.plan.kind[self.plan.results[k]] == "row"]
        return [*results, *self.passed("kernel")]

    def loop(self) -> str:
        """The head of a loop over the thread's elements."""
        if not self.way.held:
            return f"for ({'int' if self.n < 1 << 30 else 'long long'} c = t; c < {self.n}; c += {self.way.team}) {{"
        team = self.way.team
        inside = f"if (k < {self.items - 1} || c < {self.n}) " if self.n % team else ""
        return f"for (int k = 0; k < {self.items}; k++) {{ const int c = t + k * {team}; {inside}{{"

    def sinks(self, number: int) -> list[Sink]:
        """What a phase leaves, but for columns that have a kernel of their own."""
        return [s for s in self.plan.phases[number].sinks if s.kind != "column" or not self.apart]

    def phase(self, number: int, fresh: list[Var], env: dict[Var, ElementValue]) -> None:
        """The element loop of a phase, and its reductions."""
        plan, put = self.plan, self.put
        sinks = self.sinks(number)
        if not sinks:
            return
        values = self.reached(sinks, number)
        for v in values:
            if not plan.by_column[v]:
                env[v] = self.element(v, env)
        totals = {}
        for s in sinks:
            if s.kind == "reduction":
                dtype = s.var.aval.dtype
                totals[s.var] = f"total{list(plan.kind).index(s.var)}"
                put(f"{c_type(dtype)} {totals[s.var]} = {identity(str(kind_of(s.equation)), dtype).text};")
        unroll, end = "#pragma unroll" + ("" if self.way.held else " 4"), "} }" if self.way.held else "}"
        if fresh:  # all at once, so that they are on their way together
            self.e.lines += [unroll, self.loop(), *[f"{self.held[v]}[k] = {self.read(v)};" for v in fresh], end]
        self.e.lines += [unroll, self.loop()]
        own = dict(env)
        for v in values:
            if v in self.held and (is_input(plan, v) or plan.loaded(v, number)):
                own[v] = ElementValue(v.aval.dtype, f"{self.held[v]}[k]")
            elif plan.by_column[v]:
                own[v] = self.element(v, own)
        live = "if (live) " if self.way.rows > 1 else ""
        for s in sinks:
            if s.kind == "reduction":
                put(self.added(s.equation, own, totals[s.var]))
            elif s.kind == "column":
                put(live + self.added(s.equation, own, f"sum{self.number[s.var]}[k]"))
            elif s.kind == "keep":
                put(f"{self.held[s.var]}[k] = {own[s.var].text};")
            else:
                self.e.lines += [f"{live}out{k}[r * {self.n}ll + c] = {own[s.var].text};" for k in plan.outputs[s.var]]
        put(end)
        for s in sinks:
            if s.kind == "reduction":
                team, total = self.function("team", str(kind_of(s.equation)), s.var.aval.dtype), totals[s.var]
                given = f"{total}, {self.shared[s.var]}" if self.shared else total
                env[s.var] = self.e.put(s.var.aval.dtype, f"{team}({given})")

    def reached(self, sinks: Sequence[Sink], number: int) -> list[Var]:
        """The full and column values that these sinks need, operands first."""
        if not self.apart:
            return self.plan.needed(self.plan.phases[number], number)
        found: list[Var] = []
        seen: set[Var] = set()
        for s in sinks:
            for v in (s.var,) if s.equation is None else variables(s.equation):
                if self.plan.kind[v] != "row":
                    self.plan.walk(v, number, seen, found)
        return found

    def fold(self, sums: Sequence[RowSum]) -> None:
        """What the teams of a block have added up, to its part."""
        way, put = self.way, self.put
        for i, _, kind, dtype, column in sums:
            value = f"sum{i}[k]" if column else f"sum{i}"
            if way.rows > 1:
                put(f"__shared__ {c_type(dtype)} fold{i}[{way.block}];")
                value = f"{self.function('fold', kind, dtype)}({value}, fold{i}, {way.rows}, {way.team})"
            if column:
                put("#pragma unroll")
                put(f"for (int k = 0; k < {self.items}; k++) {{")
                put(f"const {c_type(dtype)} found = {value};")
                put(f"const int c = t + k * {way.team};")
                inside = f"threadIdx.x < {way.team} && c < {self.n}"
                put(f"if ({inside}) part{i}[blockIdx.x * {self.n}ll + c] = found;")
                put("}")
            else:
                found = self.e.put(dtype, value)
                put(f"if (threadIdx.x == 0) part{i}[blockIdx.x] = {found.text};")

    def columns(self) -> None:
        """Sums over rows where a row is too long for registers: a thread owns a column, a block every so manieth row of 256."""
        put, across, sums = self.put, -(-self.n // THREADS), [s for s in self.sums if s.column]
        self.head("columns", THREADS, sums, "const ")
        env = self.numbers()
        put(f"const int c = blockIdx.x % {across} * {THREADS} + threadIdx.x;")
        put(f"const long long p = blockIdx.x / {across};")
        put(f"if (c < {self.n}) {{")
        for i, _, kind, dtype, _ in sums:
            put(f"{c_type(dtype)} sum{i} = {identity(kind, dtype).text};")
        put(f"for (long long r = p; r < rows; r += gridDim.x / {across}) {{")
        self.row_inputs(env)
        for v, what in self.passed("columns"):
            env[v] = self.e.put(v.aval.dtype, f"{what}[r]")
        for s in sums:
            for v in self._needed(s.equation):
                if v not in env:
                    env[v] = self.element(v, env)
            put(self.added(s.equation, env, f"sum{s.number}"))
        put("}")
        self.e.lines += [f"part{s.number}[p * {self.n}ll + c] = sum{s.number};" for s in sums]
        self.e.lines += ["}", "}"]

    def finish(self) -> None:
        """The parts of all sums, a few blocks for each."""
        parameters, lines, before = [], [], 0
        for i, _, kind, dtype, column in self.sums:
            t, (count, width) = c_type(dtype), self.finished(column)
            parameters += [f"const {t}* __restrict__ part{i}", f"{t}* __restrict__ out{i}", f"const long long n{i}"]
            name = self.function("finish", kind, dtype)
            given = f"part{i}, out{i}, n{i}, blockIdx.x - {before}ll, fold{i}, {count}ll, {width}"
            before += -(-count // width)
            lines += [f"__shared__ {t} fold{i}[{THREADS}];", f"if (blockIdx.x < {before}) {{ {name}({given}); return; }}"]
        self.put(f'extern "C" __global__ void __launch_bounds__({THREADS}) finish({", ".join(parameters)}) {{')
        self.e.lines += [*lines, "}"]

    def finished(self, column: bool) -> tuple[int, int]:
        """The numbers of a sum, and how many of them a block of `finish` adds up."""
        count = self.n if column else 1
        width = 1
        while width < min(count, WARP):
            width *= 2
        return count, width

    def text(self, modes: Sequence[str]) -> str:
        """The module."""
        self.begin(modes)
        if self.first:
            self.kernel()
        if self.apart:
            self.columns()
        if self.sums:
            self.finish()
        lines, depth = [], 0
        for line in self.e.lines:
            depth -= line.count("}") if line.startswith("}") else 0
            lines.append(line if line.startswith("#") else "  " * depth + line)
            depth += line.count("{") - (0 if line.startswith("}") else line.count("}"))
        return PRELUDE + "\n".join([*self.function.made, *lines]) + "\n"


# -- few rows that are very long: each is spread over many blocks, one launch for each phase of the plan
#
# Idea: a phase that reduces leaves a part of each block; the next one begins by combining them, in a fixed order, in every
# block. So there are as many launches as phases, and no block waits for another. The last phase has no reductions: it knows all
# values of a row, whose first block writes what is to be written of them. Sums over rows have one part for each row.
#
# Arguments of `stage<number>`: those of `kernel` in this file, with the parts of reductions and their number before the
# rows.


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
