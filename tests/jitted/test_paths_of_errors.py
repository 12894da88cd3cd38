"""What an operation refuses is raised at its line, where the user's `try` sees it: jitted functions that go on otherwise."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit, jvp, vmap
from funcad.errors import NotCompiledWarning, PathError
from funcad.jitted import first_calls, handlers

GOOD = np.array([[2.0, 0.5], [0.5, 1.0]])
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
VALUES = [GOOD, SINGULAR, -GOOD, 3 * GOOD, SINGULAR, -GOOD, GOOD]
LinAlgError = np.linalg.LinAlgError
log: list[float] = []


@pytest.fixture(autouse=True)
def _nothing_noted() -> None:
    log.clear()


def note(x: Any) -> None:
    funcad.debug.callback(lambda v: log.append(float(v)), x)


def inverse(x):
    try:
        return np.linalg.inv(x)
    except LinAlgError:
        return -x


def guard_behind(x):
    try:
        y = np.linalg.cholesky(x)
    except LinAlgError as error:
        y = x * len(str(error))
    return y if y[0, 0] > 3 else 2 * y


def guard_before(x):
    if x[0, 0] > 5:
        return x
    try:
        y = np.linalg.solve(x, np.ones(2))
    except (ValueError, LinAlgError):
        y = x[0] * 0 - 1
    else:
        y = y + 1
    finally:
        x = x * 2
    return y * x[0]


def jitter(x):
    for k in range(6):
        try:
            return np.linalg.cholesky(x + np.eye(2) * (10.0**k - 1))
        except LinAlgError:
            continue
    return x * 0


def with_effects(x):
    note(x[0, 0])
    try:
        note(x[0, 1])
        y = np.linalg.inv(x * 2)
        note(y[0, 0])
    except LinAlgError:
        note(-1.0)
        y = x * 0 - 1
    note(y[1, 1])
    return y


def helper_fails(x):
    def helper(v):
        return np.linalg.inv(v) @ v

    try:
        return helper(x)
    except LinAlgError:
        return x


def outside_of_the_try(x):
    y = np.linalg.inv(x)
    try:
        if y[0, 0] > 0:
            return np.linalg.cholesky(y)
    except LinAlgError:
        return y
    return x


def in_a_with(x):
    try:
        with np.errstate(all="ignore"):
            y = np.linalg.inv(x)
    except LinAlgError:
        y = x
    return y


def raises_its_own(x):
    try:
        return np.linalg.inv(x)
    except LinAlgError as error:
        raise KeyError("singular") from error


inner = jit(lambda x: np.linalg.inv(x) * 2)


def inner_jitted(x):
    try:
        return inner(x)
    except LinAlgError:
        return x


PROGRAMS: list[Callable[[Any], Any]] = [
    inverse,
    guard_behind,
    guard_before,
    jitter,
    with_effects,
    helper_fails,
    outside_of_the_try,
    in_a_with,
    raises_its_own,
    inner_jitted,
]
WAYS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "jit": (jit, lambda f: f),
    "jit(grad)": (lambda f: jit(grad(lambda x: np.sum(f(x)))), lambda f: grad(lambda x: np.sum(f(x)))),
    "grad(jit)": (lambda f: grad(jit(lambda x: np.sum(f(x)))), lambda f: grad(lambda x: np.sum(f(x)))),
    "around jit": (lambda f: (lambda j: grad(lambda x: np.sum(j(x) * 2)))(jit(f)), lambda f: grad(lambda x: np.sum(f(x) * 2))),
    "jvp": (lambda f: (lambda j: lambda x: jvp(j, (x,), (x,)))(jit(f)), lambda f: lambda x: jvp(f, (x,), (x,))),
}


def told(f: Callable[[Any], Any], x: np.ndarray) -> tuple[Any, list[float]]:
    log.clear()
    try:
        found = funcad.tree.leaves(f(x))
    except Exception as error:
        found = [type(error), str(error)]
    return found, list(log)


@pytest.mark.share(3)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_errors_are_met_where_python_meets_them(f: Any, way: str) -> None:
    there, here = WAYS[way]
    jitted, plain = there(f), here(f)
    for x in VALUES * 2:
        (found, seen), (expected, wanted) = told(jitted, x), told(plain, x)
        if isinstance(expected[0], type):
            assert found == expected
        else:
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
        assert seen == pytest.approx(wanted)


def test_both_outcomes_are_known_paths() -> None:
    j = jit(inverse)
    for x in VALUES * 2:
        j(x)
    before = j.explain(GOOD).recorded
    for x in VALUES * 2:
        j(x)
    assert j.explain(GOOD).recorded == before
    ends = [path.conditions[-1] for path in j.explain(GOOD).paths]
    assert {(end.kind, str(end.answer)) for end in ends} == {("success", "True"), ("success", "Singular matrix")}


def test_without_a_try_there_is_one_program() -> None:
    j = jit(lambda x: np.linalg.inv(x) @ x)
    j(GOOD)
    assert "inv" in j.source(GOOD)
    for _ in range(3):
        with pytest.raises(LinAlgError):
            j(SINGULAR)
        np.testing.assert_allclose(j(GOOD), np.eye(2), atol=1e-12)


def test_mapped_lanes() -> None:
    lanes = np.stack(VALUES)
    np.testing.assert_allclose(vmap(inverse)(lanes), [inverse(x) for x in lanes])
    np.testing.assert_allclose(vmap(jit(inverse))(lanes), [inverse(x) for x in lanes])


def covered(f: Callable[[], bool]) -> bool:
    def outermost() -> bool:
        return f()

    here.append(outermost.__code__)
    return outermost()


here: list[Any] = []


def inside() -> bool:
    return handlers.inside_try(here[-1])


def test_what_is_inside_a_try() -> None:
    def plain() -> bool:
        return inside()

    def tried() -> bool:
        try:
            return inside()
        except ValueError:
            return False

    def at_last() -> bool:
        try:
            found = inside()
        finally:
            here.append(here[-1])
        return found

    def with_block() -> bool:
        with np.errstate(all="ignore"):
            return inside()

    def with_block_in_try() -> bool:
        try:
            with np.errstate(all="ignore"), np.printoptions():
                return inside()
        except ValueError:
            return False

    def in_handler() -> bool:
        try:
            raise ValueError
        except ValueError:
            return inside()

    def in_else() -> bool:
        try:
            here.append(here[-1])
        except ValueError:
            return False
        else:
            return inside()

    def in_comprehension() -> bool:
        try:
            return [inside() for _ in range(1)][0]
        except ValueError:
            return False

    def in_generator() -> bool:
        return next(inside() for _ in range(1))

    expected = {plain: False, tried: True, at_last: True, with_block: False, with_block_in_try: True, in_handler: False}
    expected.update({in_else: False, in_comprehension: True, in_generator: False})
    assert {f.__name__: covered(f) for f in expected} == {f.__name__: answer for f, answer in expected.items()}


def test_what_is_said_before_an_error_is_said_where_an_argument_was_written() -> None:
    said: list[tuple] = []

    def f(x: Any, v: Any) -> Any:
        v *= 0.5
        funcad.debug.callback(lambda x: said.append(("e", float(x))), x)
        if not x > 0.2:
            funcad.debug.callback(lambda: said.append(("d",)))
            raise KeyError("no")
        return v

    jitted = jit(f)
    for x in (0.3, 0.1, 0.3, 0.1, 0.1):
        said.clear()
        try:
            jitted(x, np.ones(2))
        except KeyError:
            said.append(("raised",))
        assert said == [("e", x)] + [("d",), ("raised",)] * (x < 0.2)


@pytest.mark.parametrize("transform", [lambda f, x: jvp(f, (x,), (x + 0.5,)), lambda f, x: funcad.vjp(f, x)[1](1.0)[0]])
def test_derivatives_inside_of_what_goes_on_after_an_error(transform: Callable[..., Any]) -> None:
    """A path that is known, on which an operation has failed, is no program for derivatives: that would raise."""

    def f(x: Any) -> Any:
        try:
            return np.sum(np.linalg.cholesky(x))
        except LinAlgError:
            return np.sum(np.linalg.cholesky(x + 2.5 * np.eye(2)))

    jitted = jit(f)
    for x in (GOOD, -GOOD, GOOD, -0.5 * GOOD):
        for _ in range(3):
            np.testing.assert_allclose(transform(lambda x: jitted(x), x), transform(f, x), rtol=1e-12)


class _Box:
    kept = 0.0


def _effects_and_results(jitted: bool, values: list[float]) -> list[Any]:
    """Of calls of a gradient whose function stores what is derived on one of its paths, which no program can."""
    box, said, generator, results = _Box(), [], np.random.default_rng(3), []

    def f(x: Any, a: Any) -> Any:
        y = x * generator.normal()
        funcad.debug.callback(lambda v: said.append(float(v)), a)
        box.kept = y[0] if a < 0.5 else a
        twice = funcad.io_callback(lambda v: v * 2.0, funcad.ShapeDtypeStruct((), float), a)
        return np.sum(y) + generator.normal() + twice

    g = funcad.value_and_grad(f)
    g = jit(g, not_compiled="ignore") if jitted else g
    for a in values:
        value, slope = g(np.array([1.0, 2.0]), a)
        results.append((float(value), slope.tolist(), float(box.kept), list(said), str(generator.bit_generator.state)))
    return results


@pytest.mark.parametrize("values", [[1.0, 1.0, 1.0, 0.25, 0.25], [0.25, 0.25, 1.0, 1.0]])
def test_effects_before_a_refusal_happen_once(values: list[float]) -> None:
    """A path that cannot be compiled is found after its effects: f runs as plain Python, which does not have them again."""
    assert _effects_and_results(True, values) == _effects_and_results(False, values)


def test_effects_before_what_cannot_run_again() -> None:
    """Where f does what nobody sees, it cannot be run without its effects: the call says so, and the next one is right."""
    turns, said = iter([1.0, 2.0, 3.0]), []

    @funcad.jit(not_compiled="ignore")
    def f(x: Any) -> Any:
        funcad.debug.callback(lambda v: said.append(float(v)), x)
        return x * 2.0 if x > 0 else x + next(turns)

    assert [f(1.0) for _ in range(3)] == [2.0, 2.0, 2.0]
    with pytest.raises(PathError, match=r"has had effects.*\nRemedy: call it again"):
        f(-1.0)
    assert said == [1.0, 1.0, 1.0, -1.0]
    assert (f(-1.0), f(-1.0)) == (0.0, 1.0)
    assert said == [1.0, 1.0, 1.0, -1.0, -1.0, -1.0]


class Held:
    w = np.ones(3)


@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
@pytest.mark.parametrize("before", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("again", [False, True])
def test_what_only_a_trace_refuses_is_computed_un_jitted_wherever_it_is_met(
    monkeypatch: pytest.MonkeyPatch, before: int, again: bool
) -> None:
    """An array of an object's is written by an operator on a path that is taken later."""
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    held = Held()

    def f(x: Any, p: float) -> Any:
        x += x
        if p >= 0:
            held.w *= x * 1.0
        return np.sum(x)

    if again:  # what has been learned of the code before is not needed
        held.w = np.ones(3)
        jit(f)(np.ones(3), 1.0)
    held.w, jitted = np.ones(3), jit(f)
    values = [-1.0 - i for i in range(before)] + [1.0, -1.0, 2.0]
    for p in values:
        x = np.full(3, 2.0)
        assert jitted(x, p) == 12.0 and x.tolist() == [4.0] * 3
    assert held.w.tolist() == [16.0] * 3


