"""funcad.scipy.optimize: SciPy's solvers with derivatives inside and around them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import funcad.scipy.optimize as optimize
from funcad import config, grad, hessian, jacfwd, jacrev, jit, jvp, tree, value_and_grad, vmap
from funcad.errors import TracerArrayConversionError, TracerBoolConversionError
from funcad.testing import check_grads

pytestmark = pytest.mark.share(2)  # of its tables of cases

A = np.array([2.0, -1.0])


def quadratic(x, a):
    return np.sum((x - a) ** 2) + x[0] * x[1]


def valley(x, a):
    return (a - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2 + x[1] ** 2


def lowest(a, **options):
    return optimize.minimize(valley, np.array([0.5, 0.2]), (a,), **{"tol": 1e-10, **options}).x


SOLVERS = [
    "BFGS",
    "CG",
    "Newton-CG",
    "L-BFGS-B",
    "TNC",
    "SLSQP",
    "trust-ncg",
    "trust-krylov",
    "trust-constr",
    "Nelder-Mead",
    "Powell",
]


@pytest.mark.share(4)
@pytest.mark.parametrize("method", SOLVERS)
def test_every_method_is_differentiable(method):
    f = lambda a: lowest(a, method=method)
    expected = [0.32515261, 0.38057486]
    np.testing.assert_allclose(jacfwd(f)(1.0), expected, rtol=2e-4)
    np.testing.assert_allclose(jacrev(f)(1.0), expected, rtol=2e-4)


@pytest.mark.parametrize("method", ["dogleg", "trust-exact", "COBYQA"])
def test_methods_with_hessians_and_without_derivatives(method):
    found = optimize.minimize(quadratic, np.zeros(2), (A,), method=method)
    np.testing.assert_allclose(found.x, np.linalg.solve([[2, 1], [1, 2]], 2 * A), atol=1e-4)


@pytest.mark.slow
def test_second_order_jit_vmap_and_value():
    f = lambda a: lowest(a, method="trust-ncg")
    check_grads(f, (1.0,), order=2, rtol=1e-5)
    np.testing.assert_allclose(jit(jacrev(f))(1.0), jacrev(f)(1.0))
    np.testing.assert_allclose(vmap(f)(np.array([1.0, 1.1])), [f(1.0), f(1.1)])
    np.testing.assert_allclose(jit(vmap(jacfwd(f)))(np.array([1.0, 1.1]))[1], jacfwd(f)(1.1), rtol=1e-9)
    best = lambda a: optimize.minimize(valley, np.array([0.5, 0.2]), (a,), tol=1e-10).fun
    np.testing.assert_allclose(grad(best)(1.0), 2 * (1.0 - f(1.0)[0]), rtol=1e-7)  # the envelope theorem
    np.testing.assert_allclose(hessian(best)(1.0), 2 * (1.0 - jacfwd(f)(1.0)[0]), rtol=1e-6)
    slope = lambda a: optimize.minimize(valley, np.array([0.5, 0.2]), (a,), tol=1e-10).jac
    np.testing.assert_allclose(jacfwd(slope)(1.0), 0.0, atol=1e-10)


def test_pytrees_closures_and_starting_points():
    def f(a, start):
        distance = lambda x: (x["u"] - a["c"]) ** 2 + np.sum((x["v"] - x["u"] * a["d"]) ** 2)
        return optimize.minimize(distance, start, tol=1e-10).x

    a = {"c": 2.0, "d": np.array([[1.0, 3.0]])}
    start = {"u": 0.0, "v": np.zeros((1, 2))}
    x = f(a, start)
    np.testing.assert_allclose(x["v"], [[2.0, 6.0]], rtol=1e-7)
    slopes = grad(lambda a: np.sum(f(a, start)["v"]))(a)
    np.testing.assert_allclose(slopes["c"], 4.0, rtol=1e-7)
    np.testing.assert_allclose(slopes["d"], [[2.0, 2.0]], rtol=1e-7)
    with pytest.warns(UserWarning, match="does not depend"):
        unaffected = grad(lambda s: np.sum(f(a, s)["v"]))(start)
    assert all(not np.any(g) for g in tree.leaves(unaffected))
    many = optimize.minimize(lambda x: np.sum((x - 1.0) ** 4 + x**2), np.zeros(700), method="L-BFGS-B", tol=1e-12)
    assert many.success and many.x.shape == (700,)


def test_more_unknowns_than_are_solved_densely():
    weights = np.linspace(1.0, 2.0, 600)
    f = lambda a: (
        optimize.minimize(lambda x: np.sum(weights * (x - a) ** 2 + 0.1 * x**4), np.zeros(600), method="L-BFGS-B", tol=1e-12).x
    )
    x = f(1.0)
    np.testing.assert_allclose(jacfwd(f)(1.0), 2 * weights / (2 * weights + 1.2 * x**2), rtol=1e-6)
    np.testing.assert_allclose(grad(lambda a: np.sum(f(a)))(1.0), np.sum(2 * weights / (2 * weights + 1.2 * x**2)), rtol=1e-6)


def test_plain_results_are_scipys():
    ours = optimize.minimize(valley, [0.5, 0.2], (1.0,))
    theirs = scipy.optimize.minimize(valley, [0.5, 0.2], (1.0,))
    assert isinstance(ours, scipy.optimize.OptimizeResult) and set(ours) == set(theirs)
    assert ours.message == theirs.message and ours.nfev < theirs.nfev  # no finite differences
    np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-5)
    seen = []
    optimize.minimize(valley, {"x": np.zeros(2)}.pop("x"), (1.0,), callback=seen.append)
    optimize.minimize(lambda t: (t[0] - t[1]) ** 2 + t[0] ** 2, (np.float64(1.0), np.ones(())),
                      callback=lambda intermediate_result: seen.append(intermediate_result.x))  # fmt: skip
    assert len(seen[0]) == 2 and isinstance(seen[-1], tuple)
    result = jit(lambda a: optimize.minimize(valley, np.array([0.5, 0.2]), (a,)))(1.0)
    assert result.success and "message" not in result and result.nit > 0


def test_functions_that_look_at_values():
    branching = lambda x, a=1.0: (x - a) ** 2 if x > 0 else x**4 - x
    assert abs(optimize.minimize(branching, 2.0).x - 1.0) < 1e-5
    with pytest.raises(TracerBoolConversionError):
        grad(lambda a: optimize.minimize(lambda x: branching(x, a), 2.0).x)(1.0)


def test_float32_and_list_starts():
    x = optimize.minimize(quadratic, np.zeros(2, np.float32), (A.astype(np.float32),), tol=1e-3).x
    assert x.dtype == np.float32
    assert isinstance(optimize.minimize(quadratic, [0.0, 0.0], (A,)).x, np.ndarray)


# -- bounds and constraints


def test_bounds_hold_what_is_active():
    def f(a, high):
        return optimize.minimize(lambda x: quadratic(x, a), np.zeros(2), bounds=[(0, high), (None, None)], tol=1e-12).x

    by_a, by_high = jacrev(f, (0, 1))(A, 1.0)
    np.testing.assert_allclose(f(A, 1.0), [1.0, -1.5], rtol=1e-7)
    np.testing.assert_allclose(by_a, [[0, 0], [0, 1]], atol=1e-8)
    np.testing.assert_allclose(by_high, [1.0, -0.5], rtol=1e-8)
    np.testing.assert_allclose(jacfwd(f, 0)(A, 9.0), 2 * np.linalg.inv([[2, 1], [1, 2]]), rtol=1e-7)
    box = scipy.optimize.Bounds([0.0, -1.0], [1.0, 5.0])
    g = lambda a: optimize.minimize(quadratic, np.zeros(2), (a,), "trust-constr", bounds=box, tol=1e-10).x
    np.testing.assert_allclose(jacrev(g)(A), np.zeros((2, 2)), atol=1e-6)
    with pytest.raises(ValueError, match="2 pairs"):
        optimize.minimize(quadratic, np.zeros(2), (A,), bounds=[(0, 1)])


def constrained(a, b, method="SLSQP"):
    limits = [
        {"type": "eq", "fun": lambda x: x[0] + 2 * x[1] - b},
        {"type": "ineq", "fun": lambda x, c: c - x[0], "args": (9.0,)},
    ]
    return optimize.minimize(lambda x: quadratic(x, a), np.zeros(2), constraints=limits, method=method, tol=1e-13).x


def test_constraints_by_their_multipliers():
    # the equations of Karush, Kuhn and Tucker of min q(x) with x0 + 2 x1 = b
    matrix = np.array([[2.0, 1.0, -1.0], [1.0, 2.0, -2.0], [1.0, 2.0, 0.0]])
    solved = lambda a, b: np.linalg.solve(matrix, np.array([2 * a[0], 2 * a[1], b]))[:2]
    np.testing.assert_allclose(constrained(A, 0.5), solved(A, 0.5), rtol=1e-6)
    by_a, by_b = jacrev(constrained, (0, 1))(A, 0.5)
    np.testing.assert_allclose(by_a, np.linalg.inv(matrix)[:2, :2] * 2, atol=1e-8)
    np.testing.assert_allclose(by_b, np.linalg.inv(matrix)[:2, 2], atol=1e-8)
    np.testing.assert_allclose(jacfwd(constrained, 1)(A, 0.5), by_b, atol=1e-8)
    np.testing.assert_allclose(jit(constrained)(A, 0.5), solved(A, 0.5), rtol=1e-6)


def test_scipys_constraint_objects():
    line = scipy.optimize.LinearConstraint([[1.0, 1.0]], -np.inf, 0.3)
    on_line = lambda a: optimize.minimize(quadratic, np.zeros(2), (a,), constraints=line, method="SLSQP", tol=1e-13).x
    direction = np.array([[1.0, -1.0], [-1.0, 1.0]])
    np.testing.assert_allclose(jacrev(on_line)(A), direction, atol=1e-7)
    circle = scipy.optimize.NonlinearConstraint(lambda x: x @ x, 0.0, 1.0)
    f = lambda a: (
        optimize.minimize(
            lambda x: np.sum((x - a) ** 2), np.array([0.5, -0.5]), constraints=circle, method="SLSQP", tol=1e-13
        ).x
    )
    size = np.linalg.norm(A)
    np.testing.assert_allclose(f(A), A / size, rtol=1e-6)
    np.testing.assert_allclose(jacrev(f)(A), np.eye(2) / size - np.outer(A, A) / size**3, atol=1e-6)
    interior = optimize.minimize(quadratic, np.zeros(2), (A,), constraints=line, method="trust-constr")
    assert interior.x.sum() < 0.3 + 1e-6
    with pytest.raises(ValueError, match="'eq' or 'ineq'"):
        optimize.minimize(quadratic, np.zeros(2), (A,), constraints={"type": "less", "fun": lambda x: x})


# -- what is not found, what is not taken


def test_points_that_are_no_solutions_warn():
    with pytest.warns(RuntimeWarning, match="minimize did not converge"):
        grad(lambda a: lowest(a, options={"maxiter": 1})[0])(1.0)
    with pytest.warns(RuntimeWarning, match="root did not converge"):
        grad(lambda a: optimize.root(lambda x: x**3 - a, np.ones(1), method="broyden1", options={"maxiter": 1}).x[0])(9.0)
    equations = lambda x, a: np.stack([x[0] ** 2 - a * x[1], x[1] + x[0] - 6.0])
    for method, lax in [("df-sane", {"fatol": 1e3}), ("hybr", {"xtol": 1e3})]:  # easily satisfied, they claim success
        f = lambda a, method=method, lax=lax: optimize.root(equations, np.ones(2), (a,), method=method, options=lax)
        assert f(4.0).success and np.abs(equations(f(4.0).x, 4.0)).max() > 1
        with pytest.warns(RuntimeWarning, match="root did not converge"):
            jvp(lambda a, f=f: f(a).x, (4.0,), (1.0,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not optimize.minimize(valley, np.array([0.5, 0.2]), (1.0,), options={"maxiter": 1}).success
    with pytest.warns(RuntimeWarning):
        assert not jit(lambda a: optimize.minimize(valley, np.array([0.5, 0.2]), (a,), options={"maxiter": 1}).success)(1.0)


def test_singular_hessian_raises():
    flat = lambda a: optimize.minimize(lambda x: (x[0] + x[1] - a) ** 2, np.zeros(2), method="BFGS").x
    with pytest.raises(np.linalg.LinAlgError):
        jacfwd(flat)(1.0)


def test_arguments_that_are_not_taken():
    with pytest.raises(TypeError, match="of arrays of unknowns leave full_output out"):
        optimize.newton(lambda x: x, np.ones(2), full_output=True)
    with pytest.raises(ValueError, match="jac must return 4 numbers, got 2"):
        optimize.root(lambda x: x, np.ones(2), jac=lambda x: x)
    with pytest.raises(TypeError, match="must be real"):
        optimize.minimize(quadratic, np.zeros(2) + 1j, (A,))
    with pytest.raises(ValueError, match="as many equations as unknowns"):
        optimize.root(lambda x: x[:1], np.ones(2))
    with pytest.raises(ValueError, match="loss"):
        optimize.least_squares(lambda x: x, np.ones(2), loss="round")


# -- roots and fits

SLOPES = {"fprime": lambda t, a: 3 * t * t + 1, "fprime2": lambda t, a: 6 * t}
SEARCHES = [
    {"x0": 0.5},
    {"x0": 0.5, "x1": 1.0},
    {"x0": 0.5, "x1": 1.0, "method": "secant"},
    {"x0": 0.5, "fprime": SLOPES["fprime"]},
    {"x0": 0.5, **SLOPES},
    {"bracket": [0.0, 1.0]},
]


@pytest.mark.parametrize("search", SEARCHES, ids=["_".join(s) for s in SEARCHES])
def test_a_closure_over_traced_values_has_a_root_by_each_way_of_searching(search):
    """SciPy's own root_scalar runs, since none of its arguments is traced; the function that it calls is."""
    import scipy.optimize

    def root(a):
        given = {k: (lambda t, v=v: v(t, a)) if callable(v) else v for k, v in search.items()}
        return scipy.optimize.root_scalar(lambda t: t**3 + t - a, **given).root

    x = root(0.3)
    slope = 1 / (3 * x * x + 1)
    for derivative in (grad(root), jit(grad(root))):
        np.testing.assert_allclose(derivative(0.3), slope, rtol=1e-8)
    np.testing.assert_allclose(vmap(root)(np.array([0.3, 0.4])), [x, root(0.4)], rtol=1e-8)


