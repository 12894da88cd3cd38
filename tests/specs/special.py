"""Special functions: funcad/primitives/special.py."""

from __future__ import annotations

import numpy as np
import scipy.special

from funcad.primitives import special as s
from tests.specs import spec

ANY = np.array([[-1.3, 0.4, 2.2], [0.7, -0.2, -3.1]])
POSITIVE = np.array([[0.3, 0.9, 2.2], [0.7, 1.2, 3.1]])
OTHER = np.array([[0.8, 1.7, 0.35], [2.6, 0.45, 1.9]])
UNIT = np.array([[-0.6, 0.2], [0.85, -0.1]])
INSIDE = np.array([[0.1, 0.9, 0.5], [0.3, 0.77, 0.2]])
REAL = ("f4", "f2")
ON_CPU = ("numpy",)  # cupyx.scipy.special has no such function


def unary(name, x=ANY, domain=None, jax=True, **fields):
    in_jax = (lambda j: getattr(j.scipy.special, name)) if jax else None
    return spec(
        getattr(s, name + "_p"),
        getattr(s, name),
        [(x,), (x.ravel()[1],)],
        domain=domain,
        reference=getattr(scipy.special, name),
        dtypes=REAL,
        jax=in_jax,
        **fields,
    )


def binary(name, x=POSITIVE, y=OTHER, jax=True, **fields):
    in_jax = (lambda j: getattr(j.scipy.special, name)) if jax else None
    samples = [(x, y), (x.ravel()[1], y.ravel()[1])]
    return spec(
        getattr(s, name + "_p"),
        getattr(s, name),
        samples,
        reference=getattr(scipy.special, name),
        dtypes=REAL[:1],
        jax=in_jax,
        **fields,
    )


SPECS = [
    unary("erf"),
    unary("erfc"),
    unary("erfcx", jax=False),
    unary("erfinv", UNIT, (-1, 1)),
    unary("erfcinv", INSIDE, (0, 2), jax=False),
    unary("ndtr"),
    unary("ndtri", INSIDE, (0, 1)),
    unary("log_ndtr"),
    spec(
        s.ndtr_ratio_p,
        s.ndtr_ratio,
        [(ANY,), (np.float64(-30.0),)],
        reference=lambda x: np.exp(-x * x / 2 - np.log(2 * np.pi) / 2 - scipy.special.log_ndtr(x)),
        tolerance=1e-5,
        dtypes=REAL,
    ),
    unary("gamma", POSITIVE, jax=False),
    unary("gammaln", POSITIVE),
    unary("digamma", POSITIVE),
    binary("zeta", POSITIVE + 1.1, OTHER, nondiff=(0,)),
    spec(
        s.polygamma_p,
        lambda x, n: s.polygamma(n, x),
        [(POSITIVE,), (np.float64(0.8),)],
        params={"n": 2},
        reference=lambda x: scipy.special.polygamma(2, x),
        dtypes=REAL,
        jax=lambda j: lambda x: j.scipy.special.polygamma(2, x),
    ),
    spec(
        (s.zeta_p, s.gamma_p),
        s.polygamma,
        [(np.array([1.0, 2.0, 3.0]), np.array([0.4, 1.9, 3.3]))],
        nondiff=(0,),
        reference=scipy.special.polygamma,
        dtypes=(),
        id="polygamma_of_arrays",
    ),
    binary("beta"),
    binary("betaln"),
    binary("gammainc", nondiff=(0,)),
    binary("gammaincc", nondiff=(0,)),
    spec(
        s.betainc_p,
        s.betainc,
        [(POSITIVE, OTHER, INSIDE)],
        nondiff=(0, 1),
        reference=scipy.special.betainc,
        dtypes=("f4",),
        jax=lambda j: j.scipy.special.betainc,
    ),
    unary("i0"),
    unary("i1"),
    unary("i0e"),
    unary("i1e"),
    unary("j0", jax=False),
    unary("j1", jax=False),
    unary("y0", POSITIVE, jax=False),
    unary("y1", POSITIVE, jax=False),
    unary("k0", POSITIVE, jax=False),
    unary("k1", POSITIVE, jax=False),
    *[
        binary(name, OTHER + 1.0, POSITIVE, jax=False, nondiff=(0,), backends=ON_CPU)
        for name in ("jv", "yv", "iv", "kv", "ive", "kve")
    ],
    binary("xlogy"),
    binary("xlog1py"),
    unary("entr", POSITIVE, (0, np.inf)),
    binary("rel_entr"),
    binary("kl_div"),
    unary("logit", INSIDE, (0, 1)),
    unary("log_expit", jax=False),
    unary("expi", POSITIVE),
    unary("exp1", POSITIVE),
    unary("spence", POSITIVE, backends=ON_CPU),
    *[
        spec(
            s.expn_p,
            lambda x, n: s.expn(n, x),
            [(POSITIVE,), (np.float64(0.8),)],
            params={"n": n},
            reference=lambda x, n=n: scipy.special.expn(n, x),
            dtypes=REAL,
        )
        for n in (0, 1, 3)
    ],
]
