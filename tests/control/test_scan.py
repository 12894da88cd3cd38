"""scan, fori_loop, map and associative_scan against the Python loops that they stand for."""

from __future__ import annotations

import operator
import pickle
import tracemalloc

import numpy as np
import pytest

from funcad import checkpoint, config, grad, hessian, jacfwd, jacrev, jit, jvp, linear_transpose, vjp, vmap
from funcad.backends.interpreter import counters
from funcad.control.loops import associative_scan, fori_loop
from funcad.control.loops import map as loop_map
from funcad.control.scan import scan
from funcad.control.while_loop import while_loop
from funcad.diagnosis.recording import check_jaxpr
from funcad.errors import TracerBoolConversionError
from funcad.ir.aval import Aval
from funcad.ir.primitive import Primitive
from funcad.ir.trace import trace_function
from funcad.show.pretty import shown_as

W, X, XS = np.array([0.7, -0.4]), np.array([0.3, 0.9]), np.array([[0.5, 1.0], [-0.3, 0.2], [0.8, -0.6]])


def python_scan(f, carry, xs=None, length=None, reverse=False, unroll=1):
    n = length if xs is None else len(xs)
    ys = [None] * n
    for i in reversed(range(n)) if reverse else range(n):
        carry, ys[i] = f(carry, None if xs is None else xs[i])
    return carry, np.stack(ys)


def loss(loop, w, x, xs, **options):
    """A scan with a captured value, a carry, inputs and outputs."""

    def body(carry, item):
        carry = np.sin(carry * w + item)
        return carry, carry * np.exp(item)

    carry, ys = loop(body, x, xs, **options)
    return np.sum(carry * w) + np.sum(ys * ys)


TRANSFORMS = {
    "value": lambda f: f,
    "grad w": lambda f: grad(f, 0),
    "grad carry": lambda f: grad(f, 1),
    "grad xs": lambda f: grad(f, 2),
    "jit grad": lambda f: jit(grad(f, 2)),
    "grad jit": lambda f: grad(jit(f), 0),
    "jvp": lambda f: lambda *a: jvp(f, a, a)[1],
    "grad of grad": lambda f: grad(lambda *a: np.sum(np.sin(grad(f, 2)(*a))), 0),
    "hvp": lambda f: lambda w, *a: jvp(lambda w: grad(f)(w, *a), (w,), (np.cos(w),))[1],
    "reverse over forward": lambda f: grad(lambda w, *a: jvp(lambda w: f(w, *a), (w,), (np.cos(w),))[1]),
    "hessian": lambda f: hessian(f, 2),
    "jit jacrev jacrev": lambda f: jit(jacrev(jacrev(f, 1), 1)),
    "jacfwd jacrev mixed": lambda f: jacfwd(jacrev(f, 0), 2),
    "grad of grad of grad": lambda f: grad(lambda w, *a: np.sum(grad(lambda w: np.sum(grad(f)(w, *a)))(w))),
}
MAPPED = {
    "vmap": (lambda f: vmap(f), None),
    "vmap grad": (lambda f: vmap(grad(f, 2)), lambda f: grad(f, 2)),
    "vmap hessian": (lambda f: vmap(hessian(f, 0)), lambda f: hessian(f, 0)),
    "jit vmap grad": (lambda f: jit(vmap(grad(f, 1))), lambda f: grad(f, 1)),
    "grad vmap": (lambda f: grad(lambda *a: np.sum(vmap(f)(*a)), 0), lambda f: grad(f, 0)),
    "grad vmap grad": (
        lambda f: grad(lambda *a: np.sum(vmap(grad(f, 2))(*a)), 1),
        lambda f: grad(lambda *a: np.sum(grad(f, 2)(*a)), 1),
    ),
}


def pair(name, **options):
    make = TRANSFORMS[name]
    ours = make(lambda *a: loss(scan, *a, **options))
    python = make(lambda *a: loss(python_scan, *a, **options))
    return ours, python


@pytest.mark.share(3)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    ours, python = pair(name)
    np.testing.assert_allclose(ours(W, X, XS), python(W, X, XS), rtol=1e-9)


