"""The tables and entries of the API reference, written from what the package has when the manual is built.

A page of `docs/api` says in words what its module is for, and then asks for one of three things:

* `{public-names} funcad.nn`: a table of the names with a line for each, then an entry for each, with signature and docstring.
  The lines of the block are the names, if not all are meant: a page in groups has a block for each.
* `{public-table} funcad.numpy`: names that NumPy or SciPy have, too. What is special of each is a row of a table; the many that
  are as there are a list, and what their docstrings have in common is said once, by the page.
* `{foreign-table} funcad.jax`: names of another library's, for programs that were written for it; the lines of the block are
  more modules of its. One table, not searched.

A docstring is plain text, which may hold `code`, lists and examples; it is escaped here, so that no wording can break a page.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from funcad.commands import manual

PAGES = Path(__file__).parent / "api"
DIRECTIVE = re.compile(r"^```\{(public-names|public-table|foreign-table)\} ([\w.]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LISTED = ",\n"  # between the items of long lists: docutils takes no line of ten thousand letters
NAME = re.compile(r"[a-zA-Z_][\w.]*\w")
AMBIGUOUS = set("all any array at axis config constant devices key map print rules scale set shape size trace where".split())
NO_TEXT = {"float0": "The dtype of derivatives of integers and booleans, which have none: its elements hold nothing."}
COMMON = re.compile(r"(Parameters, shapes, dtypes, what it returns|Else parameters, results and errors are those of) ")


def modules() -> dict[str, str]:
    """Module -> the page that documents it, in the order of the index."""
    order = re.findall(r"^([\w.]+)$", (PAGES / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    found = {}
    for page in order:
        for kind, module, lines in DIRECTIVE.findall((PAGES / f"{page}.md").read_text(encoding="utf-8")):
            for name in [module, *lines.split()] if kind == "foreign-table" else [module]:
                found[name] = f"api/{page}"
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
    if "__dir__" in vars(module) and module.__name__ == "funcad":  # which hides what other libraries call things
        names = dir(module)
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
            lines += [f".. rubric:: {escaped(first)}", "", *entries(block[2:], first)]
        elif re.match(r"[*-] ", first):
            lines += ["* " + escaped(" ".join([first[2:], *[line.strip() for line in block[1:]]]))]
        elif all(line.startswith("    ") for line in block) or first.lstrip().startswith("|"):
            lines += ["::", "", *[f"   {line}" for line in block]]
        else:
            lines += [escaped(" ".join(line.strip() for line in block))]
        lines.append("")
    return lines


def entries(lines: list[str], title: str) -> list[str]:
    """The lines of a section: names, and what stands indented below each."""
    if title == "See also":
        return [escaped(", ".join(f"`{name}`" for name in re.split(r",\s*", " ".join(lines))))]
    if not any(line.startswith(" ") for line in lines):
        return [escaped(" ".join(lines))]
    written: list[str] = []
    for line in lines:
        names, colon, kind = line.partition(" : ")
        if line.startswith(" "):
            written.append(f"   {escaped(line.strip())}")
        elif title in ("Raises", "Warns"):
            written.append(escaped(", ".join(f"`{name}`" for name in line.split(", "))))
        else:
            bold = title == "Parameters" or colon
            written.append((f"**{escaped(names)}**" if bold else escaped(names)) + escaped(colon + kind))
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


def entry(module: str, name: str, value: Any, elsewhere: str | None) -> list[str]:
    """One public name: a directive, its text indented below it."""
    kind = kind_of(value)
    call = signature(value) if kind in ("function", "class") else ""
    head = [f".. py:{kind}:: {name}{call}", f"   :module: {module}"]
    if elsewhere is not None:
        head = [f".. py:{kind}:: {module}.{name}{call}"]  # without a module there is no second link to the source
        text = [f"The same as :py:obj:`{elsewhere}`."]
    elif name in NO_TEXT:
        text = [NO_TEXT[name]]
    elif kind == "data" and isinstance(value, (int, float, complex, str, type(None))):
        text = [f"``{value!r}``"]
    elif not home_of(value).startswith("funcad"):
        text = [f"The same object as in {escaped(home_of(value).partition('.')[0])}."]
    else:
        text = body(value.__doc__ or "")
        if kind in ("class", "exception"):
            for key, member in members(value).items():
                role = "property" if isinstance(member, property) else "method"
                form = "" if isinstance(member, property) else signature(member).replace("(self, ", "(").replace("(self)", "()")
                text += ["", f".. py:{role}:: {key}{form}", "", *[f"   {line}" for line in body(member.__doc__ or "")]]
    return [*head, "", *[f"   {line}" for line in text], ""]


def home_of(value: Any) -> str:
    """The module that an object comes from."""
    return str(getattr(value, "__module__", None) or type(value).__module__)


def summary(name: str, value: Any) -> str:
    """The first sentence of the docstring; the value of a constant."""
    if name in NO_TEXT:
        return NO_TEXT[name]
    if not callable(value):
        return f"``{value!r}``" if isinstance(value, (int, float, complex, str, type(None))) else escaped(type(value).__name__)
    first = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
    return escaped(re.split(r"(?<=\.) (?=[A-Z`])", first)[0])


def table(heads: list[str], rows: list[list[str]], widths: str) -> list[str]:
    """A table, as lines of reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", *["   :class: stacked"][: len(heads) - 2], ""]
    for row in [heads, *rows]:
        for i, cell in enumerate(row):
            first, *rest = cell.split("\n")
            lines += [f"   {'* -' if i == 0 else '  -'} {first}", *[f"       {line}" for line in rest]]
    return [*lines, ""] if rows else []


