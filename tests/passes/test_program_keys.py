"""Keys of parameters and programs: numbers by type and bits, programs by what they do."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import funcad as fc
from funcad.ir.jaxpr import Equation, Jaxpr, Var, params_key
from funcad.passes.subprograms import program_key
from funcad.tree.same import same_key

NAN = np.frombuffer(np.uint64(0x7FF8000000000001).tobytes())[0]  # another nan than NumPy's
DIFFERENT = [1, 1.0, True, 1j, 1 + 0j, "1", None, 0, 0.0, -0.0, False, np.nan, float(NAN)]
DIFFERENT += [np.float64(1), np.float32(1), np.int64(1), np.dtype("f4"), np.dtype("f8")]
DIFFERENT += [(1,), (1.0,), ((1,),), (True,), (0.0,), (-0.0,)]


class Point(NamedTuple):
    x: Any


class Loose(tuple):
    """A tuple with an equality of its own."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loose)

    def __hash__(self) -> int:
        return 1


def test_values_count_by_type_and_bits():
    values = [*DIFFERENT, Point(1), Point(1.0), Point(True)]
    assert len({same_key(v) for v in values}) == len(values)
    assert [same_key(v) for v in (np.nan, -0.0, (1, -0.0))] == [same_key(v) for v in (float("nan"), -0.0, (1, -0.0))]
    assert same_key(Loose([1])) == same_key(Loose([2])) and same_key((1,)) != same_key(Loose([1]))


def test_parameters_count_by_name_type_and_bits():
    plain = [v for v in DIFFERENT if not isinstance(v, np.generic)]
    assert len({params_key({"a": v}) for v in plain}) == len(plain) and params_key({"b": 1}) != params_key({"a": 1})
    assert [params_key({"a": v}) for v in (np.float64(1), np.sin, (np.sin,))] == [None, None, None]
    slow = [params_key({"a": v}, id) for v in DIFFERENT]
    assert len(set(slow)) == len(slow)
    assert params_key({"a": 1, "b": 2}, id) == params_key({"b": 2, "a": 1}, id)


@pytest.mark.parametrize("same, f, g", [
    (True, lambda x, y: np.sin(x) * y, lambda x, y: np.sin(x) * y),
    (False, lambda x, y: np.sin(x) * y, lambda x, y: y * np.sin(x)),
    (False, lambda x, y: np.sin(x) * 2.0, lambda x, y: np.sin(x) * 3.0),
    (False, lambda x, y: x * 0.0, lambda x, y: x * -0.0),
    (False, lambda x, y: x, lambda x, y: y),
    (False, lambda x, y: x[0:2], lambda x, y: x[1:3]),
])
def test_programs_are_equal_if_they_do_the_same(same: bool, f: Any, g: Any):
    keys = [program_key(fc.make_jaxpr(h)(np.ones(3), np.ones(3)).jaxpr) for h in (f, g)]
    assert (keys[0] == keys[1]) is same


def test_the_place_in_the_users_program_counts_if_asked():
    def f(x):
        return np.sin(x)

    programs = [fc.make_jaxpr(h)(1.0).jaxpr for h in (f, f, lambda x: np.sin(x))]
    assert len({program_key(jaxpr) for jaxpr in programs}) == 1
    keys = [program_key(jaxpr, sources=True) for jaxpr in programs]
    assert keys[0] == keys[1] != keys[2]


def test_avals_of_inputs_count():
    f = fc.make_jaxpr(lambda x: x + x)
    keys = [program_key(f(x).jaxpr) for x in (1.0, np.float64(1), np.float32(1), np.ones(1), np.ones(2))]
    assert len(set(keys)) == len(keys)


def test_numbers_may_be_left_out():
    found: list[Any] = []

    def literal(value: Any) -> type:
        found.append(value)
        return type(value)

    programs = [fc.make_jaxpr(lambda x, c=c: x * c)(np.ones(3)).jaxpr for c in (2.0, 3.0, np.float32(3))]
    keys = [program_key(jaxpr, literal=literal) for jaxpr in programs]
    assert keys[0] == keys[1] != keys[2] and found == [2.0, 3.0, 3.0]


def test_programs_with_other_parameters_have_no_key_without_help():
    inner = fc.make_jaxpr(lambda x: fc.scan(lambda c, y: (c + y, None), 0.0, x)[0])(np.ones(3)).jaxpr
    with pytest.raises(TypeError, match="loop"):
        program_key(inner)
    assert program_key(inner, id) == program_key(inner, id)
    (equation,) = [e for e in inner.equations if "loop" in e.params]
    outputs = (Var(equation.outputs[0].aval),)
    other = equation.params["loop"]._replace(reverse=True)
    turned = Jaxpr(inner.inputs, (Equation(equation.primitive, equation.inputs, {"loop": other}, outputs),), outputs)
    plain = Jaxpr(inner.inputs, (equation,), equation.outputs)
    assert program_key(turned, id) != program_key(plain, id)


def test_static_arguments_that_are_named_tuples_count_by_type_and_bits():
    f = fc.jit(lambda x, p: x * p.x, static_argnums=1)
    found = [f(2, Point(c)) for c in (1, 1.0, True, 0.0, -0.0, 1)]
    assert list(map(type, found)) == [int, float, int, float, float, int] and str(found) == "[2, 2.0, 2, 0.0, -0.0, 2]"
    assert f.cache_info().misses == 5
