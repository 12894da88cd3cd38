"""Programs in plain NumPy with Python's control flow on values, under every transformation (tests/whole/control has them).

`python -m tests.whole.control` prints the table of all programs and transformations.
"""

from __future__ import annotations

import pytest

from tests.whole.control.cases import PROGRAMS
from tests.whole.control.judged import by_differences, has_slopes, plain
from tests.whole.control.program import Program
from tests.whole.control.transformations import TRANSFORMATIONS

# ---------------------------------------------------------------- are these tests?


@pytest.mark.parametrize("program", PROGRAMS, ids=[p.name for p in PROGRAMS])
@pytest.mark.filterwarnings("ignore:grad. the output of")
def test_plain_python_gives_a_reference(program: Program) -> None:
    """Inputs end in different ways; funcad's un-jitted gradients, with which all others are compared, are the differences'."""
    every = range(len(program.inputs))
    ends = {repr((plain(program, k).value, plain(program, k).error, plain(program, k).said)) for k in every}
    assert len(ends) > 1
    if has_slopes(program):
        TRANSFORMATIONS["grad"](program)
        seen = [
            by_differences(program, k) is not None for k in every if k not in program.apart and plain(program, k).error is None
        ]
        assert any(seen) or not seen, "no input lies where differences can see the slope"


def test_there_are_enough_of_them() -> None:
    assert len(PROGRAMS) > 100 and sum([len(p.inputs) for p in PROGRAMS]) > 300
    assert sum([has_slopes(p) for p in PROGRAMS]) > 60
    assert sum([len(p.apart) == len(p.inputs) for p in PROGRAMS]) < 10
    assert sum([p.speaks for p in PROGRAMS]) > 5
    assert sum([any([plain(p, k).error is not None for k in range(len(p.inputs))]) for p in PROGRAMS]) > 12
