"""What may be wrong in an expression, and where: what `tests/mutations.py` draws from.

Kinds: a wrong sign, factor, mask, shape, key, dtype or end of a loop. An expression counts if it is computed: not in messages,
annotations or decorators, and not in functions that only describe, guess or complain.
"""

from __future__ import annotations

import ast
import copy
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["draw", "modulo", "sites_of", "Site"]

ROOT = Path(__file__).resolve().parent.parent

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
        paths = [p for p in paths if not p.read_text(encoding="utf8").startswith("# Generated by ")]  # what writes them counts
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
