"""What the solvers of this folder share: SciPy runs on the host, the implicit function theorem differentiates.

A user's function is made a function of one vector and of the traced values that it closes over (`Hoisted`). `implicit_root`
hands SciPy's solver to `custom_root` as a host callback, so it works under grad, jit and vmap (lane by lane), at every order.
Traps: a function that looks at values in Python (`if x > 0`) cannot be traced abstractly; it works as long as nothing outside
is traced. A solver that fails gives a point that is no solution: when a derivative could be taken there, it warns.
Derivatives that the user gives (`jac=`, `hess=`) are compared with funcad's where the search starts (`Claim`).
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad import tree
from funcad.api.tools import ShapeDtypeStruct
from funcad.api.vmap import vmap
from funcad.control.callback import pure_callback
from funcad.control.rules import closure_convert
from funcad.control.solve import custom_root
from funcad.errors import TracerArrayConversionError, TracerBoolConversionError, TracerIntegerConversionError
from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.jitted.jit import jit
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.linear_systems import solve
from funcad.primitives.shape import concatenate, reshape
from funcad.scipy.sparse.krylov_solvers import strictly
from funcad.scipy.tree_vectors import Vector

DENSE = 500  # unknowns up to which the linear system of a derivative is formed
_CONVERSIONS = (TracerBoolConversionError, TracerArrayConversionError, TracerIntegerConversionError)

Flat = Callable[..., Any]


def scipy_optimize() -> Any:
    """The one door to scipy.optimize."""
    return importlib.import_module("scipy.optimize")


def result_of(**fields: Any) -> Any:
    """SciPy's OptimizeResult, which is made a pytree at its first use: numbers and arrays are leaves, texts are not."""
    cls = scipy_optimize().OptimizeResult
    if tree.structure(cls(x=1)) == tree.structure(1):
        tree.register_pytree_node(cls, _flatten, lambda static, leaves: _unflatten(cls, static, leaves))
    return cls(**fields)


def _flatten(result: Any) -> tuple[list[Any], tuple]:
    texts = tuple((k, v) for k, v in sorted(result.items()) if isinstance(v, str))
    names = tuple(k for k, v in sorted(result.items()) if not isinstance(v, str))
    return [result[k] for k in names], (names, texts)


def _unflatten(cls: type, static: tuple, leaves: Sequence[Any]) -> Any:
    names, texts = static
    return cls(**dict(zip(names, leaves)), **dict(texts))


def _is_nested(x: Any) -> bool:
    """Lists or tuples, in each other perhaps, of plain numbers."""
    return isinstance(x, (list, tuple)) and bool(x) and all(is_a(v, _NUMBERS) or _is_nested(v) for v in x)


_NUMBERS = (int, float, complex, np.generic)


def unknown(what: str, x0: Any, one: bool = False) -> tuple[Vector, Any]:
    """(how a starting point becomes a vector, that vector); lists and tuples of plain numbers are an array, as in SciPy.

    `one`: this function of SciPy's makes a vector of one element of a number, and gives such a vector.
    """
    if _is_nested(x0):
        x0 = np.asarray(x0)
    leaves = tree.leaves(x0)
    if one and len(leaves) == 1 and leaves[0] is x0 and shape_of(x0) == ():
        x0 = reshape(x0, shape=(1,))
    vector = Vector(what, x0)
    return vector, stop_gradient(vector.flat(x0))


class Hoisted:
    """A function of vectors, and the traced values that it closes over.

    `function(*vectors, *values)`; `values` is empty if it depends on nothing that is traced. `compiled(transform)` is a
    function of NumPy vectors and values for SciPy to call.
    """

    def __init__(self, f: Flat, *examples: Any):
        self.error: Exception | None = None
        self.values: list[Any] = []
        try:
            self.function, self.values = closure_convert(f, *examples)
        except _CONVERSIONS as error:  # it needs values to run: then it must not depend on traced ones
            self.function, self.error = f, error

    def compiled(self, transform: Callable[[Flat], Flat] = lambda f: f) -> Flat:
        derived = transform(self.function)
        if self.error is None:
            return jit(derived)

        def checked(*args: Any) -> Any:
            out = derived(*args)
            if any(type(x) is Tracer for x in tree.leaves(out)):
                raise self.error  # type: ignore[misc]
            return out

        return checked

    def check_callback(self, what: str, callback: Any, *more: Any) -> None:
        """Raise where the solver runs later than the function that calls it, which may read what the callback stored."""
        if callback is not None and any([type(concrete_value(v)) is Tracer for v in (*self.values, *more)]):
            raise NotImplementedError(
                f"{what}: inside jit and vmap the solver runs after the function has been traced, so that what the callback "
                "stores is not there when the function reads it.\nRemedy: leave callback out; the result's nit and nfev are "
                "there."
            )


