"""Random programs on a device's arrays, on a stand-in: what the lines compute, what they write over, what they hand out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from funcad.backends.engines import COLD, EngineProgram
from funcad.ir.jaxpr import Jaxpr
from tests.fuzzing import Mismatch
from tests.random_programs import random_case, trace
from tests.rounding import Bound, bounds_of, disagreement, reference
from tests.standin import DeviceArray, registered, to_device, to_host

pytestmark = pytest.mark.filterwarnings("ignore")
BLOCK = 20


def number(x: Any) -> Any:
    """A result as NumPy gives it: without axes, a number."""
    x = to_host(x)
    return x[()] if isinstance(x, np.ndarray) and not x.ndim else x


def compare(found: Sequence[Any], expected: Sequence[Any], bounds: list[Bound], what: str) -> None:
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if isinstance(b, (np.ndarray, np.generic)) and type(a) is not DeviceArray:
            raise Mismatch(f"{what}, result {i} is {type(a)}")
        why = disagreement(number(a), number(b), bounds[i], True)
        if why is not None:
            raise Mismatch(f"{what}, result {i}: {why}")


def same(there: Sequence[Any], values: Sequence[Any]) -> bool:
    pairs = [(x, to_device(y)) for x, y in zip(there, values) if isinstance(y, np.ndarray)]
    return all([to_host(x).tobytes() == to_host(y).tobytes() for x, y in pairs])


def copies(values: Sequence[Any]) -> list[Any]:
    return [to_device(x) for x in values]


def check(jaxpr: Jaxpr, values: Sequence[Any], xp: Any, engine: str = "auto") -> bool:
    """Mismatch if the lines do not do what the reference does; False if there is nothing to compare."""
    if not any([isinstance(x, np.ndarray) and x.ndim for x in values]) or jaxpr.moves:
        return False
    if "stable=False" in str(jaxpr):  # ties are in an order that depends on how an array lies in memory
        return False
    try:
        expected = reference(jaxpr, values)
    except Exception:  # of any class: indices that are out of bounds wrap on a device
        return False
    bounds = bounds_of(jaxpr, values, expected)
    program = EngineProgram(jaxpr, engine)
    program.on_device(xp).runs = COLD
    there = copies(values)
    kept: list[tuple[Any, np.ndarray]] = []
    for run in range(3):
        found = program.run(there)
        compare(found, expected, bounds, f"run {run}")
        for x, before in kept:
            if x.get().tobytes() != before.tobytes():
                raise Mismatch(f"a result of an earlier run was changed by run {run}")
        mine = [x for x in found if type(x) is DeviceArray]
        if run == 1:  # the caller writes into results that are no views of arguments
            arrays = [x for x in there if type(x) is DeviceArray]
            for x in mine:
                if x._array.flags.writeable and not any([np.may_share_memory(x._array, a._array) for a in arrays]):
                    x[...] = 1
        else:
            kept += [(x, x.get()) for x in mine]
        if not same(there, values):
            raise Mismatch("an argument was changed")
    for step in (2, 1):
        there = copies(values)
        given = [x for x in there if type(x) is DeviceArray and x.ndim and x.flags.c_contiguous and x.flags.owndata][::step]
        donated = frozenset(map(id, given))
        compare(program.run(there, donated), expected, bounds, "with donated arguments")
        others = [i for i, x in enumerate(there) if id(x) not in donated]
        if not same([there[i] for i in others], [values[i] for i in others]):
            raise Mismatch("an argument that was not donated was changed")
    return True


@pytest.mark.share(4)
@pytest.mark.parametrize("first", [0, BLOCK, *[pytest.param(n, marks=pytest.mark.slow) for n in range(2 * BLOCK, 400, BLOCK)]])
def test_random_programs(first: int) -> None:
    compared = 0
    with registered() as xp:
        for seed in range(first, first + BLOCK):
            try:
                jaxpr, values = trace(random_case(seed))
            except (TypeError, ValueError, IndexError):  # a derivative that does not exist, say
                continue
            try:
                compared += check(jaxpr, values, xp)
            except Exception as error:
                error.add_note(f"seed {seed}")
                raise
    assert compared > BLOCK / 3
