"""Programs that are too long for one native function: several give the same, bit for bit, and drop what nobody reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import funcad
from funcad.backends.engines import EngineProgram, program_of
from funcad.backends.native import program, program_build, program_parts, program_region, target
from funcad.backends.native.program import NativeProgram, compile_program
from funcad.backends.native.program_parts import ProgramParts
from funcad.backends.plans.element_plan import Unsupported
from funcad.ir.jaxpr import Jaxpr
from funcad.passes.pipeline import optimize

pytestmark = pytest.mark.skipif(not target.available(), reason=str(target.why_not()))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_parts, "LENGTH", 12)
    for module in (program, program_build, program_region):
        monkeypatch.setattr(module, "MAX_LINES", 400)


def mixed(x: Any, k: Any) -> Any:
    rows = [x, x[::-1] * 0.5]
    for i in range(60):
        a, b = rows[-1], rows[-1 - i % len(rows)]
        rows.append([np.sin(a) + 0.1 * b, a * k - b, np.tanh(b) * a[0], a[1:].sum() + b][i * i % 7 % 4])
    return np.sum(rows[-1]), rows[-1], k * 2.0, x, 3.0


def traced(f: Any, *args: Any) -> tuple[Jaxpr, list[Any]]:
    lowered = funcad.jit(f).lower(*args)
    return optimize(lowered.jaxpr), [*lowered._entry.consts, *args]


@pytest.mark.parametrize("k", [0.3, np.float64(0.3)])
def test_parts_give_what_one_function_gives(k: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    jaxpr, values = traced(mixed, np.arange(1.0, 6.0), k)
    parts = compile_program(jaxpr)
    assert type(parts) is ProgramParts and parts.count > 3 and parts.fast is None and parts.lines > 400
    for module in (program, program_region):
        monkeypatch.setattr(module, "MAX_LINES", 20_000)
    whole = compile_program(jaxpr)
    assert type(whole) is NativeProgram
    for found, expected in zip(parts(values), whole(values), strict=True):
        assert type(found) is type(expected) and np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def test_a_value_dies_with_the_last_part_that_reads_it() -> None:
    jaxpr, _ = traced(mixed, np.arange(1.0, 6.0), 0.3)
    parts = compile_program(jaxpr)
    read_later: set[int] = set()
    for _, ins, _, dead in reversed(parts._parts):  # type: ignore[union-attr]
        assert read_later.isdisjoint(dead) and set(dead) <= set(ins)
        read_later |= set(ins)
    kept = {i for _, i in parts._outputs}  # type: ignore[union-attr]
    made = {i for _, _, outs, _ in parts._parts for i in outs}  # type: ignore[union-attr]
    assert made - kept <= {i for _, _, _, dead in parts._parts for i in dead}  # type: ignore[union-attr]


def test_an_index_out_of_bounds_is_named_at_its_line() -> None:
    def f(x: Any, i: Any) -> Any:
        y = mixed(x, 0.3)[1]
        return mixed(y[i] + x, 0.3)[0]

    j = funcad.jit(f)
    x = np.arange(1.0, 6.0)
    for _ in range(3):
        assert j(x, 2) == pytest.approx(f(x, 2), rel=1e-12)
    held = program_of(j.lower(x, 2).jaxpr)
    assert isinstance(held, EngineProgram)
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        j(x, 9)
    assert j(x, 2) == pytest.approx(f(x, 2), rel=1e-12)


def test_one_equation_that_is_too_long_is_left_to_groups() -> None:
    def body(i: Any, x: Any) -> Any:
        for k in range(40):
            x = np.sin(x) * (1.0 + 0.01 * k) + np.cos(x[::-1])
        return x

    jaxpr, _ = traced(lambda x: funcad.fori_loop(0, 50, body, x), np.arange(1.0, 6.0))
    with pytest.raises(Unsupported, match="lines of code"):
        compile_program(jaxpr)


def test_gradients_of_any_length_stay_native() -> None:
    f = funcad.grad(lambda x: mixed(x, 0.3)[0])
    j = funcad.jit(f)
    x = np.arange(1.0, 6.0)
    for _ in range(40):
        np.testing.assert_allclose(j(x), f(x), rtol=1e-10)
    assert "native functions" in str(j.explain(x))
