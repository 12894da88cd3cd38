"""`python -m tests.mutations`: sixty planted bugs, drawn by a seed, and which test finds each.

`draw` reads funcad/ and writes tests/mutations.json: a wrong sign, factor, mask, shape, key, dtype or end of a loop, so many
for each part of the package (`PARTS`). `run` plants one at a time in a copy of a checkout and runs pytest with `-x`, the tests
that mirror the changed folder first, then wider (`STAGES`); each answer is appended to a file of JSON lines, and what stands
there is not run again. `check` runs the tests that found something on the code as it is, where they must pass. `compare` makes
a table of two such files: nothing is lost if what was found before is found after.

    python -m tests.mutations draw --seed 26
    python -m tests.mutations run --out before.jsonl
    python -m tests.mutations run --tree ../other/checkout --tests ../other/checkout/tests --out after.jsonl
    python -m tests.mutations check --out after.jsonl
    python -m tests.mutations compare before.jsonl after.jsonl

A mutation names the function (or the assignment at module level) and an expression in it, not a line, so it is found again
after files were moved or joined, and after a primitive lost its `_p`. `plant` says where each would stand. If one is not found,
`now` beside it in the list says the `path`, `name`, `old`, `new` and `ordinal` that hold today; `words` are further names by
which its tests are found sooner, `tests` is what pytest is given in the stage "chosen". `passed` lists what was drawn and left
out, and why: it changes no result.
"""

from __future__ import annotations

import argparse
import ast
import copy
import difflib
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "mutations.json"

PARTS: dict[str, tuple[str, dict[str, int]]] = {  # folders, and how many of each kind
    "rules": ("primitives", {"sign": 4, "factor": 4, "mask": 2, "shape": 2}),  # of derivatives
    "primitives": ("primitives", {"sign": 2, "factor": 1, "mask": 2, "shape": 2, "dtype": 1}),
    "functions": ("numpy scipy lax nn random", {"sign": 3, "factor": 2, "mask": 3, "shape": 3, "dtype": 1}),
    "native": ("backends/native", {"sign": 1, "mask": 1, "loop": 2}),
    "cuda": ("backends/cuda", {"sign": 1, "mask": 1, "loop": 1}),
    "backends": ("backends backends/plans", {"mask": 1, "loop": 1, "key": 1}),
    "unjitted": ("unjitted", {"key": 2, "shape": 1, "mask": 1}),
    "jitted": ("jitted", {"key": 2, "mask": 2}),
    "control": ("control custom masks", {"mask": 3, "shape": 1, "key": 1, "loop": 1}),
    "passes": ("passes transforms api", {"key": 2, "mask": 1, "shape": 1}),
}
LINEAR = {"t", "ct", "tangents", "tangent", "cotangent", "cotangents", "ts", "cts", "tx", "ty"}  # arguments of rules
OUTSIDE = re.compile(  # names of functions and files that only describe, guess or complain
    r"repr|__str__|describe|explain|cost|price|message|remed|error|refus|report|label|pretty|profile|listing|sketch|inspect|"
    r"complain|text_of|summary|check|doctor|traffic|threads|workers|locks|signals|_why|warn|progress|legend|schedule|cupy"
)
FLIPPED: dict[type, type] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
CALLED = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt"}
SUMS = {"add": "sub", "sub": "add"}
WIDTHS = {"float64": "float32", "complex128": "complex64", "intp": "int32", "int64": "int32"}
CHOICES = ("select", "where")
KEYS = re.compile(r"key|signature|memo|cache", re.I)
IN_TEXT = [(" < ", " <= ", "mask"), (" > ", " >= ", "mask"), (" + ", " - ", "sign")]  # kernels that are written as text
IN_TEXT += [("++", " += 2", "loop"), (" - 1", "", "loop")]

STAGES = ("chosen", "own", "near", "mirrored", "likely", "core", "whole")
CORE = ("ir", "primitives", "numpy", "whole")
MIRRORS = {"primitives": ("primitives", "ir"), "transforms": ("transforms", "ir"), "autograd": ("autograd",)}
COMMON = frozenset("run init value loop key call batch body program derived user named ends table".split())  # say nothing
TABLES = ("ir/test_every_primitive.py", "numpy/test_surface.py")  # one test for each line and check: chosen by name