def _mine(x: Any) -> Any:
    raise TypeError("mine")


NOT_TRACED: dict[str, Callable[[Any, Any], Any]] = {
    "a constructor of NumPy's": lambda x, t: np.float32(t),
    "a choice": lambda x, t: np.random.default_rng(0).choice(x) + t,
    "bytes": lambda x, t: len(x.tobytes()) * t,
    "a key": lambda x, t: len({t: 1}) * t,
    "an attribute that is not there": lambda x, t: x.nothing,
    "an error of its own": lambda x, t: _mine(x),
}
EFFECTS: dict[str, Callable[[Any], Any]] = {
    "print": lambda t: print("said"),
    "warning": lambda t: warnings.warn("said", stacklevel=2),
    "draw": lambda t: generator.normal(),
    "draw of NumPy's own": lambda t: np.random.standard_normal(),
}
generator = np.random.default_rng(0)


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("name", NOT_TRACED)
@pytest.mark.filterwarnings("always")
def test_effects_before_what_only_a_trace_refuses_happen_once(
    capsys: pytest.CaptureFixture[str], name: str, effect: str
) -> None:
    """It stands on each path, or on one that is met when a compiled program has said and drawn something before it."""

    def f(x: Any, a: Any) -> Any:
        t = np.sum(x)
        u = EFFECTS[effect](t) or 0.0
        t = t * 2.0 if t > 2 else t + 1.0
        kept.append(float(t))
        if a > 1:
            u = u + (EFFECTS[effect](t) or 0.0)
            u = u + NOT_TRACED[name](x, t)
        return t + u

    calls = [(x, a) for a in (0.0, 7.0, 0.0) for x in (0.0, 3.0) * 4]
    for values in (calls, calls[8:]):
        found = []
        for way in (f, jit(f)):
            kept: list[float] = []
            results: list[Any] = []
            np.random.seed(1)
            generator.bit_generator.state = np.random.default_rng(2).bit_generator.state
            with warnings.catch_warnings(record=True) as said:
                for x, a in values:
                    try:
                        results.append(float(way(np.full(2, x), a)))
                    except (TypeError, AttributeError):
                        results.append("error")
            heard = [str(w.message) for w in said if w.category is not NotCompiledWarning]
            state = str(generator.bit_generator.state), np.random.random()
            found.append((pytest.approx(results) if way is f else results, kept, heard, capsys.readouterr().out, state))
        assert found[1] == found[0]
