"""Contractions: dot_general, matmul and einsum.

`dot_general(x, y, dimension_numbers=((cx, cy), (bx, by)))` sums over the axes cx of x against cy of y, pairs the axes
bx with by, and gives the batch axes, then x's free axes, then y's. It is bilinear, and both transposes are
dot_general again, so all orders of derivative stay on BLAS: the implementation brings its operands to 2-D or 3-D form
by views where it can, and hands them to `matmul`. `einsum` of three operands or more is one primitive, whose order of
contraction is chosen anew for each derivative; with one or two operands it is a sum, a transpose, a dot_general.

`cross_p` is of vectors along the last axis, of operands of one shape; compiled, it is its six products.

Traps: operands have equal dtypes already. In `einsum_p` a letter has one size and occurs once per operand; `einsum`
takes diagonals and drops axes of size 1 that broadcast, by structural equations. Nothing conjugates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from funcad.ir.aval import Aval, dtype_of, shape_of
from funcad.ir.primitive import Primitive, is_linear, not_linear
from funcad.memo import remembers
from funcad.primitives.arithmetic import mul, sub
from funcad.primitives.conversion import convert
from funcad.primitives.families import avals_text, broadcast_in_dim
from funcad.primitives.reduction import reduce_sum
from funcad.primitives.shape import batched_with, concatenate, multilinear, permute, reshape, slice_p, transpose

# -- reading the arguments of `einsum`: ellipses, implicit outputs and the interleaved form are made canonical here


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ANY = frozenset(_LETTERS)


def fresh_letters(used: Any, count: int) -> str:
    """Letters that do not occur in `used`, in alphabetical order."""
    free = sorted(_ANY.difference(used))
    if len(free) < count:
        raise ValueError("einsum: more than 52 different subscripts are needed")
    return "".join(free[len(free) - count :])


def canonical_einsum(*operands: Any) -> tuple[str, list[Any]]:
    """NumPy's arguments of `einsum` (subscripts first, or operands and lists alternating) in canonical form.

    `("ab,bc->ac", [x, y])`: no ellipsis, no blanks, the output always given. ValueError where NumPy raises it.
    """
    if not operands:
        raise ValueError("einsum: must specify the subscripts and at least one operand")
    if isinstance(operands[0], str):
        text, xs = operands[0].replace(" ", ""), list(operands[1:])
    else:
        text, xs = _from_lists(operands)
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(xs):
        raise ValueError(f"einsum: subscripts {text!r} name {len(terms)} operands, but {len(xs)} were given")
    for part in (*terms, output):
        if not _ANY.issuperset(part.replace("...", "")) or part.count("...") > 1:
            raise ValueError(f"einsum: subscripts {text!r} may hold letters, ',', '->' and one '...' per operand")
    hidden = []
    for i, (term, x) in enumerate(zip(terms, xs)):
        ndim, named = len(shape_of(x)), len(term.replace("...", ""))
        if named > ndim or ("..." not in term and named != ndim):
            raise ValueError(f"einsum: operand {i}, of shape {shape_of(x)}, does not have the axes that {term!r} names")
        hidden.append(ndim - named if "..." in term else 0)
    letters = fresh_letters(text, max(hidden))
    terms = [t.replace("...", letters[len(letters) - h :]) for t, h in zip(terms, hidden)]
    if arrow:
        if letters and "..." not in output:
            raise ValueError(f"einsum: the output of {text!r} has no '...', but {len(letters)} axes of the operands do")
        output = output.replace("...", letters)
    else:
        joined = "".join(terms)
        output = letters + "".join(sorted([c for c in set(joined) - set(letters) if joined.count(c) == 1]))
    for c in output:
        if output.count(c) > 1 or c not in "".join(terms):
            raise ValueError(f"einsum: output subscript {c!r} of {text!r} must occur once there, and among the operands'")
    return f"{','.join(terms)}->{output}", xs


def _from_lists(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    def term(subscripts: Any) -> str:
        try:
            return "".join(["..." if s is Ellipsis else _LETTERS[int(s)] for s in subscripts])
        except (TypeError, IndexError):
            raise ValueError(f"einsum: subscripts are integers below 52 and Ellipsis, got {subscripts!r}") from None

    xs, lists = list(operands[0::2]), list(operands[1::2])
    output = None
    if len(operands) % 2:
        output = term(xs.pop())
    text = ",".join([term(s) for s in lists])
    return (text if output is None else f"{text}->{output}"), xs


# -- how a sum of products over paired axes is computed: by `matmul` of matrices, to which axes are moved and joined
#
# Idea: what is to be moved and which axes are joined depends on the axes alone, `dot_plan`; with the shapes, which a program
# knows beforehand, everything but the product itself is worked out once (`dot_ready`).


Axes = tuple[int, ...]


def free_axes(ndim: int, *used: Axes) -> Axes:
    taken = {a for axes in used for a in axes}
    return tuple([i for i in range(ndim) if i not in taken])


@remembers(1024)
def dot_plan(x_ndim: int, y_ndim: int, dimension_numbers: Any) -> Any:
    """How to bring the operands to the form that matmul takes.

    ("flat", tx, ty): vectors and matrices, transposed where flagged. ("outer", ...): nothing is summed. ("split", ...):
    y's summed axes lie between free ones, no batch axes. ("general", perm, swap, ...): permute, merge groups, multiply.
    """
    (cx, cy), (bx, by) = dimension_numbers
    fx, fy = free_axes(x_ndim, cx, bx), free_axes(y_ndim, cy, by)
    if len(cx) == 1 and not bx and x_ndim <= 2 and y_ndim <= 2:
        return ("flat", x_ndim == 2 and cx[0] == 0, y_ndim == 2 and cy[0] == 1)
    if not cx:
        return ("outer", moved_or_none(bx + fx), moved_or_none(by + fy), fx, fy, len(bx))
    in_x, in_y = in_order(cx, cy), in_order(cy, cx)
    if not bx:
        for sx, sy in (in_x, (in_y[1], in_y[0])):
            if sy == tuple(range(sy[0], sy[-1] + 1)) and 0 < sy[0] and sy[-1] < y_ndim - 1:
                for flipped in (False, True):
                    if ((*sx, *fx) if flipped else (*fx, *sx)) == tuple(range(x_ndim)):
                        return ("split", flipped, len(sx), sy[0])
    candidates = []
    for sx, sy in (in_x, (in_y[1], in_y[0])):
        for flip_x in (False, True):
            for flip_y in (False, True):
                px = bx + (sx + fx if flip_x else fx + sx)
                py = by + (fy + sy if flip_y else sy + fy)
                moved = (px != tuple(range(x_ndim))) + (py != tuple(range(y_ndim)))
                candidates.append((moved, moved_or_none(px), flip_x, moved_or_none(py), flip_y))
    moved, px, flip_x, py, flip_y = min(candidates, key=lambda c: c[0])
    return ("general", px, flip_x, py, flip_y, len(bx), len(fx), len(cx), len(fy))


def moved_or_none(perm: Axes) -> Axes | None:
    return None if perm == tuple(range(len(perm))) else perm


def in_order(first: Axes, second: Axes) -> tuple[Axes, Axes]:
    """Both axis lists, ordered by the first."""
    pairs = sorted(zip(first, second))
    return tuple([a for a, _ in pairs]), tuple([b for _, b in pairs])


def _matmul(xp: Any, x: Any, y: Any) -> Any:
    if xp is np or x.dtype.kind != "b":
        return xp.matmul(x, y)
    return xp.matmul(x.astype(np.float32), y.astype(np.float32)) != 0


def dot_impl(xp: Any, x: Any, y: Any, *, dimension_numbers: Any) -> Any:
    plan = dot_plan(x.ndim, y.ndim, dimension_numbers)
    kind = plan[0]
    if kind == "flat":
        return _matmul(xp, x.T if plan[1] else x, y.T if plan[2] else y)
    if kind == "outer":
        _, px, py, fx, fy, n_batch = plan
        if xp is not np:
            x, y = [a if a.ndim else xp.asarray(a) for a in (x, y)]  # a number of the host would become an array of NumPy's
        x = x if px is None else x.transpose(px)
        y = y if py is None else y.transpose(py)
        y = y.reshape((*y.shape[:n_batch], *[1] * len(fx), *y.shape[n_batch:]))
        return x.reshape((*x.shape, *[1] * len(fy))) * y
    if kind == "split":
        return _split_impl(xp, x, y, *plan[1:])
    return _general(xp, x, y, _general_shapes(x.shape, y.shape, plan))


def _general_shapes(x: tuple, y: tuple, plan: tuple) -> tuple:
    """Of each operand its permutation, the shape of its matrices, and whether they are turned; and the shape of the result."""
    _, px, flip_x, py, flip_y, n_batch, n_x, n_sum, n_y = plan
    x = x if px is None else tuple([x[i] for i in px])
    y = y if py is None else tuple([y[i] for i in py])
    cut_x = n_batch + (n_sum if flip_x else n_x)
    cut_y = n_batch + (n_y if flip_y else n_sum)
    batch, a, b, c, d = x[:n_batch], x[n_batch:cut_x], x[cut_x:], y[n_batch:cut_y], y[cut_y:]
    lead = (prod(batch),) if n_batch else ()
    whole = (*batch, *(b if flip_x else a), *(c if flip_y else d))
    return px, (*lead, prod(a), prod(b)), flip_x, py, (*lead, prod(c), prod(d)), flip_y, whole


def _general(xp: Any, x: Any, y: Any, shapes: tuple) -> Any:
    """The product for what `_general_shapes` gives."""
    px, in_x, flip_x, py, in_y, flip_y, whole = shapes
    x = (x if px is None else x.transpose(px)).reshape(in_x)
    y = (y if py is None else y.transpose(py)).reshape(in_y)
    out = _matmul(xp, x.swapaxes(-1, -2) if flip_x else x, y.swapaxes(-1, -2) if flip_y else y).reshape(whole)
    return out if whole else out[()]


def _split_impl(xp: Any, x: Any, y: Any, flipped: bool, n_sum: int, first: int) -> Any:
    """x's matrix times a stack of matrices, without copying y."""
    cut = n_sum if flipped else x.ndim - n_sum
    a, b = x.shape[:cut], x.shape[cut:]
    x = x.reshape((prod(a), prod(b)))
    if flipped:
        x, a = x.T, b
    before, after = y.shape[:first], y.shape[first + n_sum :]
    out = _matmul(xp, x, y.reshape((prod(before), x.shape[1], prod(after)))).reshape((*before, *a, *after))
    m, n = len(before), len(a)
    return out.transpose((*range(m, m + n), *range(m), *range(m + n, out.ndim)))


