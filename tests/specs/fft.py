"""Fourier, cosine and sine transforms: funcad/primitives/fourier.py."""

from __future__ import annotations

import numpy as np
import scipy.fft

from funcad.primitives import fourier as f
from tests.specs import spec


def fft(kind, *, axes, real, shape=(3, 4), n=0, norm="backward"):
    def sample(rng):
        x = rng.normal(size=shape)
        return (x if real else x + 1j * rng.normal(size=shape),)

    def reference(x):
        if kind in ("rfft", "irfft"):
            return getattr(np.fft, kind)(x, n, axes[0], norm)
        return getattr(np.fft, kind + "n")(x, axes=axes, norm=norm)

    return spec(
        f.fft_p, f.fft, [sample], params=dict(kind=kind, axes=axes, n=n, norm=norm), reference=reference, tolerance=1e-6
    )


def trigonometric(kind, type, axis=0, norm="backward", orthogonalize=False, complex=False):
    def reference(x):
        return getattr(scipy.fft, kind)(x, type, axis=axis, norm=norm, orthogonalize=orthogonalize)

    return spec(
        f.trigonometric_p,
        f.trigonometric,
        [lambda rng: (rng.normal(size=(3, 4)) + (1j * rng.normal(size=(3, 4)) if complex else 0),)],
        params=dict(kind=kind, type=type, axis=axis, norm=norm, orthogonalize=orthogonalize),
        reference=reference,
    )


def by_hand(x, axis, ranges, factor):
    weights = np.ones(x.shape[axis])
    for start, stop in ranges:
        weights[start:stop] = factor
    return x * weights.reshape([-1 if i == axis else 1 for i in range(x.ndim)])


WEIGHTED = dict(axis=1, ranges=((0, 1), (2, 3)), factor=0.5)

SPECS = [
    spec(
        f.weighted_p,
        f.weighted,
        [lambda rng: (rng.normal(size=(2, 3)),), lambda rng: (rng.normal(size=(2, 0)) + 0j,)],
        params=WEIGHTED,
        reference=lambda x: by_hand(x, **WEIGHTED),
    ),
    *[fft(kind, axes=(1,), real=real) for kind in ("fft", "ifft") for real in (True, False)],
    fft("fft", axes=(0, 1), real=False, norm="ortho"),
    fft("ifft", axes=(2, 0), real=True, shape=(2, 1, 3), norm="forward"),
    *[
        fft("rfft", axes=(0,), real=True, shape=(n, 2), n=n, norm=norm)
        for n, norm in ((4, "backward"), (5, "ortho"), (1, "forward"))
    ],
    *[
        fft("irfft", axes=(1,), real=False, shape=(2, n // 2 + 1), n=n, norm=norm)
        for n, norm in ((4, "backward"), (5, "ortho"), (1, "forward"), (2, "forward"))
    ],
    *[
        trigonometric(kind, type, norm=norm)
        for kind in ("dct", "dst")
        for type, norm in zip((1, 2, 3, 4), ("backward", "forward") * 2)
    ],
    *[trigonometric(kind, type, 1, "ortho", True) for kind in ("dct", "dst") for type in (1, 2, 3, 4)],
    trigonometric("dct", 2, complex=True),
]
