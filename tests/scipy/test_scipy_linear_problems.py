"""fsolve, leastsq, minimize_scalar, lsq_linear, nnls, linprog, linear_sum_assignment, milp; derivatives that the user gives."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import funcad
import funcad.scipy.optimize as ours
from funcad import grad, hessian, jacfwd, jacrev, jit, vmap
from funcad.testing import check_grads

RNG = np.random.default_rng(18)
T = np.linspace(0.0, 2.0, 7)
Y = 2.0 * np.exp(-1.3 * T) + 0.03 * RNG.normal(size=7)
A, B = RNG.normal(size=(6, 3)), RNG.normal(size=6)
C, A_UB, B_UB = np.array([-1.0, -2.0, 0.5]), np.array([[1.0, 1.0, 1.0], [0.2, 1.0, -0.4]]), np.array([4.0, 2.5])


def root_of(o, a):
    return o.fsolve(lambda x, a: np.array([x[0] * x[0] - a * x[1], x[1] ** 3 + x[0] - 2 * a]), np.ones(2), (a,), xtol=1e-13)


def fitted(o, a):
    residual = lambda p: p[0] * np.exp(-p[1] * T) - a * Y
    rows = lambda p: np.stack([np.exp(-p[1] * T), -p[0] * T * np.exp(-p[1] * T)])
    start = np.array([1.8, 1.2])
    return o.leastsq(residual, start, (), rows, True, col_deriv=True, ftol=1e-15, xtol=1e-15)[:2]


def lowest(o, a):
    return o.minimize_scalar(lambda x: (x - a) ** 2 + x**4, tol=1e-14).x


def kept_low(o, a):
    return o.minimize_scalar(lambda x: (x - 3.0) ** 2, bounds=(0.0, a), method="bounded", options={"xatol": 1e-12}).x


def in_box(o, a):
    found = o.lsq_linear(A * a, B + a, (-0.1, 0.2), tol=1e-14)
    return found.x, found.cost


def positive(o, a):
    return o.nnls(A + 0.1 * a, B - a)


def program(o, a):
    found = o.linprog(C * a, A_UB + 0.1 * a, B_UB * a, [[1.0, 0.0, 2.0 * a]], [1.5], bounds=[(0, None), (None, a), (-1.0, 3.0)])
    return found.x, found.fun, found.ineqlin.marginals, found.eqlin.marginals, found.lower.marginals


def assigned(o, a):
    cost = np.cos(np.arange(12.0)).reshape(3, 4) * a
    return cost[o.linear_sum_assignment(cost, maximize=True)]


CASES = [root_of, fitted, lowest, kept_low, in_box, positive, program, assigned]


def flat(f, o):
    def function(a):
        out = f(o, a)
        return np.concatenate([np.ravel(x) for x in out]) if isinstance(out, tuple) else np.ravel(out)

    return function


@pytest.mark.share(4)
@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("module", [ours, scipy.optimize], ids=["funcad", "scipy"])
def test_derivatives_are_those_of_scipys_results(f, module):
    g, a, h = flat(f, module), 1.3, 1e-4
    at = lambda a: flat(f, scipy.optimize)(a)
    np.testing.assert_allclose(funcad.vmap(g)(np.array([a]))[0], at(a), rtol=1e-6, atol=1e-8)
    first = (8 * (at(a + h) - at(a - h)) - (at(a + 2 * h) - at(a - 2 * h))) / (12 * h)
    for derivative in (jacfwd(g), jacrev(g), jit(jacfwd(g)), jit(jacrev(g)), lambda a, g=g: vmap(jacfwd(g))(np.full(2, a))[1]):
        np.testing.assert_allclose(derivative(a), first, rtol=2e-5, atol=2e-5)
    slope = lambda a: jacfwd(g)(a)
    second = (slope(a + h) - slope(a - h)) / (2 * h)
    for derivative in (jacfwd(jacfwd(g)), jacrev(jacfwd(g)), jacfwd(jacrev(g)), jacrev(jacrev(g))):
        np.testing.assert_allclose(derivative(a), second, rtol=1e-4, atol=1e-4)


def test_a_function_that_is_traced_here_and_there_ends_with_an_error():
    """It is plain where funcad looks first; SciPy's own solver then meets a traced value."""
    with pytest.raises(TypeError, match="solve_ivp"):
        grad(lambda a: scipy.integrate.solve_ivp(lambda t, y: a * y if t > 0.5 else -y, (0, 1), np.ones(1)).y[0, -1])(1.0)
    with pytest.raises(TypeError, match="quad"):
        grad(lambda a: scipy.integrate.quad(lambda x: a * x if x > 0.7 else 0.0, 0, 1)[0])(1.0)


