"""How SciPy's matrix functions are called: the door to scipy.linalg, stacks in a loop, NaN instead of a call that would hang.

LAPACK must not see NaN or infinity where it iterates: `finite_only` answers NaN for such a matrix instead of calling it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import shape_of
from funcad.primitives.linear_systems import missing_on_device, scipy_linalg
from funcad.primitives.shape import pad

__all__ = ["linalg_of", "each", "finite_only", "placed"]


def linalg_of(xp: Any, name: str) -> Callable[..., Any]:
    """A function of scipy.linalg for numpy, of cupyx.scipy.linalg for cupy."""
    found = getattr(scipy_linalg(xp), name, None)
    if found is None:
        raise missing_on_device(name)
    return found


def each(xp: Any, f: Callable[..., Any], arrays: Sequence[Any], core: tuple[int, ...], dtype: Any) -> Any:
    """f of each matrix of the stacks; its results have the shape `core`."""
    lead = arrays[0].shape[:-2]
    if not all(n for a in arrays for n in a.shape):
        return xp.zeros((*lead, *core), dtype)
    if not lead:
        out = f(*arrays)
        return out.astype(dtype, copy=xp is np and not out.flags.owndata)  # some of SciPy's results have no owner
    out = xp.empty((*lead, *core), dtype)
    for index in np.ndindex(*lead):
        out[index] = f(*[a[index] for a in arrays])
    return out


def finite_only(xp: Any, f: Callable[..., Any], core: tuple[int, ...]) -> Callable[..., Any]:
    """f, but NaN for matrices that are not finite."""

    def guarded(*matrices: Any) -> Any:
        if all(bool(xp.isfinite(m).all()) for m in matrices):
            return f(*matrices)
        return xp.full(core, np.nan, matrices[0].dtype)

    return guarded


def placed(x: Any, shape: tuple[int, int], row: int, column: int) -> Any:
    """Zero matrices of a shape, with x at (row, column)."""
    own = shape_of(x)
    lead = (0,) * (len(own) - 2)
    below, right = shape[0] - row - own[-2], shape[1] - column - own[-1]
    return pad(x, low=(*lead, row, column), high=(*lead, below, right))
