"""Cases of funcad.scipy.linalg."""

import inspect

import numpy as np
import scipy.linalg

from tests.surface import case

A = np.array([[2.3, 0.4, -0.6], [0.2, 2.1, 0.3], [0.5, -0.7, 1.8]])
C = A + 1j * np.array([[0.3, -0.8, 0.1], [0.5, 0.2, -0.4], [-0.2, 0.6, 0.9]])
S = A @ A.T / 2 + np.diag([0.5, 1.0, 2.0])
H = C @ C.conj().T / 2 + np.diag([0.5, 1.0, 2.0])
STACK = np.stack([A, A.T + np.diag([0.5, 0.0, 1.0])])
S_STACK = np.stack([S, S + 0.3 * np.eye(3)])
TALL = np.array([[1.2, -0.7], [0.4, 2.1], [-0.9, 0.3], [0.6, 1.1]])
WIDE = TALL.T.copy()
B = np.array([[0.6, -1.7], [0.9, 1.2], [2.3, -0.5]])
V = np.array([0.5, -1.5, 2.5])
CV = np.array([0.5 + 0.3j, -1.2 + 0.8j, 0.7 - 0.4j])
REAL = np.array([[1.0, 0.3, -0.2], [0.4, 2.5, 0.1], [0.2, -0.3, 4.0]])  # real eigenvalues, apart
BAND = np.array([[0.0, 0.4, -0.6, 0.3], [4.1, 5.0, 4.5, 6.0], [0.5, -0.7, 0.8, 0.0]])
RHS = np.array([[0.6, -1.7], [0.9, 1.2], [2.3, -0.5], [0.1, 0.7]])
EMPTY = np.zeros((0, 0))
LOOSE = 1e-5
NO_CUPY = {"cupy": "CuPy has no such function"}
LOGM = {**NO_CUPY, "dtype": "SciPy measures logm's error by double precision, and warns"}


def of(name, *args, **fields):
    """Composed of other operations than SciPy's: the same up to rounding."""
    return case(f"scipy.linalg.{name}", *args, **{"agreement": 1e-10, "tolerance": LOOSE, **fields})


def hermitian(f, a, *args, **kwargs):
    """SciPy reads one triangle and gradients are Hermitian: in Hermitian directions both mean the same."""
    return f((a + np.conj(np.swapaxes(a, -1, -2))) / 2, *args, **kwargs)


def hermitian_pair(f, a, b, **kwargs):
    return hermitian(lambda x: hermitian(lambda y: f(x, y, **kwargs), b), a)


def columns(v):
    """Eigenvectors without their phases."""
    return v * np.conj(v[..., :1, :])


def eigen(out):
    w, v = out
    return w, columns(v)


def sorted_values(w):
    return np.sort(np.real(w), axis=-1), np.sum(w * w, axis=-1)


def dagger(x):
    return np.conj(np.swapaxes(x, -1, -2))


def singular(out):
    u, s, vh = out
    k = s.shape[-1]
    first, v = u[..., :k], dagger(vh)
    rest = [x[..., k:] @ dagger(x[..., k:]) for x in (u, v) if x.shape[-1] > k]
    return [columns(first), s, v[..., :k] * np.conj(first[..., :1, :]), *rest]


def factors(out):
    q, r = out
    k = min(q.shape[-2], r.shape[-1])
    first, turn = q[..., :k], q[..., :1, :k]
    return [first * np.conj(turn), r[..., :k, :] * turn.swapaxes(-1, -2), q[..., k:] @ dagger(q[..., k:])]


def rq_factors(out):
    r, q = out
    return [np.abs(r) ** 2, np.abs(q) ** 2, r @ q]


def schur_parts(out):
    t, z = out
    return [np.real(t * np.conj(t)), np.real(z * np.conj(z)), np.diagonal(t, axis1=-2, axis2=-1)]


def cho_factored(lower):
    def call(solve, a, b, **kwargs):
        c, low = case_function("cho_factor", solve)(hermitian(lambda s: s, a), lower)
        return solve((c, low), b, **kwargs)

    return call


def lu_factored(solve, a, b, **kwargs):
    return solve(case_function("lu_factor", solve)(a), b, **kwargs)