def test_newton_gives_its_full_output_of_one_unknown():
    found = lambda a, **given: optimize.newton(lambda t: t**3 + t - a, 0.5, full_output=True, **given)
    x, result = found(0.3, x1=1.0)
    assert result.converged and abs(x**3 + x - 0.3) < 1e-12
    np.testing.assert_allclose(grad(lambda a: found(a)[0])(0.3), 1 / (3 * x * x + 1), rtol=1e-8)
    with pytest.raises(RuntimeError, match="Failed to converge after 1 iterations"):
        found(0.3, maxiter=1)
    assert not found(0.3, maxiter=1, disp=False)[1].converged



@pytest.mark.parametrize("method", ["hybr", "lm", "broyden1", "df-sane"])
def test_root_of_pytrees(method):
    equations = lambda x, a: {"u": x["u"] ** 2 - a[0] * x["v"][0], "v": x["v"] + x["u"] - a[1]}
    f = lambda a: optimize.root(equations, {"u": 1.0, "v": np.ones(1)}, (a,), method=method, tol=1e-12).x["u"]
    a = np.array([2.0, 3.0])
    check_grads(f, (a,), order=2, rtol=1e-5)
    np.testing.assert_allclose(jit(grad(f))(a), grad(f)(a))
    np.testing.assert_allclose(vmap(f)(np.stack([a, 1.5 * a])), [f(a), f(1.5 * a)], rtol=1e-8)


