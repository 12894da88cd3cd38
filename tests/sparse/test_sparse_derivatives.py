"""Sparse Jacobians and Hessians: values, colours, what is remembered, and the solvers of SciPy that take them."""

from __future__ import annotations

import threading

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.sparse
from hypothesis import example, given, settings

import funcad
from funcad.sparse import colouring, compressed, hessian, jacobian
from tests.unseen import unseen


def tridiagonal(x):
    y = 3 * x**2
    y[1:] -= x[:-1]
    y[:-1] -= np.sin(x[1:])
    return y


def laplacian(u):
    p = np.pad(u, 1)
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u + np.exp(u)


def arrow(x):
    return np.sum(np.sin(x[1:]) * x[0] ** 2) + np.sum(x**3)


RNG = np.random.default_rng(0)
X = RNG.normal(size=12)


@pytest.mark.parametrize(
    ("f", "most"),
    [
        (tridiagonal, (3, 0)),
        (lambda x: x * x[0], (2, 0)),
        (lambda x: np.append(x, x.sum()), (1, 1)),
        (lambda x: np.append(x * x[1], np.prod(x)), (2, 1)),
        (lambda x: np.sum(x**2), (0, 1)),
        (lambda x: x[:2] * np.sum(x), (0, 2)),
        (lambda x: np.ones(3), (0, 0)),
        (lambda x: np.cumsum(x)[[0, 5]], (1, 1)),
    ],
)
def test_jacobians(f, most):
    got = jacobian(f)(X)
    assert type(got) is scipy.sparse.csr_array and got.has_canonical_format and got.has_sorted_indices
    np.testing.assert_allclose(got.toarray(), np.atleast_2d(funcad.jacfwd(f)(X)), rtol=1e-12, atol=1e-14)
    assert np.all(np.array(jacobian(f).prepare(X).colors) <= most)


@pytest.mark.parametrize(
    ("f", "most"),
    [
        (arrow, 2),
        (lambda x: np.sum(tridiagonal(x) ** 2), 6),
        (lambda x: np.sum((x[1:] - x[:-1] ** 2) ** 2), 3),
        (lambda x: np.sum(x**3), 1),
        (lambda x: np.sum(x) ** 2, 12),
        (lambda x: x[0] * x[1], 2),
        (lambda x: np.sum(x), 0),
        (lambda x: np.sum((x - x.max()) ** 2), 12),
        (lambda x: x.min() ** 2, 12),
        (lambda x: np.sum((x / x.max(keepdims=True)) ** 2), 12),
        (lambda x: np.sum(np.sort(x) * x.max()), 12),
        (lambda x: np.linalg.norm(x, np.inf) ** 2, 12),
    ],
)
def test_hessians(f, most):
    got = hessian(f)(X)
    np.testing.assert_allclose(got.toarray(), funcad.hessian(f)(X), rtol=1e-12, atol=1e-14)
    assert hessian(f).prepare(X).colors[0] <= most


def test_grids_take_few_directions():
    x = RNG.normal(size=(9, 11))
    got = jacobian(laplacian)(x).toarray()
    np.testing.assert_allclose(got, funcad.jacfwd(laplacian)(x).reshape(99, 99), rtol=1e-12)
    assert jacobian(laplacian).prepare(x).colors[0] <= 8
    energy = lambda u: np.sum(laplacian(u) ** 2)
    np.testing.assert_allclose(hessian(energy)(x).toarray(), funcad.hessian(energy)(x).reshape(99, 99), rtol=1e-10, atol=1e-12)


def test_large_ones_take_as_many_directions_as_small_ones():
    n = 100_000
    found = jacobian(tridiagonal).prepare(np.ones(n))
    assert found.colors == (3, 0) and found.sparsity.nnz == 3 * n - 2
    x = RNG.normal(size=n)
    matrix = found(x)
    np.testing.assert_allclose(matrix.diagonal(), 6 * x)
    np.testing.assert_allclose(matrix.diagonal(1), -np.cos(x[1:]))
    second = hessian(arrow).prepare(x)
    assert second.colors == (2, 0) and second.sparsity.nnz == 3 * n - 2
    v = RNG.normal(size=n)
    np.testing.assert_allclose(second(x) @ v, funcad.hvp(arrow, (x,), (v,)), rtol=1e-9, atol=1e-9)


