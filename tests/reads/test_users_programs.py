"""Programs as users write them compile, and give at each call what plain Python gives.

Those that run un-jitted are listed with the reason that they give.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from funcad import NotCompiledWarning, jit
from tests.reads import users_data, users_functions, users_stores
from tests.reads.test_found_probes import same
from tests.reads.users_programs import PROGRAMS

TABLES = (users_data, users_functions, users_stores)  # which fill it, as they are imported

X = np.array([0.5, 1.5, 2.5])
CALLS = 5
UNCOMPILED = {  # program: why its calls run un-jitted
    "popped_and_appended": "is read where nobody sees it",
    "sorted_in_place": "is read where nobody sees it",
    "objects_in_turn": "advances, and Python needs its value",
    "counted": "is read where nobody sees it",
    "deleted_from_a_list": "closure variable found, a list, is changed",
    "changed_by_a_library": "is read where nobody sees it",
    "set_that_grows": "closure variable seen, a set, is changed",
    "stores_of_what_a_library_calls": "which is called by a library, stores something",
    "ring_buffer": "self.last is written in place",
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))  # in one order, whoever imported the tables first
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
