"""Transcendental functions of lanes: which of our own functions runs, inline or shared, and when it is the C library's.

Idea: short functions (exp, log, tanh, sin ...) are written where they are used; long ones once per module, as functions of
vectors that are called. Single precision has short functions of its own; for the long ones it is widened to double precision.
A scalar calls the C library, which for one number is as quick, and so does every lane of a vector on a processor without
fused multiply-add. Those of complex numbers are in emitter_complex.py. Trap: a function of the C library is used only where
every libm has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.backends.native import (
    elementary_error,
    elementary_inverse,
    elementary_power,
    elementary_trigonometric,
    emitter_complex,
    ir,
)
from funcad.backends.native.elementary import Floats
from funcad.backends.native.emitter_arithmetic import Arithmetic
from funcad.backends.native.emitter_memory import FLOAT32, FLOAT64, Lane
from funcad.backends.plans.unsupported import Unsupported

__all__ = ["Functions"]

_LIBM = {
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
}
_INLINE: dict[str, Callable[..., str]] = {  # in both precisions
    "exp": Floats.exp,
    "exp2": Floats.exp2,
    "expm1": Floats.expm1,
    "log": Floats.log,
    "log1p": Floats.log1p,
    "tanh": Floats.tanh,
    "sin": elementary_trigonometric.sin,
    "cos": elementary_trigonometric.cos,
}
_SHARED: dict[str, Callable[..., str]] = {
    "log2": Floats.log2,
    "log10": Floats.log10,
    "tan": elementary_trigonometric.tan,
    **elementary_inverse.functions(),
    **elementary_power.functions(),
    **elementary_error.functions(),
}
_SHARED_SINGLE: dict[str, Callable[..., str]] = {
    "log2": Floats.log2,
    "log10": Floats.log10,
    "pow": elementary_power.pow_single,
}
_WIDENED: dict[str, Callable[..., str]] = {**_SHARED, "hypot": elementary_power.hypot_single}  # on operands made double
LARGEST_POWER = 64  # from there on integer powers are pow's


class Functions(Arithmetic):
    """Mixin of `Emitter`."""

    def __init__(self, function: ir.Function, lanes: int, host: Any):
        super().__init__(function, lanes, host)
        # what is known of a value that is not NaN: its sign bit is clear ("size") or set ("fall"), it is in [0, 1] ("unit")
        self._known: dict[str, str] = {}
        self._opposite: dict[str, str] = {}  # a value -> that which it is the negative of

    # -- how a function is computed
    def _libm(self, name: str, dtype: np.dtype, operands: Sequence[str]) -> str:
        """The C library's function, lane by lane."""
        element = self.element(dtype)
        full = _LIBM.get(name, name) + ("f" if dtype == FLOAT32 else "")
        if self.lanes == 1:
            return self.function.intrinsic(full, element, *[(element, o) for o in operands])
        vector = self.vector(element)
        out = "poison"
        for i in range(self.lanes):
            each = [(element, self.put(f"extractelement {vector} {o}, i64 {i}")) for o in operands]
            value = self.function.intrinsic(full, element, *each)
            out = self.put(f"insertelement {vector} {out}, {element} {value}, i64 {i}")
        return out

    def _shared(
        self, name: str, dtype: np.dtype, operands: Sequence[str], body: Callable[..., str], attributes: str = "nounwind"
    ) -> str:
        """A call of a function of vectors that is in the module once; `body(emitter, *names)` writes it."""
        kind = self.register(dtype)
        full = f"elementary_{name}_{self.lanes}x{self.element(dtype)}"
        if full not in self.module.functions:
            parameters = [(kind, f"%x{i}") for i in range(len(operands))]
            function = ir.Function(self.module, full, parameters, returns=f"internal {kind}", attributes=attributes)
            inner = type(self)(function, self.lanes, self.host)
            function.do(f"ret {kind} {body(inner, *[n for _, n in parameters])}")
            self.module.add(function)
        return f"call {kind} @{full}({', '.join([f'{kind} {o}' for o in operands])})"

    def where_rare(self, name: str, c: Floats, condition: str, operands: Sequence[str], out: str) -> str:
        """`out`, but the C library's result on lanes where `condition` holds; costs a test and a branch where none does."""
        function = self.function
        before, rare, done = function.block, function.label("rare"), function.label("usual")
        some = condition if self.lanes == 1 else c.any(condition)
        function.do(f"br i1 {some}, label %{rare}, label %{done}")
        function.open(rare)
        if self.lanes == 1:
            full = _LIBM.get(name, name) + ("" if c.double else "f")
            target = self.module.declare(full, c.kind, [c.kind] * len(operands))
            found = function.load(f"call {c.kind} {target}({', '.join([f'{c.kind} {o}' for o in operands])})")
        else:
            body = lambda e, *x: e._libm(name, c.dtype, x)
            found = function.load(self._shared(f"rare_{name}", c.dtype, operands, body, "cold noinline nounwind"))
        found = function.load(f"select {c.truth} {condition}, {c.kind} {found}, {c.kind} {out}")
        function.do(f"br label %{done}")
        function.open(done)
        return function.load(f"phi {c.kind} [{out}, %{before}], [{found}, %{rare}]")

    def _elementary(self, name: str, *lanes: Lane) -> Lane:
        dtype = self._floats(name, *lanes)
        operands = [lane.name for lane in lanes]
        if self.lanes == 1 or not self.fused:
            return Lane(dtype, (self._libm(name, dtype, operands),))
        if name in _INLINE:
            return Lane(dtype, (_INLINE[name](Floats(self, dtype), *operands),))
        if dtype == FLOAT64 or name in _SHARED_SINGLE:
            function = (_SHARED if dtype == FLOAT64 else _SHARED_SINGLE)[name]
            return Lane(dtype, (self.put(self._shared(name, dtype, operands, lambda e, *x: function(Floats(e, dtype), *x))),))
        function = _WIDENED[name]
        return Lane(dtype, (self.put(self._shared(name, dtype, operands, lambda e, *x: e._widened(function, *x))),))

    def _widened(self, function: Callable[..., str], *operands: str) -> str:
        """A function of double precision for operands of single precision."""
        single, double = self.register(FLOAT32), self.register(FLOAT64)
        wide = [self.put(f"fpext {single} {o} to {double}") for o in operands]
        return self.put(f"fptrunc {double} {function(Floats(self, FLOAT64), *wide)} to {single}")

    # -- what the signs of squares, sizes and constants tell exp, log and log1p
    def _vectors_of_floats(self, *lanes: Lane) -> bool:
        return self.lanes > 1 and self.fused and all([lane.dtype.kind == "f" for lane in lanes])

    def _learn(self, a: Lane, b: Lane, out: Lane) -> Lane:
        """The sign of a product or quotient."""
        if self._vectors_of_floats(a, b, out):
            x, y = a.name, b.name
            signs = [self._known.get(x), self._known.get(y)]
            if None not in signs:
                self._known[out.name] = "size" if signs.count("fall") != 1 else "fall"
            elif x == y:
                self._known[out.name] = "size"
            elif self._opposite.get(x) == y or self._opposite.get(y) == x:
                self._known[out.name] = "fall"
        return out

    def literal(self, value: Any, dtype: Any) -> Lane:
        out = super().literal(value, dtype)
        if self._vectors_of_floats(out):
            self._known[out.name] = "fall" if math.copysign(1.0, value) < 0 else "size"
        return out

    def abs(self, a: Lane) -> Lane:
        out = super().abs(a)
        self._known[out.parts[0]] = "size"
        return out

    def neg(self, a: Lane) -> Lane:
        out = super().neg(a)
        if self._vectors_of_floats(a):
            self._opposite[out.name] = a.name
            sign = self._known.get(a.name)
            if sign is not None:
                self._known[out.name] = "size" if sign == "fall" else "fall"
        return out

    def mul(self, a: Lane, b: Lane) -> Lane:
        return self._learn(a, b, super().mul(a, b))

    def div(self, a: Lane, b: Lane) -> Lane:
        return self._learn(a, b, super().div(a, b))

    def add(self, a: Lane, b: Lane) -> Lane:
        out = super().add(a, b)
        if self._vectors_of_floats(a, b):
            signs = {self._known.get(a.name), self._known.get(b.name)}
            if signs <= {"size", "unit"} or signs == {"fall"}:
                self._known[out.name] = "size" if "fall" not in signs else "fall"
        return out

    def exp(self, a: Lane) -> Lane:
        if a.dtype.kind == "c":
            return emitter_complex.exp(self, a)
        if not self._vectors_of_floats(a):
            return self._elementary("exp", a)
        falls = self._known.get(a.name) == "fall"
        out = Floats(self, a.dtype).exp(a.name, nonpositive=falls)
        self._known[out] = "unit" if falls else "size"
        return Lane(a.dtype, (out,))

    def log1p(self, a: Lane) -> Lane:
        sign = self._known.get(a.parts[0]) if self._vectors_of_floats(a) else None
        if sign == "unit":
            return Lane(a.dtype, (Floats(self, a.dtype).log1p_unit(a.name),))
        if sign == "size":
            return Lane(a.dtype, (Floats(self, a.dtype).log1p(a.name, nonnegative=True),))
        return self._elementary("log1p", a)

    # -- the functions
    def exp2(self, a: Lane) -> Lane:
        return self._elementary("exp2", a)

    def expm1(self, a: Lane) -> Lane:
        return self._elementary("expm1", a)

    def log(self, a: Lane) -> Lane:
        return emitter_complex.log(self, a) if a.dtype.kind == "c" else self._elementary("log", a)

    def sqrt(self, a: Lane) -> Lane:
        return emitter_complex.sqrt(self, a) if a.dtype.kind == "c" else super().sqrt(a)

    def log2(self, a: Lane) -> Lane:
        return self._elementary("log2", a)

    def log10(self, a: Lane) -> Lane:
        return self._elementary("log10", a)

    def sin(self, a: Lane) -> Lane:
        return self._elementary("sin", a)

    def cos(self, a: Lane) -> Lane:
        return self._elementary("cos", a)

    def tan(self, a: Lane) -> Lane:
        return self._elementary("tan", a)

    def sinh(self, a: Lane) -> Lane:
        return self._elementary("sinh", a)

    def cosh(self, a: Lane) -> Lane:
        return self._elementary("cosh", a)

    def tanh(self, a: Lane) -> Lane:
        return self._elementary("tanh", a)

    def arcsin(self, a: Lane) -> Lane:
        return self._elementary("arcsin", a)

    def arccos(self, a: Lane) -> Lane:
        return self._elementary("arccos", a)

    def arctan(self, a: Lane) -> Lane:
        return self._elementary("arctan", a)

    def arctan2(self, y: Lane, x: Lane) -> Lane:
        return self._elementary("arctan2", y, x)

    def arcsinh(self, a: Lane) -> Lane:
        return self._elementary("arcsinh", a)

    def arccosh(self, a: Lane) -> Lane:
        return self._elementary("arccosh", a)

    def arctanh(self, a: Lane) -> Lane:
        return self._elementary("arctanh", a)

    def cbrt(self, a: Lane) -> Lane:
        return self._elementary("cbrt", a)

    def hypot(self, a: Lane, b: Lane) -> Lane:
        return self._elementary("hypot", a, b)

    def erf(self, a: Lane) -> Lane:
        return self._elementary("erf", a)

    def erfc(self, a: Lane) -> Lane:
        return self._elementary("erfc", a)

    # -- sums of exponentials
    def _log_sum(self, a: Lane, b: Lane, exponential: Callable[[Lane], Lane], factor: float | None, double: float) -> Lane:
        dtype = self._floats("logaddexp", a, b)
        largest = self.maximum(a, b)
        power = exponential(self.neg(self.abs(self.sub(a, b))))
        if self.lanes > 1 and self.fused:
            self._known[power.name] = "unit"
        rest = self.log1p(power)
        if factor is not None:
            rest = self.mul(rest, self.literal(factor, dtype))
        out = self.add(largest, rest)
        equal = self.add(a, self.literal(double, dtype))  # of equal infinities, too
        return self.select(self.eq(a, b), equal, out)

    def logaddexp(self, a: Lane, b: Lane) -> Lane:
        """log(exp(a) + exp(b))."""
        return self._log_sum(a, b, self.exp, None, np.log(2.0))

    def logaddexp2(self, a: Lane, b: Lane) -> Lane:
        """log2(2**a + 2**b)."""
        return self._log_sum(a, b, self.exp2, 1.4426950408889634, 1.0)

    # -- powers
    def pow(self, a: Lane, b: Lane) -> Lane:
        dtype = self._same("pow", a, b)
        if dtype.kind != "f":
            raise Unsupported(f"pow of {dtype}")  # of integers it raises on negative exponents, which only running it tells
        return self._elementary("pow", a, b)

    def integer_pow(self, a: Lane, n: int) -> Lane:
        """a**n for a known integer, as `x ** n` with a Python int computes it."""
        dtype = a.dtype
        if dtype.kind == "b":
            raise Unsupported("a power of bool: NumPy computes it in int8")
        if n == 0:
            return self.literal(1, dtype)
        if n == 1:
            return a
        if n == 2:
            return self.mul(a, a)
        if dtype.kind in "iu":
            return self._integer_product(a, n)
        if dtype.kind == "c":
            return emitter_complex.integer_pow(self, a, n)
        if n == -1:
            return self.reciprocal(a)
        if abs(n) > LARGEST_POWER or not self.fused:
            return self.pow(a, self.literal(float(n), dtype))
        if dtype == FLOAT64:
            return Lane(dtype, (elementary_power.integer_power(Floats(self, dtype), a.name, n),))
        return Lane(dtype, (self._widened(lambda c, x: elementary_power.integer_power_single(c, x, n), a.name),))

    def _integer_product(self, a: Lane, n: int) -> Lane:
        if n < 0:
            raise Unsupported("NumPy raises for integers to negative powers")
        value = a
        for digit in bin(n)[3:]:
            value = self.mul(value, value)
            if digit == "1":
                value = self.mul(value, a)
        return value
