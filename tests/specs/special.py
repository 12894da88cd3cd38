"""Special functions: funcad/primitives/special_*.py."""

from __future__ import annotations

import numpy as np
import scipy.special

from funcad.ir.primitive import Primitive
from funcad.primitives import special as s
from funcad.primitives import (
    special_bessel,
    special_errors,
    special_gamma,
    special_incomplete,
    special_integrals,
    special_logarithms,
)
from tests.specs import spec

ANY = np.array([[-1.3, 0.4, 2.2], [0.7, -0.2, -3.1]])
POSITIVE = np.array([[0.3, 0.9, 2.2], [0.7, 1.2, 3.1]])
OTHER = np.array([[0.8, 1.7, 0.35], [2.6, 0.45, 1.9]])
UNIT = np.array([[-0.6, 0.2], [0.85, -0.1]])
INSIDE = np.array([[0.1, 0.9, 0.5], [0.3, 0.77, 0.2]])
COMPLEX = np.array([0.4 + 0.3j, -0.7 + 1.1j])
REAL = ("f4", "f2")
ON_CPU = ("numpy",)  # cupyx.scipy.special has no such function
MODULES = (special_bessel, special_errors, special_gamma, special_incomplete, special_integrals, special_logarithms)


def primitive(name):
    found = [vars(m).get(key) for key in (f"{name}_p", name) for m in MODULES]
    return next(p for p in found if type(p) is Primitive)


def unary(name, x=ANY, domain=None, jax=True, **fields):
    p = primitive(name)
    in_jax = (lambda j: getattr(j.scipy.special, name)) if jax else None
    return spec(
        p,
        lambda x: p(x),
        [(x,), (x.ravel()[1],)],
        domain=domain,
        reference=fields.pop("reference", getattr(scipy.special, name, None)),
        dtypes=fields.pop("dtypes", REAL),
        jax=in_jax,
        **fields,
    )


def several(name, *args, jax=True, params=None, **fields):
    p = primitive(name)
    in_jax = (lambda j: getattr(j.scipy.special, name)) if jax else None
    return spec(
        p,
        lambda *args, **params: p(*args, **params),
        [args, tuple([a.ravel()[1] for a in args])],
        params=params,
        reference=fields.pop("reference", getattr(scipy.special, name, None)),
        dtypes=fields.pop("dtypes", REAL[:1]),
        jax=in_jax,
        **fields,
    )


def difference(name, position, reference_name=None):
    """Central differences of SciPy's function by one argument."""
    f = getattr(scipy.special, reference_name or name)

    def reference(*args, **_):
        up, down = list(args), list(args)
        step = 1e-3
        total = 0.0
        for k, weight in ((1, 0.8), (2, -0.2), (3, 4 / 105), (4, -1 / 280)):
            up[position], down[position] = args[position] + k * step, args[position] - k * step
            total = total + weight * (f(*up) - f(*down)) / step
        return total

    return reference


