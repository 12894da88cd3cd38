"""Whole numbers and the grid of floats."""

import numpy as np

from funcad.primitives import arithmetic as i
from tests.specs import spec

A = np.array([[12, -18, 0], [7, 35, -4]])
B = np.array([[8, 27, 5], [-21, 14, 6]])

SPECS = [
    spec(i.gcd, i.gcd, [(A, B), (np.uint8(12), np.uint8(18)), (A[:0], B[:0])], order=0, reference=np.gcd),
    spec(i.lcm, i.lcm, [(A, B), (A.astype(np.int32), B.astype(np.int32))], order=0, reference=np.lcm),
    spec(
        i.bit_count,
        i.bit_count,
        [(A,), (np.array([0, 255, 7], np.uint8),), (np.array([-128, 127], np.int8),)],
        order=0,
        reference=np.bitwise_count,
    ),
    spec(
        i.spacing,
        i.spacing,
        [(np.array([0.5, -3.0, 1e30, 0.0]),), (np.array([1.0, -1e-3], np.float32),)],
        reference=np.spacing,
        dtypes=("f4",),
    ),
]
