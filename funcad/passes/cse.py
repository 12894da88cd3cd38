"""Common subexpressions: what is computed twice from the same operands is computed once.

Two equations are the same if they apply the same primitive, with parameters equal by type and bits (1, 1.0, True differ; 0.0
and -0.0 too), to the same variables and to literals equal by type and bits. Sub-programs are the same if they are the same
object or the same equations, wired alike. Effects are never merged, nor is anything with `barrier=True`: a checkpoint is meant
to compute again, and its body is a program of its own, which shares nothing with what is around it.
"""

from __future__ import annotations

from typing import Any

from funcad.ir.jaxpr import Equation, Jaxpr, Literal, equation_has_effects, literal_key
from funcad.passes.program_keys import params_key, program_key
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
    """Keys of equations' parts; programs among the parameters get numbers, the same if they are equal."""

    def __init__(self) -> None:
        self.numbers: dict[int, tuple[int, Jaxpr]] = {}  # id -> number, and the program itself to keep it alive
        self.programs: dict[Any, int] = {}

    def atom(self, atom: Any) -> Any:
        return literal_key(atom.value) if type(atom) is Literal else atom

    def params(self, params: dict[str, Any]) -> tuple:
        return params_key(params, self.program)  # type: ignore[no-any-return]

    def program(self, jaxpr: Jaxpr) -> int:
        """A number that equal programs share."""
        known = self.numbers.get(id(jaxpr))
        if known is None:
            try:
                number = self.programs.setdefault(program_key(jaxpr, self.program), len(self.programs))
            except TypeError:
                number = -id(jaxpr)
            known = self.numbers[id(jaxpr)] = number, jaxpr
        return known[0]
