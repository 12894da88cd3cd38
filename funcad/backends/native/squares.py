"""Adjacent elements of as many rows as a vector has lanes: a lane for each element, which holds it of all rows.

Idea: vectors are read along the rows, a square of rows and elements at a time, and transposed in registers; and so are results.
The last square may overlap the one before it, and then the same bits are read, or written, again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.backends.native.emitter import Emitter
from funcad.backends.native.lane_types import Lane


def read(e: Emitter, dtype: np.dtype, pointer: str, step: Any, count: int) -> list[Lane]:
    """`count` elements from the pointer on, and from so many bytes further, for each lane."""
    if count == 1 and step == dtype.itemsize:
        return [e.load(dtype, pointer, "0")]
    found: list[str] = [""] * count
    for start, width in _pieces(count, e.lanes):
        kind = f"<{width} x {_memory(e, dtype)}>" if width > 1 else _memory(e, dtype)
        places = [_address(e, pointer, step, i, start * dtype.itemsize) for i in range(e.lanes)]
        rows = [e.function.load(f"load {kind}, ptr {place}, align {dtype.itemsize}") for place in places]
        found[start : start + width] = _turned(e, _joined(e, rows, dtype, width), dtype)
    if dtype.kind == "b":
        found = [e.put(f"icmp ne <{e.lanes} x i8> {name}, zeroinitializer") for name in found]
    return [Lane(dtype, (name,)) for name in found]


def write(e: Emitter, lanes: list[Lane], pointer: str, step: Any) -> None:
    """The elements of each row, from the pointer on and so many bytes further."""
    count, dtype = len(lanes), lanes[0].dtype
    if count == 1 and step == dtype.itemsize:
        e.store(lanes[0], pointer, "0")
        return
    names = [lane.name for lane in lanes]
    if dtype.kind == "b":
        names = [e.put(f"zext <{e.lanes} x i1> {name} to <{e.lanes} x i8>") for name in names]
    element = _memory(e, dtype)
    for start, width in _pieces(count, e.lanes):
        vectors = _turned(e, names[start : start + width], dtype)
        for i in range(e.lanes):
            row, part = vectors[i % width], ", ".join([f"i32 {i // width * width + k}" for k in range(width)])
            if width < e.lanes:
                whole = f"<{e.lanes} x {element}>"
                row = e.put(f"shufflevector {whole} {row}, {whole} poison, <{width} x i32> <{part}>")
            place = _address(e, pointer, step, i, start * dtype.itemsize)
            e.function.do(f"store <{width} x {element}> {row}, ptr {place}, align {dtype.itemsize}")


def _address(e: Emitter, pointer: str, step: Any, row: int, offset: int) -> str:
    if row:
        far = step * row if type(step) is int else e.put(f"mul i64 {step}, {row}")
        pointer = e.put(f"getelementptr i8, ptr {pointer}, i64 {far}")
    return e.put(f"getelementptr i8, ptr {pointer}, i64 {offset}") if offset else pointer


def _joined(e: Emitter, rows: list[str], dtype: np.dtype, width: int) -> list[str]:
    """Pieces of `width` elements of each row as full vectors: number j has rows j, j + width, ..."""
    element = _memory(e, dtype)
    groups = [rows[j::width] for j in range(width)]
    if width == 1:
        groups = [[e.put(f"insertelement <1 x {element}> poison, {element} {x}, i64 0") for x in rows]]
    while len(groups[0]) > 1:
        own = e.lanes // len(groups[0])
        numbers = ", ".join([f"i32 {k}" for k in range(2 * own)])
        vector = f"<{own} x {element}>"
        groups = [
            [
                e.put(f"shufflevector {vector} {a}, {vector} {b}, <{2 * own} x i32> <{numbers}>")
                for a, b in zip(group[::2], group[1::2])
            ]
            for group in groups
        ]
    return [group[0] for group in groups]


def _turned(e: Emitter, vectors: list[str], dtype: np.dtype) -> list[str]:
    """The squares in w vectors transposed: place j of square s of vector i goes to place i of square s of vector j."""
    width, vectors, n = len(vectors), list(vectors), e.lanes
    vector = f"<{n} x {_memory(e, dtype)}>"
    half = 1
    while half < width:
        orders = []
        for side in (0, half):
            starts = [(base + side + other * n) for base in range(0, n, 2 * half) for other in (0, 1)]
            orders.append(", ".join([f"i32 {start + k}" for start in starts for k in range(half)]))
        for i in range(width):
            if not i & half:
                a, b = vectors[i], vectors[i + half]
                vectors[i], vectors[i + half] = (
                    e.put(f"shufflevector {vector} {a}, {vector} {b}, <{n} x i32> <{order}>") for order in orders
                )
        half *= 2
    return vectors


def _memory(e: Emitter, dtype: np.dtype) -> str:
    return "i8" if dtype.kind == "b" else e.element(dtype)


def _pieces(count: int, lanes: int) -> list[tuple[int, int]]:
    """(first element, how many) of the squares that cover a row; the last may overlap the one before it."""
    width = 1
    while 2 * width <= min(count, lanes):
        width *= 2
    return [(min(start, count - width), width) for start in range(0, count, width)]
