"""Positions that are known and out of bounds raise where they are used, also inside jit and vmap: a program may catch them."""

from __future__ import annotations

import numpy as np
import pytest

from funcad import grad, jit, jvp, scan, vmap
from funcad.numpy import at

USES = {
    "read": lambda x: x[[0, 9]],
    "inner axis": lambda x: x[:, [0, -4]],
    "pairs": lambda x: x[[0, 1], [1, 9]],
    "array": lambda x: x[np.array([[0], [3]])],
    "update": lambda x: at(x)[:, [0, 9]].set(3.0),
    "accumulated": lambda x: at(x)[[0, 3]].add(1.0),
}
TRANSFORMED = {
    "jit": lambda f: jit(f),
    "vmap": lambda f: lambda x: vmap(f)(x[None])[0],
    "jit(vmap)": lambda f: lambda x: jit(vmap(f))(x[None])[0],
    "scan": lambda f: lambda x: scan(lambda c, y: (c, f(y)), 0.0, x[None])[1][0],
    "jvp": lambda f: lambda x: jvp(f, (x,), (x,))[0],
    "grad": lambda f: lambda x: x + grad(lambda y: np.sum(f(y) - y))(x),
}


@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("use", USES)
def test_out_of_bounds_is_caught_where_it_happens(use: str, name: str) -> None:
    x = np.arange(9.0).reshape(3, 3)

    def caught(y):
        try:
            y = USES[use](y)
        except IndexError as error:
            assert "is out of bounds for axis" in str(error)
            y = y + 2.0
        return y

    expected = x if name == "grad" else x + 2.0
    np.testing.assert_array_equal(TRANSFORMED[name](caught)(x), expected)


@pytest.mark.parametrize("use", USES)
def test_the_message_is_numpys(use: str) -> None:
    x = np.arange(9.0).reshape(3, 3)
    with pytest.raises(IndexError) as numpys:
        USES[use](x)
    with pytest.raises(IndexError) as ours:
        jit(USES[use])(x)
    assert str(ours.value) == str(numpys.value)
