"""`python -m funcad port FILE`: the imports and the idioms of a JAX or autograd program, rewritten; what is left is told.

Idea: the program's syntax tree says where names of the other library stand; the text is changed there and nowhere else, so that
comments and layout stay. A name is rewritten only if funcad has it, which is asked of funcad itself; everything else keeps its
text and is reported with its line and a word on what to do. Autograd's derivatives keep their conventions (`argnum`, outputs of
any shape): they come from funcad.autograd, and arrays become plain NumPy's.

Trap: names are followed through imports at the top of a file, not through assignments and shadowing.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

# Programs import these; what they take from other libraries stays.
ROOTS = ("jax", "autograd", "optax")
# the other library's name -> funcad's, where it is not the same name under `funcad`; the longest beginning counts
RENAMED = {
    "jax.numpy.linalg.inv": "funcad.numpy.linalg.inv",
    "jax.experimental.ode.odeint": "funcad.scipy.integrate.odeint",
    "jax.experimental.io_callback": "funcad.io_callback",
    "jax.experimental.jet.jet": "funcad.jet",
    "jax.test_util": "funcad.testing",
    "jax.core": "",
    "jax.config": "",
    "jax.Array": "funcad.numpy.ndarray",
    "jax": "funcad",
    "optax": "funcad.optimize",
    "autograd.numpy.random": "numpy.random",
    "autograd.numpy.linalg": "numpy.linalg",
    "autograd.numpy.fft": "numpy.fft",
    "autograd.numpy.numpy_boxes": "",
    "autograd.numpy": "numpy",
    "autograd.scipy": "scipy",
    "autograd.builtins": "builtins",
    "autograd": "funcad.autograd",
}
# What to do by hand, by the longest beginning of the name.
REMARKS = {
    "jax.pmap": "one device: vmap(f, axis_name=...) computes the same",
    "jax.config": "funcad.config has the settings; float64 is the default",
    "jax.core": "funcad has no such internals; make_jaxpr shows a program",
    "jax.sharding": "arrays are NumPy's and lie in one place",
    "jax.experimental": "JAX's experiments are not there",
    "autograd.tracer": "there is no graph of nodes; stop_gradient(x) takes a value out of a derivative",
    "autograd.numpy.numpy_boxes": "traced values answer isinstance(x, np.ndarray)",
}
LEFT = "funcad has no such name; `python -m funcad docs from_jax` and `docs from_autograd` say what to write instead"


class Edit(NamedTuple):
    """One replacement in the text: from (line, column) to (line, column), columns in bytes, as ast counts."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


class Ported(NamedTuple):
    """What became of a program."""

    text: str
    left: list[tuple[int, str]]  # lines and what is to be done there by hand


def exists(name: str) -> bool:
    """Is there an object of this dotted name?"""
    parts = name.split(".")
    for i in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:i]))
        except ImportError:
            continue
        for part in parts[i:]:
            try:
                found = getattr(found, part)
            except AttributeError:
                return False
        return True
    return False


def renamed(name: str) -> str | None:
    """funcad's or NumPy's name for a name of the other library; None if there is none."""
    parts = name.split(".")
    for i in range(len(parts), 0, -1):
        new = RENAMED.get(".".join(parts[:i]))
        if new is not None:
            whole = ".".join([new, *parts[i:]])
            return whole if new and exists(whole) else None
    return None


def remark(name: str) -> str:
    parts = name.split(".")
    return next(filter(None, [REMARKS.get(".".join(parts[:i])) for i in range(len(parts), 0, -1)]), LEFT)


def port(source: str) -> Ported:
    """The program in funcad's words.

    >>> from funcad.commands.porting import port
    >>> print(port("import jax\\nimport jax.numpy as jnp\\ng = jax.grad(lambda x: jnp.sum(x**2))\\n").text, end="")
    import funcad
    import funcad.numpy as jnp
    g = funcad.grad(lambda x: jnp.sum(x**2))
    """
    tree = ast.parse(source)
    edits: list[Edit] = []
    left: list[tuple[int, str]] = []
    known: dict[str, str] = {}  # a name in the file -> what it stands for in the other library
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            _import(node, known, edits, left)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ROOTS and not node.level:
            _import_from(node, known, edits, left)
    precision = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_precision(node, known)}
    for node in _outermost(tree):
        if id(node) not in precision:
            _attribute(node, known, edits, left)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and id(node.value.func) in precision:
            edits.append(Edit(*_span(node), "pass  # float64 is the default"))
        elif known and isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "at":
            _at(node.value, source, edits)
        elif known and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            _method(node, node.func, edits)
    return Ported(_applied(source, edits), sorted(set(left)))


# -- edits, each of one kind of node


