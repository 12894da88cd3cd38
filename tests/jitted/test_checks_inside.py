"""A check in a `try`, whose result nobody reads, in a function that is traced inside another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import funcad as fc

X = np.array([1.0, -2.0])


def cholesky(x: Any) -> Any:
    try:
        np.linalg.cholesky(np.eye(2) * x)
    except np.linalg.LinAlgError:
        return x * 2.0
    return x * 3.0


def solve(x: Any) -> Any:
    try:
        c = np.linalg.solve(np.eye(2) * (x + 2.0), np.ones(2))  # noqa: F841
    except np.linalg.LinAlgError:
        return x * 2.0
    return x * 3.0


def returns_inside(x: Any) -> Any:
    try:
        np.linalg.cholesky(np.eye(2) * x)
        return x * 3.0
    except np.linalg.LinAlgError:
        return x * 2.0


def raises_another(x: Any) -> Any:
    try:
        try:
            np.linalg.cholesky(np.eye(2) * x)
        except np.linalg.LinAlgError as error:
            raise RuntimeError("not positive") from error
        return x * 3.0
    except RuntimeError:
        return x * 2.0


_inverse = fc.jit(lambda x: (x, np.linalg.inv(np.eye(2) * (x + 2.0))))


def calls_a_jitted_one(x: Any) -> Any:
    try:
        _inverse(x)
    except np.linalg.LinAlgError:
        return x * 2.0
    return x * 3.0


def _factor(x: Any) -> Any:
    return np.linalg.cholesky(np.eye(2) * x)


def _only_checks(x: Any) -> None:
    _factor(x)


def _tries(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def tried(x: Any) -> Any:
        try:
            f(x)
        except np.linalg.LinAlgError:
            return x * 2.0
        return x * 3.0

    return tried


UNREAD = {  # programs inside, of whose results nobody reads any, or which have none
    "cond of None": lambda x: fc.cond(x < 9.0, _only_checks, lambda x: None, x),
    "cond": lambda x: fc.cond(x < 9.0, _factor, lambda x: np.eye(2) * x, x),
    "switch": lambda x: fc.switch(0, [_only_checks, lambda x: None], x),
    "checkpoint": lambda x: fc.checkpoint(_only_checks)(x),
    "vmap": lambda x: fc.vmap(_factor)(x * np.ones(3)),
}


def ends_with_finally(x: Any) -> Any:
    done = []
    try:
        np.linalg.cholesky(np.eye(2) * x)
    finally:
        done.append(1)
    return x * 3.0


def _by_jvp(f: Any) -> Any:
    made = fc.custom_jvp(f)
    made.defjvp(lambda primals, tangents: fc.jvp(f, primals, tangents))
    return made


def _by_vjp(f: Any) -> Any:
    made = fc.custom_vjp(f)
    made.defvjp(lambda x: fc.vjp(f, x), lambda pull, ct: pull(ct))
    return made


def _total(f: Any) -> Callable[[Any], Any]:
    return lambda x: np.sum(f(x))


def _chosen(f: Any) -> Callable[[Any], Any]:
    return lambda x: fc.cond(x < 9.0, f, f, x)


VALUE, SLOPE = np.array([3.0, -4.0]), np.array([3.0, 2.0])
WAYS = {  # what is called, its argument, and what it gives
    "vmap": (lambda f: fc.jit(fc.vmap(f)), X, VALUE),
    "vmap of vmap": (lambda f: fc.jit(fc.vmap(fc.vmap(f))), X[None], VALUE[None]),
    "sum": (lambda f: fc.jit(_total(fc.vmap(f))), X, -1.0),
    "grad inside": (lambda f: fc.jit(fc.grad(_total(fc.vmap(f)))), X, SLOPE),
    "grad outside": (lambda f: fc.grad(_total(fc.jit(fc.vmap(f)))), X, SLOPE),
    "vmap of grad": (lambda f: fc.jit(fc.vmap(fc.grad(f))), X, SLOPE),
    "jvp": (lambda f: fc.jit(lambda x: fc.jvp(fc.vmap(f), (x,), (np.ones(2),))[1]), X, SLOPE),
    "custom_jvp": (lambda f: fc.jit(_by_jvp(f)), -2.0, -4.0),
    "custom_vjp": (lambda f: fc.jit(_by_vjp(f)), -2.0, -4.0),
    "cond": (lambda f: fc.jit(_chosen(f)), -2.0, -4.0),
    "grad of cond": (lambda f: fc.jit(fc.grad(_chosen(f))), -2.0, 2.0),
    "jit alone": (fc.jit, -2.0, -4.0),
    "vmap of cond, un-jitted": (lambda f: fc.vmap(_chosen(f)), X, VALUE),
    "grad of vmap of cond, un-jitted": (lambda f: fc.grad(_total(fc.vmap(_chosen(f)))), X, SLOPE),
}
INSIDE = {
    "grad, un-jitted": (fc.grad, -2.0, 2.0),
    "grad": (lambda f: fc.jit(fc.grad(f)), -2.0, 2.0),
    "grad of jit": (lambda f: fc.grad(fc.jit(f)), -2.0, 2.0),
    "checkpoint": (lambda f: fc.jit(fc.checkpoint(f)), -2.0, -4.0),
    "grad of checkpoint, un-jitted": (lambda f: fc.grad(fc.checkpoint(f)), -2.0, 2.0),
    "grad of checkpoint": (lambda f: fc.jit(fc.grad(fc.checkpoint(f))), -2.0, 2.0),
    "vmap of grad of checkpoint": (lambda f: fc.jit(fc.vmap(fc.grad(fc.checkpoint(f)))), X, SLOPE),
    "grad of custom_jvp, un-jitted": (lambda f: fc.grad(_by_jvp(f)), -2.0, 2.0),
    "grad of custom_jvp": (lambda f: fc.jit(fc.grad(_by_jvp(f))), -2.0, 2.0),
    "grad of custom_vjp, un-jitted": (lambda f: fc.grad(_by_vjp(f)), -2.0, 2.0),
    "grad of custom_vjp": (lambda f: fc.jit(fc.grad(_by_vjp(f))), -2.0, 2.0),
}
CHECKED = [cholesky, solve, returns_inside, raises_another, calls_a_jitted_one]


@pytest.mark.share(4)
@pytest.mark.parametrize("way", [*WAYS, *INSIDE])
@pytest.mark.parametrize("f", [*CHECKED, *[pytest.param(_tries(f), id=name) for name, f in UNREAD.items()]])
def test_a_check_that_fails_is_seen_by_its_try(f: Any, way: str) -> None:
    made, x, expected = {**WAYS, **INSIDE}[way]
    g = made(f)
    for _ in range(4):
        np.testing.assert_array_equal(g(x), expected)


@pytest.mark.parametrize("way", WAYS)
def test_a_check_that_fails_before_finally_is_raised(way: str) -> None:
    made, x, _ = WAYS[way]
    g = made(ends_with_finally)
    for _ in range(4):
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
            g(x)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("f", [cholesky, solve])
def test_in_a_loop_it_is_raised_at_every_call(f: Any, jitted: bool) -> None:
    loops: list[tuple[Any, Any]] = [
        (lambda x: fc.scan(lambda c, v: (c, f(v)), 0.0, x)[1], X),
        (fc.grad(lambda x: np.sum(fc.scan(lambda c, v: (c, f(v)), 0.0, x)[1])), X),
        (lambda x: fc.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, f(c[1])), (0, x)), -2.0),
    ]
    for loop, x in loops:
        g = fc.jit(loop) if jitted else loop
        for _ in range(3):
            with pytest.raises(np.linalg.LinAlgError) as caught:
                g(x)
            assert any("funcad.cond" in note for note in caught.value.__notes__)


def _positive(v: Any) -> Any:
    if v < 0:
        raise ValueError("negative")
    return v


def calls_back(x: Any) -> Any:
    try:
        fc.pure_callback(_positive, x, x, vmap_method="sequential")
    except ValueError:
        return x * 2.0
    return x * 3.0


def asks_scipy(x: Any) -> Any:
    try:
        scipy.linalg.null_space(np.ones((2, 2)) / (x + 2.0))
    except ValueError:
        return x * 2.0
    return x * 3.0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("f, way", [(calls_back, way) for way in ("jit alone", "vmap", "sum")] + [(asks_scipy, "jit alone")])
def test_what_a_callback_raises_is_seen_by_its_try(f: Any, way: str) -> None:
    made, x, expected = WAYS[way]
    g = made(f)
    for _ in range(4):
        np.testing.assert_array_equal(g(x), expected)


def test_what_a_checkpoint_in_a_loop_computes_anew_is_not_looked_for_without_end() -> None:
    seen: list[float] = []
    w, x = np.array([0.3, 0.5]), np.array([1.0, 2.0])

    def step(c: Any, w: Any) -> Any:
        def inner(c: Any) -> Any:
            fc.debug.callback(seen.append, np.sum(x))
            return np.sin(c * w)

        return fc.checkpoint(inner)(c)

    def total(w: Any) -> Any:
        return np.sum(fc.scan(lambda c, t: (step(c, w) + t, None), w, np.stack([x, x]))[0])

    f = fc.custom_jvp(total)
    f.defjvp(lambda primals, tangents: (total(*primals), 2.0 * fc.jvp(total, primals, tangents)[1]))
    for g in (fc.grad(f), fc.jit(fc.grad(f))):
        np.testing.assert_allclose(g(w), 2.0 * fc.grad(total)(w), rtol=1e-12)
    assert {*map(float, seen)} == {3.0}
