"""The manual is whole: every page is in the index, every public name has an entry, every link leads somewhere.

`docs/build.py` runs the code of the pages, in CI.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
import subprocess
import sys
import types
from collections import Counter
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcad
from tests.numpy.test_surface import NAMESPACES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
IDS = [str(path.relative_to(DOCS).with_suffix("")) for path in PAGES]


def load(name: str) -> Any:
    """A module of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(f"manual_{name}", DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


reference, build = load("reference"), load("build")
MODULES = reference.modules()


def fenced(text: str, kind: str) -> list[str]:
    """The bodies of a page's blocks of one kind."""
    return re.findall(rf"^```\{{{kind}\}}[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def prose(text: str) -> str:
    """A page without its blocks and its code."""
    return re.sub(r"`[^`\n]+`", "", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))


def anchors(text: str) -> set[str]:
    """The places of a page that a link can name, as GitHub and the manual's builder call them."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_is_in_an_index() -> None:
    listed = ["index"]
    for path in PAGES:
        folder = path.parent.relative_to(DOCS)
        for block in fenced(path.read_text(encoding="utf-8"), "toctree"):
            names = [line for line in block.splitlines() if line and not line.startswith(":")]
            listed += [str(folder / name) for name in names]
    assert sorted(listed) == sorted(IDS)


@pytest.mark.parametrize("path", PAGES + TOP, ids=IDS + [path.name for path in TOP])
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if re.match(r"\w+:", target):
            continue
        name, _, place = target.partition("#")
        there = (path.parent / name) if name else path
        assert there.is_file(), f"{target} is nowhere"
        assert not place or place in anchors(there.read_text(encoding="utf-8")), f"{target} has no such heading"


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_pages_can_be_read(path: Path) -> None:
    """Each says something, compiles, and names no place on a machine."""
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) >= 5 and re.search(r"^# \S", text, re.MULTILINE)
    assert not re.search(r"(?<![\w.~])/(tmp|home|root|usr|var|opt|work|Users|mnt)/", text)
    cells = fenced(text, "code-cell")
    assert not cells or text.startswith("---\nfile_format: mystnb\n"), "without this the code of the page is not run"
    for cell in cells:
        code = "\n".join(line for line in cell.splitlines() if not line.startswith(":"))
        compile(code, str(path), "exec")


@pytest.mark.parametrize("path", [p for p in PAGES if p.parent == DOCS and p.stem != "index"], ids=lambda p: p.stem)
def test_pages_open_with_what_one_can_do_after_reading_them(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    opening = re.search(r"^# .+\n\n(.+)", text, re.MULTILINE)
    assert opening is not None and opening[1].startswith("After reading this page you "), path.name


@pytest.mark.parametrize("path", [p for p in PAGES if p.parent.name == "gallery" and p.stem != "index"], ids=lambda p: p.stem)
def test_programs_show_a_picture_first_and_say_how_long_they_take(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    first = re.search(r"^# .+\n\n```\{glue:figure\} picture\n:alt: .{40,}\n```\n", text, re.MULTILINE)
    assert first is not None and "glue(\"picture\", " in text
    assert "**The check" in text and re.search(r"^assert ", text, re.MULTILINE)
    last = text.partition("**How long it takes.** ")[2]
    assert "The comparison is with" in last and last.count("cpu(") >= 3
    drawn = text.partition("from myst_nb import glue")[2].partition("```")[0]
    assert ("xlabel" in drawn and "ylabel" in drawn) or "set_xlabel" in drawn, "axes say what they are"
    cards = fenced((path.parent / "index.md").read_text(encoding="utf-8"), "cards")
    assert len(re.findall(rf"^{path.stem}: [A-Z].+[.]$", "\n".join(cards), re.MULTILINE)) == 1


def test_there_are_as_many_programs_as_the_gallery_says() -> None:
    pages = [p for p in PAGES if p.parent.name == "gallery" and p.stem != "index"]
    assert len(pages) == 25 and "# Gallery: twenty-five" in (DOCS / "gallery" / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_pictures_are_described(path: Path) -> None:
    """For those who do not see them."""
    for cell in fenced(path.read_text(encoding="utf-8"), "code-cell"):
        if "plt." in cell and re.search(r"\bplt\.(plot|legend|subplots)\b", cell) and "glue(" not in cell:
            assert '"alt": "' in cell, cell


# -- the reference


def public_modules() -> set[str]:
    """What users import, asked of the package: funcad's lazy modules, the table's namespaces, all of autograd's."""
    lazy = {f"funcad.{name}" for name in funcad._LAZY_MODULES if name != "scipy"}  # whose parts are among the namespaces
    autograd = {m.name for m in pkgutil.walk_packages(funcad.autograd.__path__, "funcad.autograd.")}
    inner = ("scipy", "vspaces", "numpy.numpy_vjps", "nodes", "user_boxes", "direct_rows", "rule_tables")  # in others
    autograd -= {f"funcad.autograd.{name}" for name in inner}
    tabled = {f"funcad.{name}" for name in NAMESPACES}
    return {"funcad", "funcad.tree", "funcad.errors", "funcad.config", *lazy, *tabled, *autograd}


def test_every_public_module_has_a_page() -> None:
    assert not public_modules() - set(MODULES)


@pytest.mark.share(3)
@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_an_entry(module: str) -> None:
    page = (DOCS / f"{MODULES[module]}.md").read_text(encoding="utf-8")
    found = entries(reference.write_entries(page))
    value = reference.resolve(module)
    names = getattr(value, "__all__", None) or [name for name in dir(value) if not name.startswith("_")]
    for name in names:
        if not isinstance(getattr(value, name), types.ModuleType) and type(getattr(value, name)).__name__ != "Primitive":
            hidden = module == "funcad" and name not in dir(funcad)  # autograd's, which are on its page
            assert found[f"{module}.{name}"] == (0 if hidden else 1), name
            assert not hidden or name in {**vars(funcad.autograd), **vars(funcad.autograd.extend)}, name


def entries(written: str) -> Counter[str]:
    """The names that have an entry, or a place in a table."""
    found = re.findall(r"^\.\. py:\w+:: (\w+)\b(?!\.).*\n   :module: ([\w.]+)$", written, re.MULTILINE)
    found += [(name, module) for module, name in re.findall(r"^\.\. py:\w+:: ([\w.]+)\.(\w+)", written, re.MULTILINE)]
    tabled = re.findall(r":(?:public|foreign)-name:`([\w.]+)`", written)
    return Counter([*[f"{module}.{name}" for name, module in found], *tabled])


def test_tables_say_once_what_is_true_of_many() -> None:
    written = "\n".join(reference.table_of("funcad.numpy"))
    assert "the same arguments, results and errors" not in written and "Else parameters" not in written
    assert ":public-name:`funcad.numpy.sin`" in written.partition("As in NumPy, on traced values too: ")[2]
    row = written.partition(":public-name:`funcad.numpy.argsort`")[2].partition("* -")[0]
    assert "equal elements stay in their order" in row
    assert ("takes \\ ``descending``\\ , too" in row) == ("descending" not in inspect.signature(np.argsort).parameters)
    stats = "\n".join(reference.table_of("funcad.scipy.stats"))
    assert stats.count("A continuous distribution of SciPy's") == 1
    foreign = "\n".join(reference.foreign_table(["funcad.jax", "funcad.jax.dtypes"]))
    assert foreign.count(".. list-table::") == 1 and "public-name" not in foreign


@pytest.mark.parametrize("page", ["autograd", "jax"])
def test_other_libraries_names_are_not_searched(page: str) -> None:
    text = (DOCS / "api" / f"{page}.md").read_text(encoding="utf-8")
    assert text.startswith("---\nnosearch: true\n") and "{public-" not in text


def test_entries_say_what_help_says() -> None:
    page = "\n".join(reference.page_of("funcad"))
    first = (inspect.getdoc(funcad.grad) or "").splitlines()[0]
    assert f".. py:function:: grad{reference.signature(funcad.grad)}\n   :module: funcad" in page
    assert f":py:obj:`grad <funcad.grad>`\n     - {reference.escaped(first)}" in page
    assert first in page and "0x" not in page
    assert ".. py:method:: defvjp" in page.partition(":: custom_vjp")[2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a *b* |c| d_", r"a \*b\* \|c\| d\_"),
        ("use `f(*x)` here", "use \\ ``f(*x)``\\  here"),
    ],
)
def test_plain_text_cannot_break_a_page(text: str, expected: str) -> None:
    assert reference.escaped(text) == expected


