"""What goes between processes: sums as one, one comparison for a program, the same at every run and however it runs."""

import gc
import threading

import numpy as np
import pytest

import funcad as fc
from funcad import distributed, lax
from funcad.configuration import config
from funcad.distributed import spmd
from funcad.distributed.communicator import Threads
from funcad.errors import CollectiveError
from tests.distributed.test_spmd import N, close, line_of, threads


@pytest.fixture
def messages(monkeypatch):
    """(collectives, comparisons) until now on the process that asks."""
    compared = threading.local()
    spread = Threads.spread

    def counting(self, numbers, where):
        compared.n = getattr(compared, "n", 0) + 1
        return spread(self, numbers, where)

    monkeypatch.setattr(Threads, "spread", counting)
    return lambda: (distributed.current().count, getattr(compared, "n", 0))


def runs(f, *args, times=4, messages):
    """The results of some runs, and what each sent."""
    found = []
    for _ in range(times):
        before = messages()
        out = f(*args)
        found.append((out, tuple(np.subtract(messages(), before))))
    return found


def three(x):
    a, b = lax.psum(np.sin(x), "i"), lax.psum(x * 2.0, "i")
    return a * b + lax.psum(np.cos(a), "i") - lax.psum(x[0], "i")


@pytest.mark.parametrize("engine", ["interpreter", "numpy", "native"])
def test_sums_that_do_not_need_each_other_are_one(messages, engine, monkeypatch):
    monkeypatch.setattr(config, "engine", engine)
    xs = np.random.default_rng(0).normal(size=(N, 4))
    wanted = fc.vmap(three, axis_name="i")(xs)

    def process(r):
        one_by_one = runs(spmd(three, "i"), xs[r], messages=messages)
        return one_by_one, runs(fc.jit(spmd(three, "i")), xs[r], messages=messages)

    for r, (un_jitted, jitted) in enumerate(threads(process)):
        close([out for out, _ in (*un_jitted, *jitted)], [wanted[r]] * 8, rtol=1e-12)
        assert [sent for _, sent in un_jitted] == [(4, 4)] * 4
        assert [sent for _, sent in jitted] == [(2, 1)] * 4  # both sums, then the two that follow; one comparison


def test_sums_that_need_each_other_or_are_large_or_of_other_dtypes_stay():
    def sent(f, *args):
        def process(r):
            fc.jit(spmd(f, "i"))(*args)
            return distributed.current().count

        return threads(process)[0]

    assert sent(lambda x: lax.psum(lax.psum(x, "i") * 2.0, "i"), 1.0) == 2
    assert sent(lambda x, y: (lax.psum(x, "i"), lax.psum(y, "i")), 1.0, np.float32(1)) == 2
    assert sent(lambda x: (lax.psum(x, "i"), lax.psum(x + 1.0, "i")), np.ones(10_000)) == 1
    assert sent(lambda x: (lax.psum(x, "i"), lax.psum(x + 1.0, "i"), lax.psum(x * 2.0, "i")), np.ones(140_000)) == 2
    assert sent(lambda x: (lax.psum(x, "i"), lax.pmax(x, "i"), lax.psum(x, "i")), 1.0) == 3
    assert sent(lambda x: (lax.psum(x, "i"), lax.psum(x + 1.0, "i"), lax.psum(x[:0], "i")), np.ones(5)) == 1


def test_the_gradient_by_many_parameters_is_one_sum(messages):
    def loss(p, x):
        return lax.pmean(np.sum(np.tanh(p["a"] * x + p["b"]) * p["c"]), "i")

    p = {"a": np.float64(0.5), "b": np.arange(3.0), "c": np.ones((2, 3))}
    xs = np.random.default_rng(1).normal(size=(N, 3))
    mapped = fc.vmap(loss, in_axes=(None, 0), axis_name="i")
    wanted = fc.grad(lambda p: mapped(p, xs)[0])(p)
    f = fc.jit(fc.grad(spmd(loss, "i", in_axes=(None, 0), out_axes=None)))
    for found in threads(lambda r: runs(f, p, xs[r], messages=messages)):
        close([out for out, _ in found], [wanted] * 4, rtol=1e-12)
        assert {sent for _, sent in found} == {(2, 1)}  # the loss's mean, the gradient