@pytest.mark.parametrize("name", ["value", "grad xs", "hvp"])
@pytest.mark.parametrize("options", [{"reverse": True}, {"unroll": 2}, {"unroll": True}, {"unroll": 2, "reverse": True}])
def test_options(name, options):
    ours, python = pair(name, **options)
    np.testing.assert_allclose(ours(W, X, XS), python(W, X, XS), rtol=1e-9)


@pytest.mark.parametrize("name", MAPPED)
def test_vmap(name):
    make, one = MAPPED[name]
    batch = [np.stack([a, 1.1 * a, -a]) for a in (W, X, XS)]
    f = lambda *a: loss(scan, *a)
    expected = [(one(f) if one else f)(*row) for row in zip(*batch)]
    np.testing.assert_allclose(make(f)(*batch), expected, rtol=1e-9)


@pytest.mark.parametrize("mapped", [0, 1, 2])
def test_vmap_over_one_argument(mapped):
    args = [W, X, XS]
    args[mapped] = np.stack([args[mapped], 2 * args[mapped]])
    axes = [0 if i == mapped else None for i in range(3)]
    f = grad(lambda *a: loss(scan, *a), 1)
    rows = [[a[k] if i == mapped else a for i, a in enumerate(args)] for k in (0, 1)]
    np.testing.assert_allclose(vmap(f, axes)(*args), [f(*row) for row in rows], rtol=1e-12)


def test_scan_in_scan():
    def nested(loop, x):
        inner = lambda c, v: loop(lambda d, u: (np.sin(d * u + v), d * v), c, XS)
        return np.sum(loop(lambda c, v: (inner(c, v)[0], np.sum(inner(c, v)[1])), x, XS)[1])

    for make in (grad, hessian, lambda f: jit(hessian(f))):
        found, expected = make(lambda x: nested(scan, x))(X), make(lambda x: nested(python_scan, x))(X)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_pytrees_and_integer_carry():
    def body(carry, x):
        return {"i": carry["i"] + 1, "v": carry["v"] * x["a"] + carry["i"]}, (carry["i"], {"s": np.sum(carry["v"])})

    init = {"i": 1, "v": X}
    carry, (counts, sums) = scan(body, init, {"a": XS})
    assert carry["i"] == 4
    np.testing.assert_array_equal(counts, [1, 2, 3])
    expected = ((X * XS[0] + 1) * XS[1] + 2) * XS[2] + 3
    np.testing.assert_allclose(carry["v"], expected)
    g = grad(lambda v: np.sum(scan(body, {"i": 1, "v": v}, {"a": XS})[0]["v"]))(X)
    np.testing.assert_allclose(g, XS.prod(0))
    assert sums["s"].shape == (3,)


def test_python_scalars_take_the_dtype_that_comes_out():
    ones = np.ones(3, np.float32)
    carry, _ = scan(lambda c, x: (c + x, None), 0, ones)
    assert type(carry) is np.float32 and carry == 3
    carry, _ = scan(lambda c, x: (c * 2, None), 1, ones)
    assert carry == 8
    carry, _ = scan(lambda c, x: (0.0, None), np.float32(1), ones)  # a weak result adapts to the carry
    assert type(carry) is np.float32 and carry == 0
    assert fori_loop(0, 3, lambda i, c: c * i, ones).dtype == np.float32  # i is a Python integer


def test_length_and_empty():
    carry, ys = scan(lambda c, _: (c * 2.0, c), 1.0, length=4)
    assert carry == 16
    np.testing.assert_array_equal(ys, [1, 2, 4, 8])
    carry, ys = scan(lambda c, x: (c + x, x * 2), X, np.zeros((0, 2)))
    np.testing.assert_array_equal(carry, X)
    assert ys.shape == (0, 2)
    np.testing.assert_array_equal(grad(lambda x: np.sum(scan(lambda c, v: (c * v, None), x, np.zeros((0, 2)))[0]))(X), [1, 1])
    assert vmap(lambda x: scan(lambda c, v: (c + v, c), x, np.zeros((0, 2)))[1])(XS).shape == (3, 0, 2)


