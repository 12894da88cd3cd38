"""What was traced and compiled in this process, and why: `funcad.debug.compile_log()`.

The newest `MOST` events are kept, of all threads. An event costs a tuple; it is written where a program is made, never where
one runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from funcad.show.tables import html_table, text_table

__all__ = ["CompileEvent", "CompileLog", "compile_log", "log"]

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
    """What was traced and compiled in this process until now, why, and how long it took: the newest thousand events.

    Returns a list of tuples `(what, function, where, seconds, why)`, whose text is a table; it raises nothing. JAX logs these
    events as text (`jax_log_compiles`). What takes more than two seconds says so while it lasts: `funcad.config.progress`.

    >>> import numpy as np, funcad
    >>> f = funcad.jit(lambda x: 2.0 * x)
    >>> y = f(np.ones(3)), f(np.ones(4))
    >>> for event in funcad.debug.compile_log()[-2:]:
    ...     print(event.what, event.function, event.why)
    traced <lambda> first trace: x: f64[3]
    traced <lambda> x: f64[4], before f64[3]
    """
    return CompileLog(log)
