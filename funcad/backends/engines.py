"""Which engine runs a program, and when it is compiled.

Idea: `program_of(jaxpr)` gives an `EngineProgram`, a reference program that turns into a faster one when it pays. The first run
of a small program is the reference's, equation by equation, as are un-jitted runs until they have cost what compiling costs;
the next, or the first of one with much work, goes through the passes and one of the engines: the whole program as native code
if it is small and static, else generated Python whose fused groups are native kernels where llvmlite is there, tiled NumPy
where it is not. On arrays of a device it is generated Python, too, a line of CuPy's for each operation that the passes leave.
Invariants: an engine changes speed, not meaning (DESIGN: agreement); whatever an engine cannot express runs on the next one,
and `reasons` says why. Programs that move arrays, and all under `debug_nans` and `debug_infs`, run by the reference. Where
arguments are donated, a second generated text may write into them; native code does not, its results are new arrays. Trap:
compiling is not cheap; the passes, the generator and llvmlite are imported when a first program needs them, never at `import
funcad`.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import get_ident
from typing import Any

import numpy as np

from funcad.backends import interpreter
from funcad.backends.blas_threads import limited, matters
from funcad.backends.cost import Extent, cost_of
from funcad.backends.interpreter import Program, between_processes, compiling
from funcad.configuration import config, reports
from funcad.configuration import show_config as show_config  # `funcad.show_config`, which loads what it reports
from funcad.host.devices import namespace_of, on_device, restore_warnings, suppress_warnings
from funcad.host.progress import many_objects, working
from funcad.host.real_types import NARROW
from funcad.host.where import setting, state
from funcad.ir.aval import Aval, StackAval, aval_of
from funcad.ir.jaxpr import Equation, Jaxpr, Var, subjaxprs
from funcad.memo import Table, compared_by
from funcad.primitives.loop import Loop, loop_p
from funcad.show.compile_log import CompileEvent, log

COLD = 1  # runs that the reference makes
TIER_UP_RUNS = 30  # of a small program that is not its function's first, before it becomes native as a whole: this takes tens
# of milliseconds, which a last, smaller batch or shapes that change all the time do not earn
FEW_RUNS = 5  # fewer are not waited for
TIER_UP_RUNS_OF_SIZES = 300  # where sizes come and go, so that texts are shared (sizes.py)
LONG_LOOP = 20_000  # equations that un-jitted loops run in Python before they are compiled: these take about as long
WHEN_LOADED = 4  # of them a part, where the compiler's modules have been loaded
A_RUN = 5  # equations that take as long as to begin a run
IN_PYTHON = 1e-6  # seconds of each
LONG_RUN = 0.5  # seconds of estimated work from which a run is worth a word while it lasts
AT_ONCE = 2e-3  # seconds of estimated work from which a program is compiled at its first run
BUDGET = 0.5  # seconds of compilation after which the groups of a program stay with NumPy,
BY_EQUATION = 1e-4  # and for each equation: about what it takes to write one as a line for NumPy,
EARNED = 20  # unless so many runs take longer than that
made = {"compiled": 0, "taken over": 0}  # programs that were compiled, or took over the text of another size: for the tests
_SECONDS = {"flops": 5e-10, "transcendentals": 5e-9, "bytes accessed": 2e-10}


def _later(name: str) -> Any:
    return importlib.import_module(f"funcad.backends.{name}")


class EngineProgram(Program):
    """A program that compiles itself with one engine when that pays."""

    __slots__ = (
        *("engine", "fast", "_optimized", "_fused", "generated", "native"),
        *("kernels", "reasons", "quiet", "donating", "runs_until_native", "long", "there", "turning", "_extent", "_member"),
    )

    def __init__(self, jaxpr: Jaxpr, engine: str):
        super().__init__(jaxpr)
        self.engine = engine
        self.fast: Any = None  # native builtin: leaves in, results out, NotImplemented for operands of another kind
        self._optimized: Jaxpr | None = None
        self._fused: Jaxpr | None = None
        self._extent: tuple[int, int] | None = None
        self.generated: Any = None  # the NumPy engine's program
        self.native: Any = None  # the whole as native code
        self._member: Any = False  # its place among programs of other sizes, if that was looked for
        self.kernels: dict[Jaxpr, Any] = {}  # the native code of groups, by their programs
        self.reasons: list[str] = []  # why parts are not native
        self.runs_until_native = 0  # runs until the whole is compiled as native code, if that was put off
        self.quiet = False  # does the generated function keep silent of its own accord?
        what = "positions of arguments: the function that may write over these"
        self.donating = Table("engines.donating", what, same=None)
        self.turning: set[int] = set()  # threads in which it runs, where it is a loop of its own
        self.there: Any = None  # the program on arrays of a device
        self.long = False  # may a run take so long that it says so?
        if "at once" in jaxpr.memo:
            self.runs = COLD

    def run(self, args: Sequence[Any], donated: frozenset[int] = frozenset()) -> list[Any]:
        if not (donated or self.moving or state.checked or on_device(args)):
            values = list(args)
            del args
            return self.consume(values)
        if state.checked or self.moving:
            return super().run(args, donated)
        xp = namespace_of(args)
        if xp is not np:
            outputs = None if self.jaxpr.moves else self.on_device(xp).run(args, donated)
            return super().run(args) if outputs is None else outputs
        self.runs += 1
        if self.is_cold():
            return super().run(args, donated)
        self.written_out()
        if self.native is not None:  # it writes into no argument
            return self.consume(list(args))
        function = self._donating(frozenset([i for i, a in enumerate(args) if id(a) in donated]))
        return self._called(function, list(args))

    def is_cold(self) -> bool:
        """Is this run, which has been counted, the reference's?"""
        return (self.runs <= COLD or self.rents()) and estimate(self.jaxpr) <= AT_ONCE

    def rents(self) -> bool:
        """Have its un-jitted runs taken less than compiling does? Of a jitted function the account knows."""
        memo = self.jaxpr.memo  # of what tells other processes what comes, every run does
        if not self.turns or memo.get("account") is not None or memo.get("at once") or self.jaxpr.has_effects:
            return False
        return max(self.runs, self.turns) * _length(self.jaxpr) < _long_loop()

    def on_device(self, xp: Any) -> Any:
        """The program for arrays of this library's."""
        if self.there is None or self.there.library is not xp:
            self.there = _later("cupy_program").OnDevice(self, xp)
        return self.there

    def consume(self, values: list[Any]) -> list[Any]:
        function = self.function
        if function is None:
            if self.waits():
                return self._step_by_step(values)
            function = self.function
        elif self.runs_until_native:
            self._settle()
            function = self.function
        return self._called(function, values)

    def waits(self) -> bool:
        """Does a run that begins now go equation by equation? If not, the program is compiled."""
        if self.function is None:
            self.runs += 1
            if self.is_cold() and not self._takes_over() or self._waits():
                return True
            self.written_out()
        return False

    def _waits(self) -> bool:
        """Is compiling not repaid yet? The account of the function says so (jitted/account.py), if there is one."""
        account, part = self.jaxpr.memo.get("account"), self.jaxpr.memo.get("part")
        if account is None or not (part and part.whole) and self.may_compile(account):
            return False
        if not part:
            account.called()
        return True

    def may_compile(self, account: Any, times: float = 1.0) -> bool:
        """Does an account allow it? First what passes take is spent, which tells what the rest, so many times over, will take.

        Where the text of other sizes fits, nothing else is looked at.
        """
        if self._optimized is None:
            if self._takes_over():
                return account.takes_over()  # type: ignore[no-any-return]
            if not account.passes(len(self.jaxpr.equations)):
                return False
            account.passed(sum(self.extent))
        return account.compiles(*self.extent, times)  # type: ignore[no-any-return]

    @property
    def extent(self) -> tuple[int, int]:
        """How many equations of numbers and of arrays the passes leave."""
        if self._extent is None:
            found = Extent(self.optimized.equations, True)
            self._extent = found.numbers, found.arrays
        return self._extent

    def _called(self, function: Callable[[list], list], values: list[Any]) -> list[Any]:
        token = None if self.quiet or function is self.native else suppress_warnings()
        try:
            if self.long:
                with working(lambda: f"running a program of {len(self.jaxpr.equations):,} equations{self.where()}"):
                    return function(values)
            return function(values)
        except Exception as error:
            self.note(error)
            raise
        finally:
            if token is not None:
                restore_warnings(token)

    def written_out(self) -> Callable[[list[Any]], list[Any]]:
        if self.function is None:
            with compiling:
                if self.function is None:
                    with self.noted():
                        self.function = self._compile()
        return self.function  # type: ignore[no-any-return]

    @property
    def optimized(self) -> Jaxpr:
        """The program after the passes."""
        if self._optimized is None:
            with setting(engine=self.engine), many_objects():  # another may be set by now
                self._optimized = importlib.import_module("funcad.passes.pipeline").pipeline_end(self.jaxpr)
        return self._optimized

    @property
    def fused(self) -> Jaxpr:
        """The same with groups."""
        if self._fused is None:
            self._fused = importlib.import_module("funcad.passes.example_loops").grouped(self.optimized)
        return self._fused

    def _compile(self) -> Callable[[list[Any]], list[Any]]:
        if self._takes_over():
            made["taken over"] += 1
            self.long = self.generated.long
            if self.runs_until_native == TIER_UP_RUNS:
                self.runs_until_native = TIER_UP_RUNS_OF_SIZES
        else:
            member = self._place()
            made["compiled"] += 1
            self.long = estimate(self.optimized) > LONG_RUN
            if self._is_native_at_once():
                if not self._whole():
                    self._in_groups()
                return self.function
            self.generated = _later("emission").generate(self.fused)
            self.generated.long = self.long
            if member is not None:
                member.learn(self.generated)
        self.quiet = self.generated.quiet
        return self._limited(self.generated)

    def _is_native_at_once(self) -> bool:
        return not self.runs_until_native and self.engine != "numpy" and bool(_later("native.target").available())

    def _place(self) -> Any:
        """Its place among programs of other sizes; None where it has none, or is native at once."""
        if self._member is False:
            if self.jaxpr.memo.get("siblings", 0) and self._is_native_at_once():
                self.runs_until_native = self._patience()
            self._member = None if self._is_native_at_once() else _later("sizes").member_of(self.jaxpr)
        return self._member

    def _takes_over(self) -> bool:
        """Is there a text of other sizes, which is this program's with its numbers filled in?"""
        if self.generated is None and self.jaxpr.memo.get("sizes"):
            member = self._place()
            self.generated = member and member.taken_over()
        return self.generated is not None

    @contextmanager
    def noted(self, engine: str = "") -> Iterator[None]:
        """A block that compiles: it is logged, and it says so if it takes long."""
        start = time.perf_counter()
        what = f"a program of {len(self.jaxpr.equations):,} equations"
        with working(lambda: f"compiling {what}{self.where()}"), many_objects():
            yield
        engine = engine or ("native" if self.native is not None else "numpy with native groups" if self.kernels else "numpy")
        place = self.where().removeprefix(" at ")
        log.append(CompileEvent("compiled", what, place, time.perf_counter() - start, f"engine {engine}"))

    def _patience(self) -> int:
        """How many runs native code can wait for, so that what is lost by then is about what compiling costs."""
        if estimate(self.jaxpr) < AT_ONCE:
            return TIER_UP_RUNS
        cost = _later("native.program_cost")
        work = cost.work_of(self.jaxpr)
        if work.nanoseconds > work.outside:  # loops are far slower in Python
            return 0
        runs = int(TIER_UP_RUNS * min(1.0, cost.LEAST / max(work.outside, 1.0)))
        return runs if runs >= FEW_RUNS else 0

    def _in_groups(self) -> None:
        """Generated Python with native code for its groups."""
        self.generated = _later("emission").generate(self.fused, self._native_kernels())
        self.quiet = self.generated.quiet
        self.function = self._limited(self.generated)

    def _limited(self, generated: Any) -> Callable[[list], list]:
        """The function that was generated, which shares the cores with BLAS."""
        return limited(generated.function) if matters(self.jaxpr) else generated.function  # type: ignore[no-any-return]

    def _marked(self, jaxpr: Jaxpr) -> Jaxpr:
        """A part of the program, which may be computed as the program may."""
        if self.jaxpr.memo.get("fast_math"):
            jaxpr.memo["fast_math"] = True
        return jaxpr

    def _whole(self) -> bool:
        """Native code for the whole program, if it can be had."""
        unsupported = _later("plans.element_plan").Unsupported
        try:
            grouped = importlib.import_module("funcad.passes.example_loops").batch(self.optimized)
            framed = importlib.import_module("funcad.passes.scatters").framing(grouped)
            own = importlib.import_module("funcad.passes.pipeline").copy_aliased_outputs(grouped, framed)
            self.native = _later("native.program").compile_program(self._marked(own))
        except unsupported as reason:
            self.reasons.append(f"not native as a whole: {reason}")
            return False
        self.function = self.native
        if not self.long:
            self.fast = self.native.fast  # at last, for callers look at it without a lock
        return True

    def _settle(self) -> None:
        """One more run of a program that waits for its native code."""
        self.runs_until_native -= 1
        if not self.runs_until_native:
            with compiling:
                if self.native is None:
                    made["compiled"] += 1
                    with self.noted():
                        if not self._whole():
                            self._in_groups()

    def _donating(self, positions: frozenset[int]) -> Callable[[list], list]:
        function = self.donating.get(positions)
        if function is None:
            with compiling:
                kernels = (lambda e: self.kernels.get(e.params["jaxpr"])) if self.kernels else None
                generated = _later("emission").generate(self.fused, kernels, donated=positions)
                function = self.donating.setdefault(positions, self._limited(generated))
        return function

    def _native_kernels(self) -> Callable[[Any], Any]:
        """`kernel(equation)`: native code for a fused group, or None."""
        kernels, unsupported = _later("native.kernels"), _later("plans.element_plan").Unsupported
        size = importlib.import_module("funcad.passes.rewrite").size_of(self.optimized)
        stop = time.thread_time() + BUDGET + BY_EQUATION * size + EARNED * estimate(self.jaxpr)

        def kernel(equation: Any) -> Any:
            group = equation.params["jaxpr"]
            try:
                if time.thread_time() > stop:
                    raise unsupported("compiling the groups before it took long enough for this program")
                self._marked(group)
                self.kernels[group] = kernels.kernel_for(equation)
                return self.kernels[group]
            except unsupported as reason:
                self.reasons.append(f"{equation.params['kind']} group at {equation.source}: {reason}")
                return None

        return kernel

    def engine_of(self, equation: Any) -> str:
        """Which engine runs an equation of `fused`."""
        return "native" if equation.params.get("jaxpr") in self.kernels else "numpy"

    def note(self, error: Exception) -> None:
        if self.generated is not None:
            self.generated.note(error)


