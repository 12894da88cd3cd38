"""Where the time of a compiled program goes: per equation and per line of the user's, with FLOPs, bytes, memory and engine.

Idea: each equation of the compiled program (a fused group is one) is made a program of its own, which the same engine runs on
the values that the whole computes; the whole is timed beside them. The body of a loop is timed for its first turn, and the time
of the loop shared out in proportion. Invariants: arguments are never written to, donated ones neither; what has effects runs
once, and no loop that has effects is entered. Traps: equations run alone keep less in the caches than the whole does, so the
parts need not add up to it; a group's time is shared out to its lines by the estimated work of their operations.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from html import escape
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.cost import cost_of
from funcad.backends.engines import EngineProgram
from funcad.backends.interpreter import Program, moved
from funcad.host.devices import namespace_of, restore_warnings, suppress_warnings
from funcad.host.where import note_source, state
from funcad.ir.aval import StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, equation_has_effects, subjaxprs
from funcad.passes.rewrite import size_of
from funcad.passes.subprograms import called, kind_of
from funcad.primitives.fused import fused_p
from funcad.primitives.loop import Loop
from funcad.show.compile_log import html_table
from funcad.show.graph import Picture, TimedPart, axes_of, flame
from funcad.show.pretty import shown_as

BUDGET = 3.0  # seconds for all equations together, and for the whole; each runs twice at least
REPEATS = 9
SHORT = 2e-4  # seconds below which a measurement is of several runs
TRANSCENDENTAL = 20.0  # what one counts, in FLOPs
NATIVE_PARTS = 40  # parts of a native program that are compiled for themselves
MOST_ROWS = 40  # of the text

Function = Callable[[list], list]
Make = Callable[[Equation], tuple[Function, str]]  # how to run an equation alone, and the engine's name


class ProfileLine(NamedTuple):
    """One equation, or one line of the user's. Estimated are `flops` (a transcendental is 20), `bytes` and `live`."""

    what: str
    seconds: float
    flops: float
    bytes: float  # read and written
    live: float  # bytes of all values that are alive while it runs
    engine: str
    source: str
    inside: str = ""  # "scan > ": it belongs to the body of a loop, whose time includes it


