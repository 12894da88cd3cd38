"""Products of arrays: dot, matmul, einsum, tensordot, outer, kron, cross and their relatives; transposing, and diagonals."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from funcad.configuration import OnDemand
from funcad.host.real_types import FLOAT32, NARROW, NUMPY, is_a, is_narrow
from funcad.host.where import outside
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.memo import remembers
from funcad.numpy.dispatch import QUICK, implements, refuse
from funcad.numpy.reductions import sum_
from funcad.primitives import arithmetic, comparison, contraction
from funcad.primitives.conversion import conj, convert

from funcad.numpy.promote import (  # isort: skip
    array_of, arrays, as_array_of_rank_0,
    axis_of, expand, numbers, one_dtype, promote, promote_dtype, ravelled, result_dtype, same_aval,
    shape_argument,
)
from funcad.primitives.shape import (  # isort: skip
    broadcast_in_dim, broadcast_to, full, move_axis, pad_p, permute, reshape, slice_p, static_slice,
)

strides = OnDemand("funcad.unjitted.strides")


@implements("transpose", "permute_dims", alias="view", by_kind=True)
def transpose(a: Any, axes: Any = None) -> Any:
    x = array_of(a)
    ndim = len(shape_of(x))
    if axes is None:
        return permute(x, range(ndim)[::-1])
    axes = shape_argument(axes)
    if len(axes) != ndim:
        raise ValueError("axes don't match array")
    return permute(x, normalize_axis_tuple(axes, ndim))


permute_dims = transpose


@implements("matrix_transpose", "linalg.matrix_transpose", alias="view", by_kind=True)
def matrix_transpose(x: Any, /) -> Any:
    x = array_of(x)
    if len(shape_of(x)) < 2:
        raise ValueError(f"Input array must be at least 2-dimensional, but it is {len(shape_of(x))}")
    *lead, i, j = range(len(shape_of(x)))
    return permute(x, (*lead, j, i))


def _same_dtype(*arrays: Any, dtype: Any = None) -> list[Any]:
    if dtype is None and one_dtype(arrays):
        return list(arrays)
    xs = [array_of(a) for a in arrays]
    if dtype is None:
        first = xs[0].dtype
        if first.isnative and all([x.dtype is first and (type(x) is np.ndarray or not aval_of(x).weak) for x in xs]):
            return xs
        dtype = result_dtype(xs)[0]
    return promote_dtype(xs, np.dtype(dtype))


def _matrices(x: Any, y: Any) -> bool:
    """Two matrices of one float dtype that fit: the common case, seen at a glance."""
    if (type(x) is not np.ndarray and type(x) is not Tracer) or (type(y) is not np.ndarray and type(y) is not Tracer):
        return False
    sx, sy = x.shape, y.shape
    return len(sx) == 2 == len(sy) and sx[1] == sy[0] and x.dtype is y.dtype and x.dtype.kind == "f" and x.dtype.num < 256


def _quick(x: Any, y: Any) -> Any:
    """The product of common operands, by the short way of an un-jitted derivative or as the equation; None for all others."""
    t = x if type(x) is Tracer else y
    short = t.owner.short if type(t) is Tracer else None
    if short is not None:
        out = short.product(x, y)
        if out is not None:
            return out
    return contraction.dot_general_p(x, y, dimension_numbers=contraction.MATRICES) if _matrices(x, y) else None


def matmul_of(x: Any, y: Any) -> Any:
    """The operator `@`."""
    out = _quick(x, y)
    if out is not None:
        return out
    if not same_aval(x, y):
        x, y = _same_dtype(x, y)
    if NARROW and is_narrow(x.dtype):  # NumPy has no loop for these
        x, y = convert(x, FLOAT32), convert(y, FLOAT32)
    sx, sy = shape_of(x), shape_of(y)
    _ranks("matmul", "(n?,k),(k,m?)->(n?,m?)", (x, 1), (y, 1))
    n, m = sx[-1], sy[-2 if len(sy) > 1 else -1]
    if n != m:
        raise ValueError(
            "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature (n?,k),(k,m?)->(n?,m?) "
            f"(size {m} is different from {n})"
        )
    return contraction.matmul(x, y)


@implements("matmul", "linalg.matmul")
def matmul(x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None) -> Any:
    return matmul_of(x1, x2) if dtype is None else matmul_of(*_same_dtype(x1, x2, dtype=dtype))


QUICK[np.matmul] = contraction.dot_general_p, np.matmul


@implements("dot")
def dot(a: Any, b: Any, out: Any = None) -> Any:
    result = _quick(a, b)
    if result is not None:
        return result
    x, y = _same_dtype(a, b)
    nx, ny = len(shape_of(x)), len(shape_of(y))
    if not nx or not ny:
        return arithmetic.mul(*promote(x, y))
    return _contract(x, y, [nx - 1], [max(ny - 2, 0)])


def _contract(x: Any, y: Any, over_x: Sequence[int], over_y: Sequence[int]) -> Any:
    sx, sy = shape_of(x), shape_of(y)
    for i, j in zip(over_x, over_y):
        if sx[i] != sy[j]:
            raise ValueError(f"shapes {_text(sx)} and {_text(sy)} not aligned: {sx[i]} (dim {i}) != {sy[j]} (dim {j})")
    return contraction.dot_general(x, y, dimension_numbers=((tuple(over_x), tuple(over_y)), ((), ())))


def _text(shape: tuple) -> str:
    return str(shape).replace(" ", "")


@implements("vdot", by_kind=True)
def vdot(a: Any, b: Any, /) -> Any:
    x, y = [ravelled(v) for v in _same_dtype(a, b)]
    return _contract(conj(x), y, [0], [0])


@implements("inner", by_kind=True)
def inner(a: Any, b: Any, /) -> Any:
    x, y = _same_dtype(a, b)
    nx, ny = len(shape_of(x)), len(shape_of(y))
    return _contract(x, y, [nx - 1], [ny - 1]) if nx and ny else arithmetic.mul(*promote(x, y))


@implements("outer", by_kind=True)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    return _contract(*[ravelled(v) for v in _same_dtype(a, b)], [], [])


@implements("linalg.outer", by_kind=True)
def linalg_outer(x1: Any, x2: Any, /) -> Any:
    if len(shape_of(array_of(x1))) != 1 or len(shape_of(array_of(x2))) != 1:
        raise ValueError("Input arrays must be one-dimensional")
    return outer(x1, x2)


@implements("tensordot", "linalg.tensordot", by_kind=True)
@arrays
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    x, y = _same_dtype(a, b)
    nx, ny = len(shape_of(x)), len(shape_of(y))
    if is_a(axes, (int, np.integer)):
        axes = (list(range(nx - int(axes), nx)), list(range(int(axes))))
    over_x, over_y = [list(e) if is_a(e, (list, tuple, np.ndarray, range)) else [e] for e in axes]
    over_x, over_y = [axis_of(i, nx) for i in over_x], [axis_of(i, ny) for i in over_y]
    sx, sy = shape_of(x), shape_of(y)
    if len(over_x) != len(over_y) or any(sx[i] != sy[j] for i, j in zip(over_x, over_y)):
        raise ValueError("shape-mismatch for sum")
    return _contract(x, y, over_x, over_y)


@implements("vecdot", "linalg.vecdot", by_kind=True)
def vecdot(x1: Any, x2: Any, /, out: Any = None, *, axis: int = -1, dtype: Any = None) -> Any:
    x, y = _same_dtype(x1, x2, dtype=dtype)
    _ranks("vecdot", "(n),(n)->()", (x, 1), (y, 1))
    x, y = [move_axis(v, axis_of(axis, len(shape_of(v))), len(shape_of(v)) - 1) for v in (x, y)]
    _core("vecdot", shape_of(x)[-1], shape_of(y)[-1])
    subscripts, operands = contraction.canonical_einsum("...i,...i->...", conj(x), y)
    return contraction.einsum(subscripts, *operands)


def _ranks(name: str, signature: str, *operands: tuple[Any, int]) -> None:
    for i, (x, needed) in enumerate(operands):
        if len(shape_of(x)) < needed:
            raise ValueError(
                f"{name}: Input operand {i} does not have enough dimensions (has {len(shape_of(x))}, "
                f"gufunc core with signature {signature} requires {needed})"
            )


def _core(name: str, n: int, m: int) -> None:
    if n != m:
        raise ValueError(f"{name}: Input operand 1 has a mismatch in its core dimension 0 (size {m} is different from {n})")


@implements("matvec", by_kind=True)
def matvec(x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None) -> Any:
    x, y = _same_dtype(x1, x2, dtype=dtype)
    _ranks("matvec", "(m,n),(n)->(m)", (x, 2), (y, 1))
    result = matmul_of(x, expand(y, (len(shape_of(y)),)))
    return reshape(result, shape=shape_of(result)[:-1])


@implements("vecmat", by_kind=True)
def vecmat(x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None) -> Any:
    x, y = _same_dtype(x1, x2, dtype=dtype)
    _ranks("vecmat", "(n),(n,m)->(m)", (x, 1), (y, 2))
    result = matmul_of(expand(conj(x), (len(shape_of(x)) - 1,)), y)
    return reshape(result, shape=(*shape_of(result)[:-2], shape_of(result)[-1]))


MANY = 1 << 15  # products of one element of each operand, from which it pays to contract in pairs


@remembers(1024)
def _order(subscripts: str, shapes: tuple) -> Any:
    """The order in which NumPy contracts these operands; False: all at once, for there is little to do."""
    canonical, stand_ins = contraction.canonical_einsum(subscripts, *[np.broadcast_to(0.0, s) for s in shapes])
    sizes = {c: n for term, x in zip(canonical.split("->")[0].split(","), stand_ins) for c, n in zip(term, x.shape)}
    find: Any = np.einsum_path
    return prod(sizes.values()) >= MANY and find(subscripts, *stand_ins, optimize="greedy")[0]


def _in_pairs(*operands: Any, **options: Any) -> Any:
    """`np.einsum`, which for three operands and more loops over all letters at once unless it is asked not to."""
    if len(operands) > 3 and type(operands[0]) is str and "optimize" not in options:
        try:
            options["optimize"] = _order(operands[0], tuple([np.shape(x) for x in operands[1:]]))
        except ValueError:  # NumPy says what is wrong
            options["optimize"] = False
    return np.einsum(*operands, **options)


@implements("einsum", alias="view", by_kind=True, plain=_in_pairs)
@numbers
def einsum(
    *operands: Any, out: Any = None, dtype: Any = None, order: str = "K", casting: str = "safe", optimize: Any = False
) -> Any:
    """`numpy.einsum`, contracted in pairs in the order that `numpy.einsum_path` finds ("greedy"), also with `optimize=False`.

    `optimize` may be "optimal", a path as `einsum_path` gives it, or a pair (strategy, memory limit); that order is kept then.
    """
    refuse("np.einsum", casting=None if casting == "safe" else casting)
    subscripts, arrays = contraction.canonical_einsum(*_spelled(operands))
    arrays = _same_dtype(*arrays, dtype=dtype)
    for term, x in zip(subscripts.split("->")[0].split(","), arrays):
        if len(set(term)) < len(term) and len(set(zip(term, shape_of(x)))) > len(set(term)):
            np.einsum(term, np.broadcast_to(0.0, shape_of(x)))  # NumPy's error: here 1 does not stand for any length
    if len(arrays) < 3 or is_a(optimize, bool) or optimize == "greedy":
        return contraction.einsum(subscripts, *arrays)
    find: Any = np.einsum_path
    path = find(subscripts, *[np.broadcast_to(0.0, shape_of(a)) for a in arrays], optimize=optimize)[0]
    left, right = subscripts.split("->")
    terms = left.split(",")
    for step in path[1:]:
        group = sorted(step, reverse=True)
        taken, xs = [terms.pop(i) for i in group][::-1], [arrays.pop(i) for i in group][::-1]
        rest = set(right).union(*terms)
        result = right if not terms else "".join(sorted(set("".join(taken)) & rest))
        arrays.append(contraction.einsum(f"{','.join(taken)}->{result}", *xs))
        terms.append(result)
    return arrays[0] if len(arrays) == 1 else contraction.einsum(f"{','.join(terms)}->{right}", *arrays)


def _spelled(operands: Sequence[Any]) -> list[Any]:
    """The operands as arrays; subscript strings and the lists of the interleaved form stay."""
    if isinstance(operands[0], str):
        return [operands[0], *[array_of(a) for a in operands[1:]]]
    return [array_of(a) if i % 2 == 0 and i < len(operands) - len(operands) % 2 else a for i, a in enumerate(operands)]


@implements("einsum_path")
def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    stand_ins = [a if isinstance(a, (str, list, tuple)) else np.broadcast_to(0.0, shape_of(array_of(a))) for a in operands]
    find: Any = np.einsum_path
    return find(*stand_ins, optimize=optimize, einsum_call=einsum_call)


@implements("kron", lift=True, by_kind=True)
def kron(a: Any, b: Any) -> Any:
    x, y = _same_dtype(a, b)
    rank = max(len(shape_of(x)), len(shape_of(y)))
    sx, sy = [(1,) * (rank - len(shape_of(v))) + shape_of(v) for v in (x, y)]
    x = reshape(x, shape=tuple([m for n in sx for m in (n, 1)]))
    y = reshape(y, shape=tuple([m for n in sy for m in (1, n)]))
    return reshape(x * y, shape=tuple([n * m for n, m in zip(sx, sy)]))


@implements("cross", lift=True, by_kind=True)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Any:
    """`numpy.cross`, with its warning of vectors of 2 components before NumPy 2.5, its error since."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = _same_dtype(a, b)
    if () in (shape_of(x), shape_of(y)):
        raise ValueError("At least one array has zero dimension")
    x, y = [move_axis(v, axis_of(i, len(shape_of(v))), len(shape_of(v)) - 1) for v, i in ((x, axisa), (y, axisb))]
    sizes = {shape_of(x)[-1], shape_of(y)[-1]}
    if NUMPY >= (2, 5):
        _refuse_planes(x, y, -1)
    if not sizes <= {2, 3}:
        raise ValueError("incompatible dimensions for cross product\n(dimension must be 2 or 3)")
    if 2 in sizes:
        return _cross_of_plane(x, y, axisc)
    shape = np.broadcast_shapes(shape_of(x), shape_of(y))
    x, y = broadcast_to(x, shape), broadcast_to(y, shape)
    return move_axis(contraction.cross_p(x, y), len(shape) - 1, axis_of(axisc, len(shape)))


