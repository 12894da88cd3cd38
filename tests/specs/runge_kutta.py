"""The arithmetic of Runge-Kutta steps: funcad/primitives/runge_kutta.py. It has no derivatives: the solver has."""

from __future__ import annotations

import numpy as np

from funcad.primitives import runge_kutta as r
from tests.specs import spec

WEIGHTS = (0.5, 0.0, -0.25)
ERROR = (0.3, 0.0, -0.2)


def advance(y, h, slopes):
    return r.advance(y, h, [row(slopes, i) for i in range(3)], WEIGHTS)


def row(x, i):
    return x[i]


def control(flag, numbers, vectors, rtol):
    """Few operands: every combination of batched ones is tried."""
    t, h, t_old, used, end = [row(numbers, i) for i in range(5)]
    y, y_old, new, *slopes = [row(vectors, i) for i in range(9)]
    limits = dict(rtol=rtol, atol=1e-2, hmax=0.4, order=4, error=ERROR)
    return r.control_p(t, h, flag, t_old, y, y_old, used, end, new, *slopes, **limits)


def state(rejected, used):
    return lambda rng: (np.array(rejected), np.array([0.5, 0.2, 0.4, used, 2.0]), rng.normal(size=(9, 3)))


SPECS = [
    spec(
        r.advance_p,
        advance,
        [lambda rng: (rng.normal(size=3), np.array(0.3), rng.normal(size=(3, 3)))],
        reference=lambda y, h, k: y + h * np.tensordot(WEIGHTS, k, 1),
        order=0,
    ),
    *[
        spec(
            r.control_p,
            control,
            [state(False, 0.2), state(True, 1e-3), state(False, 1.5)],
            params=dict(rtol=rtol),
            order=0,
            dtypes=("f4",),
        )
        for rtol in (1e-4, 10.0)
    ],
]
