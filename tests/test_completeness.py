"""The page that says what works on what is the output of its script."""

from __future__ import annotations

import pytest

from tests.completeness import PAGE, WRONG, page


@pytest.mark.slow
def test_the_page_is_current() -> None:
    text = page()
    assert f"| {WRONG} |" not in text, "a cell is wrong: see the standard error output"
    assert PAGE.read_text(encoding="utf-8") == text, "run python -m tests.completeness"
