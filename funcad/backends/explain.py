"""What the compiler made of a program: which equations run together, on which engine, and why the others run alone.

Nothing is decided here: the passes and engines are asked again what they decided. Sources are the user's lines; a group that
holds operations of several lines names them all. Trap: only the compiled program knows what is native, so explaining compiles.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from funcad.backends.blas_threads import matters, report
from funcad.backends.engines import Compiled
from funcad.configuration import config
from funcad.host.devices import namespace_of, on_device
from funcad.host.state import state
from funcad.ir.jaxpr import Equation, Jaxpr, equation_has_effects, subjaxprs
from funcad.primitives.atoms import fold_of
from funcad.primitives.fused import fused_p
from funcad.primitives.loop import Loop, rolled_p
from funcad.show.tables import html_table

__all__ = ["Explanation"]

WIDTH = 150  # of a line that names the operations of a group


class Explanation:
    """Text for a reader: `print(...)` it; notebooks show tables.

    The same as data: `engine` ("native" if the whole is one native function, "cupy" on a device, else "numpy" or "interpreter")
    and `why` it is that one; `counts`, the equations before and after the passes, loop bodies included; `rolled`, the loops
    that were found in what repeats itself; `groups` and `alone`, lists of dicts; `reasons` why something is not native; `blas`,
    how many threads BLAS takes, "" if it is called for nothing that would wake several.
    """

    def __init__(self, program: Any, values: Sequence[Any], name: str):
        self.name = name
        self.groups: list[dict[str, Any]] = []
        self.alone: list[dict[str, Any]] = []
        self.engine = "interpreter"
        self.why = "config.engine is 'interpreter'"
        self.reasons: list[str] = []
        self.rolled: list[str] = []
        self.blas = ""
        self.fast_math = bool(program.jaxpr.memo.get("fast_math"))
        size_of = importlib.import_module("funcad.passes.rewrite").size_of
        self.counts: tuple[int, int] = (size_of(program.jaxpr),) * 2
        there = on_device(values)
        if state.checked or "cuda" in program.jaxpr.moves or there and program.jaxpr.moves:
            moves = "operations run one by one, where their operands are: the program moves arrays"
            self.why = "debug_nans or debug_infs is on" if state.checked else moves
            return
        if not isinstance(program, Compiled):
            return
        if there:
            self._on_device(program, namespace_of(values))
            return
        program.written_out()
        assert program.optimized is not None
        self.counts = self.counts[0], size_of(program.optimized)
        self.rolled = list(dict.fromkeys(_rolled(program.optimized, "")))
        self.reasons = list(dict.fromkeys(program.reasons))
        if program.native is not None:
            self.engine, self.why = "native", "the whole program is one native function"
            self.groups = list(_native(program.optimized, ""))
            return
        self.engine = "numpy"
        assert program.fused is not None
        self._walk(program.fused, program, "")
        self.why = self._why_numpy()
        self.blas = report() if matters(program.jaxpr) else ""
        if program.runs_until_native:
            self.why += f"; native code is made after {program.runs_until_native} more runs of this size"

    def _on_device(self, program: Compiled, library: Any) -> None:
        optimized = program.on_device(library).optimized
        self.engine, self.why = "cupy", f"the arrays are {library.__name__}'s: one call after the other"
        self.counts = self.counts[0], importlib.import_module("funcad.passes.rewrite").size_of(optimized)
        self.rolled = list(dict.fromkeys(_rolled(optimized, "")))
        self._walk(optimized, program, "")

    def _walk(self, jaxpr: Jaxpr, program: Compiled, inside: str) -> None:
        for equation in jaxpr.equations:
            if equation.primitive is fused_p:
                kind, shape = equation.params["kind"], equation.params["shape"]
                group = equation.params["jaxpr"]
                self.groups.append(_group(kind, shape, group, program.engine_of(equation), inside))
                self.groups[-1]["cut"] = jaxpr.memo.get("cut", {}).get(group, "")
                continue
            why = _why(equation, device=self.engine == "cupy")
            self.alone.append({"operation": equation.primitive.name, "line": _line(equation), "why": why, "inside": inside})
            for sub in subjaxprs(equation.params):
                self._walk(sub, program, f"{inside}{equation.primitive.name} > ")

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
            lines += [f"      {line}" for line in group["lines"]]
        if self.alone:
            lines.append("alone:")
            for (what, line, why), count in self._rows():
                times = f"{count} x " if count > 1 else ""
                lines.append(f"  {times}{what}  {line}  ({why})")
        if self.blas:
            lines.append(self.blas)
        if self.reasons:
            lines += ["why not native:", *[f"  {reason}" for reason in self.reasons]]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [f"<div><b>{escape(self._head())}</b></div><div>{escape(self._passes())}</div>"]
        if self.rolled:
            parts.append(html_table(("rolled into a loop",), [(text,) for text in self.rolled]))
        if self.groups:
            rows = [(_title(g), g["engine"], " ".join(g["operations"]), "\n".join(g["lines"])) for g in self.groups]
            parts.append(html_table(("group", "engine", "operations", "lines"), rows))
        if self.alone:
            found = [(what, f"{count}", why, line) for (what, line, why), count in self._rows()]
            parts.append(html_table(("alone", "times", "why", "line"), found))
        if self.blas:
            parts.append(f"<div>{escape(self.blas)}</div>")
        if self.reasons:
            parts.append(html_table(("why not native",), [(reason,) for reason in self.reasons]))
        return "".join(parts)


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
    operations = [e.primitive.name for e in jaxpr.equations]
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
            yield from _native(sub, f"{inside}{equation.primitive.name} > ")


def _rolled(jaxpr: Jaxpr, inside: str) -> Iterator[str]:
    """The loops that were found in what repeats itself."""
    for equation in jaxpr.equations:
        if equation.primitive is rolled_p:
            loop: Loop = equation.params["loop"]
            lines = _lines(loop.body) or [_line(equation)]
            yield f"{inside}{loop.length} turns of {len(loop.body.equations)} equations from {lines[0]}"
        for sub in subjaxprs(equation.params):
            yield from _rolled(sub, f"{inside}{equation.primitive.name} > ")


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
        return "a call of its own: there are no kernels for several yet"
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
