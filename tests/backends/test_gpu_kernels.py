"""Kernels on a GPU: every operation, whole programs, layouts, streams and repeated runs, beside NumPy. Skipped without one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import funcad
from benchmarks.gpu import leaves, tree
from benchmarks.gpu_programs import Program, programs, transformed
from funcad import config, jit, value_and_grad
from funcad.backends.cuda import launches
from tests.agreement import assert_close
from tests.primitives.test_gpu import SPECS, cupy, samples, there
from tests.specs import OpSpec

pytestmark = pytest.mark.gpu
RUNS = 5  # the reference, the kernels made, and what comes back afterwards
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 7.0, 1e-300, 5e-324, 1e16, -1e300, np.inf, -np.inf, np.nan, -2.5, 88.0]


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(launches, "BACKGROUND", False)  # it is kernels that are tested
    with config.set(engine="cuda"):
        yield


def host(x: Any) -> Any:
    return cupy.asnumpy(x)


@pytest.mark.parametrize("op", [pytest.param(s, id=s.id) for s in SPECS])
def test_every_operation_beside_another(op: OpSpec) -> None:
    """A second element operation makes a group of it, where it is one; of one sample, since each is compiled."""
    for args in samples(op)[:1]:
        moved, positions = [there(x) for x in args], op.variables(args)
        given = [moved[i] for i in positions]
        f = op.of_variables(moved, positions)
        g = jit(lambda *xs, f=f: [o * 2 for o in f(*xs)])
        try:
            g.cuda(*given)
        except ValueError:
            continue  # it has no kernel: tests/primitives/test_gpu.py runs the line
        with np.errstate(all="ignore"):
            expected = [np.asarray(o * 2) for o in op.call(*args)]
        for _ in range(3):
            found = g(*given)
        for a, b in zip(found, expected, strict=True):
            assert isinstance(a, cupy.ndarray) and a.dtype == b.dtype and a.shape == b.shape, op.id
            rtol = 1e-10 if b.dtype.char in "dDqlQL" else 1e-2 if b.dtype.char == "e" else 1e-4
            assert_close(host(a), b, rtol=rtol, what=op.id)


@pytest.mark.parametrize("program", [pytest.param(p, id=p.what) for p in programs(True) if not p.draws])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_programs(program: Program, dtype: Any) -> None:
    """The same arrays again and again, then others at other places, then the first."""
    f = transformed(funcad, program.transform, program.function(np))
    arguments = program.data(dtype, True)
    other = tree(lambda x: x + x, arguments)
    g = jit(f)
    first, second = tree(cupy.asarray, arguments), tree(cupy.asarray, other)
    kept = []
    for given, plain in (*[(first, arguments)] * RUNS, (second, other), (first, arguments), (second, other)):
        found, expected = leaves(g(*given)), leaves(f(*plain))
        for a, b in zip(found, expected, strict=True):
            rtol = 1e-9 if dtype == np.float64 else 1e-2 if program.products else 1e-3
            assert_close(host(a), b, rtol=rtol * program.tolerance, what=program.what)
        kept.append((found, [host(a) for a in found]))
    for found, before in kept:  # no run wrote into the results of another
        for a, b in zip(found, before):
            np.testing.assert_array_equal(host(a), b)


def test_draws_are_those_of_numpy() -> None:
    for program in programs(True):
        if program.draws:
            (key,) = program.data(np.float32, True)
            f = program.function(np)
            g = jit(f)
            for _ in range(3):
                np.testing.assert_allclose(host(g(cupy.asarray(key))), f(key), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("how", ["C", "F", "turned", "cut", "unaligned", "broadcast", "one", "none"])
def test_layouts_and_special_values(how: str, dtype: Any) -> None:
    with np.errstate(all="ignore"):
        x = np.resize(np.array(SPECIAL).astype(dtype), (67, 129))
    lay = {
        "C": lambda x: x, "F": lambda x: x.T.copy().T, "turned": lambda x: x.T, "cut": lambda x: x[1::2, 3::5],
        "unaligned": lambda x: x.reshape(-1)[1:601].reshape(20, 30), "broadcast": lambda x: x[:1] + x[:, :1] * 0,
        "one": lambda x: x[:1, :1], "none": lambda x: x[:0],
    }[how]  # fmt: skip

    def f(x: Any) -> Any:
        y = np.abs(x) * 2 + x
        return y, np.sum(np.where(np.isfinite(y), 1, 0)), np.tanh(x) - x, np.sum(np.tanh(np.nan_to_num(x)), axis=1)

    given = lay(cupy.asarray(x))
    g = jit(f)
    with np.errstate(all="ignore"):
        expected = f(lay(x))
    for _ in range(RUNS):
        for a, b in zip(g(given), expected):
            np.testing.assert_allclose(host(a), b, rtol=1e-13 if dtype == np.float64 else 1e-5, atol=1e-300)


def test_the_same_bits_at_every_run() -> None:
    x = cupy.asarray(np.random.default_rng(0).normal(size=(1234, 567)))
    g = jit(value_and_grad(lambda x: np.sum(np.sin(x) * x) + np.sum(np.exp(-np.sum(x * x, axis=0)))))
    found = [[host(a).tobytes() for a in g(x)] for _ in range(RUNS)]
    assert all([f == found[1] for f in found[1:]])


def test_streams_and_threads() -> None:
    g = jit(lambda x: np.sum(np.cos(x) * x, axis=1) + 1.0)
    x = np.random.default_rng(0).normal(size=(300, 400))
    expected, wrong = np.sum(np.cos(x) * x, axis=1) + 1.0, []

    def work() -> None:
        try:
            with cupy.cuda.Stream(non_blocking=True) as stream:
                given = cupy.asarray(x)
                for _ in range(20):
                    out = g(given)
                    stream.synchronize()
                    np.testing.assert_allclose(host(out), expected, rtol=1e-12)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