def seeds(colours):
    return (colours == np.arange(colours.max(initial=-1) + 1)[:, None]).astype(float)


@settings(max_examples=60, deadline=None)
@example(28374, 9, 9, 0.5625)  # colours of its own for each column take less than those and a row apart
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 12), st.floats(0, 1))
def test_compressions_of_random_patterns(seed, m, n, density):
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((m, n)) < density, rng.normal(size=(m, n)), 0)
    pattern = scipy.sparse.csr_array(dense != 0)
    c = colouring.compression_of(pattern)
    columns, rows = seeds(c.columns), seeds(c.rows)
    results = np.concatenate([(columns @ dense.T).ravel(), (rows @ dense).ravel()])
    np.testing.assert_allclose(results[c.positions], dense[pattern.nonzero()], atol=1e-13)
    assert len(columns) + len(rows) <= max(m, n)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 16), st.floats(0, 0.7))
def test_star_colourings_of_random_patterns(seed, n, density):
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((n, n)) < density, rng.normal(size=(n, n)), 0)
    dense = dense + dense.T
    pattern = scipy.sparse.csr_array(dense != 0)
    c = colouring.symmetric_compression(pattern)
    results = (seeds(c.columns) @ dense.T).ravel()
    np.testing.assert_allclose(results[c.positions], dense[pattern.nonzero()], atol=1e-13)
    assert c.n_columns <= n and c.n_rows == 0


def test_dense_patterns_are_not_coloured_for_long(monkeypatch):
    monkeypatch.setattr(colouring, "WORK", 100)
    for f in (lambda x: np.outer(x, x).sum(0) + np.prod(x), tridiagonal):
        np.testing.assert_allclose(jacobian(f)(X).toarray(), funcad.jacfwd(f)(X), rtol=1e-9, atol=1e-12)
    for f in (arrow, lambda x: np.sum(x) ** 3):
        np.testing.assert_allclose(hessian(f)(X).toarray(), funcad.hessian(f)(X), rtol=1e-9, atol=1e-12)


def written(x):
    y = np.zeros(len(x))
    for i in range(len(x) - 1):
        y[i] = x[i] * x[i + 1]
    return y


def test_functions_that_write():
    np.testing.assert_allclose(jacobian(written)(X).toarray(), funcad.jacfwd(written)(X))
    assert jacobian(written).prepare(X).sparsity.nnz == 22
    total = lambda x: np.sum(written(x) ** 2)
    np.testing.assert_allclose(hessian(total)(X).toarray(), funcad.hessian(total)(X), atol=1e-12)

    def changes_its_argument(x):
        x[0] = x[1] * 2
        return x**2

    x = X.copy()
    np.testing.assert_allclose(jacobian(changes_its_argument)(x).toarray(), funcad.jacfwd(changes_its_argument)(X.copy()))
    np.testing.assert_array_equal(x, X)


def test_chains_along_scans():
    def f(x):
        return funcad.scan(lambda c, v: (v, (v - c**2) ** 2), x[0], x[1:])[1].sum()

    x = RNG.normal(size=300)
    prepared = hessian(f).prepare(x)
    assert prepared.colors == (3, 0) and prepared.sparsity.nnz == 898
    np.testing.assert_allclose(prepared(x).toarray(), funcad.hessian(f)(x), rtol=1e-9, atol=1e-12)


def test_many_threads_share_one():
    derivative, failed = jacobian(lambda x: np.sin(x) * x), []

    def work():
        try:
            for i in range(20):
                assert derivative(np.ones(10 + i % 5)).nnz == 10 + i % 5
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_errors_of_the_function_pass_and_leave_it_usable():
    broken = [True]

    def f(x):
        if broken[0]:
            raise KeyError("mine")
        return 2 * x

    derivative = jacobian(f)
    with pytest.raises(KeyError, match="mine"):
        derivative(X)
    broken[0] = False
    assert derivative(X).nnz == 12
    with pytest.raises(TypeError, match="takes its arguments by position, not x by name"):
        derivative(x=X)