def dot_ready(x: Aval, y: Aval, *, dimension_numbers: Any) -> Any:
    """The plan looked up once; vectors and matrices go straight to `np.matmul`."""
    plan = dot_plan(x.ndim, y.ndim, dimension_numbers)
    if plan[0] == "general":
        shapes = _general_shapes(x.shape, y.shape, plan)
        return lambda x, y: _general(np, x, y, shapes)
    if plan[0] == "outer" and x.shape and y.shape and plan[1:3] == (None, None):
        fx, fy, n = plan[3:]
        in_x, in_y = (*x.shape, *[1] * len(fy)), (*y.shape[:n], *[1] * len(fx), *y.shape[n:])
        return lambda x, y: x.reshape(in_x) * y.reshape(in_y)
    if plan[0] != "flat":
        return partial(dot_impl, np, dimension_numbers=dimension_numbers)
    if plan[1]:
        return (lambda x, y: np.matmul(x.T, y.T)) if plan[2] else (lambda x, y: np.matmul(x.T, y))
    return (lambda x, y: np.matmul(x, y.T)) if plan[2] else np.matmul


# -- contractions


def _inverse(perm: Sequence[int]) -> Axes:
    result = [0] * len(perm)
    for i, p in enumerate(perm):
        result[p] = i
    return tuple(result)