def test_scalar_roots_agree():
    f = lambda x, a: np.cos(a * x) - x
    roots = [
        lambda a: optimize.brentq(f, 0.0, 1.5, (a,)),
        lambda a: optimize.root_scalar(f, (a,), bracket=[0.0, 1.5]).root,
        lambda a: optimize.root_scalar(f, (a,), x0=0.5, method="halley").root,
        lambda a: optimize.newton(f, 0.5, args=(a,)),
        lambda a: optimize.newton(f, np.array([0.5, 0.6]), args=(a,))[1],
        lambda a: optimize.fixed_point(lambda x, a: np.cos(a * x), 0.5, args=(a,), xtol=1e-13),
        lambda a: optimize.toms748(f, 0.0, 1.5, (a,), full_output=True)[1].root,
    ]
    for g in roots:
        np.testing.assert_allclose([g(1.1), grad(g)(1.1), hessian(g)(1.1)],
                                   [roots[0](1.1), grad(roots[0])(1.1), hessian(roots[0])(1.1)], rtol=1e-7)  # fmt: skip
    assert optimize.brentq(f, 0.0, 1.5, (1.1,), full_output=True)[1].converged
    with pytest.warns(UserWarning, match="does not depend"):
        ends = grad(lambda a, b: optimize.brentq(f, a, b, (1.1,)), (0, 1))(0.0, 1.5)
    assert ends == (0.0, 0.0)
    with pytest.raises(ValueError, match="different signs"):
        jit(lambda a: optimize.brentq(f, 0.0, 0.1, (a,)))(1.1)


