"""The families of funcad/scipy/special/special_ufuncs.py, each at one point: value, jit, vmap, both orders in both modes.

Derivatives are compared with differences of order 8 of SciPy's own function, second ones with those of funcad's first; digits
that differences cannot see are compared with references of 40 digits in test_special_references.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

import funcad
from funcad import grad, jvp
from funcad.scipy import special

# function: its arguments; integers are counts, without a derivative
POINTS: dict[str, tuple] = {
    "agm": (1.3, 0.7),
    "airy": (0.7,),
    "airye": (0.7,),
    "bdtri": (2, 5, 0.3),
    "bdtrik": (0.3, 5.0, 0.4),
    "bdtrin": (2.0, 0.3, 0.4),
    "bei": (1.3,),
    "beip": (1.3,),
    "ber": (1.3,),
    "berp": (1.3,),
    "besselpoly": (1.2, 0.7, 0.9),
    "btdtria": (0.3, 1.2, 0.4),
    "btdtrib": (1.2, 0.3, 0.4),
    "chdtriv": (0.3, 1.2),
    "chndtr": (2.2, 3.1, 1.3),
    "chndtridf": (2.2, 0.298, 1.3),
    "chndtrinc": (2.2, 3.1, 0.298),
    "chndtrix": (0.4, 3.1, 1.3),
    "cosdg": (33.0,),
    "cotdg": (33.0,),
    "ellipj": (0.7, 0.4),
    "elliprc": (0.7, 0.4),
    "elliprd": (0.7, 0.4, 1.1),
    "elliprf": (0.7, 0.4, 1.1),
    "elliprg": (0.7, 0.4, 1.1),
    "elliprj": (0.7, 0.4, 1.1, 0.8),
    "eval_chebyc": (3, 0.7),
    "eval_chebys": (3, 0.7),
    "eval_chebyt": (2.5, 0.7),
    "eval_chebyu": (2.5, 0.7),
    "eval_gegenbauer": (3, 0.6, 0.7),
    "eval_genlaguerre": (3, 0.6, 0.7),
    "eval_hermite": (3, 0.7),
    "eval_hermitenorm": (3, 0.7),
    "eval_jacobi": (3, 0.6, 0.3, 0.7),
    "eval_laguerre": (3, 0.7),
    "eval_legendre": (3, 0.7),
    "eval_sh_chebyt": (3, 0.7),
    "eval_sh_chebyu": (3, 0.7),
    "eval_sh_jacobi": (3, 2.6, 1.3, 0.7),
    "eval_sh_legendre": (3, 0.7),
    "fdtridfd": (2.2, 0.337, 0.5),
    "gdtria": (0.3, 1.2, 0.7),
    "gdtrib": (1.4, 0.3, 0.7),
    "it2i0k0": (0.7,),
    "it2j0y0": (0.7,),
    "it2struve0": (0.7,),
    "itairy": (0.7,),
    "iti0k0": (0.7,),
    "itj0y0": (0.7,),
    "itmodstruve0": (0.7,),
    "itstruve0": (0.7,),
    "kei": (0.7,),
    "keip": (0.7,),
    "kelvin": (0.7,),
    "ker": (0.7,),
    "kerp": (0.7,),
    "kolmogi": (0.4,),
    "kolmogorov": (0.7,),
    "log_wright_bessel": (0.7, 1.2, 0.9),
    "lpmv": (1, 2.3, 0.4),
    "mathieu_a": (2, 1.3),
    "mathieu_b": (2, 1.3),
    "mathieu_cem": (2, 1.3, 40.0),
    "mathieu_modcem1": (2, 1.3, 0.7),
    "mathieu_modcem2": (2, 1.3, 0.7),
    "mathieu_modsem1": (2, 1.3, 0.7),
    "mathieu_modsem2": (2, 1.3, 0.7),
    "mathieu_sem": (2, 1.3, 40.0),
    "modfresnelm": (0.7,),
    "modfresnelp": (0.7,),
    "nbdtri": (2, 5, 0.3),
    "nbdtrik": (0.3, 5.0, 0.4),
    "nbdtrin": (2.0, 0.3, 0.4),
    "ncfdtr": (2.2, 3.1, 1.3, 0.7),
    "ncfdtri": (2.2, 3.1, 1.3, 0.4),
    "ncfdtridfd": (2.2, 0.289, 1.3, 0.7),
    "ncfdtridfn": (0.289, 3.1, 1.3, 0.7),
    "ncfdtrinc": (2.2, 3.1, 0.289, 0.7),
    "nctdtr": (3.1, 0.6, 0.8),
    "nctdtridf": (0.894, 0.6, 2.5),
    "nctdtrinc": (3.1, 0.552, 0.8),
    "nctdtrit": (3.1, 0.6, 0.4),
    "nrdtrimn": (0.3, 1.2, 0.7),
    "nrdtrisd": (0.3, 0.4, 0.7),
    "obl_ang1": (1, 2, 0.7, 0.4),
    "obl_ang1_cv": (1, 2, 0.7, 5.7890650026648975, 0.4),
    "obl_cv": (1, 2, 0.7),
    "obl_rad1": (1, 2, 0.7, 0.4),
    "obl_rad1_cv": (1, 2, 0.7, 5.7890650026648975, 0.4),
    "obl_rad2": (1, 2, 3.0, 2.0),
    "obl_rad2_cv": (1, 2, 3.0, 1.821541435834392, 2.0),
    "pbdv": (1.3, 0.7),
    "pbvv": (1.3, 0.7),
    "pbwa": (1.3, 0.7),
    "pdtri": (2, 0.3),
    "pdtrik": (0.3, 2.2),
    "pro_ang1": (1, 2, 0.7, 0.4),
    "pro_ang1_cv": (1, 2, 0.7, 6.2090683961734605, 0.4),
    "pro_cv": (1, 2, 0.7),
    "pro_rad1": (1, 2, 0.7, 1.4),
    "pro_rad1_cv": (1, 2, 0.7, 6.2090683961734605, 1.4),
    "pro_rad2": (1, 2, 3.0, 2.5),
    "pro_rad2_cv": (1, 2, 3.0, 9.555998398430969, 2.5),
    "radian": (3.0, 4.0, 5.0),
    "round": (2.3,),
    "sindg": (33.0,),
    "smirnov": (7, 0.3),
    "smirnovi": (7, 0.3),
    "stdtridf": (0.086, -2.0),
    "tandg": (33.0,),
    "tklmbda": (0.3, 0.7),
    "wright_bessel": (0.7, 1.2, 0.9),
}
# derivatives that are not known: the positions of the arguments
REFUSED: dict[str, tuple[int, ...]] = {
    "lpmv": (1,),
    "eval_chebyu": (0,),  # of its second derivative
    **dict.fromkeys(["pbdv", "pbvv", "pbwa"], (0,)),
    **{f"mathieu_mod{side}em{kind}": (1,) for side in "cs" for kind in (1, 2)},
    **{f"{kind}_{part}": (2,) for kind in ("pro", "obl") for part in ("ang1", "rad1", "rad2")},
    **{f"{kind}_{part}_cv": (2, 3) for kind in ("pro", "obl") for part in ("ang1", "rad1", "rad2")},
}
ROUGH = {  # so many digits SciPy's own values or the differences have
    **({"chdtriv": 1e-8} if np.lib.NumpyVersion(scipy.__version__) < "1.17.0" else {}),
    "fdtridfd": 3e-5,
    "itairy": 1e-7,
    "ncfdtridfd": 1e-3,
    "ncfdtridfn": 2e-4,
    "ncfdtrinc": 2e-3,
    "nctdtridf": 5e-4,
    "nrdtrisd": 1e-7,
    "pro_rad2": 1e-5,
    "pro_rad2_cv": 1e-5,
    "obl_rad2": 1e-5,
    "obl_rad2_cv": 1e-5,
    "stdtridf": 1e-6,
}


def slopes(f: Any, args: tuple, i: int) -> Any:
    """Differences of order 8."""
    step = 1e-2 * max(abs(args[i]), 0.3) if abs(args[i]) < 5 else 0.1
    total: Any = 0.0
    for k, weight in ((1, 0.8), (2, -0.2), (3, 4 / 105), (4, -1 / 280)):
        up, down = [(*args[:i], args[i] + sign * k * step, *args[i + 1 :]) for sign in (1, -1)]
        total = total + weight * (np.asarray(f(*up)) - np.asarray(f(*down))) / step
    return total


def along(f: Any, i: int) -> Any:
    """The derivative by one argument, forwards."""
    return lambda *args: jvp(lambda v: f(*args[:i], v, *args[i + 1 :]), (args[i],), (1.0,))[1]


def stacked(f: Any) -> Any:
    """Of several results a sum, each with a weight of its own; of complex ones, their real and imaginary parts."""

    def run(*args: Any) -> Any:
        out = f(*args)
        parts = out if type(out) is tuple else (out,)
        return sum([(k + 1.0) * (v.real + 2.0 * v.imag if np.iscomplexobj(v) else v) for k, v in enumerate(parts)])

    return run


@pytest.mark.share(3)
@pytest.mark.parametrize("name", POINTS)
def test_value_jit_and_first_derivatives(name: str) -> None:
    args = POINTS[name]
    ours, theirs = getattr(special, name), getattr(scipy.special, name)
    real = [i for i, a in enumerate(args) if type(a) is float]
    expected = np.asarray(theirs(*args))
    np.testing.assert_allclose(np.asarray(funcad.jit(ours)(*args)), expected, rtol=4e-16)
    for i in real:
        if i in REFUSED.get(name, ()) and not name == "eval_chebyu":
            with pytest.raises(funcad.errors.MissingRuleError, match="no derivative with respect to its argument"):
                along(ours, i)(*args)
            continue
        found, slope = np.asarray(along(ours, i)(*args)), slopes(theirs, args, i)
        np.testing.assert_allclose(found, slope, rtol=ROUGH.get(name, 1e-9), atol=1e-9)
        by_door = np.asarray(along(theirs, i)(*args))  # SciPy's own ufunc, called on traced values
        np.testing.assert_array_equal(by_door, found)
    points = [np.array([a, a * 1.01]) if i == real[-1] else a for i, a in enumerate(args)]
    axes = tuple([0 if i == real[-1] else None for i in range(len(args))])
    mapped = funcad.vmap(along(ours, real[-1]), in_axes=axes)(*points)
    one = along(ours, real[-1])(*[a[0] if i == real[-1] else a for i, a in enumerate(points)])
    np.testing.assert_allclose(np.asarray(mapped)[..., 0], np.asarray(one), rtol=1e-13)


SOME = [pytest.param(n, marks=[pytest.mark.slow] * (i % 3 > 0)) for i, n in enumerate(POINTS) if n != "round"]


@pytest.mark.share(4)
@pytest.mark.filterwarnings("ignore:grad. the output of run does not depend")
@pytest.mark.parametrize("name", SOME)
def test_second_derivatives_and_reverse_mode(name: str) -> None:
    args = POINTS[name]
    f = stacked(getattr(special, name))
    known = [i for i, a in enumerate(args) if type(a) is float and i not in REFUSED.get(name, ())]
    for i in known:
        first = along(f, i)
        np.testing.assert_allclose(grad(f, argnums=i)(*args), first(*args), rtol=1e-12, atol=1e-14)
        for j in known:
            if j < i:
                continue
            found = along(first, j)(*args)
            np.testing.assert_allclose(found, slopes(first, args, j), rtol=ROUGH.get(name, 1e-9), atol=1e-9)
            backwards = grad(grad(f, argnums=i), argnums=j)(*args)
            np.testing.assert_allclose(backwards, found, rtol=1e-10, atol=1e-12)
    if known:
        i = known[-1]
        np.testing.assert_allclose(funcad.jit(grad(f, argnums=i))(*args), grad(f, argnums=i)(*args), rtol=1e-13)


def test_degrees_that_are_integers_have_scipys_own_loop() -> None:
    x = np.linspace(-0.9, 0.9, 7)
    for n in (0, 1, 5, 40):
        found = funcad.jit(lambda x, n=n: special.eval_legendre(n, x))(x)
        np.testing.assert_array_equal(found, scipy.special.eval_legendre(n, x))
    degrees = np.arange(7)
    found = jvp(lambda x: special.eval_hermite(degrees, x), (x,), (np.ones(7),))[1]
    np.testing.assert_allclose(found, 2 * degrees * scipy.special.eval_hermite(np.maximum(degrees - 1, 0), x), rtol=1e-14)
    with pytest.raises(TypeError, match="degree must be an integer"):
        jvp(lambda x: special.eval_hermite(2.0, x), (x,), (x,))
    with pytest.raises(funcad.errors.MissingRuleError, match="not given as an integer"):
        grad(lambda a: special.eval_gegenbauer(2.5, a, 0.3))(0.7)


def test_counts_have_no_derivative_after_the_first_either() -> None:
    f = along(special.mathieu_cem, 1)
    assert np.isfinite(f(2.0, 1.3, 40.0)).all()
    assert [float(v) for v in along(f, 0)(2.0, 1.3, 40.0)] == [0.0, 0.0]


def test_outside_of_the_domain_and_empty() -> None:
    assert np.isnan(grad(special.elliprf)(-1.0, 2.0, 3.0))
    assert np.isnan(grad(special.elliprj, argnums=3)(1.0, 2.0, 3.0, -0.5))
    found = grad(special.elliprc, argnums=1)(0.7, -0.4)
    assert found == pytest.approx(float(slopes(scipy.special.elliprc, (0.7, -0.4), 1)), rel=1e-9)
    assert grad(special.kolmogorov)(0.0) == 0.0
    assert grad(special.ber)(0.0) == 0.0
    assert grad(grad(special.bei))(0.0) == 0.5
    for f in (special.kolmogorov, special.ber, lambda x: special.chndtr(x, 2.0, 1.0)):
        assert funcad.grad(lambda x, f=f: np.sum(f(x)))(np.empty((0, 2))).shape == (0, 2)
    single = funcad.grad(lambda x: np.sum(special.chndtr(x, np.float32(2.0), np.float32(1.0))))(np.float32([1.0, 2.0]))
    assert single.dtype == np.float32


# where SciPy's search finds nothing between its ends, and gives one of them
CLIPPED = {
    "bdtrik": (0.1, 5.0, 0.2),
    "chndtridf": (0.01, 0.9999, 0.3),
    "chndtrinc": (0.9019695520, 0.4094090886, 0.8675429754),
    "chndtrix": (1e-6, 0.001, 0.1),
    "fdtridfd": (2.0, 0.99, 0.4),
    "nbdtrik": (0.1, 3.0, 0.7),
    "ncfdtridfn": (0.99, 2.0, 1.0, 0.3),
    "ncfdtrinc": (2.0, 3.0, 0.99, 0.1),
    "nctdtridf": (0.99, 1.0, -2.0),
    "pdtrik": (0.3, 0.3),
    "stdtridf": (0.8711555903, 0.6228976842),
}


@pytest.mark.parametrize("name", CLIPPED)
@pytest.mark.parametrize(
    "way",
    [
        lambda f, x: grad(f)(x),
        lambda f, x: jvp(f, (x,), (1.0,))[1],
        lambda f, x: funcad.vmap(grad(f))(np.array([x, x]))[1],
        lambda f, x: funcad.jit(grad(f))(x),
        lambda f, x: [slope(x) for slope in [funcad.jit(grad(f))] for _ in range(3)][2],
        lambda f, x: grad(grad(f))(x),
    ],
)
def test_a_clipped_value_has_slope_zero(name: str, way: Any) -> None:
    args = CLIPPED[name]
    for i, x in enumerate(args):
        f = lambda v, i=i: getattr(special, name)(*args[:i], v, *args[i + 1 :])
        assert f(x * (1 - 1e-5)) == f(x * (1 + 1e-5)) and way(f, x) == 0.0
