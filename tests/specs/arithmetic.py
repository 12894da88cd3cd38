"""Arithmetic and extrema: funcad/primitives/arithmetic.py, funcad/primitives/arithmetic.py."""

from __future__ import annotations

import numpy as np

from funcad.primitives import arithmetic as a
from funcad.primitives import arithmetic as m
from funcad.primitives import arithmetic as r
from funcad.primitives import arithmetic as x
from funcad.primitives import transcendental as p
from tests.specs import spec

ANY = np.array([[-1.3, 0.4, 2.2], [0.7, -0.2, -3.1]])
POSITIVE = np.array([[0.3, 0.9, 2.2], [0.7, 1.2, 3.1]])
OTHER = np.array([[0.8, -1.7, 0.35], [-2.6, 0.45, 1.9]])
COMPLEX = np.array([1.2 - 0.7j, -0.4 + 1.1j])
OTHER_COMPLEX = np.array([0.6 + 0.9j, -1.4 - 0.3j])
INTEGERS = np.array([7, -7, 5])
DIVISORS = np.array([2, 3, -3])
EMPTY = np.zeros((0, 2))

UNARY = [(ANY,), (np.float64(0.6),), (EMPTY,)]
UNARY_COMPLEX = [*UNARY, (COMPLEX,)]
BINARY = [(ANY, OTHER), (np.float64(0.6), np.float64(-1.3)), (OTHER, 1.5), (-0.3, OTHER), (EMPTY, EMPTY)]
BINARY_COMPLEX = [*BINARY, (COMPLEX, OTHER_COMPLEX)]


def _integer_pow(n, **fields):
    samples = [(ANY,), (np.float64(1.4),), (COMPLEX,)] + ([(INTEGERS,)] if n >= 0 else [])
    return spec(a.integer_pow_p, a.integer_pow, samples, params={"n": n}, reference=lambda x: x**n, **fields)


