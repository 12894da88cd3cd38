"""The backward program of a tape: what its steps mean for the derivative, derived once for all tapes of one key.

Idea: the rules of the rows run on a program's variables in place of values, in the order of the rows, and what they recorded is
transposed. Invariant: this gives the operations that the rules would have given at once; a rule that needs a value raises, and
then there is no program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.backends.engines import BYTES, broadcast_scalars
from funcad.host.locks import SMALL
from funcad.ir.aval import LiteralAval, aval_of
from funcad.ir.jaxpr import Jaxpr, Var, prune, used_inputs
from funcad.ir.trace import AbstractTrace
from funcad.ir.tracer import Tracer
from funcad.masks.masked_rules import push, rule_of
from funcad.memo import table
from funcad.primitives.families import keeps_operands
from funcad.primitives.loop import lead
from funcad.transforms.batch import batch_eval
from funcad.transforms.jvp import jvp_eval
from funcad.transforms.partial import drop_unused_residuals
from funcad.transforms.transpose import transpose_eval
from funcad.unjitted.deriving import LinearTrace
from funcad.unjitted.structural import compiled
from funcad.unjitted.tape_steps import INNER, READ, RESULT, SPLIT, STEP, Step, inputs_of, operands_of, params_of, wired, wiring


def maker_of(tape: Any, number: int) -> Any:
    """What made the value of a row that has not been flushed, see `Trace.made_by`."""
    if number in tape.made or number < tape.first:
        return tape.made.get(number)
    at = STEP * (number - tape.first)
    primitive, bits, shape, *given, _ = tape.steps[at : at + STEP]
    if primitive.square is None or not _may_turn(tape, number):
        return None
    steps = operands_of(*given)  # of a primitive with `square`, which has one result and operands of its own
    own = sum([type(a) is type or type(a) is tuple and type(a[-1]) is not int for a in steps])
    operands, _ = wired(steps, tape.places, tape.places[number] - own)
    primals = [tape.lifted.get(place, tape.values[place]) if n is None else tape.values[place] for place, n in operands]
    return maker(tape, primitive, operands, primals, params_of(tape.params, number, primitive, bits), shape)


def _may_turn(tape: Any, number: int) -> bool:
    """May the square of this row's result be known? Looks at numbers only: most squares are of other things."""
    steps, first = tape.steps, tape.first
    i = STEP * (number - first)
    while steps[i].square is not None:
        if steps[i].turns:
            return True
        found = [a[0] if type(a) is tuple else a for a in operands_of(*steps[i + 3 : i + 5])]
        numbers = [n for n in found if type(n) is int and n >= first]
        if not tape.made.keys().isdisjoint(numbers):  # of a large array: it is known
            return True
        if len(numbers) != 1:  # two are looked at by the fact itself
            return any([steps[STEP * (n - first)].square is not None for n in numbers])
        i = STEP * (numbers[0] - first)
    return False


def maker(tape: Any, primitive: Any, operands: Sequence[tuple], primals: Sequence[Any], params: dict, shape: Any) -> Any:
    """The same of operands given as by `wiring`, and their values; None if nobody will ask."""
    if primitive.square is None or tape.trace.closed or not tape.trace.turned:
        return None
    found = [p if n is None else Tracer(tape.trace, None, p, n) for p, (_, n) in zip(primals, operands)]
    if tape.traced is not None:
        tape.traced += [x for x, (_, n) in zip(found, operands) if n is not None]
    return (primitive, found, params, 0, shape) if keeps_operands(primitive, found, params) else None


def tangents_by(
    steps: Sequence[Step], values: Sequence[Any], given: Sequence[Any], lifted: dict[int, Any], rule: Any
) -> list[Any]:
    """Tangents of the inputs, which are `given`, and of the rows, by their rules; `lifted` has those of other operands.

    Those of reads are given, too.
    """
    reads, several = sum([step.primitive is READ for step in steps]), list[Any]()
    tangents, of_reads = list(given[: len(given) - reads]), iter(given[len(given) - reads :])
    for step in steps:
        if step.primitive is READ:
            several = [next(of_reads)]
        elif step.primitive is not RESULT:
            ts = [lifted.get(place) if n is None else tangents[n] for place, n in step.operands]
            several = results_by(step, values, ts, rule)
        tangents.append(several[step.result - step.first])
    return tangents


