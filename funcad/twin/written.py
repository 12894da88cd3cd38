"""What a function only reads: calls, operators and indices whose results nothing in it can write, read off its syntax tree.

Idea: what a traced function makes is handed to it as an array that takes traced values (reads/lending.py, doors/makers.py),
which costs at each operation on it. Most of what is made is only read. So names are followed. `x[i] = v`, `x += v`, `x.sort()`
write x; a name that is stored in a container, returned, or given to a function that is not known may be written by others;
`y = x.T` and `y = np.ravel(x)` may be x's memory, so that what writes y writes x.

Invariant: in doubt it is written, which costs time alone. Variables of one name in a function and those inside it count as one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import numpy as np

from funcad.host.conversions import WRITING_NAMES

_LIBRARIES = ("numpy", "scipy", "math")
_MAKING = (ast.BinOp, ast.UnaryOp, ast.Subscript, ast.Call)
_LOAD = ast.Load()
_ANEW = frozenset(
    "bool complex float id int isinstance len print range repr str type".split()
)  # share no memory
_BUILTINS = _ANEW.union("abs divmod enumerate max min pow round sum zip".split())
_CALLING = frozenset(  # functions and modules of libraries that call what they are given
    "apply_along_axis apply_over_axes cluster frompyfunc fromfunction fromiter integrate interpolate ndimage optimize piecewise"
    " signal stats vectorize".split()
)
_OUTSIDE = (  # what runs later, or writes outside
    *(ast.AsyncFunctionDef, ast.Await, ast.ClassDef, ast.FunctionDef, ast.GeneratorExp, ast.Global, ast.Import, ast.ImportFrom),
    *(ast.Lambda, ast.Nonlocal, ast.With, ast.Yield, ast.YieldFrom),
)
_SEEING = frozenset("eval exec globals locals vars".split())  # functions that may write any variable
_METHODS = frozenset(  # of arrays and sparse arrays, none of which writes
    "all any argmax argmin argsort astype ceil clip conj conjugate copy cumprod cumsum diagonal dot flatten floor max mean min"
    " nonzero power prod ravel reshape round squeeze std sum swapaxes toarray tocoo tocsc tocsr todense tolil tolist trace"
    " transpose var view".split()
)


def read_only(function: ast.AST) -> tuple[set[ast.AST], set[str]]:
    """The expressions inside whose results nobody writes, and the names of arguments of which that holds."""
    imports = imported_names(function)
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    if not _SEEING.isdisjoint(names):
        return set(), set()
    walk = _Walk(
        imports, {node.name for node in ast.walk(function) if isinstance(node, ast.FunctionDef)}
    )
    for node in ast.walk(function):
        walk.statement(node)
    reached = walk.reached()
    rest: list[Any] = [node for node in ast.walk(function) if node not in reached]
    made = [
        node
        for node in rest
        if isinstance(node, _MAKING) and isinstance(getattr(node, "ctx", _LOAD), ast.Load)
    ]
    return set(made), {node.arg for node in rest if isinstance(node, ast.arg)} - reached


def runs_alone(module: ast.AST) -> set[tuple[str, int]]:
    """Functions, by name and first line, of which no call writes or keeps what it is given, or calls what is not known.

    So none of their arguments changes while they run, or is seen by what they leave.
    """
    imports, found = imported_names(module), set()
    for f in ast.walk(module):
        if isinstance(f, ast.FunctionDef) and _is_alone(f, imports):
            found.add((f.name, min([f.lineno, *[node.lineno for node in f.decorator_list]])))
    return found


def _is_alone(f: ast.FunctionDef, imports: dict[str, str]) -> bool:
    walk, nodes = _Walk(imports, set()), list[Any]([node for part in f.body for node in ast.walk(part)])
    bound = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    mine = set(bound) - {node.arg for node in ast.walk(f.args) if isinstance(node, ast.arg)}
    made = [node.targets[0].id for node in nodes if _is_of_numbers(node, imports)]
    numbers = {name for name in mine if made.count(name) == bound.count(name)}  # arrays, which keep nothing
    for node in nodes:
        if isinstance(node, _OUTSIDE) or isinstance(node, ast.Name) and node.id in _SEEING:
            return False
        parts = [t.value for t in node.targets if isinstance(t, ast.Subscript)] if isinstance(node, ast.Assign) else []
        if parts and len(parts) == len(node.targets) and all([getattr(part, "id", None) in numbers for part in parts]):
            walk.write(*parts)
        else:
            walk.statement(node)
    return not walk.calls and all([type(x) is not str or x in mine for x in walk.reached()])


def _is_of_numbers(node: Any, imports: dict[str, str]) -> bool:
    """`a = np.zeros(shape)` and the like, of numbers."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return False
    names = _dotted(node.value.func)
    plain = len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and len(node.value.args) == 1
    made = plain and not node.value.keywords and names and imports.get(names[0], "") == "numpy"
    return bool(made) and names[1:] in (["empty"], ["ones"], ["zeros"])