class RunProfile:
    """Text for a reader; notebooks show tables. The same as data: `seconds` of a run, `peak` (bytes), `engine`, `equations` and
    `lines` (of the user's, the most expensive first), both lists of `ProfileLine`.

    Times are medians of several runs. `parts` is the sum of the equations' times; `whole` says that the program is one native
    function, whose parts were compiled for themselves to be timed.
    """

    def __init__(self, program: Program, values: Sequence[Any], name: str):
        self.name = name
        self.engine = "interpreter"
        self.whole = False
        self.equations: list[ProfileLine] = []
        self.peak = 0.0
        self._lines: dict[str, ProfileLine] = {}
        self._effects = program.jaxpr.has_effects
        xp = namespace_of(values)
        self._wait = xp.cuda.get_current_stream().synchronize if hasattr(xp, "cuda") else None
        jaxpr, self._make = self._parts(program, xp)
        self._share = BUDGET / max(1, size_of(jaxpr))
        values = list(values)
        if not self._effects:
            self.seconds, _ = self._timed(program.run, values, BUDGET)
        token = suppress_warnings()
        try:
            self._measure(jaxpr, values if xp is np else [moved(xp, x) for x in values])
        finally:
            restore_warnings(token)
        self.parts = sum([e.seconds for e in self.equations if not e.inside])
        if self._effects:
            self.seconds = self.parts
        self.lines = sorted(self._lines.values(), key=lambda line: -line.seconds)

    def _parts(self, program: Program, xp: Any) -> tuple[Jaxpr, Make]:
        """The equations that are timed, and how to run one."""
        generate = importlib.import_module("funcad.backends.emission").generate
        there = xp is not np
        if not isinstance(program, EngineProgram) or there and program.jaxpr.moves or state.checked:
            return program.jaxpr, lambda e: (Program(_alone(e)).run, "interpreter")
        if there:
            self.engine = "cuda" if program.engine == "cuda" else "cupy"
            on_device = program.on_device(xp)
            on_device.generated()
            engine_of = lambda e: on_device.engine_of(e) if e.primitive is fused_p else "cupy"
            run_of = lambda e: generate(_alone(e), on_device._kernel, library=xp).function
            return on_device.fused, lambda e: (run_of(e), engine_of(e))
        program.written_out()
        kernel = lambda e: program.kernels.get(e.params["jaxpr"])
        self.engine = "numpy"
        if program.native is None:
            assert program.fused is not None
            return program.fused, lambda e: (generate(_alone(e), kernel).function, program.engine_of(e))
        self.engine, self.whole = "native", True
        assert program.optimized is not None
        jaxpr: Jaxpr = importlib.import_module("funcad.passes.fuse").fuse(program.optimized)
        few = size_of(jaxpr) <= NATIVE_PARTS
        compile_program = importlib.import_module("funcad.backends.native.program").compile_program
        unsupported = importlib.import_module("funcad.backends.plans.element_plan").Unsupported

        def make(equation: Equation) -> tuple[Function, str]:
            if few:
                inner = equation.params["jaxpr"] if equation.primitive is fused_p else _alone(equation)
                try:
                    return compile_program(inner), "native"
                except unsupported:
                    return generate(_alone(equation)).function, "numpy"  # native only among others; the row says so
            return generate(_alone(equation)).function, "numpy"

        return jaxpr, make

    def _timed(self, function: Function, values: list, budget: float) -> tuple[float, list]:
        """Median time of a call, after one that is not counted, and what it gives; quick calls are repeated."""

        def call() -> list:
            results = function(list(values))
            if self._wait is not None:
                self._wait()
            return results

        end = time.perf_counter() + budget
        call()
        start = time.perf_counter()
        results = call()
        once = time.perf_counter() - start
        times = max(1, min(200, int(min(SHORT, budget / REPEATS) / max(once, 1e-8))))
        found = [once] if times == 1 else []
        while not found or len(found) < REPEATS and time.perf_counter() < end:
            start = time.perf_counter()
            for _ in range(times):
                call()
            found.append((time.perf_counter() - start) / times)
        return median(found), results

    def _once(self, function: Function, values: list) -> tuple[float, list]:
        start = time.perf_counter()
        results = function(list(values))
        return time.perf_counter() - start, results

    def _measure(self, jaxpr: Jaxpr, values: list) -> None:
        """Time the equations in their order, on the values that they have in the whole."""
        environment: dict[Any, Any] = dict(zip(jaxpr.inputs, values))
        live = sum(map(_bytes, jaxpr.inputs))
        for equation, dead in zip(jaxpr.equations, jaxpr.last_uses):
            operands = [a.value if type(a) is Literal else environment[a] for a in equation.inputs]
            spent, results, engine = self._run(equation, operands)
            environment.update(zip(equation.outputs, results))
            live += sum(map(_bytes, equation.outputs))
            self.peak = max(self.peak, live)
            self._note(equation, operands, results, spent, 1.0, live, engine, "")
            for v in dead:
                del environment[v]
                live -= _bytes(v)

    def _run(self, equation: Equation, operands: list) -> tuple[float, list, str]:
        """Seconds, results and engine of an equation by itself."""
        function, engine = self._make(equation)
        values = [x for a, x in zip(equation.inputs, operands) if type(a) is Var]
        try:
            if equation_has_effects(equation):
                return *self._once(function, values), engine
            return *self._timed(function, values, self._share), engine
        except Exception as error:
            note_source(error, equation.source)
            raise

    def _note(
        self,
        equation: Equation,
        operands: list,
        results: list,
        spent: float,
        times: float,
        live: float,
        engine: str,
        inside: str,
    ) -> None:
        """Write down an equation that takes `spent` seconds in all for so many `times`; and what is inside."""
        flops, moved = times * _flops(equation), times * sum(map(_bytes, (*equation.inputs, *equation.outputs)))
        source = equation.source.short() if equation.source is not None else ""
        self.equations.append(ProfileLine(_what(equation), spent, flops, moved, live, engine, source, inside))
        bodies = [] if self._effects else list(_bodies(equation, operands, results))
        found = [(*one, count) for jaxpr, values, count in bodies for one in self._first_turn(jaxpr, values)]
        total = sum([seconds * count for _, _, _, seconds, _, count in found])
        for e, ins, outs, seconds, by, count in found:
            share = spent * seconds * count / total
            self._note(e, ins, outs, share, times * count, live, by, f"{inside}{shown_as(equation)} > ")
        if not found:
            for line, share in _shares(equation):
                new = ProfileLine("", share * spent, share * flops, share * moved, live, engine, line)
                old = self._lines.get(line)
                self._lines[line] = new if old is None else _together(old, new)

    def _first_turn(self, jaxpr: Jaxpr, values: list) -> list[tuple[Equation, list, list, float, str]]:
        """Each equation of a body with its operands, results, seconds and engine, in the first turn."""
        environment: dict[Any, Any] = dict(zip(jaxpr.inputs, values))
        found = []
        for equation in jaxpr.equations:
            operands = [a.value if type(a) is Literal else environment[a] for a in equation.inputs]
            spent, results, engine = self._run(equation, operands)
            environment.update(zip(equation.outputs, results))
            found.append((equation, operands, results, spent, engine))
        return found

    def flame(self) -> Picture:
        """A picture: the run, below it the user's lines, below these their equations and what loops are made of.

        Widths are times. A notebook shows it, `save(path)` writes it as SVG; JAX writes traces for other programs.

        >>> import numpy as np, funcad
        >>> picture = funcad.jit(lambda x: np.sum(np.sin(x))).profile(np.ones(1000)).flame()
        >>> picture.svg.startswith("<svg")
        True
        """
        lines: dict[str, list[TimedPart]] = {}
        equations = [(line.inside, _block(line)) for line in self.equations]
        for i, line in enumerate(self.equations):
            if not line.inside:
                lines.setdefault(line.source or "(no line)", []).append(_with_parts(equations, i))
        blocks = [TimedPart(where, sum([b.amount for b in parts]), where, parts) for where, parts in lines.items()]
        total = sum([b.amount for b in blocks])
        return flame(f"profile of {self.name}", TimedPart(self._head(), total, self._head(), blocks))

    def plot(self, ax: Any = None, most: int = 12) -> Any:
        """The user's lines by time, as bars, on matplotlib's axes `ax` or new ones, which are returned; the `most` dearest.

        Raises ImportError where matplotlib is not installed.

        >>> import numpy as np, funcad
        >>> axes = funcad.jit(lambda x: np.sum(np.sin(x))).profile(np.ones(1000)).plot()  # doctest: +SKIP
        """
        ax = axes_of(ax, "RunProfile.plot")
        lines = self.lines[:most][::-1]
        ax.barh([line.source or "(no line)" for line in lines], [1e3 * line.seconds for line in lines])
        ax.set_xlabel("ms")
        ax.set_title(self._head())
        return ax

    def _head(self) -> str:
        return f"jit of {self.name}: {_time(self.seconds)} a run, engine {self.engine}, peak live memory {_size(self.peak)}"

    def _remark(self) -> str:
        if self.whole:
            return f"one native function; its parts, compiled for themselves, take {_time(self.parts)}"
        return "it has effects: what has them ran once" if self._effects else ""

    def _shown(self) -> tuple[list[ProfileLine], str]:
        """The rows of the text, in the order of the program, and what is said of the rest."""
        if len(self.equations) <= MOST_ROWS:
            return self.equations, ""
        ranked = sorted(range(len(self.equations)), key=lambda i: -self.equations[i].seconds)
        chosen = [self.equations[i] for i in sorted(ranked[:MOST_ROWS])]
        return chosen, f"and {len(self.equations) - MOST_ROWS} more, each of which takes less: see .equations"

    def _row(self, line: ProfileLine) -> tuple[str, ...]:
        share = line.seconds / self.parts if self.parts else 0.0
        return _time(line.seconds), f"{share:.1%}", _count(line.flops), _size(line.bytes), _size(line.live)

    def __str__(self) -> str:
        shown, rest = self._shown()
        rows = [self._head(), *filter(None, [self._remark()])]
        rows.append(f"{'time':>9} {'share':>6} {'FLOPs':>9} {'moved':>9} {'live':>9}  engine")
        for line in shown:
            rows.append(f"{_aligned(self._row(line))}  {line.engine:<11} {line.inside}{line.what}  {line.source}".rstrip())
        rows += [*filter(None, [rest]), "by line:"]
        for line in self.lines[:MOST_ROWS]:
            rows.append(f"{_aligned(self._row(line))}  {line.engine:<11} {line.source or '(no line)'}")
        return "\n".join(rows)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        shown, rest = self._shown()
        head = ("time", "share", "FLOPs", "moved", "live", "engine", "line")
        lines = [(*self._row(line), line.engine, line.source or "(no line)") for line in self.lines[:MOST_ROWS]]
        rows = [(*self._row(line), line.engine, line.source, line.inside + line.what) for line in shown]
        text = "".join([f"<div>{t}</div>" for t in (self._remark(), rest) if t])
        heading = f"<div><b>{escape(self._head())}</b></div>"
        return heading + text + html_table(head, lines, 5) + html_table((*head, "equation"), rows, 5)


