"""Un-jitted gradients of small values, with the same bits as by the rules."""

from __future__ import annotations

import _thread
import gc
import sys
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad import grad, value_and_grad
from funcad.backends.interpreter import counters
from funcad.errors import SharedMemoryError
from funcad.unjitted import tape
from funcad.unjitted.linearizing import LinearizingTrace
from tests.agreement import same_bits
from tests.unjitted.by_rules import by_rules


def same(a: Any, b: Any) -> None:
    for x, y in zip(fc.tree.leaves(a), fc.tree.leaves(b), strict=True):
        assert type(x) is type(y)
        assert same_bits(x, y)


def scalars(x: Any) -> Any:
    e = np.exp(-2.0 * x)
    t = (1.0 - e) / (1.0 + e)
    return (t * t + np.sin(x) * 0.5) * t - x * x + x**3 - np.sqrt(x) * 2 + np.log1p(x) / x


def broadcasts(x: Any) -> Any:
    a = x * np.arange(3.0) + np.ones((2, 1))
    return np.sum(a * a) + np.sum(np.tanh(a).T @ a) + np.max(a) + np.mean(a)


def matrices(x: Any) -> Any:
    w = np.arange(6.0).reshape(2, 3) * x
    z = w @ np.linspace(0, 1, 6).reshape(3, 2)
    z = z - np.max(z, axis=1, keepdims=True)
    return -np.mean(np.sum(np.eye(2) * (z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))), axis=1))


def squares(x: Any) -> Any:
    y = x * x
    return y * y + x * (y * x) + np.square(x)


def choices(x: Any) -> Any:
    a = x * np.arange(1.0, 5.0)
    b = np.where(a > x, a, np.maximum(0.5 * a, np.minimum(a, 2.0 * x)))
    return np.sum(np.concatenate([b, a, b]) ** 2) + np.sum(np.where(a > x, b, b)) + np.sum(np.abs(a - 1.0))


def vectors(x: Any) -> Any:
    a, m = np.arange(3.0) * x, np.arange(6.0).reshape(2, 3)
    return np.sum(m @ a) + np.sum(a @ m.T) * np.dot(a, a) + np.sum(np.dot(m * x, a))


def elementary(x: Any) -> Any:
    y = np.tan(x) + np.sinh(x) * np.cosh(x) + np.arcsin(x) - np.arccos(x) + np.arctan(x) * np.arcsinh(x)
    return y + np.exp2(x) * np.log2(x) - np.log10(x) + np.cbrt(x)


FUNCTIONS = [scalars, broadcasts, matrices, squares, choices, vectors, elementary]
POINTS = [0.5, np.float64(0.25), np.float32(0.75), np.longdouble(0.5)]