# ---- dot_general


def _dot_abstract(x: Aval, y: Aval, *, dimension_numbers: Any) -> Aval:
    if x.dtype != y.dtype:
        raise TypeError(f"dot_general: operands must have equal dtypes, got {avals_text([x, y])}; convert one of them")
    return Aval(_dot_shape(x.shape, y.shape, x.dtype, dimension_numbers), x.dtype)


@remembers(4096)
def _dot_shape(x_shape: tuple, y_shape: tuple, dtype: np.dtype, dimension_numbers: Any) -> tuple:
    (cx, cy), (bx, by) = dimension_numbers
    x, y = Aval(x_shape, dtype), Aval(y_shape, dtype)
    used_x, used_y = cx + bx, cy + by
    if (len(cx), len(bx)) != (len(cy), len(by)) or len({*used_x}) < len(used_x) or len({*used_y}) < len(used_y):
        raise ValueError(f"dot_general: dimension_numbers {dimension_numbers} do not pair axes of {avals_text([x, y])}")
    for axes_x, axes_y in ((cx, cy), (bx, by)):
        for i, j in zip(axes_x, axes_y):
            if not (0 <= i < x.ndim and 0 <= j < y.ndim) or x_shape[i] != y_shape[j]:
                raise ValueError(
                    f"dot_general: axis {i} of {x:a} and axis {j} of {y:a} are to be matched (dimension_numbers "
                    f"{dimension_numbers}), but they do not fit"
                )
    free_x, free_y = free_axes(x.ndim, cx, bx), free_axes(y.ndim, cy, by)
    return (*[x_shape[i] for i in bx + free_x], *[y_shape[i] for i in free_y])


