"""Programs as pictures and as HTML.

Idea: an equation's row is one below the lowest of what it reads, so all lines go down; within a row, boxes are put near the
mean place of what they read. The picture is SVG text, made without any other program. Trap: beyond `MOST` boxes nobody sees
anything, so longer programs are refused, with the advice to take a part.
"""

from __future__ import annotations

import importlib
import linecache
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

from funcad.show.pretty import Names, described, shown_as

# -- pictures: SVG text that notebooks show and `save` writes, and the axes of matplotlib where curves are asked for


_PICTURE_WIDTH, _PICTURE_ROW, _LEAST = 960.0, 22, 1.5
_COLOURS = ("#dbe7f5", "#f6e3d3", "#e3efdc", "#efe0ee")


class Picture:
    """An SVG picture; a notebook shows it, `svg` is its text and `save(path)` writes it."""

    def __init__(self, what: str, svg: str):
        self.what = what
        self.svg = svg

    def __repr__(self) -> str:
        return f"<{self.what}: a notebook shows it, save(path) writes it>"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: Any) -> None:
        """Write the picture as an SVG file."""
        with open(path, "w", encoding="utf8") as file:
            file.write(self.svg)


class TimedPart(NamedTuple):
    """A part of something that takes time, and what it is made of."""

    what: str
    amount: float
    title: str  # what is said of it when it is pointed at
    parts: Sequence[TimedPart] = ()


def flame(what: str, whole: TimedPart) -> Picture:
    """Blocks as wide as their amounts, what they are made of below them."""
    boxes: list[str] = []
    scale = _PICTURE_WIDTH / whole.amount if whole.amount else 0.0
    depth = _drawn(whole, 0.0, 0, scale, boxes)
    style = "font: 12px system-ui, sans-serif"
    return Picture(
        what,
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_PICTURE_WIDTH:.0f}" height="{depth * _PICTURE_ROW}" style="{style}">'
        + "".join(boxes)
        + "</svg>",
    )


def _drawn(block: TimedPart, x: float, level: int, scale: float, boxes: list[str]) -> int:
    """Draw a block and its parts; how many rows that takes."""
    width, y = block.amount * scale, level * _PICTURE_ROW
    if width < _LEAST:
        return level
    fits = int(width / 6.5)
    text = block.what if len(block.what) <= fits else block.what[: max(fits - 1, 0)] + "\u2026" if fits > 3 else ""
    colour = _COLOURS[level % len(_COLOURS)]
    boxes.append(
        f'<g><title>{escape(block.title)}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_PICTURE_ROW - 1}" '
        f'fill="{colour}" stroke="#fff"/><text x="{x + 4:.1f}" y="{y + 15}" fill="#222">{escape(text)}</text></g>'
    )
    deepest = level + 1
    for part in block.parts:
        deepest = max(deepest, _drawn(part, x, level + 1, scale, boxes))
        x += part.amount * scale
    return deepest


def axes_of(given: Any, what: str) -> Any:
    """matplotlib's axes: those given, or those of a new figure."""
    if given is not None:
        return given
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise ImportError(f"{what} draws with matplotlib, which is not installed.\nRemedy: pip install matplotlib.") from None
    return pyplot.subplots()[1]


# -- programs as HTML, for notebooks: variables and equations tell shape and source line when pointed at, sub-programs fold
#
# One rule for everything that is shown: it is escaped. Styles are inline, since notebooks drop style sheets of outputs.


_BLOCK = "font-family:monospace;font-size:12px;line-height:1.45;white-space:pre;overflow-x:auto"
_PRIMITIVE = "color:#1f4e8c;font-weight:bold"
_QUIET = "color:#888"


class _Page(Names):
    """Names of one program's variables."""

    def __call__(self, atom: Any) -> str:
        title = str(atom.aval) if hasattr(atom, "value") else describe(atom.aval)
        return f'<span title="{escape(title)}">{escape(super().__call__(atom))}</span>'

    def typed(self, atom: Any) -> str:
        return f'{self(atom)}<span style="{_QUIET}">:{escape(atom.aval.short)}</span>'


def describe(aval: Any) -> str:
    """An aval in words: f64[3,4] is also so many elements and bytes."""
    size = getattr(aval, "size", None)
    if size is None or not hasattr(aval, "dtype") or not aval.shape:
        return aval.short
    return f"{aval.short}: {size:,} elements, {size * aval.dtype.itemsize:,} bytes"


def source_text(source: Any) -> str:
    """The user's line: where it is and what it says."""
    if source is None:
        return "no source line"
    text = linecache.getline(source.code.co_filename, source.line).strip()
    return f"{source}\n{text}" if text else str(source)


def _equation(equation: Any, page: _Page, depth: int) -> str:
    plain, programs = described(equation.params)
    outputs = " ".join(map(page.typed, equation.outputs)) or "_"
    params = f'<span style="{_QUIET}">[{escape(" ".join(plain))}]</span>' if plain else ""
    name = f'<span style="{_PRIMITIVE}">{escape(shown_as(equation))}</span>'
    inputs = " ".join(map(page, equation.inputs))
    line = f'<span title="{escape(source_text(equation.source))}">{outputs} = {name}{params} {inputs}</span>'
    if not programs:
        return f"<div>{line}</div>"
    inside = "".join([f"<div>{escape(key)}:</div>{_program(jaxpr, depth + 1)}" for key, jaxpr in programs])
    opened = " open" if depth == 0 else ""
    return f'<details{opened}><summary>{line}</summary><div style="margin-left:2em">{inside}</div></details>'


