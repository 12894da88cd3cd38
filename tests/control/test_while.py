"""while_loop against the Python loop: values, both modes of every order, vmap with different trip counts, nesting, memory."""

from __future__ import annotations

import sys
import tracemalloc
import warnings

import numpy as np
import pytest

import funcad
from funcad import grad, hessian, jacrev, jit, jvp, linearize, vjp, vmap
from funcad.backends.interpreter import counters
from funcad.control.checkpoint import checkpoint
from funcad.control.cond import cond, switch
from funcad.control.loops import fori_loop
from funcad.control.scan import scan
from funcad.control.while_loop import while_loop
from funcad.diagnosis.recording import check_jaxpr
from funcad.errors import MissingRuleError, TracerBoolConversionError
from funcad.ir.aval import Aval
from funcad.ir.primitive import Primitive
from funcad.ir.trace import trace_function

W, X = 0.7, np.array([0.3, -0.2, 0.9])


def looped(n, w, x):
    """n iterations, with an integer carry and captured values."""
    return while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, np.sin(s[1] * w) + x), (0, x))[1]


def python(n, w, x):
    c = x
    for _ in range(int(n)):
        c = np.sin(c * w) + x
    return c


def loss(loop):
    return lambda n, w, x: np.sum(loop(n, w, x) * np.cos(x))


TRANSFORMS = {
    "value": lambda f: f,
    "jit": lambda f: jit(f),
    "jvp": lambda f: lambda n, w, x: jvp(lambda w, x: f(n, w, x), (w, x), (w, x))[1],
    "grad w": lambda f: grad(f, 1),
    "grad x": lambda f: grad(f, 2),
    "jit grad": lambda f: jit(grad(f, 2)),
    "grad jit": lambda f: grad(jit(f), 1),
    "grad of grad": lambda f: grad(lambda *a: np.sum(np.sin(grad(f, 2)(*a))), 1),
    "three times": lambda f: grad(lambda *a: np.sum(grad(lambda *a: np.sum(np.sin(grad(f, 2)(*a))), 2)(*a)), 2),
    "hvp": lambda f: lambda n, w, x: jvp(lambda x: grad(f, 2)(n, w, x), (x,), (np.sin(x),))[1],
    "reverse over forward": lambda f: grad(lambda n, w, x: jvp(lambda x: f(n, w, x), (x,), (np.sin(x),))[1], 2),
    "hessian": lambda f: hessian(f, 2),
    "jit jacrev jacrev": lambda f: jit(jacrev(jacrev(f, 2), 2)),
}
quiet = pytest.mark.filterwarnings("ignore:grad. the output of")


@pytest.mark.share(3)
@quiet
@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("n", [0, 1, 4])
def test_transforms(name, n):
    make = TRANSFORMS[name]
    expected = make(loss(python))(n, W, X) if name not in ("jit", "jit grad", "jit jacrev jacrev", "grad jit") else None
    if expected is None:
        inner = {"jit": lambda f: f, "jit grad": TRANSFORMS["grad x"], "grad jit": TRANSFORMS["grad w"]}
        expected = inner.get(name, TRANSFORMS["hessian"])(loss(python))(n, W, X)
    np.testing.assert_allclose(make(loss(looped))(n, W, X), expected, rtol=1e-9, atol=1e-12)


TRIPS = np.array([0, 3, 1, 5])
WS = np.array([0.3, 0.5, 0.7, 0.9])
XS = np.random.default_rng(0).normal(size=(4, 3))
MAPPED = ["value", "grad w", "grad x", "grad of grad", "hvp", "hessian"]


@pytest.mark.share(3)
@quiet
@pytest.mark.parametrize("name", MAPPED)
def test_vmap_with_different_trip_counts(name):
    make = TRANSFORMS[name]
    expected = [make(loss(python))(*row) for row in zip(TRIPS, WS, XS)]
    for mapped in (vmap(make(loss(looped))), jit(vmap(jit(make(loss(looped)))))):
        np.testing.assert_allclose(mapped(TRIPS, WS, XS), expected, rtol=1e-9, atol=1e-12)


