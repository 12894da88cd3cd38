"""Triangular systems.

`triangular_solve(a, b, lower=, transposed=, unit_diagonal=)` solves op(a) x = b, op the identity or the transposition, for
stacks of matrices with equal leading axes. It is linear in b, and its transpose is the same with op transposed. Only the
named triangle of a is read, so the derivative is zero in the other one (and on the diagonal if that is taken as 1). Trap:
under vmap with one matrix for all lanes, the lanes become columns: the matrix is not copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, shape_of
from funcad.ir.primitive import is_linear, not_linear
from funcad.primitives.arithmetic import neg, sub
from funcad.primitives.contraction import matmul, permute
from funcad.primitives.families import avals_text
from funcad.primitives.linear_systems import mT, square_aval, stacked, triangle
from funcad.primitives.matrices import each, linalg_of
from funcad.primitives.shape import reshape

__all__ = ["triangular_solve", "triangular_solve_p", "pivot_permutation", "check_system"]


def check_system(name: str, a: Aval, b: Aval) -> None:
    """Are these stacks of square matrices, and of right-hand sides that fit?"""
    square_aval(name, a)
    if a.dtype != b.dtype or a.ndim != b.ndim or a.shape[:-1] != b.shape[:-1]:
        raise ValueError(f"{name}: operands must fit and have equal dtypes, got {avals_text([a, b])}")


_SMALL = 32  # rows up to which the calls of SciPy take longer than substitution in all systems of a stack at once


def _of_stack(one: Any, a: Any, b: Any, lower: bool, transposed: bool, unit_diagonal: bool) -> Any:
    """Column by column, with the systems of the stack along the last axis."""
    *_, n, k = b.shape
    if not unit_diagonal:
        i = np.arange(n)
        for index in zip(*np.nonzero((a[..., i, i] == 0).any(axis=-1))):
            one(a[index], b[index])  # raises
    m, x = [np.ascontiguousarray(np.moveaxis(v.reshape(-1, *v.shape[-2:]), 0, -1)) for v in (a, b)]
    m = np.swapaxes(m, 0, 1) if transposed else m
    x = x.copy() if np.may_share_memory(x, b) else x
    forward = lower != transposed
    with np.errstate(all="ignore"):  # LAPACK says nothing
        for i in range(n) if forward else reversed(range(n)):
            rest = slice(i + 1, n) if forward else slice(i)
            if not unit_diagonal:
                x[i] /= m[i, i]
            x[rest] -= m[rest, i, None] * x[i]
    return np.ascontiguousarray(np.moveaxis(x, -1, 0)).reshape(b.shape)


def _impl(xp: Any, a: Any, b: Any, *, lower: bool, transposed: bool, unit_diagonal: bool) -> Any:
    solve = linalg_of(xp, "solve_triangular")

    def one(a: Any, b: Any) -> Any:
        return solve(a, b, trans=int(transposed), lower=lower, unit_diagonal=unit_diagonal, check_finite=False)

    if xp is np and a.ndim > 2 and b.size and a.shape[-1] <= _SMALL and 4 * prod(a.shape[:-2]) > a.shape[-1]:
        return _of_stack(one, a, b, lower, transposed, unit_diagonal)
    return each(xp, one, (a, b), b.shape[-2:], b.dtype)


def _abstract(a: Aval, b: Aval, **params: Any) -> Aval:
    check_system("triangular_solve", a, b)
    return Aval(b.shape, b.dtype)


def _jvp(tangents: Sequence[Any], out: Any, a: Any, b: Any, *, lower: bool, transposed: bool, unit_diagonal: bool) -> Any:
    ta, tb = tangents
    if ta is not None:
        ta = triangle(ta, lower=lower, diagonal=0.0 if unit_diagonal else 1.0)
        moved = matmul(mT(ta) if transposed else ta, out)
        tb = neg(moved) if tb is None else sub(tb, moved)
    return triangular_solve(a, tb, lower=lower, transposed=transposed, unit_diagonal=unit_diagonal)


def _transpose(ct: Any, a: Any, b: Any, *, transposed: bool, **params: Any) -> list[Any]:
    if is_linear(a):
        raise not_linear("triangular_solve")
    return [None, triangular_solve(a, ct, transposed=not transposed, **params)]


def _batch(size: int, args: Sequence[Any], batched: Sequence[bool], **params: Any) -> tuple[Any, bool] | None:
    a, b = args
    if batched[0]:
        return None
    n = len(shape_of(b))  # (size, ..., n, k) -> (..., n, size, k) -> (..., n, size * k)
    b = permute(b, (*range(1, n - 1), 0, n - 1))
    merged = shape_of(b)
    b = reshape(b, shape=(*merged[:-2], merged[-2] * merged[-1]))
    out = reshape(triangular_solve(a, b, **params), shape=merged)
    return permute(out, (n - 2, *range(n - 2), n - 1)), True


triangular_solve_p = stacked("triangular_solve", _impl, _abstract, _jvp, transpose=_transpose, batch=_batch)


def triangular_solve(a: Any, b: Any, *, lower: bool = False, transposed: bool = False, unit_diagonal: bool = False) -> Any:
    """x with op(a) x = b, for stacks (..., n, n) and (..., n, k)."""
    return triangular_solve_p(a, b, lower=lower, transposed=transposed, unit_diagonal=unit_diagonal)


def _permutation_impl(xp: Any, pivots: Any) -> Any:
    n = pivots.shape[-1]
    out = xp.empty(pivots.shape, pivots.dtype)
    for index in np.ndindex(pivots.shape[:-1]):
        order = np.arange(n, dtype=pivots.dtype)
        for row, other in enumerate(pivots[index].tolist()):
            order[row], order[other] = order[other], order[row]
        out[index] = order if xp is np else xp.asarray(order)
    return out


# The order of rows after row i has been exchanged with row pivots[i], for each i in turn.
pivot_permutation = stacked("pivot_permutation", _permutation_impl, lambda pivots: pivots, None)
