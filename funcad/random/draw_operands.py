"""What every draw does first: check the key, settle shape and dtype, bring the parameters to them.

Trap: a parameter that is a NumPy array beside a traced key must become an input of the program being traced
(`capture_as_inputs`), or what is computed from it now would be frozen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.host.devices import device_in_use, namespace_of, place
from funcad.host.layout import native_dtype
from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.axes import shape_argument
from funcad.primitives.conversion import convert
from funcad.primitives.placement import capture_as_inputs
from funcad.show.docstrings import also_says

__all__ = ["check_key", "float_dtype", "shape_of_draw", "parameters", "together", "inexact_dtype"]

_UINT32 = np.dtype(np.uint32)
_FLOAT64 = np.dtype(np.float64)


def check_key(name: str, key: Any) -> None:
    """Raise unless key is one key: uint32 of shape (2,)."""
    if type(key) is np.ndarray and key.shape == (2,) and key.dtype is _UINT32:
        return
    try:
        aval = aval_of(key)
    except TypeError as error:
        raise TypeError(f"{name}: the first argument is a key; {error}.\nRemedy: funcad.random.key(seed) makes one.") from None
    if aval.dtype != _UINT32 or aval.shape[-1:] != (2,):
        raise TypeError(
            f"{name}: a key is a uint32 array of shape (2,), got {aval.dtype} of shape {aval.shape}.\n"
            "Remedy: funcad.random.key(seed) makes one."
        )
    if aval.shape != (2,):
        raise ValueError(
            f"{name} takes one key, of shape (2,); got keys of shape {aval.shape}.\n"
            f"For a draw per key, map over them: funcad.vmap(lambda key: funcad.random.{name}(key, ...))(keys)."
        )


def float_dtype(name: str, dtype: Any, kinds: str = "f") -> np.dtype:
    """The dtype to draw, float64 by default."""
    if dtype is None:
        return _FLOAT64
    found = native_dtype(dtype)
    if found.kind not in kinds or found.itemsize > (8 if found.kind == "f" else 16):
        what = "a float dtype (float16, float32, float64)" if kinds == "f" else "a float or complex dtype"
        raise ValueError(f"{name}: dtype must be {what}, got {found}")
    return found


def inexact_dtype(*values: Any) -> np.dtype:
    """The float dtype that the values have together; integers and Python's numbers are float64."""
    dtypes = [aval.dtype for aval in map(aval_of, values) if not aval.weak]
    found = np.result_type(*dtypes) if dtypes else _FLOAT64
    return found if found.kind == "f" else np.result_type(found, _FLOAT64)


def shape_of_draw(name: str, shape: Any, *values: Any) -> tuple:
    """The shape asked for, which the parameters' shapes must broadcast to; theirs together if it is None."""
    shapes = [shape_of(v) for v in values]
    if shape is None:
        return np.broadcast_shapes(*shapes)
    shape = shape_argument(shape)
    if any(shapes) and np.broadcast_shapes(shape, *shapes) != shape:
        raise ValueError(f"{name}: parameters of shapes {shapes} do not broadcast to shape={shape}")
    return shape


def together(name: str, key: Any, *values: Any) -> list[Any]:
    """The values as arrays or scalars, on the key's device, and inputs of the program that is being traced."""
    arrays = [v if type(v) is Tracer or hasattr(v, "dtype") else np.asarray(v) for v in values]
    if device_in_use():
        known = [concrete_value(v) for v in (key, *arrays)]
        xp = namespace_of(known)
        if xp is not np:
            place(xp, [v for v in known if type(v) is not Tracer], name)
            arrays = [v[()] if type(v) is np.ndarray and not v.ndim else v for v in arrays]
    return capture_as_inputs(arrays, [key, *arrays])


def parameters(name: str, key: Any, dtype: np.dtype, *values: Any) -> list[Any]:
    """The values in a dtype, ready to be combined with what is drawn from the key."""
    found = []
    for v in together(name, key, *values):
        if type(v) is Tracer:
            v = convert(v, dtype) if v.dtype != dtype or v.aval.weak else v
        elif is_a(v, (np.ndarray, np.generic)):
            v = np.asarray(v, dtype)[()]  # rank 0: a scalar, which goes with arrays of any device
        else:
            v = v.astype(dtype, copy=False)
        found.append(v)
    return found


def tell_what_draws_share(functions: list[Any]) -> None:
    """Put into the docstring of each function that draws what all of them have in common."""
    for draw in functions:
        code = getattr(draw, "__code__", None)
        names = code.co_varnames[: code.co_argcount] if code is not None else ()
        if names[:1] != ("key",) or "shape" not in names:
            continue
        defaults = dict(zip(reversed(names), reversed(draw.__defaults__ or ())))
        none = "None: that of the parameters together." if defaults.get("shape", ()) is None else ""
        dtype = "`dtype` is that of its elements." if "dtype" in names else ""
        more = " ".join(filter(None, [none, dtype]))
        also_says(
            draw,
            "`key` comes from `funcad.random.key` or `split`, else TypeError. `shape`, a tuple of ints, is the result's.\n"
            + more,
        )
