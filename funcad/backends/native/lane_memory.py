"""How lanes come from and go to NumPy's memory.

Idea: memory holds what NumPy's does: a bool is a byte, complex numbers are interleaved. A vector in memory is aligned as its
element is, so every array that NumPy calls aligned may be read. Trap: loads are never numbered (a store may lie between).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.backends.native.lane_types import Lane, element_of
from funcad.backends.plans.element_writer import part_of
from funcad.host.real_types import is_a


def _memory(dtype: np.dtype) -> tuple[str, int]:
    """Type and size of one element (of one part, for a complex dtype) in memory."""
    if dtype.kind == "b":
        return "i8", 1
    return element_of(dtype), part_of(dtype).itemsize


def _address(e: Any, dtype: np.dtype, pointer: str, index: str) -> str:
    if index == "0":
        return pointer
    kind, _ = _memory(dtype)
    if dtype.kind == "c":
        kind = f"[2 x {kind}]"
    return e.put(f"getelementptr {kind}, ptr {pointer}, i64 {index}")


def _read(e: Any, kind: str, size: int, n: int, address: str, mask: str | None) -> str:
    """n elements at an address, as a value of memory's type."""
    vector = kind if n == 1 else f"<{n} x {kind}>"
    if mask is None:
        return e.function.load(f"load {vector}, ptr {address}, align {size}")
    name = f"llvm.masked.load.v{n}{_short(kind)}.p0"
    target = e.module.declare(name, vector, ["ptr", "i32", f"<{n} x i1>", vector])
    arguments = f"ptr {address}, i32 {size}, <{n} x i1> {mask}, {vector} zeroinitializer"
    return e.function.load(f"call {vector} {target}({arguments})")


def _short(kind: str) -> str:
    return {"double": "f64", "float": "f32"}.get(kind, kind)


def _pairs(e: Any, value: str) -> str:
    """A mask with every lane twice: for interleaved complex numbers."""
    n = e.lanes
    order = ", ".join([f"i32 {i // 2}" for i in range(2 * n)])
    return e.put(f"shufflevector <{n} x i1> {value}, <{n} x i1> poison, <{2 * n} x i32> <{order}>")


def load(e: Any, dtype: Any, pointer: str, index: str, mask: str | None = None) -> Lane:
    """The elements from an index on of an array that begins at `pointer`; lanes that are off are zero."""
    dtype = np.dtype(dtype)
    kind, size = _memory(dtype)
    address = _address(e, dtype, pointer, index)
    n = e.lanes
    if n == 1:
        if mask is not None:
            return _guarded_load(e, dtype, pointer, index, mask)
        if dtype.kind == "c":
            second = e.put(f"getelementptr {kind}, ptr {address}, i64 1")
            return Lane(dtype, (_read(e, kind, size, 1, address, None), _read(e, kind, size, 1, second, None)))
        return _from_memory(e, dtype, _read(e, kind, size, 1, address, None))
    if dtype.kind != "c":
        return _from_memory(e, dtype, _read(e, kind, size, n, address, mask))
    both = _read(e, kind, size, 2 * n, address, None if mask is None else _pairs(e, mask))
    parts = []
    for first in (0, 1):
        order = ", ".join([f"i32 {2 * i + first}" for i in range(n)])
        parts.append(e.put(f"shufflevector <{2 * n} x {kind}> {both}, <{2 * n} x {kind}> poison, <{n} x i32> <{order}>"))
    return Lane(dtype, tuple(parts))


def _from_memory(e: Any, dtype: np.dtype, value: str) -> Lane:
    if dtype.kind == "b":
        value = e.put(f"icmp ne {e.vector('i8')} {value}, {e.constant('i8', '0')}")
    return Lane(dtype, (value,))


def _guarded_load(e: Any, dtype: np.dtype, pointer: str, index: str, mask: str) -> Lane:
    function = e.function
    zero = e.literal(0, dtype)
    before, inside, done = function.block, function.label("read"), function.label("read")
    function.do(f"br i1 {mask}, label %{inside}, label %{done}")
    function.open(inside)
    with function._scope():  # names made in here are not known after it
        found = load(e, dtype, pointer, index)
    function.do(f"br label %{done}")
    function.open(done)
    kind = e.register(dtype)
    pairs = zip(found.parts, zero.parts)
    return Lane(dtype, tuple([function.load(f"phi {kind} [{p}, %{inside}], [{z}, %{before}]") for p, z in pairs]))


