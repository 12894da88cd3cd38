"""Values put into their places, box by box (backends/in_place.py), against the primitives themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from funcad.backends.emission import generate
from funcad.backends.in_place import boxes_of
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Var
from funcad.primitives.basic_indexing import basic_place_p, place_sum_p

CASES = [
    ((4,), [((0, 3, 1),), ((1, 3, 1),)]),
    ((4,), [((0, 4, 1),), ((0, 4, 1),)]),
    ((5,), [((0, 2, 1),), ((1, 3, 1),), ((1, 1, 1),)]),
    ((3, 2), [(1, (0, 2, 1)), ((0, 3, 1), (0, 2, 1))]),
    ((3, 2), [(1, 0), ((1, 2, 1), 1)]),
    ((2, 3, 2), [((0, 2, 1), 1, (0, 2, 1)), ((0, 2, 1), (1, 1, 1), (0, 2, 1))]),
    ((4,), [((0, 0, 1),), ((1, 3, 1),)]),
]


def shape_of(index: tuple) -> tuple:
    return tuple([entry[1] for entry in index if type(entry) is tuple])


def program(shape: tuple, indices: list, dtype: Any, primitive: Any) -> Jaxpr:
    indices = indices if primitive is place_sum_p else indices[:1]
    inputs = tuple([Var(Aval(shape_of(i), np.dtype(dtype))) for i in indices])
    params = {"shape": shape, **({"indices": tuple(indices)} if primitive is place_sum_p else {"index": indices[0]})}
    out = Var(Aval(shape, np.dtype(dtype)))
    return Jaxpr(inputs, (Equation(primitive, inputs, params, (out,)),), (out,))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.int32, np.bool_])
@pytest.mark.parametrize(("shape", "indices"), CASES)
def test_boxes_give_the_same_bits(shape: tuple, indices: list, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for primitive in (place_sum_p, basic_place_p):
        jaxpr = program(shape, indices, dtype, primitive)
        written = generate(jaxpr)
        assert primitive.name not in written.text
        for zeros in (-0.0, 0.0, 1.5):
            values = []
            for v in jaxpr.inputs:
                x = np.where(rng.random(v.aval.shape) < 0.6, zeros, rng.normal(size=v.aval.shape))
                values.append(np.asarray(x).astype(dtype)[()])
            (found,) = written.function(list(values))
            expected = primitive.impl(np, *values, **jaxpr.equations[0].params)
            assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()


def test_steps_and_many_boxes_are_left_to_the_primitive() -> None:
    assert boxes_of([((0, 2, 2),)], (4,)) is None
    assert boxes_of([((k, 1, 1),) for k in range(9)], (9,)) is None
    assert "basic_place_(" in generate(program((4,), [((0, 2, 2),)], np.float64, basic_place_p)).text
