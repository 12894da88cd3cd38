"""Small programs with sparse arrays of traced elements beside the same ones with dense arrays, in every transformation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg as dense
import scipy.sparse as sp
import scipy.sparse.linalg as spl

from funcad import grad, jit, jvp, value_and_grad, vmap

pytestmark = pytest.mark.filterwarnings("ignore:Changing the sparsity")
N = 6
ROW, COL = (
    np.array([0, 0, 1, 2, 2, 4, 5, 5, 0, 1]),
    np.array([1, 2, 0, 2, 5, 3, 0, 4, 1, 5]),
)  # one twice, and an empty row
X = np.random.default_rng(0).uniform(0.5, 1.5, 10)
V, W = np.linspace(-1, 1, N), np.linspace(0.3, 1.3, 2 * N).reshape(N, 2)
B = np.where(np.random.default_rng(1).uniform(size=(N, N)) < 0.4, 0.7, 0.0)
S, E, F = sp.csr_matrix(B), 4 * np.eye(N), np.array([0, 2, 4, 5])
K4 = sp.csc_matrix(E)
KINDS: dict[str, Callable[[str, Any], Any]] = {
    "coo": lambda kind, x: coo(kind, x),
    "csr": lambda kind, x: getattr(sp, f"csr_{kind}")((x, (ROW, COL)), shape=(N, N)),
    "csc": lambda kind, x: getattr(sp, f"csc_{kind}")((x, (ROW, COL)), shape=(N, N)),
    "lil": lambda kind, x: by_elements(getattr(sp, f"lil_{kind}")((N, N), dtype=x.dtype), x),
    "dok": lambda kind, x: by_elements(getattr(sp, f"dok_{kind}")((N, N), dtype=x.dtype), x),
    "dense": lambda kind, x: getattr(sp, f"csr_{kind}")(full(x)),
}
PROGRAMS: list[tuple[Any, Any]] = [
    (lambda A, x: V @ A, lambda A, x: V @ A),
    (lambda A, x: W.T @ A, lambda A, x: W.T @ A),
    (lambda A, x: x[:N] @ A, lambda A, x: x[:N] @ A),
    (lambda A, x: A.T @ V + A.tocsr().T @ V, lambda A, x: 2 * A.T @ V),
    (lambda A, x: A.T.tocsr().data @ np.arange(9.0), lambda A, x: A.T[A.T != 0] @ np.arange(9.0)),
    (lambda A, x: A.tocsr().T.data @ np.arange(9.0), lambda A, x: A[A != 0] @ np.arange(9.0)),
    (lambda A, x: (A @ A + S @ A - A / x[1]).toarray(), lambda A, x: A @ A + B @ A - A / x[1]),
    (lambda A, x: A.multiply(V[:, None]).sum(axis=0), lambda A, x: (A * V[:, None]).sum(0)),
    (lambda A, x: A.tocsr()[F][:, F].toarray(), lambda A, x: A[F][:, F]),
    (lambda A, x: A.tocsc()[:, [1, 0, 3]].diagonal(), lambda A, x: np.diagonal(A[:, [1, 0, 3]])),
    (lambda A, x: sp.bmat([[A, S], [None, A.T]]).toarray(), lambda A, x: np.block([[A, B], [np.zeros((N, N)), A.T]])),
    (lambda A, x: sp.kron(A, np.array([[1.0, 2.0]])).toarray(), lambda A, x: np.kron(A, np.array([[1.0, 2.0]]))),
    (lambda A, x: (sp.diags([x[:N], x[:5]], [0, 1]) + A).toarray(), lambda A, x: np.diag(x[:N]) + np.diag(x[:5], 1) + A),
    (lambda A, x: (sp.diags(A.diagonal()) @ A + x[1] * sp.identity(N)).toarray(),
     lambda A, x: np.diag(np.diagonal(A)) @ A + x[1] * np.eye(N)),
    (lambda A, x: spl.spsolve((A + K4).tocsc(), x[:N]), lambda A, x: np.linalg.solve(A + E, x[:N])),
    (lambda A, x: spl.splu((A + K4).tocsc()).solve(V, "T"), lambda A, x: np.linalg.solve((A + E).T, V)),
    (lambda A, x: spl.gmres((A + K4).tocsr(), V, rtol=1e-13)[0], lambda A, x: np.linalg.solve(A + E, V)),
    (lambda A, x: spl.expm_multiply(-0.3 * A.tocsr(), W), lambda A, x: dense.expm(-0.3 * A) @ W),
    (lambda A, x: spl.inv((A + K4).tocsc()).toarray(), lambda A, x: np.linalg.inv(A + E)),
    (lambda A, x: spl.norm(A.tocsr()), lambda A, x: np.linalg.norm(A)),
    (lambda A, x: written(A.tolil(), x), lambda A, x: written(A * 1.0, x)),
    (lambda A, x: written(A.todok(), x), lambda A, x: written(A * 1.0, x)),
    (lambda A, x: written(A.tocsr(), x), lambda A, x: written(A * 1.0, x)),
    (lambda A, x: twice_in_place(A.tocsr()), lambda A, x: A * 2),
    (lambda A, x: twice_in_place(A.tocsc()), lambda A, x: A * 2),
    (lambda A, x: twice_in_place(A.tocsr().T).T, lambda A, x: A * 2),
    (lambda A, x: twice_in_place(A.todia()), lambda A, x: A * 2),
    (lambda A, x: twice_in_place(A.tocsr().tobsr((2, 2))), lambda A, x: A * 2),
    (lambda A, x: twice_by_name(A.tocsr()), lambda A, x: A * 2),
    (lambda A, x: twice_by_name(A.tocsc()), lambda A, x: A * 2),
    (lambda A, x: twice_by_name(A.copy()), lambda A, x: A * 2),
    (lambda A, x: one_column(A.tocsc(), x), lambda A, x: A * np.where(np.arange(N) == 2, x[0], 1.0)),
    (lambda A, x: others_apart(A.tocsr()), lambda A, x: A),
    (lambda A, x: twice_in_place(A.tocsr().tocoo()).tocsr() + twice_shared(A.tocsr()), lambda A, x: A * 4),
    (lambda A, x: by_items(A.todok()), lambda A, x: A),
]  # fmt: skip


def coo(kind: str, x: Any) -> Any:
    return getattr(sp, f"coo_{kind}")((x, (ROW, COL)), shape=(N, N))


def full(x: Any) -> Any:
    a = np.zeros((N, N), x.dtype)
    np.add.at(a, (ROW, COL), x)
    return a


def by_elements(a: Any, x: Any) -> Any:
    for k in range(len(ROW)):
        a[ROW[k], COL[k]] += x[k]
    return a


def written(a: Any, x: Any) -> Any:
    a[0, 0] = 3.0
    a[0, 0] += x[2]
    a[-1, 0] *= 2.0
    a[3, 3] -= 1.5
    a[1:3, 1:3] += np.diag(x[:2])
    a[0, 1], a[2, 5] = a[2, 5], a[0, 1]
    return a


def twice_in_place(a: Any) -> Any:
    a.data[:] = a.data * 2.0
    return a


def twice_by_name(a: Any) -> Any:
    a.data *= 0.5
    a.data = a.data * 4.0
    return a


def one_column(a: Any, x: Any) -> Any:
    a.data[a.indptr[2] : a.indptr[3]] *= x[0]
    return a


def others_apart(a: Any) -> Any:
    for other in (a.copy(), a.tocsc(), a.tocoo(copy=True), sp.csc_matrix(a), a.tocsr(copy=True)):
        other.data[:] = 0.0
    return a


def twice_shared(a: Any) -> Any:
    a.tocoo().data[:] *= 2.0
    return a.tocsr()


def by_items(a: Any) -> Any:
    out = np.zeros((N, N))
    for (i, j), v in a.items():
        out[i, j] = v
    return out


def number(out: Any) -> Any:
    out = out.toarray() if hasattr(out, "toarray") else np.asarray(out)
    return np.real(out.ravel() @ np.arange(1, out.size + 1)) if out.ndim else out * 1.0


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program: tuple[Any, Any], kind: str) -> None:
    ours, other = program
    check(lambda x: number(ours(coo(kind, x), x)), lambda x: number(other(full(x), x)), X)


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("name", KINDS)
def test_kinds_and_dtypes(name: str, kind: str, dtype: Any) -> None:
    x = X.astype(dtype) * (1 if dtype is not np.complex128 else 1 + 0.2j)
    solved = lambda a: (
        spl.spsolve((a + K4).tocsc(), V)
        + a.diagonal()
        + (a @ a).toarray()[1]
        + a.tocsr()[F][:, F].sum()
    )
    expected = lambda a: np.linalg.solve(a + E, V) + np.diagonal(a) + (a @ a)[1] + a[F][:, F].sum()
    check(lambda x: number(solved(KINDS[name](kind, x))), lambda x: number(expected(full(x))), x)


# -- finite elements: bars in a row, assembled in the ways in which people do it


def stiffness(k, h):
    a = np.zeros((2, 2))
    a[0, 0] = a[1, 1] = 1.0
    a[0, 1] = a[1, 0] = -1.0
    return k * a / h + k**2 * np.ones((2, 2))


def appended(x, rows, cols, data):
    for e in range(len(x)):
        a = stiffness(x[e], 0.5 + e)
        for i in range(2):
            for j in range(2):
                rows.append(e + i)
                cols.append(e + j)
                data.append(a[i, j])
    return data


def extended(x, rows, cols, data):
    for e, k in enumerate(x):
        rows.extend([e, e, e + 1, e + 1])
        cols.extend([e, e + 1, e, e + 1])
        data.extend(stiffness(k, 0.5 + e).ravel())
    return data


def symmetric(x, rows, cols, data):
    """The upper half, and its mirror image; and a known number at the end."""
    for e in range(len(x)):
        a = stiffness(x[e], 0.5 + e)
        rows += [e, e, e + 1, e + 1]
        cols += [e, e + 1, e, e + 1]
        data += [a[0, 0], a[0, 1], a[0, 1], a[1, 1]]
    return [*data[:-1], data[-1] + 0.0, *[1.0] * 70][: len(rows)]


def in_blocks(x, rows, cols, data):
    for e in range(len(x)):
        data.append(stiffness(x[e], 0.5 + e).flatten())
        rows.append([e, e, e + 1, e + 1])
        cols.append([e, e + 1, e, e + 1])
    rows[:], cols[:] = np.ravel(rows).tolist(), np.ravel(cols).tolist()
    return np.concatenate(data)


def into_places(x, rows, cols, data):
    found = np.zeros(4 * len(x))
    for e in range(len(x)):
        found[4 * e : 4 * e + 4] = stiffness(x[e], 0.5 + e).ravel()
        rows += [e, e, e + 1, e + 1]
        cols += [e, e + 1, e, e + 1]
    return found


def loads(n):
    b, ends = np.zeros(n), np.array([0, 1])
    for e in range(n - 1):
        b[ends + e] += 0.25
        b[e] += 0.5
    return b


@pytest.mark.share(3)
@pytest.mark.parametrize("assemble", [appended, extended, symmetric, in_blocks, into_places])
@pytest.mark.parametrize("make", [sp.coo_matrix, sp.csr_array])
def test_finite_elements(assemble: Any, make: Any) -> None:
    x, n = np.linspace(0.5, 1.5, 20), 21

    def f(x: Any) -> Any:
        rows: list[Any] = []
        cols: list[Any] = []
        data = assemble(x, rows, cols, [])
        K = make((data, (rows, cols)), shape=(n, n))
        b = loads(n)
        return np.sum(spl.spsolve(K.tocsc(), b) * b)

    def g(x: Any) -> Any:
        K = sum([np.pad(stiffness(x[e], 0.5 + e), ((e, n - 2 - e),) * 2) for e in range(n - 1)])
        b = loads(n)
        return np.sum(np.linalg.solve(K, b) * b)

    check(f, g, x)


def check(f: Callable[[Any], Any], g: Callable[[Any], Any], x: np.ndarray) -> None:
    tolerance = {"rtol": 1e-7, "atol": 1e-8} if x.dtype != np.float32 else {"rtol": 2e-4, "atol": 1e-3}
    value, slope = value_and_grad(f)(x)
    expected = grad(g)(x)
    np.testing.assert_allclose(value, g(x), **tolerance)
    np.testing.assert_allclose(f(x.copy()), g(x), **tolerance)
    np.testing.assert_allclose(slope, expected, **tolerance)
    np.testing.assert_allclose(jvp(f, (x,), (x,))[1], jvp(g, (x,), (x,))[1], **tolerance)
    compiled = jit(grad(f))
    for _ in range(2):
        np.testing.assert_allclose(compiled(x), expected, **tolerance)
    rows = np.stack([x, x * 1.1])
    np.testing.assert_allclose(vmap(f)(rows), [g(r) for r in rows], **tolerance)
    if x.dtype == np.float64:
        along = lambda h: jvp(grad(h), (x,), (np.cos(x),))[1]
        np.testing.assert_allclose(along(f), along(g), **tolerance)