def _dot_transpose(ct: Any, x: Any, y: Any, *, dimension_numbers: Any) -> list:
    (cx, cy), (bx, by) = dimension_numbers
    if is_linear(x):
        if is_linear(y):
            raise not_linear("dot_general")
        return [_dot_transpose_left(ct, x.aval.ndim, y, cx, cy, bx, by, False), None]
    return [None, _dot_transpose_left(ct, y.aval.ndim, x, cy, cx, by, bx, True)]


def _dot_transpose_left(
    ct: Any, ndim: int, other: Any, own_sum: Axes, sum_: Axes, own_batch: Axes, batch: Axes, last: bool
) -> Any:
    """The cotangent of the operand whose axes are own_*; its free axes come last in ct if `last`."""
    other_ndim = other.ndim if type(other) is np.ndarray else len(shape_of(other))
    numbers, perm = _transpose_plan(ndim, other_ndim, own_sum, sum_, own_batch, batch, last)
    result = dot_general_p(*((other, ct) if last else (ct, other)), dimension_numbers=numbers)
    return result if perm is None else transpose(result, perm=perm)


@remembers(1024)
def _transpose_plan(
    ndim: int, other_ndim: int, own_sum: Axes, sum_: Axes, own_batch: Axes, batch: Axes, last: bool
) -> tuple[Any, Axes | None]:
    """How the cotangent meets the other operand, and the axes' way back into the operand's order."""
    own_free, free = free_axes(ndim, own_sum, own_batch), free_axes(other_ndim, sum_, batch)
    n = len(batch)
    start = n if last else n + len(own_free)
    matched = tuple(range(start, start + len(free)))
    leading = tuple(range(n))
    result_sum = in_order(sum_, own_sum)[1]  # the other's summed axes become free, in their own order
    if last:  # other first: (batch, summed, own free)
        return ((free, matched), (batch, leading)), moved_or_none(_inverse((*own_batch, *result_sum, *own_free)))
    return ((matched, free), (leading, batch)), moved_or_none(_inverse((*own_batch, *own_free, *result_sum)))


def _shift(axes: Axes) -> Axes:
    return tuple([a + 1 for a in axes])


def _dot_batch(size: int, args: Any, batched: Any, *, dimension_numbers: Any) -> tuple[Any, bool]:
    (cx, cy), (bx, by) = dimension_numbers
    x, y = args
    if all(batched):
        numbers = ((_shift(cx), _shift(cy)), ((0, *_shift(bx)), (0, *_shift(by))))
        return dot_general_p(x, y, dimension_numbers=numbers), True
    n, ndim = len(bx), len(shape_of(x)) + len(shape_of(y)) - len(cx) - len(cy) - len(bx)
    if batched[0]:
        result = dot_general_p(x, y, dimension_numbers=((_shift(cx), cy), (_shift(bx), by)))
        return permute(result, (n, *range(n), *range(n + 1, ndim))), True
    free_x = len(shape_of(x)) - len(cx) - n
    if len(shape_of(y)) - 1 == len(cy) + n:  # nothing of y is free: as the first operand its batch axis is in front
        result = dot_general_p(y, x, dimension_numbers=((_shift(cy), cx), (_shift(by), bx)))
        return permute(result, (n, *range(n), *range(n + 1, ndim))), True
    result = dot_general_p(x, y, dimension_numbers=((cx, _shift(cy)), (bx, _shift(by))))
    at = n + free_x
    return permute(result, (at, *range(at), *range(at + 1, ndim))), True


