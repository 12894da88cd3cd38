"""State that jitted functions keep when one is called by another, is large, or grows beyond 64 bits."""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad import grad, hessian, jit, tree, value_and_grad, vjp, vmap
from funcad.errors import NotCompiledWarning
from funcad.jitted import first_calls

X = np.ones(1)


class Filter:
    """A filter of first order, which keeps what it gave."""

    def __init__(self) -> None:
        self.z = np.zeros(1)

    def __call__(self, x: Any) -> Any:
        self.z = 0.5 * self.z + x
        return self.z * 2.0


def as_it_is(f: Any) -> Any:
    return f


def by_closure(o: Filter, jit: Any) -> Any:
    def f(x: Any) -> Any:
        o.z = 0.5 * o.z + x
        return o.z * 2.0

    g = jit(f)
    return jit(lambda x: g(x) * 1.0)


def made_inside(o: Filter, jit: Any) -> Any:
    def f(x: Any) -> Any:
        o.z = 0.5 * o.z + x
        return o.z * 2.0

    return jit(lambda x: jit(f)(x) * 1.0)


def object_itself(o: Filter, jit: Any) -> Any:
    g = jit(o)
    return jit(lambda x: g(x) * 1.0)


def object_made_inside(o: Filter, jit: Any) -> Any:
    return jit(lambda x: jit(o)(x) * 1.0)


def three_deep(o: Filter, jit: Any) -> Any:
    g = jit(o)
    h = jit(lambda x: g(x) * 1.0)
    return jit(lambda x: h(x) + g(x))


def also_read_outside(o: Filter, jit: Any) -> Any:
    g = jit(o)
    return jit(lambda x: o.z + g(x) * 1.0 + o.z)


def also_stored_outside(o: Filter, jit: Any) -> Any:
    def f(x: Any) -> Any:
        o.z = 0.5 * o.z + x
        return o.z * 2.0

    def h(x: Any) -> Any:
        y = jit(f)(x)
        o.z = o.z * 0.9
        return y + jit(f)(y)

    return jit(h)


@pytest.mark.parametrize("make", [
    by_closure, made_inside, object_itself, object_made_inside, three_deep, also_read_outside, also_stored_outside,
], ids=lambda f: f.__name__)  # fmt: skip
def test_arrays_that_are_kept_go_on(make: Callable[..., Any]) -> None:
    mine, plain = Filter(), Filter()
    f, wanted = make(mine, jit), make(plain, as_it_is)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCompiledWarning)
        for i in range(7):
            np.testing.assert_allclose(f(X + i), wanted(X + i), rtol=1e-14)
            np.testing.assert_array_equal(mine.z, plain.z)


class Generator:
    """A linear congruential generator of 64 bits."""

    def __init__(self, state: int):
        self.state = state

    def jitter(self, x: Any) -> Any:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return x + self.state / 2**64

    def factorial(self, x: Any) -> Any:
        self.state = self.state * 3
        return x * float(self.state % 1000)


@pytest.mark.parametrize("name", ["jitter", "factorial"])
def test_integers_beyond_64_bits(name: str) -> None:
    mine, plain = Generator(1), Generator(1)
    f, wanted = jit(getattr(mine, name)), getattr(plain, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCompiledWarning)
        for _ in range(60):
            assert f(X) == wanted(X) and mine.state == plain.state


class Trained:
    """Parameters in a dict and in nested lists, which steps advance."""

    def __init__(self) -> None:
        self.p = {"w": np.ones((3, 2)), "b": np.zeros(2)}
        self.rows: Any = [np.ones(3), [np.zeros(3)]]


@dataclass
class Parameters:
    w: Any


def loss(p: Any, x: Any) -> Any:
    return np.sum((x @ p["w"] + p["b"]) ** 2)


def by_keys(s: Trained, x: Any) -> Any:
    g = grad(loss)(s.p, x)
    s.p = {k: s.p[k] - 0.1 * g[k] for k in s.p}
    return loss(s.p, x)


def by_items(s: Trained, x: Any) -> Any:
    value, g = jit(value_and_grad(loss))(s.p, x)
    for k, v in s.p.items():
        s.p[k] = v - 0.1 * g[k]
    return value


def by_tree(s: Trained, x: Any) -> Any:
    _, pull = vjp(lambda p: loss(p, x), s.p)
    s.p = tree.map(lambda a, b: a - 0.1 * b, s.p, pull(1.0)[0])
    return x


def by_position(s: Trained, x: Any) -> Any:
    g = grad(lambda rows: np.sum((x @ (rows[0] + rows[1][0])) ** 2))(s.rows)
    s.rows = [s.rows[0] - 0.1 * g[0], [s.rows[1][0] - 0.1 * g[1][0]]]
    return vmap(lambda rows, v: v @ rows[0], in_axes=(None, 0))(s.rows, x)


