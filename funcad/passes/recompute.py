"""What a loop keeps for the loop of its derivative, and what that one computes again.

Idea: reverse mode collects, turn by turn, every value that a linear rule reads. Many of them are a few operations away from
others: of a step of `exp(-h * h)` it is enough to keep h and the exponential. A value that one scan collects and that only
another one of the same length reads is computed again there, if the arithmetic per element is cheap (CHEAP) and starts from
what is there anyway: other values that are kept, constants, what both loops read. The carry as it came in is collected for
this purpose where that makes what is kept smaller in total.

Invariants: the same equations on the same values, so the same bits; only where what is kept leaves the caches (LARGE) and turns
work on whole arrays (SMALL), or on single numbers: for a few elements another call costs more than memory. Trap: this undoes
what `hoist` does, so it runs after it, and last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.passes.rewrite import uses_of
from funcad.primitives.atoms import ELEMENTARY, atoms_of
from funcad.primitives.loop import Loop
from funcad.primitives.shape import broadcast_in_dim

__all__ = ["recompute"]

CHEAP = 6  # operations of arithmetic per element
NUMBERS = 2  # the same, of a number: to collect and to read one costs as much
SLOW = frozenset(["div", "reciprocal", "sqrt", "mod", "floor_divide", "fmod", "integer_pow"])  # count as CHEAP - 1
SMALL = 512  # elements
LARGE = 256 * 1024  # bytes of all turns together


class _Choice(NamedTuple):
    """Which values are computed again, and which are newly collected."""

    dropped: list[Var]
    carried: list[Var]
    bytes: int  # that are kept per turn


def recompute(jaxpr: Jaxpr) -> Jaxpr:
    """The program with less kept between its loops."""
    equations = list(jaxpr.equations)
    made = {v: i for i, e in enumerate(equations) if _is_scan(e) for v in e.outputs}
    changed = False
    for j, reader in enumerate(equations):
        if not _is_scan(reader):
            continue
        loop: Loop = reader.params["loop"]
        for i in dict.fromkeys([made[x] for x in loop.split(reader.inputs)[2] if x in made]):
            if equations[i].params["loop"].length == loop.length:
                found = _between(equations[i], equations[j], uses_of(Jaxpr((), tuple(equations), jaxpr.outputs)))
                if found is not None:
                    equations[i], equations[j] = found
                    changed = True
    return Jaxpr(jaxpr.inputs, tuple(equations), jaxpr.outputs) if changed else jaxpr


def _is_scan(equation: Equation) -> bool:
    return equation.primitive.name == "scan" and equation.params["loop"].length is not None


def _bytes(v: Any) -> int:
    return int(v.aval.size * v.aval.dtype.itemsize)


def _cost(equation: Equation) -> float:
    """Operations per element; infinite for what is not arithmetic or a change of shape."""
    primitive = equation.primitive
    if primitive is broadcast_in_dim or primitive.reach == "moves":
        return 1.0
    if primitive.emit is None and primitive.name != "convert" or primitive.effect:
        return float("inf")
    atoms = atoms_of(equation)
    return sum([float("inf") if a in ELEMENTARY else CHEAP - 1.0 if a in SLOW else 1.0 for a in atoms]) or 1.0


def _between(maker: Equation, reader: Equation, uses: Any) -> tuple[Equation, Equation] | None:
    """Both loops, if something need not be kept between them."""
    first, second = maker.params["loop"], reader.params["loop"]
    body: Jaxpr = first.body
    consts, carry, xs = first.split(body.inputs)
    _, _, outer_xs = first.split(maker.inputs)
    read = second.split(reader.inputs)[2]
    kept = dict(zip(maker.outputs[first.n_carry :], body.outputs[first.n_carry :]))  # outside -> in the body
    between = [v for v in kept if v in read]
    alone = [v for v in between if uses[v] == 1 and type(kept[v]) is Var]
    large = [v for v in alone if kept[v].aval.size >= SMALL]
    if first.length * sum([_bytes(kept[v]) for v in large]) < LARGE:
        large = []
    alone = [v for v in alone if not kept[v].aval.shape or v in large]
    if not alone or body.has_effects:
        return None
    there = {*consts, *[x for x, o in zip(xs, outer_xs) if o in read], *[kept[v] for v in between if v not in alone]}
    definitions = {v: e for e in body.equations for v in e.outputs}
    place = {v: k for k, e in enumerate(body.equations) for v in e.outputs}
    candidates = sorted(dict.fromkeys([kept[v] for v in alone]), key=lambda v: place.get(v, -1))
    free = [v for v in carry if type(v.aval) is Aval and v not in there and v not in candidates]
    choices = [_chosen(candidates, there, more, definitions) for more in (set(), set(free))]
    choice = min(choices, key=lambda c: c.bytes)
    if not choice.dropped:
        return None
    return _rewritten(maker, reader, choice, {kept[v]: v for v in between}, there, definitions)


def _chosen(candidates: Sequence[Var], there: set, free: set, definitions: dict[Var, Equation]) -> _Choice:
    """In the order in which they are computed, what cannot be had from those before is kept."""
    known, dropped, carried = set(there), [], []
    total = 0
    for v in candidates:
        chain = _chain(v, known | free, definitions)
        if v in definitions and chain is not None:
            dropped.append(v)
            for c in dict.fromkeys([a for e in chain for a in e.inputs if a in free and a not in known]):
                known.add(c)
                carried.append(c)
                total += _bytes(c)
        else:
            known.add(v)
            total += _bytes(v)
    return _Choice(dropped, carried, total)


def _chain(v: Var, known: set, definitions: dict[Var, Equation]) -> list[Equation] | None:
    """The equations that compute a value from known ones, in order; None if that is not cheap."""
    limit = CHEAP * v.aval.size if v.aval.shape else NUMBERS
    found: dict[Var, Equation] = {}
    spent = 0.0

    def visit(a: Any) -> bool:
        nonlocal spent
        if type(a) is Literal or a in known:
            return True
        equation = definitions.get(a)
        if equation is None or len(equation.outputs) != 1:
            return False
        if a in found:
            return True
        spent += _cost(equation) * a.aval.size
        if spent > limit or not all([visit(x) for x in equation.inputs]):
            return False
        found[a] = equation
        return True

    return list(found.values()) if visit(v) else None


def _rewritten(
    maker: Equation, reader: Equation, choice: _Choice, between: dict[Any, Var], there: set, definitions: dict[Var, Equation]
) -> tuple[Equation, Equation]:
    first, second = maker.params["loop"], reader.params["loop"]
    body, target = first.body, second.body
    dropped = set(choice.dropped)
    gone = {between[o] for o in dropped}
    pairs = [(v, o) for v, o in zip(maker.outputs, body.outputs) if v not in gone]
    news = {c: Var(Aval((first.length, *c.aval.shape), c.aval.dtype)) for c in choice.carried}
    pairs += [(news[c], c) for c in choice.carried]
    slim = Jaxpr(body.inputs, body.equations, tuple([o for _, o in pairs]))
    maker = maker._replace(params={"loop": first._replace(body=slim)}, outputs=tuple([v for v, _ in pairs]))
    # in the other body: what stands for values of the first one
    consts, carry, xs = second.split(target.inputs)
    outer_consts, outer_carry, outer_xs = second.split(reader.inputs)
    outer_of_x = dict(zip(first.split(body.inputs)[2], first.split(maker.inputs)[2]))
    outer_of_const = dict(zip(first.split(body.inputs)[0], first.split(maker.inputs)[0]))
    by_outer = dict(zip(outer_xs, xs))
    names: dict[Any, Any] = {o: by_outer[v] for o, v in between.items() if o not in dropped}
    names |= {x: by_outer[o] for x, o in outer_of_x.items() if x in there and o in by_outer}
    for c, v in news.items():
        names[c] = Var(Aval(c.aval.shape, c.aval.dtype))
        xs.append(names[c])
        outer_xs.append(v)
    known = {*names, *outer_of_const}
    equations: list[Equation] = []
    for v in choice.dropped:
        for e in _chain(v, known, definitions) or ():
            for a in e.inputs:
                if a in outer_of_const and a not in names:
                    names[a] = Var(a.aval)
                    consts.append(names[a])
                    outer_consts.append(outer_of_const[a])
            (o,) = e.outputs
            known.add(o)
            name = by_outer[between[o]] if o in dropped else Var(o.aval)
            inputs = tuple([a if type(a) is Literal else names[a] for a in e.inputs])
            names[o] = name
            equations.append(Equation(e.primitive, inputs, e.params, (name,), e.source))
    left = [(x, o) for x, o in zip(xs, outer_xs) if o not in gone]
    inputs = (*consts, *carry, *[x for x, _ in left])
    whole = Jaxpr(inputs, (*equations, *target.equations), target.outputs)
    loop = second.with_body(whole, len(consts), len(carry))
    return maker, reader._replace(params={"loop": loop}, inputs=(*outer_consts, *outer_carry, *[o for _, o in left]))
