"""SciPy's LAPACK inside native programs: factors of and solutions with matrices that are too large for plain loops.

Idea: SciPy hands out the C functions of its LAPACK and BLAS as capsules, whose names are their signatures. The functions of
this module stand for those of small_matrices.py, with the same operands and the same status, and "_large" at the end of their
names; they find the addresses of the routines in a table, which a program finds in its plan: no address is in code that is kept
on disk. Rows here are columns there, so "lower" is "upper" and a transposed matrix needs no copy. Invariant: while a routine
runs, BLAS has one thread, and as many as before once the last of the callers is done; a count of them sees to it, behind a lock
that is held for no longer than that takes.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.backends.blas_threads import addresses_of
from funcad.backends.native.shared_functions import found
from funcad.backends.native.small_matrices import MatrixRows, function_of_rows
from funcad.backends.native.target import compile_module
from funcad.backends.plans.element_plan import Unsupported
from funcad.memo import remembers

_CHAR, _INT, _DATA = "char *", "int *", "D *"
_ROUTINES = {  # routine -> where it is, and the types of its parameters
    "potrf": ("cython_lapack", (_CHAR, _INT, _DATA, _INT, _INT)),
    "getrf": ("cython_lapack", (_INT, _INT, _DATA, _INT, _INT, _INT)),
    "trtri": ("cython_lapack", (_CHAR, _CHAR, _INT, _DATA, _INT, _INT)),
    "trsm": ("cython_blas", (_CHAR, _CHAR, _CHAR, _CHAR, _INT, _INT, _DATA, _DATA, _INT, _DATA, _INT)),
    "trsv": ("cython_blas", (_CHAR, _CHAR, _CHAR, _INT, _DATA, _INT, _DATA, _INT)),
}
_PLACES = (*_ROUTINES, "alone", "get_threads", "set_threads", "state")  # of the table, 8 bytes each

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _routine(name: str, letter: str) -> int:
    """The address of a routine for this letter of a dtype; Unsupported if it takes other parameters than we give."""
    module, parameters = _ROUTINES[name]
    try:
        capsules = importlib.import_module(f"scipy.linalg.{module}").__pyx_capi__
        capsule = capsules[letter + name]
    except (ImportError, AttributeError, KeyError) as error:
        raise Unsupported(f"SciPy does not hand out LAPACK's {letter}{name}: {error}") from None
    signature = _name_of(capsule)
    plain = re.sub(rf"\b__pyx_t_\w+_{letter}\b", "D", signature.decode())
    if plain != f"void ({', '.join(parameters)})":
        raise Unsupported(f"LAPACK's {letter}{name} has another signature: {signature.decode()}")
    return int(_pointer_of(capsule, signature))


class _Threads:
    """What both tables share: `words` are the lock, the number of callers, and of BLAS's threads before they came."""

    def __init__(self) -> None:
        self.code = compile_module(_ALONE, ["alone"])
        self.words = np.zeros(3, np.int64)
        self.functions = addresses_of(importlib.import_module("scipy.linalg.cython_blas"))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        """In a forked child nobody is inside of BLAS, whose threads are as they were before the callers came."""
        if self.words[1] and self.words[2] > 1:
            ctypes.CFUNCTYPE(None, ctypes.c_int)(self.functions[1])(int(self.words[2]))
        self.words[:] = 0


_threads = remembers(same=None)(_Threads)


@found
@remembers(same=None)
def lapack_table(dtype: np.dtype) -> tuple[Any, int]:
    """What lives as long as the table of addresses, and where the table is; Unsupported where SciPy does not hand them out."""
    letter = {"float64": "d", "float32": "s"}[dtype.name]
    routines = [_routine(name, letter) for name in _ROUTINES]
    threads = _threads()
    words = np.array([*routines, threads.code.address["alone"], *threads.functions, threads.words.ctypes.data], np.int64)
    return (words, threads), words.ctypes.data


