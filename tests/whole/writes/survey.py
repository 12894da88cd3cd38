"""`python -m tests.whole.writes.survey 500 [check ...]`: how so many drawn programs end; those that are wrong, made small."""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Callable

from tests.whole.writes.drawn import Drawn, drawn, without_lines
from tests.whole.writes.judged import CHECKS, judge


def wrong(drawn: Drawn, check: str) -> str | None:
    """What is wrong, or None."""
    try:
        judge(drawn, (check,))
    except AssertionError as error:
        return str(error)
    return None


def minimised(drawn: Drawn, check: str) -> Drawn:
    """A program that is wrong as well, of fewer lines."""
    smaller = next((d for d in without_lines(drawn) if wrong(d, check) is not None), None)
    return drawn if smaller is None else minimised(smaller, check)


def survey(examples: int, checks: tuple[str, ...], show: Callable[[str], None] = print) -> Counter[str]:
    ends: Counter[str] = Counter()
    kinds: Counter[str] = Counter()

    for _ in range(examples):
        seed = random.getrandbits(32)
        program = drawn(seed)
        for check in checks:
            if wrong(program, check) is None:
                ends.update([re.sub(r"\[[\d,]*\]|<drawn.*", "", end) for end in judge(program, (check,))])
                continue
            ends[f"{check}: wrong"] += 1
            small = minimised(program, check)
            kind = re.sub(r"\bv\d|\bx\b|\by\b|return.*|[-\d.]+", "", small.source)
            kinds[kind] += 1
            if kinds[kind] == 1:
                show(f"\n=== {check}, seed {seed}\n{small!r}\n{wrong(small, check)}")
            break  # what is wrong here is wrong elsewhere for the same reason
    for end, n in ends.most_common():
        show(f"{n} {end}")
    return ends


if __name__ == "__main__":
    survey(int(sys.argv[1]), tuple(sys.argv[2:]) or tuple(CHECKS))