def _program(jaxpr: Any, depth: int) -> str:
    page = _Page()
    inputs = " ".join(map(page.typed, jaxpr.inputs))
    equations = "".join([_equation(e, page, depth) for e in jaxpr.equations])
    outputs = ", ".join(map(page, jaxpr.outputs))
    return (
        f'<div style="border-left:2px solid #ccd;padding-left:0.6em">'
        f'<div>lambda {inputs}</div><div style="margin-left:1em">{equations}</div><div>in ({outputs})</div></div>'
    )


def jaxpr_html(jaxpr: Any) -> str:
    """The program as a block of HTML."""
    count = len(jaxpr.equations)
    heading = f'<span style="{_QUIET}">{count} equations; point at a name for its shape, at a line for its source</span>'
    return f'<div style="{_BLOCK}">{heading}\n{_program(jaxpr, 0)}</div>'


# -- A program as a picture: equations are boxes, values are lines, from top to bottom


MOST = 400
_WIDTH, _HEIGHT, _GAP, _ROW = 118, 30, 14, 58


class _Box:
    """One equation, input or output."""

    __slots__ = ("label", "detail", "title", "colour", "reads", "row", "place")

    def __init__(self, label: str, detail: str, title: str, colour: str, reads: list[Any]):
        self.label = label
        self.detail = detail
        self.title = title
        self.colour = colour
        self.reads = reads
        self.row = 1 + max([b.row for b in reads], default=-1)
        self.place = 0.0


class Graph(Picture):
    """The picture of a program; a notebook shows it, `svg` is its text and `save(path)` writes it.

    >>> import numpy as np, funcad
    >>> graph = funcad.make_jaxpr(lambda x: np.sin(x) * x)(1.0).graph()
    >>> graph.svg.startswith("<svg"), graph.svg.count("<rect")
    (True, 4)
    """

    def __init__(self, jaxpr: Any):
        if len(jaxpr.equations) + len(jaxpr.inputs) > MOST:
            raise ValueError(
                f"graph: {len(jaxpr.equations)} equations are too many for a picture (at most {MOST} with the inputs).\n"
                "Remedy: draw a part of the program, a layer or a step, or read print(jaxpr)."
            )
        super().__init__("graph of a program", _draw(_rows(_boxes(jaxpr))))


def _boxes(jaxpr: Any) -> list[_Box]:
    makers: dict[Any, _Box] = {}
    boxes = []
    for i, v in enumerate(jaxpr.inputs):
        makers[v] = _Box(f"input {i}", str(v.aval), describe(v.aval), "#e8f0e4", [])
        boxes.append(makers[v])
    for equation in jaxpr.equations:
        reads = list({id(b): b for a in equation.inputs if (b := makers.get(a)) is not None}.values())
        avals = " ".join([v.aval.short for v in equation.outputs])
        title = f"{shown_as(equation)} -> {avals}\n{source_text(equation.source)}"
        box = _Box(shown_as(equation), avals, title, "#e6ecf7", reads)
        boxes.append(box)
        makers.update(dict.fromkeys(equation.outputs, box))
    for i, o in enumerate(jaxpr.outputs):
        maker = makers.get(o)
        boxes.append(_Box(f"output {i}", str(o.aval), describe(o.aval), "#f7ece6", [] if maker is None else [maker]))
    return boxes


def _rows(boxes: list[_Box]) -> list[list[_Box]]:
    """The boxes by row, each row ordered by where its boxes read from."""
    rows: list[list[_Box]] = [[] for _ in range(1 + max([b.row for b in boxes], default=-1))]
    for box in boxes:
        rows[box.row].append(box)
    widest = max([len(row) for row in rows], default=1)
    for row in rows:
        row.sort(key=lambda b: sum([r.place for r in b.reads]) / len(b.reads) if b.reads else b.place)
        for i, box in enumerate(row):
            box.place = (i + 0.5) * widest / len(row)
    return rows


def _short(text: str, width: int = 17) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _draw(rows: list[list[_Box]]) -> str:
    widest = max([len(row) for row in rows], default=1)
    width, height = widest * (_WIDTH + _GAP) + _GAP, max(len(rows), 1) * _ROW + _GAP
    lines, shapes = [], []
    for row in rows:
        for box in row:
            x, y = box.place * (_WIDTH + _GAP) + _GAP / 2, box.row * _ROW + _GAP
            for maker in box.reads:
                x0, y0 = maker.place * (_WIDTH + _GAP) + _GAP / 2, maker.row * _ROW + _GAP + _HEIGHT
                middle = (y0 + y) / 2
                path = f"M{x0:.0f},{y0} C{x0:.0f},{middle:.0f} {x:.0f},{middle:.0f} {x:.0f},{y}"
                lines.append(f'<path d="{path}" fill="none" stroke="#9aa4b2"/>')
            shapes.append(
                f'<g><title>{escape(box.title)}</title><rect x="{x - _WIDTH / 2:.0f}" y="{y}" width="{_WIDTH}" '
                f'height="{_HEIGHT}" rx="4" fill="{box.colour}" stroke="#8894a8"/>'
                f'<text x="{x:.0f}" y="{y + 12}" text-anchor="middle">{escape(_short(box.label))}</text>'
                f'<text x="{x:.0f}" y="{y + 24}" text-anchor="middle" fill="#667">{escape(_short(box.detail))}</text></g>'
            )
    style = 'font-family="sans-serif" font-size="10"'
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(lines)}{"".join(shapes)}</svg>'
