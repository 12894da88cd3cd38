"""The notebooks run from top to bottom (slow; .ci/run runs each), and what is stored in them is tidy."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SLOW = [pytest.mark.slow]
IDS = [path.name for path in NOTEBOOKS]


def read(path):
    nbformat = pytest.importorskip("nbformat", reason="notebooks need nbformat: pip install nbformat")
    return nbformat.read(path, as_version=4)


def test_there_is_a_quickstart():
    assert "01_quickstart.ipynb" in IDS


@pytest.mark.parametrize("path", [pytest.param(p, id=p.name, marks=SLOW) for p in NOTEBOOKS])
@pytest.mark.filterwarnings("default")  # of Jupyter's own machinery; the kernel below turns the notebook's own into errors
def test_runs(path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="running a notebook needs nbclient: pip install nbclient")
    for module in ("ipykernel", "matplotlib", "sklearn"):
        pytest.importorskip(module, reason=f"the notebooks need {module}: pip install -e '.[notebooks]'")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]))
    notebook = read(path)
    setup = "import warnings; warnings.filterwarnings('error', module='__main__|funcad')"
    notebook.cells[0:0] = [type(notebook.cells[0])(cell_type="code", source=setup, metadata={}, outputs=[], id="setup")]
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()  # raises at the first cell that fails


@pytest.mark.parametrize("path", NOTEBOOKS, ids=IDS)
def test_outputs_are_kept(path):
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=IDS)
def test_stored_text_names_no_place_on_a_machine(path):
    for cell in read(path).cells:
        texts = [cell.source]
        for output in cell.get("outputs", []):
            texts += [output.get("text", ""), *[v for k, v in output.get("data", {}).items() if k.startswith("text/")]]
        for text in texts:
            assert not re.search(r"(?<![\w.~])/(tmp|home|root|usr|var|opt|work|Users|mnt)/|[A-Z]:\\", text), text
