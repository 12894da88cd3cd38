"""Loop nests as LLVM text: written by hand, run on arrays, beside NumPy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from funcad.backends.loops.nest import (
    BACK,
    MASKED,
    ONES,
    VECTORS,
    WRITTEN,
    Ask,
    At,
    Blocks,
    Carry,
    Constant,
    Count,
    Fold,
    For,
    Into,
    Let,
    Load,
    Put,
    Same,
    Steps,
    Total,
    nested,
)
from funcad.backends.native import ir, target
from funcad.backends.native.nest_printer import Memory, NestPrinter
from tests.agreement import assert_close

pytestmark = pytest.mark.skipif(not target.available(), reason=str(target.why_not()))
F64, LANES = np.dtype(np.float64), 4
SIZES = (4, 5, 7, 8, 11, 16, 19, 33, 70)


def run(nest: list[Any], arrays: dict[str, np.ndarray], **names: Any) -> None:
    """Print a nest as a function of pointers, and call it."""
    module = ir.Module()
    function = ir.Function(module, "kernel", [("ptr", f"%{name}") for name in arrays], "i32")
    memory = {name: Memory(f"%{name}") for name in arrays}
    NestPrinter(function, target.host(), LANES, memory, names).write(nest)
    function.do("ret i32 0")
    module.add(function)
    code = target.compile_module(module.text(), ["kernel"])
    call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * len(arrays))(code.address["kernel"])
    assert call(*[a.ctypes.data for a in arrays.values()]) == 0


def data(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape)


def full(name: str, columns: int) -> At:
    return At(name, (("r", 8 * columns), ("c", 8)))


def product(out: str, *operands: Any) -> Let:
    return Let((out,), operands, lambda e, lanes: [e.mul(*lanes)])


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("ways", [1, 2, 3])
@pytest.mark.parametrize("rest", [MASKED, BACK, ONES])
@pytest.mark.parametrize("known", [True, False])
def test_every_end_of_a_loop_writes_each_element(n: int, ways: int, rest: str, known: bool) -> None:
    if not known and rest == BACK and n < ways * LANES:
        ways = 1  # the last axis holds the vectors abreast
    x, y = data(n), np.full(n + 8, 7.0)
    body = [Load("x", F64, At("x", (("c", 8),))), product("y", "x", "x"), Put(At("y", (("c", 8),)), "y", F64)]
    run([For("c", 0, "n", VECTORS, body, ways, extent=n if known else None, rest=rest)], {"x": x, "y": y}, n=n)
    assert np.array_equal(y, np.concatenate([x * x, np.full(8, 7.0)]))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("ways", [1, 3])
@pytest.mark.parametrize("rest", [MASKED, BACK])
@pytest.mark.parametrize("kind", ["add", "maximum"])
@pytest.mark.parametrize("exact", [True, False])
def test_a_total_meets_each_element_once(n: int, ways: int, rest: str, kind: str, exact: bool) -> None:
    x, out = data(n), np.zeros(1)
    body = [Load("x", F64, At("x", (("c", 8),))), Fold("t", "x")]
    total = Total("t", F64, kind, exact=exact and kind == "add")
    for run_of in (0, 2):
        loop = For("c", 0, n, VECTORS, body, ways, [total], extent=n, rest=rest, run=run_of)
        run([loop, Put(At("out"), "t", F64)], {"x": x, "out": out})
        assert_close(out[0], x.sum() if kind == "add" else x.max(), rtol=1e-12)


def test_an_exact_sum_keeps_what_it_loses() -> None:
    x, out = np.array([1e16, 1.0, -1e16, 1.0] * 40).reshape(40, 4).T.ravel().copy(), np.zeros(1)
    total = Total("t", F64, "add", exact=True)
    loop = For("c", 0, x.size, VECTORS, [Load("x", F64, At("x", (("c", 8),))), Fold("t", "x")], 1, [total], x.size, BACK, 1)
    run([loop, Put(At("out"), "t", F64)], {"x": x, "out": out})
    assert out[0] == 80.0


@pytest.mark.parametrize("columns", [4, 7, 9])
@pytest.mark.parametrize("rows", [1, 2, 5, 8])
def test_a_value_that_rows_share_is_loaded_once_for_those_abreast(columns: int, rows: int) -> None:
    """Rows abreast, sums along and over them, a scalar for each row."""
    x, v, along, over = data(rows, columns), data(columns), np.zeros(rows), np.zeros(columns)
    inner = [Load("v", F64, At("v", (("c", 8),))), Load("x", F64, full("x", columns)), product("y", "x", "v"), Fold("t", "y")]
    inner.append(Into(At("over", (("c", 8),)), F64, "add", "y"))
    loops = For("c", 0, columns, VECTORS, inner, 1, [Total("t", F64, "add")], columns)
    nest = For("r", 0, rows, ONES, [loops, Put(At("along", (("r", 8),)), "t", F64)], min(2, rows), extent=rows)
    module = ir.Module()
    function = ir.Function(module, "count", [("ptr", f"%{n}") for n in ("x", "v", "along", "over")])
    memory = {n: Memory(f"%{n}") for n in ("x", "v", "along", "over")}
    NestPrinter(function, target.host(), LANES, memory, {}).write([nest])
    text = "\n".join(function.lines)
    assert text.count(", ptr %v,") <= text.count("head")  # not once for each row
    padded = {"x": x, "v": v, "along": along, "over": over}
    run([nest], padded)
    assert_close(along, x @ v, rtol=1e-12)
    assert_close(over, (x * v).sum(0), rtol=1e-12)


@pytest.mark.parametrize("rows", [4, 6, 13])
@pytest.mark.parametrize("columns", [1, 2, 3, 5])
def test_columns_that_are_written_out(rows: int, columns: int) -> None:
    x, y, sums, over = data(rows, columns), np.zeros((rows, columns)), np.zeros(rows), np.zeros(columns)
    each = lambda *body, totals=(): For("c", 0, columns, WRITTEN, body, columns, totals)
    body = [
        each(Load("x", F64, full("x", columns))),
        each(Fold("s", "x"), totals=[Total("s", F64, "add")]),
        Put(At("sums", (("r", 8),)), "s", F64),
        each(Same("wide", "s"), product("y", "x", "wide"), Put(full("y", columns), "y", F64), Fold("o", "y")),
    ]
    over_all = Total("o", F64, "add", over=(("c", columns),))
    rows_loop = For("r", 0, rows, VECTORS, body, totals=[over_all], rest=BACK, run=2)
    run([rows_loop, each(Put(At("over", (("c", 8),)), "o", F64))], {"x": x, "y": y, "sums": sums, "over": over})
    assert_close(sums, x.sum(1), rtol=1e-12)
    assert_close(y, x * x.sum(1, keepdims=True), rtol=1e-12)
    assert_close(over, (x * x.sum(1, keepdims=True)).sum(0), rtol=1e-12)


def test_lanes_that_are_results_are_added_up_over_inner_loops() -> None:
    x, out = data(6, 11), np.zeros(11)
    body = [Load("x", F64, full("x", 11)), Fold("t", "x")]
    total = Total("t", F64, "add")
    loops = [For("c", 0, 11, VECTORS, (), 2, extent=11, rest=BACK), For("r", 0, 6, ONES, (), totals=[total])]
    run(nested(loops, [[], [], body], [[], [Put(At("out", (("c", 8),)), "t", F64)]]), {"x": x, "out": out})
    assert_close(out, x.sum(0), rtol=1e-12)


def test_blocks_constants_strides_and_requests() -> None:
    x, y = data(10, 6), np.zeros((10, 3))
    every = At("x", (("b", 48), ("r", 48), ("c", 16)))  # each other column
    body = [Ask(full("x", 6), 8, 48), Load("x", F64, every), product("y", "x", Constant(3.0, F64))]
    body.append(Put(At("y", (("b", 24), ("r", 24), ("c", 8))), "y", F64))
    rows = For("r", 0, "left", ONES, [For("c", 0, 3, VECTORS, body)])
    run([Blocks("b", 0, 10, 4, "left", [rows])], {"x": np.pad(x, ((0, 1), (0, 0))), "y": y})
    assert np.array_equal(y, 3.0 * x[:, ::2])


def test_both_factors_lose_the_lanes_outside() -> None:
    """0 * inf would be NaN: the lanes beyond the end of a product hold infinities here."""
    x, v, out = np.ones(5), np.ones(5), np.zeros(1)
    body = [Load("x", F64, At("x", (("c", 8),))), Load("v", F64, At("v", (("c", 8),)))]
    body += [Let(("w",), ("v",), lambda e, lanes: [e.div(e.literal(1.0, F64), lanes[0])]), Fold("t", "x", "w")]
    run([For("c", 0, 5, VECTORS, body, 1, [Total("t", F64, "add")], 5), Put(At("out"), "t", F64)], {"x": x, "v": v, "out": out})
    assert out[0] == 5.0


@pytest.mark.parametrize("rows", [4, 6, 13])
@pytest.mark.parametrize("columns", [1, 2, 3, 5])
def test_steps_of_a_loop_that_is_written_out_are_values_of_their_own(rows: int, columns: int) -> None:
    """Each row backwards, its last number 0, from two numbers that all rows share."""
    x, y, shared = data(rows, columns), np.full((rows, columns), 7.0), data(2)
    each = lambda statement, n=columns: For("k", 0, n, WRITTEN, [statement], n)
    at = lambda array: At(array, (("n", 8 * columns), ("k", 8)))
    names = [("x", k) for k in range(columns)]
    once = [each(Load("s", F64, At("shared", (("k", 8),))), 2), Steps("s", "k", ("scale", "shift"))]
    body: list[Any] = [each(Load("x", F64, at("x"))), Steps("x", "k", tuple(names))]
    for name in names[1:]:
        body.append(product(("scaled", name), name, "scale"))
        body.append(Let((("moved", name),), (("scaled", name), "shift"), lambda e, lanes: [e.add(*lanes)]))
    found = [*[("moved", name) for name in names[:0:-1]], Constant(0.0, F64)]
    body += [Steps("y", "k", tuple(found)), each(Put(at("y"), "y", F64))]
    run([*once, For("n", 0, rows, VECTORS, body, rest=BACK, extent=rows)], {"x": x, "y": y, "shared": shared})
    assert np.array_equal(y, np.concatenate([x[:, :0:-1] * shared[0] + shared[1], np.zeros((rows, 1))], 1))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("ways", [1, 2])
@pytest.mark.parametrize("rest", [MASKED, BACK])
def test_the_number_of_a_step_is_a_value(n: int, ways: int, rest: str) -> None:
    sums, padded, whole = np.zeros(1, np.int64), np.zeros(n + 8, np.int64), np.dtype(np.int64)
    body = [Count("i", "c"), Put(At("out", (("c", 8),)), "i", whole), Fold("t", "i")]
    loop = For("c", 0, n, VECTORS, body, ways, [Total("t", whole, "add")], n, rest)
    run([loop, Put(At("sums"), "t", whole)], {"out": padded, "sums": sums})
    assert np.array_equal(padded[:n], np.arange(n)) and sums[0] == n * (n - 1) // 2
    rows = For("r", 0, n, ONES, [Count("i", "r"), Put(At("out", (("r", 8),)), "i", whole)], min(2, n), extent=n)
    run([rows], {"out": padded})
    assert np.array_equal(padded[:n], np.arange(n))


@pytest.mark.parametrize("n", [1, 4, 19])
def test_a_place_is_where_a_loaded_index_leads(n: int) -> None:
    """Rows are read, and added to, where a number that was loaded says, whatever lies between their elements."""
    x, where, y, totals = data(5, n), np.array([3, 0, 3, 4, 1, 3]), np.zeros((6, n)), np.zeros((5, 2 * n))
    how = ONES if n < LANES else VECTORS  # there is no mask for elements that lie apart
    columns = For("c", 0, n, how, (), extent=n, rest=ONES)
    place, to = At("x", (("k", 8 * n), ("c", 8))), At("totals", (("k", 16 * n), ("c", 16)))
    body = [Load("e", F64, place), Put(At("y", (("r", 8 * n), ("c", 8))), "e", F64), Into(to, F64, "add", "e")]
    found = Load("k", np.dtype(np.int64), At("where", (("r", 8),)))
    run(nested([For("r", 0, 6, ONES, ()), columns], [[], [found], body]), dict(x=x, where=where, y=y, totals=totals))
    assert np.array_equal(y, x[where])
    expected = np.zeros((5, n))
    np.add.at(expected, where, x[where])
    assert np.array_equal(totals[:, ::2], expected) and not totals[:, 1::2].any()


@pytest.mark.parametrize("how", [ONES, VECTORS])
@pytest.mark.parametrize("steps", [0, 1, 9])
def test_a_loop_hands_a_value_on(how: str, steps: int) -> None:
    """A number beside vectors, and a number for each lane of a vector."""
    x, y = data(10, 8), np.zeros((10, 8))
    at = lambda name, first: At(name, (("c", 8), *[("k", 64)] * (not first)))
    step = Let(("next",), ("so far", "x"), lambda e, lanes: [e.add(e.mul(*lanes), lanes[1])])
    body = [Load("x", F64, at("later", False)), step, Put(at("y", False), "next", F64)]
    loop = For("k", 0, steps, ONES, body, carry=Carry("so far", "first", "next"))
    nest = [For("c", 0, 8, how, [Load("first", F64, at("x", True)), loop], extent=8)]
    run(nest, {"x": x, "later": x[1:], "y": y})
    total, expected = x[0], np.zeros((10, 8))
    for k in range(steps):
        total = total * x[k + 1] + x[k + 1]
        expected[k] = total
    assert np.array_equal(y, expected)
