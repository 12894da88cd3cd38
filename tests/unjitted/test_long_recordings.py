"""Long recordings: the gradients are those of the rules, and nothing is made for a length of a loop."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad import grad, hessian, hvp, value_and_grad
from funcad.backends.interpreter import counters
from tests.agreement import same_bits
from tests.unjitted.by_rules import by_rules


def scalars(x: Any) -> Any:
    y, total = x * 1.0, 0.0
    for i in range(12):
        y = y - 0.1 * (y * y - np.sin(x)) / (1.0 + i)
        total = total + y
    return total


def vectors(x: Any) -> Any:
    a, y = np.exp(x) * np.arange(3.0), np.ones(3)
    kept = []
    for _ in range(6):
        y = np.tanh(a * y) + y[::-1] * x
        kept.append(np.sum(y * a))
    return np.sum(np.stack(kept) ** 2) + kept[2]


def slices(x: Any) -> Any:
    y = np.stack([x, x * x, x + 1.0])
    for _ in range(4):
        y = np.stack([y[1] * y[2], np.sqrt(y[0]), y[1] + y[0]])
        y = np.concatenate([y[:2] * 0.5, np.exp(-y[2:])])
    return np.sum(np.pad(y, 1)[1:4] * y)


def matrices(x: Any) -> Any:
    a = np.arange(9.0).reshape(3, 3) / 9.0 + np.eye(3) * x
    for _ in range(3):
        values, vectors = np.linalg.eigh(a + a.T)
        first, second = np.split(vectors @ np.diag(values), [1])
        a = np.concatenate([second, first * x]) + np.outer(values, values) * 0.1
    return np.sum(a * a)


def constants(x: Any) -> Any:
    y = x
    for i in range(8):
        z = y * float(i)
        y = y + np.float32(0.5) * z if i % 3 else y * y
        np.sin(z)  # leads nowhere
    return y


LOOPS = [scalars, vectors, slices, matrices, constants]


def same(a: Any, b: Any) -> None:
    for x, y in zip(fc.tree.leaves(a), fc.tree.leaves(b), strict=True):
        assert type(x) is type(y) and same_bits(x, y)


@pytest.mark.share(6)
@pytest.mark.parametrize("x", [0.75, np.float64(0.75), np.float32(0.75), np.complex128(0.75)], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("f", LOOPS, ids=lambda f: f.__name__)
def test_the_same_bits_as_by_the_rules(f: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first call, and when all kinds of rows are known."""
    if type(x) is np.complex128:
        f = lambda x, f=f: np.real(f(x)) if f is not matrices else np.real(x)
    g = value_and_grad(f)
    expected = by_rules(monkeypatch, g, x)
    other = type(x)(0.8125)
    expected_of_other = by_rules(monkeypatch, g, other)
    for _ in range(4):
        same(g(x), expected)
        same(g(other), expected_of_other)
    before = counters["programs"]
    same(g(x), expected)
    assert counters["programs"] == before


@pytest.mark.filterwarnings("ignore:grad. the output")
def test_several_inputs_and_results(monkeypatch: pytest.MonkeyPatch) -> None:
    params = {"w": np.linspace(-1.0, 1.0, 6).reshape(2, 3), "b": np.float32(0.5), "unused": np.ones(2), "n": 3}

    def loss(params: Any, x: Any) -> Any:
        h = x
        for _ in range(params["n"]):
            h = np.tanh(params["w"].T @ (params["w"] @ h) + params["b"])
        return np.sum(h), (h, params["w"] * 2.0)

    g = value_and_grad(lambda w, b, u, x: loss({"w": w, "b": b, "unused": u, "n": 3}, x), argnums=(0, 1, 2, 3), has_aux=True)
    args = params["w"], params["b"], params["unused"], np.array([0.25, 0.5, -1.0])
    expected = by_rules(monkeypatch, lambda: g(*args))
    for _ in range(4):
        same(g(*args), expected)
    for _ in range(3):
        assert grad(lambda x: [x * x * x, x][1])(2.0) == 1.0


def chosen(x: Any) -> Any:
    with np.errstate(all="ignore"):
        a = np.sqrt(x - 1.0)
        b = np.log(x - 1.0)
        c = b * a + 1.0 / (x - 1.0)
        y = np.where(x > 1.0, c, x * 2.0)
        z = np.where(x > 2.0, np.exp(y), np.where(x > 1.0, y, 0.0))
        return np.sum(z * x)


def both_ways(x: Any) -> Any:
    with np.errstate(all="ignore"):
        a, b = np.log(x), np.sqrt(-x)
        return np.sum(np.where(x > 0, a, b) * x)


def unread(x: Any) -> Any:
    with np.errstate(all="ignore"):
        y = np.log(np.atleast_1d(x) * np.arange(3.0))  # -inf
        z = np.sqrt(y * y)
        return z[-1] * 2.0 + np.sum(z[1:] * z[2:])


def padded(x: Any) -> Any:
    with np.errstate(all="ignore"):
        y = np.concatenate([np.atleast_1d(x)[:1], np.zeros(2)])
        z = np.sqrt(y)  # of what came from outside, the slope is infinite
        w = z * z
        return np.sum(w[:1] * z[0]) + np.sum(np.maximum(w, 0.0)[np.array([0, 0])])


MASKED = [chosen, both_ways, unread, padded]


