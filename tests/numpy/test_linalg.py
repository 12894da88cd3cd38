"""Linear algebra where it is delicate: degeneracies, singular matrices, zeros, NumPy's errors and result types, reuse."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import funcad
import funcad.numpy as fnp
from funcad import grad, jit, jvp, value_and_grad, vjp, vmap
from funcad.host.real_types import NUMPY
from funcad.numpy.linalg import funm_sym
from funcad.primitives import eigen, factorizations
from funcad.primitives.matrix_functions import divided_differences
from funcad.testing import check_grads

RNG = np.random.default_rng(11)
DEGENERATE = np.diag([1.0, 1.0, 3.0])
T = RNG.normal(size=(3, 3))
U = RNG.normal(size=(3, 3))
SYM = (T + T.T) / 2


def sym(a):
    return (a + np.conj(np.swapaxes(a, -1, -2))) / 2


def hvp(f, x, t):
    return jvp(grad(f), (x,), (t,))[1]


# -- determinants of singular matrices


def adjugate(a):
    n = a.shape[0]
    out = np.empty_like(a)
    for i in range(n):
        for j in range(n):
            minor = np.delete(np.delete(a, j, 0), i, 1)
            out[i, j] = (-1) ** (i + j) * (np.linalg.det(minor) if n > 1 else 1.0)
    return out


@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("complex_", [False, True])
def test_det_of_any_rank(rank, complex_):
    a = RNG.normal(size=(4, rank)) @ RNG.normal(size=(rank, 4))
    if complex_:
        a = a + 1j * (RNG.normal(size=(4, rank)) @ RNG.normal(size=(rank, 4)))
    holomorphic = {"holomorphic": True} if complex_ else {}
    np.testing.assert_allclose(grad(np.linalg.det, **holomorphic)(a), adjugate(a).T, atol=1e-12)
    check_grads(np.linalg.det, (a,), order=2, atol=1e-6, rtol=1e-6)


def test_det_small():
    assert grad(np.linalg.det)(np.zeros((1, 1))) == 1.0
    assert grad(np.linalg.det)(np.zeros((0, 0))).shape == (0, 0)
    singular = np.zeros((2, 3, 3))
    singular[0] = DEGENERATE
    np.testing.assert_allclose(grad(lambda a: np.linalg.det(a).sum())(singular)[0], np.diag([3.0, 3.0, 1.0]))
    np.testing.assert_allclose(vmap(grad(np.linalg.det))(singular)[1], 0.0)
    np.testing.assert_allclose(jit(grad(np.linalg.det))(np.diag([0.0, 2.0, 3.0])), np.diag([6.0, 0.0, 0.0]), atol=1e-14)


def test_slogdet_of_singular_is_not_finite_and_does_not_raise():
    assert np.isnan(grad(lambda a: np.linalg.slogdet(a)[1])(np.zeros((2, 2)))).all()


# -- equal eigenvalues


@pytest.mark.parametrize("a", [np.eye(3), DEGENERATE, np.zeros((3, 3))], ids=["identity", "pair", "zero"])
def test_eigenvalues_of_degenerate_matrices(a):
    np.testing.assert_allclose(grad(lambda a: np.sum(np.linalg.eigvalsh(a) ** 2))(a), 2 * a, atol=1e-14)
    np.testing.assert_allclose(grad(lambda a: np.sum(np.linalg.eigh(a)[0] ** 3))(a), 3 * a @ a, atol=1e-14)
    np.testing.assert_allclose(jvp(lambda a: np.linalg.eigvalsh(a).sum(), (a,), (SYM,))[1], np.trace(SYM), rtol=1e-12)
    np.testing.assert_allclose(jit(grad(lambda a: np.sum(np.linalg.eigvalsh(a) ** 2)))(a), 2 * a, atol=1e-14)


def test_simple_eigenvalue_beside_a_degenerate_pair():
    def largest(a):
        return np.linalg.eigvalsh(a)[-1]

    expected = 2 * (SYM[0, 2] ** 2 + SYM[1, 2] ** 2) / (3.0 - 1.0)
    for h in (hvp(largest, DEGENERATE, SYM), vjp(grad(largest), DEGENERATE)[1](SYM)[0]):
        assert np.isfinite(h).all()
        np.testing.assert_allclose(np.sum(h * SYM), expected, rtol=1e-12)
    twice = jvp(lambda a: jvp(largest, (a,), (SYM,))[1], (DEGENERATE,), (SYM,))[1]
    np.testing.assert_allclose(twice, expected, rtol=1e-12)


def test_vectors_of_a_degenerate_pair_are_nan_for_those_who_use_them():
    def simple(a):
        return np.sum(np.linalg.eigh(a)[1][:, 2] ** 4)

    def pair(a):
        return np.sum(np.linalg.eigh(a)[1][:, 0] ** 4)

    assert np.isfinite(grad(simple)(DEGENERATE)).all()
    assert np.isnan(grad(pair)(DEGENERATE)).any()
    v = jvp(lambda a: np.linalg.eigh(a)[1], (DEGENERATE,), (SYM,))[1]
    assert np.isfinite(v[:, 2]).all() and np.isnan(v[:, :2]).any()
    slope = jvp(lambda a: np.linalg.eigh(a)[1][:, 2] * np.sign(np.linalg.eigh(a)[1][2, 2]), (DEGENERATE,), (SYM,))[1]
    np.testing.assert_allclose(slope, [SYM[0, 2] / 2, SYM[1, 2] / 2, 0.0], atol=1e-14)


def test_unused_vectors_contribute_nothing():
    def values(a):
        w, v = np.linalg.eigh(a)
        return np.sum(w**2) + 0.0 * 1.0

    out, pullback = vjp(lambda a: list(np.linalg.eigh(a)), DEGENERATE)
    (ct,) = pullback([np.array([1.0, 2.0, 3.0]), np.zeros((3, 3))])
    assert np.isfinite(ct).all()
    assert np.isfinite(jit(grad(values))(DEGENERATE)).all()
    out, pullback = vjp(lambda a: list(np.linalg.svd(a)), np.eye(3))
    (ct,) = pullback([np.zeros((3, 3)), np.array([1.0, 2.0, 3.0]), np.zeros((3, 3))])
    np.testing.assert_allclose(ct, np.diag([1.0, 2.0, 3.0]))


def test_general_eigenvalues_of_degenerate_matrices():
    np.testing.assert_allclose(grad(lambda a: np.sum(np.linalg.eigvals(a) ** 2).real)(DEGENERATE), 2 * DEGENERATE, atol=1e-14)
    simple = grad(lambda a: np.max(np.linalg.eigvals(a).real))(DEGENERATE)
    np.testing.assert_allclose(simple, np.diag([0.0, 0.0, 1.0]), atol=1e-14)


# -- equal singular values, zeros


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_singular_values_of_degenerate_matrices(shape):
    a = 2.0 * np.eye(*shape)
    t = RNG.normal(size=shape)
    np.testing.assert_allclose(grad(lambda a: np.sum(np.linalg.svdvals(a) ** 2))(a), 2 * a, atol=1e-14)
    np.testing.assert_allclose(grad(lambda a: np.sum(np.linalg.svd(a)[1] ** 2))(a), 2 * a, atol=1e-14)
    np.testing.assert_allclose(grad(lambda a: np.linalg.norm(a, "nuc"))(a), np.eye(*shape), atol=1e-14)
    check_grads(lambda a: np.linalg.norm(a, "nuc"), (a,), order=2)
    check_grads(np.linalg.pinv, (a,), order=2)
    assert np.isfinite(hvp(lambda a: np.linalg.norm(a, "nuc"), a, t)).all()


def test_spectral_norm_beside_degenerate_values():
    a = np.diag([3.0, 1.0, 1.0])
    check_grads(lambda a: np.linalg.norm(a, 2), (a,), order=2)
    check_grads(lambda a: np.linalg.norm(a, 2), (np.diag([3.0, 1.0, 1.0, 0.0, 0.0])[:, :4],), order=2)
    np.testing.assert_allclose(grad(lambda a: np.linalg.norm(a, 2))(np.eye(2)), np.eye(2) / 2, atol=1e-14)


def test_condition_numbers_of_degenerate_matrices():
    a = np.diag([4.0, 2.0, 2.0, 1.0])
    for p in (None, 2, -2, "fro", "nuc"):
        check_grads(lambda a, p=p: np.linalg.cond(a, p), (a,), order=2)
    assert np.isfinite(grad(np.linalg.cond)(np.eye(3))).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jvp(np.linalg.cond, (np.zeros((2, 2)),), (np.ones((2, 2)),))[0] == np.linalg.cond(np.zeros((2, 2))) == np.inf


ORDERS = [None, 2, 3, 1.5, 1, np.inf]
MATRIX_ORDERS = [None, "fro", "nuc", 2, 1, np.inf]


def turns(order, dtype, *others):
    """Does the slope of the norm turn at 0 (of others it jumps or is constant)?"""
    return order in (None, 2, 3, 1.5, "fro", "nuc", *others) or dtype is complex and order in (1, -1, np.inf, -np.inf)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", [float, complex])
def test_norm_at_zero(order, dtype):
    x, t = np.zeros(3, dtype), np.array([1.0, -2.0, 0.5], dtype)
    second = np.nan if turns(order, dtype) else 0
    for f in (lambda x: np.linalg.norm(x, order), lambda x: fnp.linalg.vector_norm(x, ord=2 if order is None else order)):
        np.testing.assert_array_equal(grad(f)(x), 0)
        np.testing.assert_array_equal(hvp(f, x, t).real, second)
        np.testing.assert_array_equal(jit(grad(f))(x), 0)
        assert jvp(f, (x,), (t,))[1] == 0
    half = np.array([0.0, 2.0, -1.0], dtype)
    assert np.isfinite(grad(lambda x: np.linalg.norm(x, order))(half)).all()
    if dtype is float and order != 1.5:  # whose second derivative is infinite
        assert np.isfinite(hvp(lambda x: np.linalg.norm(x, order), half, t)).all()


@pytest.mark.parametrize("order", MATRIX_ORDERS)
@pytest.mark.parametrize("dtype", [float, complex])
def test_matrix_norm_at_zero(order, dtype):
    a, t = np.zeros((3, 2), dtype), np.ones((3, 2), dtype)

    def f(a):
        return np.linalg.norm(a, order)

    np.testing.assert_array_equal(grad(f)(a), 0)
    np.testing.assert_array_equal(hvp(f, a, t).real, np.nan if turns(order, dtype, -2) else 0)
    batch = np.stack([a, t])
    mixed = grad(lambda a: np.linalg.norm(a, order, axis=(1, 2)).sum())(batch)
    np.testing.assert_array_equal(mixed[0], 0)
    assert np.isfinite(mixed).all() and mixed[1].any()


def with_singular_values(m, n, s, complex_):
    def turn(size):
        return np.linalg.qr(RNG.normal(size=(size, size)) + 1j * complex_ * RNG.normal(size=(size, size)))[0]

    a = turn(m)[:, : len(s)] * s @ turn(n)[: len(s)]
    return a if complex_ else a.real


@pytest.mark.share(3)
@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize(("m", "n"), [(3, 3), (4, 3), (3, 4)])
@pytest.mark.parametrize("s", [(3.0, 2.0, 0.4), (3.0, 3.0, 1e-9), (3.0, 3.0, 0.0), (3.0, 1.0, 1.0), (3.0, 2.5, 2.0)])
def test_pinv_and_lstsq_that_cut_singular_values(m, n, s, complex_):
    a, b = with_singular_values(m, n, np.array(s), complex_), RNG.normal(size=(m, 2)) + 1j * complex_ * RNG.normal(size=(m, 2))

    def solution(a, b):
        return np.linalg.lstsq(a, b, rcond=0.5)[0]

    def inverse(a):
        return np.linalg.pinv(a, rcond=0.5)

    for way in (lambda f: f, jit):
        check_grads(way(inverse), (a,), order=2)
        check_grads(way(solution), (a, b), order=2)
    check_grads(vmap(inverse), (np.stack([a, 2 * a]),), order=2)
    check_grads(lambda a: inverse(sym(a[:3, :3])) + np.linalg.pinv(sym(a[:3, :3]), 0.5, hermitian=True), (a,), order=2)
    traced = jit(lambda a, cut: np.linalg.pinv(a, cut))
    for _ in range(3):
        np.testing.assert_allclose(jacobian_of(traced, a, 0.5), jacobian_of(inverse, a), rtol=1e-9, atol=1e-9)


def jacobian_of(f, a, *others):
    return jvp(lambda a: f(a, *others), (a,), (np.ones_like(a),))[1]


def test_rank_deficient_pinv_has_the_constant_rank_formula():
    b, c = RNG.normal(size=(4, 2)), RNG.normal(size=(2, 3))
    check_grads(lambda b, c: np.linalg.pinv(b @ c, rcond=1e-10), (b, c), order=2, atol=1e-5, rtol=1e-5)


# -- functions of symmetric matrices

FUNCTIONS = [(np.exp, None), (np.log, None), (np.sqrt, lambda x: 0.5 / np.sqrt(x)), (lambda x: x**3, None)]


@pytest.mark.share(3)
@pytest.mark.parametrize("f, df", FUNCTIONS, ids=["exp", "log", "sqrt", "cube"])
@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-6, 1e-3, 0.3])
def test_symmetric_functions_at_equal_and_near_eigenvalues(f, df, gap):
    q = np.linalg.qr(RNG.normal(size=(3, 3)))[0]
    a = sym(q @ np.diag([1.0, 1.0 + gap, 2.5]) @ q.T)
    w, v = np.linalg.eigh(a)
    np.testing.assert_allclose(funm_sym(a, f, df), v @ np.diag(f(w)) @ v.T, atol=1e-13)
    check_grads(lambda a: funm_sym(sym(a), f, df), (a,), order=2, atol=1e-6, rtol=1e-6)
    np.testing.assert_allclose(grad(lambda a: np.trace(funm_sym(a, f, df)))(a), funm_sym(a, grad_of(f)), atol=1e-11)


def grad_of(f):
    return lambda x: jvp(f, (x,), (np.ones_like(x),))[1]


def test_symmetric_function_second_derivative_at_the_identity():
    h = hvp(lambda a: np.trace(funm_sym(a, lambda x: x**3)), np.eye(3), SYM)
    np.testing.assert_allclose(h, 6 * SYM, atol=1e-13)
    h = hvp(lambda a: np.sum(funm_sym(a, np.log) * U), DEGENERATE, SYM)
    assert np.isfinite(h).all()


def test_symmetric_function_of_stacks_complex_float32_and_jitted():
    h = SYM + 1j * (T - T.T) / 2 + 4 * np.eye(3)
    np.testing.assert_allclose(funm_sym(funm_sym(h, np.log), np.exp), h, atol=1e-12)
    stack = np.stack([np.eye(3), DEGENERATE]).astype(np.float32)
    out = vmap(jit(grad(lambda a: np.trace(funm_sym(a, np.exp)))))(stack)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, np.stack([np.diag(np.exp(np.diag(a))) for a in stack]), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(grad(lambda a: np.trace(funm_sym(a, np.exp)))(np.array([[1]]) * 1.0), [[np.e]])
    assert funm_sym(np.zeros((0, 0)), np.exp).shape == (0, 0)


def test_symmetric_function_refuses_what_would_be_lost():
    with pytest.raises(TypeError, match="being traced"):
        grad(lambda c: np.trace(funm_sym(np.eye(2), lambda x: np.exp(c * x))))(1.0)
    with pytest.raises(ValueError, match="element by element"):
        funm_sym(np.eye(2), np.sum)
    with pytest.raises(np.linalg.LinAlgError):
        funm_sym(np.ones((2, 3)), np.exp)


@pytest.mark.parametrize("w", [[1.0, 1.0 + 1e-9, 1.0 + 1e-4], [0.1, 0.2, 7.0], [-1e-10, 1e-10, 1.0], [-3.0, 2.0, 2.0]])
def test_divided_differences_of_exp(w):
    w = np.array(w)

    def exact(points):  # by the series of exp, in longer arithmetic: f[x...] = sum over n of h_n(x...) / (n + k)!
        points = [np.longdouble(p) for p in points]
        k, total, homogeneous = len(points) - 1, np.longdouble(0), [np.longdouble(1)] + [np.longdouble(0)] * 80
        for p in points:
            for n in range(1, 81):
                homogeneous[n] = homogeneous[n] + p * homogeneous[n - 1]
        factorial = np.longdouble(1)
        for n in range(1, k + 1):
            factorial *= n
        for n in range(81):
            total += homogeneous[n] / factorial
            factorial *= n + k + 1
        return float(total)

    for order in (1, 2):
        found = divided_differences(lambda m, x: np.exp(x), order, w)
        for index in np.ndindex(found.shape):
            np.testing.assert_allclose(found[index], exact([w[i] for i in index]), rtol=2e-11 if order == 2 else 1e-12)


# -- NumPy's results, errors, dtypes


def test_results_are_numpys_named_tuples():
    seen = []

    def f(a):
        for out, fields in (
            (np.linalg.eigh(a), ("eigenvalues", "eigenvectors")),
            (np.linalg.eig(a), ("eigenvalues", "eigenvectors")),
            (np.linalg.svd(a), ("U", "S", "Vh")),
            (np.linalg.qr(a), ("Q", "R")),
            (np.linalg.slogdet(a), ("sign", "logabsdet")),
        ):
            seen.append(type(out))
            assert out._fields == fields
        return np.linalg.eigh(a).eigenvalues.sum()

    grad(f)(DEGENERATE)
    functions = (np.linalg.eigh, np.linalg.eig, np.linalg.svd, np.linalg.qr, np.linalg.slogdet)
    assert seen == [type(g(DEGENERATE)) for g in functions]


BAD = [
    (lambda a: np.linalg.inv(a), np.ones((2, 3))),
    (lambda a: np.linalg.inv(a), np.ones(3)),
    (lambda a: np.linalg.inv(a), np.zeros((2, 2))),
    (lambda a: np.linalg.solve(a, np.ones(3)), np.eye(2)),
    (lambda a: np.linalg.solve(a, np.ones((3, 1))), np.eye(2)),
    (lambda a: np.linalg.cholesky(a), -np.eye(2)),
    (lambda a: np.linalg.det(a), np.ones((2, 3))),
    (lambda a: np.linalg.eigh(a, "X"), np.eye(2)),
    (lambda a: np.linalg.qr(a, "X"), np.eye(2)),
    (lambda a: np.linalg.svd(a), np.ones(3)),
    (lambda a: np.linalg.norm(a, "fro"), np.ones(3)),
    (lambda a: np.linalg.norm(a, 7), np.eye(2)),
    (lambda a: np.linalg.norm(a, axis=(0, 0)), np.eye(2)),
    (lambda a: np.linalg.norm(a, 2), np.ones((2, 2, 2))),
    (lambda a: np.linalg.norm(a, axis="x"), np.eye(2)),
    (lambda a: np.linalg.norm(a, -np.inf), np.zeros(0)),
    (lambda a: np.linalg.matrix_power(a, 1.5), np.eye(2)),
    (lambda a: np.linalg.matrix_power(a, 2), np.ones((2, 3))),
    (lambda a: np.linalg.lstsq(a, np.ones(3)), np.ones((2, 2))),
    (lambda a: np.linalg.cond(a), np.zeros((0, 0))),
    (lambda a: np.linalg.pinv(a, rcond=1e-3, rtol=1e-3), np.eye(2)),
    (lambda a: np.linalg.tensorinv(a, 0), np.eye(2)),
    (lambda a: np.linalg.tensorsolve(a, np.ones(3)), np.eye(2)),
    (lambda a: np.linalg.cross(a, a), np.ones(2)),
    (lambda a: np.cross(a, a), np.ones(4)),
    (lambda a: np.cross(a[0], a), np.ones(3)),
    (lambda a: np.linalg.inv(a), np.eye(2, dtype=np.float16)),
]


@pytest.mark.parametrize("f, a", BAD)
def test_errors_are_numpys(f, a):
    with pytest.raises(Exception) as expected:
        f(a)
    with pytest.raises(type(expected.value)):
        jvp(f, (a,), (np.ones_like(a),))


def test_solve_takes_a_vector_only_if_it_has_one_axis():
    a = RNG.normal(size=(4, 3, 3)) + 3 * np.eye(3)
    b = RNG.normal(size=(3, 3))
    out = jvp(lambda b: np.linalg.solve(a, b), (b,), (b,))[0]
    np.testing.assert_allclose(out, np.linalg.solve(a, b))
    assert out.shape == (4, 3, 3)
    assert jvp(lambda a: np.linalg.solve(a, b[0]), (a,), (a,))[0].shape == (4, 3)


def test_dtypes():
    ints = np.array([[2, 1], [1, 3]])
    x = np.ones(2, np.float32)
    out = jvp(lambda x: np.linalg.solve(ints, x), (x,), (x,))
    assert out[0].dtype == out[1].dtype == np.linalg.solve(ints, x).dtype == np.float64
    a = np.eye(2, dtype=np.float32) * 2
    for f in (np.linalg.inv, np.linalg.det, np.linalg.eigvalsh, np.linalg.pinv, np.linalg.cond, np.linalg.norm):
        assert jvp(f, (a,), (a,))[1].dtype == f(a).dtype == np.float32
        assert grad(lambda a, f=f: np.sum(f(a)))(a).dtype == np.float32
    assert jit(np.linalg.det)(ints).dtype == np.float64
    assert jit(lambda a: np.linalg.matrix_power(a, 3))(ints).dtype == ints.dtype


def test_eigenvalues_are_real_where_they_are_known_to_be():
    assert jvp(np.linalg.eigvals, (np.diag([1.0, 2.0, 4.0]),), (T,))[1].dtype == np.float64
    assert jit(np.linalg.eigvals)(DEGENERATE).dtype == np.complex128
    assert jvp(np.roots, (np.array([1.0, -3.0, 2.0]),), (np.ones(3),))[0].dtype == np.float64


def test_lstsq_residuals_follow_the_rank():
    deficient = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])
    b = np.array([1.0, 0.0, 2.0])
    x, residuals, rank, s = jvp(lambda b: np.linalg.lstsq(deficient, b), (b,), (b,))[0]
    assert residuals.shape == (0,) and rank == 1
    np.testing.assert_allclose(x, np.linalg.lstsq(deficient, b)[0], atol=1e-14)
    jitted = jit(lambda a, b: np.linalg.lstsq(a, b)[1])
    assert np.isnan(jitted(deficient, b)).all()
    np.testing.assert_allclose(jitted(deficient + np.eye(3, 2), b), np.linalg.lstsq(deficient + np.eye(3, 2), b)[1])


def test_tangent_work_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grad(lambda a: np.linalg.eigh(a)[1][0, 0])(DEGENERATE)
        grad(lambda a: np.linalg.svd(a)[0][0, 0])(np.zeros((3, 3)))
        grad(lambda a: np.linalg.norm(a, "nuc"))(np.zeros((3, 3)))
        grad(lambda a: np.linalg.det(a))(np.zeros((3, 3)))
        jvp(lambda a: funm_sym(a, np.exp), (np.eye(3),), (SYM,))


def test_lu_has_lapacks_pivots():
    a = RNG.normal(size=(3, 3))
    lu, pivots, permutation = factorizations.lu(a)
    np.testing.assert_allclose((np.tril(lu, -1) + np.eye(3)) @ np.triu(lu), a[permutation])
    assert (pivots >= np.arange(3)).all()


def test_complete_qr_where_lapack_leaves_a_reflector_out():
    """There Q jumps, but what depends on the span of its last columns has a derivative."""

    def projected(a):
        q = np.linalg.qr(a, "complete")[0][..., 2:]
        return q @ np.swapaxes(q, -1, -2)

    a = np.stack([np.eye(4, 2), RNG.normal(size=(4, 2))])
    direct = lambda a: np.eye(4) - a @ np.linalg.pinv(a)
    t = RNG.normal(size=a.shape)
    np.testing.assert_allclose(jvp(projected, (a,), (t,))[1], jvp(direct, (a,), (t,))[1], atol=1e-12)
    ct = RNG.normal(size=(2, 4, 4))
    for f in (projected, direct):
        assert np.isfinite(hvp(lambda a, f=f: np.sum(f(a) * ct), a, t)).all()


def test_vectors_without_a_batch_axis_are_the_batched_ones():
    a = RNG.normal(size=(2, 3, 3))
    for f in (lambda a: eigen.svd(a)[1], lambda a: factorizations.qr(a)[1], np.linalg.inv, np.linalg.det):
        stacked = grad(lambda a, f=f: np.sum(f(a) ** 2))(a)
        np.testing.assert_allclose(vmap(grad(lambda a, f=f: np.sum(f(a) ** 2)))(a), stacked, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.float32])
def test_a_large_matrix_is_factored_once(dtype, monkeypatch):
    """One factorization serves value and derivatives of `solve` with a large matrix."""
    n, calls = 40, []
    original = factorizations.lu.impl
    monkeypatch.setattr(factorizations.lu, "impl", lambda xp, a: calls.append(a.shape) or original(xp, a))
    a = (RNG.normal(size=(n, n)) + n * np.eye(n)).astype(dtype)
    b, ct = RNG.normal(size=n).astype(dtype), RNG.normal(size=n).astype(dtype)
    out, pullback = vjp(lambda a, b: np.linalg.solve(a, b), a, b)
    found_a, found_b = pullback(ct)
    assert len(calls) == 1 and out.dtype == found_a.dtype == dtype
    tolerance = 1e-4 if dtype == np.float32 else 1e-10
    expected = np.linalg.solve(a.T, ct)
    np.testing.assert_allclose(out, np.linalg.solve(a, b), rtol=tolerance)
    np.testing.assert_allclose(found_b, expected, rtol=tolerance)
    np.testing.assert_allclose(found_a, -np.outer(expected, out), rtol=tolerance, atol=1e-8)
    if dtype != np.float32:
        check_grads(np.linalg.solve, (a, b), order=2)
        np.testing.assert_allclose(jit(np.linalg.solve)(a, b), out, rtol=1e-12)
        both = vmap(lambda b: np.linalg.solve(a, b))(np.stack([b, ct]))
        np.testing.assert_allclose(both, np.stack([out, np.linalg.solve(a, ct)]), rtol=1e-10)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        jvp(lambda b: np.linalg.solve(jit(np.ones_like)(a), b), (b,), (b,))


def test_shapes_of_zero_and_one():
    for n in (0, 1):
        a = np.ones((n, n)) * 2.0
        for f in (np.linalg.inv, np.linalg.cholesky, np.linalg.eigvalsh, np.linalg.svdvals, np.linalg.pinv, np.linalg.det):
            out = f(a)
            primal, tangent = jvp(f, (a,), (a,))
            assert primal.shape == np.shape(tangent) == out.shape
            assert grad(lambda a, f=f: np.sum(f(a)))(a).shape == a.shape
        for f in (np.linalg.eigh, np.linalg.eig, np.linalg.svd, np.linalg.qr):
            for x, y in zip(jvp(f, (a,), (a,))[0], f(a)):
                assert x.shape == y.shape
    assert funcad.numpy.linalg.LinAlgError is np.linalg.LinAlgError


# -- conventions


def test_gradients_of_hermitian_factors_are_hermitian():
    a = SYM @ SYM + np.eye(3)

    def logdet(a):
        return 2 * np.sum(np.log(np.diagonal(np.linalg.cholesky(a))))

    np.testing.assert_allclose(grad(logdet)(a), np.linalg.inv(a), rtol=1e-10)
    np.testing.assert_allclose(hvp(logdet, a, SYM), -np.linalg.inv(a) @ SYM @ np.linalg.inv(a), rtol=1e-9)
    h = a + 0.1j * (T - T.T)
    for upper in (False, True):
        g = grad(lambda h, upper=upper: np.sum(np.abs(np.linalg.cholesky(h, upper=upper)) ** 2))(h)
        np.testing.assert_allclose(g, np.eye(3), atol=1e-12)  # the sum is the trace of h
    lower, upper = [grad(lambda h, uplo=uplo: np.linalg.eigvalsh(h, uplo)[0])(h) for uplo in "LU"]
    np.testing.assert_allclose(lower, upper, atol=1e-12)
    np.testing.assert_allclose(lower, lower.conj().T, atol=1e-12)


def test_one_triangle_is_read():
    a = np.tril(T) + 3 * np.eye(3)
    whole = np.tril(a) + np.tril(a, -1).T
    np.testing.assert_allclose(jvp(np.linalg.eigvalsh, (a,), (T,))[0], np.linalg.eigvalsh(whole), rtol=1e-12)
    np.testing.assert_allclose(jit(lambda a: np.linalg.eigh(a, "U")[0])(a.T.copy()), np.linalg.eigvalsh(whole), rtol=1e-12)


def test_second_derivatives_across_equal_eigenvalues_need_a_matrix_function():
    """Eigenvalues that cross are not twice differentiable one by one: NaN, where the function of the matrix is right."""
    assert np.isnan(hvp(lambda a: np.sum(np.linalg.eigvalsh(a) ** 2), DEGENERATE, SYM)).any()
    right = hvp(lambda a: np.trace(funm_sym(a, np.square)), DEGENERATE, SYM)
    np.testing.assert_allclose(right, 2 * SYM, atol=1e-13)


VECTORS = [
    *[RNG.normal(size=shape) for shape in ((3,), (5, 3), (2, 4, 3), (0, 3))],
    *[lay(RNG.normal(size=(4, 3))) for lay in (np.asfortranarray, lambda a: a[::-1, ::-1], lambda a: a.astype(np.float32))],
    RNG.normal(size=(4, 3)) + 1j * RNG.normal(size=(4, 3)),
]


@pytest.mark.parametrize("x", VECTORS, ids=lambda x: f"{x.dtype}{x.shape}")
def test_cross_products_are_numpys_to_the_last_bit_and_have_its_layout(x):
    y = x[..., ::-1] + 1
    expected = np.cross(x, y)
    ways = [
        jit(np.cross)(x, y), vjp(np.cross, x, y)[0], jvp(lambda x: np.cross(x, y), (x,), (x,))[0],
        vmap(lambda x, y: np.cross(x, y))(x, y) if x.ndim > 1 and len(x) else expected,
    ]  # fmt: skip
    for found in ways:
        assert found.dtype == expected.dtype and found.strides == expected.strides
        np.testing.assert_array_equal(found, expected)
    check_grads(lambda x, y: np.cross(x, y), (x, y), order=2) if x.dtype == float else None
    cts = vjp(lambda x, y: np.cross(x, y), x, y)[1](expected)
    for found, right in zip(cts, (np.cross(y, expected), np.cross(expected, x))):
        np.testing.assert_allclose(found, right, rtol=1e-5)


PLANE = {
    "both": lambda x: np.cross(x[:2], x[2:4]),
    "many": lambda x: np.cross(x[:4].reshape(2, 2), x[2:4]),
    "a number of lists": lambda x: np.cross([x[0], x[1]], [1, 2]),
    "first": lambda x: np.cross(x[:2], x[2:5]),
    "second": lambda x: np.cross(x[2:5], x[:2]),
    "axes": lambda x: np.cross(x[:4].reshape(2, 2), np.arange(6).reshape(2, 3), axisa=0, axisb=1, axisc=0),
}


@pytest.mark.parametrize("name", PLANE)
def test_cross_products_of_vectors_of_2_components(name):
    f, x = PLANE[name], np.array([0.5, 1.5, 3.0, -0.2, 0.7])
    if NUMPY >= (2, 5):
        for way in (f, jit(f), grad(lambda x: np.sum(f(x)))):
            with pytest.raises(ValueError, match="must be .arrays of. 3-dimensional vectors, but they are [23] and [23] dim"):
                way(x)
        return
    with pytest.warns(DeprecationWarning, match="2-dimensional vectors") as expected:
        right = f(x)
    with pytest.warns(DeprecationWarning, match="2-dimensional vectors") as noted:
        out, slope = jvp(f, (x,), (np.cos(x),))
        rows = vmap(f)(np.stack([x, x]))[1]
        jitted = [program(x) for program in [jit(f)] for _ in range(3)]
    assert {(str(w.message), w.filename, w.lineno) for w in noted} == {(str(w.message), w.filename, w.lineno) for w in expected}
    for found in (out, rows, *jitted):
        assert found.dtype == right.dtype and np.array_equal(found, right)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        np.testing.assert_allclose(slope, (f(x + 1e-6 * np.cos(x)) - f(x - 1e-6 * np.cos(x))) / 2e-6, rtol=1e-7)
        check_grads(f, (x,), order=2)


def test_a_cross_product_is_one_operation_until_it_is_compiled():
    program = funcad.make_jaxpr(lambda x, y: np.cross(x, y))(VECTORS[1], VECTORS[0])
    assert [e.primitive.name for e in program.equations] == ["broadcast_in_dim", "cross"]
    with np.errstate(invalid="ignore"):
        found = jit(grad(lambda x: np.cross(np.sqrt(x), VECTORS[0])[1]))(np.array([1.0, 0.0, 4.0]))
    np.testing.assert_allclose(found[[0, 2]], np.array([-VECTORS[0][2] / 2, VECTORS[0][0] / 4]))


SHAPES = [((), (4,)), ((3,), (2, 2)), ((2, 1, 3), (3, 1, 2)), ((0, 2), (2, 3)), ((1,), (1,))]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [float, np.float32, complex, int])
def test_kronecker_products_are_numpys(shapes, dtype):
    a, b = [(3 * RNG.normal(size=shape)).astype(dtype) for shape in shapes]
    for found in (jit(np.kron)(a, b), vmap(lambda a: np.kron(a, b))(a[None])[0], vjp(lambda b: np.kron(a, b), b)[0]):
        assert np.asarray(found).dtype == np.kron(a, b).dtype
        np.testing.assert_array_equal(found, np.kron(a, b))
    if dtype is float:
        check_grads(lambda a, b: np.kron(a, b), (a, b), order=2)


# -- matrices that are not finite

FUNCTIONS = {
    "svd": lambda a: np.linalg.svd(a)[1],
    "svd, values": lambda a: np.linalg.svd(a, compute_uv=False),
    "svd, hermitian": lambda a: np.linalg.svd(a, hermitian=True)[1],
    "pinv": np.linalg.pinv,
    "pinv, hermitian": lambda a: np.linalg.pinv(a, hermitian=True),
    "matrix_rank": lambda a: a * np.linalg.matrix_rank(a),
    "lstsq": lambda a: np.linalg.lstsq(a, np.ones(2))[0],
    "lstsq, b": lambda a: np.linalg.lstsq(np.eye(2), a)[0],
    "polyfit": lambda a: np.polyfit(a[0], np.ones(2), 1),
    "cond": np.linalg.cond,
    "norm 2": lambda a: np.linalg.norm(a, 2),
    "norm nuc": lambda a: np.linalg.norm(a, "nuc"),
    "eigvalsh": np.linalg.eigvalsh,
    "inv": np.linalg.inv,
    "det": np.linalg.det,
}


def _total(f):
    return lambda a: np.sum(f(a))


CALLS = {  # of which each gives the sum of f's values
    "plain": _total,
    "grad": lambda f: lambda a: value_and_grad(_total(f))(a)[0],
    "jvp": lambda f: lambda a: jvp(_total(f), (a,), (np.ones((2, 2)),))[0],
    "vmap": lambda f: lambda a: vmap(_total(f))(a[None])[0],
    "jit": lambda f: jit(_total(f)),
    "jit of grad": lambda f: jit(lambda a: value_and_grad(_total(f))(a)[0]),
    "jit of vmap": lambda f: jit(lambda a: vmap(_total(f))(a[None])[0]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", CALLS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_numpy_raises_for_nan_is_raised_and_nothing_else(name, way):
    f, good, bad = FUNCTIONS[name], np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([[np.nan, 1.0], [1.0, 3.0]])

    def tried(a):
        try:
            f(a)
        except np.linalg.LinAlgError:
            return 2.0 * a
        return a

    def outcome(call, a):
        try:
            return str(call(a) * 0)  # finite or NaN; of the rest rounding decides
        except np.linalg.LinAlgError as error:
            return str(error)

    made, made_tried = CALLS[way](f), CALLS[way](lambda a: tried(a)[1])
    for a in (good, bad, bad, bad, good, bad):
        assert outcome(made, a) == outcome(_total(f), a)
        assert made_tried(a) == np.sum(tried(a)[1])
