"""What the compiler made of a program: which equations run together, on which engine, and why the others run alone.

Nothing is decided here: the passes and engines are asked again what they decided. Sources are the user's lines; a group that
holds operations of several lines names them all. Trap: only the compiled program knows what is native, so explaining compiles.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from funcad.backends.blas_threads import matters, report
from funcad.backends.engines import EngineProgram
from funcad.configuration import config
from funcad.host.devices import is_device, namespace_of, on_device
from funcad.host.where import state
from funcad.ir.jaxpr import Equation, Jaxpr, equation_has_effects, subjaxprs
from funcad.primitives.atoms import fold_of
from funcad.primitives.fused import fused_p
from funcad.primitives.loop import Loop
from funcad.show.compile_log import html_table
from funcad.show.pretty import shown_as

WIDTH = 150  # of a line that names the operations of a group


class Explanation:
    """Text for a reader: `print(...)` it; notebooks show tables.

    The same as data: `engine` ("native" if the whole is one native function, "cupy" on a device, else "numpy" or "interpreter")
    and `why` it is that one; `counts`, the equations before and after the passes, loop bodies included; `rolled`, the loops
    that were found in what repeats itself; `groups` and `alone`, lists of dicts; `reasons` why something is not native; `blas`,
    how many threads BLAS takes, "" if it is called for nothing that would wake several; `outside`, what the function reads
    beside its arguments and stores there: `what`, `how` ("read", "compared" or "stored" at each call) and the `line`.

    Engine "cuda": a group has its `kernels`, in the order in which they start, each with `blocks` and `threads` and, where
    NVRTC is installed, `registers`, `stack` and `spills` (bytes of a thread) and `shared` (bytes of a block), as compiled for
    `target`; and the `bytes` that one run of it moves, of which a loop makes several (`turns`). `bytes` is the sum, and
    `at(bandwidth)` says how long it takes at so many bytes a second. `shapes`: the arguments are shapes, taken as a GPU's.
    """

    def __init__(self, program: Any, values: Sequence[Any], name: str, shapes: bool = False):
        self.name = name
        self.target = self.unknown = ""  # the processor whose registers are told, or why they are not known
        self.bandwidth: float | None = None
        self._notes: Any = None  # of kernels
        self.groups: list[dict[str, Any]] = []
        self.alone: list[dict[str, Any]] = []
        self.engine = "interpreter"
        self.why = "it has bfloat16 or float8 values" if program.jaxpr.narrow else "config.engine is 'interpreter'"
        self.reasons: list[str] = []
        self.rolled: list[str] = []
        self.blas = self.graphs = ""
        self.outside: list[dict[str, str]] = []  # set by whoever knows the function (jitted/jit_inspect.py)
        self.cost: Any = None  # and what jit has spent on it
        self.fast_math = bool(program.jaxpr.memo.get("fast_math"))
        size_of = importlib.import_module("funcad.passes.rewrite").size_of
        self.counts: tuple[int, int] = (size_of(program.jaxpr),) * 2
        there = on_device(values)
        if state.checked or "cuda" in program.jaxpr.moves or there and program.jaxpr.moves:
            moves = "operations run one by one, where their operands are: the program moves arrays"
            self.why = "debug_nans or debug_infs is on" if state.checked else moves
            return
        if not isinstance(program, EngineProgram):
            return
        if there or shapes and program.engine == "cuda":
            self._on_device(program, values, there)
            return
        program.written_out()
        assert program.optimized is not None
        self.counts = self.counts[0], size_of(program.optimized)
        self.rolled = list(dict.fromkeys(_rolled(program.optimized, "")))
        self.reasons = list(dict.fromkeys(program.reasons))
        if program.native is not None:
            count = getattr(program.native, "count", 1)
            self.engine = "native"
            parts = "one native function" if count == 1 else f"{count} native functions"
            self.why = f"the whole program is {parts}"
            self.groups = list(_native(program.optimized, ""))
            return
        self.engine = "numpy"
        assert program.fused is not None
        self._walk(program.fused, program, "")
        self.why = self._why_numpy()
        self.blas = report() if matters(program.jaxpr) else ""
        if program.runs_until_native:
            self.why += f"; native code is made after {program.runs_until_native} more runs of this size"

    def _on_device(self, program: EngineProgram, values: Sequence[Any], there: bool) -> None:
        module = lambda name: importlib.import_module(f"funcad.backends.{name}")
        library = namespace_of(values) if there else module("cuda.sketches").on_paper
        on_device = program.on_device(library) if there else module("cupy_program").OnDevice(program, library)
        optimized = on_device.optimized
        arrays = f"the arrays are {library.__name__}'s" if there else "shapes are taken as arrays of a GPU"
        self.engine, self.why = "cupy", f"{arrays}: one call after the other"
        if program.engine == "cuda":
            self.engine, self.why = "cuda", f"{arrays}, and config.engine is 'cuda'"
            outline_of, inputs = module("cuda.sketches").outline_of, zip(on_device.fused.inputs, values)
            self._notes = module("cuda.sketches").KernelNotes({v: outline_of(x) for v, x in inputs if is_device(type(x))})
        self.counts = self.counts[0], importlib.import_module("funcad.passes.rewrite").size_of(optimized)
        self.rolled = list(dict.fromkeys(_rolled(optimized, "")))
        self._walk(on_device.fused, on_device, "")
        if self._notes is not None:
            if there:
                on_device.generated()
            self.reasons = list(dict.fromkeys([*self._notes.reasons, *on_device.reasons]))
            self.target, self.unknown = self._notes.target, self._notes.unknown
            if there and hasattr(library, "cuda"):
                self.graphs = on_device.graphs.describe()

    def _walk(self, jaxpr: Jaxpr, program: Any, inside: str, turns: int | None = 1) -> None:
        for equation in jaxpr.equations:
            if equation.primitive is fused_p:
                kind, shape = equation.params["kind"], equation.params["shape"]
                group = equation.params["jaxpr"]
                found = _group(kind, shape, group, program.engine_of(equation), inside)
                found["cut"] = jaxpr.memo.get("cut", {}).get(group, "")
                if self._notes is not None:
                    found |= {"turns": turns, **self._notes.of(equation)}
                self.groups.append(found)
                continue
            why = _why(equation, device=self.engine in ("cupy", "cuda"))
            self.alone.append({"operation": shown_as(equation), "line": _line(equation), "why": why, "inside": inside})
            length = getattr(equation.params.get("loop"), "length", 1)
            for sub in subjaxprs(equation.params):
                self._walk(sub, program, f"{inside}{shown_as(equation)} > ", turns and length and turns * length)

    def _why_numpy(self) -> str:
        if config.engine == "numpy":
            return "config.engine is 'numpy'"
        target = importlib.import_module("funcad.backends.native.target")
        reason = target.why_not()
        if reason is not None:
            return f"the native engine is not in use: {reason}"
        if not self.groups:
            return "there is nothing to fuse"
        native = sum([group["engine"] == "native" for group in self.groups])
        return f"NumPy calls, and native kernels for {native} of {len(self.groups)} groups"

    @property
    def bytes(self) -> int | None:
        """What all kernels move in one run; None where nobody knows how often a loop goes round."""
        kernels = [g for g in self.groups if "kernels" in g]
        return None if any([g["turns"] is None for g in kernels]) else sum([g["bytes"] * g["turns"] for g in kernels])

    def at(self, bandwidth: float) -> Explanation:
        """The same with the least time that the kernels can take where so many bytes a second can be moved."""
        if not bandwidth > 0:
            raise ValueError(f"at: the bandwidth must be a positive number of bytes a second, got {bandwidth!r}")
        found = copy.copy(self)
        found.bandwidth = float(bandwidth)
        return found

    @property
    def seconds(self) -> float | None:
        """The least time of the kernels of one run, as `at` was asked; None if it was not, or nobody knows."""
        return None if self.bandwidth is None or self.bytes is None else self.bytes / self.bandwidth

    def _kernel_lines(self, group: dict[str, Any]) -> list[str]:
        lines = [_launch(kernel) for kernel in group.get("kernels", ())]
        if lines:
            turns = group["turns"]
            often = "" if turns == 1 else f", {'nobody knows how many' if turns is None else turns} times"
            lines.append(f"{self._moved(group['bytes'])}{often}")
        return lines

    def _moved(self, count: int) -> str:
        time = "" if self.bandwidth is None else f": {_time(count / self.bandwidth)} at {self.bandwidth / 1e12:.3g} TB/s"
        return f"{count:,} bytes moved{time}"

    def _ends(self) -> list[str]:
        """The lines about all kernels together."""
        kernels = [g for g in self.groups if "kernels" in g]
        if not kernels:
            return []
        if self.bytes is None:
            lines = ["kernels: nobody knows how often those in loops run"]
        else:
            starts = sum([g["turns"] * len(g["kernels"]) for g in kernels])
            lines = [f"kernels: {starts} starts a run, {self._moved(self.bytes)}"]
        if self.target:
            return [*lines, f"registers, spills and shared memory as compiled for {self.target}"]
        remedy = "Remedy: pip install cupy-cuda13x nvidia-cuda-nvrtc; no GPU is needed."
        return [*lines, f"registers, spills and shared memory are not known: {self.unknown}", remedy]

    def _rows(self) -> Iterator[tuple[str, int]]:
        """The lone equations, equal ones once, with how many they are."""
        counts: dict[tuple[str, ...], int] = {}
        for a in self.alone:
            key = (a["inside"] + a["operation"], a["line"], a["why"])
            counts[key] = counts.get(key, 0) + 1
        yield from counts.items()  # type: ignore[misc]

    def _head(self) -> str:
        return f"jit of {self.name}: engine {self.engine} ({self.why})" + (", fast_math" if self.fast_math else "")

    def _passes(self) -> str:
        if self.engine == "interpreter":
            return f"{self.counts[0]} equations, which run as they were traced"
        return f"passes: {self.counts[0]} equations -> {self.counts[1]}"

    def __str__(self) -> str:
        lines = [self._head(), self._passes(), *[f"  rolled into a loop: {text}" for text in self.rolled]]
        for group in self.groups:
            text = f"{_title(group)}, {group['engine']}: {' '.join(group['operations'])}"
            lines.append("  " + (text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."))
            lines += [f"      {line}" for line in [*group["lines"], *self._kernel_lines(group)]]
        if self.alone:
            lines.append("alone:")
            for (what, line, why), count in self._rows():
                times = f"{count} x " if count > 1 else ""
                lines.append(f"  {times}{what}  {line}  ({why})")
        lines += [*self._ends(), *filter(None, (self.graphs, self.blas)), *outside_lines(self.outside)]
        lines += [] if self.cost is None else str(self.cost).splitlines()
        if self.reasons:
            lines += [f"{self._why_not()}:", *[f"  {reason}" for reason in self.reasons]]
        return "\n".join(lines)

    def _why_not(self) -> str:
        return f"why not {'cuda' if self.engine == 'cuda' else 'native'}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [f"<div><b>{escape(self._head())}</b></div><div>{escape(self._passes())}</div>"]
        if self.rolled:
            parts.append(html_table(("rolled into a loop",), [(text,) for text in self.rolled]))
        if self.groups:
            rows = [(_title(g), g["engine"], " ".join(g["operations"]), "\n".join(g["lines"])) for g in self.groups]
            head: tuple[str, ...] = ("group", "engine", "operations", "lines")
            if self._notes is not None:
                head, rows = (*head, "kernels"), [(*row, "\n".join(self._kernel_lines(g))) for row, g in zip(rows, self.groups)]
            parts.append(html_table(head, rows))
        if self.alone:
            found = [(what, f"{count}", why, line) for (what, line, why), count in self._rows()]
            parts.append(html_table(("alone", "times", "why", "line"), found))
        parts += [f"<div>{escape(line)}</div>" for line in [*self._ends(), *filter(None, (self.graphs, self.blas))]]
        if self.outside:
            rows = [tuple(o.values()) for o in self.outside]
            parts.append(html_table(("beside the arguments", "at each call", "line"), rows))
        if self.reasons:
            parts.append(html_table((self._why_not(),), [(reason,) for reason in self.reasons]))
        return "".join(parts)


def outside_lines(outside: Sequence[dict[str, str]]) -> list[str]:
    """What a function reads beside its arguments, one line each."""
    if not outside:
        return []
    return ["beside the arguments, at each call:", *[f"  {o['how']:8} {o['what']}  {o['line']}".rstrip() for o in outside]]


def _launch(kernel: dict[str, Any]) -> str:
    """`kernel<<<4, 256>>>: 40 registers, 0 bytes spilled, 2,048 bytes shared`."""
    blocks, threads = ["x".join(map(str, kernel[key])) for key in ("blocks", "threads")]
    text = f"{kernel['name']}<<<{blocks}, {threads}>>>"
    if kernel["registers"] is None:
        return text
    return f"{text}: {kernel['registers']} registers, {kernel['spills']:,} bytes spilled, {kernel['shared']:,} bytes shared"


def _time(seconds: float) -> str:
    scale, unit = (1e9, "ns") if seconds < 1e-6 else (1e6, "us") if seconds < 1e-3 else (1e3, "ms")
    return f"{seconds * scale:.3g} {unit}"


def _title(group: dict[str, Any]) -> str:
    shape = "x".join(map(str, group["shape"])) if group["shape"] is not None else ""
    cut = f" ({group['cut']})" if group["cut"] else ""
    return f"{group['inside']}{group['kind']} {shape}".rstrip() + cut


def _line(equation: Equation) -> str:
    return equation.source.short() if equation.source is not None else ""


def _lines(jaxpr: Jaxpr) -> list[str]:
    """The user's lines, each once, in the order in which they appear."""
    return list(dict.fromkeys([line for e in jaxpr.equations if (line := _line(e))]))


