"""custom_linear_solve and custom_root: implicit derivatives against explicit solutions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

from funcad import grad, hessian, jacfwd, jacrev, jit, jvp, vmap
from funcad.control.loops import fori_loop
from funcad.control.scan import scan
from funcad.control.solve import custom_linear_solve, custom_root
from funcad.control.while_loop import while_loop
from funcad.errors import MissingRuleError

A, U, B = np.array([2.0, 3.0, 4.0]), np.array([1.0, -1.0, 0.5]), np.array([0.3, 0.2, 0.1])


def matrix_times(a, u):
    return lambda x: a * x + u * np.sum(x) * 0.1  # diag(a) + 0.1 u 1^T: not symmetric


def richardson(matvec, b):
    return fori_loop(0, 120, lambda i, x: x + 0.25 * (b - matvec(x)), b * 0.0)


def solved(a, u, b):
    return np.sum(np.sin(custom_linear_solve(matrix_times(a, u), b, richardson)))


def explicit(a, u, b):
    """Sherman and Morrison's formula."""
    x, y = b / a, u / a
    return np.sum(np.sin(x - 0.1 * y * np.sum(x) / (1 + 0.1 * np.sum(y))))


FIRST = {
    "value": lambda f: f,
    "grad a": lambda f: grad(f, 0),
    "grad u": lambda f: grad(f, 1),
    "grad b": lambda f: grad(f, 2),
    "jit grad": lambda f: jit(grad(f, 0)),
    "jvp": lambda f: lambda *args: jvp(f, args, args)[1],
    "hessian": lambda f: hessian(f, 1),
    "reverse twice": lambda f: jacrev(jacrev(f, 0), 2),
    "reverse over forward": lambda f: jacrev(jacfwd(f, 1), 0),
    "jit hessian": lambda f: jit(hessian(f, 0)),
    "three times": lambda f: grad(lambda *args: np.sum(hessian(f, 0)(*args) ** 2), 1),
}


@pytest.mark.parametrize("name", FIRST)
def test_linear_solve(name):
    make = FIRST[name]
    np.testing.assert_allclose(make(solved)(A, U, B), make(explicit)(A, U, B), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("mapped", [(0, 0, 0), (None, 0, None), (0, None, None), (None, None, 0)])
def test_linear_solve_vmap(mapped):
    args = [np.stack([x, 1.1 * x]) if m == 0 else x for x, m in zip((A, U, B), mapped)]
    for make in (FIRST["value"], FIRST["grad a"], FIRST["hessian"]):
        found, expected = vmap(make(solved), mapped)(*args), vmap(make(explicit), mapped)(*args)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)
    total = lambda f: grad(lambda *a: np.sum(vmap(f, mapped)(*a)), 1)(*args)
    np.testing.assert_allclose(total(solved), total(explicit), rtol=1e-8)


def test_transpose_solve_symmetric_and_aux():
    explicit = lambda a, b: np.sum(np.sin(b / a))
    forms = {
        "symmetric": lambda a, b: custom_linear_solve(lambda x: a * x, b, lambda m, b: b / a, symmetric=True),
        "transpose": lambda a, b: custom_linear_solve(lambda x: a * x, b, lambda m, b: b / a, lambda m, b: b / a),
        "aux": lambda a, b: custom_linear_solve(
            lambda x: a * x, b, lambda m, b: (b / a, {"n": 3}), lambda m, b: b / a, has_aux=True
        )[0],
    }
    for solution in forms.values():
        f = lambda a, b, solution=solution: np.sum(np.sin(solution(a, b)))
        for make in (lambda f: grad(f, 0), lambda f: hessian(f, 0), lambda f: jit(jacrev(grad(f, 0), 1))):
            np.testing.assert_allclose(make(f)(A, B), make(explicit)(A, B), rtol=1e-9)
        stack = np.stack([A, 2 * A])
        np.testing.assert_allclose(vmap(grad(f), (0, None))(stack, B), vmap(grad(explicit), (0, None))(stack, B))
    _, aux = custom_linear_solve(lambda x: A * x, B, lambda m, b: (b / A, {"n": 3}), has_aux=True)
    assert aux == {"n": 3}