def _cross_of_plane(x: Any, y: Any, axis: int) -> Any:
    """Where a third component is missing, it is 0, and nothing is multiplied by it."""
    warnings.warn(
        "Arrays of 2-dimensional vectors are deprecated. Use arrays of "
        "3-dimensional vectors instead. (deprecated in NumPy 2.0)",
        DeprecationWarning,
        stacklevel=outside(2),
    )
    (x0, x1, *x2), (y0, y1, *y2) = [[v[..., i] for i in range(shape_of(v)[-1])] for v in (x, y)]
    last = x0 * y1 - x1 * y0
    if not (x2 or y2):
        return as_array_of_rank_0(last)
    parts = [x1 * y2[0], -(x0 * y2[0]), last] if y2 else [-(x2[0] * y1), x2[0] * y0, last]
    return np.stack(parts, axis)


@implements("linalg.cross", lift=True, by_kind=True)
def cross_of_space(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """`numpy.linalg.cross`, of vectors of 3 components."""
    _refuse_planes(array_of(x1), array_of(x2), axis)
    return cross(x1, x2, axis=axis)


def _refuse_planes(x: Any, y: Any, axis: int) -> None:
    first, second = shape_of(x)[axis], shape_of(y)[axis]
    if (first, second) != (3, 3):
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, "
            f"but they are {first} and {second} dimensional instead."
        )


