"""The tree is what it says it is: sizes, import levels, the public list, and what `import funcad` loads."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import funcad
from funcad.ir.primitive import Primitive
from funcad.passes import subprograms
from funcad.primitives.atoms import ATOMS
from funcad.primitives.composite_atoms import WORDS
from tests.specs import all_specs

ROOT = Path(funcad.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
TESTS = sorted(Path(__file__).parent.rglob("*.py"))
MAX_LINES = 500

# A module imports only lower levels and its own folder.
LEVELS = {
    "errors": 0,
    "configuration": 0,
    "names": 0,
    "tree": 1,
    "host": 2,
    "show": 3,
    "ir": 4,
    "primitives": 5,
    "masks": 6,
    "transforms": 7,
    "passes": 7,
    "backends": 8,
    "unjitted": 9,
    "writes": 9.5,
    "api": 10,
    "control": 11,
    "custom": 12,
    "jitted": 13,
    "numpy": 14,
    "lax": 15,
    "random": 15,
    "diagnosis": 15,
    "scipy": 16,
    "certificate": 16.5,
    "doors": 17,
    "nn": 17,
    "distributed": 17.5,
    "testing": 17,
    "foreign_names": 17,
    "sparse": 17.5,
    "stats": 17.5,
    "taylor": 17.6,
    "autograd": 18,
    "jax": 18,
    "__init__": 18,
    "tour": 19,
    "__main__": 20,
}
OTHER = 17  # further modules directly under funcad/: users of everything below
LINES = {  # of a folder, at most: what is to be read first. A commit that raises a number says why
    # what serves every operation and knows nothing of programs; who needs buffers; copies lent on a device; sums
    "host": 1958,
    "ir": 1300,
    "masks": 926,  # masks of stacks, and short ways for the common cases; numbers that join a device's arrays
    "show": 520,
    "transforms": 950,
    # large arrays, writes by rows, chunks, passes row by row, operations apart, mapped gradients; rows that are columns, and
    # reads of large arrays whose cotangents chunks make alone
    "unjitted": 4752,
}
# modules whose names are those of NumPy, SciPy, JAX or autograd; all other file names are unique
PUBLIC = {
    "core", "fft", "integrate", "lax", "linalg", "numpy", "optimizers", "random", "signal", "special", "stats", "test_util",
    "tracer", "__init__",
}  # fmt: skip
LAZY = {"scipy", "cupy", "cupyx", "llvmlite", "mpi4py"}  # heavy or optional: imported in functions, each behind one door
NAMED = {  # the other imports inside functions, with their reasons
    ("host/user_warnings.py", "numpy._core.umath"): "a private name of NumPy's, which another version may not have",
    ("tree/containers.py", "dataclasses"): "it loads inspect, and whoever has a dataclass has loaded it",
    ("tree/objects.py", "dataclasses"): "it loads inspect, and whoever has a dataclass has loaded it",
    ("tree/containers.py", "annotationlib"): "Python 3.14 has it, which alone needs it",
    ("debug.py", "pdb"): "a debugger is loaded when somebody debugs",
}
BY_NAME = {  # import modules whose names are worked out
    "numpy/dispatch.py": "those that it lists in LATER",
    "scipy/door.py": "SciPy's and CuPy's",
    "foreign_names.py": "what somebody else's `import autograd...` and `import jax...` name",
}
TOUR = {"sklearn", "matplotlib", "tqdm", "rich"}  # the tour's own


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
    """The name, or its beginning, that a call of `import_module` is given; None if it cannot be read here."""
    if not (isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")):
        return []
    given = node.args[0]
    if isinstance(given, ast.IfExp):
        return [*loaded_name(given.body), *loaded_name(given.orelse)]
    return loaded_name(given)


def loaded_name(given: ast.AST) -> list[str | None]:
    if isinstance(given, ast.JoinedStr):
        given = given.values[0]
    return [given.value] if isinstance(given, ast.Constant) and isinstance(given.value, str) else [None]


all_files = pytest.mark.parametrize("path", FILES, ids=name)


@pytest.mark.parametrize("path", [*FILES, *TESTS], ids=lambda p: str(p.relative_to(ROOT.parent)))
def test_files_are_short(path: Path) -> None:
    lines = path.read_text(encoding="utf8").count("\n")
    assert lines <= MAX_LINES, f"{name(path)} has {lines} lines, the limit is {MAX_LINES}: split it by ideas"


@pytest.mark.parametrize("folder", LINES)
def test_folders_are_short(folder: str) -> None:
    lines = sum(path.read_text(encoding="utf8").count("\n") for path in (ROOT / folder).glob("*.py"))
    assert lines <= LINES[folder], f"{folder}/ has {lines} lines"


def test_file_names_are_unique() -> None:
    """In a stack trace a file's name says which it is."""
    found: dict[str, list[str]] = {}
    for path in FILES:
        if path.stem not in PUBLIC:
            found.setdefault(path.stem, []).append(name(path))
    assert {stem: paths for stem, paths in found.items() if len(paths) > 1} == {}


