"""What a function of NumPy's wrote on a tape for operands of some kinds is written again, without asking the function.

Idea: most of what an un-jitted operation costs is the question what it amounts to: promotion, axes, shapes, which primitive
with which parameters. For a function declared `by_kind` the answer depends on types, shapes, strides, dtypes, options. So a
call that came some times is watched: the rows that it wrote, and which operand of the call, earlier row or constant each of
their operands was. Later calls with operands of the same kinds run the primitives and write the rows.

Invariants: rows are the ones that the function would write, each primitive runs once, at the user's line, with NumPy's
warnings. A call is remembered only if every array and every number that is known by its type went into a row as it is, so
that nothing was made of it that a later call would miss, and if nobody looked at how an operand was made or how it lies in
memory. Trap: a function that chooses by the value of a float, as `np.power` does, may not take it for an operand (`numbers`);
all other options are known by their values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.configuration import OnDemand, named_as
from funcad.host.where import open_traces, state
from funcad.ir.jaxpr import params_key
from funcad.ir.tracer import Tracer
from funcad.memo import alike, table

written_again = OnDemand("funcad.unjitted.written_again")
_MOST = 4096  # calls that are remembered
_MOST_OPERANDS = 64
_STATIC = frozenset([int, str, bool, type(None), type])
FLOATS = frozenset([float, np.float64, np.float32, np.bool_])
_SIGHTS = 16  # of a call that is not watched yet: to watch it costs what 10 to 18 calls save
_memo = table(
    "unjitted.remembered",
    "kinds of operands: a _Call, False where it cannot be written again, or a list: how often it came",
    _MOST,
    # by chance a constant is equal to an operand
    lambda held, new: type(held) is not type(new) or type(held) in (bool, list) or alike(held, new),
)


def remembered(function: Callable[..., Any], numbers: bool = False) -> Callable[..., Any]:
    """The function, whose calls on values of a tape are remembered by the kinds of their operands.

    `numbers`: a float that is not traced is an operand too, known by its type. Otherwise it is an option, known by its value.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        key: list[Any] = [function]
        operands: list[Any] = []
        trace: Any = None
        items: Any = args
        if args:
            head = args[0]
            kind = type(head)
            if len(args) == 1 and (kind is list or kind is tuple):
                if len(head) > _MOST_OPERANDS:
                    return function(*args, **kwargs)
                key += kind, len(head)
                items = head
            elif kind is list or kind is tuple or type(args[-1]) is tuple:
                items = flat(args)
        for a in items:
            kind = type(a)
            if kind is Tracer:
                if a.owner is not trace:
                    if trace is not None or a.owner.tape is None or open_traces:
                        return function(*args, **kwargs)
                    trace = a.owner
                p = a.primal
                kind = type(p)
                if kind is np.ndarray:
                    key += p.shape, p.strides, p.dtype
                elif kind in FLOATS:
                    key += "traced", kind
                else:
                    return function(*args, **kwargs)
                operands.append(a)
            elif kind is np.ndarray:
                key += "array", a.shape, a.strides, a.dtype
                operands.append(a)
            elif kind in FLOATS:
                key.append(kind)
                if numbers:
                    operands.append(a)
                else:
                    key.append(repr(a))  # which tells 0.0 and -0.0 apart
            elif kind in _STATIC:
                key += kind, a
            else:
                return function(*args, **kwargs)
        if trace is None or state.checked:
            return function(*args, **kwargs)
        if kwargs:
            bits = params_key(kwargs)
            if bits is None:
                return function(*args, **kwargs)
            key.append(bits)
        n = len(operands)
        if n > 1:  # rules and functions look whether two operands are one
            if n > _MOST_OPERANDS:
                return function(*args, **kwargs)
            first: dict[int, int] = {}
            rows: dict[Any, int] = {}
            for i, a in enumerate(operands):
                key.append(first.setdefault(id(a), i))
                if type(a) is Tracer:  # or two handles of one value
                    key += rows.setdefault(a.tangent, i), first.setdefault(id(a.primal), i)
        key.append(trace.turned)  # while it is, squares may be known
        known = tuple(key)
        found = _memo.get(known)
        if found is False:
            return function(*args, **kwargs)
        if type(found) is list:  # how often it came
            found[0] += 1
            if found[0] < _SIGHTS:
                return function(*args, **kwargs)
            return written_again.watch(known, trace, operands, function, args, kwargs)
        if found is None:
            _memo.put(known, [0])
            return function(*args, **kwargs)
        return found.again(trace.tape, operands)

    return named_as(call, function)


def flat(args: Sequence[Any]) -> list[Any]:
    """The arguments, and those in lists and tuples among them, each list announced by its type and length."""
    found: list[Any] = []
    for a in args:
        if type(a) is list or type(a) is tuple:
            found += (type(a), len(a), *a)
        else:
            found.append(a)
    return found


def remember(key: tuple, what: Any) -> None:
    _memo.pop(key, None)
    _memo.put(key, what)


