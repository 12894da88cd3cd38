"""Sorting and searching."""

import numpy as np

from funcad.primitives import sorting as s
from tests.specs import spec


def some(*shape):
    return lambda rng: (rng.normal(size=shape),)


TIES = np.array([[3, 1, 3, 2], [0, 0, 1, 0]])

SPECS = [
    spec(s.sort_p, s.sort, [some(3, 4), (TIES,), some(2, 0)], params={"axis": 1}, reference=lambda x: np.sort(x, axis=1),
         jax=lambda j: lambda x: j.numpy.sort(x, axis=1)),
    spec(s.sort_p, s.sort, [some(4, 2)], params={"axis": 0}, reference=lambda x: np.sort(x, axis=0)),
    spec(s.argsort_p, s.argsort, [some(2, 4), (TIES,)], params={"axis": 1}, order=0,
         reference=lambda x: np.argsort(x, axis=1, kind="stable")),
    spec(s.argsort_p, s.argsort, [some(2, 4), (TIES,)], params={"axis": 1, "descending": True}, order=0,
         reference=lambda x: np.argsort(-x, axis=1, kind="stable")),
    spec(s.argsort_p, s.argsort, [some(4, 2)], params={"axis": 0, "stable": False}, order=0),
    spec(s.argsort_many_p, lambda a, b, x: s.sort_many([a, b, x], 0, 2),
         [lambda rng: (np.array([1, 0, 1, 0]), rng.normal(size=4), rng.normal(size=4))]),
    spec(s.top_k_p, s.top_k, [some(2, 4), (TIES,)], params={"k": 3},
         reference=lambda x: [np.flip(np.sort(x, axis=-1), -1)[:, :3], np.argsort(-x, axis=-1, kind="stable")[:, :3]],
         jax=lambda j: lambda x: j.lax.top_k(x, 3)),
    spec(s.searchsorted_p, s.searchsorted, [(np.array([1.0, 2.0, 2.0, 5.0]), np.array([[0.0, 2.0], [3.0, 9.0]]))],
         params={"side": "right"}, order=0, reference=lambda t, v: np.searchsorted(t, v, side="right")),
]
