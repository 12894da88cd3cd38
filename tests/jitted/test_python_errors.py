"""What Python's arithmetic refuses, it refuses in every transformation: the same errors, caught by the same `try`."""

from __future__ import annotations

import cmath
import math
import types
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import config, grad, hessian, jit, jvp, value_and_grad, vmap

INF, NAN = math.inf, math.nan


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    """What f gives, or the error that it raises: its type and what it says."""
    try:
        return f(*args)
    except (ArithmeticError, ValueError, LookupError, AssertionError) as error:
        return type(error), str(error)


def agree(f: Callable[..., Any], g: Callable[..., Any], calls: Sequence[tuple]) -> None:
    for args in calls:
        expected, found = outcome(f, *args), outcome(g, *args)
        if type(expected) is tuple or type(found) is tuple:
            assert found == expected, args
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-14, err_msg=str(args))


OPERATORS = {
    "1/x": (lambda x: 1 / x, (2.0, 0.0, -0.0, INF, NAN)),
    "1//x": (lambda x: 1 // x, (2.0, 0.0, NAN)),
    "1%x": (lambda x: 1 % x, (2.0, 0.0)),
    "divmod": (lambda x: divmod(5.0, x)[1], (2.0, -3.0)),
    "x**-1": (lambda x: x**-1, (2.0, 0.0)),
    "x**2": (lambda x: x**2, (2.0, 1e200, INF, NAN)),
    "x**2.5": (lambda x: x**2.5, (2.0, 1e200, 0.0)),
    "0**x": (lambda x: 0.0**x, (2.0, -1.0)),
    "integers": (lambda n: 5 // n + 7 % n, (2, 0, -3)),
    "2**n": (lambda n: 2**n, (3, -1, 0)),
    "a root of a negative number": (lambda x: abs((-x) ** 0.5), (2.0, 0.0, 3.0)),
    "nobody reads it": (lambda x: (1 / x, 3.0)[1], (2.0, 0.0)),
}


@pytest.mark.parametrize("engine", ["native", "numpy", "interpreter"])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_of_numbers_under_jit(engine: str, name: str) -> None:
    f, values = OPERATORS[name]
    with config.set(engine=engine):
        agree(f, jit(f), [(x,) for x in (*values, *values, *values[::-1])])


@pytest.mark.filterwarnings("ignore:grad. the output:UserWarning")  # of quotients that are rounded
@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in ("integers", "2**n")])
def test_every_transformation_raises_what_the_function_does(name: str) -> None:
    f, values = OPERATORS[name]
    real = lambda x: f(x) * 1.0
    for x in map(float, values):
        expected = outcome(f, x)
        if type(expected) is tuple:
            along = (lambda x: jvp(real, (x,), (1.0,)), lambda x: vmap(lambda y: real(x) * y)(np.ones(2)))
            for transformed in (grad(real), jit(grad(real)), grad(jit(real)), hessian(real), grad(grad(real)), *along):
                assert outcome(transformed, x) == expected


@pytest.mark.filterwarnings("ignore:grad. the output:UserWarning", "ignore::RuntimeWarning")  # of slopes that are infinite
def test_functions_of_numpy_do_not_refuse_numbers() -> None:
    """Of Python's numbers too `np.divide` warns where the operator raises, however deep they are."""
    for f in (lambda x: np.divide(x, 0.0), lambda x: np.divide(x, 0), lambda x: np.divide(1, x - 1)):
        assert value_and_grad(f)(1.0)[0] == jvp(f, (1.0,), (1.0,))[0] == f(1.0) == INF
        outcomes = [outcome(g, 1.0) for g in (hessian(f), grad(grad(f)))]
        assert tuple not in map(type, outcomes)
    assert grad(lambda x: np.divide(x, 0))(1.0) == INF and hessian(lambda x: np.divide(x, 0))(1.0) == 0.0


@pytest.mark.parametrize("name", "sqrt log exp asin atanh gamma lgamma sinh log1p sin tan expm1".split())
def test_functions_of_math(name: str) -> None:
    f = lambda x: getattr(math, name)(x)
    values = np.array([0.5, -2.0, 0.0, -1.0, 1.0, 1e3, INF, -INF, NAN])
    agree(f, jit(f), [(x,) for x in (*values.tolist(), *values, *values.tolist())])
    caught = lambda x: (outcome(f, x) if type(outcome(f, x)) is not tuple else len(outcome(f, x)[1])) * 1.0

    def split(x: Any) -> Any:
        try:
            return f(x) * 1.0
        except (ValueError, OverflowError) as error:
            return float(len(str(error)))

    np.testing.assert_allclose(vmap(split)(values), [caught(x) for x in values], rtol=1e-14)
    np.testing.assert_allclose(jit(vmap(split))(values), [caught(x) for x in values], rtol=1e-14)
    refused = [x for x in values.tolist() if type(outcome(f, x)) is tuple]
    for x in refused:
        assert outcome(vmap(f), np.array([0.5, x, 0.75])) == outcome(f, x)


