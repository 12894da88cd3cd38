"""Loops that are one kernel, run on the CPU (tests/cuda_shim.py) with an eye on races and barriers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import config, fori_loop, grad, jit, scan, value_and_grad, vmap, while_loop
from funcad.backends.cuda.cuda_loops import SHARED, loop_text
from funcad.backends.cupy_program import OnDevice
from funcad.backends.engines import EngineProgram
from funcad.primitives.fused import fused_p
from tests import cuda_shim, nvrtc_units
from tests.agreement import assert_close
from tests.standin import registered, to_device, to_host, xp

pytestmark = [
    pytest.mark.skipif(not cuda_shim.available(), reason="there is no g++ to run kernels with"),
    pytest.mark.filterwarnings("ignore"),
]
RNG = np.random.default_rng(0)
W, X, A = RNG.normal(size=(8, 8)) / 3, RNG.normal(size=(12, 8)), RNG.normal(size=(6, 4, 4))


def recurrent(w: Any, xs: Any) -> Any:
    return np.sum(scan(lambda c, x: (np.tanh(c @ w + x), np.sum(c)), xs[0], xs)[0])


def filtered(a: Any) -> Any:
    """Means and covariances, as Kalman's filter has them."""

    def turn(state: Any, x: Any) -> Any:
        mean, cov = state
        cov = x @ cov @ x.T * 0.1 + np.eye(4)
        return (x @ mean + np.sum(cov, axis=0), cov), (np.max(cov, axis=1), np.min(mean), mean > 0)

    return scan(turn, (np.ones(4), np.eye(4)), a)


def newton(x: Any) -> Any:
    return while_loop(lambda c: np.max(np.abs(c * c - x)) > 1e-12, lambda c: c - (c * c - x) / (2 * c), x)


def steps(n: Any) -> Any:
    def turn(c: Any) -> Any:
        return np.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1

    return while_loop(lambda c: c[0] != 1, turn, (n, np.zeros((), int)))[1]


CASES = {
    "recurrent": (recurrent, (W, X)),
    "its gradient": (grad(recurrent, (0, 1)), (W, X)),
    "filter": (filtered, (A,)),
    "its gradient, too": (grad(lambda a: np.sum(filtered(a)[1][0])), (A,)),
    "backwards": (lambda x: scan(lambda c, y: (c * 0.5 + y.T, c[::-1, 1:3]), x[0].T, x, reverse=True), (A[:, :, :3],)),
    "two that change places": (lambda x: scan(lambda c, _: ((c[1], c[0] + c[1]), c[0]), (x, x * 2), None, length=9), (X[0],)),
    "turned each turn": (lambda x: scan(lambda c, y: (c[::-1] + y, c.reshape(2, 2).T), np.arange(4.0), x), (A[:, 0],)),
    "an update": (lambda x: scan(lambda c, y: (c - np.outer(y, y) / (1 + y @ y), np.trace(c)), x.T @ x, x), (X[:, :5],)),
    "new axes": (
        lambda x: scan(lambda c, y: (np.sum(c[None] * y[:, None], axis=0), (c[1:][::-1], np.flip(y)[:, None])), x[0], x),
        (X,),
    ),
    "nothing carried": (lambda x: scan(lambda c, y: (c * 2, np.sum(y)), x[:0, 0], x), (X,)),
    "Newton": (newton, (np.abs(X[0]) + 0.1,)),
    "Collatz": (steps, (np.array(27),)),
    "float32": (lambda a: scan(lambda c, x: (np.exp(-c) * x, c > 0), a[0] * 0, a), (X.astype(np.float32),)),
    "complex": (lambda a: scan(lambda c, x: (c * x * 1j + 1, np.abs(c)), a[0] * 1j, a), (X,)),
    "integers and bools": (lambda a: scan(lambda c, x: (c ^ x, c & (x > 3)), a[0], a), (RNG.integers(-9, 9, (7, 5)),)),
    "wide": (lambda a: scan(lambda c, x: (c * 0.9 + x, np.sum(c * c)), a[0], a), (RNG.normal(size=(3, 1000)),)),
    "one turn": (lambda a: scan(lambda c, x: (np.tanh(c) @ W + x, np.min(c)), a[0], a[:1]), (X,)),
    "lanes": (vmap(recurrent, (None, 0)), (W[:3, :3], RNG.normal(size=(4, 5, 3)))),
}


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    with registered(), config.set(engine="cuda"):
        yield


def assert_near(found: Any, expected: Any) -> None:
    for x, y in zip(funcad.tree.leaves(found), funcad.tree.leaves(expected), strict=True):
        x, y = to_host(x), np.asarray(y)
        assert x.dtype == y.dtype
        assert_close(x, y, rtol=1e-10 if y.dtype.char not in "fF" else 1e-5)


def kinds(g: Any, *args: Any) -> list[str]:
    return [q["kind"] for q in g.explain(*map(to_device, args)).groups if q["engine"] == "cuda"]


SLOW = {"its gradient, too", "complex", "float32", "wide", "an update", "lanes", "new axes", "one turn"}


