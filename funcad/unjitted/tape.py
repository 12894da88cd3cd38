"""The tape: un-jitted reverse mode writes a row for each operation, and goes back over the rows.

Idea: an operation runs at the user's line, and a row says how cotangents get to its operands: (pull, numbers of operands, what
the pull reads). The pull is one for all operations of a kind (kinds.py), and for all calls of a program (derived_pulls.py).
What has no kind, a loop or a custom rule, lets its rule run at once on tangents of its own, and what was recorded of these is
its pull (`ByRule`). Most operations are of few kinds, so the short ways, `binary`, `unary`, `product` and others, look at the
operands once. They return None where they did not see at a glance what is to be done, and whoever asked goes the general way,
`record`.

Rows are columns, so that nothing is made for each that Python's garbage collector would look at, again and again.

Invariants: every operation runs once; a row keeps what its rule's linear part reads and nothing else, so no array lives longer
than its residual would. An array that the user can still write is copied when a row keeps it, at the moment of use, once if it
has not changed; large ones are locked. Where outer traces have a part in the values, what is kept are their tracers, and going
back is recorded there; of lanes of an un-jitted vmap, which are known (api/lane_trace.py), the short ways compute all at once,
as going back does. Trap: rules look whether two operands are one (`x * x`), so kinds tell them apart.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.host.devices import compute, deliver, enter, error_mode, pending, restore_warnings, user_line_mode
from funcad.host.locks import NO_LOCKS
from funcad.host.real_types import NARROW, narrow_among
from funcad.host.where import internal, line_of, located, open_traces, state, user_source
from funcad.ir.aval import SCALAR_AVALS, Aval, aval_of
from funcad.ir.jaxpr import params_key, prune
from funcad.ir.trace import bind, next_level
from funcad.ir.tracer import Tracer, concrete_value, snapshot
from funcad.memo import remembers, table
from funcad.primitives import conversion
from funcad.primitives.arithmetic import add, neg, square_p, sub
from funcad.primitives.basic_indexing import basic_index_p, basic_update_p, gather_p
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.families import keeps_operands
from funcad.primitives.shape import broadcast_to, concatenate_p, reshape, shape_of_two
from funcad.unjitted.element_rows import ELEMENTS, READ, elements_row
from funcad.unjitted.following import bind_known, plain_result, whole_as_float
from funcad.unjitted.kinds import SIZED, WrittenPull, free_of, has_rows, kinds, looked_at, pull_of
from funcad.unjitted.outside import COPIED, Outside, Protector

derived_pulls = OnDemand("funcad.unjitted.derived_pulls")
interpret = OnDemand("funcad.ir.interpret")
partial_eval = OnDemand("funcad.transforms.partial")
_getframe = sys._getframe
_new: Any = object.__new__
_float64, _matmul, _ndarray = np.float64, np.matmul, np.ndarray
_F64, _F32 = np.dtype(np.float64), np.dtype(np.float32)
_WHOLE = frozenset([_ndarray, np.bool_, *[np.dtype(c).type for c in "bhilqBHILQ"]])
_NUMBERS = {d: Aval((), d) for d in (_F64, _F32)}
_NOTHING: Mapping[int, Any] = {}
_EMPTY: Any = ()
_ALONE: Any = (0,)  # of an operation with one operand: which it is alike, and the number of its row


# -- what is decided once per shape: how NumPy reduces, whether operands fit, and the parameters by their bits

_LINEAR = frozenset([add, sub, neg, conversion.convert_p, concatenate_p, basic_update_p, gather_p])
_MOST_PLANS = 1000


@remembers(_MOST_PLANS)
def linear(primitive: Any) -> bool:
    """Does its rule look at tangents only?"""
    return primitive.structural or primitive in _LINEAR


NO_PLAN: tuple = (None,)
# how NumPy does it, and the parameters
plans = table(
    "unjitted.reduction plans",
    "primitive, rank and axis: how NumPy reduces",
    _MOST_PLANS,
)


def reduction_plan(primitive: Any, rank: int, axis: Any) -> tuple:
    plan = NO_PLAN
    given = tuple(range(rank)) if axis is None else axis if type(axis) is tuple else (axis,)
    if given and all([type(i) is int and -rank <= i < rank for i in given]) and len({i % rank for i in given}) == len(given):
        axes = tuple(sorted([i % rank for i in given]))  # otherwise the general way raises
        later = tuple([i + 1 for i in axes])  # behind the axis of the lanes
        params = {"axes": axes}
        runs = [partial(primitive.reduction.ufunc.reduce, axis=a if len(a) > 1 else a[0]) for a in (axes, later)]
        plan = *runs, axes, params, params_key(params)
    return plans.put((primitive, rank, axis), plan)


@remembers(8)
def product_plan(rank: int) -> tuple:
    """Parameters of the product of an array of this rank, by its last axis and the other's first one."""
    params = {"dimension_numbers": (((rank - 1,), (0,)), ((), ()))}
    return params, params_key(params)