def test_body_is_traced_once_and_nothing_is_derived_twice():
    calls = []

    def body(c, x):
        calls.append(1)
        return np.sin(c * x), c

    f = lambda x: np.sum(scan(body, x, XS)[1])
    f(X)
    assert len(calls) == 1
    second = grad(lambda x: np.sum(grad(f)(x)))
    second(X)
    second(X)
    del calls[:]
    before = dict(counters)
    second(X)
    assert len(calls) == 1 and dict(counters) == before


def test_loop_invariant_residuals_are_not_stacked():
    big = np.linspace(0, 1, 50_000)

    def f(w, length):
        return np.sum(scan(lambda c, _: (np.sum(w * w) * c, None), 1.0, length=length)[0])

    def peak(length):
        """Of three calls the least: a module that is imported in one of them, without byte code, takes 8 MB for itself."""
        tops = []
        for _ in range(3):
            grad(f)(big, length)
            tracemalloc.start()
            try:
                grad(f)(big, length)
                tops.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
        return min(tops)

    assert peak(100) < peak(10) + 4 * big.nbytes
    captured = lambda w: np.sum(scan(lambda c, _: (np.tanh(c * w), None), w, length=2)[0])
    jaxpr, _ = trace_function(lambda w: [grad(captured)(w)], [Aval((3,), np.dtype(float))], name="test")
    check_jaxpr(jaxpr)
    forward, backward = [e for e in jaxpr.equations if shown_as(e) == "scan"]
    assert [v.aval.shape for v in forward.outputs] == [(3,), (2, 3), (2, 3)]  # the carry, tanh's output, the carry before


def test_memory_is_linear(monkeypatch):
    monkeypatch.setitem(vars(config), "pool_bytes", 0)  # memory of the pool is not counted

    def peak(length):
        x = np.ones(5_000)
        f = grad(lambda x: np.sum(scan(lambda c, _: (np.sin(c), None), x, length=length)[0]))
        f(x)
        tracemalloc.start()
        tops = []
        for _ in range(3):  # in one of them a program may be compiled
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            f(x)
            tops.append(tracemalloc.get_traced_memory()[1] - before)
        tracemalloc.stop()
        return min(tops)

    assert peak(80) - peak(40) == pytest.approx(40 * 40_000, rel=0.1)  # one residual per step


def test_results_do_not_alias_arguments():
    x, xs = X.copy(), XS.copy()
    carry, _ = scan(lambda c, v: (c, None), x, xs)
    carry[0] = 5
    assert x[0] == X[0]


def test_linear_transpose():
    f = lambda t: scan(lambda c, v: (c * v + t, c * 2.0), t, XS)
    ct = (np.array([0.3, -1.0]), XS * 2)
    found = linear_transpose(f, X)(ct)[0]
    np.testing.assert_allclose(found, vjp(f, X)[1](ct)[0], rtol=1e-12)
    counted = lambda t: scan(lambda c, v: ((c[0] + 1, c[1] * c[0] * v), None), (1, t), XS)[0][1]  # a counter is not linear
    np.testing.assert_allclose(linear_transpose(counted, X)(X)[0], X * 6 * XS.prod(0))


