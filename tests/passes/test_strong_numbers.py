"""Loops over Python's floats are rolled: they become NumPy's where that changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

import funcad as fc
from funcad.ir.interpret import eval_jaxpr
from funcad.passes.roll import roll
from funcad.passes.strong_numbers import strong_numbers


def steps(x, y):
    for i in range(150):
        x = x * 0.99 + i / (y * y + 1.0)
        y = abs(y - 0.1) if i % 2 else y + 0.01 * x
    return x, y


def traced(f, *args):
    return fc.make_jaxpr(f)(*args).jaxpr


def bits(values):
    return [(type(v), np.asarray(v).tobytes()) for v in values]


@pytest.mark.parametrize("args", [(1.0, 2.0), (np.nan, -0.0), (np.inf, 0.1), (0.0, 0.0)])
def test_not_a_bit_changes_and_types_stay(args):
    program = traced(steps, 1.0, 2.0)
    strong = strong_numbers(program)
    assert strong is not program and strong.out_avals == program.out_avals and strong.in_avals == program.in_avals
    assert bits(eval_jaxpr(strong, list(args))) == bits(eval_jaxpr(program, list(args)))


def test_what_it_makes_is_rolled():
    def f(x):
        for i in range(400):
            x = x * 0.99 + i
        return x

    program = traced(f, 1.0)
    assert len(roll(program).equations) == 800 and len(roll(strong_numbers(program)).equations) < 20
    assert fc.jit(f)(2.0) == pytest.approx(f(2.0)) and type(fc.jit(f)(2.0)) is float


def test_a_number_that_has_met_a_narrow_array_was_converted_before():
    def f(x, a):
        for i in range(150):
            x = x * 0.99 + i
        return x * a

    program = traced(f, 1.0, np.ones(3, np.float32))
    args = [1.5, np.ones(3, np.float32)]
    assert bits(eval_jaxpr(strong_numbers(program), args)) == bits(eval_jaxpr(program, args))
    found = fc.jit(f)(1.0, np.ones(3, np.float32))
    assert found.dtype == np.float32


def test_pythons_ints_and_short_programs_stay():
    def f(n):
        for _ in range(300):
            n = n * 3 % 1000003
        return n

    program, short = traced(f, 2), traced(lambda x: x * 2.0 + 1.0, 1.0)
    assert strong_numbers(program) is program and strong_numbers(short) is short
    assert fc.jit(f)(2) == f(2)
