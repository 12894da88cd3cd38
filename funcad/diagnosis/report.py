"""The doctor's report: records that print as text and, in notebooks, as tables."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from funcad.show.tables import html_table

__all__ = ["NotFinite", "Cut", "Argument", "Diagnosis"]

MOST = 12  # findings of a kind that the text shows


@dataclass(frozen=True)
class NotFinite:
    """An operation that made a NaN or an infinity from finite numbers.

    side: "forward" (its result), "backward" (the cotangent of its operand) or "slope" (a factor of its derivative, which the
        backward pass never met, because a mask selects other elements).
    operation: the primitive's name; "argument" or "value from outside" for what was given so.
    line: the user's, as "file.py:12 (function)"; empty if it is not known.
    inside: the loops and calls around it, as ("scan, turn 3",).
    value: what it made, as a float or complex number: nan, inf, -inf.
    index: where in the result (forward) or in the operand (backward).
    operand: the position of the operand to blame (forward) or whose cotangent it is (backward), None if it cannot be said.
    given: the operands' elements there; those of another shape as a whole where they are one number.
    cotangent: what came from behind at this index (backward only).
    harmless: why it does not reach the result (forward) or a gradient (backward): "hidden by the mask at ...", "finite again
        after ... at ..."; empty if it does.
    nan: the operation and line where an infinity became a NaN; empty if it did not.
    instead: what to write.
    times: how often this operation at this line did it.
    """

    side: str
    operation: str
    line: str
    inside: tuple[str, ...]
    value: complex
    index: tuple[int, ...]
    operand: int | None
    given: tuple[complex, ...]
    cotangent: complex | None
    harmless: str
    nan: str
    instead: str
    times: int

    def __str__(self) -> str:
        made = {"forward": "makes", "backward": "passes back", "slope": "has the slope"}[self.side]
        where = f" at {list(self.index)}" if self.index else ""
        of = f" from {', '.join(map(_number, self.given))}" if self.given else ""
        if self.side == "forward" and self.operand is not None and len(self.given) > 1:
            of += f" (operand {self.operand})"
        ct = f", where {_number(self.cotangent)} came from behind" if self.cotangent is not None else ""
        to = f" to operand {self.operand}" if self.side == "backward" and self.operand else ""
        verb = "is" if self.operation in ("argument", "value from outside") else made
        return f"{self.operation} {verb} {_number(self.value)}{where}{to}{of}{ct}{_often(self.times)}"

    @property
    def place(self) -> str:
        return _place(self.line, self.inside)

    def remarks(self) -> list[str]:
        """The further lines of the text."""
        nan = self.nan and f"becomes NaN in {self.nan}"
        return [*filter(None, [self.harmless, nan, self.instead and f"instead: {self.instead}"])]


@dataclass(frozen=True)
class Cut:
    """An operation that an argument's derivative does not pass.

    operation: the primitive's name, or "bool()", "int()", "an index" for what Python asked.
    kind: "step" (its rule gives no tangent), "integer" (its result is one), "choice" (a comparison), "asked for"
        (stop_gradient), "read" (by Python's control flow).
    line, inside, instead, times: as in `NotFinite`.
    """

    operation: str
    kind: str
    line: str
    inside: tuple[str, ...]
    instead: str
    times: int

    def __str__(self) -> str:
        return f"{self.operation}{_often(self.times)}"

    @property
    def place(self) -> str:
        return _place(self.line, self.inside)


@dataclass(frozen=True)
class Argument:
    """One leaf of the arguments.

    path: "x", "params['w'][0]".
    type: dtype and shape, "f64[3]".
    cut: "" (whole), "in part" (some paths to the result are cut), "" also if nothing can be (integers); "whole": the result's
        derivative does not depend on it at all, and it is cut; "unused": the result does not depend on it.
    gradient: "finite", "zero" (structurally), "nan at [0]", "inf at [1, 2]", or "none" for integers and bools.
    cuts: in the order of the program; the first one first.
    """

    path: str
    type: str
    cut: str
    gradient: str
    cuts: tuple[Cut, ...]

    def __str__(self) -> str:
        said = {"": "", "in part": ", cut in part", "whole": ", cut as a whole", "unused": ", the result does not depend on it"}
        return f"{self.path}: {self.type}, gradient {self.gradient}{said[self.cut]}"


@dataclass(frozen=True)
class Diagnosis:
    """What `funcad.debug.doctor` found; `print` it, or look at it in a notebook.

    name: of the function.
    result: of the function: dtype and shape of each leaf, with the value if there is one number.
    remark: what was done about results that are not one number; empty otherwise.
    operations: how many operations the doctor saw.
    forward: values that were not finite, in the order of the program.
    backward: cotangents that were not finite, in the order of the backward pass; slopes behind masks at the end.
    arguments: each differentiated leaf, with its cuts.
    """

    name: str
    result: str
    remark: str
    operations: int
    forward: tuple[NotFinite, ...]
    backward: tuple[NotFinite, ...]
    arguments: tuple[Argument, ...]

    @property
    def first_forward(self) -> NotFinite | None:
        """The first value that is not finite and that matters."""
        return next((n for n in self.forward if not n.harmless), None)

    @property
    def first_backward(self) -> NotFinite | None:
        """The first cotangent that is not finite and that matters."""
        return next((n for n in self.backward if not n.harmless), None)

    @property
    def healthy(self) -> bool:
        """Is every value and gradient that matters finite, and no derivative cut without being asked for?"""
        cuts = [c for a in self.arguments for c in a.cuts if c.kind not in ("choice", "asked for") or a.cut == "whole"]
        bad = any(a.gradient.startswith(("nan", "inf")) for a in self.arguments)
        return not (self.first_forward or self.first_backward or cuts or bad)

    def __str__(self) -> str:
        lines = [f"doctor of {self.name}: {self.operations} operations, result {self.result}", *filter(None, [self.remark])]
        for side, found in (("forward", self.forward), ("backward", self.backward)):
            real = [n for n in found if not n.harmless]
            hidden = [n for n in found if n.harmless]
            if not found:
                lines.append(f"{side}: every value is finite")
            end = "the result" if side == "forward" else "the gradients"
            for title, some in ((f"{side}, not finite:", real), (f"{side}, not finite, without reaching {end}:", hidden)):
                if some:
                    lines.append(title)
                for n in some[:MOST]:
                    lines += [f"  {n}  {n.place}".rstrip(), *[f"      {r}" for r in n.remarks()]]
                lines += _more(len(some))
        for a in self.arguments:
            lines.append(f"argument {a}")
            shown = [c for c in a.cuts if c.kind != "choice" or a.cut == "whole"]
            for c in shown[:MOST]:
                lines += [f"  {_VERBS[c.kind]} {c}  {c.place}", f"      instead: {c.instead}"]
            lines += _more(len(shown))
            chosen = [c for c in a.cuts if c not in shown]
            if chosen:
                places = ", ".join(dict.fromkeys([c.place for c in chosen[:MOST]]))
                lines.append(f"  choices by comparison, which have no slope of their own: {places}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = escape(f"{self.operations} operations, result {self.result}")
        parts = [f"<div><b>{escape(f'doctor of {self.name}')}</b>: {head}</div>"]
        if self.remark:
            parts.append(f"<div>{escape(self.remark)}</div>")
        if self.forward or self.backward:
            both = (*self.forward, *self.backward)
            rows = [(n.side, str(n), n.place, "\n".join(n.remarks())) for n in both]
            parts.append(html_table(("not finite", "what", "line", "remarks"), rows))
        else:
            parts.append("<div>every value and cotangent is finite</div>")
        if self.arguments:
            found = [(a.path, a.type, a.gradient, a.cut) for a in self.arguments]
            parts.append(html_table(("argument", "type", "gradient", "cut"), found))
        cuts = [(a.path, str(c), c.kind, c.place, c.instead) for a in self.arguments for c in a.cuts]
        if cuts:
            parts.append(html_table(("cut of", "by", "kind", "line", "instead"), cuts))
        return "".join(parts)


_VERBS = {"step": "cut by", "integer": "cut by", "choice": "cut by", "asked for": "cut on request by", "read": "read by"}


def _place(line: str, inside: tuple[str, ...]) -> str:
    return f"{line} in {' > '.join(inside)}" if inside else line


def _often(times: int) -> str:
    return f" ({times} times)" if times > 1 else ""


def _more(count: int) -> list[str]:
    return [f"  and {count - MOST} more"] if count > MOST else []


def _number(x: Any) -> str:
    x = complex(x)
    return f"{x.real:.6g}" if x.imag == 0 else f"{x:.6g}"
