"""`grad(jit(f))` and its kin are called as `jit(grad(f))`: what they give, what they run, and when they must not."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, hvp, jit, jvp, value_and_grad
from funcad.backends.interpreter import counters
from tests.jitted.captured_cases import module
from tests.unseen import Noted

X = np.linspace(0.5, 2.0, 4)


def newton(a: Any) -> Any:
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = (x + a / x) / 2
    return x


def early(x: Any) -> Any:
    s = 0.0
    for v in x:
        if s > 1:
            break
        s = s + v * v * v
    return s


DERIVATIVES: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, x: grad(f)(x),
    "value_and_grad": lambda f, x: value_and_grad(f)(x),
    "jvp": lambda f, x: jvp(f, (x,), (x,)),
    "hvp": lambda f, x: hvp(f, (x,), (x,)),
    "jvp of grad": lambda f, x: jvp(grad(f), (x,), (x,)),
    "grad of jvp": lambda f, x: grad(lambda y: jvp(f, (y,), (x,))[1])(x),
    "grad of grad": lambda f, x: grad(lambda y: np.sum(grad(f)(y)))(x),
    "vjp": lambda f, x: funcad.vjp(f, x)[1](np.float64(1.0)),
    "hessian": lambda f, x: funcad.hessian(f)(x),
    "jacfwd": lambda f, x: funcad.jacfwd(f)(x),
    "jacrev of grad": lambda f, x: funcad.jacrev(grad(f), argnums=[0])(x),
}


def same(found: Any, expected: Any) -> None:
    found, expected = funcad.tree.leaves(found), funcad.tree.leaves(expected)
    assert [(type(x), np.shape(x)) for x in found] == [(type(x), np.shape(x)) for x in expected]
    for x, y in zip(found, expected):
        np.testing.assert_allclose(x, y, rtol=1e-10)


@pytest.mark.share(4)
@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("f, values", [(newton, [2.0, 7.0, 0.3, 2.0]), (early, [X, 0.1 * X, -X, X])], ids=["newton", "early"])
def test_they_agree_with_those_of_the_function(name: str, f: Any, values: list) -> None:
    j, derivative = jit(f), DERIVATIVES[name]
    for x in values * 3:
        x = np.float64(x) if isinstance(x, float) else x
        same(derivative(j, x), derivative(f, x))


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jvp", "hvp", "jvp of grad", "hessian", "jacfwd", "jacrev of grad"])
def test_known_paths_run_python_no_more(name: str) -> None:
    runs = Noted()

    def f(x: Any) -> Any:
        runs.note()
        return x * x * x if x > 1 else x

    j = jit(f)
    for _ in range(4):
        DERIVATIVES[name](j, np.float64(2.0))
    before, known = dict(counters), len(runs)
    DERIVATIVES[name](j, np.float64(3.0))
    assert len(runs) == known and counters["traces"] == before["traces"]


def test_another_jit_of_the_function_has_the_same_programs() -> None:
    f = lambda x: x * x if x > 1 else x
    for _ in range(4):
        grad(jit(f))(2.0)
    before = dict(counters)
    assert grad(jit(f))(2.0) == 4.0
    assert counters["traces"] == before["traces"]
    jit(f).clear_cache()
    assert grad(jit(f))(2.0) == 4.0
    assert counters["traces"] > before["traces"]


def test_effects_happen_once_also_on_new_paths() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        funcad.debug.callback(lambda v: seen.append(float(v)), x)
        return x * x if x > 1 else x

    g = grad(jit(f))
    values = [2.0, 2.0, 0.5, 3.0, 0.5, 0.25, 2.0]
    assert [g(x) for x in values] == [4.0, 4.0, 1.0, 6.0, 1.0, 1.0, 4.0]
    assert seen == values


def test_what_the_function_reads_is_as_fresh_as_in_it() -> None:
    made = module("k = 1.0\ndef f(x):\n    return x ** 2 * k if x > 0 else x")
    j = jit(made.f)
    g, v = grad(j), value_and_grad(j)
    for i in range(6):
        made.k = 0.5 + i
        assert (g(2.0), v(2.0), jvp(j, (2.0,), (1.0,))) == (4 * made.k, (4 * made.k,) * 2, (4 * made.k,) * 2)
        assert hvp(j, (2.0,), (1.0,)) == 2 * made.k


def test_a_rule_that_reads_a_number_which_keeps_changing() -> None:
    made = module(
        "k = 1.0\n@funcad.custom_vjp\ndef h(v):\n    return v * k\n"
        "h.defvjp(lambda v: (v * k, None), lambda kept, g: (g * k,))\ndef f(x):\n    return np.sum(h(x))"
    )
    g = jit(grad(made.f))
    for i in range(6):
        made.k = 0.5 + i
        np.testing.assert_allclose(g(X), made.k * np.ones(4))


def test_options_of_both() -> None:
    power = lambda x, n: x**n if n < 3 else x * n
    assert [grad(jit(power, static_argnums=1))(2.0, n) for n in (2, 3, 2, 4)] == [4.0, 3.0, 4.0, 4.0]
    assert [grad(jit(power, static_argnames="n"))(2.0, n=n) for n in (2, 3, 2, 4)] == [4.0, 3.0, 4.0, 4.0]
    given = X.copy()
    g = grad(jit(lambda x: np.sum(x * x), donate_argnums=0))
    for _ in range(4):
        np.testing.assert_array_equal(g(given), 2 * X)
    np.testing.assert_array_equal(given, X)
    both = grad(jit(lambda x, y: (x * y, {"sum": x + y})), argnums=[0, 1], has_aux=True)
    assert [both(2.0, 3.0) for _ in range(3)] == [((3.0, 2.0), {"sum": 5.0})] * 3
    assert [grad(jit(lambda x, y: x * y), argnames=["y"])(2.0, y=3.0) for _ in range(3)] == [{"y": 2.0}] * 3
    assert [grad(jit(lambda z: z * z), holomorphic=True)(2j) for _ in range(3)] == [4j] * 3


def test_derivatives_inside_others() -> None:
    cube = jit(lambda x: x**3 if x > 0 else x)
    outer = lambda y: grad(jit(lambda x: x * x * y if y > 0 else x))(3.0)
    for _ in range(3):
        assert grad(grad(grad(cube)))(2.0) == 6.0
        assert (grad(outer)(2.0), jit(grad(outer))(2.0), jvp(outer, (2.0,), (1.0,))) == (6.0, 6.0, (12.0, 6.0))
        np.testing.assert_allclose(funcad.vmap(grad(cube))(np.array([1.0, -1.0, 2.0])), [3.0, 1.0, 12.0])
        with funcad.disable_jit():
            assert grad(cube)(2.0) == 12.0


def test_errors_are_those_of_the_transform() -> None:
    g = grad(jit(lambda x: x * x))
    for _ in range(3):
        with pytest.raises(funcad.errors.NonDifferentiableInputError, match="integers and bools"):
            g(3)
        with pytest.raises(funcad.errors.NonScalarOutputError):
            g(X)
        with pytest.raises(TypeError, match="expected an array or a number, got str"):
            g("a")
        with pytest.raises(funcad.errors.TangentMismatchError):
            jvp(jit(newton), (1.0,), (X,))
        assert g(3.0) == 6.0
    assert jvp(jit(lambda x, n: x * n), (1.0, 2), (1.0, np.zeros((), funcad.float0))) == (2.0, 2.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        constant = grad(jit(lambda x: 3.0))
        assert [constant(1.0) for _ in range(3)] == [0.0] * 3
    assert [w.filename for w in caught] == [__file__]


def test_arguments_that_are_written_stay_the_callers() -> None:
    def f(x: Any) -> Any:
        x[0] = 3.0 * x[1]
        return np.sum(x * x) if x[1] > 0 else x[1]

    given, g = X.copy(), grad(jit(f))
    for _ in range(4):
        np.testing.assert_allclose(g(given), grad(f)(X.copy()))
    np.testing.assert_array_equal(given, X)


def test_nothing_keeps_a_dead_function() -> None:
    """Also functions with paths, whose caches are found by the function."""

    def used() -> Any:
        captured = np.ones(4)
        j = jit(lambda x: np.sum(x * captured) if x[0] > 0 else x[0])
        for x in (X, X, X, -X, -X):
            grad(j)(x), j(x), hvp(j, (x,), (x,))
        return weakref.ref(captured)

    alive = used()
    gc.collect()
    assert alive() is None


def test_threads() -> None:
    g = grad(jit(newton))
    values = np.linspace(0.1, 50.0, 40)
    found: dict[int, list[float]] = {}
    threads = [threading.Thread(target=lambda i=i: found.update({i: [g(a) for a in values]})) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i in range(4):
        np.testing.assert_allclose(found[i], 0.5 / np.sqrt(values), rtol=1e-9)