@pytest.mark.parametrize("x", POINTS, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_bits_with_and_without(f: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [value_and_grad(f)(x) for _ in range(4)]
    expected = by_rules(monkeypatch, value_and_grad(f), x)
    for result in found:
        same(result, expected)
    before = counters["programs"]
    other = type(x)(0.625)
    same(value_and_grad(f)(other), by_rules(monkeypatch, value_and_grad(f), other))
    assert counters["programs"] <= before + 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_trees_of_arrays(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(4, 3)).astype(dtype), "b": rng.normal(size=3).astype(dtype), "unused": np.ones(2, dtype)}
    x = rng.normal(size=(5, 4)).astype(dtype)

    def loss(params: Any, x: Any) -> Any:
        h = np.tanh(x @ params["w"] + params["b"])
        return np.sum(np.real(h * h)) + np.sum(np.real(params["unused"])) * 0.0

    g = value_and_grad(loss, argnums=(0, 1))
    found = [g(params, x) for _ in range(4)]
    expected = by_rules(monkeypatch, g, params, x)
    for result in found:
        same(result, expected)
        leaves = [a for a in fc.tree.leaves(result) if isinstance(a, np.ndarray)]
        assert all(a.flags.writeable for a in leaves)
        assert not any(np.shares_memory(a, b) for i, a in enumerate(leaves) for b in [*leaves[:i], x, *params.values()])


def test_control_flow_on_values() -> None:
    def f(x: Any) -> Any:
        return x * x if x > 1.0 else np.sin(x) * 2.0

    for _ in range(4):
        assert grad(f)(2.0) == 4.0
        assert grad(f)(0.0) == 2.0


def test_types_and_wiring_are_told_apart() -> None:
    functions = [
        (lambda x: x * 2.0, 0.5, 2.0),
        (lambda x: x * np.float64(3.0), 0.5, 3.0),
        (lambda x: x * 2, 0.5, 2.0),
        (lambda x: x * x, 0.5, 1.0),
        (lambda x: x * +x, 0.5, 1.0),
        (lambda x: (x * 1.0) * x, 0.5, 1.0),
        (lambda x: (x + 1.0) * (x + 1.0), 0.5, 3.0),
        (lambda x: (lambda y: y * y)(x + 1.0), 0.5, 3.0),
        (lambda x: (x + 1.0) * x, 0.5, 2.0),
        (lambda x: x * (x + 1.0), 0.5, 2.0),
        (lambda x: x - 3.0 * x, 0.5, -2.0),
        (lambda x: 3.0 * x - x, 0.5, 2.0),
        (lambda x: x**2, 0.5, 1.0),
        (lambda x: x**3, 2.0, 12.0),
    ]
    for _ in range(4):
        for f, x, expected in functions:
            assert grad(f)(x) == expected


def test_buffers_that_change_while_the_function_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The derivative belongs to the contents at the moment of use."""

    def f(x: Any, buffer: Any) -> Any:
        buffer[:] = 2.0
        y = x * buffer
        buffer[:] = 5.0
        z = np.sum(y * buffer)
        buffer[:] = 0.0
        return z

    for _ in range(4):
        np.testing.assert_array_equal(grad(f)(np.ones(2), np.zeros(2)), [10.0, 10.0])

    def g(x: Any, own: Any) -> Any:
        y = np.sum(np.reshape(x, (2, 1)) * np.reshape(x, (1, 2)))
        own[:] = 100.0
        return y

    for _ in range(4):
        x = np.array([1.0, 2.0])
        np.testing.assert_array_equal(grad(g)(x, x.copy()), [6.0, 6.0])
        with pytest.raises(SharedMemoryError, match="pass a copy"):
            grad(g)(x, x)
        np.testing.assert_array_equal(x, [1.0, 2.0])


def test_operations_without_rows_and_large_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[tuple[Any, Any]] = [
        (lambda x: np.sum(np.sort(x * 2.0) * x) + np.sum(np.sin(x)), np.array([3.0, 1.0, 2.0])),
        (lambda x: np.sum(np.cumsum(np.sin(x)) * x), np.ones(3)),
        (lambda x: np.sum(np.sin(x) * np.floor(x * 2.0)), np.array([0.3, 1.7])),
        (lambda x: np.sum(x * 2.0 * np.ones(20_000)), 1.5),
        (lambda x: np.sum(np.sin(x) * x), np.linspace(0, 1, 20_000)),
        (lambda x: fc.cond(x > 0, np.sin, np.cos, x * 2.0) * x, 0.5),
        (lambda x: np.sum(fc.scan(lambda c, _: (np.sin(c), c), x * 2.0, None, length=3)[1]), 0.5),
        (lambda x: fc.jit(np.sin)(x * 2.0) * x, 0.5),
        (lambda x: np.sum(fc.vmap(lambda y: y * x)(np.arange(3.0))) * x, 0.5),
        (lambda x: grad(lambda y: y * y * x)(x) * x, 0.5),
        (lambda x: fc.stop_gradient(x) * x + float(fc.stop_gradient(x)), 0.5),
    ]
    for f, x in cases:
        found = [grad(f)(x) for _ in range(4)]
        expected = by_rules(monkeypatch, grad(f), x)
        for g in found:
            same(g, expected)


def test_higher_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    f = grad(grad(scalars))
    found = [f(0.5) for _ in range(4)]
    assert all(g == found[0] for g in found)
    assert found[0] == pytest.approx(by_rules(monkeypatch, f, 0.5), rel=1e-15)


def test_many_rows() -> None:
    def f(x: Any) -> Any:
        y = x
        for _ in range(1050):
            y = y * 1.0
        return y

    for _ in range(3):
        assert grad(f)(2.0) == 1.0


def test_errors_and_their_lines() -> None:
    def f(x: Any) -> Any:
        try:
            y = np.ones(3) * x + np.ones(4)
        except ValueError:
            y = np.ones(4) * x
        return np.sum(y)

    for _ in range(4):
        assert grad(f)(2.0) == 4.0
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="divide by zero") as caught:
            grad(lambda x: 1.0 / (x * 0.0))(np.float64(1.0))
        assert caught[0].filename == __file__

    kept = []

    def leak(x: Any) -> Any:
        kept.append(x * 2.0)
        return x

    for _ in range(3):
        grad(leak)(1.0)
        with pytest.raises(fc.errors.UnexpectedTracerError, match="test_tape.py"):
            kept[-1] * 2.0


def test_warnings_are_those_of_the_primal(monkeypatch: pytest.MonkeyPatch) -> None:
    f = grad(lambda x: np.log(x) + x)
    for _ in range(4):
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in log") as caught:
            f(np.float64(0.0))
        assert caught[0].filename.endswith("test_tape.py")
    with np.errstate(all="ignore"):
        f(np.float64(0.0))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        f(np.float64(0.0))


def test_threads_and_auxiliary_outputs() -> None:
    wrong = []

    def work(i: int) -> None:
        for k in range(100):
            x = float(i + k)
            (value, aux), slope = value_and_grad(lambda x: (x * x, {"y": x * 2.0}), has_aux=True)(x)
            if (value, aux, slope) != (x * x, {"y": 2 * x}, 2 * x):
                wrong.append((i, k))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


@pytest.mark.parametrize("how", ["grad", "value_and_grad", "hessian", "vmap", "jit", "jvp", "vjp", "linearize", "hvp"])
def test_a_thread_that_begins_with_a_derivative(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below it there is no frame of the user's."""
    ran, raised, x = [], list[Any](), np.ones((3, 3))
    monkeypatch.setattr(sys, "unraisablehook", lambda told: raised.append(told.exc_value))

    def f(x: Any) -> Any:
        ran.append(1)
        return np.sum(x**2)

    given = {"jvp": (f, (x,), (x,)), "vjp": (f, x), "linearize": (f, x), "hvp": (f, (x,), (x,))}
    run = getattr(fc, how)
    before = _thread._count()
    if how in given:
        _thread.start_new_thread(run, given[how])
    else:
        _thread.start_new_thread(run(f), (x,))
    end = time.monotonic() + 60.0
    while (not ran or _thread._count() > before) and not raised and time.monotonic() < end:
        time.sleep(0.01)
    assert ran and not raised


def test_a_gradient_begins_while_another_thread_opens_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, opened = tape.next_level, object()

    def next_level() -> int:
        tape.open_traces.add(opened)  # the gradient has just seen that there was none
        return begin()

    monkeypatch.setattr(tape, "next_level", next_level)
    try:
        assert grad(lambda x: np.sum(x * np.sin(x)))(np.zeros(3)).tolist() == [0.0] * 3
        assert opened in tape.open_traces
    finally:
        tape.open_traces.discard(opened)


def test_short_ways_and_general_ones_write_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        y = np.add(np.multiply(2.0, x), np.ones((2, 1)) * x) / np.float64(3.0)
        return np.sum(-np.exp(y) + np.square(y) - np.max(y, axis=-1, keepdims=True)) + np.mean(y @ y.T)

    x = np.array([0.5, 0.25])
    found = [value_and_grad(f)(x) for _ in range(3)]
    for name in ("binary", "unary", "product", "reduction"):
        monkeypatch.setattr(tape.Tape, name, lambda *args: None)
    same(value_and_grad(f)(x), found[0])
    same(found[2], found[0])


@pytest.mark.filterwarnings("ignore:grad. the output")
@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (lambda x: np.sum(x**0), 0.0),
        (lambda x: np.sum((x * x) ** 0 * x), 1.0),
        (lambda x: np.sum(np.exp(x**0) + x), 1.0),
        (lambda x: np.sum(np.stack([x**0, x])), 1.0),
        (lambda x: np.max(x**0) * np.sum(x**0 * x**0), 0.0),
    ],
)
def test_a_power_of_zero_has_no_tangent(f: Any, slope: float) -> None:
    """No rule after it gets a row without a tangent."""
    for x in (np.array([0.5, -2.0, 0.0]), 0.5, np.float64(2.0)):
        for _ in range(3):
            same(grad(f)(x), np.full(np.shape(x), slope)[()])


