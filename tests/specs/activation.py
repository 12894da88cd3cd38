"""Activations and normalisations: funcad/primitives/activation.py."""

from __future__ import annotations

import numpy as np

from funcad.primitives import activation as a
from tests.specs import spec

X = np.array([[-1.3, 0.4, 2.2], [0.7, -0.2, -3.1]])
T = np.array([[0.8, -1.7, 0.35], [-2.6, 0.45, 1.9]])
R = np.array([0.7, 1.4])
REAL = ("f4", "f2")


def _softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


SPECS = [
    spec(a.relu, a.relu, [(X,), (np.float64(0.3),)], reference=lambda x: np.maximum(x, 0), dtypes=REAL,
         jax=lambda j: j.nn.relu),
    spec(a.softplus, a.softplus, [(X,), (np.float64(0.3),)], reference=lambda x: np.log1p(np.exp(x)), dtypes=REAL,
         jax=lambda j: j.nn.softplus),
    spec(a.safe_log_p, a.safe_log, [(X,), (np.float64(0.3),)], params={"eps": 1e-3}, dtypes=REAL,
         reference=lambda x: np.log(np.log1p(np.exp(x)) + 1e-3)),
    spec(a.log_cosh, a.log_cosh, [(X,), (np.float64(0.0),)], reference=lambda x: np.log(np.cosh(x)), dtypes=REAL),
    *[
        s
        for axis in (0, 1)
        for s in (
            spec(a.softmax, a.softmax, [(X,)], params={"axis": axis}, dtypes=REAL,
                 reference=lambda x, axis=axis: _softmax(x, axis),
                 jax=lambda j, axis=axis: lambda x: j.nn.softmax(x, axis)),
            spec(a.log_softmax, a.log_softmax, [(X,)], params={"axis": axis}, dtypes=REAL,
                 reference=lambda x, axis=axis: np.log(_softmax(x, axis)),
                 jax=lambda j, axis=axis: lambda x: j.nn.log_softmax(x, axis)),
            spec(a.logsumexp, a.logsumexp, [(X,)], params={"axis": axis},
                 reference=lambda x, axis=axis: np.log(np.exp(x).sum(axis)), dtypes=REAL,
                 jax=lambda j, axis=axis: lambda x: j.nn.logsumexp(x, axis)),
            spec(a.softmax_linear, a.softmax_linear, [(T, X)], params={"axis": axis}, dtypes=REAL,
                 reference=lambda t, y, axis=axis: y * (t - (y * t).sum(axis, keepdims=True))),
            spec(a.log_softmax_linear, a.log_softmax_linear, [(T, X)], params={"axis": axis}, dtypes=REAL,
                 reference=lambda t, y, axis=axis: t - (np.exp(y) * t).sum(axis, keepdims=True)),
            spec(a.log_softmax_transposed, a.log_softmax_transposed, [(T, X)], params={"axis": axis}, dtypes=REAL,
                 reference=lambda t, y, axis=axis: t - np.exp(y) * t.sum(axis, keepdims=True)),
        )
    ],
    spec(a.logsumexp, a.logsumexp, [(X[:0],), (np.full((2, 1), -np.inf),), (np.array([[np.inf], [1.0]]),)],
         params={"axis": 0}, order=0, reference=lambda x: np.logaddexp.reduce(x, 0), dtypes=REAL),  # infinite values
    spec(a.layer_norm_p, a.layer_norm, [(X,)], params={"axes": (1,), "eps": 1e-2}, dtypes=REAL, tolerance=1e-5),
    spec(a.layer_norm_p, a.layer_norm, [(X,)], params={"axes": (0, 1), "eps": 1e-2}, dtypes=REAL, tolerance=1e-5),
    spec(a.layer_norm_linear, a.layer_norm_linear, [(T, X, R)], params={"axes": (1,)}, dtypes=REAL),
    spec(a.layer_norm_linear, a.layer_norm_linear, [(T, X, np.float64(0.7))], params={"axes": (0, 1)}, dtypes=REAL),
]  # fmt: skip
