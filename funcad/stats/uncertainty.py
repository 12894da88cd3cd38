"""Linear propagation of uncertainties: what errors of the arguments make of a function's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from funcad import tree
from funcad.api.border import api
from funcad.api.jacobian import jacfwd, jacrev
from funcad.errors import TreeMismatchError
from funcad.ir.aval import aval_of
from funcad.scipy.tree_vectors import Vector

__all__ = ["Propagated", "propagate"]


class Propagated(NamedTuple):
    """f(values), the standard errors of its results, like them, and their covariance, a matrix."""

    value: Any
    standard_errors: Any
    covariance: np.ndarray


@api
def propagate(f: Callable[[Any], Any], values: Any, errors: Any) -> Propagated:
    """`f(values)` with standard errors and covariance, to first order: the delta method, the propagation of uncertainties.

    values: a pytree of real arrays and numbers.
    errors: their covariance, a matrix over all numbers of `values` one behind the other; or their standard errors, a pytree
        like `values`, which are then independent.

    Returns a Propagated: `value`, `standard_errors` like it, `covariance` over its numbers, J C J^T with the Jacobian J.
    Raises ValueError where the covariance is no symmetric matrix of that size, or is negative.

    >>> import numpy as np
    >>> from funcad import stats
    >>> found = stats.propagate(lambda p: p["m"] * p["v"] ** 2 / 2, {"m": 2.0, "v": 3.0}, {"m": 0.1, "v": 0.2})
    >>> float(found.value), round(float(found.standard_errors), 4)
    (9.0, 1.2816)
    """
    into = Vector("propagate: values", values)
    if into.dtype.kind != "f":
        raise TypeError("propagate: values must be real")
    x = np.asarray(into.flat(values))
    given = _covariance(errors, values, into)
    value = f(values)
    out = Vector("propagate: the result of f", value)
    if out.dtype.kind != "f" or any([aval_of(leaf).dtype.kind not in "fiu" for leaf in tree.leaves(value)]):
        raise TypeError("propagate: f must return real numbers")
    mode = jacfwd if into.size <= out.size else jacrev
    slopes = np.asarray(mode(lambda v: out.flat(f(into.tree(v))))(x))
    covariance = slopes @ given @ slopes.T
    return Propagated(value, out.tree(np.sqrt(np.diag(covariance))), covariance)


def _covariance(errors: Any, values: Any, into: Vector) -> np.ndarray:
    n = into.size
    if tree.structure(errors) == tree.structure(values) and [np.shape(e) for e in tree.leaves(errors)] == into.shapes:
        widths = np.asarray(into.flat(errors))
        if not np.all(widths >= 0):
            raise ValueError("propagate: standard errors must not be negative or NaN")
        return np.diag(widths**2)
    if tree.structure(errors) != tree.structure(0.0) or np.shape(errors) != (n, n):
        shape = f"shape {np.shape(errors)}" if tree.structure(errors) == tree.structure(0.0) else f"{tree.structure(errors)}"
        raise TreeMismatchError(
            f"propagate: errors must be standard errors like the values, or a covariance matrix ({n}, {n}), got {shape}"
        )
    covariance = np.asarray(errors, float)
    scale = np.sqrt(np.abs(np.outer(np.diag(covariance), np.diag(covariance))))
    if not np.all(np.abs(covariance - covariance.T) <= 1e-8 * scale) or not np.all(np.diag(covariance) >= 0):
        raise ValueError("propagate: the covariance must be symmetric, with a diagonal that is not negative")
    return covariance
