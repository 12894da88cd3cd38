"""Derivatives of while loops as native code: lists that grow, read back in either direction, and given back afterwards."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest

from tests.agreement import assert_agree

pytest.importorskip("llvmlite")

import funcad
from funcad import tree
from funcad.backends import engines
from funcad.backends.interpreter import Program
from funcad.backends.native import growing, target
from funcad.backends.native.program import compile_program
from funcad.backends.plans.element_plan import Unsupported
from funcad.passes.pipeline import optimize

pytestmark = pytest.mark.skipif(not target.available(), reason=str(target.why_not()))


def native(f, *args, ulps=64, scale=64.0):
    """The program as native code, after it has agreed with the reference."""
    lowered = funcad.jit(f).lower(*args)
    values = [*lowered._entry.consts, *tree.leaves(args)]
    expected = Program(lowered.jaxpr).run(list(values))
    program = compile_program(optimize(lowered.jaxpr))
    for _ in range(2):
        for found, wanted in zip(program(values), expected, strict=True):
            assert_agree(found, wanted, ulps=ulps, scale=scale)
    return program, values


def turns(step, n):
    """A loop of as many turns as the second argument says."""
    return lambda x, k=n: np.sum(funcad.while_loop(lambda c: c[0] < k, lambda c: (c[0] + 1, step(*c)), (0, x))[1])


STEPS = {
    "numbers": (lambda i, x: np.sin(x) * 1.01 + 0.1, np.float64(0.3)),
    "arrays": (lambda i, x: np.tanh(x * x - 0.5) + 0.1 * x[::-1], np.linspace(-1.0, 1.0, 5)),
    "single precision": (lambda i, x: np.cos(x) * np.float32(0.9), np.linspace(0, 1, 7, dtype=np.float32)),
    "a product": (lambda i, x: np.tanh(np.outer(x, x) @ x), np.linspace(0.1, 0.5, 4)),
    "complex numbers": (lambda i, x: x * x * 0.5 + 0.1j, np.array([0.1 + 0.2j, 0.3j])),
    "the turn itself": (lambda i, x: np.sin(x) * (i + 1.5), np.float64(0.2)),
    "a branch": (lambda i, x: funcad.cond(i < 3, np.sin, lambda x: x * x, x), np.float64(0.7)),
    "written elements": (lambda i, x: funcad.numpy.at(np.sin(x))[1].set(x[0] * x[2]), np.linspace(0.1, 0.5, 4)),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_reverse_mode_is_native(name, n):
    step, x = STEPS[name]
    f = turns(step, n)
    real = f if x.dtype.kind != "c" else lambda x, k: np.real(f(x, k))
    native(lambda x, k: funcad.grad(real)(x, k), x, np.int64(n))


@pytest.mark.share(3)
@pytest.mark.parametrize("name", ["numbers", "arrays", "the turn itself", "a branch"])
def test_second_derivatives_are_native(name):
    step, x = STEPS[name]
    f = turns(step, 6)
    native(lambda x: funcad.jvp(funcad.grad(f), (x,), (np.ones_like(x),)), x)
    native(funcad.grad(lambda x: np.sum(funcad.jvp(f, (x,), (np.ones_like(x),))[1])), x)
    native(funcad.grad(lambda x: np.sum(funcad.grad(f)(x) * x)), x)


def test_room_grows():
    n = 100 * growing.FIRST
    f = lambda x, k: funcad.while_loop(lambda c: c[0] < k, lambda c: (c[0] + 1, c[1] + np.sin(c[1]) * 1e-7), (0, x))[1]
    program, _ = native(funcad.grad(f), np.float64(0.3), np.int64(10))
    slope = program([np.float64(0.3), np.int64(n)])[0]
    loop = lambda x: funcad.fori_loop(0, n, lambda i, x: x + np.sin(x) * 1e-7, x)
    np.testing.assert_allclose(slope, funcad.grad(loop)(np.float64(0.3)), rtol=1e-12)


def test_two_loops_and_the_values_that_they_share():
    def f(x):
        i, y = funcad.while_loop(lambda c: c[1] < 30.0, lambda c: (c[0] + 1, c[1] * x + 0.1), (0, x))
        j, z = funcad.while_loop(lambda c: c[0] < i + 3, lambda c: (c[0] + 1, np.sin(c[1]) * y), (0, y))
        return z * y

    native(funcad.value_and_grad(f), np.float64(1.7))


def test_examples_that_stop_at_different_times():
    f = lambda x: funcad.while_loop(lambda c: c < 30.0, lambda c: c * x + 0.1, x)
    native(funcad.vmap(funcad.grad(f)), np.array([1.3, 1.7, 40.0, 2.5]))


def test_a_loop_in_a_branch_and_in_a_loop_say_why_they_are_not_native():
    inner = lambda x: funcad.while_loop(lambda c: c < 30.0, lambda c: c * x + 0.1, x)
    for f in (
        lambda x: funcad.cond(x > 0, inner, lambda x: x, x),
        lambda x: funcad.fori_loop(0, 3, lambda i, x: np.log(inner(x)), x),
    ):
        g, x = funcad.grad(f), np.float64(1.7)
        with pytest.raises(Unsupported, match="while_loop"):
            compile_program(optimize(funcad.jit(g).lower(x).jaxpr))
        jitted = funcad.jit(g)
        for _ in range(3):
            np.testing.assert_allclose(jitted(x), g(x), rtol=1e-12)


def test_memory_is_given_back():
    program, values = native(funcad.grad(turns(*STEPS["arrays"][:1], 20_000)), STEPS["arrays"][1])
    tracemalloc.start()
    try:
        for _ in range(3):
            program(values)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20):
            program(values)
        assert tracemalloc.get_traced_memory()[0] - before < 100_000  # a run takes more than a megabyte
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory_is_given_back_when_the_program_leaves():
    table = np.linspace(0.1, 0.9, 20_000)

    def f(x, k):
        step = lambda c: (c[0] + 1, np.sin(c[1]) + funcad.numpy.take(table, c[0]))
        return funcad.while_loop(lambda c: c[0] < k, step, (0, x))[1]

    g = funcad.jit(funcad.grad(f))
    for _ in range(3):
        g(np.float64(0.3), np.int64(20_000))
    gc.disable()  # neither the program nor the error that it raises waits for the collector
    tracemalloc.start()
    try:
        for i in range(6):
            try:
                g(np.float64(0.3), np.int64(20_001))
            except IndexError:
                pass
            else:
                pytest.fail("it reads past the table's end")
            if i == 2:
                before = tracemalloc.get_traced_memory()[0]
        assert tracemalloc.get_traced_memory()[0] - before < 100_000
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.parametrize("name", STEPS)
def test_without_jit_the_lists_go_from_program_to_program(name, monkeypatch):
    step, x = STEPS[name]
    monkeypatch.setattr(engines, "LONG_LOOP", 250)
    monkeypatch.setattr(engines, "WHEN_LOADED", 1)
    monkeypatch.setattr(engines, "TIER_UP_RUNS", 0)  # native code does not wait
    f = turns(step, 7)
    real = f if x.dtype.kind != "c" else lambda x: np.real(f(x))
    taken = []
    hand = growing.taken_over
    monkeypatch.setattr(growing, "taken_over", lambda words, aval: taken.append(aval) or hand(words, aval))
    first = funcad.grad(real)(x)  # by the reference, a step at a time
    assert not taken
    for _ in range(3):
        assert_agree(funcad.grad(real)(x), first, ulps=64, scale=64.0)
    assert taken


def test_a_pullback_reads_its_lists_again():
    f = turns(*STEPS["arrays"][:1], 9)
    x = STEPS["arrays"][1]
    slope = funcad.jit(funcad.grad(f))(x)
    for _ in range(3):
        _, pullback = funcad.vjp(f, x)
        for scale in (1.0, 2.0, 3.0):
            np.testing.assert_allclose(pullback(scale)[0], scale * slope, rtol=1e-13)


def test_second_derivatives_without_jit():
    f = turns(*STEPS["arrays"][:1], 5)
    x = STEPS["arrays"][1]
    wanted = funcad.jit(funcad.hessian(f))(x)
    for _ in range(4):
        np.testing.assert_allclose(funcad.hessian(f)(x), wanted, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(funcad.jacfwd(funcad.grad(f))(x), wanted, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(funcad.jacrev(funcad.grad(f))(x), wanted, rtol=1e-12, atol=1e-14)


def test_a_loop_that_is_not_run_gives_empty_lists():
    f = turns(*STEPS["arrays"][:1], 0)
    x = STEPS["arrays"][1]
    for k in (3, 0, 0, 0, 4, 0):
        found = funcad.grad(f)(x, k)
        if k == 0:
            np.testing.assert_array_equal(found, np.ones(5))


def test_entries_are_what_they_were():
    """Numbers of Python's stay Python's, and an entry is a value of its own."""
    aval = funcad.ir.aval.StackAval(funcad.ir.aval.Aval((), np.dtype(float), True))
    none = growing.taken_over(np.zeros(2, np.int64), aval)
    assert list(none) == [] and growing.packed(none, aval.element) is None
    some = funcad.ir.aval.Stack([1.5, 2.5], aval)
    np.testing.assert_array_equal(growing.packed(some, aval.element), [1.5, 2.5])
    assert growing.packed(some, aval.element) is growing.packed(some, aval.element)


def test_an_error_in_the_loop_without_jit():
    table = np.linspace(0.1, 0.9, 50)
    step = lambda i, x: np.sin(x) + funcad.numpy.take(table, i)
    f = turns(step, 50)
    for k in (50, 50, 50, 51, 50, 51, 51):
        if k == 51:
            with pytest.raises(IndexError):
                funcad.grad(f)(np.float64(0.3), k)
        else:
            funcad.grad(f)(np.float64(0.3), k)
