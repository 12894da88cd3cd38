"""How many threads BLAS has while compiled programs run, and afterwards: counted, never timed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any
from unittest import mock

import numpy as np
import pytest

import funcad
from funcad.backends import blas_threads
from funcad.backends.engines import program_of
from tests.forked import in_a_child, in_a_process, needs_fork
from tests.host.test_interrupts import ctrl_c, interrupt, lines_of  # noqa: F401 a fixture

pytestmark = pytest.mark.group("alone")  # of time, memory, threads or counts

A = np.random.default_rng(0).normal(size=(96, 96))


class Counter:
    """A BLAS that has a number of threads and no products."""

    def __init__(self, threads: int):
        self.threads = threads
        self.seen: SimpleQueue[int] = SimpleQueue()  # a list would be state that jit watches
        self.library = blas_threads._Library(lambda: self.threads, self.set)

    def note(self, _: Any) -> None:
        self.seen.put(self.threads)

    def set(self, threads: int) -> None:
        self.threads = threads


@pytest.fixture
def blas(monkeypatch: Any) -> Iterator[Counter]:
    """Eight threads, whatever the machine has."""
    counter = Counter(8)
    monkeypatch.setattr(blas_threads, "_libraries", lambda: [counter.library])
    yield counter
    assert not blas_threads._running and not blas_threads._held


def seen_in(counter: Counter, size: int = 96, **settings: Any) -> list[int]:
    """The threads that a product has in each of two runs of its program."""
    enter, seen = blas_threads._enter, []

    def entering(program: object) -> None:
        enter(program)
        seen[-1] = counter.threads

    x = np.ones((size, size))
    with funcad.config.set(engine="numpy", **settings), mock.patch.object(blas_threads, "_enter", entering):
        jitted = funcad.jit(lambda x: x @ x)
        for _ in range(3):
            seen.append(counter.threads)
            jitted(x)
    return seen[1:]  # the first run is the reference's


def test_a_function_of_the_host_has_those_that_there_were(blas: Counter) -> None:
    inner = funcad.jit(lambda x: x @ x)

    def f(x: Any, fails: Any) -> Any:
        y = x @ x
        funcad.debug.callback(blas.note, y[0, 0])
        z = funcad.pure_callback(host, y, y, fails)
        return z @ x

    def host(y: Any, fails: Any) -> Any:
        inner(y)  # a program, with few threads, that ends here
        blas.note(y)
        if fails:
            raise OSError("host")
        return y

    x = np.ones((96, 96))
    with funcad.config.set(engine="numpy"):
        jitted = funcad.jit(f)
        for _ in range(3):
            jitted(x, False)
            assert [blas.seen.get(), blas.seen.get(), blas.threads] == [8, 8, 8]
        with pytest.raises(OSError, match="host"):
            jitted(x, True)
    assert blas.threads == 8 and not blas_threads._here.programs


def test_a_program_has_half_of_them(blas: Counter) -> None:
    assert seen_in(blas) == [4, 4]
    assert blas.threads == 8
    blas.threads = 2
    assert seen_in(blas) == [1, 1] and blas.threads == 2


@pytest.mark.parametrize("before, settings, inside", [
    (1, {}, 1),
    (3, {}, 1),
    (8, {"blas_threads": 0}, 8),
    (8, {"blas_threads": 6}, 6),
    (4, {"blas_threads": 6}, 4),
    (8, {"threads": 2}, 2),
    (8, {"threads": 0}, 1),
    (8, {"threads": 16}, 4),
])  # fmt: skip
def test_settings_are_limits(blas: Counter, before: int, settings: dict[str, int], inside: int) -> None:
    """Those of the user's before the program (an environment variable, threadpoolctl), and funcad's."""
    blas.threads = before
    assert seen_in(blas, **settings) == [inside] * 2
    assert blas.threads == before


def test_small_products_are_not_asked_about(blas: Counter) -> None:
    assert seen_in(blas, 16) == [8, 8]
    for f in (lambda x: np.sin(x), lambda x: np.sum(x * x), lambda x: x.T + 1.0, lambda x: x[:20, :20] @ x[:20, :20]):
        assert not blas_threads.matters(funcad.jit(f).lower(A).jaxpr)
    assert not blas_threads.matters(funcad.jit(lambda x: x @ x).lower(np.ones((400, 400), int)).jaxpr)  # without BLAS


def matters(f: Any, *shapes: tuple[int, ...]) -> bool:
    return blas_threads.matters(funcad.jit(f).lower(*[np.ones(shape) for shape in shapes]).jaxpr)


def test_what_matters() -> None:
    square = (100, 100)
    assert matters(lambda x: x @ x, square)
    assert matters(lambda x, y: x @ y, (1000, 1000), (1000,))
    assert matters(lambda x: x @ x, (1_000_000,))
    assert matters(lambda x, y: np.einsum("bij,bjk->bik", x, y), (4, 100, 100), (4, 100, 100))
    assert not matters(lambda x, y: np.einsum("bij,bjk->bik", x, y), (400, 10, 10), (400, 10, 10))  # a call for each matrix
    assert not matters(lambda x: x @ x, (0, 0)) and not matters(lambda x, y: x @ y, (5, 0), (0, 7))
    for f in (np.linalg.cholesky, np.linalg.inv, np.linalg.eigvalsh, np.linalg.svd, np.linalg.qr):
        assert matters(f, square) and not matters(f, (8, 8))
    assert matters(lambda x: funcad.scan(lambda c, _: (c @ x, None), x, length=3)[0], square)
    assert matters(lambda x: funcad.cond(x[0, 0] > 0, lambda x: x @ x, lambda x: x, x), square)


def text_of(f: Any, *shapes: tuple[int, ...]) -> str:
    """The NumPy engine's program; nothing runs."""
    with funcad.config.set(engine="numpy"):
        program: Any = program_of(funcad.jit(f).lower(*[np.broadcast_to(1.0, shape) for shape in shapes]).jaxpr)
        program.written_out()
        return str(program.generated.text)


