"""Groups of small examples (passes/example_loops.py): what becomes one loop, and that all engines agree on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad.backends.engines import EngineProgram
from funcad.backends.interpreter import Program
from funcad.diagnosis.recording import check_jaxpr
from funcad.ir.jaxpr import Equation, Jaxpr
from funcad.passes.example_loops import batch
from funcad.passes.pipeline import optimize
from funcad.show.pretty import shown_as
from tests.agreement import assert_agree

SIZE = 101


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def pendulum(x: Any) -> Any:
    angles, speeds = x[:2], x[2:]
    return np.concatenate([speeds, -np.sin(angles) + 0.1 * (angles[::-1] - angles)])


def rotated(x: Any) -> Any:
    matrix = np.outer(x, x[::-1]) + np.eye(len(x), dtype=x.dtype)
    return matrix @ (matrix.T @ x)


def shared(x: Any) -> Any:
    weights = np.arange(12.0).astype(x.dtype).reshape(4, 3) / 10
    return np.tanh(x @ weights)[1:] * np.array([0.5, 2.0], x.dtype)


def flags(x: Any) -> Any:
    big = x > np.max(x[:2])
    return np.where(big, x, -x), big, np.any(big), np.argsort(x)


def padded(x: Any) -> Any:
    y = np.pad(x, (2, 1))
    return y.reshape(7, 1).T, np.roll(y, 2), np.stack([y[::2], y[1::2][::-1].repeat(2)[:4]])


def updated(x: Any) -> Any:
    total = np.prod(x) + np.min(x)
    return np.concatenate([x[None, 1:], np.broadcast_to(total, (1, 3))]), x.reshape(2, 2).sum(0)


PROGRAMS = [
    ("rosenbrock", rosenbrock),
    ("its gradient", funcad.grad(rosenbrock)),
    ("its Hessian", funcad.hessian(rosenbrock)),
    ("pendulum", pendulum),
    ("Jacobian of it", funcad.jacobian(pendulum)),
    ("products", rotated),
    ("gradient of products", funcad.grad(lambda x: np.sum(rotated(x) ** 2))),
    ("shared matrix", shared),
    ("comparisons", flags),
    ("padding", padded),
    ("joining", updated),
]


def traced(f: Any, *args: Any) -> tuple[Jaxpr, list[Any]]:
    """The optimised program, and what to run it on."""
    lowered = funcad.jit(f).lower(*args)
    return optimize(lowered.jaxpr), [*lowered._entry.consts, *args]


def groups(jaxpr: Jaxpr) -> list[Equation]:
    return [e for e in jaxpr.equations if e.primitive.name == "fused"]


def numbers(shape: tuple, dtype: Any = np.float64, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return x.astype(dtype) if np.dtype(dtype).kind == "f" else (4 * x).astype(dtype)


@pytest.fixture(params=["numpy", "program", "kernels"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """NumPy in blocks of 64 examples; native as a whole; native group by group."""
    if request.param == "numpy":
        monkeypatch.setattr("funcad.backends.batches.LEAST", 0)
        monkeypatch.setattr("funcad.backends.batches.BLOCK_BYTES", 0)
        monkeypatch.setattr("funcad.backends.batches.THREADED", 10_000)
        return "numpy"
    pytest.importorskip("llvmlite")
    if request.param == "kernels":
        monkeypatch.setattr("funcad.backends.native.program_cost.ProgramCost.for_groups", True)
    return "native"


def check(jaxpr: Jaxpr, args: list[Any], engine: str) -> None:
    with np.errstate(all="ignore"):
        expected = Program(jaxpr).run(list(args))
        program = EngineProgram(jaxpr, engine)
        found = [program.written_out()(list(args)) for _ in range(2)][1]
    for a, b in zip(found, expected, strict=True):
        assert_agree(a, b, ulps=8, scale=16.0 * np.max(np.abs(b[np.isfinite(b)]), initial=1.0))


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("f", [f for _, f in PROGRAMS], ids=[name for name, _ in PROGRAMS])
def test_programs_agree(f: Any, dtype: Any, engine: str) -> None:
    x = numbers((SIZE, 4), dtype)
    jaxpr, values = traced(funcad.vmap(f), x)
    check_jaxpr(batch(jaxpr))
    check(jaxpr, values, engine)


@pytest.mark.parametrize("f", [f for _, f in PROGRAMS[:8]], ids=[name for name, _ in PROGRAMS[:8]])
def test_one_group_is_made(f: Any) -> None:
    jaxpr, _ = traced(funcad.vmap(f), numbers((SIZE, 4)))
    fused = batch(jaxpr)
    (group,) = groups(fused)
    assert group.params["kind"] == "batch"
    assert not any([e.outputs[0].aval.shape[:1] == (SIZE,) for e in fused.equations if e is not group])
    assert {e.outputs[0].aval.shape[0] for e in group.params["jaxpr"].equations} == {SIZE}


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.bool_])
def test_integers(dtype: Any, engine: str) -> None:
    def f(x: Any) -> Any:
        return x[1:] | x[:-1], np.max(x[::2]), np.where(x[:2] > x[2:], x[:2], x[2:]), np.concatenate([x, x[:1]])

    x = numbers((SIZE, 4), dtype)
    check(*traced(funcad.vmap(f), x), engine)


@pytest.mark.share(3)
@pytest.mark.parametrize("columns", [1, 2, 3, 5, 7, 8, 11, 24])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_width(columns: int, dtype: Any, engine: str) -> None:
    x = numbers((SIZE, columns), dtype)
    program = traced(funcad.vmap(lambda x: (x[::-1] * 2.0, np.concatenate([x[:1], x[1:] - x[:-1]]))), x)
    check(*program, engine)


@pytest.mark.parametrize("size", [32, 33, 63, 1000, 70_001])
def test_sizes(size: int, engine: str) -> None:
    x = numbers((size, 3))
    check(*traced(funcad.vmap(funcad.grad(rosenbrock)), x), engine)


def test_special_values(engine: str) -> None:
    x = numbers((SIZE, 4))
    x[::3, 1], x[1::5, 0], x[2::7, 3], x[3::4, :] = -0.0, np.inf, np.nan, -0.0
    for f in (funcad.grad(rosenbrock), lambda x: (x[1:] + x[:-1], np.sum(x[1:]), np.max(x[:-1]), np.min(x[1:]))):
        check(*traced(funcad.vmap(f), x), engine)


def test_layouts(engine: str) -> None:
    x = numbers((SIZE, 4))
    jaxpr, _ = traced(funcad.vmap(funcad.grad(rosenbrock)), x)
    twice = np.repeat(np.repeat(x, 2, 0), 2, 1)
    swapped = x.astype(">f8")
    for each in (np.asfortranarray(x), x[::-1], twice[::2, ::2], np.broadcast_to(x[:1], x.shape), swapped):
        check(jaxpr, [each], engine)


def test_what_follows_and_what_precedes(engine: str) -> None:
    def f(x: Any, w: Any) -> Any:
        scaled = x * np.sum(w)
        each = funcad.vmap(lambda x: np.sum((x[1:] - x[:-1]) ** 2 * w[1:]))(scaled)
        return np.mean(each), each, np.sort(each)[:3]

    args = [numbers((SIZE, 4)), numbers((4,), seed=1)]
    for g in (f, funcad.grad(lambda x, w: f(x, w)[0], argnums=(0, 1))):
        jaxpr, values = traced(g, *args)
        assert len(groups(batch(jaxpr))) == 1
        check(jaxpr, values, engine)


def test_matrices_are_left_to_fusion() -> None:
    """A product whose matrix is read twice is one loop of rows."""

    def loss(w: Any, x: Any, y: Any) -> Any:
        return np.mean((x @ w - y) ** 2)

    x = numbers((20_000, 4))
    jaxpr, _ = traced(funcad.value_and_grad(loss), np.ones(4), x, np.ones(20_000))
    assert not groups(batch(jaxpr))


def test_element_operations_alone_are_left_to_fusion() -> None:
    jaxpr, _ = traced(lambda x: np.sum(np.exp(x) * x, axis=1), numbers((SIZE, 4)))
    assert batch(jaxpr) is jaxpr


def test_too_much_code_is_not_written() -> None:
    def f(x: Any) -> Any:
        for _ in range(60):
            x = np.concatenate([np.sin(x[1:]), x[:1]])
        return x

    fused = batch(traced(funcad.vmap(f), numbers((SIZE, 4)))[0])
    (group,) = groups(fused)
    assert 10 < len(group.params["jaxpr"].equations) < 100


def test_bodies_of_loops(engine: str) -> None:
    """A batch of systems of differential equations, step by step."""

    def orbit(x: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            moved = x + 0.01 * pendulum(x)
            return moved, moved[:1]

        return funcad.lax.scan(step, x, np.arange(5))

    x = numbers((SIZE, 4))
    jaxpr, values = traced(funcad.vmap(orbit), x)
    (loop,) = [e for e in batch(jaxpr).equations if shown_as(e) == "scan"]
    assert groups(loop.params["loop"].body)
    check(jaxpr, values, engine)


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("f", [f for _, f in PROGRAMS], ids=[name for name, _ in PROGRAMS])
def test_batch_along_the_last_axis(f: Any, dtype: Any, engine: str) -> None:
    x = numbers((4, SIZE), dtype)
    jaxpr, values = traced(funcad.vmap(f, in_axes=1, out_axes=-1), x)
    check_jaxpr(batch(jaxpr))
    check(jaxpr, values, engine)


def test_the_last_axis_is_read_as_it_lies() -> None:
    x = numbers((4, SIZE))
    jaxpr, values = traced(funcad.vmap(funcad.grad(rosenbrock), in_axes=1), x)
    fused = batch(jaxpr)
    ((group),) = fused.equations
    assert group.params["kind"] == "batch" and group.inputs == jaxpr.inputs
    both, _ = traced(lambda x: (funcad.vmap(funcad.grad(rosenbrock), in_axes=1)(x), x * x), x)
    check_jaxpr(batch(both))


def test_what_others_read_stays() -> None:
    """A sum over the batch reads what the transpose would be moved through."""

    def f(x: Any) -> Any:
        y = np.sin(x) * 2.0
        return y.T[:, 1:] * y.T[:, :-1], np.sum(y)

    x = numbers((4, SIZE))
    jaxpr, values = traced(f, x)
    sines = [e for e in batch(jaxpr).equations if e.primitive.name == "sin"]
    assert len(sines) == 1
    check_jaxpr(batch(jaxpr))
    check(jaxpr, values, "numpy")


def test_transposes_of_transposes(engine: str) -> None:
    def f(x: Any) -> Any:
        y = np.sin(x.T)[1:3]  # (2, SIZE)
        z = np.cos(y).T
        return z * 2.0, (z.T * 3.0).T[:, ::-1], np.exp(y.T.T + 1.0).T

    jaxpr, values = traced(f, numbers((SIZE, 4)))
    check_jaxpr(batch(jaxpr))
    check(jaxpr, values, engine)


def test_blocks_write_into_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy: one loop in the text, scratch arrays in front of it, values put into their places in the result itself."""
    monkeypatch.setattr("funcad.backends.batches.LEAST", 0)
    monkeypatch.setattr("funcad.backends.batches.BLOCK_BYTES", 64 * 32)
    jaxpr, _ = traced(funcad.vmap(funcad.grad(rosenbrock)), numbers((SIZE, 4)))
    program = EngineProgram(jaxpr, "numpy")
    program.written_out()
    text = program.generated.text
    loop = text[text.index("    for i in range(low, high, 64):") : text.index("def run")]
    assert "empty" not in loop and "place_sum" not in text and "kernel" not in text
    tile = next(line.split()[0] for line in loop.splitlines() if line.endswith("[i:j].T") and "[...]" not in line)
    assert loop.count(f"{tile}[") == 3


def test_a_batch_is_longer_than_an_example() -> None:
    from funcad.passes.example_loops import LEAST, MOST

    assert LEAST > MOST
