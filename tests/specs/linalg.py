"""Linear algebra: funcad/primitives/{linalg,spectral,eigen,factorizations,matrix_function}.py."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from funcad.primitives import eigen as e
from funcad.primitives import eigen as sp
from funcad.primitives import factorizations as f
from funcad.primitives import linear_systems as la
from funcad.primitives import matrix_functions as mf
from funcad.primitives.conversion import stop_gradient
from tests.specs import spec

KINDS = ("f4", "c16")
ON_CPU = ("numpy",)  # the stand-in has no scipy.linalg


def normal(*shapes):
    return lambda rng: tuple(rng.normal(size=s) for s in shapes)


def cplx(*shapes):
    return lambda rng: tuple(rng.normal(size=s) + 1j * rng.normal(size=s) for s in shapes)


def both(*shapes):
    return [normal(*shapes), cplx(*shapes)]


def regular(*shape, seed=0):
    """Well-conditioned matrices."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) + 2.5 * np.eye(*shape[-2:])


def dagger(x):
    return np.conj(np.swapaxes(x, -1, -2))


def definite(*shape, seed=0):
    a = regular(*shape, seed=seed)
    return a @ dagger(a) / 2 + np.eye(shape[-1])


C3 = regular(3, 3, seed=5) + 1j * np.random.default_rng(6).normal(size=(3, 3))
H3 = C3 @ dagger(C3) / 4 + np.diag([1.0, 2.0, 3.0])
SQUARE = [(regular(3, 3),), (regular(2, 2, 2),), (C3,), (np.zeros((0, 0)),)]
SINGULAR = [(np.array([[1.0, 2.0, 0.5], [2.0, 4.0, 1.0], [0.3, -1.0, 0.7]]),), (np.zeros((3, 3)),)]
TALL = [normal((4, 2)), normal((2, 3, 2)), cplx((3, 2))]
WIDE = [normal((2, 4)), cplx((2, 3))]


def symmetric(function):
    """A function of one triangle as one of the Hermitian part: its steps in every direction are then those of its rule."""
    return lambda a, **params: function(la.hermitian_part(a), **params)


def anchored(vectors):
    """Columns, free of their phase."""
    return vectors * np.conj(vectors[..., :1, :]) if vectors.shape[-2] else vectors


def eigh_anchored(a, *, lower):
    w, v = e.eigh(la.hermitian_part(a), lower=lower)
    return [w, anchored(v)]


def svd_anchored(a, *, full_matrices):
    """What does not depend on the phases of pairs of vectors, nor on a turn of those beyond them."""
    u, s, vh = e.svd(a, full_matrices=full_matrices)
    k = s.shape[-1]
    first, v = u[..., :k], dagger(vh)
    rest = [x[..., k:] @ dagger(x[..., k:]) for x in (u, v) if full_matrices and x.shape[-1] > k]
    return [anchored(first), s, v[..., :k] * np.conj(first[..., :1, :]), *rest]


def hermitian_pinv(a, rcond, *, hermitian):
    return f.pinv(la.hermitian_part(a), rcond, hermitian=hermitian)


def hermitian_stein(left, right, r):
    return f.stein(la.hermitian_part(left), la.hermitian_part(right), r)


def jax_sym(j, a):
    return (a + j.numpy.conj(j.numpy.swapaxes(a, -1, -2))) / 2


def powers(order, x):
    """x**3 and its derivatives."""
    factor = [1.0, 3.0, 6.0, 6.0, 0.0][min(order, 4)]
    return factor * x ** max(3 - order, 0) if order < 3 else 0.0 * x + factor


GAPS = np.array([[0.0, 1.5, -0.7], [-1.5, 0.0, 2.0], [0.7, -2.0, 0.0]])
CUT = np.float64(1e-12)

