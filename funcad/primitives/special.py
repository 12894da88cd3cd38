"""Special functions, under the names that scipy.special gives them.

Values come from `scipy.special` (from `cupyx.scipy.special` on CuPy arrays), imported at the first use by one door.
The derivatives are closed forms in the same functions. What has no closed form (the order of a Bessel function, the
shape parameters of the incomplete gamma and beta functions) raises `MissingRuleError`, naming the argument. float16
is computed in float32 and rounded back.
"""

from __future__ import annotations

import importlib
from math import pi
from math import sqrt as _sqrt
from typing import Any

import numpy as np

from funcad.errors import MissingRuleError
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.primitive import Primitive
from funcad.ir.tracer import Tracer
from funcad.primitives.arithmetic import add, div, mod, mul, neg, sign, square, sub
from funcad.primitives.comparison import and_, eq, select
from funcad.primitives.families import elementwise
from funcad.primitives.transcendental import exp, log, log1p, logistic

_SQRT_PI, _SQRT_2PI = _sqrt(pi), _sqrt(2 * pi)


def _special(xp: Any) -> Any:
    """The one door: scipy.special for numpy, cupyx.scipy.special for cupy."""
    return importlib.import_module("scipy.special" if xp is np else "cupyx.scipy.special")


def _function(xp: Any, name: str) -> Any:
    found = getattr(_special(xp), name, None)
    if found is None:
        raise NotImplementedError(
            f"{name}: cupyx.scipy.special has no such function.\n"
            f"Compute it on the CPU: funcad.device_get(x), then funcad.device_put of the result."
        )
    return found


def _impl(name: str) -> Any:
    def impl(xp: Any, *args: Any) -> Any:
        out = _function(xp, name)(*args)
        for a in args:
            if getattr(a, "dtype", None) == np.float16:
                return out.astype(np.float16)
        return out

    return impl


def _ufunc(name: str, *jvp: Any, transpose: Any = None) -> Primitive:
    return elementwise(name, _impl(name), jvp, transpose=transpose)


def _missing(name: str, argument: str) -> Any:
    def rule(t: Any, out: Any, *args: Any) -> Any:
        raise MissingRuleError(
            f"{name} has no derivative with respect to its argument {argument} (there is no closed form).\n"
            f"Take funcad.stop_gradient({argument}), or give the function that uses it a rule with funcad.custom_jvp."
        )

    return rule


# -- error functions and the normal distribution
erf_p = _ufunc("erf", lambda t, out, x: mul(mul(2 / _SQRT_PI, exp(neg(square(x)))), t))
erfc_p = _ufunc("erfc", lambda t, out, x: mul(mul(-2 / _SQRT_PI, exp(neg(square(x)))), t))
erfcx_p = _ufunc("erfcx", lambda t, out, x: mul(sub(mul(mul(2.0, x), out), 2 / _SQRT_PI), t))
erfinv_p = _ufunc("erfinv", lambda t, out, x: mul(mul(_SQRT_PI / 2, exp(square(out))), t))
erfcinv_p = _ufunc("erfcinv", lambda t, out, x: mul(mul(-_SQRT_PI / 2, exp(square(out))), t))
ndtr_p = _ufunc("ndtr", lambda t, out, x: mul(mul(1 / _SQRT_2PI, exp(mul(-0.5, square(x)))), t))
ndtri_p = _ufunc("ndtri", lambda t, out, x: mul(mul(_SQRT_2PI, exp(mul(0.5, square(out)))), t))
log_ndtr_p = _ufunc("log_ndtr", lambda t, out, x: mul(ndtr_ratio(x), t))


def _ndtr_ratio_impl(xp: Any, x: Any) -> Any:
    out = _sqrt(2 / pi) / _function(xp, "erfcx")(x * -_sqrt(0.5))
    return out.astype(np.float16) if getattr(x, "dtype", None) == np.float16 else out


# density over distribution of the normal law, accurate in both tails
ndtr_ratio_p = elementwise("ndtr_ratio", _ndtr_ratio_impl, [lambda t, out, x: neg(mul(mul(out, add(x, out)), t))])

