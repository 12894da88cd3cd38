"""Common subexpressions: what is computed twice from the same operands is computed once.

Two equations are the same if they apply the same primitive, with parameters equal by type and bits (1, 1.0, True differ; 0.0
and -0.0 too), to the same variables and to literals equal by type and bits. Sub-programs are the same if they are the same
object or the same equations, wired alike. Effects are never merged, nor is anything with `barrier=True`: a checkpoint is meant
to compute again, and its body is a program of its own, which shares nothing with what is around it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, equation_has_effects, literal_key
from funcad.passes.rewrite import Work, rewrite

__all__ = ["cse", "Keys"]


def cse(jaxpr: Jaxpr) -> Jaxpr:
    """The program in which equal equations are one.

    >>> import numpy as np, funcad
    >>> from funcad.passes.cse import cse
    >>> print(cse(funcad.make_jaxpr(lambda x, y: np.sin(x * y) - np.sin(y * x))(1.0, 2.0).jaxpr))
    { lambda a:f64*[] b:f64*[] . let
        c:f64*[] = mul a b
        d:f64[] = sin c
        e:f64[] = sub d d
      in (e,) }
    """
    seen: dict[tuple, tuple] = {}
    keys = Keys()

    def step(work: Work, equation: Equation) -> Any:
        primitive, inputs, params, outputs, _ = equation
        if primitive.effect or primitive.barrier or primitive.multiple and equation_has_effects(equation):
            return None
        for a in inputs:
            if type(a) is Literal:
                inputs = tuple([keys.atom(a) for a in inputs])
                break
        if primitive.commutes == "bits" and hash(inputs[0]) > hash(inputs[1]):
            inputs = (inputs[1], inputs[0])
        try:
            key = (primitive, inputs, keys.params(params)) if params else (primitive, inputs)
            found = seen.setdefault(key, outputs)
        except TypeError:  # a parameter that cannot be compared
            return None
        return None if found is outputs else found

    return rewrite(jaxpr, step)


class Keys:
    """Hashable keys of atoms, parameters and sub-programs; sub-programs get numbers, the same if they are the same program."""

    def __init__(self) -> None:
        self.numbers: dict[int, tuple[int, Jaxpr]] = {}  # id -> number, and the program itself to keep it alive
        self.programs: dict[Any, int] = {}

    def atom(self, atom: Any) -> Any:
        return literal_key(atom.value) if type(atom) is Literal else atom

    def params(self, params: dict[str, Any]) -> tuple:
        return tuple([(name, self.value(v)) for name, v in sorted(params.items())])

    def value(self, value: Any) -> Any:
        kind = type(value)
        if kind is int or kind is str or kind is bool or value is None:
            return (kind, value)
        if isinstance(value, tuple):  # a loop, too
            return (kind, *[self.value(v) for v in value])
        if isinstance(value, Jaxpr):
            return ("program", self.program(value))
        if is_a(value, (float, complex, np.generic)):
            return literal_key(value)
        if isinstance(value, np.dtype):
            return (np.dtype, value.str)
        hash(value)  # an unhashable parameter raises TypeError
        return (kind, value)

    def program(self, jaxpr: Jaxpr) -> int:
        """A number that equal programs share."""
        known = self.numbers.get(id(jaxpr))
        if known is None:
            try:
                number = self.programs.setdefault(self._whole(jaxpr), len(self.programs))
            except TypeError:
                number = -id(jaxpr)
            known = self.numbers[id(jaxpr)] = number, jaxpr
        return known[0]

    def _whole(self, jaxpr: Jaxpr) -> tuple:
        places: dict[Any, Any] = {v: i for i, v in enumerate(jaxpr.inputs)}

        def atom(a: Any) -> Any:
            return ("literal", literal_key(a.value)) if type(a) is Literal else places[a]

        parts: list[Any] = [_aval_key(v.aval) for v in jaxpr.inputs]
        for primitive, inputs, params, outputs, _ in jaxpr.equations:
            parts.append((primitive, tuple([atom(a) for a in inputs]), self.params(params) if params else (), len(outputs)))
            for v in outputs:
                places[v] = len(places)
        parts.append(tuple([atom(o) for o in jaxpr.outputs]))
        return tuple(parts)


def _aval_key(aval: Any) -> Any:
    return aval if type(aval) is StackAval else (aval.shape, aval.dtype.str, aval.weak)
