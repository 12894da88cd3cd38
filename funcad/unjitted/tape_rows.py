"""The tape: un-jitted reverse mode writes down what was done, and asks what it means for the derivative later.

Idea: a gradient in a loop does the same operations at every step. So the following trace runs the primal and adds a row to
the tape: primitive, operands, result. At the end the rows' key finds the backward program of an earlier call, compiled, which
computes everything else: no jvp rule runs, nothing is recorded. If there is none, the rules of the rows run, in order, on the
values that the rows hold, as if they had run at once (`flush` of tape_ends.py); that happens too when an operation comes that
has no row, and from then on rules run at once.

Rows are columns, so that nothing is made for each that Python's garbage collector would look at, again and again.

Invariants: the tangent of a result is the number of its row; `flush` leaves in the trace the tangents that the rules gave
(`tangent_of` reads them). An array that the user can still write is copied when the derivative needs
its values, at the moment of use, once if it has not changed. Of operations on arrays above 64 KiB rows hold no operands and
no results, but what their rules keep (split_rules.py), so that no large intermediate lives longer than its residual would;
large arrays from outside are locked. The key tells apart all that a rule may look at: primitives, parameters by their bits,
wiring, types, shapes and dtypes, but no values: only primitives whose rules give a tangent whatever the values are have rows.
Traps: two operands that are one object are one input
of the program, since rules look (`x * x`); but two, if one of them alone belongs to the tape and there are outer tangents
(nested.py).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from funcad.host.devices import compute
from funcad.host.locks import SMALL
from funcad.host.where import internal, state, tracing, user_source
from funcad.ir.aval import SCALAR_AVALS, aval_of
from funcad.ir.trace import next_level
from funcad.ir.tracer import Tracer, concrete_value, snapshot
from funcad.passes.subprograms import params_key
from funcad.primitives.arithmetic import add, integer_pow_p, mul, sub
from funcad.unjitted.large_rows import NO_VALUE, LargeRows
from funcad.unjitted.nested import can_lift
from funcad.unjitted.outside import COPIED, Outside
from funcad.unjitted.split_rules import stand_in
from funcad.unjitted.structural import forgetting
from funcad.unjitted.tape_plans import BILINEAR, linear
from funcad.unjitted.tape_program import gives_tangent
from funcad.unjitted.tape_steps import INNER, RESULT, in_step

MAX_ROWS = 12_000  # a program for more would fill the table of programs; chunks of more have their own (chunks.py)
LARGEST = 1 << 20  # bytes of an array of which parts are read and written by rows: chunks pass on the cotangent of all of it
MAX_BYTES = 64 << 20  # of arrays, beyond which there are no more rows than that: rules may keep less
MAX_LIFTED = 1 << 20  # bytes of large results within another derivative: beyond, rules keep what they need of each
_exceeding: set[tuple] = set()  # kinds of inputs of recordings that had more
_SILENT = frozenset([add, sub, mul])
FLOATING = frozenset([kind for kind, aval in SCALAR_AVALS.items() if aval.dtype.kind in "fc"])
_EMPTY: Any = ()
_NOTHING: Mapping[int, Any] = {}
forgetting(_exceeding.clear)
_new_object: Any = object.__new__
_getframe, _ndarray = sys._getframe, np.ndarray


class Rows(LargeRows):
    """Rows of one un-jitted gradient that `trace` runs."""

    __slots__ = (
        *("trace", "level", "protector", "first", "held", "places", "sources", "params", "made", "key", "steps", "values"),
        "found",
        *("mode", "user_line_mode", "lifted", "traced", "new", "outs", "notes", "outside", "limit", "weighed", "bytes"),
        *("apart", "room", "lines"),
    )

    def __init__(self, trace: Any, protector: Any, primals: Sequence[Any], differentiated: Sequence[bool]):
        self.trace = trace
        self.level = next_level()  # of the trace of the tangent program, if one is needed
        self.protector = protector
        # Of each input and then each row, by its number: its result if nobody can change it, where that is in `values`; the
        # sources of the rows; of some rows the parameters, and what made a large value whose square is known. A step says the
        # same in terms that can be a part of the key, `STEP` elements for each row: primitive, bits of the parameters, shape,
        # first operand, second, type of the result. An operand is the number of its row if it is that row's result; (number or
        # None, i) if it is the i-th operand again; else what comes next in `values`: (number or None, shape, dtype) of an
        # array, (number, type) or type of a scalar. See `in_step` for less than one, or more than two.
        self.held: Any = []
        self.places: Any = []
        self.sources: Any = []
        self.params: Any = {}
        self.made: Any = _NOTHING
        self.values: Any = []  # inputs of the backward program: inputs, operands from outside or what is kept, results
        self.steps: Any = []
        self.key: list[Any] = []  # of the inputs; with the steps, and the ends, it is the key of the program
        self.found: Any = None  # the compiled program, or the recording cut into chunks
        self.room = MAX_LIFTED
        self.lines: Any = {}  # offset in a code object -> the last source there: a tuple for each line, not for each row
        self.weighed = self.bytes = 0  # how many values, and their bytes
        self.mode = self.user_line_mode = None  # of warnings, see host/devices.py
        self.outside: Outside | None = None
        self.apart: Any = ()  # or a dictionary: the rows of operations that are known to this call alone (apart.py)
        self.notes: Any = None  # of the operands that rows were asked for with, see remembered.py
        self.lifted: Mapping[int, Tracer] = _NOTHING  # place in `values` -> the outer tracer whose value it is (see nested.py)
        self.traced: list[Tracer] | None = None  # the tracers made since there is one, by `new`
        self.new: Any = _new_object
        self.outs: Sequence[Any] = ()  # then: the tracers that the function returned, None for other results
        for p, d in zip(primals, differentiated):
            if d:
                n = len(self.values)
                if type(p) is Tracer:
                    p = self._lift(p, n)
                held = p
                if type(p) is _ndarray:
                    held = NO_VALUE
                    self.key += (p.shape, p.dtype.char)
                else:
                    aval = SCALAR_AVALS.get(type(p)) or aval_of(p)
                    self.key += (aval.shape, aval.dtype.char)
                self.held.append(held)
                self.places.append(n)
                self.values.append(p)
        self.first = len(self.held)
        self.limit = self.first + MAX_ROWS

    def record(self, primitive: Any, args: Sequence[Any], params: dict, shape: Any, known: tuple | None = None) -> Any:
        """The traced result; None if it has no row; `(out,)` if it was computed, `(out, None)` if it has no tangent.

        `known` is `(out,)` if the result was computed before.
        """
        if len(self.held) >= self.limit and not self.has_room(1):
            return None
        trace = self.trace
        x = p = args[0]
        tx = ty = y = q = None
        if type(x) is Tracer:
            if x.owner is not trace:
                return self._many(primitive, args, params, shape, known)
            p, tx = x.primal, x.tangent
        if type(p) is _ndarray:
            if p.nbytes > SMALL or not p.dtype.isnative:
                return self.large(primitive, args, params, shape, known)
        elif type(p) not in SCALAR_AVALS:
            return None
        unary = len(args) == 1
        if len(args) > 2 or primitive.multiple:
            return self._many(primitive, args, params, shape, known)
        if not unary:
            y = q = args[1]
            if type(y) is Tracer:
                if y.owner is not trace:
                    return self._many(primitive, args, params, shape, known)
                q, ty = y.primal, y.tangent
            if type(q) is _ndarray:
                if q.nbytes > SMALL or not q.dtype.isnative:
                    return self.large(primitive, args, params, shape, known)
            elif type(q) not in SCALAR_AVALS:
                return None
        bits = None
        if params:
            bits = params_key(params)
            if bits is None or primitive is integer_pow_p and not params["n"]:  # x**0 has no tangent
                return None
        if primitive.turns:
            trace.turned = True
        if known is not None:
            (out,) = known
        elif type(p) is float and type(q) is float and primitive in _SILENT:
            out = primitive.impl(np, p, q)
        else:
            out = compute(primitive, (p,) if unary else (p, q), params)
        kind = type(out)
        if kind is np.ndarray and out.nbytes > SMALL:
            return self.large(primitive, args, params, shape, (out,))
        if out.dtype.kind not in "fc" if kind is np.ndarray else kind not in FLOATING:
            return (out,)
        gives: Any = primitive.calm or linear(primitive)
        if not gives:
            tangents = [tx] if unary else [tx, ty]
            gives = gives_tangent(primitive, (p,) if unary else (p, q), tangents, out, params, bits, shape)
        if not gives:
            return (out,) if gives is False else (out, None)
        return self._row(primitive, x, y, p, q, tx, ty, params, bits, shape, out, kind, unary)

    def _row(
        self, primitive: Any, x: Any, y: Any, p: Any, q: Any, tx: Any, ty: Any, params: dict | None,
        bits: Any, shape: Any, out: Any, kind: Any, unary: bool = False, source: Any = None,
    ) -> Any:  # fmt: skip
        """The traced result; x and y are the operands as they came, p and q their primals."""
        values, held = self.values, self.held
        a: Any
        b: Any = None
        if tx is not None and held[tx] is p:
            a = tx
        elif type(p) is _ndarray:
            if tx is not None and values[self.places[tx]] is p and linear(primitive):  # nobody asks what is in it
                a = tx
            else:
                a = (tx, p.shape, p.dtype.char)
                values.append(self._outside(p, x, primitive, ty))
        else:
            a = type(p) if tx is None else (tx, type(p))
            values.append(p)
        if not unary:
            if ty is not None and held[ty] is q:
                b = ty
            elif q is p and (self.traced is None or tx == ty):
                b = (ty, 0)
            elif type(q) is _ndarray:
                b = (ty, q.shape, q.dtype.char)
                values.append(self._outside(q, y, primitive, tx))
            else:
                b = type(q) if ty is None else (ty, type(q))
                values.append(q)
        n = len(held)
        held.append(out if kind is not _ndarray or out.base is None and out is not p else NO_VALUE)
        self.places.append(len(values))
        source = source or self.source_at(_getframe(3))
        self.sources.append(source)
        if params:
            self.params[n] = params
        steps = self.steps
        steps += (primitive, bits, shape, a, b, kind)
        values.append(out)
        result = self.new(Tracer)
        result.owner = self.trace
        result.primal = out
        result.tangent = n
        result.source = source
        result.atom = result._aval = result.box = None
        return result

    def source_at(self, frame: Any) -> Any:
        """The user's line in this frame, or behind it."""
        code = frame.f_code
        known = internal.get(code.co_filename)
        while known and frame.f_back is not None:  # NumPy's functions come by `__array_function__`
            frame = frame.f_back
            code = frame.f_code
            known = internal.get(code.co_filename)
        if known is not False or state.source is not None:
            return user_source(4)
        if state.observer is not None:
            code = tracing.code_of(code)
        place, scope = frame.f_lasti, state.scope
        found = self.lines.get(place)
        if found is None or found[0] is not code or found[2] is not scope:
            found = self.lines[place] = code, place, scope
        return found

    def _many(self, primitive: Any, args: Sequence[Any], params: dict, shape: Any, known: tuple | None) -> Any:
        """`record` of more than two operands, of several results, or of operands that belong to outer traces.

        Where these are, rows hold large arrays as they do small ones, since the tangent of what a rule keeps is derived from
        them; not more than `MAX_LIFTED` bytes.
        """
        primals, tangents = [], []
        bits = None
        if params:
            bits = params_key(params)
            if bits is None:
                return None
        lifts = self.lifts(args)
        for p in args:
            t = None
            if type(p) is Tracer:
                if p.owner is self.trace:
                    p, t = p.primal, p.tangent
                elif can_lift(p):
                    p = concrete_value(p)
                else:
                    return None
            if type(p) is not np.ndarray:
                if type(p) not in SCALAR_AVALS:
                    return known
            elif not p.dtype.isnative or p.nbytes > SMALL and not (lifts and self._has_room_for(p)):
                return known if lifts else self.large(primitive, args, params, shape, known)
            primals.append(p)
            tangents.append(t)
        if primitive.turns:
            self.trace.turned = True
        out = compute(primitive, primals, params) if known is None else known[0]
        outs = out if primitive.multiple else [out]
        for o in outs:
            if type(o) is np.ndarray and o.nbytes > SMALL:
                if not lifts:
                    return self.large(primitive, args, params, shape, (out,))
                if not self._has_room_for(o):
                    return (out,)
                self.room -= o.nbytes
            if o.dtype.kind not in "fc" if type(o) is np.ndarray else type(o) not in FLOATING:
                return (out,)
        outer = [t is None and type(x) is Tracer for x, t in zip(args, tangents)]
        gives = linear(primitive) or gives_tangent(primitive, primals, tangents, out, params, bits, shape)
        if not gives:
            return (out,) if gives is False or any(outer) else (out, None)
        if not (primitive.multiple or any(outer)):
            return self.wide_row(primitive, args, primals, tangents, params, bits, shape, out, user_source(4))
        step = (primitive, bits, shape, *self._operands(primitive, args, primals, tangents))
        found = self._several(step, outs, gives if primitive.multiple else None, params, primals)
        return found if primitive.multiple else found[0]

    def _has_room_for(self, x: np.ndarray) -> bool:
        """May a row within another derivative hold this large array? Where they were too large once, no row is tried again."""
        key = tuple(self.key)
        if x.nbytes > self.room:
            if len(_exceeding) > 1000:
                _exceeding.clear()
            _exceeding.add(key)
        return key not in _exceeding

    def lifts(self, args: Sequence[Any]) -> bool:
        """Have outer traces a part in the values, or in these operands?"""
        return bool(self.lifted) or any([type(x) is Tracer and x.owner is not self.trace for x in args])

    def wide_row(
        self, primitive: Any, args: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any], params: dict | None,
        bits: bytes | None, shape: Any, out: Any, source: Any,
    ) -> Any:  # fmt: skip
        """`_row` of any number of operands."""
        kind = type(out)
        own = kind is not _ndarray or out.base is None and not any([out is p for p in primals])
        step = primitive, bits, shape, *self._operands(primitive, args, primals, tangents), kind
        return self._written(step, params, out, source, own)

    def _written(self, step: tuple, params: dict | None, out: Any, source: Any, own: bool) -> Any:
        """The traced result of a step; `own`: nobody can change it."""
        self.values.append(out)
        return self.row(step, params, out, out if own else NO_VALUE, len(self.values) - 1, source)

    def row(self, step: tuple, params: dict | None, out: Any, held: Any, place: int, source: Any) -> Tracer:
        """The traced result of a step, whose value has been written down."""
        n = len(self.held)
        self.held.append(held)
        self.places.append(place)
        self.sources.append(source)
        if params:
            self.params[n] = params
        self.steps += step
        traced: Tracer = self.new(Tracer)
        traced.__init__(self.trace, None, out, n, source)  # type: ignore[misc]
        return traced

    def _operands(
        self, primitive: Any, args: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[Any, Any]:
        """What a step says of its operands, which are written down if no row has them."""
        operands: list[Any] = []
        new: list[Any] = []
        first: dict[int, int] = {}
        for i, p in enumerate(primals):
            t, given = tangents[i], args[i]
            j = first.setdefault(id(p), i)
            if t is not None and self.held[t] is p:
                operands.append(t)
                continue
            outer = t is None and type(given) is Tracer
            if j != i and (outer or self.traced is not None):
                j = next((k for k in range(j, i) if primals[k] is p and args[k] is given), i)
            if j != i:
                operands.append((t, j))
                continue
            if type(p) is _ndarray:
                operands.append((t, p.shape, p.dtype.char))
                new.append(self._outside(p, given, primitive, NO_VALUE))
            else:
                operands.append(type(p) if t is None else (t, type(p)))
                new.append(p)
            if outer:
                self._lift(given, len(self.values) + len(new) - 1)
        self.values += new
        return in_step(operands)

    def call(self, inner: Any, numbers: Sequence[int], values: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """The traced results of an inner gradient, see nested.py: `numbers` are those of the rows that it depends on."""
        if not inner.there:
            return list(results)
        self.values += values
        return self._several((INNER, inner, None, *in_step(numbers)), results, inner.there, {}, ())

    def _several(self, step: tuple, outs: Sequence[Any], which: Any, params: dict, operands: Sequence[Any]) -> list[Any]:
        """The results of an operation, those traced that have tangents, with a row each; `which` is None if it has one."""
        source = user_source(5)
        kind: Any = type(outs[0]) if which is None else (tuple(map(type, outs)), which)
        start, results = len(self.values), list(outs)
        self.values += outs
        for i in which or (0,):
            out = outs[i]
            held = (
                out if type(out) is not _ndarray or out.base is None and not any([out is p for p in operands]) else NO_VALUE
            )
            results[i] = self.row((*step, kind), params, out, held, start + i, source)
            step = (RESULT, i, None, *in_step(()))
        return results

    def has_room(self, n: int) -> bool:
        """Can it take n more rows? Each time that there are too many, it looks how large their arrays are."""
        if len(self.held) + n > self.limit:
            self.bytes += sum({id(v): v.nbytes for v in self.values[self.weighed :] if type(v) is _ndarray}.values())
            self.weighed = len(self.values)
            if self.bytes > MAX_BYTES:
                return False
            self.limit += MAX_ROWS
        return True

    def _lift(self, x: Tracer, place: int) -> Any:
        """The array or number behind a tracer of an outer trace, which is written down at this place."""
        if self.traced is None:
            self.traced = []
            self.new = self._new_known
        self.lifted = {**self.lifted, place: snapshot(x)}
        return concrete_value(x)

    def _new_known(self, kind: Any) -> Tracer:
        assert self.traced is not None
        self.traced.append(_new_object(kind))
        return self.traced[-1]

    def _outside(self, x: np.ndarray, given: Any, primitive: Any, other: Any) -> np.ndarray:
        """An array that no row made, as the derivative may keep it."""
        if primitive is not None and linear(primitive):
            return stand_in(x) if x.nbytes > SMALL else x
        if primitive is not None and other is None and primitive in BILINEAR:
            return x
        mine = type(given) is Tracer and given.owner is self.trace and given.tangent >= self.first  # ... < first: an input
        if mine and not self.protector.is_users(x):
            return x
        if x.nbytes < COPIED:
            return x.copy("K")
        if self.outside is None:
            self.outside = Outside(self.protector)
        return self.outside.keep(x)

    def forget(self) -> None:
        """Drop the values and the rows: no row leads to another, so a tracer that is kept keeps its own value alone."""
        self.held = self.places = self.sources = self.steps = self.values = _EMPTY
        self.params = self.made = self.lines = _NOTHING
        self.outside = None
        self.lifted = _NOTHING
        self.traced = None
        self.new = _new_object  # it led to the tape itself
