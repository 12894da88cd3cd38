"""A program as a picture: equations are boxes, values are lines, from top to bottom.

Idea: an equation's row is one below the lowest of what it reads, so all lines go down; within a row, boxes are put near the
mean place of what they read. The picture is SVG text, made without any other program. Trap: beyond `MOST` boxes nobody sees
anything, so longer programs are refused, with the advice to take a part.
"""

from __future__ import annotations

from html import escape
from typing import Any

from funcad.show.html import describe, source_text
from funcad.show.pictures import Picture

__all__ = ["Graph"]

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
        avals = " ".join([str(v.aval) for v in equation.outputs])
        title = f"{equation.primitive.name} -> {avals}\n{source_text(equation.source)}"
        box = _Box(equation.primitive.name, avals, title, "#e6ecf7", reads)
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
