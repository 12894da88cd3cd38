"""funcad.scipy.special."""

from __future__ import annotations

import numpy as np
import scipy.special

from tests.surface import case

ANY = np.array([-1.3, 0.4, 2.2])
POSITIVE = np.array([0.3, 0.9, 2.7])
OTHER = np.array([1.8, 0.6, 1.1])
THIRD = np.array([0.7, 2.4, 1.3])
INSIDE = np.array([0.1, 0.9, 0.45])
UNIT = np.array([-0.6, 0.2, 0.85])
COMPLEX = np.array([0.4 + 0.3j, -0.7 + 1.1j])
MATRIX = np.array([[0.3, -1.2, 2.0], [0.7, 0.1, -0.4]])
ON_CPU = "cupyx.scipy.special has no such function"
PLAIN = "a function of SciPy's that is no ufunc cannot be called on traced values"


def one(name, x=ANY, cupy=True, **fields):
    missing = {} if cupy else {"cupy": ON_CPU}
    return case(f"scipy.special.{name}", x, missing=missing, **fields)


def more(name, *args, cupy=True, **fields):
    missing = {} if cupy else {"cupy": ON_CPU}
    return case(f"scipy.special.{name}", *args, missing=missing, **fields)


def composite(name, *args, cupy=True, **fields):
    missing = {"plain": PLAIN} if cupy else {"plain": PLAIN, "cupy": ON_CPU}
    return case(f"scipy.special.{name}", *args, missing=missing, **fields)



def _bessel_jn(z, v):
    return scipy.special.jv(np.arange(v + 1, dtype=z.dtype)[:, None], z)


