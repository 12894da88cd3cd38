"""What a file of the house may be: functions that list offenders, called by test_architecture.py.

A file is a concept: long enough to be worth opening, short enough to be read. Numbers of files and of lines that import from
the file's own folder only fall; a commit that raises one says why.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from tests.house_budgets import is_generated

LONGEST, SHORTEST = 900, 60  # lines of a file
OWN_IMPORTS = 1507  # lines that import from the folder in which they stand, at most

# A file below the least length is a public module, named after another library's, or a program that is run by its name.
SHORT = {"__main__.py", "distributed/processes_tour.py"}
MIRRORS = ("autograd/", "jax/")  # their modules are those of HIPS autograd and of JAX
LATER: dict[str, str] = {}  # the other short files: the issue that rebuilds each
# Modules that users open with dir(), which `__all__` serves; besides those of MIRRORS and every `__init__.py`.
SHOWN = {
    "control/policies.py",
    "debug.py",
    "errors.py",
    "flatten_util.py",
    "image.py",
    "interop.py",
    "nn/initializers.py",
    "numpy/array_api.py",
    "numpy/fft.py",
    "numpy/linalg.py",
    "ops.py",
    "scipy/constants.py",
    "scipy/fft.py",
    "scipy/sparse/linalg.py",
    "scipy/sparse/csgraph.py",
    "scipy/spatial/distance.py",
    "scipy/spatial/transform.py",
    "testing.py",
    "tree_util.py",
}


def lines_of(path: Path) -> int:
    return path.read_text(encoding="utf8").count("\n")


def written_files(root: Path) -> list[Path]:
    """All but those that a command writes."""
    return [path for path in sorted(root.rglob("*.py")) if not is_generated(path.read_text(encoding="utf8"))]


def too_long(root: Path) -> list[str]:
    return [f"{path}: {n} lines" for path in written_files(root) if (n := lines_of(path)) > LONGEST]


def too_short(root: Path) -> list[str]:
    found = []
    for path in written_files(root):
        name = path.relative_to(root).as_posix()
        may_be = path.name == "__init__.py" or name.startswith(MIRRORS) or name in SHORT | SHOWN or name in LATER
        if not may_be and lines_of(path) < SHORTEST:
            found.append(f"{name}: {lines_of(path)} lines")
    return found


def no_longer_short(root: Path) -> list[str]:
    """What stands in LATER without need."""
    return [name for name in LATER if not (root / name).exists() or lines_of(root / name) >= SHORTEST]


def own_imports(path: Path, root: Path, nodes: Iterable[ast.AST]) -> int:
    """Lines of import statements of a file that import from its own folder."""
    package = ".".join(path.parent.relative_to(root.parent).parts)
    lines = 0
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name) or ""
            if module == package or module.startswith(package + "."):
                lines += (node.end_lineno or node.lineno) - node.lineno + 1
    return lines


def has_needless_all(path: Path, root: Path, tree: ast.Module) -> bool:
    """Does the file say `__all__`, though nobody asks it for dir()?"""
    name = path.relative_to(root).as_posix()
    if path.name == "__init__.py" or name.startswith(MIRRORS) or name in SHOWN:
        return False
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return True
    return False
