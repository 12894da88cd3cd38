"""Programs as users write them compile, and give at each call what plain Python gives."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from funcad import NotCompiledWarning, jit
from tests.reads.test_found_probes import same
from tests.reads.users_programs import PROGRAMS

X = np.array([0.5, 1.5, 2.5])
CALLS = 5
UNCOMPILED: dict[str, str] = {}  # program: why its calls run un-jitted


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_compiles_and_agrees(name: str) -> None:
    plain, change = PROGRAMS[name](lambda f, **options: f)
    wanted = []
    for i in range(CALLS):
        wanted.append(plain(X))
        if i + 1 < CALLS:
            change(i)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        jitted, change = PROGRAMS[name](jit)
        for i in range(CALLS):
            same(jitted(X), wanted[i])
            if i + 1 < CALLS:
                change(i)
    reasons = [str(w.message) for w in said if issubclass(w.category, NotCompiledWarning)]
    assert len(reasons) == (name in UNCOMPILED), reasons
    assert all([UNCOMPILED[name] in reason for reason in reasons])