CASES = [
    *[one(n) for n in ("erf", "erfc", "erfcx", "ndtr", "log_ndtr", "expit", "log_expit", "exprel", "cosm1")],
    *[one(n, cupy=False) for n in ("erfi", "dawsn", "fresnel")],
    *[one(n) for n in ("exp2", "exp10", "expm1", "cbrt", "i0", "i1", "i0e", "i1e", "j0", "j1")],
    one("wofz", COMPLEX, cupy=False),
    *[one(n, COMPLEX, cupy=n in ("erf", "expi")) for n in ("erf", "dawsn", "expi", "fresnel")],
    *[one(n, COMPLEX + 1.5, order=1) for n in ("gamma", "loggamma", "rgamma")],
    one("erfinv", UNIT),
    one("erfcinv", INSIDE * 2),
    one("ndtri", INSIDE),
    one("ndtri_exp", -POSITIVE, cupy=False),
    one("logit", INSIDE),
    *[one(n, POSITIVE) for n in ("gamma", "gammaln", "loggamma", "rgamma", "digamma", "psi", "entr", "log1p")],
    one("gammasgn", ANY),
    *[one(n, POSITIVE) for n in ("y0", "y1", "k0", "k1", "k0e", "k1e", "expi", "exp1", "sici", "shichi")],
    one("spence", POSITIVE, cupy=False),
    one("zetac", POSITIVE + 1.2),
    one("ellipk", UNIT, cupy=False),
    one("ellipe", UNIT, cupy=False),
    one("ellipkm1", INSIDE, cupy=False),
    more("ellipkinc", ANY, UNIT, cupy=False),
    more("ellipeinc", ANY, UNIT, cupy=False),
    more("owens_t", ANY, OTHER, cupy=False),
    *[more(n, POSITIVE, OTHER) for n in ("beta", "betaln", "xlogy", "xlog1py", "rel_entr", "kl_div", "poch")],
    more("binom", POSITIVE + 3.0, OTHER),
    *[more(n, POSITIVE, UNIT) for n in ("boxcox", "boxcox1p")],
    *[more(n, POSITIVE, np.array([0.4, -0.2, 0.0])) for n in ("inv_boxcox", "inv_boxcox1p")],
    more("powm1", POSITIVE, OTHER, cupy=False),
    more("huber", OTHER, np.array([-0.4, 2.2, 0.3])),
    more("pseudo_huber", OTHER, np.array([-0.4, 2.2, 0.3])),
    *[more(n, POSITIVE, OTHER) for n in ("gammainc", "gammaincc")],
    *[more(n, POSITIVE, INSIDE) for n in ("gammaincinv", "gammainccinv")],
    more("betainc", POSITIVE, OTHER, INSIDE),
    more("betaincc", POSITIVE, OTHER, INSIDE),
    more("betaincinv", POSITIVE, OTHER, INSIDE),
    more("betainccinv", POSITIVE, OTHER, INSIDE, cupy=False),
    more("gammainc", OTHER, POSITIVE, nondiff=(0,)),
    more("gammaincinv", OTHER, INSIDE, nondiff=(0,)),
    more("betainc", OTHER, POSITIVE, INSIDE, nondiff=(0, 1)),
    *[more(n, OTHER, POSITIVE, cupy=False) for n in ("jv", "jve", "yv", "yve", "iv", "ive", "kv", "kve")],
    *[more(n, OTHER, POSITIVE, nondiff=(0,), cupy=False) for n in ("jv", "iv", "kv", "kve", "struve", "modstruve")],
    more("jn", np.array([1, 2, 0]), POSITIVE, cupy=False),
    more("yn", np.array([1, 2, 0]), POSITIVE, cupy=False),
    more("kn", np.array([1, 2, 0]), POSITIVE, cupy=False),
    *[composite(n, OTHER, POSITIVE, cupy=False) for n in ("hankel1", "hankel2", "hankel1e", "hankel2e")],
    more("bessel_jn", POSITIVE, kwargs={"v": 2}, reference=_bessel_jn, cupy=False),
    more("hyp0f1", OTHER, ANY, nondiff=(0,), cupy=False),
    more("hyp1f1", OTHER, POSITIVE, ANY, cupy=False),
    more("hyp1f1", OTHER, POSITIVE, ANY, nondiff=(0, 1), cupy=False),
    more("hyp2f1", OTHER, POSITIVE, THIRD, UNIT, nondiff=(0, 1, 2), cupy=False),
    more("hyperu", OTHER, POSITIVE, THIRD, nondiff=(0, 1), cupy=False),
    composite("polygamma", 1, POSITIVE),
    composite("polygamma", 0, POSITIVE),
    composite("polygamma", np.array([0, 1, 3]), POSITIVE),
    composite("zeta", POSITIVE + 1.2, OTHER),
    composite("zeta", OTHER + 1.2, POSITIVE, nondiff=(0,)),
    composite("zeta", np.array([1.7, -0.3, -2.6, 0.4])),
    composite("multigammaln", POSITIVE + 1.0, 3),
    composite("factorial", POSITIVE),
    composite("factorial", np.array([0, 3, 5])),
    composite("comb", POSITIVE + 3.0, OTHER),
    composite("comb", POSITIVE + 3.0, OTHER, kwargs={"repetition": True}),
    composite("perm", POSITIVE + 3.0, OTHER),
    case("scipy.special.bernoulli", 4, order=0),
    more("expn", 0, POSITIVE),
    more("expn", 3, POSITIVE),
    more("expn", np.array([0, 1, 2]), POSITIVE),
    composite("lambertw", POSITIVE, cupy=True),
    composite("lambertw", COMPLEX, 1),
    composite("sph_harm_y", 2, 1, POSITIVE, ANY),
    composite("sph_harm_y", np.array([1, 2, 3]), np.array([1, -2, 0]), POSITIVE, ANY),
    composite("sinc", ANY),
    composite("diric", ANY, 5),
    composite("logsumexp", MATRIX),
    composite("logsumexp", MATRIX, kwargs={"axis": 0, "keepdims": True}),
    composite("logsumexp", MATRIX, kwargs={"axis": (0, 1), "return_sign": True}),
    composite("logsumexp", MATRIX, 1, MATRIX[::-1] + 0.5, kwargs={"return_sign": True}),
    composite("logsumexp", MATRIX, None, POSITIVE),
    composite("logsumexp", COMPLEX),
    composite("logsumexp", np.float64(0.7)),
    composite("softmax", MATRIX),
    composite("softmax", MATRIX, kwargs={"axis": 1}),
    composite("log_softmax", MATRIX, kwargs={"axis": (0, 1)}),
    composite("log_softmax", MATRIX, 0),
    *[more(n, OTHER, POSITIVE) for n in ("chdtr", "chdtrc")],
    more("chdtri", OTHER, INSIDE),
    *[more(n, THIRD, OTHER, POSITIVE) for n in ("gdtr", "gdtrc")],
    more("fdtr", THIRD, OTHER, POSITIVE),
    more("fdtrc", THIRD, OTHER, POSITIVE),
    *[more(n, np.array([0, 1, 3]), POSITIVE) for n in ("pdtr", "pdtrc")],
    more("stdtr", OTHER, ANY, cupy=False),
    more("stdtr", OTHER, ANY, nondiff=(0,), cupy=False),
    more("stdtrit", OTHER, INSIDE, cupy=False),
    more("gdtrix", THIRD, OTHER, INSIDE),
    more("fdtri", THIRD, OTHER, INSIDE),
    *[more(n, np.array([0.0, 1.0, 3.0]), np.array([4, 3, 7]), INSIDE, nondiff=(0,)) for n in ("bdtr", "bdtrc")],
    *[more(n, np.array([0, 1, 3]), np.array([4, 3, 7]), INSIDE) for n in ("nbdtr", "nbdtrc")],
    one("wrightomega", COMPLEX, cupy=False),
    one("wrightomega", ANY, cupy=False),
    composite("softplus", ANY),
    more("voigt_profile", ANY, OTHER, POSITIVE, cupy=False),
]
