"""How a sum of products over paired axes is computed: by `matmul` of matrices, to which axes are moved and joined.

Idea: what is to be moved and which axes are joined depends on the axes alone, `dot_plan`; with the shapes, which a program
knows beforehand, everything but the product itself is worked out once (`dot_ready`).
"""

from __future__ import annotations

from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from funcad.ir.aval import Aval

__all__ = ["Axes", "dot_impl", "dot_plan", "dot_ready", "free_axes", "in_order", "moved_or_none"]

Axes = tuple[int, ...]


def free_axes(ndim: int, *used: Axes) -> Axes:
    taken = {a for axes in used for a in axes}
    return tuple([i for i in range(ndim) if i not in taken])


@lru_cache(maxsize=1024)
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
