"""funcad's functions in JAX and JAX's in funcad: all derivatives, nested, in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad.interop import from_jax, to_jax

pytestmark = [pytest.mark.jax, pytest.mark.filterwarnings("ignore")]
X = np.array([1.0, 2.0, 3.0])


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-12, atol=1e-14)


def plain(x: Any) -> Any:
    return np.sum(np.sin(x) ** 2 * x) / np.max(x)


def looping(x: Any) -> Any:
    carry, ys = funcad.scan(lambda c, row: (c * np.cos(row) + row, c), 0.5 * x[0], x)
    return funcad.cond(carry > 1, lambda: carry * carry, lambda: carry) + np.sum(ys)


def halving(x: Any) -> Any:
    return funcad.while_loop(lambda c: np.sum(c) > 1, lambda c: np.sin(c) * 0.9, x)


def masked(x: Any) -> Any:
    return np.sum(np.where(x > 1.5, np.sqrt(np.where(x > 1.5, x - 1.5, 0.0)), 0.0) ** 3)


def writes(x: Any) -> Any:
    x[0] = 1.0
    return x


@funcad.custom_vjp
def clipped(x: Any) -> Any:
    return np.sum(np.exp(x))


clipped.defvjp(lambda x: (clipped(x), x), lambda x, ct: (ct * np.minimum(np.exp(x), 5.0),))

FUNCTIONS = [plain, looping, masked]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_values_and_derivatives_by_funcads_rules(f: Any, jax: Any) -> None:
    g = to_jax(f)
    close(jax.jit(g)(X), f(X))
    close(jax.jit(jax.grad(g))(X), funcad.grad(f)(X))
    close(jax.jvp(g, (X,), (X,))[1], funcad.jvp(f, (X,), (X,))[1])
    expected = funcad.hessian(f)(X)
    for found in (jax.hessian(g), jax.jacfwd(jax.jacfwd(g)), jax.jacrev(jax.jacrev(g)), jax.jacrev(jax.jacfwd(g))):
        np.testing.assert_allclose(found(X), expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_mapped_and_checkpointed(f: Any, jax: Any) -> None:
    batch = np.stack([X, X + 0.5])
    close(jax.jit(jax.vmap(jax.grad(to_jax(f))))(batch), funcad.vmap(funcad.grad(f))(batch))
    close(jax.grad(jax.checkpoint(to_jax(f)))(X), funcad.grad(f)(X))


def test_a_custom_rule_is_kept(jax: Any) -> None:
    close(jax.grad(to_jax(clipped))(X), np.minimum(np.exp(X), 5.0))
    close(jax.vmap(jax.grad(to_jax(clipped)))(X[None])[0], np.minimum(np.exp(X), 5.0))


def test_bodies_of_loops_of_jax(jax: Any) -> None:
    g = to_jax(lambda c, x: np.sin(c) * x)

    def total(x: Any) -> Any:
        return jax.lax.scan(lambda c, row: (g(c, row), c), x[0], x)[1].sum()

    def same(x: Any) -> Any:
        return np.sum(funcad.scan(lambda c, row: (np.sin(c) * row, c), x[0], x)[1])

    close(jax.jit(jax.grad(total))(X), funcad.grad(same)(X))


def test_loops_of_unknown_length(jax: Any) -> None:
    g = to_jax(halving)
    close(jax.jit(g)(X), halving(X))
    close(jax.jit(jax.jacfwd(g))(X), funcad.jacfwd(halving)(X))
    with pytest.raises(NotImplementedError, match="reverse mode of a while loop"):
        jax.jacrev(g)(X)


def test_containers_numbers_and_dtypes(jax: Any) -> None:
    g = to_jax(lambda p, *, scale: {"a": p["w"] * scale, "b": (p["w"].sum(), p["n"] + 1)})
    out = g({"w": X.astype(np.float32), "n": 3}, scale=2.0)
    assert out["a"].dtype == np.float32 and int(out["b"][1]) == 4
    close(out["a"], 2 * X)
    z = jax.grad(lambda z: to_jax(lambda z: np.real(np.exp(z) * np.conj(z)))(z))(1.0 + 2.0j)
    close(z, jax.grad(lambda z: jax.numpy.real(jax.numpy.exp(z) * jax.numpy.conj(z)))(1.0 + 2.0j))


def test_export_holds_nothing_of_ours(jax: Any) -> None:
    exported = jax.export.export(jax.jit(jax.grad(to_jax(looping))))(jax.ShapeDtypeStruct((3,), np.float64))
    close(exported.call(X), funcad.grad(looping)(X))
    assert "custom_call" not in exported.mlir_module() and "callback" not in exported.mlir_module()


def test_shard_map(jax: Any) -> None:
    spec = jax.sharding.PartitionSpec
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    g, rows = to_jax(looping), np.stack([X, X / 2])

    def loss(w: Any, rows: Any) -> Any:
        return jax.lax.psum(jax.vmap(lambda row: g(row * w))(rows).sum(), "i")

    sharded = jax.shard_map(loss, mesh=mesh, in_specs=(spec(), spec("i")), out_specs=spec())
    close(jax.jit(jax.grad(sharded))(X, rows), funcad.grad(lambda w: looping(rows[0] * w) + looping(rows[1] * w))(X))


def test_what_cannot_go_is_named(jax: Any) -> None:
    with pytest.raises(NotImplementedError, match="to_jax: pure_callback at .*test_interop_jax"):
        jax.jit(to_jax(lambda x: funcad.pure_callback(np.sin, x, x)))(X)
    with pytest.raises(NotImplementedError, match="writes into its arguments, one of JAX's gives results"):
        to_jax(writes)(X)


def test_arguments_that_numpy_does_not_know(jax: Any) -> None:
    with pytest.raises(TypeError, match="an array of int4, which NumPy does not know"):
        to_jax(plain)(jax.numpy.ones(3, jax.numpy.int4))
    with pytest.raises(TypeError, match="an argument is a str, no array"):
        to_jax(plain)("x")


def test_a_narrow_float_goes_and_keeps_its_dtype(jax: Any) -> None:
    x = jax.numpy.asarray([0.5, 1.5, -2.0], jax.numpy.bfloat16)
    f = to_jax(lambda x: np.sum(x * x))
    assert f(x).dtype == jax.grad(f)(x).dtype == jax.numpy.bfloat16
    assert f(x) == 6.5 and np.array_equal(jax.grad(f)(x), 2 * x)


# -- JAX's functions in funcad


def two(jax: Any) -> Any:
    jnp = jax.numpy
    return lambda x, y: {"s": jnp.sum(jnp.tanh(x) * y), "v": x * y, "n": jnp.argmax(x)}


def in_numpy(x: Any, y: Any) -> Any:
    return {"s": np.sum(np.tanh(x) * y), "v": x * y, "n": np.argmax(x)}


def use(f: Any) -> Any:
    return lambda x: f(np.sin(x), x)["s"] * f(x, 2.0)["v"][0]


WAYS = [
    funcad.grad,
    funcad.hessian,
    lambda f: funcad.jit(funcad.grad(f)),
    lambda f: funcad.jacfwd(funcad.grad(f)),
    lambda f: lambda x: funcad.jit(funcad.vmap(funcad.grad(f)))(np.stack([x, x + 1])),
    lambda f: lambda x: funcad.vmap(funcad.hessian(f))(np.stack([x, x + 1])),
    lambda f: lambda x: funcad.jvp(f, (x,), (x,))[1],
    lambda f: funcad.grad(lambda x: funcad.scan(lambda c, row: (c * f(x * row), None), 1.0, x)[0]),
]


@pytest.mark.parametrize("way", WAYS)
def test_a_function_of_jax_as_an_operation(way: Any, jax: Any) -> None:
    np.testing.assert_allclose(way(use(from_jax(two(jax))))(X), way(use(in_numpy))(X), rtol=1e-9, atol=1e-12)


def test_results_are_numpys(jax: Any) -> None:
    out = from_jax(two(jax))(X, 2.0)
    assert type(out["v"]) is np.ndarray and type(out["s"]) is np.float64 and out["n"] == 2


def test_there_and_back(jax: Any) -> None:
    f = use(from_jax(two(jax)))
    close(jax.jit(jax.grad(to_jax(f)))(X), funcad.grad(use(in_numpy))(X))
    close(funcad.grad(from_jax(to_jax(use(in_numpy))))(X), funcad.grad(use(in_numpy))(X))
