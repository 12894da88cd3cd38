"""What a program is to the tests of control flow: a function of values, and arguments that take different ways through it.

    @program((0.5,), (2.0,), (-1.0,))
    def leaky(x): ...

registers `leaky` with three inputs, of equal shapes and dtypes, so that they are also the lanes of a batch. All arguments are
traced (arrays, Python's numbers, dicts and tuples of them). Derivatives are taken of those that are floating.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from funcad import tree

__all__ = ["PROGRAMS", "Program", "program", "fresh", "draws"]

PROGRAMS: list[Program] = []


class Program(NamedTuple):
    """A function, its inputs, and which questions have answers.

    apart: inputs whose way is taken at one point only, or where the slope of the way is not the function's (what a bisection
    gives is made of brackets), so that differences show something else.
    asks: Python asks it for values, so that a trace without values refuses it.
    catches: it catches NumPy's own errors, which a program that is traced without values raises when it runs: too late.
    ragged: inputs give results of different shapes, which no batch can hold.
    speaks: the first argument is a function to be called with a value, an effect.
    """

    name: str
    function: Callable[..., Any]
    inputs: tuple[tuple, ...]
    apart: tuple[int, ...]
    asks: bool
    catches: bool
    ragged: bool
    speaks: bool
    known: dict  # what has been worked out about it

    @property
    def floating(self) -> tuple[int, ...]:
        """Which arguments have derivatives."""
        return tuple([i for i, x in enumerate(self.inputs[0]) if is_floating(x)])

    def call(self, say: Callable[..., None]) -> Callable[..., Any]:
        """The program as a function of its arguments; `say` is what it speaks to, if it does."""
        function = self.function
        return (lambda *args: function(say, *args)) if self.speaks else function


def is_floating(x: Any) -> bool:
    return all([np.result_type(leaf).kind in "fc" for leaf in tree.leaves(x)])


def fresh(args: tuple) -> tuple:
    """Copies of the arrays."""
    return tree.map(lambda x: x.copy() if isinstance(x, np.ndarray) else x, args)


def draws(number: int, *shape: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """Random numbers that are the same in each run."""
    return np.random.default_rng(number).uniform(low, high, shape)


def program(
    *inputs: tuple,
    apart: tuple[int, ...] = (),
    asks: bool = True,
    catches: bool = False,
    ragged: bool = False,
    speaks: bool = False,
) -> Callable[[Callable], Callable]:
    def register(function: Callable) -> Callable:
        assert all([function.__name__ != p.name for p in PROGRAMS]), function.__name__
        assert len(inputs) > 1, "one input takes one way"
        PROGRAMS.append(Program(function.__name__, function, inputs, apart, asks, catches, ragged, speaks, {}))
        return function

    return register