note_log: list = []
note = Primitive(
    "note",
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


def test_effects_run_once_per_iteration_and_lane():
    f = lambda x: scan(lambda c, v: (note(c * v), None), x, np.array([1.0, 2.0, 3.0]))[0]
    assert noted(f, 2.0) == noted(jit(f), 2.0) == noted(grad(f), 2.0) == [2, 4, 12]
    assert noted(vmap(f), np.array([1.0, 10.0])) == [1, 10, 2, 20, 6, 60]
    g = jit(lambda x: scan(lambda c, v: (note(c + v), None), 0.0, np.ones(2))[0] * 0 + x)
    assert noted(lambda: (g(1.0), g(1.0))) == [1, 2, 1, 2]


def test_python_if_on_the_carry_names_the_remedy():
    with pytest.raises(TracerBoolConversionError, match="inside the body of scan it has no value"):
        scan(lambda c, x: (c if c > 0 else -c, None), 1.0, length=2)


def raised(f, *args, **kwargs):
    with pytest.raises((TypeError, ValueError)) as error:
        f(*args, **kwargs)
    return str(error.value)


def test_errors_word_for_word():
    two = (np.float32(0), {"a": np.zeros(2)})
    assert raised(scan, lambda c, x: ((c[0], {"a": np.zeros(3)}), None), two, length=2) == (
        "scan: carry[1]['a'] comes in as a float64 array of shape (2,) but goes out as a float64 array of shape (3,).\n"
        "Remedy: a carry keeps its shape: start from the final shape, or stack what grows (scan's second output)."
    )
    assert raised(scan, lambda c, x: ((np.float64(0), c[1]), None), two, length=2) == (
        "scan: carry[0] comes in as a float32 scalar but goes out as a float64 scalar.\n"
        "Remedy: a carry keeps its dtype: start from float64, or return carry[0].astype(np.float32)."
    )
    assert raised(scan, lambda c, x: ((c[0], 1), None), two, length=2) == (
        "scan: carry must have the structure of init.\ncarry[1] is a leaf, but init[1] is a dict with the key 'a'."
    )

    def single(c, x):
        return c

    assert raised(scan, single, 1.0, length=2) == (
        "scan: single must return a pair (carry, y); it returned a float.\n"
        "Remedy: return carry, y; or carry, None where there is nothing to stack."
    )
    assert raised(scan, single, 1.0) == (
        "scan: nothing says how long the loop is; give length= where xs is None or has no leaves"
    )
    assert raised(scan, single, 1.0, {"a": np.zeros(2), "b": np.zeros(3)}) == (
        "scan: the leading axes of xs must have equal lengths, but\n  xs['a'] has 2\n  xs['b'] has 3"
    )
    assert raised(scan, single, 1.0, (np.zeros(2), 1.0)) == "scan: xs[1] is the float 1.0; it needs a leading axis to loop over"
    assert raised(scan, single, 1.0, np.zeros(2), length=3) == (
        "scan: length=3 differs from the length of the leading axes of xs, 2"
    )
    assert raised(scan, lambda c, x: (c, None), 1.0, length=2, unroll=0) == (
        "scan: unroll must be a positive int or a bool, got 0"
    )
    assert raised(scan, lambda c, x: (c, "y"), 1.0, length=2) == "scan: y: expected an array or a number, got str: 'y'"
    assert raised(fori_loop, 0, 2.0, lambda i, c: c, 1.0) == (
        "fori_loop: upper must be an integer of shape (), got the float 2.0.\nRemedy: int(n), or n.astype(int)."
    )
    assert raised(jit(lambda n: fori_loop(0, n, lambda i, c: c, 1.0, unroll=2)), 3).startswith(
        "fori_loop: unroll needs bounds that have values"
    )
    assert raised(loop_map, lambda x: x, ()) == "map: xs has no arrays, so nothing says how often to call the function"


@pytest.mark.share(3)
@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize("make", [grad, hessian, lambda f: jit(hessian(f)), lambda f: jacrev(jacrev(f))])
def test_fori_loop(n, make):
    def ours(x, n=n):
        return np.sum(np.exp(fori_loop(0, n, lambda i, c: np.sin(c * i + x), x)))

    def python(x, n=n):
        c = x
        for i in range(n):
            c = np.sin(c * i + x)
        return np.sum(np.exp(c))

    np.testing.assert_allclose(make(ours)(X), make(python)(X), rtol=1e-9)
    for bound in (n, np.int32(n)):  # a bound without a value: a while loop
        dynamic = jit(lambda x, n: make(lambda x: ours(x, n))(x))
        np.testing.assert_allclose(dynamic(X, bound), make(python)(X), rtol=1e-9)


def test_fori_loop_bounds():
    assert fori_loop(2, 5, lambda i, c: c * i, 1) == 24
    assert fori_loop(5, 2, lambda i, c: c * i, 1) == 1
    np.testing.assert_array_equal(fori_loop(0, np.int64(3), lambda i, c: c + i, np.zeros(2)), [3, 3])
    limits = np.array([0, 3, 1], np.int32)
    f = lambda n, x: fori_loop(0, n, lambda i, c: c * x, 1.0)
    np.testing.assert_allclose(vmap(f, (0, None))(limits, 2.0), [1, 8, 2])
    np.testing.assert_allclose(vmap(grad(f, 1), (0, None))(limits, 2.0), [0, 12, 1])
    assert fori_loop(0, 5, lambda i, c: c + i, 0, unroll=3) == 10


@pytest.mark.parametrize("size", [None, 1, 2, 3, 5])
def test_map(size):
    f = lambda row: {"y": np.sin(row) * 2, "s": np.sum(row)}
    found = loop_map(f, XS, batch_size=size)
    np.testing.assert_allclose(found["y"], np.sin(XS) * 2)
    np.testing.assert_allclose(found["s"], XS.sum(1))
    np.testing.assert_allclose(grad(lambda xs: np.sum(loop_map(f, xs, batch_size=size)["y"]))(XS), 2 * np.cos(XS))
    assert loop_map(f, XS[:0], batch_size=size)["y"].shape == (0, 2)


@pytest.mark.parametrize("n", range(8))
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(n, reverse):
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=(2, n, 3))
    affine = lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1])  # not commutative
    order = list(range(n))[:: -1 if reverse else 1]
    x, y = np.empty_like(a), np.empty_like(b)
    for k, i in enumerate(order):
        x[i], y[i] = (a[i], b[i]) if k == 0 else affine((x[order[k - 1]], y[order[k - 1]]), (a[i], b[i]))
    found = associative_scan(affine, (a, b), reverse=reverse)
    np.testing.assert_allclose(found, (x, y))
    np.testing.assert_allclose(associative_scan(np.add, a, axis=1, reverse=reverse)[:, 0 if reverse else -1], a.sum(1))
    np.testing.assert_array_equal(associative_scan(np.add, np.arange(n), reverse=False), np.cumsum(np.arange(n)))