def by_second_derivatives(s: Trained, x: Any) -> Any:
    h = hessian(loss)(s.p, x)
    s.p = {"w": s.p["w"] - 0.001 * h["w"]["w"][0, 0], "b": s.p["b"]}
    return x


@pytest.mark.parametrize("step", [by_keys, by_items, by_tree, by_position, by_second_derivatives])
def test_steps_of_parameters_that_a_derivative_reads_are_compiled(step: Callable[[Trained, Any], Any]) -> None:
    plain, state, x = Trained(), Trained(), np.full((4, 3), 0.25)
    jitted = jit(lambda x: step(state, x))
    for _ in range(5):
        np.testing.assert_allclose(jitted(x), step(plain, x), rtol=1e-12)
    assert jitted.cache_info().misses <= 2
    for a, b in zip(tree.leaves([state.p, state.rows]), tree.leaves([plain.p, plain.rows])):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_where_such_a_step_is_not_compiled_the_line_is_named() -> None:
    s = Trained()
    s.p = Parameters(np.ones(2))  # type: ignore[assignment]

    @jit
    def step(x: Any) -> Any:
        g = grad(lambda p: np.sum((p.w * x) ** 2))(s.p)
        s.p = Parameters(s.p.w - 0.1 * g.w)
        return x

    with pytest.warns(NotCompiledWarning, match=r"s\.p\.w advances, and Python needs its value, at .*\(step\)"):
        for _ in range(4):
            step(np.ones(2))
    np.testing.assert_allclose(s.p.w, np.full(2, 0.8**4))


class Accumulator:
    """It writes into an array of its own."""

    def __init__(self, n: int):
        self.total = np.zeros(n)

    def add(self, x: Any) -> Any:
        self.total += x
        return self.total.mean()


