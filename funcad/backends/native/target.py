"""The machine that code is compiled for, and the one door to llvmlite.

Idea: `compile_module(text, names)` turns the text of an LLVM module into addresses of functions; whatever has been compiled for
the same machine before comes from the object cache on disk (cache.py). llvmlite is loaded by the first of `available`, `host`
and `compile_module`, never by an import. Whether the native engine can be used at all is found out once per process, by
compiling and running a small kernel whose results are known. Invariants: one thread at a time is inside LLVM, which calls no
Python, and signals wait until it is left; code lives as long as the `MachineCode` that gave its address, and
whoever calls an address keeps it. Traps: LLVM ends the process when code needs a symbol that it cannot find, so every external
name is looked up first, and when it is given an object that is none; a lock held by another thread when the process forks stays
held in the child, so the child gets a new one.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.interpreter import compiling
from funcad.backends.native import cache
from funcad.host.locks import held_over_forks
from funcad.memo import remembers, weak_values

OLDEST = (0, 45)  # of llvmlite: LLVM 20, whose pointers are opaque without an option
FORMAT = "1"  # of what we keep in the cache; another one makes old entries unreachable
OVERRIDE = "FUNCAD_NATIVE_TARGET"  # "x86-64-v2" or "NAME:feature,feature": compile for another processor, for tests
_FEATURES = {  # of the processors that an override may name without features
    "x86-64": "sse2",
    "x86-64-v2": "sse2,sse3,ssse3,sse4.1,sse4.2,popcnt",
    "x86-64-v3": "sse2,sse3,ssse3,sse4.1,sse4.2,popcnt,avx,avx2,fma,bmi,bmi2,f16c",
    "x86-64-v4": "sse2,sse3,ssse3,sse4.1,sse4.2,popcnt,avx,avx2,fma,bmi,bmi2,f16c,avx512f,avx512bw,avx512cd,avx512dq,avx512vl",
}

probes: list[Callable[[], str | None]] = []  # further start-up tests; each gives None or what is wrong


class CompilationError(RuntimeError):
    """LLVM did not accept code that funcad made: a defect of funcad, whose message says where the code was saved."""


class Host(NamedTuple):
    """A processor: LLVM's name of it, the features that it has, and how many bits a vector register holds."""

    name: str
    features: frozenset[str]
    vector_bits: int


class MachineCode:
    """Machine code: `address[name]` of each function asked for, valid as long as this object lives."""

    __slots__ = ("address", "_engine", "_object", "__weakref__")

    def __init__(self, address: dict[str, int], engine: Any, code: Any):
        self.address = address
        self._engine = engine
        self._object = code


_lock = threading.RLock()
_alive = weak_values(
    "native.machine code",
    "hash of the text and the target: the code, while it is used",
)
_verdict: str | None = None  # why the native engine cannot be used, "" if it can, None before anyone asked
_probed = 0  # how many of the probes have been run
held_over_forks(compiling, _lock)  # LLVM has locks of its own, which no child may inherit taken


@remembers(same=None)
def _llvm() -> Any:
    """llvmlite.binding, ready to compile for this processor."""
    import llvmlite
    import llvmlite.binding as llvm

    if _version(llvmlite.__version__) < OLDEST:
        raise ImportError(f"llvmlite {llvmlite.__version__} is too old, {'.'.join(map(str, OLDEST))} is needed")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def _version(text: str) -> tuple[int, ...]:
    return tuple([int(n) for n in re.findall(r"\d+", text)[:2]])


@remembers()
def _processor(override: str) -> tuple[Host, str]:
    """The processor to compile for, and its features as LLVM wants them written."""
    if override:
        name, _, text = override.partition(":")
        on = frozenset(f.lstrip("+") for f in (text or _FEATURES.get(name, "")).split(",") if f)
        return Host(name, on, _vector_bits(on)), ",".join([f"+{f}" for f in sorted(on)])
    llvm = _llvm()
    try:
        features = llvm.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know how to ask on this system: code for the plain architecture
        return Host("generic", frozenset(), 128), ""
    on = frozenset(f for f, has in features.items() if has)
    return Host(llvm.get_host_cpu_name(), on, _vector_bits(on)), features.flatten()


def _vector_bits(features: frozenset[str]) -> int:
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= features:
        return 512
    return 256 if "avx2" in features else 128


def host() -> Host:
    """The processor to compile for: this machine's, or the one that FUNCAD_NATIVE_TARGET names."""
    return _processor(os.environ.get(OVERRIDE, ""))[0]