def _span(node: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _import(node: ast.Import, known: dict[str, str], edits: list[Edit], left: list[tuple[int, str]]) -> None:
    names, changed = [], False
    for alias in node.names:
        root, text = alias.name.split(".")[0], alias.name + (f" as {alias.asname}" if alias.asname else "")
        if root in ROOTS:
            new = renamed(alias.name)
            known[alias.asname or root] = alias.name if alias.asname else root
            if new is None:
                left.append((node.lineno, f"import {alias.name}: {remark(alias.name)}"))
            else:
                changed, text = True, new + (f" as {alias.asname}" if alias.asname and alias.asname != new else "")
                if not _is_module(new):  # autograd has modules where SciPy has objects
                    module, _, last = new.rpartition(".")
                    text = f"from {module} import {last}" + (f" as {alias.asname}" if alias.asname not in (None, last) else "")
        names.append(text if text.startswith("from ") else f"import {text}")
    if changed:
        edits.append(Edit(*_span(node), ("\n" + " " * node.col_offset).join(dict.fromkeys(names))))


def _import_from(node: ast.ImportFrom, known: dict[str, str], edits: list[Edit], left: list[tuple[int, str]]) -> None:
    found: dict[str, list[str]] = {}
    for alias in node.names:
        name = f"{node.module}.{alias.name}"
        new = None if alias.name == "*" else renamed(name)
        known[alias.asname or alias.name] = name
        if new is None:
            left.append((node.lineno, f"from {node.module} import {alias.name}: {remark(name)}"))
            module, last = str(node.module), alias.name
        else:
            module, _, last = new.rpartition(".")
        called = alias.asname or alias.name
        if not module:  # `from autograd import numpy as np`
            found.setdefault("", []).append(last if called == last else f"{last} as {called}")
        else:
            found.setdefault(module, []).append(last if called == last else f"{last} as {called}")
    indent = "\n" + " " * node.col_offset
    lines = [f"from {m} import {', '.join(names)}" if m else f"import {', '.join(names)}" for m, names in found.items()]
    edits.append(Edit(*_span(node), indent.join(lines)))


def _outermost(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Attribute chains, each as a whole."""
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            yield node


def _attribute(node: ast.Attribute, known: dict[str, str], edits: list[Edit], left: list[tuple[int, str]]) -> None:
    """A name like `jax.lax.scan`: what it stands for, and how funcad calls it."""
    chain: list[ast.Attribute] = []
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        chain.insert(0, inner)
        inner = inner.value
    if not isinstance(inner, ast.Name) or inner.id not in known:
        return
    whole = known[inner.id]
    new, reached = renamed(whole), 0
    for n in range(len(chain), 0, -1):  # as far as it is a name of the library: what follows belongs to the object
        further = ".".join([known[inner.id], *[part.attr for part in chain[:n]]])
        found = renamed(further)
        if found is not None:
            whole, new, reached = further, found, n
            break
    if reached < len(chain) and (new is None or _is_module(new)):
        missing = f"{whole}.{chain[reached].attr}"
        left.append((node.lineno, f"{missing}: {remark(missing)}"))
    elif not reached or new is None or known[inner.id] not in ROOTS:
        return
    elif inner.id == known[inner.id]:
        edits.append(Edit(_span(node)[0], _span(chain[reached - 1])[1], new))
    elif new != ".".join([str(renamed(known[inner.id])), *whole.split(".")[1:]]):  # by another name than `import jax as j` has
        left.append((node.lineno, f"{whole}: it is {new}"))


def _is_precision(call: ast.Call, known: dict[str, str]) -> bool:
    """`jax.config.update("jax_enable_x64", True)`, which has nothing to do here."""
    first = call.args[0] if call.args else None
    name = ast.unparse(call.func)
    whole = name.replace(name.split(".")[0], known.get(name.split(".")[0], ""), 1)
    return whole == "jax.config.update" and isinstance(first, ast.Constant) and first.value == "jax_enable_x64"


def _is_module(name: str | None) -> bool:
    if name is None:
        return False
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _at(node: ast.Attribute, source: str, edits: list[Edit]) -> None:
    """`x.at[i]`, which NumPy's arrays do not have."""
    start, end = _span(node.value)
    edits.append(Edit(start, start, "funcad.numpy.at("))
    edits.append(Edit(end, _span(node)[1], ")"))


def _method(call: ast.Call, function: ast.Attribute, edits: list[Edit]) -> None:
    """`x.block_until_ready()`: nothing is asynchronous."""
    if function.attr == "block_until_ready":
        edits.append(Edit(_span(function.value)[1], _span(call)[1], ""))


def _applied(source: str, edits: list[Edit]) -> str:
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    text = b"".join(lines)
    for edit in sorted(edits, key=lambda e: (e.start, e.end), reverse=True):
        (first, a), (last, b) = edit.start, edit.end
        text = text[: starts[first - 1] + a] + edit.text.encode() + text[starts[last - 1] + b :]
    found = text.decode()
    if "funcad.numpy.at(" in found and not any([line.strip() == "import funcad" for line in found.splitlines()]):
        found = _with_import(found)
    return found


def _with_import(text: str) -> str:
    """`import funcad` before the first import that stands at the left margin, or after the docstring."""
    tree = ast.parse(text)
    imports = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom)) and getattr(n, "module", "") != "__future__"]
    line = imports[0].lineno - 1 if imports else 0
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:line], "import funcad\n", *lines[line:]])


# -- the command


def port_files(words: Sequence[str]) -> int:
    """Rewrite the files, or with --check show how; list what is left. The status is 1 if something is left, or to do."""
    check, names = "--check" in words, [word for word in words if word != "--check"]
    if not names or any([name.startswith("-") for name in names]):
        print("port needs files: python -m funcad port [--check] FILE ...", file=sys.stderr)
        return 2
    status = 0
    for name in names:
        try:
            source = Path(name).read_text(encoding="utf-8")
            ported = port(source)
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            status = 2
            continue
        if ported.text != source and check:
            before, after = source.splitlines(keepends=True), ported.text.splitlines(keepends=True)
            sys.stdout.writelines(difflib.unified_diff(before, after, name, f"{name}, ported"))
        elif ported.text != source:
            Path(name).write_text(ported.text, encoding="utf-8")
        for line, what in ported.left:
            print(f"{name}:{line}: left: {what}")
        if not ported.left:
            print(f"{name}: {'nothing to do' if ported.text == source else 'nothing is left to do by hand'}")
        status = max(status, int(bool(ported.left) or check and ported.text != source))
    return status
