"""Outside jit and vmap, Python control flow works on values, and every operation runs once, where it is written."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from funcad import grad, hessian, hvp, jacfwd, jacrev, jit, jvp, linearize, value_and_grad, vjp, vmap
from funcad.errors import (
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from funcad.primitives.arithmetic import mul
from funcad.primitives.families import elementwise
from funcad.primitives.transcendental import cos
from funcad.testing import check_grads
from tests.unseen import Noted, unseen

X = np.linspace(0.2, 1.4, 4)


# -- control flow on values


def test_if() -> None:
    def f(x):
        if x > 1.0:
            return x * x
        elif x < 0 and not x == -1.0:
            return -x
        return np.sin(x)

    assert grad(f)(2.0) == 4.0
    assert grad(f)(-3.0) == -1.0
    assert grad(f)(0.5) == np.cos(0.5)
    assert grad(grad(f))(2.0) == 2.0
    assert jvp(f, (2.0,), (1.0,)) == (4.0, 4.0)


def test_while_newton() -> None:
    def root(a):
        x = a
        while abs(x * x - a) > 1e-12:
            x = 0.5 * (x + a / x)
        return x

    np.testing.assert_allclose(grad(root)(2.0), 0.5 / np.sqrt(2.0))
    np.testing.assert_allclose(grad(grad(root))(2.0), -0.25 * 2.0**-1.5, rtol=1e-6)


def test_for_over_rows_and_range_of_a_traced_number() -> None:
    def f(x, n):
        total = 0.0
        for row in x:
            total = total + np.sum(row * row)
        for i in range(n):
            total = total * 2 + i
        return total

    np.testing.assert_array_equal(grad(f)(np.ones((2, 3)), 2), np.full((2, 3), 8.0))

    def g(x):
        return x * range(int(x))[-1]

    assert grad(g)(4.7) == 3.0


def test_int_len_and_index() -> None:
    table = [10.0, 20.0, 30.0]

    def f(x):
        k = int(np.sum(x > 0.5))
        return np.sum(x) * table[k - 1] * len(x) * table[np.argmax(x)]

    np.testing.assert_array_equal(grad(f)(np.array([0.1, 0.7, 0.6])), np.full(3, 20.0 * 3 * 20.0))


def test_print_and_formatting(capsys: pytest.CaptureFixture) -> None:
    def f(x):
        print(x, f"{x:.2f}", "%d" % x, str(x))  # noqa: UP031
        return x * x

    assert grad(f)(1.5) == 3.0
    assert capsys.readouterr().out == "1.5 1.50 1 1.5\n"
    grad(lambda x: print(x) or np.sum(x))(np.ones(2))
    assert capsys.readouterr().out == "[1. 1.]\n"


def test_percent_makes_a_text_of_the_value(capsys: pytest.CaptureFixture) -> None:
    form = "loss %g"

    def f(x: Any) -> Any:
        held = np.zeros(2)
        held[0] = x[0]  # a twin runs
        line = "%.1f%%|"
        line %= x[1]
        print("it %d" % 3, form % x[1], line, b"%.1f" % x[1])  # noqa: UP031
        print("%.2f %5.1f" % (x[0], np.sum(x)), "%(a).3f" % {"a": held[0]})  # noqa: UP031
        return np.sum(x * x) + held[0]

    x, line = np.array([0.5, 1.5]), "it 3 loss 1.5 1.5%| b'1.5'\n0.50   2.0 0.500\n"
    for run in (grad(f), lambda x: jvp(f, (x,), (x,)), grad(lambda x: np.sum(grad(f)(x))), lambda x: vmap(grad(f))(x[None])):
        f(x)
        run(x)
        assert capsys.readouterr().out == line * 2
    np.testing.assert_allclose(grad(f)(x), 2 * x + [1, 0])
    program = jit(grad(lambda x: print("%.1f" % x) or x * x))  # noqa: UP031
    assert [program(v) for v in (1.0, 2.0, 3.0)] == [2.0, 4.0, 6.0]
    assert capsys.readouterr().out.splitlines()[-3:] == ["1.0", "2.0", "3.0"]


def test_what_percent_asks_of_objects_stays_a_conversion() -> None:
    class Number:
        def __init__(self, x: Any) -> None:
            self.x = x

        def __float__(self) -> float:
            return float(self.x)

    for f in (lambda x: "%f" % float(x) and x, lambda x: "%f" % Number(x) and x):  # noqa: UP031
        with pytest.raises(TracerArrayConversionError, match="float"):
            grad(f)(1.5)


def test_boolean_masks_and_nonzero() -> None:
    def f(x):
        return np.sum(x[x > 0.5] ** 2)

    np.testing.assert_allclose(grad(f)(X), np.where(X > 0.5, 2 * X, 0.0))

    def g(x):
        (i,) = np.nonzero(x > 0.5)
        return np.sum(np.sin(x[i]))

    np.testing.assert_allclose(grad(g)(X), np.where(X > 0.5, np.cos(X), 0.0))

    def h(x):
        return np.sum(np.where(x > 0.5, x * x, 0.0)) if np.any(x > 0.5) else np.sum(x)

    np.testing.assert_allclose(grad(h)(X), np.where(X > 0.5, 2 * X, 0.0))


def test_comparisons_are_plain_arrays() -> None:
    seen = []

    def f(x):
        seen.extend([x > 0.5, np.argmax(x), np.isfinite(x), np.sign(x) > 0])
        return np.sum(x)

    grad(f)(X)
    assert [type(s) for s in seen] == [np.ndarray, np.int64, np.ndarray, np.ndarray]


def test_try_except_sees_numpys_errors() -> None:
    def f(x):
        try:
            return np.sum(x + np.ones(3))
        except ValueError as error:
            assert "broadcast" in str(error)
            return np.sum(x * 2.0)

    np.testing.assert_array_equal(grad(f)(X), np.full(4, 2.0))

    def g(x):
        try:
            return x[7]
        except IndexError:
            return x[-1]

    np.testing.assert_array_equal(grad(g)(X), [0, 0, 0, 1])


def test_errstate_governs_primal_work_only() -> None:
    def f(x):
        with np.errstate(divide="raise"):
            try:
                return np.sum(1.0 / x)
            except FloatingPointError:
                return np.sum(x)

    np.testing.assert_array_equal(grad(f)(np.zeros(2)), [1.0, 1.0])
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        grad(lambda x: np.log(x))(np.float64(0.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert grad(lambda x: np.sqrt(x))(0.0) == np.inf
        assert np.isinf(jvp(np.sqrt, (0.0,), (1.0,))[1])


def test_jit_and_vmap_say_what_to_write_instead() -> None:
    def f(x):
        return x if x > 0 else -x

    plain = partial(jit, guards=False)
    for transformed, arg in ((plain(f), 1.0), (jit(vmap(f)), X), (plain(grad(f)), 1.0), (grad(plain(f)), 1.0)):
        with pytest.raises(TracerBoolConversionError, match="np.where"):
            transformed(arg)
    with pytest.raises(TracerIntegerConversionError, match="funcad.fori_loop"):
        plain(lambda n: sum(range(n)))(3)


# -- each primitive runs once

ran: list[str] = []


def _counted_impl(xp: Any, x: Any) -> Any:
    ran.append("counted")
    return np.sin(x)


counted = elementwise("counted", _counted_impl, [lambda t, out, x: mul(t, cos(x))])


def smooth(x: Any) -> Any:
    return np.sum(counted(x) * x)


def with_if(x: Any) -> Any:
    y = counted(x)
    if np.sum(y) > 0:
        return np.sum(y * x)
    return np.sum(y)


def runs_of(f: Callable[[], Any]) -> int:
    ran.clear()
    f()
    return len(ran)


@pytest.mark.parametrize("f", [smooth, with_if], ids=["straight", "with an if"])
def test_every_primitive_runs_once(f: Callable[[Any], Any]) -> None:
    assert runs_of(lambda: f(X)) == 1
    assert runs_of(lambda: grad(f)(X)) == 1
    assert runs_of(lambda: value_and_grad(f)(X)) == 1
    assert runs_of(lambda: jvp(f, (X,), (X,))) == 1
    assert runs_of(lambda: grad(lambda x: np.sum(grad(f)(x)))(X)) == 1
    assert runs_of(lambda: hvp(f, (X,), (X,))) == 1
    assert runs_of(lambda: jacrev(f)(X)) == 1
    assert runs_of(lambda: jacfwd(f)(X)) == 1
    assert runs_of(lambda: hessian(f)(X)) == 1
    np.testing.assert_allclose(grad(f)(X), np.cos(X) * X + np.sin(X))


def test_pullbacks_and_pushforwards_run_nothing_again() -> None:
    assert runs_of(lambda: [pull(1.0) for pull in [vjp(smooth, X)[1]] for _ in range(3)]) == 1
    assert runs_of(lambda: [push(X) for push in [linearize(smooth, X)[1]] for _ in range(3)]) == 1


def test_jitted_programs_run_once_per_call() -> None:
    f = jit(smooth)
    for _ in range(2):
        assert runs_of(lambda: grad(f)(X)) == 1
        assert runs_of(lambda: hvp(f, (X,), (X,))) <= 1  # the first call records it, later ones are native code
        assert runs_of(lambda: grad(lambda x: np.sum(grad(f)(x)))(X)) == 1

    def then_if(x):
        y = f(x)
        return y * 2 if y > 0 else y

    assert runs_of(lambda: grad(then_if)(X)) == 1
    np.testing.assert_allclose(grad(then_if)(X), 2 * (np.cos(X) * X + np.sin(X)))


def test_vmapped_primitives_run_once() -> None:
    rows = np.stack([X, 2 * X])
    assert runs_of(lambda: vmap(smooth)(rows)) == 1
    assert runs_of(lambda: vmap(grad(smooth))(rows)) == 1
    assert runs_of(lambda: grad(lambda r: np.sum(vmap(smooth)(r)))(rows)) == 1


def calls_during(f: Callable[[], Any]) -> int:
    """How many functions, Python's and C's, are called meanwhile."""
    count = 0

    def profiler(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    sys.setprofile(profiler)
    try:
        f()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.slow
def test_a_long_newton_iteration_costs_time_linear_in_its_steps() -> None:
    def newton(a, steps):
        x, i = a, 0
        while i < steps and not x < 0:
            x = 0.5 * (x + a / x)
            i += 1
        return x

    gradient = grad(newton)
    np.testing.assert_allclose(gradient(2.0, 3000), 0.5 / np.sqrt(2.0))
    steps = (1000, 2000, 6000, 7000)  # 3 rows each
    for n in steps * 3:
        gradient(2.0, n)
    calls = [calls_during(partial(gradient, 2.0, n)) for n in steps]
    assert calls[3] - calls[2] < 1.05 * (calls[1] - calls[0])


def test_second_derivatives_through_python_control_flow() -> None:
    def f(x):
        y = x
        while np.sum(y) < 10:
            y = y * y + x if np.sum(y) > 2 else y + np.exp(x)
        return y

    check_grads(f, (np.array([0.3, 0.4]),), order=2, rtol=1e-5, atol=1e-5)


# -- buffers that change


def test_reused_scratch_buffers() -> None:
    def f(x):
        buffer, total = np.zeros(3), 0.0
        for i in range(3):
            buffer[:] = i + 1
            total = total + np.sum(x * x * buffer)
        return total

    for differentiate in (grad(f), jacrev(f), jacfwd(f)):
        np.testing.assert_array_equal(differentiate(np.ones(3)), np.full(3, 12.0))
    y, pullback = vjp(f, np.ones(3))
    np.testing.assert_array_equal(pullback(1.0)[0], np.full(3, 12.0))


N_LARGE = 64 * 1024  # of float64: well above what is copied


def test_large_captured_arrays_are_read_only_while_a_derivative_needs_them() -> None:
    buffer = np.ones(N_LARGE)

    def f(x):
        y = x * buffer
        with pytest.raises(ValueError, match="read-only"):
            buffer[:] = 2.0
        return np.sum(y)

    np.testing.assert_array_equal(grad(f)(np.ones(N_LARGE)), 1.0)
    buffer[:] = 3.0  # writeable again
    y, pullback = vjp(lambda x: x * buffer, np.ones(N_LARGE))
    with pytest.raises(ValueError, match="read-only"):
        buffer[0] = 2.0
    np.testing.assert_array_equal(pullback(np.ones(N_LARGE))[0], 3.0)
    del pullback
    buffer[0] = 2.0


def test_the_callers_arrays() -> None:
    small, large = np.ones(3), np.ones(N_LARGE)
    _, pullback = vjp(lambda x: x * np.sin(x), small)
    small[:] = 7.0  # small ones were copied
    np.testing.assert_allclose(pullback(np.ones(3))[0], np.sin(1.0) + np.cos(1.0))
    _, pullback = vjp(lambda x: x * np.sin(x), large)
    with pytest.raises(ValueError, match="read-only"):
        large[:] = 7.0
    del pullback
    large[:] = 7.0
    grad(lambda x: np.sum(x * np.sin(x)))(large)
    assert large.flags.writeable and np.all(large == 7.0)


def test_results_are_the_callers_own() -> None:
    x = np.ones(3)
    y, pullback = vjp(lambda v: np.exp(v), x)
    y[:] = 0.0  # exp's output is its residual
    np.testing.assert_allclose(pullback(np.ones(3))[0], np.e)
    out, tangent = jvp(lambda v: v, (x,), (x,))
    out[:] = tangent[:] = 5.0
    np.testing.assert_array_equal(x, 1.0)
    a, b = vjp(lambda v: (v, v), x)[0]
    a[:] = 2.0
    np.testing.assert_array_equal(b, 1.0)
    ct = np.ones(3)
    (g,) = vjp(lambda v: v + 1.0, x)[1](ct)
    g[:] = 9.0
    np.testing.assert_array_equal(ct, 1.0)


def test_an_intermediate_cannot_be_written_behind_the_derivative() -> None:
    """What comes back without a tangent may be an operand itself: it is a read-only view."""

    def f(x):
        mask = x > 0.5
        y = x * mask
        mask[:] = False  # the user's own array, small: it was copied
        return np.sum(y)

    np.testing.assert_array_equal(grad(f)(X), (X > 0.5).astype(float))


def test_locks_are_released_after_an_error() -> None:
    buffer = np.ones(N_LARGE)

    def f(x):
        y = np.sum(x * buffer)
        raise KeyError("user's own")
        return y

    for transformed in (grad(f), jit(f), vmap(f), lambda x: vjp(f, x), lambda x: jvp(f, (x,), (x,))):
        with pytest.raises(KeyError, match="user's own"):
            transformed(np.ones((2, N_LARGE)))
        assert buffer.flags.writeable


def test_two_views_of_one_buffer() -> None:
    """NumPy lets a view become writeable only while its base is: locks end with the last of them, in any order."""
    for first in (0, 1):
        base = np.ones((2, N_LARGE))
        views = [base[0], base[1]]
        pullbacks = [vjp(lambda x, v=v: x * v, np.ones(N_LARGE))[1] for v in views]
        assert not any(a.flags.writeable for a in (base, *views))
        pullbacks[first] = None
        with pytest.raises(ValueError, match="read-only"):
            base[:] = 2.0
        pullbacks[1 - first] = None
        base[:] = 2.0
        assert all(a.flags.writeable for a in (base, *views))


def test_a_read_only_array_stays_read_only() -> None:
    frozen = np.ones(N_LARGE)
    view = frozen[:]
    frozen.flags.writeable = False
    pullback = vjp(lambda x: x * frozen, np.ones(N_LARGE))[1]
    del pullback
    assert not frozen.flags.writeable and view.flags.writeable
    pullback = vjp(lambda x: x * view, np.ones(N_LARGE))[1]
    assert not view.flags.writeable
    del pullback
    assert not frozen.flags.writeable and view.flags.writeable


def test_captured_arrays_while_jit_traces() -> None:
    captured = np.ones(3)

    def write() -> None:
        captured[:] = 5.0

    write = unseen(write)

    def f(x):
        y = x * captured
        with pytest.raises(ValueError, match="read-only"):
            write()
        return y

    g = jit(f)
    np.testing.assert_array_equal(g(np.ones(3)), 1.0)
    captured[:] = 2.0  # afterwards it is read by reference at every call
    np.testing.assert_array_equal(g(np.ones(3)), 2.0)
    np.testing.assert_array_equal(grad(lambda x: np.sum(g(x)))(np.ones(3)), 2.0)


# -- leaked tracers


@pytest.mark.parametrize("transform", [grad, jit, lambda f: vmap(f, axis_size=2, in_axes=None)], ids=["grad", "jit", "vmap"])
def test_leaked_tracers(transform: Callable[..., Any]) -> None:
    kept = Noted()
    keep = kept.note  # jit raises where it sees that a traced value is stored

    def f(x):
        y = x * 2.0
        keep(y)
        return y

    transform(f)(1.0)
    with pytest.raises(UnexpectedTracerError, match="returned") as caught:
        kept[0] + 1.0
    assert "test_following.py" in str(caught.value)
    with pytest.raises(UnexpectedTracerError):
        grad(lambda x: x * kept[0])(1.0)
    with pytest.raises(UnexpectedTracerError):
        jit(lambda x: x * kept[0])(1.0)
    with pytest.raises(UnexpectedTracerError):
        grad(lambda x: kept[0])(1.0)
