"""How much memory a derivative needs, in activations: arrays of the size that the program works on."""

from __future__ import annotations

import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit, jvp, linearize, vjp
from funcad.ir.primitive import is_linear
from funcad.primitives.families import elementwise

pytestmark = pytest.mark.group("alone")  # of time, memory, threads or counts

N = 1 << 15  # float64 elements of one activation: 256 KiB, well above all bookkeeping
LAYERS = 50


def peak(f: Callable[[], Any]) -> float:
    """The largest memory in use during f beyond what was in use before, in activations."""
    f()  # programs are traced and cached
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        f()
        return (tracemalloc.get_traced_memory()[1] - before) / (8 * N)
    finally:
        tracemalloc.stop()


def tanh_chain(x: Any) -> Any:
    for _ in range(LAYERS):
        x = np.tanh(x)
    return np.sum(x)


def add_chain(x: Any) -> Any:
    for _ in range(LAYERS):
        x = x + 1.0
    return np.sum(x)


X = np.linspace(-1.0, 1.0, N)


def test_a_tanh_chain_keeps_one_activation_per_layer() -> None:
    assert peak(lambda: grad(tanh_chain)(X)) <= LAYERS + 2


def test_a_jitted_tanh_chain_keeps_one_activation_per_layer() -> None:
    f = jit(tanh_chain)
    assert peak(lambda: grad(f)(X)) <= LAYERS + 4
    g = jit(grad(tanh_chain))
    assert peak(lambda: g(X)) <= LAYERS + 4


def test_an_add_chain_keeps_nothing() -> None:
    assert peak(lambda: grad(add_chain)(X)) <= 4
    f = jit(grad(add_chain))
    assert peak(lambda: f(X)) <= 4


def relu_chain(x: Any) -> Any:
    for _ in range(20):
        x = np.maximum(x, 0.0) * 1.01
    return np.sum(x)


def where_chain(x: Any) -> Any:
    for _ in range(20):
        x = np.where(x > 0, x, -0.5 * x)
    return np.sum(x)


def exp_chain(x: Any) -> Any:
    for _ in range(20):
        x = np.exp(-x)
    return np.sum(x)


def relu_network(x: Any) -> Any:
    x = np.reshape(x, (512, 64))
    for weights in WEIGHTS:
        x = np.maximum(x @ weights, 0.0)
    return np.sum(x)


WEIGHTS = [np.random.default_rng(i).normal(size=(64, 64)) / 8 for i in range(20)]


@pytest.mark.parametrize("f, activations", [(relu_chain, 27), (where_chain, 7), (exp_chain, 22.5), (relu_network, 30)])
def test_twenty_layers_keep_what_their_linear_part_reads(f: Any, activations: float) -> None:
    """Of exp its result; of maximum a mask and weights; of where its mask alone; and small weights, eight an activation."""
    assert peak(lambda: grad(f)(X)) <= activations


def test_forward_mode_keeps_nothing() -> None:
    assert peak(lambda: jvp(tanh_chain, (X,), (X,))) <= 6
    f = jit(lambda x, t: jvp(tanh_chain, (x,), (t,)))
    assert peak(lambda: f(X, X)) <= 6


def test_a_jitted_program_drops_values_after_their_last_use() -> None:
    f = jit(tanh_chain)
    assert peak(lambda: f(X)) <= 3


def test_gradient_with_respect_to_an_array_used_in_every_layer() -> None:
    """Its cotangents are added in place, not collected."""

    def f(w: Any) -> Any:
        total = w * 2.0
        for _ in range(LAYERS):
            total = total + w
        return np.sum(total)

    assert peak(lambda: grad(f)(X)) <= 5


def test_residuals_die_one_by_one_in_the_backward_pass_of_grad() -> None:
    """When the cotangent reaches layer k, the residuals of the layers behind it are gone already."""
    alive: list[int] = []
    residuals: list[weakref.ref] = []

    def impl(xp: Any, x: Any) -> Any:
        out = x + 0.0
        residuals.append(weakref.ref(out))
        return out

    def transposed(xp: Any, t: Any, y: Any) -> Any:
        alive.append(sum(r() is not None for r in residuals))
        return t * 1.0

    step_p = elementwise("step", impl, [lambda t, out, x: linear_p(t, out)])
    linear_p = elementwise(
        "step_linear",
        transposed,
        None,
        transpose=lambda ct, t, y: [linear_p(ct, y) if is_linear(t) else None, None],
    )

    def f(x: Any) -> Any:
        for _ in range(10):
            x = step_p(x)
        return np.sum(x)

    grad(f)(X)
    assert len(alive) == 10
    assert alive == list(range(10, 0, -1)), alive
    assert not any(r() is not None for r in residuals)


def test_a_pullback_holds_its_residuals_and_lets_them_go() -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        _, pullback = vjp(tanh_chain, X)
        held = (tracemalloc.get_traced_memory()[0] - before) / (8 * N)
        assert LAYERS <= held <= LAYERS + 2
        del pullback
        assert (tracemalloc.get_traced_memory()[0] - before) / (8 * N) < 1.5
        _, push = linearize(tanh_chain, X)
        assert LAYERS <= (tracemalloc.get_traced_memory()[0] - before) / (8 * N) <= LAYERS + 2
        del push
        assert (tracemalloc.get_traced_memory()[0] - before) / (8 * N) < 1.5
    finally:
        tracemalloc.stop()


def test_an_intermediate_that_no_rule_needs_dies_at_once() -> None:
    def f(x: Any) -> Any:
        for _ in range(LAYERS):
            x = x * 2.0 + 1.0 - x
        return np.sum(x)

    assert peak(lambda: grad(f)(X)) <= 6


def test_checkpoint_lowers_the_peak_as_predicted() -> None:
    """With 10 blocks of 5 layers: 10 inputs of blocks are kept, and the 5 residuals of one block at a time."""

    def block(x: Any) -> Any:
        for _ in range(5):
            x = np.tanh(x)
        return x

    def plain(x: Any) -> Any:
        for _ in range(10):
            x = block(x)
        return np.sum(x)

    def saved(x: Any) -> Any:
        for _ in range(10):
            x = funcad.checkpoint(block)(x)
        return np.sum(x)

    np.testing.assert_allclose(grad(saved)(X), grad(plain)(X), rtol=1e-13)
    assert peak(lambda: grad(plain)(X)) > 48
    assert peak(lambda: grad(saved)(X)) <= 20