def known_before(module: str) -> dict[int, str]:
    """Where the objects are documented that an earlier page has, by id."""
    known: dict[int, str] = {}
    for name in modules():
        if name == module:
            break
        for key, value in public_names(resolve(name)).items():
            if callable(value):
                known.setdefault(id(value), f"{name}.{key}")
    return known


def page_of(module: str, only: str = "") -> list[str]:
    """Names of a module with a table and their entries. What an earlier page has, is linked."""
    known, names = known_before(module), public_names(resolve(module))
    chosen = only.split() or list(names)
    lines = table(["name", "what it is"], [[f":py:obj:`{n} <{module}.{n}>`", summary(n, names[n])] for n in chosen], "25 75")
    for key in chosen:
        value = names[key]
        same = known.get(id(value)) if callable(value) and type(value).__module__ != "numpy" else None
        same = same or next((f"{module}.{k}" for k in names if k in chosen[: chosen.index(key)] and names[k] is value), None)
        lines += entry(module, key, value, same)
    return lines


def special_of(module: str, name: str, value: Any) -> tuple[str, str] | None:
    """What is to be known of a function that NumPy or SciPy has, too, and where it differs; None if it is as there."""
    paragraphs = [" ".join(b.split()) for b in (inspect.getdoc(value) or "").split("\n\n") if not b.lstrip().startswith(">>>")]
    found = re.match(r"`([\w.]+)\.(\w+)`[:;,]? ?(.*)", paragraphs[0]) if paragraphs else None
    theirs = found is not None and found[1].partition(".")[0] in ("numpy", "scipy")
    first = found[3] if found is not None and theirs else paragraphs[0] if paragraphs else ""
    if first.startswith("the same arguments, results and errors"):
        first = ""
    rest = [p for p in paragraphs[1:] if not COMMON.match(p) and not re.fullmatch(r"-+", p)]
    points = [p for p in rest if p.startswith("Special points")]
    differs = [p.removeprefix("Special points: ") for p in points]
    if theirs and found is not None:
        try:
            original = getattr(importlib.import_module(found[1]), found[2])
            have, had = (inspect.signature(f).parameters for f in (value, original))
            more = [f"`{n}`" for n, p in have.items() if n not in had and p.default is not p.empty]
            differs += [f"takes {' and '.join(more)}, too"] if more and len(have) > len(had) else []
        except (ImportError, AttributeError, TypeError, ValueError):
            differs += []
    text = " ".join([first, *[p for p in rest if p not in points]]).strip()
    return (text, "; ".join(differs)) if text or differs else None


def table_of(module: str) -> list[str]:
    """The names of a module that another library has, too: the special ones in a table, the rest in a list."""
    rows: dict[tuple[str, str], list[str]] = {}
    same, theirs = [], []
    for name, value in public_names(resolve(module)).items():
        link = f":public-name:`{module}.{name}`"
        if not home_of(value).startswith("funcad") or not callable(value):
            theirs.append(link)
            continue
        special = special_of(module, name, value)
        if special is None:
            same.append(link)
        else:
            rows.setdefault(special, []).append(link)  # what is true of several is said once
    cells = [[LISTED.join(links), escaped(text), escaped(differs)] for (text, differs), links in rows.items()]
    lines = table(["name", "what is special", "where it differs"], cells, "20 50 30")
    library = "SciPy" if ".scipy" in module else "NumPy"
    if same:
        lines += [f"As in {library}, on traced values too: {LISTED.join(same)}.", ""]
    if theirs:
        lines += [f"{library}'s own objects: {LISTED.join(theirs)}.", ""]
    return lines


def foreign_table(several: list[str]) -> list[str]:
    """What another library calls things: a row for each name of its own, one for those that are somebody else's."""
    known, rows = known_before(several[0]), []
    own = ".".join(several[0].split(".")[:2])
    for module in several:
        names = public_names(resolve(module))
        new = [n for n, value in names.items() if home_of(value).startswith(own) and id(value) not in known]
        rows += [[f"``{module}``", f":foreign-name:`{module}.{n}`", summary(n, names[n])] for n in new]
        same = [f":foreign-name:`{module}.{n}`" for n in names if n not in new]
        rows += [[f"``{module}``", "as in funcad, NumPy, SciPy or Python", LISTED.join(same)]] if same else []
        known.update({id(names[n]): module for n in new if callable(names[n])})
    return table(["module", "name", "what it is"], rows, "25 25 50")


def resolve_name(qualified: str) -> Any:
    """The object of `funcad.numpy.sin`."""
    module, _, name = qualified.rpartition(".")
    return getattr(resolve(module), name)


def write_entries(source: str) -> str:
    """The text of a page with the entries and tables that it asks for."""

    def written(found: re.Match[str]) -> str:
        kind, module, only = found.groups()
        if kind == "public-names":
            lines = page_of(module, only)
        else:
            lines = table_of(module) if kind == "public-table" else foreign_table([module, *only.split()])
        return "\n".join(["```{eval-rst}", *lines, "```"])

    return DIRECTIVE.sub(written, source)


# -- the search


def find_index(pages: Sequence[manual.Page]) -> str:
    """What docs/_static/find.js knows of the pages, as its source: the words of each, with their weights and numbers."""
    known = [manual.weighed(page)._asdict() for page in pages]
    return f"const FIND = {json.dumps({'endings': manual.ENDINGS, 'pages': known}, separators=(',', ':'))};\n"
