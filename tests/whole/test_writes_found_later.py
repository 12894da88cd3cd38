"""What a longer search by random programs found: layouts of `ones_like`, views of numbers, errors that only NumPy raised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from funcad import jit, jvp, vjp, vmap
from funcad.errors import WriteError

X = np.arange(1.0, 17.0).reshape(4, 4)


def made_like_a_transpose(x):
    v = np.ones_like(x.T)
    w = v.ravel()
    w.fill(-0.7)
    return v + 0.0, w


def computed_from_it(x):
    v = np.ones_like(x.T) * 2.0
    w = v.ravel()
    w[0] = 99.0
    return v + x * 0.0, w


def written_and_read_as_it_lies(x):
    v = np.empty_like(x.T)
    v[...] = x
    w = v.ravel(order="K")
    w[1] = 55.0
    return v + 0.0, w


def in_columns(x):
    v = np.zeros((4, 3), order="F")
    v[0] = x[0, :3]
    w = (v * 2.0).reshape(-1)
    w[:] = 99.0
    return v + 0.0, w


def a_number_has_no_views(x):
    first = next(iter(x[0]))
    wide = np.atleast_2d(first)
    wide -= 0.7
    flat = np.reshape(first, (1,))
    flat *= 3.0
    return first * 1.0, wide, flat


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "f", [made_like_a_transpose, computed_from_it, written_and_read_as_it_lies, in_columns, a_number_has_no_views]
)
def test_numpy_says_what_is_right(f: Any, order: str) -> None:
    """Or it is said that the memory order is not known."""
    x = np.asarray(X, order=order)
    wanted = f(x.copy(order="K"))
    for g in (jit(f), lambda x: jvp(f, (x,), (x,))[0], lambda x: vjp(f, x)[0], lambda x: [y[0] for y in vmap(f)(x[None])]):
        try:
            found = g(x.copy(order="K"))
        except WriteError as error:
            assert "memory order, which is not known" in str(error) and f in (computed_from_it, in_columns)
            continue
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)


def subtracted_at(x):
    np.subtract.at(x[0], (0,), x[1, :1])


def added_at(x):
    np.add.at(x[0], [0, 1], x[None, 1, :2])


def partitioned(x):
    x[:, :1].copy().partition(1)


def a_diagonal_of_one_column(x):
    return np.einsum("ii->i", x[:, :1])


def an_array_into_an_element(x):
    x[0, 0] = x[1, :1]


@pytest.mark.parametrize(
    "f", [subtracted_at, added_at, partitioned, a_diagonal_of_one_column, an_array_into_an_element]
)
def test_errors_are_numpys(f: Any) -> None:
    try:
        f(X.copy())
    except ValueError:
        pass
    else:
        pytest.skip("this version of NumPy does it")
    for g in (jit(f), lambda x: jvp(f, (x,), (x,)), lambda x: vjp(f, x)):
        with pytest.raises(ValueError):
            g(X.copy())
