"""Refusals of functions of NumPy's and SciPy's on traced values: each names what was called, and its remedy runs.

The table is that of test_mistakes.py: `right` is the program with the remedy in it, and gives `value`.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import scipy.sparse
import scipy.spatial
import scipy.stats

import funcad
from funcad import grad, jit
from tests.whole.test_mistakes import Mistake, told

X = np.array([1.0, 2.0, 3.0])
P = np.array([[0.0, 0.0], [1.0, 0.1], [0.9, 1.0], [0.1, 0.8], [0.5, 0.45]])
A = np.array([[2.0, 1.0], [1.0, 3.0]])
TABLE = [("mass", float), ("speed", float)]


def table(x: Any) -> Any:
    out = np.zeros(3, dtype=TABLE)
    out["mass"], out["speed"] = x, 2.0
    return out


def at(ufunc: np.ufunc) -> Any:
    def f(x: Any) -> Any:
        y = np.array(x)
        ufunc.at(y, np.zeros(99, int), 3.0)
        return np.sum(y * y)

    return f


def hypot(x: Any) -> Any:
    y = np.array(x)
    y[[0, 1]] = np.hypot(y[[0, 1]], 3.0)
    return np.sum(y * y)


def solved(d: Any, b: Any) -> Any:
    return scipy.sparse.linalg.spsolve(scipy.sparse.diags_array(d).tocsr(), b).sum()


def spread(sigma: Any, **options: Any) -> Any:
    return np.sum(scipy.ndimage.gaussian_filter1d(X, sigma, **options) * X[::-1] ** 2)


def slope(f: Any, x: float) -> float:
    return float(f(x + 1e-6) - f(x - 1e-6)) / 2e-6


DEGENERATE = np.outer(X, X)
NORMAL = scipy.stats.multivariate_normal
RIDGE = 1e-3 * np.eye(3)
MISTAKES = [
    Mistake("an attribute of a structured array", AttributeError, lambda: grad(lambda x: np.sum(table(x).mass))(X),
            ["structured array", "'mass'"], "its fields, s[name], are arrays",
            lambda: grad(lambda x: np.sum(table(x)["mass"] ** 2))(X), 2 * X),
    Mistake("a structured array viewed", TypeError, lambda: grad(lambda x: np.sum(table(x).view(float)))(X),
            ["structured array", "float"], "take its fields, s[name]",
            lambda: grad(lambda x: np.sum(table(x)["mass"] + table(x)["speed"]))(X), np.ones(3)),
    Mistake("a structured array given", TypeError, lambda: jit(table)(X), ["structured array"], "give its fields, s[name]",
            lambda: jit(lambda x: table(x)["mass"])(X), X),
    Mistake("ufunc.at of others", TypeError, lambda: grad(at(np.hypot))(X), ["np.hypot.at", "64 times"],
            "x[index] = np.hypot(x[index], ...)", lambda: grad(hypot)(X), 2 * X),
    Mistake("methods of masked arrays", AttributeError, lambda: grad(lambda x: np.ma.masked_less(x, 1.5).argsort().sum())(X),
            ["masked array", "'argsort'"], "x.filled(value)",
            lambda: grad(lambda x: np.sort(np.ma.masked_less(x, 1.5).filled(0.0))[-1])(X), [0.0, 0.0, 1.0]),
    Mistake("a memmap's view", TypeError, lambda: grad(lambda x: x.view(np.memmap).sum())(X), ["x.view(memmap)"],
            "write functions of x", lambda: grad(lambda x: x.sum())(X), np.ones(3)),
    Mistake("a matrix", TypeError, lambda: grad(lambda a: (a.view(np.matrix) * a.view(np.matrix)).trace()[0, 0])(A),
            ["x.view(matrix)"], "x @ y for * of matrices", lambda: grad(lambda a: np.trace(a @ a))(A), 2 * A.T),
    Mistake("a filter of traced width", TypeError, lambda: grad(spread)(0.5), ["gaussian_filter1d", "sigma"], "give radius=",
            lambda: grad(lambda s: spread(s, radius=2))(0.5), slope(lambda s: spread(s, radius=2), 0.5)),
    Mistake("a sparse right-hand side", TypeError, lambda: grad(lambda d: solved(d, scipy.sparse.csr_array(X[:, None])))(X),
            ["spsolve", "right-hand side"], "b.toarray()",
            lambda: grad(lambda d: solved(d, scipy.sparse.csr_array(X[:, None]).toarray()))(X), -1 / X),
    Mistake("incremental hulls", TypeError, lambda: grad(lambda x: scipy.spatial.ConvexHull(x, incremental=True).volume)(P),
            ["ConvexHull(incremental=True)"], "make it anew from all points",
            lambda: np.sum(grad(lambda x: scipy.spatial.ConvexHull(x).volume)(P) * P), 2 * scipy.spatial.ConvexHull(P).volume),
    Mistake("numbers of a hull", AttributeError, lambda: grad(lambda x: np.sum(scipy.spatial.Delaunay(x).paraboloid_scale))(P),
            ["Delaunay.paraboloid_scale"], "Delaunay(funcad.stop_gradient(points))",
            lambda: grad(lambda x: np.sum(x) * scipy.spatial.Delaunay(funcad.stop_gradient(x)).paraboloid_scale)(P),
            np.full((5, 2), scipy.spatial.Delaunay(P).paraboloid_scale)),
    Mistake("draws", funcad.errors.TracerArrayConversionError, lambda: grad(lambda s: scipy.stats.norm.rvs(0.0, s))(2.0),
            ["scipy.stats.norm.rvs"], "scipy.stats.norm.ppf(u, ...) of uniform draws u",
            lambda: grad(lambda s: scipy.stats.norm.ppf(0.7, 0.0, s))(2.0), scipy.stats.norm.ppf(0.7)),
    Mistake("a singular covariance", NotImplementedError,
            lambda: grad(lambda c: NORMAL.logpdf(X, X, c, allow_singular=True))(DEGENERATE),
            ["multivariate_normal", "allow_singular=True"], "add a multiple of the identity to cov",
            lambda: grad(lambda c: NORMAL.logpdf(X, X, c + RIDGE))(DEGENERATE), -np.linalg.inv(DEGENERATE + RIDGE) / 2),
    Mistake("a pattern that misses elements", ValueError,
            lambda: funcad.sparse.jacobian(lambda x: x * x[::-1], sparsity=np.eye(3, dtype=bool))(X),
            ["the pattern sparsity= misses elements"], "leave sparsity out",
            lambda: funcad.sparse.jacobian(lambda x: x * x[::-1])(X).toarray(), funcad.jacfwd(lambda x: x * x[::-1])(X)),
    Mistake("a start outside the domain", ValueError,
            lambda: funcad.stats.laplace(lambda x: -((x - 1.0) ** 2) + np.where(x > 5, -np.inf, 0.0), 9.0),
            ["the function is -inf at the start"], "start where it is finite",
            lambda: np.asarray(funcad.stats.laplace(lambda x: -((x - 1.0) ** 2), 2.0).mode), 1.0),
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=operator.attrgetter("name"))
def test_refusals_name_what_was_called_and_their_remedy_works(mistake: Mistake) -> None:
    with pytest.raises(mistake.kind) as info:
        mistake.wrong()
    text = told(info.value)
    assert text.count("Remedy: ") == 1 and mistake.remedy in text[text.index("Remedy: ") :], text
    for part in mistake.says:
        assert part in text, text
    np.testing.assert_allclose(mistake.right(), mistake.value, rtol=1e-5, atol=1e-8)