def test_curve_fit_is_scipys_and_differentiable():
    t = np.linspace(0, 2, 8)
    y = 2 * np.exp(-1.3 * t) + 0.05 * np.sin(9 * t)
    model = lambda t, a, b: a * np.exp(-b * t)
    tight = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}
    for sigma in (None, np.linspace(0.1, 0.3, 8), np.diag(np.linspace(0.1, 0.3, 8)) + 0.02):
        ours, theirs = optimize.curve_fit(model, t, y, sigma=sigma), scipy.optimize.curve_fit(model, t, y, sigma=sigma)
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6)
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5)
        check_grads(lambda t, y, s=sigma: optimize.curve_fit(model, t, y, sigma=s, **tight), (t, y), order=1, rtol=1e-3)
    fit = lambda y: optimize.least_squares(lambda p: model(t, p[0], p[1]) - y, np.ones(2), bounds=([0, 0], [3, 1.0]), **tight)
    np.testing.assert_allclose(jacrev(lambda y: fit(y).x)(y)[1], 0.0, atol=1e-10)  # at its bound
    np.testing.assert_allclose(fit(y).x[1], 1.0)


# -- SciPy's own shapes, and SciPy's own functions


@pytest.mark.share(4)
@pytest.mark.parametrize("x0", [0.5, 1, np.float64(0.5), np.array(0.5), [0.5], np.array([0.5, 0.6])], ids=repr)
def test_shapes_of_results_are_scipys(x0):
    """What SciPy makes a vector of one element is one here, for the function and in the result."""
    shapes = []

    def equations(x, a=2.0):
        shapes.append(np.shape(x))
        return x * x - a

    def squares(x, a=2.0):
        shapes.append(np.shape(x))
        return np.sum((x - a) ** 2)

    calls = [(lambda lib, m=m, **o: lib.root(equations, x0, method=m, **o)) for m in ("hybr", "lm", "krylov", "df-sane")]
    calls += [(lambda lib, m=m, **o: lib.minimize(squares, x0, method=m, **o)) for m in ("BFGS", "Nelder-Mead")]
    calls += [lambda lib, **o: lib.least_squares(equations, x0, **o)]
    for call in calls:
        shapes.clear()
        theirs = call(scipy.optimize)
        expected = np.shape(theirs.x), np.shape(theirs.fun), set(shapes)
        shapes.clear()
        ours = call(optimize)
        assert (np.shape(ours.x), np.shape(ours.fun), set(shapes)) == expected
        np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-4)
        traced = jit(lambda a, call=call: call(optimize, args=(a,)).x)(2.0)
        assert np.shape(traced) == expected[0]


