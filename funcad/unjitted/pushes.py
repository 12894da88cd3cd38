"""Pushes: the short ways of un-jitted forward mode, for floats and arrays of doubles that nobody else traces.

Idea: the common operations are looked at once and computed by NumPy, and the rule of the primitive gives the tangent at once,
without a trace in between. The rule is the primitive's own, read again as a function of numbers (`plainly`): where its text
names a primitive, that one's implementation for NumPy stands. So nothing is derived, and what is computed is what the rule
would have computed by itself, bit by bit. As of a tape, the short ways return None where they did not see at a glance what is
to be done, and whoever asked goes the general way, `FollowingTrace.by_rule`.

Invariants: they take operations whose rules begin no mask, and tangents without one, outside all other traces; the mode of
warnings is the user's while the operation runs, and silent while its rule does. Trap: a rule looks whether two operands are one
(`x * x`), so operands and tangents are handed on as they are; of broadcast operands only rules that are products and sums of
them are asked, which need no copies.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import CellType, CodeType, FunctionType
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.host.devices import deliver, pending, restore_warnings, suppress_warnings, warn_at_user_line
from funcad.host.real_types import ordinary
from funcad.host.where import internal, open_traces, state, user_source
from funcad.ir.aval import SCALAR_AVALS
from funcad.ir.primitive import Primitive
from funcad.ir.trace import plain_values
from funcad.ir.tracer import Tracer
from funcad.memo import table
from funcad.primitives.arithmetic import add, div, mul, neg, square_p, sub
from funcad.primitives.basic_indexing import basic_index_p
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.shape import broadcast_to, reshape, rev_p, roll_p, slice_p, transpose
from funcad.unjitted.following import FollowingTrace, run_following, whole_as_float

masks = OnDemand("funcad.masks.masks")
masked_rules = OnDemand("funcad.masks.masked_rules")
tape = OnDemand("funcad.unjitted.tape")
_ndarray, _float64, _F64 = np.ndarray, np.float64, np.dtype(np.float64)
_new: Any = object.__new__
_getframe = sys._getframe
_BROADCAST = frozenset([add, sub, mul, div])  # whose rules NumPy's own broadcasting serves
_WITHIN = frozenset([reshape, transpose, slice_p, rev_p, roll_p, basic_index_p])  # which move numbers, and add no zeros to them


# -- rules as functions of numbers

rules = table("unjitted.pushes", "rule of a primitive: the same with NumPy's functions in the place of primitives", same=None)
_names = table("unjitted.names of pushes", "module: what its rules name, as far as they have been read", same=None)
_NEVER_RAISE = {add: operator.add, sub: operator.sub, mul: operator.mul, neg: operator.neg}  # of floats and arrays that fit


def _plain(x: Any) -> Any:
    """What a rule names, where nothing is traced."""
    if type(x) is Primitive:
        return _NEVER_RAISE.get(x) or getattr(x.impl, "on_numpy", None) or partial(x.impl, np)
    if type(x) is FunctionType and x.__module__.startswith("funcad.primitives."):
        return plainly(x)
    return tuple(map(_plain, x)) if type(x) in (list, tuple) else x


def plainly(rule: Any) -> Any:
    """The same function, which calls NumPy where it calls primitives."""
    found = rules.get(rule)
    if found is None:
        if type(rule) is not FunctionType or not rule.__module__.startswith("funcad.primitives."):
            return rule  # somebody else's
        closure = tuple([CellType() for _ in rule.__closure__ or ()])
        names = _names.setdefault(rule.__module__, {})
        found = FunctionType(rule.__code__, names, rule.__name__, rule.__defaults__, closure)
        found.__kwdefaults__ = rule.__kwdefaults__
        rules.put(rule, found)  # it may name itself
        for cell, own in zip(closure, rule.__closure__ or ()):
            cell.cell_contents = _plain(own.cell_contents)
        _read(rule.__code__, rule.__globals__, names)
    return found


def _read(code: CodeType, scope: dict[str, Any], names: dict[str, Any]) -> None:
    for name in code.co_names:
        if name in scope and name not in names:
            names[name] = scope[name]  # until it is known: functions may name each other
            names[name] = _plain(scope[name])
    for inner in code.co_consts:
        if type(inner) is CodeType:
            _read(inner, scope, names)


# -- the short ways


class Pushes:
    """Of one trace, whose operations they are asked for."""

    __slots__ = ("trace",)

    def __init__(self, trace: Any):
        self.trace = trace

    def _seen(self, x: Any) -> tuple[Any, Any]:
        """(a double or an array of doubles, its tangent or None); (None, None) of everything else, and where a mask is."""
        t = None
        if type(x) is Tracer:
            trace = x.owner
            if trace is not self.trace:
                return None, None
            x, t = x.primal, x.tangent
            if type(t) is list:
                t = t[0]
            if trace.masked and type(t) is masks.Masked:
                return None, None
        kind = type(x)
        known = x.dtype is _F64 if kind is _ndarray else kind is float or kind is _float64
        return (x, t) if known else (None, None)

    def binary(self, primitive: Any, operation: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
        """+ - * / of doubles, or arrays of doubles: the traced result; None for everything else."""
        (p, t), (q, u) = self._seen(x), self._seen(y)
        if p is None or q is None:
            a, b = whole_as_float(x), whole_as_float(y)
            return None if a is x and b is y else self.binary(primitive, operation, a, b)
        wide = False  # does NumPy broadcast an operand that has a tangent?
        if type(p) is _ndarray:
            wide = p.shape != q.shape if type(q) is _ndarray else u is not None
        elif type(q) is _ndarray:
            wide = t is not None
        if wide and primitive not in _BROADCAST:
            return None
        return self._pushed(primitive, operation, (x, y), (p, q), (t, u), {}, wide)

    def unary(self, primitive: Any, ufunc: Any, x: Tracer, params: Any = None, bits: Any = None) -> Any:
        """A ufunc of a double, or of an array of doubles: the traced result; None for everything else."""
        p, t = self._seen(x)
        if p is None or primitive is square_p and self.trace.turned:  # it may be known exactly
            return None
        return self._pushed(primitive, ufunc, (x,), (p,), (t,), params or {}, False)

    def product(self, x: Any, y: Any) -> Any:
        """The product of vectors or matrices of doubles that fit: the traced result; None for everything else."""
        (p, t), (q, u) = self._seen(x), self._seen(y)
        if type(p) is not _ndarray or type(q) is not _ndarray or not (0 < p.ndim < 3 and 0 < q.ndim < 3):
            return None
        if p.shape[-1] != q.shape[0]:
            return None
        return self._pushed(dot_general_p, np.matmul, (x, y), (p, q), (t, u), tape.product_plan(p.ndim)[0], False)

    def reduction(self, primitive: Any, x: Tracer, axis: Any, keepdims: bool) -> Any:
        """A sum of an array of doubles over some axes: the traced result; None for everything else."""
        p, t = self._seen(x)
        if type(p) is not _ndarray or keepdims or axis is not None and type(axis) is not int and type(axis) is not tuple:
            return None
        plan = tape.plans.get((primitive, p.ndim, axis)) or tape.reduction_plan(primitive, p.ndim, axis)
        return None if plan is tape.NO_PLAN else self._pushed(primitive, plan[0], (x,), (p,), (t,), plan[3], False)

    def operation(self, primitive: Any, args: Sequence[Any], params: Any, wide: bool) -> Any:
        """The traced result of any operation on arrays and numbers of NumPy's whose rule begins no mask; None otherwise."""
        trace = self.trace
        if primitive.multiple or primitive.jvp is None or wide and primitive not in _BROADCAST:
            return None
        primals, tangents = [], []
        for x in args:
            t = None
            if type(x) is Tracer:
                if x.owner is not trace:
                    return None
                x, t = x.primal, x.tangent
                if type(t) is list:
                    t = t[0]
                if type(t) is Tracer or trace.masked and type(t) is masks.Masked:
                    return None
            if x.dtype.isbuiltin != 1 if type(x) is _ndarray else type(x) not in SCALAR_AVALS:
                return None
            primals.append(x)
            tangents.append(t)
        calm = primitive.calm or primitive in _WITHIN
        if not calm and primitive.reach == "choice":
            calm = len(tangents) == 3 and tangents[1] is not None and tangents[2] is not None
        elif not calm and not primitive.structural:
            calm = masked_rules.level_of(primitive, primals, tangents, params, None)[1] < masked_rules.BEGINS
        if not calm:
            return None
        if primitive.turns:
            trace.turned = True
        return self._pushed(primitive, partial(primitive.impl, np, **params), args, primals, tangents, params, wide, True)

    def _pushed(
        self, primitive: Any, run: Any, args: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any], params: Any,
        wide: bool, calm: bool = False,
    ) -> Any:  # fmt: skip
        """The traced result of what runs now, and its tangent; None if the rule may begin a mask, or others trace."""
        trace = self.trace
        if not (calm or primitive.calm) or open_traces or state.checked:
            return None
        source = state.source
        if source is None:
            frame = _getframe(2)
            code = frame.f_code
            if internal.get(code.co_filename) is False and state.observer is None:  # this is `user_source`, without a call
                source = code, frame.f_lasti, state.scope
            else:
                source = user_source(3)
        token = warn_at_user_line()
        try:
            out = run(*primals)
        finally:
            if token is not None:
                restore_warnings(token)
            if pending:
                deliver(primitive, primals)
        token = suppress_warnings()
        try:
            if wide and (primitive is add or primitive is sub):  # whose tangent may be that of an operand
                tangents = [t if t is None else broadcast_to(t, out.shape) for t in tangents]
            t = (rules.get(primitive.jvp) or plainly(primitive.jvp))(tangents, out, *primals, **params)
        finally:
            restore_warnings(token)
        if t is None:  # nor is there one the general way
            return trace.by_rule(primitive, args, params, None, (out,))
        if trace.turned:
            result = trace._traced(primitive, args, params, 0, out.shape if wide else None, out, t, source)
        else:
            result = _new(Tracer)
            result.owner, result.primal, result.tangent, result.source = trace, out, t, source
            result.atom = result.box = None
        if trace.doubtful or primitive.layout is None:
            trace._note_layout(primitive, args, result)
        return result


def follow(f: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Run `f(*values) -> list` on pairs of primals and tangents (None: zero)."""
    if Tracer in map(type, primals):
        primals, tangents = plain_values(primals), plain_values(tangents)
    trace = FollowingTrace("jvp")
    trace.short = Pushes(trace)
    return run_following(trace, f, ordinary(primals), ordinary(tangents), user_source())
