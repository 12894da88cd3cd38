"""Layers as functions of their parameters: linear maps, embeddings, dropout.

Nothing is stored: parameters are arguments (pytrees of arrays in the user's hands). Normalisation is in norms.py,
attention in attention.py, convolution in convolution.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import dtype_of, shape_of
from funcad.nn.nn_operands import operand, operands, same_dtype
from funcad.numpy.axes import array_of, axes_of, axis_of
from funcad.numpy.searching import take
from funcad.primitives.arithmetic import add, mul
from funcad.primitives.basic_indexing import static_slice
from funcad.primitives.collective import axis_index, axis_size
from funcad.primitives.comparison import eq, select
from funcad.primitives.contraction import dot_general
from funcad.primitives.conversion import convert
from funcad.primitives.placement import on_device_of
from funcad.primitives.reduction import kept_axes
from funcad.primitives.shape import broadcast_in_dim, broadcast_to
from funcad.random import bernoulli

__all__ = ["one_hot", "slice_range", "linear", "embedding", "bmm", "dropout"]


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int | str = -1) -> Any:
    """Integers as rows of zeros with a one: a new axis of size `num_classes`. What is out of range gives zeros only.

    The dtype is float64 unless given (JAX: its default float). `axis` may be the name of a `vmap` axis of size `num_classes`:
    every member of that axis gets its own element. Raises TypeError for what is not an integer.
    `x` holds those integers.

    >>> import numpy as np; from funcad import nn
    >>> nn.one_hot(np.array([1, 0]), 3)
    array([[0., 1., 0.],
           [1., 0., 0.]])
    """
    x = array_of(x)
    if dtype_of(x).kind not in "iub":
        raise TypeError(f"one_hot: the classes must be integers, got dtype {dtype_of(x)}")
    shape = shape_of(x)
    dtype = np.dtype(np.float64 if dtype is None else dtype)
    if isinstance(axis, str):
        if axis_size(axis) != num_classes:
            raise ValueError(f"one_hot: num_classes={num_classes}, but the axis {axis!r} has size {axis_size(axis)}")
        x = convert(x, np.dtype(np.int64))
        return convert(eq(x, broadcast_in_dim(axis_index(axis), shape=shape, axes=())), dtype)
    axis = axis_of(axis, len(shape) + 1)
    full = (*shape[:axis], num_classes, *shape[axis:])
    x = convert(x, np.dtype(np.int64))
    spread = broadcast_in_dim(x, shape=full, axes=kept_axes(len(full), (axis,)))
    return convert(eq(spread, *on_device_of((_positions(full, axis),), (x,))), dtype)


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
    weight, x = same_dtype(weight, x)
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
    x, weight = same_dtype(x, weight)
    sx = shape_of(x)
    if not sx or sx[-1] != size:
        raise ValueError(f"embedding: x must be (..., {size}) for a weight of shape {shape_of(weight)}, got {sx}")
    return dot_general(x, weight, dimension_numbers=(((len(sx) - 1,), (0,)), ((), ())))


def bmm(a: Any, b: Any) -> Any:
    """Matrix products of two stacks, (n, i, k) and (n, k, j), without broadcasting.

    `a` and `b` are these stacks, else ValueError.

    >>> import numpy as np; from funcad import nn
    >>> nn.bmm(np.ones((2, 1, 3)), np.ones((2, 3, 1)))[1]
    array([[3.]])
    """
    a, b = same_dtype(a, b)
    sa, sb = shape_of(a), shape_of(b)
    if len(sa) != 3 or len(sb) != 3 or sa[0] != sb[0] or sa[2] != sb[1]:
        raise ValueError(f"bmm: shapes must be (n, i, k) and (n, k, j), got {sa} and {sb}")
    return dot_general(a, b, dimension_numbers=(((2,), (1,)), ((0,), (0,))))


def dropout(key: Any, x: Any, rate: float = 0.5, *, broadcast_axes: Any = (), deterministic: bool = False) -> Any:
    """x with each element zero with probability `rate`, the others divided by 1 - rate (Srivastava et al., 2014).

    The same key drops the same elements. Along `broadcast_axes` all are dropped together; with `deterministic` (for
    prediction) x is returned as it is. ValueError unless 0 <= rate <= 1.

    >>> import numpy as np; from funcad import nn, random
    >>> y = nn.dropout(random.key(0), np.ones(1000), 0.2)
    >>> np.unique(y), float((y == 0).mean()) > 0.15
    (array([0.  , 1.25]), True)
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"dropout: the rate must be between 0 and 1, got {rate!r}")
    if deterministic or rate == 0:
        return x
    if key is None:
        raise TypeError("dropout needs a key: nn.dropout(funcad.random.key(0), x), or deterministic=True")
    x = operand(x)
    shape = shape_of(x)
    shared = axes_of(broadcast_axes, len(shape))
    kept = bernoulli(key, 1.0 - rate, tuple([1 if i in shared else n for i, n in enumerate(shape)]))
    scaled = mul(x, 1.0 / (1.0 - rate)) if rate < 1 else x
    return select(broadcast_to(kept, shape), scaled, 0.0)
