"""The Schur form a = z t z^H, t upper triangular.

With m = z^H da z and dz = z w, the antihermitian w is what keeps t triangular: the part of m + t w - w t below the diagonal is
zero, an equation for the part of w below the diagonal in which entry (i, j) depends on those further from the diagonal only;
it is solved in n - 1 steps by products of matrices, so every order of derivative exists. Gauge: the columns of z do not turn
their phase (the diagonal of w is 0). Eigenvalues that coincide give NaN. Trap: the real form of a matrix with complex
eigenvalues is not triangular; `triangular_only` raises there, when a derivative is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, shape_of
from funcad.primitives.arithmetic import add, sub
from funcad.primitives.comparison import select
from funcad.primitives.eigen import differences
from funcad.primitives.linear_systems import mH, mm, square_aval, stacked, triangle
from funcad.primitives.matrices import linalg_of
from funcad.primitives.reduction import reduce_sum
from funcad.primitives.shape import broadcast_to
from funcad.primitives.spectral import gap_quotient

__all__ = ["schur", "triangular_only_p"]


def _schur_impl(xp: Any, a: Any) -> list[Any]:
    form = linalg_of(xp, "schur")
    t, z = np.full(a.shape, np.nan, a.dtype), np.full(a.shape, np.nan, a.dtype)
    for index in np.ndindex(*a.shape[:-2]):
        if a.shape[-1] and np.isfinite(a[index]).all():
            t[index], z[index] = form(a[index], output="complex" if a.dtype.kind == "c" else "real")
    return [t, z]


def _check_triangular(xp: Any, t: Any) -> Any:
    if t.dtype.kind == "f" and bool((xp.diagonal(t, -1, -2, -1) != 0).any()):
        raise NotImplementedError(
            "schur: the real Schur form of this matrix has 2 x 2 blocks (complex eigenvalues); its derivative is unknown.\n"
            "Remedy: schur(a, output='complex'), or schur(a.astype(complex))."
        )
    return t.copy()


triangular_only_p = stacked(  # t itself, if it is triangular
    "triangular_only", _check_triangular, lambda t: t, lambda tangents, out, t: tangents[0]
)


def _diagonal(t: Any) -> Any:
    """The diagonals of matrices, as vectors."""
    shape = shape_of(t)
    mask = broadcast_to(np.eye(shape[-1], dtype=bool), shape)
    return reduce_sum(select(mask, t, t.dtype.type(0)), axes=(len(shape) - 2,))


def _schur_jvp(tangents: Sequence[Any], out: Sequence[Any], a: Any) -> list[Any]:
    (da,), (t, z) = tangents, out
    t = triangular_only_p(t)
    shape = shape_of(t)
    m = mm(mH(z), mm(da, z))
    gaps = differences(_diagonal(t), shape)
    above = triangle(t, lower=False, diagonal=0.0)

    def next_w(rest: Any) -> Any:
        return gap_quotient(triangle(rest, diagonal=0.0), gaps)

    w = next_w(m)
    for _ in range(shape[-1] - 2):
        w = next_w(add(m, sub(mm(above, w), mm(w, above))))
    w = sub(w, mH(w))
    dt = add(m, sub(mm(t, w), mm(w, t)))
    return [triangle(dt, lower=False), mm(z, w)]


def _schur_abstract(a: Aval) -> list[Aval]:
    square_aval("schur", a)
    return [a, a]


# [t, z] with a = z t z^H; real matrices give the real form, quasi-triangular if eigenvalues are complex.
schur = stacked("schur", _schur_impl, _schur_abstract, _schur_jvp, multiple=2)
