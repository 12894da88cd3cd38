"""`out=, where=`: of elements that the mask leaves out nothing is computed, so nothing is warned of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import hessian, jit, jvp, value_and_grad, vmap

A = np.array([1.0, 2.0, 3.0])
B = np.array([0.0, 2.0, -1.0])

MASKED: dict[str, Callable[[Any], Any]] = {
    "divide": lambda a: np.divide(a, B, out=np.zeros(3), where=B != 0),
    "by a traced one": lambda a: np.divide(B, a - 1, out=np.zeros(3), where=a != 1),
    "log": lambda a: np.log(a - 1, out=np.zeros(3), where=a > 1),
    "into itself": lambda a: np.log(a - 1, out=a, where=a > 1),
    "sqrt": lambda a: np.sqrt(a - 2, out=np.zeros_like(a), where=a > 2.5),
    "power": lambda a: np.power(a - 2, 0.5, out=np.ones(3), where=a > 2),
    "arctanh": lambda a: np.arctanh(a / 2, out=np.ones(3), where=a < 2),
    "exp": lambda a: np.exp(a * 1000, out=np.zeros(3), where=a < 0),
    "broadcast": lambda a: np.divide(np.ones((2, 3)), a - 1, out=np.zeros((2, 3)), where=a != 1),
    "single": lambda a: np.divide(a, B, out=np.zeros(3, np.float32), where=B != 0),
    "nothing": lambda a: np.divide(a, 0 * B, out=np.zeros(3), where=False),
}


@pytest.mark.parametrize("name", MASKED)
def test_nothing_is_said_of_them(name: str) -> None:
    f = lambda a: np.sum(MASKED[name](a))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "grad: the output")
        wanted = f(A.copy())
        for found in (
            value_and_grad(f)(A.copy()),
            jvp(f, (A.copy(),), (np.ones(3),)),
            [wanted, hessian(f)(A.copy())],
            jit(value_and_grad(f))(A.copy()),
            [x[0] for x in vmap(value_and_grad(f))(A[None].copy())],
        ):
            np.testing.assert_allclose(found[0], wanted)
            assert np.isfinite(found[1]).all()


def test_of_the_others_it_is_said_at_the_line() -> None:
    def f(a: Any) -> Any:
        return np.sum(np.log(a - 1, out=np.zeros(3), where=a < 3))

    for g in (value_and_grad(f), lambda a: jvp(f, (a,), (np.ones(3),))):
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in log") as caught:
            g(A.copy())
        assert len(caught) == 1 and caught[0].filename == __file__
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
            g(A.copy())
        with np.errstate(divide="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            g(A.copy())


@pytest.mark.parametrize("function", [np.tril, np.triu])
@pytest.mark.parametrize("transform", [jit, value_and_grad, vmap])
def test_triangles_of_a_number_raise_as_in_numpy(function: Any, transform: Any) -> None:
    with pytest.raises(Exception) as expected:
        function(2.0)
    with pytest.raises(expected.type):
        transform(lambda x: np.sum(function(x)))(A if transform is vmap else A[0])


def test_resize_in_place_says_what_to_write() -> None:
    def f(x: Any) -> Any:
        x.resize(6)
        return np.sum(x)

    for g in (jit(f), value_and_grad(f)):
        with pytest.raises(TypeError, match=r"x.resize\(\)[\s\S]*Remedy: y = np.resize"):
            g(A)
