"""Cases of funcad.numpy.linalg, and of the polynomials that need it."""

import numpy as np

from tests.surface import case

A = np.array([[2.3, 0.4, -0.6], [0.2, 2.1, 0.3], [0.5, -0.7, 1.8]])
C = A + 1j * np.array([[0.3, -0.8, 0.1], [0.5, 0.2, -0.4], [-0.2, 0.6, 0.9]])
S = (A + A.T) / 2 + np.diag([0.0, 1.0, 2.0])
H = (C + C.conj().T) / 2 + np.diag([0.0, 1.0, 2.0])
STACK = np.stack([A, A.T + np.diag([0.5, 0.0, 1.0])])
SYMMETRIC = np.stack([S, S + 0.3 * np.eye(3)])
TALL = np.array([[1.2, -0.7], [0.4, 2.1], [-0.9, 0.3], [0.6, 1.1]])
WIDE = TALL.T.copy()
ROTATION = np.array([[0.7, -1.2, 0.1], [1.1, 0.4, 0.3], [-0.2, 0.5, 2.0]])  # a pair of complex eigenvalues
SINGULAR = np.array([[1.0, 2.0, 0.5], [2.0, 4.0, 1.0], [0.3, -1.0, 0.7]])
B = np.array([[0.6, -1.7], [0.9, 1.2], [2.3, -0.5]])
V = np.array([0.5, -1.5, 2.5])
CV = np.array([0.5 + 0.3j, -1.2 + 0.8j, 0.7 - 0.4j])
INTS = np.array([[3, 1, 0], [1, 4, 2], [0, 2, 5]])
EMPTY = np.zeros((0, 0))
LOOSE = 1e-5
TIMES = np.array([0.0, 0.7, 1.4, 2.2, 3.1])
DATA = np.array([1.0, 0.4, -0.3, 0.8, 2.0])


def hermitian(f, a, *args, **kwargs):
    """NumPy reads one triangle and gradients are Hermitian: in Hermitian directions both mean the same."""
    return f((a + np.conj(np.swapaxes(a, -1, -2))) / 2, *args, **kwargs)


def columns(v):
    """Eigenvectors without their phases."""
    return v * np.conj(v[..., :1, :])


def dagger(x):
    return np.conj(np.swapaxes(x, -1, -2))


def pairs(out):
    """A singular value decomposition without its phases."""
    u, s, vh = out
    k = s.shape[-1]
    first, v = u[..., :k], dagger(vh)
    rest = [x[..., k:] @ dagger(x[..., k:]) for x in (u, v) if x.shape[-1] > k]
    return [columns(first), s, v[..., :k] * np.conj(first[..., :1, :]), *rest]


def close(name, *args, **fields):
    """Results of the same formula by another sequence of roundings."""
    return case(f"numpy.linalg.{name}", *args, **{"agreement": 1e-11, "tolerance": LOOSE, **fields})


def of_eigenvalues(a, f):
    w, v = np.linalg.eigh(a)
    return (v * f(w)[..., None, :]) @ dagger(v)


def norms(x, orders, **kwargs):
    return [close("norm", x, kwargs={"ord": p, **kwargs}) for p in orders]


