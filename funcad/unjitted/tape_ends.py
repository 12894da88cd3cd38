"""The end of a tape: a program that was found by its rows, or their rules.

Idea: when the function has returned, `find` looks for a program by the key of the rows, and `pull` runs it; where there is
none, and when an operation came that has no row, `flush` lets the rules of the rows run. Invariant: nothing that has been
computed is computed again. Where outer traces have a part in the values (nested.py), `flush` tells them each operation together
with its known result, and from then on what the function holds has outer tracers behind it. Trap: tracers hold rows, so a row
changes in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funcad.host.devices import restore_warnings, suppress_warnings
from funcad.host.where import Source, state
from funcad.ir.aval import aval_of
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.trace import AbstractTrace
from funcad.ir.tracer import Tracer
from funcad.masks.masked_rules import rule_of
from funcad.memo import table
from funcad.unjitted import chunks, nested, structural
from funcad.unjitted.apart import worth
from funcad.unjitted.following import bind_known
from funcad.unjitted.nested import with_value
from funcad.unjitted.structural import MAX_EQUATIONS, UNSEEN, cached, forgetting
from funcad.unjitted.tape import Tape
from funcad.unjitted.tape_program import derive, derive_columns, derive_linear, maker, results_by
from funcad.unjitted.tape_rows import MAX_ROWS
from funcad.unjitted.tape_steps import INNER, RESULT, SPLIT, STEP, wiring

_NEVER = None, None
_last = table(
    "unjitted.last",
    "kind: the key that was found last, and its program, which a loop finds without hashing",
)
forgetting(_last.clear)


def flush(tape: Tape, recording: AbstractTrace) -> None:
    """Let the rules run; from then on the tangents are those that they gave."""
    recording.level = tape.level
    values, lifted = tape.values, tape.lifted
    trace, known, traced = tape.trace, dict(tape.made), list(tape.traced or ())
    saved, token = state.source, suppress_warnings()
    try:
        steps = wiring(tape)
        inputs = tape.places[: tape.first]
        outer: list[Any] = [lifted.get(place) for place in inputs]  # of each row: the outer tracer of its value
        settled: list[Any] = [recording.new_input(aval_of(values[place]).update()) for place in inputs]
        trace.settled, trace.made = settled, known
        for number, step in enumerate(steps, tape.first):
            source = tape.sources[number - tape.first]
            state.source = source and Source(*source)
            if step.primitive is not RESULT:
                primals = [values[place] for place, _ in step.operands]
                several = step.primitive.multiple
                out = values[step.first : step.first + step.many] if several else values[step.result]
                if lifted:
                    above = [lifted.get(place) if n is None else outer[n] for place, n in step.operands]
                    primals = [p if x is None else with_value(x, p) for p, x in zip(primals, above)]
                    out = bind_known(step.primitive, primals, step.params, step.shape, out)
                given = [None if n is None else settled[n] for _, n in step.operands]
                made = maker(tape, step.primitive, step.operands, primals, step.params, step.shape)
                tangents = results_by(step, values, given, rule_of, primals, out)
                results = out if several else [out]
            i = step.result - step.first
            settled.append(tangents[i])
            if made is not None:
                known.setdefault(number, made)
            outer.append(results[i] if type(results[i]) is Tracer else None)
        for x in {id(x): x for x in traced}.values():  # one that was written into stands there for each write
            if outer[x.tangent] is not None:
                x.primal = with_value(outer[x.tangent], x.primal)
    finally:
        state.source = saved
        restore_warnings(token)
    tape.forget()


def find(tape: Tape, ends: Sequence[Any], how: str) -> bool:
    """Is there a program for these rows and the tangents `ends` of the differentiated outputs? Otherwise `flush`."""
    if len(tape.places) == tape.first or not ends or not how:
        return False
    cut = how == "tape" and len(ends) == 1 and not tape.lifted
    if tape.apart:
        worth(tape, cut)
    if cut and (tape.apart or len(tape.places) >= chunks.CHUNKED):
        tape.found = chunks.chunks_of(tape, ends)
        return True
    if tape.apart:
        return False
    if len(tape.places) > (MAX_EQUATIONS if how == "linear" else MAX_ROWS):
        return False
    key = [how, *tape.key, tape.first, *tape.steps, *ends]
    derived = _DERIVED[how]
    if tape.lifted:
        kind, derived = nested.kind_of(tape, how)
        if derived is None or SPLIT in tape.steps[::STEP]:
            return False
        how = kind[0]
        key[:1] = kind
    known, found = _last.get(how, _NEVER)
    if known == key:
        tape.found = found
        return True
    sights = None
    if how == "jvp":
        sights = structural.SIGHTS + 1  # it takes longer
    elif how == "columns" and INNER in tape.steps[::STEP]:
        sights = 1  # until the inner gradient had its program, it came by the rules
    tape.found = found = cached(tuple(key), lambda: derived(tape, ends), sights)
    if found is UNSEEN or found is False:
        return False
    _last[how] = key, found
    return True


_DERIVED: dict[str, Callable[..., Any]] = {"tape": derive, "columns": derive_columns, "linear": derive_linear}


def pull(tape: Tape, given: Sequence[Any], outs: list[Any]) -> Sequence[Any]:
    """What the program that was found gives: of kind "tape", cotangents of the inputs (None: zero) for those `given`.

    Of `outs`, the results of the function, those that outer traces trace become so.
    """
    if type(tape.found) is chunks.Chunks:
        return chunks.pull(tape, given)
    run, nonzero = tape.found[0], tape.found[1]
    if tape.lifted:
        return nested.pull(tape, given, outs)
    values = [*tape.values, *given]
    tape.forget()
    if all(nonzero):
        return run(values)
    outputs = iter(run(values))
    return [next(outputs) if z else None for z in nonzero]


def linear_of(tape: Tape) -> tuple[Jaxpr, list[Any]]:
    """What was found of kind "linear": the tangent program, and its leading inputs."""
    run, linear, sources = tape.found
    computed = run(list(tape.values)) if min(sources, default=0) < 0 else ()
    residuals = [tape.values[i] if i >= 0 else computed[~i] for i in sources]
    tape.forget()
    return linear, residuals