def _outer(x: Any, y: Any, *, dimension_numbers: Any) -> Any:
    """A product in which nothing is summed, as an element operation."""
    (summed, _), (bx, by) = dimension_numbers
    sx, sy = shape_of(x), shape_of(y)
    if summed or not sx or not sy:
        return None
    fx, fy = free_axes(len(sx), bx), free_axes(len(sy), by)
    n, m = len(bx), len(fx)
    shape = (*[sx[i] for i in (*bx, *fx)], *[sy[i] for i in fy])
    x, y = permute(x, (*bx, *fx)), permute(y, (*by, *fy))
    if fy:
        x = broadcast_in_dim(x, shape=shape, axes=tuple(range(n + m)))
    if fx:
        y = broadcast_in_dim(y, shape=shape, axes=(*range(n), *range(n + m, len(shape))))
    return mul(x, y)


def _dot_paths(position: int, factor: np.ndarray, shape: tuple, *, dimension_numbers: Any) -> tuple[np.ndarray, np.ndarray]:
    summed, batch = [pair[::-1] if position else pair for pair in dimension_numbers]
    own_free, free = free_axes(len(shape), summed[0], batch[0]), free_axes(factor.ndim, summed[1], batch[1])
    b, f, c = [prod([shape[i] for i in axes]) for axes in (batch[0], own_free, summed[0])]
    g = prod([factor.shape[i] for i in free])
    own = np.arange(prod(shape)).reshape(shape).transpose((*batch[0], *own_free, *summed[0])).reshape(b, f, c)
    out = np.arange(b * f * g)
    out = out.reshape(b, g, f).swapaxes(1, 2) if position else out.reshape(b, f, g)
    there = factor.transpose((*batch[1], *summed[1], *free)).reshape(b, c, g)
    at, inner, outer = there.nonzero()
    return out[at, :, outer].reshape(-1), own[at, :, inner].reshape(-1)


dot_general_p: Primitive = Primitive(
    "dot_general", dot_impl, _dot_abstract, jvp=multilinear(lambda: dot_general_p), transpose=_dot_transpose, batch=_dot_batch,
    ready=dot_ready, label="matmul", calm=True, lowering=_outer, paths=_dot_paths,
)


def dot_general(x: Any, y: Any, *, dimension_numbers: Any, preferred_dtype: Any = None) -> Any:
    """Sum of products over paired axes; in `preferred_dtype` if given (accumulated in the wider of the two)."""
    if preferred_dtype is not None and preferred_dtype != dtype_of(x):
        if np.promote_types(preferred_dtype, dtype_of(x)) == preferred_dtype:
            x, y = convert(x, preferred_dtype), convert(y, preferred_dtype)
        else:
            return convert(dot_general_p(x, y, dimension_numbers=dimension_numbers), preferred_dtype)
    return dot_general_p(x, y, dimension_numbers=dimension_numbers)


MATRICES = (((1,), (0,)), ((), ()))
_VECTORS = (((0,), (0,)), ((), ()))


def matmul(x: Any, y: Any) -> Any:
    """NumPy's `matmul` of operands of equal dtype: x's last axis against y's last but one, the others broadcast."""
    sx, sy = shape_of(x), shape_of(y)
    nx, ny = len(sx), len(sy)
    if not nx or not ny:
        raise ValueError(f"matmul: operands must have at least one axis, got shapes {sx} and {sy}")
    if sx[-1] != sy[-2 if ny > 1 else -1]:
        raise ValueError(f"matmul: shapes {sx} and {sy} do not fit: {sx[-1]} columns against {sy[-2 if ny > 1 else -1]} rows")
    if ny <= 2 or nx == 1:  # one side has no stack axes: they are free axes of the other
        numbers = (((nx - 1,), (max(ny - 2, 0),)), ((), ()))
        if nx <= 2 and ny <= 2:
            numbers = MATRICES if nx == 2 else _VECTORS
        return dot_general_p(x, y, dimension_numbers=numbers)
    return _stacked_matmul(x, y, sx, sy)


