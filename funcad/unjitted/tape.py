"""The short ways of a tape: operators, ufuncs, products and reductions of operands that need no conversion.

Idea: most operations of a gradient are of few kinds, so these look at the operands once and write the row themselves, with
lines repeated that cost less than a call. Invariant: the row is the one that `record` would have written; None means that they
did not see at a glance that it can be, and whoever asked goes the general way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.host.devices import deliver, enter, error_mode, pending, restore_warnings, user_line_mode
from funcad.host.locks import SMALL
from funcad.host.where import open_traces, state, user_source
from funcad.ir.tracer import Tracer
from funcad.primitives.arithmetic import square_p
from funcad.primitives.basic_indexing import basic_index_p
from funcad.primitives.comparison import select
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.shape import reshape
from funcad.unjitted.large_rows import NO_VALUE
from funcad.unjitted.tape_plans import NO_PLAN, plans, product_plan, reduction_plan, small_shape
from funcad.unjitted.tape_rows import Rows
from funcad.unjitted.tape_steps import WIDE

_SAME = (None, 0)
_EXACT = 2**53  # integers up to here are floats
_getframe = sys._getframe
_new: Any = object.__new__
_float64, _matmul, _ndarray = np.float64, np.matmul, np.ndarray
_F64, _F32 = np.dtype(np.float64), np.dtype(np.float32)


class Tape(Rows):
    """Rows of one un-jitted gradient that a following trace runs."""

    __slots__ = ()

    def _enter(self) -> Any:
        """Warnings of the operation that follows name the user's line, until `restore_warnings`."""
        mode = error_mode()
        if mode is not self.mode:
            self.mode, self.user_line_mode = mode, user_line_mode(mode)
        return None if self.user_line_mode is None else enter(self.user_line_mode)

    def binary(self, primitive: Any, operation: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
        """+ - * / ** and the like of floats, or arrays of one float dtype: the traced result; None for everything else."""
        held = self.held
        if open_traces or len(held) >= self.limit:
            return None
        trace = self.trace
        tx = ty = shape = None
        p, q = x, y
        if type(x) is Tracer:
            if x.owner is not trace:
                return None
            p, tx = x.primal, x.tangent
        if type(y) is Tracer:
            if y.owner is not trace:
                return None
            q, ty = y.primal, y.tangent
        kp, kq = type(p), type(q)
        if kp is _float64 and (kq is _float64 or kq is float) or kp is float and kq is _float64:
            mode = error_mode()
            token = enter(self.user_line_mode) if mode is self.mode and self.user_line_mode is not None else self._enter()
            try:
                out = operation(p, q)
            finally:
                if token is not None:
                    restore_warnings(token)
                    if pending:
                        deliver(primitive, (p, q))
            kind: Any = _float64
        elif kp is float and kq is float:
            out = operation(p, q)  # or Python's own error
            kind = type(out)
            if kind is complex:  # a negative number to a broken power
                return None
        else:
            large = False
            if kp is np.ndarray and kq is np.ndarray:
                dtype = p.dtype
                if q.dtype is not dtype:
                    return None
                shape = p.shape
                if shape != q.shape:
                    shape = small_shape(shape, q.shape)
                    if shape is None:
                        return None
                else:
                    shape = None
                    large = p.nbytes > SMALL
            else:
                array, number, t = (p, kq, ty) if kp is np.ndarray else (q, kp, tx)
                if type(array) is not np.ndarray:
                    return self._with_integer(primitive, operation, x, y)
                large = array.nbytes > SMALL
                dtype = array.dtype
                if number is not float and (number is not _float64 or dtype is not _F64):
                    return self._with_integer(primitive, operation, x, y)
                shape = None
                if t is not None:
                    if dtype is not _F64:
                        return None
                    shape = array.shape
                    if number is float:  # rules ask for its shape
                        p, q = (p, _float64(q)) if array is p else (_float64(p), q)
            if dtype is not _F64 and dtype is not _F32 or large and (self.lifted or state.checked):
                return None
            mode = error_mode()
            token = enter(self.user_line_mode) if mode is self.mode and self.user_line_mode is not None else self._enter()
            try:
                out = operation(p, q)
            finally:
                if token is not None:
                    restore_warnings(token)
                    if pending:
                        deliver(primitive, (p, q))
            if large:
                return self._of_large(primitive, (x, y), (p, q), (tx, ty), {}, None, shape, out)
            return self._row(primitive, x, y, p, q, tx, ty, None, None, shape, out, np.ndarray)
        # as `_row`, for scalars, without a call
        values = self.values
        a: Any
        b: Any
        if tx is None:
            a = kp
            values.append(p)
        elif held[tx] is p:
            a = tx
        else:
            a = tx, kp
            values.append(p)
        if ty is None:
            if q is p and self.traced is None:
                b = _SAME
            else:
                b = kq
                values.append(q)
        elif held[ty] is q:
            b = ty
        elif q is p and (self.traced is None or tx == ty):
            b = ty, 0
        else:
            b = ty, kq
            values.append(q)
        source = self.source_at(_getframe(2))
        result = self.new(Tracer)
        result.owner = trace
        result.primal = out
        result.tangent = len(held)
        held.append(out)
        self.places.append(len(values))
        self.sources.append(source)
        steps = self.steps
        steps += (primitive, None, None, a, b, kind)
        values.append(out)
        result.source = source
        result.atom = result._aval = result.box = None
        return result

    def _of_large(
        self, primitive: Any, args: tuple, primals: tuple, rows: tuple, params: dict, bits: Any, shape: Any, out: Any
    ) -> Any:
        """The traced result of an operation on a large array that has been computed."""
        if primitive.turns:
            self.trace.turned = True
        found = self.large_row(primitive, args, primals, rows, params, bits, shape, out, user_source(4))
        return found if type(found) is Tracer else self.trace.record(primitive, args, params, shape, (out,))

    def _with_integer(self, primitive: Any, operation: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
        """`binary`, where an operand is a Python integer that is a float, too."""
        if type(y) is int and type(x) is Tracer and -_EXACT <= y <= _EXACT:
            return self.binary(primitive, operation, x, float(y))
        if type(x) is int and type(y) is Tracer and -_EXACT <= x <= _EXACT:
            return self.binary(primitive, operation, float(x), y)
        return None

    def product(self, x: Any, y: Any) -> Any:
        """The product of float vectors or matrices that fit, traced ones small: the traced result; None for everything else."""
        if open_traces or len(self.held) >= self.limit:
            return None
        trace = self.trace
        tx = ty = None
        p, q = x, y
        if type(x) is Tracer:
            if x.owner is not trace:
                return None
            p, tx = x.primal, x.tangent
        if type(y) is Tracer:
            if y.owner is not trace:
                return None
            q, ty = y.primal, y.tangent
        if type(p) is not _ndarray or type(q) is not _ndarray:
            return None
        dtype = p.dtype
        if dtype is not q.dtype or (dtype is not _F64 and dtype is not _F32):
            return None
        if p.nbytes > SMALL and tx is not None or q.nbytes > SMALL and ty is not None:
            return None
        plan = product_plan(p.shape, q.shape)
        if plan is None:
            return None
        primitive = dot_general_p
        mode = error_mode()
        token = enter(self.user_line_mode) if mode is self.mode and self.user_line_mode is not None else self._enter()
        try:
            out = _matmul(p, q)
        finally:
            if token is not None:
                restore_warnings(token)
                if pending:
                    deliver(primitive, (p, q))
        params, bits = plan
        return self._row(primitive, x, y, p, q, tx, ty, params, bits, None, out, type(out))

    def reduction(self, primitive: Any, x: Tracer, axis: Any, keepdims: bool) -> Any:
        """A sum or an extremum of an array of floats over one axis or all: the traced result; None for everything else."""
        p = x.primal
        if type(p) is not _ndarray or axis is not None and type(axis) is not int and type(axis) is not tuple:
            return None
        plan = plans.get((primitive, p.shape, axis)) or reduction_plan(primitive, p.shape, axis)
        if plan is NO_PLAN or open_traces or len(self.held) + 1 >= self.limit:
            return None
        large = p.nbytes > SMALL
        if (p.dtype is not _F64 and p.dtype is not _F32) or large and (self.lifted or state.checked):
            return None
        run, params, bits, kept, kept_bits = plan
        mode = error_mode()
        token = enter(self.user_line_mode) if mode is self.mode and self.user_line_mode is not None else self._enter()
        try:
            out = run(p)
        finally:
            if token is not None:
                restore_warnings(token)
                if pending:
                    deliver(primitive, (p,))
        if large:
            t = self._of_large(primitive, (x,), (p,), (x.tangent,), params, bits, None, out)
        else:
            t = self._row(primitive, x, None, p, None, x.tangent, None, params, bits, None, out, type(out), True)
        if not keepdims:
            return t
        if large or type(out) is not np.ndarray:
            return reshape(t, **kept)
        wide, row, source = out.reshape(kept["shape"]), t.tangent, t.source
        return self._row(reshape, t, None, out, None, row, None, kept, kept_bits, None, wide, _ndarray, True, source)

    def unary(self, primitive: Any, ufunc: Any, x: Tracer, params: Any = None, bits: Any = None) -> Any:
        """A ufunc of a float, or of an array of floats: the traced result; None for everything else."""
        if open_traces or len(self.held) >= self.limit:
            return None
        p = x.primal
        kind, large = type(p), False
        if kind is np.ndarray:
            if p.dtype is not _F64 and p.dtype is not _F32:
                return None
            large = p.nbytes > SMALL
            if large and (self.lifted or state.checked):
                return None
        elif kind is not np.float64 and kind is not float:
            return None
        if primitive is square_p and self.trace.turned and self.trace.made_by(x, True) is not None:  # see families.py
            return None
        mode = error_mode()
        token = enter(self.user_line_mode) if mode is self.mode and self.user_line_mode is not None else self._enter()
        try:
            out = ufunc(p)
        finally:
            if token is not None:
                restore_warnings(token)
                if pending:
                    deliver(primitive, (p,))
        if large:
            return self._of_large(primitive, (x,), (p,), (x.tangent,), params or {}, bits, None, out)
        return self._row(primitive, x, None, p, None, x.tangent, None, params, bits, None, out, type(out), True)

    def moved(self, x: Tracer, plan: tuple, index: Any = None) -> Any:
        """What only moves the elements of an array, by a `moving_plan` for its shape or by an index; None for all else.

        An index that is a number is an operand of the row alone: the plan knows it.
        """
        p = x.primal
        if open_traces or not p.dtype.isnative or len(self.held) >= self.limit:
            return None
        primitive, run, params, bits = plan
        if type(index) is np.ndarray and index.size * p.nbytes > SMALL * len(p):
            return None
        out = run(p, index) if type(index) is np.ndarray else run(p)
        if p.nbytes > SMALL:
            return None
        t = x.tangent
        return self._row(primitive, x, index, p, index, t, None, params, bits, None, out, type(out), index is None)

    def part(self, x: Tracer, index: Any, basic: tuple, copied: bool = False) -> Any:
        """`x[index]`, whose canonical form is `basic`: the traced result; None if that cannot be. `copied`: it is no view."""
        p, held = x.primal, self.held
        n = len(held)
        if open_traces or n >= self.limit and not self.has_room(1) or not p.dtype.isnative:
            return None
        out = p[index]
        kind = type(out)
        if kind is _ndarray:
            if out.nbytes > SMALL:
                return None
            if copied:
                out = out.copy("K")
        a: Any = x.tangent  # the number of a row
        values, places = self.values, self.places
        if copied and self.traced is not None:  # tracers of outer traces stand behind its values
            return None
        if self.traced is not None or self.notes is not None or values[places[a]] is not p:
            return self._row(basic_index_p, x, None, p, None, a, None, None, basic, None, out, kind, True)
        held.append(out if copied or kind is not _ndarray else NO_VALUE)
        places.append(len(values))
        source = self.source_at(_getframe(3))
        self.sources.append(source)
        steps = self.steps
        steps += (basic_index_p, basic, None, a, None, kind)
        values.append(out)
        result: Any = _new(Tracer)
        result.owner = self.trace
        result.primal = out
        result.tangent = n
        result.source = source
        result.atom = result._aval = result.box = None
        return result

    def choice(self, mask: np.ndarray, x: Any, y: Any) -> Any:
        """`np.where` of a mask and float64s of its shape, or numbers that are not traced; None for everything else."""
        shape = mask.shape
        if open_traces or 8 * mask.size > SMALL or len(self.held) >= self.limit or mask.dtype.char != "?":
            return None
        primals: list[Any] = [mask]
        operands: list[Any] = [(None, shape, "?")]
        new = [self._outside(mask, mask, select, NO_VALUE)]
        for a in (x, y):
            kind, p, number = type(a), a, None
            if kind is Tracer:
                p, number = a.primal, a.tangent
                if a.owner is not self.trace or type(p) is not _ndarray or p is primals[-1]:
                    return None
            if type(p) is _ndarray:
                if p.dtype is not _F64 or p.shape != shape or p is primals[-1]:
                    return None
                if number is not None and self.held[number] is p:
                    operands.append(number)
                else:
                    operands.append((number, shape, "d"))
                    new.append(self._outside(p, a, select, NO_VALUE))
            elif kind is float or kind is _float64:
                operands.append(kind)
                new.append(p)
            else:
                return None
            primals.append(p)
        out = np.where(*primals)
        self.values += new
        return self._written((select, None, None, tuple(operands), WIDE, _ndarray), None, out, user_source(4), True)
