"""scan, while_loop and cond as native loops agree with the reference, and can be interrupted."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

from tests.agreement import assert_agree

pytest.importorskip("llvmlite")

import funcad
import funcad.numpy as fnp
from funcad import tree
from funcad.backends.interpreter import Program
from funcad.backends.native import target
from funcad.backends.native.program import compile_program
from funcad.backends.plans.element_plan import Unsupported
from funcad.passes.pipeline import optimize

pytestmark = [pytest.mark.group("alone"), pytest.mark.skipif(not target.available(), reason=str(target.why_not()))]


def check(f, *args, scale=64.0, ulps=64, plain=True):
    """The native program against the reference; before and after the passes."""
    lowered = funcad.jit(f).lower(*args)
    values = [*lowered._entry.consts, *tree.leaves(args)]
    expected = Program(lowered.jaxpr).run(list(values))
    for jaxpr in (optimize(lowered.jaxpr), *([lowered.jaxpr] if plain else [])):
        program = compile_program(jaxpr)
        for _ in range(2):
            for found, wanted in zip(program(values), expected, strict=True):
                assert_agree(found, wanted, ulps=ulps, scale=scale)
    return program


def vector(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_scalar_carry_and_rows():
    check(lambda x: funcad.scan(lambda c, v: (c * 0.9 + v, (c, c * v)), 0.0, x), vector(37))
    check(lambda x: funcad.scan(lambda c, v: (c * 0.9 + v, (c, c * v)), np.float64(2.0), x, reverse=True), vector(37))


@pytest.mark.parametrize("length", [0, 1, 2, 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_array_carries_of_every_kind(length, reverse):
    def body(carry, x):
        a, b, c, d, e = carry
        new = np.tanh(a + x)
        return (new, a, c, d + np.sum(x), b * 0.5), (new, b, d, x)

    init = (vector(3), vector(3, seed=1), vector(2), np.float64(0.5), vector(3, seed=2))
    check(lambda init, xs: funcad.scan(body, init, xs, reverse=reverse), init, vector(length, 3))


def test_carries_that_change_places():
    check(lambda a, b: funcad.scan(lambda c, _: ((c[1], c[0], c[2].T), None), (a, b, a), None, length=3), *[vector(3, 3)] * 2)


def test_initial_carry_is_not_written():
    start, kept = vector(4), vector(4)
    check(lambda s, x: funcad.scan(lambda c, v: (c + v, None), s, x)[0], start, vector(6, 4))
    assert np.array_equal(start, kept)


def test_nested_scans():
    def inner(c, v):
        return c + v * np.sin(c), c

    def outer(c, row):
        last, ys = funcad.scan(inner, c, row)
        return last * 0.5, (ys, np.sum(ys))

    check(lambda x: funcad.scan(outer, np.float64(0.1), x), vector(4, 5))
    check(lambda x: funcad.scan(lambda c, y: (funcad.scan(lambda d, z: (d @ c + z, None), c, y)[0], c), np.eye(3), x),
          0.1 * vector(2, 4, 3, 3))  # fmt: skip


def test_recurrent_network_and_its_gradient():
    def loss(p, xs):
        wx, wh, b = p
        h, ys = funcad.scan(lambda h, x: ((y := np.tanh(x @ wx + h @ wh + b)), np.sum(y)), np.zeros((8, 16)), xs)
        return np.sum(h * h) + np.sum(ys)

    params = vector(4, 16) / 4, vector(16, 16) / 8, vector(16)
    check(funcad.value_and_grad(loss), params, vector(20, 8, 4), scale=1e4)
    vector_state = lambda p, xs: funcad.scan(lambda h, x: (np.tanh(p[0] @ h + x), None), np.zeros(16), xs)[0]
    check(vector_state, (params[1],), vector(30, 16), scale=1e3)
    check(funcad.grad(lambda p, xs: np.sum(vector_state(p, xs))), (params[1],), vector(30, 16), scale=1e4)


def test_second_derivative_of_a_scan():
    f = lambda x: funcad.scan(lambda c, v: (np.sin(c) * v + x[0], None), x[1], x)[0]
    check(funcad.hessian(f), vector(4), scale=1e3, plain=False)


def test_integer_and_bool_carries():
    def body(c, x):
        n, flag, m = c
        return (n + 1, ~flag, np.where(flag, m, n)), (n * x, flag)

    check(lambda xs: funcad.scan(body, (np.int32(0), np.array(True), np.int32(5)), xs), np.arange(7, dtype=np.int32))
    check(lambda xs: funcad.scan(lambda n, x: (n + 1, x * n), 0, xs), vector(5))


def test_while_loops():
    check(lambda x: funcad.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, np.sin(c[1]) + c[0]), (0, x)), vector(3))
    check(lambda x: funcad.while_loop(lambda c: np.sum(c * c) > 1e-3, lambda c: c * 0.7, x), vector(5))
    check(lambda x: funcad.while_loop(lambda c: c > 1.0, lambda c: c / 2, x), 0.5)  # no iteration
    newton = lambda a: funcad.while_loop(lambda y: np.abs(y * y - a) > 1e-12, lambda y: (y + a / y) / 2, a)
    check(newton, np.float64(7.0))
    check(funcad.vmap(newton), np.array([1.0, 2.0, 9.0, 1e4]))


def test_while_in_while():
    def outer(c):
        i, y = c
        _, y = funcad.while_loop(lambda d: d[0] < i, lambda d: (d[0] + 1, np.cos(d[1]) + d[1]), (0, y))
        return i + 1, y * 0.9

    check(lambda x: funcad.while_loop(lambda c: c[0] < 5, outer, (0, x)), vector(3))


def test_python_integers_without_bounds():
    check(lambda n: funcad.while_loop(lambda c: c[0] < 70, lambda c: (c[0] + 1, c[1] * 2), (0, n))[0], 1)
    lowered = funcad.jit(lambda n: funcad.fori_loop(0, 70, lambda i, c: c * 2, n)).lower(1)
    assert compile_program(optimize(lowered.jaxpr))([1])[0] == Program(lowered.jaxpr).run([1])[0]


def test_branches():
    f = lambda x, a: funcad.cond(a > 0.0, lambda: (x * a, a), lambda: (x[::-1] - a, np.sum(x)))
    for a in (0.5, -0.5, np.nan):
        check(f, vector(5), np.float64(a))
    for i in (-3, 0, 1, 2, 9):
        check(lambda x, i: funcad.switch(i, [np.sin, lambda y: y * y, lambda y: y], x), vector(4), i)
        check(lambda x, i: funcad.switch(i, [np.sin, lambda y: y * y, lambda y: y], x), np.float64(0.3), i)
    check(funcad.vmap(lambda x, a: funcad.cond(a > 0.0, np.sqrt, np.negative, x)), np.abs(vector(6)), vector(6, seed=1))
    loop = lambda x: funcad.scan(lambda c, v: (funcad.cond(v > 0, lambda: c + v, lambda: c * 0.5), c), x[0], x)
    check(loop, vector(9))
    check(funcad.grad(lambda x: loop(x)[0]), vector(9), plain=False)


def test_computed_slices_and_updates_in_a_loop():
    def body(i, x):
        row = funcad.lax.dynamic_slice(x, (i, 0), (1, 3))
        return funcad.lax.dynamic_update_slice(x, row * 2.0 + i, (i + 1, 0))

    check(lambda x: funcad.fori_loop(0, 4, body, x), vector(6, 3))
    check(lambda x, i: funcad.scan(lambda c, k: (fnp.at(c)[k].add(c[k - 1]), x[k]), x, i), vector(5), np.array([1, 4, -1, 0]))


def test_index_out_of_bounds_raises_as_numpy_does():
    f = lambda x, i: funcad.scan(lambda c, k: (c + x[k], None), 0.0, i)[0]
    x, good, bad = vector(3), np.array([0, 2, -3]), np.array([0, 3, 1])
    program = check(f, x, good)
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        program([x, bad])
    if program.fast is not None:
        assert program.fast(x, bad) is NotImplemented


def test_nan_and_infinities_go_round():
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e308, 5e-324])
    check(lambda x: funcad.scan(lambda c, v: (np.maximum(c, v), (c + v, c * v, np.minimum(c, v))), -np.inf, x), x)
    check(lambda x: funcad.scan(lambda c, v: (c * v, c / v), x, x), x)


def test_complex_and_single_precision():
    z = vector(6) + 1j * vector(6, seed=1)
    check(lambda z: funcad.scan(lambda c, v: (c * v + 1j, c.real), z[0], z), z)
    x = vector(6, 4).astype(np.float32)
    check(lambda x: funcad.scan(lambda c, v: (np.tanh(c + v) @ np.ones((4, 4), np.float32) * 0.2, c), x[0], x), x)


def test_empty_bodies_and_empty_arrays():
    check(lambda x: funcad.scan(lambda c, v: (c, v), np.zeros((0, 2)), x), np.zeros((3, 0)))
    check(lambda x: funcad.scan(lambda c, v: (c + np.sum(v), v * 2), 0.0, x), np.zeros((3, 0)))


def test_long_loops_are_compiled():
    n = 300_000
    f = lambda x: funcad.scan(lambda c, v: (c * 0.5 + v, c), 0.0, x)
    x = vector(n)
    program = compile_program(optimize(funcad.jit(f).lower(x).jaxpr))
    last, ys = program([x])
    assert ys.shape == (n,) and abs(last - (ys[-1] * 0.5 + x[-1])) < 1e-12


def test_what_is_unsupported_says_why():
    inner = lambda x: funcad.while_loop(lambda c: c < 100.0, lambda c: c * x, x)
    f = funcad.grad(lambda x: funcad.fori_loop(0, 2, lambda i, x: np.log(inner(x)), x))
    with pytest.raises(Unsupported, match="while_loop"):
        compile_program(optimize(funcad.jit(f).lower(np.float64(2.0)).jaxpr))
    printing = lambda x: funcad.scan(lambda c, v: (funcad.debug.print("{}", v) or c, v), 0.0, x)
    with pytest.raises(Unsupported, match="effects"):
        compile_program(funcad.jit(printing).lower(vector(3)).jaxpr)


def _interrupted(program, values):
    """Seconds from Ctrl-C to KeyboardInterrupt."""
    sent = []

    def send():
        time.sleep(0.15)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        program(values)
    thread.join()
    return time.perf_counter() - sent[0]


@pytest.mark.share(2)
@pytest.mark.skipif(os.name == "nt", reason="signals of another kind")
@pytest.mark.parametrize("native", [True, False])
def test_endless_loops_can_be_interrupted(native):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # where tests run in the background, it is ignored
    try:
        _interrupt_endless_loops(native)
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt_endless_loops(native):
    forever = [
        lambda x: funcad.while_loop(lambda c: c > 0, lambda c: c + 0.0, x),
        lambda x: funcad.while_loop(lambda c: c > 0, lambda c: funcad.while_loop(lambda d: d > 0, lambda d: d + 0.0, c), x),
        lambda x: funcad.scan(lambda c, _: (np.sin(c), None), x, None, length=10**12)[0],
    ]
    for f in forever:
        jaxpr = optimize(funcad.jit(f).lower(np.float64(1.0)).jaxpr)
        program = compile_program(jaxpr)
        if not native:
            program.fast = None
        assert _interrupted(program, [np.float64(1.0)]) < 60.0  # at all


def test_other_threads_run_meanwhile():
    f = lambda x: funcad.while_loop(lambda c: c[0] < 3e7, lambda c: (c[0] + 1.0, c[1] * 1.0), (x, x))[0]
    program = compile_program(optimize(funcad.jit(f).lower(np.float64(1.0)).jaxpr))
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    program([np.float64(1.0)])
    end = time.perf_counter()
    done.set()
    thread.join()
    assert end - start < 0.01 or any(start < t < end for t in ticks)
