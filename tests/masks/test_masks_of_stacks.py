"""Masks on the stacks of loops of unknown length (masks/masks.py): every derivative is that of the loop written out in Python.

A loop of unknown length hands what its derivative needs over on stacks, so derivatives of derivatives have cotangents and
tangents of stacks, whose masks are stacks of bools.
"""

from __future__ import annotations

import numpy as np
import pytest

from funcad import checkpoint, cond, grad, hessian, jacfwd, jacrev, jit, scan, vmap, while_loop
from funcad.control.backward_bodies import masked_branches
from funcad.ir.aval import Aval, Stack, StackAval
from funcad.ir.trace import trace_function
from funcad.masks.masks import EVERY
from funcad.primitives.loop import bools_aval, stack_select

pytestmark = pytest.mark.share(4)  # of its tables of cases

X = np.array([0.0, 2.0, 1.5])


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):  # the branches that are not taken
        yield


STEPS = {
    "log": lambda y: np.where(y > 0, np.log(y), 1 + y * y),
    "log of maximum": lambda y: np.where(y > 0.5, np.log(np.maximum(y, 0.0)), y**2 + 0.1 * y),
    "sqrt": lambda y: np.where(y > 0, np.sqrt(y), y * y + y**3),
    "y log y": lambda y: np.where(y > 0, y * np.log(y), np.sin(y)),
    "slices": lambda y: np.concatenate([np.log(y[1:]), y[1:2] * y[2:3]]),
}
TWICE = {
    "forward over reverse": lambda f: jacfwd(grad(f)),
    "reverse over reverse": lambda f: jacrev(grad(f)),
    "reverse over forward": lambda f: jacrev(jacfwd(f)),
    "jitted outside": lambda f: jit(jacrev(grad(f))),
    "jitted inside": lambda f: jacrev(grad(jit(f))),
    "batched": lambda f: lambda x: vmap(jacrev(grad(f)))(np.stack([x, x + 0.25])),
}
THRICE = {
    "reverse": lambda f: jacrev(jacrev(grad(f))),
    "forward, reverse, reverse": lambda f: jacfwd(jacrev(grad(f))),
    "reverse, forward, reverse": lambda f: jacrev(jacfwd(grad(f))),
}


def loop(step, n):
    return lambda x: while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, step(c[1])), (0, x))[1]


def written_out(step, n):
    def run(x):
        for _ in range(n):
            x = step(x)
        return x

    return run


def agree(program, transforms, x=X, finite=True):
    for name, transform in transforms.items():
        found, expected = [transform(lambda x, loop=loop: np.sum(program(loop)(x)))(x) for loop in (loop, written_out)]
        assert not finite or np.isfinite(expected).all(), name
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12, err_msg=name)


