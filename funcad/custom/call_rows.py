"""A call of a function with a reverse rule, on values, as one row of the tape: its rule is asked when cotangents come.

Idea: the general way of such a call leaves a linear equation, which may be recorded, batched and transposed (custom_linear.py).
Un-jitted reverse mode of one array after another needs none of that: the function runs, a row keeps what its rule needs, safe
from the user, and going back calls the rule on that. Whatever else is asked of the row (outer traces, linear programs, a
cotangent that does not fit) goes the general way, in which the function is not called again.

Invariant: what the rule sees, and what it may return, is the same either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from funcad.host.where import open_traces, state
from funcad.ir.tracer import Tracer, concrete_value
from funcad.transforms.partial import TangentTrace
from funcad.unjitted.kinds import RowCotangents
from funcad.unjitted.linearizing import LinearizingTrace
from funcad.unjitted.outside import Protector

_FLOATS = frozenset([np.dtype(np.float64), np.dtype(np.float32)])
NUMBERS = frozenset([float, np.float64])


def is_plain(x: Any) -> bool:
    """A float, or an array of floats?"""
    return type(x) in NUMBERS or type(x) is np.ndarray and x.dtype in _FLOATS


def tape_of(values: Sequence[Any]) -> Any:
    """The tape that these values are written on, floats all of them, traced or not; None if a call goes the general way."""
    owner: Any = None
    for x in values:
        if type(x) is Tracer:
            if owner is None:
                owner = x.owner
            if x.owner is not owner or type(x.tangent) is not int or x.box is not None or not is_plain(x.primal):
                return None
        elif not is_plain(x):
            return None
    if type(owner) is not LinearizingTrace or owner.tape is None or owner.closed or open_traces or state.checked:
        return None
    return None if owner.settle is not None or owner.tape.notes is not None else owner.tape


class CallRow:
    """The pull of one call.

    `pull(*kept, ct)` gives the cotangents of its operands, None for zeros, of which those at `places` are traced;
    `push(kept, tangents)` the tangent of its result, by the general way.
    """

    __slots__ = ("pull", "push", "places", "n_kept")
    there, sources = (0,), ()
    many = free = stacks = plain = False
    alone = begins = True
    part = direct = None

    def __init__(
        self,
        pull: Callable[..., Sequence[Any]],
        push: Callable[..., Any],
        places: Sequence[int],
    ):
        self.pull, self.push, self.places = pull, push, places
        self.n_kept = 0  # known when it is written

    def run(self, cts: RowCotangents, ct: Any, numbers: Sequence[int], kept: Sequence[Any]) -> None:
        found = self.pull(*kept, ct)
        for n, i in zip(numbers, self.places):
            if found[i] is not None:
                cts.add(n, found[i])

    def traced(
        self,
        cts: RowCotangents,
        given: Sequence[Any],
        numbers: Sequence[int],
        kept: Sequence[Any],
    ) -> None:
        self.run(cts, given[0], numbers, kept)

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        return [self.push(kept, ts)]


def write_row(
    tape: Any,
    pull: CallRow,
    operation: tuple,
    ans: Any,
    values: Sequence[Any],
    kept: Sequence[tuple],
) -> Tracer:
    """The traced result of a call of these values. `kept`: what the row keeps, and the traced value, if it is that of one."""
    pull.n_kept = len(kept)
    safe = tuple([tape.safe(x, given) if type(x) is np.ndarray else x for x, given in kept])
    numbers = tuple([x.tangent for x in values if type(x) is Tracer])
    if type(ans) is np.ndarray:
        tape.add_users(ans)  # who made it, and may write it at the next call
    return tape.row(pull, numbers, safe, operation, ans, False)  # type: ignore[no-any-return]


# -- what rules have made, which their authors may write


def _protected(tangents: Sequence[Any]) -> Any:
    """The trace of these tangents, if it protects what it keeps."""
    for t in tangents:
        if type(t) is Tracer and type(t.owner) is TangentTrace and isinstance(t.owner.protect, Protector):
            return t.owner
    return None


def also_users(tangents: Sequence[Any], values: Sequence[Any]) -> None:
    """Within a rule on these tangents: the user may write into the values too, which came from the user's code, not from ours.

    What a derivative keeps of them is protected as its operands are.
    """
    trace = _protected(tangents)
    for x in values if trace is not None else ():
        if type(x) is np.ndarray:
            trace.protect.add_users(x)


@contextmanager
def all_users(tangents: Sequence[Any]) -> Iterator[None]:
    """So is every array that is kept while the user's own code computes with these tangents."""
    trace = _protected(tangents)
    if trace is None:
        yield
        return
    protector = trace.protect

    def protect(x: Any) -> Any:
        array = concrete_value(x)
        if type(array) is np.ndarray:
            protector.add_users(array)
        return protector(x)

    trace.protect = protect
    try:
        yield
    finally:
        trace.protect = protector
