"""`python -m tests.completeness` writes notebooks/completeness.md: each public function, and what was run on it.

Generated from the library itself: every public name of every namespace, and every check of every case of `tests/surface`, run
now. `--check` compares with the file instead of writing it.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any

from funcad.configuration import config
from funcad.lifting import own_answers
from funcad.scipy.stats import own_distributions
from tests.numpy.test_surface import LEFT_OUT, NAMESPACES, public_callables
from tests.surface import Case, all_cases, resolve
from tests.surface.checks import check

PAGE = Path(__file__).resolve().parent.parent / "notebooks" / "completeness.md"
COLUMNS = {
    "value": "numpy",
    "plain": "np call",
    "cupy": "cupy",
    "jvp": "jvp",
    "vjp": "vjp",
    "second": "2nd",
    "vmap": "vmap",
    "jit": "jit",
}
HELD, NOTHING, SOME, EMPTY, WRONG = "✓", "·", "(✓)", "–", "✗"

HEADER = """# What works on what

Every public function of funcad, and what the test table runs on it. This page is the output of `python -m tests.completeness`,
which runs `tests/surface` and asks the library for its public names; a test checks that it is current.

* **numpy**: the value equals NumPy's or SciPy's own (where there is one to compare with) with no tracer among the arguments.
* **np call**: NumPy's own function, called with traced values, under jit and under jvp.
* **cupy**: value and gradient on a stand-in for CuPy that refuses NumPy operands as CuPy does (no GPU makes this page).
* **jvp**: forward mode against central differences. **vjp**: reverse mode against forward mode. **2nd**: reverse over forward
  mode against differences of forward mode. **vmap**: against a loop. **jit**: against the plain call.

Pairs of transformations, one around the other, are on [a page of their own](certified.md), made by `funcad.testing.certify`.

✓ holds for every case · nothing to check (no derivative of integers, no arrays among the arguments, no function of that name in
NumPy) – empty, it raises, and the reason stands below (✓) holds for some cases, empty for others ✗ wrong
"""


def cell_of(cell: str, case: Case) -> str:
    """How one case does in one cell."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "numpy.fix is deprecated")  # by NumPy 2.5, which still has it
        try:
            held = check(cell, case)
        except Exception as error:
            print(f"{case.id}: {cell}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
            return WRONG
    return EMPTY if held is None else HELD if held else NOTHING


def merged(marks: list[str]) -> str:
    """The mark of a function from those of its cases."""
    if WRONG in marks:
        return WRONG
    if EMPTY in marks:
        return SOME if HELD in marks else EMPTY
    return HELD if HELD in marks else NOTHING


def rows() -> tuple[dict[str, dict[str, str]], dict[str, list[str]]]:
    """(name -> column -> mark, reason -> the places where it holds)."""
    by_function: dict[Any, list[Case]] = {}
    for case in all_cases():
        function = resolve(case.name)[0]
        key = case.name if case.name.startswith(("ndarray.", "operator.")) else _identity(case.name, function)
        by_function.setdefault(key, []).append(case)
    names: dict[str, list[Case]] = {}
    for namespace in NAMESPACES:
        for name, function in public_callables(namespace).items():
            names[name] = by_function.get(_identity(name, function), [])
    names.update({k: v for k, v in by_function.items() if isinstance(k, str) and k.startswith(("ndarray.", "operator."))})
    found: dict[int, dict[str, str]] = {}
    for cases in by_function.values():
        for case in cases:
            found[id(case)] = {cell: HELD if cell in case.elsewhere else cell_of(cell, case) for cell in COLUMNS}
    table, reasons = {}, {}
    for name, cases in names.items():
        table[name] = {cell: merged([found[id(c)][cell] for c in cases]) for cell in COLUMNS} if cases else {}
        for case in cases:
            for cell, where in case.elsewhere.items():
                reasons.setdefault(where, []).append(f"`{name}` ({COLUMNS[cell]})")
            for cell in COLUMNS:
                if found[id(case)][cell] == EMPTY:
                    places = reasons.setdefault(str(case.empty(cell)), [])
                    text = f"`{name}` ({COLUMNS[cell]})"
                    places.append(text) if text not in places else None
    for name, reason in LEFT_OUT.items():
        reasons.setdefault(reason, []).append(f"`{name}`")
    return table, reasons


def _identity(name: str, function: Any) -> Any:
    """Names of one function share their cases; methods of distributions are made anew at each access."""
    return name if name.startswith("scipy.stats.") else id(function)


def made_with() -> str:
    """The libraries whose names and values the page depends on."""
    return ", ".join(f"{name} {'.'.join(metadata.version(name).split('.')[:2])}" for name in ("numpy", "scipy"))


def page() -> str:
    table, reasons = rows()
    groups: dict[str, list[str]] = {}
    for name in table:
        groups.setdefault(name.rpartition(".")[0], []).append(name)
    total = Counter(mark for marks in table.values() for mark in marks.values())
    counts = ", ".join(f"{n} {m}" for m, n in sorted(total.items()))
    lines = [HEADER, f"Made with {made_with()}.", "", f"{len(table)} names; {counts} (cells).", ""]
    for group, names in groups.items():
        title = {"ndarray": "methods and attributes of arrays", "operator": "operators"}.get(group, f"funcad.{group}")
        lines += [f"## {title}", "", "| | " + " | ".join(COLUMNS.values()) + " |", "|---|" + ":-:|" * len(COLUMNS)]
        for name in sorted(names):
            marks = table[name]
            text = " | ".join(marks.get(cell, " ") for cell in COLUMNS)
            lines.append(f"| {name.rpartition('.')[2]} | {text} |")
        lines.append("")
    lines += ["## Why a cell is empty, or a name has no row of marks", ""]
    for reason in sorted(reasons):
        lines.append(f"* {reason}: {', '.join(reasons[reason])}.")
    return "\n".join([*lines, *by_own_code()]) + "\n"


def by_own_code() -> list[str]:
    """The functions that run by their own code (funcad/lifting), whose derivatives tests/lifting compares."""
    distributions = {"scipy.stats, distributions": own_distributions.COMPARED}
    rows = {**own_answers.CERTIFIED, **distributions}
    versions = "; ".join([f"{library} {', '.join(known)}" for library, known in own_answers.VERSIONS.items()])
    count = sum([len(names.split()) for names in rows.values()])
    lines = ["", "## By its own code", ""]
    lines += [f"{count} functions and distributions that the library's own Python answers for, compared on {versions}.", ""]
    lines += ["| | | |", "|---|---|---|"]
    return lines + [f"| {module} | {len(names.split())} | {', '.join(names.split())} |" for module, names in rows.items()]


if __name__ == "__main__":
    config.jit_patience = 0  # a cell of jit is a program
    text = page()
    if "--check" in sys.argv:
        current = PAGE.read_text(encoding="utf-8") == text
        sys.exit(0 if current else "notebooks/completeness.md is not current: run python -m tests.completeness")
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE}: {text.count('| ' + WRONG)} wrong")
