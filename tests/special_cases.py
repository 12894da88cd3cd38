"""The special cases of the array API standard, revision 2024.12, as tables: kinds of operands and what must come out.

A row says `kind kind -> result`; a kind stands for several numbers (`KINDS`). Parts are apart by spaces: for complex operands
the real and the imaginary part, for functions of two real numbers both operands. `?` stands for any value, `±` before a result
for either sign, `cis(b)` rows for cos(b) and sin(b) with their signs. Results that the standard leaves open are not listed, nor
are the two of `sqrt` at infinities where its text contradicts C99, the definition of the function, and its own rule that
results lie in the right half-plane (at -inf + yj and +inf + yj C99's values are expected), and the two of `tanh` at +0 + yj
that depend on the C library, as the standard says itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

__all__ = ["COMPLEX", "DERIVED", "PAIRS", "REAL", "complex_cases", "pair_cases", "real_cases"]

INF, NAN, PI = math.inf, math.nan, math.pi
KINDS: dict[str, list[float]] = {
    "+0": [0.0],
    "-0": [-0.0],
    "±0": [0.0, -0.0],
    "+inf": [INF],
    "-inf": [-INF],
    "±inf": [INF, -INF],
    "nan": [NAN],
    "1": [1.0],
    "-1": [-1.0],
    "±1": [1.0, -1.0],
    "pos": [0.7, 1.0, 2.0, 3.0, 2.0**40],
    "neg": [-0.7, -1.0, -2.0, -3.0, -2.0**40],
    ">0": [0.7, 1.0, 2.0, 3.0, INF],
    "<0": [-0.7, -1.0, -2.0, -3.0, -INF],
    ">1": [1.5, 3.0, INF],
    "<-1": [-1.5, -3.0, -INF],
    "<1": [0.5, 0.0, -2.0, -INF],
    "|>1|": [1.5, -3.0],
    "|<1|": [0.5, -0.5, 0.0, -0.0],
    "nonzero": [0.7, -0.7, 3.0, -3.0],
    "finite": [0.0, -0.0, 0.7, -0.7, 3.0, -3.0],
    "not1": [0.0, -1.0, 2.5, INF, -INF],
    "not0": [1.0, -2.5, INF, -INF],
    "notnan": [0.0, -0.0, 0.7, -3.0, INF, -INF],
    "odd>0": [1.0, 3.0, 5.0],
    "odd<0": [-1.0, -3.0, -5.0],
    "even>0": [2.0, 4.0, 0.5, 2.5, INF],
    "even<0": [-2.0, -4.0, -0.5, -2.5, -INF],
    "fraction": [0.5, -1.5, 2.25],
    "any": [0.0, -0.0, 0.7, -3.0, INF, -INF, NAN],
}
RESULTS = {"π": PI, "π/2": PI / 2, "π/4": PI / 4, "3π/4": 3 * PI / 4}
RESULTS |= {f"-{name}": -value for name, value in RESULTS.items()}

REAL = {
    "abs": "nan -> nan; -0 -> +0; -inf -> +inf",
    "acos": "nan -> nan; >1 -> nan; <-1 -> nan; 1 -> +0",
    "acosh": "nan -> nan; <1 -> nan; 1 -> +0; +inf -> +inf",
    "asin": "nan -> nan; >1 -> nan; <-1 -> nan; +0 -> +0; -0 -> -0",
    "asinh": "nan -> nan; +0 -> +0; -0 -> -0; +inf -> +inf; -inf -> -inf",
    "atan": "nan -> nan; +0 -> +0; -0 -> -0; +inf -> π/2; -inf -> -π/2",
    "atanh": "nan -> nan; <-1 -> nan; >1 -> nan; -1 -> -inf; 1 -> +inf; +0 -> +0; -0 -> -0",
    "ceil": "+inf -> +inf; -inf -> -inf; +0 -> +0; -0 -> -0; nan -> nan",
    "cos": "nan -> nan; ±0 -> 1; ±inf -> nan",
    "cosh": "nan -> nan; ±0 -> 1; ±inf -> +inf",
    "exp": "nan -> nan; ±0 -> 1; +inf -> +inf; -inf -> +0",
    "expm1": "nan -> nan; +0 -> +0; -0 -> -0; +inf -> +inf; -inf -> -1",
    "floor": "+inf -> +inf; -inf -> -inf; +0 -> +0; -0 -> -0; nan -> nan",
    "log": "nan -> nan; <0 -> nan; ±0 -> -inf; 1 -> +0; +inf -> +inf",
    "log1p": "nan -> nan; <-1 -> nan; -1 -> -inf; -0 -> -0; +0 -> +0; +inf -> +inf",
    "log2": "nan -> nan; <0 -> nan; ±0 -> -inf; 1 -> +0; +inf -> +inf",
    "log10": "nan -> nan; <0 -> nan; ±0 -> -inf; 1 -> +0; +inf -> +inf",
    "reciprocal": "nan -> nan; +0 -> +inf; -0 -> -inf; +inf -> +0; -inf -> -0",
    "round": "+inf -> +inf; -inf -> -inf; +0 -> +0; -0 -> -0; nan -> nan",
    "sign": "<0 -> -1; >0 -> 1; ±0 -> ±0; nan -> nan",
    "sin": "nan -> nan; +0 -> +0; -0 -> -0; ±inf -> nan",
    "sinh": "nan -> nan; +0 -> +0; -0 -> -0; +inf -> +inf; -inf -> -inf",
    "sqrt": "nan -> nan; <0 -> nan; +0 -> +0; -0 -> -0; +inf -> +inf",
    "square": "nan -> nan; ±0 -> +0; ±inf -> +inf",
    "tan": "nan -> nan; +0 -> +0; -0 -> -0; ±inf -> nan",
    "tanh": "nan -> nan; +0 -> +0; -0 -> -0; +inf -> 1; -inf -> -1",
    "trunc": "+inf -> +inf; -inf -> -inf; +0 -> +0; -0 -> -0; nan -> nan",
}

_NAN = "nan any -> nan; any nan -> nan; "
PAIRS = {
    "add": _NAN + "+inf -inf -> nan; -inf +inf -> nan; +inf +inf -> +inf; -inf -inf -> -inf; +inf finite -> +inf;"
    "-inf finite -> -inf; finite +inf -> +inf; finite -inf -> -inf; -0 -0 -> -0; -0 +0 -> +0; +0 -0 -> +0; +0 +0 -> +0",
    "subtract": _NAN + "+inf +inf -> nan; -inf -inf -> nan; finite -inf -> +inf; -0 +0 -> -0; +0 +0 -> +0; 1 1 -> +0",
    "multiply": _NAN + "±inf ±0 -> nan; ±0 ±inf -> nan; +inf >0 -> +inf; +inf <0 -> -inf; <0 -inf -> +inf;"
    "+0 neg -> -0; -0 neg -> +0",
    "divide": _NAN + "±inf ±inf -> nan; ±0 ±0 -> nan; +0 >0 -> +0; -0 >0 -> -0; +0 <0 -> -0; -0 <0 -> +0; >0 +0 -> +inf;"
    ">0 -0 -> -inf; <0 +0 -> -inf; <0 -0 -> +inf; +inf pos -> +inf; +inf neg -> -inf; -inf pos -> -inf; -inf neg -> +inf;"
    "pos +inf -> +0; pos -inf -> -0; neg +inf -> -0; neg -inf -> +0",
    "floor_divide": _NAN + "±inf ±inf -> nan; ±0 ±0 -> nan; +0 >0 -> +0; -0 >0 -> -0; +0 <0 -> -0; -0 <0 -> +0; >0 +0 -> +inf;"
    ">0 -0 -> -inf; <0 +0 -> -inf; <0 -0 -> +inf; +inf pos -> +inf; +inf neg -> -inf; -inf pos -> -inf; -inf neg -> +inf;"
    "pos +inf -> +0; pos -inf -> -0; neg +inf -> -0; neg -inf -> +0",
    "remainder": _NAN + "±inf ±inf -> nan; ±0 ±0 -> nan; ±0 >0 -> +0; ±0 <0 -> -0; >0 ±0 -> nan; <0 ±0 -> nan; ±inf pos -> nan;"
    "±inf neg -> nan; pos +inf -> x1; pos -inf -> -inf; neg +inf -> +inf; neg -inf -> x1",
    "pow": "not1 nan -> nan; any ±0 -> 1; nan not0 -> nan; |>1| +inf -> +inf; |>1| -inf -> +0; ±1 ±inf -> 1; 1 notnan -> 1;"
    "|<1| +inf -> +0; |<1| -inf -> +inf; +inf >0 -> +inf; +inf <0 -> +0; -inf odd>0 -> -inf; -inf even>0 -> +inf;"
    "-inf odd<0 -> -0; -inf even<0 -> +0; +0 >0 -> +0; +0 <0 -> +inf; -0 odd>0 -> -0; -0 even>0 -> +0; -0 odd<0 -> -inf;"
    "-0 even<0 -> +inf; neg fraction -> nan",
    "atan2": _NAN + ">0 ±0 -> π/2; +0 >0 -> +0; +0 +0 -> +0; +0 -0 -> π; +0 <0 -> π; -0 >0 -> -0; -0 +0 -> -0; -0 -0 -> -π;"
    "-0 <0 -> -π; <0 ±0 -> -π/2; pos +inf -> +0; pos -inf -> π; neg +inf -> -0; neg -inf -> -π; +inf finite -> π/2;"
    "-inf finite -> -π/2; +inf +inf -> π/4; +inf -inf -> 3π/4; -inf +inf -> -π/4; -inf -inf -> -3π/4",
    "hypot": "±inf any -> +inf; any ±inf -> +inf; finite nan -> nan; nan finite -> nan; nan nan -> nan; ±0 ±0 -> +0",
    "copysign": "±inf -0 -> -inf; ±0 <0 -> -0; ±0 >0 -> +0; ±1 +0 -> 1; ±1 -0 -> -1",
    "logaddexp": _NAN + "+inf notnan -> +inf; notnan +inf -> +inf; -inf -inf -> -inf",
    "maximum": _NAN + "notnan +inf -> +inf",
    "minimum": _NAN + "notnan -inf -> -inf",
    "nextafter": _NAN + "-0 +0 -> +0; +0 -0 -> -0",
}

COMPLEX = {
    "abs": "±inf any -> +inf 0; any ±inf -> +inf 0; nan finite -> nan 0; finite nan -> nan 0; nan nan -> nan 0",
    "acos": "±0 +0 -> π/2 -0; ±0 nan -> π/2 nan; finite +inf -> π/2 -inf; nonzero nan -> nan nan; -inf pos -> π -inf;"
    "+inf pos -> +0 -inf; -inf +inf -> 3π/4 -inf; +inf +inf -> π/4 -inf; ±inf nan -> nan ±inf; nan finite -> nan nan;"
    "nan +inf -> nan -inf; nan nan -> nan nan",
    "acosh": "±0 +0 -> +0 π/2; finite +inf -> +inf π/2; nonzero nan -> nan nan; +0 nan -> nan ±π/2; -inf pos -> +inf π;"
    "+inf pos -> +inf +0; -inf +inf -> +inf 3π/4; +inf +inf -> +inf π/4; ±inf nan -> +inf nan; nan finite -> nan nan;"
    "nan +inf -> +inf nan; nan nan -> nan nan",
    "asinh": "+0 +0 -> +0 +0; pos +inf -> +inf π/2; finite nan -> nan nan; +inf pos -> +inf +0; +inf +inf -> +inf π/4;"
    "nan +0 -> nan +0; nan nonzero -> nan nan; nan +inf -> ±inf nan; nan nan -> nan nan",
    "atanh": "+0 +0 -> +0 +0; +0 nan -> +0 nan; 1 +0 -> +inf +0; pos +inf -> +0 π/2; nonzero nan -> nan nan;"
    "+inf pos -> +0 π/2; +inf +inf -> +0 π/2; +inf nan -> +0 nan; nan finite -> nan nan; nan +inf -> ±0 π/2;"
    "nan nan -> nan nan",
    "cosh": "+0 +0 -> 1 +0; +0 +inf -> nan ±0; +0 nan -> nan ±0; nonzero +inf -> nan nan; nonzero nan -> nan nan;"
    "+inf +0 -> +inf +0; +inf nonzero -> inf*cis(b); +inf +inf -> ±inf nan; +inf nan -> +inf nan; nan ±0 -> nan ±0;"
    "nan nonzero -> nan nan; nan nan -> nan nan",
    "exp": "±0 +0 -> 1 +0; finite +inf -> nan nan; finite nan -> nan nan; +inf +0 -> +inf +0; -inf finite -> 0*cis(b);"
    "+inf nonzero -> inf*cis(b); -inf +inf -> ±0 ±0; +inf +inf -> ±inf nan; -inf nan -> ±0 ±0; +inf nan -> ±inf nan;"
    "nan +0 -> nan +0; nan nonzero -> nan nan; nan ±inf -> nan nan; nan nan -> nan nan",
    "expm1": "±0 +0 -> ±0 +0; finite +inf -> nan nan; finite nan -> nan nan; +inf +0 -> +inf +0; -inf finite -> 0*cis(b)-1;"
    "+inf nonzero -> inf*cis(b); -inf +inf -> -1 ±0; +inf +inf -> ±inf nan; -inf nan -> -1 ±0; +inf nan -> ±inf nan;"
    "nan +0 -> nan +0; nan nonzero -> nan nan; nan ±inf -> nan nan; nan nan -> nan nan",
    "log": "-0 +0 -> -inf π; +0 +0 -> -inf +0; finite +inf -> +inf π/2; finite nan -> nan nan; -inf pos -> +inf π;"
    "+inf pos -> +inf +0; -inf +inf -> +inf 3π/4; +inf +inf -> +inf π/4; ±inf nan -> +inf nan; nan finite -> nan nan;"
    "nan +inf -> +inf nan; nan nan -> nan nan",
    "log1p": "-1 +0 -> -inf +0; finite +inf -> +inf π/2; finite nan -> nan nan; -inf pos -> +inf π; +inf pos -> +inf +0;"
    "-inf +inf -> +inf 3π/4; +inf +inf -> +inf π/4; ±inf nan -> +inf nan; nan finite -> nan nan; nan +inf -> +inf nan;"
    "nan nan -> nan nan",
    "sign": "±0 ±0 -> ±0 ±0; nan any -> nan nan; any nan -> nan nan",
    "sinh": "+0 +0 -> +0 +0; +0 +inf -> ±0 nan; +0 nan -> ±0 nan; pos +inf -> nan nan; pos nan -> nan nan; +inf +0 -> +inf +0;"
    "+inf pos -> inf*cis(b); +inf +inf -> ±inf nan; +inf nan -> ±inf nan; nan +0 -> nan +0; nan nonzero -> nan nan;"
    "nan nan -> nan nan",
    "sqrt": "±0 +0 -> +0 +0; any +inf -> +inf +inf; finite nan -> nan nan; -inf pos -> +0 +inf; +inf pos -> +inf +0;"
    "-inf nan -> nan ±inf; +inf nan -> +inf nan; nan finite -> nan nan; nan nan -> nan nan",
    "tanh": "+0 +0 -> +0 +0; nonzero +inf -> nan nan; nonzero nan -> nan nan;"
    "+inf pos -> 1 ±0; +inf +inf -> 1 ±0; +inf nan -> 1 ±0; nan +0 -> nan +0; nan nonzero -> nan nan; nan nan -> nan nan",
}
# name -> (function, how the operand is turned, how the result is): "as if the operation is implemented as ..."
DERIVED = {
    "asin": ("asinh", 1j, -1j),
    "atan": ("atanh", 1j, -1j),
    "cos": ("cosh", 1j, 1.0),
    "sin": ("sinh", 1j, -1j),
    "tan": ("tanh", 1j, -1j),
}


def _rows(text: str) -> Iterator[tuple[list[str], list[str]]]:
    for row in text.split(";"):
        given, expected = row.split("->")
        yield given.split(), expected.split()


def _result(text: str, *operands: float) -> tuple[float, bool]:
    """(the number, whether its sign counts)."""
    if text == "x1":
        return operands[0], True
    free = text.startswith("±")
    name = text.lstrip("±+") if free or text.startswith("+") else text
    return RESULTS[name] if name in RESULTS else float(name), not free


def real_cases(name: str) -> Iterator[tuple[float, tuple[float, bool]]]:
    for (kind,), (expected,) in _rows(REAL[name]):
        for x in KINDS[kind]:
            yield x, _result(expected)


def pair_cases(name: str) -> Iterator[tuple[float, float, tuple[float, bool]]]:
    for kinds, (expected,) in _rows(PAIRS[name]):
        for x, y in product(*(KINDS[k] for k in kinds)):
            yield x, y, _result(expected, x, y)


def complex_cases(name: str) -> Iterator[tuple[float, float, list[tuple[float, bool]]]]:
    """(real part, imaginary part, what is expected of both parts)."""
    for kinds, expected in _rows(COMPLEX[name]):
        for a, b in product(*(KINDS[k] for k in kinds)):
            if "cis(b)" in expected[0]:
                size = INF if expected[0].startswith("inf") else 0.0
                parts = [math.copysign(size, math.cos(b)), math.copysign(size, b if b == 0 else math.sin(b))]
                parts[0] -= expected[0].endswith("-1")
                yield a, b, [(p, True) for p in parts]
            else:
                yield a, b, [_result(e) for e in expected]
