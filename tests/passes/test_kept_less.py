"""What rolled loops keep for later ones, and the windows that their turns read and add to; the same bits as un-jitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad.backends.interpreter import Program
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.passes.pipeline import optimize
from funcad.passes.scatters import scatters
from funcad.primitives.arithmetic import add
from funcad.primitives.computed_slices import dynamic_add_p
from funcad.primitives.shape import broadcast_in_dim
from tests.agreement import same_bits

N = 40


def shortest_paths(x: Any) -> Any:
    for k in range(N):
        x = np.minimum(x, np.add.outer(x[:, k], x[k, :]))
    return x


def eliminated(x: Any) -> Any:
    for k in range(N):
        x = x * 0.5 + np.sin(x[:, k])[:, None] * x[k, :]
    return x


def columns(x: Any) -> Any:
    for k in range(N):
        x = x * x[:, k : k + 1]
    return x


def convolved(x: Any) -> Any:
    found = np.empty((N - 4, 6))
    w = np.linspace(0.1, 0.9, 30).reshape(5, 6)
    for i in range(N - 4):
        found[i] = np.sum(x[i : i + 5, 0, None] * w, axis=0)
    return found


def arguments(seed: int) -> list[np.ndarray]:
    """Also values with ties, NaN and both zeros."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.2, 1.2, (N, N))
    tied, odd = np.round(x, 1), rng.choice([0.0, -0.0, 1.0, -1.0], (N, N))
    missing = x.copy()
    missing[3, 5] = np.nan
    return [x, tied, odd, missing]


@pytest.mark.parametrize("f", [shortest_paths, eliminated, columns, convolved], ids=lambda f: f.__name__)
def test_gradients_have_the_same_bits(f: Any) -> None:
    """Weights are integers: sums of them, and of their halves, are exact in any order."""
    weights = np.random.default_rng(7).integers(-3, 4, size=f(np.ones((N, N))).shape) * 1.0
    gradient = funcad.grad(lambda x: np.sum(f(x) * weights))
    with funcad.config.set(jit_patience=0, engine="numpy"), np.errstate(all="ignore"):
        compiled = funcad.jit(gradient)
        for x in arguments(1):
            found, wanted = compiled(x), gradient(x)
            known = ~np.isnan(wanted)
            assert np.array_equal(known, ~np.isnan(found))
            if f in (shortest_paths, columns):
                assert same_bits(found[known], wanted[known])
            np.testing.assert_allclose(found[known], wanted[known], rtol=1e-9, atol=1e-300)
    with funcad.config.set(jit_patience=0), np.errstate(all="ignore"):
        compiled = funcad.jit(gradient)
        for x in arguments(1):
            np.testing.assert_allclose(compiled(x), gradient(x), rtol=1e-9, atol=1e-300)


def kept(f: Any) -> int:
    """Bytes of the largest value that a loop of the gradient keeps of all turns."""
    program = optimize(funcad.make_jaxpr(funcad.grad(lambda x: np.sum(f(x))))(np.ones((N, N))).jaxpr)
    loops = [e for e in program.equations if e.primitive.name == "loop"]
    assert loops
    return max([v.aval.size * v.aval.dtype.itemsize for e in loops for v in e.outputs[e.params["loop"].n_carry :]], default=0)


def test_masks_and_rows_are_kept() -> None:
    assert kept(shortest_paths) == N**3  # masks, not weights
    assert kept(convolved) <= (N - 4) * 5 * 6 * 8


def test_windows_are_added_to_what_is_there() -> None:
    program = optimize(funcad.make_jaxpr(funcad.grad(lambda x: np.sum(eliminated(x))))(np.ones((N, N))).jaxpr)
    (body,) = [e.params["loop"].body for e in program.equations if e.primitive.name == "loop" and e.params["loop"].reverse]
    zeros = {
        e.outputs[0] for e in body.equations if e.primitive.name == "broadcast_in_dim" and e.outputs[0].aval.shape == (N, N)
    }
    added = [e for e in body.equations if e.primitive.name == "dynamic_add"]
    assert added and not [e for e in added if e.inputs[0] in zeros]


@pytest.mark.parametrize("shapes", [[(1, N), (N, 1)], [(3, N)], [(2, N), (N, 3)], [(N, N), (1, N)]], ids=str)
def test_sums_of_windows_keep_their_bits(shapes: list[tuple[int, int]]) -> None:
    """Windows at any places, negative ones and those that are clamped too; zeros of both signs."""

    number, array = Aval((), np.dtype(np.int64)), Aval((N, N), np.dtype(float))
    x, k, *values = [Var(array), Var(number), *[Var(Aval(shape, array.dtype)) for shape in shapes]]
    sums = [Var(array) for _ in range(len(shapes) + 2)]
    zeros = Equation(broadcast_in_dim, (Literal(np.float64(0.0)),), {"shape": (N, N), "axes": ()}, (sums[0],), None)
    starts = [[Literal(np.int64(0)) if n == N else k for n in shape] for shape in shapes]
    added = [Equation(dynamic_add_p, (sums[i], v, *starts[i]), {}, (sums[i + 1],), None) for i, v in enumerate(values)]
    last = Equation(add, (x, sums[-2]), {}, (sums[-1],), None)
    before = Jaxpr((x, k, *values), (zeros, *added, last), (sums[-1],))
    after = scatters(before)
    assert after is not before
    rng = np.random.default_rng(3)
    draw = lambda shape: rng.choice([0.0, -0.0, *rng.normal(size=6)], shape)
    for place in (0, 7, N - 1, -2) * 5:
        given = [draw((N, N)), np.int64(place), *map(draw, shapes)]
        for one, other in zip(Program(after).run(list(given)), Program(before).run(list(given)), strict=True):
            assert same_bits(one, other)
