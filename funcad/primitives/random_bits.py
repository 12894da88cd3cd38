"""Random bits, and numbers made of them.

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

from math import pi, sqrt
from typing import Any

import numpy as np

from funcad.ir.aval import Aval
from funcad.ir.primitive import Primitive
from funcad.primitives.arithmetic import mul, square
from funcad.primitives.families import elementwise
from funcad.primitives.shape import batched_with
from funcad.primitives.transcendental import exp

# -- the inverse error function by polynomials: what turns uniform numbers into normal ones
#
# Idea: erfinv(x) = x p(w) with w = -log(1 - x^2), one polynomial p for the middle and others in sqrt(w) for the tails, from M.
# Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011). JAX computes the same polynomials, so seeded normal
# numbers agree with JAX's to the last bits, which scipy.special.erfinv (more accurate in the far tails) would not give. No
# SciPy is loaded, and everything is done in place on the caller's buffers. Trap: float16 is computed in float32.


_MIDDLE = {
    8: (6.25, 3.125, (
        -3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18, 1.115787767802518096e-17,
        -1.333171662854620906e-16, 2.0972767875968561637e-17, 6.6376381343583238325e-15, -4.0545662729752068639e-14,
        -8.1519341976054721522e-14, 2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11,
        1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08, 4.2347877827932403518e-07,
        -1.3654692000834678645e-06, -1.3882523362786468719e-05, 0.0001867342080340571352, -0.00074070253416626697512,
        -0.0060336708714301490533, 0.24015818242558961693, 1.6536545626831027356,
    )),
    4: (5.0, 2.5, (
        2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
        0.246640727, 1.50140941,
    )),
}  # fmt: skip
_TAILS = {  # (from this w on, subtracted from sqrt(w), coefficients)
    8: [
        (6.25, 3.25, (
            2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07, 1.8239629214389227755e-08,
            1.5027403968909827627e-06, -4.013867526981545969e-06, 2.9234449089955446044e-06, 1.2475304481671778723e-05,
            -4.7318229009055733981e-05, 6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
            0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066, -0.0037512085075692412107,
            0.005370914553590063617, 1.0052589676941592334, 3.0838856104922207635,
        )),
        (16.0, 5.0, (
            -2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09, -3.7894654401267369937e-09,
            7.6157012080783393804e-09, -1.4960026627149240478e-08, 2.9147953450901080826e-08, -6.7711997758452339498e-08,
            2.2900482228026654717e-07, -9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05,
            7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026, 1.0103004648645343977,
            4.8499064014085844221,
        )),
    ],
    4: [
        (5.0, 3.0, (
            -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
            1.00167406, 2.83297682,
        )),
    ],
}  # fmt: skip


def polynomials(size: int) -> tuple[tuple, list[tuple]]:
    """Of floats of so many bytes: the middle's (from this w on it is a tail, centre, coefficients), and those of the tails."""
    return _MIDDLE[size], _TAILS[size]


def _arrays(kind: Any, coefficients: tuple) -> tuple:
    return tuple([np.array(c, kind) for c in coefficients])


# rank-0 arrays cost NumPy's ufuncs less than scalars do
_CONSTANTS = {n: _arrays(f"f{n}", (1.0, _MIDDLE[n][1], *_MIDDLE[n][2])) for n in (4, 8)}


_FEW_ELEMENTS = 4  # elements for which Python's floats are quicker than NumPy's calls; the rounding is the same


def _horner(x: float, w: float) -> float:
    _, centre, (total, *rest) = _MIDDLE[8]
    w -= centre
    for c in rest:
        total = total * w + c
    return x * total


def _polynomial(coefficients: Any, w: Any) -> Any:
    total = w * coefficients[0]
    total += coefficients[1]
    for c in coefficients[2:]:
        total *= w
        total += c
    return total


def invert_in_place(x: np.ndarray) -> None:
    """x = erfinv(x) for a contiguous float32 or float64 array of NumPy's, values in [-1, 1]; never warns if inside."""
    size = x.dtype.itemsize
    one, centre, first, second, *rest = _CONSTANTS[size]
    w = x * x
    np.subtract(one, w, w)
    np.log(w, w)
    np.negative(w, w)
    if x.size <= _FEW_ELEMENTS and size == 8 and w.max(initial=0.0) < _MIDDLE[8][0]:
        x[:] = [_horner(u, v) for u, v in zip(x.tolist(), w.tolist())]
        return
    (far,) = np.nonzero(w >= _MIDDLE[size][0])
    far_w, far_x = w[far], x[far]
    np.subtract(w, centre, w)
    total = w * first
    np.add(total, second, total)
    for c in rest:
        np.multiply(total, w, total)
        np.add(total, c, total)
    np.multiply(x, total, x)
    if far.size:
        x[far] = far_x * _tail(np, far_w, size)


def _tail(xp: Any, w: Any, size: int) -> Any:
    root = xp.sqrt(w)
    (_, centre, coefficients), *further = _TAILS[size]
    total = _polynomial(coefficients, root - centre)
    for start, centre, coefficients in further:
        total = xp.where(w < start, total, _polynomial(coefficients, root - centre))
    return xp.where(xp.isinf(w), np.array(np.inf, w.dtype)[()], total)


def _impl(xp: Any, x: Any) -> Any:
    dtype = x.dtype if hasattr(x, "dtype") else np.dtype(float)
    if xp is np:
        with np.errstate(divide="ignore", invalid="ignore"):
            flat = np.array(x, np.float32 if dtype.itemsize < 4 else dtype, order="C").reshape(-1)
            invert_in_place(flat)
        return flat.reshape(np.shape(x)).astype(dtype, copy=False)[()]
    x = x.astype(np.float32) if dtype.itemsize < 4 else x
    size = x.dtype.itemsize
    w = -xp.log(1 - x * x)
    middle = _polynomial(_MIDDLE[size][2], w - _MIDDLE[size][1])
    return (x * xp.where(w < _MIDDLE[size][0], middle, _tail(xp, w, size))).astype(dtype)


# erfinv(x), with the rounding that JAX's has; scipy.special.erfinv's is better in the far tails.
erf_inverse = elementwise("erf_inverse", _impl, [lambda t, out, x: mul(mul(sqrt(pi) / 2, exp(square(out))), t)])


# -- random bits: Threefry-2x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), counter by counter


TILE = 1 << 15
_FEW_HASHES = 6  # hashes that Python's own integers do faster
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
    if xp is np and low.size <= _FEW_HASHES:
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
    if n <= _FEW_HASHES:
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
    batch=batched_with(lambda: fold),
)
