"""CUDA C++ on the CPU: the text of kernels, compiled by g++, runs thread by thread, each a fiber that waits at barriers.

`compiled(texts)` makes one library of many modules; `Module(text)` has `get_function(name)(blocks, threads, arguments)`, as
CuPy's RawModule. Every launch runs twice, with threads in ascending and in descending order between barriers, which must give
equal bits, and a barrier that not all threads reach is an error. CUDA's own exp, log and sin are the C library's here.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["Module", "available", "compiled"]

_HEAD = r"""
#include <ucontext.h>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>
using std::isinf; using std::isfinite; using std::signbit; using std::copysign;
#define __global__ static
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __restrict__
namespace shim {
struct Index { unsigned x; };
static Index threadIdx, blockIdx, blockDim, gridDim;
static const size_t STACK = 1 << 15;
static ucontext_t scheduler;
static std::vector<ucontext_t> fibers;
static std::vector<char> state;  // of a thread: 0 runs, 1 waits, 2 has ended
static char* stacks;
static void (*body)(void**);
static void** arguments;
static unsigned current;
static void entry() { body(arguments); state[current] = 2; }
static void wait() {
  unsigned mine = current;
  state[mine] = 1;
  swapcontext(&fibers[mine], &scheduler);
  threadIdx.x = current = mine;
}
static int launch(void (*f)(void**), void** args, unsigned grid, unsigned block, int descending) {
  body = f; arguments = args; gridDim.x = grid; blockDim.x = block;
  fibers.resize(block);
  stacks = (char*)malloc(STACK * block);
  int failed = 0;
  for (unsigned b = 0; b < grid && !failed; b++) {
    blockIdx.x = b;
    state.assign(block, 0);
    for (unsigned i = 0; i < block; i++) {
      getcontext(&fibers[i]);
      fibers[i].uc_stack.ss_sp = stacks + STACK * i;
      fibers[i].uc_stack.ss_size = STACK;
      fibers[i].uc_link = &scheduler;
      makecontext(&fibers[i], entry, 0);
    }
    for (unsigned ended = 0; ended < block && !failed;) {
      unsigned waiting = 0;
      ended = 0;
      for (unsigned k = 0; k < block; k++) {
        unsigned i = descending ? block - 1 - k : k;
        if (state[i] != 2) { state[i] = 0; threadIdx.x = current = i; swapcontext(&scheduler, &fibers[i]); }
        waiting += state[i] == 1;
        ended += state[i] == 2;
      }
      failed = waiting && ended;
    }
  }
  free(stacks);
  return failed;
}
}
using shim::threadIdx; using shim::blockIdx; using shim::blockDim; using shim::gridDim;
#define __syncthreads() shim::wait()
static char shim_slots[1024][16];
template <class T> static T __shfl_xor_sync(unsigned, T v, int o) {
  memcpy(shim_slots[threadIdx.x], &v, sizeof v);
  shim::wait();
  memcpy(&v, shim_slots[threadIdx.x ^ o], sizeof v);
  shim::wait();
  return v;
}
"""
_KERNEL = re.compile(r'extern "C" (__global__ void __launch_bounds__\([^)]*\) (\w+)\(([^)]*)\))')
_folder: list[Any] = []
driver: Any = None  # of tests/cuda_driver.py, while one is open
_functions: dict[str, dict[str, tuple[Any, list[str]]]] = {}  # text -> name -> (what launches it, the types of its parameters)


def available() -> bool:
    return shutil.which("g++") is not None


def _types(parameters: str) -> list[str]:
    return [re.sub(r"\bconst\b|__restrict__|\w+$", "", p.strip()).strip() for p in parameters.split(",")]


def compiled(texts: Sequence[str]) -> None:
    """Compile modules together: g++ takes longer to start than for one of them."""
    fresh = list(dict.fromkeys([t for t in texts if t not in _functions]))
    if not fresh:
        return
    parts, known = [_HEAD], []
    for text in fresh:
        number = len(_functions) + len(known)
        kernels = [(m[2], _types(m[3])) for m in _KERNEL.finditer(text)]
        parts.append(f"namespace module{number} {{\n{_KERNEL.sub(lambda m: m[1], text)}\n}}\n#undef FC\n#undef FC_THREADS\n")
        for name, types in kernels:
            given = ", ".join([f"*({t}*)a[{i}]" for i, t in enumerate(types)])
            parts.append(
                f"static void call{number}_{name}(void** a) {{ module{number}::{name}({given}); }}\n"
                f'extern "C" int run{number}_{name}(void** a, unsigned grid, unsigned block, int descending) '
                f"{{ return shim::launch(call{number}_{name}, a, grid, block, descending); }}\n"
            )
        known.append((text, number, kernels))
    if not _folder:
        _folder.append(tempfile.TemporaryDirectory())
    source = "\n".join(parts)
    path = Path(_folder[0].name) / hashlib.sha256(source.encode()).hexdigest()[:20]
    path.with_suffix(".cpp").write_text(source, encoding="utf8")
    options = ["-O1", "-std=c++17", "-ffp-contract=off", "-fwrapv", "-shared", "-fPIC", "-w"]
    command = ["g++", *options, f"{path}.cpp", "-o", f"{path}.so"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert not found.returncode, found.stderr[:4000]
    library = ctypes.CDLL(f"{path}.so")
    for text, number, kernels in known:
        _functions[text] = {name: (getattr(library, f"run{number}_{name}"), types) for name, types in kernels}


class Module:
    """Kernels that run on arrays of the stand-in."""

    def __init__(self, text: str):
        compiled([text])
        self.text = text

    def get_function(self, name: str) -> Any:
        function, types = _functions[self.text][name]

        def launch(blocks: tuple[int], threads: tuple[int], arguments: tuple) -> None:
            assert len(arguments) == len(types), f"{name} takes {len(types)} arguments, got {len(arguments)}"
            values = []
            for x, t in zip(arguments, types):
                pointer = t.endswith("*")
                assert pointer == hasattr(x, "_array"), f"{name}: {t} is given {type(x)}"
                address = x._array.__array_interface__["data"][0] if pointer else 0
                values.append(ctypes.c_void_p(address) if pointer else ctypes.c_longlong(int(x)))
            packed = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values])
            arrays = [x._array for x in arguments if hasattr(x, "_array") and x._array.flags.writeable]
            if driver is not None:
                arrays = list(map(driver.bare, arrays))

            def start() -> None:
                found = []
                for descending in (0, 1):
                    assert not function(packed, blocks[0], threads[0], descending), f"{name}: a barrier that not all reach"
                    found.append([a.tobytes() for a in arrays])
                assert found[0] == found[1], f"{name}: the result depends on the order of its threads"
                assert values

            start() if driver is None else driver.launch(start)

        return launch
