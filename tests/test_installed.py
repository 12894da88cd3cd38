"""What `pip install -e .` leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import funcad


def imported_from(folder: Path) -> str:
    """Which file a Python started in that folder imports as funcad; "" if none."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", "import funcad; print(funcad.__file__ or 'a folder without __init__.py')"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.stdout.strip()


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