@quiet
def test_grad_of_vmap():
    total = lambda loop: lambda *a: np.sum(vmap(loss(loop))(*a))
    for i in (1, 2):
        expected = [grad(loss(python), i)(*row) for row in zip(TRIPS, WS, XS)]
        np.testing.assert_allclose(grad(total(looped), i)(TRIPS, WS, XS), expected, rtol=1e-9)
        second = grad(lambda *a: np.sum(np.sin(vmap(grad(loss(looped), 2))(*a))), i)(TRIPS, WS, XS)
        expected = [grad(lambda *a: np.sum(np.sin(grad(loss(python), 2)(*a))), i)(*row) for row in zip(TRIPS, WS, XS)]
        np.testing.assert_allclose(second, expected, rtol=1e-9)
    shared = grad(lambda w: np.sum(vmap(lambda n, x: loss(looped)(n, w, x))(TRIPS, XS)))(W)
    np.testing.assert_allclose(shared, sum(grad(loss(python), 1)(n, W, x) for n, x in zip(TRIPS, XS)), rtol=1e-9)


@quiet
def test_vmap_of_vmap():
    trips = np.array([[0, 1, 2], [3, 0, 4]])
    xs = np.random.default_rng(1).normal(size=(2, 3, 2))
    for make in (TRANSFORMS["grad x"], TRANSFORMS["hessian"]):
        found = vmap(vmap(lambda n, x, make=make: make(loss(looped))(n, W, x)))(trips, xs)
        expected = [[make(loss(python))(n, W, x) for n, x in zip(*row)] for row in zip(trips, xs)]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def nested(loop, x, n, m):
    """A loop whose body is a loop of a length that grows."""
    if loop is looped:
        inner = lambda i, c: while_loop(lambda q: q[0] < m + i, lambda q: (q[0] + 1, np.sin(q[1] * 1.1) + x), (0, c))[1]
        return while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, inner(*s)), (0, x))[1]
    c = x
    for i in range(int(n)):
        for _ in range(int(m) + i):
            c = np.sin(c * 1.1) + x
    return c


@quiet
def test_while_in_while():
    f = lambda loop: lambda x, n, m: np.sum(np.exp(nested(loop, x, n, m)))
    second = lambda loop: grad(lambda *a: np.sum(np.sin(grad(f(loop))(*a))))
    for ours, expected in (
        (f(looped), f(python)),
        (grad(f(looped)), grad(f(python))),
        (second(looped), second(python)),
        (hessian(f(looped)), hessian(f(python))),
        (jit(hessian(f(looped))), hessian(f(python))),
    ):
        np.testing.assert_allclose(ours(X, 3, 1), expected(X, 3, 1), rtol=1e-9)
    trips = np.array([0, 3, 1]), np.array([2, 0, 1])
    for make in (lambda loop: grad(f(loop)), second):
        expected = [make(python)(*row) for row in zip(XS[:3], *trips)]
        np.testing.assert_allclose(vmap(make(looped))(XS[:3], *trips), expected, rtol=1e-9)


