"""scipy.special's ufuncs: the function of the primitive layer that has SciPy's name, made when it is first asked for.

Idea: traced operands are converted as SciPy's own ufunc would (its table of loops; integers become float64, float16 float32),
then the primitive is bound. Complex operands work where SciPy has a loop for them alone and the derivative is in the same
functions; mixed loops (a real order, a complex argument) are refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.ir.aval import dtype_of
from funcad.ir.trace import plain_values
from funcad.numpy.dispatch import checked_options, is_traced, where_am_i
from funcad.numpy.promote import as_array, broadcast, promote_dtype, promote_for, strong
from funcad.primitives import arithmetic, special, special_rules, transcendental
from funcad.scipy.door import implements
from funcad.unjitted.remembered import remembered

_NUMBERS = frozenset([float, complex, int])


def _homogeneous_complex(ufunc: Any) -> bool:
    return any(set(loop.partition("->")[0]) <= {"D"} for loop in ufunc.types)


def _of_whole_orders(ufunc: Any, args: Any, whole: int) -> list[Any]:
    """Operands in double precision, where the first `whole` are integers, for which SciPy has loops of their own."""
    arrays = [as_array(a) for a in args]
    if any([dtype_of(a).kind == "c" for a in arrays]):
        return []
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
            ufunc = special_rules.function_of(np, name)
            known.extend([ufunc, not real and _homogeneous_complex(ufunc)])
        ufunc, takes_complex = known
        if kwargs or len(args) > ufunc.nin:
            checked_options(ufunc, args, kwargs)
            args = args[: ufunc.nin]
        if len(args) != ufunc.nin:
            raise TypeError(f"{name}() takes {ufunc.nin} arguments but {len(args)} were given")
        counted = _of_whole_orders(ufunc, args, whole) if whole else []
        operands = counted or promote_for(ufunc, args)
        if not takes_complex and any([dtype_of(a).kind == "c" for a in operands]):
            plain = plain_values(operands)
            if not is_traced(plain):  # arrays that library code made, and nothing traced in them
                return ufunc(*plain_values(args))
            raise TypeError(
                f"scipy.special.{name} of complex arguments was called with traced values{where_am_i()}; funcad has its "
                "derivatives for real arguments only.\nRemedy: wrap it in funcad.custom_jvp or funcad.pure_callback."
            )
        if _NUMBERS.issuperset(map(type, operands)):
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


UFUNCS = {  # what they are about -> scipy.special's ufuncs
    "error functions and the normal distribution": (
        "erf erfc erfcx erfi erfinv erfcinv dawsn wofz ndtr ndtri ndtri_exp log_ndtr owens_t fresnel"
    ),
    "gamma and beta functions": (
        "gamma gammaln loggamma gammasgn rgamma digamma psi poch binom beta betaln zetac "
        "gammainc gammaincc gammaincinv gammainccinv betainc betaincc betaincinv "
        "betainccinv stdtr stdtrit fdtri"
    ),
    "Bessel and Struve functions": (
        "i0 i1 i0e i1e j0 j1 y0 y1 k0 k1 k0e k1e jv jn jve yv yn yve iv ive kv kn kve struve modstruve"
    ),
    "logarithms and powers": (
        "xlogy xlog1py entr rel_entr kl_div logit expit log_expit exprel boxcox boxcox1p "
        "inv_boxcox inv_boxcox1p powm1 cosm1 exp10 exp2 expm1 log1p cbrt huber "
        "pseudo_huber"
    ),
    "integrals and hypergeometric functions": (
        "expi exp1 expn spence sici shichi ellipk ellipkm1 ellipe ellipkinc ellipeinc wrightomega hyp0f1 hyp1f1 hyp2f1 hyperu"
    ),
    "Airy, Kelvin, parabolic cylinder functions": (
        "airy airye itairy ber bei ker kei berp beip kerp keip kelvin pbdv pbvv pbwa"
    ),
    "Mathieu and spheroidal functions": (
        "mathieu_a mathieu_b mathieu_cem mathieu_sem mathieu_modcem1 mathieu_modcem2 "
        "mathieu_modsem1 mathieu_modsem2 pro_cv obl_cv pro_ang1 pro_ang1_cv pro_rad1 "
        "pro_rad1_cv pro_rad2 pro_rad2_cv obl_ang1 obl_ang1_cv obl_rad1 obl_rad1_cv "
        "obl_rad2 obl_rad2_cv"
    ),
    "integrals, degrees, Tukey's distribution": (
        "iti0k0 itj0y0 it2i0k0 it2j0y0 itstruve0 it2struve0 itmodstruve0 modfresnelp "
        "modfresnelm sindg cosdg tandg cotdg radian round tklmbda"
    ),
    "elliptic integrals and functions": "elliprc elliprd elliprf elliprg elliprj agm ellipj",
    "orthogonal polynomials": (
        "eval_jacobi eval_sh_jacobi eval_gegenbauer eval_genlaguerre eval_laguerre "
        "eval_legendre eval_sh_legendre eval_chebyt eval_chebyu eval_chebyc eval_chebys "
        "eval_sh_chebyt eval_sh_chebyu eval_hermite eval_hermitenorm lpmv"
    ),
    "distributions and their inverses": (
        "bdtri bdtrik bdtrin nbdtri nbdtrik nbdtrin btdtria btdtrib chdtriv fdtridfd "
        "gdtria gdtrib pdtri pdtrik stdtridf chndtr chndtrix chndtridf chndtrinc ncfdtr "
        "ncfdtri ncfdtridfn ncfdtridfd ncfdtrinc nctdtr nctdtrit nctdtridf nctdtrinc "
        "smirnov smirnovi kolmogorov kolmogi nrdtrimn nrdtrisd"
    ),
    "Wright's function, an integral of Bessel functions": ("wright_bessel log_wright_bessel besselpoly"),
}
_SAME = {"digamma": "psi", "jn": "jv"}  # two names of one function
_BOUND = {"psi": "digamma", "round": "round_"}  # names of their own in primitives/special.py


def _of_trunc(order: Any, x: Any, f: Any) -> Any:
    return f(arithmetic.trunc(order), x)


_OF_WHOLE_ORDERS = {"yn": "yv", "kn": "kv"}  # SciPy's take the whole part of an order
_ORDINARY = {name: getattr(transcendental, name) for name in ("exp2", "expm1", "log1p")}
_ORDINARY["cbrt"] = arithmetic.cbrt
KNOWN = frozenset(" ".join(UFUNCS.values()).split())
_REAL = frozenset("airye elliprc elliprd elliprf elliprg elliprj".split())


def __getattr__(name: str) -> Any:
    """The public function, made when it is first asked for: most programs use a few."""
    if name not in KNOWN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _SAME:
        made = globals()[_SAME[name]] if _SAME[name] in globals() else __getattr__(_SAME[name])
    else:
        bound = _ORDINARY[name] if name in _ORDINARY else None
        if name in _OF_WHOLE_ORDERS:
            bound = functools.partial(_of_trunc, f=getattr(special, _OF_WHOLE_ORDERS[name]))
        bound = bound or getattr(special, _BOUND.get(name, name))
        made = as_ufunc(name, bound, whole=int(name.startswith("eval_")), real=name in _REAL)
    globals()[name] = made
    return made


def __dir__() -> list[str]:
    return sorted(KNOWN)
