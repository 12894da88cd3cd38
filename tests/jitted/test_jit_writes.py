"""`jit(f)` writes into the arrays that it is given, as f does."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import funcad
from funcad import grad, jit, vmap
from funcad.errors import SharedMemoryError, TracerArrayConversionError
from funcad.host.real_types import contiguous, view_of_reshape
from funcad.jitted import first_calls


def add_and_double(a, b):
    a += b
    b *= 2.0
    return a


def test_arguments_are_written_and_returned():
    f = jit(add_and_double)
    f.clear_cache()  # other tests jit it too
    for _ in range(3):  # the calls after the first find the program
        x, y = np.arange(3.0), np.ones(3)
        assert f(x, y) is x
        assert x.tolist() == [1.0, 2.0, 3.0] and y.tolist() == [2.0, 2.0, 2.0]
    assert f.cache_info().misses == 1


@pytest.mark.parametrize("pair", [lambda z: (z, z), lambda z: (z[:3], z[1:]), lambda z: (z[::-1], z)])
def test_shared_memory_is_shared(pair):
    f, z, expected = jit(add_and_double), np.arange(4.0), np.arange(4.0)
    f(np.arange(3.0), np.ones(3))
    f(*pair(z))
    add_and_double(*pair(expected))
    np.testing.assert_array_equal(z, expected)

    def outer(g, x):
        z = x * 1.0
        g(*pair(z))
        return (z * z * z).sum()

    x = np.array([1.0, 2.0, 3.0, 4.0])
    gradient = np.array([(outer(add_and_double, x + 1e-6 * e) - outer(add_and_double, x - 1e-6 * e)) / 2e-6 for e in np.eye(4)])
    for g in (f, add_and_double):
        assert jit(lambda x, g=g: outer(g, x))(x) == outer(add_and_double, x)
        np.testing.assert_allclose(grad(lambda x, g=g: outer(g, x))(x), gradient, rtol=1e-6)
        np.testing.assert_allclose(jit(grad(lambda x, g=g: outer(g, x)))(x), gradient, rtol=1e-6)
    assert vmap(lambda x: outer(f, x))(np.stack([x, x])).tolist() == [outer(add_and_double, x)] * 2


def test_a_captured_array_that_shares_memory():
    z = np.arange(4.0)

    def f(a):
        a += 1.0
        return (a + z[1:3]).sum()

    g = jit(f)
    assert g(np.ones(2)) == 4.0 + 3.0
    assert g(z[:2]) == 1.0 + 2.0 + 2.0 + 2.0
    assert z.tolist() == [1.0, 2.0, 2.0, 3.0]


def test_an_exception_leaves_the_arguments_as_plain_python_does():
    def fails(x):
        raise KeyError("no")

    def f(a):
        a[0] = 5.0
        return funcad.pure_callback(fails, funcad.ShapeDtypeStruct((), np.float64), a[1])

    x, program = np.ones(3), jit(f)
    for _ in range(3):
        x[:] = 1.0
        with pytest.raises(KeyError):
            program(x)
        assert x.tolist() == [5.0, 1.0, 1.0]


def test_arrays_that_cannot_be_written():
    x = np.arange(3.0)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        jit(add_and_double)(x, np.ones(3))
    with pytest.raises(TracerArrayConversionError, match=r"K = np.array\(K\)"):
        grad(lambda y: jit(add_and_double)(x, y).sum())(np.ones(3))
    buffer = grad(lambda y: jit(add_and_double)(np.zeros(3), y).sum())
    assert buffer(np.ones(3)).tolist() == [1.0, 1.0, 1.0]


def test_orders_strides_and_dtypes():
    def f(x):
        y = x.reshape(-1)  # a view in C's order, a copy in Fortran's
        y *= 2

    g = jit(f)
    for dtype in (np.float64, np.float32, np.int64, np.complex128):
        base = np.arange(24).reshape(4, 6).astype(dtype)
        for make in (lambda b: b.copy(), np.asfortranarray, lambda b: b.copy()[::2, 1::2], lambda b: b.copy()[::-1]):
            x, expected = make(base), make(base)
            g(x)
            f(expected)
            np.testing.assert_array_equal(x, expected)
            assert x.dtype == dtype


def test_donated_arrays_are_not_written_back():
    f = jit(add_and_double, donate_argnums=0)
    y = np.ones(3)
    np.testing.assert_array_equal(f(np.arange(3.0), y), [1.0, 2.0, 3.0])
    assert y.tolist() == [2.0, 2.0, 2.0]


def test_pytrees_keywords_and_numbers():
    def f(state, *, step, n):
        state["w"] -= step * state["v"]
        step += 1.0  # a number: NumPy rebinds the name
        n -= 1
        state["v"][...] = step
        return n

    state = {"w": np.ones(2), "v": np.ones(2)}
    assert jit(f)(state, step=0.5, n=3) == 2
    assert state["w"].tolist() == [0.5, 0.5] and state["v"].tolist() == [1.5, 1.5]
    total = np.array(0.0)
    jit(lambda a: a.__iadd__(1.0))(total)
    assert total == 1.0


def test_an_array_of_rank_0_stays_one():
    def f(x, y):
        y.fill(x[0])
        np.maximum(y, 2.0, out=y)
        y *= 3.0
        v = y.reshape(1)
        v += x[1]
        return y

    x, y, expected = np.array([1.0, 0.5]), np.array(7.0), np.array(7.0)
    f(x, expected)
    assert jit(f)(x, y) is y and y == expected == 6.5
    assert grad(lambda x: f(x, np.array(0.0)) * 1.0)(x).tolist() == [0.0, 1.0]


def test_copies_of_rank_0_and_arrays_made_like_others():
    def f(x, y):
        np.maximum(y, x[0], out=y)
        v = y.copy()
        v[...] = 0.25 * y
        np.add.at(v, (), 1.0)
        like = np.full_like(np.expand_dims(x, -1), 0.25).copy(order="F")
        like[0] = y
        np.putmask(x, x > 0, x[:0])  # no values: nothing is written
        return v * 1.0, like

    x, y, expected = np.array([1.0, 2.0]), np.array(0.5), np.array(0.5)
    for found, wanted in zip(jit(f)(x, y), f(x, expected)):
        np.testing.assert_array_equal(found, wanted)
    assert y == expected == 1.0 and x.tolist() == [1.0, 2.0]


def test_whether_a_reshape_is_a_view_is_not_asked_of_memory():
    """Layouts have none: the addresses that they seem to cover may be anybody's."""
    fortran = contiguous((2, 3), np.dtype(float), (1, 0))
    assert view_of_reshape(fortran, (6,)) is None and view_of_reshape(fortran.T, (6,)) is not None
    assert view_of_reshape(contiguous((2, 3), np.dtype(float)), (3, 2)) is not None


