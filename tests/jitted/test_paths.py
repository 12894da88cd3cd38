"""Python's control flow on values under jit: the paths of a function, found by recording, run compiled."""

from __future__ import annotations

import numpy as np
import pytest

import funcad as fc
from funcad.backends.interpreter import counters
from funcad.errors import NotCompiledWarning, TracerBoolConversionError
from tests.unseen import unseen


def newton(a):
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = (x + a / x) / 2
    return x


def relu(x):
    return x * 3.0 if x > 0 else x * 0.1


def early(x):
    s = 0.0
    for v in x:
        if s > 1:
            break
        s = s + v * v
    return s


def matching(x):
    match int(x):
        case 0:
            return x + 1.0
        case 1 | 2:
            return x * 2.0
        case n if n > 5:
            return x - n
    return -x


def words(x):
    assert x > -10 and not x > 100 or x == 1000
    return sum([v for v in (x, 2 * x, x * x) if v > 1.0]) + (1.0 if 0 < x < 1 else 0.0)


def counted(x):
    s = 0.0 * x
    for i in range(int(x) % 4):
        s = s + i * x
    return [0.5, 1.5, 2.5][x.astype(int) % 3 if hasattr(x, "astype") else 0] * s


FUNCTIONS = {"newton": newton, "relu": relu, "matching": matching, "words": words, "counted": counted}
VALUES = [np.float64(v) for v in (0.5, 2.0, 7.0, 0.25, 1.0, 1000.0)]


@pytest.mark.share(8)
@pytest.mark.filterwarnings("ignore:.*does not depend")
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("engine", ["native", "numpy", "interpreter"])
def test_values_and_derivatives(name, engine):
    f = FUNCTIONS[name]
    derived = {
        "value": lambda g: g,
        "grad": fc.grad,
        "second": lambda g: fc.grad(fc.grad(g)),
        "jvp": lambda g: lambda x: fc.jvp(g, (x,), (x,))[1],
        "hvp": lambda g: lambda x: fc.jvp(fc.grad(g), (x,), (x,))[1],
        "other hvp": lambda g: fc.grad(lambda x: fc.jvp(g, (x,), (np.float64(1.0),))[1]),
    }
    with fc.config.set(engine=engine):
        for transform in derived.values():
            inside, outside = fc.jit(transform(f)), transform(fc.jit(f))
            for _ in range(3):
                for x in VALUES:
                    expected = transform(f)(x)
                    np.testing.assert_allclose(inside(x), expected, rtol=1e-9, atol=1e-12)
                    np.testing.assert_allclose(outside(x), expected, rtol=1e-9, atol=1e-12)


def test_arrays_and_early_exit():
    f = fc.jit(early)
    for x in (np.arange(6.0), np.full(6, 0.1), np.full(6, 0.6), np.arange(6.0)) * 2:
        assert f(x) == early(x)
        np.testing.assert_allclose(fc.jit(fc.grad(early))(x), fc.grad(early)(x))
        np.testing.assert_allclose(fc.grad(f)(x), fc.grad(early)(x))


def test_without_guards_as_before():
    with pytest.raises(TracerBoolConversionError, match="np.where"):
        fc.jit(relu, guards=False)(1.0)
    with pytest.raises(TracerBoolConversionError):
        fc.jit(lambda x: fc.lax.scan(lambda c, v: (c if v > 0 else -c, v), x, np.ones(3))[0])(1.0)
    with pytest.raises(TracerBoolConversionError):
        fc.jit(fc.vmap(relu))(np.ones(3))
    for run in (fc.checkpoint(relu), lambda x: fc.while_loop(lambda c: c > 0, relu, x)):
        with pytest.raises(TracerBoolConversionError):
            fc.jit(run)(1.0)


def test_effects_happen_once_and_in_order():
    @fc.jit
    def f(x):
        fc.debug.callback(lambda v: log.append(("first", float(v))), x)
        if x > 0:
            return x * 2
        fc.debug.callback(lambda v: log.append(("negative", float(v))), x)
        if x < -1:
            fc.debug.callback(lambda v: log.append(("large", float(v))), x)
        return x * 3

    for v in (1.0, -1.0, -2.0, -2.0, 1.0, -1.0, 1.0, -2.0, 3.0):
        log: list = []
        expected = [("first", v)] + [("negative", v)] * (v < 0) + [("large", v)] * (v < -1)
        assert f(v) == (2 * v if v > 0 else 3 * v)
        assert log == expected
        log.clear()
        assert fc.grad(f)(v) == (2.0 if v > 0 else 3.0)
        assert log == expected


def test_no_wrong_path_starts():
    @fc.jit
    def f(x, i):
        if i < 3:
            return x[int(i)]
        return x[0]

    x = np.arange(3.0) + 1
    for i in (0, 0, 1, 7, 7, 2, 100):
        assert f(x, i) == (x[i] if i < 3 else x[0])


def test_a_turn_of_a_loop_is_compiled_once():
    f = fc.jit(newton)
    for a in (2.0, 2.0, 2.0, 1e2, 1e4, 1e9, 1e2, 1e4, 1e9):
        assert f(a) == newton(a)
    assert f.explain(2.0).segments < 6


