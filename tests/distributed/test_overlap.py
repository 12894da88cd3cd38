"""Sums of gradients start where their last contribution is made, in buckets, and are waited for where they are read."""

import numpy as np
import pytest

import funcad as fc
from funcad import distributed, lax
from funcad.configuration import config
from funcad.distributed import spmd
from funcad.distributed.communicator import Communicator
from funcad.passes import together
from tests.distributed.test_spmd import N, close, threads

LAYERS = [np.random.default_rng(i).normal(size=(16, 16)) for i in range(5)]  # of 2,048 bytes each
ROWS = np.random.default_rng(9).normal(size=(N, 8, 16))


@pytest.fixture
def small_buckets(monkeypatch):
    for name, size in (("SMALL", 100), ("FIRST", 1000), ("FULL", 4000)):
        monkeypatch.setattr(together, name, size)


def loss(p, x):
    for w in p:
        x = np.tanh(x @ w)
    return np.mean(x**2)


def by_spmd(p, x):
    return lax.pmean(loss(p, x), "i")


WAYS = {
    "value_and_grad": lambda: distributed.value_and_grad(loss),
    "spmd": lambda: fc.value_and_grad(spmd(by_spmd, "i", in_axes=(None, 0), out_axes=None)),
}


def names_of(f, *args):
    return [e.primitive.name for e in together.together(fc.make_jaxpr(f)(*args).jaxpr).equations]


@pytest.mark.parametrize("way", WAYS)
def test_sums_start_in_the_midst_of_the_backward_pass(way, small_buckets):
    """Between the start of a bucket and its end stand the products of the layers before."""
    for names in threads(lambda r: names_of(WAYS[way](), LAYERS, ROWS[r])):
        starts = [i for i, name in enumerate(names) if name == "start_sums_over_processes"]
        ends = [i for i, name in enumerate(names) if name == "finish_sums_over_processes"]
        products = [i for i, name in enumerate(names) if name == "dot_general"]
        assert len(starts) == len(ends) == 3 and max(starts) < min(ends)  # the last layer's, then two and two
        between = [sum(start < i < ends[0] for i in products) for start in starts]
        assert between[0] >= 6 and between[1] >= 2 and between == sorted(between, reverse=True)


@pytest.mark.parametrize("engine", ["interpreter", "numpy", "native"])
@pytest.mark.parametrize("way", WAYS)
def test_the_results_are_the_same_bits_with_and_without_overlap(way, engine, small_buckets, monkeypatch):
    monkeypatch.setattr(config, "engine", engine)
    f = WAYS[way]
    wanted = fc.value_and_grad(lambda p: np.mean(np.array([loss(p, x) for x in ROWS])))(LAYERS)

    def process(r):
        g = fc.jit(f())
        events = []
        first = [g(LAYERS, ROWS[r]) for _ in range(3)]
        distributed.current().events = lambda what, where: events.append(what)
        return [*first, g(LAYERS, ROWS[r])], events

    overlapped = threads(process)
    for found, events in overlapped:
        close(found, [wanted] * 4, rtol=1e-9)
        assert events.count("wait") == 3 and "start" not in events[events.index("wait") :]
    start = Communicator.start

    def at_once(self, call, x):
        number = start(self, call, x)
        finish, *rest = self._flying[number]
        total = finish()
        self._flying[number] = (lambda: total), *rest
        return number

    monkeypatch.setattr(Communicator, "start", at_once)
    bits = {b"".join([np.asarray(v).tobytes() for v in fc.tree.leaves(run)]) for found, _ in overlapped for run in found}
    bits |= {b"".join([np.asarray(v).tobytes() for v in fc.tree.leaves(run)]) for found, _ in threads(process) for run in found}
    assert len(bits) == 1


