"""Custom rules that are the jvp of a program: the primal must not get lost in the program of the tangents."""

import numpy as np
import pytest

import funcad as fc
from funcad import debug, lax, tree
from funcad.primitives.fused import optimization_barrier
from funcad.show.pretty import shown_as
from funcad.transforms.partial import split_jaxpr

X = np.array([0.9, -0.4, 1.3])
V = np.array([0.3, -0.7, 0.2])


def steps(x):
    return lax.while_loop(lambda s: (s[0] < 3) & (s[1][0] < 50), lambda s: (s[0] + 1, branches(s[1]) * 0.9), (0, x))[1]


def shrinking(x):
    return lax.while_loop(lambda s: np.sum(s * s) > 0.5, lambda s: np.sin(s) * 0.6, x)


def scanned(x):
    carry, ys = lax.scan(lambda c, t: ((np.sin(c[0]) * t, c[1] + 1), c[0] * c[1]), (x, 0), np.array([0.5, 1.5]), reverse=True)
    return carry[0] + ys[0] * ys[1]


def swapping(x):
    """The first carry starts linear and becomes known, the second the other way round."""
    return lax.scan(lambda c, t: ((np.ones(3), c[0] * t, c[1] + c[2]), None), (x, x * 0.5, x), np.arange(1.0, 4.0))[0][2]


def branches(x):
    return lax.cond(np.sum(x) > 0.7, lambda x: x * 0.5, np.sin, x)


def switched(x):
    return lax.switch((np.abs(x[0]) * 2).astype(np.int64), [np.sin, lambda x: x * x, lambda x: np.ones(3)], x)


def nested(x):
    return lax.scan(lambda c, t: (shrinking(c) + steps(c * t), None), x, np.array([0.5, 1.5]))[0]


def barred(x):
    return optimization_barrier(np.sin(x))[0] * x


def with_own_vmap(x):
    f = fc.custom_vmap(lambda x: np.sin(x) * x)
    f.def_vmap(lambda size, batched, x: (np.sin(x) * x, True))
    return f(x)


PROGRAMS = {
    "steps": steps,
    "shrinking": shrinking,
    "scanned": scanned,
    "swapping": swapping,
    "branches": branches,
    "switched": switched,
    "nested": nested,
    "barred": barred,
    "jit": fc.jit(lambda x: np.sin(x) * x),
    "checkpoint": fc.checkpoint(lambda x: np.sin(x) * x),
    "custom_vmap": with_own_vmap,
    "mapped": lambda x: np.mean(fc.vmap(shrinking)(np.stack([x, x * 0.5])), 0),
}

RULES = {
    "jvp": lambda f: lambda p, t: fc.jvp(f, p, t),
    "jitted": lambda f: fc.jit(lambda p, t: fc.jvp(f, p, t)),
    "checkpointed": lambda f: fc.checkpoint(lambda p, t: fc.jvp(f, p, t)),
}


def loss(f):
    return lambda x: np.sum(f(x) ** 2 * V)


def by_value(f, x):
    y = f(x)
    return np.sum(y * V) if y[0] > -100 else 0.0  # the primal has a value: `if` works


USES = {
    "value_and_grad": lambda f: fc.value_and_grad(loss(f))(X),
    "if": lambda f: fc.grad(lambda x: by_value(f, x))(X),
    "jit grad": lambda f: fc.jit(fc.value_and_grad(loss(f)))(X),
    "grad of a loop": lambda f: fc.grad(lambda x: np.sum(lax.fori_loop(0, 2, lambda i, y: f(y) * 0.5, x)))(X),
    "grad of a while": lambda f: fc.grad(
        lambda x: np.sum(lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, f(s[1])), (0, x))[1])
    )(X),
    "grad of cond": lambda f: fc.grad(lambda x: lax.cond(x[0] > 0.5, loss(f), np.sum, x))(X),
    "grad of checkpoint": lambda f: fc.grad(fc.checkpoint(loss(f)))(X),
    "linearize": lambda f: fc.linearize(fc.jit(f), X)[1](V),
    "jvp of grad": lambda f: fc.jvp(fc.grad(loss(f)), (X,), (V,))[1],
    "grad of grad": lambda f: fc.grad(lambda x: np.sum(fc.grad(loss(f))(x) * V))(X),
    "vmap of grad": lambda f: fc.vmap(fc.grad(loss(f)))(np.stack([X, -X, X * 2])),
}