def lanes_of(host: Host, dtypes: Iterable[Any]) -> int:
    """How many elements one vector holds, if the widest of the dtypes fills it; a complex number is two vectors.

    >>> lanes_of(Host("example", frozenset(), 256), [np.float64, np.bool_])
    4
    """
    widest = 1
    for dtype in map(np.dtype, dtypes):
        widest = max(widest, dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize)
    return host.vector_bits // (8 * widest)


# -- whether it works here


def available() -> bool:
    """Can this process compile and run native code?"""
    return why_not() is None


def why_not() -> str | None:
    """What keeps this process from compiling native code, in one line; None if nothing does."""
    global _verdict
    if _verdict is None or not _verdict and _probed < len(probes):
        with _lock:
            if _verdict is None:
                _verdict = _examine()
            if not _verdict:
                _verdict = _run_probes()
    return _verdict or None


def _examine() -> str:
    try:
        _llvm().check_jit_execution()  # systems may forbid memory that is written first and run then
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "llvmlite":
            return "llvmlite is not installed (pip install llvmlite)"
        return str(error)
    except Exception as error:  # a broken installation must not break the program: NumPy takes over, and show_config() says so
        return f"llvmlite cannot be used: {error}"
    return ""


def _run_probes() -> str:
    """What the start-up tests that have not been run say; modules that are imported later may bring more."""
    global _probed
    while _probed < len(probes):
        probe = probes[_probed]
        _probed += 1
        try:
            wrong = probe()
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        except BaseException:  # interrupted: it has not said anything
            _probed -= 1
            raise
        if wrong:
            return f"the start-up test failed: {wrong}"
    return ""


_PROBE = """
declare double @exp(double)
declare <4 x double> @llvm.fabs.v4f64(<4 x double>)
define double @probe(ptr %x, i64 %n) nounwind {
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %body]
  %s = phi <4 x double> [zeroinitializer, %entry], [%t, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %p = getelementptr double, ptr %x, i64 %i
  %v = load <4 x double>, ptr %p, align 8
  %a = call <4 x double> @llvm.fabs.v4f64(<4 x double> %v)
  %t = fadd <4 x double> %s, %a
  %next = add i64 %i, 4
  br label %head
done:
  %s0 = extractelement <4 x double> %s, i32 0
  %s1 = extractelement <4 x double> %s, i32 1
  %s2 = extractelement <4 x double> %s, i32 2
  %s3 = extractelement <4 x double> %s, i32 3
  %u = fadd double %s0, %s1
  %v2 = fadd double %s2, %s3
  %w = fadd double %u, %v2
  %e = call double @exp(double %w)
  ret double %e
}
"""


def _probe() -> str | None:
    """Compile, run and compare one loop of vectors that calls the C library."""
    compiled = compile_module(_PROBE, ["probe"])
    run = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_int64)(compiled.address["probe"])
    x = (ctypes.c_double * 8)(*[(-1) ** i * i / 28 for i in range(8)])
    found = run(ctypes.addressof(x), 8)
    return None if abs(found - 2.718281828459045) < 1e-14 else f"exp(1) came out as {found!r}"


probes.append(_probe)


def report() -> str:
    """What works here and where code is kept, or why nothing does, in one line."""
    reason = why_not()
    if reason is not None:
        return f"native engine: not in use: {reason}"
    llvm, machine = _llvm(), host()
    versions = f"llvmlite {_llvmlite_version()} (LLVM {'.'.join(map(str, llvm.llvm_version_info))})"
    where = f"{machine.name}, vectors of {machine.vector_bits} bits"
    return f"native engine: {versions}, {where}; kernels kept in {cache.describe()}"



# -- compiling


def _llvmlite_version() -> str:
    import llvmlite

    return str(llvmlite.__version__)


@remembers()
def _identity(override: str) -> str:
    """What machine code depends on besides its text."""
    llvm = _llvm()
    machine, features = _processor(override)
    versions = (FORMAT, _llvmlite_version(), *map(str, llvm.llvm_version_info))
    return "\n".join([*versions, llvm.get_process_triple(), machine.name, features, ""])


@remembers(same=None)
def _target_machine(override: str) -> Any:
    """What translates all modules: its tables of the processor's instructions are made once."""
    llvm = _llvm()
    machine, features = _processor(override)
    target = llvm.Target.from_triple(llvm.get_process_triple())
    # level 1: as fast as 2 and 3 for code that is explicit about its vectors, and compiled sooner; 0 runs half as fast
    return target.create_target_machine(cpu=machine.name, features=features, opt=1, jit=True)


