"""Roots of functions that look at their unknown in Python (`if z > 0`): found on values, followed by Newton's steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import funcad
from funcad import grad, hessian, jit, jvp, vmap
from funcad.errors import TracerBoolConversionError


def branched(z: Any) -> Any:
    if z > 0:
        return z**3 / 8.0
    return z


ROOTS: dict[str, Callable[[Any], Any]] = {
    "brentq": lambda a: optimize.brentq(lambda z: branched(z) - a, 0.1, 9.0),
    "brenth": lambda a: optimize.brenth(lambda z: branched(z) - a, 0.1, 9.0),
    "bisect": lambda a: optimize.bisect(lambda z: branched(z) - a, 0.1, 9.0),
    "ridder": lambda a: optimize.ridder(lambda z: branched(z) - a, 0.1, 9.0),
    "toms748": lambda a: optimize.toms748(lambda z: branched(z) - a, 0.1, 9.0),
    "full_output": lambda a: optimize.brentq(lambda z, b: branched(z) - b, 0.1, 9.0, (a,), full_output=True)[1].root,
    "newton": lambda a: optimize.newton(lambda z: branched(z) - a, 1.0),
    "newton_of_slope": lambda a: optimize.newton(lambda z: branched(z) - a, 1.0, lambda z: 3.0 * z**2 / 8.0 if z > 0 else 1.0),
    "newton_of_array": lambda a: optimize.newton(lambda z: a * branched(z[0]) * np.ones(1) - a**2, np.ones(1))[0],
    "bracket": lambda a: optimize.root_scalar(lambda z: branched(z) - a, bracket=[0.1, 9.0]).root,
    "traced_bracket": lambda a: optimize.brentq(lambda z: branched(z) - a, 0.1, 9.0 + a),
    "root": lambda a: optimize.root(lambda z: np.stack([branched(z[0]) - z[1], z[1] - a]), np.ones(2)).x[0],
    "traced_start": lambda a: optimize.fsolve(lambda z: branched(z[0]) * np.ones(1) - a, np.ones(1) * a)[0],
    "fixed_point": lambda a: optimize.fixed_point(lambda z: z - 0.5 * (branched(z) - a), 1.5),
}
WAYS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "plain": lambda f: f(2.0),
    "grad": lambda f: grad(f)(2.0),
    "jvp": lambda f: jvp(f, (2.0,), (3.0,))[1],
    "hessian": lambda f: hessian(f)(2.0),
    "fourth": lambda f: grad(grad(grad(grad(f))))(2.0),
    "jit": lambda f: jit(f)(2.0),
    "third": lambda f: [j(2.0) for j in [jit(grad(f))] for _ in range(3)][2],
}


@pytest.mark.share(3)
@pytest.mark.filterwarnings("ignore::funcad.errors.NotCompiledWarning")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ROOTS)
def test_the_root_and_its_derivatives(name: str, way: str) -> None:
    np.testing.assert_allclose(WAYS[way](ROOTS[name]), WAYS[way](lambda a: 2.0 * a ** (1.0 / 3.0)), rtol=1e-6)


def test_where_nothing_has_a_value_the_message_names_the_function() -> None:
    with pytest.raises(TracerBoolConversionError, match="inside brentq it has no value"):
        vmap(ROOTS["brentq"])(np.array([1.0, 2.0]))


def test_a_root_that_was_not_found_warns() -> None:
    equations = lambda z, a: branched(z[0]) * np.ones(1) - a
    find = lambda a: funcad.scipy.optimize.root(equations, np.ones(1), (a,), options={"maxfev": 2})
    with pytest.warns(RuntimeWarning, match="did not converge"):
        grad(lambda a: find(a).x[0])(2.0)
