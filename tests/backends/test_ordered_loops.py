"""Gathers, scatters and running sums of every layout: the native engine and C give NumPy's bits, and its errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcad
import funcad.numpy as fnp
from funcad import grad, jit, vmap
from tests import c_compiler

pytest.importorskip("llvmlite")

DRAW = np.random.default_rng(31)


def numbers(*shape: int) -> np.ndarray:
    return DRAW.normal(size=shape)


def places(n: int, *shape: int, dtype: Any = np.int64) -> np.ndarray:
    low = 0 if np.dtype(dtype).kind == "u" else -n
    return DRAW.integers(low, n, shape).astype(dtype)


def added(x: Any, u: Any, *index: Any) -> np.ndarray:
    found = np.array(x)
    np.add.at(found, index, u)
    return found


# name: what is jitted, the same in NumPy, operands
GATHERS: dict[str, tuple[Callable[..., Any], tuple]] = {
    "elements": (lambda x, i: x[i], (numbers(9), places(9, 20))),
    "elements that lie apart": (lambda x, i: x[::2][i], (numbers(9), places(5, 20))),
    "elements of few bits": (lambda x, i: x[i], (numbers(9).astype(np.float32), places(9, 20, dtype=np.uint8))),
    "truths": (lambda x, i: x[i], (numbers(9) > 0, places(9, 20, dtype=np.int16))),
    "complex": (lambda x, i: x[i], (numbers(9, 2) + 1j * numbers(9, 2), places(9, 5, dtype=np.uint64))),
    "rows": (lambda x, i: x[i], (numbers(5, 19), places(5, 8))),
    "narrow rows": (lambda x, i: x[i], (numbers(5, 3), places(5, 8))),
    "rows of a transposed array": (lambda x, i: x.T[i], (numbers(19, 5), places(5, 8))),
    "rows turned round": (lambda x, i: x[:, ::-1][i], (numbers(5, 19), places(5, 8))),
    "blocks": (lambda x, i: x[i], (numbers(5, 4, 3), places(5, 2, 4))),
    "columns": (lambda x, i: x[:, i], (numbers(6, 7), places(7, 11))),
    "pairs": (lambda x, i, j: x[i, j], (numbers(6, 7), places(6, 11), places(7, 11))),
    "pairs of axes": (lambda x, i, j: x[i[:, None], j], (numbers(6, 7), places(6, 4), places(7, 5))),
    "pairs the other way": (lambda x, i, j: x[i, j[:, None]], (numbers(6, 7), places(6, 4), places(7, 5))),
    "one of many": (lambda x, i, j: x[i, j], (numbers(6, 7, 5), np.int64(-2), places(7, 5))),
    "transposed indices": (lambda x, i: x[i.T], (numbers(9), places(9, 4, 6))),
    "along an axis": (lambda x, i: fnp.take_along_axis(x, i, 1), (numbers(4, 6), places(6, 4, 9))),
    "no element": (lambda x, i: x[i], (numbers(5, 0), places(5, 3))),
    "no index": (lambda x, i: x[i], (numbers(5, 3), places(5, 0))),
    "one of one": (lambda x, i: x[i], (numbers(1, 1), places(1, 1))),
}
SCATTERS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple]] = {
    "elements": (lambda x, u, i: fnp.at(x)[i].add(u), added, (numbers(9), numbers(30), places(9, 30))),
    "a number": (lambda x, u, i: fnp.at(x)[i].add(u), added, (numbers(9), 0.1, places(9, 30))),
    "rows": (lambda x, u, i: fnp.at(x)[i].add(u), added, (numbers(5, 19), numbers(8, 19), places(5, 8))),
    "a row": (lambda x, u, i: fnp.at(x)[i].add(u), added, (numbers(5, 19), numbers(19), places(5, 8))),
    "a column": (lambda x, u, i: fnp.at(x)[i].add(u), added, (numbers(5, 19), numbers(8, 1), places(5, 8))),
    "pairs": (
        lambda x, u, i, j: fnp.at(x)[i, j].add(u), added, (numbers(5, 6), numbers(30), places(5, 30), places(6, 30)),
    ),
    "beside other columns": (
        lambda x, u, i: fnp.stack([fnp.at(x)[i].add(u), x], axis=1),
        lambda x, u, i: np.stack([added(x, u, i), x], axis=1),
        (numbers(5, 19), numbers(8, 19), places(5, 8)),
    ),
    "written": (
        lambda x, u, i: fnp.at(x)[i].set(u),
        lambda x, u, i: (y := np.array(x), y.__setitem__(i, u))[0],
        (numbers(5, 19), numbers(8, 19), places(5, 8)),
    ),
    "written again and again": (
        lambda x, u, i: fnp.at(x)[fnp.broadcast_to(i[:, None], (4, 3))].set(u),
        lambda x, u, i: (y := np.array(x), y.__setitem__(np.broadcast_to(i[:, None], (4, 3)), u))[0],
        (numbers(9), numbers(4, 3), places(9, 4)),
    ),
    "the largest": (
        lambda x, u, i: fnp.at(x)[i].max(u),
        lambda x, u, i: (y := np.array(x), np.maximum.at(y, i, u))[0],
        (numbers(5, 3), numbers(40, 3), places(5, 40)),
    ),
}  # fmt: skip


def native(f: Callable[..., Any], *args: Any) -> Any:
    with funcad.config.set(engine="native"):
        g = jit(f)
        found = g(*args)
        assert "engine native" in str(g.explain(*args)).splitlines()[0]
    return found


def in_c(folder: Path, f: Callable[..., Any], *args: Any) -> Any:
    jit(f).export_c(folder / "model", *args)
    return c_compiler.loaded(folder / "model").model(*args)


def same(found: Any, expected: Any) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", GATHERS)
def test_gathers(name: str) -> None:
    f, args = GATHERS[name]
    expected = f(*args) if name != "along an axis" else np.take_along_axis(*args, 1)
    same(native(f, *args), expected)


@pytest.mark.parametrize("name", SCATTERS)
def test_scatters(name: str) -> None:
    f, plain, args = SCATTERS[name]
    same(native(f, *args), plain(*args))


@pytest.mark.skipif(not c_compiler.available(), reason="there is no gcc and g++")
@pytest.mark.parametrize("name", ["elements", "rows", "blocks", "pairs of axes", "pairs the other way", "transposed indices"])
def test_gathers_in_c(name: str, tmp_path: Path) -> None:
    f, args = GATHERS[name]
    same(in_c(tmp_path, f, *args), f(*args))


@pytest.mark.skipif(not c_compiler.available(), reason="there is no gcc and g++")
@pytest.mark.parametrize("name", ["rows", "a column", "written", "the largest"])
def test_scatters_in_c(name: str, tmp_path: Path) -> None:
    f, plain, args = SCATTERS[name]
    same(in_c(tmp_path, f, *args), plain(*args))


@pytest.mark.skipif(not c_compiler.available(), reason="there is no gcc and g++")
@pytest.mark.parametrize("shape", [(40,), (4, 10), (4, 0), (8, 5)])
def test_of_repeated_updates_the_last_one_has_a_derivative(shape: tuple, tmp_path: Path) -> None:
    """In C, too, where it was refused."""
    u, x, i, w, size = numbers(*shape), numbers(9), places(9, *shape), numbers(9), int(np.prod(shape))
    if shape == (8, 5):
        i = np.broadcast_to(i[:, :1], shape)
    f = grad(lambda u, x, i, w: fnp.sum(fnp.at(x)[i].set(u) * w))
    last = np.full(9, -1)
    last[i.reshape(-1)] = np.arange(size)
    expected = np.where(last[i] == np.arange(size).reshape(shape), w[i], 0.0)
    same(native(f, u, x, i, w), expected)
    same(in_c(tmp_path, f, u, x, i, w), expected)


@pytest.mark.parametrize("size", [1, 5])
def test_one_index_of_many_updates_is_looked_at_once(size: int) -> None:
    """An index that is spread, in the program, over axes along which it does not change."""
    u, x, i, w = numbers(8, size), numbers(9), places(9, 8), numbers(9)
    spread = lambda i: fnp.broadcast_to(i[:, None], (8, size))
    last = np.full(9, -1)
    last[i] = np.arange(8)
    expected = np.zeros((8, size))
    expected[:, -1] = np.where(last[i] == np.arange(8), w[i], 0.0)
    same(native(grad(lambda u, x, i, w: fnp.sum(fnp.at(x)[spread(i)].set(u) * w)), u, x, i, w), expected)
    same(native(lambda x, i: x[spread(i)], x, i), np.broadcast_to(x[i][:, None], (8, size)))


@pytest.mark.parametrize("which", [0, 1])
def test_an_index_out_of_bounds_is_an_error_at_the_users_line(which: int) -> None:
    """Whichever loop it is looked at in; and nobody's array has been written."""
    x, u, index = numbers(6, 7), numbers(4, 5), [places(6, 4), places(7, 5)]
    index[which][-1] = (6, 7)[which]
    message = f"index {(6, 7)[which]} is out of bounds for axis {which} with size {(6, 7)[which]}"
    before = x.tobytes()
    with funcad.config.set(engine="native"):
        for f in (lambda x, u, i, j: x[i[:, None], j], lambda x, u, i, j: fnp.at(x)[i[:, None], j].add(u)):
            with pytest.raises(IndexError, match=message) as caught:
                jit(f)(x, u, *index)
            assert any(str(entry.path) == __file__ for entry in caught.traceback[1:])
    assert x.tobytes() == before


