"""`scipy.special`, differentiable: values are SciPy's own, derivatives funcad's, in all float arguments.

Arguments, dtypes and errors are SciPy's, on traced values too; `out=` and `where=` are not supported there. Shapes, orders and
other parameters have derivatives as well, of full accuracy, to the second order; the third raises `MissingRuleError`, and so
does what is not known (the manual's page on special functions lists it, with the errors beside mpmath).
SciPy's own ufuncs called on traced values (`scipy.special.gammaln(x)`) come here too.

>>> import numpy as np, funcad
>>> from funcad.scipy import special
>>> funcad.grad(special.gammainc, argnums=(0, 1))(2.0, 1.5)[0].round(6)
np.float64(-0.313489)
"""

import importlib as _importlib
import typing as _typing

from funcad.scipy.door import absent as _absent

_SOFTMAXES = "log_softmax logsumexp softmax".split()
_COMPOSITE = (  # the others are ufuncs
    "bdtr bdtrc bernoulli bessel_jn chdtr chdtrc chdtri comb diric factorial fdtr fdtrc gdtr gdtrc gdtrix hankel1 "
    "hankel1e hankel2 hankel2e lambertw multigammaln nbdtr nbdtrc pdtr pdtrc perm polygamma sinc softplus sph_harm_y "
    "voigt_profile zeta"
).split()


def _later(name: str) -> _typing.Any:
    """What is loaded when it is first asked for, with its family of primitives alone; None if there is no such name."""
    file = "softmaxes" if name in _SOFTMAXES else "composite" if name in _COMPOSITE else "special_ufuncs"
    module = _importlib.import_module(f"funcad.scipy.special.{file}")
    if file == "special_ufuncs" and name not in module.KNOWN:
        return None
    value = globals()[name] = getattr(module, name)
    return value