def _report() -> str:
    """The lines of show_config(): the engine that compiled programs run on, and what is known of the native one."""
    if config.engine in ("numpy", "interpreter"):
        return f"engine in use: {config.engine}, as set"
    target = _later("native.target")
    return f"engine in use: {'native' if target.available() else 'numpy'}\n{target.report()}"


reports.append(_report)


compared_by[EngineProgram] = lambda program: (program.engine, program.jaxpr)


def estimate(jaxpr: Jaxpr) -> float:
    """Seconds that one run may take, roughly; memoised, since each turn of a loop that is not compiled asks."""
    found: float | None = jaxpr.memo.get("seconds")
    if found is None:
        found = jaxpr.memo.setdefault("seconds", sum([_SECONDS[k] * v for k, v in cost_of(jaxpr).items()]))
    return found


def program_of(jaxpr: Jaxpr, engine: str = "") -> Program:
    """The program that runs this jaxpr on an engine (else the one that is set); memoised on the jaxpr, for each engine."""
    engine = engine or config.engine
    if engine == "interpreter" or "cuda" in jaxpr.moves or NARROW and jaxpr.narrow:
        return interpreter.program_of(jaxpr)
    program: Program | None = jaxpr.memo.get(engine)
    if program is None:
        with compiling:
            program = jaxpr.memo.get(engine)
            if program is None:
                with many_objects():
                    program = jaxpr.memo.setdefault(engine, EngineProgram(between_processes(jaxpr), engine))
    return program


