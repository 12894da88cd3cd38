"""Memo tables are made by funcad/memo.py alone: what is audited there is all that is remembered.

A dict of a module or class that begins empty, a function of functools that remembers, a weak dict: each is a memo table unless
NOT_MEMOS names it, with what it is instead. What hangs on a program goes by `get` and `setdefault`, which the audit answers;
what is stored by `memo[...] =` or asked for by `in` is a note, which NOTES of funcad/memo.py lists.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from funcad.memo import NOTES
from funcad.passes.together import APART
from tests.sources import ROOT, Source

HOME = "memo.py"
REMEMBER = {"lru_cache", "cache"}  # of functools
DICTS = {"dict", "OrderedDict", "defaultdict", "Counter"}
WEAK = {"WeakKeyDictionary", "WeakValueDictionary"}
IMPORTED = {"APART": APART}  # notes that are named in another file
NOT_MEMOS = {  # (file, name): what it is
    ("backends/buffers.py", "_watching"): "memory that waits for reuse",
    ("backends/buffers.py", "_free"): "memory that waits for reuse",
    ("backends/export/c_program.py", "RULES"): "registered at import",
    ("backends/export/xla_program.py", "RULES"): "registered at import",
    ("backends/export/xla_special.py", "BESIDE"): "registered at import",
    ("backends/native/program_region.py", "RULES"): "registered at import",
    ("backends/native/shared_functions.py", "_WRITTEN"): "registered at import",
    ("backends/native/shared_functions.py", "_FOUND"): "registered at import",
    ("configuration.py", "listeners"): "registered at import",
    ("api/border.py", "_makers"): "registered at import",
    ("autograd/vspaces.py", "mappings"): "registered by users",
    ("doors/codes.py", "_behind"): "what was put in the place of what",
    ("doors/codes.py", "_methods"): "what was put in the place of what",
    ("doors/modules.py", "_originals"): "what was put in the place of what",
    ("host/devices.py", "NAMESPACES"): "registered at import",
    ("host/devices.py", "_copied"): "of whom a warning is to be given",
    ("host/devices.py", "_registry"): "Python's registry of warnings that were given",
    ("host/locks.py", "_handed"): "which arrays the user has",
    ("host/locks.py", "_records"): "which arrays are locked",
    ("ir/jaxpr.py", "_NO_MODES"): "nothing, for ever",
    ("lax/lax_reductions.py", "_MONOIDS"): "registered at import",
    ("numpy/dispatch.py", "QUICK"): "registered at import",
    ("numpy/dispatch.py", "TABLE"): "registered at import",
    ("numpy/dispatch.py", "_METHODS"): "registered at import",
    ("optimize/optimizers.py", "_texts"): "how objects were made",
    ("primitives/composite_atoms.py", "COMPOSITES"): "registered at import",
    ("primitives/special_polynomials.py", "later"): "registered at import",
    ("primitives/special_rules.py", "COUNTS"): "registered at import",
    ("primitives/special_rules.py", "KERNELS"): "registered at import",
    ("primitives/special_rules.py", "TABLE"): "registered at import",
    ("unjitted/strides.py", "_made_like"): "which arrays stand for traced values",
    ("unjitted/tape.py", "_NOTHING"): "nothing, for ever",
}


def made_elsewhere(source: Source, exempt: Iterable[tuple[str, str]] = NOT_MEMOS) -> Iterator[str]:
    """The memo tables that a file makes by itself."""
    if source.inside == HOME:
        return
    for node in source.of(ast.ImportFrom):
        if node.module == "functools" and any([a.name in REMEMBER for a in node.names]):
            yield f"{source.at(node)} takes what remembers from functools"
    for node in source.of(ast.Attribute):
        if node.attr in REMEMBER and isinstance(node.value, ast.Name) and node.value.id == "functools":
            yield f"{source.at(node)} calls functools.{node.attr}"
    for body in [source.tree.body, *[c.body for c in source.of(ast.ClassDef)]]:
        for node in body:
            for name in _targets(node):
                if _is_empty_dict(node.value) and (source.inside, name) not in set(exempt):
                    yield f"{source.at(node)} makes the dict {name}"
    for node in source.of(ast.Call):
        made = _called(node)
        if made not in WEAK:
            continue
        targets = {name for n in source.tree.body for name in _targets(n) if n.value is node}
        if not targets & {name for file, name in exempt if file == source.inside}:
            yield f"{source.at(node)} makes a {made}"


def hung_without_audit(source: Source) -> Iterator[str]:
    """What is stored on programs, or asked for, so that the audit does not see it, and is no note."""
    if source.inside == HOME:
        return
    names = {n.targets[0].id: n.value.value for n in source.tree.body if _is_text(n)}
    for node in source.of(ast.Subscript):
        if _is_memo(node.value) and isinstance(node.ctx, ast.Store) and _key(node.slice, names) not in NOTES:
            yield f"{source.at(node)} stores {ast.unparse(node)} past the audit"
    for node in source.of(ast.Compare):
        if _is_memo(node.comparators[0]) and _key(node.left, names) not in NOTES | {None}:
            yield f"{source.at(node)} asks {ast.unparse(node)} past the audit"


def needed(source: Source) -> Iterator[tuple[str, str]]:
    """The entries of NOT_MEMOS that a file needs."""
    for key in NOT_MEMOS:
        if key[0] == source.inside and list(made_elsewhere(source, set(NOT_MEMOS) - {key})):
            yield key


def of_text(text: str) -> Source:
    """A file of the package that had this text."""
    return Source(ROOT / "anywhere.py", text)


def _targets(node: ast.AST) -> list[str]:
    found = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in found if isinstance(target, ast.Name)]


def _called(node: ast.AST | None) -> str:
    f = node.func if isinstance(node, ast.Call) else None
    return f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else ""


def _is_empty_dict(value: ast.AST | None) -> bool:
    if isinstance(value, ast.Dict):
        return not value.keys
    return _called(value) in DICTS and isinstance(value, ast.Call) and not value.args and not value.keywords


def _is_memo(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "memo"


def _is_text(node: ast.AST) -> bool:
    text = isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return text and len(_targets(node)) == 1


def _key(node: ast.AST, names: dict[str, str]) -> str | None:
    """The text that a key is, or begins with; None if it is worked out."""
    if isinstance(node, ast.Tuple):
        node = node.elts[0]
    if isinstance(node, ast.Name):
        return names.get(node.id, IMPORTED.get(node.id))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