SPECS = [
    *[
        spec(la.triangle_p, la.triangle, [*both((3, 3)), normal((2, 2, 3)), normal((3, 2))], params=params, dtypes=KINDS)
        for params in ({"lower": True, "diagonal": 1.0}, {"lower": False, "diagonal": 0.5}, {"lower": True, "diagonal": 0.0})
    ],
    *[
        spec(la.triangular_inverse_p, la.triangular_inverse, SQUARE, params={"lower": lower}, dtypes=KINDS, tolerance=1e-5)
        for lower in (True, False)
    ],
    spec(
        la.solve,
        la.solve,
        [
            (regular(3, 3), np.ones((3, 2))),
            (regular(2, 2, 2), regular(2, 2, 2, seed=3)),
            (C3, H3),
            (np.ones((0, 0)), np.ones((0, 2))),
        ],
        reference=np.linalg.solve,
        jax=lambda j: j.numpy.linalg.solve,
        dtypes=KINDS,
    ),
    spec(la.inv_p, la.inv, SQUARE, reference=np.linalg.inv, jax=lambda j: j.numpy.linalg.inv, dtypes=KINDS),
    spec(la.inv_p, la.inv, SQUARE, params={"strict": False}, reference=np.linalg.inv, dtypes=KINDS),
    spec(la.det, la.det, SQUARE[:3], reference=np.linalg.det, jax=lambda j: j.numpy.linalg.det, dtypes=KINDS),
    spec(la.det, la.det, SQUARE[3:], reference=np.linalg.det),  # JAX raises for matrices of size 0
    spec(la.det, la.det, SINGULAR, reference=np.linalg.det, dtypes=("f4",)),
    spec(la.adjugate, la.adjugate, SQUARE, dtypes=KINDS),
    spec(la.adjugate, la.adjugate, SINGULAR, order=1, dtypes=()),  # the third derivative of det needs regular matrices
    spec(
        la.adjugate_linear,
        la.adjugate_linear,
        [(regular(4, 4, seed=1), regular(4, 4)), (regular(2, 2, 2), regular(2, 2, 2, seed=4))],
        dtypes=KINDS,
    ),
    spec(
        la.slogdet,
        la.slogdet,
        SQUARE,
        reference=np.linalg.slogdet,
        jax=lambda j: lambda a: list(j.numpy.linalg.slogdet(a)),
        dtypes=KINDS,
    ),
    spec(la.log_abs_det_p, la.log_abs_det_p, [(regular(3, 3),), (regular(2, 2, 2),)], dtypes=("f4",),
         reference=lambda a: np.linalg.slogdet(a)[1]),
    spec(
        la.cholesky,
        symmetric(la.cholesky),
        [(definite(3, 3),), (definite(2, 2, 2),), (H3,), (np.zeros((0, 0)),)],
        reference=np.linalg.cholesky,
        jax=lambda j: j.numpy.linalg.cholesky,
        dtypes=KINDS,
    ),
    # products and quotients
    spec(
        sp.careful_mul,
        sp.careful_mul,
        [normal((2, 3), (2, 3)), cplx((3,), (3,)), normal((), ())],
        reference=np.multiply,
        dtypes=KINDS,
    ),
    spec(sp.outer_sum, sp.outer_sum, [*both((3, 2), (2,), (4, 2)), normal((2, 1, 3), (2, 3), (2, 2, 3))], dtypes=KINDS),
    spec(
        sp.inner_diagonal,
        sp.inner_diagonal,
        [*both((3, 2), (3, 4), (4, 2)), normal((2, 2, 2), (2, 2, 1), (2, 1, 2))],
        dtypes=KINDS,
    ),
    spec(
        sp.gap_p,
        lambda m, gap: sp.gap_quotient(m, gap),
        [(regular(3, 3), GAPS), (C3, GAPS + 0j)],
        nondiff=(1,),
        dtypes=("f4",),
    ),
    spec(
        sp.gap_p,
        lambda m, gap: sp.gap_quotient(m, gap, diagonal=True),
        [(regular(3, 2), regular(3, 2, seed=7))],
        dtypes=("f4",),
    ),
    # eigenvalues and singular values
    *[
        spec(
            e.eigh_p,
            eigh_anchored,
            [(definite(3, 3),), (definite(2, 2, 2),), (H3,), (np.zeros((0, 0)),)],
            params={"lower": lower},
            dtypes=("f4",),
            tolerance=1e-5,
        )
        for lower in (True, False)
    ],
    *[
        spec(
            e.eigvalsh_p,
            symmetric(e.eigvalsh),
            [(definite(3, 3),), (definite(2, 2, 2),), (H3,), (np.zeros((0, 0)),)],
            params={"lower": lower},
            reference=np.linalg.eigvalsh,
            jax=(lambda j: j.numpy.linalg.eigvalsh) if lower else None,
            dtypes=("f4",),
            tolerance=1e-5,
        )
        for lower in (True, False)
    ],
    spec(
        e.eig,
        lambda a: e.eig(a),
        [(np.array([[1.0, 2.0, 0.3], [-1.5, 0.5, 0.7], [0.2, -0.4, 3.0]]),), (C3,), (np.zeros((0, 0)),)],
        tolerance=1e-5,
        dtypes=("f4",),
    ),
    *[
        spec(e.svd_p, svd_anchored, [*SQUARE, *TALL, *WIDE], params={"full_matrices": full}, dtypes=("f4",), tolerance=1e-5)
        for full in (False, True)
    ],
    *[
        spec(
            e.svdvals_p,
            e.svdvals,
            [*SQUARE, *TALL, *WIDE],
            params={"strict": strict},
            reference=lambda a: np.linalg.svd(a, compute_uv=False),
            dtypes=("f4",),
            tolerance=1e-5,
        )
        for strict in (True, False)
    ],
    # factorizations
    *[
        spec(f.qr_p, f.qr, [*SQUARE, *TALL, *WIDE], params={"full": full}, dtypes=("f4",), tolerance=1e-5)
        for full in (False, True)
    ],
    spec(f.qr_raw, f.qr_raw, [*SQUARE[:1], *TALL, *WIDE], order=0, dtypes=KINDS),
    spec(
        f.lu,
        f.lu,
        [*SQUARE, *TALL, *WIDE],
        reference=lambda a: _lu_of_scipy(a),
        dtypes=("f4",),
        tolerance=1e-5,
        backends=ON_CPU,
    ),
    *[
        spec(
            f.factored_solve_p,
            lambda a, b, transposed: f.factored_solve_p(a, b, *f.lu(stop_gradient(a))[:2], transposed=transposed),
            [
                (regular(3, 3), np.ones((3, 2))),
                (regular(2, 2, 2), regular(2, 2, 1, seed=3)),
                (C3, H3),
                (np.ones((0, 0)), np.ones((0, 2))),
            ],
            params={"transposed": transposed},
            reference=lambda a, b, t=transposed: np.linalg.solve(np.swapaxes(a, -1, -2) if t else a, b),
            dtypes=KINDS,
            backends=ON_CPU,
        )
        for transposed in (False, True)
    ],
    spec(f.one_minus_p, f.one_minus_p, [*SQUARE[:3], *TALL], reference=lambda x: np.eye(*x.shape[-2:]) - x, dtypes=KINDS),
    spec(f.unit_lower, f.unit_lower, SQUARE[:3], dtypes=KINDS),
    spec(
        f.pinv_p,
        f.pinv,
        [(regular(3, 3), CUT), (regular(2, 3, 2), np.full(2, 1e-12)), (C3[:2], CUT), (np.zeros((0, 2)), CUT)],
        nondiff=(1,),
        reference=lambda a, cut: np.linalg.pinv(a, cut),
        dtypes=(),
        tolerance=1e-5,
    ),
    spec(
        f.pinv_p,
        hermitian_pinv,
        [(definite(3, 3), CUT), (H3, CUT)],
        nondiff=(1,),
        params={"hermitian": True},
        dtypes=(),
        tolerance=1e-5,
    ),
    spec(
        f.stein,
        hermitian_stein,
        [
            (H3 / 4, dagger(C3[:2, :2]) @ C3[:2, :2] / 60, C3[:, :2]),
            (definite(3, 3) / 20, definite(3, 3, seed=2) / 20, regular(3, 3)),
            (definite(2, 2, 2) / 20, definite(2, 2, 2, seed=2) / 20, regular(2, 2, 2)),
            (np.zeros((2, 2)), np.eye(2), regular(2, 2)),
        ],
        dtypes=(),
        tolerance=1e-5,
    ),
    spec(
        f.lstsq,
        f.lstsq,
        [
            (regular(4, 2), regular(4, 3, seed=1)),
            (regular(2, 3), regular(2, 1, seed=1)),
            (regular(2, 3, 2), regular(2, 3, 1, seed=1)),
            (C3, H3),
        ],
        params={"rcond": 1e-12},
        dtypes=("f4",),
        tolerance=1e-5,
    ),
    spec(f.polar, f.polar, [*SQUARE, *TALL, *WIDE], dtypes=("f4",), tolerance=1e-5),
    spec(
        f.nuclear_norm_p,
        f.nuclear_norm,
        [*SQUARE, *TALL, *WIDE, (2 * np.eye(3, 2),)],
        params={"strict": False},
        reference=lambda a: np.linalg.svd(a, compute_uv=False).sum(-1),
        dtypes=("f4",),
        tolerance=1e-5,
    ),
    # functions of Hermitian matrices
    spec(
        mf.spectral_p,
        symmetric(lambda a: mf.symmetric_function(a, powers)),
        [(definite(3, 3),), (np.eye(3),), (np.diag([2.0, 2.0, 1.0]),), (H3,), (definite(2, 2, 2),)],
        dtypes=("f4",),
        tolerance=1e-5,
    ),
]


def _lu_of_scipy(a):
    if a.ndim > 2 or not a.size:
        return f.lu(a)
    factors, pivots = scipy.linalg.lu_factor(a)
    order = np.arange(a.shape[0])
    for i, p in enumerate(pivots):
        order[[i, p]] = order[[p, i]]
    return factors, pivots, order
