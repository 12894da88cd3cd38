"""Band matrices in SciPy's diagonal-ordered form, `ab[u + i - j, j] == a[i, j]`.

Systems and their derivatives cost O(n). Factors and eigenvalues are those of the whole matrix, which is formed where something
is traced; what stands in the corners of ab, outside the matrix, is not read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import dtype_of, shape_of
from funcad.numpy.promote import array_of
from funcad.primitives import linear_systems
from funcad.primitives.arithmetic import add
from funcad.primitives.comparison import select as where
from funcad.primitives.linear_systems import banded_solve, banded_transpose, hermitian_band, mH
from funcad.primitives.placement import capture_as_inputs
from funcad.primitives.shape import broadcast_to, concatenate, reshape, static_slice
from funcad.scipy.door import implements
from funcad.scipy.linalg.decompositions import eigh_selected
from funcad.scipy.linalg.matrix_operands import as_given, conjugated, constant, inexact, system
from funcad.scipy.linalg.solving import diagonal_of


@implements("linalg.solve_banded", lift=True)
def solve_banded(
    l_and_u: Any, ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """x with a x = b for a band matrix in diagonal-ordered form, `ab[u + i - j, j] == a[i, j]`; costs and derivatives are O(n).

    >>> import numpy as np, funcad
    >>> f = lambda ab: funcad.scipy.linalg.solve_banded((0, 0), ab, np.ones(2))[0]
    >>> funcad.grad(f)(np.array([[2.0, 1.0]])) + 0.0
    array([[-0.25,  0.  ]])
    """
    low, up = map(int, l_and_u)
    ab, b = inexact(ab, b)
    if shape_of(ab)[-2] != low + up + 1:
        raise ValueError(
            f"invalid values for the number of lower and upper diagonals: l+u+1 ({low + up + 1}) does not equal "
            f"ab.shape[0] ({shape_of(ab)[-2]})"
        )
    ab, b, vector = system("solve_banded", ab, b)
    return as_given(banded_solve(ab, b, lower=low, upper=up), vector)


@implements("linalg.solveh_banded", lift=True)
def solveh_banded(
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = True,
) -> Any:
    """x with a x = b for a Hermitian positive definite band matrix, of which the lower or the upper diagonals are given.

    >>> import numpy as np, funcad
    >>> f = lambda ab: funcad.scipy.linalg.solveh_banded(ab, np.ones(2))[0]
    >>> funcad.grad(f)(np.array([[2.0, 1.0]])) + 0.0
    array([[-0.25,  0.  ]])
    """
    ab, b = inexact(ab, b)
    width = shape_of(ab)[-2] - 1
    ab, b, vector = system("solveh_banded", ab, b)
    return as_given(banded_solve(hermitian_band(ab, bool(lower)), b, lower=width, upper=width, positive=True), vector)


def _whole(ab: Any, lower: bool) -> Any:
    """The Hermitian matrix of which some diagonals are given."""
    band, width = hermitian_band(ab, lower), shape_of(ab)[-2] - 1
    *lead, _, n = shape_of(ab)
    shape, out = (*lead, n, n), None
    for r in range(2 * width + 1):
        row = broadcast_to(static_slice(band, r, r + 1, len(lead)), shape)
        mask = broadcast_to(constant(np.eye(n, k=width - r, dtype=bool), ab), shape)
        one = where(mask, row, dtype_of(ab).type(0))
        out = one if out is None else add(out, one)
    return out


def _bands(a: Any, width: int, lower: bool) -> Any:
    """The diagonals of a triangle."""
    shape = shape_of(a)
    offsets = range(0, -width - 1, -1) if lower else range(width, -1, -1)
    parts = [reshape(diagonal_of(a, k), shape=(*shape[:-2], 1, shape[-1])) for k in offsets]
    return concatenate(parts, axis=len(shape) - 2)


@implements("linalg.cholesky_banded", lift=True)
def cholesky_banded(ab: Any, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True) -> Any:
    """The Cholesky factor of a Hermitian positive definite band matrix, in the same form; traced, the matrix is formed.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda ab: funcad.scipy.linalg.cholesky_banded(ab)[0, 0])(np.array([[4.0]]))
    array([[0.25]])
    """
    (ab,) = inexact(ab)
    factor = linear_systems.cholesky(_whole(ab, lower))
    *lead, rows, n = shape_of(ab)
    below = np.arange(rows)[:, None] if lower else np.arange(1 - rows, 1)[:, None]
    outside = np.abs(2 * (np.arange(n) + below) - n + 1) >= n  # no row of the matrix: SciPy leaves these as they are
    found = _bands(factor if lower else mH(factor), rows - 1, lower)
    return where(broadcast_to(constant(outside, ab), (*lead, rows, n)), ab, found)


@implements("linalg.cho_solve_banded")
def cho_solve_banded(cb_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """x with a x = b, from the factor that `cholesky_banded` gives for a, and whether it is the lower one.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda b: funcad.scipy.linalg.cho_solve_banded((np.full((1, 1), 2.0), True), b)[0])(np.ones(1))
    array([0.25])
    """
    cb, lower = cb_and_lower
    cb, b = inexact(*capture_as_inputs([array_of(cb), array_of(b)], [cb, b]))
    cb, b, vector = system("cho_solve_banded", cb, b)
    width = shape_of(cb)[-2] - 1
    below, above = (width, 0) if lower else (0, width)
    adjoint = banded_transpose(conjugated(cb), below, above)
    factors = [(cb, below, above), (adjoint, above, below)]
    for factor, under, over in factors if lower else factors[::-1]:
        b = banded_solve(factor, b, lower=under, upper=over)
    return as_given(b, vector)


@implements("linalg.eig_banded", lift=True)
def eig_banded(
    a_band: Any,
    lower: bool = False,
    eigvals_only: bool = False,
    overwrite_a_band: bool = False,
    select: Any = "a",
    select_range: Any = None,
    max_ev: int = 0,
    check_finite: bool = True,
) -> Any:
    """Eigenvalues and eigenvectors of a Hermitian band matrix; traced, the matrix is formed, and `select="v"` raises TypeError.

    >>> import numpy as np, funcad
    >>> f = lambda ab: funcad.scipy.linalg.eig_banded(ab, eigvals_only=True)[1]
    >>> funcad.grad(f)(np.array([[1.0, 2.0]])) + 0.0
    array([[0., 1.]])
    """
    (ab,) = inexact(a_band)
    by = ("eig_banded", shape_of(ab)[-2] - 1)
    w, v = eigh_selected("eig_banded", _whole(ab, lower), select, select_range, by)
    return w if eigvals_only else (w, v)


@implements("linalg.eigvals_banded", lift=True)
def eigvals_banded(
    a_band: Any,
    lower: bool = False,
    overwrite_a_band: bool = False,
    select: Any = "a",
    select_range: Any = None,
    check_finite: bool = True,
) -> Any:
    """The eigenvalues alone, as `eig_banded` gives them."""
    return eig_banded(a_band, lower, True, False, select, select_range)
