"""What people type finds the page that answers it among the first three: 60 queries."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from funcad.commands import manual
from tests.test_manual import load

QUERIES = {
    "recompile": "jit", "jit recompiles every call": "jit", "why is it traced again": "jit", "static argument": "jit",
    "if statement": "control_flow", "while loop": "control_flow", "for loop": "control_flow",
    "ConcretizationTypeError": "control_flow", "TracerBoolConversionError": "control_flow", "scan": "control_flow",
    "training loop": "training", "learning rate": "training", "learning rate schedule": "training", "minibatch": "training",
    "adam": "training", "optimizer": "training", "gradient clipping": "training",
    "epoch": "training", "weight decay": "training",
    "class": "classes", "method": "classes", "self": "classes", "property": "classes", "dataclass": "classes",
    "batch": "vmap", "in_axes": "vmap", "vectorize": "vmap", "per-example gradients": "vmap",
    "nan": "debugging", "print inside jit": "debugging", "breakpoint": "debugging",
    "zero gradient": "doctor", "gradient is zero": "doctor", "GPU": "cupy", "CUDA": "cupy",
    "cite": "platforms", "conda": "platforms", "Windows": "platforms", "pip install": "platforms", "license": "platforms",
    "benchmark": "speed", "faster than JAX": "speed", "when to use jit": "choosing", "profile": "performance",
    "out of memory": "performance", "assignment destination is read-only": "writes", "in-place": "writes",
    "random seed": "random", "dropout": "random", "custom gradient": "custom_rules", "forward mode": "modes",
    "integer input": "sharp_bits", "fixed point": "implicit", "odeint": "solvers", "sparse jacobian": "sparse",
    "maximum likelihood": "statistics", "eigenvalues": "linear_algebra", "third derivative": "taylor", "mpi": "processes",
    "pandas": "other_libraries", "backward": "from_pytorch", "requires_grad": "from_pytorch",
    "elementwise_grad": "from_autograd",
    "getting started": "start", "nested dict": "pytrees", "which library": "comparison", "alternatives": "comparison",
}  # fmt: skip


@pytest.fixture(scope="module")
def pages() -> list[manual.Page]:
    return manual.pages()


@pytest.fixture(scope="module")
def found(pages: list[manual.Page]) -> dict[str, list[str]]:
    """The pages of each query, in order."""
    return {query: [page.name for page in manual.find(query, pages)] for query in QUERIES}


def test_there_are_sixty_queries() -> None:
    assert len(QUERIES) >= 60


def test_the_page_is_among_the_first_three(found: dict[str, list[str]]) -> None:
    missed = {query: found[query][:3] for query, page in QUERIES.items() if page not in found[query][:3]}
    assert not missed


def test_the_search_page_finds_the_same(tmp_path: Path, pages: list[manual.Page], found: dict[str, list[str]]) -> None:
    """docs/_static/find.js, which puts the pages before Sphinx's results, has the arithmetic of `manual.find`."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node")
    index, program = tmp_path / "find_index.js", tmp_path / "queries.js"
    index.write_text(load("reference").find_index(pages), encoding="utf-8")
    queries = [*QUERIES, "constructor", "gradiend", "hvp", "TracerBoolConversionError in while", ""]
    results = [["jit", "jit", "", None, 5, "jit.md"], ["api/funcad", "funcad.hvp", "#funcad.hvp", "", 26, "", "object"]]
    program.write_text(
        "const vm = require('vm'), fs = require('fs');\n"
        "const docs = JSON.parse(process.argv[4]), results = JSON.parse(process.argv[5]);\n"
        "globalThis.Search = { _index: { docnames: docs, filenames: docs }, _performSearch: () => results };\n"
        "process.argv.slice(2, 4).forEach((f) => vm.runInThisContext(fs.readFileSync(f, 'utf8')));\n"
        "const shown = (q) => Search._performSearch(q).reverse().map((r) => r[0]);\n"
        "console.log(JSON.stringify(JSON.parse(process.argv[6]).map((q) => [shown(q), vm.runInThisContext('Find').rank(q)"
        ".map((p) => p.name)])));\n"
    )
    script = Path(__file__).parents[2] / "docs" / "_static" / "find.js"
    arguments = [json.dumps(value) for value in ([page.name for page in pages], results, queries)]
    done = subprocess.run([node, program, index, script, *arguments], capture_output=True, text=True, check=True)
    for query, (shown, ranked) in zip(queries, json.loads(done.stdout)):
        assert ranked == (found[query] if query in found else [page.name for page in manual.find(query, pages)]), query
        second = [page for page in shown if page != "api/funcad"] if query != "hvp" else [shown[0], *shown[2:]]
        assert second[: len(ranked[:3])] == ranked[:3], query
        assert shown.index("api/funcad") == (1 if query == "hvp" else len(ranked[:3])), "a name typed in full comes second"
        assert shown.count("jit") == 1, "Sphinx's result for a page that is there already is left out"


def test_pages_that_are_not_named_stay_out(pages: list[manual.Page], found: dict[str, list[str]]) -> None:
    """A page with every keyword would be found by everything."""
    first = {query: names[:3] for query, names in found.items()}
    for page in pages:
        assert len(page.keywords) < 320, page.name
        assert sum([page.name in first[query] for query, name in QUERIES.items() if name != page.name]) <= 10, page.name
