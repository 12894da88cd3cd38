"""`jax.lax`: funcad.lax, whose arrays have `x.at[i].set(v)` here, and `cond(..., operand=x)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funcad import tree as _tree
from funcad.configuration import OnDemand as _OnDemand
from funcad.control.cond import cond as _cond
from funcad.foreign_names import mirror as _mirror
from funcad.jax.jax_arrays import dressed as _dressed
from funcad.jax.jax_arrays import with_at as _with_at
from funcad.jax.sharding import PartitionSpec, Sharding

__all__ = ["cond", "fft", "with_sharding_constraint"]
__getattr__, __dir__ = _mirror(__name__, "funcad.lax", dress=_dressed)
_NONE: Any = object()
_numpy = _OnDemand("funcad.jax.numpy")


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any, operand: Any = _NONE) -> Any:
    """`funcad.cond`; `operand=x` is one operand by name.

    TypeError if operands are given both ways.

    >>> cond(True, lambda x: x + 1, lambda x: x - 1, operand=1)
    2
    """
    if operand is not _NONE and operands:
        raise TypeError("cond: operands are given both by position and as operand=; give them by position")
    given = operands if operand is _NONE else (operand,)
    return _cond(pred, true_fun, false_fun, *_tree.map(_with_at, given))  # with a pred that has a value a branch gets these


def fft(x: Any, fft_type: Any, fft_lengths: Sequence[int]) -> Any:
    """The transform over the last axes, of these lengths; `fft_type`: "FFT", "IFFT", "RFFT" or "IRFFT".

    >>> import numpy as np
    >>> fft(np.ones(2), "RFFT", [2])
    Array([2.+0.j, 0.+0.j])
    """
    transform = getattr(_numpy.fft, getattr(fft_type, "name", fft_type).lower() + "n")
    return transform(x, s=tuple(fft_lengths), axes=range(-len(fft_lengths), 0))


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """x: shardings are of one device. TypeError for what is none.

    >>> from funcad.jax.sharding import PartitionSpec
    >>> with_sharding_constraint(1.0, PartitionSpec())
    1.0
    """
    for sharding in _tree.leaves(shardings, is_leaf=lambda part: isinstance(part, PartitionSpec)):
        if not isinstance(sharding, (Sharding, PartitionSpec)):
            raise TypeError(f"with_sharding_constraint takes shardings and PartitionSpecs, got {type(sharding).__name__}")
    return x
