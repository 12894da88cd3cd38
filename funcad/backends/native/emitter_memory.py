"""Types of lanes, constants, and how lanes come from and go to NumPy's memory.

Idea: a `Lane` is one value of one dtype on every lane of a vector register (or one scalar); its parts are names of LLVM
values or constants. Memory holds what NumPy's does: a bool is a byte, complex numbers are interleaved. A vector in memory is
aligned as its element is, so every array that NumPy calls aligned may be read. Trap: loads are never numbered (a store may
lie between).
"""

from __future__ import annotations

import platform
import struct
from typing import Any, NamedTuple, Self

import numpy as np

from funcad.backends.native import ir
from funcad.backends.plans.unsupported import Unsupported
from funcad.host.real_types import is_a

__all__ = ["Lane", "Memory", "float_text"]

BOOL = np.dtype(bool)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_PART = {8: FLOAT32, 16: FLOAT64}  # of a complex dtype, by its itemsize
_FLOATS = {4: "float", 8: "double"}


class Lane(NamedTuple):
    """One value on every lane: its dtype and its SSA names (two, real and imaginary, of a complex dtype)."""

    dtype: np.dtype
    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        """The only part of a lane that is not complex."""
        if len(self.parts) != 1:
            raise Unsupported(f"this operation has no native code for {self.dtype}")
        return self.parts[0]


def float_text(value: Any, itemsize: int) -> str:
    """A float as LLVM writes it: the bits of the double that equals it, so that -0.0, inf and NaN payloads survive.

    >>> from funcad.backends.native.emitter_memory import float_text
    >>> float_text(-0.0, 8), float_text(0.5, 4)
    ('0x8000000000000000', '0x3FE0000000000000')
    """
    if itemsize == 8:
        data = struct.pack("<d", value) if type(value) is float else np.float64(value).tobytes()
        return f"0x{int.from_bytes(data, 'little'):016X}"
    single = np.float32(value)
    if np.isnan(single):  # widened by hand: a conversion would quieten and could drop the payload
        bits = struct.unpack("<I", single.tobytes())[0]
        return f"0x{(bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29:016X}"
    return f"0x{struct.unpack('<Q', np.float64(single).tobytes())[0]:016X}"


def _has_fma(host: Any) -> bool:
    features = {f.lstrip("+") for f in host.features}
    return "fma" in features or "neon" in features or platform.machine().lower() in ("arm64", "aarch64")