def test_tests_mirror_the_package() -> None:
    """The tests of a folder of the package are in the folder of that name; those of whole programs in tests/whole."""
    here = Path(__file__).parent
    folders = {path.parent.name for path in here.glob("*/test_*.py")}
    assert folders <= {path.parent.name for path in ROOT.glob("*/__init__.py")} | {"whole", "differential", "typing"}
    names = [path.name for path in here.rglob("test_*.py")]
    assert len(names) == len(set(names))
    whole_house = "architecture completeness contributing doctests installed manual notebooks readme smoke tour"
    assert sorted(path.stem.removeprefix("test_") for path in here.glob("test_*.py")) == whole_house.split()


@all_files
def test_imports_go_downwards(path: Path) -> None:
    own = folder(path)
    level = LEVELS.get(own, OTHER)
    for node in ast.walk(parsed(path)):
        for module in [*imported(node), *loaded(node)]:
            if module is None:
                assert path.relative_to(ROOT).as_posix() in BY_NAME, f"{name(path)}:{node.lineno} imports who knows what"
                continue
            parts = module.split(".")
            if parts[0] != "funcad":
                continue
            other = (parts[1] if len(parts) > 1 else "") or "__init__"
            allowed = other == own or LEVELS.get(other, OTHER) < level
            assert allowed, f"{name(path)}:{node.lineno} imports {module}, which is not below {own}"


def test_one_reference_goes_upwards() -> None:
    """What stands above is reached through `Tracer.namespace`, which is set in one place, and through nothing else."""
    found = []
    for path in FILES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Assign) and any(ast.unparse(t).endswith(".namespace") for t in node.targets):
                found.append(name(path))
            text = ast.unparse(node) if isinstance(node, ast.Subscript) else ""
            assert not re.search(r"modules\[['\"]funcad", text), f"{name(path)}:{node.lineno} finds {text}"
    assert found == ["funcad/__init__.py"]


@pytest.mark.parametrize(("line", "expected"), [
    ("importlib.import_module('funcad.scipy.special')", ["funcad.scipy.special"]),
    ("_importlib.import_module(f'funcad.scipy.{name}')", ["funcad.scipy."]),
    ("import_module('scipy' if x else 'funcad.nn')", ["scipy", "funcad.nn"]),
    ("import_module(name)", [None]),
    ("load('funcad.nn')", []),
])  # fmt: skip
def test_imports_by_name_are_seen(line: str, expected: list[str | None]) -> None:
    assert loaded(ast.parse(line, mode="eval").body) == expected


@all_files
def test_no_star_imports(path: Path) -> None:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            assert all(a.name != "*" for a in node.names), f"{name(path)}:{node.lineno}"


@all_files
def test_no_imports_inside_functions(path: Path) -> None:
    allowed = LAZY | TOUR if folder(path) in ("tour", "__main__") else LAZY
    for function in ast.walk(parsed(path)):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        for node in ast.walk(function):
            for module in imported(node):
                named = (path.relative_to(ROOT).as_posix(), module) in NAMED
                assert named or module.split(".")[0] in allowed, f"{name(path)}:{node.lineno} imports {module} in a function"


@all_files
def test_optional_packages_are_not_imported_at_import(path: Path) -> None:
    inside = {
        id(node)
        for function in ast.walk(parsed_once(path))
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
    }
    for node in ast.walk(parsed_once(path)):
        if id(node) not in inside and folder(path) not in ("tour", "__main__"):
            for module in imported(node):
                assert module.split(".")[0] not in LAZY, f"{name(path)}:{node.lineno} imports {module} at import"


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


