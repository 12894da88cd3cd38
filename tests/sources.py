"""The files of the package, each read and parsed once for all rules of files: `rule`, `survey`.

A rule is a function of one `Source` that gives its offenders; `survey` gives those of all rules in all files, and what else
tests/test_architecture.py wants to know of each.
"""

from __future__ import annotations

import ast
import functools
import gc
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import funcad
from tests import house_budgets, house_names, house_rules

ROOT = Path(funcad.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT.parent))


def folder(path: Path) -> str:
    """The first part of the module's name under funcad: `ir`, `errors`, `__init__`."""
    parts = path.relative_to(ROOT).parts
    return parts[0] if len(parts) > 1 else path.stem


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf8"), str(path))


def imported(node: ast.AST) -> list[str]:
    """Dotted names that an import statement names."""
    if isinstance(node, ast.Import):
        return [a.name for a in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative import"
        if node.module == "funcad":
            return [f"funcad.{a.name}" for a in node.names]
        return [node.module or ""]
    return []


def loaded(node: ast.AST) -> list[str | None]:
    """The name, or its beginning, that a call of `import_module` or `OnDemand` is given; None if it cannot be read here."""
    if not isinstance(node, ast.Call):
        return []
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if not called.endswith("import_module") and called != "OnDemand":
        return []
    given = node.args[0]
    if isinstance(given, ast.IfExp):
        return [*loaded_name(given.body), *loaded_name(given.orelse)]
    return loaded_name(given)


def loaded_name(given: ast.AST) -> list[str | None]:
    if isinstance(given, ast.JoinedStr):
        given = given.values[0]
    return [given.value] if isinstance(given, ast.Constant) and isinstance(given.value, str) else [None]


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


def imported_with_names(node: ast.AST) -> list[str]:
    targets = imported(node)
    names = [f"{t}.{a.name}" for t in targets for a in node.names] if isinstance(node, ast.ImportFrom) else []
    return [*names, *targets]


def annotations(nodes: Iterable[ast.AST]) -> list[ast.expr]:
    found: list[ast.expr | None] = []
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = node.args
            all_of_them = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            found += [a.annotation for a in all_of_them if a is not None] + [node.returns]
        elif isinstance(node, ast.AnnAssign):
            found.append(node.annotation)
    return [a for a in found if a is not None]


class Source:
    """One file of the package: its path, its text and its tree."""

    def __init__(self, path: Path, text: str | None = None):
        """`text`: what the file would have."""
        self.path = path
        self.inside = path.relative_to(ROOT).as_posix()  # the path under funcad/
        self.folder = folder(path)
        self.text = path.read_text(encoding="utf8") if text is None else text
        self.tree = ast.parse(self.text, str(path))
        self.nodes = list(ast.walk(self.tree))
        self._nodes: dict[type, list[Any]] = {}
        for node in self.nodes:
            self._nodes.setdefault(type(node), []).append(node)
        self._functions = [(f.lineno, f.end_lineno) for f in self.of(ast.FunctionDef, ast.AsyncFunctionDef)]

    def of(self, *kinds: type) -> list[Any]:
        """All nodes of these kinds."""
        return [node for kind in kinds for node in self._nodes.get(kind, ())]

    def at(self, node: Any) -> str:
        return f"{name(self.path)}:{node.lineno}"

    def in_a_function(self, node: Any) -> bool:
        return any(first <= node.lineno <= last for first, last in self._functions)


Rule = Callable[[Source], Iterable[str]]
RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    """A rule that every file keeps: it gives the offenders in one."""
    RULES.append(function)
    return function


class Survey(NamedTuple):
    offenders: dict[str, list[str]]  # by rule
    imports: dict[str, list[str]]  # by module: what its first level imports, and names of that which may be modules
    annotations: dict[str, tuple[int, int]]  # by folder: how many there are, and how many are `Any` and nothing else
    classes: dict[str, list[tuple[str, int]]]  # by file: names and lines
    functions: dict[str, list[tuple[str, int]]]  # by file: names and numbers of parameters
    measured: dict[str, Counter]  # by folder: what tests/house_budgets.py measures, without generated files
    own_imports: list[int]  # of each file: its lines that import from its own folder
    needless_all: list[str]


@functools.cache
def survey() -> Survey:
    """What all rules find in all files. No tree is kept: together they take 250 MB."""
    found = Survey({r.__name__: [] for r in RULES}, {}, {}, {}, {}, {}, [], [])
    was_on = gc.isenabled()
    gc.disable()  # trees are many objects in circles: it would look at each of them again and again
    try:
        for path in FILES:
            _survey_file(found, Source(path))
            gc.collect(0)
    finally:
        if was_on:
            gc.enable()
    return found


def _survey_file(found: Survey, source: Source) -> None:
    for r in RULES:
        found.offenders[r.__name__] += dict.fromkeys(r(source))
    found.imports[dotted(source.path)] = [n for node in source.tree.body for n in imported_with_names(node)]
    every = annotations(source.of(ast.FunctionDef, ast.AsyncFunctionDef, ast.AnnAssign))
    n, bare = found.annotations.get(source.folder, (0, 0))
    if not house_budgets.is_generated(source.text):
        found.annotations[source.folder] = n + len(every), bare + sum(getattr(a, "id", "") == "Any" for a in every)
    found.classes[source.inside] = house_names.classes(source.of(ast.ClassDef))
    found.functions[source.inside] = list(house_names.functions(source.tree))
    if not house_budgets.is_generated(source.text):
        measured = house_budgets.measured_text(source.text, source.nodes) + Counter(files=1)
        found.measured.setdefault(house_budgets.folder_of(source.path), Counter(files=0)).update(measured)
        found.own_imports.append(house_rules.own_imports(source.path, ROOT, source.of(ast.Import, ast.ImportFrom)))
    if house_rules.has_needless_all(source.path, ROOT, source.tree):
        found.needless_all.append(source.inside)
