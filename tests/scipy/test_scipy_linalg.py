"""funcad.scipy.linalg and funcad.scipy.sparse.linalg: what the tables of cases cannot say."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

import funcad.scipy.linalg as linalg
from funcad import grad, hessian, jacfwd, jacrev, jit, jvp, scan, vjp, vmap
from funcad.primitives import matrix_functions
from funcad.scipy.sparse.linalg import bicgstab, cg, gmres
from funcad.testing import check_grads

pytestmark = pytest.mark.share(2)  # of its tables of cases

A = np.array([[2.3, 0.4, -0.6], [0.2, 2.1, 0.3], [0.5, -0.7, 1.8]])
B = np.array([[0.6, -1.7], [0.9, 1.2], [2.3, -0.5]])
S = A @ A.T / 2 + np.eye(3)
ROTATION = np.array([[0.0, -1.0], [1.0, 0.0]])


# -- degenerate eigenvalues


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "f", [linalg.expm, matrix_functions.sqrtm, linalg.logm, lambda a: linalg.polar(a)[0], lambda a: linalg.polar(a)[1]]
)
@pytest.mark.parametrize("a", [2 * np.eye(3), np.diag([2.0, 2.0, 3.0]), np.diag([2.0, 2.0 + 1e-13, 3.0])])
def test_matrix_functions_at_coinciding_eigenvalues(f, a):
    check_grads(f, (a,), order=2)
    assert np.isfinite(hessian(lambda x: np.sum(np.sin(f(x))))(a)).all()


@pytest.mark.parametrize("f", [linalg.expm, linalg.logm, linalg.sqrtm])
def test_matrix_functions_of_defective_matrices(f):
    check_grads(f, (np.array([[2.0, 1.0, 0.0], [0.0, 2.0, 1.0], [0.0, 0.0, 2.0]]),), order=2)


def test_derivative_of_expm_is_expm_frechet():
    value, along = scipy.linalg.expm_frechet(A, B @ B.T)
    out, t = jvp(linalg.expm, (A,), (B @ B.T,))
    np.testing.assert_allclose(out, value, rtol=1e-12)
    np.testing.assert_allclose(t, along, rtol=1e-12)
    third = jacfwd(jacfwd(jacfwd(lambda t: linalg.expm(t * A))))(0.7)
    np.testing.assert_allclose(third, A @ A @ A @ scipy.linalg.expm(0.7 * A), rtol=1e-11)


@pytest.mark.parametrize("size", [1e-150, 1e-9, 1.0, 1e9, 1e150])
def test_size_of_the_direction_makes_no_difference(size):
    for f in (matrix_functions.expm_linear, matrix_functions.logm_linear):
        np.testing.assert_allclose(f(S, size * A) / size, f(S, A), rtol=1e-12)


def test_eigenvectors_of_degenerate_pairs_are_nan_where_used_and_harmless_where_not():
    a = np.diag([1.0, 1.0, 2.0])
    assert np.isfinite(grad(lambda x: np.sum(linalg.eigh(x)[0] ** 2))(a)).all()
    assert np.isnan(grad(lambda x: np.sum(linalg.eigh(x)[1][:, 0] * np.arange(3.0)))(a)).any()
    singular = grad(lambda x: linalg.svd(x, compute_uv=False)[0])(np.diag([2.0, 2.0, 1.0]))
    assert np.isfinite(singular).all()


# -- what raises


def test_real_matrices_without_real_root_or_logarithm():
    a = np.diag([-1.0, 2.0])
    for f in (linalg.sqrtm, linalg.logm):
        known = jvp(f, (a,), (np.ones((2, 2)),))
        for found, expected in zip(known, jvp(f, (a.astype(complex),), (np.ones((2, 2), complex),))):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
        with pytest.raises(ValueError, match=r"astype\(complex\)"):
            scan(lambda carry, x, f=f: (carry, f(x)), 0.0, a[None])
        assert scan(lambda carry, x, f=f: (carry, f(x.astype(complex))), 0.0, a[None])[1].dtype == complex
        np.testing.assert_allclose(jit(f)(np.diag([-1.0, 2.0])), f(np.diag([-1.0, 2.0])))  # which no program can: SciPy's own
        check_grads(f, (np.diag([-1.0, 2.0]) + (0.3 + 0.2j) * np.ones((2, 2)),), order=1)
    assert linalg.sqrtm(np.diag([-1.0, 2.0])).dtype == complex  # untraced: SciPy's own


def spectrum_of(*blocks):
    """A real matrix with these numbers and rotations on the diagonal of a similar one."""
    a = scipy.linalg.block_diag(*blocks)
    turn = np.eye(len(a)) + 0.3 * np.cos(np.arange(len(a) ** 2.0)).reshape(a.shape)
    return turn @ a @ np.linalg.inv(turn)


@pytest.mark.parametrize(
    "f", [linalg.sqrtm, linalg.logm, lambda a: linalg.fractional_matrix_power(a, 0.3)], ids=["sqrtm", "logm", "power"]
)
@pytest.mark.parametrize("blocks", [
    (-0.7, [[-0.9, 1.4], [-1.4, -0.9]], 1.8), (-0.7, -0.9, [[-2.0, 0.6], [-0.6, -2.0]]), (-1.3, -0.4, 0.2), (-1.0, -2.0)
])  # fmt: skip
def test_roots_of_negative_eigenvalues_are_scipys(f, blocks):
    a = spectrum_of(*blocks)
    t, h = np.sin(np.arange(a.size)).reshape(a.shape), 1e-5
    value, slope = f(a), lambda a: jvp(f, (a,), (t,))[1]
    for found in (jvp(f, (a,), (t,))[0], vmap(f)(np.stack([a, a @ a]))[0]):
        np.testing.assert_allclose(found, value, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(slope(a), (f(a + h * t) - f(a - h * t)) / (2 * h), rtol=1e-5, atol=1e-5)
    second = jvp(slope, (a,), (t,))[1]
    np.testing.assert_allclose(second, (slope(a + h * t) - slope(a - h * t)) / (2 * h), rtol=1e-4, atol=1e-4)
    loss = lambda a: np.sum(np.abs(f(a) - 0.3j))
    imaginary, backward = jit(lambda a: f(a).imag), jit(grad(loss))
    for _ in range(3):  # no program has the dtype: `.imag` of a real result would be 0
        np.testing.assert_allclose(imaginary(a), value.imag, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(np.sum(backward(a) * t), jvp(loss, (a,), (t,))[1], rtol=1e-8)
    with pytest.raises(ValueError, match=r"astype\(complex\)"):
        scan(lambda carry, x: (carry, f(x).imag), 0.0, a[None])


def test_schur_with_complex_pairs():
    with pytest.raises(NotImplementedError, match="output='complex'"):
        jvp(lambda a: linalg.schur(a)[0], (ROTATION,), (ROTATION,))
    t, _ = jit(linalg.schur)(ROTATION)
    np.testing.assert_allclose(t, scipy.linalg.schur(ROTATION)[0])
    values = lambda a: np.diagonal(linalg.schur(a, output="complex")[0])
    np.testing.assert_allclose(np.sort(jvp(values, (ROTATION,), (ROTATION,))[1].imag), [-1.0, 1.0])


@pytest.mark.parametrize(
    "call",
    [
        lambda a: linalg.eigh(a, subset_by_value=[0, 1]),
        lambda a: linalg.eigh(a, a, driver="gv"),
        lambda a: linalg.eig(a, a),
        lambda a: linalg.eig(a, left=True),
        lambda a: linalg.qr(a, mode="raw"),
        lambda a: linalg.schur(a, sort="lhp"),
        lambda a: linalg.pinv(a, return_rank=True),
        lambda a: linalg.pinv(a, atol=1e-3),
        lambda a: linalg.eigh_tridiagonal(a[0], a[0, 1:], select="v", select_range=(0, 1)),
        lambda a: linalg.sqrtm(a, disp=False),
        lambda a: linalg.solve_circulant(a[0], a[0], singular="lstsq"),
    ],
)
def test_unsupported_arguments_raise(call):
    with pytest.raises(TypeError, match="does not support|must be"):
        jit(call)(S)


def test_errors_are_scipys():
    calls = [
        lambda a: linalg.solve(a, np.ones(3), assume_a="round"),
        lambda a: linalg.solve(a[:2], np.ones(2)),
        lambda a: linalg.solve(a, np.ones(2)),
        lambda a: linalg.solve_triangular(a, np.ones(3), trans="X"),
        lambda a: linalg.expm(a[:2]),
        lambda a: linalg.polar(a, side="up"),
        lambda a: linalg.solve_banded((1, 1), a[:2], a),
    ]
    for bad in calls:
        with pytest.raises(ValueError):
            jit(bad)(A)
    with pytest.raises(np.linalg.LinAlgError):
        jit(lambda a: linalg.solve_triangular(a, np.ones(3)))(np.triu(A) - 2.1 * np.eye(3) * (np.arange(3) == 1))
    with pytest.raises(np.linalg.LinAlgError):
        jit(linalg.cholesky)(-S)


# -- values that are not finite, dtypes


def test_not_finite_matrices_give_nan():
    bad = np.where(np.eye(3) == 1, np.nan, A)
    for f in (linalg.expm, linalg.sqrtm, linalg.logm, lambda a: linalg.solve_sylvester(a, A, A), lambda a: linalg.schur(a)[0]):
        assert np.isnan(jit(f)(bad)).all()
        out = vmap(f)(np.stack([S, bad]))
        assert np.isfinite(out[0]).all() and np.isnan(out[1]).all()


@pytest.mark.parametrize("dtype", ["f4", "i4", "?", "f2"])
def test_dtypes_of_traced_results(dtype):
    a = (4 * np.eye(2)).astype(dtype)
    wanted = np.float32 if dtype in ("f4", "f2") else np.float64
    for f in (linalg.solve, lambda a, b: linalg.solve_triangular(a, b), lambda a, b: linalg.cho_solve((a, True), b)):
        assert jit(f)(a, np.ones(2, dtype)).dtype == wanted
    for f in (linalg.expm, linalg.sqrtm, linalg.inv, linalg.cholesky):
        assert jit(f)(a).dtype == wanted


def test_mixed_complex_sylvester_is_right():
    a, b, q = A + 1j * S, np.array([[0.1, -2.0], [2.0, 0.3]]), B
    x = jit(linalg.solve_sylvester)(a, b, q)
    np.testing.assert_allclose(a @ x + x @ b, q, atol=1e-12)


# -- composition


def test_triangular_solve_maps_lanes_to_columns():
    f = lambda a, b: linalg.solve_triangular(a, b, lower=True)
    found = vmap(f, (None, 0))(A, np.stack([B, 2 * B, B + 1]))
    np.testing.assert_allclose(found, np.stack([f(A, b) for b in (B, 2 * B, B + 1)]))
    both = vmap(vmap(f, (None, 0)), (0, None))(np.stack([A, S]), np.stack([B, 2 * B, B + 1]))
    np.testing.assert_allclose(both[1, 2], f(S, B + 1))


def test_gaussian_log_density_and_its_hessian():
    x = np.array([0.3, -0.2, 0.9])

    def log_density(s):
        c, low = linalg.cho_factor(s, lower=True)
        return -0.5 * x @ linalg.cho_solve((c, low), x) - np.sum(np.log(np.diagonal(c)))

    inverse = np.linalg.inv(S)
    y = inverse @ x
    np.testing.assert_allclose(grad(log_density)(S), 0.5 * (np.outer(y, y) - inverse), rtol=1e-10)
    symmetric = lambda t: log_density(S + t * (A + A.T))
    np.testing.assert_allclose(jacrev(jacfwd(symmetric))(0.0), jacfwd(jacfwd(symmetric))(0.0), rtol=1e-10)


def test_factors_captured_by_jit_are_read_at_each_call():
    factor = np.array([[2.0]])
    f = jit(lambda b: linalg.cho_solve((factor, True), b))
    assert f(np.ones(1))[0] == 0.25
    factor[0, 0] = 1.0
    assert f(np.ones(1))[0] == 1.0


def test_in_a_scan():
    step = lambda x, t: (linalg.expm(t * A / 10) @ x, linalg.solve(A, x, assume_a="gen"))
    f = lambda x: scan(step, x, np.array([0.1, 0.2]))[0]
    np.testing.assert_allclose(f(B), scipy.linalg.expm(0.03 * A) @ B, rtol=1e-10)
    check_grads(f, (B,), order=2)


def test_constants_are_scipys():
    assert np.array_equal(linalg.hilbert(3), scipy.linalg.hilbert(3))
    assert "SciPy's own" in linalg.pascal.__doc__


# -- sparse.linalg

SPD = S + 2 * np.eye(3)
V = np.array([0.5, -1.5, 2.5])
SOLVERS = [(cg, SPD), (bicgstab, A + np.eye(3)), (gmres, A + np.eye(3))]
solvers = pytest.mark.parametrize("solver, a", SOLVERS, ids=["cg", "bicgstab", "gmres"])


@solvers
def test_closures_preconditioners_and_start(solver, a):
    expected = lambda t, b: np.linalg.solve(a + t * np.eye(3), b)
    for x0 in (None, np.array([0.1, 0.2, 0.3]), np.linalg.solve(a, V)):
        for m in (None, np.diag(1 / np.diag(a)), lambda v: v / np.diag(a)):
            f = lambda t, b, x0=x0, m=m: solver(lambda v: a @ v + t * v, b, x0, tol=1e-13, M=m)[0]
            np.testing.assert_allclose(f(0.3, V), expected(0.3, V), rtol=1e-10)
            np.testing.assert_allclose(jacrev(f)(0.3, V), jacrev(expected)(0.3, V), rtol=1e-9)
            np.testing.assert_allclose(jacfwd(jacrev(f, 1))(0.3, V), jacfwd(jacrev(expected, 1))(0.3, V), rtol=1e-8)
    np.testing.assert_allclose(jit(grad(lambda a: np.sum(solver(a, V, tol=1e-13)[0])))(a),
                               grad(lambda a: np.sum(np.linalg.solve(a, V)))(a), rtol=1e-9)  # fmt: skip


@solvers
def test_pytrees_sparse_matrices_and_lanes(solver, a):
    tree = {"a": V[:1], "b": (V[1:].astype(np.float32),)}

    def matvec(x):
        y = a @ np.concatenate([x["a"], x["b"][0]])
        return {"a": y[:1], "b": (y[1:],)}

    x, info = solver(matvec, tree, tol=1e-6)
    assert info == 0 and x["b"][0].dtype == np.float32
    np.testing.assert_allclose(np.concatenate([x["a"], x["b"][0]]), np.linalg.solve(a, V), rtol=1e-5)
    sparse = scipy.sparse.csr_array(a)
    np.testing.assert_allclose(solver(sparse, V, tol=1e-12)[0], np.linalg.solve(a, V), rtol=1e-10)
    stack = np.stack([V, 2 * V, V**2])
    found, infos = vmap(lambda b: solver(a, b, tol=1e-12))(stack)
    np.testing.assert_allclose(found, np.linalg.solve(a, stack.T).T, rtol=1e-10)
    assert infos.shape == (3,) and not infos.any()


@solvers
def test_info_counts_what_did_not_converge(solver, a):
    more = {"restart": 1} if solver is gmres else {}
    assert solver(a, V, tol=1e-14, maxiter=1, **more)[1] == 1
    assert jit(lambda b: solver(a, b, rtol=1e-12)[1])(V) == 0
    assert np.array_equal(solver(a, 0 * V)[0], 0 * V)
    with pytest.raises(ValueError, match="square"):
        solver(a[:2], V)
    with pytest.raises(TypeError, match="function, a matrix"):
        solver("a", V)
    with pytest.raises((TypeError, ValueError), match="b|A of x"):
        solver(lambda x: x[:2], V)


def test_complex_systems():
    h = SPD + 0.3j * (A - A.T)
    for solver, a in [(cg, h), (bicgstab, A + 1j * S), (gmres, A + 1j * S)]:
        f = lambda b, solver=solver, a=a: solver(a, b, tol=1e-13)[0]
        np.testing.assert_allclose(f(V + 0.5j), np.linalg.solve(a, V + 0.5j), rtol=1e-10)
        _, pull = vjp(f, V + 0.5j)
        np.testing.assert_allclose(pull(V - 1j)[0], np.linalg.solve(a.T, V - 1j), rtol=1e-9)


# -- shapes and errors are SciPy's


@pytest.mark.parametrize("driver", [None, "gelsd", "gelss", "gelsy"])
@pytest.mark.parametrize("b", [B[:, 0], B[:, :1], B])
@pytest.mark.parametrize("rows", [2, 3])
def test_least_squares_gives_what_its_driver_gives(driver, b, rows):
    a, b = A[:rows, :2], b[:rows]
    f = lambda a: scipy.linalg.lstsq(a, b, lapack_driver=driver)
    expected, seen = f(a), []
    grad(lambda a: (seen.append(f(a)), np.sum(seen[-1][0]))[1])(a)
    lanes = [None if y is None else y[0] for y in vmap(f)(a[None])]
    for found in (jit(f)(a), lanes, seen[0]):
        for x, y in zip(expected, found, strict=True):
            assert np.shape(x) == np.shape(y) and (x is None) == (y is None)
            if x is not None and np.ndim(x):
                np.testing.assert_allclose(np.asarray(y, float), x, rtol=1e-9, atol=1e-14)


WRONG = {
    "expm": (scipy.linalg.expm, B),
    "sqrtm": (scipy.linalg.sqrtm, B),
    "logm": (scipy.linalg.logm, B),
    "rows": (lambda a: scipy.linalg.lstsq(a, np.ones(2))[0], B),
    "rank": (lambda a: scipy.linalg.lstsq(a, np.ones(3))[0], B[:, 0]),
    "driver": (lambda a: scipy.linalg.lstsq(a, np.ones(3), lapack_driver="gels")[0], B),
}


@pytest.mark.parametrize("f, a", WRONG.values(), ids=WRONG)
def test_a_wrong_argument_has_scipys_class_of_error_where_it_is_traced(f, a):
    with pytest.raises(ValueError) as expected:
        f(a)
    for way in (jit(f), lambda a: grad(lambda a: np.sum(f(a)))(a), lambda a: vmap(f)(a[None])):
        with pytest.raises(expected.type) as found:
            way(a)
        assert type(found.value) is expected.type