def loop_program(args: Sequence[Any], loop: Loop) -> Any:
    """`function(values) -> outputs` of a loop that runs un-jitted, if it pays to compile it; None: go round in Python.

    Compiled programs hang on the loop's body.
    """
    params, body = {"loop": loop}, loop.body
    if config.engine == "interpreter" or state.checked or on_device(args):
        return None
    if any(["cuda" in j.moves or NARROW and j.narrow for j in subjaxprs(params)]):
        return None
    try:
        avals = [aval_of(a) for a in args]
    except TypeError:
        return None
    kinds = tuple([a if type(a) is StackAval else (a.shape, a.dtype) for a in avals])
    key = ("loop", config.engine, loop, kinds)
    program = body.memo.get(key)
    if program is None:
        inputs = tuple([Var(a if type(a) is StackAval else Aval(a.shape, a.dtype, a.weak)) for a in avals])
        outputs = tuple([Var(a) for a in loop_p.abstract_eval(*avals, **params)])
        whole = Jaxpr(inputs, (Equation(loop_p, inputs, params, outputs),), outputs)
        program = EngineProgram(between_processes(whole), config.engine)
        program = body.memo.setdefault(key, program)
    if get_ident() in program.turning:  # who asks is that program, which has no means for the loop but Python
        return None
    program.runs += 1
    if program.function is None:
        turns = loop.length if loop.cond is None else 1
        if turns is None:  # as long as another loop was
            turns = int(loop.counted(args)[0][0])
        rents = program.runs <= COLD or not body.has_effects  # see `EngineProgram.rents`
        if rents and turns < turns_left(loop) and estimate(program.jaxpr) <= AT_ONCE:
            return None
        if program._is_native_at_once():
            program.runs_until_native = program._patience()  # a text for NumPy comes first, where turns are short
    program.written_out()
    return partial(_turning, program)


def turns_left(loop: Loop) -> int:
    """How many turns it makes in Python until these, with those before, have taken what compiling takes."""
    each = 1 + _length(loop.body) + (_length(loop.cond) if loop.cond is not None else 0)
    return int(_long_loop() // each) - program_of(loop.body).turns


def _long_loop() -> int:
    return LONG_LOOP // WHEN_LOADED if "funcad.backends.emission" in sys.modules else LONG_LOOP


def _length(jaxpr: Jaxpr) -> float:
    """How many equations of numbers take as long as one run."""
    return A_RUN + len(jaxpr.equations) + estimate(jaxpr) / IN_PYTHON


def _turning(program: EngineProgram, values: list[Any]) -> list[Any]:
    thread = get_ident()
    program.turning.add(thread)
    try:
        return program.consume(values)
    finally:
        program.turning.discard(thread)


def run_jaxpr(jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    """Run a program on arrays, un-jitted: by the reference until such runs have taken about what compiling takes."""
    program = program_of(jaxpr)
    program.turns += 1
    return program.run(args)