def results_by(
    step: Step, values: Sequence[Any], ts: Sequence[Any], rule: Any, primals: Sequence[Any] = (), out: Any = None
) -> list[Any]:
    """Tangents of all results of a step whose operands have the tangents `ts`."""
    if all([t is None for t in ts]):
        return [None] * step.many
    if step.primitive is INNER:
        return step.inner.tangents(values[step.first - step.inner.n_values : step.first], ts, rule)
    if step.primitive is SPLIT:
        n = step.inner.many
        return step.inner.tangents(values[step.first - n : step.first], ts[n:])
    if not primals:
        primals = [values[place] for place, _ in step.operands]
        out = list(values[step.first : step.first + step.many]) if step.primitive.multiple else values[step.result]
    found = rule(step.primitive, primals, ts, out, step.params, step.shape)
    return found if step.primitive.multiple else [found]


def linear_program(tape: Any, ends: Sequence[Any], outer: AbstractTrace) -> tuple[Jaxpr, list[Any]]:
    """The tangent program of the rows, and its leading inputs, which are recorded in `outer` from all `values` of the tape.

    ValueError where a rule gives no tangent, or needs values.
    """
    inner = LinearTrace("linearize")
    try:
        values = [input_like(outer, v) for v in tape.values]
        avals = [aval_of(tape.values[place]).update() for place in tape.places]
        given = [inner.new_input(avals[n]) for n in inputs_of(tape)]
        tangents = tangents_by(wiring(tape), values, given, {}, rule_of)
        for t, aval in zip(tangents, avals):
            if type(t) is not Tracer or t.owner is not inner or t.atom.aval != aval:
                raise ValueError("a rule gives no tangent")
        return inner.jaxpr([tangents[n] for n in ends])
    finally:
        inner.close()


def backward(tape: Any, ends: Sequence[Any]) -> tuple[Jaxpr, list[Any], list[bool]]:
    """(backward program, its constants, which inputs get a cotangent).

    Its inputs are the constants, all `values` of the tape, and cotangents of the results of the rows `ends`.
    """
    outer = AbstractTrace("the backward pass")
    try:
        linear, residuals = linear_program(tape, ends, outer)
        seeds = [outer.new_input(o.aval) for o in linear.outputs]
        n = len(inputs_of(tape))
        mask = [False] * len(residuals) + [True] * n
        outs = transpose_eval(linear, mask, residuals + [None] * n, seeds, all_linear=True)
        derived, consts = outer.jaxpr([o for o in outs if o is not None])
    finally:
        outer.close()
    return prune(derived), consts, [o is not None for o in outs]


def derive(tape: Any, ends: Sequence[Any]) -> Any:
    """(run, which inputs get a cotangent)."""
    jaxpr, consts, nonzero = backward(tape, ends)
    return ready(tape, jaxpr, consts), nonzero


def derive_linear(tape: Any, ends: Sequence[Any]) -> Any:
    """(run, tangent program, where its leading inputs are): places in `values`, or ~i of the i-th result of `run(values)`."""
    outer = AbstractTrace("the backward pass")
    try:
        linear, residuals = linear_program(tape, ends, outer)
        linear, residuals = drop_unused_residuals(prune(linear), residuals)
        places: dict[Any, int] = {v: i for i, v in enumerate(outer.inputs)}
        computed: list[Any] = []
        for x in residuals:
            if type(x) is not Tracer or x.atom not in places:
                if aval_of(x).weak:  # an engine would give it a dtype that counts
                    return False
                computed.append(x)
        derived, consts = outer.jaxpr(computed)
    finally:
        outer.close()
    k, sources = 0, []
    for x in residuals:
        place = places.get(x.atom) if type(x) is Tracer else None
        sources.append(~k if place is None else place)
        k += place is None
    equations = tuple([e._replace(source=None) for e in linear.equations])
    found = Jaxpr(linear.inputs, equations, linear.outputs)
    run = ready(tape, prune(derived), consts)
    run.size += 3 * BYTES * len(equations)  # its transpose hangs on it
    return run, found, sources


