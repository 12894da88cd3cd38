"""scipy.special's ufuncs: one line each, the function of the primitive layer beside SciPy's name.

Idea: traced operands are converted as SciPy's own ufunc would (its table of loops; integers become float64, float16 float32),
then the primitive is bound. Complex operands work where SciPy has a loop for them alone and the derivative is in the same
functions; mixed loops (a real order, a complex argument) are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.ir.aval import dtype_of
from funcad.numpy.dispatch import checked_options, where_am_i
from funcad.numpy.promote import as_array, broadcast, promote_dtype, promote_for, strong
from funcad.primitives import arithmetic, special, special_bessel, special_integrals, special_polynomials, transcendental
from funcad.scipy.door import implements, scipy_function
from funcad.unjitted.remembered import remembered


def _homogeneous_complex(ufunc: Any) -> bool:
    return any(set(loop.partition("->")[0]) <= {"D"} for loop in ufunc.types)


def _of_whole_orders(ufunc: Any, args: Any, whole: int) -> list[Any]:
    """Operands in double precision, where the first `whole` are integers, for which SciPy has loops of their own."""
    arrays = [as_array(a) for a in args]
    if not all(dtype_of(a).kind in "iub" for a in arrays[:whole]):
        if all("l" in loop.partition("->")[0] for loop in ufunc.types):
            raise TypeError(f"{ufunc.__name__}: the degree must be an integer{where_am_i()}")
        return []
    return broadcast(promote_dtype(arrays, np.dtype(np.float64), None))


def as_ufunc(name: str, bound: Callable[..., Any], whole: int = 0, real: bool = False) -> Callable[..., Any]:
    """The public function for scipy.special's ufunc of that name, whose traced meaning is `bound`.

    `real`: the derivatives hold for real arguments alone, although SciPy has a loop of complex ones. Of the arguments the first
    `whole` may be integers, of which `bound` is told.
    """
    known: list[Any] = []

    def implementation(*args: Any, **kwargs: Any) -> Any:
        if not known:
            ufunc = scipy_function(f"special.{name}")
            if ufunc is None:
                raise NotImplementedError(f"special.{name}: this version of SciPy has no such function; a newer one has it.")
            known.extend([ufunc, not real and _homogeneous_complex(ufunc)])
        ufunc, takes_complex = known
        if kwargs or len(args) > ufunc.nin:
            checked_options(ufunc, args, kwargs)
            args = args[: ufunc.nin]
        if len(args) != ufunc.nin:
            raise TypeError(f"{name}() takes {ufunc.nin} arguments but {len(args)} were given")
        counted = _of_whole_orders(ufunc, args, whole) if whole else []
        operands = counted or promote_for(ufunc, args)
        if not takes_complex and any(dtype_of(a).kind == "c" for a in operands):
            raise TypeError(
                f"scipy.special.{name} of complex arguments was called with traced values{where_am_i()}; funcad has its "
                "derivatives for real arguments only.\nRemedy: wrap it in funcad.custom_jvp or funcad.pure_callback."
            )
        if all(type(a) in (float, complex, int) for a in operands):
            operands = [dtype_of(a).type(a) for a in operands]
        out = bound(*operands, whole=whole) if counted else bound(*operands)
        return tuple([strong(o) for o in out]) if type(out) is tuple else strong(out)

    quick = remembered(implementation)

    def chosen(*args: Any, **kwargs: Any) -> Any:
        """Of several operands one may be a number by which `bound` chooses, an order say."""
        return quick(*args) if len(args) == 1 and not kwargs else implementation(*args, **kwargs)

    chosen.__doc__ = None
    chosen.__name__ = chosen.__qualname__ = name
    return implements(f"special.{name}")(chosen)


# -- error functions and the normal distribution
erf = as_ufunc("erf", special.erf)
erfc = as_ufunc("erfc", special.erfc)
erfcx = as_ufunc("erfcx", special.erfcx)
erfi = as_ufunc("erfi", special.erfi)
erfinv = as_ufunc("erfinv", special.erfinv)
erfcinv = as_ufunc("erfcinv", special.erfcinv)
dawsn = as_ufunc("dawsn", special.dawsn)
wofz = as_ufunc("wofz", special.wofz)
ndtr = as_ufunc("ndtr", special.ndtr)
ndtri = as_ufunc("ndtri", special.ndtri)
ndtri_exp = as_ufunc("ndtri_exp", special.ndtri_exp)
log_ndtr = as_ufunc("log_ndtr", special.log_ndtr)
owens_t = as_ufunc("owens_t", special.owens_t)
fresnel = as_ufunc("fresnel", special.fresnel)

# -- gamma and beta functions
gamma = as_ufunc("gamma", special.gamma)
gammaln = as_ufunc("gammaln", special.gammaln)
loggamma = as_ufunc("loggamma", special.loggamma)
gammasgn = as_ufunc("gammasgn", special.gammasgn)
rgamma = as_ufunc("rgamma", special.rgamma)
digamma = psi = as_ufunc("psi", special.digamma)
poch = as_ufunc("poch", special.poch)
binom = as_ufunc("binom", special.binom)
beta = as_ufunc("beta", special.beta)
betaln = as_ufunc("betaln", special.betaln)
zetac = as_ufunc("zetac", special.zetac)
gammainc = as_ufunc("gammainc", special.gammainc)
gammaincc = as_ufunc("gammaincc", special.gammaincc)
gammaincinv = as_ufunc("gammaincinv", special.gammaincinv)
gammainccinv = as_ufunc("gammainccinv", special.gammainccinv)
betainc = as_ufunc("betainc", special.betainc)
betaincc = as_ufunc("betaincc", special.betaincc)
betaincinv = as_ufunc("betaincinv", special.betaincinv)
betainccinv = as_ufunc("betainccinv", special.betainccinv)
stdtr = as_ufunc("stdtr", special.stdtr)
stdtrit = as_ufunc("stdtrit", special.stdtrit)
fdtri = as_ufunc("fdtri", special.fdtri)

# -- Bessel and Struve functions
i0 = as_ufunc("i0", special.i0)
i1 = as_ufunc("i1", special.i1)
i0e = as_ufunc("i0e", special.i0e)
i1e = as_ufunc("i1e", special.i1e)
j0 = as_ufunc("j0", special.j0)
j1 = as_ufunc("j1", special.j1)
y0 = as_ufunc("y0", special.y0)
y1 = as_ufunc("y1", special.y1)
k0 = as_ufunc("k0", special.k0)
k1 = as_ufunc("k1", special.k1)
k0e = as_ufunc("k0e", special.k0e)
k1e = as_ufunc("k1e", special.k1e)
jv = jn = as_ufunc("jv", special.jv)
jve = as_ufunc("jve", special.jve)
yv = as_ufunc("yv", special.yv)
yn = as_ufunc("yn", special.yv)
yve = as_ufunc("yve", special.yve)
iv = as_ufunc("iv", special.iv)
ive = as_ufunc("ive", special.ive)
kv = as_ufunc("kv", special.kv)
kn = as_ufunc("kn", special.kv)
kve = as_ufunc("kve", special.kve)
struve = as_ufunc("struve", special.struve)
modstruve = as_ufunc("modstruve", special.modstruve)

# -- logarithms and powers
xlogy = as_ufunc("xlogy", special.xlogy)
xlog1py = as_ufunc("xlog1py", special.xlog1py)
entr = as_ufunc("entr", special.entr)
rel_entr = as_ufunc("rel_entr", special.rel_entr)
kl_div = as_ufunc("kl_div", special.kl_div)
logit = as_ufunc("logit", special.logit)
expit = as_ufunc("expit", special.expit)
log_expit = as_ufunc("log_expit", special.log_expit)
exprel = as_ufunc("exprel", special.exprel)
boxcox = as_ufunc("boxcox", special.boxcox)
boxcox1p = as_ufunc("boxcox1p", special.boxcox1p)
inv_boxcox = as_ufunc("inv_boxcox", special.inv_boxcox)
inv_boxcox1p = as_ufunc("inv_boxcox1p", special.inv_boxcox1p)
powm1 = as_ufunc("powm1", special.powm1)
cosm1 = as_ufunc("cosm1", special.cosm1)
exp10 = as_ufunc("exp10", special.exp10)
exp2 = as_ufunc("exp2", transcendental.exp2)
expm1 = as_ufunc("expm1", transcendental.expm1)
log1p = as_ufunc("log1p", transcendental.log1p)
cbrt = as_ufunc("cbrt", arithmetic.cbrt)
huber = as_ufunc("huber", special.huber)
pseudo_huber = as_ufunc("pseudo_huber", special.pseudo_huber)

# -- integrals and hypergeometric functions
expi = as_ufunc("expi", special.expi)
exp1 = as_ufunc("exp1", special.exp1)
expn = as_ufunc("expn", special.expn)
spence = as_ufunc("spence", special.spence)
sici = as_ufunc("sici", special.sici)
shichi = as_ufunc("shichi", special.shichi)
ellipk = as_ufunc("ellipk", special.ellipk)
ellipkm1 = as_ufunc("ellipkm1", special.ellipkm1)
ellipe = as_ufunc("ellipe", special.ellipe)
ellipkinc = as_ufunc("ellipkinc", special.ellipkinc)
ellipeinc = as_ufunc("ellipeinc", special.ellipeinc)
wrightomega = as_ufunc("wrightomega", special.wrightomega)
hyp0f1 = as_ufunc("hyp0f1", special.hyp0f1)
hyp1f1 = as_ufunc("hyp1f1", special.hyp1f1)
hyp2f1 = as_ufunc("hyp2f1", special.hyp2f1)
hyperu = as_ufunc("hyperu", special.hyperu)


# -- ufuncs of the families that are tables: one line each


# -- Airy, Kelvin, parabolic cylinder functions
airy = as_ufunc("airy", special_bessel.airy)
airye = as_ufunc("airye", special_bessel.airye, real=True)
itairy = as_ufunc("itairy", special_bessel.itairy)
ber = as_ufunc("ber", special_bessel.ber)
bei = as_ufunc("bei", special_bessel.bei)
ker = as_ufunc("ker", special_bessel.ker)
kei = as_ufunc("kei", special_bessel.kei)
berp = as_ufunc("berp", special_bessel.berp)
beip = as_ufunc("beip", special_bessel.beip)
kerp = as_ufunc("kerp", special_bessel.kerp)
keip = as_ufunc("keip", special_bessel.keip)
kelvin = as_ufunc("kelvin", special_bessel.kelvin)
pbdv = as_ufunc("pbdv", special_bessel.SEVERAL["pbdv"])
pbvv = as_ufunc("pbvv", special_bessel.SEVERAL["pbvv"])
pbwa = as_ufunc("pbwa", special_bessel.SEVERAL["pbwa"])

# -- Mathieu and spheroidal functions
mathieu_a = as_ufunc("mathieu_a", special_bessel.mathieu_a)
mathieu_b = as_ufunc("mathieu_b", special_bessel.mathieu_b)
mathieu_cem = as_ufunc("mathieu_cem", special_bessel.SEVERAL["mathieu_cem"])
mathieu_sem = as_ufunc("mathieu_sem", special_bessel.SEVERAL["mathieu_sem"])
mathieu_modcem1 = as_ufunc("mathieu_modcem1", special_bessel.SEVERAL["mathieu_modcem1"])
mathieu_modcem2 = as_ufunc("mathieu_modcem2", special_bessel.SEVERAL["mathieu_modcem2"])
mathieu_modsem1 = as_ufunc("mathieu_modsem1", special_bessel.SEVERAL["mathieu_modsem1"])
mathieu_modsem2 = as_ufunc("mathieu_modsem2", special_bessel.SEVERAL["mathieu_modsem2"])
pro_cv = as_ufunc("pro_cv", special_bessel.pro_cv)
obl_cv = as_ufunc("obl_cv", special_bessel.obl_cv)
pro_ang1 = as_ufunc("pro_ang1", special_bessel.SEVERAL["pro_ang1"])
pro_ang1_cv = as_ufunc("pro_ang1_cv", special_bessel.SEVERAL["pro_ang1_cv"])
pro_rad1 = as_ufunc("pro_rad1", special_bessel.SEVERAL["pro_rad1"])
pro_rad1_cv = as_ufunc("pro_rad1_cv", special_bessel.SEVERAL["pro_rad1_cv"])
pro_rad2 = as_ufunc("pro_rad2", special_bessel.SEVERAL["pro_rad2"])
pro_rad2_cv = as_ufunc("pro_rad2_cv", special_bessel.SEVERAL["pro_rad2_cv"])
obl_ang1 = as_ufunc("obl_ang1", special_bessel.SEVERAL["obl_ang1"])
obl_ang1_cv = as_ufunc("obl_ang1_cv", special_bessel.SEVERAL["obl_ang1_cv"])
obl_rad1 = as_ufunc("obl_rad1", special_bessel.SEVERAL["obl_rad1"])
obl_rad1_cv = as_ufunc("obl_rad1_cv", special_bessel.SEVERAL["obl_rad1_cv"])
obl_rad2 = as_ufunc("obl_rad2", special_bessel.SEVERAL["obl_rad2"])
obl_rad2_cv = as_ufunc("obl_rad2_cv", special_bessel.SEVERAL["obl_rad2_cv"])

# -- integrals, degrees, Tukey's distribution
iti0k0 = as_ufunc("iti0k0", special_bessel.SEVERAL["iti0k0"])
itj0y0 = as_ufunc("itj0y0", special_bessel.SEVERAL["itj0y0"])
it2i0k0 = as_ufunc("it2i0k0", special_bessel.SEVERAL["it2i0k0"])
it2j0y0 = as_ufunc("it2j0y0", special_bessel.SEVERAL["it2j0y0"])
itstruve0 = as_ufunc("itstruve0", special_bessel.itstruve0)
it2struve0 = as_ufunc("it2struve0", special_bessel.it2struve0)
itmodstruve0 = as_ufunc("itmodstruve0", special_bessel.itmodstruve0)
modfresnelp = as_ufunc("modfresnelp", special_bessel.modfresnelp)
modfresnelm = as_ufunc("modfresnelm", special_bessel.modfresnelm)
sindg = as_ufunc("sindg", special_bessel.sindg)
cosdg = as_ufunc("cosdg", special_bessel.cosdg)
tandg = as_ufunc("tandg", special_bessel.tandg)
cotdg = as_ufunc("cotdg", special_bessel.cotdg)
radian = as_ufunc("radian", special_bessel.radian)
round = as_ufunc("round", special_bessel.round_)
tklmbda = as_ufunc("tklmbda", special_bessel.tklmbda)

# -- elliptic integrals and functions
elliprc = as_ufunc("elliprc", special_integrals.elliprc, real=True)
elliprd = as_ufunc("elliprd", special_integrals.elliprd, real=True)
elliprf = as_ufunc("elliprf", special_integrals.elliprf, real=True)
elliprg = as_ufunc("elliprg", special_integrals.elliprg, real=True)
elliprj = as_ufunc("elliprj", special_integrals.elliprj, real=True)
agm = as_ufunc("agm", special_integrals.agm)
ellipj = as_ufunc("ellipj", special_integrals.ellipj)

# -- orthogonal polynomials
eval_jacobi = as_ufunc("eval_jacobi", special_polynomials.later["jacobi"], whole=1)
eval_sh_jacobi = as_ufunc("eval_sh_jacobi", special_polynomials.later["sh_jacobi"], whole=1)
eval_gegenbauer = as_ufunc("eval_gegenbauer", special_polynomials.later["gegenbauer"], whole=1)
eval_genlaguerre = as_ufunc("eval_genlaguerre", special_polynomials.later["genlaguerre"], whole=1)
eval_laguerre = as_ufunc("eval_laguerre", special_polynomials.later["laguerre"], whole=1)
eval_legendre = as_ufunc("eval_legendre", special_polynomials.later["legendre"], whole=1)
eval_sh_legendre = as_ufunc("eval_sh_legendre", special_polynomials.later["sh_legendre"], whole=1)
eval_chebyt = as_ufunc("eval_chebyt", special_polynomials.later["chebyt"], whole=1)
eval_chebyu = as_ufunc("eval_chebyu", special_polynomials.later["chebyu"], whole=1)
eval_chebyc = as_ufunc("eval_chebyc", special_polynomials.later["chebyc"], whole=1)
eval_chebys = as_ufunc("eval_chebys", special_polynomials.later["chebys"], whole=1)
eval_sh_chebyt = as_ufunc("eval_sh_chebyt", special_polynomials.later["sh_chebyt"], whole=1)
eval_sh_chebyu = as_ufunc("eval_sh_chebyu", special_polynomials.later["sh_chebyu"], whole=1)
eval_hermite = as_ufunc("eval_hermite", special_polynomials.later["hermite"], whole=1)
eval_hermitenorm = as_ufunc("eval_hermitenorm", special_polynomials.later["hermitenorm"], whole=1)
lpmv = as_ufunc("lpmv", special_polynomials.lpmv)

# -- distributions and their inverses
bdtri = as_ufunc("bdtri", special.bdtri)
bdtrik = as_ufunc("bdtrik", special.bdtrik)
bdtrin = as_ufunc("bdtrin", special.bdtrin)
nbdtri = as_ufunc("nbdtri", special.nbdtri)
nbdtrik = as_ufunc("nbdtrik", special.nbdtrik)
nbdtrin = as_ufunc("nbdtrin", special.nbdtrin)
btdtria = as_ufunc("btdtria", special.btdtria)
btdtrib = as_ufunc("btdtrib", special.btdtrib)
chdtriv = as_ufunc("chdtriv", special.chdtriv)
fdtridfd = as_ufunc("fdtridfd", special.fdtridfd)
gdtria = as_ufunc("gdtria", special.gdtria)
gdtrib = as_ufunc("gdtrib", special.gdtrib)
pdtri = as_ufunc("pdtri", special.pdtri)
pdtrik = as_ufunc("pdtrik", special.pdtrik)
stdtridf = as_ufunc("stdtridf", special.stdtridf)
chndtr = as_ufunc("chndtr", special.chndtr)
chndtrix = as_ufunc("chndtrix", special.chndtrix)
chndtridf = as_ufunc("chndtridf", special.chndtridf)
chndtrinc = as_ufunc("chndtrinc", special.chndtrinc)
ncfdtr = as_ufunc("ncfdtr", special.ncfdtr)
ncfdtri = as_ufunc("ncfdtri", special.ncfdtri)
ncfdtridfn = as_ufunc("ncfdtridfn", special.ncfdtridfn)
ncfdtridfd = as_ufunc("ncfdtridfd", special.ncfdtridfd)
ncfdtrinc = as_ufunc("ncfdtrinc", special.ncfdtrinc)
nctdtr = as_ufunc("nctdtr", special.nctdtr)
nctdtrit = as_ufunc("nctdtrit", special.nctdtrit)
nctdtridf = as_ufunc("nctdtridf", special.nctdtridf)
nctdtrinc = as_ufunc("nctdtrinc", special.nctdtrinc)
smirnov = as_ufunc("smirnov", special.smirnov)
smirnovi = as_ufunc("smirnovi", special.smirnovi)
kolmogorov = as_ufunc("kolmogorov", special.kolmogorov)
kolmogi = as_ufunc("kolmogi", special.kolmogi)
nrdtrimn = as_ufunc("nrdtrimn", special.nrdtrimn)
nrdtrisd = as_ufunc("nrdtrisd", special.nrdtrisd)

# -- Wright's function, an integral of Bessel functions
wright_bessel = as_ufunc("wright_bessel", special_integrals.wright_bessel)
log_wright_bessel = as_ufunc("log_wright_bessel", special_integrals.log_wright_bessel)
besselpoly = as_ufunc("besselpoly", special_integrals.besselpoly)
