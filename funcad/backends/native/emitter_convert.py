"""Conversions between all dtypes, as `ndarray.astype` does them on this machine.

Trap: a float out of the integer's range (or NaN) has no value in C, and NumPy gives what the processor gives. On x86 that is
the least integer of the 32 or 64 bits in which the conversion is done, cut to the result's width; on ARM the nearest integer
of those bits, 0 for NaN. LLVM's own instruction is undefined there, so such lanes are chosen apart. (For uint32, NumPy's
vector loop and its scalar loop differ out of range; here it is what the scalar loop does.)
"""

from __future__ import annotations

import numpy as np

from funcad.backends.native.emitter_arithmetic import Arithmetic
from funcad.backends.native.emitter_memory import BOOL, Lane
from funcad.backends.plans.unsupported import Unsupported

__all__ = ["Convert"]

_INT32, _INT64, _UINT32, _UINT64 = (np.dtype(t) for t in ("i4", "i8", "u4", "u8"))


class Convert(Arithmetic):
    """Mixin of `Emitter`: `convert`."""

    def _cast(self, op: str, source: np.dtype, target: np.dtype, name: str) -> str:
        return self.put(f"{op} {self.register(source)} {name} to {self.register(target)}")

    def convert(self, a: Lane, dtype: np.dtype) -> Lane:
        """The lane in another dtype; complex to real takes the real part, anything to bool asks whether it is not 0."""
        dtype = np.dtype(dtype)
        source = a.dtype
        self.element(dtype)  # refuses what has no native code
        if source == dtype:
            return a
        if dtype.kind == "b":
            return Lane(BOOL, (self.truth(a),))
        if dtype.kind == "c":
            part = self.part(dtype)
            if source.kind == "c":
                return Lane(dtype, tuple([self.convert(Lane(self.part(source), (p,)), part).name for p in a.parts]))
            return Lane(dtype, (self.convert(a, part).name, self._number(part, 0.0)))
        if source.kind == "c":
            return self.convert(Lane(self.part(source), (a.parts[0],)), dtype)
        if dtype.kind == "f":
            if source.kind == "f":
                op = "fpext" if dtype.itemsize > source.itemsize else "fptrunc"
            else:
                op = "sitofp" if source.kind == "i" else "uitofp"
            return Lane(dtype, (self._cast(op, source, dtype, a.name),))
        if source.kind == "f":
            return Lane(dtype, (self._from_float(a, dtype),))
        if dtype.itemsize == source.itemsize and source.kind != "b":
            return Lane(dtype, a.parts)  # the same bits
        if dtype.itemsize < source.itemsize:
            return Lane(dtype, (self._cast("trunc", source, dtype, a.name),))
        return Lane(dtype, (self._cast("sext" if source.kind == "i" else "zext", source, dtype, a.name),))

    def _from_float(self, a: Lane, dtype: np.dtype) -> str:
        """A float cut to an integer, by way of the integer in which the processor converts."""
        if self.x86:
            if dtype == _UINT64:
                return self._to_uint64(a)
            middle = _INT64 if dtype in (_INT64, _UINT32) else _INT32
            out = self._cut(a, middle)
        else:
            middle = dtype if dtype.itemsize >= 4 else _INT32 if dtype.kind == "i" else _UINT32
            op = "fptosi" if middle.kind == "i" else "fptoui"
            source, target = self.register(a.dtype), self.register(middle)
            names = self.suffix(self.element(middle)), self.suffix(self.element(a.dtype))
            out = self.function.intrinsic(f"llvm.{op}.sat.{names[0]}.{names[1]}", target, (source, a.name))
        return out if middle.itemsize == dtype.itemsize else self._cast("trunc", middle, dtype, out)

    def _cut(self, a: Lane, target: np.dtype) -> str:
        """To a signed integer as x86 does: the least one where it does not fit, for NaN too."""
        source = a.dtype
        limit = 2.0 ** (8 * target.itemsize - 1)
        least = np.iinfo(target).min
        below = self._compare("olt", source, a.name, self._number(source, limit))
        if float(source.type(-limit - 1)) < -limit:  # the float has numbers between that still cut to the least integer
            above = self._compare("ogt", source, a.name, self._number(source, -limit - 1))
        else:
            above = self._compare("oge", source, a.name, self._number(source, -limit))
        cut = self._cast("fptosi", source, target, a.name)
        return self._choose(target, self._both(below, above), cut, self._number(target, least))

    def _to_uint64(self, a: Lane) -> str:
        """Below 2**63 as a signed integer; from there on what exceeds 2**63, with the highest bit turned over."""
        source = a.dtype
        limit = self._number(source, 2.0**63)
        small = self._cut(a, _INT64)
        large = self._cut(Lane(source, (self._op("fsub", source, a.name, limit),)), _INT64)
        large = self._op("xor", _INT64, large, self._number(_INT64, -(2**63)))
        return self._choose(_INT64, self._compare("oge", source, a.name, limit), large, small)

    def bitcast(self, a: Lane, dtype: np.dtype) -> Lane:
        """The same bits as another dtype of equal size."""
        dtype = np.dtype(dtype)
        if dtype.itemsize != a.dtype.itemsize or "c" in (dtype.kind, a.dtype.kind) or "b" in (dtype.kind, a.dtype.kind):
            raise Unsupported(f"bitcast from {a.dtype} to {dtype}")
        if self.element(dtype) == self.element(a.dtype):
            return Lane(dtype, a.parts)
        return Lane(dtype, (self._cast("bitcast", a.dtype, dtype, a.name),))