class Memory:
    """The base of `Emitter`: registers, constants, loads and stores."""

    def __init__(self, function: ir.Function, lanes: int, host: Any):
        self.function = function
        self.module = function.module
        self.lanes = lanes
        self.host = host
        self.fused = _has_fma(host)  # llvm.fma is one instruction
        self.x86 = platform.machine().lower() in ("x86_64", "amd64", "i686", "i386")
        self.put = function.put
        self._constants: dict[tuple[str, str], str] = {}

    def _one(self) -> Self:
        """The same for scalars."""
        return self if self.lanes == 1 else type(self)(self.function, 1, self.host)

    # -- types
    def element(self, dtype: np.dtype) -> str:
        """The LLVM type of one element in a register; of one part, for a complex dtype."""
        kind, size = dtype.kind, dtype.itemsize
        if kind == "b":
            return "i1"
        if kind in "iu":
            return f"i{8 * size}"
        if kind == "f" and size in _FLOATS:
            return _FLOATS[size]
        if kind == "c" and size in _PART:
            return _FLOATS[size // 2]
        raise Unsupported(f"{dtype} has no native code")

    def register(self, dtype: np.dtype) -> str:
        """The LLVM type of a lane: `double`, or `<4 x double>`."""
        return self.vector(self.element(dtype))

    def vector(self, element: str) -> str:
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def suffix(self, element: str) -> str:
        """What an overloaded intrinsic's name ends with."""
        short = {"double": "f64", "float": "f32"}.get(element, element)
        return short if self.lanes == 1 else f"v{self.lanes}{short}"

    def part(self, dtype: np.dtype) -> np.dtype:
        """The dtype of the parts of a complex dtype; any other dtype itself."""
        return _PART[dtype.itemsize] if dtype.kind == "c" and dtype.itemsize in _PART else dtype

    # -- constants
    def constant(self, element: str, text: str) -> str:
        """The operand that is one constant on every lane."""
        if self.lanes == 1:
            return text
        found = self._constants.get((element, text))
        if found is None:
            found = "<" + ", ".join([f"{element} {text}"] * self.lanes) + ">"
            self._constants[element, text] = found
        return found

    def literal(self, value: Any, dtype: Any) -> Lane:
        """A Python or NumPy scalar on every lane, converted to the dtype as NumPy converts it."""
        dtype = np.dtype(dtype)
        element = self.element(dtype)
        if dtype.kind == "c":
            value = np.asarray(value).astype(dtype)[()]
            size = dtype.itemsize // 2
            return Lane(dtype, tuple([self.constant(element, float_text(v, size)) for v in (value.real, value.imag)]))
        if dtype.kind == "f":
            return Lane(dtype, (self.constant(element, float_text(value, dtype.itemsize)),))
        if dtype.kind == "b":
            return Lane(dtype, (self.constant(element, "true" if value else "false"),))
        number = int(np.asarray(value).astype(dtype)) if is_a(value, np.generic) else int(dtype.type(value))
        return Lane(dtype, (self.constant(element, str(number)),))

    def broadcast(self, element: str, name: str) -> str:
        """A scalar value on every lane."""
        if self.lanes == 1:
            return name
        vector = self.vector(element)
        first = self.put(f"insertelement {vector} poison, {element} {name}, i64 0")
        return self.put(f"shufflevector {vector} {first}, {vector} poison, <{self.lanes} x i32> zeroinitializer")

    def splat(self, lane_of_one: Lane) -> Lane:
        """A scalar lane (of an emitter with lanes=1) to all lanes."""
        element = self.element(lane_of_one.dtype)
        return Lane(lane_of_one.dtype, tuple([self.broadcast(element, p) for p in lane_of_one.parts]))

    def extract(self, lane: Lane, position: int) -> Lane:
        """One lane as a scalar lane."""
        if self.lanes == 1:
            return lane
        vector = self.register(lane.dtype)
        return Lane(lane.dtype, tuple([self.put(f"extractelement {vector} {p}, i64 {position}") for p in lane.parts]))

    def mask(self, count: str) -> str:
        """The i1 vector whose first `count` lanes are on; `count` is an i64 that is not negative."""
        n = self.lanes
        if n == 1:
            return self.put(f"icmp ne i64 {count}, 0")
        few = self.put(f"icmp ult i64 {count}, {n}")
        few = self.put(f"select i1 {few}, i64 {count}, i64 {n}")
        limit = self.broadcast("i32", self.put(f"trunc i64 {few} to i32"))
        steps = ", ".join([f"i32 {i}" for i in range(n)])
        return self.put(f"icmp ult <{n} x i32> <{steps}>, {limit}")

    # -- memory
    def _memory(self, dtype: np.dtype) -> tuple[str, int]:
        """Type and size of one element (of one part, for a complex dtype) in memory."""
        if dtype.kind == "b":
            return "i8", 1
        return self.element(dtype), self.part(dtype).itemsize

    def _address(self, dtype: np.dtype, pointer: str, index: str) -> str:
        kind, _ = self._memory(dtype)
        if dtype.kind == "c":
            kind = f"[2 x {kind}]"
        return self.put(f"getelementptr {kind}, ptr {pointer}, i64 {index}")

    def _lane_index(self, index: str, stride: int | str, position: int) -> str:
        if position == 0:
            return index
        if is_a(stride, int):
            return self.put(f"add i64 {index}, {stride * position}")
        return self.put(f"add i64 {index}, {self.put(f'mul i64 {stride}, {position}')}")

    def _read(self, kind: str, size: int, n: int, address: str, mask: str | None) -> str:
        """n elements at an address, as a value of memory's type."""
        vector = kind if n == 1 else f"<{n} x {kind}>"
        if mask is None:
            return self.function.load(f"load {vector}, ptr {address}, align {size}")
        name = f"llvm.masked.load.v{n}{self._short(kind)}.p0"
        target = self.module.declare(name, vector, ["ptr", "i32", f"<{n} x i1>", vector])
        arguments = f"ptr {address}, i32 {size}, <{n} x i1> {mask}, {vector} zeroinitializer"
        return self.function.load(f"call {vector} {target}({arguments})")

    @staticmethod
    def _short(kind: str) -> str:
        return {"double": "f64", "float": "f32"}.get(kind, kind)

    def _pairs(self, value: str) -> str:
        """A mask with every lane twice: for interleaved complex numbers."""
        n = self.lanes
        order = ", ".join([f"i32 {i // 2}" for i in range(2 * n)])
        return self.put(f"shufflevector <{n} x i1> {value}, <{n} x i1> poison, <{2 * n} x i32> <{order}>")

    def load(self, dtype: Any, pointer: str, index: str, stride: int | str = 1, mask: str | None = None) -> Lane:
        """The elements at index, index + stride, ... of an array that begins at `pointer`; lanes that are off are zero.

        `index` is an i64 (a name or a number), `stride` counts elements: 1 reads a vector, 0 one value for every lane, any
        other number or a name reads lane by lane.
        """
        dtype = np.dtype(dtype)
        kind, size = self._memory(dtype)
        if stride == 0 and self.lanes > 1:
            return self.splat(self._one().load(dtype, pointer, index))
        if stride != 1 and self.lanes > 1:
            return self._gather(dtype, pointer, index, stride, mask)
        address = self._address(dtype, pointer, index)
        n = self.lanes
        if n == 1:
            if mask is not None:
                return self._guarded_load(dtype, pointer, index, mask)
            if dtype.kind == "c":
                second = self.put(f"getelementptr {kind}, ptr {address}, i64 1")
                return Lane(dtype, (self._read(kind, size, 1, address, None), self._read(kind, size, 1, second, None)))
            return self._from_memory(dtype, self._read(kind, size, 1, address, None))
        if dtype.kind != "c":
            return self._from_memory(dtype, self._read(kind, size, n, address, mask))
        both = self._read(kind, size, 2 * n, address, None if mask is None else self._pairs(mask))
        parts = []
        for first in (0, 1):
            order = ", ".join([f"i32 {2 * i + first}" for i in range(n)])
            parts.append(self.put(f"shufflevector <{2 * n} x {kind}> {both}, <{2 * n} x {kind}> poison, <{n} x i32> <{order}>"))
        return Lane(dtype, tuple(parts))

    def _from_memory(self, dtype: np.dtype, value: str) -> Lane:
        if dtype.kind == "b":
            value = self.put(f"icmp ne {self.vector('i8')} {value}, {self.constant('i8', '0')}")
        return Lane(dtype, (value,))

    def _guarded_load(self, dtype: np.dtype, pointer: str, index: str, mask: str) -> Lane:
        function = self.function
        zero = self.literal(0, dtype)
        before, inside, done = function.block, function.label("read"), function.label("read")
        function.do(f"br i1 {mask}, label %{inside}, label %{done}")
        function.open(inside)
        with function._scope():  # names made in here are not known after it
            found = self.load(dtype, pointer, index)
        function.do(f"br label %{done}")
        function.open(done)
        kind = self.register(dtype)
        return Lane(
            dtype,
            tuple([function.load(f"phi {kind} [{p}, %{inside}], [{z}, %{before}]") for p, z in zip(found.parts, zero.parts)]),
        )

    def _gather(self, dtype: np.dtype, pointer: str, index: str, stride: int | str, mask: str | None) -> Lane:
        one = self._one()
        element = self.element(dtype)
        vector = self.vector(element)
        parts = ["zeroinitializer" if mask is not None else "poison"] * (2 if dtype.kind == "c" else 1)
        for i in range(self.lanes):
            at = self._lane_index(index, stride, i)
            on = None if mask is None else self.put(f"extractelement <{self.lanes} x i1> {mask}, i64 {i}")
            found = one.load(dtype, pointer, at, mask=on)
            parts = [self.put(f"insertelement {vector} {v}, {element} {p}, i64 {i}") for v, p in zip(parts, found.parts)]
        return Lane(dtype, tuple(parts))

    def store(
        self,
        lane: Lane,
        pointer: str,
        index: str,
        stride: int | str = 1,
        mask: str | None = None,
        nontemporal: bool = False,
    ) -> None:
        """Write the lanes to index, index + stride, ...; lanes that are off are not touched.

        `nontemporal` bypasses the caches: the address must then be a multiple of the vector's size in bytes.
        """
        dtype = lane.dtype
        kind, size = self._memory(dtype)
        n = self.lanes
        if n > 1 and stride != 1:
            one = self._one()
            for i in range(n):
                on = None if mask is None else self.put(f"extractelement <{n} x i1> {mask}, i64 {i}")
                one.store(self.extract(lane, i), pointer, self._lane_index(index, stride, i), mask=on)
            return
        if n == 1 and mask is not None:
            with self.function.when(mask):
                self.store(lane, pointer, index)
            return
        address = self._address(dtype, pointer, index)
        parts = lane.parts
        if dtype.kind == "b":
            parts = (self.put(f"zext {self.vector('i1')} {parts[0]} to {self.vector('i8')}"),)
        if dtype.kind == "c" and n > 1:
            order = ", ".join([f"i32 {i // 2 + n * (i % 2)}" for i in range(2 * n)])
            vector = f"<{n} x {kind}>"
            parts = (self.put(f"shufflevector {vector} {parts[0]}, {vector} {parts[1]}, <{2 * n} x i32> <{order}>"),)
            mask = None if mask is None else self._pairs(mask)
            n = 2 * n
        for i, value in enumerate(parts):
            target = address if i == 0 else self.put(f"getelementptr {kind}, ptr {address}, i64 {i}")
            self._write(kind, size, n, value, target, mask, nontemporal)

    def _write(self, kind: str, size: int, n: int, value: str, address: str, mask: str | None, nontemporal: bool) -> None:
        vector = kind if n == 1 else f"<{n} x {kind}>"
        if mask is not None:
            name = f"llvm.masked.store.v{n}{self._short(kind)}.p0"
            target = self.module.declare(name, "void", [vector, "ptr", "i32", f"<{n} x i1>"])
            self.function.do(f"call void {target}({vector} {value}, ptr {address}, i32 {size}, <{n} x i1> {mask})")
            return
        hint = ""
        if nontemporal and n > 1:
            self.module.constants["!funcad.nt"] = "!1999 = !{i32 1}"
            size, hint = size * n, ", !nontemporal !1999"
        self.function.do(f"store {vector} {value}, ptr {address}, align {size}{hint}")
