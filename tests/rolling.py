"""What the tests of rolled loops share (passes/roll.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

import funcad
from funcad.backends.interpreter import Program
from funcad.diagnosis.recording import check_jaxpr
from funcad.ir.jaxpr import Jaxpr, subjaxprs
from funcad.passes.redundancy import inline
from funcad.passes.roll import roll
from tests.agreement import assert_close

__all__ = ["close", "lengths", "rolled"]


def lengths(jaxpr: Jaxpr) -> list[int]:
    """The turns of the loops that were found, those in loops too."""
    found = []
    for e in jaxpr.equations:
        if e.primitive.name == "loop":
            found.append(e.params["loop"].length)
        for sub in subjaxprs(e.params):
            found += lengths(sub)
    return found


def rolled(f: Any, *args: Any) -> Jaxpr:
    """The program of f with its loops; it computes what the program written out computes, bit by bit."""
    closed = funcad.make_jaxpr(f)(*args)
    before = inline(closed.jaxpr)
    after = roll(before)
    check_jaxpr(after)
    values = [*closed.consts, *funcad.tree_util.tree_leaves(args)]
    with funcad.config.set(engine="interpreter"):  # bodies, too, operation by operation
        results = zip(Program(before).run(list(values)), Program(after).run(list(values)), strict=True)
    for x, y in results:
        assert np.shape(x) == np.shape(y) and np.asarray(x).dtype == np.asarray(y).dtype
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
    return after


def close(found: Any, expected: Any, rtol: float) -> None:
    for x, y in zip(funcad.tree_util.tree_leaves(found), funcad.tree_util.tree_leaves(expected), strict=True):
        assert_close(x, y, rtol=rtol)