# -- gamma and beta functions
gamma_p = _ufunc("gamma", lambda t, out, x: mul(mul(out, digamma(x)), t))
gammaln_p = _ufunc("gammaln", lambda t, out, x: mul(digamma(x), t))
digamma_p = _ufunc("digamma", lambda t, out, x: mul(polygamma(1, x), t))
zeta_p = _ufunc(
    "zeta", _missing("zeta", "x"), lambda t, out, s, q: mul(mul(neg(s), zeta(add(s, 1.0), q)), t)
)


def _polygamma_impl(xp: Any, x: Any, *, n: int) -> Any:
    out = _function(xp, "polygamma")(n, x)
    dtype = dtype_of(x)
    out = out if dtype.kind != "f" else out.astype(dtype)
    return out[()] if xp is np and not out.ndim else out


polygamma_p = elementwise(
    "polygamma", _polygamma_impl, [lambda t, out, x, *, n: mul(polygamma(n + 1, x), t)]
)
beta_p = _ufunc(
    "beta",
    lambda t, out, a, b: mul(mul(out, sub(digamma(a), digamma(add(a, b)))), t),
    lambda t, out, a, b: mul(mul(out, sub(digamma(b), digamma(add(a, b)))), t),
)
betaln_p = _ufunc(
    "betaln",
    lambda t, out, a, b: mul(sub(digamma(a), digamma(add(a, b))), t),
    lambda t, out, a, b: mul(sub(digamma(b), digamma(add(a, b))), t),
)


def _gamma_density(a: Any, x: Any) -> Any:
    return exp(sub(sub(xlogy(sub(a, 1.0), x), x), gammaln(a)))


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    return exp(sub(add(xlogy(sub(a, 1.0), x), xlog1py(sub(b, 1.0), neg(x))), betaln(a, b)))


gammainc_p = _ufunc(
    "gammainc", _missing("gammainc", "a"), lambda t, out, a, x: mul(_gamma_density(a, x), t)
)
gammaincc_p = _ufunc(
    "gammaincc", _missing("gammaincc", "a"), lambda t, out, a, x: neg(mul(_gamma_density(a, x), t))
)
betainc_p = _ufunc(
    "betainc",
    _missing("betainc", "a"),
    _missing("betainc", "b"),
    lambda t, out, a, b, x: mul(_beta_density(a, b, x), t),
)


# -- Bessel functions
def _over(y: Any, x: Any) -> Any:
    """y / x, one half at x = 0: for the functions of order 1, which start as x / 2."""
    at_zero = eq(x, 0.0)
    return select(at_zero, 0.5, div(y, select(at_zero, 1.0, x)))


i0_p = _ufunc("i0", lambda t, out, x: mul(i1(x), t))
i1_p = _ufunc("i1", lambda t, out, x: mul(sub(i0(x), _over(out, x)), t))
i0e_p = _ufunc("i0e", lambda t, out, x: mul(sub(i1e(x), mul(sign(x), out)), t))
i1e_p = _ufunc("i1e", lambda t, out, x: mul(sub(sub(i0e(x), _over(out, x)), mul(sign(x), out)), t))
j0_p = _ufunc("j0", lambda t, out, x: neg(mul(j1(x), t)))
j1_p = _ufunc("j1", lambda t, out, x: mul(sub(j0(x), _over(out, x)), t))
y0_p = _ufunc("y0", lambda t, out, x: neg(mul(y1(x), t)))
y1_p = _ufunc("y1", lambda t, out, x: mul(sub(y0(x), div(out, x)), t))
k0_p = _ufunc("k0", lambda t, out, x: neg(mul(k1(x), t)))
k1_p = _ufunc("k1", lambda t, out, x: neg(mul(add(k0(x), div(out, x)), t)))


def _neighbours(f: Any, combine: Any) -> Any:
    """(f of order v - 1 combined with f of order v + 1) / 2."""
    return lambda v, x: mul(0.5, combine(f(sub(v, 1.0), x), f(add(v, 1.0), x)))


