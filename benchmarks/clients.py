"""The tests of public projects that use HIPS autograd or JAX, run with that library and with funcad in its place.

`python -m benchmarks.clients` makes a throw-away environment, installs the projects and what they ask for, unpacks their source
distributions, runs their own tests with each, prints a table: how many tests pass, and the processor time. It needs a
package index and some hours; no test of funcad's runs it. `python -m benchmarks.clients mici pymanopt` runs some of them,
`examples` are autograd's own, without their pictures. `--folder F` keeps the environments in F and uses what is there,
`--results FILE` writes the table, with the names of the tests that pass with the library only.

Idea: nothing of a project is changed. pytest loads a plugin before it collects tests; that calls `funcad.autograd.install()` or
`funcad.jax.install()`.

Trap: Python 3.11 and 3.12 keep the frames of functions in chunks of 16 kB, and ask the system for the next chunk at each call
that does not fit. So the functions that a loop calls at the end of a chunk cost several microseconds more each, and which ones
these are is chance: one frame more of pytest's makes a suite half as slow again, with any library. Each suite is run behind
frames of several sizes, and the time is the mean.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLAIN = ["-q", "--color=no", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
PADDINGS = (0, 4, 8, 12)  # kB of Python's stack that lie below pytest
PADDED = """
import pytest, sys

def run():
    return pytest.main(sys.argv[2:])

run.__code__ = run.__code__.replace(co_stacksize=max(run.__code__.co_stacksize, 128 * int(sys.argv[1])))
sys.exit(run())
"""
# autograd's examples that end within a minute and need nothing else; what they plot is given to nobody
EXAMPLES = (
    *("bayesian_neural_net", "bayesian_optimization", "black_box_svi", "dot_graph", "gaussian_process", "ica"),
    *("natural_gradient_black_box_svi", "negative_binomial_maxlike", "neural_net_regression", "rosenbrock", "sinusoid"),
)
SCRIPT = """
import runpy, sys, types, unittest.mock
for name in ("matplotlib", "matplotlib.pyplot", "matplotlib.cm", "matplotlib.image"):
    module = sys.modules[name] = types.ModuleType(name)
    module.__getattr__ = lambda name: unittest.mock.MagicMock()
if sys.argv[2] == "funcad":
    import funcad.autograd
    funcad.autograd.install()
import numpy
numpy.random.seed(0)
sys.path.insert(0, "examples")
runpy.run_path(f"examples/{sys.argv[1]}.py", run_name="__main__")
"""
PLUGIN = "import funcad.{library}\n\nfuncad.{library}.install()\n"
COMMON = ["numpy>=2.3,<2.5", "scipy>=1.17,<1.18", "pytest>=9,<10", "llvmlite>=0.45"]


@dataclass(frozen=True)
class Client:
    """A project: its release, the library it is written for, what its tests need besides, which of them use the library."""

    name: str
    version: str
    library: str
    needs: tuple[str, ...]
    tests: tuple[str, ...]


CLIENTS = [
    Client("autograd", "1.9.1", "autograd", ("xarray", "pytest-cov", "pytest-xdist"), ("tests",)),
    Client("pymanopt", "2.2.1", "autograd", (), ("--noconftest", "tests/manifolds", "tests/optimizers",
           "tests/backends/test_autograd.py")),
    Client("mici", "0.4.1", "autograd", (), ("tests/test_autodiff.py", "tests/test_interop.py")),
    Client("lifelines", "0.30.3", "autograd", ("pandas<3", "flaky"), ("lifelines/tests/test_estimation.py", "-k",
           "Weibull or Exponential or LogLogistic or LogNormal or Regression or Spline")),  # all tests take half an hour
    Client("surpyval", "0.25", "autograd", ("pandas<3",), tuple([f"surpyval/tests/univariate/parametric/test_{name}.py"
           for name in ("fit", "confidence_bounds", "censored_hessian", "custom_distribution", "distributions_math")])),
    Client("optax", "0.2.8", "jax", ("flax",), ("optax/losses", "optax/projections", "optax/tree_utils", *[
           f"optax/_src/{name}_test.py" for name in ("base", "combine", "factorized", "numerics", "update")])),
]  # fmt: skip


def environment(folder: Path, library: str, clients: list[Client]) -> Path:
    """The interpreter of an environment with these projects, which is made if it is not there."""
    python = folder / library / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / library)], check=True)
    wanted = [*COMMON, library, *[f"{c.name}=={c.version}" for c in clients], *[n for c in clients for n in c.needs]]
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *wanted], check=True)
    return python


def sources(folder: Path, python: Path, client: Client) -> Path:
    """The unpacked source distribution, which has the tests."""
    unpacked = folder / "sources" / f"{client.name}-{client.version}"
    if not unpacked.exists():
        release = f"{client.name}=={client.version}"
        command = [str(python), "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", release]
        subprocess.run([*command, "--dest", str(folder / "sources")], check=True)
        (archive,) = (folder / "sources").glob(f"{client.name}-{client.version}.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(folder / "sources", filter="data")
    return unpacked


@dataclass
class Outcome:
    """What one run gave: the results of the tests by name, and the processor's seconds; `cut` if it took too long."""

    results: dict[str, str]
    seconds: float
    cut: bool

    def count(self, kind: str) -> int:
        return sum(result == kind for result in self.results.values())

    def __str__(self) -> str:
        if self.cut:
            return "too long"
        failed = self.count("failed")
        return f"{self.count('passed')} passed" + (f", {failed} failed" if failed else "")