# alone(table, 1) before a routine, alone(table, 0) after it
_ALONE = """
define void @alone(ptr %table, i64 %enters) nounwind {
entry:
  %get_at = getelementptr i64, ptr %table, i64 GET
  %set_at = getelementptr i64, ptr %table, i64 SET
  %state_at = getelementptr i64, ptr %table, i64 STATE
  %get = load ptr, ptr %get_at
  %set = load ptr, ptr %set_at
  %lock = load ptr, ptr %state_at
  %count = getelementptr i64, ptr %lock, i64 1
  %kept = getelementptr i64, ptr %lock, i64 2
  %cannot = icmp eq ptr %get, null
  br i1 %cannot, label %out, label %wait
wait:
  %taken = atomicrmw xchg ptr %lock, i64 1 acquire
  %busy = icmp ne i64 %taken, 0
  br i1 %busy, label %wait, label %inside
inside:
  %before = load i64, ptr %count
  %comes = icmp ne i64 %enters, 0
  %step = select i1 %comes, i64 1, i64 -1
  %after = add i64 %before, %step
  store i64 %after, ptr %count
  %total = add i64 %before, %after
  %edge = icmp eq i64 %total, 1
  br i1 %edge, label %change, label %leave
change:
  br i1 %comes, label %first, label %last
first:
  %now = call i32 %get()
  %wide = sext i32 %now to i64
  store i64 %wide, ptr %kept
  %several = icmp sgt i32 %now, 1
  br i1 %several, label %single, label %leave
single:
  call void %set(i32 1)
  br label %leave
last:
  %old = load i64, ptr %kept
  %were = icmp sgt i64 %old, 1
  br i1 %were, label %restore, label %leave
restore:
  %narrow = trunc i64 %old to i32
  call void %set(i32 %narrow)
  br label %leave
leave:
  store atomic i64 0, ptr %lock release, align 8
  br label %out
out:
  ret void
}
"""
for _name, _word in (("GET", "get_threads"), ("SET", "set_threads"), ("STATE", "state")):
    _ALONE = _ALONE.replace(_name, str(_PLACES.index(_word)))


class _Calls:
    """Calls of routines from a function of rows: operands go by their addresses."""

    def __init__(self, w: MatrixRows):
        self.w, self.f = w, w.f
        self.info = self.f.load("alloca i32")

    def _word(self, name: str) -> str:
        return self.f.load(f"load ptr, ptr {self.f.put(f'getelementptr i64, ptr %lapack, i64 {_PLACES.index(name)}')}")

    def letter(self, value: str) -> str:
        return self._kept("i8", value if value.startswith("%") else str(ord(value)))

    def integer(self, name: Any) -> str:
        return self._kept("i32", self.f.put(f"trunc i64 {name} to i32"))

    def number(self, value: float) -> str:
        return self._kept(self.w.kind, self.w.number(value))

    def _kept(self, kind: str, value: str) -> str:
        place = self.f.load(f"alloca {kind}")
        self.f.do(f"store {kind} {value}, ptr {place}")
        return place

    def choice(self, condition: str, one: str, other: str) -> str:
        """A letter by a condition."""
        return self.letter(self.f.put(f"select i1 {condition}, i8 {ord(one)}, i8 {ord(other)}"))

    def call(self, name: str, *pointers: str) -> None:
        alone = self._word("alone")
        self.f.do(f"call void {alone}(ptr %lapack, i64 1)")
        self.f.do(f"call void {self._word(name)}({', '.join([f'ptr {p}' for p in pointers])})")
        self.f.do(f"call void {alone}(ptr %lapack, i64 0)")

    def succeeded(self) -> str:
        """Did the last routine that tells say that there is a result?"""
        return self.f.put(f"icmp eq i32 {self.f.load(f'load i32, ptr {self.info}')}, 0")

    def status(self) -> str:
        return self.f.put(f"select i1 {self.succeeded()}, i64 1, i64 0")


_OPERANDS = {
    "eliminate_large": "i64 %n, i64 %k, ptr %a, ptr %b",
    "substitute_large": "i64 %n, i64 %k, ptr %a, i64 %a_row, i64 %a_column, ptr %b, i64 %upper, i64 %unit",
    "factor_large": "i64 %n, ptr %a, ptr %c",
    "invert_triangle_large": "i64 %n, ptr %a, ptr %b, i64 %upper",
    "solve_factored_large": "i64 %n, i64 %k, ptr %a, i64 %a_row, i64 %a_column, ptr %pivots, ptr %b, i64 %transposed",
    "lu_large": "i64 %m, i64 %n, ptr %a, ptr %pivots",
}
LARGE = frozenset([name.removesuffix("_large") for name in _OPERANDS])  # what there is for large matrices


