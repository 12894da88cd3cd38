"""The one parameter of loops: an immutable value, compared by content, printed part by part, found by all who look inside."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad.control.loop_rules import loop_p
from funcad.ir.aval import Aval, StackAval
from funcad.ir.jaxpr import Jaxpr, subjaxprs
from funcad.ir.trace import trace_function
from funcad.passes.pipeline import copy_aliased_outputs
from funcad.passes.redundancy import cse
from funcad.passes.subprograms import with_programs
from funcad.primitives.arithmetic import add
from funcad.primitives.loop import Loop

XS = np.arange(3.0)


def scanned(c: Any, xs: Any) -> Any:
    return fc.scan(lambda c, x: (c + x, c), c, xs)


def while_below(x: Any, limit: Any) -> Any:
    return fc.while_loop(lambda v: v < limit, lambda v: v * 2.0, x)


def loop_in(f: Any, *args: Any) -> Any:
    (equation,) = [e for e in fc.make_jaxpr(f)(*args).jaxpr.equations if "loop" in e.params]
    return equation.params["loop"]


def test_loops_are_equal_if_their_parts_are():
    loop = loop_in(scanned, 0.5, XS)
    assert type(loop) is Loop and loop == Loop(*loop) and hash(loop) == hash(Loop(*loop))
    assert loop != loop._replace(reverse=True) and loop != loop._replace(length=4)
    assert loop != loop._replace(body=Jaxpr(loop.body.inputs, loop.body.equations, loop.body.outputs))
    with pytest.raises(AttributeError):
        loop.length = 4


def test_parts_of_a_loop():
    loop = loop_in(lambda w: fc.scan(lambda c, x: (c * w, (x, c)), 1.0, XS), 2.0)
    assert (loop.n_consts, loop.n_carry, loop.n_ys, loop.length) == (1, 1, 2, 3)
    assert loop.split("abc") == [["a"], ["b"], ["c"]] and loop.carried("abc") == "b"
    assert loop.counted("abc") == ("", "abc") and loop._replace(length=None).counted("nabc") == ("n", "abc")
    other = loop._replace(reverse=True).with_body(loop.body, 2, 0)
    assert other == Loop(loop.body, 2, 0, 3, True, 1)


def test_parts_of_a_while_loop():
    loop = loop_in(while_below, 1.0, 10.0)
    assert loop.cond is not None and loop.length is None and (loop.n_carry, loop.n_ys) == (1, 0)
    assert loop.parts("abc") == [["a"], [], ["b"], ["c"]]
    assert loop.over("abc", "nd") == (Loop(loop.body, loop.n_consts, 1, None, False, 1), "n")


@pytest.mark.parametrize("f, args", [(scanned, (0.5, XS)), (while_below, (1.0, 10.0))])
def test_whoever_looks_for_programs_looks_into_loops(f, args):
    loop = loop_in(f, *args)
    programs = [p for p in loop if isinstance(p, Jaxpr)]
    assert list(subjaxprs({"loop": loop})) == programs and len(programs) in (1, 2)
    assert with_programs(loop, lambda p: p) is loop
    other = with_programs(loop, lambda p: Jaxpr(p.inputs, p.equations, p.outputs))
    assert type(other) is type(loop) and other != loop and not set(subjaxprs({"loop": other})).intersection(programs)


def test_loops_read_well():
    text = str(fc.make_jaxpr(lambda c: fc.scan(lambda c, x: (c + x, c), c, XS, unroll=2))(0.5).jaxpr)
    assert "= scan[n_consts=0 n_carry=1 length=3 reverse=False unroll=2] " in text
    assert "\n      body:\n        { lambda " in text
    text = str(fc.make_jaxpr(while_below)(1.0, 10.0).jaxpr)
    assert "= while_loop[n_consts=0 n_carry=1 reverse=False unroll=1] " in text
    assert "\n      cond:\n" in text and "\n      body:\n" in text


def test_programs_with_loops_are_pickled():
    f = pickle.loads(pickle.dumps(fc.jit(scanned)))
    np.testing.assert_array_equal(f(0.5, XS)[1], [0.5, 0.5, 1.5])


def test_equal_loops_are_one_and_others_are_not():
    def f(c, xs):
        return scanned(c, xs), scanned(c, xs), fc.scan(lambda c, x: (c + x, c), c, xs, reverse=True)

    merged = cse(fc.make_jaxpr(f)(0.5, XS).jaxpr)
    assert [e.params["loop"].reverse for e in merged.equations if "loop" in e.params] == [False, True]


def test_what_a_loop_over_stacks_hands_through_is_the_operand_behind_its_count():
    vector, item = Aval((2,), np.dtype(float)), Aval((), np.dtype(float))
    body, _ = trace_function(lambda c, x: [c], [vector, item], name="test")

    def program(x, n, items):
        return [*loop_p(add(n, 1), x, items, loop=Loop(body, 0, 1)), *loop_p(n, add(x, x), items, loop=Loop(body, 0, 1))]

    jaxpr, _ = trace_function(program, [vector, Aval((), np.dtype(int)), StackAval(item)], name="test")
    outs = Jaxpr(jaxpr.inputs, jaxpr.equations, jaxpr.inputs[:1] * 2)
    copied = [a is not b for a, b in zip(copy_aliased_outputs(jaxpr, outs).outputs, outs.outputs)]
    assert copied == [False, True]  # the first was the argument already, the second an array of its own
