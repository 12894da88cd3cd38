"""explain() lists what a function reads beside its arguments and stores there, with what is done at each call, and the line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from funcad import jit

RATE = 0.5


class Model:
    def __init__(self) -> None:
        self.t, self.w, self.options = 0, np.ones(3), {"mode": "sum"}

    def step(self, x: Any) -> Any:
        self.t += 1
        return np.sum(x * self.w) * RATE if self.options["mode"] == "sum" else x


def test_reads_and_stores_are_listed() -> None:
    f = jit(Model().step)
    f(np.ones(3))
    found = f.explain(np.ones(3))
    how = {one["what"]: one["how"] for one in found.outside}
    assert how["self.w"] == "read" and how["global RATE"] == "compared" and how["self.options['mode']"] == "compared"
    assert {"what": "self.t", "how": "stored", "line": ""} in found.outside
    assert all(["test_explain.py:" in one["line"] for one in found.outside if one["how"] != "stored"])
    text = str(found)
    assert "beside the arguments, at each call:" in text and "compared global RATE  test_explain.py:" in text
    assert "global RATE" in found._repr_html_()


def test_a_number_that_keeps_changing_is_read() -> None:
    model = Model()
    f = jit(lambda x: x * model.t)
    for model.t in (1, 2, 3, 4, 5):
        f(2.0)
    found = f.explain(2.0).outside
    assert [one["how"] for one in found if one["what"] == "closure variable model.t"] == ["read"]


def test_functions_with_paths_list_it_too() -> None:
    f = jit(lambda x: x * RATE if x > 0.0 else x)
    f(1.0)
    found = f.explain(1.0)
    assert {"global RATE"} == {one["what"] for one in found.outside} and "global RATE" in str(found)


def test_nothing_is_listed_of_a_function_of_its_arguments() -> None:
    found = jit(lambda x: np.sin(x) * 2.0).explain(1.0)
    assert found.outside == [] and "beside" not in str(found)


@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
@pytest.mark.parametrize("called", [0, 3])
def test_of_what_runs_un_jitted_the_reason_and_the_line_are_told(called: int) -> None:
    rates = iter([0.5, 0.25, 0.125])

    def decayed(x: Any) -> Any:
        x = x * RATE
        return x * next(rates)

    f = jit(decayed)
    for _ in range(called):
        f(1.0)
    found = f.explain(1.0)
    line = decayed.__code__.co_firstlineno + 2
    assert found.reason.startswith("closure variable rates is an iterator, which moves on, at ")
    assert f"test_explain.py:{line} (" in found.reason and "decayed)" in found.reason
    assert "global RATE" in [one["what"] for one in found.outside]
    assert "is not compiled, its calls run un-jitted: closure variable rates" in str(found) and "global RATE" in str(found)
    assert next(rates, None) == [0.5, None][called > 0], "explain draws nothing"


@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_a_reason_that_only_calls_come_to_is_told() -> None:
    rates = iter([0.5] * 9)
    f = jit(lambda x: x * next(rates) if x > 0.0 else -x)
    assert [f(1.0) for _ in range(3)] == [0.5] * 3
    assert "closure variable rates is an iterator" in f.explain(1.0).reason


def test_what_f_raises_is_raised() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append(x)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        jit(f).explain(1.0)
