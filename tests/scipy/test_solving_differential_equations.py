"""solve_ivp by all methods, without t_eval, with events and dense output; solve_bvp; integrals over several variables."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate

import funcad.scipy.integrate as ours
from funcad import grad, hessian, jacfwd, jacrev, jit, vmap
from funcad.testing import check_grads

pytestmark = pytest.mark.share(2)  # of its tables of cases

BOTH = pytest.mark.parametrize("o", [ours, scipy.integrate], ids=["funcad", "scipy"])
SLOWLY = pytest.mark.parametrize(
    "o", [pytest.param(ours, marks=pytest.mark.slow), scipy.integrate], ids=["funcad", "scipy"]
)  # of the first, more is looked at
TIGHT = {"rtol": 1e-9, "atol": 1e-11}


def pendulum(t, y, a):
    return np.array([y[1], -a * np.sin(y[0]) - 0.1 * y[1]])


def differences(f, a, h=1e-3):
    return (8 * (f(a + h) - f(a - h)) - (f(a + 2 * h) - f(a - 2 * h))) / (12 * h)


@pytest.mark.share(12)
@BOTH
@pytest.mark.parametrize("method", ["RK45", "RK23", "DOP853", "Radau", "BDF", "LSODA"])
def test_every_method_to_second_order(o, method):
    tight = {"rtol": 1e-6, "atol": 1e-8} if method in ("RK23", "Radau", "BDF") else TIGHT

    def end(a, o=o):
        y0 = np.array([1.0 + 0.1 * a, 0.0])
        return o.solve_ivp(pendulum, (0.0, 1.5), y0, method, t_eval=[0.7, 1.5], args=(a,), **tight).y[:, 1]

    exact = lambda a: scipy.integrate.solve_ivp(
        pendulum, (0.0, 1.5), [1.0 + 0.1 * a, 0.0], "DOP853", args=(a,), rtol=1e-12, atol=1e-12
    ).y[:, -1]
    close = {"rtol": 1e-3, "atol": 1e-4} if tight is not TIGHT else {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(jit(end)(2.0), end(2.0, scipy.integrate), rtol=1e-6)
    first = differences(exact, 2.0)
    for derivative in (jacfwd(end), jacrev(end), jit(jacfwd(end)), jit(jacrev(end))):
        np.testing.assert_allclose(derivative(2.0), first, **close)
    if method in ("DOP853", "LSODA"):
        np.testing.assert_allclose(vmap(jacrev(end))(np.array([1.0, 2.0]))[1], first, **close)
        second = differences(lambda a: jacfwd(end)(a), 2.0)
        for derivative in (jacfwd(jacfwd(end)), jacrev(jacfwd(end)), jacfwd(jacrev(end)), jacrev(jacrev(end))):
            np.testing.assert_allclose(derivative(2.0), second, rtol=1e-3, atol=1e-4)


@pytest.mark.share(2)
@BOTH
@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA"])
def test_stiff_equations_backwards_too(o, method):
    """y' = -s (y - cos t): integrated backwards, it grows by exp(s)."""

    def end(s):
        rate = lambda t, y: -s * (y - np.cos(t))
        return o.solve_ivp(rate, (0.0, 1.0), np.zeros(1), method, t_eval=[1.0], rtol=1e-8, atol=1e-10).y[0, 0]

    s = 1e4
    exact = lambda s: (s * s * np.cos(1.0) + s * np.sin(1.0)) / (s * s + 1)
    expected = (s * s * (-np.sin(1.0)) + 2 * s * np.cos(1.0) + np.sin(1.0)) / (s * s + 1) ** 2
    np.testing.assert_allclose(end(s), exact(s), rtol=1e-6)
    np.testing.assert_allclose([grad(end)(s), jit(grad(end))(s), jacfwd(end)(s)], expected, rtol=1e-3)


