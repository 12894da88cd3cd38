"""The README's Python blocks print what they say they print, and its two commands are where .ci/run finds them."""

import contextlib
import io
import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block-{i}" for i in range(len(BLOCKS))])
def test_block_prints_what_it_says(block):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    expected = [line[3:] for line in block.splitlines() if line.startswith("#> ")]
    assert printed.getvalue().splitlines() == expected


def test_there_are_examples_of_the_four_transformations():
    assert all(any(f"{name}(" in block or f"@{name}" in block for block in BLOCKS) for name in ("grad", "hvp", "vmap", "jit"))


@pytest.mark.parametrize("name", ["tour", "test"])
def test_command_is_one_line_below_its_marker(name):
    found = re.findall(rf"^<!-- ci:{name} -->\n\n*```bash\n([^\n]*)\n```$", README, re.MULTILINE)
    assert len(found) == 1 and found[0].startswith("python3 -m venv .venv && ")


# -- the name on the public package index is somebody else's: what is missing is named itself, or comes from the checkout

COMMANDS = re.compile(r"\b(?:install|add|download|requires?)\b[^\n&|;]*?(?<![\w/.'\"-])['\"]?\bfuncad\b(?![\w/.-])")
EXTRAS = re.compile(r"\bfuncad\[\w")
TEXT = {".py", ".md", ".ipynb", ".cfg", ".toml", ".txt", ".yml", ".yaml", ".sh", ".in", ""}


def sends_to_the_index(text: str) -> list[str]:
    """The lines that install funcad by its name, or one of its extras."""
    commands = [line for line in text.splitlines() if re.search(r"\b(pip3?|pipx|uv|conda|mamba|poetry|pdm)\b", line)]
    return [line for line in commands if COMMANDS.search(line)] + [line for line in text.splitlines() if EXTRAS.search(line)]


def test_nothing_sends_people_to_a_strangers_package():
    root = Path(__file__).parents[1]
    hidden = lambda path: any(part.startswith(".") for part in path.relative_to(root).parts[:-1])
    found = []
    for path in sorted(root.rglob("*")):
        skip = hidden(path) or "__pycache__" in path.parts or path == Path(__file__)
        if not skip and path.suffix in TEXT and path.is_file() and path.name != ".git":
            text = path.read_text(encoding="utf-8", errors="replace")
            found += [f"{path.relative_to(root)}: {line.strip()}" for line in sends_to_the_index(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "pip install funcad",
        "pip install 'funcad[cuda12]'",
        "run `uv pip install -U funcad`",
        "pip install numpy funcad>=0.1",
        "uv add funcad",
        "    funcad[fast]",
    ],
)
def test_lines_that_would_are_seen(line):
    assert sends_to_the_index(line)


@pytest.mark.parametrize("line", ["pip install -e .", "pip install -e '.[fast]' && python -m funcad", "pip install ./funcad"])
def test_lines_that_name_the_checkout_are_not(line):
    assert not sends_to_the_index(line)