def test_explicit_solver_without_transpose():
    f = lambda a: np.sum(custom_linear_solve(lambda x: a * x, B, lambda m, b: b / a))
    np.testing.assert_allclose(jacfwd(f)(A), -B / A**2)
    with pytest.raises(MissingRuleError) as error:
        grad(f)(A)
    assert str(error.value).split("\nfuncad:")[0] == (
        "reverse mode through custom_linear_solve needs transpose_solve: the solve function does not call its matvec "
        "argument, so it cannot be used for the transposed system.\nRemedy: give transpose_solve=, or symmetric=True."
    )


def test_solver_is_not_differentiated_and_pytrees():
    b = {"p": np.array([1.0, 2.0]), "q": 3.0}
    calls = []

    def solve(matvec, b):
        calls.append(1)
        return {"p": b["p"] / 2.0, "q": b["q"] / 4.0}

    def f(scale):
        x = custom_linear_solve(lambda x: {"p": 2.0 * scale * x["p"], "q": 4.0 * scale * x["q"]}, b, solve, symmetric=True)
        return np.sum(x["p"]) + x["q"]

    assert grad(f)(1.0) == pytest.approx(-2.25)  # by the equation: the solver does not even read the scale
    assert len(calls) == 1


def newton(f, x):
    slope = lambda x: jvp(f, (x,), (1.0,))[1]
    return while_loop(lambda x: f(x) * f(x) > 1e-28, lambda x: x - f(x) / slope(x), x)


def square_root(a):
    return custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))


def test_root():
    assert square_root(2.0) == pytest.approx(2**0.5)
    assert grad(square_root)(2.0) == pytest.approx(0.5 * 2**-0.5)
    assert jacfwd(square_root)(2.0) == pytest.approx(0.5 * 2**-0.5)
    assert grad(grad(square_root))(2.0) == pytest.approx(-0.25 * 2**-1.5)
    assert grad(grad(grad(square_root)))(2.0) == pytest.approx(0.375 * 2**-2.5)
    assert jit(hessian(square_root))(2.0) == pytest.approx(-0.25 * 2**-1.5)
    a = np.array([1.0, 2.0, 9.0])
    np.testing.assert_allclose(vmap(square_root)(a), a**0.5)
    np.testing.assert_allclose(vmap(grad(grad(square_root)))(a), -0.25 * a**-1.5)
    np.testing.assert_allclose(grad(lambda a: np.sum(jit(vmap(square_root))(a)))(a), 0.5 * a**-0.5)
    summed = lambda a: scan(lambda c, x: (c + square_root(a * x), None), 0.0, np.array([1.0, 2.0]))[0]
    assert grad(summed)(2.0) == pytest.approx(0.5 * 2**-0.5 * (1 + 2**0.5))


def test_root_in_several_variables():
    def root(p):
        f = lambda x: {"u": x["u"] * p["a"] - 1.0, "v": x["v"] * x["v"] - p["b"] * x["u"]}

        def solve(f, x):
            return {"u": 1.0 / p["a"], "v": np.sqrt(p["b"] / p["a"])}, 7

        def tangent_solve(g, y):  # lower triangular
            one = {"u": np.ones(2), "v": np.zeros(2)}
            two = {"u": np.zeros(2), "v": np.ones(2)}
            u = y["u"] / g(one)["u"]
            return {"u": u, "v": (y["v"] - g(one)["v"] * u) / g(two)["v"]}

        guess = {"u": np.ones(2), "v": np.ones(2)}
        x, _ = custom_root(f, guess, solve, tangent_solve, has_aux=True)
        return np.sum(x["v"] * np.array([1.0, 3.0]))

    explicit = lambda p: np.sum(np.sqrt(p["b"] / p["a"]) * np.array([1.0, 3.0]))
    p = {"a": np.array([2.0, 0.5]), "b": np.array([1.0, 3.0])}
    for make in (grad, lambda f: jit(grad(f))):
        found, expected = make(root)(p), grad(explicit)(p)
        for name in p:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-9)
    second = lambda f: grad(lambda p: sum(np.sum(np.sin(v)) for v in grad(f)(p).values()))(p)["a"]
    np.testing.assert_allclose(second(root), second(explicit), rtol=1e-9)


