"""`np.random.normal(size=3)` in a jitted function: the plain function's numbers, in its order, at each call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.random as npr
import pytest
import scipy.integrate
import scipy.linalg
import scipy.sparse
import scipy.stats

import funcad
from funcad import checkpoint, grad, hvp, jit, jvp, tree, value_and_grad, vjp, vmap
from funcad.errors import NotCompiledWarning, RandomStateError

X = np.arange(1.0, 4.0)


def noisy(x: Any) -> Any:
    return np.sum(np.sin(x) ** 2 * np.random.normal(size=3)) * np.random.uniform()


def dropout(x: Any) -> Any:
    for _ in range(2):
        x = np.tanh(x) * (np.random.rand(3) > 0.5) / 0.5
    return x


def step_by_step(x: Any) -> Any:
    total = x
    for _ in range(4):
        total = total + np.random.normal() * x
    return total


DRAWS: dict[str, Callable[[Any], Any]] = {
    "normal": lambda x: x + np.random.normal(size=3),
    "a Python number": lambda x: x * np.random.normal(),
    "another name": lambda x: x * npr.standard_normal(3),
    "rand and randn": lambda x: np.random.rand(2, 3) @ x + np.random.randn(),
    "randint as an index": lambda x: x[np.random.randint(3)],
    "dtype": lambda x: np.random.randint(0, 9, 3, dtype=np.int32),
    "permutation of an int": lambda x: x[np.random.permutation(3)],
    "permutation of an array": lambda x: x * np.random.permutation(np.array([1.0, 5.0, 7.0])),
    "choice": lambda x: x * np.random.choice(5, size=3, replace=False),
    "choice of an array's": lambda x: x * np.random.choice(np.array([1.0, 5.0]), p=[0.25, 0.75]),
    "parameters": lambda x: x + np.random.uniform(low=np.array([1.0, 2.0, 3.0]), high=4.0),
    "multivariate": lambda x: x * np.random.multivariate_normal(np.zeros(3), np.eye(3)),
    "empty": lambda x: (x, np.random.normal(size=0)),
    "several results": lambda x: (np.random.random_sample(2), np.random.poisson(3.0), x),
    "nobody reads it": lambda x: (np.random.normal(), x * np.random.uniform())[1],
    "dropout": dropout,
    "a loop": step_by_step,
    "in a gradient": grad(noisy),
    "in a checkpoint": value_and_grad(checkpoint(noisy)),
    "in a jvp": lambda x: jvp(noisy, (x,), (np.ones_like(x),)),
    "in a vjp": lambda x: [pull(1.0) for out, pull in [vjp(noisy, x)] for _ in range(2)],
    "in an inner jit": lambda x: jit(noisy)(x) + np.random.normal(),
    "in an inlined jit": lambda x: jit(noisy, inline=True)(x) + np.random.normal(),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", DRAWS)
def test_numbers_are_the_plain_functions(name: str, dtype: Any) -> None:
    f, x = DRAWS[name], X.astype(dtype)
    program = jit(f)
    misses = program.cache_info().misses
    np.random.seed(7)
    expected = [f(x) for _ in range(6)]
    after = np.random.normal()
    np.random.seed(7)
    found = [program(x) for _ in range(6)]
    assert np.random.normal() == after  # as many were drawn
    for a, b in zip(tree.leaves(found), tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5 if dtype is np.float32 else 1e-12)
        assert np.asarray(a).dtype == np.asarray(b).dtype and np.shape(a) == np.shape(b)
    assert program.cache_info().misses == misses + 1


@pytest.mark.parametrize("transform", [grad, value_and_grad, lambda f: lambda x: hvp(f, (x,), (x,)), funcad.hessian])
@pytest.mark.parametrize("body", [noisy, checkpoint(noisy)])
def test_derivatives_of_a_jitted_function_draw_once(transform: Callable[..., Any], body: Callable[..., Any]) -> None:
    np.random.seed(3)
    expected = [transform(noisy)(X) for _ in range(4)]
    for f in (transform(jit(body)), jit(transform(body))):
        np.random.seed(3)
        found = [f(X) for _ in range(4)]
        if transform is not funcad.hessian:  # as un-jitted, it runs the function for each column, or once
            for a, b in zip(tree.leaves(found), tree.leaves(expected), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12)


def test_loops_draw_at_each_turn() -> None:
    def f(x: Any) -> Any:
        return funcad.lax.scan(lambda c, _: (c + np.random.normal(), c), x, None, length=4)[0]

    np.random.seed(1)
    found = [jit(f)(1.0), jit(f)(1.0)]
    np.random.seed(1)
    np.testing.assert_allclose(found, [1.0 + np.random.normal(size=4).sum() for _ in range(2)])


_LANES: dict[str, Callable[[Any], Any]] = {
    "vmap": vmap(lambda x: x + np.random.normal()),
    "jit of vmap": jit(vmap(lambda x: x + np.random.normal())),
    "vmap of jit": vmap(jit(lambda x: x + np.random.normal())),
    "vmap of grad": vmap(grad(lambda x: x * np.random.normal())),
    "a loop in vmap": vmap(lambda x: x + funcad.lax.scan(lambda c, _: (c + np.random.normal(), c), 0.0, None, length=2)[0]),
    "a checkpoint in vmap": vmap(lambda x: x + checkpoint(lambda: np.random.normal())()),
}


@pytest.mark.parametrize("name", _LANES)
def test_vmap_refuses(name: str) -> None:
    state = np.random.get_state()[1].tolist()
    with pytest.raises(RandomStateError, match="inside vmap"):
        _LANES[name](X)
    assert np.random.get_state()[1].tolist() == state


@pytest.mark.parametrize(
    "f, match",
    [
        (lambda x: np.random.normal(x), "traced parameter"),
        (lambda x: np.random.normal(0.0, scale=x), "traced parameter"),
        (lambda x: x * np.random.default_rng().normal(), "other numbers"),
        (lambda x: x * np.random.RandomState(None).normal(), "without a seed"),
        (lambda x: x * np.random.RandomState().normal(), "without a seed"),
    ],
)
def test_what_cannot_be_drawn_anew_is_not_compiled(f: Callable[..., Any], match: str) -> None:
    drawing, drawn = jit(f), set()
    with pytest.warns(NotCompiledWarning, match=match):
        drawn.add(np.sum(drawing(X)))
    assert len(drawn | {np.sum(drawing(X)), np.sum(drawing(X))}) == 3
    with pytest.raises(RandomStateError):
        vmap(jit(f))(X)


def test_numpys_own_errors() -> None:
    with pytest.raises(ValueError, match="scale < 0"):
        jit(lambda x: x + np.random.normal(0.0, -1.0))(X)


def test_unjitted_gradients_draw_as_ever() -> None:
    np.random.seed(5)
    found = [grad(noisy)(X) for _ in range(3)]
    np.random.seed(5)
    np.testing.assert_array_equal(found, [grad(noisy)(X) for _ in range(3)])
    assert not np.array_equal(found[0], found[1])


def test_the_functions_are_numpys_elsewhere() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        thread = threading.Thread(target=lambda: seen.append(type(np.random.normal())))
        thread.start()
        thread.join()
        return x * 1.0

    vmap(f)(X)
    assert seen == [float]
    assert np.random.normal is npr.normal and isinstance(np.random.RandomState(0), np.random.RandomState)


LINE = np.arange(12.0)
FROZEN = scipy.stats.multivariate_normal(cov=np.eye(4) + 0.3)
SEEDED = scipy.stats.multivariate_normal(cov=np.eye(4) + 0.3, seed=3)
UNSEEDED: dict[str, Callable[[], Any]] = {
    "random_array": lambda: scipy.sparse.random_array((5, 5), density=0.5).toarray().sum(),
    "rand": lambda: scipy.sparse.rand(5, 5, density=0.5).toarray().sum(),
    "clarkson_woodruff_transform": lambda: scipy.linalg.clarkson_woodruff_transform(np.eye(40), 2)[0] @ np.arange(40.0),
    "MultivariateNormalQMC": lambda: scipy.stats.qmc.MultivariateNormalQMC(np.zeros(2)).random(2).sum(),
    "PermutationMethod": lambda: scipy.stats.pearsonr(LINE, np.sin(LINE), method=scipy.stats.PermutationMethod()).pvalue,
    "multivariate_normal.cdf": lambda: scipy.stats.multivariate_normal.cdf(np.ones(4), cov=np.eye(4) + 0.3),
    "a frozen cdf": lambda: FROZEN.cdf(np.ones(4)),
    "a frozen cdf that has a seed": lambda: SEEDED.logcdf(np.ones(4)),
    "multivariate_t.cdf": lambda: scipy.stats.multivariate_t.cdf(np.ones(4), shape=np.eye(4) + 0.3, df=5),
    "qmc_quad": lambda: scipy.integrate.qmc_quad(lambda v: np.sum(v**2, axis=0), [0, 0], [1, 1], n_points=16).integral,
    "multiscale_graphcorr": lambda: scipy.stats.multiscale_graphcorr(LINE, np.sin(LINE), reps=20).pvalue,
    "dunnett": lambda: scipy.stats.dunnett(X, X[::-1] ** 2, control=X**2 + 1.0).pvalue.sum(),
}
if hasattr(scipy.stats, "Normal"):  # from 1.15 on
    UNSEEDED["sample"] = lambda: scipy.stats.Normal().sample()


@pytest.mark.parametrize("name", UNSEEDED)
@pytest.mark.filterwarnings("ignore::funcad.errors.NotCompiledWarning", "ignore:The number of replications")
def test_what_scipy_draws_without_a_seed_is_drawn_at_each_call(name: str) -> None:
    draw = UNSEEDED[name]
    f = lambda x: draw() * x
    for way in (jit(f), jit(grad(f))):
        found = [float(way(1.0)) for _ in range(10)]
        assert len(set(found[4:])) > 1


def test_what_scipy_draws_from_a_seed_is_compiled() -> None:
    f = lambda x: x * scipy.sparse.random_array((3, 3), density=0.5, rng=3).toarray().sum()
    g = lambda x: x * scipy.stats.qmc.MultivariateNormalQMC(np.zeros(2), rng=np.random.default_rng(1)).random(2).sum()
    t = lambda x: x * scipy.stats.multivariate_t.cdf(np.ones(4), shape=np.eye(4) + 0.3, df=5, random_state=3)
    n = lambda x: x * scipy.stats.norm.cdf(1.0)
    for h in (f, g, t, n):
        jitted = jit(h)
        assert [jitted(2.0) for _ in range(4)] == [h(2.0)] * 4
