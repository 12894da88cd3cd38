"""Kernels in CUDA C++ without a GPU: the text runs on the CPU (tests/cuda_shim.py), and NVRTC compiles it where it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import config, grad, jit, value_and_grad
from funcad.backends.cuda.launches import ElementwiseLaunches, kernel_for
from funcad.backends.engines import EngineProgram
from funcad.backends.plans.element_plan import Unsupported
from funcad.ir.jaxpr import Jaxpr, Var
from funcad.passes.fuse import fuse
from funcad.passes.redundancy import inline
from funcad.primitives.fused import fused_p
from tests import cuda_shim, nvrtc_units
from tests.backends.test_cupy_random_programs import check
from tests.cuda_shim import Module, compiled
from tests.random_programs import random_case, trace
from tests.specs import OpSpec, all_specs
from tests.standin import DeviceArray, registered, to_device, to_host, xp

pytestmark = [
    pytest.mark.skipif(not cuda_shim.available(), reason="there is no g++ to run kernels with"),
    pytest.mark.filterwarnings("ignore"),
]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 7.0, 1e-300, 5e-324, 1e16, -1e300, np.inf, -np.inf, np.nan, 2.5, -2.5, 88.0]


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    with registered():
        yield


def equations_of(op: OpSpec) -> Iterator[tuple[Any, Jaxpr]]:
    """The elementwise equations of an operation, each as a group."""
    for args in op.samples():
        given = [args[i] for i in op.variables(args)]
        for equation in inline(jit(op.of_variables(args)).lower(*given).jaxpr).equations:
            if equation.primitive.emit is None or len(equation.outputs) > 1 or not equation.outputs[0].aval.size:
                continue
            inputs = tuple(dict.fromkeys([a for a in equation.inputs if type(a) is Var]))
            if all([v.aval.shape == equation.outputs[0].aval.shape for v in inputs]):
                yield equation, Jaxpr(inputs, (equation,), equation.outputs)


def texts_of(kernel: ElementwiseLaunches) -> list[str]:
    """Those for adjacent arrays."""
    variant = kernel._variant([tuple([s // 8 for s in np.empty(a.shape).strides]) for a in kernel.avals])
    return [variant.text(width) for width in {1, variant.width}]


def values_for(avals: list, rng: Any) -> list[np.ndarray]:
    found = []
    for k, a in enumerate(avals):
        if a.dtype.kind == "f":
            with np.errstate(all="ignore"):
                value = np.resize(np.roll(SPECIAL, k * 5), a.shape).astype(a.dtype)
            ordinary = rng.random(a.shape) < 0.5
            value[ordinary] = rng.normal(size=a.shape).astype(a.dtype)[ordinary]
        else:
            value = rng.integers(-200, 200, a.shape).astype(a.dtype) if a.dtype.kind != "b" else rng.random(a.shape) < 0.5
        found.append(value)
    return found


def assert_near(found: Any, expected: Any, what: str) -> None:
    """Elementary functions are the C library's here, NumPy's there: a few units in the last place."""
    assert found.dtype == expected.dtype and found.shape == expected.shape, what
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected, err_msg=what)
        return
    tiny = float(np.finfo(expected.dtype).tiny)
    np.testing.assert_allclose(found, expected, rtol=16 * float(np.finfo(expected.dtype).eps), atol=tiny, err_msg=what)
    zero = (expected == 0) & (found == 0)
    if not re.search("maximum|minimum|relu|clip", what):  # NumPy leaves the sign open
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]), err_msg=what)


@pytest.fixture(scope="module")
def table() -> list[tuple[str, Any, Jaxpr, ElementwiseLaunches]]:
    """Every elementwise equation of the op table that has a kernel, compiled in a few libraries."""
    found: dict[tuple, Any] = {}
    for op in all_specs():
        with np.errstate(all="ignore"):
            for equation, group in equations_of(op):
                key = (equation.primitive.name, repr(equation.params), str(group))
                if key in found:
                    continue
                try:
                    found[key] = op.id, equation, group, ElementwiseLaunches(group, equation.outputs[0].aval.shape, xp)
                except Unsupported:
                    continue
    rows = list(found.values())
    compiled([t for *_, kernel in rows for t in texts_of(kernel)])
    return rows


@pytest.mark.slow
def test_every_operation_with_a_formula(table: list) -> None:
    assert len({equation.primitive.name for _, equation, *_ in table}) > 60
    rng = np.random.default_rng(0)
    for name, equation, group, kernel in table:
        values = values_for([v.aval for v in group.inputs], rng)
        scope = dict(zip(group.inputs, values))
        operands = [scope[a] if type(a) is Var else a.value for a in equation.inputs]
        with np.errstate(all="ignore"):
            expected = np.asarray(equation.primitive.impl(np, *operands, **equation.params))
        (found,) = kernel(*map(to_device, values))
        assert_near(to_host(found), expected, f"{name}: {equation}")


@pytest.mark.slow
@pytest.mark.nvrtc
@pytest.mark.skipif(not nvrtc_units.available(), reason="NVRTC is not installed")
@pytest.mark.parametrize("architecture", nvrtc_units.ARCHITECTURES)
def test_nvrtc_compiles_all_of_them(table: list, architecture: str) -> None:
    texts = [t for *_, kernel in table for t in texts_of(kernel)]
    for text, kernels in nvrtc_units.facts_of_all(texts, architecture).items():
        assert "kernel" in kernels
        for facts in kernels.values():  # what is saved around a call, of the slow way of a division, say, is counted as well
            assert not facts.spills or facts.spills <= 128 and facts.registers <= 64, f"{kernels}\n{text}"


def groups_of(f: Any, *args: Any) -> list[Any]:
    return [e for e in fuse(funcad.passes.pipeline.optimize(jit(f).lower(*args).jaxpr)).equations if e.primitive is fused_p]


def everything(x: Any, row: Any, column: Any, number: Any) -> Any:
    y = np.exp(-x) * row + column - number
    return y, np.sum(y), np.max(y), np.where(y > 0, x, row), np.sum(x * x)


@pytest.mark.parametrize("shape", [(3, 5), *[pytest.param(s, marks=pytest.mark.slow) for s in ((1, 1), (5, 131))]])
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
def test_layouts(shape: tuple, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    n, m = shape
    host = [rng.normal(size=s).astype(dtype) for s in ((n, m), (m,), (n, 1))] + [dtype(1.5)]
    expected = everything(*host)
    wide = rng.normal(size=(2 * n, 3 * m + 1)).astype(dtype)
    wide[::2, 1::3] = host[0]
    with config.set(engine="cuda"):
        f = jit(everything)
        turned = to_device(np.ascontiguousarray(host[0].T)).T
        for x in (to_device(host[0]), turned, to_device(wide)[::2, 1::3], to_device(host[0][::-1].copy())[::-1]):
            seen = set()
            for run in range(4):
                found = [to_host(v) for v in f(x, to_device(host[1]), to_device(host[2]), host[3])]
                for a, b in zip(found, expected):
                    far = np.sum(np.abs(host[0])) if not np.ndim(b) else 10.0  # what is added up may cancel
                    np.testing.assert_allclose(a, b, rtol=0, atol=10 * far * np.finfo(dtype).eps)
                    assert np.asarray(a).dtype == np.asarray(b).dtype
                if run:  # the first is the reference's
                    seen.add(b"".join([a.tobytes() for a in found]))
            assert len(seen) == 1, "not the same bits every run"


@pytest.mark.parametrize("n", [1023, *[pytest.param(n, marks=pytest.mark.slow) for n in (5, 5000)]])
def test_packs_are_taken_where_addresses_allow_it(n: int) -> None:
    with config.set(engine="cuda"):
        host = np.linspace(-1.0, 1.0, n + 1).astype(np.float32)
        there = to_device(host)
        (group,) = groups_of(lambda x: (np.sin(x) * x + 1.0, np.sum(x)), host[1:])
        kernel = kernel_for(group, xp)
        aligned, shifted = to_device(host[:n]), there[1:]
        assert aligned.data.ptr % 16 == 0 and shifted.data.ptr % 16 == 4
        for x in (aligned, shifted):
            out, total = kernel(x)
            np.testing.assert_allclose(to_host(out), np.sin(x.get()) * x.get() + 1.0, rtol=1e-6)
            np.testing.assert_allclose(float(total), x.get().sum(dtype=float), atol=1e-3)
        (variant,) = kernel.variants.values()
        assert set(variant.modules) == {1, 4}


@pytest.mark.parametrize("dtype", [np.int8, *[pytest.param(d, marks=pytest.mark.slow) for d in (np.uint8, np.int64)]])
def test_totals_of_integers(dtype: Any) -> None:
    host = np.random.default_rng(3).integers(-100, 100, 3000)
    x = host.astype(dtype)

    def f(x: Any, dtype: Any = dtype) -> Any:
        y = x * dtype(3) + dtype(1)
        return np.max(y), np.min(y), y // dtype(7), y % dtype(7), y << dtype(2), abs(y) >> dtype(1)

    with config.set(engine="cuda"):
        g = jit(f)
        for _ in range(3):
            for a, b in zip(g(to_device(x)), f(x)):
                assert to_host(a).dtype == b.dtype
                np.testing.assert_array_equal(to_host(a), b)


def check_random(seeds: range) -> int:
    found, texts = [], []
    for seed in seeds:
        try:
            jaxpr, values = trace(random_case(seed))
        except (TypeError, ValueError, IndexError):  # a derivative that does not exist, say
            continue
        program = EngineProgram(jaxpr, "cuda")
        for equation in program.on_device(xp).fused.equations:
            if equation.primitive is fused_p:
                try:
                    kernel = kernel_for(equation, xp)
                except Unsupported:
                    continue
                texts += texts_of(kernel) if type(kernel) is ElementwiseLaunches else []
        found.append((seed, jaxpr, values))
    compiled(texts)
    for seed, jaxpr, values in found:
        try:
            check(jaxpr, values, xp, "cuda")
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    return len(texts)


@pytest.mark.slow
def test_random_programs() -> None:
    assert check_random(range(24)) > 8


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 1100, 50))
def test_more_random_programs(start: int) -> None:
    assert check_random(range(start, start + 50)) > 8


def test_a_program_is_few_calls() -> None:
    x = to_device(np.linspace(-1.0, 1.0, 100))

    def f(x: Any) -> Any:
        return np.sum(np.tanh(x) * np.exp(-x * x) + np.log1p(x * x))

    with config.set(engine="cuda"):
        g = jit(value_and_grad(f))
        for _ in range(3):
            value, gradient = g(x)
        np.testing.assert_allclose(float(value), f(x.get()), rtol=1e-13)
        np.testing.assert_allclose(to_host(gradient), grad(f)(x.get()), rtol=1e-12, atol=1e-13)
        shown = g.explain(x)
        assert shown.engine == "cuda" and [k["engine"] for k in shown.groups] == ["cuda"] and not shown.alone
    assert jit(value_and_grad(f)).explain(x).engine == "cupy"


def test_what_has_no_kernel_is_lines() -> None:
    host = np.linspace(0.0, 1.0, 12).reshape(3, 4)
    with config.set(engine="cuda"):
        f = jit(lambda x: (np.arcsin(1j * x) * 2.0, np.exp(x - np.max(x, axis=1, keepdims=True))))
        for _ in range(3):
            for a, b in zip(f(to_device(host)), f(host)):
                assert type(a) is DeviceArray and to_host(a).dtype == b.dtype
                np.testing.assert_allclose(to_host(a), b, rtol=1e-12)
        assert f.explain(to_device(host)).reasons


@pytest.mark.parametrize("dtype", [np.complex128, np.float16, pytest.param(np.complex64, marks=pytest.mark.slow)])
def test_complex_numbers_and_float16(dtype: Any) -> None:
    host = (np.linspace(0.0, 1.0, 99).reshape(3, 33) * (1 + 0.5j * (np.dtype(dtype).kind == "c"))).astype(dtype)

    def f(x: Any) -> Any:
        y = np.exp(x) * x + dtype(2) / (x + dtype(1))
        return y, abs(y), np.where(abs(x) > 0.25, np.sqrt(y), -y)

    with config.set(engine="cuda"):
        g = jit(f)
        for x in (to_device(host), to_device(host).T):
            for _ in range(3):
                for a, b in zip(g(x), f(x.get())):
                    assert to_host(a).dtype == b.dtype
                    np.testing.assert_allclose(to_host(a), b, rtol=8 * float(np.finfo(dtype).eps))
        shown = g.explain(to_device(host))
        assert [k["engine"] for k in shown.groups] == ["cuda"] and not shown.reasons
        total = jit(lambda x: np.sum(x * x))
        for _ in range(3):
            found = to_host(total(to_device(host)))
            np.testing.assert_allclose(found, np.sum(host * host), rtol=8 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize(
    "bug",
    [
        ("held[threadIdx.x] = mine;\n  __syncthreads();", "held[threadIdx.x] = mine;"),
        pytest.param(("o >>= 1", "o >>= 2"), marks=pytest.mark.slow),
        pytest.param(("blockDim.x + threadIdx.x;", "blockDim.x + threadIdx.x + 1;"), marks=pytest.mark.slow),
        pytest.param(("i = n / 2 * 2 + first", "i = n / 2 * 2 + first + 1"), marks=pytest.mark.slow),
        pytest.param(("i = n / 2 * 2 + first; i < n", "i = n / 2 * 2 + first; i <= n"), marks=pytest.mark.slow),
        pytest.param(("i < n / 2; i", "i < n / 2 + 1; i"), marks=pytest.mark.slow),
        pytest.param(("*)in0)[i]", "*)(in0 + 1))[i]"), marks=pytest.mark.slow),
        pytest.param(("if (threadIdx.x == 0) parts", "parts"), marks=pytest.mark.slow),
        pytest.param(("i = threadIdx.x; i < n;", "i = threadIdx.x; i < n - 1;"), marks=pytest.mark.slow),
        ("__syncthreads();\n  }", "if (threadIdx.x < o) __syncthreads();\n  }"),
    ],
)
def test_the_shim_catches_bugs(bug: tuple[str, str]) -> None:
    host = np.random.default_rng(4).normal(size=701)
    (group,) = groups_of(lambda x: (np.sin(x) * x, np.sum(np.sin(x))), host)
    kernel = kernel_for(group, xp)
    (out, total) = kernel(to_device(host))
    np.testing.assert_allclose(float(total), np.sin(host).sum(), rtol=1e-12)
    variant = next(iter(kernel.variants.values()))
    text = variant.text(variant.width)
    assert bug[0] in text
    variant.modules[variant.width] = Module(text.replace(*bug))
    with pytest.raises(AssertionError):
        out, total = kernel(to_device(host))
        np.testing.assert_allclose(float(total), np.sin(host).sum(), rtol=1e-12)
        np.testing.assert_allclose(to_host(out), np.sin(host) * host, rtol=1e-12)