def _stacked_matmul(x: Any, y: Any, sx: tuple, sy: tuple) -> Any:
    stack = np.broadcast_shapes(sx[:-2], sy[:-2])
    n = len(stack)
    ax, ay = (1,) * (n - len(sx) + 2) + sx[:-2], (1,) * (n - len(sy) + 2) + sy[:-2]
    both = [i for i in range(n) if ax[i] == ay[i]]
    only_x = [i for i in range(n) if ax[i] != ay[i] and ay[i] == 1]
    only_y = [i for i in range(n) if ax[i] != ay[i] and ax[i] == 1]
    x = _reshaped(x, sx, tuple([ax[i] for i in range(n) if i not in only_y]) + sx[-2:])
    y = _reshaped(y, sy, tuple([ay[i] for i in range(n) if i not in only_x]) + sy[-2:])
    bx = tuple([sorted(both + only_x).index(i) for i in both])
    by = tuple([sorted(both + only_y).index(i) for i in both])
    cx, cy = len(both) + len(only_x) + 1, len(both) + len(only_y)
    out = dot_general_p(x, y, dimension_numbers=(((cx,), (cy,)), (bx, by)))
    order = [*both, *only_x, n, *only_y, n + 1]  # the place of every axis in the result
    return permute(out, _inverse(order))


def _reshaped(x: Any, shape: tuple, new: tuple) -> Any:
    return x if shape == new else reshape(x, shape=new)


# ---- einsum: `subscripts` is canonical, "ab,bc->ac": letters only, explicit output


@remembers(1024)
def _einsum_terms(subscripts: str) -> tuple[tuple[str, ...], str]:
    inputs, _, output = subscripts.partition("->")
    return tuple(inputs.split(",")), output


def _letter_sizes(terms: Sequence[str], shapes: Sequence[tuple]) -> dict[str, int]:
    return {c: n for term, shape in zip(terms, shapes) for c, n in zip(term, shape)}


@remembers(512)
def einsum_steps(subscripts: str, shapes: tuple) -> tuple:
    """Pairwise steps (i, j, presum x, presum y, dimension_numbers) and the last permutation."""
    terms, output = _einsum_terms(subscripts)
    dummies = [np.broadcast_to(np.float64(0), s) for s in shapes]
    path = np.einsum_path(subscripts, *dummies, optimize="greedy")[0][1:]
    left = list(terms)
    steps = []
    for i, j in _pairwise(path, len(left)):
        b, a = left.pop(j), left.pop(i)
        step, result = _pair_step(a, b, set(output).union(*left))
        steps.append((i, j, *step))
        left.append(result)
    (result,) = left
    drop = tuple([k for k, c in enumerate(result) if c not in output])
    kept = [c for c in result if c in output]
    return tuple(steps), drop, moved_or_none(tuple([kept.index(c) for c in output]))


def _pairwise(path: Sequence[tuple], count: int) -> list[tuple[int, int]]:
    """The path with groups of three and more replaced by pairs; every result is appended at the end."""
    steps = []
    for group in path:
        i, j, *more = sorted(group)
        for done, k in enumerate([j, *more]):
            steps.append((i, k) if not done else (k - 1 - done, count - 1))
            count -= 1
    return steps


def _pair_step(a: str, b: str, needed: set) -> tuple[tuple, str]:
    """Presums and dimension numbers that contract the terms a and b, and the letters of the result."""
    sum_a = tuple([k for k, c in enumerate(a) if c not in b and c not in needed])
    sum_b = tuple([k for k, c in enumerate(b) if c not in a and c not in needed])
    a = "".join([c for k, c in enumerate(a) if k not in sum_a])
    b = "".join([c for k, c in enumerate(b) if k not in sum_b])
    batch = [c for c in a if c in b and c in needed]
    summed = [c for c in a if c in b and c not in needed]
    numbers = (
        (tuple([a.index(c) for c in summed]), tuple([b.index(c) for c in summed])),
        (tuple([a.index(c) for c in batch]), tuple([b.index(c) for c in batch])),
    )
    result = batch + [c for c in a if c not in b] + [c for c in b if c not in a]
    return (sum_a, sum_b, numbers), "".join(result)


