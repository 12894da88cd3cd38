"""How many bytes a group moves: what each of its accesses reads, and what it writes. The one place that says so.

An access is an input as equations read it; one that is read element by element and broadcast, too, is two. An array that is
broadcast is read once, since it stays in the caches. Trap: strided elements move whole sectors of memory, which is not counted.
"""

from __future__ import annotations

from typing import Any

from funcad.ir.jaxpr import Jaxpr, Var

__all__ = ["bytes_moved"]


def bytes_moved(jaxpr: Jaxpr) -> int:
    """Bytes read and written by one run of a group.

    >>> import numpy as np, funcad
    >>> bytes_moved(funcad.jit(lambda x, row: np.exp(x) * row).lower(np.ones((10, 5)), np.ones(5)).jaxpr)
    840
    """
    inputs, accesses = set(jaxpr.inputs), {}
    for equation in jaxpr.equations:
        way = equation.params["axes"] if equation.primitive.name == "broadcast_in_dim" else None
        for a in equation.inputs:
            if type(a) is Var and a in inputs:
                accesses[a, way] = _bytes(a)
    return sum(accesses.values()) + sum([_bytes(v) for v in dict.fromkeys(jaxpr.outputs)])


def _bytes(atom: Any) -> int:
    return int(atom.aval.size or 0) * atom.aval.dtype.itemsize
