"""Custom rules, checkpoint, collectives and small tools against JAX: the same program, run by both."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import funcad
import funcad.lax

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

NAMES = "grad jit vmap jvp jacfwd jacrev hessian linearize".split()
NAMES += "custom_jvp custom_vjp custom_gradient checkpoint closure_convert".split()


def library(module, numpy, lax):
    return SimpleNamespace(np=numpy, lax=lax, **{n: getattr(module, n) for n in NAMES})


FUNCAD = library(funcad, np, funcad.lax)
JAX = library(jax, jax.numpy, jax.lax)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 4, 8))
W = RNG.normal(size=(4, 8))
V = np.array([0.3, -0.7, 1.1])


def same(program):
    found, wanted = (program(m) for m in (FUNCAD, JAX))
    a, b = funcad.tree.leaves(found), jax.tree.leaves(wanted)
    assert len(a) == len(b)
    for x, y in zip(a, b):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
        if np.asarray(x).dtype.kind != "i":  # JAX's axis_index is int32
            assert np.asarray(x).dtype == np.asarray(y).dtype


# -- collectives

COLLECTIVES = {
    "psum": lambda m, x: m.lax.psum(x, "i"),
    "pmean": lambda m, x: m.lax.pmean(x, "i"),
    "all_gather": lambda m, x: m.lax.all_gather(x, "i"),
    "all_gather axis": lambda m, x: m.lax.all_gather(x, "i", axis=1),
    "all_gather tiled": lambda m, x: m.lax.all_gather(x, "i", axis=1, tiled=True),
    "psum_scatter": lambda m, x: m.lax.psum_scatter(x, "i"),
    "psum_scatter tiled": lambda m, x: m.lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True),
    "ppermute": lambda m, x: m.lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 3), (3, 0)]),
    "pshuffle": lambda m, x: m.lax.pshuffle(x, "i", [1, 3, 0, 2]),
    "all_to_all": lambda m, x: m.lax.all_to_all(x, "i", 0, 0),
    "all_to_all tiled": lambda m, x: m.lax.all_to_all(x, "i", 1, 0, tiled=True),
    "axis_index": lambda m, x: x * m.lax.axis_index("i"),
}

MAPPED = {
    "value": lambda m, f: m.vmap(lambda x: f(m, x), axis_name="i")(X),
    "jit": lambda m, f: m.jit(m.vmap(m.jit(lambda x: f(m, x)), axis_name="i"))(X),
    "vmap grad": lambda m, f: m.vmap(m.grad(lambda x: m.np.sum(m.np.sin(f(m, x * x)))), axis_name="i")(X),
    "vmap grad jit": lambda m, f: m.vmap(m.grad(m.jit(lambda x: m.np.sum(m.np.sin(f(m, x * x))))), axis_name="i")(X),
    "grad vmap": lambda m, f: m.grad(lambda X: m.np.sum(m.np.sin(m.vmap(lambda x: f(m, x * x), axis_name="i")(X))))(X),
    "other axis": lambda m, f: m.vmap(m.vmap(lambda x: f(m, x), axis_name="i"))(np.stack([X, 2 * X])),
    "inner axis": lambda m, f: m.vmap(m.vmap(lambda x: f(m, x), axis_name="j"), axis_name="i")(np.stack([X, 2 * X], 1)),
    "jvp": lambda m, f: m.vmap(lambda x: m.jvp(lambda x: f(m, x * x), (x,), (x,))[1], axis_name="i")(X),
    "unmapped": lambda m, f: m.grad(
        lambda w: m.np.sum(m.np.sin(m.vmap(lambda x: m.np.sum(x) * f(m, w * w), axis_name="i")(X)))
    )(W),
}


@pytest.mark.parametrize("use", MAPPED)
@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives(name, use):
    if use == "unmapped" and name.startswith("all_to_all"):
        pytest.skip("JAX's all_to_all of an unmapped value has a wrong shape")
    same(lambda m: MAPPED[use](m, COLLECTIVES[name]))


@pytest.mark.parametrize("name", ["pmax", "pmin"])
def test_extrema(name):  # JAX has no derivative for them
    same(lambda m: m.vmap(lambda x: getattr(m.lax, name)(x, "i"), axis_name="i")(X))


def test_several_names():
    def f(m):
        def lane(x):
            return m.lax.psum(x, ("i", "j")), m.lax.pmean(x, ("j", "i")), m.lax.axis_index(("i", "j"))

        return m.vmap(m.vmap(lane, axis_name="j"), axis_name="i")(X)

    same(f)


# -- custom rules


def with_jvp(m):
    f = m.custom_jvp(lambda x, y: m.np.sin(x) * y)
    f.defjvp(lambda p, t: (f(*p), 2.0 * m.np.cos(p[0]) * p[1] * t[0] + m.np.sin(p[0]) * t[1]))
    return f


def with_vjp(m):
    f = m.custom_vjp(lambda x, y: m.np.sin(x) * y)
    f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda r, ct: (2.0 * m.np.cos(r[0]) * r[1] * ct, m.np.sin(r[0]) * ct))
    return f


def with_gradient(m):
    return m.custom_gradient(
        lambda x, y: (m.np.sin(x) * y, lambda ct: (2.0 * m.np.cos(x) * y * ct, m.np.sin(x) * ct))
    )


def with_checkpoint(m):
    return m.checkpoint(lambda x, y: m.np.sin(m.np.cos(x) * y))


FORWARD = {
    "jvp": lambda m, f: m.jvp(f, (0.3, 0.7), (1.0, 2.0)),
    "hessian": lambda m, f: m.hessian(f, argnums=(0, 1))(0.3, 0.7),
    "reverse forward": lambda m, f: m.jacrev(m.jacfwd(f))(0.3, 0.7),
    "linearize": lambda m, f: m.linearize(f, 0.3, 0.7)[1](1.0, 2.0),
    "vmap hessian": lambda m, f: m.vmap(m.hessian(f), in_axes=(0, None))(V, 0.7),
}
REVERSE = {
    "grad": lambda m, f: m.grad(f, argnums=(0, 1))(0.3, 0.7),
    "jit grad": lambda m, f: m.jit(m.grad(f, argnums=(0, 1)))(0.3, 0.7),
    "grad jit": lambda m, f: m.grad(m.jit(f), argnums=(0, 1))(0.3, 0.7),
    "grad grad": lambda m, f: m.grad(m.grad(f))(0.3, 0.7),
    "vmap grad": lambda m, f: m.vmap(m.grad(f, argnums=(0, 1)), in_axes=(0, None))(V, 0.7),
    "grad vmap": lambda m, f: m.grad(lambda x, y: m.np.sum(m.vmap(f, in_axes=(0, None))(x, y)), argnums=(0, 1))(V, 0.7),
    "grad scan": lambda m, f: m.grad(lambda x: m.lax.scan(lambda c, a: (f(c, a), f(a, c)), x, V)[0])(0.3),
    "vmap grad scan": lambda m, f: m.vmap(m.grad(lambda x: m.lax.scan(lambda c, a: (f(c, a), f(a, c)), x, V)[0]))(V),
    "grad cond": lambda m, f: m.grad(lambda x: m.lax.cond(x > 0, f, lambda x, y: f(y, x), x, 0.7))(0.3),
}


@pytest.mark.parametrize("use", FORWARD)
@pytest.mark.parametrize("make", [with_jvp, with_checkpoint])
def test_forward_mode(make, use):
    same(lambda m: FORWARD[use](m, make(m)))


@pytest.mark.parametrize("use", REVERSE)
@pytest.mark.parametrize("make", [with_jvp, with_vjp, with_gradient, with_checkpoint])
def test_reverse_mode(make, use):
    same(lambda m: REVERSE[use](m, make(m)))


def test_closure_convert():
    def f(m):
        def loss(a, x):
            h, values = m.closure_convert(lambda x: m.np.sin(a * x), x)
            return h(x, *values)

        return m.grad(loss, argnums=(0, 1))(2.0, 0.3)

    same(f)