@pytest.mark.share(4)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in CASES])
def test_a_loop_is_one_kernel(name: str) -> None:
    f, args = CASES[name]
    g, expected = jit(f), f(*args)
    for _ in range(2):
        assert_near(g(*map(to_device, args)), expected)
    found = g.explain(*map(to_device, args))
    assert [q["kind"] for q in found.groups].count("loop") == (2 if name.startswith("its") else 1), found
    assert not [a for a in found.alone if "scan" in a["inside"] or "while" in a["inside"]]


def test_arrays_in_any_layout() -> None:
    g = jit(recurrent)
    same = xp.broadcast_to(to_device(W[:1, :1]), (8, 8))
    for w, x in ((to_device(W).T, to_device(X)[::2]), (same, to_device(X)[:, ::-1])):
        for _ in range(2):
            assert_near(g(w, x), recurrent(to_host(w), to_host(x)))


@pytest.mark.parametrize(
    "f,reason",
    [
        (lambda x: scan(lambda c, y: (np.sort(c) + y, None), x[0], x)[0], "sort in the body"),
        (lambda x: scan(lambda c, y: (fori_loop(0, 3, lambda i, z: z * 0.5, c) + y, None), x[0], x)[0], "in the body"),
        (lambda x: scan(lambda c, y: (np.tanh(c) + y[0], None), np.zeros(SHARED // 8) + x[0, 0], x)[0], "take more than"),
        (lambda x: scan(lambda c, y: (np.tanh(c @ c.T @ c), None), np.ones((48, 48)) * x[0, 0], x)[0], "values of a turn"),
    ],
)
def test_what_does_not_fit_runs_as_lines(f: Any, reason: str) -> None:
    g = jit(f)
    for _ in range(3):
        assert_near(g(to_device(X)), f(X))
    found = g.explain(to_device(X))
    assert any([reason in text for text in found.reasons]), found.reasons


def test_no_turn() -> None:
    f = lambda x: scan(lambda c, y: (np.tanh(c + y), c), np.ones(8), x[:0])
    g = jit(f)
    for _ in range(2):
        assert_near(g(to_device(X)), f(X))


def test_special_values_go_through() -> None:
    x = np.array([[0.0, -0.0, np.inf, -np.inf, np.nan, 1e308, 5e-324, 1.0]] * 3)
    f = lambda a: scan(lambda c, y: (np.maximum(c, y) * 2, (np.max(c), np.min(c, axis=0))), -a[0], a)
    with np.errstate(all="ignore"):
        g, expected = jit(f), f(x)
    for _ in range(2):
        assert_near(g(to_device(x)), expected)


def test_a_missing_barrier_is_caught() -> None:
    f, args = CASES["recurrent"]
    program = OnDevice(EngineProgram(jit(f).lower(*args).jaxpr, "cuda"), xp)
    (group,) = [e for e in program.fused.equations if e.primitive is fused_p and e.params["kind"] == "loop"]
    text = loop_text(group.params["jaxpr"].equations[0], group.inputs)
    module, out = cuda_shim.Module, [xp.empty(v.aval.shape, v.aval.dtype) for v in group.outputs]
    given = [to_device(RNG.normal(size=v.aval.shape)) for v in group.inputs]
    module(text).get_function("kernel")((1,), (256,), (*given, *out))
    assert text.count("__syncthreads();") > 2
    places = [i for i in range(len(text)) if text.startswith("    __syncthreads();", i)]
    worse = text[: places[-1]] + text[places[-1] + len("    __syncthreads();") :]
    with pytest.raises(AssertionError):
        module(worse).get_function("kernel")((1,), (256,), (*given, *out))


@pytest.mark.nvrtc
@pytest.mark.skipif(not nvrtc_units.available(), reason="NVRTC is not installed")
@pytest.mark.parametrize("architecture", nvrtc_units.ARCHITECTURES)
def test_nvrtc_compiles_them(architecture: str) -> None:
    texts = []
    for f, args in CASES.values():
        program = OnDevice(EngineProgram(jit(f).lower(*args).jaxpr, "cuda"), xp)
        for e in program.fused.equations:
            if e.primitive is fused_p and e.params["kind"] == "loop":
                texts.append(loop_text(e.params["jaxpr"].equations[0], e.inputs))
    assert len(texts) >= len(CASES)
    for kernels in nvrtc_units.facts_of_all(texts, architecture).values():
        assert all([facts.spills <= 128 and facts.shared <= 48 * 1024 for facts in kernels.values()])


def test_value_and_gradient_of_many_turns() -> None:
    def loss(w: Any, xs: Any) -> Any:
        return np.mean(scan(lambda c, x: (np.tanh(c @ w + x), c), xs[0], xs)[1] ** 2)

    xs = RNG.normal(size=(40, 8))
    g, expected = jit(value_and_grad(loss)), value_and_grad(loss)(W, xs)
    for _ in range(2):
        assert_near(g(to_device(W), to_device(xs)), expected)
