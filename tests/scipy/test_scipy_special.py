"""funcad.scipy.special: what the tables cannot say. Parameter derivatives against references of 40 digits, edges, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

import funcad
from funcad import grad, jvp
from funcad.errors import MissingRuleError
from funcad.scipy import special
from funcad.scipy.door import implements
from tests.forked import in_a_process

# (function, arguments, position, derivative), from differences of mpmath's functions at 60 digits
REFERENCES: list[tuple[str, tuple, int, float]] = [
    ("gammainc", (0.001, 0.5), 0, -0.5603594001080031),
    ("gammainc", (0.3, 2.0), 0, -0.09925266010124012),
    ("gammainc", (5.0, 0.0001), 0, -9.096292626776002e-22),
    ("gammainc", (12.0, 30.0), 0, -6.428643488001915e-05),
    ("gammainc", (1000.0, 950.0), 0, -0.003551127164809476),
    ("gammainc", (100000.0, 100500.0), 0, -0.0003620442428866456),
    ("betainc", (0.01, 0.02, 0.3), 0, -22.588449240546257),
    ("betainc", (2.5, 700.0, 0.001), 0, -0.11529589391994596),
    ("betainc", (2.5, 700.0, 0.001), 1, 0.00021916310094219097),
    ("betainc", (200.0, 400.0, 0.33), 0, -0.022823653280979808),
    ("betainc", (30.0, 0.2, 0.999), 1, 1.7410561107659464),
    ("jv", (0.3, 7.0), 0, -0.2404082901371536),
    ("jv", (40.0, 2.0), 0, -4.426362094192748e-48),
    ("jv", (-1.5, 3.0), 0, -0.9905532721018189),
    ("yv", (2.0, 0.01), 0, -72844.83201771983),
    ("yv", (7.7, 150.0), 0, -0.060506571570360726),
    ("iv", (0.0, 3.0), 0, -0.03473950438627925),
    ("iv", (4.0, 90.0), 0, -2.0998597072188878e36),
    ("iv", (-2.3, 1.5), 0, -1.0582064886281906),
    ("iv", (60.0, 20.0), 0, -1.1070553337226605e-21),
    ("kv", (0.5, 2.0), 0, 0.024748637504434276),
    ("kv", (-30.0, 0.7), 0, -9.299691768459586e44),
    ("zeta", (1.5, 0.2), 0, 13.972229205219966),
    ("zeta", (7.0, 30.0), 0, -8.963510474112517e-10),
    ("zeta", (-3.3,), 0, 0.00837857995524234),
    ("zeta", (0.5,), 0, -3.9226461392091516),
    ("hyp1f1", (1.5, 2.5, -7.0), 0, -0.1614957882690284),
    ("hyp1f1", (1.5, 2.5, 4.0), 1, -15.269171081564313),
    ("stdtr", (3.0, -20.0), 0, -0.0002859110843979261),
    ("stdtr", (50.0, 0.02), 0, 7.939043896241669e-07),
    ("ellipkinc", (4.0, -1.3), 1, 0.35555285848305784),
    ("boxcox", (3.0, 1e-09), 1, 0.6034744808482806),
]


@pytest.mark.parametrize("name,args,position,expected", REFERENCES)
def test_derivatives_by_parameters(name: str, args: tuple, position: int, expected: float) -> None:
    found = grad(getattr(special, name), argnums=position)(*args)
    assert found == pytest.approx(expected, rel=2e-12)


def test_gamma_samples_in_the_tails() -> None:
    from_lax = funcad.lax.random_gamma_grad
    a = np.array([1e-3, 0.1, 2.5, 40.0, 1e5])
    for level in (1e-250, 1e-12, 0.5):
        x = scipy.special.gammaincinv(a, level)
        inside = x > 0
        found = from_lax(a[inside], x[inside])
        assert np.isfinite(found).all() and (found > 0).all()
        up, down = [scipy.special.gammaincinv(a * (1 + s), level) for s in (1e-5, -1e-5)]
        with np.errstate(all="ignore"):
            expected = (x * np.log(up / down) / (2e-5 * a))[inside]
        smooth = expected > 1e-200
        np.testing.assert_allclose(found[smooth], expected[smooth], rtol=1e-4)
    assert from_lax(2.0, 0.0) == 0.0
    batched = funcad.vmap(from_lax, in_axes=(None, 0))(2.0, np.array([0.5, 3.0]))
    np.testing.assert_array_equal(batched, from_lax(np.array([2.0, 2.0]), np.array([0.5, 3.0])))


def test_inverses_undo_each_other() -> None:
    a, b, p = np.array([0.3, 2.0, 50.0]), np.array([4.0, 0.7, 20.0]), np.array([0.01, 0.5, 0.97])
    for forward, inverse, shapes in [
        (special.gammainc, special.gammaincinv, (a,)),
        (special.gammaincc, special.gammainccinv, (a,)),
        (special.betainc, special.betaincinv, (a, b)),
        (special.betaincc, special.betainccinv, (a, b)),
    ]:
        for i, s in enumerate(shapes):
            tangents = [np.zeros_like(s) for s in shapes]
            tangents[i] = np.ones_like(s)
            _, t = jvp(lambda *v, f=forward, g=inverse: f(*v, g(*v, p)), shapes, tuple(tangents))
            np.testing.assert_allclose(t, 0.0, atol=1e-10)


def test_third_derivatives_by_shapes_are_refused() -> None:
    for f, args in [
        (special.gammainc, (2.5, 0.7)),
        (special.betainc, (2.5, 1.5, 0.7)),
        (special.stdtr, (2.5, 0.7)),
        (special.hyp2f1, (2.5, 1.0, 2.0, 0.3)),
    ]:
        assert np.isfinite(grad(grad(f))(*args))
        with pytest.raises(MissingRuleError, match="this one is the third"):
            grad(grad(grad(f)))(*args)
    for f, argument in [(lambda v: special.pbdv(v, 0.3)[0], "v"), (lambda n: special.eval_legendre(n, 0.3), "n")]:
        with pytest.raises(MissingRuleError, match=f"argument {argument}"):
            grad(f)(1.5)


def test_mixed_second_derivatives_of_shapes_are_known() -> None:
    for f, args, i, j in [
        (special.gammainc, (1.0, 0.7), 0, 1),
        (special.betainc, (1.0, 1.5, 0.7), 0, 2),
        (special.jv, (1.5, 0.7), 0, 1),
        (special.kv, (1.5, 0.7), 0, 1),
        (special.iv, (1.5, 0.7), 0, 1),
        (special.zeta, (2.5, 0.7), 0, 1),
        (special.stdtr, (2.5, 0.7), 0, 1),
    ]:
        one = grad(lambda *v, f=f, i=i: grad(f, argnums=i)(*v), argnums=j)(*args)

        def moved(step: float, f: Any = f, args: tuple = args, i: int = i, j: int = j) -> Any:
            changed = list(args)
            changed[j] += step
            return grad(f, argnums=i)(*changed)

        assert one == pytest.approx((moved(1e-4) - moved(-1e-4)) / 2e-4, rel=1e-6)


def test_bessel_functions_at_zero() -> None:
    for f in (special.i1, special.j1, special.i1e):
        assert grad(f)(0.0) == 0.5
    assert grad(grad(special.i0))(0.0) == 0.5
    assert grad(grad(special.j0))(0.0) == -0.5
    assert grad(special.jv)(2.0, 0.0) == 0.0
    assert grad(special.kv)(0.0, 1.5) == 0.0


def test_far_tails() -> None:
    assert grad(special.log_ndtr)(-1e4) == pytest.approx(1e4, rel=1e-6)
    assert grad(grad(special.log_ndtr))(-50.0) == pytest.approx(-1.0, rel=1e-3)
    assert grad(special.ndtri_exp)(-1e6) == pytest.approx(1 / np.sqrt(2e6), rel=1e-4)
    for x in (1e3, 1e8, 1e150):
        assert grad(special.erfcx)(x) == pytest.approx(-1 / np.sqrt(np.pi) / x / x, rel=1e-5)
        assert grad(special.dawsn)(-x) == pytest.approx(-0.5 / x / x, rel=1e-5)


def test_removable_singularities() -> None:
    assert grad(special.spence)(1.0) == -1.0
    assert grad(grad(special.spence))(1.0) == pytest.approx(0.5, rel=1e-6)
    assert grad(special.exprel)(0.0) == pytest.approx(0.5)
    assert grad(grad(special.exprel))(0.0) == pytest.approx(1 / 3)
    assert grad(special.boxcox, argnums=1)(3.0, 0.0) == pytest.approx(np.log(3.0) ** 2 / 2)
    assert grad(special.boxcox, argnums=1)(0.0, 0.5) == pytest.approx(4.0)
    assert grad(special.ellipk)(0.0) == pytest.approx(np.pi / 8)
    assert grad(special.ellipe)(0.0) == pytest.approx(-np.pi / 8)
    assert grad(grad(special.ellipk))(0.0) == pytest.approx(9 * np.pi / 64)
    assert grad(special.rgamma)(-2.0) == pytest.approx(2.0)
    assert grad(special.pseudo_huber)(0.0, -3.0) == 3.0
    assert grad(lambda x: special.sici(x)[0])(0.0) == 1.0
    assert grad(lambda x: special.shichi(x)[0])(0.0) == 1.0


def test_values_at_the_edges_are_scipys() -> None:
    points = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, -2.5, 1.0, 1e-300, 1e300])
    for name in "erf erfcx gamma gammaln rgamma digamma i0 j1 y0 k1 expi exp1 spence ellipk ndtri log_ndtr entr exprel".split():
        f = getattr(special, name)
        with np.errstate(all="ignore"):
            value, tangent = jvp(f, (points,), (np.ones(10),))
            np.testing.assert_array_equal(value, getattr(scipy.special, name)(points), err_msg=name)
        assert np.isnan(tangent[0]), name
    first, second = [v.ravel() for v in np.meshgrid([0.0, 1.0, np.inf, np.nan], [0.0, 1.0, np.inf, np.nan])]
    for name in "gammainc gammaincc xlogy beta betaln rel_entr boxcox zeta".split():
        f = getattr(special, name)
        with np.errstate(all="ignore"):
            value, _ = jvp(f, (first, second), (np.ones(16), np.ones(16)))
            np.testing.assert_array_equal(value, getattr(scipy.special, name)(first, second), err_msg=name)


@pytest.mark.parametrize("shapes", [(2.0, 3.0), (20.0, 3.0), (3.0, 20.0), (30.0, 20.0)])
def test_a_nan_has_the_slope_nan(shapes: tuple[float, float]) -> None:
    x = np.array([np.nan, 0.4])
    for f, parameters in [(special.gammainc, shapes[:1]), (special.gammaincc, shapes[:1]), (special.betainc, shapes)]:
        for way in (f, funcad.jit(f)):
            slope = jvp(lambda x, way=way, p=parameters: way(*p, x), (x,), (np.ones(2),))[1]
            assert np.isnan(slope[0]) and np.isfinite(slope[1])


def test_dtypes_are_scipys() -> None:
    for dtype in (np.float16, np.float32, np.float64, np.int32, np.bool_):
        x = np.array([0, 1], dtype)
        for name in ("erf", "gammaln", "i0e", "betaln", "gammainc", "jv"):
            f, theirs = getattr(special, name), getattr(scipy.special, name)
            args = (x + x.dtype.type(1),) * theirs.nin
            assert funcad.jit(f)(*args).dtype == theirs(*args).dtype, (name, dtype)


def test_scipys_own_ufuncs_come_here() -> None:
    assert grad(lambda a: scipy.special.betainc(a, 1.5, 0.3))(2.0) == grad(special.betainc)(2.0, 1.5, 0.3)
    assert grad(lambda x: scipy.special.psi(x))(2.0) == pytest.approx(np.pi**2 / 6 - 1)
    assert grad(lambda x: scipy.special.sici(x)[0])(0.5) == pytest.approx(np.sin(0.5) / 0.5)
    assert grad(lambda x: scipy.special.airy(x)[0])(1.0) == scipy.special.airy(1.0)[1]


def test_refusals() -> None:
    assert grad(lambda x: special.erf(x, out=np.zeros(())))(1.0) == grad(special.erf)(1.0)  # which is written
    with pytest.raises(TypeError, match="where="):
        grad(lambda x: special.erf(x, where=False))(1.0)
    with pytest.raises(TypeError, match="complex arguments"):
        funcad.jit(lambda z: special.jv(1.0, z))(1j)
    with pytest.raises(TypeError, match="exact"):
        grad(lambda x: special.comb(x, 2.0, exact=True))(4.0)
    with pytest.raises(TypeError, match="order must be an integer"):
        grad(lambda n: special.polygamma(n, 1.0))(2.0)
    with pytest.raises(TypeError, match="known integer"):
        grad(lambda d: special.multigammaln(3.0, d))(2.0)
    with pytest.raises(TypeError, match="takes 2 arguments"):
        grad(lambda x: special.beta(x))(2.0)
    with pytest.raises(ValueError, match="integer"):
        funcad.primitives.special.polygamma(1.5, 2.0)


def test_logsumexp_of_weights_that_are_zero() -> None:
    a, b = np.array([1000.0, 0.0, np.inf]), np.array([0.0, 2.0, 0.0])
    value, (da, db) = funcad.value_and_grad(special.logsumexp, argnums=(0, 2))(a, None, b)
    assert value == pytest.approx(np.log(2.0)) and value == pytest.approx(scipy.special.logsumexp(a, b=b))
    np.testing.assert_allclose(da, [0.0, 1.0, 0.0])
    assert db[1] == pytest.approx(0.5)
    found = jvp(lambda b: special.logsumexp(np.array([0.5, 0.2]), b=b), (np.array([0.0, 2.0]),), (np.array([1.0, 0.0]),))[1]
    assert found == pytest.approx(np.exp(0.3) / 2)
    with np.errstate(invalid="ignore"):
        assert np.isnan(funcad.jit(lambda a: special.logsumexp(a, b=-1.0))(1.0))


def test_door_imports_scipy_when_it_must() -> None:
    code = (
        "import sys, funcad\n"
        "from funcad.scipy import special\n"
        "assert not any(m.split('.')[0] == 'scipy' for m in sys.modules)\n"
        "special.erf(1.0)\n"
        "assert 'scipy.special' in sys.modules"
    )
    in_a_process(code)


def test_door_of_names_that_scipy_does_not_have() -> None:
    @implements("special.no_such_function")
    def doubled(x: Any) -> Any:
        return x + x

    assert doubled(2.0) == 4.0 and doubled.__name__ == "no_such_function" and grad(doubled)(2.0) == 2.0


ARRAY_API = """
import numpy as np, scipy, scipy.special
import funcad, funcad.scipy.special as own
from funcad.errors import TracerArrayConversionError
x = np.array([1.5, 2.5])
assert scipy.special.gammaln is not scipy.special._ufuncs.gammaln  # the setting is heeded
for name in ("gammaln", "erf", "ndtr", "i0"):
    plain, ours = getattr(scipy.special, name), getattr(own, name)
    expected = funcad.grad(lambda x: np.sum(ours(x)))(x)
    h = 1e-6
    assert np.allclose(expected, (ours(x + h) - ours(x - h)) / (2 * h), rtol=1e-6), name
    for transform in (funcad.grad, lambda f: funcad.jit(funcad.grad(f))):
        try:
            found = transform(lambda x: np.sum(plain(x)))(x)
        except TracerArrayConversionError as error:  # older versions ask no array for its namespace's functions
            assert tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 16) and "funcad.scipy" in str(error)
        else:
            assert np.array_equal(found, expected), name
    assert np.array_equal(funcad.vmap(ours)(x), ours(x)) and np.array_equal(funcad.jit(ours)(x), ours(x))
