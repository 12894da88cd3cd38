"""Where elements lie, as numbers: axes that one loop goes over, lines, and boxes of lines.

Idea: a movement is known by the number of the place that each element of its result comes from. If these numbers are in a line
along each axis, the result is another view of the operand; if they fall into few boxes of that kind, it is a few loops; else
it is a table. Invariant: numbers of several operands are far apart, so that no line goes from one into the next; 0 is a zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from funcad.backends.plans.element_plan import contiguous_strides, merged_axes


def collapsed(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """The extents of the fewest loops over these arrays, and the strides of each."""
    axes = merged_axes(shape, strides) or [(1, (0,) * len(strides))]
    extents, steps = zip(*axes)
    return list(extents), list(map(list, zip(*steps)))


# -- lines
#
# The numbers of a result are compared with those of a line from its first element, whose strides are read off its neighbours.
# An empty array is a line of any kind; one element has strides of 0.


def line_of(where: np.ndarray) -> tuple[int, tuple[int, ...]] | None:
    """(start, strides), if the numbers are in a line along each axis."""
    if not where.size:
        return 0, contiguous_strides(where.shape)
    start = int(where[(0,) * where.ndim])
    strides = []
    for axis, n in enumerate(where.shape):
        strides.append(int(where[tuple([int(i == axis) for i in range(where.ndim)])]) - start if n > 1 else 0)
    expected = np.full(where.shape, start)
    for axis, (n, s) in enumerate(zip(where.shape, strides)):
        expected += (np.arange(n) * s).reshape([-1 if i == axis else 1 for i in range(where.ndim)])
    return (start, tuple(strides)) if np.array_equal(expected, where) else None


def operand_of(where: np.ndarray, limits: np.ndarray) -> int | None:
    """Which operand all these elements are of; None if several, or zeros among them."""
    if not where.size:
        return 0 if len(limits) else None
    low, high = int(where.min()), int(where.max())
    first, last = [int(np.searchsorted(limits, x - 1, "right")) for x in (low, high)]
    return first if low > 0 and first == last else None


# -- boxes
#
# An array that is no line is cut along the axis that needs the fewest cuts, and its parts again, until all are lines of one
# operand, or zeros. So a concatenation is a box for each operand, a padded array one within its frame, a roll two. Whoever asks
# stops when there are too many: then a table of numbers is shorter than loops.


def boxes_of(where: np.ndarray, limits: np.ndarray, left: list[int], origin: tuple[int, ...] = ()) -> Iterator[Any]:
    """(origin, shape, line) of boxes whose elements lie in a line along each axis of one operand, or are zeros."""
    origin = origin or (0,) * where.ndim
    line = line_of(where)
    if line is not None and (operand_of(where, limits) is not None or not where.any()):
        left[0] -= 1
        yield origin, where.shape, line
        return
    best: list[int] = []
    chosen = 0
    for axis, n in enumerate(where.shape):
        cuts = _cuts(where, axis) if n > 1 else []
        if cuts and (not best or len(cuts) < len(best)):
            best, chosen = cuts, axis
    if not best:
        chosen = int(np.argmax(where.shape))
        best = [where.shape[chosen] // 2]
    for begin, end in zip([0, *best], [*best, where.shape[chosen]]):
        if left[0] < 0:
            return
        part = tuple([slice(begin, end) if i == chosen else slice(None) for i in range(where.ndim)])
        at = tuple([o + begin * (i == chosen) for i, o in enumerate(origin)])
        yield from boxes_of(where[part], limits, left, at)


def _cuts(where: np.ndarray, axis: int) -> list[int]:
    """Where along an axis another line begins; of two elements always."""
    slices = np.moveaxis(where, axis, 0).reshape(where.shape[axis], -1)
    n = len(slices)
    steps = np.diff(slices, axis=0)
    alike = (steps[1:] == steps[:-1]).all(axis=1)  # is step i + 1 the one before it?
    cuts, i = [], 0
    while i < n - 1:
        end = i + 1
        while end < n - 1 and alike[end - 1]:
            end += 1
        i = end + 1
        if i < n:
            cuts.append(i)
    return cuts or ([1] if n == 2 else [])
