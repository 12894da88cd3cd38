"""Un-jitted vmap where lanes part: writes, texts, and what a loop over the lanes would cost."""

import math

import numpy as np
import pytest

import funcad as fc
from funcad.api import split_batch

R = np.random.default_rng(3)
X = np.array([[1.0, 2.0, -3.0], [-1.0, 3.0, 0.5], [2.0, -5.0, 4.0], [-0.5, -0.25, -2.0], [1.5, 2.0, 3.0]])


def looped(f, *args):
    return np.stack([np.asarray(f(*[a[i].copy() for a in args])) for i in range(len(args[0]))])


# -- writes


def written(v):
    if v[0] > 0:
        v *= 0.7
    else:
        v[1] = v[0] * 3
    v[-1] += np.sin(v[0])
    return np.sum(v * v)


def swallowing(v):
    """What a refused write raised was caught here, and the answer silently another."""
    try:
        if v[0] > 0:
            v *= 0.7
    except Exception:
        v = v * 100.0
    return np.sum(v * v)


@pytest.mark.parametrize("f", [written, swallowing])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_writes_into_lanes_that_part(f, n):
    xs = X[:n].copy()
    slopes = looped(fc.grad(f), xs)
    np.testing.assert_allclose(fc.grad(lambda x: np.sum(fc.vmap(f)(x)))(xs), slopes)
    np.testing.assert_allclose(fc.vmap(fc.grad(f))(xs), slopes)
    _, tangent = fc.jvp(lambda x: np.sum(fc.vmap(f)(x)), (xs,), (np.ones_like(xs),))
    np.testing.assert_allclose(tangent, np.sum(slopes))
    curves = fc.jvp(fc.grad(lambda x: np.sum(fc.vmap(f)(x))), (xs,), (np.ones_like(xs),))[1]
    np.testing.assert_allclose(curves, looped(lambda x: fc.hessian(f)(x) @ np.ones(3), xs))
    np.testing.assert_array_equal(xs, X[:n])


def test_a_lane_that_is_alone_writes_into_what_is_its_own():
    """Also of an argument that all lanes share, and of one that the function around it maps."""

    def f(x, shared):
        if x > 0:
            shared[0] = x
        else:
            shared[1] = 2 * x
        return np.sum(shared * shared)

    xs, shared = np.array([1.0, -2.0, 3.0]), np.array([5.0, 7.0])
    expected = np.array([f(x, shared.copy()) for x in xs])
    np.testing.assert_allclose(fc.vmap(f, in_axes=(0, None))(xs, shared), expected)
    slopes = np.sum([fc.grad(f, argnums=1)(x, shared.copy()) for x in xs], axis=0)
    np.testing.assert_allclose(fc.grad(lambda s: np.sum(fc.vmap(f, in_axes=(0, None))(xs, s)))(shared), slopes)

    def around(row):
        total = np.sum(fc.vmap(f, in_axes=(0, None))(xs, row)) if row[0] > 0 else 0.0
        return total + 10 * np.sum(row)

    rows = np.array([[5.0, 7.0], [-1.0, 2.0], [0.5, 0.25]])
    np.testing.assert_allclose(fc.vmap(around)(rows), looped(around, rows))
    np.testing.assert_array_equal(shared, [5.0, 7.0])


def first_of_the_selected(x):
    y = x[x > 0]
    if len(y):
        y[0] = 3.0
    return np.sum(y * y)


def through_a_view(x):
    y = x[x > -10]
    z = y[:2]
    z[0] = x[1] * x[2]
    y *= 2.0
    z += 1.0
    return np.sum(y * np.arange(1.0, len(y) + 1)) + z[0]


def into_out(x):
    y = x[x > -10] * 2
    np.multiply(y, x, out=y)
    y[y > 5] = 0.5
    y.sort()
    return y[0] + 2 * y[-1] + np.max(y[:2])


@pytest.mark.parametrize("f", [first_of_the_selected, through_a_view, into_out])
def test_what_a_mask_selected_is_written(f):
    values, slopes = looped(f, X), looped(fc.grad(f), X)
    for _ in range(2):
        np.testing.assert_allclose(fc.vmap(f)(X), values)
        np.testing.assert_allclose(fc.vmap(fc.grad(f))(X), slopes)
        np.testing.assert_allclose(fc.grad(lambda x: np.sum(fc.vmap(f)(x)))(X), slopes)
    compiled, gradient = fc.jit(f), fc.jit(fc.grad(f))
    for _ in range(2):
        np.testing.assert_allclose(looped(compiled, X), values)
        np.testing.assert_allclose(looped(gradient, X), slopes)


