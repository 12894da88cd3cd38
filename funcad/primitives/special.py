"""The special functions under the names that scipy.special gives them: the index of the files special_*.py.

A family is loaded when a function of it is first asked for: a likelihood with `gammaln` needs neither Bessel's functions nor
Mathieu's. Values come from SciPy (special_rules.py has the door), derivatives are closed forms, or numerics of full accuracy
where only a series or an integral is known. What is not known raises `MissingRuleError`, naming the argument.
"""

from __future__ import annotations

import importlib
from typing import Any

_FAMILIES = {  # file -> what is found in it
    "gamma": (
        "beta betaln binom digamma gamma gammaln gammasgn loggamma poch polygamma psi rgamma riemann_zeta "
        "riemann_zeta_s zeta zeta_s zetac"
    ),
    "errors": (
        "dawsn erf erfc erfcinv erfcx erfi erfinv fresnel log_ndtr ndtr ndtr_ratio ndtri ndtri_exp owens_t wofz"
    ),
    "logarithms": (
        "boxcox boxcox1p cosm1 entr exp10 exp_moment expit exprel huber inv_boxcox inv_boxcox1p kl_div log_expit logit "
        "powm1 pseudo_huber rel_entr xlog1py xlogy"
    ),
    "incomplete": (
        "beta_density betainc betainc_partial betainc_shape betaincc betainccinv betaincinv fdtri "
        "gamma_density gammainc gammainc_a gammainc_partial gammaincc gammainccinv gammaincinv "
        "random_gamma_grad stdtr stdtr_v stdtrit student_density"
    ),
    "bessel": (
        "i0 i0e i1 i1e iv ive j0 j1 jv jve k0 k0e k1 k1e kv kve modstruve struve y0 y1 yv yve airy airye "
        "itairy ber bei ker kei berp beip kerp keip kelvin pbdv pbvv pbwa mathieu_a mathieu_b mathieu_cem "
        "mathieu_sem mathieu_modcem1 mathieu_modcem2 mathieu_modsem1 mathieu_modsem2 pro_cv obl_cv pro_ang1 "
        "pro_ang1_cv pro_rad1 pro_rad1_cv pro_rad2 pro_rad2_cv obl_ang1 obl_ang1_cv obl_rad1 obl_rad1_cv "
        "obl_rad2 obl_rad2_cv iti0k0 itj0y0 it2i0k0 it2j0y0 itstruve0 it2struve0 itmodstruve0 modfresnelp "
        "modfresnelm sindg cosdg tandg cotdg radian round_ tklmbda"
    ),
    "integrals": (
        "ellipe ellipeinc ellipk ellipkinc ellipkm1 elliptic_d exp1 expi expn hyp0f1 hyp1f1 hyp2f1 hyperu "
        "kummer_slope lambertw shichi sici spence sph_harm_y wrightomega elliprc elliprd elliprf elliprg "
        "elliprj agm ellipj wright_bessel log_wright_bessel besselpoly"
    ),
    "polynomials": (
        "eval_jacobi eval_sh_jacobi eval_gegenbauer eval_genlaguerre eval_laguerre eval_legendre "
        "eval_sh_legendre eval_chebyt eval_chebyu eval_chebyc eval_chebys eval_sh_chebyt eval_sh_chebyu "
        "eval_hermite eval_hermitenorm lpmv"
    ),
    "inverses": (
        "BETA BINOMIAL NEGATIVE_BINOMIAL GAMMA CHI_SQUARED POISSON FISHER STUDENT NONCENTRAL_CHI_SQUARED "
        "NONCENTRAL_FISHER NONCENTRAL_STUDENT SMIRNOV KOLMOGOROV bdtri bdtrik bdtrin nbdtri nbdtrik nbdtrin "
        "btdtria btdtrib chdtriv fdtridfd gdtria gdtrib pdtri pdtrik stdtridf chndtrix chndtridf chndtrinc "
        "ncfdtri ncfdtridfn ncfdtridfd ncfdtrinc nctdtrit nctdtridf nctdtrinc smirnovi kolmogi chndtr ncfdtr "
        "nctdtr smirnov kolmogorov nrdtrimn nrdtrisd"
    ),
}
_FAMILY_OF = {name: family for family, names in _FAMILIES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _FAMILY_OF:
        raise AttributeError(f"module 'funcad.primitives.special' has no attribute {name!r}")
    family = importlib.import_module(f"funcad.primitives.special_{_FAMILY_OF[name]}")
    found = getattr(family, name, None)
    value = globals()[name] = family.BY_NAME[name] if found is None else found  # some families are tables
    return value


def __dir__() -> list[str]:
    return sorted(_FAMILY_OF)
