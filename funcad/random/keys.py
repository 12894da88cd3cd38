"""Keys: making them, splitting them, folding numbers into them.

A key is a plain array, uint32 of shape (2,): data that passes through every transform. The same key gives the same numbers at
every use, so split it first: one use per key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.axes import shape_argument
from funcad.numpy.creation import library
from funcad.primitives.conversion import convert
from funcad.primitives.random_bits import draw, fold
from funcad.random.draw_operands import check_key

__all__ = ["PRNGKey", "clone", "fold_in", "key", "key_data", "key_dtype", "key_impl", "split", "wrap_key_data"]

_UINT32 = np.dtype(np.uint32)
_NAME = "threefry2x32"


def _check_implementation(name: str, impl: Any, dtype: Any = None) -> None:
    if impl is not None and dtype is not None:
        raise ValueError(f"{name}: give impl or dtype, not both")
    for given in (impl, dtype):
        if given is not None and given not in (_NAME, _UINT32):
            raise ValueError(f"{name}: the only generator is {_NAME!r}, got {given!r}")


def _make(name: str, seed: Any) -> Any:
    if type(seed) is int:
        seed = np.int64(seed)  # OverflowError for what does not fit
    aval = aval_of(seed)
    if aval.shape:
        raise TypeError(f"{name} takes one seed, an integer; got shape {aval.shape}. For a key per seed use funcad.vmap.")
    if aval.dtype.kind not in "iu":
        raise TypeError(f"{name} takes an integer as seed, got {aval.dtype}")
    if type(seed) is Tracer:
        wide = seed if aval.dtype == np.uint64 else convert(seed, np.dtype(np.uint64))
        low = convert(wide & np.uint64(0xFFFFFFFF), _UINT32)
        high = convert(wide >> np.uint64(32), _UINT32) if aval.dtype.itemsize == 8 else np.uint32(0)
        return np.stack([np.broadcast_to(high, ()), low])
    value = int(seed)
    words = np.array([value >> 32 & 0xFFFFFFFF if aval.dtype.itemsize == 8 else 0, value & 0xFFFFFFFF], _UINT32)
    xp = library()
    return words if xp is np else xp.asarray(words)


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """The key of an integer seed: uint32 of shape (2,), the 64 bits of the seed.

    Raises TypeError for a seed that is no integer or no scalar, OverflowError for one beyond 64 bits. `impl` and `dtype` are
    JAX's; "threefry2x32" is all there is. JAX's `key` gives an array of an extended dtype and shape (); this is its `PRNGKey`.

    >>> import funcad
    >>> funcad.random.key(42)
    array([ 0, 42], dtype=uint32)
    """
    _check_implementation("key", impl, dtype)
    return _make("key", seed)


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """The key of an integer seed, as `key`.

    `impl` may name Threefry only, else ValueError.

    >>> import funcad
    >>> funcad.random.PRNGKey(42)
    array([ 0, 42], dtype=uint32)
    """
    _check_implementation("PRNGKey", impl)
    return _make("PRNGKey", seed)


def split(key: Any, num: Any = 2) -> Any:
    """New keys from one: shape (num, 2), or (*num, 2) for a tuple. JAX's numbers.

    Raises for anything but one key; for many keys use `funcad.vmap`.

    >>> import funcad
    >>> funcad.random.split(funcad.random.key(0))
    array([[1797259609, 2579123966],
           [ 928981903, 3453687069]], dtype=uint32)
    """
    check_key("split", key)
    return draw(key, "keys", _UINT32, shape_argument(num))


def fold_in(key: Any, data: Any) -> Any:
    """The key that follows from a key and an integer (as uint32), a loop's counter say. JAX's numbers.

    `data` is that integer, which may be traced.

    >>> import funcad
    >>> funcad.random.fold_in(funcad.random.key(0), 7)
    array([2716826189,  292468403], dtype=uint32)
    """
    check_key("fold_in", key)
    if shape_of(data) != ():
        raise TypeError(f"fold_in takes one integer, got shape {shape_of(data)}; for a key per number use funcad.vmap")
    if aval_of(data).dtype.kind not in "iub":
        raise TypeError(f"fold_in takes an integer, got {aval_of(data).dtype}")
    if type(data) is Tracer:
        return fold(key, convert(data, _UINT32))
    return fold(key, np.uint32(data) if type(data) is int else np.uint32(int(data) & 0xFFFFFFFF))


def key_data(keys: Any) -> Any:
    """The words of keys: the keys themselves, uint32 with 2 as the last length.

    >>> import funcad
    >>> funcad.random.key_data(funcad.random.key(1))
    array([0, 1], dtype=uint32)
    """
    return _checked("key_data", keys)


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """Keys from their words: `key_bits_array` itself, which must be uint32 with 2 as the last length; `impl` as of `key`.

    >>> import numpy as np, funcad
    >>> funcad.random.wrap_key_data(np.array([0, 1], np.uint32))
    array([0, 1], dtype=uint32)
    """
    _check_implementation("wrap_key_data", impl, dtype)
    return _checked("wrap_key_data", key_bits_array)


def _checked(name: str, keys: Any) -> Any:
    aval = aval_of(keys)
    if aval.dtype != _UINT32 or aval.shape[-1:] != (2,):
        raise TypeError(f"{name}: keys are uint32 arrays of shape (..., 2), got {aval.dtype} of shape {aval.shape}")
    return keys


def key_impl(keys: Any) -> str:
    """The name of the generator that keys belong to.

    >>> import funcad
    >>> funcad.random.key_impl(funcad.random.key(0))
    'threefry2x32'
    """
    _checked("key_impl", keys)
    return _NAME


def key_dtype(impl_spec: Any = None) -> np.dtype:
    """The dtype of keys.

    `impl_spec` may name Threefry only.

    >>> import funcad
    >>> funcad.random.key_dtype()
    dtype('uint32')
    """
    _check_implementation("key_dtype", impl_spec)
    return _UINT32


def clone(key: Any) -> Any:
    """The same key, for a second use on purpose.

    >>> import funcad
    >>> funcad.random.clone(funcad.random.key(3))
    array([0, 3], dtype=uint32)
    """
    return _checked("clone", key)
