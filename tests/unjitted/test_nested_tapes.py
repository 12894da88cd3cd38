"""Un-jitted second derivatives: an outer trace records how the inner one goes back, as the rules and jit do."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad import grad, hessian, hvp, jacfwd, jit, jvp, value_and_grad
from funcad.unjitted import backward
from tests.unjitted.by_rules import by_rules


def close(a: Any, b: Any, rtol: float = 1e-10) -> None:
    for x, y in zip(fc.tree.leaves(a), fc.tree.leaves(b), strict=True):
        assert np.shape(x) == np.shape(y) and np.asarray(x).dtype == np.asarray(y).dtype
        if np.asarray(x).dtype == fc.float0:
            continue
        scale = float(np.max(np.abs(y), initial=1e-30, where=np.isfinite(y))) if np.size(y) else 1.0
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * scale)


def elementary(x: Any) -> Any:
    return np.sum(np.sin(x) * np.exp(-x) + np.tanh(x) ** 2 / (1.0 + x * x)) + x[0] ** 3 * np.log(x[1])


def products(x: Any) -> Any:
    w = np.outer(x, x) + np.diag(x)
    return np.sum(np.tanh(w @ x)) + np.dot(x, x) ** 2 + np.sum((w * np.arange(9.0).reshape(3, 3)).T @ w)


def moved(x: Any) -> Any:
    y = np.concatenate([x[::-1], x[1:], np.stack([x[0], 2.0 * x[2]])])
    return np.sum(y[:3] * y[3:6]) * np.sum(np.reshape(y[:6], (2, 3)) ** 2) + np.prod(x)


def chosen(x: Any) -> Any:
    y = np.where(x > 0.5, np.sqrt(np.where(x > 0.5, x, 1.0)), x**2)
    return np.sum(y * np.maximum(x, 0.4)) + np.max(x * x) + np.sum(np.abs(x - 0.3) ** 3)


def behind_masks(x: Any) -> Any:
    with np.errstate(all="ignore"):
        y = np.where(x > 0.7, np.sqrt(np.abs(x - 0.7)), 0.0) + np.where(x > 0.7, x**2, np.log(x - 0.7))
        return np.sum(np.where(x > 0.7, y, x * x) * x)


def several(x: Any) -> Any:
    a = np.outer(x, x) + np.diag(np.arange(3.0))
    sign, logdet = np.linalg.slogdet(a)
    values, vectors = np.linalg.eigh(a)
    first, second = np.split(np.concatenate([x, x * x]), 2)
    return logdet * sign + np.sum(values * np.arange(3.0)) + np.sum(vectors[:, 0] ** 2 * x) + np.sum(first * second)


def norms(x: Any) -> Any:
    return np.linalg.norm(x) ** 2 * np.sum(x) + np.sqrt(np.sum(x * x)) * x[0]


def linear(x: Any) -> Any:
    return np.sum(x * np.arange(3.0)) + 2.0


FUNCTIONS = [elementary, products, moved, chosen, behind_masks, several, norms, linear]
X, V = np.array([0.3, 0.7, 1.1]), np.array([1.0, -0.5, 2.0])
SECOND = {
    "hvp": lambda f: lambda x: hvp(f, (x,), (V,)),
    "grad of grad": lambda f: grad(lambda x: np.vdot(grad(f)(x), V.astype(x.dtype))),
    "value and gradient": lambda f: lambda x: jvp(value_and_grad(f), (x,), (V,)),
    "grad of both": lambda f: grad(lambda x: (lambda v, g: v * np.sum(g * g))(*value_and_grad(f)(x))),
    "hessian": hessian,
    "jacrev of grad": lambda f: fc.jacrev(grad(f)),
    "jacfwd of jacfwd": lambda f: jacfwd(jacfwd(f)),
    "reverse of forward": lambda f: grad(lambda x: jvp(f, (x,), (V,))[1]),
}


@pytest.mark.share(6)
@pytest.mark.filterwarnings("ignore:grad. the output")
@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_second_derivatives(f: Any, second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    g = SECOND[second](f)
    expected = by_rules(monkeypatch, g, X)
    for x in (X, X, X, X, X + 0.01, X):
        close(g(x), expected if x is X else by_rules(monkeypatch, g, x))
    close(jit(g)(X), expected)


@pytest.mark.parametrize("x", [0.5, np.float64(0.5), np.float32(0.5)], ids=lambda x: type(x).__name__)
def test_numbers_and_orders(x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return x**3 * np.sin(x) + np.exp(x * 2) / (x + 1)

    g = f
    for _ in range(4):
        g = grad(g)
        expected = by_rules(monkeypatch, g, x)
        for _ in range(4):
            close(g(x), expected, rtol=1e-4 if type(x) is np.float32 else 1e-9)
    for h in (grad(hessian(f)), lambda x: jvp(lambda x: hvp(f, (x,), (x,)), (x,), (x,)), jacfwd(jacfwd(hessian(f)))):
        for _ in range(4):
            close(h(x), by_rules(monkeypatch, h, x), rtol=1e-4 if type(x) is np.float32 else 1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_dtypes(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = (X + 0.25j).astype(dtype) if dtype is np.complex128 else X.astype(dtype)
    v = (V - 1j).astype(dtype) if dtype is np.complex128 else V.astype(dtype)

    def f(x: Any) -> Any:
        return np.sum(np.real(np.sin(x) * x * np.conj(x))) + np.sum(np.abs(x) ** 2)

    g = lambda x: hvp(f, (x,), (v,))
    expected = by_rules(monkeypatch, g, x)
    for _ in range(4):
        close(g(x), expected, 1e-5 if dtype is np.float32 else 1e-10)
    for _ in range(3):
        close(g(x.astype(dtype)), expected, 1e-5 if dtype is np.float32 else 1e-10)
    holomorphic = hessian(lambda x: np.sum(np.sin(x) * x), holomorphic=True)
    if dtype is np.complex128:
        expected = by_rules(monkeypatch, holomorphic, x)
        for _ in range(4):
            close(holomorphic(x), expected)


def test_trees_auxiliary_results_and_several_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    p = {"w": np.arange(6.0).reshape(3, 2) / 7, "b": [np.ones(2), 0.5]}
    q = fc.tree.map(lambda a: a * 0.5 + 1.0, p)

    def f(p: Any, x: Any) -> Any:
        h = np.tanh(x @ p["w"] + p["b"][0]) * p["b"][1]
        return np.sum(h * h) * x[0], {"h": h, "n": 3, "x": x}

    def first(p: Any, x: Any) -> Any:
        return f(p, x)[0]

    cases = [
        lambda: hvp(first, (p, X), (q, V)),
        lambda: jvp(grad(f, argnums=(1, 0), has_aux=True), (p, X), (q, V)),
        lambda: jvp(value_and_grad(f, has_aux=True), (p, X), (q, np.zeros(3))),
        lambda: jvp(lambda p: grad(f, has_aux=True)(p, X), (p,), (q,)),
        lambda: jvp(lambda x: value_and_grad(f, has_aux=True)(p, x * 2.0), (X,), (V,)),
        lambda: hessian(first, argnums=(0, 1))(p, X),
        lambda: hessian(first, argnums=1)(p, X),
        lambda: hessian(f, has_aux=True)(p, X),
        lambda: jvp(grad(f, has_aux=True), (p, X), (q, V), has_aux=True),
    ]
    for case in cases:
        found = [case() for _ in range(5)]
        expected = by_rules(monkeypatch, case)
        for g in found:
            close(g, expected)


@pytest.mark.filterwarnings("ignore:grad. the output")
def test_closures_over_outer_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inner gradient depends on the outer value by its argument, by what it closes over, and by both."""
    cases = [
        lambda x: grad(lambda y: np.sum(y * x * y) + np.sum(np.sin(x)))(X),
        lambda x: grad(lambda y: np.sum(y * x * np.exp(y * x)))(x),
        lambda x: grad(lambda y: np.sum(np.where(y > 0.5, x, y) * x) + y[0] * x[1])(x * 2.0),
        lambda x: value_and_grad(lambda y: np.sum(y * X) + np.sum(np.concatenate([x, y]) ** 2))(X),
        lambda x: grad(lambda y: np.sum(X * y))(x),
        lambda x: grad(lambda y: np.sum(y**3) * (x[0] if np.sum(x) > 0 else 1.0))(X),
        lambda x: x * grad(lambda y: grad(lambda z: np.sum(z * y * x * z))(y) @ x)(x),
    ]
    for f in cases:
        for outer in (
            lambda x, f=f: jvp(f, (x,), (V,)),
            jacfwd(f),
            lambda x, f=f: grad(lambda x: np.sum(fc.tree.leaves(f(x))[-1] ** 2))(x),
        ):
            found = [outer(X) for _ in range(5)]
            expected = by_rules(monkeypatch, outer, X)
            for g in found:
                close(g, expected)