def _block(line: ProfileLine) -> TimedPart:
    where = f"\n{line.source}" if line.source else ""
    return TimedPart(line.what, line.seconds, f"{line.inside}{line.what}: {_time(line.seconds)}, {line.engine}{where}")


def _with_parts(equations: Sequence[tuple[str, TimedPart]], i: int) -> TimedPart:
    """A block with those of what is inside of it, which follow it."""
    inside, block = equations[i]
    parts = []
    for k in range(i + 1, len(equations)):
        if not equations[k][0].startswith(inside) or equations[k][0] == inside:
            break
        if equations[k][0].count(" > ") == inside.count(" > ") + 1:
            parts.append(_with_parts(equations, k))
    return block._replace(parts=parts)


def _bodies(equation: Equation, operands: list, results: list) -> Iterator[tuple[Jaxpr, list, float]]:
    """The programs inside, with their values at the first turn and the number of turns."""
    kind, params = kind_of(equation), equation.params
    if kind is None or any([type(a.aval) is StackAval for j in subjaxprs(params) for a in (*j.inputs, *j.outputs)]):
        return
    if kind == "loop" and params["loop"].keeps:
        loop: Loop = params["loop"]
        tested, consts, carry, xs = loop.parts(operands)
        count = float(results[0]) if loop.length is None else float(loop.length)
        if loop.cond is not None:
            yield loop.cond, [*tested, *carry], count + 1.0
        if count:
            yield loop.body, [*consts, *carry, *[x[-1 if loop.reverse else 0] for x in xs]], count
    elif kind == "cond":
        branches = params["branches"]
        yield branches[min(max(int(operands[0]), 0), len(branches) - 1)], operands[1:], 1.0
    else:
        found = called(equation)
        if found is not None:
            places = {id(a): x for a, x in zip(equation.inputs, operands)}
            yield found[0], [places[id(a)] for a in found[1]], 1.0


