"""What `pip install -e .` leaves behind."""

from __future__ import annotations

import bz2
import importlib.util
import os
import re
import subprocess
import sys
import zlib
from configparser import ConfigParser
from pathlib import Path

import numpy as np
import pytest

import funcad


def imported_from(folder: Path) -> str:
    """Which file a Python started in that folder imports as funcad; "" if none."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", "import funcad; print(funcad.__file__ or 'a folder without __init__.py')"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_version_is_the_same_wherever_it_stands() -> None:
    root = Path(__file__).parents[1]
    for name, pattern in (("CITATION.cff", r"^version: (\S+)$"), (".ci/conda/recipe.yaml", r'^  version: "(\S+)"$')):
        (version,) = re.findall(pattern, (root / name).read_text(encoding="utf-8"), re.MULTILINE)
        assert version == funcad.__version__, name


def test_the_licence_is_the_same_wherever_it_stands() -> None:
    """As an SPDX expression, which setuptools before 77 drop without a word."""
    root = Path(__file__).parents[1]
    setup = ConfigParser()
    setup.read(root / "setup.cfg", encoding="utf-8")
    names = (".ci/conda/recipe.yaml", "CITATION.cff", "pyproject.toml")
    recipe, citation, project = [(root / name).read_text(encoding="utf-8") for name in names]
    said = re.findall(r"^ *license: (.+)$", recipe + citation, re.MULTILINE)
    assert said == [setup["metadata"]["license_expression"]] * 2
    versions = re.findall(r"setuptools ?>=(\d+)", recipe + project)
    assert len(versions) == 2 and min(map(int, versions)) >= 77


def test_the_conda_recipe_asks_for_what_setup_cfg_asks_for() -> None:
    root = Path(__file__).parents[1]
    setup = ConfigParser()
    setup.read(root / "setup.cfg", encoding="utf-8")
    wanted = setup["options"]["install_requires"].split() + [f"python{setup['options']['python_requires']}"]
    recipe = (root / ".ci/conda/recipe.yaml").read_text(encoding="utf-8")
    run = recipe.partition("\n  run:\n")[2].partition("run_constraints")[0]
    assert sorted(line.strip("- ").replace(" ", "") for line in run.splitlines() if ">=" in line) == sorted(wanted)


def test_the_wheel_is_small() -> None:
    """With the manual's text: what each file is when deflated, its name twice in the archive, and its hash in the list."""
    root = Path(__file__).parents[1]
    spec = importlib.util.spec_from_file_location("setup_of_funcad", root / "setup.py")
    assert spec is not None and spec.loader is not None
    setup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(setup)
    manual = setup.packed_manual(root / "docs")
    assert b"# Training loops" in bz2.decompress(manual)
    files = [path for path in (root / "funcad").rglob("*") if path.suffix in (".py", ".pyi", ".typed")]
    files = [path for path in files if path.stem not in setup.FOR_DEVELOPERS]
    sizes = [len(zlib.compress(path.read_bytes())) + 2 * len(str(path.relative_to(root))) + 121 for path in files]
    assert sum(sizes) + len(manual) < 1.95 * 2**20


@pytest.mark.slow
def test_the_editable_install_is_found_from_any_folder_by_python_and_by_pyright(tmp_path: Path) -> None:
    """In an environment of its own, beside the packages of this one."""
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("needs pyright")
    checkout, python = Path(__file__).parents[1], tmp_path / "environment" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)
    (site,) = (tmp_path / "environment").glob("lib/python*/site-packages")
    (site / "beside.pth").write_text(str(Path(np.__file__).parents[1]))  # where it lies, wherever this environment has it from
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "-e", checkout]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"pip cannot install here: {done.stderr[-300:]}")
    program = tmp_path / "elsewhere" / "program.py"
    program.parent.mkdir()
    program.write_text("import numpy as np\nimport funcad\n\nreveal_type(funcad.jit(lambda x: np.sin(x)).cache_info().hits)\n")
    where = [python, "-c", "import funcad; print(funcad.__file__)"]
    found = subprocess.run(where, cwd=program.parent, capture_output=True, text=True, check=True).stdout.strip()
    assert found == str(checkout / "funcad" / "__init__.py")
    check = [sys.executable, "-m", "pyright", "--pythonpath", str(python), str(program)]
    said = subprocess.run(check, cwd=program.parent, capture_output=True, text=True).stdout
    assert 'is "int"' in said and "0 errors" in said, said


def test_a_folder_of_that_name_does_not_shadow_the_package(tmp_path: Path) -> None:
    """A clone is a folder called funcad, and Python may be started beside it."""
    empty, above = tmp_path / "empty", tmp_path / "above"
    empty.mkdir()
    (above / "funcad" / "funcad").mkdir(parents=True)
    installed = imported_from(empty)
    if not installed:
        pytest.skip("funcad is not installed here, it is only found from its folder")
    assert imported_from(above) == installed
    assert Path(installed).name == Path(funcad.__file__).name == "__init__.py"
