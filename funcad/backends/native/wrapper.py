"""Calling native programs: one built-in function per program, all running the same few hundred bytes of machine code.

Idea: `entry(self, args, nargs)` is a METH_FASTCALL function written in LLVM. What differs between programs is data: `self` is a
`PlanWords`, an int64 array that says what each argument must be, what each result is and where the program's code is. So the
entry is compiled once (and cached: no address is written into its text), and a new program costs no compilation for its calls.

An argument is accepted if its type, its dtype object, its shape, C order and alignment are exactly those of the plan; otherwise
the answer is `NotImplemented`, without an exception, and the caller goes another way. Results are fresh arrays that own their
memory, NumPy scalars for rank 0, Python scalars where the program says so (weak), and the very argument that is passed through.

A program is `i32 program(ptr slots, ptr arena, ptr context)`: data pointers of arguments and results, working memory, and the
means to ask whether Ctrl-C was pressed (`context[2]` is a function of the context; nonzero means: return 2); `context[3]` is a
table of addresses of functions that the program calls. It returns 0, or 1
if the call must be repeated by another engine (an index out of bounds, where NumPy raises), or 2 with an exception set.

Traps. Fields of NumPy's and Python's objects are read at fixed offsets: `available()` compares what is read with what Python
says for a number of objects, before the first use; on other builds than the GIL build of CPython all calls go through ctypes.
Working memory belongs to the plan and is taken by an atomic exchange: a second thread finds none, and allocates its own.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.native.target import compile_module
from funcad.host.real_types import is_a
from funcad.memo import remembers

from funcad.backends.native.wrapper_entry import (  # isort: skip
    ARENA, DATA, DESCR, DIMS, FLAGS, FUNCTIONS, KINDS, MAX_PLANS, MIXED, NDIM, NEXT, PLACES, RECORD, RECORDS, STRIDES, VALUE,
    entry_text,
)

PYTHONS = ((3, 11), (3, 14))  # the versions whose object layouts are known to be those that the entry reads
KEPT_ARENA = 64 << 20  # working memory up to this size stays with its plan between calls


class KernelArgument(NamedTuple):
    """One argument: `kind` is "array" (rank 0: or a NumPy scalar), or "float", "int", "bool", "complex" of Python.

    Or "stack", of entries of this shape and dtype, in programs that are called by ctypes only.
    """

    kind: str
    shape: tuple[int, ...]
    dtype: np.dtype
    strides: tuple[int, ...] | None = None  # in bytes; None: C order


class Wanted(NamedTuple):
    """One result: the kinds of `KernelArgument`, or "argument" (passed through), "constant", "again" (an earlier): `which`."""

    kind: str
    shape: tuple[int, ...] = ()
    dtype: Any = None
    which: Any = None


class PlanWords(np.ndarray):
    """The words of a plan, see wrapper_entry.py; `kept` are the objects whose addresses are among them."""

    kept: tuple = ()
    words: Any = None

    def __array_finalize__(self, other: Any) -> None:
        self.kept = ()

    def __del__(self) -> None:
        if ARENA is not None and self.kept and self[ARENA]:  # None: the process ends, and modules are empty already
            _release(int(self[ARENA]))


class Handle(np.ndarray):
    """The `self` of a built-in: the address of its first plan; `plans` are all of them."""

    plans: list = []

    def __array_finalize__(self, other: Any) -> None:
        self.plans = []


PYTHON = {"float": float, "int": int, "bool": bool, "complex": complex}


# ---------------------------------------------------------------- plans


class _MethodDef(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


METH_FASTCALL = 0x80


class _Machinery:
    """The compiled entry and the table of functions, made once per process and never freed."""

    def __init__(self) -> None:
        self.code = compile_module(entry_text(), ["entry", "run", "check"])
        self.table = _table()
        self.method = _MethodDef(b"native_program", self.code.address["entry"], METH_FASTCALL, None)
        self.run = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(self.code.address["run"])
        new = ctypes.pythonapi.PyCFunction_NewEx
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        self.new_builtin = new


def _table() -> Any:
    capsule = ctypes.pythonapi.PyCapsule_GetPointer
    capsule.restype, capsule.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    core = importlib.import_module("numpy._core._multiarray_umath")
    numpy_api = ctypes.cast(capsule(core._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    numpy_places = {"PyArray_New": 93, "PyArray_Scalar": 60}  # fixed by NumPy's binary interface
    values = [
        numpy_api[numpy_places[name]]
        if name in numpy_places
        else ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        for name in FUNCTIONS
    ]
    return (ctypes.c_void_p * len(PLACES))(*values, id(NotImplemented), id(np.ndarray), id(True))


_lock = threading.Lock()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

_machinery: list[_Machinery] = []
_verdict: list[str | None] = []


def machinery() -> _Machinery:
    """The entry, compiled at the first request."""
    with _lock:
        if not _machinery:
            _machinery.append(_Machinery())
        return _machinery[0]


_release = ctypes.pythonapi.PyMem_RawFree
_release.restype, _release.argtypes = None, [ctypes.c_void_p]


def make_plan(
    given: Sequence[KernelArgument],
    wanted: Sequence[Wanted],
    address: int,
    arena_bytes: int,
    unlock: bool = False,
    kept: Sequence[Any] = (),
    helpers: Sequence[tuple[Any, int]] = (),
) -> PlanWords:
    """The plan of a program whose code is at `address`; `kept` (the code) lives as long as the plan."""
    n = len(given) + len(wanted)
    items: list[Any] = [*given, *wanted]
    dims = [item.shape for item in items]
    plan = np.zeros(RECORDS + n * RECORD + 2 * sum(map(len, dims)) + len(helpers) + 1, np.int64).view(PlanWords)
    keep: list[Any] = [*kept, *[code for code, _ in helpers]]
    start = plan.ctypes.data
    words = plan.view(np.ndarray)
    table = machinery().table
    words[:RECORDS] = [
        ctypes.addressof(table), address, 0, arena_bytes, arena_bytes <= KEPT_ARENA, len(given), len(wanted), unlock,
        start + 8 * (RECORDS + n * RECORD), 0,
    ]  # fmt: skip
    end = RECORDS + n * RECORD + len(helpers)
    words[end - len(helpers) : end] = [place for _, place in helpers]
    for i, item in enumerate(items):
        line = RECORDS + i * RECORD
        kind: int = KINDS[item.kind]
        expected: Any = np.ndarray
        which = 0
        if item.kind in PYTHON:
            expected = PYTHON[item.kind]
        if item.kind == "array":
            expected, which = (item.dtype.type, 0) if not item.shape else (np.ndarray, item.dtype.num)
            if i < len(given) and not item.shape:
                kind = MIXED
        elif type(item) is Wanted and item.kind == "constant":
            keep.append(item.which)
            which = id(item.which)
        elif type(item) is Wanted and item.which is not None:
            which = item.which
        keep.append(item.dtype)
        descr = 0 if item.dtype is None else id(item.dtype)
        ndim = len(item.shape)
        if type(item) is KernelArgument:
            which = 0
            if item.strides is not None:
                which = start + 8 * (end + ndim)
                words[end + ndim : end + 2 * ndim] = item.strides
        words[line : line + RECORD] = [kind, id(expected), descr, ndim, start + 8 * end, which]
        words[end : end + ndim] = item.shape
        end += 2 * ndim
    plan.kept = tuple([*keep, table])
    return plan


def make_builtin(plan: PlanWords) -> Callable[..., Any] | None:
    """The built-in that takes the arguments one by one; None where objects cannot be read natively."""
    if why_not() is not None:
        return None
    made = machinery()
    handle = np.array([plan.ctypes.data]).view(Handle)
    handle.plans.append(plan)
    return made.new_builtin(ctypes.addressof(made.method), handle, None)


def add_plan(builtin: Any, plan: PlanWords) -> bool:
    """Let the built-in try another plan when those that it has refuse; False if it has as many as it may."""
    plans = builtin.__self__.plans
    if len(plans) >= MAX_PLANS:
        return False
    last = plans[-1]
    plans.append(plan)
    last.view(np.ndarray)[NEXT] = plan.ctypes.data
    return True


def call_by_ctypes(plan: PlanWords, pointers: Sequence[int]) -> int:
    """Run a plan's program on data pointers of arguments and results, in order; its status."""
    slots = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
    status: int = machinery().run(plan.ctypes.data, ctypes.addressof(slots))
    if status == 3:
        raise MemoryError
    return status