def test_complex_functions() -> None:
    f = lambda z: cmath.log(z).real + cmath.sqrt(z).imag
    agree(f, jit(f), [(1j,), (0j,), (complex(-1, 0),), (0j,)])


def one_of_two(x: Any, k: Any) -> Any:
    try:
        return math.pow(x, k)
    except ValueError:
        return 1.0
    except OverflowError:
        return 2.0


def an_index(x: Any, k: Any) -> Any:
    try:
        q = x[k]
    except IndexError:
        q = x[0] * 5
    return q * 2


def an_index_on_a_path(x: Any, k: Any) -> Any:
    return an_index(x, k) if x[0] > 0 else x[1]


def at_the_end(x: Any) -> Any:
    done = 1.0
    try:
        done = 1 / x
    except ZeroDivisionError as error:
        done = float(len(str(error)))
    finally:
        done = done + x
    return done


def an_assertion(x: Any) -> Any:
    try:
        assert x > 0, "below"
    except AssertionError:
        return x * 3
    return math.sqrt(x)


ARRAY = np.arange(3.0) + 1
CAUGHT = {
    "two errors": (one_of_two, [(2.0, 0.5), (-2.0, 0.5), (1e200, 2.0), (0.0, -1.0), (3.0, 2.0)]),
    "an index": (an_index, [(ARRAY, 1), (ARRAY, 7), (ARRAY, 2), (ARRAY, -9)]),
    "an index on a path": (an_index_on_a_path, [(ARRAY, 1), (ARRAY, 7), (ARRAY, 2), (ARRAY, -9), (-ARRAY, 9)]),
    "at the end": (at_the_end, [(1.0,), (0.0,), (2.0,)]),
    "an assertion": (an_assertion, [(1.0,), (-1.0,), (0.0,)]),
}


@pytest.mark.parametrize("engine", ["native", "numpy", "interpreter"])
@pytest.mark.parametrize("name", CAUGHT)
def test_a_try_is_a_branch(engine: str, name: str) -> None:
    f, calls = CAUGHT[name]
    with config.set(engine=engine):
        agree(f, jit(f), [*calls, *calls, *calls[::-1]])


def test_lanes_that_raise_part_from_the_others() -> None:
    x, k = np.array([2.0, -2.0, 1e200, 0.0, 3.0]), np.array([0.5, 0.5, 2.0, -1.0, 2.0])
    expected = [one_of_two(*lane) for lane in zip(x, k)]
    for mapped in (vmap(one_of_two), jit(vmap(one_of_two)), vmap(jit(one_of_two))):
        np.testing.assert_allclose(mapped(x, k), expected, rtol=1e-14)
    with pytest.warns(UserWarning, match="does not depend"):
        slopes = [grad(one_of_two)(*lane) for lane in zip(x, k)]
        np.testing.assert_allclose(vmap(grad(one_of_two))(x, k), slopes, rtol=1e-14)


def test_numpys_scalars_keep_numpys_arithmetic() -> None:
    f = lambda x: 1 / x
    for g in (f, jit(f), vmap(f)):
        with np.errstate(all="ignore"):
            assert g(np.array([0.0]) if g is not f and not hasattr(g, "lower") else np.float64(0.0)) == INF


class Settings:
    c: Any = 2.0


@pytest.mark.share(3)
@pytest.mark.parametrize("engine", ["native", "numpy"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, s: x * (1 / s.c),
        lambda x, s: x * abs((-s.c) ** 0.5),
        lambda x, s: x * math.exp(s.c),
        lambda x, s: x + math.log(s.c),
        lambda x, s: x + 5 // s.c,
        lambda x, s: x + 3 % s.c,
        lambda x, s: x * s.c**2,
    ],
)
def test_a_captured_number_that_became_an_input(engine: str, f: Any) -> None:
    """It keeps Python's arithmetic, which says of its values what it says without jit."""
    settings, x = Settings(), np.array([1.0, 2.0])
    plain = lambda x: f(x, settings)
    program, derivative = jit(plain), jit(grad(lambda x: np.sum(plain(x))))
    with config.set(engine=engine), np.errstate(all="ignore"):
        for c in (2.0, 3.0, 4.0, -2.0, 0.0, 5.0, 1e300, -1.0, 0.0, 7.0):
            settings.c = c
            agree(plain, program, [(x,)])
            agree(grad(lambda x: np.sum(plain(x))), derivative, [(x,)])


