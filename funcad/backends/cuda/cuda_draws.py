"""Random numbers as CUDA C++: a draw is one kernel, a thread hashes the numbers of its elements.

Idea: element i of a draw is a function of the key and of i alone (primitives/random_bits.py), so no thread needs another.
Invariant: bits, and floats in [0, 1), are NumPy's bit for bit; normal numbers are the same polynomials with CUDA's logarithm.
Trap: a float in [0, 1) is not made by its bits, as there, but by a product with a power of two, which is the same number.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from funcad.backends.cuda.cuda_text import BLOCKS
from funcad.backends.cuda.elements import c_type, literal
from funcad.backends.cuda.prelude import PRELUDE, THREADS
from funcad.backends.plans.unsupported import Unsupported
from funcad.ir.jaxpr import Jaxpr
from funcad.primitives.erf_inverse import polynomials
from funcad.primitives.random_bits import MANTISSA, PARITY, ROTATIONS

__all__ = ["Draw", "draw_text"]


def _hash() -> list[str]:
    """The function that hashes the counts a and b."""
    lines = [
        "FC unsigned fc_rotated(unsigned x, int by) { return x << by | x >> (32 - by); }",
        "FC void fc_threefry(const unsigned k0, const unsigned k1, unsigned& a, unsigned& b) {",
        f"  const unsigned k2 = k0 ^ k1 ^ {PARITY:#x}u;",
        "  a += k0; b += k1;",
    ]
    for i in range(5):
        lines += [f"  a += b; b = fc_rotated(b, {r}) ^ a;" for r in ROTATIONS[i & 1]]
        lines.append(f"  a += k{(i + 1) % 3}; b += k{(i + 2) % 3} + {i + 1}u;")
    return [*lines, "}"]


def _horner(name: str, coefficients: tuple, dtype: np.dtype) -> str:
    """total = c0; total = total * name + c ..."""
    first, *rest = [literal(dtype.type(c), dtype).text for c in coefficients]
    return " ".join([f"total = {first};", *[f"total = total * {name} + {c};" for c in rest]])


def _inverse(dtype: np.dtype) -> list[str]:
    """The function that is the inverse of the error function."""
    t, suffix = c_type(dtype), "f" if dtype.itemsize == 4 else ""
    number = lambda x: literal(dtype.type(x), dtype).text
    (begin, centre, middle), tails = polynomials(dtype.itemsize)
    lines = [
        f"FC {t} fc_erfinv(const {t} x) {{",
        f"  {t} w = -log{suffix}({number(1)} - x * x), total;",
        f"  if (!(w >= {number(begin)})) {{ w -= {number(centre)}; {_horner('w', middle, dtype)} return x * total; }}",
        f"  if (isinf(w)) return x * {t}(fc_infinity());",
        f"  const {t} root = sqrt{suffix}(w);",
    ]
    for i, (_, middle_of, coefficients) in enumerate(tails):
        last = i + 1 == len(tails)
        condition = "" if last else f"if (w < {number(tails[i + 1][0])}) "
        lines.append(f"  {condition}{{ const {t} r = root - {number(middle_of)}; {_horner('r', coefficients, dtype)} }}")
        lines[-1] += "" if last else " else"
    return [*lines, "  return x * total;", "}"]


def draw_text(kind: str, dtype: np.dtype) -> str:
    """The module of a draw: `kernel(keys, out, numbers of a key, numbers in all)`."""
    size = dtype.itemsize
    if kind in ("unit", "normal") and size < 4:
        raise Unsupported(f"draws of {dtype}")
    t, words = c_type(dtype), f"unsigned {'long long' if size == 8 else 'int'}"
    bits = f"({words})a << 32 | b" if size == 8 else "a ^ b"
    unit = f"{t}(bits >> {8 * size - MANTISSA.get(size, 0)}) * {literal(dtype.type(2.0 ** -MANTISSA.get(size, 0)), dtype).text}"
    value = {"bits": f"({t})bits", "unit": unit}.get(kind, "")
    if kind == "normal":
        below = literal(np.nextafter(dtype.type(-1), dtype.type(0)), dtype).text
        two, root = literal(dtype.type(2), dtype).text, literal(dtype.type(np.sqrt(2)), dtype).text
        value = f"fc_erfinv({unit} * {two} + {below}) * {root}"
    stored = ["out[2 * i] = a;", "out[2 * i + 1] = b;"]
    if kind != "keys":
        stored = [f"const {words} bits = {bits};", f"out[i] = {value};"]
    lines = [
        *_hash(),
        *(_inverse(dtype) if kind == "normal" else []),
        'extern "C" __global__ void __launch_bounds__(FC_THREADS) kernel(const unsigned int* __restrict__ keys, '
        f"{t}* __restrict__ out, const long long n, const long long all) {{",
        "  const long long step = (long long)gridDim.x * blockDim.x;",
        "  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < all; i += step) {",
        "    const long long lane = i / n;",
        "    const fc_word count = i - lane * n;",
        "    unsigned a = (unsigned)(count >> 32), b = (unsigned)count;",
        "    fc_threefry(keys[2 * lane], keys[2 * lane + 1], a, b);",
        *[f"    {line}" for line in stored],
        "  }",
        "}",
    ]
    return PRELUDE + "\n".join(lines) + "\n"


class Draw:
    """The kernel of one draw."""

    def __init__(self, jaxpr: Jaxpr, xp: Any, module: Callable[[str], Any]):
        (equation,) = jaxpr.equations
        kind, self.dtype, shape = [equation.params[name] for name in ("kind", "dtype", "shape")]
        self.xp, self.shape = xp, equation.outputs[0].aval.shape
        self.of_key = prod(shape)
        self.count = prod(equation.inputs[0].aval.shape[:-1]) * self.of_key
        self.kernel: Any = None
        self._made = lambda: module(draw_text(kind, self.dtype)).get_function("kernel")
        draw_text(kind, self.dtype)  # may be Unsupported

    def __call__(self, keys: Any) -> list[Any]:
        if self.kernel is None:
            self.kernel = self._made()
        if any([s != n for s, n in zip(keys.strides[::-1], np.cumprod([4, *keys.shape[:0:-1]]))]):
            keys = self.xp.ascontiguousarray(keys)
        out = self.xp.empty(self.shape, self.dtype)
        blocks = min(-(-self.count // THREADS), BLOCKS)
        self.kernel((blocks,), (THREADS,), (keys, out, np.int64(self.of_key), np.int64(self.count)))
        return [out]
