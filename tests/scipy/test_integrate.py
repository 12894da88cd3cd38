"""Differential equations, integrals and interpolators: what the tables of tests/surface do not say."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate

import funcad
from funcad import grad, jit, vmap
from funcad.backends.engines import made
from funcad.backends.interpreter import counters
from funcad.errors import TracerArrayConversionError
from funcad.jitted import first_calls
from funcad.scipy import integrate, interpolate
from funcad.scipy.integrate import odeint, quadrature

TIMES = np.linspace(0.0, 2.0, 5)


def oscillator(y, t, a, b):
    return np.stack([y[1], a * (1 - y[0] ** 2) * y[1] - b * y[0]])


def test_steps_are_those_of_scipys_methods() -> None:
    y0 = np.array([2.0, 0.0])
    for method in ("RK45", "RK23"):
        expected = scipy.integrate.solve_ivp(lambda t, y: oscillator(y, t, 1.0, 1.0), (0, 5), y0, method, TIMES)
        f = lambda y0: integrate.solve_ivp(lambda t, y: oscillator(y, t, 1.0, 1.0), (0, 5), y0, method, TIMES)  # noqa: B023
        assert np.allclose(funcad.jit(f)(y0).y, expected.y, rtol=1e-10, atol=1e-12)
        assert np.allclose(f(y0).y, expected.y)


@pytest.mark.slow
def test_closed_form_derivatives_in_everything() -> None:
    def f(y0, times, rate):
        return odeint(lambda y, t, rate: -rate * y, y0, times, rate, rtol=1e-10, atol=1e-10)

    out = f(2.0, TIMES, 0.7)
    assert np.allclose(out, 2 * np.exp(-0.7 * TIMES), rtol=1e-8)
    exact = (np.exp(-0.7 * TIMES), np.diag(-0.7 * out), -TIMES * out)
    exact[1][:, 0] += 0.7 * out  # the start moves the whole curve
    for jacobian in (funcad.jacfwd, funcad.jacrev):
        for found, expected in zip(jacobian(f, (0, 1, 2))(2.0, TIMES, 0.7), exact):
            assert np.allclose(found, expected, atol=1e-7), jacobian
    second = funcad.hessian(lambda rate: f(2.0, TIMES, rate)[-1])(0.7)
    assert np.isclose(second, TIMES[-1] ** 2 * out[-1], rtol=1e-6)


def test_trees_closures_and_integers() -> None:
    stiffness = np.array([1.0, 2.0])

    def energy(mass, count):
        def f(state, t, parameters):
            return {"x": state["v"], "v": -stiffness * state["x"] / (mass * parameters["count"])}

        out = odeint(f, {"x": np.ones(2), "v": np.zeros(2)}, TIMES, {"count": count})
        return np.sum(out["x"][-1])

    exact = np.sum(np.cos(np.sqrt(stiffness / 6.0) * 2.0))
    assert np.isclose(energy(3.0, 2), exact)
    slope = np.sum(np.sin(np.sqrt(stiffness / 6.0) * 2.0) * np.sqrt(stiffness / 2.0) * 0.5 * 3.0**-1.5 * 2.0)
    for derivative in (funcad.grad(energy)(3.0, 2), funcad.jvp(lambda m: energy(m, 2), (3.0,), (1.0,))[1]):
        assert np.isclose(derivative, slope, rtol=1e-6)


@pytest.mark.slow
def test_jit_vmap_and_backwards_in_time() -> None:
    loss = lambda y0, a: np.sum(odeint(oscillator, y0, TIMES, a, 1.0))
    y0, a = np.array([[2.0, 0.0], [0.5, 1.0]]), np.array([1.0, 0.4])
    each = [funcad.grad(loss, (0, 1))(*args) for args in zip(y0, a)]
    for batched in (funcad.vmap(funcad.grad(loss, (0, 1))), funcad.jit(funcad.vmap(funcad.grad(loss, (0, 1))))):
        found = batched(y0, a)
        for i in range(2):
            assert np.allclose(found[0][i], each[i][0], atol=1e-6) and np.allclose(found[1][i], each[i][1], atol=1e-6)
    there = odeint(oscillator, y0[0], TIMES, 0.3, 1.0)
    back = odeint(oscillator, there[-1], TIMES[::-1], 0.3, 1.0)
    assert np.allclose(back[::-1], there, atol=1e-6)
    assert np.allclose(funcad.jit(lambda t: odeint(oscillator, there[-1], t, 0.3, 1.0))(TIMES[::-1]), back)


def test_complex_states() -> None:
    f = lambda w: odeint(lambda z, t, w: 1j * w * z, 1.0 + 0j, TIMES, w)[-1]
    assert np.isclose(f(1.5), np.exp(3j), atol=1e-6)
    assert np.isclose(funcad.jvp(f, (1.5,), (1.0,))[1], 2j * np.exp(3j), atol=1e-5)
    assert np.isclose(funcad.grad(lambda w: f(w).real)(1.5), -2 * np.sin(3.0), atol=1e-5)


def test_what_cannot_be_integrated_is_nan() -> None:
    out = odeint(lambda y, t: y**2, 1.0, np.array([0.0, 0.5, 2.0]))
    assert np.isclose(out[1], 2.0) and np.isnan(out[2])
    few = odeint(lambda y, t: -50.0 * y, 1.0, np.array([0.0, 10.0]), mxstep=3)
    assert np.isnan(few[1])


def test_one_time_and_repeated_times() -> None:
    assert np.array_equal(odeint(oscillator, np.ones(2), TIMES[:1], 1.0, 1.0), np.ones((1, 2)))
    out = odeint(oscillator, np.ones(2), np.array([0.0, 0.0, 1.0, 1.0]), 1.0, 1.0)
    assert np.array_equal(out[0], out[1]) and np.array_equal(out[2], out[3])
    assert np.allclose(funcad.jacrev(lambda y: odeint(oscillator, y, TIMES[:1], 1.0, 1.0)[0])(np.ones(2)), np.eye(2))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: odeint(oscillator, np.ones(2, int), TIMES, 1.0, 1.0), TypeError, "float"),
        (lambda: odeint(lambda y, t: y[0], np.ones(2), TIMES), ValueError, "shapes"),
        (lambda: odeint(lambda y, t: (y, y), np.ones(2), TIMES), TypeError, "returns"),
        (lambda: odeint(lambda y, t: 1j * y, np.ones(2), TIMES), TypeError, "complex"),
        (lambda: odeint(lambda y, t: y, np.ones(2), 1.0), ValueError, "vector"),
        (lambda: funcad.jit(lambda r: odeint(lambda y, t: y, 1.0, TIMES, rtol=r))(1e-6), TypeError, "rtol"),
        (
            lambda: funcad.jit(lambda y: integrate.solve_ivp(lambda t, y: y, (0, 1), y))(np.ones(1)),
            NotImplementedError,
            "t_eval",
        ),
        (
            lambda: funcad.jit(lambda y: integrate.solve_ivp(lambda t, y: y, (0, 1), y, scipy.integrate.RK45))(np.ones(1)),
            NotImplementedError,
            "RK45",
        ),
        (lambda: funcad.jit(interpolate.interp1d(TIMES, TIMES))(0.5), NotImplementedError, "bounds_error"),
        (lambda: funcad.jvp(interpolate.interp1d(TIMES, TIMES), (3.0,), (1.0,)), ValueError, "above"),
        (lambda: funcad.jit(lambda x: interpolate.CubicSpline(x, TIMES)(0.5))(TIMES), TypeError, "known"),
    ],
)
def test_refusals_name_the_remedy(call: object, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        call()  # type: ignore[operator]


def test_interpolators_of_known_values_are_scipys() -> None:
    x, y = np.arange(6.0), np.random.default_rng(0).normal(size=6)
    own, theirs = interpolate.CubicSpline(x, y), scipy.interpolate.CubicSpline(x, y)
    assert np.array_equal(own(0.3), theirs(0.3)) and np.array_equal(own.c, theirs.c)
    slope = funcad.grad(own)(0.3)
    assert np.isclose(slope, theirs(0.3, 1))
    area = funcad.grad(lambda y: interpolate.CubicSpline(x, y).integrate(0.5, 4.0))(y)
    assert np.isclose(area @ y, theirs.integrate(0.5, 4.0))
    with pytest.raises(ValueError, match="strictly increasing"):
        interpolate.CubicSpline(x[::-1], y)


def test_quadrature_by_leibniz() -> None:
    f = lambda a, b, w: integrate.fixed_quad(lambda x: np.sin(w * x), a, b, n=12)[0]
    found = funcad.grad(f, (0, 1, 2))(0.2, 1.4, 1.3)
    w = 1.3
    exact = (np.cos(0.2 * w) - np.cos(1.4 * w)) / w
    in_w = (1.4 * np.sin(1.4 * w) - 0.2 * np.sin(0.2 * w)) / w - exact / w
    assert np.allclose(found, (-np.sin(0.2 * w), np.sin(1.4 * w), in_w))


@pytest.mark.slow
def test_adaptive_quadrature_of_known_and_traced_functions() -> None:
    plain = integrate.quad(lambda x: x if x > 1.0 else 0.0, 0.0, 2.0)
    assert plain == scipy.integrate.quad(lambda x: x if x > 1.0 else 0.0, 0.0, 2.0)
    moment = lambda w: integrate.quad(lambda x: np.exp(-w[0] * x**2 + w[1] * x), -np.inf, np.inf)[0]
    w = np.array([2.0, 0.3])
    value = np.sqrt(np.pi / w[0]) * np.exp(w[1] ** 2 / w[0] / 4)
    slope = value * np.array([-0.5 / w[0] - (w[1] / w[0]) ** 2 / 4, w[1] / w[0] / 2])
    assert np.isclose(moment(w), value)
    for gradient in (funcad.grad(moment), funcad.jit(funcad.grad(moment)), funcad.jacfwd(moment)):
        assert np.allclose(gradient(w), slope)
    assert np.isclose(funcad.hessian(moment)(w)[1, 1], -slope[0])
    assert np.isclose(funcad.grad(lambda b: integrate.quad(np.sin, 0.0, b, points=[0.5])[0])(1.0), np.sin(1.0))


WAYS_TO_A_SLOPE = [
    lambda f, x: funcad.grad(f)(x),
    lambda f, x: funcad.jvp(f, (x,), (1.0,))[1],
    lambda f, x: funcad.vmap(lambda x: funcad.jvp(f, (x,), (1.0,))[1])(np.array([x, x]))[1],
    lambda f, x: funcad.jit(funcad.jacfwd(f))(x),
    lambda f, x: [slope(v) for slope in [funcad.jit(funcad.jacfwd(f))] for v in (x, 2 * x, x)][2],
]


@pytest.mark.parametrize("way", WAYS_TO_A_SLOPE)
def test_an_integrand_that_is_infinite_at_an_end_that_does_not_move(way):
    f = lambda p: integrate.quad(lambda x: p**2 / np.sqrt(x), 0.0, 1.0)[0]
    g = lambda p: np.sum(integrate.quad_vec(lambda x: p**2 * np.array([1.0, 2.0]) / np.sqrt(x), 0.0, 1.0)[0])
    h = lambda p: integrate.quad(lambda x: p / np.sqrt(x), 0.0, p)[0]  # 2 p**1.5
    for function, slope in ((f, 8.0), (g, 24.0), (h, 3 * np.sqrt(2.0))):
        np.testing.assert_allclose(way(function, 2.0), slope, rtol=1e-6)
    np.testing.assert_allclose(way(funcad.grad(f), 2.0), 4.0, rtol=1e-6)


INTEGRALS = {
    "quad": lambda a: scipy.integrate.quad(lambda x: np.exp(-a * x), 0.0, 1.0)[0],
    "dblquad": lambda a: scipy.integrate.dblquad(lambda y, x: np.exp(-a * (x + y)), 0.0, 1.0, 0.0, 1.0)[0],
    "quad_vec": lambda a: scipy.integrate.quad_vec(lambda x: np.exp(-a * x) * np.ones(2), 0.0, 1.0)[0][1],
}


@pytest.mark.parametrize("name", INTEGRALS)
def test_an_integrand_is_a_program(name: str) -> None:
    g = funcad.grad(INTEGRALS[name])
    inner = -np.expm1(-0.7) / 0.7
    slope = np.exp(-0.7) / 0.7 + np.expm1(-0.7) / 0.7**2
    expected = 2.0 * inner * slope if name == "dblquad" else slope
    np.testing.assert_allclose([g(0.7), g(0.7)], expected, rtol=1e-9)
    before = counters["programs"]
    np.testing.assert_allclose(g(0.7), expected, rtol=1e-9)
    assert counters["programs"] == before or name != "quad"  # around others stand new calls of the host


def test_complex_integrands_are_two_real_ones():
    for module in (scipy.integrate, integrate):

        def f(a, module=module):
            return module.quad(lambda t: np.exp(1j * a * t), 0, a, complex_func=True)[0]

        a = 1.3
        expected, slope = (np.exp(1j * a * a) - 1) / (1j * a), (f(a + 1e-5) - f(a - 1e-5)) / 2e-5
        jitted = funcad.jit(lambda a, f=f: funcad.jvp(f, (a,), (1.0,)))
        for found in (funcad.jvp(f, (a,), (1.0,)), jitted(a), jitted(a), jitted(a)):
            np.testing.assert_allclose(found, (expected, slope), rtol=1e-8)
        np.testing.assert_allclose(funcad.vmap(f)(np.array([a, a])), [expected] * 2, rtol=1e-10)
        size = funcad.grad(lambda a, f=f: abs(f(a)) ** 2)(a)
        assert size == pytest.approx(2 * (np.conj(expected) * slope).real, rel=1e-8)


AREA_WAYS = {
    "plain": lambda f: f,
    "grad": funcad.grad,
    "jvp": lambda f: lambda a: funcad.jvp(f, (a,), (1.0,))[1],
    "vmap": lambda f: lambda a: funcad.vmap(f)(np.stack([a, a + 1.0])),
    "hessian": funcad.hessian,
}


@pytest.mark.parametrize("way", AREA_WAYS)
def test_the_integrand_of_a_program_that_comes_often_is_compiled(way: str) -> None:
    area = lambda a: scipy.integrate.quad(lambda t: np.exp(-a * t) * np.cos(3 * t) + np.tanh(a * t), 0, 2)[0]
    derived = AREA_WAYS[way](area)
    jitted = funcad.jit(derived)
    jitted(1.0), jitted(1.0), derived(1.0)
    before, compiled = made["compiled"], []
    for k in range(quadrature.FEW + 4):
        np.testing.assert_allclose(jitted(1.0 + 0.01 * k), derived(1.0 + 0.01 * k), rtol=1e-9, atol=1e-12)
        compiled.append(made["compiled"] - before)
    assert compiled[-1] > compiled[3 if way != "vmap" else 0], compiled  # where each call has two
    for _ in range(3):
        derived(1.0)
    assert made["compiled"] == before + compiled[-1]


def by_ode(rate, *parameters, solver="vode"):
    system = scipy.integrate.ode(rate).set_integrator(solver).set_f_params(*parameters)
    return system.set_initial_value([1.0], 0.0).integrate(1.0)[0]


ODES = {
    "closure": lambda a: by_ode(lambda t, y: -a * y),
    "parameter": lambda a: by_ode(lambda t, y, k: -k * y, a),
    "list": lambda a: by_ode(lambda t, y: [-a * y[0]], solver="lsoda"),
    "dopri5": lambda a: by_ode(lambda t, y: -a * y, solver="dopri5"),
}


@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
@pytest.mark.parametrize("f", ODES.values(), ids=ODES)
def test_a_traced_value_in_an_ode_is_named_and_jit_runs_unjitted(f, monkeypatch):
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    j = jit(f)
    assert [j(1.0), j(1.0), j(2.0)] == [f(1.0), f(1.0), f(2.0)]
    for way in (grad(f), grad(j), lambda a: vmap(f)(np.array([a]))):
        with pytest.raises(TracerArrayConversionError, match=r"Remedy: scipy.integrate.solve_ivp\(f, \(t0, t1\), y0\)"):
            way(1.0)


def test_an_ode_of_plain_values_and_its_errors_are_scipys_under_a_trace():
    assert grad(lambda a: a * by_ode(lambda t, y: -y))(1.0) == by_ode(lambda t, y: -y)
    with pytest.raises(ZeroDivisionError):
        grad(lambda a: a * by_ode(lambda t, y: 1 / 0))(1.0)
