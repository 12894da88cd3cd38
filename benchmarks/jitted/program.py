"""What a jitted program is: one function, written once for funcad and JAX, its data, and whether its gradient is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

__all__ = ["Library", "Program", "draws"]


class Library(NamedTuple):
    """What a program is written with: NumPy, `lax`, special functions, the transforms, and sums by segment."""

    np: Any
    lax: Any
    special: Any
    transforms: Any  # funcad itself, or jax
    segment_sum: Callable[..., Any]
    map: Callable[..., Any]  # a function over the leaves of pytrees


class Program(NamedTuple):
    """A function of arrays. With `gradient` its result is a number, which is differentiated by the first argument."""

    what: str
    function: Callable[[Library], Callable[..., Any]]
    data: Callable[[Any], tuple]
    gradient: bool = True
    tolerance: float = 1e-7


def draws(seed: int, dtype: Any) -> Callable[..., Any]:
    """Normal draws of a shape, of a scale."""
    random = numpy.random.default_rng(seed)
    return lambda *shape, scale=1.0: (scale * random.normal(size=shape)).astype(dtype)
