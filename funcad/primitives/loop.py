"""What loops and branches are made of: the programs that they hold, stacks and tables.

Their primitives are declared in control/; what they are stands here, where passes and engines find it. Both are immutable and
compared by content, the programs in them by identity, as programs are.

The loop's primitive is declared here, below the passes that make loops of programs that repeat themselves. Those are made after
everything has been differentiated and mapped, so they need no more than is here; its rules, and the way that it runs un-jitted,
need engines, which need passes: control/loop_rules.py says them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from funcad.configuration import NamedTuple
from funcad.host.devices import namespace_of
from funcad.ir.aval import Aval, Stack, StackAval, aval_of, strip_literal
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, split
from funcad.ir.primitive import Primitive, is_linear
from funcad.primitives.arithmetic import add
from funcad.primitives.shape import broadcast_leading, zeros


class Loop(NamedTuple):
    """A body `(consts, carry, xs) -> (carry, ys)` that runs again and again.

    What says how many turns there are is `length`; or, where that is None, operands in front of the others: those of `cond`, a
    program `(operands, carry) -> bool` that is asked before each turn, or, without one, a count. Where `length` is None, xs and
    ys are stacks (see below). A loop with a condition has no xs, runs forwards, and gives the count in front of its results.
    `budget` is how many bytes reverse mode may keep of the turns (control/loop_reversal.py); None: all that it reads. `rolled`:
    a pass has found it in a program that repeats itself.
    """

    body: Jaxpr
    n_consts: int
    n_carry: int
    length: int | None = None
    reverse: bool = False
    unroll: int = 1
    budget: int | None = None
    cond: Jaxpr | None = None
    rolled: bool | None = None

    @property
    def name(self) -> str:
        """What users know it as."""
        return "scan" if self.cond is None else "while_loop"

    @property
    def n_ys(self) -> int:
        return len(self.body.outputs) - self.n_carry

    @property
    def n_counts(self) -> int:
        """How many operands say how many turns there are."""
        return len(self.cond.inputs) - self.n_carry if self.cond is not None else int(self.length is None)

    @property
    def first(self) -> int:
        """The place of the carry among the results."""
        return int(self.cond is not None)

    @property
    def keeps(self) -> bool:
        """Can it be told what to keep of its turns? Not where xs or ys are stacks."""
        return self.length is not None or self.cond is not None and not self.n_ys

    def counted(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """What says how many turns there are, and the other operands."""
        n = self.n_counts
        return values[:n], values[n:]

    def split(self, values: Sequence[Any]) -> list[list[Any]]:
        """What is said of the consts, of the carry and of the xs, among what is said of each operand of the body."""
        return split(values, self.n_consts, self.n_carry)

    def parts(self, values: Sequence[Any]) -> list[list[Any]]:
        """What is said of the operands that count, of the consts, of the carry and of the xs."""
        return split(values, self.n_counts, self.n_consts, self.n_carry)

    def carried(self, values: Sequence[Any]) -> Any:
        """The carry's part of what is said of each operand of the body."""
        return values[self.n_consts : self.n_consts + self.n_carry]

    def with_body(self, body: Jaxpr, n_consts: int, n_carry: int, cond: Jaxpr | None = None) -> Loop:
        """As many turns of another body; with a condition, `cond` is that for the new carry."""
        return self._replace(body=body, n_consts=n_consts, n_carry=n_carry, cond=cond)

    def over(self, values: Sequence[Any], results: Sequence[Any]) -> tuple[Loop, Sequence[Any]]:
        """As many turns as a run of this loop has made, and what says how many."""
        if self.cond is None:
            return self, self.counted(values)[0]
        return self._replace(cond=None, budget=None), results[:1]


COUNT = Aval((), np.dtype(np.int64))


def stacked(aval: Any, length: int | None) -> Any:
    """What `length` values of one aval become together: an array, or a stack where the length is unknown."""
    if length is None or type(aval) is StackAval:
        return StackAval(strip_literal(aval))
    return Aval((length, *aval.shape), aval.dtype)


def in_turns(loop: Loop, args: Sequence[Any], run: Callable[..., list[Any]], together: Callable[..., Any]) -> list[Any]:
    """The loop, but for one over stacks: `run(turn, program, operands)` for each turn, `together(rows, atom)` for each y."""
    counts, consts, carry, xs = loop.parts(args)
    rows: list[list[Any]] = [[] for _ in range(loop.n_ys)]
    back = -1 if loop.reverse else 1
    for i in count() if loop.length is None else range(loop.length)[::back]:
        if loop.cond is not None and not run(i, loop.cond, [*counts, *carry])[0]:
            return [np.int64(i), *carry]
        carry, found = split(run(i, loop.body, [*consts, *carry, *[x[i] for x in xs]]), loop.n_carry)
        for row, y in zip(rows, found):
            row.append(y)
    ys = zip(rows, loop.body.outputs[loop.n_carry :])
    return [*carry, *[together(row[::back], o) for row, o in ys]]


