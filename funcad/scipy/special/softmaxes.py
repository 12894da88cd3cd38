"""`scipy.special`'s logsumexp, softmax, log_softmax: SciPy's arguments over one axis, several or all; shifted by the maximum.

Apart from the other functions that are no ufuncs, which few programs use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import dtype_of, shape_of
from funcad.numpy.promote import array_of, axes_of, merge_axes, promote, promote_dtype
from funcad.primitives import activation
from funcad.primitives.arithmetic import abs_, add, div, mul, sign, sub
from funcad.primitives.comparison import and_, eq, gt, isfinite, lt, select
from funcad.primitives.conversion import convert, real, stop_gradient
from funcad.primitives.reduction import reduce_max, reduce_sum
from funcad.primitives.shape import broadcast_in_dim, broadcast_to, reshape
from funcad.primitives.transcendental import exp, log
from funcad.scipy.door import implements


def _float(x: Any) -> Any:
    x = array_of(x)
    dtype = dtype_of(x)
    return x if dtype.kind in "fc" else promote_dtype([x], np.dtype(np.float64))[0]


def _real(x: Any, what: str) -> Any:
    x = _float(x)
    if dtype_of(x).kind == "c":
        raise TypeError(
            f"scipy.special.{what} of traced complex numbers is not supported.\nRemedy: take np.real or np.abs first."
        )
    return x


def _merged(x: Any, axis: Any) -> Any:
    return merge_axes(x, axes_of(axis, len(shape_of(x))) if shape_of(x) else ())


@implements("special.softmax", lift=True, by_kind=True)
def softmax(x: Any, axis: Any = None) -> Any:
    """`scipy.special.softmax` over an axis, several, or all (None), on traced values too; shifted by the maximum.

    >>> import numpy as np; from funcad.scipy.special import softmax
    >>> softmax(np.array([0.0, np.log(3.0)])).round(3)
    array([0.25, 0.75])
    """
    one, merged, back = _merged(_real(x, "softmax"), axis)
    return back(activation.softmax(one, axis=merged))


@implements("special.log_softmax", lift=True, by_kind=True)
def log_softmax(x: Any, axis: Any = None) -> Any:
    """`scipy.special.log_softmax` over an axis, several, or all (None), on traced values too; shifted by the maximum.

    >>> import numpy as np; from funcad.scipy.special import log_softmax
    >>> log_softmax(np.array([0.0, 0.0])).round(3)
    array([-0.693, -0.693])
    """
    one, merged, back = _merged(_real(x, "log_softmax"), axis)
    return back(activation.log_softmax(one, axis=merged))


def _signed(x: Any, b: Any, axis: int) -> tuple[Any, Any]:
    """log |sum(b exp(x))| and the sum's sign (complex x: its phase); b may be None."""
    level = real(x) if dtype_of(x).kind == "c" else x
    if b is not None:
        level = select(eq(b, 0.0), -np.inf, level)
    top = reduce_max(stop_gradient(level), axes=(axis,))
    top = select(isfinite(top), top, 0.0)
    shape = shape_of(x)
    axes = tuple([i for i in range(len(shape)) if i != axis])
    shift = sub(x, convert(broadcast_in_dim(top, shape=shape, axes=axes), dtype_of(x)))
    if b is None:
        total = reduce_sum(exp(shift), axes=(axis,))
    else:  # what does not count may lie far above the top
        if dtype_of(x).kind != "c":
            shift = select(and_(eq(b, 0.0), gt(shift, 88.0)), 88.0, shift)
        total = reduce_sum(mul(b, exp(shift)), axes=(axis,))
    size = abs_(total)
    return add(log(size), top), div(total, convert(size, dtype_of(total))) if dtype_of(x).kind == "c" else sign(total)


@implements("special.logsumexp", lift=True, by_kind=True)
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    """`scipy.special.logsumexp`: log(sum(b * exp(a))) over an axis, several, or all (None), on traced values too.

    With `return_sign` the pair (logarithm of the absolute value, sign); without it the logarithm of a negative sum is NaN. An
    element of weight 0 does not count, whatever `a` is there. Differentiable in `a` and `b`.

    >>> import numpy as np; from funcad.scipy.special import logsumexp
    >>> float(logsumexp(np.array([1000.0, 1000.0])).round(3))
    1000.693
    """
    x, weights = _float(a), None
    if b is not None:  # a weight may be a number
        b = b if type(b) in (bool, int, float) else _float(b)
        shape = np.broadcast_shapes(shape_of(x), shape_of(b))
        x, weights = promote(x, b)
        x, weights = [broadcast_to(convert(array_of(v), dtype_of(x)), shape) for v in (x, weights)]
    shape = shape_of(x)
    axes = axes_of(axis, len(shape)) if shape else ()
    one, merged, _ = _merged(x, axis)
    complex_ = dtype_of(x).kind == "c"
    if weights is None and not complex_:
        out = activation.logsumexp(one, axis=merged)
        phase = None
    else:
        out, phase = _signed(one, None if weights is None else _merged(weights, axis)[0], merged)
        if not return_sign:
            out = add(convert(out, dtype_of(x)), log(phase)) if complex_ else select(lt(phase, 0.0), np.nan, out)
    if keepdims:
        kept = tuple([1 if i in axes else n for i, n in enumerate(shape)])
        out, phase = reshape(out, shape=kept), None if phase is None else reshape(phase, shape=kept)
    if not return_sign:
        return out
    return out, (sign(exp(stop_gradient(out))) if phase is None else phase)
