"""NumPy's rules for one element in C99 that is C++, too: texts of atoms, types and literals.

Idea: as for every engine, an equation is its formula, atom by atom; each atom is a constant of its own, so that nothing depends
on what binds stronger in C. Invariant: arithmetic is bit for bit NumPy's when the compiler contracts nothing
(`-ffp-contract=off`), elementary functions are those of libm, within 2 ulp; what has no text is `Unsupported`. Traps: signed
integers must not overflow in C, so that sums and products are computed in uint64_t and cut; C++ has no complex numbers of
C's, so that they are structs; an array of bools is one of uint8_t, an element of it a bool.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.plans.element_plan import Unsupported
from funcad.backends.plans.element_writer import BOOL, C_COMPARED, C_FUNCTIONS, ElementWriter, c_code, part_of
from funcad.primitives.atoms import TRUTHS

C_TYPES = {  # of elements in memory
    "bool": "uint8_t", **{f"{u}int{n}": f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)},
    "float32": "float", "float64": "double", "complex64": "fc_c64", "complex128": "fc_c128",
}  # fmt: skip
_CODE = c_code("(uint64_t){0}", lambda name, sign: f"(uint64_t){{0}} {sign} (uint64_t){{1}}", "signbit({0}) != 0")


# -- types and literals
#
# A float is written with the fewest digits that read back as itself, with a point or an exponent, so that it is one in C, too.
# The least integer of 64 bits has no literal: its absolute value is none. Headers of C99 define NAN and INFINITY as floats.


class CValue(NamedTuple):
    """A number: a literal, or the name of a variable."""

    dtype: np.dtype
    text: str


def c_type(dtype: Any) -> str:
    """The type in C of the elements of a dtype in memory."""
    found = C_TYPES.get(np.dtype(dtype).name)
    if found is None:
        raise Unsupported(f"{np.dtype(dtype)} has no type in C")
    return found


def lane_type(dtype: np.dtype) -> str:
    """The type of one element that is computed with."""
    return "bool" if dtype.kind == "b" else c_type(dtype)


def literal(value: Any, dtype: np.dtype) -> CValue:
    """A number as C reads it back, bit for bit (of NaN the sign)."""
    value = dtype.type(value)
    if dtype.kind != "c":
        return CValue(dtype, _text(value))
    return CValue(dtype, f"{c_type(dtype)}_of({_text(value.real)}, {_text(value.imag)})")


def initial(value: Any) -> str:
    """A NumPy scalar among those that a table begins with."""
    return f"{{{_text(value.real)}, {_text(value.imag)}}}" if value.dtype.kind == "c" else _text(value, plain=True)


def _text(value: Any, plain: bool = False) -> str:
    kind, size = value.dtype.kind, value.dtype.itemsize
    c_type(value.dtype)  # may be Unsupported
    if kind == "b":
        return str(int(value))
    if kind in "iu":
        number = int(value)
        if number == -(2**63):
            return "(-INT64_C(9223372036854775807) - 1)"
        size_64, size_32 = ("UINT64_C({})", "{}u") if kind == "u" else ("INT64_C({})", "{}")
        text = (size_64 if size == 8 else size_32).format(abs(number))
        text = f"-{text}" if number < 0 else text
        return text if plain else f"(({c_type(value.dtype)}){text})"
    sign = "-" if np.signbit(value) else ""
    text = repr(abs(float(value))) + ("f" if size == 4 else "")
    if size == 4 and math.isfinite(value):
        text = f"{str(abs(value)) if 'e' in str(value) or '.' in str(value) else f'{abs(value)}.0'}f"
    if math.isnan(value):
        text = "NAN"
    elif math.isinf(value):
        text = "INFINITY"
    cast = "(double)" if size == 8 and not math.isfinite(value) else ""
    return f"({cast}{sign}{text})" if sign or cast else text


# -- complex numbers, where the statement for all engines has none
#
# NumPy orders them by real parts first, and takes none with a NaN for smaller or larger. Functions of C's own of complex
# numbers are not called: C++ cannot take them, and their values at special points are not NumPy's.


def _ordered(word: str) -> Callable[..., Any]:
    """An order of complex numbers: by the real parts first; NaN in none."""

    def compared(e: Any, a: Any, b: Any) -> Any:
        (r, i), (s, j) = [(e.real(z), e.imag(z)) for z in (a, b)]
        known = e.and_(e.eq(i, i), e.eq(j, j))
        return e.or_(
            e.and_(getattr(e, word[:2].replace("le", "lt").replace("ge", "gt"))(r, s), known),
            e.and_(e.eq(r, s), getattr(e, word)(i, j)),
        )

    return compared


_COMPLEX: dict[str, Callable[..., Any]] = {word: _ordered(word) for word in ("lt", "le", "gt", "ge")}
_COMPLEX |= {
    "maximum": lambda e, a, b: e.select(e.or_(e.ge(a, b), e.ne(a, a)), a, b),
    "minimum": lambda e, a, b: e.select(e.or_(e.le(a, b), e.ne(a, a)), a, b),
    "fmax": lambda e, a, b: e.select(e.or_(e.ge(a, b), e.ne(b, b)), a, b),
    "fmin": lambda e, a, b: e.select(e.or_(e.le(a, b), e.ne(b, b)), a, b),
    "reciprocal": lambda e, a: e.div(e.like(a, 1), a),
    "conj": lambda e, a: e.pair(e.real(a), e.neg(e.imag(a))),
    "rint": lambda e, a: e.pair(e.rint(e.real(a)), e.rint(e.imag(a))),
}


# -- what compilers warn of
#
# A comparison that is known from the types (of an unsigned number with 0, of a number with itself) is right, and compilers
# still ask whether it was meant. Programs have them: a formula for all integers meets one of them.


def _known_of(name: str, dtype: np.dtype, texts: Sequence[str]) -> bool | None:
    """A comparison of which compilers say that it is known, or None."""
    a, b = texts
    if a == b:
        return name in ("eq", "le", "ge")
    if dtype.kind in "bu":
        least = literal(0, dtype).text
        if b == least and name in ("lt", "ge") or a == least and name in ("gt", "le"):
            return name in ("ge", "le")
        if dtype.kind == "b" and (b == "1" and name in ("gt", "le") or a == "1" and name in ("lt", "ge")):
            return name in ("ge", "le")
    return None


class CElements(ElementWriter):
    """Writes the statements of one element: `line(text)` takes them, `fresh(letter)` gives names."""

    literal = staticmethod(literal)

    def __init__(self, line: Callable[[str], None], fresh: Callable[[str], str], function: Callable[..., str | None]):
        self.line, self.fresh = line, fresh
        self.function = function  # our own function of C's for an atom, if there is one

    def put(self, dtype: np.dtype, text: str) -> CValue:
        name = self.fresh("v")
        self.line(f"const {lane_type(dtype)} {name} = {text};")
        return CValue(dtype, name)

    def load(self, dtype: np.dtype, place: str) -> CValue:
        """An element in memory."""
        return self.put(dtype, f"{place} != 0" if dtype.kind == "b" else place)

    def convert(self, x: CValue, dtype: np.dtype) -> CValue:
        if x.dtype == dtype:
            return x
        if dtype.kind == "c":
            part = c_type(part_of(dtype))
            imag = f"({part}){x.text}.im" if x.dtype.kind == "c" else "0"
            return self.put(dtype, f"{c_type(dtype)}_of(({part}){self._real(x)}, {imag})")
        if dtype.kind == "b":
            whole = f" || {x.text}.im != 0" * (x.dtype.kind == "c")
            return self.put(dtype, f"{self._real(x)} != 0{whole}")
        through = "(int64_t)" if x.dtype.kind in "fc" and dtype.kind in "iu" and dtype.itemsize < 8 else ""
        return self.put(dtype, f"({c_type(dtype)}){through}{self._real(x)}")

    def _real(self, x: CValue) -> str:
        return f"{x.text}.re" if x.dtype.kind == "c" else x.text

    def base(self, name: str, dtype: np.dtype, operands: Sequence[CValue]) -> CValue | None:
        kind, texts = dtype.kind, [x.text for x in operands]
        lane_type(dtype)  # may be Unsupported
        result = BOOL if name in TRUTHS or name == "below" else part_of(dtype) if name == "abs" else dtype
        known = _known_of(name, dtype, texts) if name in C_COMPARED and kind in "biu" else None
        if known is not None:
            return literal(known, BOOL)
        if name in _CODE[kind]:
            found = _CODE[kind][name].format(*texts)
            return self.put(result, f"({c_type(dtype)})({found})" if kind in "iu" and result == dtype else found)
        own = self.function(name, dtype) if kind == "f" else None
        if own is not None:
            return self.put(result, f"{own}({texts[0]})")
        if kind == "f" and name in C_FUNCTIONS:
            return self.put(result, f"{C_FUNCTIONS[name]}{'f' if dtype.itemsize == 4 else ''}({', '.join(texts)})")
        if kind == "c" and name in _COMPLEX:
            of_parts: CValue = _COMPLEX[name](self, *operands)
            return of_parts
        return None

    def choice(self, condition: CValue, a: CValue, b: CValue) -> CValue:
        return self.put(a.dtype, f"{condition.text} ? {a.text} : {b.text}")

    def multiply_add(self, a: CValue, b: CValue, total: CValue) -> CValue:
        return self.add(total, self.mul(a, b))

    def power(self, x: CValue, n: int) -> CValue:
        return self.atom("pow", x, literal(n, x.dtype))

    def real(self, z: CValue) -> CValue:
        return CValue(part_of(z.dtype), f"{z.text}.re") if z.dtype.kind == "c" else z

    def imag(self, z: CValue) -> CValue:
        return CValue(part_of(z.dtype), f"{z.text}.im")

    def pair(self, a: CValue, b: CValue) -> CValue:
        """The complex number of these parts."""
        dtype = np.dtype(f"c{2 * a.dtype.itemsize}")
        return self.put(dtype, f"{c_type(dtype)}_of({a.text}, {b.text})")
