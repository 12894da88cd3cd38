"""Pooled memory and worker threads: nothing is reused while somebody can see it; limits; threads; forks."""

from __future__ import annotations

import gc
import mmap
import threading
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.backends import buffers
from funcad.backends.batches import _executor, parallel, thread_count
from funcad.backends.buffers import LARGE, drain, empty, pooled_bytes
from funcad.configuration import config
from tests.forked import in_a_child, needs_fork

N = LARGE // 8 * 9 // 8  # elements that fill a block


@pytest.fixture(autouse=True)
def clean() -> Any:
    gc.collect()
    drain()
    yield
    drain()


def address(x: np.ndarray) -> int:
    return int(x.__array_interface__["data"][0])


class Kind(np.ndarray):
    pass


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x[3:5],
        lambda x: x.reshape(-1, 1)[::2].T,
        lambda x: x.view(Kind)[1:],
        memoryview,
        lambda x: np.asarray(memoryview(x)),
        lambda x: np.broadcast_to(x, (2, N)),
        lambda x: x.view(np.uint8),
        lambda x: np.lib.stride_tricks.as_strided(x, (2,), (8,)),
        lambda x: iter(x),
    ],
)
def test_memory_is_free_when_its_last_view_is_gone(view: Any) -> None:
    x = empty((N,), np.float64)
    x[:] = 7.0
    where = address(x)
    kept = view(x)
    del x
    gc.collect()
    assert pooled_bytes() == 0
    y = empty((N,), np.float64)
    assert address(y) != where
    y[:] = 0.0
    del y, kept
    gc.collect()
    assert pooled_bytes() == 2 * 8 * N
    assert {address(z) for z in (empty((N,), np.float64), empty((N,), np.float64))} >= {where}


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="no huge pages here")
def test_large_blocks_are_whole_huge_pages() -> None:
    """Others have small pages at both ends, or everywhere, and the processor looks their addresses up more often."""
    for size in (buffers.LARGE, buffers.HUGE - 8, buffers.HUGE, 3_200_000, 80_000_000):
        x = empty((size // 8,), np.float64)
        while not isinstance(x, mmap.mmap):
            x = x.base
        assert len(x) <= size * 9 // 8 if size < buffers.HUGE else len(x) == -(-size // buffers.PAGE) * buffers.PAGE
        assert 3 * len(x) <= 4 * size


def test_small_arrays_and_other_sizes_are_not_pooled() -> None:
    x = empty((10,), np.float32)
    assert x.flags.owndata and x.dtype == np.float32
    y = empty((N,), np.float64)
    where = address(y)
    del y
    z = empty((N + 8,), np.float64)
    assert address(z) != where and z.flags.c_contiguous and z.flags.writeable
    assert empty((0, N), np.float64).shape == (0, N)


def test_the_limit_is_kept() -> None:
    with config.set(pool_bytes=3 * 8 * N):
        held = [empty((N,), np.float64) for _ in range(10)]
        del held
        assert pooled_bytes() == 3 * 8 * N
        other = [empty((2 * N,), np.float64)]
        del other
        assert pooled_bytes() <= 3 * 8 * N
    with config.set(pool_bytes=0):
        assert empty((N,), np.float64).flags.owndata


def test_threads_share_the_pool() -> None:
    failed: list[Any] = []

    def work(k: int) -> None:
        for i in range(50):
            xs = [empty((N + 8 * (i % 3),), np.float64) for _ in range(3)]
            for x in xs:
                x[:] = k
            if not all(np.all(x == k) for x in xs):
                failed.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


@needs_fork
def test_a_forked_child_has_memory_and_threads_of_its_own() -> None:
    def shares(low: int, high: int) -> int:
        return high - low

    with config.set(threads=2):
        parallel(shares, 100, 10)
        x = empty((N,), np.float64)
        x[:] = 1.0
        y = empty((N,), np.float64)
        y[:] = 2.0
        del y

        def check() -> None:
            z = empty((N,), np.float64)
            z[:] = 3.0
            assert sum(parallel(shares, 100, 10)) == 100 and np.all(x == 1.0) and np.all(z == 3.0)

        in_a_child(check)()
        assert np.all(x == 1.0) and pooled_bytes() == 8 * N


def test_shares_are_whole_tiles_in_order() -> None:
    with config.set(threads=3):
        assert thread_count() == 3
        shares = parallel(lambda low, high, name: (low, high, name), 1001, 100, "a")
        assert [s[:2] for s in shares] == [(0, 300), (300, 700), (700, 1001)]
        assert parallel(lambda low, high: (low, high), 5, 100) == [(0, 5)]
    with config.set(threads=1):
        assert parallel(lambda low, high: threading.current_thread(), 1001, 100) == [threading.current_thread()]


def test_a_share_that_no_thread_has_begun_is_not_waited_for() -> None:
    here, go_on = threading.current_thread(), threading.Event()
    with config.set(threads=2):
        parallel(lambda low, high: None, 100, 10)
        held = _executor(1).submit(go_on.wait, 60.0)  # as if the other thread had no core
        try:
            found = parallel(lambda low, high: (low, high, threading.current_thread()), 100, 10)
        finally:
            go_on.set()
        assert found == [(0, 50, here), (50, 100, here)] and held.result()
        begun = threading.Event()  # and one that has begun is
        found = parallel(lambda low, high: (begun.set() if low else begun.wait(60.0), threading.current_thread())[1], 100, 10)
        assert found[0] is here and found[1] is not here


def test_errors_and_the_error_mode_reach_the_threads() -> None:
    def fails(low: int, high: int) -> None:
        if low:
            raise ValueError(f"at {low}")

    def quiet(low: int, high: int) -> Any:
        return np.log(np.zeros(3)), np.geterr()["divide"]

    with config.set(threads=2):
        with pytest.raises(ValueError, match="at 50"):
            parallel(fails, 100, 10)
        with np.errstate(divide="ignore"):
            assert [mode for _, mode in parallel(quiet, 100, 10)] == ["ignore"] * 2


def test_results_of_jitted_functions_belong_to_the_user() -> None:
    with config.set(engine="numpy"):
        f = funcad.jit(lambda x: np.sin(x) + x * x)
        x = np.arange(float(N))
        results = [f(x + i) for i in range(6)]
        for i, r in enumerate(results):
            np.testing.assert_allclose(r, np.sin(x + i) + (x + i) ** 2)
            r[:] = np.nan
        np.testing.assert_allclose(f(x), np.sin(x) + x * x)
        assert buffers.pool_limit() >= 0


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="no huge pages here, so blocks are not rounded")
def test_blocks_of_whole_huge_pages_serve_arrays_of_about_the_same_size() -> None:
    """A batch with a few rows less does not touch fresh memory."""
    x = empty((4096, 1000), np.float64)
    place = address(x)
    del x
    assert pooled_bytes() % buffers.PAGE == 0
    y = empty((4090, 1000), np.float64)
    assert address(y) == place and pooled_bytes() == 0
    y[...] = 1.0
    del y
    z = empty((2000, 1000), np.float64)
    assert address(z) != place and pooled_bytes() > 0
