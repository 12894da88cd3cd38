"""Indexing by known bounds, and gather and scatter in one canonical form.

`basic_index(x, index)` is one equation for everything that NumPy calls basic indexing. `index` is canonical: an int in [0, n),
a triple (start, count, step) per axis that stays, None for a new axis; no Ellipsis, one entry per axis of x. Its transpose is
`basic_place` (zeros but for the selected elements), of which `place_sum` adds up several. `basic_update` writes elements of a
copy, and `basic_add` adds to them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from funcad.errors import MissingRuleError
from funcad.host.real_types import dtype_kind
from funcad.ir.aval import Aval, aval_of, dtype_of, shape_of
from funcad.ir.primitive import Primitive, is_linear
from funcad.ir.tracer import Tracer, has_value
from funcad.memo import remembers
from funcad.primitives import families
from funcad.primitives.arithmetic import add, div, mul, square
from funcad.primitives.conversion import convert
from funcad.primitives.families import broadcast_in_dim, elementwise, exact_square, moved_square, reshape, structural
from funcad.primitives.reduction import keep, linear_recurrence, shift
from funcad.primitives.shape import batched_with, constant_beside, move_axis, next_axis, permute, slice_p, with_lanes, zeros

# -- gather and scatter, in one canonical form
#
# `gather(x, *indices, batch_dims=b)`: x has b leading axes that the index arrays share, then one axis per index array, then the
# rest. All index arrays have one shape, `batch + I`; the result has shape `batch + I + rest`. `scatter(x, updates, *indices)`
# writes updates of that shape into a copy of x: "set" (of repeated indices the last wins), "add", "mul", "min", "max" (repeated
# indices accumulate). Negative indices wrap, indices out of bounds raise NumPy's IndexError, also in jitted programs.
#
# `unique=True` is the caller's promise that no element is addressed twice; then additions are plain assignments. Derivatives
# are exact for repeated indices too: of "set" only the last update gets a cotangent, "min" and "max" share it equally among the
# tied, "mul" goes through a segmented product, exact at zeros in every order.


_UFUNCS = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
_INDEX = np.dtype(np.int64)
_MANY = 4096  # updates


def _size(shape: tuple) -> int:
    size = 1
    for n in shape:
        size *= n
    return size


def _full_index(xp: Any, indices: tuple, batch_shape: tuple, lanes: int = 0) -> tuple:
    """The indices preceded by those of the batch axes, as NumPy takes them."""
    if not batch_shape:
        return indices
    ndim = indices[0].ndim - lanes
    iotas = [xp.arange(n).reshape((n, *[1] * (ndim - i - 1))) for i, n in enumerate(batch_shape)]
    return (*iotas, *indices)


def _check_indices(name: str, x: Aval, indices: tuple, batch_dims: int) -> tuple:
    first = indices[0].shape
    for i in indices:
        if i.shape != first or i.dtype.kind not in "iu":
            raise TypeError(f"{name}: index arrays must be integers of one shape, got {families.avals_text(indices)}")
    if batch_dims + len(indices) > len(x.shape) or x.shape[:batch_dims] != first[:batch_dims]:
        raise ValueError(
            f"{name}: {len(indices)} index array(s) {families.avals_text(indices)} with batch_dims={batch_dims} do not fit {x}"
        )
    return (*first, *x.shape[batch_dims + len(indices) :])


def _is_unique(indices: tuple, batch_dims: int, unique: bool) -> bool:
    return unique or _size(shape_of(indices[0])[batch_dims:]) <= 1


# -- gather


def _gather_impl(xp: Any, x: Any, *indices: Any, batch_dims: int, unique: bool) -> Any:
    if xp is np and len(indices) == 1 and not batch_dims:
        index = indices[0]
        if type(index) is np.ndarray and index.dtype == _INDEX and x.flags.c_contiguous:
            return x.take(index, axis=0)  # twice as quick as x[index]
        return x[index]
    return x[_full_index(xp, indices, x.shape[:batch_dims])]


def _gather_abstract(x: Aval, *indices: Aval, batch_dims: int, unique: bool) -> Aval:
    return Aval(_check_indices("gather", x, indices, batch_dims), x.dtype)


def _gather_transpose(ct: Any, x: Any, *indices: Any, batch_dims: int, unique: bool) -> list:
    if {np.ndarray}.issuperset(map(type, (ct, *indices))):  # which were checked when they were read
        zero = np.zeros(x.aval.shape, x.aval.dtype)
        ct_x = _scatter_over(np, zero, ct, *indices, mode="add", batch_dims=batch_dims, unique=unique)
        return [ct_x, *[None] * len(indices)]
    ct_x = scatter(constant_beside((ct, *indices), x.aval, 0), ct, *indices, mode="add", batch_dims=batch_dims, unique=unique)
    return [ct_x, *[None] * len(indices)]


def _gather_batch(size: int, args: Any, batched: Any, *, batch_dims: int, unique: bool) -> tuple[Any, bool]:
    x, *indices = args
    if not any(batched[1:]):
        out = gather(move_axis(x, 0, batch_dims + len(indices)), *indices, batch_dims=batch_dims, unique=unique)
        return move_axis(out, len(shape_of(indices[0])), 0), True
    indices = with_lanes(size, indices, batched[1:])
    if not batched[0] and not batch_dims:
        return gather(x, *indices), True  # lanes may read the same element
    (x,) = with_lanes(size, [x], batched)
    return gather(x, *indices, batch_dims=batch_dims + 1, unique=unique), True


gather_p = Primitive(
    "gather",
    _gather_impl,
    _gather_abstract,
    jvp=lambda tangents, out, x, *indices, **params: gather(tangents[0], *indices, **params),
    transpose=_gather_transpose,
    batch=_gather_batch,
    square=lambda *operands, **params: moved_square(gather_p)(*operands, **params),
    reach="reads",
    may_share=lambda x, *indices: not any([i.shape for i in indices]),  # then it is a basic index
    adds=lambda ct, x, *indices, **where: (scatter_p, (ct, *indices), {"mode": "add", **where}),
    fails=True,
)


def _check_known(x: Any, indices: tuple, batch_dims: int) -> None:
    """IndexError at the line where indices that have values are used, which may catch it, and not when the program runs."""
    if type(x) is Tracer and not has_value(x):
        for axis, index in enumerate(indices):
            if type(index) is np.ndarray and index.size:
                n = shape_of(x)[batch_dims + axis]
                if index.min() < -n or index.max() >= n:
                    bad = index[(index < -n) | (index >= n)].flat[0]
                    raise IndexError(f"index {bad} is out of bounds for axis {axis} with size {n}")


def gather(x: Any, *indices: Any, batch_dims: int = 0, unique: bool = False) -> Any:
    """x at integer index arrays of one shape; see the module's text."""
    _check_known(x, indices, batch_dims)
    return gather_p(x, *indices, batch_dims=batch_dims, unique=unique)