class Site(NamedTuple):
    """An expression of a file, and the name of the function or assignment in which it stands."""

    name: str
    node: ast.expr
    parents: tuple[ast.AST, ...]


# ---------------------------------------------------------------- where mutations may be


def sites(tree: ast.Module) -> list[Site]:
    """Every expression that is computed, but for those in messages, annotations and decorators, in the order of the text."""
    found: list[Site] = []

    def visit(node: ast.AST, name: str, parents: tuple[ast.AST, ...]) -> None:
        if isinstance(node, (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)) or _is_complaint(node):
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{name}.{node.name}" if name else node.name
            for child in node.body:
                visit(child, name, (*parents, node))
            return
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and not name:
            name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        if isinstance(node, ast.expr):
            found.append(Site(name, node, parents))
            if isinstance(node, ast.JoinedStr):  # places inside are not reliable before Python 3.12
                return
        for field, value in ast.iter_fields(node):
            if field not in ("annotation", "returns", "targets"):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        visit(child, name, (*parents, node))

    for node in tree.body:
        visit(node, "", ())
    return sorted(found, key=lambda s: (s.node.lineno, s.node.col_offset, -(s.node.end_lineno or 0), -len(ast.dump(s.node))))


@cache
def sites_of(path: Path) -> list[Site]:
    """Those of a file as it was when it was first read."""
    return sites(ast.parse(path.read_text(encoding="utf8")))


def _is_rule(site: Site) -> bool:
    """Does it stand in a function of tangents or cotangents?"""
    functions = [p for p in site.parents if isinstance(p, (ast.Lambda, ast.FunctionDef))]
    return any(a.arg in LINEAR for f in functions for a in f.args.args)


def _is_complaint(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring
    return isinstance(node, ast.Call) and re.search(r"[Ee]rror$|[Ww]arn|^not_linear$", ast.unparse(node.func)) is not None


def modulo(text: str) -> str:
    """The text with primitives called as their functions are: the suffix `_p` dropped."""
    return re.sub(r"\b(\w*[a-z0-9])_p\b", r"\1", text)


# ---------------------------------------------------------------- what may be wrong


def changes(site: Site, names: set[str], texts: bool) -> Iterator[tuple[str, ast.expr]]:
    """(kind, what stands there instead); `names` are those of the module, `texts` if its strings are programs."""
    node, parent = site.node, site.parents[-1] if site.parents else None
    if isinstance(node, ast.BinOp):
        yield from _of_operator(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        place = isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, int)
        if not place:
            yield "sign", node.operand
        elif isinstance(parent, ast.keyword) and parent.arg in ("axis", "axes"):
            yield "shape", ast.Constant(0)
    elif isinstance(node, ast.Constant) and type(node.value) is float and 0 < abs(node.value) < 100:
        if isinstance(parent, (ast.Call, ast.BinOp)):
            yield "factor", ast.Constant(node.value + 1.0 if node.value >= 1 else node.value / 2)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in FLIPPED:
        yield "mask", ast.Compare(node.left, [FLIPPED[type(node.ops[0])]()], node.comparators)
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        for i in range(len(node.values)):
            rest = [v for j, v in enumerate(node.values) if j != i]
            yield "mask", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.Call):
        yield from _of_call(node, names, site)
    elif isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load) and len(node.elts) > 1 and _is_key(site, parent):
        yield from _without(node, node.elts)
    elif isinstance(node, ast.Attribute) and node.attr in WIDTHS and ast.unparse(node.value) in ("np", "xp"):
        yield "dtype", ast.Attribute(node.value, WIDTHS[node.attr], node.ctx)
    elif texts and (isinstance(node, ast.JoinedStr) or isinstance(node, ast.Constant) and isinstance(node.value, str)):
        yield from _of_text(node)


