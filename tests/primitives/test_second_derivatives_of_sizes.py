"""The size of a complex number has its second derivatives wherever they are numbers themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import grad, hessian, jacfwd, jacrev, jit, jvp, vmap

SECOND = np.array([[0.128, -0.096], [-0.096, 0.072]])  # of hypot at (3, 4)
SIZES: dict[str, Callable[[Any], Any]] = {
    "abs": lambda v: np.abs(v[0] + 1j * v[1]),
    "of an array": lambda v: np.sum(np.abs(v[:1] + 1j * v[1:])),
    "hypot": lambda v: np.hypot(v[0], v[1]),
}
WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "hessian": lambda f, v: hessian(f)(v),
    "forward twice": lambda f, v: jacfwd(jacfwd(f))(v),
    "backward twice": lambda f, v: jacrev(jacrev(f))(v),
    "backward over forward": lambda f, v: jacrev(jacfwd(f))(v),
    "by columns": lambda f, v: np.stack([jvp(grad(f), (v,), (e,))[1] for e in np.eye(2)], axis=1),
    "vmap": lambda f, v: vmap(hessian(f))(v[None])[0],
    "jit": lambda f, v: [g(v) for g in [jit(hessian(f))] for _ in range(3)][2],
}


@pytest.mark.parametrize("scale", [1.0, 1e200, 1e300, 1e-160, 1e-300])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", SIZES)
def test_large_and_small_numbers(size: str, way: str, scale: float) -> None:
    v = scale * np.array([3.0, 4.0])
    np.testing.assert_allclose(grad(SIZES[size])(v), [0.6, 0.8], rtol=1e-14)
    np.testing.assert_allclose(WAYS[way](SIZES[size], v) * scale, SECOND, rtol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_at_zero(size: str) -> None:
    zero = np.zeros(2)
    assert np.array_equal(grad(SIZES[size])(zero), zero) and np.isnan(hessian(SIZES[size])(zero)).all()