NEXT_TURN = {  # what is masked in one turn has an infinite slope in the turn before
    "slices": lambda y: np.log(np.abs(np.concatenate([y[1:], np.array([2.0])]))),
    "a constant mask": lambda y: np.where(np.array([True, True, False]), np.log(np.abs(np.roll(y, -1))), 0.7),
    "a mask of the values": lambda y: np.log(np.abs(np.roll(np.where(y > -5, y, 2.0), -1))),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("step", NEXT_TURN.values(), ids=NEXT_TURN.keys())
@pytest.mark.parametrize("n", [3, 4])
def test_masks_of_one_turn_meet_factors_of_the_turn_before(step, n):
    x = np.array([0.0, 1.5, -1.0])
    scanned = lambda step, n: lambda x: scan(lambda c, _: (step(c), np.sum(c)), x, None, length=n)[0]
    for transform in ({"reverse": grad, "jitted": lambda f: jit(grad(f))}, TWICE):
        agree(lambda loop: loop(step, n), transform, x)
        agree(lambda loop: (scanned if loop is not written_out else loop)(step, n), transform, x)


def test_known_values():
    f = lambda x: np.sum(loop(STEPS["log"], 1)(x))
    np.testing.assert_allclose(jacrev(grad(f))(X), np.diag([2.0, -1 / 4, -1 / 2.25]))
    thirds = jacrev(jacrev(grad(f)))(X)
    np.testing.assert_allclose(np.einsum("iii->i", thirds), [0.0, 2 / 8, 2 / 1.5**3])
    g = lambda x: loop(STEPS["sqrt"], 3)(x)  # at 0: x**2 + x**3 three times
    assert jacrev(grad(g))(0.0) == 0.0
    g = lambda x: loop(lambda y: np.where(y > 0, np.sqrt(y), y + y * y), 3)(x)
    np.testing.assert_allclose([grad(g)(0.0), jacrev(grad(g))(0.0)], [1.0, 6.0])


@pytest.mark.share(16)
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
@pytest.mark.parametrize("n", [0, 1, 3])
def test_masks_on_the_carry(step, n):
    agree(lambda loop: loop(step, n), TWICE)
    if n == 1:
        agree(lambda loop: loop(step, n), THRICE)


@pytest.mark.share(100)
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
def test_loops_in_loops(step):
    """The stacks of an inner loop are entries of the outer loop's, or the same for all of its iterations."""
    agree(lambda loop: loop(loop(step, 2), 2), TWICE)

    def around(loop):
        def whole(x):
            inner = loop(lambda z: np.where(z > 0.3, np.sqrt(z), z) * np.where(x > 0, np.log(x), 1 + x), 2)
            return loop(lambda y: step(y) * inner(y), 2)(x)

        return whole

    agree(around, TWICE)


@pytest.mark.share(100)
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
def test_branches(step):
    def in_a_branch(loop):
        return lambda x: cond(np.sum(x) > 0, loop(step, 2), lambda z: z * 2, x) + cond(np.sum(x) < 0, loop(step, 2), np.sin, x)

    def branch_in_the_body(loop):
        return loop(lambda y: cond(y[1] > 1, step, lambda z: z * z, y), 3)

    for program in (in_a_branch, branch_in_the_body):
        agree(program, TWICE)


@pytest.mark.slow
@pytest.mark.parametrize("around", [lambda s, loop: loop(checkpoint(s), 2), lambda s, loop: checkpoint(loop(s, 2))])
def test_checkpoints(around):
    agree(lambda loop: around(STEPS["sqrt"], loop), TWICE)


@pytest.mark.slow
@pytest.mark.share(5)
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
def test_lanes_that_stop_at_different_times(step):
    """Also lanes whose bodies are loops, and lanes that take different branches."""
    starts, counts = (lambda x: np.stack([x, x + 0.3, x * 2])), np.array([1, 3, 2])

    def lanes(make, x):
        def one(y, n):
            return np.sum(while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, make(c[1])), (0, y))[1])

        return vmap(one)(starts(x), counts)

    def branches(x):
        return vmap(lambda y, n: np.sum(cond(n > 1, loop(step, 2), STEPS["sqrt"], y)))(starts(x), counts)

    def one_by_one(step, n_inner, x):
        return [np.sum(written_out(step, n * n_inner)(y)) for y, n in zip(starts(x), counts)]

    def branches_one_by_one(x):
        return [np.sum((written_out(step, 2) if n > 1 else STEPS["sqrt"])(y)) for y, n in zip(starts(x), counts)]

    for batched, alone in (
        (lambda x: lanes(step, x), lambda x: one_by_one(step, 1, x)),
        (lambda x: lanes(loop(step, 2), x), lambda x: one_by_one(step, 2, x)),
        (branches, branches_one_by_one),
    ):
        agree(lambda loop, batched=batched, alone=alone: lambda x: sum(alone(x) if loop is written_out else batched(x)), TWICE)