# -- the build


def test_the_command_is_where_ci_finds_it() -> None:
    """One line below its marker, with an extra that setup.cfg has and a file that is there."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.findall(r"^<!-- ci:docs -->\n\n```bash\n([^\n]*)\n```$", text, re.MULTILINE)
    assert len(found) == 1 and "'.[docs]'" in found[0] and found[0].endswith(" docs/build.py")
    setup = ConfigParser()  # a source distribution has the file as setuptools writes it
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    assert setup["options.extras_require"]["docs"].split()[0].startswith("sphinx")


def test_the_build_finds_broken_links_and_loads(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#here">x</a><a id="top" href="#top">y</a><script src="a.js"></script>')
    (tmp_path / "b.html").write_text('<p id="here"></p>')
    (tmp_path / "a.js").write_text("")
    assert build.check_pages(tmp_path) == []
    (tmp_path / "a.html").write_text('<a href="c.html"></a><a href="b.html#no"></a><script src="https://host.example/x.js"></script>')
    assert len(build.check_pages(tmp_path)) == 3


@pytest.mark.slow
def test_the_page_for_browsers_has_this_checkouts_wheel(tmp_path: Path) -> None:
    for package in ("build", "jupyterlite_core", "jupyterlite_pyodide_kernel", "jupyter_server"):
        pytest.importorskip(package)
    script = Path(__file__).parents[1] / "docs" / "lite.py"
    done = subprocess.run([sys.executable, script, tmp_path / "lite"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((tmp_path / "lite" / "pypi").glob("funcad-*.whl")) and (tmp_path / "lite" / "lab" / "index.html").exists()
    assert "01_quickstart.ipynb" in (tmp_path / "lite" / "api" / "contents" / "all.json").read_text(encoding="utf-8")
