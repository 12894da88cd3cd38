"""Loop nests as C: written by hand, compiled, beside NumPy; and groups whose loops they are."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit
from funcad.backends.export.c_nest import CHAINS, LONG_SUM
from funcad.backends.export.c_program import CArray, CProgram
from funcad.backends.plans.element_plan import contiguous_strides
from tests import c_compiler
from tests.agreement import assert_close
from tests.passes.test_batch import PROGRAMS as EXAMPLES
from tests.passes.test_batch import SIZE, numbers

from funcad.backends.loops.nest import (  # isort: skip
    ONES, VECTORS, At, Carry, Constant, Count, Fold, For, Into, Let, Load, Put, Same, Total, nested,
)

pytestmark = pytest.mark.skipif(not c_compiler.available(), reason="there is no gcc and g++")
F64 = np.dtype(np.float64)
HEAD = "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#define FC_RESTRICT restrict\n"


def run(folder: Path, nest: list[Any], reads: dict[str, np.ndarray], writes: dict[str, np.ndarray], **indices: Any) -> str:
    """Print a nest as a function of pointers, and call it; `indices` of the arrays, whose strides are those of their axes."""
    p, arrays = CProgram(), {**reads, **writes}
    places = {name: CArray(F64, name, x.shape, contiguous_strides(x.shape)) for name, x in arrays.items()}
    given, written = [{name: places[name] for name in some} for some in (reads, writes)]
    p.nest(nest, given, written, {name: dict(zip(indices[name], x.strides)) for name, x in places.items()})
    parameters = ", ".join([f"{'const ' if name in reads else ''}double *{name}" for name in arrays])
    text = "\n".join([f"{HEAD}void kernel({parameters});", f"void kernel({parameters}) {{", *p.lines, "}\n"])
    (folder / "kernel.c").write_text(text)
    call = ctypes.CDLL(str(c_compiler.built(folder / "kernel", cpp=False))).kernel
    call(*[ctypes.c_void_p(x.ctypes.data) for x in arrays.values()])
    return text


def data(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape)


@pytest.mark.parametrize("n", [1, 7, LONG_SUM - 1, LONG_SUM, 5 * CHAINS + 3])
def test_a_long_sum_is_added_up_in_chains(n: int, tmp_path: Path) -> None:
    x, out = data(n), np.zeros(1)
    body = [Load("x", F64, At("x", (("c", 8),))), Fold("t", "x", "x")]
    loop = For("c", 0, n, VECTORS, body, 4, [Total("t", F64, "add")])
    text = run(tmp_path, [loop, Put(At("out"), "t", F64)], {"x": x}, {"out": out}, x="c", out="")
    assert (f"[{CHAINS}]" in text) == (n >= LONG_SUM)
    total, whole = 0.0, n - n % CHAINS if n >= LONG_SUM else 0
    if whole:
        parts = np.add.accumulate((x[:whole] ** 2).reshape(-1, CHAINS))[-1]
        while len(parts) > 1:
            parts = parts[::2] + parts[1::2]
        total += parts[0]
    for element in x[whole:]:
        total += element * element
    assert out[0] == total


def test_totals_of_inner_loops_and_sums_in_memory(tmp_path: Path) -> None:
    x, v, along, over = data(5, 9), data(9), np.full(5, 7.0), np.zeros(9)
    inner = [Load("v", F64, At("v", (("c", 8),))), Load("x", F64, At("x", (("r", 72), ("c", 8)))), Same("w", "v")]
    inner += [Let(("y",), ("x", "w"), lambda e, lanes: [e.mul(*lanes)]), Fold("t", "y")]
    inner.append(Into(At("over", (("c", 8),)), F64, "add", "y", Constant(2.0, F64)))
    loops = [For("r", 0, 5, ONES, (), 2), For("c", 0, 9, VECTORS, (), totals=[Total("t", F64, "add")])]
    nest = nested(loops, [[], [], inner], [[], [Put(At("along", (("r", 8),)), "t", F64)]])
    run(tmp_path, nest, {"x": x, "v": v}, {"along": along, "over": over}, x="rc", v="c", along="r", over="c")
    assert_close(along, x @ v, rtol=1e-12)
    assert_close(over, 2.0 * (x * v).sum(0), rtol=1e-12)


def test_a_number_is_handed_on_and_another_says_where(tmp_path: Path) -> None:
    """A running total of the elements, each times the number of its step, and each where that number leads."""
    x, y, turned = data(7), np.zeros(7), np.zeros(7)
    count = [Count("k", "c"), Let(("back",), ("k",), lambda e, xs: [e.sub(e.literal(6, np.dtype(np.int64)), xs[0])])]
    times = Let(("next",), ("so far", "x", "k"), lambda e, xs: [e.add(xs[0], e.mul(xs[1], e.convert(xs[2], F64)))])
    body = [*count, Load("x", F64, At("x", (("c", 8),))), times, Put(At("y", (("c", 8),)), "next", F64)]
    body.append(Put(At("turned", (("back", 8),)), "next", F64))
    loop = For("c", 0, 7, ONES, body, carry=Carry("so far", Constant(1.0, F64), "next"))
    run(tmp_path, [loop], {"x": x}, {"y": y, "turned": turned}, x="c", y="c", turned=["back"])
    expected = np.add.accumulate(np.concatenate([[1.0], x * np.arange(7)]))[1:]
    assert np.array_equal(y, expected) and np.array_equal(turned, expected[::-1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (40, 33)])
def test_groups_of_rows_give_what_the_engine_gives(shape: tuple[int, int], tmp_path: Path) -> None:
    """Row values, sums over rows and over all, a value that is kept, columns of a transposed array."""

    def f(x: Any, v: Any) -> Any:
        y = np.exp(x - np.max(x, axis=1, keepdims=True))
        y = y / np.sum(y, axis=1, keepdims=True) * v
        return np.sum(y**2) + np.sum(np.max(y, axis=0)), y

    x, v = data(*shape), data(shape[1])
    for number, g in enumerate([f, grad(f, argnums=(0, 1), has_aux=True), lambda x, v: np.sum(x.T * v[:, None], axis=0)]):
        path = tmp_path / f"rows{number}"
        jit(g).export_c(path, x, v)
        found = getattr(c_compiler.loaded(path), path.name)(x, v)
        for a, b in zip(found if type(found) is tuple else (found,), funcad.tree.leaves(jit(g)(x, v)), strict=True):
            assert_close(np.asarray(a), np.asarray(b), rtol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_small_examples_are_one_loop(dtype: Any, tmp_path: Path) -> None:
    """The batch as the first axis, and as the last one; numbers that all examples share."""
    functions, expected, x = [], {}, numbers((SIZE, 4), dtype)
    for i, (name, f) in enumerate(EXAMPLES):
        for axis, given in enumerate([x, np.ascontiguousarray(x.T)]):
            mapped = funcad.vmap(f, in_axes=axis)
            lowered = jit(mapped).lower(given)
            functions.append(c_compiler.program(f"f{i}_{axis}", lowered.jaxpr, lowered._entry.consts))
            expected[f"f{i}_{axis}"] = name, given, funcad.tree.leaves(mapped(given))
    library = c_compiler.exported(tmp_path, functions)
    text = (tmp_path / "many.c").read_text()
    assert text.count(f"< {SIZE}; ") <= 3 * len(functions)  # operation by operation there are more than four
    for symbol, (name, given, results) in expected.items():
        found = getattr(library, symbol)(given)
        for a, b in zip(found if type(found) is tuple else (found,), results, strict=True):
            assert_close(np.asarray(a), np.asarray(b), rtol=64 * np.finfo(dtype).eps, what=f"{name} {symbol}")
