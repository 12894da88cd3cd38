"""Kernels on paper: which texts a group runs, and how they are launched, without a GPU and without CuPy.

Idea: the kernel of a group is made and called as ever, by a library whose arrays have a shape, a dtype, strides and an address,
but no memory, and whose modules note their launches. Invariant: what is shown is what runs, since the same code decides.
Trap: what stands between groups is taken as adjacent and aligned; of the program's own arguments it is known.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.cuda import launches
from funcad.backends.cuda.launches import Unsupported
from funcad.backends.plans.element_plan import contiguous_strides
from funcad.ir.jaxpr import Literal

__all__ = ["Launch", "Outline", "on_paper", "Unsupported", "outline_of", "sketch"]


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