def banded_factor(lower):
    return lambda solve, cb, b: solve((cb, lower), b)


def case_function(name, beside):
    """The function that belongs to another: SciPy's to SciPy's, funcad's to funcad's."""
    import funcad.scipy.linalg as own

    return getattr(scipy.linalg if getattr(beside, "__module__", "").startswith("scipy") else own, name)


SOLVE = [
    of("solve", a, b, kwargs={"assume_a": kind, **more}, missing=NO_CUPY if kind == "tridiagonal" else {})
    for kind, a, more in [
        ("gen", A, {}), ("general", C, {}), (None, A, {"transposed": True}), ("sym", A, {}), ("sym", C, {"lower": True}),
        ("symmetric", A, {"lower": True}), ("her", C, {}), ("hermitian", C, {"lower": True}), ("pos", S, {}),
        ("positive definite", H, {"lower": True}), ("diagonal", A, {}), ("tridiagonal", A, {}), ("banded", A, {}),
        ("upper triangular", A, {}), ("lower triangular", A, {}),
    ]
    for b in ([V] if kind in ("general", "symmetric", "hermitian") else [B])
]  # fmt: skip

ASSUMING = [  # an option of SciPy 1.17
    of("inv", S, kwargs={"assume_a": "pos"}, reference=lambda a, **k: np.linalg.inv(np.triu(a) + np.triu(a, 1).T))
    for _ in range("assume_a" in inspect.signature(scipy.linalg.inv).parameters)
]
CASES = [
    *SOLVE,
    of("solve", STACK, B),
    of("solve", A, np.stack([B, B + 1.0])),
    of("solve", EMPTY, np.zeros((0, 2))),
    of("inv", A),
    of("inv", C),
    of("inv", STACK),
    *ASSUMING,
    of("det", A),
    of("det", C),
    of("det", STACK),
    of("cholesky", S, call=hermitian),
    of("cholesky", H, call=hermitian, kwargs={"lower": True}),
    of("cholesky", S_STACK, call=hermitian),
    of("cho_factor", S, call=hermitian, gauge=lambda out: np.triu(out[0])),
    of("cho_factor", H, call=hermitian, kwargs={"lower": True}, gauge=lambda out: np.tril(out[0])),
    of("cho_solve", S, V, call=cho_factored(True)),
    of("cho_solve", H, B, call=cho_factored(False)),
    of("cho_solve", S_STACK, B, call=cho_factored(True), reference=lambda a, b: np.linalg.solve(a, b)),
    of("lu_factor", A),
    of("lu_factor", C),
    of("lu_solve", A, V, call=lu_factored),
    of("lu_solve", A, B, call=lu_factored, kwargs={"trans": 1}),
    of("lu_solve", C, B, call=lu_factored, kwargs={"trans": 2}),
    of("lu", A),
    of("lu", A[::-1].copy(), kwargs={"permute_l": True}),
    of("lu", C[::-1].copy(), kwargs={"p_indices": True}),
    of("lu", TALL),
    of("lu", WIDE),
    of("lu", STACK),
    *[
        of("solve_triangular", a, b, kwargs=dict(trans=trans, lower=lower, unit_diagonal=unit))
        for a, b, trans, lower, unit in [
            (A, V, 0, False, False), (A, B, 1, False, False), (A, B, 0, True, False), (A, B, "T", True, True),
            (C, B, "C", False, False), (C, CV, 2, True, False), (STACK, B, 0, True, False),
        ]
    ],
    of("solve_banded", (1, 1), BAND, RHS, nondiff=(0,), missing=NO_CUPY),
    of("solve_banded", (1, 1), BAND, RHS[:, 0], nondiff=(0,), missing=NO_CUPY),
    of("solve_banded", (2, 0), BAND[[1, 0, 2]] + 1j * BAND, RHS, nondiff=(0,), missing=NO_CUPY),
    of("solveh_banded", BAND[:2], RHS, missing=NO_CUPY),
    of("solveh_banded", BAND[1:] + 0.2j * np.array([[0.0], [1.0]]), RHS, kwargs={"lower": True}, missing=NO_CUPY),
    of("cholesky_banded", BAND[:2]),
    of("cholesky_banded", BAND[1:] + 0.2j * np.array([[0.0], [1.0]]), kwargs={"lower": True}),
    of("cho_solve_banded", BAND[:2], RHS, call=banded_factor(False), missing=NO_CUPY),
    of("cho_solve_banded", BAND[1:] + 0.2j * BAND[[0, 2]], RHS[:, 0], call=banded_factor(True), missing=NO_CUPY),
    of("eig_banded", BAND[:2], gauge=eigen),
    of("eig_banded", BAND[1:], kwargs={"lower": True, "select": "i", "select_range": (1, 2)}, gauge=eigen),
    of("eigvals_banded", BAND[:2]),
    of("solve_toeplitz", np.array([3.0, 0.5, -0.4]), B),
    of("solve_toeplitz", (np.array([3.0, 0.5, -0.4]), np.array([9.0, 0.2, 0.1])), V),
    of("solve_circulant", np.array([3.0, 0.5, -0.4]), V),
    of("solve_circulant", np.array([3.0, 0.5, -0.4]), B),
    of("solve_circulant", np.array([[3.0, 0.5, -0.4], [5.0, 0.1, 0.2]]), B[:, :2], kwargs={"outaxis": -1}),
    of("qr_multiply", A, V),
    of("qr_multiply", A, B, kwargs={"mode": "left"}),
    of("toeplitz", V),
    of("toeplitz", V, np.array([1.0, 2.0])),
    of("toeplitz", CV),
    of("hankel", V),
    of("hankel", V, np.array([1.0, 2.0])),
    of("circulant", V),
    of("circulant", B.T.copy()),
    of("companion", V),
    of("leslie", V, np.array([0.3, 0.6])),
    of("fiedler", V),
    of("convolution_matrix", V, 4),
    of("convolution_matrix", V, 4, "same"),
    of("convolution_matrix", V, 2, "valid"),
    of("khatri_rao", TALL, WIDE.T[:2]),
    of("block_diag", A, V, B),
    of("block_diag", A, 2.0, missing={"cupy": "a traced number is a NumPy scalar, made a matrix it stays on the CPU"}),
    of("block_diag", STACK, STACK[:, :2, :1]),
    of("expm", A),
    of("expm", C),
    of("expm", STACK),
    of("expm", np.eye(2)),
    of("expm", EMPTY),
    of("expm_frechet", A, B @ B.T),
    of("expm_frechet", A, S, kwargs={"compute_expm": False}),
    of("sqrtm", S, missing=NO_CUPY),
    of("sqrtm", C, missing=NO_CUPY),
    of("sqrtm", S_STACK, missing=NO_CUPY),
    of("sqrtm", 2 * np.eye(2), missing=NO_CUPY),
    of("logm", S, missing=LOGM),
    of("logm", C, missing=LOGM),
    of("logm", 2 * np.eye(2), missing=LOGM),
    of("fractional_matrix_power", S, 0.3, missing=LOGM),
    of("fractional_matrix_power", S, -2),
    *[of(name, a) for name in ("cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm") for a in (0.5 * A, 0.3 * C)],
    of("solve_sylvester", A, B[:2], RHS[:3], missing=NO_CUPY),
    of("solve_sylvester", C, C[:2, :2], RHS[:3] + 0j, missing=NO_CUPY),
    of("solve_continuous_lyapunov", A, S, missing=NO_CUPY),
    of("solve_lyapunov", C, H, missing=NO_CUPY),
    of("solve_discrete_lyapunov", 0.3 * A, S),
    of("solve_discrete_lyapunov", 0.3 * C, H),
    of("solve_discrete_lyapunov", 0.3 * A, S, "bilinear", missing=NO_CUPY),
    of("eigh", S, call=hermitian, gauge=eigen),
    of("eigh", H, call=hermitian, gauge=eigen),
    of("eigh", S, call=hermitian, kwargs={"eigvals_only": True, "subset_by_index": [1, 2]}),
    *[
        of("eigh", S, A @ A.T + np.eye(3), call=hermitian_pair, kwargs={"type": kind, "lower": kind != 2}, gauge=eigen)
        for kind in (1, 2, 3)
    ],
    of("eigh", H, S, call=hermitian_pair, gauge=eigen),
    of("eigvalsh", S, call=hermitian),
    of("eigvalsh", H, S, call=hermitian_pair),
    of("eig", REAL, gauge=lambda out: (out[0], np.real(columns(out[1]) * np.conj(columns(out[1]))))),
    of("eig", C, gauge=lambda out: (out[0], np.real(columns(out[1]) * np.conj(columns(out[1]))))),
    of("eigvals", REAL),
    of("eigvals", C),
    of("eigh_tridiagonal", V, np.array([0.7, -0.4]), gauge=eigen),
    of("eigh_tridiagonal", V, np.array([0.7, -0.4]), kwargs={"eigvals_only": True, "select": "i", "select_range": (0, 1)}),
    of("eigvalsh_tridiagonal", V, np.array([0.7, -0.4])),
    of("svd", A, gauge=singular),
    of("svd", TALL, kwargs={"full_matrices": False}, gauge=singular),
    of("svd", TALL, gauge=singular),
    of("svd", C, gauge=singular),
    of("svd", TALL, kwargs={"compute_uv": False}),
    of("svdvals", TALL),
    of("qr", A, gauge=factors),
    of("qr", TALL, gauge=factors),
    of("qr", TALL, kwargs={"mode": "economic"}, gauge=factors),
    of("qr", WIDE, kwargs={"mode": "r"}, gauge=lambda out: np.abs(out[0]) ** 2),
    of("qr", C, gauge=factors),
    of("rq", A, gauge=rq_factors),
    of("rq", WIDE, kwargs={"mode": "economic"}, gauge=rq_factors),
    of("rq", C, kwargs={"mode": "r"}, gauge=lambda r: np.abs(r) ** 2),
    of("schur", REAL, gauge=schur_parts, missing=NO_CUPY),
    of("schur", C, gauge=schur_parts, missing=NO_CUPY),
    of("schur", A, kwargs={"output": "complex"}, gauge=schur_parts, missing=NO_CUPY),
    of("polar", A, missing=NO_CUPY),
    of("polar", TALL, "left", missing=NO_CUPY, reference=lambda a, side: scipy.linalg.polar(a, side)),
    of("polar", WIDE, missing=NO_CUPY),
    of("polar", C, "left", missing=NO_CUPY),
    of("polar", 2 * np.eye(2), missing=NO_CUPY),
    of("orthogonal_procrustes", TALL, RHS, missing=NO_CUPY),
    of("pinv", TALL),
    of("pinv", C),
    of("pinvh", S),
    of("norm", V, missing={"dtype": "of float32 vectors SciPy gives float64, traced the dtype stays"}),
    of("norm", A, "fro"),
    of("norm", A, 2),
    of("norm", TALL, 1, 0, True),
    of("lstsq", TALL, RHS, gauge=lambda out: out[0]),
    of("lstsq", TALL, RHS[:, 0], gauge=lambda out: out[0]),
    *[
        case(f"scipy.linalg.{name}", n)
        for name, n in [
            *[("dft", 3), ("hadamard", 4), ("helmert", 4), ("hilbert", 3), ("invhilbert", 3), ("invpascal", 3), ("pascal", 3)]
        ]
    ],
]  # fmt: skip
RICCATI = (np.array([[0.4, 1.1], [-0.3, 0.7]]), np.array([[0.2], [1.0]]), np.eye(2), np.array([[1.5]]))
HOST = {"cupy": "SciPy's solver runs on the CPU", "dtype": "computed in double precision"}
CASES += [
    case("scipy.linalg.solve_continuous_are", *RICCATI[:2], agreement=1e-9, missing=HOST,
         call=lambda f, a, b: f(a, b, *RICCATI[2:])),
    case("scipy.linalg.solve_discrete_are", *RICCATI[:2], agreement=1e-9, missing=HOST,
         call=lambda f, a, b: f(a, b, *RICCATI[2:])),
    case("scipy.linalg.null_space", np.array([[0.4, 1.1, -0.6]]), agreement=1e-9, missing=HOST,
         call=lambda f, a: (lambda n: n @ n.T)(f(a))),
    case("scipy.linalg.orth", np.array([[0.4], [1.1], [-0.6]]), agreement=1e-9),
]  # fmt: skip
