"""What plain Python says about a program, and comparisons with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import funcad
from funcad import tree
from tests.whole.control.program import Program, fresh

__all__ = ["End", "ended", "same", "plain", "Recorder", "loss_of", "slopes", "by_differences", "curved", "lane", "stacked"]
__all__ += ["directions", "close", "has_slopes", "curvature"]


class End(NamedTuple):
    """How a call ended: with a value or an exception; what the arguments were and are afterwards; what was said."""

    value: Any
    error: BaseException | None
    before: tuple
    arguments: tuple
    said: list[tuple]


class Recorder:
    """Writes down what programs say: plain ones directly, others from an effect."""

    def __init__(self) -> None:
        self.said: list[tuple] = []

    def take(self) -> list[tuple]:
        said, self.said = self.said, []
        return said

    def note(self, what: str, *values: Any) -> None:
        self.said.append((what, *[float(v) for v in values]))

    def debug(self, *what: Any) -> None:
        funcad.debug.callback(self.note, *what)

    def io(self, what: str, *values: Any) -> None:
        funcad.io_callback(lambda *values: self.note(what, *values), None, *values)


def ended(f: Callable[..., Any], args: tuple, recorder: Recorder) -> End:
    recorder.take()
    given = fresh(args)
    try:
        value, error = f(*given), None
    except Exception as found:  # what plain Python raises is part of the answer
        value, error = None, found
    return End(value, error, args, given, recorder.take())


def _once(program: Program, what: str, k: int, as_lane: bool, make: Callable[[tuple], Any]) -> Any:
    """What `make` gives for input number k (`as_lane`: taken out of the stack of all, so that numbers are NumPy's), kept."""
    key = what, k, as_lane
    if key not in program.known:
        program.known[key] = make(lane(program, k) if as_lane else fresh(program.inputs[k]))
    return program.known[key]


def plain(program: Program, k: int, as_lane: bool = False) -> End:
    """What plain Python makes of an input."""
    recorder = Recorder()
    return _once(program, "plain", k, as_lane, lambda args: ended(program.call(recorder.note), args, recorder))


def stacked(program: Program, which: list[int]) -> tuple:
    return tree.map(lambda *xs: np.stack([np.asarray(x) for x in xs]), *[program.inputs[k] for k in which])


def lane(program: Program, k: int) -> tuple:
    return tree.map(lambda x: x[0], stacked(program, [k]))


# ---------------------------------------------------------------- comparisons


def close(found: Any, expected: Any, what: str, rtol: float = 1e-9) -> None:
    """The same tree of arrays of the same shapes and dtypes."""
    a, structure = tree.flatten(found)
    b, other = tree.flatten(expected)
    assert structure == other, f"{what}: {structure}, plain Python's is {other}"
    for x, y in zip(a, b):
        assert np.shape(x) == np.shape(y), f"{what}: shape {np.shape(x)}, plain Python's is {np.shape(y)}"
        kinds = np.result_type(x), np.result_type(y)
        assert kinds[0] == kinds[1], f"{what}: dtype {kinds[0]}, plain Python's is {kinds[1]}"
        size = float(np.max(np.abs(y), initial=0.0, where=np.isfinite(y)))
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * size, err_msg=what)


def _same_said(found: list[tuple], expected: list[tuple], what: str) -> None:
    assert [line[0] for line in found] == [line[0] for line in expected], f"{what}: says {found}, plain Python {expected}"
    for a, b in zip(found, expected):
        assert len(a) == len(b) and all([math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-9) for x, y in zip(a[1:], b[1:])]), what


def unchanged(end: End) -> bool:
    pairs = zip(tree.leaves(end.before), tree.leaves(end.arguments))
    return all([np.array_equal(x, y, equal_nan=np.result_type(x).kind == "f") for x, y in pairs])