def test_a_loop_compares_once_and_a_loop_of_unknown_length_each_turn(messages):
    def scanned(x):
        return fc.scan(lambda c, _: (np.tanh(lax.psum(c, "i") + lax.pmax(c, "i")), None), x, None, length=5)[0]

    def looped(x):
        body = lambda s: (s[0] + 1, np.tanh(lax.psum(s[1], "i") + lax.pmax(s[1], "i")))
        return lax.psum(fc.while_loop(lambda s: s[0] < 5, body, (0, x))[1], "i")

    for f, sent in ((scanned, (10, 1)), (looped, (11, 6))):
        wanted = fc.vmap(f, axis_name="i")(np.arange(1.0, N + 1))
        for wrap in (fc.jit, lambda f: f, lambda f: fc.jit(lambda x: fc.jit(f)(x)), lambda f: fc.jit(fc.checkpoint(f))):
            for r, found in enumerate(threads(lambda r, f=f, wrap=wrap: runs(wrap(spmd(f, "i")), r + 1.0, messages=messages))):
                close([out for out, _ in found], [wanted[r]] * 4, rtol=1e-12)
                assert {s[0] for _, s in found} == {sent[0]}
                if wrap is fc.jit:
                    assert {s[1] for _, s in found} == {sent[1]}


def test_compiled_and_traced_anew_and_un_jitted_go_together():
    """One process has compiled the program long ago, one traces it now, one runs it un-jitted."""

    def body(x, y):
        return lax.psum(np.sum(x), "i") * lax.pmax(y, "i") - lax.psum(lax.pmean(y, "i") * np.sum(x), "i")

    f = spmd(body, "i")

    def process(r):
        g = fc.jit(f)
        found = []
        for i in range(6):
            n = i + 2 if r == 1 else 2  # other shapes each time on process 1, whose own they are
            call = f if r == 2 else g
            found.append(call(np.arange(float(n)), r + 1.0))
        return found

    found = threads(process)
    sums = [[1.0, float(sum(range(i + 2))), 1.0] for i in range(6)]
    for i, s in enumerate(sums):
        assert [found[r][i] for r in range(N)] == [sum(s) * 3.0 - 2.0 * sum(s)] * N


def test_guarded_programs_send_the_same_when_recorded_and_compiled(messages):
    @fc.jit
    def f(x):
        a, b = lax.psum(x, "i"), lax.psum(2.0 * x, "i")
        if a > 0:
            return lax.psum(a * x, "i") + lax.psum(b, "i")
        return a

    for found in threads(lambda r: runs(spmd(f, "i"), r + 1.0, times=5, messages=messages)):
        assert [out for out, _ in found] == [36.0 + 36.0] * 5
        assert {s[0] for _, s in found} == {4}


@pytest.mark.filterwarnings("ignore:the processes meet")  # as branches of one process do those of another
def test_one_process_that_knows_the_path_and_one_that_does_not():
    def process(r):
        @fc.jit
        def f(x, n):
            total = lax.psum(x, "i")
            if np.sum(n) > 100:  # decided by what this process has alone, but both branches send the same
                return lax.psum(total * 2.0, "i") + lax.psum(x, "i")
            return lax.psum(total * 3.0, "i") - lax.psum(x, "i")

        return [float(spmd(f, "i")(1.0, np.full(2, 60.0 if i % (r + 2) == 0 else 1.0))) for i in range(8)]

    for r, found in enumerate(threads(process)):
        for i, value in enumerate(found):
            total = sum([6.0 if i % (q + 2) == 0 else 9.0 for q in range(N)])
            assert value == (total + 3.0 if i % (r + 2) == 0 else total - 3.0)


