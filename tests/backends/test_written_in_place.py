"""Writes of elements go over arrays that die, on every engine; what others can see is never written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
import funcad.numpy as fnp
from funcad import fori_loop, grad, jit, jvp, lax, scan, vjp, while_loop
from funcad.configuration import config

ENGINES = ("interpreter", "numpy", "native")
SHAPE = (9, 12)  # larger than what is passed over as a whole (transforms/cotangents.py)


class Choices:
    """A random program: what it does is drawn once, and is the same whenever it runs."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.constant = self.rng.normal(size=SHAPE)
        self.steps = [self.step(int(self.rng.integers(3))) for _ in range(int(self.rng.integers(3, 10)))]
        self.length = int(self.rng.integers(0, 4))
        self.body = [self.step(0) for _ in range(int(self.rng.integers(1, 4)))]
        self.kept = self.rng.integers(0, 4, size=3)

    def index(self, n: int) -> Any:
        kind = self.rng.integers(4)
        i, j = sorted(self.rng.integers(0, n + 1, size=2).tolist())
        if kind == 0:
            return int(self.rng.integers(-n, n))
        if kind == 1:
            return slice(i, j)
        return slice(None, None, -1) if kind == 2 else slice(j - 1 if j else None, None, -2)

    def step(self, depth: int) -> tuple[str, list[Any]]:
        rng = self.rng
        name = str(rng.choice(["set", "add", "mul", "scalar", "several", "window", "view", "sin", "total", "constant", "swap"]))
        if depth and rng.random() < 0.3:
            name = str(rng.choice(["fori", "scan", "while"]))
        index = (self.index(SHAPE[0]), self.index(SHAPE[1]))
        several = rng.integers(-9, 9, size=int(rng.integers(0, 5)))
        return name, [index, several, [int(k) for k in rng.integers(0, 4, size=4)], float(rng.normal()), int(rng.integers(-3, 6))]

    def run(self, steps: list[tuple[str, list[Any]]], arrays: list[Any], i: Any = 0) -> list[Any]:
        arrays = list(arrays)
        for name, (index, several, (a, b, c, _), number, at) in steps:
            x, y = arrays[a], arrays[b]
            if name in ("set", "add", "mul"):
                method = {"set": "set", "add": "add", "mul": "multiply"}[name]
                arrays[a] = getattr(fnp.at(x)[index], method)(y[index] * number + 0.25)
            elif name == "scalar":
                arrays[a] = fnp.at(x)[i, at % 6].set(y[(i + 1) % 4, 1] * number)
            elif name == "several":
                arrays[a] = fnp.at(x)[several, at % 6].add(number * y[several, 2])
            elif name == "window":
                arrays[a] = lax.dynamic_update_slice(x, lax.dynamic_slice(y, (i, at), (2, 3)) * number, (at, i))
            elif name == "view":  # lives past the writes that follow
                arrays[c] = fnp.broadcast_to(x[index[0]] if isinstance(index[0], int) else x[::-1][0], SHAPE)
            elif name == "sin":
                arrays[a] = fnp.sin(x) + y
            elif name == "total":
                arrays[a] = x * fnp.sum(y[index]) * 0.1
            elif name == "constant":
                arrays[a] = self.constant
            elif name == "swap":
                arrays[a], arrays[b] = y, x
            elif name == "fori":
                arrays = list(fori_loop(0, self.length, lambda k, cs: tuple(self.run(self.body, list(cs), k)), tuple(arrays)))
            elif name == "scan":
                def turn(cs: Any, row: Any) -> Any:
                    cs = self.run(self.body, [fnp.at(cs[0])[0].add(row), *cs[1:]], 1)
                    return tuple(cs), cs[1][0]
                found, rows = scan(turn, tuple(arrays), self.constant[: self.length])
                arrays = list(found)
                arrays[b] = fnp.at(arrays[b])[: self.length].add(rows)
            else:
                test = lambda s: s[0] < self.length
                arrays = list(while_loop(test, lambda s: (s[0] + 1, *self.run(self.body, list(s[1:]), s[0])), (0, *arrays))[1:])
        return arrays

    def __call__(self, x: Any, y: Any) -> Any:
        arrays = self.run(self.steps, [x, y, fnp.zeros(SHAPE), x[::-1]])
        return tuple([arrays[k] for k in self.kept])


def same(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def checked(f: Callable[..., Any], expected: Any, args: tuple[np.ndarray, ...], others: tuple[np.ndarray, ...]) -> None:
    """Run several times (each tier of an engine), look whether anything that others see was written, and write in the results."""
    before = [a.copy() for a in (*args, *others)]
    for _ in range(4):
        found = f(*args)
        for a, b in zip(found, expected):
            same(a, b)
        for a, b in zip((*args, *others), before):
            assert a.tobytes() == b.tobytes()
        for a in found:
            assert not any([np.shares_memory(a, b) for b in others])
            if type(a) is np.ndarray and a.flags.writeable and not any([np.shares_memory(a, b) for b in args]):
                if not any([np.shares_memory(a, b) for b in found if b is not a]):
                    a += 1.0


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("engine", ENGINES)
def test_random_programs(seed: int, engine: str) -> None:
    program = Choices(seed)
    x, y, dx, dy = np.random.default_rng(seed + 1000).normal(size=(4, *SHAPE))
    constant = program.constant
    with config.set(engine="interpreter"):
        expected = [np.array(v) for v in program(x, y)]
        total = lambda *xs: sum([fnp.sum(fnp.sin(v)) for v in (*xs, *program(*xs))])
        slope = jvp(total, (x, y), (dx, dy))[1]
    both = grad(total, (0, 1))
    with config.set(engine=engine):
        checked(jit(program), expected, (x, y), (constant,))
        found = both(x, y)
        same(np.sum(found[0] * dx) + np.sum(found[1] * dy), slope)
        checked(both, found, (x, y), (constant,))
        checked(jit(both), found, (x, y), (constant,))
