"""Transcendental functions: funcad/primitives/transcendental.py."""

from __future__ import annotations

import numpy as np

from funcad.primitives import transcendental as t
from tests.specs import spec

ANY = np.array([[-1.3, 0.4, 2.2], [0.7, -0.2, -3.1]])
OTHER = np.array([[0.8, -1.7, 0.35], [-2.6, 0.45, 1.9]])
POSITIVE = np.array([[0.3, 0.9, 2.2], [0.7, 1.2, 3.1]])
UNIT = np.array([[-0.6, 0.2], [0.85, -0.1]])
COMPLEX = np.array([1.2 - 0.7j, -0.4 + 1.1j])
REAL = ("f4", "f2")


def unary(name, x=ANY, domain=None, complex_too=True, **fields):
    """One elementwise function, compared with NumPy's and JAX's function of the same name."""
    samples = [(x,), (x.ravel()[1],), (x[:0],)] + ([(COMPLEX,)] if complex_too else [])
    fields.setdefault("reference", getattr(np, name, None))
    fields.setdefault("jax", lambda j: getattr(j.numpy, name))
    dtypes = (*REAL, "c8") if complex_too else REAL
    return spec(vars(t).get(f"{name}_p", getattr(t, name)), getattr(t, name), samples, domain=domain, dtypes=dtypes, **fields)


SPECS = [
    unary("sin"),
    unary("cos"),
    unary("tan", POSITIVE),
    unary("exp"),
    unary("exp2"),
    unary("expm1"),
    unary("log", POSITIVE, (0, np.inf)),
    unary("log2", POSITIVE, (0, np.inf)),
    unary("log10", POSITIVE, (0, np.inf)),
    unary("log1p", POSITIVE, (-1, np.inf)),
    unary("arcsin", UNIT, (-1, 1)),
    unary("arccos", UNIT, (-1, 1)),
    unary("arctan"),
    unary("sinh"),
    unary("cosh"),
    unary("tanh"),
    unary("arcsinh"),
    unary("arccosh", POSITIVE + 1.0, (1, np.inf)),
    unary("arctanh", UNIT, (-1, 1)),
    spec(t.over_root_p, lambda x: t.over_root_p(x, a=-1.0, b=1.0), [(UNIT,), (np.float64(0.3),)], domain=(-1, 1), dtypes=REAL,
         reference=lambda x: 1 / np.sqrt(1 - x * x), id="over_root_of_one_minus"),
    spec(t.over_root_p, lambda x: t.over_root_p(x, a=1.0, b=-1.0), [(POSITIVE + 1.0,), (COMPLEX,)], domain=(1, np.inf),
         reference=lambda x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1)), dtypes=REAL, id="over_root_of_minus_one"),
    spec(t.over_root_p, lambda x: t.over_root_p(x, a=1.0, b=1.0), [(ANY,), (np.float64(0.3),), (COMPLEX,), (ANY * 1e18,)],
         reference=lambda x: 1 / np.sqrt(x * x + 1), dtypes=("f4",), id="over_root_of_plus_one"),
    spec(t.difference_p, t.difference_p, [(ANY, OTHER), (np.float64(0.6), np.float64(0.6)), (OTHER, 1.5)],
         reference=np.subtract, dtypes=REAL),
    unary("logistic", complex_too=False, reference=lambda x: 1 / (1 + np.exp(-x)), jax=lambda j: j.lax.logistic),
    spec(t.complex_logistic_p, t.logistic, [(COMPLEX,), (COMPLEX[:0],)], reference=lambda x: 1 / (1 + np.exp(-x)),
         dtypes=("c8",), jax=lambda j: j.lax.logistic),
    spec(
        t.arctan2,
        t.arctan2,
        [(ANY, OTHER), (np.float64(0.6), np.float64(-1.3)), (OTHER, 1.5)],
        reference=np.arctan2,
        dtypes=REAL,
        jax=lambda j: j.numpy.arctan2,
    ),
    spec(
        t.logaddexp,
        t.logaddexp,
        [(ANY, OTHER), (np.float64(0.6), np.float64(0.6)), (OTHER, 1.5)],
        reference=np.logaddexp,
        dtypes=REAL,
        jax=lambda j: j.numpy.logaddexp,
    ),
    spec(
        t.logaddexp2,
        t.logaddexp2,
        [(ANY, OTHER), (np.float64(0.6), np.float64(0.6)), (OTHER, 1.5)],
        reference=np.logaddexp2,
        dtypes=REAL,
        jax=lambda j: j.numpy.logaddexp2,
    ),
    spec(
        t.sinc_p,
        t.sinc,
        [(ANY,), (np.float64(0.0),), (np.array([0.0, 1e-3, -1e-7, 7.3]),), (COMPLEX,)],
        reference=np.sinc,
        dtypes=(*REAL, "c8"),
        jax=lambda j: j.numpy.sinc,
    ),
    spec(t.sinc_p, t.sinc, [(np.array([0.0, 1e-3, 0.9, -2.2, 8.1]),)], params={"order": 1}, dtypes=REAL),
    spec(t.sinc_p, t.sinc, [(np.array([0.0, 1e-3, 0.9, -2.2, 8.1]),)], params={"order": 4}, dtypes=REAL),
    spec(
        t.tanh_linear,
        t.tanh_linear,
        [(ANY, OTHER), (np.float64(0.6), np.float64(0.3)), (COMPLEX, COMPLEX)],
        reference=lambda u, y: u * (1 - y * y),
    ),
    spec(
        t.logistic_linear,
        t.logistic_linear,
        [(ANY, OTHER), (np.float64(0.6), np.float64(0.3)), (COMPLEX, COMPLEX)],
        reference=lambda u, y: u * (y * (1 - y)),
    ),
]