@BOTH
def test_times_of_its_own_choice(o):
    def run(a, module=o):
        return module.solve_ivp(pendulum, (0.0, 1.0 + a), np.array([1.0, a]), args=(a,), **TIGHT)

    a = 0.8
    theirs = run(a, scipy.integrate)
    found, slope = run(a), jacfwd(lambda a: run(a).y)(a)
    np.testing.assert_array_equal(found.t, theirs.t)
    np.testing.assert_array_equal(found.y, theirs.y)
    assert slope.shape == theirs.y.shape
    last = differences(lambda a: run(a, scipy.integrate).y[:, -1], a)  # the end moves
    np.testing.assert_allclose(slope[:, -1], last, rtol=1e-6)
    np.testing.assert_allclose(jacrev(lambda a: run(a).y[:, -1])(a), last, rtol=1e-6)
    np.testing.assert_allclose(grad(lambda a: run(a).t[-1])(a), 1.0)
    assert run(a).success and grad(lambda a: run(a).y[0, -1] if run(a).success else 0.0)(a)
    for lifted in (jit, vmap):
        with pytest.raises(NotImplementedError, match=r"t_eval=\[t1\]"):
            lifted(lambda a: run(a, ours).y)(np.full(2, a) if lifted is vmap else a)


@pytest.mark.slow
@SLOWLY
def test_where_a_ball_lands(o):
    """Heights v t - g t^2 / 2: it lands at 2 v / g, with the speed -v."""

    def landing(v, g=9.81):
        ground = lambda t, y: y[0] + 0.0 * v
        ground.terminal, ground.direction = True, -1
        top = lambda t, y: y[1]
        found = o.solve_ivp(lambda t, y: np.array([y[1], -g]), (0.0, 100.0), np.array([0.0, v]), events=[ground, top], **TIGHT)
        return np.array([found.t_events[0][0], found.y_events[0][0, 1], found.t_events[1][0], found.y_events[1][0, 0],
                         found.t[-1], found.y[1, -1]])  # fmt: skip

    v, g = 5.0, 9.81
    np.testing.assert_allclose(landing(v), [2 * v / g, -v, v / g, v * v / g / 2, 2 * v / g, -v], rtol=1e-6)
    for derivative in (jacfwd, jacrev) if o is ours else (jacrev,):
        np.testing.assert_allclose(derivative(landing)(v), [2 / g, -1, 1 / g, v / g, 2 / g, -1], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(
            derivative(lambda g: landing(v, g))(g),
            [-2 * v / g**2, 0, -v / g**2, -v * v / g**2 / 2, -2 * v / g**2, 0], rtol=1e-6, atol=1e-6,
        )  # fmt: skip
    for second in (jacfwd(jacfwd(lambda g: landing(v, g))), jacfwd(jacrev(lambda g: landing(v, g)))) if o is ours else ():
        np.testing.assert_allclose(second(g)[:4], [4 * v / g**3, 0, 2 * v / g**3, v * v / g**3], rtol=1e-5, atol=1e-5)


@pytest.mark.share(4)
@BOTH
def test_dense_output(o):
    def at(a, t):
        return o.solve_ivp(pendulum, (0.0, 2.0), np.array([1.0, 0.0]), dense_output=True, args=(a,), **TIGHT).sol(t)

    t = np.array([1.3, 0.2, 1.9])
    theirs = lambda a: scipy.integrate.solve_ivp(pendulum, (0.0, 2.0), [1.0, 0.0], dense_output=True, args=(a,), **TIGHT).sol(t)
    np.testing.assert_allclose(jacfwd(lambda a: at(a, t))(2.0), differences(theirs, 2.0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jacrev(lambda a: at(a, t))(2.0), differences(theirs, 2.0), rtol=1e-5, atol=1e-6)
    assert at(2.0, 0.3).shape == (2,)
    np.testing.assert_allclose(jacfwd(lambda s: at(2.0 + 0.0 * s, s))(0.3), pendulum(0.3, at(2.0, 0.3), 2.0), rtol=1e-5)


def test_a_jacobian_of_the_users_is_checked():
    end = lambda a, jac: ours.solve_ivp(lambda t, y: -a * y**2, (0.0, 1.0), np.ones(1), "BDF", [1.0], jac=jac).y[0, 0]
    found = grad(lambda a: end(a, lambda t, y: np.array([-2 * a * y])))(1.5)
    with pytest.warns(RuntimeWarning, match="solve_ivp: jac differs"):
        assert grad(lambda a: end(a, lambda t, y: np.array([a * y])))(1.5) == found


@pytest.mark.share(4)
@BOTH
def test_boundary_values(o):
    """y'' = -k y with y(0) = 0, y(1) = 1; and Mathieu's characteristic value as the unknown p."""

    def middle(k):
        x = np.linspace(0.0, 1.0, 5)
        rate, ends = lambda x, y: np.array([y[1], -k * y[0]]), lambda ya, yb: np.array([ya[0], yb[0] - 1.0])
        return o.solve_bvp(rate, ends, x, np.ones((2, 5)), tol=1e-9).sol(0.5)[0]

    exact = lambda k: np.sin(np.sqrt(k) / 2) / np.sin(np.sqrt(k))
    np.testing.assert_allclose(middle(1.3), exact(1.3), rtol=1e-7)
    np.testing.assert_allclose([grad(middle)(1.3), jacfwd(middle)(1.3)], differences(exact, 1.3), rtol=1e-6)
    second = (exact(1.301) - 2 * exact(1.3) + exact(1.299)) / 1e-6
    np.testing.assert_allclose([hessian(middle)(1.3), grad(grad(middle))(1.3)], second, rtol=1e-4)

    def eigenvalue(q):
        x = np.linspace(0.0, np.pi, 15)
        rate = lambda x, y, p: np.array([y[1], -(p[0] - 2 * q * np.cos(2 * x)) * y[0]])
        ends = lambda ya, yb, p: np.array([ya[1], yb[1], ya[0] - 1.0])
        return o.solve_bvp(rate, ends, x, np.array([np.cos(4 * x), -4 * np.sin(4 * x)]), p=[15.0], tol=1e-7).p[0]

    np.testing.assert_allclose(grad(eigenvalue)(5.0), differences(lambda q: scipy.special.mathieu_a(4, q), 5.0), rtol=1e-5)
    with pytest.raises(NotImplementedError, match="inside jit"):
        jit(middle)(1.3)


@SLOWLY
def test_integrals_over_several_variables(o):
    def double(c):
        return o.dblquad(lambda y, x: np.exp(-c * x * y), 0.0, c, lambda x: 0.0 * x, lambda x: c * x)[0]

    def triple(c):
        f = lambda z, y, x, k: k * x + y * z
        return o.tplquad(f, 0.0, 1.0, 0.0, lambda x: c * x, 0.0, lambda x, y: y + c, args=(c,))[0]

    def several(c):
        return o.nquad(lambda x, y, c: c * np.cos(x * y), [lambda y, c: (0.0, c * y), (0.0, 1.0)], args=(c,))[0]

    for f in (double, several):
        module, at = f.__name__, 0.7
        if o is ours:
            check_grads(f, (at,), order=2 if f is several else 1, rtol=1e-5)
        np.testing.assert_allclose(jit(grad(f))(at), differences(f, at), rtol=1e-7, err_msg=module)
        np.testing.assert_allclose(vmap(f)(np.array([at, 0.9]))[0], f(at), rtol=1e-12)
    np.testing.assert_allclose(grad(triple)(0.7), differences(triple, 0.7), rtol=1e-7)


@pytest.mark.share(4)
@BOTH
def test_integrals_of_vectors(o):
    p = np.arange(3.0)
    f = lambda w, b: o.quad_vec(lambda x: x**p * np.exp(-w * x), 0.0, b)[0]
    check_grads(f, (1.2, 2.0), order=2, rtol=1e-5)
    np.testing.assert_allclose(jit(jacrev(f, (0, 1)))(1.2, 2.0)[1], 2.0**p * np.exp(-2.4), rtol=1e-9)
    whole = lambda w: o.quad_vec(lambda x: np.exp(-w * x * x) * p, -np.inf, np.inf)[0]
    np.testing.assert_allclose(jit(jacrev(whole))(2.0), -0.25 * np.sqrt(np.pi / 2.0) * p, rtol=1e-7)
    weights = lambda c: np.sum(o.quad_vec(lambda x: np.cos(np.outer(c, p) * x), 0.0, 1.0)[0])
    c = np.array([0.5, 1.5])
    exact = lambda c: sum(np.sin(c * k) / (c * k) if k else 1.0 for k in p)
    np.testing.assert_allclose(grad(weights)(c), differences(exact, c), rtol=1e-7)
    np.testing.assert_allclose(vmap(weights)(np.stack([c, c]))[1], np.sum(exact(c)), rtol=1e-9)
