"""funcad.scipy.sparse: traced elements, and solvers differentiated in them, against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

import funcad
from funcad.scipy.sparse import SparseArray, coo_array, csc_array, csr_array
from funcad.scipy.sparse import linalg as ours

pytestmark = pytest.mark.share(2)  # of its tables of cases

RNG = np.random.default_rng(0)
N = 6
A = scipy.sparse.csr_array(np.where(RNG.random((N, N)) < 0.4, RNG.random((N, N)), 0) + 4 * np.eye(N))
ROW, COL = A.tocoo().coords
B, C = RNG.normal(size=N), RNG.normal(size=(N, 2))
TALL = scipy.sparse.csr_array(np.where(RNG.random((8, 5)) < 0.7, RNG.normal(size=(8, 5)), 0) + np.eye(8, 5))


def made(d, like=A):
    return csr_array((d, like.indices, like.indptr), shape=like.shape)


def dense(d, like=A):
    row, col = like.tocoo().coords
    return funcad.numpy.at(np.zeros(like.shape))[row, col].add(d)


def symmetric(d):
    """Of the elements of the upper triangle: (elements, row, column)."""
    row, col = np.triu_indices(N)
    kept = (row == col) | ((row + col) % 3 == 0)
    row, col = row[kept], col[kept]
    off = row != col
    return np.concatenate([d, d[off]]), np.concatenate([row, col[off]]), np.concatenate([col, row[off]])


COUNT = int(((np.triu_indices(N)[0] == np.triu_indices(N)[1]) | ((sum(np.triu_indices(N))) % 3 == 0)).sum())
S = RNG.normal(size=COUNT) + np.where(np.arange(COUNT) == 0, 3.0, 0.0)


def sparse_symmetric(d):
    data, row, col = symmetric(d)
    return coo_array((data, (row, col)), shape=(N, N))


def dense_symmetric(d):
    data, row, col = symmetric(d)
    return funcad.numpy.at(np.zeros((N, N)))[row, col].add(data)


TRANSFORMS = {
    "value": lambda f: f,
    "grad": lambda f: funcad.grad(f, (0, 1)),
    "jvp": lambda f: lambda d, b: funcad.jvp(f, (d, b), (np.cos(d), np.sin(b) + 1)),
    "jit": lambda f: funcad.jit(funcad.grad(f, (0, 1))),
    "grad of jit": lambda f: funcad.grad(funcad.jit(f), (0, 1)),
    "hessian": lambda f: funcad.hessian(f, (0, 1)),
    "jit of hessian": lambda f: funcad.jit(funcad.hessian(f, (0, 1))),
    "forward twice": lambda f: funcad.jacfwd(funcad.jacfwd(f)),
    "reverse twice": lambda f: funcad.jacrev(funcad.jacrev(f)),
    "vmap": lambda f: lambda d, b: funcad.vmap(funcad.grad(f), (0, None))(np.stack([d, 1.5 * d]), b),
    "vmap of both": lambda f: lambda d, b: funcad.vmap(f)(np.stack([d, 1.5 * d]), np.stack([b, -b])),
}
SOLVERS = {
    "spsolve": (lambda d, b: ours.spsolve(made(d), b), A.data, B, np.linalg.solve),
    "spsolve of columns": (lambda d, b: ours.spsolve(made(d), b), A.data, C, np.linalg.solve),
    "splu": (lambda d, b: ours.splu(made(d)).solve(b), A.data, B, np.linalg.solve),
    "splu transposed": (lambda d, b: ours.splu(made(d)).solve(b, "T"), A.data, B, lambda m, b: np.linalg.solve(m.T, b)),
    "factorized": (lambda d, b: ours.factorized(made(d))(b), A.data, B, np.linalg.solve),
    "gmres": (lambda d, b: ours.gmres(made(d), b, rtol=1e-13)[0], A.data, B, np.linalg.solve),
    "bicgstab": (lambda d, b: ours.bicgstab(made(d), b, rtol=1e-10)[0], A.data, B, np.linalg.solve),
    "expm_multiply": (lambda d, b: ours.expm_multiply(made(d), b), A.data, B, lambda m, b: funcad.scipy.linalg.expm(m) @ b),
    "product": (lambda d, b: made(d) @ b, A.data, B, lambda m, b: m @ b),
    "product of columns": (lambda d, b: made(d) @ b, A.data, C, lambda m, b: m @ b),
}  # fmt: skip


def agree(found, expected, tolerance=1e-7):
    def close(x, y):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * (1 + np.max(np.abs(y), initial=0.0)))

    funcad.tree.map(close, found, expected)


@pytest.mark.share(6)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", SOLVERS)
def test_systems(name, transform):
    solver, d, b, reference = SOLVERS[name]
    t = TRANSFORMS[transform]
    if name == "bicgstab" and ("hessian" in transform or transform == "reverse twice"):
        pytest.skip("unit vectors as right-hand sides, for which it breaks down on this matrix, as SciPy's does")
    scale = 0.2 if name == "expm_multiply" else 1.0
    f = t(lambda d, b: np.sum(np.sin(solver(scale * d, b))))
    agree(f(d, b), t(lambda d, b: np.sum(np.sin(reference(scale * dense(d), b))))(d, b))


@pytest.mark.share(4)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("options", [{}, {"shift": 0.3}])
def test_minres(transform, options):
    t = TRANSFORMS[transform]
    f = t(lambda d, b: np.sum(np.sin(ours.minres(sparse_symmetric(d), b, rtol=1e-14, **options)[0])))
    shift = options.get("shift", 0.0) * np.eye(N)
    agree(f(S, B), t(lambda d, b: np.sum(np.sin(np.linalg.solve(dense_symmetric(d) - shift, b))))(S, B), 1e-5)


def test_minres_as_scipy():
    m = dense_symmetric(S)
    x, info = ours.minres(m, B, rtol=1e-10)
    expected, theirs = scipy.sparse.linalg.minres(m, B, rtol=1e-10)
    assert info == theirs == 0
    np.testing.assert_allclose(x, expected, rtol=1e-6)
    assert ours.minres(m, B, maxiter=1)[1] > 0
    assert ours.minres(m, 0 * B)[0].tolist() == [0.0] * N
    precondition = np.diag(1 / (1 + np.arange(N)))
    np.testing.assert_allclose(ours.minres(m, B, rtol=1e-12, M=precondition)[0], np.linalg.solve(m, B), rtol=1e-6)
    np.testing.assert_allclose(ours.minres(m, B, np.ones(N), rtol=1e-12)[0], np.linalg.solve(m, B), rtol=1e-6)
    assert funcad.grad(lambda s: ours.minres(m, B, shift=s, rtol=1e-13)[0].sum())(0.2) == pytest.approx(
        funcad.grad(lambda s: np.linalg.solve(m - s * np.eye(N), B).sum())(0.2), rel=1e-6
    )


@pytest.mark.share(6)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(("shape", "damp"), [("tall", 0.0), ("tall", 0.5), ("wide", 0.0), ("wide", 0.5)])
@pytest.mark.parametrize("name", ["lsqr", "lsmr"])
def test_least_squares(name, shape, damp, transform):
    like = TALL if shape == "tall" else TALL.T.tocsr()
    m, n = like.shape
    b = RNG.normal(size=m)
    t = TRANSFORMS[transform]
    tight = {"atol": 1e-14, "btol": 1e-14, "conlim": 0}

    def reference(d, b):
        a = dense(d, like)
        if m < n:
            return a.T @ np.linalg.solve(a @ a.T + damp**2 * np.eye(m), b)
        return np.linalg.solve(a.T @ a + damp**2 * np.eye(n), a.T @ b)

    f = t(lambda d, b: np.sum(np.sin(getattr(ours, name)(made(d, like), b, damp, **tight)[0])))
    agree(f(like.data, b), t(lambda d, b: np.sum(np.sin(reference(d, b))))(like.data, b), 1e-6)


def test_results_of_least_squares_are_scipys():
    b = RNG.normal(size=8)
    for name in ("lsqr", "lsmr"):
        expected = getattr(scipy.sparse.linalg, name)(TALL, b)
        got = funcad.jit(lambda d, n=name: getattr(ours, n)(made(d, TALL), b))(TALL.data)
        assert len(got) == len(expected)
        for x, y in zip(got, expected):
            np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-10)
        assert [type(x) for x in getattr(ours, name)(TALL, b)] == [type(x) for x in expected]
    start = np.ones(5)
    f = lambda p: np.sum(ours.lsqr(TALL, b, p[0], x0=p[1:], atol=1e-14, btol=1e-14)[0] ** 2)
    t = TALL.toarray()
    g = lambda p: np.sum(np.linalg.solve(t.T @ t + p[0] ** 2 * np.eye(5), t.T @ b + p[0] ** 2 * p[1:]) ** 2)
    p = np.concatenate([[0.7], start])
    agree(funcad.grad(f)(p), funcad.grad(g)(p), 1e-6)
    with pytest.raises(TypeError, match="cg"):
        funcad.grad(lambda v: ours.lsqr(lambda x: TALL @ x, v)[0].sum())(b)


@pytest.mark.share(4)
@pytest.mark.parametrize("transform", [k for k in TRANSFORMS if k != "vmap of both"])
@pytest.mark.parametrize("options", [{"which": "LA"}, {"which": "SA"}, {"sigma": 0.1}])
def test_eigenpairs(options, transform):
    t = TRANSFORMS[transform]

    def expected_of(w, v):
        w0 = np.linalg.eigvalsh(dense_symmetric(S))
        order = {"LA": [4, 5], "SA": [0, 1]}.get(options.get("which"), sorted(np.argsort(abs(w0 - 0.1))[:2]))
        return w[np.array(order)], v[:, np.array(order)]

    def total(w, v, b):
        return np.sum(np.sin(w)) + np.sum((b @ v) ** 2 * np.array([1.0, 2.0]))

    f = t(lambda d, b: total(*ours.eigsh(sparse_symmetric(d), 2, **options), b))
    g = t(lambda d, b: total(*expected_of(*np.linalg.eigh(dense_symmetric(d))), b))
    agree(f(S, B), g(S, B), 1e-6)


@pytest.mark.parametrize("transform", ["value", "grad", "jvp", "jit", "hessian", "vmap"])
def test_singular_values(transform):
    t = TRANSFORMS[transform]
    b = RNG.normal(size=8)

    def total(u, s, vt, b):
        return np.sum(np.sin(s)) + np.sum((b @ u) * (vt @ b[:5]) * np.array([1.0, 2.0]))

    def reference(d):
        u, s, vt = np.linalg.svd(dense(d, TALL), full_matrices=False)
        return u[:, np.array([1, 0])], s[np.array([1, 0])], vt[np.array([1, 0])]

    f = t(lambda d, b: total(*ours.svds(made(d, TALL), 2), b))
    agree(f(TALL.data, b), t(lambda d, b: total(*reference(d), b))(TALL.data, b), 1e-6)
    g = lambda d: np.sum(ours.svds(made(d, TALL), 2, return_singular_vectors=False))
    agree(funcad.grad(g)(TALL.data), funcad.grad(lambda d: np.sum(reference(d)[1]))(TALL.data), 1e-7)


def test_exponentials_at_times():
    for norm in (0.1, 3.0, 40.0):
        a = A * (norm / abs(A).sum(0).max())
        f = lambda b, a=a: ours.expm_multiply(-a, b, 0.5, 2.0, 4)
        expected = scipy.sparse.linalg.expm_multiply(-a, B, 0.5, 2.0, 4)
        np.testing.assert_allclose(funcad.jit(f)(B), expected, rtol=1e-10, atol=1e-12)
        rows = funcad.jacfwd(f)(B)
        np.testing.assert_allclose(rows[2], scipy.linalg.expm(-1.5 * a.toarray()), rtol=1e-9, atol=1e-12)
    slope = funcad.grad(lambda t: ours.expm_multiply(A, B, 0.0, t, 2)[-1].sum())(0.7)
    assert slope == pytest.approx((A @ scipy.linalg.expm(0.7 * A.toarray()) @ B).sum(), rel=1e-9)


# -- sparse arrays


def test_known_elements_are_scipys():
    for make, theirs in ((csr_array, "csr_array"), (csc_array, "csc_array"), (coo_array, "coo_array")):
        assert type(make(A)) is getattr(scipy.sparse, theirs)
    x = ours.spsolve(A, B)
    np.testing.assert_array_equal(x, scipy.sparse.linalg.spsolve(A, B))
    assert ours.LinearOperator is scipy.sparse.linalg.LinearOperator


@pytest.mark.parametrize("make", [csr_array, csc_array, coo_array])
def test_traced_elements(make):
    other = getattr(A, f"to{make.__name__[:3]}")()
    where = other.coords if make is coo_array else (other.indices, other.indptr)
    other_dense = RNG.normal(size=(N, N))

    def of(d):
        return make((d, *where) if make is not coo_array else (d, where), shape=A.shape)

    def f(d):
        a = of(d)
        assert type(a) is SparseArray and a.shape == (N, N) and a.nnz == A.nnz and a.dtype == float and a.ndim == 2
        return dict(
            dense=a.toarray(), diagonal=a.diagonal(), sum=a.sum(), rows=a.sum(1), columns=a.sum(0), left=B @ a, right=a @ C,
            twice=(2 * a).toarray(), half=(a / 2).toarray(), minus=(-a).toarray(), plus=(a + A).toarray(),
            also=(A + a).toarray(), less=(a - a.T).toarray(), times=a.multiply(other_dense).toarray(), dot=a.dot(B),
            whole=a + other_dense, mirrored=(A - a).toarray(),
        )  # fmt: skip

    found = funcad.jit(f)(other.data)
    m = A.toarray()
    expected = {
        "dense": m, "diagonal": m.diagonal(), "sum": m.sum(), "rows": m.sum(1), "columns": m.sum(0), "left": B @ m,
        "right": m @ C,
        "twice": 2 * m, "half": m / 2, "minus": -m, "plus": m + m, "also": m + m, "less": m - m.T, "times": m * other_dense,
        "dot": m @ B, "whole": m + other_dense, "mirrored": 0 * m,
    }  # fmt: skip
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, atol=1e-12, err_msg=key)


def test_scipys_arrays_name_the_one_that_holds_traced_values():
    doors = funcad.config.set(doors=False)
    with doors, pytest.raises(TypeError, match="call funcad.scipy.sparse.csr_array, which takes"):
        funcad.grad(lambda d: scipy.sparse.csr_array((d, A.indices, A.indptr)).sum())(A.data)


def test_sparse_arrays_are_pytrees():
    f = lambda a: np.sum(a @ B)
    g = funcad.jit(lambda d: funcad.grad(f)(made(d)).data)
    np.testing.assert_allclose(g(A.data), B[A.indices])
    rows = np.stack([A.data, 2 * A.data])
    np.testing.assert_allclose(funcad.vmap(lambda d: f(made(d)))(rows), [f(A), 2 * f(A)])


def test_what_does_not_fit_is_refused():
    bad = [
        (lambda d: csr_array((d, [0, 7], [0, 1, 2])).toarray(), None),
        (lambda d: csr_array((d, [0, 7], [0, 1, 2]), shape=(2, 2)), "exceeds"),
        (lambda d: csr_array((d, [0, 1], [0, 1, 3]), shape=(2, 2)), "indptr"),
        (lambda d: csr_array((d, [0, 1, 1], [0, 1, 3]), shape=(2, 2)), "elements"),
        (lambda d: ours.spsolve(csr_array((d, [0, 1], [0, 1, 2])), np.ones(3)), "do not fit"),
        (lambda d: ours.spsolve(csr_array((d, [0, 1], [0, 2]), shape=(1, 2)), np.ones(2)), "square"),
        (lambda d: csr_array((d, [0, 1], [0, 1, 2])) @ np.ones(3), "do not fit"),
    ]
    for f, message in bad:
        if message is None:
            funcad.jit(f)(np.ones(2))
            continue
        with pytest.raises(ValueError, match=message):
            funcad.jit(f)(np.ones(2))
    with pytest.raises(ValueError, match="dimension mismatch"):
        funcad.jit(lambda d: csr_array((d, [0, 1], [0, 1, 2])) @ A)(np.ones(2))


def test_singular_matrices_give_nan():
    x = funcad.jit(lambda d: ours.spsolve(csr_array((d, [0, 1], [0, 1, 2])), np.ones(2)))(np.array([1.0, 0.0]))
    assert np.isnan(x).all()
    x = funcad.jit(lambda d: ours.spsolve(csr_array((d, [0, 1], [0, 1, 2])), np.ones(2)))(np.array([1.0, np.nan]))
    assert np.isnan(x).all()
    np.testing.assert_array_equal(
        funcad.jit(lambda d: ours.spsolve(csr_array((d, [0, 1], [0, 1, 2])), np.ones(2)))(np.array([1.0, 2.0])), [1.0, 0.5]
    )


def test_complex_and_single_systems():
    z = A.data * (1 + 0.3j)
    f = lambda d, b: np.sum(abs(ours.spsolve(made(d), b)) ** 2)
    g = lambda d, b: np.sum(abs(np.linalg.solve(funcad.numpy.at(np.zeros((N, N), complex))[ROW, COL].add(d), b)) ** 2)
    agree(funcad.grad(f, (0, 1))(z, B + 0j), funcad.grad(g, (0, 1))(z, B + 0j))
    h = lambda b: np.sum(abs(ours.splu((A * (1 + 0.3j)).tocsc()).solve(b, "H")) ** 2)
    m = (A.toarray() * (1 + 0.3j)).conj().T
    agree(funcad.grad(h)(B + 1j * C[:, 0]), funcad.grad(lambda b: np.sum(abs(np.linalg.solve(m, b)) ** 2))(B + 1j * C[:, 0]))
    single = funcad.jit(lambda d: ours.spsolve(made(d), B.astype(np.float32)))(A.data.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, np.linalg.solve(A.toarray(), B), rtol=1e-4)


def test_factors_are_shared_by_a_value_and_its_derivative(monkeypatch):
    made_factors = []
    original = scipy.sparse.linalg.splu
    monkeypatch.setattr(scipy.sparse.linalg, "splu", lambda *a, **k: made_factors.append(1) or original(*a, **k))
    f = funcad.jit(funcad.grad(lambda d: np.sum(ours.spsolve(made(d), B) ** 2)))
    f(A.data)
    made_factors.clear()
    f(1.1 * A.data)
    assert len(made_factors) == 1


def test_operators_that_close_over_traced_values():
    def f(t):
        operator = ours.LinearOperator((N, N), matvec=lambda x: t * x + A.T @ (A @ x), dtype=float)
        return ours.cg(operator, B, rtol=1e-13)[0].sum()

    m = (A.T @ A).toarray()
    expected = funcad.grad(lambda t: np.linalg.solve(m + t * np.eye(N), B).sum())(0.5)
    assert funcad.grad(f)(0.5) == pytest.approx(expected, rel=1e-8)
    assert funcad.jit(funcad.grad(f))(0.5) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("solver", ["lsqr", "lsmr", "eigsh", "svds", "expm_multiply"])
def test_operators_are_written_out_where_their_matrix_is_wanted(solver):
    """SciPy's own functions, of an operator that closes over traced values, or that stands beside them."""
    sl, tall = scipy.sparse.linalg, TALL.toarray()
    square = tall.T @ tall

    def of_operator(t, b):
        matrix = t * tall if solver in ("lsqr", "lsmr", "svds") else t * square
        m, n = matrix.shape
        back = lambda x: matrix.T @ x.ravel()
        return result(sl.LinearOperator((m, n), lambda x: matrix @ x.ravel(), rmatvec=back, dtype=float), b)

    def result(a, b):
        if solver in ("lsqr", "lsmr"):
            return getattr(sl, solver)(a, b, atol=1e-14, btol=1e-14)[0]
        if solver == "expm_multiply":
            return sl.expm_multiply(a, b[:5], traceA=1.0)
        return sl.eigsh(a, 2)[0] if solver == "eigsh" else sl.svds(a, 2)[1]

    def of_matrix(t, b):
        return result(t * (TALL if solver in ("lsqr", "lsmr", "svds") else scipy.sparse.csr_array(square)), b)

    b = RNG.normal(size=8)
    close = lambda f, g: np.testing.assert_allclose(f, g, rtol=1e-6, atol=1e-9)
    for transform in (lambda f: f, funcad.jit, lambda f: lambda *a: funcad.vmap(f)(*[np.stack([v, v]) for v in a])[0]):
        for argnums in (0, 1) if solver in ("lsqr", "lsmr", "expm_multiply") else (0,):
            found = transform(funcad.jacrev(lambda t, b: of_operator(t, b) ** 2, argnums))(0.7, b)
            close(found, funcad.jacfwd(lambda t, b: of_matrix(t, b) ** 2, argnums)(0.7, b))
    close(funcad.jvp(of_operator, (0.7, b), (1.0, b))[0], of_operator(0.7, b))