# -- scatter


def fresh(xp: Any, x: Any) -> Any:
    """A writeable, contiguous copy; constant (stride 0) arrays are filled rather than copied."""
    if xp is np and x.size > 1 and not any(x.strides):
        value = x.flat[0]
        return np.full(x.shape, value, x.dtype) if any(value.tobytes()) else np.zeros(x.shape, x.dtype)
    return np.array(x, order="C") if xp is np else x.copy()


def _rows(xp: Any, indices: tuple, dims: tuple) -> Any:
    """Linear position of each addressed row, wrapped and checked as NumPy does."""
    total: Any = None
    for axis, (index, n) in enumerate(zip(indices, dims)):
        index, negative = xp.asarray(index).astype(np.int64, copy=False), True
        if xp is np and index.size:
            low = index.min()
            if low < -n or index.max() >= n:
                bad = index[(index < -n) | (index >= n)].flat[0]
                raise IndexError(f"index {bad} is out of bounds for axis {axis} with size {n}")
            negative = low < 0
        index = xp.where(index < 0, index + n, index) if negative else index
        total = index if total is None else total * n + index
    return total


def _scatter_impl(xp: Any, x: Any, u: Any, *indices: Any, **params: Any) -> Any:
    return _scatter_over(xp, fresh(xp, x), u, *indices, **params)


