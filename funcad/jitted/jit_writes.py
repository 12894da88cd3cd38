"""Jitted functions that write into their arguments: `jit(f)` means f, so the caller's arrays are written too.

Idea: inside, a written argument names other values; the last of them is an output more, and when the program has succeeded it
is copied into the caller's array (or assigned to the outer trace's). Invariant: an exception leaves the arguments as they were.
Trap: where a written argument shares memory with another argument or a captured array, or cannot be written, the program would
mean something else than f, so f itself runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.api.border import own_memory
from funcad.control.call import call_of
from funcad.errors import TracerArrayConversionError
from funcad.host.real_types import is_a
from funcad.host.where import state
from funcad.ir.aval import aval_of
from funcad.ir.jaxpr import Jaxpr, prune, used_inputs
from funcad.ir.trace import any_tracer
from funcad.ir.tracer import Tracer
from funcad.jitted.jit_cache import Entry
from funcad.writes.boxes import assign, root_of


def may_commit(entry: Entry, leaves: Sequence[Any]) -> bool:
    """Does the program mean what f means for these arguments? A trace around the call writes no array that it found."""
    others = [*leaves, *entry.consts]
    for i in entry.written:
        x = leaves[i]
        if type(x) is Tracer:
            root = root_of(x)
            if any([root_of(y) is root for k, y in enumerate(others) if k != i and type(y) is Tracer]):
                return False
        elif is_a(x, np.ndarray):
            place = None if state.observer is None else state.observer.of(x)
            if place is not None:
                state.observer.refuse(f"{place.label} is written in place")
            if not x.flags.writeable:
                return False
            if any([np.may_share_memory(x, y) for k, y in enumerate(others) if k != i and is_a(y, np.ndarray)]):
                return False
    return True


# `x.shape = s`, of which NumPy 2.5 warns: this line is not the user's
_set_shape = getattr(np.ndarray, "_set_shape", lambda x, shape: setattr(x, "shape", shape))


def commit(
    entry: Entry, leaves: Sequence[Any], inputs: Sequence[Any], outs: Sequence[Any], donated: frozenset[int], name: str
) -> list[Any]:
    """Write the new values into the arguments that were not donated; gives the function's own results."""
    n = len(outs) - len(entry.written)
    orders = () if entry.stores else entry.orders  # beside stores they lie so already
    # before anything is written: a value may be what another argument still holds
    outs = own_memory(list(outs), inputs, orders)
    for i, value in zip(entry.written, outs[n:]):
        x = leaves[i]
        if type(x) is Tracer:
            assign(x, value)
        elif type(value) is Tracer:
            raise TracerArrayConversionError(
                f"jit of {name} writes a traced {aval_of(value)} into a plain NumPy array that it was given, which cannot hold "
                "it.\nRemedy: K = np.array(K) inside the traced function makes a copy that can."
            )
        elif id(x) not in donated:
            if x.shape != np.shape(value):  # x.shape = s was written
                _set_shape(x, np.shape(value))
            x[...] = value
    results = outs[:n]
    for k, i in entry.returned.items():
        results[k] = leaves[i] if id(leaves[i]) not in donated else results[k]
    return results


def outputs_apart(jaxpr: Jaxpr, n: int, inputs: Sequence[Any], name: str) -> list[Any] | None:
    """The outputs from n on, of which none depends on what is being derived or mapped; None if some do."""
    only = prune(jaxpr, [i >= n for i in range(len(jaxpr.outputs))], effects=False)
    used = used_inputs(only)
    given = [x for x, u in zip(inputs, used) if u]
    if any_tracer(given):
        return None
    return call_of(Jaxpr(tuple([v for v, u in zip(only.inputs, used) if u]), only.equations, only.outputs), given, name)
