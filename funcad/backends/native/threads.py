"""Threads that share the parts of one large kernel, all in machine code.

Idea: `run(pool, function, a, n, step, b, b_step)` calls `function(a, lo, hi, b + i * b_step)` for the parts lo..hi of 0..n,
each of `step` elements; the caller (i = 0) and helpers that wait in the pool take parts from one counter until there are none.
A job is announced by the *gate*, one word that holds the number of the job, whether it is open, and how many helpers have
entered: a helper enters by a compare-and-swap of the gate, so one that wakes late finds it closed, and the caller never waits
for a thread that has not begun. Helpers spin a little after a job, then sleep on a condition variable.

Invariants: the parts are the same whatever the number of threads; a pool has one job at a time, and a caller that finds it
busy runs its parts alone, so that any number of Python threads may call. Helpers are plain threads of the system, which never
touch Python; they take no signals, and end before the interpreter does. A forked child has none of them: its pool is set up
anew, at the same address, which kernels hold. Trap: the code of a sleeping helper must not be freed, so what is compiled here
stays.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import signal
import threading

import numpy as np

from funcad.backends.batches import thread_count
from funcad.backends.native import ir, target

WORTH = 80.0  # microseconds of work on one thread, from which on waking another one pays
SPIN = 1000  # looks at the gate before a helper sleeps

# byte offsets in the memory of a pool; words that different threads write are on cache lines of their own
GATE, NEXT, FINISHED, JOB, SLEEPERS, LIMIT, QUIT, BUSY = 0, 64, 128, 192, 256, 320, 328, 384
MUTEX, CONDITION, SIZE = 448, 576, 704  # no system's mutex or condition variable is larger than 128 bytes
FUNCTION, FIRST, COUNT, STEP, SECOND, SECOND_STEP = (JOB + 8 * i for i in range(6))
OPEN = 1 << 15  # in the gate; below it the number of helpers that entered, above it the number of the job


class _ThreadsText:
    """Shorthand for the functions below."""

    def __init__(self, module: ir.Module, name: str, parameters: str, returns: str = "void"):
        pairs = [tuple(p.split(" ")) for p in parameters.split(", ")]
        self.f = ir.Function(module, name, pairs, returns)  # type: ignore[arg-type]
        self.module = module

    def at(self, offset: int) -> str:
        return self.f.put(f"getelementptr i8, ptr %pool, i64 {offset}")

    def get(self, offset: int, kind: str = "i64") -> str:
        return self.f.load(f"load {kind}, ptr {self.at(offset)}")

    def put(self, offset: int, value: str, kind: str = "i64") -> None:
        self.f.do(f"store {kind} {value}, ptr {self.at(offset)}")

    def see(self, offset: int) -> str:
        return self.f.load(f"load atomic i64, ptr {self.at(offset)} seq_cst, align 8")

    def show(self, offset: int, value: str) -> None:
        self.f.do(f"store atomic i64 {value}, ptr {self.at(offset)} seq_cst, align 8")

    def change(self, offset: int, how: str, value: str) -> str:
        return self.f.load(f"atomicrmw {how} ptr {self.at(offset)}, i64 {value} seq_cst")

    def swap(self, offset: int, old: str, new: str) -> str:
        """Whether the word was `old`; it is `new` then."""
        both = self.f.load(f"cmpxchg ptr {self.at(offset)}, i64 {old}, i64 {new} seq_cst seq_cst")
        return self.f.put(f"extractvalue {{i64, i1}} {both}, 1")

    def system(self, name: str, *arguments: str) -> None:
        target_name = self.module.declare(name, "i32", ["ptr"] * len(arguments))
        self.f.load(f"call i32 {target_name}({', '.join([f'ptr {a}' for a in arguments])})")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.f.do(f"br i1 {condition}, label %{yes}, label %{no}")

    def go(self, label: str) -> None:
        self.f.do(f"br label %{label}")

    def block(self, label: str) -> None:
        self.f.open(label)

    def pause(self) -> None:
        machine = platform.machine().lower()
        if machine in ("x86_64", "amd64", "i686", "i386"):
            self.f.do(f"call void {self.module.declare('llvm.x86.sse2.pause', 'void', [])}()")
        elif machine in ("aarch64", "arm64"):
            self.f.do(f"call void {self.module.declare('llvm.aarch64.hint', 'void', ['i32'])}(i32 1)")

    def turn(self, turns: str, limit: int, again: str, enough: str) -> None:
        """The block "turn" of a loop that waits: it counts in `turns`."""
        f = self.f
        self.block("turn")
        self.pause()
        turn = f.load(f"add i64 {f.load(f'load i64, ptr {turns}')}, 1")
        f.do(f"store i64 {turn}, ptr {turns}")
        self.branch(f.load(f"icmp slt i64 {turn}, {limit}"), again, enough)

    def end(self, value: str = "void") -> None:
        self.f.do(f"ret {value}")


def _text() -> str:
    module = ir.Module()
    for build in (_parts, _helper, _run, _stop):
        module.add(build(module).f)
    return module.text()


def _parts(module: ir.Module) -> _ThreadsText:
    """Run parts until there are none; `i` is this thread's number in the job."""
    t = _ThreadsText(module, "parts", "ptr %pool, i64 %i")
    f = t.f
    function, a, n, step = t.get(FUNCTION, "ptr"), t.get(FIRST, "ptr"), t.get(COUNT), t.get(STEP)
    b = f.put(f"getelementptr i8, ptr {t.get(SECOND, 'ptr')}, i64 {f.put(f'mul i64 %i, {t.get(SECOND_STEP)}')}")
    t.go("take")
    t.block("take")
    lo = t.change(NEXT, "add", step)
    t.branch(f.put(f"icmp slt i64 {lo}, {n}"), "work", "done")
    t.block("work")
    hi = f.load(f"add i64 {lo}, {step}")
    less = f.load(f"icmp slt i64 {hi}, {n}")
    stop = f.load(f"select i1 {less}, i64 {hi}, i64 {n}")
    f.do(f"call void {function}(ptr {a}, i64 {lo}, i64 {stop}, ptr {b})")
    t.go("take")
    t.block("done")
    t.end()
    return t


