"""Patterns found on index sets, against dense Jacobians: of every operation of the table, and of programs."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import funcad
from funcad import jacfwd
from funcad.flatten_util import ravel_pytree
from funcad.ir.aval import aval_of
from funcad.ir.trace import trace_function
from funcad.sparse import index_sets
from funcad.sparse.index_sets import pattern_of
from tests.specs import all_specs

pytestmark = pytest.mark.share(2)  # of its tables of cases

SPECS = [s for s in all_specs() if s.order > 0]


def pattern(f, x):
    jaxpr, consts = trace_function(lambda v: [f(v)], [aval_of(x)], name="test")
    return pattern_of(jaxpr, consts).toarray()


def as_vectors(op, args):
    """The call as a function of one vector, or None: the real arguments with a derivative, and the real results."""
    positions = [i for i in op.differentiable(args) if np.asarray(args[i]).dtype.char == "d"]
    if not positions:
        return None
    vector, tree_of = ravel_pytree([args[i] for i in positions])

    def f(v):
        outs = op.of_variables(args, positions)(*tree_of(v))
        parts = [np.ravel(o) for o in outs if aval_of(o).dtype.kind == "f"]
        return np.concatenate(parts) if parts else np.zeros(0)

    return f, vector


@pytest.mark.share(8)
@pytest.mark.parametrize("op", SPECS, ids=lambda op: op.id)
def test_patterns_of_operations_hold_what_is_not_zero(op):
    for args in op.samples():
        found = as_vectors(op, args)
        if found is None or found[1].size == 0:
            continue
        f, x = found
        with np.errstate(all="ignore"):
            dense = jacfwd(f)(x)
        there = pattern(f, x)
        assert there.shape == dense.shape
        missed = (dense != 0) & ~there
        assert not missed.any(), op.id


@pytest.mark.slow
def test_patterns_of_sums_and_moves_are_exact():
    """A pattern of ones everywhere would pass what stands above."""
    exact = 0
    for op in SPECS:
        if not all(p.reach in ("moves", "pointwise", "reads", "picks") for p in op.primitives):
            continue
        for args in op.samples():
            found = as_vectors(op, args)
            if found is None or found[1].size < 3:
                continue
            with np.errstate(all="ignore"):
                dense = jacfwd(found[0])(found[1])
            exact += (pattern(*found) == (dense != 0)).all()
    assert exact > 100


N = 6
MATRIX = np.triu(np.ones((N, N))) * (np.arange(N) % 2)
MASK = np.array([1.0, 0.0, 2.0, 0.0, 0.0, 3.0])
INDEX = np.array([5, 0, 0, 3, 1, 1])


def shifted_scan(x):
    return funcad.scan(lambda c, v: (v, c * v), x[0], x)[1]


def grown_while(x):
    return funcad.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, np.roll(s[1], 1) * 2), (0, x))[1]


@funcad.custom_vjp
def doubled(x):
    return 2 * x


doubled.defvjp(lambda x: (2 * x, None), lambda _, ct: (2 * ct,))

STEPS = {
    "sin": np.sin,
    "square": lambda x: x * x,
    "mask": lambda x: MASK * x,
    "roll": lambda x: np.roll(x, 1),
    "difference": lambda x: np.append(x[1:] - x[:-1], x[0]),
    "gather": lambda x: x[INDEX],
    "scatter": lambda x: funcad.numpy.at(x)[INDEX].add(x),
    "matrix": lambda x: MATRIX @ x,
    "where": lambda x: np.where(MASK > 0, x, x[::-1]),
    "where of values": lambda x: np.where(x > 0, x, x[::-1]),
    "blocks": lambda x: np.outer(x.reshape(2, 3).sum(1), [1.0, 0.0, 2.0]).ravel(),
    "columns": lambda x: (x.reshape(2, 3).T @ np.array([[1.0, 0.0], [0.0, 2.0]])).ravel(),
    "softmax": lambda x: funcad.nn.softmax(x.reshape(2, 3)).ravel(),
    "cumsum": lambda x: np.cumsum(x.reshape(3, 2), 0).ravel(),
    "convolve": lambda x: np.convolve(x, np.array([1.0, 0.0, 2.0]), "same"),
    "scan": shifted_scan,
    "while": grown_while,
    "fori": lambda x: funcad.fori_loop(0, N - 1, lambda i, v: funcad.numpy.at(v)[i].add(v[i + 1] ** 2), x),
    "cond": lambda x: funcad.cond(x[0] > 0, lambda v: v * 2, lambda v: v[::-1] * MASK, x),
    "jit": funcad.jit(lambda x: MASK * np.roll(x, 2)),
    "checkpoint": funcad.checkpoint(lambda x: np.sin(MASK * x) + x[::-1]),
    "vmap": lambda x: funcad.vmap(lambda v: v[0] * v)(x.reshape(2, 3)).ravel(),
    "custom": doubled,
    "sort": np.sort,
    "fft": lambda x: np.fft.fft(x.reshape(2, 3)).real.ravel(),
    "stop": lambda x: funcad.stop_gradient(x) * x[::-1],
}
POINTS = np.array([[0.3, -0.7, 1.1, 0.9, -1.4, 0.6], [-0.2, 0.8, -0.5, -1.3, 0.4, 1.2], [0.0, 0.0, 1.0, 0.5, 0.0, -1.0]])


def program(names):
    def f(x):
        for name in names:
            x = STEPS[name](x)
        return x

    return f


@pytest.mark.parametrize("name", STEPS)
def test_patterns_of_one_step(name):
    found = pattern(STEPS[name], POINTS[0])
    needed = np.zeros((N, N), bool)
    for x in POINTS:
        dense = jacfwd(STEPS[name])(x)
        assert not ((dense != 0) & ~found).any()
        needed |= dense != 0
    loose = {"sort", "softmax", "cumsum", "fft", "custom", "where of values", "cond", "while"}
    assert name in loose or (found == needed).all()
    assert not found.all() or name in ("sort", "custom", "while")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4))
def test_patterns_of_random_programs_hold_what_is_not_zero(names):
    f = program(names)
    found = pattern(f, POINTS[0])
    for x in POINTS[:2]:
        assert not ((jacfwd(f)(x) != 0) & ~found).any()


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(sorted(set(STEPS) - {"custom"})), min_size=1, max_size=3))
def test_hessians_of_random_programs(names):
    f = program(names)
    g = lambda x: np.sum(f(x) ** 3)
    for x in POINTS[:2]:
        dense = funcad.hessian(g)(x)
        np.testing.assert_allclose(funcad.sparse.hessian(g)(x).toarray(), dense, atol=1e-9 * (1 + abs(dense).max()))


def test_long_loops_are_united(monkeypatch):
    monkeypatch.setattr(index_sets, "TURNS", 2000)

    def f(x):
        return funcad.scan(lambda c, v: (0.5 * c + x[0], c * v), x[1], np.ones(3000))[1]

    found = pattern(f, np.ones(3))
    assert found[:, :2].all() and not found[:, 2].any()


def test_products_with_large_factors_are_refused_in_time():
    matrix = np.broadcast_to(1.0, (100_000, 5000))
    with pytest.raises(funcad.errors.FuncadError, match="behind dot_general the Jacobian is no longer sparse"):
        pattern(lambda x: matrix @ x, np.ones(5000))


def test_loops_inside_conditions_and_solves():
    def looped(x):
        return funcad.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, np.roll(s[1], 1)), (0, x))[1] * MASK

    def by_cond(x):
        return funcad.cond(x[0] > 0, lambda v: shifted_scan(v) * MASK, looped, x)

    def solved(x):
        diagonal = 2.0 + MASK
        return funcad.custom_linear_solve(lambda v: diagonal * v, x, lambda _, b: b / diagonal, symmetric=True)

    def complex_parts(x):
        z = x * (MASK + 1j * (1 - MASK))
        return z.real + (1j * z).imag

    for f in (looped, by_cond, solved, complex_parts, funcad.checkpoint(looped), funcad.jit(by_cond)):
        found = pattern(f, POINTS[0])
        for x in POINTS[:2]:
            assert not ((jacfwd(f)(x) != 0) & ~found).any()


def test_a_map_keeps_its_entries_apart():
    assert (pattern(lambda x: funcad.map(np.sin, x), np.ones(50)) == np.eye(50, dtype=bool)).all()
