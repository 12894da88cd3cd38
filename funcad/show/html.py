"""Programs as HTML, for notebooks: variables and equations tell shape and source line when pointed at, sub-programs fold.

One rule for everything that is shown: it is escaped. Styles are inline, since notebooks drop style sheets of outputs.
"""

from __future__ import annotations

import linecache
from html import escape
from typing import Any

from funcad.show.pretty import Names, described

__all__ = ["jaxpr_html"]

_BLOCK = "font-family:monospace;font-size:12px;line-height:1.45;white-space:pre;overflow-x:auto"
_PRIMITIVE = "color:#1f4e8c;font-weight:bold"
_QUIET = "color:#888"


class _Page(Names):
    """Names of one program's variables."""

    def __call__(self, atom: Any) -> str:
        title = str(atom.aval) if hasattr(atom, "value") else describe(atom.aval)
        return f'<span title="{escape(title)}">{escape(super().__call__(atom))}</span>'

    def typed(self, atom: Any) -> str:
        return f'{self(atom)}<span style="{_QUIET}">:{escape(str(atom.aval))}</span>'


def describe(aval: Any) -> str:
    """An aval in words: f64[3,4] is also so many elements and bytes."""
    size = getattr(aval, "size", None)
    if size is None or not hasattr(aval, "dtype") or not aval.shape:
        return str(aval)
    return f"{aval}: {size:,} elements, {size * aval.dtype.itemsize:,} bytes"


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
    name = f'<span style="{_PRIMITIVE}">{escape(equation.primitive.name)}</span>'
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
