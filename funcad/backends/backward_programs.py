"""Backward programs of un-jitted gradients, on the engine that is set.

Idea: the program that the structural cache found again runs at every step of a loop, so it may be worth an engine, but nobody
asked for one: the reference runs it until that took longer than compiling takes, which a faster engine then repays, and the
engine after that. Both times are estimated, not measured, so that a program changes its engine at the same step in every
run. Invariant: as for `jit`, an engine changes speed, not meaning; `config.engine = "interpreter"` keeps the reference's bits.
Trap: scalars that are inputs of these programs stand beside shaped operands, as literals do; the passes know variables of equal
shapes only (`broadcast_scalars`).
"""

from __future__ import annotations

from typing import Any

from funcad.backends.engines import AT_ONCE, COLD, EngineProgram, estimate
from funcad.backends.interpreter import Program
from funcad.configuration import config
from funcad.ir.aval import Aval, LiteralAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.primitives.conversion import convert_p
from funcad.primitives.shape import broadcast_in_dim

__all__ = ["Backward", "broadcast_scalars"]

COMPILING = 2e-3, 0.12e-3  # seconds, and seconds for each equation
CALL = 1.5e-6  # seconds that the reference needs for an equation besides its work
WORK = 0.25  # of the estimate, which is that of a cold and busy machine: here NumPy works on little that is in the cache
EARNED = 1.5  # times what compiling takes
BYTES = 1000  # that a program takes for each equation
FEW = 8  # runs that the reference makes at least


def broadcast_scalars(jaxpr: Jaxpr) -> Jaxpr:
    """The program with the scalars among its inputs converted and broadcast to what they stand beside."""
    new = {v: Var(Aval((), v.aval.dtype, v.aval.weak)) for v in jaxpr.inputs if type(v.aval) is LiteralAval}
    if not new:
        return jaxpr
    equations: list[Equation] = []

    def record(primitive: Any, x: Any, aval: Aval, **params: Any) -> Any:
        output = Var(aval)
        equations.append(Equation(primitive, (x,), params, (output,)))
        return output

    def beside(x: Any, others: list[Any]) -> Any:
        """The scalar x in the shape of the others, and in their dtype."""
        shape = next((a.shape for a in others if a.shape), ())
        dtype = next((a.dtype for a in others if not a.weak and a.dtype.kind != "b"), x.aval.dtype)
        if not shape:
            return x
        if x.aval.weak or x.aval.dtype != dtype:
            x = record(convert_p, x, Aval((), dtype), dtype=dtype)
        return record(broadcast_in_dim, x, Aval(shape, dtype), shape=shape, axes=())

    for equation in jaxpr.equations:
        if equation.primitive.emit is not None and any([a in new for a in equation.inputs if type(a) is Var]):
            others = [a.aval for a in equation.inputs if type(a) is not Literal and a not in new]
            inputs = [beside(new[a], others) if type(a) is Var and a in new else a for a in equation.inputs]
        else:
            inputs = [new.get(a, a) if type(a) is Var else a for a in equation.inputs]
        equations.append(equation._replace(inputs=tuple(inputs)))
    outputs = tuple([new.get(o, o) if type(o) is Var else o for o in jaxpr.outputs])
    return Jaxpr(tuple([new.get(v, v) for v in jaxpr.inputs]), tuple(equations), outputs)


class Backward:
    """`program(values) -> outputs`, which empties the list of values."""

    __slots__ = ("program", "runs_until_native", "compiled", "engine", "single", "size")

    def __init__(self, jaxpr: Jaxpr):
        self.program = Program(jaxpr)
        self.runs_until_native = FEW
        self.engine: bool | None = None  # may an engine run it? It is not estimated before it has run a few times
        self.compiled: EngineProgram | None = None
        self.single = len(jaxpr.outputs) == 1
        self.size = BYTES * len(jaxpr.equations)

    def _estimate(self) -> int:
        """The runs that the reference makes."""
        jaxpr = self.program.jaxpr
        work, n = estimate(jaxpr), len(jaxpr.equations)
        # large arrays: the reference drops each value after its last use, jit is for more
        self.engine = work < AT_ONCE and "cuda" not in jaxpr.moves
        return int(EARNED * (COMPILING[0] + COMPILING[1] * n) / (WORK * work + CALL * (1 + n)))

    def __call__(self, values: list[Any]) -> Any:
        if self.runs_until_native:
            self.runs_until_native -= 1
            if not self.runs_until_native and self.engine is None:
                self.runs_until_native = max(0, self._estimate() - FEW)
            return self.program.consume(values)
        if self.engine is None:
            self._estimate()
        engine, compiled = config.engine, self.compiled
        if engine == "interpreter" or not self.engine:
            return self.program.consume(values)
        if compiled is None or compiled.engine != engine:
            compiled = EngineProgram(broadcast_scalars(self.program.jaxpr), engine)
            compiled.runs = COLD
            self.compiled = compiled
        fast = compiled.fast
        if fast is not None:
            outputs = fast(*values)
            if outputs is not NotImplemented:
                values.clear()
                return (outputs,) if self.single else outputs
        return compiled.consume(values)
