"""`jet`: known series, programs with loops and rules, compositions, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import factorial
from typing import Any

import numpy as np
import pytest
import scipy.special

import funcad
from funcad import grad, jet, jit, jvp, vmap
from funcad.errors import NonDifferentiableInputError, TangentMismatchError

lax = funcad.lax


def nested(f: Callable[[Any], Any], x: Any, v: Any, n: int) -> list[Any]:
    """f(x + t v) and its derivatives in t at 0, each by a jvp of the one before."""
    slope = lambda h: lambda t: jvp(h, (t,), (1.0,))[1]
    functions: list[Callable[[Any], Any]] = [lambda t: f(x + t * v)]
    for _ in range(n):
        functions.append(slope(functions[-1]))
    return [h(0.0) for h in functions]


@pytest.mark.parametrize(
    "f, derivative",
    [
        (np.exp, lambda k: 1.0),
        (np.sin, lambda k: [0.0, 1.0, 0.0, -1.0][k % 4]),
        (np.log1p, lambda k: 0.0 if k == 0 else (-1.0) ** (k - 1) * factorial(k - 1)),
        (lambda x: 1 / (1 - x), lambda k: float(factorial(k))),
        (lambda x: 1 / (1 + x * x), lambda k: 0.0 if k % 2 else (-1.0) ** (k // 2) * factorial(k)),
        (np.arctan, lambda k: 0.0 if k % 2 == 0 else (-1.0) ** (k // 2) * factorial(k - 1)),
        (lambda x: (1 + x) ** 2.5, lambda k: float(scipy.special.poch(2.5 - k + 1, k))),
        (lambda x: x**7, lambda k: float(factorial(7)) if k == 7 else 0.0),
    ],
    ids=["exp", "sin", "log1p", "geometric", "1/(1+x^2)", "arctan", "power", "x^7"],
)
@pytest.mark.parametrize("n", [1, 5, 20])
def test_known_series(f: Any, derivative: Any, n: int) -> None:
    value, terms = jet(f, (0.0,), ([1.0] + [0.0] * (n - 1),))
    expected = [derivative(k) for k in range(n + 1)]
    scale = [factorial(k) for k in range(n + 1)]
    np.testing.assert_allclose(np.array([value, *terms]) / scale, np.array(expected) / scale, atol=1e-13)


def scanned(x: Any) -> Any:
    c, ys = lax.scan(lambda c, z: (np.sin(c) * x + z, c * z), x, np.arange(1.0, 4.0))
    return c + ys.sum()


def looped(x: Any) -> Any:
    return funcad.while_loop(lambda c: c[1] < 5, lambda c: (c[0] * np.sin(x) + c[0] ** 2 * 0.1, c[1] + 1), (x, 0))[0]


def branched(x: Any) -> Any:
    step = lambda c, z: (funcad.cond(c > z, lambda y: np.sin(y) * x, lambda y: y * x + 1, c), c)
    return lax.scan(step, x, np.arange(3.0))[0]


def python_loop(x: Any) -> Any:
    while x < 5:
        x = x * x + 1.0
    return x


def written(x: Any) -> Any:
    a = np.zeros(3)
    a[1] = x
    a[2] = a[1] * x
    return a


def cube_root(x: Any) -> Any:
    newton = lambda f, g: funcad.while_loop(lambda s: abs(f(s)) > 1e-13, lambda s: s - f(s) / (3 * s * s + 1), g)
    return funcad.custom_root(lambda y: y**3 + y - x, 0.5, newton, lambda g, y: y / g(1.0))


@funcad.custom_jvp
def with_jvp(x: Any) -> Any:
    return np.sin(x)


@with_jvp.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return with_jvp(primals[0]), tangents[0] * np.cos(primals[0])


@funcad.custom_vjp
def with_vjp(x: Any) -> Any:
    return np.sin(x)


with_vjp.defvjp(lambda x: (with_vjp(x), x), lambda x, ct: (ct * np.cos(x),))

MATRIX, WAY = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([[1.0, 0.3], [0.1, 0.0]])
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "scan": scanned,
    "while_loop": looped,
    "cond in scan": branched,
    "Python's while": python_loop,
    "writes": written,
    "jit inside": jit(scanned),
    "checkpoint": funcad.checkpoint(scanned),
    "custom_jvp": with_jvp,
    "custom_vjp": with_vjp,
    "custom_root": cube_root,
    "grad of a scan": grad(scanned),
    "grad of a while_loop": grad(looped),
    "vmap inside": lambda x: vmap(lambda z: np.sin(z * x))(np.arange(3.0)),
    "solve": lambda x: np.linalg.solve(MATRIX + x * WAY, np.stack([x, x * x])),
    "conjugate gradients": lambda x: funcad.scipy.sparse.linalg.cg(
        lambda v: np.array([2.0, 3.0]) * v + x * v[::-1], np.stack([x, x * x])
    )[0],
    "cholesky": lambda x: np.linalg.cholesky(MATRIX + x * np.eye(2)),
    "qr": lambda x: np.linalg.qr(MATRIX + x * WAY)[1],
    "svd": lambda x: np.linalg.svd(MATRIX + x * WAY)[1],
    "expm": lambda x: funcad.scipy.linalg.expm(np.array([[0, x], [-x, 0.1]])),
    "einsum": lambda x: np.einsum("ij,jk,k->i", np.ones((2, 2)) * x, MATRIX * np.sin(x), np.stack([x, x])),
    "fft": lambda x: np.abs(np.fft.fft(np.stack([x, x * x, np.sin(x)]))),
    "complex": lambda x: np.abs(np.exp(1j * x) + x).real,
    "where": lambda x: np.where(x > 1, np.log(x - 1), x**2),
    "sort and norm": lambda x: np.sort(np.stack([x, x**2, np.sin(x)])) / np.linalg.norm(np.stack([x, x**2])),
    "x**x": lambda x: x**x,
    "erf and gamma": lambda x: scipy.special.erf(x) * scipy.special.gamma(x),
    "jet inside": lambda x: jet(np.sin, (x,), ([1.0, x],))[1][1],
    "one that does not depend on it": lambda x: np.ones(2),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    f, n = PROGRAMS[name], 4
    with np.errstate(all="ignore"):
        value, terms = jet(f, (0.4,), ([1.3] + [0.0] * (n - 1),))
        for found, wanted in zip([value, *terms], nested(f, 0.4, 1.3, n)):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


def test_a_curve_that_bends() -> None:
    """Faa di Bruno's formula for the third derivative."""
    x, (a, b, c) = 0.3, (0.7, -0.2, 1.1)
    _, (one, two, three) = jet(np.sin, (x,), ([a, b, c],))
    s, k = np.sin(x), np.cos(x)
    np.testing.assert_allclose([one, two, three], [k * a, k * b - s * a**2, k * c - 3 * s * a * b - k * a**3])


