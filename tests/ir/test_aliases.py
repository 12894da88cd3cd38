"""Results share no memory with arguments, with captured arrays or with each other, whether anything was compiled or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import lax, tree

W = np.arange(6.0).reshape(2, 3)


def same(x: Any) -> Any:
    return x


def with_jvp() -> Any:
    f = funcad.custom_jvp(same)
    f.defjvp(lambda p, t: (p[0], t[0]))
    return f


def with_vjp() -> Any:
    f = funcad.custom_vjp(same)
    f.defvjp(lambda x: (x, None), lambda r, ct: (ct,))
    return f


def with_vmap() -> Any:
    f = funcad.custom_vmap(same)
    f.def_vmap(lambda size, batched, x: (x, batched[0]))
    return f


FUNCTIONS: dict[str, Callable[[np.ndarray], Any]] = {
    "cond": lambda x: lax.cond(True, same, np.sin, x),
    "cond, false": lambda x: lax.cond(False, np.sin, same, x),
    "cond of a closure": lambda x: lax.cond(True, lambda: x, lambda: x),
    "cond of a default": lambda x: lax.cond(True, lambda v=x: v, lambda: x),
    "cond of a global": lambda x: lax.cond(True, lambda v: (W, v * 2.0), lambda v: (W, v), x),
    "cond of a view": lambda x: lax.cond(True, lambda v: v.T[1:], lambda v: v.T, x),
    "cond, twice": lambda x: lax.cond(True, lambda v: {"a": v, "b": [v, None]}, lambda v: {}, x * 2.0),
    "switch": lambda x: lax.switch(1, [np.sin, same], x),
    "switch of one": lambda x: lax.switch(0, [same], x),
    "fori_loop": lambda x: lax.fori_loop(0, 2, lambda i, c: c, x),
    "fori_loop without a turn": lambda x: lax.fori_loop(0, 0, lambda i, c: c, x),
    "scan without a turn": lambda x: lax.scan(lambda c, a: (c, a), x, np.zeros((0, 2))),
    "scan": lambda x: lax.scan(lambda c, a: (c, a), x, x),
    "scan of a global": lambda x: lax.scan(lambda c, a: (W, c), x, None, length=1),
    "while_loop": lambda x: lax.while_loop(lambda c: c[1] < 2, lambda c: (c[0], c[1] + 1), (x, 0)),
    "while_loop without a turn": lambda x: lax.while_loop(lambda c: np.sum(c) < 0.0, np.sin, x),
    "jit": lambda x: funcad.jit(lambda v: (v, v, W))(x),
    "checkpoint": lambda x: funcad.checkpoint(lambda v: (v, W))(x),
    "custom_jvp": with_jvp(),
    "custom_vjp": with_vjp(),
    "custom_vmap": with_vmap(),
    "custom_gradient": funcad.custom_gradient(lambda x: (x, lambda ct: (ct,))),
    "vmap": lambda x: funcad.vmap(lambda v: (v, W), out_axes=(0, None))(x),
    "vmap with a named axis": lambda x: funcad.vmap(lambda v: (v, W), out_axes=(0, None), axis_name="i")(x),
    "vjp": lambda x: (funcad.vjp(same, x)[0], funcad.vjp(same, x)[1](x)),
    "jvp": lambda x: funcad.jvp(same, (x,), (x,)),
    "linearize": lambda x: (funcad.linearize(same, x)[0], funcad.linearize(same, x)[1](x)),
    "map": lambda x: lax.map(same, x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_memory_of_their_own(name: str) -> None:
    before = W.copy()
    for _ in range(4):  # the fourth call runs another engine than the first
        x = W + 1.0
        arrays = [a for a in tree.leaves(FUNCTIONS[name](x)) if isinstance(a, np.ndarray)]
        assert arrays
        for i, a in enumerate(arrays):
            assert a.flags.writeable
            assert not any(np.shares_memory(a, b) for b in (x, W, *arrays[:i]))
            a += 1.0
        assert np.array_equal(x, before + 1.0) and np.array_equal(W, before)


def test_cond_gives_any_object_as_it_is() -> None:
    marker = object()
    assert lax.cond(True, lambda: marker, lambda: None) is marker
    assert lax.cond(True, lambda x: x, lambda x: x, 2.0) == 2.0
    made = lax.cond(True, lambda x: [x * 2.0], lambda x: [x], W)
    assert np.array_equal(made[0], 2.0 * W)
