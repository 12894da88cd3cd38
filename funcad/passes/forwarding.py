"""Forwarding: what goes into a sub-program unchanged, and what comes out of it unchanged.

A literal operand is written into the body; an operand given twice is given once; a row of an array that is one value broadcast
is that value. A carry that the body hands on as it is, is no carry; an output that is an input, a literal or another output is
that. So bodies learn what is constant, loops write and read less, and equal values outside are equal inside, where CSE then
sees them. Invariant: the same equations run, on the same values, as often as before. Trap: stacks (loops of unknown length) may
be shorter than the loop, so what is stored in them is forwarded from output to output only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.passes.rewrite import Work, fits, recast, rewrite
from funcad.passes.subprograms import kind_of, split
from funcad.primitives.loop import Loop, WhileLoop
from funcad.primitives.shape import broadcast_in_dim

__all__ = ["forward"]


def forward(jaxpr: Jaxpr) -> Jaxpr:
    """The program with values handed past its sub-programs instead of through them.

    >>> import numpy as np, funcad
    >>> from funcad.passes.forwarding import forward
    >>> loop = lambda x: funcad.scan(lambda c, v: ((c[0] * v, c[1]), (v, c[1])), (1.0, 2.0), x)
    >>> program = forward(funcad.make_jaxpr(loop)(np.ones(3)).jaxpr)
    >>> print(program.equations[-1].params["loop"].body)
    { lambda a:f64[] b:f64[] . let
        c:f64[] = mul a b
      in (c,) }
    """
    for equation in jaxpr.equations:
        if equation.primitive.multiple:
            return rewrite(jaxpr, _step)
    return jaxpr


def _step(work: Work, equation: Equation) -> list[Any] | None:
    kind = kind_of(equation)
    rule = _RULES.get(kind) if kind is not None else None
    return None if rule is None else rule(work, equation)


class _Operands:
    """The operands of a sub-program that are the same at each run, and the inputs that stand for them, without repetitions."""

    def __init__(self, names: dict[Var, Any]):
        self.names = names  # what replaces an input inside
        self.atoms: list[Any] = []
        self.inputs: list[Var] = []
        self.seen: dict[Any, Var] = {}
        self.of: dict[Any, Any] = {}  # the operand that an input stands for

    def give(self, atom: Any, v: Var, literals: bool = True) -> None:
        if type(atom) is Literal:
            literal = recast(atom, v.aval) if literals else None
            if literal is not None:
                self.names[v] = literal
                return
        else:
            first = self.seen.setdefault(atom, v)
            if first is not v and fits(first.aval, v.aval):
                self.names[v] = first
                return
        self.atoms.append(atom)
        self.inputs.append(v)
        self.of[v] = atom


def _renamed(jaxpr: Jaxpr, names: dict[Var, Any], inputs: Sequence[Var], outputs: Sequence[Any]) -> Jaxpr:
    """The program with these inputs and outputs, in which `names` are replaced."""
    equations = jaxpr.equations
    if names:
        equations = tuple([
            e._replace(inputs=tuple([names.get(a, a) for a in e.inputs])) if any([a in names for a in e.inputs]) else e
            for e in equations
        ])  # fmt: skip
    return Jaxpr(tuple(inputs), equations, tuple([names.get(o, o) for o in outputs]))


def _row(work: Work, x: Any, source: Any) -> Any:
    """What each row of x is, if x is one value broadcast along its leading axis."""
    made = work.definition(x, broadcast_in_dim)
    if made is None or 0 in made.params["axes"]:
        return None
    (y,) = made.inputs
    shape, axes = made.params["shape"][1:], tuple([a - 1 for a in made.params["axes"]])
    if type(y) is Literal and not shape:
        return Literal(x.aval.dtype.type(y.value))
    if y.aval.shape == shape and axes == tuple(range(len(shape))) and not y.aval.weak:
        return y
    return work.add(broadcast_in_dim, (y,), {"shape": shape, "axes": axes}, source) if shape else None


def _repeated(work: Work, x: Any, aval: Aval, source: Any) -> Any:
    """x once per iteration, as an array of this aval."""
    if type(x) is Literal:
        x = Literal(aval.dtype.type(x.value))
    axes = tuple(range(1, len(aval.shape)))
    return work.add(broadcast_in_dim, (x,), {"shape": aval.shape, "axes": axes}, source)


def _scan(work: Work, equation: Equation) -> list[Any] | None:
    loop: Loop = equation.params["loop"]
    length = loop.length
    count, operands = loop.counted(equation.inputs)
    consts, carry, xs = loop.split(operands)
    const_vars, carry_vars, x_vars = loop.split(loop.body.inputs)
    carry_outs, y_outs = split(loop.body.outputs, loop.n_carry)
    carry_results, y_results = split(equation.outputs, loop.n_carry)
    names: dict[Var, Any] = {}
    results: dict[Var, Any] = {}
    fixed, rows = _Operands(names), _Operands(names)
    for a, v in zip(consts, const_vars):
        fixed.give(a, v)
    moving = []
    for a, v, o, r in zip(carry, carry_vars, carry_outs, carry_results):
        final = recast(a, r.aval) if o is v else None
        if final is None:
            moving.append((a, v, o, r))
        else:
            results[r] = final
            fixed.give(a, v)
    for a, v in zip(xs, x_vars):
        row = None if length is None else _row(work, a, equation.source)
        if row is None:
            rows.give(a, v, literals=False)
        else:
            fixed.give(row, v)
    kept = []
    first: dict[Any, Var] = {}
    for o, r in zip(y_outs, y_results):
        o = names.get(o, o)
        found: Any = None
        if type(o) is Literal:
            found = None if length is None else _repeated(work, o, r.aval, equation.source)
        else:
            known = first.setdefault(o, r)
            if known is not r:
                found = results.get(known, known)
            elif length is not None:
                x = rows.of.get(o)
                if x is not None:
                    found = x if fits(x.aval, r.aval) else None
                elif o in fixed.of:
                    found = _repeated(work, fixed.of[o], r.aval, equation.source)
        if found is None:
            kept.append((o, r))
        else:
            results[r] = found
    if not names and not results and len(rows.atoms) == len(xs):
        return None
    outs = [*[o for _, _, o, _ in moving], *[o for o, _ in kept]]
    body = _renamed(loop.body, names, [*fixed.inputs, *[v for _, v, _, _ in moving], *rows.inputs], outs)
    new = {"loop": loop.with_body(body, len(fixed.atoms), len(moving))}
    inputs = (*count, *fixed.atoms, *[a for a, _, _, _ in moving], *rows.atoms)
    outputs = (*[r for _, _, _, r in moving], *[r for _, r in kept])
    work.keep(Equation(equation.primitive, inputs, new, outputs, equation.source))
    return [results.get(r, r) for r in equation.outputs]


def _while(work: Work, equation: Equation) -> list[Any] | None:
    loop: WhileLoop = equation.params["loop"]
    cond, body = loop.cond, loop.body
    cond_consts, consts, carry = loop.split(equation.inputs)
    const_vars, carry_vars = split(body.inputs, loop.n_consts)
    test_vars, test_carry = split(cond.inputs, loop.n_cond)
    n_carry = len(carry)
    carry_outs, y_outs = split(body.outputs, n_carry)
    (count,), carry_results, y_results = split(equation.outputs, 1, n_carry)
    names: dict[Var, Any] = {}
    results: dict[Var, Any] = {}
    test_names: dict[Var, Any] = {}
    fixed, tested = _Operands(names), _Operands(test_names)
    for a, v in zip(consts, const_vars):
        fixed.give(a, v)
    for a, v in zip(cond_consts, test_vars):
        tested.give(a, v)
    moving = []
    for a, v, t, o, r in zip(carry, carry_vars, test_carry, carry_outs, carry_results):
        final = recast(a, r.aval) if o is v else None
        if final is None:
            moving.append((a, v, t, o, r))
        else:
            results[r] = final
            fixed.give(a, v)
            tested.give(a, t)
    kept = []
    first: dict[Any, Var] = {}
    for o, r in zip(y_outs, y_results):
        known = first.setdefault(o, r) if type(o) is Var else r
        if known is not r:
            results[r] = known
        else:
            kept.append((o, r))
    if not names and not test_names and not results:
        return None
    new_cond = _renamed(cond, test_names, [*tested.inputs, *[t for _, _, t, _, _ in moving]], cond.outputs)
    outs = [*[o for _, _, _, o, _ in moving], *[o for o, _ in kept]]
    new_body = _renamed(body, names, [*fixed.inputs, *[v for _, v, _, _, _ in moving]], outs)
    new = {"loop": WhileLoop(new_cond, new_body, len(tested.atoms), len(fixed.atoms), loop.budget)}
    inputs = (*tested.atoms, *fixed.atoms, *[a for a, *_ in moving])
    outputs = (count, *[r for *_, r in moving], *[r for _, r in kept])
    work.keep(Equation(equation.primitive, inputs, new, outputs, equation.source))
    return [results.get(r, r) for r in equation.outputs]


def _cond(work: Work, equation: Equation) -> list[Any] | None:
    found = _common(equation, equation.params["branches"], equation.inputs[1:])
    if found is None:
        return None
    branches, operands, outputs, results = found
    inputs = (equation.inputs[0], *operands)
    work.keep(Equation(equation.primitive, inputs, {"branches": branches}, outputs, equation.source))
    return [results.get(r, r) for r in equation.outputs]


def _call(work: Work, equation: Equation) -> list[Any] | None:
    found = _common(equation, (equation.params["jaxpr"],), equation.inputs)
    if found is None:
        return None
    (jaxpr,), operands, outputs, results = found
    work.keep(Equation(equation.primitive, tuple(operands), {**equation.params, "jaxpr": jaxpr}, outputs, equation.source))
    return [results.get(r, r) for r in equation.outputs]


def _common(equation: Equation, programs: tuple[Jaxpr, ...], operands: Sequence[Any]) -> tuple | None:
    """Programs of the same operands and results: (new programs, operands, outputs, what replaces the other outputs)."""
    names: list[dict[Var, Any]] = [{} for _ in programs]  # apart: programs may share variables, at different places
    places: dict[Any, int] = {}
    kept: list[int] = []
    for i, a in enumerate(operands):
        if type(a) is Literal:
            literals = [recast(a, p.inputs[i].aval) for p in programs]
            if all([x is not None for x in literals]):
                for mine, p, x in zip(names, programs, literals):
                    mine[p.inputs[i]] = x
                continue
        else:
            j = places.setdefault(a, i)
            if j != i and all([fits(p.inputs[i].aval, p.inputs[j].aval) for p in programs]):
                for mine, p in zip(names, programs):
                    mine[p.inputs[i]] = p.inputs[j]
                continue
        kept.append(i)
    given: list[dict[Any, Any]] = [dict(zip(p.inputs, operands)) for p in programs]
    results: dict[Var, Any] = {}
    outs: list[int] = []
    first: dict[tuple, Var] = {}
    for j, r in enumerate(equation.outputs):
        atoms = [p.outputs[j] for p in programs]
        sources = [g.get(o) for g, o in zip(given, atoms)]
        found: Any = None
        if sources[0] is not None and all([s is sources[0] for s in sources]):
            found = recast(sources[0], r.aval)
        elif all([type(o) is Var for o in atoms]):
            known = first.setdefault(tuple(atoms), r)
            found = None if known is r else known
        if found is None:
            outs.append(j)
        else:
            results[r] = found
    if not names[0] and not results:
        return None
    new = [_renamed(p, mine, [p.inputs[i] for i in kept], [p.outputs[j] for j in outs]) for p, mine in zip(programs, names)]
    return tuple(new), [operands[i] for i in kept], tuple([equation.outputs[j] for j in outs]), results


_RULES = {"scan": _scan, "while": _while, "cond": _cond, "call": _call}
