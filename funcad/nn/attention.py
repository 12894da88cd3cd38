"""Exponentials and their sums, attention, and normalisations."""

from __future__ import annotations

from math import log as _log
from math import prod
from typing import Any

import numpy as np

from funcad.host.real_types import finfo, is_a
from funcad.ir.aval import dtype_of, said, shape_of
from funcad.nn.activations import broadcasts, operand, operands, real_operand, same_dtype
from funcad.numpy.promote import array_of, axes_of, axis_of, merge_axes, promote_dtype
from funcad.primitives import activation
from funcad.primitives.arithmetic import abs_, add, div, mul, rsqrt, sign, square, sub
from funcad.primitives.comparison import and_, eq, gt, isfinite, lt, ne, select
from funcad.primitives.contraction import dot_general
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.placement import on_device_of
from funcad.primitives.reduction import kept_axes, reduce_max, reduce_sum
from funcad.primitives.shape import broadcast_in_dim, broadcast_to, reshape, transpose
from funcad.primitives.transcendental import exp, log

# -- sums of exponentials along axes: softmax, log_softmax, logsumexp, logmeanexp; all of them shifted by the maximum
#
# Idea: each is a primitive over one axis (primitives/activation.py) with closed-form derivatives; several axes are merged into
# one first. Trap: an element that `where` leaves out is -inf to the primitive, so it gets no cotangent, and the result there is
# selected, never multiplied.


_BOOL = np.dtype(bool)


def mask_of(where: Any, shape: tuple, what: str) -> Any:
    """`where` as bools of that shape."""
    mask = array_of(where)
    if dtype_of(mask) != _BOOL:
        raise TypeError(f"{what}: where must hold bools, got {dtype_of(mask)}; write where=x > 0, for example")
    own = shape_of(mask)
    if not broadcasts(own, shape):
        raise ValueError(f"{what}: where has shape {own}, which does not broadcast to {shape}")
    return broadcast_to(mask, shape)


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """As `axes_of`, and a scalar is an array of one element: it has the axes 0 and -1."""
    return (0,) if not ndim and type(axis) is int and axis in (0, -1) else axes_of(axis, ndim)


def _along(what: str, function: Any, x: Any, axis: Any, where: Any, outside: float) -> Any:
    """Apply a primitive over axes; where the mask is False x counts as -inf and the result is `outside`."""
    x = real_operand(x, what)
    mask = None if where is None else mask_of(where, shape_of(x), what)
    if mask is not None:
        x = select(mask, x, -np.inf)
    one, merged, back = merge_axes(x, _axes(axis, len(shape_of(x))))
    out = back(function(one, axis=merged))
    return out if mask is None else select(mask, out, outside)


def softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """exp(x) over its sum along an axis.

    Parameters
    ----------
    x : array
        Logits.
    axis : int, tuple of ints or None
        The axis, or several; None for all.
    where : array of bools, optional
        Where it is False the result is 0, and x is not read.

    Returns
    -------
    array
        Of the shape of x, with the sum 1 along the axis; float64 for integers.

    Raises
    ------
    numpy.exceptions.AxisError
        There is no such axis.

    Notes
    -----
    The maximum is subtracted first, so it does not overflow. A row of -inf gives equal shares (JAX: NaN). As
    `jax.nn.softmax`.

    Examples
    --------
    >>> import numpy as np; from funcad import nn
    >>> nn.softmax(np.array([1000.0, 1000.0]))
    array([0.5, 0.5])
    >>> nn.softmax(np.array([[0.0, 5.0], [0.0, 0.0]]), axis=0, where=np.array([[True, False], [True, True]]))
    array([[0.5, 0. ],
           [0.5, 1. ]])

    See also
    --------
    log_softmax, logsumexp, softmax_cross_entropy
    """
    return _along("softmax", activation.softmax, x, axis, where, 0.0)