def test_inside_other_bodies_and_without_unknowns():
    total = lambda a: np.sum(in_box(ours, a)[0])
    expected = grad(total)(1.3)
    repeated = lambda a: funcad.scan(lambda c, _: (c + total(a), None), 0.0 * a, None, length=2)[0]
    np.testing.assert_allclose(jit(grad(repeated))(1.3), 2 * expected, rtol=1e-9)
    np.testing.assert_allclose(grad(funcad.checkpoint(total))(1.3), expected, rtol=1e-9)
    np.testing.assert_allclose(jit(grad(lambda a: funcad.cond(a > 0, total, lambda a: a, a)))(1.3), expected, rtol=1e-9)
    assert jacfwd(lambda b: ours.nnls(np.zeros((2, 0)), b)[0])(np.ones(2)).shape == (0, 2)


def test_a_corner_has_the_marginals_as_derivatives():
    b = np.array([4.0, 3.0])
    solve = lambda c, b: ours.linprog(c, [[1.0, 1.0], [0.0, 1.0]], b)
    c = np.array([-1.0, -2.0])
    theirs = scipy.optimize.linprog(c, [[1, 1], [0, 1]], b)
    np.testing.assert_allclose(grad(lambda b: solve(c, b).fun)(b), theirs.ineqlin.marginals)
    np.testing.assert_allclose(grad(lambda c: solve(c, b).fun)(c), [1.0, 3.0])
    np.testing.assert_allclose(jacrev(lambda c: solve(c, b).x)(c), np.zeros((2, 2)), atol=1e-15)
    np.testing.assert_allclose(jacrev(lambda c: solve(c, b).ineqlin.marginals)(c), [[1.0, 0.0], [-1.0, 1.0]])


def test_degenerate_solutions_warn_and_impossible_ones_too():
    with pytest.warns(RuntimeWarning, match="degenerate"):
        jacfwd(lambda b: ours.linprog([-1.0, -1.0], [[1.0, 0.0], [0.0, 1.0], [1.0, 2.0]], b).x)(np.array([1.0, 1.0, 3.0]))
    with pytest.warns(RuntimeWarning, match="degenerate"):
        jacfwd(lambda b: ours.nnls(np.eye(2), b)[0])(np.array([0.0, 1.0]))
    with pytest.warns(RuntimeWarning, match="degenerate"):
        jacfwd(lambda a: ours.minimize(lambda x: np.sum((x - a) ** 2), np.ones(1), bounds=[(0.0, None)]).x)(0.0)
    with pytest.warns(RuntimeWarning, match="did not converge"):
        x = funcad.value_and_grad(lambda b: ours.linprog([1.0], [[1.0]], b, bounds=(2.0, None)).fun)(np.array([1.0]))[0]
    assert np.isnan(x)


def test_whole_numbers_are_refused_with_the_reason():
    for o in (ours, scipy.optimize):
        with pytest.raises(TypeError, match="jump"):
            grad(lambda a, o=o: o.milp(np.array([a, 1.0]), integrality=1).fun)(1.0)
    with pytest.raises(TypeError, match="jump"):
        grad(lambda a: ours.linprog([a], integrality=[1]).fun)(1.0)
    assert ours.milp([-1.0], integrality=1, bounds=scipy.optimize.Bounds(0, 2.5)).x == 2.0


