"""Iterative solvers of linear systems, differentiated implicitly: cg, bicgstab, gmres and minres, with JAX's signatures.

The operator is a matrix, a SciPy sparse matrix or a function on pytrees like b; it may close over traced values. The solution
is differentiated by the equation that it satisfies (`custom_linear_solve`), by another run of the same solver, so derivatives
are as accurate as its tolerance. Solvers work on one vector and stop at norm(b - A x) <= max(tol * norm(b), atol); the second
result is 0 if that was reached, otherwise the number of iterations (negative: breakdown). A residual that is not finite makes
the solution NaN, as in SciPy. Trap: with x0 the system is solved
for x - x0; the norm of b goes along as a further unknown, because tangents have a size of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import funcad.numpy as fnp
from funcad import tree
from funcad.api.border import api, name_of
from funcad.api.tools import ShapeDtypeStruct
from funcad.api.vjp import linear_transpose
from funcad.configuration import mirrors
from funcad.control.callback import pure_callback
from funcad.control.loops import fori_loop
from funcad.control.solve import custom_linear_solve, custom_root
from funcad.control.while_loop import while_loop
from funcad.ir.aval import Aval, aval_of, dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.factorizations import lstsq
from funcad.primitives.placement import capture_as_inputs
from funcad.primitives.shape import zeros
from funcad.scipy.sparse.factorized_systems import host_solver, matrix_of, scipy_linalg
from funcad.scipy.sparse.sparse_arrays import entries, is_sparse, is_traced, product
from funcad.scipy.tree_vectors import Vector

Operator = Callable[[Any], Any]
Solver = Callable[..., tuple[Any, Any, Any]]  # (x, iterations, squared norm of the residual)


def _is_array(a: Any) -> bool:
    dense = hasattr(a, "shape") and hasattr(a, "dtype") and not callable(a) and not is_sparse(a)
    return type(a) is Tracer or dense and not hasattr(a, "matvec")


def _operator(what: str, a: Any, vector: Vector) -> Operator:
    """A matrix or a function on pytrees, as a function on vectors."""
    if hasattr(a, "tocoo"):
        rows, columns, data, shape = entries(a)
        if shape[0] != shape[1]:
            raise ValueError(f"{what} must be a square matrix or a function, got the shape {shape}")
        a = lambda x: product(rows, columns, data, shape[0], x)
        name = "the sparse matrix"
    elif _is_array(a):
        if len(shape_of(a)) != 2 or shape_of(a)[0] != shape_of(a)[1]:
            raise ValueError(f"{what} must be a square matrix or a function, got the shape {shape_of(a)}")
        matrix = a
        a = lambda x: matrix @ x
        name = "the matrix"
    elif hasattr(a, "matvec"):  # SciPy's LinearOperator
        name = "the operator"
        a = a.matvec
    elif callable(a):
        name = name_of(a)
    else:
        raise TypeError(f"{what} must be a function, a matrix or a sparse matrix, got {type(a).__name__}")
    return lambda x: vector.flat(a(vector.tree(x)), f"{what} of x ({name})")


class _Until(NamedTuple):
    """When a solver stops: at norm(b - A x) <= max(tol * norm(b), atol), or after `maxiter` iterations."""

    tol: Any
    atol: Any = 0.0
    maxiter: int | None = None


def _solve(
    name: str,
    solver: Solver,
    a: Any,
    b: Any,
    x0: Any,
    until: _Until,
    m: Any,
    hermitian: bool,
    strict: bool = False,
) -> tuple[Any, Any]:
    """`strict`: a solution that did not converge is NaN."""
    if hasattr(a, "dtype") and (hasattr(a, "tocoo") or _is_array(a)) and _is_array(b):
        dtype = np.result_type(dtype_of(b), a.dtype)  # of a matrix and its right-hand side, as SciPy's
        b = convert(b, dtype) if dtype.kind in "fc" and dtype != dtype_of(b) else b
    vector = Vector(f"{name}: b", b)
    arrays = [v for v in (a, m) if _is_array(v)]
    given = iter(capture_as_inputs(arrays, [*arrays, vector.flat(b)]))
    a, m = (next(given) if _is_array(v) else v for v in (a, m))
    matvec = _operator(f"{name}: A", a, vector)
    precondition = _operator(f"{name}: M", m, vector) if m is not None else None
    count = 10 * vector.size if until.maxiter is None else int(until.maxiter)

    def transposed_preconditioner() -> Operator | None:
        if precondition is None:
            return None
        back = linear_transpose(precondition, ShapeDtypeStruct((vector.size,), vector.dtype))
        return lambda x: back(x)[0]

    def run(matvec: Operator, pair: Any, m: Operator | None) -> tuple[Any, Any]:
        r, scale = pair if x0 is not None else (pair, None)
        size = np.sqrt(np.vdot(r, r).real)
        size = size if scale is None else np.maximum(size, np.abs(scale))
        bound = np.maximum(until.tol * size, until.atol)
        x, info, residual = solver(_on_first(matvec, pair), r, bound, count, m or (lambda x: x))
        reached = (residual <= bound * bound) & np.isfinite(residual)
        x = np.where(np.isfinite(residual), x, np.nan)
        info = np.where(reached, 0, np.where(info == 0, 1, info))
        if strict:
            x = np.where(info == 0, x, np.nan)
        return (x, info) if scale is None else ((x, scale), info)

    def _on_first(matvec: Operator, pair: Any) -> Operator:
        return matvec if x0 is None else lambda x: matvec((x, pair[1] * 0))[0]

    right = vector.flat(b, "b")
    start = None
    operator = matvec
    if x0 is not None:
        start = stop_gradient(vector.flat(x0, "x0"))
        norm = stop_gradient(np.sqrt(np.vdot(right, right).real))
        right = (right - matvec(start), norm)
        operator = lambda pair: (matvec(pair[0]), pair[1])
    symmetric = hermitian and vector.dtype.kind == "f"
    x, info = custom_linear_solve(
        operator,
        right,
        lambda f, v: run(f, v, precondition),
        None if symmetric else lambda f, v: run(f, v, transposed_preconditioner())[0],
        symmetric=symmetric,
        has_aux=True,
    )
    return vector.tree(x if start is None else start + x[0]), info


def strictly(a: Operator, b: Any, tol: float, hermitian: bool) -> Any:
    """The solution for a vector b, NaN if it was not found: what differentiates other solvers."""
    solver = _cg if hermitian else _gmres(20)
    return _solve("implicit differentiation", solver, a, b, None, _Until(tol), None, hermitian, strict=True)[0]


def _squared(x: Any) -> Any:
    return np.vdot(x, x).real


# -- conjugate gradients


def _cg(a: Operator, b: Any, bound: Any, maxiter: int, m: Operator) -> tuple[Any, Any, Any]:
    z = m(b)
    first = (b * 0, b, z, np.vdot(b, z).real, 0)

    def running(state: Any) -> Any:
        return (_squared(state[1]) > bound * bound) & (state[-1] < maxiter)

    def step(state: Any) -> Any:
        x, r, p, gamma, k = state
        image = a(p)
        alpha = gamma / np.vdot(p, image).real
        x, r = x + alpha * p, r - alpha * image
        z = m(r)
        new = np.vdot(r, z).real
        return x, r, z + new / gamma * p, new, k + 1

    x, r, _, _, k = while_loop(running, step, first)
    return x, k, _squared(r)


@api
def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-5,
    atol: Any = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    rtol: Any = None,
) -> tuple[Any, Any]:
    """Solve A x = b by conjugate gradients, for Hermitian positive definite A: `(x, info)`.

    `A` is a matrix, a SciPy sparse matrix or a function from pytrees like `b` to such (ValueError or TypeError if it does not
    fit); `M` approximates the inverse of A, in the same forms. It stops at norm(b - A x) <= max(tol * norm(b), atol), or after
    `maxiter` iterations; info is 0 if that was reached, otherwise the number of iterations (JAX's is None). `rtol` is SciPy's
    name for tol. Differentiable in b and in what A is made of, not in x0 and M.

    >>> import numpy as np, funcad
    >>> f = lambda t: funcad.scipy.sparse.linalg.cg(lambda x: t * x, np.ones(2))[0][0]
    >>> round(float(funcad.grad(f)(2.0)), 6)
    -0.25
    """
    return _solve("cg", _cg, A, b, x0, _Until(tol if rtol is None else rtol, atol, maxiter), M, True)


# -- stabilized biconjugate gradients


def _bicgstab(a: Operator, b: Any, bound: Any, maxiter: int, m: Operator) -> tuple[Any, Any, Any]:
    one = b.dtype.type(1)
    first = (b * 0, b, one, one, one, b * 0, b * 0, 0)

    def running(state: Any) -> Any:
        k = state[-1]
        return (_squared(state[1]) > bound * bound) & (k < maxiter) & (k >= 0)

    def step(state: Any) -> Any:
        x, r, alpha, omega, rho, p, q, k = state
        new = np.vdot(b, r)
        p = r + new / rho * (alpha / omega) * (p - omega * q)
        direction = m(p)
        q = a(direction)
        alpha = new / np.vdot(b, q)
        s = r - alpha * q
        early = _squared(s) <= bound * bound
        second = m(s)
        t = a(second)
        squared = np.vdot(t, t)
        omega = np.where(early | (squared == 0), 0, np.vdot(t, s) / np.where(squared == 0, one, squared)).astype(b.dtype)
        x = x + alpha * direction + omega * second
        k = np.where(((omega == 0) & ~early) | (alpha == 0), -11, k + 1)
        return x, s - omega * t, alpha, omega, new, p, q, np.where(new == 0, -10, k)

    x, r, *_, k = while_loop(running, step, first)
    return x, k, _squared(r)


@api
def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-5,
    atol: Any = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    rtol: Any = None,
) -> tuple[Any, Any]:
    """Solve A x = b by stabilized biconjugate gradients, for general square A: `(x, info)`.

    Arguments and results as those of `cg`; a negative info says that the method broke down (-10 or -11, as SciPy).

    >>> import numpy as np, funcad
    >>> f = lambda a: funcad.scipy.sparse.linalg.bicgstab(a, np.ones(1))[0][0]
    >>> funcad.grad(f)(np.array([[2.0]]))
    array([[-0.25]])
    """
    return _solve("bicgstab", _bicgstab, A, b, x0, _Until(tol if rtol is None else rtol, atol, maxiter), M, False)


# -- generalized minimal residuals


def _gmres(restart: int) -> Solver:
    def solver(a: Operator, b: Any, bound: Any, maxiter: int, m: Operator) -> tuple[Any, Any, Any]:
        n = b.shape[0]
        width = min(restart, n)
        tiny = np.finfo(b.dtype).eps

        def arnoldi(i: Any, state: Any) -> Any:
            """One more vector of the Krylov space, orthogonal to the others (twice, because rounding needs it)."""
            v, h = state
            z = a(m(v[i]))
            before = np.sqrt(_squared(z))
            first = np.conj(v) @ z
            z = z - first @ v
            second = np.conj(v) @ z
            z = z - second @ v
            size = np.sqrt(_squared(z))
            alive = size > 10 * tiny * before
            z = np.where(alive, z / np.where(alive, size, 1), 0)
            column = fnp.at(first + second)[i + 1].add(np.where(alive, size, 0).astype(b.dtype))
            return fnp.at(v)[i + 1].set(z), fnp.at(h)[i].set(column)

        def cycle(state: Any) -> Any:
            x, r, k = state
            size = np.sqrt(_squared(r))
            v = fnp.at(zeros(Aval((width + 1, n), b.dtype)))[0].set(r / np.where(size == 0, 1, size))
            v, h = fori_loop(0, width, arnoldi, (v, zeros(Aval((width, width + 1), b.dtype))))
            first = fnp.at(zeros(Aval((width + 1, 1), b.dtype)))[0, 0].set(size.astype(b.dtype))
            finite = np.all(np.isfinite(h)) & np.isfinite(size)  # LAPACK raises for what is not
            y = lstsq(np.where(finite, h, 0).T, np.where(finite, first, 0), rcond=float(tiny) * (width + 1))
            x = x + m(np.where(finite, y[:, 0], np.nan) @ v[:width])
            return x, b - a(x), k + 1

        running = lambda state: (_squared(state[1]) > bound * bound) & (state[-1] < maxiter)
        x, r, k = while_loop(running, cycle, (b * 0, b, 0))
        return x, k, _squared(r)

    return solver


@api
def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-5,
    atol: Any = 0.0,
    restart: int | None = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
    rtol: Any = None,
) -> tuple[Any, Any]:
    """Solve A x = b by generalized minimal residuals, for general square A: `(x, info)`.

    As `cg`; the Krylov space has `restart` vectors and is built at most `maxiter` times. The preconditioner is applied on the
    right, so that the residual is that of the given system. Both of JAX's solve methods are taken: "batched" and
    "incremental" give the same solution, from the whole Krylov space.

    >>> import numpy as np, funcad
    >>> f = lambda a: funcad.scipy.sparse.linalg.gmres(a, np.ones(1))[0][0]
    >>> funcad.grad(f)(np.array([[2.0]]))
    array([[-0.25]])
    """
    if solve_method not in ("batched", "incremental"):
        raise ValueError(f"gmres: solve_method must be 'batched' or 'incremental', got {solve_method!r}")
    restart = 20 if restart is None else restart
    if int(restart) < 1:
        raise ValueError(f"gmres: restart must be positive, got {restart}")
    until = _Until(tol if rtol is None else rtol, atol, maxiter)
    return _solve("gmres", _gmres(int(restart)), A, b, x0, until, M, False)


# -- minimal residuals of symmetric systems


def _minres(a: Operator, b: Any, bound: Any, maxiter: int, m: Operator) -> tuple[Any, Any, Any]:
    """Paige and Saunders (1975): Lanczos vectors, and the QR factors of their tridiagonal matrix by rotations."""
    y = m(b)
    beta = np.sqrt(np.vdot(b, y).real)
    zero = beta * 0
    nothing = b * 0
    first = (nothing, b, b, y, nothing, nothing, beta, zero, zero, zero, beta, zero - 1, zero, 0)

    def running(state: Any) -> Any:
        return (state[10] > bound) & (state[-1] < maxiter)

    def step(state: Any) -> Any:
        x, r_old, r, y, w_old, w, beta, beta_old, d, e, residual, cosine, sine, k = state
        v = y / beta
        y = a(v)
        y = y - np.where(k > 0, beta / np.where(k > 0, beta_old, 1), 0) * r_old
        alpha = np.vdot(v, y).real
        y = y - alpha / beta * r
        r_old, r = r, y
        y = m(r)
        beta_old, beta = beta, np.sqrt(np.maximum(np.vdot(r, y).real, 0))
        delta, bar = cosine * d + sine * alpha, sine * d - cosine * alpha
        e_old, e, d = e, sine * beta, -cosine * beta
        size = np.maximum(np.hypot(bar, beta), np.finfo(b.dtype).tiny)
        cosine, sine = bar / size, beta / size
        w_old, w = w, (v - e_old * w_old - delta * w) / size
        x = x + cosine * residual * w
        return x, r_old, r, y, w_old, w, beta, beta_old, d, e, sine * residual, cosine, sine, k + 1

    state = while_loop(running, step, first)
    return state[0], state[-1], state[10] ** 2


@api
def minres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: Any = 1e-5,
    shift: Any = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    atol: Any = 0.0,
) -> tuple[Any, Any]:
    """Solve (A - shift I) x = b by minimal residuals, for Hermitian A that may be indefinite: `(x, info)`.

    Arguments and results as those of `cg`, and `shift` of SciPy; M is positive definite, and the residual is measured in its
    norm. At most 5 n iterations by default. Differentiable in b, in `shift` and in what A is made of.

    >>> import numpy as np, funcad
    >>> f = lambda a: funcad.scipy.sparse.linalg.minres(a, np.ones(2))[0].sum()
    >>> funcad.grad(f)(np.diag([2.0, -1.0])).diagonal().round(6)
    array([-0.25, -1.  ])
    """
    operator = A
    if type(shift) is Tracer or shift != 0:
        times = (lambda x: A @ x) if _is_array(A) or hasattr(A, "tocoo") else getattr(A, "matvec", A)
        operator = lambda x: tree.map(lambda y, z: y - shift * z, times(x), x)
    count = 5 * sum([aval_of(v).size for v in tree.leaves(b)]) if maxiter is None else maxiter
    return _solve("minres", _minres, operator, b, x0, _Until(rtol, atol, count), M, True)


mirrors([bicgstab, cg, gmres, minres], "scipy.sparse.linalg")


# -- least squares with sparse matrices: lsqr and lsmr, SciPy's solvers in a callback, differentiated by the normal equations
#
# The minimum of |A x - b|^2 + damp^2 |x - x0|^2 and its residual solve one symmetric system, [[-damp^2, A^T], [A, 1]]; a
# solution of least norm, of a matrix with more columns than rows, solves [[-1, A^T], [A, 0]]. The root of that system is
# differentiated (`custom_root`), by SuperLU. A matrix without full rank makes it singular: the derivatives are NaN.


def _least_squares(name: str, a: Any, b: Any, damp: Any, x0: Any, options: dict[str, Any]) -> tuple[Any, ...]:
    a = matrix_of(a, b, damp, x0)
    if not is_traced(a, b, damp, x0):
        found: tuple[Any, ...] = getattr(scipy_linalg(), name)(a, b, damp, x0=x0, **options)
        return found
    if not is_sparse(a) and not hasattr(a, "shape"):
        raise TypeError(
            f"{name}: beside traced values A must be a sparse or dense matrix or a LinearOperator, got {type(a).__name__}.\n"
            "Remedy: solve the normal equations with funcad.scipy.sparse.linalg.cg, which takes functions."
        )
    row, col, data, (m, n) = entries(a)
    if shape_of(b) not in ((m,), (m, 1)):
        raise ValueError(f"{name}: the shapes of A {(m, n)} and b {shape_of(b)} do not fit")
    values = [data, fnp.reshape(b, (m,)), damp, fnp.zeros(n) if x0 is None else x0]
    dtype = np.dtype(float)
    for v in values:
        if dtype_of(v).kind == "c":
            raise TypeError(f"{name}: funcad differentiates real systems, got {dtype_of(v)}")
    data, b, damp, start = [v if dtype_of(v) == dtype else convert(fnp.asarray(v), dtype) for v in values]

    def host(data: np.ndarray, b: np.ndarray, damp: np.ndarray, start: np.ndarray) -> list[Any]:
        matrix = _matrix(data, row, col, (m, n))
        given = None if x0 is None else start
        return [np.asarray(v, float) for v in getattr(scipy_linalg(), name)(matrix, b, float(damp), x0=given, **options)]

    like = [ShapeDtypeStruct((n,), dtype), *[ShapeDtypeStruct((), dtype)] * (8 if name == "lsqr" else 7)]
    like += [ShapeDtypeStruct((n,), dtype)] if name == "lsqr" else []
    fixed = [stop_gradient(v) for v in (data, b, damp, start)]
    x, *rest = pure_callback(host, like, *fixed, vmap_method="sequential")
    x = _differentiable(row, col, data, (m, n), b, damp, start, x)
    return (x, *[convert(v, np.dtype(int)) if i < 2 else v for i, v in enumerate(rest)])


def _matrix(data: Any, row: Any, col: Any, shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_array

    return csr_array((data, (row, col)), shape=shape)


def _differentiable(row: Any, col: Any, data: Any, shape: tuple[int, int], b: Any, damp: Any, start: Any, x: Any) -> Any:
    """The solution x as a root of the normal equations."""
    m, n = shape
    least_norm = (damp == 0) & (m < n)  # damp may be traced
    p, q = fnp.where(least_norm, 1.0, damp**2), fnp.where(least_norm, 0.0, 1.0)
    rows = np.concatenate([row + n, col, np.arange(n + m)])
    cols = np.concatenate([col, row + n, np.arange(n + m)])
    solve = host_solver(rows, cols, n + m)
    matrix = stop_gradient(fnp.concatenate([data, data, fnp.broadcast_to(-p, (n,)), fnp.broadcast_to(q, (m,))]))

    def equations(pair: Any) -> Any:
        x, z = pair
        return -p * (x - start) + product(col, row, data, n, z), product(row, col, data, m, x) + q * z - b

    def inverse(_: Any, y: Any) -> Any:
        found = solve(matrix, fnp.concatenate(y), "N")
        return found[:n], found[n:]

    residual = stop_gradient(b) - product(row, col, stop_gradient(data), m, x)
    gap = fnp.concatenate([stop_gradient(p) * (x - stop_gradient(start)), fnp.zeros(m)])
    weights = fnp.where(least_norm, solve(matrix, gap, "N")[n:], residual) if m < n else residual
    guess = (x, stop_gradient(weights))
    linear = lambda g, y: custom_linear_solve(g, y, inverse, symmetric=True)
    return custom_root(equations, guess, lambda f, pair: pair, linear)[0]


@api
def lsqr(
    A: Any,
    b: Any,
    damp: Any = 0.0,
    atol: float = 1e-06,
    btol: float = 1e-06,
    conlim: float = 1e8,
    iter_lim: int | None = None,
    show: bool = False,
    calc_var: bool = False,
    x0: Any = None,
) -> tuple[Any, ...]:
    """The least-squares solution of A x = b by Golub-Kahan bidiagonalization: SciPy's tuple, `(x, istop, itn, ...)`.

    With nothing traced it is SciPy's own. x is differentiable in the elements of a real matrix `A` (sparse, with traced
    elements, or dense), in `b`, `damp` and `x0`; the other results are numbers without derivative. `atol`, `btol`, `conlim`,
    `iter_lim`, `show` and `calc_var` are SciPy's: derivatives are as accurate as the solution. A LinearOperator beside traced
    values, or that closes over such, is written out as a matrix. TypeError for complex numbers, ValueError for other shapes.

    >>> import numpy as np, funcad
    >>> a = np.array([[1.0], [1.0]])
    >>> funcad.grad(lambda b: funcad.scipy.sparse.linalg.lsqr(a, b)[0][0])(np.array([1.0, 3.0]))
    array([0.5, 0.5])
    """
    options = {"atol": atol, "btol": btol, "conlim": conlim, "iter_lim": iter_lim, "show": show, "calc_var": calc_var}
    return _least_squares("lsqr", A, b, damp, x0, options)


@api
def lsmr(
    A: Any,
    b: Any,
    damp: Any = 0.0,
    atol: float = 1e-06,
    btol: float = 1e-06,
    conlim: float = 1e8,
    maxiter: int | None = None,
    show: bool = False,
    x0: Any = None,
) -> tuple[Any, ...]:
    """The least-squares solution of A x = b by LSMR: SciPy's tuple, `(x, istop, itn, normr, normar, norma, conda, normx)`.

    As `lsqr`: arguments, derivatives and errors are the same, `maxiter` is its iter_lim.

    >>> import numpy as np, funcad
    >>> a = np.array([[1.0], [1.0]])
    >>> funcad.grad(lambda b: funcad.scipy.sparse.linalg.lsmr(a, b)[0][0])(np.array([1.0, 3.0]))
    array([0.5, 0.5])
    """
    options = {"atol": atol, "btol": btol, "conlim": conlim, "maxiter": maxiter, "show": show}
    return _least_squares("lsmr", A, b, damp, x0, options)


mirrors([lsmr, lsqr], "scipy.sparse.linalg")