def test_a_counter_of_python_is_an_input():
    def f(x):
        s = x
        for i in range(40):
            s = s + i * 0.01
            if s > 10.0:
                break
        return s

    for x in (np.float64(0.0), np.float32(0.0), np.float64(0.0)):
        j = fc.jit(f)
        programs = counters["programs"]
        for start in (9.0, 5.0, 9.9, 0.0, 0.0, 5.0):
            found = j(type(x)(start))
            assert found == f(type(x)(start)) and found.dtype == x.dtype
        assert counters["programs"] - programs < 8
    j, ones = fc.jit(lambda x: np.sum(f2(x))), np.ones(3, np.float32)

    def f2(x):
        for i in range(6):
            x = x + i
            if np.sum(x) > 30.0:
                break
        return x

    for _ in range(4):
        assert j(ones) == np.sum(f2(ones)) and j(ones).dtype == np.float32


def test_traces_once_for_each_path():
    @fc.jit
    def f(x):
        if x > 0:
            return x * 3.0
        return x * 0.1

    traces = counters["traces"]
    for x in (1.0, 2.0, 3.0, -1.0, -2.0, 4.0, -3.0):
        f(x)
    assert counters["traces"] == traces + 2


def test_exceptions_of_the_users_own():
    def f(x):
        if x < 0:
            raise ValueError(f"negative: {x:.2f}, {x}")
        return np.sqrt(x)

    j = fc.jit(f)
    for _ in range(3):
        with pytest.raises(ValueError, match=r"^negative: -2.00, -2.0$"):
            j(-2.0)
        assert j(4.0) == 2.0
        with pytest.raises(ValueError, match=r"^negative: -3.00, -3.0$"):
            fc.grad(j)(-3.0)
        assert fc.grad(j)(4.0) == 0.25


def test_what_an_operation_raises_can_be_caught():
    @fc.jit
    def f(a):
        try:
            b = np.linalg.inv(a)
            if b[0, 0] > 100.0:
                return b * 0.0
            return b
        except np.linalg.LinAlgError:
            return -a

    good, bad = np.eye(2) * 2.0, np.ones((2, 2))
    for a in (good, bad, good, bad, good, good, bad, bad):
        np.testing.assert_allclose(f(a), np.linalg.inv(a) if a is good else -a)


def test_what_is_no_argument_is_found_out():
    def of(scale):
        @fc.jit
        def f(x):
            y = x * scale()
            return y if y > 0 else -y

        return f

    scale = [1.0]
    f = of(unseen(lambda: scale[0]))
    assert f(1.0) == 1.0
    for x, scale[0] in ((-1.0, 2.0), (1.0, 3.0), (-1.0, 4.0)):  # f itself runs, and what was known is forgotten
        assert f(x) == abs(x) * scale[0]
    with pytest.warns(NotCompiledWarning, match="not compiled: it did something else than in an earlier call at .*test_paths"):
        for x, scale[0] in ((1.0, 5.0), (-1.0, 6.0), (1.0, 7.0)):
            assert f(x) == abs(x) * scale[0]

    scale = [1.0]
    f = of(lambda: scale[0])  # what can be seen is compared at every call
    assert f(1.0) == 1.0
    scale[0] = 2.0
    assert f(-1.0) == 2.0


def test_structures_statics_writes_and_donation():
    @fc.jit
    def f(x, scale=1.0):
        if np.sum(x) > 0:
            x[0] = scale
            return {"a": x}
        return [x * 2.0, scale]

    for _ in range(4):
        x = np.ones(3)
        out = f(x, scale=5.0)
        assert out["a"] is x and x[0] == 5.0
        y = -np.ones(3)
        out = f(y, scale=4.0)
        np.testing.assert_array_equal(out[0], y * 2.0)
        assert out[1] == 4.0 and y[0] == -1.0

    power = fc.jit(lambda x, n: x**n if x > 0 else x, static_argnums=1, donate_argnums=0)
    for _ in range(3):
        assert power(2.0, 3) == 8.0 and power(-2.0, 3) == -2.0 and power(2.0, 2) == 4.0


def test_results_are_the_callers_own():
    f = fc.jit(lambda x, y: x if np.sum(x) > 0 else y)
    x, y = np.ones(3), -np.ones(3)
    for _ in range(4):
        for a, b in ((x, y), (y, x)):
            out = f(a, b)
            assert not np.shares_memory(out, x) and not np.shares_memory(out, y) and out.flags.writeable


def test_nested_jits():
    inner = fc.jit(relu)
    outer = fc.jit(lambda x: inner(x) + (inner(-x) if inner(x) > 1 else 0.0))
    for _ in range(3):
        for x in (2.0, -1.0, 0.1):
            expected = relu(x) + (relu(-x) if relu(x) > 1 else 0.0)
            assert abs(outer(x) - expected) < 1e-15
            assert abs(fc.jit(fc.grad(inner))(x) - fc.grad(relu)(x)) < 1e-15
            assert abs(fc.grad(lambda x: outer(x) * inner(x))(x) - fc.grad(lambda x: expected_of(x))(x)) < 1e-12


def expected_of(x):
    return (relu(x) + (relu(-x) if relu(x) > 1 else 0.0)) * relu(x)
