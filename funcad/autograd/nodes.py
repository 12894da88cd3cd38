"""Nodes of autograd's traces: where the value of a box comes from, and how cotangents get there; nodes of classes of your own.

Idea: un-jitted reverse mode writes a row for each operation (unjitted/tape.py), and a node is a row that somebody looks at: its
`parents` are the nodes of the operands that carry derivatives, its `vjp` is the pull of the row. `new_box` opens such a tape,
and boxes of one `with trace_stack.new_trace()` are inputs of one tape. `backward_pass` goes from node to node where traces
begin and end, and over all rows in between by the one loop of unjitted/backward.py. The node that `trace` returns stands for a
whole function. Of a class of the user's a node is made for each operation, as it runs (`_NodeTrace`).

Invariant: what a node says is computed when it is asked for, so that values cost nothing more where nobody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import add, attrgetter, getitem
from types import SimpleNamespace
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import flat_values, own_memory, zeros_for
from funcad.autograd.differential_operators import at, fitting, with_pullback, with_push
from funcad.autograd.user_boxes import getval
from funcad.configuration import OnDemand
from funcad.host.devices import on_device
from funcad.host.where import open_traces, user_source
from funcad.ir.aval import aval_of, is_inexact, said
from funcad.ir.trace import bind, next_level
from funcad.ir.tracer import Tracer, concrete_value, leaked, snapshot, tangent_of
from funcad.numpy.methods import ATTRIBUTES
from funcad.primitives.shape import broadcast_to
from funcad.unjitted.backward import pull
from funcad.unjitted.following import FollowingTrace, plain_result, run_following
from funcad.unjitted.linearizing import LinearizingTrace
from funcad.unjitted.tape import Tape

__all__ = ["JVPNode", "Node", "TraceStack", "VJPNode", "backward_pass", "new_box", "node_of", "toposort", "trace_stack"]
masked_rules = OnDemand("funcad.masks.masked_rules")


class TraceStack:
    """The traces that boxes belong to: `new_trace()` gives the number of a new one for the time of a `with` block.

    >>> with trace_stack.new_trace() as outer, trace_stack.new_trace() as inner:
    ...     print(inner > outer)
    True
    """

    def __init__(self) -> None:
        self.open: dict[int, Any] = {}  # number -> the trace of the boxes that were made in it so far, if any were

    @property
    def top(self) -> int:
        return max(self.open, default=-1)

    @contextmanager
    def new_trace(self) -> Iterator[int]:
        number = int(next_level())
        self.open[number] = None
        try:
            yield number
        finally:
            del self.open[number]


trace_stack = TraceStack()


class Node:
    """What a trace starts from, made by `new_root`; a class of your own is told of each operation.

    Its `__init__(value, fun, args, kwargs, parent_argnums, parents)` is called for each: `fun(*args, **kwargs)` gave the value,
    and the arguments at `parent_argnums` have the nodes `parents`. Operations are funcad's primitives and functions with rules.

    >>> from funcad.autograd.tracer import trace
    >>> import numpy as np
    >>> class Told(Node):
    ...     def initialize_root(self):
    ...         self.text = "x"
    ...     def __init__(self, value, fun, args, kwargs, parent_argnums, parents):
    ...         self.text = f"{fun.__name__}({', '.join([p.text for p in parents])})"
    >>> trace(Told.new_root(), lambda x: np.sin(x) * x, 2.0)[1].text
    'multiply(sin(x), x)'
    """

    __slots__: tuple[str, ...] = ()

    def __init__(
        self, value: Any, fun: Callable[..., Any], args: tuple, kwargs: dict, parent_argnums: tuple[int, ...], parents: list
    ):
        raise NotImplementedError(f"{type(self).__name__}: the class does not say what the node of an operation is: `__init__`")

    def initialize_root(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__}.new_root: the class does not say what a root is: `initialize_root`")

    @classmethod
    def new_root(cls, *args: Any, **kwargs: Any) -> Any:
        root = cls.__new__(cls)
        root.initialize_root(*args, **kwargs)
        return root

    def behind(self, fun: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
        """The value of fun at x, and the node of that value, whose start this is."""
        leaves, structure = flat_values(x)
        owner, found = _NodeTrace("trace"), []
        owner.kind = type(self)

        def flat(*given: Any) -> list[Any]:
            outs, shape = flat_values(fun(structure.unflatten(given)))
            found.append(shape)
            return outs

        outs, nodes = run_following(owner, flat, leaves, [self] * len(leaves), user_source())
        values = found[-1].unflatten(own_memory(outs, leaves))
        if len(nodes) != 1:  # of a container
            there = [i for i, node in enumerate(nodes) if node is not None]
            nodes = [owner.node_of(values, found[-1].unflatten, outs, {}, there, nodes)]
        return values, nodes[0]

    def boxed(self, value: Any, trace: int) -> Tracer:
        """The value as a box of that trace, whose start this is."""
        owner = _owner(_NodeTrace, trace)
        owner.kind = type(self)
        return Tracer(owner, None, value, self, user_source())


class _NodeTrace(FollowingTrace):
    """Runs operations, and makes a node of each: what its tracers have in the place of tangents."""

    __slots__ = ("kind",)

    def record(
        self, primitive: Any, args: Sequence[Any], params: dict, shape: tuple | None = None, known: tuple | None = None
    ) -> Any:
        if self.closed:
            raise leaked(next(a for a in args if type(a) is Tracer and a.owner is self))
        argnums = [i for i, a in enumerate(args) if type(a) is Tracer and a.owner is self]
        parents = [args[i].tangent for i in argnums]
        values = [a.primal if i in argnums else a for i, a in enumerate(args)]
        fun: Any = _CallAsNode(params) if "call" in params else _OperationAsNode(primitive, shape)
        kwargs = {} if "call" in params else params
        out = fun(*values, **kwargs) if known is None else known[0]
        if not primitive.multiple and not is_inexact(aval_of(out)):
            return plain_result(out, values)
        node = self.node_of(out, fun, values, kwargs, argnums, parents)
        if not primitive.multiple:
            return Tracer(self, None, out, node, user_source())
        parts = [self.node_of(o, getitem, (out, i), {}, [0], [node]) for i, o in enumerate(out)]
        return [Tracer(self, None, o, part, user_source()) for o, part in zip(out, parts)]

    def node_of(self, value: Any, fun: Any, args: Sequence[Any], kwargs: dict, argnums: Sequence[int], parents: Any) -> Any:
        parents = [p for p in parents if p is not None]
        return self.kind(value, fun, tuple(args), kwargs, tuple(argnums), parents)


class _OperationAsNode:
    """A primitive as a function of arrays and numbers."""

    def __init__(self, primitive: Any, shape: tuple | None):
        self.primitive, self.shape = primitive, shape
        self.__name__ = primitive.name if primitive.ufunc is None else primitive.ufunc.__name__

    def __call__(self, *args: Any, **params: Any) -> Any:
        if self.shape is not None:
            args = tuple([broadcast_to(a, self.shape) for a in args])
        return bind(self.primitive, *args, **params)


class _CallAsNode:
    """A function with a rule of its own, which is called with the leaves of its arguments."""

    def __init__(self, params: dict[str, Any]):
        self.call, self.store = params["call"], params["store"]
        self.__name__ = self.call.name

    def __call__(self, *leaves: Any) -> Any:
        outs, self.store.tree = flat_values(self.call.target.f(*self.call.merged(leaves)))
        return outs


class VJPNode(Node):
    """Reverse mode's node: `vjp(g)` gives the cotangents of its `parents`. `VJPNode.new_root()` starts a trace."""

    __slots__ = ("parents", "vjp")

    def initialize_root(self) -> None:
        self.parents: list[Any] = []
        self.vjp: Callable[[Any], tuple] = lambda g: ()

    def behind(self, fun: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
        pullback, value = at(with_pullback, fun, 0, x)
        node = type(self).new_root()
        node.parents, node.vjp = [self], lambda g: (pullback(g),)
        return value, node

    def boxed(self, value: Any, trace: int) -> Tracer:
        owner = _owner(LinearizingTrace, trace)
        tape = owner.tape
        if tape is None:
            tape = owner.protector = owner.short = owner.tape = Tape(owner, [value], [True])
            number, tape.starts = 0, {0: self}
        else:  # a further input of a tape that has rows: a row without a pull
            number = tape.first + len(tape.pulls)
            for column, entry in zip((tape.pulls, tape.numbers, tape.kept, tape.sources), (None, (), (), None)):
                column.append(entry)
            tape.own.append(0)
            tape.primals, tape.roots = [*tape.primals, value], None
            tape.outer = tape.outer or type(value) is Tracer
            tape.starts[number] = self
        return Tracer(owner, None, value, number, user_source())

    def starts(self) -> Sequence[Any]:
        """The nodes where the trace starts that this one ends."""
        return self.parents

    def back(self, g: Any) -> Sequence[Any]:
        """The cotangents of `starts()` for that of this node."""
        return self.vjp(g)


def _owner(kind: Any, trace: int) -> Any:
    """The trace of the boxes with this number; it stays open as long as somebody keeps one of them."""
    owner = trace_stack.open.get(trace)
    if type(owner) is not kind:
        owner = kind(f"new_box(value, {trace}, node)")
        owner.function = owner.outer = owner.lends = owner.missed = None
        owner.writes_outside = owner.late = False
        if trace in trace_stack.open:
            trace_stack.open[trace] = owner
    return owner


class _Row(VJPNode):
    """The node of a value on a tape: a row, or an input of a gradient that runs."""

    __slots__ = ("tape", "number", "aval")

    def __init__(self, tape: Tape, number: int, aval: Any = None):
        self.tape, self.number, self.aval = tape, number, aval

    def __eq__(self, other: object) -> bool:
        return type(other) is _Row and self.tape is other.tape and self.number == other.number

    def __hash__(self) -> int:
        return hash((id(self.tape), self.number))

    def _operation(self) -> range:
        """The rows of the results of its operation, of which the last one has the pull."""
        i = self.number - self.tape.first
        if i < 0:
            return range(0)
        while self.tape.pulls[i] is None:
            i += 1
        return range(i + 1 - len(self.tape.pulls[i].there), i + 1)

    @property
    def parents(self) -> list[Any]:  # type: ignore[override]
        rows = self._operation()
        return [_node(self.tape, n) for n in self.tape.numbers[rows[-1]]] if rows else []

    @property
    def vjp(self) -> Callable[[Any], tuple]:  # type: ignore[override]
        rows = self._operation()
        inputs = self.tape.numbers[rows[-1]] if rows else ()
        return lambda g: tuple(self._back(rows, inputs, g)) if rows else ()

    def _inputs(self) -> list[int]:
        return [n for n in getattr(self.tape, "starts", range(self.tape.first)) if n < self.number]

    def starts(self) -> Sequence[Any]:
        return [_node(self.tape, n) for n in self._inputs()] if self.number >= self.tape.first else []

    def back(self, g: Any) -> Sequence[Any]:
        first, inputs = self.tape.first, self._inputs()
        rows = [i for i in range(self.number + 1 - first) if i + first not in inputs]
        return self._back(rows, inputs, g) if rows else []

    def _back(self, rows: Sequence[int], inputs: Sequence[int], g: Any) -> list[Any]:
        """The cotangents of values, by these rows of the tape; zeros where the rule knows that they are."""
        tape, first = self.tape, self.tape.first
        here = {n: i for i, n in enumerate([*inputs, *[first + i for i in rows]])}
        primals = [_primal(tape, n) for n in inputs]
        whole = not any([p is None for p in primals])  # of one operation: no mask begins behind inputs
        part: Any = SimpleNamespace(
            pulls=[tape.pulls[i] for i in rows],
            kept=[tape.kept[i] for i in rows],
            sources=[tape.sources[i] for i in rows],
            numbers=[tuple([here[n] for n in tape.numbers[i]]) for i in rows],
            first=len(inputs),
            ends=[here[self.number]],
            begins=tape.begins and whole,
            outer=tape.outer,
            lanes=None,
            name=tape.name,
            avals=list(map(aval_of, primals)) if whole else (),
        )
        if self.aval is not None:
            g = fitting(g, self.aval)
        found = pull(part, [g], True)
        found = [c if c is not None else zeros_for(0.0 if p is None else p) for c, p in zip(found, primals)]
        return own_memory(found, [g, *[x for kept in part.kept for x in kept if type(x) is np.ndarray]])


def _primal(tape: Tape, number: int) -> Any:
    """The value of an input; None for that of a row, which is not kept."""
    starts = getattr(tape, "starts", None)
    if starts is not None:
        return tape.primals[list(starts).index(number)] if number in starts else None
    return tape.inputs[number] if number < tape.first else None


def _node(tape: Tape, number: int) -> Any:
    found = getattr(tape, "starts", {}).get(number)
    return _Row(tape, number, aval_of(_primal(tape, number)) if number < tape.first else None) if found is None else found


class JVPNode(Node):
    """Forward mode's node: `g` is the tangent. `JVPNode.new_root(g)` starts a trace."""

    __slots__ = ("g",)

    def initialize_root(self, g: Any) -> None:
        self.g = g

    def behind(self, fun: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
        value, g = at(with_push, fun, 0, x)(self.g)
        return value, type(self).new_root(g)

    def boxed(self, value: Any, trace: int) -> Tracer:
        owner = _owner(FollowingTrace, trace)
        return Tracer(owner, None, value, fitting(self.g, value), user_source())


def new_box(value: Any, trace: int, node: Any) -> Tracer:
    """A traced value, whose derivatives start at the node: what is made of it has a `_node` and a `_value`.

    It is traced outside of any function, as long as somebody keeps it; inside of jit and vmap, and for arrays on a device, use
    `core.make_vjp`. Boxes of one `with trace_stack.new_trace() as trace` belong together; other numbers make one box each.

    >>> from funcad.autograd.core import VJPNode, backward_pass
    >>> x = new_box(3.0, 0, VJPNode.new_root())
    >>> y = x * x + 1.0
    >>> float(y._value), float(backward_pass(1.0, y._node))
    (10.0, 6.0)
    """
    try:
        aval = aval_of(value)
    except TypeError:
        aval = None
    if aval is None or aval.dtype.kind not in "fc":
        raise TypeError(
            f"new_box takes arrays and numbers that are floats or complex, got {said(value)}.\n"
            "Remedy: x.astype(float); of containers and classes `autograd.core.make_vjp(fun, x)`."
        )
    if open_traces or on_device([concrete_value(value)]):
        raise NotImplementedError(
            "new_box: within jit, vmap or a loop, and on a device, no value is traced but by the function that runs.\n"
            "Remedy: `pullback, value = autograd.core.make_vjp(fun, x)`, which works there."
        )
    boxed: Tracer = node.boxed(snapshot(value), trace)
    return boxed


def node_of(x: Tracer) -> Any:
    """`x._node`: where the value of a box comes from."""
    owner, p = x.owner, x.primal
    while type(p) is Tracer:
        if type(p.owner) is type(owner) and p.owner.name == owner.name and owner.name.startswith("new_box"):
            raise NotImplementedError(
                f"boxes that were made by {owner.name}, each for itself, have met, and a node is of one of them.\n"
                "Remedy: `with autograd.tracer.trace_stack.new_trace() as t`, and new_box(value, t, node) for each in it."
            )
        p = p.primal
    if owner.tape is not None and type(x.tangent) is int:
        starts = getattr(owner.tape, "starts", {})
        return starts[x.tangent] if x.tangent in starts else _Row(owner.tape, x.tangent, aval_of(x.primal))
    if type(owner) is _NodeTrace:
        return x.tangent
    if type(owner) is FollowingTrace:
        return JVPNode.new_root(masked_rules.cleaned(tangent_of(x)))
    raise AttributeError(
        f"a traced {x.aval} has no `_node` here: only un-jitted reverse mode and forward mode have one, while they run.\n"
        "Remedy: `value, node = autograd.tracer.trace(VJPNode.new_root(), fun, x)`.",
        name="_node",
        obj=x,
    )


ATTRIBUTES |= {"_value": getval, "_node": node_of, "_trace": lambda x: x.owner.level}


def toposort(end_node: Any, parents: Callable[[Any], Sequence[Any]] = attrgetter("parents")) -> Iterator[Any]:
    """The nodes that lead to `end_node`, each behind all that come of it.

    >>> list(toposort(3, lambda n: [n - 1, n - 1] if n else []))
    [3, 2, 1, 0]
    """
    waits: dict[Any, int] = {end_node: 0}  # for how many of its children
    stack = [end_node]
    while stack:
        for parent in parents(stack.pop()):
            if parent not in waits:
                waits[parent] = 0
                stack.append(parent)
            waits[parent] += 1
    ready = [end_node]
    while ready:
        node = ready.pop()
        yield node
        for parent in parents(node):
            waits[parent] -= 1
            if not waits[parent]:
                ready.append(parent)


def backward_pass(g: Any, end_node: Any) -> Any:
    """The cotangent of the start of the trace that ended in `end_node`, for the cotangent g of its end.

    >>> from funcad.autograd.tracer import trace
    >>> value, node = trace(VJPNode.new_root(), lambda x: x**3, 2.0)
    >>> float(value), float(backward_pass(1.0, node)), float(backward_pass(2.0, node))
    (8.0, 12.0, 24.0)
    """
    found = {end_node: g}
    for node in toposort(end_node, lambda node: node.starts()):
        g = found.pop(node)
        starts = node.starts()
        for start, more in zip(starts, node.back(g) if starts else ()):
            found[start] = tree.map(add, found[start], more) if start in found else more
    return g
