"""Random bits: Threefry-2x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), counter by counter.

Idea: a key is two uint32 numbers; element i of whatever is drawn from it is a function of the key and of i alone, a keyed
hash of the 64-bit number i. So a draw does not depend on how it is batched or cut into tiles, `vmap` over keys is the same as
a loop, and `split` and `fold_in` are hashes too. The layout is JAX's with `jax_threefry_partitionable=True`: the same bits.

`draw_p(keys; kind, dtype, shape)` makes the array in one equation, `kind` being "bits", "unit" (floats in [0, 1)), "normal",
or "keys" (two words per element: split). Keys of shape (*lanes, 2) give (*lanes, *shape): that is the whole batching rule.

Invariant: NumPy works in tiles that stay in the cache and writes into its operands; the tile's floats are finished before the
next tile is begun. Up to 6 hashes are cheaper in Python's integers than in a hundred calls of NumPy's. Trap: rank-0 arrays as
constants cost NumPy less than scalars, but CuPy does not take them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import Aval
from funcad.ir.primitive import Primitive
from funcad.primitives.erf_inverse import erf_inverse, invert_in_place
from funcad.primitives.shape import broadcast_leading

__all__ = ["draw", "fold", "threefry", "hash_words", "finished", "draw_p"]
__all__ += ["MANTISSA", "PARITY", "ROTATIONS"]

TILE = 1 << 15
_FEW = 6  # hashes that Python's own integers do faster
_MASK = 0xFFFFFFFF
PARITY = 0x1BD11BDA
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_U4, _U8 = np.dtype(np.uint32), np.dtype(np.uint64)


def _shifts(make: Any) -> list:
    return [[(make(r), make(32 - r)) for r in row] for row in ROTATIONS]


_ARRAY_SHIFTS = _shifts(lambda r: np.array(r, _U4))
_SCALAR_SHIFTS = _shifts(_U4.type)


def _hash_integers(k0: int, k1: int, a: int, b: int) -> tuple[int, int]:
    """One hash, in Python's integers."""
    schedule = (k0, k1, k0 ^ k1 ^ PARITY)
    a = a + k0 & _MASK
    b = b + k1 & _MASK
    for i in range(5):
        for r in ROTATIONS[i & 1]:
            a = a + b & _MASK
            b = (b << r & _MASK | b >> 32 - r) ^ a
        a = a + schedule[(i + 1) % 3] & _MASK
        b = b + schedule[(i + 2) % 3] + i + 1 & _MASK
    return a, b


def _mix(xp: Any, a: Any, b: Any, k0: Any, k1: Any) -> None:
    """The rounds, in place on arrays a and b, which hold the counts *plus* k0 and k1; keys are integers or arrays."""
    t = xp.empty_like(a)
    shifts = _ARRAY_SHIFTS if xp is np else _SCALAR_SHIFTS
    if type(k0) is int:
        make = (lambda n: np.array(n & _MASK, _U4)) if xp is np else (lambda n: _U4.type(n & _MASK))
        words = (k0, k1, k0 ^ k1 ^ PARITY)
        firsts = [make(words[(i + 1) % 3]) for i in range(5)]
        seconds = [make(words[(i + 2) % 3] + i + 1) for i in range(5)]
    else:
        words = (k0, k1, k0 ^ k1 ^ _U4.type(PARITY))
        firsts = [words[(i + 1) % 3] for i in range(5)]
        seconds = [words[(i + 2) % 3] + _U4.type(i + 1) for i in range(5)]
    add, left, right, either, differ = xp.add, xp.left_shift, xp.right_shift, xp.bitwise_or, xp.bitwise_xor
    for i in range(5):
        for r, s in shifts[i & 1]:
            add(a, b, a)
            left(b, r, t)
            right(b, s, b)
            either(b, t, b)
            differ(b, a, b)
        add(a, firsts[i], a)
        add(b, seconds[i], b)


def threefry(xp: Any, k0: Any, k1: Any, low: Any, high: int = 0) -> tuple[Any, Any]:
    """The two hashed words of the counts (high, low), elementwise; k0, k1 and low are uint32 arrays of one shape."""
    if xp is np and low.size <= _FEW:
        rows = zip(k0.ravel().tolist(), k1.ravel().tolist(), low.ravel().tolist())
        found = np.array([_hash_integers(p, q, high, n) for p, q, n in rows], _U4).reshape(-1, 2)
        return found[:, 0].reshape(low.shape), found[:, 1].reshape(low.shape)
    a = k0 + _U4.type(high)
    b = k1 + low
    _mix(xp, a, b, k0, k1)
    return a, b