def test_what_a_mask_selected_is_written_back():
    def f(x):
        y = x[x > 0]
        y[:1] = 10.0
        x[x > 0] = y
        return x

    np.testing.assert_allclose(fc.vmap(f)(X), looped(f, X))
    np.testing.assert_allclose(np.stack([fc.jit(f)(x.copy()) for x in X]), looped(f, X))


def test_where_nobody_can_count_a_write_into_the_selected_raises():
    def f(x):
        y = x[x > 0]
        y[0] = 3.0
        return np.sum(y)

    with pytest.raises(fc.errors.TracerBoolConversionError, match="how many elements"):
        fc.jit(f, guards=False)(X[0])


# -- texts


def test_a_message_is_made_of_the_values_of_its_lane():
    def f(x):
        try:
            if x[0] > 0:
                raise ValueError(f"{x[0]:.2f} of {x}")
        except ValueError as error:
            return len(str(error)) + 100.0 * float(str(error).split()[0])
        return 0.0

    np.testing.assert_allclose(fc.vmap(f)(X), looped(f, X))


@pytest.mark.parametrize("text", [lambda x: f"{x:.1f}", str, "{}".format, lambda x: f"{x!s}"])
def test_a_text_decides(text):
    def f(x):
        return {"1.0": 10.0, "-0.0": 20.0}.get(text(x), 0.0) * x + x

    xs = np.array([1.0, 0.0, -0.0, 1.0, np.nan, 2.0])
    np.testing.assert_array_equal(fc.vmap(f)(xs), looped(f, xs))
    signs = fc.vmap(lambda x: 1.0 if text(x).startswith("-") else 0.0)(xs)
    np.testing.assert_array_equal(signs, np.signbit(xs) & ~np.isnan(xs))


def test_zeros_of_two_signs_are_two_numbers():
    xs = np.array([0.0, -0.0] * 3)
    np.testing.assert_array_equal(fc.vmap(lambda x: math.copysign(1.0, float(x)))(xs), [1, -1] * 3)


def test_what_all_lanes_print_alike_is_said_once_and_others_in_their_order():
    said = []

    def f(x, n):
        said.append(f"n is {n}")
        return x * 2

    many = np.arange(100.0)
    np.testing.assert_array_equal(fc.vmap(f)(many, np.full(100, 3)), 2 * many)
    assert said[-1] == "n is 3" and len(said) < 5 and "Tracer" not in "".join(said)
    said.clear()
    fc.vmap(f)(np.arange(5.0), np.arange(5))
    assert said[-5:] == [f"n is {i}" for i in range(5)]


def test_who_only_looks_makes_no_lane_part():
    seen = []

    def f(x, n):
        if n > 0:
            seen.append((repr(x), repr(n)))
        return x

    fc.vmap(f)(np.arange(100.0), np.full(100, 3))
    assert len(seen) == 1 and "value" not in seen[0][0] and "value=np.int64(3)" in seen[0][1]


# -- what it costs


class Runs:
    def __init__(self, monkeypatch):
        self.together = 0
        together = split_batch._Work._run_together

        def counted(work, *args):
            self.together += 1
            return together(work, *args)

        monkeypatch.setattr(split_batch._Work, "_run_together", counted)


def wandering(k, x):
    for i in range(len(k)):
        x = x + 1.5 * k[i] if k[i] > 0 else np.sin(x) * 0.9
    return x


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: fc.grad(f, argnums=1)], ids=["values", "grad"])
def test_where_each_lane_goes_its_own_way_batches_end_soon(wrap, monkeypatch):
    k, x = R.normal(size=(400, 20)), R.normal(size=400)
    runs = Runs(monkeypatch)
    np.testing.assert_allclose(fc.vmap(wrap(wandering))(k, x), looped(wrap(wandering), k, x))
    assert runs.together < 20  # of 400 ways


def test_ways_that_many_lanes_take_are_batches_beside_lanes_of_their_own(monkeypatch):
    k = np.concatenate([np.repeat(R.normal(size=(3, 20)), 500, axis=0), R.normal(size=(100, 20))])
    x = R.normal(size=len(k))
    runs = Runs(monkeypatch)
    parts = []
    joined = split_batch._Work.joined
    monkeypatch.setattr(split_batch._Work, "joined", lambda work: parts.extend(work.parts) or joined(work))
    np.testing.assert_allclose(fc.vmap(wandering)(k, x), looped(wandering, k, x))
    assert sorted([len(p.lanes) for p in parts])[-3:] == [500, 500, 500] and runs.together < 40


