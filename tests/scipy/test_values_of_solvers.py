"""Values of SciPy's solvers: plain Python's to the bit in every call, jitted or not; derivatives are the minimum's itself."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.optimize as solvers

from funcad import grad, jit, jvp, tree, value_and_grad, vmap

T = np.linspace(0.0, 1.0, 20)
Y = np.exp(-1.3 * T) + 0.1 * np.sin(40 * T)
START = np.array([-1.0, 1.5])


def valley(x, a):
    return np.sum(a * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2) + 0.3 * np.sum(np.exp(x * a))


def slope(x, a):
    low = np.array([-4 * a * x[0] * (x[1] - x[0] ** 2) - 2 * (1 - x[0]), 2 * a * (x[1] - x[0] ** 2)])
    return low + 0.3 * a * np.exp(x * a)


def equations(x, a):
    return np.array([x[0] * x[0] * a - x[1] - 1, np.exp(x[1]) + x[0] - a])


def misfit(p, a):
    return p[0] * np.exp(-a * p[1] * T) - Y


def decay(t, p, q):
    return p * np.exp(-q * t)


def minimum(**options):
    free = options.get("method") in ("Nelder-Mead", "Powell", "COBYLA")  # of derivatives, which SciPy's results have not then
    return lambda a: (lambda r: (r.x, r.fun, 0.0 if free else r.jac))(solvers.minimize(valley, START, (a,), **options))


INSIDE = {"type": "ineq", "fun": lambda x: 1 - x[0] * x[0] - x[1] * x[1]}
DISC = solvers.NonlinearConstraint(lambda x: x @ x, -np.inf, 1.0)
LINE = solvers.LinearConstraint([[1.0, 1.0]], -np.inf, 0.5)
METHODS = "CG BFGS L-BFGS-B TNC SLSQP Nelder-Mead Powell COBYLA"
ROOTS = "hybr lm krylov df-sane"
PROGRAMS = {
    **{f"minimize, {m}": minimum(method=m) for m in METHODS.split()},
    **{f"minimize with jac, {m}": minimum(method=m, jac=slope) for m in ("BFGS", "Newton-CG", "TNC", "L-BFGS-B")},
    "minimize, jac of three points": minimum(jac="3-point"),
    "minimize, jac True": lambda a: solvers.minimize(lambda x: (valley(x, a), slope(x, a)), START, jac=True).x,
    "minimize within bounds": minimum(bounds=[(None, 0.5), (0, None)]),
    "minimize, constraints": minimum(constraints=INSIDE),
    "minimize, a constraint with its jac": minimum(constraints=[{**INSIDE, "jac": lambda x: -2 * x}]),
    "minimize, objects": lambda a: solvers.minimize(valley, START, (a,), "trust-constr", constraints=[DISC, LINE]).x,
    "minimize, grad": lambda a: solvers.minimize(valley, START, (a,), "trust-constr").grad,
    **{f"root, {m}": lambda a, m=m: solvers.root(equations, np.ones(2), (a,), m).x for m in ROOTS.split()},
    "fsolve": lambda a: solvers.fsolve(equations, np.ones(2), (a,), factor=50, full_output=True)[0],
    **{f"least_squares, {m}": lambda a, m=m: (lambda r: (r.x, r.cost, r.fun, r.grad))(
        solvers.least_squares(misfit, np.ones(2), method=m, args=(a,))) for m in ("trf", "lm")},
    "leastsq": lambda a: solvers.leastsq(misfit, np.ones(2), (a,), full_output=True, factor=10.0)[:2],
    "curve_fit": lambda a: solvers.curve_fit(decay, T, a * Y),
    "curve_fit within bounds": lambda a: solvers.curve_fit(decay, T, a * Y, bounds=(0, 2), sigma=1 + T),
    "curve_fit of lists": lambda a: solvers.curve_fit(decay, T[:3], [a, 0.5 * a, 0.2], p0=[1, 1], absolute_sigma=True),
    "curve_fit, full_output": lambda a: solvers.curve_fit(decay, T, a * Y, full_output=True)[2]["fvec"],
    "minimize_scalar": lambda a: solvers.minimize_scalar(lambda x: (x - a) * (x - a) + np.exp(a * x)).x,
    "root_scalar": lambda a: solvers.root_scalar(lambda x: x * x * x - a, x0=2.0).root,
    "newton": lambda a: solvers.newton(lambda x: x * x * x - a, 2.0),
    "newton of arrays": lambda a: solvers.newton(lambda x: x * x * x - a, np.array([2.0, 3.0])),
    "newton of arrays, Halley's": lambda a: solvers.newton(lambda x: x * x * x - a, np.array([2.0, 3.0]), lambda x: 3 * x * x,
                                                           fprime2=lambda x: 6 * x),
    "fixed_point": lambda a: solvers.fixed_point(lambda x: 0.5 * (x + a / x), 3.0),
    "lsq_linear": lambda a: (lambda r: (r.x, r.cost, r.fun))(solvers.lsq_linear(np.vander(T, 3), a * Y, (-1, 2))),
    "nnls": lambda a: solvers.nnls(np.vander(T, 3), a * Y),
}  # fmt: skip


def same(ours, theirs):
    for x, y in zip(tree.leaves(ours), tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.share(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_call_gives_what_plain_python_gives(name):
    f, a = PROGRAMS[name], 1.7
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, other = f(a), f(1.2)
        jitted = jit(f)
        for _ in range(4):
            same(jitted(a), plain)
        lanes = vmap(f)(np.array([a, 1.2]))
        same([x[0] for x in tree.leaves(lanes)], plain)
        same([x[1] for x in tree.leaves(lanes)], other)
        total = lambda a: sum(np.sum(x) for x in tree.leaves(f(a)))
        value, derivative = value_and_grad(total)(a)
        assert value == total(a)
        np.testing.assert_allclose(jit(grad(total))(a), derivative, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("method", ["BFGS", "CG", "L-BFGS-B", "TNC", "SLSQP", "Nelder-Mead", "trust-constr"])
def test_derivatives_are_those_of_the_minimum_itself(method):
    """However near to it SciPy comes: one step of Newton's method from a tight solution says what they are."""
    best = lambda a: solvers.minimize(valley, START, (a,), method)
    tight = solvers.minimize(valley, START, (1.7,), "trust-exact", slope, lambda x, a: bend(x, a), tol=1e-13).x
    by_a = (slope(tight, 1.7 + 1e-6) - slope(tight, 1.7 - 1e-6)) / 2e-6
    expected = -np.linalg.solve(bend(tight, 1.7), by_a)
    np.testing.assert_allclose(grad(lambda a: best(a).x[0])(1.7), expected[0], rtol=1e-7)
    envelope = (valley(tight, 1.7 + 1e-6) - valley(tight, 1.7 - 1e-6)) / 2e-6
    np.testing.assert_allclose(grad(lambda a: best(a).fun)(1.7), envelope, rtol=1e-8)