def makes_nothing(function: ast.AST) -> set[ast.AST]:
    """Methods of lists, and numbers and views at indices: expressions that make no array, whatever their values are."""
    kinds, imports = _bound_names(function), imported_names(function)
    numbers = {name for name, found in kinds.items() if found == {"number"}}
    found = set[ast.AST]()
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript):
            owner = _dotted(node.value)
            if (not owner or owner[0] not in imports) and _is_basic(node.slice, numbers):  # `np.r_[1]` makes one
                found.add(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            if kinds.get(node.func.value.id) == {"list"}:
                found.add(node)
    return found


def _is_basic(node: ast.AST, numbers: set[str]) -> bool:
    """Is an array's element or view at this index, as `numbers` stand for integers?"""
    if isinstance(node, ast.Tuple):
        return all([_is_basic(part, numbers) for part in node.elts])
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, type(None), type(...))
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_basic(node.operand, numbers)
    return isinstance(node, ast.Slice) or isinstance(node, ast.Name) and node.id in numbers


def _bound_names(function: ast.AST) -> dict[str, set[str]]:
    """What is bound to each name: "list", a "number" that counts, or "other"."""
    known: dict[Any, str] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                targets, values = [target], [node.value]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    targets, values = target.elts, node.value.elts
                if len(targets) == len(values):
                    known |= dict(zip(targets, map(_kind, values)))
        elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.iter, ast.Call):
            names = _dotted(node.iter.func)
            if names == ["range"]:
                known[node.target] = "number"
            elif names == ["enumerate"] and isinstance(node.target, ast.Tuple):
                known[node.target.elts[0]] = "number"
        elif isinstance(node, ast.AugAssign) and _kind(node.value) != "other":
            known[node.target] = _kind(node.value)
    found: dict[str, set[str]] = {}
    for node in ast.walk(function):
        names = [node.id] if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) else []
        if not isinstance(node, ast.Name):  # arguments, imports, functions, handlers, patterns, `global`
            parts = [getattr(node, part, None) for part in ("arg", "asname", "name", "rest")]
            names = [part for part in parts if isinstance(part, str)]
            names += node.names if isinstance(node, (ast.Global, ast.Nonlocal)) else []
        for name in names:
            found.setdefault(name.partition(".")[0], set()).add(known.get(node, "other"))
    return found


def _kind(value: ast.AST) -> str:
    if isinstance(value, (ast.List, ast.ListComp)):
        return "list"
    return "number" if isinstance(value, ast.Constant) and type(value.value) is int else "other"


