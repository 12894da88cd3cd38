"""What loops keep for the loops of their derivatives: as few arrays as cheap arithmetic allows, and the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import funcad
from funcad import tree
from funcad.backends.interpreter import Program
from funcad.passes import recompute as recompute_pass
from funcad.passes.pipeline import PIPELINE, optimize
from funcad.passes.recompute import recompute
from funcad.show.pretty import shown_as
from tests.agreement import same_bits

N = 2000


def before_and_after(f, *args):
    lowered = funcad.jit(f).lower(*args)
    jaxpr = lowered.jaxpr
    for each in PIPELINE:
        if each is not recompute:
            jaxpr = each(jaxpr)
    return jaxpr, recompute(jaxpr), [*lowered._entry.consts, *tree.leaves(args)]


def kept(jaxpr):
    """Bytes that scans collect."""
    found = 0
    for e in jaxpr.equations:
        if shown_as(e) == "scan":
            found += sum([v.aval.size * v.aval.dtype.itemsize for v in e.outputs[e.params["loop"].n_carry :]])
    return found


def check(f, *args):
    """(bytes kept before, and after); the results are the same to the bit, as long as NumPy's functions get the same arrays."""
    before, after, values = before_and_after(f, *args)
    for x, y in zip(Program(before).run(list(values)), Program(after).run(list(values)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13, atol=1e-15)
    with funcad.config.set(engine="numpy"):
        before, after, values = before_and_after(f, *args)
        for x, y in zip(Program(before).run(list(values)), Program(after).run(list(values)), strict=True):
            assert same_bits(x, y)
        jitted = funcad.jit(f)
        for _ in range(3):
            again = tree.leaves(jitted(*args))
    for x, y in zip(again, Program(before).run(list(values)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
    return kept(before), kept(after)


def looped(step, n=20):
    return lambda x, *more: np.sum(funcad.fori_loop(0, n, lambda i, c: step(c, *more), x))


X = np.linspace(-1.0, 1.0, N)
ARRAY = 20 * 8 * N


def test_arithmetic_is_done_again():
    step = lambda h: (np.exp(-h * h) * np.sin(h) + 0.3 * h) * 0.5
    before, after = check(funcad.grad(looped(step)), X)
    assert after < before and after <= 4 * ARRAY  # h, the exponential, the sine and the cosine


def test_products_of_two_carries():
    def step(c):
        u, v = c
        return u - u * v * v * 0.1, v + u * v * v * 0.1

    f = lambda x: np.sum(funcad.fori_loop(0, 20, lambda i, c: step(c), (x, x))[0])
    assert check(funcad.grad(f), X)[1] <= 2 * ARRAY


def test_the_carry_is_kept_in_place_of_what_is_larger():
    step = lambda c: np.sum(np.sin(c[:, None] - c[None, :] * 0.5), axis=1) * 0.01
    x = np.linspace(0.0, 1.0, 60)
    before, after = check(funcad.grad(looped(lambda c: np.sum((c[:, None] - c[None, :] * 0.5) ** 2, axis=1) * 0.01)), x)
    assert after <= 20 * 8 * 60 < before
    before, after = check(funcad.grad(looped(step)), x)
    assert after <= before


@pytest.mark.parametrize("reverse", [False, True])
def test_what_both_loops_read_row_by_row_and_constants(reverse):
    xs = np.random.default_rng(0).normal(size=(20, N))

    def f(w, xs):
        step = lambda c, x: (c * (1.0 + w * x) * 0.5 + x, c)
        last, ys = funcad.scan(step, w * 0.1, xs, reverse=reverse)
        return np.sum(last) + np.sum(ys * ys)

    before, after = check(funcad.grad(f), X, xs)
    assert after <= before
    check(funcad.grad(f, (0, 1)), X, xs)


def test_what_is_small_or_costly_is_kept():
    costly = lambda h: np.tanh(np.cos(h) * 1.1)
    before, after = check(funcad.grad(looped(costly)), X)
    assert after == before
    few = lambda h: (h * h * 0.3 + h) * (0.1 - h)
    before, after = check(funcad.grad(looped(few)), X[:8])
    assert after == before


def test_what_somebody_else_reads_is_kept():
    def f(x):
        step = lambda c, _: ((c * c * 0.3 + c) * (0.1 - c), 2.0 * c)
        last, ys = funcad.scan(step, x, None, length=20)
        return np.sum(last) + np.sum(ys**3), ys

    check(lambda x: funcad.value_and_grad(f, has_aux=True)(x), X)


def test_loops_in_loops_and_second_derivatives(monkeypatch):
    monkeypatch.setattr(recompute_pass, "LARGE", 1)
    monkeypatch.setattr(recompute_pass, "FEW_ELEMENTS", 1)
    inner = lambda c: funcad.fori_loop(0, 3, lambda i, d: d * d * 0.3 + c * d, c)
    x = np.linspace(-0.5, 0.5, 6)
    for f in (looped(lambda c: inner(c) * 0.5, 4), looped(lambda h: (h * h * 0.3 + h) * (0.1 - h) / (1 + h * h), 4)):
        check(funcad.grad(f), x)
        check(funcad.hessian(f), x)
        check(funcad.jacfwd(funcad.grad(f)), x)
        check(funcad.grad(lambda x, f=f: np.sum(funcad.grad(f)(x) ** 2)), x)
        check(funcad.vmap(funcad.grad(f)), np.stack([x, x + 0.1]))


def test_effects_happen_once():
    seen = []

    def step(h):
        funcad.debug.callback(lambda v: seen.append(float(v)), h[0])
        return (np.exp(-h * h) + 0.3 * h) * h

    g = funcad.jit(funcad.grad(looped(step, 5)))
    g(X * 1.0)
    assert len(seen) == 5


def test_it_is_idempotent():
    jaxpr = optimize(funcad.jit(funcad.grad(looped(lambda h: (np.exp(-h * h) + 0.3 * h) * h))).lower(X).jaxpr)
    assert recompute(jaxpr) is jaxpr


W = np.linspace(0.1, 0.9, 4)
KEPT = {  # steps of a carry of 32 bytes, and how much of a turn is kept
    "an affine function's tanh": (lambda c, w: np.tanh(c * w + 0.1), 32),  # the carry, which is what tanh gave a turn before
    "a polynomial": (lambda c, w: c * w - c**3 * 0.1, 32),
    "a sine": (lambda c, w: np.sin(c * w) + c * 0.5, 32),
    "a sine times a parameter": (lambda c, w: c + 0.01 * np.sin(c) * w, 64),
    "a product of matrices": (lambda c, w: np.tanh(c @ (w[:, None] * W)), 32),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("step", KEPT)
def test_compiled_loops_of_few_elements_keep_the_carry_alone(step, reverse, monkeypatch):
    pytest.importorskip("llvmlite")
    monkeypatch.setattr(funcad.config, "engine", "native")
    f, wanted = KEPT[step]
    n = 10_000
    loss = lambda w, c: np.sum(funcad.scan(lambda c, _: (f(c, w), None), c, None, length=n, reverse=reverse)[0])
    g = funcad.grad(loss, (0, 1))
    jaxpr = optimize(funcad.make_jaxpr(g)(W, W).jaxpr)
    large = [v.aval.size for e in jaxpr.equations for v in e.outputs if v.aval.size >= n]
    assert 8 * sum(large) == wanted * n
    compiled = funcad.jit(g)
    for _ in range(3):
        found = compiled(W, W)
    with funcad.config.set(engine="numpy"):
        for x, y in zip(found, g(W, W)):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-14)


def test_a_carry_that_others_read_as_it_goes_out_is_kept(monkeypatch):
    pytest.importorskip("llvmlite")
    monkeypatch.setattr(funcad.config, "engine", "native")

    def f(w):
        last, ys = funcad.scan(lambda c, _: (np.tanh(c * w), c), W, None, length=10_000)
        return np.sum(last) + np.sum(ys * ys), ys

    g = funcad.value_and_grad(f, has_aux=True)
    for _ in range(3):
        found = funcad.jit(g)(W)
    for x, y in zip(tree.leaves(found), tree.leaves(g(W)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-14)
