"""Distribution functions that are made of others: SciPy's values outside their domains, and its dtypes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy
import scipy.special as sp

import funcad as fc

OLD = np.lib.NumpyVersion(scipy.__version__) < "1.17.0"
POINTS = [np.nan, -1.5, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 2.0, 2.5, 3.0, np.inf, -np.inf]
LAWS = {
    "pdtr": 2, "pdtrc": 2, "chdtr": 2, "chdtrc": 2, "chdtri": 2, "gdtr": 3, "gdtrc": 3, "fdtr": 3, "fdtrc": 3, "bdtr": 3,
    "bdtrc": 3, "nbdtr": 3, "nbdtrc": 3,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # of SciPy, on numbers of trials that are not whole
@pytest.mark.parametrize("name", LAWS)
def test_special_points(name: str):
    args = np.array(list(itertools.product(POINTS, repeat=LAWS[name]))).T
    if name[0] == "f":
        args = args[:, np.isfinite(args[0] * args[1]) | np.isfinite(args[2])]  # infinity over infinity
        if OLD:  # of one infinity it gave NaN, or a number where the limit is another
            args = args[:, ~np.isinf(args).any(axis=0)]
    expected = getattr(sp, name)(*args)
    found = fc.jit(lambda *args: getattr(sp, name)(*args))(*args)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", ["pdtr", "pdtrc", "chdtr", "chdtrc", "stdtr", "pseudo_huber", "eval_laguerre", "gammainc"])
def test_dtypes_that_meet(name: str):
    x = np.array([0.5, 1.5, 2.5], np.float32)
    f: Any = getattr(sp, name)
    for parameter in (2, 1.5, np.float64(1.5), np.float32(1.5), np.array([1.5, 2.5, 3.5])):
        if name == "eval_laguerre" and type(parameter) is int:
            continue
        expected = f(parameter, x)
        for found in (fc.jit(lambda x, p=parameter: f(p, x))(x), fc.jit(f)(parameter, x)):
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-5)
        if np.ndim(parameter) == 0:
            found = fc.vmap(lambda x, p=parameter: f(p, x))(x)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("b", [1, 2.0, np.int64(1), np.float32(2), np.float64(0.5), np.ones((2, 1)), [1, 2, 0], [1, 1, 1]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_weights_of_logsumexp(b: Any, dtype: Any):
    x = np.array([1, 2, 4]).astype(dtype)
    for axis in (None, -1):
        expected = sp.logsumexp(x, b=b, axis=axis)
        found = fc.jit(lambda x, axis=axis: sp.logsumexp(x, b=b, axis=axis))(x)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)
