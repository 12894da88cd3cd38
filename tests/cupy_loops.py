"""CuPy's elementwise functions without a GPU: the C++ text of their loops, which its wheel holds, compiled by g++.

`Loops(cupy, folder)` compiles what it can (some loops call functions that only CUDA has) for float64, float32 and bool.
`loops.registered()` makes `LoopArray`, a NumPy array whose ufuncs are those loops, an array of a device that funcad knows, so
that programs run as they would on CuPy: funcad's own formulas on CuPy's functions. What is no ufunc is NumPy's.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from funcad.host.devices import NAMESPACES

__all__ = ["Loops", "LoopArray", "wrap"]

# NumPy's own, also while a trace is open: the library that this stands for does not call NumPy's functions
_ascontiguousarray, _empty, _array, _asarray = np.ascontiguousarray, np.empty, np.array, np.asarray

TYPES = {"d": "double", "f": "float", "?": "bool"}
HEAD = r"""
#include <cmath>
#include <cstdint>
#include <climits>
#include <algorithm>
#include <limits>
using namespace std;
#define __device__
#define __host__
#define __noinline__
#define __forceinline__
#define __constant__ static const
#define CUDART_INF INFINITY
#define CUDART_NAN NAN
#define CUDART_PI M_PI
#define M_PI_CUPY M_PI
static double sinpi(double x) { return sin(M_PI * x); }
static double cospi(double x) { return cos(M_PI * x); }
static float sinpif(float x) { return sinf(float(M_PI) * x); }
static float sinpi(float x) { return sinpif(x); }
static double _floor_divide(double x, double y) { return floor(x / y); }
static float _floor_divide(float x, float y) { return floorf(x / y); }
"""
NAMES = {"divide": "true_divide", "abs": "absolute", "conj": "conjugate", "mod": "remainder"}  # NumPy's -> CuPy's


class _Unit:
    """One loop of one ufunc as C++."""

    def __init__(self, key: tuple, number: int, ufunc: Any, op: Any):
        self.key, self.name = key, f"f{number}"
        _, ins, out = key
        arrays = ", ".join([f"const {TYPES[c]} *a{i}" for i, c in enumerate(ins)])
        kinds = "".join([f"typedef {TYPES[c]} in{i}_type; " for i, c in enumerate(ins)])
        reads = "".join([f"const {TYPES[c]} in{i} = a{i}[k]; " for i, c in enumerate(ins)])
        preamble = re.sub(r"#include[^\n]*", "", ufunc._preamble or "")
        self.text = (
            f"namespace N{self.name} {{ {preamble}\n}}\n"
            f'extern "C" void {self.name}(long n, {arrays}, {TYPES[out]} *o) {{ using namespace N{self.name}; {kinds}'
            f"typedef {TYPES[out]} out0_type; {ufunc._loop_prep or ''} "
            f"for (long k = 0; k < n; k++) {{ {reads} {TYPES[out]} &out0 = o[k]; {op.routine}; }} }}\n"
        )
        own = set(re.findall(r"#\s*define\s+(\w+)", preamble)) - {"NAN", "INFINITY", *re.findall(r"#define (\w+)", HEAD)}
        self.text += "".join([f"#undef {name}\n" for name in sorted(own)])


class Loops:
    """Compiled loops by (name, types of the operands, type of the result); `special` functions are named "special.erf"."""

    def __init__(self, cupy: Any, folder: Path):
        self.theirs = importlib.import_module("cupyx.scipy.special")
        self.compiled: dict[tuple, Any] = {}
        self.names: set[str] = set()
        units = list(self._units(cupy))
        self.left_out = self._compile(units, folder)
        self.module: Any = _Namespace(self, np, "")
        self.special: Any = _Namespace(self, None, "special.")

    def _units(self, cupy: Any) -> Iterator[_Unit]:
        number = 0
        for prefix, module in (("", cupy), ("special.", self.theirs)):
            for name in sorted(dir(module)):
                ufunc = getattr(module, name)
                if not isinstance(ufunc, cupy.ufunc) or not hasattr(ufunc._ops, "ops"):
                    continue
                for op in ufunc._ops.ops:
                    ins = "".join([np.dtype(t).char for t in op.in_types])
                    out = "".join([np.dtype(t).char for t in op.out_types])
                    if set(ins) in ({"d"}, {"f"}, {"?"}) and out in TYPES and isinstance(op.routine, str):
                        yield _Unit((prefix + name, ins, out), number, ufunc, op)
                        number += 1

    def _compile(self, units: list[_Unit], folder: Path) -> list[str]:
        """The names of what does not compile here."""
        source, library, out = folder / "loops.cpp", folder / "loops.so", []
        for _ in range(20):
            source.write_text(HEAD + "".join([u.text for u in units]))
            flags = "-std=c++17 -O1 -ffp-contract=off -fpermissive -w -shared -fPIC -fmax-errors=0".split()
            done = subprocess.run(["g++", *flags, source, "-o", library], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
            failing = self._failing(source, done.stderr)
            out += sorted({u.key[0] for u in units if u.name in failing})
            units = [u for u in units if u.name not in failing]
        code = ctypes.CDLL(str(library))
        for u in units:
            self.compiled.setdefault(u.key[:2], (getattr(code, u.name), u.key[2]))
            self.names.add(u.key[0])
        return out

    @staticmethod
    def _failing(source: Path, errors: str) -> set[str]:
        lines = {int(n) for n in re.findall(r"loops\.cpp:(\d+):\d+: error", errors)}
        found, current = set(), ""
        for i, line in enumerate(source.read_text().split("\n"), 1):
            start = re.match(r"namespace N(f\d+) ", line)
            current = start[1] if start else current
            if i in lines:
                found.add(current)
        assert found, errors[:2000]
        return found

    def call(self, name: str, operands: Any) -> Any:
        """The loop for these operands; NotImplemented if there is none."""
        shown = [x.view(np.ndarray) if isinstance(x, np.ndarray) else x for x in operands]
        dtype = np.result_type(*shown)
        key = (name, dtype.char * len(shown))
        if key not in self.compiled:
            return NotImplemented
        function, out_type = self.compiled[key]
        arrays = [_ascontiguousarray(a, dtype) for a in np.broadcast_arrays(*shown)]
        out = _empty(np.broadcast_shapes(*[np.shape(x) for x in shown]), out_type)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, out)]
        function(ctypes.c_long(out.size), *pointers)
        return wrap(out)

    @contextmanager
    def registered(self) -> Iterator[None]:
        """While this is open, funcad takes `LoopArray`s for a device's."""
        saved = sys.modules.get("cupyx.scipy.special")
        NAMESPACES[LoopArray] = self.module
        LoopArray.loops = self
        sys.modules["cupyx.scipy.special"] = self.special
        try:
            yield
        finally:
            del NAMESPACES[LoopArray]
            sys.modules.pop("cupyx.scipy.special")
            if saved is not None:
                sys.modules["cupyx.scipy.special"] = saved