def test_operations_without_rows_come_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then the outer trace knew nothing of what had been computed: it is told, and nothing is computed again."""
    big = np.linspace(0.0, 1.0, 20_000)
    ends = {
        "loop": lambda y, x: fc.scan(lambda c, _: (np.sin(c) * y[0], c), y[1] * 2.0, None, length=3)[0],
        "branch": lambda y, x: fc.cond(y[0] > 0, np.sin, np.cos, y[1] * x[0]),
        "large": lambda y, x: np.sum(np.sin(y[0] * big) * y[1]),
        "jit": lambda y, x: np.sum(jit(np.sin)(y * x)),
        "vmap": lambda y, x: np.sum(fc.vmap(lambda z: z * y[0] * np.sin(x))(y)),
        "custom": lambda y, x: np.sum(cube(y * x)),
        "sorted": lambda y, x: np.sum(np.sort(y * 2.0) * y),
    }

    @fc.custom_vjp
    def cube(x: Any) -> Any:
        return x * x * x

    cube.defvjp(lambda x: (x * x * x, x), lambda x, ct: (3.0 * x * x * ct,))
    for name, end in ends.items():

        def f(y: Any, x: Any, end: Any = end) -> Any:
            a = np.sin(y) * x + y
            kept = np.exp(a * 0.1), 1.0 * a[0] + a[1]
            return end(y, x) * np.sum(a) + np.sum(kept[0] * a) + kept[1] ** 2

        second: list[Any] = [
            lambda x: jvp(lambda x: grad(f)(x, x * 2.0), (x,), (V,)),
            lambda x: grad(lambda x: np.sum(grad(f)(x, x)))(x),
        ]
        if name != "custom":
            second.append(jacfwd(lambda x: grad(f)(X, x)))
        for g in second:
            found = [g(X) for _ in range(4)]
            expected = by_rules(monkeypatch, g, X)
            for result in found:
                close(result, expected)


def test_control_flow_on_values() -> None:
    def f(x: Any) -> Any:
        y = x
        while np.sum(y) < 5.0:
            y = y * y + 1.0
        return np.sum(y * x) if float(fc.stop_gradient(x)[0]) > 0 else np.sum(x**3)

    for x in (X, X + 1.0, -X, X, X + 1.0, -X, X * 3.0, X, X + 1.0, -X):
        for g in (lambda x: hvp(f, (x,), (V,)), lambda x: hessian(f)(x) @ V, grad(lambda x: np.vdot(grad(f)(x), V))):
            step = 1e-5
            near = (grad(f)(x + step * V) - grad(f)(x - step * V)) / (2 * step)
            np.testing.assert_allclose(g(x), near, rtol=1e-6, atol=1e-6)


def test_f_runs_once_and_so_does_each_operation() -> None:
    """Of each call: the lines of f, the primitives, and the warnings, which name their lines."""
    lines = []

    def f(x: Any) -> Any:
        lines.append("f")
        y = np.log(x)
        return np.sum(np.where(x > 0, y, 0.0) * x)

    x = np.array([0.0, 1.0, 2.0])
    for g in (lambda: hvp(f, (x,), (V,)), lambda: hessian(f)(x), lambda: grad(lambda x: np.vdot(grad(f)(x), V))(x)):
        for _ in range(5):
            lines.clear()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                g()
            assert lines == ["f"]
            assert [(str(w.message), w.filename) for w in caught] == [("divide by zero encountered in log", __file__)]
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            g()
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            g()


def test_buffers_that_are_written_meanwhile() -> None:
    def f(x: Any, own: Any, buffer: Any) -> Any:
        y = np.sum(np.exp(x) * buffer)
        own[:] = 100.0
        buffer[:] = -1.0
        return y

    for _ in range(5):
        x, buffer = np.array([0.0, 1.0]), np.array([1.0, 2.0])
        expected = np.exp(x) * buffer * [3.0, 4.0]
        np.testing.assert_allclose(hvp(lambda y, x=x, buffer=buffer: f(y, x, buffer), (x,), (np.array([3.0, 4.0]),)), expected)
    for _ in range(5):
        x, buffer = np.array([0.0, 1.0]), np.array([1.0, 2.0])
        expected = np.diag(np.exp(x) * buffer)
        np.testing.assert_allclose(hessian(lambda y, x=x, buffer=buffer: f(y, x, buffer))(x), expected)


def test_results_are_the_callers_own() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(x * y) + np.sum(x)

    for _ in range(5):
        x, y = X.copy(), V.copy()
        (value, grads), (_, moved) = jvp(value_and_grad(f, argnums=(0, 1)), (x, y), (y, x))
        arrays = [*grads, *moved, *fc.tree.leaves(hessian(f, argnums=(0, 1))(x, y))]
        for i, a in enumerate(arrays):
            assert a.flags.writeable and not any(np.shares_memory(a, b) for b in [x, y, *arrays[: min(i, 4)]])
        np.testing.assert_array_equal(grads[0], V + 1.0)
        np.testing.assert_array_equal(moved[0], X)


def test_errors_leave_nothing_behind() -> None:
    class Stop(Exception):
        pass

    fail = [False]

    def f(x: Any) -> Any:
        y = np.sin(x) * x
        if fail[0]:
            raise Stop
        return np.sum(y * y)

    for g in (lambda: hvp(f, (X,), (V,)), lambda: hessian(f)(X), lambda: grad(lambda x: np.vdot(grad(f)(x), V))(X)):
        expected = g()
        for i in range(6):
            fail[0] = i % 2 == 1
            if fail[0]:
                with pytest.raises(Stop):
                    g()
            else:
                close(g(), expected)
        fail[0] = False


def test_leaked_values_say_so() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(np.sin(x))
        return np.sum(kept[-1] * x)

    for _ in range(4):
        hvp(f, (X,), (V,))
        with pytest.raises(fc.errors.UnexpectedTracerError, match="test_nested_tapes.py"):
            kept[-1] * 2.0


def test_threads() -> None:
    wrong = []

    def work(i: int) -> None:
        for k in range(40):
            x = X + 0.01 * (i + k)
            found = hvp(lambda x: np.sum(x**3), (x,), (V,))
            matrix = hessian(lambda x: np.sum(x**3))(x)
            if not (np.allclose(found, 6 * x * V) and np.allclose(matrix, np.diag(6 * x))):
                wrong.append((i, k))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_under_jit_and_vmap() -> None:
    xs = np.stack([X, X + 0.1])
    for g in (lambda x: hvp(elementary, (x,), (V,)), hessian(elementary), grad(lambda x: np.vdot(grad(elementary)(x), V))):
        expected = [g(x) for x in xs]
        for _ in range(3):
            close(jit(g)(X), expected[0])
            close(fc.vmap(g)(xs), np.stack(expected))
            close(jvp(jit(g), (X,), (V,))[0], expected[0])
        with np.errstate(all="ignore"), fc.debug_nans(), pytest.raises(FloatingPointError):
            g(np.array([1.0, -1.0, 1.0]))


def test_memory_order_is_known_or_refused() -> None:
    """What an outer trace does not know of its values' layout, the inner one does not either."""
    a = np.asfortranarray(np.arange(6.0).reshape(2, 3) + 1.0)

    def f(x: Any) -> Any:
        return np.sum(np.ravel(x, order="K") * np.arange(6.0) * np.ravel(x * x, order="K"))

    weights = np.arange(6.0).reshape(3, 2).T
    for _ in range(4):
        np.testing.assert_allclose(hvp(f, (a,), (a,)), 6 * weights * a * a)


