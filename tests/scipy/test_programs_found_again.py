"""Un-jitted derivatives of solvers: their programs are derived and compiled once, for all calls."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import funcad.scipy.optimize as ours
from funcad import grad, jacrev, jit, jvp, value_and_grad, vmap
from funcad.scipy.integrate import ode, quadrature
from funcad.scipy.optimize import implicit


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


@pytest.mark.share(2)
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


GRID = np.linspace(0.0, 1.0, 6)
DATA = np.array([1.0, 0.8, 0.7, 0.5, 0.45, 0.4])


def by_least_squares(p, solver=scipy.optimize.least_squares):
    weight = 1.0 + GRID  # an array that is no traced value
    return solver(lambda v: weight * (v[0] * np.exp(-v[1] * p[1] * GRID) - p[0] * DATA), np.array([1.0, 0.5]), xtol=1e-12).x


def by_curve_fit(p):
    return scipy.optimize.curve_fit(lambda t, a, b: a * np.exp(-b * p[1] * t), GRID, p[0] * DATA, [1.0, 0.5])[0]


def by_minimize(p, method=None):
    start = np.array([0.5, -0.5])
    return scipy.optimize.minimize(lambda v: np.sum((v - p) ** 2) + np.sum(v**4), start, method=method, tol=1e-9).x


def within(p):
    limits = [{"type": "ineq", "fun": lambda v: p[0] - v}]
    start, bounds = np.array([0.1, 0.1]), [(p[1], None), (None, None)]
    return scipy.optimize.minimize(lambda v: np.sum((v - 2.0) ** 2), start, bounds=bounds, constraints=limits, method="SLSQP").x


def by_root(p):
    return scipy.optimize.root(lambda v: v**3 + v - p, np.ones(2), tol=1e-12).x


def by_brentq(p):
    return np.stack([scipy.optimize.brentq(lambda v, q=q: v**3 + v - q, 0.0, 9.0) for q in (p[0], p[1])])


def by_minimize_scalar(p):
    return np.stack([scipy.optimize.minimize_scalar(lambda v, q=q: (v - q) ** 2 + v**4, tol=1e-12).x for q in (p[0], p[1])])


def by_quad_vec(p):
    return scipy.integrate.quad_vec(lambda x: np.exp(-p * x**2), 0.0, 2.0)[0]


def by_quad(p):
    return np.stack([scipy.integrate.quad(lambda x, q=q: np.exp(-q * x**2), 0.0, 2.0)[0] for q in (p[0], p[1])])


OPTIMIZERS = [by_least_squares, by_curve_fit, by_minimize, within, by_root, by_brentq, by_minimize_scalar, by_quad_vec, by_quad]


@pytest.mark.parametrize("solver", OPTIMIZERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_unjitted_derivatives_of_closures_derive_once(solver, way, monkeypatch):
    derived = []
    for module, names in ((implicit, ["custom_root", "jvp"]), (quadrature, ["vjp", "jvp"])):
        for name in names:
            original = getattr(module, name)
            noted = lambda *args, original=original, **kwargs: (derived.append(original), original(*args, **kwargs))[1]
            monkeypatch.setattr(module, name, noted)
    call = WAYS[way](solver)
    call(np.array([1.1, 0.9]))
    derived.clear()
    x = np.array([1.2, 0.8])
    found = call(x)
    assert derived == []
    steps = [solver(x + 1e-4 * d) - solver(x - 1e-4 * d) for d in np.eye(2)]
    slopes = np.stack(steps, 1) / 2e-4
    exact = {"jvp": slopes.sum(1), "jacobian": slopes}.get(way, 2.0 * solver(x) @ slopes)
    np.testing.assert_allclose(found, exact, rtol=2e-2, atol=2e-3)


def for_minimize(p, **options):
    return ours.minimize(lambda v: np.sum((v - p) ** 2), np.zeros(2), **options).x


def for_root(p):
    return ours.root(lambda v: v**3 + v - p, np.ones(2)).x


SEARCHES = [partial(by_least_squares, solver=ours.least_squares), for_minimize, partial(for_minimize, method="trust-ncg")]


@pytest.mark.parametrize("solver", [*SEARCHES, for_root], ids=["least_squares", "minimize", "trust-ncg", "root"])
@pytest.mark.parametrize("way", [grad, lambda f: f])
def test_derivatives_for_the_search_are_derived_once(solver, way, monkeypatch):
    derived = []
    for name in ("jacfwd", "value_and_grad", "_product"):
        original = getattr(ours.minimizing, name)

        def noted(f, original=original):
            derived.append(original)
            return original(f)

        for module in (ours.minimizing, ours.roots):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, noted)
    f = way(lambda p: np.sum(solver(p)))
    first, n = f(np.ones(2)), len(derived)
    np.testing.assert_array_equal(f(np.ones(2)), first)
    assert n == len(derived)


@pytest.mark.parametrize("way", [grad, lambda f: jit(grad(f)), lambda f: lambda a: vmap(grad(f))(np.stack([a, a]))[0]])
def test_losses_bounds_and_arrays_that_change_are_read_again(way):
    weight, places = np.ones(6), np.arange(1.0, 7.0)

    def fit(a, **options):
        return scipy.optimize.least_squares(lambda v: weight * (v[0] * places - a * places**2), np.zeros(1), **options).x[0]

    by_hand = lambda: weight**2 * places @ places**2 / (weight**2 * places @ places)
    exact = [by_hand()]
    found = [way(lambda a: fit(a))(1.5)]
    weight[3:] = 0.25
    exact.append(by_hand())
    found.append(way(lambda a: fit(a))(1.5))
    found.append(way(lambda a: fit(a, bounds=(-9.0, a - 1.0)))(1.5))
    found.append(way(lambda a: fit(a, bounds=(-9.0, 2.0 * a - 1.0)))(1.5))
    np.testing.assert_allclose(found, [*exact, 1.0, 2.0], rtol=1e-5)
    soft = [way(partial(fit, loss="cauchy", f_scale=s))(1.5) for s in (0.5, 5.0)]
    assert len({*np.round(soft, 6), *np.round(exact, 6)}) == 4
