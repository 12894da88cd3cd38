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
from funcad.ir.jaxpr import Jaxpr
from funcad.passes.algebra import algebra, fast_algebra
from funcad.passes.contract import contract
from funcad.passes.cse import cse
from funcad.passes.dce import dce
from funcad.passes.fold import fold
from funcad.passes.forwarding import forward
from funcad.passes.hoist import hoist
from funcad.passes.inline import inline
from funcad.passes.lower import lower
from funcad.passes.picks import picks
from funcad.passes.push import push
from funcad.passes.recompute import recompute
from funcad.passes.rewrite import size_of
from funcad.passes.roll import compiles_numbers, roll
from funcad.passes.row_scatters import row_scatters
from funcad.passes.scatters import scatters
from funcad.passes.signs import signs
from funcad.passes.subprograms import kind_of, with_subprograms

__all__ = ["optimize", "PIPELINE", "subprograms", "fast_subprograms"]

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
    roll,  # what repeats itself becomes a loop, before any other work is done on it
    fold,
    inline,  # branches whose index is known now
    dce,  # what nobody needs, before work is done on it
    forward,  # bodies learn what is constant
    hoist,  # work moves out of loops, before their bodies are written out in detail
    subprograms,  # the programs inside, by this pipeline
    forward,  # what they are now seen to hand through
    lower,  # composite operations written out
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
