"""The formulas of elements as CUDA C++: one `Elements` writes the statements of one element of a group.

Idea: `CODE` has a text for each atom, by the kind of its dtype, where C++ computes what NumPy's ufunc computes; the others are
calls of functions of the prelude, templates that are written from the statement of each composite atom. An equation is its
formula, atom by atom, each a constant of its own, so that the text reads like the program. Invariant: arithmetic is bit for
bit NumPy's (nothing is contracted: NVRTC is told so), elementary functions are CUDA's own, within 2 ulp; what has no text is
`Unsupported`, and runs as a line of CuPy's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.plans.element_writer import BOOL, FLOAT32, FLOAT64, ElementWriter, part_of
from funcad.backends.plans.unsupported import Unsupported
from funcad.primitives.atoms import TRUTHS, UFUNCS
from funcad.primitives.composite_atoms import COMPOSITES

__all__ = ["Elements", "ElementValue", "Unsupported", "c_type", "composite_functions", "literal"]


C_TYPES = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long long",
    "float16": "fc_half", "float32": "float", "float64": "double",
    "complex64": "fc_complex<float>", "complex128": "fc_complex<double>",
}  # fmt: skip
_FLOAT16 = np.dtype(np.float16)
_FUNCTIONS = {  # of C, by the atom; float32's have an f behind the name
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "arctan2": "atan2", "abs": "fabs",
    **{n: n for n in "sqrt cbrt pow hypot fmod copysign floor ceil rint trunc exp exp2 expm1 log log2 log10 log1p".split()},
    **{n: n for n in "sin cos tan sinh cosh tanh erf erfc fma".split()},
}  # fmt: skip
_COMPARED = {f"{n}": f"{{0}} {sign} {{1}}" for n, sign in zip("eq ne lt le gt ge".split(), "== != < <= > >=".split())}
_OF_INTEGERS = {
    **{n: f"fc_{n}({{0}}, {{1}})" for n in ("add", "sub", "mul")}, "quotient": "{0} / {1}", "rest": "{0} % {1}",
    "and_": "{0} & {1}", "or_": "{0} | {1}", "xor": "{0} ^ {1}", "not_": "~{0}",
    "shifted_left": "fc_word({0}) << {1}", "shifted_right": "{0} >> {1}", "below": "fc_word({0}) < fc_word({1})", **_COMPARED,
}  # fmt: skip
CODE: dict[str, dict[str, str]] = {
    "f": {
        "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}",
        "signbit": "signbit({0})", **_COMPARED,
    },
    "i": _OF_INTEGERS,
    "u": _OF_INTEGERS,
    "b": {"and_": "{0} && {1}", "or_": "{0} || {1}", "xor": "{0} != {1}", "not_": "!{0}", **_COMPARED},
    "c": {
        **{n: f"fc_{n}({{0}}, {{1}})" for n in "lt le gt ge maximum minimum fmax fmin pow".split()},
        **{n: f"fc_{n}({{0}})" for n in "reciprocal sign exp2 expm1 log2 log10 log1p sin cos tan sinh cosh tanh".split()},
        "rint": "fc_of(rint({0}.re), rint({0}.im))",
    },
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


class Elements(ElementWriter):
    """Writes the statements of one element into `lines`."""

    literal = staticmethod(literal)
    c_type = staticmethod(c_type)

    def __init__(self) -> None:
        self.lines: list[str] = []

    def put(self, dtype: np.dtype, text: str) -> ElementValue:
        name = f"v{len(self.lines)}"
        self.lines.append(f"const {self.c_type(dtype)} {name} = {text};")
        return ElementValue(dtype, name)

    def convert(self, x: ElementValue, dtype: np.dtype) -> ElementValue:
        if x.dtype == dtype:
            return x
        if dtype == _FLOAT16:
            return self.put(dtype, f"fc_to_half({x.text if x.dtype in (FLOAT32, FLOAT64) else self._real(x, FLOAT32)})")
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

    def atom(self, name: str, *operands: Any) -> ElementValue:
        """The statement of one atom; of float16 it is computed in float, and rounded."""
        half = [type(x) is ElementValue and x.dtype == _FLOAT16 for x in operands]
        if not half[0] or name == "convert":
            found: ElementValue = super().atom(name, *operands)
            return found
        found = super().atom(name, *[self.convert(x, FLOAT32) if short else x for x, short in zip(operands, half)])
        return self.convert(found, _FLOAT16) if found.dtype == FLOAT32 else found

    def base(self, name: str, dtype: np.dtype, operands: Sequence[ElementValue]) -> ElementValue | None:
        kind, texts = dtype.kind, [x.text for x in operands]
        result = BOOL if name in TRUTHS or name == "below" else part_of(dtype) if name == "abs" else dtype
        if name in CODE[kind]:
            found = CODE[kind][name].format(*texts)
            return self.put(result, f"({self.c_type(dtype)})({found})" if kind in "iu" and result == dtype else found)
        if kind == "f" and name in _FUNCTIONS:
            return self.put(result, f"{_FUNCTIONS[name]}{'f' if dtype.itemsize == 4 else ''}({', '.join(texts)})")
        if kind == "b" or (name, kind) not in COMPOSITES or not _function(name, kind):
            return None
        return self.put(result, f"fc_{name}_{kind}({', '.join(texts)})")

    def choice(self, condition: ElementValue, a: ElementValue, b: ElementValue) -> ElementValue:
        return self.put(a.dtype, f"{condition.text} ? {a.text} : {b.text}")

    def power(self, x: ElementValue, n: int) -> ElementValue:
        return self.atom("pow", x, literal(n, x.dtype))

    def real(self, z: ElementValue) -> ElementValue:
        return ElementValue(part_of(z.dtype), f"{z.text}.re")

    def imag(self, z: ElementValue) -> ElementValue:
        return ElementValue(part_of(z.dtype), f"{z.text}.im")

    def pair(self, a: ElementValue, b: ElementValue) -> ElementValue:
        """The complex number of these parts."""
        return self.put(np.dtype(f"c{2 * a.dtype.itemsize}"), f"fc_of({a.text}, {b.text})")


class _Template(Elements):
    """Writes a function for all types T of a kind, for which the widest one stands here."""

    def c_type(self, dtype: np.dtype) -> str:
        return {"b": "bool", "c": "fc_complex<T>"}.get(dtype.kind, "T")

    def literal(self, value: Any, dtype: np.dtype) -> ElementValue:
        if dtype.kind != "c":
            return ElementValue(dtype, f"T({literal(value, dtype).text if dtype.kind == 'f' else value})")
        return ElementValue(dtype, f"fc_of({self.literal(value.real, FLOAT64).text}, {self.literal(value.imag, FLOAT64).text})")

    def sized(self, x: ElementValue, double: float, single: float) -> ElementValue:
        return self.put(x.dtype, f"sizeof(T) == 8 ? {self.like(x, double).text} : {self.like(x, single).text}")

    def width(self, x: ElementValue) -> ElementValue:
        return ElementValue(x.dtype, "T(8 * sizeof(T))")


@cache
def _function(name: str, kind: str) -> str:
    """The function of a composite atom, `fc_mod_i` of signed integers, say; nothing if it is one statement at most."""
    e, dtype = _Template(), np.dtype(f"{kind}{16 if kind == 'c' else 8}")
    operands = [ElementValue(dtype, x) for x in "ab"[: UFUNCS[name].nin]]
    found = COMPOSITES[name, kind](e, *operands)
    if len(e.lines) < 2:
        return ""
    parameters = ", ".join([f"{e.c_type(dtype)} {x.text}" for x in operands])
    head = f"template <class T> FC {e.c_type(found.dtype)} fc_{name}_{kind}({parameters}) {{"
    return "\n  ".join([head, *e.lines, f"return {found.text};"]) + "\n}\n"


def composite_functions() -> str:
    """The functions of composite atoms; those of bools are one operation."""
    return "".join([_function(name, kind) for name, kind in COMPOSITES if name not in CODE[kind] and kind != "b"])
