"""Captured arrays as what they are made of: broadcasts as such, and many arrays as parts of few.

Idea: a loop whose turns read `A[lo:hi]` or `table[j]` of plain arrays captures a small array for each turn, and the loop that
the program becomes would have to put them together at each call. So views of one array are read as parts of it, and arrays that
the function itself computed, and nobody else holds, are put together once, equal ones as one. Each operation reads its part
where it reads the array, as if the function had indexed a traced one, so that its turns are alike. A broadcast is read from
the row that it repeats: and one of a bool says what masks of derivatives are, and passes take them away.

Invariants: what can be written later is read at each call, as it was: views share its memory; an array is put together with
others only if the program alone refers to it, and a bool becomes one of the program only if nobody can write it any more.
Trap: references are counted against those of an array that is known to be alone.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.primitives.basic_indexing import basic_index_p
from funcad.primitives.shape import broadcast_in_dim

MANY = 8  # arrays of one kind, from which on they are parts: as many as a loop has turns at least
SMALL = 1 << 16  # bytes of an array that is put together with others
WHOLE = 16  # times as large as what is read of it is an array at most, for it goes to a device as a whole
Index = tuple[Any, ...]
Reading = tuple[Any, Any, dict[str, Any]]  # what is read, by which primitive, with which parameters


def _references(values: Sequence[Any], i: int) -> int:
    return sys.getrefcount(values[i])


def gathered(jaxpr: Jaxpr, consts: list[Any], first: int) -> tuple[Jaxpr, list[Any]]:
    """The program and its captured values, from `first` on, as what they are made of. `consts` is the program's own."""
    if jaxpr.modes:
        return jaxpr, consts
    results = set(jaxpr.outputs)
    rows, readings = [], {}
    for i in range(first, len(consts)):
        v = jaxpr.inputs[i]
        found = _repeated(consts[i]) if v not in results else None
        if found is not None:
            readings[v], row = found
            if row is not None:
                rows.append((readings[v][0], row))
    if readings:
        jaxpr, consts = _reading(jaxpr, consts, rows, readings)
    if len(consts) - first < MANY:
        return jaxpr, consts
    kinds: dict[Any, list[int]] = {}
    for i in range(first, len(consts)):
        x = consts[i]
        if type(x) is not np.ndarray or not x.ndim or not x.size or jaxpr.inputs[i] in results:
            continue
        base = x.base
        if base is None:
            if x.nbytes <= SMALL and not x.dtype.hasobject:
                kinds.setdefault((x.shape, x.dtype), []).append(i)
        elif type(base) is np.ndarray and base.flags.c_contiguous and base.dtype == x.dtype:
            kinds.setdefault(id(base), []).append(i)
        del x
    wholes: list[tuple[Var, Any]] = []
    parts: dict[Var, Reading] = {}
    for kind, group in kinds.items():
        if len(group) < MANY:
            continue
        if type(kind) is tuple:
            rows, whole = _together(consts, group)
        else:
            whole = consts[group[0]].base
            if whole.nbytes > WHOLE * sum([consts[i].nbytes for i in group]):
                continue
            rows = {i: index for i in group if (index := index_in(whole, consts[i])) is not None}
        if len(rows) < MANY:
            continue
        var = Var(Aval(whole.shape, whole.dtype))
        wholes.append((var, whole))
        parts.update({jaxpr.inputs[i]: (var, basic_index_p, {"index": index}) for i, index in rows.items()})
    return _reading(jaxpr, consts, wholes, parts) if parts else (jaxpr, consts)