def gather(e: Any, dtype: np.dtype, pointer: str, step: Any) -> Lane:
    """The elements at a pointer and so many bytes further each."""
    if _backwards(e, dtype, step):
        return Lane(dtype, (_turned(e, load(e, dtype, _further(e, pointer, step, e.lanes - 1), "0")),))
    found = [e.one.load(dtype, _further(e, pointer, step, i), "0").parts for i in range(e.lanes)]
    if e.lanes == 1:
        return Lane(dtype, found[0])
    vector, element = e.register(dtype), element_of(dtype)
    lanes = ["poison"] * len(found[0])
    for i, parts in enumerate(found):
        lanes = [e.put(f"insertelement {vector} {v}, {element} {p}, i64 {i}") for v, p in zip(lanes, parts)]
    return Lane(dtype, tuple(lanes))


def scatter(e: Any, lane: Lane, pointer: str, step: Any) -> None:
    """Write the lanes so many bytes apart."""
    if _backwards(e, lane.dtype, step):
        store(e, Lane(lane.dtype, (_turned(e, lane),)), _further(e, pointer, step, e.lanes - 1), "0")
        return
    for i in range(e.lanes):
        e.one.store(e.extract(lane, i), _further(e, pointer, step, i), "0")


def _backwards(e: Any, dtype: np.dtype, step: Any) -> bool:
    """Do elements lie side by side, the last one first?"""
    return e.lanes > 1 and dtype.kind in "fiu" and step == -dtype.itemsize


def _turned(e: Any, lane: Lane) -> str:
    """The lanes in the opposite order."""
    vector, order = e.register(lane.dtype), ", ".join([f"i32 {i}" for i in reversed(range(e.lanes))])
    return e.put(f"shufflevector {vector} {lane.parts[0]}, {vector} poison, <{e.lanes} x i32> <{order}>")


def _further(e: Any, pointer: str, step: Any, i: int) -> str:
    if i == 0:
        return pointer
    offset = step * i if is_a(step, int) else e.put(f"mul i64 {step}, {i}")
    return e.put(f"getelementptr i8, ptr {pointer}, i64 {offset}")


def store(
    e: Any,
    lane: Lane,
    pointer: str,
    index: str,
    mask: str | None = None,
    nontemporal: bool = False,
) -> None:
    """Write the lanes from an index on; lanes that are off are not touched.

    `nontemporal` bypasses the caches: the address must then be a multiple of the vector's size in bytes.
    """
    dtype = lane.dtype
    kind, size = _memory(dtype)
    n = e.lanes
    if n == 1 and mask is not None:
        with e.function.when(mask):
            store(e, lane, pointer, index)
        return
    address = _address(e, dtype, pointer, index)
    parts = lane.parts
    if dtype.kind == "b":
        parts = (e.put(f"zext {e.vector('i1')} {parts[0]} to {e.vector('i8')}"),)
    if dtype.kind == "c" and n > 1:
        order = ", ".join([f"i32 {i // 2 + n * (i % 2)}" for i in range(2 * n)])
        vector = f"<{n} x {kind}>"
        parts = (e.put(f"shufflevector {vector} {parts[0]}, {vector} {parts[1]}, <{2 * n} x i32> <{order}>"),)
        mask = None if mask is None else _pairs(e, mask)
        n = 2 * n
    for i, value in enumerate(parts):
        target = address if i == 0 else e.put(f"getelementptr {kind}, ptr {address}, i64 {i}")
        _write(e, kind, size, n, value, target, mask, nontemporal)


def _write(e: Any, kind: str, size: int, n: int, value: str, address: str, mask: str | None, nontemporal: bool) -> None:
    vector = kind if n == 1 else f"<{n} x {kind}>"
    if mask is not None:
        name = f"llvm.masked.store.v{n}{_short(kind)}.p0"
        target = e.module.declare(name, "void", [vector, "ptr", "i32", f"<{n} x i1>"])
        e.function.do(f"call void {target}({vector} {value}, ptr {address}, i32 {size}, <{n} x i1> {mask})")
        return
    hint = ""
    if nontemporal and n > 1:
        e.module.constants["!funcad.nt"] = "!1999 = !{i32 1}"
        size, hint = size * n, ", !nontemporal !1999"
    e.function.do(f"store {vector} {value}, ptr {address}, align {size}{hint}")
