"""Programs on a device's arrays, written out as lines of CuPy's, on a stand-in (tests/standin.py)."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import cond, config, debug, fori_loop, grad, hvp, jacfwd, jit, jvp, scan, switch, vjp, vmap, while_loop
from funcad import numpy as fnp
from funcad.host import devices
from tests import standin
from tests.agreement import assert_close, places_of, same_bits
from tests.specs import OpSpec, all_specs
from tests.standin import DeviceArray, moved, registered, to_device, to_host

SPECS = [s for s in all_specs() if "cupy" in s.backends]


@pytest.fixture(autouse=True)
def device() -> Iterator[Any]:
    with registered() as xp:
        yield xp


def assert_same(found: Any, expected: Any, what: str) -> None:
    """On the device, of that dtype, and near what the operations give one by one."""
    a, b = np.asarray(to_host(found)), np.asarray(expected)
    assert type(found) is DeviceArray, f"{what}: a result is {type(found)}"
    assert a.dtype == b.dtype, f"{what}: {a.dtype}, not {b.dtype}"
    assert_close(a, b, rtol=1e-10 if b.dtype.char not in "efF" else 1e-4, what=what)


def arrays_of(op: OpSpec) -> Iterator[tuple[tuple, list]]:
    for args in op.samples():
        if any([isinstance(x, np.ndarray) for x in args]):
            yield args, [to_device(x) for x in args]


@pytest.mark.share(8)
@pytest.mark.parametrize("op", [pytest.param(s, id=s.id, marks=[pytest.mark.slow] * (i % 3 > 0)) for i, s in enumerate(SPECS)])
def test_every_operation_and_its_derivative(op: OpSpec) -> None:
    for args, there in arrays_of(op):
        positions = op.variables(args)
        f, given = op.of_variables(there, positions), [there[i] for i in positions]
        before = [to_host(x) for x in given]
        with np.errstate(all="ignore"):
            expected = [to_host(x) for x in op.call(*there)]
        g = jit(f)
        for _ in range(3):
            for a, b in zip(g(*given), expected, strict=True):
                assert_same(a, b, op.id)
        positions = op.differentiable(args)
        if op.order and positions and any([b.dtype.kind in "fc" for b in map(np.asarray, expected)]):
            chosen = [there[i] for i in positions]

            def pulled(*chosen: Any, there: Any = there, positions: Any = positions) -> list[Any]:
                full = list(there)

                def inexact(*xs: Any) -> list[Any]:
                    for i, x in zip(positions, xs):
                        full[i] = x
                    return [o for o in op.call(*full) if o.dtype.kind in "fc"]

                out, pull = vjp(inexact, *chosen)
                return list(pull(list(out)))

            expected = [to_host(x) for x in pulled(*chosen)]
            h = jit(pulled)
            for _ in range(2):
                for a, b in zip(h(*chosen), expected, strict=True):
                    assert_same(a, b, f"gradient of {op.id}")
        for x, y in zip(given, before):
            np.testing.assert_array_equal(to_host(x), y, err_msg=f"{op.id} wrote an argument")


@pytest.mark.parametrize("op", [pytest.param(s, id=s.id) for s in SPECS if "scatter" in s.id])
def test_masks_of_writes_are_where_the_arrays_are(op: OpSpec) -> None:
    for args, there in arrays_of(op):
        positions = op.differentiable(args)
        chosen = tuple([there[i] for i in positions])
        if not chosen or not op.order:
            continue

        def f(*xs: Any, there: Any = there, positions: Any = positions) -> Any:
            given = dict(zip(positions, xs))
            return op.call(*[given.get(i, x) for i, x in enumerate(there)])

        assert all([type(tangent) is DeviceArray for tangent in jvp(f, chosen, chosen)[1]])


# -- programs, beside the operations one by one


def mlp(w: Any, x: Any) -> Any:
    return np.mean(np.tanh(x @ w) ** 2) + np.max(x, axis=0).sum()


def elements(x: Any) -> Any:
    """An element is a view on a device, and what it is taken of dies."""
    y = x * 2.0
    first, last, row = y[0, 0], y[-1, -1], y[1]
    z = np.exp(y)
    return first + z, last * row, np.reshape(y[0:1, 0:1], ()) - np.sqrt(z)


def recurrent(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        h, n, first = carry
        h = np.tanh(h * 0.5 + row)
        return (h, n + 1, h[0]), (h, n, first * 2.0)

    return scan(step, (np.zeros(3), 0, 1.0), x)


def last_of_rows(x: Any) -> Any:
    """The carry is an element of an array that every turn writes over."""
    return scan(lambda c, row: ((row * 3.0)[1] + c, (row * c)[2]), 0.0, x)


def looped(x: Any) -> Any:
    return while_loop(lambda s: np.sum(s[0]) < 50.0, lambda s: (s[0] * 1.5 + s[1], s[1] + 1.0), (np.abs(x), 0.0))


def chosen(x: Any) -> Any:
    outside = switch(np.argmax(x[0]), [np.sin, lambda v: v[::-1] * 2.0, lambda v: v + 1.0], x)
    return cond(x[0, 0] > 0, lambda v: v * x[0, 0], np.cos, outside)


def placed(x: Any) -> Any:
    i = np.argsort(x[:, 0])
    y = fnp.at(x.T.copy().T * 1.0)[i].add(2.0)
    y = fnp.at(y)[np.array([1, 1, 0])].set(x[:3])
    y = fnp.at(y)[1:3].multiply(3.0)
    return fnp.at(y)[0, i[:3]].max(0.25), y


def written(x: Any) -> Any:
    out = np.zeros_like(x)
    for k in range(3):
        out[k] = x[k] * k
        out[:, 0] += x[:, 1]
    x = out.T
    x *= 2.0
    return out, out[0, 0]


def mixed(x: Any) -> Any:
    n = (x * 10).astype(np.int32)
    half = x.astype(np.float16)
    z = x + 1j * x[::-1]
    counts = np.sum(x > 0), n.sum(), (x > 0).astype(np.float32).sum(axis=1)
    return [n % 7, n // 3, half * np.float16(2.0), half.sum(), np.abs(z) ** 2, z @ z.T, (x > 0) & (n > 2), counts]


def of_nothing(x: Any) -> Any:
    y = x[:0] * 2.0
    return y, np.sum(y, axis=0), y @ x.T, np.concatenate([y, x])


PROGRAMS: dict[str, Callable[..., Any]] = {
    "network": lambda x: mlp(x, x.T),
    "its gradient": grad(lambda x: mlp(x, x.T)),
    "elements": elements,
    "gradient of elements": grad(lambda x: sum([np.sum(v * v) for v in elements(x)])),
    "scan": recurrent,
    "gradient of scan": grad(lambda x: sum([np.sum(v * v) for v in recurrent(x)[1]])),
    "last of rows": last_of_rows,
    "gradient of last of rows": grad(lambda x: np.sum(last_of_rows(x)[1])),
    "reverse scan": lambda x: scan(lambda c, r: (c * 0.5 + r, c), x[0], x, reverse=True),
    "while": looped,
    "tangent of while": lambda x: jvp(looped, (x,), (x,))[1],
    "counted": lambda x: fori_loop(0, 5, lambda i, v: v * 0.5 + i, x),
    "branches": chosen,
    "gradient of branches": grad(lambda x: np.sum(chosen(x))),
    "writes by index": placed,
    "gradient of writes": grad(lambda x: np.sum(placed(x)[0] ** 2)),
    "written in place": written,
    "gradient of written": grad(lambda x: np.sum(written(x)[0] ** 3)),
    "dtypes": mixed,
    "nothing": of_nothing,
    "hessian": jacfwd(grad(lambda x: np.sum(np.sin(x) * x[0, 1]))),
    "hvp": lambda x: hvp(lambda v: np.sum(np.exp(v) * v[0]), (x,), (x,)),
    "mapped": vmap(grad(lambda r: np.sum(np.cumsum(r) * r[1]))),
    "sorted": lambda x: (np.sort(x, axis=1), np.argmax(x, axis=0), np.cumprod(x, axis=1), np.where(x > 0, x, 0.0)),
    "linear algebra": lambda x: np.linalg.solve(x[:3] @ x[:3].T + 3 * np.eye(3), x[:3]),
    "draws": lambda x: funcad.random.normal(funcad.random.key(3), (4,)) * x[:, 0],
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("layout", ["C", "F", "strided"])
def test_lines_compute_what_the_operations_compute(name: str, layout: str) -> None:
    host = np.random.default_rng(1).normal(size=(4, 3))
    x = to_device(host)
    x = to_device(host.T).T if layout == "F" else to_device(np.repeat(host, 2, axis=1))[:, ::2] if layout == "strided" else x
    with config.set(engine="interpreter"):
        expected = funcad.tree.leaves(jit(PROGRAMS[name])(x))
    f = jit(PROGRAMS[name])
    kept = []
    for run in range(4):
        found = funcad.tree.leaves(f(x))
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            if type(b) is DeviceArray:
                assert_same(a, to_host(b), f"{name}, run {run}, result {i}")
            else:  # a carry that began as Python's number
                assert type(a) is type(b) and a == b
        kept += [(a, to_host(a)) for a in found if type(a) is DeviceArray]
    for a, before in kept:
        assert same_bits(to_host(a), before), "a later run wrote over a result"
    assert same_bits(to_host(x), host)
    assert f.explain(x).engine == "cupy"


def test_what_is_taken_out_of_memory_that_is_written_again_is_a_copy() -> None:
    x = to_device(np.arange(1.0, 7.0).reshape(2, 3))
    f = jit(lambda x: (lambda y: (y[0, 0] + np.exp(y)))(x * 2.0))
    for _ in range(3):
        np.testing.assert_allclose(to_host(f(x)), 2.0 + np.exp(2.0 * x.get()))
    assert "[0, 0].copy()" in f.source(x)  # of x * 2.0, over which exp writes
    f = jit(lambda x: x[0, 0] + np.exp(x))
    assert "copy" not in f.source(x)  # nobody writes into x


# -- what it costs


def work(f: Callable[..., Any], *args: Any) -> Counter:
    """What the device is asked for by one warm call."""
    for _ in range(3):
        f(*args)
    standin.work = Counter()
    try:
        f(*args)
        return standin.work
    finally:
        standin.work = None


def test_nothing_goes_between_host_and_device_that_is_not_the_users() -> None:
    x = to_device(np.linspace(0.0, 1.0, 12).reshape(4, 3))
    waits = {"while": 7, "tangent of while": 7, "branches": 2, "gradient of branches": 4}
    for name, f in PROGRAMS.items():
        if name in ("linear algebra", "draws"):
            continue  # errors of singular matrices, keys of the host
        found = work(jit(f), x)
        assert found["waits"] <= waits.get(name, 0), f"{name}: {found}"
        assert not found["copies"] or name == "written in place", f"{name}: {found}"


def test_operations_write_over_what_dies() -> None:
    x = to_device(np.linspace(0.0, 1.0, 12))
    text = jit(lambda x: np.exp(np.sin(x) * 2.0) + x).source(x)
    assert text.count("out=") == 3
    written = jit(lambda x, y: np.sin(x) + y, donate_argnums=0)
    for donated in (False, False, True, True):  # the program is traced, and runs once, before it is written
        given = to_device(np.ones(5))
        out = written(given, to_device(np.ones(5)))
        np.testing.assert_allclose(to_host(out), np.sin(1.0) + 1.0)
        del donated
    assert np.shares_memory(out._array, given._array)
    given = to_device(np.ones(5))
    both = written(given, given)  # twice the same: not to be written
    assert same_bits(given.get(), np.ones(5)) and not np.shares_memory(both._array, given._array)
    view = to_device(np.ones((5, 2)))
    written(view[:, 0], view[:, 1])
    assert same_bits(view.get(), np.ones((5, 2)))


def test_donated_arguments_of_the_reference_stay() -> None:
    with config.set(engine="interpreter"):
        f = jit(lambda x: np.sin(x) * 2.0, donate_argnums=0)
        for _ in range(3):
            np.testing.assert_allclose(to_host(f(to_device(np.ones(3)))), 2.0 * np.sin(np.ones(3)))


# -- captured arrays


def test_captured_arrays_are_copied_when_they_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.arange(4.0)
    f, x = jit(lambda x: (x * table, table)), to_device(np.ones(4))
    for value in (0.0, 0.0, 5.0, -0.0, np.nan, 7.0):
        table[0] = value
        for copied in (1, 0):
            moved.clear()
            product, handed = f(x)
            assert same_bits(to_host(product), table) and same_bits(to_host(handed), table)
            handed[...] = 9.0  # a result is the caller's
            assert len(moved) <= copied + 2 * (value == 0.0)  # the first calls trace
    large = np.ones((1 << 18,))
    g, y = jit(lambda y: y * large), to_device(np.ones(1 << 18))
    monkeypatch.setattr(devices, "_warned", [True])  # somebody has been told
    for _ in range(4):
        large[0] += 1.0
        assert to_host(g(y))[0] == large[0]


def test_results_are_no_copies_that_others_read() -> None:
    table = np.arange(4.0)
    table.flags.writeable = False
    f, x = jit(lambda x: (x * table, table, table[1:], table[0])), to_device(np.ones(4))
    for _ in range(4):
        product, *views = f(x)
        assert same_bits(to_host(product), table)
        for v in views:
            v[...] = 9.0


# -- numbers of the host


def test_numbers_beside_arrays() -> None:
    def f(x: Any, n: Any, s: Any) -> Any:
        return x * n + s, n * 2, s / 3, np.reshape(s, (1,)), np.broadcast_to(n, (2,)) + 0, np.where(s > 1, x, n)

    for dtype in (np.float32, np.float64):
        x = to_device(np.arange(3, dtype=dtype))
        for n, s in ((2, np.float32(1.5)), (True, np.float64(0.5)), (2.5, np.array(4.0)), (3, to_device(np.array(2.0)))):
            with config.set(engine="interpreter"):
                expected = [to_host(v) for v in jit(f)(x, n, s)]
            g = jit(f)
            for _ in range(3):
                for a, b in zip(g(x, n, s), expected):
                    a = to_host(a)
                    assert type(a) is type(b) and np.asarray(a).dtype == np.asarray(b).dtype
                    np.testing.assert_allclose(a, b)


def test_numbers_that_are_joined_in_a_loop() -> None:
    def f(y: Any) -> Any:
        turn = lambda s: (s[0] + np.stack([s[0][1], np.sin(s[0][0])]), s[1] + 1)
        return funcad.while_loop(lambda s: s[1] < 3, turn, (y, 0))[0]

    g = jit(f)
    for _ in range(4):
        np.testing.assert_allclose(to_host(g(to_device(np.array([0.8, -0.4])))), f(np.array([0.8, -0.4])))


# -- around a run


def test_errors_name_the_users_line() -> None:
    def fails(x: Any) -> Any:
        y = x * 2.0
        return funcad.pure_callback(refuse, y, y) + 1.0

    def refuse(v: Any) -> Any:
        if state:
            raise ArithmeticError("no")
        return v

    state: list[int] = []
    f, x = jit(fails), to_device(np.ones(3))
    for _ in range(3):
        f(x)
    state.append(1)
    with pytest.raises(ArithmeticError, match="no") as caught:
        f(x)
    line = fails.__code__.co_firstlineno + 2
    assert f"test_cupy_program.py:{line} " in places_of(caught.value)
    state.clear()
    np.testing.assert_array_equal(to_host(f(x)), 3.0)


def test_effects_keep_their_order() -> None:
    said: list[float] = []

    def f(x: Any) -> Any:
        y = np.sin(x)
        debug.callback(lambda v: said.append(float(v)), np.sum(y))
        y = y * 2.0
        debug.callback(lambda v: said.append(float(v)), np.sum(y))
        return np.exp(y)

    g, x = jit(f), to_device(np.ones(2))
    for _ in range(3):
        said.clear()
        g(x)
        np.testing.assert_allclose(said, [2 * np.sin(1.0), 4 * np.sin(1.0)])


def test_debug_nans_looks_at_each_operation() -> None:
    f, x = jit(lambda x: np.log(x) * 2.0), to_device(np.array([1.0, -1.0]))
    for _ in range(3):
        f(x)
    with funcad.debug_nans(), pytest.raises(FloatingPointError):
        f(x)


@pytest.mark.parametrize("wrap", [jit, lambda f: grad(lambda x, i: np.sum(f(x, i))), lambda f: jit(vmap(f)), vmap])
def test_debug_checks_finds_indices_out_of_bounds(wrap: Any) -> None:
    x, good, bad = [to_device(np.asarray(v)) for v in (np.ones((2, 3)), [[0, -3], [2, 1]], [[0, 3], [1, 1]])]
    f = wrap(lambda x, i: x[..., i] * 2.0)
    for _ in range(3):
        f(x, bad)  # wraps, as CuPy does
        with debug.debug_checks():
            f(x, good)
            with pytest.raises(IndexError, match="index 3 is out of bounds for axis . with size 3"):
                f(x, bad)
            with debug.debug_checks(False):
                f(x, bad)


def test_threads() -> None:
    f = jit(grad(lambda x: mlp(x, x.T)))
    wrong: list[Any] = []

    def run(k: int) -> None:
        host = np.random.default_rng(k).normal(size=(4, 3))
        expected = grad(lambda x: mlp(x, x.T))(host)
        for _ in range(20):
            if not np.allclose(to_host(f(to_device(host))), expected):
                wrong.append(k)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


# -- as text


def test_source_is_the_lines(monkeypatch: pytest.MonkeyPatch, device: Any) -> None:
    table = np.arange(3.0)
    there = to_device(np.arange(3.0) + 1.0)
    f = jit(lambda x: np.exp(np.sin(x) * table) + there)
    x = to_device(np.linspace(0.0, 1.0, 12).reshape(4, 3))
    text = f.source(x)
    assert "import cupy as cp" in text and "def run(x, xp=cp):" in text and "xp.exp(" in text and "funcad" not in text[50:]
    cupy: Any = ModuleType("cupy")
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    module: dict[str, Any] = {}
    exec(text, module)
    (out,) = module["run"](x, xp=device)
    assert same_bits(to_host(out), to_host(f(x)))


def test_explain_shows_the_engine() -> None:
    x = to_device(np.ones(4))
    f = jit(lambda x: np.sum(np.sin(x) * 2.0))
    shown = f.explain(x)
    assert shown.engine == "cupy" and "engine cupy" in str(shown) and shown.counts[0] >= shown.counts[1] > 0
    assert {a["operation"] for a in shown.alone} >= {"sin", "reduce_sum"} and not shown.groups
    assert f.explain(np.ones(4)).engine != "cupy"
