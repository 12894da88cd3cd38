"""Attention: softmax of scaled products of queries and keys, times values."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of, dtype_of, shape_of
from funcad.nn.exponentials import mask_of
from funcad.nn.nn_operands import broadcasts, operands, real_operand, same_dtype
from funcad.numpy.axes import array_of
from funcad.primitives import activation
from funcad.primitives.arithmetic import add, mul
from funcad.primitives.comparison import and_, lt, select
from funcad.primitives.contraction import dot_general
from funcad.primitives.conversion import convert
from funcad.primitives.placement import on_device_of
from funcad.primitives.shape import broadcast_in_dim, reshape, transpose

__all__ = ["dot_product_attention"]


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
    """softmax(query @ key.T * scale + bias) @ value, per head; shapes (..., length, heads, features).

    Key and value may have fewer heads, if their number divides the query's: each serves a group of them. `bias` and the bool
    `mask` broadcast to (..., heads, query length, key length); where the mask is False a key is not seen, and a query that
    sees no key sees all of them equally. `scale` is 1 / sqrt(features) unless given. `is_causal`: a query sees the keys up to
    its own position. `local_window_size=(left, right)`: only the keys so near to it. `query_seq_lengths` and
    `key_value_seq_lengths`, integers of shape (...,): keys beyond the length are not seen, results of queries beyond theirs
    are 0. `return_residual` gives the pair (result, logsumexp of the logits), the latter (..., length, heads).

    Arguments as `jax.nn.dot_product_attention`, which takes the softmax in float32 (here: in the operands' precision, float32
    for float16) and stops the derivative of the residual (here it has its own). The `implementation` is None or "xla": there
    is one. Raises ValueError for shapes that do not fit, NotImplementedError for another implementation.

    >>> import numpy as np; from funcad import nn
    >>> q = np.zeros((2, 1, 4))
    >>> nn.dot_product_attention(q, q, q + 1.0).shape
    (2, 1, 4)
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
            raise ValueError(f"dot_product_attention: the bias {aval_of(bias)} does not broadcast to {shape}")
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
        raise TypeError(f"dot_product_attention: {what} must be integers, got {aval_of(lengths)}")
    if not lead and shape_of(lengths) == (1,):
        lengths = reshape(lengths, shape=())
    if shape_of(lengths) != shape[:lead]:
        raise ValueError(f"dot_product_attention: {what} must have shape {shape[:lead]}, got {aval_of(lengths)}")
    inner = [1] * len(shape)
    inner[axis] = shape[axis]
    (places,) = on_device_of((np.broadcast_to(np.arange(shape[axis]).reshape(inner), shape),), (lengths,))
    limits = broadcast_in_dim(convert(lengths, np.dtype(np.int64)), shape=shape, axes=tuple(range(lead)))
    return lt(places, limits)


def _swap(x: Any, i: int, j: int) -> Any:
    perm = list(range(len(shape_of(x))))
    perm[i], perm[j] = j, i
    return transpose(x, perm=tuple(perm))