def _repeated(x: Any) -> tuple[Reading, Any] | None:
    """How a broadcast is read from what it repeats, and that, unless it is a bool; None for other arrays."""
    if type(x) is not np.ndarray or 0 not in x.strides or x.size < 2 or x.flags.writeable:
        return None
    if x.dtype.kind not in "biufc" or not x.dtype.isnative:
        return None
    axes = tuple([k for k, (n, stride) in enumerate(zip(x.shape, x.strides)) if stride and n > 1])
    part = x[tuple([slice(None) if k in axes else 0 for k in range(x.ndim)])]
    params = {"shape": x.shape, "axes": axes}
    if part.size == x.size:
        return None
    if axes:
        row = Var(Aval(part.shape, part.dtype))
        return (row, broadcast_in_dim, params), part
    base, probe = x.base, np.broadcast_to(np.zeros(()), (2,))
    if x.dtype != bool or type(base) is not np.ndarray or base.base is not None:
        return None
    if sys.getrefcount(base) > sys.getrefcount(probe.base) + 1:
        return None  # somebody may write it
    base.flags.writeable = False
    return (Literal(part), broadcast_in_dim, params), None


def _together(consts: list[Any], group: list[int]) -> tuple[dict[int, Index], np.ndarray]:
    """One array whose rows are those arrays that nobody else holds, and where each of them is."""
    probe = [np.empty(1)]
    held = (None, probe[0])  # as a trace holds what it has captured
    alone = _references(probe, 0)
    rows: dict[bytes, int] = {}
    found: dict[int, Index] = {}
    for i in group:
        if _references(consts, i) <= alone and not weakref.getweakrefcount(consts[i]):
            row = rows.setdefault(consts[i].tobytes(), len(rows))
            found[i] = (row, *[(0, n, 1) for n in consts[i].shape])
    del held
    shape, dtype = consts[group[0]].shape, consts[group[0]].dtype
    return found, np.frombuffer(b"".join(rows), dtype).reshape((len(rows), *shape))


def index_in(base: np.ndarray, x: np.ndarray) -> Index | None:
    """The basic index that selects x of an array in C order; None if it is no such part.

    >>> a = np.arange(24).reshape(4, 6)
    >>> index_in(a, a[2, 1:5:2])
    (2, (1, 2, 2))
    """
    if x.dtype.byteorder not in "=|":
        return None
    rest = x.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    axes = [(n, s) for n, s in zip(x.shape, x.strides)]
    index: list[Any] = []
    for size, stride in zip(base.shape, base.strides):
        start, rest = divmod(rest, stride) if stride else (0, rest)
        if axes and axes[0][0] > 1 and stride <= abs(axes[0][1]) and abs(axes[0][1]) < size * stride:
            count, step = axes.pop(0)
            index.append((start, count, step // stride))
        else:
            index.append(start)
    if axes or rest:
        return None
    selected = basic_index_p.impl(np, base, index=tuple(index))
    return tuple(index) if _layout(selected) == _layout(x) else None


def _layout(x: np.ndarray) -> tuple[Any, ...]:
    return x.__array_interface__["data"][0], x.shape, x.strides


def _reading(
    jaxpr: Jaxpr,
    consts: list[Any],
    wholes: list[tuple[Var, Any]],
    parts: dict[Var, Reading],
) -> Any:
    """The program that reads parts where it read arrays."""
    equations: list[Equation] = []

    def part(a: Any, source: Any) -> Any:
        if type(a) is not Var or a not in parts:
            return a
        atom, primitive, params = parts[a]
        output = Var(a.aval)
        equations.append(Equation(primitive, (atom,), params, (output,), source))
        return output

    for equation in jaxpr.equations:
        inputs = tuple([part(a, equation.source) for a in equation.inputs])
        equations.append(equation._replace(inputs=inputs) if inputs != equation.inputs else equation)
    outputs = tuple([part(a, None) for a in jaxpr.outputs])
    kept = [(v, x) for v, x in zip(jaxpr.inputs, consts) if v not in parts]
    given = [*kept, *wholes]
    found = Jaxpr((*[v for v, _ in given], *jaxpr.inputs[len(consts) :]), tuple(equations), outputs)
    found.memo.update({k: v for k, v in jaxpr.memo.items() if k in ("asked", "fast_math")})
    return found, [x for _, x in given]
