"""Compiled code, which has no frame, gets NumPy's own functions: it would read the memory of a traced value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
from scipy import interpolate, spatial

import funcad as fc
from funcad import grad, jvp
from funcad.errors import TracerArrayConversionError

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


CALLERS = {
    "brentq": lambda f: scipy.optimize.brentq(f, 0.0, 9.0),
    "quad": lambda f: scipy.integrate.quad(f, 0.0, 1.0)[0],
    "minimize": lambda f: scipy.optimize.minimize(lambda x: f(x[0]), np.ones(1)).x[0],
    "solve_ivp": lambda f: scipy.integrate.solve_ivp(lambda t, y: f(y[0]), (0.0, 1.0), [1.0]).y[0, -1],
}


@pytest.mark.parametrize("way", [grad, lambda f: lambda a: jvp(f, (a,), (1.0,)), lambda f: grad(grad(f))])
@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("refused", [lambda x, a: float(np.asarray(x * a)), lambda x, a: raises()], ids=["asarray", "raises"])
def test_a_refusal_of_the_function_ends_the_call_at_its_first_evaluation(caller: str, refused: Any, way: Any):
    seen = []

    def f(a: Any) -> Any:
        seen.clear()
        return CALLERS[caller](lambda x: (seen.append(x), refused(x, a))[1])

    for _ in range(3):
        with pytest.raises(TracerArrayConversionError):
            way(f)(2.0)
        assert len(seen) == 1


def raises() -> None:
    raise TracerArrayConversionError("the function's own")