class LoopArray(np.ndarray):
    """A NumPy array whose ufuncs are CuPy's loops."""

    loops: Loops

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        name = NAMES.get(ufunc.__name__, ufunc.__name__)
        out = NotImplemented if method != "__call__" or kwargs else self.loops.call(name, inputs)
        if out is not NotImplemented:
            return out
        plain = [x.view(np.ndarray) if type(x) is LoopArray else x for x in inputs]
        if "out" in kwargs:
            kwargs["out"] = tuple([x.view(np.ndarray) if type(x) is LoopArray else x for x in kwargs["out"]])
        return wrap(getattr(ufunc, method)(*plain, **kwargs))

    def get(self) -> np.ndarray:
        return _array(self.view(np.ndarray))


def wrap(x: Any) -> Any:
    """Arrays, in lists and tuples too, become LoopArrays."""
    if isinstance(x, (tuple, list)):
        return type(x)([wrap(v) for v in x]) if not hasattr(x, "_fields") else type(x)(*map(wrap, x))
    return _asarray(x).view(LoopArray) if isinstance(x, (np.ndarray, np.generic)) else x


class _Namespace:
    """cupy, cupyx.scipy.special or a module of NumPy's."""

    def __init__(self, loops: Loops, module: Any, prefix: str):
        self._loops, self._module, self._prefix = loops, module, prefix
        self.__name__ = f"loops.{prefix}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._prefix + NAMES.get(name, name) in self._loops.names:
            return lambda *args, **kwargs: self._ufunc(name, args, kwargs)
        if self._module is None:
            if not hasattr(self._loops.theirs, name):
                raise AttributeError(name)
            raise NotImplementedError(f"{self._prefix}{name} does not compile without CUDA's own functions")
        found = vars(self._module).get(name) or getattr(self._module, name)
        if isinstance(found, type(np)):
            return _Namespace(self._loops, found, f"{self._prefix}{name}.")
        if isinstance(found, type) or not callable(found):
            return found
        return lambda *args, **kwargs: wrap(found(*args, **kwargs))

    def _ufunc(self, name: str, args: Any, kwargs: Any) -> Any:
        out = NotImplemented if kwargs else self._loops.call(self._prefix + NAMES.get(name, name), args)
        if out is NotImplemented and self._module is None:
            raise NotImplementedError(f"no loop of {name} for these operands")
        return wrap(getattr(self._module, name)(*args, **kwargs)) if out is NotImplemented else out


def compiler() -> bool:
    return shutil.which("g++") is not None