def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """The logarithm of `softmax`: x - logsumexp(x) along an axis.

    Parameters
    ----------
    x : array
        Logits.
    axis : int, tuple of ints or None
        The axis, or several; None for all.
    where : array of bools, optional
        Where it is False the result is -inf, and x is not read.

    Returns
    -------
    array
        Of the shape of x; float64 for integers.

    Raises
    ------
    numpy.exceptions.AxisError
        There is no such axis.

    Notes
    -----
    It is finite where `np.log(softmax(x))` is -inf. As `jax.nn.log_softmax`.

    Examples
    --------
    >>> import numpy as np; from funcad import nn
    >>> nn.log_softmax(np.array([1000.0, 1000.0])).round(4)
    array([-0.6931, -0.6931])
    >>> nn.log_softmax(np.array([[0.0, 0.0], [0.0, 1000.0]]), axis=0).round(4)
    array([[-6.931e-01, -1.000e+03],
           [-6.931e-01,  0.000e+00]])

    See also
    --------
    softmax, logsumexp, softmax_cross_entropy
    """
    return _along("log_softmax", activation.log_softmax, x, axis, where, -np.inf)


def _with_axes(x: Any, shape: tuple, axes: tuple, keepdims: bool) -> Any:
    return reshape(x, shape=tuple([1 if i in axes else n for i, n in enumerate(shape)])) if keepdims else x


def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False, where: Any = None
) -> Any:
    """log(sum(b * exp(a))) over an axis.

    Parameters
    ----------
    a : array
        Real.
    axis : int, tuple of ints or None
        The axis, or several; None, the default, for all.
    b : array, optional
        Weights, which broadcast with a.
    keepdims : bool
        The axes stay, with length 1.
    return_sign : bool
        Return the pair (log of the absolute value, sign), for sums that may be negative.
    where : array of bools, optional
        Which elements count.

    Returns
    -------
    array or number
        Of the shape of a without the axes; -inf for a sum of nothing, NaN for a negative one without `return_sign`.

    Raises
    ------
    TypeError
        a is complex.

    Notes
    -----
    The maximum is subtracted first, so it does not overflow. As `jax.nn.logsumexp`; `scipy.special.logsumexp` has no
    `where`.

    Examples
    --------
    >>> import numpy as np; from funcad import nn
    >>> round(float(nn.logsumexp(np.array([1000.0, 1000.0]))), 4)
    1000.6931
    >>> value, sign = nn.logsumexp(np.array([0.0, 0.0]), b=np.array([1.0, -3.0]), return_sign=True)
    >>> round(float(value), 4), float(sign)
    (0.6931, -1.0)

    See also
    --------
    softmax, log_softmax, logmeanexp
    """
    if b is not None:
        return _weighted(a, b, axis, keepdims, return_sign, where)
    x = real_operand(a, "logsumexp")
    shape = shape_of(x)
    axes = _axes(axis, len(shape))
    if where is not None:
        x = select(mask_of(where, shape, "logsumexp"), x, -np.inf)
    if axes:
        one, merged, _ = merge_axes(x, axes)
        out = activation.logsumexp(one, axis=merged)
    else:
        out = x
    out = _with_axes(out, shape, axes, keepdims)
    if not return_sign:
        return out
    return out, convert(ne(out, -np.inf), dtype_of(out))


