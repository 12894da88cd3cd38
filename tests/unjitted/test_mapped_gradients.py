"""`vmap(grad(f))` un-jitted: the rows of a gradient, whose values are lanes."""

import sys
import tracemalloc
import warnings

import numpy as np
import pytest

import funcad as fc
from funcad.api import split_batch
from funcad.configuration import config
from funcad.unjitted import derived_pulls, following

R = np.random.default_rng(5)
X = R.normal(size=(7, 4))
W = R.normal(size=(4, 3))


def looped(g, xs):
    return [np.stack(column) for column in zip(*[fc.tree.leaves(g(x)) for x in xs])]


def close(found, expected):
    for a, b in zip(fc.tree.leaves(found), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
        assert a.dtype == b.dtype and a.shape == b.shape


@fc.custom_vjp
def doubled(x):
    return x * 3.0


doubled.defvjp(lambda x: (x * 3.0, x), lambda x, t: (t * 2.0 * x,))


def scanned(x):
    return fc.scan(lambda c, a: (c * np.sin(a) + a, None), 1.0, x)[0]


def with_errstate(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        y = 1 / (x * 0)
        z = np.sum(np.log(np.abs(x)) * x)
    return z + np.sum(np.where(np.isfinite(y), y, x * x))


def buffered(x):
    out = np.zeros(4)
    for i in range(4):
        out[i] = x[i] ** 2
    x[0] = 7.0
    return np.sum(out * x)


PROGRAMS = {
    "product": lambda x: np.sum(np.tanh(x @ W) ** 2),
    "stencil": lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2),
    "one of several": lambda x: np.sum(np.sort(x)[::-1] * np.cumsum(x)) + np.max(x) * np.min(x),
    "linear": lambda x: np.sum(x) * 2.0,
    "one element": lambda x: x[2],
    "stopped": lambda x: np.sum(fc.stop_gradient(np.exp(x)) * x),
    "integers": lambda x: np.sum(np.floor(x) * x) + np.argmax(x) * 1.0,
    "custom": lambda x: np.sum(doubled(x)),
    "scanned": scanned,
    "errstate": with_errstate,
    "buffered": buffered,
    "of a gradient": lambda x: np.sum(fc.grad(lambda y: np.sum(np.sin(y) * x))(x) ** 2),
    "jitted": lambda x: np.sum(fc.jit(np.sin)(x) * x),
    "float32": lambda x: np.sum(x.astype(np.float32) ** 3),
    "linalg": lambda x: np.linalg.slogdet(np.outer(x, x) + np.eye(4))[1],
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_call_gives_the_gradient_of_each_example(name):
    f = PROGRAMS[name]
    g = fc.grad(f)
    for n in (7, 7, 7, 3, 1, 7):
        close(fc.vmap(g)(X[:n].copy()), looped(g, [x.copy() for x in X[:n]]))


def test_the_rows_are_those_of_a_gradient_outside_of_vmap(monkeypatch):
    """No rule runs on tangents, and no program is transposed, where the kinds of the operations are known."""

    def f(p, x):
        return np.sum(np.tanh(x @ p["w"] + p["b"]) ** 2) * p["b"][0]

    params = {"w": W, "b": np.array([0.1, -0.2, 0.3])}
    mapped_gradient = fc.vmap(fc.value_and_grad(f), in_axes=(None, 0))
    expected = looped(lambda x: fc.value_and_grad(f)(params, x), X)
    close(mapped_gradient(params, X), expected)

    def never(*args):
        raise AssertionError("a rule ran")

    monkeypatch.setattr(derived_pulls, "rule_of", never)
    monkeypatch.setattr(following.FollowingTrace, "by_rule", never)
    for xs in (X, X[:2], X * 2):
        close(mapped_gradient(params, xs), looped(lambda x: fc.value_and_grad(f)(params, x), xs))


def test_numbers_and_captured_arrays_are_those_of_the_call():
    settings = {"scale": 1.0, "shift": np.arange(4.0)}
    g = fc.vmap(fc.grad(lambda x: np.sum(np.sin(x * settings["scale"]) * settings["shift"])))
    for scale in (1.0, 2.0, -3.0, 4.0):
        settings.update(scale=scale, shift=settings["shift"] + 1.0)
        np.testing.assert_allclose(g(X), np.cos(X * scale) * scale * settings["shift"])


def test_what_else_is_mapped_is_not_what_it_is_differentiated_along():
    close(fc.vmap(lambda x: fc.grad(lambda y: np.sum(y * x))(x))(X), [X])
    f = lambda x, y: np.sum(np.sin(x) * y)
    for _ in range(3):
        found = fc.vmap(fc.grad(f, argnums=(1, 0)))(X, 2 * X)
        close(found, [np.sin(X), np.cos(X) * 2 * X])
        by_name = fc.vmap(fc.grad(f, argnums=None, argnames="y"), in_axes=(None, 0))(X[0], X)
        close(by_name, [np.sin(np.stack([X[0]] * 7))])


def test_within_other_transforms():
    def total(scale):
        return np.sum(fc.vmap(fc.grad(lambda x: np.sum(np.sin(x) * x * scale)))(X) ** 2)

    slopes = np.sum((np.cos(X) * X + np.sin(X)) ** 2)
    for _ in range(3):
        np.testing.assert_allclose(fc.grad(total)(1.5), 2 * 1.5 * slopes)
        np.testing.assert_allclose(fc.jit(total)(1.5), 1.5**2 * slopes)
        np.testing.assert_allclose(fc.vmap(total)(np.array([1.0, 2.0])), [slopes, 4 * slopes])
        np.testing.assert_allclose(fc.jvp(total, (1.5,), (1.0,))[1], 3 * slopes)


def test_errors_and_warnings_are_those_of_one_gradient():
    with pytest.raises(fc.errors.NonScalarOutputError, match="shape"):
        fc.vmap(fc.grad(lambda x: x * 2))(X)
    for _ in range(3):
        with pytest.warns(UserWarning, match="does not depend on the argument"):
            np.testing.assert_array_equal(fc.vmap(fc.grad(lambda x: 3.0))(X), 0 * X)
    g = fc.grad(lambda x: np.sum(np.log(x)))
    for _ in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fc.vmap(g)(np.zeros((2, 3)))
        assert {w.filename for w in caught} == {__file__} and len(caught) == 1


def test_the_callers_arrays_can_be_written_afterwards():
    xs, captured = X.copy(), np.arange(4.0)
    g = fc.vmap(fc.grad(lambda x: 0.5 * np.sum(x * x) + np.sum(x * captured)))
    for _ in range(4):
        found = g(xs)
        expected = xs + captured
        xs += 1.0
        captured += 1.0
        np.testing.assert_allclose(found, expected)
        found[:] = 0.0
        assert xs.flags.writeable and not np.shares_memory(found, xs)


@pytest.mark.parametrize("kind", ["custom_vjp", "custom_jvp"])
def test_custom_rules_run_on_values(kind):
    """Python's `if` in the function and in its rules parts the lanes, as it does without vmap's own short way."""
    if kind == "custom_vjp":

        @fc.custom_vjp
        def h(x):
            return x * x if x > 0 else x

        h.defvjp(lambda x: (x * x, 2 * x) if x > 0 else (x, 1.0), lambda r, ct: (ct * r,))
    else:

        @fc.custom_jvp
        def h(x):
            return x * x if x > 0 else x

        @h.defjvp
        def rule(primals, tangents):
            (x,), (t,) = primals, tangents
            return (x * x, 2 * x * t) if x > 0 else (x, t)

    x = np.array([1.0, -2.0, 3.0])
    for _ in range(3):
        np.testing.assert_allclose(fc.vmap(fc.grad(h))(x), [2.0, 1.0, 6.0])
        values, slopes = fc.vmap(fc.value_and_grad(lambda x: 3.0 * h(np.sin(x))))(x)
        np.testing.assert_allclose(values, 3 * np.where(np.sin(x) > 0, np.sin(x) ** 2, np.sin(x)))
        np.testing.assert_allclose(slopes, 3 * np.where(np.sin(x) > 0, 2 * np.sin(x), 1.0) * np.cos(x))


def test_what_is_mapped_is_told_apart():
    """The same program of as many lanes, where an operand has a value for each lane, or one for all."""
    ys = R.normal(size=(7, 4))
    g = fc.grad(lambda y, x: np.sum(np.sin(x) * y), argnums=1)
    for _ in range(4):
        np.testing.assert_allclose(fc.vmap(g)(ys, X), np.cos(X) * ys, rtol=1e-12)
        np.testing.assert_allclose(fc.vmap(g, (None, 0))(ys[0], X), np.cos(X) * ys[0], rtol=1e-12)


def in_place(x):
    x[0] = x[1] * 2.0
    return np.sum(x**2)


def by_turns(x):
    return fc.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x[0]), (0, x[1]))[1]


