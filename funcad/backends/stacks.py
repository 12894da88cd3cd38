"""Stacks in the text: the lists that loops of unknown length fill, and that the loops of their derivatives read.

Idea: what a turn puts on a stack is computed into a new array, which is appended at the end of the turn; a carry that is kept
as it comes in is handed over as it is, and the next one is computed into a new array. Invariants: nobody writes into an entry
once it is on a stack, nor can the user reach it; an empty stack may stand for zeros, so it is replaced by as many of them,
unless a loop of this text filled it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funcad.backends.memory import Storage, Value
from funcad.backends.text import dtype_text, shape_text
from funcad.ir.aval import Aval, Stack, StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Var, subjaxprs

__all__ = ["Filling", "is_stack", "empty", "entries", "entry_storages", "read_by_loops_alone", "write_empty"]

_WRITTEN = ("scan", "while_loop", "cond", "stack_empty", "optimization_barrier")


def read_by_loops_alone(jaxpr: Jaxpr) -> bool:
    """Are all stacks of the program filled and read by lines, by no operation that asks for the kind of their entries?"""
    for equation in jaxpr.equations:
        if equation.primitive.name not in _WRITTEN and list(subjaxprs(equation.params)) == []:
            if any([is_stack(a.aval) for a in (*equation.inputs, *equation.outputs)]):
                return False
    return all([read_by_loops_alone(j) for equation in jaxpr.equations for j in subjaxprs(equation.params)])


def is_stack(aval: Any) -> bool:
    return type(aval) is StackAval


def empty(e: Any, aval: StackAval) -> str:
    """The text of an empty stack; where only loops read stacks, Python's own lists do."""
    if e.lists:
        return "[]"
    kind = e.w.constant("Stack", Stack, key=Stack)
    return f"{kind}([], {e.w.constant('entries', aval, key=aval)})"


def write_empty(e: Any, equation: Equation, operands: list[Value], env: dict, dying: list[Value], rows: dict) -> bool:
    (v,) = equation.outputs
    name = e.w.name("stack")
    e.w.line(f"{name} = {empty(e, equation.params['aval'])}")
    env[v] = e.value(name, v.aval, [Storage(False)])
    return True


def entries(e: Any, stack: Value, length: str) -> str:
    """What a loop of this length reads: the name of a list with so many entries."""
    if stack.text in e.filled:
        return str(stack.text)
    element, w = stack.aval.element, e.w
    if is_stack(element):
        zero = empty(e, element)
    else:  # without axes: a number with NumPy, an array on a device
        zero = f"{w.np}.zeros({shape_text(element.shape)}, {dtype_text(w, element.dtype)}){'' if element.shape else '[()]'}"
    name = w.name("stack")
    w.line(f"{name} = {stack.text} or [{zero}] * {length}")
    return str(name)


def entry_storages(aval: Any) -> list[Storage]:
    """Of an entry that is read: nobody may write it; a number may be a 0-d array."""
    return [] if aval.weak and not aval.shape else [Storage(False)]


class Filling:
    """The stacks that a loop fills, one for each variable, with the body's values `atoms`."""

    def __init__(self, e: Any, variables: Sequence[Var], atoms: Sequence[Any], carries: Sequence[Var], outs: Sequence[Any]):
        w = e.w
        self.e = e
        self.variables = variables
        self.atoms = atoms
        self.names = [w.name("stack") for _ in variables]
        for v, name in zip(variables, self.names):
            e.counts[name] += 1
            e.filled.add(name)
            w.line(f"{name} = {empty(e, v.aval)}")
        self.single = [a for a in atoms if not a.aval.shape]  # numbers and stacks
        kept = {a for a in atoms if a.aval.shape}
        # carries whose memory goes on a stack: the next one is somewhere else
        self.handed = {v for v, o in zip(carries, outs) if v in kept and type(o) is Var and o is not v}
        fresh = [a for a in atoms if a in kept and a not in self.handed]
        fresh += [o for v, o in zip(carries, outs) if v in self.handed]
        self.arrays = {a: w.name("y") for a in dict.fromkeys(fresh)}  # what is computed into a new array in each turn
        for name in self.arrays.values():
            e.counts[name] += 1

    def rows(self) -> dict[Var, list]:
        return {a: [self.e.row(name, True)] for a, name in self.arrays.items()}

    def begin_turn(self, carries: dict[Var, str]) -> None:
        """New arrays; `carries`: the names of the carries as they come in."""
        for a, name in self.arrays.items():
            self.e.w.line(f"{name} = {self.e.empty(a.aval.shape, a.aval.dtype)}")
        self.handed_over = {v: carries[v] for v in self.handed}

    def end_turn(self, single: Sequence[Value]) -> None:
        """The lines that append; `single`: the values of `self.single`."""
        values = iter(single)
        for a, name in zip(self.atoms, self.names):
            if a.aval.shape:
                text = self.handed_over.get(a) or self.arrays[a]
            else:
                v = next(values)
                handed = v.storages and isinstance(v.aval, Aval) and not v.aval.weak  # it may be a 0-d array of the user's
                text = f"{self.e.w.np}.array({v.text})[()]" if handed else v.text
            self.e.w.line(f"{name}.append({text})")

    def finish(self, env: dict, reverse: bool = False) -> None:
        for v, name in zip(self.variables, self.names):
            if reverse:
                self.e.w.line(f"{name}.reverse()")
            env[v] = self.e.value(name, v.aval, [Storage(False)])
            self.e.counts[name] -= 1
        for name in self.arrays.values():
            self.e.counts[name] -= 1
