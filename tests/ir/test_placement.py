"""Which arrays an operation accepts and where it runs, with a stand-in for CuPy (tests/standin.py)."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.special

from funcad import (
    checkpoint_policies,
    cond,
    config,
    device_get,
    device_put,
    grad,
    hvp,
    jacfwd,
    jacrev,
    jit,
    jvp,
    linearize,
    scan,
    value_and_grad,
    vjp,
    vmap,
    while_loop,
)  # fmt: skip
from funcad import numpy as fnp
from funcad.backends import engines
from funcad.backends.interpreter import Program
from funcad.control import loop_rules
from funcad.errors import PlacementError
from funcad.host import devices
from funcad.host.devices import NAMESPACES
from funcad.primitives.arithmetic import add, mul
from funcad.primitives.transcendental import sin
from funcad.scipy import special as fs
from tests.agreement import assert_close
from tests.specs import OpSpec, all_specs
from tests.standin import DeviceArray, moved, registered, to_device, to_host


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    with registered():
        yield


HOST = np.linspace(0.1, 1.0, 4)


def on_device() -> DeviceArray:
    return to_device(HOST)


def f(x: Any) -> Any:
    return np.sum(np.sin(x) * x)


GRADIENT = np.cos(HOST) * HOST + np.sin(HOST)


def is_on_device(*values: Any) -> bool:
    return all(type(v) is DeviceArray for v in values)


def test_operations_run_where_their_arrays_are() -> None:
    x = on_device()
    for out in (sin(x), mul(x, x), mul(x, 2.0), add(np.float64(1.0), x)):
        assert is_on_device(out)
    assert type(sin(HOST)) is np.ndarray
    np.testing.assert_array_equal(to_host(mul(x, 2.0)), 2.0 * HOST)


def test_zero_dimensional_arrays_follow() -> None:
    scalar = to_device(np.array(3.0))
    out = mul(scalar, np.array(2.0))
    assert is_on_device(out) and float(out) == 6.0
    assert len(moved) == 1


def test_shaped_numpy_arguments_are_refused() -> None:
    with pytest.raises(PlacementError) as caught:
        mul(on_device(), np.ones(4))
    text = str(caught.value)
    assert "mul" in text and "(4,)" in text and "standin" in text and "device_put" in text
    with pytest.raises(TypeError):
        mul(np.ones(4), on_device())


def test_derivatives_stay_on_the_device() -> None:
    x = on_device()
    gradient = grad(f)(x)
    assert is_on_device(gradient)
    np.testing.assert_allclose(to_host(gradient), GRADIENT)
    value, gradient = value_and_grad(f)(x)
    assert is_on_device(value, gradient) and value.shape == ()
    out, tangent = jvp(f, (x,), (x,))
    assert is_on_device(out, tangent) and out.shape == tangent.shape == ()
    out, push = linearize(np.sin, x)
    assert is_on_device(out, push(x))
    out, pull = vjp(np.sin, x)
    assert is_on_device(out, *pull(x))
    second = hvp(f, (x,), (x,))
    assert is_on_device(second)
    np.testing.assert_allclose(to_host(second), (2 * np.cos(HOST) - np.sin(HOST) * HOST) * HOST)


def test_zero_derivatives_are_made_on_the_device() -> None:
    x = on_device()
    out, tangent = jvp(lambda v: (v, 2.0 * np.ones(3)), (x,), (x,))
    assert is_on_device(out[0], tangent[0])
    gradients = grad(lambda a, b: f(a), argnums=(0, 1), allow_int=True)(x, on_device())
    assert is_on_device(*gradients)
    assert not to_host(gradients[1]).any()


def test_jit_runs_on_the_device() -> None:
    x = on_device()
    for g in (jit(f), jit(lambda v: grad(f)(v)), jit(lambda v: jvp(f, (v,), (v,))[1])):
        for _ in range(2):
            assert is_on_device(g(x))
    np.testing.assert_allclose(to_host(jit(grad(f))(x)), GRADIENT)
    assert type(jit(f)(HOST)) is np.float64  # the same function on numpy


def test_vmap_and_jacobians() -> None:
    rows = to_device(np.stack([HOST, 2 * HOST]))
    out = vmap(f)(rows)
    assert is_on_device(out) and out.shape == (2,)
    assert is_on_device(vmap(grad(f))(rows))
    for jacobian in (jacfwd(np.sin), jacrev(np.sin)):
        result = jacobian(on_device())
        assert is_on_device(result)
        np.testing.assert_allclose(to_host(result), np.diag(np.cos(HOST)))


CAPTURED = np.arange(4.0)


def with_capture(x: Any) -> Any:
    total = 0.0
    for _ in range(3):
        total = total + np.sum(np.sin(x) * CAPTURED)
    return total


def test_captured_numpy_arrays_are_moved_once() -> None:
    x = on_device()
    expected = 3 * np.cos(HOST) * CAPTURED
    moved.clear()
    gradient = grad(with_capture)(x)
    assert is_on_device(gradient)
    np.testing.assert_allclose(to_host(gradient), expected)
    assert sum(m is CAPTURED for m in moved) == 1
    moved.clear()
    g = jit(grad(with_capture))
    np.testing.assert_allclose(to_host(g(x)), expected)
    moved.clear()
    g(x)
    assert sum(m is CAPTURED for m in moved) <= 1
    moved.clear()
    np.testing.assert_allclose(to_host(vmap(lambda v: v * CAPTURED[1], in_axes=0)(x)), HOST)


def test_numpy_arguments_beside_device_arguments_raise() -> None:
    x, y = on_device(), np.ones(4)

    def g(a: Any, b: Any) -> Any:
        return np.sum(a * b)

    for transformed in (jit(g), grad(g, argnums=(0, 1)), lambda a, b: vjp(g, a, b), lambda a, b: jvp(g, (a, b), (a, b))):
        with pytest.raises(PlacementError, match="device_put"):
            transformed(x, y)


def test_scalars_beside_device_arguments_are_fine() -> None:
    x = on_device()

    def g(a: Any, b: Any) -> Any:
        return np.sum(a * b)

    for b in (2.0, np.float64(2.0), np.array(2.0)):
        for transformed in (jit(g), grad(g), grad(jit(g))):
            assert is_on_device(transformed(x, b))


def test_nothing_is_known_of_devices_before_the_first() -> None:
    assert set(NAMESPACES) == {DeviceArray}


# -- every primitive

SPECS = [s for s in all_specs() if "cupy" in s.backends]


@pytest.mark.share(4)
@pytest.mark.parametrize("op", [pytest.param(s, id=s.id) for s in SPECS])
def test_every_primitive_runs_on_the_device(op: OpSpec) -> None:
    for args in op.samples():
        if not any(isinstance(x, np.ndarray) for x in args):
            continue
        with np.errstate(all="ignore"):
            expected = op.call(*args)
            there = [to_device(x) for x in args]
            found = op.call(*there)
        for a, b in zip(found, expected):
            assert is_on_device(a), f"{op.id}: a result is {type(a)}"
            assert_close(to_host(a), b, rtol=1e-10 if b.dtype.char not in "efF" else 1e-4, what=op.id)
        positions = op.differentiable(args)
        if op.order == 0 or not positions or not any(e.dtype.kind in "fc" for e in map(np.asarray, expected)):
            continue

        def inexact(*chosen: Any, positions: Any = positions, there: Any = there) -> list[Any]:
            full = list(there)
            for i, x in zip(positions, chosen):
                full[i] = x
            return [o for o in op.call(*full) if o.dtype.kind in "fc"]

        out, pull = vjp(inexact, *[there[i] for i in positions])
        for g in pull(list(out)):
            assert is_on_device(g), f"{op.id}: a cotangent is {type(g)}"


def test_the_stand_in_refuses_numpy_operands() -> None:
    x = on_device()
    for a, b in itertools.permutations([x, HOST]):
        with pytest.raises(TypeError):
            np.multiply(a, b)
    with pytest.raises(TypeError):
        np.asarray(x)
    assert is_on_device(np.sum(x), x[0], x + np.float64(1.0))


# -- programs on NumPy's arrays, in a process that knows a device


def forbidden(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("a program on NumPy's arrays took the device's way")


def test_loops_and_gradients_of_host_arrays_keep_their_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.linspace(0.0, 1.0, 400)

    def looped(a: Any) -> Any:
        return scan(lambda c, x: (np.sin(c) * 0.9 + x * a, None), a, rows)[0]

    def counted(a: Any) -> Any:
        return while_loop(lambda s: s[1] < 400, lambda s: (np.sin(s[0]) * 0.9 + a, s[1] + 1), (a, 0))[0]

    donating = jit(lambda x: np.sin(x) * 2.0 + x, donate_argnums=0)
    programs = (looped, grad(looped), counted, grad(f), grad(lambda x: np.sum(np.exp(-x) * x * CAPTURED)))
    inputs = (0.5, 0.5, 0.5, HOST, HOST)
    monkeypatch.setattr(engines, "LONG_LOOP", 500)
    for _ in range(4):
        expected = [g(x) for g, x in zip(programs, inputs)]
        donating(HOST.copy())
    monkeypatch.setattr(loop_rules, "in_python", forbidden)
    monkeypatch.setattr(Program, "_step_by_step", forbidden)
    for g, x, e in zip(programs, inputs, expected):
        np.testing.assert_array_equal(g(x), e)
    np.testing.assert_array_equal(donating(HOST.copy()), np.sin(HOST) * 2.0 + HOST)
    assert jit(f).explain(HOST).engine != "interpreter"
    explained = jit(f).explain(on_device())
    assert explained.engine == "cupy" and "one call after the other" in explained.why


def _with_budget(x: Any) -> Any:
    step = lambda c: (np.tanh(c[0] * CAPTURED) + 0.1, c[1] + 1)
    return np.sum(while_loop(lambda c: c[1] < 12, step, (x, 0), policy=checkpoint_policies.memory_budget(600))[0])


def _branching(x: Any) -> Any:
    step = lambda c, a: (cond(np.sum(c) > 2.0, lambda c: np.where(c > 0.5, c * CAPTURED, c), lambda c: c + 1.0, c) * a, c)
    return np.sum(scan(step, x, CAPTURED)[1])


@pytest.mark.parametrize("g", [_with_budget, _branching])
@pytest.mark.parametrize(
    "derivative",
    [grad, lambda g: lambda x: vmap(grad(g))(np.stack([x, x * 2.0])), lambda g: lambda x: jvp(grad(g), (x,), (x,))[1]],
    ids=["grad", "vmap of grad", "hvp"],
)
def test_what_rules_of_loops_and_branches_capture_is_moved(g: Any, derivative: Any) -> None:
    for _ in range(3):
        found = derivative(g)(on_device())
        assert is_on_device(found)
        np.testing.assert_allclose(to_host(found), derivative(g)(HOST), rtol=1e-12, atol=1e-14)


def test_captured_device_arrays_leave_the_tape() -> None:
    there = to_device(HOST)
    for _ in range(3):
        np.testing.assert_allclose(float(grad(lambda a: np.sum(there * a * 2.0))(3.0)), 2 * HOST.sum())


@pytest.mark.parametrize("engine", ["auto", "numpy", "interpreter"])
def test_programs_that_move_arrays_run_each_operation_where_its_operands_are(engine: str) -> None:
    weights = np.arange(4.0)
    up = jit(lambda x: np.sum(np.sin(device_put(x * 2.0)) * weights, keepdims=True))
    down = jit(lambda x: np.cos(device_get(x * 2.0)) * weights)
    back = jit(grad(lambda x: np.sum(np.sin(device_put(x)) * weights)))
    with config.set(engine=engine):
        for _ in range(5):
            assert is_on_device(up(HOST)) and type(down(on_device())) is np.ndarray
            np.testing.assert_allclose(to_host(up(HOST)), [np.sum(np.sin(HOST * 2.0) * weights)])
            np.testing.assert_allclose(down(on_device()), np.cos(HOST * 2.0) * weights)
            assert type(back(HOST)) is np.ndarray
            np.testing.assert_allclose(back(HOST), np.cos(HOST) * weights)
    assert "moves arrays" in up.explain(HOST).why


# -- what CuPy does unlike NumPy, and funcad's programs do not


SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])


@pytest.mark.parametrize("solver", ["solve", "inv", "cholesky", "stacked solve", "stacked inv"])
@pytest.mark.parametrize("use", [lambda f: f, jit, vmap], ids=["un-jitted", "jit", "vmap"])
def test_singular_matrices_raise_on_the_device(solver: str, use: Any) -> None:
    name = solver.split()[-1]
    a = np.stack([np.eye(2), SINGULAR if name != "cholesky" else -SINGULAR])
    b = np.ones((2, 2, 1))
    a, b = (np.stack([a, a]), np.stack([b, b])) if "stacked" in solver else (a, b)

    def program(a: Any, b: Any) -> Any:
        box = []  # a transformation around it, so that funcad runs it, not the library
        grad(lambda s: [box.append(getattr(np.linalg, name)(a * s, *[b] * (name == "solve"))), s][1])(1.0)
        return box[0].primal

    if use is not vmap and "stacked" not in solver:
        a, b = a[1], b[1]
    if use is vmap:
        program = lambda a, b: getattr(np.linalg, name)(a, *[b] * (name == "solve"))
    with pytest.raises(np.linalg.LinAlgError):
        use(program)(to_device(a), to_device(b))


def test_a_matrix_of_nan_is_not_singular() -> None:
    a = np.stack([np.eye(2), np.full((2, 2), np.nan)])
    found = jit(np.linalg.solve)(to_device(a), to_device(np.ones((2, 2, 1))))
    assert np.isnan(to_host(found)[1]).all() and (to_host(found)[0] == 1).all()


def test_logical_operations_take_complex_numbers_on_the_device() -> None:
    z, w = np.array([0j, 1j, 1.0, complex(0, np.nan)]), np.array([1j, 0j, 2.0, 0j])
    for op in (np.logical_and, np.logical_or, np.logical_xor):
        np.testing.assert_array_equal(to_host(jit(op)(to_device(z), to_device(w))), op(z, w))
        with pytest.raises(TypeError):
            op(to_device(z), to_device(w))  # nobody's program: CuPy's own
    np.testing.assert_array_equal(to_host(jit(np.logical_not)(to_device(z))), np.logical_not(z))


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", "?bhilBHILefdFD")
@pytest.mark.parametrize("mode", ["add", "multiply", "min", "max", "set"])
def test_repeated_indices_in_every_dtype_on_the_device(dtype: str, mode: str) -> None:
    if dtype in "FD" and mode in ("min", "max"):
        pytest.skip("complex numbers have no order")
    rng = np.random.default_rng(0)
    x, u = rng.integers(0, 3, (2, 6)).astype(dtype)
    i = np.array([1, 1, 0, 5, 1, 5])

    def program(x: Any, u: Any, i: Any) -> Any:
        return getattr(fnp.at(x)[i], mode)(u)

    expected = jit(program)(x, u, i)
    np.testing.assert_array_equal(to_host(jit(program)(to_device(x), to_device(u), to_device(i))), expected)


# -- captured arrays


def test_copies_of_read_only_arrays_are_kept_and_never_stale() -> None:
    weights = np.arange(4.0)
    f = jit(lambda x: x * weights)
    x = on_device()

    def copies() -> int:
        moved.clear()
        np.testing.assert_allclose(to_host(f(x)), HOST * weights)
        np.testing.assert_allclose(to_host(grad(lambda v: np.sum(v * weights))(x)), weights)
        return sum(m is weights for m in moved)

    assert copies() and copies()
    weights[1] = 7.0
    assert copies()
    weights.flags.writeable = False
    assert copies() and not copies() and not copies()
    weights.flags.writeable = True
    weights[2] = -3.0
    assert copies() and copies()
    weights.flags.writeable = False
    assert copies() and not copies()


def test_arrays_that_a_derivative_locks_are_copied_anew() -> None:
    weights = np.arange(20_000.0)
    x = to_device(np.ones(20_000))
    f = jit(lambda x: np.sum(x * weights))
    for value in (1.0, 2.0, 3.0):
        _, pull = vjp(lambda v: np.sum(v * weights), np.ones(20_000))  # read-only until the pullback dies
        assert float(f(x)) == weights.sum() and float(f(x)) == weights.sum()
        del pull
        weights[0] = value


def test_copies_die_with_their_arrays() -> None:
    before = len(devices._resident)

    def run() -> weakref.ref:
        weights = np.arange(5.0)
        weights.flags.writeable = False
        f = jit(lambda x: x * weights)
        f(to_device(np.ones(5)))
        assert len(devices._resident) == before + 1
        return weakref.ref(weights)

    seen = run()
    moved.clear()  # the stand-in remembers what was copied
    gc.collect()
    assert seen() is None and len(devices._resident) == before


def test_large_arrays_that_are_copied_at_each_call_are_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_warned", [False])
    weights = np.ones(200_000)
    f = jit(lambda x: np.sum(x * weights))
    x = to_device(np.ones(200_000))
    f(x)
    with pytest.warns(UserWarning, match=r"shape \(200000,\) and dtype float64 \(1.6 MB\)") as caught:
        f(x)
    assert len(caught) == 1 and caught[0].filename == __file__
    f(x)  # warnings are errors here


def test_python_scalars_beside_device_arrays_keep_their_operations() -> None:
    def program(x: Any, s: Any) -> Any:
        return x * s, s % 2.0, s // 2.0, np.sinc(s), np.logaddexp2(s, 1.0), fs.rel_entr(s, 2.0), fs.gammainc(s, 2.0), x % s

    expected = (HOST * 3.5, 1.5, 1.0, np.sinc(3.5), np.logaddexp2(3.5, 1.0), scipy.special.rel_entr(3.5, 2.0))
    for s in (3.5, np.float64(3.5), np.array(3.5)):
        for f in (program, jit(program))[type(s) is np.ndarray :]:  # CuPy itself takes no NumPy array
            for a, b in zip(f(on_device(), s), (*expected, scipy.special.gammainc(3.5, 2.0), HOST % 3.5)):
                np.testing.assert_allclose(to_host(a), b, rtol=1e-12)