FURTHER = {
    "masked": lambda x: np.sum(np.where(x > 0, np.sqrt(np.where(x > 0, x, 0.0)), 0.0)),
    "tied": lambda x: np.max(x @ W) + np.sum(np.maximum(x, 0.0)),
    "parted": lambda x: np.sum(x**3) if x[0] > 0 else np.sum(np.cos(x)),
    "complex": lambda x: np.sum(np.abs(np.fft.fft(x * (1 + 2j)))),
    "in place": in_place,
    "loop": by_turns,
    "branch": lambda x: fc.cond(x[0] > 0, lambda u: np.sum(u**2), lambda u: np.sum(np.sin(u)), x),
    "several ranks": lambda x: np.sum(np.sin(x[0]) * x[1] + x[2] * x + np.outer(x, x).sum(axis=1, keepdims=True) * x),
    "products": lambda x: (np.outer(x, x) @ W).sum() * (x @ W @ W.T) @ x,
    "checkpoint": lambda x: fc.checkpoint(lambda y: np.sum(np.tanh(y @ W) ** 2))(x),
    "mapped inside": lambda x: np.sum(fc.vmap(lambda y: np.sum(np.sin(y @ x[:3])))(W) ** 2),
}
AROUND = {
    "twice": lambda f: fc.grad(lambda x: np.sum(fc.grad(f)(x) ** 2)),
    "hessian": fc.hessian,
    "jacobian": lambda f: fc.jacrev(fc.grad(f)),
    "jitted": lambda f: fc.jit(fc.grad(f)),
    "within": lambda f: lambda x: fc.grad(f)(x),
    "pullback": lambda f: lambda x: fc.vjp(f, x)[1](2.0)[0],
}


