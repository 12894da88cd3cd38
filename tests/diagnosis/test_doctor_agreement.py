"""The doctor sees the derivative that `grad` takes, on each primitive and program; its tables are not stale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad import tree
from funcad.debug import doctor
from funcad.diagnosis.recording import Recording, follow
from funcad.diagnosis.report import CUTS, SLOPES, VALUES
from tests.programs import PROGRAMS
from tests.specs import all_specs

pytestmark = pytest.mark.share(2)  # of its tables of cases

SPECS = all_specs()
PRIMITIVES = {p for s in SPECS for p in s.primitives}


def inexact(x: Any) -> bool:
    return np.asarray(x).dtype.kind in "fc"


def agrees(f: Any, args: tuple, tolerance: float) -> Any:
    """Compare the doctor's gradients with vjp's, and give its report; both may raise, if they raise the same."""
    leaves, structure = tree.flatten(args)
    places = [i for i, x in enumerate(leaves) if inexact(x)]
    if not places:
        return None

    def flat(*values: Any) -> list[Any]:
        given = list(leaves)
        for i, v in zip(places, values):
            given[i] = v
        return tree.leaves(f(*structure.unflatten(given)))

    chosen = [leaves[i] for i in places]
    run = Recording()
    with np.errstate(all="ignore"):
        try:
            outs, pull = fc.vjp(flat, *chosen)
            seeds = [np.ones_like(o) if inexact(o) else np.zeros(np.shape(o), fc.float0) for o in outs]
            expected = pull(seeds)
        except Exception as error:
            with pytest.raises(type(error)):
                follow(run, flat, chosen, [True] * len(chosen))
            return None
        follow(run, flat, chosen, [True] * len(chosen))
    for mine, g in zip(run.gradients, expected):
        mine = np.zeros_like(g) if mine is None else mine
        assert np.allclose(mine, g, rtol=tolerance, atol=1e-12, equal_nan=True)
    report = doctor(f)(*args)
    assert str(report) and report._repr_html_()
    assert all(c.instead for a in report.arguments for c in a.cuts)
    for a in report.arguments:
        assert a.gradient == "none" or (a.gradient == "zero") == (a.cut in ("whole", "unused")), str(report)
    return report


@pytest.mark.share(8)
@pytest.mark.parametrize("some", SPECS, ids=str)
def test_every_primitive(some: Any) -> None:
    for sample in some.samples():
        agrees(lambda *args: some.fn(*args, **some.params), sample, 1e-10)


@pytest.mark.share(4)
@pytest.mark.parametrize("how", ["", "jit", "checkpoint"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_every_program(program: Any, how: str) -> None:
    if how and (program.following or program.name == "ordered_callback"):
        pytest.skip("Python control flow on values; a checkpoint takes what io_callback returns for constant")
    f = getattr(fc, how)(program.f) if how else program.f
    agrees(f, program.make_args(), 1e-9)


def test_the_table_of_cuts_names_what_cuts() -> None:
    """Each primitive that has a remedy for its cut does cut in some sample."""
    found = set()
    for s in SPECS:
        if any(p in CUTS for p in s.primitives):
            for sample in s.samples():
                report = agrees(lambda *args, s=s: s.fn(*args, **s.params), sample, 1e-10)
                found |= {c.operation for a in report.arguments for c in a.cuts} if report is not None else set()
    assert {p.name for p in CUTS} <= found


def test_the_tables_name_primitives_that_are_there() -> None:
    for table in (CUTS, SLOPES, VALUES):
        assert set(table) <= PRIMITIVES
    assert all(p.jvp is not None or p.primal_and_jvp is not None for p in SLOPES)
