"""Stacks in a whole program's code: memory that grows while a loop of unknown length fills it.

Idea: a stack is an array whose first extent nobody knows while the code is written; one entry after the other, in memory that
is taken while the program runs and doubled when it is full. `%heap`, a table of words, holds the addresses; the program proper
is called by a function that makes the table and gives all memory back, however the program leaves. Invariants: an address is
read anew in every turn of the loop that fills a stack, for growing moves it; nobody keeps a view of an entry until that loop
has ended. Trap: no operation but a loop knows what a `Pile` is, so that nothing takes it for an array.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.native.ir import Function, Module
from funcad.backends.native.program_build import Build
from funcad.backends.native.program_region import Region, rule
from funcad.backends.native.program_values import Splat, View
from funcad.backends.plans.element_plan import Unsupported, contiguous_strides
from funcad.ir.aval import Aval, Stack, StackAval
from funcad.ir.jaxpr import Equation

FIRST = 4096  # bytes of entries that a stack has room for at first


class Pile(NamedTuple):
    """A stack that is filled: its entries as a view, of whose first extent only the stride counts; None: zeros.

    `word` names the memory that it lies in, and `count` how many entries it has, if the program took that memory.
    """

    entries: View | None
    element: Aval
    word: str = ""
    count: str = "0"
    dtype = np.dtype(bool)  # what `StackAval` says
    shape = ()

    def entry(self, build: Build, index: str) -> Any:
        if self.entries is not None:
            return entry_of(build, self.entries, index)
        zero = build.one.literal(0, self.element.dtype)
        return Splat(zero, zero.dtype, self.element.shape) if self.element.shape else zero


def entry_of(build: Build, x: View, index: str) -> View:
    """x[index] of an array or of the entries of a stack."""
    row = build.moved(x, [(index, x.strides[0])])
    return row._replace(shape=x.shape[1:], strides=x.strides[1:])


def element_of(aval: Any) -> Aval:
    """What the entries of a stack are."""
    if type(aval.element) is StackAval:
        raise Unsupported("a list of lists of unknown length (the derivative of a while_loop inside a loop)")
    return Aval(aval.element.shape, aval.element.dtype)


class Growing:
    """The stacks that a while loop fills, all of one length."""

    def __init__(self, build: Build, avals: Sequence[StackAval]):
        self.build = build
        self.elements = [element_of(a) for a in avals]
        self.room = build.heap_word(address=False) if avals else ""
        self.words = [build.heap_word() for _ in avals]

    def rows(self, count: str) -> list[View]:
        """The entries that turn `count` fills; at the top of the turn."""
        build, f = self.build, self.build.f
        if not self.words:
            return []
        sizes = [_bytes(e) for e in self.elements]
        room = f.load(f"load i64, ptr {self.room}")
        with f.when(f.put(f"icmp sge i64 {count}, {room}")):
            first = max(1, FIRST // max(1, *sizes))
            doubled = f.put(f"shl i64 {room}, 1")
            more = f.put(f"select i1 {f.put(f'icmp eq i64 {room}, 0')}, i64 {first}, i64 {doubled}")
            for word, size in zip(self.words, sizes):
                _take(build, word, f.put(f"mul i64 {more}, {size}"))
            f.do(f"store i64 {more}, ptr {self.room}")
        return [entry_of(build, _entries(build, w, e), count) for w, e in zip(self.words, self.elements)]

    def piles(self, count: str) -> list[Pile]:
        """The stacks, after the loop."""
        return [Pile(_entries(self.build, w, e), e, w, count) for w, e in zip(self.words, self.elements)]


def exact(build: Build, aval: StackAval, count: str) -> Pile:
    """A stack of so many entries, to be filled."""
    element = element_of(aval)
    word = build.heap_word()
    size = build.f.put(f"mul i64 {count}, {_bytes(element)}")
    _take(build, word, build.f.put(f"add i64 {size}, 1"))  # not nothing
    return Pile(_entries(build, word, element), element, word, count)


def given(pointer: str, aval: StackAval) -> Pile:
    """A stack that is an argument, its entries in order from this address on."""
    element = element_of(aval)
    return Pile(_entries_at(pointer, element), element)


def hand_over(build: Build, pile: Pile, pointer: str) -> None:
    """The stack as a result: its address, which the caller gives back, and the number of its entries."""
    f = build.f
    if pile.entries is not None:
        if not pile.word:
            raise Unsupported("a list that goes in and comes out")
        f.do(f"store ptr {f.load(f'load ptr, ptr {pile.word}')}, ptr {pointer}")
        f.do(f"store ptr null, ptr {pile.word}")
    f.do(f"store i64 {pile.count}, ptr {f.put(f'getelementptr i64, ptr {pointer}, i64 1')}")


def taken_over(words: np.ndarray, aval: StackAval) -> Stack:
    """The stack that a program handed over."""
    address, count = map(int, words)
    element = aval.element
    packed = np.empty((count, *element.shape), element.dtype)
    if address:
        ctypes.memmove(packed.ctypes.data, address, packed.nbytes)
        ctypes.pythonapi.PyMem_RawFree(ctypes.c_void_p(address))
    return Stack(packed.tolist() if element.weak else packed, aval, packed)


def packed(stack: Any, element: Aval) -> np.ndarray | None:
    """The entries as one array; None if there are none, which may stand for zeros of any number."""
    if type(stack) is not Stack or not stack:
        return None
    if stack.packed is None:
        stack.packed = np.array(stack, element.dtype)
    return np.require(stack.packed, element.dtype, ["C", "A"])


def _bytes(element: Aval) -> int:
    return prod(element.shape) * element.dtype.itemsize


def _take(build: Build, word: str, size: str) -> None:
    """Memory of this size, with what was in the memory that the word names."""
    f = build.f
    function = build.helper("PyMem_RawRealloc", np.dtype(np.int8))
    found = f.load(f"call ptr {function}(ptr {f.load(f'load ptr, ptr {word}')}, i64 {size})")
    build.leave_if(f.put(f"icmp eq ptr {found}, null"), 3)
    f.do(f"store ptr {found}, ptr {word}")


def _entries(build: Build, word: str, element: Aval) -> View:
    return _entries_at(build.f.load(f"load ptr, ptr {word}"), element)


def _entries_at(pointer: str, element: Aval) -> View:
    strides = (prod(element.shape), *contiguous_strides(element.shape))
    return View(pointer, element.dtype, (1, *element.shape), strides)


def with_heap(module: Module, f: Function, build: Build) -> None:
    """Add the program to the module, as what its caller knows: its table is made and emptied around it."""
    if not build.heap:
        module.add(f)
        return
    release = build.helper_place("PyMem_RawFree", np.dtype(np.int8))
    caller = Function(module, f.name, list(f.parameters), f.returns, f.attributes)
    f.name = f"{f.name}_with_heap"
    f.parameters.append(("ptr", "%heap"))
    module.add(f)
    table = f"[{len(build.heap)} x ptr]"
    heap = caller.load(f"alloca {table}")
    caller.do(f"store {table} zeroinitializer, ptr {heap}")
    given = ", ".join([f"{kind} {name}" for kind, name in caller.parameters])
    status = caller.load(f"call i32 @{f.name}({given}, ptr {heap})")
    helpers = caller.load(f"load ptr, ptr {caller.put('getelementptr ptr, ptr %context, i64 3')}")
    function = caller.load(f"load ptr, ptr {caller.put(f'getelementptr ptr, ptr {helpers}, i64 {release}')}")
    for word, address in enumerate(build.heap):
        if address:
            place = caller.put(f"getelementptr ptr, ptr {heap}, i64 {word}")
            caller.do(f"call void {function}(ptr {caller.load(f'load ptr, ptr {place}')})")
    caller.do(f"ret {f.returns} {status}")
    module.add(caller)


@rule("stack_empty")
def _empty(region: Region, equation: Equation, values: list, *, aval: StackAval) -> list:
    return [Pile(None, element_of(aval))]
