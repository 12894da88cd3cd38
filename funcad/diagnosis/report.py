"""The doctor's report, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np

from funcad.diagnosis.recording import RecordedOperation, Recording, array
from funcad.ir.primitive import Primitive
from funcad.primitives.activation import log_softmax, logsumexp, softmax
from funcad.primitives.conversion import convert_p, stop_gradient
from funcad.primitives.eigen import eig, eigh_p, svd_p
from funcad.primitives.linear_systems import cholesky, inv_p, slogdet, solve
from funcad.primitives.reduction import argmax_p, argmin_p, reduce_sum_p
from funcad.primitives.sorting import argsort_p, searchsorted_p
from funcad.primitives.special_logarithms import xlogy
from funcad.show.compile_log import html_table
from funcad.show.pretty import shown_as

from funcad.primitives.arithmetic import (  # isort: skip
    ceil, div, floor, floor_divide, heaviside, hypot, integer_pow_p, mul, reciprocal, rint, rsqrt, sign, sqrt, square_p, sub,
    trunc,
)
from funcad.primitives.transcendental import (  # isort: skip
    arccos, arccosh, arcsin, arctan2, arctanh, cosh, exp, exp2, expm1, log, log1p, log2, log10, pow_p, sinh,
)

# -- what to write instead, by primitive: where a derivative is cut, where a slope is not finite, where a value is not
#
# An entry is a text, or a function of the operation in its run (`Site`) that gives one, or nothing. Nothing here decides
# *whether* there is a cut or an infinity: that follows from the rules and the values. A primitive without an entry gets the
# general text.


class Site(NamedTuple):
    """An operation of a run, to be looked at with what is around it."""

    run: Recording
    entry: RecordedOperation
    mask: str = ""  # the line of the mask that selects its results, if there is one

    def parent(self, operand: int) -> RecordedOperation | None:
        """The operation that made this operand."""
        uses = self.entry.uses
        made = self.run.maker.get(uses[operand].node) if operand < len(uses) else None
        return None if made is None else self.run.entries[made[0]]

    def made_with(self, operand: int) -> set[Primitive]:
        """The operations of the user's call that made this operand: of `np.linalg.norm(x)`, all that it is made of."""
        parent = self.parent(operand)
        if parent is None:
            return set()
        same = [e for e in self.run.entries if e.source == parent.source and e.inside == parent.inside]
        return {e.primitive for e in same}

    def is_square(self, operand: int) -> bool:
        parent = self.parent(operand)
        if parent is None:
            return False
        if parent.primitive is integer_pow_p:
            return bool(parent.params["n"] == 2)
        same = parent.primitive is mul and parent.uses[0].node == parent.uses[1].node >= 0
        return same or parent.primitive is square_p

    def is_sum_of_squares(self, operand: int) -> bool:
        parent = self.parent(operand)
        return parent is not None and parent.primitive is reduce_sum_p and Site(self.run, parent).is_square(0)

    def is_norm(self, operand: int) -> bool:
        """Is this operand a norm, as one operation or as the operations that the library makes it of?"""
        made = self.made_with(operand)
        if hypot in made or {sqrt, reduce_sum_p} <= made:
            return True
        parent = self.parent(operand)
        given = array(parent.uses[0].value) if parent is not None and len(parent.uses) == 1 else array(0)
        if parent is None or parent.primitive.multiple or given.ndim == 0:
            return False
        x = np.arange(1.0, 1.0 + given.size).reshape(given.shape)
        once, negative, twice = [array(parent.primitive.impl(np, s * x, **parent.params)) for s in (1.0, -1.0, 2.0)]
        return bool(np.all(once > 0) and np.allclose(negative, once) and np.allclose(twice, 2.0 * once))

    def slope_of(self) -> str:
        """The operation whose derivative rule made this one, as an inner `grad` does: at its place, of the same operand."""
        mine = {u.node for u in self.entry.uses if u.node >= 0}
        for e in self.run.entries:
            if e is self.entry:
                break
            if e.primitive.emit is None or e.source != self.entry.source or e.inside != self.entry.inside:
                continue
            if e.primitive is not self.entry.primitive and any(e.uses[i].node in mine for r in e.reached for i in r):
                return shown_as(e)
        return ""


Remedy = str | Callable[[Site], str]

