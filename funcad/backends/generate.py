"""The NumPy engine: a program as one Python function over NumPy, or over CuPy, a readable line per equation.

Idea: `generate` writes an optimised program as text and runs `exec` once; a call then does nothing but NumPy's own work. Lines
come from text_rules.py, memory is planned in memory.py and emission.py, loops are in loops.py, groups of fused equations run
tile by tile (tiles.py), programs of Python and float64 scalars run through `math` (scalars.py). Invariants: results agree with
the reference backend (bit for bit where DESIGN asks for it); user arrays are never written, except those named in `donated`;
an error is traced to its equation by the line that raised it. The function does not silence NumPy's warnings: whoever calls it
does (host/user_warnings.py), unless `Generated.quiet`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from funcad.backends.emission import Emission
from funcad.backends.memory import Storage
from funcad.backends.scalars import write_scalars
from funcad.backends.text import Writer, compile_text, dtype_text
from funcad.host.user_warnings import restore_warnings, suppress_warnings
from funcad.host.where import note_source
from funcad.ir.jaxpr import Equation, Jaxpr, Literal

__all__ = ["generate", "Generated"]


class Generated:
    """A program as Python: `function(values) -> outputs` empties the list of values; `text` is what runs.

    `callees`: what was made ready for the shapes of an equation, by name.
    `quiet`: the function gives no floating-point warnings of its own accord. `note(error)` names the user's line in an error
    that the function raised.
    """

    __slots__ = ("function", "text", "owners", "scope", "quiet", "callees")

    def __init__(
        self, function: Callable[[list], list], text: str, owners: dict[int, Equation], scope: dict, quiet: bool = False
    ):
        self.callees: dict[str, Any] = {}
        self.function = function
        self.text = text
        self.owners = owners
        self.scope = scope
        self.quiet = quiet

    def step_of(self, error: BaseException) -> Equation | None:
        """The equation in which the function raised."""
        entry, found = error.__traceback__, None
        while entry is not None:
            if entry.tb_frame.f_globals is self.scope:
                found = self.owners.get(entry.tb_lineno, found)
            entry = entry.tb_next
        return found

    def note(self, error: BaseException) -> None:
        equation = self.step_of(error)
        if equation is not None:
            note_source(error, equation.source)


def generate(
    jaxpr: Jaxpr,
    kernels: Callable[[Equation], Any] | None = None,
    donated: Collection[int] = frozenset(),
    library: Any = np,
) -> Generated:
    """The program as a Python function.

    `kernels(equation)` may give a callable for a `fused` equation, which then takes the arrays and returns the list of results.
    `donated`: positions of inputs that may be overwritten; every call must pass writeable C-contiguous arrays there that own
    their memory and share it with no other input.
    `library`: whose arrays the program takes, NumPy's or CuPy's.

    >>> import numpy as np, funcad
    >>> from funcad.backends.generate import generate
    >>> program = generate(funcad.jit(lambda x, y: np.exp(-x) * y).lower(np.ones(3), np.ones(3)).jaxpr)
    >>> print(program.text)
    def run(values):
        [v0, v1] = values
        values.clear()
        v2 = -v0
        v3 = np.exp(v2, v2)
        v4 = np.multiply(v3, v1, v3)
        return [v4]
    >>> program.function([np.zeros(2), np.ones(2)])
    [array([1., 1.])]
    """
    if library is not np:
        w = Writer("cp", device=True, library=library)
        w.helper("cp", library)
        return _written(w, jaxpr, None, donated)
    w = Writer()
    w.helper("np", np)
    if not write_scalars(w, jaxpr, _by_numpy(jaxpr)):
        return _written(_of_arrays(), jaxpr, kernels, donated)
    function, text, owners = compile_text(w, ["def run(values):"], "run")
    return Generated(function, text, owners, w.scope, quiet=True)


def _by_numpy(jaxpr: Jaxpr) -> Callable[[list], list]:
    """The program on NumPy scalars, written at the first call."""
    written: list[Any] = []

    def run(values: list) -> list:
        if not written:
            written.append(_written(_of_arrays(), jaxpr, None, frozenset()).function)
        token = suppress_warnings()
        try:
            return written[0](values)
        finally:
            restore_warnings(token)

    return run


def _of_arrays() -> Writer:
    w = Writer()
    w.helper("np", np)
    return w


def _written(w: Writer, jaxpr: Jaxpr, kernels: Callable[[Equation], Any] | None, donated: Collection[int]) -> Generated:
    e = Emission(w, kernels, overwrites=bool(donated))
    inputs = []
    for i, v in enumerate(jaxpr.inputs):
        inputs.append(e.value(w.name(), v.aval, [Storage(i in donated)], whole=i in donated))
    if inputs:
        w.line(f"[{', '.join([v.text for v in inputs])}] = values")
    w.line("values.clear()")
    texts = [v.text for v in e.program(jaxpr, inputs)]
    if w.device:  # a number that the program knows goes with a call that fills
        dtypes = [dtype_text(w, o.aval.dtype) if type(o) is Literal and not o.aval.weak else None for o in jaxpr.outputs]
        texts = [text if dtype is None else f"{w.np}.full((), {text}, {dtype})" for text, dtype in zip(texts, dtypes)]
    w.line(f"return [{', '.join(texts)}]")
    function, text, owners = compile_text(w, ["def run(values):"], "run")
    generated = Generated(function, text, owners, w.scope)
    generated.callees = w.callees
    return generated