CASES = [
    close("solve", A, V),
    close("solve", A, B),
    close("solve", C, CV),
    close("solve", A, CV),
    close("solve", STACK, B),
    close("solve", A, np.stack([B, B[::-1]])),
    close("solve", STACK, V),
    close("solve", STACK[:, None], np.stack([B, B[::-1]])),
    close("solve", INTS, V),
    close("solve", EMPTY, np.zeros((0, 2))),
    close("inv", A),
    close("inv", C),
    close("inv", STACK),
    close("inv", INTS),
    close("inv", EMPTY),
    close("inv", np.array([[2.0]])),
    close("det", A),
    close("det", C),
    close("det", STACK),
    close("det", SINGULAR),
    close("det", np.zeros((3, 3))),
    close("det", EMPTY),
    close("det", np.array([[2.0]])),
    close("det", INTS),
    close("slogdet", A),
    close("slogdet", C),
    close("slogdet", STACK),
    close("slogdet", -A),
    close("cholesky", S, call=hermitian),
    close("cholesky", H, call=hermitian),
    close("cholesky", SYMMETRIC, call=hermitian, kwargs={"upper": True}),
    close("cholesky", H, call=hermitian, kwargs={"upper": True}),
    close("qr", A),
    close("qr", TALL),
    close("qr", WIDE),
    close("qr", C),
    close("qr", STACK),
    close("qr", TALL, kwargs={"mode": "r"}),
    close("qr", TALL, kwargs={"mode": "complete"}),
    close("qr", TALL[:, :1] * (1 + 0.5j), kwargs={"mode": "complete"}),
    close("qr", STACK[:, :, :2], kwargs={"mode": "complete"}),
    close("qr", WIDE, kwargs={"mode": "complete"}),
    close("qr", TALL, kwargs={"mode": "raw"}, order=0),
    close("qr", STACK, kwargs={"mode": "raw"}, order=0),
    close("eigh", S, call=hermitian, gauge=lambda out: [out[0], columns(out[1])]),
    close("eigh", H, call=hermitian, gauge=lambda out: [out.eigenvalues, columns(out.eigenvectors)]),
    close("eigh", SYMMETRIC, "U", call=hermitian, gauge=lambda out: [out[0], columns(out[1])]),
    close("eigvalsh", S, call=hermitian),
    close("eigvalsh", H, kwargs={"UPLO": "U"}, call=hermitian),
    close("eigvalsh", SYMMETRIC, call=hermitian),
    close("eig", ROTATION),
    close("eig", C),
    close("eig", np.stack([ROTATION, ROTATION.T])),
    close("eigvals", ROTATION),
    close("eigvals", C),
    close("svd", A, gauge=pairs),
    close("svd", C, gauge=pairs),
    close("svd", TALL, gauge=pairs),
    close("svd", WIDE, gauge=pairs),
    close("svd", TALL, kwargs={"full_matrices": False}, gauge=pairs),
    close("svd", WIDE, kwargs={"full_matrices": False}, gauge=pairs),
    close("svd", STACK, kwargs={"compute_uv": False}),
    close("svd", S - 3 * np.eye(3), call=hermitian, kwargs={"hermitian": True}, gauge=pairs),
    close("svd", S - 3 * np.eye(3), call=hermitian, kwargs={"hermitian": True, "compute_uv": False}),
    close("svdvals", TALL),
    close("svdvals", C),
    close("pinv", A),
    close("pinv", TALL),
    close("pinv", WIDE),
    close("pinv", C[:2]),
    close("pinv", STACK[:, :2], kwargs={"rcond": np.array([1e-12, 1e-13])}),
    close("pinv", S, call=hermitian, kwargs={"hermitian": True}),
    close("pinv", TALL, kwargs={"rtol": 1e-12}),
    close("pinv", np.zeros((0, 3))),
    close("lstsq", TALL, np.array([0.5, -1.0, 2.0, 0.3]), gauge=lambda out: [out[0], out[1], out[3]]),
    close("lstsq", TALL, TALL[::-1] * 0.7, kwargs={"rcond": 1e-10}, gauge=lambda out: [out[0], out[1], out[2], out[3]]),
    close("lstsq", WIDE, np.array([0.5, -1.0])),
    close("lstsq", C, CV),
    *norms(V, [None, 1, 2, 3, 2.5, 0.5, np.inf, -np.inf, -1, -2]),
    *norms(CV, [None, 1, 2, 3, np.inf, -np.inf]),
    *norms(A, [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf]),
    *norms(C, [None, "fro", "nuc", 1, 2, -2, np.inf]),
    *norms(STACK, [None, "fro", "nuc", 2, -2, 1, np.inf], axis=(2, 0)),
    *norms(STACK, [1, -1, np.inf, -np.inf], axis=(1, 2), keepdims=True),
    *norms(STACK, [None, 1, 3], axis=1, keepdims=True),
    close("norm", V, kwargs={"ord": 0}),
    close("norm", STACK, kwargs={"keepdims": True}),
    close("norm", np.zeros(3)[:0]),
    close("norm", INTS),
    close("vector_norm", STACK),
    close("vector_norm", STACK, kwargs={"axis": (0, 2), "keepdims": True, "ord": 3}),
    close("vector_norm", A, kwargs={"axis": 1, "ord": 1}),
    close("matrix_norm", STACK),
    close("matrix_norm", STACK, kwargs={"ord": "nuc", "keepdims": True}),
    *[close("matrix_power", A, n) for n in (1, 2, 3, 5, -1, -3)],
    close("matrix_power", A, 0),
    close("matrix_power", STACK, 4),
    close("matrix_power", INTS, 3),
    close("matrix_rank", A, order=0),
    close("matrix_rank", SINGULAR, order=0),
    close("matrix_rank", STACK, order=0, kwargs={"rtol": 1e-10}),
    close("matrix_rank", S, order=0, kwargs={"hermitian": True}),
    close("matrix_rank", V, order=0),
    *[close("cond", A, kwargs={"p": p}) for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc")],
    close("cond", C),
    close("cond", STACK),
    close("multi_dot", [A, B, B.T.copy()]),
    close("multi_dot", [V, A, A, V]),
    close("tensorinv", np.arange(36.0).reshape(6, 3, 2) / 10 + np.eye(6).reshape(6, 3, 2) * 4, kwargs={"ind": 1}),
    close("tensorinv", (np.arange(36.0).reshape(6, 6) / 30 + 2 * np.eye(6)).reshape(2, 3, 3, 2)),
    close("tensorsolve", (np.arange(36.0).reshape(6, 6) / 30 + 2 * np.eye(6)).reshape(2, 3, 3, 2), B.T.copy()),
    close(
        "tensorsolve",
        (np.arange(36.0).reshape(6, 6) / 30 + 2 * np.eye(6)).reshape(2, 3, 6).transpose(0, 2, 1).copy(),
        np.arange(6.0),
        kwargs={"axes": (0, 2)},
    ),
    close("trace", STACK),
    close("trace", A, kwargs={"offset": 1}),
    close("diagonal", STACK),
    close("diagonal", A, kwargs={"offset": -1}),
    close("outer", V, CV),
    close("matmul", STACK, B),
    close("tensordot", STACK, B, kwargs={"axes": 1}),
    close("vecdot", CV, CV[::-1].copy()),
    close("vecdot", A, A.T.copy(), kwargs={"axis": 0}),
    close("cross", V, A),
    close("cross", A, S, kwargs={"axis": 0}),
    close("matrix_transpose", STACK),
    # functions of symmetric matrices, at equal eigenvalues too
    *[
        case(
            "scipy.linalg.funm_sym", a, f, call=hermitian, reference=of_eigenvalues, agreement=1e-11, tolerance=LOOSE
        )
        for a in (S, H, SYMMETRIC, np.eye(3), np.diag([2.0, 2.0, 1.0]))
        for f in (np.exp, np.log)
    ],
    # polynomials
    case("numpy.polyfit", TIMES, DATA, 2, agreement=1e-9, tolerance=LOOSE),
    case(
        "numpy.polyfit",
        TIMES,
        np.stack([DATA, DATA[::-1] * 0.3], axis=1),
        1,
        kwargs={"w": np.array([1.0, 2.0, 0.5, 1.0, 1.5]), "full": True},
        agreement=1e-9,
        tolerance=LOOSE,
        gauge=lambda out: [out[0], out[1], out[3]],
    ),
    case(
        "numpy.polyfit",
        TIMES,
        DATA,
        1,
        kwargs={"cov": True},
        agreement=1e-9,
        tolerance=LOOSE,
    ),
    case("numpy.roots", np.array([1.0, -0.4, 1.3, 0.5]), agreement=1e-9, tolerance=LOOSE),
    case("numpy.roots", CV, agreement=1e-9, tolerance=LOOSE),
    case("numpy.poly", V),
    case("numpy.poly", CV),
    case("numpy.poly", A, agreement=1e-9, gauge=np.real),  # complex where values are not known
    case(
        "numpy.polydiv",
        np.array([1.0, -0.4, 1.3, 0.5]),
        np.array([2.0, 0.7]),
        gauge=lambda out: [out[0], out[1][-1:]],  # where values are not known, the remainder keeps its leading zeros
    ),
]
