"""Arrays that a derivative keeps and the user can still write: of any owner, by any way, never a silently wrong gradient."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.backends import buffers
from funcad.host.locks import SMALL

N = SMALL // 8 + 100


class Kind(np.ndarray):
    pass


def memmap(folder: Path) -> np.ndarray:
    np.ones(N).tofile(folder / "numbers")
    return np.memmap(folder / "numbers", mode="r+", shape=(N,), dtype=float)


def from_ctypes(folder: Path) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_double * N)(*[1.0] * N))


def pooled(folder: Path) -> np.ndarray:
    x = buffers.empty((buffers.LARGE // 8,), np.float64)
    x[:] = 1.0
    return x


LOCKED: dict[str, Callable[[Path], np.ndarray]] = {
    "array": lambda folder: np.ones(N),
    "every second": lambda folder: np.ones(2 * N)[::2],
    "columns": lambda folder: np.asfortranarray(np.ones((N // 100, 200)))[:, ::2],
    "memmap": memmap,
    "part of a memmap": lambda folder: memmap(folder)[50:],
    "memmap as an array": lambda folder: np.asarray(memmap(folder)),
    "memory of a jitted result": pooled,
    "window": lambda folder: np.lib.stride_tricks.sliding_window_view(np.ones(N + 2), 3)[:, 0],
    "subclass": lambda folder: np.ones(N).view(Kind),
}
COPIED: dict[str, Callable[[Path], np.ndarray]] = {
    "bytearray": lambda folder: np.frombuffer(bytearray(np.ones(N).tobytes())),
    "memoryview": lambda folder: np.asarray(memoryview(np.ones(N))),
    "ctypes": from_ctypes,
    "as_strided": lambda folder: np.lib.stride_tricks.as_strided(np.ones(N), (N,), (8,)),
    "small": lambda folder: np.ones(100),
}


def argument(w: np.ndarray) -> tuple[Any, np.ndarray]:
    x = np.array(w, float)
    return funcad.vjp(lambda x: np.sum(np.sin(x) * x), w)[1], np.sin(x) + np.cos(x) * x


def captured(w: np.ndarray) -> tuple[Any, np.ndarray]:
    return funcad.vjp(lambda x: np.sum(x * w), np.ones(w.shape))[1], np.array(w, float)


def linearized(w: np.ndarray) -> tuple[Any, np.ndarray]:
    push = funcad.linearize(lambda x: x * w, np.ones(w.shape))[1]
    return lambda ct: (push(np.full(w.shape, ct)),), np.array(w, float)


def outer(w: np.ndarray) -> tuple[Any, np.ndarray]:
    """The inner derivative keeps a value that the outer one traces."""
    kept = []

    def f(x: Any) -> Any:
        kept.append(funcad.vjp(lambda y: np.sum(y * x), np.ones(w.shape))[1])
        return kept[0](1.0)[0]

    pullback = funcad.vjp(f, w)[1]
    return lambda ct: pullback(np.full(w.shape, ct)), np.ones(w.shape)


USES = [argument, captured, linearized, outer]


@pytest.mark.parametrize("use", USES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("owner", LOCKED)
def test_what_is_kept_raises_at_the_write_or_at_its_use(owner: str, use: Any, tmp_path: Path) -> None:
    w = LOCKED[owner](tmp_path)
    pullback, wanted = use(w)
    try:
        w[:] = 5.0
    except ValueError as error:
        assert "read-only" in str(error)
        found = pullback(1.0)[0]
        assert np.allclose(found, wanted)
    else:  # an object of another class over the same memory is like a view that was made before; or nothing was kept
        assert owner == "subclass" or use is outer
        if use is not outer:
            with pytest.raises(ValueError, match="written, through a view that was made before"):
                pullback(1.0)
    del pullback
    if owner != "window":
        w[:] = 6.0  # writeable again
        assert np.all(w == 6.0)


@pytest.mark.parametrize("use", USES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("owner", COPIED)
def test_what_others_can_write_is_copied(owner: str, use: Any, tmp_path: Path) -> None:
    w = COPIED[owner](tmp_path)
    pullback, wanted = use(w)
    w[:] = 5.0
    assert np.allclose(pullback(1.0)[0], wanted)


def test_shared_memory_is_copied() -> None:
    shared = shared_memory.SharedMemory(create=True, size=8 * N)
    try:
        w: Any = np.ndarray((N,), buffer=shared.buf)
        w[:] = 1.0
        pullback, wanted = captured(w)
        other: Any = np.ndarray((N,), buffer=shared.buf)
        other[:] = 5.0
        assert np.allclose(pullback(1.0)[0], wanted)
        del w, other, pullback
    finally:
        shared.close()
        shared.unlink()


@pytest.mark.parametrize("use", [argument, captured, linearized], ids=lambda f: f.__name__)
@pytest.mark.parametrize("owner", [k for k in LOCKED if k != "window"])
def test_views_made_before_and_flags_set_again_are_noticed(owner: str, use: Any, tmp_path: Path) -> None:
    w = LOCKED[owner](tmp_path)
    view = w[...]
    pullback, wanted = use(w)
    view *= 5.0
    with pytest.raises(ValueError, match=r"used at .*test_kept_arrays.py:\d+ .*, was written, through a view"):
        pullback(1.0)
    view /= 5.0
    assert np.allclose(pullback(1.0)[0], wanted)  # its values are there again
    try:
        w.flags.writeable = True
    except ValueError:
        return  # what it is a view of is locked: NumPy refuses
    w *= 5.0
    with pytest.raises(ValueError, match="was (made writeable again|written, through a view .*), but a derivative still needs"):
        pullback(1.0)


def test_a_write_through_an_earlier_view_inside_the_function_is_noticed() -> None:
    w = np.ones(N)
    view = w[...]

    def f(x: Any) -> Any:
        y = np.sum(x * w)
        view[:] += 3.0
        return y

    with pytest.raises(ValueError, match="was written, through a view"):
        funcad.grad(f)(np.ones(N))
    assert w.flags.writeable  # after the error too
    with pytest.raises(ValueError, match="was written, through a view"):
        funcad.jacrev(f)(np.ones(N))


def test_nan_is_no_change_and_bytes_need_no_lock() -> None:
    w = np.full(N, np.nan)
    pullback, wanted = captured(w)
    assert np.allclose(pullback(1.0)[0], wanted, equal_nan=True)
    frozen = np.frombuffer(np.ones(N).tobytes())
    pullback, wanted = captured(frozen)
    assert np.allclose(pullback(1.0)[0], wanted)


def test_the_other_byte_order() -> None:
    w = np.ones(N, np.dtype(float).newbyteorder("S"))
    pullback, wanted = argument(w)  # what is traced is a copy in the machine's order
    w[:] = 5.0
    assert np.allclose(pullback(1.0)[0], wanted)
    pullback, wanted = captured(w)
    with pytest.raises(ValueError, match="read-only"):
        w[:] = 6.0
    assert np.allclose(pullback(1.0)[0], wanted)


def test_two_derivatives_share_an_array() -> None:
    w = np.ones(N)
    first, wanted = captured(w)
    second, _ = captured(w[::-1])
    del first
    assert not w.flags.writeable
    assert np.allclose(second(1.0)[0], wanted)
    del second
    assert w.flags.writeable


def test_results_have_numpys_own_class(tmp_path: Path) -> None:
    w = memmap(tmp_path)
    y, pullback = funcad.vjp(np.sin, w)
    assert type(y) is type(pullback(y)[0]) is type(funcad.jvp(np.sin, (w,), (w,))[0]) is np.ndarray
    assert type(funcad.vmap(np.sin)(w)) is type(funcad.jit(np.sin)(w)) is np.ndarray
