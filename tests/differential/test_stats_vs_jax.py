"""funcad.scipy.stats, funcad.ops, funcad.image, funcad.flatten_util beside JAX: values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad import flatten_util, grad, image, ops
from funcad.scipy import stats
from tests.surface.stats import CONTINUOUS, DISCRETE

jax = pytest.importorskip("jax")

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
METHODS = ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf", "logpmf", "pmf")


def laws() -> list[tuple[str, str]]:
    import jax.scipy.stats as theirs

    return [
        (name, method)
        for name in (*CONTINUOUS, *DISCRETE)
        if hasattr(theirs, name)
        for method in METHODS
        if hasattr(getattr(theirs, name), method) and not (name in DISCRETE and method in ("ppf", "isf"))
    ]


def close(found: Any, expected: Any, rtol: float = 1e-8) -> None:
    for a, b in zip(funcad.tree.leaves(found), jax.tree.leaves(expected)):
        np.testing.assert_allclose(a, np.asarray(b), rtol=rtol, atol=1e-9)


@pytest.fixture(autouse=True)
def _double() -> Any:
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


@pytest.mark.parametrize(("name", "method"), laws())
def test_laws(name: str, method: str) -> None:
    ours, theirs = (getattr(getattr(m, name), method) for m in (stats, jax.scipy.stats))
    if name in CONTINUOUS:
        x, parameters = CONTINUOUS[name]
        x = np.array([0.07, 0.42, 0.93]) if method in ("ppf", "isf") else 1.7 * x + 0.2
        args = [x, *map(np.float64, parameters), np.float64(0.2), np.float64(1.7)]
        if name in ("vonmises", "wrapcauchy", "gennorm"):  # JAX's take no loc and scale
            args = args[:2]
        which = tuple(range(len(args)))
    else:
        fixed, *parameters = DISCRETE[name]
        args = [np.array([0, 1, 1]) if name == "bernoulli" else np.array([1, 2, 4]), *map(np.float64, (*fixed, *parameters))]
        which = tuple(range(1 + len(fixed), len(args)))
    close(ours(*args), theirs(*args))
    shaped = method in ("cdf", "sf", "logcdf", "logsf", "ppf", "isf") and name in (
        "beta",
        "gamma",
        "chi2",
        "t",
        "nbinom",
        "gennorm",
    )
    if shaped:  # JAX has no derivatives of the incomplete beta function by its shapes
        which = tuple([i for i in which if not 1 <= i <= len(args) - 3 and name in CONTINUOUS])
    if not which or name.startswith("gumbel"):  # JAX's gumbel_l and gumbel_r raise when they are differentiated in scale
        return

    def total(f: Any, xp: Any) -> Any:
        return lambda *values: xp.sum(xp.where(xp.isfinite(y := f(*values)), y, 0.0))

    import jax.numpy as jnp

    close(grad(total(ours, np), argnums=which)(*args), jax.grad(total(theirs, jnp), argnums=which)(*args), 1e-6)


def test_vectors() -> None:
    x, mean, a = RNG.normal(size=(4, 3)), RNG.normal(size=3), RNG.normal(size=(3, 3))
    args = (x, mean, a @ a.T + np.eye(3))
    for ours, theirs, values in (
        (stats.multivariate_normal.logpdf, jax.scipy.stats.multivariate_normal.logpdf, args),
        (stats.dirichlet.logpdf, jax.scipy.stats.dirichlet.logpdf, (np.array([0.2, 0.3, 0.5]), np.array([2.0, 0.7, 3.0]))),
        (
            lambda d: stats.gaussian_kde(d).logpdf(x.T),
            lambda d: jax.scipy.stats.gaussian_kde(d).logpdf(x.T),
            (RNG.normal(size=(3, 9)),),
        ),
        (lambda z: stats.sem(z, axis=1), lambda z: jax.scipy.stats.sem(z, axis=1), (x,)),
    ):
        which = tuple(range(len(values))) if ours is not stats.dirichlet.logpdf else (1,)
        close(ours(*values), theirs(*values))
        close(
            grad(lambda *v, f=ours: f(*v).sum(), argnums=which)(*values),
            jax.grad(lambda *v, f=theirs: f(*v).sum(), argnums=which)(*values),
        )


@pytest.mark.parametrize("name", ["segment_sum", "segment_prod", "segment_max", "segment_min"])
def test_segments(name: str) -> None:
    ours, theirs = getattr(ops, name), getattr(jax.ops, name)
    for x in (RNG.normal(size=6), RNG.normal(size=(6, 2)), RNG.normal(size=6).astype(np.float32), RNG.integers(0, 5, 6)):
        for ids in (np.array([0, 2, 0, 1, 1, 2]), np.array([5, 0, -1, 1, 1, 9])):
            for mode in (None, "clip", "drop"):
                for number in (None, 3, 4):
                    found, expected = ours(x, ids, number, mode=mode), np.asarray(theirs(x, ids, number, mode=mode))
                    assert found.dtype == expected.dtype
                    np.testing.assert_allclose(found, expected, rtol=1e-6)
        if x.dtype.kind == "f" and name != "segment_prod":  # JAX has no derivative of that
            ours_of, theirs_of = ((lambda z, f=f: (f(z, np.array([0, 2, 0, 1, 1, 2]), 3) ** 2).sum()) for f in (ours, theirs))
            close(grad(ours_of)(x), jax.grad(theirs_of)(x), 1e-5)


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("method", ["nearest", "linear", "lanczos3", "lanczos5", "cubic", "cubic-pytorch", "area"])
def test_images(method: str, antialias: bool) -> None:
    for x, shapes in (
        (RNG.normal(size=(5, 7, 2)), [(3, 9, 2), (11, 4, 2), (5, 7, 2), (1, 1, 2), (10, 14, 2)]),
        (RNG.normal(size=6).astype(np.float32), [(4,), (13,)]),
        (RNG.integers(0, 9, (4, 4)), [(2, 7)]),
        (RNG.normal(size=(4, 4)) + 1j, [(2, 7)]),
    ):
        for shape in shapes:
            found, expected = (
                image.resize(x, shape, method, antialias),
                np.asarray(jax.image.resize(x, shape, method, antialias)),
            )
            assert found.dtype == expected.dtype and found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-5 if x.dtype == np.float32 else 1e-10, atol=1e-6)
    if method == "nearest":
        return
    args = (RNG.normal(size=(5, 7)), np.array([1.21, 0.63]), np.array([0.17, -0.28]))

    def moved(module: Any) -> Any:
        return lambda x, s, t: module.image.scale_and_translate(x, (6, 5), (0, 1), s, t, method, antialias)

    close(moved(funcad)(*args), moved(jax)(*args))
    close(
        grad(lambda *v: (moved(funcad)(*v) ** 2).sum(), argnums=(0, 1, 2))(*args),
        jax.grad(lambda *v: (moved(jax)(*v) ** 2).sum(), argnums=(0, 1, 2))(*args),
    )


def test_ravel_pytree() -> None:
    from jax.flatten_util import ravel_pytree

    for tree in ({"b": np.float32(3), "w": np.ones((2, 3))}, [np.arange(3), np.ones(2)], [], 2.0):
        found, expected = flatten_util.ravel_pytree(tree)[0], ravel_pytree(tree)[0]
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
