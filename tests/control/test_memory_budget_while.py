"""`while_loop` with a memory budget: the gradients of one without, by fewer kept states, though its length is not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.control import loop_reversal
from funcad.control.checkpoint import saved_residuals
from funcad.control.reversal_schedules import _reach, advances, reach_table
from funcad.show.pretty import shown_as

pytestmark = pytest.mark.share(2)  # of its tables of cases

memory_budget = funcad.checkpoint_policies.memory_budget
RNG = np.random.default_rng(0)
W, H = 0.5 * RNG.normal(size=(6, 6)), RNG.normal(size=6)
BUDGETS = [10**6, 4000, 1500, 700, 300]
LENGTHS = [0, 1, 2, 3, 8, 61, 200]


def network(w: Any, h: Any, n: Any, policy: Any = None) -> Any:
    def step(value: Any) -> Any:
        i, h, total = value
        h = np.tanh(w @ h + 0.1)
        return i + 1, h, total + np.sum(np.where(h > 0, h, 0.0) * h)

    _, h, total = funcad.while_loop(lambda value: value[0] < n, step, (0, h, 0.0), policy=policy)
    return np.sum(h) + total


@pytest.mark.share(4)
@pytest.mark.parametrize("size", BUDGETS)
@pytest.mark.parametrize("n", LENGTHS)
def test_gradients_are_the_same_to_the_last_bit(n: int, size: int) -> None:
    with funcad.config.set(engine="interpreter"):
        expected = funcad.grad(network, (0, 1))(W, H, n)
        found = funcad.grad(network, (0, 1))(W, H, n, memory_budget(size))
    for a, b in zip(found, expected):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("engine", ["auto", "numpy"])
def test_one_program_for_all_lengths(engine: str) -> None:
    with funcad.config.set(engine=engine):
        f = funcad.jit(funcad.grad(lambda w, h, n: network(w, h, n, memory_budget(900)), (0, 1)))
        for n in (*LENGTHS, *LENGTHS):
            for a, b in zip(f(W, H, n), funcad.grad(network, (0, 1))(W, H, n)):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f,
    "grad of jit": lambda f: funcad.grad(funcad.jit(f), (0, 1)),
    "some": lambda f: funcad.grad(f, 1),
    "jvp": lambda f: lambda *a: funcad.jvp(f, a, a)[1],
    "hvp": lambda f: lambda w, h: funcad.hvp(lambda h: f(w, h), (h,), (np.cos(h),)),
    "reverse over reverse": lambda f: lambda w, h: funcad.grad(lambda h: np.sum(funcad.grad(lambda h: f(w, h))(h) ** 2))(h),
    "hessian": lambda f: lambda w, h: funcad.hessian(lambda h: f(w, h))(h),
    "jit of hessian": lambda f: funcad.jit(lambda w, h: funcad.hessian(lambda h: f(w, h))(h)),
    "vmap of grad": lambda f: lambda w, h: funcad.vmap(funcad.grad(f, (0, 1)), (None, 0))(w, np.stack([h, 2 * h])),
    "grad of vmap": lambda f: funcad.grad(lambda w, h: np.sum(funcad.vmap(f, (None, 0))(w, np.stack([h, 2 * h]))), (0, 1)),
    "jit of vmap of grad": lambda f: funcad.jit(
        lambda w, h: funcad.vmap(funcad.grad(f, (0, 1)), (None, 0))(w, np.stack([h, 2 * h]))
    ),
    "linearize": lambda f: lambda *a: funcad.linearize(f, *a)[1](*a),
    "checkpoint": lambda f: funcad.grad(funcad.checkpoint(f), (0, 1)),
    "in a scan": lambda f: funcad.grad(
        lambda w, h: funcad.scan(lambda c, x: (c + f(w, c * x + h), None), h, np.array([1.0, 0.5, 0.1]))[0][0], (0, 1)
    ),
    "in a while_loop": lambda f: funcad.grad(
        lambda w, h: funcad.while_loop(lambda v: v[0] < 3, lambda v: (v[0] + 1, np.tanh(v[1] + f(w, v[1]))), (0, h))[1][0],
        (0, 1),
    ),
    "in a branch": lambda f: funcad.grad(
        lambda w, h: funcad.cond(h[0] > 9, lambda h: np.sum(h), lambda h: f(w, h), h), (0, 1)
    ),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("size", [4000, 700])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transformations(name: str, size: int) -> None:
    transform = TRANSFORMS[name]
    expected = transform(lambda w, h: network(w, h, 19))(W, H)
    again = transform(lambda w, h: network(w, h, 19, memory_budget(size)))
    for _ in range(3):
        for a, b in zip(funcad.tree.leaves(again(W, H)), funcad.tree.leaves(expected)):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_lanes_that_stop_at_different_times() -> None:
    def f(x: Any, policy: Any = None) -> Any:
        return funcad.while_loop(lambda v: np.sum(v) < 50.0, lambda v: 1.2 * v + np.sin(v) ** 2, x, policy=policy)[0]

    xs = np.array([[0.1, 0.2], [3.0, 4.0], [60.0, 0.0], [0.01, 0.02]])
    expected = np.stack([funcad.grad(f)(x) for x in xs])
    for policy in (None, memory_budget(2000), memory_budget(400)):
        limited = lambda x: f(x, policy)  # noqa: B023 runs at once
        each, whole = funcad.vmap(funcad.grad(limited)), funcad.grad(lambda x: np.sum(funcad.vmap(limited)(x)))  # noqa: B023
        for g in (each, funcad.jit(each), whole, funcad.jit(whole)):
            np.testing.assert_allclose(g(xs), expected, rtol=1e-11)


def test_dtypes_trees_and_a_count_that_is_computed() -> None:
    def total(x: Any, policy: Any = None) -> Any:
        def step(v: Any) -> Any:
            return {"x": np.sin(v["x"]) + v["n"] * x, "n": v["n"] + 1, "z": v["z"] * (0.9 + 0.1j)}

        start = {"x": x, "n": 0, "z": x + 1j * x}
        found = funcad.while_loop(lambda v: v["n"] < 45, step, start, policy=policy)
        return np.sum(found["x"]) * found["n"] + np.sum(np.abs(found["z"]))

    for dtype in (np.float32, np.float64):
        x = np.linspace(0.1, 1.0, 20).astype(dtype)
        expected = funcad.grad(total)(x)
        for f in (funcad.grad, lambda f: funcad.jit(funcad.grad(f))):
            found = f(lambda x: total(x, memory_budget("2 kB")))(x)
            assert found.dtype == dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == np.float32 else 1e-10)


def test_masks_of_earlier_turns_hold_through_blocks() -> None:
    def f(x: Any, policy: Any = None) -> Any:
        step = lambda v: (v[0] + 1, np.where(v[1] > 0, np.sqrt(v[1]), 0.0))
        return np.sum(funcad.while_loop(lambda v: v[0] < 30, step, (0, x), policy=policy)[1])

    x = np.array([0.0, 1.0, 2.0, 0.0] * 10)
    expected = funcad.grad(f)(x)
    assert np.isfinite(expected).all()
    for policy in (memory_budget(4000), memory_budget(1500)):
        np.testing.assert_array_equal(funcad.grad(f)(x, policy), expected)


def test_effects_happen_once(capsys: Any) -> None:
    def f(x: Any) -> Any:
        def step(v: Any) -> Any:
            funcad.debug.print("{}", v[0])
            return v[0] + 1, np.sin(v[1])

        return np.sum(funcad.while_loop(lambda v: v[0] < 20, step, (0, x), policy=memory_budget("400 B"))[1])

    funcad.grad(f)(np.ones(8))
    assert capsys.readouterr().out.split() == [str(i) for i in range(20)]


def test_fori_loops_whose_bounds_come_late() -> None:
    def f(x: Any, n: Any, policy: Any = None) -> Any:
        return np.sum(funcad.fori_loop(0, n, lambda i, x: np.sin(x) + 0.01 * i, x, policy=policy))

    x = np.linspace(0.0, 1.0, 9)
    for policy in (memory_budget(500), funcad.checkpoint_policies.dots_saveable):
        g = funcad.jit(funcad.grad(lambda x, n: f(x, n, policy)))  # noqa: B023 runs at once
        for n in (0, 5, 40, 5):
            np.testing.assert_allclose(g(x, n), funcad.grad(f)(x, n), rtol=1e-12)
    found = funcad.grad(lambda x: network(W, x, 7, funcad.checkpoint_policies.nothing_saveable))(H)
    np.testing.assert_allclose(found, funcad.grad(lambda x: network(W, x, 7))(H), rtol=1e-12)


# ---------------------------------------------------------------- how many turns run


def turns_of(n: int, size: int) -> int:
    """Executions of the body in a gradient of so many turns."""
    count = [0]

    def counted(x: Any) -> Any:
        count[0] += 1
        return x

    def f(x: Any) -> Any:
        def step(v: Any) -> Any:
            i = funcad.pure_callback(counted, v[0], v[0])
            return i + 1, np.sin(v[1])

        return np.sum(funcad.while_loop(lambda v: v[0] < n, step, (np.int64(0), x), policy=memory_budget(size))[1])

    with funcad.config.set(engine="interpreter"):
        funcad.grad(f)(np.ones(8))
    return count[0]


@pytest.mark.parametrize("n", [1, 10, 64, 300])
@pytest.mark.parametrize("slots", [2, 3, 8, 21])
def test_few_turns_run_again(n: int, slots: int, monkeypatch: Any) -> None:
    """Forward, and once more with residuals; between them hardly more than if the length had been known."""
    monkeypatch.setattr(loop_reversal, "blocks_of", lambda *given: (1, slots))
    advanced = turns_of(n, 10**4 + slots) - 2 * n
    assert 0 <= advanced <= 2 * advances(n, slots) + n


def test_states_are_kept_further_and_further_apart() -> None:
    """Of half the slots at least, at equal distances."""
    for n in (5, 40, 1000):
        x = np.ones(3)
        loop = lambda x: funcad.while_loop(lambda v: v[0] < n, lambda v: (v[0] + 1, np.sin(v[1])), (0, x))  # noqa: B023
        equation = next(e for e in funcad.make_jaxpr(loop)(x).jaxpr.equations if shown_as(e) == "while_loop")
        plan = loop_reversal.Plan(equation.params["loop"], 2, 8, ())
        captured = [np.int64(n)] * plan.loop.n_counts
        _, (count, order, blocks, used, *slots) = loop_reversal._forward_while(plan, captured, [], [np.int64(0), x], [])
        kept = (2 * blocks[:used]).tolist()
        apart = kept[1] - kept[0]
        assert count == n and kept == list(range(0, n, apart)) and (len(kept) >= 4 or apart == 2)
        assert sorted(order) == list(range(9)) and slots[0][order[:used]].tolist() == kept


def test_the_middle_of_the_table_is_that_of_the_schedule() -> None:
    table = np.array(reach_table(8, loop_reversal.TIMES))
    for slots in range(2, 9):
        for blocks in (2, 3, 5, 17, 100, 700):
            m = int(loop_reversal._middle(table, np.int64(blocks), np.int64(slots)))
            assert 1 <= m < blocks
            if _reach(slots, loop_reversal.TIMES - 1) >= blocks:
                behind, before = blocks - m, m
                assert m + advances(behind, slots - 1) + advances(before, slots) == advances(blocks, slots)


def bytes_kept(f: Any, x: Any) -> int:
    return sum([aval.size * aval.dtype.itemsize for aval, origin in saved_residuals(f, x) if not origin.startswith("from")])


def test_what_is_kept_fits() -> None:
    a, x = np.linspace(0.9, 1.1, 100), np.linspace(-1.0, 1.0, 100)
    for size in (200_000, 50_000, 10_000):
        policy, step = memory_budget(size), lambda v: (v[0] + 1, np.sin(a * v[1]))
        loop = lambda x: np.sum(funcad.while_loop(lambda v: v[0] < 5000, step, (0, x), policy=policy)[1])  # noqa: B023
        assert 0 < bytes_kept(loop, x) <= size


def test_a_budget_that_is_too_small_says_what_is_needed() -> None:
    with pytest.raises(ValueError, match="too small to run this loop backwards(.|\n)*give it [0-9,]+ bytes at least"):
        funcad.grad(lambda h: network(W, h, 9, memory_budget(60)))(H)
    np.testing.assert_allclose(network(W, H, 9, memory_budget(60)), network(W, H, 9), rtol=1e-14)  # forward alone keeps nothing


# ---------------------------------------------------------------- in checkpointed functions


def test_loops_in_branches_share_the_budget_of_a_function() -> None:
    def f(x: Any) -> Any:
        long = lambda x: funcad.scan(lambda c, _: (np.sin(c), None), x, length=300)[0]
        either = funcad.cond(np.sum(x) > 0, long, lambda x: funcad.switch(1, [np.cos, np.sin], x), x)
        _, found = funcad.while_loop(lambda v: v[0] < 300, lambda v: (v[0] + 1, np.cos(v[1] * x)), (0, either))
        return np.sum(found**2)

    limited = funcad.checkpoint(f, policy=memory_budget("30 kB"))
    for sign in (1.0, -1.0):
        x = sign * np.linspace(0.1, 1.0, 50)
        np.testing.assert_allclose(funcad.grad(limited)(x), funcad.grad(f)(x), rtol=1e-9)
        np.testing.assert_allclose(funcad.jit(funcad.grad(limited))(x), funcad.grad(f)(x), rtol=1e-9)
    text = str(funcad.make_jaxpr(funcad.grad(limited))(x))
    assert "f64[300,50]" in str(funcad.make_jaxpr(funcad.grad(f))(x)) and "f64[300,50]" not in text
    assert "Stack[f64[50]]" in str(funcad.make_jaxpr(funcad.grad(f))(x)).replace("stack", "Stack")
