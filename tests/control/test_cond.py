"""cond and switch: only the taken branch runs; derivatives of every order; vmap with mixed predicates; effects."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from funcad import grad, hessian, jacrev, jit, jvp, vmap
from funcad.backends.interpreter import counters
from funcad.control.cond import cond, switch
from funcad.control.scan import scan
from funcad.control.while_loop import while_loop
from funcad.diagnosis.recording import check_jaxpr
from funcad.ir.aval import Aval
from funcad.ir.primitive import Primitive
from funcad.ir.trace import trace_function
from funcad.tree import leaves
from tests.unseen import Noted

X, W = np.array([0.4, -0.7, 1.2]), 0.7


def loop(x, w):
    return while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, np.sin(s[1] * w)), (0, x))[1]


def chosen(k, x, w, choose=switch):
    """Branches by closure and by argument; one holds a loop, so its residuals are stacks; one ignores w."""
    branches = [lambda x: np.sin(x * w) * x, lambda x: np.exp(w) * np.tanh(x), lambda x: x * 0.5, lambda x: loop(x, w)]
    return np.sum(choose(k, branches, x) * np.cos(x))


def python_switch(k, branches, *operands):
    return branches[int(k)](*operands)


def python(k, x, w):
    return chosen(k, x, w, python_switch)


TRANSFORMS = {
    "value": lambda f: f,
    "grad x": lambda f: grad(f, 1),
    "grad w": lambda f: grad(f, 2),
    "jvp": lambda f: lambda k, x, w: jvp(lambda x, w: f(k, x, w), (x, w), (x, w))[1],
    "grad of grad": lambda f: grad(lambda *a: np.sum(np.sin(grad(f, 1)(*a))), 2),
    "hvp": lambda f: lambda k, x, w: jvp(lambda x: grad(f, 1)(k, x, w), (x,), (np.cos(x),))[1],
    "reverse over forward": lambda f: grad(lambda k, x, w: jvp(lambda x: f(k, x, w), (x,), (np.cos(x),))[1], 1),
    "hessian": lambda f: hessian(f, 1),
    "three times": lambda f: grad(lambda *a: np.sum(grad(lambda *a: np.sum(np.sin(grad(f, 1)(*a))), 1)(*a)), 1),
}
quiet = pytest.mark.filterwarnings("ignore:grad. the output of")


@pytest.mark.share(4)
@quiet
@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("k", range(4))
def test_transforms(name, k):
    make = TRANSFORMS[name]
    expected = make(python)(k, X, W)
    for ours in (make(chosen), jit(make(chosen)), make(jit(chosen))):
        np.testing.assert_allclose(ours(np.int64(k), X, W), expected, rtol=1e-9, atol=1e-12)


KS = np.array([0, 3, 1, 2, 9, -4])  # clamped
XS = np.random.default_rng(0).normal(size=(6, 3))
WS = np.linspace(0.2, 1.0, 6)
ROWS = list(zip(np.clip(KS, 0, 3), XS, WS))


@pytest.mark.share(4)
@quiet
@pytest.mark.parametrize("name", TRANSFORMS)
def test_vmap_with_different_branches(name):
    make = TRANSFORMS[name]
    expected = [make(python)(*row) for row in ROWS]
    np.testing.assert_allclose(vmap(make(chosen))(KS, XS, WS), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(jit(vmap(make(chosen)))(KS, XS, WS), expected, rtol=1e-9, atol=1e-12)
    shared = jit(vmap(make(chosen), (None, 0, None)))(np.int64(3), XS, W)  # unbatched index: stays one cond
    np.testing.assert_allclose(shared, [make(python)(3, x, W) for x in XS], rtol=1e-9, atol=1e-12)


@quiet
def test_grad_of_vmap():
    for i in (1, 2):
        found = grad(lambda *a: np.sum(vmap(chosen)(*a)), i)(KS, XS, WS)
        np.testing.assert_allclose(found, [grad(python, i)(*row) for row in ROWS], rtol=1e-9)
        found = grad(lambda *a: np.sum(np.sin(vmap(grad(chosen, 1))(*a))), i)(KS, XS, WS)
        expected = [grad(lambda *a: np.sum(np.sin(grad(python, 1)(*a))), i)(*row) for row in ROWS]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    shared = grad(lambda w: np.sum(vmap(lambda k, x: chosen(k, x, w))(KS, XS)))(W)
    np.testing.assert_allclose(shared, sum(grad(python, 2)(k, x, W) for k, x, _ in ROWS), rtol=1e-9)


@quiet
def test_vmap_of_vmap():
    f = vmap(vmap(hessian(chosen, 1), (0, 0, None)), (0, 0, 0))
    found = f(KS.reshape(2, 3), XS.reshape(2, 3, 3), np.array([0.3, 0.9]))
    expected = [hessian(python, 1)(k, x, w) for (k, x, _), w in zip(ROWS, np.repeat([0.3, 0.9], 3))]
    np.testing.assert_allclose(found.reshape(6, 3, 3), expected, rtol=1e-9, atol=1e-12)


def test_known_predicate_calls_only_the_taken_branch():
    calls = Noted()

    def taken(x):
        calls.note(type(x))
        return x * 3.0

    def never(x):
        raise AssertionError("not taken")

    assert cond(True, taken, never, 2.0) == 6 and calls == [float]  # directly, untraced
    assert cond(np.float64(0), never, taken, 2.0) == 6
    assert grad(lambda x: cond(x > 1, taken, never, x))(2.0) == 3
    assert grad(grad(lambda x: cond(x > 1, taken, never, x) ** 2))(2.0) == 18
    assert switch(5, [never, taken], 2.0) == switch(-5, [taken, never], 2.0) == 6
    assert jit(lambda x: cond(True, taken, never, x))(2.0) == 6

    def factorial(n):
        return cond(n <= 1, lambda: 1, lambda: n * factorial(n - 1))

    assert factorial(5) == 120

    def power(x, n):
        return cond(n == 0, lambda: 1.0, lambda: x * power(x, n - 1))

    assert grad(power)(2.0, 3) == 12


note_log: list = []
note = Primitive(
    "note_cond",
    lambda xp, x: note_log.append(float(x)) or x,
    lambda x: Aval(x.shape, x.dtype),
    jvp=lambda t, out, x: t[0],
    batch=lambda size, args, batched: (scan(lambda c, v: (c, note(v)), (), args[0])[1], True),
    effect=True,
)


def noted(f, *args):
    del note_log[:]
    f(*args)
    return list(note_log)


def test_effects_only_in_taken_branches():
    f = lambda p, x: cond(p, lambda x: note(x * 2.0), lambda x: x * 3.0, x)
    for g in (f, jit(f), grad(f, 1), jit(grad(f, 1)), grad(jit(f), 1)):
        assert noted(g, True, 1.0) == [2] and noted(g, False, 1.0) == []
    xs, mixed = np.array([1.0, 2.0, 3.0]), np.array([True, False, True])
    assert noted(vmap(f), mixed, xs) == noted(vmap(grad(f, 1)), mixed, xs) == [2, 6]
    assert noted(jit(vmap(jit(f), (None, 0))), True, xs) == [2, 4, 6]
    np.testing.assert_array_equal(vmap(f)(mixed, xs), [2, 6, 6])
    np.testing.assert_array_equal(vmap(grad(f, 1))(mixed, xs), [2, 3, 2])
    outer = lambda p, x: cond(p, lambda: note(x + 1.0), lambda: x)  # work on captured values stays in its branch
    assert noted(jit(outer), False, 1.0) == [] and noted(jit(outer), True, 1.0) == [2]


def test_work_on_captured_values_stays_in_its_branch():
    f = jit(lambda p, x: cond(p, lambda: np.sin(x), lambda: np.exp(np.exp(x))))
    jaxpr, _ = trace_function(lambda p, x: [f(p, x)], [Aval((), np.dtype(bool)), Aval((2,), np.dtype(float))], name="test")
    (call,) = jaxpr.equations
    names = [e.primitive.name for e in call.params["jaxpr"].equations]
    assert "cond" in names and not {"sin", "exp"} & set(names)


def test_untaken_branches_neither_warn_nor_poison():
    f = lambda x: cond(x > 0, lambda x: np.log(x) * x, lambda x: 0.0 * x, x)
    xs = np.array([1.0, 0.0, -1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(vmap(f)(xs), [0, 0, 0])
        np.testing.assert_array_equal(vmap(grad(f))(xs), [1, 0, 0])
        np.testing.assert_array_equal(vmap(grad(f))(-abs(xs)), [0, 0, 0])  # nobody takes the branch
        np.testing.assert_array_equal(vmap(grad(grad(f)))(xs), [1, 0, 0])
        np.testing.assert_array_equal(grad(lambda x: np.sum(vmap(f)(x)))(xs), [1, 0, 0])
    shared = lambda w: np.sum(vmap(lambda x: cond(x > 0, lambda: np.log(x) * w + w / x, lambda: x * w))(xs))
    assert grad(shared)(2.0) == 0  # 1 from the first lane, 0 and -1 from the others


def test_nothing_is_derived_twice():
    f = jit(vmap(hessian(lambda x: cond(np.sum(x) > 0, lambda x: np.sum(np.sin(x)), lambda x: np.sum(x * x), x))))
    g = vmap(grad(lambda x: cond(np.sum(x) > 0, lambda x: np.sum(np.sin(x)), lambda x: np.sum(x * x), x)))
    f(XS), g(XS), g(XS)
    before = dict(counters)
    f(XS), g(XS)
    assert dict(counters) == before


def test_structures_scalars_and_dtypes():
    f = jit(lambda p, x: cond(p, lambda: {"a": x, "b": (1.0, None)}, lambda: {"a": 2 * x, "b": (2, None)}))
    out = f(False, X)
    np.testing.assert_array_equal(out["a"], 2 * X)
    assert out["b"] == (2.0, None)
    assert jit(lambda p, x: cond(p, lambda: x, lambda: 0.0), guards=False)(False, np.float32(1)).dtype == np.float32
    assert jit(lambda p: cond(p, lambda: 1, lambda: 2))(np.float64(0.1)) == 1  # a number is true when not zero
    assert jit(lambda k: switch(k, [lambda: 5]))(3) == 5


def test_a_branch_writes_into_its_operands_where_it_is_called_directly():
    """As docs/writes.md has it."""

    def halved(y):
        y *= 0.5
        return y

    def f(x):
        y = 1.0 * x
        return cond(y[0] > 0, halved, lambda y: y, y), y

    x, jitted = np.array([2.0, 4.0]), jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is not compiled
        for g in (f, jitted, jitted, lambda x: jvp(f, (x,), (x,))[0]):
            np.testing.assert_array_equal(g(x), [x / 2, x / 2])
    np.testing.assert_array_equal(vmap(f)(x[None]), [[x / 2], [x]])


MIXED = {  # functions of a number, whose branches return numbers of other kinds
    "int and float": lambda x: cond(x > 0, lambda: 1, lambda: 1.5),
    "digits": lambda x: cond(x > 0, lambda: np.int64(2**60 + 1), lambda: 1.5),
    "float and complex": lambda x: cond(x > 0, lambda: 1.5, lambda: 1j),
    "bool and int": lambda x: cond(x > 0, lambda: True, lambda: 2),
    "bools": lambda x: cond(x > 0, lambda: x > 1, lambda: False),
    "float32": lambda x: cond(x > 0, lambda: np.float32(0.1), lambda: 0.1),
    "switch": lambda x: switch(x.astype(int), [lambda: 1, lambda: 1.5, lambda: True]),
    "container": lambda x: cond(x > 0, lambda: {"a": 2 * x, "b": 1}, lambda: {"a": x, "b": 1.5}),
    "nested": lambda x: cond(x > 0, lambda y: cond(y > 1, lambda: 1, lambda: 1.5), lambda y: 2.5, x),
    "in jit": lambda x: jit(lambda y: cond(y > 1, lambda: 1, lambda: 1.5))(x),
    "in arithmetic": lambda x: cond(x > 0, lambda: 1, lambda: 0.1) * np.float32(3) + cond(x > 1, lambda: True, lambda: 2),
}


def check_like_un_jitted(jitted, f):
    for x in map(np.float64, (1.0, -1.0, 2.0, 0.0) * 3):
        found, expected = leaves(jitted(x)), leaves(f(x))
        assert found == expected and list(map(type, found)) == list(map(type, expected))


@pytest.mark.parametrize("name", MIXED)
def test_jit_gives_each_number_as_un_jitted(name):
    f = MIXED[name]
    check_like_un_jitted(jit(lambda x: f(x)), f)


@pytest.mark.parametrize("name", ["int and float", "nested"])
def test_a_program_in_which_numbers_adapt_is_not_called(name):
    f = MIXED[name]
    jitted = jit(lambda x: f(x))
    assert jitted.lower(np.float64(1.0)).compile()(np.float64(1.0)) == 1.0 + (name == "nested") / 2
    check_like_un_jitted(jitted, f)


def test_numbers_adapt_where_there_is_no_value():
    f = MIXED["int and float"]
    one = jit(f, guards=False)(np.float64(1.0))
    assert one == 1.0 and isinstance(one, float)
    xs = np.array([1.0, -1.0])
    for g in (vmap(f), jit(vmap(f)), lambda xs: scan(lambda c, x: (c, f(x)), None, xs)[1]):
        np.testing.assert_array_equal(g(xs), [1.0, 1.5])
    filled = jit(lambda x: cond(x > 0, lambda: np.sqrt(x), lambda: 0.0))
    assert [filled(x) for x in (4.0, -1.0) * 3] == [2.0, 0.0] * 3
    assert filled.cache_info().currsize == 1 and "cond" in str(filled.lower(4.0).jaxpr)  # one program


def test_derived_programs_are_well_formed():
    f = lambda x: cond(np.sum(x) > 0, lambda x: np.sum(np.sin(x)), lambda x: np.sum(x * x * x), x)
    for g in (jit(hessian(f)), jacrev(jacrev(f))):
        check_jaxpr(trace_function(lambda x, g=g: [g(x)], [Aval((3,), np.dtype(float))], name="test")[0])
    mapped = vmap(grad(lambda k, x: chosen(k, x, W), 1))
    avals = [Aval((2,), np.dtype(np.int64)), Aval((2, 3), np.dtype(float))]
    check_jaxpr(trace_function(lambda k, x: [mapped(k, x)], avals, name="test")[0])


def test_cond_in_scan():
    steps = np.array([0.0, 0.3, 0.5])

    def f(choose, loop, x):
        body = lambda c, v: (choose(c[0] > v, lambda c: np.sin(c), lambda c: c * c + v, c), np.sum(c))
        carry, ys = loop(body, x, steps)
        return np.sum(carry) + np.sum(ys)

    def python_loop(body, x, steps):
        total = 0.0
        for v in steps:
            x, y = body(x, v)
            total = total + y
        return x, total

    python_if = lambda p, a, b, c: a(c) if p else b(c)
    expected = [hessian(lambda x: f(python_if, python_loop, x))(x) for x in XS]
    np.testing.assert_allclose(vmap(hessian(lambda x: f(cond, scan, x)))(XS), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose([hessian(lambda x: f(cond, scan, x))(x) for x in XS], expected, rtol=1e-9, atol=1e-12)


def test_collective_in_a_branch():
    from funcad.primitives.collective import psum

    f = vmap(lambda k, x: cond(k, lambda: psum(x, "i"), lambda: x), axis_name="i")
    np.testing.assert_allclose(f(np.array([True, False, True]), np.array([1.0, 2.0, 4.0])), [7, 2, 7])


def raised(f, *args):
    with pytest.raises((TypeError, ValueError)) as error:
        f(*args)
    return str(error.value)


def test_errors_word_for_word():
    assert raised(jit(lambda p: cond(p, lambda: {"a": 1.0}, lambda: {"a": np.ones(2)})), True) == (
        "cond: the outputs of true_fun and false_fun differ at ['a']: a float and a float64 array of shape (2,).\n"
        "All branches must return the same shapes and dtypes.\n"
        "Remedy: np.broadcast_to(..., (2,)) in the branch that returns less."
    )
    assert raised(jit(lambda p: cond(p, lambda: {"a": 1.0}, lambda: (1.0,))), True) == (
        "cond: the output of false_fun must have the structure of the output of true_fun.\n"
        "the output of false_fun is a tuple of length 1, but the output of true_fun is a dict with the key 'a'."
    )
    assert raised(jit(lambda k: switch(k, [lambda: 1.0, lambda: 2.0, lambda: np.ones(1)])), 0) == (
        "switch: the outputs of branches[0] and branches[2] differ: a float and a float64 array of shape (1,).\n"
        "All branches must return the same shapes and dtypes.\n"
        "Remedy: np.broadcast_to(..., (1,)) in the branch that returns less."
    )
    assert raised(cond, np.ones(2), lambda: 1, lambda: 2) == (
        "cond: the predicate must have shape (), got a float64 array of shape (2,).\n"
        "Remedy: np.where chooses element by element; np.all or np.any make one answer of them."
    )
    assert raised(cond, "yes", lambda: 1, lambda: 2) == "cond: the predicate: expected an array or a number, got str: 'yes'"
    assert raised(cond, True, 1, 2) == (
        "cond takes functions, got the int 1.\n"
        "Remedy: np.where(pred, a, b) chooses between values, cond(pred, lambda: a, lambda: b) between computations."
    )
    assert raised(switch, 1.0, [lambda: 1, lambda: 2]) == (
        "switch: the index must be an integer of shape (), got the float 1.0.\nRemedy: index.astype(int)."
    )
    assert raised(switch, 1, []) == "switch: branches is empty; give at least one function"
    assert raised(jit(lambda p: cond(p, lambda: "a", lambda: 1)), True) == (
        "cond: the output of true_fun: expected an array or a number, got str: 'a'\n"
        "Remedy: return numbers and arrays; make text of them outside."
    )
