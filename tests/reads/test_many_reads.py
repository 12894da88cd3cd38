"""What a jitted function reads beside its arguments is what the plain function reads, in a hundred ways and between changes."""

from __future__ import annotations

import copy
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from funcad import grad, jit
from funcad.errors import NotCompiledWarning
from funcad.jitted import first_calls
from tests.reads.many_reads import CASES, X


@pytest.fixture
def settings_of_the_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.setattr(os, "environ", copy.copy(os.environ))
    recursion, name = sys.getrecursionlimit(), threading.current_thread().name
    with np.printoptions(), np.errstate():
        yield
    sys.modules.pop("odd_mod", None)
    threading.current_thread().name = name
    sys.setrecursionlimit(recursion)


def answer(f: Callable[[Any], Any]) -> Any:
    try:
        return f(X)
    except Exception as error:
        return type(error)


@pytest.mark.share(3)
@pytest.mark.parametrize("way", ["jit", "jit(grad)"])
@pytest.mark.parametrize("name", CASES)
def test_it_is_what_the_plain_function_reads(name: str, way: str, settings_of_the_process: None) -> None:
    f, change = CASES[name]()
    plain = f if way == "jit" else grad(lambda x: np.sum(f(x)))
    jitted = jit(plain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCompiledWarning)
        warnings.filterwarnings("ignore", message=".*does not depend on the argument")
        for i in range(5):
            for _ in range(3):
                wanted, found = answer(plain), answer(jitted)
                if isinstance(wanted, type):
                    assert found is wanted
                else:
                    np.testing.assert_allclose(found, wanted, rtol=1e-14)
            change(i)
