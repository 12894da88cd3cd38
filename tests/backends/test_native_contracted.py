"""Products and the sums that they are added to are rounded one after the other, but under fast_math."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import funcad
from funcad.backends.engines import TIER_UP_RUNS
from funcad.backends.native import ir, kernels, target
from funcad.backends.native.emitter import _has_fma
from funcad.backends.native.target import host

RNG = np.random.default_rng(0)
NEAR = 1.0 + 2.0**-30  # whose square has a part below its last bit


@pytest.fixture(autouse=True, scope="module")
def tried() -> None:
    """The engine tries itself when it is first used, with programs of its own."""
    assert kernels.kernel_for and target.why_not() is None


def texts_of(f: Callable[..., Any], *args: Any, fast: bool, monkeypatch: Any) -> list[str]:
    """The modules of what is compiled for the jitted function."""
    found: list[str] = []
    text = ir.Module.text

    def noted(module: ir.Module) -> str:
        found.append(text(module))
        return found[-1]

    jitted = funcad.jit(f, fast_math=fast)
    with monkeypatch.context() as patch, funcad.config.set(engine="native", cache_dir="off"):
        patch.setattr(ir.Module, "text", noted)
        for _ in range(2 + TIER_UP_RUNS):
            jitted(*args)
        assert "native" in str(jitted.explain(*args))
    assert found
    return found


def polynomial(x: Any, y: Any) -> Any:
    return 3.0 * x * x + x * y - 2.0 * y + 1.0


def rows(x: Any, y: Any) -> Any:
    z = x * y + x
    return z - np.max(z, axis=1, keepdims=True) * y


def turns(x: Any, y: Any) -> Any:
    return funcad.scan(lambda c, v: (c * y[0] + v, c * v - y[1]), x[0], x)


CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "a whole program": (polynomial, (20,)),
    "a kernel": (lambda x, y: (np.sort(polynomial(x, y)), polynomial(x, y)), (40_000,)),
    "a sum of products": (lambda x, y: np.sum(x * y + x), (50_000,)),
    "rows": (lambda x, y: (np.sort(rows(x, y), axis=None), rows(x, y)), (300, 200)),
    "a loop": (turns, (30,)),
    "a gradient": (funcad.grad(lambda x, y: np.sum(polynomial(x, y) * x)), (40,)),
    "examples": (funcad.vmap(lambda x, y: polynomial(x, y) * np.max(x)), (2000, 3)),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_only_fast_math_allows_it(name: str, dtype: Any, monkeypatch: Any) -> None:
    f, shape = CASES[name]
    x, y = RNG.normal(size=(2, *shape)).astype(dtype)
    exact = "\n".join(texts_of(f, x, y, fast=False, monkeypatch=monkeypatch))
    assert "fmul" in exact and "contract" not in exact and "reassoc" not in exact and "fast " not in exact
    assert "llvm.fma" not in exact and "llvm.fmuladd" not in exact
    fast = "\n".join(texts_of(f, x, y, fast=True, monkeypatch=monkeypatch))
    assert "fmul contract" in fast and ("fadd contract" in fast or "fsub contract" in fast)
    found, expected = funcad.jit(f, fast_math=True)(x, y), f(x, y)
    for a, b in zip(funcad.tree.leaves(found), funcad.tree.leaves(expected)):
        np.testing.assert_allclose(a, b, rtol=0, atol=(1e-12 if dtype == np.float64 else 1e-3) * np.max(np.abs(b)))


def test_functions_are_not_contracted(monkeypatch: Any) -> None:
    """Their formulas carry rounding errors along, which a product that is not rounded would spoil."""
    functions = (np.exp, np.log, np.sin, np.tanh, np.cbrt, lambda x: x**2.5, lambda x: np.hypot(x, 2.0), lambda x: x // 0.3)
    for f in functions:
        x = RNG.uniform(0.1, 3.0, size=50)
        assert "contract" not in "\n".join(texts_of(f, x, fast=True, monkeypatch=monkeypatch))
    assert "contract" not in "\n".join(texts_of(lambda x: x * x + x, np.arange(50), fast=True, monkeypatch=monkeypatch))
    assert "contract" not in "\n".join(texts_of(lambda x: x * x + x, x + 1j * x, fast=True, monkeypatch=monkeypatch))


@pytest.mark.parametrize("size", [3, 100_000])
def test_what_is_rounded(size: int) -> None:
    x = np.full(size, NEAR)
    f = lambda x: (x * x - (1.0 + 2.0**-29), np.sqrt(x * x - x * x))
    for _ in range(2):
        exact, root = funcad.jit(f)(x)
        assert not exact.any() and not root.any()  # as NumPy, and no NaN
        fast = funcad.jit(lambda x: x * x - (1.0 + 2.0**-29), fast_math=True)
        for _ in range(2):
            found = fast(x)
        assert set(found.tolist()) <= {0.0, 2.0**-60}
        if _has_fma(host()):
            assert (found == 2.0**-60).all()


def test_the_same_function_with_and_without(monkeypatch: Any) -> None:
    """Programs are not mixed up: an inner jitted function, and one in another memory order."""
    inner = funcad.jit(lambda x: x * x - (1.0 + 2.0**-29))
    x = np.full((40, 30), NEAR)
    exact, fast = funcad.jit(lambda x: inner(x) + 0.0), funcad.jit(lambda x: inner(x) + 0.0, fast_math=True)
    for _ in range(3):
        fast(x), fast(x.T)
        assert not exact(x).any() and not exact(x.T).any() and not inner(x).any()
