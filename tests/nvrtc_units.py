"""Kernels compiled by NVRTC, which needs no GPU: `facts_of_all(texts, architecture)` says what its assembler says of each.

Fifty modules are one unit, in namespaces of their own behind one prelude, since starting NVRTC takes as long as a few kernels.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Sequence
from typing import Any

from funcad.backends.cuda.elements import PRELUDE
from funcad.backends.cuda.launches import OPTIONS
from funcad.backends.cuda.sketches import KernelFacts, read

__all__ = ["ARCHITECTURES", "available", "facts_of_all"]

ARCHITECTURES = ["sm_80", "sm_90"]
TOGETHER = 50
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it finds no GPU
        importlib.import_module("cupy")
    _library: Any = importlib.import_module("cupy_backends.cuda.libs.nvrtc")
    _library.getVersion()  # it loads the rest now, while CuPy's modules are CuPy's
except ImportError:
    _library = None


def available() -> bool:
    return _library is not None


def facts_of_all(texts: Sequence[str], architecture: str) -> dict[str, dict[str, KernelFacts]]:
    """text -> kernel -> registers, stack, spills and shared memory. What does not compile is an AssertionError."""
    found: dict[str, dict[str, KernelFacts]] = {}
    every = list(dict.fromkeys(texts))
    for start in range(0, len(every), TOGETHER):
        some = every[start : start + TOGETHER]
        parts = [PRELUDE]
        for number, text in enumerate(some):
            assert text.startswith(PRELUDE)
            own = text.removeprefix(PRELUDE).replace('extern "C" ', "")
            parts.append(f"namespace module{number} {{\n{own}\n}}\n")
        for name, facts in read(_compiled("".join(parts), architecture)).items():
            number, kernel = _split(name)
            found.setdefault(some[number], {})[kernel] = facts
    assert len(found) == len(every), "NVRTC's log leaves out kernels"
    for text, kernels in found.items():
        if any([facts.stack for facts in kernels.values()]):  # functions that several kernels call are calls in a unit
            found[text] = read(_compiled(text, architecture))
    return found


def _split(name: str) -> tuple[int, str]:
    """The number of the module, and the kernel's own name: C++ writes both behind their lengths."""
    match = re.match(r"_ZN(\d+)", name)
    assert match is not None
    end = match.end() + int(match[1])
    number = int(name[match.end() + len("module") : end])
    own = re.match(r"\d+", name[end:])
    assert own is not None
    return number, name[end + own.end() : end + own.end() + int(own[0])]


def _compiled(source: str, architecture: str) -> str:
    program = _library.createProgram(source, "kernels.cu", [], [])
    try:
        _library.compileProgram(program, [f"--gpu-architecture={architecture}", *OPTIONS, "--ptxas-options=-v"])
    except _library.NVRTCError:
        errors = [line for line in _library.getProgramLog(program).splitlines() if "error" in line]
        raise AssertionError("\n".join(errors[:20])) from None
    else:
        return str(_library.getProgramLog(program))
    finally:
        _library.destroyProgram(program)
