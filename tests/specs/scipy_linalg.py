"""SciPy's matrix primitives: triangular and band systems, functions of matrices, the Schur and polar forms."""

import numpy as np
import scipy.linalg

from funcad.primitives import eigen, linear_systems, matrix_functions
from funcad.primitives.linear_systems import triangle
from tests.specs import spec


def normal(*shapes, shift=0.0):
    """Matrices; square ones have `shift` added on the diagonal."""

    def draw(rng):
        found = []
        for s in shapes:
            x = rng.normal(size=s)
            found.append(x + shift * np.eye(s[-1]) if shift and len(s) > 1 and s[-1] == s[-2] else x)
        return tuple(found)

    return draw


def cplx(*shapes, shift=0.0):
    draw = normal(*shapes, shift=shift)
    return lambda rng: tuple(x + 1j * rng.normal(size=x.shape) for x in draw(rng))


def system(lower, transposed, unit_diagonal, **fields):
    def reference(a, b):
        kept = np.tril(a) if lower else np.triu(a)
        if unit_diagonal:
            kept = kept - kept * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
        return np.linalg.solve(np.swapaxes(kept, -1, -2) if transposed else kept, b)

    return spec(
        linear_systems.triangular_solve_p,
        linear_systems.triangular_solve,
        [normal((3, 3), (3, 2), shift=4.0), normal((2, 2, 2), (2, 2, 3), shift=4.0), cplx((2, 2), (2, 1), shift=4.0)],
        params={"lower": lower, "transposed": transposed, "unit_diagonal": unit_diagonal},
        reference=reference,
        backends=("numpy",),  # the stand-in has no cupyx.scipy.linalg
        **fields,
    )


def dense(ab, lower, upper):
    n = ab.shape[-1]
    a = np.zeros((*ab.shape[:-2], n, n), ab.dtype)
    for i in range(n):
        for j in range(max(0, i - lower), min(n, i + upper + 1)):
            a[..., i, j] = ab[..., upper + i - j, j]
    return a


def band(lower, upper):
    def draw(rng):
        ab = rng.normal(size=(lower + upper + 1, 4))
        ab[upper] += 5.0
        return ab, rng.normal(size=(4, 2))

    return spec(
        linear_systems.banded_solve_p,
        linear_systems.banded_solve,
        [
            draw,
            lambda rng: tuple(np.stack([x, 1.1 * x]) for x in draw(rng)),
            lambda rng: tuple(x + 0.3j * x**2 for x in draw(rng)),
        ],
        params={"lower": lower, "upper": upper},
        reference=lambda ab, b: np.linalg.solve(dense(ab, lower, upper), b),
        backends=("numpy",),  # CuPy has no band solver
    )


def positive_band(rng):
    ab = rng.normal(size=(2, 4))
    ab[1] += 5.0
    return ab, rng.normal(size=(4, 2))


def solve_positive(ab, b):
    return linear_systems.banded_solve(linear_systems.hermitian_band(ab, False), b, lower=1, upper=1, positive=True)


def spread(rng):
    """Real eigenvalues, apart from each other."""
    v = rng.normal(size=(3, 3)) + 2 * np.eye(3)
    return (v @ np.diag([1.0, 2.5, 4.0]) @ np.linalg.inv(v),)


def phases_out(a):
    t, z = eigen.schur(a)
    return [t[..., 0, 0], t[..., 1, 1], (z * np.conj(z)).real, (t * np.conj(t)).real]


DEFECTIVE = np.array([[2.0, 1.0, 0.0], [0.0, 2.0, 1.0], [0.0, 0.0, 2.0]])
NUMPY = {"backends": ("numpy",)}  # the stand-in has no cupyx.scipy.linalg, and CuPy few of these functions