def _alone(equation: Equation) -> Jaxpr:
    """The equation as a program; its inputs are the variables among the operands, each as often as it is read."""
    inner = tuple([a if type(a) is Literal else Var(a.aval) for a in equation.inputs])
    outputs = tuple([Var(v.aval) for v in equation.outputs])
    inputs = tuple([v for v in inner if type(v) is Var])
    return Jaxpr(inputs, (equation._replace(inputs=inner, outputs=outputs),), outputs)


def _together(a: ProfileLine, b: ProfileLine) -> ProfileLine:
    engines = a.engine if b.engine in a.engine.split(", ") else f"{a.engine}, {b.engine}"
    return a._replace(
        seconds=a.seconds + b.seconds,
        flops=a.flops + b.flops,
        bytes=a.bytes + b.bytes,
        live=max(a.live, b.live),
        engine=engines,
    )


def _bytes(atom: Any) -> float:
    return float(atom.aval.size or 0) * atom.aval.dtype.itemsize


def _flops(equation: Equation) -> float:
    cost = cost_of(_alone(equation))
    return cost["flops"] + TRANSCENDENTAL * cost["transcendentals"]


def _what(equation: Equation) -> str:
    if equation.primitive is not fused_p:
        return shown_as(equation)
    names = [e.primitive.name for e in equation.params["jaxpr"].equations]
    text = f"{equation.params['kind']}({' '.join(names)})"
    return text if len(text) <= 70 else text[:67] + "..."


def _shares(equation: Equation) -> list[tuple[str, float]]:
    """The user's lines in an equation, with their shares of its estimated work."""
    work: dict[str, float] = {}
    _work(equation, 1e-9, work)
    total = sum(work.values())
    return [(line, amount / total) for line, amount in work.items()]


def _work(equation: Equation, least: float, work: dict[str, float]) -> None:
    inner = [e for j in subjaxprs(equation.params) for e in j.equations]
    for e in inner:
        _work(e, least, work)
    if not inner:
        line = equation.source.short() if equation.source is not None else ""
        work[line] = work.get(line, 0.0) + least + _flops(equation)


def _aligned(cells: tuple[str, ...]) -> str:
    spent, share, *rest = cells
    return f"{spent:>9} {share:>6} " + " ".join([f"{cell:>9}" for cell in rest])


def _time(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 1e-9:.3g} ns"


def _size(count: float) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count:.0f} B"


def _count(number: float) -> str:
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return f"{number:.0f}"
