"""The inverse error function by polynomials: what turns uniform numbers into normal ones.

Idea: erfinv(x) = x p(w) with w = -log(1 - x^2), one polynomial p for the middle and others in sqrt(w) for the tails, from
M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011). JAX computes the same polynomials, so seeded normal
numbers agree with JAX's to the last bits, which scipy.special.erfinv (more accurate in the far tails) would not give. No
SciPy is loaded, and everything is done in place on the caller's buffers. Trap: float16 is computed in float32.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np

from funcad.primitives.arithmetic import mul, square
from funcad.primitives.families import elementwise
from funcad.primitives.transcendental import exp

__all__ = ["erf_inverse", "invert_in_place", "polynomials"]

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


_FEW = 4  # elements for which Python's floats are quicker than NumPy's calls; the rounding is the same


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
    if x.size <= _FEW and size == 8 and w.max(initial=0.0) < _MIDDLE[8][0]:
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
