"""The formulas of elements as LLVM text: one `Emitter` writes into one function, for one number of lanes.

    emitter = Emitter(function, lanes_of(host, dtypes), host)
    x = emitter.load(np.dtype(float), "%x", index)
    y = emitter.apply(equation, [x, emitter.literal(2.0, float)])
    emitter.store(y, "%y", index)

Idea: the table `CODE` has a method for each atom, which writes its instructions; an equation is its formula, atom by atom. The
methods are in mixins by idea: memory and constants, integer and float and complex arithmetic, conversions, transcendental
functions. Invariant: what is written computes what NumPy's ufunc computes, bit for bit for arithmetic (no instruction carries
a fast-math flag, nothing is contracted, but under fast_math) and within 2 ulp for transcendental functions; an operation that
cannot is `Unsupported`. Trap: lanes that a mask turns off hold zeros and are computed with, so no code may fault on them
(integer division has a guard).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.backends.native import ir
from funcad.backends.native.emitter_arithmetic import Arithmetic
from funcad.backends.native.emitter_convert import Convert
from funcad.backends.native.emitter_functions import Functions
from funcad.backends.native.emitter_memory import FLOAT64, Lane, Memory
from funcad.backends.plans.element_plan import operand_dtypes
from funcad.backends.plans.unsupported import Unsupported
from funcad.primitives.atoms import ATOMS, UFUNCS, Formula, formula_of

__all__ = ["Emitter", "Lane", "Unsupported", "operand_dtypes"]

_EXTREMES = {"maximum": (-np.inf, "min"), "minimum": (np.inf, "max"), "fmax": (np.nan, "min"), "fmin": (np.nan, "max")}
CONTRACTED = {"add", "sub", "mul", "square"}  # atoms that a processor computes two at a time


class Emitter(Functions, Convert, Arithmetic, Memory):
    """Writes element operations into `function`: scalars with lanes=1 ("double"), else vectors ("<4 x double>")."""

    def __init__(self, function: ir.Function, lanes: int, host: Any):
        if lanes < 1 or lanes & (lanes - 1):
            raise ValueError(f"the number of lanes is a power of two, got {lanes}")
        super().__init__(function, lanes, host)

    def apply(self, equation: Any, operands: Sequence[Lane]) -> Lane:
        """The code of one elementwise equation; a lane in another dtype than the equation's is converted if it is weak."""
        primitive = equation.primitive
        if primitive.emit is None:
            raise Unsupported(f"{primitive.name} has no code for one element")
        result = equation.outputs[0].aval.dtype
        if result.kind == "b" and primitive.name == "square":
            raise Unsupported("square of bool: NumPy computes it in int8")
        lanes = []
        for lane, dtype, atom in zip(operands, operand_dtypes(equation), equation.inputs, strict=True):
            if lane.dtype != dtype:
                if not atom.aval.weak:
                    raise Unsupported(f"{primitive.name}: an operand is {lane.dtype}, the equation computes in {dtype}")
                lane = self.convert(lane, dtype)
            if lane.dtype.kind == "i" and result.kind in "fc" and atom.aval.weak and not atom.aval.shape:
                if primitive.name == "convert":
                    lane = self.convert(lane, FLOAT64)  # as Python does with its integers, before it is rounded once more
            lanes.append(lane)
        lane = self._element(formula_of(equation), lanes, result)
        if lane.dtype != result:
            raise Unsupported(f"{primitive.name} of {lanes[0].dtype} gives {lane.dtype}, the program has {result}")
        return lane

    def _element(self, formula: Formula, operands: Sequence[Lane], result: np.dtype) -> Lane:
        """The atoms of a formula, in order; a constant has the dtype of what it meets, or of the result."""
        lanes = dict(enumerate(operands, -len(operands)))
        constants = {i: call.told[0] for i, call in enumerate(formula.calls) if call.name == "const"}

        def lane(a: int, dtype: np.dtype) -> Lane:
            return self.const(constants[a], dtype) if a in constants else lanes[a]

        for i, (name, reads, told) in enumerate(formula.calls):
            if i not in constants:
                alike = [lanes[a].dtype for a in reads[name == "select" :] if a not in constants]
                given = [lane(a, alike[0] if alike else result) for a in reads]
                self.contracts = name in CONTRACTED and self.function.module.contracts
                lanes[i] = CODE[name](self, *given, *told)
                self.contracts = False
        return lane(formula.result, result)

    def const(self, value: Any, dtype: np.dtype) -> Lane:
        """A constant of a formula."""
        if dtype.kind in "biu" and not float(value).is_integer():
            raise Unsupported(f"{value} is no {dtype}")
        return self.literal(value, dtype)

    # -- reductions over lanes
    def combine(self, kind: str, a: Lane, b: Lane) -> Lane:
        """One step of a reduction by this atom."""
        self.contracts = kind in CONTRACTED and self.function.module.contracts
        lane: Lane = CODE[kind](self, a, b)
        self.contracts = False
        return lane

    def identity(self, kind: str, dtype: Any) -> Lane:
        """What changes nothing in `combine`: NumPy's identity, or the least or greatest value of the dtype."""
        dtype, identity = np.dtype(dtype), UFUNCS[kind].identity
        if identity is not None:  # a sum of -0.0 alone is 0.0, as NumPy's
            return self.not_(self.literal(0, dtype)) if identity == -1 else self.const(identity, dtype)
        if kind not in _EXTREMES or dtype.kind == "c":
            raise Unsupported(f"no native reduction of {dtype} by {kind}")
        of_floats, end = _EXTREMES[kind]
        if dtype.kind == "b":
            return self.literal(end == "max", dtype)
        return self.literal(of_floats if dtype.kind == "f" else getattr(np.iinfo(dtype), end), dtype)

    def horizontal(self, kind: str, a: Lane) -> Lane:
        """All lanes combined to one scalar lane, halves by halves."""
        n = self.lanes
        if n == 1:
            return a
        vector = self.register(a.dtype)
        half = Emitter(self.function, n // 2, self.host)
        low: list[str] = []
        high: list[str] = []
        for p in a.parts:
            for first, found in ((0, low), (n // 2, high)):
                if n == 2:
                    found.append(self.put(f"extractelement {vector} {p}, i64 {first}"))
                else:
                    order = ", ".join([f"i32 {first + i}" for i in range(n // 2)])
                    found.append(self.put(f"shufflevector {vector} {p}, {vector} poison, <{n // 2} x i32> <{order}>"))
        both = half.combine(kind, Lane(a.dtype, tuple(low)), Lane(a.dtype, tuple(high)))
        return half.horizontal(kind, both)


CODE = {atom: getattr(Emitter, atom) for atom in sorted(ATOMS)}
