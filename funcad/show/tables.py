"""Small tables, as text and as HTML for notebooks: what is shown is escaped; styles are inline, since sheets are dropped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["html_table", "text_table"]


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], right: int = 0) -> str:
    """Columns as wide as their cells; the first `right` are numbers."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    lines = []
    for row in (head, *rows):
        cells = [cell.rjust(n) if i < right else cell.ljust(n) for i, (cell, n) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], right: int = 0) -> str:
    """An HTML table of texts; the first `right` columns are numbers."""
    cells = ["".join([f'<th style="text-align:left">{escape(h)}</th>' for h in head])]
    for row in rows:
        cells.append("".join([_cell(text, i < right) for i, text in enumerate(row)]))
    return f'<table style="font-size:12px">{"".join([f"<tr>{c}</tr>" for c in cells])}</table>'


def _cell(text: str, number: bool) -> str:
    align = "right" if number else "left"
    return f'<td style="text-align:{align};vertical-align:top;white-space:pre-wrap">{escape(text)}</td>'
