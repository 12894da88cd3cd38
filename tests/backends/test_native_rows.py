"""Groups of kind "rows" as native code: random groups and known ones beside the reference implementation of `fused`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from funcad.backends.native import ir, target
from funcad.backends.native.rows import plan_rows, rows_kernel
from funcad.backends.native.rows_call import RowsKernel
from funcad.backends.plans.element_plan import Unsupported
from funcad.configuration import config
from funcad.ir.jaxpr import Jaxpr
from funcad.primitives import arithmetic as ar
from funcad.primitives import comparison as cmp
from funcad.primitives.conversion import convert_p
from funcad.primitives.fused import fused_p
from funcad.primitives.reduction import reduce_max_p, reduce_min_p, reduce_sum_p
from tests.agreement import assert_close, same_bits
from tests.row_groups import Group, arguments, layernorm, random_group, regression, softmax

pytestmark = pytest.mark.skipif(not target.available(), reason=str(target.why_not()))

SIZES = (1, 2, 3, 7, 8, 9, 63, 64, 65)


def check(jaxpr: Jaxpr, shape: tuple[int, int], args: list[Any], rtol: float | None = None) -> list[Any]:
    with np.errstate(all="ignore"):
        expected = fused_p.impl(np, *args, jaxpr=jaxpr, kind="rows", shape=shape)
    found = RowsKernel(jaxpr, shape).function(*args)
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert type(a) is type(b) and a.dtype == b.dtype
        single = any(v.aval.dtype in (np.float32, np.complex64) for v in jaxpr.inputs)
        assert_close(a, b, rtol=rtol or (2e-4 if single else 1e-11), what=f"output {i} of {shape}\n{jaxpr}")
    return found


# -- random groups


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(40))
def test_random_groups(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.choice(SIZES)), int(rng.choice(SIZES))
    jaxpr = random_group(rng, rows, columns, rng.choice(["f4", "f8"]))
    if jaxpr.outputs:
        check(jaxpr, (rows, columns), arguments(jaxpr, rng))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(400))
def test_more_random_groups(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    rows, columns = (int(n) for n in rng.choice([*SIZES, 130, 1000], 2))
    jaxpr = random_group(rng, rows, columns, rng.choice(["f4", "f8"]))
    if jaxpr.outputs:
        check(jaxpr, (rows, columns), arguments(jaxpr, rng))


# -- the groups that matter


@pytest.mark.share(3)
@pytest.mark.parametrize("group", [softmax, layernorm, regression])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (7, 10), (65, 8), (9, 64), (130, 33), (3, 1000), (5, 9000)])
def test_known_groups(group: Any, dtype: str, shape: tuple[int, int]) -> None:
    jaxpr = group(*shape, dtype)
    args = arguments(jaxpr, np.random.default_rng(0))
    if group is regression:
        args = [a / 8 if a.ndim == 1 else a for a in args]
    check(jaxpr, shape, args, rtol=1e-3 if dtype == "f4" else None)


@pytest.mark.share(3)
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9, 63, 64, 65, 1000])
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 65])
def test_sizes(rows: int, columns: int) -> None:
    jaxpr = softmax(rows, columns, "f8")
    check(jaxpr, (rows, columns), arguments(jaxpr, np.random.default_rng(rows * columns)))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty_groups(shape: tuple[int, int]) -> None:
    g = Group(*shape, "f8")
    x = g.input("full")
    s = g.along(reduce_sum_p, x)
    check(g.jaxpr(s, g.down(reduce_sum_p, s), g.down(reduce_sum_p, x), g.do(ar.neg, x)), shape, [np.ones(shape)])


# -- special values


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", [(9, 7), (5, 64), (70, 3), (4, 1000)])
def test_nan_inf_and_zeros(dtype: str, shape: tuple[int, int]) -> None:
    g = Group(*shape, dtype)
    x = g.input("full")
    rows = [g.along(p, x) for p in (reduce_sum_p, reduce_max_p, reduce_min_p)]
    columns = [g.down(p, x) for p in (reduce_sum_p, reduce_max_p, reduce_min_p)]
    totals = [g.down(p, r) for p in (reduce_sum_p, reduce_max_p, reduce_min_p) for r in rows]
    shifted = g.do(ar.sub, x, g.full(rows[1]))
    jaxpr = g.jaxpr(*rows, *columns, *totals, shifted, g.along(reduce_sum_p, shifted))
    rng = np.random.default_rng(3)
    for special in ([np.nan], [np.inf], [-np.inf], [np.inf, -np.inf], [np.nan, np.inf, -0.0]):
        a = rng.standard_normal(shape).astype(dtype)
        for _ in range(4):
            a[rng.integers(shape[0]), rng.integers(shape[1])] = rng.choice(special)
        check(jaxpr, shape, [a])
    check(jaxpr, shape, [np.full(shape, -np.inf, dtype)])


@pytest.mark.parametrize("shape", [(1, 1), (9, 7), (5, 64), (70, 3)])
def test_sums_of_negative_zeros_are_as_numpys(shape: tuple[int, int]) -> None:
    g = Group(*shape, "f8")
    x, w, r = g.input("full"), g.input("column"), g.input("row")
    s = g.along(reduce_sum_p, x)
    jaxpr = g.jaxpr(s, g.down(reduce_sum_p, x), g.down(reduce_sum_p, s), g.dot(x, w), g.dot(x, r), g.do(ar.neg, x))
    args = [np.full(shape, -0.0), np.ones(shape[1]), np.ones(shape[0])]
    expected = fused_p.impl(np, *args, jaxpr=jaxpr, kind="rows", shape=shape)
    for a, b in zip(RowsKernel(jaxpr, shape).function(*args), expected, strict=True):
        assert same_bits(a, b)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_are_accurate(dtype: str) -> None:
    shape = (3, 100_000)
    g = Group(*shape, dtype)
    x = g.input("full")
    a = np.random.default_rng(0).random(shape).astype(dtype)
    (found,) = RowsKernel(g.jaxpr(g.along(reduce_sum_p, x)), shape).function(a)
    exact = a.astype(np.longdouble).sum(1)
    assert np.all(np.abs(found - exact) < 30 * np.finfo(dtype).eps * exact)
    shape = (100_000, 3)
    g = Group(*shape, dtype)
    x = g.input("full")
    s = g.along(reduce_sum_p, x)
    a = a.reshape(shape)
    columns, total = RowsKernel(g.jaxpr(g.down(reduce_sum_p, x), g.down(reduce_sum_p, s)), shape).function(a)
    exact = a.astype(np.longdouble).sum(0)
    assert np.all(np.abs(columns - exact) < 1000 * np.finfo(dtype).eps * exact)
    assert abs(total - exact.sum()) < 100 * np.finfo(dtype).eps * exact.sum()


# -- dtypes and layouts


@pytest.mark.parametrize("dtype", ["i1", "i4", "i8", "u1", "u4"])
@pytest.mark.parametrize("shape", [(9, 7), (5, 64)])
def test_integers_are_exact(dtype: str, shape: tuple[int, int]) -> None:
    g = Group(*shape, dtype)
    x, w = g.input("full"), g.input("column")
    s, top = g.along(reduce_sum_p, x), g.along(reduce_max_p, x)
    big = g.do(convert_p, g.do(ar.sub, x, g.full(top)), dtype=np.dtype(float))
    above = g.do(cmp.eq, x, g.full(top))
    outputs = (s, top, g.down(reduce_sum_p, x), g.down(reduce_min_p, s), big, above, g.dot(x, w))
    jaxpr = g.jaxpr(*outputs, g.along(reduce_sum_p, g.do(convert_p, above, dtype=np.dtype(np.int64))))
    check(jaxpr, shape, arguments(jaxpr, np.random.default_rng(0)))


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_values(dtype: str) -> None:
    shape = (9, 7)
    g = Group(*shape, dtype)
    x, w = g.input("full"), g.input("column")
    s = g.along(reduce_sum_p, g.do(ar.mul, x, g.full(w)))
    jaxpr = g.jaxpr(s, g.do(ar.sub, x, g.full(s)), g.down(reduce_sum_p, x), g.down(reduce_sum_p, s), g.dot(x, w))
    rng = np.random.default_rng(0)
    args = [(rng.standard_normal(v.aval.shape) + 1j * rng.standard_normal(v.aval.shape)).astype(dtype) for v in jaxpr.inputs]
    check(jaxpr, shape, args)


def test_masks_as_row_and_column_inputs() -> None:
    shape = (9, 13)
    g = Group(*shape, "f8")
    x, row, column, full = g.input("full"), g.input("row", bool), g.input("column", bool), g.input("full", bool)
    inside = g.do(cmp.and_, g.do(cmp.and_, g.full(row), g.full(column)), full)
    kept = g.do(cmp.select, inside, x, 0.0)
    jaxpr = g.jaxpr(kept, inside, g.along(reduce_sum_p, kept), g.do(cmp.not_, row), g.along(reduce_max_p, inside))
    check(jaxpr, shape, arguments(jaxpr, np.random.default_rng(0)))


@pytest.mark.parametrize("layout", ["transposed", "every other row", "backwards", "one row", "gaps", "misaligned"])
def test_layouts(layout: str) -> None:
    shape = (10, 12)
    jaxpr = layernorm(*shape, "f8")
    args = arguments(jaxpr, np.random.default_rng(0))
    x = {
        "transposed": lambda a: np.asfortranarray(a),
        "every other row": lambda a: np.repeat(a, 2, 0)[::2],
        "backwards": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
        "one row": lambda a: np.broadcast_to(a[:1], shape),
        "gaps": lambda a: np.repeat(a, 2, 1)[:, ::2],
        "misaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(shape),
    }[layout](args[0])
    check(jaxpr, shape, [x, np.repeat(args[1], 2)[::2], args[2][::-1], args[3]])


@pytest.mark.parametrize("shape", [(5, 300_000), (40, 70_001)])
def test_rows_that_no_cache_holds(shape: tuple[int, int]) -> None:
    jaxpr = softmax(*shape, "f8")
    check(jaxpr, shape, arguments(jaxpr, np.random.default_rng(0)), rtol=1e-9)


def test_square_groups_tell_rows_from_columns() -> None:
    g = Group(6, 6, "f8")
    x, r, c = g.input("full"), g.input("row"), g.input("column")
    y = g.do(ar.sub, g.do(ar.mul, x, g.full(r)), g.full(c))
    jaxpr = g.jaxpr(g.along(reduce_sum_p, y), g.down(reduce_sum_p, y), g.dot(y, r), g.dot(y, c))
    check(jaxpr, (6, 6), arguments(jaxpr, np.random.default_rng(0)))


def test_outputs_that_nothing_else_needs_or_that_come_twice() -> None:
    g = Group(5, 9, "f8")
    x, r = g.input("full"), g.input("row")
    s = g.along(reduce_sum_p, x)
    total = g.down(reduce_sum_p, r)
    b = g.full(g.do(ar.add, r, s))
    jaxpr = g.jaxpr(s, s, b, b, total, total, g.down(reduce_max_p, b), g.along(reduce_sum_p, b))
    check(jaxpr, (5, 9), arguments(jaxpr, np.random.default_rng(0)))


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    shape = (3000, 256)
    jaxpr = layernorm(*shape, "f8")
    args = arguments(jaxpr, np.random.default_rng(0))
    kernel = RowsKernel(jaxpr, shape)
    found = []
    for threads in (1, 2, 3):
        with config.set(threads=threads):
            found.append(kernel.function(*args))
    assert all(same_bits(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))
    check(jaxpr, shape, args)


def test_what_cannot_be_compiled_says_so() -> None:
    g = Group(3, 4, "f2")
    jaxpr = g.jaxpr(g.along(reduce_sum_p, g.input("full")))
    with pytest.raises(Unsupported, match="float16"):
        RowsKernel(jaxpr, (3, 4))


def test_the_text_is_the_same_for_most_batch_sizes() -> None:
    def text(rows: int) -> str:
        module = ir.Module()
        rows_kernel(module, plan_rows(softmax(rows, 64, "f8"), (rows, 64)), target.host())
        return module.text()

    assert text(4000) == text(400)


def test_sums_over_rows_are_finished_in_one_loop() -> None:
    """All sums of a group share the loops over columns and chunks; whole vectors of columns need no mask."""

    def text(columns: int) -> str:
        g = Group(4000, columns, "f8")
        x, y = g.input("full"), g.input("full")
        sums = [g.down(reduce_sum_p, v) for v in (x, y, g.do(ar.mul, x, y))]
        module = ir.Module()
        rows_kernel(module, plan_rows(g.jaxpr(*sums), (4000, columns)), target.host())
        return module.functions["kernel"]

    whole, odd = text(64), text(67)
    # chunks that are run one after the other, columns, chunks that are added up
    assert len(re.findall(r"^head\d+:$", whole, re.MULTILINE)) == len(re.findall(r"^head\d+:$", odd, re.MULTILINE)) == 3
    assert "masked.store" not in whole and "icmp ult" not in whole and odd.count("@llvm.masked.store") == 3


def test_row_values_that_stay_in_scratch_memory_need_no_mask() -> None:
    g = Group(64, 64, "f8")
    x = g.input("full")
    mean = g.do(ar.mul, g.along(reduce_sum_p, x), 1 / 64)
    module = ir.Module()
    rows_kernel(module, plan_rows(g.jaxpr(g.do(ar.sub, x, g.full(mean))), (64, 64)), target.host())
    assert "icmp ult" not in module.text()


def test_rows_abreast_come_from_several_places_of_a_block() -> None:
    """Several streams are read faster than one: rows of one step are a part of the block apart, not neighbours."""
    g = Group(64, 64, "f8")
    x, c = g.input("full"), g.input("column")
    plan = plan_rows(g.jaxpr(g.dot(x, c)), (64, 64))
    module = ir.Module()
    rows_kernel(module, plan, target.host())
    assert re.search(r"udiv i64 %\w+, [24]$", module.text(), re.MULTILINE)


def test_a_division_is_kept_rather_than_done_again() -> None:
    g = Group(6, 16, "f8")
    x, r, c = g.input("full"), g.input("row"), g.input("column")
    scaled = g.do(ar.div, g.do(ar.mul, x, g.full(c)), g.full(r))
    jaxpr = g.jaxpr(g.do(ar.sub, scaled, g.full(g.along(reduce_sum_p, scaled))))
    assert list(plan_rows(jaxpr, (6, 16)).kept) == [scaled]
    check(jaxpr, (6, 16), arguments(jaxpr, np.random.default_rng(0)))


@pytest.mark.parametrize("columns", [9, 10, 33])
def test_a_product_with_a_computed_vector_is_not_infinite_beyond_the_end(columns: int) -> None:
    g = Group(50, columns, "f8")
    x, v = g.input("full"), g.input("column")
    jaxpr = g.jaxpr(g.dot(x, g.do(ar.div, 1.0, v)))
    check(jaxpr, (50, columns), arguments(jaxpr, np.random.default_rng(0)))
