"""What a rule records is learned: programs are what they are without, and what may not be learned is not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.ir.jaxpr import Jaxpr, Literal
from funcad.unjitted import learned
from tests.unseen import unseen

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def case(*args: Any) -> Callable[[Any], Any]:
    def add(f: Any) -> Any:
        CASES[f.__name__] = f, args
        return f

    return add


@case(0.7)
def numbers(x: Any) -> Any:
    s = x
    for i in range(6):
        s = s * 0.99 + 0.01 * x - x / s
        s = s * s + np.sin(s) * np.sin(x) + (i + 1) * s
    return s


@case(0.7)
def signs_of_zero_and_nan(x: Any) -> Any:
    s = x
    for c in (0.0, -0.0, 0.0, np.nan, np.nan, 1.0, True, 1, np.float64(1.0)):
        s = s + np.copysign(1.0, x * c) * x if c == c else s + x * 0.5
    return s


@case(0.7)
def two_values_of_one_derivative(x: Any) -> Any:
    return sum([x, x, x * 0.25, np.sin(x)]) * (x + (x + 0.0)) * (x - (0.0 + x) + np.cos(x) * (x * 1.0))


@case(np.array([0.3, -0.4, 0.5]))
def arrays_of_one_derivative(x: Any) -> Any:
    y = x + np.ones(3)
    return np.sum(x * y) + np.sum(y * np.sin(x)) + np.sum(np.maximum(x, y)) + np.sum(np.maximum(y, x * x)) + np.sum(x / y)


@case(np.arange(1.0, 31.0).reshape(5, 6), np.array([0.5, -0.7, 0.2]))
def places(x: Any, y: Any) -> Any:
    x = x * 1.0
    for i in range(1, 5):
        for j in range(1, 5):
            x[i, j] += x[i - 1, j] * x[i, j - 1]
            x[i, j] /= 9.0
        x[i, 1:4] = x[i - 1, 2:5] * y
        x[1:4, i] *= x[i, ::2] + x[i, 4:1:-1]
        x[i, None, 0:5:2] = y
    return np.sum(x * x)


@case(np.array([0.3, -0.4, 0.5]), np.array([1.0, 2.0, 3.0]))
def arrays(x: Any, y: Any) -> Any:
    for i in range(5):
        x = np.where(x > 0.1, x * y, np.tanh(x)) + x[::-1] * x[i % 3] + y
    return np.sum(x * x)


@case(np.array([0.3, -0.4, 0.5]))
def one_tangent_of_two_values(x: Any) -> Any:
    return np.sum(x * (x * (x * (x + 0.5) - 1.5) + 0.25))


@case(np.array([3.0, 4.0]))
def norms(x: Any) -> Any:
    total = 0.0
    for _ in range(4):
        n = np.sqrt(np.sum(x * x))
        total = total + n * n + n**2 + np.abs(x[0]) ** 2
    return total


@case(0.4)
def powers(x: Any) -> Any:
    s = x
    for n in (2, 3, 2, 3, 2.5, 2.5, 2):
        s = s + x**n + np.float64(2.0) ** x
    return s


@case(1.3)
def comparisons(x: Any) -> Any:
    s = x
    for _ in range(5):
        s = np.where(s > 1.0, s * 0.5, s + x) + np.maximum(s, x)
    return s


def text(jaxpr: Jaxpr) -> list[Any]:
    names: dict[Any, int] = {}

    def name(a: Any) -> Any:
        return (type(a.value), np.asarray(a.value).tobytes()) if type(a) is Literal else names.setdefault(a, len(names))

    outputs = [[(name(v), v.aval) for v in e.outputs] for e in jaxpr.equations]
    return [
        (e.primitive.name, [*map(name, e.inputs)], str(e.params), outs, e.source and e.source[:2])
        for e, outs in zip(jaxpr.equations, outputs)
    ] + [[name(o) for o in jaxpr.outputs]]


def twice(f: Any) -> Any:
    return funcad.grad(funcad.grad(lambda *a: np.sum(f(*a)) ** 2))


def drawn(seed: int) -> Callable[[Any], Any]:
    """A program in which several values have one derivative, and several derivatives one value."""
    rng = np.random.default_rng(seed)
    steps = [(STEPS[rng.integers(len(STEPS))], *rng.integers(0, 2 + n, 2)) for n in range(30)]

    def f(x: Any) -> Any:
        values = [x, 0.5 * x]
        for step, i, j in steps:
            values.append(step(values[i], values[j]))
        return values[-1] + values[-2] + values[-3] * values[-4]

    return f


STEPS: list[Callable[[Any, Any], Any]] = [
    *(lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b * 0.3, lambda a, b: a / (2.0 + b * b)),
    *(lambda a, b: 0 + a, lambda a, b: a + 0.0, lambda a, b: a * 1.0, lambda a, b: -1.0 * a, lambda a, b: np.sin(a)),
]
for seed in range(12):
    CASES[f"drawn {seed}"] = drawn(seed), (0.7,)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("transform", [funcad.grad, funcad.value_and_grad, twice])
def test_programs_are_what_they_are_without(name: str, transform: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    f, args = CASES[name]
    if np.ndim(args[0]) and transform not in (funcad.grad, funcad.value_and_grad):
        return  # no second gradient of an array

    def program() -> Any:
        g = functools.wraps(f)(lambda *a: f(*a))
        return text(funcad.jit(transform(g)).lower(*args).jaxpr)

    found = program()
    monkeypatch.setattr(learned, "MOST", 0)
    expected = program()
    assert len(found) == len(expected)
    for new, old in zip(found, expected):
        assert new == old


def test_few_kinds_are_learned_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    init = learned.Learned.__init__
    noted = unseen(lambda self, trace: (made.append(self), init(self, trace))[1])
    monkeypatch.setattr(learned.Learned, "__init__", noted)
    monkeypatch.setattr(learned, "MOST", 5)

    def f(x: Any) -> Any:
        for k in range(1, 30):
            x = x * (1.0 + 1.0 / k) + x * x
        return x

    np.testing.assert_allclose(funcad.jit(funcad.grad(f)).lower(0.1).compile()(0.1), funcad.grad(f)(0.1))
    assert made and all([len(m.steps) <= 5 for m in made])


def test_what_another_trace_holds_is_not_taken() -> None:
    def f(x: Any) -> Any:
        y = x
        for _ in range(4):
            y = y * 1.5 + funcad.cond(True, lambda y: y * 1.5 * x, lambda y: y * 1.5, y)
        return y

    j = funcad.jit(funcad.grad(f))
    for _ in range(4):
        assert j(0.3) == pytest.approx(funcad.grad(f)(0.3), rel=1e-12)
