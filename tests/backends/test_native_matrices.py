"""Small matrices as native code beside LAPACK: values, derivatives, stacks, what is refused, and what stays with LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import funcad
from funcad import tree
from funcad.backends.interpreter import Program
from funcad.backends.native import target
from funcad.backends.native.program import compile_program
from funcad.backends.plans.element_plan import Unsupported
from funcad.passes.pipeline import optimize
from funcad.scipy.linalg import solve_triangular

if not target.available():
    pytest.skip(f"no native engine: {target.why_not()}", allow_module_level=True)

SIZES = [1, 2, 3, 5, 8, 13, 31]
STACKS: list[tuple[int, ...]] = [(), (1,), (3,), (2, 5), (17,)]


def normal(*shape: int, dtype: Any = np.float64) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def positive(*shape: int, dtype: Any = np.float64) -> np.ndarray:
    x = normal(*shape, dtype=dtype)
    return x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1], dtype=dtype)


def check(f: Any, *args: Any) -> None:
    lowered = funcad.jit(f).lower(*args)
    values = [*lowered._entry.consts, *tree.leaves(args)]
    before = [np.copy(v) for v in values]
    expected = Program(lowered.jaxpr).run(list(values))
    found = compile_program(optimize(lowered.jaxpr))(list(values))
    for x, y in zip(found, expected, strict=True):
        assert type(x) is type(y) and x.dtype == y.dtype and np.shape(x) == np.shape(y)
        scale = max(float(np.max(np.abs(y), initial=0.0, where=np.isfinite(y))), 1e-30)
        tolerance = 2e-9 if x.dtype == np.float64 else 2e-3
        np.testing.assert_allclose(x / scale, y / scale, rtol=tolerance, atol=tolerance)
    for x, y in zip(values, before):
        np.testing.assert_array_equal(x, y)


@pytest.mark.share(3)
@pytest.mark.parametrize("stack", STACKS, ids=str)
@pytest.mark.parametrize("n", SIZES)
def test_values(n: int, stack: tuple[int, ...]) -> None:
    a, b = normal(*stack, n, n), normal(*stack, n, 3)
    check(np.linalg.solve, a, b)
    check(np.linalg.solve, a, b[..., :1])
    check(lambda a, b: np.linalg.solve(np.swapaxes(a, -1, -2), b[..., ::-1]), a, b)
    for f in (np.linalg.inv, np.linalg.det, np.linalg.slogdet):
        check(f, a)
    check(np.linalg.cholesky, positive(*stack, n, n))
    check(np.linalg.solve, positive(*stack, n, n, dtype=np.float32), b.astype(np.float32))


@pytest.mark.share(3)
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("lower", [True, False])
def test_triangles(lower: bool, transposed: int, unit: bool) -> None:
    for stack in STACKS:
        for n in (1, 4, 9):
            a, b = normal(*stack, n, n) + 3 * np.eye(n), normal(*stack, n, 2)
            f = lambda a, b: solve_triangular(a, b, lower=lower, trans=transposed, unit_diagonal=unit)
            check(f, a, b)
            check(lambda a: np.tril(a, -1) + np.triu(a), a)


@pytest.mark.parametrize("stack", STACKS, ids=str)
def test_derivatives(stack: tuple[int, ...]) -> None:
    a, b, s = normal(*stack, 4, 4), normal(*stack, 4, 2), positive(*stack, 4, 4)
    check(funcad.grad(lambda a, b: np.sum(np.sin(np.linalg.solve(a, b))), argnums=(0, 1)), a, b)
    check(funcad.grad(lambda s: np.sum(np.sin(np.linalg.cholesky(s)))), s)
    check(funcad.grad(lambda s: np.sum(np.linalg.slogdet(s)[1])), s)
    check(funcad.grad(lambda s: np.sum(np.linalg.inv(s) ** 2)), s)
    check(funcad.hessian(lambda s: np.sum(np.linalg.slogdet(s)[1])), s[..., :2, :2])


def test_where_rows_are_exchanged() -> None:
    """In some of the matrices of a vector, at some of the columns; ties go to the first row."""
    rows = np.array([np.eye(4)[np.roll(range(4), k)] for k in range(4)] * 3)
    check(np.linalg.solve, rows, normal(12, 4, 2))
    check(np.linalg.slogdet, rows)
    check(np.linalg.inv, np.array([[[0.0, 1.0], [1.0, 0.0]], [[2.0, 1.0], [-2.0, 0.5]]] * 5))


def test_inside_loops() -> None:
    a, b = positive(5, 3, 3), normal(5, 3)

    def filtered(a: Any, b: Any) -> Any:
        def step(p: Any, given: Any) -> Any:
            a, b = given
            p = np.linalg.solve(a + p, a) + np.outer(b, b)
            return p, np.linalg.slogdet(p)[1]

        last, each = funcad.scan(step, np.eye(3), (a, b))
        return np.sum(last) + np.sum(each)

    check(filtered, a, b)
    check(funcad.grad(filtered, argnums=(0, 1)), a, b)


def test_what_lapack_refuses() -> None:
    singular = np.array([np.eye(3)] * 9)
    singular[7, 2] = singular[7, 1]
    inv, cholesky = np.linalg.inv, np.linalg.cholesky
    for f, a in ((inv, singular[7]), (inv, singular), (cholesky, -np.eye(3)), (cholesky, -singular)):
        with funcad.config.set(engine="native"):
            g = funcad.jit(f)
            for _ in range(4):
                with pytest.raises(np.linalg.LinAlgError):
                    g(a)
    check(np.linalg.slogdet, singular)
    check(np.linalg.det, singular)
    check(funcad.grad(lambda s: np.sum(np.where(np.isnan(s), 0.0, np.linalg.slogdet(s)[1][..., None, None]))), singular)
    odd = np.eye(3)
    odd[1, 1] = np.nan
    check(np.linalg.slogdet, odd)
    with funcad.config.set(engine="native"), pytest.raises(np.linalg.LinAlgError):
        solve = funcad.jit(lambda a, b: solve_triangular(a, b))
        for _ in range(4):
            solve(np.triu(singular[7]) * 0.0, np.ones(3))


def test_nothing_in_them() -> None:
    for f in (np.linalg.det, np.linalg.slogdet):
        check(f, np.zeros((3, 0, 0)))
    check(np.linalg.solve, np.eye(3), np.zeros((3, 0)))
    check(np.linalg.inv, np.zeros((0, 2, 2)))
    check(np.linalg.solve, np.zeros((4, 0, 0)), np.zeros((4, 0, 2)))


def test_very_large_and_complex_ones_are_left_to_numpy() -> None:
    for a, reason in ((np.eye(400), "all cores"), (positive(3, 3) * 1j, "complex")):
        with pytest.raises(Unsupported, match=reason):
            compile_program(optimize(funcad.jit(np.linalg.cholesky).lower(a).jaxpr))
    check(np.linalg.cholesky, positive(9, 40, 40))
