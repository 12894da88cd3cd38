"""`python docs/lite.py` builds a page on which the notebooks run in the browser, by JupyterLite, with this checkout's funcad.

It needs the extra `lite` and takes seconds; the page is written to docs/_build/html/lite, beside the manual, or to the folder
that is given. The funcad in it is built from this checkout. What the page loads when it is opened, Python itself, NumPy and
SciPy for the browser, comes from Pyodide's servers: the page needs a network, its building does not. A notebook on it takes
that wheel by `%pip install` with its whole address, ADDRESS-OF-THE-PAGE/pypi/NAME-OF-THE-WHEEL, and no other package.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def build(folder: Path) -> Path:
    """Build the page; where the wheel of funcad in it is."""
    with tempfile.TemporaryDirectory() as workplace:
        wheels = Path(workplace) / "wheels"
        subprocess.run([sys.executable, "-m", "build", "--outdir", wheels, HERE.parent], check=True)  # leaves no build folder
        (wheel,) = wheels.glob("funcad-*.whl")
        command = [sys.executable, "-m", "jupyterlite_core", "build", "--contents", HERE.parent / "notebooks"]
        subprocess.run([*command, "--piplite-wheels", wheel, "--output-dir", folder], cwd=workplace, check=True)
    (found,) = folder.glob("pypi/funcad-*.whl")
    return found


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "_build" / "html" / "lite"
    print(f"built with {build(target.resolve()).name}: serve {target} by any server of files, python -m http.server say")