def test_what_happened_before_the_error_is_plain_pythons() -> None:
    seen: list[Any] = []

    def f(x: Any, n: Any) -> Any:
        y = x * 2
        funcad.debug.callback(seen.append, n)
        return y[n]

    program = jit(f)
    for n in (1, 5):
        del seen[:]
        expected = outcome(f, ARRAY, n)
        first = list(seen)
        del seen[:]
        found = outcome(program, ARRAY, n)
        assert found == expected and len(seen) == len(first) == 1


def test_an_error_is_not_shown_twice() -> None:
    f = jit(lambda x: 1 / x)
    for _ in range(4):
        f(2.0)
        with pytest.raises(ZeroDivisionError) as caught:
            f(0.0)
        assert caught.value.__context__ is None


def test_what_is_written_is_written_as_far_as_python_came() -> None:
    def f(x: Any, k: Any) -> Any:
        x[0] = 5.0
        y = x[k]
        x[1] = 6.0
        return y

    program = jit(f)
    for k in (2, 2, 2, 9, 2, -9):
        mine, theirs = ARRAY.copy(), ARRAY.copy()
        assert outcome(program, mine, k) == outcome(f, theirs, k)
        np.testing.assert_array_equal(mine, theirs)


def test_derivatives_of_powers_of_negative_numbers_are_complex() -> None:
    value, slope = value_and_grad(lambda x: ((-x) ** 0.5).imag)(2.0)
    np.testing.assert_allclose([value, slope], [2**0.5, 0.5 / 2**0.5], rtol=1e-15)


def test_squares_of_numbers_are_still_known() -> None:
    """The slope of the absolute value turns at 0; that of its square does not, also behind what may refuse a number."""
    for f in (lambda x: abs(x) ** 2, lambda x: (abs(x) ** 2) ** 1, lambda x: math.fabs(x) ** 2):
        for second in (grad(grad(f)), jit(grad(grad(f))), grad(grad(jit(f)))):
            assert second(0.0) == 2.0


def test_an_exported_program_raises_the_same(tmp_path: Any) -> None:
    path = jit(lambda x: 1 / x + math.log(x)).export(str(tmp_path / "exported.py"), 2.0)[0]
    module: dict[str, Any] = {"__name__": "exported", "__file__": path}
    exec(compile(Path(path).read_text(encoding="utf8"), path, "exec"), module)
    np.testing.assert_allclose(module["run"](2.0), 0.5 + math.log(2.0), rtol=1e-15)
    with np.errstate(all="ignore"):
        assert outcome(module["run"], 0.0) == (ZeroDivisionError, "float division by zero")
        assert outcome(module["run"], -1.0)[0] is ValueError


@pytest.mark.parametrize("function", [math.ceil, math.floor, math.trunc])
def test_whole_parts_of_any_size(function: Any) -> None:
    """No program has Python's integers beyond 64 bits, nor those of infinities and NaN."""
    f = jit(lambda x: function(x) * 1.0)
    for x in (2.5, 2.5, -1e10, 1e200, -(2.0**63), 2.0**63):
        assert f(x) == function(x) * 1.0
    for x, error in ((math.inf, OverflowError), (math.nan, ValueError)):
        with pytest.raises(error):
            f(x)
    assert vmap(lambda x: function(x) * 1.0)(np.array([2.5, 1e200]))[1] == 1e200


@pytest.mark.parametrize("power", [lambda c: (-c) ** 0.5, lambda c: -7 % c])
def test_lanes_of_a_jitted_function_whose_number_is_an_input(power: Any) -> None:
    o = types.SimpleNamespace(c=2)

    def f(x: Any) -> Any:
        try:
            return x * power(o.c)
        except ZeroDivisionError:
            return x - 20.0

    mapped, x = vmap(jit(f)), np.array([[1.0, 2.0], [3.0, 4.0]])
    for c in (2, 3, 5, 0, 2, 3, 0, 7):
        o.c = c
        np.testing.assert_allclose(mapped(x), f(x))


def _filtered(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.log(x)
        except RuntimeWarning:
            return x * 0.0 - 1.0


@pytest.mark.parametrize("wrap", [jit, vmap, lambda f: vmap(jit(f))])
@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_warnings_that_the_function_makes_errors(wrap: Any) -> None:
    f, x = wrap(_filtered), np.array([1.0, 0.0])
    expected = _filtered(x) if wrap is jit else np.array([_filtered(v) for v in x])
    for _ in range(3):
        np.testing.assert_array_equal(f(x), expected)
