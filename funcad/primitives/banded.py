"""Systems with a band matrix, in SciPy's diagonal-ordered form: `ab[u + i - j, j] == a[i, j]`, stored by diagonals.

`banded_solve(ab, b, lower=l, upper=u)` is linear in b; its transpose solves with the transposed matrix, which is a shift of
each row of ab; its derivative needs the product with a band matrix, one shifted multiplication per diagonal. So all costs
stay linear in n. Trap: the corners of ab lie outside the matrix; what stands there must not count, whatever it is (the shifts
cut it off), and its derivative is zero. With `positive`, the matrix is Hermitian positive definite and solved by Cholesky.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funcad.ir.aval import Aval, aval_of, shape_of
from funcad.ir.primitive import is_linear, not_linear
from funcad.primitives.arithmetic import add, mul, neg, sub
from funcad.primitives.basic_indexing import static_slice
from funcad.primitives.conversion import conj
from funcad.primitives.families import avals_text, sum_tangents
from funcad.primitives.linear_systems import in_columns, stacked
from funcad.primitives.matrices import each, linalg_of
from funcad.primitives.shape import concatenate, pad, reshape

__all__ = ["banded_solve", "banded_solve_p", "banded_transpose", "hermitian_band", "shifted"]


def shifted(x: Any, k: int, axis: int) -> Any:
    """Element j goes to j - k; zeros come in."""
    shape = shape_of(x)
    n = shape[axis]
    move = min(abs(k), n)
    if not move:
        return x
    x = static_slice(x, move, n, axis) if k > 0 else static_slice(x, 0, n - move, axis)
    low, high = [0] * len(shape), [0] * len(shape)
    (high if k > 0 else low)[axis] = move
    return pad(x, low=tuple(low), high=tuple(high))


def _row(ab: Any, r: int) -> Any:
    shape = shape_of(ab)
    return reshape(static_slice(ab, r, r + 1, len(shape) - 2), shape=(*shape[:-2], shape[-1]))


def _rows(rows: Sequence[Any]) -> Any:
    shape = shape_of(rows[0])
    return concatenate([reshape(r, shape=(*shape[:-1], 1, shape[-1])) for r in rows], axis=len(shape) - 1)


def banded_transpose(ab: Any, lower: int, upper: int) -> Any:
    """The transposed matrix, in the same form; its bandwidths are exchanged."""
    axis = len(shape_of(ab)) - 2
    return _rows([shifted(_row(ab, upper - k), k, axis) for k in range(-lower, upper + 1)])


def hermitian_band(ab: Any, lower: bool) -> Any:
    """All diagonals of the Hermitian matrix of which the lower or the upper ones are given."""
    width = shape_of(ab)[-2] - 1
    own = [_row(ab, r) for r in range(width + 1)]
    if aval_of(ab).dtype.kind == "c":  # of the diagonal, the real part counts
        on = 0 if lower else width
        own[on] = mul(0.5, add(own[on], conj(own[on])))
    axis = len(shape_of(ab)) - 2
    mirror = (lambda x: conj(x)) if aval_of(ab).dtype.kind == "c" else (lambda x: x)
    if lower:
        return _rows([*[shifted(mirror(own[m]), -m, axis) for m in range(width, 0, -1)], *own])
    return _rows([*own, *[shifted(mirror(own[width - m]), m, axis) for m in range(1, width + 1)]])


def _times(ab: Any, x: Any, upper: int) -> Any:
    """The product of the band matrix and x (..., n, k)."""
    shape = shape_of(x)
    axis = len(shape) - 2
    terms = [shifted(mul(in_columns(_row(ab, r), shape), x), upper - r, axis) for r in range(shape_of(ab)[-2])]
    return sum_tangents(terms, add)


def _impl(xp: Any, ab: Any, b: Any, *, lower: int, upper: int, positive: bool) -> Any:
    if positive:
        solve = linalg_of(xp, "solveh_banded")
        one = lambda ab, b: solve(ab[: upper + 1], b, check_finite=False)
    else:
        solve = linalg_of(xp, "solve_banded")
        one = lambda ab, b: solve((lower, upper), ab, b, check_finite=False)
    return each(xp, one, (ab, b), b.shape[-2:], b.dtype)


def _abstract(ab: Aval, b: Aval, *, lower: int, upper: int, positive: bool) -> Aval:
    if ab.ndim < 2 or b.shape[:-1] != (*ab.shape[:-2], ab.shape[-1]) or ab.dtype != b.dtype:
        raise ValueError(f"banded_solve: operands must fit and have equal dtypes, got {avals_text([ab, b])}")
    if ab.shape[-2] != lower + upper + 1:
        raise ValueError(f"banded_solve: {ab} has not {lower} + {upper} + 1 diagonals")
    return Aval(b.shape, b.dtype)


def _jvp(tangents: Sequence[Any], out: Any, ab: Any, b: Any, *, lower: int, upper: int, positive: bool) -> Any:
    t_ab, tb = tangents
    if t_ab is not None:
        moved = _times(t_ab, out, upper)
        tb = neg(moved) if tb is None else sub(tb, moved)
    return banded_solve(ab, tb, lower=lower, upper=upper, positive=positive)


def _transpose(ct: Any, ab: Any, b: Any, *, lower: int, upper: int, positive: bool) -> list[Any]:
    if is_linear(ab):
        raise not_linear("banded_solve")
    mirrored = banded_transpose(ab, lower, upper)
    return [None, banded_solve(mirrored, ct, lower=upper, upper=lower, positive=positive)]


banded_solve_p = stacked("banded_solve", _impl, _abstract, _jvp, transpose=_transpose)


def banded_solve(ab: Any, b: Any, *, lower: int, upper: int, positive: bool = False) -> Any:
    """x with a x = b, for stacks of bands (..., lower + upper + 1, n) and right-hand sides (..., n, k)."""
    return banded_solve_p(ab, b, lower=lower, upper=upper, positive=positive)
