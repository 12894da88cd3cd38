"""Arrays in the other byte order: the same numbers everywhere, and traced values and results in the machine's order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
import funcad.numpy as fnp
from funcad import lax, tree
from funcad.configuration import config

OTHER = np.dtype(float).newbyteorder("S")
X = np.arange(1.0, 7.0).reshape(2, 3)
W = np.array([[0.5, 2.0, -1.0], [3.0, 0.25, 1.0]])

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "identity": lambda x, w: x,
    "both": lambda x, w: (x, w),
    "product": lambda x, w: x * w,
    "index": lambda x, w: (x[0], w[1], x[[1, 0]], w[[1, 0]] + x),
    "views": lambda x, w: (x.T, x[::-1], x.reshape(-1), w.T * x.T),
    "sorted": lambda x, w: (np.sort(x, axis=0), np.sort(w * 1.0) + x),
    "update": lambda x, w: (fnp.at(x)[0].set(w[1]), fnp.at(w)[0].set(x[1]), fnp.at(x)[0].add(w[1])),
    "matmul": lambda x, w: x @ w.T,
    "solve": lambda x, w: np.linalg.solve(w[:, :2], x),
    "join": lambda x, w: (np.stack([x, w]), np.concatenate([w, x]), np.where(x > 2.0, x, w)),
    "scan": lambda x, w: lax.scan(lambda c, a: (c * w[0], a), x[0], x),
    "scan that gives a captured array": lambda x, w: lax.scan(lambda c, a: (w[0], c), x[0], x),
    "fori_loop": lambda x, w: lax.fori_loop(0, 3, lambda i, c: c * w, x),
    "while_loop": lambda x, w: lax.while_loop(lambda c: np.sum(c) < 99.0, lambda c: c + abs(w), x),
    "cond": lambda x, w: lax.cond(x[0, 0] > 0.0, lambda v: v * w, lambda v: w, x),
    "checkpoint": lambda x, w: funcad.checkpoint(lambda v: np.sin(v) * w)(x),
    "vmap": lambda x, w: funcad.vmap(lambda a, b: a * b)(x, w),
    "inner jit": lambda x, w: funcad.jit(lambda v: v * w)(x),
    "bits": lambda x, w: lax.bitcast_convert_type(lax.stop_gradient(x), np.dtype(np.int64).newbyteorder("S")),
    "sum in another dtype": lambda x, w: np.sum(x, dtype=OTHER),
    "conversion": lambda x, w: (x.astype(OTHER), fnp.astype(x, np.dtype(np.float32).newbyteorder("S"))),
    "made in that order": lambda x, w: (fnp.array([x[0], x[1]], dtype=OTHER), fnp.linspace(x[0, 0], 2.0, 3, dtype=OTHER)),
    "zeros": lambda x, w: np.zeros_like(x, dtype=OTHER) + x,
    "fft": lambda x, w: np.fft.fft(x).real * w,
    "argsort": lambda x, w: (np.argsort(w * x), np.max(x, axis=0), np.round(x), x > w),
}


def check(found: Any, wanted: Any) -> None:
    found, wanted = tree.leaves(found), tree.leaves(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert a.dtype.isnative and a.dtype == b.dtype.newbyteorder("=") and np.allclose(a, b)


@pytest.mark.share(4)
@pytest.mark.parametrize("engine", ["auto", "numpy", "interpreter"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs(name: str, engine: str) -> None:
    f = FUNCTIONS[name]
    wanted = funcad.jit(f)(X, W)
    x, w = X.astype(OTHER), W.astype(OTHER)
    with config.set(engine=engine):
        given, caught = funcad.jit(lambda x, w: f(x, w)), funcad.jit(lambda x: f(x, w))
        for _ in range(4):  # the fourth call runs another engine than the first
            check(given(x, w), wanted)
            check(caught(x), wanted)
            check(given(X, W), wanted)
            check(caught(X), wanted)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_unjitted(name: str) -> None:
    f = FUNCTIONS[name]
    wanted = funcad.jit(f)(X, W)
    x, w = X.astype(OTHER), W.astype(OTHER)
    check(funcad.vjp(f, x, w)[0], wanted)
    check(funcad.jvp(f, (x, w), (x, w))[0], wanted)
    check(funcad.linearize(f, x, w)[0], wanted)
    check(tree.map(lambda y: y[0], funcad.vmap(f)(x[None], w[None])), wanted)
    if name in SMOOTH:
        check(funcad.vjp(lambda v: f(v, w), x)[1](wanted), funcad.vjp(lambda v: f(v, W), X)[1](wanted))


SMOOTH = ["identity", "product", "matmul", "scan", "checkpoint", "vmap", "inner jit", "fori_loop"]


def test_random_numbers_do_not_depend_on_byte_order() -> None:
    key = funcad.random.key(3)
    other = np.asarray(key).astype(key.dtype.newbyteorder("S"))
    for draw in (funcad.random.normal, funcad.random.uniform, funcad.random.bits, funcad.random.exponential):
        for f in (draw, funcad.jit(draw, static_argnums=1)):
            check(f(other, (4,)), f(key, (4,)))
    for kind in (np.float64, np.float32):
        for draw in (funcad.random.normal, funcad.random.uniform):
            check(draw(key, (4,), np.dtype(kind).newbyteorder("S")), draw(key, (4,), kind))
    unsigned, signed = np.dtype(np.uint32), np.dtype(np.int32)
    check(funcad.random.bits(key, (4,), unsigned.newbyteorder("S")), funcad.random.bits(key, (4,), unsigned))
    check(funcad.random.randint(key, (4,), 0, 9, signed.newbyteorder("S")), funcad.random.randint(key, (4,), 0, 9, signed))


def test_a_captured_array_in_the_other_order_is_read_at_each_call() -> None:
    w = np.ones(3).astype(OTHER)
    f = funcad.jit(lambda x: x * w)
    for value in range(5):
        w[:] = value
        check(f(np.ones(3)), np.full(3, float(value)))
