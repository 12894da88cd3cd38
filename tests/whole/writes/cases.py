"""All programs, which transformations have an answer for each, and how one ended."""

from __future__ import annotations

import warnings
import zlib

from funcad.errors import TracerArrayConversionError, TracerBoolConversionError, TracerIntegerConversionError
from tests.whole.writes import counting, factorisations, fifteen, memory, networks, polyhedral, simulations, stencils
from tests.whole.writes.program import Program
from tests.whole.writes.transformations import ABSTRACT, TRANSFORMATIONS

__all__ = ["applies", "by_default", "outcome", "refused", "REFUSALS"]

REFUSALS = (TracerBoolConversionError, TracerIntegerConversionError, TracerArrayConversionError)  # the last: plain[mask]

FAST = ("jit", "grad")  # what is tested by default of every program
ONE_OF = ("vmap", "scan", "jvp")  # and one of these,
PERHAPS = ("jit_of_a_caller", "jit_grad", "grad_jit")  # and of every other program one of these
WHOLE = {"mandelbrot2"}  # it asks for a whole array, plain[mask], where jit answers for numbers and counts only
GUARDED = ("jit", "jit_of_a_caller", "jit_grad", "grad_jit", "jit_grad_grad")
SECOND = ("grad_grad", "jvp_grad", "jit_grad_grad", "hessian")
VALUES = ("jit", "jit_of_a_caller", "vmap", "jit_vmap", "scan")
FILES = (polyhedral, factorisations, stencils, simulations, networks, counting, memory, fifteen)


def applies(program: Program, transformation: str) -> bool:
    """Whether there is a right answer."""
    if transformation not in VALUES and not program.floating:
        return False
    if transformation == "hessian":
        first = program.arrays[program.floating[0]]
        return program.smooth and first.dtype.kind == "f" and first.size <= 16
    return program.smooth or transformation not in SECOND


def by_default(program: Program, transformation: str) -> bool:
    number = zlib.crc32(program.name.encode())
    other = PERHAPS[number // 6 % 3] if number // 3 % 2 else ""
    return transformation in (*FAST, ONE_OF[number % 3], other)


def refused(program: Program, transformation: str) -> bool:
    """Whether funcad says that it needs values which the trace does not have."""
    return program.asks and (transformation in ABSTRACT or program.name in WHOLE and transformation in GUARDED)


def outcome(program: Program, transformation: str) -> str | None:
    """None if the program is right, else what went wrong, in a line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "grad: the output of")  # some arguments are only written
            TRANSFORMATIONS[transformation](program)
    except Exception as error:  # all that can go wrong is what is asked for
        if refused(program, transformation) and type(error) in REFUSALS:
            return None
        return f"{type(error).__name__}: " + " ".join(str(error).split())[:150]
    return None
