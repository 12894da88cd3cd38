"""Kernels that are compiled in the background, on a stand-in whose compiler waits until it is told (tests/standin.py)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from funcad import config, debug, jit
from funcad.backends.cuda import launches
from funcad.backends.cuda.elements import PRELUDE
from tests import cuda_shim
from tests.agreement import assert_close
from tests.cuda_driver import driver
from tests.standin import registered, to_device, to_host, xp

pytestmark = pytest.mark.skipif(not cuda_shim.available(), reason="there is no g++ to run kernels with")
RNG = np.random.default_rng(0)
X = np.linspace(-2.0, 2.0, 600)
MADE = type(xp).RawModule


class Slow:
    """A module that compiles when it is asked to, as CuPy's."""

    go = threading.Event()
    error: Exception | None = None
    asked: list[str] = []
    launched: list[str] = []

    def __init__(self, *, code: str, options: tuple[str, ...]):
        self.code, self.options, self.made = code, options, None

    def compile(self) -> None:
        Slow.asked.append(threading.current_thread().name)
        assert Slow.go.wait(60)
        if Slow.error is not None:
            raise Slow.error
        self.made = MADE(code=self.code, options=self.options)

    def get_function(self, name: str) -> Any:
        assert self.made is not None, "a kernel was taken before it was compiled"
        Slow.launched.append(name)
        return self.made.get_function(name)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Slow]]:
    monkeypatch.setattr(type(xp), "RawModule", Slow)
    monkeypatch.setattr(launches, "_modules", {})
    Slow.go, Slow.error, Slow.asked, Slow.launched = threading.Event(), None, [], []
    with registered(), config.set(engine="cuda"):
        yield Slow
        Slow.go.set()
        settle()  # or what waits would be compiled in the next test


def settle() -> None:
    for found in list(launches._modules.values()):
        if type(found) is launches.Future:
            found.exception(60)


def wave(x: Any) -> Any:
    return np.exp(-x * x) * np.sin(3.0 * x) + 0.5


def test_lines_run_until_the_kernel_is_there(compiler: type[Slow]) -> None:
    f, x = jit(wave), to_device(X)
    for _ in range(4):
        assert_close(to_host(f(x)), wave(X), rtol=1e-12)
    assert len(compiler.asked) == 1 and compiler.asked[0].startswith("funcad kernels") and not compiler.launched
    compiler.go.set()
    settle()
    assert_close(to_host(f(x)), wave(X), rtol=1e-12)
    assert compiler.launched and len(compiler.asked) == 1
    assert debug.compile_log()[-1].what == "compiled" and debug.compile_log()[-1].function == "a kernel"


def test_an_error_of_the_compiler_is_told_and_lines_run(compiler: type[Slow]) -> None:
    compiler.error = ValueError("no such instruction")
    compiler.go.set()
    f, x = jit(lambda x: wave(x) - 1.0), to_device(X)
    for _ in range(4):
        assert_close(to_host(f(x)), wave(X) - 1.0, rtol=1e-12)
        settle()
    assert not compiler.launched and len(compiler.asked) == 1
    assert any(["no such instruction" in reason for reason in f.explain(x).reasons])
    assert any(["no such instruction" in event.why for event in debug.compile_log()])


def test_lines_give_fresh_results(compiler: type[Slow]) -> None:
    """As kernels do: what comes later may write over them."""
    x = to_device(X.reshape(20, 30))
    same = type("Lines", (), {"function": staticmethod(lambda values: [values[0], values[0].T])})
    kernel = lambda *arrays: launches.module_of(xp, "fresh")
    not_there = launches.Deferred(xp, kernel, [None], lambda: same, print)
    first, second = not_there(x)
    assert not_there.pending
    assert not xp.may_share_memory(first, x) and not xp.may_share_memory(second, x) and second.flags.c_contiguous
    np.testing.assert_array_equal(to_host(second), X.reshape(20, 30).T)


def test_whoever_is_not_a_program_waits(compiler: type[Slow]) -> None:
    head = 'extern "C" __global__ void __launch_bounds__(256) kernel(double* x, const long long n)'
    text = f"{PRELUDE}{head} {{\n  x[0] = 1.0;\n}}\n"
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(launches.module_of(xp, text))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert not found
    compiler.go.set()
    for thread in threads:
        thread.join(60)
    assert len(found) == 4 and len({id(module) for module in found}) == 1 and len(compiler.asked) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore")
def test_a_forked_child_asks_anew(compiler: type[Slow]) -> None:
    f, x = jit(lambda x: wave(x) * 2.0), to_device(X)
    f(x), f(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if not launches._modules and not launches._pool else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_nothing_is_captured_before_its_kernels_are_there(compiler: type[Slow]) -> None:
    def network(w: Any) -> Any:
        return np.tanh(np.tanh(np.tanh(w @ w) @ w + 1.0) @ w - 2.0) * 0.5

    w = RNG.normal(size=(6, 6))
    with driver() as found:
        f, x = jit(network), to_device(w)
        for _ in range(5):
            assert_close(to_host(f(x)), network(w), rtol=1e-12)
        assert "no CUDA graph yet" in str(f.explain(x))
        compiler.go.set()
        for _ in range(5):
            assert_close(to_host(f(x)), network(w), rtol=1e-12)
            settle()
        assert "CUDA graphs: 1" in str(f.explain(x)) and compiler.launched and found.faults == []
