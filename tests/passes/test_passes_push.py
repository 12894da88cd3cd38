"""Views move to their readers: same values, fewer and smaller operations."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import funcad
import funcad.numpy as fnp
from funcad.backends.interpreter import Program
from funcad.diagnosis.recording import check_jaxpr
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Jaxpr, Literal, prune
from funcad.ir.trace import trace_function
from funcad.passes.push import push
from funcad.primitives.arithmetic import add, mul, neg, sub
from funcad.primitives.basic_indexing import basic_index_p, basic_place_p
from funcad.primitives.comparison import gt, select
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.conversion import convert
from funcad.primitives.reduction import reduce_all, reduce_any, reduce_max, reduce_prod, reduce_sum
from funcad.primitives.shape import broadcast_in_dim, reshape, slice_p, transpose
from funcad.primitives.transcendental import pow_p
from tests.agreement import assert_agree, same_bits

rng = np.random.default_rng(0)


def traced(f: Any, *args: Any) -> Jaxpr:
    def program(*values: Any) -> list[Any]:
        out = f(*values)
        return list(out) if isinstance(out, (list, tuple)) else [out]

    return trace_function(program, [Aval(a.shape, a.dtype) for a in args], name="test")[0]


def constant(near: Any, value: Any, shape: tuple) -> Any:
    """A literal repeated to a shape, as an equation of the program that `near` belongs to."""
    literal = Literal(value)
    aval = Aval(shape, literal.aval.dtype)
    return near.owner.append(broadcast_in_dim, (literal,), {"shape": shape, "axes": ()}, aval, None)


def pushed(f: Any, *args: Any, exact: bool = True) -> Counter:
    """Names of the operations after the pass, which must not have changed a bit (or little, by the order of sums)."""
    jaxpr = traced(f, *args)
    result = prune(push(jaxpr))
    check_jaxpr(result)
    for found, expected in zip(Program(result).run(args), Program(jaxpr).run(args)):
        if exact:
            assert type(found) is type(expected) and same_bits(found, expected)
        else:
            assert_agree(found, expected, scale=1e3)
    assert [o.aval for o in result.outputs] == [o.aval for o in jaxpr.outputs]
    again = prune(push(result))
    assert prune(push(again)) is again
    return Counter([e.primitive.name for e in result.equations])


def array(*shape: int) -> np.ndarray:
    x = rng.standard_normal(shape)
    return np.where(rng.random(shape) < 0.2, -0.0, x)


def test_nothing_to_do_gives_the_same_program() -> None:
    def f(x: Any, y: Any) -> Any:
        return reduce_sum(mul(neg(x), broadcast_in_dim(y, shape=(3, 4), axes=(1,))), axes=(0,))

    jaxpr = traced(f, array(3, 4), array(4))
    assert push(jaxpr) is jaxpr


def test_transposes_meet_and_vanish() -> None:
    assert pushed(lambda x: transpose(neg(transpose(x, perm=(1, 0))), perm=(1, 0)), array(3, 4)) == {"neg": 1}
    perm = (1, 2, 0)
    thrice = pushed(lambda x: transpose(transpose(transpose(x, perm=perm), perm=perm), perm=perm), array(2, 3, 4))
    assert thrice == {}


def test_products_take_transposed_operands() -> None:
    x, y = array(4, 3), array(4, 5)
    numbers = (((1,), (0,)), ((), ()))
    found = pushed(lambda a, b: dot_general_p(transpose(a, perm=(1, 0)), b, dimension_numbers=numbers), x, y, exact=False)
    assert found == {"dot_general": 1}


def test_products_do_not_repeat_work() -> None:
    """A stack of equal matrices times a stack is one product."""

    def f(a: Any, b: Any) -> Any:
        b = broadcast_in_dim(b, shape=(6, 4, 5), axes=(1, 2))
        return dot_general_p(a, b, dimension_numbers=(((2,), (1,)), ((0,), (0,))))

    jaxpr = prune(push(traced(f, array(6, 3, 4), array(4, 5))))
    (equation,) = jaxpr.equations
    assert equation.params["dimension_numbers"] == (((2,), (0,)), ((), ()))
    pushed(f, array(6, 3, 4), array(4, 5), exact=False)


def test_axes_of_size_one_are_left_out() -> None:
    def f(x: Any, r: Any) -> Any:
        column = mul(reshape(r, shape=(5, 1)), 2.0)
        return mul(x, broadcast_in_dim(column, shape=(5, 4), axes=(0, 1)))

    jaxpr = prune(push(traced(f, array(5, 4), array(5))))
    assert [e.outputs[0].aval.shape for e in jaxpr.equations] == [(5,), (5, 4), (5, 4)]
    assert pushed(f, array(5, 4), array(5)) == {"mul": 2, "broadcast_in_dim": 1}


def test_elements_are_computed_before_they_are_repeated() -> None:
    def f(x: Any, y: Any) -> Any:
        wide = [broadcast_in_dim(a, shape=(6, 5), axes=(1,)) for a in (x, y)]
        return neg(add(*wide))

    jaxpr = prune(push(traced(f, array(5), array(5))))
    assert [e.outputs[0].aval.shape for e in jaxpr.equations] == [(5,), (5,), (6, 5)]
    pushed(f, array(5), array(5))


def test_constants_become_literals() -> None:
    def f(x: Any) -> Any:
        return add(mul(x, constant(x, np.float32(0.1), (5,))), constant(x, np.float32(-0.0), (5,)))

    assert pushed(f, array(5).astype(np.float32)) == {"mul": 1, "add": 1}
    alone = pushed(lambda x: [x, neg(constant(x, 1.0, (3,)))], array(2))
    assert alone == {"neg": 1, "broadcast_in_dim": 1}


def test_sums_keep_their_zeros() -> None:
    """A sum over one element turns -0.0 into 0.0; over repeated elements it is not a multiple."""
    x = np.array([-0.0, 1.0])
    assert pushed(lambda a: reduce_sum(reshape(a, shape=(2, 1)), axes=(1,)), x)["reduce_sum"] == 1
    found = pushed(lambda a: reduce_sum(broadcast_in_dim(mul(a, a), shape=(2, 10), axes=(0,)), axes=(1,)), np.array([0.1, 0.3]))
    assert found["reduce_sum"] == 1 and found["broadcast_in_dim"] == 1
    assert "reduce_max" not in pushed(lambda a: reduce_max(broadcast_in_dim(a, shape=(2, 10), axes=(0,)), axes=(1,)), x)


def test_indices_that_drop_an_axis_are_reshapes() -> None:
    found = pushed(lambda x: neg(basic_index_p(x, index=(0, (0, 4, 1)))), array(1, 4))
    assert found == {"reshape": 1, "neg": 1}
    assert pushed(lambda x: basic_index_p(x, index=((0, 4, 1), None, (0, 3, 1))), array(4, 3)) == {"reshape": 1}
    assert pushed(lambda x: basic_index_p(x, index=((0, 4, 1),)), array(4)) == {}


@pytest.mark.parametrize("shape", [(0, 1), (1, 0), (1, 1), (1,), (2, 0, 1)])
def test_empty_and_single(shape: tuple) -> None:
    n = len(shape)
    x = array(*shape)
    pushed(lambda a: neg(reshape(neg(transpose(a, perm=tuple(range(n))[::-1])), shape=(1, *shape[::-1]))), x)
    pushed(lambda a: reduce_sum(broadcast_in_dim(a, shape=(3, *shape), axes=tuple(range(1, n + 1))), axes=(0, n)), x)
    pushed(lambda a: mul(a, broadcast_in_dim(reduce_sum(a, axes=tuple(range(n))), shape=shape, axes=())), x)


def _random_step(values: list, random: np.random.Generator) -> Any:
    """One more operation on the values so far."""
    x = values[random.integers(len(values))]
    shape, n = x.shape, len(x.shape)
    axes = tuple(sorted(random.choice(n, size=random.integers(0, n + 1), replace=False).tolist())) if n else ()
    kind = random.integers(12)
    if kind == 0:
        return transpose(x, perm=tuple(random.permutation(n).tolist()))
    if kind == 1:
        ones = [d for d in shape if d != 1]
        for _ in range(random.integers(0, 3)):
            ones.insert(random.integers(0, len(ones) + 1), 1)
        return reshape(x, shape=tuple(ones))
    if kind == 2 and n < 4:
        at = int(random.integers(0, n + 1))
        grown = [int(random.integers(1, 4)) if d == 1 else d for d in shape]
        grown.insert(at, int(random.integers(1, 4)))
        return broadcast_in_dim(x, shape=tuple(grown), axes=tuple([i for i in range(n + 1) if i != at]))
    if kind == 3 and axes:
        return [reduce_sum, reduce_max, reduce_prod][random.integers(3)](x, axes=axes)
    if kind == 4 and axes:
        return convert([reduce_any, reduce_all][random.integers(2)](x, axes=axes), x.dtype)
    if kind in (5, 6) and n:
        index, counts = [], []
        for d in shape:
            start = int(random.integers(0, d))
            count = int(random.integers(1, d - start + 1))
            choice = random.integers(5)
            counts.append(count if choice else None)
            index.append((start, count, 1) if choice > 1 else (0, d, 1) if choice else start)
        if kind == 5:
            index.insert(random.integers(0, n + 1), None)
            return basic_index_p(x, index=tuple(index))
        return slice_p(x, start=tuple([0] * n), limit=tuple([c or d for c, d in zip(counts, shape)]), strides=None)
    if kind == 7 and n:
        target, index = [], []
        for d in shape:
            extra = int(random.integers(0, 3))
            target.append(d + extra)
            index.append((extra, d, 1))
            if random.integers(4) == 0 and len(target) < 4:
                target.append(int(random.integers(1, 3)))
                index.append(0)
        return basic_place_p(x, index=tuple(index), shape=tuple(target))
    if kind == 8:
        return neg(x) if random.integers(2) else mul(x, 0.5)
    same = [v for v in values if v.shape == shape]
    y = same[random.integers(len(same))]
    if kind == 9:
        return select(gt(x, y), x, constant(x, 0.25, shape))
    return [add, sub, mul][random.integers(3)](x, y)


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    random = np.random.default_rng(seed)
    args = [np.round(array(*s), 1) for s in [(3, 1, 2), (2,), (1, 1), (3, 2), ()]]
    args[-1] = np.float64(-0.0)

    def f(*values: Any) -> list[Any]:
        values = [*values, constant(values[0], -0.0, (3, 2))]
        for _ in range(25):
            out = _random_step(values, random)
            if len(out.shape) < 5 and np.prod(out.shape) < 300:
                values.append(out)
        return values[-8:]

    jaxpr = traced(f, *args)
    result = push(jaxpr)
    check_jaxpr(result)
    scales = [1e3 * float(np.sum(np.abs(v), where=np.isfinite(v))) for v in Program(jaxpr).run(args)]
    for found, expected, scale in zip(Program(result).run(args), Program(jaxpr).run(args), scales):
        assert_agree(found, expected, scale=scale)


@pytest.mark.parametrize("seed", range(40))
def test_random_products(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = {"b": 2, "c": 3, "k": 4, "m": 1, "n": 5}
    letters = [[*"bck", "m"], [*"bckn"]]
    args, operands = [], []
    for own in letters:
        order = [own[i] for i in random.permutation(len(own))]
        held = [a for a in order if random.integers(4)]
        stored = [held[i] for i in random.permutation(len(held))]
        args.append(array(*[sizes[a] for a in stored]) if stored else np.float64(2.0))
        operands.append((order, stored))

    def f(*values: Any) -> Any:
        xs = []
        for v, (order, stored) in zip(values, operands):
            increasing = sorted(stored, key=order.index)
            v = transpose(v, perm=tuple([stored.index(a) for a in increasing]))
            shape, axes = tuple([sizes[a] for a in order]), tuple([order.index(a) for a in increasing])
            xs.append(broadcast_in_dim(v, shape=shape, axes=axes))
        (ox, _), (oy, _) = operands
        numbers = ((tuple(map(ox.index, "ck")), tuple(map(oy.index, "ck"))), ((ox.index("b"),), (oy.index("b"),)))
        return dot_general_p(*xs, dimension_numbers=numbers)

    pushed(f, *args, exact=False)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_what_has_no_elements_is_computed_of_none(shape: tuple) -> None:
    """-1 to the power of -1, of integers, would raise."""
    x, spread = np.full(shape, -1), {"shape": (3, 0), "axes": tuple(range(len(shape)))}
    f = lambda x, y: pow_p(broadcast_in_dim(x, **spread), broadcast_in_dim(y, **spread))
    assert pushed(f, x, x)["pow"] == 1


def test_hessian_of_rosenbrock() -> None:
    """Axes of size one, which forward over reverse leaves behind, are gone, and so are the transposes but one."""

    def f(x: Any) -> Any:
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    x = rng.standard_normal(20)
    compiled = funcad.jit(funcad.hessian(f)).lower(x)
    result = prune(push(compiled.jaxpr))
    check_jaxpr(result)
    assert max([e.outputs[0].aval.ndim for e in result.equations]) == 2
    assert sum([e.primitive.name == "transpose" for e in result.equations]) == 1
    assert not any([1 in e.outputs[0].aval.shape for e in result.equations])


def test_layer_with_kept_axes() -> None:
    def f(x: Any) -> Any:
        e = fnp.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    jaxpr = funcad.jit(f).lower(array(4, 3)).jaxpr
    found = Counter([e.primitive.name for e in prune(push(jaxpr)).equations])
    assert "reshape" not in found and found["broadcast_in_dim"] == 2
