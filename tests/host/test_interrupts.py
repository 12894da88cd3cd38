"""Ctrl-C at any moment of compiling is a KeyboardInterrupt, and the next call is right."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import linecache
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.backends.native import target
from funcad.host import progress
from funcad.host.where import open_traces, state

pytestmark = pytest.mark.group("alone")  # of time, memory, threads or counts

FOLDERS = ("funcad", "llvmlite")
SWALLOW = frozenset(["__del__", "_forget", "_gone"])  # the last two of weak references; full tables let go what they are to
ADD = "define double @add(double %x) {{\nentry:\n  %y = fadd double %x, {number:e}\n  ret double %y\n}}\n"


@pytest.fixture(autouse=True)
def ctrl_c() -> Any:
    """Python's own answer to it: a process that was started in the background ignores it."""
    saved = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, saved)


def watched(frame: FrameType) -> bool:
    """Is this funcad's or llvmlite's code, and no part of what swallows whatever is raised in it, such as a destructor?"""
    name = frame.f_code.co_filename.replace("\\", "/")
    name = name.rpartition("/site-packages/")[2]  # an environment may lie in a folder of our name
    if not any([f"/{folder}/" in f"/{name}" for folder in FOLDERS]):
        return False
    caller: FrameType | None = frame
    while caller is not None and caller.f_code.co_name not in SWALLOW:
        caller = caller.f_back
    return caller is None


def on_a_with(frame: FrameType) -> bool:
    """Is this a `with`? Leaving one is an event of that line, when Python looks for no signals: a lock would stay."""
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")


class Interrupted:
    """While this is open, Ctrl-C comes at the n-th line that runs in funcad or in llvmlite."""

    def __init__(self, n: int):
        self.left = n

    def __enter__(self) -> Interrupted:
        self.saved = sys.gettrace()
        sys.settrace(self.trace)
        return self

    def __exit__(self, *error: Any) -> None:
        sys.settrace(self.saved)

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "call":
            return self.trace if watched(frame) else None
        if event == "line" and self.left and not on_a_with(frame):
            self.left -= 1
            if not self.left:
                self.where = "".join(traceback.format_stack(frame, 6))
                signal.raise_signal(signal.SIGINT)
        return self.trace


class InterruptedBetween(Interrupted):
    """While this is open, Ctrl-C comes where the n-th block of a generator begins or ends, before or after the generator."""

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "call" and self.left and frame.f_code.co_filename == contextlib.__file__:
            self.left -= 1
            if not self.left:
                signal.raise_signal(signal.SIGINT)
        return None


def lines_of(run: Callable[[], Any], kind: type[Interrupted] = Interrupted) -> int:
    """How many lines of funcad and llvmlite run."""
    with kind(10**9) as counter:
        run()
    return 10**9 - counter.left


def interrupt(run: Callable[[], Any], n: int, kind: type[Interrupted] = Interrupted) -> None:
    """Run it, interrupted at its n-th line; what comes out is the interrupt and nothing else."""
    at = kind(n)
    gc.disable()  # what other tests have left calls back when it is freed, and Python swallows what is raised there
    try:  # around all of it: what is freed last may run lines, too
        with at:
            run()
    except KeyboardInterrupt:
        pass
    else:
        assert at.left, f"the interrupt at line {n} of {run} was lost: {at.where}"
        return
    finally:
        gc.enable()
    assert not open_traces  # or no later call would be fast; looked at when nothing holds the frames that were left
    assert state.running is None and state.staging is None and state.abstract is None and state.observer is None
    assert state.source is None  # or all that comes would be said to have been written there
    assert np.geterr()["divide"] == "warn"  # nor is NumPy left in a mode of ours


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_interrupts_inside_llvm_are_interrupts(tmp_path: Any, every: int) -> None:
    pytest.importorskip("llvmlite")
    assert target.available()

    def compiled(number: float) -> float:
        code = target.compile_module(ADD.format(number=number), ["add"])
        return float(ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address["add"])(1.0))

    with funcad.config.set(cache_dir=str(tmp_path)):
        compiled(1.0)
        for number in (2.0, 1.0):  # compiled; loaded from its file
            for n in range(1, lines_of(lambda: compiled(number)) + 1, every):  # noqa: B023 runs at once
                fresh = number if number == 1.0 else number + n
                interrupt(lambda: compiled(fresh), n)  # noqa: B023 runs at once
                assert compiled(fresh) == fresh + 1.0
        assert not target._lock._is_owned()  # type: ignore[attr-defined]