@pytest.mark.share(16)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("use", USES)
def test_a_rule_that_is_the_jvp_of_the_function(use, program):
    body = PROGRAMS[program]
    wanted = USES[use](body)
    for name, rule in RULES.items():
        f = fc.custom_jvp(lambda x: body(x))
        f.defjvp(rule(body))
        for found, expected in zip(tree.leaves(USES[use](f)), tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=name)


def test_a_custom_rule_with_a_loop_inside_a_loop():
    inner = lambda x: lax.while_loop(lambda s: s > 1.0, lambda s: s * 0.6, x)
    f = fc.custom_jvp(inner)
    f.defjvp(lambda p, t: fc.jvp(inner, p, t))
    outer = lambda x: lax.while_loop(lambda s: s > 0.5, lambda s: f(s) * 0.5, x)
    for transform in (fc.grad, lambda g: fc.jit(fc.grad(g))):
        assert abs(transform(outer)(3.0) - 0.6**3 * 0.5) < 1e-15


@pytest.mark.parametrize("program", ["steps", "scanned", "branches", "switched", "swapping", "shrinking"])
def test_known_parts_of_a_transposed_program(program):
    """The transpose of the jvp's tangent, taken of the joint program itself."""
    body = PROGRAMS[program]
    joint = fc.jit(lambda x, t: fc.jvp(body, (x,), (t,))[1])
    (found,) = fc.linear_transpose(lambda t: joint(X, t), X)(V)
    np.testing.assert_allclose(found, fc.vjp(body, X)[1](V)[0], rtol=1e-12)


def test_apart_leaves_no_primal_work_in_the_linear_half():
    jaxpr = fc.jit(lambda x, t: fc.jvp(shrinking, (x,), (t,))).lower(X, V).jaxpr
    halves = split_jaxpr(jaxpr, (False, True))
    names = list(map(shown_as, halves.linear.equations))
    assert "while_loop" in list(map(shown_as, halves.forward.equations))
    assert "while_loop" not in names and "scan" in names
    assert list(halves.out_nonzero) == [False, True]


def test_effects_in_such_a_rule_happen_once(capsys):
    def body(x):
        def step(s):
            debug.print("{:.2f}", s)
            return np.sin(s) * 0.6

        return lax.while_loop(lambda s: s > 0.5, step, x)

    f = fc.custom_jvp(lambda x: body(x))
    f.defjvp(lambda p, t: fc.jvp(body, p, t))
    for transform in (fc.grad, fc.value_and_grad, lambda g: fc.jit(fc.grad(g)), lambda g: fc.grad(fc.jit(g))):
        transform(body)(2.0)
        wanted = capsys.readouterr().out
        transform(f)(2.0)
        assert capsys.readouterr().out == wanted != ""


def test_ufuncs_as_custom_functions():
    f = fc.custom_jvp(np.sin)
    f.defjvp(lambda p, t: (np.sin(*p), 10.0 * t[0]))
    assert fc.grad(f)(0.5) == fc.jit(fc.grad(f))(0.5) == 10.0
    g = fc.custom_vjp(np.sin)
    g.defvjp(lambda x: (np.sin(x), None), lambda _, ct: (10.0 * ct,))
    assert fc.grad(g)(0.5) == fc.jit(fc.grad(g))(0.5) == 10.0


COUNTED = {
    "while": lambda f: lambda x: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, f(s[1])), (0, x))[1],
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), c), x, np.arange(2))[0],
    "cond": lambda f: lambda x: lax.cond(x > -10.0, f, lambda x: x * x, x),
    "jit": fc.jit,
}


@pytest.mark.share(3)
@pytest.mark.parametrize("inner", COUNTED)
@pytest.mark.parametrize("outer", COUNTED)
def test_such_a_rule_computes_nothing_twice(outer, inner):
    calls = []

    def counted(x):
        seen = fc.pure_callback(
            lambda v: (calls.append(v), v)[1], fc.ShapeDtypeStruct((), np.float64), lax.stop_gradient(x)
        )
        return np.sin(x) * 0.9 + 0.0 * lax.stop_gradient(seen)

    body = COUNTED[outer](COUNTED[inner](counted))
    f = fc.custom_jvp(lambda x: body(x))
    f.defjvp(lambda p, t: fc.jvp(body, p, t))
    for transform in (fc.grad, lambda g: fc.jit(fc.grad(g))):
        transform(body)(0.5)
        wanted = calls.copy()
        calls.clear()
        transform(f)(0.5)
        np.testing.assert_allclose(calls, wanted)
        calls.clear()
