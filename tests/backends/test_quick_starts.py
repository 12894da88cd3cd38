"""What NumPy starts slowly is written otherwise by the NumPy engine: the same bits, or sums up to rounding."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from funcad import grad, jit, scan
from funcad.backends import number_lines
from funcad.backends.blas_threads import matters
from funcad.backends.text import NESTED, Block, Writer, nest
from funcad.ir.aval import aval_of
from funcad.primitives import linear_systems
from funcad.primitives.reduction import AT_ONCE, accumulate_into
from tests.backends.test_loop_texts import loop_of
from tests.backends.test_numpy_engine_calls import optimized

DRAWS = np.random.default_rng(0)


def repeated(step: Any, n: int = 3) -> Any:
    return lambda c, *args: scan(lambda c, _: (step(c, *args), None), c, None, length=n)[0]


def body(f: Any, *args: Any) -> tuple[str, str]:
    """(what stands in front of the loop, its body)"""
    before, lines = loop_of(optimized(f, *args).text)
    return before, "\n".join(lines)


@pytest.fixture(autouse=True)
def by_calls_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(number_lines, "worth", lambda equation: False)


def test_uneven_operands_are_copied_in_loops() -> None:
    """Once each; what no turn changes in front of the loop; large ones are not."""
    c, w = DRAWS.normal(size=(2, 6, 8))
    gates = repeated(lambda c, w: np.concatenate([np.tanh(c[:, :4]) * c[:, 4:], np.sin(c[:, :4]) + c[:, 4:]], 1) * w[:, :1])
    before, lines = body(gates, c, w)
    ufuncs = re.findall(r"np\.(?:tanh|sin|multiply|add)\((.*?)\)", lines)
    assert ufuncs and not [name for call in ufuncs for name in re.findall(r"\bv\d+", call)], lines  # views are called v
    assert len(re.findall(r"s\d+\[\.\.\.\] = v", lines)) == 2 and re.search(r"s\d+\[\.\.\.\] = v\d+", before)
    _, lines = body(repeated(lambda c: np.concatenate([np.sin(c[:, :600]), c[:, :600]], 1)), DRAWS.normal(size=(9, 1200)))
    assert "[...] = v" not in lines


def test_a_copy_is_gone_with_what_it_is_of() -> None:
    """The carry is written over while a later part of it is read."""
    c = DRAWS.normal(size=(5, 6))

    def step(c: Any) -> Any:
        left, right = c[:, :3], c[:, 3:]
        first = np.sin(left) * right
        return np.concatenate([first + right, np.cos(left) - first], 1)

    body(repeated(step, 5), c)
    body(grad(lambda c: np.sum(repeated(step, 5)(c))), c)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, bool, np.int16])
def test_rolls_pads_and_sums_of_placements_in_place(axis: int, dtype: Any) -> None:
    c = (DRAWS.normal(size=(5, 7)) * 9).astype(dtype)
    for shift in (1, -2):
        _, lines = body(repeated(lambda c, shift=shift: np.roll(c, shift, axis)), c)
        assert "roll" not in lines and "concatenate" not in lines
    _, lines = body(repeated(lambda c: np.roll(np.pad(c, ((1, 0), (0, 2))), 1, axis)[1:, 2:]), c)
    assert "pad" not in lines


def test_the_derivative_of_a_stencil_is_summed_in_place() -> None:
    def step(c: Any) -> Any:
        p = np.pad(c, 1)
        return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] * p[1:-1, :-2]

    c = DRAWS.normal(size=(6, 6))
    text = optimized(grad(lambda c: np.sum(repeated(step)(c))), c).text
    assert "pad_" not in text and "place_sum_" not in text


def test_a_choice_by_a_number_is_pythons() -> None:
    def step(c: Any) -> Any:
        large = np.sum(c) > 0.0
        return np.where(large, c * 0.5 - 1.0, c + np.where(large, 1.0, np.float64(2.0)))

    _, lines = body(repeated(step, 6), DRAWS.normal(size=4))
    assert "where" not in lines and "select" not in lines and lines.count(" if ") == 2


SQUARES = {"solve": "solve", "inv": "inv", "slogdet": "slogdet", "cholesky": "cholesky"}


@pytest.mark.parametrize("name", SQUARES)
@pytest.mark.parametrize("dtype", ["f8", "c16", "f4", ">f8"])
def test_one_matrix_goes_to_lapack_at_once(name: str, dtype: str) -> None:
    a = DRAWS.normal(size=(4, 4))
    a = (a @ a.T + np.eye(4)).astype(dtype)
    args = (a, a[:, :2]) if name == "solve" else (a,)
    f = getattr(np.linalg, name)
    ready = getattr(linear_systems, "inv_p" if name == "inv" else name).ready
    params = {"strict": True} if name == "inv" else {}
    run = ready(*[aval_of(x) for x in args], **params)
    assert (run.__class__.__name__ == "function") == (dtype in ("f8", "c16", ">f8"))
    with np.errstate(all="ignore"):
        for factor in (1.0, np.nan, 0.0):
            given = [(x * factor).astype(dtype) for x in args]
            try:
                expected = f(*given)
            except np.linalg.LinAlgError as error:
                with pytest.raises(np.linalg.LinAlgError, match=str(error)):
                    run(*given)
                continue
            np.testing.assert_array_equal(run(*given), expected)


def test_sums_of_short_rows_are_products() -> None:
    """Along any axis, and BLAS is told not to wake its threads for them."""
    x = DRAWS.normal(size=(60, 70, 3))
    for axis, y in ((2, x), (1, x), (0, x[:, :, 0]), (1, x[0])):
        program = optimized(lambda x, axis=axis: np.exp(np.sin(x).sum(axis)), y)
        assert "reduce" not in program.text, program.text
    assert matters(jit(lambda x: x.sum(2)).lower(np.ones((5000, 4, 3))).jaxpr)
    assert "reduce" in optimized(lambda x: np.sin(x).sum(1), np.ones((100, 300))).text
    text = optimized(lambda x: np.sin(x).sum(1), np.ones((9000, 1))).text
    assert "ones" not in text  # BLAS adds to 0.0, and a single -0.0 stays one


def test_broadcasts_with_few_elements_behind_a_new_axis_are_written_out() -> None:
    x, y = DRAWS.normal(size=(70, 3)), DRAWS.normal(size=(70, 70, 3))
    f = lambda x, y: np.sum((x[:, None, :] - y) ** 2 * np.sin(x[:, :1])[:, :, None], axis=2)
    text = optimized(f, x, y).text
    assert text.count(".repeat(70, 0)") >= 1
    assert "repeat" not in optimized(f, x[:9], y[:9, :9]).text
    _, lines = body(repeated(lambda c, x, y: c + np.sin(np.reshape(x[:, None, :] + y * 0.0, (4900, 3))).sum(0)), x[0], x, y)
    assert "repeat" not in lines


def test_nested_lines() -> None:
    """What is read once goes into its reader, in order and not too deep; what is read twice keeps its name."""
    w = Writer()
    for line in ("v1 = c0 + c1", "v2 = v1 * v1", "v3 = -v2", "v4 = v3 if v1 else c0", "c0, c1 = v4, v2"):
        w.line(line)
    nest(w.block)
    assert [line.text for line in w.block.lines()] == [
        "v1 = c0 + c1", "v2 = v1 * v1", "c0, c1 = ((-v2) if v1 else c0), v2"
    ]  # fmt: skip
    w = Writer()
    for i in range(3 * NESTED):
        w.line(f"v{i + 1} = v{i} + 1.0")
    w.line(f"add(v{3 * NESTED})")
    nest(w.block)
    assert max([line.text.count("(") for line in w.block.lines()]) == NESTED
    assert eval_all(w.block, 3 * NESTED) == 3 * NESTED


def eval_all(block: Block, n: int) -> float:
    found: list[float] = []
    exec("\n".join([line.text for line in block.lines()]), {"v0": 0.0, "add": found.append})
    return found[0]


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum])
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", ">f8", "i1"])
@pytest.mark.parametrize("shape", [(AT_ONCE + 7, 9), (AT_ONCE, 2), (3, 9)])
def test_accumulated_columns(ufunc: np.ufunc, dtype: str, shape: tuple) -> None:
    x = DRAWS.normal(size=shape).astype(dtype)
    x[0, 1] = np.nan if x.dtype.kind in "fc" else 0
    given = {"dtype": x.dtype.newbyteorder("=")} if ufunc is not np.maximum else {}
    for back in (slice(None), slice(None, None, -1)):
        out = np.empty(shape, x.dtype)
        accumulate_into(ufunc, x[:, back], 1, out[:, back])
        assert out[:, back].tobytes() == ufunc.accumulate(x[:, back], axis=1, **given).astype(dtype).tobytes()


def test_cumulative_sums_are_written_where_they_belong() -> None:
    x = DRAWS.normal(size=(600, 8))
    program = optimized(grad(lambda x: np.sum(np.sin(np.cumsum(x * 2.0, 1)))), x)
    assert program.text.count("accumulate_into(") == 2 and "cumsum_" not in program.text
    body(repeated(lambda c: np.cumsum(c, 0) * 0.5), x[:4])


def test_large_products_are_in_pooled_memory() -> None:
    x, y = DRAWS.normal(size=(2, 8, 60, 60))
    text = optimized(lambda x, y: np.einsum("bij,bjk->bik", x, y), x, y).text
    assert re.search(r"np\.matmul\(v\d+, v\d+, empty\(", text), text
    assert "empty" not in optimized(lambda x, y: np.einsum("bij,bjk->bik", x, y), x[:2], y[:2]).text
