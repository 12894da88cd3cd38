"""Loops and branches on series: the same loop, whose carry has the coefficients beside the values.

Where a carry's value is a real or complex number all its coefficients are carried, zeros included, so that a body is traced
once. A condition reads values alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funcad.control.cond import cond_p
from funcad.control.scan_rules import scan_p
from funcad.control.while_loop import while_p
from funcad.ir.aval import aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.primitive import Primitive
from funcad.ir.trace import trace_function
from funcad.ir.types import Params
from funcad.primitives.loop import Loop, WhileLoop
from funcad.primitives.placement import on_device_of
from funcad.taylor.series import Series, Taylor, inexact, strong, zeros_like

__all__ = ["as_series", "coefficients", "series_rules"]


def coefficients(x: Series, order: int) -> list[Any]:
    """Those behind the value, zeros included."""
    return [zeros_like(x[0]) if x[k] is None else x[k] for k in range(1, order + 1)]


def as_series(values: Sequence[Any], behind: Sequence[Sequence[Any]]) -> list[Series]:
    """Series of values and of the coefficients behind them; without any, constants."""
    return [_series(x, rest) if rest else Series(x) for x, rest in zip(values, behind)]


def _series(first: Any, rest: Sequence[Any]) -> Series:
    known = [first, *rest]
    return Series(make=lambda k: known[k] if k < len(known) else None)


class _PackedSeries:
    """A list of series as a list of values: first all values, then the coefficients of those that move."""

    def __init__(self, avals: Sequence[Any], moving: Sequence[bool], order: int):
        self.n, self.moving, self.order = len(avals), list(moving), order
        self.avals = [*avals, *[strong(a) for a, m in zip(avals, moving) if m for _ in range(order)]]

    def pack(self, series: Sequence[Series]) -> list[Any]:
        behind = [c for x, m in zip(series, self.moving) if m for c in coefficients(x, self.order)]
        return [*[x[0] for x in series], *behind]

    def unpack(self, values: Sequence[Any]) -> list[Series]:
        rest = iter(values[self.n :])
        return as_series(values[: self.n], [[next(rest) for _ in range(self.order)] if m else [] for m in self.moving])


def _moving(operands: Sequence[Series]) -> list[bool]:
    return [not x.constant and inexact(aval_of(x[0])) for x in operands]


def _program(
    run: Taylor, body: Jaxpr, groups: Sequence[_PackedSeries], results: Sequence[_PackedSeries]
) -> tuple[Jaxpr, list[Any]]:
    """The body on packed series; `results` say how its outputs are packed, one group after the other."""

    def program(*values: Any) -> list[Any]:
        at, series = 0, []
        for group in groups:
            series += group.unpack(values[at : at + len(group.avals)])
            at += len(group.avals)
        outs, start, packed = Taylor(run.order, run.rules).run(body, series), 0, []
        for group in results:
            packed += group.pack(outs[start : start + group.n])
            start += group.n
        return packed

    return trace_function(program, [a for group in groups for a in group.avals], name="jet")


def _inexact(avals: Sequence[Any]) -> list[bool]:
    return [inexact(a) for a in avals]


def _scan(run: Taylor, operands: list[Series], params: Params) -> list[Series]:
    loop: Loop = params["loop"]
    count, others = loop.counted(operands)
    consts, carry, xs = loop.split(others)
    avals = loop.split([strong(a) for a in loop.body.in_avals])
    outs = [strong(a) for a in loop.body.out_avals]
    groups = [_PackedSeries(a, _moving(s), run.order) for a, s in ((avals[0], consts), (avals[2], xs))]
    carried = _PackedSeries(avals[1], _inexact(avals[1]), run.order)
    emitted = _PackedSeries(outs[loop.n_carry :], _inexact(outs[loop.n_carry :]), run.order)
    body, captured = _program(run, loop.body, [groups[0], carried, groups[1]], [carried, emitted])
    given = [*on_device_of(captured, [x[0] for x in operands]), *groups[0].pack(consts)]
    first = carried.pack(carry)
    new = loop.with_body(body, len(given), len(first))
    found = scan_p(*[n[0] for n in count], *given, *first, *groups[1].pack(xs), loop=new)
    return [*carried.unpack(found[: len(first)]), *emitted.unpack(found[len(first) :])]


def _while(run: Taylor, operands: list[Series], params: Params) -> list[Series]:
    loop: WhileLoop = params["loop"]
    tested, consts, carry = loop.split(operands)
    inner = [strong(a) for a in loop.body.in_avals]
    given = _PackedSeries(inner[: loop.n_consts], _moving(consts), run.order)
    carried = _PackedSeries(inner[loop.n_consts :], _inexact(inner[loop.n_consts :]), run.order)
    outs = [strong(a) for a in loop.body.out_avals[loop.n_carry :]]
    emitted = _PackedSeries(outs, _inexact(outs), run.order)
    body, captured = _program(run, loop.body, [given, carried], [carried, emitted])

    def test(*values: Any) -> list[Any]:
        return eval_jaxpr(loop.cond, values[: loop.n_cond + carried.n])

    cond, more = trace_function(test, [*map(strong, loop.cond.in_avals[: loop.n_cond]), *carried.avals], name="jet")
    near = [x[0] for x in operands]
    for_test = [*on_device_of(more, near), *[x[0] for x in tested]]
    for_body = [*on_device_of(captured, near), *given.pack(consts)]
    new = WhileLoop(cond, body, len(for_test), len(for_body), loop.budget)
    first = carried.pack(carry)
    count, *found = while_p(*for_test, *for_body, *first, loop=new)
    return [Series(count), *carried.unpack(found[: len(first)]), *emitted.unpack(found[len(first) :])]


def _cond(run: Taylor, operands: list[Series], params: Params) -> list[Series]:
    index, *rest = operands
    branches: tuple[Jaxpr, ...] = params["branches"]
    given = _PackedSeries([strong(a) for a in branches[0].in_avals], _moving(rest), run.order)
    outs = [strong(a) for a in branches[0].out_avals]
    results = _PackedSeries(outs, _inexact(outs), run.order)
    found = [_program(run, branch, [given], [results]) for branch in branches]
    captured = [c for _, consts in found for c in consts]
    start, made = 0, []
    for jaxpr, consts in found:
        made.append(_with_others(jaxpr, start, len(consts), [*map(aval_of, captured), *given.avals], len(captured)))
        start += len(consts)
    values = [*on_device_of(captured, [x[0] for x in operands]), *given.pack(rest)]
    return results.unpack(cond_p(index[0], *values, branches=tuple(made)))


def _with_others(jaxpr: Jaxpr, start: int, n: int, avals: Sequence[Any], n_captured: int) -> Jaxpr:
    """The branch with the captured values of all branches as inputs, of which its own are n from `start` on."""

    def program(*values: Any) -> list[Any]:
        return eval_jaxpr(jaxpr, [*values[start : start + n], *values[n_captured:]])

    made, none = trace_function(program, [strong(a) for a in avals], name="jet")
    assert not none
    return made


series_rules: dict[Primitive, Callable[[Taylor, list[Series], Params], list[Series]]] = {
    scan_p: _scan,
    while_p: _while,
    cond_p: _cond,
}