def ready(tape: Any, jaxpr: Jaxpr, consts: list[Any]) -> Any:
    """`compiled`; what represents large arrays that are not kept does not get to the program."""
    if not any([type(v) is np.ndarray and v.nbytes > SMALL for v in tape.values]):
        return compiled(jaxpr, consts)
    n = len(consts)
    places = [i for i, used in enumerate(used_inputs(jaxpr)[n:]) if used]
    inputs = (*jaxpr.inputs[:n], *[jaxpr.inputs[n + i] for i in places])
    return _Picking(compiled(Jaxpr(inputs, jaxpr.equations, jaxpr.outputs), consts), places)


class _Picking:
    __slots__ = ("run", "places", "size")

    def __init__(self, run: Any, places: list[int]):
        self.run = run
        self.places = places
        self.size = run.size

    def __call__(self, values: list[Any]) -> list[Any]:
        picked = [values[i] for i in self.places]
        values.clear()
        return self.run(picked)


def derive_columns(tape: Any, ends: Sequence[Any]) -> Any:
    """(run, which results depend on the inputs): of `values`, tangents of the ends for each row of the identity, in axis 0."""
    outer, one = AbstractTrace("jacfwd"), AbstractTrace("jacfwd")
    try:
        linear, residuals = linear_program(tape, ends, outer)
        avals = [v.aval for v in linear.inputs[len(residuals) :]]
        n, start, basis = sum([a.size for a in avals]), 0, []
        for a in avals:
            basis.append(np.eye(n, a.size, -start, a.dtype).reshape((n, *a.shape)))
            start += a.size
        inputs = [_input(one, v.aval) for v in linear.inputs]
        pushed, consts = one.jaxpr(push(linear, inputs[: len(residuals)], inputs[len(residuals) :], jvp_eval))
        batched = [False] * (len(consts) + len(residuals)) + [True] * len(basis)
        outs, flags = batch_eval(broadcast_scalars(pushed), n, [*consts, *residuals, *basis], batched)
        derived, consts = outer.jaxpr([o if b else lead(o, n) for o, b in zip(outs, flags)])
    finally:
        one.close()
        outer.close()
    return compiled(prune(derived), consts), [True] * len(outs)


_UNKNOWN = object()
_probed = table(
    "unjitted.probed",
    "primitive and kinds of operands: has its rule a tangent?",
    4096,
)


def gives_tangent(
    primitive: Any, primals: Sequence[Any], tangents: Sequence[Any], out: Any, params: Any, bits: bytes | None, shape: Any
) -> Any:
    """Has its rule a tangent for operands like these? None: it has none; False: the rule raises, or looks at values.

    Of a primitive with several results: the numbers of those that have tangents. It is asked once for parameters (by their
    `bits`) and operands of such kinds, with variables in the place of the values.
    """
    kinds = [x.dtype.char if type(x) is np.ndarray else type(x) for x in primals]
    key = (primitive, bits, shape is None, *kinds, *[t is None for t in tangents])
    found: Any = _probed.get(key, _UNKNOWN)
    if found is _UNKNOWN:
        outer, inner = AbstractTrace("the backward pass"), LinearTrace("linearize")
        try:
            values = [input_like(outer, v) for v in primals]
            given = [None if t is None else inner.new_input(aval_of(p).update()) for t, p in zip(tangents, primals)]
            like = [input_like(outer, o) for o in out] if primitive.multiple else input_like(outer, out)
            result = rule_of(primitive, values, given, like, params or {}, shape)
            results = result if primitive.multiple else [result]
            if not all([r is None or type(r) is Tracer and r.owner is inner for r in results]):
                found = False
            elif primitive.multiple:
                found = tuple([i for i, r in enumerate(results) if r is not None])
            else:
                found = None if result is None else True
        except Exception:  # whatever it is, it happens again where the operation stands
            found = False
        finally:
            inner.close()
            outer.close()
        found = _probed.put(key, found)
    return found


def input_like(trace: AbstractTrace, value: Any) -> Tracer:
    """An input that stands for a value of the tape."""
    return _input(trace, aval_of(value))


def _input(trace: AbstractTrace, aval: Any) -> Tracer:
    if type(aval) is not LiteralAval:
        return trace.new_input(aval)
    variable = Var(aval)  # a LiteralAval, so that it may stand beside shaped operands, as the scalar does
    trace.inputs.append(variable)
    return Tracer(trace, variable)
