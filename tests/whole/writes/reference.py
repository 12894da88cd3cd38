"""NumPy's answers: what a program leaves behind, and its derivatives by differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from tests.whole.writes.program import PROGRAMS, Program

__all__ = ["seen", "scalar", "leaves", "lane", "direction", "Reference", "reference", "LANES"]

LANES = 3


def leaves(x: Any) -> list[Any]:
    """The numbers and arrays in a result."""
    if x is None:
        return []
    return [y for part in x for y in leaves(part)] if isinstance(x, (tuple, list)) else [x]


def seen(program: Program, copying: bool, wrapped: Callable[[Callable], Callable] = lambda f: f) -> Callable[..., list[Any]]:
    """All that a caller can see: results, and the arguments as they are afterwards (the caller's copies, or what was given)."""
    call = wrapped(program.call)

    def run(*arrays: Any) -> list[Any]:
        own = [x.copy() for x in arrays] if copying else list(arrays)
        result = call(*own)
        return [*leaves(result), *own]

    return run


def _weights(shape: tuple) -> np.ndarray:
    return (1.2 + np.cos(np.arange(np.prod(shape, dtype=int)) * 0.7)).reshape(shape)


def scalar(run: Callable[..., list[Any]]) -> Callable[..., Any]:
    """One number made of all floating and complex numbers that `run` gives."""

    def loss(*arrays: Any) -> Any:
        total = 0.0
        for y in run(*arrays):
            kind = np.result_type(y).kind
            if kind == "c":
                y = y.real + 0.3 * y.imag
            if kind in "fc":
                total = total + np.sum(_weights(np.shape(y)) * (y + 0.1 * y * y))
        return total

    return loss


def direction(arrays: Sequence[np.ndarray], seed: int = 0) -> list[np.ndarray]:
    """A dense direction: a derivative along it that is right means that all its elements are."""
    rng = np.random.default_rng(seed)
    found = []
    for x in arrays:
        v = rng.uniform(0.3, 1.0, x.shape) * rng.choice([-1.0, 1.0], x.shape)
        found.append(v + 1j * rng.uniform(0.3, 1.0, x.shape) if x.dtype.kind == "c" else v)
    return found


def lane(program: Program, k: int) -> list[np.ndarray]:
    """Arguments that differ a little from lane to lane; lane 0 is the sample."""
    arrays = program.arrays
    for x in arrays:
        if x.dtype.kind in "fc":
            x += 0.01 * k * x * np.cos(1.0 + np.arange(x.size)).reshape(x.shape)  # in place: x keeps its memory order
    return arrays


class Reference:
    """What plain NumPy gives for one program at one point."""

    def __init__(self, program: Program, k: int):
        self.program = program
        self.arrays = lane(program, k)
        self.active = program.floating
        self.step = 2e-2 if program.single else 1e-3

    def moved(self, amounts: Sequence[tuple[float, list[np.ndarray]]]) -> list[np.ndarray]:
        arrays = [x.copy(order="K") for x in self.arrays]
        for amount, along in amounts:
            for i, v in zip(self.active, along):
                arrays[i] += amount * v
        return arrays

    def along(self) -> list[np.ndarray]:
        return direction([self.arrays[i] for i in self.active])

    def across(self) -> list[np.ndarray]:
        return direction([self.arrays[i] for i in self.active], seed=1)

    @cache  # noqa: B019  references live as long as the tests
    def values(self, copying: bool) -> list[Any]:
        return [np.array(y) for y in seen(self.program, copying)(*self.moved([]))]

    @cache  # noqa: B019
    def slopes(self, copying: bool) -> list[Any]:
        """How all that can be seen changes along the direction; None for what is no floating number."""

        def central(h: float) -> list[Any]:
            up, down = [seen(self.program, copying)(*self.moved([(s, self.along())])) for s in (h, -h)]
            return [(np.asarray(a) - b) / (2 * h) if np.result_type(a).kind in "fc" else None for a, b in zip(up, down)]

        pairs = zip(central(self.step), central(self.step / 2))
        return [None if a is None else (4 * b - a) / 3 for a, b in pairs]

    @cache  # noqa: B019
    def slope(self, copying: bool) -> float:
        """How the one number changes along the direction."""
        loss, v = scalar(seen(self.program, copying)), self.along()

        def central(h: float) -> float:
            return (loss(*self.moved([(h, v)])) - loss(*self.moved([(-h, v)]))) / (2 * h)

        return float((4 * central(self.step / 2) - central(self.step)) / 3)

    @cache  # noqa: B019
    def curvature(self, copying: bool, first: bool = False) -> float:
        """The mixed second derivative along two directions, or along their parts in the first argument."""
        loss, u, v = scalar(seen(self.program, copying)), self.along(), self.across()
        if first:
            u, v = u[:1], v[:1]

        def mixed(h: float) -> float:
            corners = [(a, b) for a in (h, -h) for b in (h, -h)]
            return sum([np.sign(a * b) * loss(*self.moved([(a, u), (b, v)])) for a, b in corners]) / (4 * h * h)

        h = 2e-3
        return float((4 * mixed(h / 2) - mixed(h)) / 3)


@cache
def reference(name: str, k: int = 0) -> Reference:
    return Reference(next(p for p in PROGRAMS if p.name == name), k)
