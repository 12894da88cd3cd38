"""Un-jitted vmap with control flow: sizes that depend on values, effects, axis names, warnings, threads."""

import contextlib
import sys
import threading
import warnings

import numpy as np
import pytest

import funcad as fc
from funcad import debug
from funcad.errors import LanesError, NanError

R = np.random.default_rng(11)
X = R.normal(size=120)
M = np.round(R.normal(size=(110, 6)), 1)
M[3], M[5] = 1.0, -1.0


def looped(f, *args):
    return np.stack([f(*lane) for lane in zip(*args)])


# -- sizes


def put(x):
    x, m = x.copy(), x > 0
    x[m] = x[m][::-1]
    x[~m] = np.arange((~m).sum())
    return x


SIZES = {
    "length": lambda x: len(x[x > 0]),
    "sum": lambda x: np.sum(x[x > 0]),
    "maximum": lambda x: x[x > 0].max() if (x > 0).any() else 0.0,
    "sorted": lambda x: np.sort(x[x > 0])[:1].sum(),
    "nonzero": lambda x: np.sum(np.nonzero(x > 0)[0]),
    "flatnonzero": lambda x: np.flatnonzero(x > 0).sum(),
    "where": lambda x: np.sum(np.where(x > 0)[0]),
    "argwhere": lambda x: np.argwhere(x > 0).sum(),
    "unique": lambda x: np.unique(x).size,
    "unique counts": lambda x: np.unique(np.round(x), return_counts=True)[1].max(),
    "compress": lambda x: np.compress(x > 0, x).sum(),
    "extract": lambda x: np.extract(x > 0, x).sum(),
    "a mask beside a slice": lambda x: x.reshape(2, 3)[:, x[:3] > 0].sum(),
    "a mask of a matrix": lambda x: x.reshape(2, 3)[x.reshape(2, 3) > 0].sum() * len(x[x < 0]),
    "written by a mask": put,
    "closed up": lambda x: np.concatenate([x[x > 0], x[x <= 0]]),
    "a list's index": lambda x: [1.0, 2.0, 3.0][int(abs(x[0]))],
    "a slice": lambda x: x[: int(abs(x[0])) + 1].sum(),
    "zeros": lambda x: np.zeros(int(abs(x[0]))).size,
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_part_the_lanes(name):
    f = SIZES[name]
    for n in (110, 3):
        for _ in range(2):
            np.testing.assert_allclose(fc.vmap(f)(M[:n]), looped(f, M[:n]))


def test_derivatives_behind_a_mask():
    f = lambda x: np.sum(np.sort(x[x > 0]) ** 2)
    np.testing.assert_allclose(fc.vmap(fc.grad(f))(M), np.where(M > 0, 2 * M, 0))
    np.testing.assert_allclose(fc.grad(lambda m: np.sum(fc.vmap(f)(m)))(M), np.where(M > 0, 2 * M, 0))


# -- effects


def loud(x):
    debug.print("at {}", x)
    if x > 0:
        debug.print("positive {}", x)
        x = x * 2
    while x > 1:
        x = x / 2
        debug.print("half {}", x)
    return x


@pytest.mark.parametrize("wrap", [lambda f: f, fc.grad], ids=["values", "grad"])
def test_effects_happen_once_lane_by_lane(wrap, capsys):
    expected = looped(wrap(loud), X)
    said = capsys.readouterr().out
    for _ in range(2):
        np.testing.assert_allclose(fc.vmap(wrap(loud))(X), expected)
        assert capsys.readouterr().out == said
    np.testing.assert_allclose(fc.vmap(fc.vmap(wrap(loud)))(X.reshape(4, 30)), expected.reshape(4, 30))
    assert capsys.readouterr().out == said


def test_effects_of_a_gradient_around_it(capsys):
    np.testing.assert_allclose(looped(fc.grad(loud), X), fc.grad(lambda x: np.sum(fc.vmap(loud)(x)))(X))
    said = capsys.readouterr().out.splitlines()
    assert said[: len(said) // 2] == said[len(said) // 2 :]


@pytest.mark.parametrize("n", [120, 5])
def test_callbacks_with_results_happen_once_lane_by_lane(n):
    calls = []

    def host(x):
        calls.append(float(x))
        return x * 10

    def f(x):
        y = fc.io_callback(host, x, x) if x > 0 else x
        return fc.io_callback(host, x, y) if y > 5 else y

    found = fc.vmap(f)(X[:n])
    seen, calls[:] = list(calls), []
    np.testing.assert_allclose(found, looped(f, X[:n]))
    assert seen == calls


def test_effects_of_a_jitted_function_inside(capsys):
    noisy = fc.jit(lambda x: debug.print("in jit {}", x) or x + 1)
    f = lambda x: noisy(x) if x > 0 else x
    expected = looped(f, X)
    said = capsys.readouterr().out
    for n in (120, 4):
        np.testing.assert_allclose(fc.vmap(f)(X[:n]), expected[:n])
        assert said.startswith(capsys.readouterr().out)


def test_effects_before_an_exception_are_those_of_the_lanes_before(capsys):
    def f(x):
        debug.print("lane {}", x)
        if x == 3:
            raise ValueError("three")
        return x

    with pytest.raises(ValueError, match="three"):
        fc.vmap(f)(np.arange(100))
    assert capsys.readouterr().out == "lane 0\nlane 1\nlane 2\nlane 3\n"


def test_draws_are_those_of_each_lane():
    def f(key, p):
        tries = 0
        while True:
            key, sub = fc.random.split(key)
            tries += 1
            if fc.random.uniform(sub) < p:
                return tries

    keys = fc.random.split(fc.random.key(3), 150)
    p = R.uniform(0.3, 1, 150)
    expected = [f(k, q) for k, q in zip(keys, p)]
    np.testing.assert_array_equal(fc.vmap(f)(keys, p), expected)


# -- axis names


def test_a_collective_before_the_lanes_part():
    def f(x):
        total = fc.psum(x, "i")
        if x > 0:
            x = x * total
        n = fc.lax.axis_index("i") if hasattr(fc, "lax") else 0
        return x + n

    expected = np.where(X > 0, X * X.sum(), X) + np.arange(120)
    np.testing.assert_allclose(fc.vmap(f, axis_name="i")(X), expected)
    np.testing.assert_allclose(fc.vmap(f, axis_name="i")(X[:3]), np.where(X > 0, X * X[:3].sum(), X)[:3] + np.arange(3))
    slope = fc.grad(lambda x: np.sum(fc.vmap(f, axis_name="i")(x)))(X)
    positive = X > 0
    np.testing.assert_allclose(slope, positive * X.sum() + X[positive].sum() + ~positive)


def test_a_collective_that_all_lanes_reach_together():
    def f(x):
        while fc.pmax(abs(x), "i") > 1:
            x = x / 2
        return x

    top = 2.0 ** -np.ceil(np.log2(abs(X).max()))
    np.testing.assert_allclose(fc.vmap(f, axis_name="i")(X), X * top)


def test_a_collective_of_some_lanes_raises():
    with pytest.raises(LanesError, match=r"psum over the axis 'i' of vmap was reached by \d+ of 120 lanes only"):
        fc.vmap(lambda x: fc.psum(x, "i") if x > 0 else x, axis_name="i")(X)
    with pytest.raises(LanesError, match="one lane after the other"):
        fc.vmap(lambda x: (x > 0 and debug.print("{}", x)) or x, axis_name="i")(X)


def test_a_collective_over_the_other_of_two_axes():
    def f(x):
        y = fc.psum(x, "rows")
        return y if x > 0 else -fc.psum(y, "columns")

    table = abs(X.reshape(10, 12)) + 0.1
    found = fc.vmap(fc.vmap(f, axis_name="columns"), axis_name="rows")(table)
    np.testing.assert_allclose(found, np.broadcast_to(table.sum(0), table.shape))


# -- the rest of the world


def test_warnings_come_from_the_lanes_that_compute():
    f = lambda x: np.log(x) if x > 0 else x
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(fc.vmap(f)(X), [f(x) for x in X])
    g = lambda x: np.log(x) if x < 0.5 else x
    with pytest.warns(RuntimeWarning, match="invalid value"):
        fc.vmap(g)(X)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        fc.vmap(g)(X)


def test_errstate_inside_is_that_of_the_line():
    def f(x):
        try:
            with np.errstate(divide="raise"):
                return 1 / (x - 3)
        except FloatingPointError:
            return -1.0

    xs = np.arange(100.0) % 5
    np.testing.assert_allclose(fc.vmap(f)(xs), looped(f, xs))


def test_debug_nans_finds_the_line():
    f = lambda x: np.log(x) if x < 0.5 else x
    with fc.debug_nans(), np.errstate(invalid="ignore"), pytest.raises(NanError, match="log made a NaN"):
        fc.vmap(f)(X)


def test_threads():
    results, f = {}, lambda x: x * 2 if x > 0.3 else x / 2

    def work(i):
        results[i] = [fc.vmap(f)(X + i) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, found in results.items():
        for y in found:
            np.testing.assert_allclose(y, looped(f, X + i))


def test_the_thread_is_as_before_after_an_error():
    def f(x):
        if x > 0:
            raise KeyboardInterrupt
        return x

    for xs in (X, X[:3], np.sort(X)):
        with pytest.raises(KeyboardInterrupt):
            fc.vmap(f)(xs)
    assert fc.grad(lambda x: x * x)(3.0) == 6.0
    np.testing.assert_allclose(fc.vmap(lambda x: x if x > 0 else -x)(X), abs(X))


# -- what is printed: once for each example, in their order, though the function is tried on all of them first


def says_name(x):
    print("x =", x)
    return x


def says_start(x):
    print("start")
    if x > 0:
        return x
    print("negative", f"{x}", float(x))
    return -x


def says_and_raises(x):
    print("here", x, flush=False)
    if x < 0:
        raise ValueError("negative")
    return x


def says_within(x):
    print("outer", x)
    return np.sum(fc.vmap(lambda v: (print("inner", v), v * x)[1])(np.arange(2.0)))


SAYING = [says_name, says_start, says_and_raises, says_within]


@pytest.mark.parametrize("f", SAYING, ids=lambda f: f.__name__)
def test_nothing_is_printed_twice(f, capsys):
    def told(call):
        with contextlib.suppress(ValueError):
            call()
        return capsys.readouterr().out

    x, out = np.array([1.0, -2.0, 3.0]), sys.stdout
    expected = told(lambda: [f(v) for v in x])
    assert [told(lambda: fc.vmap(f)(x)) for _ in range(2)] == [expected, expected]
    assert sys.stdout is out


def test_what_is_flushed_is_heard_at_once_and_other_threads_at_any_time(capsys):
    heard = []

    def f(x):
        print("soon", flush=True)
        heard.append(capsys.readouterr().out)
        other = threading.Thread(target=print, args=("other",))
        other.start()
        other.join()
        heard.append(capsys.readouterr().out)
        return x

    fc.vmap(f)(np.arange(2.0))
    assert heard == ["soon\n", "other\n"]