def _scatter_over(xp: Any, out: Any, u: Any, *indices: Any, mode: str, batch_dims: int, unique: bool) -> Any:
    unique = _is_unique(indices, batch_dims, unique)
    index = _full_index(xp, indices, out.shape[:batch_dims])
    if mode == "set" and (unique or xp is np):
        out[index] = u
    elif unique:
        out[index] = getattr(xp, _UFUNCS[mode].__name__)(out[index], u)
    elif xp is np and out.ndim == 1:  # flat: NumPy 2's ufunc.at mistakes the strides of indices with several axes
        _UFUNCS[mode].at(out, np.reshape(index[0], -1), np.reshape(u, -1))
    elif xp is np and mode == "add" and _pays_as_product(out, u, len(index)):
        dims = out.shape[: len(index)]
        _add_rows(out, _rows(np, index, dims).reshape(-1), u, _size(dims))
    elif not out.flags.c_contiguous:  # what follows writes in a flat view
        out[...] = _scatter_over(xp, xp.array(out, order="C"), u, *indices, mode=mode, batch_dims=batch_dims, unique=unique)
    else:
        dims, rest = out.shape[: len(index)], out.shape[len(index) :]
        rows, width = _rows(xp, index, dims).reshape(-1), _size(rest)
        if xp is np:  # ufunc.at is quick on one axis only
            cells = rows if width == 1 else (rows[:, None] * width + np.arange(width)).reshape(-1)
            _UFUNCS[mode].at(out.reshape(-1), cells, np.reshape(u, -1))
        elif mode == "add" and dtype_kind(out.dtype) in "fc":
            xp.add.at(out, index, u)
        else:
            _scatter_segments(xp, mode, out.reshape(_size(dims), width), rows, u.reshape(rows.size, width))
    return out


def _pays_as_product(out: np.ndarray, u: np.ndarray, n: int) -> bool:
    """Are these many rows of several numbers? Then a sparse product is four times as quick as `add.at`."""
    return u.size >= _MANY and _size(out.shape[n:]) > 1 and out.dtype.char in "fdFD" and out.flags.c_contiguous


