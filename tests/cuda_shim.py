"""CUDA C++ on the CPU: the text of kernels, compiled by g++, runs thread by thread, each a fiber that waits at barriers.

`compiled(texts)` makes libraries of many modules; `Module(text)` has `get_function(name)(blocks, threads, arguments)`, as
CuPy's RawModule. Every launch runs five times: with threads and blocks in ascending, in descending and in three shuffled
orders, which must give equal bits. An AssertionError says what a GPU would show now and then, or never: a barrier that not all
threads reach, a race in shared or global memory, an access outside the launch's arrays or unaligned, shared memory that is
read before it is written or too large (shim_runtime.py). CUDA's own exp, log and sin are not executed: they are the C
library's here.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from funcad.backends.cuda.elements import PRELUDE, THREADS
from tests.shim_runtime import HEAD, RUNTIME

__all__ = ["Function", "Module", "available", "compiled"]

ORDERS = 5
TOGETHER = 50  # modules of a library: g++ takes longer to start than for one of them
MOST_SHARED = 227 * 1024  # bytes that a kernel of an H100 can ask for; without asking it is
SHARED = 48 * 1024
_KERNEL = re.compile(r'extern "C" (__global__ void __launch_bounds__\((\w+)[^)]*\) (\w+)\(([^)]*)\))')
_DYNAMIC = re.compile(r"extern __shared__ (?:(?:alignas|__align__)\(\d+\) )?([\w ]+?) (\w+)\[\];")
_OPTIONS = ["-std=c++20", "-ffp-contract=off", "-fwrapv", "-fPIC", "-w", "-U_FORTIFY_SOURCE"]
_WATCHED = ["-O1", *_OPTIONS, "-fsanitize=thread"]
_SCALARS = {"int": ctypes.c_int, "unsigned int": ctypes.c_uint, "long long": ctypes.c_longlong, "float": ctypes.c_float}
_SCALARS |= {"unsigned long long": ctypes.c_ulonglong, "double": ctypes.c_double, "bool": ctypes.c_bool}
_folder: list[Any] = []
driver: Any = None  # of tests/cuda_driver.py, while one is open
_functions: dict[str, dict[str, Any]] = {}  # text -> name -> (what launches it, the types of its parameters, most threads)
_lock = threading.RLock()  # one launch at a time


def available() -> bool:
    return sys.platform == "linux" and shutil.which("g++") is not None


def _types(parameters: str) -> list[str]:
    return [re.sub(r"\bconst\b(?=[^*]*$)|__restrict__|\w+$", "", p.strip()).strip() for p in parameters.split(",")]


def _run(*command: str) -> None:
    found = subprocess.run(command, capture_output=True, text=True)
    assert not found.returncode, found.stderr[:4000]


def _runtime() -> Path:
    if not _folder:
        _folder.append(tempfile.TemporaryDirectory())
        path = Path(_folder[0].name) / "libshim"
        path.with_suffix(".cpp").write_text(RUNTIME, encoding="utf8")
        _run("g++", "-O2", *_OPTIONS, "-shared", f"{path}.cpp", "-o", f"{path}.so", "-ldl")
        _folder.append(ctypes.CDLL(f"{path}.so"))
        _folder[1].shim_message.restype = ctypes.c_char_p
        head = path.with_name("head.hpp")  # precompiled: reading it takes four times as long as most kernels do
        head.write_text(f"{HEAD}\n{PRELUDE}", encoding="utf8")
        _run("g++", *_WATCHED, "-x", "c++-header", str(head), "-o", f"{head}.gch")
    return Path(_folder[0].name)


def compiled(texts: Sequence[str]) -> None:
    """Compile modules together."""
    with _lock:
        fresh = list(dict.fromkeys([t for t in texts if t not in _functions]))
        usual = [t for t in fresh if t.startswith(PRELUDE)]
        for some in (usual, [t for t in fresh if not t.startswith(PRELUDE)]):
            for start in range(0, len(some), TOGETHER):
                _compile(some[start : start + TOGETHER], PRELUDE if some is usual else "")


def _compile(texts: list[str], shared: str) -> None:
    parts, known = ["" if shared else HEAD], list[Any]()
    for number, text in enumerate(texts, len(_functions)):
        kernels = [(m[3], _types(m[4]), THREADS if m[2] == "FC_THREADS" else int(m[2])) for m in _KERNEL.finditer(text)]
        assert len(kernels) == text.count("__global__"), "a kernel without extern C and launch bounds"
        own = _KERNEL.sub(lambda m: m[1], text.removeprefix(shared))
        own = _DYNAMIC.sub(r"\1* const \2 = (\1*)shim_dynamic();", own)
        parts.append(f"namespace module{number} {{\n{own}\n")
        for name, types, _ in kernels:
            given = ", ".join([f"*({t}*)a[{i}]" for i, t in enumerate(types)])
            parts.append(
                f"SHIM static void call_{name}(void** a) {{ {name}({given}); }}\n"
                f'extern "C" int run{number}_{name}(void** a, const unsigned* grid, const unsigned* block, size_t dynamic, '
                "const size_t* arrays, int number, int order) {\n"
                f"  return shim_launch(call_{name}, a, __start_shim_shared, __stop_shim_shared, grid, block, dynamic, "
                "arrays, number, order);\n}\n"
            )
        parts.append("}\n" if shared else "}\n#undef FC\n#undef FC_THREADS\n")
        known.append((text, number, kernels))
    source = "\n".join(parts)
    folder = _runtime()
    path = folder / hashlib.sha256(source.encode()).hexdigest()[:20]
    path.with_suffix(".cpp").write_text(source, encoding="utf8")
    head = ["-include", f"{folder}/head.hpp"] if shared else []
    _run("g++", *_WATCHED, *head, "-c", f"{path}.cpp", "-o", f"{path}.o")
    _run("g++", "-shared", "-nostdlib", f"{path}.o", f"{folder}/libshim.so", f"-Wl,-rpath,{folder}", "-o", f"{path}.so")
    library = ctypes.CDLL(f"{path}.so")
    for text, number, kernels in known:
        found = {name: (getattr(library, f"run{number}_{name}"), types, most) for name, types, most in kernels}
        _functions[text] = found


class _Segment:
    """Bytes that arrays of a launch lie in: those that overlap are one."""

    def __init__(self, arrays: Sequence[np.ndarray]):
        ends = [np.lib.array_utils.byte_bounds(a) for a in arrays]
        self.start, self.end = min([e[0] for e in ends]), max([e[1] for e in ends])
        self.granule = min([a.itemsize for a in arrays])
        for a in arrays:  # complex numbers may be of parts, and a view may begin anywhere
            while any([x % self.granule for x in (a.itemsize, *[s for s, n in zip(a.strides, a.shape) if n > 1])]):
                self.granule //= 2
            while (a.__array_interface__["data"][0] - self.start) % self.granule:
                self.granule //= 2
        self.allowed: np.ndarray | None = None
        if any([a.nbytes != end - start for a, (start, end) in zip(arrays, ends)]):
            self.allowed = np.zeros((self.end - self.start) // self.granule, np.uint8)
            for a in arrays:
                first = (a.__array_interface__["data"][0] - self.start) // self.granule
                for k in range(a.itemsize // self.granule):
                    strides = [s // self.granule for s in a.strides]
                    np.lib.stride_tricks.as_strided(self.allowed[first + k :], a.shape, strides)[...] = 1

    def row(self) -> list[int]:
        address = 0 if self.allowed is None else self.allowed.__array_interface__["data"][0]
        return [self.start, self.end - self.start, self.granule, address]


def _segments(arrays: Sequence[np.ndarray]) -> list[_Segment]:
    groups: list[tuple[int, int, list[np.ndarray]]] = []
    for a in sorted([a for a in arrays if a.size], key=lambda a: np.lib.array_utils.byte_bounds(a)[0]):
        start, end = np.lib.array_utils.byte_bounds(a)
        if groups and start < groups[-1][1]:
            groups[-1] = (groups[-1][0], max(end, groups[-1][1]), [*groups[-1][2], a])
        else:
            groups.append((start, end, [a]))
    return [_Segment(group) for *_, group in groups]


class Function:
    """A kernel, to be launched as CuPy's are."""

    def __init__(self, text: str, name: str):
        self.name = name
        self.function, self.types, self.most = _functions[text][name]
        self.max_dynamic_shared_size_bytes = SHARED

    def __call__(self, blocks: tuple, threads: tuple, arguments: tuple, shared_mem: int = 0, **_: Any) -> None:
        name, types = self.name, self.types
        assert len(arguments) == len(types), f"{name} takes {len(types)} arguments, got {len(arguments)}"
        assert shared_mem <= self.max_dynamic_shared_size_bytes <= MOST_SHARED, f"{name} asks for {shared_mem} shared bytes"
        assert np.prod(threads) <= self.most, f"{name} is compiled for {self.most} threads, not {threads}"
        assert min(blocks) > 0 and blocks[0] < 2**31 and max(blocks[1:], default=1) < 2**16, f"{name}: a grid of {blocks}"
        values: list[Any] = []
        for x, t in zip(arguments, types):
            pointer = t.endswith("*")
            assert pointer == hasattr(x, "_array"), f"{name}: {t} is given {type(x)}"
            if pointer:
                values.append(ctypes.c_void_p(x._array.__array_interface__["data"][0]))
            else:
                kind = _SCALARS[t]
                values.append(kind(float(x) if kind in (ctypes.c_float, ctypes.c_double) else int(x)))
        known = (lambda x: x) if driver is None else driver.bare
        arrays = [(known(x._array), t) for x, t in zip(arguments, types) if hasattr(x, "_array")]
        segments = _segments([a for a, _ in arrays])
        written = [np.lib.array_utils.byte_bounds(a)[0] for a, t in arrays if "const" not in t and a.size]
        kept = [s for s in segments if any([s.start <= start < s.end for start in written])]
        packed = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values])
        rows = [x for s in segments for x in s.row()]
        given = (ctypes.c_size_t * max(len(rows), 1))(*rows)
        sizes = [(ctypes.c_uint * 3)(*[int(n) for n in (*size, 1, 1)[:3]]) for size in (blocks, threads)]

        def start() -> None:  # knows addresses alone, as a recording does
            with _lock:
                before = [ctypes.string_at(s.start, s.end - s.start) for s in kept]
                first: list[bytes] = []
                for order in range(ORDERS):
                    for s, content in zip(kept, before if order else []):
                        ctypes.memmove(s.start, content, len(content))
                    if self.function(packed, *sizes, ctypes.c_size_t(shared_mem), given, len(segments), order):
                        raise AssertionError(f"{name}: {_folder[1].shim_message().decode()}")
                    found = [ctypes.string_at(s.start, s.end - s.start) for s in kept]
                    first = first or found
                    assert values and found == first, f"{name}: the result depends on the order of its threads"

        start() if driver is None else driver.launch(start)


class Module:
    """Kernels that run on arrays of the stand-in."""

    def __init__(self, text: str):
        compiled([text])
        self.text = text

    def get_function(self, name: str) -> Function:
        return Function(self.text, name)
