"""What `pip install -e .` leaves behind."""

from __future__ import annotations

import ast
import bz2
import importlib.util
import os
import re
import subprocess
import sys
import zlib
from configparser import ConfigParser
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="module")
def setup() -> Any:
    """The module setup.py."""
    spec = importlib.util.spec_from_file_location("setup_of_funcad", Path(__file__).parents[1] / "setup.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_wheel_is_small(setup: Any) -> None:
    """With the manual's text: what each file is when deflated, its name twice in the archive, and its hash in the list."""
    root = Path(__file__).parents[1]
    manual = setup.packed_manual(root / "docs")
    assert b"# Training loops" in bz2.decompress(manual)
    files = [path for path in (root / "funcad").rglob("*") if path.suffix in (".py", ".pyi", ".typed")]
    texts = {path: path.read_text(encoding="utf-8") for path in files if path.stem not in setup.FOR_DEVELOPERS}
    package = root / "funcad"
    texts |= {path: setup.for_users(text, path.relative_to(package)) for path, text in texts.items() if path.suffix == ".py"}
    sizes = [len(zlib.compress(text.encode())) + 2 * len(str(path.relative_to(root))) + 121 for path, text in texts.items()]
    assert sum(sizes) + len(manual) < 2.09e6


def test_the_wheel_leaves_out_only_what_runs_not_and_nobody_sees(setup: Any) -> None:
    """Comments, docstrings of private functions that are called and never handed on, and of modules inside; all else stays."""
    source = '''
"""Of the module."""

def public(x):  # why
    """Of a public function."""
    return "# no comment", _called(x)  # type: ignore

def _called(x):
    """Of a private function,
    of two lines."""
    return x

def _handed(x):
    """A table hands it on, with its docstring."""
    return x

TABLE = [_handed]
'''
    assert setup.for_users(source) == source.replace("  # why", "").replace(
        '    """Of a private function,\n    of two lines."""\n', "\n\n"
    )
    for path in sorted((Path(funcad.__file__).parent / "jitted").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        before, after = ast.parse(text), ast.parse(setup.for_users(text, Path("jitted", path.name)))
        for node in [*setup._unread(before), *([before] if path.name != "__init__.py" else [])]:
            del node.body[0]
        assert ast.dump(before, include_attributes=True) == ast.dump(after, include_attributes=True), path


@pytest.mark.slow
def test_the_wheel_has_every_docstring_that_help_shows(setup: Any, tmp_path: Path) -> None:
    package = Path(funcad.__file__).parent
    for path in package.rglob("*.py*"):
        if path.suffix in (".py", ".pyi"):
            copy = tmp_path / "funcad" / path.relative_to(package)
            copy.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text(encoding="utf-8")
            built = setup.for_users(text, path.relative_to(package)) if path.suffix == ".py" else text
            copy.write_text(built, encoding="utf-8")
    told = []
    for folder in (package.parent, tmp_path):
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        done = subprocess.run([sys.executable, "-c", DOCSTRINGS], env=environment, capture_output=True, text=True, check=True)
        told.append(done.stdout)
    assert told[0].count("\n") > 3000 and told[0] == told[1]


DOCSTRINGS = """
import funcad, inspect, types
seen, left = set(), [funcad]
while left:
    module = left.pop()
    for name in dir(module):
        found = getattr(module, name)
        if isinstance(found, types.ModuleType):
            if found.__name__.startswith("funcad") and found.__name__ not in seen:
                seen.add(found.__name__)
                left.append(found)
        elif getattr(found, "__module__", "").startswith("funcad"):
            print(module.__name__, name, ascii(inspect.getdoc(found)))
            if isinstance(found, type):
                for attribute in dir(found):
                    print("   ", attribute, ascii(inspect.getdoc(getattr(found, attribute))))
"""


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