HONEST = {
    "sqrt squared": lambda y: np.sqrt(y) ** 2 + y,
    "zero times log": lambda y: 0 * np.log(y) + y,
    "a factor of bools": lambda y: (y > 0) * np.log(np.abs(y)) + y,
    "selected": lambda y: np.where(y >= 0, np.sqrt(y) ** 2, 0),
    "used masked and times zero": lambda y: np.where(y > 0, np.log(np.abs(y)), 0) + 0 * np.log(np.abs(y)),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("step", HONEST.values(), ids=HONEST.keys())
def test_numbers_that_are_zero_hide_nothing(step):
    for transform in TWICE.values():
        assert np.isnan(transform(lambda x: np.sum(loop(step, 2)(x)))(X)).any()
    agree(lambda loop: loop(step, 2), TWICE, finite=False)


@pytest.mark.slow
@pytest.mark.parametrize("x", [0.0, -1.0, np.float32(0), np.zeros(0), np.float32([0, 1, 2]), np.zeros((2, 2))], ids=repr)
def test_shapes_and_dtypes(x):
    for name in ("log", "sqrt", "y log y"):
        f, g = [lambda x, loop=loop, step=STEPS[name]: np.sum(loop(step, 2)(x)) for loop in (loop, written_out)]
        for transform in TWICE.values():
            found, expected = transform(f)(x), transform(g)(x)
            np.testing.assert_allclose(found, expected, rtol=1e-4 if np.asarray(x).dtype == np.float32 else 1e-10)
            assert found.dtype == expected.dtype


def test_complex_numbers():
    z = np.array([0, 1j, 2 + 1j])
    step = lambda y: np.where(np.abs(y) > 0, np.log(y), y * y * 1j + y)

    def second(loop):
        first = grad(lambda z: np.sum(np.abs(loop(step, 2)(z)) ** 2))
        return grad(lambda v: np.sum(np.real(first(v) * (1 + 2j))))(z)

    np.testing.assert_allclose(second(loop), second(written_out))


def test_the_hessian_of_a_search_with_a_stop_of_its_own():
    """The count depends on the values, so that a recorded program cannot write it out."""
    def program(x):
        step = lambda c: (c[0] + 1, np.where(c[1] > 1.2, np.sqrt(c[1]), c[1]))
        return np.sum(while_loop(lambda c: np.max(c[1]) > 1.2, step, (0, x))[1])

    x = np.array([0.0, 2.0, 9.0])
    expected = np.diag([0.0, 2**-2 * (2**-2 - 1) * 2.0 ** (2**-2 - 2), 2**-4 * (2**-4 - 1) * 9.0 ** (2**-4 - 2)])
    for second in (jacrev(grad(program)), jit(jacrev(grad(program))), hessian(program), jacrev(jacfwd(program))):
        np.testing.assert_allclose(second(x), expected, rtol=1e-12)


def test_entries_are_selected_by_their_own_bools():
    of = StackAval(Aval((2,), np.dtype(float)))
    a, b = Stack([np.array([1.0, np.nan]), np.array([3.0, 4.0])], of), Stack([np.array([5.0, 6.0])], of)
    bools = Stack([np.array([True, False]), np.array([False, True])], bools_aval(of))
    none, empty = Stack([], bools_aval(of)), Stack([], of)
    np.testing.assert_array_equal(stack_select(bools, a, empty), [[1, 0], [0, 4]])
    np.testing.assert_array_equal(stack_select(bools, b, a), [[5, np.nan], [3, 0]])
    np.testing.assert_array_equal(stack_select(none, a, empty), np.zeros((2, 2)))
    np.testing.assert_array_equal(stack_select(bools, empty, empty), np.zeros((2, 2)))
    deep = StackAval(of)
    found = stack_select(Stack([bools, none], bools_aval(deep)), Stack([a, b], deep), Stack([], deep))
    np.testing.assert_array_equal(found[0], [[1, 0], [0, 4]])
    np.testing.assert_array_equal(found[1], [[0, 0]])
    number = StackAval(Aval((), np.dtype(np.float32)))
    (one,) = stack_select(Stack([np.True_], bools_aval(number)), Stack([np.float32(2)], number), Stack([], number))
    assert type(one) is np.float32


def test_a_mask_ends_where_a_branch_gives_a_stack_without_one():
    """How many elements a stack has is known only when the program runs, so that nobody could write a mask of them."""
    of = StackAval(Aval((2,), np.dtype(float)))
    avals = [bools_aval(of), of, of]
    ways = [lambda bools, y, x: [stack_select(bools, x, y)], lambda bools, y, x: [x], lambda bools, y, x: [y]]
    masked, unmasked, elsewhere = [trace_function(way, avals, name="test")[0] for way in ways]
    linear = (False, False, True)
    for branches, expected in (([masked, unmasked], False), ([masked, elsewhere], True), ([unmasked, unmasked], False)):
        derived, found, given = masked_branches(branches, linear, (0,), (EVERY,))
        assert (found, given) == ([True], [expected])
        assert [len(program.outputs) for program, _ in derived] == [1 + expected] * 2
