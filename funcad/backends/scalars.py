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
from funcad.host.real_types import is_a
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Jaxpr, Literal
from funcad.primitives.atoms import UFUNCS, formula_of

__all__ = ["MATH", "TEXTS", "lines_of", "write_scalars"]

_F64, _BOOL = np.dtype(np.float64), np.dtype(bool)

# Python's text of each atom of one element's formula; atoms that are not here are NumPy's ufuncs
TEXTS = {
    "neg": "-{0}",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "reciprocal": "1.0 / {0}",
    "abs": "abs({0})",
    "select": "{1} if {0} else {2}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "isnan": "{0} != {0}",
    "not_": "not {0}",
    "and_": "{0} and {1}",
    "or_": "{0} or {1}",
    "xor": "{0} != {1}",
    **{name: f"{name}({{0}})" for name in "sin cos tan exp expm1 log log1p log2 log10 sinh cosh tanh sqrt".split()},
    **{name: f"{name}({{0}})" for name in ("isinf", "isfinite")},
    **{f"arc{name}": f"a{name}({{0}})" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "arctan2": "atan2({0}, {1})",
    **{name: f"{name}({{0}}, {{1}})" for name in ("hypot", "copysign", "pow")},
    "integer_pow": "pow({0}, {1}.0)",
}
_LOGICAL = ("not_", "and_", "or_", "xor")  # on numbers they mean something else
MATH = [name for name in dir(math) if any([text.startswith(f"{name}(") for text in TEXTS.values()])]  # what they call


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
        found = lines_of(w, equation, operands, TEXTS)
        if found is None:
            return False
        (v,) = equation.outputs
        names[v] = w.name()
        body += [(line, equation) for line in (*found[0], f"{names[v]} = {found[1]}")]
    outputs = []
    for o in jaxpr.outputs:
        if type(o) is Literal:
            outputs.append(w.literal(o.value))
        elif o in jaxpr.inputs:
            return False  # what came in goes out unchanged, whatever it is
        else:
            kind = "float64" if o.aval.dtype == _F64 else "bool_"
            outputs.append(names[o] if o.aval.weak else f"{kind}({names[o]})")
    scope = {name: getattr(math, name) for name in MATH}
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


def lines_of(w: Writer, equation: Any, operands: list[Any], own_texts: dict[str, str]) -> tuple[list[str], str] | None:
    """Lines for what the formula of an element uses more than once, and the text of the result; None if NumPy is to do it."""
    primitive, params = equation.primitive, equation.params
    kinds = {a.aval.dtype for a in equation.inputs}
    if primitive.name == "convert":
        if params["dtype"] == _BOOL:
            return [], f"{operands[0]} != 0.0"
        return ([], f"float({operands[0]})") if params["dtype"] == _F64 and not params.get("weak") else None
    if primitive.emit is None:
        by_numpy = None if params or _BOOL in kinds else _by_numpy(primitive.ufunc, operands)
        return None if by_numpy is None else ([], by_numpy)
    formula = formula_of(equation)
    atoms = set(formula.computed)
    if atoms.intersection(_LOGICAL) and kinds != {_BOOL} or _BOOL in kinds and not atoms <= {*_LOGICAL, "select"}:
        return None  # arithmetic of bools is NumPy's own
    lines: list[str] = []
    texts = dict(enumerate(operands, -len(operands)))
    often = formula.read_often()
    for i, call in enumerate(formula.calls):
        if call.name == "const":
            texts[i] = w.literal(float(call.told[0]))
            continue
        own = [*[texts[a] for a in call.reads], *call.told]
        template = own_texts.get(call.name)
        for k, operand in enumerate(own if template else ()):
            if type(operand) is str and operand[0] == "(" and template.count(f"{{{k}}}") > 1:
                own[k] = w.name()
                lines.append(f"{own[k]} = {operand}")
        text = template.format(*own) if template else _by_numpy(UFUNCS.get(call.name), own)
        if text is None:
            return None
        if i in often:
            temporary = w.name()
            lines.append(f"{temporary} = {text}")
            text = temporary
        texts[i] = text if i == formula.result or text.isidentifier() else f"({text})"
    return lines, texts[formula.result]


def _by_numpy(ufunc: Any, operands: list[Any]) -> str | None:
    """The call of NumPy's ufunc, if it has a loop for these numbers."""
    loops = "d" * len(operands) + "->"
    for kind, dtype in (("float", "d"), ("bool", "?")):
        if ufunc is not None and loops + dtype in ufunc.types:
            return f"{kind}(np.{ufunc.__name__}({', '.join(operands)}))"
    return None
