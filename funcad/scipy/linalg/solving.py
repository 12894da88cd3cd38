"""Solving linear systems, and special matrices.

Traced, `check_finite` and `overwrite_*` make no difference: nothing is overwritten, and what is not finite gives NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.configuration import OnDemand, mirrors
from funcad.ir.aval import dtype_of, shape_of
from funcad.numpy.promote import array_of, promote_dtype, result_dtype
from funcad.primitives import linear_systems
from funcad.primitives.arithmetic import div, mul, neg
from funcad.primitives.basic_indexing import gather, scatter, take_along
from funcad.primitives.comparison import select
from funcad.primitives.conversion import conj
from funcad.primitives.placement import capture_as_inputs
from funcad.primitives.reduction import reduce_sum
from funcad.primitives.shape import broadcast_in_dim, broadcast_to, concatenate, pad, reshape, rev, static_slice
from funcad.scipy.door import implements, scipy_function

from funcad.primitives.linear_systems import (  # isort: skip
    banded_solve, in_columns, mH, mT, pivot_permutation, placed, triangle, triangular_solve,
)
from funcad.scipy.linalg.matrix_operands import (  # isort: skip
    as_given, at_least_a_matrix, check_square, conjugated, constant, double, identity, inexact, is_complex, matrices, symmetric,
    system, unsupported,
)

factorizations = OnDemand("funcad.primitives.factorizations")

# -- matrices with a pattern: block_diag, toeplitz, circulant and others of given elements; SciPy's constant ones


def _common(*arrays: Any) -> list[Any]:
    xs = [array_of(a) for a in arrays]
    dtype = result_dtype(xs)[0]
    xs = promote_dtype(xs, dtype)
    return [constant(np.asarray(x, dtype), xs[0]) if type(x) in (bool, int, float, complex) else x for x in xs]


def _vector(name: str, x: Any) -> Any:
    if not shape_of(x):
        scipy_function(f"linalg.{name}")(0.0)  # raises where SciPy takes no numbers: `hankel` since 1.17
        return reshape(x, shape=(1,))
    if len(shape_of(x)) != 1:
        raise ValueError(
            f"scipy.linalg.{name} of traced values takes vectors, got the shape {shape_of(x)}.\n"
            "Remedy: funcad.vmap of it for several, np.atleast_1d(x) of a number."
        )
    return x


def _picked(values: Any, index: np.ndarray) -> Any:
    """values[index] of a vector."""
    return reshape(gather(values, index.ravel()), shape=index.shape)


@implements("linalg.block_diag", lift=True)
def block_diag(*arrs: Any) -> Any:
    """The block diagonal matrix of the given matrices (vectors are rows, scalars 1 x 1); stacks share their leading axes.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda a: np.sum(funcad.scipy.linalg.block_diag(a, 3.0) ** 2))(np.ones((1, 2)))
    array([[2., 2.]])
    """
    if not arrs:
        return np.zeros((1, 0))
    xs = _common(*arrs)
    xs = [reshape(x, shape=(1,) * (2 - len(shape_of(x))) + shape_of(x)) if len(shape_of(x)) < 2 else x for x in xs]
    lead = np.broadcast_shapes(*[shape_of(x)[:-2] for x in xs])
    xs = [broadcast_to(x, (*lead, *shape_of(x)[-2:])) for x in xs]
    height, width = (sum(shape_of(x)[i] for x in xs) for i in (-2, -1))
    rows, below, right = [], 0, 0
    for x in xs:
        n, m = shape_of(x)[-2:]
        rows.append(placed(x, (n, width), 0, right))
        below, right = below + n, right + m
    assert below == height
    return rows[0] if len(rows) == 1 else concatenate(rows, axis=len(lead))


@implements("linalg.toeplitz", lift=True)
def toeplitz(c: Any, r: Any = None) -> Any:
    """The Toeplitz matrix of the first column c and the first row r (conj(c) if left out); r[0] is not read.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda c: np.sum(funcad.scipy.linalg.toeplitz(c)))(np.ones(2))
    array([2., 2.])
    """
    c = _vector("toeplitz", array_of(c))
    c, r = _common(c, conj(c) if r is None else _vector("toeplitz", array_of(r)))
    n, m = shape_of(c)[0], shape_of(r)[0]
    values = concatenate([rev(c, axes=(0,)), static_slice(r, min(1, m), m)], axis=0)
    return _picked(values, np.arange(n - 1, -1, -1)[:, None] + np.arange(m))


@implements("linalg.hankel", lift=True)
def hankel(c: Any, r: Any = None) -> Any:
    """The Hankel matrix of the first column c and the last row r (zeros if left out); r[0] is not read."""
    c = _vector("hankel", array_of(c))
    c, r = _common(c, constant(np.zeros(shape_of(c), c.dtype), c) if r is None else _vector("hankel", array_of(r)))
    n, m = shape_of(c)[0], shape_of(r)[0]
    return _picked(concatenate([c, static_slice(r, min(1, m), m)], axis=0), np.arange(n)[:, None] + np.arange(m))


@implements("linalg.circulant", lift=True)
def circulant(c: Any) -> Any:
    """The circulant matrix of the first column c (..., n)."""
    c = array_of(c)
    c = c if shape_of(c) else reshape(c, shape=(1,))
    *lead, n = shape_of(c)
    order = (np.arange(n)[:, None] - np.arange(n)) % max(n, 1)
    if not lead:
        return _picked(c, order)
    flat = reshape(c, shape=(int(np.prod(lead)), n))
    rows = np.repeat(np.arange(shape_of(flat)[0]), n * n).reshape(-1, n * n)
    picked = gather(flat, rows, np.tile(order.ravel(), (shape_of(flat)[0], 1)))
    return reshape(picked, shape=(*lead, n, n))


def _under(row: Any, below: Any) -> Any:
    """A first row above a constant or traced matrix."""
    return concatenate([reshape(row, shape=(1, *shape_of(row))), below], axis=0)


@implements("linalg.companion", lift=True)
def companion(a: Any) -> Any:
    """The companion matrix of the polynomial with coefficients a, highest first."""
    from_first = _vector("companion", array_of(a))
    n = shape_of(from_first)[0]
    if n < 2:
        raise ValueError("The length of `a` must be at least 2.")
    (x,) = _common(from_first) if from_first.dtype.kind in "fc" else promote_dtype([from_first], np.dtype(float))
    row = neg(div(static_slice(x, 1, n), broadcast_to(static_slice(x, 0, 1), (n - 1,))))
    return _under(row, constant(np.eye(n - 2, n - 1, dtype=x.dtype), x))


@implements("linalg.leslie", lift=True)
def leslie(f: Any, s: Any) -> Any:
    """The Leslie matrix of fecundities f (n,) and survival rates s (n - 1,)."""
    f, s = _common(_vector("leslie", array_of(f)), _vector("leslie", array_of(s)))
    n = shape_of(f)[0]
    if shape_of(s)[0] != n - 1:
        raise ValueError("The length of s must be one less than the length of f")
    below = broadcast_to(reshape(s, shape=(n - 1, 1)), (n - 1, n))
    return _under(f, mul(below, identity(below)))


@implements("linalg.convolution_matrix", lift=True)
def convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    """The matrix whose product with v (n,) is `np.convolve(a, v, mode)`."""
    a = _vector("convolution_matrix", array_of(a))
    size = shape_of(a)[0]
    if not size or n <= 0:
        raise ValueError("convolution_matrix: a must not be empty, and n must be a positive integer")
    if mode not in ("full", "valid", "same"):
        raise ValueError("'mode' argument must be one of ('full', 'valid', 'same')")
    padded = pad(a, low=(n - 1,), high=(n - 1,))
    whole = _picked(padded, np.arange(size + n - 1)[:, None] + np.arange(n - 1, -1, -1))
    if mode == "same":
        trim = min(n, size) - 1
        start = trim // 2
        return static_slice(whole, start, start + size + n - 1 - trim)
    if mode == "valid":
        trim = min(n, size) - 1
        return static_slice(whole, trim, size + n - 1 - trim)
    return whole


@implements("linalg.khatri_rao", lift=True)
def khatri_rao(a: Any, b: Any) -> Any:
    """The Kronecker product column by column, of matrices (n, k) and (m, k)."""
    a, b = _common(a, b)
    (n, k), (m, other) = shape_of(a)[-2:], shape_of(b)[-2:]
    if k != other:
        raise ValueError("The number of columns for both arrays should be equal.")
    lead = np.broadcast_shapes(shape_of(a)[:-2], shape_of(b)[:-2])
    a = reshape(broadcast_to(a, (*lead, n, k)), shape=(*lead, n, 1, k))
    b = reshape(broadcast_to(b, (*lead, m, k)), shape=(*lead, 1, m, k))
    whole = (*lead, n, m, k)
    return reshape(mul(broadcast_to(a, whole), broadcast_to(b, whole)), shape=(*lead, n * m, k))


# -- constants


def _constant(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        return scipy_function(f"linalg.{name}")(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"SciPy's own `scipy.linalg.{name}`: its arguments are numbers and strings, nothing to differentiate."
    mirrors([function], "scipy.linalg")
    return function


dft = _constant("dft")
hadamard = _constant("hadamard")
helmert = _constant("helmert")
hilbert = _constant("hilbert")
invhilbert = _constant("invhilbert")
invpascal = _constant("invpascal")
pascal = _constant("pascal")


# -- linear systems: factorizations to solve with, solvers for structured matrices, inverse and determinant


_TRANS = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


def _adjoint(a: Any) -> Any:
    return mH(a) if is_complex(a) else mT(a)


def _trans(name: str, trans: Any) -> int:
    if trans not in _TRANS:
        raise ValueError(f"{name}: trans must be 0 or 'N', 1 or 'T', 2 or 'C'; got {trans!r}")
    return _TRANS[trans]


# -- triangular and Cholesky


@implements("linalg.solve_triangular", lift=True)
def solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """x with op(a) x = b, a triangular, op by `trans` (0: a, 1: a^T, 2: a^H); one triangle of a (..., n, n) is read.

    As SciPy's: LinAlgError for an exactly singular matrix. No derivative reaches the triangle that is not read.

    >>> import numpy as np, funcad
    >>> f = lambda a: funcad.scipy.linalg.solve_triangular(a, np.ones(2), lower=True)[0]
    >>> funcad.grad(f)(np.array([[2.0, 9.0], [1.0, 1.0]]))
    array([[-0.25,  0.  ],
           [ 0.  ,  0.  ]])
    """
    op = _trans("solve_triangular", trans)
    a, b = inexact(a, b)
    check_square("solve_triangular", a)
    a, b, vector = system("solve_triangular", a, b)
    a = conjugated(a) if op == 2 else a
    x = triangular_solve(a, b, lower=bool(lower), transposed=op > 0, unit_diagonal=bool(unit_diagonal))
    return as_given(x, vector)


@implements("linalg.cholesky", lift=True)
def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The Cholesky factor of Hermitian positive definite matrices (..., n, n), the upper one unless `lower`.

    As SciPy's (LinAlgError if not positive definite). Differentiated in the direction of the Hermitian part, as JAX's.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda t: funcad.scipy.linalg.cholesky(t * np.eye(2))[0, 0])(4.0)
    np.float64(0.25)
    """
    (a,) = inexact(at_least_a_matrix(array_of(a)))
    check_square("cholesky", a)
    return linear_systems.cholesky(a) if lower else _adjoint(linear_systems.cholesky(_adjoint(a)))


