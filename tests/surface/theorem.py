"""Which derivatives of a case follow from other tests: `follows(case)`.

The derivatives and the batches of a traced program are those of its primitives, put together by the transforms. So where a case
is traced into certified primitives only (those with a line in tests/specs, all of whose rules tests/ir/test_every_primitive.py
checks), its jvp, vjp, second derivative and vmap follow from that file and from tests/whole/test_composition.py. They do not
follow where a rule is met that was written for one function: a custom rule, a solver's derivative, a callback, what cannot be
traced at all, or a function with a special point (funcad/numpy/dispatch.py).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from funcad.ir.jaxpr import Jaxpr, subjaxprs
from funcad.numpy.dispatch import POINTS
from tests.specs import all_specs
from tests.surface import Case
from tests.surface.checks import traced_or_none

__all__ = ["follows", "certified", "primitives_of"]

CUSTOM = {"root", "linear_solve"}  # in the table, but their derivative is that of an equation which the caller states


@functools.cache
def certified() -> frozenset[str]:
    """Names of the primitives that the tests of every primitive check."""
    return frozenset(p.name for op in all_specs() for p in op.primitives) - CUSTOM


def primitives_of(program: Jaxpr) -> Iterator[str]:
    """Names of all primitives of a program, those of the programs inside it too."""
    for equation in program.equations:
        yield equation.primitive.name
        for inner in subjaxprs(equation.params):
            yield from primitives_of(inner)


def follows(case: Case) -> bool:
    """Is the case traced into certified primitives only, far from functions with special points?"""
    if case.name in POINTS or case.name.replace("ndarray.", "numpy.") in POINTS:
        return False
    program = traced_or_none(case)
    return program is not None and set(primitives_of(program)) <= certified()
