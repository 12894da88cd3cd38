"""Programs in plain NumPy with Python's control flow on values, under every transformation (tests/whole/control has them).

`python -m tests.whole.control` prints the table of all programs and transformations.
"""

from __future__ import annotations

import pytest

from funcad import tree
from tests.whole.control.cases import PENDING, PROGRAMS, applies, by_default, outcome
from tests.whole.control.judged import End, by_differences, curvature, has_slopes, plain, slopes
from tests.whole.control.program import Program
from tests.whole.control.transformations import TRANSFORMATIONS

CASES = [(p, t) for p in PROGRAMS for t in TRANSFORMATIONS if applies(p, t) and (p.name, t) not in PENDING]


@pytest.mark.share(12)
@pytest.mark.parametrize(
    "program, transformation",
    [pytest.param(p, t, marks=[] if by_default(p, t) else pytest.mark.slow, id=f"{p.name}-{t}") for p, t in CASES],
)
@pytest.mark.filterwarnings("ignore:grad. the output of")  # some ways return a number of Python's own
def test_program(program: Program, transformation: str) -> None:
    TRANSFORMATIONS[transformation](program)


# ---------------------------------------------------------------- are these tests?


@pytest.mark.share(4)
@pytest.mark.parametrize("program", PROGRAMS, ids=[p.name for p in PROGRAMS])
@pytest.mark.filterwarnings("ignore:grad. the output of")
def test_plain_python_gives_a_reference(program: Program) -> None:
    """Inputs end in different ways; funcad's un-jitted gradients, with which all others are compared, are the differences'."""
    every = range(len(program.inputs))
    ends = {repr((plain(program, k).value, plain(program, k).error, plain(program, k).said)) for k in every}
    assert len(ends) > 1
    if has_slopes(program):
        TRANSFORMATIONS["grad"](program)
        seen = [
            by_differences(program, k) is not None for k in every if k not in program.apart and plain(program, k).error is None
        ]
        assert any(seen) or not seen, "no input lies where differences can see the slope"


def test_there_are_enough_of_them() -> None:
    assert len(PROGRAMS) > 100 and sum([len(p.inputs) for p in PROGRAMS]) > 300
    assert sum([has_slopes(p) for p in PROGRAMS]) > 60
    assert sum([len(p.apart) == len(p.inputs) for p in PROGRAMS]) < 10
    assert sum([p.speaks for p in PROGRAMS]) > 5
    assert sum([any([plain(p, k).error is not None for k in range(len(p.inputs))]) for p in PROGRAMS]) > 12


def good_program(say, x):
    say("begin", x)
    if x < 0:
        raise ValueError(f"negative: {x}")
    return x * x * x if x > 1.0 else 2.0 * x * x


def a_little_off(x: float) -> float:
    return x * (1.0 + 1e-4)


def raises_something_else(end: End) -> End:
    return end if end.error is None else end._replace(error=ValueError("another message"))


def says_more(end: End) -> End:
    return end._replace(said=[*end.said, ("once more", 1.0)])


def has_another_value(end: End) -> End:
    return end if end.error is not None else end._replace(value=tree.map(a_little_off, end.value))


def has_another_argument(end: End) -> End:
    return end._replace(arguments=tree.map(a_little_off, end.arguments))


WITHOUT_VALUES = ("jit_without_guards", "jit_is_warm", "jit_vmap", "jvp_jit")  # or with their own
LIES = {
    raises_something_else: (
        "jit",
        "jit_in_each_order",
        "jit_inside_jit",
        "grad_jit",
        "jit_grad",
        "jit_grad_jit",
        "vmap_raises",
    ),
    says_more: ("jit", "jit_in_each_order", "jit_inside_jit", "grad_jit", "jit_grad", "jit_grad_jit", "vmap", "vmap_jit"),
    has_another_argument: ("jit", "jit_in_each_order", "jit_inside_jit"),
    has_another_value: tuple([t for t in TRANSFORMATIONS if t not in WITHOUT_VALUES]),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("lie, transformation", [(lie, t) for lie, several in LIES.items() for t in several])
def test_what_differs_from_plain_python_is_seen(lie, transformation: str) -> None:
    """The check holds, and no longer where plain Python is said to have given something else."""
    program = Program("good_program", good_program, ((2.0,), (0.5,), (-1.0,)), (), True, False, False, True, {})
    assert outcome(program, transformation) is None
    for k in range(3):
        for as_lane in (True, False):
            program.known["plain", k, as_lane] = lie(plain(program, k, as_lane))
            program.known["slopes", k, as_lane] = lie(slopes(program, k, as_lane))
        if k < 2:
            program.known["curvature", k, False] = tree.map(a_little_off, curvature(program, k))
    assert "Assertion" in (outcome(program, transformation) or "")