def test_modules_do_not_import_each_other_in_circles() -> None:
    modules = {dotted(p): p for p in FILES}
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        found: set[str] = set()
        for node in parsed(path).body:
            for target in imported(node):
                names = [f"{target}.{a.name}" for a in node.names] if isinstance(node, ast.ImportFrom) else []
                known = [n for n in (*names, target) if n in modules and n not in ("funcad", module)]
                found |= {n for n in known if not module.startswith(n + ".")}
        graph[module] = found
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, "circle of imports: " + " -> ".join((*trail[trail.index(module) :], module))
        if module not in done:
            for other in sorted(graph[module]):
                visit(other, (*trail, module))
            done.add(module)

    for module in sorted(graph):
        visit(module, ())


_trees: dict[Path, ast.Module] = {}


def parsed_once(path: Path) -> ast.Module:
    """The same tree at every call, so that nodes can be compared by identity."""
    if path not in _trees:
        _trees[path] = parsed(path)
    return _trees[path]


@all_files
def test_nothing_is_left_to_do(path: Path) -> None:
    for number, line in enumerate(path.read_text(encoding="utf8").splitlines(), 1):
        for word in ("TODO", "FIXME", "XXX"):
            assert word not in line, f"{name(path)}:{number}: {line.strip()}"


@all_files
def test_modules_say_what_they_are(path: Path) -> None:
    assert ast.get_docstring(parsed(path)) or not path.read_text(encoding="utf8").strip(), name(path)


VALUES = (int, float, complex, bool, np.ndarray, np.generic)  # what a traced value may stand for


@all_files
def test_values_are_told_apart_by_their_real_type(path: Path) -> None:
    """A traced value answers `isinstance` as an array or a number: inside funcad that would take it for one."""
    module: types.ModuleType | None = None
    for node in ast.walk(parsed(path)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"):
            continue
        if folder(path) in ("tour", "__main__"):
            continue
        module = module or importlib.import_module(dotted(path))
        try:
            kinds = eval(ast.unparse(node.args[1]), vars(module))
        except NameError:  # of the function's own
            continue
        kinds = getattr(kinds, "__args__", kinds)  # of int | float
        for kind in kinds if isinstance(kinds, tuple) else (kinds,):
            for value in VALUES:
                taken = issubclass(kind, value) or kind is not object and issubclass(value, kind)
                assert not taken, f"{name(path)}:{node.lineno} asks isinstance(..., {kind.__name__}): use host/real_types.is_a"


# -- the public list


def public_list() -> set[str]:
    """Names that funcad/__init__.py imports `as` themselves, and those that it imports at their first use."""
    names = set()
    for node in parsed(ROOT / "__init__.py").body:
        if isinstance(node, ast.ImportFrom):
            names |= {a.asname for a in node.names if a.asname == a.name}
    return names | set(funcad._LAZY_NAMES) | set(funcad._LAZY_MODULES)


def test_public_list_is_what_is_exported() -> None:
    exported = {n for n, v in vars(funcad).items() if not n.startswith("_") and not isinstance(v, types.ModuleType)}
    assert exported <= public_list()
    assert set(dir(funcad)) == public_list() - {n for n, m in funcad._LAZY_NAMES.items() if m.startswith("autograd.")}
    with pytest.raises(AttributeError, match="no_such_name"):
        funcad.no_such_name  # noqa: B018


@pytest.mark.parametrize("public", sorted(public_list()))
def test_public_names_are_documented(public: str) -> None:
    value = getattr(funcad, public)
    if isinstance(value, types.ModuleType) or not callable(value):
        return
    text = value.__doc__ or ""
    assert text.strip(), f"funcad.{public} has no docstring"
    if not isinstance(value, type):
        assert ">>>" in text, f"funcad.{public} has no example"


def test_primitives_live_where_the_table_looks() -> None:
    for module in pkgutil.walk_packages(funcad.__path__, "funcad."):
        if module.name.split(".")[1] in ("primitives", "control", "custom", "__main__", "tour"):
            continue
        for key, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, Primitive):
                assert is_from_below(value), f"{module.name}.{key} is declared outside primitives/, control/ and custom/"


def test_composites_have_no_implementation_beside_their_emit() -> None:
    """What an element is, is said once: by NumPy's ufunc, by the atom itself, or by `emit`, from which the rest follows."""
    seen = set()
    for primitive in {p for op in all_specs() for p in op.primitives if p.emit is not None}:
        if primitive.ufunc is None and primitive.name not in {*ATOMS, "stop_gradient"}:
            seen.add(primitive.name)
            assert getattr(primitive.impl, "formula", None) is primitive.emit, f"{primitive} says its formula twice"
    assert seen >= {"logistic", "clamp", "mul_add"}


