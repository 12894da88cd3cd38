"""The pool of native threads: the same results for any number of threads, from any thread, in children and at the end."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.backends import batches
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.primitives.arithmetic import add, mul
from funcad.primitives.fused import fused_p
from funcad.primitives.reduction import reduce_max_p, reduce_sum_p
from tests.forked import in_a_process

pytest.importorskip("llvmlite")
pytestmark = [pytest.mark.group("alone"), pytest.mark.skipif(not hasattr(os, "fork"), reason="no POSIX threads here")]

from funcad.backends.native import ir, kernels, target, threads  # noqa: E402

N = 300_001
SETUP = """
import os, sys, threading, numpy as np, funcad
from tests.backends.test_native_threads import made, operand, N
from funcad.backends.native import threads
funcad.config.threads = 3
call, x = made(N), operand(N)
first = [np.array(a) for a in call(x)]
assert threads.helpers() == 2
same = lambda found: all(np.array_equal(a, b) for a, b in zip(found, first))
"""


def made(n: int) -> Any:
    """A kernel with a full result, a sum and a maximum, and enough work for threads."""
    x = Var(Aval((n,), np.dtype(float)))
    equations, value = [], x
    for k in range(12):
        out = Var(x.aval)
        equations.append(Equation((mul, add)[k % 2], (value, Literal(0.9) if k % 2 else x), {}, (out,)))
        value = out
    outputs = [value]
    for primitive in (reduce_sum_p, reduce_max_p):
        out = Var(Aval((), np.dtype(float)))
        equations.append(Equation(primitive, (value,), {"axes": (0,)}, (out,)))
        outputs.append(out)
    params = {"jaxpr": Jaxpr((x,), tuple(equations), tuple(outputs)), "kind": "elementwise", "shape": (n,)}
    return kernels.kernel_for(Equation(fused_p, (x,), params, tuple(outputs)))


def operand(n: int) -> np.ndarray:
    return np.random.default_rng(n).uniform(-1, 1, n)


@pytest.fixture(autouse=True)
def everything_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "WORTH", 1.0)


def same(a: list, b: list) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b))


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    call, x = made(N), operand(N)
    found = {}
    for n in (1, 2, 3, 8, 2, 1):
        with funcad.config.set(threads=n):
            found[n] = call(x)
            assert all(same(call(x), found[n]) for _ in range(10))
    assert all(same(found[1], found[n]) for n in found)
    assert 1 <= threads.helpers() <= 7


def test_strided_operands_share_the_work_too() -> None:
    call, x = made(N), operand(2 * N)[::2]
    expected = None
    for n in (1, 4):
        with funcad.config.set(threads=n):
            expected = call(x) if expected is None else expected
            assert same(call(x), expected)


def test_every_part_runs_once() -> None:
    """A function that counts, on a pool that is used hard."""
    module = ir.Module()
    f = ir.Function(module, "count", [("ptr", "%a"), ("i64", "%lo"), ("i64", "%hi"), ("ptr", "%b")])
    with f.loop("%lo", "%hi") as loop:
        place = f.put(f"getelementptr i64, ptr %a, i64 {loop.index}")
        old = f.load(f"load i64, ptr {place}")
        f.do(f"store i64 {f.load(f'add i64 {old}, 1')}, ptr {place}")
    f.load("atomicrmw add ptr %b, i64 1 seq_cst")
    f.do("ret void")
    module.add(f)
    code = target.compile_module(module.text(), ["count"])
    run, pool = threads.runner()
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(run)
    with funcad.config.set(threads=4):
        threads.ready()
        rounds = 3000
        seen, parts = np.zeros(1000, np.int64), np.zeros(1, np.int64)
        for _ in range(rounds):
            call(pool, code.address["count"], seen.ctypes.data, 1000, 30, parts.ctypes.data, 0)
        assert (seen == rounds).all() and parts[0] == rounds * 34
        marks = np.zeros(64, np.int64)  # with b_step, each thread has its own
        for _ in range(rounds):
            call(pool, code.address["count"], seen.ctypes.data, 1000, 30, marks.ctypes.data, 64)
        assert marks[::8].sum() == rounds * 34 and marks.sum() == marks[:32:8].sum()


def test_eight_python_threads_call_at_once() -> None:
    call, x = made(N), operand(N)
    with funcad.config.set(threads=3):
        expected = call(x)
        wrong: list[int] = []

        def work(i: int) -> None:
            for _ in range(10):
                if not same(call(x), expected):
                    wrong.append(i)

        callers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for c in callers:
            c.start()
        for c in callers:
            c.join()
    assert not wrong


def test_the_setting_is_read_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    call, x = made(N), operand(N)
    pool = threads._the_pool()
    assert pool is not None
    limit = ctypes.c_int64.from_address(pool.address + threads.LIMIT)
    for n in (1, 3, 2):
        with funcad.config.set(threads=n):
            call(x)
            assert limit.value == n - 1
    monkeypatch.setattr(batches.os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    with funcad.config.set(threads=None):
        call(x)
        assert limit.value == 1


def test_threads_that_cannot_be_had_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    call, x = made(N), operand(N)
    with funcad.config.set(threads=1):
        expected = call(x)
    pool = threads._the_pool()
    assert pool is not None
    monkeypatch.setattr(pool, "create", lambda *args: 11)
    with funcad.config.set(threads=50):
        assert same(call(x), expected)
    assert threads.helpers() < 49


def test_without_posix_threads_kernels_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_the_pool", lambda: None)
    with funcad.config.set(threads=1):
        expected = made(N)(operand(N))
    assert same(made(N)(operand(N)), expected)


def python(code: str) -> str:
    return in_a_process(SETUP + code, strict=True)


def test_a_forked_child_has_a_pool_of_its_own() -> None:
    code = """
pid = os.fork()
if pid == 0:
    assert threads.helpers() == 0
    ok = same(call(x)) and threads.helpers() == 2
    sys.exit(0 if ok else 1)
print(os.waitpid(pid, 0)[1], same(call(x)), threads.helpers())
"""
    assert python(code).split() == ["0", "True", "2"]


def test_a_child_forked_during_a_job_has_a_pool_of_its_own() -> None:
    code = """
stop = threading.Event()
def work():
    while not stop.is_set():
        call(x)
worker = threading.Thread(target=work); worker.start()
states = []
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        ok = same(call(x)) and same(call(x))
        os._exit(0 if ok else 1)
    states.append(os.waitpid(pid, 0)[1])
stop.set(); worker.join()
print(set(states))
"""
    assert python("import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n" + code).strip() == "{0}"


@pytest.mark.slow
def test_the_end_is_clean() -> None:
    """Also while a daemon thread is inside a kernel, and when a kernel is called after the pool was closed."""
    code = """
import atexit
def late():
    print(same(call(x)))
threads._pool[0].close()
late()
"""
    assert python(code).strip() == "True"
    python(
        "threading.Thread(target=lambda: [call(x) for _ in range(10**6)], daemon=True).start()\nimport time; time.sleep(.05)"
    )
    python("")


def test_helpers_take_no_signals() -> None:
    code = """
import signal
seen = []
signal.signal(signal.SIGUSR1, lambda *a: seen.append(threading.current_thread() is threading.main_thread()))
for _ in range(20):
    os.kill(os.getpid(), signal.SIGUSR1)
    call(x)
print(seen == [True] * 20)
"""
    assert python(code).strip() == "True"