def _weighted(a: Any, b: Any, axis: Any, keepdims: bool, return_sign: bool, where: Any) -> Any:
    x, b = operands(real_operand(a, "logsumexp"), real_operand(b, "logsumexp"))
    shape = np.broadcast_shapes(shape_of(x), shape_of(b))
    x, b = broadcast_to(x, shape), broadcast_to(b, shape)
    if where is not None:
        mask = mask_of(where, shape, "logsumexp")
        x, b = select(mask, x, -np.inf), select(mask, b, 0.0)
    nothing = eq(b, 0.0)  # 0 * exp(x) is 0, whatever x is; the derivative towards b there is exp(x) all the same
    axes = axes_of(axis, len(shape))
    seen = select(nothing, -np.inf, x)
    top = stop_gradient(reduce_max(seen, axes=axes)) if axes else stop_gradient(seen)
    top = select(isfinite(top), top, 0.0)
    kept = tuple([i for i in range(len(shape)) if i not in axes])
    shifted = sub(x, broadcast_in_dim(top, shape=shape, axes=kept))
    # 0 * inf, where x is far above everything that has a weight
    unseen = and_(nothing, gt(shifted, _log(finfo(dtype_of(shifted)).max)))
    total = reduce_sum(select(unseen, 0.0, mul(b, exp(select(unseen, 0.0, shifted)))), axes=axes)
    amount = abs_(total) if return_sign else total
    some = gt(amount, 0.0)  # of nothing it is -inf, of a negative number NaN, and neither warns
    size = select(some, add(log(select(some, amount, 1.0)), top), np.nan)
    size = select(eq(amount, 0.0), -np.inf, size)
    size = _with_axes(size, shape, axes, keepdims)
    return (size, _with_axes(sign(total), shape, axes, keepdims)) if return_sign else size


def logmeanexp(x: Any, axis: Any = None, where: Any = None, keepdims: bool = False) -> Any:
    """log(mean(exp(x))) over an axis, several, or all of them (None): logsumexp(x) - log(count).

    `where` (bools) says which elements count; none gives NaN. As `jax.nn.logmeanexp`.
    With `keepdims` the axes stay, with length 1.

    >>> import numpy as np; from funcad import nn
    >>> nn.logmeanexp(np.array([1000.0, 1000.0]))
    np.float64(1000.0)
    """
    x = real_operand(x, "logmeanexp")
    out = logsumexp(x, axis=axis, keepdims=keepdims, where=where)
    shape = shape_of(x)
    axes = _axes(axis, len(shape))
    if where is None:
        count = prod([shape[i] for i in axes]) if shape else 1
        return sub(out, _log(count)) if count else mul(out, np.nan)
    mask = convert(mask_of(where, shape, "logmeanexp"), dtype_of(out))
    count = _with_axes(reduce_sum(mask, axes=axes if shape else ()), shape, axes, keepdims)
    some = gt(count, 0.0)
    return select(some, sub(select(some, out, 0.0), log(select(some, count, 1.0))), np.nan)