def test_while_in_scan_and_cond_in_while():
    lengths = np.array([2, 0, 3])

    def ours(x):
        carry, ys = scan(lambda c, n: (looped(n, 0.9, c), c * c), x, lengths)
        return np.sum(np.cos(carry)) + np.sum(ys)

    def unrolled(x):
        total = 0.0
        for n in lengths:
            total, x = total + np.sum(x * x), python(n, 0.9, x)
        return np.sum(np.cos(x)) + total

    np.testing.assert_allclose(grad(ours)(X), grad(unrolled)(X), rtol=1e-9)
    np.testing.assert_allclose(hessian(ours)(X), hessian(unrolled)(X), rtol=1e-9)
    found = jit(vmap(jacrev(jacrev(ours))))(XS)
    np.testing.assert_allclose(found, [hessian(unrolled)(x) for x in XS], rtol=1e-9)

    def branching(x, if_, loop):
        step = lambda i, c: if_(i % 2 == 0, lambda c: np.sin(c) * x, lambda c: c * c + x, c)
        return loop(step, x)

    three = lambda step, x: while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, step(*s)), (0, x))[1]
    by_hand = lambda step, x: step(2, step(1, step(0, x)))
    python_if = lambda p, a, b, c: a(c) if p else b(c)
    f = lambda x: np.sum(branching(x, cond, three))
    g = lambda x: np.sum(branching(x, python_if, by_hand))
    np.testing.assert_allclose(hessian(f)(X), hessian(g)(X), rtol=1e-9)
    np.testing.assert_allclose(vmap(hessian(f))(XS), [hessian(g)(x) for x in XS], rtol=1e-9)


def test_stopped_lanes_neither_fail_nor_poison():
    """After its last step a lane is at a point where another step would give inf, NaN or never end."""

    def root_chain(x):  # sqrt of a negative number after the loop has stopped
        return while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1.0, s[1] + np.sqrt(s[0])), (x, 0.0 * x))[1]

    xs = np.array([0.5, 2.5, -1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values, slopes = vmap(root_chain)(xs), vmap(grad(root_chain))(xs)
    np.testing.assert_allclose(values, [0.5**0.5, 2.5**0.5 + 1.5**0.5 + 0.5**0.5, 0])
    np.testing.assert_allclose(slopes, [0.5 * 0.5**-0.5, 0.5 * (2.5**-0.5 + 1.5**-0.5 + 0.5**-0.5), 0])
    scaled = lambda w: np.sum(
        vmap(lambda x: while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1.0, s[1] + w * np.log(s[0])), (x, 0.0))[1])(xs)
    )
    assert grad(scaled)(2.0) == pytest.approx(np.log([0.5, 2.5, 1.5, 0.5]).sum())

    def endless(x):  # with x = 0 the inner loop would not end
        inner = lambda v: while_loop(lambda z: z < 10.0, lambda z: z + v, 0.0)
        return while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1.0, s[1] + inner(s[0])), (x, 0.0))[1]

    np.testing.assert_allclose(vmap(endless)(np.array([1.0, 3.0, 0.0])), [10, 10 + 10 + 12, 0])


@quiet
def test_idle_lanes_do_not_poison_second_derivatives():
    """A lane that never enters the loop has no residuals: it borrows them, with the index of the branch that left them."""

    def f(n, x, loop=fori_loop, choose=switch):
        branches = [lambda c: c / (1.5 + np.sin(x)), lambda c: np.tanh(c), lambda c: c * c]
        return np.sum(np.sin(loop(0, n, lambda i, c: choose(n, branches, c) * x, x)))

    def by_hand(n, x):
        def loop(lower, upper, body, c):
            for i in range(lower, upper):
                c = body(i, c)
            return c

        return f(n, x, loop, lambda n, branches, c: branches[min(n, 2)](c))

    second = lambda f: lambda n, x: np.sum(np.sin(grad(f, 1)(n, x)))
    trips = np.array([0, 2, 1, 3])
    expected = [grad(second(by_hand), 1)(int(n), x) for n, x in zip(trips, XS)]
    found = grad(lambda n, xs: np.sum(np.sin(vmap(grad(f, 1))(n, xs))), 1)(trips, XS)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(vmap(grad(second(f), 1))(trips, XS), expected, rtol=1e-9, atol=1e-12)


def test_newton():
    def root(a):
        return while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), a)

    a = np.array([0.5, 2.0, 9.0])
    np.testing.assert_allclose(vmap(root)(a), a**0.5)
    np.testing.assert_allclose(vmap(grad(root))(a), 0.5 * a**-0.5, rtol=1e-6)
    np.testing.assert_allclose(vmap(grad(grad(root)))(a), -0.25 * a**-1.5, rtol=1e-4)


