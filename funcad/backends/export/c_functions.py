"""Elementary functions as C, by the polynomials of the native engine, where these are faster than libm's.

Idea: `Floats` writes an elementary function in words (add, fma, select, bits ...) on names of values; here a word writes a
statement of C, so that the polynomials stand in one place. Invariant: no branch and no table, so that compilers compute
several elements at once. They need a fused multiply-add that is an instruction: where the compiler has none (`FP_FAST_FMA`
says so), and that is so without `-march=native` or `-mfma` on x86, libm's function is called. Trap: what needs a rare path
(sin, cos, tan of large numbers) stays libm's, for a branch in a loop costs more than it saves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.backends.export.c_elements import literal
from funcad.backends.native import elementary_error
from funcad.backends.native.elementary import Floats
from funcad.backends.plans.element_writer import FLOAT32, FLOAT64

_BOTH: dict[str, Callable[..., str]] = {
    "exp": Floats.exp,
    "exp2": Floats.exp2,
    "expm1": Floats.expm1,
    "log": Floats.log,
    "log1p": Floats.log1p,
    "log2": Floats.log2,
    "log10": Floats.log10,
    "tanh": Floats.tanh,
}
OWN: dict[np.dtype, dict[str, Callable[..., str]]] = {
    FLOAT64: {**_BOTH, **elementary_error.functions()},
    FLOAT32: _BOTH,
}
_SIGNS = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/"}
_BITS = {"add": "+", "sub": "-", "shl": "<<", "lshr": ">>", "and": "&", "or": "|", "xor": "^"}
_COMPARED = {"ogt": "{0} > {1}", "olt": "{0} < {1}", "oge": "{0} >= {1}", "ole": "{0} <= {1}", "oeq": "{0} == {1}"}
_COMPARED |= {"une": "{0} != {1}", "uno": "{0} != {0} || {1} != {1}", "uge": "!({0} < {1})"}


class CFloats(Floats):
    """The words of elementary functions as statements of C, for one element."""

    def __init__(self, dtype: np.dtype):
        self.lines: list[str] = []
        self.dtype = dtype
        self.double = dtype == FLOAT64
        self.size = 8 if self.double else 4
        self.kind = "double" if self.double else "float"
        self.integers = f"uint{8 * self.size}_t"
        self.truth = "bool"
        self.mantissa = 52 if self.double else 23
        self.bias = 1023 if self.double else 127
        self.magic = 1.5 * 2.0**self.mantissa

    def named(self, kind: str, text: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"const {kind} {name} = {text};")
        return name

    def k(self, x: Any) -> str:
        return x if isinstance(x, str) else literal(x, self.dtype).text

    def ik(self, x: Any) -> str:
        return x if isinstance(x, str) else f"UINT{8 * self.size}_C({x % (1 << 8 * self.size)})"

    def op(self, name: str, a: Any, b: Any) -> str:
        return self.named(self.kind, f"{self.k(a)} {_SIGNS[name]} {self.k(b)}")

    def neg(self, a: str) -> str:
        return self.named(self.kind, f"-{a}")

    def call(self, name: str, *operands: Any) -> str:
        return self.named(self.kind, f"{name}{'' if self.double else 'f'}({', '.join(map(self.k, operands))})")

    def compare(self, predicate: str, a: Any, b: Any) -> str:
        return self.named(self.truth, _COMPARED[predicate].format(self.k(a), self.k(b)))

    def select(self, condition: str, a: Any, b: Any) -> str:
        return self.named(self.kind, f"{condition} ? {self.k(a)} : {self.k(b)}")

    def both(self, a: str, b: str) -> str:
        return self.named(self.truth, f"{a} && {b}")

    def either(self, a: str, b: str) -> str:
        return self.named(self.truth, f"{a} || {b}")

    def iop(self, name: str, a: Any, b: Any) -> str:
        return self.named(self.integers, f"({self.integers})({self.ik(a)} {_BITS[name]} {self.ik(b)})")

    def bits(self, a: str) -> str:
        return self.named(self.integers, f"fc_bits_{self.kind}({self.k(a)})")

    def float(self, a: str) -> str:
        return self.named(self.kind, f"fc_from_bits_{self.kind}({a})")

    def negative(self, a: str) -> str:
        return self.named(self.truth, f"({self.bits(a)} >> {8 * self.size - 1}) != 0")

    def nonzero(self, a: str) -> str:
        return self.named(self.truth, f"{a} != 0")


def function_text(name: str, dtype: np.dtype) -> str:
    """`fc_exp_double`, say: by our polynomial if the compiler has a fused multiply-add, else by libm."""
    c = CFloats(dtype)
    out = OWN[dtype][name](c, "x")
    suffix = "" if c.double else "f"
    lines = [*c.lines, f"return {out};"]
    while True:  # words that nobody reads, as long as there are some
        read = Counter(re.findall(r"\bv\d+\b", "\n".join(lines)))
        kept = [line for line in lines if line.startswith("return") or read[line.split()[2]] > 1]
        if len(kept) == len(lines):
            break
        lines = kept
    body = "\n    ".join(lines)
    return (
        f"static inline {c.kind} fc_{name}_{c.kind}({c.kind} x) {{\n#ifdef FP_FAST_FMA{suffix.upper()}\n    {body}\n#else\n"
        f"    return {name}{suffix}(x);\n#endif\n}}\n"
    )


BITS = """static inline uint@N_t fc_bits_@T(@T x) {
    uint@N_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline @T fc_from_bits_@T(uint@N_t bits) {
    @T x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
"""
