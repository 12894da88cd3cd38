"""scipy.special's ufuncs: one line each, the function of the primitive layer beside SciPy's name.

Idea: traced operands are converted as SciPy's own ufunc would (its table of loops; integers become float64, float16 float32),
then the primitive is bound. Complex operands work where SciPy has a loop for them alone and the derivative is in the same
functions; mixed loops (a real order, a complex argument) are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funcad.ir.aval import dtype_of
from funcad.numpy.dispatch import checked_options
from funcad.numpy.promote import promote_for, strong
from funcad.primitives import arithmetic, special, transcendental
from funcad.scipy.door import implements, scipy_function, where_am_i
from funcad.unjitted.remembered import remembered


def _homogeneous_complex(ufunc: Any) -> bool:
    return any(set(loop.partition("->")[0]) <= {"D"} for loop in ufunc.types)


def _ufunc(name: str, bound: Callable[..., Any]) -> Callable[..., Any]:
    """The public function for scipy.special's ufunc of that name, whose traced meaning is `bound`."""
    known: list[Any] = []

    def implementation(*args: Any, **kwargs: Any) -> Any:
        if not known:
            ufunc = scipy_function(f"special.{name}")
            if ufunc is None:
                raise NotImplementedError(f"special.{name}: this version of SciPy has no such function; a newer one has it.")
            known.extend([ufunc, _homogeneous_complex(ufunc)])
        ufunc, takes_complex = known
        if kwargs or len(args) > ufunc.nin:
            checked_options(ufunc, args, kwargs)
            args = args[: ufunc.nin]
        if len(args) != ufunc.nin:
            raise TypeError(f"{name}() takes {ufunc.nin} arguments but {len(args)} were given")
        operands = promote_for(ufunc, args)
        if not takes_complex and any(dtype_of(a).kind == "c" for a in operands):
            raise TypeError(
                f"scipy.special.{name} of complex arguments was called with traced values{where_am_i()}; funcad has its "
                "derivatives for real arguments only.\nRemedy: wrap it in funcad.custom_jvp or funcad.pure_callback."
            )
        if all(type(a) in (float, complex, int) for a in operands):
            operands = [dtype_of(a).type(a) for a in operands]
        out = bound(*operands)
        return tuple([strong(o) for o in out]) if type(out) is tuple else strong(out)

    quick = remembered(implementation)

    def chosen(*args: Any, **kwargs: Any) -> Any:
        """Of several operands one may be a number by which `bound` chooses, an order say."""
        return quick(*args) if len(args) == 1 and not kwargs else implementation(*args, **kwargs)

    chosen.__doc__ = None
    chosen.__name__ = chosen.__qualname__ = name
    return implements(f"special.{name}")(chosen)


# -- error functions and the normal distribution
erf = _ufunc("erf", special.erf)
erfc = _ufunc("erfc", special.erfc)
erfcx = _ufunc("erfcx", special.erfcx)
erfi = _ufunc("erfi", special.erfi)
erfinv = _ufunc("erfinv", special.erfinv)
erfcinv = _ufunc("erfcinv", special.erfcinv)
dawsn = _ufunc("dawsn", special.dawsn)
wofz = _ufunc("wofz", special.wofz)
ndtr = _ufunc("ndtr", special.ndtr)
ndtri = _ufunc("ndtri", special.ndtri)
ndtri_exp = _ufunc("ndtri_exp", special.ndtri_exp)
log_ndtr = _ufunc("log_ndtr", special.log_ndtr)
owens_t = _ufunc("owens_t", special.owens_t)
fresnel = _ufunc("fresnel", special.fresnel)

# -- gamma and beta functions
gamma = _ufunc("gamma", special.gamma)
gammaln = _ufunc("gammaln", special.gammaln)
loggamma = _ufunc("loggamma", special.loggamma)
gammasgn = _ufunc("gammasgn", special.gammasgn)
rgamma = _ufunc("rgamma", special.rgamma)
digamma = psi = _ufunc("psi", special.digamma)
poch = _ufunc("poch", special.poch)
binom = _ufunc("binom", special.binom)
beta = _ufunc("beta", special.beta)
betaln = _ufunc("betaln", special.betaln)
zetac = _ufunc("zetac", special.zetac)
gammainc = _ufunc("gammainc", special.gammainc)
gammaincc = _ufunc("gammaincc", special.gammaincc)
gammaincinv = _ufunc("gammaincinv", special.gammaincinv)
gammainccinv = _ufunc("gammainccinv", special.gammainccinv)
betainc = _ufunc("betainc", special.betainc)
betaincc = _ufunc("betaincc", special.betaincc)
betaincinv = _ufunc("betaincinv", special.betaincinv)
betainccinv = _ufunc("betainccinv", special.betainccinv)
stdtr = _ufunc("stdtr", special.stdtr)
stdtrit = _ufunc("stdtrit", special.stdtrit)
fdtri = _ufunc("fdtri", special.fdtri)

