"""Helpers that write the rules which whole families of primitives share.

`elementwise` (one output element from one element of each operand), `structural` (linear in its only operand: reshape,
reductions by sum, ...). They only build `Primitive`s; there is no registry. Below stand the few operations that these rules
and their transposes are made of: copies along an axis, sums over one, another shape, the sum of two. Trap: elementwise operands
match exactly in shape and dtype; only literals may be rank 0 beside shaped ones. Broadcasting and promotion are equations of
their own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np

from funcad.host.layout import keep, of_reduction, of_reshape
from funcad.host.real_types import is_a
from funcad.ir.aval import Aval, LiteralAval, shape_of
from funcad.ir.primitive import Primitive, Reduction, Said, is_linear
from funcad.ir.tracer import Tracer
from funcad.primitives.array_formulas import implementation
from funcad.primitives.python_operators import operator_impl, with_ufunc
from funcad.primitives.squares import moved_square

__all__ = ["elementwise", "structural", "SAME", "BOOL", "REAL", "sum_tangents", "avals_text", "align_batched"]
__all__ += ["native_order", "add", "add_tangents", "broadcast_in_dim", "kept_axes"]
__all__ += ["reduce_sum", "reduce_sum_p", "reduced_aval", "reshape"]

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
                total = term if total is None else add(total, term)
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
        return add(first(tx, out, x, y, **params), term)

    return jvp


def align_batched(size: int, args: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """Operands of one elementwise operation, all with the batch axis; scalars stay (they become literals)."""
    result = []
    for a, b in zip(args, batched):
        if not b and (isinstance(a, Tracer) or hasattr(a, "ndim") and not is_a(a, np.generic)):
            shape = shape_of(a)
            a = broadcast_in_dim(a, shape=(size, *shape), axes=tuple(range(1, len(shape) + 1)))
        result.append(a)
    return result


def _ufunc_impl(ufunc: np.ufunc, device: Callable[..., Any] | None) -> Callable[..., Any]:
    name = ufunc.__name__

    def impl(xp: Any, *args: Any) -> Any:
        if xp is np:
            return ufunc(*args)
        return getattr(xp, name)(*args) if device is None else device(xp, getattr(xp, name), *args)

    impl.on_numpy = ufunc  # type: ignore[attr-defined]
    impl.namesake = device is None  # type: ignore[attr-defined]
    return impl


def elementwise(
    name: str,
    impl: Any = None,
    jvp: Sequence[Any] | Callable[..., Any] | None = None,
    /,
    *,
    dtype: Any = SAME,
    weak: bool = False,
    abstract_eval: Callable[..., Any] | None = None,
    device: Callable[..., Any] | None = None,
    **said: Unpack[Said],
) -> Primitive:
    """A primitive that works element by element.

    `impl` is a NumPy ufunc, or `impl(xp, *arrays)`, or None if `emit` composes it of atoms; `jvp` has one rule
    `(t, out, *primals) -> tangent` per operand, or None where the derivative is zero, or is one rule for all operands together,
    as `Primitive` takes it; `dtype` is the result's (SAME, BOOL, REAL or a function of the operands' dtype); `weak` says that
    Python scalars give Python scalars. `device` is for a ufunc whose namesake in CuPy differs, see device_elements.py.
    """
    if impl is None:
        impl = implementation(said.get("emit"))  # type: ignore[arg-type]
    ufunc = impl if isinstance(impl, np.ufunc) else None

    def batch(size: int, args: Sequence[Any], batched: Sequence[bool], **params: Any) -> tuple[Any, bool]:
        return primitive(*align_batched(size, args, batched), **params), True

    said.setdefault("layout", keep)
    primitive = Primitive(
        name,
        _ufunc_impl(ufunc, device) if ufunc is not None else impl,
        abstract_eval or _elementwise_abstract(name, dtype, weak),
        jvp=jvp if jvp is None or callable(jvp) else _elementwise_jvp(jvp),
        batch=batch,
        ufunc=ufunc,
        inplace=ufunc,
        reach="pointwise",
        passive=isinstance(jvp, Sequence) and not any(jvp),
        **said,
    )
    return primitive


def structural(
    name: str,
    impl: Callable[..., Any] | None,
    abstract_eval: Callable[..., Any],
    transpose: Callable[..., Any],
    batch: Callable[..., Any],
    lowering: Callable[..., Any] | None = None,
    /,
    **said: Unpack[Said],
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
        **said,
    )
    if primitive.silent:  # it only moves numbers
        primitive.square = moved_square(primitive)
    return primitive


# -- the operations that rules are made of


def _broadcast_impl(xp: Any, x: Any, *, shape: tuple, axes: tuple) -> Any:
    if xp is not np:
        x = xp.asarray(x)
        inner = [1] * len(shape)
        for axis, n in zip(axes, x.shape):
            inner[axis] = n
        return xp.broadcast_to(x.reshape(inner), shape)
    if not shape:
        return x
    if type(x) is not np.ndarray:
        x = np.asarray(x)
    strides = [0] * len(shape)
    for axis, n, s in zip(axes, x.shape, x.strides):
        if n != 1 or shape[axis] == 1:
            strides[axis] = s
    view = np.lib.stride_tricks.as_strided(x, shape, strides) if not x.flags.c_contiguous else _strided(x, shape, strides)
    view.flags.writeable = False
    return view


def _strided(x: np.ndarray, shape: tuple, strides: list) -> np.ndarray:
    """`as_strided` for contiguous x, eight times quicker than `np.broadcast_to`."""
    if x.size == 0:
        return np.empty(shape, x.dtype)
    return np.ndarray(shape, x.dtype, x, 0, strides)


def _broadcast_abstract(x: Aval, *, shape: tuple, axes: tuple) -> Aval:
    if len(axes) != len(x.shape) or any(n not in (1, shape[a]) for n, a in zip(x.shape, axes)):
        raise ValueError(f"broadcast_in_dim: {x} does not broadcast to {shape} along axes {axes}")
    return Aval(shape, x.dtype)


def _broadcast_transpose(ct: Any, x: Aval, *, shape: tuple, axes: tuple) -> Any:
    added = tuple(i for i in range(len(shape)) if i not in axes)
    grown = tuple(a for n, a in zip(x.shape, axes) if n == 1 and shape[a] != 1)
    ct = reduce_sum(ct, axes=tuple(sorted(added + grown)))
    return reshape(ct, shape=x.shape) if grown else ct


def _broadcast_batch(size: int, x: Any, *, shape: tuple, axes: tuple) -> Any:
    return broadcast_in_dim(x, shape=(size, *shape), axes=(0, *[a + 1 for a in axes]))


broadcast_in_dim = structural(
    "broadcast_in_dim", _broadcast_impl, _broadcast_abstract, _broadcast_transpose, _broadcast_batch,
    silent=True,
    layout=lambda x, **params: _broadcast_impl(np, np.empty(()) if x is None else x, **params),
    reach="sums",
    free=True,
)


def _reshape_impl(xp: Any, x: Any, *, shape: tuple) -> Any:
    if type(x) is np.ndarray:
        return x.reshape(shape) if shape else x.reshape(shape)[()]
    return xp.reshape(x, shape) if shape or xp is not np else np.reshape(x, shape)[()]


def _reshape_ready(x: Aval, *, shape: tuple) -> Any:
    return (lambda x: x.reshape(shape)) if shape and x.shape else partial(_reshape_impl, np, shape=shape)


reshape = structural(
    "reshape",
    _reshape_impl,
    lambda x, *, shape: _reshape_abstract(x, shape),
    lambda ct, x, *, shape: reshape(ct, shape=x.shape),
    lambda size, x, *, shape: reshape(x, shape=(size, *shape)),
    silent=True,
    ready=_reshape_ready,
    layout=of_reshape,
    reach="moves",
    free=True,
)


def _reshape_abstract(x: Aval, shape: tuple) -> Aval:
    result = Aval(shape, x.dtype)
    if result.size != x.size:
        raise ValueError(f"cannot reshape array of size {x.size} into shape {shape}")
    return result


def reduced_aval(x: Aval, axes: tuple, dtype: Any = None) -> Aval:
    shape = tuple([n for i, n in enumerate(x.shape) if i not in axes])
    return Aval(shape, x.dtype if dtype is None else dtype)


def kept_axes(ndim: int, axes: tuple) -> tuple:
    return tuple([i for i in range(ndim) if i not in axes])


def _sum_impl(xp: Any, x: Any, *, axes: tuple) -> Any:
    dtype = x.dtype
    if xp is np:
        return np.add.reduce(x, axis=axes, dtype=dtype.type) if axes else x  # the type: no byte order
    return xp.sum(x, axis=axes, dtype=dtype) if axes else x


def _sum_transpose(ct: Any, x: Aval, *, axes: tuple) -> Any:
    return broadcast_in_dim(ct, shape=x.shape, axes=kept_axes(len(x.shape), axes))


reduce_sum_p = structural(
    "reduce_sum",
    _sum_impl,
    lambda x, *, axes: reduced_aval(x, axes),
    _sum_transpose,
    lambda size, x, *, axes: reduce_sum(x, axes=tuple([a + 1 for a in axes])),
    ready=lambda x, *, axes: partial(np.add.reduce, axis=axes, dtype=x.dtype),
    layout=of_reduction,
    reach="sums",
    reduction=Reduction(np.add, 0),
    label="reduce",
)


def reduce_sum(x: Any, *, axes: tuple) -> Any:
    """Sum over axes in the operand's own dtype (the public `sum` converts small integers first)."""
    return reduce_sum_p(x, axes=axes) if axes else x


add = elementwise(
    "add",
    operator_impl(operator.add, np.add),
    lambda tangents, out, x, y: add_tangents(*tangents),
    transpose=lambda ct, x, y: [ct if is_linear(x) else None, ct if is_linear(y) else None],
    emit=lambda e, x, y: e.add(x, y),
    commutes="bits",  # except for which NaN comes out of two
    weak=True,
    calm=True,
)
with_ufunc(add, np.add)


def add_tangents(tx: Any, ty: Any) -> Any:
    return ty if tx is None else tx if ty is None else add(tx, ty)