SPECS = [
    spec(
        a.mul_add_p,
        lambda x, y, z, w: a.mul_add_p(x, y, z, w),
        [(ANY, OTHER, POSITIVE, ANY + 0.3), (ANY, 2.0, OTHER, -0.5), (COMPLEX, OTHER_COMPLEX, COMPLEX, OTHER_COMPLEX)],
        reference=lambda x, y, z, w: x * y + z * w,
    ),
    spec(a.neg, a.neg, UNARY_COMPLEX, reference=np.negative, jax=lambda j: j.lax.neg),
    spec(a.add, a.add, BINARY_COMPLEX, reference=np.add, jax=lambda j: j.numpy.add),
    spec(a.sub, a.sub, BINARY_COMPLEX, reference=np.subtract, jax=lambda j: j.numpy.subtract),
    spec(a.mul, a.mul, BINARY_COMPLEX, reference=np.multiply, jax=lambda j: j.numpy.multiply),
    spec(a.div, a.div, [*BINARY_COMPLEX, (INTEGERS, DIVISORS)], reference=np.divide, jax=lambda j: j.numpy.divide),
    spec(
        r.floor_divide,
        r.floor_divide,
        [*BINARY, (INTEGERS, DIVISORS)],
        order=0,
        reference=np.floor_divide,
        dtypes=("f4",),
    ),
    spec(
        r.mod,
        r.mod,
        [*BINARY, (INTEGERS, DIVISORS)],
        reference=np.remainder,
        dtypes=("f4",),
        jax=lambda j: j.numpy.remainder,
    ),
    spec(
        r.fmod, r.fmod, [*BINARY, (INTEGERS, DIVISORS)], reference=np.fmod, dtypes=("f4",), jax=lambda j: j.numpy.fmod
    ),
    spec(
        p.pow_p,
        p.pow,
        [(POSITIVE, OTHER), (POSITIVE, 1.7), (2.5, OTHER), (np.float64(1.3), np.float64(-0.7)), (COMPLEX, OTHER_COMPLEX)],
        reference=np.power,
        dtypes=("f4",),
        jax=lambda j: j.numpy.power,
    ),
    _integer_pow(0),
    _integer_pow(1),
    _integer_pow(2, jax=lambda j: lambda x: j.lax.integer_pow(x, 2)),
    _integer_pow(3, jax=lambda j: lambda x: j.lax.integer_pow(x, 3)),
    _integer_pow(-2, jax=lambda j: lambda x: j.lax.integer_pow(x, -2)),
    spec(a.square_p, a.square, UNARY_COMPLEX, reference=np.square, jax=lambda j: j.numpy.square),
    spec(a.reciprocal, a.reciprocal, UNARY_COMPLEX, reference=np.reciprocal, jax=lambda j: j.numpy.reciprocal),
    spec(
        a.sqrt,
        a.sqrt,
        [(POSITIVE,), (np.float64(2.0),), (COMPLEX,)],
        domain=(0, np.inf),
        reference=np.sqrt,
        jax=lambda j: j.numpy.sqrt,
    ),
    spec(
        a.rsqrt,
        a.rsqrt,
        [(POSITIVE,), (np.float64(2.0),), (COMPLEX,)],
        domain=(0, np.inf),
        reference=lambda x: 1 / np.sqrt(x),
        jax=lambda j: j.lax.rsqrt,
    ),
    spec(a.cbrt, a.cbrt, UNARY, reference=np.cbrt, dtypes=("f4",), jax=lambda j: j.numpy.cbrt),
    spec(a.abs_, a.abs_, UNARY_COMPLEX, reference=np.abs, jax=lambda j: j.numpy.abs),
    spec(a.sign, a.sign, UNARY_COMPLEX, reference=np.sign),
    spec(
        a.copysign, a.copysign, BINARY, reference=np.copysign, dtypes=("f4",), jax=lambda j: j.numpy.copysign
    ),
    spec(a.hypot, a.hypot, BINARY, reference=np.hypot, dtypes=("f4",), jax=lambda j: j.numpy.hypot),
    spec(
        a.turn,
        a.turn,
        [(ANY, POSITIVE), (np.float64(0.6), np.float64(1.3)), (EMPTY, EMPTY), (1.5, POSITIVE)],
        reference=np.divide,
        dtypes=("f4",),
    ),
    spec(
        a.root, a.root, [(POSITIVE,), (np.float64(2.0),), (EMPTY,)], domain=(0, np.inf), reference=np.sqrt, dtypes=("f4",)
    ),
    *[
        spec(
            a.exact_pow_p,
            lambda x, n: a.exact_pow_p(x, a.square(x), n=n),
            [(POSITIVE,), (np.float64(1.4),), (EMPTY,)],
            params={"n": n},
            domain=(0, np.inf),
            reference=lambda x, n=n: x**n,
            dtypes=("f4",),
            id=f"exact_pow{n}",
        )
        for n in (2, 3, 4, 5)
    ],
    spec(
        a.heaviside,
        a.heaviside,
        [(np.array([-1.0, 0.0, 2.0]), np.array([0.3, 0.4, 0.5]))],
        nondiff=(0,),  # a step: differences of it mean nothing at 0
        reference=np.heaviside,
        dtypes=("f4",),
    ),
    spec(a.nextafter, a.nextafter, [(ANY, OTHER)], reference=np.nextafter, dtypes=("f4",)),
    spec(r.floor, r.floor, UNARY, order=0, reference=np.floor, dtypes=("f4",)),
    spec(r.ceil, r.ceil, UNARY, order=0, reference=np.ceil, dtypes=("f4",)),
    spec(r.rint, r.rint, UNARY, order=0, reference=np.rint, dtypes=("f4",)),
    spec(r.trunc, r.trunc, UNARY, order=0, reference=np.trunc, dtypes=("f4",)),
    spec(r.rint, r.round_, [(ANY * 100,), (INTEGERS * 13,)], params={"decimals": -1}, order=0, id="round_"),
    spec(x.maximum, x.maximum, BINARY, reference=np.maximum, jax=lambda j: j.numpy.maximum),
    spec(x.minimum, x.minimum, BINARY, reference=np.minimum, jax=lambda j: j.numpy.minimum),
    spec(x.fmax, x.fmax, BINARY, reference=np.fmax),
    spec(x.fmin, x.fmin, BINARY, reference=np.fmin),
    spec(
        x.clamp_p,
        x.clamp,
        [(ANY, -0.5, 1.0), (ANY, OTHER, OTHER + 0.7), (np.float64(0.3), np.float64(0.5), np.float64(1.0))],
        reference=lambda x, lo, hi: np.minimum(hi, np.maximum(lo, x)),
        jax=lambda j: lambda x, lo, hi: j.lax.clamp(lo, x, hi),
        dtypes=("f4",),
    ),
    spec(x.clamp_p, x.clamp, [(ANY, -0.5, 1.0)], params={"boundary_grad": 0.3}, dtypes=("f4",)),
    spec(x.clamp_p, x.clamp, [(ANY, -0.5, 1.0)], params={"boundary_grad": 1.0}, dtypes=("f4",)),
    spec(m.ldexp, m.ldexp, [(np.array([0.5, -1.5]), np.array([3, -2]))], reference=np.ldexp, dtypes=("f4",)),
    spec(
        (m.mantissa, m.exponent), m.frexp, [(ANY,), (np.float64(5.0),)], reference=np.frexp, dtypes=("f4",)
    ),
    spec(m.exponent, m.exponent, [(ANY,)], order=0, reference=lambda x: np.frexp(x)[1], dtypes=("f4",)),
    spec((r.trunc, r.fmod), m.modf, [(ANY,), (np.float64(-5.3),)], reference=np.modf, dtypes=("f4",), id="modf"),
]
