"""Sums over partitions of data: one operation, and its rules; distributed/partitions.py says what users see of it.

Idea: the parameter `call` says what is summed: a function, partitions, and a chain of derivations. The derivative of a sum is
the sum of the derivatives, so each rule asks for a call with a longer chain, and what is asked for is computed beside the
data, in one pass over them. The first derivative of one real number computes value and gradient together, so `grad` and
`value_and_grad` are one pass, and so is a product with the Hessian.

Trap: nothing is kept between passes. The transposed derivative of several results runs the function again.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.host.devices import namespace_of
from funcad.ir.aval import Aval, aval_of, is_inexact
from funcad.ir.primitive import Primitive, is_linear, not_linear
from funcad.ir.tracer import Tracer, concrete_value
from funcad.primitives.arithmetic import add, mul
from funcad.primitives.conversion import convert, real
from funcad.primitives.placement import on_device_of
from funcad.primitives.reduction import reduce_sum
from funcad.primitives.shape import zeros


def avals_of(values: Sequence[Any]) -> tuple[Aval, ...]:
    """The avals of parameters, by which results are known."""
    return _kept([aval_of(x) for x in values])


def _kept(avals: Sequence[Any]) -> tuple[Aval, ...]:
    return tuple([Aval(a.shape, a.dtype, a.weak) for a in avals])


def _impl(xp: Any, *values: Any, call: Any) -> list[Any]:
    outs = call.run(_on_host(values))
    return outs if xp is np else [xp.asarray(x) for x in outs]


def _on_host(values: Sequence[Any]) -> list[Any]:
    return [x if namespace_of([x]) is np else x.get() for x in values]


def _mask(tangents: Sequence[Any]) -> tuple[bool, ...]:
    return tuple([t is not None for t in tangents])


def _present(values: Sequence[Any]) -> list[Any]:
    return [v for v in values if v is not None]


def _spread(outs: Sequence[Any], touts: Sequence[Any]) -> list[Any]:
    """Tangents of the inexact results, None in the place of the others'."""
    found = iter(touts)
    return [next(found) if is_inexact(aval_of(o)) else None for o in outs]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, call: Any) -> tuple[list, list]:
    mask, ts = _mask(tangents), _present(tangents)
    if not numbers_behind([*primals, *ts]):  # two operations: what is not read is not computed, and tangents may be linear
        return _separately(primals, mask, ts, call)
    n = len(call.out_avals(avals_of(primals), numbers_behind(primals)))
    outs = partition_sum_p(*primals, *ts, call=call.jvp(mask))
    return outs[:n], _spread(outs[:n], outs[n:])


def _separately(primals: Sequence[Any], mask: tuple[bool, ...], ts: Sequence[Any], call: Any) -> tuple[list, list]:
    outs = partition_sum_p(*primals, call=call)
    return outs, _spread(outs, partition_sum_p(*primals, *ts, call=call.push(mask)))


def numbers_behind(values: Sequence[Any]) -> list[Any]:
    """The numbers behind the values; empty where some have none."""
    found = [concrete_value(v) for v in values]
    return [] if any([type(v) is Tracer for v in found]) else _on_host(found)


def _linearize(primals: Sequence[Any], tangents: Sequence[Any], *, call: Any) -> tuple[list, list]:
    mask, ts = _mask(tangents), _present(tangents)
    if not call.chain:
        outs = call.out_avals(avals_of(primals), numbers_behind(primals))
        if len(outs) == 1 and not outs[0].shape and outs[0].dtype.kind == "f":
            value, *slopes = partition_sum_p(*primals, call=call.slope(mask))
            return [value], [functools.reduce(add, [_along(g, t, outs[0].dtype) for g, t in zip(slopes, ts)])]
    return _separately(primals, mask, ts, call)


def _along(slope: Any, tangent: Any, dtype: np.dtype) -> Any:
    """The real part of the sum of slope times tangent."""
    shape = aval_of(slope).shape
    product = mul(slope, tangent)
    total = reduce_sum(product, axes=tuple(range(len(shape)))) if shape else product
    total = real(total) if aval_of(total).dtype.kind == "c" else total
    return total if aval_of(total).dtype == dtype else convert(total, dtype)


def _transpose(cts: Sequence[Any], *inputs: Any, call: Any) -> list[Any]:
    n = len(call.pushed)
    if not n or any(map(is_linear, inputs[:n])):
        raise not_linear(f"sum_over of {call}")
    avals = filter(is_inexact, call.before.out_avals(avals_of(inputs[:n]), numbers_behind(inputs[:n])))
    beside = [*inputs[:n], *_present(cts)]
    full = [on_device_of([zeros(a.update())], beside)[0] if ct is None else ct for ct, a in zip(cts, avals)]
    found = iter(inputs[n:])
    wanted = tuple([m and is_linear(next(found)) for m in call.pushed])
    pulled = iter(partition_sum_p(*inputs[:n], *full, call=call.before.pull(wanted)))
    return [None] * n + [next(pulled) if is_linear(x) else None for x in inputs[n:]]


def _batch(size: int, args: Sequence[Any], batched: Sequence[bool], *, call: Any) -> tuple[list, list]:
    outs = partition_sum_p(*args, call=call.lanes(tuple(batched), size))
    return outs, [True] * len(outs)


partition_sum_p = Primitive(
    "partition_sum",
    _impl,
    lambda *avals, call: list(call.out_avals(_kept(avals))),
    primal_and_jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batch=_batch,
    multiple=True,
    silent=True,
)


def partition_sum(call: Any, leaves: Sequence[Any]) -> list[Any]:
    return partition_sum_p(*leaves, call=call)
