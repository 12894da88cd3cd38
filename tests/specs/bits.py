"""Random draws from keys."""

import numpy as np
import scipy.special

from funcad.primitives import random_bits as b
from funcad.primitives import random_bits as e
from funcad.primitives import rejection as r
from tests.specs import spec

KEY = np.array([3, 7], np.uint32)
KEYS = np.array([[3, 7], [4, 9]], np.uint32)
F8, F4, F2, U8, U4 = (np.dtype(d) for d in ("f8", "f4", "f2", "u8", "u4"))


def drawn(kind, dtype, shape):
    return spec(b.draw_p, b.draw, [(KEY,), (KEYS,)], params={"kind": kind, "dtype": dtype, "shape": shape}, order=0, dtypes=())


SPECS = [
    drawn("bits", U8, (3,)),
    drawn("bits", U4, (2, 5)),
    drawn("bits", np.dtype("u1"), ()),
    drawn("keys", U4, (2,)),
    drawn("unit", F8, (3,)),
    drawn("unit", F2, (2, 2)),
    drawn("normal", F8, (9,)),
    drawn("normal", F4, ()),
    spec(b.fold, b.fold, [(KEY, np.uint32(5)), (KEYS, np.array([1, 2], np.uint32))], order=0, dtypes=()),
    spec(
        e.erf_inverse,
        e.erf_inverse,
        [(np.array([0.1, -0.7]),), (np.float64(0.96),), (np.zeros((0, 2)),)],
        domain=(-0.99, 0.99),
        reference=scipy.special.erfinv,
        dtypes=("f4",),
    ),
    spec(
        r.random_gamma_p,
        r.random_gamma_p,
        [(KEY, np.array([0.4, 2.0])), (KEYS, np.array([[0.4], [2.0]]))],
        params={"log_space": False},
        order=0,
        nondiff=(0, 1),
        dtypes=("f4",),
    ),
    spec(
        r.random_gamma_p,
        r.random_gamma_p,
        [(KEY, np.array([0.4, 2.0, 0.01])), (KEY, np.float64(3.0))],
        params={"log_space": True},
        order=0,
        nondiff=(0, 1),
        dtypes=("f4",),
    ),
    spec(
        r.poisson_draw,
        r.poisson_draw,
        [(KEY, np.array([2.0, 50.0], F4)), (KEYS, np.array([[2.0], [50.0]], F4))],
        params={"dtype": np.dtype(int)},
        order=0,
        nondiff=(0, 1),
        dtypes=(),
    ),
    spec(
        r.binomial_draw,
        r.binomial_draw,
        [(KEY, np.array([5.0, 90.0]), np.array([0.2, 0.6]))],
        params={"dtype": F8},
        order=0,
        nondiff=(0, 1, 2),
        dtypes=(),
    ),
    spec(r.shuffled, r.shuffled, [(KEY,), (KEYS,)], params={"shape": (3, 4), "axis": 1}, order=0, dtypes=()),
]
