"""`python -m tests.whole.control [transformation ...] [program ...]`: what holds under what, and what fails, by cause."""

from __future__ import annotations

import sys
import time
from collections import Counter

from tests.whole.control.cases import applies, outcome
from tests.whole.control.program import PROGRAMS
from tests.whole.control.transformations import TRANSFORMATIONS


def main(words: list[str]) -> None:
    transformations = [t for t in TRANSFORMATIONS if t in words] or list(TRANSFORMATIONS)
    programs = [p for p in PROGRAMS if p.name in words] or PROGRAMS
    causes: Counter[str] = Counter()
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    for p in programs:
        line = []
        for t in transformations:
            if not applies(p, t):
                line.append("-")
                continue
            begin = time.process_time()
            cause = outcome(p, t)
            spent[t] += time.process_time() - begin
            asked[t] += 1
            right[t] += cause is None
            line.append("." if cause is None else "X")
            if cause is not None:
                causes[cause] += 1
                print(f"    {p.name} {t}: {cause}")
        print(f"{p.name:34s} {' '.join(line)}", flush=True)
    for t in transformations:
        print(f"{t:18s} {right[t]} of {asked[t]}, {spent[t]:.1f} s")
    for cause, n in causes.most_common(40):
        print(n, cause)


if __name__ == "__main__":
    main(sys.argv[1:])
