"""Programs as users write them: they run, and neither checker finds an error in them; it finds each of those in wrong.py."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import funcad
from tests.workers import own_folder

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
WRONG = HERE / "wrong.py"
CHECKOUT = Path(funcad.__file__).parent.parent
CHECKERS = ["mypy", pytest.param("pyright", marks=pytest.mark.slow)]
pytestmark = pytest.mark.group("checkers")  # one worker starts them


def errors_of(checker: str, files: list[Path], folder: Path) -> list[tuple[str, int, str]]:
    """(file, line, message) of each error."""
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed")
    cache = (own_folder() or folder) / "mypy"  # what it found in NumPy and in funcad, by the hashes of their files
    copies = [shutil.copy(path, folder) for path in files]  # programs of somebody else's, in a folder of their own
    environment = {**os.environ, "MYPYPATH": str(CHECKOUT), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    options = {
        "mypy": ["--config-file=", f"--cache-dir={cache}", "--follow-imports=silent", "--check-untyped-defs", "--no-pretty"],
        "pyright": ["--outputjson", "--project", str(folder)],
    }
    settings = {"extraPaths": [str(CHECKOUT)], "include": [path.name for path in files], "typeCheckingMode": "standard"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", checker, *options[checker], *(map(str, copies) if checker == "mypy" else [])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)
    if checker == "pyright":
        found = json.loads(done.stdout)
        assert found["summary"]["filesAnalyzed"] == len(files)
        problems = [d for d in found["generalDiagnostics"] if d["severity"] == "error"]
        return [(Path(d["file"]).name, d["range"]["start"]["line"] + 1, d["message"]) for d in problems]
    assert done.returncode in (0, 1) and re.search(r"Success|Found \d+ error", done.stdout), done.stdout + done.stderr
    lines = [re.match(r"(.+?):(\d+): error: (.*)", line) for line in done.stdout.splitlines()]
    return [(Path(m[1]).name, int(m[2]), m[3]) for m in lines if m]


@pytest.fixture(scope="module", params=CHECKERS)
def errors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int, str]]:
    """What a checker says of all programs, which it reads at once: most of its time goes to funcad itself."""
    return errors_of(request.param, [*PROGRAMS, WRONG], tmp_path_factory.mktemp("checked"))


def test_right_programs_have_no_errors(errors: list[tuple[str, int, str]]) -> None:
    assert len(PROGRAMS) >= 15
    assert [error for error in errors if error[0] in {path.name for path in PROGRAMS}] == []


def test_each_mistake_is_found(errors: list[tuple[str, int, str]]) -> None:
    lines = WRONG.read_text().splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if "# wrong:" in line}
    assert {line for file, line, _ in errors if file == WRONG.name} == wrong


@pytest.mark.share(3)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_the_programs_run(program: Path) -> None:
    """What the checkers call right is right: `assert_type` says nothing when it runs, so the programs print."""
    spec = importlib.util.spec_from_file_location(f"typed_{program.stem}", program)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]


@pytest.mark.slow
def test_revealed_types_are_no_any(tmp_path: Path) -> None:
    """Any may stand in the type of an array, for a rank or a dtype, and in the state of an optimiser, nowhere else."""
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    file = shutil.copy(HERE / "revealed.py", tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(CHECKOUT)], "typeCheckingMode": "standard"}))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--project", str(tmp_path)]
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    found = [d["message"] for d in json.loads(done.stdout)["generalDiagnostics"]]
    assert len(found) == Path(file).read_text().count("reveal_type(") >= 43
    known = re.compile(r"ndarray\[(tuple\[[^]]*\]|Any), (dtype\[(Any|[\w]+(\[Any\])?)\]|Any)\]|tuple\[Any, \.\.\.\]")
    types = [known.sub("array", re.sub(r'^Type of ".*" is "', "", message)) for message in found]
    assert [text for text in types if "Any" in text or "Unknown" in text] == []
