"""Kernels are compiled in the background: until they are there, a program runs CuPy's lines in their place.

Idea: a module of CuPy's compiles when it is asked to, for the device that is current, and CuPy keeps the machine code on disk
(by text, options, processor and compiler, each file renamed into its place). Here threads ask, NVRTC working without the
interpreter's lock. Whoever calls a kernel waits for it, but for `Deferred`, which programs run: it takes the lines. Invariant:
an error of the compiler is in the log of compilations, and raised at whoever waits; a program notes it and keeps to the lines.
Trap: lines may give views of their operands, kernels never do, and what writes over results rests on that. A forked child has
none of the threads, so that it asks anew.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

from funcad.host.forks import held_over_forks
from funcad.show.compile_log import CompileEvent, log

__all__ = ["module_of", "Deferred", "pending"]

OPTIONS = ("--std=c++17", "--fmad=false")
THREADS = 4
BACKGROUND = True  # False: programs wait, too (tests and benchmarks of kernels)
_modules: dict[Hashable, Any] = {}  # (the library, the device, the text) -> the module, or the future that compiles it
_pool: list[ThreadPoolExecutor] = []
_lock = threading.RLock()
held_over_forks(_lock)
_deferring = threading.local()  # `on`: this thread does not wait


class NotYet(Exception):
    """A kernel is being compiled; `key` says which."""

    def __init__(self, key: Hashable):
        super().__init__("a kernel is being compiled")
        self.key = key


class Failed(Exception):
    """A kernel that the compiler, which is the cause, does not take."""


def module_of(xp: Any, text: str) -> Any:
    """The compiled module of a text; raises NotYet within `Deferred`, and Failed."""
    device = xp.cuda.runtime.getDevice() if hasattr(xp, "cuda") else 0
    key = (xp, device, text)
    found = _modules.get(key)
    if found is None:
        with _lock:
            found = _modules.get(key)
            if found is None:
                module = xp.RawModule(code=text, options=OPTIONS)
                if hasattr(module, "compile"):  # else it is there at once
                    if not _pool:
                        _pool.append(ThreadPoolExecutor(THREADS, thread_name_prefix="funcad kernels"))
                    found = _pool[0].submit(_compile, xp, device, module)
                else:
                    found = module
                _modules[key] = found
    if type(found) is not Future:
        return found
    if BACKGROUND and getattr(_deferring, "on", False) and not found.done():
        raise NotYet(key)
    try:
        module = found.result()
    except Exception as error:  # anew each time, for a traceback that is raised again grows
        raise Failed(f"{type(error).__name__}: {error}") from error
    _modules[key] = module
    return module


def _compile(xp: Any, device: int, module: Any) -> Any:
    start, why = time.perf_counter(), "engine cuda"
    try:
        with xp.cuda.Device(device) if hasattr(xp, "cuda") else nullcontext():
            module.compile()
    except Exception as error:
        why = f"engine cuda: it failed, {type(error).__name__}: {error}"
        raise
    finally:
        log.append(CompileEvent("compiled", "a kernel", "", time.perf_counter() - start, why))
    return module


def pending(key: Hashable) -> bool:
    """Is this kernel being compiled?"""
    found = _modules.get(key)
    return type(found) is Future and not found.done()


def _forget() -> None:
    _pool.clear()
    for key in [key for key, found in _modules.items() if type(found) is Future]:
        del _modules[key]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class Deferred:
    """`kernel(*arrays)`, and its lines until it is compiled: `lines()` writes them, `note(text)` hears of an error."""

    def __init__(self, xp: Any, kernel: Any, avals: Any, lines: Callable[[], Any], note: Callable[[str], None]):
        self.xp, self.kernel, self.avals, self.lines, self.note = xp, kernel, avals, lines, note
        self.waits: Hashable = None  # for what the last call waited
        self.written: Any = None

    @property
    def pending(self) -> bool:
        return self.waits is not None and pending(self.waits)

    def __call__(self, *arrays: Any) -> list[Any]:
        before = getattr(_deferring, "on", False)
        _deferring.on = True
        try:
            return self.kernel(*arrays)
        except NotYet as reason:
            self.waits = reason.key
        except Failed as reason:
            self.note(str(reason))
        finally:
            _deferring.on = before
        return self._by_lines(arrays)

    def _by_lines(self, arrays: Any) -> list[Any]:
        xp = self.xp
        if self.written is None:
            self.written = self.lines()
        given = [a if type(a) is xp.ndarray else xp.full((), a, v.dtype) for a, v in zip(arrays, self.avals)]
        results: list[Any] = []
        for r in self.written.function(list(given)):
            shares = any([xp.may_share_memory(r, x) for x in (*given, *results)])
            results.append(xp.array(r, order="C") if shares or not r.flags.c_contiguous else r)
        return results
