"""Linear systems, inverses, determinants and Cholesky factors of small matrices: the functions that programs share.

Idea: what LAPACK does for one matrix is a handful of short loops; for a dozen rows its call costs more than the work, and a
call per matrix of a stack, or per turn of a loop, is what a program with small matrices spends its time on. `eliminate` brings
a matrix to echelon form with partial pivoting and takes the right-hand sides along, `substitute` solves with a triangle,
`factor` is Cholesky's. Each is written once, and compiled for one matrix, whose rows are gone along by vectors, and for as many
as a vector has lanes, where each number is a vector. Agreement is that of contractions: pivots are chosen as LAPACK does, sums
may be contracted and have another order. The rules that call these functions are in matrix_rules.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.backends.native.emitter import Emitter
from funcad.backends.native.ir import Module
from funcad.backends.native.lane_memory import gather, scatter
from funcad.backends.native.lane_types import Lane
from funcad.backends.native.shared_functions import address, fma, new_function, rounded, shared
from funcad.backends.native.target import lanes_of


class MatrixRows:
    """A function under construction that works on rows of matrices.

    Of one matrix, numbers are scalars and rows are gone along by vectors. With `lanes`, the function works on as many matrices
    at once as a vector has lanes: each number is a vector, in memory too, and rows are gone along one by one.
    """

    def __init__(self, host: Any, dtype: np.dtype, name: str, parameters: str, lanes: bool):
        self.module, self.dtype = Module(), dtype
        self.f = new_function(self.module, name, parameters, "i64")
        self.e = Emitter(self.f, lanes_of(host, [dtype]), host)  # along rows
        self.one = self.e if lanes else Emitter(self.f, 1, host)
        self.step = 1 if lanes else self.e.lanes
        self.kind, self.vector = self.one.register(dtype), self.e.register(dtype)
        self.bits, self.count = self.one.vector("i1"), self.one.vector("i64")

    # -- numbers
    def at(self, pointer: str, *terms: tuple[str, Any]) -> str:
        return address(self.f, self.kind, pointer, *terms)

    def read(self, pointer: str, *terms: tuple[str, Any]) -> str:
        return self.one.load(self.dtype, self.at(pointer, *terms), "0").name

    def write(self, value: str, pointer: str, *terms: tuple[str, Any]) -> None:
        self.one.store(Lane(self.dtype, (value,)), self.at(pointer, *terms), "0")

    def number(self, value: float) -> str:
        return self.one.literal(value, self.dtype).name

    def integer(self, name: str) -> str:
        return self.one.broadcast("i64", name)

    def do(self, operation: str, x: str, y: str) -> str:
        return self.f.put(f"{operation} {self.kind} {x}, {y}")

    def function(self, name: str, x: str) -> str:
        element = self.one.element(self.dtype)
        return self.f.intrinsic(f"llvm.{name}.{self.one.suffix(element)}", self.kind, (self.kind, x))

    def chosen(self, condition: str, kind: str, value: str, other: str) -> str:
        return self.f.put(f"select {self.bits} {condition}, {kind} {value}, {kind} {other}")

    def any(self, condition: str) -> str:
        """Does it hold in a lane?"""
        n = self.one.lanes
        return condition if n == 1 else self.f.intrinsic(f"llvm.vector.reduce.or.v{n}i1", "i1", (self.bits, condition))

    # -- rows
    def along(self, count: str, body: Callable[[str, str | None], None]) -> None:
        """body(index, mask) over the elements of a row."""
        whole = rounded(self.f, count, self.step)
        with self.f.loop(0, whole, self.step) as loop:
            body(loop.index, None)
            loop.next()
        if self.step > 1:
            with self.f.loop(whole, count, self.step) as loop:
                body(loop.index, self.e.mask(self.f.put(f"sub i64 {count}, {loop.index}")))
                loop.next()

    def element(self, row: str, index: str, mask: str | None) -> str:
        return self.e.load(self.dtype, self.at(row, (index, 1)), "0", mask=mask).name

    def put(self, value: str, row: str, index: str, mask: str | None) -> None:
        self.e.store(Lane(self.dtype, (value,)), self.at(row, (index, 1)), "0", mask=mask)

    def spread(self, x: str) -> str:
        return x if self.one is self.e else self.e.broadcast(self.kind, x)

    def subtract(self, row: str, other: str, factor: str, count: str) -> None:
        """row -= factor * other, rounded twice: of columns that are multiples of one nothing is left, as in LAPACK."""
        by = self.spread(factor)

        def body(index: str, mask: str | None) -> None:
            x, y = self.element(row, index, mask), self.element(other, index, mask)
            self.put(self.f.put(f"fsub {self.vector} {x}, {self.f.put(f'fmul {self.vector} {by}, {y}')}"), row, index, mask)

        self.along(count, body)

    def divide(self, row: str, by: str, count: str) -> None:
        by = self.spread(by)

        def body(index: str, mask: str | None) -> None:
            self.put(self.f.put(f"fdiv {self.vector} {self.element(row, index, mask)}, {by}"), row, index, mask)

        self.along(count, body)

    def exchange(self, row: str, other: str, count: str, where: str) -> None:
        """The two rows change places, in the lanes where that is to be."""

        def body(index: str, mask: str | None) -> None:
            x, y = self.element(row, index, mask), self.element(other, index, mask)
            both = [(y, x)] if self.one is not self.e else [
                (self.chosen(where, self.kind, y, x), self.chosen(where, self.kind, x, y))
            ]
            for first, second in both:
                self.put(first, row, index, mask)
                self.put(second, other, index, mask)

        with self.f.when(self.any(where)):
            self.along(count, body)

    def product(self, row: str, other: str, count: str) -> str:
        """The sum of row * other."""
        whole, total = rounded(self.f, count, self.step), self.e.literal(0, self.dtype).name
        for start, stop in ((0, whole), (whole, count))[: 1 if self.step == 1 else 2]:
            with self.f.loop(start, stop, self.step, carried=[(self.vector, total)]) as loop:
                mask = None if start == 0 else self.e.mask(self.f.put(f"sub i64 {count}, {loop.index}"))
                x, y = self.element(row, loop.index, mask), self.element(other, loop.index, mask)
                loop.next(fma(self.f, self.e, self.e.element(self.dtype), x, y, loop.values[0]))
            total = loop.results[0]
        return total if self.one is self.e else self.e.horizontal("add", Lane(self.dtype, (total,))).name


def function_of_rows(name: str, parameters: str, lanes: bool, write: Callable[[MatrixRows], str]) -> None:
    """Register a function of matrices, whose result is a status: 0, in one of the lanes, says that there is none.

    Into `status` it writes one for each lane.
    """

    def text(host: Any, dtype: np.dtype) -> str:
        w = MatrixRows(host, dtype, name, f"{parameters}, ptr %status", lanes)
        status = write(w)
        w.f.do(f"store {w.count} {status}, ptr %status, align 8")
        none = w.any(w.f.put(f"icmp eq {w.count} {status}, {w.integer('0')}"))
        w.f.do(f"ret i64 {w.f.put(f'select i1 {none}, i64 0, i64 1')}")
        w.module.add(w.f)
        return w.module.text()

    text.__name__ = name
    shared(text)


def _small(name: str, parameters: str) -> Callable[[Callable[[MatrixRows], str]], Callable[[MatrixRows], str]]:
    """Register a function of one matrix by its name, and of as many as a vector has lanes by its name and "_lanes"."""

    def register(write: Callable[[MatrixRows], str]) -> Callable[[MatrixRows], str]:
        function_of_rows(name, parameters, False, write)
        function_of_rows(f"{name}_lanes", parameters, True, write)
        return write

    return register


@_small("eliminate", "i64 %n, i64 %k, ptr %a, ptr %b")
def _eliminate(w: MatrixRows) -> str:
    """An upper triangle in the place of a (n, n), b (n, k) taken along.

    The status is the sign that exchanging rows gives the determinant, 0 if a is singular.
    """
    f, kind, count = w.f, w.kind, w.count
    with f.loop(0, "%n", carried=[(count, w.integer("1"))]) as columns:
        c, sign = columns.index, columns.values[0]
        below = f.put(f"add i64 {c}, 1")
        here = w.integer(c)
        first = w.function("fabs", w.read("%a", (c, "%n"), (c, 1)))
        with f.loop(below, "%n", carried=[(kind, first), (count, here)]) as rows:
            x = w.function("fabs", w.read("%a", (rows.index, "%n"), (c, 1)))
            larger = w.do("fcmp ogt", x, rows.values[0])
            best = w.chosen(larger, count, w.integer(rows.index), rows.values[1])
            rows.next(w.chosen(larger, kind, x, rows.values[0]), best)
        best = rows.results[1]
        differs = f.put(f"icmp ne {count} {best}, {here}")
        with f.when(w.any(differs)), f.loop(below, "%n") as rows:
            chosen = f.put(f"icmp eq {count} {best}, {w.integer(rows.index)}")
            for matrix, width in (("%a", "%n"), ("%b", "%k")):
                w.exchange(w.at(matrix, (c, width)), w.at(matrix, (rows.index, width)), width, chosen)
            rows.next()
        pivot = w.read("%a", (c, "%n"), (c, 1))
        inverse = w.do("fdiv", w.number(1), pivot)
        left = f.put(f"sub i64 %n, {below}")
        with f.loop(below, "%n") as rows:
            row = w.at("%a", (rows.index, "%n"))
            factor = w.do("fmul", w.read(row, (c, 1)), inverse)  # as LAPACK has it
            w.subtract(w.at(row, (below, 1)), w.at("%a", (c, "%n"), (below, 1)), factor, left)
            w.subtract(w.at("%b", (rows.index, "%k")), w.at("%b", (c, "%k")), factor, "%k")
            rows.next()
        sign = w.chosen(differs, count, f.put(f"sub {count} {w.integer('0')}, {sign}"), sign)
        columns.next(w.chosen(w.do("fcmp oeq", pivot, w.number(0)), count, w.integer("0"), sign))
    return columns.results[0]


@_small("substitute", "i64 %n, i64 %k, ptr %a, i64 %a_row, i64 %a_column, ptr %b, i64 %upper, i64 %unit")
def _substitute(w: MatrixRows) -> str:
    """The solution of a triangular system in the place of b (n, k).

    Of a (n, n) one triangle is read; with `unit` its diagonal is taken as 1. The status is 0 if the diagonal holds a 0.
    """
    f = w.f
    backward, divided = f.put("icmp ne i64 %upper, 0"), f.put("icmp eq i64 %unit, 0")
    last = f.put("sub i64 %n, 1")

    def turned(i: str) -> str:
        return f.put(f"select i1 {backward}, i64 {f.put(f'sub i64 {last}, {i}')}, i64 {i}")

    with f.loop(0, "%n", carried=[(w.count, w.integer("1"))]) as rows:
        i = turned(rows.index)
        row = w.at("%b", (i, "%k"))
        with f.loop(0, rows.index) as others:
            j = turned(others.index)
            w.subtract(row, w.at("%b", (j, "%k")), w.read("%a", (i, "%a_row"), (j, "%a_column")), "%k")
            others.next()
        pivot = w.read("%a", (i, "%a_row"), (i, "%a_column"))
        with f.when(divided):
            w.divide(row, pivot, "%k")
        found = w.chosen(w.do("fcmp oeq", pivot, w.number(0)), w.count, w.integer("0"), rows.values[0])
        rows.next(f.put(f"select i1 {divided}, {w.count} {found}, {w.count} {rows.values[0]}"))
    return rows.results[0]


@_small("factor", "i64 %n, ptr %a, ptr %c")
def _factor(w: MatrixRows) -> str:
    """The lower Cholesky factor of a in c; the status is 0 if a is not positive definite."""
    f = w.f
    with f.loop(0, "%n", carried=[(w.count, w.integer("1"))]) as rows:
        i = rows.index
        row = w.at("%c", (i, "%n"))
        with f.loop(0, i) as columns:
            j = columns.index
            rest = w.do("fsub", w.read("%a", (i, "%n"), (j, 1)), w.product(row, w.at("%c", (j, "%n")), j))
            w.write(w.do("fdiv", rest, w.read("%c", (j, "%n"), (j, 1))), row, (j, 1))
            columns.next()
        rest = w.do("fsub", w.read("%a", (i, "%n"), (i, 1)), w.product(row, row, i))
        w.write(w.function("sqrt", rest), row, (i, 1))
        with f.loop(f.put(f"add i64 {i}, 1"), "%n") as columns:
            w.write(w.number(0), row, (columns.index, 1))
            columns.next()
        rows.next(w.chosen(w.do("fcmp ogt", rest, w.number(0)), w.count, rows.values[0], w.integer("0")))
    return rows.results[0]


@_small("identity", "i64 %n, ptr %b")
def _identity(w: MatrixRows) -> str:
    with w.f.loop(0, "%n") as rows:
        with w.f.loop(0, "%n") as columns:
            here = w.f.put(f"icmp eq i64 {rows.index}, {columns.index}")
            one = w.f.put(f"select i1 {here}, {w.kind} {w.number(1)}, {w.kind} {w.number(0)}")
            w.write(one, "%b", (rows.index, "%n"), (columns.index, 1))
            columns.next()
        rows.next()
    return w.integer("1")


@_small("spoil", "i64 %count, ptr %b")
def _spoil(w: MatrixRows) -> str:
    """NaN in the place of matrices whose status is 0."""
    status = w.f.load(f"load {w.count}, ptr %status, align 8")
    none = w.f.put(f"icmp eq {w.count} {status}, {w.integer('0')}")
    with w.f.when(w.any(none)), w.f.loop(0, "%count") as loop:
        w.write(w.chosen(none, w.kind, w.number(np.nan), w.read("%b", (loop.index, 1))), "%b", (loop.index, 1))
        loop.next()
    return status


def _order_of_pivots(w: MatrixRows) -> str:
    """The order of m rows after the first ones have changed places with those named by int32 pivots; 0 if one is no row."""
    f = w.f

    def place(row: str, array: str = "%order") -> str:
        return f.put(f"getelementptr i32, ptr {array}, i64 {row}")

    with f.loop(0, "%m") as rows:
        f.do(f"store i32 {f.put(f'trunc i64 {rows.index} to i32')}, ptr {place(rows.index)}")
        rows.next()
    with f.loop(0, "%count", carried=[("i64", "1")]) as rows:
        pivot = f.load(f"load i32, ptr {place(rows.index, '%pivots')}")
        other = f.put(f"sext i32 {pivot} to i64")
        is_row = f.put(f"icmp ult i64 {other}, %m")
        with f.when(is_row):
            here, there = place(rows.index), place(other)
            x, y = f.load(f"load i32, ptr {here}"), f.load(f"load i32, ptr {there}")
            f.do(f"store i32 {y}, ptr {here}")
            f.do(f"store i32 {x}, ptr {there}")
        rows.next(f.put(f"select i1 {is_row}, i64 {rows.values[0]}, i64 0"))
    return rows.results[0]


function_of_rows("order_of_pivots", "i64 %m, i64 %count, ptr %pivots, ptr %order", False, _order_of_pivots)


@_small("determinant", "i64 %n, ptr %a, ptr %sign, ptr %logarithm, ptr %whole")
def _determinant(w: MatrixRows) -> str:
    """The determinant of a triangle that `eliminate` left, with its status: sign, logarithm, and what NumPy makes of them."""
    f = w.f
    status = f.load(f"load {w.count}, ptr %status, align 8")
    start = [(w.kind, f.put(f"sitofp {w.count} {status} to {w.kind}")), (w.kind, w.number(0))]
    with f.loop(0, "%n", carried=start) as loop:
        sign, total = loop.values
        x = w.read("%a", (loop.index, "%n"), (loop.index, 1))
        sign = w.chosen(w.do("fcmp olt", x, w.number(0)), w.kind, f.put(f"fneg {w.kind} {sign}"), sign)
        logarithm = w.one.log(Lane(w.dtype, (w.function("fabs", x),)))
        loop.next(sign, w.do("fadd", total, logarithm.name))
    none = f.put(f"icmp eq {w.count} {status}, {w.integer('0')}")
    sign, total = [w.chosen(none, w.kind, w.number(x), found) for x, found in zip((0.0, -np.inf), loop.results)]
    w.write(sign, "%sign")
    w.write(total, "%logarithm")
    w.write(w.do("fmul", sign, w.one.exp(Lane(w.dtype, (total,))).name), "%whole")
    return status


def _moving(name: str) -> Callable[[Any, np.dtype], str]:
    """What writes `gather_lanes(count, x, y)`, y[i, j] being number i of matrix j of x, or `scatter_lanes`, the reverse."""

    def text(host: Any, dtype: np.dtype) -> str:
        w = MatrixRows(host, dtype, name, "i64 %count, ptr %x, ptr %y", True)
        element, step = w.e.element(dtype), w.f.put(f"mul i64 %count, {dtype.itemsize}")
        with w.f.loop(0, "%count") as loop:
            start = w.f.put(f"getelementptr {element}, ptr %x, i64 {loop.index}")
            if name == "gather_lanes":
                w.put(gather(w.e, dtype, start, step).name, "%y", loop.index, None)
            else:
                scatter(w.e, Lane(dtype, (w.element("%y", loop.index, None),)), start, step)
            loop.next()
        w.f.do("ret i64 1")
        w.module.add(w.f)
        return w.module.text()

    text.__name__ = name
    return shared(text)


for _name in ("gather_lanes", "scatter_lanes"):
    _moving(_name)


@shared
def keep_triangle(host: Any, dtype: np.dtype) -> str:
    """The module of `keep_triangle(m, n, x, y, upper, diagonal)`: a triangle of x (m, n) in y, its diagonal times a number."""
    number = "double" if dtype.itemsize == 8 else "float"
    parameters = f"i64 %m, i64 %n, ptr %x, ptr %y, i64 %upper, {number} %diagonal"
    w = MatrixRows(host, dtype, "keep_triangle", parameters, False)
    f, kind = w.f, w.kind
    upper = f.put("icmp ne i64 %upper, 0")
    with f.loop(0, "%m") as rows:
        i = rows.index
        with f.loop(0, "%n") as columns:
            j, row = columns.index, (i, "%n")
            x = w.read("%x", row, (j, 1))
            inside = f.put(f"xor i1 {upper}, {f.put(f'icmp slt i64 {j}, {i}')}")
            dropped = w.do("fcmp oeq", "%diagonal", w.number(0))
            on = w.chosen(dropped, kind, w.number(0), w.do("fmul", x, "%diagonal"))
            kept = w.chosen(inside, kind, x, w.number(0))
            w.write(w.chosen(f.put(f"icmp eq i64 {i}, {j}"), kind, on, kept), "%y", row, (j, 1))
            columns.next()
        rows.next()
    f.do("ret i64 1")
    w.module.add(f)
    return w.module.text()
