"""The formulas of elements as LLVM text: one `Emitter` writes into one function, for one number of lanes.

    emitter = Emitter(function, lanes_of(host, dtypes), host)
    x = emitter.load(np.dtype(float), "%x", index)
    y = emitter.apply(equation, [x, emitter.literal(2.0, float)])
    emitter.store(y, "%y", index)

Idea: the tables have LLVM's instructions and intrinsics for the base atoms; the others are composed
(`primitives/composite_atoms.py`) or are functions of their own (`lane_functions.py`). No instruction carries a fast-math flag,
and nothing is contracted, but under fast_math. Trap: lanes that a mask turns off hold zeros and are computed with, so that no
code may fault on them.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.backends.native import ir, lane_conversions, lane_functions, lane_memory
from funcad.backends.native.lane_types import Lane, element_of, float_text
from funcad.backends.plans.element_plan import Unsupported
from funcad.backends.plans.element_writer import BOOL, ElementWriter, identity_of, part_of
from funcad.host.real_types import is_a

CONTRACTED = {"add", "sub", "mul", "square"}  # atoms that a processor computes two at a time
_MACHINE = platform.machine().lower()
_OF_INTEGERS = {
    "add": "add", "sub": "sub", "mul": "mul", "and_": "and", "or_": "or", "xor": "xor", "shifted_left": "shl",
}  # fmt: skip
_INSTRUCTIONS = {  # by the kind of the operands
    "f": {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "fmod": "frem"},
    "i": {**_OF_INTEGERS, "quotient": "sdiv", "rest": "srem", "shifted_right": "ashr"},
    "u": {**_OF_INTEGERS, "quotient": "udiv", "rest": "urem", "shifted_right": "lshr"},
}
_INTRINSICS = {"abs": "fabs", **{name: name for name in ("sqrt", "copysign", "floor", "ceil", "rint", "trunc", "fma")}}
_COMPARED = {  # the predicates of an atom, by the kind of the operands
    "f": {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"},
    "i": {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "below": "ult"},
    "u": {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge", "below": "ult"},
}
_COMPARED["b"] = _COMPARED["u"]
_BITS = {"and_": "and", "or_": "or", "xor": "xor"}
_ON_ARM = {"maximum": "maximum", "fmax": "maximum", "minimum": "minimum", "fmin": "minimum"}  # -0.0 is less than 0.0 there


def _has_fma(host: Any) -> bool:
    return not host.features.isdisjoint(("fma", "neon")) or _MACHINE in ("arm64", "aarch64")


class Emitter(ElementWriter):
    """Writes element operations into `function`: scalars with lanes=1 ("double"), else vectors ("<4 x double>").

    `contracts`: may what is written now be contracted, as the user's arithmetic and not as part of another function?
    """

    contracts = False
    load, store = lane_memory.load, lane_memory.store
    convert = lane_conversions.convert
    where_rare, power = lane_functions.where_rare, lane_functions.float_power

    def __init__(self, function: ir.Function, lanes: int, host: Any):
        if lanes < 1 or lanes & (lanes - 1):
            raise ValueError(f"the number of lanes is a power of two, got {lanes}")
        self.function = function
        self.module = function.module
        self.lanes = lanes
        self.host = host
        self.fused = _has_fma(host)  # llvm.fma is one instruction
        self.x86 = _MACHINE in ("x86_64", "amd64", "i686", "i386")
        self.put = function.put
        self.known = lane_functions.KnownSigns()  # of vectors of floats
        self._constants: dict[tuple[str, str], str] = {}

    @property
    def one(self) -> Emitter:
        """The same for scalars."""
        return self if self.lanes == 1 else Emitter(self.function, 1, self.host)

    # -- types
    def element(self, dtype: np.dtype) -> str:
        return element_of(dtype)

    def part(self, dtype: np.dtype) -> np.dtype:
        return part_of(dtype)

    def register(self, dtype: np.dtype) -> str:
        """The LLVM type of a lane: `double`, or `<4 x double>`."""
        return self.vector(element_of(dtype))

    def vector(self, element: str) -> str:
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def suffix(self, element: str) -> str:
        """What an overloaded intrinsic's name ends with."""
        short = {"double": "f64", "float": "f32"}.get(element, element)
        return short if self.lanes == 1 else f"v{self.lanes}{short}"

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
        element = element_of(dtype)
        if dtype.kind == "c":
            value = np.asarray(value).astype(dtype)[()]
            size = dtype.itemsize // 2
            return Lane(dtype, tuple([self.constant(element, float_text(v, size)) for v in (value.real, value.imag)]))
        if dtype.kind == "f":
            name = self.constant(element, float_text(value, dtype.itemsize))
            if self.lanes > 1 and self.fused:
                self.known.literal(name, value)
            return Lane(dtype, (name,))
        if dtype.kind == "b":
            return Lane(dtype, (self.constant(element, "true" if value else "false"),))
        number = int(np.asarray(value).astype(dtype)) if is_a(value, np.generic) else int(dtype.type(value))
        return Lane(dtype, (self.constant(element, str(number)),))

    def number(self, dtype: np.dtype, value: Any) -> str:
        return self.literal(value, dtype).parts[0]

    # -- lanes of a vector
    def broadcast(self, element: str, name: str) -> str:
        """A scalar value on every lane."""
        if self.lanes == 1:
            return name
        vector = self.vector(element)
        first = self.put(f"insertelement {vector} poison, {element} {name}, i64 0")
        return self.put(f"shufflevector {vector} {first}, {vector} poison, <{self.lanes} x i32> zeroinitializer")

    def splat(self, lane_of_one: Lane) -> Lane:
        """A scalar lane (of an emitter with lanes=1) to all lanes."""
        element = element_of(lane_of_one.dtype)
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

    # -- instructions on registers
    def op(self, op: str, dtype: np.dtype, a: str, b: str) -> str:
        """A binary instruction on values of a real dtype (or of the part of a complex one)."""
        return self.put(f"{op} {self.register(dtype)} {a}, {b}")

    def choose(self, dtype: np.dtype, condition: str, a: str, b: str) -> str:
        kind = self.register(dtype)
        return self.put(f"select {self.vector('i1')} {condition}, {kind} {a}, {kind} {b}")

    def intrinsic(self, name: str, dtype: np.dtype, *operands: str) -> str:
        kind = self.register(dtype)
        full = f"llvm.{name}.{self.suffix(element_of(dtype))}"
        return self.function.intrinsic(full, kind, *[(kind, o) for o in operands])

    def logic(self, what: str, a: str, b: str) -> str:
        """`and`, `or` and `xor` of truth values; of vectors as integers of the width of the elements, as comparisons give them.

        LLVM packs vectors of i1 to half their width and back. Registers of 512 bits have masks of their own.
        """
        if self.lanes == 1 or self.host.vector_bits == 512:
            return self.op(what, BOOL, a, b)
        narrow, wide = self.vector("i1"), self.vector(f"i{max(8, min(self.host.vector_bits // self.lanes, 64))}")
        a, b = [self.put(f"sext {narrow} {x} to {wide}") for x in (a, b)]
        return self.put(f"icmp slt {wide} {self.put(f'{what} {wide} {a}, {b}')}, zeroinitializer")

    # -- atoms
    def real(self, a: Lane) -> Lane:
        return Lane(part_of(a.dtype), a.parts[:1])

    def imag(self, a: Lane) -> Lane:
        return Lane(part_of(a.dtype), a.parts[1:])

    def pair(self, a: Lane, b: Lane) -> Lane:
        """The complex number of these parts."""
        return Lane(np.dtype(f"c{2 * a.dtype.itemsize}"), (a.name, b.name))

    def choice(self, condition: Lane, a: Lane, b: Lane) -> Lane:
        return Lane(a.dtype, tuple([self.choose(a.dtype, condition.name, p, q) for p, q in zip(a.parts, b.parts)]))

    def combine(self, name: str, *operands: Any) -> Lane:
        """An atom of the user's own arithmetic, which fast_math contracts: of a formula, or a step of a reduction."""
        self.contracts = name in CONTRACTED and operands[0].dtype.kind == "f" and self.function.module.contracts
        lane: Lane = self.atom(name, *operands)
        self.contracts = False
        return lane

    def base(self, name: str, dtype: np.dtype, operands: Sequence[Lane]) -> Lane | None:
        kind = dtype.kind
        if kind == "c":
            return None
        names = [lane.name for lane in operands]
        if name in _COMPARED[kind]:
            compare = "fcmp" if kind == "f" else "icmp"
            return Lane(BOOL, (self.op(f"{compare} {_COMPARED[kind][name]}", dtype, *names),))
        if kind == "f":
            return self._of_floats(name, dtype, operands, names)
        if name == "not_":
            ones = self.constant(element_of(dtype), "true" if kind == "b" else "-1")
            return Lane(dtype, (self.op("xor", dtype, names[0], ones),))
        if kind == "b":
            return Lane(dtype, (self.logic(_BITS[name], *names),)) if name in _BITS else None
        op = _INSTRUCTIONS[kind].get(name)
        return None if op is None else Lane(dtype, (self.op(op, dtype, *names),))

    def _of_floats(self, name: str, dtype: np.dtype, operands: Sequence[Lane], names: Sequence[str]) -> Lane | None:
        """Of the result of a vector it is known what the operands' signs tell."""
        if name in _INSTRUCTIONS["f"]:
            out = self.op(_INSTRUCTIONS["f"][name] + (" contract" if self.contracts else ""), dtype, *names)
        elif name == "neg":
            out = self.put(f"fneg {self.register(dtype)} {names[0]}")
        elif name == "fma" and not self.fused:
            raise Unsupported("log of complex numbers needs a fused multiply-add")
        elif name in _INTRINSICS:
            out = self.intrinsic(_INTRINSICS[name], dtype, *names)
        elif name in lane_functions.NAMES:
            out = lane_functions.elementary(self, name, dtype, operands).name
        elif name == "signbit":
            whole = np.dtype(f"i{dtype.itemsize}")
            bits = self.put(f"bitcast {self.register(dtype)} {names[0]} to {self.register(whole)}")
            return Lane(BOOL, (self.op("icmp slt", whole, bits, self.number(whole, 0)),))
        elif name in _ON_ARM and not self.x86:  # NaN where one is
            out = self.intrinsic(_ON_ARM[name], dtype, *names)
            for x, y in (names, names[::-1]) if name[0] == "f" else ():
                out = self.choose(dtype, self.op("fcmp uno", dtype, y, y), x, out)
        else:
            return None
        if name in lane_functions.TELLING and self.lanes > 1 and self.fused:
            self.known.learn(name, out, *names)
        return Lane(dtype, (out,))

    def multiply_add(self, a: Lane, b: Lane, total: Lane) -> Lane:
        """total + a * b, in one instruction where the processor has it: contractions may round either way."""
        if a.dtype.kind != "f" or not self.fused:
            return self.add(total, self.mul(a, b))  # type: ignore[no-any-return]
        return Lane(a.dtype, (self.intrinsic("fma", a.dtype, a.name, b.name, total.name),))

    # -- reductions over lanes
    def identity(self, kind: str, dtype: Any) -> Lane:
        """What changes nothing in `combine`."""
        lane: Lane = self.const(identity_of(kind, np.dtype(dtype)), np.dtype(dtype))
        return lane

    def horizontal(self, kind: str, a: Lane) -> Lane:
        """All lanes combined to one scalar lane, halves by halves."""
        n = self.lanes
        if n == 1:
            return a
        vector = self.register(a.dtype)
        half = Emitter(self.function, n // 2, self.host)
        low: list[str] = []
        high: list[str] = []
        for p in a.parts:
            for first, found in ((0, low), (n // 2, high)):
                if n == 2:
                    found.append(self.put(f"extractelement {vector} {p}, i64 {first}"))
                else:
                    order = ", ".join([f"i32 {first + i}" for i in range(n // 2)])
                    found.append(self.put(f"shufflevector {vector} {p}, {vector} poison, <{n // 2} x i32> <{order}>"))
        both = half.combine(kind, Lane(a.dtype, tuple(low)), Lane(a.dtype, tuple(high)))
        return half.horizontal(kind, both)