class Claim(Hoisted):
    """A derivative that the user gives, and funcad's of the same function; the latter is used, and can be derived again."""

    def __init__(self, name: str, given: Flat, own: Flat, start: Any):
        super().__init__(lambda v: (given(v), own(v)), start)
        self.name, self.size = name, shape_of(start)[0]

    def check(self, start: Any, values: Sequence[Any]) -> None:
        given, own = [np.asarray(x) for x in self.compiled()(start, *values)]
        if given.shape != own.shape:
            raise ValueError(f"{self.name} must return {own.size} numbers, got {given.size}")
        known = np.isfinite(own)  # where there is no derivative, nothing can be said
        gap, size = [np.abs(x[known]).max(initial=0.0) for x in (given - own, own)]
        if not gap <= 1e-4 * (1.0 + size):
            warnings.warn(
                f"{self.name} differs by {gap:.3g} from the function's derivative, at the start of the search.\n"
                "funcad's derivative is used; correct yours, or leave it out.",
                RuntimeWarning,
                stacklevel=2,
            )


def check_claims(claims: Sequence[Claim], start: Any) -> None:
    """Where nothing is traced."""
    for claim in claims:
        if not is_abstract(*claim.values):
            claim.check(start, ())


def is_abstract(*values: Any) -> bool:
    """Is any of the values traced?"""
    return any(type(v) is Tracer for v in values)


def integer(result: Any, name: str) -> np.int64:
    """A count from SciPy's result, 0 if this solver does not count it."""
    return np.int64(result.get(name, 0) or 0)


def warn_degenerate(what: str, why: str) -> None:
    warnings.warn(
        f"{what} found a degenerate solution: {why}.\n"
        "To one side it moves otherwise than to the other: its derivative is one of several.",
        RuntimeWarning,
        stacklevel=2,
    )


def warn_failure(what: str, message: Any) -> None:
    warnings.warn(
        f"{what} did not converge: {message}\nIts derivative is that of a solution, which this point is not; look at success.",
        RuntimeWarning,
        stacklevel=2,
    )


def _dense(g: Callable[[Any], Any], y: Any) -> Any:
    """x with g(x) = y, g linear on vectors, by its matrix."""
    n = shape_of(y)[0]
    matrix = vmap(g)(np.eye(n, dtype=y.dtype)).T
    return reshape(solve(matrix, reshape(y, shape=(n, 1))), shape=(n,))


def _iterative(symmetric: bool) -> Callable[..., Any]:
    return lambda g, y: strictly(g, y, float(np.finfo(y.dtype).eps) ** 0.75, symmetric)


def _after(claim: Claim, host: Callable[..., Any], count: int) -> Callable[..., Any]:
    """`host`, which takes the first `count` operands, after the claim has been checked with those behind them."""

    def checked(start: Any, *operands: Any) -> Any:
        claim.check(np.asarray(start)[: claim.size], operands[count:])
        return host(start, *operands[:count])

    return checked


def implicit_root(
    residual: Callable[[Any], Any],
    start: Any,
    host: Callable[..., tuple[Any, dict]],
    operands: Sequence[Any],
    fields: dict[str, Any],
    symmetric: bool = False,
    claims: Sequence[Claim] = (),
    dense: int = DENSE,
) -> tuple[Any, dict]:
    """(z, aux) with residual(z) = 0, as `host(start, *operands)` finds it on NumPy arrays; aux has the dtypes `fields`.

    Differentiable in everything that `residual` closes over; `symmetric` says that its Jacobian is. `claims` are about the
    function of the first of `start`'s elements; one that cannot be traced cannot be checked here. Up to `dense` unknowns the
    linear system of the derivative is formed.
    """
    claims = [c for c in claims if c.error is None]
    for claim in claims:
        host = _after(claim, host, len(operands))
        operands = [*operands, *claim.values]
    n, dtype = shape_of(start)[0], start.dtype
    shapes = (ShapeDtypeStruct((n,), dtype), {k: ShapeDtypeStruct((), d) for k, d in fields.items()})
    operands = [stop_gradient(v) for v in operands]

    def solver(f: Any, guess: Any) -> Any:
        return pure_callback(host, shapes, guess, *operands, vmap_method="sequential")

    tangent_solve = _dense if n <= dense else _iterative(symmetric)
    return custom_root(residual, start, solver, tangent_solve, has_aux=True)


# -- bounds and constraints of `minimize`, and the equations that a constrained minimum satisfies
#
# Bounds: x - clip(x - gradient, low, high) = 0; its derivative is the Hessian's rows where x is free, and holds x at a bound
# that is active. Constraints: the equations of Karush, Kuhn and Tucker for (x, multipliers), in which an inequality c >= 0 with
# multiplier m contributes c if it is active (c <= m) and m otherwise. They determine the derivative if the gradients of the
# active constraints are independent and no active one has the multiplier 0; a singular system raises LinAlgError.


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