def _helper(module: ir.Module) -> _ThreadsText:
    """The life of a helper: wait for a gate with another number, enter if it is open, run parts."""
    t = _ThreadsText(module, "helper", "ptr %pool", "ptr")
    f = t.f
    for offset in (GATE, SLEEPERS, QUIT, LIMIT, FINISHED, MUTEX, CONDITION):
        t.at(offset)  # addresses, named in the first block, for all others
    last = f.load("alloca i64")
    turns = f.load("alloca i64")
    f.do(f"store i64 -1, ptr {last}")
    t.go("again")

    def number() -> tuple[str, str]:
        gate = t.see(GATE)
        return gate, f.load(f"lshr i64 {gate}, 16")

    t.block("again")
    f.do(f"store i64 0, ptr {turns}")
    t.go("spin")
    t.block("spin")
    _, now = number()
    t.branch(f.load(f"icmp ne i64 {now}, {f.load(f'load i64, ptr {last}')}"), "news", "turn")
    t.turn(turns, SPIN, "spin", "bed")
    t.block("bed")
    t.system("pthread_mutex_lock", t.at(MUTEX))
    t.change(SLEEPERS, "add", "1")  # before the gate is looked at: the caller opens it before it looks for sleepers
    t.go("check")
    t.block("check")
    _, now = number()
    t.branch(f.load(f"icmp ne i64 {now}, {f.load(f'load i64, ptr {last}')}"), "wake", "sleep")
    t.block("sleep")
    t.system("pthread_cond_wait", t.at(CONDITION), t.at(MUTEX))
    t.go("check")
    t.block("wake")
    t.change(SLEEPERS, "sub", "1")
    t.system("pthread_mutex_unlock", t.at(MUTEX))
    t.go("news")
    t.block("news")
    t.branch(f.load(f"icmp ne i64 {t.see(QUIT)}, 0"), "quit", "enter")
    t.block("enter")
    gate, now = number()
    f.do(f"store i64 {now}, ptr {last}")
    entered = f.load(f"and i64 {gate}, {OPEN - 1}")
    is_open = f.load(f"icmp ne i64 {f.load(f'and i64 {gate}, {OPEN}')}, 0")
    wanted = f.load(f"icmp slt i64 {entered}, {t.see(LIMIT)}")
    t.branch(f.load(f"and i1 {is_open}, {wanted}"), "try", "again")
    t.block("try")
    mine = f.load(f"add i64 {entered}, 1")
    both = f.load(f"cmpxchg ptr {t.at(GATE)}, i64 {gate}, i64 {f.load(f'add i64 {gate}, 1')} seq_cst seq_cst")
    t.branch(f.load(f"extractvalue {{i64, i1}} {both}, 1"), "work", "enter")
    t.block("work")
    f.do(f"call void @parts(ptr %pool, i64 {mine})")
    t.change(FINISHED, "add", "1")
    t.go("again")
    t.block("quit")
    t.end("ptr null")
    return t