SPECS = [
    unary("erf"),
    unary("erfc"),
    unary("erfcx", jax=False),
    unary("erfi", jax=False, backends=ON_CPU),
    unary("erfinv", UNIT, (-1, 1)),
    unary("erfcinv", INSIDE, (0, 2), jax=False),
    unary("dawsn", jax=False, backends=ON_CPU),
    unary("wofz", COMPLEX, jax=False, backends=ON_CPU, dtypes=("c8",)),
    unary("ndtr"),
    unary("ndtri", INSIDE, (0, 1)),
    unary("log_ndtr"),
    unary("ndtri_exp", -POSITIVE, jax=False, backends=ON_CPU, tolerance=1e-5),
    spec(
        primitive("ndtr_ratio"),
        s.ndtr_ratio,
        [(ANY,), (np.float64(-30.0),)],
        reference=lambda x: np.exp(-x * x / 2 - np.log(2 * np.pi) / 2 - scipy.special.log_ndtr(x)),
        tolerance=1e-5,
        dtypes=REAL,
    ),
    several("owens_t", ANY, OTHER, jax=False, backends=ON_CPU),
    unary("fresnel_s", jax=False, reference=lambda x: scipy.special.fresnel(x)[0], backends=ON_CPU, dtypes=("f4",)),
    unary("fresnel_c", jax=False, reference=lambda x: scipy.special.fresnel(x)[1], backends=ON_CPU, dtypes=("f4",)),
    # -- gamma and beta
    unary("gamma", POSITIVE, jax=False),
    unary("gammaln", POSITIVE),
    unary("loggamma", POSITIVE, jax=False),
    unary("gammasgn", ANY, order=1),
    unary("rgamma", POSITIVE, jax=False),
    unary("digamma", POSITIVE),
    several("zeta", POSITIVE + 1.1, OTHER, order=1, jax=False),
    several("zeta", POSITIVE + 1.1, OTHER, nondiff=(0,)),
    several("zeta_s", POSITIVE + 1.1, OTHER, nondiff=(0,), jax=False, reference=difference("zeta", 0)),
    unary("riemann_zeta", POSITIVE + 1.2, order=1, jax=False, reference=scipy.special.zeta),
    unary("riemann_zeta_s", POSITIVE + 1.2, order=0, jax=False, reference=difference("zeta", 0)),
    unary("zetac", POSITIVE + 1.2, order=1, jax=False),
    spec(
        primitive("polygamma"),
        lambda x, n: s.polygamma(n, x),
        [(POSITIVE,), (np.float64(0.8),)],
        params={"n": 2},
        reference=lambda x: scipy.special.polygamma(2, x),
        dtypes=REAL,
        jax=lambda j: lambda x: j.scipy.special.polygamma(2, x),
    ),
    spec(
        (primitive("zeta"), primitive("gamma")),
        s.polygamma,
        [(np.array([1.0, 2.0, 3.0]), np.array([0.4, 1.9, 3.3]))],
        nondiff=(0,),
        reference=scipy.special.polygamma,
        dtypes=(),
        id="polygamma_of_arrays",
    ),
    several("beta", POSITIVE, OTHER),
    several("betaln", POSITIVE, OTHER),
    several("poch", POSITIVE, OTHER, jax=False),
    several("binom", POSITIVE + 3.0, OTHER, jax=False),
    # -- incomplete gamma and beta
    several("gammainc", POSITIVE, OTHER, order=1),
    several("gammainc", POSITIVE, OTHER, nondiff=(0,)),
    several("gammaincc", POSITIVE, OTHER, order=1),
    several("gammainc_a", POSITIVE, OTHER, nondiff=(0,), jax=False, reference=difference("gammainc", 0)),
    several("gamma_density", POSITIVE, OTHER, jax=False, reference=difference("gammainc", 1)),
    several("random_gamma_grad", POSITIVE, OTHER, nondiff=(0,), jax=False, reference=None),
    several("gammaincinv", POSITIVE, INSIDE, order=1, jax=False),
    several("gammainccinv", POSITIVE, INSIDE, order=1, jax=False),
    several("betainc", POSITIVE, OTHER, INSIDE, order=1),
    several("betainc", POSITIVE, OTHER, INSIDE, nondiff=(0, 1)),
    several("betaincc", POSITIVE, OTHER, INSIDE, order=1, jax=False),
    *[
        several(
            "betainc_shape",
            POSITIVE,
            OTHER,
            INSIDE,
            params={"which": which},
            nondiff=(0, 1),
            jax=False,
            reference=difference("betainc", which),
        )
        for which in (0, 1)
    ],
    several("beta_density", POSITIVE, OTHER, INSIDE, jax=False, reference=difference("betainc", 2)),
    several("betaincinv", POSITIVE, OTHER, INSIDE, order=1, jax=False),
    several("betainccinv", POSITIVE, OTHER, INSIDE, order=1, jax=False, backends=ON_CPU),
    several("stdtr", POSITIVE, OTHER, order=1, jax=False, backends=ON_CPU),
    several(
        "stdtr_v", POSITIVE, OTHER, jax=False, nondiff=(0,), backends=ON_CPU, reference=difference("stdtr", 0)
    ),
    several("fdtri", POSITIVE, OTHER, INSIDE, order=1, jax=False),
    several("stdtrit", POSITIVE, INSIDE, order=1, jax=False, backends=ON_CPU),
    # -- Bessel functions
    unary("i0"),
    unary("i1"),
    unary("i0e"),
    unary("i1e"),
    unary("j0", jax=False),
    unary("j1", jax=False),
    *[unary(name, POSITIVE, jax=False) for name in ("y0", "y1", "k0", "k1", "k0e", "k1e")],
    *[
        several(name, OTHER + 1.0, POSITIVE, jax=False, nondiff=(0,), backends=ON_CPU)
        for name in ("jv", "jve", "yv", "yve", "iv", "kv", "ive", "kve", "struve", "modstruve")
    ],
    *[
        several(name, OTHER, POSITIVE, jax=False, order=1, backends=ON_CPU)
        for name in ("jv", "jve", "yv", "yve", "iv", "kv", "ive", "kve")
    ],
    *[
        several(
            f"{name}_order", OTHER, POSITIVE, jax=False, nondiff=(0,), backends=ON_CPU, reference=difference(name, 0)
        )
        for name in ("jv", "yv", "iv", "kv", "ive", "kve")
    ],
    # -- logarithms and powers
    several("xlogy", POSITIVE, OTHER),
    several("xlog1py", POSITIVE, OTHER),
    unary("entr", POSITIVE, (0, np.inf)),
    several("rel_entr", POSITIVE, OTHER),
    several("kl_div", POSITIVE, OTHER),
    unary("logit", INSIDE, (0, 1)),
    unary("log_expit", jax=False),
    unary("exprel", jax=False),
    *[
        spec(
            primitive("exp_moment"),
            s.exp_moment,
            [(np.array([-60.0, -16.5, -3.0, 0.0, 1e-9, 2.0, 15.5, 40.0]),), (np.float64(0.8),)],
            params={"n": n},
            reference=lambda x, n=n: scipy.special.hyp1f1(n + 1, n + 2, x) / (n + 1),
            dtypes=REAL[:1],
        )
        for n in (0, 2)
    ],
    *[several(name, POSITIVE, INSIDE - 0.5, jax=False) for name in ("boxcox", "boxcox1p")],
    *[several(name, POSITIVE, INSIDE - 0.2, jax=False) for name in ("inv_boxcox", "inv_boxcox1p")],
    several("powm1", POSITIVE, OTHER, jax=False, backends=ON_CPU),
    unary("cosm1", jax=False),
    unary("exp10", jax=False),
    several("huber", OTHER, ANY, jax=False),
    several("pseudo_huber", OTHER, ANY, jax=False),
    # -- integrals, hypergeometric functions, complex results
    unary("expi", POSITIVE),
    unary("exp1", POSITIVE),
    unary("spence", POSITIVE, backends=ON_CPU),
    unary(
        "log_over_excess",
        np.array([[0.3, 1.0, 1.0 + 1e-5], [0.7, 1.2, 3.1]]),
        jax=False,
        reference=lambda x: scipy.special.exprel(np.log(x)) ** -1,
    ),
    unary("sine_integral", jax=False, reference=lambda x: scipy.special.sici(x)[0], dtypes=("f4",)),
    unary("cosine_integral", POSITIVE, jax=False, reference=lambda x: scipy.special.sici(x)[1], dtypes=("f4",)),
    unary("sinhc", np.array([[0.3, 0.0, 1e-3], [2.7, -1.2, 3.1]]), jax=False, reference=None),
    unary("hyperbolic_sine_integral", jax=False, reference=lambda x: scipy.special.shichi(x)[0], dtypes=("f4",)),
    unary("hyperbolic_cosine_integral", POSITIVE, jax=False, reference=lambda x: scipy.special.shichi(x)[1], dtypes=("f4",)),
    *[
        spec(
            primitive("expn"),
            lambda x, n: s.expn(n, x),
            [(POSITIVE,), (np.float64(0.8),)],
            params={"n": n},
            reference=lambda x, n=n: scipy.special.expn(n, x),
            dtypes=REAL,
        )
        for n in (0, 1, 3)
    ],
    spec(
        primitive("expn"),
        s.expn,
        [(np.array([0.0, 1.0, 3.0]), np.array([0.4, 1.9, 3.3]))],
        nondiff=(0,),
        reference=scipy.special.expn,
        dtypes=(),
    ),
    unary("wrightomega", jax=False, backends=ON_CPU),
    unary("ellipk", UNIT, jax=False, backends=ON_CPU),
    unary("ellipkm1", INSIDE, jax=False, backends=ON_CPU),
    unary("ellipe", UNIT, jax=False, backends=ON_CPU),
    *[
        several(name, ANY * 1.5, np.array([[0.6, -0.2, 0.0], [-3.0, 0.15, 0.25]]), jax=False, backends=ON_CPU)
        for name in ("ellipkinc", "ellipeinc")
    ],
    several(
        "elliptic_d",
        ANY * 1.5,
        INSIDE * 0.9,
        jax=False,
        order=1,
        backends=ON_CPU,
        reference=lambda phi, m: (scipy.special.ellipkinc(phi, m) - scipy.special.ellipeinc(phi, m)) / m,
    ),
    several("hyp0f1", OTHER, ANY, jax=False, nondiff=(0,), backends=ON_CPU),
    several("hyp1f1", OTHER, POSITIVE, ANY, jax=False, order=1, backends=ON_CPU),
    several("hyp1f1", OTHER, POSITIVE, ANY, jax=False, nondiff=(0, 1), backends=ON_CPU),
    *[
        several(
            "kummer_slope",
            OTHER,
            POSITIVE + 0.5,
            ANY,
            params={"which": which},
            jax=False,
            nondiff=(0, 1),
            backends=ON_CPU,
            reference=difference("hyp1f1", which),
        )
        for which in (0, 1)
    ],
    several("hyp2f1", OTHER, POSITIVE, OTHER + 0.7, INSIDE, jax=False, nondiff=(0, 1, 2), backends=ON_CPU),
    several("hyperu", OTHER, POSITIVE, OTHER, jax=False, nondiff=(0, 1), backends=ON_CPU),
    *[
        spec(
            primitive("lambertw"),
            s.lambertw,
            [(COMPLEX,), (COMPLEX[0],)],
            params={"k": k},
            reference=lambda z, k=k: scipy.special.lambertw(z, k),
            dtypes=(),
        )
        for k in (0, -1)
    ],
    spec(
        primitive("sph_harm_y"),
        s.sph_harm_y,
        [
            (np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0, 0.0]), np.array([0.4, 1.9, 0.0]), np.array([0.3, -2.0, 1.0])),
            tuple(np.float64(v) for v in (2, 1, 0.7, 0.4)),
        ],
        nondiff=(0, 1),
        reference=lambda n, m, theta, phi: scipy.special.sph_harm_y(np.int64(n), np.int64(m), theta, phi),
        dtypes=("f4",),
    ),
]