class _Walk:
    """`written`: names and expressions that may be written; `same_memory`: of a name, what it may be the memory of.

    `calls`: is a function called that is not known, or that may call others?
    """

    def __init__(self, imports: dict[str, str], functions: set[str]) -> None:
        self.imports, self.functions = imports, functions
        self.calls = False
        self.written: set[Any] = set()
        self.same_memory: dict[str, set[Any]] = {}
        self.passed: set[ast.AST] = (
            set()
        )  # lists and tuples that are indices, or arguments of what only reads them

    def reached(self) -> set[Any]:
        """All that is written, by any of its names."""
        reached, todo = set[Any](), list(self.written)
        while todo:
            x = todo.pop()
            if x not in reached:
                reached.add(x)
                todo += self.same_memory.get(x, ())
        return reached

    def origins(self, node: ast.AST | None) -> set[Any]:
        """Names and expressions whose memory the value may have."""
        if isinstance(node, ast.Name):
            return {node.id}
        if isinstance(node, ast.Subscript):
            return {node, *self.origins(node.value)}
        if isinstance(node, ast.Call):
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            if isinstance(node.func, ast.Name) and node.func.id in _ANEW:
                return {node}
            given = [*node.args, *[keyword.value for keyword in node.keywords]]
            if isinstance(owner, ast.Name) and self.imports.get(owner.id, "").partition(".")[0] in _LIBRARIES:
                owner = None  # what a function of a library gives is not the library's
            return {node}.union(self.origins(owner), *map(self.origins, given))
        if isinstance(node, (ast.BinOp, ast.UnaryOp)):
            return {node}
        if isinstance(node, (ast.Constant, ast.Compare, ast.JoinedStr)) or node is None:
            return set()
        return set().union(*map(self.origins, _parts(node)))

    def write(self, *nodes: ast.AST | None) -> None:
        self.written = self.written.union(*map(self.origins, nodes))

    def bind(self, target: ast.AST, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.same_memory.setdefault(target.id, set()).update(self.origins(value))
        elif isinstance(target, (ast.Tuple, ast.List)):
            each = isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
            if each and not any(
                [isinstance(part, ast.Starred) for part in (*target.elts, *value.elts)]
            ):  # `a, b = c, d`
                self.passed.add(value)
            else:
                each = False
            for part, own in zip(target.elts, value.elts if each else [value] * len(target.elts)):
                self.bind(part, own)
        else:  # a part of something, which may be a container
            self.write(
                target.value
                if isinstance(target, (ast.Subscript, ast.Attribute, ast.Starred))
                else target,
                value,
            )

    def statement(self, node: Any) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self.bind(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
            self.bind(node.target, node.value)
        elif isinstance(node, ast.AugAssign):
            self.write(
                node.target.value
                if isinstance(node.target, (ast.Subscript, ast.Attribute))
                else node.target
            )
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            self.bind(node.target, node.iter)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.written.update(node.names)
        elif isinstance(node, ast.Call):
            self.call(node)
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)) and isinstance(
            getattr(node, "ctx", _LOAD), ast.Load
        ):
            if node not in self.passed:
                self.write(*node.elts)
        elif isinstance(node, ast.Dict):
            self.write(*node.values)
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.Lambda)):
            self.write(node.body if isinstance(node, ast.Lambda) else node.elt)
        elif isinstance(node, ast.DictComp):
            self.write(node.value)
        elif isinstance(node, ast.Subscript):
            self.pass_over(node.slice)
        elif isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Starred)):
            self.write(node.value)
        elif isinstance(node, ast.withitem):
            self.write(node.context_expr)
        elif isinstance(node, ast.Match):
            self.write(node.subject)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.write(*node.args.defaults, *node.args.kw_defaults)

    def pass_over(self, node: Any) -> None:
        """Lists and tuples here hand nothing on."""
        if isinstance(node, (ast.List, ast.Tuple)):
            self.passed.add(node)
            for part in node.elts:
                self.pass_over(part)

    def call(self, node: ast.Call) -> None:
        f, named = node.func, node.keywords
        names = _dotted(f)
        known = self.imports.get(names[0], "") if names else ""
        reads, first = False, 2  # further arguments may be `out`
        if known.partition(".")[0] in _LIBRARIES:
            path = [*known.split("."), *names[1:]]
            reads = WRITING_NAMES.isdisjoint(path) and not path[-1].startswith("__")
            self.calls = self.calls or not _CALLING.isdisjoint(path)
            first = getattr(getattr(np, path[-1], None), "nin", 2)
        elif isinstance(f, ast.Attribute):
            reads, first = f.attr in _METHODS, 1
            self.calls = self.calls or not reads
            if not reads:
                self.write(f.value)
        elif names and names[0] in _BUILTINS and names[0] not in self.imports:
            reads, first = True, len(node.args)
            self.calls = self.calls or bool(named)
        else:
            self.calls = True
            self.write(f)  # a method, perhaps, that was given a name
        given = [*node.args, *[keyword.value for keyword in named]]
        theirs = any(
            [
                isinstance(x, ast.Lambda) or isinstance(x, ast.Name) and x.id in self.functions
                for x in given
            ]
        )
        if not reads or theirs or any([keyword.arg in ("out", None) for keyword in named]):
            self.write(*given)
        else:
            self.write(*node.args[first:])
            for part in given:
                self.pass_over(part)


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.expr, ast.keyword, ast.comprehension)):
            yield child


def _dotted(node: ast.AST) -> list[str]:
    """`np.linalg.norm` as its names; nothing of other expressions."""
    if isinstance(node, ast.Name):
        return [node.id]
    before = _dotted(node.value) if isinstance(node, ast.Attribute) else []
    return [*before, node.attr] if before else []  # type: ignore[attr-defined]


def imported_names(module: ast.AST) -> dict[str, str]:
    """What the names that imports bind stand for; not those that are bound in another way, too."""
    found: dict[str, str] = {}
    for node in ast.walk(module):
        for alias in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
            name = alias.asname or alias.name.partition(".")[0]
            whole = alias.name if alias.asname or isinstance(node, ast.ImportFrom) else name
            whole = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else whole
            found[name] = whole if found.get(name, whole) == whole else ""
    for node in ast.walk(module):
        other = node.id if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) else None
        other = (
            node.arg
            if isinstance(node, ast.arg)
            else getattr(node, "name", None)
            if other is None
            else other
        )
        found.pop(other, None)  # type: ignore[arg-type]
    return found