# -- attention: softmax of scaled products of queries and keys, times values


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """softmax(query @ key.T * scale + bias) @ value, for each head.

    Parameters
    ----------
    query, key, value : arrays of shape (..., length, heads, features)
        Key and value have the same length. They may have fewer heads, if their number divides the query's: each serves
        a group.
    bias : array, optional
        Added to the logits; it broadcasts to (..., heads, query length, key length).
    mask : array of bools, optional
        Where it is False a key is not seen; it broadcasts as the bias does.
    scale : float, optional
        1 / sqrt(features) by default.
    is_causal : bool
        A query sees the keys up to its own position.
    query_seq_lengths, key_value_seq_lengths : arrays of ints of shape (...,), optional
        Keys beyond the length are not seen; results of queries beyond theirs are 0.
    local_window_size : int or pair of ints, optional
        `(left, right)`: only keys so near to the query are seen.
    implementation : None or "xla"
        For JAX's sake: there is one.
    return_residual : bool
        Return `(result, residual)`, where the residual is the logsumexp of the logits, of shape (..., length, heads).

    Returns
    -------
    array of shape (..., length, heads, features)
        Of the query's length and heads, and the value's features.

    Raises
    ------
    ValueError
        Shapes do not fit.
    NotImplementedError
        Another implementation is asked for.

    Notes
    -----
    A query that sees no key sees all of them equally. As `jax.nn.dot_product_attention`, which takes the softmax in
    float32 (here: in the precision of the operands, float32 for float16) and stops the derivative of the residual (here
    it has its own).

    Examples
    --------
    >>> import numpy as np; from funcad import nn
    >>> q = np.zeros((2, 1, 4))
    >>> nn.dot_product_attention(q, q, q + 1.0).shape
    (2, 1, 4)
    >>> value = np.array([1.0, 3.0]).reshape(2, 1, 1)
    >>> nn.dot_product_attention(q, q, value, is_causal=True).ravel()
    array([1., 2.])

    See also
    --------
    softmax, conv, layer_norm
    """
    if implementation not in (None, "xla"):
        raise NotImplementedError(f"dot_product_attention: implementation={implementation!r} does not exist; leave it out")
    query, key, value = same_dtype(*[real_operand(x, "dot_product_attention") for x in (query, key, value)])
    sq, sk = _checked(query, key, value)
    dtype = dtype_of(query)
    if dtype == np.float16:
        query, key, value = [convert(x, np.dtype(np.float32)) for x in (query, key, value)]
    lead, features = len(sq) - 3, sq[-1]
    logits = mul(_products(query, key, lead), features**-0.5 if scale is None else float(scale))
    shape = shape_of(logits)  # (..., heads, query length, key length)
    if bias is not None:
        if not broadcasts(shape_of(bias), shape):
            raise ValueError(f"dot_product_attention: the bias ({said(bias)}) does not broadcast to {shape}")
        logits = convert(add(*operands(logits, bias)), dtype_of(logits))
    seen = _seen(shape, mask, is_causal, local_window_size, logits)
    queries = _within(query_seq_lengths, "query_seq_lengths", shape, lead, len(shape) - 2)
    keys = _within(key_value_seq_lengths, "key_value_seq_lengths", shape, lead, len(shape) - 1)
    for part in (queries, keys):
        if part is not None:
            seen = part if seen is None else and_(seen, part)
    if seen is not None:
        logits = select(seen, logits, -np.inf)
    out = _mixed(activation.softmax(logits, axis=len(shape) - 1), value, lead)
    if queries is not None:
        inside = _within(query_seq_lengths, "query_seq_lengths", shape_of(out), lead, lead)
        out = select(inside, out, 0.0)
    out = convert(out, dtype)
    if not return_residual:
        return out
    return out, convert(_swap(activation.logsumexp(logits, axis=len(shape) - 1), lead, lead + 1), dtype)


def _checked(query: Any, key: Any, value: Any) -> tuple[tuple, tuple]:
    sq, sk, sv = shape_of(query), shape_of(key), shape_of(value)
    if (
        len(sq) < 3
        or len(sq) != len(sk)
        or sk[:-1] != sv[:-1]
        or sq[:-3] != sk[:-3]
        or sq[-1] != sk[-1]
        or not sk[-2]
        or sq[-2] % sk[-2]
    ):
        raise ValueError(
            "dot_product_attention: query, key and value must be (..., length, heads, features) with equal leading "
            f"axes, got shapes {sq}, {sk} and {sv}"
        )
    return sq, sk


