"""What a program is to the tests: a function, sample arguments, and which questions have answers.

    @program(uniform(5, 5), 3)
    def smooth(a, steps): ...

registers `smooth`. Arguments that are arrays are handed over as fresh copies in their own memory order; anything else (a number
of steps, a name) is not traced. Derivatives are taken of the floating and complex arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Program", "PROGRAMS", "program", "uniform", "normal", "well_conditioned", "symmetric"]

PROGRAMS: list[Program] = []
_rng = np.random.default_rng(12)


class Program(NamedTuple):
    """A function and what may be asked of it.

    smooth: second derivatives exist at the sample (no kink there).
    asks: Python asks it for values (`if x > 0`, `int(x)`, the count of a mask): only traces that have values can run it.
    single: it computes in single precision, so that differences need long steps.
    """

    name: str
    function: Callable[..., Any]
    sample: tuple
    smooth: bool
    asks: bool
    single: bool

    @property
    def arrays(self) -> list[np.ndarray]:
        """Fresh copies of the arguments that are traced."""
        return [np.array(x, order="K") for x in self.sample if isinstance(x, np.ndarray)]

    @property
    def floating(self) -> list[int]:
        """Which of them have derivatives."""
        return [i for i, x in enumerate(self.arrays) if x.dtype.kind in "fc"]

    @property
    def call(self) -> Callable[..., Any]:
        """The program as a function of the traced arguments alone, which it may write into."""
        function, sample = self.function, self.sample

        def call(*arrays: Any) -> Any:
            left = iter(arrays)
            return function(*[next(left) if isinstance(x, np.ndarray) else x for x in sample])

        return call


def program(*sample: Any, smooth: bool = True, asks: bool = False, single: bool = False) -> Callable[[Callable], Callable]:
    def register(function: Callable) -> Callable:
        assert all([function.__name__ != p.name for p in PROGRAMS]), function.__name__
        PROGRAMS.append(Program(function.__name__, function, sample, smooth, asks, single))
        return function

    return register


def uniform(*shape: int, low: float = 0.2, high: float = 1.0) -> np.ndarray:
    return _rng.uniform(low, high, shape)


def normal(*shape: int) -> np.ndarray:
    return _rng.normal(size=shape)


def well_conditioned(n: int) -> np.ndarray:
    """A matrix that needs no pivots."""
    return _rng.uniform(-0.5, 0.5, (n, n)) + n * np.eye(n)


def symmetric(n: int) -> np.ndarray:
    """A positive definite matrix."""
    a = _rng.normal(size=(n, n))
    return a @ a.T / n + np.eye(n)