print("done")
"""


@pytest.mark.skipif(not hasattr(scipy.special._ufuncs, "gammaln"), reason="SciPy keeps its ufuncs elsewhere")
def test_scipys_own_support_of_other_arrays():
    """SCIPY_ARRAY_API=1 puts functions in Python before SciPy's ufuncs."""
    assert in_a_process(ARRAY_API, SCIPY_ARRAY_API="1") == "done"


def test_zeta_of_complex_numbers_is_refused() -> None:
    z = np.array([2.0 + 1.0j, 3.0 + 0.0j])
    for transform in (funcad.jit, funcad.vmap, lambda f: lambda z: funcad.jvp(f, (z,), (z,))):
        with pytest.raises(TypeError, match="complex arguments"):
            transform(lambda z: scipy.special.zeta(z))(z)


def all_ways(f: Any, x: Any) -> list[Any]:
    jitted = funcad.jit(f)
    return [f(x), jitted(x), jitted(x), jitted(x), funcad.vmap(f)(np.array([x, x]))[1], jvp(f, (x,), (1.0,))[0]]


@pytest.mark.parametrize("name", ["hankel1", "hankel2", "hankel1e", "hankel2e"])
@pytest.mark.parametrize("point", [(1.0, -0.4), (0.3, -2.0), (2.5, -1.0), (0.7, 1.2), (1.5, 0.0)])
def test_hankel_functions_of_negative_numbers(name: str, point: tuple[float, float]) -> None:
    function, (v, x) = getattr(scipy.special, name), point
    np.testing.assert_allclose(all_ways(lambda x: function(v, x), x), [function(v, x)] * 6, rtol=1e-12)
    if x:
        for i in (0, 1):
            f = lambda t, i=i: function(*[t if i == k else c for k, c in enumerate(point)])
            t = point[i]
            slope = (f(t + 1e-5) - f(t - 1e-5)) / 2e-5
            np.testing.assert_allclose(jvp(f, (t,), (1.0,))[1], slope, rtol=1e-7)