def _processor_time() -> float:
    """Of the processes that have ended, which another program on the machine does not lengthen much."""
    used = os.times()
    return used.children_user + used.children_system


def runs(python: Path, where: Path, client: Client, limit: float) -> tuple[Outcome, Outcome]:
    """The outcome with the library and with funcad, in turns; the times are means over the paddings."""
    theirs, ours = [], []
    for padding in PADDINGS:
        for funcad, outcomes in ((False, theirs), (True, ours)):
            outcomes.append(run(python, where, client, funcad, limit, padding))
        if theirs[-1].cut or ours[-1].cut:
            break
    for outcomes in (theirs, ours):
        outcomes[-1].seconds = sum(outcome.seconds for outcome in outcomes) / len(outcomes)
    return theirs[-1], ours[-1]


def run(python: Path, where: Path, client: Client, funcad: bool, limit: float, padding: int = 0) -> Outcome:
    """One run of the tests of a client, in a process of its own."""
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "MPLBACKEND": "agg"}
    variables["JAX_ENABLE_X64"] = "0"  # JAX's own default, which funcad obeys
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [str(python), "-c", PADDED, str(padding), *PLAIN, f"--junitxml={report}", *client.tests]
        if funcad:
            Path(folder, "funcad_stands_in.py").write_text(PLUGIN.format(library=client.library), encoding="utf8")
            variables["PYTHONPATH"] = os.pathsep.join([str(ROOT), folder])
            command += ["-p", "funcad_stands_in"]
        start = _processor_time()
        try:
            done = subprocess.run(command, cwd=where, env=variables, timeout=limit, capture_output=True, text=True, check=False)
        except subprocess.TimeoutExpired:
            return Outcome({}, limit, True)
        seconds = _processor_time() - start
        if not report.exists():
            raise RuntimeError(f"{client.name}: pytest did not start:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return Outcome(results_of(report), seconds, False)


def example(python: Path, where: Path, name: str, funcad: bool) -> tuple[float, str]:
    """(the processor's seconds of one example of autograd's, the least of two runs; what it prints)."""
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT) if funcad else ""}
    command = [str(python), "-c", SCRIPT, name, "funcad" if funcad else "autograd"]
    seconds = []
    for _ in range(2):
        start = _processor_time()
        done = subprocess.run(command, cwd=where, env=variables, capture_output=True, text=True, check=True)
        seconds.append(_processor_time() - start)
    return min(seconds), done.stdout