@implements("linalg.multi_dot", by_kind=True)
def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """`numpy.linalg.multi_dot`, contracted in the order that costs least."""
    xs = _same_dtype(*arrays)
    if len(xs) < 2:
        raise ValueError("Expecting at least two arrays.")
    if any(len(shape_of(x)) != 2 for x in xs[1:-1]):
        raise np.linalg.LinAlgError("multi_dot: all arrays but the first and the last must be 2-D")
    sizes = [1 if len(shape_of(xs[0])) == 1 else shape_of(xs[0])[0], *[shape_of(x)[0] for x in xs[1:]]]
    sizes.append(1 if len(shape_of(xs[-1])) == 1 else shape_of(xs[-1])[1])
    best: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(len(xs))}
    for width in range(1, len(xs)):
        for i in range(len(xs) - width):
            j = i + width
            best[i, j] = min(
                (best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )

    def product(i: int, j: int) -> Any:
        return xs[i] if i == j else matmul_of(product(i, best[i, j][1]), product(best[i, j][1] + 1, j))

    return product(0, len(xs) - 1)


# -- diagonals


def diagonal_of(x: Any, offset: int, axis1: int, axis2: int) -> Any:
    ndim = len(shape_of(x))
    if ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    i, j = axis_of(axis1, ndim), axis_of(axis2, ndim)
    if i == j:
        raise ValueError("axis1 and axis2 cannot be the same")
    x = permute(x, [*[k for k in range(ndim) if k not in (i, j)], i, j])
    *rest, n, m = shape_of(x)
    count = max(0, min(n + min(offset, 0), m - max(offset, 0)))
    flat = reshape(x, shape=(*rest, n * m))
    start = offset if offset >= 0 else -offset * m
    if count == 0:
        return static_slice(flat, 0, 0, len(rest))
    limit = (*rest, start + (count - 1) * (m + 1) + 1)
    found = slice_p(flat, start=(*[0] * len(rest), start), limit=limit, strides=(*[1] * len(rest), m + 1))
    return strides.doubt(found) if rest else found


@implements("diagonal", alias="view", by_kind=True)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return diagonal_of(array_of(a), offset, axis1, axis2)


@implements("trace", by_kind=True)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    return sum_(diagonal_of(array_of(a), offset, axis1, axis2), axis=-1, dtype=dtype)


@implements("diag", alias="view", by_kind=True)
def diag(v: Any, k: int = 0) -> Any:
    x = array_of(v)
    shape = shape_of(x)
    if len(shape) == 2:
        return diagonal_of(x, k, 0, 1)
    if len(shape) != 1:
        raise ValueError("Input must be 1- or 2-d.")
    n = shape[0] + abs(k)
    if k:
        x = pad_p(x, low=(0,), high=(abs(k),), interior=(0,))
    lanes = broadcast_in_dim(x, shape=(n, n), axes=(0,) if k >= 0 else (1,))
    return strides.doubt(comparison.select(np.eye(n, k=k, dtype=bool), lanes, full(aval_of(lanes), 0)))


@implements("diagflat", by_kind=True)
def diagflat(v: Any, k: int = 0) -> Any:
    return diag(ravelled(array_of(v)), k)
