"""Dead code and forwarding through sub-programs: loops, branches, checkpoints; what must stay stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import checkpoint, cond, grad, jit, scan, while_loop
from funcad.backends.interpreter import Program
from funcad.diagnosis.recording import check_jaxpr
from funcad.ir.jaxpr import Equation, Jaxpr, subjaxprs
from funcad.passes.algebra import fold
from funcad.passes.pipeline import optimize
from funcad.passes.redundancy import cse, dce, forward, inline
from funcad.show.pretty import shown_as
from tests.agreement import same_bits

X = np.array([1.5, -0.25, 0.75])


def program(f: Callable[..., Any], *args: Any) -> tuple[Jaxpr, list[Any]]:
    """The program of f, and the values of its inputs."""
    closed = funcad.make_jaxpr(f)(*args)
    return closed.jaxpr, [*closed.consts, *funcad.tree.leaves(args)]


def checked(f: Callable[[Jaxpr], Jaxpr], jaxpr: Jaxpr, values: list[Any]) -> Jaxpr:
    found = f(jaxpr)
    check_jaxpr(found)
    assert found.inputs == jaxpr.inputs and list(map(str, found.out_avals)) == list(map(str, jaxpr.out_avals))
    for a, b in zip(Program(found).run(list(values)), Program(jaxpr).run(list(values))):
        assert same_bits(a, b)
    return found


def only(jaxpr: Jaxpr, name: str) -> Equation:
    (found,) = [e for e in jaxpr.equations if shown_as(e) == name]
    return found


def names(jaxpr: Jaxpr) -> Counter:
    return Counter(map(shown_as, jaxpr.equations))


def everywhere(jaxpr: Jaxpr) -> Counter:
    """The names of all primitives, sub-programs included."""
    found = names(jaxpr)
    for e in jaxpr.equations:
        for inner in subjaxprs(e.params):
            found += everywhere(inner)
    return found


# ---------------------------------------------------------------- dead code


def test_a_carry_that_only_feeds_itself_is_removed():
    def loop(x):
        def body(c, v):
            total, dead, feeds_dead, chain = c
            return (total + v, dead * feeds_dead, np.sin(feeds_dead), total), (np.cos(dead), chain * 2.0)

        (total, *_), (_, chain) = scan(body, (0.0, 1.0, 2.0, 3.0), x)
        return total, chain

    equation = only(checked(dce, *program(loop, X)), "scan")
    assert equation.params["loop"].n_carry == 2 and len(equation.outputs) == 3
    assert names(equation.params["loop"].body) == {"add": 1, "mul": 1}


def test_chains_of_carries_are_followed_around_the_loop():
    def loop(x):
        def body(c, v):
            return (v, *[y + 1.0 for y in c[:-1]]), v  # each carry is read by the next

        return scan(body, tuple(np.zeros(40)), x)[0][20]

    jaxpr, values = program(loop, X)
    found = checked(dce, jaxpr, values)
    equation = only(found, "scan")
    assert equation.params["loop"].n_carry == 21 and names(equation.params["loop"].body) == {"add": 20}


def test_residuals_that_the_backward_loop_does_not_read_disappear_from_the_forward_loop():
    def loss(x, w):
        body = lambda c, v: (np.tanh(c * w) + np.sin(v), np.exp(c * v))
        c, ys = scan(body, 0.5, x)
        return c * 3.0 + 0.0 * np.sum(x)

    jaxpr, values = program(lambda x, w: grad(loss, argnums=1)(x, w), X, 0.7)
    found = checked(lambda j: dce(cse(fold(dce(inline(j))))), jaxpr, values)
    forward_loop, backward_loop = [e for e in found.equations if shown_as(e) == "scan"]
    assert "exp" not in everywhere(found) and "exp" in everywhere(jaxpr)
    assert "cos" not in everywhere(found)  # x is not differentiated
    stacked = forward_loop.outputs[forward_loop.params["loop"].n_carry :]
    assert set(stacked) <= set(backward_loop.inputs) and len(stacked) <= 2


def test_while_loops():
    def loop(n, x):
        def body(c):
            i, y, dead, limit = c
            return i + 1, y * 1.5, dead + y, limit * 1.0

        return while_loop(lambda c: (c[0] < n) & (c[3] > 0.0), body, (0, x, x, 4.0))[1]

    found = checked(dce, *program(loop, 3, X))
    equation = only(found, "while_loop")
    assert len(equation.outputs) == 4 and len(equation.params["loop"].body.outputs) == 3
    assert names(equation.params["loop"].body) == {"add": 1, "mul": 2}
    assert checked(dce, *program(lambda n, x: [loop(n, x), x][1], 3, X)).equations == ()


def test_branches_lose_outputs_and_operands_together():
    def f(p, x, y):
        return cond(p, lambda: (np.sin(x), np.exp(y)), lambda: (x, np.cos(y)))[0]

    equation = only(checked(dce, *program(f, True, X, X)), "cond")
    assert len(equation.inputs) == 2 and len(equation.outputs) == 1
    assert [names(b) for b in equation.params["branches"]] == [{}, {"sin": 1}]


def test_checkpoints_lose_outputs_and_operands():
    found = checked(dce, *program(lambda x, y: funcad.jit(checkpoint(lambda a, b: (np.sin(a), np.cos(b))))(x, y)[0], X, X))
    (inner,) = found.equations
    assert everywhere(found) == {"call": 1, "checkpoint": 1, "sin": 1} and len(inner.inputs) == 1


def test_nested_loops():
    def f(x):
        def outer(c, v):
            (a, b), ys = scan(lambda d, w: ((d[0] * w, d[1] + np.sin(w)), (d[0], np.cos(d[1]))), c, x * v)
            return (a, b), (a * 2.0, ys[0], np.exp(b))

        (a, _), ys = scan(outer, (1.0, 2.0), x)
        return a, ys[0]

    jaxpr, values = program(f, X)
    found = checked(dce, jaxpr, values)
    assert not {"sin", "cos", "exp"} & set(everywhere(found))


def test_effects_stay_and_keep_what_they_need():
    seen: list[float] = []
    note = lambda v: funcad.debug.callback(lambda a: seen.append(float(a)), v)

    def f(x):
        def body(c, v):
            note(c[0])
            return (c[0] + 1.0, c[1] + np.sin(v)), None

        scan(body, (0.0, 0.0), x)
        cond(x[0] > 0.0, lambda: note(x[1] * 2.0), lambda: None)
        while_loop(lambda i: i < 2, lambda i: (note(i * 10.0), i + 1)[1], 0)
        checkpoint(lambda v: (note(v), v)[1])(x[2])
        return x

    jaxpr, values = program(f, X)
    for run in (dce, forward, cse, fold, inline, optimize):
        found = run(jaxpr)
        check_jaxpr(found)
        seen.clear()
        Program(found).run(list(values))
        assert seen == [0.0, 1.0, 2.0, -0.5, 0.0, 10.0, 0.75], run.__name__
    assert "sin" not in everywhere(optimize(jaxpr))


def test_a_pure_callback_that_nobody_reads_is_removed():
    f = lambda x: (funcad.pure_callback(np.sin, x, x), x * 2.0)[1]
    assert names(optimize(program(f, X)[0])) == {"mul": 1}


# ---------------------------------------------------------------- forwarding


def test_carries_that_never_change_and_literals_become_part_of_the_body():
    def loop(x, w):
        body = lambda c, v: ((c[0] * c[1] + v, c[1], c[2]), (c[2], v, w, c[0], c[0]))
        return scan(body, (1.0, 2.0, w), x)

    jaxpr, values = program(loop, X, 0.5)
    found = checked(forward, jaxpr, values)
    equation = only(found, "scan")
    body = equation.params["loop"].body
    assert equation.params["loop"].n_carry == 1 and len(equation.outputs) == 2
    assert body.equations[0].inputs[1].value == 2.0
    (_, c1, c2), (y0, y1, y2, y3, y4) = funcad.make_jaxpr(loop, return_shape=True)(*values)[1]
    assert found.outputs[1].value == 2.0 and found.outputs[2] is found.inputs[1]
    assert found.outputs[4] is found.inputs[0] and found.outputs[6] is found.outputs[7]


def test_operands_given_twice_are_given_once():
    def loop(x):
        return scan(lambda c, v: (c + v[0] * v[1], v[0] * v[1]), 0.0, (x, x))

    found = checked(optimize, *program(loop, X))
    equation = only(found, "scan") if "scan" in names(found) else None
    assert equation is None or len(equation.inputs) == 2


def test_rows_of_a_broadcast_value_are_that_value():
    def loop(x):
        ones = np.broadcast_to(x[0] * 1.5, (3,))
        return scan(lambda c, v: (c * v[0] + v[1], c), 0.0, (ones, x))

    found = checked(forward, *program(loop, X))
    assert only(found, "scan").params["loop"].n_consts == 1


def test_loops_of_unknown_length_keep_their_stacks():
    def f(n, x):
        body = lambda c: (c[0] + 1, np.sin(c[1] * c[2]) * c[2], c[2])
        return while_loop(lambda c: c[0] < n, body, (0, x, x * 2.0))[1]

    jaxpr, values = program(lambda n, x: grad(lambda v: np.sum(f(n, v)))(x), 4, X)
    found = checked(lambda j: dce(cse(forward(fold(dce(inline(j)))))), jaxpr, values)
    assert names(found)["while_loop"] == 1 and names(found)["scan"] == 1
    for n in (0, 1, 7):
        (a,), (b,) = [Program(j).run([*values[:-2], n, X]) for j in (found, jaxpr)]
        assert same_bits(a, b)


def test_branches_that_share_variables_at_different_places():
    """Derived branches of one function share variables; literals and repeated operands are forwarded into each by itself."""
    f = lambda x, w: np.sin(x * w) * w

    def g(i, x, w):
        return funcad.switch(i, [f, f, lambda x, w: x * w], x, w)

    for i in range(3):
        jaxpr, values = program(jit(lambda i, x: funcad.value_and_grad(lambda v: np.sum(g(i, v, v)))(x)), i, X)
        checked(optimize, jaxpr, values)
        jaxpr, values = program(jit(lambda i, x: funcad.value_and_grad(lambda v: np.sum(g(i, v, 2.0)))(x)), i, X)
        checked(optimize, jaxpr, values)


@pytest.mark.parametrize("length", [0, 1, 2])
def test_loops_without_steps(length):
    def loop(x, w):
        return scan(lambda c, v: ((c[0] * w, c[1], 7.0), (w, v, 3.0, c[1])), (1.0, w, 2.0), x)

    for run in (dce, forward, optimize):
        checked(run, *program(loop, np.ones((length, 2)), np.array([0.5, 2.0]).sum()))


def test_calls_inside_bodies_are_spliced():
    step = jit(lambda c, v: (jit(np.sin)(c) * v, c))
    f = lambda x: cond(x[0] > 0.0, lambda: scan(step, 0.5, x)[0], lambda: checkpoint(jit(np.sum))(x))
    jaxpr, values = program(jit(f), X)
    assert everywhere(jaxpr)["call"] == 4 and not everywhere(checked(inline, jaxpr, values))["call"]


def test_sums_leave_the_backward_loop_as_one_product():
    def loss(w, x):
        return np.sum(scan(lambda h, v: (np.tanh(h @ w + v), None), x[0], x)[0])

    w, x = np.eye(7) * 0.5, np.arange(28.0).reshape(4, 7) / 7.0
    closed = funcad.make_jaxpr(grad(loss))(w, x)
    found = optimize(closed.jaxpr)
    check_jaxpr(found)
    values = [*closed.consts, w, x]
    np.testing.assert_allclose(Program(found).run(list(values))[0], Program(closed.jaxpr).run(values)[0], rtol=1e-12)
    bodies = [e.params["loop"].body for e in found.equations if shown_as(e) == "scan"]
    assert len(bodies) == 2 and names(found)["dot_general"] == 1 and names(bodies[1])["dot_general"] == 1


def test_the_same_body_is_optimized_once():
    body = jit(lambda c, v: (np.sin(c * 1.0) + v, c))
    step = lambda c, v: body(c, v)
    jaxpr, values = program(lambda x: scan(step, scan(step, 0.5, x)[0], x)[0], X)
    bodies = [e.params["loop"].body for e in checked(optimize, jaxpr, values).equations if shown_as(e) == "scan"]
    assert len(bodies) == 2 and all("is_optimized" in b.memo for b in bodies)
