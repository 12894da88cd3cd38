"""Groups of rows as CUDA C++: run on the CPU (tests/cuda_shim.py) beside the reference implementation of `fused`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import config, grad, jit, value_and_grad
from funcad.backends.cuda import cuda_rows
from funcad.backends.cuda.launches import RowLaunches, kernel_for, text_of
from funcad.backends.plans.element_plan import Unsupported
from funcad.ir.jaxpr import Literal
from funcad.passes.fuse import fuse
from funcad.primitives import arithmetic
from funcad.primitives import arithmetic as ar
from funcad.primitives.fused import fused_p
from funcad.primitives.reduction import reduce_max_p, reduce_min_p, reduce_prod_p, reduce_sum_p
from tests import cuda_shim, nvrtc_units, row_groups
from tests.cuda_shim import Module, compiled
from tests.row_groups import Group, arguments, random_group
from tests.standin import registered, to_device, to_host, xp

pytestmark = [
    pytest.mark.skipif(not cuda_shim.available(), reason="there is no g++ to run kernels with"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    with registered():
        yield


# -- programs


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def logsumexp(x: Any) -> Any:
    top = np.max(x, axis=1, keepdims=True)
    return np.log(np.sum(np.exp(x - top), axis=1)) + top[:, 0]


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    d = x - np.mean(x, axis=1, keepdims=True)
    return d / np.sqrt(np.mean(d * d, axis=1, keepdims=True) + 1e-5) * gain + bias


def cross_entropy(z: Any, labels: Any) -> Any:
    z = z - np.max(z, axis=1, keepdims=True)
    return -np.mean(np.sum((z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))) * labels, axis=1))


def variances(x: Any) -> Any:
    return np.var(x, axis=1), np.std(2 * x, axis=0), np.mean(np.exp(x), axis=0), np.max(x * x, axis=0), np.min(x * x, axis=1)


def weighted(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda ct, *args: np.sum(ct * f(*args))


Program = tuple[Callable[..., Any], tuple]


def programs(rows: int, n: int, dtype: str, some: bool = False) -> dict[str, Program]:
    rng = np.random.default_rng(n)
    full = lambda: rng.normal(size=(rows, n)).astype(dtype)
    vector = lambda size: rng.normal(size=size).astype(dtype)
    x, ct = full(), full()
    norm = (x, vector(n), vector(n))
    found: dict[str, Program] = {
        "softmax backward": (value_and_grad(weighted(softmax), 1), (ct, x)),
        "layer norm backward": (value_and_grad(weighted(layer_norm), (1, 2, 3)), (ct, *norm)),
    }
    if some:
        return found
    return {
        **found,
        "softmax": (softmax, (x,)),
        "logsumexp": (logsumexp, (x,)),
        "logsumexp backward": (value_and_grad(weighted(logsumexp), 1), (vector(rows), x)),
        "layer norm": (layer_norm, norm),
        "cross-entropy": (value_and_grad(cross_entropy), (x, np.abs(ct))),
        "variances": (variances, (x,)),
        "variances backward": (grad(lambda x: sum([np.sum(np.sin(v)) for v in variances(x)])), (x,)),
    }


def groups_of(f: Any, args: tuple) -> Iterator[tuple[Any, list, list]]:
    """The groups of rows of a program, with the values that they read and give."""
    optimize = importlib.import_module("funcad.passes.pipeline").optimize
    lowered = jit(f).lower(*args)
    program = fuse(optimize(lowered.jaxpr))
    env = dict(zip(program.inputs, [*lowered._entry.consts, *funcad.tree.leaves(args)]))
    for equation in program.equations:
        values = [a.value if type(a) is Literal else env[a] for a in equation.inputs]
        with np.errstate(all="ignore"):
            found = equation.primitive.impl(np, *values, **equation.params)
        found = found if equation.primitive.multiple else [found]
        env.update(zip(equation.outputs, found))
        if equation.primitive is fused_p and equation.params["kind"] == "rows":
            yield equation, values, found


def assert_near(found: Any, expected: list, given: list, what: str) -> None:
    """Sums are of the same numbers in another order, which may cancel."""
    scale = max([1.0, *[float(np.max(np.abs(v), initial=0.0)) for v in (*given, *expected)]])
    for a, b in zip(map(to_host, found), map(np.asarray, expected), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape, what
        if b.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=0, atol=200 * scale * np.finfo(b.dtype).eps, err_msg=what)
        else:
            np.testing.assert_array_equal(a, b, err_msg=what)


def kernel_of(equation: Any) -> RowLaunches:
    found = kernel_for(equation, xp)
    assert type(found) is RowLaunches
    return found


def check_programs(found: dict[str, Program]) -> list[RowLaunches]:
    cases = [(name, kernel_of(e), *values) for name, (f, args) in found.items() for e, *values in groups_of(f, args)]
    compiled([kernel.text.text(["1"] * len(kernel.avals)) for _, kernel, *_ in cases])
    for name, kernel, given, expected in cases:
        assert_near(kernel(*[to_device(np.asarray(v)) for v in given]), expected, given, f"{name} {kernel.shape}")
    return [kernel for _, kernel, *_ in cases]


def test_programs_of_rows() -> None:
    kernels = check_programs(programs(9, 33, "f4"))
    assert len(kernels) > 9


MORE = (17, 1025), (2, 70000), (4000, 1), (1, 100)


@pytest.mark.share(4)
@pytest.mark.parametrize("shape", [(300, 3), (2, 16400), *[pytest.param(s, marks=pytest.mark.slow) for s in MORE]])
def test_each_way_through_rows(shape: tuple[int, int]) -> None:
    kernels = check_programs(programs(*shape, "f8", some=True))
    assert {k.text.way.spread for k in kernels} == {shape[1] >= 16400}


@pytest.mark.parametrize("n", [pytest.param(17000, marks=pytest.mark.slow), 16400])
def test_long_rows_are_read_again(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_rows, "BUSY", 1)  # as many rows are
    found = programs(3, n, "f8") if n > 16400 else {"variances": programs(3, n, "f8")["variances"]}
    kernels = check_programs(found)
    assert not any([k.text.way.held or k.text.way.spread for k in kernels]) and any([k.text.apart for k in kernels])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 63, 100, 1000, 1024, 1025, 5000, 20000])
def test_widths(n: int, dtype: str) -> None:
    check_programs(programs(7, n, dtype))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2, 31, 33, 256, 257, 2049, 40000])
def test_numbers_of_rows(rows: int) -> None:
    check_programs(programs(rows, 40 if rows < 3000 else 3, "f8"))


def check_random(seeds: Any, sizes: Any) -> None:
    cases = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        shape = int(rng.choice(sizes)), int(rng.choice(sizes))
        jaxpr = random_group(rng, *shape, rng.choice(["f4", "f8"]))
        if jaxpr.outputs:
            cases.append((jaxpr, shape, arguments(jaxpr, rng), RowLaunches(jaxpr, shape, xp, Module)))
    compiled([kernel.text.text(["1"] * len(kernel.avals)) for *_, kernel in cases])
    for jaxpr, shape, given, kernel in cases:
        with np.errstate(all="ignore"):
            expected = fused_p.impl(np, *given, jaxpr=jaxpr, kind="rows", shape=shape)
        assert_near(kernel(*[to_device(v) for v in given]), expected, given, str(jaxpr))


def test_random_groups() -> None:
    check_random(range(8), [1, 2, 7, 33, 65])


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 1200, 20))
def test_more_random_groups(start: int) -> None:
    check_random(range(start, start + 20), [1, 2, 3, 8, 31, 33, 65, 130, 1000, 1100])


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(70, 33), (20, 1100), (3, 14000)])
def test_products_with_vectors(shape: tuple[int, int]) -> None:
    jaxpr = row_groups.regression(*shape, "f8")
    given = [a / 8 if a.ndim == 1 else a for a in arguments(jaxpr, np.random.default_rng(0))]
    expected = fused_p.impl(np, *given, jaxpr=jaxpr, kind="rows", shape=shape)
    assert_near(RowLaunches(jaxpr, shape, xp, Module)(*map(to_device, given)), expected, given, "regression")


# -- how arrays lie


def test_layouts() -> None:
    n, m = 6, 35
    (case,) = groups_of(layer_norm, programs(n, m, "f8")["layer norm"][1])
    equation, (x, *vectors), expected = case
    kernel = kernel_of(equation)
    rng = np.random.default_rng(1)
    wide = rng.normal(size=(2 * n, 3 * m + 1))
    wide[::2, 1::3] = x
    every = [
        to_device(np.ascontiguousarray(x.T)).T,
        to_device(wide)[::2, 1::3],
        to_device(x[::-1, ::-1].copy())[::-1, ::-1],
        to_device(x),
    ]
    spread = [to_device(np.repeat(v, 2))[::2] for v in vectors]
    adjacent = [to_device(v) for v in vectors]
    ways = [(full, adjacent) for full in every] + [(every[0], spread), (every[3], spread)]
    for full, others in ways:
        assert_near(kernel(full, *others), expected, [x, *vectors], "a layout")
    assert len(kernel.variants) == len(ways)
    row = xp.broadcast_to(to_device(x[:1].copy()), x.shape)
    again = equation.primitive.impl(np, np.broadcast_to(x[:1], x.shape), *vectors, **equation.params)
    assert_near(kernel(row, *map(to_device, vectors)), again, [x], "broadcast rows")


def test_a_program_calls_one_kernel_a_group() -> None:
    x = np.random.default_rng(0).normal(size=(12, 40))
    labels = np.abs(x)
    with config.set(engine="cuda"):
        f = jit(value_and_grad(cross_entropy))
        seen = set()
        for run in range(4):
            value, gradient = f(to_device(x), to_device(labels))
            np.testing.assert_allclose(float(value), cross_entropy(x, labels), rtol=1e-13)
            np.testing.assert_allclose(to_host(gradient), grad(cross_entropy)(x, labels), rtol=1e-11, atol=1e-13)
            if run:
                seen.add(to_host(gradient).tobytes())
        assert len(seen) == 1
        shown = f.explain(to_device(x), to_device(labels))
        assert shown.engine == "cuda" and [g["engine"] for g in shown.groups] == ["cuda"]
        empty = jit(softmax)
        for _ in range(3):
            assert empty(to_device(np.ones((0, 4)))).shape == (0, 4)


# -- special values


@pytest.mark.parametrize("n", [3, pytest.param(40, marks=pytest.mark.slow), pytest.param(1100, marks=pytest.mark.slow)])
def test_special_values(n: int) -> None:
    g = Group(12, n, "f8")
    x = g.input("full")
    top, low = g.along(reduce_max_p, x), g.along(reduce_min_p, x)
    doubled = g.do(ar.div, 1.0, top, kind="row")
    ends = [g.down(reduce_max_p, x), g.down(reduce_min_p, x), g.down(reduce_max_p, low)]
    spread = g.do(arithmetic.maximum, x, g.full(doubled))
    jaxpr = g.jaxpr(top, low, doubled, spread, g.along(reduce_sum_p, x), *ends)
    rng = np.random.default_rng(5)
    value = rng.choice([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, 1e308], (12, n))
    value[:4] = np.where(np.isnan(value[:4]), 0.0, value[:4])
    value[0], value[1] = -0.0, np.where(rng.random(n) < 0.5, 0.0, -0.0)
    with np.errstate(all="ignore"):
        expected = fused_p.impl(np, value, jaxpr=jaxpr, kind="rows", shape=(12, n))
    kernel = RowLaunches(jaxpr, (12, n), xp, Module)
    found = [to_host(v) for v in kernel(to_device(value))]
    for k, (a, b) in enumerate(zip(found, expected)):
        if k in (2, 3):  # one over a zero, whose sign NumPy leaves open: all of a row must be of one mind
            a, b = np.delete(a, 1, 0), np.delete(b, 1, 0)
        np.testing.assert_array_equal(a, b)
    assert np.array_equal(np.isnan(found[2]), np.isnan(found[0]))
    assert len(set(found[3][1])) == 1


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8"])
def test_integers_wrap(dtype: str) -> None:
    g = Group(40, 37, dtype)
    x, row = g.input("full"), g.input("row")
    y = g.do(ar.mul, x, g.full(row))
    ends = [g.along(reduce_sum_p, y), g.along(reduce_prod_p, x), g.along(reduce_max_p, y), g.down(reduce_sum_p, y)]
    jaxpr = g.jaxpr(*ends, g.down(reduce_min_p, x))
    given = [np.random.default_rng(0).integers(-100 if dtype[0] == "i" else 0, 100, s).astype(dtype) for s in ((40, 37), 40)]
    expected = fused_p.impl(np, *given, jaxpr=jaxpr, kind="rows", shape=(40, 37))
    if any([v.dtype != o.aval.dtype for v, o in zip(expected, jaxpr.outputs)]):
        with pytest.raises(Unsupported):
            RowLaunches(jaxpr, (40, 37), xp, Module)
        return
    for a, b in zip(RowLaunches(jaxpr, (40, 37), xp, Module)(*map(to_device, given)), expected):
        np.testing.assert_array_equal(to_host(a), b)


# -- the compiler of the device


SHAPES = (100000, 3), (100000, 33), (20000, 1000), (20000, 1025), (10000, 5000), (600, 20000), (4, 50000)


@pytest.mark.slow
@pytest.mark.nvrtc
@pytest.mark.skipif(not nvrtc_units.available(), reason="NVRTC is not installed")
@pytest.mark.parametrize("architecture", nvrtc_units.ARCHITECTURES)
def test_nothing_spills(architecture: str) -> None:
    texts = {}
    for rows, n in SHAPES:
        for dtype in ("f4", "f8"):
            for name, (f, args) in programs(2, n, dtype).items():
                for equation, *_ in groups_of(f, args):
                    texts[_with_rows(equation, rows)] = f"{name}, {rows} rows of {n}, {dtype}"
    for text, kernels in nvrtc_units.facts_of_all(list(texts), architecture).items():
        for name, facts in kernels.items():
            assert facts.spills == 0 and facts.shared <= 48 * 1024, f"{name} of {texts[text]}: {facts}"


def _with_rows(equation: Any, rows: int) -> str:
    """The text for a group that was traced with few rows, as it is for many."""
    text = text_of(equation.params["jaxpr"], (rows, equation.params["shape"][1]))
    return text.text(["1"] * len(text.inputs))


# -- bugs that a GPU would show now and then


BUGS: dict[str, tuple[int, str, str]] = {  # the length of the rows, what is written, what is written instead
    "a barrier before what warps leave is read": (300, "  __syncthreads();\n  v = held[", "  v = held["),
    "the last step of an exchange": (33, "o > 0; o >>= 1) { const", "o > 1; o >>= 1) { const"),
    "the last column": (33, "c < 33) {", "c < 32) {"),
    "rows that are not there": (33, "if (live) sum", "sum"),
    "the parts of the last block": (33, "p < n;", "p < n - 1;"),
    "a team's place in a block": (33, "base + threadIdx.x / 32", "base + threadIdx.x / 64"),
    "a barrier while teams are folded": (33, "+ o * width];\n    __syncthreads();", "+ o * width];"),
}


@pytest.mark.parametrize("bug", [b if k == 2 else pytest.param(b, marks=pytest.mark.slow) for k, b in enumerate(BUGS)])
def test_bugs_are_caught(bug: str) -> None:
    n, correct, wrong = BUGS[bug]
    case = programs(20 if n > 100 else 70, n, "f8")["layer norm backward"]
    for equation, given, expected in groups_of(*case):
        kernel = kernel_of(equation)
        text = kernel.text.text(["1"] * len(kernel.avals))
        if correct not in text:
            continue
        operands = [to_device(np.asarray(v)) for v in given]
        assert_near(kernel(*operands), expected, given, "the kernel as it is")
        jaxpr, shape = equation.params["jaxpr"], equation.params["shape"]
        broken = RowLaunches(jaxpr, shape, xp, lambda t: Module(t.replace(correct, wrong)))
        with pytest.raises(AssertionError):
            assert_near(broken(*operands), expected, given, bug)
        return
    pytest.fail(f"no kernel has {correct!r}")


@pytest.mark.slow
def test_a_barrier_ends_a_row_of_one_reduction() -> None:
    """The words that warps leave are written again in the next row, which nothing else keeps apart."""
    x = np.random.default_rng(0).normal(size=(9, 300))
    ((equation, given, expected),) = groups_of(lambda x: x / np.sum(x * x, axis=1, keepdims=True), (x,))
    end = "    __syncthreads();\n  }"
    kernel, broken = [
        RowLaunches(equation.params["jaxpr"], equation.params["shape"], xp, lambda t, by=by: Module(t.replace(end, by)))
        for by in (end, "  }")
    ]
    assert kernel.text.text(["1"]).count(end) == 1
    kernel.blocks = broken.blocks = 1
    assert_near(kernel(to_device(x)), expected, given, "the kernel as it is")
    with pytest.raises(AssertionError):
        broken(to_device(x))