def _stepwise(xs: Sequence[Any], subscripts: str, total: Any, dot: Any) -> tuple[Any, Axes | None]:
    """The result, but for its last permutation; `total` and `dot` are as reduce_sum and dot_general."""
    steps, drop, perm = einsum_steps(subscripts, tuple([x.shape for x in xs]))
    left = list(xs)
    for i, j, sum_a, sum_b, numbers in steps:
        b, a = left.pop(j), left.pop(i)
        left.append(dot(total(a, axes=sum_a), total(b, axes=sum_b), dimension_numbers=numbers))
    return total(left[0], axes=drop), perm


def _einsum_impl(xp: Any, *xs: Any, subscripts: str) -> Any:
    total = lambda x, axes: x.sum(axis=axes, dtype=x.dtype.type) if axes else x
    out, perm = _stepwise(xs, subscripts, total, partial(dot_impl, xp))
    return out if perm is None else out.transpose(perm)


def _einsum_lowering(*xs: Any, subscripts: str) -> Any:
    out, perm = _stepwise(xs, subscripts, reduce_sum, dot_general)
    return out if perm is None else permute(out, perm)


def _einsum_abstract(*avals: Aval, subscripts: str) -> Aval:
    terms, output = _einsum_terms(subscripts)
    if any(a.dtype != avals[0].dtype for a in avals):
        raise TypeError(f"einsum: operands must have equal dtypes, got {avals_text(avals)}; convert them explicitly")
    sizes = _letter_sizes(terms, [a.shape for a in avals])
    for term, a in zip(terms, avals):
        if len(term) != a.ndim or len(set(term)) != len(term) or any(sizes[c] != n for c, n in zip(term, a.shape)):
            raise ValueError(f"einsum: {subscripts} does not fit {avals_text(avals)}")
    return Aval(tuple([sizes[c] for c in output]), avals[0].dtype)


def _einsum_transpose(ct: Any, *xs: Any, subscripts: str) -> list:
    """The cotangent takes the place of the operand, and the operand's letters that of the output."""
    terms, output = _einsum_terms(subscripts)
    (i,) = [k for k, x in enumerate(xs) if is_linear(x)]
    others = [t for k, t in enumerate(terms) if k != i]
    known = set(output).union(*others)
    target = "".join([c for c in terms[i] if c in known])
    operands = [x for k, x in enumerate(xs) if k != i]
    result = contract(f"{','.join([output, *others])}->{target}", ct, *operands)
    if target != terms[i]:  # the operand was summed over letters of its own
        axes = tuple([k for k, c in enumerate(terms[i]) if c in known])
        result = broadcast_in_dim(result, shape=xs[i].aval.shape, axes=axes)
    return [result if k == i else None for k in range(len(xs))]


def _einsum_batch(size: int, args: Any, batched: Any, *, subscripts: str) -> tuple[Any, bool]:
    terms, output = _einsum_terms(subscripts)
    letter = fresh_letters(subscripts, 1)
    new = ",".join([letter + t if b else t for t, b in zip(terms, batched)])
    return einsum_p(*args, subscripts=f"{new}->{letter}{output}"), True


einsum_p: Primitive = Primitive(
    "einsum", _einsum_impl, _einsum_abstract, jvp=multilinear(lambda: einsum_p), transpose=_einsum_transpose,
    batch=_einsum_batch, lowering=_einsum_lowering,
)


def contract(subscripts: str, *xs: Any) -> Any:
    """einsum of operands whose letters have one size and occur once per operand."""
    terms, output = _einsum_terms(subscripts)
    if len(xs) > 2:
        return einsum_p(*xs, subscripts=subscripts)
    if len(xs) == 2:
        sum_a, sum_b, numbers, order = _pair_plan(subscripts)
        x, y = [reduce_sum(x, axes=axes) if axes else x for x, axes in zip(xs, (sum_a, sum_b))]
        return permute(dot_general_p(x, y, dimension_numbers=numbers), order)
    (x,), (term,) = xs, terms
    x = reduce_sum(x, axes=tuple([k for k, c in enumerate(term) if c not in output]))
    term = "".join([c for c in term if c in output])
    return permute(x, [term.index(c) for c in output])