def hash_words(xp: Any, keys: tuple, count: int) -> tuple[Any, Any]:
    """The words of one count under many keys, given and returned as their two words: key number `count` of each split."""
    return threefry(xp, *keys, xp.full(keys[0].shape, count, _U4))


# -- from words to what is drawn

_ONES = {2: 0x3C00, 4: 0x3F800000, 8: 0x3FF0000000000000}  # the bits of 1.0
MANTISSA = {2: 10, 4: 23, 8: 52}
_UNIT = {n: (np.array(8 * n - m, f"u{n}"), np.array(_ONES[n], f"u{n}"), np.array(1, f"f{n}")) for n, m in MANTISSA.items()}
_BELOW = {n: np.nextafter(np.array(-1, f"f{n}"), np.array(0, f"f{n}")) for n in MANTISSA}  # of normal: from here to 1
_TWO = {n: np.array(2, f"f{n}") for n in MANTISSA}
_ROOT = {n: np.array(np.sqrt(2), f"f{n}") for n in MANTISSA}
_SWAP = np.little_endian  # the low word comes first


def _join(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Words into unsigned integers of out's size; a and b are used up."""
    if out.dtype.itemsize == 8:
        words = out.view(_U4).reshape(-1, 2)
        words[:, 1 if _SWAP else 0] = a
        words[:, 0 if _SWAP else 1] = b
    else:
        np.bitwise_xor(a, b, a)
        out[...] = a


def _to_units(out: np.ndarray, bits: np.ndarray) -> None:
    """Floats in [0, 1) from their bits, in place: `bits` is a view of `out`."""
    shift, one_bits, one = _UNIT[out.dtype.itemsize]
    np.right_shift(bits, shift, bits)
    np.bitwise_or(bits, one_bits, bits)
    np.subtract(out, one, out)


def _to_normals(out: np.ndarray) -> None:
    """Normal numbers from floats in [0, 1), in place."""
    size = out.dtype.itemsize
    np.multiply(out, _TWO[size], out)
    np.add(out, _BELOW[size], out)
    if size == 2:
        wide = out.astype(np.float32)
        invert_in_place(wide)
        out[...] = wide
    else:
        invert_in_place(out)
    np.multiply(out, _ROOT[size], out)


def _finish(a: np.ndarray, b: np.ndarray, kind: str, out: np.ndarray) -> None:
    if kind == "keys":
        out[:, 0] = a
        out[:, 1] = b
    elif kind == "bits":
        _join(a, b, out)
    else:
        bits = out.view(f"u{out.dtype.itemsize}")
        _join(a, b, bits)
        _to_units(out, bits)
        if kind == "normal":
            _to_normals(out)


def finished(xp: Any, a: Any, b: Any, kind: str, dtype: np.dtype) -> Any:
    """Bits, units or normals from words, as a new array."""
    size = dtype.itemsize
    if xp is np:
        out = np.empty(a.shape, dtype)
        _finish(a, b, kind, out)
        return out
    bits = a.astype(_U8) << _U8.type(32) | b if size == 8 else (a ^ b).astype(f"u{size}")
    if kind == "bits":
        return bits
    scalar = bits.dtype.type
    out = ((bits >> scalar(8 * size - MANTISSA[size])) | scalar(_ONES[size])).view(dtype) - dtype.type(1)
    return out if kind == "unit" else erf_inverse(out * dtype.type(2) + _BELOW[size][()]) * _ROOT[size][()]


_COUNTS = np.arange(TILE, dtype=_U4)


def _fill(out: np.ndarray, k0: int, k1: int, kind: str) -> None:
    """Draw len(out) elements from one key."""
    n = len(out)
    if n <= _FEW:
        a, b = np.array([_hash_integers(k0, k1, 0, i) for i in range(n)], _U4).reshape(-1, 2).T
        _finish(np.ascontiguousarray(a), b, kind, out)
        return
    if n <= TILE:
        a, b = np.full(n, k0, _U4), _COUNTS[:n] + np.array(k1, _U4)
        _mix(np, a, b, k0, k1)
        _finish(a, b, kind, out)
        return
    a_tile, b_tile = np.empty(TILE, _U4), np.empty(TILE, _U4)
    for start in range(0, n, TILE):
        part = out[start : start + TILE]
        a, b = a_tile[: len(part)], b_tile[: len(part)]
        a.fill(k0 + (start >> 32) & _MASK)
        np.add(_COUNTS[: len(part)], np.array(k1 + start & _MASK, _U4), b)
        _mix(np, a, b, k0, k1)
        _finish(a, b, kind, part)


def _fill_lanes(out: np.ndarray, keys: np.ndarray, kind: str) -> None:
    """Draw a few elements from each of many keys: out has shape (lanes, n, ...)."""
    lanes, n = out.shape[:2]
    rows = max(1, TILE // n)
    for start in range(0, lanes, rows):
        part = out[start : start + rows]
        k0, k1 = (np.repeat(keys[start : start + rows, i], n) for i in (0, 1))
        counts = np.tile(_COUNTS[:n], len(part))
        _finish(*threefry(np, k0, k1, counts), kind, part.reshape((-1, *part.shape[2:])))


def _draw_impl(xp: Any, keys: Any, *, kind: str, dtype: np.dtype, shape: tuple) -> Any:
    n = 1
    for length in shape:
        n *= length
    words = (2,) if kind == "keys" else ()
    lanes = keys.shape[:-1]
    if xp is not np:
        return _draw_elsewhere(xp, keys, n, kind, dtype).reshape((*lanes, *shape, *words))
    if not lanes:
        flat = np.empty((n, *words), dtype)
        _fill(flat, *keys.tolist(), kind)
        return flat.reshape((*shape, *words)) if shape or words else flat[0]
    keys = keys.reshape(-1, 2)
    out = np.empty((len(keys), n, *words), dtype)
    if n > TILE // 8:
        for lane, (k0, k1) in zip(out, keys.tolist()):
            _fill(lane, k0, k1, kind)
    elif out.size:
        _fill_lanes(out, keys, kind)
    return out.reshape((*lanes, *shape, *words))


def _draw_elsewhere(xp: Any, keys: Any, n: int, kind: str, dtype: np.dtype) -> Any:
    """The same on a device: whole arrays, lanes in front."""
    keys = keys.reshape(-1, 2)
    k0, k1 = (xp.ascontiguousarray(keys[:, i : i + 1]) for i in (0, 1))
    counts = xp.arange(n, dtype=_U8)
    a = k0 + (counts >> _U8.type(32)).astype(_U4)
    b = k1 + (counts & _U8.type(_MASK)).astype(_U4)
    _mix(xp, a, b, k0, k1)
    return xp.stack([a, b], axis=-1) if kind == "keys" else finished(xp, a, b, kind, dtype)


def _draw_abstract(keys: Aval, *, kind: str, dtype: np.dtype, shape: tuple) -> Aval:
    if keys.dtype != _U4 or keys.shape[-1:] != (2,):
        raise TypeError(f"draw: keys must be uint32 with 2 as the last length, got {keys}")
    return Aval((*keys.shape[:-1], *shape, *((2,) if kind == "keys" else ())), dtype)


def _nothing(tangents: Any, out: Any, *primals: Any, **params: Any) -> Any:
    return None


draw_p = Primitive(
    "draw",
    _draw_impl,
    _draw_abstract,
    jvp=_nothing,
    batch=lambda size, args, batched, **params: (draw_p(args[0], **params), True),
)


def draw(key: Any, kind: str, dtype: np.dtype, shape: tuple) -> Any:
    """Random numbers of a kind from a key, or from each key of an array of keys; see the module's text."""
    return draw_p(key, kind=kind, dtype=dtype, shape=shape)


# -- fold_in


def _fold_impl(xp: Any, keys: Any, data: Any) -> Any:
    if xp is np:
        if keys.ndim == 1:
            return np.array(_hash_integers(*keys.tolist(), 0, int(data)), _U4)
        data = np.asarray(data)
    a, b = threefry(xp, keys[..., 0], keys[..., 1], data)
    return xp.stack([a, b], axis=-1)


def _fold_abstract(keys: Aval, data: Aval) -> Aval:
    if keys.dtype != _U4 or data.dtype != _U4 or keys.shape != (*data.shape, 2):
        raise TypeError(
            f"fold_in: needs keys of shape (*lanes, 2) and data of shape (*lanes,), both uint32, got {keys}, {data}"
        )
    return Aval(keys.shape, keys.dtype)


# The key number `data` (uint32) that follows from a key; lanes of keys go with lanes of data.
fold = Primitive(
    "fold_in",
    _fold_impl,
    _fold_abstract,
    jvp=_nothing,
    batch=lambda size, args, batched: (
        fold(*[a if b else broadcast_leading(a, size) for a, b in zip(args, batched)]),
        True,
    ),
)