def _large(write: Callable[[MatrixRows, _Calls], str]) -> Callable[[MatrixRows, _Calls], str]:
    """Register a function of one matrix by its name and "_large"; before the status it is given the table."""
    name = f"{write.__name__[1:]}_large"
    function_of_rows(name, f"{_OPERANDS[name]}, ptr %lapack", False, lambda w: write(w, _Calls(w)))
    return write


def _turn(w: MatrixRows) -> None:
    """a transposed, in its own place: rows are columns for LAPACK, as NumPy hands them over."""
    with w.f.loop(0, "%n") as rows:
        i = rows.index
        with w.f.loop(0, i) as columns:
            j = columns.index
            below, above = ((i, "%n"), (j, 1)), ((j, "%n"), (i, 1))
            x, y = w.read("%a", *below), w.read("%a", *above)
            w.write(y, "%a", *below)
            w.write(x, "%a", *above)
            columns.next()
        rows.next()


def _solve(w: MatrixRows, calls: _Calls, turned: str, upper: str, unit: str) -> None:
    """b := the solution with a triangle; `turned`, an i1: a's columns are LAPACK's; `upper` and `unit` are letters' places.

    The rows of b are the columns of a matrix, which is on the other side of the triangle then.
    """
    f, n = w.f, calls.integer("%n")
    straight, swapped = calls.choice(turned, "N", "T"), calls.choice(turned, "T", "N")
    one = f.put("icmp eq i64 %k, 1")
    with f.when(one):
        calls.call("trsv", upper, straight, unit, n, "%a", n, "%b", calls.integer("1"))
    several = f.put("icmp sgt i64 %k, 1")
    with f.when(several):
        k = calls.integer("%k")
        calls.call("trsm", calls.letter("R"), upper, swapped, unit, k, n, calls.number(1.0), "%a", n, "%b", k)


@_large
def _eliminate(w: MatrixRows, calls: _Calls) -> str:
    """The factors of a in its place, transposed; b without the lower one of them. As `eliminate`, which leaves rows."""
    f = w.f
    _turn(w)
    n, pivots = calls.integer("%n"), f.load("alloca i32, i64 %n")
    calls.call("getrf", n, n, "%a", n, pivots, calls.info)
    with f.loop(0, "%n", carried=[("i64", "1")]) as rows:
        differs, sign = _exchange(w, rows.index, _pivot(w, pivots, rows.index, 1)), rows.values[0]
        rows.next(f.put(f"select i1 {differs}, i64 {f.put(f'sub i64 0, {sign}')}, i64 {sign}"))
    regular = calls.succeeded()
    with f.when(regular):
        _solve(w, calls, "true", calls.letter("L"), calls.letter("U"))
    return f.put(f"select i1 {regular}, i64 {rows.results[0]}, i64 0")


def _pivot(w: MatrixRows, pivots: str, row: str, first: int) -> str:
    """The row that this one was exchanged with, counted from 0 where they count from `first`."""
    found = w.f.load(f"load i32, ptr {w.f.put(f'getelementptr i32, ptr {pivots}, i64 {row}')}")
    return w.f.put(f"sext i32 {w.f.put(f'sub i32 {found}, {first}')} to i64")


def _exchange(w: MatrixRows, row: str, other: str) -> str:
    """The two rows of b change places, if they are two."""
    differs = w.f.put(f"icmp ne i64 {other}, {row}")
    w.exchange(w.at("%b", (row, "%k")), w.at("%b", (other, "%k")), "%k", differs)
    return differs


def _is_singular(w: MatrixRows) -> str:
    """Has the diagonal of a a zero?"""
    with w.f.loop(0, "%n", carried=[("i1", "false")]) as rows:
        pivot = w.read("%a", (rows.index, "%a_row"), (rows.index, "%a_column"))
        rows.next(w.f.put(f"or i1 {rows.values[0]}, {w.do('fcmp oeq', pivot, w.number(0))}"))
    return rows.results[0]


