"""A primitive's call on values, as one row of the tape: its rule is asked when cotangents come.

Idea: the general way of a call (`_TracedCall` of extend.py) is a custom rule, which may be recorded, batched and transposed.
Un-jitted reverse mode of one array after another needs none of that: the function runs, a row keeps the arguments and the
result, safe from the user, and going back calls the rule on them. Whatever else is asked of the row (outer traces, linear
programs, a cotangent that does not fit) goes the general way, in which the function is not called again.

Invariant: what the rule sees, and what it may return, is the same either way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.control.rules import lending, user_code
from funcad.custom.custom_vjp import _following_p
from funcad.host.where import open_traces, state, user_source
from funcad.ir.tracer import Tracer
from funcad.unjitted.kinds import RowCotangents
from funcad.unjitted.linearizing import LinearizingTrace
from funcad.unjitted.outside import Protector

pullbacks = OnDemand("funcad.api.vjp")
_FLOATS = frozenset([np.dtype(np.float64), np.dtype(np.float32)])
_NUMBERS = frozenset([float, np.float64])


def is_plain(x: Any) -> bool:
    """A float, or an array of floats?"""
    return type(x) in _NUMBERS or type(x) is np.ndarray and x.dtype in _FLOATS


def tape_of(values: Sequence[Any]) -> Any:
    """The tape that all these traced values, which stand for floats, are written on; None if a call goes the general way."""
    owner = values[0].owner if type(values[0]) is Tracer else None
    if type(owner) is not LinearizingTrace or owner.tape is None or owner.closed or open_traces or state.checked:
        return None
    for x in values:
        if type(x) is not Tracer or x.owner is not owner or type(x.tangent) is not int or x.box is not None:
            return None
        if not is_plain(x.primal):
            return None
    return None if owner.settle is not None or owner.tape.notes is not None else owner.tape


class DirectRow:
    """The pull of one call. `rule(known)` is the call as a function with a custom rule, whose result may be known."""

    __slots__ = ("what", "rule", "bwd", "n_kept")
    there, sources = (0,), ()
    many = free = stacks = plain = False
    alone = begins = True
    part = None

    def __init__(self, what: str, rule: Callable[[Any], Callable[..., Any]], bwd: Callable[..., Sequence[Any]], n_kept: int):
        self.what, self.rule, self.bwd, self.n_kept = what, rule, bwd, n_kept

    def run(self, cts: RowCotangents, ct: Any, numbers: Sequence[int], kept: Sequence[Any]) -> None:
        ans, *values = kept
        with user_code(state.axis_env), lending(self.what) as lent:
            *given, ans, ct = lent([*values, ans, ct])
            found = self.bwd((ans, given), ct)
        for x, c in zip(values, found):
            fits = type(c) in _NUMBERS and type(x) in _NUMBERS
            if type(c) is type(x) is np.ndarray:
                fits = c.dtype == x.dtype and c.shape == x.shape
            if c is not None and not fits:
                return self.traced(cts, (ct,), numbers, kept)
        for n, c in zip(numbers, found):
            if c is not None:
                cts.add(n, c if type(c) is np.ndarray else np.float64(c))

    def traced(self, cts: RowCotangents, given: Sequence[Any], numbers: Sequence[int], kept: Sequence[Any]) -> None:
        ans, *values = kept
        for n, c in zip(numbers, pullbacks.vjp(self.rule(ans), *values)[1](given[0])):
            cts.add(n, c)

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        ans, *values = kept
        owner = LinearizingTrace(self.what)
        owner.protector, owner.recording = Protector(values), next(t for t in ts if t is not None).owner
        traced = [x if t is None else Tracer(owner, None, x, t) for x, t in zip(values, ts)]
        out = self.rule(ans)(*traced)
        return [out.tangent if type(out) is Tracer and out.owner is owner else None]


def run_directly(tape: Any, row: DirectRow, fun: Callable[..., Any], values: Sequence[Any]) -> tuple[Any, bool]:
    """(the result of a call, whether it is traced now): one that is no float is for the general way."""
    primals = [x.primal for x in values]
    with user_code(state.axis_env), lending(row.what) as lent:
        ans = fun(*lent(primals))
    if not is_plain(ans):
        return ans, False
    kept = []
    for x, given in zip([ans, *primals], [None, *values]):
        kept.append(tape.safe(x, given) if type(x) is np.ndarray else x)
    own = True
    if type(ans) is np.ndarray:
        own = ans.base is None and not any([ans is p for p in primals])
    operation = _following_p, tuple(values), {}, None, None
    numbers = tuple([x.tangent for x in values])
    traced = tape.row(row, numbers, tuple(kept), operation, ans, own, user_source())
    return traced, True
