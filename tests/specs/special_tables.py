"""Special functions by tables: funcad/primitives/special_rules.py and what it needs."""

from __future__ import annotations

import numpy as np
import scipy.special

from funcad.primitives import special_bessel, special_integrals, special_rules
from funcad.primitives import special_inverses as special_inverses  # enters its tables
from funcad.primitives import special_polynomials as special_polynomials  # and so do these
from tests.specs import spec
from tests.specs.special import INSIDE, ON_CPU, OTHER, POSITIVE, difference

FULL = np.array([[1.3, 0.4, 2.2], [0.7, 1.9, 3.1]])


def tabled(name, *args, which=0, whole=0, reference=None, **fields):
    return spec(
        special_rules.tabled_p,
        lambda *v: special_rules.tabled_p(*v, name=name, which=which, whole=whole),
        [args, tuple([a.ravel()[1] for a in args])],
        reference=reference or (lambda *v: getattr(scipy.special, name)(*v)),
        backends=ON_CPU,
        dtypes=("f4",),
        **fields,
    )


def moment(halves, power):
    return spec(
        special_integrals.carlson_moment_p,
        lambda *v: special_integrals.carlson_moment_p(*v, halves=halves, power=power),
        [(POSITIVE, OTHER, FULL), (np.float64(0.3), np.float64(1.2), np.float64(0.7))],
        reference=(lambda *v: 2 * scipy.special.elliprf(*v)) if halves == (1, 1, 1) else None,
        backends=ON_CPU,
        dtypes=("f4",),
    )


def fresnel(primitive, name, which):
    return spec(
        primitive,
        lambda x: primitive(x),
        [(FULL,), (FULL.ravel()[0],)],
        reference=lambda x: getattr(scipy.special, name)(x)[which],
        backends=ON_CPU,
        dtypes=("f4",),
    )


SPECS = [
    tabled("airy", FULL, which=1, reference=lambda x: scipy.special.airy(x)[1]),
    tabled("elliprj", POSITIVE, OTHER, FULL, INSIDE),
    tabled("eval_jacobi", np.array([[1.0, 2, 3], [0, 4, 2]]), OTHER, POSITIVE, INSIDE, whole=1, nondiff=(0,)),
    spec(
        special_rules.numeric_p,
        lambda *v: special_rules.numeric("gamma_mixture", *v, orders=(1, 0, 0)),
        [(POSITIVE, OTHER, FULL), (np.float64(0.3), np.float64(1.2), np.float64(0.7))],
        order=1,
        reference=lambda a, x, n: 2 * difference("chndtr", 1)(2 * x, 2 * a, 2 * n),
        backends=ON_CPU,
        dtypes=("f4",),
    ),
    moment((1, 1, 1), 0),
    moment((3, 1, 1), 1),
    spec(
        special_integrals.sine_moment,
        lambda phi, m: special_integrals.sine_moment(phi, m, power=1, root=3),
        [(2.5 * OTHER, INSIDE * 0.9), (np.float64(0.7), np.float64(0.4))],
        reference=lambda phi, m: 2 * difference("ellipkinc", 1)(phi, m),
        backends=ON_CPU,
        dtypes=("f4",),
    ),
    fresnel(special_bessel.modfresnelp_p, "modfresnelp", 0),
    fresnel(special_bessel.modfresnelp_phase_p, "modfresnelp", 1),
    fresnel(special_bessel.modfresnelm_p, "modfresnelm", 0),
    fresnel(special_bessel.modfresnelm_phase_p, "modfresnelm", 1),
]
