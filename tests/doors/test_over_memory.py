"""Arrays, and objects of array subclasses, that are made over the memory of a traced value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import grad, jit, jvp, vmap

X = np.array([1.0, 2.0, 3.0, 4.0])
WEIGHTS = np.array([0.5, -1.0, 2.0, 3.0])


class Quaternion(np.ndarray):
    def __new__(cls, q: Any) -> Any:
        q = np.array(q, dtype=float)
        return super().__new__(cls, q.shape, float, q / np.sqrt(np.sum(q**2)))

    @property
    def w(self) -> Any:
        return self[0]

    def conjugated(self) -> Any:
        return np.array([self[0], -self[1], -self[2], -self[3]])


class Named(np.ndarray):
    def __new__(cls, shape: Any, dtype: Any = float, buffer: Any = None, offset: int = 0, strides: Any = None) -> Any:
        made = super().__new__(cls, shape, dtype, buffer, offset, strides)
        made.name = "named"
        return made


class Begun(np.ndarray):
    def __new__(cls, x: Any, scale: float) -> Any:
        return super().__new__(cls, x.shape, float, x)

    def __init__(self, x: Any, scale: float) -> None:
        self.scale = scale


def named(x: Any) -> Any:
    made = Named(x.shape, float, x)
    return np.sum(made**2) * len(made.name) * isinstance(made, Named)


def begun(x: Any) -> Any:
    made = Begun(x, 3.0)
    return np.sum(made**2) * made.scale


def unit(x: Any) -> Any:
    return x / np.sqrt(np.sum(x**2))


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {  # and the same without memory
    "array": (lambda x: np.sum(np.ndarray(x.shape, float, x) ** 2), lambda x: np.sum(x**2)),
    "by_names": (lambda x: np.sum(np.ndarray(shape=(4,), dtype=float, buffer=x) ** 2), lambda x: np.sum(x**2)),
    "shape": (lambda x: np.sum(np.ndarray((2, 2), float, x)[0] ** 2), lambda x: np.sum(x[:2] ** 2)),
    "order": (lambda x: np.sum(np.ndarray((2, 2), float, x, order="F")[0] ** 2), lambda x: np.sum(x[::2] ** 2)),
    "offset": (lambda x: np.sum(np.ndarray(2, float, x, 8) ** 2), lambda x: np.sum(x[1:3] ** 2)),
    "subclass": (lambda x: Quaternion(x).w, lambda x: unit(x)[0]),
    "method": (lambda x: Quaternion(x).conjugated() @ WEIGHTS, lambda x: unit(x) @ (WEIGHTS * [1.0, -1.0, -1.0, -1.0])),
    "attribute": (named, lambda x: 5.0 * np.sum(x**2)),
    "initialized": (begun, lambda x: 3.0 * np.sum(x**2)),
    "of_its_own": (lambda x: np.sum(np.ndarray.__new__(Quaternion, (4,), float, x) ** 2), lambda x: np.sum(x**2)),
}
WAYS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "plain": lambda f: f(X),
    "grad": lambda f: grad(f)(X),
    "jvp": lambda f: jvp(f, (X,), (WEIGHTS,))[1],
    "vmap": lambda f: vmap(f)(np.stack([X, -X, WEIGHTS])),
    "jit": lambda f: jit(f)(X),
    "third": lambda f: [j(X) for j in [jit(grad(f))] for _ in range(3)][2],
}


@pytest.mark.filterwarnings("ignore::funcad.errors.NotCompiledWarning")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_the_elements_that_were_there(case: str, way: str) -> None:
    over, expected = CASES[case]
    np.testing.assert_allclose(WAYS[way](over), WAYS[way](expected), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("args", [(2, np.float32, 0), (2, float, 4), (5, float, 0)])
def test_other_bytes_are_refused(args: Any) -> None:
    shape, dtype, offset = args
    with pytest.raises(TypeError, match=r"np\.asarray\(x\)\.view\(cls\)"):
        grad(lambda x: np.sum(np.ndarray(shape, dtype, x, offset)))(X)
