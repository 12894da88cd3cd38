"""Helpers that write the rules which whole families of primitives share.

`elementwise` (one output element from one element of each operand), `structural` (linear in its only operand: reshape,
reductions by sum, ...). They only build `Primitive`s; there is no registry. Trap: elementwise operands match exactly in shape
and dtype; only literals may be rank 0 beside shaped ones. Broadcasting and promotion are equations of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.host.layout import keep
from funcad.host.real_types import is_a
from funcad.ir.aval import Aval, LiteralAval, shape_of
from funcad.ir.primitive import Primitive
from funcad.ir.tracer import Tracer
from funcad.primitives.array_formulas import implementation
from funcad.primitives.squares import moved_square

__all__ = ["elementwise", "structural", "SAME", "BOOL", "REAL", "sum_tangents", "avals_text", "align_batched"]
__all__ += ["native_order"]

SAME = None
BOOL = np.dtype(bool)
_REAL_OF = {"c": {8: np.dtype(np.float32), 16: np.dtype(np.float64), 32: np.dtype(np.longdouble)}}


def REAL(dtype: np.dtype) -> np.dtype:
    """The dtype of the absolute value."""
    return _REAL_OF["c"].get(dtype.itemsize, dtype) if dtype.kind == "c" else dtype


def native_order(x: Any) -> Any:
    """The array in the machine's byte order, for implementations that look at its bytes or hand it to SciPy.

    Avals do not tell byte orders apart, so any operand may be in the other one; most of NumPy does not mind.
    """
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def avals_text(avals: Sequence[Any]) -> str:
    return ", ".join(map(str, avals))


def _elementwise_abstract(name: str, result: Any, weak: bool) -> Callable[..., Aval]:
    def abstract_eval(*avals: Aval, **params: Any) -> Aval:
        first = avals[0]
        if result is None and type(first) is Aval and not first.weak:  # the common case, without building anything
            for a in avals:
                if a is first or a.dtype is first.dtype and a.shape == first.shape and not a.weak:
                    continue
                if type(a) is LiteralAval and (a.weak or a.dtype == first.dtype):
                    continue
                break
            else:
                return first
        shaped = [a for a in avals if not isinstance(a, LiteralAval)] or avals
        shape = shaped[0].shape
        strong = [a.dtype for a in avals if not a.weak]
        dtype = strong[0] if strong else np.result_type(*[a.dtype for a in avals])
        for a in shaped:
            if a.shape != shape:
                raise TypeError(
                    f"{name}: operands must have equal shapes, got {avals_text(avals)}; broadcast them explicitly"
                )
        for d in strong:
            if d != dtype:
                raise TypeError(f"{name}: operands must have equal dtypes, got {avals_text(avals)}; convert them explicitly")
        is_weak = weak and not strong
        return Aval(shape, dtype if result is None else result(dtype) if callable(result) else result, is_weak)

    return abstract_eval


def sum_tangents(terms: Sequence[Any], add: Callable[[Any, Any], Any]) -> Any:
    total = None
    for t in terms:
        if t is not None:
            total = t if total is None else add(total, t)
    return total


def _elementwise_jvp(rules: Sequence[Any]) -> Callable[..., Any]:
    if len(rules) == 1:
        (rule,) = rules
        return lambda tangents, out, *primals, **params: rule and rule(tangents[0], out, *primals, **params)
    if len(rules) == 2:
        return _binary_jvp(*rules)

    def jvp(tangents: Sequence[Any], out: Any, *primals: Any, **params: Any) -> Any:
        total = None
        for t, rule in zip(tangents, rules):
            if t is not None and rule is not None:
                term = rule(t, out, *primals, **params)
                total = term if total is None else _ADD[0](total, term)
        return total

    return jvp


def _binary_jvp(first: Any, second: Any) -> Callable[..., Any]:
    """The loop of `_elementwise_jvp` unrolled: un-jitted gradients spend their time here."""

    def jvp(tangents: Sequence[Any], out: Any, x: Any, y: Any, **params: Any) -> Any:
        tx, ty = tangents
        if ty is None or second is None:
            return first(tx, out, x, y, **params) if tx is not None and first is not None else None
        term = second(ty, out, x, y, **params)
        if tx is None or first is None:
            return term
        return _ADD[0](first(tx, out, x, y, **params), term)

    return jvp


_ADD: list[Any] = [None]  # the function `add`, set by arithmetic.py, where it is declared with the helper above


def align_batched(size: int, args: Sequence[Any], batched: Sequence[bool], broadcast: Callable[..., Any]) -> list[Any]:
    """Operands of one elementwise operation, all with the batch axis; scalars stay (they become literals)."""
    result = []
    for a, b in zip(args, batched):
        if not b and (isinstance(a, Tracer) or hasattr(a, "ndim") and not is_a(a, np.generic)):
            shape = shape_of(a)
            a = broadcast(a, shape=(size, *shape), axes=tuple(range(1, len(shape) + 1)))
        result.append(a)
    return result


def _ufunc_impl(ufunc: np.ufunc, device: Callable[..., Any] | None) -> Callable[..., Any]:
    name = ufunc.__name__

    def impl(xp: Any, *args: Any) -> Any:
        if xp is np:
            return ufunc(*args)
        return getattr(xp, name)(*args) if device is None else device(xp, getattr(xp, name), *args)

    impl.on_numpy = ufunc  # type: ignore[attr-defined]
    return impl


def elementwise(
    name: str,
    impl: Any = None,
    jvp: Sequence[Any] | Callable[..., Any] | None = None,
    *,
    transpose: Callable[..., Any] | None = None,
    emit: Callable[..., Any] | None = None,
    dtype: Any = SAME,
    weak: bool = False,
    abstract_eval: Callable[..., Any] | None = None,
    layout: Callable[..., Any] = keep,
    device: Callable[..., Any] | None = None,
    square: Callable[..., Any] | None = None,
    turns: bool = False,
    commutes: str | None = None,
    may_share: bool = False,
    calm: bool = False,
    lowering: Callable[..., Any] | None = None,
) -> Primitive:
    """A primitive that works element by element.

    `impl` is a NumPy ufunc, or `impl(xp, *arrays)`, or None if `emit` composes it of atoms; `jvp` has one rule
    `(t, out, *primals) -> tangent` per operand, or None where the derivative is zero, or is one rule for all operands together,
    as `Primitive` takes it; `dtype` is the result's (SAME, BOOL, REAL or a function of the operands' dtype); `weak` says that
    Python scalars give Python scalars. `device` is for a ufunc whose namesake in CuPy differs, see device_elements.py.
    """
    if impl is None:
        impl = implementation(emit)  # type: ignore[arg-type]
    ufunc = impl if isinstance(impl, np.ufunc) else None

    def batch(size: int, args: Sequence[Any], batched: Sequence[bool], **params: Any) -> tuple[Any, bool]:
        return primitive(*align_batched(size, args, batched, _BROADCAST[0]), **params), True

    primitive = Primitive(
        name,
        _ufunc_impl(ufunc, device) if ufunc is not None else impl,
        abstract_eval or _elementwise_abstract(name, dtype, weak),
        jvp=jvp if jvp is None or callable(jvp) else _elementwise_jvp(jvp),
        transpose=transpose,
        batch=batch,
        emit=emit,
        ufunc=ufunc,
        inplace=ufunc,
        layout=layout,
        square=square,
        turns=turns,
        reach="pointwise",
        calm=calm,
        passive=isinstance(jvp, Sequence) and not any(jvp),
        commutes=commutes,
        may_share=may_share,
        lowering=lowering,
    )
    return primitive


_BROADCAST: list[Any] = [None]  # `broadcast_in_dim`, set by shape.py


def structural(
    name: str,
    impl: Callable[..., Any] | None,
    abstract_eval: Callable[..., Any],
    transpose: Callable[..., Any],
    batch: Callable[..., Any],
    lowering: Callable[..., Any] | None = None,
    **rules: Any,
) -> Primitive:
    """A primitive that is linear in its one array operand: its jvp is itself.

    `transpose(ct, aval, **params)` gives the operand's cotangent; `batch(size, x, **params)` the batched result; `reach`, if
    elements only move or add up, says so (masks/masks.py). `impl` is None where `lowering` says it in other operations.
    """
    if impl is None:
        impl = lambda xp, x, **params: lowering(x, **params)  # type: ignore[misc]

    def jvp(tangents: Sequence[Any], out: Any, x: Any, **params: Any) -> Any:
        return primitive(tangents[0], **params)

    def transpose_rule(ct: Any, x: Any, **params: Any) -> list[Any]:
        return [transpose(ct, x.aval, **params)]

    def batch_rule(size: int, args: Sequence[Any], batched: Sequence[bool], **params: Any) -> tuple[Any, bool]:
        return batch(size, args[0], **params), True

    primitive = Primitive(
        name, impl, abstract_eval, jvp=jvp, transpose=transpose_rule, batch=batch_rule, lowering=lowering, structural=True,
        **rules,
    )
    if primitive.silent:  # it only moves numbers
        primitive.square = moved_square(primitive)
    return primitive