jv_p = _ufunc("jv", _missing("jv", "v"), lambda t, out, v, x: mul(_neighbours(jv, sub)(v, x), t))
yv_p = _ufunc("yv", _missing("yv", "v"), lambda t, out, v, x: mul(_neighbours(yv, sub)(v, x), t))
iv_p = _ufunc("iv", _missing("iv", "v"), lambda t, out, v, x: mul(_neighbours(iv, add)(v, x), t))
kv_p = _ufunc("kv", _missing("kv", "v"), lambda t, out, v, x: neg(mul(_neighbours(kv, add)(v, x), t)))
ive_p = _ufunc(
    "ive",
    _missing("ive", "v"),
    lambda t, out, v, x: mul(sub(_neighbours(ive, add)(v, x), mul(sign(x), out)), t),
)
kve_p = _ufunc(
    "kve", _missing("kve", "v"), lambda t, out, v, x: mul(sub(out, _neighbours(kve, add)(v, x)), t)
)


# -- entropies and logarithms
def _ratio(x: Any, y: Any) -> Any:
    """x / y, 0 for 0 / 0."""
    return div(x, select(and_(eq(x, 0.0), eq(y, 0.0)), 1.0, y))


xlogy_p = _ufunc(
    "xlogy",
    lambda t, out, x, y: mul(log(y), t),
    lambda t, out, x, y: mul(_ratio(x, y), t),
    transpose=lambda ct, x, y: [mul(log(y), ct), None],
)
xlog1py_p = _ufunc(
    "xlog1py",
    lambda t, out, x, y: mul(log1p(y), t),
    lambda t, out, x, y: mul(_ratio(x, add(1.0, y)), t),
    transpose=lambda ct, x, y: [mul(log1p(y), ct), None],
)
entr_p = _ufunc("entr", lambda t, out, x: neg(mul(add(log(x), 1.0), t)))
rel_entr_p = _ufunc(
    "rel_entr",
    lambda t, out, x, y: mul(add(log(div(x, y)), 1.0), t),
    lambda t, out, x, y: neg(mul(_ratio(x, y), t)),
)
kl_div_p = _ufunc(
    "kl_div",
    lambda t, out, x, y: mul(log(div(x, y)), t),
    lambda t, out, x, y: mul(sub(1.0, _ratio(x, y)), t),
)
logit_p = _ufunc("logit", lambda t, out, x: div(t, mul(x, sub(1.0, x))))
log_expit_p = _ufunc("log_expit", lambda t, out, x: mul(logistic(neg(x)), t))

# -- integrals
expi_p = _ufunc("expi", lambda t, out, x: mul(div(exp(x), x), t))
exp1_p = _ufunc("exp1", lambda t, out, x: neg(mul(div(exp(neg(x)), x), t)))
spence_p = _ufunc("spence", lambda t, out, x: neg(mul(_log_over_excess(x), t)))


def _log_over_excess(x: Any) -> Any:
    """log(x) / (x - 1), 1 at 1."""
    at_one = eq(x, 1.0)
    return select(at_one, 1.0, div(log(x), select(at_one, 1.0, sub(x, 1.0))))


def _expn_impl(xp: Any, x: Any, *, n: int) -> Any:
    out = _function(xp, "expn")(n, x)
    return out.astype(x.dtype) if hasattr(x, "dtype") else out


def _expn_jvp(t: Any, out: Any, x: Any, *, n: int) -> Any:
    return neg(mul(expn(n - 1, x) if n else mul(out, add(1.0, div(1.0, x))), t))


expn_p = elementwise("expn", _expn_impl, [_expn_jvp])


def _static(n: Any, what: str) -> int | None:
    """n as a Python integer, None if it is an array or traced."""
    if isinstance(n, Tracer) or shape_of(n):
        return None
    if int(n) != n:
        raise ValueError(f"{what}: the order must be an integer, got {n!r}")
    return int(n)


def erf(x: Any) -> Any:
    return erf_p(x)


def erfc(x: Any) -> Any:
    return erfc_p(x)


def erfcx(x: Any) -> Any:
    """exp(x**2) * erfc(x)."""
    return erfcx_p(x)


def erfinv(x: Any) -> Any:
    return erfinv_p(x)


def erfcinv(x: Any) -> Any:
    return erfcinv_p(x)


