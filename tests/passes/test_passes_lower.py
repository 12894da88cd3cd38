"""Composite operations written out: the same values on special values too, and nothing that fusion cannot take."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from funcad.backends.interpreter import Program
from funcad.diagnosis.recording import check_jaxpr
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, prune
from funcad.ir.trace import trace_function
from funcad.passes.lower import is_written_out, lower
from funcad.passes.pipeline import optimize
from funcad.passes.scatters import scatters
from funcad.primitives import activation as act
from funcad.primitives.arithmetic import add, exact_pow_p, mul, root
from funcad.primitives.basic_indexing import basic_place_p, basic_update_p, gather_p
from funcad.primitives.computed_slices import dynamic_slice_p, dynamic_update_slice_p
from funcad.primitives.contraction import dot_general_p, einsum_p
from funcad.primitives.norms import norm
from funcad.primitives.reduction import reduce_sum_p, tied_mean_p, tied_spread_p
from funcad.primitives.shape import broadcast_in_dim
from funcad.primitives.transcendental import over_root_p
from tests.agreement import assert_agree, same_bits
from tests.specs import all_specs

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e308, -1e308, 5e-324, 710.0, -745.0]


def traced(f: Any, *args: Any) -> Jaxpr:
    def program(*values: Any) -> list[Any]:
        out = f(*values)
        return list(out) if isinstance(out, (list, tuple)) else [out]

    return trace_function(program, [Aval(a.shape, a.dtype) for a in args], name="test")[0]


def lowered(f: Any, *args: Any) -> Counter:
    """Names of the operations after the pass; its results are those of the program before it."""
    jaxpr = traced(f, *args)
    result = lower(jaxpr)
    check_jaxpr(result)
    assert lower(result) is result
    with np.errstate(all="ignore"):
        for found, expected in zip(Program(result).run(args), Program(jaxpr).run(args)):
            assert_agree(found, expected, ulps=0)
    assert [o.aval for o in result.outputs] == [o.aval for o in jaxpr.outputs]
    assert {e.source for e in result.equations} <= {e.source for e in jaxpr.equations}
    return Counter([e.primitive.name for e in result.equations])


def samples(shape: tuple, dtype: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    plain = [rng.standard_normal(shape) * scale for scale in (1.0, 30.0)]
    ties = np.round(plain[0])
    few = [np.where(rng.random(shape) < p, rng.choice(SPECIAL, shape), plain[0]) for p in (0.1, 0.3, 0.5, 1.0)]
    same = [np.full(shape, v) for v in SPECIAL]
    with np.errstate(over="ignore"):
        return [x.astype(dtype) for x in (*plain, ties, *few, *same)]


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.longdouble])
@pytest.mark.parametrize(("shape", "axis"), [((5,), 0), ((4, 6), 1), ((4, 6), 0), ((1, 3), 0), ((2, 3, 4), 1)])
def test_over_one_axis(dtype: Any, shape: tuple, axis: int) -> None:
    xs = samples(shape, dtype)
    for x, t in zip(xs, reversed(xs)):
        for p in (act.softmax, act.log_softmax, act.logsumexp):
            found = lowered(lambda x, p=p: p(x, axis=axis), x)
            assert p.name not in found and found["reduce_max"] == found["reduce_sum"] == 1
        for p in (act.softmax_linear, act.log_softmax_linear, act.log_softmax_transposed):
            assert p.name not in lowered(lambda t, y, p=p: p(t, y, axis=axis), t, x)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize(("shape", "axes"), [((5,), (0,)), ((4, 6), (1,)), ((4, 6), (0, 1)), ((2, 3, 4), (0, 2))])
def test_over_several_axes(dtype: Any, shape: tuple, axes: tuple) -> None:
    xs = samples(shape, dtype)
    rest = tuple([n for i, n in enumerate(shape) if i not in axes])
    rows = samples(rest, dtype)
    with np.errstate(all="ignore"):
        for x, t, r in zip(xs, reversed(xs), rows):
            assert "layer_norm" not in lowered(lambda x: act.layer_norm_p(x, axes=axes, eps=1e-5), x)
            if rest:
                assert "layer_norm_linear" not in lowered(lambda t, x, r: act.layer_norm_linear(t, x, r, axes=axes), t, x, r)
            top = np.asarray(x.max(axis=axes)) if rest else x.max()
            lowered(lambda t, x, m: tied_mean_p(t, x, m, axes=axes), t, x, top)
            lowered(lambda t, x, m: tied_spread_p(t, x, m, axes=axes), r if rest else dtype(2.0), x, top)


def test_element_by_element() -> None:
    for dtype in (np.float64, np.float32):
        for x in samples((13,), dtype):
            assert "root_of_squares" not in lowered(root, x)
            for a, b in ((-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)):
                assert "over_root" not in lowered(lambda x, a=a, b=b: over_root_p(x, a=a, b=b), x)
            assert "exact_pow" not in lowered(lambda x: exact_pow_p(x, mul(x, x), n=3), x)


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.longdouble, np.complex128, np.complex64])
@pytest.mark.parametrize(("shape", "axes"), [((5,), (0,)), ((4, 6), (1,)), ((4, 6), (0, 1)), ((4, 6), ()), ((0, 3), (0,))])
def test_norms_of_all_sizes(dtype: Any, shape: tuple, axes: tuple) -> None:
    tiny = np.finfo(dtype).smallest_normal
    for x in samples(shape, dtype):
        for scale in (1.0, tiny**0.75, tiny, tiny**-0.75)[: 1 if dtype is np.longdouble else 4]:
            with np.errstate(all="ignore"):
                x = x * np.asarray(scale, dtype)
            assert "norm" not in lowered(lambda x: norm(x, axes=axes), x)


def test_the_shares_of_a_tie_take_few_operations() -> None:
    x = np.array([[1.0, 3.0, 3.0], [np.nan, 0.0, np.nan]])
    names = lowered(lambda t, x, out: tied_spread_p(t, x, out, axes=(1,)), np.ones(2), x, x.max(axis=1))
    assert names == Counter("eq isnan or convert reduce_sum div select".split() + 2 * ["broadcast_in_dim"])


def test_what_stays() -> None:
    """Empty axes, and counts that the dtype cannot hold."""
    empty, wide = np.ones((3, 0)), np.ones((3000, 2), np.float16)
    for f, x in (
        (lambda x: act.softmax(x, axis=1), empty),
        (lambda x: act.logsumexp(x, axis=1), empty),
        (lambda x: act.layer_norm_p(x, axes=(0,), eps=1e-5), wide),
    ):
        jaxpr = traced(f, x)
        assert lower(jaxpr) is jaxpr


def test_products_without_a_sum_are_element_operations() -> None:
    x, y = np.array([[1.0, -0.0, np.inf], [2.0, np.nan, -3.0]]), np.array([[0.0, 1.0], [-0.0, 5.0]])
    for numbers in ((((), ()), ((), ())), (((), ()), ((0,), (1,)))):
        found = lowered(lambda x, y, n=numbers: dot_general_p(x, y, dimension_numbers=n), x, y)
        assert found["dot_general"] == 0 and found["mul"] == 1


@pytest.mark.parametrize("subscripts", ["ab,bc,ca->", "ab,bc,cd->da", "ab,ab,ab->ab", "ab,cd,ac->d", "ab,bc,b->ca"])
def test_einsum_becomes_its_steps(subscripts: str) -> None:
    rng = np.random.default_rng(0)
    sizes = dict(zip("abcd", (2, 3, 4, 5)))
    terms = subscripts.partition("->")[0].split(",")
    args = [rng.standard_normal([sizes[c] for c in term]) for term in terms]
    found = lowered(lambda *xs: einsum_p(*xs, subscripts=subscripts), *args)
    assert found["einsum"] == 0 and found["dot_general"] <= 2


def test_every_lowering_computes_what_the_implementation_computes() -> None:
    """Of the samples in tests/specs: reductions up to the order of their sums, all else bit for bit."""
    left = {p for op in all_specs() for p in op.primitives if is_written_out(p)}
    assert len(left) > 15
    for op in all_specs():
        for args in op.samples() if left.intersection(op.primitives) else ():
            program, values = op.program(args)
            result = lower(program)
            left -= {e.primitive for e in program.equations} - {e.primitive for e in result.equations}
            with np.errstate(all="ignore"):
                for found, expected in zip(Program(result).run(values), Program(program).run(values)):
                    assert_agree(found, expected, scale=1e2)
    assert left == set(), "no sample is written out"


# ---------------------------------------------------------------- placements


def scattered(f: Any, *args: Any) -> Counter:
    jaxpr = traced(f, *args)
    result = scatters(jaxpr)
    check_jaxpr(result)
    for found, expected in zip(Program(result).run(args), Program(jaxpr).run(args)):
        assert type(found) is type(expected) and same_bits(found, expected)
    again = scatters(result)
    assert scatters(again) is again
    return Counter([e.primitive.name for e in prune(result).equations])


ZEROS = np.array([-0.0, 0.0, -0.0, np.inf, np.nan])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.int32])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_sums_of_placements(dtype: Any, count: int) -> None:
    rng = np.random.default_rng(count)
    for _ in range(30):
        shape = tuple(rng.integers(1, 5, 2).tolist())
        args, indices = [], []
        for _ in range(count):
            index, sizes = [], []
            for n in shape:
                start, end = sorted(rng.integers(0, n + 1, 2).tolist())
                step = int(rng.choice([1, 1, 1, 2, -1]))
                places = list(range(start, end))[::step]
                if rng.integers(4) == 0:
                    index.append(int(rng.integers(0, n)))
                    continue
                index.append((places[0], len(places), step) if places else (0, 0, 1))
                sizes.append(len(places))
            with np.errstate(invalid="ignore"):
                x = rng.choice(ZEROS[: 3 if dtype is np.int32 else 5], sizes).astype(dtype)
            if dtype is np.complex128:
                x = np.asarray(x)
                x.imag = rng.choice(ZEROS[:3], sizes)
            args.append(x if sizes else x[()] if isinstance(x, np.ndarray) else x)
            indices.append(tuple(index))
        reverse = bool(rng.integers(2))

        def f(*xs: Any, indices: Any = indices, shape: Any = shape, reverse: bool = reverse) -> Any:
            total = basic_place_p(xs[0], index=indices[0], shape=shape)
            for x, index in zip(xs[1:], indices[1:]):
                new = basic_place_p(x, index=index, shape=shape)
                total = add(new, total) if reverse else add(total, new)
            return total

        found = scattered(f, *args)
        assert found["place_sum"] + found["basic_place"] == 1
        whole = rng.choice(ZEROS[:3], shape).astype(dtype)
        if count < 4:  # the sum begins with an array, and its terms differ in their places
            apart = [b for a, b in zip(indices, indices[1:]) if a == b] == []

            def g(w: Any, *xs: Any, indices: Any = indices, shape: Any = shape) -> Any:
                total = w
                for x, index in zip(xs, indices):
                    total = add(total, basic_place_p(x, index=index, shape=shape))
                return total

            assert scattered(g, whole, *args)["place_sum"] == 1 or not apart


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int32])
def test_writes_of_all_and_sums_of_one_number(dtype: Any) -> None:
    """What is written everywhere is there; n times one number is a product, where that is what adding gives."""
    whole = ((0, 3, 1), (0, 4, 1))
    x, u = np.arange(24.0).reshape(2, 3, 4).astype(dtype)

    def f(x: Any, u: Any) -> Any:
        return mul(basic_update_p(x, u, index=whole), basic_place_p(x, index=whole, shape=(3, 4)))

    def flipped(x: Any, u: Any) -> Any:
        return basic_update_p(x, u, index=((2, 3, -1), (0, 4, 1)))

    assert [e.primitive.name for e in optimize(traced(f, x, u)).equations] == ["mul"]
    for function in (f, flipped):
        (found,) = Program(optimize(traced(function, x, u))).run([x, u])
        assert same_bits(found, Program(traced(function, x, u)).run([x, u])[0])
    for value in (0.1, -3.0, 0.0, -0.0, np.inf, np.nan, 6e4):
        for shape in ((7, 5), (0, 5), (1, 1)):
            for axes in ((0,), (1,), (0, 1)):
                if np.dtype(dtype).kind == "f" or abs(value) < 1e3:
                    alike(np.dtype(dtype).type(value), shape, axes)


def alike(number: Any, shape: tuple, axes: tuple) -> None:
    full, total = Var(Aval(shape, number.dtype)), Var(Aval(np.zeros(shape).sum(axes).shape, number.dtype))
    made = Equation(broadcast_in_dim, (Literal(number),), {"shape": shape, "axes": ()}, (full,))
    jaxpr = Jaxpr((), (made, Equation(reduce_sum_p, (full,), {"axes": axes}, (total,))), (total,))
    with np.errstate(all="ignore"):
        (found,), (expected,) = Program(optimize(jaxpr)).run([]), Program(jaxpr).run([])
    assert_agree(found, expected, ulps=8)
    assert found.dtype == expected.dtype and np.array_equal(np.signbit(found), np.signbit(expected))


def test_placements_at_one_place_are_added_first() -> None:
    x = np.array([1.0, -0.0])

    def f(x: Any, y: Any) -> Any:
        a, b = [basic_place_p(v, index=((1, 2, 1),), shape=(4,)) for v in (x, y)]
        return add(a, b)

    assert scattered(f, x, x) == {"add": 1, "basic_place": 1}


def test_placements_with_other_readers_stay() -> None:
    def f(x: Any) -> Any:
        a, b = [basic_place_p(x, index=((k, 2, 1),), shape=(4,)) for k in (0, 1)]
        return add(a, b), a

    assert scattered(f, np.ones(2))["basic_place"] == 2


def test_known_bounds() -> None:
    x, u = np.arange(12.0).reshape(4, 3), np.ones((2, 1))
    for start in (0, 2, -1, 9, -9):

        def f(x: Any, u: Any, start: int = start) -> list[Any]:
            return [dynamic_slice_p(x, start, 1, sizes=(2, 2)), dynamic_update_slice_p(x, u, start, 0)]

        found = scattered(f, x, u)
        assert found == {"basic_index": 1, "basic_update": 1}
    jaxpr = traced(lambda x: gather_p(x, np.int64(-1), batch_dims=0, unique=True), x)
    assert all([type(a) is Literal for a in jaxpr.equations[0].inputs[1:]])
    assert scattered(lambda x: gather_p(x, np.int64(-1), batch_dims=0, unique=True), x) == {"basic_index": 1}
    jaxpr = traced(lambda x: gather_p(x, np.int64(7), batch_dims=0, unique=True), x)
    assert scatters(jaxpr) is jaxpr
