"""The README's Python blocks print what they say they print, and its commands are where .ci/run finds them."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import cliffs_picture
from funcad.jitted import first_calls
from tests.old_processor import environment
from tests.shards import shard

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def _as_users_find_it(monkeypatch, patient):
    """The first call of a jitted function is observed, and its account kept, which other tests leave out."""
    monkeypatch.setattr(first_calls, "OBSERVES", True)


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block-{i}" for i in range(len(BLOCKS))])
def test_block_prints_what_it_says(block):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    expected = [line[3:] for line in block.splitlines() if line.startswith("#> ")]
    assert printed.getvalue().splitlines() == expected


def test_there_are_examples_of_the_four_transformations():
    assert all(any(f"{name}(" in block or f"@{name}" in block for block in BLOCKS) for name in ("grad", "hvp", "vmap", "jit"))


def test_what_is_read_in_an_evening_is_as_long_as_it_says():
    root = Path(__file__).parents[1] / "funcad"
    lines = sum(p.read_text(encoding="utf-8").count("\n") for name in ("ir", "transforms") for p in (root / name).glob("*.py"))
    design = (root.parent / "docs" / "design.md").read_text(encoding="utf-8")
    said = [int(n.replace(",", "")) for n in re.findall(r"some ([\d,]+) lines", README + design)]
    assert len(said) == 2 and all(abs(n - lines) <= 100 for n in said), f"ir/ and transforms/ have {lines} lines"


def test_the_picture_shows_the_figures_of_its_page():
    page = (Path(cliffs_picture.__file__).parent / "RESULTS_CLIFFS.md").read_text(encoding="utf-8")
    drawn = (Path(cliffs_picture.__file__).parent / "cliffs.svg").read_text(encoding="utf-8")
    assert cliffs_picture.picture(page) == drawn
    assert f"```text\n{cliffs_picture.text_picture(page)}\n```" in README  # whole where pictures are not shown
    bars = cliffs_picture.rows(page)
    assert f"{sum(ratio <= 1 for ratio, _ in bars)} of {len(bars)} at least as fast as JAX" in README.replace("\n", " ")


def test_it_is_read_in_five_minutes():
    assert len(README.split()) <= 900


def command(name):
    found = re.findall(rf"^<!-- ci:{name} -->\n\n*```bash\n([^\n]*)\n```$", README, re.MULTILINE)
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("name", ["tour", "test"])
def test_command_is_one_line_below_its_marker(name):
    assert command(name).startswith("python3 -m venv .venv && ")


def subset():
    """The patterns of the README's subset, and the files that each stands for."""
    start, braces = ".venv/bin/python -m pytest tests/{test_smoke,*/test_{", "}}.py"
    line, here = command("subset"), Path(__file__).parent
    assert line.startswith(start) and line.endswith(braces)
    patterns = line.removeprefix(start).removesuffix(braces).split(",")
    return {"smoke": [here / "test_smoke.py"], **{p: sorted(here.glob(f"*/test_{p}.py")) for p in patterns}}


def test_the_subset_names_test_files():
    """Each pattern stands for files, the engines' tests are among them, and the slowest others are not."""
    here = Path(__file__).parent
    for pattern, files in subset().items():
        assert files, f"{pattern} is no test file"
    chosen = {p.name for files in subset().values() for p in files}
    native = {p.name for p in here.glob("backends/test_native_*.py")}
    assert chosen >= {"test_smoke.py", "test_engines.py", "test_engine_fuzz.py", *native}
    slow = {"test_surface.py", "test_passes_programs.py", "test_every_primitive.py", "test_notebooks.py", "test_tour.py"}
    assert not chosen & slow and slow <= {p.name for p in here.rglob("test_*.py")}


@pytest.mark.slow
@pytest.mark.parametrize("file", shard([p for files in subset().values() for p in files]), ids=lambda p: p.stem)
def test_the_subset_under_the_audit(file):
    """What is remembered is computed again at each hit, and is the same; tests that count are left out (tests/workers.py)."""
    kept = {k: v for k, v in os.environ.items() if k not in ("FUNCAD_SLOW_SHARD", "PYTEST_ADDOPTS")}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "--tb=short", str(file)]
    where = {"cwd": Path(__file__).parents[1], "env": kept | {"FUNCAD_AUDIT": "1"}}
    done = subprocess.run(command, **where, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_the_older_processor_does_without_what_this_one_has():
    """What `tests.old_processor` sets is read: NumPy and funcad's compiler say so."""
    ask = (
        "import numpy as np; from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__;"
        "from funcad.backends.native import target;"
        "print([f for f in __cpu_dispatch__ if __cpu_features__[f]], target.host().vector_bits if target.available() else 128)"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask], env={**os.environ, **environment()}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["[]", "128"]


# -- the name on the public package index is somebody else's: what is missing is named itself, or comes from the checkout

COMMANDS = re.compile(r"\b(?:install|add|download|requires?)\b[^\n&|;]*?(?<![\w/.'\"-])['\"]?\bfuncad\b(?![\w/.-])")
EXTRAS = re.compile(r"\bfuncad\[\w")
TEXT = {".py", ".md", ".ipynb", ".cfg", ".toml", ".txt", ".yml", ".yaml", ".sh", ".in", ""}


def sends_to_the_index(text: str) -> list[str]:
    """The lines that install funcad by its name, or one of its extras; those that warn of it in bold do not."""
    text = re.sub(r"\*\*`pip install funcad` (is|installs) another [^*]*\*\*", "", text)
    commands = [line for line in text.splitlines() if re.search(r"\b(pip3?|pipx|uv|conda|mamba|poetry|pdm)\b", line)]
    return [line for line in commands if COMMANDS.search(line)] + [line for line in text.splitlines() if EXTRAS.search(line)]


def test_nothing_sends_people_to_a_strangers_package():
    root = Path(__file__).parents[1]
    hidden = lambda path: any(part.startswith(".") for part in path.relative_to(root).parts[:-1])
    found = []
    for path in sorted(root.rglob("*")):
        skip = hidden(path) or "__pycache__" in path.parts or path == Path(__file__)
        if not skip and path.suffix in TEXT and path.is_file() and path.name != ".git":
            text = path.read_text(encoding="utf-8", errors="replace")
            found += [f"{path.relative_to(root)}: {line.strip()}" for line in sends_to_the_index(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "pip install funcad",
        "pip install 'funcad[cuda12]'",
        "run `uv pip install -U funcad`",
        "pip install numpy funcad>=0.1",
        "uv add funcad",
        "    funcad[fast]",
    ],
)
def test_lines_that_would_are_seen(line):
    assert sends_to_the_index(line)


@pytest.mark.parametrize("line", ["pip install -e .", "pip install -e '.[fast]' && python -m funcad", "pip install ./funcad"])
def test_lines_that_name_the_checkout_are_not(line):
    assert not sends_to_the_index(line)
