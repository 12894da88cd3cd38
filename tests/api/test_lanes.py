"""Un-jitted vmap of functions with control flow: split where lanes disagree, it gives what a loop gives."""

import numpy as np
import pytest

import funcad as fc
from funcad.api import split_batch
from funcad.errors import LanesError, TracerArrayConversionError, TracerBoolConversionError, TreeMismatchError

R = np.random.default_rng(7)
X = R.normal(size=200)


def looped(f, *args):
    return np.stack([f(*lane) for lane in zip(*args)])


def relu(x):
    return x if x > 0 else 0.1 * x


def newton(a):
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = (x + a / x) / 2
    return x


def collatz(n):
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def first_negative(x):
    for i, v in enumerate(x):
        if v < 0:
            return i
    return -1


def bisect(c):
    low, high = 0.0, 10.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        if middle**3 > c:
            high = middle
        else:
            low = middle
    return low


def truncated(x):
    return int(x) * 2 + len(range(int(abs(x))))


def looked_up(x):
    return [10.0, 20.0, 30.0, 40.0, 50.0][int(abs(x))] * x


def and_or(x):
    return 1.0 if x > 1 or (x < 0 and not x < -1) else x


def chained(x):
    return x**2 if -0.5 < x < 0.5 else x


def matched(x):
    match int(x):
        case 0:
            return 0.0
        case 1 | -1:
            return x
    return -x


def made_float(x):
    return float(x) + x.item()