def ndtr(x: Any) -> Any:
    """The distribution function of the normal law."""
    return ndtr_p(x)


def ndtri(x: Any) -> Any:
    return ndtri_p(x)


def log_ndtr(x: Any) -> Any:
    return log_ndtr_p(x)


def ndtr_ratio(x: Any) -> Any:
    """The normal density over its distribution function (the derivative of log_ndtr)."""
    return ndtr_ratio_p(x)


def gamma(x: Any) -> Any:
    return gamma_p(x)


def gammaln(x: Any) -> Any:
    """log(|gamma(x)|)."""
    return gammaln_p(x)


def digamma(x: Any) -> Any:
    return digamma_p(x)


psi = digamma


def polygamma(n: Any, x: Any) -> Any:
    """The derivative of order n of digamma; an array of orders is computed by zeta and gamma (orders from 1)."""
    order = _static(n, "polygamma")
    if order is not None:
        return polygamma_p(x, n=order)
    sign_of_order = sub(mul(2.0, mod(n, 2.0)), 1.0)
    return mul(mul(sign_of_order, gamma(add(n, 1.0))), zeta(add(n, 1.0), x))


def zeta(x: Any, q: Any) -> Any:
    """Hurwitz' zeta function."""
    return zeta_p(x, q)


def beta(a: Any, b: Any) -> Any:
    return beta_p(a, b)


def betaln(a: Any, b: Any) -> Any:
    return betaln_p(a, b)


def gammainc(a: Any, x: Any) -> Any:
    return gammainc_p(a, x)


def gammaincc(a: Any, x: Any) -> Any:
    return gammaincc_p(a, x)


def betainc(a: Any, b: Any, x: Any) -> Any:
    return betainc_p(a, b, x)


def i0(x: Any) -> Any:
    return i0_p(x)


def i1(x: Any) -> Any:
    return i1_p(x)


def i0e(x: Any) -> Any:
    return i0e_p(x)


def i1e(x: Any) -> Any:
    return i1e_p(x)


def j0(x: Any) -> Any:
    return j0_p(x)


def j1(x: Any) -> Any:
    return j1_p(x)


def y0(x: Any) -> Any:
    return y0_p(x)


def y1(x: Any) -> Any:
    return y1_p(x)


def k0(x: Any) -> Any:
    return k0_p(x)


def k1(x: Any) -> Any:
    return k1_p(x)


def jv(v: Any, x: Any) -> Any:
    return jv_p(v, x)


def yv(v: Any, x: Any) -> Any:
    return yv_p(v, x)


def iv(v: Any, x: Any) -> Any:
    return iv_p(v, x)


def kv(v: Any, x: Any) -> Any:
    return kv_p(v, x)


def ive(v: Any, x: Any) -> Any:
    return ive_p(v, x)


def kve(v: Any, x: Any) -> Any:
    return kve_p(v, x)


def xlogy(x: Any, y: Any) -> Any:
    """x * log(y), 0 where x is 0."""
    return xlogy_p(x, y)


def xlog1py(x: Any, y: Any) -> Any:
    """x * log1p(y), 0 where x is 0."""
    return xlog1py_p(x, y)


def entr(x: Any) -> Any:
    return entr_p(x)


def rel_entr(x: Any, y: Any) -> Any:
    return rel_entr_p(x, y)


def kl_div(x: Any, y: Any) -> Any:
    return kl_div_p(x, y)


def logit(x: Any) -> Any:
    return logit_p(x)


def expit(x: Any) -> Any:
    """The logistic function."""
    return logistic(x)


def log_expit(x: Any) -> Any:
    return log_expit_p(x)


def expi(x: Any) -> Any:
    return expi_p(x)


def exp1(x: Any) -> Any:
    return exp1_p(x)


def expn(n: Any, x: Any) -> Any:
    """The generalised exponential integral of a known integer order."""
    order = _static(n, "expn")
    if order is None:
        raise MissingRuleError("expn: the order n must be a known integer, not an array; call it once per order")
    return expn_p(x, n=order)


def spence(x: Any) -> Any:
    return spence_p(x)
