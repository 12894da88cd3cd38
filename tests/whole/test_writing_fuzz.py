"""Random programs with writes, views and aliases: plain NumPy's values, arguments afterwards, errors and slopes, or an error.

By default 15 programs; `pytest -m slow` draws FUNCAD_WRITES_PROGRAMS (2,000) others, in 40 parts for the shards of CI.
`python -m tests.whole.writes.survey 2000` makes those small that are wrong.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, seed, settings

from tests.whole.writes.drawn import Drawn, programs
from tests.whole.writes.judged import judge

QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example]


def fuzz(examples: int, start: int) -> Counter[str]:
    """How the programs ended under the transformations, counted."""
    ends: Counter[str] = Counter()

    @seed(start)
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=QUIET)
    @given(programs())
    def one(drawn: Drawn) -> None:
        ends.update(judge(drawn))

    one()
    return ends


@pytest.mark.slow
def test_some_programs() -> None:
    ends = fuzz(15, 2026)
    assert ends["right"] > 0.8 * ends.total(), ends


@pytest.mark.slow
@pytest.mark.parametrize("part", range(40))
def test_many_programs(part: int) -> None:
    """Other programs for each part; FUNCAD_SLOW_SHARD=k/n takes the k-th of n shares of the parts."""
    shard, shards = map(int, os.environ.get("FUNCAD_SLOW_SHARD", "1/1").split("/"))
    if part % shards != shard - 1:
        pytest.skip("of another shard")
    ends = fuzz(int(os.environ.get("FUNCAD_WRITES_PROGRAMS", "2000")) // 40, part)
    assert ends["right"] > 0.7 * ends.total(), ends