def test_associative_scan_is_differentiated_and_logarithmic():
    calls = []

    def multiply(a, b):
        calls.append(1)
        return a * b

    x = np.linspace(0.5, 1.5, 5)
    associative_scan(multiply, np.ones(1000))
    assert len(calls) <= 2 * 10
    ours = lambda x: np.sum(np.sin(associative_scan(multiply, x)))
    python = lambda x: np.sum(np.sin(python_scan(lambda c, v: (c * v, c * v), 1.0, x)[1]))
    for make in (grad, hessian, lambda f: jit(grad(f)), lambda f: lambda x: vmap(grad(f))(np.stack([x, x]))[1]):
        expected = (grad if make not in (hessian,) else hessian)(python)(x)
        np.testing.assert_allclose(make(ours)(x), expected, rtol=1e-9)
    assert "associative_scan: axis 1 is out of bounds for elems, which is a float64 array of shape (5,)" == raised(
        associative_scan, multiply, x, axis=1
    )


def doubles_first(a, b):
    a *= 2
    return a + b


def adds_to_second(a, b):
    b += a
    return b


class Adds:
    """No function, whose code could be read."""

    def __call__(self, a, b):
        return np.add(a, b, out=a)


WRITING = {
    "first": (doubles_first, lambda a, b: 2 * a + b),
    "second": (adds_to_second, np.add),
    "operator": (operator.iadd, np.add),
    "object": (Adds(), np.add),
}


@pytest.mark.parametrize("name", WRITING)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9])
def test_associative_scan_gives_copies_to_what_writes(n, name):
    writing, pure = WRITING[name]
    x = np.arange(1.0, n + 1)
    for reverse in (False, True):
        expected = associative_scan(pure, x.copy(), reverse=reverse)
        f = lambda x, reverse=reverse: associative_scan(writing, x, reverse=reverse)
        jitted = jit(f)
        for g in (f, jitted, jitted, jitted, lambda x, f=f: vmap(f)(np.stack([x, x]))[1]):
            np.testing.assert_array_equal(g(x), expected)
            np.testing.assert_array_equal(x, np.arange(1.0, n + 1))
        weighted = lambda fn, reverse=reverse: lambda x: associative_scan(fn, x, reverse=reverse) @ np.arange(1.0, n + 1)
        np.testing.assert_array_equal(grad(weighted(writing))(x), grad(weighted(pure))(x))
        np.testing.assert_array_equal(x, np.arange(1.0, n + 1))