def sorted_in_place(x):
    x = x.copy()
    for i in range(len(x)):
        for j in range(len(x) - 1 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
    return x


def filled(x):
    found = np.zeros(3)
    n = 0
    for v in x:
        if v > 0 and n < 3:
            found[n] = v
            n += 1
    return found


M = R.normal(size=(70, 5))
PROGRAMS = {
    "relu": (relu, X),
    "newton": (newton, np.exp(X * 4)),
    "collatz": (collatz, np.arange(1, 300)),
    "bisect": (bisect, abs(X)),
    "truncated": (truncated, X * 3),
    "looked_up": (looked_up, X),
    "and_or": (and_or, X),
    "chained": (chained, X),
    "matched": (matched, X),
    "made_float": (made_float, X[:90]),
    "first_negative": (first_negative, M),
    "sorted_in_place": (sorted_in_place, M),
    "filled": (filled, M),
    "any": (lambda x: x.sum() if np.any(x > 2) else x.prod(), M),
    "all": (lambda x: x.max() if (x > -1).all() else x.min(), M),
    "builtins": (lambda x: max(x) - min(x) + sorted(x)[1], M),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("n", [None, 1, 2, 7])
def test_as_a_loop_over_the_lanes(name, n):
    f, xs = PROGRAMS[name]
    for _ in range(2):  # the second call knows that the function asks for values
        np.testing.assert_allclose(fc.vmap(f)(xs[:n]), looped(f, xs[:n]), rtol=1e-12)


@pytest.mark.share(3)
@pytest.mark.filterwarnings("ignore:grad. the output of:UserWarning")
@pytest.mark.parametrize("name", ["relu", "newton", "bisect", "and_or", "chained", "matched", "looked_up"])
def test_derivatives(name):
    f, xs = PROGRAMS[name]
    slopes = looped(fc.grad(f), xs)
    np.testing.assert_allclose(fc.vmap(fc.grad(f))(xs), slopes, rtol=1e-10)
    np.testing.assert_allclose(fc.grad(lambda x: np.sum(fc.vmap(f)(x)))(xs), slopes, rtol=1e-10)
    _, tangent = fc.jvp(fc.vmap(f), (xs,), (np.ones_like(xs),))
    np.testing.assert_allclose(tangent, slopes, rtol=1e-10)
    xs = xs[:6]
    curves = looped(fc.grad(fc.grad(f)), xs)
    np.testing.assert_allclose(fc.vmap(fc.grad(fc.grad(f)))(xs), curves, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.diag(fc.hessian(lambda x: np.sum(fc.vmap(f)(x)))(xs)), curves, rtol=1e-9, atol=1e-12)


class Runs:
    """f, with how often Python ran it, and on how many lanes at a time."""

    def __init__(self, monkeypatch):
        self.together, self.alone = 0, 0
        together, alone = split_batch._Work._run_together, split_batch._Work._call

        def counted(work, *args):
            self.together += 1
            return together(work, *args)

        def counted_alone(work, lane):
            self.alone += 1
            return alone(work, lane)

        monkeypatch.setattr(split_batch._Work, "_run_together", counted)
        monkeypatch.setattr(split_batch._Work, "_call", counted_alone)


def test_as_many_runs_as_ways_through(monkeypatch):
    def counting(a):
        turns = 0
        x = a
        while abs(x * x - a) > 1e-12 * a:
            x = (x + a / x) / 2
            turns += 1
        return turns

    a = R.uniform(0.1, 1e6, 10_000)
    turns = looped(counting, a)
    runs = Runs(monkeypatch)
    np.testing.assert_array_equal(fc.vmap(counting)(a), turns)
    ways = len(set(turns.tolist()))
    assert runs.together <= ways and runs.alone < 10 * ways


def test_lanes_that_agree_run_once(monkeypatch):
    runs = Runs(monkeypatch)
    np.testing.assert_allclose(fc.vmap(newton)(np.full(1000, 2.0)), np.full(1000, 2**0.5))
    assert (runs.together, runs.alone) == (1, 0)


def test_a_function_without_control_flow_is_traced_as_ever(monkeypatch):
    runs = Runs(monkeypatch)
    np.testing.assert_allclose(fc.vmap(lambda x: np.where(x > 0, x, -x))(X), abs(X))
    assert (runs.together, runs.alone) == (0, 0)


def test_thousands_of_lanes_each_on_its_own_way():
    n = np.arange(1200)
    np.testing.assert_array_equal(fc.vmap(lambda n: sum(range(n)))(n), n * (n - 1) // 2)

    def countdown(x):
        steps = 0
        while x > 0:
            x, steps = x - 1, steps + 1
        return steps

    np.testing.assert_array_equal(fc.vmap(countdown)(n), n)


def test_what_a_lane_does_not_reach_does_not_happen():
    with np.errstate(all="raise"):
        np.testing.assert_allclose(fc.vmap(lambda x: 0.0 if x == 0 else 1 / x)(np.arange(100.0) % 3), [0, 1, 0.5] * 33 + [0])


@pytest.mark.parametrize("wrap", [lambda f: f, fc.grad], ids=["values", "grad"])
def test_an_exception_is_that_of_its_lanes(wrap):
    def f(x):
        try:
            return np.sum(np.linalg.inv(x * np.array([[1.0, 2.0], [3.0, 4.0]])))
        except np.linalg.LinAlgError:
            return -x

    xs = np.arange(100.0) % 4
    np.testing.assert_allclose(fc.vmap(wrap(f))(xs), looped(wrap(f), xs))


def test_an_exception_of_an_operation_without_any_test():
    def f(x):
        try:
            np.linalg.inv(x)
        except np.linalg.LinAlgError:
            return -1
        return 1

    np.testing.assert_array_equal(fc.vmap(f)(np.array([np.eye(2), np.zeros((2, 2))])), [1, -1])
    many = np.array([np.eye(2), np.zeros((2, 2)), np.eye(2)] * 100)
    np.testing.assert_array_equal(fc.vmap(f)(many), [1, -1, 1] * 100)


def test_exceptions_of_one_operation_that_differ_go_apart():
    def host(x):
        if x < 0:
            raise ValueError("negative")
        if x > 1:
            raise OverflowError("large")
        return x * 10

    def f(x):
        try:
            return fc.pure_callback(host, x, x, vmap_method="sequential")
        except ValueError as error:
            return -1.0 if "negative" in str(error) else 0.0
        except OverflowError:
            return -2.0

    xs = np.linspace(-1, 2, 99)
    np.testing.assert_allclose(fc.vmap(f)(xs), looped(f, xs))


def test_the_first_lane_that_raises_says_what():
    def f(x):
        if x > 0.5:
            raise ValueError(f"lane with {x:.1f}")
        return 1 / (x - 5) if x < 0 else x

    xs = np.linspace(0, 1, 101)
    with pytest.raises(ValueError, match=r"^lane with 0\.5$"):
        fc.vmap(f)(xs[xs != 0.5])
    with pytest.raises(AssertionError, match="lane 3"):
        fc.vmap(lambda i: (_ for _ in ()).throw(AssertionError(f"lane {i}")) if i in (3, 90) else i)(np.arange(100))


def test_structures_and_shapes_must_agree():
    with pytest.raises(TreeMismatchError, match=r"lane \d+\['a'\] is a tuple of length 2"):
        fc.vmap(lambda x: {"a": (x, x)} if x > 0 else {"a": x})(X)
    with pytest.raises(LanesError, match=r"different shapes at \[1\]"):
        fc.vmap(lambda n: (n, np.zeros(int(n))))(np.array([1, 2]))


def test_dtypes_of_the_lanes_are_joined():
    assert fc.vmap(lambda x: 1 if x > 0 else 2)(X).dtype == int
    assert fc.vmap(lambda x: 1 if x > 0 else 0.5)(X).dtype == float
    assert fc.vmap(lambda x: x if x > 0 else 0.0)(X.astype(np.float32)).dtype == np.float32
    assert fc.vmap(lambda x: x > 0 if x > 1 else True)(X).dtype == bool
    assert fc.vmap(lambda x: x if x > 0 else 1j)(X).dtype == complex


def test_axes_and_sizes():
    table = R.normal(size=(3, 150))
    f = lambda x, y, *, z=0.0: (x * y if x.sum() > 0 else x - y) + z
    expected = np.stack([f(c, 2.0) for c in table.T])
    np.testing.assert_allclose(fc.vmap(f, in_axes=(1, None))(table, 2.0), expected)
    np.testing.assert_allclose(fc.vmap(f, in_axes=(1, None), out_axes=1)(table, 2.0), expected.T)
    np.testing.assert_allclose(fc.vmap(f, in_axes=(1, None), chunk_size=32)(table, 2.0), expected)
    zs = np.arange(150.0)
    np.testing.assert_allclose(fc.vmap(f, in_axes=(1, None))(table, 2.0, z=zs), expected + zs[:, None])
    np.testing.assert_allclose(fc.vmap(lambda: 1.0 if np.sum([1, 2]) > 0 else 2.0, axis_size=3)(), np.ones(3))
    both = fc.vmap(lambda p: {"s": p["a"] if p["b"] > 0 else -p["a"], "n": None})({"a": X, "b": X})
    np.testing.assert_allclose(both["s"], abs(X))
    with pytest.raises(ValueError, match="out_axes is None for the output, but it depends"):
        fc.vmap(lambda x: 1.0 if x > 0 else 2.0, out_axes=None)(X)


def test_nested():
    table = R.normal(size=(12, 80))
    np.testing.assert_allclose(fc.vmap(fc.vmap(relu))(table), np.where(table > 0, table, 0.1 * table))

    def outer(row, c):
        inner = lambda x: x * c if x > c else newton(abs(x) + c * c + 0.1)
        return fc.vmap(inner)(row) if c > 0 else row

    c = R.normal(size=12)
    expected = []
    for row, k in zip(table, c):
        expected.append([x * k if x > k else newton(abs(x) + k * k + 0.1) for x in row] if k > 0 else row)
    np.testing.assert_allclose(fc.vmap(outer)(table, c), np.array(expected))
    slopes = fc.vmap(fc.grad(lambda row, k: np.sum(outer(row, k))), (0, 0))(table, c)
    np.testing.assert_allclose(slopes, looped(fc.grad(lambda row, k: np.sum(outer(row, k))), table, c))


def test_jit_inside():
    step = fc.jit(lambda x: np.sin(x) * 0.5)

    def f(x):
        while abs(x) > 0.1:
            x = step(x)
        return x

    np.testing.assert_allclose(fc.vmap(f)(X), looped(f, X), rtol=1e-12)


def test_control_flow_primitives_inside():
    def f(x):
        x = fc.fori_loop(0, 3, lambda i, c: c * 1.5, x)
        if x > 1:
            x = fc.cond(x > 2, lambda x: x - 2, lambda x: x, x)
        return fc.while_loop(lambda x: x > 0.5, lambda x: x / 2, x)

    np.testing.assert_allclose(fc.vmap(f)(X), looped(f, X), rtol=1e-12)
    slope = lambda x: fc.jvp(f, (x,), (1.0,))[1]
    np.testing.assert_allclose(fc.vmap(slope)(X), looped(slope, X))


def test_inside_jit_and_bodies_it_raises_as_ever():
    with pytest.raises(TracerBoolConversionError, match="np.where"):
        fc.jit(fc.vmap(relu))(X)
    with pytest.raises(TracerBoolConversionError, match="body of scan"):
        fc.vmap(lambda x: fc.scan(lambda c, _: (relu(c), None), x, None, 2))(X)


def test_arguments_and_what_is_captured_keep_their_values():
    given, weights, before = X.copy(), np.ones(3), X.copy()

    def f(x, w):
        w = w * 1
        if x[0] > 0:
            x[0] = 5.0
            w[1] = x[0]
        return x * w

    xs = M[:, :3].copy()
    got = fc.vmap(f, (0, None))(xs, weights)
    np.testing.assert_array_equal(xs, M[:, :3])
    np.testing.assert_allclose(got, np.stack([f(row.copy(), weights.copy()) for row in M[:, :3]]))
    assert (weights == 1).all()

    def g(x, w):
        if x > 0:
            w[0] = x
        return w.sum()

    np.testing.assert_allclose(fc.vmap(g, (0, None))(given, weights), np.where(X > 0, X + 2, 3))
    np.testing.assert_array_equal(given, before)
    assert (weights == 1).all()


def test_results_belong_to_the_user():
    table = np.ones((3, 2))
    out = fc.vmap(lambda x: table if x > 0 else table)(X)
    out[0, 0, 0] = 7.0
    assert (table == 1).all() and out[1, 0, 0] == 1


def test_no_lanes():
    with pytest.raises(TracerBoolConversionError, match="inside vmap"):
        fc.vmap(relu)(np.zeros(0))
    assert fc.vmap(lambda x: x + 1)(np.zeros(0)).shape == (0,)


def test_a_broad_handler_does_not_take_part():
    def f(x):
        try:
            positive = bool(x > 0)
        except:  # noqa: E722
            positive = True
        return x if positive else -x

    for xs in (X, X[:5]):
        for _ in range(2):
            np.testing.assert_allclose(fc.vmap(f)(xs), abs(xs))


def test_a_loop_that_reads_the_argument_between_operations_on_lanes() -> None:
    """From the loop's body on rules run at once, and rows of the lanes' operations have no tape any more."""

    def f(x, y):
        u, _ = fc.scan(lambda c, s: (c * 0.9 + s * x, None), x, np.arange(3.0))
        return np.sum(y * 0.7 + np.sin(u) * np.tanh(fc.stop_gradient(y)))

    x, y = np.linspace(-1.0, 2.0, 8).reshape(2, 4), np.linspace(0.5, 1.5, 8).reshape(2, 4)
    expected = [fc.grad(f, (0, 1))(*lane) for lane in zip(x, y)]
    for g in (fc.vmap(fc.grad(f, (0, 1))), fc.jit(fc.vmap(fc.grad(f, (0, 1))))):
        for _ in range(2):
            np.testing.assert_allclose(g(x, y), np.stack(expected, axis=1), rtol=1e-12)


class Model:
    """Which nobody looks into beforehand."""

    def swapped(self, a):
        if int(np.argmax(a[:, 0])) == 0:
            a[[0, 1]] = a[[1, 0]]
        a[0, 1:] -= a[1, 1:] * a[0, 0]
        return a


def test_a_lane_that_runs_alone_writes_its_argument_as_in_plain_python() -> None:
    model, a = Model(), np.random.default_rng(0).normal(size=(3, 2, 3))
    expected = np.array([model.swapped(x) for x in a.copy()])
    for _ in range(2):
        np.testing.assert_array_equal(fc.vmap(lambda a: model.swapped(a))(a.copy()), expected)
        np.testing.assert_array_equal(fc.vmap(lambda d: model.swapped(d["a"]))({"a": a.copy()}), expected)


@pytest.mark.parametrize("lanes", [[0.5, 0.5], [0.5, 0.6, 0.5], [0.5] * 50 + [0.6] * 40])
@pytest.mark.parametrize("convert", [float, complex, lambda x: float(np.asarray(x))])
@pytest.mark.parametrize(
    "way",
    [
        lambda f, x: fc.grad(lambda x: np.sum(fc.vmap(f)(x)))(x),
        lambda f, x: fc.jvp(fc.vmap(f), (x,), (x,)),
        lambda f, x: fc.grad(lambda s: np.sum(fc.vmap(f)(s * x)))(1.0),
        lambda f, x: fc.grad(lambda x: np.sum(fc.vmap(fc.vmap(f))(x)))(np.stack([x, x])),
    ],
)
def test_a_number_of_lanes_that_agree_cuts_no_derivative(way, convert, lanes):
    with pytest.raises(TracerArrayConversionError, match="carries a derivative"):
        way(lambda x: abs(convert(x)) * x, np.array(lanes))


def test_an_item_of_lanes_that_agree_keeps_its_derivative():
    x = np.array([0.5, 0.5])
    np.testing.assert_allclose(fc.grad(lambda x: np.sum(fc.vmap(lambda v: v * v.item())(x)))(x), 2 * x)
    read = fc.vmap(lambda v: v * float(fc.stop_gradient(v)))
    np.testing.assert_allclose(fc.grad(lambda x: np.sum(read(x)))(x), x)
    np.testing.assert_allclose(fc.jvp(read, (x,), (x,))[1], x * x)
