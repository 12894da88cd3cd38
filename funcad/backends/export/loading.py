"""Libraries that `export_c` wrote and a compiler built, in Python."""

from __future__ import annotations

import ctypes
import json
import os
import re
from typing import Any

import numpy as np

from funcad.backends.export.c_library import ABI, abi_of
from funcad.host.real_types import is_a

# -- calls by ctypes
#
# An argument must have the shape that the file was written for, and a dtype that converts without loss: what C reads is exactly
# what is there, and nothing is cut off in silence. Results and workspace are made anew for each call, so that threads may share
# a function. Strided arrays are copied into C's order first.


class CFunction:
    """A function of a library of C's: takes NumPy arrays, gives one array, or a tuple of several."""

    def __init__(self, library: Any, signature: dict[str, Any]):
        self.name: str = signature["name"]
        self.work: int = signature["work"]  # bytes
        self._signature = signature
        self.pointer = getattr(library, self.name)
        self.pointer.restype = ctypes.c_int
        words = [*signature["arguments"], *signature["results"]]
        self.pointer.argtypes = [ctypes.c_void_p] * (len(words) + 1)
        arguments, results = signature["arguments"], signature["results"]
        self._arguments = [(name, np.dtype(dtype), tuple(shape)) for name, dtype, shape in arguments]
        self._results = [(np.dtype(dtype), tuple(shape)) for _, dtype, shape in results]

    def __repr__(self) -> str:
        told = [", ".join([f"{n}: {d}{s}" for n, d, s in self._signature[word]]) for word in ("arguments", "results")]
        return f"<{self.name}({told[0]}) -> ({told[1]}), in C>"

    def __call__(self, *args: Any) -> Any:
        if len(args) != len(self._arguments):
            names = ", ".join([name for name, _, _ in self._arguments])
            raise TypeError(f"{self.name} takes {len(self._arguments)} arrays ({names}), got {len(args)}")
        arrays = []
        for x, (name, dtype, shape) in zip(args, self._arguments):
            found = np.asarray(x)
            number = found.ndim == 0 and is_a(x, (int, float, complex))  # of Python's: it has no dtype to lose
            if not number and not np.can_cast(found.dtype, dtype, "safe"):
                raise TypeError(f"{self.name}: {name} is {dtype} in C, got {found.dtype}.\nRemedy: x.astype(np.{dtype}).")
            if found.shape != shape:
                raise ValueError(f"{self.name}: {name} has the shape {shape} in C, got {found.shape}")
            arrays.append(np.ascontiguousarray(found, dtype).reshape(shape))
        results = [np.empty(shape, dtype) for dtype, shape in self._results]
        work = np.empty(max(self.work // 8, 1), np.float64)
        status = self.pointer(*[x.ctypes.data for x in (*arrays, *results, work)])
        if status:
            raise self._error(status)
        outs = [x[()] for x in results]
        return outs[0] if len(outs) == 1 else tuple(outs)

    def _error(self, status: int) -> Exception:
        if status == 1:
            return IndexError(f"{self.name}: an index is out of bounds")
        if status in (2, 3):
            return np.linalg.LinAlgError("Singular matrix" if status == 2 else "Matrix is not positive definite")
        return ArithmeticError(f"{self.name}: Python would refuse these numbers (status {status})")


class CLibrary:
    """A library of C's: its functions are attributes."""

    def __init__(self, path: str, signatures: list[dict[str, Any]], library: Any):
        self.path = path
        self.functions = {s["name"]: CFunction(library, s) for s in signatures}

    def __getattr__(self, name: str) -> CFunction:
        try:
            return self.__dict__["functions"][name]
        except KeyError:
            raise AttributeError(f"{self.__dict__.get('path')} has no function {name!r}") from None

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self.functions])

    def __repr__(self) -> str:
        return f"<C library {self.path}: {', '.join(self.functions)}>"


def load_c(path: Any, header: Any = None) -> CLibrary:
    """The functions of a library that was built from what `jit(f).export_c` wrote, on NumPy arrays, by ctypes.

    It runs native code: load what you built.

    Parameters
    ----------
    path : path
        The shared library.
    header : path, optional
        The header that was written with it; `model.h` beside `libmodel.so` if it is not given.

    Returns
    -------
    CLibrary
        Its functions are attributes (`functions` has them by name). They take an array for each argument in the header, of its
        shape and of a dtype that converts safely, and give one array (or NumPy scalar), or a tuple of several.

    Raises
    ------
    FileNotFoundError
        There is no such library, or no header.
    ValueError
        The library was not built from the file that this header belongs to.

    Notes
    -----
    What a function cannot compute raises as it does in Python: IndexError, LinAlgError; ArithmeticError where Python refuses
    numbers. Calls release the GIL. JAX has nothing of this kind.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.jit(lambda x: np.sin(x) * x).export_c("wave", np.ones(3))  # doctest: +SKIP
    ['wave.h', 'wave.c']
    >>> # cc -std=c99 -O3 -ffp-contract=off -shared -fPIC -o libwave.so wave.c -lm
    >>> funcad.load_c("./libwave.so").wave(np.ones(3))  # doctest: +SKIP
    array([0.84147098, 0.84147098, 0.84147098])

    See also
    --------
    jit
    """
    path = os.path.abspath(os.fspath(path))
    if header is None:
        folder, base = os.path.split(path)
        header = os.path.join(folder, re.sub(r"^lib", "", base).partition(".")[0] + ".h")
    if not os.path.exists(path):
        raise FileNotFoundError(f"load_c: there is no library {path}.\nRemedy: build it; its header has the command.")
    if not os.path.exists(header):
        raise FileNotFoundError(f"load_c: there is no header {header}.\nRemedy: load_c(path, header).")
    with open(header, encoding="ascii") as stream:
        found = re.search(r"^/\* funcad: (\{.*\}) \*/$", stream.read(), re.MULTILINE)
    if found is None:
        raise ValueError(f"load_c: {header} is no header that export_c wrote")
    told = json.loads(found[1])
    if told["abi"] != ABI:
        raise ValueError(f"load_c: {header} has form {told['abi']}, this funcad reads {ABI}.\nRemedy: export_c again.")
    library = ctypes.CDLL(path)
    abi = getattr(library, f"{told['library']}_abi", None)
    if abi is not None:
        abi.restype, abi.argtypes = ctypes.c_uint64, []
    if abi is None or abi() != abi_of(found[1]):
        raise ValueError(
            f"load_c: {path} was not built from the file that belongs to {header}.\nRemedy: build it again, or give its "
            "header; a library that this process has loaded before needs another file name."
        )
    return CLibrary(path, told["functions"], library)