@implements("linalg.cho_factor", lift=True)
def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """(the Cholesky factor, lower), for `cho_solve`; traced, the triangle that SciPy leaves undefined is zero.

    >>> import numpy as np, funcad
    >>> f = lambda t: funcad.scipy.linalg.cho_solve(funcad.scipy.linalg.cho_factor(t * np.eye(2)), np.ones(2))[0]
    >>> round(float(funcad.grad(f)(2.0)), 6)
    -0.25
    """
    (a,) = inexact(at_least_a_matrix(array_of(a)))
    check_square("cho_factor", a)
    return linear_systems.cholesky(a) if lower else _adjoint(linear_systems.cholesky(_adjoint(a))), lower


def _by_cholesky(c: Any, b: Any, lower: bool) -> Any:
    c_, b = (conjugated(c), b) if lower else (c, b)
    if lower:  # c c^H x = b
        y = triangular_solve(c, b, lower=True)
        return triangular_solve(c_, y, lower=True, transposed=True)
    y = triangular_solve(conjugated(c), b, lower=False, transposed=True)
    return triangular_solve(c, y, lower=False)


@implements("linalg.cho_solve")
def cho_solve(c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """x with a x = b, from the pair that `cho_factor` gives for a; stacks are allowed.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda b: funcad.scipy.linalg.cho_solve((2.0 * np.eye(1), True), b)[0])(np.ones(1))
    array([0.25])
    """
    c, lower = c_and_lower
    c, b = inexact(*capture_as_inputs([c, b], [c, b]))
    check_square("cho_solve", c)
    c, b, vector = system("cho_solve", c, b)
    return as_given(_by_cholesky(c, b, bool(lower)), vector)


# -- LU


@implements("linalg.lu_factor", lift=True)
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """(lu, pivots) of matrices (..., m, n), for `lu_solve`, as SciPy's; the pivots are held when it is differentiated.

    >>> import numpy as np, funcad
    >>> f = lambda t: funcad.scipy.linalg.lu_solve(funcad.scipy.linalg.lu_factor(t * np.eye(2)), np.ones(2))[0]
    >>> float(funcad.grad(f)(2.0))
    -0.25
    """
    (a,) = matrices("lu_factor", at_least_a_matrix(array_of(a)))
    return tuple(factorizations.lu(a)[:2])


@implements("linalg.lu_solve")
def lu_solve(lu_and_piv: Any, b: Any, trans: Any = 0, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """x with op(a) x = b, from the pair that `lu_factor` gives for a; op by `trans` (0: a, 1: a^T, 2: a^H).

    >>> import numpy as np, funcad
    >>> factors = funcad.scipy.linalg.lu_factor(2.0 * np.eye(1))
    >>> funcad.grad(lambda b: funcad.scipy.linalg.lu_solve(factors, b)[0])(np.ones(1))
    array([0.5])
    """
    op = _trans("lu_solve", trans)
    lu_, pivots = lu_and_piv
    lu_, pivots, b = capture_as_inputs([lu_, pivots, b], [lu_, pivots, b])
    lu_, b = inexact(lu_, b)
    check_square("lu_solve", lu_)
    lu_, b, vector = system("lu_solve", lu_, b)
    order = pivot_permutation(array_of(pivots))
    shape = shape_of(b)
    if op:
        lu_ = conjugated(lu_) if op == 2 else lu_
        y = triangular_solve(lu_, b, transposed=True)
        y = triangular_solve(lu_, y, lower=True, transposed=True, unit_diagonal=True)
        x = _reordered(y, _inverse(order), shape)
    else:
        y = triangular_solve(lu_, _reordered(b, order, shape), lower=True, unit_diagonal=True)
        x = triangular_solve(lu_, y)
    return as_given(x, vector)


def _inverse(permutation: Any) -> Any:
    """The permutations that undo these, along the last axis."""
    shape, dtype = shape_of(permutation), dtype_of(permutation)
    places = broadcast_to(constant(np.arange(shape[-1], dtype=dtype), permutation), shape)
    return scatter(places, places, permutation, batch_dims=len(shape) - 1, unique=True)


def _reordered(x: Any, order: Any, shape: tuple) -> Any:
    """The rows of matrices in another order."""
    order = broadcast_to(order, shape[:-1])
    order = broadcast_in_dim(order, shape=shape, axes=tuple(range(len(shape) - 1)))
    return take_along(x, order, len(shape) - 2, unique=True)


@implements("linalg.lu", lift=True)
def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False
) -> Any:
    """(p, l, u) with a = p l u, or (p l, u) with `permute_l`, or p as indices (a = l[p] u) with `p_indices`; as SciPy's.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda a: funcad.scipy.linalg.lu(a)[2][1, 1])(2.0 * np.eye(2)).round(6) + 0.0
    array([[0., 0.],
           [0., 1.]])
    """
    (a,) = matrices("lu", a)
    *lead, m, n = shape_of(a)
    k = min(m, n)
    packed, _, permutation = factorizations.lu(a)
    upper = triangle(factorizations.rows(packed, 0, k), lower=False)
    left = factorizations.columns(packed, 0, k)
    left = factorizations.unit_lower(left)
    back = _inverse(permutation)
    if permute_l:
        return _reordered(left, back, shape_of(left)), upper
    if p_indices:
        return back, left, upper
    dtype = np.float32 if dtype_of(a).char in "fF" else np.float64
    one = broadcast_to(constant(np.eye(m, dtype=dtype), a), (*lead, m, m))
    return _reordered(one, back, (*lead, m, m)), left, upper


# -- general matrices

_STRUCTURES: dict[str | None, str] = {
    None: "general",
    **dict.fromkeys(["gen", "general", "banded"], "general"),
    **dict.fromkeys(["sym", "symmetric"], "symmetric"),
    **dict.fromkeys(["her", "hermitian"], "hermitian"),
    **dict.fromkeys(["pos", "positive definite"], "positive"),
    **{s: s for s in ("diagonal", "tridiagonal", "upper triangular", "lower triangular")},
}


def _structure(assume_a: Any) -> str:
    if assume_a not in _STRUCTURES:
        raise ValueError(f"{assume_a} is not a recognized matrix structure")
    return _STRUCTURES[assume_a]


def diagonal_of(a: Any, k: int) -> Any:
    """Diagonal k of square matrices, in the columns in which it stands, zeros elsewhere."""
    shape = shape_of(a)
    mask = broadcast_to(constant(np.eye(shape[-1], k=k, dtype=bool), a), shape)
    return reduce_sum(select(mask, a, dtype_of(a).type(0)), axes=(len(shape) - 2,))


@implements("linalg.solve", lift=True)
def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: Any = None,
    transposed: bool = False,
) -> Any:
    """x with a x = b, for matrices (..., n, n) and right-hand sides (n,) or (..., n, k); `assume_a` names the structure of a.

    As SciPy's: LinAlgError if singular, ValueError for an unknown structure. What the structure does not read of a has
    derivative zero. Traced, a structure that is not named is not looked for, and `transposed` works on complex matrices too.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda a: funcad.scipy.linalg.solve(a, np.ones(1))[0])(np.array([[2.0]]))
    array([[-0.25]])
    """
    kind = _structure(assume_a)
    a, b = inexact(a, b)
    check_square("solve", a)
    a, b, vector = system("solve", a, b)
    return as_given(_solved(a, b, kind, bool(lower), bool(transposed)), vector)