# -- what is remembered


def test_patterns_follow_the_program_and_what_it_captures(monkeypatch):
    found = []
    monkeypatch.setattr(compressed, "pattern_of", lambda *a: found.append(1) or pattern_of(*a))
    weights = np.array([1.0, 0.0, 2.0])
    f = jacobian(lambda x: weights * x**2)
    assert f(np.ones(3)).nnz == 2 and f(np.zeros(3)).nnz == 2 and len(found) == 1
    weights[1] = 5.0
    assert f(np.ones(3)).toarray()[1, 1] == 10 and len(found) == 2
    weights[1] = 0.0
    assert f(np.ones(3)).nnz == 2 and len(found) == 2
    assert f(2.0 * np.ones(3)).nnz == 2 and len(found) == 2


pattern_of = compressed.pattern_of


def test_prepared_derivatives_do_not_look_at_the_program_again():
    calls = []
    note = unseen(lambda: calls.append(1))

    def f(x):
        note()
        return x[1:] * x[:-1]

    prepared = jacobian(f).prepare(X)
    prepared(X)
    before = len(calls)
    np.testing.assert_allclose(prepared(2 * X).toarray(), funcad.jacfwd(lambda x: x[1:] * x[:-1])(2 * X))
    assert len(calls) == before
    with pytest.raises(ValueError, match=r"prepared for arguments of the shapes \[\(12,\)\], got \[\(3,\)\]"):
        prepared(X[:3])


def test_elements_are_differentiable_and_jitted():
    prepared = jacobian(tridiagonal).prepare(X)
    total = lambda x: np.sum(prepared.values(x) ** 2)
    expected = lambda x: np.sum(funcad.jacfwd(tridiagonal)(x) ** 2)
    np.testing.assert_allclose(funcad.grad(total)(X), funcad.grad(expected)(X), rtol=1e-10)
    np.testing.assert_allclose(funcad.jit(total)(X), expected(X), rtol=1e-12)
    rows = RNG.normal(size=(3, 12))
    np.testing.assert_allclose(funcad.vmap(prepared.values)(rows)[1], prepared.values(rows[1]), rtol=1e-12)
    with pytest.raises(funcad.errors.FuncadError, match="prepared.values"):
        funcad.grad(lambda x: jacobian(tridiagonal)(x).sum())(X)


# -- options


def test_arguments_are_trees_and_chosen():
    def f(a, p):
        return {"one": p["u"] * a, "two": np.sum(p["w"] ** 2, 1)}

    p = {"u": np.arange(3.0), "w": RNG.normal(size=(2, 2))}
    a = np.array([1.0, 2.0, 3.0])
    got = jacobian(f, argnums=1)(a, p)
    dense = funcad.jacfwd(f, argnums=1)(a, p)
    expected = np.block([
        [dense["one"]["u"], dense["one"]["w"].reshape(3, 4)],
        [dense["two"]["u"], dense["two"]["w"].reshape(2, 4)],
    ])  # fmt: skip
    np.testing.assert_allclose(got.toarray(), expected)
    assert got.nnz == 7
    np.testing.assert_allclose(jacobian(f, argnums=-1)(a, p).toarray(), expected)
    for make in (jacobian, hessian):
        with pytest.raises(TypeError, match=r"argnums must be one position, got \(0, 1\)"):
            make(f, argnums=(0, 1))
    with pytest.raises(TypeError, match="argnums=2"):
        jacobian(f, argnums=2)(a, p)


@pytest.mark.parametrize("chunk_size", [1, 2, 5])
def test_chunks(chunk_size):
    got = jacobian(tridiagonal, chunk_size=chunk_size)(X)
    np.testing.assert_allclose(got.toarray(), funcad.jacfwd(tridiagonal)(X), rtol=1e-12)