def test_a_sum_never_moves_over_an_effect(small_buckets):
    def f(x, y):
        fc.debug.callback(lambda v: None, np.sum(y))
        return lax.psum(x * 2.0, "i") + lax.psum(y, "i")

    names = threads(lambda r: names_of(spmd(f, "i"), np.ones(300), np.ones(300)))[0]
    assert names.index("debug_callback" if "debug_callback" in names else next(n for n in names if "callback" in n)) < min(
        i for i, name in enumerate(names) if "sums_over" in name or name == "sum_over_processes"
    )


def test_what_reads_one_bucket_waits_for_that_one_alone(small_buckets):
    """A norm of the first gradient is needed early, others are under way."""

    def f(x, y):
        a, b = lax.psum(np.sin(x), "i"), lax.psum(np.cos(y), "i")
        scale = 1.0 / (1.0 + np.sum(a**2))
        return lax.psum(np.tanh(x * scale), "i") + b

    xs = np.random.default_rng(0).normal(size=(2, N, 200))
    wanted = fc.vmap(f, axis_name="i")(*xs)
    for r, found in enumerate(threads(lambda r: [fc.jit(spmd(f, "i"))(xs[0][r], xs[1][r]) for _ in range(2)])):
        close(found, [wanted[r]] * 2)


def test_sums_in_loops_and_branches_overlap_within_a_turn(small_buckets):
    def f(w, x):
        def step(c, t):
            a = lax.psum(np.sin(c * t), "i")
            b = np.tanh(c @ np.outer(t, t))
            return fc.cond(np.sum(a) > 0, lambda v: lax.psum(v * 2.0, "i"), lambda v: lax.psum(v * 3.0, "i"), b + a) / 9.0, None

        return lax.pmean(np.sum(fc.scan(step, w, np.stack([x, 2 * x, -x]))[0]), "i")

    w, xs = np.random.default_rng(1).normal(size=(200,)), np.random.default_rng(2).normal(size=(N, 200)) / 10
    mapped = fc.vmap(f, in_axes=(None, 0), axis_name="i")
    wanted = fc.value_and_grad(lambda w: mapped(w, xs)[0])(w)
    g = fc.value_and_grad(spmd(f, "i", in_axes=(None, 0), out_axes=None))
    for found in threads(lambda r: (fc.jit(g)(w, xs[r]), fc.jit(g)(w, xs[r]))):
        close(found, [wanted] * 2, rtol=1e-8)


def test_second_derivatives_of_means_over_processes():
    f = distributed.value_and_grad(lambda w, x: np.sum(np.sin(w["a"] * x)) + w["b"] ** 3)
    w, v = {"a": np.array([0.5, 1.0]), "b": 2.0}, {"a": np.array([1.0, -1.0]), "b": 0.5}
    xs = np.random.default_rng(0).normal(size=(N, 2))
    whole = lambda w: np.mean(np.array([np.sum(np.sin(w["a"] * x)) for x in xs])) + w["b"] ** 3
    wanted = fc.hvp(whole, (w,), (v,))
    for found in threads(lambda r: fc.jvp(lambda w: f(w, xs[r])[1], (w,), (v,))[1]):
        close(found, wanted)
    stacked = {"a": np.stack([w["a"], v["a"]]), "b": np.array([2.0, 0.5])}
    for found in threads(lambda r: fc.vmap(lambda w: f(w, xs[r])[1])(stacked)):
        close([found["a"][0], found["b"][1]], [fc.grad(whole)(w)["a"], 0.75])


def test_sums_that_nobody_waits_for_are_forgotten(small_buckets):
    """An error between start and end leaves them; what comes after is right."""

    def f(x):
        early = lax.psum(x * 2.0, "i")
        fc.debug.callback(lambda v: 1 / 0, np.sum(x))
        return early + lax.psum(np.sin(x), "i")

    def process(r):
        comm, g = distributed.current(), fc.jit(spmd(f, "i"))
        for _ in range(20):
            with pytest.raises(ZeroDivisionError):
                g(np.ones(300))
        return len(comm._flying) <= 9, float(spmd(lambda x: lax.psum(x, "i"), "i")(1.0))

    assert threads(process) == [(True, float(N))] * N