def test_several_arguments_and_pytrees() -> None:
    f = lambda p, t: {"y": p["a"] * np.exp(t * p["b"])}
    p = {"a": np.array([1.0, 2.0]), "b": 0.5}
    still = {"a": np.zeros(2), "b": 0.0}
    value, (one, two) = jet(f, (p, 0.3), ([still, still], [1.0, 0.0]))
    np.testing.assert_allclose(value["y"], p["a"] * np.exp(0.15))
    np.testing.assert_allclose(one["y"], 0.5 * value["y"])
    np.testing.assert_allclose(two["y"], 0.25 * value["y"])


def test_compositions() -> None:
    third = lambda x: jet(lambda y: np.sin(y) * y, (x,), ([1.0, 0.0, 0.0],))[1][2]
    exact = lambda x: -3 * np.sin(x) - x * np.cos(x)
    slope = lambda x: -4 * np.cos(x) + x * np.sin(x)
    xs = np.linspace(-1.0, 2.0, 5)
    np.testing.assert_allclose(third(xs[0]), exact(xs[0]))
    for g in (vmap(third), jit(vmap(third)), vmap(jit(third))):
        np.testing.assert_allclose(g(xs), exact(xs))
    for g in (grad(third), jit(grad(third)), grad(jit(third)), lambda x: jvp(third, (x,), (1.0,))[1]):
        np.testing.assert_allclose(g(0.7), slope(0.7))
    np.testing.assert_allclose(vmap(grad(third))(xs), slope(xs))
    jitted = jit(lambda x: third(x * 1.0))
    np.testing.assert_allclose([jitted(x) for x in xs], exact(xs))


