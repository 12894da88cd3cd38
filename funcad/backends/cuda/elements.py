"""The formulas of elements as CUDA C++: one `Elements` writes the statements of one element of a group.

Idea: `CODE` has a text for each atom, by the kind of its dtype, where C++ computes what NumPy's ufunc computes, and the name of
a function of the prelude where it does not. An equation is its formula, atom by atom, each a constant of its own, so that the
text reads like the program. Invariant: arithmetic is bit for bit NumPy's (nothing is contracted: NVRTC is told so), elementary
functions are CUDA's own, within 2 ulp; what has no text is `Unsupported`, and runs as a line of CuPy's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.plans.element_plan import operand_dtypes
from funcad.backends.plans.unsupported import Unsupported
from funcad.primitives.atoms import formula_of

__all__ = ["Elements", "ElementValue", "Unsupported", "c_type", "literal"]


C_TYPES = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long long",
    "float16": "fc_half", "float32": "float", "float64": "double",
    "complex64": "fc_complex<float>", "complex128": "fc_complex<double>",
}  # fmt: skip
_FLOAT16, _FLOAT32, _FLOAT64 = [np.dtype(f"f{n}") for n in (2, 4, 8)]
_FUNCTIONS = {  # of C, by the atom; float32's have an f behind the name
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "arctan2": "atan2", "abs": "fabs",
    **{n: n for n in "sqrt cbrt pow hypot fmod copysign floor ceil rint trunc exp exp2 expm1 log log2 log10 log1p".split()},
    **{n: n for n in "sin cos tan sinh cosh tanh erf erfc".split()},
}  # fmt: skip
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_TRUTH = {"logical_and": "{0} && {1}", "logical_or": "{0} || {1}", "logical_xor": "{0} != {1}", "logical_not": "!{0}"}
_OF_FLOATS = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}", "reciprocal": "1 / {0}",
    **{n: f"fc_{n}({{0}}, {{1}})" for n in "floor_divide mod maximum minimum fmax fmin logaddexp logaddexp2".split()},
    "sign": "fc_sign({0})",
}  # fmt: skip
_OF_INTEGERS = {
    **{n: f"fc_{n}({{0}}, {{1}})" for n in "add sub mul shift_left shift_right maximum minimum fmax fmin".split()},
    **{n: f"fc_{n}_i({{0}}, {{1}})" for n in "floor_divide mod fmod".split()},
    "neg": "fc_neg({0})", "abs": "fc_abs({0})", "sign": "fc_sign({0})", "and_": "{0} & {1}", "or_": "{0} | {1}",
    "xor": "{0} ^ {1}", "not_": "~{0}", "floor": "{0}", "ceil": "{0}", "trunc": "{0}",
}  # fmt: skip
_OF_BOOLS = {
    "and_": "{0} && {1}", "or_": "{0} || {1}", "xor": "{0} != {1}", "not_": "!{0}", "add": "{0} || {1}", "mul": "{0} && {1}",
    "maximum": "{0} || {1}", "minimum": "{0} && {1}", "fmax": "{0} || {1}", "fmin": "{0} && {1}", "abs": "{0}",
    "floor": "{0}", "ceil": "{0}", "trunc": "{0}",
}  # fmt: skip
_OF_COMPLEX = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}",
    **{n: f"fc_{n}({{0}}, {{1}})" for n in "maximum minimum fmax fmin pow".split()},
    **{n: f"fc_{n}({{0}})" for n in "reciprocal sign sqrt exp exp2 expm1 log log2 log10 log1p".split()},
    **{n: f"fc_{n}({{0}})" for n in "sin cos tan sinh cosh tanh".split()},
    "rint": "fc_of(rint({0}.re), rint({0}.im))",
}  # fmt: skip
_TESTS = {"isnan": "{0} != {0}", "isinf": "isinf({0})", "isfinite": "isfinite({0})", "signbit": "signbit({0})"}
_OF_PARTS = {"isnan": "{0} != {0}", "isinf": "isinf({0}.re) || isinf({0}.im)"}
_OF_PARTS["isfinite"] = "isfinite({0}.re) && isfinite({0}.im)"
_OF_WHOLE = {"isnan": "false", "isinf": "false", "isfinite": "true"}
CODE: dict[str, dict[str, str]] = {
    "f": _OF_FLOATS, "i": _OF_INTEGERS, "u": _OF_INTEGERS, "b": _OF_BOOLS, "c": _OF_COMPLEX,
}  # fmt: skip


class ElementValue(NamedTuple):
    """The value of one element."""

    dtype: np.dtype
    text: str


def c_type(dtype: Any) -> str:
    """The type in C++ of the elements of a dtype."""
    found = C_TYPES.get(np.dtype(dtype).name)
    if found is None:
        raise Unsupported(f"{dtype} has no CUDA code")
    return found


def part_of(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of complex numbers."""
    return _FLOAT32 if dtype.itemsize == 8 else _FLOAT64