def test_functions_of_scipys_name_ours():
    """Also where SciPy's code in C goes on in spite of our error, and fails with one of its own."""
    solvers = {
        **{name: lambda f, s: s(f, 0.0, 9.0) for name in ("brentq", "brenth", "bisect", "ridder", "toms748")},
        "root_scalar": lambda f, s: s(f, bracket=[0.0, 9.0]).root,
        "least_squares": lambda f, s: s(f, np.ones(1)).x[0],
        "minimize": lambda f, s: s(lambda x: np.sum(f(x) ** 2), np.ones(1)).x[0],
    }
    for name, solve in solvers.items():
        theirs, ours = getattr(scipy.optimize, name), getattr(optimize, name)
        program = lambda solver, solve=solve: lambda a: solve(lambda x: x * x - a, solver)
        remedy = f"call funcad.scipy.optimize.{name}, which takes traced values, instead of scipy.optimize.{name}"
        for transform in (grad, lambda f: jit(f, guards=False)):
            with config.set(doors=False), pytest.raises((TypeError, ValueError)) as caught:
                transform(program(theirs))(4.0)
            if caught.type is ValueError:  # it went on, and what it called next looked for an attribute: our error is gone
                assert "different signs" in str(caught.value) and "call funcad.scipy.optimize" in caught.value.__notes__[0]
            else:
                assert caught.type in (TracerArrayConversionError, TracerBoolConversionError) and remedy in str(caught.value)
        assert abs(jit(program(theirs))(4.0) - 2.0) < 1e-3
        assert abs(jit(program(ours))(4.0) - 2.0) < 1e-3
    quad = "call funcad.scipy.integrate.quad, which takes"
    with config.set(doors=False), pytest.raises(TracerArrayConversionError, match=quad):
        grad(lambda a: scipy.integrate.quad(lambda x: a * x, 0, 1)[0])(2.0)


