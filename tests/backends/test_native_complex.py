"""Functions of complex numbers as native code: NumPy's results, also at zeros, infinities and NaN, in vectors and alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import funcad
from funcad.backends.native import ir, target
from funcad.backends.native.emitter import Emitter
from funcad.backends.native.program import compile_program
from funcad.passes.pipeline import optimize
from tests.native_lanes import kernel

if not target.available():
    pytest.skip(f"no native engine: {target.why_not()}", allow_module_level=True)

FUSED = Emitter(ir.Function(ir.Module(), "k", []), 2, target.host()).fused
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.inf, -np.inf, np.nan, 0.6, 0.8, 1e-30, -1e-3, 89.0, -95.0, 20.0]
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "exp": (lambda e, z: e.exp(z), np.exp),
    "sqrt": (lambda e, z: e.sqrt(z), np.sqrt),
    "log": (lambda e, z: e.log(z), np.log),
    **{f"power {n}": (lambda e, z, n=n: e.integer_pow(z, n), lambda z, n=n: z**n) for n in (3, 4, 7, -1, -2, -5)},
}


def points(kind: type) -> np.ndarray:
    rng = np.random.default_rng(0)
    part = np.finfo(kind).dtype
    extreme = [710.0, 1e308, -1e200, 1e-160, 5e-324, -1e-310] if kind is np.complex128 else [3e38, -1e30, 1e-30, 1e-42]
    grid = np.array(NUMBERS + extreme, part)
    special = np.empty((grid.size, grid.size), kind)
    special.real, special.imag = grid[:, None], grid
    spread = rng.normal(size=500) * np.exp(3 * rng.normal(size=500)) + 1j * rng.normal(size=500)
    near_one = (1 + 1e-6 * rng.normal(size=500)) * np.exp(1j * rng.uniform(-np.pi, np.pi, 500))
    return np.concatenate([special.ravel(), spread.astype(kind), near_one.astype(kind)])


def agree(found: np.ndarray, expected: np.ndarray, at: np.ndarray, ulps: int) -> None:
    for a, b in ((found.real, expected.real), (found.imag, expected.imag)):
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= ulps * np.spacing(np.maximum(np.abs(a), np.abs(b)))
        same = (a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)
        bad = np.flatnonzero(~(same | near & np.isfinite(a) & np.isfinite(b)))
        assert not bad.size, f"{at[bad[:5]]} gave {found[bad[:5]]}, NumPy gives {expected[bad[:5]]}"


@pytest.mark.parametrize("kind", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_numpy(name: str, kind: type) -> None:
    if name == "log" and not FUSED:
        pytest.skip("log of complex numbers needs a fused multiply-add")
    write, reference = FUNCTIONS[name]
    z = points(kind)
    with np.errstate(all="ignore"):
        expected = reference(z)
    if name.startswith("power"):  # products of infinities: which parts become NaN is no matter of meaning
        keep = np.isfinite(z) & np.isfinite(expected)
        z, expected = z[keep], expected[keep]
    dtype = np.dtype(kind)
    for lanes in (1, 4 if kind is np.complex128 else 8):
        agree(kernel(write, [dtype], dtype, lanes)(z), expected, z, 4 if FUSED else 8)


def test_in_a_loop_and_its_derivative() -> None:
    """A whole program: a wave under a phase that depends on its size."""

    def last(amplitude: Any) -> Any:
        z = amplitude * np.exp(1j * np.linspace(0.0, 3.0, 20))
        z = funcad.fori_loop(0, 30, lambda i, z: z * np.exp(-0.1j * np.abs(z)) + 0.01 * np.sqrt(z), z)
        return np.sum(np.abs(z) ** 2)

    for f in (last, funcad.grad(last)):
        jaxpr = optimize(funcad.jit(f).lower(0.7).jaxpr)
        lowered = funcad.jit(f).lower(0.7)
        found = compile_program(jaxpr)([*lowered._entry.consts, 0.7])[0]
        np.testing.assert_allclose(found, f(0.7), rtol=1e-9)
