"""Gathers and scatters of many elements run as native code, and so does a single elementary function."""

from __future__ import annotations

import numpy as np
import pytest

import funcad
from funcad.passes.fuse import fuse
from funcad.passes.pipeline import optimize
from funcad.primitives.fused import fused_p

DRAW = np.random.default_rng(0)



def test_sums_of_segments_of_any_size_are_native() -> None:
    pytest.importorskip("llvmlite")
    for k, n, rest in ((200_000, 50, ()), (60_000, 300, (16,))):
        x, i = DRAW.normal(size=(k, *rest)), DRAW.integers(-n, n, k)
        with funcad.config.set(engine="native"):
            f = funcad.jit(lambda x, i: funcad.numpy.at(np.zeros((n, *rest)))[i].add(x))  # noqa: B023
            expected = np.zeros((n, *rest))
            np.add.at(expected, i, x)
            np.testing.assert_allclose(f(x, i), expected, rtol=1e-12, atol=1e-12)
            assert "engine native" in str(f.explain(x, i)).splitlines()[0]
            i[7] = n
            with pytest.raises(IndexError, match=f"index {n} is out of bounds for axis 0 with size {n}"):
                f(x, i)


def test_an_elementary_function_alone_is_a_loop() -> None:
    for f, size, loops in ((np.cos, 1 << 14, 1), (np.cos, 100, 0), (np.negative, 1 << 14, 0)):
        x = np.linspace(-3.0, 3.0, size)
        jaxpr = fuse(optimize(funcad.make_jaxpr(f)(x).jaxpr))
        assert sum(e.primitive is fused_p for e in jaxpr.equations) == loops
        for engine in ("numpy", "native"):
            with funcad.config.set(engine=engine):
                np.testing.assert_allclose(funcad.jit(f)(x), f(x), rtol=1e-15)