def compile_module(text: str, names: Sequence[str], keep: bool = True) -> MachineCode:
    """Machine code of an LLVM module, with the addresses of the named functions; from the cache if it has been made before.

    `keep=False` is for text that holds addresses of this process: its code goes to no file.

    >>> code = compile_module("define i32 @answer() {\\n  ret i32 42\\n}\\n", ["answer"])
    >>> ctypes.CFUNCTYPE(ctypes.c_int32)(code.address["answer"])()
    42
    """
    override = os.environ.get(OVERRIDE, "")
    key = hashlib.sha256((_identity(override) + text).encode()).hexdigest()
    with _lock:
        compiled = _alive.get(key)
        if compiled is None or not all(name in compiled.address for name in names):
            with signals_held():
                _check_symbols(text)
                stored = cache.load(key) if keep else None
                compiled = _load(stored, names) if stored is not None and cache.is_object(stored, _sample(override)) else None
                if compiled is None:
                    compiled = _compile(text, names, key if keep else None, override)
                _alive[key] = compiled
        return compiled


@contextmanager
def signals_held() -> Iterator[None]:
    """Signals wait: handlers written in Python run when the block is left, however it is left, and may raise then.

    llvmlite passes the ownership of LLVM's objects on in several steps, in Python. An interrupt between two of them frees an
    object twice or not at all; in a function that LLVM calls back it is printed and forgotten. Python runs handlers in the main
    thread only, so only there is anything to do.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = sorted(signal.valid_signals(), key=lambda number: number != signal.SIGINT)  # the likeliest one: held longest
    handlers = {number: handler for number in numbers if callable(handler := signal.getsignal(number))}
    came: list[tuple[int, Any]] = []

    def later(number: int, frame: Any) -> None:
        came.append((number, frame))

    held = []
    try:
        for number in handlers:
            signal.signal(number, later)
            held.append(number)
        yield
    finally:
        for number in reversed(held):
            signal.signal(number, handlers[number])
        for number, frame in came:
            handlers[number](number, frame)


def _engine() -> Any:
    """An engine to load code into. It translates nothing, so it has no module, and its machine is the plain one."""
    llvm = _llvm()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    module = llvm.parse_assembly("")
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.remove_module(module)
    return engine


@remembers()
def _sample(override: str) -> bytes:
    """An object that has nothing in it."""
    code: bytes = _target_machine(override).emit_object(_llvm().parse_assembly(""))
    return code


@remembers(same=None)
def _first_engine() -> Any:
    """The first engine of a process makes the names of the C library known to LLVM."""
    return _engine()


def _check_symbols(text: str) -> None:
    for declaration in f"\n{text}".split("\ndeclare ")[1:]:
        name = declaration.partition("@")[2].partition("(")[0]
        if name and not name.startswith("llvm.") and _first_engine() and _llvm().address_of_symbol(name) is None:
            raise _failure(f"there is no function {name} in this process", text)


def _load(code: bytes, names: Sequence[str]) -> MachineCode | None:
    """The functions of machine code; None if LLVM does not take it, or it has not all of them."""
    try:
        engine, loaded = _engine(), _llvm().ObjectFileRef.from_data(code)
        engine.add_object_file(loaded)
        engine.finalize_object()
        address = {name: engine.get_function_address(name) for name in names}
    except RuntimeError:
        return None
    return MachineCode(address, engine, loaded) if all(address.values()) else None


def _compile(text: str, names: Sequence[str], key: str | None, override: str) -> MachineCode:
    llvm = _llvm()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
        with _plain_indices(llvm):
            code = _target_machine(override).emit_object(module)
    except RuntimeError as error:
        raise _failure(str(error).strip(), text) from error
    compiled = _load(code, names)
    if compiled is None:
        raise _failure(f"not all of {', '.join(names)} are defined", text)
    if key is not None:
        cache.store(key, code)
    return compiled


@contextmanager
def _plain_indices(llvm: Any) -> Iterator[None]:
    """Without loop strength reduction, which takes up to half of the compile time of our loops and makes none faster.

    LLVM's options belong to the process; the lock of `compile_module` is held, and others find them as they were.
    """
    llvm.set_option("funcad", "-disable-lsr=1")
    try:
        yield
    finally:
        llvm.set_option("funcad", "-disable-lsr=0")


def _failure(reason: str, text: str) -> CompilationError:
    """The error to raise, with the code in a file of its own."""
    try:
        handle, path = tempfile.mkstemp(prefix="funcad-", suffix=".ll")
        with os.fdopen(handle, "w", encoding="utf8") as file:
            file.write(text)
    except OSError as error:
        path = f"(not saved: {error})"
    return CompilationError(f"native code does not compile: {reason}\nThe code is in {path}; please report it.")
