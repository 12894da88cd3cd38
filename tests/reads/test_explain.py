"""explain() lists what a function reads beside its arguments and stores there, with what is done at each call, and the line."""

from __future__ import annotations

from typing import Any

import numpy as np

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
