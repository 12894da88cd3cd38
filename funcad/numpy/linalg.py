"""Linear algebra under NumPy's names, differentiable: decompositions, solvers, norms.

Signatures, shapes, named results and errors are NumPy's; every function acts on stacks of matrices. Derivatives: jvp and
vjp of everything, real and complex, of every order. `cholesky`, `eigh` and `eigvalsh` read one triangle, and their gradients
are Hermitian (as JAX's): derivatives go in the direction of the tangent's Hermitian part. Eigenvectors and singular vectors
that belong to exactly equal eigenvalues or singular values have no derivative: it is NaN in the entries concerned, and
nothing for those who do not use them; the same holds of the second derivatives of the equal values. A function of a
symmetric matrix is differentiable there all the same: see `funcad.scipy.linalg.funm_sym`. `norm` has derivative 0 at 0.
Only what NumPy decides by values differs on traced values whose values are not known (under jit and vmap): `eig` and
`eigvals` give complex results, and `lstsq` the residuals of full rank.
"""

from __future__ import annotations

import importlib
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple
from numpy.linalg import LinAlgError

from funcad.configuration import OnDemand, public_names
from funcad.host.devices import NAMESPACES
from funcad.host.real_types import is_a, is_narrow
from funcad.ir.aval import Aval, aval_of, dtype_of, shape_of
from funcad.ir.trace import abstract_trace_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.memo import remembers
from funcad.numpy.dispatch import implements
from funcad.numpy.linear import linalg_outer as outer
from funcad.numpy.linear import matrix_transpose, multi_dot
from funcad.numpy.promote import array_of, convert_in, expand, one_dtype
from funcad.primitives.arithmetic import abs_
from funcad.primitives.comparison import ge, ne, select
from funcad.primitives.conversion import convert, real, stop_gradient
from funcad.primitives.families import REAL
from funcad.primitives.reduction import reduce_max, reduce_min, reduce_sum
from funcad.primitives.shape import broadcast_to, full, permute, reshape
from funcad.primitives.transcendental import pow

eigen, factorizations = OnDemand("funcad.primitives.eigen"), OnDemand("funcad.primitives.factorizations")
linear_systems, norms = OnDemand("funcad.primitives.linear_systems"), OnDemand("funcad.primitives.norms")

_SELDOM = (  # found in linalg_seldom.py, which is loaded with the first of them
    "cond cross diagonal lstsq matmul matrix_norm matrix_power matrix_rank pinv tensordot tensorinv tensorsolve trace vecdot"
).split()
__all__ = [
    *_SELDOM,
    "LinAlgError",
    "cholesky",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "vector_norm",
]


# -- operands of linear algebra: NumPy's dtypes, shapes and errors


_UNSUPPORTED = (np.dtype(np.float16), np.dtype(np.longdouble), np.dtype(np.clongdouble))


def common(*arrays: Any) -> list[Any]:
    """The operands in the one dtype in which NumPy computes: float64 for integers."""
    if one_dtype(arrays):
        return list(arrays)
    xs = [array_of(a) for a in arrays]
    dtypes = []
    for x in xs:
        dtype = dtype_of(x)
        if dtype.kind not in "fc" or is_narrow(dtype):
            dtype = np.dtype(np.float64)
        elif dtype in _UNSUPPORTED and dtype.itemsize not in (4, 8):
            raise TypeError(f"array type {dtype.name} is unsupported in linalg")
        dtypes.append(dtype)
    target = np.result_type(*dtypes)
    trace = abstract_trace_of(xs)
    return [x if dtype_of(x) == target else convert_in(trace, x, target) for x in xs]


def stack_of_matrices(a: Any) -> Any:
    """The operand as floats; LinAlgError if it is no stack of matrices."""
    (x,) = common(a)
    ndim = len(shape_of(x))
    if ndim < 2:
        raise LinAlgError(f"{ndim}-dimensional array given. Array must be at least two-dimensional")
    return x


def square(a: Any) -> Any:
    x = stack_of_matrices(a)
    shape = shape_of(x)
    if shape[-1] != shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    return x


def same_stack(*xs: Any) -> list[Any]:
    """Stacks of matrices with their leading axes broadcast against each other."""
    shapes = {shape_of(x)[:-2] for x in xs}
    if len(shapes) == 1:
        return list(xs)
    lead = np.broadcast_shapes(*shapes)
    return [broadcast_to(x, (*lead, *shape_of(x)[-2:])) for x in xs]


