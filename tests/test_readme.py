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
