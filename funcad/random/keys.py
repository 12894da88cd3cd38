"""Keys, and what is drawn from them first: bits, uniform and normal numbers, integers.

A key is a plain array, uint32 of shape (2,): data that passes through every transform. The same key gives the same numbers at
every use, so split it first: one use per key.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from funcad.configuration import also_says
from funcad.host.devices import device_in_use, namespace_of, place
from funcad.host.real_types import is_a, native_dtype
from funcad.ir.aval import aval_of, dtype_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.promote import library, shape_argument
from funcad.primitives.conversion import convert, make_complex, stop_gradient
from funcad.primitives.placement import capture_as_inputs
from funcad.primitives.random_bits import draw, erf_inverse, fold
from funcad.primitives.special import erf

# -- what every draw does first: check the key, settle shape and dtype, bring the parameters to them
#
# Trap: a parameter that is a NumPy array beside a traced key must become an input of the program being traced
# (`capture_as_inputs`), or what is computed from it now would be frozen.


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
    try:
        found = native_dtype(dtype)
    except TypeError:
        how = f"the shape is one argument, as in {name}(key, (3, 2)); give what follows it by name"
        raise TypeError(f"{name}: dtype must be a dtype, got {dtype!r}.\nRemedy: {how}.") from None
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
    for function in functions:
        code = getattr(function, "__code__", None)
        names = code.co_varnames[: code.co_argcount] if code is not None else ()
        if names[:1] != ("key",) or "shape" not in names:
            continue
        defaults = dict(zip(reversed(names), reversed(function.__defaults__ or ())))
        none = "None: that of the parameters together." if defaults.get("shape", ()) is None else ""
        dtype = "`dtype` is that of its elements." if "dtype" in names else ""
        more = " ".join(filter(None, [none, dtype]))
        also_says(
            function,
            "`key` comes from `funcad.random.key` or `split`, else TypeError. `shape`, a tuple of ints, is the result's.\n"
            + more,
        )


# -- keys: making them, splitting them, folding numbers into them


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


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> np.ndarray[Any, Any]:
    """The key of a seed, from which all random numbers come.

    Parameters
    ----------
    seed : int
        Up to 64 bits; it may be traced.
    impl, dtype : optional
        For JAX's sake: "threefry2x32" is all there is.

    Returns
    -------
    array of shape (2,) and dtype uint32
        The 64 bits of the seed.

    Raises
    ------
    TypeError
        The seed is no integer of shape ().
    OverflowError
        The seed has more than 64 bits.

    Notes
    -----
    A key gives the same numbers whenever it is used: take a new one (`split`) for each draw. `numpy.random` keeps a
    hidden state instead, which no transformation can follow. `jax.random.key` gives an array of an extended dtype and
    shape (); this is its `PRNGKey`.

    Examples
    --------
    >>> import funcad
    >>> funcad.random.key(42)
    array([ 0, 42], dtype=uint32)
    >>> bool((funcad.random.key(0) == funcad.random.key(0, impl="threefry2x32")).all())
    True

    See also
    --------
    split, fold_in, normal
    """
    _check_implementation("key", impl, dtype)
    return _make("key", seed)


def PRNGKey(seed: Any, *, impl: Any = None) -> np.ndarray[Any, Any]:
    """The key of an integer seed, as `key`.

    `impl` may name Threefry only, else ValueError.

    >>> import funcad
    >>> funcad.random.PRNGKey(42)
    array([ 0, 42], dtype=uint32)
    """
    _check_implementation("PRNGKey", impl)
    return _make("PRNGKey", seed)


def split(key: Any, num: Any = 2) -> np.ndarray[Any, Any]:
    """New keys from one.

    Parameters
    ----------
    key : array of shape (2,) and dtype uint32
        Do not use it again.
    num : int or tuple of ints
        How many keys; 2 by default.

    Returns
    -------
    array of shape (num, 2) and dtype uint32
        (*num, 2) for a tuple.

    Raises
    ------
    TypeError, ValueError
        It is no key, or it is many: for these use `vmap`.

    Notes
    -----
    The numbers are those of `jax.random.split`.

    Examples
    --------
    >>> import funcad
    >>> first, second = funcad.random.split(funcad.random.key(0))
    >>> first
    array([1797259609, 2579123966], dtype=uint32)
    >>> funcad.random.split(funcad.random.key(0), (2, 3)).shape
    (2, 3, 2)

    See also
    --------
    fold_in, key
    """
    check_key("split", key)
    return draw(key, "keys", _UINT32, shape_argument(num))


def fold_in(key: Any, data: Any) -> np.ndarray[Any, Any]:
    """The key that follows from a key and an integer, such as the number of a step.

    Parameters
    ----------
    key : array of shape (2,) and dtype uint32
        A key; it can be used again with other integers.
    data : int
        The integer, taken as uint32; it may be traced.

    Returns
    -------
    array of shape (2,) and dtype uint32
        A key.

    Raises
    ------
    TypeError
        It is not one key, or `data` is no integer.

    Notes
    -----
    The numbers are those of `jax.random.fold_in`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.random.fold_in(funcad.random.key(0), 7)
    array([2716826189,  292468403], dtype=uint32)
    >>> keys = funcad.vmap(lambda i: funcad.random.fold_in(funcad.random.key(0), i))(np.arange(4))
    >>> keys.shape
    (4, 2)

    See also
    --------
    split, key
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


