"""Layers as functions of their parameters: linear maps, embeddings, normalisation, attention.

Nothing is stored: parameters are arguments (pytrees of arrays in the user's hands) and statistics are results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import dtype_of, shape_of
from funcad.nn.operands import operand, operands, real_operand
from funcad.numpy.axes import array_of, axes_of, axis_of
from funcad.numpy.promote import promote_dtype
from funcad.numpy.searching import take
from funcad.primitives import activation
from funcad.primitives.arithmetic import add, div, mul, rsqrt, square, sub
from funcad.primitives.comparison import and_, eq, select
from funcad.primitives.contraction import dot_general
from funcad.primitives.conversion import convert
from funcad.primitives.indexing import static_slice
from funcad.primitives.reduction import kept_axes, reduce_sum
from funcad.primitives.shape import broadcast_in_dim, broadcast_to, reshape, transpose

__all__ = [
    "one_hot", "slice_range", "linear", "embedding", "bmm", "layer_norm", "batch_norm", "standardize",
    "dot_product_attention",
]  # fmt: skip


def _same_dtype(*args: Any) -> list[Any]:
    """The arguments as floats of one dtype, each in its own shape."""
    values = [operand(a) for a in args]
    return promote_dtype(values, np.result_type(*[dtype_of(v) for v in values]))


def one_hot(x: Any, num_classes: int, *, axis: int = -1, dtype: Any = np.float64) -> Any:
    """Integers as rows of zeros with a one: a new axis of size `num_classes`. What is out of range gives zeros only.

    >>> import numpy as np; from funcad import nn
    >>> nn.one_hot(np.array([1, 0]), 3)
    array([[0., 1., 0.],
           [1., 0., 0.]])
    """
    x = array_of(x)
    if dtype_of(x).kind not in "iub":
        raise TypeError(f"one_hot: the classes must be integers, got dtype {dtype_of(x)}")
    shape = shape_of(x)
    axis = axis_of(axis, len(shape) + 1)
    full = (*shape[:axis], num_classes, *shape[axis:])
    x = convert(x, np.dtype(np.int64))
    spread = broadcast_in_dim(x, shape=full, axes=kept_axes(len(full), (axis,)))
    return convert(eq(spread, _positions(full, axis)), np.dtype(dtype))


def _positions(shape: tuple, axis: int) -> Any:
    inner = [1] * len(shape)
    inner[axis] = shape[axis]
    return np.broadcast_to(np.arange(shape[axis]).reshape(inner), shape)


def slice_range(x: Any, start: int, length: int) -> Any:
    """x[start:start + length] along axis 0; IndexError when that is out of range (a Python slice would clip).

    >>> import numpy as np; from funcad import nn
    >>> nn.slice_range(np.arange(5.0), 1, 3)
    array([1., 2., 3.])
    """
    x = array_of(x)
    n = shape_of(x)[0] if shape_of(x) else 0
    if not (0 <= start and 0 <= length and start + length <= n):
        raise IndexError(f"slice_range: [{start}, {start + length}) is not within axis 0 of shape {shape_of(x)}")
    return static_slice(x, int(start), int(start + length))


def linear(weight: Any, bias: Any, x: Any) -> Any:
    """weight @ x + bias for each vector along x's last axis; the weight is (out, in), the bias (out,) or None.

    >>> import numpy as np; from funcad import nn
    >>> nn.linear(np.array([[1.0, 2.0]]), np.array([0.5]), np.array([1.0, 1.0]))
    array([3.5])
    """
    weight, x = _same_dtype(weight, x)
    sw, sx = shape_of(weight), shape_of(x)
    if len(sw) != 2 or not sx or sw[1] != sx[-1]:
        raise ValueError(f"linear: the weight must be (out, in) and x (..., in), got shapes {sw} and {sx}")
    out = dot_general(x, weight, dimension_numbers=(((len(sx) - 1,), (1,)), ((), ())))
    if bias is None:
        return out
    if shape_of(bias) not in ((sw[0],), ()):
        raise ValueError(f"linear: the bias must have shape ({sw[0]},), got {shape_of(bias)}")
    return add(*operands(out, bias))


def embedding(x: Any, weight: Any) -> Any:
    """Rows of `weight` (vocabulary, features): x @ weight for one-hot or other float x (..., vocabulary).

    Integers x (...) pick rows, as np.take: negative ones count from the end, IndexError out of range.

    >>> import numpy as np; from funcad import nn
    >>> nn.embedding(np.array([1]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[3., 4.]])
    """
    weight = operand(weight)
    if len(shape_of(weight)) != 2:
        raise ValueError(f"embedding: the weight must be (vocabulary, features), got shape {shape_of(weight)}")
    size = shape_of(weight)[0]
    x = array_of(x)
    if dtype_of(x).kind in "iu":
        return take(weight, x, axis=0)
    x, weight = _same_dtype(x, weight)
    sx = shape_of(x)
    if not sx or sx[-1] != size:
        raise ValueError(f"embedding: x must be (..., {size}) for a weight of shape {shape_of(weight)}, got {sx}")
    return dot_general(x, weight, dimension_numbers=(((len(sx) - 1,), (0,)), ((), ())))


def bmm(a: Any, b: Any) -> Any:
    """Matrix products of two stacks, (n, i, k) and (n, k, j), without broadcasting.

    >>> import numpy as np; from funcad import nn
    >>> nn.bmm(np.ones((2, 1, 3)), np.ones((2, 3, 1)))[1]
    array([[3.]])
    """
    a, b = _same_dtype(a, b)
    sa, sb = shape_of(a), shape_of(b)
    if len(sa) != 3 or len(sb) != 3 or sa[0] != sb[0] or sa[2] != sb[1]:
        raise ValueError(f"bmm: shapes must be (n, i, k) and (n, k, j), got {sa} and {sb}")
    return dot_general(a, b, dimension_numbers=(((2,), (1,)), ((0,), (0,))))


def _broadcasts(small: tuple, shape: tuple) -> bool:
    return len(small) <= len(shape) and all(n in (1, m) for n, m in zip(small[::-1], shape[::-1]))


def _affine(what: str, y: Any, gamma: Any, beta: Any, axes: tuple) -> Any:
    """gamma * y + beta, where gamma and beta have the shape of the given axes of y or broadcast."""
    for name, parameter, apply in (("gamma", gamma, mul), ("beta", beta, add)):
        if parameter is None:
            continue
        shape = shape_of(y)
        parameter = operand(parameter)
        if shape_of(parameter) == tuple([shape[a] for a in axes]):
            parameter = broadcast_in_dim(parameter, shape=shape, axes=axes)
        elif not _broadcasts(shape_of(parameter), shape):
            raise ValueError(
                f"{what}: {name} must have shape {tuple([shape[a] for a in axes])} or broadcast to {shape}, "
                f"got {shape_of(parameter)}"
            )
        y = apply(*operands(parameter, y))
    return y


def standardize(x: Any, axis: Any = -1, eps: float = 1e-5) -> Any:
    """(x - mean) / sqrt(variance + eps) over an axis or several; population variance.

    >>> import numpy as np; from funcad import nn
    >>> nn.standardize(np.array([1.0, 3.0]), eps=0.0)
    array([-1.,  1.])
    """
    x = real_operand(x, "standardize")
    return activation.layer_norm(x, axes=axes_of(axis, len(shape_of(x))), eps=eps)[0]


def layer_norm(x: Any, gamma: Any = None, beta: Any = None, axis: Any = -1, eps: float = 1e-5) -> Any:
    """gamma * (x - mean) / sqrt(variance + eps) + beta, normalised over an axis or several; population variance.

    gamma and beta have the shape of those axes (or broadcast); None leaves them out.

    >>> import numpy as np; from funcad import nn
    >>> nn.layer_norm(np.array([1.0, 3.0]), gamma=2.0, eps=0.0)
    array([-2.,  2.])
    """
    x = real_operand(x, "layer_norm")
    axes = axes_of(axis, len(shape_of(x)))
    return _affine("layer_norm", activation.layer_norm(x, axes=axes, eps=eps)[0], gamma, beta, axes)


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
        count = 1.0
        for a in axes:
            count *= shape[a]
        mean = div(reduce_sum(x, axes=axes), count)
        centred = sub(x, broadcast_in_dim(mean, shape=shape, axes=features))
        variance = div(reduce_sum(square(centred), axes=axes), count)
        y = activation.layer_norm(x, axes=axes, eps=eps)[0]
    else:
        mean, variance = [operand(s) for s in statistics]
        x, mean, variance = promote_dtype([x, mean, variance], dtype_of(x))
        scale = rsqrt(add(variance, float(eps)))
        y = mul(
            sub(x, broadcast_in_dim(mean, shape=shape, axes=features)),
            broadcast_in_dim(scale, shape=shape, axes=features),
        )
    return _affine("batch_norm", y, gamma, beta, features), mean, variance


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
) -> Any:
    """softmax(query @ key.T * scale + bias) @ value, per head; shapes (..., length, heads, features), as JAX's.

    Key and value may have fewer heads, if their number divides the query's. `bias` and the bool `mask` broadcast to
    (..., heads, query length, key length); where the mask is False a key is not seen, and a query that sees no key sees
    all of them equally. `scale` is 1 / sqrt(features) unless given.

    >>> import numpy as np; from funcad import nn
    >>> q = np.zeros((2, 1, 4))
    >>> nn.dot_product_attention(q, q, q + 1.0).shape
    (2, 1, 4)
    """
    query, key, value = _same_dtype(query, key, value)
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
    groups = sq[-2] // sk[-2]
    lead = len(sq) - 3
    batch = tuple(range(lead))
    # (..., heads of key, group, query length, key length)
    grouped = reshape(query, shape=(*sq[:-2], sk[-2], groups, sq[-1]))
    logits = dot_general(
        grouped, key, dimension_numbers=(((lead + 3,), (lead + 2,)), ((*batch, lead + 1), (*batch, lead + 1)))
    )  # (..., heads of key, query length, group, key length)
    logits = _swap(logits, lead + 1, lead + 2)
    shape = (*sq[:-3], sq[-2], sq[-3], sk[-3])
    logits = mul(reshape(logits, shape=shape), sq[-1] ** -0.5 if scale is None else float(scale))
    if bias is not None:
        logits = add(*operands(logits, bias))
    seen = None if mask is None else broadcast_to(convert(array_of(mask), np.dtype(bool)), shape)
    if is_causal:
        causal = np.broadcast_to(np.tri(sq[-3], sk[-3], dtype=bool), shape)
        seen = causal if seen is None else and_(seen, causal)
    if seen is not None:
        logits = select(seen, logits, -np.inf)
    weights = activation.softmax(logits, axis=len(shape) - 1)
    weights = reshape(weights, shape=(*sq[:-3], sk[-2], groups, sq[-3], sk[-3]))
    out = dot_general(
        weights, value, dimension_numbers=(((lead + 3,), (lead,)), ((*batch, lead), (*batch, lead + 1)))
    )  # (..., heads of key, group, query length, features)
    out = _swap(_swap(out, lead + 1, lead + 2), lead, lead + 1)
    return reshape(out, shape=(*sq[:-1], sv[-1]))


def _swap(x: Any, i: int, j: int) -> Any:
    perm = list(range(len(shape_of(x))))
    perm[i], perm[j] = j, i
    return transpose(x, perm=tuple(perm))