# ---------------------------------------------------------------- is the layout what it is believed to be?


def available() -> bool:
    """Can the built-in read arrays and scalars here?"""
    return why_not() is None


def why_not() -> str | None:
    """Why native calls go through ctypes; None if they do not."""
    if not _verdict:
        _verdict.append(_examine())
    return _verdict[0]


def _examine() -> str | None:
    if sys.implementation.name != "cpython" or "free-threading" in sys.version:
        return "the fields of objects are known only for the GIL build of CPython"
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1] or ctypes.sizeof(ctypes.c_void_p) != 8:
        return f"the fields of objects are not known for Python {sys.version.split()[0]}"

    def field(x: Any, offset: int, kind: Any) -> Any:
        return kind.from_address(id(x) + offset).value

    word = ctypes.c_int64
    probes = [np.arange(24.0).reshape(2, 3, 4), np.array([1, 2], np.float32)[::-1], np.array(1j), np.zeros((0, 5), bool)]
    for x in (*probes, probes[0].T, np.arange(9)[1:]):
        interface = x.__array_interface__
        dims = field(x, DIMS, word)
        found = [
            field(x, 8, word) == id(np.ndarray),
            field(x, DATA, word) == interface["data"][0] == x.ctypes.data,
            field(x, NDIM, ctypes.c_int32) == x.ndim,
            tuple([word.from_address(dims + 8 * i).value for i in range(x.ndim)]) == x.shape,
            tuple([word.from_address(field(x, STRIDES, word) + 8 * i).value for i in range(x.ndim)]) == x.strides,
            field(x, DESCR, word) == id(x.dtype),
            field(x, FLAGS, ctypes.c_int32) & 0x501 == x.flags.num & 0x501,
            bool(field(x, FLAGS, ctypes.c_int32) & 1) == x.flags.c_contiguous,
        ]
        if not all(found):
            return "the fields of NumPy arrays are not where they are expected"
    for kind in "?bhilqBHILQfdFD":
        value = np.dtype(kind).type(1)
        size = np.dtype(kind).itemsize
        raw = (ctypes.c_char * size).from_address(id(value) + VALUE).raw
        if field(value, 8, word) != id(type(value)) or raw != value.tobytes():
            return "the values of NumPy scalars are not where they are expected"
    for number in (1.5, 2.5 + 1j):
        raw = (ctypes.c_char * (16 if type(number) is complex else 8)).from_address(id(number) + VALUE).raw
        if raw != np.array(number).tobytes():
            return "the values of Python numbers are not where they are expected"
    return None