# -- bits, uniform and normal numbers, integers: what the other distributions are made of


def _uint(itemsize: int) -> np.dtype:
    return np.dtype(f"u{itemsize}")


def bits(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Uniform random bits, as unsigned integers: uint64 unless dtype says otherwise. Equal to JAX's, bit for bit.

    >>> import funcad
    >>> funcad.random.bits(funcad.random.key(0), (2,), "uint8")
    array([167, 146], dtype=uint8)
    """
    check_key("bits", key)
    found = native_dtype(np.uint64 if dtype is None else dtype)
    if found.kind != "u":
        raise ValueError(f"bits: dtype must be an unsigned integer dtype, got {found}")
    return draw(key, "bits", found, shape_argument(shape))


def uniform(key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0) -> np.ndarray[Any, Any]:
    """Uniform numbers in [minval, maxval).

    Parameters
    ----------
    key : array of shape (2,) and dtype uint32
        From `funcad.random.key` or `split`.
    shape : tuple of ints
        The shape of the result.
    dtype : dtype, optional
        Of its elements: float64 by default.
    minval, maxval : float or array
        The bounds, which broadcast to `shape` and may be traced.

    Returns
    -------
    array
        Of that shape and dtype.

    Raises
    ------
    TypeError
        `key` is no key.
    ValueError
        The dtype is no floating one.

    Notes
    -----
    The numbers are those of `jax.random.uniform`, bit for bit. The result is differentiable in the bounds.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.random.uniform(funcad.random.key(0), (2,))
    array([0.41845711, 0.21629545])
    >>> funcad.random.uniform(funcad.random.key(0), (2,), minval=10.0, maxval=np.array([20.0, 11.0])).round(6)
    array([14.184571, 10.216295])

    See also
    --------
    normal, randint
    """
    check_key("uniform", key)
    dtype = float_dtype("uniform", dtype)
    shape = shape_argument(shape)
    u = draw(key, "unit", dtype, shape)
    if type(minval) in _PLAIN and type(maxval) in _PLAIN and minval == 0 and maxval == 1:
        return u
    low, high = parameters("uniform", key, dtype, minval, maxval)
    shape_of_draw("uniform", shape, low, high)
    if type(u) is np.ndarray and type(low) is not Tracer and type(high) is not Tracer:
        u *= high - low  # in place: u is ours
        u += low
        return np.maximum(low, u, out=u)
    return np.maximum(low, u * (high - low) + low)


_PLAIN = (int, float)


def normal(key: Any, shape: Any = (), dtype: Any = None) -> np.ndarray[Any, Any]:
    """Standard normal numbers.

    Parameters
    ----------
    key : array of shape (2,) and dtype uint32
        From `funcad.random.key` or `split`.
    shape : tuple of ints
        The shape of the result.
    dtype : dtype, optional
        Of its elements: float64 by default. Complex numbers have variance 1, too.

    Returns
    -------
    array
        Of that shape and dtype.

    Raises
    ------
    TypeError
        `key` is no key.
    ValueError
        The dtype is no floating or complex one.

    Notes
    -----
    The numbers are JAX's: of float64, seven of eight are equal bit for bit, the others to a relative 1e-14. For a mean
    and a standard deviation write `mean + std * normal(key)`, which is differentiable in both.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.random.normal(funcad.random.key(0), (3,)).round(6)
    array([-0.205842, -0.784766,  1.816087])
    >>> funcad.random.normal(funcad.random.key(0), (2, 4), np.float32).dtype
    dtype('float32')

    See also
    --------
    uniform, multivariate_normal, split
    """
    check_key("normal", key)
    dtype = float_dtype("normal", dtype, "fc")
    shape = shape_argument(shape)
    if dtype.kind == "f":
        return draw(key, "normal", dtype, shape)
    keys, half = split(key), np.dtype(f"f{dtype.itemsize // 2}")
    root = half.type(np.sqrt(2))
    return make_complex(draw(keys[0], "normal", half, shape) / root, draw(keys[1], "normal", half, shape) / root)


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """Integers in [minval, maxval).

    Parameters
    ----------
    key : array of shape (2,) and dtype uint32
        From `funcad.random.key` or `split`.
    shape : tuple of ints
        The shape of the result.
    minval, maxval : int or array of ints
        The bounds, which broadcast to `shape`. Where maxval <= minval the result is minval.
    dtype : dtype, optional
        Of its elements: int64 by default.

    Returns
    -------
    array
        Of that shape and dtype.

    Raises
    ------
    TypeError
        `key` is no key, or a bound or the dtype is not of integers.

    Notes
    -----
    The numbers are JAX's. As there, a span that is no power of two is reduced by a remainder of twice as many bits, so
    the bias is negligible, not nil.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.random.randint(funcad.random.key(0), (5,), 0, 10)
    array([5, 1, 5, 7, 3])
    >>> funcad.random.randint(funcad.random.key(0), (3,), 0, np.array([1, 10, 100]), dtype=np.int32).dtype
    dtype('int32')

    See also
    --------
    uniform, choice, permutation
    """
    check_key("randint", key)
    found = native_dtype(int if dtype is None else dtype)
    if found.kind not in "iu":
        raise TypeError(f"randint: dtype must be an integer dtype, got {found}")
    shape = shape_argument(shape)
    wide = found if found.itemsize >= 4 else np.dtype(np.int32)
    limits = np.iinfo(found)
    if type(minval) is int and type(maxval) is int:
        low = min(max(minval, int(limits.min)), int(limits.max))
        high = min(max(maxval, int(limits.min)), int(limits.max) + 1)
        span: Any = max(high - low, 1)
        modulus = 1 << 8 * wide.itemsize
        rest = (1 << 4 * wide.itemsize) % span
        rest = rest * rest % modulus % span
        unsigned = _uint(wide.itemsize).type
        start = wide.type(low)
        if span == modulus:  # all there is
            offset = draw(split(key)[1], "bits", _uint(wide.itemsize), shape)
        else:
            offset = _offsets(key, shape, wide, unsigned(span), unsigned(rest) if rest else None)
    else:
        start, span, rest = _bounds(key, shape, minval, maxval, wide, limits)
        offset = _offsets(key, shape, wide, span, rest)
    with np.errstate(over="ignore"):
        result = start + offset.astype(wide)
    return result if wide == found else result.astype(found)


def _offsets(key: Any, shape: tuple, wide: np.dtype, span: Any, rest: Any) -> Any:
    """Numbers below span, from twice as many bits; `rest` is what the upper half counts for, None for nothing."""
    keys = split(key)
    lower = draw(keys[1], "bits", _uint(wide.itemsize), shape) % span
    if rest is None:
        return lower
    with np.errstate(over="ignore"):
        return (draw(keys[0], "bits", _uint(wide.itemsize), shape) % span * rest + lower) % span


def _bounds(key: Any, shape: tuple, minval: Any, maxval: Any, wide: np.dtype, limits: Any) -> tuple[Any, Any, Any]:
    """The lower bound, the span, and the upper half's weight, of bounds that may be arrays and traced."""
    bounds = []
    for v in together("randint", key, minval, maxval):
        kind = dtype_of(v).kind
        if kind not in "iub":
            raise TypeError(f"randint: minval and maxval must be integers, got {dtype_of(v)}")
        bounds.append(v)
    shape_of_draw("randint", shape, *bounds)
    low, high = bounds
    unsigned = _uint(wide.itemsize)
    above = high > int(limits.max) if dtype_of(high).itemsize >= wide.itemsize else False
    low, high = (_clipped(v, limits, wide) for v in bounds)
    is_empty = high <= low if above is False else (high <= low) & ~above
    with np.errstate(over="ignore"):
        span = (high - low).astype(unsigned)
        if above is not False:
            span = span + above.astype(unsigned)
        span = np.where(is_empty, unsigned.type(1), span)
        rest = unsigned.type(1 << 4 * wide.itemsize) % span
        rest = rest * rest % span
    return low, span, rest


def _clipped(v: Any, limits: Any, wide: np.dtype) -> Any:
    own = np.iinfo(dtype_of(v)) if dtype_of(v).kind != "b" else np.iinfo(np.int8)
    low, high = max(int(limits.min), int(own.min)), min(int(limits.max), int(own.max))
    v = convert(v, wide) if dtype_of(v).kind == "b" else v
    v = np.clip(v, low, high)
    return convert(v, wide) if type(v) is Tracer else v.astype(wide)


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low") -> np.ndarray[Any, Any]:
    """True with probability p.

    Parameters
    ----------
    key : array of shape (2,) and dtype uint32
        From `funcad.random.key` or `split`.
    p : float or array of floats
        The probability, which broadcasts to `shape`.
    shape : tuple of ints, optional
        The shape of the result: that of p by default.
    mode : {"low", "high"}
        "high" uses twice as many bits, for small p.

    Returns
    -------
    array of bools

    Raises
    ------
    TypeError
        `key` is no key, or p is not of floats.

    Notes
    -----
    The numbers are JAX's. There is no derivative with respect to p.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.random.bernoulli(funcad.random.key(0), 0.5, (4,))
    array([ True,  True, False, False])
    >>> funcad.random.bernoulli(funcad.random.key(0), np.array([0.0, 1.0]))
    array([False,  True])

    See also
    --------
    uniform, categorical
    """
    check_key("bernoulli", key)
    if mode not in ("high", "low"):
        raise ValueError(f"bernoulli: mode must be 'high' or 'low', got {mode!r}")
    dtype = dtype_of(p) if type(p) is Tracer or hasattr(p, "dtype") else np.asarray(p).dtype
    if dtype.kind != "f":
        raise TypeError(f"bernoulli: the probability p must be a float, got {dtype}")
    (p,) = parameters("bernoulli", key, dtype, p)
    shape = shape_of_draw("bernoulli", shape, p)
    p = stop_gradient(p) if type(p) is Tracer else p
    if mode == "low":
        return draw(key, "unit", dtype, shape) < p
    u = draw(key, "unit", dtype, (2, *shape))
    return u[1] * dtype.type(2.0 ** -np.finfo(dtype).nmant) < p - u[0]


def rademacher(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Signs: 1 and -1 with equal probability, int64 unless dtype says otherwise. Equal to JAX's.

    >>> import funcad
    >>> funcad.random.rademacher(funcad.random.key(0), (4,))
    array([ 1,  1, -1, -1])
    """
    check_key("rademacher", key)
    found = native_dtype(int if dtype is None else dtype)
    heads = bernoulli(key, 0.5, shape_argument(shape)).astype(found)
    return (2 * heads - 1).astype(found)


def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Standard normal numbers between lower and upper; both broadcast to `shape`. JAX's, to the last bits.

    Differentiable in both bounds: by the quantile function, at a fixed uniform number.

    >>> import funcad
    >>> funcad.random.truncated_normal(funcad.random.key(0), -2.0, 2.0, (3,)).round(6)
    array([-0.196352, -0.741471,  1.590591])
    """
    check_key("truncated_normal", key)
    dtype = float_dtype("truncated_normal", dtype)
    low, high = parameters("truncated_normal", key, dtype, lower, upper)
    shape = shape_of_draw("truncated_normal", shape, low, high)
    root = dtype.type(math.sqrt(2))
    u = uniform(key, shape, dtype, erf(low / root), erf(high / root))
    if np.ndim(u) == 0 and type(u) is not Tracer:
        u = dtype.type(u)
    out = root * erf_inverse(u)
    inside = (np.nextafter(_constant(low), dtype.type(np.inf)), np.nextafter(_constant(high), dtype.type(-np.inf)))
    return np.clip(out, *inside)


def _constant(x: Any) -> Any:
    return stop_gradient(x) if type(x) is Tracer else x
