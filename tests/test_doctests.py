"""Every example in a docstring runs and gives what it says."""

from __future__ import annotations

import doctest
import importlib.util
import pkgutil
from pathlib import Path

import numpy as np
import pytest

import funcad
from funcad.jitted import first_calls

OPTIONAL = {"cupy", "cupyx", "llvmlite", "mpi4py", "sklearn", "matplotlib", "tqdm"}
MODULES = ["funcad", *sorted(m.name for m in pkgutil.walk_packages(funcad.__path__, "funcad.") if "__main__" not in m.name)]


@pytest.fixture(autouse=True)
def _as_users_find_it(monkeypatch: pytest.MonkeyPatch, patient: None) -> None:
    """The first call of a jitted function is observed, and its account kept, which other tests leave out."""
    monkeypatch.setattr(first_calls, "OBSERVES", True)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    spec = importlib.util.find_spec(name)
    if name == "funcad.scipy.sparse.sparse_blocks":
        pytest.importorskip("scipy", "1.17")
    if spec is not None and spec.origin is not None and ">>>" not in Path(spec.origin).read_text(encoding="utf-8"):
        return
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] in OPTIONAL:
            pytest.skip(f"{error.name} is not installed")
        raise
    with np.printoptions(legacy=False, precision=8, suppress=False, threshold=1000, linewidth=75):
        found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert found.failed == 0