def test_a_look_up_that_fails_in_code_that_went_on_is_the_error_before():
    """Attributes that are not in Python's table of look-ups seem to be missing while an error of code in C is pending."""

    def f(a):
        with pytest.raises((TracerArrayConversionError, ValueError)):  # it goes on, and may have found its ends of one sign
            scipy.optimize.brentq(lambda x: a, 0.0, 9.0)
        raise AttributeError("'Tracer' object has no attribute 'aval'", name="aval", obj=a)

    with config.set(doors=False), pytest.raises(TracerArrayConversionError, match="call funcad.scipy.optimize.brentq"):
        grad(f)(4.0)
    with pytest.raises(AttributeError, match="no_such_name"):
        grad(lambda a: a.no_such_name)(4.0)


def test_solvers_that_swallow_errors_get_a_note(capfd):
    for solve in (lambda f: scipy.optimize.fsolve(f, np.ones(1)), lambda f: scipy.optimize.root(f, np.ones(1)).x):
        doors = config.set(doors=False)
        with doors, pytest.raises(Exception, match="not a proper array of floats") as caught:
            grad(lambda a, solve=solve: solve(lambda x: x * x - a)[0])(4.0)
        assert "call funcad.scipy.optimize." in caught.value.__notes__[0]
    assert "TracerArrayConversionError" in capfd.readouterr().err


