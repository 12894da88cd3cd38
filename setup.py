"""What setup.cfg cannot say: the manual's pages go into the package as text; and the distribution's name may be chosen.

`FUNCAD_DISTRIBUTION=my-name python -m build` builds the same package, which is imported as `funcad`, under another name.
"""

import os
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent


class BuildWithManual(build_py):
    """The package, and the sources of docs/ in its folder `manual`."""

    def run(self):
        super().run()
        if self.editable_mode:  # which finds docs/ beside the package
            return
        target = Path(self.build_lib) / "funcad" / "manual"
        shutil.rmtree(target, ignore_errors=True)
        for page in sorted((ROOT / "docs").rglob("*.md")):
            inside = page.relative_to(ROOT / "docs")
            if inside.parts[0] not in ("_build", "api"):
                (target / inside).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(page, target / inside)


name = os.environ.get("FUNCAD_DISTRIBUTION")
setup(cmdclass={"build_py": BuildWithManual}, **({"name": name} if name else {}))
