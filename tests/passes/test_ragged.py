"""Turns over triangles: padded, rolled, and the same numbers as written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.ir.interpret import eval_jaxpr
from funcad.passes.ragged import pad
from funcad.passes.redundancy import inline
from funcad.passes.roll import roll
from funcad.passes.strong_numbers import strong_numbers
from funcad.testing import check_grads
from tests.whole.array_kernels import KERNELS

RNG = np.random.default_rng(31)
SQUARE = RNG.uniform(0.5, 1.5, (24, 24)) + 24 * np.eye(24)
LINE = RNG.uniform(0.2, 1.2, 24)
LARGER: dict[str, tuple[Any, ...]] = {
    "trmm": (1.5, SQUARE, SQUARE[:, :9]),
    "symm": (1.5, 1.2, SQUARE[:, :9], SQUARE, SQUARE[:, 9:18]),
    "syrk": (1.5, 1.2, SQUARE, SQUARE[:, :7]),
    "syr2k": (1.5, 1.2, SQUARE, SQUARE[:, :7], SQUARE[:, 7:14]),
    "trisolv": (np.tile(SQUARE, (2, 2)) + 20 * np.eye(48), np.tile(LINE, 2), np.tile(LINE, 2)),
    "lu": (SQUARE,),
    "ludcmp": (SQUARE, LINE),
    "cholesky": (SQUARE @ SQUARE.T,),
    "gramschmidt": (SQUARE,),
    "correlation": (np.tile(SQUARE, (1, 2)),),
    "covariance": (24.0, np.tile(SQUARE, (1, 2))),
}

LARGER = {name: tuple([a.copy() if isinstance(a, np.ndarray) else a for a in args]) for name, args in LARGER.items()}


def program(f: Callable[..., Any], *args: Any) -> tuple[Any, list[Any]]:
    """The program before it is rolled, and what it is called with."""
    closed = funcad.make_jaxpr(f)(*args)
    return strong_numbers(inline(closed.jaxpr)), [*closed.consts, *args]


def shapes(jaxpr: Any) -> set[tuple[int, ...]]:
    return {v.aval.shape for e in jaxpr.equations for v in e.outputs}


def same_bits(f: Callable[..., Any], *args: Any) -> Any:
    """The padded program of f, which must give the bits of f's own."""
    plain, values = program(f, *args)
    padded = pad(plain)
    for one, other in zip(eval_jaxpr(plain, values), eval_jaxpr(padded, values)):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    return padded


def of_kernel(name: str) -> Callable[..., Any]:
    f = KERNELS[name].f

    def total(*args: Any) -> Any:
        found = f(*[a.copy() if hasattr(a, "copy") else a for a in args])
        return sum([np.sum(o * o) for o in (found if isinstance(found, tuple) else (found,))])

    return total


@pytest.mark.share(4)
@pytest.mark.parametrize("name", LARGER)
def test_kernels_over_triangles_become_loops(name: str) -> None:
    args = LARGER[name]
    f = of_kernel(name)
    wanted = tuple(i for i, a in enumerate(args) if isinstance(a, np.ndarray))
    for g in (f, funcad.grad(f, wanted)):
        plain, values = program(g, *args)
        rolled = roll(plain)
        assert 2 * len(rolled.equations) < len(plain.equations)
        for one, other in zip(eval_jaxpr(plain, values), eval_jaxpr(rolled, values)):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", ["trisolv", "covariance", "lu"])
def test_jitted_and_differentiated(name: str) -> None:
    args = LARGER[name]
    f = of_kernel(name)
    wanted = tuple(i for i, a in enumerate(args) if isinstance(a, np.ndarray))
    g = funcad.grad(f, wanted)
    with funcad.config.set(jit_patience=0):
        compiled = funcad.jit(g)
        for _ in range(2):
            for one, other in zip(g(*args), compiled(*args)):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def test_turns_of_one_shape() -> None:
    def f(x: Any) -> Any:
        total = 0.0
        for i in range(1, len(x)):
            total = total + x[i] * np.max(x[i - 1 : i + 1] * 2.0) * np.sum(np.sin(x[:i]))
        return total

    plain, _ = program(f, LINE)
    assert len(shapes(plain)) > 20
    assert shapes(same_bits_but_for_sums(f, LINE)) == {(), (2,), (24,)}


