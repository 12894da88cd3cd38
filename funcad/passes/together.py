"""Collectives of a program: small sums that follow each other go as one, and one comparison stands for many collectives.

Idea: what a program sends is decided by reading it, before any engine sees it, so it is the same at its first run, when it is
compiled, and on processes that have traced it anew. Sums of one dtype, none of which needs another, become one. In front of
collectives that come in any case (loops of known length count as often as they turn) stands one operation that compares them
all with those of the other processes; what a `cond` or a `while_loop` holds compares for itself.

Traps: what has effects keeps its order, so a sum waits for another only if no effect stands between them. Segments of paths
(jitted/path_segments.py) run equation by equation when they are recorded, so their sums stay apart (`APART`).
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

from funcad.ir.jaxpr import Equation, Jaxpr, Var, subjaxprs
from funcad.passes.subprograms import kind_of, with_subprograms
from funcad.primitives.axis_env import Agreement, CollectiveCall, agree_on_p, sum_over_p, sums_over_p

APART = "sums apart"  # in the memo of a program: its sums are not joined
SMALL = 1 << 15  # bytes of a sum, from which on time goes into sending and not into waiting


def together(jaxpr: Jaxpr) -> Jaxpr:
    """The program as it runs between processes; itself if it calls no collectives between processes."""
    found: Any = jaxpr.memo.get("together")
    if found is None:
        found = _NOTHING
        if jaxpr.has_effects and not jaxpr.modes and _calls(jaxpr):
            found = _compared(joined(jaxpr))
            if jaxpr.memo.get("fast_math"):
                found.memo["fast_math"] = True
            found.memo["together"] = _NOTHING
            found.memo["at once"] = True  # engines agree to the last bit but one: processes, also restarted ones, to the last
        found = jaxpr.memo.setdefault("together", found)
    return jaxpr if found is _NOTHING else found


_NOTHING: Any = object()  # to be done


def _is_call(equation: Equation) -> bool:
    return equation.primitive.effect and type(equation.params.get("call")) is CollectiveCall


def _calls(jaxpr: Jaxpr) -> bool:
    """Does the program, or one in it, call collectives?"""
    found = jaxpr.memo.get("calls")
    if found is None:
        found = jaxpr.has_effects and any([_is_call(e) or any(map(_calls, subjaxprs(e.params))) for e in jaxpr.equations])
        found = jaxpr.memo.setdefault("calls", found)
    return bool(found)


# ---------------------------------------------------------------- sums as one


def joined(jaxpr: Jaxpr) -> Jaxpr:
    """The program whose small sums that follow each other are one, also in its loops, branches and calls."""
    found: Any = jaxpr.memo.get("joined")
    if found is None:
        found = _NOTHING
        if _calls(jaxpr):
            equations = [with_subprograms(e, joined) for e in jaxpr.equations]
            if not jaxpr.memo.get(APART):
                equations = _in_groups(equations)
            if any([a is not b for a, b in zip(equations, jaxpr.equations)]) or len(equations) != len(jaxpr.equations):
                found = Jaxpr(jaxpr.inputs, tuple(equations), jaxpr.outputs)
                found.memo["joined"] = _NOTHING
        found = jaxpr.memo.setdefault("joined", found)
    return jaxpr if found is _NOTHING else found


def _in_groups(equations: list[Equation]) -> list[Equation]:
    done: list[Equation] = []
    group: list[Equation] = []  # sums that are held back, until one comes that needs their results
    waiting: list[Equation] = []  # what needs results of these
    held: set[Var] = set()

    def send() -> None:
        if group:
            done.extend([_one(group), *waiting])
            group.clear()
            waiting.clear()
            held.clear()

    for e in equations:
        free = held.isdisjoint([a for a in e.inputs if type(a) is Var])
        if _is_small_sum(e):
            if group and not (free and _alike(group[0], e)):
                send()
            group.append(e)
            held.update(e.outputs)
        elif e.primitive.effect or any([j.has_effects for j in subjaxprs(e.params)]):
            send()
            done.append(e)
        elif free:
            done.append(e)
        else:
            waiting.append(e)
            held.update(e.outputs)
    send()
    return done


def _is_small_sum(equation: Equation) -> bool:
    aval = equation.outputs[0].aval if equation.primitive is sum_over_p else None
    return aval is not None and aval.size * aval.dtype.itemsize <= SMALL


def _alike(a: Equation, b: Equation) -> bool:
    return a.params["call"].comm is b.params["call"].comm and a.outputs[0].aval.dtype == b.outputs[0].aval.dtype


def _one(group: list[Equation]) -> Equation:
    first = group[0]
    if len(group) == 1:
        return first
    call = first.params["call"]
    lines = list(dict.fromkeys([e.params["call"].line for e in group]))
    shapes = tuple([e.outputs[0].aval.shape for e in group])
    call = call._replace(more=shapes, line=lines[0] if len(lines) == 1 else f"{lines[0]} to {lines[-1]}")
    inputs, outputs = [e.inputs[0] for e in group], [e.outputs[0] for e in group]
    return Equation(sums_over_p, tuple(inputs), {"call": call}, tuple(outputs), first.source)


# ---------------------------------------------------------------- one comparison for many


class _Sequence(NamedTuple):
    """The collectives that an equation calls in any case: their communicator, a text of all, how many, and the first."""

    comm: Any
    text: str
    count: int
    first: str
    where: str


_UNKNOWN: Any = object()  # which collectives they are is seen when it runs


def _compared(jaxpr: Jaxpr) -> Jaxpr:
    """The program with comparisons in front of its collectives."""
    equations: list[Equation] = []
    run: list[tuple[int, _Sequence]] = []  # place and collectives of those that can be compared together

    def end() -> None:
        count = sum([s.count for _, s in run])
        if count > 1:
            for i, _ in run:
                equations[i] = _marked(equations[i])
            start, first = run[0]
            every = zlib.crc32(" ".join([s.text for _, s in run]).encode())
            agreement = Agreement(first.comm, first.first, every, count, first.where)
            source = equations[start].source
            equations.insert(start, Equation(agree_on_p, (), {"agreement": agreement}, (), source))
        run.clear()

    for e in jaxpr.equations:
        found = _sequence_of(e)
        if found is _UNKNOWN or found is not None and run and run[0][1].comm is not found.comm:
            end()
        if found is _UNKNOWN:
            e = with_subprograms(e, together)
        elif found is not None:
            run.append((len(equations), found))
        equations.append(e)
    end()
    return Jaxpr(jaxpr.inputs, tuple(equations), jaxpr.outputs)


def _sequence_of(equation: Equation) -> Any:
    """The collectives of an equation; None if there are none."""
    if _is_call(equation):
        call, x = equation.params["call"], _packed(equation)
        tag = call.tag(x)
        return _Sequence(call.comm, tag, 1, tag, call.where(x))
    if not equation.primitive.multiple or not any(map(_calls, subjaxprs(equation.params))):
        return None
    kind, params = kind_of(equation), equation.params
    if kind == "call" or kind == "custom":
        return _sequence_in(params["jaxpr"])
    if kind != "scan" or params["loop"].length is None:
        return _UNKNOWN
    found, turns = _sequence_in(params["loop"].body), params["loop"].length
    if found is None or not turns:
        return None
    return found if found is _UNKNOWN else found._replace(text=f"{turns} times ({found.text})", count=turns * found.count)


def _sequence_in(jaxpr: Jaxpr) -> Any:
    found = [s for s in map(_sequence_of, jaxpr.equations) if s is not None]
    if not found:
        return None
    if _UNKNOWN in found or any([s.comm is not found[0].comm for s in found]):
        return _UNKNOWN
    return found[0]._replace(text=" ".join([s.text for s in found]), count=sum([s.count for s in found]))


class _SentAval(NamedTuple):
    shape: tuple
    dtype: Any


def _packed(equation: Equation) -> Any:
    """What is sent: the operand, or the operands of a sum of several as one."""
    avals = [a.aval for a in equation.inputs]
    return avals[0] if equation.primitive is not sums_over_p else _SentAval((sum([a.size for a in avals]),), avals[0].dtype)


def _marked(equation: Equation) -> Equation:
    """The equation whose collectives have been compared."""
    if _is_call(equation):
        return equation._replace(params={**equation.params, "call": equation.params["call"]._replace(agreed=True)})
    return with_subprograms(equation, _marked_program) if equation.primitive.multiple else equation


def _marked_program(jaxpr: Jaxpr) -> Jaxpr:
    if not _calls(jaxpr):
        return jaxpr
    found = Jaxpr(jaxpr.inputs, tuple(map(_marked, jaxpr.equations)), jaxpr.outputs)
    found.memo["together"] = found.memo["joined"] = _NOTHING
    return found
