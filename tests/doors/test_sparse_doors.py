"""Sparse matrices with traced elements, assembled and solved with SciPy's own names, in every transformation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy import sparse
from scipy.sparse import (
    block_diag,
    bmat,
    coo_matrix,
    csc_matrix,
    csr_array,
    csr_matrix,
    diags,
    eye,
    hstack,
    issparse,
    kron,
    spdiags,
    tril,
    vstack,
)  # fmt: skip
from scipy.sparse.linalg import cg, splu, spsolve

import funcad as fc
from funcad.testing import check_grads

RNG = np.random.default_rng(0)
I, J = np.array([0, 1, 2, 3, 1, 2, 0, 3, 3, 0]), np.array([0, 1, 2, 3, 0, 1, 3, 3, 2, 0])
D, B = RNG.uniform(1, 2, size=10), RNG.normal(size=4)
A0 = scipy.sparse.random(4, 4, 0.5, format="csr", random_state=1) + 4 * eye(4, format="csr")
FREE = np.array([0, 2, 3])


def assembled(d: Any) -> Any:
    stiffness = coo_matrix((d, (I, J)), shape=(4, 4)).tocsr() + 4 * eye(4)
    return spsolve(stiffness, B).sum()


def restricted(d: Any) -> Any:
    stiffness = A0 + csr_matrix((d, (I, J)), shape=(4, 4))
    inner = stiffness[FREE][:, FREE]
    solved = splu(inner.tocsc()).solve(B[:3]) @ B[:3]
    return solved + (stiffness.T @ B).sum() + stiffness.diagonal().sum() + stiffness[0, 0] + stiffness.nnz


def by_diagonals(d: Any) -> Any:
    band = diags([d[:4] + 3, d[4:7], d[4:7]], [0, 1, -1])
    twice = kron(eye(2), band).tocsr()
    return spsolve(twice, np.ones(8)).sum() + (band * B).sum() + (band @ band).sum() + (band**2).sum()


def blocks(d: Any) -> Any:
    k = csr_matrix((d, (I, J)), shape=(4, 4))
    joined = (bmat([[k, None], [A0, k.T]]) @ np.arange(8.0)).sum() + hstack([k, A0]).sum() + vstack([A0, k]).toarray().sum()
    parts = block_diag([k, A0]).power(2).sum() + tril(k).sum() + k.multiply(A0).sum()
    return joined + parts + (A0 @ k).sum() + (k * A0).sum() + (k - A0).sum() + (A0 - k).sum() + (k / 2).sum() + abs(k).mean()


def scaled(k: Any) -> Any:
    a = A0 + k * A0.T
    x, _ = cg(a.T @ a + eye(4), B, rtol=1e-12)
    return x.sum()


def asked(d: Any) -> Any:
    k = coo_matrix((d, (I, J)), shape=(4, 4))
    rows = k.tolil()[1, :].toarray().sum() + k.tocsr()[1:3].sum() + k.tocsc()[:, [0]].sum() + k.sum(axis=0)[0, 1]
    diagonals = spdiags(np.stack([d[:4], d[4:8]]), [0, 1], 4, 4).toarray().sum()
    return rows + k.trace() + np.sum(k.toarray() ** 2) + diagonals + csr_array(k).sum(axis=1)[2]


@pytest.mark.parametrize("f", [assembled, restricted, by_diagonals, blocks, scaled, asked])
def test_scipys_names(f: Any) -> None:
    x = 0.3 if f is scaled else D
    value, slope = f(x), fc.grad(f)(x)
    check_grads(f, (x,), order=1 if f is scaled else 2, rtol=1e-4)
    jitted, both = fc.jit(f), fc.jit(fc.grad(f))
    for _ in range(2):
        np.testing.assert_allclose(jitted(x), value, rtol=1e-9)
        np.testing.assert_allclose(both(x), slope, rtol=1e-7, atol=1e-10)
    lanes = np.stack([x, 1.1 * x])
    np.testing.assert_allclose(fc.vmap(f)(lanes), [value, f(1.1 * x)], rtol=1e-9)


def finite_elements(conductivity: Any, n: int = 40) -> Any:
    """A rod of n elements, held at both ends: the mean temperature under a constant source."""
    rows, columns, values = [], [], []
    for e in range(n):
        local = conductivity[e] * n * np.array([[1.0, -1.0], [-1.0, 1.0]])
        for a in range(2):
            for b in range(2):
                rows.append(e + a)
                columns.append(e + b)
                values.append(local[a, b])
    stiffness = coo_matrix((values, (rows, columns)), shape=(n + 1, n + 1)).tocsc()
    inner = np.arange(1, n)
    return spsolve(stiffness[inner][:, inner], np.full(n - 1, 1.0 / n)).mean()


def test_finite_elements_by_loops_over_elements() -> None:
    k = RNG.uniform(1, 2, size=40)
    slope = fc.grad(finite_elements)(k)
    step = 1e-6 * np.eye(40)[7]
    np.testing.assert_allclose(slope[7], (finite_elements(k + step) - finite_elements(k - step)) / 2e-6, rtol=1e-6)
    jitted = fc.jit(fc.grad(finite_elements))
    for _ in range(2):
        np.testing.assert_allclose(jitted(k), slope, rtol=1e-9)


def test_what_stands_in_is_a_matrix_of_scipys() -> None:
    def f(d: Any) -> Any:
        k = csr_matrix((d, (I, J)), shape=(4, 4))
        assert issparse(k) and isinstance(k, csr_matrix) and k.shape == (4, 4) and k.format == "csr" and k.ndim == 2
        assert csc_matrix(k).format == "csc" and (k + A0).format == "csr"
        return k.sum()

    np.testing.assert_allclose(fc.grad(f)(D), np.ones(10))
    assert type(csr_matrix((D, (I, J)), shape=(4, 4))) is csr_matrix
    with pytest.raises(ValueError, match="inconsistent shapes"):
        fc.grad(lambda d: (csr_matrix((d, (I, J)), shape=(4, 4)) + eye(3)).sum())(D)
    with pytest.raises(ValueError, match="rows and"):
        fc.grad(lambda d: coo_matrix((d[:3], (I, J)), shape=(4, 4)).sum())(D)
    empty = fc.grad(lambda d: csr_matrix((d, (I, J)), shape=(4, 4))[:0].sum() + d.sum())(D)
    np.testing.assert_allclose(empty, np.ones(10))


def by_elements(x: Any) -> Any:
    k = sparse.lil_array((4, 4))
    own = np.array([[1.0, -1.0], [-1.0, 1.0]]) * x[0]
    for e in range(3):
        for a in range(2):
            for b in range(2):
                k[e + a, e + b] += own[a, b]
    return sparse.linalg.spsolve(k.tocsr()[1:, 1:], np.ones(3) * x[1]).sum()


def by_blocks(x: Any) -> Any:
    k = sparse.lil_matrix((4, 4))
    for e in range(3):
        at = np.ix_([e, e + 1], [e, e + 1])
        k[at] = k[at] + np.outer(x[:2], x[:2])
    return (k.toarray() ** 2).sum()


def by_keys(x: Any) -> Any:
    k = sparse.dok_matrix((3, 3))
    for i in range(3):
        k[i, i] = x[i] + 2.0
        k[i, -1] += x[0]
    k[0, 0] = 1.0
    return (k.tocsr() @ x).sum() + k[1, 1] ** 2 + k[0, 1]


def by_sums(x: Any) -> Any:
    k = sparse.lil_matrix((4, 4))

    def meanwhile(value: Any) -> Any:
        k[0, 0] += 10 * value
        k[3, 0] += value
        return value

    k[0, 0] += x[0]
    k[0, 0] += meanwhile(x[1])  # Python had read the element before
    k[3, 0] += meanwhile(x[2])
    k[1, 1] += x[0]
    looked = k[1, 1] * 2.0
    k[1, 1] += x[1]
    k[1, 1] += 3.0
    k[1, 1] += x[2]
    k[1, 1] *= 2.0
    k[-1, -1] += x[2]
    k[3, 3] += x[2]
    k[3, 3] += k[3, 3]
    k[3, 3] -= x[0]
    k[0, 1] += x[0]
    k[0, 1] += x[0]
    k[0:2, 0:2] = k[0:2, 0:2] * 2.0
    k[0, 1] += x[1]
    k[0, 2] = x[0]
    k[0, 2] += x[1]
    k[0, 2] += x[1]
    with pytest.raises(ZeroDivisionError):
        k[2, 2] += x[0] / (1 // 0)
    with pytest.raises(IndexError):
        k[7, 7] += x[0]
    return (k.toarray() ** 2).sum() + looked


def into_what_is_there(x: Any) -> Any:
    k = sparse.csr_matrix(np.eye(3))
    k[0, 0] += x[0]
    k[1, 2] = x[1]
    k[2] = x
    return (k.toarray() ** 2).sum() * k.nnz


@pytest.mark.parametrize("f", [by_elements, by_blocks, by_keys, by_sums, into_what_is_there])
@pytest.mark.filterwarnings("ignore:Changing the sparsity")
def test_matrices_are_written_by_elements(f: Any) -> None:
    x = np.array([0.7, 1.3, 0.4])
    slopes = np.array([(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(3)])
    np.testing.assert_allclose(fc.grad(f)(x), slopes, rtol=1e-6, atol=1e-7)
    compiled, slope = fc.jit(f), fc.jit(fc.grad(f))
    for _ in range(3):
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-12)
        np.testing.assert_allclose(slope(x), slopes, rtol=1e-6, atol=1e-7)
    rows = np.stack([x, x + 0.1])
    np.testing.assert_allclose(fc.vmap(f)(rows), [f(r) for r in rows], rtol=1e-12)


def test_a_matrix_made_outside_is_not_written() -> None:
    k = sparse.lil_matrix((3, 3))

    def f(x: Any) -> Any:
        k[0, 0] = x
        return k.sum()

    with pytest.raises(TypeError, match=r"K = K.copy\(\)"):
        fc.grad(f)(1.0)
    assert k.nnz == 0
