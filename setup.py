"""What setup.cfg cannot say: the manual's pages go into the package, as one file; and the distribution's name may be chosen.

`FUNCAD_DISTRIBUTION=my-name python -m build` builds the same package, which is imported as `funcad`, under another name.
"""

import bz2
import os
import re
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


FOR_DEVELOPERS = ["writing"]  # funcad/unjitted/writing.py, which writes files of the package anew


class BuildWithManual(build_py):
    """The package, and in it the sources of docs/ (funcad/commands/manual.py reads them)."""

    def find_package_modules(self, package, package_dir):
        found = super().find_package_modules(package, package_dir)
        return [module for module in found if self.editable_mode or module[1] not in FOR_DEVELOPERS]

    def run(self):
        super().run()
        if self.editable_mode:  # which finds docs/ beside the package
            return
        (Path(self.build_lib) / "funcad" / "manual.bz2").write_bytes(packed_manual(ROOT / "docs"))


if __name__ == "__main__":
    name = os.environ.get("FUNCAD_DISTRIBUTION")
    setup(cmdclass={"build_py": BuildWithManual}, **({"name": name} if name else {}))
