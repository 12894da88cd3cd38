"""Compiled code, which has no frame, gets NumPy's own functions: it would read the memory of a traced value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import interpolate, spatial

import funcad as fc

POINTS = np.random.default_rng(0).normal(size=(10, 2))
CALLS: dict[str, Any] = {
    "add_points": lambda x: spatial.ConvexHull(POINTS, incremental=True).add_points(x),
    "CloughTocher2DInterpolator": lambda x: interpolate.CloughTocher2DInterpolator(x, np.ones(10))(0.0, 0.0),
    "HalfspaceIntersection": lambda x: spatial.HalfspaceIntersection(np.c_[x, x[:, :1] * 0 - 9], np.zeros(2)).intersections,
}


@pytest.mark.parametrize("name", CALLS)
def test_compiled_geometry_is_told_no_traced_values(name: str):
    f = CALLS[name]
    f(POINTS)
    g = lambda x: np.sum(f(x)) * x.sum()
    for transformed in (fc.grad(g), fc.jit(f), lambda x: fc.vmap(g)(x[None])):
        with pytest.raises(TypeError, match=r"to a NumPy array of a traced(.|\n)*Remedy: "):
            transformed(POINTS)


def test_lines_of_python_have_their_doors_beside_it():
    def f(x: Any) -> Any:
        hull = spatial.ConvexHull(fc.stop_gradient(x))
        return np.asarray([x[i].sum() for i in hull.vertices]).sum() + np.ascontiguousarray(x).sum()

    assert fc.grad(f)(POINTS).shape == POINTS.shape
