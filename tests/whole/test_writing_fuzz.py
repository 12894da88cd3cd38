"""Random programs with writes, views and aliases: plain NumPy's values, arguments afterwards, errors and slopes, or an error.

`pytest -m slow` draws 40 programs, and FUNCAD_WRITES_PROGRAMS (2,000) others, in 40 parts for the shards of CI.
`python -m tests.whole.writes.survey 2000` makes those small that are wrong.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.whole.writes.drawn import drawn
from tests.whole.writes.judged import judge


def fuzz(seeds: range) -> Counter[str]:
    """How the programs ended under the transformations, counted."""
    ends: Counter[str] = Counter()
    for seed in seeds:
        try:
            ends.update(judge(drawn(seed)))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n{drawn(seed)}") from error
    return ends


@pytest.mark.slow
def test_some_programs() -> None:
    ends = fuzz(range(40))
    assert ends["right"] > 0.8 * ends.total(), ends


@pytest.mark.slow
@pytest.mark.parametrize("part", range(40))
def test_many_programs(part: int) -> None:
    """Other programs for each part; FUNCAD_SLOW_SHARD=k/n takes the k-th of n shares of the parts."""
    shard, shards = map(int, os.environ.get("FUNCAD_SLOW_SHARD", "1/1").split("/"))
    if part % shards != shard - 1:
        pytest.skip("of another shard")
    size = int(os.environ.get("FUNCAD_WRITES_PROGRAMS", "2000")) // 40
    ends = fuzz(range(1000 + part * size, 1000 + (part + 1) * size))
    assert ends["right"] > 0.8 * ends.total(), ends