def same_bits_but_for_sums(f: Callable[..., Any], *args: Any) -> Any:
    plain, values = program(f, *args)
    padded = pad(plain)
    for one, other in zip(eval_jaxpr(plain, values), eval_jaxpr(padded, values)):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    return padded


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.int64])
def test_writes_of_every_length(dtype: Any) -> None:
    x = (10 * LINE).astype(dtype)

    def f(x: Any) -> Any:
        y = np.zeros((len(x), len(x)), x.dtype)
        for i in range(len(x)):
            y[i, : i + 1] = x[: i + 1] * x[i] - x[i]
            y[i:, i] += x[i:]
        return y

    assert len(shapes(same_bits(f, x))) < 8


def test_what_is_outside_reaches_nothing() -> None:
    x = LINE.copy()
    x[-1] = np.nan

    def f(x: Any) -> Any:
        y = np.full((len(x), len(x)), -0.0)
        for i in range(len(x)):
            y[i, :i] = -x[:i] * 0.0
        return y, np.stack([x[:i] @ x[:i] for i in range(len(x))]), np.stack([np.sum(1.0 / x[:i]) for i in range(len(x))])

    plain, values = program(f, x)
    assert len(shapes(pad(plain))) < len(shapes(plain)) - 15
    for one, other in zip(eval_jaxpr(plain, values), eval_jaxpr(pad(plain), values)):
        np.testing.assert_allclose(one, other, rtol=1e-12)
        assert (np.signbit(one) == np.signbit(other)).all()


def test_values_of_a_turn_that_are_read_later() -> None:
    def f(x: Any) -> Any:
        kept = [np.exp(x[i:]) * x[i] for i in range(len(x))]
        return [kept[3], kept[17][::-1], np.concatenate(kept[5:8])]

    same_bits(f, LINE)


def test_two_axes_and_operands_that_differ() -> None:
    def f(a: Any, x: Any) -> Any:
        out = []
        for i in range(1, len(x)):
            block = a[:i, i:] * x[i]
            out.append(np.sum(block @ x[i:] * x[:i]) + np.sum(x[1 : i + 1] - x[:i]) + np.sum(block))
        return np.stack(out)

    same_bits_but_for_sums(f, SQUARE, LINE)
    check_grads(f, (SQUARE, LINE), order=1, modes=("rev",))


def test_steps_and_narrow_bands_stay() -> None:
    def steps(x: Any) -> Any:
        return np.stack([np.sum(x[:i:2] * 2.0) for i in range(len(x))])

    def band(x: Any) -> Any:
        return np.stack([np.sum(x[i : i + 2 + i % 2] * 2.0) for i in range(3000)])

    for f, x in ((steps, LINE), (band, np.ones(3010))):
        plain, _ = program(f, x)
        assert pad(plain) is plain


def test_no_further_than_the_turns_reach() -> None:
    """A triangle in the corner of a matrix, in two loops whose turns reach differently far."""

    def f(a: Any) -> Any:
        for j in range(1, 17):
            a[16, j] -= a[16, :j] @ a[:j, j]
        for j in range(1, 16):
            a[20, j] -= np.sum(a[16, 1:j] * a[20, 1:j])
        return a

    plain, values = program(lambda a: f(a.copy()), SQUARE)
    padded = pad(plain)
    np.testing.assert_allclose(eval_jaxpr(padded, values)[0], f(SQUARE.copy()), rtol=1e-12)
    widths = {s[0] for s in shapes(padded) if len(s) == 1}
    assert {14, 16} <= widths and max(widths - {24}) == 16  # 24: the numbers of elements are told apart by


def test_a_value_is_read_with_another_reach() -> None:
    """What the first loop keeps of its slices is read by a second one, which begins two turns later."""

    def f(x: Any) -> Any:
        kept = [np.sin(x[:k]) for k in range(1, 18)]
        found = 0.0
        for k in range(3, 18):
            found = found * 0.5 + np.sum(kept[k - 1] * x[:k] * x[1 : k + 1])
        return found

    same_bits(f, LINE)
    np.testing.assert_allclose(funcad.jit(f)(LINE), f(LINE), rtol=1e-12)
    check_grads(funcad.jit(f), (LINE,), order=1)


@pytest.mark.parametrize("name", ["lu", "cholesky", "ludcmp"])
def test_loops_two_deep_are_rolled_from_eight_turns_on(name: str) -> None:
    f, args = of_kernel(name), LARGER[name]
    g = funcad.grad(lambda *a: sum([np.sum(x) for x in funcad.tree_util.tree_leaves(f(*[x.copy() for x in a]))]))
    plain, _ = program(g, *args)
    assert len(roll(plain).equations) < len(plain.equations) / 3