def is_from_below(primitive: Primitive) -> bool:
    for package in (funcad.primitives, funcad.control, funcad.custom):
        for module in pkgutil.iter_modules(package.__path__):
            values = vars(importlib.import_module(f"{package.__name__}.{module.name}")).values()
            if any(v is primitive for v in values):
                return True
    return False


# -- what `import funcad` costs


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_nothing_heavy() -> None:
    heavy = ["scipy", "cupy", "cupyx", "jax", "llvmlite", "mpi4py", "matplotlib", "sklearn", "torch", "tqdm", "dataclasses"]
    code = f"""
import sys, numpy
before = set(sys.modules)
import funcad
new = {{m.split(".")[0] for m in set(sys.modules) - before}}
print(sorted(new & set({heavy!r})))
"""
    assert run(code) == "[]"


OF_PRIMITIVES = "ir masks transforms passes backends backends.native unjitted control custom jitted diagnosis".split()


def tables() -> list[tuple[str, list[str]]]:
    """Tables of passes and engines whose keys, or members, are names of primitives: most of them are."""
    primitives = {p.name for op in all_specs() for p in op.primitives} | {"name"}  # checkpoint's
    kinds = set(subprograms._RUN) | set(subprograms._PARAMS) | ATOMS | WORDS
    found = []
    for package in [importlib.import_module(f"funcad.{name}") for name in OF_PRIMITIVES]:
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for key, value in vars(importlib.import_module(info.name)).items():
                if isinstance(value, (dict, frozenset, set, tuple, list)) and value and all(type(n) is str for n in value):
                    known = [n for n in value if n in primitives or n in kinds]
                    if not key.startswith("__") and 2 * len(known) > len(value):
                        found.append((f"{info.name}.{key}", sorted(set(value) - primitives - kinds)))
    return found


FRAMES = {"debug.py"}  # which shows them to the user


@all_files
def test_variables_of_running_functions_are_left_alone(path: Path) -> None:
    if path.relative_to(ROOT).as_posix() not in FRAMES:
        for node in ast.walk(parsed_once(path)):
            if isinstance(node, ast.Attribute):
                assert node.attr != "f_locals", f"{name(path)}:{node.lineno} reads the variables of a running function"


def test_tables_name_primitives_that_exist() -> None:
    of_others = {"funcad.backends.scalars.MATH", "funcad.backends.text_rules.KEYWORD_ONLY"}  # names in `math` and NumPy
    found = [(name, unknown) for name, unknown in tables() if name not in of_others]
    assert len(found) > 10
    facts = {"reduction"}  # a rule for all primitives that have this fact
    assert {name: unknown for name, unknown in found if set(unknown) - facts} == {}


# -- types

BARE = {  # of the annotations in a folder, the part that is `Any` and nothing else, in percent, at most
    "ir": 9,
    "transforms": 3,
    "masks": 33,
    "host": 32,
    "show": 28,
    "unjitted": 39,
    "api": 39,
    "primitives": 65,
    "numpy": 73,
}


def annotations(tree: ast.Module) -> list[ast.expr | None]:
    found: list[ast.expr | None] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = node.args
            all_of_them = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            found += [a.annotation for a in all_of_them if a is not None] + [node.returns]
        elif isinstance(node, ast.AnnAssign):
            found.append(node.annotation)
    return [a for a in found if a is not None]


@pytest.mark.parametrize("folder", BARE)
def test_types_say_something(folder: str) -> None:
    found = [ast.unparse(a) for path in (ROOT / folder).rglob("*.py") for a in annotations(parsed_once(path)) if a is not None]
    percent = 100 * found.count("Any") / len(found)
    assert percent <= BARE[folder], f"{percent:.1f} % of the annotations in {folder}/ are bare `Any`; ir/types.py has words"


def test_what_is_annotated_is_found() -> None:
    text = "def f(a: Any, /, b: int, *c: Any, d: str = '', **e: Any) -> list[Any]:\n    x: Any = 1\n"
    assert sorted(ast.unparse(a) for a in annotations(ast.parse(text)) if a) == ["Any"] * 4 + ["int", "list[Any]", "str"]
