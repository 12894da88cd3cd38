"""Whole programs of float64 scalars, run through Python's `math`.

Idea: a ufunc on one number costs a microsecond's fraction that is twenty times the arithmetic; Python's floats and `math` do
the same in tens of nanoseconds. Arithmetic is the same IEEE operation; `math` and NumPy call the same kind of library and
agree to one ulp. Where Python raises and NumPy does not (log of zero, overflow, division by zero), the whole run is redone by
NumPy. Invariants: only rank-0 float64 and bool values, no effects; results are NumPy scalars where the aval is strong,
Python's where it is weak. Trap: integers among the operands would give integers (-0 is 0), so literals are written as floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.backends.text import Writer
from funcad.ir.aval import Aval, is_a
from funcad.ir.jaxpr import Jaxpr, Literal

__all__ = ["write_scalars"]

_F64, _BOOL = np.dtype(np.float64), np.dtype(bool)

TEXTS = {
    "neg": "-{0}",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "square": "{0} * {0}",
    "reciprocal": "1.0 / {0}",
    "mul_add": "{0} * {1} + {2} * {3}",
    "tanh_linear": "{0} * (1.0 - {1} * {1})",
    "logistic_linear": "{0} * ({1} * (1.0 - {1}))",
    "rsqrt": "1.0 / sqrt({0})",
    "abs": "abs({0})",
    "select": "{1} if {0} else {2}",
    "stop_gradient": "{0}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "isnan": "{0} != {0}",
    "not": "not {0}",
    "and": "{0} and {1}",
    "or": "{0} or {1}",
    "xor": "{0} != {1}",
    "arctan2": "atan2({0}, {1})",
    "hypot": "hypot({0}, {1})",
    "copysign": "copysign({0}, {1})",
    "pow": "pow({0}, {1})",
}
_LOGICAL = ("not", "and", "or", "xor")  # on numbers they mean something else
_ONE_ARGUMENT = {
    "sin": "sin", "cos": "cos", "tan": "tan", "exp": "exp", "expm1": "expm1", "log": "log", "log1p": "log1p", "log2": "log2",
    "log10": "log10", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "sqrt": "sqrt", "isinf": "isinf", "isfinite": "isfinite",
}  # fmt: skip
_BY_NUMPY = frozenset(
    "maximum minimum fmax fmin sign floor ceil rint trunc fmod mod floor_divide cbrt exp2 logaddexp logaddexp2 heaviside "
    "nextafter signbit".split()
)
_MATH = ("sin cos tan exp expm1 log log1p log2 log10 asin acos atan atan2 sinh cosh tanh asinh acosh atanh sqrt hypot "
         "copysign pow isinf isfinite").split()  # fmt: skip


def _scalar(aval: Any) -> bool:
    return isinstance(aval, Aval) and not aval.shape and aval.dtype in (_F64, _BOOL)


def write_scalars(w: Writer, jaxpr: Jaxpr, general: Callable[[list], list]) -> bool:
    """Write the program if it is made of scalars that `math` computes; `general` runs it by NumPy."""
    if not jaxpr.equations or not all([_scalar(v.aval) and v.aval.dtype == _F64 for v in jaxpr.inputs]):
        return False
    names: dict[Any, str] = {}
    body: list[tuple[str, Any]] = []
    for v in jaxpr.inputs:
        names[v] = w.name()
    given = ", ".join([names[v] for v in jaxpr.inputs])

    def text(atom: Any) -> str | None:
        if type(atom) is not Literal:
            return names[atom]
        value = atom.value
        if is_a(value, (bool, np.bool_)):
            return repr(bool(value))
        if is_a(value, (int, float)) and abs(value) < 2**53 or is_a(value, float):
            return w.literal(float(value))
        return None

    for equation in jaxpr.equations:
        primitive = equation.primitive
        if primitive.multiple or primitive.effect or not _scalar(equation.outputs[0].aval):
            return False
        operands = [text(a) for a in equation.inputs]
        if any([o is None for o in operands]):
            return False
        line = _line(equation, operands)
        if line is None:
            return False
        (v,) = equation.outputs
        names[v] = w.name()
        body.append((f"{names[v]} = {line}", equation))
    outputs = []
    for o in jaxpr.outputs:
        if type(o) is Literal:
            outputs.append(w.literal(o.value))
        elif o in jaxpr.inputs:
            return False  # what came in goes out unchanged, whatever it is
        else:
            kind = "float64" if o.aval.dtype == _F64 else "bool_"
            outputs.append(names[o] if o.aval.weak else f"{kind}({names[o]})")
    scope = {name: getattr(math, name) for name in _MATH}
    for name, value in {**scope, "float64": np.float64, "bool_": np.bool_, "general": general}.items():
        w.helper(name, value)
    w.line(f"[{given}] = values" if given else "values.clear()")
    w.line("try:")
    with w.within(w.inner()):
        for v in jaxpr.inputs:
            if not v.aval.weak:
                w.line(f"{names[v]} = float({names[v]})")
        for line, equation in body:
            w.equation = equation
            w.line(line)
        w.equation = None
        w.line("values.clear()")
        w.line(f"return [{', '.join(outputs)}]")
    w.line("except (ValueError, OverflowError, ZeroDivisionError):")
    with w.within(w.inner()):
        w.line("return general(values)")
    return True


def _line(equation: Any, operands: list[Any]) -> str | None:
    name, params = equation.primitive.name, equation.params
    dtypes = {a.aval.dtype for a in equation.inputs}
    if name in _LOGICAL and dtypes != {_BOOL}:
        return None
    if name == "convert":
        if params["dtype"] == _BOOL:
            return f"{operands[0]} != 0.0"
        return f"float({operands[0]})" if params["dtype"] == _F64 and not params.get("weak") else None
    if name == "integer_pow":
        return f"{operands[0]} * {operands[0]}" if params["n"] == 2 else f"pow({operands[0]}, {float(params['n'])!r})"
    if params:
        return None
    if name != "select" and _BOOL in dtypes and name not in (*_LOGICAL, "stop_gradient"):
        return None  # arithmetic of bools is NumPy's own
    if name in TEXTS:
        return TEXTS[name].format(*operands)
    if name in _ONE_ARGUMENT:
        return f"{_ONE_ARGUMENT[name]}({operands[0]})"
    if name in _BY_NUMPY and equation.primitive.ufunc is not None:
        kind = "bool" if equation.outputs[0].aval.dtype == _BOOL else "float"
        return f"{kind}(np.{equation.primitive.ufunc.__name__}({', '.join(operands)}))"
    return None
