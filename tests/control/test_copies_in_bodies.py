"""A body writes the copies that it makes itself of arrays from outside, whatever is traced around it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import checkpoint, cond, fori_loop, grad, jacfwd, jit, jvp, scan, value_and_grad, vmap, while_loop
from funcad.errors import WriteError

X = np.array([0.5, 0.75, 0.25])
SOME = np.arange(3.0)
COPIES: dict[str, Callable[[Any], Any]] = {
    "array": np.array,
    "copy": np.copy,
    "method copy": lambda x: x.copy(),
    "astype": lambda x: x.astype(float),
    "plus": lambda x: +x,
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "in columns": lambda x: np.array(np.stack([x, x]), order="F")[0],
    "full": lambda x: np.full(3, x[1]),
    "flatten": lambda x: x.flatten(),
    "array of a number": lambda x: np.array(x[1]),
}


def program(make: Callable[[Any], Any], x: Any, s: Any) -> Any:
    y = make(x)
    y[(0,) * y.ndim] = s
    y *= 2.0
    return y.sum() * s + np.sum(x * x)


BODIES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {  # a loop of funcad's, and one of Python's
    "scan": (
        lambda f, x: scan(lambda c, s: (c + f(x, s), None), 0.0, SOME)[0],
        lambda f, x: sum(f(x, s) for s in SOME),
    ),
    "vmap": (lambda f, x: np.sum(vmap(lambda s: f(x, s))(SOME)), lambda f, x: sum(f(x, s) for s in SOME)),
    "fori_loop": (
        lambda f, x: fori_loop(0, 3, lambda i, c: c + f(x, x[0] * i), 0.0),
        lambda f, x: sum(f(x, x[0] * i) for i in range(3)),
    ),
    "while_loop": (
        lambda f, x: while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + f(x, x[0] * c[0])), (0, 0.0))[1],
        lambda f, x: sum(f(x, x[0] * i) for i in range(3)),
    ),
    "checkpoint": (lambda f, x: checkpoint(lambda s: f(x, s))(x[0]), lambda f, x: f(x, x[0])),
    "jit": (lambda f, x: jit(lambda s: f(x, s))(x[0]), lambda f, x: f(x, x[0])),
    "cond": (lambda f, x: cond(x[0] > 0, lambda s: f(x, s), lambda s: s, x[0]), lambda f, x: f(x, x[0])),
    "vmap in scan": (
        lambda f, x: scan(lambda c, s: (c + np.sum(vmap(lambda t: f(x, s * t))(SOME)), None), 0.0, SOME)[0],
        lambda f, x: sum(f(x, s * t) for s in SOME for t in SOME),
    ),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("name", COPIES)
def test_a_copy_is_written_in_the_body_that_makes_it(name: str, body: str) -> None:
    traced, plain = [lambda x, run=run: run(lambda x, s: program(COPIES[name], x, s), x) for run in BODIES[body]]
    slopes = np.array([(plain(X + 1e-4 * e) - plain(X - 1e-4 * e)) / 2e-4 for e in np.eye(3)])
    jitted = jit(value_and_grad(traced))
    for value, gradient in (
        value_and_grad(traced)(X),
        *[jitted(X) for _ in range(3)],
        [part[0] for part in vmap(value_and_grad(traced))(X[None])],
    ):
        np.testing.assert_allclose(value, plain(X), rtol=1e-13)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(jvp(traced, (X,), (X,))[1], slopes @ X, rtol=1e-6)
    np.testing.assert_allclose(vmap(traced)(np.stack([X, X])), [plain(X)] * 2, rtol=1e-13)
    np.testing.assert_allclose(jacfwd(grad(traced))(X), jacfwd(grad(plain))(X), rtol=1e-12, atol=1e-12)


def test_a_copy_of_an_outer_body_is_not_written_in_an_inner_one() -> None:
    def f(x: Any) -> Any:
        y = np.array(x)

        def body(c: Any, s: Any) -> Any:
            y[0] = s
            return c + y.sum(), None

        return scan(body, 0.0, SOME)[0]

    with pytest.raises(WriteError, match="outside of the body"):
        grad(f)(X)
