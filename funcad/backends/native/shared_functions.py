"""Functions that whole programs call and share: products and factors of small matrices.

Idea: sizes are arguments, so one function of a kind per dtype is written and compiled once per process, however many programs
need it; a program finds its address in its plan. What writes a function is registered by `shared`, and gives the text of a
module in which the function has the name that it is registered by.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.backends.native.emitter import Emitter
from funcad.backends.native.ir import Function, Module
from funcad.backends.native.target import compile_module, host
from funcad.memo import table

_WRITTEN: dict[str, Callable[[Any, np.dtype], str]] = {}
_FOUND: dict[str, Callable[[np.dtype], tuple[Any, int]]] = {}
_compiled = table(
    "native.shared functions",
    "host, name and dtype: the code, once per process",
    same=None,
)


def shared(write: Callable[[Any, np.dtype], str]) -> Callable[[Any, np.dtype], str]:
    """Register what writes the function of its own name, for a host and a dtype."""
    _WRITTEN[write.__name__] = write
    return write


def found(find: Callable[[np.dtype], tuple[Any, int]]) -> Callable[[np.dtype], tuple[Any, int]]:
    """Register what finds, for a dtype, something that is in this process already: what keeps it alive, and its address."""
    _FOUND[find.__name__] = find
    return find


def compiled_function(name: str, dtype: np.dtype) -> tuple[Any, int]:
    """The code of a shared function, and its address."""
    if name in _FOUND:
        return _FOUND[name](dtype)
    if name not in _WRITTEN:  # Python's own, which take and give back memory
        return None, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
    key = (host(), name, dtype)
    code = _compiled.get(key)
    if code is None:
        code = _compiled[key] = compile_module(_WRITTEN[name](key[0], dtype), [name])
    return code, code.address[name]


def new_function(module: Module, name: str, parameters: str, returns: str = "void") -> Function:
    pairs = [(kind, name) for kind, name in (p.split(" ") for p in parameters.split(", "))]
    return Function(module, name, pairs, returns, "nounwind")


def fma(f: Function, e: Emitter, kind: str, a: str, b: str, c: str) -> str:
    vector = e.vector(kind)
    return f.intrinsic(f"llvm.fmuladd.{e.suffix(kind)}", vector, (vector, a), (vector, b), (vector, c))


def address(f: Function, kind: str, pointer: str, *terms: tuple[str, Any]) -> str:
    for name, stride in terms:
        index = name if stride == 1 else f.put(f"mul i64 {name}, {stride}")
        pointer = f.put(f"getelementptr {kind}, ptr {pointer}, i64 {index}")
    return pointer


def rounded(f: Function, name: str, step: int) -> str:
    """The greatest multiple of a power of two that is not above."""
    return f.put(f"and i64 {name}, {-step}")