def _solved(a: Any, b: Any, kind: str, lower: bool, transposed: bool) -> Any:
    if kind.endswith("triangular"):
        return triangular_solve(a, b, lower=kind.startswith("lower"), transposed=transposed)
    if kind == "diagonal":
        on = reduce_sum(triangle(triangle(a), lower=False), axes=(len(shape_of(a)) - 2,))
        return div(b, in_columns(on, shape_of(b)))
    if kind in ("symmetric", "hermitian", "positive"):
        a = symmetric(a, lower, kind != "symmetric")
    if transposed:
        a = mT(a)
    if kind == "positive":
        return _by_cholesky(linear_systems.cholesky(a), b, True)
    if kind == "tridiagonal":
        return banded_solve(_three_diagonals(a), b, lower=1, upper=1)
    return linear_systems.solve(a, b)


def _three_diagonals(a: Any) -> Any:
    shape = shape_of(a)
    parts = [reshape(diagonal_of(a, k), shape=(*shape[:-2], 1, shape[-1])) for k in (1, 0, -1)]
    return concatenate(parts, axis=len(shape) - 2)


@implements("linalg.inv", lift=True)
def inv(
    a: Any, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: Any = None, lower: bool = False
) -> Any:
    """The inverse of matrices (..., n, n); LinAlgError if singular; `assume_a` names the structure of a, as in `solve`.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda a: funcad.scipy.linalg.inv(a)[0, 0])(np.array([[2.0]]))
    array([[-0.25]])
    """
    kind = _structure(assume_a)
    (a,) = inexact(a)
    check_square("inv", a)
    if kind == "general":
        return linear_systems.inv(a)
    return _solved(a, identity(a), kind, bool(lower), False)


