"""Pictures: SVG text that notebooks show and `save` writes, and the axes of matplotlib where curves are asked for."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

__all__ = ["TimedPart", "Picture", "axes_of", "flame"]

_WIDTH, _ROW, _LEAST = 960.0, 22, 1.5
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
    scale = _WIDTH / whole.amount if whole.amount else 0.0
    depth = _drawn(whole, 0.0, 0, scale, boxes)
    style = "font: 12px system-ui, sans-serif"
    return Picture(
        what,
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH:.0f}" height="{depth * _ROW}" style="{style}">'
        + "".join(boxes)
        + "</svg>",
    )


def _drawn(block: TimedPart, x: float, level: int, scale: float, boxes: list[str]) -> int:
    """Draw a block and its parts; how many rows that takes."""
    width, y = block.amount * scale, level * _ROW
    if width < _LEAST:
        return level
    fits = int(width / 6.5)
    text = block.what if len(block.what) <= fits else block.what[: max(fits - 1, 0)] + "\u2026" if fits > 3 else ""
    colour = _COLOURS[level % len(_COLOURS)]
    boxes.append(
        f'<g><title>{escape(block.title)}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 1}" '
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
