"""Kernels for readers: which texts a group runs, what the compiler says of them, a program's kernels as one text.

Idea: the kernel of a group is made and called as ever, by a library whose arrays have a shape, a dtype, strides and an address,
but no memory, and whose modules note their launches. Invariant: what is shown is what runs, since the same code decides.
Trap: what stands between groups is taken as adjacent and aligned; of the program's own arguments it is known.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.cuda import launches
from funcad.backends.cuda.elements import PRELUDE
from funcad.backends.cuda.launches import OPTIONS
from funcad.backends.plans.element_plan import Unsupported, bytes_moved, contiguous_strides
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, subjaxprs
from funcad.memo import remembers
from funcad.primitives.fused import fused_p
from funcad.primitives.placement import cupy_module


class Launch(NamedTuple):
    """One start of a kernel."""

    text: str  # of its module
    name: str
    blocks: tuple[int, ...]
    threads: tuple[int, ...]
    shared: int  # bytes that the launch asks for beyond those of the text


class Outline:
    """An array without contents; `strides` are in bytes."""

    __slots__ = ("shape", "dtype", "strides", "data")

    def __init__(self, shape: Any, dtype: Any, strides: tuple[int, ...] | None = None, address: int = 0):
        self.shape = tuple(shape) if hasattr(shape, "__len__") else (int(shape),)
        self.dtype = np.dtype(dtype)
        adjacent = tuple([s * self.dtype.itemsize for s in contiguous_strides(self.shape)])
        self.strides = adjacent if strides is None else strides
        self.data = SimpleNamespace(ptr=address)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    def transpose(self, axes: Sequence[int]) -> Outline:
        turned = [self.shape[i] for i in axes], self.dtype, tuple([self.strides[i] for i in axes])
        return Outline(*turned, self.data.ptr)

    def reshape(self, shape: Sequence[int]) -> Outline:
        return Outline(shape, self.dtype)


_noted = threading.local()


class _Function:
    def __init__(self, text: str, name: str):
        self.text, self.name = text, name
        self.max_dynamic_shared_size_bytes = 0  # kernels set it

    def __call__(self, blocks: Sequence[int], threads: Sequence[int], arguments: Any, shared_mem: int = 0) -> None:
        _noted.launches.append(Launch(self.text, self.name, tuple(blocks), tuple(threads), shared_mem))


class _SketchedModule:
    def __init__(self, text: str):
        self.text = text

    def get_function(self, name: str) -> _Function:
        return _Function(self.text, name)


class _SketchedLibrary:
    """As much of CuPy as kernels ask for."""

    __name__ = "paper"
    ndarray = Outline

    @staticmethod
    def empty(shape: Any, dtype: Any) -> Outline:
        return Outline(shape, dtype)

    zeros = empty

    @staticmethod
    def full(shape: Any, value: Any, dtype: Any) -> Outline:
        return Outline(shape, dtype)

    @staticmethod
    def RawModule(*, code: str, options: Sequence[str]) -> _SketchedModule:
        return _SketchedModule(code)


on_paper = _SketchedLibrary()


def outline_of(x: Any) -> Outline:
    """A device's array as it lies."""
    return Outline(x.shape, x.dtype, x.strides, x.data.ptr)


def sketch(equation: Any, known: dict[Any, Outline]) -> list[Launch]:
    """The launches of a group's kernel; `known` has the arrays of which one knows how they lie. Raises Unsupported."""
    kernel = launches.kernel_for(equation, on_paper)
    lying = lambda v: known.get(v) or Outline(v.aval.shape, v.aval.dtype)
    _noted.launches = found = []
    kernel(*[a.value if type(a) is Literal else lying(a) for a in equation.inputs])
    return found


# -- what the compiler of kernels says of them: registers, spills and shared memory, read from NVRTC's own log
#
# NVRTC compiles to machine code for any processor without a GPU, and its assembler tells what it used. Trap: where NVRTC is not
# installed nothing is known, which is said, not guessed.


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


@remembers(256)
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


# -- the kernels of a program as one text for a reader: `jit(f).cuda(*args)`
#
# Idea: modules begin with the same prelude, which is shown once; equal modules are shown once, with all the groups that run
# them. What is compiled is the prelude and a module's own text, as they stand here.


_BAR = "\n\n// ---- "


def listing(fused: Jaxpr, known: dict[Any, Outline], name: str) -> str:
    """The text; raises ValueError where no group has a kernel."""
    modules: dict[str, list[str]] = {}  # text -> who runs it
    without = []
    for equation in _groups(fused):
        what = f"{equation.params['kind']} {'x'.join(map(str, equation.params['shape']))}"
        try:
            launches = sketch(equation, known)
        except Unsupported as reason:
            without.append(f"{what} at {equation.source}: {reason}")
            continue
        operations = " ".join([e.primitive.name for e in equation.params["jaxpr"].equations])
        starts = ", ".join([f"{x.name}<<<{_extent(x.blocks)}, {_extent(x.threads)}>>>" for x in launches])
        for text in dict.fromkeys([launch.text for launch in launches]):
            modules.setdefault(text, []).extend([f"{what}: {operations}", f"  {equation.source}", f"  {starts}"])
    if not modules:
        reasons = without or ["nothing could be fused: each operation is a call of CuPy's own"]
        raise ValueError("\n".join([f"cuda of jit of {name}: the program has no kernels", *[f"  {r}" for r in reasons]]))
    parts = [f"// kernels of jit of {name}; options of NVRTC: {' '.join(OPTIONS)}"]
    parts += [f"// no kernel: {line}" for line in without]
    if any([text.startswith(PRELUDE) for text in modules]):
        parts.append(f"{_BAR[1:]}what each module begins with\n{PRELUDE.rstrip()}")
    for number, (text, users) in enumerate(modules.items()):
        parts += [f"{_BAR[1:]}module {number + 1} of {len(modules)}", *[f"// {line}" for line in users]]
        parts.append(text.removeprefix(PRELUDE).rstrip("\n"))
    return "\n".join(parts) + "\n"


def modules_of(text: str) -> list[str]:
    """The modules of a listing, each as it is compiled."""
    parts = [part.partition("\n")[2] for part in text.rstrip("\n").split(_BAR)[1:]]
    shared = parts.pop(0) if parts and parts[0] + "\n" == PRELUDE else ""
    own = ["\n".join([line for line in part.splitlines() if not line.startswith("// ")]) for part in parts]
    return [f"{shared}\n{part}\n" if shared else f"{part}\n" for part in own]


def _groups(jaxpr: Jaxpr) -> Iterator[Equation]:
    for equation in jaxpr.equations:
        if equation.primitive is fused_p:
            yield equation
        else:
            for sub in subjaxprs(equation.params):
                yield from _groups(sub)


def _extent(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))