def test_only_large_products_of_matrices_have_all() -> None:
    lines = text_of(lambda x, y: np.sin(x @ x) @ y, (1200, 1200), (1200, 3)).splitlines()
    first = next(i for i, line in enumerate(lines) if "all_threads()" in line)
    assert "few_threads()" in lines[first + 2] and sum("all_threads()" in line for line in lines) == 1
    for f, shape in ((np.linalg.eigvalsh, (2000, 2000)), (lambda x: x @ x[0], (20_000, 20_000)), (lambda x: x @ x, (500, 500))):
        assert "all_threads" not in text_of(f, shape)


def test_a_large_product_among_others(blas: Counter) -> None:
    def inside(values: list) -> list:
        seen = [blas.threads]
        blas_threads.all_threads()
        seen.append(blas.threads)
        other = blas_threads.limited(lambda values: [blas.threads])  # as in another thread
        seen += other([])
        blas_threads.all_threads()
        seen.append(blas.threads)
        blas_threads.few_threads()
        return [*seen, blas.threads]

    assert blas_threads.limited(inside)([]) == [4, 8, 4, 8, 4]

    def fails(values: list) -> list:
        blas_threads.all_threads()
        raise MemoryError

    with pytest.raises(MemoryError):
        blas_threads.limited(fails)([])
    assert blas.threads == 8
    with funcad.config.set(blas_threads=3):
        assert blas_threads.limited(inside)([]) == [3, 3, 3, 3, 3]


def test_errors_and_what_users_set_meanwhile(blas: Counter) -> None:
    def fails(values: list) -> list:
        raise ValueError

    with pytest.raises(ValueError):
        blas_threads.limited(fails)([])
    assert blas.threads == 8
    blas_threads.limited(lambda values: blas.set(3) or [])([])
    assert blas.threads == 3