def test_a_write_of_associative_scan_that_no_code_shows_is_refused():
    x = np.ones(4)
    with pytest.raises(ValueError, match="read-only"):
        associative_scan(lambda a, b: exec("a *= 2") or a + b, x)
    np.testing.assert_array_equal(x, np.ones(4))


def test_axis_names_inside():
    from funcad.primitives.collective import psum

    f = lambda x: scan(lambda c, v: (c * v + psum(c, "i"), None), x, np.array([1.0, 2.0]))[0]
    xs = np.array([0.3, 1.0, -0.5])
    expected = xs
    for v in (1.0, 2.0):
        expected = expected * v + expected.sum()
    np.testing.assert_allclose(vmap(f, axis_name="i")(xs), expected)
    g = vmap(grad(f), axis_name="i")(xs)
    np.testing.assert_allclose(g, vmap(grad(lambda x: (x + psum(x, "i")) * 2 + psum(x + psum(x, "i"), "i")), axis_name="i")(xs))


def test_linear_transpose_where_known_results_of_programs_are_used_later():
    x, ct = np.arange(3.0), np.array([1.0, -2.0, 0.5])
    c = np.array([1.0, 2.0, 3.0])
    product = lambda p: p[0] * p[1]
    double = lambda x, c: (2.0 * x, c + 1.0)
    step = lambda s, _: ((s[0] * 2.0, s[1] + 1.0), s[1])
    functions = [
        lambda x: product(jit(double)(x, c)),
        lambda x: product(jit(lambda x, c: jit(double)(x, c))(x, c)),
        lambda x: product(checkpoint(double)(x, c)),
        lambda x: product(scan(step, (x, 1.0), None, length=3)[0]),
        lambda x: scan(step, (x, 1.0), None, length=3)[0][0] * np.sum(scan(step, (x, 1.0), None, length=3)[1]),
        jit(lambda x: product(scan(step, (x, c), None, length=2)[0])),
    ]
    for f in functions:
        columns = np.stack([f(e) for e in np.eye(3)], axis=1)
        np.testing.assert_allclose(linear_transpose(f, x)(ct)[0], ct @ columns)
        np.testing.assert_allclose(jit(lambda ct, f=f: linear_transpose(f, x)(ct)[0])(ct), ct @ columns)


def factored(t):
    try:
        return np.sum(np.linalg.cholesky(np.array([[t, 2.0], [2.0, t]])))
    except np.linalg.LinAlgError:
        return t


def closed(t):
    try:
        return np.sum(np.linalg.cholesky(np.array([[t, 2.0], [2.0, t]])))
    finally:
        np.zeros(1)


LOOPS = {
    "scan": lambda f, t: scan(lambda carry, x: (carry, f(x)), 0.0, np.array([5.0, t]))[1],
    "fori_loop": lambda f, t: fori_loop(0, 2, lambda i, s: f(s), t),
    "map": lambda f, t: loop_map(f, np.array([t, t])),
    "while_loop": lambda f, t: while_loop(lambda s: s < 2.0, f, t),
    "checkpoint in it": lambda f, t: loop_map(checkpoint(f), np.array([t, t])),
}


@pytest.mark.parametrize("name", LOOPS)
def test_an_error_says_that_the_try_in_a_body_was_over(name):
    loop = LOOPS[name]
    for f, told in ((factored, True), (closed, False)):
        run = lambda t, f=f: np.sum(loop(f, t))
        ways = [run, vmap(run, axis_size=2, in_axes=None), jit(run)]
        ways += [lambda t, run=run: jvp(run, (t,), (1.0,)), *([] if name in ("while_loop", "fori_loop") else [grad(run)])]
        for way in ways:
            with pytest.raises(np.linalg.LinAlgError) as caught:
                way(1.0)
            notes = "\n".join(caught.value.__notes__)
            assert notes.count("stands in a `try`") == notes.count("funcad.cond(") == told
            pickle.loads(pickle.dumps(caught.value))
