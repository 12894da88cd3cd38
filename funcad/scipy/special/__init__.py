"""`scipy.special`, differentiable: values are SciPy's own, derivatives funcad's, in all float arguments.

Arguments, dtypes and errors are SciPy's, on traced values too; `out=` and `where=` are not supported there. Shapes and
orders have derivatives as well (gammainc, betainc and their inverses in all arguments, Bessel functions in the order, zeta in
both, hyp1f1 in all three): first derivatives of full accuracy; the second by a shape or an order raises `MissingRuleError`.
SciPy's own ufuncs called on traced values (`scipy.special.gammaln(x)`) come here too.

>>> import numpy as np, funcad
>>> from funcad.scipy import special
>>> funcad.grad(special.gammainc, argnums=(0, 1))(2.0, 1.5)[0].round(6)
np.float64(-0.313489)
"""

import typing as _typing

from funcad.names import public_names as _public_names
from funcad.scipy.door import absent as _absent
from funcad.scipy.special.composite import bdtr as bdtr
from funcad.scipy.special.composite import bdtrc as bdtrc
from funcad.scipy.special.composite import bernoulli as bernoulli
from funcad.scipy.special.composite import bessel_jn as bessel_jn
from funcad.scipy.special.composite import chdtr as chdtr
from funcad.scipy.special.composite import chdtrc as chdtrc
from funcad.scipy.special.composite import chdtri as chdtri
from funcad.scipy.special.composite import comb as comb
from funcad.scipy.special.composite import factorial as factorial
from funcad.scipy.special.composite import fdtr as fdtr
from funcad.scipy.special.composite import fdtrc as fdtrc
from funcad.scipy.special.composite import gdtr as gdtr
from funcad.scipy.special.composite import gdtrc as gdtrc
from funcad.scipy.special.composite import gdtrix as gdtrix
from funcad.scipy.special.composite import hankel1 as hankel1
from funcad.scipy.special.composite import hankel1e as hankel1e
from funcad.scipy.special.composite import hankel2 as hankel2
from funcad.scipy.special.composite import hankel2e as hankel2e
from funcad.scipy.special.composite import lambertw as lambertw
from funcad.scipy.special.composite import multigammaln as multigammaln
from funcad.scipy.special.composite import nbdtr as nbdtr
from funcad.scipy.special.composite import nbdtrc as nbdtrc
from funcad.scipy.special.composite import pdtr as pdtr
from funcad.scipy.special.composite import pdtrc as pdtrc
from funcad.scipy.special.composite import perm as perm
from funcad.scipy.special.composite import polygamma as polygamma
from funcad.scipy.special.composite import sinc as sinc
from funcad.scipy.special.composite import softplus as softplus
from funcad.scipy.special.composite import sph_harm_y as sph_harm_y
from funcad.scipy.special.composite import voigt_profile as voigt_profile
from funcad.scipy.special.composite import zeta as zeta
from funcad.scipy.special.special_ufuncs import beta as beta
from funcad.scipy.special.special_ufuncs import betainc as betainc
from funcad.scipy.special.special_ufuncs import betaincc as betaincc
from funcad.scipy.special.special_ufuncs import betainccinv as betainccinv
from funcad.scipy.special.special_ufuncs import betaincinv as betaincinv
from funcad.scipy.special.special_ufuncs import betaln as betaln
from funcad.scipy.special.special_ufuncs import binom as binom
from funcad.scipy.special.special_ufuncs import boxcox as boxcox
from funcad.scipy.special.special_ufuncs import boxcox1p as boxcox1p
from funcad.scipy.special.special_ufuncs import cbrt as cbrt
from funcad.scipy.special.special_ufuncs import cosm1 as cosm1
from funcad.scipy.special.special_ufuncs import dawsn as dawsn
from funcad.scipy.special.special_ufuncs import digamma as digamma
from funcad.scipy.special.special_ufuncs import ellipe as ellipe
from funcad.scipy.special.special_ufuncs import ellipeinc as ellipeinc
from funcad.scipy.special.special_ufuncs import ellipk as ellipk
from funcad.scipy.special.special_ufuncs import ellipkinc as ellipkinc
from funcad.scipy.special.special_ufuncs import ellipkm1 as ellipkm1
from funcad.scipy.special.special_ufuncs import entr as entr
from funcad.scipy.special.special_ufuncs import erf as erf
from funcad.scipy.special.special_ufuncs import erfc as erfc
from funcad.scipy.special.special_ufuncs import erfcinv as erfcinv
from funcad.scipy.special.special_ufuncs import erfcx as erfcx
from funcad.scipy.special.special_ufuncs import erfi as erfi
from funcad.scipy.special.special_ufuncs import erfinv as erfinv
from funcad.scipy.special.special_ufuncs import exp1 as exp1
from funcad.scipy.special.special_ufuncs import exp2 as exp2
from funcad.scipy.special.special_ufuncs import exp10 as exp10
from funcad.scipy.special.special_ufuncs import expi as expi
from funcad.scipy.special.special_ufuncs import expit as expit
from funcad.scipy.special.special_ufuncs import expm1 as expm1
from funcad.scipy.special.special_ufuncs import expn as expn
from funcad.scipy.special.special_ufuncs import exprel as exprel
from funcad.scipy.special.special_ufuncs import fdtri as fdtri
from funcad.scipy.special.special_ufuncs import fresnel as fresnel
from funcad.scipy.special.special_ufuncs import gamma as gamma
from funcad.scipy.special.special_ufuncs import gammainc as gammainc
from funcad.scipy.special.special_ufuncs import gammaincc as gammaincc
from funcad.scipy.special.special_ufuncs import gammainccinv as gammainccinv
from funcad.scipy.special.special_ufuncs import gammaincinv as gammaincinv
from funcad.scipy.special.special_ufuncs import gammaln as gammaln
from funcad.scipy.special.special_ufuncs import gammasgn as gammasgn
from funcad.scipy.special.special_ufuncs import huber as huber
from funcad.scipy.special.special_ufuncs import hyp0f1 as hyp0f1
from funcad.scipy.special.special_ufuncs import hyp1f1 as hyp1f1
from funcad.scipy.special.special_ufuncs import hyp2f1 as hyp2f1
from funcad.scipy.special.special_ufuncs import hyperu as hyperu
from funcad.scipy.special.special_ufuncs import i0 as i0
from funcad.scipy.special.special_ufuncs import i0e as i0e
from funcad.scipy.special.special_ufuncs import i1 as i1
from funcad.scipy.special.special_ufuncs import i1e as i1e
from funcad.scipy.special.special_ufuncs import inv_boxcox as inv_boxcox
from funcad.scipy.special.special_ufuncs import inv_boxcox1p as inv_boxcox1p
from funcad.scipy.special.special_ufuncs import iv as iv
from funcad.scipy.special.special_ufuncs import ive as ive
from funcad.scipy.special.special_ufuncs import j0 as j0
from funcad.scipy.special.special_ufuncs import j1 as j1
from funcad.scipy.special.special_ufuncs import jn as jn
from funcad.scipy.special.special_ufuncs import jv as jv
from funcad.scipy.special.special_ufuncs import jve as jve
from funcad.scipy.special.special_ufuncs import k0 as k0
from funcad.scipy.special.special_ufuncs import k0e as k0e
from funcad.scipy.special.special_ufuncs import k1 as k1
from funcad.scipy.special.special_ufuncs import k1e as k1e
from funcad.scipy.special.special_ufuncs import kl_div as kl_div
from funcad.scipy.special.special_ufuncs import kn as kn
from funcad.scipy.special.special_ufuncs import kv as kv
from funcad.scipy.special.special_ufuncs import kve as kve
from funcad.scipy.special.special_ufuncs import log1p as log1p
from funcad.scipy.special.special_ufuncs import log_expit as log_expit
from funcad.scipy.special.special_ufuncs import log_ndtr as log_ndtr
from funcad.scipy.special.special_ufuncs import loggamma as loggamma
from funcad.scipy.special.special_ufuncs import logit as logit
from funcad.scipy.special.special_ufuncs import modstruve as modstruve
from funcad.scipy.special.special_ufuncs import ndtr as ndtr
from funcad.scipy.special.special_ufuncs import ndtri as ndtri
from funcad.scipy.special.special_ufuncs import ndtri_exp as ndtri_exp
from funcad.scipy.special.special_ufuncs import owens_t as owens_t
from funcad.scipy.special.special_ufuncs import poch as poch
from funcad.scipy.special.special_ufuncs import powm1 as powm1
from funcad.scipy.special.special_ufuncs import pseudo_huber as pseudo_huber
from funcad.scipy.special.special_ufuncs import psi as psi
from funcad.scipy.special.special_ufuncs import rel_entr as rel_entr
from funcad.scipy.special.special_ufuncs import rgamma as rgamma
from funcad.scipy.special.special_ufuncs import shichi as shichi
from funcad.scipy.special.special_ufuncs import sici as sici
from funcad.scipy.special.special_ufuncs import spence as spence
from funcad.scipy.special.special_ufuncs import stdtr as stdtr
from funcad.scipy.special.special_ufuncs import stdtrit as stdtrit
from funcad.scipy.special.special_ufuncs import struve as struve
from funcad.scipy.special.special_ufuncs import wofz as wofz
from funcad.scipy.special.special_ufuncs import wrightomega as wrightomega
from funcad.scipy.special.special_ufuncs import xlog1py as xlog1py
from funcad.scipy.special.special_ufuncs import xlogy as xlogy
from funcad.scipy.special.special_ufuncs import y0 as y0
from funcad.scipy.special.special_ufuncs import y1 as y1
from funcad.scipy.special.special_ufuncs import yn as yn
from funcad.scipy.special.special_ufuncs import yv as yv
from funcad.scipy.special.special_ufuncs import yve as yve
from funcad.scipy.special.special_ufuncs import zetac as zetac
from funcad.scipy.special.sums import log_softmax as log_softmax
from funcad.scipy.special.sums import logsumexp as logsumexp
from funcad.scipy.special.sums import softmax as softmax

if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.special")

__dir__ = _public_names(globals())