def test_given_patterns():
    band = scipy.sparse.diags_array([np.ones(11), np.ones(12), np.ones(11)], offsets=[-1, 0, 1])
    for given_pattern in (band, band.toarray().astype(bool), band.tocoo()):
        got = jacobian(tridiagonal, sparsity=given_pattern)(X)
        np.testing.assert_allclose(got.toarray(), funcad.jacfwd(tridiagonal)(X))
    with pytest.raises(ValueError, match="misses elements, in row 0"):
        jacobian(tridiagonal, sparsity=np.eye(12))(X)
    with pytest.raises(ValueError, match=r"shape \(12, 3\), the derivative \(12, 12\)"):
        jacobian(tridiagonal, sparsity=np.ones((12, 3)))(X)
    square = np.eye(12)
    square[0] = square[:, 0] = 1
    np.testing.assert_allclose(hessian(arrow, sparsity=square)(X).toarray(), funcad.hessian(arrow)(X))

    def branches(x):
        return x**2 if x[0] > 0 else -x

    np.testing.assert_allclose(jacobian(branches, sparsity=np.eye(2))(np.array([1.0, 3.0])).toarray(), np.diag([2.0, 6.0]))
    np.testing.assert_allclose(jacobian(branches, sparsity=np.eye(2))(np.array([-1.0, 3.0])).toarray(), -np.eye(2))
    with pytest.raises(funcad.errors.TracerBoolConversionError):
        jacobian(branches)(np.ones(2))


def test_dtypes_and_errors():
    assert jacobian(np.sin)(np.ones(3, np.float32)).dtype == np.float32
    assert jacobian(np.sin)(np.zeros(0)).shape == (0, 0)
    assert hessian(np.sum)(np.zeros(0)).shape == (0, 0)
    assert jacobian(np.sin)(2.0).toarray().shape == (1, 1)
    assert np.isnan(jacobian(lambda x: x[1:] * x[:-1])(np.array([np.nan, 1.0, 2.0, 3.0])).toarray()).sum() == 2
    for bad in (np.arange(3), np.ones(3, complex)):
        with pytest.raises(funcad.errors.NonDifferentiableInputError, match="must be real floats"):
            jacobian(np.sin)(bad)
    with pytest.raises(funcad.errors.NonDifferentiableInputError, match="output"):
        jacobian(lambda x: x * 1j)(np.ones(2))
    with pytest.raises(funcad.errors.NonScalarOutputError):
        hessian(np.sin)(np.ones(2))
    with pytest.raises(funcad.errors.FuncadError, match="sparsity="):
        jacobian(np.cumsum)(np.ones(100_000))


# -- SciPy's solvers


def test_least_squares_takes_them():
    target = tridiagonal(np.linspace(1, 2, 50))
    f = lambda x: tridiagonal(x) - target
    found = scipy.optimize.least_squares(f, np.full(50, 1.5), jac=jacobian(f))
    assert found.success
    np.testing.assert_allclose(found.x, np.linspace(1, 2, 50), rtol=1e-6)


def test_stiff_solvers_take_them():
    n = 40
    heat = lambda t, u: 400.0 * (np.append(u[1:], 0.0) - 2 * u + np.append(0.0, u[:-1])) - u**3
    start = np.sin(np.linspace(0, np.pi, n))
    slope = jacobian(heat, argnums=1)
    got = scipy.integrate.solve_ivp(heat, (0, 0.1), start, method="BDF", jac=slope, rtol=1e-8, atol=1e-10)
    expected = scipy.integrate.solve_ivp(heat, (0, 0.1), start, method="Radau", rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(got.y[:, -1], expected.y[:, -1], rtol=1e-5, atol=1e-8)


def test_minimizers_take_them():
    rosenbrock = lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    start = np.full(30, 0.5)
    found = scipy.optimize.minimize(
        rosenbrock, start, method="trust-constr", jac=funcad.grad(rosenbrock), hess=hessian(rosenbrock), options={"gtol": 1e-8}
    )
    np.testing.assert_allclose(found.x, np.ones(30), rtol=1e-5)
