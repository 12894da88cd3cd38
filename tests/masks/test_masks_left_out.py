"""Loops run backwards without masks where all of them would be True, and with them where one element may not be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, hessian, jacfwd, jacrev, jit, scan, vmap
from funcad.show.pretty import shown_as

X = np.array([0.5, 1.5, 2.5])


def carries_bools(f: Any, x: Any) -> bool:
    """Has a loop of the gradient a carry of bools?"""
    found = False
    for e in funcad.make_jaxpr(grad(f))(x).jaxpr.equations:
        if shown_as(e) == "scan":
            loop = e.params["loop"]
            found = found or any([a.dtype == bool for a in loop.carried(loop.body.in_avals)])
    return found


def forward_algorithm(x: Any) -> Any:
    """Masks begin where one element of the largest is read, and end in the same turn."""
    moves = np.log(np.outer(x, x) / np.sum(x * x))
    step = lambda alpha, y: (np.max(alpha) + np.log(np.sum(np.exp(alpha[:, None] + moves - np.max(alpha)), axis=0)) * y, None)
    return np.sum(scan(step, np.log(x), X)[0])


def waves(x: Any) -> Any:
    """Slices that are put together again, as a roll does it."""
    roll = lambda u: np.concatenate([u[1:], u[:1]])

    def step(state: Any, _: Any) -> Any:
        u, v = state
        return (u + 0.1 * v / u, v + 0.1 * (roll(u) - u)), None

    u, v = scan(step, (np.sqrt(x), 0.3 / x), None, 4)[0]
    return np.sum(u * u + v * v)


def late(x: Any) -> Any:
    """Of the pair one is read in the end: the other has no cotangent in the last turn, where its slope is infinite."""

    def step(pair: Any, y: Any) -> Any:
        b = pair[1]
        return (b, np.sqrt(np.where(y > 0, b, 2.0 * b)) - 1.0), None

    return np.sum(scan(step, (x, x), np.ones(2))[0][0])


def selected(x: Any) -> Any:
    """A turn masks what comes out of the turn before, whose slope may be infinite."""
    return np.sum(scan(lambda c, y: (np.where(c > 0, np.sqrt(c), 0.0) * y, None), x, X)[0])


def chosen(x: Any) -> Any:
    """Masks that begin in the loop go out of its constants, to an infinite slope."""
    roots = np.sqrt(x)
    return scan(lambda c, y: (c + y * np.sum(np.where(x * y > 0, roots, 0.0)), None), 0.0, X)[0]


@pytest.mark.parametrize(("f", "left_out"), [(forward_algorithm, True), (waves, True), (late, False), (chosen, False)])
def test_masks_are_carried_where_one_may_be_false(f: Any, left_out: bool) -> None:
    assert carries_bools(f, X) != left_out


@pytest.mark.share(3)
@pytest.mark.parametrize("f", [forward_algorithm, waves, late, selected, chosen])
def test_derivatives_agree_in_both_directions(f: Any) -> None:
    np.testing.assert_allclose(grad(f)(X), jacfwd(f)(X), rtol=1e-10)
    np.testing.assert_allclose(hessian(f)(X), jacrev(jacrev(f))(X), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(jit(grad(f))(X), grad(f)(X), rtol=1e-10)
    np.testing.assert_allclose(jit(vmap(grad(f)))(np.stack([X, 2 * X])), [grad(f)(X), grad(f)(2 * X)], rtol=1e-10)


def test_at_special_points_masks_say_what_they_said() -> None:
    np.testing.assert_array_equal(grad(late)(np.ones(2)), [0.5, 0.5])
    np.testing.assert_array_equal(jit(grad(late))(np.ones(2)), [0.5, 0.5])
    zeros = np.array([0.0, 1.0])
    for f in (selected, chosen):
        found = grad(f)(zeros)
        assert found[0] == 0.0 and np.isfinite(found[1])
        np.testing.assert_array_equal(jit(grad(f))(zeros), found)
        np.testing.assert_array_equal(vmap(grad(f))(zeros[None])[0], found)
