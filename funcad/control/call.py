"""`call`: a program as one equation. What `jit` records, and what the other higher-order primitives lower their parts to.

Its rules derive a program (jvp, linear halves, transpose, batch), memoised on the source program, and call that. So the
second call of `grad(jit(f))` derives nothing and compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funcad.backends.backward import Backward
from funcad.backends.engines import run_jaxpr
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.primitive import Primitive, is_linear
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.jvp import jvp_jaxpr
from funcad.transforms.linearize import apart_jaxpr, linearize_jaxpr
from funcad.transforms.structural import compile_with
from funcad.transforms.transpose import known_jaxpr, linear_outputs, transpose_jaxpr

__all__ = ["call_p", "call", "spread", "present", "known_outputs"]

compile_with(Backward)


def present(values: Sequence[Any]) -> tuple[list[Any], tuple[bool, ...]]:
    """The entries that are not None, and the mask."""
    return [v for v in values if v is not None], tuple([v is not None for v in values])


def spread(values: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    """The inverse of `present`: None where the mask is false."""
    it = iter(values)
    return [next(it) if m else None for m in mask]


def call(jaxpr: Jaxpr, *args: Any, name: str = "call", of: Jaxpr | None = None) -> list[Any]:
    """Call a program; one derived from `of` is compiled with `fast_math` if that is."""
    if of is not None and "fast_math" in of.memo:
        jaxpr.memo["fast_math"] = True
    return call_p(*args, jaxpr=jaxpr, name=name)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, name: str) -> tuple[list, list]:
    ts, nonzero = present(tangents)
    derived, consts, out_nonzero = jvp_jaxpr(jaxpr, nonzero)
    outs = call(derived, *consts, *primals, *ts, name=name, of=jaxpr)
    n = len(jaxpr.outputs)
    return outs[:n], spread(outs[n:], out_nonzero)


def _linearize(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, name: str) -> tuple[list, list]:
    ts, nonzero = present(tangents)
    lin = linearize_jaxpr(jaxpr, nonzero)
    outs = call(lin.forward, *lin.consts, *primals, name=name, of=jaxpr)
    if not any(lin.out_nonzero):
        return outs[: lin.n_outputs], [None] * lin.n_outputs
    touts = call(lin.linear, *lin.collect(primals, outs), *ts, name=name, of=jaxpr)
    return outs[: lin.n_outputs], spread(touts, lin.out_nonzero)


def _transpose(cts: Sequence[Any], *inputs: Any, jaxpr: Jaxpr, name: str) -> list[Any]:
    linear = tuple([is_linear(x) for x in inputs])
    given, nonzero = present(cts)
    derived, consts, in_nonzero = transpose_jaxpr(jaxpr, linear, nonzero)
    known = [x for x in inputs if not is_linear(x)]
    outs = call(derived, *consts, *known, *given, name=name, of=jaxpr)
    return spread(spread(outs, in_nonzero), linear)


def known_outputs(
    jaxpr: Jaxpr, linear: tuple[bool, ...], run: Callable[[Jaxpr, list[Any]], list[Any]]
) -> tuple[Sequence[bool], Callable[..., list[Any]]]:
    """The rule `known` of a program that runs once: `run(program, args)` runs the part without linear inputs."""
    out_linear = linear_outputs(jaxpr, linear)

    def values(inputs: Sequence[Any]) -> list[Any]:
        derived, consts, _ = known_jaxpr(jaxpr, linear)
        outs = run(derived, [*consts, *[x for x, lin in zip(inputs, linear) if not lin]])
        return spread(outs, [not lin for lin in out_linear])

    return out_linear, values


def _known(linear: tuple[bool, ...], *, jaxpr: Jaxpr, name: str) -> tuple:
    return known_outputs(jaxpr, linear, lambda program, args: call(program, *args, name=name, of=jaxpr))


def _apart(linear: tuple[bool, ...], args: Sequence[Any], *, jaxpr: Jaxpr, name: str) -> list[Any]:
    halves = apart_jaxpr(jaxpr, linear)
    known = [x for x, lin in zip(args, linear) if not lin]
    outs = call(halves.forward, *halves.consts, *known, name=name, of=jaxpr)
    ts = [x for x, lin in zip(args, linear) if lin]
    touts = call(halves.linear, *halves.collect(known, outs), *ts, name=name, of=jaxpr)
    values, found = iter(outs), iter(touts)
    return [next(found) if lin else next(values) for lin in halves.out_nonzero]


def _batch(size: int, args: Sequence[Any], batched: Sequence[bool], *, jaxpr: Jaxpr, name: str) -> tuple[list, list]:
    derived, consts, out_batched = batch_jaxpr(jaxpr, size, tuple(batched))
    return call(derived, *consts, *args, name=name, of=jaxpr), out_batched


call_p = Primitive(
    "call",
    lambda xp, *args, jaxpr, name: run_jaxpr(jaxpr, args),
    lambda *avals, jaxpr, name: jaxpr.out_avals,
    primal_and_jvp=_jvp,
    linearize=_linearize,
    known=_known,
    apart=_apart,
    transpose=_transpose,
    batch=_batch,
    multiple=True,
    may_share=True,
)