def test_jacobians_found_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [
        lambda x: np.outer(x, np.sin(x)),
        lambda x: {"a": (x * x, np.ones(2)), "b": x[0] * 2.0, "c": x.astype(np.float32)},
        lambda x: x[:0] * 2.0,
        lambda x: np.where(x > 0.5, np.sqrt(np.abs(x - 0.5)), 0.0),
        lambda x: np.exp(1j * x),
    ]
    for f in cases:
        found = [jacfwd(f)(X) for _ in range(4)]
        for g in found:
            close(g, by_rules(monkeypatch, jacfwd(f), X))
        assert all(a.flags.writeable for a in fc.tree.leaves(found[-1]))
    large = np.linspace(0.0, 1.0, 400)
    for _ in range(3):
        np.testing.assert_allclose(jacfwd(np.sin)(large), np.diag(np.cos(large)))


def test_jacobians_go_back_in_blocks_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a block has rows of two outputs, where one of them depends on nothing, and where there is no output."""
    cases = [
        lambda x: np.outer(x, np.sin(x)),
        lambda x: {"a": (x * x, np.ones(3)), "b": x[0] * 2.0, "c": np.outer(x, x)},
        lambda x: x[:0] * 2.0,
        lambda x: np.tensordot(x, x, 1) * np.outer(x, np.ones(3)),
    ]
    sizes: list[int] = []
    columns = backward.columns
    monkeypatch.setattr(backward, "columns", lambda *args: sizes.append(args[2]) or columns(*args))
    for f in cases:
        expected = fc.jacrev(f)(X)
        with monkeypatch.context() as few:
            few.setattr("funcad.api.jacobian._TOGETHER", 36)
            close(fc.jacrev(f)(X), expected)
    assert sizes == [9, *[4, 4, 1], 16, *[2] * 8, 0, 0, 9, *[4, 4, 1]]


# -- a gradient that begins masks, within another gradient


SEEN = {  # a program -> a place where its second derivative has NaN without masks
    "half powers": (lambda x: np.sum(np.where(x > 0, np.abs(x) ** 1.5, 0.0)), np.array([0.0, 1.0, -1.0])),
    "a part of a product": (lambda x: np.sum((np.sqrt(x) * x)[1:]), np.array([0.0, 4.0, 1.0])),
    "written elements": (lambda x: np.sum(written(x)), np.array([0.0, 4.0, 1.0])),
    "a rule of one's own": (lambda x: np.sum(own_power(x)[1:] * x[0]), np.array([0.0, 4.0, 1.0])),
}


def written(x: Any) -> Any:
    y = x**1.5
    y[0] = x[1] ** 2
    return y


@fc.custom_vjp
def own_power(x: Any) -> Any:
    return x**1.5


own_power.defvjp(lambda x: (x**1.5, x), lambda x, ct: (ct * 1.5 * x**0.5,))


@pytest.mark.parametrize("name", SEEN)
def test_a_gradient_within_a_gradient_goes_back_with_masks_where_nan_is_met(monkeypatch, name):
    f, kink = SEEN[name]
    times = []
    masked = backward._masked
    monkeypatch.setattr(backward, "_masked", lambda *args: [times.append(1), masked(*args)][1])
    v = np.array([1.0, -2.0, 0.5])
    second = grad(lambda x: np.sum(grad(f)(x) * v))
    smooth = second(kink + 2.0)
    assert not times  # where no NaN is met nothing is selected
    np.testing.assert_allclose(smooth, jvp(grad(f), (kink + 2.0,), (v,))[1], rtol=1e-12)
    del times[:]
    with np.errstate(all="ignore"):
        found = second(kink)
        assert times
        # forward mode and jit have masks at once
        np.testing.assert_allclose(found, jvp(grad(f), (kink,), (v,))[1], rtol=1e-12)
        np.testing.assert_allclose(found, jit(second)(kink), rtol=1e-12)
        _, back = fc.vjp(grad(f), kink)
        np.testing.assert_allclose(back(v)[0], found, rtol=1e-12)
        np.testing.assert_allclose(back(2.0 * v)[0], 2.0 * found, rtol=1e-12)
        third = grad(lambda x: np.sum(second(x) * v))
        np.testing.assert_allclose(third(kink), jit(third)(kink), rtol=1e-12)


def test_an_inner_gradient_with_nan_of_its_own_has_masks_at_once():
    def f(x):
        return np.sum(np.where(x > 0, np.log(x), x**2) * x)

    x, v = np.array([0.0, 1.0, -2.0]), np.array([1.0, -2.0, 0.5])
    with np.errstate(all="ignore"):
        found = grad(lambda x: np.sum(grad(f)(x) * v))(x)
    np.testing.assert_allclose(found, [0.0, -2.0, -6.0])


def test_what_an_inner_gradient_keeps_for_masks_is_safe_from_the_user():
    """The inner derivative is over when the array is written, the outer one is not."""
    for n in (3, 300, 30_000):
        scale = np.full(n, 2.0)
        x = np.linspace(0.0, 1.0, n)

        def f(x):
            return np.sum(np.where(x > 0, (x * scale) ** 1.5, 0.0))  # noqa: B023

        def outer(x):
            slopes = np.sum(grad(f)(x))
            try:
                scale[...] = np.nan  # noqa: B023
            except ValueError:  # a large array is locked as long as it is needed
                assert n > 3  # noqa: B023
            return slopes

        with np.errstate(all="ignore"):
            found = grad(outer)(x)
        np.testing.assert_allclose(found[1:], 0.75 * 2.0**1.5 / np.sqrt(x[1:]), rtol=1e-12)
        assert found[0] == 0.0


@pytest.mark.parametrize("name", SEEN)
def test_a_gradient_that_forward_mode_ends_with_goes_back_with_masks_where_nan_is_met(monkeypatch, name):
    """Nothing is computed of what it gives, so nobody asks for masks."""
    f, kink = SEEN[name]
    times = []
    masked = backward._masked
    monkeypatch.setattr(backward, "_masked", lambda *args: [times.append(1), masked(*args)][1])
    v = np.array([1.0, -2.0, 0.5])
    smooth = hvp(f, (kink + 2.0,), (v,))
    close(jvp(value_and_grad(f), (kink + 2.0,), (v,)), jit(lambda x: jvp(value_and_grad(f), (x,), (v,)))(kink + 2.0))
    assert not times
    np.testing.assert_allclose(smooth, grad(lambda x: np.sum(grad(f)(x) * v))(kink + 2.0), rtol=1e-12)
    with np.errstate(all="ignore"):
        found = hvp(f, (kink,), (v,))
        assert times
        np.testing.assert_allclose(found, jit(lambda x: hvp(f, (x,), (v,)))(kink), rtol=1e-12)
        # within another derivative something is
        twice = jvp(lambda x: jvp(grad(f), (x,), (v,))[1], (kink,), (v,))[1]
        np.testing.assert_allclose(twice, jit(lambda x: jvp(lambda x: hvp(f, (x,), (v,)), (x,), (v,))[1])(kink), rtol=1e-12)
