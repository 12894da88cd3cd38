"""The tape: un-jitted `grad` of small values writes down what was done, and asks what it means for the derivative later.

Idea: a gradient in a loop does the same operations at every step. So for common operations on scalars and small arrays the
following trace runs the primal and adds a row to the tape: primitive, operands, result. At the end the rows' key finds the
backward program of an earlier call, compiled, which computes everything else: no jvp rule runs, nothing is recorded. If there
is none, `flush` lets the rules of the rows run, in order, on the values that the rows hold, as if they had run at once; that
happens too when an operation comes that has no row, and from then on rules run at once.

Invariants: a row's result has a tangent whose variable is made at once and which `flush` sets to what the rule gives; an array
that the user can still write is copied when the derivative needs its values, at the moment of use; rows hold nothing larger
than 64 KiB, so that no large intermediate lives longer than its residual would. The key tells apart all that a rule may look
at: primitives, parameters by their bits, wiring, types, shapes and dtypes, but no values: only primitives whose rules give a
tangent whatever the values are have rows. Trap: two operands that are one object are one input of the program, since rules
look (`x * x`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import SCALAR_AVALS, Aval, aval_of
from funcad.ir.jaxpr import Var
from funcad.ir.locks import SMALL
from funcad.ir.prune import prune
from funcad.ir.quiet import hush, unhush
from funcad.ir.state import state
from funcad.ir.trace import AbstractTrace, compute
from funcad.ir.tracer import Tracer
from funcad.primitives import arithmetic, conversion, reduction, shape, transcendental
from funcad.primitives.arithmetic import add_p, mul_p, neg_p, sub_p
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.shape import broadcast_to
from funcad.transforms.structural import UNSEEN, cached, compiled, frozen
from funcad.transforms.transpose import transpose_eval

__all__ = ["Tape", "ROWS", "rule_of"]

_LINEAR = frozenset(  # their rules look at tangents only
    [add_p, sub_p, neg_p, shape.broadcast_in_dim_p, shape.reshape_p, shape.transpose_p, shape.slice_p, reduction.reduce_sum_p]
    + [conversion.convert_p]
)
_BILINEAR = frozenset([mul_p, dot_general_p])  # an operand matters only if the other one has a tangent
ROWS = _LINEAR | _BILINEAR
ROWS |= {getattr(arithmetic, f"{n}_p") for n in ("div", "square", "sqrt", "integer_pow", "reciprocal")}
ROWS |= {getattr(transcendental, f"{n}_p") for n in ("sin", "cos", "exp", "expm1", "log", "log1p", "tanh", "logistic")}
ROWS |= {reduction.reduce_max_p, reduction.reduce_min_p}
MAX_ROWS = 1000
_SILENT = frozenset([add_p, sub_p, mul_p])
_STRONG = {kind: Aval((), aval.dtype) for kind, aval in SCALAR_AVALS.items() if aval.dtype.kind in "fc"}
_NO_VALUE = object()


def rule_of(primitive: Any, primals: Sequence[Any], tangents: Sequence[Any], out: Any, params: dict, shape: Any) -> Any:
    """The tangent by the primitive's rule; `shape`: of the result, where NumPy broadcast the primals itself."""
    if shape is not None:
        if primitive is not add_p and primitive is not sub_p:  # their rules read tangents only
            primals = [p if p.shape == shape else broadcast_to(p, shape) for p in primals]
        tangents = [t if t is None or t.shape == shape else broadcast_to(t, shape) for t in tangents]
    return primitive.jvp(tangents, out, *primals, **params)


def _computed(primitive: Any, x: Any, y: Any, binary: bool, params: dict) -> Any:
    """The operation on NumPy's values, which warns as NumPy does; these of Python's floats never do."""
    if type(x) is float and type(y) is float and primitive in _SILENT:
        return primitive.impl(np, x, y)
    return compute(primitive, (x, y) if binary else (x,), params)


