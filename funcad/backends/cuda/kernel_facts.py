"""What the compiler of kernels says of them: registers, spills and shared memory, read from NVRTC's own log.

NVRTC compiles to machine code for any processor without a GPU, and its assembler tells what it used. Trap: where NVRTC is not
installed nothing is known, which is said, not guessed.
"""

from __future__ import annotations

import functools
import re
import warnings
from typing import Any, NamedTuple

from funcad.backends.cuda.launches import OPTIONS, Unsupported
from funcad.backends.cuda.sketches import Launch, Outline, sketch
from funcad.backends.plans.traffic import bytes_moved
from funcad.primitives.placement import cupy_module

__all__ = ["KernelFacts", "KernelNotes", "facts_of", "target_of"]

WITHOUT_GPU = "sm_90"  # what is compiled for where there is none: H100 and H200
_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


class KernelFacts(NamedTuple):
    """Of one kernel: registers of a thread, bytes of a thread that go to memory instead, bytes of a block's shared memory."""

    registers: int
    stack: int
    spills: int  # stores and loads
    shared: int


def target_of() -> tuple[str, str]:
    """(the processor that kernels are compiled for, "") or ("", why nothing is known)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that CuPy finds no GPU
            cupy = cupy_module("what NVRTC says of kernels")
        cupy.cuda.nvrtc.getVersion()  # it loads the library
    except Exception as error:  # each wheel, driver and platform has an error of its own
        return "", str(error).partition("\n")[0]
    try:
        return f"sm_{cupy.cuda.Device().compute_capability}", ""
    except cupy.cuda.runtime.CUDARuntimeError:
        return WITHOUT_GPU, ""


@functools.lru_cache(256)
def facts_of(text: str, target: str) -> dict[str, KernelFacts]:
    """The facts of the kernels of a module by their names."""
    nvrtc: Any = cupy_module("what NVRTC says of kernels").cuda.nvrtc
    program = nvrtc.createProgram(text, "kernels.cu", [], [])
    try:
        nvrtc.compileProgram(program, [f"--gpu-architecture={target}", *OPTIONS, "--ptxas-options=-v"])
        return read(nvrtc.getProgramLog(program))
    finally:
        nvrtc.destroyProgram(program)


class KernelNotes:
    """Of the groups of one program: what starts, what is known of it, and how many bytes that moves.

    `known` has the inputs of which one knows how they lie; `reasons` say why groups have no kernel.
    """

    def __init__(self, known: dict[Any, Outline]):
        self.known = known
        self.reasons: list[str] = []
        self.target, self.unknown = target_of()

    def of(self, equation: Any) -> dict[str, Any]:
        """What `explain` adds to a group."""
        group = equation.params["jaxpr"]
        try:
            launches = sketch(equation, self.known)
        except Unsupported as reason:
            self.reasons.append(f"{equation.params['kind']} group at {equation.source}: {reason}")
            return {"engine": "cupy"}
        kernels = [self._described(launch) for launch in launches]
        return {"engine": "cuda", "kernels": kernels, "bytes": bytes_moved(group)}

    def _described(self, launch: Launch) -> dict[str, Any]:
        found: dict[str, Any] = {"name": launch.name, "blocks": launch.blocks, "threads": launch.threads}
        if not self.target:
            return found | dict.fromkeys(("registers", "stack", "spills", "shared"))
        facts = facts_of(launch.text, self.target)[launch.name]
        return found | facts._asdict() | {"shared": facts.shared + launch.shared}


def read(log: str) -> dict[str, KernelFacts]:
    """The facts in a log of the assembler's; of a kernel what follows its name first, behind that are functions it calls.

    >>> read('''ptxas info    : Compiling entry function 'kernel' for 'sm_90'
    ... ptxas         .     40 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
    ... ptxas info    : Used 40 registers, used 1 barriers, 2048 bytes smem''')
    {'kernel': KernelFacts(registers=40, stack=40, spills=12, shared=2048)}
    """
    found = {}
    parts = _ENTRY.split(log)
    for name, text in zip(parts[1::2], parts[2::2]):
        stack, used = _STACK.search(text), _USED.search(text)
        if stack is None or used is None:
            raise RuntimeError(f"NVRTC's log says nothing of {name}: {text}")
        found[name] = KernelFacts(int(used[1]), int(stack[1]), int(stack[2]) + int(stack[3]), int(used[2] or 0))
    return found
