"""Programs in plain NumPy that write into arrays, under every transformation (tests/whole/writes has programs and checks).

`python -m tests.whole.writes` prints the table of all programs and transformations.
"""

from __future__ import annotations

import numpy as np
import pytest

from funcad import grad, jit, stop_gradient
from funcad.ir.tracer import Tracer
from tests.whole.writes import fifteen
from tests.whole.writes.cases import REFUSALS, WHOLE, applies, by_default, outcome, refused
from tests.whole.writes.program import PROGRAMS, Program
from tests.whole.writes.reference import LANES, Reference, reference
from tests.whole.writes.transformations import ABSTRACT, TRANSFORMATIONS

CASES = [(p, t) for p in PROGRAMS for t in TRANSFORMATIONS if applies(p, t)]


@pytest.mark.share(8)
@pytest.mark.parametrize(
    "program, transformation",
    [pytest.param(p, t, marks=[] if by_default(p, t) else pytest.mark.slow, id=f"{p.name}-{t}") for p, t in CASES],
)
@pytest.mark.filterwarnings("ignore:grad. the output of")  # some arguments are only written
def test_program(program: Program, transformation: str) -> None:
    try:
        TRANSFORMATIONS[transformation](program)
    except REFUSALS:  # right or refused: what asks for values may find them where they are not traced
        if not refused(program, transformation):
            raise


NDARRAY = np.ndarray


@pytest.mark.parametrize("transformation", [jit, grad], ids=["jit", "grad"])
def test_a_type_makes_buffers_where_it_is_called(transformation) -> None:
    """Elsewhere np.ndarray is the type that it is."""

    def squares(x):
        out = np.ndarray(3)
        assert isinstance(out, np.ndarray) and isinstance(x, np.ndarray) and np.ndarray is NDARRAY
        out[:] = x * x
        return np.sum(out)

    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(transformation(squares)(x), 14.0 if transformation is jit else 2.0 * x)


# ---------------------------------------------------------------- are these tests?


@pytest.mark.share(3)
@pytest.mark.parametrize("program", PROGRAMS, ids=[p.name for p in PROGRAMS])
def test_numpy_gives_a_reference(program: Program) -> None:
    """Values are finite, and differences with another step are the same: no kink is near, and every digit counts."""
    for k in range(LANES):
        point, other = reference(program.name, k), Reference(program, k)
        other.step = 0.3 * point.step
        for copying in (True, False):
            assert all([np.isfinite(y).all() for y in point.values(copying) if y.dtype.kind in "fc"])
            for a, b in zip(point.slopes(copying), other.slopes(copying)) if program.floating else ():
                if a is not None:
                    rtol = 1e-3 if program.single else 1e-6
                    atol = 0.1 * rtol * max(1.0, float(np.max(np.abs(a), initial=0.0)))
                    np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=f"lane {k}")


def test_there_are_enough_of_them() -> None:
    assert len(PROGRAMS) > 150
    assert sum([p.asks for p in PROGRAMS]) < 10
    assert sum([not p.floating for p in PROGRAMS]) < 8


def is_traced(x: object) -> bool:
    return isinstance(x, Tracer)


def wrong_value(x):
    return np.sum(x * x * x) * (1.001 if is_traced(x) else 1.0)


def wrong_slope(x):
    cube = x * x * x
    return np.sum(stop_gradient(x) * x * x) if is_traced(x) else np.sum(cube)


LIARS = [Program(f.__name__, f, (np.array([0.3, 0.7]),), True, False, False) for f in (wrong_value, wrong_slope)]


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_wrong_answers_are_seen(transformation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = transformation in ("jit", "jit_of_a_caller", "vmap", "jit_vmap", "scan")
    liar = LIARS[0 if values else 1]
    monkeypatch.setattr("tests.whole.writes.reference.PROGRAMS", [liar])
    reference.cache_clear()
    assert "Assertion" in (outcome(liar, transformation) or "")
    reference.cache_clear()


def test_only_those_that_ask_may_be_refused() -> None:
    for p in PROGRAMS:
        if p.name not in WHOLE:
            assert [refused(p, t) for t in TRANSFORMATIONS] == [p.asks and t in ABSTRACT for t in TRANSFORMATIONS]
    assert len(WHOLE) < 2


# ---------------------------------------------------------------- the fifteen, in numbers


FIFTEEN = {  # value, gradient, the argument afterwards (None: unchanged)
    "alias_and_copies": (114, [8, 14, 20, 26], [2, 3, 4, 5]),
    "layout_c": (364, [8, 16, 24, 32, 40, 48], [2, 4, 6, 8, 10, 12]),
    "layout_f": (91, [2, 4, 6, 8, 10, 12], None),
    "layout_intermediate": (385, [0, 16, 24, 32, 40, 48], None),
    "zero_d": (83, [17, 38, 10, 8], [1, 6, 5, 4]),
    "repeated": (169, [20, 40, 26, 40], None),
    "overlap": (145, [10, 11, 19, 14], [6, 11, 19, 15]),
    "views_of_views": (139, [61, 4, 0, 16], [9, 4, 14, 20]),
    "out_and_casts": (129.1961524, [106, 10, 3**0.5 + 1.5 / 3**0.5, 3], None),
    "ping_pong": (125.6795654296875, [355.6216, 51.2192, 364.9832, 68.149, 50.3276], None),
    "masks_after_use": (64.25, [4.5, -3.5, 17, 0], None),
    "from_constants": (19, [9, -1], None),
    "lu_in_place": (
        3.058237479,
        [0.2799, -0.0892, -0.0611, -0.0892, 0.364, -0.0141, -0.0611, -0.0141, 0.5167],
        [4.0, 1.0, 0.5, 0.25, 2.75, 0.075, 0.125, 0.3 / 11, 1.9354545454545455],
    ),
    "two_arguments_one_memory": (388, [16, 60, 96, 88], None),
    "try_and_lanes": (-2, [-4, 3, 2, -1.5], None),
}


@pytest.mark.parametrize("name", FIFTEEN)
def test_numpy_gives_these_numbers(name: str) -> None:
    program = next(p for p in PROGRAMS if p.name == name)
    value, slope, after = FIFTEEN[name]
    x = fifteen.FOUR.copy() if name == "out_and_casts" else program.arrays[0]
    before = x.copy()
    np.testing.assert_allclose(program.call(x), value, rtol=1e-7)
    np.testing.assert_allclose(x.ravel(), before.ravel() if after is None else after, rtol=1e-12)
    if name != "out_and_casts":  # single precision hides differences, and 2 is where its mask turns
        point = reference(name)
        expected = np.sum(np.reshape(slope, x.shape) * point.along()[0])
        np.testing.assert_allclose(point.slopes(False)[0], expected, rtol=2e-4)
