"""The passes on whole programs: derived ones and random ones agree with the program as traced; the cost is linear."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit, tree, value_and_grad, vmap
from funcad.backends.interpreter import Program
from funcad.diagnosis.recording import check_jaxpr
from funcad.ir.aval import Aval, aval_of, is_inexact
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.trace import trace_function
from funcad.passes.algebra import algebra, fold, same_values, special_values
from funcad.passes.pipeline import PIPELINE, optimize
from funcad.passes.redundancy import cse, dce, forward, inline
from funcad.passes.subprograms import with_subprograms
from funcad.primitives import arithmetic, comparison, transcendental
from funcad.primitives.conversion import convert
from funcad.primitives.reduction import reduce_max, reduce_sum
from funcad.primitives.shape import broadcast_in_dim, reshape, rev, transpose
from tests.agreement import assert_close, same_bits
from tests.programs import PROGRAMS
from tests.programs import Program as Example

pytestmark = pytest.mark.share(2)  # of its tables of cases

EXACT = (inline, fold, inline, dce, forward, fold, algebra, cse, dce)  # these keep every bit; others may reorder sums


def exactly(jaxpr: Jaxpr) -> Jaxpr:
    """The bitwise passes, with the rules of the IR checked after each; sub-programs too."""
    for each in EXACT:
        found = each(jaxpr)
        if found is not jaxpr:
            check_jaxpr(found)
            assert found.inputs == jaxpr.inputs
            assert list(map(str, found.out_avals)) == list(map(str, jaxpr.out_avals)), each.__name__
        jaxpr = found
        if each is dce:
            equations = tuple([with_subprograms(e, exactly) for e in jaxpr.equations])
            jaxpr = forward(Jaxpr(jaxpr.inputs, equations, jaxpr.outputs))
    return jaxpr


# ---------------------------------------------------------------- the programs of the composition test


def _total(f: Callable[..., Any]) -> Callable[..., Any]:
    def total(*args: Any) -> Any:
        result: Any = 0.0
        for x in tree.leaves(f(*args)):
            if is_inexact(aval_of(x)):
                result = result + np.sum(np.real(x))
        return result

    return total


def _derived(example: Example) -> Iterator[tuple[Callable[..., Any], tuple]]:
    args = example.make_args()
    batch = tree.map(lambda a: np.stack([np.asarray(a)] * 2), args)
    leaves = [tree.leaves(a) for a in args]
    argnums = tuple([i for i, xs in enumerate(leaves) if xs and all(is_inexact(aval_of(x)) for x in xs)])
    yield example.f, args
    yield vmap(example.f), batch
    if example.order >= 1 and argnums:
        first = value_and_grad(_total(example.f), argnums=argnums)
        yield first, args
        yield vmap(first), batch
        if example.order >= 2:
            yield grad(_total(first), argnums=argnums), args


@pytest.mark.share(4)
@pytest.mark.parametrize("example", [p for p in PROGRAMS if not p.following], ids=lambda p: p.name)
def test_programs_and_their_derivatives_agree(example, monkeypatch):
    def checking(each: Callable[[Jaxpr], Jaxpr]) -> Callable[[Jaxpr], Jaxpr]:
        def run(jaxpr: Jaxpr) -> Jaxpr:
            found = each(jaxpr)
            check_jaxpr(found)
            return found

        return run

    plain = {p: checking(p) for p in dict.fromkeys(PIPELINE)}
    monkeypatch.setattr("funcad.passes.pipeline.PIPELINE", tuple([plain[p] for p in PIPELINE]))
    monkeypatch.setitem(vars(funcad.config), "engine", "interpreter")
    for f, args in _derived(example):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="grad: the output")
            warnings.filterwarnings("ignore", message="value_and_grad: the output")
            closed = funcad.make_jaxpr(jit(f))(*args)
        values = [*closed.consts, *tree.leaves(args)]
        expected = Program(closed.jaxpr).run(list(values))
        exact, whole = exactly(closed.jaxpr), optimize(closed.jaxpr)  # programs inside run on the reference, too: bit for bit
        assert [(a.shape, a.dtype) for a in whole.out_avals] == [(a.shape, a.dtype) for a in closed.jaxpr.out_avals]
        for a, b, c in zip(expected, Program(exact).run(list(values)), Program(whole).run(list(values))):
            assert same_bits(a, b)
            assert np.asarray(a).dtype == np.asarray(c).dtype
            assert_close(c, a, rtol=1e-4 if np.asarray(a).dtype == np.float32 else 1e-11, what=example.name)


# ---------------------------------------------------------------- random programs

UNARY = [arithmetic.neg, arithmetic.abs_, arithmetic.square, arithmetic.sqrt, transcendental.sin]
UNARY += [lambda x: arithmetic.integer_pow(x, 1), lambda x: arithmetic.integer_pow(x, 2)]
BINARY = [
    *[arithmetic.add, arithmetic.sub, arithmetic.mul, arithmetic.div, arithmetic.maximum, arithmetic.minimum],
    lambda x, y: comparison.select(comparison.lt(x, y), x, y),
    lambda x, y: comparison.select(comparison.logical_not(comparison.ge(x, y)), arithmetic.neg(x), y),
]
MOVES = [
    lambda x: transpose(transpose(x, perm=(1, 0)), perm=(1, 0)),
    lambda x: rev(rev(x, axes=(0,)), axes=(1,)),
    lambda x: reshape(reshape(x, shape=(x.aval.size,)), shape=x.aval.shape),
]
NUMBERS = [0, 1, -1, 2, 0.0, -0.0, 1.0, -1.0, 0.5, 4.0, 3.3]


def _random_program(rng: np.random.Generator, length: int) -> Callable[..., list[Any]]:
    """A function of two matrices; the same operations at each call."""
    seed = int(rng.integers(2**31))

    def program(x: Any, y: Any) -> list[Any]:
        draw = np.random.default_rng(seed)
        values = [x, y]
        pick = lambda: values[int(draw.integers(max(0, len(values) - 6), len(values)))]
        for _ in range(length):
            kind = int(draw.integers(10))
            a, number = pick(), NUMBERS[int(draw.integers(len(NUMBERS)))]
            if kind < 2:
                out = UNARY[int(draw.integers(len(UNARY)))](a)
            elif kind < 5:
                out = BINARY[int(draw.integers(len(BINARY)))](a, pick())
            elif kind < 7:
                f = BINARY[int(draw.integers(len(BINARY)))]
                out = f(a, number) if draw.integers(2) else f(number, a)
            elif kind == 7:
                out = MOVES[int(draw.integers(len(MOVES)))](a)
            elif kind == 8:
                wide = convert(a, np.dtype(np.float64))
                out = convert(wide if draw.integers(2) else arithmetic.mul(wide, 1.0), a.aval.dtype)
            else:
                row = [reduce_max, reduce_sum][int(draw.integers(2))](a, axes=(1,))
                kept = reshape(row, shape=(a.aval.shape[0], 1))
                out = arithmetic.sub(a, broadcast_in_dim(kept, shape=a.aval.shape, axes=(0, 1)))
            values.append(out)
        return [values[-1], pick(), pick()]

    return program


@pytest.mark.share(8)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("seed", range(40))
def test_random_programs_agree_bit_for_bit(seed, dtype):
    rng = np.random.default_rng(seed)
    f = _random_program(rng, 30)
    pool = special_values(dtype)
    x, y = [rng.choice(pool, (3, 4)) for _ in range(2)]
    jaxpr = trace_function(f, [Aval(x.shape, x.dtype)] * 2, name="test")[0]
    check_jaxpr(jaxpr)
    found = exactly(jaxpr)
    assert len(found.equations) <= len(jaxpr.equations)
    for a, b in zip(Program(jaxpr).run([x, y]), Program(found).run([x, y])):
        assert a.dtype == b.dtype and same_values(a, b)
    loop = jit(lambda x, y: funcad.scan(lambda c, v: (f(c, y)[0], f(v, c)[1]), x, np.stack([x, y, x])))
    closed = funcad.make_jaxpr(loop)(x, y)
    for a, b in zip(Program(closed.jaxpr).run([x, y]), Program(exactly(closed.jaxpr)).run([x, y])):
        assert same_values(np.asarray(a), np.asarray(b))


# ---------------------------------------------------------------- cost


def _long(x: Any, n: int) -> Any:
    first = y = x * 0.5
    for i in range(n // 10):
        y = y * 1.001 + first
        y = np.sin(y) - x
        z = -y
        y = -z * 1.0 + x * first - np.cos(y) / 4.0
        if i % 50 == 0:
            y = jit(lambda v: v * v + 1.0)(y)
    return y


def _loops(x: Any, n: int) -> Any:
    for _ in range(n // 10):
        x, _ = funcad.scan(lambda c, v: (np.sin(c) * v, c), x, np.ones(3))
    return x


def _calls_during(f: Callable[[], Any]) -> int:
    count = 0

    def profiler(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profiler)
    try:
        f()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("program", [_long, _loops])
def test_the_passes_cost_time_linear_in_the_number_of_equations(program):
    counts = []
    for n in (1_000, 5_000) if program is _loops else (1_000, 5_000, 20_000):
        jaxpr = trace_function(lambda x, n=n: [program(x, n)], [Aval((), np.dtype(float))], name="test")[0]
        optimize(Jaxpr(jaxpr.inputs, jaxpr.equations[:50], ()))  # the tables of rules are made
        counts.append(_calls_during(lambda jaxpr=jaxpr: optimize(jaxpr)) / len(jaxpr.equations))
    assert max(counts) < 1.3 * min(counts), counts
    if program is _long:
        assert max(counts) < 150, counts


@pytest.mark.slow
def test_a_value_with_many_readers_costs_no_more():
    def wide(x: Any, n: int) -> list[Any]:
        y = -x
        return [y - float(i) * -y for i in range(n)]

    def cost(n: int) -> float:
        jaxpr = trace_function(lambda x: wide(x, n), [Aval((3,), np.dtype(float))], name="test")[0]
        return _calls_during(lambda: optimize(jaxpr)) / len(jaxpr.equations)

    few, many = cost(300), cost(3000)
    assert many < 1.3 * few
