"""The page that says what works on what is the output of its script."""

from __future__ import annotations

import pytest

from tests import certified
from tests.completeness import PAGE, WRONG, made_with, page


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_some_functions_under_every_pair_of_transformations() -> None:
    for case in list(certified.cases())[::25]:
        found = certified.certificate_of(case)
        assert bool(found) == (case.name not in certified.EXPECTED), found


@pytest.mark.slow
def test_the_page_is_current() -> None:
    text = page()
    assert f"| {WRONG} |" not in text, "a cell is wrong: see the standard error output"
    current = PAGE.read_text(encoding="utf-8")
    if made_with() not in current:
        pytest.skip(f"the page was made with other versions than {made_with()}")
    assert current == text, "run python -m tests.completeness"