_JOB = (
    ("ptr", "function", FUNCTION),
    ("ptr", "a", FIRST),
    ("i64", "n", COUNT),
    ("i64", "step", STEP),
    ("ptr", "b", SECOND),
    ("i64", "b_step", SECOND_STEP),
)


def _run(module: ir.Module) -> _ThreadsText:
    """One job, begun and finished by the calling thread."""
    t = _ThreadsText(module, "run", ", ".join(["ptr %pool", *[f"{kind} %{name}" for kind, name, _ in _JOB]]))
    f = t.f
    for offset in (GATE, SLEEPERS, FINISHED, MUTEX, CONDITION, NEXT, BUSY, *[o for _, _, o in _JOB]):
        t.at(offset)
    t.branch(f.put(f"icmp sgt i64 {t.see(LIMIT)}, 0"), "ask", "alone")
    t.block("ask")
    t.branch(t.swap(BUSY, "0", "1"), "announce", "alone")
    t.block("announce")
    for kind, name, offset in _JOB:
        t.put(offset, f"%{name}", kind)
    t.show(FINISHED, "0")
    t.show(NEXT, "0")
    job = f.put(f"add i64 {f.put(f'lshr i64 {t.see(GATE)}, 16')}, 1")
    t.show(GATE, f.put(f"or i64 {f.put(f'shl i64 {job}, 16')}, {OPEN}"))
    t.branch(f.put(f"icmp ne i64 {t.see(SLEEPERS)}, 0"), "call", "work")
    t.block("call")
    t.system("pthread_mutex_lock", t.at(MUTEX))
    t.system("pthread_cond_broadcast", t.at(CONDITION))
    t.system("pthread_mutex_unlock", t.at(MUTEX))
    t.go("work")
    t.block("work")
    f.do("call void @parts(ptr %pool, i64 0)")
    entered = f.load(f"and i64 {t.change(GATE, 'and', str(~OPEN))}, {OPEN - 1}")
    turns = f.load("alloca i64")
    f.do(f"store i64 0, ptr {turns}")
    t.go("wait")
    t.block("wait")
    t.branch(f.load(f"icmp eq i64 {t.see(FINISHED)}, {entered}"), "done", "turn")
    t.turn(turns, 4 * SPIN, "wait", "yield")
    t.block("yield")  # the helper's core may be taken
    t.system("sched_yield")
    t.go("wait")
    t.block("done")
    t.show(BUSY, "0")
    t.end()
    t.block("alone")
    with f.loop(0, "%n", "%step") as loop:
        stop = f.put(f"add i64 {loop.index}, %step")
        less = f.put(f"icmp slt i64 {stop}, %n")
        f.do(f"call void %function(ptr %a, i64 {loop.index}, i64 {f.put(f'select i1 {less}, i64 {stop}, i64 %n')}, ptr %b)")
    t.end()
    return t