def _group(kind: str, shape: tuple | None, jaxpr: Jaxpr, engine: str, inside: str) -> dict[str, Any]:
    operations = [shown_as(e) for e in jaxpr.equations]
    return {
        "kind": kind,
        "shape": shape,
        "operations": operations,
        "lines": _lines(jaxpr),
        "engine": engine,
        "inside": inside,
        "cut": "",
    }


def _native(jaxpr: Jaxpr, inside: str) -> Iterator[dict[str, Any]]:
    """A program that is one native function, and the programs of the loops in it."""
    yield _group("body" if inside else "whole program", None, jaxpr, "native", inside)
    for equation in jaxpr.equations:
        for sub in subjaxprs(equation.params):
            yield from _native(sub, f"{inside}{shown_as(equation)} > ")


def _rolled(jaxpr: Jaxpr, inside: str) -> Iterator[str]:
    """The loops that were found in what repeats itself."""
    for equation in jaxpr.equations:
        loop: Loop | None = equation.params.get("loop")
        if loop is not None and loop.rolled:
            lines = _lines(loop.body) or [_line(equation)]
            yield f"{inside}{loop.length} turns of {len(loop.body.equations)} equations from {lines[0]}"
        for sub in subjaxprs(equation.params):
            yield from _rolled(sub, f"{inside}{shown_as(equation)} > ")


def _why(equation: Equation, device: bool = False) -> str:
    """Why an equation is in no group."""
    primitive = equation.primitive
    if equation_has_effects(equation):
        return "has effects, which keep their order"
    if any(subjaxprs(equation.params)):
        return "a program of its own, see inside"
    if primitive.free:
        return "moves no data: a view"
    if device:
        return "a call of its own"
    if primitive.emit is not None:
        if not equation.outputs[0].aval.shape:
            return "a scalar: nothing to loop over"
        return "no neighbour that could share its loop"
    if primitive.name == "dot_general":
        return "a matrix product: BLAS is better alone"
    if primitive.reduction is not None:
        if fold_of(primitive) is None:
            return f"combines elements by np.{primitive.reduction.ufunc.__name__}, for which engines have no code"
        if equation.inputs[0].aval.dtype != equation.outputs[0].aval.dtype:
            return "its result has another dtype than the elements"
        return "reduces other axes than its neighbours' rows, or has no neighbour"
    if primitive.reach == "pointwise":
        return "has no formula of an element: it is called as a function of whole arrays"
    return "works on whole arrays"