_THROUGH = "for its value with the slope of x (straight-through): x + stop_gradient({f}(x) - x)"
_INSIDE = "select the operand as well as the result: np.where(ok, {f}(np.where(ok, x, 1.0)), 0.0)"

# ---------------------------------------------------------------- cuts


def _convert(site: Site) -> str:
    if site.entry.params["dtype"].kind == "b":
        return _CHOICE
    return (
        "keep it a float; to look up between entries, interpolate: with i = x.astype(int), (i + 1 - x) * a[i] + (x - i) * "
        "a[i + 1]; or straight-through: x + stop_gradient(np.trunc(x) - x)"
    )


_CHOICE = "a choice has no slope: funcad.nn.sigmoid(k * (x - c)) is smooth; np.where(x > c, a, b) has the slopes of a and b"
_SMOOTH_MAXIMUM = "weights in place of a position: w = funcad.nn.softmax(k * x), then w @ values"

CUTS: dict[Primitive, Remedy] = {
    rint: _THROUGH.format(f="np.round"),
    floor: _THROUGH.format(f="np.floor"),
    ceil: _THROUGH.format(f="np.ceil"),
    trunc: _THROUGH.format(f="np.trunc"),
    floor_divide: "x / y, or for its value with that slope: x / y + stop_gradient(x // y - x / y)",
    sign: "np.tanh(k * x) is smooth; " + _THROUGH.format(f="np.sign"),
    heaviside: "funcad.nn.sigmoid(k * x) is smooth; " + _THROUGH.format(f="np.heaviside"),
    argmax_p: _SMOOTH_MAXIMUM,
    argmin_p: _SMOOTH_MAXIMUM.replace("k * x", "-k * x"),
    argsort_p: "np.sort(x) has a derivative; x[np.argsort(x)] too, with respect to the x that is indexed",
    searchsorted_p: "np.interp(x, xp, fp) has a derivative",
    convert_p: _convert,
    stop_gradient: "nothing, if it is meant: the program asks for it; else leave stop_gradient out",
}
READS = {
    "bool()": "np.where(condition, a, b) if both branches matter; a Python `if` has the derivative of the branch taken",
    "int()": "keep x as it is instead of int(x)",
    "an index": "a position has no slope: interpolate between two entries, or weight them all (softmax)",
}

# ---------------------------------------------------------------- slopes


def _sqrt(site: Site) -> str:
    if site.is_square(0):
        return "np.abs(x) instead of np.sqrt(x**2)"
    if site.is_sum_of_squares(0):
        return "np.linalg.norm(x), whose derivative at 0 is 0, or np.sqrt(np.sum(x**2) + eps)"
    return "np.sqrt(x + eps), or " + _INSIDE.format(f="np.sqrt")


def _log(site: Site) -> str:
    parent = site.parent(0)
    if parent is not None and parent.primitive is softmax:
        return "funcad.nn.log_softmax(x) instead of the logarithm of softmax(x)"
    if site.is_norm(0) or site.is_sum_of_squares(0):
        return "add eps before the logarithm: np.log(norm + eps), or 0.5 * np.log(np.sum(x**2) + eps)"
    if parent is not None and parent.primitive is reduce_sum_p:
        inner = Site(site.run, parent).parent(0)
        if inner is not None and inner.primitive is exp:
            return "funcad.scipy.special.logsumexp(x) instead of np.log(np.sum(np.exp(x)))"
    for number, _ in site.run.users.get(site.entry.nodes[0], []):
        user = site.run.entries[number]
        if user.primitive is mul:
            return "funcad.scipy.special.xlogy(x, y) instead of x * np.log(y), which is 0 at x = 0; or np.log(y + eps)"
    return "np.log(x + eps), or " + _INSIDE.format(f="np.log")


def _div(site: Site) -> str:
    if site.is_norm(1):
        return "add eps to the norm: x / (norm + eps), or x / np.sqrt(np.sum(x**2) + eps)"
    return "x / (y + eps), or np.where(y != 0, x / np.where(y != 0, y, 1.0), 0.0)"