def test_arguments_that_are_not_differentiated_may_not_share_what_is_written():
    x = np.arange(1.0, 5.0)
    for i in (0, 1):
        with pytest.raises(SharedMemoryError, match="pass a copy"):
            grad(lambda a, b: (add_and_double(a, b) * b).sum(), argnums=i)(x[:3], x[1:])
        separate = grad(lambda a, b: (add_and_double(a, b) * b).sum(), argnums=i)(x[:3].copy(), x[1:].copy())
        np.testing.assert_array_equal(separate, 2 * x[1:] if i == 0 else 2 * x[:3] + 4 * x[1:])
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("calls", ["a call", "a method of the array"])
@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_a_jitted_function_that_writes_into_an_array_it_found_in_another_one(calls: str, monkeypatch: pytest.MonkeyPatch):
    """The trace of the outer one was started again without end."""
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    found = np.zeros(3)

    @jit
    def inner(x):
        if calls == "a call":
            np.subtract(found, x, out=found)
        else:
            found.__isub__(x)
        return found + x

    outer = jit(lambda x: 2.0 * inner(x))
    for n in range(1, 5):
        np.testing.assert_array_equal(outer(np.ones(3)), np.full(3, 2.0 - 2.0 * n))
    assert found.tolist() == [-4.0] * 3


BY_THE_TYPE = {
    "a write of an argument": (
        "def f(p, n):\n    p += 1.0\n    k = np.ndarray(n)\n    k[0] = np.sum(p)\n    k[1:] = 2.0\n    return k\n"
        "jitted = funcad.jit(f, static_argnums=1)\ncalled = lambda: jitted(np.ones(3), 2)\n",
        [6.0, 2.0],
    ),
    "a size that is read, in a derivative": (
        "funcad.config.jit_patience = 0\nsizes = [2]\n"
        "def f(p):\n    k = np.ndarray(sizes[0])\n    k[0] = np.sum(p)\n    k[1:] = p[0]\n    return np.sum(k * k)\n"
        "jitted = funcad.jit(funcad.grad(f))\n"
        "called = lambda: jitted(np.ones(2))\n",
        [6.0, 4.0],
    ),
}


@pytest.mark.parametrize("name", BY_THE_TYPE)
def test_an_array_by_the_type_after_what_acts(name: str, tmp_path: Path):
    """The door of np.ndarray hangs once it was needed: in a process of its own nobody has needed it before."""
    program, expected = BY_THE_TYPE[name]
    start = "import warnings, numpy as np, funcad\nwarnings.simplefilter('error')\n"
    (tmp_path / "program.py").write_text(f"{start}{program}print([called().tolist() for _ in range(3)])\n")
    folder = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == str([expected] * 3), done.stderr
