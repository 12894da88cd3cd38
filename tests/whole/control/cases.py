"""All programs, which transformations have an answer for each, and how one ended."""

from __future__ import annotations

import warnings
import zlib

from tests.whole.control import discrete, language, models, searches, solvers, spoken, statements, unusual
from tests.whole.control.judged import has_slopes
from tests.whole.control.program import PROGRAMS, Program
from tests.whole.control.transformations import LANES, SLOPES, TRANSFORMATIONS

__all__ = ["applies", "by_default", "outcome", "PENDING", "PROGRAMS"]

FILES = (solvers, searches, models, discrete, language, spoken, statements, unusual)
FAST = ("jit", "jit_without_guards", "vmap", "vmap_raises")  # what is tested by default of every program
ONE_OF = ("jit_is_warm", "grad_jit", "jit_grad", "vmap_grad", "vmap_grad")  # and one of these


# What does not hold yet.
PENDING: set[tuple[str, str]] = set()


def applies(program: Program, transformation: str) -> bool:
    """Whether there is a right answer."""
    if transformation in LANES and program.ragged:
        return False
    return transformation not in SLOPES or has_slopes(program)


def by_default(program: Program, transformation: str) -> bool:
    return transformation in (*FAST, ONE_OF[zlib.crc32(program.name.encode()) % len(ONE_OF)])


def outcome(program: Program, transformation: str) -> str | None:
    """None if the program is right, else what went wrong, in a line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "grad: the output of")  # some ways return a number of Python's own
            TRANSFORMATIONS[transformation](program)
    except Exception as error:  # all that can go wrong is what is asked for
        return f"{type(error).__name__}: " + " ".join(str(error).split())[:250]
    return None
