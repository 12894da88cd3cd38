"""funcad.scipy.special against jax.scipy.special: values and derivatives, in all arguments that JAX can differentiate."""

from __future__ import annotations

import numpy as np
import pytest

import funcad
from funcad.scipy import special

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.slow
jax.config.update("jax_enable_x64", True)

ANY = np.array([-1.3, 0.4, 2.2, -0.2])
POSITIVE = np.array([0.3, 0.9, 2.7, 1.4])
OTHER = np.array([1.8, 0.6, 1.1, 5.5])
INSIDE = np.array([0.1, 0.9, 0.45, 0.3])
MATRIX = np.array([[0.3, -1.2, 2.0], [0.7, 0.1, -0.4]])

CASES = [
    *[(n, (ANY,)) for n in "erf erfc erfcx ndtr log_ndtr expit dawsn i0 i1 i0e i1e gammasgn".split()],
    *[(n, (INSIDE,)) for n in "erfinv logit ndtri".split()],
    *[(n, (POSITIVE,)) for n in "gamma gammaln loggamma digamma entr exp1 expi factorial spence".split()],
    *[(n, (POSITIVE, OTHER)) for n in "beta betaln gammainc gammaincc xlogy xlog1py kl_div rel_entr poch".split()],
    *[(n, (POSITIVE, OTHER)) for n in ("boxcox", "boxcox1p")],
    ("owens_t", (ANY, OTHER)),
    ("comb", (POSITIVE + 5.0, OTHER)),
    ("betainc", (POSITIVE, OTHER, INSIDE)),
    ("zeta", (OTHER + 1.0, POSITIVE)),
    ("hyp1f1", (OTHER, POSITIVE, ANY)),
    ("hyp2f1", (OTHER, POSITIVE, OTHER + 0.5, INSIDE)),
    ("sici", (POSITIVE,)),
    ("fresnel", (POSITIVE,)),
    ("wofz", (ANY + 0.5j,)),
    ("logsumexp", (MATRIX,)),
    ("softmax", (MATRIX,)),
    ("log_softmax", (MATRIX,)),
]
# arguments in which JAX has no derivative, or one that is wrong
UNKNOWN = {"betainc": {0, 1}, "zeta": {0}, "hyp2f1": {0, 1, 2}, "comb": {0, 1}}
TOLERANCE = {"hyp1f1": 1e-6, "gammainc": 1e-8, "gammaincc": 1e-8}


def flat(x):
    return np.concatenate([np.ravel(v) for v in x]) if isinstance(x, tuple) else np.asarray(x)


@pytest.mark.parametrize("name,args", CASES, ids=[c[0] for c in CASES])
def test_values_and_derivatives(name, args):
    theirs = getattr(jax.scipy.special, name, None)
    if theirs is None:
        pytest.skip(f"this JAX has no {name}")
    ours = getattr(special, name)
    rtol = TOLERANCE.get(name, 1e-9)
    np.testing.assert_allclose(flat(ours(*args)), flat(theirs(*args)), rtol=rtol, atol=1e-12)
    for i, x in enumerate(args):
        if i in UNKNOWN.get(name, ()):
            continue

        def of_one(f, i=i):
            return lambda v: f(*args[:i], v, *args[i + 1 :])

        t = np.cos(np.arange(x.size)).reshape(x.shape).astype(x.dtype)
        _, found = funcad.jvp(of_one(ours), (x,), (t,))
        _, expected = jax.jvp(of_one(theirs), (x,), (t,))
        np.testing.assert_allclose(flat(found), flat(expected), rtol=rtol, atol=1e-10, err_msg=f"{name}, argument {i}")


def test_logsumexp_with_weights():
    b = MATRIX[::-1] + 0.2
    for axis in (None, 0, (0, 1)):
        ours = funcad.grad(lambda a, b, axis=axis: np.sum(special.logsumexp(a, axis, b, return_sign=True)[0]), argnums=(0, 1))
        theirs = jax.grad(
            lambda a, b, axis=axis: jax.scipy.special.logsumexp(a, axis, b, return_sign=True)[0].sum(), argnums=(0, 1)
        )
        for found, expected in zip(ours(MATRIX, b), theirs(MATRIX, b)):
            np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_orders(n):
    for ours, theirs in [
        (lambda x: special.polygamma(n, x), lambda x: jax.scipy.special.polygamma(n, x)),
        (lambda x: special.expn(n, x), lambda x: jax.scipy.special.expn(n, x)),
        (lambda x: special.bessel_jn(x, v=n)[n], lambda x: jax.scipy.special.bessel_jn(x, v=n)[n]),
    ]:
        np.testing.assert_allclose(ours(POSITIVE), theirs(POSITIVE), rtol=1e-8)
        found, expected = funcad.jvp(ours, (POSITIVE,), (OTHER,))[1], jax.jvp(theirs, (POSITIVE,), (OTHER,))[1]
        known = ~np.isnan(expected)  # JAX has none of expn of order 0, for some x
        np.testing.assert_allclose(found[known], np.asarray(expected)[known], rtol=1e-7)


def test_gamma_samples():
    rng = np.random.default_rng(0)
    a = 10 ** rng.uniform(-2, 3, 300)
    x = rng.gamma(a)
    x, a = x[x > 1e-200], a[x > 1e-200]
    for name, rtol in (("igamma_grad_a", 1e-6), ("random_gamma_grad", 1e-6)):
        found, expected = getattr(funcad.lax, name)(a, x), getattr(jax.lax, name)(a, x)
        np.testing.assert_allclose(found, expected, rtol=rtol, err_msg=name)
