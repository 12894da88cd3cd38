"""Riccati's equations, differentiated implicitly, and bases of a matrix's null space and range."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.api.tools import ShapeDtypeStruct
from funcad.control.callback import pure_callback
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.primitives.conversion import stop_gradient
from funcad.primitives.linear_systems import mH, mT, solve
from funcad.primitives.shape import reshape
from funcad.scipy.door import implements, scipy_function
from funcad.scipy.linalg.decompositions import pinv, svd
from funcad.scipy.linalg.matrix_operands import double, inexact, is_complex
from funcad.scipy.optimize.implicit import implicit_root

__all__ = ["null_space", "orth", "solve_continuous_are", "solve_discrete_are"]

_DENSE = 2500  # n² of a matrix up to which the linear system of its derivative is formed


def _adjoint(a: Any) -> Any:
    return mH(a) if is_complex(a) else mT(a)


def _solution(name: str, equation: Any, a: Any, b: Any, q: Any, r: Any, e: Any, s: Any, balanced: bool) -> Any:
    """The x with equation(x, ...) = 0 that SciPy chooses."""
    given = dict(zip("abqres", (a, b, q, r, e, s)))
    names = [k for k in given if given[k] is not None]
    parts = dict(zip(names, double(*inexact(*[given[k] for k in names]))))
    n = shape_of(parts["a"])[-1]
    if any(len(shape_of(x)) != 2 for x in parts.values()):
        raise ValueError(f"{name} takes matrices; use funcad.vmap for stacks of them")
    dtype = np.result_type(*[dtype_of(x) for x in parts.values()])

    def host(start: Any, *operands: Any) -> tuple[Any, dict]:
        known = dict(zip(names, operands))
        x = scipy_function(f"linalg.{name}")(
            *[known[k] for k in "abqr"], e=known.get("e"), s=known.get("s"), balanced=balanced
        )
        return np.asarray(x, dtype).ravel(), {}

    def residual(z: Any) -> Any:
        x = reshape(z, shape=(n, n))
        a, b, q, r = [parts[k] for k in "abqr"]
        e, s = parts.get("e", np.eye(n)), parts.get("s", np.zeros(shape_of(b)))
        return reshape(equation(x, a, b, q, r, e, s), shape=(n * n,))

    z, _ = implicit_root(residual, np.zeros(n * n, dtype), host, list(parts.values()), {}, dense=_DENSE)
    return reshape(z, shape=(n, n))


@implements("linalg.solve_continuous_are")
def solve_continuous_are(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True) -> Any:
    """The x with a^H x e + e^H x a - (e^H x b + s) r^-1 (b^H x e + s^H) + q = 0, by SciPy; differentiable in all of them.

    >>> import numpy as np, funcad
    >>> one = np.ones((1, 1))
    >>> cost = lambda q: funcad.scipy.linalg.solve_continuous_are(0.0 * one, one, q, one)[0, 0]
    >>> funcad.grad(cost)(4.0 * one).round(6)  # x = sqrt(q)
    array([[0.25]])
    """

    def equation(x: Any, a: Any, b: Any, q: Any, r: Any, e: Any, s: Any) -> Any:
        xe = np.matmul(x, e)
        gain = np.matmul(_adjoint(b), xe) + _adjoint(s)
        left = np.matmul(_adjoint(a), xe)
        right = np.matmul(np.matmul(_adjoint(e), x), a)
        pull = np.matmul(np.matmul(_adjoint(e), np.matmul(x, b)) + s, solve(r, gain))
        return left + right - pull + q

    return _solution("solve_continuous_are", equation, a, b, q, r, e, s, balanced)


@implements("linalg.solve_discrete_are")
def solve_discrete_are(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True) -> Any:
    """The x with a^H x a - e^H x e - (a^H x b + s) (r + b^H x b)^-1 (b^H x a + s^H) + q = 0, by SciPy; differentiable.

    >>> import numpy as np, funcad
    >>> one = np.ones((1, 1))
    >>> cost = lambda q: funcad.scipy.linalg.solve_discrete_are(one, one, q, one)[0, 0]
    >>> funcad.grad(cost)(one).round(6)  # x = (q + sqrt(q² + 4 q)) / 2
    array([[1.17082]])
    """

    def equation(x: Any, a: Any, b: Any, q: Any, r: Any, e: Any, s: Any) -> Any:
        xa = np.matmul(x, a)
        xb = np.matmul(x, b)
        gain = np.matmul(_adjoint(b), xa) + _adjoint(s)
        pull = np.matmul(np.matmul(_adjoint(a), xb) + s, solve(r + np.matmul(_adjoint(b), xb), gain))
        return np.matmul(_adjoint(a), xa) - np.matmul(_adjoint(e), np.matmul(x, e)) - pull + q

    return _solution("solve_discrete_are", equation, a, b, q, r, e, s, balanced)


# -- bases


def _rank(A: Any, rcond: Any) -> int:
    """By the singular values if they are known; inside jit and vmap the rank is taken to be full."""
    known = concrete_value(A)
    m, n = shape_of(A)
    if type(known) is Tracer:
        return min(m, n)
    s = np.linalg.svd(np.asarray(known), compute_uv=False)
    rcond = np.finfo(s.dtype).eps * max(m, n) if rcond is None else rcond
    return int(np.sum(s > np.max(s, initial=0.0) * rcond))


@implements("linalg.null_space")
def null_space(A: Any, rcond: Any = None, **options: Any) -> Any:
    """`scipy.linalg.null_space`: an orthonormal basis N of the x with A x = 0, differentiable while the rank of A stays.

    A basis can be turned within its space; this one moves without turning (N^H dN = 0), which is the only part of its
    derivative that does not depend on how SciPy chooses it. Inside jit and vmap the rank of A is taken to be full.

    >>> import numpy as np, funcad
    >>> line = lambda a: (lambda n: np.outer(n, n))(funcad.scipy.linalg.null_space(np.stack([a, np.ones(2)])[:1])[:, 0])
    >>> funcad.jvp(line, (np.array([1.0, 0.0]),), (np.array([0.0, 1.0]),))[1].round(6) + 0.0
    array([[ 0., -1.],
           [-1.,  0.]])
    """
    (A,) = inexact(A)
    m, n = shape_of(A)
    rank = _rank(A, rcond)
    host = lambda A: scipy_function("linalg.null_space")(A, rcond, **options)
    basis = pure_callback(host, ShapeDtypeStruct((n, n - rank), dtype_of(A)), stop_gradient(A), vmap_method="sequential")
    moved = basis - np.matmul(pinv(A, rtol=rcond), np.matmul(A, basis))
    if not n - rank:
        return moved
    # (1 + E)^(-1/2), where E is 0 and its first derivative too: these terms are exact to the fifth derivative
    error = np.matmul(_adjoint(moved), moved) - np.eye(n - rank)
    return np.matmul(moved, np.eye(n - rank) - 0.5 * error + 0.375 * np.matmul(error, error))


@implements("linalg.orth")
def orth(A: Any, rcond: Any = None) -> Any:
    """`scipy.linalg.orth`: an orthonormal basis of what A x can be, the left singular vectors; differentiable as `svd`'s.

    Inside jit and vmap the rank of A is taken to be full.

    >>> import numpy as np, funcad
    >>> direction = lambda a: abs(funcad.scipy.linalg.orth(np.stack([a, 2 * a], axis=1))[0, 0])
    >>> round(float(funcad.jvp(direction, (np.array([3.0, 4.0]),), (np.array([1.0, 0.0]),))[1]), 6)
    0.128
    """
    (A,) = inexact(A)
    return svd(A, full_matrices=False)[0][:, : _rank(A, rcond)]
