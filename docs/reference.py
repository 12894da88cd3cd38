"""The entries of the API reference, written from what the package has when the manual is built.

A page of `docs/api` says in words what its module is for, and then `{public-names} funcad.nn`: this module turns each public
name into an entry with its signature and its docstring. A docstring is plain text, which may hold `code`, lists and examples;
it is escaped here, so that no wording can break a page.
"""

from __future__ import annotations

import importlib
import inspect
import re
import types
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parent / "api"
DIRECTIVE = re.compile(r"^```\{public-names\} ([\w.]+)$", re.MULTILINE)


def modules() -> dict[str, str]:
    """Module -> the page that documents it, in the order of the index."""
    order = re.findall(r"^([\w.]+)$", (PAGES / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    found = {}
    for page in order:
        for module in DIRECTIVE.findall((PAGES / f"{page}.md").read_text(encoding="utf-8")):
            found[module] = f"api/{page}"
    return found


def resolve(name: str) -> Any:
    """The object of a dotted name: a module, or a setting like `funcad.config`."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        parent, _, last = name.rpartition(".")
        return getattr(resolve(parent), last)


def public_names(module: Any) -> dict[str, Any]:
    """The public names of a module, without its parts that are modules themselves and have pages of their own."""
    names = getattr(module, "__all__", None) or dir(module)
    shown = sorted((name for name in set(names) if not name.startswith("_")), key=lambda name: (name.lower(), name))
    values = {name: getattr(module, name) for name in shown}
    return {n: v for n, v in values.items() if not isinstance(v, types.ModuleType) and type(v).__name__ != "Primitive"}


# -- text


def escaped(text: str) -> str:
    """Plain text in which `code` is code, as reStructuredText."""
    parts = re.split(r"`+([^`\n]+(?:\n[^`\n]+)?)`+", text)
    written = []
    for i, part in enumerate(parts):
        if i % 2:
            written.append("\\ ``" + " ".join(part.split()) + "``\\ ")
        else:
            written.append(re.sub(r"([\\*`|_<>])", r"\\\1", part))
    return "".join(written)


def blocks(text: str) -> list[list[str]]:
    """Paragraphs, examples and lists, as lists of lines."""
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        example = found[-1] and found[-1][0].startswith(">>>")
        if not line.strip():
            found.append([])
        elif (line.startswith(">>>") and not example) or re.match(r"[*-] |[A-Z][a-z]+: ", line):  # "Remedy: ..." too
            found.append([line])
        else:
            found[-1].append(line)
    return [block for block in found if block]


def body(doc: str) -> list[str]:
    """A docstring as lines of reStructuredText."""
    lines: list[str] = []
    for block in blocks(inspect.cleandoc(doc)):
        first = block[0]
        if first.startswith(">>>"):
            lines += [".. code-block:: pycon", "", *[f"   {line}" for line in block]]
        elif len(block) > 1 and re.fullmatch(r"-{3,}|={3,}", block[1]):
            lines += [f".. rubric:: {escaped(first)}", "", *entries(block[2:])]
        elif re.match(r"[*-] ", first):
            lines += ["* " + escaped(" ".join([first[2:], *[line.strip() for line in block[1:]]]))]
        elif all(line.startswith("    ") for line in block) or first.lstrip().startswith("|"):
            lines += ["::", "", *[f"   {line}" for line in block]]
        else:
            lines += [escaped(" ".join(line.strip() for line in block))]
        lines.append("")
    return lines


def entries(lines: list[str]) -> list[str]:
    """The lines of a section: names, and what stands indented below each."""
    if not any(line.startswith(" ") for line in lines):
        return [escaped(" ".join(lines))]
    written: list[str] = []
    for line in lines:
        if line.startswith(" "):
            written.append(f"   {escaped(line.strip())}")
        else:
            written.append(escaped(line).strip() if line.strip() else "")
    return written


def signature(value: Any) -> str:
    """The parameters with their defaults, without annotations."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    text = str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    text = re.sub(r"<(function|class|built-in function|ufunc) '?([\w.<>]+?)'?( at 0x\w+)?>", r"\2", text)
    return re.sub(r"<[^<>]*>", "...", text).replace("\\", "\\\\")


def kind_of(value: Any) -> str:
    """What Sphinx calls this kind of object."""
    if isinstance(value, type):
        return "exception" if issubclass(value, BaseException) else "class"
    return "function" if callable(value) and hasattr(value, "__name__") else "data"


def members(value: type) -> dict[str, Any]:
    """The public methods and properties that a class of funcad's says something about."""
    found = {}
    for name, member in vars(value).items():
        plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if not name.startswith("_") and (inspect.isfunction(plain) or isinstance(plain, property)) and plain.__doc__:
            found[name] = plain
    return found


def entry(qualified: str, value: Any, elsewhere: str | None) -> list[str]:
    """One public name: a directive, its text indented below it."""
    kind = kind_of(value)
    head = f".. py:{kind}:: {qualified}" + (signature(value) if kind in ("function", "class") else "")
    module = getattr(value, "__module__", None) or type(value).__module__
    if elsewhere is not None:
        text = [f"The same as :py:obj:`{elsewhere}`."]
    elif kind == "data" and isinstance(value, (int, float, complex, str, type(None))):
        text = [f"``{value!r}``"]
    elif not module.startswith("funcad"):
        text = [f"The same object as in {escaped(module.partition('.')[0])}."]
    else:
        text = body(value.__doc__ or "")
        if kind in ("class", "exception"):
            for name, member in members(value).items():
                role = "property" if isinstance(member, property) else "method"
                call = "" if isinstance(member, property) else signature(member).replace("(self, ", "(").replace("(self)", "()")
                text += ["", f".. py:{role}:: {name}{call}", "", *[f"   {line}" for line in body(member.__doc__ or "")]]
    return [head, "", *[f"   {line}" for line in text], ""]


def page_of(module: str) -> list[str]:
    """All entries of a module, as lines of reStructuredText. What an earlier page has, is linked."""
    known: dict[int, str] = {}
    for name in modules():
        if name == module:
            break
        for key, value in public_names(resolve(name)).items():
            if callable(value):
                known.setdefault(id(value), f"{name}.{key}")
    lines: list[str] = []
    for key, value in public_names(resolve(module)).items():
        same = known.get(id(value)) if callable(value) and type(value).__module__ != "numpy" else None
        lines += entry(f"{module}.{key}", value, same)
        if callable(value):
            known.setdefault(id(value), f"{module}.{key}")
    return lines


def write_entries(app: Any, page: str, source: list[str]) -> None:
    """Put the entries where a page asks for them."""
    source[0] = DIRECTIVE.sub(lambda found: "\n".join(["```{eval-rst}", *page_of(found[1])]), source[0])


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("source-read", write_entries)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