def test_pullback_is_reusable_and_linearize_too():
    f = lambda x: looped(3, W, x)
    _, pullback = vjp(f, X)
    first = pullback(X)[0]
    np.testing.assert_array_equal(pullback(X)[0], first)
    _, f_jvp = linearize(f, X)
    np.testing.assert_allclose(f_jvp(X) @ X, first @ X)
    both = grad(lambda x: np.sum(linearize(f, x)[1](X)) + np.sum(vjp(f, x)[1](X)[0]) + np.sum(linearize(f, x)[1](2 * X)))
    unrolled = lambda x: python(3, W, x)
    expected = grad(lambda x: 3 * np.sum(jvp(unrolled, (x,), (X,))[1]) + np.sum(vjp(unrolled, x)[1](X)[0]))
    np.testing.assert_allclose(both(X), expected(X), rtol=1e-9)


def test_one_pullback_used_twice_under_grad():
    """The same stack of residuals is read twice: its cotangents are added."""

    def twice(f):
        def g(x):
            _, f_jvp = linearize(f, x)
            return np.sum(np.sin(f_jvp(X)) * f_jvp(2 * X))

        return grad(g)

    expected = twice(lambda x: python(3, W, x))(X)
    np.testing.assert_allclose(twice(lambda x: looped(3, W, x))(X), expected, rtol=1e-9)


def peak(f, *args):
    f(*args)
    tracemalloc.start()
    f(*args)
    top = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return top


def test_memory_is_linear_and_checkpoint_lowers_it(monkeypatch):
    monkeypatch.setattr(sys.modules["funcad.backends.engines"], "LONG_LOOP", 10**9)  # no compiler, which takes memory too

    def body(c):
        for _ in range(5):
            c = np.sin(c) * np.cos(c)
        return c

    def f(step, n):
        g = lambda x: np.sum(while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, step(s[1])), (0, x))[1])
        return peak(grad(g), np.ones(2_000))

    few, more, most = f(body, 10), f(body, 20), f(body, 40)
    assert most - more == pytest.approx(2 * (more - few), rel=0.1)
    saved = checkpoint(body)
    assert f(saved, 40) - f(saved, 20) == pytest.approx(20 * 16_000, rel=0.2)  # the carry of each iteration
    assert f(saved, 40) < most / 6


def test_checkpointed_body_gives_the_same_derivatives():
    step = lambda c: np.sin(c) * c
    f = lambda step: lambda x, n: np.sum(while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, step(s[1])), (0, x))[1])
    for make in (grad, hessian, lambda f: vmap(hessian(f), (0, None)), lambda f: jit(grad(f))):
        x = XS if make not in (grad, hessian) else X
        np.testing.assert_allclose(make(f(checkpoint(step)))(x, 3), make(f(step))(x, 3), rtol=1e-12)


def test_traced_once_and_derived_once():
    calls = []

    def body(c):
        calls.append(1)
        return np.sin(c)

    f = lambda x: np.sum(while_loop(lambda c: np.sum(c) > 1.0, body, x))
    f(X + 1)
    assert len(calls) == 1
    second = hessian(f)
    second(X + 1)
    second(X + 1)
    before = dict(counters)
    second(X + 1)
    assert dict(counters) == before


def test_derived_programs_are_well_formed():
    args = [Aval((2,), np.dtype(np.int64)), Aval((2,), np.dtype(float)), Aval((2, 3), np.dtype(float))]
    total = lambda *a: np.sum(vmap(loss(looped))(*a))
    for f in (vmap(grad(loss(looped), 2)), vmap(hessian(loss(looped), 2)), grad(total, 2)):
        check_jaxpr(trace_function(lambda *a, f=f: [f(*a)], args, name="test")[0])


