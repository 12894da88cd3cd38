"""`scipy.sparse.linalg`, differentiable: solvers, least squares, a few eigenvalues, products with exponentials.

All are differentiable in the elements of the matrix, whose places are fixed, and in the right-hand side, to every order: each
result is differentiated by the equation that it satisfies.
"""

import typing as _typing
from typing import Any as _Any

from funcad.configuration import public_names as _public_names
from funcad.scipy.door import absent as _absent
from funcad.scipy.sparse.factorized_systems import scipy_linalg as _scipy_linalg

# isort: off
from funcad.scipy.sparse.factorized_systems import (
    eigsh as eigsh, expm as expm, expm_multiply as expm_multiply, factorized as factorized, inv as inv, norm as norm,
    splu as splu, spsolve as spsolve, spsolve_triangular as spsolve_triangular, svds as svds,
)  # fmt: skip
from funcad.scipy.sparse.krylov_solvers import (
    bicgstab as bicgstab, cg as cg, gmres as gmres, lsmr as lsmr, lsqr as lsqr, minres as minres,
)  # fmt: skip
# isort: on

__all__ = [
    *("LinearOperator", "aslinearoperator", "bicgstab", "cg", "eigsh", "expm", "expm_multiply", "factorized", "gmres", "inv"),
    *("lsmr", "lsqr", "minres", "norm", "splu", "spsolve", "spsolve_triangular", "svds"),
]

__dir__ = _public_names(globals())

_THEIRS = ["LinearOperator", "aslinearoperator"]  # SciPy's own: what they call may be traced


def _lazy(name: str) -> _Any:
    return getattr(_scipy_linalg(), name) if name in _THEIRS else None


if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.sparse.linalg", _lazy)
