"""The passes that change the shape of programs, on the programs of tests/programs.py and on the workloads that they are for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import tree
from funcad.backends.interpreter import Program
from funcad.diagnosis.recording import check_jaxpr
from funcad.ir.jaxpr import Jaxpr
from funcad.passes.contract import contract
from funcad.passes.hoist import hoist
from funcad.passes.lower import lower
from funcad.passes.push import push
from funcad.passes.redundancy import cse, dce, inline
from funcad.passes.scatters import scatters
from funcad.passes.subprograms import with_subprograms
from tests.agreement import assert_close, same_bits
from tests.programs import PROGRAMS
from tests.whole.test_composition import apply, build, runs

CHAINS: list[tuple[str, ...]] = [(), ("grad",), ("vmap",), ("vmap", "grad"), ("grad", "vmap"), ("grad", "jvp"), ("jvp", "grad")]
PASSES = (hoist, dce, lower, push, cse, scatters, dce)


def everywhere(jaxpr: Jaxpr, passes: Any = PASSES) -> Jaxpr:
    """All passes, the programs inside first; each gives a well-formed program with the same results."""
    equations = tuple([with_subprograms(e, lambda j: everywhere(j, passes)) for e in jaxpr.equations])
    if any([a is not b for a, b in zip(equations, jaxpr.equations)]):
        jaxpr = Jaxpr(jaxpr.inputs, equations, jaxpr.outputs)
    for each in passes:
        before = jaxpr
        jaxpr = each(jaxpr)
        check_jaxpr(jaxpr)
        assert jaxpr.inputs == before.inputs
        for new, old in zip(jaxpr.outputs, before.outputs, strict=True):
            a, b = new.aval, old.aval
            assert a == b or (a.shape, a.dtype, a.weak) == (b.shape, b.dtype, b.weak), each.__name__
    return jaxpr


def traced(f: Any, *args: Any) -> tuple[Jaxpr, list[Any]]:
    lowered = funcad.jit(f).lower(*args)
    return dce(inline(lowered.jaxpr)), [*lowered._entry.consts, *tree.leaves(args)]


def counted(jaxpr: Jaxpr) -> Counter:
    return Counter([e.primitive.name for e in jaxpr.equations])


@pytest.mark.share(6)
@pytest.mark.parametrize("chain", CHAINS, ids="-".join)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_programs(program: Any, chain: tuple) -> None:
    if program.following or not runs(program, chain):
        pytest.skip("Python control flow on values, or not so often differentiable")
    f, args = build(program, chain, apply)
    jaxpr, values = traced(f, *args)
    result = everywhere(jaxpr)
    for found, expected in zip(Program(result).run(values), Program(jaxpr).run(values), strict=True):
        assert type(found) is type(expected)
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        assert_close(found, expected, rtol=1e-9 if np.asarray(expected).dtype.itemsize >= 8 else 1e-4)


@pytest.mark.parametrize("each", [hoist, lower, push, scatters], ids=lambda p: p.__name__)
def test_a_program_with_nothing_to_do_stays(each: Any) -> None:
    jaxpr, _ = traced(lambda x, y: (np.sin(x) @ y, x.sum(axis=0)), np.ones((3, 3)), np.ones((3, 3)))
    assert each(jaxpr) is jaxpr


def test_normalised_layers_are_element_operations_and_row_sums() -> None:
    def loss(x: Any, g: Any, b: Any) -> Any:
        mean = x.mean(axis=-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
        return (((x - mean) / np.sqrt(variance + 1e-5) * g + b) ** 3).sum()

    rng = np.random.default_rng(0)
    jaxpr, values = traced(funcad.grad(loss, (0, 1, 2)), *[rng.standard_normal(s) for s in [(6, 5), (5,), (5,)]])
    result = everywhere(jaxpr)
    assert not {e.outputs[0].aval.shape for e in result.equations} & {(6, 1), (1, 5), (1, 1)}
    assert counted(result)["reshape"] == counted(result)["transpose"] == 0
    for found, expected in zip(Program(result).run(values), Program(jaxpr).run(values)):
        assert_close(found, expected, rtol=1e-12)


def test_softmax_cross_entropy() -> None:
    rng = np.random.default_rng(0)
    labels = np.eye(7)[rng.integers(0, 7, 9)]

    def by_hand(x: Any, axis: int) -> Any:
        return x - funcad.scipy.special.logsumexp(x, axis=axis, keepdims=True)

    for log_softmax in (funcad.nn.log_softmax, by_hand):

        def loss(x: Any, y: Any, f: Any = log_softmax) -> Any:
            return -(y * f(x, axis=-1)).sum() / 9

        jaxpr, values = traced(funcad.value_and_grad(loss), rng.standard_normal((9, 7)), labels)
        result = everywhere(jaxpr)
        elements = "add sub mul div neg exp log eq ne lt gt select isfinite isnan abs convert and"
        assert set(counted(result)) <= {*elements.split(), "reduce_sum", "reduce_max", "broadcast_in_dim"}, counted(result)
        for found, expected in zip(Program(result).run(values), Program(jaxpr).run(values)):
            assert_close(found, expected, rtol=1e-12)


def test_hessian_of_rosenbrock() -> None:
    """Written at its places in one array, every bit as before."""

    def f(x: Any) -> Any:
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    jaxpr, values = traced(funcad.hessian(f), np.random.default_rng(0).standard_normal(20))
    result = everywhere(jaxpr)
    found = counted(result)
    assert (found["place_sum"], found["basic_place"], found["transpose"]) == (1, 0, 1)
    assert len(result.equations) < len(jaxpr.equations) * 0.8
    for a, b in zip(Program(result).run(values), Program(jaxpr).run(values)):
        assert same_bits(a, b)


def test_vmapped_gradient() -> None:
    """What lanes share is not repeated: products with shared weights are plain products."""

    def loss(w: Any, x: Any) -> Any:
        return np.tanh(x @ w[0] @ w[1]).sum()

    rng = np.random.default_rng(0)
    w, x = [rng.standard_normal((3, 4)), rng.standard_normal((4, 2))], rng.standard_normal((8, 3))
    jaxpr, values = traced(funcad.vmap(funcad.grad(loss), in_axes=(None, 0)), w, x)
    result = everywhere(jaxpr)
    for e in result.equations:
        if e.primitive.name == "dot_general":
            assert all([a.aval.ndim <= 2 for a in e.inputs])
    for found, expected in zip(Program(result).run(values), Program(jaxpr).run(values)):
        assert_close(found, expected, rtol=1e-12)


# ---------------------------------------------------------------- chains of products, under fast_math


def test_chain_that_ends_in_a_vector() -> None:
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(s) for s in [(9, 8), (8, 7), (7, 6), (6,)]]
    jaxpr, values = traced(lambda a, b, c, v: (a @ b @ c @ v, v @ (c.T @ (b.T @ a.T))), *args)
    result = contract(push(jaxpr))
    check_jaxpr(result)
    assert all([e.outputs[0].aval.ndim == 1 for e in result.equations]) and len(result.equations) == 6
    assert contract(result) is result
    for found, expected in zip(Program(result).run(values), Program(jaxpr).run(values)):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_random_chains(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, 6)
    args = [rng.standard_normal((m, n)) for m, n in zip(sizes, sizes[1:])]
    flips = rng.integers(0, 2, len(args)).astype(bool)
    args = [a.T.copy() if flip else a for a, flip in zip(args, flips)]

    def f(*xs: Any) -> Any:
        random = np.random.default_rng(seed)
        chain = [x.T if flip else x for x, flip in zip(xs, flips)]
        while len(chain) > 1:
            k = random.integers(len(chain) - 1)
            product = chain[k] @ chain[k + 1]
            if random.integers(3) == 0:
                product = (chain[k + 1].T @ chain[k].T).T
            chain[k : k + 2] = [product]
        return chain[0]

    jaxpr, values = traced(f, *args)
    jaxpr = dce(push(jaxpr))
    result = contract(jaxpr)
    check_jaxpr(result)

    def work(p: Jaxpr) -> int:
        products = [e for e in p.equations if e.primitive.name == "dot_general"]
        return sum([e.outputs[0].aval.size * e.inputs[0].aval.size // max(1, e.inputs[0].aval.shape[0]) for e in products])

    assert work(result) <= work(jaxpr) or result is not jaxpr
    for found, expected in zip(Program(result).run(values), Program(jaxpr).run(values)):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert contract(result) is result


def test_results_that_others_read_are_computed() -> None:
    def f(a: Any, b: Any, v: Any) -> Any:
        c = a @ b
        return c, c @ v

    jaxpr, _ = traced(f, np.ones((9, 8)), np.ones((8, 7)), np.ones(7))
    assert contract(jaxpr) is jaxpr