@pytest.mark.parametrize("x", [-1.5, 0.0, 0.5])
@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_voigt_profile_without_a_normal_part(x: float, gamma: float) -> None:
    f = lambda x: scipy.special.voigt_profile(x, 0.0, gamma)
    assert all_ways(f, x) == pytest.approx([f(x)] * 6, rel=1e-12)
    if gamma:
        assert grad(f)(x) == pytest.approx(-2.0 * x / np.pi / (1.0 + x * x) ** 2, rel=1e-12, abs=1e-15)
        assert grad(lambda s: scipy.special.voigt_profile(x, s, gamma))(0.0) == 0.0


@pytest.mark.parametrize(
    ("x", "second", "third"), [(0.0, 1.1544313298030657, -3.935268429), (-2.0, -3.69113734039387, -12.260418826)]
)
def test_derivatives_of_rgamma_at_poles(x: float, second: float, third: float) -> None:
    bend = grad(grad(scipy.special.rgamma))
    assert all_ways(bend, x) == pytest.approx([second] * 6, rel=1e-12)
    assert all_ways(grad(bend), x) == pytest.approx([third] * 6, rel=1e-8)


@pytest.mark.parametrize("z", [0.0, -1.0, -2.0, -5.0, 1.3, -2.3])
@pytest.mark.parametrize("m", [0.7, 3.0, -0.5, 1.0])
def test_the_derivative_of_poch_where_gamma_has_poles(z: float, m: float) -> None:
    f = lambda z: scipy.special.poch(z, m)
    slope = (f(z + 1e-5) - f(z - 1e-5)) / 2e-5
    assert all_ways(grad(f), z) == pytest.approx([slope] * 6, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("name", ["struve", "modstruve"])
@pytest.mark.parametrize(("v", "x"), [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (0.0, 1.3), (2.5, 3.0), (1.0, -2.0)])
def test_derivatives_of_struve_functions_at_zero_and_beside(name: str, v: float, x: float) -> None:
    f = lambda x: getattr(scipy.special, name)(v, x)
    slope = (f(x + 1e-5) - f(x - 1e-5)) / 2e-5
    assert all_ways(grad(f), x) == pytest.approx([slope] * 6, rel=1e-7, abs=1e-9)
    bend = (grad(f)(x + 1e-5) - grad(f)(x - 1e-5)) / 2e-5
    assert all_ways(grad(grad(f)), x) == pytest.approx([bend] * 6, rel=1e-7, abs=1e-9)
    of_two = funcad.hessian(lambda x: f(x).sum())
    for way in (of_two, funcad.jit(of_two)):
        np.testing.assert_allclose(way(np.array([x, x])), bend * np.eye(2), rtol=1e-7, atol=1e-9)


@pytest.mark.skipif(not hasattr(scipy.special, "legendre_p"), reason="SciPy has it from 1.15 on")
def test_polynomials_of_legendre_have_scipys_shape() -> None:
    x = np.array([0.1, 0.2])
    for f in (lambda x: scipy.special.legendre_p(3, x), lambda x: scipy.special.assoc_legendre_p(3, 1, x)):
        jitted = funcad.jit(f)
        for found in (jitted(x), jitted(x), jitted(x), jvp(f, (x,), (x,))[0]):
            assert found.shape == f(x).shape
            np.testing.assert_allclose(found, f(x), rtol=1e-13)


@pytest.mark.parametrize("point", [(3.0, 5.0), (5.0, -2.0), (3.0, 2.0), (2.5, 4.0), (300.0, 7.0)])
@pytest.mark.parametrize("place", [0, 1])
def test_the_derivatives_of_binom_where_it_is_zero(point: tuple[float, float], place: int) -> None:
    f = lambda t: scipy.special.binom(*[t if i == place else c for i, c in enumerate(point)])
    t = point[place]
    slope = (f(t + 1e-4) - f(t - 1e-4)) / 2e-4
    assert all_ways(grad(f), t) == pytest.approx([slope] * 6, rel=1e-6, abs=1e-9)


@pytest.mark.share(4)
@pytest.mark.parametrize("n", [1, 2, 3, 8])
@pytest.mark.parametrize("x", [0.0, 2 * np.pi, -4 * np.pi, 1e-7, 2 * np.pi + 1e-5, 0.2, 1.3])
def test_derivatives_of_diric_at_its_centres_and_beside(n: int, x: float) -> None:
    f, waves = lambda x: scipy.special.diric(x, n), np.arange(n) - (n - 1) / 2
    slope, bend = -np.mean(waves * np.sin(waves * x)), -np.mean(waves**2 * np.cos(waves * x))
    assert all_ways(f, x) == pytest.approx([float(f(x))] * 6, rel=1e-9)
    assert all_ways(grad(f), x) == pytest.approx([slope] * 6, rel=1e-12, abs=1e-13)
    assert all_ways(grad(grad(f)), x) == pytest.approx([bend] * 6, rel=1e-12, abs=1e-12)


def test_diric_of_several_and_of_no_whole_numbers_of_waves() -> None:
    x, n = np.array([0.0, 0.3, 0.3, 0.3]), np.array([3.0, 2.0, 2.5, -1.0])
    np.testing.assert_allclose(funcad.jit(scipy.special.diric)(x, n), scipy.special.diric(x, n), rtol=1e-13)
    assert funcad.jit(scipy.special.diric)(np.float32(0.3), 3).dtype == scipy.special.diric(np.float32(0.3), 3).dtype


@pytest.mark.parametrize(
    ("name", "point", "place"),
    [
        *[("rgamma", (np.inf,), 0), ("kolmogorov", (np.inf,), 0), ("huber", (np.inf, 1.0), 0), ("k0", (np.inf,), 0)],
        *[("elliprf", (1.0, np.inf, 2.0), 1), ("elliprd", (1.0, np.inf, 2.0), 0), ("elliprg", (np.inf, 1.0, 2.0), 0)],
        ("expn", (2, np.inf), 1),
    ],
)
def test_slopes_at_infinity_that_are_zero(name: str, point: tuple, place: int) -> None:
    f = lambda t: getattr(scipy.special, name)(*[t if i == place else c for i, c in enumerate(point)])
    assert all_ways(grad(f), point[place]) == pytest.approx([0.0] * 6, abs=0.0)


@pytest.mark.parametrize("x", [np.inf, -np.inf])
def test_slopes_of_the_sine_and_cosine_integrals_at_infinity(x: float) -> None:
    for i in (0, 1):
        slope = grad(lambda x, i=i: scipy.special.sici(x)[i])
        assert all_ways(slope, x) + all_ways(grad(slope), x) == pytest.approx([0.0] * 12, abs=0.0)


@pytest.mark.parametrize(("a", "x", "expected"), [(0.0, 0.5, 1.6487212707001282), (4.0, 0.0, 1.0), (1.0, 0.5, None)])
def test_wright_bessel_by_its_second_parameter_at_zero(a: float, x: float, expected: float | None) -> None:
    f = lambda b: scipy.special.wright_bessel(a, b, x)
    expected = (4 * f(1e-5) - 3 * f(0.0) - f(2e-5)) / 2e-5 if expected is None else expected
    assert all_ways(grad(f), 0.0) == pytest.approx([expected] * 6, rel=1e-7)


def in_errstate(x):
    with scipy.special.errstate(singular="raise"):
        try:
            return scipy.special.gammaln(x)
        except scipy.special.SpecialFunctionError:
            return 0.0 * x


def sets_errors(x):
    before = scipy.special.seterr(singular="raise")
    try:
        return scipy.special.gammaln(x)
    except scipy.special.SpecialFunctionError:
        return 0.0 * x
    finally:
        scipy.special.seterr(**before)


def asks_for_errors(x):
    return x if scipy.special.geterr()["singular"] == "raise" else -x


@pytest.mark.parametrize("f, name", [(in_errstate, "errstate"), (sets_errors, "seterr"), (asks_for_errors, "geterr")])
def test_what_special_functions_do_at_a_singularity_is_seen_by_jit(f, name):
    j = funcad.jit(f)
    with pytest.warns(funcad.NotCompiledWarning, match=f"scipy.special.{name} says what SciPy's functions do"):
        assert j(3.0) == f(3.0)
    assert [j(x) for x in (2.5, -1.0, -2.0)] == [f(x) for x in (2.5, -1.0, -2.0)]
    with scipy.special.errstate(singular="raise"):
        assert j(3.0) == f(3.0)
    if name != "geterr":
        assert grad(lambda x: j(x))(2.5) == grad(f)(2.5)
