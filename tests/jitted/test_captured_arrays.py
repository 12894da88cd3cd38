"""What a jitted program captures is read at every call, through every transform; what comes out belongs to the caller."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad.numpy as fnp
from funcad import checkpoint, float0, grad, hvp, jit, jvp, linearize, tree, value_and_grad, vjp, vmap
from funcad.errors import NotCompiledWarning
from tests.unseen import unseen

_PROGRAMS: dict[str, Callable[[np.ndarray], Callable[[Any], Any]]] = {
    "value": lambda b: lambda x: x * b,
    "grad of a linear function": lambda b: grad(lambda x: np.sum(x * b)),
    "grad of a power": lambda b: grad(lambda x: np.sum(x**b)),
    "value_and_grad": lambda b: value_and_grad(lambda x: np.sum(np.sin(x) * b)),
    "value_and_grad of matmul": lambda b: value_and_grad(lambda x: x @ b),
    "jvp": lambda b: lambda x: jvp(lambda y: y * b, (x,), (np.ones(3),)),
    "hvp": lambda b: lambda x: hvp(lambda y: np.sum(y**3 * b), (x,), (x,)),
    "vmap": lambda b: vmap(lambda x: x * b),
    "vmap of grad": lambda b: vmap(grad(lambda x: np.sum(x**2 * b))),
    "grad of checkpoint": lambda b: grad(checkpoint(lambda x: np.sum(np.sin(x) * b))),
    "inlined": lambda b: lambda x: jit(lambda y: y * b, inline=True)(x),
    "pullback of it": lambda b: lambda x: vjp(lambda y: y * b, x)[1](np.ones(3))[0],
    "at set": lambda b: lambda x: fnp.at(x)[1:].set(b[1:]),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("name", _PROGRAMS)
def test_jit_reads_captured_arrays_by_reference(name: str, dtype: Any) -> None:
    b = np.arange(2, 5).astype(dtype)
    x = np.arange(1.0, 4.0)
    f = _PROGRAMS[name](b)
    program = jit(f)
    program(x)
    b[:] = 7
    for found, expected in zip(tree.leaves(program(x)), tree.leaves(f(x)), strict=True):
        np.testing.assert_allclose(found, expected)
    assert program.cache_info().misses == 1


@pytest.mark.parametrize(
    "transform",
    [grad, jit, vmap, checkpoint, lambda f: jit(grad(f)), lambda f: lambda x: vjp(f, x), lambda f: lambda x: linearize(f, x)],
)
def test_locks_are_released_though_the_exception_is_kept(transform: Callable[..., Any]) -> None:
    captured, x = np.ones((2, 10_000)), np.ones((2, 10_000))

    def f(y: Any) -> Any:
        np.sum(np.sin(y) * captured)
        raise ValueError("the user's")

    with pytest.raises(ValueError, match="the user's") as kept:
        transform(f if transform is not vmap else lambda y: f(y[None]))(x)
    gc.collect()
    assert captured.flags.writeable and x.flags.writeable
    assert kept.value is not None


def test_auxiliary_outputs_belong_to_the_caller() -> None:
    x = np.zeros(30_000)

    def f(y: Any) -> Any:
        e = np.exp(y)
        return e, (e, y, "text")

    _, pullback, aux = vjp(f, x, has_aux=True)
    aux[0][:] = aux[1][:] = 99.0
    np.testing.assert_array_equal(pullback(np.ones(30_000))[0], 1.0)
    _, f_jvp, aux = linearize(f, x, has_aux=True)
    aux[0][:] = 99.0
    np.testing.assert_array_equal(f_jvp(np.ones(30_000)), 1.0)
    _, _, aux = jvp(f, (x,), (x,), has_aux=True)
    aux[1][:] = 99.0
    _, aux = grad(lambda y: (np.sum(y), y), has_aux=True)(x)
    aux[:] = 99.0
    np.testing.assert_array_equal(x, 0.0)


def test_float0_passes_through_jit_and_vmap() -> None:
    gradient = grad(lambda p: np.sum(p["w"]) * p["n"], allow_int=True)
    p = {"w": np.ones((3, 2)), "n": np.arange(3)}
    for transformed in (vmap(gradient), jit(vmap(gradient)), vmap(jit(gradient)), vmap(gradient, chunk_size=2)):
        g = transformed(p)
        np.testing.assert_array_equal(g["w"], np.repeat(np.arange(3.0)[:, None], 2, 1))
        assert g["n"].shape == (3,) and g["n"].dtype == float0
    product = jit(lambda x, n, dx, dn: jvp(lambda y, m: y * m, (x, n), (dx, dn))[1])
    assert product(2.0, 3, 1.0, np.zeros((), float0)) == 3.0


def test_a_compiled_program_checks_the_structure_of_its_arguments() -> None:
    x = np.ones(2)
    compiled = jit(lambda a, b, n: a * b * n, static_argnums=2).lower(x, x, 3).compile()
    np.testing.assert_array_equal(compiled(x, x), 3.0)
    with pytest.raises(TypeError, match="that it was lowered for"):
        compiled((x, x))
    with pytest.raises(TypeError, match="that it was lowered for"):
        compiled(x, x, 3)


@pytest.mark.parametrize(
    "f, buffer",
    [
        (lambda b, x: np.polyval(b, x), np.arange(3.0)),
        (lambda b, x: np.average(x, weights=b), np.arange(1.0, 4.0)),
        (lambda b, x: np.trapezoid(x, b), np.arange(3.0)),
        (lambda b, x: np.interp(x, np.arange(3.0), b), np.arange(3.0)),
        (lambda b, x: np.gradient(x, b), np.array([0.0, 1.0, 3.0])),
        (lambda b, x: np.convolve(b, x), np.arange(3.0)),
        (lambda b, x: np.correlate(x, b, "full"), np.arange(3.0)),
        (lambda b, x: np.quantile(x, b), np.array([0.1, 0.2])),
        (lambda b, x: np.kron(b, x), np.arange(3.0)),
        (lambda b, x: np.cross(b, x), np.arange(3.0)),
    ],
)
def test_functions_made_of_several_operations_read_by_reference(f, buffer):
    buffer, x = buffer.copy(), np.linspace(0.1, 1.9, 3)
    jitted = jit(lambda x: f(buffer, x))
    jitted(x)
    buffer[...] = buffer[::-1].copy() + 0.05
    np.testing.assert_allclose(jitted(x), f(buffer, x), rtol=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("place", [0, 77_777, 299_999])
def test_one_element_written_while_a_function_is_traced_is_noticed(order: Any, place: int) -> None:
    """Through a view that was made before, of an array of which no copy is kept."""
    captured = np.asarray(np.ones((500, 600)), order=order)
    other = captured.reshape(-1, order=order)

    def f(x: Any) -> Any:
        y = np.sum(captured * x)
        other[place] += 1.0
        return y

    before = other[place]
    with pytest.warns(NotCompiledWarning, match="closure variable other is written in place"):
        assert jit(f)(2.0) == 600_000.0
    assert captured.flags.writeable and other[place] == before + 1.0

    hidden = unseen(lambda: other.__setitem__(place, other[place] + 1.0))  # behind the twin's back
    with pytest.raises(ValueError, match="which a traced function has read, was written before the function returned"):
        jit(lambda x: (np.sum(captured * x), hidden())[0])(2.0)
    assert captured.flags.writeable


def test_contents_of_many_bytes_are_told_by_their_places() -> None:
    """Beyond a megabyte a hash is compared: the same elements at other places are others, and so is the last one."""
    captured = np.arange(300_000.0)

    def f(x: Any) -> Any:
        return x * float(np.sort(captured[:5])[0] + 1.0) + captured[7] + np.exp(captured[2])

    g = jit(f)
    assert captured.nbytes > 1 << 20
    assert [g(2.0), g(2.0)] == [f(2.0)] * 2 and g.cache_info().misses == 1
    captured[[7, 8]] = captured[[8, 7]]
    assert [g(2.0), g(2.0)] == [f(2.0)] * 2 and g.cache_info().misses == 2
    captured[-1] = 5.0
    assert [g(2.0), g(2.0)] == [f(2.0)] * 2 and g.cache_info().misses == 3


# -- elements of captured arrays, which are compared one by one


def _branched(t: np.ndarray, x: Any) -> Any:
    return x * x if t[2] > 4.0 else x * 3.0


READS: dict[str, Callable[[np.ndarray, Any], Any]] = {
    "two": lambda t, x: x * t[2] + t[-3],
    "one, often": lambda t, x: x * sum([t[2] for _ in range(300)]),
    "some": lambda t, x: x * sum([t[i] for i in range(0, 40, 2)]),
    "many": lambda t, x: x * sum([t[i] for i in range(2000)]),
    "of a view": lambda t, x: x * t[1:][1] + t[::-1][2],
    "branch": _branched,
    "index": lambda t, x: x[: int(t[2]) % 3 + 1] * 2.0,
    "matrix": lambda t, x: x * t.reshape(8, -1)[0, 2] + t.reshape(-1, 8)[0][2],
    "also whole": lambda t, x: x * t[2] + t.sum(),
    "sign": lambda t, x: x + np.copysign(1.0, t[2]),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("values", [(5.0, 5.0, 6.0, 7.0, 8.0), (np.nan, 1.0, np.nan, np.nan), (-0.0, 0.0, -0.0)])
@pytest.mark.parametrize("place", [2, -3, 70])
@pytest.mark.parametrize("name", READS)
def test_elements_of_captured_arrays_are_those_of_the_call(name: str, place: int, values: tuple) -> None:
    if name == "index" and np.isnan(values).any():
        values = (3.0, 4.0, 5.0)
    read = READS[name]

    def run(way: Callable[[Any], Any]) -> list[bytes]:
        t = np.linspace(0.0, 9.0, 4096)
        g, found = way(lambda x: read(t, x)), []
        for v in (None, None, *values):
            if v is not None:
                t[place] = v
            found.append(np.asarray(g(np.array([1.0, 2.0, 3.0]))).tobytes())
        return found

    assert run(jit) == run(lambda f: f)


def test_an_element_is_compared_alone_and_becomes_an_input() -> None:
    t = np.linspace(0.0, 9.0, 4096)
    g = jit(lambda x: x * t[2] + t[5])
    for k in range(8):
        t[3], t[2] = k, 10.0 * k  # what is not read, and what is
        assert g(2.0) == 2.0 * (10.0 * k) + t[5]
    assert g.cache_info().misses <= 3
    again = jit(lambda x: x * t[2])
    for k in range(8):
        t[3] = k
        again(2.0)
    assert again.cache_info().misses == 1
