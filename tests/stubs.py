"""Writes `funcad/numpy/__init__.pyi`: `python -m tests.stubs`. tests/typing/test_stubs.py asks whether it is as written here.

Where a function has NumPy's parameters, checkers are told NumPy's own function, with all of its overloads: that is what a call
without traced values is. Where it has others (an option more; no `out=` of a ufunc), its own parameters are written, with the
types of the table below by the parameters' names. The signatures themselves are read from the functions.
"""

from __future__ import annotations

import inspect
import re
import types
from pathlib import Path
from typing import Any

import numpy as np

import funcad.numpy as fnp

__all__ = ["FILE", "as_numpy", "numpy_stub"]

FILE = Path(fnp.__file__).with_suffix(".pyi")
HEAD = '''\
# Written by `python -m tests.stubs` from the signatures of the functions; do not edit. What a function takes is NumPy's where
# it says `from numpy`, and written out where it has another option or not all of them.

import builtins as _builtins
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, TypeVar, overload

import numpy as _np
from numpy.typing import ArrayLike as _ArrayLike
from numpy.typing import DTypeLike as _DTypeLike

_Shape = TypeVar("_Shape", bound=tuple[int, ...])
_Array = _np.ndarray[Any, _np.dtype[Any]]
_Axis = SupportsIndex | Sequence[SupportsIndex]

'''
# parameter -> its type, where the functions leave it open. A parameter without a line here is an array
PARAMETERS = {
    "axis": "_Axis | None",
    "casting": "str",
    "copy": "bool | None",
    "descending": "bool",
    "device": "Any",
    "dimensions": "Sequence[int]",
    "dtype": "_DTypeLike | None",
    "fill_value": "_ArrayLike | None",
    "indices": "_ArrayLike",
    "kind": "str | None",
    "like": "Any",
    "M": "int | None",
    "N": "int",
    "k": "int",
    "mode": "str | None",
    "n": "int",
    "newshape": "int | Sequence[int] | None",
    "num": "SupportsIndex",
    "object": "Any",
    "operands": "Any",
    "optimize": "Any",
    "options": "Any",
    "kwargs": "Any",
    "order": "str | Sequence[str] | None",
    "out": "_Array | None",
    "shape": "int | Sequence[int] | None",
    "stable": "bool | None",
}
NEWER = {"descending"}  # parameters that NumPy has in later versions than the oldest: written, so that the stub is one for all
WRITTEN = {"arr": ["place", "put_along_axis"], "a": ["put", "fill_diagonal"]}  # parameters that are written: arrays themselves
RESULTS = {  # what is not an array, or not always
    **dict.fromkeys(["where", "unique", "linspace", "einsum", "matmul", "vecdot", "matvec", "vecmat", "intersect1d"], "Any"),
    **dict.fromkeys(["clip", "at", "frompyfunc", "ldexp"], "Any"),
    **dict.fromkeys(["divmod", "frexp", "modf"], "tuple[Any, Any]"),
    "nonzero": "tuple[_Array, ...]",
    "indices": "Any",
    **dict.fromkeys(["place", "put", "put_along_axis", "fill_diagonal"], "_Array | None"),
    "putmask": "None",
    **dict.fromkeys(["unique_all", "unique_counts", "unique_inverse"], "Any"),
}


def parameters(function: Any) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def as_numpy(ours: Any, theirs: Any) -> bool:
    """Whether a function takes what NumPy's takes: names, kinds, and which may be left out."""
    if ours is theirs:
        return True
    pair = parameters(ours), parameters(theirs)
    if None in pair or isinstance(theirs, np.ufunc):
        return False
    first, second = ([(p.name, p.kind, p.default is p.empty) for p in of or ()] for of in pair)
    return first == second and NEWER.isdisjoint([name for name, *_ in first])


def _text(name: str, p: inspect.Parameter) -> str:
    given = p.annotation if isinstance(p.annotation, str) else getattr(p.annotation, "__name__", "Any")
    kind = PARAMETERS.get(p.name, "_ArrayLike | None" if p.default is None else "_ArrayLike") if given == "Any" else given
    if name in WRITTEN.get(p.name, ()):
        kind = "_Array"
    kind = re.sub(r"\bbool\b", "_builtins.bool", kind)  # the stub has one of NumPy's
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    default = p.default
    if default is p.empty:
        return f"{star}{p.name}: {kind}"
    plain = default is None or type(default) in (bool, int, float, str)
    return f"{star}{p.name}: {kind} = {repr(default) if plain else '...'}"


def _arguments(name: str, function: Any) -> str:
    found, texts, kind = parameters(function) or [], [], None
    for p in found:
        if kind is p.POSITIONAL_ONLY and p.kind is not kind:
            texts.append("/")
        if p.kind is p.KEYWORD_ONLY and kind not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            texts.append("*")
        texts.append(_text(name, p))
        kind = p.kind
    if kind is inspect.Parameter.POSITIONAL_ONLY:
        texts.append("/")
    return ", ".join(texts)


def _function(name: str, function: Any) -> str:
    """A ufunc keeps the shape of one operand; what may be a number or an array is Any, as NumPy has it."""
    arguments = _arguments(name, function)
    if arguments in ("x: _ArrayLike, *, dtype: _DTypeLike | None = None",) and name not in RESULTS:
        of_array = arguments.replace("x: _ArrayLike", "x: _np.ndarray[_Shape, Any]")
        return (
            f"@overload\ndef {name}({of_array}) -> _np.ndarray[_Shape, _np.dtype[Any]]: ...\n"
            f"@overload\ndef {name}({arguments}) -> Any: ...\n"
        )
    binary = "x: _ArrayLike, y: _ArrayLike, *, dtype: _DTypeLike | None = None"
    result = RESULTS.get(name, "Any" if arguments == binary else "_Array")
    line = f"def {name}({arguments}) -> {result}: ...\n"
    return line if len(line) <= 128 else f"def {name}(\n    {arguments}\n) -> {result}: ...\n"


def numpy_stub() -> str:
    theirs, own, functions = [], [], []
    for name in sorted(dir(fnp)):
        value, original = getattr(fnp, name), getattr(np, name, None)
        if isinstance(value, types.ModuleType):
            own.append(f"from funcad.numpy import {name} as {name}\n")
        elif original is not None and as_numpy(value, original):
            theirs.append(f"from numpy import {name} as {name}\n")
        elif name == "ComplexWarning":
            theirs.append("from numpy.exceptions import ComplexWarning as ComplexWarning\n")
        elif isinstance(value, type):
            own.append(f"from {value.__module__} import {value.__name__} as {name}\n")
        elif original is not None and not callable(value) or name == "newaxis":
            theirs.append(f"from numpy import {name} as {name}\n")
        else:
            functions.append((name, value))
    own = [line for line in own if " ndarray " not in line]
    theirs.append("from numpy import ndarray as ndarray\n")
    head = HEAD + "".join(sorted(theirs)) + "".join(sorted(own))
    return head + "\n" + "".join(_function(name, value) for name, value in functions)


if __name__ == "__main__":
    FILE.write_text(numpy_stub(), encoding="utf8")
