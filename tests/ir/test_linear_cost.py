"""Tracing, jvp, linearize, transpose, batch and running cost time linear in the number of equations.

Function calls are counted instead of seconds: a count does not depend on the machine. benchmarks/tracing.py has the seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import grad, jit, jvp, vmap
from funcad.diagnosis.recording import check_jaxpr
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.trace import trace_function
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.jvp import jvp_jaxpr
from funcad.transforms.partial import linearize_jaxpr
from funcad.transforms.transpose import transpose_jaxpr

pytestmark = pytest.mark.group("alone")  # of time, memory, threads or counts

FEW, MANY = 2_000, 20_000
SCALAR = Aval((), np.dtype(float))


def program(x: Any, n: int) -> Any:
    """n operations, some of whose values are used again much later."""
    first = y = x * 0.5
    for _ in range(n // 4):
        y = y * 1.001 + first
        y = np.sin(y) - x
    return y


def traced(n: int) -> Jaxpr:
    return trace_function(lambda x: [program(x, n)], [SCALAR], name="test")[0]


def calls_during(f: Callable[[], Any]) -> int:
    count = 0

    def profiler(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    sys.setprofile(profiler)
    try:
        f()
    finally:
        sys.setprofile(None)
    return count


def linear_part(jaxpr: Jaxpr) -> tuple[Jaxpr, tuple[bool, ...]]:
    halves = linearize_jaxpr(jaxpr, (True,))
    n = len(halves.residuals)
    return halves.linear, tuple([False] * n + [True] * (len(halves.linear.inputs) - n))


def prepare_transpose(n: int) -> Callable[[], Any]:
    linear, mask = linear_part(traced(n))
    return lambda: transpose_jaxpr(linear, mask, (True,))


def prepare_run(n: int) -> Callable[[], Any]:
    f = jit(lambda x: program(x, n))
    f(0.5)
    return lambda: f(0.5)


def prepare_gradient_of_jit(n: int) -> Callable[[], Any]:
    f = jit(lambda x: program(x, n))
    return lambda: grad(f)(0.5)


def on_jaxpr(f: Callable[[Jaxpr], Any]) -> Callable[[int], Callable[[], Any]]:
    def prepare(n: int) -> Callable[[], Any]:
        jaxpr = traced(n)
        return lambda: f(jaxpr)

    return prepare


PREPARE: dict[str, Callable[[int], Callable[[], Any]]] = {
    "trace": lambda n: lambda: traced(n),
    "check": on_jaxpr(check_jaxpr),
    "print": on_jaxpr(str),
    "jvp": on_jaxpr(lambda jaxpr: jvp_jaxpr(jaxpr, (True,))),
    "linearize": on_jaxpr(lambda jaxpr: linearize_jaxpr(jaxpr, (True,))),
    "transpose": prepare_transpose,
    "batch": on_jaxpr(lambda jaxpr: batch_jaxpr(jaxpr, 3, (True,))),
    "compile": lambda n: lambda: jit(lambda x: program(x, n)).lower(0.5).compile(),
    "run": prepare_run,
    "un-jitted grad": lambda n: lambda: grad(program)(0.5, n),
    "un-jitted jvp": lambda n: lambda: jvp(lambda x: program(x, n), (0.5,), (1.0,)),
    "grad of jit": prepare_gradient_of_jit,
    "vmap": lambda n: lambda: vmap(lambda x: program(x, n))(np.ones(2)),
    "jit of grad": lambda n: lambda: jit(grad(lambda x: program(x, n)))(0.5),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (i % 2)) for i, n in enumerate(PREPARE)])
def test_cost_is_linear_in_the_number_of_equations(name: str) -> None:
    prepare = PREPARE[name]
    few, many = calls_during(prepare(FEW)), calls_during(prepare(MANY))
    bound = 11 if name == "un-jitted grad" else 10.5  # its first thousand operations cost less: they go to a tape
    assert many < bound * few, f"{name}: {few} calls for {FEW} equations, {many} for {MANY}"


@pytest.mark.slow
def test_a_python_loop_of_many_recorded_operations() -> None:
    def f(x: Any) -> Any:
        y = x
        for _ in range(50_000):
            y = y * 0.9999 + x
        return y

    steps = np.arange(50_001)
    assert len(trace_function(lambda x: [f(x)], [SCALAR], name="test")[0].equations) == 100_000
    np.testing.assert_allclose(grad(f)(1.0), np.sum(0.9999**steps))