def test_the_dtype_of_an_operator_that_says_none():
    """It is asked for by a product, which may close over traced values, or be a list."""
    plain = scipy.sparse.linalg.LinearOperator((2, 2), matvec=lambda v: [1, 2.5]).dtype
    seen = []

    def f(x):
        seen.append(scipy.sparse.linalg.LinearOperator((2, 2), matvec=lambda v: [1, 2.5]).dtype)
        seen.append(scipy.sparse.linalg.LinearOperator((2, 2), matvec=lambda v: x * v).dtype)
        return np.sum(x)

    funcad.grad(f)(np.ones(2, np.float32))
    assert seen[:2] == [plain, np.float32]


WAYS = {
    "jvp": lambda f: lambda x: funcad.jvp(f, (x,), (x,))[0],
    "vjp": lambda f: lambda x: funcad.vjp(f, x)[0],
    "vmap": lambda f: lambda x: funcad.vmap(f)(x[None])[0],
    "jit": funcad.jit,
    "jitted jvp": lambda f: funcad.jit(lambda x: funcad.jvp(f, (x,), (x,))[0]),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("solver", ["cg", "gmres", "bicgstab", "minres"])
def test_a_column_has_a_vector_for_its_solution(solver, way):
    m = (A.T @ A).toarray() + np.eye(N)
    for matrix in (m, scipy.sparse.csr_array(m), scipy.sparse.linalg.aslinearoperator(m)):

        def f(b, matrix=matrix):
            return getattr(scipy.sparse.linalg, solver)(matrix, b, rtol=1e-12)[0]

        mapped = way(f)
        for _ in range(3):
            np.testing.assert_allclose(mapped(B[:, None]), f(B[:, None]), rtol=1e-8)
    assert ours.cg(m, B[:, None])[0].shape == (N, 1)  # as JAX's


@pytest.mark.share(3)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("options", [{}, {"sigma": 0.3}], ids=["plain", "sigma"])
@pytest.mark.parametrize("which", ["LM", "SM", "LA", "SA", "BE"])
def test_eigenvalues_alone_are_in_scipys_order(which, options, way):
    a = np.diag([-7.0, -4.1, -2.5, -1.0, 0.6, 1.4, 3.0, 5.2, 9.0]) + 0.1

    def f(a):
        return scipy.sparse.linalg.eigsh(a, 4, which=which, return_eigenvectors=False, **options)

    mapped = way(f)
    for _ in range(3):
        np.testing.assert_allclose(mapped(a), f(a), rtol=1e-9)
    h = 1e-6 * np.eye(9)
    np.testing.assert_allclose(funcad.jvp(f, (a,), (np.eye(9),))[1], (f(a + h) - f(a - h)) / 2e-6, rtol=1e-6)
