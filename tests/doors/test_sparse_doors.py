"""Sparse matrices with traced elements, assembled and solved with SciPy's own names, in every transformation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
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
        with pytest.raises(TypeError, match="cannot be written(.|\n)*coo_matrix"):
            k[0, 0] = 1.0
        return k.sum()

    np.testing.assert_allclose(fc.grad(f)(D), np.ones(10))
    assert type(csr_matrix((D, (I, J)), shape=(4, 4))) is csr_matrix
    with pytest.raises(ValueError, match="inconsistent shapes"):
        fc.grad(lambda d: (csr_matrix((d, (I, J)), shape=(4, 4)) + eye(3)).sum())(D)
    with pytest.raises(ValueError, match="rows and"):
        fc.grad(lambda d: coo_matrix((d[:3], (I, J)), shape=(4, 4)).sum())(D)
    empty = fc.grad(lambda d: csr_matrix((d, (I, J)), shape=(4, 4))[:0].sum() + d.sum())(D)
    np.testing.assert_allclose(empty, np.ones(10))
