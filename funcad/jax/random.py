"""`jax.random`: funcad.random, whose arrays have `x.at[i].set(v)` here. The bits are funcad's own, not JAX's.

What is drawn in bfloat16 or float8 is drawn in float32 and rounded.

>>> import funcad.jax as jax
>>> jax.random.normal(jax.random.key(0), (2,), out_sharding=None).shape
(2,)
"""

import functools as _functools
import inspect as _inspect
from typing import Any as _Any

import numpy as _np

from funcad.foreign_names import mirror as _mirror
from funcad.host.real_types import is_narrow as _is_narrow
from funcad.jax.jax_arrays import dressed as _dressed


def _of_any_dtype(f: _Any) -> _Any:
    """A function that draws, also in narrow dtypes."""
    if not _inspect.isfunction(f) or "dtype" not in _inspect.signature(f).parameters:
        return _dressed(f)
    signature, draws = _inspect.signature(f), _dressed(f)

    @_functools.wraps(f)
    def call(*args: _Any, **kwargs: _Any) -> _Any:
        kwargs.pop("out_sharding", None)  # all is in one process
        given = signature.bind(*args, **kwargs)
        dtype = given.arguments.get("dtype")
        if dtype is None or not _is_narrow(_np.dtype(dtype)):
            return draws(*args, **kwargs)
        given.arguments["dtype"] = _np.float32
        return draws(*given.args, **given.kwargs).astype(dtype)

    return call


__getattr__, __dir__ = _mirror(__name__, "funcad.random", dress=_of_any_dtype)