def test_few_lanes_that_went_apart_are_a_loop_for_some_calls(monkeypatch):
    def f(k, x):
        return wandering(k, np.sin(x) * 2 + np.cos(x) * 3)

    k, x, alike = R.normal(size=(60, 10)), R.normal(size=(60, 500)), np.ones((60, 10))
    expected, mapped = looped(f, k, x), fc.vmap(f)
    np.testing.assert_allclose(mapped(k, x), expected)
    runs = Runs(monkeypatch)
    np.testing.assert_allclose(mapped(k, x), expected)
    assert not runs.together
    for _ in range(split_batch.CALLS + 1):
        np.testing.assert_allclose(mapped(alike, x), looped(f, alike, x))
    assert runs.together == 2  # they are asked again, and from then on they are a batch


@pytest.mark.parametrize("result", ["number", "python", "integer", "array", "tuple", "mixed"])
def test_lanes_alone_give_what_they_gave(result):
    def f(x, i):
        for _ in range(i):
            x = x * 0.5
        return {
            "number": x,
            "python": float(i),
            "integer": int(i) if i % 2 else np.int32(i),
            "array": x * np.arange(2.0, dtype=np.float32),
            "tuple": (x, i, np.float32(2)),
            "mixed": x if i % 2 else 1.0,
        }[result]

    xs, n = np.arange(9.0), np.arange(9)
    found, expected = fc.vmap(f)(xs, n), [f(x, i) for x, i in zip(xs, n)]
    for column, values in zip(found, zip(*expected)) if result == "tuple" else [(found, expected)]:
        np.testing.assert_allclose(column, np.stack([np.asarray(v) for v in values]))
        assert column.dtype == np.result_type(*values)


def test_lanes_alone_raise_in_their_order():
    def f(x, i):
        for _ in range(i):
            x = x * 0.5
        if i in (5, 7):
            raise KeyError(f"lane {int(i)}")
        return x

    for _ in range(2):
        with pytest.raises(KeyError, match="lane 5"):
            fc.vmap(f)(np.arange(9.0), np.arange(9))


@pytest.mark.parametrize("counted", [True, False])
def test_a_write_in_a_body_into_what_was_selected_outside_raises(counted):
    def f(x):
        y = x[x > 0]
        m = len(y) if counted else 1

        def body(carry, _):
            y[0] = 3.0
            return carry + m, None

        return fc.scan(body, 0.0, None, length=2)[0] + np.sum(y)

    with pytest.raises(fc.errors.FuncadError):
        fc.jit(f)(abs(X[0]))


# -- what is asked inside of what runs once for each lane, and is traced there


def turns(v):
    return v * v if v > 0 else -v


def with_jvp():
    f = fc.custom_jvp(turns)
    f.defjvp(lambda p, t: (turns(p[0]), t[0]))
    return f


def with_vjp():
    f = fc.custom_vjp(turns)
    f.defvjp(lambda v: (turns(v), v), lambda v, ct: (ct,))
    return f


INSIDE = {
    "checkpoint": lambda: fc.checkpoint(turns),
    "custom_jvp": with_jvp,
    "custom_vjp": with_vjp,
    "cond": lambda: lambda v: fc.cond(v < 2.5, turns, lambda v: v * 7.0, v),
    "an index": lambda: fc.checkpoint(lambda v: np.arange(4.0)[int(abs(v))] * v),
    "places": lambda: fc.checkpoint(lambda v: np.sum(v * np.nonzero(v * np.arange(3.0) > 0.0)[0])),
    "a count": lambda: fc.checkpoint(lambda v: np.sum(np.repeat(v, (abs(v) + 0.5).astype(int)))),
}


@pytest.mark.parametrize("name", INSIDE)
def test_lanes_part_for_what_is_asked_inside_of_what_runs_once(name):
    x, f = np.array([1.0, -2.0, 3.0]), INSIDE[name]()
    for _ in range(2):  # the second time the process remembers f
        np.testing.assert_array_equal(fc.vmap(f)(x), looped(f, x))
    np.testing.assert_array_equal(fc.vmap(fc.vmap(f))(np.stack([x, -x]))[0], looped(f, x))
