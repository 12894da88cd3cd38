"""`autograd.numpy.linalg`: funcad.numpy.linalg, and what that does not have from NumPy.

`eigh` and `eigvalsh` depend on one triangle of their argument, as NumPy computes them, and so do their derivatives here, which
are zero in the other triangle; those of `funcad.numpy.linalg` are symmetric.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from funcad.foreign_names import mirror as _mirror
from funcad.ir.tracer import Tracer

__getattr__, __dir__ = _mirror(__name__, "funcad.numpy.linalg", "numpy.linalg")

# helpers of that module's, which programs call all the same
T, _dot = partial(np.swapaxes, axis1=-1, axis2=-2), partial(np.einsum, "...ij,...jk->...ik")


def _from_triangle(a: Any, UPLO: str) -> Any:
    """The Hermitian matrices that have this triangle of a; plain arrays are NumPy's own business."""
    if type(a) is not Tracer or UPLO.upper() not in ("L", "U"):
        return a
    part = np.tril(a, -1) if UPLO.upper() == "L" else np.triu(a, 1)
    diagonal = np.real(np.diagonal(a, axis1=-2, axis2=-1))
    return part + np.conj(np.swapaxes(part, -1, -2)) + diagonal[..., None] * np.eye(a.shape[-1])


def eigh(a: Any, UPLO: str = "L") -> Any:
    """`numpy.linalg.eigh`, of the triangle that `UPLO` names, "L" or "U", also in its derivatives.

    >>> import numpy as np
    >>> from funcad.autograd import grad
    >>> grad(lambda a: eigh(a)[0][-1])(np.array([[0.0, 1.0], [1.0, 0.0]])).round(6)
    array([[0.5, 0. ],
           [1. , 0.5]])
    """
    return np.linalg.eigh(_from_triangle(a, UPLO), UPLO)


def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """`numpy.linalg.eigvalsh`, of the triangle that `UPLO` names, "L" or "U", also in its derivatives.

    >>> import numpy as np
    >>> from funcad.autograd import grad
    >>> grad(lambda a: eigvalsh(a, "U")[-1])(np.array([[0.0, 1.0], [1.0, 0.0]])).round(6)
    array([[0.5, 1. ],
           [0. , 0.5]])
    """
    return np.linalg.eigvalsh(_from_triangle(a, UPLO), UPLO)