class _LinearTrace(AbstractTrace):
    """Captures values of the backward program as they are: a scalar may stand beside shaped operands there too."""

    __slots__ = ()

    def _capture(self, x: Any) -> tuple[Var, Any]:
        entry = self.captured[id(x)] = Var(aval_of(x)), x
        return entry


class Tape:
    """Rows of one un-jitted gradient; `recording` is the trace of its tangent program."""

    __slots__ = ("recording", "protector", "rows", "key", "values", "numbers", "held", "places", "found")

    def __init__(self, recording: AbstractTrace, protector: Any, primals: Sequence[Any], tangents: Sequence[Any]):
        self.recording = recording
        self.protector = protector
        self.rows: list[tuple] = []
        self.values: list[Any] = []  # inputs of the backward program: operands from outside, and results
        self.key: list[Any] = []
        self.numbers: dict[Var, int] = {}  # of tangents: those of the inputs, then a row each
        self.held: list[Any] = []  # by number: the value that has this tangent, if nobody can change it
        self.places: list[int] = []  # and where it is in `values`
        self.found: Any = None  # the compiled backward program
        for p, t in zip(primals, tangents):
            if t is not None:
                self.key.append((t.variable.aval.shape, t.variable.aval.dtype.char))
                self.numbers[t.variable] = len(self.held)
                self.held.append(_NO_VALUE if type(p) is np.ndarray else p)
                self.places.append(len(self.values))
                self.values.append(p)

    def record(self, trace: Any, primitive: Any, args: Sequence[Any], params: dict, shape: Any, source: Any) -> Any:
        """The traced result; None if the operation has no row, or `(out,)` if it has none but was computed."""
        if len(self.rows) >= MAX_ROWS:
            return None
        x = args[0]
        tx = ty = y = None
        if type(x) is Tracer:
            if x.owner is not trace:
                return None
            x, tx = x.primal, x.tangent
        if type(x) is np.ndarray:
            if x.nbytes > SMALL or not x.dtype.isnative:
                return None
        elif type(x) not in SCALAR_AVALS:
            return None
        binary = len(args) == 2
        if binary:
            y = args[1]
            if type(y) is Tracer:
                if y.owner is not trace:
                    return None
                y, ty = y.primal, y.tangent
            if type(y) is np.ndarray:
                if y.nbytes > SMALL or not y.dtype.isnative:
                    return None
            elif type(y) not in SCALAR_AVALS:
                return None
        bits = frozen(params) if params else None
        if params and (bits is None or params.get("n") == 0):  # x**0 has no derivative at all
            return None
        out = _computed(primitive, x, y, binary, params)
        kind = type(out)
        if kind is np.ndarray:
            if out.nbytes > SMALL or out.dtype.kind not in "fc":
                return (out,)
            aval = Aval(out.shape, out.dtype)
        else:
            known = _STRONG.get(kind)
            if known is None:
                return (out,)
            aval = known
        key, values, held = self.key, self.values, self.held
        key.append(primitive)
        if bits is not None:
            key.append(bits)
        if shape is not None:
            key.append(shape)
        number = -1
        if tx is not None:
            number = self.numbers[tx.variable]
            key.append(number)
        if number >= 0 and held[number] is x:
            place = self.places[number]
        else:
            if type(x) is np.ndarray:
                x = self._outside(x, args[0], primitive, ty)
            else:
                key.append(type(x))
            place = len(values)
            values.append(x)
        places: Any = place
        if binary:
            number = -1
            if ty is not None:
                number = self.numbers[ty.variable]
                key.append(number)
            if number >= 0 and held[number] is y:
                place = self.places[number]
            elif y is args[0] or type(args[0]) is Tracer and y is args[0].primal:
                key.append("same")
                y = x
            else:
                if type(y) is np.ndarray:
                    y = self._outside(y, args[1], primitive, tx)
                else:
                    key.append(type(y))
                place = len(values)
                values.append(y)
            places = places, place
        key.append(kind)
        variable = Var(aval)
        tangent = Tracer(self.recording, variable, None, None, source)
        self.numbers[variable] = len(held)
        held.append(out if kind is not np.ndarray or out.base is None and out is not x else _NO_VALUE)
        self.places.append(len(values))
        values.append(out)
        self.rows.append((primitive, binary, x, y, tx, ty, params, out, tangent, shape, source, places))
        return Tracer(trace, None, out, tangent, source)

    def _outside(self, x: np.ndarray, given: Any, primitive: Any, other: Any) -> np.ndarray:
        """An array that no row made, as the derivative may keep it."""
        self.key.append(x.shape)
        self.key.append(x.dtype.char)
        if primitive in _LINEAR or primitive in _BILINEAR and other is None:
            return x
        return x.copy() if type(given) is not Tracer or self.protector.is_users(x) else x

    def flush(self) -> None:
        """Let the rules run; from then on the tangents are those that they gave."""
        saved = state.source
        token = hush()
        try:
            for primitive, binary, x, y, tx, ty, params, out, tangent, shape, source, _ in self.rows:
                state.source = source
                primals, tangents = ((x, y), (tx, ty)) if binary else ((x,), (tx,))
                tangent.variable = rule_of(primitive, primals, tangents, out, params, shape).variable
        finally:
            state.source = saved
            unhush(token)
        self.rows.clear()
        self.values.clear()

    def has_program(self, tangents: Sequence[Any]) -> bool:
        """Is there a backward program for these rows and the tangents of these outputs? Otherwise `flush`."""
        if not self.rows:
            return False
        ends = [self.numbers.get(t.variable) for t in tangents]
        if None in ends:
            return False
        self.found = cached(("tape", len(self.recording.inputs), *ends, *self.key), lambda: self._derive(tangents))
        return self.found is not UNSEEN and self.found is not False

    def pull(self, cotangents: Sequence[Any]) -> list[Any]:
        """Cotangents of the inputs (None: zero)."""
        run, nonzero = self.found
        values = self.values
        values.extend(cotangents)
        self.rows.clear()
        self.held.clear()
        outputs = iter(run(values))
        return [next(outputs) if z else None for z in nonzero]

    def _derive(self, ends: Sequence[Any]) -> Any:
        """(run, which inputs get a cotangent), or False where a rule needs values."""
        outer, inner = AbstractTrace("the backward pass"), _LinearTrace("linearize")
        try:
            values = [self._input(outer, v) for v in self.values]
            seeds = [outer.new_input(t.variable.aval) for t in ends]
            tangents = {v: inner.new_input(v.aval) for v in self.recording.inputs}
            for primitive, binary, _, _, tx, ty, params, _, tangent, shape, _, places in self.rows:
                given = [None if t is None else tangents[t.variable] for t in ((tx, ty) if binary else (tx,))]
                primals = [values[i] for i in (places if binary else (places,))]
                out = values[self.places[self.numbers[tangent.variable]]]
                result = rule_of(primitive, primals, given, out, params, shape)
                if result is None or result.variable.aval != tangent.variable.aval:
                    return False
                tangents[tangent.variable] = result
            linear, residuals = inner.jaxpr([tangents[t.variable] for t in ends])
            n = len(self.recording.inputs)
            mask = [False] * len(residuals) + [True] * n
            outs = transpose_eval(linear, mask, residuals + [None] * n, seeds, all_linear=True)
            derived, consts = outer.jaxpr([o for o in outs if o is not None])
        except Exception:  # a rule that needs values: without the tape, and what is truly wrong is raised there
            return False
        finally:
            inner.close()
            outer.close()
        return compiled(prune(derived), consts), [o is not None for o in outs]

    @staticmethod
    def _input(trace: AbstractTrace, value: Any) -> Tracer:
        aval = aval_of(value)
        if type(aval) is Aval:
            return trace.new_input(aval)
        variable = Var(aval)  # a LiteralAval, so that it may stand beside shaped operands, as the scalar does
        trace.inputs.append(variable)
        return Tracer(trace, variable)
