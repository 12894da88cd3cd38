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


HIDDEN = re.compile(r"^```\{code-cell\}\n:tags: \[hide-input\]\n.*?^```\n", re.DOTALL | re.MULTILINE)  # these draw


def packed_manual(docs):
    """The sources of the pages, each below its name, without the cells that the pages hide."""
    pages = [page for page in sorted(docs.rglob("*.md")) if page.relative_to(docs).parts[0] not in ("_build", "api")]
    named = [(page.relative_to(docs).with_suffix("").as_posix(), page.read_text(encoding="utf-8")) for page in pages]
    return bz2.compress("\f".join([f"{name}\n{HIDDEN.sub('', text)}" for name, text in named]).encode())


class BuildWithManual(build_py):
    """The package, and in it the sources of docs/ (funcad/commands/manual.py reads them)."""

    def run(self):
        super().run()
        if self.editable_mode:  # which finds docs/ beside the package
            return
        (Path(self.build_lib) / "funcad" / "manual.bz2").write_bytes(packed_manual(ROOT / "docs"))


if __name__ == "__main__":
    name = os.environ.get("FUNCAD_DISTRIBUTION")
    setup(cmdclass={"build_py": BuildWithManual}, **({"name": name} if name else {}))
