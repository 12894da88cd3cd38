"""Whether a function begins with arrays that can be written depends on it, not on what its wrapper was around before.

Each program is a module of its own: what is learned about a code is known of all functions that share it.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from funcad import grad, hessian, jit, jvp, vmap

PROGRAM = """
import functools
import operator
import types

import numpy as np

K0 = np.array([1.0, 2.0, 3.0])

class Model:
    def __init__(self):
        self.fixed, self.F = [], np.zeros(2)

    def load(self, i, v):
        self.F[i] += v

    def solve(self, p):
        U = np.zeros(2)
        U[:] = np.linalg.solve(np.eye(2) * p, self.F)
        self.U = U
        return U

def truss(p):
    m = Model()
    m.load(0, -6.0)
    return m.solve(p) @ m.F

def zeros(p):
    K = np.zeros(3)
    K[0] = p * p
    return K.sum()

def copies(p):
    K = K0.copy()
    K *= p
    return K.sum()

def sine(p):
    return np.sin(p)

class Kernel:
    def scaled(self, p):
        K = K0.copy()
        K *= p
        return K.sum()

class Direct(Kernel):
    def __call__(self, p):
        return self.scaled(p)

class ByName(Kernel):
    def __call__(self, p, name="scaled"):
        return getattr(self, name)(p)

class ByGetter(Kernel):
    def __call__(self, p):
        return operator.attrgetter("scaled")(self)(p)

class Held:
    def __init__(self, f):
        self.f = f

    def __call__(self, p):
        return self.f(p)

    def run(self, p):
        return self.f(p)

def wrapped(f):
    def F(p):
        return f(p)
    return F

kernel, tools = Kernel(), types.ModuleType("tools")
tools.copies = copies
CALLED = {
    "direct": Direct(),
    "by_name": ByName(),
    "by_getter": ByGetter(),
    "of_module": lambda p: getattr(tools, "cop" + "ies")(p) if print("", end="") is None else p,
    "held": Held(kernel.scaled),
    "held_run": Held(kernel.scaled).run,
    "partial": functools.partial(ByName(), name="scaled"),
    "map": lambda p: sum(map(kernel.scaled, [p])),
    "list_map": lambda p: list(map(functools.partial(ByName.__call__, kernel), [p]))[0],
    "key": lambda p: 6.0 * max([p], key=kernel.scaled),
    "along": lambda p: np.apply_along_axis(kernel.scaled, 0, np.stack([p, p, p])),
}
WRAPPERS = {"closure": wrapped, "object": Held, "method": lambda f: Held(f).run, "twice": lambda f: wrapped(Held(f))}
"""


@pytest.fixture
def program(tmp_path: Path) -> ModuleType:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    spec: Any = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SLOPES = {"zeros": 4.0, "truss": -9.0, "copies": 6.0, "sine": np.cos(2.0)}


@pytest.mark.share(4)
@pytest.mark.parametrize("curved", [True, False], ids=["hessians_first", "gradients"])
@pytest.mark.parametrize("order", [*itertools.permutations(SLOPES)], ids="_".join)
@pytest.mark.parametrize("wrapper", ["closure", "object", "method", "twice"])
def test_in_any_order(program: ModuleType, wrapper: str, order: tuple[str, ...], curved: bool) -> None:
    for name in (*order, *order):
        f = program.WRAPPERS[wrapper](getattr(program, name))
        if curved:
            hessian(f)(2.0)
        assert grad(f)(2.0) == pytest.approx(SLOPES[name], rel=1e-12), name


WAYS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: [grad(f)(2.0) for _ in range(3)],
    "jvp": lambda f: [jvp(f, (2.0,), (1.0,))[1] for _ in range(3)],
    "vmap": lambda f: vmap(grad(f))(np.array([1.0, 2.0, 3.0])),
    "jit": lambda f: [j(2.0) for j in [jit(grad(f))] for _ in range(3)],
}


@pytest.mark.filterwarnings("ignore::funcad.errors.NotCompiledWarning")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", "direct by_name by_getter of_module held held_run partial map list_map key along".split())
def test_in_the_first_call(program: ModuleType, name: str, way: str) -> None:
    np.testing.assert_allclose(WAYS[way](program.CALLED[name]), [6.0] * 3, rtol=1e-12)
