"""Statistics of data: ranks, modes, standard errors."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad.api.tools import stop_gradient
from funcad.ir.aval import shape_of
from funcad.numpy.dispatch import refuse
from funcad.numpy.promote import axis_of
from funcad.scipy.door import implements, keeps_single_precision

ModeResult = namedtuple("ModeResult", ("mode", "count"))


def _policy(name: str, nan_policy: str) -> None:
    if nan_policy != "propagate":
        refuse(f"stats.{name}", nan_policy=nan_policy)


def _runs(x: Any) -> tuple[Any, Any, Any, Any]:
    """Along the last axis: the sorted values, their order, and where the run of equal values begins and ends."""
    order = fnp.argsort(x, axis=-1, stable=True)
    values = fnp.take_along_axis(x, order, axis=-1)
    n = shape_of(x)[-1]
    changes = values[..., 1:] != values[..., :-1]
    edge = fnp.ones_like(values[..., :1], dtype=bool)
    places = _places(order)
    first = _running_max(fnp.where(fnp.concatenate([edge, changes], axis=-1), places, 0))
    reverse = fnp.flip(fnp.concatenate([changes, edge], axis=-1), axis=-1)
    last = fnp.flip(n - 1 - _running_max(fnp.where(reverse, places, 0)), axis=-1)
    return values, order, first, last


def _places(order: Any) -> Any:
    """0, 1, 2 ... along the last axis, where the argument is (on a device)."""
    return fnp.cumsum(fnp.ones_like(order), axis=-1) - 1


def _running_max(x: Any) -> Any:
    return np.maximum.accumulate(x, axis=-1)


@implements("stats.rankdata", lift=True)
def rankdata(a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate") -> Any:
    """`scipy.stats.rankdata`: the ranks of the data, from 1; ties by `method`. Ranks have derivative 0.

    Inside of jit and vmap, integer ranks (of SciPy before 1.18) count NaN as the largest values; otherwise ranks of data with
    NaN are NaN.

    >>> import numpy as np
    >>> from funcad.scipy import stats
    >>> stats.rankdata(np.array([3.0, 1.0, 3.0]))
    array([2.5, 1. , 2.5])
    """
    _policy("rankdata", nan_policy)
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(f'unknown method "{method}"')
    x = stop_gradient(fnp.ravel(a) if axis is None else fnp.asarray(a))
    if type(x) is np.ndarray:  # known values: nothing but SciPy's own
        return rankdata(x, method, axis=-1 if axis is None else axis)
    where = axis_of(-1 if axis is None else axis, len(shape_of(x)))
    x = fnp.moveaxis(x, where, -1)
    own = np.dtype(x.dtype) if np.dtype(x.dtype).kind == "f" else np.dtype(np.float64)
    target = own if keeps_single_precision() else np.dtype(np.float64 if method == "average" else np.int64)
    if not shape_of(x)[-1]:
        return fnp.moveaxis(fnp.zeros(shape_of(x), target), -1, where)
    _, order, first, last = _runs(x)
    if method == "dense":
        ranks = fnp.cumsum(first == _places(order), axis=-1)
    elif method == "average":
        ranks = 0.5 * (first + last) + 1.0
    else:
        ranks = (first if method == "min" else last if method == "max" else _places(order)) + 1
    ranks = fnp.astype(fnp.take_along_axis(ranks, fnp.argsort(order, axis=-1), axis=-1), target)
    if target.kind == "f" and np.dtype(x.dtype).kind == "f":  # NaN in the data: no ranks
        ranks = fnp.where(fnp.any(fnp.isnan(x), axis=-1, keepdims=True), np.nan, ranks)
    return fnp.moveaxis(ranks, -1, where)


@implements("stats.mode", lift=True)
def mode(a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> Any:
    """`scipy.stats.mode`: the most frequent value, the least of several, and how often it occurs. It has derivative 0.

    >>> import numpy as np
    >>> from funcad.scipy import stats
    >>> stats.mode(np.array([3.0, 1.0, 3.0]))
    ModeResult(mode=np.float64(3.0), count=np.int64(2))
    """
    _policy("mode", nan_policy)
    x = stop_gradient(fnp.ravel(a) if axis is None else fnp.asarray(a))
    where = axis_of(-1 if axis is None else axis, len(shape_of(x)))
    x = fnp.moveaxis(x, where, -1)
    values, _, first, last = _runs(x)
    counts = last - first + 1
    best = fnp.argmax(counts, axis=-1, keepdims=True)
    found, count = fnp.take_along_axis(values, best, axis=-1), fnp.take_along_axis(counts, best, axis=-1)
    if not keepdims:
        return ModeResult(found[..., 0], count[..., 0])
    if axis is None:
        shape = (1,) * len(shape_of(a))
        return ModeResult(fnp.reshape(found, shape), fnp.reshape(count, shape))
    return ModeResult(fnp.moveaxis(found, -1, where), fnp.moveaxis(count, -1, where))


@implements("stats.sem", lift=True)
def sem(a: Any, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> Any:
    """`scipy.stats.sem`: the standard error of the mean, std(a, ddof) / sqrt(n).

    >>> import numpy as np
    >>> from funcad.scipy import stats
    >>> stats.sem(np.array([1.0, 2.0, 3.0])).round(4)
    np.float64(0.5774)
    """
    _policy("sem", nan_policy)
    shape = shape_of(a)
    n = int(np.prod(shape)) if axis is None else shape[axis_of(axis, len(shape))]
    return fnp.std(a, axis=axis, ddof=ddof, keepdims=keepdims) / float(n) ** 0.5
