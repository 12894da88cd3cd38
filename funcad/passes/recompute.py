"""What a loop keeps for the loop of its derivative, and what that one computes again.

Idea: reverse mode collects, turn by turn, every value that a linear rule reads. Many of them are a few operations away from
others: of a step of `exp(-h * h)` it is enough to keep h and the exponential. A value that one scan collects and that only
another one of the same length reads is computed again there, if the arithmetic per element is cheap (CHEAP) and starts from
what is there anyway: other values that are kept, constants, what both loops read. The carry as it came in is collected for
this purpose where that makes what is kept smaller in total. A loop that keeps a carry as it came in and as it goes out keeps
one array twice, shifted by a turn: the loop that goes back carries what it read a turn before. Arithmetic that stands between
the loops, on the rows of all turns, is done in the reader.

Invariants: the same equations on the same values, so the same bits; only where what is kept leaves the caches (LARGE) and
turns work on whole arrays (FEW_ELEMENTS), or on single numbers, or are machine code: for a few elements another call costs
more than memory. Trap: this undoes what `hoist` does, so it runs after it, and last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, split
from funcad.passes.rewrite import uses_of
from funcad.passes.roll import compiles_numbers
from funcad.primitives.atoms import ELEMENTARY, atoms_of
from funcad.primitives.loop import Loop
from funcad.primitives.shape import broadcast_in_dim

CHEAP = 6  # operations of arithmetic per element
NUMBERS = 2  # the same, of a number: to collect and to read one costs as much
SLOW = frozenset(["div", "reciprocal", "sqrt", "mod", "floor_divide", "fmod", "integer_pow"])  # count as CHEAP - 1
FEW_ELEMENTS = 512  # elements
LARGE = 256 * 1024  # bytes of all turns together


class _Choice(NamedTuple):
    """Which values are computed again, and which are newly collected."""

    dropped: list[Var]
    carried: list[Var]
    bytes: int  # that are kept per turn


def recompute(jaxpr: Jaxpr) -> Jaxpr:
    """The program with less kept between its loops."""
    equations, changed = list(jaxpr.equations), False
    if compiles_numbers():
        equations = _read_as_made(equations, jaxpr.outputs)
        changed = len(equations) < len(jaxpr.equations)
    made = {v: i for i, e in enumerate(equations) if _is_scan(e) for v in e.outputs}
    for j, reader in enumerate(equations):
        if not _is_scan(reader):
            continue
        loop: Loop = reader.params["loop"]
        for i in dict.fromkeys([made[x] for x in loop.split(reader.inputs)[2] if x in made]):
            if equations[i].params["loop"].length == loop.length:
                for less in (_between, _kept_once):
                    found = less(equations[i], equations[j], uses_of(Jaxpr((), tuple(equations), jaxpr.outputs)))
                    if found is not None:
                        equations[i], equations[j] = found
                        changed = True
    return Jaxpr(jaxpr.inputs, tuple(equations), jaxpr.outputs) if changed else jaxpr


def _is_scan(equation: Equation) -> bool:
    return equation.primitive.name == "loop" and equation.params["loop"].length is not None


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
    large = [v for v in alone if kept[v].aval.size >= FEW_ELEMENTS or kept[v].aval.shape and compiles_numbers()]
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


def _kept_once(maker: Equation, reader: Equation, uses: Any) -> tuple[Equation, Equation] | None:
    """Both loops, if the first keeps a carry before and after each turn and the second goes back over the turns."""
    first, second = maker.params["loop"], reader.params["loop"]
    if first.reverse == second.reverse:
        return None
    consts, carry, xs = second.split(reader.inputs)
    own_consts, own_carry, own_xs = second.split(second.body.inputs)
    new_carry, ys = split(second.body.outputs, second.n_carry)
    kept = {o: v for v, o in zip(maker.outputs[first.n_carry :], first.body.outputs[first.n_carry :]) if type(o) is Var}
    gone = set()
    results, rest = split(reader.outputs, second.n_carry)
    for last, old, new in zip(maker.outputs, first.carried(first.body.inputs), first.body.outputs):
        if old is new or old not in kept or kept.get(new) not in xs or uses[kept[new]] != 1 or last.aval != new.aval:
            continue
        gone.add(kept[new])
        if kept[old] not in xs:
            xs.append(kept[old])
            own_xs.append(Var(new.aval))
        k = xs.index(kept[new])
        carry.append(last)
        own_carry.append(own_xs[k])
        new_carry.append(own_xs[xs.index(kept[old])])
        results.append(Var(new.aval))
        del xs[k], own_xs[k]
    if not gone:
        return None
    pairs = [(v, o) for v, o in zip(maker.outputs, first.body.outputs) if v not in gone]
    slim = first._replace(body=Jaxpr(first.body.inputs, first.body.equations, tuple([o for _, o in pairs])))
    body = Jaxpr((*own_consts, *own_carry, *own_xs), second.body.equations, (*new_carry, *ys))
    loop = second.with_body(body, len(consts), len(carry))
    reader = reader._replace(params={"loop": loop}, inputs=(*consts, *carry, *xs), outputs=(*results, *rest))
    return maker._replace(params={"loop": slim}, outputs=tuple([v for v, _ in pairs])), reader


def _read_as_made(equations: list[Equation], outputs: Sequence[Any]) -> list[Equation]:
    """The program whose loops do arithmetic on the rows of large arrays themselves, where nobody else reads what it gives."""
    makers = {e.outputs[0]: e for e in equations if len(e.outputs) == 1}
    uses = uses_of(Jaxpr((), tuple(equations), tuple(outputs)))
    taken: set[int] = set()
    found = []
    for reader in reversed(equations):
        if id(reader) in taken:
            continue
        loop = reader.params.get("loop")
        if type(loop) is Loop and loop.length is not None:
            consts, carry, xs = loop.split(reader.inputs)
            own_consts, own_carry, own_xs = loop.split(loop.body.inputs)
            inside: list[Equation] = []
            k = 0
            while k < len(xs):
                e = makers.get(xs[k])
                if e is None or uses[xs[k]] != 1 or not _is_row_arithmetic(e, xs):
                    k += 1
                    continue
                taken.add(id(e))
                row = own_xs.pop(k)
                del xs[k]
                for a in [a for a in e.inputs if type(a) is Var]:
                    if a in xs:
                        uses[a] -= 1
                    else:
                        xs.append(a)
                        own_xs.append(Var(Aval(a.aval.shape[1:], a.aval.dtype)))
                operands = tuple([own_xs[xs.index(a)] if type(a) is Var else a for a in e.inputs])
                inside.append(e._replace(inputs=operands, outputs=(row,)))
                k = 0  # what it reads, others can have, too
            if inside:
                inputs = (*own_consts, *own_carry, *own_xs)
                body = Jaxpr(inputs, (*inside[::-1], *loop.body.equations), loop.body.outputs)
                loop = loop.with_body(body, len(consts), len(carry))
                reader = reader._replace(params={"loop": loop}, inputs=(*consts, *carry, *xs))
        found.append(reader)
    return found[::-1]


def _is_row_arithmetic(e: Equation, xs: Sequence[Any]) -> bool:
    """Can a loop over the rows do this in its turns, without more to read or to keep?"""
    aval = e.outputs[0].aval
    if type(aval) is not Aval or len(aval.shape) < 2 or _bytes(e.outputs[0]) < LARGE or e.primitive.emit is None:
        return False
    operands = {a for a in e.inputs if type(a) is Var}
    alike = all([type(a.aval) is Aval and a.aval.shape == aval.shape and not a.aval.weak for a in operands])
    news = [a for a in operands if a not in xs]
    return bool(operands) and alike and sum(map(_bytes, news)) <= _bytes(e.outputs[0])