def within_lanes() -> Any:
    """Are an un-jitted vmap's lanes, which are known, what is being traced? There it is as outside."""
    return getattr(getattr(state.abstract, "recorder", None), "of_lanes", False) and state.staging is None and not state.checked


class Tape(Protector):
    """Rows of one un-jitted gradient that `trace` runs; what keeps their values safe from the user is the tape itself."""

    __slots__ = (
        *("trace", "level", "first", "pulls", "numbers", "kept", "sources", "own", "made", "here"),
        *("mode", "user_line_mode", "outside", "ends", "begins", "outer", "notes", "inputs", "open", "around", "lanes"),
        *("apart", "wholes", "depth"),  # of arrays whose elements are read one by one, see element_rows.py
        "starts",  # of autograd's boxes (autograd/nodes.py): the nodes of the inputs, by their numbers
    )

    def __init__(self, trace: Any, primals: Sequence[Any], differentiated: Sequence[bool]):
        self.trace = trace
        self.level = next_level()  # of the trace of the tangent program, if one is needed
        # as `Protector.__init__` does
        self.primals, self.roots, self.args, self.locks = primals, None, _EMPTY, NO_LOCKS
        self.inputs: Any = primals if False not in differentiated else [p for p, d in zip(primals, differentiated) if d]
        self.first = len(self.inputs)  # numbers below are those of inputs
        # of each row: its pull, the numbers of its operands that are traced, what the pull reads, and the user's line
        self.pulls: Any = []
        self.numbers: Any = []
        self.kept: Any = []
        self.sources: Any = []
        # those of the un-jitted vmaps that this gradient is within: where others are open, there is no short way
        self.here: Any = state.__dict__  # what is open in the thread
        self.open = frozenset(open_traces)
        self.around = around = self.here["abstract"]  # the innermost of these
        self.lanes: Any = None if around is None or around.at_once is None else around  # if it computes at once
        # of each number: is the value in memory that nobody can change?
        self.own = bytearray(self.first) if self.lanes is None else bytearray(b"\1") * self.first
        self.apart: Any = _NOTHING
        self.wholes: Any = _EMPTY
        self.depth: int | None = None
        self.made: Any = _NOTHING  # what made values whose square may be known
        self.mode = self.user_line_mode = None  # of warnings, see host/devices.py
        self.outside: Outside | None = None
        self.ends: Sequence[int] = ()  # the numbers of the results
        self.begins = False  # may a mask begin behind a row?
        self.outer = Tracer in map(type, self.inputs)  # have outer traces a part in the values?
        self.notes: Any = None  # of the operands that rows were asked for with, see remembered.py

    # -- the general way: any operation, on values of any type
    #
    # Operands are looked at once. Then the operation runs, here or in outer traces that have a part in its operands, and the
    # row is written: by kind where there is one, by the rule itself where there is none.

    def record(self, primitive: Any, args: Sequence[Any], params: dict, shape: Any, known: tuple | None = None) -> Any:
        """The result, traced where there is a tangent. `known` is `(out,)` if the result was computed before."""
        trace = self.trace
        primals: list[Any] = []
        numbers: list[Any] = []
        outer, plain = False, not state.checked or self.notes is not None
        for x in args:
            n = None
            if type(x) is Tracer:
                if x.owner is trace:
                    n, x = x.tangent, x.primal
                if type(x) is Tracer:
                    outer = True
            if type(x) is not _ndarray:
                kind = type(concrete_value(x)) if type(x) is Tracer and x.owner.level else type(x)
                plain = plain and (kind is _ndarray or kind in SCALAR_AVALS or kind is Tracer)
            elif not x.dtype.isnative:
                plain = False
            primals.append(x)
            numbers.append(n)
        if outer:
            self.outer = True
            # what is recorded has operands of one shape, so the broadcasts are operations of their own, in both traces
            if shape is not None and known is None:
                return bind(primitive, *[broadcast_to(a, shape) for a in args], **params)
        bits = found = None
        if plain and primitive.halves is not None and self.notes is None:
            found = derived_pulls.row_of_halves(self, primitive, args, primals, numbers, params)
            if found is not None:
                return found
        if plain and params:
            bits = params_key(params)
            plain = bits is not None
        # what calls programs, has effects or parameters of which no key can be made has no kind
        if not plain or not has_rows(primitive):
            passive = primitive.passive and known is None and not primitive.multiple  # its result has no tangent
            return trace.by_rule(primitive, args, params, shape, known, None if passive else ByRule(self))
        if primitive.turns:
            trace.turned = True
        if known is not None:
            (out,) = known
            if outer:
                out = bind_known(primitive, primals, params, shape, out)
        else:
            out = bind(primitive, *primals, **params) if outer else compute(primitive, primals, params)
        # of reads and writes of elements the row keeps the index, which no kind tells
        if primitive in ELEMENTS:
            found = elements_row(primitive, primals, numbers, params)
            if found is not None:
                own = type(out) is not _ndarray or out.base is None
                pull, rows, kept = found
                operation = primitive, tuple(args), params, bits, None
                return self.row(pull, rows, kept, operation, out, own)
        return self.written(primitive, tuple(args), primals, numbers, params, bits, shape, out)

    def written(
        self,
        primitive: Any,
        args: Sequence[Any],
        primals: Sequence[Any],
        numbers: Sequence[Any],
        params: dict,
        bits: Any,
        shape: Any,
        out: Any,
        source: Any = None,
    ) -> Any:
        """The traced results of an operation that has been computed."""
        multiple, wide, kept = primitive.multiple, shape is not None, None
        outs = list(out) if multiple else [out]
        outer = Tracer in map(type, primals) or Tracer in map(type, outs)
        narrow = NARROW and narrow_among((*primals, *outs)) is not None
        for o in outs:
            if narrow or (o if type(o) is _ndarray or type(o) is _float64 else aval_of(o)).dtype.kind not in "fc":
                return self.trace.by_rule(primitive, args, params, shape, (out,), ByRule(self, outer))
        # the key: what is said of each operand, which are one object, which are traced, and by which rows
        alike, rows, known = _pattern(primals, numbers) if len(primals) > 1 else (_ALONE, _ALONE, tuple(numbers))
        shapes, classes, chars = looked_at((*primals, *outs))
        pull: Any = False
        # element by element the kind has no shapes, but those of traced operands are the result's
        by_elements = primitive.emit is not None and not multiple
        if by_elements and not wide and len(primals) > 1:
            for n, given in zip(numbers, shapes):
                by_elements = by_elements and (n is None or given == shapes[-1])
        if by_elements:
            key: tuple = primitive, bits, wide, chars, alike, rows
            pull = kinds.get(key)
            if not isinstance(pull, WrittenPull) or pull.part is not None or wide and outer:
                pull, kept = pull_of(key, primitive, primals, rows, outs, params, None, outer, wide)
        if pull is False:
            wide = False
            free = free_of(primitive)
            said = bits if free is None else params_key({name: x for name, x in params.items() if name not in free})
            key = primitive, said, shape is None, classes, alike, rows, _EMPTY
            pull = kinds.get(key)
            if not isinstance(pull, WrittenPull) or pull.part is not None:
                pull, kept = pull_of(key, primitive, primals, rows, outs, params, shape, outer)
        if pull is False:
            return self.trace.by_rule(primitive, args, params, shape, (out,), ByRule(self, outer))
        if pull is None:
            plain = [plain_result(o, primals) for o in outs]
            return plain if multiple else plain[0]
        rest: tuple = (shapes, params) if pull.tail else _EMPTY
        if wide:
            rest = shape, *[shapes[rows.index(i)] for i in range(len(known))]
        operation = primitive, args, params, bits, shape
        if multiple:
            return self.rows(pull, known, rest, operation, outs, source, primals, kept)
        own = type(out) is not _ndarray or out.base is None and id(out) not in map(id, primals)
        return self.row(pull, known, rest, operation, out, own, source, primals, kept)

    def rows(
        self,
        pull: Any,
        numbers: tuple,
        rest: tuple,
        operation: tuple,
        outs: Sequence[Any],
        source: Any,
        primals: Sequence[Any],
        known: Sequence[Any] | None = None,
    ) -> list[Any]:
        """The results of an operation: those that the pull is of are traced, each with a row; the last one has the pull."""
        results: list[Any] = []
        primitive, args, params, _, shape = operation
        for i, out in enumerate(outs):
            if i not in pull.there:
                results.append(plain_result(out, primals))
                continue
            own = type(out) is not _ndarray or out.base is None and not any([out is p for p in primals])
            own = own and (self.roots is None or id(out) not in self.roots)
            # going back, the last one comes first, when the cotangents of all are complete
            if i == pull.there[-1]:
                traced = self.row(pull, numbers, rest, operation, out, own, source, primals, known)
            else:
                traced = self.row(None, _EMPTY, _EMPTY, operation, out, own, source)
            if primitive.square is not None and primitive.multiple:
                self.note(traced, primitive, args, params, shape, i)
            results.append(traced)
        if self.notes is not None and len(outs) > 1:
            self.notes["looked"] = True
        return results

    def row(
        self,
        pull: Any,
        numbers: tuple,
        rest: tuple,
        operation: tuple,
        out: Any,
        own: Any,
        source: Any = None,
        primals: Sequence[Any] = _EMPTY,
        known: Sequence[Any] | None = None,
    ) -> Any:
        """The traced result of a row of an `operation`: (primitive, operands, parameters, their bits, shape).

        What the pull reads is kept, safe from the user: operands, the result, or what is `known` instead; and then the `rest`.
        Without a `source` it is the user's line that is found behind whoever called the caller.
        """
        here, trace = self.here, self.trace
        if source is None:
            source = here["source"]
            if source is None:
                frame: Any = _getframe(3)  # this is `source_at`, without a call
                get = internal.get
                while inside := get(frame.f_code.co_filename):
                    frame = frame.f_back
                    if frame is None:  # of a thread that begins with a derivative
                        frame = _getframe(3)
                        break
                if inside is False and here["observer"] is None:
                    source = frame.f_code, frame.f_lasti, here["scope"]
                else:
                    source = self.source_at(frame)
        if pull is not None:
            if pull.sources:
                args, m = operation[1], len(primals)
                kept: list[Any] = []
                for i in pull.sources:
                    x: Any = known[len(kept)] if known else primals[i] if i < m else out
                    kind = type(x)
                    if kind is _ndarray or kind is Tracer:
                        if i < m:
                            given = args[i]
                            safe = type(given) is Tracer and given.owner is trace and self.own[given.tangent]
                        else:
                            safe = own and x is out
                        if not safe and kind is _ndarray and i < len(args):
                            x = self.safe(x, args[i])
                        elif not safe and (kind is Tracer or x.base is not None or id(x) in map(id, primals)):
                            x = self._guarded(snapshot(x), args) if kind is Tracer else self._guarded(x, primals)
                    kept.append(x)
                rest = (*kept, *rest)
            # behind inputs there is no factor that a zero might meet
            if pull.begins and not self.begins:
                self.begins = max(numbers, default=-1) >= self.first
        n = len(self.own)
        self.pulls.append(pull)
        self.numbers.append(numbers)
        self.kept.append(rest)
        self.sources.append(source)
        self.own.append(own)
        result = _new(Tracer)
        result.owner = trace
        result.primal = out
        result.tangent = n
        result.source = source
        result.atom = result.box = None
        if operation[0].turns:
            trace.turned = True
        if trace.turned or self.notes is not None:
            self._noted(result, operation, out)
        return result

    def _noted(self, result: Any, operation: tuple, out: Any) -> None:
        primitive, args, params, _, shape = operation
        if primitive.multiple:
            return
        if self.notes is not None:
            self.notes[result.tangent] = (*operation, out)
        if self.trace.turned and primitive.square is not None:
            self.note(result, primitive, args, params, shape)

    def note(self, traced: Any, primitive: Any, args: Sequence[Any], params: dict, shape: Any, i: int = 0) -> None:
        """Remember what made a value whose square may be known."""
        if keeps_operands(primitive, args, params, i):
            self.made = self.made or {}
            self.made[traced.tangent] = primitive, list(map(snapshot, args)), params, i, shape

    def _guarded(self, x: Any, args: Sequence[Any]) -> Any:
        saved, self.args = self.args, args
        try:
            return self(x)
        finally:
            self.args = saved

    def safe(self, x: np.ndarray, given: Any) -> np.ndarray:
        """An array among the operands, as a row may keep it."""
        if type(given) is Tracer and given.owner is self.trace:
            n = given.tangent
            if self.own[n] or n >= self.first and not self.is_users(x):
                return x
        # a copy of a few numbers costs less than to look for one
        if x.nbytes < COPIED:
            return x.copy("K")
        if self.outside is None:
            self.outside = Outside()
        return self.outside.keep(x, self)

    def source_at(self, frame: Any) -> Any:
        """The user's line in this frame, or behind it."""
        if state.source is not None:
            return state.source
        code = frame.f_code
        known = internal.get(code.co_filename)
        began = state.began
        while known and frame.f_back is not None:  # NumPy's functions come by `__array_function__`
            if began is not None and frame is began[0] and began[1] is not None:
                return line_of(began)
            frame = frame.f_back
            code = frame.f_code
            known = internal.get(code.co_filename)
        if known is not False:
            return user_source(4)
        if state.observer is not None:
            code = located(code)
        return code, frame.f_lasti, state.scope

    @property
    def name(self) -> str:
        return self.trace.name

    @property
    def avals(self) -> list[Any]:
        return list(map(aval_of, self.inputs))

    def forget(self) -> None:
        """Drop the values and the rows: no row leads to another, so a tracer that is kept keeps its own value alone."""
        self.pulls = self.numbers = self.kept = self.sources = self.ends = self.inputs = self.primals = self.args = _EMPTY
        self.made = _NOTHING
        self.outside = None

    # -- the short ways: floats, and arrays of one float dtype
    #
    # The row is the one that `record` would have written. What they look at, and in which order, is what costs: so each has the
    # lines that it needs, repeated, and a dictionary of kinds is asked with a small key.

    def _enter(self) -> Any:
        """Warnings of the operation that follows name the user's line, until `restore_warnings`."""
        mode = error_mode()
        if mode is not self.mode:
            self.mode, self.user_line_mode = mode, user_line_mode(mode) or mode
        return enter(self.user_line_mode)

    def _computed(self, primitive: Any, operation: Callable[..., Any], *operands: Any) -> Any:
        mode = error_mode()
        token = enter(self.user_line_mode) if mode is self.mode else self._enter()
        try:
            return operation(*operands)
        finally:
            restore_warnings(token)
            if pending:
                deliver(primitive, operands)

    def binary(self, primitive: Any, operation: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
        """+ - * / ** and the like of floats, or arrays of one float dtype: the traced result; None for everything else."""
        if open_traces != self.open:
            return None
        trace = self.trace
        tx = ty = shape = source = None
        p, q = x, y
        if type(x) is Tracer:
            if x.owner is trace:
                p, tx = x.primal, x.tangent
            elif not x.owner.level:  # a buffer without a traced value
                x = p = x.owner.value(x)
            elif x.owner is not self.lanes:
                return None
        if type(y) is Tracer:
            if y.owner is trace:
                q, ty = y.primal, y.tangent
            elif not y.owner.level:  # a buffer without a traced value
                y = q = y.owner.value(y)
            elif y.owner is not self.lanes:
                return None
        kp: Any = type(p)
        kq: Any = type(q)
        a, b, outer = p, q, False
        if kp is Tracer or kq is Tracer:
            # an operation on lanes alone belongs to the trace around
            if self.open and tx is None and ty is None:
                return None
            outer = True
            if kp is Tracer:
                a, kp = (p.atom.aval, _ndarray) if p.owner is self.lanes and not p.atom.aval.weak else self._seen(p)
            if kq is Tracer:
                b, kq = (q.atom.aval, _ndarray) if q.owner is self.lanes and not q.atom.aval.weak else self._seen(q)
        if kp is _ndarray:
            dtype = a.dtype
            if dtype is not _F64 and dtype is not _F32 or self.here["checked"]:
                return self._with_integer(primitive, operation, x, y)
            kp = "d" if dtype is _F64 else "f"
            if kq is _ndarray:
                if b.dtype is not dtype:
                    return self._with_integer(primitive, operation, x, y)
                kq = kp
                if a.shape != b.shape:
                    shape = shape_of_two(a.shape, b.shape)
                    if shape is None:
                        return None
            elif kq is not float and (kq is not _float64 or dtype is not _F64):
                return self._with_integer(primitive, operation, x, y)
            elif ty is not None:
                if dtype is not _F64:
                    return None
                shape = a.shape
                if kq is float:  # rules ask for its shape
                    if outer:
                        return None
                    b = q = _float64(q)
                    kq = _float64
        elif kq is _ndarray:
            dtype = b.dtype
            if kp is not float and (kp is not _float64 or dtype is not _F64):
                return self._with_integer(primitive, operation, x, y)
            if dtype is not _F64 and dtype is not _F32 or self.here["checked"]:
                return self._with_integer(primitive, operation, x, y)
            kq = "d" if dtype is _F64 else "f"
            if tx is not None:
                if dtype is not _F64:
                    return None
                shape = b.shape
                if kp is float:
                    if outer:
                        return None
                    a = p = _float64(p)
                    kp = _float64
        elif (kp is not _float64 and kp is not float) or (kq is not _float64 and kq is not float):
            return self._with_integer(primitive, operation, x, y)
        if outer:
            self.outer = True
            # an aval stands for lanes: the result has it, or that which both have together
            lanes = self.lanes
            beside = type(p) is Tracer and p.owner is not lanes or type(q) is Tracer and q.owner is not lanes
            if not beside and (type(a) is Aval or type(b) is Aval):
                aval = Aval(shape, dtype) if shape is not None else a if type(a) is Aval else b
                source = self.source_at(_getframe(2))
                out = self.lanes.at_once(self, primitive, operation, (p, q), aval, _NOTHING, source)
            else:  # as the operators do it
                short = None if p is q or operation is operator.pow else (p if type(p) is Tracer else q).owner.short
                out = None if short is None else short.binary(primitive, operation, p, q)
                out = operation(p, q) if out is None else out
            if type(out) is not Tracer:
                return None
        else:
            mode = error_mode()
            token = enter(self.user_line_mode) if mode is self.mode else self._enter()
            try:
                out = operation(p, q)  # or Python's own error
            finally:
                restore_warnings(token)
                if pending:
                    deliver(primitive, (p, q))
        if kp is float and type(out) is complex:  # a negative number to a broken power
            return None
        # which operands are traced, whether they are one row, and one object: the rule may look at that
        numbers: tuple
        if tx is None:
            which, numbers = 1, (ty,)
        elif ty is None:
            which, numbers = 0, (tx,)
        elif tx != ty:
            which, numbers = 2, (tx, ty)
        else:
            which, numbers = 3, (tx,)
        if p is q:
            which += 4
        key = primitive, kp, kq, which, shape is None
        pull: Any = kinds.get(key)
        known = None
        if not pull or pull.part is not None:
            rows = _ROWS[which & 3]
            wide = shape is not None
            pull, known = pull_of(key, primitive, (p, q), rows, [out], {}, None, outer, wide)
            if not pull:
                return self.written(primitive, (x, y), (p, q), (tx, ty), {}, None, shape, out, source)
        # what was broadcast is summed by the shapes, which are kept after the values
        rest: tuple = _EMPTY
        if shape is not None:
            if tx is None:
                rest = shape, b.shape
            elif ty is None or ty == tx:
                rest = shape, a.shape
            else:
                rest = shape, a.shape, b.shape
        about: tuple = primitive, (x, y), _NOTHING, None, shape
        return self.row(pull, numbers, rest, about, out, True, source, (p, q), known)

    def _seen(self, p: Any) -> tuple[Any, Any]:
        """What the short ways look at instead of a traced operand: of lanes, what they say of an array."""
        if p.atom is None:
            p = concrete_value(p)
        if self.open and type(p) is Tracer and p.atom is not None and not p.atom.aval.weak:
            return p.atom.aval, _ndarray
        return p, type(p)

    def _with_integer(self, primitive: Any, operation: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
        """`binary`, where an operand is a Python integer that is a float, too, or NumPy's integers beside doubles."""
        a, b = whole_as_float(x), whole_as_float(y)
        if a is not x or b is not y:
            return self.binary(primitive, operation, a, b)
        # NumPy makes doubles of them, too; of what is remembered the row of that is wanted (remembered.py)
        if self.notes is None and not state.checked:
            if type(y) in _WHOLE and y.dtype.kind in "iub" and type(x) is Tracer and x.dtype is _F64:
                return self.binary(primitive, operation, x, y.astype(_F64))
            if type(x) in _WHOLE and x.dtype.kind in "iub" and type(y) is Tracer and y.dtype is _F64:
                return self.binary(primitive, operation, x.astype(_F64), y)
        return None

    def unary(self, primitive: Any, ufunc: Any, x: Tracer, params: Any = None, bits: Any = None) -> Any:
        """A ufunc of a float, or of an array of floats: the traced result; None for everything else."""
        if open_traces != self.open:
            return None
        p: Any = x.primal
        kind: Any = type(p)
        outer = kind is Tracer
        a = p
        source = None
        if outer:
            a, kind = (p.atom.aval, _ndarray) if p.owner is self.lanes and not p.atom.aval.weak else self._seen(p)
        if kind is _ndarray:
            if a.dtype is not _F64 and a.dtype is not _F32 or self.here["checked"]:
                return None
            kind = "d" if a.dtype is _F64 else "f"
        elif kind is not _float64 and kind is not float:
            return None
        trace = self.trace
        if primitive is square_p and trace.turned and trace.made_by(x, True) is not None:  # see families.py
            return None
        # an outer trace records a ufunc by its own short way
        if outer:
            self.outer = True
            if type(a) is Aval and p.owner is self.lanes:
                source = self.source_at(_getframe(2))
                out = self.lanes.at_once(self, primitive, ufunc, (p,), a, params or {}, source)
                if out is None:
                    return None
            elif type(a) is not Aval and type(ufunc) is np.ufunc and not params:
                out = ufunc(p)
            else:
                short = None if type(a) is Aval else p.owner.short
                out = None if short is None else short.unary(primitive, ufunc, p, params, bits)
                out = bind(primitive, p, **(params or {})) if out is None else out
        else:
            mode = error_mode()
            token = enter(self.user_line_mode) if mode is self.mode else self._enter()
            try:
                out = ufunc(p)
            finally:
                restore_warnings(token)
                if pending:
                    deliver(primitive, (p,))
        key = primitive, kind, bits
        pull: Any = kinds.get(key)
        known = None
        if not pull or pull.part is not None:
            pull = False
            if primitive.emit is not None:
                pull, known = pull_of(key, primitive, (p,), (0,), [out], params or {}, None, outer, False)
            if not pull:
                return self.written(primitive, (x,), (p,), (x.tangent,), params or {}, bits, None, out, source)
        operation = primitive, (x,), params or _NOTHING, bits, None
        return self.row(pull, (x.tangent,), _EMPTY, operation, out, True, source, (p,), known)

    def product(self, x: Any, y: Any) -> Any:
        """The product of float vectors or matrices that fit: the traced result; None for everything else."""
        if open_traces != self.open:
            return None
        trace = self.trace
        tx = ty = None
        p, q = x, y
        if type(x) is Tracer:
            if x.owner is trace:
                p, tx = x.primal, x.tangent
            elif x.owner is not self.lanes:
                return None
        if type(y) is Tracer:
            if y.owner is trace:
                q, ty = y.primal, y.tangent
            elif y.owner is not self.lanes:
                return None
        kp, kq = type(p), type(q)
        a, b = p, q
        if (kp is Tracer or kq is Tracer) and (tx is not None or ty is not None):
            if kp is Tracer:
                a, kp = self._seen(p)
            if kq is Tracer:
                b, kq = self._seen(q)
        if kp is not _ndarray or kq is not _ndarray or self.here["checked"]:
            return None
        dtype = a.dtype
        if dtype is not b.dtype or (dtype is not _F64 and dtype is not _F32):
            return None
        m, n = len(a.shape), len(b.shape)
        if not (0 < m < 3 and 0 < n < 3) or a.shape[-1] != b.shape[0]:
            return None
        plan = product_plan(m)
        # of lanes there are several ways, of which one is NumPy's own; the batching rule knows the others
        if a is not p or b is not q:
            self.outer, out, lanes = True, None, self.lanes
            if type(p) is Tracer and p.owner is not lanes or type(q) is Tracer and q.owner is not lanes:
                out = p @ q
            # NumPy takes lanes of the first operand for rows of it
            elif b is q or q.tangent.step is None:
                aval = Aval((*a.shape[:-1], *b.shape[1:]), dtype)
                out = self.lanes.at_once(self, dot_general_p, _matmul, (p, q), aval, plan[0], self.source_at(_getframe(2)))
            if out is None:
                out = bind(dot_general_p, p, q, **plan[0])
            return self._of_kind(dot_general_p, (x, y), (p, q), (tx, ty), plan[0], plan[1], out)
        out = self._computed(dot_general_p, _matmul, p, q)
        params, bits = plan
        return self._of_kind(dot_general_p, (x, y), (p, q), (tx, ty), params, bits, out)

    def _of_kind(
        self,
        primitive: Any,
        args: tuple,
        primals: tuple,
        numbers: tuple,
        params: dict,
        bits: Any,
        out: Any,
        source: Any = None,
    ) -> Any:
        """The traced result of an operation on arrays of one dtype that has been computed, whose rule asks no question."""
        p: Any = primals[0]
        a: Any = p if type(p) is not Tracer else concrete_value(p) if p.atom is None else p.atom.aval
        shapes: tuple = a.shape, (out if type(out) is not Tracer or out.atom is None else out.atom.aval).shape
        if len(primals) == 1:
            key: tuple = primitive, len(a.shape), a.dtype.char, None if primitive is reshape else bits
        else:
            q: Any = primals[1]
            b: Any = q if type(q) is not Tracer else concrete_value(q) if q.atom is None else q.atom.aval
            t, u = numbers
            shapes = a.shape, b.shape, shapes[1]
            key = primitive, len(a.shape), a.dtype.char, len(b.shape), t is None, u is None, t == u, p is q
        pull: Any = kinds.get(key)
        known = None
        if not pull or pull is SIZED or pull.part is not None:
            rows = (0,) if len(primals) == 1 else _ROWS[1 if t is None else 0 if u is None else 3 if t == u else 2]
            pull, known = pull_of(key, primitive, primals, rows, [out], params, None, Tracer in map(type, primals))
            if not pull:
                return self.written(primitive, args, primals, numbers, params, bits, None, out, source)
        if len(numbers) == 2:
            numbers = (u,) if t is None else (t,) if u is None or t == u else numbers
        own = type(out) is not _ndarray or out.base is None and out is not p
        operation = primitive, args, params, bits, None
        rest: tuple = (shapes, params) if pull.tail else _EMPTY
        return self.row(pull, numbers, rest, operation, out, own, source, primals, known)

    def reduction(self, primitive: Any, x: Tracer, axis: Any, keepdims: bool) -> Any:
        """A sum or an extremum of an array of floats over one axis or all: the traced result; None for everything else."""
        p: Any = x.primal
        kind: Any = type(p)
        a = p
        if kind is Tracer:
            a, kind = (p.atom.aval, _ndarray) if p.owner is self.lanes and not p.atom.aval.weak else self._seen(p)
        if kind is not _ndarray or axis is not None and type(axis) is not int and type(axis) is not tuple:
            return None
        # what NumPy is asked for, and the parameters by their bits, are decided once for a shape
        plan = plans.get((primitive, len(a.shape), axis)) or reduction_plan(primitive, len(a.shape), axis)
        if plan is NO_PLAN or open_traces != self.open or self.here["checked"] or a.dtype is not _F64 and a.dtype is not _F32:
            return None
        run, of_lanes, axes, params, bits = plan
        source = None
        if a is not p and p.owner is not self.lanes:
            self.outer, short = True, p.owner.short
            out = None if short is None else short.reduction(primitive, p, axis, False)
            if out is None:
                out = bind(primitive, p, **params)
        elif a is not p:
            self.outer, source = True, self.source_at(_getframe(2))
            run = run if p.tangent.step is None else of_lanes
            aval = _NUMBERS[a.dtype]
            if len(axes) < len(a.shape):
                aval = Aval(tuple([n for i, n in enumerate(a.shape) if i not in axes]), a.dtype)
            out = self.lanes.at_once(self, primitive, run, (p,), aval, params, source)
            if out is None:
                return None
        else:
            out = self._computed(primitive, run, p)
        result = self._of_kind(primitive, (x,), (p,), (x.tangent,), params, bits, out, source)
        if not keepdims:
            return result
        kept = {"shape": tuple([1 if i in axes else n for i, n in enumerate(a.shape)])}
        if type(out) is not _ndarray:
            return reshape(result, **kept)
        wide, row = out.reshape(kept["shape"]), result.tangent
        return self._of_kind(reshape, (result,), (out,), (row,), kept, params_key(kept), wide, result.source)

    def part(self, x: Tracer, index: Any, basic: tuple, copied: bool = False) -> Any:
        """`x[index]`, whose canonical form is `basic`: the traced result; None if that cannot be. `copied`: it is no view."""
        p: Any = x.primal
        if open_traces != self.open or self.here["checked"] and self.notes is None:
            return None
        if x.owner is not self.trace and not copied or type(p) is not _ndarray or p.dtype.isbuiltin != 1:
            return None
        out = p[index]
        own = True
        if type(out) is _ndarray:
            own = copied
            if copied:
                out = out.copy("K")
        n: Any = x.tangent  # the number of a row
        operation = basic_index_p, (x,), {"index": basic}, None, None
        return self.row(READ, (n,), (basic, p.shape, p.dtype), operation, out, own)


_ROWS = (0, None), (None, 0), (0, 1), (0, 0)


def _pattern(primals: Sequence[Any], numbers: Sequence[Any]) -> tuple:
    """(which operand each is one object with, which row each has, and the numbers of these): rules look whether two are one."""
    if len(primals) == 2:
        t, u = numbers
        alike = _ALONE * 2 if primals[0] is primals[1] else (0, 1)
        if t is None or u is None:
            return (alike, _ROWS[1], (u,)) if t is None else (alike, _ROWS[0], (t,))
        return (alike, _ROWS[3], (t,)) if t == u else (alike, _ROWS[2], (t, u))
    first: dict[int, int] = {}
    places: dict[Any, Any] = {None: None}
    alike, rows = [], []
    for i, p in enumerate(primals):
        alike.append(first.setdefault(id(p), i))
        rows.append(places.setdefault(numbers[i], len(places) - 1))
    return tuple(alike), tuple(rows), tuple(places)[1:]


# -- what has no kind


class ByRule:
    """One operation whose rule runs at once, on `tangent(x)` of its operands; what was recorded of these is its pull."""

    __slots__ = ("tape", "recording", "rows", "tangents", "bound")

    def __init__(self, tape: Any, bound: bool = False):
        self.tape = tape
        self.bound = bound  # do outer traces know the results?
        self.recording = partial_eval.TangentTrace(tape.trace.name, protect=tape)
        self.rows: list[int] = []  # of the operands
        self.tangents: list[Tracer] = []

    def tangent(self, x: Tracer) -> Tracer:
        row: Any = x.tangent
        for known, t in zip(self.rows, self.tangents):
            if known == row:
                return t
        self.rows.append(row)
        self.tangents.append(self.recording.new_input(aval_of(x.primal).update()))
        return self.tangents[-1]

    def rows_or_tangents(
        self,
        trace: Any,
        primitive: Any,
        args: Sequence[Any],
        primals: Sequence[Any],
        params: dict,
        shape: Any,
        outs: Sequence[Any],
        touts: Sequence[Any],
        source: Any,
    ) -> tuple[list[Any] | None, Sequence[Any]]:
        """(traced results where there are tangents, these); (None, tangents by the rules) if no row can say what they are."""
        tape, there = self.tape, [i for i, t in enumerate(touts) if t is not None]
        if tape.notes is not None:  # remembered.py knows other rows alone
            tape.notes["looked"] = True
        for i in there:
            t = touts[i]
            if type(t) is not Tracer or t.owner is not self.recording or t.aval != aval_of(outs[i]).update():
                trace.give_up(tape)
                return None, self._settled(touts, [trace.settled[n] for n in self.rows])
        if not there:
            self.recording.closed = True
            return [None] * len(outs), touts
        rest, kept = self.recording.jaxpr([touts[i] for i in there])
        self.recording.closed = True
        rest, kept = partial_eval.drop_unused_residuals(prune(rest), kept)
        pull = derived_pulls.ByProgram(rest, len(kept), there)
        pull.plain = primitive.layout is not None
        tape.outer = tape.outer or Tracer in map(type, kept)
        operation = primitive, args, params, None, shape
        rows = tape.rows(pull, tuple(self.rows), tuple(kept), operation, outs, source, primals)
        return rows, touts

    def _settled(self, touts: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """The tangents of the results, recorded where those of the operands, which are given, have been."""
        there = [i for i, t in enumerate(touts) if t is not None]
        rest, kept = self.recording.jaxpr([touts[i] for i in there])
        self.recording.closed = True
        found = dict(zip(there, interpret.eval_jaxpr(rest, [*kept, *tangents])))
        return [found.get(i) for i in range(len(touts))]