def _add_rows(out: np.ndarray, rows: np.ndarray, u: np.ndarray, n: int) -> None:
    """Add the updates of each of n rows, in their order: the product with a matrix that has a 1 in each column, at its row.

    SciPy's kernel adds to what is there; building the matrix and calling its product would take as long again.
    """
    small = np.int32 if max(n, rows.size) < 2**31 else np.int64
    kind = np.finfo(out.dtype).dtype  # a product of complex numbers would make NaN of infinities
    parts, sums = [np.ascontiguousarray(x).reshape(-1).view(kind) for x in (u, out)]
    add = importlib.import_module("scipy.sparse._sparsetools").csc_matvecs
    places = np.arange(rows.size + 1, dtype=small), rows.astype(small, copy=False)
    add(n, rows.size, sums.size // max(n, 1), *places, np.ones(rows.size, kind), parts, sums)


def _scatter_segments(xp: Any, mode: str, out: Any, rows: Any, u: Any) -> None:
    """Accumulate updates of equal rows by doubling, then write the result of each row: for devices."""
    f = getattr(xp, _UFUNCS[mode].__name__) if mode != "set" else None
    order = xp.argsort(rows, kind="stable")
    rows, u, d = rows[order], u[order], 1
    while f is not None and d < rows.shape[0]:
        joined = xp.where((rows[d:] == rows[:-d])[:, None], f(u[d:], u[:-d]), u[d:])
        u[d:] = joined
        d *= 2
    u = u[xp.searchsorted(rows, rows, side="right") - 1]  # all writes to one row write the same; nobody waits for a count
    out[rows] = u if f is None else f(out[rows], u)


def _scatter_abstract(x: Aval, u: Aval, *indices: Aval, mode: str, batch_dims: int, unique: bool) -> Aval:
    shape = _check_indices("scatter", x, indices, batch_dims)
    if u.shape != shape or u.dtype != x.dtype:
        raise TypeError(f"scatter: updates must be {Aval(shape, x.dtype)}, got {u}")
    return Aval(x.shape, x.dtype)


def _scatter_jvp(tangents: Any, out: Any, x: Any, u: Any, *indices: Any, mode: str, batch_dims: int, unique: bool) -> Any:
    tx, tu = tangents[:2]
    where = {"batch_dims": batch_dims, "unique": unique}
    if mode == "add" and tu is None:
        return tx
    if mode == "mul":
        total = None if tx is None else scatter(tx, u, *indices, mode="mul", **where)
        if tu is None:
            return total
        if _is_unique(indices, batch_dims, unique):
            base = zeros(aval_of(x)) if total is None else total
            return scatter(base, mul(tu, gather(x, *indices, **where)), *indices, mode="add", **where)
        change = _product_tangent(tu, x, u, indices, batch_dims)
        return change if total is None else add(total, change)
    if mode in ("min", "max"):
        mask_x, mask_u = attains_p(x, out), attains_p(u, gather(out, *indices, **where))
        tx = None if tx is None else keep(tx, mask_x)
        tu = None if tu is None else keep(tu, mask_u)
        dtype = dtype_of(x)
        count = scatter(convert(mask_x, dtype), convert(mask_u, dtype), *indices, mode="add", **where)
    tx = zeros(aval_of(x)) if tx is None else tx
    tu = zeros(aval_of(u)) if tu is None else tu
    if mode in ("set", "add"):
        return scatter(tx, tu, *indices, mode=mode, **where)
    return div(scatter(tx, tu, *indices, mode="add", **where), count)


def _product_tangent(tu: Any, x: Any, u: Any, indices: tuple, batch_dims: int) -> Any:
    """Tangent of x times the product of the updates of each row: the updates sorted by row, multiplied within a row by a
    linear recurrence (which is exact at zeros, in every order)."""
    shape, n_rows = shape_of(x), len(indices) + batch_dims
    dims, rest = shape[:n_rows], shape[n_rows:]
    rows, order, first, inner, last = segments_p(*indices, dims=dims, lanes=0)
    n = shape_of(rows)[0]
    flat = (n, *rest)

    def wide(mask: Any) -> Any:
        return broadcast_in_dim(mask, shape=flat, axes=(0,))

    u = gather(reshape(u, shape=flat), order, unique=True)
    tu = gather(reshape(tu, shape=flat), order, unique=True)
    first, inner, last = wide(first), wide(inner), wide(last)
    factors = keep(u, inner)
    products = linear_recurrence(keep(u, first), factors, 0)
    changes = add(mul(keep(tu, inner), shift(products, 0)), keep(tu, first))
    changes = linear_recurrence(changes, factors, 0)
    table = reshape(x, shape=(_size(dims), *rest))
    changes = keep(mul(gather(table, rows), changes), last)
    return reshape(scatter(zeros(aval_of(table)), changes, rows, mode="add"), shape=shape)


def _scatter_transpose(ct: Any, x: Any, u: Any, *indices: Any, mode: str, batch_dims: int, unique: bool) -> list:
    where = {"batch_dims": batch_dims, "unique": unique}
    ct_x = ct_u = None
    if mode == "set":
        aval = u.aval if is_linear(u) else aval_of(u)
        if is_linear(u):  # read first, so that ct may be written over
            ct_u = gather(ct, *indices, **where)
            if not _is_unique(indices, batch_dims, unique):
                dims = shape_of(ct)[: batch_dims + len(indices)]
                winners = is_last_p(*indices, dims=dims)
                ct_u = keep(ct_u, broadcast_in_dim(winners, shape=aval.shape, axes=tuple(range(len(shape_of(winners))))))
        if is_linear(x):
            ct_x = scatter(ct, zeros(aval), *indices, mode="set", **where)
    elif mode == "add":
        ct_x = ct if is_linear(x) else None
        ct_u = gather(ct, *indices, **where) if is_linear(u) else None
    elif mode == "mul" and is_linear(x):
        ct_x = scatter(ct, u, *indices, mode="mul", **where)
    elif mode == "mul" and _is_unique(indices, batch_dims, unique):
        ct_u = mul(gather(ct, *indices, **where), gather(x, *indices, **where))
    else:
        raise MissingRuleError(
            f"scatter with mode={mode!r} is not linear in its updates, so linear_transpose cannot pass through it; "
            "use vjp, which goes through its derivative"
        )
    return [ct_x, ct_u, *[None] * len(indices)]


def _scatter_transpose_over(ct: Any, x: Any, u: Any, *indices: Any, mode: str, batch_dims: int, unique: bool) -> list:
    where = {"mode": mode, "batch_dims": batch_dims, "unique": unique}
    if mode in ("min", "max"):
        return _scatter_transpose(ct, x, u, *indices, **where)
    ct_u = np.array(_scatter_transpose(ct, None, u, *indices, **where)[1])[()] if is_linear(u) else None  # a row may be a view
    if mode != "add":
        _scatter_over(np, ct, 0 if mode == "set" else u, *indices, **where)
    return [ct, ct_u, *[None] * len(indices)]


def _scatter_batch(size: int, args: Any, batched: Any, *, mode: str, batch_dims: int, unique: bool) -> tuple[Any, bool]:
    if not any(batched[2:]):
        x, u = with_lanes(size, args[:2], batched)
        indices = args[2:]
        n = batch_dims + len(indices)
        x, u = move_axis(x, 0, n), move_axis(u, 0, len(shape_of(indices[0])))
        out = scatter(x, u, *indices, mode=mode, batch_dims=batch_dims, unique=unique)
        return move_axis(out, n, 0), True
    return scatter(*with_lanes(size, args, batched), mode=mode, batch_dims=batch_dims + 1, unique=unique), True


scatter_p = Primitive(
    "scatter",
    _scatter_impl,
    _scatter_abstract,
    jvp=_scatter_jvp,
    transpose=_scatter_transpose,
    batch=_scatter_batch,
    reach=lambda *, mode, **_: "picks" if mode in ("set", "add") else None,
    over=_scatter_over,
    transpose_over=_scatter_transpose_over,
    fails=True,
)


def scatter(x: Any, updates: Any, *indices: Any, mode: str = "set", batch_dims: int = 0, unique: bool = False) -> Any:
    """A copy of x with updates written at integer index arrays of one shape; see the module's text."""
    if mode not in ("set", *_UFUNCS):
        raise ValueError(f"scatter: mode must be 'set', 'add', 'mul', 'min' or 'max', got {mode!r}")
    _check_known(x, indices, batch_dims)
    return scatter_p(x, updates, *indices, mode=mode, batch_dims=batch_dims, unique=unique)


# -- what the rules need to know of the indices: no derivatives


attains_p = elementwise(  # equal, or both NaN
    "attains",
    None,
    [None, None],
    dtype=families.BOOL,
    emit=lambda e, x, extremum: e.or_(e.eq(x, extremum), e.and_(e.ne(x, x), e.ne(extremum, extremum))),
)


def _is_last_impl(xp: Any, *indices: Any, dims: tuple) -> Any:
    batch_dims = len(dims) - len(indices)
    index = _full_index(xp, indices, dims[:batch_dims])
    shape = indices[0].shape
    position = xp.arange(_size(shape)).reshape(shape)
    winner = xp.empty(dims, np.int64)
    if xp is np:
        winner[index] = position
    else:
        _scatter_segments(xp, "set", winner.reshape(-1, 1), _rows(xp, index, dims).reshape(-1), position.reshape(-1, 1))
    return winner[index] == position


# Is this the last of the updates that address the same element? `dims` are the batch axes and the indexed axes.
is_last_p = Primitive(
    "is_last",
    _is_last_impl,
    lambda *indices, dims: Aval(indices[0].shape, np.dtype(bool)),
    batch=batched_with(lambda: is_last_p, dims=lambda size, dims: (size, *dims)),
)


def _segments_impl(xp: Any, *indices: Any, dims: tuple, lanes: int) -> list:
    index = _full_index(xp, indices, dims[: len(dims) - len(indices)], lanes)
    rows = _rows(xp, index, dims)
    rows = rows.reshape((*rows.shape[:lanes], _size(rows.shape[lanes:])))
    order = xp.argsort(rows, axis=-1, kind="stable")
    rows = xp.take_along_axis(rows, order, axis=-1)
    first = xp.ones(rows.shape, bool)
    first[..., 1:] = rows[..., 1:] != rows[..., :-1]
    last = xp.ones(rows.shape, bool)
    last[..., :-1] = first[..., 1:]
    return [rows, order, first, ~first, last]


def _segments_abstract(*indices: Aval, dims: tuple, lanes: int) -> list:
    shape = indices[0].shape
    shape = (*shape[:lanes], _size(shape[lanes:]))
    return [Aval(shape, _INDEX), Aval(shape, _INDEX), *[Aval(shape, np.dtype(bool))] * 3]


# The addressed rows in order, the order of the updates, and of each whether it is the first, a later, the last of its row.
# The indices' leading `lanes` axes are separate problems.
segments_p: Primitive = Primitive(
    "segments", _segments_impl, _segments_abstract, batch=batched_with(lambda: segments_p, lanes=next_axis), multiple=True
)


# -- basic indices


def python_index(index: tuple) -> tuple:
    """The canonical index as NumPy takes it."""
    result: list = []
    for entry in index:
        if type(entry) is tuple:
            start, count, step = entry
            stop = start + count * step
            entry = slice(start, stop if stop >= 0 else None, step) if count else slice(0, 0)
        result.append(entry)
    return tuple(result)


def are_apart(a: tuple, b: tuple) -> bool:
    """Do two canonical indices of one array have no element in common, as the bounds along one axis show?"""
    for e, f in zip([e for e in a if e is not None], [f for f in b if f is not None]):
        if (type(e) is tuple and not e[1]) or (type(f) is tuple and not f[1]):  # none at all
            return True
        (first, last), (start, stop) = _bounds(e), _bounds(f)
        if last < start or stop < first:
            return True
    return False


def _bounds(entry: Any) -> tuple[int, int]:
    if type(entry) is int:
        return entry, entry
    start, count, step = entry
    end = start + (count - 1) * step
    return (start, end) if step > 0 else (end, start)


def basic_shape(index: tuple) -> tuple:
    return tuple([1 if e is None else e[1] for e in index if type(e) is not int])


def _basic_abstract(x: Aval, *, index: tuple) -> Aval:
    if len([e for e in index if e is not None]) != len(x.shape):
        raise IndexError(f"basic_index: the index {index} has not one entry per axis of {x}")
    return Aval(basic_shape(index), x.dtype)


def _batched_index(size: int, index: tuple) -> tuple:
    return ((0, size, 1), *index)


def _index_impl(xp: Any, x: Any, *, index: tuple) -> Any:
    return x[python_index(index)]


def _place_impl(xp: Any, x: Any, *, index: tuple, shape: tuple) -> Any:
    out = xp.zeros(shape, x.dtype)
    out[python_index(index)] = x
    return out


basic_index_p = structural(
    "basic_index",
    _index_impl,
    _basic_abstract,
    lambda ct, x, *, index: basic_place_p(ct, index=index, shape=x.shape),
    lambda size, x, *, index: basic_index_p(x, index=_batched_index(size, index)),
    silent=True,
    layout=partial(_index_impl, np),
    reach="moves",
    free=True,
    adds=lambda ct, x, *, index: (basic_add_p, (ct,), {"index": index}),
)
basic_place_p = structural(  # zeros of a shape, with x at the index
    "basic_place",
    _place_impl,
    lambda x, *, index, shape: Aval(shape, x.dtype),
    lambda ct, x, *, index, shape: basic_index_p(ct, index=index),
    lambda size, x, *, index, shape: basic_place_p(x, index=_batched_index(size, index), shape=(size, *shape)),
    silent=True,
    reach="moves",
)


# -- the sum of several placements, which the compiler makes of additions


@remembers(512)
def common_index(indices: tuple, shape: tuple) -> tuple | None:
    """The elements that all canonical indices address, as NumPy takes them; None if there are none."""
    result = []
    for axis, n in enumerate(shape):
        places = set(range(n))
        for index in indices:
            entry = [e for e in index if e is not None][axis]
            start, count, step = (entry, 1, 1) if type(entry) is int else entry
            places &= set(range(start, start + count * step, step))
        if not places:
            return None
        ordered = sorted(places)
        result.append(slice(ordered[0], ordered[-1] + 1, ordered[1] - ordered[0] if len(ordered) > 1 else 1))
    return tuple(result)


def _place_sum_impl(xp: Any, *xs: Any, indices: tuple, shape: tuple) -> Any:
    dtype = xs[0].dtype
    out = xp.zeros(shape, dtype)
    common = common_index(indices, shape) if dtype.kind in "fcV" else None  # V: bfloat16
    if common is not None:  # elsewhere some term adds a zero, so that -0.0 becomes 0.0; here none does
        out[common] = complex(-0.0, -0.0) if dtype.kind == "c" else -0.0
    for x, index in zip(xs, indices):
        out[python_index(index)] += x
    return out


def _place_sum_abstract(*avals: Aval, indices: tuple, shape: tuple) -> Aval:
    for x, index in zip(avals, indices, strict=True):
        axes = len([e for e in index if e is not None])
        if x.shape != basic_shape(index) or x.dtype != avals[0].dtype or axes != len(shape):
            raise TypeError(f"place_sum: {x} does not fit at {index} of shape {shape}, or has not the others' dtype")
    return Aval(shape, avals[0].dtype)


def _place_sum_jvp(tangents: Any, out: Any, *xs: Any, indices: tuple, shape: tuple) -> Any:
    terms = [(t, index) for t, index in zip(tangents, indices) if t is not None]
    return place_sum_p(*[t for t, _ in terms], indices=tuple([index for _, index in terms]), shape=shape)


def _place_sum_transpose(ct: Any, *xs: Any, indices: tuple, shape: tuple) -> list:
    return [basic_index_p(ct, index=i) if is_linear(x) else None for x, i in zip(xs, indices)]


place_sum_p = Primitive(  # basic_place of each operand at its index, added up from the left, in one array
    "place_sum",
    _place_sum_impl,
    _place_sum_abstract,
    jvp=_place_sum_jvp,
    transpose=_place_sum_transpose,
    batch=batched_with(
        lambda: place_sum_p,
        indices=lambda size, indices: tuple([_batched_index(size, i) for i in indices]),
        shape=lambda size, shape: (size, *shape),
    ),
    reach="picks",
)


# -- arrays of one shape side by side, which compiled programs make of reshapes and a concatenation


def _stack_impl(xp: Any, *xs: Any, axis: int) -> Any:
    shape = xs[0].shape
    if xp is np and not shape:
        return np.array(xs, xs[0].dtype)
    grown = (*shape[:axis], 1, *shape[axis:])
    return xp.concatenate([xp.asarray(x).reshape(grown) for x in xs], axis)


def _stack_abstract(*avals: Aval, axis: int) -> Aval:
    first = avals[0]
    if any([a.shape != first.shape or a.dtype != first.dtype for a in avals]):
        raise TypeError(f"stack: operands must have equal shapes and dtypes, got {families.avals_text(avals)}")
    return Aval((*first.shape[:axis], len(avals), *first.shape[axis:]), first.dtype)


def _stack_transpose(ct: Any, *xs: Any, axis: int) -> list:
    whole = [(0, n, 1) for n in shape_of(ct)]
    before, after = whole[:axis], whole[axis + 1 :]
    return [basic_index_p(ct, index=(*before, i, *after)) if is_linear(x) else None for i, x in enumerate(xs)]


def _stack_square(*xs: Any, axis: int) -> Any:
    found = [exact_square(x) for x in xs]
    if all([s is None for s in found]):
        return None
    return stack_p(*[square(x) if s is None else s for x, s in zip(xs, found)], axis=axis)


stack_p = Primitive(
    "stack",
    _stack_impl,
    _stack_abstract,
    jvp=lambda tangents, out, *xs, axis: stack_p(*filled(tangents, xs), axis=axis),
    transpose=_stack_transpose,
    batch=batched_with(lambda: stack_p, axis=next_axis),
    square=_stack_square,
    reach="moves",
)


def basic_index(x: Any, index: tuple) -> Any:
    """x at a canonical basic index; see the module's text."""
    return basic_index_p(x, index=index)


def _update_over(xp: Any, x: Any, u: Any, *, index: tuple) -> Any:
    x[python_index(index)] = u
    return x


def _add_over(xp: Any, x: Any, u: Any, *, index: tuple) -> Any:
    x[python_index(index)] += u
    return x


def written(over: Callable[..., Any]) -> Callable[..., Any]:
    """The implementation of what writes over its first operand: into a copy."""

    def impl(xp: Any, x: Any, *operands: Any, **params: Any) -> Any:
        out = over(xp, fresh(xp, x), *operands, **params)
        return out[()] if xp is np and not out.ndim else out

    return impl


def _update_abstract(x: Aval, u: Aval, *, index: tuple) -> Aval:
    expected = _basic_abstract(x, index=index)
    if u.shape != expected.shape or u.dtype != x.dtype:
        raise TypeError(f"basic_update: the update must be {expected}, got {u}")
    return Aval(x.shape, x.dtype)


def filled(tangents: Any, primals: Any) -> list:
    return [zeros(aval_of(p)) if t is None else t for t, p in zip(tangents, primals)]


def known_aval(x: Any) -> Any:
    return x.aval if is_linear(x) else aval_of(x)


def _update_transpose(ct: Any, x: Any, u: Any, *, index: tuple) -> list:
    ct_u = basic_index(ct, index) if is_linear(u) else None  # read first, so that ct may be written over
    if not is_linear(x):
        return [None, ct_u]
    return [basic_update(ct, constant_beside([ct], known_aval(u), 0), index), ct_u]


def _update_transpose_over(ct: Any, x: Any, u: Any, *, index: tuple) -> list:
    where = python_index(index)
    ct_u = np.array(ct[where])[()] if is_linear(u) else None
    ct[where] = 0
    return [ct, ct_u]


basic_update_p = Primitive(
    "basic_update",
    written(_update_over),
    _update_abstract,
    jvp=lambda tangents, out, x, u, *, index: basic_update(*filled(tangents, (x, u)), index),
    transpose=_update_transpose,
    batch=batched_with(lambda: basic_update_p, index=_batched_index),
    reach="picks",
    over=_update_over,
    transpose_over=_update_transpose_over,
)


def _add_jvp(tangents: Any, out: Any, x: Any, u: Any, *, index: tuple) -> Any:
    tx, tu = tangents
    if tx is None:
        return basic_place_p(tu, index=index, shape=shape_of(x))
    return tx if tu is None else basic_add_p(tx, tu, index=index)


basic_add_p = Primitive(  # x with u added to the elements at a basic index
    "basic_add",
    written(_add_over),
    _update_abstract,
    jvp=_add_jvp,
    transpose=lambda ct, x, u, *, index: [ct if is_linear(x) else None, basic_index(ct, index) if is_linear(u) else None],
    batch=batched_with(lambda: basic_add_p, index=_batched_index),
    reach="picks",
    over=_add_over,
)


INDEXED = frozenset([basic_index_p, basic_place_p, basic_update_p, basic_add_p])  # whose rules look at no start of an index


def _slice_adds(ct: Any, x: Any, *, start: tuple, limit: tuple, strides: tuple | None) -> tuple:
    steps = strides or (1,) * len(start)
    return basic_add_p, (ct,), {"index": tuple(zip(start, shape_of(ct), steps))}


slice_p.adds = _slice_adds  # here, because slices come before indices


def basic_update(x: Any, update: Any, index: tuple) -> Any:
    """A copy of x in which the elements at a canonical basic index are those of `update`."""
    return basic_update_p(x, update, index=index)


def take_along(x: Any, indices: Any, axis: int, *, unique: bool = False) -> Any:
    """x at an integer array of x's rank: along `axis` the elements that it names, along the others its own position."""
    ndim = len(shape_of(x))
    if axis == ndim - 1:
        return gather(x, indices, batch_dims=axis, unique=unique)
    perm = tuple([i for i in range(ndim) if i != axis] + [axis])
    back = tuple([perm.index(i) for i in range(ndim)])
    out = gather(permute(x, perm), permute(indices, perm), batch_dims=ndim - 1, unique=unique)
    return permute(out, back)
