"""Cases of funcad.numpy's products, polynomials, differences and filters."""

import numpy as np

from tests.surface import case

X = np.array([[-1.3, 0.4, 2.1], [0.7, -0.2, 1.6]])
Y = np.array([[0.6, -1.7, 0.9], [1.2, 2.3, -0.5]])
A = np.array([[1.3, 0.4, -0.6], [0.2, 2.1, 0.3], [0.5, -0.7, 1.8]])
V = np.array([0.5, -1.5, 2.5])
U = np.array([1.2, 0.7, -0.4])
C = np.array([[0.5 + 0.3j, -1.2 + 0.8j], [0.9 - 0.4j, 1.5 + 0.2j]])
CV = np.array([0.5 + 0.3j, -1.2 + 0.8j])
T = np.arange(12.0).reshape(2, 2, 3) / 5.0
I = np.array([[3, -4, 7], [1, 2, -6]])
GRID = np.array([0.1, 0.7, 1.9, 3.0])

CASES = [
    case("numpy.dot", X, A),
    case("numpy.dot", V, U),
    case("numpy.dot", T, A),
    case("numpy.dot", 2.0, X),
    case("numpy.dot", C, CV),
    case("numpy.dot", I, I.T.copy()),
    case("numpy.matmul", X, A),
    case("numpy.matmul", T, A),
    case("numpy.matmul", A, V),
    case("numpy.matmul", V, A),
    case("numpy.matmul", C, C),
    case("numpy.vdot", X, Y),
    case("numpy.vdot", CV, CV[::-1].copy()),
    case("numpy.vecdot", X, Y),
    case("numpy.vecdot", C, CV),
    case("numpy.vecdot", T, T * 0.5, kwargs={"axis": 1}),
    case("numpy.matvec", T, V),
    case("numpy.vecmat", V, A),
    case("numpy.inner", X, Y),
    case("numpy.outer", V, U),
    case("numpy.outer", CV, V),
    case("numpy.kron", X, A),
    case("numpy.kron", V, U),
    case("numpy.cross", V, U),
    case("numpy.cross", X, V),
    case("numpy.cross", X.T.copy(), Y.T.copy(), kwargs={"axis": 0}),
    case("numpy.tensordot", T, X, kwargs={"axes": ([2], [1])}),
    case("numpy.tensordot", T, T, 3),
    case("numpy.tensordot", X, A, 1),
    case("numpy.tensordot", V, U, 0),
    case("numpy.einsum", "ij,jk->ik", X, A),
    case("numpy.einsum", "ij,jk,kl->il", X, A, A, kwargs={"optimize": True}, agreement=1e-12),
    case("numpy.einsum", "ij,jk,kl->il", X, A, A, kwargs={"optimize": "optimal"}, agreement=1e-12),
    case("numpy.einsum", "ij,jk,k", X, A, V, kwargs={"optimize": ["einsum_path", (1, 2), (0, 1)]}, agreement=1e-12),
    case("numpy.einsum", "ii", A),
    case("numpy.einsum", "ii->i", A),
    case("numpy.einsum", "...j,j", T, V),
    case("numpy.einsum", "ij->ji", C),
    case("numpy.einsum", "ijk,ijk->", T, T),
    case("numpy.einsum", X, [0, 1], A, [1, 2], [0, 2], static=(1, 3, 4)),
    case("numpy.einsum_path", "ij,jk,kl->il", X, A, A),
    # polynomials
    case("numpy.polyval", V, X),
    case("numpy.polyval", V, 1.5),
    *[case(f"numpy.{n}", V, GRID) for n in "polyadd polysub polymul".split()],
    case("numpy.polyder", GRID),
    case("numpy.polyder", GRID, 2),
    case("numpy.polyint", V),
    case("numpy.polyint", V, 2, [0.5, 1.5]),
    # differences, sums
    case("numpy.diff", X),
    case("numpy.diff", X, kwargs={"n": 2, "axis": 1}),
    case("numpy.diff", X, kwargs={"prepend": 0.5, "append": X[:, :1]}),
    case("numpy.ediff1d", V),
    case("numpy.ediff1d", V, kwargs={"to_begin": 0.5, "to_end": np.array([1.0, 2.0])}),
    case("numpy.gradient", GRID),
    case("numpy.gradient", A),
    case("numpy.gradient", GRID, 0.5),
    case("numpy.gradient", GRID**2, GRID),
    case("numpy.gradient", A, kwargs={"axis": 0, "edge_order": 2}),
    case("numpy.trapezoid", GRID**2),
    case("numpy.trapezoid", GRID**2, GRID),
    case("numpy.trapezoid", X, kwargs={"dx": 0.5, "axis": 0}),
    case("numpy.interp", np.array([0.4, 1.1, 2.7]), GRID, GRID**2),
    case("numpy.interp", np.array([-0.4, 1.1, 3.7]), GRID, GRID**2, kwargs={"left": -1.0, "right": 7.0}),
    case("numpy.interp", np.array([0.4, 1.1, 4.1]), GRID[:-1], GRID[:-1] ** 2, kwargs={"period": 3.0}),
    case("numpy.interp", 1.3, GRID, np.exp(1j * GRID)),
    *[case("numpy.convolve", GRID, U, mode) for mode in ("full", "same", "valid")],
    *[case("numpy.correlate", GRID, U, mode) for mode in ("full", "same", "valid")],
    case("numpy.correlate", CV, CV[::-1].copy(), "full"),
    case("numpy.convolve", CV, V),
]
