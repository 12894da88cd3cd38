"""Kernels of NPBench: values as NumPy's, jitted and not, and derivatives as differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import grad, jit, jvp, tree
from tests.whole.array_kernels import KERNELS, Kernel

DIFFERENTIABLE = {name: k for name, k in KERNELS.items() if k.differentiable}


def fresh(kernel: Kernel) -> list[Any]:
    return [a.copy() if type(a) is np.ndarray else a for a in kernel.arguments]


def traced(kernel: Kernel) -> list[int]:
    """Which arguments are arrays of numbers that have a derivative."""
    return [i for i, a in enumerate(kernel.arguments) if type(a) is np.ndarray and a.dtype.kind in "fc"]


def loss_of(kernel: Kernel) -> Callable[[list[Any]], Any]:
    at = traced(kernel)

    def loss(arrays: list[Any]) -> Any:
        arguments = fresh(kernel)
        for i, a in zip(at, arrays):
            arguments[i] = a
        total = 0.0
        for out in tree.leaves(kernel.f(*arguments)):
            weights = np.cos(np.arange(np.size(out))).reshape(np.shape(out))
            total = total + np.sum(weights * np.real(out)) + 0.3 * np.sum(weights * np.imag(out))
        return total

    return loss


def inputs(kernel: Kernel) -> list[np.ndarray]:
    return [kernel.arguments[i].copy() for i in traced(kernel)]


def moved(kernel: Kernel, steps: list[np.ndarray], h: float) -> list[np.ndarray]:
    return [a + h * s for a, s in zip(inputs(kernel), steps)]


def test_all_are_there() -> None:
    assert len(KERNELS) == 54 and len(DIFFERENTIABLE) == 50


@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")  # of NumPy 2.5
@pytest.mark.share(3)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_values(kernel: Kernel) -> None:
    static = [i for i, a in enumerate(kernel.arguments) if type(a) is int]
    compiled, expected = jit(kernel.f, static_argnums=static), fresh(kernel)
    results = kernel.f(*expected)
    for _ in range(3):
        arguments = fresh(kernel)
        for found, wanted in zip(tree.leaves((compiled(*arguments), arguments)), tree.leaves((results, expected))):
            np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.share(6)
@pytest.mark.parametrize("kernel", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
def test_derivatives(kernel: Kernel) -> None:
    loss, rng, h = loss_of(kernel), np.random.default_rng(5), 1e-6
    steps = [rng.normal(size=a.shape) for a in inputs(kernel)]
    if kernel.f.__name__ == "cholesky2":  # the derivative of np.linalg.cholesky is that of symmetric matrices
        steps = [s + s.T for s in steps]
    expected = (loss(moved(kernel, steps, h)) - loss(moved(kernel, steps, -h))) / (2 * h)
    slopes = grad(loss)(inputs(kernel))
    found = sum([np.sum(np.real(s) * g.real) for s, g in zip(steps, slopes)])
    assert found == pytest.approx(expected, rel=2e-5, abs=1e-7)
    steps = [s.astype(a.dtype) for s, a in zip(steps, inputs(kernel))]
    assert jvp(loss, (inputs(kernel),), (steps,))[1] == pytest.approx(found, rel=1e-8, abs=1e-10)
    compiled = jit(grad(loss))
    for _ in range(2):
        for one, other in zip(compiled(inputs(kernel)), slopes):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)
