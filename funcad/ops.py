"""`jax.ops`: sums, products and extrema of segments, the rows of an array that share a number.

Segments are rows of a result that starts at the operation's identity (0, 1, -inf, inf, the extremes of an integer dtype), which
is what an empty segment has. Derivatives are those of the scattering primitive: `segment_max` and `segment_min` share theirs
equally among tied rows, as `funcad.numpy.max` does, and `segment_prod` is exact at zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from funcad import numpy as fnp
from funcad.configuration import public_names
from funcad.errors import TracerIntegerConversionError
from funcad.host.real_types import dtype_kind
from funcad.ir.aval import Aval, aval_of, dtype_of, said, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.lax.lax_indexing import GatherScatterMode
from funcad.numpy.promote import as_array
from funcad.primitives.basic_indexing import scatter
from funcad.primitives.placement import capture_as_inputs
from funcad.primitives.shape import full

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]
__dir__ = public_names(globals())


def _lowest(dtype: np.dtype) -> Any:
    if dtype.kind == "b":
        return False
    return -np.inf if dtype_kind(dtype) in "fc" else np.iinfo(dtype).min


def _highest(dtype: np.dtype) -> Any:
    if dtype.kind == "b":
        return True
    return np.inf if dtype_kind(dtype) in "fc" else np.iinfo(dtype).max


def _number(name: str, num_segments: Any, ids: Any) -> int:
    if num_segments is None:
        known = concrete_value(ids)
        if type(known) is Tracer:
            raise TracerIntegerConversionError(
                f"{name}: the number of segments is that of the largest segment id, which is traced.\n"
                f"Remedy: {name}(data, segment_ids, num_segments=n), with a Python integer n."
            )
        return max(int(known.max()) + 1, 0)
    if type(concrete_value(num_segments)) is Tracer:
        raise TracerIntegerConversionError(
            f"{name}: num_segments is the length of the result, so it must be a Python integer, but it is traced.\n"
            "Remedy: static_argnums or static_argnames of jit, or close over it."
        )
    number = concrete_value(num_segments).__index__()
    if number < 0:
        raise ValueError(f"{name}: num_segments must be non-negative, got {number}")
    return number


class _OfSegments(NamedTuple):
    """How the rows of a segment are combined, what a segment without rows gives, and for which kinds of dtypes."""

    name: str
    how: str
    identity: Callable[[np.dtype], Any]
    kinds: str


_SUM = _OfSegments("segment_sum", "add", lambda dtype: 0, "iufc")
_PROD = _OfSegments("segment_prod", "mul", lambda dtype: 1, "iufc")
_MAX = _OfSegments("segment_max", "max", _lowest, "biuf")
_MIN = _OfSegments("segment_min", "min", _highest, "biuf")


def _segments(
    fold: _OfSegments, data: Any, ids: Any, num_segments: Any, unique: bool, bucket_size: Any, mode: Any
) -> Any:
    name, how, identity, kinds = fold
    data, ids = known = as_array(data), as_array(ids)
    shape, dtype = shape_of(ids), dtype_of(data)
    if dtype_of(ids).kind not in "iu":
        raise TypeError(f"{name}: segment_ids must be integers, got {said(ids)}")
    if dtype_kind(dtype) not in kinds:
        raise TypeError(f"{name} is not defined for {said(data)}")
    if not shape or shape_of(data)[: len(shape)] != shape:
        raise ValueError(f"{name}: data ({said(data)}) must have one row for each of the segment_ids ({said(ids)})")
    if bucket_size is not None and bucket_size < 1:
        raise ValueError(f"{name}: bucket_size must be positive, got {bucket_size}")
    number = _number(name, num_segments, ids)
    data, ids = capture_as_inputs(known, known)
    mode = GatherScatterMode.FILL_OR_DROP if mode is None else GatherScatterMode.from_any(mode)
    spare = 0
    if mode is GatherScatterMode.CLIP and number:
        ids = fnp.clip(ids, 0, number - 1)
    else:
        known = concrete_value(ids)
        inside = type(known) is not Tracer and (not known.size or known.min() >= 0 and known.max() < number)
        if not inside and how == "add" and number > aval_of(ids).size:  # zeros in their place are cheaper than a longer result
            valid = fnp.expand_dims((ids >= 0) & (ids < number), tuple(range(len(shape), len(shape_of(data)))))
            data, ids, unique = fnp.where(valid, data, dtype.type(0)), fnp.clip(ids, 0, number - 1), False
        elif not inside:  # rows of no segment go to a row behind the last one, which is cut off again
            unsigned = dtype_of(ids).kind == "u"
            ids, spare = fnp.minimum(ids, number) if unsigned else fnp.clip(ids, -1, number), 1  # -1 is that row, too
    start = full(Aval((number + spare, *shape_of(data)[len(shape) :]), dtype), identity(dtype))
    out = scatter(start, data, ids, mode=how, unique=unique and not spare)
    return out[:number] if spare else out


def segment_sum(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
) -> Any:
    """Sums of the rows of data that have the same number: `out[i] = sum(data[segment_ids == i])`.

    Parameters
    ----------
    data : array
        The rows: it has the axes of segment_ids first.
    segment_ids : array of ints
        The number of each row, in any order.
    num_segments : int, optional
        How many sums: `max(segment_ids) + 1` by default, which must be known.
    indices_are_sorted, bucket_size : optional
        For JAX's sake: they change nothing, sums are accumulated in the order of the rows.
    unique_indices : bool
        A promise that no number occurs twice.
    mode : optional
        What happens to numbers outside of [0, num_segments): their rows are dropped; "clip" moves them to the nearest
        segment.

    Returns
    -------
    array of shape (num_segments, ...)
        Of the dtype of data.

    Raises
    ------
    TypeError
        segment_ids are no integers.
    ValueError
        Their shape is not the beginning of that of data, or num_segments is needed.

    Notes
    -----
    As `jax.ops.segment_sum`; `np.add.at` does the same into an array of zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from funcad import ops
    >>> ops.segment_sum(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 2, 0, 7]), num_segments=3)
    array([4., 0., 2.])
    >>> ops.segment_sum(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 2, 0, 7]), num_segments=3, mode="clip")
    array([4., 0., 6.])

    See also
    --------
    segment_max, segment_min, segment_prod
    """
    return _segments(_SUM, data, segment_ids, num_segments, unique_indices, bucket_size, mode)


def segment_prod(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
) -> Any:
    """Products of the rows of each segment, 1 for empty ones; arguments as of `segment_sum`.

    `data`, `segment_ids`, `num_segments`, `indices_are_sorted`, `unique_indices`, `bucket_size` and `mode` are those of
    `segment_sum`.

    >>> import numpy as np
    >>> from funcad import ops
    >>> ops.segment_prod(np.array([2.0, 3.0, 4.0]), np.array([0, 2, 0]))
    array([8., 1., 3.])
    """
    return _segments(_PROD, data, segment_ids, num_segments, unique_indices, bucket_size, mode)


def segment_max(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
) -> Any:
    """Maxima of the rows of each segment; -inf, or the least integer, for empty ones. Arguments as of `segment_sum`.

    Rows that share the maximum get equal parts of the derivative.
    `data`, `segment_ids`, `num_segments`, `indices_are_sorted`, `unique_indices`, `bucket_size` and `mode` are those of
    `segment_sum`. Ties share the derivative.

    >>> import numpy as np
    >>> from funcad import ops
    >>> ops.segment_max(np.array([2.0, 3.0, 4.0]), np.array([0, 2, 0]))
    array([  4., -inf,   3.])
    """
    return _segments(_MAX, data, segment_ids, num_segments, unique_indices, bucket_size, mode)


def segment_min(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
) -> Any:
    """Minima of the rows of each segment; inf, or the largest integer, for empty ones. Arguments as of `segment_sum`.

    Rows that share the minimum get equal parts of the derivative.
    `data`, `segment_ids`, `num_segments`, `indices_are_sorted`, `unique_indices`, `bucket_size` and `mode` are those of
    `segment_sum`. Ties share the derivative.

    >>> import numpy as np
    >>> from funcad import ops
    >>> ops.segment_min(np.array([2.0, 3.0, 4.0]), np.array([0, 2, 0]))
    array([ 2., inf,  3.])
    """
    return _segments(_MIN, data, segment_ids, num_segments, unique_indices, bucket_size, mode)
