"""Mathieu functions by q and spheroidal eigenvalues by c: perturbation of the symmetric matrix that has them.

Idea: in the basis of the unperturbed problem the operator is D + s P, with a small P; the derivatives of an eigenvalue and of
its vector by s are sums over the other eigenvectors. Within a class of symmetry eigenvalues are simple: they keep their place.
"""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from funcad.primitives.special_rules import function_of
from funcad.primitives.special_table import kernel

__all__: list[str] = []


def _perturbed(matrix: Any, push: Any, place: int) -> tuple[Any, ...]:
    """Derivatives of order 1 and 2 of an eigenvalue, and of orders 0 to 2 of its unit vector, in direction `push`."""
    values, vectors = np.linalg.eigh(matrix)
    gaps = values[place] - values
    gaps[place] = np.inf
    coupled = vectors.T @ push @ vectors
    to_this = coupled[:, place]
    first = to_this / gaps
    slope = coupled[place, place]
    second = 2.0 * (coupled @ first - slope * first) / gaps
    second[place] = -first @ first
    return slope, 2.0 * to_this @ first, vectors[:, place], vectors @ first, vectors @ second


def _mathieu_matrices(m: int, q: float, sine: bool) -> tuple[Any, Any, Any, int]:
    """The frequencies, the matrix, its derivative by q, and which eigenvalue it is."""
    size = 24 + m + int(2 * abs(q) ** 0.5)
    odd = m % 2
    frequencies = 2.0 * np.arange(size) + (1 if odd else 2 if sine else 0)
    push = np.eye(size, k=1) + np.eye(size, k=-1)
    if odd:
        push[0, 0] = -1.0 if sine else 1.0
    elif not sine:
        push[0, 1] = push[1, 0] = np.sqrt(2.0)
    return frequencies, np.diag(frequencies**2) + q * push, push, (m - sine) // 2


def _mathieu_value(sine: bool) -> Any:
    def compute(xp: Any, m: Any, q: Any, *, orders: tuple) -> Any:
        out = np.full(q.shape, np.nan)
        for i, (order, strength) in enumerate(zip(m, q)):
            if order >= sine and order == int(order) and abs(strength) < 1e6 and order < 500:
                _, matrix, push, place = _mathieu_matrices(int(order), strength, sine)
                out[i] = _perturbed(matrix, push, place)[orders[1] - 1]
        return out

    return compute


def _wave(frequencies: Any, angle: float, sine: bool, count: int) -> Any:
    """The derivative of order `count` of cos(f angle) or sin(f angle)."""
    values = frequencies**count * np.cos(frequencies * angle + (count - sine) * pi / 2)
    return values * np.where(frequencies == 0, np.sqrt(0.5), 1.0)


def _mathieu_function(name: str, sine: bool, slope: int) -> Any:
    """Derivatives of SciPy's function (slope 0) or its derivative (1): cosines or sines of the angle x, in degrees."""

    def compute(xp: Any, m: Any, q: Any, x: Any, *, orders: tuple) -> Any:
        out = np.full(q.shape, np.nan)
        theirs = function_of(xp, name)(m, q, x)
        for i, (order, strength, angle) in enumerate(zip(m, q, x * (pi / 180))):
            if not (order >= sine and order == int(order) and abs(strength) < 1e6 and order < 500):
                continue
            frequencies, matrix, push, place = _mathieu_matrices(int(order), strength, sine)
            vectors = _perturbed(matrix, push, place)[2:]

            ours = [vectors[0] @ _wave(frequencies, angle, sine, count) for count in (0, 1)]
            sign = np.sign(ours[0] * theirs[0][i] + ours[1] * theirs[1][i])  # an eigenvector's is arbitrary, SciPy's is not
            out[i] = sign * (vectors[orders[1]] @ _wave(frequencies, angle, sine, slope + orders[2])) * (pi / 180) ** orders[2]
        return out

    return compute


kernel("mathieu_a", counts=(0,))(_mathieu_value(False))
kernel("mathieu_b", counts=(0,))(_mathieu_value(True))
for _name, _sine in (("mathieu_cem", False), ("mathieu_sem", True)):
    kernel(_name, counts=(0,))(_mathieu_function(_name, _sine, 0))
    kernel(f"{_name}_slope", counts=(0,))(_mathieu_function(_name, _sine, 1))


def _spheroidal_value(side: float) -> Any:
    """Eigenvalues of L + side c**2 x**2 in the basis of associated Legendre functions of the order m."""

    def compute(xp: Any, m: Any, n: Any, c: Any, *, orders: tuple) -> Any:
        out = np.full(c.shape, np.nan)
        for i, (order, degree, width) in enumerate(zip(m, n, c)):
            if not (0 <= order <= degree < 500 and abs(width) < 1e3 and order == int(order) and degree == int(degree)):
                continue
            degrees = order + np.arange(30 + int(degree - order + 2 * abs(width)))
            steps = np.sqrt((degrees[1:] ** 2 - order**2) / (4.0 * degrees[1:] ** 2 - 1.0))
            x = np.diag(steps, 1) + np.diag(steps, -1)
            kept = np.arange(int(degree - order) % 2, len(degrees) - 1, 2)
            push = side * (x @ x)[np.ix_(kept, kept)]
            matrix = np.diag(degrees[kept] * (degrees[kept] + 1.0)) + width**2 * push
            slope, bend = _perturbed(matrix, push, int(degree - order) // 2)[:2]  # by c**2
            out[i] = 2.0 * width * slope if orders[2] == 1 else 2.0 * slope + 4.0 * width**2 * bend
        return out

    return compute


kernel("pro_cv", counts=(0, 1))(_spheroidal_value(1.0))
kernel("obl_cv", counts=(0, 1))(_spheroidal_value(-1.0))