def _of_operator(node: ast.BinOp) -> Iterator[tuple[str, ast.expr]]:
    left, right = ast.unparse(node.left), ast.unparse(node.right)
    if isinstance(node.op, (ast.Add, ast.Sub)):
        joined = (ast.List, ast.Tuple, ast.ListComp, ast.JoinedStr, ast.Starred)
        sides = (node.left, node.right)
        if any(isinstance(a, joined) or isinstance(a, ast.Constant) and isinstance(a.value, str) for a in sides):
            return
        if right == "1":
            axis = re.search(r"\b(axis|axes|ndim|a|i|rank|d|source|destination)\b|axis|len\(\w*shape", left)
            yield "shape" if axis else "loop", node.left
        elif not re.match(r"[(\[]|tuple\(|list\(|str\(", right) and "tuple" not in left:
            yield "sign", ast.BinOp(node.left, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.right)
    elif isinstance(node.op, ast.Mult) and not isinstance(node.left, (ast.Constant, ast.List, ast.Tuple)):
        yield "factor", node.left
    elif isinstance(node.op, ast.BitAnd):
        yield "mask", node.left
        yield "mask", node.right


def _of_call(node: ast.Call, names: set[str], site: Site) -> Iterator[tuple[str, ast.expr]]:
    name = ast.unparse(node.func)
    last, args = name.rsplit(".", 1)[-1], node.args
    plain = not node.keywords and not any(isinstance(a, ast.Starred) for a in args)
    emitted = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in ("e", "self")
    if plain and last == "neg" and len(args) == 1:
        yield "sign", args[0]
    elif plain and last in SUMS and len(args) == 2 and (emitted or name == last and SUMS[last] in names):
        yield "sign", _renamed(node, SUMS[last])
    elif plain and last == "mul" and len(args) == 2:
        for a in args:
            if not isinstance(a, ast.Constant):
                yield "factor", a
    elif plain and last in CHOICES and len(args) == 3:
        yield "mask", ast.Call(node.func, [args[0], args[2], args[1]], [])
        yield "mask", args[1]
    elif plain and last in CALLED and len(args) == 2 and (emitted or name == last and CALLED[last] in names):
        yield "mask", _renamed(node, CALLED[last])
    elif plain and last in ("and_", "logical_and") and len(args) == 2:
        yield "mask", args[0]
    elif plain and last == "argsort" and len(args) == 1 and re.search("perm|order|axes", ast.unparse(args[0])):
        yield "shape", args[0]
    elif plain and last == "reversed":
        yield "shape", args[0]
    elif plain and last == "convert" and len(args) == 2 and name == last:
        yield "dtype", args[0]
    elif plain and last == "range" and args:
        near = args[:-1] if len(args) < 3 else args[:1]
        end = args[-1] if len(args) < 3 else args[1]
        short = ast.BinOp(end, ast.Sub(), ast.Constant(1))
        yield "loop", ast.Call(node.func, [*near, short, *args[2:]], [])
    elif last == "Signature" and len(args) > 1:
        for kind, args_ in _without(node, args):
            assert isinstance(args_, ast.Tuple)
            yield kind, ast.Call(node.func, args_.elts, node.keywords)
    elif last in ("add", "append") and len(args) == 1 and KEYS.search(site.name):
        yield "key", ast.Call(node.func, [ast.Constant(None)], [])
    for i, keyword in enumerate(node.keywords):
        if keyword.arg == "keepdims" and isinstance(keyword.value, ast.Constant):
            other = ast.keyword("keepdims", ast.Constant(not keyword.value.value))
            yield "shape", ast.Call(node.func, node.args, [*node.keywords[:i], other, *node.keywords[i + 1 :]])


def _renamed(node: ast.Call, name: str) -> ast.Call:
    function = node.func
    method = isinstance(function, ast.Attribute)
    new = ast.Attribute(function.value, name, function.ctx) if method else ast.Name(name, ast.Load())
    return ast.Call(new, node.args, node.keywords)


def _without(node: ast.expr, members: list[ast.expr]) -> Iterator[tuple[str, ast.expr]]:
    """Each member in turn says nothing; one that is a name's text tells keys apart that nobody mixes up, and stays."""
    for i, member in enumerate(members):
        if not isinstance(member, ast.Constant):
            empty: ast.expr = ast.Constant(None)
            if isinstance(member, ast.Starred):
                empty = ast.Starred(ast.Tuple([], ast.Load()), ast.Load())
            yield "key", ast.Tuple([*members[:i], empty, *members[i + 1 :]], ast.Load())


def _is_key(site: Site, parent: ast.AST | None) -> bool:
    if isinstance(parent, ast.Assign):
        return bool(KEYS.search(ast.unparse(parent.targets[0])))
    return isinstance(parent, ast.Return) and bool(re.search(r"key|signature", site.name, re.I))


