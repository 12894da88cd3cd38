"""`x[i] += y` is an addition to a part, whose derivative hands cotangents on; sums of placements in one native program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import config, grad, jit, jvp, vmap
from funcad.ir.aval import Aval
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, prune
from funcad.passes.pipeline import optimize
from funcad.passes.redundancy import inline
from funcad.passes.scatters import scatters
from funcad.primitives.basic_indexing import basic_add_p, basic_index_p, basic_update_p
from funcad.primitives.shape import broadcast_in_dim as broadcast_in_dim_p

RNG = np.random.default_rng(31)
X, Y = RNG.normal(size=(6, 8)), RNG.normal(size=(4, 8))


def names(jaxpr: Jaxpr) -> list[str]:
    return [e.primitive.name for e in jaxpr.equations]


def added(x: Any, y: Any) -> Any:
    x = x.copy()
    x[1:5] += y
    return x


def subtracted(x: Any, y: Any) -> Any:
    x = x.copy()
    x[1:5, ::2] -= 2.0 * y[0, ::2]
    return x


def aliased(x: Any, y: Any) -> Any:
    x = x.copy()
    part, corner = x[2:], x[3, 4:]
    part -= y
    corner += 1.5
    part[1] += x[0]
    return x * part[1] + corner.sum()


def converted(x: Any, y: Any) -> Any:
    x = x.astype(np.float32)
    x[1:5] += y.astype(np.float32)
    x[0] += 3
    return x


def into_view(x: Any, y: Any) -> Any:
    x = x.copy()
    x.T[2:6, 1:5] += y.T[:4]
    x[::-1][1] -= y[1]
    return x


FUNCTIONS = [added, subtracted, aliased, converted, into_view]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_values_and_derivatives(f: Callable[..., Any]) -> None:
    loss = lambda x, y: np.sum(np.sin(f(x, y)))
    rtol = 1e-5 if f is converted else 1e-12
    cases: list[tuple[Callable[..., Any], Any]] = [
        (f, Y),
        (grad(loss, (0, 1)), Y),
        (vmap(loss, (None, 0)), np.stack([Y, 2 * Y])),
        (lambda x, y: jvp(loss, (x, y), (y.sum() * x, y)), Y),
    ]
    with config.set(jit_patience=0):
        for g, y in cases:
            jitted, expected = jit(g), funcad.tree.leaves(g(X, y))
            for _ in range(3):
                for one, other in zip(funcad.tree.leaves(jitted(X, y)), expected, strict=True):
                    np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_the_bits_are_those_of_the_sum(dtype: Any) -> None:
    x, y = (a.astype(dtype) for a in (X, Y))
    x[1], y[0] = -0.0, 0.0
    y[1, 3] = np.inf
    with config.set(jit_patience=0):
        for f in (added, subtracted):
            for _ in range(2):
                with np.errstate(all="ignore"):
                    found, expected = jit(f)(x, y), f(x, y)
                assert found.tobytes() == expected.tobytes() and found.dtype == expected.dtype


def test_it_is_recorded_as_an_addition() -> None:
    assert "basic_update" not in names(inline(funcad.make_jaxpr(added)(X, Y).jaxpr))
    whole = optimize(inline(funcad.make_jaxpr(grad(lambda x, y: np.sum(X * added(x, y)), (0, 1)))(X, Y).jaxpr))
    assert "basic_update" not in names(whole) and "basic_add" not in names(whole)


@pytest.mark.parametrize("kind", ["i8", "?"])
def test_whole_numbers_and_bools_are_written(kind: str) -> None:
    def f(x: Any) -> Any:
        x = x.copy()
        x[1:3] += x[:2]
        return x

    x = np.arange(8).reshape(4, 2).astype(kind)
    with config.set(jit_patience=0):
        np.testing.assert_array_equal(jit(f)(x), f(x))


def test_a_part_that_is_set_to_zero_and_given_back_is_zero_added_to_it() -> None:
    shapes = (X.shape, (3, 8), X.shape, (3, 8), X.shape)
    a, zeros, without, part, result = [Var(Aval(shape, np.dtype(float))) for shape in shapes]
    index = {"index": ((1, 3, 1), (0, 8, 1))}
    equations = (
        Equation(broadcast_in_dim_p, (Literal(np.float64(0.0)),), {"shape": (3, 8), "axes": ()}, (zeros,)),
        Equation(basic_update_p, (a, zeros), index, (without,)),
        Equation(basic_index_p, (a,), index, (part,)),
        Equation(basic_add_p, (without, part), index, (result,)),
    )
    jaxpr = Jaxpr((a,), equations, (result,))
    found = scatters(jaxpr)
    x = X.copy()
    x[2], x[5] = -0.0, -0.0
    (one,), (other,) = eval_jaxpr(jaxpr, [x]), eval_jaxpr(found, [x])
    assert one.tobytes() == other.tobytes()
    assert "basic_update" not in names(prune(found))


def test_a_derivative_that_is_largely_placements_is_one_native_function() -> None:
    pytest.importorskip("llvmlite")

    def f(x: Any) -> Any:
        y = 4.0 * x[1:-1, 1:-1] - (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2])
        z = y[1:, :] - y[:-1, :]
        return np.sum(np.where(z * (x[2:-1, 1:-1] - x[1:-2, 1:-1]) > 0, 0.0, z) ** 2)

    x = RNG.normal(size=(700, 500))
    with config.set(jit_patience=0, engine="native"):
        jitted = jit(grad(f))
        for _ in range(2):
            np.testing.assert_allclose(jitted(x), grad(f)(x), rtol=1e-10, atol=1e-12)
        assert jitted.explain(x).engine == "native"
