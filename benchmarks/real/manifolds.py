"""Costs on manifolds: a Rayleigh quotient on the sphere, Brockett's cost on orthonormal frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.real.program import Library, Program

RANDOM = numpy.random.default_rng(5)
N, P = 60, 4
MATRIX = RANDOM.normal(size=(N, N))
MATRIX = MATRIX + MATRIX.T
WEIGHTS = numpy.diag(numpy.arange(1.0, P + 1.0))


def rayleigh(library: Library) -> Callable[[Any], Any]:
    np = library.np
    return lambda x: np.dot(x, np.dot(MATRIX, x)) / np.dot(x, x)


def torch_rayleigh(torch: Any) -> Callable[[Any], Any]:
    matrix = torch.from_numpy(MATRIX)
    return lambda x: x.dot(matrix @ x) / x.dot(x)


def brockett(library: Library) -> Callable[[Any], Any]:
    np = library.np
    return lambda x: np.trace(x.T @ MATRIX @ x @ WEIGHTS)


def torch_brockett(torch: Any) -> Callable[[Any], Any]:
    matrix, weights = torch.from_numpy(MATRIX), torch.from_numpy(numpy.diag(WEIGHTS).copy())
    return lambda x: (x * (matrix @ x) * weights).sum()


UNIT = RANDOM.normal(size=N)
UNIT /= numpy.linalg.norm(UNIT)
FRAME = numpy.linalg.qr(RANDOM.normal(size=(N, P)))[0]
PROGRAMS = [
    Program("Rayleigh quotient", rayleigh, UNIT, ("value_and_grad", "hvp"), torch_rayleigh),
    Program("Brockett cost", brockett, FRAME, ("value_and_grad", "hvp"), torch_brockett),
]
