"""Programs in plain NumPy with Python's control flow on values, under every transformation (tests/whole/control has them).

`python -m tests.whole.control` prints the table of all programs and transformations.
"""

from __future__ import annotations

import numpy as np
import pytest

from funcad import tree
from tests.whole.control.cases import PROGRAMS
from tests.whole.control.judged import by_differences, directions, has_slopes, plain, slopes
from tests.whole.control.program import Program

# ---------------------------------------------------------------- are these tests?


@pytest.mark.parametrize("program", PROGRAMS, ids=[p.name for p in PROGRAMS])
@pytest.mark.filterwarnings("ignore:grad. the output of")
def test_plain_python_gives_a_reference(program: Program) -> None:
    """Inputs end in different ways; funcad's un-jitted gradients, with which all others are compared, are the differences'."""
    every = range(len(program.inputs))
    ends = {repr((plain(program, k).value, plain(program, k).error, plain(program, k).said)) for k in every}
    assert len(ends) > 1
    if not has_slopes(program):
        return
    compared = 0
    for k in every:
        point, found = plain(program, k), slopes(program, k)
        assert type(found.error) is type(point.error) and str(found.error) == str(point.error)
        assert found.said == point.said or program.speaks and [s[0] for s in found.said] == [s[0] for s in point.said]
        if point.error is None and k not in program.apart:
            expected = by_differences(program, k)
            along = [np.sum(g * v) for g, v in zip(tree.leaves(found.value), tree.leaves(directions(program, 0)))]
            if expected is not None:
                assert abs(sum(along) - expected) <= 1e-5 * max(1.0, *np.abs(along)), f"{k}: {sum(along)}, {expected}"
                compared += 1
    assert compared or len(program.apart) == len(program.inputs), "no input lies where differences can see the slope"


def test_there_are_enough_of_them() -> None:
    assert len(PROGRAMS) > 100 and sum([len(p.inputs) for p in PROGRAMS]) > 300
    assert sum([has_slopes(p) for p in PROGRAMS]) > 60
    assert sum([len(p.apart) == len(p.inputs) for p in PROGRAMS]) < 10
    assert sum([p.speaks for p in PROGRAMS]) > 5
    assert sum([any([plain(p, k).error is not None for k in range(len(p.inputs))]) for p in PROGRAMS]) > 12
