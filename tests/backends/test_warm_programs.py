"""Programs that have run before: straight-line code, cached backward programs, programs taken apart for linear_transpose."""

from __future__ import annotations

import gc
import traceback
import tracemalloc

import numpy as np
import pytest

import funcad
from funcad import checkpoint, cond, grad, io_callback, jit, linear_transpose, pure_callback, scan, vjp, while_loop
from tests.agreement import places_of


def peak(call) -> float:
    gc.collect()
    tracemalloc.start()
    result = call()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del result
    return found


# ---- errors of warm programs


def inverse(m):
    s = m * 1.0
    return np.linalg.inv(s)


@pytest.mark.parametrize(
    "f",
    [
        jit(inverse),
        lambda m: scan(lambda c, _: (inverse(c), None), m, None, length=12)[0],
        jit(lambda m: scan(lambda c, _: (inverse(c), None), m, None, length=13, unroll=5)[0]),
        jit(lambda m: cond(True, inverse, lambda u: u, m)),
        jit(lambda m: while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, inverse(s[1])), (0, m))[1]),
        jit(grad(lambda m: np.sum(inverse(m)))),
    ],
    ids=["jit", "scan", "unrolled", "cond", "while", "grad"],
)
def test_a_warm_program_names_the_users_line_and_is_usable_again(f):
    good, singular = 2.0 * np.eye(2), np.zeros((2, 2))
    first = f(good)
    for _ in range(5):
        with pytest.raises(np.linalg.LinAlgError) as caught:
            f(singular)
        assert f"{__file__}:{inverse.__code__.co_firstlineno + 2} " in places_of(caught.value)
        assert not [frame for frame in traceback.extract_tb(caught.value.__traceback__) if frame.filename == "<funcad>"]
        np.testing.assert_array_equal(f(good), first)
        assert np.geterr()["divide"] == "warn"


@pytest.mark.parametrize("kind", [StopIteration, KeyboardInterrupt, GeneratorExit])
def test_any_exception_passes_through_a_loop_unchanged(kind):
    def callback(x):
        if x > 2:
            raise kind("mine")
        return x

    f = jit(lambda x: scan(lambda c, _: (pure_callback(callback, 0.0, c) + 1.0, None), x, None, length=12)[0])
    for _ in range(4):
        with pytest.raises(kind, match="mine"):
            f(0.0)
        assert np.geterr()["divide"] == "warn"


def test_a_warm_program_calls_itself():
    @jit
    def f(n):
        return pure_callback(lambda v: f(v - 1.0) if v > 0 else 1.0, 0.0, n) * 2.0 + n

    assert [float(f(4.0)) for _ in range(4)] == [58.0] * 4


# ---- buffers


def test_results_are_the_callers_own():
    captured = np.arange(4.0)
    for f in (
        lambda x: (x, x, captured, np.zeros(4)),
        lambda x: scan(lambda c, _: ((c[1], c[0]), c[0]), (x, x), None, length=12),
        lambda x: cond(True, lambda u: (u, u), lambda u: (u, u + 1.0), x),
        lambda x: vjp(lambda y: (y, y[np.array([0, 2])]), x)[1]((x, x[:2])),
    ):
        g, earlier = jit(f), []
        for i in range(5):
            x = np.arange(4.0) + i
            for _ in range(2):
                leaves = funcad.tree.leaves(g(x))
                values = [a.tobytes() for a in leaves]
                earlier += leaves
                for a in leaves:
                    a[...] = np.nan
                assert [a.tobytes() for a in funcad.tree.leaves(g(x))] == values
        roots = [captured, x, *earlier]
        assert not [1 for i, a in enumerate(roots) for b in roots[:i] if np.shares_memory(a, b)]
        np.testing.assert_array_equal(captured, np.arange(4.0))


def test_rows_let_what_they_keep_go():
    """Also one that has constants of its own: `gather`'s transpose adds into zeros."""
    n = 50_000

    def f(x):
        for _ in range(6):
            x = np.tanh(x.reshape(2, -1)[np.array([1, 0])]).ravel()
        return np.sum(x)

    x = np.linspace(-1.0, 1.0, n)
    found = [peak(lambda: grad(f)(x)) for _ in range(4)]
    assert max(found[2:]) < found[0] + 0.5 * 8 * n


def test_a_rule_that_fails_on_traced_values():
    double = funcad.ir.primitive.Primitive(
        "double",
        lambda xp, x: x * 2.0,
        lambda x: x,
        jvp=lambda tangents, out, x: double(tangents[0]),
        transpose=lambda ct, x: [ct * 2.0 if ct.strides == (8,) else ct + ct],  # tracers have no strides
    )
    for _ in range(4):
        np.testing.assert_array_equal(grad(lambda x: np.sum(double(x) * 3.0))(np.ones(3)), np.full(3, 6.0))


# ---- linear_transpose takes programs apart


def doubled(x, k):
    return jit(lambda u, w: (u * w, w * 0.5))(x, k)


def carried(x, k):
    return scan(
        lambda c, _: ((cond(c[1][0] > 0.7, lambda u: u, lambda u: u + u, doubled(*c)[0]), doubled(*c)[1]), None),
        (x, k),
        None,
        length=3,
    )[0][0]


def counted(x, k):
    def body(state):
        i, value, scale = state
        value, scale = doubled(value, scale)
        return jit(lambda n, u: (n + 1, u))(i, value * scale)[0], value * scale, scale

    return while_loop(lambda state: state[0] < 3, body, (0, x, k))[1]


@pytest.mark.share(3)
@pytest.mark.parametrize("f", [carried, counted])
@pytest.mark.parametrize("wrap", [lambda f: f, jit, checkpoint], ids=["plain", "jit", "checkpoint"])
def test_known_values_that_pass_through_programs_in_a_loop_stay_known(f, wrap):
    k, ct = np.array([1.0, -2.0, 3.0]), np.array([0.5, 1.0, -1.0])
    g = wrap(lambda x: f(x, k))
    matrix = np.stack([g(e) for e in np.eye(3)], axis=1)
    for _ in range(4):
        np.testing.assert_allclose(linear_transpose(g, np.zeros(3))(ct)[0], matrix.T @ ct, rtol=1e-13)
    np.testing.assert_allclose(jit(lambda ct: linear_transpose(g, np.zeros(3))(ct)[0])(ct), matrix.T @ ct, rtol=1e-13)


@pytest.mark.parametrize("wrap", [jit, checkpoint], ids=["jit", "checkpoint"])
def test_effects_in_a_program_that_is_taken_apart_happen_once(wrap):
    seen = []

    def inner(x, k):
        io_callback(seen.append, None, k)
        return x * k, k * 2.0

    def f(x):
        y, k = wrap(inner)(x, np.float64(3.0))
        return y * k

    for _ in range(4):
        assert linear_transpose(f, 1.0)(1.0) == (18.0,)
        assert len(seen) == 1
        seen.clear()


# ---- callbacks see the user's own error modes


def test_a_callback_warns_as_numpy_does():
    modes = []

    def callback(x):
        modes.append(np.geterr()["divide"])
        return np.log(x)

    with pytest.warns(RuntimeWarning, match="divide by zero encountered in log") as found:
        pure_callback(callback, 0.0, np.float64(0.0))
    assert modes == ["warn"] and [w.lineno for w in found] == [callback.__code__.co_firstlineno + 2]
