"""Arithmetic, comparisons, logic and bits of integers, floats and complex numbers, bit for bit as NumPy's ufuncs.

Traps, all of them NumPy's rules: integers wrap; x // 0 and x % 0 are 0, and INT_MIN // -1 is INT_MIN (the processor would
fault on both, so the divisor is replaced first); a shift by the width or more (or by a negative number) shifts everything
out; of two equal operands `maximum` and `minimum` give the second on x86 (so -0.0 and 0.0 depend on the order) and the larger
or smaller zero on ARM; complex division is Smith's. Complex products are written without fused multiplication, which NumPy's
own loops use on part of an array where the processor has it: the real and imaginary parts may differ by their cancellation
error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.backends.native.emitter_memory import BOOL, FLOAT64, Lane, Memory
from funcad.backends.plans.unsupported import Unsupported

__all__ = ["Arithmetic"]

_ORDERED = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_SIGNED = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_UNSIGNED = {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}


class Arithmetic(Memory):
    """Mixin of `Emitter`: every method takes and gives lanes.

    `contracts`: may what is written now be contracted, as the user's arithmetic and not as part of another function?
    """

    contracts = False

    # -- small tools on one register
    def _lane(self, dtype: np.dtype, *parts: str) -> Lane:
        return Lane(dtype, parts)

    def _same(self, name: str, *lanes: Lane) -> np.dtype:
        dtype = lanes[0].dtype
        for lane in lanes:
            if lane.dtype != dtype:
                raise Unsupported(f"{name} of {dtype} and {lane.dtype}")
        return dtype

    def _number(self, dtype: np.dtype, value: Any) -> str:
        return self.literal(value, dtype).parts[0]

    def _op(self, op: str, dtype: np.dtype, a: str, b: str) -> str:
        """A binary instruction on values of a real dtype (or of the part of a complex one)."""
        return self.put(f"{op} {self.register(dtype)} {a}, {b}")

    def _choose(self, dtype: np.dtype, condition: str, a: str, b: str) -> str:
        kind = self.register(dtype)
        return self.put(f"select {self.vector('i1')} {condition}, {kind} {a}, {kind} {b}")

    def _intrinsic(self, name: str, dtype: np.dtype, *operands: str) -> str:
        kind = self.register(dtype)
        suffix = self.suffix(self.element(dtype))
        return self.function.intrinsic(f"llvm.{name}.{suffix}", kind, *[(kind, o) for o in operands])

    def _compare(self, name: str, dtype: np.dtype, a: str, b: str) -> str:
        """An i1 value; for floats `name` may be one of LLVM's predicates, too."""
        if dtype.kind in "fc":
            return self.put(f"fcmp {_ORDERED.get(name, name)} {self.register(dtype)} {a}, {b}")
        table = _SIGNED if dtype.kind == "i" else _UNSIGNED
        return self.put(f"icmp {table[name]} {self.register(dtype)} {a}, {b}")

    def _both(self, a: str, b: str) -> str:
        return self._logic("and", a, b)

    def _either(self, a: str, b: str) -> str:
        return self._logic("or", a, b)

    def _logic(self, what: str, a: str, b: str) -> str:
        """`and`, `or` and `xor` of truth values; of vectors as integers of the width of the elements, as comparisons give them.

        LLVM packs vectors of i1 to half their width and back. Registers of 512 bits have masks of their own.
        """
        if self.lanes == 1 or self.host.vector_bits == 512:
            return self._op(what, BOOL, a, b)
        narrow, wide = self.vector("i1"), self.vector(f"i{max(8, min(self.host.vector_bits // self.lanes, 64))}")
        a, b = [self.put(f"sext {narrow} {x} to {wide}") for x in (a, b)]
        return self.put(f"icmp slt {wide} {self.put(f'{what} {wide} {a}, {b}')}, zeroinitializer")

    def _not(self, a: str) -> str:
        return self._op("xor", BOOL, a, self.constant("i1", "true"))

    def _bits_type(self, dtype: np.dtype) -> np.dtype:
        return np.dtype(f"i{dtype.itemsize}")

    def _bits(self, dtype: np.dtype, name: str) -> str:
        return self.put(f"bitcast {self.register(dtype)} {name} to {self.register(self._bits_type(dtype))}")

    # -- + - * /
    def _binary(self, name: str, a: Lane, b: Lane) -> Lane:
        dtype = self._same(name, a, b)
        if dtype.kind in "iu":
            return self._lane(dtype, self._op(name, dtype, a.name, b.name))
        op = f"f{name} contract" if self.contracts and dtype.kind == "f" else f"f{name}"
        return self._lane(dtype, *[self._op(op, dtype, p, q) for p, q in zip(a.parts, b.parts)])

    def add(self, a: Lane, b: Lane) -> Lane:
        return self.logical_or(a, b) if a.dtype.kind == "b" else self._binary("add", a, b)

    def sub(self, a: Lane, b: Lane) -> Lane:
        if a.dtype.kind == "b":
            raise Unsupported("NumPy does not subtract bools")
        return self._binary("sub", a, b)

    def mul(self, a: Lane, b: Lane) -> Lane:
        dtype = self._same("mul", a, b)
        if dtype.kind == "b":
            return self.logical_and(a, b)
        if dtype.kind != "c":
            return self._binary("mul", a, b)
        (r, i), (s, j) = a.parts, b.parts
        real = self._op("fsub", dtype, self._op("fmul", dtype, r, s), self._op("fmul", dtype, i, j))
        imag = self._op("fadd", dtype, self._op("fmul", dtype, r, j), self._op("fmul", dtype, i, s))
        return self._lane(dtype, real, imag)

    def div(self, a: Lane, b: Lane) -> Lane:
        """True division; integers and bools are divided in float64."""
        dtype = self._same("div", a, b)
        if dtype.kind in "biu":
            return self.div(self.convert(a, FLOAT64), self.convert(b, FLOAT64))  # type: ignore[attr-defined]
        if dtype.kind == "f":
            return self._lane(dtype, self._op("fdiv", dtype, a.name, b.name))
        return self._complex_div(a, b)

    def _complex_div(self, a: Lane, b: Lane) -> Lane:
        dtype = a.dtype
        (r, i), (s, j) = a.parts, b.parts
        size, other = self._intrinsic("fabs", dtype, s), self._intrinsic("fabs", dtype, j)
        real_leads = self._compare("oge", dtype, size, other)
        large, small = self._choose(dtype, real_leads, s, j), self._choose(dtype, real_leads, j, s)
        ratio = self._op("fdiv", dtype, small, large)
        whole = self._op("fadd", dtype, large, self._op("fmul", dtype, small, ratio))
        scale = self._op("fdiv", dtype, self._number(self.part(dtype), 1.0), whole)
        x, y = self._choose(dtype, real_leads, r, i), self._choose(dtype, real_leads, i, r)
        real = self._op("fmul", dtype, self._op("fadd", dtype, x, self._op("fmul", dtype, y, ratio)), scale)
        turned = self._op("fmul", dtype, x, ratio)
        imag = self._choose(dtype, real_leads, self._op("fsub", dtype, y, turned), self._op("fsub", dtype, turned, y))
        imag = self._op("fmul", dtype, imag, scale)
        zero = self._number(self.part(dtype), 0.0)
        nothing = self._both(self._compare("oeq", dtype, size, zero), self._compare("oeq", dtype, other, zero))
        return self._lane(
            dtype,
            self._choose(dtype, nothing, self._op("fdiv", dtype, r, size), real),
            self._choose(dtype, nothing, self._op("fdiv", dtype, i, size), imag),
        )

    # -- division with rest
    def _divisor(self, a: Lane, b: Lane) -> tuple[str, str]:
        """b where the processor can divide by it, else 1, and where b is 0."""
        dtype = a.dtype
        zero = self._compare("eq", dtype, b.name, self._number(dtype, 0))
        bad = zero
        if dtype.kind == "i":
            least = self._compare("eq", dtype, a.name, self._number(dtype, np.iinfo(dtype).min))
            bad = self._either(bad, self._both(least, self._compare("eq", dtype, b.name, self._number(dtype, -1))))
        return self._choose(dtype, bad, self._number(dtype, 1), b.name), zero

    def _integral(self, name: str, dtype: np.dtype) -> bool:
        if dtype.kind in "bc":
            raise Unsupported(f"{name} of {dtype}")
        return dtype.kind in "iu"

    def floor_divide(self, a: Lane, b: Lane) -> Lane:
        dtype = self._same("floor_divide", a, b)
        if not self._integral("floor_divide", dtype):
            return self._float_divmod(a, b)[0]
        divisor, zero = self._divisor(a, b)
        if dtype.kind == "u":
            quotient = self._op("udiv", dtype, a.name, divisor)
        else:
            quotient = self._op("sdiv", dtype, a.name, divisor)
            rest = self._op("sub", dtype, a.name, self._op("mul", dtype, quotient, divisor))
            down = self._op("add", dtype, quotient, self._number(dtype, -1))
            quotient = self._choose(dtype, self._wrong_sign(dtype, rest, divisor), down, quotient)
        return self._lane(dtype, self._choose(dtype, zero, self._number(dtype, 0), quotient))

    def _wrong_sign(self, dtype: np.dtype, rest: str, divisor: str) -> str:
        """Where a rest that is not zero has the other sign than the divisor."""
        zero = self._number(dtype, 0)
        differ = self._compare("lt", dtype, self._op("xor", dtype, rest, divisor), zero)
        return self._both(self._compare("ne", dtype, rest, zero), differ)

    def mod(self, a: Lane, b: Lane) -> Lane:
        """The rest with the divisor's sign."""
        dtype = self._same("mod", a, b)
        if not self._integral("mod", dtype):
            return self._float_divmod(a, b)[1]
        divisor, zero = self._divisor(a, b)
        rest = self._op("urem" if dtype.kind == "u" else "srem", dtype, a.name, divisor)
        if dtype.kind == "i":
            rest = self._choose(dtype, self._wrong_sign(dtype, rest, divisor), self._op("add", dtype, rest, divisor), rest)
        return self._lane(dtype, self._choose(dtype, zero, self._number(dtype, 0), rest))

    def fmod(self, a: Lane, b: Lane) -> Lane:
        """The rest with the dividend's sign."""
        dtype = self._same("fmod", a, b)
        if not self._integral("fmod", dtype):
            return self._lane(dtype, self._op("frem", dtype, a.name, b.name))
        divisor, zero = self._divisor(a, b)
        rest = self._op("urem" if dtype.kind == "u" else "srem", dtype, a.name, divisor)
        return self._lane(dtype, self._choose(dtype, zero, self._number(dtype, 0), rest))

    def _float_divmod(self, a: Lane, b: Lane) -> tuple[Lane, Lane]:
        """Quotient and rest of floats, step by step as CPython and NumPy define them."""
        dtype = a.dtype
        x, y = a.name, b.name
        zero, one = self._number(dtype, 0.0), self._number(dtype, 1.0)
        by_zero = self._compare("oeq", dtype, y, zero)
        rest = self._op("frem", dtype, x, y)
        quotient = self._op("fdiv", dtype, self._op("fsub", dtype, x, rest), y)
        differ = self._op("xor", BOOL, self._compare("olt", dtype, y, zero), self._compare("olt", dtype, rest, zero))
        exact = self._compare("oeq", dtype, rest, zero)
        differ = self._both(differ, self._not(exact))
        quotient = self._choose(dtype, differ, self._op("fsub", dtype, quotient, one), quotient)
        moved = self._choose(dtype, differ, self._op("fadd", dtype, rest, y), rest)
        moved = self._choose(dtype, exact, self._intrinsic("copysign", dtype, zero, y), moved)
        low = self._intrinsic("floor", dtype, quotient)
        far = self._compare("ogt", dtype, self._op("fsub", dtype, quotient, low), self._number(dtype, 0.5))
        low = self._choose(dtype, far, self._op("fadd", dtype, low, one), low)
        plain = self._op("fdiv", dtype, x, y)
        nothing = self._compare("oeq", dtype, quotient, zero)
        low = self._choose(dtype, nothing, self._intrinsic("copysign", dtype, zero, plain), low)
        return (
            self._lane(dtype, self._choose(dtype, by_zero, plain, low)),
            self._lane(dtype, self._choose(dtype, by_zero, rest, moved)),
        )

    # -- sign and size
    def neg(self, a: Lane) -> Lane:
        dtype = a.dtype
        if dtype.kind == "b":
            raise Unsupported("NumPy does not negate bools")
        if dtype.kind in "iu":
            return self._lane(dtype, self._op("sub", dtype, self._number(dtype, 0), a.name))
        return self._lane(dtype, *[self.put(f"fneg {self.register(dtype)} {p}") for p in a.parts])

    def abs(self, a: Lane) -> Lane:
        dtype = a.dtype
        if dtype.kind in "bu":
            return a
        if dtype.kind == "c":
            part = self.part(dtype)
            return self.hypot(self._lane(part, a.parts[0]), self._lane(part, a.parts[1]))  # type: ignore[attr-defined]
        if dtype.kind == "f":
            return self._lane(dtype, self._intrinsic("fabs", dtype, a.name))
        negative = self._compare("lt", dtype, a.name, self._number(dtype, 0))
        return self._lane(dtype, self._choose(dtype, negative, self.neg(a).name, a.name))

    def sign(self, a: Lane) -> Lane:
        dtype = a.dtype
        if dtype.kind in "bc":
            raise Unsupported(f"sign of {dtype}")
        zero, one = self._number(dtype, 0), self._number(dtype, 1)
        positive = self._compare("gt", dtype, a.name, zero)
        if dtype.kind == "u":
            return self._lane(dtype, self._choose(dtype, positive, one, zero))
        rest = self._choose(dtype, self._compare("lt", dtype, a.name, zero), self._number(dtype, -1), zero)
        out = self._choose(dtype, positive, one, rest)
        if dtype.kind == "f":
            out = self._choose(dtype, self._compare("uno", dtype, a.name, a.name), a.name, out)
        return self._lane(dtype, out)

    def copysign(self, a: Lane, b: Lane) -> Lane:
        dtype = self._floats("copysign", a, b)
        return self._lane(dtype, self._intrinsic("copysign", dtype, a.name, b.name))

    def _floats(self, name: str, *lanes: Lane) -> np.dtype:
        dtype = self._same(name, *lanes)
        if dtype.kind != "f":
            raise Unsupported(f"{name} of {dtype}")
        return dtype

    def reciprocal(self, a: Lane) -> Lane:
        dtype = self._floats("reciprocal", a)
        return self._lane(dtype, self._op("fdiv", dtype, self._number(dtype, 1.0), a.name))

    def sqrt(self, a: Lane) -> Lane:
        dtype = self._floats("sqrt", a)
        return self._lane(dtype, self._intrinsic("sqrt", dtype, a.name))

    # -- parts of complex numbers
    def real(self, a: Lane) -> Lane:
        return self._lane(self.part(a.dtype), a.parts[0])

    def imag(self, a: Lane) -> Lane:
        if a.dtype.kind != "c":
            return self.literal(0, a.dtype)
        return self._lane(self.part(a.dtype), a.parts[1])

    def conj(self, a: Lane) -> Lane:
        if a.dtype.kind != "c":
            return a
        return self._lane(a.dtype, a.parts[0], self.put(f"fneg {self.register(a.dtype)} {a.parts[1]}"))

    def make_complex(self, a: Lane, b: Lane) -> Lane:
        dtype = self._floats("make_complex", a, b)
        return self._lane(np.dtype(f"c{2 * dtype.itemsize}"), a.name, b.name)

    # -- rounding
    def _round(self, name: str, a: Lane) -> Lane:
        if a.dtype.kind in "biu" and name != "rint":
            return a  # NumPy >= 2.1 keeps integers
        return self._lane(self._floats(name, a), self._intrinsic(name, a.dtype, a.name))

    def floor(self, a: Lane) -> Lane:
        return self._round("floor", a)

    def ceil(self, a: Lane) -> Lane:
        return self._round("ceil", a)

    def rint(self, a: Lane) -> Lane:
        """To the nearest integer, half to even."""
        return self._round("rint", a)

    def trunc(self, a: Lane) -> Lane:
        return self._round("trunc", a)

    # -- extrema
    def _extremum(self, better: str, intrinsic: str, a: Lane, b: Lane, skip_nan: bool) -> Lane:
        dtype = self._same(intrinsic, a, b)
        if dtype.kind == "c":
            raise Unsupported(f"{intrinsic} of {dtype}")
        if dtype.kind == "b":
            return self.logical_or(a, b) if better == "gt" else self.logical_and(a, b)
        x, y = a.name, b.name
        if dtype.kind != "f":
            return self._lane(dtype, self._choose(dtype, self._compare(better, dtype, x, y), x, y))
        if self.x86:
            out = self._choose(dtype, self._compare(better, dtype, x, y), x, y)  # y where one is NaN
        else:
            out = self._intrinsic(intrinsic, dtype, x, y)  # NaN where one is
        if skip_nan:
            out = self._choose(dtype, self._compare("uno", dtype, y, y), x, out)
            if not self.x86:
                out = self._choose(dtype, self._compare("uno", dtype, x, x), y, out)
        elif self.x86:
            out = self._choose(dtype, self._compare("uno", dtype, x, x), x, out)
        return self._lane(dtype, out)

    def maximum(self, a: Lane, b: Lane) -> Lane:
        """The larger one; NaN where one is."""
        return self._extremum("gt", "maximum", a, b, skip_nan=False)

    def minimum(self, a: Lane, b: Lane) -> Lane:
        return self._extremum("lt", "minimum", a, b, skip_nan=False)

    def fmax(self, a: Lane, b: Lane) -> Lane:
        """The larger one; the other where one is NaN."""
        return self._extremum("gt", "maximum", a, b, skip_nan=True)

    def fmin(self, a: Lane, b: Lane) -> Lane:
        return self._extremum("lt", "minimum", a, b, skip_nan=True)

    # -- comparisons
    def _comparison(self, name: str, a: Lane, b: Lane) -> Lane:
        dtype = self._same(name, a, b)
        if dtype.kind != "c":
            return self._lane(BOOL, self._compare(name, dtype, a.name, b.name))
        parts = [self._compare(name, dtype, p, q) for p, q in zip(a.parts, b.parts)]
        if name == "eq":
            return self._lane(BOOL, self._both(*parts))
        if name == "ne":
            return self._lane(BOOL, self._either(*parts))
        raise Unsupported(f"{name} of {dtype}: complex numbers have no order")

    def eq(self, a: Lane, b: Lane) -> Lane:
        return self._comparison("eq", a, b)

    def ne(self, a: Lane, b: Lane) -> Lane:
        return self._comparison("ne", a, b)

    def lt(self, a: Lane, b: Lane) -> Lane:
        return self._comparison("lt", a, b)

    def le(self, a: Lane, b: Lane) -> Lane:
        return self._comparison("le", a, b)

    def gt(self, a: Lane, b: Lane) -> Lane:
        return self._comparison("gt", a, b)

    def ge(self, a: Lane, b: Lane) -> Lane:
        return self._comparison("ge", a, b)

    def select(self, condition: Lane, a: Lane, b: Lane) -> Lane:
        dtype = self._same("select", a, b)
        return self._lane(dtype, *[self._choose(dtype, condition.name, p, q) for p, q in zip(a.parts, b.parts)])

    # -- logic and bits
    def truth(self, a: Lane) -> str:
        """The i1 value of a != 0; NaN is true."""
        if a.dtype.kind == "b":
            return a.name
        zero = self._number(self.part(a.dtype), 0)
        parts = [self._compare("ne", a.dtype, p, zero) for p in a.parts]
        return parts[0] if len(parts) == 1 else self._either(*parts)

    def logical_and(self, a: Lane, b: Lane) -> Lane:
        return self._lane(BOOL, self._both(self.truth(a), self.truth(b)))

    def logical_or(self, a: Lane, b: Lane) -> Lane:
        return self._lane(BOOL, self._either(self.truth(a), self.truth(b)))

    def logical_xor(self, a: Lane, b: Lane) -> Lane:
        return self._lane(BOOL, self._logic("xor", self.truth(a), self.truth(b)))

    def logical_not(self, a: Lane) -> Lane:
        return self._lane(BOOL, self._not(self.truth(a)))

    def _bitwise(self, name: str, a: Lane, b: Lane) -> Lane:
        dtype = self._same(name, a, b)
        if dtype.kind not in "biu":
            raise Unsupported(f"bitwise {name} of {dtype}")
        if dtype.kind == "b":
            return self._lane(dtype, self._logic(name, a.name, b.name))
        return self._lane(dtype, self._op(name, dtype, a.name, b.name))

    def and_(self, a: Lane, b: Lane) -> Lane:
        return self._bitwise("and", a, b)

    def or_(self, a: Lane, b: Lane) -> Lane:
        return self._bitwise("or", a, b)

    def xor(self, a: Lane, b: Lane) -> Lane:
        return self._bitwise("xor", a, b)

    def not_(self, a: Lane) -> Lane:
        if a.dtype.kind == "b":
            return self.logical_not(a)
        return self._bitwise("xor", a, self.literal(-1 if a.dtype.kind == "i" else np.iinfo(a.dtype).max, a.dtype))

    def _shift(self, op: str, a: Lane, b: Lane) -> Lane:
        dtype = self._same(op, a, b)
        if dtype.kind not in "iu":
            raise Unsupported(f"shift of {dtype}")
        width = 8 * dtype.itemsize
        fits = self.put(f"icmp ult {self.register(dtype)} {b.name}, {self._number(dtype, width)}")
        outside = self._number(dtype, width - 1 if op == "ashr" else 0)
        amount = self._choose(dtype, fits, b.name, outside)
        out = self._op(op, dtype, a.name, amount)
        if op != "ashr":  # an arithmetic shift by width - 1 leaves the sign, all others leave nothing
            out = self._choose(dtype, fits, out, self._number(dtype, 0))
        return self._lane(dtype, out)

    def shift_left(self, a: Lane, b: Lane) -> Lane:
        return self._shift("shl", a, b)

    def shift_right(self, a: Lane, b: Lane) -> Lane:
        return self._shift("ashr" if a.dtype.kind == "i" else "lshr", a, b)

    # -- classification
    def isnan(self, a: Lane) -> Lane:
        if a.dtype.kind in "biu":
            return self.literal(False, BOOL)
        parts = [self._compare("uno", a.dtype, p, p) for p in a.parts]
        return self._lane(BOOL, parts[0] if len(parts) == 1 else self._either(*parts))

    def isinf(self, a: Lane) -> Lane:
        if a.dtype.kind in "biu":
            return self.literal(False, BOOL)
        inf = self._number(self.part(a.dtype), np.inf)
        parts = [self._compare("oeq", a.dtype, self._intrinsic("fabs", a.dtype, p), inf) for p in a.parts]
        return self._lane(BOOL, parts[0] if len(parts) == 1 else self._either(*parts))

    def isfinite(self, a: Lane) -> Lane:
        if a.dtype.kind in "biu":
            return self.literal(True, BOOL)
        inf = self._number(self.part(a.dtype), np.inf)
        parts = [self._compare("olt", a.dtype, self._intrinsic("fabs", a.dtype, p), inf) for p in a.parts]
        return self._lane(BOOL, parts[0] if len(parts) == 1 else self._both(*parts))

    def signbit(self, a: Lane) -> Lane:
        dtype = self._floats("signbit", a)
        whole = self._bits_type(dtype)
        return self._lane(BOOL, self._compare("lt", whole, self._bits(dtype, a.name), self._number(whole, 0)))
