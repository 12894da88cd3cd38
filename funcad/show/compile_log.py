"""What was traced and compiled in this process, and why: `funcad.debug.compile_log()`; and small tables.

The newest `MOST` events are kept, of all threads. An event costs a tuple; it is written where a program is made, never where
one runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from funcad.configuration import escape

# -- small tables, as text and as HTML for notebooks: what is shown is escaped; styles are inline, since sheets are dropped


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


# -- what was traced and compiled in this process, and why: `funcad.debug.compile_log()`


MOST = 1000


class CompileEvent(NamedTuple):
    """One thing that was traced or compiled: `seconds` is how long that took, `why` says what was new."""

    what: str  # "traced", "compiled"
    function: str
    where: str
    seconds: float
    why: str


log: deque[CompileEvent] = deque(maxlen=MOST)


class CompileLog(list[CompileEvent]):
    """Events, the oldest first. Text for a reader; notebooks show a table."""

    _head = ("seconds", "", "function", "where", "why")

    def _rows(self) -> Sequence[Sequence[str]]:
        return [(f"{e.seconds:.3f}", e.what, e.function, e.where, e.why.replace("\n", "; ")) for e in self]

    def __repr__(self) -> str:
        return text_table(self._head, self._rows(), right=1) if self else "nothing was traced or compiled"

    def _repr_html_(self) -> str:
        return html_table(self._head, self._rows(), right=1) if self else repr(self)


def compile_log() -> CompileLog:
    """What was traced and compiled in this process until now, why, and how long it took.

    Returns
    -------
    list of tuples
        The newest thousand events `(what, function, where, seconds, why)`. The text of the list is a table.

    Notes
    -----
    JAX logs these events as text (`jax_log_compiles`). What takes more than two seconds says so while it lasts:
    `funcad.config.progress`. It raises nothing.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> f = funcad.jit(lambda x: 2.0 * x)
    >>> y = [f(x) for x in (np.ones(3), np.ones(3), np.ones(4), np.ones(4))]  # the first call of a shape is not traced
    >>> for event in funcad.debug.compile_log()[-2:]:
    ...     print(event.what, event.function, event.why)
    traced <lambda> first trace: x: f64[3]
    traced <lambda> x: f64[4], before f64[3]

    See also
    --------
    caches, funcad.explain_cache_misses
    """
    return CompileLog(log)
