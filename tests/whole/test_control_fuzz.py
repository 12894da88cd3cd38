"""Random programs of nested `if`, `while`, `for`, `try`, `match`, that write, speak and raise: plain Python's answers.

`python -m tests.whole.control.survey 200` draws others, and makes those small that are wrong.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.whole.control.drawn import drawn, program_of, smaller, source_of, ways
from tests.whole.control.survey import CHECKS, RIGHT, judged

SHARD, SHARDS = map(int, os.environ.get("FUNCAD_SLOW_SHARD", "1/1").split("/"))  # k/n: the k-th of n shares of the long ones
SEEDS, MORE = range(5), range(999 + SHARD, 1400, SHARDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_programs_take_several_ways(seed: int) -> None:
    found = ways(drawn(seed))
    assert found is not None and len(set(found)) > 1


def test_programs_are_made_small() -> None:
    """Down to the one line that matters, and one input."""
    seed = next(s for s in range(100) if "say('a', s)" in source_of(drawn(s).nodes))
    small = smaller(drawn(seed), lambda d: "say('a', s)" in source_of(d.nodes))
    assert len(small.nodes) == 1 and small.nodes[0] == "say('a', s)" and len(small.inputs) == 1


@pytest.mark.share(4)
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(MORE, marks=pytest.mark.slow)], ids=["some", "more"])
def test_random_programs(check: str, seeds: range) -> None:
    """What cannot be done is said to be so, and that is rare."""
    ends: Counter[str] = Counter()
    for seed in seeds:
        try:
            ends[judged(program_of(drawn(seed)), check)] += 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n{drawn(seed)}") from error
    assert ends[RIGHT] > 0.9 * ends.total(), ends
