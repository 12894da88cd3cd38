"""Windows of an array that a turn of a loop writes and reads again: what was written is read from where it came.

Idea: `A[:, k] = v`, `A[:, k] *= w` and `... A[:, k] ...` are windows of one array, written and read several times in a turn;
backwards each is set to zero and added to. Where a window was written in the same turn, its value is what was written there and
what was added to it since; windows that do not meet are passed by. A window that is written over before anybody reads it need
not be written. So each window is read once, and written once.

Invariants: not a bit changes; an older array is never read, which would have to be kept. Trap: windows stand apart if their
starts differ by a number that is large enough, which holds only where starts are never clamped: of a user's own slices with
computed starts nothing is said, only of those that stand for known indices.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, prune
from funcad.passes.rewrite import Work, rewrite
from funcad.primitives.arithmetic import add, mul, sub
from funcad.primitives.basic_indexing import basic_add_p, basic_index_p, basic_update_p
from funcad.primitives.computed_slices import dynamic_add_p, dynamic_slice_p, dynamic_update_slice_p
from funcad.primitives.shape import reshape

NEAR = 8  # writes of an array that are looked at
_LINEAR = frozenset([add, sub, mul])
_READS = frozenset([basic_index_p, dynamic_slice_p])
_ADDS = frozenset([basic_add_p, dynamic_add_p])
_UPDATES = frozenset([basic_update_p, dynamic_update_slice_p])
_WRITES = _ADDS | _UPDATES
_STATIC = frozenset([basic_index_p, basic_add_p, basic_update_p])
_COMPUTED = frozenset([dynamic_slice_p, dynamic_add_p, dynamic_update_slice_p])
Start = tuple[Any, int, int]  # a variable or None, its factor, and what is added
Window = tuple[tuple[Start, int, int], ...]  # of each axis: start, count, step


def settled(body: Jaxpr, within: Container[Var]) -> Jaxpr:
    """The body of a loop with each window read from what was written into it.

    `within`: the results of those slices with computed starts that lie within their arrays.
    """
    if not any([e.primitive in _WRITES for e in body.equations]):
        return body
    windows: dict[Var, Window | None] = {}  # of what reads or writes

    def forwarded(work: Work, equation: Equation) -> list[Any] | None:
        primitive = equation.primitive
        if primitive in _STATIC or primitive in _COMPUTED and equation.outputs[0] in within:
            windows[equation.outputs[0]] = _window(work, equation)
        found = _written(work, equation, windows) if primitive in _READS and equation.outputs[0] in windows else None
        return None if found is None else [found]

    body = prune(rewrite(body, forwarded))
    unseen = _unseen(body, windows)
    return rewrite(body, lambda work, e: [e.inputs[0]] if e.outputs and e.outputs[0] in unseen else None) if unseen else body


def _window(work: Work, equation: Equation) -> Window | None:
    """What a reading or a writing equation selects of its first operand."""
    primitive, params = equation.primitive, equation.params
    if primitive in _STATIC:
        entries = [(e, 1, 1) if type(e) is int else e for e in params["index"]]
        return None if None in entries else tuple([((None, 0, start), count, step) for start, count, step in entries])
    reads = primitive is dynamic_slice_p
    sizes = params["sizes"] if reads else equation.inputs[1].aval.shape
    starts = [_start(work, a) for a in equation.inputs[1 if reads else 2 :]]
    return tuple([(start, n, 1) for start, n in zip(starts, sizes)])


def _start(work: Work, atom: Any) -> Start:
    """A start as a variable times a number, plus a number."""
    if type(atom) is Literal:
        return None, 0, int(atom.value)
    made = work.definitions.get(atom)
    if made is not None and made.primitive in _LINEAR:
        (x, a, b), (y, c, d) = [_start(work, operand) for operand in made.inputs]
        if made.primitive is mul:
            x, a, b, y, c, d = (x, a, b, y, c, d) if y is None else (y, c, d, x, a, b)
            if y is None:
                return x, a * d, b * d
        elif x is None or y is None:
            sign = 1 if made.primitive is add else -1
            return (x or y), a + sign * c, b + sign * d
    return atom, 1, 0


def _apart(one: Window, other: Window) -> bool:
    """Have they no element in common?"""
    for (a, n, step), (b, m, other_step) in zip(one, other):
        if a[:2] == b[:2]:
            first = sorted((a[2], a[2] + (n - 1) * step))
            second = sorted((b[2], b[2] + (m - 1) * other_step))
            if n and m and (first[1] < second[0] or second[1] < first[0]):
                return True
    return False


def _written(work: Work, read: Equation, windows: dict[Var, Window | None]) -> Any:
    """The value that a window was set to, and what was added to it; None if it was not set here."""
    window, aval = windows[read.outputs[0]], read.outputs[0].aval
    x, terms = read.inputs[0], list[Any]()
    for _ in range(NEAR):
        made, own = work.definitions.get(x), windows.get(x)
        if made is None or own is None or window is None or own != window and not _apart(own, window):
            return None
        x = made.inputs[0]
        if own == window:
            value = made.inputs[1]
            if type(value) is Literal or value.aval.dtype != aval.dtype or value.aval.weak != aval.weak:
                return None
            terms.append(value)
            if made.primitive in _UPDATES:
                break
    else:
        return None
    in_shape = lambda a: a if a.aval.shape == aval.shape else work.add(reshape, [a], {"shape": aval.shape}, read.source)
    found, *terms = [in_shape(a) for a in reversed(terms)]
    for term in terms:
        found = work.add(add, [found, term], {}, read.source)
    return found


def _unseen(body: Jaxpr, windows: dict[Var, Window | None]) -> set[Var]:
    """The results of writes into windows that are written over before anybody reads them."""
    readers: dict[Any, list[Equation]] = {}
    for equation in body.equations:
        for a in equation.inputs:
            readers.setdefault(a, []).append(equation)
    results = set(body.outputs)
    found: set[Var] = set()

    def over(v: Var, window: Window, added: list[Var], steps: int) -> bool:
        """Does nobody see that window of v?"""
        if v in results or not steps:
            return False
        for reader in readers.get(v, ()):
            own = windows.get(reader.outputs[0]) if len(reader.outputs) == 1 else None
            if own is None or reader.inputs[0] is not v or reader.inputs.count(v) > 1:
                return False
            same = own == window
            if not same and not _apart(own, window) or same and reader.primitive in _READS:
                return False
            if reader.primitive in _READS or same and reader.primitive in _UPDATES:
                continue
            added += [reader.outputs[0]] * same
            if not over(reader.outputs[0], window, added, steps - 1):
                return False
        return True

    for equation in body.equations:
        if equation.primitive in _UPDATES:
            (v,), added = equation.outputs, list[Var]()
            window = windows.get(v)
            if window is not None and v not in found and over(v, window, added, NEAR):
                found |= {v, *added}
    return found
