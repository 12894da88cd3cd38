"""Random programs with writes, views and aliases: plain NumPy's values, arguments afterwards, errors and slopes, or an error.

`python -m tests.whole.writes.survey 2000` draws others, and makes those small that are wrong.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings

from tests.whole.writes.drawn import Drawn, programs
from tests.whole.writes.judged import judge

QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example]


def fuzz(examples: int, seeded: bool) -> Counter[str]:
    """How the programs ended under the transformations, counted."""
    ends: Counter[str] = Counter()

    @settings(max_examples=examples, deadline=None, derandomize=seeded, database=None, suppress_health_check=QUIET)
    @given(programs())
    def one(drawn: Drawn) -> None:
        ends.update(judge(drawn))

    one()
    return ends


def test_some_programs() -> None:
    ends = fuzz(40, seeded=True)
    assert ends["right"] > 0.8 * ends.total(), ends
