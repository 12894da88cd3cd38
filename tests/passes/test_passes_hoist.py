"""Work moves out of loops: what remains inside, and that results stay the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import funcad
import funcad.numpy as fnp
from funcad import config, jit, scan, tree
from funcad.backends.interpreter import Program
from funcad.diagnosis.recording import check_jaxpr
from funcad.ir.jaxpr import Equation, Jaxpr
from funcad.passes.hoist import hoist
from funcad.passes.pipeline import optimize
from funcad.passes.redundancy import dce
from funcad.passes.subprograms import with_subprograms
from funcad.show.pretty import shown_as
from tests.agreement import assert_agree, same_bits

rng = np.random.default_rng(0)


def hoisted(f: Any, *args: Any, exact: bool = False) -> Jaxpr:
    """The program of jit(f) after the pass, whose results are those of the program before it."""
    lowered = funcad.jit(f).lower(*args)
    jaxpr = dce(lowered.jaxpr)
    result = dce(hoist(jaxpr))
    check_jaxpr(result)
    values = [*lowered._entry.consts, *tree.leaves(args)]
    for found, expected in zip(Program(result).run(values), Program(jaxpr).run(values)):
        if exact:
            assert type(found) is type(expected) and same_bits(found, expected)
        else:
            assert_agree(found, expected, scale=1e4 * float(np.max(np.abs(expected), initial=1.0)))
    for old, new in zip(jaxpr.outputs, result.outputs):
        assert (old.aval.shape, old.aval.dtype) == (new.aval.shape, new.aval.dtype)
    again = dce(hoist(result))
    assert dce(hoist(again)) is again
    return result


def loops(jaxpr: Jaxpr) -> list[Equation]:
    return [e for e in jaxpr.equations if shown_as(e) == "scan"]


def names(jaxpr: Jaxpr) -> Counter:
    return Counter(map(shown_as, jaxpr.equations))


def body(jaxpr: Jaxpr) -> Counter:
    (loop,) = loops(jaxpr)
    return names(loop.params["loop"].body)


def weights(*shapes: tuple) -> list[np.ndarray]:
    return [rng.standard_normal(s) * 0.3 for s in shapes]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 3])
@pytest.mark.parametrize("length", [0, 1, 7])
def test_recurrent_network(reverse: bool, unroll: int, length: int) -> None:
    """Products of inputs and of weight gradients are out of the loops: one product per step is left in each."""
    wx, wh, b = weights((3, 5), (5, 5), (5,))
    xs = rng.standard_normal((length, 2, 3))

    def loss(wx: Any, wh: Any, b: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            return np.tanh(x @ wx + h @ wh + b), None

        h, _ = funcad.scan(step, np.zeros((2, 5)), xs, reverse=reverse, unroll=unroll)
        return (h * h).sum()

    result = hoisted(funcad.grad(loss, (0, 1, 2)), wx, wh, b, xs)
    if length:
        forward, backward = [e.params["loop"].body for e in loops(result)]
        assert names(forward)["dot_general"] == names(backward)["dot_general"] == 1
        assert names(backward)["add"] == 0 and len(backward.outputs) == 2
        assert names(result)["dot_general"] == 3


def test_outputs_and_losses_of_all_steps() -> None:
    """What only ys and sums read is computed after the loop, for all steps at once."""
    wx, wh, wo = weights((3, 7), (7, 7), (7, 3))
    xs, ys = rng.standard_normal((9, 2, 3)), rng.standard_normal((9, 2, 3))

    def loss(wx: Any, wh: Any, wo: Any) -> Any:
        def step(carry: Any, xy: Any) -> Any:
            (h, total), (x, y) = carry, xy
            h = np.tanh(x @ wx + h @ wh)
            d = h @ wo - y
            return (h, total + (d * d).sum()), d

        (_, total), ds = funcad.scan(step, (np.zeros((2, 7)), 0.0), (xs, ys))
        return total + ds[0].sum()

    result = hoisted(loss, wx, wh, wo)
    assert body(result) == {"dot_general": 1, "add": 1, "tanh": 1}
    gradient = hoisted(funcad.value_and_grad(loss, (0, 1, 2)), wx, wh, wo)
    assert all([names(e.params["loop"].body)["dot_general"] <= 2 for e in loops(gradient)])


def test_gradients_of_output_weights_are_one_product() -> None:
    """Both factors are there for all steps before the backward loop starts: they must not meet step by step."""
    wx, wh, wo = weights((3, 5), (5, 5), (5, 2))
    xs = rng.standard_normal((9, 2, 3))

    def loss(wx: Any, wh: Any, wo: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = np.tanh(x @ wx + h @ wh)
            return h, h @ wo

        return (funcad.scan(step, np.zeros((2, 5)), xs)[1] ** 2).sum()

    result = hoisted(funcad.grad(loss, (0, 1, 2)), wx, wh, wo)
    assert not any([v.aval.shape == (9, 5, 2) for e in result.equations for v in e.outputs])


def test_constants_are_computed_once() -> None:
    (w,) = weights((4, 4))

    def f(w: Any, x: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            x, w = carry
            return (x @ np.exp(w), w), None

        return funcad.scan(step, (x, w), None, length=5)[0]

    result = hoisted(f, w, np.ones(4))
    assert body(result) == {"dot_general": 1} and loops(result)[0].params["loop"].n_carry == 1


def test_memory_rule() -> None:
    """An outer product of small xs would be much larger than they are: it stays."""

    def f(v: Any, xs: Any) -> Any:
        return funcad.scan(lambda c, x: (np.sin(c * (v * x)), None), np.zeros(1000), xs)[0]

    assert body(hoisted(f, rng.standard_normal(1000), rng.standard_normal(20), exact=True))["mul"] == 2


def test_views_stay_where_they_are() -> None:
    def f(x: Any, b: Any) -> Any:
        return funcad.scan(lambda c, r: (c * r.reshape(2, 3).T, None), np.ones((3, 2)), x)[0]

    result = hoisted(f, rng.standard_normal((5, 6)), 0.0, exact=True)
    assert set(names(result)) == {"scan"}


def test_effects_keep_everything_inside(capsys: Any) -> None:
    def f(x: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            funcad.debug.print("{}", c)
            return c + x @ x, None

        return funcad.scan(step, 0.0, x)[0]

    lowered = funcad.jit(f).lower(np.ones((2, 3)))
    assert hoist(lowered.jaxpr) is lowered.jaxpr


def test_loops_over_stacks_stay() -> None:
    def f(x: Any) -> Any:
        return funcad.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * np.sin(x)), (0, x))[1]

    jaxpr = funcad.jit(funcad.grad(f)).lower(2.0).jaxpr
    assert hoist(jaxpr) is jaxpr


def test_checkpoints_stay_inside() -> None:
    (w,) = weights((4, 4))

    def f(w: Any, x: Any) -> Any:
        g = funcad.checkpoint(lambda w: np.sin(w) @ w)
        return funcad.scan(lambda c, _: (c @ g(w), None), x, None, length=3)[0]

    def inside(w: Any, x: Any) -> Any:
        g = funcad.checkpoint(lambda w: np.sin(w) @ w)

        def step(c: Any, _: Any) -> Any:
            x, w = c
            return (x @ g(w), w), None

        return funcad.scan(step, (x, w), None, length=3)[0]

    hoisted(f, w, np.ones(4))
    assert "checkpoint" in body(hoisted(inside, w, np.ones(4)))


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, np.float32, np.complex128])
def test_sums_of_other_dtypes(dtype: Any) -> None:
    x = np.asarray(rng.integers(0, 50, (6, 3)), dtype)

    def f(x: Any, start: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            total, rest = c
            return (total + v, rest - v), v

        return funcad.scan(step, (start, start), x)

    result = hoisted(f, x, np.asarray([7, 200, 3], np.int64).astype(dtype), exact=dtype != np.float32)
    assert not loops(result)


def test_counters_and_integers() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            i, total = c
            return (i + 1, total + i * v), (i, v)

        return funcad.scan(step, (0, np.zeros(3)), x)

    hoisted(f, rng.standard_normal((5, 3)))


def test_what_is_read_stays_a_carry() -> None:
    """A running sum that is also returned step by step, doubled, or subtracted from is not a sum over all steps."""
    x = rng.standard_normal((5, 3))
    for step in (
        lambda c, v: (c + v, c),
        lambda c, v: (v - c, None),
        lambda c, v: (c + c + v, None),
        lambda c, v: ((c + v) * 0.5, None),
        lambda c, v: (c + np.sin(c + v), None),
    ):
        result = hoisted(lambda x, step=step: funcad.scan(step, np.ones(3), x), x, exact=True)
        assert len(loops(result)) == 1 and loops(result)[0].params["loop"].n_carry == 1


def test_terms_of_a_sum() -> None:
    a, b = rng.standard_normal((6, 4, 3)), rng.standard_normal((6, 4, 5))

    def f(a: Any, b: Any) -> Any:
        def step(c: Any, ab: Any) -> Any:
            a, b = ab
            w, s = c
            return (w + (a.T @ b - (b.T @ a).T).reshape(3, 5), s - a.sum(axis=0)), None

        return funcad.scan(step, (np.zeros((3, 5)), np.zeros(3)), (a, b))[0]

    result = hoisted(f, a, b)
    assert not loops(result) and names(result)["dot_general"] == 2


def test_empty_and_infinite() -> None:
    x = np.array([[1.0, np.inf], [-0.0, -np.inf], [np.nan, 2.0]])

    def f(x: Any) -> Any:
        return funcad.scan(lambda c, v: (c + v * v.sum(), v * 2.0), np.zeros(2), x)

    hoisted(f, x)
    hoisted(f, x[:1])
    hoisted(f, x[:0])
    hoisted(f, np.zeros((3, 2)) * -1.0)


def test_nested_loops() -> None:
    """The pass looks at the loops of one program; given a body first, the outer loop takes what it can."""
    (w,) = weights((3, 3))
    xs = rng.standard_normal((4, 5, 3))

    def loss(w: Any, xs: Any) -> Any:
        def inner(h: Any, x: Any) -> Any:
            return np.tanh(h @ w + x @ w), h @ w

        def outer(h: Any, row: Any) -> Any:
            h, ys = funcad.scan(inner, h, row)
            return h, ys.sum(axis=0)

        h, ys = funcad.scan(outer, np.zeros(3), xs)
        return h.sum() + (ys * ys).sum()

    lowered = funcad.jit(funcad.grad(loss)).lower(w, xs)
    jaxpr = dce(lowered.jaxpr)

    def deep(jaxpr: Jaxpr) -> Jaxpr:
        equations = []
        for e in jaxpr.equations:
            if shown_as(e) == "scan":
                e = with_subprograms(e, lambda body: dce(deep(body)))
            equations.append(e)
        return hoist(Jaxpr(jaxpr.inputs, tuple(equations), jaxpr.outputs))

    result = dce(deep(jaxpr))
    check_jaxpr(result)
    values = [*lowered._entry.consts, w, xs]
    for found, expected in zip(Program(result).run(values), Program(jaxpr).run(values)):
        assert_agree(found, expected, scale=1e4)


@pytest.mark.parametrize("squash", ["tanh", "sigmoid"])
@pytest.mark.parametrize("reverse", [False, True])
def test_slopes_are_computed_before_the_loop(squash: str, reverse: bool) -> None:
    """The factor of a derivative that outputs of the forward loop give is computed for all steps together."""
    f = {"tanh": np.tanh, "sigmoid": funcad.nn.sigmoid}[squash]

    def loss(h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = f(h + x)
            return h, None

        return funcad.scan(step, h, xs, reverse=reverse)[0].sum()

    result = hoisted(funcad.grad(loss), rng.standard_normal(3), rng.standard_normal((5, 3)))
    forward, backward = [names(e.params["loop"].body) for e in loops(result)]
    assert backward == {"mul": 1} and names(result)["sub"] == 1 and names(result)["mul"] >= 1
    assert forward[{"tanh": "tanh", "sigmoid": "logistic"}[squash]] == 1


def test_a_product_known_before_the_loop_leaves_a_sum_of_two() -> None:
    """Of `a * b + c * d` with a tangent, one product may be the loop's inputs' alone; if both or none are, it stays whole."""
    x, t = rng.standard_normal((2, 6, 3))

    def f(c: Any, xs: Any) -> Any:
        return funcad.scan(lambda c, x: (x * c, c), c, xs)

    result = hoisted(lambda x, t: funcad.jvp(lambda v: f(np.ones(3), v), (x,), (t,)), x, t)
    assert body(result)["mul_add"] == 1
    square = lambda c, x: (np.sin(c + x * np.cos(x)), None)
    result = hoisted(lambda x, t: funcad.jvp(lambda c, v: funcad.scan(square, c, v)[0], (x[0], x), (t[0], t)), x, t)
    assert "mul_add" not in body(result)
    g = lambda c, x: ((c[0] * 0.5, c[0] * c[1] + x), None)
    result = hoisted(lambda x, t: funcad.jvp(lambda c, v: funcad.scan(g, c, v)[0], ((x[0], x[1]), x), ((t[0], t[1]), t)), x, t)
    assert body(result)["mul_add"] == 1


def test_elementary_functions_that_only_ys_read_are_computed_after_the_loop() -> None:
    """If the values that they are made of take no more memory, and are small."""

    def loss(c: Any, xs: Any) -> Any:
        return funcad.scan(lambda c, x: (np.sin(c) * 0.5 + x, None), c, xs)[0].sum()

    small = rng.standard_normal(4), rng.standard_normal((5, 4))
    result = hoisted(funcad.grad(loss), *small)
    assert "cos" not in names(loops(result)[0].params["loop"].body) and names(result)["cos"] == 1
    large = rng.standard_normal(2000), rng.standard_normal((5, 2000))
    assert "cos" in names(loops(hoisted(funcad.grad(loss), *large))[0].params["loop"].body)
    summed = lambda c, xs: funcad.scan(lambda c, x: (c * x, np.exp(c).sum()), c, xs)[1]
    assert body(hoisted(summed, rng.standard_normal(40), rng.standard_normal(5)))["exp"] == 1
    cheap = lambda c, xs: funcad.scan(lambda c, x: (c * x, c + x), c, xs)[1]
    assert body(hoisted(cheap, *small))["add"] == 1


def _random_step(values: list, random: np.random.Generator) -> Any:
    x = values[random.integers(len(values))]
    same = [v for v in values if v.shape == x.shape]
    y = same[random.integers(len(same))]
    kind = random.integers(7)
    if kind == 0 and x.ndim == 2:
        fits = [v for v in values if v.ndim == 2 and v.shape[0] == x.shape[1]]
        return np.tanh(x @ fits[random.integers(len(fits))]) if fits else x.T
    if kind == 1 and x.ndim == 2:
        return x.T
    if kind == 2 and x.ndim:
        return x.sum(axis=0)
    if kind == 3:
        return fnp.sin(x) * 0.5
    return [x + y, x - y, x * y * 0.3][kind % 3]


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(40))
def test_random_loops(seed: int) -> None:
    def f(c: Any, carry: Any, xs: Any) -> Any:
        random = np.random.default_rng(seed)
        choices: list[int] = []

        def step(carry: Any, x: Any) -> Any:
            values = [*carry, *x, *c]
            for _ in range(12):
                values.append(_random_step(values, random))
            new = []
            for v in carry:
                fits = [u for u in values if u.shape == v.shape]
                u = fits[random.integers(len(fits))]
                kind = random.integers(4)
                new.append([v + u, v - 0.5 * u, v, np.tanh(u)][kind])
            choices.append(1)
            return new, values[-3:]

        return funcad.scan(step, carry, xs, reverse=bool(seed % 2), unroll=1 + seed % 3)

    c = weights((3, 3), (3,), (2, 3))
    carry = weights((2, 3), (3, 3), (3,), ())
    carry[-1] = 0.5
    xs = weights((4, 2, 3), (4, 3), (4, 3, 2), (4,))
    hoisted(f, c, carry, xs)
    if seed % 4 == 0:

        def loss(c: Any, carry: Any, xs: Any) -> Any:
            return sum([v.sum() for v in tree.leaves(f(c, carry, xs))])

        hoisted(funcad.grad(loss), c, carry, xs)


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_what_calls_cost_leaves_loops_if_it_takes_little_memory(engine: str) -> None:
    """Products of xs that are larger than they, and sums of squares: where an operation of a turn is a call."""
    w, v = np.ones((2, 16)), np.eye(16)

    def f(h: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            h, total = c
            h = np.tanh(x @ w + h @ v)
            return (h, total + np.sum(h * h)), None

        return scan(step, (h, 0.0), xs)[0][1]

    with config.set(engine=engine):
        for length, leaves in ((20, True), (2**17, False)):
            jaxpr = optimize(jit(f).lower(np.ones(16), np.ones((length, 2))).jaxpr)
            (loop,) = [e.params["loop"] for e in jaxpr.equations if "loop" in e.params]
            names = [e.primitive.name for e in loop.body.equations]
            taken = leaves and engine == "numpy"
            assert names.count("dot_general") == (1 if taken else 2) and ("reduce_sum" in names) == (not taken), names