# -- Bessel and Struve functions
i0 = _ufunc("i0", special.i0)
i1 = _ufunc("i1", special.i1)
i0e = _ufunc("i0e", special.i0e)
i1e = _ufunc("i1e", special.i1e)
j0 = _ufunc("j0", special.j0)
j1 = _ufunc("j1", special.j1)
y0 = _ufunc("y0", special.y0)
y1 = _ufunc("y1", special.y1)
k0 = _ufunc("k0", special.k0)
k1 = _ufunc("k1", special.k1)
k0e = _ufunc("k0e", special.k0e)
k1e = _ufunc("k1e", special.k1e)
jv = jn = _ufunc("jv", special.jv)
jve = _ufunc("jve", special.jve)
yv = _ufunc("yv", special.yv)
yn = _ufunc("yn", special.yv)
yve = _ufunc("yve", special.yve)
iv = _ufunc("iv", special.iv)
ive = _ufunc("ive", special.ive)
kv = _ufunc("kv", special.kv)
kn = _ufunc("kn", special.kv)
kve = _ufunc("kve", special.kve)
struve = _ufunc("struve", special.struve)
modstruve = _ufunc("modstruve", special.modstruve)

# -- logarithms and powers
xlogy = _ufunc("xlogy", special.xlogy)
xlog1py = _ufunc("xlog1py", special.xlog1py)
entr = _ufunc("entr", special.entr)
rel_entr = _ufunc("rel_entr", special.rel_entr)
kl_div = _ufunc("kl_div", special.kl_div)
logit = _ufunc("logit", special.logit)
expit = _ufunc("expit", special.expit)
log_expit = _ufunc("log_expit", special.log_expit)
exprel = _ufunc("exprel", special.exprel)
boxcox = _ufunc("boxcox", special.boxcox)
boxcox1p = _ufunc("boxcox1p", special.boxcox1p)
inv_boxcox = _ufunc("inv_boxcox", special.inv_boxcox)
inv_boxcox1p = _ufunc("inv_boxcox1p", special.inv_boxcox1p)
powm1 = _ufunc("powm1", special.powm1)
cosm1 = _ufunc("cosm1", special.cosm1)
exp10 = _ufunc("exp10", special.exp10)
exp2 = _ufunc("exp2", transcendental.exp2)
expm1 = _ufunc("expm1", transcendental.expm1)
log1p = _ufunc("log1p", transcendental.log1p)
cbrt = _ufunc("cbrt", arithmetic.cbrt)
huber = _ufunc("huber", special.huber)
pseudo_huber = _ufunc("pseudo_huber", special.pseudo_huber)

# -- integrals and hypergeometric functions
expi = _ufunc("expi", special.expi)
exp1 = _ufunc("exp1", special.exp1)
expn = _ufunc("expn", special.expn)
spence = _ufunc("spence", special.spence)
sici = _ufunc("sici", special.sici)
shichi = _ufunc("shichi", special.shichi)
ellipk = _ufunc("ellipk", special.ellipk)
ellipkm1 = _ufunc("ellipkm1", special.ellipkm1)
ellipe = _ufunc("ellipe", special.ellipe)
ellipkinc = _ufunc("ellipkinc", special.ellipkinc)
ellipeinc = _ufunc("ellipeinc", special.ellipeinc)
wrightomega = _ufunc("wrightomega", special.wrightomega)
hyp0f1 = _ufunc("hyp0f1", special.hyp0f1)
hyp1f1 = _ufunc("hyp1f1", special.hyp1f1)
hyp2f1 = _ufunc("hyp2f1", special.hyp2f1)
hyperu = _ufunc("hyperu", special.hyperu)
