"""How many threads BLAS takes while a compiled program runs.

Idea: OpenBLAS wakes all its threads for each product of more than some 64 x 64 x 64 multiplications and waits for the last of
them; where another process, or a thread of ours, has one of the cores, it waits a time slice or several: 128 x 128 matrices
take 60 us on one thread and 25 ms on two, a decomposition a hundred times as long. So a program has half of BLAS's threads,
which on two cores is one, and all of them only in products of matrices that take longer than the slices that are lost
(measured: from 1,000 x 1,000 on, two threads are quicker on a busy machine, too). What matters is known from the program before
it runs: programs without such operations ask nothing.

Invariants: never more threads than BLAS had when the program began, whoever set them; the last program that ends sets that
number again, unless somebody has set another one meanwhile; a forked child begins with it. A function of the host that a
program calls has them all, as in plain Python: the last digits of what BLAS gives depend on their number. Whatever BLAS has no
known functions for that is left alone. Trap: Ctrl-C may come between any two lines, so programs stand in a list before anything
is changed, and leaving it twice does no harm.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from math import prod
from types import ModuleType
from typing import NamedTuple

import numpy as np

from funcad.configuration import config, reports
from funcad.ir.jaxpr import Equation, Jaxpr, subjaxprs
from funcad.memo import table
from funcad.primitives.reduction import reduce_sum_p

SMALL = 1e4  # nanoseconds up to which OpenBLAS takes one thread anyway
LARGE = 4e7  # from which on all threads are worth it, though one of them may wait for its core
PER_PRODUCT, PER_ELEMENT = 0.043, 0.3  # of a multiplication and addition, and of reading a number
DECOMPOSED = 4  # times the product of the same matrices
WEIGHTS = {"f": 0.5, "d": 1.0, "F": 2.0, "D": 4.0}  # of these by dtype; BLAS has no other ones
_SYMBOLS = [f"{prefix}openblas_{{}}_num_threads{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "_64", "")]
_EXTENSIONS = ("numpy._core._multiarray_umath", "scipy.linalg.cython_blas")  # the modules that are linked with a BLAS


# ---------------------------------------------------------------- the libraries


class _Library(NamedTuple):
    """What tells and sets the number of its threads."""

    get: Callable[[], int]
    set: Callable[[int], None]


_asked = table("backends.blas", "extension: its BLAS, or None", same=None)
_loaded: list[_Library] = []


def addresses_of(extension: ModuleType) -> tuple[int, int]:
    """Where the BLAS of an extension module tells and sets the number of its threads; zeros if it has no such functions."""
    library = ctypes.CDLL(extension.__file__)
    for symbol in _SYMBOLS:
        found = [getattr(library, symbol.format(what), None) for what in ("get", "set")]
        if None not in found:
            return tuple([ctypes.cast(f, ctypes.c_void_p).value for f in found])  # type: ignore[return-value]
    return 0, 0


def _library(extension: str) -> _Library | None:
    get, set_ = addresses_of(sys.modules[extension])
    if not get:
        return None
    return _Library(ctypes.PYFUNCTYPE(ctypes.c_int)(get), ctypes.PYFUNCTYPE(None, ctypes.c_int)(set_))


def _libraries() -> list[_Library]:
    """Those that are loaded: SciPy's is as soon as something of it is in use that could call it."""
    if len(_asked) < len(_EXTENSIONS):  # or all is known: programs ask for it at each call
        for name in _EXTENSIONS:
            if name in sys.modules and name not in _asked:
                _asked[name] = _library(name)
        _loaded[:] = [library for library in _asked.values() if library is not None]
    return _loaded


# ---------------------------------------------------------------- the programs that run


class _LimitedLibrary(NamedTuple):
    """A library that has fewer threads than `before`, and how many they are."""

    library: _Library
    before: int
    few: int


class _Here(threading.local):
    """The programs that a thread runs, one in the other, and None for each call of the host's functions."""

    def __init__(self) -> None:
        self.programs: list[object] = []


_running: list[object] = []  # one for each program
_held: list[_LimitedLibrary] = []
_here = _Here()
_lock = threading.RLock()  # what the collector or a signal runs meanwhile may be a program, too


