"""Shape: all linear."""

import numpy as np

from funcad.primitives import shape as s
from tests.specs import spec


def some(*shape):
    return lambda rng: (rng.normal(size=shape),)


def complex_(*shape):
    return lambda rng: (rng.normal(size=shape) + 1j * rng.normal(size=shape),)


SPECS = [
    spec(s.broadcast_in_dim, s.broadcast_in_dim, [some(3, 1), complex_(3, 1)], params={"shape": (2, 3, 4), "axes": (1, 2)},
         reference=lambda x: np.broadcast_to(x, (2, 3, 4)), jax=lambda j: lambda x: j.numpy.broadcast_to(x, (2, 3, 4))),
    spec(s.broadcast_in_dim, s.broadcast_in_dim, [(np.float64(2.0),)], params={"shape": (0, 3), "axes": ()}),
    spec(s.reshape, s.reshape, [some(2, 3), complex_(6)], params={"shape": (3, 2)},
         reference=lambda x: np.reshape(x, (3, 2))),
    spec(s.reshape, s.reshape, [some(1), (np.array(2.0),)], params={"shape": (1, 1)}),
    spec(s.transpose, s.transpose, [some(2, 3, 4), some(2, 0, 1)], params={"perm": (2, 0, 1)},
         reference=lambda x: np.transpose(x, (2, 0, 1))),
    spec(s.concatenate_p, lambda *xs, axis: s.concatenate(xs, axis=axis),
         [lambda rng: (rng.normal(size=(2, 1)), rng.normal(size=(2, 3)), rng.normal(size=(2, 0)))], params={"axis": 1},
         reference=lambda *xs: np.concatenate(xs, axis=1)),
    spec(s.slice_p, lambda x, **params: s.slice_p(x, **params), [some(5, 3), complex_(5, 3)],
         params={"start": (1, 0), "limit": (5, 2), "strides": (2, 1)}, reference=lambda x: x[1:5:2, :2]),
    spec(s.slice_p, lambda x, **params: s.slice_p(x, **params), [some(3)],
         params={"start": (2,), "limit": (2,), "strides": None}, reference=lambda x: x[2:2]),
    spec(s.pad_p, s.pad, [some(2, 3)], params={"low": (1, 0), "high": (0, 2), "interior": (2, 0)},
         jax=lambda j: lambda x: j.lax.pad(x, 0.0, ((1, 0, 2), (0, 2, 0)))),
    spec(s.pad_p, s.pad, [some(0, 2)], params={"low": (1, 1), "high": (1, 0)},
         reference=lambda x: np.pad(x, ((1, 1), (1, 0)))),
    spec(s.roll_p, s.roll, [some(3, 2), complex_(5), some(0, 2)], params={"shift": 2, "axis": 0},
         reference=lambda x: np.roll(x, 2, 0)),
    spec(s.rev_p, s.rev, [some(2, 3), complex_(2, 3), some(0, 2)], params={"axes": (0, 1)}, reference=lambda x: x[::-1, ::-1]),
]