def test_what_a_callback_stores_is_there_or_refused() -> None:
    def f(a):
        seen = []
        fun = lambda z: ((z - a) ** 2).sum() + (z**4).sum()
        best = scipy.optimize.minimize(fun, [0.1], callback=seen.append, tol=1e-10).x[0]
        return best if seen else 0.0

    assert value_and_grad(f)(1.5)[0] == pytest.approx(f(1.5), rel=1e-6) and f(1.5) != 0.0
    with pytest.raises(NotImplementedError, match="minimize: inside jit and vmap"):
        jit(f)(1.5)
    with pytest.raises(NotImplementedError, match=r"minimize: inside jit and vmap[^~]*nit and nfev"):
        vmap(f)(np.array([1.5, 2.0]))
    root = lambda a: scipy.optimize.root(lambda z: z**3 - a, [0.7], method="krylov", callback=lambda x, r: None).x
    with pytest.raises(NotImplementedError, match="root: inside jit and vmap"):
        vmap(root)(np.array([1.5, 2.0]))


@pytest.mark.parametrize("options", [{}, {"fprime": lambda z: 3 * z * z}, {"fprime": None}, {"full_output": True}])
@pytest.mark.parametrize("start", [-0.4 + 1.1j, np.array([-0.4 + 1.1j, -0.4 - 1.1j])], ids=["one", "two"])
def test_complex_roots(start, options):
    """The derivative of a holomorphic equation's root, z**3 = a: z / (3 a)."""
    if options.get("full_output") and np.ndim(start):
        return

    def f(a):
        found = scipy.optimize.newton(lambda z: z**3 - a, start, **options)
        return found[0] if options.get("full_output") else found

    for a in (1.3, 1.3 + 0.2j):
        expected = f(a)
        value, slope = jvp(f, (a,), (1.0 + 0.0 * a,))
        np.testing.assert_allclose(value, expected, rtol=1e-9)
        np.testing.assert_allclose(slope, expected / (3 * a), rtol=1e-7)
        jitted = jit(lambda a: jvp(f, (a,), (1.0 + 0.0 * a,)))
        for _ in range(3):
            np.testing.assert_allclose(jitted(a), (value, slope), rtol=1e-9)
        np.testing.assert_allclose(vmap(f)(np.array([a, a]))[0], expected, rtol=1e-9)
    reverse = grad(lambda a: np.sum(abs(f(a) - 0.3) ** 2))(1.3)
    assert reverse == pytest.approx(np.sum(2 * ((np.conj(f(1.3)) - 0.3) * f(1.3) / 3.9).real), rel=1e-7)


@pytest.mark.parametrize("sigma", [None, np.array([1.0, 2.0, 3.0, 1.0, 0.5]), np.diag([1.0, 2.0, 3.0, 1.0, 0.5])])
def test_curves_are_fitted_to_what_is_not_nan(sigma):
    x, y = np.array([0.0, 1.0, np.nan, 3.0, 4.0]), np.array([1.0, np.nan, 2.0, 3.0, 4.5])
    kept = np.array([0, 3, 4])

    def fit(y, x=x, sigma=sigma, **options):
        return scipy.optimize.curve_fit(lambda x, a, b: a * x + b, x, y, sigma=sigma, **options)[0]

    rest = None if sigma is None else sigma[kept] if sigma.ndim == 1 else sigma[np.ix_(kept, kept)]
    expected = fit(y[kept], x[kept], rest)
    f = lambda s: fit(s * y, nan_policy="omit")
    for way in (f, jit(f), lambda s: vmap(f)(np.array([s]))[0], lambda s: jvp(f, (s,), (s,))[1]):
        for _ in range(3):
            np.testing.assert_allclose(way(1.0), expected, rtol=1e-6)
    with pytest.raises(ValueError, match="nan"):
        jvp(lambda s: fit(s * y, nan_policy="raise"), (1.0,), (1.0,))