@pytest.mark.share(12)
@pytest.mark.parametrize("engine", ["auto", "numpy", "interpreter"])
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_interrupts_of_a_first_call_are_interrupts(engine: str, every: int) -> None:
    x = np.linspace(0.1, 1.0, 5)

    def program() -> Any:
        step = lambda c, v: (c * 0.5 + np.sin(v), c)
        return funcad.jit(funcad.grad(lambda x: funcad.scan(step, np.sum(x), x)[0] + np.prod(x)))

    def calls(f: Any) -> Any:
        f(x)
        f(x)
        return f(x)

    with funcad.config.set(engine=engine, cache_dir="off"):
        expected = calls(program())
        total = lines_of(lambda: calls(program()))
        for i in range(0, 40, every):
            f = program()
            interrupt(lambda: calls(f), 1 + (2 * i + 1) * total // 80)  # noqa: B023 runs at once
            np.testing.assert_allclose(calls(f), expected, rtol=1e-12)


@pytest.mark.parametrize("transform", [lambda f: f, funcad.grad])
def test_interrupts_between_blocks_leave_nothing_open(transform: Callable[[Any], Any]) -> None:
    """A generator that is left behind ends when all else is over, and must not put back what held inside."""
    x = np.array([0.3, 0.2, 0.9])

    def branches(x: Any) -> Any:
        s = x[0]
        for v in x:
            s = s + np.sin(v) if s < 1.0 else s * 0.5 - np.cos(v)
        return s * np.sum(x)

    def program() -> Any:
        return funcad.jit(transform(lambda x: branches(x)))

    def calls(f: Any) -> Any:
        return [f(x) for _ in range(4)]

    expected, thresholds = calls(program()), gc.get_threshold()
    for n in range(1, lines_of(lambda: calls(program()), InterruptedBetween) + 1):
        f = program()
        interrupt(lambda: calls(f), n, InterruptedBetween)  # noqa: B023 runs at once
        np.testing.assert_allclose(calls(f), expected, rtol=1e-12)
        assert gc.get_threshold() == thresholds and not progress.collector.making


# -- what is shown of it


def _waves(x: np.ndarray) -> np.ndarray:
    for i in range(4):
        x = np.sin(x) * i
        try:
            x = x + {}[i]  # another error is being handled
        except KeyError:
            x = x + 1.0
    return np.sum(x)


@pytest.mark.parametrize(
    "make",
    [
        lambda: funcad.grad(_waves),
        lambda: funcad.hessian(_waves),
        lambda: funcad.jit(funcad.grad(_waves)),
        lambda: funcad.vmap(_waves),
        lambda: funcad.make_jaxpr(_waves),
    ],
    ids=["grad", "hessian", "jit", "vmap", "make_jaxpr"],
)
def test_it_is_shown_without_our_frames(make: Callable[[], Any]) -> None:
    """Of funcad's files one frame is left, that of what the user called, and no error that was handled when it came."""
    came, lines, x = 0, [], np.ones(3)
    for n in range(5, 400, 13):
        f = make()
        try:
            with Interrupted(n):
                f(x), f(x)
        except KeyboardInterrupt as stop:
            came += 1
            shown = "".join(traceback.format_exception(stop))
            lines.append(len(shown.splitlines()))
            assert shown.count(str(Path(funcad.__file__).parent)) <= 2, shown
    assert came > 10 and max(lines) <= 25