@pytest.mark.parametrize("n", [100, 200_000])
def test_what_cannot_be_traced_runs_as_it_is_for_arguments_of_any_size(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    f = jit(Accumulator(n).add)
    with pytest.warns(NotCompiledWarning):
        assert [f(np.ones(n)) for _ in range(3)] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("n", [10, 200_000])
def test_its_own_error_comes_from_it(n: int) -> None:
    def f(x: Any) -> Any:
        raise TypeError("its own")

    with pytest.raises(TypeError, match="^its own$") as caught:
        jit(f)(np.ones(n))
    assert caught.value.__cause__ is None and caught.value.__context__ is None


# -- what a function stores that jit runs on copies, in a branch, or as it is


def _with_jvp(f: Any) -> Any:
    g = fc.custom_jvp(f)
    g.defjvp(lambda primals, tangents: (g(*primals), 2.0 * tangents[-1]))
    return g


def _with_vjp(f: Any) -> Any:
    g = fc.custom_vjp(f)
    g.defvjp(lambda d, x: (f(d, x), d), lambda d, ct: (fc.tree.map(lambda v: 0.0 * v, d), 2.0 * ct))
    return g


def _with_vmap(f: Any) -> Any:
    g = fc.custom_vmap(f)
    g.def_vmap(lambda size, batched, d, x: (f(d, x), True))
    return g


ON_COPIES = {
    "checkpoint": fc.checkpoint,
    "custom_jvp": _with_jvp,
    "custom_vjp": _with_vjp,
    "custom_vmap": _with_vmap,
    "cond": lambda f: lambda d, x: fc.cond(x > 0.0, f, lambda d, x: 2.0 * x, d, x),
    "switch": lambda f: lambda d, x: fc.lax.switch((x > 0.0) * 1, [lambda d, x: 2.0 * x, f], d, x),
    "checkpoint twice": lambda f: fc.checkpoint(fc.checkpoint(f)),
    "jit": fc.jit,
}
CHANGES = {
    "item": (lambda: {"n": 0.0}, lambda d, x: d.__setitem__("n", x)),
    "new item": (lambda: {"n": 0.0}, lambda d, x: d.update(y=1.0)),
    "number": (lambda: {"n": 0.0}, lambda d, x: d.__setitem__("n", d["n"] + 1.0)),
    "nested": (lambda: {"a": [0.0]}, lambda d, x: d["a"].append(1.0)),
    "list": (lambda: [0.0], lambda d, x: d.append(x)),
    "array": (lambda: np.zeros(2), lambda d, x: d.__setitem__(0, x)),
    "array in a dict": (lambda: {"a": np.zeros(2)}, lambda d, x: d["a"].__setitem__(0, x)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", ON_COPIES)
@pytest.mark.parametrize("given", ["captured", "argument", "made inside"])
@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_what_is_changed_in_arguments_of_a_body_is_changed(given: str, way: str, change: str) -> None:
    make, changes = CHANGES[change]

    def changing(d: Any, x: Any) -> Any:
        changes(d, x)
        return 2.0 * x

    def found(transform: Any, body: Any) -> list[str]:
        g, d = body(changing), make()

        def inside(x: Any) -> Any:
            mine = make()
            return g(mine, x) + sum([np.sum(leaf) for leaf in fc.tree.leaves(mine)])

        f = transform({"captured": lambda x: g(d, x), "argument": g, "made inside": inside}[given])
        calls = [(f(d, x) if given == "argument" else f(x), repr(d)) for x in np.arange(1.0, 5.0)]
        return [f"{float(y)} {said}" for y, said in calls]

    assert found(fc.jit, ON_COPIES[way]) == found(lambda f: f, lambda f: f)


@pytest.mark.parametrize("kind", ["list", "attribute", "variable", "item"])
@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_what_a_branch_stores_is_stored_where_it_is_taken(kind: str) -> None:
    def found(transform: Any) -> list[Any]:
        log, held, n = [], types.SimpleNamespace(n=0, d={"n": 0}), 0

        def stores(x: Any) -> Any:
            nonlocal n
            if kind == "list":
                log.append(1)
            elif kind == "attribute":
                held.n += 1
            elif kind == "variable":
                n += 1
            else:
                held.d["n"] += 1
            return x * 2.0

        f = transform(lambda x: fc.cond(x > 2.0, stores, lambda x: x, x))
        return [(float(f(x)), len(log), held.n, held.d["n"], n) for x in (1.0, 3.0, 1.0, 4.0, 1.0, 5.0)]

    assert found(fc.jit) == found(lambda f: f)


@pytest.mark.parametrize("kind", ["list", "nested", "dict", "attribute", "key"])
@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_what_code_stores_that_runs_as_it_is_is_stored_at_each_call(kind: str) -> None:
    """A rule of a derivative, and a key function that a library calls, have no twin."""

    def found(transform: Any) -> list[str]:
        held: Any = types.SimpleNamespace(log=[], d={"a": []}, n=0)

        def stores(x: Any) -> Any:
            if kind == "nested":
                held.d["a"].append(1)
            elif kind == "dict":
                held.d["n"] = held.d.get("n", 0) + 1
            elif kind == "attribute":
                held.n += 1
            else:
                held.log.append(1)
            return x

        g = fc.custom_vjp(lambda x: 2.0 * x)
        g.defvjp(lambda x: (2.0 * stores(x), None), lambda _, ct: (2.0 * ct,))
        by_key = lambda x: x * len(functools.reduce(lambda a, b: stores(a), [[1], [2]]))
        f = transform(by_key if kind == "key" else fc.grad(g))
        return [f"{float(f(x))} {held}" for x in np.arange(1.0, 5.0)]

    assert found(fc.jit) == found(lambda f: f)


said: list[int] = []


def counts_and_chooses(x: Any, p: float, k: int) -> Any:
    said.append(len(said))
    return np.sum(np.tanh(np.maximum(x[::-1], np.tanh(p)))) + (p if k % 2 == 0 else 0.5)


@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
@pytest.mark.parametrize("turns", [1, 3])
def test_what_a_function_stores_on_a_path_is_told_to_the_one_that_calls_it(
    monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """Its first recording is made while the other one is traced."""
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    said.clear()
    inner = jit(counts_and_chooses)

    def looped(x: Any, p: float, k: int) -> Any:
        total = 0.0
        for i in range(turns):
            total = total + inner(x * (1.0 + 0.1 * i), p, k)
        return total

    outer = jit(looped)
    for k in range(9):
        outer(np.arange(4.0) - k, 0.1 * k, k % 3)
        assert said == list(range(turns * (k + 1)))


steps = {"n": 1}


@pytest.mark.parametrize("ask", [
    lambda k: [1, 2][k], lambda k: "ab"[k : k + 1], lambda k: range(k), lambda k: complex(k), lambda k: round(k),
    lambda k: divmod(7, int(k) + 1), lambda k: hex(k),
], ids=["item", "slice", "range", "complex", "round", "divmod", "hex"])  # fmt: skip
def test_a_question_that_the_user_catches_is_no_answer(monkeypatch: pytest.MonkeyPatch, ask: Callable[[int], Any]) -> None:
    """A number that advances was to be an input, so that Python had no values; plain Python raises nothing there."""
    monkeypatch.setattr(first_calls, "OBSERVES", True)

    def f(x: Any, k: int) -> Any:
        try:
            steps["n"] += k
            ask(k)
        except Exception:
            return np.sum(x) * 100.0
        return np.sum(x) + steps["n"]

    found = []
    for g in (f, jit(f, not_compiled="ignore")):
        steps["n"] = 1
        found.append([float(g(np.arange(3.0) + i, i % 3)) for i in range(9)])
    assert found[0] == found[1]
