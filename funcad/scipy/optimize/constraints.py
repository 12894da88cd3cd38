"""Bounds and constraints of `minimize`, and the equations that a constrained minimum satisfies.

Bounds: x - clip(x - gradient, low, high) = 0; its derivative is the Hessian's rows where x is free, and holds x at a bound
that is active. Constraints: the equations of Karush, Kuhn and Tucker for (x, multipliers), in which an inequality c >= 0 with
multiplier m contributes c if it is active (c <= m) and m otherwise. They determine the derivative if the gradients of the
active constraints are independent and no active one has the multiplier 0; a singular system raises LinAlgError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.primitives.conversion import convert
from funcad.primitives.shape import concatenate, reshape
from funcad.scipy.optimize.implicit import scipy_optimize
from funcad.scipy.tree_vectors import Vector

__all__ = ["bounds_of", "constraint_function", "projected", "multipliers_of"]


def bounds_of(bounds: Any, vector: Vector) -> tuple[Any, Any] | None:
    """(low, high) as vectors, from SciPy's Bounds or a sequence of pairs, in which None and traced numbers are allowed."""
    if bounds is None:
        return None
    n = vector.size
    if hasattr(bounds, "lb"):
        low, high = (np.broadcast_to(np.asarray(v, vector.dtype), (n,)) for v in (bounds.lb, bounds.ub))
        return low, high
    pairs = list(bounds)
    if len(pairs) != n or any(len(p) != 2 for p in pairs):
        raise ValueError(f"minimize: bounds must be {n} pairs (low, high), one per element of x0, got {len(pairs)}")
    sides = []
    for side, open_end in ((0, -np.inf), (1, np.inf)):
        values = [open_end if p[side] is None else p[side] for p in pairs]
        stacked = fnp.stack([fnp.asarray(v) for v in values]) if any(type(v) is Tracer for v in values) else np.asarray(values)
        sides.append(convert(stacked, vector.dtype))
    return sides[0], sides[1]


def projected(x: Any, gradient: Any, bounds: tuple[Any, Any] | None) -> Any:
    """What is zero at a minimum within bounds; the gradient if there are none."""
    if bounds is None:
        return gradient
    low, high = bounds
    return x - np.minimum(np.maximum(x - gradient, low), high)


def _ravel(x: Any, dtype: Any) -> Any:
    x = fnp.asarray(x)
    x = x if aval_of(x).dtype == dtype else convert(x, dtype)
    return reshape(x, shape=(aval_of(x).size,))


def _parts(constraint: Any, vector: Vector) -> tuple[Callable[[Any], list[Any]], Callable[[Any], list[Any]]]:
    """(values that must be 0, values that must not be negative) of one constraint, as functions of the vector."""
    if isinstance(constraint, dict):
        kind, f, args = constraint.get("type", "").lower(), constraint["fun"], constraint.get("args", ())
        if kind not in ("eq", "ineq"):
            raise ValueError(f"Unknown constraint type {constraint.get('type')!r}: it must be 'eq' or 'ineq'")
        values = lambda v: [_ravel(f(vector.tree(v), *args), vector.dtype)]
        nothing: Callable[[Any], list[Any]] = lambda v: []
        return (values, nothing) if kind == "eq" else (nothing, values)
    if hasattr(constraint, "A"):
        matrix = constraint.A.toarray() if hasattr(constraint.A, "toarray") else np.atleast_2d(constraint.A)
        matrix = matrix.astype(vector.dtype)
        value = lambda v: matrix @ v
    elif hasattr(constraint, "fun"):
        value = lambda v: _ravel(constraint.fun(vector.tree(v)), vector.dtype)
    else:
        raise TypeError(f"minimize: constraints are dicts, LinearConstraints or NonlinearConstraints, got {type(constraint)}")

    def split(v: Any) -> tuple[list[Any], list[Any]]:
        c = value(v)
        low, high = (np.broadcast_to(np.asarray(b, vector.dtype), shape_of(c)) for b in (constraint.lb, constraint.ub))
        same = low == high
        below, above = np.flatnonzero(np.isfinite(low) & ~same), np.flatnonzero(np.isfinite(high) & ~same)
        fixed = np.flatnonzero(same)
        return [c[fixed] - low[fixed]], [c[below] - low[below], high[above] - c[above]]

    return (lambda v: split(v)[0]), (lambda v: split(v)[1])


def constraint_function(constraints: Any, vector: Vector) -> Callable[[Any], tuple[Any, Any]]:
    """The vector -> (all values that must be 0, all that must not be negative)."""
    given: Sequence[Any] = constraints if isinstance(constraints, (list, tuple)) else [constraints]
    parts = [_parts(c, vector) for c in given]

    def function(v: Any) -> tuple[Any, Any]:
        result = []
        for side in (0, 1):
            values = [c for p in parts for c in p[side](v)]
            result.append(concatenate(values, axis=0) if values else np.zeros(0, vector.dtype))
        return result[0], result[1]

    return function


def multipliers_of(x: Any, gradient: Any, values: Any, jacobians: Any, bounds: Any) -> tuple[np.ndarray, np.ndarray]:
    """Multipliers at a minimum: the gradient, where x is free, as a combination of the constraints' gradients."""
    equal, unequal = values
    j_equal, j_unequal = (np.asarray(j, float).reshape(len(c), len(x)) for j, c in zip(jacobians, values))
    free = np.ones(len(x), bool)
    if bounds is not None:
        room = 1e-7 * (1 + np.abs(x))
        free = (x - bounds[0] > room) & (bounds[1] - x > room)
    active = np.flatnonzero(unequal <= 1e-5 * (1 + np.abs(unequal).max(initial=0)))
    columns = np.concatenate([j_unequal[active], j_equal, -j_equal]).T[free]
    found = scipy_optimize().nnls(columns, np.asarray(gradient, float)[free])[0] if columns.size else np.zeros(columns.shape[1])
    m = np.zeros(len(unequal))
    m[active] = found[: len(active)]
    rest = found[len(active) :]
    return rest[: len(equal)] - rest[len(equal) :], m
