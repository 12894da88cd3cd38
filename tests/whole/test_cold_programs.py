"""The programs of `python -m benchmarks.cold` as users of funcad have them: they run on all their sizes, with equal results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.cold_programs import PROGRAMS, Program


def made(program: Program) -> dict[str, Any]:
    names: dict[str, Any] = {"numpy": np, "wave": lambda *shape: np.sin(1.0 + 1.7 * np.arange(np.prod(shape))).reshape(shape)}
    exec(f"{program.own}\n{program.text}", names)
    return names


def numbers(x: Any) -> list[float]:
    if isinstance(x, (dict, list, tuple)):
        return [n for part in (x.values() if isinstance(x, dict) else x) for n in numbers(part)]
    return np.ravel(x).tolist()


def test_there_are_programs_of_all_kinds() -> None:
    assert len({p.name for p in PROGRAMS}) == len(PROGRAMS) >= 30
    text = " ".join([p.own + p.text for p in PROGRAMS])
    words = ["custom_vjp", "hessian", "hvp", "jvp", "jacobian", "class ", "while ", "scipy.stats", "scipy.linalg", "minimize"]
    for word in words:
        assert word in text


@pytest.mark.parametrize("program", PROGRAMS, ids=[p.name for p in PROGRAMS])
def test_a_program_runs_on_its_sizes(program: Program) -> None:
    names = made(program)
    one = names["program"](program.size)
    first = numbers(one(*names["data"](program.size, 0)))
    assert first and np.isfinite(first).all() and any(first)
    other = numbers(one(*names["data"](program.size, 1)))
    assert other != first, "each call has values of its own"
    assert numbers(names["program"](program.size)(*names["data"](program.size, 0))) == first
    for n in program.sizes()[1::4]:
        assert np.isfinite(numbers(names["program"](n)(*names["data"](n, 0)))).all()