def _products(query: Any, key: Any, lead: int) -> Any:
    """Every query with every key of its head's group: (..., heads, query length, key length)."""
    sq, sk = shape_of(query), shape_of(key)
    batch = tuple(range(lead))
    grouped = reshape(query, shape=(*sq[:-2], sk[-2], sq[-2] // sk[-2], sq[-1]))
    logits = dot_general(
        grouped, key, dimension_numbers=(((lead + 3,), (lead + 2,)), ((*batch, lead + 1), (*batch, lead + 1)))
    )  # (..., heads of key, query length, group, key length)
    return reshape(_swap(logits, lead + 1, lead + 2), shape=(*sq[:-3], sq[-2], sq[-3], sk[-3]))


def _mixed(weights: Any, value: Any, lead: int) -> Any:
    """The values of each head's group, weighted: (..., query length, heads, features)."""
    sw, sv = shape_of(weights), shape_of(value)
    batch = tuple(range(lead))
    grouped = reshape(weights, shape=(*sw[:-3], sv[-2], sw[-3] // sv[-2], *sw[-2:]))
    out = dot_general(
        grouped, value, dimension_numbers=(((lead + 3,), (lead,)), ((*batch, lead), (*batch, lead + 1)))
    )  # (..., heads of key, group, query length, features)
    out = _swap(_swap(out, lead + 1, lead + 2), lead, lead + 1)
    return reshape(out, shape=(*sw[:-3], sw[-2], sw[-3], sv[-1]))


def _seen(shape: tuple, mask: Any, is_causal: bool, window: Any, beside: Any) -> Any:
    """Which keys a query sees by the mask and by their positions; None: all."""
    seen = None if mask is None else mask_of(mask, shape, "dot_product_attention: the mask,")
    if not is_causal and window is None:
        return seen
    distance = np.arange(shape[-2])[:, None] - np.arange(shape[-1])
    close = distance >= 0 if is_causal else np.ones(distance.shape, bool)
    if window is not None:
        left, right = (window, window) if is_a(window, int) else window
        close &= (distance <= left) & (distance >= -right)
    (close,) = on_device_of((np.broadcast_to(close, shape),), (beside,))
    return close if seen is None else and_(seen, close)


def _within(lengths: Any, what: str, shape: tuple, lead: int, axis: int) -> Any:
    """Is the position along an axis within the length of its sequence? None without lengths."""
    if lengths is None:
        return None
    lengths = array_of(lengths)
    if dtype_of(lengths).kind not in "iu":
        raise TypeError(f"dot_product_attention: {what} must be integers, got {said(lengths)}")
    if not lead and shape_of(lengths) == (1,):
        lengths = reshape(lengths, shape=())
    if shape_of(lengths) != shape[:lead]:
        raise ValueError(f"dot_product_attention: {what} must have shape {shape[:lead]}, got {said(lengths)}")
    inner = [1] * len(shape)
    inner[axis] = shape[axis]
    (places,) = on_device_of((np.broadcast_to(np.arange(shape[axis]).reshape(inner), shape),), (lengths,))
    limits = broadcast_in_dim(convert(lengths, np.dtype(np.int64)), shape=shape, axes=tuple(range(lead)))
    return lt(places, limits)


def _swap(x: Any, i: int, j: int) -> Any:
    perm = list(range(len(shape_of(x))))
    perm[i], perm[j] = j, i
    return transpose(x, perm=tuple(perm))


# -- normalisation: to mean 0 and variance 1 over some axes, or to root mean square 1
#
# Population variance throughout.
#
# Nothing is stored: gamma (scale) and beta (shift) are arguments, statistics are results. Idea: all of them are the one
# primitive `layer_norm` (closed-form derivatives of every order) on a reshaped array, and then an affine map.


def _affine(what: str, y: Any, gamma: Any, beta: Any, axes: tuple) -> Any:
    """gamma * y + beta, where gamma and beta have the shape of the given axes of y or broadcast."""
    for name, parameter, apply in (("gamma", gamma, mul), ("beta", beta, add)):
        if parameter is None:
            continue
        shape = shape_of(y)
        parameter = operand(parameter)
        if shape_of(parameter) == tuple([shape[a] for a in axes]):
            parameter = broadcast_in_dim(parameter, shape=shape, axes=axes)
        elif not broadcasts(shape_of(parameter), shape):
            raise ValueError(
                f"{what}: {name} must have shape {tuple([shape[a] for a in axes])} or broadcast to {shape}, "
                f"got {shape_of(parameter)}"
            )
        y = apply(*operands(parameter, y))
    return y


def _moment(x: Any, axes: tuple, mask: Any) -> Any:
    """The mean of x over the axes, of the elements in the mask only, spread over those axes again."""
    shape = shape_of(x)
    kept = kept_axes(len(shape), axes)
    if mask is None:
        mean = div(reduce_sum(x, axes=axes), float(prod([shape[a] for a in axes])))
    else:
        mean = div(reduce_sum(select(mask, x, 0.0), axes=axes), reduce_sum(convert(mask, dtype_of(x)), axes=axes))
    return broadcast_in_dim(mean, shape=shape, axes=kept)


def standardize(
    x: Any, axis: Any = -1, mean: Any = None, variance: Any = None, epsilon: float = 1e-5, where: Any = None
) -> Any:
    """(x - mean) / sqrt(variance + epsilon) over an axis, several, or all of them (None); population variance.

    `mean` and `variance` (broadcast against x) replace those of x; `where` (bools) says which elements they are taken from.
    As `jax.nn.standardize(algorithm="stable")`: the variance is never the difference of two large numbers.

    >>> import numpy as np; from funcad import nn
    >>> nn.standardize(np.array([1.0, 3.0]), epsilon=0.0)
    array([-1.,  1.])
    """
    x = real_operand(x, "standardize")
    shape = shape_of(x)
    axes = axes_of(axis, len(shape))
    if mean is None and variance is None and where is None:
        return activation.layer_norm(x, axes=axes, eps=float(epsilon))[0]
    mask = None if where is None else mask_of(where, shape, "standardize")
    centred = sub(x, _moment(x, axes, mask)) if mean is None else sub(*operands(x, mean))
    if variance is None:
        variance = _moment(square(centred), axes, mask)
    return mul(*operands(centred, rsqrt(add(operand(variance), float(epsilon)))))


def layer_norm(x: Any, gamma: Any = None, beta: Any = None, axis: Any = -1, eps: float = 1e-5) -> Any:
    """x, with mean 0 and variance 1 over an axis, times gamma, plus beta.

    Parameters
    ----------
    x : array
        Real.
    gamma, beta : array or number, optional
        Of the shape of the axes, or what broadcasts to it. None leaves them out.
    axis : int or tuple of ints
        The axis, or several.
    eps : float
        Added to the variance.

    Returns
    -------
    array
        Of the shape of x.

    Raises
    ------
    ValueError
        Shapes do not fit.

    Notes
    -----
    (x - mean) / sqrt(variance + eps) with the variance of the population (`np.var`), as `torch.nn.LayerNorm`. The
    parameters are arguments, not a state.

    Examples
    --------
    >>> import numpy as np; from funcad import nn
    >>> nn.layer_norm(np.array([1.0, 3.0]), gamma=2.0, eps=0.0)
    array([-2.,  2.])
    >>> nn.layer_norm(np.array([[1.0, 3.0], [1.0, 3.0]]), beta=np.array([[1.0], [2.0]]), axis=0, eps=1.0)
    array([[1., 1.],
           [2., 2.]])

    See also
    --------
    batch_norm, rms_norm, group_norm, standardize
    """
    x = real_operand(x, "layer_norm")
    axes = axes_of(axis, len(shape_of(x)))
    return _affine("layer_norm", activation.layer_norm(x, axes=axes, eps=float(eps))[0], gamma, beta, axes)


def rms_norm(x: Any, gamma: Any = None, axis: Any = -1, eps: float = 1e-5) -> Any:
    """gamma * x / sqrt(mean(x**2) + eps), over an axis or several (Zhang and Sennrich, 2019).

    gamma has the shape of those axes (or broadcasts); None leaves it out.

    >>> import numpy as np; from funcad import nn
    >>> nn.rms_norm(np.array([3.0, 4.0, 5.0, -5.0, -5.0]), eps=0.0).round(4)
    array([ 0.6708,  0.8944,  1.118 , -1.118 , -1.118 ])
    """
    x = real_operand(x, "rms_norm")
    axes = axes_of(axis, len(shape_of(x)))
    y = mul(x, rsqrt(add(_moment(square(x), axes, None), float(eps))))
    return _affine("rms_norm", y, gamma, None, axes)


def batch_norm(
    x: Any, gamma: Any = None, beta: Any = None, axes: Any = 0, eps: float = 1e-5, statistics: Any = None
) -> tuple[Any, Any, Any]:
    """(y, mean, variance): x normalised per feature over the batch axes, and the statistics that were used.

    gamma, beta, mean and variance have the shape of the other axes. Nothing is stored: for running statistics average
    the returned ones yourself, and hand them back as `statistics=(mean, variance)` for prediction. Population variance.

    >>> import numpy as np; from funcad import nn
    >>> y, mean, variance = nn.batch_norm(np.array([[1.0], [3.0]]), eps=0.0)
    >>> y.tolist(), mean, variance
    ([[-1.0], [1.0]], array([2.]), array([1.]))
    """
    x = real_operand(x, "batch_norm")
    shape = shape_of(x)
    axes = axes_of(axes, len(shape))
    features = kept_axes(len(shape), axes)
    if statistics is None:
        count = float(prod([shape[a] for a in axes]))
        mean = div(reduce_sum(x, axes=axes), count)
        centred = sub(x, broadcast_in_dim(mean, shape=shape, axes=features))
        variance = div(reduce_sum(square(centred), axes=axes), count)
        y = activation.layer_norm(x, axes=axes, eps=float(eps))[0]
    else:
        mean, variance = [operand(s) for s in statistics]
        x, mean, variance = promote_dtype([x, mean, variance], dtype_of(x))
        scale = rsqrt(add(variance, float(eps)))
        y = mul(
            sub(x, broadcast_in_dim(mean, shape=shape, axes=features)),
            broadcast_in_dim(scale, shape=shape, axes=features),
        )
    return _affine("batch_norm", y, gamma, beta, features), mean, variance


def group_norm(
    x: Any,
    num_groups: int,
    gamma: Any = None,
    beta: Any = None,
    *,
    channel_axis: int = -1,
    batch_axes: Any = 0,
    eps: float = 1e-5,
) -> Any:
    """x normalised per example over all other axes, its channels in `num_groups` groups (Wu and He, 2018).

    x is (batch, *spatial, channels); `channel_axis=1` for PyTorch's layout, `batch_axes=()` for a single example. gamma and
    beta have one element per channel. ValueError where the groups do not divide the channels.

    >>> import numpy as np; from funcad import nn
    >>> nn.group_norm(np.array([[1.0, 3.0, 10.0, 30.0]]), 2, eps=0.0)
    array([[-1.,  1., -1.,  1.]])
    """
    return _grouped("group_norm", x, num_groups, gamma, beta, channel_axis, batch_axes, eps)


def instance_norm(
    x: Any, gamma: Any = None, beta: Any = None, *, channel_axis: int = -1, batch_axes: Any = 0, eps: float = 1e-5
) -> Any:
    """x normalised per example and channel, over the spatial axes; arguments as of group_norm.

    `gamma`, `beta`, `channel_axis` and `batch_axes` are those of `group_norm`.

    >>> import numpy as np; from funcad import nn
    >>> nn.instance_norm(np.array([[[1.0], [3.0]]]), eps=0.0).ravel()
    array([-1.,  1.])
    """
    return _grouped("instance_norm", x, None, gamma, beta, channel_axis, batch_axes, eps)


def _grouped(
    what: str, x: Any, groups: int | None, gamma: Any, beta: Any, channel_axis: int, batch_axes: Any, eps: float
) -> Any:
    x = real_operand(x, what)
    shape = shape_of(x)
    channel = axis_of(channel_axis, len(shape))
    batch = axes_of(batch_axes, len(shape))
    if channel in batch:
        raise ValueError(f"{what}: axis {channel} of shape {shape} is both channel_axis and one of batch_axes")
    channels = shape[channel]
    groups = channels if groups is None else groups
    if groups < 1 or channels % groups:
        raise ValueError(f"{what}: {channels} channels (axis {channel} of shape {shape}) cannot be parted into {groups} groups")
    parted = reshape(x, shape=(*shape[:channel], groups, channels // groups, *shape[channel + 1 :]))
    kept = {a + (a > channel) for a in batch} | {channel}
    axes = tuple([a for a in range(len(shape) + 1) if a not in kept])
    y = reshape(activation.layer_norm(parted, axes=axes, eps=float(eps))[0], shape=shape)
    return _affine(what, y, gamma, beta, (channel,))
