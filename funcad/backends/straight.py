"""A program as one Python function: straight-line code, a line per equation, nothing looked up while it runs.

Idea: the loop over steps of `Program` costs more than many a NumPy call on small arrays. Written out, a step is one line,
`v7 = c3(v1, v2)`, whose callees and literals are globals of the function. Invariants: the same calls in the same order as the
loop's; a value is dropped after its last use; an error is traced to its equation by the line that raised it. Trap: compiling
text costs some ten microseconds a line, so only programs that run again are written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funcad.host.where import GENERATED

__all__ = ["straight_line", "step_of"]

FIRST_STEP = 4  # the line of the first equation


def straight_line(calls: Sequence[tuple], n_inputs: int, template: Sequence[Any], outputs: Sequence[int]) -> Callable[..., Any]:
    """`run(values) -> outputs`, which empties the list of values; arguments as `Program` holds them."""
    scope: dict[str, Any] = {}
    written = set(range(n_inputs))

    def read(slot: int) -> str:
        if slot in written:
            return f"v{slot}"
        scope[f"k{slot}"] = template[slot]  # a literal
        return f"k{slot}"

    inputs = ", ".join([f"v{i}" for i in range(n_inputs)])
    lines = ["def run(values):", f"    [{inputs}] = values", "    values.clear()"]
    for i, (_, call, ins, out, multiple, dead) in enumerate(calls):
        scope[f"c{i}"] = call
        arguments = ", ".join([read(j) for j in ins])
        slots = out if multiple else (out,)
        written.update(slots)
        targets = ", ".join([f"v{j}" for j in slots])
        line = f"    [{targets}] = c{i}({arguments})" if multiple else f"    {targets} = c{i}({arguments})"
        lines.append(line + "".join([f"; v{j} = None" for j in dead]))
    lines.append(f"    return [{', '.join([read(j) for j in outputs])}]")
    exec(compile("\n".join(lines), GENERATED, "exec"), scope)
    function: Callable[..., Any] = scope["run"]
    return function


def step_of(error: BaseException, function: Any) -> int | None:
    """The index of the equation in which a straight-line function raised."""
    entry = error.__traceback__
    while entry is not None:
        if entry.tb_frame.f_code is function.__code__:
            index = entry.tb_lineno - FIRST_STEP
            return index if index >= 0 else None
        entry = entry.tb_next
    return None