@remembers(1024)
def _pair_plan(subscripts: str) -> tuple:
    """Presums and dimension numbers that contract two operands, and the order of the result's axes."""
    terms, output = _einsum_terms(subscripts)
    step, term = _pair_step(*terms, set(output))
    return *step, tuple([term.index(c) for c in output])


def _diagonal(x: Any, i: int, j: int) -> Any:
    """The diagonal over the axes i < j of equal size, placed at axis i; by views and structural equations."""
    shape = shape_of(x)
    n = shape[i]
    rest = [k for k in range(len(shape)) if k not in (i, j)]
    flat = reshape(permute(x, [*rest, i, j]), shape=(*[shape[k] for k in rest], n * n))
    start, limit = (0,) * len(rest) + (0,), (*[shape[k] for k in rest], n * n)
    line = slice_p(flat, start=start, limit=limit, strides=(1,) * len(rest) + (n + 1,)) if n else flat
    at = len(rest)
    return permute(line, [*range(i), at, *range(i, at)])


def einsum(subscripts: str, *xs: Any) -> Any:
    """Einstein summation over operands of equal dtype, by canonical subscripts (see canonical_einsum)."""
    terms, output = _einsum_terms(subscripts)
    sizes: dict[str, int] = {}
    for term, x in zip(terms, xs):
        for c, n in zip(term, shape_of(x)):
            if sizes.setdefault(c, n) in (1, n):
                sizes[c] = n
            elif n != 1:
                raise ValueError(f"einsum: subscript {c!r} of {subscripts!r} has the sizes {sizes[c]} and {n}")
    plain_terms, plain = [], []
    for term, x in zip(terms, xs):
        shape = shape_of(x)
        if shape != tuple(map(sizes.__getitem__, term)):  # some broadcast: drop them
            small = [k for k, (c, n) in enumerate(zip(term, shape)) if n != sizes[c]]
            x = reshape(x, shape=tuple([n for k, n in enumerate(shape) if k not in small]))
            term = "".join([c for k, c in enumerate(term) if k not in small])
        while len(set(term)) != len(term):
            j = next(k for k, c in enumerate(term) if c in term[:k])
            x = _diagonal(x, term.index(term[j]), j)
            term = term[:j] + term[j + 1 :]
        plain_terms.append(term)
        plain.append(x)
    return contract(f"{','.join(plain_terms)}->{output}", *plain)


def _cross_abstract(x: Aval, y: Aval) -> Aval:
    if x.shape != y.shape or x.dtype != y.dtype or x.shape[-1:] != (3,):
        raise ValueError(f"cross: operands must be vectors of 3 elements of one dtype and shape, got {avals_text([x, y])}")
    return Aval(x.shape, x.dtype)


_NEXT, _LAST = np.array([1, 2, 0]), np.array([2, 0, 1])


def _cross_impl(xp: Any, x: Any, y: Any) -> Any:
    """NumPy's numbers, at a third of what `numpy.cross` costs for one vector."""
    if xp is not np:
        return xp.cross(x, y)
    return x.take(_NEXT, -1) * y.take(_LAST, -1) - x.take(_LAST, -1) * y.take(_NEXT, -1)


def _cross_lowering(x: Any, y: Any) -> Any:
    *lead, _ = shape_of(x)
    at = tuple([0] * len(lead))
    x0, x1, x2, y0, y1, y2 = [
        slice_p(v, start=(*at, i), limit=(*lead, i + 1), strides=(1,) * (len(lead) + 1)) for v in (x, y) for i in range(3)
    ]
    parts = [sub(mul(a, b), mul(c, d)) for a, b, c, d in ((x1, y2, x2, y1), (x2, y0, x0, y2), (x0, y1, x1, y0))]
    return concatenate(parts, axis=len(lead))


cross_p: Primitive = Primitive(
    "cross", _cross_impl, _cross_abstract, jvp=multilinear(lambda: cross_p),
    transpose=lambda ct, x, y: [cross_p(y, ct), None] if is_linear(x) else [None, cross_p(ct, x)],
    batch=batched_with(lambda: cross_p), lowering=_cross_lowering, label="multiply", calm=True,
)
