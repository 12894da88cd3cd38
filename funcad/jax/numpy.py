"""`jax.numpy`: funcad.numpy, whose arrays have `x.at[i].set(v)` here. Floats are float64 unless said otherwise,
and float32 with `jax_enable_x64` off.

`jax.numpy.bfloat16` and the like are the types of the package ml_dtypes. They follow NumPy's rules of promotion, as all dtypes,
but beside Python's numbers: there bfloat16 stays bfloat16 in code written for JAX, where before ml_dtypes 0.7 NumPy's would
become float32.

>>> from funcad.jax import numpy as jnp
>>> jnp.ones(2).at[0].add(1.0)
Array([2., 1.])
"""

import functools as _functools
from typing import Any as _Any

import numpy as _np

import funcad.numpy as _numpy
from funcad.api.tools import ShapeDtypeStruct as _ShapeDtypeStruct
from funcad.foreign_names import mirror as _mirror
from funcad.host.real_types import is_narrow as _is_narrow
from funcad.host.real_types import library as _library
from funcad.jax.jax_transforms import transforming as _transforming
from funcad.primitives import sorting as _sorting

from funcad.jax.dtypes import finfo as finfo, issubdtype as issubdtype, promote_types as promote_types  # isort: skip
from funcad.jax.jax_arrays import Array as ndarray, RuledArray as _RuledArray, dressed as _dressed  # isort: skip

__all__ = [
    "argsort",
    "finfo",
    "issubdtype",
    "ndarray",
    "promote_types",
    "sort",
]
_mirrored, __dir__ = _mirror(__name__, "funcad.numpy", "numpy", dress=_dressed)


_LIKE = ("empty_like", "full_like", "ones_like", "zeros_like")


def _of_shapes(like: _Any) -> _Any:
    """`zeros_like` and its like, which take a ShapeDtypeStruct, too."""

    @_functools.wraps(like)
    def call(a: _Any, *args: _Any, **kwargs: _Any) -> _Any:
        return like(_np.empty(a.shape, a.dtype) if type(a) is _ShapeDtypeStruct else a, *args, **kwargs)

    return call


def _beside_narrow(f: _Any) -> _Any:
    """`where` and `clip`, no ufuncs of NumPy's: Python's numbers beside arrays of bfloat16 are of that type there, too."""

    @_functools.wraps(f)
    def call(*args: _Any, **kwargs: _Any) -> _Any:
        kinds = [x.dtype.type for x in args if type(x) is _RuledArray and _is_narrow(x.dtype)]
        if not kinds:
            return f(*args, **kwargs)
        args = tuple([kinds[0](x) if type(x) in (int, float) else x for x in args])
        out = f(*args, **kwargs)  # NumPy's `clip` knows no narrow floats
        narrowed = f.__name__ == "clip" and {kinds[0], _RuledArray}.issuperset(map(type, args))
        return out.astype(kinds[0]) if narrowed else out

    return call


def _einsum(subscripts: _Any, /, *operands: _Any, **options: _Any) -> _Any:
    """`jax.numpy.einsum`, which sums over the axes of `...` where the result has none; NumPy raises."""
    inputs, arrow, output = subscripts.partition("->") if isinstance(subscripts, str) else ("", "", "")
    if not arrow or "..." in output or "..." not in inputs:
        return _numpy.einsum(subscripts, *operands, **options)
    found = _numpy.einsum(f"{inputs}->...{output.strip()}", *operands, **options)
    return _numpy.sum(found, axis=tuple(range(found.ndim - len(output.replace(" ", "")))))


def __getattr__(name: str) -> _Any:
    if name in _LIKE:
        found = _of_shapes(_mirrored(name))
    elif name in ("clip", "where"):
        found = _beside_narrow(_mirrored(name))
    elif name == "bfloat16" or name.startswith("float8_"):
        found = _dressed(getattr(_library(f"jax.numpy.{name}"), name))
    elif name == "astype":
        found = _dressed(lambda x, dtype, /, **options: _numpy.astype(_numpy.asarray(x), dtype, **options))
    elif name == "einsum":
        found = _dressed(_einsum)
    elif name == "vectorize":
        found = _transforming(name, _numpy.vectorize)
    else:
        return _mirrored(name)
    globals()[name] = found
    return found


@_dressed
def sort(a: _Any, axis: int | None = -1, *, descending: bool = False, **options: _Any) -> _Any:
    """`jax.numpy.sort`, NaN first in descending order.

    >>> from funcad.jax import numpy as jnp
    >>> jnp.sort(jnp.array([2.0, jnp.nan, 3.0]), descending=True)
    Array([nan,  3.,  2.])
    """
    result = _numpy.sort(a, axis, **options)
    return _numpy.flip(result, 0 if axis is None else axis) if descending else result


@_dressed
def argsort(a: _Any, axis: int | None = -1, *, descending: bool = False, **options: _Any) -> _Any:
    """`jax.numpy.argsort`, NaN first in descending order; equal elements stay in their order.

    >>> from funcad.jax import numpy as jnp
    >>> jnp.argsort(jnp.array([2.0, jnp.nan, 3.0]), descending=True)
    Array([1, 2, 0])
    """
    if not descending:
        return _numpy.argsort(a, axis, **options)
    x = _numpy.ravel(a) if axis is None else _numpy.asarray(a)
    return _sorting.argsort(x, range(x.ndim)[0 if axis is None else axis], descending=True)
