"""Captured runs of programs on CuPy arrays, on a stand-in with a recording driver (tests/cuda_driver.py)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import funcad
from benchmarks.device_calls import programs
from funcad import cond, config, fori_loop, grad, jit, scan, value_and_grad, while_loop
from funcad.backends.cuda import graphs, launches
from funcad.backends.cuda.graphs import GRAIN, KEPT, STAGED, DeviceArena, Graphs
from tests import cuda_shim
from tests.agreement import assert_close
from tests.backends.test_cupy_random_programs import check
from tests.cuda_driver import Driver, driver
from tests.random_programs import random_case, trace
from tests.specs import OpSpec, all_specs
from tests.standin import registered, to_device, to_host, xp

pytestmark = [
    pytest.mark.skipif(not cuda_shim.available(), reason="there is no g++ to run kernels with"),
    pytest.mark.filterwarnings("ignore"),
]
LARGE = STAGED // 8 + 1  # float64s


@pytest.fixture
def device() -> Iterator[Driver]:
    with registered(), driver() as found, config.set(engine="cuda"):
        yield found
        assert found.faults == []
        assert found.recording is None


@pytest.fixture
def all_graphs(monkeypatch: pytest.MonkeyPatch) -> list[Graphs]:
    """Those that are made from now on."""
    found, made = [], Graphs.__init__

    def noted(self: Graphs, *args: Any) -> None:
        made(self, *args)
        found.append(self)

    monkeypatch.setattr(Graphs, "__init__", noted)
    return found


def network(w: Any, x: Any) -> Any:
    return np.mean(np.tanh(np.tanh(x @ w) @ w) ** 2)


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return np.sum(np.log(e / np.sum(e, axis=1, keepdims=True)) * x)


def recurrent(w: Any, xs: Any) -> Any:
    return scan(lambda c, x: (np.tanh(c @ w + x), np.sum(c)), xs[0], xs)[0].sum()


RNG = np.random.default_rng(0)
W, X = RNG.normal(size=(8, 8)) / 3, RNG.normal(size=(12, 8))
CASES = {
    "network": (value_and_grad(network, argnums=(0, 1)), (W, X)),
    "softmax": (value_and_grad(softmax), (X,)),
    "recurrent": (grad(recurrent), (W, X)),
    "in place": (lambda x: fori_loop(0, 5, lambda i, y: y.at[i].add(np.sum(y) * 0.1), np.sin(x[:, 0])) * 2.0 + 1.0, (X,)),
    "sorted": (lambda x: np.cumsum(np.sort(np.exp(x) * 2.0 - 1.0, axis=0), axis=1)[::-1, 2:] / 3.0, (X,)),
    "complex": (lambda x: np.abs(np.exp(1j * x) * (2.0 + x) - 1j) ** 2 + np.sum(x), (X,)),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", CASES)
def test_replays_are_the_lines_bit_for_bit(device: Driver, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, args = CASES[name]
    monkeypatch.setattr(graphs, "_calls", lambda jaxpr: 1000.0)  # also what is three kernels
    g, expected = jit(f), f(*args)
    runs = [g(*[to_device(a * s) for a in args]) for s in (1.0, 1.0)]
    before = device.launches  # of the body of a loop, which the reference runs
    results = [g(*[to_device(a * s) for a in args]) for s in (1.0, 0.5, 1.0)]
    assert device.launches == before + 3, g.explain(*[to_device(a) for a in args])
    assert_near(results[0], expected)
    assert_near(results[1], f(*[a * 0.5 for a in args]))
    assert bits(results[0]) == bits(results[2]) == bits(runs[1])
    assert "CUDA graphs: 1" in str(g.explain(*[to_device(a) for a in args]))


def assert_near(found: Any, expected: Any) -> None:
    for x, y in zip(funcad.tree.leaves(found), funcad.tree.leaves(expected), strict=True):
        assert_close(to_host(x), np.asarray(y), rtol=1e-9)


def bits(tree: Any) -> list[bytes]:
    return [to_host(x).tobytes() for x in funcad.tree.leaves(tree)]


def test_results_are_the_users_own(device: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "_calls", lambda jaxpr: 1000.0)
    g = jit(lambda x: [np.tanh(x * i) + 1.0 - x * x for i in range(1, 9)])
    found = [g(to_device(X + k)) for k in range(6)]
    assert device.launches == 4
    for k, ys in enumerate(found):
        for i, y in enumerate(ys, 1):
            assert_close(to_host(y), np.tanh((X + k) * i) + 1.0 - (X + k) * (X + k), rtol=1e-13)
    found[3][0][...] = 7.0
    assert_close(to_host(g(to_device(X))[0]), np.tanh(X) + 1.0 - X * X, rtol=1e-13)


def chain(x: Any) -> Any:
    for _ in range(12):
        x = np.sort(np.tanh(x)) * 1.5
    return np.sum(x)


@pytest.mark.slow
def test_large_arguments_are_known_by_where_they_lie(device: Driver, all_graphs: list) -> None:
    g = jit(lambda x: chain(x))
    arrays = [to_device(RNG.normal(size=LARGE)) for _ in range(KEPT + 2)]
    expected = [chain(to_host(a)) for a in arrays]
    g(arrays[0])  # by the reference
    for a, e in zip(arrays, expected):
        for k in range(4):
            before = device.launches
            assert_close(to_host(g(a)), e, rtol=1e-12)
            assert device.launches - before == (k > 0)
    (made,) = all_graphs
    assert len(made.kept) == KEPT
    arrays[-1][...] = to_device(np.ones(LARGE))  # written where it lies
    assert_close(to_host(g(arrays[-1])), chain(np.ones(LARGE)), rtol=1e-12)


def test_numbers_of_the_host_are_parts_of_a_graph(device: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "_calls", lambda jaxpr: 1000.0)
    f = lambda x, a: [np.copysign(x, a) * i + np.sort(x) for i in range(8)]
    g = jit(f)
    for a in (0.0, -0.0, 2.0, float("nan"), -0.0, 0.0):
        for _ in range(4):
            for y, e in zip(g(to_device(X), a), f(X, a), strict=True):
                np.testing.assert_array_equal(to_host(y), e)
    assert device.launches > 8


@pytest.mark.parametrize(
    "f,reason",
    [
        (lambda x: while_loop(lambda c: np.sum(c) < 100.0, lambda c: np.sort(c * 2.0) + 0.1, x * x), "waits for a value"),
        (lambda x: cond(np.sum(x) > 0, lambda y: [np.sort(y + i) for i in range(20)], lambda y: [y] * 20, x), "waits"),
        (lambda x: x * 2.0 + 1.0, "no longer than to copy"),
        (lambda x: [x, chain(x)], "memory of an argument"),
    ],
)
def test_what_is_no_graph_runs_as_lines(device: Driver, f: Any, reason: str) -> None:
    g, expected = jit(f), f(X)
    for _ in range(5):
        assert_near(g(to_device(X)), expected)
    assert device.launches == 0
    assert reason in str(g.explain(to_device(X)))


def test_errors_while_a_stream_records_end_the_recording(
    device: Driver, all_graphs: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = jit(lambda x: chain(x))
    x = to_device(X[:, 0])
    g(x), g(x)
    (made,) = all_graphs
    run = made.program.function

    def fails(values: Any) -> Any:
        if device.recording is not None:
            raise KeyboardInterrupt
        return run(values)

    monkeypatch.setattr(made.program, "function", fails)
    with pytest.raises(KeyboardInterrupt):
        g(x)
    assert device.recording is None
    monkeypatch.undo()
    for _ in range(2):
        assert_close(to_host(g(x)), chain(X[:, 0]), rtol=1e-12)
    assert device.launches == 1


def test_threads_and_streams(device: Driver) -> None:
    g, found, errors = jit(lambda x: chain(x)), {}, []
    g(to_device(X[:, 0]))

    def work(k: int) -> None:
        try:
            found[k] = [to_host(g(to_device(X[:, k] + i))) for i in range(6)]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not errors
    for k in range(3):
        assert_close(found[k], [chain(X[:, k] + i) for i in range(6)], rtol=1e-12)
    with device.Stream(non_blocking=True):
        before = device.launches
        for k in range(4):
            assert_close(to_host(g(to_device(X[:, k]))), chain(X[:, k]), rtol=1e-12)
        assert device.launches == before + 3  # a graph of its own


def test_donated_arguments_and_captured_arrays(device: Driver) -> None:
    table = np.arange(8.0)
    g = jit(lambda x: chain(x + table))
    for k in range(5):
        table[0] = k  # may be written: it is copied at each run
        assert_close(to_host(g(to_device(X[0]))), chain(X[0] + table), rtol=1e-12)
    h = jit(lambda x: np.tanh(x) * 2.0 + chain(x), donate_argnums=0)
    for _ in range(5):
        assert_close(to_host(h(to_device(X[0]))), np.tanh(X[0]) * 2.0 + chain(X[0]), rtol=1e-12)


def test_arenas_give_what_is_free(device: Driver) -> None:
    events = [(bool(RNG.random() < 0.5), int(RNG.integers(1, 5000)), RNG.random()) for _ in range(2000)]

    def run(arena: DeviceArena) -> int:
        held, most = {}, 0
        for back, size, which in events:
            if held and back:
                del held[list(held)[int(which * len(held))]]
            else:
                memory = arena.malloc(size)
                size = arena._taken[memory.ptr]
                assert memory.ptr % GRAIN == 0
                assert all([memory.ptr + size <= p or p + arena._taken[p] <= memory.ptr for p in held])
                held[memory.ptr] = memory
                memory = None
            most = max(most, sum(arena._taken.values()))
            assert set(held) == set(arena._taken)
        held.clear()
        assert not arena._taken and len(arena._ranges.free) <= len(arena._chunks)
        return most

    first = DeviceArena(xp, 0)
    most = run(first)
    again = DeviceArena(xp, first.needed)
    run(again)
    assert most <= first.needed == again.size == again.needed and len(again._chunks) == 1


WORKLOADS = ["W8", *[pytest.param(w, marks=pytest.mark.slow) for w in ("W2 network, value", "W6", "W7", "W10")]]


@pytest.mark.share(4)
@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads(device: Driver, name: str) -> None:
    program = next(p for p in programs() if p.what.startswith(name))
    expected = program.function(*program.data)
    g = jit(program.function)
    for _ in range(4):
        assert_near(g(*funcad.tree.map(to_device, program.data)), expected)


@pytest.mark.slow
def test_every_operation(device: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*args: Any) -> None:
        raise launches.Unsupported("lines are what is tested")

    monkeypatch.setattr(graphs, "_calls", lambda jaxpr: 1000.0)
    monkeypatch.setattr(launches, "kernel_for", none)
    before = device.launches
    for op in [s for s in all_specs() if "cupy" in s.backends]:
        for args in list(op.samples())[:1]:
            if any([isinstance(x, np.ndarray) for x in args]):
                replays(op, args)
    assert device.launches - before > 300


def replays(op: OpSpec, args: tuple) -> None:
    positions = op.variables(args)
    there = [to_device(a) for a in args]
    g, given = jit(op.of_variables(there, positions)), [there[i] for i in positions]
    with np.errstate(all="ignore"):
        g(*given)
        expected = list(map(to_host, g(*given)))  # by lines
        for _ in range(3):
            for x, y in zip(g(*given), expected, strict=True):  # BLAS looks how arrays are aligned
                assert_close(to_host(x), y, rtol=1e-12 if y.dtype.char not in "efF" else 1e-5, what=op.id)


@pytest.mark.parametrize("first", [0, *[pytest.param(n, marks=pytest.mark.slow) for n in range(5, 400, 5)]])
def test_random_programs(device: Driver, first: int) -> None:
    compared = 0
    for seed in range(first, first + 5):
        try:
            jaxpr, values = trace(random_case(seed))
        except (TypeError, ValueError, IndexError):  # a derivative that does not exist, say
            continue
        try:
            compared += check(jaxpr, values, xp, "cuda")
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert compared