@implements("linalg.det", lift=True)
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinant of matrices (..., n, n); its derivatives are right at singular matrices too.

    >>> import numpy as np, funcad
    >>> funcad.grad(funcad.scipy.linalg.det)(np.diag([2.0, 0.0]))
    array([[0., 0.],
           [0., 2.]])
    """
    (a,) = double(a)
    check_square("det", a)
    return linear_systems.det(a)


# -- Toeplitz, circulant


@implements("linalg.solve_toeplitz")
def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Any:
    """x with T x = b, T the Toeplitz matrix of the first column c, or of (c, r); traced, T is formed and factorized.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda c: funcad.scipy.linalg.solve_toeplitz(c, np.ones(1))[0])(np.array([2.0]))
    array([-0.25])
    """
    given = [*(c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr,)), b]
    *parts, b = capture_as_inputs(given, given)
    a, b = double(toeplitz(*parts), b)
    a, b, vector = system("solve_toeplitz", a, b)
    return as_given(linear_systems.solve(a, b), vector)


@implements("linalg.solve_circulant", lift=True)
def solve_circulant(
    c: Any, b: Any, singular: str = "raise", tol: Any = None, caxis: int = -1, baxis: int = 0, outaxis: int = 0
) -> Any:
    """x with C x = b, C the circulant matrix of its first column c, by Fourier transforms, as SciPy's.

    A traced C that is singular gives infinities.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda c: funcad.scipy.linalg.solve_circulant(c, np.ones(1))[0])(np.array([2.0]))
    array([-0.25])
    """
    unsupported("solve_circulant", "use solve(circulant(c), b)", singular=None if singular == "raise" else singular, tol=tol)
    a, x = [np.moveaxis(np.atleast_1d(v), axis, -1) for v, axis in zip(inexact(c, b), (caxis, baxis))]
    if a.shape[-1] != x.shape[-1]:
        raise ValueError(f"Shapes of c {shape_of(c)} and b {shape_of(b)} are incompatible")
    found = np.fft.ifft(np.fft.fft(x) / np.fft.fft(a))
    return np.moveaxis(found if is_complex(a) else found.real, -1, outaxis)