SHAPES = [(7,), (1,), (0,), (5, 6), (5, 1), (3, 4, 5), (2, 0, 3), (4, 9)]
AXES = [(shape, axis) for shape in SHAPES for axis in range(len(shape))]


@pytest.mark.parametrize("shape, axis", AXES)
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "backwards", "transposed", "complex"])
def test_running_totals_are_in_order(shape: tuple, axis: int, name: str) -> None:
    """As NumPy adds, from a first element that keeps its sign; in a vector of rows where the axis is not the last one."""
    x = numbers(*shape)
    x[..., :1] = -0.0
    if name == "complex":
        x = x + 1j * numbers(*shape)
    word = "cumprod" if name == "cumprod" else "cumsum"
    looked = {"backwards": lambda x: x[..., ::-1], "transposed": lambda x: x.T}.get(name, lambda x: x)
    f = lambda xp: lambda x: getattr(xp, word)(looked(x), axis=axis)
    same(native(f(fnp), x), f(np)(x))


@pytest.mark.skipif(not c_compiler.available(), reason="there is no gcc and g++")
def test_running_totals_in_c(tmp_path: Path) -> None:
    x = numbers(4, 5, 6)
    f = lambda xp: lambda x: xp.cumsum(xp.cumsum(xp.cumsum(x, axis=0), axis=1), axis=2)
    same(in_c(tmp_path, f(fnp), x), f(np)(x))


@pytest.mark.skipif(not c_compiler.available(), reason="there is no gcc and g++")
@pytest.mark.parametrize("size", [(), (3,), (9,)])
def test_lanes_of_a_branch_that_one_takes(size: tuple, tmp_path: Path) -> None:
    """Lanes that do not take it compute with those of the first that does."""
    x, way = 1.0 + numbers(6, *size) ** 2, np.array([1, 1, 0, 1, 0, 1])
    body = lambda k, x: funcad.cond(k == 0, lambda x: np.log(x) * np.sum(x), lambda x: x * 0.5, x)
    for taken in (way, np.zeros(6, int), np.ones(6, int)):
        expected = np.stack([np.log(a) * np.sum(a) if k == 0 else a * 0.5 for k, a in zip(taken, x)])
        np.testing.assert_allclose(native(vmap(body), taken, x), expected, rtol=1e-14)
    np.testing.assert_allclose(in_c(tmp_path, vmap(body), way, x), vmap(body)(way, x), rtol=1e-14)
