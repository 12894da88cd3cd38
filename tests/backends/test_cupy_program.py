"""Programs on a device's arrays, written out as lines of CuPy's, on a stand-in (tests/standin.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from funcad import jit, vjp
from tests.agreement import assert_close
from tests.specs import OpSpec, all_specs
from tests.standin import registered, to_device, to_host

SPECS = [s for s in all_specs() if "cupy" in s.backends]


@pytest.fixture(autouse=True)
def device() -> Iterator[Any]:
    with registered() as xp:
        yield xp


def assert_same(found: Any, expected: Any, what: str) -> None:
    """On the device, of that dtype, and near what the operations give one by one."""
    a, b = np.asarray(to_host(found)), np.asarray(expected)
    assert type(found) is type(to_device(np.ones(1))), f"{what}: a result is {type(found)}"
    assert a.dtype == b.dtype, f"{what}: {a.dtype}, not {b.dtype}"
    assert_close(a, b, rtol=1e-10 if b.dtype.char not in "efF" else 1e-4, what=what)


def arrays_of(op: OpSpec) -> Iterator[tuple[tuple, list]]:
    for args in op.samples():
        if any([isinstance(x, np.ndarray) for x in args]):
            yield args, [to_device(x) for x in args]


@pytest.mark.parametrize("op", [pytest.param(s, id=s.id) for s in SPECS])
def test_every_operation_and_its_derivative(op: OpSpec) -> None:
    for args, there in arrays_of(op):
        positions = op.variables(args)
        f, given = op.of_variables(there, positions), [there[i] for i in positions]
        before = [to_host(x) for x in given]
        with np.errstate(all="ignore"):
            expected = [to_host(x) for x in op.call(*there)]
        g = jit(f)
        for _ in range(3):
            for a, b in zip(g(*given), expected, strict=True):
                assert_same(a, b, op.id)
        positions = op.differentiable(args)
        if op.order and positions and any([b.dtype.kind in "fc" for b in map(np.asarray, expected)]):
            chosen = [there[i] for i in positions]

            def pulled(*chosen: Any, there: Any = there, positions: Any = positions) -> list[Any]:
                full = list(there)

                def inexact(*xs: Any) -> list[Any]:
                    for i, x in zip(positions, xs):
                        full[i] = x
                    return [o for o in op.call(*full) if o.dtype.kind in "fc"]

                out, pull = vjp(inexact, *chosen)
                return list(pull(list(out)))

            expected = [to_host(x) for x in pulled(*chosen)]
            h = jit(pulled)
            for _ in range(2):
                for a, b in zip(h(*chosen), expected, strict=True):
                    assert_same(a, b, f"gradient of {op.id}")
        for x, y in zip(given, before):
            np.testing.assert_array_equal(to_host(x), y, err_msg=f"{op.id} wrote an argument")
