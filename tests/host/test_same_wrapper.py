"""Whether a function begins with arrays that can be written depends on it, not on what its wrapper was around before.

Each program is a module of its own: what is learned about a code is known of all functions that share it.
"""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from funcad import grad, hessian

PROGRAM = """
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


@pytest.mark.parametrize("curved", [True, False], ids=["hessians_first", "gradients"])
@pytest.mark.parametrize("order", [*itertools.permutations(SLOPES)], ids="_".join)
@pytest.mark.parametrize("wrapper", ["closure", "object", "method", "twice"])
def test_in_any_order(program: ModuleType, wrapper: str, order: tuple[str, ...], curved: bool) -> None:
    for name in (*order, *order):
        f = program.WRAPPERS[wrapper](getattr(program, name))
        if curved:
            hessian(f)(2.0)
        assert grad(f)(2.0) == pytest.approx(SLOPES[name], rel=1e-12), name