def test_an_ordinary_differential_equation() -> None:
    """y' = y (1 - y): each derivative of the solution needs the ones before, from the right-hand side's series."""
    def derivatives(y: float, n: int) -> list[Any]:
        known: list[Any] = [y * (1 - y)]
        for _ in range(n - 1):
            known = [known[0], *jet(lambda y: y * (1 - y), (y,), (known,))[1]]
        return known

    y0, h = 0.3, 0.5
    exact = lambda t: 1 / (1 + (1 / y0 - 1) * np.exp(-t))
    found = y0 + sum(d * h ** (k + 1) / factorial(k + 1) for k, d in enumerate(derivatives(y0, 14)))
    np.testing.assert_allclose(found, exact(h), atol=1e-10)
    np.testing.assert_allclose(derivatives(y0, 8), jet(exact, (0.0,), ([1.0] + [0.0] * 7,))[1], rtol=1e-10)


def test_work_is_quadratic_in_the_order() -> None:
    """Counted in operations of the program that is traced."""
    f = lambda x: np.tanh(np.sin(x) * np.exp(x)) / (1 + x * x)
    counts = []
    for n in (8, 16, 32):
        jaxpr = funcad.make_jaxpr(lambda x, n=n: jet(f, (x,), ([1.0] + [0.0] * (n - 1),)))(0.3)
        counts.append(len(jaxpr.equations))
    assert counts[1] < 4.5 * counts[0] and counts[2] < 4.5 * counts[1]


def test_dtypes_and_order_zero() -> None:
    value, terms = jet(lambda x: np.sin(x) / x, (np.float32(0.5),), ([np.float32(1), np.float32(0)],))
    assert value.dtype == terms[0].dtype == terms[1].dtype == np.float32
    value, terms = jet(lambda z: z**2, (1j,), ([1.0 + 0j, 0j],))
    assert terms == [2j, 2]
    assert jet(np.sin, (0.5,), ([],)) == (np.sin(0.5), [])
    value, terms = jet(lambda x: (x, np.argmax(x)), (np.array([1.0, 2.0]),), ([np.ones(2)],))
    np.testing.assert_array_equal(terms[0][0], np.ones(2))


def test_results_are_the_users() -> None:
    x, v = np.ones(3), np.ones(3)
    value, (one, two) = jet(lambda x: x, (x,), ([v, np.zeros(3)],))
    value[0] = one[0] = two[0] = 5.0
    assert x[0] == v[0] == 1.0


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: jet(np.sin, 0.5, ([1.0],)), TangentMismatchError),
        (lambda: jet(np.sin, (0.5,), ([1.0], [1.0])), TangentMismatchError),
        (lambda: jet(np.add, (0.5, 0.5), ([1.0], [1.0, 2.0])), TangentMismatchError),
        (lambda: jet(np.sin, (0.5,), (1.0,)), TangentMismatchError),
        (lambda: jet(np.sin, (np.ones(2),), ([np.ones(3)],)), TangentMismatchError),
        (lambda: jet(np.sin, (0.5,), ([1j],)), TangentMismatchError),
        (lambda: jet(np.sin, ({"a": 0.5},), ([{"b": 0.5}],)), TangentMismatchError),
        (lambda: jet(np.sin, (1,), ([1.0],)), NonDifferentiableInputError),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, error: Any) -> None:
    with pytest.raises(error, match="jet|series"):
        call()


def test_an_error_inside_leaves_all_as_it_was() -> None:
    def f(x: Any) -> Any:
        if x > 0:
            raise RuntimeError("mine")
        return np.sin(x)

    with pytest.raises(RuntimeError, match="mine"):
        jet(f, (1.0,), ([1.0],))
    np.testing.assert_allclose(jet(f, (-1.0,), ([1.0],))[1], [np.cos(1.0)])


def test_warnings_and_errors_are_of_the_users_line() -> None:
    def f(x: Any) -> Any:
        return np.log(x) * 2.0

    for call in (lambda: jet(f, (-1.0,), ([1.0, 0.0],)), lambda: funcad.laplacian(f)(np.array([-1.0]))):
        with pytest.warns(RuntimeWarning, match="invalid value encountered in log") as caught:
            call()
        assert [w.filename for w in caught] == [__file__]
    with pytest.raises(np.linalg.LinAlgError) as raised:
        jet(lambda x: np.linalg.inv(x), (np.zeros((2, 2)),), ([np.ones((2, 2))],))
    assert "test_jets.py" in "".join(raised.value.__notes__)


def test_threads() -> None:
    found: list[Any] = [None] * 4

    def work(i: int) -> None:
        found[i] = jet(lambda x: np.exp(np.sin(x) * i), (0.3,), ([1.0, 0.0],))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i in range(4):
        np.testing.assert_allclose(found[i][1], nested(lambda x, i=i: np.exp(np.sin(x) * i), 0.3, 1.0, 2)[1:])
