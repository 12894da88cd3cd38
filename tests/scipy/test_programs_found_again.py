"""Un-jitted derivatives of solvers: their programs are derived and compiled once, for all calls."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.integrate

from funcad import grad, jacrev, jvp, value_and_grad, vmap
from funcad.scipy.integrate import ode


def epidemic(y, t, rate, recovery):
    return [-rate * y[0] * y[1], rate * y[0] * y[1] - recovery * y[1]]


TIMES = np.linspace(0.0, 4.0, 6)


def by_odeint(p):
    return scipy.integrate.odeint(epidemic, [0.9, 0.1], TIMES, args=tuple(p))[:, 1]


def by_solve_ivp(p, method):
    slopes = lambda t, y: np.stack(epidemic(y, t, *p)) * TIMES[1] ** 0  # a new closure at each call, with a constant
    return scipy.integrate.solve_ivp(slopes, (0.0, 4.0), [0.9, 0.1], method, t_eval=TIMES, rtol=1e-7, atol=1e-9).y[1]


SOLVERS = [by_odeint, *[partial(by_solve_ivp, method=m) for m in ("RK23", "DOP853", "LSODA")]]
WAYS = {
    "grad": lambda f: lambda x: grad(lambda p: np.sum(f(p) ** 2))(x),
    "value_and_grad": lambda f: lambda x: value_and_grad(lambda p: np.sum(f(p) ** 2))(x)[1],
    "jvp": lambda f: lambda x: jvp(lambda p: f(p), (x,), (np.ones(2),))[1],
    "jacobian": lambda f: lambda x: jacrev(lambda p: f(p))(x),
    "vmap": lambda f: lambda x: vmap(grad(lambda p: np.sum(f(p) ** 2)))(np.stack([x, x]))[1],
}


@pytest.mark.parametrize("solver", SOLVERS, ids=["odeint", "RK23", "DOP853", "LSODA"])
@pytest.mark.parametrize("way", WAYS)
def test_unjitted_derivatives_derive_once(solver, way, monkeypatch):
    traced = []
    for name in ("solve", "solve_by_scipy", "_adjoint", "_by_sensitivities"):
        original = getattr(ode, name)
        noted = lambda *args, original=original: (traced.append(original), original(*args))[1]
        monkeypatch.setattr(ode, name, noted)
    call = WAYS[way](solver)
    call(np.array([1.0, 0.3]))
    traced.clear()
    x = np.array([1.2, 0.4])
    found = call(x)
    assert traced == []
    steps = [solver(x + 1e-5 * d) - solver(x - 1e-5 * d) for d in np.eye(2)]
    slopes = np.stack(steps, 1) / 2e-5
    exact = {"jvp": slopes.sum(1), "jacobian": slopes}.get(way, 2.0 * solver(x) @ slopes)
    np.testing.assert_allclose(found, exact, rtol=2e-2, atol=1e-4)


def test_tolerances_that_change_in_place_are_read_again():
    rtol = np.array(1e-2)
    slopes = lambda p: lambda t, y: epidemic(y, t, *p)
    f = lambda p: np.sum(scipy.integrate.solve_ivp(slopes(p), (0.0, 4.0), [0.9, 0.1], "DOP853", TIMES, rtol=rtol).y)
    before = grad(f)(np.array([1.0, 0.3]))
    rtol[...] = 1e-10
    assert not np.array_equal(grad(f)(np.array([1.0, 0.3])), before)


def test_constants_that_change_are_read_again():
    scale = np.ones(2)
    f = lambda p: np.sum(scipy.integrate.odeint(lambda y, t: -p * scale * y, [1.0, 1.0], TIMES)[-1])
    at = np.array([0.2, 0.3])
    for factor in (1.0, 2.0):
        scale[:] = factor
        np.testing.assert_allclose(grad(f)(at), -4.0 * factor * np.exp(-4.0 * factor * at), rtol=1e-5)