_CLIP = "keep the operand inside the border: np.clip(x, -1 + eps, 1 - eps)"
_SCALE = "subtract the largest operand first, as funcad.nn.softmax, logsumexp and log_softmax do; or compute the logarithm"
_POW = "keep the base away from 0: (x + eps)**p, or np.where(x > 0, np.where(x > 0, x, 1.0)**p, 0.0)"
_DEGENERATE = "equal eigenvalues have no vectors of their own: perturb the matrix, or use only the values (eigvalsh, svdvals)"
_REGULAR = "the matrix is singular, or nearly so: add eps * np.eye(n), or solve by lstsq or pinv"

SLOPES: dict[Primitive, Remedy] = {
    sqrt: _sqrt,
    rsqrt: "1 / np.sqrt(x + eps)",
    hypot: "np.sqrt(x**2 + y**2 + eps)",
    log: _log,
    log2: _log,
    log10: _log,
    log1p: "keep 1 + x positive: np.log1p(np.maximum(x, -1 + eps))",
    xlogy: "funcad.scipy.special.xlogy(x, y + eps)",
    div: _div,
    reciprocal: "1 / (x + eps), or " + _INSIDE.format(f="np.reciprocal"),
    pow_p: _POW,
    integer_pow_p: "a negative power is infinite at 0: (x + eps)**-n",
    arcsin: _CLIP,
    arccos: _CLIP + "; between vectors, np.arctan2(norm of the cross product, dot product)",
    arctanh: _CLIP,
    arccosh: "keep the operand above 1: np.maximum(x, 1 + eps)",
    arctan2: "the angle of (0, 0) has no derivative: np.arctan2(y, np.where(both_zero, 1.0, x))",
    exp: _SCALE,
    eigh_p: _DEGENERATE,
    eig: _DEGENERATE,
    svd_p: _DEGENERATE,
    inv_p: _REGULAR,
    solve: _REGULAR,
    slogdet: _REGULAR,
}

# ---------------------------------------------------------------- values


def _difference(site: Site) -> str:
    return "the difference of two infinities: bound what makes them (np.clip, or subtract before the exponential)"


VALUES: dict[Primitive, Remedy] = {
    **{p: SLOPES[p] for p in (log, log2, log10, log1p, div, reciprocal, rsqrt, pow_p, integer_pow_p, xlogy)},
    **{p: SLOPES[p] for p in (arcsin, arccos, arctanh, arccosh, inv_p, solve, slogdet)},
    sqrt: "np.sqrt(np.maximum(x, 0.0)), or " + _INSIDE.format(f="np.sqrt"),
    exp: _SCALE,
    exp2: _SCALE,
    expm1: _SCALE,
    sinh: _SCALE,
    cosh: "np.logaddexp(x, -x) - np.log(2) for its logarithm",
    sub: _difference,
    logsumexp: "all operands are -inf: leave one of them finite",
    softmax: "all operands are -inf: leave one of them finite",
    log_softmax: "all operands are -inf: leave one of them finite",
    cholesky: "the matrix is not positive definite: add eps * np.eye(n)",
}


def _text(table: dict[Primitive, Remedy], site: Site) -> str:
    found = table.get(site.entry.primitive, "")
    return found if isinstance(found, str) else found(site)


def instead_of_cut(site: Site) -> str:
    """What to write in place of an operation that gives no derivative."""
    outer = site.slope_of()
    if outer:
        return f"a smooth function in place of {outer}, whose slope this is: the slope of {outer} is constant in pieces"
    found = _text(CUTS, site)
    if found:
        return found
    kinds = {array(r).dtype.kind for r in site.entry.results}
    if kinds <= {"b"}:
        return _CHOICE
    if kinds <= set("biu"):
        return "integers have no derivative: keep it a float, or weight all candidates (softmax) instead of choosing one"
    return "for its value with the slope of x (straight-through): x + stop_gradient(y - x); or funcad.custom_jvp"


def instead_of_slope(site: Site) -> str:
    """What to write in place of an operation whose derivative is not finite."""
    if site.mask:
        both = "np.where(ok, g(np.where(ok, x, 1.0)), 0.0)"
        return f"the mask at {site.mask} chooses the result only: select the operand as well, {both}"
    return _text(SLOPES, site) or "keep the operand away from this point (np.clip, eps), or write a rule with funcad.custom_jvp"


def instead_of_value(site: Site) -> str:
    """What to write in place of an operation whose result is not finite."""
    return _text(VALUES, site) or "keep the operand away from this point: np.clip, eps, or np.where before the operation"


# -- the doctor's report: records that print as text and, in notebooks, as tables


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
