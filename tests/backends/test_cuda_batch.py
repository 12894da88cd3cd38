"""Groups of small examples as CUDA C++: run on the CPU (tests/cuda_shim.py) beside the reference implementation of `fused`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from funcad import config, jit, vmap
from funcad.backends.cuda.cuda_text import BatchLaunches
from funcad.backends.cuda.launches import kernel_for
from funcad.ir.jaxpr import Literal
from funcad.passes.example_loops import batch
from tests import cuda_shim, nvrtc_units
from tests.cuda_shim import compiled
from tests.passes.test_batch import PROGRAMS, SIZE, groups, rotated, traced
from tests.standin import registered, to_device, to_host, xp

pytestmark = [
    pytest.mark.skipif(not cuda_shim.available(), reason="there is no g++ to run kernels with"),
    pytest.mark.filterwarnings("ignore"),
]
SOME = ("its Hessian", "padding")


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    with registered():
        yield


def cases(dtype: str, axis: int = 0, names: Any = None, size: int = SIZE) -> Iterator[tuple[str, Any, list, list]]:
    """The groups of the programs, with the values that they read and give."""
    rng = np.random.default_rng(3)
    for name, f in PROGRAMS:
        if names is None or name in names:
            x = rng.normal(size=(size, 4) if axis == 0 else (4, size)).astype(dtype)
            jaxpr, values = traced(vmap(f, in_axes=axis), x)
            program = batch(jaxpr)
            env = dict(zip(program.inputs, values))
            for equation in program.equations:
                given = [a.value if type(a) is Literal else env[a] for a in equation.inputs]
                found = equation.primitive.impl(np, *given, **equation.params)
                found = found if equation.primitive.multiple else [found]
                env.update(zip(equation.outputs, found))
                if equation in groups(program):
                    yield name, equation, given, found


def assert_near(found: list, expected: list, what: str) -> None:
    for a, b in zip(map(to_host, found), expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape, what
        if b.dtype.kind == "f":
            scale = max(1.0, float(np.max(np.abs(b))))
            np.testing.assert_allclose(a, b, rtol=0, atol=100 * scale * np.finfo(b.dtype).eps, err_msg=what)
        else:
            np.testing.assert_array_equal(a, b, err_msg=what)


def check(found: Any) -> int:
    every = [(name, kernel_for(equation, xp), *rest) for name, equation, *rest in found]
    compiled([kernel.text(["1"] * len(kernel.avals)) for _, kernel, *_ in every])
    for name, kernel, given, expected in every:
        assert type(kernel) is BatchLaunches
        assert_near(kernel(*[to_device(np.asarray(v)) for v in given]), expected, name)
    return len(every)


@pytest.mark.slow
def test_some_programs_of_small_examples() -> None:
    assert check(cases("f4", 0, SOME)) == 2
    assert check(cases("f8", 1, SOME[1:])) == 1


@pytest.mark.slow
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_all_programs_of_small_examples(dtype: str, axis: int) -> None:
    assert check(cases(dtype, axis)) > 8


@pytest.mark.slow
@pytest.mark.parametrize("size", [32, 127, 128, 129, 300_000])
def test_sizes(size: int) -> None:
    check(cases("f8", 0, SOME, size))


def test_layouts_of_examples() -> None:
    ((_, equation, given, expected),) = cases("f8", 0, ["joining"])
    kernel = kernel_for(equation, xp)
    (x,) = [v for v in given if np.shape(v) == (SIZE, 4)]
    wide = np.zeros((2 * SIZE, 9))
    wide[::2, 1::2] = x
    ways = [to_device(x), to_device(np.ascontiguousarray(x.T)).T, to_device(wide)[::2, 1::2]]
    ways.append(to_device(x[::-1, ::-1].copy())[::-1, ::-1])
    for way in ways:
        operands = [way if v is x else to_device(np.asarray(v)) for v in given]
        assert_near(kernel(*operands), expected, "a layout")
    assert len(kernel.variants) == len(ways)


def test_a_batch_is_one_kernel() -> None:
    x = np.random.default_rng(0).normal(size=(SIZE, 4))
    with config.set(engine="cuda"):
        f = jit(vmap(rotated))
        for _ in range(3):
            np.testing.assert_allclose(to_host(f(to_device(x))), vmap(rotated)(x), rtol=1e-12, atol=1e-12)
        shown = f.explain(to_device(x))
        assert [(g["kind"], g["engine"]) for g in shown.groups] == [("batch", "cuda")]


@pytest.mark.slow
@pytest.mark.nvrtc
@pytest.mark.skipif(not nvrtc_units.available(), reason="NVRTC is not installed")
@pytest.mark.parametrize("architecture", nvrtc_units.ARCHITECTURES)
def test_nothing_spills(architecture: str) -> None:
    texts = {}
    for dtype in ("f4", "f8"):
        for name, equation, *_ in cases(dtype):
            text = BatchLaunches(equation.params["jaxpr"], None, None).text(["1"] * len(equation.inputs))
            texts[text] = f"{name} {dtype}"
    for text, kernels in nvrtc_units.facts_of_all(list(texts), architecture).items():
        assert not any([facts.spills for facts in kernels.values()]), f"{texts[text]}: {kernels}"
