"""What a new process takes for its first derivatives, beside HIPS autograd: `python -m benchmarks.cold [word ...]`.

Idea: each program of cold_programs.py and each library is a process of its own, so that nothing is warm but Python's byte
code and the machine's file cache. Four rows: the first call; ten calls of one function, on new values; ten new closures, as a
loop over data sets makes them; ten new sizes. A figure is the processor's time of all threads since the process began, import
of the library and of SciPy's modules included, less what it was when NumPy had been imported; a second table leaves these
imports out, a third the first call, so that nine further calls, closures and sizes are left. It is the minimum of the rounds,
which other work on the machine can only raise, and the libraries take turns. Results of the libraries are compared in each
process.

Traps: byte code is kept in a folder of the run's own (as an installed package has it). autograd is optional: its columns are
left out without it, and a checkout beside this one (`--beside FOLDER`) can be a column, too.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import geometric_mean

from benchmarks.cold_programs import PROGRAMS, Program
from benchmarks.harness import markdown, versions

ROWS = ("first call", "ten calls", "new closures", "new sizes")
_START = """
import time
import numpy
begun = time.process_time()
def wave(*shape):
    n = 1
    for s in shape:
        n *= s
    return numpy.sin(1.0 + 1.7 * numpy.arange(n)).reshape(shape)
"""
_END = """
import json
def numbers(x):
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else None
    return float(numpy.sum(numpy.asarray(x) ** 2)) if parts is None else sum(map(numbers, parts))
print(json.dumps([begun, *marks, numbers(out)]))
"""
_RUNS = {  # the row of ten calls -> what a process does before them, and each of them
    "ten calls": ("derivative = program({n})", "out = derivative(*data({n}, i))"),
    "new closures": ("", "out = program({n})(*data({n}, i))"),
    "new sizes": ("", "out = program({sizes}[i])(*data({sizes}[i], 0))"),
}
_LOOP = """
{before}
marks = [imported]
for i in range(10):
    {call}
    if i in (0, 9):
        marks.append(time.process_time())
"""
_KINDS = {"": "With the imports", "after imports": "After the imports", "further": "The nine calls after the first"}
Times = dict[tuple[str, str], float]  # (row, kind) -> milliseconds


def _text(program: Program, library: str, row: str) -> str:
    first = program.autograd if library == "autograd" else program.own
    before, call = [line.format(n=program.size, sizes=program.sizes()) for line in _RUNS[row]]
    measured = _LOOP.format(before=before, call=call)
    return "\n".join([_START, first, "imported = time.process_time()", program.text, measured, _END])


def printed(text: str, checkout: str, cache: str) -> list[float]:
    """What a new process prints, whose modules are those of a checkout."""
    environment = {**os.environ, "PYTHONPATH": checkout, "PYTHONPYCACHEPREFIX": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environment, check=False, cwd=cache)
    if done.returncode:
        raise RuntimeError(f"{done.stderr}\nin\n{text}")
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def measured(program: Program, checkouts: dict[str, str], rounds: int, cache: str) -> dict[str, Times]:
    """The milliseconds of each library, the least of the rounds; the first round, which compiles, does not count."""
    found: dict[str, Times] = {library: {} for library in checkouts}
    for turn in range(rounds + 1):
        answers: dict[str, dict[str, float]] = {}
        for library, checkout in checkouts.items():
            for run in list(_RUNS)[: None if turn else 1]:
                begun, imported, first, last, answer = printed(_text(program, library, run), checkout, cache)
                answers.setdefault(run, {})[library] = answer
                spans = {(run, ""): last - begun, (run, "after imports"): last - imported, (run, "further"): last - first}
                spans |= {("first call", ""): first - begun, ("first call", "after imports"): first - imported}
                for what, span in spans.items():
                    known = found[library].get(what, float("inf"))
                    found[library][what] = min(known, 1e3 * span) if turn else float("inf")
        for run, by_library in answers.items():
            values = list(by_library.values())
            if max(values) - min(values) > 1e-5 * max(map(abs, values)):
                raise RuntimeError(f"{program.name}, {run}: the libraries disagree: {by_library}")
    return found


def _tables(results: dict[str, dict[str, Times]], libraries: list[str]) -> str:
    """Tables of milliseconds and ratios, and their geometric means."""
    lines = []
    for kind, title in _KINDS.items():
        rows = [row for row in ROWS if kind != "further" or row in _RUNS]
        head = ["ms", *[f"{row}: {library}" for row in rows for library in libraries]]
        body = []
        for name, by_library in results.items():
            figures = [f"{by_library[library][row, kind]:.1f}" for row in rows for library in libraries]
            body.append([name, *figures])
        lines += [f"### {title}", "", markdown([head, *body]), ""]
        peers = [library for library in libraries if library != "funcad"]
        summary = [["funcad's time / that of", *[f"{row}: mean (worst)" for row in rows]]]
        for peer in peers:
            cells = []
            for row in rows:
                ratios = [found["funcad"][row, kind] / found[peer][row, kind] for found in results.values()]
                cells.append(f"{geometric_mean(ratios):.2f} ({max(ratios):.2f})")
            summary.append([peer, *cells])
        if peers:
            lines += [markdown(summary), ""]
    return "\n".join(lines)


def asked(about: str | None) -> tuple[argparse.Namespace, dict[str, str]]:
    """The options of a benchmark of new processes, and its columns: funcad, another checkout, autograd if it is installed."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only the programs whose name has one of these words")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the least is taken (default: 3)")
    parser.add_argument("--beside", metavar="FOLDER", help="another checkout of funcad, as a column")
    parser.add_argument("--results", metavar="FILE", help="write the tables there, with the date and the versions")
    options = parser.parse_args()
    here = str(Path(__file__).resolve().parents[1])
    checkouts = {"funcad": here}
    if options.beside:
        checkouts["beside"] = str(Path(options.beside).resolve())
    if importlib.util.find_spec("autograd"):
        checkouts["autograd"] = here
    return options, checkouts


def main() -> None:
    options, checkouts = asked(__doc__)
    chosen = [p for p in PROGRAMS if not options.words or any(word in p.name for word in options.words)]
    results = {}
    with tempfile.TemporaryDirectory() as cache:
        for program in chosen:
            results[program.name] = measured(program, checkouts, max(options.rounds, 1), cache)
            first = {name: round(times["first call", ""], 1) for name, times in results[program.name].items()}
            print(f"{program.name}: {first}", file=sys.stderr, flush=True)
    tables = _tables(results, list(checkouts))
    print(tables)
    if options.results:
        title = "# A process's first derivatives, beside autograd"
        about = f"{datetime.date.today()}, {versions()}.\n\n`python -m benchmarks.cold --rounds {options.rounds}`: "
        about += f"{len(chosen)} programs, each library and row a process of its own; milliseconds of the processor, all "
        about += "threads, less a bare `import numpy`."
        Path(options.results).write_text(f"{title}\n\n{about}\n\n{tables}", encoding="utf-8")


if __name__ == "__main__":
    main()
