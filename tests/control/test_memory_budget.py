"""Loops with a memory budget: the gradients of an ordinary scan, by fewer kept states and more turns."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.control import loop_reversal
from funcad.control import reversal_schedules as schedules
from funcad.control.checkpoint import saved_residuals

pytestmark = pytest.mark.group("alone")  # of time, memory, threads or counts

memory_budget = funcad.checkpoint_policies.memory_budget
RNG = np.random.default_rng(0)
W, X, H = 0.5 * RNG.normal(size=(6, 6)), RNG.normal(size=(61, 6)), RNG.normal(size=6)
BUDGETS = [10**6, 4000, 1500, 700, 300]


# ---------------------------------------------------------------- schedules


@functools.cache
def fewest(length: int, slots: int) -> int:
    """By trying every middle."""
    if slots == 1 or length == 1:
        return length * (length - 1) // 2
    return min(m + fewest(length - m, slots - 1) + fewest(m, slots) for m in range(1, length))


def executed(length: int, slots: int) -> int:
    """How many blocks are advanced, by the states that are kept on the way forward and the table of the way back."""
    table = schedules.reach_table(slots, 1 + schedules.most_times(length, slots))
    held, n = schedules.kept_ahead(length, slots), length - 1
    if held[-1] < length - 1:
        held.append(length - 1)  # in the slot beyond the others
    for i in reversed(range(length)):
        held = [place for place in held if place <= i]
        while held[-1] < i and len(held) < slots:
            m = int(loop_reversal._middle(np.array(table), np.int64(i - held[-1] + 1), np.int64(slots + 1 - len(held))))
            held.append(held[-1] + m)
            n += m
        n += i - held[-1]
    return n


@pytest.mark.parametrize("slots", range(1, 8))
def test_schedules_advance_as_few_blocks_as_can_be(slots: int) -> None:
    for length in range(1, 45):
        assert schedules.advances(length, slots) == fewest(length, slots) == executed(length, slots)


def test_a_long_schedule() -> None:
    assert executed(3000, 20) == schedules.advances(3000, 20) < 4 * 3000


def test_the_turns_of_a_block_follow_the_room() -> None:
    assert schedules.blocks_of(40_000, 4000, 8000, 1e4) is None
    for room in (2e4, 1e5, 1e6, 1e7):
        size, slots = schedules.blocks_of(40_000, 4000, 8000, room) or (0, 0)
        assert size * 8000 + (slots + 1) * 4000 <= room
    few, many = [schedules.blocks_of(40_000, 4000, 8000, room) for room in (5e4, 1e7)]
    turns = [size * schedules.advances(-(-40_000 // size), slots) for size, slots in (few or (), many or ())]
    assert turns[1] < 1.1 * 40_000 < turns[0]


# ---------------------------------------------------------------- gradients


def network(w: Any, h: Any, xs: Any, policy: Any = None, reverse: bool = False) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = np.tanh(w @ h + x)
        return h, np.sum(np.where(h > 0, h, 0.0) * h)

    h, ys = funcad.scan(step, h, xs, reverse=reverse, policy=policy)
    return np.sum(h) + np.sum(np.sin(ys))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", BUDGETS)
def test_gradients_are_the_same_to_the_last_bit(size: int, reverse: bool) -> None:
    with funcad.config.set(engine="interpreter"):
        expected = funcad.grad(lambda *a: network(*a, None, reverse), (0, 1, 2))(W, H, X)
        found = funcad.grad(lambda *a: network(*a, memory_budget(size), reverse), (0, 1, 2))(W, H, X)
    for a, b in zip(found, expected):
        assert a.tobytes() == b.tobytes()


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f,
    "grad": lambda f: funcad.grad(f, (0, 1, 2)),
    "jit of grad": lambda f: funcad.jit(funcad.grad(f, (0, 1, 2))),
    "grad of jit": lambda f: funcad.grad(funcad.jit(f), (0, 1, 2)),
    "some": lambda f: funcad.grad(f, 1),
    "jvp": lambda f: lambda *a: funcad.jvp(f, a, a)[1],
    "hvp": lambda f: lambda w, h, x: funcad.hvp(lambda h: f(w, h, x), (h,), (np.cos(h),)),
    "reverse over reverse": lambda f: lambda w, h, x: funcad.grad(
        lambda h: np.sum(funcad.grad(lambda h: f(w, h, x))(h) ** 2)
    )(h),
    "hessian": lambda f: lambda w, h, x: funcad.hessian(lambda h: f(w, h, x))(h),
    "jacrev of grad": lambda f: lambda w, h, x: funcad.jacrev(funcad.grad(lambda h: f(w, h, x)))(h),
    "vmap of grad": lambda f: lambda w, h, x: (
        funcad.vmap(funcad.grad(f, (0, 1, 2)), (None, 0, None))(w, np.stack([h, 2 * h]), x)
    ),
    "grad of vmap": lambda f: funcad.grad(
        lambda w, h, x: np.sum(funcad.vmap(f, (None, 0, None))(w, np.stack([h, 2 * h]), x)), (0, 1, 2)
    ),
    "jit of vmap of grad": lambda f: funcad.jit(
        lambda w, h, x: funcad.vmap(funcad.grad(f, (0, 1, 2)), (None, 0, None))(w, np.stack([h, 2 * h]), x)
    ),
    "linearize": lambda f: lambda *a: funcad.linearize(f, *a)[1](*a),
    "checkpoint": lambda f: funcad.grad(funcad.checkpoint(f), (0, 1, 2)),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("size", [4000, 700])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transformations(name: str, size: int) -> None:
    transform = TRANSFORMS[name]
    xs = X[:17]
    expected = transform(network)(W, H, xs)
    again = transform(lambda *a: network(*a, memory_budget(size)))
    for _ in range(3):
        for a, b in zip(funcad.tree.leaves(again(W, H, xs)), funcad.tree.leaves(expected)):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_loops_with_counters_and_trees() -> None:
    def total(x: Any, policy: Any = None) -> Any:
        def step(i: Any, value: Any) -> Any:
            return {"x": np.sin(value["x"]) + i * x, "n": value["n"] + 1}

        found = funcad.fori_loop(0, 50, step, {"x": x, "n": 0}, policy=policy)
        return np.sum(found["x"]) * found["n"]

    for dtype in (np.float32, np.float64):
        x = np.linspace(0.1, 1.0, 20).astype(dtype)
        expected = funcad.grad(total)(x)
        for f in (funcad.grad, lambda f: funcad.jit(funcad.grad(f))):
            found = f(lambda x: total(x, memory_budget("1 kB")))(x)
            assert found.dtype == dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == np.float32 else 1e-10)


def test_masks_of_earlier_turns_hold_through_blocks() -> None:
    """The derivative of sqrt at 0 meets elements that `where` did not select, turns before."""

    def f(x: Any, policy: Any = None) -> Any:
        def step(c: Any, _: Any) -> Any:
            return np.where(c > 0, np.sqrt(c), 0.0), None

        return np.sum(funcad.scan(step, x, length=30, policy=policy)[0])

    x = np.array([0.0, 1.0, 2.0, 0.0] * 10)
    expected = funcad.grad(f)(x)
    assert np.isfinite(expected).all()
    for policy in (memory_budget(4000), memory_budget(1500)):
        np.testing.assert_allclose(funcad.grad(f)(x, policy), expected, rtol=1e-12)


def test_effects_happen_once(capsys: Any) -> None:
    def f(x: Any) -> Any:
        def step(c: Any, i: Any) -> Any:
            funcad.debug.print("{}", i)
            return np.sin(c), None

        return np.sum(funcad.scan(step, x, np.arange(20), policy=memory_budget("400 B"))[0])

    funcad.grad(f)(np.ones(8))
    assert capsys.readouterr().out.split() == [str(i) for i in range(20)]


def bytes_kept(f: Any, x: Any) -> int:
    """Between the forward and the backward pass, besides arguments and what was captured."""
    return sum([aval.size * aval.dtype.itemsize for aval, origin in saved_residuals(f, x) if not origin.startswith("from")])


def test_what_is_kept_fits() -> None:
    a, x = np.linspace(0.9, 1.1, 100), np.linspace(-1.0, 1.0, 100)

    def kept(policy: Any) -> int:
        def loss(x: Any) -> Any:
            return np.sum(funcad.scan(lambda c, _: (np.sin(a * c), None), x, length=5000, policy=policy)[0])

        return bytes_kept(loss, x)

    assert kept(None) >= 5000 * x.nbytes
    for size in (200_000, 50_000, 10_000):
        assert 0 < kept(memory_budget(size)) <= size


# ---------------------------------------------------------------- checkpoint


def layers(x: Any) -> Any:
    for _ in range(6):
        x = np.tanh(x @ W) * np.exp(-x * x) + np.sin(x)
    return np.sum(x)


@pytest.mark.parametrize("size", [1, 3000, 10_000, 10**6])
def test_a_function_keeps_what_it_may(size: int) -> None:
    limited = funcad.checkpoint(layers, policy=memory_budget(size))
    for transform in (funcad.grad, lambda f: funcad.jit(funcad.grad(f)), lambda f: lambda x: funcad.hvp(f, (x,), (np.cos(x),))):
        np.testing.assert_allclose(transform(limited)(X), transform(layers)(X), rtol=1e-9, atol=1e-12)
    kept, full = bytes_kept(limited, X), bytes_kept(layers, X)
    assert kept <= size and bool(kept) == (size >= X.nbytes)
    assert size < X.nbytes or kept >= min(size, full) // 2


def test_loops_in_a_function_share_its_budget() -> None:
    def f(x: Any) -> Any:
        a, _ = funcad.scan(lambda c, _: (np.sin(c), None), x, length=300)
        return np.sum(funcad.jit(lambda a: funcad.scan(lambda c, _: (np.cos(c * x), None), a, length=300)[0])(a) ** 2)

    x = np.linspace(0.1, 1.0, 50)
    limited = funcad.checkpoint(f, policy=memory_budget("30 kB"))
    np.testing.assert_allclose(funcad.grad(limited)(x), funcad.grad(f)(x), rtol=1e-9)
    text = str(funcad.make_jaxpr(funcad.grad(limited))(x))
    assert "f64[300,50]" in str(funcad.make_jaxpr(funcad.grad(f))(x)) and "f64[300,50]" not in text


# ---------------------------------------------------------------- sizes and messages


def test_sizes() -> None:
    assert memory_budget("64MB") == memory_budget(64_000_000) == memory_budget(" 64e3 kB")
    assert memory_budget("1.5 GiB").size == 3 * 2**29
    for wrong in ("64 apples", "", "-3 MB", 0, -1, 1.5, True, None):
        with pytest.raises(ValueError, match="memory_budget"):
            memory_budget(wrong)  # type: ignore[arg-type]


def test_a_budget_that_is_too_small_says_what_is_needed() -> None:
    with pytest.raises(ValueError, match="too small to run this loop backwards(.|\n)*give it [0-9,]+ bytes at least"):
        funcad.grad(lambda h: network(W, h, X, memory_budget(60)))(H)
    assert network(W, H, X, memory_budget(60)) == network(W, H, X)  # forward alone keeps nothing


def test_other_policies_are_taken_of_the_body() -> None:
    expected = funcad.grad(network, (0, 1, 2))(W, H, X)
    policy = funcad.checkpoint_policies.dots_saveable
    found = funcad.grad(lambda *given: network(*given, policy), (0, 1, 2))(W, H, X)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-10)
