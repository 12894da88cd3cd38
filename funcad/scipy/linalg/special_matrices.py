"""Matrices with a pattern: block_diag, toeplitz, circulant and others of given elements; SciPy's constant ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.ir.aval import shape_of
from funcad.numpy.axes import array_of
from funcad.numpy.promote import promote_dtype, result_dtype
from funcad.primitives.arithmetic import abs_, div, mul, neg, sub
from funcad.primitives.basic_indexing import static_slice
from funcad.primitives.conversion import conj
from funcad.primitives.matrices import placed
from funcad.primitives.scatter import gather
from funcad.primitives.shape import broadcast_to, concatenate, pad, reshape, rev
from funcad.scipy.door import implements, scipy_function
from funcad.scipy.linalg.matrix_operands import constant, identity
from funcad.show.docstrings import mirrors


def _common(*arrays: Any) -> list[Any]:
    xs = [array_of(a) for a in arrays]
    dtype = result_dtype(xs)[0]
    xs = promote_dtype(xs, dtype)
    return [constant(np.asarray(x, dtype), xs[0]) if type(x) in (bool, int, float, complex) else x for x in xs]


def _vector(name: str, x: Any) -> Any:
    if len(shape_of(x)) != 1:
        raise ValueError(f"scipy.linalg.{name} of traced values takes vectors, got the shape {shape_of(x)}; use vmap")
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


@implements("linalg.fiedler", lift=True)
def fiedler(a: Any) -> Any:
    """The matrix of the absolute differences of the elements of a."""
    a = _vector("fiedler", array_of(a))
    n = shape_of(a)[0]
    columns, rows = (broadcast_to(reshape(a, shape=s), (n, n)) for s in ((n, 1), (1, n)))
    return abs_(sub(columns, rows))


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
