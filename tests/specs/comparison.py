"""Comparison, logic, bits and select: funcad/primitives/comparison.py."""

from __future__ import annotations

import numpy as np

from funcad.primitives import comparison as c
from tests.specs import spec

X = np.array([[1.0, 2.0, np.nan], [-1.0, np.inf, -0.0]])
Y = np.array([[1.0, 3.0, 1.0], [-2.0, np.inf, 0.0]])
COMPLEX = (np.array([1 + 2j, 3j]), np.array([1 + 2j, 1j]))
INTEGERS = (np.array([6, -5, 3]), np.array([1, 2, 3]))
BOOLS = (np.array([True, True, False, False]), np.array([True, False, True, False]))
PRED = np.array([[True, False, True], [False, False, True]])
A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def _comparison(primitive, fn, ufunc):
    samples = [(X, Y), (X, 1.0), (np.float64(1.0), np.float64(2.0)), COMPLEX, INTEGERS, (X[:0], Y[:0])]
    return spec(primitive, fn, samples, order=0, reference=ufunc)


def _logic(primitive, fn, ufunc, samples):
    return spec(primitive, fn, samples, order=0, reference=ufunc, dtypes=())


SPECS = [
    _comparison(c.eq, c.eq, np.equal),
    _comparison(c.ne, c.ne, np.not_equal),
    _comparison(c.lt, c.lt, np.less),
    _comparison(c.le, c.le, np.less_equal),
    _comparison(c.gt, c.gt, np.greater),
    _comparison(c.ge, c.ge, np.greater_equal),
    _logic(c.and_, c.and_, np.bitwise_and, [INTEGERS, BOOLS, (INTEGERS[0], 3)]),
    _logic(c.or_, c.or_, np.bitwise_or, [INTEGERS, BOOLS]),
    _logic(c.xor, c.xor, np.bitwise_xor, [INTEGERS, BOOLS]),
    _logic(c.not_, c.not_, np.invert, [INTEGERS[:1], BOOLS[:1]]),
    _logic(c.shift_left, c.shift_left, np.left_shift, [INTEGERS]),
    _logic(c.shift_right, c.shift_right, np.right_shift, [INTEGERS, tuple(x.astype("u4") for x in INTEGERS)]),
    _logic(c.logical_and, c.logical_and, np.logical_and, [(X, Y), BOOLS, COMPLEX]),
    _logic(c.logical_or, c.logical_or, np.logical_or, [(X, Y), BOOLS]),
    _logic(c.logical_xor, c.logical_xor, np.logical_xor, [(X, Y), BOOLS]),
    _logic(c.logical_not, c.logical_not, np.logical_not, [(X,), BOOLS[:1]]),
    _logic(c.isnan, c.isnan, np.isnan, [(X,), COMPLEX[:1]]),
    _logic(c.isinf, c.isinf, np.isinf, [(X,), COMPLEX[:1]]),
    _logic(c.isfinite, c.isfinite, np.isfinite, [(X,), COMPLEX[:1]]),
    _logic(c.signbit, c.signbit, np.signbit, [(X,)]),
    spec(
        c.select,
        c.select,
        [
            (PRED, A, -A),
            (PRED, A, 0.5),
            (PRED, 0.5, A),
            (PRED, A * 1j, A + 1j),
            (np.True_, np.float64(2.0), np.float64(3.0)),
            (PRED, A.astype(int), -A.astype(int)),
        ],
        reference=np.where,
        jax=lambda j: j.numpy.where,
    ),
]
