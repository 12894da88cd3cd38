"""Data-parallel work: one sum, equal bits, keys of each process's own."""

import warnings

import numpy as np
import pytest

import funcad as fc
from funcad import distributed, lax
from tests.distributed.test_spmd import N, close, threads

X, Y = np.random.default_rng(2).normal(size=(2, N, 40))


def loss(p, x, y):
    return np.mean((np.tanh(p["a"] * x) @ p["c"] + p["b"] - y) ** 2)


P = {"a": 0.5, "b": np.float64(-1.0), "c": np.random.default_rng(3).normal(size=(40,))}


@pytest.mark.parametrize("wrap", [lambda f: f, fc.jit], ids=["un-jitted", "jitted"])
def test_one_sum_equal_bits_and_the_gradient_of_the_whole(wrap):
    whole = fc.value_and_grad(lambda p: np.mean(np.stack([loss(p, X[i], Y[i]) for i in range(N)])))(P)

    def process(r):
        f = wrap(distributed.value_and_grad(loss))
        found = [f(P, X[r], Y[r]) for _ in range(4)]
        return found, distributed.current().count, distributed.current().sent

    results = threads(process)
    for found, count, sent in results:
        assert count == 4 and sent == 4 * 8 * (1 + 42)  # value and gradient in one buffer
        for each, first in zip(found, results[0][0]):
            close(each, whole, rtol=1e-12)
            bits = [np.asarray(leaf).tobytes() for leaf in fc.tree.leaves(each)]
            assert bits == [np.asarray(leaf).tobytes() for leaf in fc.tree.leaves(first)]


@pytest.mark.parametrize("wrap", [lambda f: f, fc.jit], ids=["un-jitted", "jitted"])
def test_a_loss_with_collectives_of_its_own_is_warned_of(wrap):
    def inside(w, x):
        return lax.pmean((w - x) ** 2, "i")

    def process(r):
        f = distributed.value_and_grad(distributed.spmd(inside, "i", in_axes=(None, 0)))
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            wrap(f)(1.0, float(r))
            f(1.0, float(r))
        return [(str(w.message).split(":")[0], w.filename) for w in found]

    for found in distributed.on_threads(1, process):
        assert [name for _, name in found] == [__file__] and "value_and_grad of" in found[0][0]


def test_each_process_draws_with_a_key_of_its_own():
    """As the lanes of vmap do, to the last bit, also inside of derivatives."""
    key = fc.random.key(3)

    def draws(key, x):
        own = fc.random.fold_in(key, lax.axis_index("i"))
        return fc.random.normal(own, (3,)) * x, fc.random.uniform(own), fc.random.permutation(own, 5)

    xs = np.arange(1.0, N + 1)
    wanted = fc.vmap(draws, in_axes=(None, 0), axis_name="i")(key, xs)
    for wrap in (lambda f: f, fc.jit):
        found = threads(lambda r, wrap=wrap: wrap(distributed.spmd(draws, "i", in_axes=(None, 0)))(key, xs[r]))
        for r, parts in enumerate(found):
            for a, b in zip(parts, wanted):
                assert np.asarray(a).tobytes() == np.asarray(b[r]).tobytes()
    assert len({float(u) for _, u, _ in found}) == N

    def noisy(w, key):
        return lax.pmean(np.sum(draws(key, w)[0] ** 2), "i")

    mapped = fc.vmap(noisy, in_axes=(None, None), axis_name="i", axis_size=N)
    slope = fc.grad(distributed.spmd(noisy, "i", in_axes=None, out_axes=None))
    close(threads(lambda r: slope(2.0, key)), [fc.grad(lambda w: mapped(w, key)[0])(2.0)] * N)


def test_jitted_runs_have_equal_bits_from_the_first():
    """On no process does it matter how often its program has run, nor whether it traced it anew."""

    def step(w, x):
        return np.tanh(w + lax.psum(np.sum(np.exp(-(x**2))), "i")) / (1.0 + np.sqrt(np.abs(w)))

    def process(r):
        f = fc.jit(distributed.spmd(step, "i", in_axes=(None, 0), out_axes=None))
        x = np.random.default_rng(r).normal(size=7)
        found = []
        for i in range(6):
            own = np.concatenate([x, np.full(i, 100.0)]) if r == 1 else x  # exp(-10000) is nothing
            found.append(f(np.linspace(0.1, 3.0, 50), own).tobytes())
        return found

    results = threads(process)
    assert all(found == results[0] for found in results)