def same(found: End, expected: End, what: str, values: bool = True) -> None:
    """Both ended in the same way. A wrong exception is the cause of what this raises."""
    if type(found.error) is not type(expected.error) or str(found.error) != str(expected.error):
        raise AssertionError(f"{what}: {found.error!r}, plain Python: {expected.error!r}") from found.error
    if values and found.error is None:
        close(found.value, expected.value, what)
    if values and not (found.error is not None and unchanged(found)):  # where it raises, writes may be taken back
        close(found.arguments, expected.arguments, f"{what}, arguments afterwards")
    _same_said(found.said, expected.said, what)


# ---------------------------------------------------------------- slopes


def _weights(shape: tuple) -> np.ndarray:
    return (1.2 + np.cos(np.arange(np.prod(shape, dtype=int)) * 0.7)).reshape(shape)


def loss_of(f: Callable[..., Any]) -> Callable[..., Any]:
    """One number made of all floating ones that f gives."""

    def loss(*args: Any) -> Any:
        total = 0.0
        for y in tree.leaves(f(*args)):
            if np.result_type(y).kind == "f":
                total = total + np.sum(_weights(np.shape(y)) * (y + 0.1 * y * y))
        return total

    return loss


def has_slopes(program: Program) -> bool:
    results = [x for k in range(len(program.inputs)) for x in tree.leaves(plain(program, k).value)]
    return bool(program.floating) and any([np.result_type(x).kind == "f" for x in results])


def slopes(program: Program, k: int, as_lane: bool = False) -> End:
    """funcad's own gradient, un-jitted, which differences confirm."""
    recorder = Recorder()
    gradient = funcad.grad(loss_of(program.call(recorder.debug)), argnums=program.floating)
    return _once(program, "slopes", k, as_lane, lambda args: ended(gradient, args, recorder))


def directions(program: Program, seed: int) -> tuple:
    rng = np.random.default_rng(seed)
    draw = lambda x: rng.uniform(0.3, 1.0, np.shape(x)) * rng.choice([-1.0, 1.0], np.shape(x))
    return tuple([tree.map(draw, program.inputs[0][i]) for i in program.floating])


def moved(program: Program, k: int, step: float) -> tuple:
    args = list(program.inputs[k])
    for i, v in zip(program.floating, directions(program, 0)):
        args[i] = tree.map(lambda x, y: x + step * y, args[i], v)
    return tuple(args)


def by_differences(program: Program, k: int) -> float | None:
    """The slope along a direction; None where the two sides differ, so that there is none, or another way begins."""
    loss, h = loss_of(program.call(Recorder().note)), 1e-4
    try:
        left2, left, here, right, right2 = [float(loss(*moved(program, k, s * h))) for s in (-2, -1, 0, 1, 2)]
    except (ValueError, ArithmeticError, AssertionError, np.linalg.LinAlgError):  # beside it the program raises
        return None
    before, after = (3 * here - 4 * left + left2) / (2 * h), (-3 * here + 4 * right - right2) / (2 * h)
    return (8 * (right - left) - (right2 - left2)) / (12 * h) if abs(before - after) < 1e-4 * (1 + abs(before)) else None


def curved(f: Callable[..., Any], rest: tuple, program: Program, forward: bool) -> Callable[..., Any]:
    """The Hessian of f's loss times a direction, as a function of the floating arguments: jvp of grad, or grad of jvp."""
    v = directions(program, 1)

    def loss(*floating: Any) -> Any:
        args = list(rest)
        for i, x in zip(program.floating, floating):
            args[i] = x
        return loss_of(f)(*args)

    every = tuple(range(len(program.floating)))
    if forward:
        return lambda *xs: funcad.jvp(funcad.grad(loss, argnums=every), xs, v)[1]
    return funcad.grad(lambda *xs: funcad.jvp(loss, xs, v)[1], argnums=every)


def curvature(program: Program, k: int) -> Any:
    """funcad's own, un-jitted."""
    f = program.call(Recorder().debug)
    make = lambda args: curved(f, args, program, forward=True)(*[args[i] for i in program.floating])
    return _once(program, "curvature", k, False, make)