def _stop(module: ir.Module) -> _ThreadsText:
    """Tell the helpers to end; the pool stays busy, so that later calls run alone."""
    t = _ThreadsText(module, "stop", "ptr %pool")
    for offset in (BUSY, GATE):
        t.at(offset)
    t.show(LIMIT, "0")
    t.go("ask")
    t.block("ask")
    t.branch(t.swap(BUSY, "0", "1"), "tell", "yield")
    t.block("yield")
    t.system("sched_yield")
    t.go("ask")
    t.block("tell")
    t.show(QUIT, "1")
    t.change(GATE, "add", str(1 << 16))
    t.system("pthread_mutex_lock", t.at(MUTEX))
    t.system("pthread_cond_broadcast", t.at(CONDITION))
    t.system("pthread_mutex_unlock", t.at(MUTEX))
    t.end()
    return t


# -- the pool of this process


class _Pool:
    """Memory, code and helpers; made once."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(None)
        self.create, self.join = self.library.pthread_create, self.library.pthread_join
        self.create.argtypes = [ctypes.c_void_p] * 4
        self.join.argtypes = [ctypes.c_void_p] * 2
        self.code = target.compile_module(_text(), ["helper", "run", "stop"])
        self.memory = np.zeros(SIZE + 64, np.uint8)
        self.address = -(-self.memory.ctypes.data // 64) * 64
        self.owner = os.getpid()
        self.helpers: list[int] = []
        self.threads = 1
        self.reset()

    def reset(self) -> None:
        """A pool without helpers."""
        ctypes.memset(self.address, 0, SIZE)
        for name, offset in (("pthread_mutex_init", MUTEX), ("pthread_cond_init", CONDITION)):
            getattr(self.library, name)(ctypes.c_void_p(self.address + offset), None)
        self.helpers.clear()
        self.threads = 1

    def resize(self, threads: int) -> None:
        """Let jobs use this many threads; helpers are started when they are first wanted."""
        masked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            while len(self.helpers) < min(threads, OPEN) - 1:
                handle = ctypes.c_uint64()
                if self.create(ctypes.addressof(handle), None, self.code.address["helper"], self.address) != 0:
                    break  # no more threads to be had: with those that there are
                self.helpers.append(handle.value)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        self.threads = threads
        ctypes.c_int64.from_address(self.address + LIMIT).value = min(threads - 1, len(self.helpers))

    def close(self) -> None:
        """End the helpers."""
        if self.owner == os.getpid() and self.helpers:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.code.address["stop"])(self.address)
            for handle in self.helpers:
                self.join(handle, None)
            self.helpers.clear()


_pool: list[_Pool] = []
_lock = threading.Lock()


def _the_pool() -> _Pool | None:
    """The pool; None where the system has no POSIX threads."""
    if not hasattr(signal, "pthread_sigmask"):
        return None
    with _lock:
        if not _pool:
            _pool.append(_Pool())
            atexit.register(_pool[0].close)
        return _pool[0]


def runner() -> tuple[int, int]:
    """The addresses of `run` and of the pool, for the words of a kernel; (0, 0) where there can be no helpers."""
    pool = _the_pool()
    return (0, 0) if pool is None else (pool.code.address["run"], pool.address)


def ready() -> None:
    """See to it that jobs use as many threads as the settings say; for callers of large kernels, before each call."""
    threads = thread_count()
    if _pool and _pool[0].threads != threads:
        with _lock:
            if _pool[0].threads != threads:
                _pool[0].resize(threads)


def helpers() -> int:
    """How many helpers there are now."""
    return len(_pool[0].helpers) if _pool else 0


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    for pool in _pool:
        pool.owner = os.getpid()
        pool.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
