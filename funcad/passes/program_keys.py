"""Keys of parameters and of programs, for whoever looks up whether an equal one was met before.

Numbers count by type and bits, never by `==`: 1, 1.0 and True are three, 0.0 and -0.0 two, and one nan is another's equal.
Programs are equal if they apply the same primitives, with equal parameters, wired alike, to inputs of equal avals.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import StackAval
from funcad.ir.jaxpr import Jaxpr, Literal, literal_key

__all__ = ["params_key", "program_key", "value_key"]

_EXACT = frozenset([int, str, bool, type(None)])  # `==` is enough for two of one type
_PLAIN = frozenset([int, str, bool, float, complex, tuple, type(None)])


def value_key(value: Any, program: Callable[[Jaxpr], Any] | None = None) -> Any:
    """The key of one value: by content in numbers and tuples, `program(jaxpr)` of a program, by `==` in all others.

    It is not hashable if the value is not.
    """
    kind = type(value)
    if kind in _EXACT:
        return (kind, value)
    if isinstance(value, tuple) and kind.__eq__ is tuple.__eq__:  # a loop, too
        return (kind, *[value_key(v, program) for v in value])
    if program is not None and isinstance(value, Jaxpr):
        return (Jaxpr, program(value))
    return literal_key(value) if is_a(value, (bool, int, float, complex, np.generic)) else (kind, value)


def params_key(params: dict[str, Any], program: Callable[[Jaxpr], Any] | None = None) -> Any:
    """The key of an equation's parameters. Without `program` it is made fast, and None if they hold more than plain data."""
    if program is not None:
        return tuple([(name, value_key(value, program)) for name, value in sorted(params.items())])
    values = list(params.values())
    for i, v in enumerate(values):
        if type(v) not in _PLAIN:
            if not isinstance(v, np.dtype):
                return None
            values[i] = ("dtype", v.str)
    try:
        return marshal.dumps((*params, *values), 2)
    except ValueError:  # something else inside a tuple
        return None


def program_key(
    jaxpr: Jaxpr,
    program: Callable[[Jaxpr], Any] | None = None,
    literal: Callable[[Any], Any] = literal_key,
    sources: bool = False,
) -> tuple:
    """The key of a program; TypeError if it has none, now or when it is looked up.

    `program` is for those among the parameters, as in `params_key`; `literal(value)` is what counts of a number in it; with
    `sources` it matters where in the user's program the operations stand.
    """
    numbers: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.inputs)}
    parts: list[Any] = []
    add = parts.append
    for v in jaxpr.inputs:
        aval = v.aval
        add(aval if type(aval) is StackAval else (aval.shape, aval.dtype, aval.weak))
    for primitive, atoms, params, outputs, source in jaxpr.equations:
        add(primitive)
        for a in atoms:
            add(literal(a.value) if type(a) is Literal else numbers[a])
        if params:
            key = params_key(params, program)
            if key is None:
                raise TypeError(f"{primitive.name} has parameters without a key")
            add(key)
        if sources and source is not None:
            add((id(source.code), source.offset, source.scope))
        for v in outputs:
            numbers[v] = len(numbers)
    for o in jaxpr.outputs:
        add(literal(o.value) if type(o) is Literal else numbers[o])
    return tuple(parts)
