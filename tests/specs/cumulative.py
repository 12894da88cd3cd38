"""Cumulative operations and the linear recurrence that their derivatives are made of."""

import numpy as np

from funcad.primitives import reduction as c
from tests.specs import spec


def some(*shape):
    return lambda rng: (rng.normal(size=shape),)


def two(*shape):
    return lambda rng: (rng.normal(size=shape), rng.normal(size=shape))


def complex_(*shape):
    return lambda rng: (rng.normal(size=shape) + 1j * rng.normal(size=shape),)


def complex_two(*shape):
    return lambda rng: (rng.normal(size=shape) + 1j * rng.normal(size=shape), rng.normal(size=shape) * (1 - 1j))


def weights(rng):
    x = rng.integers(0, 3, (4, 2)).astype(float)
    return x, np.maximum.accumulate(x, axis=0)


ZEROS = np.array([[2.0, 0.0], [0.0, 3.0], [4.0, 5.0], [0.0, 6.0]])
BACK = {"axis": 0, "reverse": True}

SPECS = [
    spec(c.cumsum_p, c.cumsum, [some(3, 2), complex_(3, 2), (np.array([[1, 2]]),), some(0, 2)], params={"axis": 0},
         reference=lambda x: np.cumsum(x, axis=0)),
    spec(c.cumsum_p, c.cumsum, [some(3, 2)], params=BACK, reference=lambda x: np.cumsum(x[::-1], axis=0)[::-1]),
    spec(c.cumprod_p, c.cumprod, [some(3, 2), complex_(3, 2), (ZEROS,), some(2, 0)], params={"axis": 0},
         reference=lambda x: np.cumprod(x, axis=0), jax=lambda j: lambda x: j.numpy.cumprod(x, axis=0)),
    spec(c.cumprod_p, c.cumprod, [(ZEROS,), some(4, 6)], params=BACK, reference=lambda x: np.cumprod(x[::-1], axis=0)[::-1]),
    spec(c.cummax_p, c.cummax, [some(4, 2), some(0, 2)], params={"axis": 0}, dtypes=("f4",),
         reference=lambda x: np.maximum.accumulate(x, axis=0), jax=lambda j: lambda x: j.lax.cummax(x, axis=0)),
    spec(c.cummax_p, c.cummax, [some(4, 2)], params=BACK, dtypes=("f4",),
         reference=lambda x: np.maximum.accumulate(x[::-1], axis=0)[::-1]),
    spec(c.cummin_p, c.cummin, [some(2, 4), (np.array([[3, 1, 2]]),)], params={"axis": 1}, dtypes=("f4",),
         reference=lambda x: np.minimum.accumulate(x, axis=1), jax=lambda j: lambda x: j.lax.cummin(x, axis=1)),
    spec(c.cumlogsumexp_p, c.cumlogsumexp, [some(4, 2), some(0, 2)], params={"axis": 0}, dtypes=("f4",),
         reference=lambda x: np.logaddexp.accumulate(x, axis=0), jax=lambda j: lambda x: j.lax.cumlogsumexp(x, axis=0)),
    spec(c.cumlogsumexp_p, c.cumlogsumexp, [some(2, 3)], params={"axis": 1, "reverse": True}, dtypes=("f4",),
         jax=lambda j: lambda x: j.lax.cumlogsumexp(x, axis=1, reverse=True)),
    spec(c.linear_recurrence_p, c.linear_recurrence, [two(4, 2), two(2, 6), complex_two(3, 2), two(0, 2)], params={"axis": 0}),
    spec(c.linear_recurrence_p, c.linear_recurrence, [two(4), two(5, 1)], params=BACK),
    spec(c.shift_p, c.shift, [some(3, 2), complex_(3, 2), some(0, 2), some(1, 2)], params={"axis": 0, "fill": 1},
         reference=lambda x: np.concatenate([np.ones_like(x[:1]), x[:-1]])),
    spec(c.shift_p, c.shift, [some(2, 3)], params={"axis": 1, "reverse": True},
         reference=lambda x: np.concatenate([x[:, 1:], np.zeros((2, 1))], axis=1)),
    spec(c.extremum_weights_p, lambda x, out: c.extremum_weights_p(x, out, axis=0, reverse=False), [weights], order=0,
         dtypes=("f4",)),
]
