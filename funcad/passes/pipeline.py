"""The pipeline: the passes in their order, and `optimize`, which runs them.

Idea: PIPELINE is read top to bottom; a pass is `Jaxpr -> Jaxpr` and returns its argument if it has nothing to do. The programs
inside loops, branches and checkpoints go through the same pipeline, by the entry `subprograms`, once the passes before it have
cut away what nobody needs of them; the second such entry finds only the bodies that were changed since. The result hangs on the
program that it was made of, so a body that several loops share is optimised once.

Invariants: outputs keep their avals, effects their order, equations their source; an optimised program is not optimised again.
Trap: a program that runs un-jitted in several `np.errstate`s numbers its equations, so it is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from funcad.configuration import config
from funcad.ir.aval import StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.ir.primitive import may_share
from funcad.passes.algebra import algebra, fast_algebra, fold
from funcad.passes.bools import bools
from funcad.passes.contract import contract
from funcad.passes.hoist import hoist
from funcad.passes.known_masks import known_masks
from funcad.passes.lower import lower
from funcad.passes.push import picks, push, signs
from funcad.passes.recompute import recompute
from funcad.passes.redundancy import cse, dce, forward, inline
from funcad.passes.rewrite import size_of
from funcad.passes.roll import compiles_numbers, roll
from funcad.passes.scatters import row_scatters, scatters
from funcad.passes.strong_numbers import strong_numbers
from funcad.passes.subprograms import called, kind_of, with_subprograms
from funcad.primitives.arithmetic import sub
from funcad.primitives.comparison import or_
from funcad.primitives.loop import Loop
from funcad.primitives.shape import broadcast_in_dim

Pass = Callable[[Jaxpr], Jaxpr]


def subprograms(jaxpr: Jaxpr) -> Jaxpr:
    """The program with the programs in it optimised."""
    return _inside(jaxpr, False)


def fast_subprograms(jaxpr: Jaxpr) -> Jaxpr:
    """The same under fast_math."""
    return _inside(jaxpr, True)


def _inside(jaxpr: Jaxpr, fast_math: bool) -> Jaxpr:
    if not any([e.primitive.multiple and kind_of(e) is not None for e in jaxpr.equations]):
        return jaxpr
    changed = False
    equations = []
    for equation in jaxpr.equations:
        found = with_subprograms(equation, lambda j: optimize(j, fast_math))
        changed = changed or found is not equation
        equations.append(found)
    return Jaxpr(jaxpr.inputs, tuple(equations), jaxpr.outputs) if changed else jaxpr


PIPELINE: tuple[Pass, ...] = (
    inline,  # calls become part of the program
    strong_numbers,  # Python's floats among doubles, which loops cannot carry
    roll,  # what repeats itself becomes a loop, before any other work is done on it
    fold,
    inline,  # branches whose index is known now
    dce,  # what nobody needs, before work is done on it
    known_masks,  # masks of derivatives that nothing changes any more
    forward,  # bodies learn what is constant
    hoist,  # work moves out of loops, before their bodies are written out in detail
    subprograms,  # the programs inside, by this pipeline
    forward,  # what they are now seen to hand through
    lower,  # composite operations written out
    bools,  # masks that became numbers on their way stay bools
    fold,
    algebra,
    push,  # views move to their readers
    fold,
    cse,
    dce,
    picks,  # and few elements are picked before they are worked on
    signs,  # negations move out of sums
    scatters,  # placements become one, known bounds slices
    row_scatters,  # one element of each row becomes a choice
    dce,
    contract,  # chains of products in the cheapest order, if fast_math allows
    subprograms,  # those that have become smaller
    recompute,  # what is cheap is not kept for the loops of derivatives
)
FAST_MATH: dict[Pass, Pass] = {algebra: fast_algebra, subprograms: fast_subprograms}  # what runs instead under fast_math
ONLY_FAST: frozenset[Pass] = frozenset([contract])
_ITSELF: Any = object()  # a program that no pass changes, for one kind of engine: another may find something to do


def optimize(jaxpr: Jaxpr, fast_math: bool = False) -> Jaxpr:
    """The program as the backends run it; the same results in fewer operations.

    Element operations give the same bits as in the program as traced, sums and products of matrices the same up to rounding;
    `fast_math` allows what is true of real numbers only.

    >>> import numpy as np, funcad
    >>> from funcad.passes.pipeline import optimize
    >>> f = funcad.grad(lambda x: np.sum(x * x))
    >>> print(optimize(funcad.make_jaxpr(f)(np.ones(3)).jaxpr))
    { lambda a:f64[3] . let
        b:f64[3] = add a a
      in (b,) }
    """
    if "is_optimized" in jaxpr.memo or jaxpr.modes:
        return jaxpr
    key = ("optimized", fast_math, compiles_numbers())
    found = jaxpr.memo.get(key)
    if found is None:
        found = _run(jaxpr, fast_math)
        if found is jaxpr:
            found = _ITSELF
        else:
            found.memo["is_optimized"] = True
            if fast_math:
                found.memo["fast_math"] = True  # for the engines
        found = jaxpr.memo.setdefault(key, found)
    return jaxpr if found is _ITSELF else found


def _run(jaxpr: Jaxpr, fast_math: bool) -> Jaxpr:
    printing = config.print == "passes"
    for each in PIPELINE:
        if each in ONLY_FAST and not fast_math:
            continue
        each = FAST_MATH.get(each, each) if fast_math else each
        start = perf_counter() if printing else 0.0
        found = each(jaxpr)
        if printing and found is not jaxpr:
            _print(each, jaxpr, found, perf_counter() - start)
        jaxpr = found
    return jaxpr


def _print(each: Pass, before: Jaxpr, after: Jaxpr, seconds: float) -> None:
    name = each.__name__
    print(f"# {name}: {size_of(before)} -> {size_of(after)} equations, {1e3 * seconds:.2f} ms\n{after}")


# -- results stay arrays of their own, whatever the passes found out about them
#
# A program that computes `x * 1.0` gives a new array; the simplified program would give x itself, and a caller who goes on with
# `y *= 2` would write into x, or fail, if x is a broadcast. The same holds for two results that turned out to be equal. So the
# engines compare the program as traced with the one that they run: a result that was an array of its own and is now an
# argument, a view of one, a repeated element or another result again is copied. Views that the user asked for stay views.


def _base(makers: dict[Var, Equation], atom: Any) -> tuple[Any, bool]:
    """What an output is a view of, and whether elements of it stand there more than once."""
    repeated = False
    while type(atom) is Var and atom in makers:
        maker = makers[atom]
        if not maker.primitive.multiple and may_share(maker):
            repeated = repeated or maker.primitive is broadcast_in_dim
            atom = maker.inputs[0]
            continue
        through = _start_of(maker, atom)
        if through is None:
            break
        atom, again = through
        repeated = repeated or again
    return atom, repeated


def _start_of(equation: Equation, output: Var) -> tuple[Any, bool] | None:
    """The operand that a call or a loop hands through, or gives a view of, as `_base` says it; None for an array of its own."""
    position = equation.outputs.index(output)
    inside = called(equation)
    if inside is not None:
        program, operands = inside
        base, repeated = _base({v: e for e in program.equations for v in e.outputs}, program.outputs[position])
        return (operands[program.inputs.index(base)], repeated) if base in program.inputs else None
    loop: Loop | None = equation.params["loop"] if kind_of(equation) == "loop" else None
    if loop is None or loop.cond is not None or position >= loop.n_carry:
        return None
    first, body, operands = loop.n_consts, loop.body, loop.counted(equation.inputs)[1]
    given = body.outputs[position]
    if loop.length == 0 or given is body.inputs[first + position]:
        return operands[first + position], False
    if loop.length is not None and given in body.inputs[:first]:  # what the loop captures, from the first turn on
        return operands[body.inputs.index(given)], False
    return None


def _hands_through(equation: Equation, output: Var) -> bool:
    """May this result of an equation be one of its operands?"""
    if not equation.primitive.multiple:
        return False
    position = equation.outputs.index(output)
    inside = called(equation)
    if inside is not None:
        return _borrowed(inside[0], position)
    loop: Loop | None = equation.params["loop"] if kind_of(equation) == "loop" else None
    if loop is None or loop.cond is not None:
        return True
    return position < loop.n_carry and _borrowed(loop.body, position)  # others are arrays of all steps


def _borrowed(jaxpr: Jaxpr, position: int) -> bool:
    """Is this output perhaps no array of its own?"""
    shared, _, repeated = _shared(jaxpr)[position]
    return shared or repeated


def _shared(jaxpr: Jaxpr) -> list[tuple[bool, bool, bool]]:
    """Of each output: may it share memory with an argument or itself, with an earlier output, and is it repeated elements?"""
    makers = {v: e for e in jaxpr.equations for v in e.outputs}
    inputs = set(jaxpr.inputs)
    earlier: set[Any] = set()
    found = []
    for o in jaxpr.outputs:
        if type(o) is not Var:
            found.append((False, False, False))
            continue
        base, repeated = _base(makers, o)
        several = base in makers and _hands_through(makers[base], base)
        found.append((several or base in inputs, base in earlier, repeated))
        earlier.add(base)
    return found


def copy_aliased_outputs(before: Jaxpr, after: Jaxpr) -> Jaxpr:
    """`after`, the optimised form of `before`, with copies where a result of `before` was an array of its own.

    >>> import numpy as np, funcad
    >>> from funcad.passes.pipeline import optimize
    >>> program = funcad.make_jaxpr(lambda x: x * 1.0)(np.ones(2)).jaxpr
    >>> print(copy_aliased_outputs(program, optimize(program)))
    { lambda a:f64[2] . let
        b:f64[2] = sub a 0
      in (b,) }
    """
    now = _shared(after)
    if before is after or not any(map(any, now)):
        return after
    makers = {v: e for e in after.equations for v in e.outputs}
    equations = list(after.equations)
    outputs = list(after.outputs)
    before = inline(before)
    copies: dict[Any, Var] = {}  # by the results of `before`
    for i, (was, is_shared) in enumerate(zip(_shared(before), now)):
        o = outputs[i]
        if before.outputs[i] in copies:
            outputs[i] = copies[before.outputs[i]]
            continue
        same = all([a or not b for a, b in zip(was, is_shared)])
        if same or isinstance(o.aval, StackAval) or o.aval.weak or o.aval.dtype.kind not in "biufc":
            continue
        copy = copies[before.outputs[i]] = Var(o.aval)
        primitive, zero = (or_, False) if o.aval.dtype.kind == "b" else (sub, 0)  # every bit stays as it is
        equations.append(Equation(primitive, (o, Literal(zero)), {}, (copy,), makers[o].source if o in makers else None))
        outputs[i] = copy
    if len(equations) == len(after.equations):
        return after
    found = Jaxpr(after.inputs, tuple(equations), tuple(outputs))
    found.memo.update({k: v for k, v in after.memo.items() if k in ("is_optimized", "fast_math")})
    return found


def pipeline_end(jaxpr: Jaxpr) -> Jaxpr:
    """The optimised program with results of its own: what the engines run, whole or in the groups of `batch.grouped`."""
    return copy_aliased_outputs(jaxpr, optimize(jaxpr, fast_math=bool(jaxpr.memo.get("fast_math"))))
