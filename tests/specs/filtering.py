"""Recursive filters: funcad/primitives/fourier.py."""

from __future__ import annotations

import numpy as np
import scipy.ndimage
import scipy.signal

from funcad.primitives import fourier as f
from tests.specs import spec


def lines(v, a):
    return np.stack([scipy.signal.lfilter([1.0], c, x) for x, c in zip(v, a)])


A = np.array([[1.5, -0.4, 0.3], [0.8, 0.2, -0.1]])


def splines(order, mode, axis=1, shape=(2, 7)):
    return spec(
        f.spline_filter_p,
        f.spline_filter,
        [lambda rng: (rng.normal(size=shape),)],
        params=dict(order=order, axis=axis, mode=mode),
        reference=lambda x: scipy.ndimage.spline_filter1d(x, order, axis, mode=mode),
        backends=("numpy",),  # CuPy has it, under conditions of its own: refused, with the remedy
    )


SPECS = [
    spec(
        f.all_pole,
        f.all_pole,
        [
            lambda rng: (rng.normal(size=(2, 2, 5)), A.copy()),
            lambda rng: (rng.normal(size=(1, 3, 2)), A[:1].copy()),
            lambda rng: (rng.normal(size=(1, 2, 3)), A[:1, :1].copy()),
        ],
        reference=lines,
    ),
    *[splines(order, mode) for order in (2, 3, 4, 5) for mode in ("mirror", "reflect", "grid-wrap")],
    splines(3, "mirror", 0, (2, 3)),
    splines(3, "mirror", 0, (1, 3)),
]
