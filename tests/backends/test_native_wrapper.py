"""The built-in that calls a native program: what it accepts, what it gives, and that it leaks nothing."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import funcad
from funcad.backends.native import target, wrapper
from funcad.backends.native.program import compile_program
from funcad.passes.pipeline import optimize
from tests.forked import in_a_child, needs_fork

pytestmark = pytest.mark.skipif(not target.available(), reason=str(target.why_not()))
native_calls = pytest.mark.skipif(not wrapper.available(), reason=str(wrapper.why_not()))


def compiled(f, *args):
    return compile_program(optimize(funcad.jit(f).lower(*args).jaxpr))


def pair(f, *args):
    program = compiled(f, *args)
    assert program.fast is not None
    return program, program.fast


@native_calls
def test_scalars_come_back_as_numpy_scalars():
    program, fast = pair(lambda x: x * 2.0 + 1.0, np.float64(3.0))
    for result in (fast(np.float64(3.0)), fast(np.array(3.0)), program([np.float64(3.0)])[0]):
        assert type(result) is np.float64 and result == 7.0


@native_calls
@pytest.mark.parametrize("dtype", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16"])
def test_every_dtype_goes_in_and_out(dtype):
    one = np.dtype(dtype).type(1)
    _, fast = pair(lambda x, y: (funcad.numpy.where(x == x, x, x), y[::-1]), one, np.array([0, 1, 1], dtype))
    scalar, array = fast(one, np.array([0, 1, 1], dtype))
    assert type(scalar) is type(one) and scalar == one
    assert array.dtype == np.dtype(dtype) and array.tolist() == np.array([1, 1, 0], dtype).tolist()


@native_calls
def test_python_numbers_stay_python_numbers():
    _, fast = pair(lambda x: x * 2.0, 3.0)
    assert type(fast(3.0)) is float and fast(3.0) == 6.0
    assert fast(np.float64(3.0)) is NotImplemented
    assert fast(3) is NotImplemented
    _, fast = pair(lambda n, b, z: (n + 1, b, z, funcad.numpy.where(b, 1.0, 2.0)), 3, True, 1j)
    n, b, z, chosen = fast(3, False, 2j)
    assert (n, b, z) == (4, False, 2j) and type(n) is int and type(chosen) is np.float64 and chosen == 2.0
    assert fast(True, True, 1j) is NotImplemented  # a bool is not an int here
    assert fast(2**63 - 1, True, 1j) is NotImplemented  # the sum leaves int64: Python's business
    assert fast(2**70, True, 1j) is NotImplemented


@native_calls
def test_python_integers_that_grow_large_are_left_to_the_reference():
    program = compiled(lambda n: n * n, 3)
    assert program([2**40]) == [2**80]


@native_calls
def test_what_is_not_as_expected_is_refused():
    x = np.arange(6.0).reshape(2, 3)
    _, fast = pair(lambda x: x + 1.0, x)

    class Other(np.ndarray):
        pass

    assert np.array_equal(fast(x), x + 1.0)
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float64).reshape(2, 3)
    refused = [x.astype(np.float32), x.astype(">f8"), x[:1], x.ravel(), np.asfortranarray(x), x.view(Other), unaligned]
    for bad in [*refused, [[1.0]], 1.0, None, np.float64(1)]:
        assert fast(bad) is NotImplemented
    assert fast() is NotImplemented and fast(x, x) is NotImplemented


@native_calls
def test_arrays_in_another_order_are_computed_and_then_compiled_for():
    x = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    program, fast = pair(lambda x: np.sin(x) @ x.T, np.ascontiguousarray(x))
    expected = np.sin(x) @ x.T
    assert fast(x) is NotImplemented
    for _ in range(3):
        np.testing.assert_allclose(program([x])[0], expected, rtol=1e-14)
    np.testing.assert_allclose(fast(x), expected, rtol=1e-14)  # now it knows
    np.testing.assert_allclose(fast(np.ascontiguousarray(x)), expected, rtol=1e-14)
    backwards = np.arange(6.0).reshape(2, 3)[::-1, ::-1]
    for _ in range(3):
        np.testing.assert_allclose(program([backwards])[0], np.sin(backwards) @ backwards.T, rtol=1e-14)
    broadcast = np.broadcast_to(np.arange(3.0), (2, 3))
    for _ in range(3):
        np.testing.assert_allclose(program([broadcast])[0], np.sin(broadcast) @ broadcast.T, rtol=1e-14)
    for columns in range(4, 12):  # there is an end to it
        strided = np.ones((2, 3 * columns))[:, ::columns]
        for _ in range(3):
            program([strided])
    assert len(fast.__self__.plans) <= 4


@native_calls
def test_results_are_fresh_and_what_passes_through_is_itself():
    x = np.arange(3.0)
    _, fast = pair(lambda x: (x, x + 1.0, x + 1.0, 2.5), x)
    same, first, second, constant = fast(x)
    assert same is x and constant == 2.5 and type(constant) is float
    assert first.flags.owndata and first.flags.writeable and first.flags.c_contiguous
    first[0] = 9.0
    assert fast(x)[1][0] == 1.0
    assert np.array_equal(second, first) or second is not first


@native_calls
def test_nothing_leaks():
    x, y, s = np.arange(6.0), np.arange(12.0).reshape(3, 4), np.float64(2.0)
    program, fast = pair(lambda x, y, s, f: (x * 2, y @ y.T, s * f, f * 2.0, x, 1.5), x, y, s, 3.0)
    f8 = np.dtype(float)
    watched = [x, y, s, f8, None, True, NotImplemented, np.ndarray, np.float64, fast]
    big = 1000.5

    def counts():
        return [sys.getrefcount(o) for o in watched]

    def many(n):
        for _ in range(n):
            fast(x, y, s, big)
            fast(x, y, s)
            fast(x, y, y, big)
            fast(x[::2], y, s, big)

    many(100)
    gc.collect()
    before = counts()
    tracemalloc.start()
    many(10)
    start = tracemalloc.get_traced_memory()[0]
    many(25_000)
    grown = tracemalloc.get_traced_memory()[0] - start
    tracemalloc.stop()
    assert counts() == before
    assert grown < 2000


@native_calls
def test_plans_and_working_memory_are_freed():
    import weakref

    def make():
        program = compiled(lambda y: y @ (y @ y) @ y, np.ones((20, 20)))
        program([np.ones((20, 20))])
        fast = program.fast
        plan = weakref.ref(program.plan)
        del program
        gc.collect()
        np.testing.assert_allclose(fast(np.ones((20, 20))), np.full((20, 20), 8000.0))  # alive without the program
        assert plan() is not None
        return plan

    plan = make()
    gc.collect()
    assert plan() is None


@native_calls
def test_no_memory_raises_and_leaks_nothing():
    huge = 1 << 46
    program = compiled(lambda x: (x + 1.0, funcad.numpy.broadcast_to(x, (3,)) * 2.0), np.float64(1.0))
    plan = program.plan.view(np.ndarray)
    where = int(np.flatnonzero(plan == 3)[-1])  # the only extent: pretend that it is huge
    s = np.float64(1.0)
    before = sys.getrefcount(s)
    plan[where] = huge
    for _ in range(100):
        with pytest.raises(MemoryError):
            program.fast(s)
    assert sys.getrefcount(s) == before
    plan[where] = 3
    assert program.fast(s)[1].tolist() == [2.0, 2.0, 2.0]


def test_by_ctypes_the_same():
    x, s = np.arange(6.0).reshape(2, 3), np.float64(0.5)
    program = compiled(lambda x, s, f, n: (x.T @ x, s * 2, f * 2.0, x, n, np.sum(x) > 3), x, s, 2.0, 3)
    fast, program.fast = program.fast, None
    for values in ([x, s, 2.0, 3], [np.asfortranarray(x), np.array(0.5), 2.0, 3]):
        found = program(values)
        np.testing.assert_array_equal(found[0], x.T @ x)
        assert [type(v) for v in found[1:]] == [np.float64, float, np.ndarray, int, np.bool_]
        assert found[1] == 1.0 and found[2] == 4.0 and found[3] is values[0] and found[5]
    program.fast = fast


def test_threads_share_a_program():
    x = np.random.default_rng(0).normal(size=(24, 24))
    program = compiled(lambda x: np.tanh(x @ x) @ np.sin(x), x)
    inputs = [x * (i + 1) / 8 for i in range(8)]
    expected = [program([v])[0] for v in inputs]
    wrong = []

    def work(i):
        for _ in range(300):
            if not np.array_equal(program([inputs[i]])[0], expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@needs_fork
def test_a_forked_process_can_call_and_compile():
    x = np.arange(4.0)
    program = compiled(lambda x: x * 2.0, x)
    program([x])

    def check():
        again = compiled(lambda x: x * 3.0, x)
        assert np.array_equal(program([x])[0], x * 2) and np.array_equal(again([x])[0], x * 3)

    in_a_child(check)()


def test_the_layout_is_examined_before_use(monkeypatch):
    monkeypatch.setattr(wrapper, "_verdict", [])
    monkeypatch.setattr(wrapper, "NDIM", wrapper.DATA)
    assert "NumPy arrays" in wrapper.why_not()
    monkeypatch.setattr(wrapper, "_verdict", [])
    monkeypatch.setattr(wrapper, "PYTHONS", ((3, 1), (3, 2)))
    assert "Python" in wrapper.why_not()
    program = compiled(lambda x: x + 1.0, np.ones(2))
    assert program.fast is None and program([np.ones(2)])[0].tolist() == [2.0, 2.0]
