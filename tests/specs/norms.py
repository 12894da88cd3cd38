"""Norms and variances: funcad/primitives/norms.py, reduction.py."""

from __future__ import annotations

import numpy as np

from funcad.primitives import norms as n
from funcad.primitives import reduction as v
from tests.specs import spec

X = np.array([[-1.3, 0.4, 2.2], [0.7, -0.2, -3.1]])
COMPLEX = np.array([1.2 - 0.7j, -0.4 + 1.1j])

SPECS = [
    spec(n.norm, n.norm, [(X,), (np.zeros((0, 2)),)], params={"axes": (0,)}, dtypes=("f4",),
         reference=lambda x: np.linalg.norm(x, axis=0)),
    spec(n.norm, n.norm, [(X,), (X[None, 0] * 1e-200,)], params={"axes": (0, 1)}, order=0, dtypes=()),
    spec(n.norm, n.norm, [(COMPLEX,)], params={"axes": (0,)}, reference=np.linalg.norm),
    spec(n.norm, n.norm, [(X,), (np.float64(-0.7),), (COMPLEX,)], params={"axes": ()}, reference=np.abs),
    spec(n.rooted_p, n.rooted, [(np.abs(X),), (np.float64(0.7),)], params={"p": 3.0}, domain=(0, np.inf),
         reference=lambda x: x ** (1 / 3), dtypes=("f4",)),
    spec(v.variance_p, v.variance, [(X,)], params={"axes": (1,)}, dtypes=("f4",), reference=lambda x: np.var(x, axis=1)),
    spec(v.variance_p, v.variance, [(X,), (np.ones((2, 1)),)], params={"axes": (0, 1), "ddof": 1}, dtypes=("f4",),
         reference=lambda x: np.var(x, ddof=1)),
    spec(v.variance_slope_p, v.variance_slope_p, [(X,), (X[:, :1],)], params={"axes": (0,), "ddof": 0.5}, dtypes=("f4",),
         reference=lambda x: 2 / (len(x) - 0.5) * (x - np.mean(x, axis=0))),
]