def _of_text(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    text = ast.unparse(node)
    for old, new, kind in IN_TEXT:
        if text.count(old) == 1 and "#include" not in text:
            try:
                yield kind, ast.parse(text.replace(old, new), mode="eval").body
            except SyntaxError:
                continue


def anchored(site: Site, instead: ast.expr) -> tuple[ast.expr, str]:
    """The smallest expression around the place that is long enough to be found again, and what it becomes."""
    anchor: ast.expr = site.node
    for parent in reversed(site.parents):
        if len(ast.unparse(anchor)) >= 16 or isinstance(parent, (ast.stmt, ast.arguments, ast.FormattedValue)):
            break
        if isinstance(parent, ast.expr) and not isinstance(parent, (ast.Starred, ast.GeneratorExp)):
            anchor = parent
    return anchor, ast.unparse(copy.deepcopy(anchor, {id(site.node): instead}))


# ---------------------------------------------------------------- drawing


def draw(seed: int, passed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """So many of each kind for each part, at most one for each function and two for each file, without those passed over."""
    left_out = {(p["path"], p["name"], p["old"], p["new"]) for p in passed}
    found: list[dict[str, Any]] = []
    names: set[tuple[str, str]] = set()
    for part, (folders, kinds) in PARTS.items():
        paths = [p for folder in folders.split() for p in sorted((ROOT / "funcad" / folder).glob("*.py"))]
        candidates = [c for p in paths if not OUTSIDE.search(p.stem) for c in _candidates(p, part == "rules")]
        for kind, number in kinds.items():
            stream = [c for c in candidates if c[0] == kind]
            random.Random(f"{seed} {part} {kind}").shuffle(stream)
            for _, path, site, instead in stream:
                at = (path.relative_to(ROOT).as_posix(), site.name)
                if number == 0 or at in names or sum(p == at[0] for p, _ in names) > 1:
                    continue
                anchor, new = anchored(site, instead)
                old = ast.unparse(anchor)
                if (*at, old, new) not in left_out:
                    number -= 1
                    names.add(at)
                    m = {"number": len(found) + 1, "part": part, "kind": kind, "path": at[0], "name": at[1]}
                    found.append({**m, "old": old, "new": new, "ordinal": _ordinal(path, site, anchor)})
            assert number == 0, f"{part}: {number} of {kind} are missing"
    return found


def _candidates(path: Path, rules: bool) -> Iterator[tuple[str, Path, Site, ast.expr]]:
    """(kind, file, place, what stands there instead), of a file or of its rules."""
    tree = ast.parse(path.read_text(encoding="utf8"))
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    names |= {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    names |= {a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
    for site in sites_of(path):
        if site.name and site.name != "__all__" and not OUTSIDE.search(site.name.lower()) and (_is_rule(site) or not rules):
            for kind, instead in changes(site, names, "cuda" in path.parts):
                yield kind, path, site, instead


def _ordinal(path: Path, site: Site, anchor: ast.expr) -> int:
    """The how-manieth of equal expressions in what has this name."""
    name, old, place = modulo(site.name), modulo(ast.unparse(anchor)), (anchor.lineno, anchor.col_offset)
    own = [s for s in sites_of(path) if modulo(s.name) == name]
    equal = [(s.node.lineno, s.node.col_offset) for s in own if modulo(ast.unparse(s.node)) == old]
    return equal.index(place)


# ---------------------------------------------------------------- planting


def planted(m: dict[str, Any], root: Path) -> tuple[Path, str]:
    """The file under `root` in which the mutation has its place, and its text with the mutation; LookupError if none has it."""
    m = {**m, **m.get("now", {})}
    old, last = modulo(m["old"]), modulo(m["name"]).rsplit(".", 1)[-1]
    ways = (  # the first that finds anything
        lambda path, name: path == m["path"] and name == modulo(m["name"]),
        lambda path, name: name == modulo(m["name"]),
        lambda path, name: name.rsplit(".", 1)[-1] == last,
    )
    found: list[tuple[str, Site]] = []
    for path in sorted((root / "funcad").rglob("*.py"), key=lambda p: (p != root / m["path"], p)):
        if last in path.read_text(encoding="utf8"):
            for s in sites_of(path):
                if modulo(s.name).rsplit(".", 1)[-1] == last and modulo(ast.unparse(s.node)) == old:
                    found.append((path.relative_to(root).as_posix(), s))
        if any(ways[0](path, modulo(s.name)) for path, s in found):
            break
    for way in ways:
        chosen = [(path, s) for path, s in found if way(path, modulo(s.name))]
        if chosen:
            break
    else:
        raise LookupError(f"{m['number']}: no {m['name']} with {m['old']!r}")
    files = sorted({path for path, _ in chosen}, key=lambda p: -difflib.SequenceMatcher(None, p, m["path"]).ratio())
    here = [s for path, s in chosen if path == files[0]]
    if len(files) > 1 and {modulo(s.name) for s in here} != {modulo(m["name"])}:
        raise LookupError(f"{m['number']}: {m['name']} with {m['old']!r} is in {', '.join(files)}")
    path = root / files[0]
    node = here[min(m["ordinal"], len(here) - 1)].node
    return path, _replaced(path.read_text(encoding="utf8"), node, _in_words_of(node, m["old"], m["new"]))


def _in_words_of(node: ast.expr, old: str, new: str) -> str:
    """What is planted, with the names that the place has now."""
    before = ast.parse(old, mode="eval").body
    for a, b in zip(ast.walk(before), ast.walk(node)):
        for field in ("id", "attr"):
            if getattr(a, field, None) != getattr(b, field, None):
                new = re.sub(rf"\b{getattr(a, field)}\b", str(getattr(b, field)), new)
    return new


def _replaced(source: str, node: ast.expr, new: str) -> str:
    lines = source.encode().splitlines(keepends=True)
    assert node.end_lineno is not None and node.end_col_offset is not None
    start, end = (sum(map(len, lines[: n - 1])) for n in (node.lineno, node.end_lineno))
    data = source.encode()
    text = (data[: start + node.col_offset] + f"({new})".encode() + data[end + node.end_col_offset :]).decode()
    compile(text, "planted", "exec")
    return text


# ---------------------------------------------------------------- running


def words_of(m: dict[str, Any], path: Path) -> list[str]:
    """By which the tests that concern it may be known: its own name, those of what uses it in its file, and the file's."""
    users, names = {m["name"].split(".")[0]}, [m["name"].rsplit(".", 1)[-1], m["name"].split(".")[0]]
    for _ in range(3):
        for node in ast.parse(path.read_text(encoding="utf8")).body:
            read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
            if read & users and not isinstance(node, (ast.Import, ast.ImportFrom)):
                made = [t.id for t in getattr(node, "targets", ()) if isinstance(t, ast.Name)]
                names += made + [node.name for node in [node] if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
        users |= set(names)
    shared = r"_(p|jvp|transpose|batch|abstract|impl|tangents?|rule|emit|kernel|linear)$"
    words = [re.sub(shared, "", re.sub(shared, "", n)).strip("_") for n in names]
    words = [w for w in [*m.get("words", ()), *words, Path(m["path"]).stem] if len(w) > 2 and w not in COMMON]
    return list(dict.fromkeys(words))[:16]


def selection(m: dict[str, Any], stage: str, tests: Path, path: Path) -> list[str]:
    """What pytest is given in one stage; nothing if the stage has nothing of its own."""
    folder = m["path"].split("/")[1]
    mirrors = [tests / f for f in MIRRORS.get(folder, (folder,)) if (tests / f).is_dir()]
    mirrored = [p for f in mirrors for p in sorted(f.rglob("test_*.py"))]
    words = words_of(m, path)
    table = {"rules": TABLES[0], "primitives": TABLES[0], "functions": TABLES[1]}.get(m["part"])

    def rank(path: Path) -> int:
        text = path.read_text(encoding="utf8")
        parts = set(re.split(r"[_/]", m["path"].removesuffix(".py"))) & set(path.stem.split("_"))
        named = 1000 * any(w in path.stem for w in words) + 100 * len(parts)
        return named + sum(len(re.findall(rf"\b_?{w}(?:_p)?\b", text)) for w in words)

    best = sorted(filter(rank, mirrored), key=rank, reverse=True)
    if stage == "chosen":  # by hand
        return list(m.get("tests", ()))
    if stage == "own" and table:
        return [str(tests / table), "-k", " or ".join(words)]
    if stage == "own":
        return list(map(str, best[:2]))
    if stage == "near" and table:
        tables = [str(tests / t) for t in TABLES]
        return [*tables, *map(str, best[:4]), "-k", " or ".join(words)]
    if stage == "near":
        return list(map(str, best[2:8]))
    if stage == "mirrored":
        return list(map(str, sorted(mirrored, key=lambda p: (-rank(p), p))))
    if stage == "likely":
        others = [p for p in sorted(tests.rglob("test_*.py")) if p not in mirrored]
        return list(map(str, sorted(filter(rank, others), key=rank, reverse=True)[:12]))
    return [str(tests / f) for f in CORE] if stage == "core" else [str(tests)]


class Copy:
    """A copy of a checkout, in which mutations stand for a while; the checkout itself is never written."""

    def __init__(self, tree: Path, tests: Path | None):
        self.root = Path(tempfile.mkdtemp(prefix="mutations-"))
        unwanted = shutil.ignore_patterns(".git", "__pycache__", "*.egg-info", ".hypothesis", ".mypy_cache", ".venv", "_build")
        for p in sorted(tree.iterdir()):
            if p.name in (".git", ".venv") or tests is not None and p.name == "tests":
                continue
            (shutil.copytree(p, self.root / p.name, ignore=unwanted) if p.is_dir() else shutil.copy(p, self.root / p.name))
        if tests is not None:
            shutil.copytree(tests, self.root / "tests", ignore=unwanted)

    def write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def pytest(self, arguments: list[str], limit: float, prefix: str, cache: Path) -> dict[str, Any]:
        """What a run says: the test that failed, or that all passed, or that time was up; and its seconds."""
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"XDG_CACHE_HOME": str(cache), "HYPOTHESIS_STORAGE_DIRECTORY": str(cache / "hypothesis")}
        command = [*shlex.split(prefix), "timeout", "-k", "5", str(limit), sys.executable, "-m", "pytest", "-x", "-vv"]
        command += ["--tb=line", "-p", "no:cacheprovider", *arguments]
        start = time.time()
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True)
        seconds = round(time.time() - start, 1)
        lines = done.stdout.splitlines()
        own = re.search(r"in (\d+\.\d+)s", lines[-1]) if lines else None
        answer = {"seconds": float(own.group(1)) if own else seconds, "code": done.returncode}
        summary = done.stdout[done.stdout.rfind("short test summary") :]
        failed = re.search(r"^(?:FAILED|ERROR) (\S.*?)(?: - (.*))?$", summary, re.M)
        if failed and done.returncode in (1, 2):
            how = "collection" if done.returncode == 2 else "test"
            return {**answer, "by": how, "test": failed.group(1), "says": (failed.group(2) or "")[:160]}
        if done.returncode in (0, 4, 5):  # 4: a file of tests has another name now; 5: no test has that name
            return {**answer, "by": None}
        last = "".join([s for s in lines if "::" in s][-1:])[:200]
        answer |= {"by": "limit" if done.returncode in (124, 137) else "crash", "test": last.strip()}
        unfinished = answer["by"] == "limit" and last and not re.search(r"(PASSED|SKIPPED|XFAIL)\s*(\[.*\])?$", last)
        if unfinished and arguments != [last.strip()]:  # is it only slow?
            alone = self.pytest([last.strip()], 100, prefix, cache)
            answer["by"] = "hang" if alone["by"] in ("limit", "test", "crash") else "limit"
        return answer


def run(options: argparse.Namespace) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it, and so would the tests
    known = {(r["number"], r["stage"]): r for r in read(options.out)}
    found = {number for (number, _), r in known.items() if r["by"] not in (None, "limit")}
    mine = Copy(options.tree, options.tests)
    caches = Path(tempfile.mkdtemp(prefix="mutations-cache-"))
    try:
        for stage in options.stages.split(","):
            for m in json.loads(LIST.read_text(encoding="utf8"))["mutations"]:
                if m["number"] in found or (m["number"], stage) in known or options.only and m["number"] not in options.only:
                    continue
                record: dict[str, Any] = {"number": m["number"], "stage": stage}
                try:
                    path, text = planted(m, mine.root)
                except LookupError as error:
                    print(f"not planted: {error}", file=sys.stderr)
                    continue
                chosen = selection(m, stage, mine.root / "tests", path)
                if chosen:
                    before = path.read_text(encoding="utf8")
                    cache = caches / (str(m["number"]) if m["part"] in ("native", "cuda", "backends") else "shared")
                    cache.mkdir(exist_ok=True)
                    mine.write(path, text)
                    try:
                        relative = [a.removeprefix(f"{mine.root}/") for a in chosen]
                        record |= mine.pytest([*relative, *options.pytest], options.limit, options.prefix, cache)
                    finally:
                        mine.write(path, before)
                    if record["by"] not in (None, "limit"):
                        found.add(m["number"])
                    with options.out.open("a", encoding="utf8") as file:
                        file.write(json.dumps(record) + "\n")
                    print(json.dumps(record), flush=True)
    finally:
        shutil.rmtree(mine.root, ignore_errors=True)
        shutil.rmtree(caches, ignore_errors=True)


def check(options: argparse.Namespace) -> None:
    """The tests that found something, on the code as it is: one that fails here found nothing."""
    tests = sorted({r["test"] for r in read(options.out) if r["by"] == "test"})
    mine = Copy(options.tree, options.tests)
    for at in range(0, len(tests), 20):  # -x stops at the first of them
        print(json.dumps(mine.pytest(tests[at : at + 20], 600, options.prefix, mine.root)), flush=True)
    shutil.rmtree(mine.root, ignore_errors=True)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()] if path.exists() else []


def by(records: list[dict[str, Any]], number: int) -> str:
    """By which test it was found, or how far it was looked for."""
    mine = [r for r in records if r["number"] == number]
    for r in mine:
        if r["by"] not in (None, "limit"):
            return f"`{r['test'].removeprefix('tests/')}`" + (f" ({r['by']})" if r["by"] != "test" else "")
    return f"not found in {', '.join(r['stage'] for r in mine)}" if mine else "not run"


def compare(options: argparse.Namespace) -> None:
    before, after = read(options.before), read(options.after)
    print("| mutation | kind | where | what | found before by | found after by |\n|---|---|---|---|---|---|")
    for m in json.loads(LIST.read_text(encoding="utf8"))["mutations"]:
        what = f"`{m['old']}` → `{m['new']}`".replace("|", "\\|").replace("\n", " ")
        where = f"{m['path'].removeprefix('funcad/')} {m['name']}"
        print(f"| {m['number']} | {m['kind']} | {where} | {what} | {by(before, m['number'])} | {by(after, m['number'])} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("draw").add_argument("--seed", type=int, default=26)
    for name in ("run", "check", "plant"):
        command = commands.add_parser(name)
        command.add_argument("--tree", type=Path, default=ROOT, help="a checkout, whose funcad/ is changed in a copy")
        command.add_argument("--tests", type=Path, help="a folder that takes the place of its tests/")
        command.add_argument("--out", type=Path, default=Path("mutations.jsonl"))
        command.add_argument("--prefix", default="", help="a command that runs the command after it: nice, a queue")
        command.add_argument("--limit", type=float, default=150, help="seconds for one mutation in one stage")
        command.add_argument("--stages", default="own,near,mirrored,likely", help=f"of {','.join(STAGES)}")
        command.add_argument("--only", type=int, nargs="*", help="numbers of mutations")
        command.add_argument("--pytest", type=shlex.split, default=[], help="further arguments for pytest, as one text")
    both = commands.add_parser("compare")
    both.add_argument("before", type=Path)
    both.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "draw":
        before = json.loads(LIST.read_text(encoding="utf8")) if LIST.exists() else {"mutations": [], "passed": []}
        mutations = [  # with what was said by hand of the same ones
            next((b for b in before["mutations"] if m.items() <= b.items()), m) for m in draw(options.seed, before["passed"])
        ]
        drawn = {"seed": options.seed, "mutations": mutations, "passed": before["passed"]}
        LIST.write_text(json.dumps(drawn, indent=1, ensure_ascii=False) + "\n", encoding="utf8")
    elif options.command == "plant":
        for m in json.loads(LIST.read_text(encoding="utf8"))["mutations"]:
            try:
                print(m["number"], planted(m, options.tree)[0].relative_to(options.tree))
            except (LookupError, SyntaxError) as error:
                print(m["number"], "not planted:", error)
    else:
        {"run": run, "check": check, "compare": compare}[options.command](options)


if __name__ == "__main__":
    main()