@pytest.mark.share(3)
@pytest.mark.filterwarnings("ignore:grad. the output of")
@pytest.mark.parametrize("name", FURTHER)
def test_in_every_nesting(name):
    f = FURTHER[name]
    for around in (fc.grad, *AROUND.values()):
        g = around(f)
        expected = looped(g, [x.copy() for x in X])
        for _ in range(2):
            for a, b in zip(fc.tree.leaves(fc.vmap(g)(X.copy())), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    squares = np.stack([AROUND["twice"](f)(x.copy()) for x in X])
    found = fc.grad(lambda xs: np.sum(fc.vmap(fc.grad(f))(xs) ** 2))(X.copy())
    np.testing.assert_allclose(found, squares, rtol=1e-9, atol=1e-11)
    both = fc.vmap(fc.vmap(fc.grad(f)))(np.stack([X, 2 * X]))
    np.testing.assert_allclose(both, [looped(fc.grad(f), list(xs.copy()))[0] for xs in (X, 2 * X)], rtol=1e-9, atol=1e-11)


def test_effects_happen_once_for_each_example(capsys):
    def f(x):
        fc.debug.print("at {}", x[0])
        return np.sum(x**2)

    def g(x):
        return f(x) if x[0] > 1 else np.sum(x)

    xs = np.arange(6.0).reshape(3, 2)
    close(fc.vmap(fc.grad(f))(xs), [2 * xs])
    assert capsys.readouterr().out.split("\n")[:-1] == ["at 0.0", "at 2.0", "at 4.0"]
    fc.vmap(fc.grad(g))(xs)
    assert capsys.readouterr().out.split("\n")[:-1] == ["at 2.0", "at 4.0"]


def test_an_operation_that_raises_names_its_line():
    def f(x):
        return np.sum(np.linalg.inv(np.outer(x, x) + np.eye(4) * x[0]))

    with pytest.raises(np.linalg.LinAlgError, match="ingular") as caught:
        fc.vmap(fc.grad(f))(np.zeros((2, 4)))
    assert f.__code__.co_firstlineno + 1 in [entry.lineno + 1 for entry in caught.traceback if str(entry.path) == __file__]
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        fc.vmap(fc.grad(lambda x: np.sum(1.0 / x)))(np.array([[1.0], [0.0]]))


def test_what_rows_keep_dies_on_the_way_back():
    def f(x):
        for _ in range(20):
            x = np.sin(x)
        return np.sum(x)

    xs, g = R.normal(size=(50, 2000)), fc.vmap(fc.grad(f))
    g(xs[:2])
    tracemalloc.start()
    try:
        g(xs)
        assert tracemalloc.get_traced_memory()[1] < 24 * xs.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(config.audit, reason="the audit makes again what was found")
def test_the_cost_of_a_small_one(no_doors, monkeypatch):
    """Counted calls of Python functions: of a gradient alone they are some 46."""
    monkeypatch.setattr(split_batch, "_apart", {})  # of other tests: where there are such kinds, each call asks for its own
    for f in (lambda x: np.sum(np.sin(x) ** 2), lambda x: np.sum(np.sin(x) * x)):
        g, calls = fc.vmap(fc.grad(f)), []
        for _ in range(2):
            g(X)
        sys.setprofile(lambda frame, event, arg, calls=calls: calls.append(1) if event == "call" else None)
        try:
            g(X)
        finally:
            sys.setprofile(None)
        assert len(calls) <= 62  # two of them hold what is printed until it is known that the lanes stay together


def test_products_with_a_number_of_the_lane_lie_as_numpys():
    """Where the order of memory is asked for (`copy`), after products of a lane's number and an array, one behind the other."""

    def f(x):
        for _ in range(3):
            x = np.prod(x[:3]) * x
        x = x.copy()
        x[::2] += 0.5
        return np.sum(np.sin(x))

    rows = np.linspace(0.5, 1.2, 15).reshape(3, 5)
    np.testing.assert_allclose(fc.vmap(fc.grad(f))(rows), [fc.grad(f)(x) for x in rows], rtol=1e-12)
