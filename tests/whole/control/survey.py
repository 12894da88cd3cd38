"""`python -m tests.whole.control.survey 200 [--from SEED] [transformation ...]`: how they end; the wrong ones, made small."""

from __future__ import annotations

import argparse
import re
import warnings
from collections import Counter
from collections.abc import Iterable

from funcad.errors import FuncadError
from tests.whole.control.drawn import Drawn, drawn, program_of, smaller
from tests.whole.control.program import Program
from tests.whole.control.transformations import TRANSFORMATIONS

__all__ = ["CHECKS", "judged", "RIGHT"]

CHECKS = ("grad", "jit", "grad_jit", "jit_grad", "vmap", "vmap_raises", "vmap_grad", "grad_of_sum_of_vmap")
RIGHT = "right"


def judged(program: Program, check: str) -> str:
    """`right`, or the error that says what cannot be done; AssertionError where it is silently wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "grad: the output of")
        try:
            TRANSFORMATIONS[check](program)
        except Exception as found:
            error = found.__cause__ if isinstance(found, AssertionError) and found.__cause__ is not None else found
            if isinstance(error, FuncadError) or "Remedy:" in str(error):  # it says what it cannot do
                return f"{type(error).__name__}: " + re.sub(r"<drawn.*|[\d.]+", "", " ".join(str(error).split()))[:80]
            raise AssertionError(f"{type(found).__name__}: {found}") from found
    return RIGHT


def wrong(d: Drawn, check: str) -> str | None:
    """What is wrong, or None."""
    try:
        judged(program_of(d), check)
    except AssertionError as error:
        return str(error)
    return None


def survey(seeds: Iterable[int], checks: Iterable[str]) -> Counter[str]:
    ends: Counter[str] = Counter()
    for seed in seeds:
        d = drawn(seed)
        for check in checks:
            error = wrong(d, check)
            ends[f"{check}: wrong" if error is not None else f"{check}: {judged(program_of(d), check)}"] += 1
            if error is not None:
                small = smaller(d, lambda other, check=check: wrong(other, check) is not None)
                print(f"\n=== seed {seed}, {check}\n{small!r}\n{wrong(small, check)}", flush=True)
                break  # what is wrong here is wrong elsewhere for the same reason
    for end, n in ends.most_common():
        print(n, end)
    return ends


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=int)
    parser.add_argument("checks", nargs="*", default=CHECKS)
    parser.add_argument("--from", type=int, default=0, dest="first")
    options = parser.parse_intermixed_args()
    survey(range(options.first, options.first + options.programs), options.checks)
