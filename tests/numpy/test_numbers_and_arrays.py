"""Results of rank 0: a number where NumPy gives one, an array, which can be written, where it gives that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad as fc

OF_A_NUMBER: dict[str, Callable[[Any], Any]] = {
    "nan_to_num": np.nan_to_num,
    "flip": np.flip,
    "transpose": np.transpose,
    "permute_dims": np.permute_dims,
    "reshape": lambda v: np.reshape(v, ()),
    "moveaxis": lambda v: np.moveaxis(v, (), ()),
    "squeeze": np.squeeze,
    "expand_dims": lambda v: np.expand_dims(v, ()),
    "einsum": lambda v: np.einsum("->", v),
    "tile": lambda v: np.tile(v, ()),
    "pad": lambda v: np.pad(v, 0),
    "broadcast_arrays": lambda v: np.broadcast_arrays(v, 1.0)[0],
    "T": lambda v: v.T,
    "x.reshape": lambda v: v.reshape(()),
    "x.transpose": lambda v: v.transpose(),
    "copy": np.copy,
    "real": np.real,
    "clip": lambda v: np.clip(v, 0.0, 1.0),
    "where": lambda v: np.where(True, v, 0.0),
}


def doubled(function: Callable[[Any], Any], entry: Any) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        kept = written = function(x[entry])
        written *= 2.0  # rebinds a number, writes an array
        return np.sum(kept) * 10.0 + np.sum(written)

    return f


@pytest.mark.parametrize("entry", [0, (0, ...)], ids=["number", "array"])
@pytest.mark.parametrize("name", OF_A_NUMBER)
def test_what_is_written_in_place(name: str, entry: Any) -> None:
    f = doubled(OF_A_NUMBER[name], entry)
    x = np.array([0.75, 2.0])
    expected = f(x.copy())
    assert fc.value_and_grad(f)(x.copy())[0] == expected
    assert fc.jvp(f, (x.copy(),), (np.ones(2),))[0] == expected
    assert fc.jit(f)(x.copy()) == expected
    assert fc.vmap(f)(np.stack([x, x]))[1] == expected


def test_sums_by_einsum_are_numbers() -> None:
    def f(x: Any) -> Any:
        trace = kept = np.einsum("ii->", x)
        trace += 1.0
        return kept * trace

    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    for g in (f, fc.jit(f), lambda x: fc.value_and_grad(f)(x)[0]):
        assert g(x) == 30.0


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_numbers_are_convolved_as_arrays_of_one(mode: Any) -> None:
    x = np.array([2.0, 3.0, 5.0])
    for first, second in ((0, 1), (..., 1), (1, ...)):
        f = lambda x, first=first, second=second: np.convolve(x[first], x[second], mode)
        np.testing.assert_array_equal(fc.jit(f)(x), f(x))
        np.testing.assert_array_equal(fc.jacrev(f)(x), fc.jit(fc.jacfwd(f))(x))
    assert fc.grad(lambda x: np.convolve(x, 4.0)[0])(3.0) == 4.0


@pytest.mark.parametrize("made", [lambda x: x, np.copy, lambda x: x[...]], ids=["given", "copy", "view"])
def test_nobody_writes_the_imaginary_part_of_a_real_array_of_rank_0(made: Any) -> None:
    def f(x: Any) -> Any:
        y = made(x)
        for index in (..., ()):
            with pytest.raises(ValueError, match="read-only"):
                y.imag[index] = 0.5
        assert np.shape(y.imag) == () and y.imag == 0.0
        return y * 2.0

    x = np.array(3.0)
    assert f(x) == fc.jit(f)(x) == 6.0 and fc.grad(f)(x) == fc.jit(fc.grad(f))(x) == 2.0
    assert fc.jvp(f, (x,), (x,))[1] == 6.0


def test_a_list_times_a_whole_number_is_repeated_or_refused() -> None:
    """Python asks for the number's value; where there is none, the product would be another answer."""
    f = lambda n: np.max(np.array([1.0, 2.0] * n))
    assert [f(n) for n in np.arange(1, 4)] == [2.0, 2.0, 2.0]
    np.testing.assert_array_equal(fc.vmap(f)(np.arange(1, 4)), [2.0, 2.0, 2.0])
    assert fc.jit(f)(np.int64(3)) == 2.0 and fc.jit(f)(np.array(3)) == f(np.array(3)) == 6.0
    with pytest.raises(fc.errors.TracerIntegerConversionError, match=r"body of scan(.|\n)*np.arange\(most\) < n"):
        fc.scan(lambda c, n: (c, f(n)), 0.0, np.arange(1, 4))
    with pytest.raises(fc.errors.TracerIntegerConversionError, match=r"static_argnums"):
        fc.jit(f, guards=False)(3)
    most = np.array([1.0, 2.0] * 3)
    g = lambda n: np.max(np.where(np.arange(6) < 2 * n, most, 0.0))  # what the refusal says
    np.testing.assert_array_equal(fc.scan(lambda c, n: (c, g(n)), 0.0, np.arange(1, 4))[1], [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(fc.jit(lambda x: [1.0, 2.0] * x)(np.array([1, 2])), [1.0, 4.0])


@pytest.mark.parametrize("element", [lambda x: x.item(1), lambda x: x.tolist()[1]], ids=["item", "tolist"])
def test_numbers_of_elements_keep_their_derivative_in_jitted_functions(element: Any, tmp_path: Any):
    on_disk = np.memmap(tmp_path / "numbers", dtype=float, mode="w+", shape=(3,))
    on_disk[:] = [1.0, 2.0, 3.0]
    f = fc.jit(lambda x: element(x) ** 2)
    for x in (np.array(on_disk), on_disk):
        for _ in range(3):
            for found in (fc.grad(f)(x), fc.grad(lambda x: f(x) * 1.0)(x), fc.jit(fc.grad(f))(x)):
                np.testing.assert_array_equal(found, [0.0, 4.0, 0.0])
            assert fc.jvp(f, (x,), (np.ones(3),)) == (4.0, 4.0)
            assert f(x) == 4.0


OF_ELEMENTS = [lambda x: x.tolist(), lambda x: x[None].tolist()[0], lambda x: [x.item(0), x.item(1)]]


@pytest.mark.parametrize("kind", [np.longdouble, np.clongdouble, np.float64, np.float32, np.complex64, np.int32, np.bool_])
@pytest.mark.parametrize("numbers", OF_ELEMENTS)
def test_types_of_numbers_of_elements_are_numpys_under_jit(kind: Any, numbers: Any):
    x = np.array([1, 0], kind)
    f = fc.jit(numbers)
    for _ in range(3):
        assert [(type(v), v) for v in f(x)] == [(type(v), v) for v in numbers(x)]