@pytest.mark.share(3)
@pytest.mark.parametrize("x", [np.float64(0.5), np.float64(1.0), np.array([0.5, 1.0, 1.5]), np.array([2.5, 0.0, 1.0])], ids=str)
@pytest.mark.parametrize("f", MASKED, ids=lambda f: f.__name__)
def test_masks(f: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An element that no path leads to stays zero, though the factor that it meets is infinite."""
    g = value_and_grad(f)
    expected = by_rules(monkeypatch, g, x)
    for _ in range(4):
        np.testing.assert_allclose(g(x)[1], expected[1], rtol=1e-14)
        np.testing.assert_equal(g(x)[0], expected[0])


def test_a_mask_saves_what_is_not_chosen_later() -> None:
    def f(x: Any) -> Any:
        with np.errstate(all="ignore"):
            y = np.log(x)
            for _ in range(5):
                y = y * 2.0 + 1.0
            return np.sum(np.where(x > 0, y, 0.0))

    for _ in range(4):
        np.testing.assert_array_equal(grad(f)(np.array([0.0, 2.0])), [0.0, 16.0])
        np.testing.assert_array_equal(grad(lambda x: f(x) + np.sum(0.0 * np.log(x[:1])))(np.array([2.0, 0.0])), [16.0, 0.0])
    with np.errstate(all="ignore"):  # a zero that is a number is none of a mask
        for _ in range(4):
            assert np.isnan(grad(lambda x: 0.0 * (np.log(x) * 2.0 + 1.0) * 3.0)(0.0))


def newton(a: Any, steps: int) -> Any:
    b = np.sqrt(a) + 0.0
    x, i = a, 0
    while i < steps and not x < 0:
        x = 0.5 * (x + b * b / x)
        i += 1
    return x


@pytest.mark.slow
def test_a_solver_whose_number_of_steps_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    g = grad(newton)
    for steps in (110, 250, 333, 400, 511, 128, 300):
        g(2.0, steps)
        g(2.0, steps)
    before = counters["programs"]
    for steps in range(120, 420, 7):
        expected = by_rules(monkeypatch, g, 2.0, steps) if steps % 3 == 0 else 0.5 / np.sqrt(2.0)
        np.testing.assert_allclose(g(2.0, steps), expected, rtol=1e-12)
    assert counters["programs"] == before


def test_turns_that_are_not_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inner loops of other lengths at each call and each turn."""
    random = np.random.default_rng(3)

    def f(x: Any, inner: Any) -> Any:
        y = x
        for n in inner:
            z = y * 1.5
            for _ in range(n):
                z = z - (z * z - y) / (2.0 * z + 1.0)
            y = np.cos(z) + x
        return y

    for _ in range(12):
        inner = random.integers(1, 4, random.integers(60, 90)).tolist()
        np.testing.assert_allclose(grad(f)(1.25, inner), by_rules(monkeypatch, grad(f), 1.25, inner), rtol=1e-12)
    before = counters["programs"]
    grad(f)(1.25, random.integers(1, 4, 80).tolist())
    assert counters["programs"] == before


def test_many_rows() -> None:
    def f(x: Any, n: int) -> Any:
        y = x
        for _ in range(n):
            y = y * 1.0 + x
        return y

    for _ in range(3):
        assert grad(f)(2.0, 2600) == 2601.0
    before = counters["programs"]
    assert grad(f)(2.0, 5001) == 5002.0
    assert counters["programs"] == before
    for _ in range(3):
        assert hvp(lambda x: f(x, 700) ** 2, (2.0,), (1.0,)) == 2.0 * 701.0**2
        np.testing.assert_array_equal(hessian(lambda x: np.sum(f(x, 700) ** 2))(np.ones(2)), np.eye(2) * 2.0 * 701.0**2)
        np.testing.assert_array_equal(fc.jacrev(lambda x: f(x, 700))(np.ones(2)), np.eye(2) * 701.0)


def test_arrays_from_outside_that_change() -> None:
    weights = np.array([1.0, 2.0])

    def f(x: Any) -> Any:
        w = weights.copy()
        y = x
        for _ in range(5):
            y = y * w
            w *= 2.0  # its rows keep what it was
        return np.sum(y)

    for scale in (1.0, 1.0, 1.0, 3.0, 0.5):
        weights[:] = np.array([1.0, 2.0]) * scale
        np.testing.assert_array_equal(grad(f)(np.ones(2)), np.array([1.0, 32.0]) * scale**5 * 2.0**10)


def test_warnings_errors_and_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:

    def f(x: Any, by: float, stop: bool = False) -> Any:
        y = x
        for i in range(6):
            y = y / (by - i) + x
            if stop and i == 4:
                raise ValueError("stop")
        return y

    expected = by_rules(monkeypatch, grad(f), 2.0, 0.5)
    for _ in range(4):
        with pytest.warns(RuntimeWarning, match="divide by zero") as caught:
            grad(lambda x: f(np.float64(1.0) * x, 3.0))(2.0)
        assert [w.filename for w in caught] == [__file__]
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            grad(lambda x: f(np.float64(1.0) * x, 3.0))(2.0)
        with pytest.raises(ValueError, match="stop"):
            grad(f)(2.0, 0.5, True)
        assert grad(f)(2.0, 0.5) == expected


def test_threads_share_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = (7, 12, 13, 30)
    expected = {n: by_rules(monkeypatch, grad(newton), 2.0, n) for n in lengths}
    wrong = []

    def work(i: int) -> None:
        for k in range(40):
            n = lengths[(i + k) % 4]
            if grad(newton)(2.0, n) != expected[n]:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_an_error_of_a_pull_names_the_line() -> None:
    @fc.custom_vjp
    def broken(x: Any) -> Any:
        return x * 2.0

    def backward(x: Any, ct: Any) -> Any:
        raise ArithmeticError("no slope")

    broken.defvjp(lambda x: (x * 2.0, x), backward)
    with pytest.raises(ArithmeticError, match="no slope"):
        grad(lambda x: np.sin(broken(x) * x) * 3.0)(1.0)