def test_arguments_written_later_do_not_change_the_derivative():
    for n in (3, 30_000):
        x = np.full(n, 2.0)
        _, pullback = vjp(lambda x: while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] * s[1]), (0, x))[1], x)
        try:
            x[:] = 7.0
        except ValueError:
            pass
        np.testing.assert_allclose(pullback(np.ones(n))[0], 32.0)


note_log: list = []
note = Primitive(
    "note_while",
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


def test_effects():
    f = lambda n, x: while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, note(s[1] * 2.0)), (0, x))[1]
    assert noted(f, 3, 1.0) == noted(jit(f), 3, 1.0) == noted(grad(f, 1), 3, 1.0) == [2, 4, 8]
    assert noted(vmap(f, (None, 0)), 2, np.array([1.0, 10.0])) == [2, 20, 4, 40]
    trips, xs = np.array([0, 2, 1]), np.array([1.0, 10.0, 100.0])
    assert noted(vmap(f), trips, xs) == [20, 40, 200]  # lane by lane, each with its own iterations only
    np.testing.assert_array_equal(vmap(f)(trips, xs), [1, 40, 200])
    np.testing.assert_array_equal(grad(lambda xs: np.sum(vmap(f)(trips, xs)))(xs), [1, 4, 2])
    squares = lambda n, x: while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, note(s[1] * s[1])), (0, x))[1]
    with pytest.raises(MissingRuleError, match="the effects cannot be kept apart"):
        vmap(grad(squares, 1))(trips, xs)


def raised(f, *args):
    with pytest.raises((TypeError, ValueError)) as error:
        f(*args)
    return str(error.value)


def test_errors_word_for_word():
    below = lambda c: c["x"] < 3
    assert raised(while_loop, below, lambda c: {"x": np.ones(2) * c["x"]}, {"x": 0.0}) == (
        "while_loop: carry['x'] comes in as a float but goes out as a float64 array of shape (2,).\n"
        "Remedy: a carry keeps its shape: start from the final shape, or stack what grows (scan's second output)."
    )

    def step(c):
        return (c["x"],)

    assert raised(while_loop, below, step, {"x": 0.0}) == (
        "while_loop: the value returned by step must have the structure of init_val.\n"
        "the value returned by step is a tuple of length 1, but init_val is a dict with the key 'x'."
    )

    def test(c):
        return c

    assert raised(while_loop, test, lambda c: c, X) == (
        "while_loop: test must return one bool of shape (), got a float64 array of shape (3,).\n"
        "Remedy: compare it (x > 0); reduce an array of bools with np.all or np.any."
    )
    assert raised(jit(lambda n: fori_loop(0, n, lambda i, c: (c, c), 1.0)), 3) == (
        "fori_loop: the value returned by <lambda> must have the structure of init_val.\n"
        "the value returned by <lambda> is a tuple of length 2, but init_val is a leaf."
    )
    with pytest.raises(TracerBoolConversionError, match="inside the condition of while_loop it has no value"):
        while_loop(lambda c: c < 1 and c > 0, lambda c: c, 1.0)


@pytest.mark.parametrize("engine", ["numpy", "native", "interpreter"])
def test_a_long_loop_that_began_in_python_goes_on_in_a_program(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["funcad.backends.engines"], "LONG_LOOP", 40)
    met = []

    def body(carry):
        funcad.debug.callback(lambda n: met.append(int(n)), carry[0])
        return carry[0] + 1, carry[1] + carry[0] / 7.0, (carry[2][0] * 0.5,)

    with funcad.config.set(engine=engine):
        n, total, (x,) = funcad.while_loop(lambda carry: carry[0] < 100, body, (0, 0.0, (np.ones(3),)))
        plain = funcad.while_loop(lambda c: c < 1000.0, lambda c: c + 1.0, 0.0)
    assert n == 100 and plain == 1000.0 and met == list(range(100))
    expected = 0.0
    for i in range(100):
        expected += i / 7.0
    assert total == expected
    np.testing.assert_array_equal(x, 0.5**100 * np.ones(3))