def examples(python: Path, where: Path) -> str:
    """The table of autograd's examples, whole processes with their imports."""
    rows, product = [], 1.0
    for name in EXAMPLES:
        theirs, ours = (example(python, where, name, funcad)[0] for funcad in (False, True))
        product *= ours / theirs
        rows.append(f"| {name} | {theirs:.2f} s | {ours:.2f} s | {ours / theirs:.2f} |")
        print(rows[-1], flush=True)
    mean = f"\nGeometric mean {product ** (1 / len(EXAMPLES)):.2f}.\n"
    return "\n| example of autograd's | with it | with funcad | ratio |\n|---|---|---|---|\n" + "\n".join(rows) + "\n" + mean


def results_of(report: Path) -> dict[str, str]:
    """The result of each test that a JUnit report tells of: passed, failed or skipped; files that do not load are failures."""
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {element.tag for element in case}
        result = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found[f"{case.get('classname')}::{case.get('name')}"] = result
    return found


def compared(client: Client, theirs: Outcome, ours: Outcome) -> tuple[str, list[str]]:
    """The row of the table, and the tests that pass with the library and not with funcad."""
    ratio = "" if theirs.cut or ours.cut else f"{ours.seconds / theirs.seconds:.2f}"
    release = f"{client.name} {client.version}"
    row = f"| {release} | {client.library} | {theirs} | {ours} | {theirs.seconds:.1f} s | {ours.seconds:.1f} s | {ratio} |"
    lost = [name for name, result in theirs.results.items() if result == "passed" and ours.results.get(name) != "passed"]
    return row, [] if ours.cut else sorted(lost)


def versions(python: Path) -> str:
    """What an environment has of the libraries that matter."""
    names = ("numpy", "scipy", "pandas", "autograd", "jax")
    program = f"""
import platform
from importlib.metadata import PackageNotFoundError, version
print("Python", platform.python_version(), end="")
for name in {names}:
    try:
        print(f", {{name}} {{version(name)}}", end="")
    except PackageNotFoundError:
        pass
"""
    return subprocess.run([str(python), "-c", program], check=True, capture_output=True, text=True).stdout


def measure(folder: Path, clients: list[Client], limit: float) -> str:
    """Run the clients; the text of the results."""
    rows, lost, tools = [], [], []
    for library in dict.fromkeys(client.library for client in clients):
        chosen = [client for client in clients if client.library == library]
        python = environment(folder, library, chosen)
        tools.append(versions(python))
        for client in chosen:
            where = sources(folder, python, client)
            theirs, ours = runs(python, where, client, limit)
            row, names = compared(client, theirs, ours)
            print(row, *names, sep="\n  ", flush=True)
            rows.append(row)
            lost += [f"* {client.name}: `{name}`" for name in names]
    head = "| project | written for | with it | with funcad | time | funcad's | ratio |\n|---|---|---|---|---|---|---|"
    text = f"{datetime.now():%Y-%m-%d}; {'; '.join(tools)}.\n\n{head}\n" + "\n".join(rows) + "\n"
    return text + ("\nTests that pass with the library only:\n\n" + "\n".join(lost) + "\n" if lost else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = [client.name for client in CLIENTS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}, examples; all if none is given")
    parser.add_argument("--folder", type=Path, help="where the environments are, or are made and kept")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds that one run may take")
    parser.add_argument("--results", type=Path, help="the file that the table is written to")
    options = parser.parse_args()
    unknown = set(options.names) - {*names, "examples"}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    chosen = [client for client in CLIENTS if client.name in options.names or not options.names]
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        text = measure(folder, chosen, options.limit) if chosen else ""
        if not options.names or "examples" in options.names:
            client = CLIENTS[0]
            python = environment(folder, client.library, [client])
            text += examples(python, sources(folder, python, client))
    if options.results:
        options.results.write_text("# The tests of other projects\n\n" + text, encoding="utf8")


if __name__ == "__main__":
    main()