# -- operands as the code of kernels can read them, and the machine's caches


ALIGN = 128  # bytes: what stores that bypass the caches need, on every machine


@remembers()
def last_cache() -> int:
    """Bytes of the last level of cache."""
    for level in ("SC_LEVEL3_CACHE_SIZE", "SC_LEVEL4_CACHE_SIZE"):
        if hasattr(os, "sysconf") and level in os.sysconf_names and os.sysconf(level) > 0:
            return os.sysconf(level)
    return 32 << 20


def readable(a: Any, aval: Any) -> np.ndarray:
    """An operand as an array that native code can read: of the right dtype and byte order, elements where NumPy aligns them.

    >>> import numpy as np
    >>> from funcad.ir.aval import Aval
    >>> readable(np.arange(3, dtype=">f8"), Aval((3,), np.dtype(float)))
    array([0., 1., 2.])
    """
    if type(a) is not np.ndarray:
        a = a.view(np.ndarray) if is_a(a, np.ndarray) else np.asarray(a, aval.dtype)
    if a.shape != aval.shape:
        raise TypeError(f"a fused group was compiled for an operand of shape {aval.shape}, got {a.shape}")
    native = a.dtype == aval.dtype and a.dtype.isnative
    if not native or not a.flags.aligned or any([s % a.itemsize for s in a.strides]):
        a = np.array(a, aval.dtype, order="C")
    return a


def aligned(arrays: Sequence[np.ndarray]) -> bool:
    """May their whole vectors be stored past the caches?"""
    return not any([a.__array_interface__["data"][0] % ALIGN for a in arrays])