def test_two_programs_at_once(blas: Counter) -> None:
    """The number comes back with the last of them, in whichever order they end."""
    inside, leave = [threading.Event(), threading.Event()], [threading.Event(), threading.Event()]
    seen: dict[int, int] = {}

    def work(i: int) -> None:
        def run(values: list) -> list:
            inside[i].set()
            assert leave[i].wait(60)
            seen[i] = blas.threads
            return []

        blas_threads.limited(run)([])

    for last in (0, 1):
        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for i, thread in enumerate(threads):
            thread.start()
            assert inside[i].wait(60)
        leave[1 - last].set()
        threads[1 - last].join(60)
        assert blas.threads == 4
        leave[last].set()
        threads[last].join(60)
        assert blas.threads == 8 and seen == {0: 4, 1: 4}
        for event in (*inside, *leave):
            event.clear()


def test_many_threads_of_python(blas: Counter) -> None:
    wrong: list[int] = []

    def run(values: list) -> list:
        for _ in range(3):
            blas_threads.all_threads()
            blas_threads.few_threads()
            if blas.threads not in (4, 8):
                wrong.append(blas.threads)
        return []

    threads = [threading.Thread(target=lambda: [blas_threads.limited(run)([]) for _ in range(200)]) for _ in range(6)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong and blas.threads == 8


def test_interrupts_at_every_line(blas: Counter) -> None:
    def run() -> None:
        blas_threads.limited(lambda values: blas_threads.all_threads() or blas_threads.few_threads() or [])([])

    for n in range(1, lines_of(run) + 1):
        interrupt(run, n)
        assert blas.threads == 8 and not blas_threads._running and not blas_threads._held


@needs_fork
def test_a_child_has_all_of_them(blas: Counter) -> None:
    def as_before() -> None:
        assert (blas.threads, len(blas_threads._running)) == (8, 0)

    def run(values: list) -> list:
        assert blas.threads == 4
        in_a_child(as_before)()
        return []

    blas_threads.limited(run)([])
    assert blas.threads == 8


# ---------------------------------------------------------------- the BLAS of this NumPy


def test_this_blas() -> None:
    """Found, or said to be unknown; found again after programs."""
    f = funcad.jit(lambda x: np.linalg.eigvalsh(x @ x.T))
    for _ in range(3):
        f(A)
    text = str(f.explain(A))
    libraries = blas_threads._libraries()
    assert "BLAS threads: " in text and ("left alone" in text) == (not libraries)
    assert f.explain(A).blas == blas_threads.report() in text
    for library in libraries:
        before = library.get()
        try:
            library.set(2)
            several = library.get()  # 1, if it was built without threads
            seen = blas_threads.limited(lambda values: [library.get()])([])  # noqa: B023 runs at once
            assert seen == [1] and library.get() == several
        finally:
            library.set(before)


def test_an_unknown_blas_is_left_alone(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(blas_threads, "_SYMBOLS", ["nobodys_{}_threads"])
    assert blas_threads.addresses_of(sys.modules["numpy._core._multiarray_umath"]) == (0, 0)
    blas_threads._asked.clear()
    try:
        f = funcad.jit(lambda x: np.linalg.qr(x @ x)[0] @ x)
        np.testing.assert_allclose(f(A), np.linalg.qr(A @ A)[0] @ A, rtol=1e-6, atol=1e-6)
        assert "has no known functions" in str(f.explain(A)) and "left alone" in f.explain(A)._repr_html_()
        funcad.show_config()
        assert "BLAS threads: left alone" in capsys.readouterr().out
    finally:
        blas_threads._asked.clear()


def test_import_and_what_is_not_compiled_change_nothing() -> None:
    text = """
import numpy as np
from funcad.backends import blas_threads
import funcad
x = np.ones((200, 200))
blas_threads._enter = None
funcad.grad(lambda x: np.sum(np.sin(x)))(x)
f = funcad.jit(lambda x: np.sin(x) + 1.0)
for _ in range(50): f(x)
assert not blas_threads._asked
"""
    in_a_process(text)
