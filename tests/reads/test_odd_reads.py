"""What a jitted function reads beside its arguments is what the plain one reads, in three hundred odder ways."""

from __future__ import annotations

import decimal
import gc
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from funcad import grad, jit, vmap
from funcad.errors import NotCompiledWarning
from funcad.jitted import first_calls
from tests.reads import odd_classes, odd_draws, odd_imports, odd_names, odd_opaque, odd_states, odd_tables

CASES = {**odd_names.CASES, **odd_states.CASES, **{f"table_{name}": make for name, make in odd_tables.CASES.items()}}
CASES |= {f"class_{name}": make for name, make in odd_classes.CASES.items()}
CASES |= {f"draw_{name}": make for name, make in odd_draws.CASES.items()}
CASES |= {f"opaque_{name}": make for name, make in odd_opaque.CASES.items()}
CASES |= {f"import_{name}": make for name, make in odd_imports.CASES.items()}
X = np.arange(1.0, 4.0)
Transform = Callable[[Any], Any]


def summed(f: Any) -> Any:
    return lambda x: np.sum(f(x))


WAYS: dict[str, tuple[Transform, Transform]] = {  # un-jitted, and jitted
    "jit": (lambda f: f, jit),
    "jit(grad)": (lambda f: grad(summed(f)), lambda f: jit(grad(summed(f)))),
    "grad(jit)": (lambda f: grad(summed(f)), lambda f: grad(jit(summed(f)))),
    "vmap(jit)": (vmap, lambda f: vmap(jit(f))),
}


@pytest.fixture
def settings_of_the_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder, digits, threshold, drawn = os.getcwd(), sys.get_int_max_str_digits(), gc.get_threshold(), np.random.get_state()
    names, state = dict(vars(odd_names)), random.getstate()
    with np.printoptions(), np.errstate(), decimal.localcontext(), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCompiledWarning)
        warnings.filterwarnings("ignore", message=".*does not depend on the argument")
        warnings.filterwarnings("ignore", category=PendingDeprecationWarning)  # of np.matrix
        yield
    vars(odd_names).clear()
    vars(odd_names).update(names)
    os.chdir(folder)
    sys.set_int_max_str_digits(digits)
    gc.set_threshold(*threshold)
    gc.enable()
    np.random.set_state(drawn)
    random.setstate(state)
    for name in [name for name in sys.modules if name.startswith("odd_")]:
        del sys.modules[name]


def answers(make: Callable[[], Any], way: Transform, names: dict[str, Any]) -> list[Any]:
    """Of three calls before, and after, each of four changes."""
    vars(odd_names).clear()
    vars(odd_names).update(names)
    f, change = make()
    g, found = way(f), []
    for i in range(5):
        for _ in range(3):
            try:
                found.append(np.array(g(X)))
            except Exception as error:
                found.append(type(error))
        if i < 4:
            change(i)
    return found


@pytest.mark.share(18)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_it_is_what_the_plain_function_reads(name: str, way: str, settings_of_the_process: None) -> None:
    names = dict(vars(odd_names))
    wanted, found = [answers(CASES[name], transform, names) for transform in WAYS[way]]
    for a, b in zip(wanted, found):
        if isinstance(a, type):
            assert b is a
        elif np.asarray(a).dtype == object:
            assert np.asarray(b).dtype == object and np.array_equal(b, a)
        else:
            np.testing.assert_allclose(b, a, rtol=1e-14)