def literal(value: Any, dtype: np.dtype) -> ElementValue:
    """A number as C++ reads it back, bit for bit."""
    kind, ctype = dtype.kind, c_type(dtype)
    value = dtype.type(value)
    if kind == "c":
        return ElementValue(dtype, f"fc_of({', '.join([literal(x, part_of(dtype)).text for x in (value.real, value.imag)])})")
    if dtype == _FLOAT16:
        return ElementValue(dtype, f"fc_bits({value.view(np.uint16)})")
    if kind == "b":
        return ElementValue(dtype, "true" if value else "false")
    if kind in "iu":
        number = int(value)
        text = f"{number}{'ull' if kind == 'u' else 'll'}" if number > -(2**63) else "-9223372036854775807ll - 1"
        return ElementValue(dtype, f"(({ctype})({text}))")
    if math.isnan(value):
        return ElementValue(dtype, f"{ctype}({'-' if np.signbit(value) else ''}fc_nan())")
    if math.isinf(value):
        return ElementValue(dtype, f"{ctype}({'-' if value < 0 else ''}fc_infinity())")
    text = float(value).hex() + ("f" if dtype.itemsize == 4 else "")
    return ElementValue(dtype, f"({text})" if text.startswith("-") else text)


class Elements:
    """Writes the statements of one element into `lines`."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def put(self, dtype: np.dtype, text: str) -> ElementValue:
        name = f"v{len(self.lines)}"
        self.lines.append(f"const {c_type(dtype)} {name} = {text};")
        return ElementValue(dtype, name)

    def apply(self, equation: Any, operands: Sequence[ElementValue]) -> ElementValue:
        """The code of one elementwise equation; a lane in another dtype than the equation's is converted if it is weak."""
        primitive = equation.primitive
        if primitive.emit is None:
            raise Unsupported(f"{primitive.name} has no code for one element")
        result: np.dtype = equation.outputs[0].aval.dtype
        lanes = []
        for lane, dtype, atom in zip(operands, operand_dtypes(equation), equation.inputs, strict=True):
            if lane.dtype != dtype and not atom.aval.weak:
                raise Unsupported(f"{primitive.name}: an operand is {lane.dtype}, the equation computes in {dtype}")
            lanes.append(self.convert(lane, dtype))
        lane = self._element(formula_of(equation), lanes, result)
        if lane.dtype != result:
            raise Unsupported(f"{primitive.name} gives {lane.dtype}, the program has {result}")
        return lane

    def _element(self, formula: Any, operands: Sequence[ElementValue], result: np.dtype) -> ElementValue:
        lanes = dict(enumerate(operands, -len(operands)))
        constants = {i: call.told[0] for i, call in enumerate(formula.calls) if call.name == "const"}

        def lane(a: int, dtype: np.dtype) -> ElementValue:
            return self._constant(constants[a], dtype) if a in constants else lanes[a]

        for i, (name, reads, told) in enumerate(formula.calls):
            if i not in constants:
                alike = [lanes[a].dtype for a in reads[name == "select" :] if a not in constants]
                lanes[i] = self.atom(name, [lane(a, alike[0] if alike else result) for a in reads], told)
        return lane(formula.result, result)

    def _constant(self, value: Any, dtype: np.dtype) -> ElementValue:
        if dtype.kind in "biu" and not float(value).is_integer():
            raise Unsupported(f"{value} is no {dtype}")
        return literal(value, dtype)

    def convert(self, x: ElementValue, dtype: np.dtype) -> ElementValue:
        if x.dtype == dtype:
            return x
        if dtype == _FLOAT16:
            return self.put(dtype, f"fc_to_half({x.text if x.dtype in (_FLOAT32, _FLOAT64) else self._real(x, _FLOAT32)})")
        if dtype.kind == "c":
            parts = [self._real(x, part_of(dtype)), f"{c_type(part_of(dtype))}({x.text}.im)" if x.dtype.kind == "c" else "0"]
            return self.put(dtype, f"fc_of<{c_type(part_of(dtype))}>({', '.join(parts)})")
        if dtype.kind == "b":
            whole = f" || {x.text}.im != 0" * (x.dtype.kind == "c")
            return self.put(dtype, f"{self._real(x)} != 0{whole}")
        return self.put(dtype, self._real(x, dtype))

    def _real(self, x: ElementValue, dtype: np.dtype | None = None) -> str:
        """The real part as C++'s number of a dtype, or as it is."""
        text = {"c": f"{x.text}.re", "f": f"fc_float({x.text})" if x.dtype == _FLOAT16 else x.text}.get(x.dtype.kind, x.text)
        if dtype is None or x.dtype.kind == "c" and dtype == part_of(x.dtype):
            return text
        through = "(long long)" if x.dtype.kind in "fc" and dtype.kind in "iu" and dtype.itemsize < 8 else ""
        return f"({c_type(dtype)}){through}{text}"

    def atom(self, name: str, lanes: list[ElementValue], told: tuple) -> ElementValue:
        """The statement of one atom."""
        texts, first = [x.text for x in lanes], lanes[0]
        if name == "convert":
            return self.convert(first, np.dtype(told[0]))
        if name == "select":
            mask = self.convert(first, np.dtype(bool))
            if lanes[1].dtype != lanes[2].dtype:
                raise Unsupported(f"a choice between {lanes[1].dtype} and {lanes[2].dtype}")
            return self.put(lanes[1].dtype, f"{mask.text} ? {texts[1]} : {texts[2]}")
        dtype, kind = first.dtype, first.dtype.kind
        if any([x.dtype != dtype for x in lanes]):
            raise Unsupported(f"{name} of {', '.join([str(x.dtype) for x in lanes])}")
        if dtype == _FLOAT16:  # computed in float, and rounded
            found = self.atom(name, [self.convert(x, _FLOAT32) for x in lanes], told)
            return self.convert(found, dtype) if found.dtype == _FLOAT32 else found
        if name == "integer_pow":
            return self._integer_pow(first, told[0])
        if name in _COMPARED:
            return self.put(np.dtype(bool), f"{texts[0]} {_COMPARED[name]} {texts[1]}")
        if name in _TRUTH:
            return self.put(np.dtype(bool), _TRUTH[name].format(*[self.convert(x, np.dtype(bool)).text for x in lanes]))
        if name in _TESTS:
            tests = {"f": _TESTS, "c": _OF_PARTS}.get(kind, _OF_WHOLE)
            if name not in tests:
                raise Unsupported(f"{name} of {dtype}")
            return self.put(np.dtype(bool), tests[name].format(*texts))
        if name == "abs" and kind == "c":
            return self.put(part_of(dtype), f"fc_size({texts[0]})")
        if name == "div" and kind in "biu":
            return self.atom(name, [self.convert(x, _FLOAT64) for x in lanes], told)
        if kind == "f" and name in _FUNCTIONS:
            suffix = "f" if dtype.itemsize == 4 else ""
            return self.put(dtype, f"{_FUNCTIONS[name]}{suffix}({', '.join(texts)})")
        text = CODE[kind].get(name)
        if text is None:
            raise Unsupported(f"{name} of {dtype}")
        found = text.format(*texts)
        return self.put(dtype, f"({c_type(dtype)})({found})" if kind in "iu" else found)

    def _integer_pow(self, x: ElementValue, n: int) -> ElementValue:
        kind = x.dtype.kind
        if kind == "c":
            if abs(n) >= 100:
                return self.atom("pow", [x, literal(n, x.dtype)], ())
            return self.put(x.dtype, f"fc_power({x.text}, {n})")
        if kind == "f":
            return self.atom("pow", [x, literal(n, x.dtype)], ())
        if kind == "b" or n < 0:
            raise Unsupported(f"{x.dtype} to the power of {n}")
        return self.put(x.dtype, f"fc_power({x.text}, {n})")
