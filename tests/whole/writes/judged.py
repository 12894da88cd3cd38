"""One drawn program under plain NumPy and under grad, jvp, jit, vmap and jit(grad): the same, or an error that says so."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import funcad
from funcad.errors import FuncadError
from tests.whole.writes.drawn import Drawn, function_of

__all__ = ["judge", "CHECKS"]

CHECKS: dict[str, Callable[[Judged], str]] = {}
RIGHT, KINK = "right", "at a kink"


def _check(function: Callable[[Judged], str]) -> Callable[[Judged], str]:
    CHECKS[function.__name__.strip("_")] = function
    return function


def _numbers(x: Any) -> np.ndarray:
    """All numbers of a result in one vector, complex ones as two."""
    parts = []
    for leaf in x:
        kind = np.result_type(leaf).kind
        flat = np.asarray(leaf).reshape(-1)
        parts += [flat.real, flat.imag] if kind == "c" else [flat.astype(float)]
    return np.concatenate(parts)


def _kinds(x: Any) -> list[tuple]:
    return [(np.shape(y), np.result_type(y)) for y in x]


def _loss(results: Any) -> Any:
    total = 0.0
    for k, y in enumerate(results):
        kind = np.result_type(y).kind
        if kind == "c":
            y = y.real + 0.3 * y.imag
        if kind in "fc":
            weights = (1.2 + np.cos(k + 0.7 * np.arange(np.prod(np.shape(y), dtype=int)))).reshape(np.shape(y))
            total = total + np.sum(weights * (y + 0.1 * y * y))
    return total


class Judged:
    """A program with what plain NumPy says about it at the sample arguments."""

    def __init__(self, drawn: Drawn):
        self.drawn = drawn
        self.function = function = function_of(drawn.source)

        def seen(x: Any, y: Any) -> list[Any]:  # what a caller sees: results, and the arguments afterwards
            return [*function(x, y), x, y]

        def loss(x: Any, y: Any) -> Any:
            return _loss(seen(x, y))

        self.seen, self.loss = seen, loss
        rng = np.random.default_rng(3)
        self.along = [rng.uniform(0.3, 1.0, z.shape) * rng.choice([-1.0, 1.0], z.shape) for z in (drawn.x, drawn.y)]

    def arguments(self, step: float = 0.0) -> list[np.ndarray]:
        return [np.array(z + step * v) for z, v in zip((self.drawn.x, self.drawn.y), self.along)]

    def plain(self, step: float = 0.0) -> list[Any]:
        x, y = self.arguments(step)
        assert self.drawn.error is None, f"NumPy raises {self.drawn.error}, funcad does not"
        return [np.array(z) for z in self.seen(x, y)]

    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """Of all numbers along the direction; and which of these slopes differences can tell, by steps of two lengths."""
        try:
            (slope, known), (other, also) = self._differences(1e-4), self._differences(2.3e-5)
        except (ValueError, TypeError, IndexError):  # another way through the program
            return np.zeros(0), np.zeros(0, bool)
        if slope.shape != other.shape:
            return np.zeros(0), np.zeros(0, bool)
        return slope, known & also & (abs(slope - other) < 1e-5 * (1.0 + abs(slope)))

    def _differences(self, h: float) -> tuple[np.ndarray, np.ndarray]:
        left2, left, here, right, right2 = [_numbers(self.plain(k * h)) for k in (-2, -1, 0, 1, 2)]
        if not left2.shape == left.shape == right.shape == right2.shape == here.shape:
            return np.zeros(0), np.zeros(0, bool)
        before, after = (3 * here - 4 * left + left2) / (2 * h), (-3 * here + 4 * right - right2) / (2 * h)
        slope = (8 * (right - left) - (right2 - left2)) / (12 * h)
        size = 1.0 + np.max(np.abs(slope), initial=0.0)
        return slope, (abs(before - after) < 1e-5 * size) & np.isfinite(slope)

    def loss_slope(self) -> float | None:
        slope, known = self.slopes()
        if not known.size or not known.all():
            return None
        h = 1e-4
        values = [float(self.loss(*self.arguments(k * h))) for k in (-2, -1, 1, 2)]
        return (8 * (values[2] - values[1]) - (values[3] - values[0])) / (12 * h)


def _agree(found: Any, expected: list[Any], what: str) -> None:
    assert _kinds(found) == _kinds(expected), f"{what}: {_kinds(found)}, NumPy's are {_kinds(expected)}"
    for i, (a, b) in enumerate(zip(found, expected)):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=f"{what}, number {i} of results and arguments")


def _agree_on_slope(judged: Judged, gradients: Any, what: str) -> str:
    expected = judged.loss_slope()
    if expected is None:
        return KINK
    found = sum([float(np.sum(g * v)) for g, v in zip(gradients, judged.along)])
    size = sum([float(np.sum(abs(g * v))) for g, v in zip(gradients, judged.along)])
    assert abs(found - expected) <= 1e-5 * max(size, abs(expected), 1.0), f"{what}: {found}, by differences {expected}"
    return RIGHT


@_check
def _jit(judged: Judged) -> str:
    compiled = funcad.jit(judged.function)
    for step in (0.0, 0.0, 1e-3):
        x, y = judged.arguments(step)
        found = compiled(x, y)
        _agree([*found, x, y], judged.plain(step), "jit")
    return RIGHT


@_check
def _grad(judged: Judged) -> str:
    x, y = judged.arguments()
    value, gradients = funcad.value_and_grad(judged.loss, argnums=(0, 1))(x, y)
    np.testing.assert_allclose(value, _loss(judged.plain()), rtol=1e-9, atol=1e-9)
    for z, before in zip((x, y), judged.arguments()):
        assert z.tobytes() == before.tobytes(), "grad wrote into its caller's arrays"
    return _agree_on_slope(judged, gradients, "grad")


@_check
def _jit_grad(judged: Judged) -> str:
    gradient = funcad.jit(funcad.grad(judged.loss, argnums=(0, 1)))
    gradient(*judged.arguments())
    return _agree_on_slope(judged, gradient(*judged.arguments()), "jit(grad)")


@_check
def _jvp(judged: Judged) -> str:
    values, tangents = funcad.jvp(judged.seen, tuple(judged.arguments()), tuple(judged.along))
    _agree(values, judged.plain(), "jvp")
    slope, known = judged.slopes()
    if not known.size or not known.any():
        return KINK
    floating = [np.zeros(np.shape(v)) if np.result_type(v).kind not in "fc" else t for t, v in zip(tangents, values)]
    np.testing.assert_allclose(_numbers(floating)[known], slope[known], rtol=1e-5, atol=1e-5 * (1 + np.max(abs(slope))))
    return RIGHT if known.all() else KINK


@_check
def _vmap(judged: Judged) -> str:
    steps = (0.0, 1e-3, -1e-3)
    xs, ys = [np.stack(zs) for zs in zip(*[judged.arguments(s) for s in steps])]
    found = funcad.vmap(judged.seen)(xs, ys)
    for k, step in enumerate(steps):
        _agree([z[k] for z in found], judged.plain(step), f"vmap, lane {k}")
    return RIGHT


def judge(drawn: Drawn, checks: tuple[str, ...] = tuple(CHECKS)) -> list[str]:
    """How the program ended under each transformation; AssertionError where it is silently wrong."""
    judged = Judged(drawn)
    ends = []
    for name in checks:
        if name == "vmap" and not drawn.y.ndim:
            ends.append(KINK)  # a lane of it is a number, which is not written
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                end = CHECKS[name](judged)
                assert drawn.error is None, f"NumPy raises {drawn.error}, {name} does not"
            except AssertionError:
                raise
            except Exception as error:
                theirs, own = drawn.error, type(error)
                same = theirs is not None and (issubclass(own, theirs) or issubclass(theirs, own))
                if not same or isinstance(error, FuncadError):  # loud: of those there may be few
                    ends.append(f"{name}: {type(error).__name__}: " + " ".join(str(error).split())[:60])
                    continue
                end = RIGHT
        ends.append(end)
    return ends