def test_root_aux():
    x, steps = custom_root(lambda x: x - 2.0, 1.0, lambda f, x: (x * 0.0 + 2.0, {"steps": 3}), lambda g, y: y, has_aux=True)
    assert x == 2 and steps == {"steps": 3}


def raised(f, *args, **kwargs):
    with pytest.raises((TypeError, ValueError)) as error:
        f(*args, **kwargs)
    return str(error.value)


def test_errors_word_for_word():
    assert raised(custom_linear_solve, lambda x: x[:2], B, lambda m, b: b) == (
        "custom_linear_solve: matvec(x) must have the shape and dtype of b, a float64 array of shape (3,); got a "
        "float64 array of shape (2,)"
    )
    assert raised(custom_linear_solve, lambda x: x, {"p": B}, lambda m, b: (b, b)) == (
        "custom_linear_solve: the solution must have the structure of b.\n"
        "the solution is a tuple of length 2, but b is a dict with the key 'p'."
    )

    def solve(f, x):
        return x

    assert raised(custom_root, lambda x: x, 1.0, solve, solve, has_aux=True) == (
        "with has_aux=True, solve must return a pair (solution, aux); it returned the float64 1.0.\n"
        "Remedy: return solution, aux; more than one auxiliary value is one tuple, (solution, (a, b))."
    )
    assert raised(custom_root, lambda x: {"a": x}, 1.0, solve, solve) == (
        "custom_root: f(x) must have the structure of initial_guess.\n"
        "f(x) is a dict with the key 'a', but initial_guess is a leaf."
    )


def secant(f, x):
    """A solver as it is written in NumPy: it asks for values, writes in place, and runs on none that is traced."""
    assert type(x) in (np.float64, np.ndarray)
    before, x = x.copy(), x * 1.1
    while np.max(np.abs(f(x))) > 1e-13:
        slope = (f(x) - f(before)) / np.where(x == before, 1.0, x - before)
        before = x.copy()
        x -= f(x) / np.where(slope == 0, 1.0, slope)
    return x


@pytest.mark.parametrize("start", [1.5, np.array([1.5, 2.5])], ids=["number", "array"])
def test_what_finds_a_root_runs_on_values(start):
    before = np.copy(start)
    solved = lambda g, y: y / g(np.ones_like(y))
    found = lambda a: custom_root(lambda x: x**3 - a, start, secant, solved)
    a = np.array([8.0, 27.0]) if np.ndim(start) else np.float64(8.0)
    np.testing.assert_allclose(found(a), np.cbrt(a), rtol=1e-12)
    total = lambda a: np.sum(found(a))
    slope, curve = np.cbrt(a) ** -2 / 3, -2 / 9 * np.cbrt(a) ** -5
    np.testing.assert_allclose(grad(total)(a), slope, rtol=1e-12)
    np.testing.assert_allclose(jvp(found, (a,), (np.ones_like(a),))[1], slope, rtol=1e-12)
    for second in (grad(lambda a: np.sum(grad(total)(a))), lambda a: jvp(grad(total), (a,), (np.ones_like(a),))[1]):
        np.testing.assert_allclose(second(a), curve, rtol=1e-11)
    np.testing.assert_array_equal(start, before)


def test_a_root_may_be_found_by_scipy_and_what_else_the_solver_says_comes_with_it():
    calls = []

    def solve(f, x):
        calls.append(x)
        return scipy.optimize.brentq(f, 0.0, 10.0), {"start": x}

    found = lambda a: custom_root(lambda x: x**3 - a, 1.0, solve, lambda g, y: y / g(1.0), has_aux=True)
    slope, aux = grad(found, has_aux=True)(8.0)
    np.testing.assert_allclose(slope, 1 / 12, rtol=1e-9)
    assert aux == {"start": 1.0} and calls == [1.0]
    with pytest.raises(TypeError, match="the argument of f must have the shape and dtype of initial_guess"):
        custom_root(lambda x: x - 1.0, np.ones(2), lambda f, x: f(x[:1]), lambda g, y: y)