def test_a_kept_tracer_keeps_no_other_value() -> None:
    kept, made = [], []

    def f(x: Any) -> Any:
        y = np.sin(x)
        made.append(weakref.ref(y.primal))
        z = y * 2.0
        kept.append(z)
        return np.sum(z * z)

    for _ in range(4):
        grad(f)(np.ones(3))
    gc.collect()
    assert made[-1]() is None
    with pytest.raises(fc.errors.UnexpectedTracerError, match="test_tape.py"):
        kept[-1] * 1.0


@pytest.mark.parametrize("dtype", ["?", "b", "B", "i", "q", "Q", ">i4"])
def test_integers_beside_doubles_take_the_short_way(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinearizingTrace, "record", None)  # the general way
    x, whole = np.array([0.5, 1.5, -2.0]), np.array([1, 0, 1]).astype(dtype)
    for y in (whole, whole[::2, None], whole[0]):
        for f in (lambda x, y: y * x - x / (y + 2.5), lambda x, y: y - x, lambda x, y: np.multiply(y, x) + y):
            value, pullback = fc.vjp(lambda x: f(x, y), x)  # noqa: B023 called at once
            expected, reference = fc.vjp(lambda x: f(x, y.astype(float)), x)  # noqa: B023 called at once
            assert value.dtype == f(x, y).dtype and np.array_equal(value, f(x, y)) and np.array_equal(value, expected)
            before = y.copy()
            if y.shape:
                y[...] = 1 - y
            assert np.array_equal(pullback(np.ones_like(value))[0], reference(np.ones_like(value))[0])
            if y.shape:
                y[...] = before


def test_integers_beside_single_precision_are_double() -> None:
    x, y = np.array([0.5, 1.5], np.float32), np.array([3, 2])
    value, pullback = fc.vjp(lambda x: x * y, x)
    assert value.dtype == np.float64 and pullback(np.ones(2))[0].dtype == np.float32