def wrong(f):
    return lambda *args: 1.5 * f(*args)


@pytest.mark.parametrize("traced", [False, True])
def test_the_users_derivatives_are_checked(traced):
    f, df, d2f = (lambda x, a: np.sum((x - a) ** 4)), (lambda x, a: 4 * (x - a) ** 3), (lambda x, a: np.diag(12 * (x - a) ** 2))
    product = lambda x, p, a: 12 * (x - a) ** 2 * p
    square = lambda x, a: x * x - a
    slope = lambda x, a: np.diag(2 * x)
    line = lambda t, p, q: p * np.exp(-q * t)
    by = lambda t, p, q: np.stack([np.exp(-q * t), -p * t * np.exp(-q * t)], axis=1)
    x0 = np.zeros(2)
    right = {
        "jac": (df, lambda g: lambda a: ours.minimize(f, x0, (a,), jac=g).x),
        "hess": (d2f, lambda g: lambda a: ours.minimize(f, x0, (a,), "trust-exact", jac=df, hess=g).x),
        "hessp": (product, lambda g: lambda a: ours.minimize(f, x0, (a,), "Newton-CG", jac=df, hessp=g).x),
        "root": (slope, lambda g: lambda a: ours.root(square, np.ones(2), (a,), jac=g).x),
        "fsolve": (slope, lambda g: lambda a: ours.fsolve(square, np.ones(2), (a,), fprime=g)),
        "newton": (lambda x, a: 2 * x, lambda g: lambda a: ours.newton(square, 1.0, g, (a,))),
        "root_scalar": (lambda x, a: 2 * x, lambda g: lambda a: ours.root_scalar(square, (a,), x0=1.0, fprime=g).root),
        "least_squares": (slope, lambda g: lambda a: ours.least_squares(square, np.ones(2), g, args=(a,)).x),
        "curve_fit": (by, lambda g: lambda a: ours.curve_fit(line, T, a * Y, (1.0, 1.0), np.linspace(1, 2, 7), jac=g)[0]),
    }
    for name, (derivative, solve) in right.items():
        run = (lambda g, solve=solve: jacfwd(solve(g))(1.3)) if traced else (lambda g, solve=solve: solve(g)(1.3))
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.filterwarnings("ignore", message=".*did not converge")
            found = run(derivative)
        with pytest.warns(RuntimeWarning, match="differs by"):  # the search goes by it, as SciPy's; the derivative does not
            np.testing.assert_allclose(run(wrong(derivative)), found, rtol=1e-6 if traced else 0.01, err_msg=name)


def test_value_and_gradient_in_one_function_also_through_the_door():
    both = lambda x, a: (np.sum((x - a) ** 2) + np.sum(x**4), 2 * (x - a) + 4 * x**3)
    for o in (ours, scipy.optimize):
        best = lambda a, o=o: o.minimize(both, np.zeros(2), (a,), jac=True, tol=1e-10).x[0]
        check_grads(best, (1.3,), order=2, rtol=1e-5)
    cube = lambda x, a: (x**3 - a, 3 * x**2)
    assert abs(grad(lambda a: ours.root_scalar(cube, (a,), fprime=True, x0=1.5).root)(8.0) - 1 / 12) < 1e-9


def test_minimize_scalar_at_its_bound_moves_with_it():
    np.testing.assert_allclose(grad(lambda a: kept_low(ours, a))(1.0), 1.0, rtol=1e-9)
    x = lowest(ours, 6.0)
    np.testing.assert_allclose(hessian(lambda a: lowest(ours, a))(6.0), -24 * x * 4 / (2 + 12 * x * x) ** 3, rtol=1e-6)