def _most(threads: int, large: bool = False) -> int:
    """How many of its threads BLAS may take in a program."""
    if config.blas_threads is not None:
        return min(threads, config.blas_threads or threads)
    most = threads if large else max(threads // 2, 1)
    return most if config.threads is None else min(most, max(config.threads, 1))


def _enter(program: object) -> None:
    with _lock:
        _running.append(program)
        if len(_running) > 1:
            _few()
            return
        for library in _libraries():
            threads = library.get()
            few = _most(threads)
            if few < threads:
                _held.append(_LimitedLibrary(library, threads, few))
                library.set(few)


def _leave(program: object) -> None:
    with _lock:
        if program in _running:
            _running.remove(program)
        while _held and not _running:
            library, before, few = _held[-1]
            if library.get() == few:
                library.set(before)
            del _held[-1:]


def _few() -> None:
    for library, before, few in _held:
        if library.get() == _most(before, True):
            library.set(few)


def all_threads() -> None:
    """Before a large product: the threads that there were, unless other programs run beside."""
    with _lock:
        if len(_running) == 1:
            for library, before, few in _held:
                if library.get() == few:
                    library.set(_most(before, True))


def few_threads() -> None:
    """After it."""
    with _lock:
        _few()


def limited(function: Callable[[list], list]) -> Callable[[list], list]:
    """The function of a compiled program, with as many of BLAS's threads as its work is worth."""

    def run(values: list) -> list:
        program, programs = object(), _here.programs
        n = len(programs)
        try:
            try:
                programs.append(program)
                _enter(program)
                return function(values)
            finally:
                _leave(program)
                del programs[n:]
        except BaseException:  # which may have come between these lines
            _leave(program)
            del programs[n:]
            raise

    return run


def users_threads() -> None:
    """Before a call of a function of the host: the program of this thread is none that runs."""
    if programs := _here.programs:
        _leave(programs[-1])
        programs.append(None)


def few_again() -> None:
    """After it."""
    if programs := _here.programs:
        programs.pop()
        if programs[-1] is not None:
            _enter(programs[-1])


def around(equation: Equation) -> tuple[Callable[[], None], Callable[[], None]] | None:
    """What is called before an operation and after it, if it has other threads than the program."""
    if hasattr(equation.params.get("call"), "rewind"):  # a HostCall
        return users_threads, few_again
    return (all_threads, few_threads) if is_large(equation) else None


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()
    _running.clear()
    _leave(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# ---------------------------------------------------------------- what matters


def _nanoseconds(equation: Equation) -> tuple[float, bool]:
    """What the largest call of BLAS in an operation takes on one thread, roughly, and is it a product of matrices?"""
    primitive, avals = equation.primitive, [a.aval for a in equation.inputs]
    weight = max([WEIGHTS.get(getattr(a, "dtype", np.dtype(bool)).char, 0.0) for a in avals], default=0.0)
    if not weight or primitive.emit is not None or any(subjaxprs(equation.params)):
        return 0.0, False
    if primitive.name == "dot_general":
        (summed, _), (batch, _) = equation.params["dimension_numbers"]
        x, y = [a.shape for a in avals]
        depth, count = [prod([x[i] for i in axes]) for axes in (summed, batch)]
        if not prod(x) * prod(y):
            return 0.0, False
        rows, columns = [prod(shape) // (depth * count) for shape in (x, y)]
        read = PER_ELEMENT * depth * (rows + columns)  # all there is to it, but for matrices
        return weight * max(PER_PRODUCT * rows * columns * depth, read), min(rows, columns, depth) > 1
    if primitive.name == "conv":  # (G, N, O, ...) of (G, O, C, ...)
        return weight * PER_PRODUCT * (equation.outputs[0].aval.size or 0) * prod(avals[1].shape[2:]), False
    if by_product(equation):
        return SMALL + weight * PER_ELEMENT * avals[0].size, False
    if primitive.reduction is not None or primitive.reach is not None or primitive.may_share:
        return 0.0, False
    sides = [sorted(a.shape[-2:]) for a in avals if len(getattr(a, "shape", ())) > 1]  # of decompositions, and their like
    return weight * max([DECOMPOSED * PER_PRODUCT * m * m * n for m, n in sides], default=0.0), False


# A sum begins a loop for each row, which takes longer than adding up a short one: a product with ones, by BLAS, takes a tenth.
SHORT = 64  # terms of a row; of few terms any order of adding up is as good
LONG = 16_384  # terms of a column beside few others


def by_product(equation: Equation) -> bool:
    """Is it a sum of many short rows, or of columns of which few lie beside each other?"""
    if equation.primitive is not reduce_sum_p or len(equation.params["axes"]) != 1:
        return False
    aval = equation.inputs[0].aval
    (axis,), shape = equation.params["axes"], aval.shape
    if aval.dtype.char not in "fd" or not aval.size:
        return False
    if not 1 < len(shape) < 4 or shape[axis] == 1:
        return False
    if axis == len(shape) - 1:
        return bool(shape[axis] <= SHORT)
    return axis == len(shape) - 2 and bool(shape[-1] <= SHORT) and shape[axis] <= LONG


def is_large(equation: Equation) -> bool:
    """Is it a product of matrices that takes so long that all threads pay? Decompositions lose by them at any size."""
    nanoseconds, is_product = _nanoseconds(equation)
    return is_product and nanoseconds >= LARGE


def matters(jaxpr: Jaxpr) -> bool:
    """Is there an operation for which BLAS would wake its threads?"""
    found: bool | None = jaxpr.memo.get("blas_threads")
    if found is None:
        inner = [j for e in jaxpr.equations for j in subjaxprs(e.params)]
        own = [e for e in jaxpr.equations if e.primitive.emit is None]
        found = any([_nanoseconds(e)[0] > SMALL for e in own]) or any(map(matters, inner))
        found = jaxpr.memo.setdefault("blas_threads", found)
    return found


def report() -> str:
    """How many threads BLAS has, and has in a program."""
    libraries = _libraries()
    if not libraries:
        name = np.show_config(mode="dicts")["Build Dependencies"]["blas"].get("name", "unknown")  # type: ignore[call-overload]
        return f"BLAS threads: left alone, since the BLAS of this NumPy ({name}) has no known functions for them"
    counts = [(library.get(), _most(library.get()), _most(library.get(), True)) for library in libraries]
    return "BLAS threads: " + "; ".join([f"{n}, in a program {few}, in its large products {many}" for n, few, many in counts])


reports.append(report)