def known_array(x: Any) -> Any:
    """The array behind x if it has a value now, otherwise None."""
    value = concrete_value(x)
    return value if is_a(value, (np.ndarray, np.generic)) or type(value) in NAMESPACES else None


# -- norms and condition numbers
#
# Conventions where a norm has no derivative. At 0 the slope is 0, which every norm's subgradient contains; times an infinite
# slope outside (`log(norm(x))`) that is nan, and so is the derivative of the slope where it turns: at 0 in norms of order p >
# 1, whereas norms made of absolute values and maxima are linear on both sides and have the second derivative 0. Powers of
# Euclidean norms are exact: `norm(x)**2` has all derivatives. Between equal candidates of a maximum or minimum (elements, rows,
# largest singular values) the derivative is shared. The nuclear norm has its right first and second derivatives at equal
# singular values; at singular values 0 it has the subgradient of least norm, whose derivative is nan. The values of Euclidean
# norms neither overflow nor underflow; NumPy's do.


_INF = float("inf")


def _maximum(x: Any, axis: int) -> Any:
    """The largest of numbers >= 0, 0 if there are none."""
    shape = shape_of(x)
    if not shape[axis]:
        return full(Aval((*shape[:axis], *shape[axis + 1 :]), dtype_of(x)), 0)
    return reduce_max(x, axes=(axis,))


def _minimum(x: Any, axis: int) -> Any:
    if not shape_of(x)[axis]:
        raise ValueError("zero-size array to reduction operation minimum which has no identity")
    return reduce_min(x, axes=(axis,))


def _vector(x: Any, ord: Any, axis: int) -> Any:
    if ord is None or ord == 2:
        return norms.norm(x, axes=(axis,))
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if ord == _INF:
        return _maximum(abs_(x), axis)
    if ord == -_INF:
        return _minimum(abs_(x), axis)
    if ord == 0:
        nonzero = ne(x, dtype_of(x).type(0))
        return reduce_sum(convert(nonzero, REAL(dtype_of(x))), axes=(axis,))
    size = abs_(x)
    if ord == 1:
        return reduce_sum(size, axes=(axis,))
    ord = float(ord)
    total = reduce_sum(pow(size, ord), axes=(axis,))
    return norms.rooted(total, ord) if ord > 1 else pow(total, 1.0 / ord)


def _matrix(x: Any, ord: Any) -> Any:
    """Over the last two axes."""
    columns, rows = len(shape_of(x)) - 1, len(shape_of(x)) - 2
    if ord in (None, "fro", "f"):
        return norms.norm(x, axes=(rows, columns))
    if ord == "nuc":
        return factorizations.nuclear_norm(stack_of_matrices(x))
    if ord in (2, -2):
        s = eigen.svdvals(stack_of_matrices(x))
        extreme = _maximum(s, rows) if ord == 2 else _minimum(s, rows)
        return norms.norm(extreme, axes=())  # its slope at 0: of zero matrices any direction is a singular vector
    if ord in (1, -1):
        return (_maximum if ord == 1 else _minimum)(reduce_sum(abs_(x), axes=(rows,)), rows)
    if ord in (_INF, -_INF):
        return (_maximum if ord == _INF else _minimum)(reduce_sum(abs_(x), axes=(columns,)), rows)
    raise ValueError("Invalid norm order for matrices.")


@implements("linalg.norm", by_kind=True)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """`numpy.linalg.norm`; its derivative at 0 is 0 and has none where it turns; `norm(x)**2` has all."""
    x = array_of(x)
    if dtype_of(x).kind not in "fc" or is_narrow(dtype_of(x)):
        x = convert(x, np.dtype(float))
    shape = shape_of(x)
    ndim = len(shape)
    if axis is None:
        axes: tuple = tuple(range(ndim))
        if ord is None or ord in ("f", "fro") and ndim == 2 or ord == 2 and ndim == 1:
            result = norms.norm(x, axes=axes)
            return reshape(result, shape=(1,) * ndim) if keepdims else result
    elif isinstance(axis, tuple):
        axes = axis
    else:
        try:
            axes = (int(axis),)
        except Exception as error:
            raise TypeError("'axis' must be None, an integer or a tuple of integers") from error
    if len(axes) == 1:
        axes = (normalize_axis_index(axes[0], ndim),)
        result = _vector(x, ord, axes[0])
    elif len(axes) == 2:
        axes = tuple([normalize_axis_index(a, ndim) for a in axes])
        if axes[0] == axes[1]:
            raise ValueError("Duplicate axes given.")
        rest = [i for i in range(ndim) if i not in axes]
        result = _matrix(permute(x, (*rest, *axes)), ord)
    else:
        raise ValueError("Improper number of dimensions to norm.")
    return reshape(result, shape=tuple([1 if i in axes else n for i, n in enumerate(shape)])) if keepdims else result


