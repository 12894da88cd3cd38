"""Which equations of a whole program share a loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad.backends.native.program_schedule import schedule

X = np.arange(1.0, 5.0)


def steps_of(f: Any, *args: Any) -> list[Any]:
    return schedule(funcad.make_jaxpr(f)(*args).jaxpr)


def test_what_no_array_connects_is_in_loops_of_its_own() -> None:
    """As in a step of an optimiser, which goes over the leaves for one formula after the other."""

    def step(leaves: Any, slopes: Any) -> Any:
        means = [0.9 * m + g for m, g in zip(leaves, slopes)]
        squares = [m * m for m in means]
        return [s - m for s, m in zip(squares, means)]

    leaves, slopes = [X, 2 * X, 3 * X], [X - 1, X - 2, X - 3]
    steps = steps_of(step, leaves, slopes)
    assert [len(s.equations) for s in steps] == [4, 4, 4] and all([s.shape == (4,) for s in steps])
    assert [e.primitive.name for e in steps[0].equations] == ["mul", "add", "mul", "sub"]


def test_what_reads_one_array_shares_a_loop() -> None:
    assert [len(s.equations) for s in steps_of(lambda x, y: (x + 1.0, y * 2.0, x * y, np.sin(x)), X, X)] == [4]
    late = lambda x, y, z: (x + 1.0, y * 2.0, z - 1.0, x * 3.0, (y + z) * x)  # the last two connect all
    assert [len(s.equations) for s in steps_of(late, X, X, X)] == [6]


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_results_are_the_same(engine: str) -> None:
    if engine == "native":
        pytest.importorskip("llvmlite")

    def body(state: Any, row: Any) -> Any:
        a, b, c, d = state
        return (b * 0.5, a + 0.25, np.sin(d), c * row), (a, d - 1.0)

    def f(x: Any) -> Any:
        return funcad.scan(body, (x, 2 * x, 3 * x, 4 * x), x)

    with funcad.config.set(engine=engine):
        g = funcad.jit(f)
        for _ in range(3):
            found = funcad.tree.leaves(g(X))
        for a, b in zip(found, funcad.tree.leaves(f(X))):
            np.testing.assert_allclose(a, b, rtol=1e-12)