TIGHT = ["root, hybr", "fsolve", "root_scalar", "newton", "newton of arrays", "fixed_point", "nnls"]


@pytest.mark.parametrize("name", TIGHT)
def test_second_derivatives_of_what_is_made_of_a_solution(name):
    """The point that SciPy found has the solution's derivative also where a derivative of a derivative reads its value."""
    f = lambda a: sum(np.sum(np.sin(x) * np.cos(a)) for x in tree.leaves(PROGRAMS[name](a)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = (grad(f)(1.7 + 1e-5) - grad(f)(1.7 - 1e-5)) / 2e-5
        found = [grad(grad(f))(1.7), jvp(grad(f), (1.7,), (1.0,))[1], jit(grad(grad(f)))(1.7)]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


def bend(x, a):
    steps = 1e-5 * np.eye(2)
    return np.stack([(slope(x + s, a) - slope(x - s, a)) / 2e-5 for s in steps])


def test_a_program_that_takes_no_derivative_does_not_look_for_the_minimum_beside(monkeypatch):
    from funcad.scipy.optimize import implicit

    seen: list = []
    near = implicit.near
    monkeypatch.setattr(implicit, "near", lambda *args: (seen.append(1), near(*args))[1])
    f = jit(lambda a: solvers.minimize(valley, START, (a,), "BFGS", slope).x[0])
    for _ in range(3):  # the second call runs what was traced, as it is
        f(1.7)
    seen.clear()
    f(1.7)
    assert not seen
    jit(grad(f))(1.7)
    assert seen


def test_derivatives_left_out_are_ours_by_our_name_and_scipys_by_its_own():
    from funcad.scipy import optimize as ours

    by_differences = solvers.minimize(valley, START, (1.7,), "BFGS").nfev
    few = ours.minimize(valley, START, (1.7,), "BFGS").nfev
    assert few < ours.minimize(valley, START, (1.7,), "BFGS", jac=None).nfev == by_differences
    assert ours.minimize(valley, START, (1.7,), "Newton-CG").success
    with pytest.raises(ValueError, match="Jacobian is required"):
        grad(lambda a: solvers.minimize(valley, START, (a,), "Newton-CG").x[0])(1.7)


def test_starts_of_single_precision_are_searched_by_our_derivatives():
    for solve in (solvers.least_squares, solvers.root, solvers.minimize):
        f = (lambda x, a: np.sum((x - a) ** 2 + x**4)) if solve is solvers.minimize else (lambda x, a: x**3 + x - a)
        found = lambda a, solve=solve, f=f: solve(f, np.ones(2, np.float32), args=(a,)).x[0]
        wide = lambda a, solve=solve, f=f: solve(f, np.ones(2), args=(a,)).x[0]
        np.testing.assert_allclose(grad(found)(1.3), grad(wide)(1.3), rtol=1e-6)
        np.testing.assert_allclose(value_and_grad(found)(1.3)[0], wide(1.3), rtol=1e-5)


def test_a_derivative_that_looks_at_values_is_compared_nowhere_and_funcads_has_its_place():
    def branching(x, a):
        return 2 * (x - a) + 4 * x**3 if x[0] > 0.3 else 4 * x**3 + 2 * (x - a)

    f = lambda x, a: np.sum((x - a) ** 2) + np.sum(x**4)
    best = lambda a: solvers.minimize(f, np.zeros(2), (a,), jac=branching).x[0]
    other = lambda a: solvers.minimize(f, np.zeros(2), (a,)).x[0]
    np.testing.assert_allclose(grad(best)(1.3), grad(other)(1.3), rtol=1e-9)
    np.testing.assert_allclose(vmap(best)(np.array([1.3, 1.4])), [best(1.3), best(1.4)], rtol=1e-6)


def test_fsolve_without_full_output_warns_as_scipys():
    from funcad.scipy import optimize as ours

    for fsolve in (solvers.fsolve, ours.fsolve):
        with pytest.warns(RuntimeWarning, match="not making good progress|improvement"):
            fsolve(lambda x: x * x + 1.0, np.ones(1))
