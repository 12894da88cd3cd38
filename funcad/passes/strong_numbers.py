"""Python's floats in a long program become NumPy's, and Python's again at its ends, so that its repetitions can become loops.

Idea: what a loop carries has a dtype of its own, which a float of Python's has not: it adapts to what it meets. In a program of
doubles there is nothing to adapt to. So where every operation has the same results with numbers of NumPy's, the program is
written with these. Only then: an operation that would have another dtype leaves the program as it is.

Invariant: not a bit changes, and inputs and outputs keep their avals. Trap: Python's ints have no end, so they stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

import numpy as np

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, subjaxprs
from funcad.primitives.conversion import convert_p

SMALLEST = 256  # equations of a program that is looked at, as roll.py has it
DOUBLE = np.dtype(np.float64)


def _is_weak(atom: Any) -> bool:
    return type(atom) is Var and type(atom.aval) is Aval and atom.aval.weak and atom.aval.dtype == DOUBLE


def strong_numbers(jaxpr: Jaxpr) -> Jaxpr:
    """The program with NumPy's floats for Python's, if all results stay as they are."""
    made = [v for e in jaxpr.equations for v in e.outputs]
    if len(jaxpr.equations) < SMALLEST or not any(map(_is_weak, [*jaxpr.inputs, *made])):
        return jaxpr
    names: dict[Var, Any] = {}
    known: dict[Any, Any] = {}
    equations: list[Equation] = []
    for v in jaxpr.inputs:
        if _is_weak(v):
            names[v] = Var(Aval((), DOUBLE))
            equations.append(Equation(convert_p, (v,), {"dtype": DOUBLE}, (names[v],)))
    for e in jaxpr.equations:
        strengthened = _strengthened(e, names, known)
        if strengthened is None:
            return jaxpr
        equations.append(strengthened)
    outputs: list[Any] = []
    for o in jaxpr.outputs:
        if _is_weak(o) and type(names.get(o, o)) is Var and not _is_weak(names.get(o, o)):
            back = Var(o.aval)
            equations.append(Equation(convert_p, (names[o],), {"dtype": DOUBLE, "weak": True}, (back,)))
            o = back
        outputs.append(names.get(o, o) if type(o) is Var else o)
    return Jaxpr(jaxpr.inputs, tuple(equations), tuple(outputs))


def _strengthened(e: Equation, names: dict[Var, Any], known: dict[Any, Any]) -> Equation | None:
    """The equation of the new names, whose results get new ones; None if it would have other results.

    `known`: what is so of operations without parameters, by the identity of their avals.
    """
    primitive, before, params, after, source = e
    inputs = tuple([a if type(a) is Literal else names.get(a, a) for a in before])
    weak = any(map(_is_weak, after))
    if not weak and all(map(is_, inputs, before)):
        return e
    key = None if params else (primitive, *[id(a.aval) for a in inputs], *[id(v.aval) for v in after])
    found = known.get(key)
    if found is None:
        params = {**params, "weak": False} if primitive is convert_p and weak else params
        found = _results(primitive, [a.aval for a in inputs], params) if not any(subjaxprs(params)) else None
        if found is None or [_kind(a) for a in found] != [_kind(v.aval) for v in after]:
            return None
        if key is not None:
            known[key] = found
    outputs = tuple([Var(a) if type(a) is Aval and not a.weak else v for a, v in zip(found, after)])
    names.update([(v, new) for v, new in zip(after, outputs) if v is not new])
    return Equation(primitive, inputs, params, outputs, source)


def _results(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> list[Any] | None:
    try:
        found = primitive.abstract_eval(*avals, **params)
    except TypeError:  # operands of several dtypes, of which one has adapted so far
        return None
    return list(found) if primitive.multiple else [found]


def _kind(aval: Any) -> Any:
    return (aval.shape, aval.dtype) if type(aval) is Aval else aval