def bowl(x):
    return (x[0] - 3.0) ** 2 + (x[1] + 1) ** 2 + 0.3 * x[0] * x[1]


def lowest_with(**limits):
    return scipy.optimize.minimize(bowl, np.zeros(2), tol=1e-10, **limits).x


LIMITS = {
    "bounds": lambda u: lowest_with(bounds=scipy.optimize.Bounds([0.0, -np.inf], [u, np.inf])),
    "bounds of numbers": lambda u: lowest_with(bounds=scipy.optimize.Bounds(0.0, u)),
    "dict": lambda u: lowest_with(constraints={"type": "ineq", "fun": lambda x: u - x[0]}),
    "linear": lambda u: lowest_with(constraints=scipy.optimize.LinearConstraint([[1, 0], [0, 1]], [-np.inf, -5], [u, 5.0])),
    "equal": lambda u: lowest_with(constraints=[scipy.optimize.LinearConstraint([[1.0, 0.0]], u, u)]),
    "matrix": lambda u: lowest_with(constraints=scipy.optimize.LinearConstraint([[u, 0.0]], -np.inf, 1.0)),
    "curved": lambda u: lowest_with(constraints=scipy.optimize.NonlinearConstraint(lambda x: x**2, -np.inf, [u, 9.0])),
    "closure": lambda u: lowest_with(constraints=scipy.optimize.NonlinearConstraint(lambda x: u * x[0] ** 2, -np.inf, 1.0)),
    "least squares": lambda u: scipy.optimize.least_squares(lambda x: x - 3, np.ones(2), bounds=([0, 0], [u, 5.0])).x,
    "of one object": lambda u: scipy.optimize.least_squares(
        lambda x: x - 3, np.ones(2), bounds=scipy.optimize.Bounds([0, 0], [u, 5.0])
    ).x,
    "fit": lambda u: scipy.optimize.curve_fit(lambda x, a: a * x, np.arange(4.0), 3 * np.arange(4.0), [0.5], bounds=(0, u))[0],
}


@pytest.mark.parametrize("name", LIMITS)
def test_traced_limits_of_known_functions(name):
    """The function that is minimized holds no traced value, what stands beside it does."""
    f, u = LIMITS[name], 1.3
    expected, slope = f(u), (f(u + 1e-4) - f(u - 1e-4)) / 2e-4
    both = lambda u: jvp(f, (u,), (1.0,))
    jitted, backward = jit(both), jit(grad(lambda u: np.sum(f(u) * np.arange(1, 1 + len(expected)))))
    for value, found in (both(u), jitted(u), jitted(u), jitted(u)):
        np.testing.assert_allclose(value, expected, rtol=1e-9)
        np.testing.assert_allclose(found, slope, rtol=2e-3, atol=2e-3)
    for _ in range(3):
        assert backward(u) == pytest.approx(found @ np.arange(1, 1 + len(expected)), rel=1e-6)
    np.testing.assert_allclose(vmap(f)(np.array([u, u])), [expected] * 2, rtol=1e-5)


@pytest.mark.parametrize("method", [None, "Nelder-Mead", "SLSQP"])
def test_an_objective_gives_one_number(method):
    def best(a, shape):
        objective = lambda x: np.sum((x - a) ** 2) * np.ones(shape)
        return scipy.optimize.minimize(objective, np.zeros(1), method=method, tol=1e-8).x[0]

    for way in (lambda f: f(1.0), lambda f: grad(f)(1.0), lambda f: jit(f)(1.0), lambda f: vmap(f)(np.ones(1))[0]):
        with pytest.raises(ValueError, match="The user-provided objective function must return a scalar value"):
            way(lambda a: best(a, (3,)))
        for shape in ((), (1,), (1, 1)):
            assert abs(way(lambda a, shape=shape: best(a, shape)) - 1.0) < 1e-3