def test_a_compiled_program_that_differs_later_raises_and_names_both_lines():
    """Its first runs are equal; later one process takes the other branch."""

    def f(x):
        a = lax.psum(x, "i") + lax.pmax(x, "i")
        return fc.cond(
            x > 5.0,
            lambda v: lax.psum(v * a, "i"),
            lambda v: lax.pmin(v * a, "i"),
            x,
        )

    g = fc.jit(spmd(f, "i"))

    def process(r):
        return [g(1.0 + i * r) for i in range(8)]

    with pytest.raises(CollectiveError, match="different collectives") as info:
        threads(process)
    assert line_of(f, 4) in str(info.value) and line_of(f, 5) in str(info.value)


@pytest.mark.filterwarnings("ignore:the processes meet")  # as branches of one process do those of another
def test_programs_whose_later_collectives_differ_name_their_lines():
    def first(x):
        return lax.psum(x, "i") + lax.pmax(x * 2.0, "i")

    def second(x):
        return lax.psum(x, "i") + lax.pmin(x * 2.0, "i")

    def process(r):
        for _ in range(3):
            fc.jit(spmd(first, "i"))(1.0)
        return fc.jit(spmd(second if r else first, "i"))(np.ones(2))

    with pytest.raises(CollectiveError) as info:
        threads(process)
    assert "max of float64[2]" in str(info.value) and line_of(first, 1) in str(info.value)
    assert "min of float64[2]" in str(info.value) and line_of(second, 1) in str(info.value)


def test_an_error_in_a_program_leaves_the_comparison_right():
    """All processes leave the program in its middle, catch the error, and go on."""

    def fails(x):
        a = lax.psum(x, "i")
        fc.debug.callback(lambda v: 1 / 0, a)
        return a + lax.pmax(x, "i")

    def process(r):
        f, g = fc.jit(spmd(fails, "i")), fc.jit(spmd(lambda x: lax.psum(lax.pmax(x, "i") * x, "i"), "i"))
        found = []
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                f(1.0)
            found.append((float(g(2.0)), float(spmd(lambda x: lax.psum(x, "i"), "i")(1.0))))
        return found

    assert threads(process) == [[(4.0 * N, float(N))] * 3] * N


def test_no_lock_is_held_while_a_collective_runs():
    """The first calls of guarded functions on 4 threads, whose collectives wait for each other; then all caches at once."""

    @fc.jit
    def shared(x):
        if lax.psum(x, "i") > 0:
            return lax.psum(np.tanh(x), "i")
        return x

    def process(r):
        own = fc.jit(lambda x: lax.psum(np.sin(x), "i") if lax.psum(x, "i") > 0 else x)
        found = []
        for f in (shared, own, fc.jit(fc.grad(spmd(own, "i", out_axes=None))), fc.grad(spmd(shared, "i", out_axes=None))):
            g = f if f not in (shared, own) else spmd(f, "i")
            found += [float(g(1.0 + s)) for s in range(3)]
            gc.collect()
        return found

    found = distributed.on_threads(4, process, timeout=60.0)
    assert found == [found[0]] * 4


def test_a_collective_of_one_thread_does_not_keep_others_from_compiling():
    """A thread outside compiles new programs while the processes wait in a compiled one."""
    inside, go = threading.Event(), threading.Event()

    def process(r):
        f = fc.jit(spmd(lambda x: lax.psum(np.sin(x), "i") * 2.0, "i"))
        for _ in range(3):
            f(1.0)
        if r == 0:
            inside.set()
            assert go.wait(60)
        return f(1.0)

    results = []
    runner = threading.Thread(target=lambda: results.extend(distributed.on_threads(2, process, timeout=60.0)))
    runner.start()
    assert inside.wait(60)
    try:
        fresh = fc.jit(lambda x: np.tanh(x) + (x if np.sum(x) > 0 else 1.0))
        for _ in range(3):
            assert np.isfinite(fresh(np.ones(3))).all()
        assert fc.grad(fc.jit(lambda x: np.sum(x**3)))(np.ones(2))[0] == 3.0
    finally:
        go.set()
    runner.join(60)
    assert len(results) == 2
