"""What setup.cfg cannot say: the manual's pages go into the package, as one file; what only those read who change funcad
stays out of the wheel; and the distribution's name may be chosen.

`FUNCAD_DISTRIBUTION=my-name python -m build` builds the same package, which is imported as `funcad`, under another name.
"""

import ast
import bz2
import io
import os
import re
import tokenize
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent


HIDDEN = re.compile(r"^```\{(?:code-cell\}\n:tags: \[hide-input\]|toctree\}|glue:figure\}).*?^```\n", re.DOTALL | re.MULTILINE)
FRONT = re.compile(r"\A---\n(?:.*?^( *\"keywords\".*?\n))?.*?^---\n", re.DOTALL | re.MULTILINE)


def packed_manual(docs):
    """The sources of the pages, each below its name, without cells that it hides, and with keywords only before it."""
    pages = [page for page in sorted(docs.rglob("*.md")) if page.relative_to(docs).parts[0] not in ("_build", "api")]
    named = [(page.relative_to(docs).with_suffix("").as_posix(), page.read_text(encoding="utf-8")) for page in pages]
    texts = [FRONT.sub(lambda found: f"---\n{found[1] or ''}---\n", HIDDEN.sub("", text)) for _, text in named]
    return bz2.compress("\f".join([f"{name}\n{text}" for (name, _), text in zip(named, texts)]).encode())


def _unread(tree):
    """Functions whose docstring only those see who change them: private ones that are called and never handed on by name."""
    nodes = list(ast.walk(tree))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    named = [node for node in nodes if isinstance(node, ast.Name | ast.Attribute) and id(node) not in called]
    handed = {node.id if isinstance(node, ast.Name) else node.attr for node in named}
    for node in nodes:
        private = isinstance(node, ast.FunctionDef) and node.name.startswith("_") and not node.name.endswith("__")
        if private and node.name not in handed and not node.decorator_list and len(node.body) > 1 and ast.get_docstring(node):
            yield node


def for_users(source, path=Path()):
    """A module without comments, and without docstrings that nobody sees; each statement is where it was."""
    lines = source.splitlines(keepends=True)
    tree = ast.parse(source)
    unread = list(_unread(tree))
    if not INSIDE.isdisjoint(path.parts) and path.name != "__init__.py" and ast.get_docstring(tree):
        unread.append(tree)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("# type:"):
            line, column = token.start
            lines[line - 1] = lines[line - 1][:column].rstrip() + "\n"
    for node in unread:
        for line in range(node.body[0].lineno, node.body[0].end_lineno + 1):
            lines[line - 1] = "\n"
    return "".join(lines)


# folders with modules that nobody meets by name: what their docstrings say is how they work
INSIDE = set("backends doors host ir jitted lifting masks passes primitives reads show transforms twin unjitted writes".split())
FOR_DEVELOPERS = ["writing"]  # funcad/unjitted/writing.py, which writes files of the package anew


class BuildWithManual(build_py):
    """The package as `for_users` has it, and in it the sources of docs/ (funcad/commands/manual.py reads them)."""

    def find_package_modules(self, package, package_dir):
        found = super().find_package_modules(package, package_dir)
        return [module for module in found if self.editable_mode or module[1] not in FOR_DEVELOPERS]

    def run(self):
        super().run()
        if self.editable_mode:  # which finds docs/ beside the package
            return
        package = Path(self.build_lib) / "funcad"
        (package / "manual.bz2").write_bytes(packed_manual(ROOT / "docs"))
        for module in package.rglob("*.py"):
            module.write_text(for_users(module.read_text(encoding="utf-8"), module.relative_to(package)), encoding="utf-8")


if __name__ == "__main__":
    name = os.environ.get("FUNCAD_DISTRIBUTION")
    setup(cmdclass={"build_py": BuildWithManual}, **({"name": name} if name else {}))
