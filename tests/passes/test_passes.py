"""The compiler's passes on small programs: how many equations are left, and which; every rule of algebra verifies itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import jit, scan
from funcad.backends.interpreter import Program
from funcad.diagnosis.recording import check_jaxpr
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, subjaxprs
from funcad.ir.trace import trace_function
from funcad.passes.algebra import RULES, algebra, fast_algebra, fold, patterns_of, same_values, special_values
from funcad.passes.pipeline import PIPELINE, optimize
from funcad.passes.redundancy import LARGE, cse, dce, forward, inline
from funcad.passes.rewrite import size_of
from funcad.primitives.arithmetic import add, div, mul, neg, sub
from funcad.primitives.comparison import select
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.conversion import convert
from funcad.primitives.reduction import reduce_sum
from funcad.primitives.shape import broadcast_in_dim, pad, reshape, rev, slice_p, transpose
from funcad.primitives.transcendental import log, sin
from funcad.show.pretty import shown_as
from funcad.tree.same import same_key
from tests.agreement import same_bits

X = np.array([1.5, -0.0, np.nan])


def traced(f: Callable[..., Any], *args: Any) -> Jaxpr:
    """The program of f, which returns one value or a list; every argument is strong."""

    def program(*values: Any) -> list[Any]:
        out = f(*values)
        return list(out) if isinstance(out, (list, tuple)) else [out]

    avals = [Aval(np.shape(a), np.asarray(a).dtype) for a in args]
    return trace_function(program, avals, name="test")[0]


def names(jaxpr: Jaxpr) -> Counter:
    return Counter(map(shown_as, jaxpr.equations))


def only(jaxpr: Jaxpr, name: str) -> Equation:
    (found,) = [e for e in jaxpr.equations if e.primitive.name == name]
    return found


def checked(f: Callable[[Jaxpr], Jaxpr], jaxpr: Jaxpr, *args: Any) -> Jaxpr:
    """The program after a pass: valid, with the same inputs and avals, and the same bits as before on these arguments."""
    found = f(jaxpr)
    check_jaxpr(found)
    assert found.inputs == jaxpr.inputs
    assert [(a.shape, a.dtype, a.weak) for a in found.out_avals] == [(a.shape, a.dtype, a.weak) for a in jaxpr.out_avals]
    assert f(found) is found or size_of(f(found)) < size_of(found)
    if args:
        for a, b in zip(Program(found).run(list(args)), Program(jaxpr).run(list(args))):
            assert same_bits(a, b) and type(a) is type(b)
    return found


# ---------------------------------------------------------------- every pass


@pytest.mark.parametrize("each", list(dict.fromkeys(PIPELINE)), ids=lambda p: p.__name__)
def test_a_pass_with_nothing_to_do_returns_the_same_object(each):
    for f in (lambda x: np.sin(x) * x, lambda x: x, lambda x: [], lambda x: scan(lambda c, v: (np.sin(c * v), c), x[0], x)):
        jaxpr = traced(f, X)
        for _ in range(4):
            jaxpr = each(jaxpr)
        assert each(jaxpr) is jaxpr


def test_optimized_programs_are_remembered_and_not_optimized_again():
    jaxpr = traced(lambda x: [x * 1.0 + x, x * 1.0 + x], X)
    found = optimize(jaxpr)
    assert optimize(jaxpr) is found and optimize(found) is found and optimize(found, fast_math=True) is found
    assert optimize(jaxpr, fast_math=True) is not found
    assert len(found.equations) == 1 and found.outputs[0] is found.outputs[1]
    plain = traced(np.sin, X)
    assert optimize(plain) is plain


def test_equations_keep_their_source():
    def f(x):
        y = np.sin(x) * 1.0
        return y - (-np.cos(x))

    found = optimize(traced(f, X))
    lines = [e.source.line - f.__code__.co_firstlineno for e in found.equations]
    assert names(found) == {"sin": 1, "cos": 1, "add": 1} and lines == [1, 2, 2]


def test_printing_the_passes(capsys):
    with funcad.config.set(print="passes"):
        optimize(traced(jit(lambda x: x * 1.0), X))
    out = capsys.readouterr().out
    assert "# inline: 2 -> 1 equations, " in out and "# algebra: 1 -> 0 equations, " in out and "lambda a:f64[3]" in out
    assert "# fold" not in out


# ---------------------------------------------------------------- inline


def test_calls_are_spliced_with_fresh_variables():
    f = jit(lambda x, y: (np.sin(x) * y, y))
    jaxpr = traced(lambda x: f(f(x, x)[0], f(x, 2.0)[1] * x), X)
    found = checked(inline, jaxpr, X)
    assert names(found) == {"sin": 3, "mul": 4} or names(found)["call"] == 0
    assert len({v for e in found.equations for v in e.outputs}) == len(found.equations)


def test_scalars_given_to_a_body_become_what_it_was_traced_for():
    body = traced(lambda x: [mul(x, x), x], np.float32(1.0))
    call = traced(jit(np.sin), X).equations[0].primitive
    outputs = tuple(Var(a) for a in body.out_avals)
    given = Jaxpr((), (Equation(call, (Literal(3),), {"jaxpr": body, "name": "f"}, outputs),), outputs)
    found = checked(inline, given)
    assert same_key(found.outputs[1].value) == same_key(np.float32(3))
    assert fold(found).outputs[0].value.dtype == np.float32


def test_custom_rules_and_solvers_are_plain_calls_for_the_compiler():
    f = funcad.custom_jvp(lambda x: np.sin(x))
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    g = funcad.custom_vjp(lambda x: np.cos(x))
    g.defvjp(lambda x: (g(x), None), lambda saved, ct: (ct,))
    solve = lambda b: funcad.custom_linear_solve(lambda x: 2.0 * x, b, lambda matvec, b: b / 2.0, symmetric=True)
    jaxpr = traced(lambda x: solve(f(x) + g(x)) + funcad.checkpoint_name(x, "kept"), X)
    assert names(checked(inline, jaxpr, X)) == {"sin": 1, "cos": 1, "add": 2, "div": 1}


def test_a_checkpoint_stays_a_call_and_its_body_is_optimized():
    jaxpr = traced(lambda x: funcad.checkpoint(jit(lambda y: np.sin(y * 1.0)))(x) + np.sin(x), X)
    found = checked(optimize, jaxpr, X)
    assert names(found) == {"checkpoint": 1, "sin": 1, "add": 1}
    assert names(only(found, "checkpoint").params["jaxpr"]) == {"sin": 1}


def test_checkpoints_are_not_merged():
    f = funcad.checkpoint(np.sin)
    assert names(optimize(traced(lambda x: f(x) * f(x), X)))["checkpoint"] == 2


@pytest.mark.slow
def test_bodies_that_call_each_other_do_not_explode():
    f = lambda x: np.sin(x) + 1.0
    for _ in range(40):  # 2**40 equations if all were spliced
        f = jit(lambda x, g=f: g(x) * g(x + 1.0))
    found = inline(traced(f, 0.5))
    seen: set[int] = set()

    def count(jaxpr: Jaxpr) -> int:
        if id(jaxpr) in seen:
            return 0
        seen.add(id(jaxpr))
        return len(jaxpr.equations) + sum(count(j) for e in jaxpr.equations for j in subjaxprs(e.params))

    assert count(found) < 100 * LARGE


def test_a_branch_with_a_known_index_is_spliced():
    f = jit(lambda i, x: funcad.switch(i, [np.sin, np.cos, np.tan], x))
    for i, name in ((0, "sin"), (1, "cos"), (7, "tan"), (-3, "sin")):
        assert names(optimize(traced(lambda x, i=i: f(i, x), X))) == {name: 1}


# ---------------------------------------------------------------- fold


def constant(f: Callable[..., Any], *values: Any) -> Jaxpr:
    """The program that applies f to literals."""
    jaxpr = traced(f, *values)
    literals = dict(zip(jaxpr.inputs, map(Literal, values)))
    equations = [e._replace(inputs=tuple([literals.get(a, a) for a in e.inputs])) for e in jaxpr.equations]
    return Jaxpr((), tuple(equations), jaxpr.outputs)


def test_scalars_are_folded_with_their_dtype():
    found = checked(fold, constant(lambda x, y: add(mul(x, y), y), np.float32(0.1), np.float32(3)))
    expected = np.float32(0.1) * np.float32(3) + np.float32(3)
    assert not found.equations and same_key(found.outputs[0].value) == same_key(expected)
    found = checked(fold, constant(lambda x: convert(x, np.dtype(np.int8)), np.float64(3.7)))
    assert not found.equations and type(found.outputs[0].value) is np.int8


@pytest.mark.parametrize(
    "f, values",
    [
        (div, (np.float64(1), np.float64(0))),
        (log, (np.float64(-1),)),
        (mul, (np.float64(1e300), np.float64(1e300))),
        (mul, (np.float64(1e-300), np.float64(1e-300))),
        (add, (np.int64(2**63 - 1), np.int64(1))),
    ],
    ids=["division by zero", "invalid", "overflow", "underflow", "integer overflow"],
)
def test_what_numpy_warns_of_is_left_to_run_time(f, values):
    jaxpr = constant(f, *values)
    assert fold(jaxpr) is jaxpr


def test_operations_on_broadcast_literals_are_broadcast_literals():
    def f(x):
        wide = broadcast_in_dim(x, shape=(3,), axes=())
        return broadcast_in_dim(neg(mul(wide, 3.0)), shape=(2, 3), axes=(1,))

    found = checked(lambda jaxpr: dce(fold(jaxpr)), constant(f, np.float32(2.0)))
    (equation,) = found.equations
    assert equation.primitive.name == "broadcast_in_dim" and equation.params == {"shape": (2, 3), "axes": ()}
    assert same_key(equation.inputs[0].value) == same_key(np.float32(-6.0))


@pytest.mark.parametrize("axes, left", [((0,), (3,)), ((0, 1), ()), ((1,), (70,))])
def test_reductions_of_broadcast_literals_are_literals(axes, left):
    def f(x):
        return reduce_sum(broadcast_in_dim(x, shape=(70, 3), axes=()), axes=axes)

    found = dce(fold(constant(f, np.float32(0.1))))
    literal = found.equations[0].inputs[0] if left else found.outputs[0]
    assert len(found.equations) == len(left) and found.outputs[0].aval.shape == left
    assert literal.value.dtype == np.float32
    np.testing.assert_allclose(literal.value, 0.1 * (210 // max(1, *left, 1)), rtol=1e-6)


def test_long_reductions_are_left_to_run_time():
    jaxpr = constant(lambda x: reduce_sum(broadcast_in_dim(x, shape=(10**6,), axes=()), axes=(0,)), np.float64(0.1))
    assert fold(jaxpr) is jaxpr


def test_arrays_are_never_folded():
    jaxpr = constant(lambda x: rev(broadcast_in_dim(x, shape=(1000,), axes=()), axes=(0,)), np.float64(1.0))
    assert fold(jaxpr) is jaxpr


# ---------------------------------------------------------------- algebra


@pytest.mark.share(3)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_verifies_itself(rule):
    assert rule.verify() > 0


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_is_found_in_the_program_of_its_left_side(rule):
    kind = {"b": "?", "c": "D"}.get(rule.kinds, "d" if "f" in rule.kinds else "l")
    names_of = rule.lhs.__code__.co_varnames[: rule.lhs.__code__.co_argcount]
    args = [np.array([True, False]) if n == "c" else special_values(kind)[:2] for n in names_of]
    jaxpr = traced(rule.lhs, *args)
    assert fast_algebra(jaxpr) is not jaxpr
    found = algebra(jaxpr)
    assert (found is not jaxpr) == rule.exact or not rule.exact
    check_jaxpr(found)
    check_jaxpr(fast_algebra(jaxpr))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "i1", "i4", "u2", "?"])
def test_exact_rules_keep_every_bit_in_every_dtype(dtype):
    """All left sides, on special values, through the pass: rules that do not hold for the dtype must not apply."""
    x = special_values(dtype)
    for rule in RULES:
        names_of = rule.lhs.__code__.co_varnames[: rule.lhs.__code__.co_argcount]
        columns = [np.array([False, True]) if n == "c" else x[: 12 if len(names_of) < 3 else 5] for n in names_of]
        args = [np.ascontiguousarray(a.ravel()) for a in np.meshgrid(*columns, indexing="ij")]
        try:
            jaxpr = traced(rule.lhs, *args)
            check_jaxpr(jaxpr)
        except (TypeError, ValueError, AssertionError):  # the operation does not take this dtype
            continue
        try:
            before = Program(jaxpr).run(list(args))
        except (TypeError, ValueError, OverflowError, Warning):  # complex numbers as parts of complex numbers
            continue
        (a,), (b,) = before, Program(algebra(jaxpr)).run(list(args))
        assert a.dtype == b.dtype and same_values(a, b), rule.name


def test_both_orders_of_commutative_operands_match():
    assert [len(patterns_of(r)) for r in RULES if r.name in ("x * 1", "x - 0", "1 / (1 + exp(-x))")] == [2, 1, 2]
    for f in (lambda x: mul(1.0, x), lambda x: mul(x, 1.0), lambda x: add(neg(x), x), lambda x: add(x, neg(x))):
        assert algebra(traced(f, X)) is not traced(f, X) and len(dce(algebra(traced(f, X))).equations) <= 1


@pytest.mark.parametrize(
    "f, left",
    [
        (lambda x: add(x, 0.0), 1),  # -0.0 + 0.0 is 0.0
        (lambda x: sub(x, -0.0), 1),
        (lambda x: sub(0.0, x), 1),
        (lambda x: mul(x, 0.0), 1),
        (lambda x: sub(x, x), 1),
        (lambda x: div(x, x), 1),
        (lambda x: div(x, 3.0), 1),
        (lambda x: mul(x, True), 1),
    ],
)
def test_what_is_true_of_real_numbers_only_is_left_alone(f, left):
    jaxpr = traced(f, X)
    assert algebra(jaxpr) is jaxpr and len(jaxpr.equations) == left


def test_dividing_by_a_power_of_two_is_a_product_to_the_last_bit():
    for dtype in "efd":
        x = np.concatenate([special_values(dtype), np.arange(-9, 9).astype(dtype) * np.finfo(dtype).smallest_subnormal])
        for c in (2.0, 0.25, -8.0, np.dtype(dtype).type(1024)):
            found = checked(algebra, traced(lambda v, c=c: div(v, c), x), x)
            assert names(found) == {"mul": 1}
    assert names(algebra(traced(lambda v: div(v, 2.0**1023), X))) == {"div": 1}  # its inverse is subnormal
    assert names(algebra(traced(lambda v: div(v, 0.0), X))) == {"div": 1}


def test_broadcast_literals_become_literals_where_a_shaped_operand_stays():
    full = lambda x, value: broadcast_in_dim(np.float64(value), shape=(3,), axes=())

    def program(x: Any) -> list[Any]:
        trace = x.owner
        one = trace.record(broadcast_in_dim, (np.float64(2),), {"shape": (3,), "axes": ()})
        return [mul(x, one), select(x > 0.0, one, one), add(one, one)]

    found = checked(lambda j: dce(algebra(j)), traced(program, X), X)
    assert full is not None and names(found) == {"mul": 1, "gt": 1, "select": 1, "broadcast_in_dim": 1, "add": 1}


SHAPES = [
    (lambda x: reshape(reshape(x, shape=(3, 2)), shape=(6,)), 1),
    (lambda x: reshape(reshape(x, shape=(6,)), shape=(2, 3)), 0),
    (lambda x: transpose(transpose(x, perm=(1, 0)), perm=(1, 0)), 0),
    (lambda x: broadcast_in_dim(broadcast_in_dim(x, shape=(4, 2, 3), axes=(1, 2)), shape=(4, 5, 2, 3), axes=(0, 2, 3)), 1),
    (lambda x: broadcast_in_dim(reshape(x, shape=(2, 1, 3)), shape=(2, 4, 3), axes=(0, 1, 2)), 1),
    (lambda x: rev(rev(x, axes=(0,)), axes=(0, 1)), 1),
    (lambda x: rev(rev(x, axes=(1,)), axes=(1,)), 0),
    (lambda x: slice_p(slice_p(x, start=(0, 1), limit=(2, 3), strides=None), start=(1, 0), limit=(2, 2), strides=(1, 2)), 1),
    (lambda x: slice_p(x, start=(0, 0), limit=(2, 3), strides=(1, 1)), 0),
    (lambda x: pad(x, low=(0, 0), high=(0, 0)), 0),
    (lambda x: convert(convert(x, np.dtype(np.longdouble)), np.dtype(np.float64)), 0),
    (lambda x: convert(convert(x, np.dtype(np.float32)), np.dtype(np.float64)), 2),
]


@pytest.mark.parametrize("f, left", SHAPES)
def test_operations_that_move_elements_are_composed(f, left):
    x = np.arange(6.0).reshape(2, 3)
    assert len(checked(lambda j: dce(algebra(j)), traced(f, x), x).equations) == left


def test_slices_of_slices():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(0, 9))
        x = np.arange(float(n))

        def cut(v: Any, n: int) -> tuple[Any, int]:
            start = int(rng.integers(0, n + 1))
            limit, step = int(rng.integers(start, n + 1)), int(rng.integers(1, 4))
            return slice_p(v, start=(start,), limit=(limit,), strides=(step,)), max(0, -(-(limit - start) // step))

        def f(v: Any, n: int = n) -> Any:
            for _ in range(3):
                v, n = cut(v, n)
            return v

        checked(lambda j: dce(algebra(j)), traced(f, x), x)


def test_fast_math():
    run = lambda f: dce(fast_algebra(traced(f, X)))
    assert not run(lambda x: mul(add(x, 0.0), 1.0)).equations
    assert names(run(lambda x: 1.0 / (1.0 + np.exp(-x)))) == {"logistic": 1}
    found = run(lambda x: x * 2.0 * 3.0 / 4.0)
    assert names(found) == {"mul": 1} and found.equations[0].inputs[1].value == 1.5
    assert names(run(lambda x: x - x)) == {"broadcast_in_dim": 1}


# ---------------------------------------------------------------- cse


def test_equal_equations_are_one():
    jaxpr = traced(lambda x, y: [x * y + 1.0, y * x + 1.0, np.sum(x * y), np.sum(y * x), sub(x, y), sub(y, x)], X, X)
    assert names(checked(cse, jaxpr, X, X)) == {"mul": 1, "add": 1, "reduce_sum": 1, "sub": 2}


def test_literals_and_parameters_are_compared_by_type_and_bits():
    jaxpr = traced(lambda x: [mul(x, 0.0), mul(x, -0.0), mul(x, 0), mul(x, np.float64(0.0)), mul(x, np.nan), mul(x, np.nan)], X)
    assert len(cse(jaxpr).equations) == 5
    x = np.arange(3)
    jaxpr = traced(lambda v: [convert(v, np.dtype(np.float32)), convert(v, np.dtype(np.float64))], x)
    assert cse(jaxpr) is jaxpr


def test_loops_with_equal_bodies_are_one():
    f = lambda x: scan(lambda c, v: (np.sin(c) * v, c), x[0] * 1.0, x)[1]
    jaxpr = traced(lambda x: f(x) + f(x), X)
    assert names(jaxpr)["scan"] == 2 and names(checked(cse, jaxpr, X))["scan"] == 1


def test_effects_are_not_merged():
    f = lambda x: funcad.debug.print("{}", x)
    jaxpr = traced(lambda x: (f(x), f(x), scan(lambda c, v: (c, f(v)), x, x), scan(lambda c, v: (c, f(v)), x, x), x)[-1], X)
    assert names(optimize(jaxpr)) == {"debug_callback": 2, "scan": 2}


def test_the_passes_use_the_primitives_that_they_name():
    assert select.emit is not None and sin.emit is not None  # folding and fusion rely on it
    assert forward(traced(np.sin, X)).equations[0].primitive is sin


def test_signs_move_out_of_sums():
    for f in (lambda x: np.sum(-x), lambda x: np.sum(x * -np.sin(x)), lambda x: np.sum(-np.sin(x) * x)):
        found = optimize(traced(f, X))
        assert "neg" not in names(found) and found.equations[-1].primitive.name == "sub"
    zeros = np.zeros(3)
    for x in (zeros, -zeros, np.array([1.0, -1.0, 0.0]), np.array([np.inf, -np.inf, 1.0]), np.array([0.1, 0.2, -0.7])):
        checked(optimize, traced(lambda x: np.sum(-x), x), x)
        checked(optimize, traced(lambda x: np.sum(x * -(x + 1.0)), x), x)
    rows = np.ones((3, 2))
    assert [e.outputs[0].aval.shape for e in optimize(traced(lambda x: np.sum(-x, axis=1), rows)).equations] == [(3,), (3,)]


def test_signs_that_others_read_stay():
    for f in (lambda x: [np.sum(-x), -x], lambda x: [np.sum(x * -x), x * -x], lambda x: [np.sum(x * -np.sin(x)), -np.sin(x)]):
        assert "neg" in names(optimize(traced(f, X)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("a", "c"), [(2.0, 100.0), (100.0, 2.0), (-2.0, 3.3), (3.0, -4.0), (1.0, 8.0)])
def test_doubling_joins_the_other_factor(a: float, c: float, dtype: Any) -> None:
    tiny = np.arange(-9, 9).astype(dtype) * np.finfo(dtype).smallest_subnormal
    x = np.concatenate([special_values(dtype), tiny, np.finfo(dtype).max / np.array([2, 3, 4, 200], dtype)])
    with np.errstate(all="ignore"):
        jaxpr = checked(algebra, traced(lambda x: mul(mul(x, a), c), x), x)
        assert names(dce(jaxpr)) == {"mul": 1}


@pytest.mark.parametrize(("a", "c"), [(3.3, 2.0), (0.5, 3.0), (2.0, 0.25), (2.0, 1e308), (3.0, 5.0), (2.0, np.inf)])
def test_factors_that_round_or_overflow_stay(a: float, c: float) -> None:
    assert names(dce(algebra(traced(lambda x: mul(mul(x, a), c), X)))) == {"mul": 2}


def test_a_sum_takes_the_sign_of_a_product() -> None:
    """x * c is needed as it is, too, so its sign goes on through the product into the sum."""

    def f(x: Any, y: Any) -> Any:
        z = mul(x, 3.3)
        return [z, add(x, mul(y, neg(z)))]

    jaxpr = checked(algebra, traced(f, X, X), X, X[::-1].copy())
    assert names(dce(jaxpr)) == {"mul": 2, "sub": 1}
    needed = lambda x, z: [z, mul(x, z)]
    assert names(dce(algebra(traced(lambda x, y: needed(x, neg(y)), X, X)))) == {"neg": 1, "mul": 1}


def test_placements_at_one_place_are_subtracted() -> None:
    jaxpr = optimize(traced(funcad.grad(lambda x: funcad.numpy.sum((x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)), X))
    assert not {"neg", "add"} & set(names(jaxpr))


def test_a_tensor_product_with_a_number_is_a_product() -> None:
    f = lambda x: dot_general_p(x, 1.0, dimension_numbers=(((), ()), ((), ())))
    assert not algebra(traced(f, X)).equations
    f = lambda x, y: dot_general_p(x, y, dimension_numbers=(((), ()), ((), ())))
    assert names(checked(algebra, traced(f, np.float64(2.0), X), np.float64(2.0), X)) == {"dot_general": 1}