if _typing.TYPE_CHECKING:  # isort: off
    from funcad.scipy.special.composite import (
        bdtr as bdtr, bdtrc as bdtrc, bernoulli as bernoulli, bessel_jn as bessel_jn, chdtr as chdtr, chdtrc as chdtrc,
        chdtri as chdtri, comb as comb, diric as diric, factorial as factorial, fdtr as fdtr, fdtrc as fdtrc, gdtr as gdtr,
        gdtrc as gdtrc, gdtrix as gdtrix, hankel1 as hankel1, hankel1e as hankel1e, hankel2 as hankel2, hankel2e as hankel2e,
        lambertw as lambertw, multigammaln as multigammaln, nbdtr as nbdtr, nbdtrc as nbdtrc, pdtr as pdtr, pdtrc as pdtrc,
        perm as perm, polygamma as polygamma, sinc as sinc, softplus as softplus, sph_harm_y as sph_harm_y,
        voigt_profile as voigt_profile, zeta as zeta,
    )  # fmt: skip
    from funcad.scipy.special.softmaxes import log_softmax as log_softmax, logsumexp as logsumexp, softmax as softmax
    from numpy import ufunc as _ufunc

    agm: _ufunc
    airy: _ufunc
    airye: _ufunc
    bdtri: _ufunc
    bdtrik: _ufunc
    bdtrin: _ufunc
    bei: _ufunc
    beip: _ufunc
    ber: _ufunc
    berp: _ufunc
    besselpoly: _ufunc
    beta: _ufunc
    betainc: _ufunc
    betaincc: _ufunc
    betainccinv: _ufunc
    betaincinv: _ufunc
    betaln: _ufunc
    binom: _ufunc
    boxcox: _ufunc
    boxcox1p: _ufunc
    btdtria: _ufunc
    btdtrib: _ufunc
    cbrt: _ufunc
    chdtriv: _ufunc
    chndtr: _ufunc
    chndtridf: _ufunc
    chndtrinc: _ufunc
    chndtrix: _ufunc
    cosdg: _ufunc
    cosm1: _ufunc
    cotdg: _ufunc
    dawsn: _ufunc
    digamma: _ufunc
    ellipe: _ufunc
    ellipeinc: _ufunc
    ellipj: _ufunc
    ellipk: _ufunc
    ellipkinc: _ufunc
    ellipkm1: _ufunc
    elliprc: _ufunc
    elliprd: _ufunc
    elliprf: _ufunc
    elliprg: _ufunc
    elliprj: _ufunc
    entr: _ufunc
    erf: _ufunc
    erfc: _ufunc
    erfcinv: _ufunc
    erfcx: _ufunc
    erfi: _ufunc
    erfinv: _ufunc
    eval_chebyc: _ufunc
    eval_chebys: _ufunc
    eval_chebyt: _ufunc
    eval_chebyu: _ufunc
    eval_gegenbauer: _ufunc
    eval_genlaguerre: _ufunc
    eval_hermite: _ufunc
    eval_hermitenorm: _ufunc
    eval_jacobi: _ufunc
    eval_laguerre: _ufunc
    eval_legendre: _ufunc
    eval_sh_chebyt: _ufunc
    eval_sh_chebyu: _ufunc
    eval_sh_jacobi: _ufunc
    eval_sh_legendre: _ufunc
    exp1: _ufunc
    exp10: _ufunc
    exp2: _ufunc
    expi: _ufunc
    expit: _ufunc
    expm1: _ufunc
    expn: _ufunc
    exprel: _ufunc
    fdtri: _ufunc
    fdtridfd: _ufunc
    fresnel: _ufunc
    gamma: _ufunc
    gammainc: _ufunc
    gammaincc: _ufunc
    gammainccinv: _ufunc
    gammaincinv: _ufunc
    gammaln: _ufunc
    gammasgn: _ufunc
    gdtria: _ufunc
    gdtrib: _ufunc
    huber: _ufunc
    hyp0f1: _ufunc
    hyp1f1: _ufunc
    hyp2f1: _ufunc
    hyperu: _ufunc
    i0: _ufunc
    i0e: _ufunc
    i1: _ufunc
    i1e: _ufunc
    inv_boxcox: _ufunc
    inv_boxcox1p: _ufunc
    it2i0k0: _ufunc
    it2j0y0: _ufunc
    it2struve0: _ufunc
    itairy: _ufunc
    iti0k0: _ufunc
    itj0y0: _ufunc
    itmodstruve0: _ufunc
    itstruve0: _ufunc
    iv: _ufunc
    ive: _ufunc
    j0: _ufunc
    j1: _ufunc
    jn: _ufunc
    jv: _ufunc
    jve: _ufunc
    k0: _ufunc
    k0e: _ufunc
    k1: _ufunc
    k1e: _ufunc
    kei: _ufunc
    keip: _ufunc
    kelvin: _ufunc
    ker: _ufunc
    kerp: _ufunc
    kl_div: _ufunc
    kn: _ufunc
    kolmogi: _ufunc
    kolmogorov: _ufunc
    kv: _ufunc
    kve: _ufunc
    log1p: _ufunc
    log_expit: _ufunc
    log_ndtr: _ufunc
    log_wright_bessel: _ufunc
    loggamma: _ufunc
    logit: _ufunc
    lpmv: _ufunc
    mathieu_a: _ufunc
    mathieu_b: _ufunc
    mathieu_cem: _ufunc
    mathieu_modcem1: _ufunc
    mathieu_modcem2: _ufunc
    mathieu_modsem1: _ufunc
    mathieu_modsem2: _ufunc
    mathieu_sem: _ufunc
    modfresnelm: _ufunc
    modfresnelp: _ufunc
    modstruve: _ufunc
    nbdtri: _ufunc
    nbdtrik: _ufunc
    nbdtrin: _ufunc
    ncfdtr: _ufunc
    ncfdtri: _ufunc
    ncfdtridfd: _ufunc
    ncfdtridfn: _ufunc
    ncfdtrinc: _ufunc
    nctdtr: _ufunc
    nctdtridf: _ufunc
    nctdtrinc: _ufunc
    nctdtrit: _ufunc
    ndtr: _ufunc
    ndtri: _ufunc
    ndtri_exp: _ufunc
    nrdtrimn: _ufunc
    nrdtrisd: _ufunc
    obl_ang1: _ufunc
    obl_ang1_cv: _ufunc
    obl_cv: _ufunc
    obl_rad1: _ufunc
    obl_rad1_cv: _ufunc
    obl_rad2: _ufunc
    obl_rad2_cv: _ufunc
    owens_t: _ufunc
    pbdv: _ufunc
    pbvv: _ufunc
    pbwa: _ufunc
    pdtri: _ufunc
    pdtrik: _ufunc
    poch: _ufunc
    powm1: _ufunc
    pro_ang1: _ufunc
    pro_ang1_cv: _ufunc
    pro_cv: _ufunc
    pro_rad1: _ufunc
    pro_rad1_cv: _ufunc
    pro_rad2: _ufunc
    pro_rad2_cv: _ufunc
    pseudo_huber: _ufunc
    psi: _ufunc
    radian: _ufunc
    rel_entr: _ufunc
    rgamma: _ufunc
    round: _ufunc
    shichi: _ufunc
    sici: _ufunc
    sindg: _ufunc
    smirnov: _ufunc
    smirnovi: _ufunc
    spence: _ufunc
    stdtr: _ufunc
    stdtridf: _ufunc
    stdtrit: _ufunc
    struve: _ufunc
    tandg: _ufunc
    tklmbda: _ufunc
    wofz: _ufunc
    wright_bessel: _ufunc
    wrightomega: _ufunc
    xlog1py: _ufunc
    xlogy: _ufunc
    y0: _ufunc
    y1: _ufunc
    yn: _ufunc
    yv: _ufunc
    yve: _ufunc
    zetac: _ufunc
else:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.special", _later)


def __dir__() -> list[str]:
    return sorted([*_SOFTMAXES, *_COMPOSITE, *dir(_importlib.import_module("funcad.scipy.special.special_ufuncs"))])
