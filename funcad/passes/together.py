"""Collectives of a program: sums start early and travel together, and one comparison stands for many collectives.

Idea: what a program sends is decided by reading it, before any engine sees it, so it is the same at its first run, when it is
compiled, and on processes that have traced it anew. A sum moves to where its operand is ready; sums of one dtype, none of which
needs another, become one, a bucket, which starts when it is full and is waited for where a result of it is read: what is
computed between goes on beside the sending. In front of collectives that come in any case (loops of known length count as often
as they turn) stands one operation that compares them all with those of the other processes; what a `cond` or a `while_loop`
holds compares for itself.

Traps: what has effects keeps its order, so a sum moves over no effect but other sums. What needs a result of a small bucket is
held back until the bucket is sent; what needs one of a large bucket is not, for that would keep much alive. Segments of paths
(jitted/path_segments.py) run equation by equation when they are recorded, so their sums stay apart (`APART`).
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Var, subjaxprs
from funcad.passes.subprograms import kind_of, with_subprograms
from funcad.primitives.axis_env import (
    Agreement,
    CollectiveCall,
    Started,
    agree_on_p,
    finish_sums_p,
    start_sums_p,
    sum_over_p,
    sums_over_p,
)  # fmt: skip

APART = "sums apart"  # in the memo of a program: its sums are not joined
SMALL = 1 << 15  # bytes of a bucket, from which on time goes into sending and not into waiting
FIRST, FULL = 1 << 20, 25 << 20  # bytes of the first bucket of a program, and of others: time to send is to begin early


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
    """The program whose sums are in buckets, also in its loops, branches and calls."""
    found: Any = jaxpr.memo.get("joined")
    if found is None:
        found = _NOTHING
        if _calls(jaxpr):
            equations = [with_subprograms(e, joined) for e in jaxpr.equations]
            if not jaxpr.memo.get(APART):
                equations = _Buckets().filled(_early(equations))
            if any([a is not b for a, b in zip(equations, jaxpr.equations)]) or len(equations) != len(jaxpr.equations):
                found = Jaxpr(jaxpr.inputs, tuple(equations), jaxpr.outputs)
                found.memo["joined"] = _NOTHING
        found = jaxpr.memo.setdefault("joined", found)
    return jaxpr if found is _NOTHING else found


def _early(equations: list[Equation]) -> list[Equation]:
    """Each sum behind what its operand is made by, but behind the last effect before it."""
    order: list[tuple[tuple[int, int, int], Equation]] = []
    made: dict[Any, int] = {}  # variable -> the place of what makes it
    effect = -1
    for i, e in enumerate(equations):
        sums = [e] if e.primitive is sum_over_p else _apart(e) if e.primitive is sums_over_p else ()
        for one in sums:
            made[one.outputs[0]] = ready = max(effect, made.get(one.inputs[0], -1) if type(one.inputs[0]) is Var else -1)
            order.append(((ready, 1, i), one))
        if not sums:
            effect = i if _has_effects(e) else effect
            made.update(dict.fromkeys(e.outputs, i))
            order.append(((i, 0, i), e))
    order.sort(key=lambda one: one[0])
    return [e for _, e in order]


def _apart(e: Equation) -> list[Equation]:
    params = {"call": e.params["call"]._replace(more=None)}
    return [Equation(sum_over_p, (a,), params, (v,), e.source) for a, v in zip(e.inputs, e.outputs)]


def _has_effects(e: Equation) -> bool:
    return e.primitive.effect or any([j.has_effects for j in subjaxprs(e.params)])


class _Buckets:
    """The equations of a program as they are written anew, and the sums among them that are not done."""

    def __init__(self) -> None:
        self.done: list[Equation] = []
        self.open: list[Equation] = []  # sums that wait for more of them
        self.waiting: list[Equation] = []  # what needs results of these
        self.held: set[Var] = set()  # the results of both
        self.flying: dict[Var, tuple[list[Equation], int]] = {}  # the number of a sum that was started -> what, where in `done`
        self.full = FIRST

    def filled(self, equations: list[Equation]) -> list[Equation]:
        for e in equations:
            inputs = [a for a in e.inputs if type(a) is Var]
            free = self.held.isdisjoint(inputs)
            if e.primitive is sum_over_p:
                if self.open and not (free and _alike(self.open[0], e)):
                    self.send()
                self.land(inputs)
                self.open.append(e)
                self.held.update(e.outputs)
                if _bytes(self.open) >= self.full:
                    self.send()
            elif free and not _has_effects(e):
                self.land(inputs)
                self.done.append(e)
            elif _has_effects(e) or _bytes(self.open) > SMALL:
                self.send()
                self.land(inputs)
                self.done.append(e)
            else:
                self.waiting.append(e)
                self.held.update(e.outputs)
        self.send()
        self.land(None)
        return self.done

    def send(self) -> None:
        """Start the open bucket; a small one is waited for at once."""
        group, waiting = self.open, self.waiting
        if not group:
            return
        self.open, self.waiting = [], []
        self.held.clear()
        if _bytes(group) <= SMALL:
            self.done.append(_one(group, sums_over_p, [e.outputs[0] for e in group]))
        else:
            self.full = FULL
            number = Var(Aval((), np.dtype(np.int64)))
            self.done.append(_one(group, start_sums_p, [number]))
            self.flying[number] = group, len(self.done)
        for e in waiting:
            self.land([a for a in e.inputs if type(a) is Var])
            self.done.append(e)

    def land(self, needed: list[Var] | None) -> None:
        """Wait for the sums whose results are needed, after the start of what is ready; None: for all."""
        hit = [n for n, (group, _) in self.flying.items() if needed is None or any([e.outputs[0] in needed for e in group])]
        if hit and _bytes(self.open) > SMALL:
            self.send()
        for number in hit:
            if number not in self.flying:
                continue
            group, place = self.flying.pop(number)
            outputs = [e.outputs[0] for e in group]
            if place == len(self.done):  # nothing was done meanwhile
                self.done[-1] = _one(group, sums_over_p, outputs)
                continue
            kept = [group[0].inputs[0]] if len(group) == 1 else []  # it is sent from where it lies
            of = Started(group[0].params["call"].comm, tuple([v.aval for v in outputs]))
            self.done.append(Equation(finish_sums_p, (number, *kept), {"of": of}, tuple(outputs), group[0].source))


def _bytes(group: list[Equation]) -> int:
    return sum([e.outputs[0].aval.size * e.outputs[0].aval.dtype.itemsize for e in group])


def _alike(a: Equation, b: Equation) -> bool:
    return a.params["call"].comm is b.params["call"].comm and a.outputs[0].aval.dtype == b.outputs[0].aval.dtype


def _one(group: list[Equation], primitive: Any, outputs: list[Var]) -> Equation:
    """One sum for all; `primitive`: sums_over_p, or that which starts them."""
    first = group[0]
    if len(group) == 1 and primitive is sums_over_p:
        return first
    calls = [e.params["call"] for e in group]
    lines = list(dict.fromkeys([call.line for call in calls]))
    place = zlib.crc32(" ".join([str(call.place) for call in calls]).encode()) if len(lines) > 1 else calls[0].place
    line = lines[0] if len(lines) == 1 else f"{lines[0]} to {lines[-1]}"
    shapes = tuple([e.outputs[0].aval.shape for e in group])
    call = calls[0]._replace(more=shapes, line=line, place=place)
    return Equation(primitive, tuple([e.inputs[0] for e in group]), {"call": call}, tuple(outputs), first.source)


# ---------------------------------------------------------------- one comparison for many


class _Sequence(NamedTuple):
    """The collectives that an equation calls in any case: their communicator, texts of all and of their places, how many, ...

    ... the first one, and loops: (how many collectives come before it, how many loops begin with it inside, its turns).
    """

    comm: Any
    text: str
    places: str
    count: int
    first: str
    where: str
    place: int
    loops: tuple[tuple[int, int, int], ...]


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
            whole = _one_after_the_other([s for _, s in run])
            every, places = zlib.crc32(whole.text.encode()), zlib.crc32(whole.places.encode())
            agreement = Agreement(first.comm, first.first, every, first.place, places, count, first.where, whole.loops)
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
        return _Sequence(call.comm, tag, str(call.place), 1, tag, call.where(x), call.place, ())
    if not equation.primitive.multiple or not any(map(_calls, subjaxprs(equation.params))):
        return None
    kind, params = kind_of(equation), equation.params
    if kind == "call" or kind == "custom":
        return _sequence_in(params["jaxpr"])
    if kind != "loop" or params["loop"].length is None:
        return _UNKNOWN
    found, turns = _sequence_in(params["loop"].body), params["loop"].length
    if found is None or not turns:
        return None
    if found is _UNKNOWN:
        return found
    height = 1 + max([h for before, h, _ in found.loops if before == 0], default=-1)
    texts = {"text": f"{turns} times ({found.text})", "places": f"({found.places})"}
    return found._replace(count=turns * found.count, loops=((0, height, turns), *found.loops), **texts)


def _sequence_in(jaxpr: Jaxpr) -> Any:
    found = [s for s in map(_sequence_of, jaxpr.equations) if s is not None]
    if not found:
        return None
    if _UNKNOWN in found or any([s.comm is not found[0].comm for s in found]):
        return _UNKNOWN
    return _one_after_the_other(found)


def _one_after_the_other(found: list[_Sequence]) -> _Sequence:
    loops, count = [], 0
    for s in found:
        loops += [(count + before, height, turns) for before, height, turns in s.loops]
        count += s.count
    texts = {"text": " ".join([s.text for s in found]), "places": " ".join([s.places for s in found])}
    return found[0]._replace(count=count, loops=tuple(loops), **texts)


class _SentAval(NamedTuple):
    shape: tuple
    dtype: Any


def _packed(equation: Equation) -> Any:
    """What is sent: the operand, or the operands of a sum of several as one."""
    avals = [a.aval for a in equation.inputs]
    return avals[0] if len(avals) == 1 else _SentAval((sum([a.size for a in avals]),), avals[0].dtype)


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
