"""The tree is what it says it is: sizes, import levels, the public list, and what `import funcad` loads.

A rule of files is a function of one `Source` (tests/sources.py) that gives its offenders, and one test a rule lists all.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import funcad
from funcad.ir.primitive import Primitive
from funcad.passes import subprograms
from funcad.primitives.atoms import ATOMS
from funcad.primitives.composite_atoms import WORDS
from tests import house_budgets, house_memo, house_names, house_rules
from tests.sources import FILES, ROOT, RULES, Source, annotations, dotted, imported, loaded, name, parsed, rule, survey
from tests.specs import all_specs

pytestmark = pytest.mark.group("house")  # which reads and measures each file once

# A module imports only lower levels and its own folder.
LEVELS = {
    "errors": 0,
    "configuration": 0,
    "memo": 0.5,
    "tree": 1,
    "host": 2,
    "twin": 2.5,
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
    "reads": 12.5,
    "jitted": 13,
    "numpy": 14,
    "lifting": 14.5,
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
    "commands": 19.5,
    "__main__": 20,
}
OTHER = 17  # further modules directly under funcad/: users of everything below
# modules whose names are those of NumPy, SciPy, JAX or autograd; all other file names are unique
PUBLIC = {
    "core", "fft", "integrate", "lax", "linalg", "numpy", "optimizers", "random", "signal", "special", "stats", "test_util",
    "tracer", "__init__", "lapack", "tree_util", "extend",
}  # fmt: skip
LAZY = {"scipy", "cupy", "cupyx", "llvmlite", "ml_dtypes", "mpi4py"}  # heavy or optional: in functions, each behind one door
NAMED = {  # the other imports inside functions, with their reasons
    ("host/devices.py", "numpy._core.umath"): "a private name of NumPy's, which another version may not have",
    ("tree/objects.py", "dataclasses"): "it loads inspect, and whoever has a dataclass has loaded it",
    ("tree/registering.py", "dataclasses"): "it loads inspect, and whoever has a dataclass has loaded it",
    ("tree/registering.py", "annotationlib"): "Python 3.14 has it, which alone needs it",
    ("debug.py", "pdb"): "a debugger is loaded when somebody debugs",
}
BY_NAME = {  # import modules whose names are worked out
    "configuration.py": "those that `OnDemand` is given, which are read where they stand",
    "numpy/dispatch.py": "those that it lists in LATER",
    "scipy/door.py": "SciPy's and CuPy's",
    "commands/command_line.py": "modules that somebody names in a command",
    "commands/porting.py": "the names of a program that is ported",
    "foreign_names.py": "what somebody else's `import autograd...` and `import jax...` name",
}
TOUR = {"sklearn", "matplotlib", "tqdm", "rich"}  # the tour's own


# -- sizes and places


def test_files_are_concepts() -> None:
    assert house_rules.too_long(ROOT) + house_rules.too_long(ROOT.parent / "tests") == []
    assert house_rules.too_short(ROOT) == [], "it is a part of another file, or lacks something"
    assert house_rules.no_longer_short(ROOT) == []
    assert sum(survey().own_imports) <= house_rules.OWN_IMPORTS
    assert survey().needless_all == []


def test_folders_keep_their_budgets() -> None:
    assert house_budgets.over_budget(survey().measured) + house_budgets.over_totals(survey().measured) == []


def test_lines_are_not_saved_by_longer_ones_or_fewer_words() -> None:
    assert house_budgets.worse_style(survey().measured) == []


def test_budgets_only_fall() -> None:
    assert house_budgets.raised() == []


def test_what_is_measured() -> None:
    """Tokens without comments and docstrings, lines that hold them, and the words beside them."""
    text = '"""What it is."""\n\nimport os\n\n\ndef f(x):  # why\n    """Of x."""\n    return """a\n    b""" + x\n'
    measured = house_budgets.measured_text(text)
    assert measured["tokens"] == 2 + 6 + 4
    assert (measured["lines"], measured["code lines"], measured["characters"]) == (9, 3, 9 + 11 + 12)
    assert (measured["docstring lines"], measured["comment lines"], measured["public names"]) == (2, 1, 1)


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


# -- imports


@rule
def imports_go_downwards(source: Source) -> Iterator[str]:
    level = LEVELS.get(source.folder, OTHER)
    for node in source.of(ast.Import, ast.ImportFrom, ast.Call):
        for module in [*imported(node), *loaded(node)]:
            if module is None:
                if source.inside not in BY_NAME:
                    yield f"{source.at(node)} imports who knows what"
                continue
            parts = module.split(".")
            if parts[0] != "funcad":
                continue
            other = (parts[1] if len(parts) > 1 else "") or "__init__"
            if other != source.folder and LEVELS.get(other, OTHER) >= level:
                yield f"{source.at(node)} imports {module}, which is not below {source.folder}"


@rule
def one_reference_goes_upwards(source: Source) -> Iterator[str]:
    """What stands above is reached through `Tracer.namespace`, which is set in one place, and through nothing else."""
    targets = [target for node in source.of(ast.Assign) for target in node.targets]
    found = [target for target in targets if ast.unparse(target).endswith(".namespace")]
    if len(found) != (source.inside == "__init__.py"):
        yield f"{source.inside} sets a namespace {len(found)} times"
    for node in source.of(ast.Subscript):
        text = ast.unparse(node) if isinstance(node.slice, ast.Constant) else ""
        if re.search(r"modules\[['\"]funcad", text):
            yield f"{source.at(node)} finds {text}"


@pytest.mark.parametrize(("line", "expected"), [
    ("importlib.import_module('funcad.scipy.special')", ["funcad.scipy.special"]),
    ("_importlib.import_module(f'funcad.scipy.{name}')", ["funcad.scipy."]),
    ("import_module('scipy' if x else 'funcad.nn')", ["scipy", "funcad.nn"]),
    ("import_module(name)", [None]),
    ("load('funcad.nn')", []),
])  # fmt: skip
def test_imports_by_name_are_seen(line: str, expected: list[str | None]) -> None:
    assert loaded(ast.parse(line, mode="eval").body) == expected


@rule
def no_star_imports(source: Source) -> Iterator[str]:
    for node in source.of(ast.ImportFrom):
        if any(a.name == "*" for a in node.names):
            yield source.at(node)


@rule
def no_imports_inside_functions(source: Source) -> Iterator[str]:
    allowed = LAZY | TOUR if source.folder in ("tour", "__main__") else LAZY
    for node in source.of(ast.Import, ast.ImportFrom):
        for module in imported(node) if source.in_a_function(node) else []:
            named = (source.inside, module) in NAMED
            if not named and module.split(".")[0] not in allowed:
                yield f"{source.at(node)} imports {module} in a function"


@rule
def optional_packages_are_not_imported_at_import(source: Source) -> Iterator[str]:
    if source.folder in ("tour", "__main__"):
        return
    for node in source.of(ast.Import, ast.ImportFrom):
        for module in [] if source.in_a_function(node) else imported(node):
            if module.split(".")[0] in LAZY:
                yield f"{source.at(node)} imports {module} at import"


def test_modules_do_not_import_each_other_in_circles() -> None:
    graph: dict[str, set[str]] = {}
    for module, names in survey().imports.items():
        known = {n for n in names if n in survey().imports and n not in ("funcad", module)}
        graph[module] = {n for n in known if not module.startswith(n + ".")}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, "circle of imports: " + " -> ".join((*trail[trail.index(module) :], module))
        if module not in done:
            for other in sorted(graph[module]):
                visit(other, (*trail, module))
            done.add(module)

    for module in sorted(graph):
        visit(module, ())


@rule
def nothing_is_left_to_do(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.text.splitlines(), 1):
        if any(word in line for word in ("TODO", "FIXME", "XXX")):
            yield f"{name(source.path)}:{number}: {line.strip()}"


@rule
def modules_say_what_they_are(source: Source) -> Iterator[str]:
    if source.text.strip() and not ast.get_docstring(source.tree):
        yield name(source.path)


VALUES = (int, float, complex, bool, np.ndarray, np.generic)  # what a traced value may stand for


@rule
def values_are_told_apart_by_their_real_type(source: Source) -> Iterator[str]:
    """A traced value answers `isinstance` as an array or a number: inside funcad that would take it for one."""
    if source.folder in ("tour", "__main__"):
        return
    for node in source.of(ast.Call):
        if not (isinstance(node.func, ast.Name) and node.func.id == "isinstance"):
            continue
        known = vars(importlib.import_module(dotted(source.path)))
        try:
            kinds = eval(ast.unparse(node.args[1]), known)
        except NameError:  # of the function's own
            continue
        kinds = getattr(kinds, "__args__", kinds)  # of int | float
        for kind in kinds if isinstance(kinds, tuple) else (kinds,):
            if any(issubclass(kind, value) or kind is not object and issubclass(value, kind) for value in VALUES):
                yield f"{source.at(node)} asks isinstance(..., {kind.__name__}): use host/real_types.is_a"


FRAMES = {"debug.py"}  # which shows them to the user


@rule
def variables_of_running_functions_are_left_alone(source: Source) -> Iterator[str]:
    for node in source.of(ast.Attribute):
        if node.attr == "f_locals" and source.inside not in FRAMES:
            yield f"{source.at(node)} reads the variables of a running function"


# -- what is remembered


@rule
def memo_tables_are_made_in_one_place(source: Source) -> Iterator[str]:
    yield from house_memo.made_elsewhere(source)


@rule
def what_hangs_on_programs_is_audited(source: Source) -> Iterator[str]:
    yield from house_memo.hung_without_audit(source)


def test_a_list_of_what_is_no_memo_table_has_no_more_than_it_needs() -> None:
    found = {n for file in {file for file, _ in house_memo.NOT_MEMOS} for n in house_memo.needed(Source(ROOT / file))}
    assert sorted(set(house_memo.NOT_MEMOS) - found) == []


@pytest.mark.parametrize(("text", "n"), [
    ("from functools import lru_cache, partial", 1),
    ("import functools\n@functools.cache\ndef f(): pass", 1),
    ("_known = {}", 1),
    ("_known: dict[int, int] = dict()", 1),
    ("class A:\n    known = OrderedDict()", 1),
    ("import weakref\ndef f(x):\n    x.known = weakref.WeakKeyDictionary()", 1),
    ("_known = weakref.WeakValueDictionary()", 1),
    ("NAMES = {1: 2}\ndef f():\n    found = {}\n_k = table('a', 'b')", 0),
])  # fmt: skip
def test_a_memo_table_made_elsewhere_is_found(text: str, n: int) -> None:
    assert len(list(house_memo.made_elsewhere(house_memo.of_text(text)))) == n


@pytest.mark.parametrize(("text", "n"), [
    ("jaxpr.memo['jvp'] = 1", 1),
    ("jaxpr.memo['jvp', flags] = 1", 1),
    ("jaxpr.memo[key] = 1", 1),
    ("found = 'jvp' in jaxpr.memo", 1),
    ("jaxpr.memo['asked'] = True\nfound = 'asked' in jaxpr.memo", 0),
    ("jaxpr.memo.setdefault('jvp', 1)", 0),
])  # fmt: skip
def test_what_hangs_on_programs_past_the_audit_is_found(text: str, n: int) -> None:
    assert len(list(house_memo.hung_without_audit(house_memo.of_text(text)))) == n


# -- the public list


def public_list() -> set[str]:
    """Names that funcad/__init__.py imports `as` themselves, and those that it imports at their first use."""
    names = set()
    for node in ast.walk(parsed(ROOT / "__init__.py")):
        if isinstance(node, ast.ImportFrom):
            names |= {a.asname for a in node.names if a.asname == a.name}
    return names | set(funcad._LAZY_NAMES) | set(funcad._LAZY_MODULES)


def test_public_list_is_what_is_exported() -> None:
    exported = {n for n, v in vars(funcad).items() if not n.startswith("_") and not isinstance(v, types.ModuleType)}
    assert exported <= public_list()
    assert set(dir(funcad)) == public_list() - {n for n, m in funcad._LAZY_NAMES.items() if m.startswith("autograd.")}
    with pytest.raises(AttributeError, match="no_such_name"):
        funcad.no_such_name  # noqa: B018


def test_public_names_are_documented() -> None:
    offenders = []
    for public in sorted(public_list()):
        value = getattr(funcad, public)
        if isinstance(value, types.ModuleType) or not callable(value):
            continue
        text = value.__doc__ or ""
        if not text.strip():
            offenders.append(f"funcad.{public} has no docstring")
        elif not isinstance(value, type) and ">>>" not in text:
            offenders.append(f"funcad.{public} has no example")
    assert not offenders


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
    for package in [importlib.import_module(f"funcad.{folder}") for folder in OF_PRIMITIVES]:
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for key, value in vars(importlib.import_module(info.name)).items():
                if isinstance(value, (dict, frozenset, set, tuple, list)) and value and all(type(n) is str for n in value):
                    known = [n for n in value if n in primitives or n in kinds]
                    if not key.startswith("__") and 2 * len(known) > len(value):
                        found.append((f"{info.name}.{key}", sorted(set(value) - primitives - kinds)))
    return found


def test_tables_name_primitives_that_exist() -> None:
    of_others = {"funcad.backends.text.MATH", "funcad.backends.text_rules.KEYWORD_ONLY"}  # names in `math` and NumPy
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


def test_types_say_something() -> None:
    offenders = []
    for folder in BARE:
        n, bare = survey().annotations[folder]
        percent = 100 * bare / n
        if percent > BARE[folder]:
            offenders.append(f"{percent:.1f} % of the annotations in {folder}/ are bare `Any`, {BARE[folder]} % at most")
    assert not offenders, f"ir/aval.py has words: {offenders}"


def test_what_is_annotated_is_found() -> None:
    text = "def f(a: Any, /, b: int, *c: Any, d: str = '', **e: Any) -> list[Any]:\n    x: Any = 1\n"
    assert sorted(ast.unparse(a) for a in annotations(ast.walk(ast.parse(text)))) == ["Any"] * 4 + ["int", "list[Any]", "str"]


# -- the rules of files


@pytest.mark.parametrize("rule", [r.__name__ for r in RULES])
def test_files_keep_the_rule(rule: str) -> None:
    offenders = survey().offenders[rule]
    assert not offenders, "\n".join([f"{len(offenders)} offenders:", *offenders])


# -- names and parameters


def test_no_two_classes_have_one_name() -> None:
    assert house_names.shared_classes(survey().classes.items()) == []


def test_no_function_has_many_parameters() -> None:
    assert house_names.many_parameters(survey().functions.items()) == []


def test_an_exemption_of_names_that_nothing_needs_is_an_error() -> None:
    nothing: list[tuple[str, list]] = [("errors.py", [])]
    assert len(house_names.shared_classes(nothing)) == len(house_names.SHARED_CLASSES)
    assert len(house_names.many_parameters(nothing)) == len(house_names.MANY_PARAMETERS)
    texts = {"a.py": "class A: pass", "b.py": "def f():\n    class A: pass"}
    twice = [(path, house_names.classes(ast.walk(ast.parse(text)))) for path, text in texts.items()]
    assert house_names.shared_classes(twice)[0] == "A: a.py:1, b.py:2"
    method = ast.parse("class A:\n    def f(self, a, b, c, d, e, f, g, h, i, /, *, j): pass")
    assert house_names.many_parameters([("a.py", list(house_names.functions(method)))])[0] == "a.py A.f: 10 parameters"
