"""Conversion, complex parts, bits, stop_gradient: funcad/primitives/conversion.py."""

from __future__ import annotations

import numpy as np

from funcad.primitives import conversion as c
from tests.specs import spec

X = np.array([[-1.3, 0.4, 2.2], [0.7, -0.2, -3.1]])
Z = np.array([1.2 - 0.7j, -0.4 + 1.1j])


def _convert(dtype, samples, **fields):
    dtype = np.dtype(dtype)
    return spec(c.convert_p, c.convert, samples, params={"dtype": dtype}, dtypes=(), **fields)


SPECS = [
    _convert("f8", [(X.astype("f4"),), (Z,), (np.array([1, 2]),), (np.float32(1.5),)]),
    _convert("c16", [(X,), (Z.astype("c8"),), (np.array([True, False]),)]),
    _convert("i8", [(X,), (np.array([True, False]),)], order=0),
    _convert("?", [(X,), (Z,)], order=0),
    spec(c.stop_gradient, c.stop_gradient, [(X,), (Z,), (np.float64(1.5),)], order=0, reference=lambda x: x),
    spec(c.real_p, c.real, [(Z,), (np.complex128(1 + 2j),)], reference=np.real, jax=lambda j: j.numpy.real),
    spec(c.imag, c.imag, [(Z,), (np.complex128(1 + 2j),)], reference=np.imag, jax=lambda j: j.numpy.imag),
    spec(c.conj_p, c.conj, [(Z,), (np.complex128(1 + 2j),)], reference=np.conj, jax=lambda j: j.numpy.conj),
    spec(
        c.make_complex,
        c.make_complex,
        [(X, X[::-1]), (X, 0.5), (0.5, X), (np.float64(1.5), np.float64(-2.0))],
        dtypes=("f4",),
        jax=lambda j: j.lax.complex,
    ),
    spec(
        c.bitcast_p,
        c.bitcast,
        [(X,), (np.float64(1.5),)],
        params={"dtype": np.dtype("i8")},
        order=0,
        reference=lambda x: x.view("i8"),
        dtypes=(),
    ),
    spec(
        c.bitcast_p,
        c.bitcast,
        [(np.array([1, 2**30], "i4"),)],
        params={"dtype": np.dtype("f4")},
        order=0,
        dtypes=(),
    ),
    spec(
        c.reduce_precision,
        c.reduce_precision,
        [(np.array([1.0009765625, 3.14159, -1e-9, 7e4, np.inf, np.nan]),), (np.float32(1.2345),)],
        params={"exponent_bits": 5, "mantissa_bits": 10},
        order=0,  # a staircase, whose tangents are rounded in the same way
        jax=lambda j: lambda x: j.lax.reduce_precision(x, 5, 10),
        dtypes=("f4",),
    ),
]
