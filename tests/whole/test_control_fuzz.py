"""Random programs of nested `if`, `while`, `for`, `try`, `match`, that write, speak and raise: plain Python's answers.

`python -m tests.whole.control.survey 200` draws others, and makes those small that are wrong.
"""

from __future__ import annotations

import pytest

from tests.whole.control.drawn import drawn, program_of, smaller, source_of, ways
from tests.whole.control.survey import RIGHT, judged

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_programs_take_several_ways(seed: int) -> None:
    """And have the slopes that differences have."""
    d = drawn(seed)
    found = ways(d)
    assert found is not None and len(set(found)) > 1
    assert judged(program_of(d), "grad") == RIGHT


def test_programs_are_made_small() -> None:
    """Down to the one line that matters, and one input."""
    seed = next(s for s in range(100) if "say('a', s)" in source_of(drawn(s).nodes))
    small = smaller(drawn(seed), lambda d: "say('a', s)" in source_of(d.nodes))
    assert len(small.nodes) == 1 and small.nodes[0] == "say('a', s)" and len(small.inputs) == 1
