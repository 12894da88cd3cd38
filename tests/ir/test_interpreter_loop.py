"""The one loop over a program's equations: what dies when, what is left behind, and how often each operation runs."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad.host.devices import error_mode
from funcad.host.where import state
from funcad.ir.interpret import eval_jaxpr, walk
from funcad.ir.primitive import Primitive
from funcad.transforms.batch import batch_eval
from funcad.transforms.jvp import jvp_eval


def program(f: Any, *args: Any) -> Any:
    return fc.make_jaxpr(f)(*args).jaxpr


def test_values_and_what_goes_beside_them_die_after_their_last_use():
    jaxpr = program(lambda x: np.cos(np.sin(np.exp(x) * 2.0)), np.ones(3))
    alive: list[list[bool]] = []
    made: list[weakref.ref] = []
    beside: dict[Any, Any] = {}

    def step(equation, operands):
        alive.append([r() is not None for r in made])
        out = equation.primitive.impl(np, *operands)
        made.append(weakref.ref(out))
        beside[equation.outputs[0]] = equation.primitive.name
        return [out]

    args = [np.ones(3)]
    walk(jaxpr, args, step, None, beside)
    assert args == [] and alive == [[], [True], [False, True], [False, False, True]]
    assert list(beside.values()) == ["cos"]


def test_the_number_of_values_is_checked():
    jaxpr = program(lambda x, y: x + y, 1.0, 2.0)
    for run in (eval_jaxpr, lambda j, xs: jvp_eval(j, xs, [1.0]), lambda j, xs: batch_eval(j, 1, xs, [True])):
        with pytest.raises(TypeError, match="takes 2 values, got 1"):
            run(jaxpr, [np.ones(1)])


def refuse(*args, **params):
    raise ValueError("no")


failing_p = Primitive("failing", refuse, lambda x: x, jvp=refuse, batch=refuse)
RUNS = {
    "eval": eval_jaxpr,
    "jvp": lambda jaxpr, xs: jvp_eval(jaxpr, xs, xs),
    "batch": lambda jaxpr, xs: batch_eval(jaxpr, 1, xs, [True]),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_an_error_names_the_line_and_leaves_nothing_behind(run: Any):
    jaxpr = program(lambda x: failing_p(np.sin(x)), 1.0)
    before = np.geterr()
    with np.errstate(all="print"):
        jaxpr.modes = {1: error_mode()}
    with pytest.raises(ValueError, match="no") as caught:
        run(jaxpr, [np.ones(1)])
    (note,) = caught.value.__notes__
    assert "while running an operation written at" in note and "test_interpreter_loop.py" in note
    assert state.source is None and np.geterr() == before
