"""`python -m tests.certified` writes notebooks/certified.md: differentiable functions through every pair of transformations.

The first case of each function of `tests/surface` that is twice differentiable goes through `funcad.testing.certify`, on the
engine that jit takes by itself. `EXPECTED` says of what differs why: it must differ, or the page is refused.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from funcad import certificate
from funcad.certificate import Certificate
from funcad.testing import certify
from tests.completeness import made_with
from tests.surface import Case, all_cases
from tests.surface.checks import differentiated, double

PAGE = Path(__file__).resolve().parent.parent / "notebooks" / "certified.md"
BY_ITERATION = "the solver stops before the digits that differences of two solutions need"
SYMMETRIC = "it is for symmetric matrices, and certify moves all elements alone"
EXPECTED = {
    "numpy.astype": "to float32, whose values are no base for differences",
    "scipy.ndimage.affine_transform": "its sampling places cross from one piece of a spline to the next",
    "scipy.optimize.least_squares": BY_ITERATION,
    "scipy.optimize.leastsq": BY_ITERATION,
    "scipy.sparse.linalg.cg": SYMMETRIC,
    "scipy.sparse.linalg.minres": SYMMETRIC,
}
HEADER = """# Every pair of transformations

What `funcad.testing.certify` found: each function of [completeness.md](completeness.md) that is twice differentiable, on its
first case in float64, under jit, vmap, checkpoint, the body of a scan, jvp and vjp, and every pair of these, one around the
other. This page is the output of `python -m tests.certified`.
"""


def cases() -> Iterator[Case]:
    """The first of each function that has second derivatives in double precision."""
    seen: set[str] = set()
    for case in all_cases():
        if case.name not in seen and not any(case.empty(cell) for cell in ("jvp", "vjp", "second")):
            if double(case) and differentiated(case) is not None:
                seen.add(case.name)
                yield case


def certificate_of(case: Case) -> Certificate:
    pair = differentiated(case)
    assert pair is not None
    f, leaves = pair
    engines, certificate.ENGINES = certificate.ENGINES, ("auto",)
    try:
        return certify(f, *leaves)
    finally:
        certificate.ENGINES = engines


def page() -> str:
    nestings: Counter = Counter()
    functions: Counter = Counter()
    refused: dict[str, set[str]] = {}
    for case in cases():
        found = certificate_of(case)
        group = case.name.rpartition(".")[0]
        functions[group] += 1
        nestings[group] += len(found.checks) - len(found.failures) - len(found.refused)
        for check in found.refused:
            refused.setdefault(check.detail.partition(":")[0], set()).add(case.name)
        if bool(found.failures) != (case.name in EXPECTED):
            raise AssertionError(f"{case.name}: {found.failures or 'nothing differs: take it out of EXPECTED'}")
    lines = [
        HEADER,
        f"Made with {made_with()}. {sum(functions.values())} functions, {sum(nestings.values())} nestings hold.",
        "",
    ]
    lines += ["| | functions | nestings that hold |", "|---|---|---|"]
    lines += [f"| {group} | {functions[group]} | {nestings[group]} |" for group in sorted(functions)]
    lines += ["", "## Refused, with an error that says what to do instead", ""]
    lines += [f"* {error}: {', '.join(sorted(names))}." for error, names in sorted(refused.items())]
    lines += ["", "## Where second differences are no measure", ""]
    lines += [f"* `{name}`: {reason}." for name, reason in EXPECTED.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PAGE.write_text(page(), encoding="utf-8")
    print(PAGE, file=sys.stderr)