@implements("linalg.vector_norm", by_kind=True)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """`numpy.linalg.vector_norm`; its derivative at 0 is 0 and has none where it turns; `norm(x)**2` has all."""
    x = array_of(x)
    shape = shape_of(x)
    ndim = len(shape)
    if axis is None:
        axes = tuple(range(ndim))
        result = norm(reshape(x, shape=(aval_of(x).size,)), ord, axis=0)
    elif isinstance(axis, tuple):
        axes = normalize_axis_tuple(axis, ndim)
        rest = [i for i in range(ndim) if i not in axes]
        count = 1
        for i in axes:
            count *= shape[i]
        result = norm(reshape(permute(x, (*axes, *rest)), shape=(count, *[shape[i] for i in rest])), ord, axis=0)
    else:
        axes = (normalize_axis_index(axis, ndim),)
        result = norm(x, ord, axis=axes[0])
    return reshape(result, shape=tuple([1 if i in axes else n for i, n in enumerate(shape)])) if keepdims else result


# -- linear algebra under NumPy's names, differentiable


@remembers()
def _result(name: str) -> Any:
    """The class of the named results of a function of NumPy's."""
    return type(getattr(np.linalg, name)(np.ones((1, 1))))


@implements("linalg.solve", lift=True, by_kind=True)
def solve(a: Any, b: Any) -> Any:
    a, b = common(square(a), b)
    vector = len(shape_of(b)) == 1
    if vector:
        b = expand(b, (1,))
    n, m = shape_of(a)[-1], shape_of(b)[-2]
    if n != m:
        signature = "(m,m),(m)->(m)" if vector else "(m,m),(m,n)->(m,n)"
        raise ValueError(
            f"solve{'1' if vector else ''}: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
            f"{signature} (size {m} is different from {n})"
        )
    x = _solve(a, b)
    return reshape(x, shape=shape_of(x)[:-1]) if vector else x


_LARGE, _MANY = 32, 64


def _by_size(a: Any, b: Any) -> Any:
    *batch, n, _ = shape_of(a)
    return (linear_systems if n < _LARGE or prod(batch) > _MANY else factorizations).solve(a, b)


