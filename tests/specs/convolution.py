"""Convolution: funcad/primitives/convolution.py."""

from __future__ import annotations

import numpy as np

from funcad.primitives import convolution as c
from tests.specs import spec


def _reference(strides, padding, x_dilation, kernel_dilation):
    """By loops, from the definition."""

    def at(x, group, n, channel, place):
        for axis, (p, (low, _), d) in enumerate(zip(place, padding, x_dilation)):
            p -= low
            if p < 0 or p % d or p // d >= x.shape[3 + axis]:
                return 0
            place = (*place[:axis], p // d, *place[axis + 1 :])
        return x[(group, n, channel, *place)]

    def convolve(x, kernel):
        out = c._spatial_shape(x.shape, kernel.shape, strides, padding, x_dilation, kernel_dilation)
        result = np.zeros((*x.shape[:2], kernel.shape[1], *out), x.dtype)
        for g, n, o, *where in np.ndindex(result.shape):
            for channel, *k in np.ndindex(kernel.shape[2:]):
                place = tuple(w * s + i * d for w, s, i, d in zip(where, strides, k, kernel_dilation))
                result[(g, n, o, *where)] += at(x, g, n, channel, place) * kernel[(g, o, channel, *k)]
        return result

    return convolve


def conv(x, kernel, strides, padding, x_dilation=None, kernel_dilation=None):
    ones = (1,) * len(strides)
    params = {
        "strides": strides,
        "padding": padding,
        "x_dilation": x_dilation or ones,
        "kernel_dilation": kernel_dilation or ones,
    }
    return spec(
        c.conv_p,
        c.conv,
        [lambda rng: (rng.normal(size=x), rng.normal(size=kernel))],
        params=params,
        reference=_reference(**params),
        dtypes=("f4", "c16", "i4"),
    )


SPECS = [
    conv((1, 2, 2, 4), (1, 2, 2, 3), (1,), ((1, 1),)),
    conv((2, 1, 2, 5), (2, 1, 2, 2), (2,), ((0, 1),)),
    conv((1, 2, 1, 3, 4), (1, 2, 1, 2, 2), (1, 2), ((0, 0), (1, 0))),
    conv((1, 1, 2, 3, 3), (1, 1, 2, 2, 2), (2, 1), ((1, 2), (-1, 1)), (2, 1), (1, 2)),
    conv((1, 2, 1, 5), (1, 1, 1, 2), (1,), ((-2, -1),), (2,)),
    conv((1, 2, 2), (1, 3, 2), (), ()),
    conv((1, 1, 1, 2), (1, 1, 1, 3), (1,), ((0, 0),)),  # no window fits
]
