"""Triangular systems in stacks, solved at once: SciPy's solution of each."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from funcad.primitives.linear_systems import triangular_solve

R = np.random.default_rng(0)
SHAPES = [(1, 3, 3), (7, 1, 1), (50, 4, 4), (3, 5, 9, 9), (20, 31, 31), (2, 0, 2, 2), (4, 40, 40)]


@pytest.mark.share(4)
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_as_one_by_one(shape: tuple[int, ...], lower: bool, transposed: bool, unit: bool) -> None:
    n = shape[-1]
    for dtype, tolerance in (("f", 1e-4), ("d", 1e-12), ("F", 1e-4), ("D", 1e-12)):
        a, b = R.normal(size=shape) / n + np.eye(n), R.normal(size=(*shape[:-1], 2))
        if dtype in "FD":
            a, b = a * np.exp(1j * R.normal(size=shape[:-2]))[..., None, None], b * 1j
        a, b = a.astype(dtype), b.astype(dtype)
        for given in (b, np.swapaxes(np.ascontiguousarray(np.swapaxes(b, -1, -2)), -1, -2), b[..., ::-1]):
            before = a.copy(), given.copy()
            found = triangular_solve(a, given, lower=lower, transposed=transposed, unit_diagonal=unit)
            assert found.dtype == given.dtype and found.shape == given.shape and found.flags.c_contiguous
            for i in np.ndindex(*shape[:-2]):
                one = scipy.linalg.solve_triangular(a[i], given[i], trans=int(transposed), lower=lower, unit_diagonal=unit)
                np.testing.assert_allclose(found[i], one, rtol=tolerance, atol=tolerance)
            assert np.array_equal(a, before[0]) and np.array_equal(given, before[1])


def test_singular_and_not_finite() -> None:
    a, b = np.broadcast_to(np.eye(3), (9, 3, 3)).copy(), R.normal(size=(9, 3, 1))
    a[4, 1, 1] = 0.0
    with pytest.raises(np.linalg.LinAlgError, match="diagonal 1"):
        triangular_solve(a, b)
    assert np.array_equal(triangular_solve(a, b, unit_diagonal=True), b)
    a[4, 1, 1], b[2, 0, 0] = np.nan, np.inf
    found = triangular_solve(a, b, lower=True)
    assert np.isnan(found[4, 1]).all() and np.isfinite(np.delete(found, (2, 4), axis=0)).all()