@_large
def _substitute(w: MatrixRows, calls: _Calls) -> str:
    f = w.f
    divided = f.put("icmp eq i64 %unit, 0")
    singular = f.put(f"and i1 {_is_singular(w)}, {divided}")
    with f.when(f.put(f"xor i1 {singular}, true")):
        turned, upper = f.put("icmp eq i64 %a_row, 1"), f.put("icmp ne i64 %upper, 0")
        triangle = calls.choice(f.put(f"xor i1 {upper}, {f.put(f'xor i1 {turned}, true')}"), "U", "L")
        _solve(w, calls, turned, triangle, calls.choice(divided, "N", "U"))
    return f.put(f"select i1 {singular}, i64 0, i64 1")


@_large
def _solve_factored(w: MatrixRows, calls: _Calls) -> str:
    """The solution in the place of b with what `lu` made of a matrix, or of that transposed."""
    f = w.f
    singular = _is_singular(w)
    by_rows, transposed = f.put("icmp ne i64 %a_row, 1"), f.put("icmp ne i64 %transposed, 0")
    upper, lower = calls.choice(by_rows, "L", "U"), calls.choice(by_rows, "U", "L")
    divided, unit = calls.letter("N"), calls.letter("U")
    turned = f.put(f"xor i1 {by_rows}, {f.put(f'xor i1 {transposed}, true')}")
    regular = f.put(f"xor i1 {singular}, true")
    with f.when(f.put(f"and i1 {regular}, {transposed}")):
        _solve(w, calls, turned, upper, divided)
        _solve(w, calls, turned, lower, unit)
        with f.loop(0, "%n", down=True) as rows:
            _exchange(w, rows.index, _pivot(w, "%pivots", rows.index, 0))
            rows.next()
    with f.when(f.put(f"and i1 {regular}, {f.put(f'xor i1 {transposed}, true')}")):
        with f.loop(0, "%n") as rows:
            _exchange(w, rows.index, _pivot(w, "%pivots", rows.index, 0))
            rows.next()
        _solve(w, calls, turned, lower, unit)
        _solve(w, calls, turned, upper, divided)
    return f.put(f"select i1 {singular}, i64 0, i64 1")


@_large
def _factor(w: MatrixRows, calls: _Calls) -> str:
    f = w.f
    with f.loop(0, "%n") as rows:
        i = rows.index
        row, source, kept = w.at("%c", (i, "%n")), w.at("%a", (i, "%n")), f.put(f"add i64 {i}, 1")
        w.along(kept, lambda j, mask: w.put(w.element(source, j, mask), row, j, mask))
        rest, zero = w.at(row, (kept, 1)), w.e.literal(0, w.dtype).name
        w.along(f.put(f"sub i64 %n, {kept}"), lambda j, mask: w.put(zero, rest, j, mask))
        rows.next()
    n = calls.integer("%n")
    calls.call("potrf", calls.letter("U"), n, "%c", n, calls.info)
    return calls.status()


@_large
def _invert_triangle(w: MatrixRows, calls: _Calls) -> str:
    """The inverse of a's triangle in that of b, the rest of which is a's."""
    n = calls.integer("%n")
    w.along(w.f.put("mul i64 %n, %n"), lambda j, mask: w.put(w.element("%a", j, mask), "%b", j, mask))
    triangle = calls.choice(w.f.put("icmp ne i64 %upper, 0"), "L", "U")
    calls.call("trtri", triangle, calls.letter("N"), n, "%b", n, calls.info)
    return calls.status()


@_large
def _lu(w: MatrixRows, calls: _Calls) -> str:
    """The factors of a (m, n), whose columns are LAPACK's, in its place; its pivots from 0."""
    f = w.f
    m, n = calls.integer("%m"), calls.integer("%n")
    calls.call("getrf", m, n, "%a", m, "%pivots", calls.info)
    fewer = f.put("select i1 " + f.put("icmp slt i64 %m, %n") + ", i64 %m, i64 %n")
    with f.loop(0, fewer) as rows:
        own = f.put(f"getelementptr i32, ptr %pivots, i64 {rows.index}")
        found = f.load(f"load i32, ptr {own}")
        f.do(f"store i32 {f.put(f'sub i32 {found}, 1')}, ptr {own}")
        rows.next()
    return "1"
