"""What a longer search by random programs found: layouts of `ones_like`, views of numbers, errors that only NumPy raised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad import jit, jvp, vjp, vmap
from funcad.errors import WriteError
from funcad.host import locks

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


def written_through_a_sibling(x: Any) -> Any:
    """NumPy gives both views one base, the memory of `linspace`, and each its own flag: no lock on one reaches the other."""
    v = np.linspace(0.0, 1.0, 3)
    t = v[:]
    first = t * x.sum()
    v[0] = 2.0
    second = t * x.sum()
    v[1:] = 5.0
    return first, second, t * x.sum(), v


def read_before_its_view_is_written(x: Any) -> Any:
    v = np.linspace(0.0, 1.0, 3)
    t = v[:]
    first = v * x.sum()
    t[0] = 2.0
    c, ys = fc.scan(lambda c, y: (c + np.sum(t * y), c), 0.0, x)
    t[1] = 7.0
    return first, c, ys, v * x


@pytest.mark.parametrize("f", [written_through_a_sibling, read_before_its_view_is_written], ids=lambda f: f.__name__)
def test_what_a_program_captured_is_what_it_was_then(f: Any) -> None:
    x = np.array([0.27, -0.46, -0.91])
    compiled = fc.jit(f)
    for _ in range(3):
        for a, b in zip(compiled(x), f(x)):
            np.testing.assert_allclose(a, b, rtol=1e-14)


def test_a_large_array_that_is_captured_and_then_written_through_a_view_is_refused() -> None:
    def f(x: Any) -> Any:
        v = np.linspace(0.0, 1.0, 200_000)
        t = v[:]
        y = t * x
        v[:] = 2.0
        return y

    with pytest.raises(ValueError, match="through a view"):
        fc.jit(f)(3.0)


def test_of_an_array_of_rank_0_a_plus_gives_the_number() -> None:
    def written(x: Any, y: Any) -> Any:
        x[0] = 0.5
        z = +y
        z[...] = 0.5
        return x, z

    for y in (np.array(0.8), np.array(2), np.array(1 + 2j)):
        for f in (written, fc.jit(written), lambda x, y: fc.jvp(lambda x: written(x, y), (x,), (x,))):
            with pytest.raises(TypeError):
                f(np.ones(3), y)
        assert fc.jit(lambda y: +y)(y) == y and fc.jit(np.positive)(y) == y
    assert fc.grad(fc.jit(lambda y: +y * y))(np.array(3.0)) == 6.0


@pytest.mark.parametrize("wrapped", [lambda f: f, fc.jit], ids=["plain", "jit"])
def test_the_core_axes_of_a_product_are_not_broadcast_into_its_output(wrapped: Any) -> None:
    a, column = np.arange(16.0).reshape(4, 4), np.arange(4.0)[:, None]

    def product(a: Any, column: Any) -> Any:
        np.matmul(column.T, a, out=a)
        return a

    def in_place(a: Any, column: Any) -> Any:
        a[:, :1] @= np.ones((1, 1))
        a @= column
        return a

    for f in (product, in_place):
        with pytest.raises(ValueError, match="core dimension"):
            wrapped(f)(a.copy(), column)

    def stacked(a: Any, column: Any) -> Any:
        out = np.zeros((3, 1, 4))
        return np.matmul(column.T, a, out=out)

    np.testing.assert_allclose(wrapped(stacked)(a, column), stacked(a, column))


MADE = {
    "tile": lambda y: np.tile(y, 2),
    "repeat": lambda y: np.repeat(y, 2),
    "full": lambda y: np.full((2,), y),
    "full_like": lambda y: np.full_like(np.ones(2), y),
    "copy of what is broadcast": lambda y: np.broadcast_to(y, (2,)).copy(),
    "array of what is broadcast": lambda y: np.array(np.broadcast_to(y, (2,))),
    "ascontiguousarray": lambda y: np.ascontiguousarray(np.broadcast_to(y, (2,))),
    "copy of what is backwards": lambda y: np.flip(np.stack([y, y + 1.0])).copy(),
    "copy of every second": lambda y: np.stack([y, y, y + 1.0])[::2].copy(),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE.keys())
def test_new_memory_of_one_axis_lies_as_numpys_and_its_ravel_is_a_view(make: Any) -> None:
    def f(y: Any) -> Any:
        v = make(y)
        flat = v.ravel()
        v[0] = 0.5
        return v, flat

    y = np.array(0.8)
    lanes = lambda y: [a[1] for a in vmap(f)(np.stack([y, y]))]
    for g in (f, jit(f), lanes, lambda y: jvp(f, (y,), (np.ones(()),))[0], lambda y: jvp(jit(f), (y,), (np.ones(()),))[0]):
        for found, right in zip(g(y), f(y)):
            np.testing.assert_array_equal(found, right)
    assert fc.grad(lambda y: np.sum(f(y)[0]) + 10.0 * np.sum(f(y)[1]))(y) == 11.0


OVER_ITSELF = {
    "transposed": lambda x, v: np.copyto(v, x.T),
    "shifted": lambda x, v: np.copyto(v[1:], x[:-1]),
    "turned": lambda x, v: np.copyto(v, x[::-1, ::-1]),
    "where": lambda x, v: np.copyto(v, x.T, where=v > 2.5),
    "an element of the view": lambda x, v: np.copyto(v, x[0]),
    "filled": lambda x, v: v.fill(x[1, 1]),
    "its own real part": lambda x, v: setattr(v, "real", x.T),
}


@pytest.mark.parametrize("write", OVER_ITSELF.values(), ids=OVER_ITSELF.keys())
def test_a_view_is_written_with_what_it_shows(write: Any) -> None:
    """What is written is read before, though writing changes it; the view names the written numbers, not what moved since."""

    def f(x: Any) -> Any:
        v = x[:]
        write(x, v)
        return v, x

    x, weights = np.arange(9.0).reshape(3, 3), np.cos(np.arange(9.0)).reshape(3, 3)
    right = f(x.copy())
    lanes = lambda x: [a[1] for a in vmap(f)(np.stack([x, x]))]
    for g in (jit(f), lanes, lambda x: jvp(f, (x,), (x,))[0], lambda x: fc.vjp(f, x)[0]):
        for _ in range(2):
            for found, wanted in zip(g(x.copy()), right):
                np.testing.assert_array_equal(found, wanted)

    def loss(x: Any) -> Any:
        v, x = f(x.copy())
        return np.sum(weights * v) + 10.0 * np.sum(weights.T * x)

    moved = [loss(x + h * e.reshape(3, 3)) for e in np.eye(9) for h in (0.25, -0.25)]
    slopes = 2.0 * (np.array(moved[::2]) - np.array(moved[1::2])).reshape(3, 3)
    for g in (fc.grad(loss), jit(fc.grad(loss))):
        np.testing.assert_allclose(g(x), slopes, atol=1e-12)


REFUSED = {
    "dot into columns": lambda x: np.dot(x.T, x, out=x.T),
    "dot into single precision": lambda x: np.dot(x, x, out=np.zeros((3, 3), np.float32)),
    "dot into a flip of what was taken": lambda x: np.dot(x, x, out=np.flip(np.take(x, [1, 0, 2], axis=0), 0)),
    "dot into a turned product": lambda x: np.dot(x, x, out=(x @ x).T),
    "dot into every second row": lambda x: np.dot(x, x, out=np.zeros((6, 3))[::2]),
    "einsum into single precision": lambda x: np.einsum("ij,jk->ik", x, x, out=np.zeros((3, 3), np.float32)),
    "argmax into floats": lambda x: np.argmax(x, axis=0, out=np.zeros(3)),
}


@pytest.mark.parametrize("f", REFUSED.values(), ids=REFUSED.keys())
def test_outputs_that_numpy_refuses(f: Any) -> None:
    x = np.arange(9.0).reshape(3, 3)
    with pytest.raises((TypeError, ValueError)) as plain:
        f(x.copy())
    for g in (jit(f), lambda x: jvp(f, (x,), (x,))):
        with pytest.raises(plain.type):
            g(x.copy())


def test_a_captured_array_of_some_size_is_not_looked_at_as_a_whole_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that was read twice, and written in between where no sample is, nobody knows which read was which."""
    table = np.linspace(0.0, 1.0, 20_000)
    view, place = table[:], 7
    looked: list[int] = []
    monkeypatch.setattr(locks, "_sample", lambda x: looked.append(x.nbytes) or x[:1].tobytes())

    def often(x: Any) -> Any:
        for _ in range(50):
            x = x * view
        return x

    np.testing.assert_array_equal(fc.make_jaxpr(often)(np.ones(20_000)).consts[0], table)
    assert len(looked) == 50  # the first time, and 49 others; then all of it, once

    def between(x: Any) -> Any:
        y = x * view
        table[place] = 9.0
        return y * view

    def after(x: Any) -> Any:
        y = x * view
        table[place] = 3.0
        return y

    with pytest.raises(ValueError, match="through a view"):
        fc.make_jaxpr(between)(np.ones(20_000))
    assert fc.make_jaxpr(after)(np.ones(20_000)).consts[0][place] == 9.0
