"""Elementary functions of lanes: which of our own functions runs, inline or shared, and when it is the C library's.

Idea: short functions (exp, log, tanh, sin ...) are written where they are used; long ones once per module, as functions of
vectors that are called. Single precision has short functions of its own; for the long ones it is widened to double precision.
A scalar calls the C library, which for one number is as quick, and so does every lane of a vector on a processor without
fused multiply-add. The signs of squares, sizes and constants spare exp and log1p limits and choices: `KnownSigns`. Trap: a
function of the C library is used only where every libm has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.backends.native import elementary_error, elementary_inverse, elementary_power, elementary_trigonometric, ir
from funcad.backends.native.elementary import Floats
from funcad.backends.native.lane_types import Lane, element_of
from funcad.backends.plans.element_writer import FLOAT32, FLOAT64

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
NAMES = frozenset([*_INLINE, *_WIDENED])
TELLING = frozenset(["mul", "div", "add", "neg", "exp", "exp2", "abs", "hypot"])  # atoms whose sign may be known
LARGEST_POWER = 64  # from there on integer powers are pow's


class KnownSigns:
    """What is known of values that are not NaN: the sign bit is clear ("size") or set ("fall"), or it is in [0, 1] ("unit")."""

    def __init__(self) -> None:
        self.signs: dict[str, str] = {}
        self._opposite: dict[str, str] = {}  # a value -> that which it is the negative of

    def literal(self, name: str, value: Any) -> None:
        self.signs[name] = "fall" if math.copysign(1.0, value) < 0 else "size"

    def learn(self, atom: str, out: str, x: str, y: str = "") -> None:
        """What the operands' signs tell of the result of an atom in `TELLING`."""
        signs = [self.signs.get(x), self.signs.get(y)]
        found = None
        if atom in ("mul", "div"):
            if None not in signs:
                found = "size" if signs.count("fall") != 1 else "fall"
            elif x == y:
                found = "size"
            elif self._opposite.get(x) == y or self._opposite.get(y) == x:
                found = "fall"
        elif atom == "add":
            if None not in signs and (signs[0] == "fall") == (signs[1] == "fall"):
                found = "fall" if signs[0] == "fall" else "size"
        elif atom == "neg":
            self._opposite[out] = x
            found = {"fall": "size", "size": "fall", "unit": "fall"}.get(signs[0] or "")
        elif atom in ("exp", "exp2"):
            found = "unit" if signs[0] == "fall" else "size"
        else:
            found = "size"
        if found is not None:
            self.signs[out] = found


# -- how a function is computed
def _libm(e: Any, name: str, dtype: np.dtype, operands: Sequence[str]) -> str:
    """The C library's function, lane by lane."""
    element = element_of(dtype)
    full = _LIBM.get(name, name) + ("f" if dtype == FLOAT32 else "")
    if e.lanes == 1:
        return e.function.intrinsic(full, element, *[(element, o) for o in operands])
    vector = e.vector(element)
    out = "poison"
    for i in range(e.lanes):
        each = [(element, e.put(f"extractelement {vector} {o}, i64 {i}")) for o in operands]
        value = e.function.intrinsic(full, element, *each)
        out = e.put(f"insertelement {vector} {out}, {element} {value}, i64 {i}")
    return out


def _shared(
    e: Any, name: str, dtype: np.dtype, operands: Sequence[str], body: Callable[..., str], attributes: str = "nounwind"
) -> str:
    """A call of a function of vectors that is in the module once; `body(emitter, *names)` writes it."""
    kind = e.register(dtype)
    full = f"elementary_{name}_{e.lanes}x{element_of(dtype)}"
    if full not in e.module.functions:
        parameters = [(kind, f"%x{i}") for i in range(len(operands))]
        function = ir.Function(e.module, full, parameters, returns=f"internal {kind}", attributes=attributes)
        inner = type(e)(function, e.lanes, e.host)
        function.do(f"ret {kind} {body(inner, *[n for _, n in parameters])}")
        e.module.add(function)
    return f"call {kind} @{full}({', '.join([f'{kind} {o}' for o in operands])})"


def where_rare(e: Any, name: str, c: Floats, condition: str, operands: Sequence[str], out: str) -> str:
    """`out`, but the C library's result on lanes where `condition` holds; costs a test and a branch where none does."""
    function = e.function
    before, rare, done = function.block, function.label("rare"), function.label("usual")
    some = condition if e.lanes == 1 else c.any(condition)
    function.do(f"br i1 {some}, label %{rare}, label %{done}")
    function.open(rare)
    if e.lanes == 1:
        full = _LIBM.get(name, name) + ("" if c.double else "f")
        target = e.module.declare(full, c.kind, [c.kind] * len(operands))
        found = function.load(f"call {c.kind} {target}({', '.join([f'{c.kind} {o}' for o in operands])})")
    else:
        body = lambda e, *x: _libm(e, name, c.dtype, x)
        found = function.load(_shared(e, f"rare_{name}", c.dtype, operands, body, "cold noinline nounwind"))
    found = function.load(f"select {c.truth} {condition}, {c.kind} {found}, {c.kind} {out}")
    function.do(f"br label %{done}")
    function.open(done)
    return function.load(f"phi {c.kind} [{out}, %{before}], [{found}, %{rare}]")


def elementary(e: Any, name: str, dtype: np.dtype, lanes: Sequence[Lane]) -> Lane:
    """An elementary function of floats, by what is known of their signs."""
    operands = [lane.name for lane in lanes]
    if e.lanes == 1 or not e.fused:
        return Lane(dtype, (_libm(e, name, dtype, operands),))
    c, sign = Floats(e, dtype), e.known.signs.get(operands[0])
    if name == "exp" and sign == "fall":
        return Lane(dtype, (c.exp(operands[0], nonpositive=True),))
    if name == "log1p" and sign == "unit":
        return Lane(dtype, (c.log1p_unit(operands[0]),))
    if name == "log1p" and sign == "size":
        return Lane(dtype, (c.log1p(operands[0], nonnegative=True),))
    if name in _INLINE:
        return Lane(dtype, (_INLINE[name](c, *operands),))
    if dtype == FLOAT64 or name in _SHARED_SINGLE:
        function = (_SHARED if dtype == FLOAT64 else _SHARED_SINGLE)[name]
        return Lane(dtype, (e.put(_shared(e, name, dtype, operands, lambda e, *x: function(Floats(e, dtype), *x))),))
    function = _WIDENED[name]
    return Lane(dtype, (e.put(_shared(e, name, dtype, operands, lambda e, *x: _widened(e, function, *x))),))


def float_power(e: Any, a: Lane, n: int) -> Lane:
    """a**n of floats; with more than one rounding error only where that is a fraction of a unit."""
    dtype = a.dtype
    if n == -1:
        return e.reciprocal(a)  # type: ignore[no-any-return]
    if abs(n) > LARGEST_POWER or not e.fused:
        return e.pow(a, e.literal(float(n), dtype))  # type: ignore[no-any-return]
    if dtype == FLOAT64:
        return Lane(dtype, (elementary_power.integer_power(Floats(e, dtype), a.name, n),))
    return Lane(dtype, (_widened(e, lambda c, x: elementary_power.integer_power_single(c, x, n), a.name),))


def _widened(e: Any, function: Callable[..., str], *operands: str) -> str:
    """A function of double precision for operands of single precision."""
    single, double = e.register(FLOAT32), e.register(FLOAT64)
    wide = [e.put(f"fpext {single} {o} to {double}") for o in operands]
    return e.put(f"fptrunc {double} {function(Floats(e, FLOAT64), *wide)} to {single}")
