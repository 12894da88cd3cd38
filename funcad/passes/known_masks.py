"""Masks that settle: which elements of a loop's carry are structurally zero is known after a few turns.

Idea: a derivative carries masks beside its cotangents, which say where anything has come. They start as known bools, and most
follow from each other alone: nothing in the first turn, everything from the second or third turn on. So these turns are run
here, on the masks only. If they come to rest, the turns before that are written out in front of the loop, each with masks that
are known, and the loop goes on with the masks of its rest as constants. What chooses by them is no choice then, and what keeps
them up is gone.

Invariant: only bools that follow from known ones by formulas are taken as known, for all values of everything else; no function
of the user's, no draw and nothing of another process is asked while a program is compiled. Trap: what a written-out turn stores
for each turn would have to be joined with the others, so loops that store are only entered at rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import StackAval
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.passes.algebra import fold
from funcad.passes.redundancy import dce, row_of, splice
from funcad.passes.rewrite import Work, rewrite
from funcad.passes.subprograms import kind_of
from funcad.primitives.loop import Loop
from funcad.primitives.shape import broadcast_in_dim

MOST = 3  # turns that are written out
LEAST = 8  # turns of a loop for which it pays
LARGEST = 1 << 16  # elements of a mask that is run here


def known_masks(jaxpr: Jaxpr) -> Jaxpr:
    """The program whose loops know the masks that do not change any more.

    >>> import numpy as np, funcad
    >>> from funcad.passes.known_masks import known_masks
    >>> def f(x):
    ...     turn = lambda c, _: ((np.where(c[1], c[0] * x, 0.0), c[1] | True), None)
    ...     return funcad.scan(turn, (x, np.False_), length=9)[0][0]
    >>> loop = known_masks(funcad.make_jaxpr(f)(1.0).jaxpr).equations[-1].params["loop"]
    >>> loop.length, any([e.primitive.name == "or" for e in loop.body.equations])
    (8, False)
    """
    if not any([kind_of(e) == "loop" for e in jaxpr.equations]):
        return jaxpr
    return rewrite(jaxpr, _known_step)


def _known_step(work: Work, equation: Equation) -> list[Any] | None:
    loop: Loop | None = equation.params["loop"] if kind_of(equation) == "loop" else None
    if loop is None or loop.cond is not None or loop.body.has_effects:
        return None
    if loop.length is None or loop.length < LEAST:
        return None
    source = equation.source
    consts, carry, xs = loop.split(equation.inputs)
    const_vars, carry_vars, _ = loop.split(loop.body.inputs)
    known = _masks(work, consts, const_vars)
    start = _masks(work, carry, carry_vars)
    states = _states(loop, known, start)
    if len(states) > 1 and loop.n_ys or not known and not states[-1]:
        return None
    inputs, turns = list(equation.inputs), len(states) - 1
    for turn, masks in enumerate(states[:-1]):
        place = loop.length - 1 - turn if loop.reverse else turn
        rows = [row_of(work, x, place, source) for x in xs]
        given = dict(zip(loop.body.inputs, [*inputs[: len(inputs) - len(xs)], *rows]))
        given.update({v: _written(work, x, v, source) for v, x in masks.items()})
        operands = [given[v] for v in loop.body.inputs]
        found = splice(work, loop.body, operands, equation)
        if found is None:
            return None
        inputs[loop.n_consts : loop.n_consts + loop.n_carry] = found
    if turns:
        first = 0 if loop.reverse else turns
        part = (first, loop.length - turns, 1)
        rest = [row_of(work, x, part, source) for x in xs]
        inputs = [*inputs[: len(inputs) - len(xs)], *rest]
    body, masks = _at_rest(loop, known, states[-1]), states[-1]
    for k, v in enumerate(carry_vars, loop.n_consts):
        if v in masks:
            inputs[k] = _written(work, masks[v], v, source)
    params = {"loop": loop._replace(body=body, length=loop.length - turns)}
    work.keep(equation._replace(inputs=tuple(inputs), params=params))
    return list(equation.outputs)


def _masks(work: Work, atoms: Sequence[Any], inputs: Sequence[Var]) -> dict[Var, np.ndarray]:
    """The known masks that are given for these inputs."""
    found = {}
    for atom, v in zip(atoms, inputs):
        aval = v.aval
        if type(aval) is StackAval or aval.dtype != bool:
            continue
        made = work.definition(atom, broadcast_in_dim)
        literal = atom if made is None else made.inputs[0]
        if type(literal) is Literal and 0 < aval.size <= LARGEST:
            found[v] = np.full(aval.shape, literal.value)
    return found


def _states(loop: Loop, known: dict[Var, Any], start: dict[Var, Any]) -> list[dict[Var, Any]]:
    """What the carried masks are that follow from known ones, before each turn until nothing changes; the last one stays."""
    carry = dict(zip(loop.carried(loop.body.inputs), loop.body.outputs))
    reads = _read(loop.body, [carry[v] for v in start])
    masks = set(start)
    while gone := {v for v in masks if not reads[carry[v]] <= masks | known.keys()}:
        masks -= gone
    order = [v for v in carry if v in masks]
    outputs = tuple([carry[v] for v in order])
    program = dce(Jaxpr(loop.body.inputs, loop.body.equations, outputs))
    read = {a for e in program.equations for a in e.inputs} | set(program.outputs)
    inputs = [v for v in program.inputs if v in read]
    program = Jaxpr(tuple(inputs), program.equations, program.outputs)
    states = [{v: start[v] for v in order}]
    while order:
        now = {**known, **states[-1]}
        results = eval_jaxpr(program, [now[v] for v in inputs])
        state = dict(zip(order, map(np.asarray, results)))
        if all([np.array_equal(state[v], states[-1][v]) for v in order]):
            break
        states.append(state)
        if len(states) > MOST + 1:
            return [{}]
    return [{v: x for v, x in state.items() if x.all() or not x.any()} for state in states]


def _read(jaxpr: Jaxpr, outputs: Sequence[Any]) -> dict[Any, frozenset[Any]]:
    """The inputs that each of these values depends on, and None if not by formulas alone."""
    read: dict[Any, frozenset[Any]] = {v: frozenset([v]) for v in jaxpr.inputs}
    for e in jaxpr.equations:
        union = frozenset().union(*[read.get(a, frozenset()) for a in e.inputs])
        read.update(dict.fromkeys(e.outputs, union if _is_formula(e) else union | {None}))
    return {o: read.get(o, frozenset()) for o in outputs}


def _is_formula(equation: Equation) -> bool:
    primitive = equation.primitive
    formula = primitive.emit or primitive.reduction or primitive.reach
    return bool(formula) and not (primitive.effect or primitive.barrier)


def _at_rest(loop: Loop, known: dict[Var, Any], masks: dict[Var, Any]) -> Jaxpr:
    """The body for these masks, which hands its carried ones through."""
    body, names = loop.body, {}
    front = []
    for v, x in {**known, **masks}.items():
        literal, shape = Literal(np.bool_(x.flat[0])), v.aval.shape
        names[v] = Var(v.aval) if shape else literal
        if shape:
            params = {"shape": shape, "axes": ()}
            made = Equation(broadcast_in_dim, (literal,), params, (names[v],), None)
            front.append(made)
    named = lambda atoms: [names.get(a, a) for a in atoms]
    equations = [e._replace(inputs=tuple(named(e.inputs))) for e in body.equations]
    outs = named(body.outputs)
    for k, v in enumerate(loop.carried(body.inputs)):
        outs[k] = v if v in masks else outs[k]
    return dce(fold(Jaxpr(body.inputs, (*front, *equations), tuple(outs))))


def _written(work: Work, mask: np.ndarray, v: Var, source: Any) -> Any:
    literal, shape = Literal(np.bool_(mask.flat[0])), v.aval.shape
    if not shape:
        return literal
    return work.add(broadcast_in_dim, [literal], {"shape": shape, "axes": ()}, source)