def _solve(a: Any, b: Any) -> Any:
    shape = shape_of(b)
    lead = len(shape) - 2
    if len(shape_of(a)) > 2 or not lead:
        return _by_size(*same_stack(a, b))
    columns = permute(b, (lead, *range(lead), lead + 1))  # one matrix for all: their right hand sides are its columns
    moved = shape_of(columns)
    flat = _by_size(a, reshape(columns, shape=(moved[0], aval_of(columns).size // max(moved[0], 1))))
    return permute(reshape(flat, shape=moved), (*range(1, lead + 1), 0, lead + 1))


@implements("linalg.inv", by_kind=True)
def inv(a: Any) -> Any:
    return linear_systems.inv(square(a))


@implements("linalg.det", by_kind=True)
def det(a: Any) -> Any:
    """`numpy.linalg.det`; first and second derivatives are right at singular matrices too."""
    return linear_systems.det(square(a))


@implements("linalg.slogdet")
def slogdet(a: Any) -> Any:
    tape = a.owner.tape if type(a) is Tracer else None
    if tape is not None and type(a.primal) is np.ndarray and len(a.shape) > 1 and a.shape[-1] == a.shape[-2]:
        sign: Any = None

        def size(x: np.ndarray) -> Any:
            nonlocal sign
            sign, out = np.linalg.slogdet(x)
            return out

        found = tape.unary(linear_systems.log_abs_det_p, size, a)
        if found is not None:
            return _result("slogdet")(sign, found)
    return _result("slogdet")(*linear_systems.slogdet(square(a)))


@implements("linalg.cholesky", by_kind=True)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """`numpy.linalg.cholesky`; gradients are Hermitian."""
    a = square(a)
    return linear_systems.mH(linear_systems.cholesky(linear_systems.mH(a))) if upper else linear_systems.cholesky(a)


@implements("linalg.qr")
def qr(a: Any, mode: str = "reduced") -> Any:
    """`numpy.linalg.qr`; mode "raw" has no derivative. That of "complete" follows LAPACK's reflectors."""
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(f"Unrecognized mode '{mode}'")
    a = stack_of_matrices(a)
    if mode == "raw":
        h, tau = factorizations.qr_raw(a)
        return h, tau
    q, r = factorizations.qr(a, full=mode == "complete")
    return r if mode == "r" else _result("qr")(q, r)


def _lower(uplo: str) -> bool:
    uplo = uplo.upper()
    if uplo not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return uplo == "L"


@implements("linalg.eigh")
def eigh(a: Any, UPLO: str = "L") -> Any:
    """`numpy.linalg.eigh`; gradients are Hermitian. Vectors of equal eigenvalues have the derivative NaN: see `funm_sym`."""
    lower = _lower(UPLO)
    return _result("eigh")(*eigen.eigh(square(a), lower=lower))


@implements("linalg.eigvalsh")
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """`numpy.linalg.eigvalsh`; gradients are Hermitian, and finite at equal eigenvalues.

    Second derivatives there are NaN for those who use the equal ones (one by one they have none): the second derivatives
    of np.sum(f(eigvalsh(a))) are those of np.trace(funm_sym(a, f)).
    """
    lower = _lower(UPLO)
    return eigen.eigvalsh(square(a), lower=lower)


def _real_if_known(w: Any, *others: Any) -> list[Any]:
    """NumPy gives real results if all eigenvalues are real: so do we where the values are known."""
    value = known_array(w)
    if value is not None and bool((value.imag == 0).all()):
        return [real(x) for x in (w, *others)]
    return [w, *others]


@implements("linalg.eig")
def eig(a: Any) -> Any:
    """`numpy.linalg.eig`; complex under jit and vmap. The vectors' derivatives keep norm 1 and a real largest component."""
    a = square(a)
    found = eigen.eig(a)
    return _result("eig")(*(found if dtype_of(a).kind == "c" else _real_if_known(*found)))


@implements("linalg.eigvals")
def eigvals(a: Any) -> Any:
    """`numpy.linalg.eigvals`; complex under jit and vmap."""
    a = square(a)
    w = eigen.eig(a)[0]
    return w if dtype_of(a).kind == "c" else _real_if_known(w)[0]


@implements("linalg.svd")
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """`numpy.linalg.svd`. Vectors of equal singular values have the derivative NaN; use values only (`compute_uv=False`),
    `pinv`, `norm` or `funm_sym` there. Vectors that complete a basis (`full_matrices`) do not turn among themselves."""
    if hermitian:
        return _hermitian_svd(square(a), compute_uv)
    a = stack_of_matrices(a)
    if compute_uv:
        return _result("svd")(*eigen.svd(a, full_matrices=bool(full_matrices)))
    return eigen.svdvals(a)


def _hermitian_svd(a: Any, compute_uv: bool) -> Any:
    if not compute_uv:
        return np.sort(np.abs(eigen.eigvalsh(a)))[..., ::-1]
    w, v = eigen.eigh(a)
    order = np.argsort(stop_gradient(np.abs(w)))[..., ::-1]
    w, v = np.take_along_axis(w, order, -1), np.take_along_axis(v, order[..., None, :], -1)
    sign = stop_gradient(select(ge(w, 0.0), 1.0, full(aval_of(w), -1)))
    return _result("svd")(v, np.abs(w), linear_systems.mH(v * sign[..., None, :]))


@implements("linalg.svdvals")
def svdvals(x: Any, /) -> Any:
    return svd(x, compute_uv=False)


def __getattr__(name: str) -> Any:
    if name not in _SELDOM and name != "funm_sym":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module("funcad.numpy.linalg_seldom"), name)
    return value


__dir__ = public_names(globals())
