"""Products of small matrices inside a whole program: `dot_general` by two functions that all programs share.

`matrix_product` computes blocks of rows times a few vectors of columns in registers; its left operand may be strided in any way
(a transposed one costs nothing), its right operand must have unit stride along the columns; panels of it are copied into one
piece where there are many rows, since lines at equal distances push each other out of the first cache. `row_products` needs
unit stride along the summed axis of both: a matrix times a vector, or a transposed right operand of few rows. What fits
neither is put in order first; before a loop, if the operand does not change in it. Sums may be contracted (fma), as BLAS does:
the bound of a contraction holds, not bitwise equality.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from funcad.backends.native.emitter import Emitter
from funcad.backends.native.ir import Module
from funcad.backends.native.program_build import Build
from funcad.backends.native.program_reduce import reduce
from funcad.backends.native.program_values import Splat, View, moved_by, viewed
from funcad.backends.native.shared_functions import address, fma, new_function, rounded, shared
from funcad.backends.native.target import lanes_of
from funcad.backends.plans.element_plan import merged_axes
from funcad.primitives.contraction import free_axes
from funcad.primitives.families import broadcast_in_dim

DEPTH = 64  # of the summed axis that is gone through at once, so that blocks of both operands stay in the first cache
MANY = 24  # rows from which on it pays to copy a panel of the right operand into one piece
FEW = 4  # rows of a product that is made of products of rows, rather than copying a transposed operand


@shared
def matrix_product(host: Any, dtype: np.dtype) -> str:
    """The module of `matrix_product(m, n, k, a, a_row, a_k, b, b_k, c, c_row)`: c = a @ b."""
    module = Module()
    parameters = "i64 %m, i64 %n, i64 %k, ptr %a, i64 %a_row, i64 %a_k, ptr %b, i64 %b_k, ptr %c, i64 %c_row"
    f = new_function(module, "matrix_product", parameters)
    lanes = lanes_of(host, [dtype])
    e, kind = Emitter(f, lanes, host), "double" if dtype.itemsize == 8 else "float"
    vector = e.vector(kind)
    wide, high = (3, 8) if host.vector_bits == 512 else (2, 4)
    size = dtype.itemsize

    def block(i: str, j: str, rows: int, columns: int, mask: str | None, right: str, step: str) -> None:
        left = [address(f, kind, "%a", (i, "%a_row"), (k0, "%a_k"))]
        for _ in range(rows - 1):
            left.append(address(f, kind, left[-1], ("%a_row", 1)))
        out = [address(f, kind, "%c", (i, "%c_row"), (j, 1))]
        for _ in range(rows - 1):
            out.append(address(f, kind, out[-1], ("%c_row", 1)))
        start = []
        for r in range(rows):
            for v in range(columns):
                old = e.load(dtype, out[r], str(v * lanes), mask=mask).name
                start.append((vector, f.put(f"select i1 {first}, {vector} zeroinitializer, {vector} {old}")))
        with f.loop(0, depth, carried=[("i64", "0"), ("ptr", right), *start]) as loop:
            at, row, *sums = loop.values
            b = [e.load(dtype, row, str(v * lanes), mask=mask).name for v in range(columns)]
            found = []
            for r in range(rows):
                x = f.load(f"load {kind}, ptr {address(f, kind, left[r], (at, 1))}, align {size}")
                x = e.broadcast(kind, x)
                found += [fma(f, e, kind, x, b[v], sums[r * columns + v]) for v in range(columns)]
            loop.next(f.put(f"add i64 {at}, %a_k"), address(f, kind, row, (step, 1)), *found)
        for r in range(rows):
            for v in range(columns):
                lane = e.literal(0, dtype)._replace(parts=(loop.results[2 + r * columns + v],))
                e.store(lane, out[r], str(v * lanes), mask=mask)

    def all_rows(j: str, columns: int, mask: str | None, *rest: str) -> None:
        whole = rounded(f, "%m", high)
        with f.loop(0, whole, high) as rows:
            block(rows.index, j, high, columns, mask, *rest)
            rows.next()
        with f.loop(whole, "%m") as rows:
            block(rows.index, j, 1, columns, mask, *rest)
            rows.next()

    panel = f.load(f"alloca [{DEPTH * wide * lanes} x {kind}], align 64")
    place, stride = f.load("alloca ptr"), f.load("alloca i64")
    many = f.put(f"icmp sge i64 %m, {MANY}")
    blocks = f.put(f"mul i64 {f.put(f'udiv i64 %n, {wide * lanes}')}, {wide * lanes}")
    with f.loop(0, "%k", DEPTH) as deep:
        k0 = deep.index
        left = f.put(f"sub i64 %k, {k0}")
        depth = f.put(f"select i1 {f.put(f'icmp slt i64 {left}, {DEPTH}')}, i64 {left}, i64 {DEPTH}")
        first = f.put(f"icmp eq i64 {k0}, 0")
        with f.loop(0, blocks, wide * lanes) as columns:
            right = address(f, kind, "%b", (k0, "%b_k"), (columns.index, 1))
            f.do(f"store ptr {right}, ptr {place}")
            f.do(f"store i64 %b_k, ptr {stride}")
            with f.when(many):
                with f.loop(0, depth) as rows:
                    source = address(f, kind, right, (rows.index, "%b_k"))
                    for v in range(wide):
                        lane = e.load(dtype, source, str(v * lanes))
                        e.store(lane, address(f, kind, panel, (rows.index, wide * lanes)), str(v * lanes))
                    rows.next()
                f.do(f"store ptr {panel}, ptr {place}")
                f.do(f"store i64 {wide * lanes}, ptr {stride}")
            all_rows(columns.index, wide, None, f.load(f"load ptr, ptr {place}"), f.load(f"load i64, ptr {stride}"))
            columns.next()
        with f.loop(blocks, "%n", lanes) as columns:
            mask = e.mask(f.put(f"sub i64 %n, {columns.index}"))
            right = address(f, kind, "%b", (k0, "%b_k"), (columns.index, 1))
            all_rows(columns.index, 1, mask, right, "%b_k")
            columns.next()
        deep.next()
    f.do("ret void")
    module.add(f)
    return module.text()


@shared
def row_products(host: Any, dtype: np.dtype) -> str:
    """The module of `row_products(m, n, k, a, a_row, b, b_row, c, c_row, c_column)`: c[i, j] = sum of a[i, :] * b[j, :]."""
    module = Module()
    parameters = "i64 %m, i64 %n, i64 %k, ptr %a, i64 %a_row, ptr %b, i64 %b_row, ptr %c, i64 %c_row, i64 %c_column"
    f = new_function(module, "row_products", parameters)
    lanes = lanes_of(host, [dtype])
    e, one, kind = Emitter(f, lanes, host), Emitter(f, 1, host), "double" if dtype.itemsize == 8 else "float"
    vector, high = e.vector(kind), 4
    whole = rounded(f, "%k", lanes)
    mask = e.mask(f.put(f"sub i64 %k, {whole}"))

    def block(i: str, j: str, rows: int) -> None:
        left = [address(f, kind, "%a", (i, "%a_row"))]
        for _ in range(rows - 1):
            left.append(address(f, kind, left[-1], ("%a_row", 1)))
        right = address(f, kind, "%b", (j, "%b_row"))
        with f.loop(0, whole, lanes, carried=[(vector, "zeroinitializer")] * rows) as loop:
            x = e.load(dtype, right, loop.index).name
            loop.next(*[fma(f, e, kind, e.load(dtype, p, loop.index).name, x, s) for p, s in zip(left, loop.values)])
        x = e.load(dtype, right, whole, mask=mask).name
        for r in range(rows):
            total = fma(f, e, kind, e.load(dtype, left[r], whole, mask=mask).name, x, loop.results[r])
            lane = e.horizontal("add", e.literal(0, dtype)._replace(parts=(total,)))
            row = i if r == 0 else f.put(f"add i64 {i}, {r}")
            one.store(lane, address(f, kind, "%c", (row, "%c_row"), (j, "%c_column")), "0")

    blocks = rounded(f, "%m", high)
    with f.loop(0, "%n") as columns:
        with f.loop(0, blocks, high) as rows:
            block(rows.index, columns.index, high)
            rows.next()
        with f.loop(blocks, "%m") as rows:
            block(rows.index, columns.index, 1)
            rows.next()
        columns.next()
    f.do("ret void")
    module.add(f)
    return module.text()


# ---------------------------------------------------------------- dot_general


def packs(m: int, n: int, a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> bool:
    """Must the right operand be copied, for strides (row, column) of a (m, k), b (k, n) and c (m, n)?"""
    return _way(m, n, a, b, c) == "pack"


def _way(m: int, n: int, a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> str:
    straight = (b[1] == 1 or n == 1) and (c[1] == 1 or n == 1)
    turned = (a[0] == 1 or m == 1) and (c[0] == 1 or m == 1)
    rows = a[1] == 1 and b[0] == 1
    if n == 1 and rows or m == 1 and rows and b[1] != 1:
        return "rows"
    if n == 1 and turned:
        return "turned"
    if straight:
        return "straight"
    if turned:
        return "turned"
    return "rows" if rows and min(m, n) < FEW else "pack"


def pack(build: Build, y: View) -> View:
    """A contiguous copy of a right operand, or the one that was made before a loop."""
    found = build.packed.get(key_of(y))
    return build.hold(found) if found is not None else build.in_order(y)


def key_of(y: View) -> tuple:
    return (y.pointer, y.offset, y.shape, y.strides)


def dot(build: Build, x: Any, y: Any, dimension_numbers: Any, target: View | None) -> Any:
    """dot_general into `target`, or, where the result has rank 0, to a lane."""
    (cx, cy), (bx, by) = dimension_numbers
    fx, fy = free_axes(len(x.shape), cx, bx), free_axes(len(y.shape), cy, by)
    x, y = viewed(x, lambda a: a.transpose((*bx, *fx, *cx))), viewed(y, lambda a: a.transpose((*by, *cy, *fy)))
    nb, nc = len(bx), len(cx)
    summed = x.shape[nb + len(fx) :]
    dtype = x.dtype
    if target is None or not target.size or not prod(summed) or not cx or dtype.kind != "f" or Splat in (type(x), type(y)):
        return _by_reduction(build, x, y, nb, len(fx), len(fy), target)
    held = []
    if len(merged_axes(summed, [x.strides[nb + len(fx) :], y.strides[nb : nb + nc]])) > 1:
        x, y = build.in_order(x), pack(build, y)
        held += [x, y]
    rows = merged_axes(x.shape[nb : nb + len(fx)], [x.strides[nb : nb + len(fx)], target.strides[nb : nb + len(fx)]])
    columns = merged_axes(y.shape[nb + nc :], [y.strides[nb + nc :], target.strides[nb + len(fx) :]])
    depth = merged_axes(summed, [x.strides[nb + len(fx) :], y.strides[nb : nb + nc]])
    batch = merged_axes(x.shape[:nb], [x.strides[:nb], y.strides[:nb], target.strides[:nb]])
    m, (a_row, c_row) = rows[-1] if rows else (1, (0, 0))
    n, (b_column, c_column) = columns[-1] if columns else (1, (0, 0))
    k, (a_k, b_k) = depth[-1] if depth else (1, (1, 1))
    way = _way(m, n, (a_row, a_k), (b_k, b_column), (c_row, c_column))
    if way == "pack":
        if c_column != 1 and n != 1:
            temporary = build.new(dtype, target.shape)
            sums, batches = (tuple(range(nb + len(fx), len(x.shape))), tuple(range(nb, nb + nc))), (tuple(range(nb)),) * 2
            dot(build, x, y, (sums, batches), temporary)
            build.copy(temporary, target)
            for view in (*held, temporary):
                build.drop(view)
            return None
        y = pack(build, y)
        held.append(y)
        columns = merged_axes(y.shape[nb + nc :], [y.strides[nb + nc :], target.strides[nb + len(fx) :]])
        batch = merged_axes(x.shape[:nb], [x.strides[:nb], y.strides[:nb], target.strides[:nb]])
        depth = merged_axes(summed, [x.strides[nb + len(fx) :], y.strides[nb : nb + nc]])
        n, (b_column, c_column) = columns[-1] if columns else (1, (0, 0))
        k, (a_k, b_k) = depth[-1] if depth else (1, (1, 1))
        way = "straight"
    with build.over([*batch, *rows[:-1], *columns[:-1]]) as indices:
        at_batch, at_row, at_column = (
            indices[: len(batch)],
            indices[len(batch) : len(batch) + len(rows[:-1])],
            indices[len(batch) + len(rows[:-1]) :],
        )
        steps_x = [*[(i, s[0]) for i, (_, s) in zip(at_batch, batch)], *[(i, s[0]) for i, (_, s) in zip(at_row, rows)]]
        steps_y = [*[(i, s[1]) for i, (_, s) in zip(at_batch, batch)], *[(i, s[0]) for i, (_, s) in zip(at_column, columns)]]
        steps_c = [(i, s[2]) for i, (_, s) in zip(at_batch, batch)]
        steps_c += [(i, s[1]) for i, (_, s) in zip([*at_row, *at_column], [*rows[:-1], *columns[:-1]])]
        a, b, c = (build.pointer(build.moved(v, s)) for v, s in ((x, steps_x), (y, steps_y), (target, steps_c)))
        if way == "turned":
            a, b, m, n = b, a, n, m
            a_row, a_k, b_k, c_row = b_column, b_k, a_k, c_column
        sizes = [("i64", v) for v in (m, n, k)]
        if way == "rows":
            name = "row_products"
            rest = [("ptr", a), ("i64", a_row), ("ptr", b), ("i64", b_column), ("ptr", c), ("i64", c_row), ("i64", c_column)]
        else:
            name = "matrix_product"
            rest = [("ptr", a), ("i64", a_row), ("i64", a_k), ("ptr", b), ("i64", b_k), ("ptr", c), ("i64", c_row)]
        arguments = ", ".join([f"{kind} {value}" for kind, value in (*sizes, *rest)])
        build.f.do(f"call void {build.helper(name, dtype)}({arguments})")
    for view in held:
        build.drop(view)
    return None


def _by_reduction(build: Build, x: Any, y: Any, nb: int, nx: int, ny: int, target: View | None) -> Any:
    """Any dtype, nothing to sum, or a number as result: the sum of the products as a reduction."""
    batch, free_x, summed = x.shape[:nb], x.shape[nb : nb + nx], x.shape[nb + nx :]
    free_y = y.shape[nb + len(summed) :]
    shape = (*batch, *free_x, *free_y, *summed)
    first, last = nb + nx + ny, len(shape)
    x = moved_by(broadcast_in_dim, x, shape=shape, axes=(*range(nb + nx), *range(first, last)))
    turned = (*range(nb), *range(nb + len(summed), nb + len(summed) + ny), *range(nb, nb + len(summed)))
    y = viewed(y, lambda a: a.transpose(turned))
    y = moved_by(broadcast_in_dim, y, shape=shape, axes=(*range(nb), *range(nb + nx, last)))
    product = (lambda e, v: e.and_(*v)) if x.dtype.kind == "b" else (lambda e, v: e.mul(*v))
    kind = "logical_or" if x.dtype.kind == "b" else "add"
    if not shape:  # a number times a number
        return product(build.one, [build.lane(x), build.lane(y)])
    return reduce(build, kind, x.dtype, shape, tuple(range(first, last)), [x, y], product, target, "products")
