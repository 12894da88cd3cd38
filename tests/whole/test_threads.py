"""Transformations in several threads at once: every thread has its own traces, and shared functions stay right."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from funcad import grad, jit, jvp, vmap
from funcad.host.locks import _records
from tests.unseen import Noted, unseen

THREADS = 8
ROUNDS = 1000


def in_threads(work: Callable[[int], None], n: int = THREADS) -> None:
    """Run work(0), work(1), ... at once; re-raise the first error."""
    errors: list[BaseException] = []
    start = threading.Barrier(n)

    def run(i: int) -> None:
        try:
            start.wait()
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # as many interleavings as possible
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    if errors:
        raise errors[0]


@pytest.mark.slow
def test_nested_transformations_in_eight_threads() -> None:
    """Outer values, inner jvp: a perturbation of one thread must not meet another's."""

    def f(x: Any, a: float) -> Any:
        return x * jvp(lambda y: y * y * x * a, (x,), (1.0,))[1]  # 2 a x^3

    def work(i: int) -> None:
        a = 1.0 + i
        for k in range(ROUNDS):
            x = 0.5 + k % 7
            assert grad(f)(x, a) == 6 * a * x * x
            if k % 10 == 0:
                assert grad(grad(f))(x, a) == 12 * a * x

    in_threads(work)


def test_shared_jitted_functions() -> None:
    """Eight threads meet new signatures of the same function at the same time."""
    traced = Noted()

    @jit
    def f(x: Any) -> Any:
        traced.note(x.shape)
        return np.sum(x * x)

    def work(i: int) -> None:
        for k in range(ROUNDS // 10):
            x = np.full(1 + (k + i) % 5, 1.0 + i)
            assert f(x) == x.size * (1.0 + i) ** 2
            np.testing.assert_array_equal(grad(f)(x), 2 * x)
            np.testing.assert_array_equal(vmap(f)(np.stack([x, x])), [f(x), f(x)])

    in_threads(work)
    each = [(n,) for n in range(1, 6)]  # once for the function, once for its gradient
    assert sorted(traced) == sorted(each + each), "a signature was traced twice"


@pytest.mark.slow
def test_shared_captured_arrays_are_unlocked_in_the_end() -> None:
    shared = np.arange(20_000.0)  # large: locked while a derivative needs it

    def work(i: int) -> None:
        for _ in range(ROUNDS // 20):
            gradient = grad(lambda x: np.sum(x * shared * x))(shared)
            assert gradient[1] == 2.0
            assert jit(lambda x: np.sum(x * shared))(shared) > 0

    in_threads(work)
    assert shared.flags.writeable and id(shared) not in _records


def test_a_trace_of_one_thread_does_not_record_what_another_does() -> None:
    inside, done = threading.Event(), threading.Event()
    seen = []

    def other() -> None:
        inside.wait()
        seen.append(grad(lambda x: x * x)(3.0))
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    wait = unseen(lambda: (inside.set(), done.wait()))

    def f(x: Any) -> Any:
        y = x * 2.0
        wait()
        return y * x

    lowered = jit(f).lower(1.0)
    thread.join()
    assert seen == [6.0]
    assert len(lowered.jaxpr.equations) == 2


def test_a_traced_function_may_wait_for_a_thread_that_traces() -> None:
    double = jit(lambda x: 2.0 * x)

    @unseen
    def in_a_thread(f: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(f, 3.0).result(timeout=30)

    assert jit(lambda x: x + in_a_thread(double))(1.0) == 7.0