def _impl(xp: Any, *args: Any, loop: Loop) -> list[Any]:
    """Of loops that passes have made."""
    run = lambda turn, program, values: eval_jaxpr(program, values)
    return in_turns(loop, args, run, lambda rows, _: xp.stack(rows))


def _abstract(*avals: Any, loop: Loop) -> list[Any]:
    outs = loop.body.out_avals
    ys = [stacked(a, loop.length) for a in outs[loop.n_carry :]]
    return [*[COUNT] * loop.first, *map(strip_literal, outs[: loop.n_carry]), *ys]


loop_p = Primitive("loop", _impl, _abstract, multiple=True, may_share=True)


# -- `table`: known numbers as an array
#
# `table`: known numbers as an array, which the compiler makes of numbers that differ from turn to turn of a loop it has found.
#
# Programs hold no arrays; a table holds the bytes of a few. It has no operands, and no derivative: it is made after everything
# has been differentiated.


def _table(xp: Any, *, data: bytes, dtype: np.dtype) -> Any:
    return xp.asarray(np.frombuffer(data, dtype).copy())


table_p = Primitive("table", _table, lambda *, data, dtype: Aval((len(data) // dtype.itemsize,), dtype))


# -- stacks: run-time lists with one entry per executed iteration of a loop of unknown length
#
# A stack is opaque to users; loops fill and read it. Its tangent and its cotangent are stacks too, so what is here is what
# linear programs need of them: add, zero, select by lane, copy along a batch axis, and sum over it. Invariants: an empty stack
# stands for zeros of any length; the batch axis is axis 0 of every entry. Entries may be stacks (loops in loops).


def is_stack(x: Any) -> bool:
    """Is x (a value or a tracer) a stack?"""
    return type(x) is not np.ndarray and type(aval_of(x)) is StackAval


def map_entries(f: Callable[..., Any], aval: Any, *stacks: Any) -> Any:
    """The stack, of this aval, of f of the arrays at equal places (None where one stack is shorter, hence zero)."""
    length = max(len(s) for s in stacks)
    items = []
    for i in range(length):
        row = [s[i] if i < len(s) else None for s in stacks]
        if type(aval.element) is StackAval:
            items.append(map_entries(f, aval.element, *[Stack([], aval.element) if x is None else x for x in row]))
        else:
            items.append(f(*row))
    return Stack(items, aval)


stack_empty_p = Primitive("stack_empty", lambda xp, *, aval: Stack([], aval), lambda *, aval: aval)


def stack_empty(aval: Any) -> Any:
    return stack_empty_p(aval=aval)


def batched_entries(primitive: Callable[[], Primitive]) -> Callable[..., tuple[Any, bool]]:
    """The batch rule of an operation that is itself on arrays, or stacks, with a new axis 0."""
    return lambda size, args, batched: (primitive()(*[x if b else lead(x, size) for x, b in zip(args, batched)]), True)


def _add_impl(xp: Any, x: Any, y: Any) -> Any:
    return map_entries(lambda a, b: b if a is None else a if b is None else a + b, x.aval, x, y)


stack_add_p = Primitive(
    "stack_add",
    _add_impl,
    lambda x, y: x,
    jvp=lambda tangents, out, x, y: add_values(*tangents),
    transpose=lambda ct, x, y: [ct if is_linear(x) else None, ct if is_linear(y) else None],
    batch=batched_entries(lambda: stack_add_p),
    reach="pointwise",
)


def add_values(x: Any, y: Any) -> Any:
    """The sum of two tangents or cotangents, arrays or stacks; None is zero."""
    if x is None or y is None:
        return y if x is None else x
    return stack_add_p(x, y) if is_stack(x) else add(x, y)


def _lead_impl(xp: Any, x: Any, *, size: int, axis: int) -> Any:
    def copies(a: Any) -> Any:
        xp = namespace_of([a])  # nobody sees from outside where a stack's entries are
        a = xp.asarray(a)
        return xp.broadcast_to(xp.expand_dims(a, axis), (*a.shape[:axis], size, *a.shape[axis:]))

    return map_entries(copies, _lead_abstract(x.aval, size=size, axis=axis), x)


def _with_axis(aval: Any, change: Callable[[tuple], tuple]) -> Any:
    if type(aval) is StackAval:
        return StackAval(_with_axis(aval.element, change))
    return Aval(change(aval.shape), aval.dtype)


def _lead_abstract(x: StackAval, *, size: int, axis: int) -> StackAval:
    return _with_axis(x, lambda shape: (*shape[:axis], size, *shape[axis:]))


stack_lead_p = Primitive(  # every entry repeated along a new axis
    "stack_lead",
    _lead_impl,
    _lead_abstract,
    jvp=lambda tangents, out, x, *, size, axis: stack_lead_p(tangents[0], size=size, axis=axis),
    transpose=lambda ct, x, *, size, axis: [stack_sum_p(ct, axis=axis, size=size)],
    batch=lambda n, args, batched, *, size, axis: (stack_lead_p(args[0], size=size, axis=axis + 1), True),
    reach="reads",
)


def _sum_abstract(x: StackAval, *, axis: int, size: int) -> StackAval:
    return _with_axis(x, lambda shape: (*shape[:axis], *shape[axis + 1 :]))


def _sum_impl(xp: Any, x: Any, *, axis: int, size: int) -> Any:
    result = _sum_abstract(x.aval, axis=axis, size=size)
    return map_entries(lambda a: namespace_of([a]).sum(a, axis=axis, dtype=a.dtype), result, x)


stack_sum_p = Primitive(  # every entry summed over an axis of that size: the transpose of stack_lead
    "stack_sum",
    _sum_impl,
    _sum_abstract,
    jvp=lambda tangents, out, x, *, axis, size: stack_sum_p(tangents[0], axis=axis, size=size),
    transpose=lambda ct, x, *, axis, size: [stack_lead_p(ct, size=size, axis=axis)],
    batch=lambda n, args, batched, *, axis, size: (stack_sum_p(args[0], axis=axis + 1, size=size), True),
    reach="sums",
)


def lead(x: Any, size: int) -> Any:
    """`size` equal copies along a new axis 0, of an array or of every entry of a stack."""
    return stack_lead_p(x, size=size, axis=0) if is_stack(x) else broadcast_leading(x, size)


def _select_impl(xp: Any, mask: Any, x: Any, y: Any) -> Any:
    element = x.aval.element
    while type(element) is StackAval:
        element = element.element

    def choose(a: Any, b: Any, bools: Any) -> Any:
        xp = namespace_of([a, b, bools])
        bools = xp.asarray(False if bools is None else bools)
        spread = xp.reshape(bools, bools.shape + (1,) * (len(element.shape) - bools.ndim))
        zero = xp.zeros(element.shape, element.dtype)
        chosen = xp.where(spread, zero if a is None else a, zero if b is None else b)
        return chosen if element.shape or xp is not np else chosen[()]

    if type(mask) is Stack:
        return map_entries(choose, x.aval, x, y, mask)
    return map_entries(lambda a, b: choose(a, b, mask), x.aval, x, y)


def _select_jvp(tangents: Sequence[Any], out: Any, mask: Any, x: Any, y: Any) -> Any:
    _, t, u = tangents
    empty = stack_empty(aval_of(x))
    return stack_select(mask, empty if t is None else t, empty if u is None else u)


def _select_transpose(ct: Any, mask: Any, x: Any, y: Any) -> list[Any]:
    empty = stack_empty(aval_of(ct))
    return [
        None,
        stack_select(mask, ct, empty) if is_linear(x) else None,
        stack_select(mask, empty, ct) if is_linear(y) else None,
    ]


# Entry by entry, x on the lanes where the mask holds and y on the others; what is missing is zero.
# The mask may be a stack itself: of one bool for each element.
stack_select = Primitive(  # mask has the leading (batch) axes of the entries, or is a stack of their bools
    "stack_select",
    _select_impl,
    lambda mask, x, y: x,
    jvp=_select_jvp,
    transpose=_select_transpose,
    batch=batched_entries(lambda: stack_select),
    reach="choice",
)


def bools_aval(aval: Any) -> Any:
    """Of a bool for each element."""
    return StackAval(bools_aval(aval.element)) if type(aval) is StackAval else Aval(aval.shape, np.dtype(bool))


def zero_value(aval: Any) -> Any:
    """A zero of any aval: a NumPy scalar, a stride-0 array, or an empty stack."""
    if type(aval) is StackAval:
        return Stack([], aval)
    return zeros(aval) if aval.shape else aval.dtype.type(0)


def zero_entry(xp: Any, aval: Any) -> Any:
    """What an entry of an empty stack stands for."""
    if type(aval) is StackAval:
        return Stack([], aval)
    return xp.zeros(aval.shape, aval.dtype) if aval.shape or xp is not np else aval.dtype.type(0)