SPECS = [
    system(False, False, False),
    system(True, False, False),
    system(False, True, False),
    system(True, True, True),
    system(False, False, True),
    spec(
        linear_systems.triangular_solve_p,
        linear_systems.triangular_solve,
        [normal((0, 0), (0, 2)), normal((0, 2, 2), (0, 2, 1))],
        **NUMPY,
    ),
    spec(
        linear_systems.pivot_permutation,
        linear_systems.pivot_permutation,
        [(np.array([2, 2, 2]),), (np.array([[1, 1], [0, 1]]),), (np.zeros((0, 2), int),)],
        order=0,
    ),
    band(1, 1),
    band(2, 1),
    band(0, 2),
    spec(
        linear_systems.banded_solve_p,
        solve_positive,
        [positive_band],
        id="banded_solve-positive",
        reference=lambda ab, b: scipy.linalg.solveh_banded(ab, b),
        **NUMPY,
    ),
    spec(
        matrix_functions.expm,
        matrix_functions.expm,
        [
            normal((3, 3)),
            normal((2, 2, 2)),
            cplx((2, 2)),
            (np.eye(2),),
            (DEFECTIVE,),
            (np.zeros((0, 0)),),
            (np.zeros((0, 2, 2)),),
        ],
        reference=scipy.linalg.expm,
        jax=lambda j: j.scipy.linalg.expm,
        **NUMPY,
    ),
    spec(
        matrix_functions.expm_linear,
        matrix_functions.expm_linear,
        [normal((3, 3), (3, 3)), normal((2, 2, 2), (2, 2, 2)), cplx((2, 2), (2, 2)), (np.eye(2), np.ones((2, 2)))],
        jax=lambda j: lambda a, e: j.jvp(j.scipy.linalg.expm, (a,), (e,))[1],
        **NUMPY,
    ),
    spec(
        matrix_functions.logm,
        matrix_functions.logm,
        [spread, cplx((2, 2), shift=4.0), (2 * np.eye(2),), (DEFECTIVE,), lambda rng: (np.stack([spread(rng)[0]] * 2),)],
        tolerance=1e-5,
        **NUMPY,
    ),
    spec(
        matrix_functions.logm_linear,
        matrix_functions.logm_linear,
        [lambda rng: (*spread(rng), rng.normal(size=(3, 3))), cplx((2, 2), (2, 2), shift=4.0)],
        tolerance=1e-5,
        **NUMPY,
    ),
    spec(
        matrix_functions.sqrtm,
        matrix_functions.sqrtm,
        [spread, cplx((2, 2), shift=4.0), (2 * np.eye(2),), (DEFECTIVE,), lambda rng: (np.stack([spread(rng)[0]] * 2),)],
        jax=lambda j: lambda a: j.numpy.vectorize(j.scipy.linalg.sqrtm, signature="(n,n)->(n,n)")(a).astype(a.dtype),
        **NUMPY,
    ),
    spec(
        matrix_functions.sylvester,
        matrix_functions.sylvester,
        [
            normal((3, 3), (2, 2), (3, 2), shift=3.0),
            normal((2, 2, 2), (2, 1, 1), (2, 2, 1), shift=3.0),
            cplx((2, 2), (2, 2), (2, 2), shift=3.0),
            (np.zeros((0, 0)), np.eye(2), np.zeros((0, 2))),
        ],
        **NUMPY,
    ),
    spec(
        matrix_functions.polar_unitary,
        matrix_functions.polar_unitary,
        [
            normal((3, 3), shift=2.0),
            normal((3, 2)),
            cplx((2, 2), shift=2.0),
            cplx((3, 1)),
            normal((2, 2, 2), shift=2.0),
            (2 * np.eye(2),),
        ],
        reference=lambda a: (
            a
            @ np.linalg.inv(np.stack([scipy.linalg.sqrtm(m.conj().T @ m) for m in a.reshape(-1, *a.shape[-2:])])).reshape(
                *a.shape[:-2], a.shape[-1], a.shape[-1]
            )
        ),
        **NUMPY,
    ),
    spec(
        eigen.schur,
        lambda a: eigen.schur(a),
        [spread, lambda rng: (np.stack([spread(rng)[0]] * 2),)],
        tolerance=1e-5,
        **NUMPY,
    ),
    spec(eigen.schur, phases_out, [cplx((3, 3))], id="schur-complex", tolerance=1e-5, dtypes=(), **NUMPY),
    spec(
        eigen.triangular_only_p,
        lambda a: eigen.triangular_only_p(triangle(a, lower=False)),
        [normal((3, 3)), normal((2, 2, 2))],
        reference=np.triu,
        dtypes=("f4",),
    ),
]
