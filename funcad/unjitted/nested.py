"""A tape within another transform: Hessian-vector products and Hessians as programs found by the rows of the gradient.

Idea: the tape of an inner gradient takes the values behind the tracers of an outer trace (it *lifts* them), so its rows are
those of a plain gradient. At its end an outer trace in forward mode is handed the gradient and its tangent, both by one program
that was derived from the rows: their rules give tangents of all values, and the backward program is differentiated along them.
An outer tape gets one step (`Inner`), which its own program differentiates in the same way.

Invariants: f runs once, and the program does the derivative work only. Whatever has no program (outer traces of several levels,
masked or traced tangents) goes by the rules: `flush`. Trap: until then a tracer that the user holds has the bare value behind
it, so a tape that lifts knows all its tracers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funcad.host.where import state, user_source
from funcad.ir.aval import aval_of
from funcad.ir.jaxpr import prune
from funcad.ir.trace import AbstractTrace
from funcad.ir.tracer import Tracer, tangent_of
from funcad.masks.masked_rules import apart_of, joined, masked_rule, owned, rule_of
from funcad.masks.masks import Masked
from funcad.transforms.jvp import jvp_eval
from funcad.unjitted.structural import compiled
from funcad.unjitted.tape_program import LinearTrace, backward, input_like, tangents_by
from funcad.unjitted.tape_steps import Step, wiring


def with_value(x: Any, value: Any) -> Any:
    """The value; for a traced x (not an abstract one) the same tracer with this value behind it."""
    if type(x) is not Tracer:
        return value
    if x.owner.settle is not None:
        x.owner.settle(x)
    trace = x.owner
    result = trace.again(x)
    result.primal = with_value(x.primal, value)
    if trace.doubtful and not trace.linear:
        trace.doubtful.discard(id(result))  # it lies in memory as the value does
    return result


def can_lift(x: Any) -> bool:
    """May a tape take the array or number behind this tracer?"""
    while type(x) is Tracer:
        trace = x.owner
        if x.atom is not None or trace.closed or trace.reads is not None:
            return False
        x = x.primal
    return True


def _outer(tape: Any) -> Any:
    """The one trace that all lifted tracers belong to, if their primals are values; None otherwise."""
    (top, *others) = {id(x.owner): x.owner for x in tape.lifted.values()}.values()
    return top if not others and not any([type(x.primal) is Tracer for x in tape.lifted.values()]) else None


def kind_of(tape: Any, how: str) -> tuple[list, Any]:
    """What a program depends on besides the rows, and `derive(tape, ends)`; nothing if there is no program."""
    trace = _outer(tape)
    if how != "tape" or trace is None or trace.closed:
        return [], None
    returned = [x.tangent for x in tape.outs if x is not None]
    places = list(tape.lifted)
    if trace.linear:
        if trace.tape is None or trace.tape.lifted or not trace.tape.has_room(len(returned) + tape.first):
            return [], None
        return ["inner", *places, "returned", *returned], lambda tape, ends: _derive_inner(tape, ends, places, returned)
    tangents = list(map(tangent_of, tape.lifted.values()))
    if any([type(t) is Masked or type(t) is Tracer for t in tangents]):
        return [], None
    places = [place for place, t in zip(places, tangents) if t is not None]
    return ["jvp", *places, "returned", *returned], lambda tape, ends: _derive(tape, ends, places, returned)


def _pushed(
    steps: Sequence[Step], n: int, values: Sequence[Any], given: dict[int, Any], rule: Any
) -> tuple[list[Any], list[Any]]:
    """Tangents of the rows, after the `n` inputs, and of all places in `values`, if those of the lifted places are given."""
    tangents = tangents_by(steps, values, [given.get(i) for i in range(n)], given, rule)
    of_places: list[Any] = [None] * len(values)
    for step, t in zip(steps, tangents[n:]):
        for place, number in step.operands:
            of_places[place] = given.get(place) if number is None else tangents[number]
        of_places[step.result] = t
    return tangents, of_places


def _derive(tape: Any, ends: Sequence[Any], places: Sequence[int], returned: Sequence[int]) -> Any:
    """(run, what there is of each of its results, as `kinds_of` says it).

    Inputs: the values of the tape, cotangents of the ends, tangents of the lifted places. Results: tangents of the returned
    rows, the gradient, and its tangent; then the bools of their masks.
    """
    jaxpr, consts, nonzero = backward(tape, ends)
    trace = AbstractTrace("jvp")
    try:
        values = [input_like(trace, v) for v in tape.values]
        seeds = [trace.new_input(v.aval) for v in jaxpr.inputs[len(consts) + len(values) :]]
        given = {place: trace.new_input(aval_of(tape.values[place]).update()) for place in places}
        tangents, of_places = _pushed(wiring(tape), tape.first, values, given, masked_rule)
        primals = [*consts, *values, *seeds]
        outs, touts = jvp_eval(jaxpr, primals, [None] * len(consts) + of_places + [None] * len(seeds), masked=True)
        grads, moved = iter(outs), iter(touts)
        results = [tangents[i] for i in returned]
        results += [next(grads) if z else None for z in nonzero]
        results += [next(moved) if z else None for z in nonzero]
        kinds, parts = apart_of(results)
        derived, more = trace.jaxpr(parts)
    finally:
        trace.close()
    return compiled(prune(derived), more), kinds


class Inner:
    """An inner gradient as one step of an outer tape.

    Its results are the returned rows of its function and the gradient. The outer tape holds all values of the inner one, and
    the cotangents, from which alone the tangents of the results follow.
    """

    __slots__ = ("nonzero", "jaxpr", "consts", "steps", "first", "lifted", "returned", "n_values", "there")

    def __init__(self, tape: Any, found: tuple, lifted: Sequence[int], returned: Sequence[int]):
        self.jaxpr, self.consts, self.nonzero = found
        self.steps = wiring(tape)
        self.first = tape.first
        self.lifted = lifted  # places
        self.returned = returned  # rows
        self.n_values = len(self.jaxpr.inputs) - len(self.consts)
        avals = [v.aval for v in self.jaxpr.inputs[len(self.consts) + len(tape.values) :]]
        outer, inner = AbstractTrace("the backward pass"), LinearTrace("linearize")
        try:
            values = [*[input_like(outer, v) for v in tape.values], *[outer.new_input(a) for a in avals]]
            ts = [inner.new_input(aval_of(tape.values[place]).update()) for place in lifted]
            touts = self.tangents(values, ts, rule_of)
        finally:
            inner.close()
            outer.close()
        self.there = tuple([i for i, t in enumerate(touts) if t is not None])  # the results that have tangents

    def tangents(self, values: Sequence[Any], ts: Sequence[Any], rule: Any) -> list[Any]:
        """Tangents of the results, if `ts` are those of the lifted places."""
        tangents, of_places = _pushed(self.steps, self.first, values, dict(zip(self.lifted, ts)), rule)
        _, touts = jvp_eval(self.jaxpr, [*self.consts, *values], [None] * len(self.consts) + of_places, linear=True)
        return [*[tangents[n] for n in self.returned], *touts]


def _derive_inner(tape: Any, ends: Sequence[Any], places: Sequence[int], returned: Sequence[int]) -> Any:
    """(run, which inputs get a cotangent, the step)."""
    found = backward(tape, ends)
    return compiled(*found[:2]), found[2], Inner(tape, found, places, returned)


def pull(tape: Any, cotangents: Sequence[Any], outs: list[Any]) -> list[Any]:
    """The gradient as the outer trace traces it (None: zero); `outs` become so, too."""
    run, kinds, *inner = tape.found
    trace: Any = _outer(tape)
    values = [*tape.values, *cotangents]
    lifted = list(tape.lifted.values())
    n, returned = tape.first, [i for i, x in enumerate(tape.outs) if x is not None]
    tape.forget()
    if inner:
        results = [*[outs[i] for i in returned], *run(list(values))]
        results = trace.tape.call(inner[0], [x.tangent for x in lifted], values, results)
        there = iter(results[len(returned) :])
        grads = [next(there) if z else None for z in kinds]
    else:
        found = run(values + [t for t in map(tangent_of, lifted) if t is not None])
        m = len(kinds) - kinds.count(None)
        found = joined(kinds, [*found[:m], *map(owned, found[m:])])  # the bools may be the user's own
        source = state.source or user_source()
        pairs = zip([*[outs[i] for i in returned], *found[-2 * n : -n]], [*found[: len(returned)], *found[-n:]])
        results = [x if t is None else trace.result(x, t, source) for x, t in pairs]
        grads = results[len(returned) :]
    for i, x in zip(returned, results):
        outs[i] = x
    return grads
