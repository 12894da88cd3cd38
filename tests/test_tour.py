"""`python -m funcad tour` runs, says what it did, and says what is missing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TYPED = "from funcad.commands.command_line import main; sys.exit(main(['tour']))"
EXTRAS = {"sklearn": "scikit-learn", "matplotlib": "matplotlib", "tqdm": "tqdm"}


@pytest.fixture(scope="module")
def tour(tmp_path_factory):
    """A quick run of the tour in an empty directory: what it printed, and the directory."""
    for module in EXTRAS:
        pytest.importorskip(module, reason=f"the tour needs {module}: pip install {EXTRAS[module]}")
    directory = tmp_path_factory.mktemp("tour")
    command = [sys.executable, "-W", "error::UserWarning:funcad", "-m", "funcad", "tour", "--quick"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, env=environment())
    assert done.returncode == 0, done.stderr
    return done.stdout, directory


def environment():
    """This process's environment, with the package that is being tested on the path."""
    root = str(Path(__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])}


def test_four_stops(tour):
    printed, _ = tour
    assert re.findall(r"^(\d)  ", printed, re.MULTILINE) == ["1", "2", "3", "4"]
    for name in ("jit(value_and_grad(loss))", "vmap(grad(loss))", "hvp"):
        assert name in printed
    assert max(map(len, printed.splitlines())) < 120


def test_it_learns(tour):
    printed, _ = tour
    before, after = map(float, re.findall(r"([\d.]+) % of the test digits", printed))
    assert before > 85 and after > 85
    assert int(re.search(r"largest, (\d+) belong", printed)[1]) >= 5
    first, last = map(float, re.search(r"Loss ([\d.]+) before, ([\d.]+) after", printed).groups())
    assert last < first


def test_plot_is_where_it_says(tour):
    printed, directory = tour
    name = re.search(r"The plot is in (\S+);", printed)[1]
    assert (directory / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("missing", [pytest.param(e, marks=[pytest.mark.slow] * (i > 0)) for i, e in enumerate(EXTRAS)])
def test_missing_extra_is_named(missing, tmp_path):
    program = f"import sys; sys.modules[{missing!r}] = None; " + TYPED
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment())
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == f"The tour needs {EXTRAS[missing]}, which is not installed: pip install {EXTRAS[missing]}\n"


def test_help_needs_no_fit(tmp_path):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn: pip install scikit-learn")
    command = [sys.executable, "-m", "funcad", "tour", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment())
    assert done.returncode == 0 and "--output" in done.stdout and "--quick" in done.stdout


def test_all_that_is_missing_is_one_message(tmp_path):
    program = "import sys; sys.modules.update(dict.fromkeys(['matplotlib', 'sklearn'])); " + TYPED
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment())
    assert "pip install scikit-learn matplotlib" in done.stderr.replace("threadpoolctl ", "").replace(" tqdm", "")
    assert done.stderr.count("\n") == 1
